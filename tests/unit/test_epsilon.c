/* Differential privacy: epsilon beside the formulas of the papers, and what noise with a clip is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/epsilon.h"
#include "client/step/noise.h"
#include "tests/support/unit.h"

static const double noises[] = {0.5, 1, 4, 20, 100};
static const uint64_t counts[] = {1, 2, 20, 600, 20000, 3};
static const double deltas[] = {1e-5, 1e-8, 1e-3};

/* The best of a hundred thousand orders, as accountants with a list of orders search it. */
static double by_search(double s, double n, double delta)
{
	double best = INFINITY;

	for (int i = -60000; i < 90000; i++) {
		const double a = 1 + pow(10, i * 1e-4);
		const double e = 2 * n * a / (s * s) + log1p(-1 / a) - (log(delta) + log(a)) / (a - 1);

		best = e < best ? e : best;
	}
	return best > 0 ? best : 0;
}

/* The exact delta of n such releases: one Gaussian mechanism with a sensitivity of 2 sqrt(n) / s deviations (Balle and
 * Wang 2018, theorem 8). */
static double exact_delta(double s, double n, double epsilon)
{
	const double m = 2 * sqrt(n) / s;
	const double with = 0.5 * erfc(-(m / 2 - epsilon / m) / sqrt(2)),
		     without = erfc((m / 2 + epsilon / m) / sqrt(2)) / 2;

	return with - (without > 0 ? exp(epsilon + log(without)) : 0);
}

static void epsilon_is_that_of_the_formulas(void **state)
{
	int settings = 0;

	(void)state;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++)
		for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
			const double delta = deltas[(i + k) % 3], n = (double)counts[k];
			const double e = sl_epsilon(noises[i], counts[k], delta), want = by_search(noises[i], n, delta);

			if (!(fabs(e - want) <= 1e-3 * want))
				fail_msg("noise %g, %g releases: %.9g, by search %.9g", noises[i], n, e, want);
			if (e < 300 && !(exact_delta(noises[i], n, e) <= delta))
				fail_msg("noise %g, %g releases: epsilon %g holds at %g alone", noises[i], n, e,
					 exact_delta(noises[i], n, e));
			settings++;
		}
	assert_int_equal(settings, 30);
	assert_true(sl_epsilon(4, 0, 1e-5) == 0);
}

static void budget_buys_whole_releases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++)
		for (double budget = 0.01; budget < 1e4; budget *= 7) {
			const uint64_t n = sl_epsilon_releases(noises[i], 1e-5, budget);

			assert_true(sl_epsilon(noises[i], n, 1e-5) <= budget);
			assert_true(sl_epsilon(noises[i], n + 1, 1e-5) > budget);
		}
}

enum { ROWS = 4, ROW = 501 };

static void draw(float *to, const float *x, struct sl_noise_place place)
{
	static uint32_t word[ROWS * ROW + 1];
	const struct sl_noise noise = {.head_act = 0.5, .mid_grad = 0.5, .clip_act = 2, .clip_grad = 2};
	const struct sl_dims dims = {.rows = ROWS};
	const struct sl_tensor t = {.data = (float *)(uintptr_t)x, .shape = {.ndim = 2, .dim = {ROWS, ROW}}};

	sl_noise_add(&noise, SL_DIR_HEAD_ACT, &place, &dims, &t, to, word);
}

/* Row 0 is short, row 1 long, rows 2 and 3 are equal. */
static void clipped_rows_have_noise_of_their_own(void **state)
{
	static float x[ROWS * ROW], got[ROWS * ROW], again[ROWS * ROW], other[ROWS * ROW];
	const double length[ROWS] = {0.1, 40, 1, 1};
	double squares = 0, sum = 0, fourth = 0, same = 0;

	(void)state;
	for (int i = 0; i < ROWS * ROW; i++)
		x[i] = (float)(length[i / ROW] / sqrt(ROW));
	draw(got, x, (struct sl_noise_place){.step = 3, .training = true});
	draw(again, x, (struct sl_noise_place){.step = 3, .training = true});
	assert_memory_equal(got, again, sizeof got);
	for (int i = 0; i < ROWS * ROW; i++) {
		const double scale = length[i / ROW] > 2 ? 2 / length[i / ROW] : 1;
		const double z = ((double)got[i] - scale * (double)x[i]) / (0.5 * 2);

		sum += z;
		squares += z * z;
		fourth += z * z * z * z;
		if (i >= 2 * ROW && i < 3 * ROW)
			same += got[i] == got[i + ROW];
	}
	assert_true(fabs(sum) < 4 * sqrt(ROWS * ROW));
	assert_true(fabs(squares / (ROWS * ROW) - 1) < 0.15);
	assert_true(fabs(fourth / (ROWS * ROW) - 3) < 1);
	assert_true(same < 3); /* else the server would see that both samples are equal */
	for (int what = 0; what < 4;
	     what++) { /* another step, an evaluation, another value, another value of the row */
		struct sl_noise_place place = {.step = 3 + (what == 0), .training = what != 1, .value = what == 2};
		double equal = 0;

		x[0] += what == 3 ? 1e-3f : 0;
		draw(other, x, place);
		for (int i = 1; i < ROW; i++)
			equal += other[i] == got[i];
		assert_true(equal < 3);
	}
}

