/* The figures of client/leak, against those of PyTorch and numpy (tests/golden/make_leak.py).
 * Labels and pictures that an attacker can find, and some that cannot be found. */

#include <math.h>

#include "client/figures/similarity.h"
#include "client/leak/crossing.h"
#include "client/leak/decoder.h"
#include "client/leak/figures.h"
#include "client/leak/labels.h"
#include "common/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/unit.h"

enum { H = 18, W = 16, C = 3, N = 12, DX = 5, DY = 7 };

static float noise(uint64_t i, uint64_t step)
{
	const struct sl_rng_key key = {7, step, 0, SL_RNG_TEST};

	return (float)sl_rng_u32(&key, i) / 4294967296.0f;
}

static void near_to(double is, double want)
{
	if (!(fabs(is - want) <= 1e-5))
		fail_msg("%.9g, not %.9g", is, want);
}

static void figures_are_pytorchs_and_numpys(void **state)
{
	float x[H * W * C], y[H * W * C], v[N * DX], w[N * DY];
	double d;

	for (int i = 0; i < H * W * C; i++) {
		const double a = (i * 37 + 11) % 101 / 101.0, b = a + ((i * 53 + 7) % 89 - 44) / 400.0;

		x[i] = (float)a;
		y[i] = (float)fmin(1, fmax(0, b));
	}
	near_to(sl_leak_psnr(x, y, H * W * C), 24.086754550528873);
	near_to(sl_leak_ssim(x, y, H, W, C), 0.9769625036065351);
	near_to(sl_leak_ssim(x, x, H, W, C), 1);
	for (int i = 0; i < N * DX; i++)
		v[i] = (float)((i * i * 29 + i * 13) % 97) / 97.0f;
	for (int i = 0; i < N * DY; i++)
		w[i] = (float)((i * 41 + 3) % 83) / 83.0f + 2 * v[i / DY * DX];
	assert_int_equal(sl_leak_dcor(&d, v, DX, w, DY, N), SL_OK);
	near_to(d, 0.6489209511028846);
}

/* In many dimensions the usual (biased) estimator finds two noises correlated; this one does not. */
static void noise_has_no_distance_correlation(void **state)
{
	enum { ROWS = 100, WIDE = 400 };
	static float x[ROWS * WIDE], y[ROWS * WIDE];
	double d;

	for (uint64_t i = 0; i < ROWS * WIDE; i++) {
		x[i] = noise(i, 1);
		y[i] = noise(i, 2);
	}
	assert_int_equal(sl_leak_dcor(&d, x, WIDE, y, WIDE, ROWS), SL_OK);
	assert_true(fabs(d) < 0.1);
	near_to(sl_leak_retrieved(x, x, ROWS, WIDE), 1);
	assert_true(sl_leak_retrieved(x, y, ROWS, WIDE) < 0.1);
}

static double clusters(const float *x, int64_t n, int64_t d, const int32_t *label, int classes, int32_t *predicted,
		       double *chance)
{
	const struct sl_leak_vectors v = {1, {x, NULL}, {d, 0}};

	return sl_leak_labels_clusters(&v, n, label, classes, predicted, chance);
}

static void labels_are_found_where_they_show(void **state)
{
	enum { ROWS = 120, WIDE = 24, CLASSES = 4 };
	static float shows[ROWS * WIDE], hides[ROWS * WIDE];
	int32_t label[ROWS];
	int32_t predicted[ROWS];
	double chance, of_class[CLASSES + 1];

	for (int i = 0; i < ROWS; i++)
		label[i] = i % CLASSES;
	for (uint64_t i = 0; i < ROWS * WIDE; i++) {
		hides[i] = noise(i, 3) - 0.5f;
		shows[i] = hides[i] * 0.2f + ((int)(i % WIDE) / 6 == label[i / WIDE] ? 1.0f : 0.0f);
	}
	near_to(sl_leak_labels_known(shows, ROWS, WIDE, label, CLASSES, predicted), 1);
	near_to(clusters(shows, ROWS, WIDE, label, CLASSES, predicted, &chance), 1);
	assert_true(chance < 0.5);
	near_to(sl_leak_labels_neighbours(shows, ROWS, WIDE, label, 10, predicted), 1);
	assert_true(sl_leak_labels_known(hides, ROWS, WIDE, label, CLASSES, predicted) < 0.45);
	assert_true(sl_leak_labels_neighbours(hides, ROWS, WIDE, label, 10, predicted) < 0.45);
	near_to(sl_leak_labels_majority(label, ROWS, CLASSES), 0.25);
	for (int i = 0; i < ROWS; i++)
		predicted[i] = i == 3 ? -1 : i % CLASSES && i >= CLASSES ? i % CLASSES : 0;
	near_to(sl_leak_labels_share(predicted, label, ROWS, CLASSES + 1, of_class), 117.0 / 119);
	near_to(of_class[0], 1);
	near_to(of_class[1], 29.0 / 30);
	near_to(of_class[3], 1); /* the sample that was not asked does not count */
	assert_true(isnan(of_class[CLASSES]));
}

