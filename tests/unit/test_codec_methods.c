/* Properties that hold for every method and for chains of them. */
#include <float.h>
#include <math.h>

#include <zstd.h>

#include "common/base/pool.h"
#include "common/codec/stage.h"
#include "common/exec/backend.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static const char *const all_specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##methods(chain)
#include "tests/support/codec_list.def"
};

enum { SPECS = sizeof all_specs / sizeof all_specs[0] };

static void every_kind_of_tensor_comes_back_finite(void **state)
{
	static const int64_t shapes[][4] = {{1, 2, 2, 2}, {2, 3, 5, 7}, {3, 1, 9, 17}, {2, 60, 61, 9}};

	for (int i = 0; i < SPECS; i++) {
		for (int s = 0; s < 4; s++) {
			struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
			int64_t n = sl_shape_count(&shape);
			float *back = malloc((size_t)n * sizeof *back);

			for (int kind = 0; kind < KINDS; kind++) {
				float *x = codec_make(n, (enum codec_kind)kind);

				/* Products of values near FLT_MAX overflow: that is refused, and tested below. */
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

/* Sizes around those of tiles and blocks. NaNs behind a tensor are neither read nor overwritten. */
static void what_lies_behind_is_left_alone(void **state)
{
	static const int64_t sizes[] = {SL_CODEC_TILE - 1,  SL_CODEC_TILE,  SL_CODEC_TILE + 1,
					SL_CODEC_BLOCK - 1, SL_CODEC_BLOCK, SL_CODEC_BLOCK + 1};
	enum { BEHIND = 16, MOST = SL_CODEC_BLOCK + 1 + BEHIND };
	float *x = malloc(MOST * sizeof *x), *back = malloc(MOST * sizeof *back);

	for (int i = 0; i < SPECS; i++) {
		for (int s = 0; s < 6; s++) {
			int64_t n = sizes[s];

			if (strstr(all_specs[i], "lowrank:2")) /* here the tensor has one channel */
				continue;
			codec_fill(x, n, RANDOM);
			for (int64_t e = n; e < n + BEHIND; e++)
				x[e] = NAN;
			memcpy(back, x, (size_t)(n + BEHIND) * sizeof *back);
			codec_round_trip(all_specs[i], sl_shape4(1, n, 1, 1), x, back);
			if (memcmp(back + n, x + n, BEHIND * sizeof *back) != 0)
				fail_msg("%s writes behind %d elements", all_specs[i], (int)n);
		}
	}
	free(x);
	free(back);
}

static void nonfinite_is_refused_by_all_but_none(void **state)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct sl_shape shape = sl_shape4(2, 60, 61, 12);
	int64_t n = sl_shape_count(&shape), at[] = {0, 70001, n - 1};
	float *x = codec_make(n, RANDOM);

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
		assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK); /* after a refusal */
		free(bytes);
		sl_codec_close(c);
	}
	free(x);
}

static void threads_and_slots_do_not_change_bytes(void **state)
{
	struct sl_shape shape = sl_shape4(3, 56, 57, 33);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RELU), *back = malloc((size_t)n * 4), *other = malloc((size_t)n * 4);
	static const struct sl_backend_ops ops = {.name = "test"};

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
		int64_t bytes; /* exact, but only an upper bound where places are sent */
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
		{"normal:3", 16 + 4 * 4 * 28 * 28 + 3 * n / 8, 3.0 / 8 * (double)n},
		{"hadamard|normal:4", 16 + 8 + 4 * 4 * 28 * 28 + n / 2, 0.5 * (double)n},
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
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);

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

static void zstd_shrinks_what_repeats(void **state)
{
	struct sl_shape shape = sl_shape4(2, 16, 16, 16);
	int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RELU), *back = malloc((size_t)n * 4);

	assert_true(codec_round_trip("zstd:3", shape, x, back) < (size_t)n * 4);
	assert_memory_equal(x, back, (size_t)n * 4);
	assert_true(codec_round_trip("quant:2|zstd:19", shape, x, back) < (size_t)n / 4);
	free(x);
	free(back);
}

/* Compressing block by block gives the same bytes as compressing
 * at once, so other versions can read and write it. */
static void zstd_in_blocks_is_zstd(void **state)
{
	static const int64_t values[] = {1, 5, 32767, 32768, 32769, 65536, 300001};
	static const int levels[] = {1, 3, 7, 13, 16, 19};
	const struct sl_codec_stage *stage = sl_codec_stage_find("zstd", 4);

	for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
		const size_t bytes = (size_t)values[k] * 4, cap = ZSTD_compressBound(bytes);
		uint8_t *whole = malloc(cap), *blocks = malloc(cap);
		float *x = codec_make(values[k], RANDOM);

		for (int64_t i = 0; i < values[k]; i += 3) /* something to compress */
			x[i] = 0.5f * (float)(i % 16);
		for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
			const double arg[SL_CODEC_MAX_ARGS] = {levels[l]};
			const struct sl_stage_env env = {.arg = arg};
			struct sl_buf out = {blocks, 0, cap};
			struct sl_fail fail;
			void *zstd = calloc(1, stage->size);
			size_t len = ZSTD_compress(whole, cap, x, bytes, levels[l]);

			assert_int_equal(stage->open(&zstd, &env, &fail), SL_OK);
			assert_int_equal(stage->pack(zstd, (struct sl_bytes){(void *)x, bytes}, &out), SL_OK);
			assert_int_equal(out.len, len);
			assert_memory_equal(out.data, whole, len);
			stage->close(zstd);
			free(zstd);
		}
		free(x);
		free(whole);
		free(blocks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_tensor_comes_back_finite),
		cmocka_unit_test(what_lies_behind_is_left_alone),
		cmocka_unit_test(nonfinite_is_refused_by_all_but_none),
		cmocka_unit_test(threads_and_slots_do_not_change_bytes),
		cmocka_unit_test(ratios_are_the_arithmetic),
		cmocka_unit_test(zstd_shrinks_what_repeats),
		cmocka_unit_test(zstd_in_blocks_is_zstd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
