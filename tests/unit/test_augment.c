/* Crop, flip, resize and normalisation, against PyTorch's values and against their definitions. */

#include <math.h>

#include "client/data/augment.h"
#include "common/base/rng.h"
#include "tests/golden/augment.h"
#include "tests/support/unit.h"

static struct sl_augment *open_augment(const struct sl_augment_spec *spec)
{
	struct sl_augment *aug = NULL;
	struct sl_fail fail = {0};

	if (sl_augment_open(&aug, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return aug;
}

/* The same values as in tests/golden/make_augment.py, whose images are [3, H, W]. */
static void fill_image(uint8_t *image, int n)
{
	for (int i = 0; i < n; i++)
		image[i % (n / 3) * 3 + i / (n / 3)] = (uint8_t)(i * 73 + i * i % 19 * 5);
}

/* Guard values stand before and behind `out`: the transform must not write outside it. */
static float *apply(const struct sl_augment *aug, const uint8_t *image, struct sl_augment_draw draw)
{
	const struct sl_augment_spec *spec = sl_augment_spec(aug);
	size_t n = (size_t)spec->out_h * (size_t)spec->out_w * 3, ns = sl_augment_scratch_floats(aug);
	float *out = malloc((n + 2) * sizeof *out), *scratch = malloc((ns + 1) * sizeof *scratch);

	assert_non_null(out);
	assert_non_null(scratch);
	out[0] = out[n + 1] = scratch[ns] = 12345.0f;
	sl_augment_apply(aug, out + 1, image, draw, scratch);
	assert_true(out[0] == 12345.0f && out[n + 1] == 12345.0f && scratch[ns] == 12345.0f);
	memmove(out, out + 1, n * sizeof *out);
	free(scratch);
	return out;
}

static void agrees_with_pytorch(void **state)
{
	for (size_t k = 0; k < sizeof golden_augment / sizeof *golden_augment; k++) {
		const struct sl_augment_spec spec = {
			.in_h = golden_augment[k].in_h,
			.in_w = golden_augment[k].in_w,
			.out_h = golden_augment[k].out_h,
			.out_w = golden_augment[k].out_w,
			.crop_padding = golden_augment[k].padding,
			.flip = true,
			.norm = golden_augment[k].imagenet ? SL_NORMALIZE_IMAGENET : SL_NORMALIZE_NONE,
		};
		const struct sl_augment_draw draw = {golden_augment[k].top, golden_augment[k].left,
						     golden_augment[k].flip};
		struct sl_augment *aug = open_augment(&spec);
		uint8_t image[3 * 9 * 9];
		float *out;

		fill_image(image, 3 * spec.in_h * spec.in_w);
		out = apply(aug, image, draw);
		for (int i = 0; i < spec.out_h * spec.out_w * 3; i++)
			if (!(fabsf(out[i] - golden_augment[k].out[i]) < 1e-5f))
				fail_msg("%s[%d]: %.7f, PyTorch has %.7f", golden_augment[k].name, i, (double)out[i],
					 (double)golden_augment[k].out[i]);
		free(out);
		sl_augment_close(aug);
	}
}

/* Every crop offset, flipped or not, pixel by pixel from the definition. */
static void crop_and_flip_are_exact(void **state)
{
	enum { H = 5, W = 7, P = 3 };
	struct sl_augment *aug = open_augment(&(struct sl_augment_spec){
		.in_h = H, .in_w = W, .crop_padding = P, .flip = true, .norm = SL_NORMALIZE_CIFAR10});
	const float mean[] = {0.4914f, 0.4822f, 0.4465f}, std[] = {0.2470f, 0.2435f, 0.2616f};
	uint8_t image[3 * H * W];

	fill_image(image, sizeof image);
	for (int i = 0; i < (2 * P + 1) * (2 * P + 1) * 2; i++) {
		struct sl_augment_draw draw = {i / 2 / (2 * P + 1), i / 2 % (2 * P + 1), i % 2};
		float *out = apply(aug, image, draw);

		for (int k = 0; k < H * W * 3; k++) {
			int c = k % 3, x = k / 3 % W, y = k / 3 / W + draw.top - P;
			bool inside;

			x = (draw.flip ? W - 1 - x : x) + draw.left - P;
			inside = y >= 0 && y < H && x >= 0 && x < W;
			assert_true(out[k] ==
				    ((float)(inside ? image[(y * W + x) * 3 + c] : 0) / 255.0f - mean[c]) / std[c]);
		}
		free(out);
	}
	sl_augment_close(aug);
}

/* The draws are Philox words as documented, and all crop offsets are equally likely. */
static void draws_are_a_function(void **state)
{
	enum { SAMPLES = 20000, P = 4, PLACES = 2 * P + 1 };
	struct sl_augment *aug = open_augment(&(struct sl_augment_spec){
		.in_h = 32, .in_w = 32, .crop_padding = P, .flip = true, .norm = SL_NORMALIZE_NONE});
	int tops[PLACES] = {0}, lefts[PLACES] = {0}, flips = 0;

	for (int s = 0; s < SAMPLES; s++) {
		const struct sl_rng_key key = {.seed = 7, .step = 3, .tensor = SL_RNG_AUGMENT};
		struct sl_augment_draw d = sl_augment_draw(aug, 7, 3, s);

		assert_int_equal(d.top, sl_rng_below(sl_rng_u32(&key, 8 * (uint64_t)s), PLACES));
		assert_int_equal(d.left, sl_rng_below(sl_rng_u32(&key, 8 * (uint64_t)s + 1), PLACES));
		assert_int_equal(d.flip, sl_rng_u32(&key, 8 * (uint64_t)s + 2) >> 31);
		tops[d.top]++;
		lefts[d.left]++;
		flips += d.flip;
	}
	/* 6 standard deviations of a binomial */
	for (int i = 0; i < PLACES; i++) {
		assert_in_range(tops[i], SAMPLES / PLACES - 267, SAMPLES / PLACES + 267);
		assert_in_range(lefts[i], SAMPLES / PLACES - 267, SAMPLES / PLACES + 267);
	}
	assert_in_range(flips, SAMPLES / 2 - 425, SAMPLES / 2 + 425);
	sl_augment_close(aug);
}

static void without_crop_or_flip_nothing_is_drawn(void **state)
{
	struct sl_augment *aug =
		open_augment(&(struct sl_augment_spec){.in_h = 32, .in_w = 32, .norm = SL_NORMALIZE_NONE});

	for (int s = 0; s < 100; s++) {
		struct sl_augment_draw d = sl_augment_draw(aug, 1, 1, s);

		assert_true(d.top == 0 && d.left == 0 && !d.flip);
	}
	sl_augment_close(aug);
}

static void centre_is_the_image_itself(void **state)
{
	struct sl_augment *aug = open_augment(&(struct sl_augment_spec){
		.in_h = 4, .in_w = 3, .crop_padding = 2, .flip = true, .norm = SL_NORMALIZE_NONE});
	uint8_t image[3 * 4 * 3];
	float *out;

	fill_image(image, sizeof image);
	out = apply(aug, image, sl_augment_centre(aug));
	for (int i = 0; i < 4 * 3; i++)
		for (int c = 0; c < 3; c++)
			assert_true(out[i * 3 + c] == (float)image[i * 3 + c] / 255.0f);
	free(out);
	sl_augment_close(aug);
}

static void bad_specs_are_refused(void **state)
{
	const struct sl_augment_spec bad[] = {
		{.in_h = 0, .in_w = 32},
		{.in_h = 32, .in_w = 32, .out_h = SL_AUGMENT_MAX_SIDE + 1},
		{.in_h = 32, .in_w = 32, .out_w = -1},
		{.in_h = 32, .in_w = 32, .crop_padding = -1},
		{.in_h = 32, .in_w = 32, .crop_padding = 33},
		{.in_h = 32, .in_w = 8, .crop_padding = 9},
		{.in_h = 8, .in_w = 32, .crop_padding = 9},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_augment *aug = NULL;
		struct sl_fail fail = {0};

		assert_int_equal(sl_augment_open(&aug, &bad[i], &fail), SL_ERR_CONFIG);
		assert_null(aug);
		assert_string_not_equal(fail.text, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_pytorch),        cmocka_unit_test(crop_and_flip_are_exact),
		cmocka_unit_test(draws_are_a_function),       cmocka_unit_test(without_crop_or_flip_nothing_is_drawn),
		cmocka_unit_test(centre_is_the_image_itself), cmocka_unit_test(bad_specs_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
