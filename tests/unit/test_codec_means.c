/* downsample and cells: adjoints, smooth tensors, and means in place of elements that are not sent. */
#include <math.h>

#include "common/codec/stage.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

/* <y, F(x)> = <Fᵀ(y), x>: F is restore ∘ compress of the activation, Fᵀ that of the paired gradient. */
static void downsample_has_an_adjoint(void **state)
{
	static const int64_t shapes[][4] = {{2, 8, 8, 3}, {1, 7, 5, 4}, {2, 1, 9, 2}, {1, 13, 3, 5}};

	for (int s = 0; s < 4; s++) {
		struct sl_shape shape = sl_shape4(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
		int64_t n = sl_shape_count(&shape);
		float *x = codec_make(n, RANDOM), *y = codec_make(n, RANDOM), *fx = malloc((size_t)n * 4),
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

/* Elements that topk leaves out come back as the mean of their cell: in the
 * activation, and at the same places in the gradient, whose payload has no places. */
static void cells_bring_back_means(void **state)
{
	struct sl_shape shape = sl_shape4(2, 8, 7, 5);
	enum { CELLS = 2 * 3 * 3 * 5, FACTOR = 3 };
	int64_t n = sl_shape_count(&shape), k = llrint(0.25 * (double)n), kept = 0;
	struct sl_codec *act = codec_open("cells:3|topk:0.25", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad = codec_open("cells:3|topk:0.25|f16", shape, NULL, SL_DIR_HEAD_GRAD, act);
	struct sl_codec *codecs[] = {act, grad};
	float *x = codec_make(n, RANDOM), *back = malloc((size_t)n * 4);
	bool *keeps = calloc((size_t)n, sizeof *keeps);
	double least = INFINITY, most = 0;

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
			/* bf16 has an error of at most 1/32 near 10. */
			if (keeps[e] ? !same : fabs(back[e] - mean) > 0.035)
				fail_msg("pass %d: %g became %g, mean %g", pass, (double)x[e], (double)back[e], mean);
			if (pass == 0 && keeps[e])
				least = fmin(least, fabs(x[e] - mean));
			else if (pass == 0)
				most = fmax(most, fabs(x[e] - mean));
		}
		x[7] += 3; /* the places are the activation's, whatever is large here */
	}
	assert_int_equal(kept, k);
	assert_true(most < least + 0.07);
	sl_codec_close(grad);
	sl_codec_close(act);
	free(keeps);
	free(x);
	free(back);
}

/* Cells at the far edges are smaller, in one direction or both. */
static void downsample_keeps_a_constant(void **state)
{
	enum { H = 8, W = 11 };
	float x[H * W], back[H * W];

	for (int i = 0; i < H * W; i++)
		x[i] = 5;
	codec_round_trip("downsample:3", sl_shape4(1, H, W, 1), x, back);
	for (int i = 0; i < H * W; i++)
		assert_true(fabsf(back[i] - 5) < 1e-5f);
}

static void means_must_be_finite(void **state)
{
	static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0xffff};
	struct sl_shape shape = sl_shape4(1, 4, 5, 3);
	struct sl_codec *c = codec_open("cells:3", shape, NULL, SL_DIR_HEAD_ACT, NULL);
	float x[60], back[60];
	uint8_t *bytes;
	size_t len;

	codec_fill(x, 60, RANDOM);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
	for (int i = 0; i < 4; i++) {
		memcpy(bytes + len - 2, &bad[i], 2);
		assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_ERR_PAYLOAD);
	}
	memcpy(bytes + len - 2, (uint16_t[]){0x7f7f}, 2); /* the largest finite bf16 */
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_OK);
	free(bytes);
	sl_codec_close(c);
}

static void downsample_keeps_what_is_smooth(void **state)
{
	struct sl_shape shape = sl_shape4(1, 9, 12, 2);
	float x[9 * 12 * 2], back[9 * 12 * 2];

	for (int i = 0; i < 9 * 12; i++) {
		x[2 * i] = (float)(i / 12) + 2 * (float)(i % 12);
		x[2 * i + 1] = 5;
	}
	codec_round_trip("downsample:3", shape, x, back);
	for (int i = 0; i < 9 * 12; i++) {
		bool inside = i / 12 >= 1 && i / 12 <= 7 && i % 12 >= 1 && i % 12 <= 10;

		assert_true(fabs((double)back[2 * i + 1] - 5) < 1e-5);
		/* Interpolation is exact on a plane, except at the clamped borders. */
		assert_true(!inside || fabs((double)back[2 * i] - x[2 * i]) < 1e-4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(downsample_has_an_adjoint),   cmocka_unit_test(downsample_keeps_what_is_smooth),
		cmocka_unit_test(downsample_keeps_a_constant), cmocka_unit_test(means_must_be_finite),
		cmocka_unit_test(cells_bring_back_means),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