/* Twenty neighbouring directions: k-means from a single start joins some of them and divides others. */
static void many_starts_find_what_one_misses(void **state)
{
	enum { CLASSES = 20, ROWS = 20 * CLASSES, WIDE = 3 };
	static float x[ROWS * WIDE], flat[ROWS * WIDE];
	const struct sl_leak_vectors both = {2, {x, flat}, {WIDE, WIDE}};
	int32_t label[ROWS], predicted[ROWS];
	double chance, pure;

	for (int i = 0; i < ROWS; i++) {
		const double angle = 2 * M_PI * (i % CLASSES) / CLASSES;

		label[i] = i % CLASSES;
		for (int j = 0; j < WIDE; j++) {
			const float by = noise((uint64_t)(i * WIDE + j), 20) - 0.5f;

			x[i * WIDE + j] = (j < 2 ? (float)(j ? sin(angle) : cos(angle)) : 0) + 0.25f * by;
			flat[i * WIDE + j] = 100 + by;
		}
	}
	pure = clusters(x, ROWS, WIDE, label, CLASSES, predicted, &chance);
	if (!(pure > 0.98))
		fail_msg("purity %.3f", pure);
	/* A part that tells nothing does not hide what the other one tells. */
	assert_true(sl_leak_labels_clusters(&both, ROWS, label, CLASSES, predicted, &chance) > 0.8);
	near_to(sl_leak_labels_share(predicted, label, ROWS, CLASSES, NULL),
		sl_leak_labels_clusters(&both, ROWS, label, CLASSES, predicted, &chance));
}

/* The purity of clusters of noise is far above the most frequent label. Shuffled labels have as much. */
static void clusters_of_noise_are_as_pure_as_chance(void **state)
{
	enum { ROWS = 160, WIDE = 12 };
	static const int classes[] = {2, 10, 100, 1000};
	static float x[ROWS * WIDE];
	int32_t label[ROWS], predicted[ROWS];
	double pure, chance;

	for (uint64_t i = 0; i < ROWS * WIDE; i++)
		x[i] = noise(i, 10) - 0.5f;
	for (size_t k = 0; k < sizeof classes / sizeof classes[0]; k++) {
		for (int i = 0; i < ROWS; i++)
			label[i] = (int32_t)(noise((uint64_t)i, 11) * (float)classes[k]);
		pure = clusters(x, ROWS, WIDE, label, classes[k], predicted, &chance);
		if (!(fabs(pure - chance) < 0.06))
			fail_msg("%d classes: %.3f, and %.3f by chance", classes[k], pure, chance);
		assert_true(k == 0 || chance > 1.5 * sl_leak_labels_majority(label, ROWS, classes[k]));
	}
	near_to(pure, 1); /* a cluster for each sample */
	near_to(chance, 1);
}

