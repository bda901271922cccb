/* The order of an epoch's samples: shuffled, balanced by class, and in batches of similar length. */
#include <stdlib.h>

#include "client/data/loader_impl.h"
#include "common/base/rng.h"

enum { RUN_BATCHES = 50 }; /* batches whose samples are sorted together */

/* Fisher–Yates. */
static void shuffle(int32_t *list, int64_t count, const struct sl_rng_key *key)
{
	uint32_t w[4] = {0};

	for (int64_t i = 0; i < count; i++)
		list[i] = (int32_t)i;
	for (uint32_t last = (uint32_t)count - 1, draw = 0; count && last > 0; last--, draw++) {
		if (draw % 4 == 0)
			sl_rng_quad(key, draw / 4, w);
		uint32_t other = sl_rng_below(w[draw % 4], last + 1);
		int32_t swap = list[last];
		list[last] = list[other];
		list[other] = swap;
	}
}

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int by_length(const void *a, const void *b)
{
	const struct sl_placed *x = a, *y = b;

	return x->length != y->length ? compare(x->length, y->length) : compare(x->place, y->place);
}

static int by_place(const void *a, const void *b)
{
	return compare(((const struct sl_placed *)a)->place, ((const struct sl_placed *)b)->place);
}

/* Makes batches of similar length: sorts runs of the shuffled order by length and cuts them into batches. The rows
 * of a batch return to their shuffled order, so that its chunks are alike, and the batches are shuffled. Samples
 * that make no whole batch stay last. */
static void group(struct sl_loader *loader, uint64_t epoch)
{
	const struct sl_loader_spec *spec = &loader->spec;
	const struct sl_rng_key key = {.seed = spec->seed, .step = epoch, .chunk = 1, .tensor = SL_RNG_SHUFFLE};
	const int64_t batch = spec->batch * (spec->members > 1 ? spec->members : 1), whole = spec->set->count / batch;
	struct sl_placed *placed = loader->placed;

	for (int64_t i = 0; i < whole * batch; i++)
		placed[i] = (struct sl_placed){(int32_t)spec->set->source->extent(spec->set, loader->order[i]),
					       (int32_t)i, loader->order[i]};
	for (int64_t i = 0; i < whole; i += RUN_BATCHES)
		qsort(placed + i * batch, (size_t)((whole - i < RUN_BATCHES ? whole - i : RUN_BATCHES) * batch),
		      sizeof *placed, by_length);
	for (int64_t i = 0; i < whole; i++)
		qsort(placed + i * batch, (size_t)batch, sizeof *placed, by_place);
	shuffle(loader->turn, whole, &key);
	for (int64_t i = 0; i < whole * batch; i++)
		loader->order[i] = placed[loader->turn[i / batch] * batch + i % batch].sample;
}

void sl_loader_order(struct sl_loader *loader, uint64_t epoch)
{
	const struct sl_rng_key key = {.seed = loader->spec.seed, .step = epoch, .tensor = SL_RNG_SHUFFLE};

	shuffle(loader->order, loader->spec.set->count, &key);
	if (loader->balance)
		sl_balance_order(loader->balance, loader->order, loader->spec.seed, epoch);
	if (loader->spec.by_length)
		group(loader, epoch);
}
