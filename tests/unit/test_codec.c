/* Specifications, the chain and its frame, and the codecs against plain double-precision definitions. */
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
#include "common/codec/codec.h"
#include "common/codec/stage.h"
#include "common/nn/backend.h"
#include "tests/support/codec.h"

/* ---- specifications */

static void specs_have_one_canonical_form(void **state)
{
	static const char *const cases[][2] = {
		{"none", "none"},
		{"quant:8", "quant:8"},
		{"quant:08,per=tensor", "quant:8"},
		{"quant:4,round=stochastic,per=channel", "quant:4,per=channel,round=stochastic"},
		{"topk:0.20|quant:8", "topk:0.2|quant:8"},
		{"topk:1e-3", "topk:0.001"},
		{"topk:0.1|none", "topk:0.1"},
		{"topk:0.1,ef=true|quant:8,block=512", "topk:0.1,ef=true|quant:8,block=512"},
		{"quant:8,ef=false", "quant:8"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec_spec spec, again;
		struct sl_fail fail = {0};

		if (sl_codec_parse(cases[i][0], &spec, &fail) != SL_OK)
			fail_msg("%s: %s", cases[i][0], fail.text);
		assert_string_equal(spec.text, cases[i][1]);
		assert_int_equal(sl_codec_parse(spec.text, &again, &fail), SL_OK);
		assert_string_equal(again.text, spec.text);
	}
}

static void bad_specs_say_what_would_be_right(void **state)
{
	static const char *const cases[][2] = {
		{"", "no method is called ''"},
		{"gzip", "no method is called 'gzip'"},
		{"quant", "quant:b with b = 1…16"},
		{"quant:", "quant:b with b = 1…16"},
		{"quant:0", "got '0'"},
		{"quant:17", "got '17'"},
		{"quant:8.5", "got '8.5'"},
		{"quant:nan", "got 'nan'"},
		{"quant:0x8", "got '0x8'"},
		{"quant:8+8", "got '8'"},
		{"quant:8,bucket=3", "no option 'bucket'"},
		{"quant:8,per=row", "got 'row'"},
		{"quant:8,per=channel,per=channel", "given twice"},
		{"quant:8,per=channel,block=64", "not both"},
		{"topk:0", "topk:r with 0 < r ≤ 1"},
		{"topk:1.5", "got '1.5'"},
		{"topk:-1", "got '-1'"},
		{"topk:0.1|quant:8,per=channel", "needs the tensor's channels"},
		{"topk:0.1|quant:8,per=sample", "needs the tensor's samples"},
		{"quant:8|topk:0.1", "cannot follow"},
		{"quant:8|quant:8", "cannot follow"},
		{"topk:0.1|topk:0.1|topk:0.1|topk:0.1|quant:8", "at most 4 stages"},
		{"quant:8|", "no method is called ''"},
		{"topk:0.1|quant:8,ef=true", "first stage"},
		{"quant:8,ef=1", "got '1'"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec_spec spec = {.n_stage = -1};
		struct sl_fail fail = {0};

		if (sl_codec_parse(cases[i][0], &spec, &fail) != SL_ERR_CONFIG)
			fail_msg("'%s' was taken", cases[i][0]);
		assert_int_equal(spec.n_stage, -1);
		if (strstr(fail.text, cases[i][1]) == NULL)
			fail_msg("'%s': %s", cases[i][0], fail.text);
	}
}

static void stages_are_listed_by_ascending_id(void **state)
{
	const struct sl_codec_stage *const *s = sl_codec_stages();
	(void)state;

	for (; s[1] != NULL; s++)
		assert_true(s[0]->id < s[1]->id);
	assert_string_equal(sl_dir_name(SL_DIR_MID_GRAD), "mid_grad");
}

/* ---- codecs */

static const int64_t odd_shapes[][4] = {{1, 1, 1, 1}, {1, 1, 1, 3}, {2, 3, 5, 7}, {3, 1, 1, 17}, {4, 33, 65, 9}};
enum { ODD_SHAPES = sizeof odd_shapes / sizeof odd_shapes[0] };

static struct sl_shape odd_shape(int i)
{
	return sl_shape4(odd_shapes[i][0], odd_shapes[i][1], odd_shapes[i][2], odd_shapes[i][3]);
}

static void none_carries_any_bits(void **state)
{
	float x[6] = {1, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f}, back[6];
	(void)state;

	assert_int_equal(codec_round_trip("none", sl_shape2(2, 3), x, back), 16 + 24);
	assert_memory_equal(x, back, sizeof x);
}

static void f16_rounds_to_nearest_even_and_saturates(void **state)
{
	static const float in[] = {0,        -0.0f,        1,      1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f,
				   65504,    65519,        1e9f,   -3e38f,          0x1p-24f,
				   0x1p-25f, 3 * 0x1p-25f, 1e-45f, 0x1p-14f,        0x1.ff8p-15f};
	static const float out[] = {0,        -0.0f, 1,        1, 1.0f + 0x1p-9f, 65504,       65504, 65504, -65504,
				    0x1p-24f, 0,     0x1p-23f, 0, 0x1p-14f,       0x1.ff8p-15f};
	enum { N = sizeof in / sizeof in[0] };
	float back[N];
	(void)state;

	assert_int_equal(codec_round_trip("f16", sl_shape2(1, N), in, back), 16 + 2 * N);
	for (int i = 0; i < N; i++)
		assert_true(back[i] == out[i] && signbit(back[i]) == signbit(out[i]));
}

/* The group of element i, as docs/CODECS.md has it. */
static int64_t group_of(const char *per, struct sl_shape s, int64_t i)
{
	if (strcmp(per, ",per=channel") == 0)
		return i % s.dim[s.ndim - 1];
	if (strcmp(per, ",per=sample") == 0)
		return i / sl_shape_row(&s);
	return strcmp(per, ",block=64") == 0 ? i / 64 : 0;
}

/* Widens a range so that zero is a code, as docs/CODECS.md has it; false where it stays as it was. */
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

/* What lies near zero, as most of a gradient does, comes back as zero, not as one small value for all. */
static void quant_brings_zero_back(void **state)
{
	static const char *const specs[] = {"quant:4",  "quant:8",  "quant:8,block=64",
					    "quant:13", "quant:16", "topk:0.5|quant:8"};
	enum { N = 4096 };
	float x[N], back[N];

	(void)state;
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

static void quant_keeps_half_a_step(void **state)
{
	static const char *const per[] = {"", ",per=sample", ",per=channel", ",block=64"};
	(void)state;

	for (int bits = 1; bits <= 16; bits++) {
		for (int kind = 0; kind < KINDS; kind++) {
			for (int s = 0; s < ODD_SHAPES; s++)
				check_quant(bits, per[(bits + kind + s) % 4], false, odd_shape(s),
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
	(void)state;

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

static uint32_t magnitude(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, 4);
	return bits & 0x7fffffff;
}

struct ranked {
	uint32_t magnitude;
	int64_t index;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked *p = a, *q = b;

	if (p->magnitude != q->magnitude)
		return p->magnitude < q->magnitude ? 1 : -1;
	return p->index < q->index ? -1 : 1;
}

/* x with everything but the k largest magnitudes (ties: lowest index) set to zero. */
static void plain_topk(const float *x, int64_t n, int64_t k, float *out)
{
	struct ranked *r = malloc((size_t)n * sizeof *r);

	for (int64_t i = 0; i < n; i++)
		r[i] = (struct ranked){magnitude(x[i]), i};
	qsort(r, (size_t)n, sizeof *r, by_rank);
	for (int64_t i = 0; i < n; i++)
		out[i] = 0;
	for (int64_t i = 0; i < k; i++)
		out[r[i].index] = x[r[i].index];
	free(r);
}

static void check_topk(double ratio, struct sl_shape s, enum codec_kind kind)
{
	int64_t n = sl_shape_count(&s), k = llrint(ratio * (double)n);
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4), *expect = malloc((size_t)n * 4);
	char text[32];
	size_t len;

	k = k < 1 ? 1 : k;
	codec_fill(x, n, kind);
	snprintf(text, sizeof text, "topk:%g", ratio);
	len = codec_round_trip(text, s, x, back);
	plain_topk(x, n, k, expect);
	assert_memory_equal(back, expect, (size_t)n * 4);
	/* header, part, values, table, and never more than a bitmap */
	assert_true(len <= (size_t)(16 + 8 + 4 * k + (n + 65535) / 65536 * 4 + (n + 7) / 8));
	free(x);
	free(back);
	free(expect);
}

static void topk_is_exact(void **state)
{
	static const double ratios[] = {1e-9, 0.001, 0.1, 0.5, 0.9, 1};
	(void)state;

	for (int kind = 0; kind < KINDS; kind++) {
		for (int r = 0; r < 6; r++) {
			for (int s = 0; s < ODD_SHAPES; s++)
				check_topk(ratios[r], odd_shape(s), (enum codec_kind)kind);
		}
		/* several blocks, the last one short */
		check_topk(0.1, sl_shape4(2, 56, 57, 33), (enum codec_kind)kind);
		check_topk(0.5, sl_shape4(2, 56, 57, 33), (enum codec_kind)kind);
	}
}

static void sparse_places_cost_less_than_a_bitmap(void **state)
{
	struct sl_shape s = sl_shape4(4, 56, 56, 32);
	int64_t n = sl_shape_count(&s), k = n / 100;
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4);
	size_t len;
	(void)state;

	codec_fill(x, n, RANDOM);
	len = codec_round_trip("topk:0.01", s, x, back);
	/* a gap of 100 on average: 7 bits, and 3 for the largest of 256 */
	assert_true(len < (size_t)(4 * k + k * 11 / 8 + 1000));
	free(x);
	free(back);
}

static void chain_quantizes_what_is_kept(void **state)
{
	struct sl_shape s = sl_shape4(3, 33, 35, 16);
	int64_t n = sl_shape_count(&s), k = llrint(0.2 * (double)n);
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4), *expect = malloc((size_t)n * 4);
	double lo = 0, hi = 0;
	(void)state;

	codec_fill(x, n, RANDOM);
	plain_topk(x, n, k, expect);
	for (int64_t i = 0; i < n; i++) {
		lo = fmin(lo, expect[i]);
		hi = fmax(hi, expect[i]);
	}
	codec_round_trip("topk:0.2|quant:8", s, x, back);
	for (int64_t i = 0; i < n; i++) {
		if (expect[i] == 0)
			assert_true(back[i] == 0);
		else
			assert_true(fabs((double)back[i] - expect[i]) <= (hi - lo) / 255 * 0.501);
	}
	free(x);
	free(back);
	free(expect);
}

static void a_gradient_uses_the_places_of_its_activation(void **state)
{
	struct sl_shape s = sl_shape4(3, 40, 41, 16), two = sl_shape_rows(s, 2);
	int64_t n = sl_shape_count(&two), k = llrint(0.1 * (double)n);
	float *x = malloc((size_t)n * 4), *g = malloc((size_t)n * 4), *back = malloc((size_t)n * 4);
	float *mark = malloc((size_t)n * 4);
	struct sl_codec *act_tx = codec_open("topk:0.1|quant:8", s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *act_rx = codec_open("topk:0.1|quant:8", s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad_tx = codec_open("topk:0.1", s, NULL, SL_DIR_HEAD_GRAD, act_rx);
	struct sl_codec *grad_rx = codec_open("topk:0.1", s, NULL, SL_DIR_HEAD_GRAD, act_tx);
	struct sl_codec_call call = codec_call0, other = codec_call0;
	uint8_t *bytes;
	size_t len;
	(void)state;

	other.slot = 1;
	codec_fill(g, n, RANDOM);
	/* another chunk in the other slot must not disturb */
	for (int slot = 0; slot < 2; slot++) {
		call.slot = slot;
		codec_fill(x, n, slot == 0 ? RANDOM : RELU);
		assert_int_equal(codec_encode(act_tx, &call, x, two, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(act_rx, &call, bytes, len, two, back), SL_OK);
		free(bytes);
	}
	codec_fill(x, n, RANDOM);
	plain_topk(x, n, k, mark);
	assert_int_equal(codec_encode(grad_tx, &codec_call0, g, two, &bytes, &len), SL_OK);
	assert_int_equal(len, 16 + 8 + 4 * k);
	assert_int_equal(codec_decode(grad_rx, &codec_call0, bytes, len, two, back), SL_OK);
	for (int64_t i = 0; i < n; i++)
		assert_true(back[i] == (mark[i] != 0 ? g[i] : 0));
	/* a payload with places of its own is not what was agreed on */
	assert_int_equal(codec_decode(act_rx, &codec_call0, bytes, len, two, back), SL_ERR_PAYLOAD);
	free(bytes);
	g[5] = NAN;
	assert_int_equal(codec_encode(grad_tx, &other, g, two, &bytes, &len), SL_ERR_NONFINITE);
	sl_codec_close(grad_tx);
	sl_codec_close(grad_rx);
	sl_codec_close(act_tx);
	sl_codec_close(act_rx);
	free(x);
	free(g);
	free(back);
	free(mark);
}

static void nonfinite_is_refused_by_lossy_codecs(void **state)
{
	static const char *const specs[] = {
		"f16",      "quant:8",         "quant:8,per=channel", "quant:3,block=64,round=stochastic",
		"topk:0.1", "topk:0.1|quant:4"};
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct sl_shape s = sl_shape4(2, 60, 60, 12);
	int64_t n = sl_shape_count(&s), at[] = {0, 70000, n - 1};
	float *x = malloc((size_t)n * 4);
	(void)state;

	codec_fill(x, n, RANDOM);
	for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
		struct sl_codec *c = codec_open(specs[i], s, NULL, SL_DIR_HEAD_ACT, NULL);
		uint8_t *bytes;
		size_t len;

		for (int b = 0; b < 9; b++) {
			float was = x[at[b / 3]];

			x[at[b / 3]] = bad[b % 3];
			assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_ERR_NONFINITE);
			x[at[b / 3]] = was;
		}
		assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
		free(bytes);
		sl_codec_close(c);
	}
	free(x);
}

static void wrong_frames_are_refused(void **state)
{
	struct sl_shape s = sl_shape4(2, 7, 7, 8);
	int64_t n = sl_shape_count(&s);
	float x[2 * 7 * 7 * 8], back[2 * 7 * 7 * 8], untouched[2 * 7 * 7 * 8];
	struct sl_codec *c = codec_open("topk:0.1|quant:5", s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *other = codec_open("quant:5", s, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes, longer[4096];
	size_t len;
	(void)state;

	codec_fill(x, n, RANDOM);
	memset(back, 0x55, sizeof back);
	memset(untouched, 0x55, sizeof untouched);
	assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
	for (size_t l = 0; l < len; l++)
		assert_int_equal(codec_decode(c, &codec_call0, bytes, l, s, back), SL_ERR_PAYLOAD);
	memcpy(longer, bytes, len);
	longer[len] = 0;
	assert_int_equal(codec_decode(c, &codec_call0, longer, len + 1, s, back), SL_ERR_PAYLOAD);
	assert_int_equal(codec_decode(other, &codec_call0, bytes, len, s, back), SL_ERR_PAYLOAD);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, sl_shape_rows(s, 1), back), SL_ERR_PAYLOAD);
	/* each byte of header and table of parts */
	for (int i = 0; i < 24; i++) {
		longer[i] ^= 0x41;
		assert_int_equal(codec_decode(c, &codec_call0, longer, len, s, back), SL_ERR_PAYLOAD);
		longer[i] ^= 0x41;
	}
	assert_memory_equal(back, untouched, sizeof back);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, s, back), SL_OK);
	free(bytes);
	sl_codec_close(c);
	sl_codec_close(other);
}

static void a_short_buffer_is_a_limit(void **state)
{
	struct sl_shape s = sl_shape2(4, 100);
	struct sl_codec *c = codec_open("quant:8", s, NULL, SL_DIR_HEAD_ACT, NULL);
	float x[400] = {1};
	uint8_t mem[512];
	struct sl_buf out = {mem, 5, sl_codec_bound(c, 4) + 4};
	struct sl_tensor t = {.dtype = SL_F32, .shape = s, .data = x};
	(void)state;

	assert_int_equal(sl_codec_encode(c, &codec_call0, &t, &out), SL_ERR_LIMIT);
	assert_int_equal(out.len, 5);
	sl_codec_close(c);
}

static void feedback_returns_what_was_lost(void **state)
{
	struct sl_shape s = sl_shape2(4, 100);
	float x[400], back[400], sum[400] = {0};
	struct sl_codec *c = codec_open("topk:0.1,ef=true", s, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *one, *two;
	size_t len, again;
	(void)state;

	codec_fill(x, 400, RANDOM);
	for (int step = 0; step < 200; step++) {
		struct sl_codec_call call = {.step = (uint64_t)step, .training = true};

		assert_int_equal(codec_encode(c, &call, x, s, &one, &len), SL_OK);
		/* the step is run again: same bytes */
		sl_codec_rollback(c);
		assert_int_equal(codec_encode(c, &call, x, s, &two, &again), SL_OK);
		assert_int_equal(len, again);
		assert_memory_equal(one, two, len);
		sl_codec_commit(c);
		assert_int_equal(codec_decode(c, &call, one, len, s, back), SL_OK);
		for (int i = 0; i < 400; i++)
			sum[i] += back[i];
		free(one);
		free(two);
	}
	/* what 200 steps delivered differs from 200 x by one residual, which is bounded */
	for (int i = 0; i < 400; i++)
		assert_true(fabs((double)sum[i] - 200 * (double)x[i]) < 40);
	sl_codec_close(c);
}

static enum sl_err own_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	(void)be;
	*out = calloc(1, bytes);
	return *out != NULL ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory");
}

static void own_free(struct sl_backend *be, void *ptr)
{
	(void)be;
	free(ptr);
}

/* A backend with stages of its own: what passes between stages lies in its memory, and the bytes are the same. */
static void a_backend_may_bring_its_own_stages(void **state)
{
	struct sl_backend_ops ops = {
		.name = "own", .alloc = own_alloc, .free = own_free, .codec_stages = sl_codec_stages()};
	const struct sl_codec_stage *few[] = {sl_codec_stage_find("none", 4), NULL};
	static const char *const specs[] = {"none", "quant:8", "topk:0.1", "topk:0.2|quant:8|zstd",
					    "lowrank:2|topk:0.5"};
	struct sl_shape s = sl_shape4(2, 30, 31, 12);
	int64_t n = sl_shape_count(&s);
	float *x = malloc((size_t)n * 4), *one = malloc((size_t)n * 4), *two = malloc((size_t)n * 4);
	struct sl_backend be = {.ops = &ops};
	struct sl_codec_env env = {.be = &be, .shape = s, .slots = 1};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;
	(void)state;

	codec_fill(x, n, RANDOM);
	for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
		struct sl_codec *host = codec_open(specs[i], s, NULL, SL_DIR_HEAD_ACT, NULL);
		struct sl_codec *own = codec_open(specs[i], s, &be, SL_DIR_HEAD_ACT, NULL);
		uint8_t *a, *b;
		size_t a_len, b_len;

		assert_int_equal(codec_encode(host, &codec_call0, x, s, &a, &a_len), SL_OK);
		assert_int_equal(codec_encode(own, &codec_call0, x, s, &b, &b_len), SL_OK);
		assert_int_equal(a_len, b_len);
		assert_memory_equal(a, b, a_len);
		assert_int_equal(codec_decode(host, &codec_call0, b, b_len, s, one), SL_OK);
		assert_int_equal(codec_decode(own, &codec_call0, a, a_len, s, two), SL_OK);
		assert_memory_equal(one, two, (size_t)n * 4);
		free(a);
		free(b);
		sl_codec_close(host);
		sl_codec_close(own);
	}
	ops.codec_stages = few;
	assert_int_equal(sl_codec_parse("quant:8", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "own has no quant"));
	free(x);
	free(one);
	free(two);
}

static void threads_do_not_change_bytes(void **state)
{
	static const char *const specs[] = {"none",
					    "f16",
					    "quant:3",
					    "quant:8,per=channel",
					    "quant:5,per=sample",
					    "quant:7,block=1000,round=stochastic",
					    "quant:7,block=512",
					    "qsgd:10,bucket=512",
					    "sortquant:12+4",
					    "cells:2|topk:0.1",
					    "topk:0.1|quant:6",
					    "topk:0.3"};
	struct sl_shape s = sl_shape4(3, 56, 57, 33);
	int64_t n = sl_shape_count(&s);
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4), *other = malloc((size_t)n * 4);
	static const struct sl_backend_ops ops = {.name = "test"};
	(void)state;

	codec_fill(x, n, RELU);
	for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
		uint8_t *expect = NULL, *bytes;
		size_t len, expect_len = 0;

		for (int threads = 1; threads <= 3; threads++) {
			struct sl_backend be = {.ops = &ops};
			struct sl_codec *c;

			assert_int_equal(sl_pool_open(&be.pool, threads, NULL), SL_OK);
			c = codec_open(specs[i], s, &be, SL_DIR_HEAD_ACT, NULL);
			assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
			assert_int_equal(codec_decode(c, &codec_call0, bytes, len, s, threads == 1 ? other : back),
					 SL_OK);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_have_one_canonical_form),
		cmocka_unit_test(bad_specs_say_what_would_be_right),
		cmocka_unit_test(stages_are_listed_by_ascending_id),
		cmocka_unit_test(none_carries_any_bits),
		cmocka_unit_test(f16_rounds_to_nearest_even_and_saturates),
		cmocka_unit_test(quant_keeps_half_a_step),
		cmocka_unit_test(quant_brings_zero_back),
		cmocka_unit_test(stochastic_rounding_is_unbiased),
		cmocka_unit_test(topk_is_exact),
		cmocka_unit_test(sparse_places_cost_less_than_a_bitmap),
		cmocka_unit_test(chain_quantizes_what_is_kept),
		cmocka_unit_test(a_gradient_uses_the_places_of_its_activation),
		cmocka_unit_test(nonfinite_is_refused_by_lossy_codecs),
		cmocka_unit_test(wrong_frames_are_refused),
		cmocka_unit_test(a_short_buffer_is_a_limit),
		cmocka_unit_test(feedback_returns_what_was_lost),
		cmocka_unit_test(a_backend_may_bring_its_own_stages),
		cmocka_unit_test(threads_do_not_change_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
