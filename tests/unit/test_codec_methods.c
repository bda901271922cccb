/* Every method against a plain definition in double, and properties that hold for all of them. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/pool.h"
#include "common/codec/stage.h"
#include "common/nn/backend.h"
#include "tests/support/codec.h"

static const char *const all_specs[] = {
	"none",
	"f16",
	"bf16",
	"quant:1",
	"quant:8",
	"quant:11,per=channel",
	"quant:4,per=sample,round=stochastic",
	"sortquant:6+2",
	"sortquant:3+1",
	"sortquant:12+4",
	"terngrad",
	"terngrad,bucket=64",
	"qsgd:255",
	"qsgd:10,bucket=512",
	"qsgd:127,norm=max",
	"topk:0.1",
	"topk:0.2|quant:8",
	"topk:0.1|sortquant:6+2",
	"randomk:0.1",
	"randomk:0.7|quant:5",
	"threshold:0.5",
	"threshold:0.9|f16|zstd",
	"lowrank:1",
	"lowrank:2,iters=2|quant:8,per=sample",
	"lowrank:1|quant:8|zstd:3",
	"downsample:2",
	"downsample:3|quant:8,per=channel",
	"cells:2",
	"cells:3|topk:0.2|quant:8",
	"zstd:1",
	"topk:0.1,ef=true|quant:8",
	"lowrank:1,warm=true",
};
enum { SPECS = sizeof all_specs / sizeof all_specs[0] };

static float *make(int64_t n, enum codec_kind kind)
{
	float *x = malloc((size_t)n * sizeof *x);

	codec_fill(x, n, kind);
	return x;
}

static double relative_error(const float *x, const float *y, int64_t n)
{
	double error = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
		norm += (double)x[i] * x[i];
	}
	return sqrt(error / norm);
}

/* ---- all of them */

static void every_kind_of_tensor_comes_back_finite(void **state)
{
	static const int64_t shapes[][4] = {{1, 2, 2, 2}, {2, 3, 5, 7}, {3, 1, 9, 17}, {2, 60, 61, 9}};
	(void)state;

	for (int i = 0; i < SPECS; i++) {
		for (int s = 0; s < 4; s++) {
			struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
			int64_t n = sl_shape_count(&shape);
			float *back = malloc((size_t)n * sizeof *back);

			for (int kind = 0; kind < KINDS; kind++) {
				float *x = make(n, (enum codec_kind)kind);

				/* products of values near FLT_MAX overflow: refused, and tested below */
				if (!(kind == HUGE_VALUES &&
				      (strstr(all_specs[i], "lowrank") || strstr(all_specs[i], "downsample") ||
				       strstr(all_specs[i], "cells")))) {
					codec_round_trip(all_specs[i], shape, x, back);
					for (int64_t e = 0; e < n; e++) {
						if (!isfinite(back[e]))
							fail_msg("%s, kind %d: element %d is %g", all_specs[i], kind,
								 (int)e, (double)back[e]);
						if (kind == ZERO && back[e] != 0)
							fail_msg("%s: zero became %g", all_specs[i], (double)back[e]);
					}
				}
				free(x);
			}
			free(back);
		}
	}
}

static void nonfinite_is_refused_by_all_but_none(void **state)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct sl_shape shape = sl_shape4(2, 60, 61, 12);
	int64_t n = sl_shape_count(&shape), at[] = {0, 70001, n - 1};
	float *x = make(n, RANDOM);
	(void)state;

	for (int i = 0; i < SPECS; i++) {
		struct sl_codec *c = codec_open(all_specs[i], shape, NULL, SL_DIR_MID_ACT, NULL);
		bool lossless = strcmp(all_specs[i], "none") == 0 || strcmp(all_specs[i], "zstd:1") == 0;
		uint8_t *bytes;
		size_t len;

		for (int b = 0; b < 9; b++) {
			float was = x[at[b / 3]];
			enum sl_err err;

			x[at[b / 3]] = bad[b % 3];
			err = codec_encode(c, &codec_call0, x, shape, &bytes, &len);
			if (err != (lossless ? SL_OK : SL_ERR_NONFINITE))
				fail_msg("%s: %s", all_specs[i], sl_err_name(err));
			free(bytes);
			x[at[b / 3]] = was;
		}
		sl_codec_close(c);
	}
	free(x);
}

