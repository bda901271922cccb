/* Intervals against published figures, and against their formulas as they are printed, in plain loops. */
#include <math.h>
#include <stdlib.h>

#include "client/figures/interval.h"
#include "tests/support/unit.h"

enum { N = 60, GROUPS = 9 };

static const double z = 1.959963984540054;

static int by_value(const void *a, const void *b)
{
	const struct sl_ranked *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

/* Values with ties, that tell a little of the class. */
static void fill(struct sl_ranked *s)
{
	for (int i = 0; i < N; i++) {
		s[i].yes = i * 7 % 5 < 2;
		s[i].group = (int32_t)(i * i % GROUPS);
		s[i].value = i * 37 % 23 + 4 * s[i].yes;
	}
	qsort(s, N, sizeof *s, by_value);
}

/* How sample i of the class ranks against k of the rest. */
static double won(const struct sl_ranked *s, int i, int k)
{
	return s[i].value > s[k].value ? 1 : s[i].value < s[k].value ? 0 : 0.5;
}

/* Σ over the other side of what sample i wins, as a share. */
static double share_of(const struct sl_ranked *s, int i)
{
	double sum = 0, n = 0;

	for (int k = 0; k < N; k++)
		if (s[k].yes != s[i].yes) {
			sum += s[i].yes ? won(s, i, k) : won(s, k, i);
			n++;
		}
	return sum / n;
}

static double area_of(const struct sl_ranked *s, double *yes)
{
	double sum = 0;

	*yes = 0;
	for (int i = 0; i < N; i++) {
		*yes += s[i].yes;
		sum += s[i].yes ? share_of(s, i) : 0;
	}
	return sum / *yes;
}

/* Wilson's interval of 8 of 10, as R's prop.test(8, 10, correct = FALSE) has it. */
static void a_share_has_wilsons(void **state)
{
	const struct sl_interval x = sl_interval_share(8, 10), none = sl_interval_share(0, 10);

	assert_float_equal(x.low, 0.4901625, 1e-7);
	assert_float_equal(x.high, 0.9433178, 1e-7);
	assert_float_equal(none.low, 0, 1e-12);
	assert_float_equal(none.high, 0.2775328, 1e-7);
	assert_true(isnan(sl_interval_share(0, 0).low));
}

/* R's t.test(c(0.8, 0.9, 1)) ends at 1.1484, and a share at 1. */
static void a_mean_has_students(void **state)
{
	const struct sl_interval x = sl_interval_mean(2.7, 0.64 + 0.81 + 1, 3);

	assert_float_equal(x.low, 0.6515862, 1e-7);
	assert_float_equal(x.high, 1, 1e-12);
	assert_true(isnan(sl_interval_mean(0.9, 0.81, 1).low) && isnan(sl_interval_mean(0, 0, 0).high));
}

/* DeLong: the variances of both sides' shares, each by its number less one. */
static void an_area_has_delongs(void **state)
{
	struct sl_ranked s[N];
	double yes, area, square[2] = {0, 0};
	struct sl_interval x;

	fill(s);
	area = area_of(s, &yes);
	for (int i = 0; i < N; i++)
		square[s[i].yes] += pow(share_of(s, i) - area, 2);
	x = sl_interval_area(s, N, 0);
	area = area_of(s, &yes);
	assert_float_equal((x.low + x.high) / 2, area, 1e-12);
	assert_float_equal((x.high - x.low) / 2,
			   z * sqrt(square[1] / (yes - 1) / yes + square[0] / (N - yes - 1) / (N - yes)), 1e-12);
}

/* Obuchowski (1997), equations 3 to 5. */
static void an_area_of_groups_has_obuchowskis(void **state)
{
	static const double t[] = {0, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060};
	struct sl_ranked s[N];
	double yes, area, own[2] = {0, 0}, both = 0, of[2] = {0, 0}, variance;
	struct sl_interval x;

	fill(s);
	area = area_of(s, &yes);
	for (int g = 0; g < GROUPS; g++) {
		double sum[2] = {0, 0}, n[2] = {0, 0};

		for (int i = 0; i < N; i++)
			if (s[i].group == g) {
				sum[s[i].yes] += share_of(s, i) - area;
				n[s[i].yes]++;
			}
		for (int k = 0; k < 2; k++) {
			own[k] += sum[k] * sum[k];
			of[k] += n[k] > 0;
		}
		both += sum[0] * sum[1];
	}
	double all = 0;
	for (int g = 0; g < GROUPS; g++)
		for (int i = 0; i < N; i++)
			if (s[i].group == g) {
				all++;
				break;
			}
	variance = of[1] / ((of[1] - 1) * yes) * own[1] / yes + of[0] / ((of[0] - 1) * (N - yes)) * own[0] / (N - yes) +
		   2 * all / (all - 1) * both / (yes * (N - yes));
	x = sl_interval_area(s, N, GROUPS);
	assert_float_equal((x.high - x.low) / 2, t[(int)fmin(of[0], of[1]) - 1] * sqrt(variance),
			   0.02 * (x.high - x.low));
}

/* Samples that are all alike in their group count as one: the interval is that of so many groups. */
static void groups_count_and_not_samples(void **state)
{
	static const double right[] = {10, 10, 0, 10, 10, 10, 0, 10, 10, 10},
			    n[] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, one[] = {1, 1, 0, 1, 1, 1, 0, 1, 1, 1},
			    single[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	const struct sl_interval a = sl_interval_grouped(right, n, 10), b = sl_interval_grouped(one, single, 10),
				 w = sl_interval_share(8, 10), all = sl_interval_grouped(n, n, 10);

	assert_float_equal(a.low, b.low, 1e-9);
	assert_float_equal(a.high, b.high, 1e-9);
	assert_true(a.low < w.low && a.high > w.high && a.low > 0.4);
	assert_true(all.high > 0.999 && all.low < 0.75 && all.low > 0.6);
	assert_true(isnan(sl_interval_grouped(n, n, 1).low));
}

static void what_is_not_known_has_none(void **state)
{
	struct sl_ranked s[4] = {{1, false, 0, 0}, {2, false, 1, 0}, {3, true, 2, 0}, {4, true, 3, 0}};

	assert_true(isnan(sl_interval_area(s, 4, 0).low)); /* no pair is wrong */
	s[2].value = 1.5;
	qsort(s, 4, sizeof *s, by_value);
	assert_true(isfinite(sl_interval_area(s, 4, 0).low));
	for (int i = 0; i < 4; i++)
		s[i].group = s[i].yes; /* one group each */
	assert_true(isnan(sl_interval_area(s, 4, 2).low));
	for (int i = 0; i < 4; i++)
		s[i].yes = true;
	assert_true(isnan(sl_interval_area(s, 4, 0).low));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_has_wilsons),          cmocka_unit_test(a_mean_has_students),
		cmocka_unit_test(an_area_has_delongs),          cmocka_unit_test(an_area_of_groups_has_obuchowskis),
		cmocka_unit_test(groups_count_and_not_samples), cmocka_unit_test(what_is_not_known_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
