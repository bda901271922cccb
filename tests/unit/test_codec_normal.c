/* hadamard compared with the explicit matrix; normal compared with the least possible error
 * for its number of levels. Both encode a token to the same bytes wherever it lies. */
#include <float.h>
#include <math.h>

#include "common/codec/extent.h"
#include "common/codec/frame.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { PART = 8 }; /* bytes of the frame's entry for a transform: values, side bytes */

static uint8_t *encoded(const char *text, const float *x, struct sl_shape shape, const struct sl_codec_call *call,
			size_t *len)
{
	struct sl_codec *c = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes;

	assert_int_equal(codec_encode(c, call, x, shape, &bytes, len), SL_OK);
	sl_codec_close(c);
	return bytes;
}

/* Element (i, j) of the Hadamard matrix: -1 to the power of the number of bits that i and j have in common. */
static double entry(int64_t i, int64_t j)
{
	return __builtin_popcountll((unsigned long long)(i & j)) % 2 ? -1 : 1;
}

/* Runs are as long as the largest power of two that divides the features: 8 for 24, 64 for 64.
 * The signs are read from transformed unit vectors, as they are the same for all tokens. */
static void hadamard_is_the_matrix(void **state)
{
	static const int64_t features[] = {1, 2, 6, 24, 64};

	for (size_t f = 0; f < sizeof features / sizeof features[0]; f++) {
		const int64_t n = features[f], run = n & -n;
		const struct sl_shape shape = sl_shape2(n + 1, n);
		float *x = calloc((size_t)(n * (n + 1)), sizeof *x), *y;
		int negative = 0;
		size_t len;
		uint8_t *bytes;

		codec_fill(x, n, RANDOM);
		for (int64_t i = 0; i < n; i++)
			x[(i + 1) * n + i] = 1;
		bytes = encoded("hadamard", x, shape, &codec_call0, &len);
		assert_int_equal(len, SL_FRAME_BYTES + PART + (size_t)(n * (n + 1)) * 4);
		y = (float *)(void *)(bytes + SL_FRAME_BYTES + PART);
		for (int64_t i = 0; i < n; i++) {
			const float *column = y + (i + 1) * n, sign = column[i / run * run] < 0 ? -1 : 1;

			negative += sign < 0;
			for (int64_t j = 0; j < n; j++) {
				const bool same = i / run == j / run;
				const double right = same ? sign * entry(i % run, j % run) / sqrt((double)run) : 0;

				assert_true(fabs(column[j] - right) < 1e-7);
			}
		}
		assert_true(n < 24 || (negative > n / 5 && negative < n - n / 5));
		for (int64_t j = 0; j < n; j++) {
			double right = 0;

			for (int64_t i = 0; i < n; i++)
				right += (double)x[i] * (double)y[(i + 1) * n + j];
			assert_true(fabs(y[j] - right) < 1e-5);
		}
		free(bytes);
		free(x);
	}
}

/* A token encoded alone, in another step and chunk and as an
 * evaluation, has the same codes and scale as among others. */
static void a_token_is_coded_by_itself(void **state)
{
	static const char *const texts[] = {"hadamard", "normal:3", "hadamard|normal:4", "quant:4,block=24"};
	static const int size[] = {24 * 4, 4 + 9, 4 + 12, 8 + 12}, scale[] = {0, 4, 4, 8};
	enum { TOKENS = 5, F = 24 };
	const struct sl_codec_call other = {.step = 9, .chunk = 3, .training = false};
	float x[TOKENS * F];

	codec_fill(x, TOKENS * F, RANDOM);
	for (int i = 0; i < 4; i++) {
		const size_t front = SL_FRAME_BYTES + (strncmp(texts[i], "hadamard", 8) == 0 ? PART : 0);
		size_t len, one;
		uint8_t *all = encoded(texts[i], x, sl_shape2(TOKENS, F), &codec_call0, &len);

		assert_int_equal(len, front + (size_t)(TOKENS * size[i]));
		for (int t = 0; t < TOKENS; t++) {
			uint8_t *alone = encoded(texts[i], x + t * F, sl_shape2(1, F), &other, &one);
			const size_t codes = (size_t)(size[i] - scale[i]);

			assert_memory_equal(alone + front, all + front + t * scale[i], scale[i]);
			assert_memory_equal(alone + front + scale[i],
					    all + front + (size_t)(TOKENS * scale[i]) + (size_t)t * codes, codes);
			free(alone);
		}
		free(all);
	}
}

/* Least distortion of 2, 4, 8 and 16 levels for N(0, 1): Max,
 * "Quantizing for minimum distortion", 1960, table I. */
static void normal_loses_what_lloyd_says(void **state)
{
	static const double distortion[] = {0.3634, 0.1175, 0.03454, 0.009497};
	const struct sl_shape shape = sl_shape2(64, 2048);
	const int64_t n = sl_shape_count(&shape);
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);

	for (int64_t i = 0; i < n; i++)
		x[i] *= i < n / 2 ? 1e20f : 1e-20f;
	for (int bits = 1; bits <= 4; bits++) {
		char text[16];

		snprintf(text, sizeof text, "normal:%d", bits);
		codec_round_trip(text, shape, x, back);
		for (int half = 0; half < 2; half++) {
			const double e = codec_relative_error(x + half * n / 2, back + half * n / 2, n / 2);

			if (fabs(e * e / distortion[bits - 1] - 1) > 0.03)
				fail_msg("%s: %g of the squares are lost, not %g", text, e * e, distortion[bits - 1]);
		}
	}
	free(x);
	free(back);
}