/* Two runs with one key and seed, and other clips: from clip · (x + s · z) with the same z a server could compute x. */
static void another_clip_has_other_noise(void **state)
{
	static float x[ROW], got[2][ROW];
	static uint32_t word[ROW + 1];
	const struct sl_dims dims = {.rows = 1};
	const struct sl_tensor t = {.data = x, .shape = {.ndim = 2, .dim = {1, ROW}}};
	double same = 0;

	(void)state;
	for (int k = 0; k < 2; k++) {
		const struct sl_noise noise = {.head_act = 1, .clip_act = 2 + k, .clip_grad = 1};

		sl_noise_add(&noise, SL_DIR_HEAD_ACT, &(struct sl_noise_place){.step = 1}, &dims, &t, got[k], word);
	}
	for (int i = 0; i < ROW; i++)
		same += fabs((double)got[0][i] / 2 - (double)got[1][i] / 3) < 1e-5;
	assert_true(same < 5);
}

static void a_step_is_repeated_with_the_same_values_alone(void **state)
{
	struct sl_noise_count count = {0};
	struct sl_noise noise = {.head_act = 1, .mid_grad = 1, .clip_act = 2, .clip_grad = 1, .count = &count};
	float x[2] = {1, 2};
	const struct sl_tensor t = {.data = x, .shape = {.ndim = 2, .dim = {1, 2}}};
	struct sl_noise_place place = {.step = 7, .training = true};
	struct sl_fail fail;

	(void)state;
	for (int k = 0; k < 2; k++)
		assert_int_equal(sl_noise_check(&noise, SL_DIR_MID_GRAD, &place, &t, &fail), SL_OK);
	x[1] = 2.5f;
	assert_int_equal(sl_noise_check(&noise, SL_DIR_MID_GRAD, &place, &t, &fail), SL_ERR_AUDIT);
	assert_non_null(strstr(fail.text, "step 8 is repeated, and mid_grad would be another one"));
	assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_OK);
	place.step = 8;
	assert_int_equal(sl_noise_check(&noise, SL_DIR_MID_GRAD, &place, &t, &fail), SL_OK);
	place.training = false; /* an evaluation that is no run's */
	x[0] = 9;
	assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_OK);
	for (count.evaluates = 19; count.evaluates <= 21; count.evaluates += 2) { /* behind nine steps, and ten */
		x[0]++;
		for (int k = 0; k < 2; k++)
			assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_OK);
	}
	count.evaluates = 21;
	x[0]++;
	assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_ERR_AUDIT);
	assert_non_null(strstr(fail.text, "the evaluation behind step 10 is repeated"));
	x[0]--;
	for (int k = 0; k < 3; k++) { /* the same values with other noise are another release */
		const struct sl_noise was = noise;

		noise.clip_act += k == 0;
		noise.head_act += k == 1;
		noise.act_key.byte[0] += k == 2;
		assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_ERR_AUDIT);
		noise = was;
		assert_int_equal(sl_noise_check(&noise, SL_DIR_HEAD_ACT, &place, &t, &fail), SL_OK);
	}
	sl_releases_close(&count.releases);
}

static void no_clip_is_as_before(void **state)
{
	static const struct sl_noise noise = {.head_act = 0.5};
	const struct sl_dims dims = {.rows = 2};
	float x[2] = {3, 3}, to[2];
	uint32_t word[3];
	const struct sl_tensor t = {.data = x, .shape = {.ndim = 2, .dim = {2, 1}}};

	(void)state;
	sl_noise_add(&noise, SL_DIR_HEAD_ACT, &(struct sl_noise_place){.step = 1}, &dims, &t, to, word);
	assert_true(to[0] == to[1] && to[0] != x[0]); /* noise.… is a function of what is sent */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(epsilon_is_that_of_the_formulas),
					   cmocka_unit_test(budget_buys_whole_releases),
					   cmocka_unit_test(clipped_rows_have_noise_of_their_own),
					   cmocka_unit_test(another_clip_has_other_noise),
					   cmocka_unit_test(a_step_is_repeated_with_the_same_values_alone),
					   cmocka_unit_test(no_clip_is_as_before)};

	return cmocka_run_group_tests_name("epsilon", tests, NULL, NULL);
}
