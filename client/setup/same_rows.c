/* Rows of the evaluation that training has, too. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/setup/setup.h"
#include "common/base/log.h"

enum { MOST_ROWS = 1 << 22 }; /* of training, whose hashes take 32 MB */

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Hashes the inputs of the first n samples, sorted. NULL: one cannot be read, or no memory. */
static uint64_t *hash_rows(const struct sl_set *set, int64_t n)
{
	uint64_t *hash = malloc((size_t)n * sizeof *hash);
	struct sl_room room = {0};
	struct sl_fail why;
	int64_t i = 0;

	for (; hash && i < n; i++) {
		struct sl_value value[SL_FIELD_COUNT];

		if (set->source->sample(set, i, &room, value, &why) != SL_OK)
			break;
		hash[i] = XXH3_64bits(value[SL_FIELD_INPUT].data,
				      (size_t)value[SL_FIELD_INPUT].dim[0] * sizeof(float)); /* or ids, as wide */
	}
	sl_room_close(&room);
	if (hash && i == n) {
		qsort(hash, (size_t)n, sizeof *hash, by_value);
		return hash;
	}
	free(hash);
	return NULL;
}

void sl_setup_warn_of_rows(const struct sl_setup *s)
{
	const struct sl_set *train = &s->set[SL_SPLIT_TRAIN], *test = &s->set[SL_SPLIT_TEST];
	const int64_t n = train->count < MOST_ROWS ? train->count : MOST_ROWS;
	int64_t repeated = 0, shared = 0;
	uint64_t *own, *other;

	if (s->further || sl_conf_splits(s->conf) || !train->source->fingerprint || train->field[0].ndim != 1)
		return;
	own = hash_rows(train, n);
	other = own ? hash_rows(test, test->count) : NULL;
	for (int64_t i = 1; other && i < n; i++)
		repeated += own[i] == own[i - 1];
	for (int64_t i = 0; other && i < test->count; i++)
		shared += bsearch(&other[i], own, (size_t)n, sizeof *own, by_value) != NULL;
	free(own);
	free(other);
	/* Columns of few values repeat rows everywhere: then training has as many of them twice. */
	if ((double)shared / (double)test->count > 0.01 + 2 * (double)repeated / (double)n)
		sl_log(SL_LOG_WARN, "same-rows",
		       "%lld of %lld samples of the evaluation are samples of training, too, so its figures are too "
		       "good: take them out, or divide the data by data.split",
		       (long long)shared, (long long)test->count);
}
