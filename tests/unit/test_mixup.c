/* MixUp: how shares are drawn, what a mixed batch holds, also of a further source, and that the number of threads
 * changes nothing. tests/suite compares the loss of mixed rows with PyTorch's soft targets. */

#include <math.h>

#include "client/data/loader.h"
#include "client/data/mixup.h"
#include "tests/support/unit.h"

enum { ROWS = 23, FEATURES = 7, MORE = 3, DRAWS = 20000, SEED = 5 };

static float x[ROWS][FEATURES], further_x[ROWS][MORE];
static int32_t y[ROWS];

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	(void)set;
	(void)room;
	(void)fail;
	out[SL_FIELD_INPUT] = (struct sl_value){.data = x[index], .dim = {FEATURES}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = &y[index]};
	return SL_OK;
}

static const struct sl_source rows_of_numbers = {.name = "rows", .sample = sample};
static struct sl_set set = {.source = &rows_of_numbers,
			    .count = ROWS,
			    .classes = ROWS,
			    .field = {{"row", SL_F32, 1, {FEATURES}}, {"label", SL_I32, 0, {0}}}};

static enum sl_err further_sample(const struct sl_set *from, int64_t index, struct sl_room *room,
				  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	out[SL_FIELD_INPUT] = (struct sl_value){.data = further_x[index], .dim = {MORE}};
	return SL_OK;
}

static const struct sl_source further_rows = {.name = "further", .sample = further_sample};
static struct sl_set further = {
	.source = &further_rows, .count = ROWS, .field = {{"row", SL_F32, 1, {MORE}}, {"label", SL_I32, 0, {0}}}};

static struct sl_loader *open_loader(int64_t batch, int threads, bool train, double mixup)
{
	const struct sl_loader_spec spec = {.set = &set,
					    .batch = batch,
					    .train = train,
					    .mixup = mixup,
					    .seed = SEED,
					    .prefetch = 2,
					    .threads = threads,
					    .place = 1, /* the network's first input is the further source's */
					    .more = {{.set = &further}},
					    .n_more = 1};
	struct sl_loader *loader = NULL;
	struct sl_fail fail = {0};

