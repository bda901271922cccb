/* Dice and the 95 % Hausdorff distance of two masks, against a search over all pairs of surface voxels. */
#include <math.h>

#include "client/figures/overlap.h"
#include "common/graph/task.h"
#include "tests/support/unit.h"

enum { I = 9, J = 7, K = 5, VOXELS = I * J * K, CLASSES = 4 };

static const int64_t dim[3] = {I, J, K};
static const double spacing[3] = {0.7, 1.3, 3.1};

static int at(const uint8_t *mask, int i, int j, int k)
{
	return i < 0 || j < 0 || k < 0 || i >= I || j >= J || k >= K ? -1 : mask[(k * J + j) * I + i];
}

static bool surface(const uint8_t *mask, int v, int class)
{
	const int i = v % I, j = v / I % J, k = v / I / J;

	return mask[v] == class &&
	       (at(mask, i - 1, j, k) != class || at(mask, i + 1, j, k) != class || at(mask, i, j - 1, k) != class ||
		at(mask, i, j + 1, k) != class || at(mask, i, j, k - 1) != class || at(mask, i, j, k + 1) != class);
}

static int by_size(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double searched(const uint8_t *from, const uint8_t *to, int class)
{
	double found[VOXELS], place;
	int n = 0;

	for (int v = 0; v < VOXELS; v++) {
		double least = INFINITY;

		for (int w = 0; w < VOXELS && surface(from, v, class); w++)
			if (surface(to, w, class))
				least = fmin(least, hypot(hypot((v % I - w % I) * spacing[0],
								(v / I % J - w / I % J) * spacing[1]),
							  (v / I / J - w / I / J) * spacing[2]));
		if (isfinite(least))
			found[n++] = least;
	}
	qsort(found, (size_t)n, sizeof *found, by_size);
	place = 0.95 * (n - 1);
	return found[(int)place] + (found[(int)ceil(place)] - found[(int)place]) * (place - floor(place));
}

/* Masks of any voxels, from hardly one of a class to nearly all of it, with voxels that do not count. */
static void distances_are_those_of_a_search(void **state)
{
	struct sl_overlap of[CLASSES];
	struct sl_fail fail;
	int measured = 0;

	srand(5);
	for (int turn = 0; turn < 60; turn++) {
		uint8_t right[VOXELS], said[VOXELS];

		for (int v = 0; v < VOXELS; v++) {
			right[v] = (uint8_t)(rand() % 100 <= turn * turn / 30 ? rand() % (CLASSES - 1) : 0);
			said[v] = (uint8_t)(rand() % 100 <= turn ? rand() % CLASSES : 0);
			if (turn % 3 == 0 && rand() % 9 == 0)
				right[v] = SL_LEARN_IGNORED;
		}
		assert_int_equal(sl_overlap_of(of, CLASSES, right, said, dim, spacing, &fail), SL_OK);
		for (int k = 0; k < CLASSES; k++) {
			int64_t n[3] = {0};

			for (int v = 0; v < VOXELS; v++) {
				assert_true(right[v] != SL_LEARN_IGNORED || said[v] == SL_LEARN_IGNORED);
				n[0] += right[v] == k;
				n[1] += said[v] == k;
				n[2] += right[v] == k && said[v] == k;
			}
			assert_true(of[k].right == n[0] && of[k].said == n[1] && of[k].both == n[2]);
			assert_true(n[0] + n[1] ? of[k].dice == 2.0 * (double)n[2] / (double)(n[0] + n[1])
						: isnan(of[k].dice));
			assert_int_equal(isnan(of[k].hd95), !k || !n[0] || !n[1]);
			if (isnan(of[k].hd95))
				continue;
			assert_float_equal(of[k].hd95, fmax(searched(right, said, k), searched(said, right, k)), 1e-5);
			measured++;
		}
	}
	assert_true(measured > 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(distances_are_those_of_a_search)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
