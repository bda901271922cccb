/* qsgd and terngrad: unbiased, and values are multiples of the scale of their bucket. */
#include <math.h>

#include "common/base/log.h"
#include "common/codec/extent.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

/* The mean of the decoded values over many steps is the input, element by element. */
static void stochastic_levels_are_unbiased(void **state)
{
	static const char *const specs[] = {"qsgd:4", "qsgd:7,norm=max", "terngrad", "terngrad,bucket=8", "qsgd:255"};
	struct sl_shape shape = sl_shape2(2, 20);
	enum { STEPS = 4000, N = 40 };
	float x[N], back[N];

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

			if (fabs(mean - (double)x[i]) > 5 * deviation + 1e-6 * fabs((double)x[i]))
				fail_msg("%s: %g became %g on average", specs[s], (double)x[i], mean);
		}
		sl_codec_close(c);
	}
}

/* The mean over STEPS steps of the elements [from, to), which all are x[from]. */
static void check_mean(const char *spec, const float *x, const double *sum, const double *squares, int64_t from,
		       int64_t to, int steps)
{
	const double n = (double)(to - from) * steps, wanted = (double)x[from];
	double mean = 0, square = 0;

	for (int64_t i = from; i < to; i++) {
		mean += sum[i] / n;
		square += squares[i] / n;
	}
	if (fabs(mean - wanted) > 5 * sqrt((square - mean * mean) / n) + 1e-6 * fabs(wanted))
		fail_msg("%s: %g became %g on average", spec, wanted, mean);
}

/* Values far below a step cross it as often as they must. Those far above many steps are not rounded up too often, as a
 * sum of value and random number would be. */
static void small_values_and_large_codes_are_unbiased(void **state)
{
	static const struct {
		const char *spec;
		float large;
	} cases[] = {{"qsgd:1", 0.002f},
		     {"qsgd:32767,norm=max", 0.7f},
		     {"terngrad", 0.7f},
		     {"quant:1,round=stochastic", 0.7f},
		     {"quant:16,round=stochastic", 0.7f},
		     {"sortquant:1+1,round=stochastic", 0.7f}};
	enum { N = 1 << 17, STEPS = 256, SMALL = N / 4 * 3, RUN = (N - SMALL) / 4 };
	const struct sl_shape shape = sl_shape2(1, N);
	float *x = codec_make(N, ZERO), *back = codec_make(N, ZERO);
	double *sum = calloc(N, sizeof *sum), *squares = calloc(N, sizeof *squares);

	assert_true(sum && squares);
	for (size_t s = 0; s < sizeof cases / sizeof cases[0]; s++) {
		struct sl_codec *c = codec_open(cases[s].spec, shape, NULL, SL_DIR_HEAD_GRAD, NULL);
		const float values[] = {1e-6f, 1e-5f, 3e-4f, cases[s].large};

		for (int i = 0; i < N - 1; i++)
			x[i] = values[i < SMALL ? 0 : (i - SMALL) / RUN];
		x[N - 1] = 1;
		memset(sum, 0, N * sizeof *sum);
		memset(squares, 0, N * sizeof *squares);
		for (int step = 0; step < STEPS; step++) {
			struct sl_codec_call call = {.step = (uint64_t)step};
			uint8_t *bytes;
			size_t len;

			assert_int_equal(codec_encode(c, &call, x, shape, &bytes, &len), SL_OK);
			assert_int_equal(codec_decode(c, &call, bytes, len, shape, back), SL_OK);
			for (int i = 0; i < N; i++) {
				sum[i] += (double)back[i];
				squares[i] += (double)back[i] * (double)back[i];
			}
			free(bytes);
		}
		for (int v = 0; v < 4; v++)
			check_mean(cases[s].spec, x, sum, squares, v ? SMALL + v * RUN : 0,
				   v < 3 ? SMALL + (v + 1) * RUN : N - 1, STEPS);
		sl_codec_close(c);
	}
	free(x);
	free(back);
	free(sum);
	free(squares);
}

static void levels_are_multiples_of_the_scale(void **state)
{
	/* Buckets within the loops' tiles and blocks, as large as a block, and across blocks. */
	static const int64_t buckets[] = {100, 512, 16384, 65536, 100000};
	enum { N = 200001, Q = 10 };
	float *x = codec_make(N, RANDOM), *back = codec_make(N, ZERO);

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

/* A bucket or block larger than the tensor equals one as large as the tensor: the
 * same payload, no more memory. So does a last bucket that is only partly filled. */
static void groups_may_be_larger_than_the_tensor(void **state)
{
	static const char *const specs[][2] = {
		{"qsgd:10", "qsgd:10,bucket=16777216"},
		{"qsgd:10,norm=max", "qsgd:10,bucket=1000000,norm=max"},
		{"terngrad", "terngrad,bucket=16777216"},
		{"quant:8", "quant:8,block=16777216"},
		{"threshold:0.5|quant:8", "threshold:0.5|quant:8,block=16777216"},
	};
	static const int64_t counts[] = {9, 1000, 65536, 65537, 200001};

	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 5; k++) {
			struct sl_shape shape = sl_shape2(1, counts[k]);
			float *x = codec_make(counts[k], RANDOM);
			uint8_t *bytes[2];
			size_t len[2];

			for (int one = 0; one < 2; one++) {
				struct sl_codec *c = codec_open(specs[i][one], shape, NULL, SL_DIR_MID_ACT, NULL);

				assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes[one], &len[one]),
						 SL_OK);
				sl_codec_close(c);
			}
			assert_int_equal(len[0], len[1]);
			assert_memory_equal(bytes[0], bytes[1], len[0]);
			free(bytes[0]);
			free(bytes[1]);
			free(x);
		}
	}
}

