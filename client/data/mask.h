/* Masking for masked language models (Devlin et al., "BERT", 2019). Some tokens of each row are chosen, and the
 * model has to guess them: 80 % of them become the mask token, 10 % a random token, and the others stay. The choice
 * is a function of seed, epoch, sample and the token's position. */
#ifndef SL_CLIENT_DATA_MASK_H
#define SL_CLIENT_DATA_MASK_H

#include <stdint.h>

#include "common/base/rng.h"

enum { SL_MASK_SPECIALS = 24 };
#define SL_MASK_EVALUATION (UINT64_MAX >> 24) /* the epoch number of evaluations: all guess the same tokens */

/* Token ids that the tokenizer defines. */
struct sl_mask_ids {
	int32_t mask;                                 /* -1: it has none */
	int32_t special[SL_MASK_SPECIALS], n_special; /* special tokens are not chosen */
};

/* A token that may be chosen, while a row is masked: its random number and its position. */
struct sl_mask_draw {
	uint32_t word;
	int32_t place;
};

/* How many of a row's tokens are chosen, unless fewer can be. Below: the most that are chosen of `rows` rows, which
 * have `tokens` together. */
static inline int64_t sl_mask_count(float share, int64_t tokens)
{
	const int64_t n = (int64_t)((double)share * (double)tokens + 0.5);

	return n > 0 ? n : 1;
}

static inline int64_t sl_mask_most(float share, int64_t tokens, int64_t rows)
{
	return (int64_t)((double)share * (double)tokens) + rows;
}

/* Masks a row token[n] in place, 1 ≤ n. Writes the chosen positions to `place`, ascending, and the original tokens
 * to `label`. Returns how many they are, at least one. A row that has only special tokens is masked like another.
 * Random tokens are below `vocab`. scratch [n]. Philox key (seed, step = epoch << 24 | sample, stream SL_RNG_MASK),
 * elements from 4 · position: whether it is chosen, its replacement, the random token. */
int64_t sl_mask_row(const struct sl_mask_ids *ids, float share, int32_t vocab, struct sl_rng_key key, int32_t *token,
		    int64_t n, struct sl_mask_draw *scratch, uint32_t *place, int32_t *label);
struct sl_rng_key sl_mask_key(uint64_t seed, uint64_t epoch, int64_t sample);

#endif
