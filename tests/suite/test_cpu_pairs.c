/* Products of bfloat16 factors (train.precision: bf16_factors) have, at each SIMD level, the bits of the plain loops
 * below. A level that needs AVX512-BF16 is only tested on CPUs that have it. */
#include <math.h>

#include "common/base/half.h"
#include "common/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/level.h"
#include "tests/support/unit.h"

enum { CHAIN = 128 /* pairs of one chain */, DEEP = 384 /* pairs between two additions to y */, MOST = 1601 };

/* The i-th level that this CPU can run with pairs; NULL: no more. */
static const struct sl_cpu_simd *level(int i)
{
	for (int l = 0; sl_cpu_levels[l] != NULL; l++)
		if (sl_cpu_levels[l]->runs() && (!sl_cpu_levels[l]->simd->pairs_need_bf16 || sl_cpu_has_pairs()) &&
		    i-- == 0)
			return sl_cpu_levels[l]->simd;
	return NULL;
}

static float *some(int64_t n, uint16_t which)
{
	const struct sl_rng_key key = {.seed = 11, .tensor = which};
	float *x = malloc((size_t)(n + 1) * sizeof *x);

	assert_non_null(x);
	for (int64_t i = 0; i < n; i++) {
		float pair[2];

		sl_rng_normal2(sl_rng_u32(&key, 2 * (uint64_t)i), sl_rng_u32(&key, 2 * (uint64_t)i + 1), pair);
		x[i] = pair[0];
	}
	return x;
}

static float factor(const float *x, int64_t step, int64_t i, int64_t n)
{
	return i < n ? sl_float_of_bf16(sl_bf16_of_float(x[i * step])) : 0;
}

/* The sum of n products in pairs [from, to): of each pair first the odd one. */
static float chain_sum(const float *a, int64_t as, const float *b, int64_t bs, int64_t n, int64_t from, int64_t to)
{
	float sum = 0;

	for (int64_t k = from; k < to; k++) {
		sum = fmaf(factor(a, as, 2 * k + 1, n), factor(b, bs, 2 * k + 1, n), sum);
		sum = fmaf(factor(a, as, 2 * k, n), factor(b, bs, 2 * k, n), sum);
	}
	return sum;
}

static int64_t chain_of(int64_t pairs)
{
	return sl_cpu_blocks(pairs, sl_cpu_blocks(pairs, CHAIN));
}

/* y = or += the product of a row and a column of n factors. */
static float row_product(float y, bool add, const float *a, const float *b, int64_t bs, int64_t n)
{
	for (int64_t at = 0; at < n; at += 2 * DEEP) {
		const int64_t some = sl_cpu_min(2 * DEEP, n - at), pairs = (some + 1) / 2, chain = chain_of(pairs);
		float sum = 0, last = 0;

		for (int64_t k = 0; k < pairs; k += chain) {
			sum = k > chain ? sum + last : last;
			last = chain_sum(a + at, 1, b + at * bs, bs, some, k, sl_cpu_min(pairs, k + chain));
		}
		last = pairs > chain ? last + sum : last;
		y = add || at > 0 ? y + last : last;
	}
	return y;
}

static void rows_case(int rows, int depth, int n, bool row_first, bool add)
{
	const int64_t row = row_first ? n : 1, col = row_first ? 1 : depth;
	float *x = some((int64_t)rows * depth, 1), *w = some((int64_t)depth * n, 2), *y = some((int64_t)rows * n, 3);
	float *packed = aligned_alloc(64, (size_t)sl_gemm_packed_floats(depth, n) * sizeof *packed);
	float *before = some((int64_t)rows * n, 3);

	for (int l = 0; level(l) != NULL; l++) {
		struct sl_prefetch none = {.n = 0};
		const struct sl_gemm_weights b = sl_gemm_pack_here(level(l), packed, w, depth, n, row, col, true);

		memcpy(y, before, (size_t)(rows * n) * sizeof *y);
		sl_gemm_float_rows(&b, 0, depth, y, n, x, depth, rows, add, &none);
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < n; j++) {
				const float want = row_product(before[i * n + j], add, x + (int64_t)i * depth,
							       w + j * col, row, depth);

				if (memcmp(&want, &y[i * n + j], sizeof want) != 0)
					fail_msg("%s: row %d, column %d of %d x %d x %d is %.9g, not %.9g",
						 level(l)->name, i, j, rows, depth, n, (double)y[i * n + j],
						 (double)want);
			}
	}
	free(x);
	free(w);
	free(y);
	free(before);
	free(packed);
}

