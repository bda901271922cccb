/* Principal components against their definition, on vectors that are not centred: orthonormal rows,
 * which are eigenvectors of the covariance in the order of their eigenvalues; and the share of the
 * variance that they leave out. */

#include <math.h>

#include "kernels/cpu/principal.h"
#include "tests/support/unit.h"

enum { SIZE = 12, COUNT = 5, N = 700 };

static float x[N][SIZE], mean[SIZE], axis[COUNT][SIZE];
static double covariance[SIZE][SIZE];

static void make_vectors(void)
{
	float *draw = calloc((size_t)N * SIZE, sizeof *draw);

	for (int i = 0; i < N * SIZE; i++)
		draw[i] =
			sinf((float)i * 12.9898f) * 43758.547f - floorf(sinf((float)i * 12.9898f) * 43758.547f) - 0.5f;
	for (int n = 0; n < N; n++)
		for (int i = 0; i < SIZE; i++) /* neighbours are correlated, and the variance grows with i */
			x[n][i] = 3 + (float)(i + 1) * draw[n * SIZE + i] + (i ? 2 * draw[n * SIZE + i - 1] : 0);
	free(draw);
}

static void covariance_of(const float *centre)
{
	for (int i = 0; i < SIZE; i++)
		for (int k = 0; k < SIZE; k++) {
			covariance[i][k] = 0;
			for (int n = 0; n < N; n++)
				covariance[i][k] += (double)(x[n][i] - centre[i]) * (double)(x[n][k] - centre[k]) / N;
		}
}

/* The variance along an axis, which must be an eigenvector. */
static double value_of(const float *v)
{
	double value = 0;

	for (int i = 0; i < SIZE; i++)
		for (int k = 0; k < SIZE; k++)
			value += (double)v[i] * covariance[i][k] * (double)v[k];
	for (int i = 0; i < SIZE; i++) {
		double along = 0;

		for (int k = 0; k < SIZE; k++)
			along += covariance[i][k] * (double)v[k];
		assert_true(fabs(along - value * (double)v[i]) < 1e-5 * value);
	}
	return value;
}

static void found_around(float off)
{
	struct sl_principal *p;
	double rest, trace = 0, kept = 0, last = INFINITY;

	assert_int_equal(sl_principal_open(&p, SIZE), SL_OK);
	for (int n = 0; n < N; n++)
		sl_principal_add(p, x[n]);
	sl_principal_mean(p, mean);
	for (int i = 0; i < SIZE; i++)
		mean[i] += off;
	assert_int_equal(sl_principal_find(p, mean, COUNT, axis[0], &rest), SL_OK);
	sl_principal_close(p);
	covariance_of(mean);
	for (int i = 0; i < SIZE; i++)
		trace += covariance[i][i];
	for (int c = 0; c < COUNT; c++) {
		const double value = value_of(axis[c]);

		for (int other = 0; other <= c; other++) {
			double dot = 0;

			for (int i = 0; i < SIZE; i++)
				dot += (double)axis[c][i] * (double)axis[other][i];
			assert_true(fabs(dot - (other == c)) < 1e-6);
		}
		assert_true(value < last);
		last = value;
		kept += value;
	}
	assert_true(fabs(rest - (1 - kept / trace)) < 1e-6);
	assert_true(rest > 0 && rest < 0.5);
}

static void components(void **state)
{
	make_vectors();
	found_around(0);
	found_around(1.5f); /* around a centre that is not the mean */
}

static void nothing_to_find(void **state)
{
	struct sl_principal *p;
	float flat[3] = {1, 1, 1}, bad[3] = {1, NAN, 1}, v[3];
	double rest;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(sl_principal_open(&p, 3), SL_OK);
		sl_principal_add(p, i ? bad : flat);
		sl_principal_mean(p, v);
		assert_int_equal(sl_principal_find(p, flat, 1, v, &rest), SL_ERR_NONFINITE);
		sl_principal_close(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(components), cmocka_unit_test(nothing_to_find)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
