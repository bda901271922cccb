/* quant compared with a plain definition in double: errors
 * of at most half a step, exact zeros, unbiased rounding. */
#include <float.h>
#include <math.h>

#include "common/codec/codec.h"
#include "common/codec/stage.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

/* The group of element i, as docs/CODECS.md defines it. */
static int64_t group_of(const char *per, struct sl_shape s, int64_t i)
{
	if (strcmp(per, ",per=channel") == 0)
		return i % s.dim[s.ndim - 1];
	if (strcmp(per, ",per=sample") == 0)
		return i / sl_shape_row(&s);
	return strcmp(per, ",block=64") == 0 ? i / 64 : 0;
}

/* Widens a range so that zero is a code, as docs/CODECS.md defines it; false: the range stays as it was. */
static bool hold_zero(double *lo, double *hi, int bits)
{
	double levels = (1 << bits) - 1, range = *hi - *lo, step = INFINITY, unit;
	int64_t near = llrint(-*lo * levels / range), zero = 0;

	if (!(*lo < 0 && *hi > 0) || range < 0x1p-64 || range > FLT_MAX / 2)
		return false;
	for (int64_t z = near - 2; z <= near + 2; z++) {
		double needed =
			z < 1 || z >= (int64_t)levels ? INFINITY : fmax(-*lo / (double)z, *hi / (levels - (double)z));

		if (needed < step) {
			step = needed;
			zero = z;
		}
	}
	if (step * levels > 1.125 * range)
		return false;
	unit = exp2(floor(log2(step)) - (24 - bits) + 1);
	step = ceil(step / unit) * unit;
	*lo = -(double)zero * step;
	*hi = (levels - (double)zero) * step;
	return true;
}

static void check_quant(int bits, const char *per, bool stochastic, struct sl_shape s, enum codec_kind kind)
{
	int64_t n = sl_shape_count(&s), groups = 0;
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4);
	double *lo = malloc((size_t)n * 8), *hi = malloc((size_t)n * 8);
	bool *held = malloc((size_t)n);
	double levels = (1 << bits) - 1;
	char text[64];
	size_t len;

	codec_fill(x, n, kind);
	snprintf(text, sizeof text, "quant:%d%s%s", bits, per, stochastic ? ",round=stochastic" : "");
	len = codec_round_trip(text, s, x, back);
	for (int64_t i = 0; i < n; i++) {
		int64_t g = group_of(per, s, i);

		for (; groups <= g; groups++) {
			lo[groups] = INFINITY;
			hi[groups] = -INFINITY;
		}
		lo[g] = fmin(lo[g], x[i]);
		hi[g] = fmax(hi[g], x[i]);
	}
	for (int64_t g = 0; g < groups; g++)
		held[g] = hold_zero(&lo[g], &hi[g], bits);
	for (int64_t i = 0; i < n; i++) {
		int64_t g = group_of(per, s, i);
		double step = (hi[g] - lo[g]) / levels;
		double most =
			(stochastic ? 1.001 : 0.5 + levels * 0x1p-21) * step + fmax(fabs(lo[g]), fabs(hi[g])) * 0x1p-22;

		if (!(fabs((double)back[i] - x[i]) <= most + 1.5e-45) || back[i] < lo[g] || back[i] > hi[g] ||
		    (held[g] && x[i] == 0 && back[i] != 0))
			fail_msg("%s kind %d: %g became %g, step %g", text, kind, (double)x[i], (double)back[i], step);
	}
	assert_int_equal(len, 16 + 8 * groups + (n * bits + 7) / 8);
	free(held);
	free(lo);
	free(hi);
	free(x);
	free(back);
}

/* Values near zero, like most of a gradient, come back as zero, not all as one small value. */
static void quant_brings_zero_back(void **state)
{
	static const char *const specs[] = {"quant:4",  "quant:8",  "quant:8,block=64",
					    "quant:13", "quant:16", "topk:0.5|quant:8"};
	enum { N = 4096 };
	float x[N], back[N];

	for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
		for (int i = 0; i < N; i++)
			x[i] = i % 64 == 5 ? -0.7f : i % 64 == 9 ? 1.1f : (float)(i % 7 - 2) * 1e-6f;
		codec_round_trip(specs[s], sl_shape2(1, N), x, back);
		for (int i = 0; i < N; i++) {
			if (fabsf(x[i]) < 1e-4f ? back[i] != 0 : fabsf(back[i] - x[i]) > 0.08f)
				fail_msg("%s: %g became %g", specs[s], (double)x[i], (double)back[i]);
		}
	}
}

/* Zero lies near an end of the range: its code is then the second or the last but one. */
static void quant_brings_zero_back_near_an_end(void **state)
{
	const float near[] = {-0.9f, 0, 254}, far[] = {-254, 0, 0.9f};
	float back[3];

	codec_round_trip("quant:8", sl_shape2(1, 3), near, back);
	assert_true(back[1] == 0 && back[0] == -1 && back[2] == 254);
	codec_round_trip("quant:8", sl_shape2(1, 3), far, back);
	assert_true(back[1] == 0 && back[0] == -254 && back[2] == 1);
}

