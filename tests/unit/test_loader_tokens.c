/* Batches of rows of tokens: packed, padded, and grouped by length. */

#include "client/data/loader.h"
#include "tests/support/unit.h"

enum { SAMPLES = 597, BATCH = 16, MOST = 30, VOCAB = 96, PAD = 5 };
static struct sl_set set;

static int open_set(void **state)
{
	const struct sl_set_spec spec = {
		.source = "made_tokens", .split = SL_SPLIT_TRAIN, .max_tokens = MOST, .max_samples = SAMPLES};
	struct sl_fail fail;

	if (sl_set_open(&set, &spec, &fail) != SL_OK)
		return -1;
	set.pad = PAD;
	return 0;
}

static int close_set(void **state)
{
	sl_set_close(&set);
	return 0;
}

static struct sl_loader_spec spec_of(bool by_length, enum sl_pad pad)
{
	return (struct sl_loader_spec){.set = &set,
				       .batch = BATCH,
				       .train = true,
				       .by_length = by_length,
				       .pad = pad,
				       .pad_to = MOST + 2,
				       .seed = 42,
				       .prefetch = 2,
				       .threads = 1};
}

static struct sl_loader *open_loader(const struct sl_loader_spec *spec)
{
	struct sl_loader *loader = NULL;
	struct sl_fail fail = {0};

