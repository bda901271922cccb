/* lowrank: what it restores, the effect of warm starts and iterations, and refusals. */
#include <math.h>

#include "common/codec/stage.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

/* A tensor whose samples have rank r is restored. For other tensors the error
 * is orthogonal to the kept part, so that ‖error‖² + ‖kept‖² = ‖x‖². */
static void lowrank_restores_low_rank(void **state)
{
	static const int64_t shapes[][4] = {{3, 14, 14, 24}, {2, 3, 3, 40}, {2, 7, 7, 49}};

	for (int s = 0; s < 3; s++) {
		struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
		int64_t n = sl_shape_count(&shape), m = shapes[s][1] * shapes[s][2], c = shapes[s][3];
		float *x = codec_make(n, ZERO), *back = malloc((size_t)n * 4), *a = codec_make(m * 3, RANDOM),
		      *b = codec_make(c * 3, RELU);
		double error, kept = 0, all = 0;

		for (int64_t i = 0; i < n; i++) {
			for (int j = 0; j < 3; j++)
				x[i] += a[j * m + i / c % m] * b[j * c + i % c] * (float)(1 + i / (m * c));
		}
		codec_round_trip("lowrank:3", shape, x, back);
		error = codec_relative_error(x, back, n);
		if (error > 1e-5)
			fail_msg("rank 3 of 3: error %g", error);
		codec_fill(x, n, RANDOM);
		codec_round_trip("lowrank:3", shape, x, back);
		for (int64_t i = 0; i < n; i++) {
			kept += (double)back[i] * back[i];
			all += (double)x[i] * x[i];
		}
		error = codec_relative_error(x, back, n);
		assert_true(fabs(error * error + kept / all - 1) < 1e-4);
		assert_true(kept / all > 0.05);
		free(x);
		free(back);
		free(a);
		free(b);
	}
}

/* The next stage codes both factors with one range, so they must have similar sizes, whatever the tensor's
 * size. A quantizer then costs about what it costs elsewhere, whatever the unit of the values. */
static void a_stage_behind_serves_both_factors(void **state)
{
	static const struct {
		const char *spec;
		double most; /* relative error */
	} cases[] = {{"lowrank:3|quant:8", 0.03},
		     {"lowrank:3|sortquant:6+2", 0.05},
		     {"lowrank:3|quant:16", 1e-4},
		     {"lowrank:3|f16", 1e-3},
		     {"lowrank:3|bf16", 5e-3}};
	static const float sizes[] = {1e-8f, 1e-6f, 1e-4f, 0.1f, 1, 100, 1e4f, 1e6f};
	static const int64_t shapes[][4] = {{2, 14, 14, 24}, {2, 3, 3, 40}};

	for (int s = 0; s < 2; s++) {
		struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
		int64_t n = sl_shape_count(&shape), m = shapes[s][1] * shapes[s][2], c = shapes[s][3];
		float *x = codec_make(n, ZERO), *back = codec_make(n, ZERO), *a = codec_make(m * 3, RANDOM),
		      *b = codec_make(c * 3, RELU);

		for (int z = 0; z < 8; z++) {
			for (int64_t i = 0; i < n; i++) {
				x[i] = 0;
				for (int j = 0; j < 3; j++)
					x[i] += sizes[z] * a[j * m + i / c % m] * b[j * c + i % c];
			}
			for (int k = 0; k < 5; k++) {
				double error;

				codec_round_trip(cases[k].spec, shape, x, back);
				error = codec_relative_error(x, back, n);
				if (!(error <= cases[k].most))
					fail_msg("%s, values about %g: error %g", cases[k].spec, (double)sizes[z],
						 error);
			}
		}
		free(x);
		free(back);
		free(a);
		free(b);
	}
}

