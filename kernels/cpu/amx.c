#include "kernels/cpu/amx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/half.h"
#include "common/base/log.h"

enum { PAIRS = SL_AMX_PAIRS, HIGH = SL_AMX_HIGH, WIDE = SL_AMX_WIDE };

/* ---- the instruction's bits */

static float flushed(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float half_of(float pair, bool upper)
{
	uint32_t bits;

	memcpy(&bits, &pair, sizeof bits);
	return flushed(sl_float_of_bf16((uint16_t)(upper ? bits >> 16 : bits & 0xffff)));
}

static float block_sum(const float *a, const float *b, int width)
{
	float lower = 0, upper = 0;

	for (int k = 0; k < PAIRS; k++) {
		const float w = b[k * width];

		lower = flushed(fmaf(half_of(a[k], false), half_of(w, false), lower));
		upper = flushed(fmaf(half_of(a[k], true), half_of(w, true), upper));
	}
	return flushed(lower + upper);
}

void sl_amx_plain(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t blocks)
{
	for (int64_t k = 0; k < blocks; k++)
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < width; j++)
				c[i * WIDE + j] =
					flushed(flushed(c[i * WIDE + j]) +
						block_sum(a + i * lda + k * PAIRS, b + k * PAIRS * width + j, width));
}

/* ---- whether the instructions have them */

/* Factors of many magnitudes, so that nearly every order of sums has other bits; with `tiny` around 2^-126. */
static uint16_t factor_at(uint32_t i, bool tiny)
{
	const uint32_t mixed = (i * 2654435761u) ^ (i * 2654435761u >> 15);
	const uint32_t power = tiny ? mixed % 4 : 115 + mixed % 24;

	return (uint16_t)((mixed >> 8 & 0x807f) | power << 7);
}

static void fill(float *to, int n, uint32_t from, bool tiny)
{
	for (int i = 0; i < n; i++) {
		const uint32_t at = from + 2 * (uint32_t)i;
		const uint32_t pair = factor_at(at, tiny) | (uint32_t)factor_at(at + 1, tiny) << 16;

		memcpy(&to[i], &pair, sizeof pair);
	}
}

bool sl_amx_agrees(sl_amx_strip *strip)
{
	enum { BLOCKS = 3, DEEP = BLOCKS * PAIRS, TINY = 4 /* a row whose sums are near 2^-126 */ };
	static const int rows[] = {HIGH, 21, 5}, widths[] = {WIDE, 16, 8};
	float a[HIGH * DEEP], b[DEEP * WIDE], c[HIGH * WIDE], want[HIGH * WIDE];

	fill(a, HIGH * DEEP, 1, false);
	fill(a + TINY * DEEP, DEEP, 77, true);
	fill(b, DEEP * WIDE, 1000003, false);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < HIGH * WIDE; k++)
			c[k] = want[k] = k / WIDE == TINY || k % 5 == 0 ? 0x1p-130f : 0.1f * (float)k;
		strip(c, a, DEEP, rows[i], b, widths[i], BLOCKS);
		sl_amx_plain(want, a, DEEP, rows[i], b, widths[i], BLOCKS);
		if (memcmp(c, want, sizeof c) != 0)
			return false;
	}
	return true;
}

sl_amx_strip *sl_amx_chosen(const struct sl_cpu_simd *simd)
{
	static _Atomic signed char known; /* 0: not asked, -1: there are none, -2: they differ */
	const char *want = getenv("SL_CPU_PAIRS");

	if (want)
		return strcmp(want, "amx") == 0 ? sl_amx_plain : NULL;
	if (!simd->pairs_need_bf16)
		return NULL;
	if (!known) {
		sl_amx_strip *tiles = sl_amx_tiles();

		known = !tiles ? -1 : sl_amx_agrees(tiles) ? 1 : -2;
	}
	if (known == -2)
		sl_log(SL_LOG_DEBUG, "amx",
		       "this CPU's AMX gives other bits than its manual says: AVX512-BF16 is used instead");
	return known > 0 ? sl_amx_tiles() : NULL;
}

/* ---- products */

static _Atomic(const struct sl_cpu_simd *) level;
static _Atomic(sl_amx_strip *) chosen;