/* NaN or Inf in what crosses: "undefined", and not a number that looks like "nothing is seen". */
static void figures_of_what_is_not_finite_are_undefined(void **state)
{
	enum { ROWS = 12, WIDE = 27, CLASSES = 3 };
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	float x[ROWS * WIDE], y[ROWS * WIDE];
	double of[ROWS] = {1, 2, NAN}, chance;
	int32_t label[ROWS], predicted[ROWS];
	double dcor;

	for (int i = 0; i < ROWS; i++)
		label[i] = i % CLASSES;
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
		for (int i = 0; i < ROWS * WIDE; i++)
			x[i] = y[i] = noise((uint64_t)i, 12);
		x[ROWS * WIDE - 1] = bad[k];
		assert_true(isnan(sl_leak_psnr(x, y, ROWS * WIDE)));
		assert_true(isnan(sl_leak_ssim(x + (ROWS - 1) * WIDE, y, 3, 3, 3)));
		assert_true(isnan(sl_leak_retrieved(y, x, ROWS, WIDE)));
		assert_true(isnan(sl_leak_r2(x, y, ROWS, WIDE, WIDE - 1, 1)));
		assert_true(isnan(sl_leak_r2(y, x, ROWS, WIDE, WIDE - 1, 1)));
		assert_true(isnan(sl_leak_labels_known(x, ROWS, WIDE, label, CLASSES, predicted)));
		assert_true(isnan(sl_leak_labels_neighbours(x, ROWS, WIDE, label, 3, predicted)));
		assert_true(isnan(sl_leak_labels_rows(x, ROWS, WIDE, label, y, CLASSES)));
		assert_true(isnan(clusters(x, ROWS, WIDE, label, CLASSES, predicted, &chance)) && isnan(chance));
		assert_int_equal(sl_leak_dcor(&dcor, y, WIDE, x, WIDE, ROWS), SL_OK);
		assert_true(isnan(dcor));
	}
	assert_true(isnan(sl_leak_spread(of, ROWS).p10) && isnan(sl_leak_spread(of, ROWS).mean));
	assert_true(isnan(sl_leak_spread(of, 0).mean));
	assert_true(isnan(sl_leak_r2(y, y, 1, WIDE, 0, 1))); /* one row has no variation */
	for (int i = 0; i < ROWS; i++)
		x[i] = 0.1f;
	assert_true(isnan(sl_leak_r2(y, x, ROWS, 1, 0, 1))); /* nor have equal ones, whatever their mean's rounding */
	memset(x, 0, sizeof x);
	assert_int_equal(sl_leak_dcor(&dcor, y, WIDE, x, WIDE, ROWS), SL_OK); /* what is always equal tells nothing */
	near_to(dcor, 0);
}

/* statsmodels' proportion_confint(method="wilson") */
static void a_share_has_wilsons_interval(void **state)
{
	static const struct {
		double share;
		int64_t n;
		double low, high;
	} want[] = {{0, 10, 0, 0.277533},
		    {1, 10, 0.722467, 1},
		    {0.8, 10, 0.490162, 0.943318},
		    {0.3, 1000, 0.272410, 0.329128}};
	double low, high;

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		sl_leak_interval(want[i].share, want[i].n, &low, &high);
		near_to(low, want[i].low);
		near_to(high, want[i].high);
	}
	sl_leak_interval(NAN, 10, &low, &high);
	assert_true(isnan(low) && isnan(high));
	sl_leak_interval(0.5, 0, &low, &high);
	assert_true(isnan(low) && isnan(high));
}

static void says(const struct sl_leak_figures *of, enum sl_leak_of what, const char *want)
{
	char text[SL_LEAK_SHORT_TEXT];

	assert_string_equal(sl_leak_in_short(of, what, text), want);
}