static void products_of_rows(void **state)
{
	static const int depths[] = {1, 2, 7, 64, 255, 256, 257, 513, 768, 769, MOST};

	for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
		rows_case(3, depths[i], 5, true, false);
		rows_case(15, depths[i], 35, false, true);
	}
	rows_case(61, 66, 70, false, false);
	rows_case(61, 66, 70, true, true);
}

static void outer_case(int rows, int high, int wide)
{
	float *a = some((int64_t)rows * high, 4), *b = some((int64_t)rows * wide, 5);

	for (int l = 0; level(l) != NULL; l++) {
		float *c = some((int64_t)high * wide, 6), *want = some((int64_t)high * wide, 6);
		struct sl_prefetch none = {.n = 0};
		const int64_t chain = 2 * chain_of((rows + 1) / 2);

		level(l)->outer_pairs(c, wide, a, high, high, b, wide, wide, rows, &none);
		for (int i = 0; i < high; i++)
			for (int j = 0; j < wide; j++)
				for (int64_t m = 0; m < rows; m += chain) {
					const int64_t n = sl_cpu_min(chain, rows - m);

					want[i * wide + j] += chain_sum(a + m * high + i, high, b + m * wide + j, wide,
									n, 0, (n + 1) / 2);
				}
		assert_memory_equal(c, want, (size_t)(high * wide) * sizeof *c);
		free(c);
		free(want);
	}
	free(a);
	free(b);
}

static void outer_products(void **state)
{
	outer_case(1, 3, 2);
	outer_case(2, 17, 33);
	outer_case(113, 29, 64);
	outer_case(256, 30, 40);
	outer_case(257, 30, 40);
	outer_case(700, 9, 35);
	outer_case(58, 350, 37); /* more columns than are copied at a time */
}

/* To nearest, ties to even; NaNs stay NaNs, and what is below 2^-126 becomes 0. */
static void roundings(void **state)
{
	static const struct {
		float from;
		uint16_t to;
	} cases[] = {{1, 0x3f80},          {0x1.01p0f, 0x3f80},       {0x1.03p0f, 0x3f82}, {0x1.010002p0f, 0x3f81},
		     {-0x1.fep0f, 0xbfff}, {0x1.fffffep127f, 0x7f80}, {-INFINITY, 0xff80}, {0x1p-127f, 0},
		     {-0x1p-140f, 0x8000}, {0x1p-126f, 0x0080},       {-0.0f, 0x8000}};
	enum { CASES = sizeof cases / sizeof *cases };

	for (int l = 0; level(l) != NULL; l++) {
		float x[CASES + 1];
		uint16_t to[CASES + 1];
		uint32_t pair[CASES + 1];

		for (int i = 0; i < CASES; i++)
			x[i] = cases[i].from;
		x[CASES] = NAN;
		level(l)->narrow(to, x, CASES + 1);
		level(l)->pair_floats(pair, x, x, CASES + 1);
		for (int i = 0; i < CASES; i++) {
			if (to[i] != cases[i].to)
				fail_msg("%s: %a is %04x, not %04x", level(l)->name, (double)x[i], to[i], cases[i].to);
			assert_int_equal(pair[i], to[i] | (uint32_t)to[i] << 16);
		}
		assert_true(isnan(sl_float_of_bf16(to[CASES])));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_rows),
		cmocka_unit_test(outer_products),
		cmocka_unit_test(roundings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