static void threads_and_slots_do_not_change_bytes(void **state)
{
	struct sl_shape shape = sl_shape4(3, 56, 57, 33);
	int64_t n = sl_shape_count(&shape);
	float *x = make(n, RELU), *back = malloc((size_t)n * 4), *other = malloc((size_t)n * 4);
	static const struct sl_backend_ops ops = {.name = "test"};
	(void)state;

	for (int i = 0; i < SPECS; i++) {
		uint8_t *expect = NULL, *bytes;
		size_t len, expect_len = 0;

		for (int threads = 1; threads <= 3; threads += 2) {
			struct sl_codec_call call = codec_call0;
			struct sl_backend be = {.ops = &ops};
			struct sl_codec *c;

			call.slot = threads == 3;
			assert_int_equal(sl_pool_open(&be.pool, threads, NULL), SL_OK);
			c = codec_open(all_specs[i], shape, &be, SL_DIR_HEAD_ACT, NULL);
			assert_int_equal(codec_encode(c, &call, x, shape, &bytes, &len), SL_OK);
			assert_int_equal(codec_decode(c, &call, bytes, len, shape, threads == 1 ? other : back), SL_OK);
			if (threads == 1) {
				expect = bytes;
				expect_len = len;
			} else {
				assert_int_equal(len, expect_len);
				assert_memory_equal(bytes, expect, len);
				assert_memory_equal(back, other, (size_t)n * 4);
				free(bytes);
			}
			sl_codec_close(c);
			sl_pool_close(be.pool);
		}
		free(expect);
	}
	free(x);
	free(back);
	free(other);
}

static void ratios_are_the_arithmetic(void **state)
{
	struct sl_shape shape = sl_shape4(4, 28, 28, 32);
	int64_t n = sl_shape_count(&shape), blocks = 2;
	const struct {
		const char *spec;
		int64_t bytes; /* at most, and for all but places, at least */
		double nominal;
	} cases[] = {
		{"none", 16 + 4 * n, 4.0 * (double)n},
		{"f16", 16 + 2 * n, 2.0 * (double)n},
		{"quant:3", 16 + 8 + (3 * n + 7) / 8, 3.0 / 8 * (double)n},
		{"quant:8,per=channel", 16 + 8 * 32 + n, (double)n},
		{"quant:5,block=1000", 16 + 8 * ((n + 999) / 1000) + (5 * n + 7) / 8, 5.0 / 8 * (double)n},
		{"sortquant:3+1", 16 + 8 * 2 + (4 * n + 7) / 8, 0.5 * (double)n},
		{"sortquant:6+2", 16 + 8 * 4 + n, (double)n},
		{"terngrad", 16 + 4 + (2 * n + 7) / 8, 0.25 * (double)n},
		{"qsgd:255", 16 + 4 + (9 * n + 7) / 8, 9.0 / 8 * (double)n},
		{"qsgd:127,bucket=512", 16 + 4 * (n / 512) + n, (double)n},
		{"randomk:0.1", 16 + 8 + 4 * llrint(0.1 * (double)n), 4.0 * (double)llrint(0.1 * (double)n)},
		{"topk:0.1", 16 + 8 + 4 * llrint(0.1 * (double)n) + 4 * blocks + n / 8,
		 4.0 * (double)llrint(0.1 * (double)n)},
		{"topk:0.2|quant:8", 16 + 8 + 8 + llrint(0.2 * (double)n) + 4 * blocks + n / 8,
		 (double)llrint(0.2 * (double)n)},
		{"lowrank:3", 16 + 8 + 4 * 4 * 3 * (28 * 28 + 32), 4.0 * 4 * 3 * (28 * 28 + 32)},
		{"lowrank:3|quant:8", 16 + 8 + 8 + 4 * 3 * (28 * 28 + 32), 4.0 * 3 * (28 * 28 + 32)},
		{"downsample:2", 16 + 8 + n, (double)n},
	};
	float *x = make(n, RANDOM), *back = malloc((size_t)n * 4);
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec *c = codec_open(cases[i].spec, shape, NULL, SL_DIR_HEAD_ACT, NULL);
		int64_t len = (int64_t)codec_round_trip(cases[i].spec, shape, x, back);
		bool places = strncmp(cases[i].spec, "topk", 4) == 0;

		if (len > cases[i].bytes || (!places && len != cases[i].bytes))
			fail_msg("%s: %lld bytes, not %lld", cases[i].spec, (long long)len, (long long)cases[i].bytes);
		assert_true(fabs(sl_codec_nominal_bytes(c, 4) - cases[i].nominal) < 1e-6);
		sl_codec_close(c);
	}
	free(x);
	free(back);
}

