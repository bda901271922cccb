/* An order of samples in which classes alternate (data.sampling: balanced). */
#include <stdlib.h>
#include <string.h>

#include "client/data/loader_impl.h"
#include "common/base/rng.h"

struct sl_balance {
	int64_t count;
	int classes;    /* those that occur */
	int32_t *class; /* [count], of each sample, in [0, classes) */
	int32_t *list;  /* [count], the samples by class */
	int64_t *from;  /* [classes + 1], where each class begins in `list` */
	int64_t *given; /* [classes], samples given out so far */
	int32_t *turn;  /* [classes], the order of classes in the current run */
	int32_t *again; /* [count], how often the sample at this place of the order occurred before it */
};

static enum sl_err read_labels(const struct sl_set *set, int32_t *label, struct sl_fail *fail)
{
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < set->count && !err; i++)
		err = sl_set_label(set, i, &room, &label[i], fail);
	sl_room_close(&room);
	return err;
}

/* Numbers the classes that occur from 0, and counts their samples. */
static void number_classes(struct sl_balance *b, int32_t *name, int classes)
{
	for (int k = 0; k < classes; k++)
		name[k] = -1;
	for (int64_t i = 0; i < b->count; i++)
		name[b->class[i]] = 0;
	for (int k = 0; k < classes; k++)
		if (name[k] == 0)
			name[k] = b->classes++;
	for (int64_t i = 0; i < b->count; i++) {
		b->class[i] = name[b->class[i]];
		b->from[b->class[i] + 1]++;
	}
	for (int k = 0; k < b->classes; k++)
		b->from[k + 1] += b->from[k];
}

enum sl_err sl_balance_open(struct sl_balance **out, const struct sl_set *set, struct sl_fail *fail)
{
	const size_t count = (size_t)set->count, classes = (size_t)set->classes;
	struct sl_balance *b = calloc(1, sizeof *b);
	int32_t *name = calloc(classes + 1, sizeof *name);
	enum sl_err err = SL_OK;

	if (b) {
		b->count = set->count;
		b->class = calloc(count, sizeof *b->class);
		b->list = calloc(count, sizeof *b->list);
		b->from = calloc(classes + 1, sizeof *b->from);
		b->given = calloc(classes, sizeof *b->given);
		b->turn = calloc(classes, sizeof *b->turn);
		b->again = calloc(count, sizeof *b->again);
	}
	if (!b || !name || !b->class || !b->list || !b->from || !b->given || !b->turn || !b->again)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the data loader");
	if (!err)
		err = read_labels(set, b->class, fail);
	if (!err)
		number_classes(b, name, set->classes);
	free(name);
	if (err) {
		sl_balance_close(b);
		return err;
	}
	*out = b;
	return SL_OK;
}

void sl_balance_close(struct sl_balance *b)
{
	if (!b)
		return;
	free(b->class);
	free(b->list);
	free(b->from);
	free(b->given);
	free(b->turn);
	free(b->again);
	free(b);
}

/* Shuffles the order of classes in one run of places (Fisher–Yates). */
static void shuffle_turn(struct sl_balance *b, const struct sl_rng_key *key, int64_t run)
{
	for (int k = 0; k < b->classes; k++)
		b->turn[k] = k;
	for (int last = b->classes - 1; last > 0; last--) {
		const uint32_t other =
			sl_rng_below(sl_rng_u32(key, (uint64_t)(run * b->classes + last)), (uint32_t)last + 1);
		const int32_t swap = b->turn[last];

		b->turn[last] = b->turn[other];
		b->turn[other] = swap;
	}
}

void sl_balance_order(struct sl_balance *b, int32_t *order, uint64_t seed, uint64_t epoch)
{
	const struct sl_rng_key key = {.seed = seed, .step = epoch, .chunk = 2, .tensor = SL_RNG_SHUFFLE};

	memset(b->given, 0, (size_t)b->classes * sizeof *b->given);
	for (int64_t i = 0; i < b->count; i++) {
		const int32_t k = b->class[order[i]];

		b->list[b->from[k] + b->given[k]++] = order[i];
	}
	memset(b->given, 0, (size_t)b->classes * sizeof *b->given);
	for (int64_t i = 0; i < b->count; i++) {
		if (i % b->classes == 0)
			shuffle_turn(b, &key, i / b->classes);
		const int32_t k = b->turn[i % b->classes];
		const int64_t samples = b->from[k + 1] - b->from[k], given = b->given[k]++;

		order[i] = b->list[b->from[k] + given % samples];
		b->again[i] = (int32_t)(given / samples);
	}
}

uint32_t sl_balance_again(const struct sl_balance *b, int64_t place)
{
	return (uint32_t)b->again[place];
}