	if (sl_loader_open(&loader, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return loader;
}

/* Beta(α, α) has mean 1/2 and variance 1 / (4·(2α + 1)). Its 95th percentile is tested, too. */
static void shares_are_beta(void **state)
{
	static const double alpha[] = {0.05, 0.2, 1, 4};
	/* 95th percentiles of 4 million draws of numpy each; the first is 1 in a double */
	static const double highest[] = {1, 0.99999238, 0.95, 0.774744};

	for (int k = 0; k < 4; k++) {
		double sum = 0, squares = 0;
		int above = 0;

		for (int i = 0; i < DRAWS; i++) {
			const double s = sl_mixup_draw(alpha[k], SEED, 3, i);

			assert_true(s >= 0 && s <= 1);
			sum += s;
			squares += (s - 0.5) * (s - 0.5);
			above += s > highest[k];
		}
		assert_true(fabs(sum / DRAWS - 0.5) < 0.015);
		assert_true(fabs(squares / DRAWS * 4 * (2 * alpha[k] + 1) - 1) < 0.04);
		if (k > 0)
			assert_in_range(above, DRAWS * 4 / 100, DRAWS * 6 / 100);
	}
	assert_true(sl_mixup_draw(1e-4, SEED, 0, 0) >= 0); /* not NaN */
}

static void epoch_and_sample_decide(void **state)
{
	assert_true(sl_mixup_draw(1, SEED, 3, 7) == sl_mixup_draw(1, SEED, 3, 7));
	assert_true(sl_mixup_draw(1, SEED, 3, 7) != sl_mixup_draw(1, SEED, 3, 8));
	assert_true(sl_mixup_draw(1, SEED, 3, 7) != sl_mixup_draw(1, SEED, 4, 7));
	assert_true(sl_mixup_draw(1, SEED, 3, 7) != sl_mixup_draw(1, SEED + 1, 3, 7));
}

static float target(const struct sl_batch *b, int64_t r, int32_t label)
{
	return (sl_batch_labels(b)[r] == label ? b->share[r] : 0) + (b->other[r] == label ? 1 - b->share[r] : 0);
}

/* Row r is the mixture of samples r and n − 1 − r. */
static void assert_mixed(const struct sl_batch *b)
{
	for (int64_t r = 0; r < b->rows; r++) {
		const int32_t own = b->samples[r], partner = b->samples[b->rows - 1 - r];
		const double lambda = sl_mixup_draw(0.4, SEED, b->epoch, own);

		for (int k = 0; k < FEATURES; k++) {
			const float want = (float)lambda * x[own][k] + (float)(1 - lambda) * x[partner][k];

			assert_float_equal(sl_batch_images(b)[r * FEATURES + k], own == partner ? x[own][k] : want,
					   1e-6);
		}
		assert_true(b->share[r] >= 0.5f && b->share[r] <= 1);
		assert_float_equal(target(b, r, y[own]), own == partner ? 1 : (float)lambda, 1e-6);
		assert_float_equal(target(b, r, y[own]) + (own == partner ? 0 : target(b, r, y[partner])), 1, 1e-6);
	}
}

/* A further source's row is of the same sample, and is mixed with the same share. */
static void assert_further(const struct sl_batch *b, bool mixed)
{
	assert_ptr_equal(b->input[1], sl_batch_images(b));
	for (int64_t r = 0; r < b->rows; r++) {
		const int32_t own = b->samples[r], partner = b->samples[b->rows - 1 - r];
		const double lambda = mixed && own != partner ? sl_mixup_draw(0.4, SEED, b->epoch, own) : 1;

		for (int k = 0; k < MORE; k++)
			assert_float_equal(
				((const float *)b->input[0])[r * MORE + k],
				(float)lambda * further_x[own][k] + (float)(1 - lambda) * further_x[partner][k], 1e-6);
	}
}

static void rows_are_mixed_with_their_mirror(void **state)
{
	struct sl_loader *one = open_loader(6, 1, true, 0.4), *three = open_loader(6, 3, true, 0.4);

	for (int i = 0; i < 12; i++) { /* three epochs, whose last batches have five rows */
		const struct sl_batch *a, *b;

		assert_int_equal(sl_loader_next(one, &a), SL_OK);
		assert_int_equal(sl_loader_next(three, &b), SL_OK);
		assert_mixed(a);
		assert_further(a, true);
		assert_further(b, true);
		assert_int_equal(a->rows, b->rows);
		assert_memory_equal(sl_batch_images(a), sl_batch_images(b), (size_t)a->rows * sizeof x[0]);
		assert_memory_equal(sl_batch_labels(a), sl_batch_labels(b), (size_t)a->rows * sizeof y[0]);
		assert_memory_equal(a->share, b->share, (size_t)a->rows * sizeof(float));
		sl_loader_release(one, a);
		sl_loader_release(three, b);
	}
	sl_loader_close(one);
	sl_loader_close(three);
}

static void an_evaluation_is_not_mixed(void **state)
{
	struct sl_loader *loader = open_loader(6, 1, false, 0.4);
	const struct sl_batch *b;

	assert_int_equal(sl_loader_next(loader, &b), SL_OK);
	assert_null(b->other);
	assert_null(b->share);
	assert_memory_equal(sl_batch_images(b), x, 6 * sizeof x[0]);
	assert_further(b, false);
	sl_loader_release(loader, b);
	sl_loader_close(loader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_beta),
		cmocka_unit_test(epoch_and_sample_decide),
		cmocka_unit_test(rows_are_mixed_with_their_mirror),
		cmocka_unit_test(an_evaluation_is_not_mixed),
	};

	for (int i = 0; i < ROWS; i++) {
		y[i] = ROWS - 1 - i;
		for (int k = 0; k < FEATURES; k++)
			x[i][k] = (float)(i * 10 + k);
		for (int k = 0; k < MORE; k++)
			further_x[i][k] = (float)(i * i + k);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