/* ---- one by one */

static void bf16_rounds_to_nearest_even_and_saturates(void **state)
{
	static const float in[] = {0, -0.0f, 1, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f, FLT_MAX, -FLT_MAX, 1e-40f};
	static const float out[] = {0, -0.0f, 1, 1, 1 + 0x1p-6f, 0x1.fep127f, -0x1.fep127f, 0x1p-133f};
	float back[8];
	(void)state;

	codec_round_trip("bf16", sl_shape2(1, 8), in, back);
	for (int i = 0; i < 8; i++) {
		if (back[i] != out[i] || signbit(back[i]) != signbit(out[i]))
			fail_msg("%a became %a, not %a", (double)in[i], (double)back[i], (double)out[i]);
	}
}

static void f16_agrees_with_the_compiler(void **state)
{
	enum { N = 1 << 20 };
	float *x = malloc(N * 4), *back = malloc(N * 4);
	(void)state;

	/* patterns over the whole range below 65520, denormal halves too */
	for (uint32_t i = 0; i < N; i++) {
		uint32_t bits = (i * 2654435761u) % 0x477fefffu | (i & 1) << 31;

		memcpy(&x[i], &bits, 4);
	}
	codec_round_trip("f16", sl_shape2(1, N), x, back);
	for (int i = 0; i < N; i++) {
		/* spacing of halves at |x|, from the exponent; scaled so that nearbyint rounds as the format does */
		double unit = ldexp(1, (fabs((double)x[i]) < 0x1p-14 ? -14 : ilogb((double)x[i])) - 10);

		if ((double)back[i] != nearbyint((double)x[i] / unit) * unit)
			fail_msg("%a became %a", (double)x[i], (double)back[i]);
	}
	free(x);
	free(back);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

/* Every value comes back within half a step of a bucket that holds it, and buckets hold equal shares of the sorted
 * values: read from the payload, as its format says. */
static void check_sortquant(int bits, int split, struct sl_shape shape, enum codec_kind kind)
{
	int64_t n = sl_shape_count(&shape), buckets = 1 << split, count[16] = {0};
	struct sl_codec *c;
	float *x = make(n, kind), *back = malloc((size_t)n * 4), *sorted = malloc((size_t)n * 4);
	uint8_t *bytes;
	char text[32];
	size_t len;

	snprintf(text, sizeof text, "sortquant:%d+%d", bits, split);
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
			    ((double)range[1] - range[0]) / ((1 << bits) - 1) * (0.5 + (1 << bits) * 0x1p-21) +
				    fmax(fabs((double)range[0]), fabs((double)range[1])) * 0x1p-22 + 1.5e-45);
	}
	memcpy(sorted, x, (size_t)n * 4);
	qsort(sorted, (size_t)n, sizeof *sorted, by_value);
	for (int64_t k = 1, below = 0; k < buckets; k++) {
		int64_t target = n * k / buckets, slack = n / 100 + 1, ties = 0;

		below += count[k - 1];
		/* equal values stay together: the edge may move to the end of a run of them */
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
	(void)state;

	for (int i = 0; i < 7; i++) {
		for (int kind = 0; kind < KINDS; kind++) {
			check_sortquant(splits[i][0], splits[i][1], sl_shape4(1, 1, 1, 1), (enum codec_kind)kind);
			check_sortquant(splits[i][0], splits[i][1], sl_shape4(2, 3, 5, 7), (enum codec_kind)kind);
			check_sortquant(splits[i][0], splits[i][1], sl_shape4(3, 56, 57, 33), (enum codec_kind)kind);
		}
	}
}

