#include "client/data/mask.h"

#include <stdbool.h>
#include <stdlib.h>

struct sl_rng_key sl_mask_key(uint64_t seed, uint64_t epoch, int64_t sample)
{
	return (struct sl_rng_key){.seed = seed, .step = epoch << 24 | (uint64_t)sample, .tensor = SL_RNG_MASK};
}

static bool is_special(const struct sl_mask_ids *ids, int32_t token)
{
	for (int i = 0; i < ids->n_special; i++)
		if (ids->special[i] == token)
			return true;
	return false;
}

static int by_word(const void *a, const void *b)
{
	const struct sl_mask_draw *x = a, *y = b;

	return x->word != y->word ? (x->word > y->word) - (x->word < y->word) : x->place - y->place;
}

static int by_place(const void *a, const void *b)
{
	return ((const struct sl_mask_draw *)a)->place - ((const struct sl_mask_draw *)b)->place;
}

static void draw(const struct sl_rng_key *key, int64_t place, uint32_t word[4])
{
	sl_rng_quad(key, (uint32_t)place, word);
}

/* Lists the tokens that can be chosen, each with a random number. `all`: special tokens, too. */
static int64_t candidates(const struct sl_mask_ids *ids, const struct sl_rng_key *key, const int32_t *token, int64_t n,
			  bool all, struct sl_mask_draw *out)
{
	int64_t count = 0;
	uint32_t word[4];

	for (int64_t i = 0; i < n; i++) {
		if (!all && is_special(ids, token[i]))
			continue;
		draw(key, i, word);
		out[count++] = (struct sl_mask_draw){word[0], (int32_t)i};
	}
	return count;
}

int64_t sl_mask_row(const struct sl_mask_ids *ids, float share, int32_t vocab, struct sl_rng_key key, int32_t *token,
		    int64_t n, struct sl_mask_draw *scratch, uint32_t *place, int32_t *label)
{
	int64_t can = candidates(ids, &key, token, n, false, scratch), count = sl_mask_count(share, n);
	uint32_t word[4];

	if (can == 0)
		can = candidates(ids, &key, token, n, true, scratch);
	if (count > can)
		count = can;
	qsort(scratch, (size_t)can, sizeof *scratch, by_word);
	qsort(scratch, (size_t)count, sizeof *scratch, by_place);
	for (int64_t i = 0; i < count; i++) {
		const int32_t at = scratch[i].place;
		uint32_t tenth;

		draw(&key, at, word);
		tenth = sl_rng_below(word[1], 10);
		place[i] = (uint32_t)at;
		label[i] = token[at];
		if (tenth < 8)
			token[at] = ids->mask;
		else if (tenth == 8)
			token[at] = (int32_t)sl_rng_below(word[2], (uint32_t)vocab);
	}
	return count;
}
