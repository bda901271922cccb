/* Products of bfloat16 factors (train.precision: bf16_factors) have, at each SIMD level, the bits of the plain loops
 * below. A level that needs AVX512-BF16 is only tested on CPUs that have it. AMX's order of sums is tested at each
 * level by plain loops, and by its instructions on CPUs that have them. */
#include <math.h>

#include "common/base/half.h"
#include "common/base/rng.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/level.h"
#include "tests/support/unit.h"

enum { CHAIN = 128 /* pairs of one chain */, DEEP = 384 /* pairs between two additions to y */, MOST = 1601 };

/* A level, or one whose products of pairs are AMX's. */
struct form {
	const struct sl_cpu_simd *simd;
	bool amx;
};

/* The i-th form that this CPU can run; simd NULL: no more. It is the one in use until the next call. */
static struct form form(int i)
{
	static struct sl_cpu_simd table;

	for (int l = 0; sl_cpu_levels[l] != NULL; l++) {
		const struct sl_cpu_simd *simd = sl_cpu_levels[l]->simd;
		sl_amx_strip *const strips[] = {NULL, sl_amx_plain, sl_amx_tiles()};

		if (!sl_cpu_levels[l]->runs() || (simd->pairs_need_bf16 && !sl_cpu_has_pairs()))
			continue;
		for (int s = 0; s < 3; s++) {
			if ((s > 0 && strips[s] == NULL) || i-- > 0)
				continue;
			if (s == 0)
				return (struct form){simd, false};
			sl_amx_replace(&table, simd, strips[s]);
			return (struct form){&table, true};
		}
	}
	return (struct form){NULL, false};
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

/* 0 in place of a smaller magnitude than 2^-126. */
static float normal(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* The same in AMX's order: of 16 pairs, the even products and the odd ones have a chain each. */
static float tile_sum(const float *a, int64_t as, const float *b, int64_t bs, int64_t n)
{
	float sum = 0;

	for (int64_t k = 0; k < n; k += 32) {
		float even = 0, odd = 0;

		for (int64_t i = k; i < k + 32; i += 2) {
			even = normal(fmaf(factor(a, as, i, n), factor(b, bs, i, n), even));
			odd = normal(fmaf(factor(a, as, i + 1, n), factor(b, bs, i + 1, n), odd));
		}
		sum = normal(sum + normal(even + odd));
	}
	return sum;
}

static int64_t chain_of(int64_t pairs)
{
	return sl_cpu_blocks(pairs, sl_cpu_blocks(pairs, CHAIN));
}

/* y = or += the product of a row and a column of n factors. */
static float row_product(bool amx, float y, bool add, const float *a, const float *b, int64_t bs, int64_t n)
{
	for (int64_t at = 0; at < n; at += 2 * DEEP) {
		const int64_t some = sl_cpu_min(2 * DEEP, n - at), pairs = (some + 1) / 2, chain = chain_of(pairs);
		float sum = 0, last = 0;

		for (int64_t k = 0; k < pairs && !amx; k += chain) {
			sum = k > chain ? sum + last : last;
			last = chain_sum(a + at, 1, b + at * bs, bs, some, k, sl_cpu_min(pairs, k + chain));
		}
		last = amx ? tile_sum(a + at, 1, b + at * bs, bs, some) : pairs > chain ? last + sum : last;
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

	for (int l = 0; form(l).simd != NULL; l++) {
		const struct form f = form(l);
		struct sl_prefetch none = {.n = 0};
		const struct sl_gemm_weights b = sl_gemm_pack_here(f.simd, packed, w, depth, n, row, col, true);

		memcpy(y, before, (size_t)(rows * n) * sizeof *y);
		sl_gemm_float_rows(&b, 0, depth, y, n, x, depth, rows, add, &none);
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < n; j++) {
				const float want = row_product(f.amx, before[i * n + j], add, x + (int64_t)i * depth,
							       w + j * col, row, depth);

				if (memcmp(&want, &y[i * n + j], sizeof want) != 0)
					fail_msg("%s%s: row %d, column %d of %d x %d x %d is %.9g, not %.9g",
						 f.simd->name, f.amx ? " amx" : "", i, j, rows, depth, n,
						 (double)y[i * n + j], (double)want);
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

	for (int l = 0; form(l).simd != NULL; l++) {
		const struct form f = form(l);
		float *c = some((int64_t)high * wide, 6), *want = some((int64_t)high * wide, 6);
		struct sl_prefetch none = {.n = 0};
		const int64_t chain = f.amx ? 256 : 2 * chain_of((rows + 1) / 2);

		f.simd->outer_pairs(c, wide, a, high, high, b, wide, wide, rows, &none);
		for (int i = 0; i < high; i++)
			for (int j = 0; j < wide; j++)
				for (int64_t m = 0; m < rows; m += chain) {
					const int64_t n = sl_cpu_min(chain, rows - m);

					want[i * wide + j] +=
						f.amx ? tile_sum(a + m * high + i, high, b + m * wide + j, wide, n)
						      : chain_sum(a + m * high + i, high, b + m * wide + j, wide, n, 0,
								  (n + 1) / 2);
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

	for (int l = 0; form(l).simd != NULL; l++) {
		const struct form f = form(l);
		float x[CASES + 1];
		uint16_t to[CASES + 1];
		uint32_t pair[CASES + 1];

		for (int i = 0; i < CASES; i++)
			x[i] = cases[i].from;
		x[CASES] = NAN;
		f.simd->narrow(to, x, CASES + 1);
		f.simd->pair_floats(pair, x, x, CASES + 1);
		for (int i = 0; i < CASES; i++) {
			if (to[i] != cases[i].to)
				fail_msg("%s: %a is %04x, not %04x", f.simd->name, (double)x[i], to[i], cases[i].to);
			assert_int_equal(pair[i], to[i] | (uint32_t)to[i] << 16);
		}
		assert_true(isnan(sl_float_of_bf16(to[CASES])));
	}
}

/* Sums that AMX does not have, which its check must tell from its own. */
enum { AVX512_BF16, ONE_CHAIN, KEEPS_TINY, READS_TINY, ODD_ALONE, FORMS };
static int wrong;

static float bf16_at(const float *pair, int half)
{
	uint32_t bits;

	memcpy(&bits, pair, sizeof bits);
	return sl_float_of_bf16((uint16_t)(bits >> 16 * half));
}

static void wrong_strip(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t blocks)
{
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < width; j++) {
			float *y = &c[i * SL_AMX_WIDE + j], sum[2] = {0, 0};

			*y = wrong == KEEPS_TINY ? *y : normal(*y);
			for (int64_t k = 0; k < blocks * SL_AMX_PAIRS; k++) {
				for (int h = 1; h >= 0; h--) {
					const float p = bf16_at(a + i * lda + k, h), q = bf16_at(b + k * width + j, h);
					float *to = wrong == AVX512_BF16 ? y : &sum[h];

					*to = wrong == READS_TINY ? fmaf(p, q, *to) : fmaf(normal(p), normal(q), *to);
					*to = wrong == KEEPS_TINY ? *to : normal(*to);
				}
				if (wrong == ONE_CHAIN ? k < blocks * SL_AMX_PAIRS - 1 : (k + 1) % SL_AMX_PAIRS != 0)
					continue;
				if (wrong == ODD_ALONE)
					*y = normal(normal(*y + sum[0]) + sum[1]);
				else
					*y += wrong == KEEPS_TINY ? sum[0] + sum[1] : normal(sum[0] + sum[1]);
				*y = wrong == KEEPS_TINY ? *y : normal(*y);
				sum[0] = sum[1] = 0;
			}
		}
}

static void amx_is_checked(void **state)
{
	assert_true(sl_amx_agrees(sl_amx_plain));
	for (wrong = 0; wrong < FORMS; wrong++)
		if (sl_amx_agrees(wrong_strip))
			fail_msg("the check takes sums of form %d for AMX's", wrong);
	wrong = -1; /* none */
	assert_true(sl_amx_agrees(wrong_strip));
}

static void amx_has_these_bits(void **state)
{
	if (sl_amx_tiles() == NULL)
		skip(); /* there is no AMX, or the kernel does not allow it */
	assert_true(sl_amx_agrees(sl_amx_tiles()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_rows), cmocka_unit_test(outer_products),     cmocka_unit_test(roundings),
		cmocka_unit_test(amx_is_checked),   cmocka_unit_test(amx_has_these_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