/* Values that grow along the tensor, and all of whose runs of 16 are alike: a sample of runs sees few of them. */
static void sortquant_survives_a_sample_that_misleads(void **state)
{
	struct sl_shape shape = sl_shape4(4, 112, 112, 16);
	int64_t n = sl_shape_count(&shape), count[4] = {0};
	float *x = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("sortquant:6+2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;
	(void)state;

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)((i / 16 * 2654435761u) % 64 == 0 ? i : i % 3);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	for (int64_t i = 0; i < n; i++)
		count[bytes[16 + 8 * 4 + i] >> 6]++;
	/* 0, 1, 2 have about a third each, and are the quartiles: nothing lies below the first */
	assert_int_equal(count[0], 0);
	assert_true(count[1] > n / 4 && count[2] > n / 4 && count[3] > n / 4);
	free(bytes);
	free(x);
	sl_codec_close(c);
}

/* Mean over many steps of what comes back: unbiased, level by level. */
static void stochastic_levels_are_unbiased(void **state)
{
	static const char *const specs[] = {"qsgd:4", "qsgd:7,norm=max", "terngrad", "terngrad,bucket=8", "qsgd:255"};
	struct sl_shape shape = sl_shape2(2, 20);
	enum { STEPS = 4000, N = 40 };
	float x[N], back[N];
	(void)state;

	codec_fill(x, N, RANDOM);
	for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
		struct sl_codec *c = codec_open(specs[s], shape, NULL, SL_DIR_HEAD_GRAD, NULL);
		double sum[N] = {0}, squares[N] = {0};

		for (int step = 0; step < STEPS; step++) {
			struct sl_codec_call call = {.step = (uint64_t)step};
			uint8_t *bytes;
			size_t len;

			assert_int_equal(codec_encode(c, &call, x, shape, &bytes, &len), SL_OK);
			assert_int_equal(codec_decode(c, &call, bytes, len, shape, back), SL_OK);
			for (int i = 0; i < N; i++) {
				sum[i] += (double)back[i];
				squares[i] += (double)back[i] * back[i];
			}
			free(bytes);
		}
		for (int i = 0; i < N; i++) {
			double mean = sum[i] / STEPS, deviation = sqrt((squares[i] / STEPS - mean * mean) / STEPS);

			if (fabs(mean - (double)x[i]) > 5 * deviation + 2e-4 * fabs((double)x[i]) + 1e-4)
				fail_msg("%s: %g became %g on average", specs[s], (double)x[i], mean);
		}
		sl_codec_close(c);
	}
}

static void levels_are_multiples_of_the_scale(void **state)
{
	/* within tiles and blocks of the loops, as large as a block, and across */
	static const int64_t buckets[] = {100, 512, 16384, 65536, 100000};
	enum { N = 200001, Q = 10 };
	float *x = make(N, RANDOM), *back = make(N, ZERO);
	(void)state;

	for (int k = 0; k < 5; k++) {
		int64_t bucket = buckets[k];
		char spec[32];

		snprintf(spec, sizeof spec, "qsgd:10,bucket=%lld", (long long)bucket);
		codec_round_trip(spec, sl_shape2(1, N), x, back);
		for (int64_t b = 0; b < N; b += bucket) {
			int64_t stop = b + bucket < N ? b + bucket : N;
			double norm = 0;

			for (int64_t i = b; i < stop; i++)
				norm += (double)x[i] * x[i];
			norm = sqrt(norm);
			for (int64_t i = b; i < stop; i++) {
				double level = fabs((double)back[i]) / norm * Q, wanted = fabs((double)x[i]) / norm * Q;

				assert_true(fabs(level - nearbyint(level)) < 1e-4);
				assert_true(fabs(level - wanted) < 1.0001);
				assert_true(back[i] == 0 || (back[i] < 0) == (x[i] < 0));
			}
		}
	}
	free(x);
	free(back);
}

static void randomk_keeps_k_values_at_places_both_sides_know(void **state)
{
	static const double ratios[] = {1e-9, 0.01, 0.1, 0.5, 0.9, 1};
	struct sl_shape shape = sl_shape4(2, 41, 43, 11);
	int64_t n = sl_shape_count(&shape);
	float *x = make(n, RANDOM), *back = malloc((size_t)n * 4);
	(void)state;

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
	(void)state;

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
	float *x = make(n, RANDOM), *back = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("threshold:1.5", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;
	size_t len;
	(void)state;

	x[7] = -1.5f;
	x[8] = nextafterf(1.5f, 0);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_OK);
	for (int64_t i = 0; i < n; i++) {
		assert_true(back[i] == (fabsf(x[i]) >= 1.5f ? x[i] : 0));
		kept += back[i] != 0;
	}
	assert_true(back[7] == -1.5f && back[8] == 0);
	assert_true(fabs(sl_codec_nominal_bytes(c, 3) - 4.0 * (double)kept) < 1e-3);
	free(bytes);
	free(x);
	free(back);
	sl_codec_close(c);
}