	if (sl_loader_open(&loader, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return loader;
}

static const struct sl_batch *next(struct sl_loader *loader)
{
	const struct sl_batch *batch = NULL;

	assert_int_equal(sl_loader_next(loader, &batch), SL_OK);
	return batch;
}

static uint32_t longest_of(const struct sl_batch *b)
{
	uint32_t longest = 0;

	for (int64_t r = 0; r < b->rows; r++) {
		const uint32_t n = (uint32_t)set.source->extent(&set, b->samples[r]);

		longest = n > longest ? n : longest;
	}
	return longest;
}

/* Each row holds its sample, and padding after it. */
static void check_rows(const struct sl_batch *b, enum sl_pad pad)
{
	const int32_t *token = b->field[SL_FIELD_INPUT].data;
	const uint32_t each = pad == SL_PAD_MAX ? MOST + 2 : longest_of(b);
	struct sl_room room = {0};

	assert_int_equal(b->begin[0], 0);
	assert_true(!b->pieces == (pad == SL_PAD_NONE));
	for (int64_t r = 0; r < b->rows; r++) {
		struct sl_value value[SL_FIELD_COUNT];
		const uint32_t n = (uint32_t)set.source->extent(&set, b->samples[r]), from = b->begin[r];
		struct sl_fail fail;

		assert_int_equal(set.source->sample(&set, b->samples[r], &room, value, &fail), SL_OK);
		assert_int_equal(b->begin[r + 1] - from, pad ? each : n);
		assert_memory_equal(token + from, value[SL_FIELD_INPUT].data, n * sizeof *token);
		assert_int_equal(sl_batch_labels(b)[r], *(const int32_t *)value[SL_FIELD_TARGET].data);
		for (uint32_t i = from + n; i < b->begin[r + 1]; i++)
			assert_int_equal(token[i], PAD);
		if (pad) {
			assert_int_equal(b->pieces[2 * r], from);
			assert_int_equal(b->pieces[2 * r + 1], from + n);
			assert_int_equal(b->pieces[2 * r + 2], b->begin[r + 1]);
		}
	}
	sl_room_close(&room);
}

/* Reads one epoch and stores its samples in order[]. Returns the number of tokens if each batch
 * were padded to its longest row. */
static int64_t read_epoch(struct sl_loader *loader, enum sl_pad pad, int32_t *order)
{
	int64_t at = 0, padded = 0;

	for (int64_t i = 0; i < sl_loader_batches(loader); i++) {
		const struct sl_batch *b = next(loader);

		check_rows(b, pad);
		memcpy(order + at, b->samples, (size_t)b->rows * sizeof *order);
		at += b->rows;
		padded += b->rows * longest_of(b);
		sl_loader_release(loader, b);
	}
	assert_int_equal(at, SAMPLES);
	return padded;
}

static void rows_are_filled_up(void **state)
{
	for (enum sl_pad pad = SL_PAD_NONE; pad <= SL_PAD_MAX; pad++) {
		const struct sl_loader_spec spec = spec_of(false, pad);
		struct sl_loader *loader = open_loader(&spec);
		int32_t order[SAMPLES];

		read_epoch(loader, pad, order);
		sl_loader_close(loader);
	}
}

static void too_short_a_pad_is_refused(void **state)
{
	struct sl_loader_spec spec = spec_of(false, SL_PAD_MAX);
	struct sl_loader *loader = NULL;
	struct sl_fail fail = {0};

	spec.pad_to = 3;
	assert_int_equal(sl_loader_open(&loader, &spec, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "are not padded to 3"));
}

static void check_permutation(const int32_t *order)
{
	bool seen[SAMPLES] = {false};

	for (int i = 0; i < SAMPLES; i++) {
		assert_in_range(order[i], 0, SAMPLES - 1);
		assert_false(seen[order[i]]);
		seen[order[i]] = true;
	}
}

/* Batches of like length have little padding, and an epoch is still a permutation of the set, another one each time.
 * Neither batches nor rows of a batch are sorted by length, so the chunks of a batch are alike. */
static void batches_are_of_like_length(void **state)
{
	const struct sl_loader_spec spec = spec_of(true, SL_PAD_NONE), mixed = spec_of(false, SL_PAD_NONE);
	struct sl_loader *loader = open_loader(&spec), *other = open_loader(&mixed);
	int32_t order[2][SAMPLES], shuffled[SAMPLES];
	int64_t tokens = 0, grouped = read_epoch(loader, SL_PAD_NONE, order[0]);
	int rising = 0, rows_rising = 0;

	for (int i = 0; i < SAMPLES; i++)
		tokens += set.source->extent(&set, i);
	assert_true(grouped * 10 < tokens * 11);
	assert_true(read_epoch(other, SL_PAD_NONE, shuffled) * 2 > tokens * 3);
	check_permutation(order[0]);
	read_epoch(loader, SL_PAD_NONE, order[1]);
	check_permutation(order[1]);
	assert_memory_not_equal(order[0], order[1], sizeof order[0]);
	for (int i = 1; i < SAMPLES / BATCH; i++)
		rising += set.source->extent(&set, order[0][i * BATCH]) >
			  set.source->extent(&set, order[0][(i - 1) * BATCH]);
	for (int i = 1; i < SAMPLES; i++)
		rows_rising +=
			set.source->extent(&set, order[0][i]) < set.source->extent(&set, order[0][i - 1]) && i % BATCH;
	assert_in_range(rising, 5, SAMPLES / BATCH - 5);
	assert_true(rows_rising > 20);
	sl_loader_close(loader);
	sl_loader_close(other);
}

/* Any batch can be made again, whichever came before it, and with another number of threads. */
static void a_batch_can_be_made_again(void **state)
{
	struct sl_loader_spec spec = spec_of(true, SL_PAD_LONGEST);
	struct sl_loader *loader = open_loader(&spec), *again;
	int32_t order[2][SAMPLES];

	read_epoch(loader, SL_PAD_LONGEST, order[0]);
	read_epoch(loader, SL_PAD_LONGEST, order[1]);
	sl_loader_close(loader);
	spec.threads = 2;
	again = open_loader(&spec);
	for (int64_t i = sl_loader_batches(again) - 1; i >= 0; i -= 5)
		for (int epoch = 1; epoch >= 0; epoch--) {
			const struct sl_batch *b;

			assert_int_equal(sl_loader_seek(again, (uint64_t)epoch, i), SL_OK);
			b = next(again);
			check_rows(b, SL_PAD_LONGEST);
			assert_memory_equal(b->samples, order[epoch] + i * BATCH, (size_t)b->rows * sizeof *b->samples);
			sl_loader_release(again, b);
		}
	sl_loader_close(again);
}

/* The members of a group share each batch: together they have all of its rows. */
static void members_share_batches(void **state)
{
	struct sl_loader_spec spec = spec_of(true, SL_PAD_NONE);
	struct sl_loader *member[2];
	bool seen[SAMPLES] = {false};

	spec.members = 2;
	for (spec.member = 0; spec.member < 2; spec.member++)
		member[spec.member] = open_loader(&spec);
	for (int64_t i = 0; i < sl_loader_batches(member[0]); i++)
		for (int m = 0; m < 2; m++) {
			const struct sl_batch *b = next(member[m]);

			for (int64_t r = 0; r < b->rows; r++) {
				assert_false(seen[b->samples[r]]);
				seen[b->samples[r]] = true;
			}
			sl_loader_release(member[m], b);
		}
	sl_loader_close(member[0]);
	sl_loader_close(member[1]);
}

/* Masked rows: their labels are the original tokens at the masked places, not the sample's label.
 * Evaluations mask the same places every time. */
static void tokens_are_masked(void **state)
{
	struct sl_loader_spec spec = spec_of(false, SL_PAD_LONGEST);
	int32_t first[2][MOST * BATCH];
	struct sl_room room = {0};

	spec.masked = 0.2f;
	set.mask = (struct sl_mask_ids){.mask = 3, .special = {3}, .n_special = 1};
	for (int train = 0; train < 2; train++) {
		struct sl_loader *loader;

		spec.train = train;
		loader = open_loader(&spec);
		for (int epoch = 0; epoch < 2; epoch++) {
			const struct sl_batch *b;

			assert_int_equal(sl_loader_seek(loader, (uint64_t)epoch, 2), SL_OK);
			b = next(loader);
			assert_int_equal(b->chosen[0], 0);
			for (int64_t r = 0; r < b->rows; r++) {
				struct sl_value value[SL_FIELD_COUNT];
				struct sl_fail fail;

				assert_int_equal(set.source->sample(&set, b->samples[r], &room, value, &fail), SL_OK);
				assert_true(b->chosen[r + 1] > b->chosen[r]);
				for (uint32_t i = b->chosen[r]; i < b->chosen[r + 1]; i++) {
					assert_in_range(b->place[i], b->begin[r], b->pieces[2 * r + 1] - 1);
					assert_int_equal(sl_batch_labels(b)[i],
							 ((const int32_t *)value[SL_FIELD_INPUT]
								  .data)[b->place[i] - b->begin[r]]);
				}
			}
			memcpy(first[epoch], b->field[SL_FIELD_INPUT].data, b->begin[b->rows] * sizeof **first);
			if (epoch && !train)
				assert_memory_equal(first[0], first[1], b->begin[b->rows] * sizeof **first);
			sl_loader_release(loader, b);
		}
		sl_loader_close(loader);
	}
	sl_room_close(&room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_filled_up),         cmocka_unit_test(too_short_a_pad_is_refused),
		cmocka_unit_test(batches_are_of_like_length), cmocka_unit_test(a_batch_can_be_made_again),
		cmocka_unit_test(members_share_batches),      cmocka_unit_test(tokens_are_masked),
	};

	return cmocka_run_group_tests(tests, open_set, close_set);
}
