/* A vocabulary: the text of each id, and the id of each text. Constant once made: any thread. */
#ifndef SL_CLIENT_TEXT_VOCAB_H
#define SL_CLIENT_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_VOCAB_MOST = 1 << 21 };

/* One entry as a file has it; text NULL: no token has this id. */
struct sl_vocab_entry {
	const char *text;
	size_t len;
};

struct sl_vocab {
	char *bytes;    /* all texts, each with a NUL behind it */
	uint32_t *at;   /* [n + 1] where a text begins */
	uint32_t *slot; /* [mask + 1] a hash table of id + 1; 0: free */
	uint32_t mask;
	int32_t n;        /* the highest id + 1 */
	int32_t count;    /* ids that have a text */
	uint32_t longest; /* bytes of the longest text */
};

/* Makes a vocabulary of entry[n], by id. NOMEM; LIMIT: more than SL_VOCAB_MOST entries or 4 GiB of text. DATA: two ids
 * have one text; both ids are in *twice. */
enum sl_err sl_vocab_make(struct sl_vocab *v, const struct sl_vocab_entry *entry, int32_t n,
			  int32_t twice[2]) SL_MUST_CHECK;
void sl_vocab_free(struct sl_vocab *v); /* idempotent; a zeroed one is fine */

/* The id of a text; -1: no token has it. */
int32_t sl_vocab_find(const struct sl_vocab *v, const char *text, size_t len);
/* The text of an id; "": no token has it. */
const char *sl_vocab_text(const struct sl_vocab *v, int32_t id);

static inline uint32_t sl_vocab_len(const struct sl_vocab *v, int32_t id)
{
	return v->at[id + 1] - v->at[id] - 1;
}

#endif