/* Every value becomes the nearest level, and a token of zeros stays zero. */
static void normal_takes_the_nearest_level(void **state)
{
	enum { F = 1000 };
	const struct sl_shape shape = sl_shape2(3, F);
	float x[3 * F], back[3 * F];

	codec_fill(x, 3 * F, RANDOM);
	memset(x + F, 0, F * sizeof *x);
	x[F + 7] = -0.0f;
	for (int i = 0; i < F; i++)
		x[2 * F + i] = i % 2 ? FLT_MAX : -FLT_MAX / 3;
	codec_round_trip("normal:3", shape, x, back);
	for (int i = 0; i < F; i++) {
		for (int j = 0; j < F; j++)
			assert_true(fabsf(x[i] - back[i]) <= fabsf(x[i] - back[j]) * 1.0001f);
		assert_true(back[F + i] == 0 && isfinite(back[2 * F + i]));
	}
}

static void false_scales_are_refused(void **state)
{
	static const float scale[] = {-1, -0.0f, INFINITY, NAN};
	const struct sl_shape shape = sl_shape2(2, 6);
	struct sl_codec *c = codec_open("normal:2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	float x[12], back[12];
	uint8_t *bytes;
	size_t len;

	codec_fill(x, 12, RANDOM);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_OK);
	for (int i = 0; i < 4; i++) {
		memcpy(bytes + SL_FRAME_BYTES + 4, &scale[i], 4);
		assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_ERR_PAYLOAD);
	}
	free(bytes);
	sl_codec_close(c);
}

/* Six features are 20 times as large as the others, and one token has 1000 in one of them, as in
 * the residual stream of a decoder. Compares the mean error of the other tokens, by codec. */
static void outliers_spoil_no_other_token(void **state)
{
	static const struct {
		const char *text;
		double least, most;
	} cases[] = {{"quant:4", 0.9, 50},
		     {"quant:4,block=2048", 0.3, 1.2},
		     {"hadamard|quant:4,block=2048", 0.10, 0.14},
		     {"hadamard|normal:4", 0.09, 0.10},
		     {"hadamard|normal:3", 0.17, 0.19},
		     {"hadamard|normal:2", 0.32, 0.35}};
	enum { T = 32, F = 2048 };
	float *x = codec_make(T * F, RANDOM), *back = malloc((size_t)T * F * 4);

	for (int i = 0; i < T * F; i++)
		x[i] *= i % F % 300 == 7 && i % F < 1800 ? 20 : 1;
	x[7] = 1000;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		double error = 0;

		codec_round_trip(cases[i].text, sl_shape2(T, F), x, back);
		for (int t = 1; t < T; t++)
			error += codec_relative_error(x + t * F, back + t * F, F) / (T - 1);
		if (!(error > cases[i].least && error < cases[i].most))
			fail_msg("%s loses %g", cases[i].text, error);
	}
	free(x);
	free(back);
}

static void what_does_not_fit_is_refused(void **state)
{
	static const char *const texts[] = {"normal:5", "normal", "hadamard:2", "topk:0.5|hadamard"};
	const struct sl_extent most = {.shape = sl_shape2(4, 6), .rows = 4};
	const struct sl_extent wide = {.shape = sl_shape2(1, 4901), .rows = 1};
	struct sl_codec_spec spec;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		assert_int_equal(sl_codec_parse(texts[i], &spec, &fail), SL_ERR_CONFIG);
	assert_int_equal(sl_codec_parse("hadamard,ef=true|normal:2", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_feeds_back(&spec, &most, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "write normal:3 (tokens of at most 4900"));
	assert_int_equal(sl_codec_parse("hadamard,ef=true|normal:3", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_feeds_back(&spec, &most, &fail), SL_OK);
	assert_int_equal(sl_codec_feeds_back(&spec, &wide, &fail), SL_ERR_CONFIG);
	assert_int_equal(sl_codec_parse("hadamard,ef=true|normal:4", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_feeds_back(&spec, &wide, &fail), SL_OK);
}

/* Whether a codec may send a token only once; for 24 features. */
static void tokens_alone_are_known(void **state)
{
	static const struct {
		const char *text;
		bool alone;
	} cases[] = {{"none", true},
		     {"f16|zstd", true},
		     {"quant:4,block=8", true},
		     {"hadamard|normal:4", true},
		     {"hadamard|quant:4,block=24", true},
		     {"quant:4", false},
		     {"quant:4,block=16", false},
		     {"quant:4,block=8,round=stochastic", false},
		     {"topk:0.5|normal:4", false},
		     {"normal:3,ef=true", false},
		     {"quant:4,per=sample", false},
		     {"qsgd:7,bucket=8", false}};
	struct sl_codec_spec spec;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(sl_codec_parse(cases[i].text, &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_by_token(&spec, 24), cases[i].alone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hadamard_is_the_matrix),       cmocka_unit_test(a_token_is_coded_by_itself),
		cmocka_unit_test(normal_loses_what_lloyd_says), cmocka_unit_test(normal_takes_the_nearest_level),
		cmocka_unit_test(false_scales_are_refused),     cmocka_unit_test(outliers_spoil_no_other_token),
		cmocka_unit_test(what_does_not_fit_is_refused), cmocka_unit_test(tokens_alone_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
