/* Lists of transforms: their spelling, their results against torchvision, and their random choices. */

#include <math.h>

#include "client/data/canvas.h"
#include "client/data/transform.h"
#include "tests/golden/transform.h"
#include "tests/support/unit.h"

enum { H = 13, W = 17 };

static uint8_t pixels[H * W * 3];
static const struct sl_value picture = {.data = pixels, .dim = {H, W, 3}};

static enum sl_err open_steps(struct sl_transform **out, const char (*step)[SL_CONF_TEXT], int n, int h, int w,
			      bool fixed, struct sl_fail *fail)
{
	return sl_transform_open(
		out,
		&(struct sl_transform_spec){
			.step = step, .n = n, .out_h = h, .out_w = w, .norm = SL_NORMALIZE_NONE, .fixed = fixed},
		fail);
}

static struct sl_transform *open_one(const char *step, int h, int w)
{
	char list[1][SL_CONF_TEXT];
	struct sl_transform *t = NULL;
	struct sl_fail fail;

	snprintf(list[0], sizeof list[0], "%s", step);
	if (open_steps(&t, (const char(*)[SL_CONF_TEXT])list, 1, h, w, false, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return t;
}

static void as_torchvision_makes_them(void **state)
{
	for (size_t k = 0; k < sizeof golden_transform / sizeof *golden_transform; k++) {
		const int n = golden_transform[k].h * golden_transform[k].w * 3;
		struct sl_transform_work work = {0};
		struct sl_transform *t;
		struct sl_fail fail;
		float out[3 * 30 * 30];

		assert_int_equal(open_steps(&t, golden_transform[k].step, 2, golden_transform[k].h,
					    golden_transform[k].w, false, &fail),
				 SL_OK);
		for (int again = 0; again < 2; again++) {
			(void)sl_transform_begin(t, &work, 1, 2, 5);
			assert_int_equal(sl_transform_apply(&work, out, &picture, &fail), SL_OK);
			for (int i = 0; i < n; i++)
				if (lrintf(out[i] * 255) != golden_transform[k].out[i])
					fail_msg("%s, %s: value %d is %f, torchvision has %d",
						 golden_transform[k].step[0], golden_transform[k].step[1], i,
						 (double)out[i] * 255, golden_transform[k].out[i]);
		}
		sl_transform_work_close(&work);
		sl_transform_close(t);
	}
}

static void spelled_as_in_python(void **state)
{
	static const char *const good[] = {
		"RandomResizedCrop(32)",
		"RandomResizedCrop((32, 32))",
		"RandomResizedCrop",
		"transforms.RandomResizedCrop(size=[32, 32], scale=(0.08, 1.0), ratio=(3. / 4., 4. / 3.), "
		"interpolation=InterpolationMode.BILINEAR)",
		" T.Resize( ( 32 , 32 ) , antialias=True ) ",
		"Resize(size=(32, 32), interpolation=2, max_size=None)",
		"RandomCrop(32, 4)",
		"RandomCrop(32, padding=(4, 2), pad_if_needed=False, padding_mode=\"reflect\")",
		"RandomCrop(32, padding=None, pad_if_needed=True, fill=(1, 2, 3))",
		"CenterCrop(32)",
	};
	static const char *const turns[] = {
		"RandomRotation(10)",
		"RandomRotation(degrees=(-5, 20), interpolation=InterpolationMode.BILINEAR, expand=False, center=None, "
		"fill=(1, 2, 3))",
		"RandomAffine(0, translate=None, scale=None, shear=None, interpolation=0, fill=0, center=(3, 4))",
		"T.RandomAffine((-10, 10), (0.1, 0.1), (0.9, 1.1), (-5, 5, -3, 3))",
		"Grayscale()",
		"Grayscale(num_output_channels=3)",
		"RandomGrayscale(p=0.2)",
		"RandAugment()",
		"RandAugment(num_ops=3, magnitude=12, num_magnitude_bins=40, interpolation=nearest, fill=None)",
	};
	static const struct {
		const char *step, *says;
	} bad[] = {
		{"RandomCorp(32)",
		 "step 1, RandomCorp(32): there is no step of this name; there are Resize, CenterCrop"},
		{"RandomCrop(32", "the last \")\" is missing"},
		{"RandomCrop(32) x", "\"x\" stands behind the step"},
		{"RandomCrop(32, 4, size=3)", "given twice"},
		{"RandomCrop(32, pad=4)", "no such parameter"},
		{"RandomCrop(32 4)", "a comma is missing before \"4)\""},
		{"RandomCrop(0)", "size must be"},
		{"RandomCrop((32, 1.5))", "size must be"},
		{"RandomCrop((1,2,3))", "size must be"},
		{"RandomCrop((1,2,3,4,5))", "size must be a number, a list of at most 4"},
		{"RandomCrop(32, padding=-1)", "padding must be"},
		{"RandomCrop(32, padding_mode=wrap)", "padding_mode must be constant, reflect, edge or symmetric"},
		{"RandomCrop(32, fill=256)", "fill must be"},
		{"RandomCrop(32, pad_if_needed=True, padding_mode=edge)", "pad_if_needed goes with"},
		{"RandomResizedCrop(32, scale=(1, 0.1))", "scale must be two numbers that rise, from 0 to 1"},
		{"RandomResizedCrop(32, ratio=(0, 1))", "ratio must be"},
		{"RandomResizedCrop(32, interpolation=bicubic)", "interpolation must be bilinear"},
		{"Resize((32, 32), antialias=False)", "antialias must be True"},
		{"Resize(32)", "the list does not say the size of its images"},
		{"CenterCrop(31)", "the list makes images of 31 x 31, model.image is 32x32"},
		{"RandomHorizontalFlip(2)", "p must be from 0 to 1"},
		{"ColorJitter(hue=0.6)", "hue must be from 0 to 0.5"},
		{"ColorJitter(hue=(0, 1.2))", "hue must be two numbers that rise, from -0.5 to 0.5"},
		{"ColorJitter(-1)", "brightness must be from 0 to 100"},
		{"ColorJitter((2, 1))", "brightness must be two numbers that rise"},
		{"Normalize(0.5)", "Normalize needs mean and std"},
		{"Normalize(0.5, 0)", "std must be"},
		{"Normalize((0.1, 0.2), 1)", "mean must be one number or three"},
		{"RandomErasing(value='noise')", "value must be"},
		{"Cutout", "Cutout needs a size"},
		{"RandomResizedCrop(32, scale=(1/0, 1))", "scale must be"},
		{"RandomRotation()", "RandomRotation needs degrees"},
		{"RandomRotation((20, 10))", "degrees must be degrees that rise, from -360 to 360"},
		{"RandomRotation(10, expand=True)", "expand must be False: images keep their size"},
		{"RandomRotation(10, interpolation=bicubic)", "interpolation must be nearest or bilinear"},
		{"RandomAffine(10, translate=(0.5, 2))", "translate must be two shares of width and height"},
		{"RandomAffine(10, shear=90)", "shear must be degrees that rise, from -89 to 89"},
		{"RandomAffine(10, scale=(0, 1))", "scale must be two numbers that rise, from 0.01 to 100"},
		{"RandomAffine(10, center=3)", "center must be (x, y) in pixels, or None"},
		{"Grayscale(2)", "num_output_channels must be 1 or 3"},
		{"RandAugment(9)", "num_ops must be a whole number from 0 to 8"},
		{"RandAugment(2, 31)", "magnitude must be below num_magnitude_bins, 31"},
		{"", "a step begins with its name"},
		{"(32)", "a step begins with its name"},
	};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		sl_transform_close(open_one(good[i], 32, 32));
	for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
		char step[2][SL_CONF_TEXT] = {"", "Resize((32, 32))"};
		struct sl_transform *t = NULL;
		struct sl_fail fail = {0};

		snprintf(step[0], sizeof step[0], "%s", turns[i]);
		if (open_steps(&t, (const char(*)[SL_CONF_TEXT])step, 2, 32, 32, false, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		sl_transform_close(t);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char step[1][SL_CONF_TEXT];
		struct sl_transform *t = NULL;
		struct sl_fail fail = {0};

		snprintf(step[0], sizeof step[0], "%s", bad[i].step);
		assert_int_equal(open_steps(&t, (const char(*)[SL_CONF_TEXT])step, 1, 32, 32, false, &fail),
				 SL_ERR_CONFIG);
		if (!strstr(fail.text, bad[i].says))
			fail_msg("\"%s\": \"%s\" lacks \"%s\"", bad[i].step, fail.text, bad[i].says);
	}
}

/* Grey pictures of 16 bits: transforms that need bytes or three channels are refused, and a value
 * counts as its share of 65535. */
static void sixteen_bits_are_kept(void **state)
{
	static const struct {
		const char *step, *says;
	} bad[] = {{"RandAugment()", "is of 8 bits: take data.bits: 8"},
		   {"ColorJitter(hue=0.1)", "is of 8 bits"},
		   {"Normalize((0.1, 0.2, 0.3), 1)", "the picture is grey: give one number"}};
	static const char list[3][SL_CONF_TEXT] = {"ColorJitter(brightness=(1, 1.0001))", "CenterCrop((1, 2))",
						   "Normalize(0.25, 0.5)"};
	static const float deep[2] = {65535, 1};
	const struct sl_value value = {.data = deep, .deep = true, .dim = {1, 2, 1}};
	struct sl_transform_spec spec = {
		.n = 1, .out_h = 8, .out_w = 8, .norm = SL_NORMALIZE_NONE, .channels = 1, .deep = true};
	struct sl_transform_work work = {0};
	struct sl_transform *t = NULL;
	struct sl_fail fail = {0};
	float out[2];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char step[1][SL_CONF_TEXT];

		snprintf(step[0], sizeof step[0], "%s", bad[i].step);
		spec.step = (const char(*)[SL_CONF_TEXT])step;
		assert_int_equal(sl_transform_open(&t, &spec, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, bad[i].says))
			fail_msg("\"%s\" lacks \"%s\"", fail.text, bad[i].says);
	}
	spec.step = list;
	spec.n = 3;
	spec.out_h = 1;
	spec.out_w = 2;
	assert_int_equal(sl_transform_open(&t, &spec, &fail), SL_OK);
	(void)sl_transform_begin(t, &work, 1, 2, 3);
	assert_int_equal(sl_transform_apply(&work, out, &value, &fail), SL_OK);
	assert_true(out[0] == 1.5f && fabsf(out[1] - (1 / 65535.0f - 0.25f) / 0.5f) < 1e-6f);
	sl_transform_work_close(&work);
	sl_transform_close(t);
}

static void steps_stand_in_order(void **state)
{
	static const struct {
		char step[2][SL_CONF_TEXT];
		bool fixed;
		const char *says;
	} bad[] = {
		{{"Normalize(0, 1)", "CenterCrop(32)"}, false, "step 2, CenterCrop(32): must come before Normalize"},
		{{"CenterCrop(32)", "RandomHorizontalFlip"}, true, "step 2, RandomHorizontalFlip: an evaluation"},
		{{"CenterCrop(32)", "Cutout(33)"}, false, "step 2, Cutout(33): is larger than the image"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_transform *t = NULL;
		struct sl_fail fail = {0};

		assert_int_equal(open_steps(&t, bad[i].step, 2, 32, 32, bad[i].fixed, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, bad[i].says))
			fail_msg("\"%s\" lacks \"%s\"", fail.text, bad[i].says);
	}
}

/* Random areas, aspect ratios and places stay in their ranges and cover them. */
static void chance_is_even(void **state)
{
	enum { N = 4000, SIDE_H = 300, SIDE_W = 400 };
	struct sl_transform *t = open_one("RandomResizedCrop(32)", 32, 32);
	double least = 1, most = 0, sum = 0;
	int at_edge = 0;

	for (int64_t s = 0; s < N; s++) {
		const struct sl_window p = sl_transform_draw(t, 0, 7, 1, s, SIDE_H, SIDE_W).part;
		const double area = (double)p.h * p.w / (SIDE_H * SIDE_W), shape = (double)p.w / p.h;

		assert_true(p.top >= 0 && p.left >= 0 && p.top + p.h <= SIDE_H && p.left + p.w <= SIDE_W);
		assert_true(area > 0.078 && area <= 1 && shape > 0.74 && shape < 1.345);
		least = fmin(least, area);
		most = fmax(most, area);
		sum += area;
		at_edge += p.top + p.h == SIDE_H;
	}
	assert_true(least < 0.082 && most > 0.95);
	assert_true(fabs(sum / N - 0.4345) < 0.015); /* torchvision's mean for this picture size */
	assert_true(at_edge > N / 200);
	sl_transform_close(t);

	t = open_one("RandomResizedCrop(32, scale=(1, 1), ratio=(1, 1))", 32, 32);
	{
		const struct sl_window p = sl_transform_draw(t, 0, 7, 1, 0, 300, 400).part;

		assert_true(p.top == 0 && p.left == 50 && p.h == 300 && p.w == 300);
	}
	sl_transform_close(t);
}

/* Draws depend on seed, epoch and sample, and on nothing else. */
static void chance_is_a_function(void **state)
{
	struct sl_transform *t = open_one("RandomResizedCrop(32)", 32, 32);
	const struct sl_window a = sl_transform_draw(t, 0, 1, 2, 3, 300, 400).part;
	const struct sl_window again = sl_transform_draw(t, 0, 1, 2, 3, 300, 400).part;

	assert_memory_equal(&a, &again, sizeof a);
	for (int i = 0; i < 3; i++) {
		const struct sl_window b =
			sl_transform_draw(t, 0, 1 + (i == 0), (uint64_t)2 + (i == 1), 3 + (i == 2), 300, 400).part;

		assert_memory_not_equal(&a, &b, sizeof a);
	}
	sl_transform_close(t);
}

static void small_pictures_are_refused(void **state)
{
	static const char *const steps[] = {"RandomCrop(32)", "RandomCrop(32, padding=13, padding_mode=reflect)"};
	float out[32 * 32 * 3];

	for (size_t i = 0; i < 2; i++) {
		struct sl_transform *t = open_one(steps[i], 32, 32);
		struct sl_transform_work work = {0};
		struct sl_fail fail = {0};

		(void)sl_transform_begin(t, &work, 1, 1, 1);
		assert_int_equal(sl_transform_apply(&work, out, &picture, &fail), SL_ERR_DATA);
		assert_non_null(strstr(fail.text, "17 x 13"));
		sl_transform_work_close(&work);
		sl_transform_close(t);
	}
}

/* Erases half of a grey image with normal noise: as drawn if after Normalize, and normalised if before it. */
static void erased_by_noise(void **state)
{
	enum { SIDE = 64, N = SIDE * SIDE * 3 };
	static uint8_t grey[N];
	static float out[2][N], before[N];
	const struct sl_value picture = {.data = grey, .dim = {SIDE, SIDE, 3}};
	const char erases[] = "RandomErasing(1, scale=(0.5, 0.5), ratio=(1, 1), value='random')";
	struct sl_fail fail;

	for (int first = 0; first < 2; first++) {
		char step[3][SL_CONF_TEXT] = {"CenterCrop(64)", "Normalize(0.5, 0.25)", ""};
		struct sl_transform_work work = {0};
		double sum = 0, squares = 0;
		struct sl_transform *t;
		int n = 0;

		snprintf(step[2], sizeof step[2], "%s", first ? step[1] : erases);
		snprintf(step[1], sizeof step[1], "%s", first ? erases : "Normalize(0.5, 0.25)");
		assert_int_equal(open_steps(&t, (const char(*)[SL_CONF_TEXT])step, 3, SIDE, SIDE, false, &fail), SL_OK);
		for (int i = 0; i < 2; i++) {
			(void)sl_transform_begin(t, &work, 1, 2, 5 + i);
			assert_int_equal(sl_transform_apply(&work, out[i], &picture, &fail), SL_OK);
		}
		assert_memory_not_equal(out[0], out[1], sizeof out[0]);
		(void)sl_transform_begin(t, &work, 1, 2, 5);
		assert_int_equal(sl_transform_apply(&work, before, &picture, &fail), SL_OK);
		assert_memory_equal(out[0], before, sizeof before);
		for (int i = 0; i < N; i++) {
			const double x = first ? (double)out[0][i] * 0.25 + 0.5 : (double)out[0][i];

			if (out[0][i] == -2) /* black, after Normalize */
				continue;
			n++;
			sum += x;
			squares += x * x;
		}
		assert_in_range(n, N * 48 / 100, N * 52 / 100);
		assert_true(fabs(sum / n) < 0.05 && fabs(squares / n - 1) < 0.05);
		sl_transform_work_close(&work);
		sl_transform_close(t);
	}
}

static void the_usual_lists(void **state)
{
	static const struct {
		int h, w;
		bool train;
		const char *text;
	} cases[] = {
		{32, 32, true, "Resize((32, 32)) RandomCrop((32, 32), padding=4) RandomHorizontalFlip() "},
		{32, 32, false, "Resize((32, 32)) "},
		{224, 224, true, "RandomResizedCrop((224, 224)) RandomHorizontalFlip() "},
		{224, 224, false, "Resize(256) CenterCrop(224) "},
		{224, 320, false, "Resize((224, 320)) "},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sl_conf_list list = {0};
		struct sl_transform *t;
		struct sl_fail fail;
		char text[256] = "";

		sl_transform_usual(&list, cases[i].h, cases[i].w, cases[i].train);
		for (int k = 0; k < list.n; k++) {
			strcat(text, list.item[k]);
			strcat(text, " ");
		}
		assert_string_equal(text, cases[i].text);
		assert_int_equal(open_steps(&t, (const char(*)[SL_CONF_TEXT])list.item, list.n, cases[i].h, cases[i].w,
					    !cases[i].train, &fail),
				 SL_OK);
		sl_transform_close(t);
	}
}

/* The pixel in the middle lies exactly between others, so the last bit of the angle in radians decides it: with
 * x * pi / 180 in place of Python's x * (pi / 180) it is 95. Expected are the values of Pillow's Image.rotate. */
static void rotated_with_the_bits_of_python(void **state)
{
	static const uint8_t from[25] = {168, 15,  237, 72, 22, 43,  210, 75,  104, 7,  162, 177, 95,
					 75,  213, 47,  63, 31, 218, 148, 124, 116, 37, 167, 195};
	static const uint8_t right[25] = {122, 58,  145, 60,  149, 104, 64, 168, 196, 47,  55, 44, 94,
					  84,  204, 173, 203, 77,  100, 96, 188, 157, 183, 16, 29};
	struct sl_room image[2] = {{0}}, tables = {0};
	struct sl_fail fail;
	struct sl_canvas c = {
		.image = image, .tables = &tables, .pixels = from, .h = 5, .w = 5, .channels = 1, .fail = &fail};
	double m[6];

	sl_warp_rotate(m, -94.1, (const double[2]){2.5, 2.5});
	assert_int_equal(sl_canvas_warp(&c, m, true, (const uint8_t[3]){0}), SL_OK);
	assert_memory_equal(c.pixels, right, sizeof right);
	for (int i = 0; i < 2; i++)
		sl_room_close(&image[i]);
	sl_room_close(&tables);
}

static int make_picture(void **state)
{
	for (int i = 0; i < H * W * 3; i++)
		pixels[i] = (uint8_t)((i * 73 + i * i % 19 * 5) % 256);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_torchvision_makes_them),
		cmocka_unit_test(spelled_as_in_python),
		cmocka_unit_test(sixteen_bits_are_kept),
		cmocka_unit_test(steps_stand_in_order),
		cmocka_unit_test(chance_is_even),
		cmocka_unit_test(chance_is_a_function),
		cmocka_unit_test(small_pictures_are_refused),
		cmocka_unit_test(erased_by_noise),
		cmocka_unit_test(the_usual_lists),
		cmocka_unit_test(rotated_with_the_bits_of_python),
	};

	return cmocka_run_group_tests(tests, make_picture, NULL);
}
