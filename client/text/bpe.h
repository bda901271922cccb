/* Byte pair encoding of one word: its bytes become tokens, and of all neighbours that a merge joins, those of the
 * lowest rank are joined first, from the left (Sennrich et al. 2016; on bytes Radford et al. 2019). */
#ifndef SL_CLIENT_TEXT_BPE_H
#define SL_CLIENT_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "client/text/spec.h"
#include "common/base/err.h"

struct sl_bpe_pair {
	uint64_t key; /* left, right */
	uint32_t rank;
	int32_t made; /* -1: a free place */
};

/* Constant once made: any thread. */
struct sl_bpe {
	struct sl_bpe_pair *pair; /* [mask + 1], a hash table */
	uint32_t mask;
};

/* Memory of one thread for long words. Begins zeroed. */
struct sl_bpe_room {
	void *data;
	size_t bytes;
};

enum sl_err sl_bpe_make(struct sl_bpe *bpe, const struct sl_tok_merge *merge, int32_t n) SL_MUST_CHECK; /* NOMEM */
void sl_bpe_free(struct sl_bpe *bpe);                                                                   /* idempotent */

/* Merges id[0 … n), in place; *n is how many are left. NOMEM. */
enum sl_err sl_bpe_merge(const struct sl_bpe *bpe, int32_t *id, size_t *n, struct sl_bpe_room *room) SL_MUST_CHECK;

#endif