static void quant_takes_the_smallest_range_there_is(void **state)
{
	const float x[] = {0, FLT_TRUE_MIN, FLT_TRUE_MIN, 0};
	float back[4];

	codec_round_trip("quant:16", sl_shape2(1, 4), x, back);
	assert_memory_equal(back, x, sizeof x);
}

static void quant_keeps_half_a_step(void **state)
{
	static const char *const per[] = {"", ",per=sample", ",per=channel", ",block=64"};

	for (int bits = 1; bits <= 16; bits++) {
		for (int kind = 0; kind < KINDS; kind++) {
			for (int s = 0; s < CODEC_ODD_SHAPES; s++)
				check_quant(bits, per[(bits + kind + s) % 4], false, codec_odd_shape(s),
					    (enum codec_kind)kind);
		}
		for (int p = 0; p < 4; p++)
			check_quant(bits, per[p], bits % 2, sl_shape4(3, 9, 11, 40), RANDOM);
	}
	check_quant(8, "", false, sl_shape4(2, 112, 112, 32), RANDOM);
	check_quant(8, ",per=sample", true, sl_shape4(2, 112, 112, 32), RANDOM);
}

static void stochastic_rounding_is_unbiased(void **state)
{
	enum { N = 100000 };
	float *x = malloc(N * 4), *back = malloc(N * 4);
	double sum = 0;

	for (int i = 0; i < N; i++)
		x[i] = 0.3f;
	x[0] = 0;
	x[1] = 1;
	codec_round_trip("quant:1,round=stochastic", sl_shape2(1, N), x, back);
	for (int i = 2; i < N; i++)
		sum += (double)back[i];
	/* 5 standard deviations of a Bernoulli mean */
	assert_true(fabs(sum / (N - 2) - 0.3) < 5 * sqrt(0.21 / N));
	free(x);
	free(back);
}

/* Whatever the values are, the error is uniform within half a step: its mean is zero and its mean square a twelfth. */
static void dither_comes_off_again(void **state)
{
	static const char *const specs[] = {"quant:2,round=dither", "quant:2,block=4096,round=dither",
					    "quant:2,per=channel,round=dither", "quant:2,round=dither|zstd"};
	static const float values[] = {0.05f, 0.3f, 0.5f, 0.9f};
	enum { ROWS = 1 << 16, N = 2 * ROWS };
	float *x = malloc(N * 4), *back = malloc(N * 4);

	for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
		for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
			double sum = 0, squares = 0;

			for (int i = 0; i < N; i++)
				x[i] = i % 4096 < 4 ? (float)(i % 4 / 2) * 3 : values[v]; /* 0 and 3: a step is 1 */
			codec_round_trip(specs[s], sl_shape2(ROWS, 2), x, back);
			for (int i = 0; i < N; i++) {
				const double error = (double)back[i] - (double)x[i];

				assert_true(fabs(error) <= 0.5 + 1e-6);
				sum += error;
				squares += error * error;
			}
			/* 5 standard deviations: of a mean, and of a mean square, whose variance is 1/180 */
			assert_true(fabs(sum / N) < 5 * sqrt(1.0 / 12 / N));
			assert_true(fabs(squares / N - 1.0 / 12) < 5 * sqrt(1.0 / 180 / N));
		}
	}
	free(x);
	free(back);
}

/* No code lies across two bytes where zstd follows, so that it finds equal codes. */
static void codes_are_whole_before_zstd(void **state)
{
	static const int width[] = {0, 1, 2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16};
	enum { N = 4096 };
	const struct sl_extent extent = sl_extent_of(sl_shape2(1, N));
	struct sl_codec_spec plain, packed;
	struct sl_fail fail;
	char text[32];

	for (int bits = 1; bits <= 16; bits++) {
		snprintf(text, sizeof text, "quant:%d|zstd", bits);
		assert_int_equal(sl_codec_parse(text, &packed, &fail), SL_OK);
		snprintf(text, sizeof text, "quant:%d", bits);
		assert_int_equal(sl_codec_parse(text, &plain, &fail), SL_OK);
		assert_int_equal(plain.stage[0].stage->bound(plain.stage[0].arg, false, &extent), 8 + N * bits / 8);
		assert_int_equal(packed.stage[0].stage->bound(packed.stage[0].arg, false, &extent),
				 8 + N * width[bits] / 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quant_keeps_half_a_step),
		cmocka_unit_test(quant_brings_zero_back),
		cmocka_unit_test(quant_brings_zero_back_near_an_end),
		cmocka_unit_test(quant_takes_the_smallest_range_there_is),
		cmocka_unit_test(stochastic_rounding_is_unbiased),
		cmocka_unit_test(dither_comes_off_again),
		cmocka_unit_test(codes_are_whole_before_zstd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