/* c += a·b for `depth` pairs. The last ones are copied, and become a whole block with zeros. */
static void add_product(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t depth)
{
	sl_amx_strip *const strip = chosen;
	const int64_t whole = depth / PAIRS * PAIRS, rest = depth - whole;
	float last_a[HIGH * PAIRS] = {0}, last_b[PAIRS * WIDE] = {0};

	if (whole > 0)
		strip(c, a, lda, rows, b, width, whole / PAIRS);
	if (rest == 0)
		return;
	for (int i = 0; i < rows; i++)
		memcpy(last_a + i * PAIRS, a + i * lda + whole, (size_t)rest * sizeof *a);
	memcpy(last_b, b + whole * width, (size_t)(rest * width) * sizeof *b);
	strip(c, last_a, PAIRS, rows, last_b, width, 1);
}

static void put(float *y, int64_t ldy, const float *c, int rows, int n, bool add)
{
	for (int i = 0; i < rows; i++, y += ldy, c += WIDE)
		for (int j = 0; j < n; j++)
			y[j] = add ? y[j] + c[j] : c[j];
}

static void gemm_pairs(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
		       const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next)
{
	const int panel = level->panel, width = n > panel / 2 ? panel : panel / 2;

	for (int64_t m = 0; m < rows; m += HIGH) {
		float c[HIGH * WIDE] = {0};
		const int high = (int)sl_cpu_min(HIGH, rows - m);

		for (int s = 0; s < n_seg; s++)
			add_product(c, seg[s] + m * lda, lda, high, w + s * depth * width, width, depth);
		put(y + m * ldy, ldy, c, high, n, add);
	}
}

/* Pairs of rows of x, n columns, in rows of WIDE; other columns are 0. Returns the number of pairs. */
static int64_t pair_columns(float *to, const float *x, int64_t ldx, int64_t rows, int64_t n)
{
	for (int64_t m = 0; m < rows; m += 2, x += 2 * ldx, to += WIDE) {
		level->pair_floats((uint32_t *)(void *)to, x, m + 1 < rows ? x + ldx : NULL, n);
		memset(to + n, 0, (size_t)(WIDE - n) * sizeof *to);
	}
	return (rows + 1) / 2;
}

enum { CHAIN = 8 * PAIRS /* pairs of rows in a chain of sums */, LD = CHAIN + PAIRS, COLUMNS = 256 };

/* a's columns become rows of pairs, once for all columns of b. */
static void outer_chain(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			int64_t nb, int64_t rows)
{
	float first[COLUMNS * LD], second[CHAIN * WIDE];
	int64_t pairs = 0;

	for (int64_t i = 0; i < na; i += WIDE) {
		const int64_t n = sl_cpu_min(WIDE, na - i);

		pairs = pair_columns(second, a + i, lda, rows, n);
		level->transpose(first + i * LD, LD, second, WIDE, pairs, n);
	}
	for (int64_t j = 0; j < nb; j += WIDE) {
		const int64_t n = sl_cpu_min(WIDE, nb - j);

		(void)pair_columns(second, b + j, ldb, rows, n);
		for (int64_t i = 0; i < na; i += HIGH) {
			const int high = (int)sl_cpu_min(HIGH, na - i);
			float sum[HIGH * WIDE] = {0};

			add_product(sum, first + i * LD, LD, high, second, WIDE, pairs);
			put(c + i * ldc + j, ldc, sum, high, (int)n, true);
		}
	}
}

static void outer_pairs(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			int64_t nb, int64_t rows, struct sl_prefetch *next)
{
	for (int64_t m = 0; m < rows; m += 2 * CHAIN)
		for (int64_t i = 0; i < na; i += COLUMNS)
			outer_chain(c + i * ldc, ldc, a + m * lda + i, lda, sl_cpu_min(COLUMNS, na - i), b + m * ldb,
				    ldb, nb, sl_cpu_min(2 * CHAIN, rows - m));
}

void sl_amx_replace(struct sl_cpu_simd *to, const struct sl_cpu_simd *simd, sl_amx_strip *strip)
{
	level = simd;
	chosen = strip;
	*to = *simd;
	to->gemm_pairs = gemm_pairs;
	to->outer_pairs = outer_pairs;
}
