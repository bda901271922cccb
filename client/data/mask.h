/* Tokens that a masked language model has to guess (Devlin et al., "BERT", 2019): of each row some are chosen, of which
 * 80 % become the mask token and 10 % any token; the others stay. Which ones is a function of seed, epoch, sample and
 * the token's place. */
#ifndef SL_CLIENT_DATA_MASK_H
#define SL_CLIENT_DATA_MASK_H

#include <stdint.h>

#include "common/base/rng.h"

enum { SL_MASK_SPECIALS = 24 };
#define SL_MASK_EVALUATION (UINT64_MAX >> 24) /* the epoch of evaluations, all of which guess the same tokens */

/* What a tokenizer says of it. */
struct sl_mask_ids {
	int32_t mask;                                 /* -1: it has none */
	int32_t special[SL_MASK_SPECIALS], n_special; /* are not chosen */
};

/* One token while a row is masked. */
struct sl_mask_draw {
	uint32_t word;
	int32_t place;
};

/* How many of a row's tokens are chosen, unless fewer can be; of rows with so many tokens together, at most. */
static inline int64_t sl_mask_count(float share, int64_t tokens)
{
	const int64_t n = (int64_t)((double)share * (double)tokens + 0.5);

	return n > 0 ? n : 1;
}

static inline int64_t sl_mask_most(float share, int64_t tokens, int64_t rows)
{
	return (int64_t)((double)share * (double)tokens) + rows;
}

/* Masks a row [n] in place, 1 ≤ n. Writes the chosen places, ascending, and the tokens that were there, and returns how
 * many they are: at least one. A row of special tokens alone is masked like another. Others are tokens below `vocab`.
 * scratch [n]. Philox key (seed, step = epoch << 24 | sample, stream SL_RNG_MASK), elements from 4 · place: which are
 * chosen, what becomes of them, the other token. */
int64_t sl_mask_row(const struct sl_mask_ids *ids, float share, int32_t vocab, struct sl_rng_key key, int32_t *token,
		    int64_t n, struct sl_mask_draw *scratch, uint32_t *place, int32_t *label);
struct sl_rng_key sl_mask_key(uint64_t seed, uint64_t epoch, int64_t sample);

#endif