static void the_answer_is_the_share_furthest_above_chance(void **state)
{
	struct sl_leak_figures l = {0};

	(void)state;
	says(&l, SL_LEAK_OF_DATA, "not measured");
	sl_leak_figures_add(&l, SL_LEAK_DCOR, "", NULL, (struct sl_leak_spread){.mean = 0.9}, 0, 100);
	says(&l, SL_LEAK_OF_DATA, "not measured"); /* a figure that is no share */
	sl_leak_figures_add(&l, SL_LEAK_AGAIN, "start", NULL, (struct sl_leak_spread){.mean = NAN}, 0.01, 100);
	says(&l, SL_LEAK_OF_DATA, "undefined, since what crosses holds NaN or Inf; nothing follows from that");
	sl_leak_figures_add(&l, SL_LEAK_AGAIN, "informed", NULL, (struct sl_leak_spread){.mean = 0.02}, 0.01, 100);
	says(&l, SL_LEAK_OF_DATA, "no attack found more than a guess does, which proves nothing");
	sl_leak_figures_add(&l, SL_LEAK_PROBE, "informed", NULL, (struct sl_leak_spread){.mean = 0.5}, 0.1, 100);
	says(&l, SL_LEAK_OF_DATA, "tokens found by a linear probe: 50.0 %; a guess has 10.0 %");
	/* 0.9 of samples where 0.85 are a guess's is less than 0.5 where a guess has 0.1 */
	sl_leak_figures_add(&l, SL_LEAK_WORDS, "", NULL, (struct sl_leak_spread){.mean = 0.9}, 0.85, 10000);
	says(&l, SL_LEAK_OF_DATA, "tokens found by a linear probe: 50.0 %; a guess has 10.0 %");
	says(&l, SL_LEAK_OF_LABELS, "not measured");
	sl_leak_figures_add(&l, SL_LEAK_LABELS_HEAD, "labels", NULL, (struct sl_leak_spread){.mean = 1}, 0.25, 100);
	says(&l, SL_LEAK_OF_LABELS, "labels from the head's activations: 100.0 %; a guess has 25.0 %");
	sl_leak_figures_close(&l);
}

/* Rows of a table behind a layer with ReLU: features beyond [0, 1] come back, one that does not cross stays unknown. */
static void rows_of_a_table_are_found_where_they_show(void **state)
{
	enum { ROWS = 500, SEEN = 400, WIDE = 3, ACT = 8 };
	static float row[ROWS * WIDE], act[ROWS * ACT], said[(ROWS - SEEN) * WIDE];
	const struct sl_decoder_spec spec = {
		.act = sl_shape2(1, ACT), .image = sl_shape2(1, WIDE), .table = true, .seed = 5, .steps = 300};
	struct sl_decoder *d;
	struct sl_backend be;
	struct sl_fail fail;
	double loss;

	for (uint64_t i = 0; i < ROWS * WIDE; i++)
		row[i] = noise(i, 13) * 8 - 4;
	for (int i = 0; i < ROWS * ACT; i++) {
		const float *x = row + i / ACT * WIDE;

		act[i] = fmaxf(0, (i % 2 ? 1.0f : -1.0f) * (i % ACT < 4 ? x[0] : x[0] / 2 + x[1]) + (float)(i % 4));
	}
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_int_equal(sl_decoder_open(&d, &spec, &be, &fail), SL_OK);
	for (int step = 0; step < spec.steps; step++)
		assert_int_equal(sl_decoder_step(d, act, row, SEEN, step, &loss), SL_OK);
	assert_int_equal(sl_decoder_apply(d, act + SEEN * ACT, ROWS - SEEN, said), SL_OK);
	for (int k = 0; k < WIDE; k++) {
		const double r2 = sl_leak_r2(said, row + SEEN * WIDE, ROWS - SEEN, WIDE, k, 1);

		if (k < 2 ? !(r2 > 0.9) : !(r2 < 0.1))
			fail_msg("column %d: R² %.3f", k, r2);
	}
	near_to(sl_leak_r2(row, row, ROWS, WIDE, 1, 2), 1);
	sl_decoder_close(d);
	be.ops->close(&be);
}

