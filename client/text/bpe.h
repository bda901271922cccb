/* Byte pair encoding of one word. Its bytes become tokens. Then adjacent tokens are merged: those whose merge has the
 * lowest rank first, and of these the leftmost first (Sennrich et al. 2016; on bytes Radford et al. 2019). */
#ifndef SL_CLIENT_TEXT_BPE_H
#define SL_CLIENT_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "client/text/spec.h"
#include "common/base/err.h"

struct sl_bpe_pair {
	uint64_t key; /* left, right */
	uint32_t rank;
	int32_t made; /* the id that both become; -1: the slot is free */
};

/* Constant once made: any thread. */
struct sl_bpe {
	struct sl_bpe_pair *pair; /* [mask + 1], a hash table */
	uint32_t mask;
};

/* One thread's memory for long words. It begins zeroed; the caller frees `data`. */
struct sl_bpe_room {
	void *data;
	size_t bytes;
};

enum sl_err sl_bpe_make(struct sl_bpe *bpe, const struct sl_tok_merge *merge, int32_t n) SL_MUST_CHECK; /* NOMEM */
void sl_bpe_free(struct sl_bpe *bpe);                                                                   /* idempotent */

/* Merges id[0 … *n) in place; *n becomes the number of ids that are left. NOMEM. */
enum sl_err sl_bpe_merge(const struct sl_bpe *bpe, int32_t *id, size_t *n, struct sl_bpe_room *room) SL_MUST_CHECK;

#endif