/* Three components, each a thirtieth of the one before: small ones must not be lost as rounding errors. */
static void lowrank_keeps_small_parts(void **state)
{
	struct sl_shape shape = sl_shape4(1, 14, 14, 24);
	int64_t n = sl_shape_count(&shape), m = 14 * 14, c = 24;
	float *x = codec_make(n, ZERO), *back = malloc((size_t)n * 4), *a = codec_make(m * 3, RANDOM),
	      *b = codec_make(c * 3, RANDOM);
	double error;

	for (int64_t i = 0; i < n; i++)
		x[i] = a[i / c] * b[i % c] + a[m + i / c] * b[c + i % c] / 30 +
		       a[2 * m + i / c] * b[2 * c + i % c] / 900;
	codec_round_trip("lowrank:3", shape, x, back);
	error = codec_relative_error(x, back, n);
	if (error > 2e-4)
		fail_msg("error %g", error);
	free(x);
	free(back);
	free(a);
	free(b);
}

/* A row that a short chunk lacked starts cold, like a row that was never seen. */
static void warmth_ends_with_the_rows(void **state)
{
	enum { ROWS = 3, EACH = 2 * (20 + 8) };
	struct sl_shape s = sl_shape4(ROWS, 4, 5, 8), two = sl_shape_rows(s, 2);
	int64_t n = sl_shape_count(&s);
	struct sl_codec *warm = codec_open("lowrank:2,warm=true", s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *fresh = codec_open("lowrank:2,warm=true", s, NULL, SL_DIR_HEAD_ACT, NULL);
	float *x = codec_make(n, RANDOM), one[ROWS * EACH], other[ROWS * EACH];
	uint8_t *bytes;
	size_t len;

	for (int step = 0; step < 4; step++) {
		assert_int_equal(codec_encode(warm, &codec_call0, x, step == 2 ? two : s, &bytes, &len), SL_OK);
		sl_codec_commit(warm);
		if (step == 3) {
			assert_int_equal(len, 24 + sizeof one);
			memcpy(one, bytes + 24, sizeof one);
		}
		free(bytes);
	}
	assert_int_equal(codec_encode(fresh, &codec_call0, x, s, &bytes, &len), SL_OK);
	memcpy(other, bytes + 24, sizeof other);
	assert_memory_not_equal(one, other, 2 * EACH * sizeof *one);
	assert_memory_equal(one + 2 * EACH, other + 2 * EACH, EACH * sizeof *one);
	free(bytes);
	free(x);
	sl_codec_close(warm);
	sl_codec_close(fresh);
}

static void lowrank_improves_with_iterations_and_warmth(void **state)
{
	struct sl_shape shape = sl_shape4(2, 20, 20, 32);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("lowrank:4,warm=true", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	double one, eight, first = 0, last = 0;

	/* Columns of very different sizes: singular values that fall off. */
	for (int64_t i = 0; i < n; i++)
		x[i] *= powf(0.8f, (float)(i % 32));
	codec_round_trip("lowrank:4", shape, x, back);
	one = codec_relative_error(x, back, n);
	codec_round_trip("lowrank:4,iters=8", shape, x, back);
	eight = codec_relative_error(x, back, n);
	assert_true(eight < one);
	for (int step = 0; step < 8; step++) {
		struct sl_codec_call call = {.step = (uint64_t)step, .training = true};
		uint8_t *bytes, *again;
		size_t len, len2;

		assert_int_equal(codec_encode(c, &call, x, shape, &bytes, &len), SL_OK);
		sl_codec_rollback(c);
		assert_int_equal(codec_encode(c, &call, x, shape, &again, &len2), SL_OK);
		assert_memory_equal(bytes, again, len);
		sl_codec_commit(c);
		assert_int_equal(codec_decode(c, &call, bytes, len, shape, back), SL_OK);
		last = codec_relative_error(x, back, n);
		first = step == 0 ? last : first;
		free(bytes);
		free(again);
	}
	assert_true(last < first && fabs(last - eight) < 1e-3);
	sl_codec_close(c);
	free(x);
	free(back);
}

static void published_ratios_hold(void **state)
{
	struct sl_shape act = sl_shape4(64, 112, 112, 32), mid = sl_shape4(64, 7, 7, 1280);
	struct sl_shape roberta = {3, {32, 128, 768, 0}};
	struct sl_codec *a = codec_open("lowrank:3", act, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *m = codec_open("lowrank:7", mid, NULL, SL_DIR_MID_ACT, NULL);
	struct sl_codec *r = codec_open("lowrank:16", roberta, NULL, SL_DIR_HEAD_ACT, NULL);
	double sent = (double)(sl_codec_bound(a, 64) + sl_codec_bound(m, 64));
	double whole = 4.0 * (double)(sl_shape_count(&act) + sl_shape_count(&mid));

	/* Actual bytes with headers, as a part of those in fp32: 0.1013 and 0.1458. */
	assert_true(fabs(sent / whole - 0.1013) < 1e-4);
	assert_true(fabs((double)sl_codec_bound(r, 32) / (4.0 * (double)sl_shape_count(&roberta)) - 0.1458) < 1e-4);
	sl_codec_close(a);
	sl_codec_close(m);
	sl_codec_close(r);
}

static void overflowing_products_are_refused(void **state)
{
	struct sl_shape shape = sl_shape4(1, 8, 8, 8);
	float x[512];
	struct sl_codec *c = codec_open("lowrank:2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;

	codec_fill(x, 512, HUGE_VALUES);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_ERR_NONFINITE);
	sl_codec_close(c);
}

static void a_rank_beyond_the_sample_is_refused(void **state)
{
	struct sl_codec_env env = {.shape = sl_shape4(1, 2, 2, 8), .slots = 1};
	struct sl_codec_spec spec;
	struct sl_codec *c = NULL;
	struct sl_fail fail = {0};

	assert_int_equal(sl_codec_parse("lowrank:5", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_open(&c, &spec, &env, &fail), SL_ERR_CONFIG);
	assert_null(c);
	assert_non_null(strstr(fail.text, "[1,2,2,8]"));
}

/* A tensor of lower rank makes rows of the warm factor zero.
 * No iteration would change them, so they restart cold. */
static void warmth_does_not_forget_a_rank(void **state)
{
	struct sl_shape shape = sl_shape4(1, 14, 14, 24);
	int64_t n = sl_shape_count(&shape), m = 14 * 14, c = 24;
	float *x = codec_make(n, ZERO), *back = codec_make(n, ZERO), *a = codec_make(m * 3, RANDOM),
	      *b = codec_make(c * 3, RELU);
	struct sl_codec *warm = codec_open("lowrank:3,warm=true", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	static const int ranks[] = {1, 3, 0, 3, 2, 3};

	for (int step = 0; step < 6; step++) {
		struct sl_codec_call call = {.step = (uint64_t)step, .training = true};
		uint8_t *bytes;
		size_t len;

		for (int64_t i = 0; i < n; i++) {
			x[i] = 0;
			for (int j = 0; j < ranks[step]; j++)
				x[i] += a[j * m + i / c % m] * b[j * c + i % c];
		}
		assert_int_equal(codec_encode(warm, &call, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(warm, &call, bytes, len, shape, back), SL_OK);
		sl_codec_commit(warm);
		free(bytes);
		if (ranks[step] != 0 && codec_relative_error(x, back, n) > 1e-5)
			fail_msg("rank %d at step %d: error %g", ranks[step], step, codec_relative_error(x, back, n));
	}
	sl_codec_close(warm);
	free(x);
	free(back);
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lowrank_restores_low_rank),
		cmocka_unit_test(a_stage_behind_serves_both_factors),
		cmocka_unit_test(lowrank_improves_with_iterations_and_warmth),
		cmocka_unit_test(warmth_ends_with_the_rows),
		cmocka_unit_test(lowrank_keeps_small_parts),
		cmocka_unit_test(warmth_does_not_forget_a_rank),
		cmocka_unit_test(published_ratios_hold),
		cmocka_unit_test(overflowing_products_are_refused),
		cmocka_unit_test(a_rank_beyond_the_sample_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