static void a_last_group_may_be_a_fraction_of_the_others(void **state)
{
	enum { GROUP = 1 << 20, N = GROUP + 3 };
	float *x = codec_make(N, RANDOM), *back = codec_make(N, ZERO), *alone = codec_make(3, ZERO);

	codec_round_trip("quant:8,block=1048576", sl_shape2(1, N), x, back);
	codec_round_trip("quant:8", sl_shape2(1, 3), x + GROUP, alone);
	assert_memory_equal(back + GROUP, alone, 3 * sizeof *alone);
	free(x);
	free(back);
	free(alone);
}

static double norm_of(const float *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

/* ‖residual‖ / ‖x‖: the residual is the sum of all tensors minus the sum of what was decoded.
 * out[0] is the mean over the ten steps before `early`, out[1] that before 3 · early. */
static void follow_residual(const char *text, struct sl_shape shape, int early, double out[2])
{
	const int64_t n = sl_shape_count(&shape);
	struct sl_codec *c = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	float *x = codec_make(n, RANDOM), *back = codec_make(n, ZERO), *owed = codec_make(n, ZERO);

	out[0] = out[1] = 0;
	for (int step = 0; step < 3 * early; step++) {
		const struct sl_codec_call call = {.step = (uint64_t)step, .training = true};
		const int left = (step < early ? early : 3 * early) - step;
		uint8_t *bytes;
		size_t len;

		assert_int_equal(codec_encode(c, &call, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(c, &call, bytes, len, shape, back), SL_OK);
		sl_codec_commit(c);
		free(bytes);
		for (int64_t i = 0; i < n; i++)
			owed[i] += x[i] - back[i];
		if (left <= 10)
			out[step >= early] += norm_of(owed, n) / norm_of(x, n) / 10;
	}
	free(owed);
	free(x);
	free(back);
	sl_codec_close(c);
}

static void count_line(void *arg)
{
	++*(int *)arg;
}

/* With a codec that is allowed, the residual after 120 steps is no larger than
 * after 40. With one that is refused it grows, and one line in the log says so. */
static void feedback_is_refused_where_it_diverges(void **state)
{
	static const struct {
		const char *text, *says; /* NULL: it is allowed */
	} rows[] = {
		{"qsgd:15,ef=true",
		 "leave ef=true out (its errors have mean zero, so it needs none), or write norm=max"},
		{"qsgd:15,bucket=2048,ef=true", "may lose as much of 8192 values"},
		{"qsgd:15,bucket=512,ef=true", NULL},
		{"qsgd:15,norm=max,ef=true", NULL},
		{"qsgd:255,ef=true", NULL},
		{"qsgd:2,norm=max,ef=true", NULL},
		{"qsgd:1,norm=max,ef=true", "qsgd may lose"},
		{"terngrad,ef=true", "or write bucket=8"},
		{"terngrad,bucket=8,ef=true", NULL},
		{"topk:0.5,ef=true|qsgd:15", "may lose as much of 4096 values"},
		{"topk:0.1,ef=true|qsgd:15", NULL},
		{"topk:0.1,ef=true|qsgd:15,bucket=256", NULL},
		{"quant:1,ef=true", "or write quant:2"},
		{"quant:1,round=stochastic,ef=true", "or write quant:2"},
		{"quant:2,ef=true", NULL},
		{"quant:2,round=stochastic,ef=true", NULL},
		{"quant:2,per=channel,ef=true", NULL},
		{"sortquant:1+1,ef=true", NULL},
		{"sortquant:2+1,ef=true", NULL},
		{"sortquant:1+1,round=stochastic,ef=true", "or write sortquant:2+1"},
		{"sortquant:2+1,round=stochastic,ef=true", NULL},
		{"topk:0.1,ef=true", NULL},
		{"randomk:0.1,ef=true", NULL},
		{"threshold:0.5,ef=true", NULL},
		{"adaptive:0.5,ef=true", NULL},
		{"lowrank:3,ef=true", NULL},
		{"lowrank:3,ef=true|quant:4", NULL},
		{"cells:2,ef=true|topk:0.1|quant:4", NULL},
		{"downsample:2,ef=true", "downsample may lose"},
		{"f16,ef=true", NULL},
		{"none,ef=true|zstd", NULL},
		{"qsgd:15", NULL},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const struct sl_extent most = sl_extent_of(sl_shape4(1, 32, 32, 8));
		struct sl_codec_spec spec;
		struct sl_fail fail;
		double owes[2];
		int lines = 0;

		assert_int_equal(sl_codec_parse(rows[i].text, &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_feeds_back(&spec, &most, &fail), rows[i].says ? SL_ERR_CONFIG : SL_OK);
		if (rows[i].says && !strstr(fail.text, rows[i].says))
			fail_msg("%s: %s", rows[i].text, fail.text);
		if (!spec.error_feedback)
			continue;
		sl_log_set_hook(count_line, &lines);
		follow_residual(rows[i].text, most.shape, 40, owes);
		sl_log_set_hook(NULL, NULL);
		assert_int_equal(lines, owes[1] > 1e3);
		if ((owes[1] > 1.2 * owes[0]) != (rows[i].says != NULL))
			fail_msg("%s: owes %g tensors, then %g", rows[i].text, owes[0], owes[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stochastic_levels_are_unbiased),
		cmocka_unit_test(small_values_and_large_codes_are_unbiased),
		cmocka_unit_test(levels_are_multiples_of_the_scale),
		cmocka_unit_test(groups_may_be_larger_than_the_tensor),
		cmocka_unit_test(feedback_is_refused_where_it_diverges),
		cmocka_unit_test(a_last_group_may_be_a_fraction_of_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