/* PSNR of pictures that the decoder was not trained on. */
static double decoded(bool hidden, int halvings)
{
	enum { ROWS = 288, SEEN = 256, SIDE = 8, FLOATS = SIDE * SIDE * C };
	static float image[ROWS * FLOATS], act[ROWS * FLOATS], said[ROWS * FLOATS];
	const int side = SIDE >> halvings, channels = C << 2 * halvings;
	const struct sl_decoder_spec spec = {.act = sl_shape4(1, side, side, channels),
					     .image = sl_shape4(1, SIDE, SIDE, C),
					     .seed = 5,
					     .steps = 200};
	struct sl_decoder *d;
	struct sl_backend be;
	struct sl_fail fail;
	double loss, db;

	for (uint64_t i = 0; i < ROWS * FLOATS; i++)
		image[i] = noise(i / 48, 4); /* one colour for each quarter of a picture */
	for (int i = 0; i < ROWS * FLOATS; i++)
		act[i] = hidden ? noise((uint64_t)i, 6) : image[i] * 3 - 1;
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_int_equal(sl_decoder_open(&d, &spec, &be, &fail), SL_OK);
	for (int step = 0; step < spec.steps; step++)
		assert_int_equal(sl_decoder_step(d, act, image, SEEN, step, &loss), SL_OK);
	assert_int_equal(sl_decoder_apply(d, act + SEEN * FLOATS, ROWS - SEEN, said), SL_OK);
	db = sl_leak_psnr(said, image + SEEN * FLOATS, (ROWS - SEEN) * FLOATS);
	act[SEEN * FLOATS] = NAN; /* is not clamped to a pixel */
	assert_int_equal(sl_decoder_apply(d, act + SEEN * FLOATS, 1, said), SL_OK);
	assert_true(isnan(sl_leak_psnr(said, image, FLOATS)));
	sl_decoder_close(d);
	be.ops->close(&be);
	return db;
}

/* make_leak.py trains the same decoder in double precision. Data of few values would lie at kinks of ReLU. */
static void a_decoder_learns_as_pytorchs(void **state)
{
	enum { ROWS = 64, SIDE = 4, DEEP = 4 * C, WIDE = 2 * SIDE, STEPS = 20 };
	static const double want[] = {0.0829934070955528, 0.03137039261178337, 0.022781382088002417};
	static float image[ROWS][WIDE][WIDE][C], act[ROWS][SIDE][SIDE][DEEP];
	const struct sl_decoder_spec spec = {
		.act = sl_shape4(1, SIDE, SIDE, DEEP), .image = sl_shape4(1, WIDE, WIDE, C), .seed = 5, .steps = STEPS};
	struct sl_decoder *d;
	struct sl_backend be;
	struct sl_fail fail;
	double loss;

	for (int i = 0; i < ROWS * WIDE * WIDE * C; i++)
		(&image[0][0][0][0])[i] = (float)(i * 3571 % 8191 / 8191.0);
	for (int i = 0; i < ROWS * SIDE * SIDE * DEEP; i++) {
		const int k = i % DEEP, x = i / DEEP % SIDE, y = i / DEEP / SIDE % SIDE, row = i / DEEP / SIDE / SIDE;

		act[row][y][x][k] =
			image[row][2 * y + k / 2 % 2][2 * x + k % 2][k / 4] + (float)(i * 3571 % 8191 / 8191.0 / 4);
	}
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_int_equal(sl_decoder_open(&d, &spec, &be, &fail), SL_OK);
	for (int step = 0, k = 0; step < STEPS; step++) {
		assert_int_equal(sl_decoder_step(d, &act[0][0][0][0], image, ROWS, step, &loss), SL_OK);
		if ((step == 0 || step == 9 || step == 19) && !(fabs(loss / want[k++] - 1) < 1e-6))
			fail_msg("step %d: a loss of %.9g, not %.9g", step, loss, want[k - 1]);
	}
	sl_decoder_close(d);
	be.ops->close(&be);
}

