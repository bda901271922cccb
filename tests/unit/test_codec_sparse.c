/* randomk and threshold: which elements are kept, and that both sides know them. */
#include <math.h>

#include "tests/support/codec.h"
#include "tests/support/unit.h"

static void randomk_keeps_k_values_at_places_both_sides_know(void **state)
{
	static const double ratios[] = {1e-9, 0.01, 0.1, 0.5, 0.9, 1};
	struct sl_shape shape = sl_shape4(2, 41, 43, 11);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);

	for (int i = 0; i < 6; i++) {
		int64_t k = llrint(ratios[i] * (double)n), found = 0;
		char text[32];

		k = k < 1 ? 1 : k;
		snprintf(text, sizeof text, "randomk:%g", ratios[i]);
		assert_int_equal(codec_round_trip(text, shape, x, back), 16 + 8 + 4 * k);
		for (int64_t e = 0; e < n; e++) {
			assert_true(back[e] == 0 || back[e] == x[e]);
			found += back[e] != 0;
		}
		assert_int_equal(found, k);
	}
	free(x);
	free(back);
}

static void randomk_gives_every_element_the_same_chance(void **state)
{
	enum { N = 30, STEPS = 6000 };
	float x[N], back[N];

	for (int i = 0; i < N; i++)
		x[i] = 1;
	for (int k = 7; k <= 23; k += 8) {
		int count[N] = {0};
		struct sl_codec *c;
		char text[32];

		snprintf(text, sizeof text, "randomk:%.17g", (double)k / N);
		c = codec_open(text, sl_shape2(1, N), NULL, SL_DIR_HEAD_ACT, NULL);
		for (int step = 0; step < STEPS; step++) {
			struct sl_codec_call call = {.step = (uint64_t)step};
			uint8_t *bytes;
			size_t len;

			assert_int_equal(codec_encode(c, &call, x, sl_shape2(1, N), &bytes, &len), SL_OK);
			assert_int_equal(codec_decode(c, &call, bytes, len, sl_shape2(1, N), back), SL_OK);
			for (int i = 0; i < N; i++)
				count[i] += back[i] != 0;
			free(bytes);
		}
		for (int i = 0; i < N; i++) {
			double p = (double)k / N;

			if (fabs(count[i] - p * STEPS) > 5 * sqrt(p * (1 - p) * STEPS))
				fail_msg("k = %d: element %d was kept %d times, not %g", k, i, count[i], p * STEPS);
		}
		sl_codec_close(c);
	}
}

static void threshold_keeps_what_is_large(void **state)
{
	struct sl_shape shape = sl_shape4(3, 56, 57, 33);
	int64_t n = sl_shape_count(&shape), kept = 0;
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("threshold:1.5", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *d = codec_open("threshold:1.5", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;

	x[7] = -1.5f;
	x[8] = nextafterf(1.5f, 0);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(d, &codec_call0, bytes, len, shape, back), SL_OK);
	for (int64_t i = 0; i < n; i++) {
		assert_true(back[i] == (fabsf(x[i]) >= 1.5f ? x[i] : 0));
		kept += back[i] != 0;
	}
	assert_true(back[7] == -1.5f && back[8] == 0);
	/* Both sides know the resulting size. */
	assert_true(fabs(sl_codec_nominal_bytes(c, 3) - 4.0 * (double)kept) < 1e-3);
	assert_true(fabs(sl_codec_nominal_bytes(d, 3) - 4.0 * (double)kept) < 1e-3);
	free(bytes);
	free(x);
	free(back);
	sl_codec_close(c);
	sl_codec_close(d);
}

/* adaptive keeps elements from a share of the largest magnitude on, whatever the scale of the tensor. */
static void adaptive_goes_by_the_largest(void **state)
{
	struct sl_shape shape = sl_shape4(3, 56, 57, 33);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4), top = 0;
	struct sl_codec *c = codec_open("adaptive:0.5", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *d = codec_open("adaptive:0.5", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;

	for (int64_t i = 0; i < n; i++)
		top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
	for (int power = -60; power <= 60; power += 40) {
		for (int64_t i = 0; i < n; i++)
			x[i] = ldexpf(x[i], power);
		x[n - 1] = ldexpf(-4 * top, power);
		x[7] = ldexpf(2 * top, power);
		x[8] = nextafterf(x[7], 0);
		assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(d, &codec_call0, bytes, len, shape, back), SL_OK);
		for (int64_t i = 0; i < n; i++)
			assert_true(back[i] == (i == 7 || i == n - 1 ? x[i] : 0));
		free(bytes);
		for (int64_t i = 0; i < n; i++)
			x[i] = ldexpf(x[i], -power);
	}
	memset(x, 0, (size_t)n * 4); /* a tensor of zeros keeps nothing */
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(d, &codec_call0, bytes, len, shape, back), SL_OK);
	for (int64_t i = 0; i < n; i++)
		assert_true(back[i] == 0);
	assert_true(sl_codec_nominal_bytes(c, 3) == 0);
	free(bytes);
	x[n / 2] = NAN;
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_ERR_NONFINITE);
	free(x);
	free(back);
	sl_codec_close(c);
	sl_codec_close(d);
}

static void random_places_are_shared_by_a_pair(void **state)
{
	struct sl_shape shape = sl_shape4(2, 9, 9, 8);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, CONSTANT), *back = malloc((size_t)n * 4), *grad_back = malloc((size_t)n * 4);
	static const char *const specs[] = {"randomk:0.25", "threshold:2"};

	for (int s = 0; s < 2; s++) {
		struct sl_codec *act = codec_open(specs[s], shape, NULL, SL_DIR_MID_ACT, NULL);
		struct sl_codec *grad = codec_open(specs[s], shape, NULL, SL_DIR_MID_GRAD, act);
		uint8_t *bytes;
		size_t len;

		for (int64_t i = 0; i < n; i++)
			x[i] = i % 3 ? 3 : 1;
		assert_int_equal(codec_encode(act, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(act, &codec_call0, bytes, len, shape, back), SL_OK);
		free(bytes);
		codec_fill(x, n, CONSTANT);
		assert_int_equal(codec_encode(grad, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(grad, &codec_call0, bytes, len, shape, grad_back), SL_OK);
		free(bytes);
		for (int64_t i = 0; i < n; i++)
			assert_true((back[i] != 0) == (grad_back[i] != 0));
		sl_codec_close(grad);
		sl_codec_close(act);
	}
	free(x);
	free(back);
	free(grad_back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(randomk_keeps_k_values_at_places_both_sides_know),
		cmocka_unit_test(randomk_gives_every_element_the_same_chance),
		cmocka_unit_test(threshold_keeps_what_is_large),
		cmocka_unit_test(adaptive_goes_by_the_largest),
		cmocka_unit_test(random_places_are_shared_by_a_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