/* A tensor whose samples have rank r comes back; of any other, what is lost is orthogonal to what is kept on the
 * orthonormal side, so that errors and values add up as squares. */
static void lowrank_restores_low_rank(void **state)
{
	static const int64_t shapes[][4] = {{3, 14, 14, 24}, {2, 3, 3, 40}, {2, 7, 7, 49}};
	(void)state;

	for (int s = 0; s < 3; s++) {
		struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
		int64_t n = sl_shape_count(&shape), m = shapes[s][1] * shapes[s][2], c = shapes[s][3];
		float *x = make(n, ZERO), *back = malloc((size_t)n * 4), *a = make(m * 3, RANDOM),
		      *b = make(c * 3, RELU);
		double error, kept = 0, all = 0;

		for (int64_t i = 0; i < n; i++) {
			for (int j = 0; j < 3; j++)
				x[i] += a[j * m + i / c % m] * b[j * c + i % c] * (float)(1 + i / (m * c));
		}
		codec_round_trip("lowrank:3", shape, x, back);
		error = relative_error(x, back, n);
		if (error > 1e-5)
			fail_msg("rank 3 of 3: error %g", error);
		codec_fill(x, n, RANDOM);
		codec_round_trip("lowrank:3", shape, x, back);
		for (int64_t i = 0; i < n; i++) {
			kept += (double)back[i] * back[i];
			all += (double)x[i] * x[i];
		}
		error = relative_error(x, back, n);
		assert_true(fabs(error * error + kept / all - 1) < 1e-4);
		assert_true(kept / all > 0.05);
		free(x);
		free(back);
		free(a);
		free(b);
	}
}

static void lowrank_improves_with_iterations_and_warmth(void **state)
{
	struct sl_shape shape = sl_shape4(2, 20, 20, 32);
	int64_t n = sl_shape_count(&shape);
	float *x = make(n, RANDOM), *back = malloc((size_t)n * 4);
	struct sl_codec *c = codec_open("lowrank:4,warm=true", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	double one, eight, first = 0, last = 0;
	(void)state;

	/* columns of very different size: something to find */
	for (int64_t i = 0; i < n; i++)
		x[i] *= powf(0.8f, (float)(i % 32));
	codec_round_trip("lowrank:4", shape, x, back);
	one = relative_error(x, back, n);
	codec_round_trip("lowrank:4,iters=8", shape, x, back);
	eight = relative_error(x, back, n);
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
		last = relative_error(x, back, n);
		first = step == 0 ? last : first;
		free(bytes);
		free(again);
	}
	assert_true(last < first && fabs(last - eight) < 1e-3);
	sl_codec_close(c);
	free(x);
	free(back);
}