/* The activation of each token is its row of an embedding table, plus some noise. */
static void tokens_are_found_where_they_show(void **state)
{
	enum { VOCAB = 20, WIDE = 16, SEEN = 400, ROWS = 500 };
	static float table[VOCAB * WIDE], act[ROWS * WIDE], said[(ROWS - SEEN) * VOCAB];
	const struct sl_decoder_spec spec = {.act = sl_shape2(1, WIDE), .classes = VOCAB, .seed = 5, .steps = 200};
	int32_t token[ROWS], other[ROWS];
	struct sl_decoder *d;
	struct sl_backend be;
	struct sl_fail fail;
	double loss;
	int met = 0;

	for (uint64_t i = 0; i < VOCAB * WIDE; i++)
		table[i] = noise(i, 8) - 0.5f;
	for (int i = 0; i < ROWS * WIDE; i++) {
		token[i / WIDE] = i / WIDE * 7 % VOCAB;
		other[i / WIDE] = (token[i / WIDE] + 1) % VOCAB;
		act[i] = 3 * table[token[i / WIDE] * WIDE + i % WIDE] + noise((uint64_t)i, 9) * 0.2f;
	}
	near_to(sl_leak_labels_rows(act, ROWS, WIDE, token, table, VOCAB), 1);
	near_to(sl_leak_labels_rows(act, ROWS, WIDE, other, table, VOCAB), 0);
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_int_equal(sl_decoder_open(&d, &spec, &be, &fail), SL_OK);
	for (int step = 0; step < spec.steps; step++)
		assert_int_equal(sl_decoder_step(d, act, token, SEEN, step, &loss), SL_OK);
	assert_int_equal(sl_decoder_apply(d, act + SEEN * WIDE, ROWS - SEEN, said), SL_OK);
	for (int i = 0; i < ROWS - SEEN; i++) {
		int best = 0;

		for (int k = 1; k < VOCAB; k++)
			best = said[i * VOCAB + k] > said[i * VOCAB + best] ? k : best;
		met += best == token[SEEN + i];
	}
	assert_true(met > (ROWS - SEEN) * 95 / 100);
	sl_decoder_close(d);
	be.ops->close(&be);
}

/* A head that hides nothing, one that folds pictures to a lower resolution, and one that sends
 * noise. The mean picture alone gives 10.8 dB. */
static void a_decoder_gives_back_what_is_there(void **state)
{
	const double whole = decoded(false, 0), folded = decoded(false, 1), hidden = decoded(true, 0);

	if (whole < 25 || folded < 20 || hidden > 11.5)
		fail_msg("%.2f, %.2f and %.2f dB", whole, folded, hidden);
	assert_true(decoded(false, 1) == folded); /* reproducible to the bit */
}

/* Of 16 slices the attackers reconstruct 6 to 8. Where 8 slices crossed, these lie in 3 and 4, beside 2 and 5. */
static void a_decoder_sees_the_slices_around_the_middle(void **state)
{
	enum { HIGH = 2, WIDE = 3, OF = 8, ROWS = 2, DEEP = HIGH * WIDE * C };
	struct sl_crossed c = {.n = ROWS,
			       .head = sl_shape4(1, OF * HIGH, WIDE, C),
			       .volume = {.depth = 16, .first = 6, .n = 3, .act = OF}};
	float act[ROWS * OF * DEEP], *seen;
	struct sl_shape shape;

	for (int i = 0; i < ROWS * OF * DEEP; i++)
		act[i] = (float)i;
	c.act[SL_DIR_HEAD_ACT] = act;
	seen = sl_crossed_middle(&c, &shape);
	assert_true(sl_shape_equal(&shape, &(struct sl_shape){4, {1, HIGH, WIDE, 4 * C}}));
	for (int i = 0; i < ROWS * HIGH * WIDE; i++)
		for (int k = 0; k < 4 * C; k++)
			assert_true((int)seen[i * 4 * C + k] ==
				    (i / (HIGH * WIDE) * OF + 2 + k / C) * DEEP + i % (HIGH * WIDE) * C + k % C);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_pytorchs_and_numpys),
		cmocka_unit_test(noise_has_no_distance_correlation),
		cmocka_unit_test(labels_are_found_where_they_show),
		cmocka_unit_test(many_starts_find_what_one_misses),
		cmocka_unit_test(clusters_of_noise_are_as_pure_as_chance),
		cmocka_unit_test(figures_of_what_is_not_finite_are_undefined),
		cmocka_unit_test(a_share_has_wilsons_interval),
		cmocka_unit_test(the_answer_is_the_share_furthest_above_chance),
		cmocka_unit_test(rows_of_a_table_are_found_where_they_show),
		cmocka_unit_test(a_decoder_learns_as_pytorchs),
		cmocka_unit_test(tokens_are_found_where_they_show),
		cmocka_unit_test(a_decoder_gives_back_what_is_there),
		cmocka_unit_test(a_decoder_sees_the_slices_around_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
