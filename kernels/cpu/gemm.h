/* Products of rows, read in place, with packed weights, by the tiles of struct sl_cpu_simd. */
#ifndef SL_CPU_GEMM_H
#define SL_CPU_GEMM_H

#include "kernels/cpu/impl.h"

/* Packed weights: B [depth, n] in panels of simd->panel columns, one after another; the last may be
 * half as wide. With `pairs` each float, of B and of the rows, is a pair of bfloat16 factors, and
 * `depth` counts pairs. */
struct sl_gemm_weights {
	const struct sl_cpu_simd *simd;
	float *packed;
	int64_t depth, n;
	bool pairs;
};

/* What `depth` is for so many factors: their number, or that of pairs, of which an odd last factor has one with 0. */
static inline int64_t sl_gemm_depth(int64_t factors, bool pairs)
{
	return pairs ? (factors + 1) / 2 : factors;
}

/* Rounds n factors of a row to pairs. */
static inline void sl_gemm_round_row(const struct sl_cpu_simd *simd, float *to, const float *x, int64_t n)
{
	to[(n - 1) / 2] = 0; /* an odd last factor is paired with 0 */
	simd->narrow((uint16_t *)(void *)to, x, n);
}

/* Floats that packing takes, at any SIMD level. */
static inline int64_t sl_gemm_packed_floats(int64_t depth, int64_t n)
{
	return depth * ((n + 31) / 32 * 32);
}

/* B[k][j] = w[k·row + j·col], with row = n, col = 1 for weights [depth, n] or row = 1, col = depth for [n, depth].
 * pairs: the factors are rounded to bfloat16; an odd `depth` is padded with a 0. */
struct sl_gemm_weights sl_gemm_pack(struct sl_backend *be, float *packed, const float *w, int64_t depth, int64_t n,
				    int64_t row, int64_t col, bool pairs);

/* The same in the calling thread alone. */
struct sl_gemm_weights sl_gemm_pack_here(const struct sl_cpu_simd *simd, float *packed, const float *w, int64_t depth,
					 int64_t n, int64_t row, int64_t col, bool pairs);
/* The same from 16-bit weights; `row` or `col` is 1. */
void sl_gemm_pack_held(const struct sl_cpu_simd *simd, float *packed, struct sl_held w, int64_t depth, int64_t n,
		       int64_t row, int64_t col);

/* Packs pairs of factors in bfloat16; IEEE halves are rounded to it. An odd `depth` is padded with a 0. */
void sl_gemm_pack_pairs(const struct sl_cpu_simd *simd, float *packed, struct sl_held w, int64_t depth, int64_t n,
			int64_t row, int64_t col);

/* Columns [at, at + n) of B; `at` is a multiple of 32. */
struct sl_gemm_weights sl_gemm_columns(const struct sl_gemm_weights *b, int64_t at, int64_t n);

/* y [rows, n] with row stride ldy = or += Σ over segments of seg[s][row·lda + k]·B; depth =
 * n_seg·(depth of a segment). */
void sl_gemm_rows(const struct sl_gemm_weights *b, float *y, int64_t ldy, const float *const *seg, int n_seg,
		  int64_t lda, int64_t rows, bool add, struct sl_prefetch *next);

/* A product with rows of floats: y [rows, n] = or += x·(rows [k, k + depth) of B), for x [rows, depth], lda apart.
 * Where B has pairs, k is even and the rows' factors are rounded here. */
void sl_gemm_float_rows(const struct sl_gemm_weights *b, int64_t k, int64_t depth, float *y, int64_t ldy,
			const float *x, int64_t lda, int64_t rows, bool add, struct sl_prefetch *next);

/* gemm_outer of struct sl_cpu_simd, or outer_pairs. */
static inline void sl_gemm_outer(const struct sl_cpu_simd *simd, bool pairs, float *c, int64_t ldc, const float *a,
				 int64_t lda, int64_t na, const float *b, int64_t ldb, int64_t nb, int64_t rows,
				 struct sl_prefetch *next)
{
	(pairs ? simd->outer_pairs : simd->gemm_outer)(c, ldc, a, lda, na, b, ldb, nb, rows, next);
}

#endif
