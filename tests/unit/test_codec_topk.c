/* topk compared with a plain version that sorts: exact, few bytes where few
 * elements are kept, the same places for a gradient, and quant behind it. */
#include <math.h>

#include "common/codec/codec.h"
#include "common/codec/frame.h"
#include "common/codec/loops.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

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
	/* Header, table of parts, values, table of blocks; places take at most as much as a bitmap. */
	assert_true(len <= (size_t)(16 + 8 + 4 * k + (n + 65535) / 65536 * 4 + (n + 7) / 8));
	free(x);
	free(back);
	free(expect);
}

static void topk_is_exact(void **state)
{
	static const double ratios[] = {1e-9, 0.001, 0.1, 0.5, 0.9, 1};

	for (int kind = 0; kind < KINDS; kind++) {
		for (int r = 0; r < 6; r++) {
			for (int s = 0; s < CODEC_ODD_SHAPES; s++)
				check_topk(ratios[r], codec_odd_shape(s), (enum codec_kind)kind);
		}
		/* several blocks, the last one short */
		check_topk(0.1, sl_shape4(2, 56, 57, 33), (enum codec_kind)kind);
		check_topk(0.5, sl_shape4(2, 56, 57, 33), (enum codec_kind)kind);
	}
}

/* One block has more values close to the threshold than the scan's buffer holds. */
static void one_block_may_hold_all_that_is_close(void **state)
{
	enum { BLOCKS = 8 };
	struct sl_shape s = sl_shape2(BLOCKS, SL_CODEC_BLOCK);
	int64_t n = sl_shape_count(&s);
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4), *expect = malloc((size_t)n * 4);

	for (int64_t i = 0; i < n; i++)
		x[i] = i / SL_CODEC_BLOCK == 3 ? 1 + fabsf(x[i]) : x[i] > 0 ? 10 : 0.5f;
	codec_round_trip("topk:0.5", s, x, back);
	plain_topk(x, n, n / 2, expect);
	assert_memory_equal(back, expect, (size_t)n * 4);
	free(x);
	free(back);
	free(expect);
}

static void sparse_places_cost_less_than_a_bitmap(void **state)
{
	struct sl_shape s = sl_shape4(4, 56, 56, 32);
	int64_t n = sl_shape_count(&s), k = n / 100;
	float *x = malloc((size_t)n * 4), *back = malloc((size_t)n * 4);
	size_t len;

	codec_fill(x, n, RANDOM);
	len = codec_round_trip("topk:0.01", s, x, back);
	/* Gaps are 100 on average: 7 bits, and 3 more for the largest of 256. */
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

/* Of two selections the places of the first are shared. The gradient makes the second selection itself. */
static void a_gradient_shares_one_selection_alone(void **state)
{
	static const char text[] = "topk:0.5|topk:0.4";
	struct sl_shape s = sl_shape2(2, 500);
	struct sl_codec *act = codec_open(text, s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad = codec_open(text, s, NULL, SL_DIR_HEAD_GRAD, act);
	struct sl_codec *back_act = codec_open(text, s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *back_grad = codec_open(text, s, NULL, SL_DIR_HEAD_GRAD, back_act);
	float x[1000], back[1000];
	int kept = 0;
	uint8_t *bytes;
	size_t len;

	codec_fill(x, 1000, RANDOM);
	assert_int_equal(codec_encode(act, &codec_call0, x, s, &bytes, &len), SL_OK);
	assert_int_equal(codec_decode(back_act, &codec_call0, bytes, len, s, back), SL_OK);
	free(bytes);
	for (int i = 0; i < 1000; i++) /* large elements become small: another second selection */
		x[i] = 1 / x[i];
	assert_int_equal(codec_encode(grad, &codec_call0, x, s, &bytes, &len), SL_OK);
	assert_int_equal(sl_get_u32(bytes + 20), 0);
	assert_true(sl_get_u32(bytes + 28) > 0);
	assert_int_equal(codec_decode(back_grad, &codec_call0, bytes, len, s, back), SL_OK);
	for (int i = 0; i < 1000; i++) {
		assert_true(back[i] == 0 || back[i] == x[i]);
		kept += back[i] != 0;
	}
	assert_int_equal(kept, 200);
	free(bytes);
	sl_codec_close(grad);
	sl_codec_close(act);
	sl_codec_close(back_grad);
	sl_codec_close(back_act);
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

	other.slot = 1;
	codec_fill(g, n, RANDOM);
	/* Another chunk in the other slot must not interfere. */
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
	/* An activation's codec refuses a gradient's payload, which has no places of its own. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topk_is_exact),
		cmocka_unit_test(one_block_may_hold_all_that_is_close),
		cmocka_unit_test(sparse_places_cost_less_than_a_bitmap),
		cmocka_unit_test(chain_quantizes_what_is_kept),
		cmocka_unit_test(a_gradient_uses_the_places_of_its_activation),
		cmocka_unit_test(a_gradient_shares_one_selection_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