static void ratios_of_the_seeds_hold(void **state)
{
	struct sl_shape act = sl_shape4(64, 112, 112, 32), mid = sl_shape4(64, 7, 7, 1280);
	struct sl_shape roberta = {3, {32, 128, 768, 0}};
	struct sl_codec *a = codec_open("lowrank:3", act, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *m = codec_open("lowrank:7", mid, NULL, SL_DIR_MID_ACT, NULL);
	struct sl_codec *r = codec_open("lowrank:16", roberta, NULL, SL_DIR_HEAD_ACT, NULL);
	double sent = (double)(sl_codec_bound(a, 64) + sl_codec_bound(m, 64));
	double whole = 4.0 * (double)(sl_shape_count(&act) + sl_shape_count(&mid));
	(void)state;

	/* real bytes, headers included: FACTS' 0.1013 and 0.1458 */
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
	(void)state;

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
	(void)state;

	assert_int_equal(sl_codec_parse("lowrank:5", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_open(&c, &spec, &env, &fail), SL_ERR_CONFIG);
	assert_null(c);
	assert_non_null(strstr(fail.text, "[1,2,2,8]"));
}

/* <y, F(x)> = <Fᵀ(y), x> for F = restore ∘ compress of the activation, and what the paired gradient does. */
static void downsample_has_an_adjoint(void **state)
{
	static const int64_t shapes[][4] = {{2, 8, 8, 3}, {1, 7, 5, 4}, {2, 1, 9, 2}, {1, 13, 3, 5}};
	(void)state;

	for (int s = 0; s < 4; s++) {
		struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
		int64_t n = sl_shape_count(&shape);
		float *x = make(n, RANDOM), *y = make(n, RANDOM), *fx = malloc((size_t)n * 4),
		      *fty = malloc((size_t)n * 4);
		struct sl_codec *act = codec_open("downsample:3", shape, NULL, SL_DIR_HEAD_ACT, NULL);
		struct sl_codec *grad = codec_open("downsample:3", shape, NULL, SL_DIR_HEAD_GRAD, act);
		double left = 0, right = 0;
		uint8_t *bytes;
		size_t len;

		for (int64_t i = 0; i < n; i++)
			y[i] = x[(i * 7 + 3) % n];
		assert_int_equal(codec_encode(act, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(act, &codec_call0, bytes, len, shape, fx), SL_OK);
		free(bytes);
		assert_int_equal(codec_encode(grad, &codec_call0, y, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(grad, &codec_call0, bytes, len, shape, fty), SL_OK);
		free(bytes);
		for (int64_t i = 0; i < n; i++) {
			left += (double)y[i] * fx[i];
			right += (double)fty[i] * x[i];
		}
		assert_true(fabs(left - right) < 1e-4 * (1 + fabs(left)));
		sl_codec_close(grad);
		sl_codec_close(act);
		free(x);
		free(y);
		free(fx);
		free(fty);
	}
}

/* The mean of element e's cell of f×f positions. */
static double mean_of_cell(const float *x, const struct sl_shape *s, int64_t f, int64_t e)
{
	int64_t h = s->dim[1], w = s->dim[2], c = s->dim[3], i = e / c / w % h / f * f, j = e / c % w / f * f;
	int64_t count = 0;
	double sum = 0;

	for (int64_t p = i; p < i + f && p < h; p++) {
		for (int64_t q = j; q < j + f && q < w; q++, count++)
			sum += x[((e / (h * w * c) * h + p) * w + q) * c + e % c];
	}
	return sum / (double)count;
}

/* What topk leaves out comes back as the mean of its cell, in the activation and, at the same places, in the gradient,
 * whose payload has none. */
static void cells_bring_back_means(void **state)
{
	struct sl_shape shape = sl_shape4(2, 8, 7, 5);
	enum { CELLS = 2 * 3 * 3 * 5, FACTOR = 3 };
	int64_t n = sl_shape_count(&shape), k = llrint(0.25 * (double)n), kept = 0;
	struct sl_codec *act = codec_open("cells:3|topk:0.25", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad = codec_open("cells:3|topk:0.25|f16", shape, NULL, SL_DIR_HEAD_GRAD, act);
	struct sl_codec *codecs[] = {act, grad};
	float *x = make(n, RANDOM), *back = malloc((size_t)n * 4);
	bool *keeps = calloc((size_t)n, sizeof *keeps);
	double least = INFINITY, most = 0;
	(void)state;

	for (int64_t i = 0; i < n; i++)
		x[i] += 10;
	for (int pass = 0; pass < 2; pass++) {
		uint8_t *bytes;
		size_t len;

		assert_int_equal(codec_encode(codecs[pass], &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(codecs[pass], &codec_call0, bytes, len, shape, back), SL_OK);
		if (pass == 1)
			assert_int_equal(len, 16 + 2 * 8 + 2 * k + 2 * CELLS);
		free(bytes);
		for (int64_t e = 0; e < n; e++) {
			double mean = mean_of_cell(x, &shape, FACTOR, e);
			bool same = fabs((double)back[e] - x[e]) < 0.02;

			if (pass == 0)
				keeps[e] = fabs((double)back[e] - x[e]) < 1e-5;
			kept += pass == 0 && keeps[e];
			/* bf16 of numbers near 10 is good to 1/32 */
			if (keeps[e] ? !same : fabs(back[e] - mean) > 0.035)
				fail_msg("pass %d: %g became %g, mean %g", pass, (double)x[e], (double)back[e], mean);
			if (pass == 0 && keeps[e])
				least = fmin(least, fabs(x[e] - mean));
			else if (pass == 0)
				most = fmax(most, fabs(x[e] - mean));
		}
		x[7] += 3; /* what is large in the gradient does not matter */
	}
	assert_int_equal(kept, k);
	assert_true(most < least + 0.07);
	sl_codec_close(grad);
	sl_codec_close(act);
	free(keeps);
	free(x);
	free(back);
}

static void downsample_keeps_what_is_smooth(void **state)
{
	struct sl_shape shape = sl_shape4(1, 9, 12, 2);
	float x[9 * 12 * 2], back[9 * 12 * 2];
	(void)state;

	for (int i = 0; i < 9 * 12; i++) {
		x[2 * i] = (float)(i / 12) + 2 * (float)(i % 12);
		x[2 * i + 1] = 5;
	}
	codec_round_trip("downsample:3", shape, x, back);
	for (int i = 0; i < 9 * 12; i++) {
		bool inside = i / 12 >= 1 && i / 12 <= 7 && i % 12 >= 1 && i % 12 <= 10;

		assert_true(fabs((double)back[2 * i + 1] - 5) < 1e-5);
		/* a plane is its own interpolation, away from the ends that are held */
		assert_true(!inside || fabs((double)back[2 * i] - x[2 * i]) < 1e-4);
	}
}

static void zstd_shrinks_what_repeats(void **state)
{
	struct sl_shape shape = sl_shape4(2, 16, 16, 16);
	int64_t n = sl_shape_count(&shape);
	float *x = make(n, RELU), *back = malloc((size_t)n * 4);
	(void)state;

	assert_true(codec_round_trip("zstd:3", shape, x, back) < (size_t)n * 4);
	assert_memory_equal(x, back, (size_t)n * 4);
	assert_true(codec_round_trip("quant:2|zstd:19", shape, x, back) < (size_t)n / 4);
	free(x);
	free(back);
}

static void random_places_are_shared_by_a_pair(void **state)
{
	struct sl_shape shape = sl_shape4(2, 9, 9, 8);
	int64_t n = sl_shape_count(&shape);
	float *x = make(n, CONSTANT), *back = malloc((size_t)n * 4), *grad_back = malloc((size_t)n * 4);
	static const char *const specs[] = {"randomk:0.25", "threshold:2"};
	(void)state;

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
		cmocka_unit_test(every_kind_of_tensor_comes_back_finite),
		cmocka_unit_test(nonfinite_is_refused_by_all_but_none),
		cmocka_unit_test(threads_and_slots_do_not_change_bytes),
		cmocka_unit_test(ratios_are_the_arithmetic),
		cmocka_unit_test(bf16_rounds_to_nearest_even_and_saturates),
		cmocka_unit_test(f16_agrees_with_the_compiler),
		cmocka_unit_test(sortquant_keeps_shares_and_half_a_step),
		cmocka_unit_test(sortquant_survives_a_sample_that_misleads),
		cmocka_unit_test(stochastic_levels_are_unbiased),
		cmocka_unit_test(levels_are_multiples_of_the_scale),
		cmocka_unit_test(randomk_keeps_k_values_at_places_both_sides_know),
		cmocka_unit_test(randomk_gives_every_element_the_same_chance),
		cmocka_unit_test(threshold_keeps_what_is_large),
		cmocka_unit_test(lowrank_restores_low_rank),
		cmocka_unit_test(lowrank_improves_with_iterations_and_warmth),
		cmocka_unit_test(ratios_of_the_seeds_hold),
		cmocka_unit_test(overflowing_products_are_refused),
		cmocka_unit_test(a_rank_beyond_the_sample_is_refused),
		cmocka_unit_test(downsample_has_an_adjoint),
		cmocka_unit_test(downsample_keeps_what_is_smooth),
		cmocka_unit_test(cells_bring_back_means),
		cmocka_unit_test(zstd_shrinks_what_repeats),
		cmocka_unit_test(random_places_are_shared_by_a_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
