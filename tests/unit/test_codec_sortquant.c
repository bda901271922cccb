/* sortquant compared with sorted values: buckets of equal shares,
 * errors of at most half a step of the value's bucket. */
#include <math.h>

#include "common/base/rng.h"
#include "common/codec/select.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

/* Each value comes back within half a step of its bucket, or within a step if rounding is stochastic. Buckets
 * have equal shares of the sorted values. Both are read from the payload, by its documented format. */
static void check_sortquant(int bits, int split, bool stochastic, struct sl_shape shape, enum codec_kind kind)
{
	int64_t n = sl_shape_count(&shape), buckets = 1 << split, count[16] = {0};
	struct sl_codec *c;
	float *x = codec_make(n, kind), *back = malloc((size_t)n * 4), *sorted = malloc((size_t)n * 4);
	uint8_t *bytes;
	char text[48];
	size_t len;

	snprintf(text, sizeof text, "sortquant:%d+%d%s", bits, split, stochastic ? ",round=stochastic" : "");
	c = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_OK);
	for (int64_t i = 0; i < n; i++) {
		float range[2];
		int64_t code = 0;

		for (int b = 0; b < bits + split; b++) {
			int64_t at = i * (bits + split) + b;

			code |= (int64_t)(bytes[16 + 8 * buckets + at / 8] >> at % 8 & 1) << b;
		}
		count[code >> bits]++;
		memcpy(range, bytes + 16 + 8 * (code >> bits), 8);
		assert_true(range[0] <= x[i] && x[i] <= range[1]);
		assert_true(range[0] <= back[i] && back[i] <= range[1]);
		assert_true(fabs((double)back[i] - x[i]) <=
			    ((double)range[1] - range[0]) / ((1 << bits) - 1) *
					    (stochastic ? 1.001 : 0.5 + (1 << bits) * 0x1p-21) +
				    fmax(fabs((double)range[0]), fabs((double)range[1])) * 0x1p-22 + 1.5e-45);
	}
	memcpy(sorted, x, (size_t)n * 4);
	qsort(sorted, (size_t)n, sizeof *sorted, by_value);
	for (int64_t k = 1, below = 0; k < buckets; k++) {
		int64_t target = n * k / buckets, slack = n / 100 + 1, ties = 0;

		below += count[k - 1];
		/* Equal values share a bucket: the edge may move to an end of their run. */
		if (below >= target - slack && below <= target + slack)
			continue;
		while (target + ties < n - 1 && sorted[target + ties] == sorted[target + ties + 1])
			ties++;
		while (target - ties > 0 && below < target && sorted[target - ties] == sorted[target])
			ties++;
		if (llabs(below - target) > ties + slack)
			fail_msg("%s kind %d: %lld below edge %d, not %lld", text, kind, (long long)below, (int)k,
				 (long long)target);
	}
	free(bytes);
	free(x);
	free(back);
	free(sorted);
	sl_codec_close(c);
}

static void sortquant_keeps_shares_and_half_a_step(void **state)
{
	static const int splits[][2] = {{6, 2}, {9, 3}, {12, 4}, {3, 1}, {1, 1}, {15, 1}, {4, 4}};

	for (int i = 0; i < 7; i++) {
		const int bits = splits[i][0], split = splits[i][1];

		for (int which = 0; which < 2 * KINDS; which++) {
			const enum codec_kind kind = (enum codec_kind)(which / 2);

			check_sortquant(bits, split, which % 2, sl_shape4(1, 1, 1, 1), kind);
			check_sortquant(bits, split, which % 2, sl_shape4(2, 3, 5, 7), kind);
			check_sortquant(bits, split, which % 2, sl_shape4(3, 56, 57, 33), kind);
		}
	}
}

/* One outlier widens the bucket of these values, so that rounding to nearest would move them all to its end. */
static void stochastic_rounding_is_unbiased(void **state)
{
	enum { N = 60000 }; /* few enough to be sampled whole: the edge is exact */
	float *x = malloc(N * 4), *back = malloc(N * 4);
	double sum = 0;

	for (int i = 0; i < N; i++)
		x[i] = i % 2 ? 0.03f : -1;
	x[1] = 0;
	x[3] = 1;
	codec_round_trip("sortquant:3+1,round=stochastic", sl_shape2(1, N), x, back);
	for (int i = 5; i < N; i += 2)
		sum += (double)back[i];
	/* 5 standard deviations of the mean of codes 0 and 1, with probability 0.21 and a step of 1/7. */
	assert_true(fabs(sum / (N / 2) - 0.03) < 5 * sqrt(0.21 * 0.79 / (N / 2)) / 7);
	free(x);
	free(back);
}

/* Large values that grow along the tensor are rare and come
 * in whole runs of 16: a sample of runs sees few of them. */
static void sortquant_survives_a_sample_that_misleads(void **state)
{
	struct sl_shape shape = sl_shape4(4, 112, 112, 16);
	int64_t n = sl_shape_count(&shape), count[4] = {0};
	float *x = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("sortquant:6+2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)((i / 16 * 2654435761u) % 64 == 0 ? i : i % 3);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	for (int64_t i = 0; i < n; i++)
		count[bytes[16 + 8 * 4 + i] >> 6]++;
	/* 0, 1 and 2 have about a third each and are the quartiles, so no value lies below the first edge. */
	assert_int_equal(count[0], 0);
	assert_true(count[1] > n / 4 && count[2] > n / 4 && count[3] > n / 4);
	free(bytes);
	free(x);
	sl_codec_close(c);
}

/* The sampled elements are a fifth smaller than the rest, so every edge must be corrected. */
static void sortquant_moves_edges_that_a_sample_misplaced(void **state)
{
	enum { BUCKETS = 4 };
	struct sl_shape shape = sl_shape2(4, 200000);
	int64_t n = sl_shape_count(&shape), count[BUCKETS] = {0};
	const struct sl_rng_key key = {.seed = 4, .tensor = SL_RNG_TEST};
	struct sl_codec *c = codec_open("sortquant:6+2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	float *x = malloc((size_t)n * 4);
	uint32_t *sampled = malloc(SL_SAMPLE * 4);
	uint8_t *bytes;
	size_t len;

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)i;
	sl_sample(x, n, true, sampled);
	for (int64_t i = 0; i < n; i++)
		x[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i));
	for (int i = 0; i < SL_SAMPLE; i++) {
		float at;

		memcpy(&at, &sampled[i], sizeof at);
		x[(int64_t)at] *= 0.8f;
	}
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	for (int64_t i = 0; i < n; i++)
		count[bytes[16 + 8 * BUCKETS + i] >> 6]++;
	for (int64_t k = 0, below = 0; k < BUCKETS; k++) {
		below += count[k];
		assert_true(llabs(below - n * (k + 1) / BUCKETS) <= n / 100 + 1);
	}
	free(bytes);
	free(sampled);
	free(x);
	sl_codec_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sortquant_keeps_shares_and_half_a_step),
		cmocka_unit_test(stochastic_rounding_is_unbiased),
		cmocka_unit_test(sortquant_survives_a_sample_that_misleads),
		cmocka_unit_test(sortquant_moves_edges_that_a_sample_misplaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
