/* Products of a few rows with weights stored in bfloat16, as in text generation. The weights are read
 * once, in place, and transposed in registers. Sums use the same chains, in the same order, as the
 * tiles of body_gemm.h: the bits are those of packed weights. Included by simd_avx512.c after
 * body_gemm.h. */
#include "kernels/cpu/turn16.h"

enum { HELD_ROWS = 4, HELD_DEEP = 32 /* weights of a column that are loaded together: one cache line */ };

/* The running sums of a product, of 16 columns and some rows, cut into chains. */
struct chains {
	__m512 acc[HELD_ROWS], sum[HELD_ROWS];
	int64_t chain, length, left, to_come; /* products: in a chain, in acc so far, left of this chain, after it */
	bool ended;
};

ALWAYS void begin_chain(struct chains *c, int rows)
{
	c->left = c->to_come < c->chain ? c->to_come : c->chain;
	c->to_come -= c->left;
	if (c->length + c->left > CHAIN) {
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			c->sum[r] = c->ended ? _mm512_add_ps(c->sum[r], c->acc[r]) : c->acc[r];
			c->acc[r] = _mm512_setzero_ps();
		}
		c->ended = true;
		c->length = 0;
	}
	c->length += c->left;
}

/* Fused. With sanitizers the tiles are C code without fused products, so this is unfused too. */
ALWAYS __m512 plus_product(__m512 sum, __m512 a, __m512 b)
{
#ifdef SL_SANITIZED
	return _mm512_add_ps(sum, _mm512_mul_ps(a, b));
#else
	return _mm512_fmadd_ps(a, b, sum);
#endif
}

/* Adds one product to each column; x points into the first row. */
ALWAYS void add_product(struct chains *c, __m512i w, const float *x, int64_t ldx, int rows, bool whole)
{
	if (!whole && c->left-- == 0) {
		begin_chain(c, rows);
		c->left--;
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		c->acc[r] = plus_product(c->acc[r], _mm512_set1_ps(x[r * ldx]), (__m512)w);
}

/* Adds `n` products. whole: all products of a cache line, which lie within one chain. */
ALWAYS void add_block(struct chains *c, const __m512i pair[16], const float *x, int64_t ldx, int n, int rows,
		      bool whole)
{
	const __m512i high = _mm512_set1_epi32((int)0xffff0000u);

#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) {
		if (whole || 2 * i < n)
			add_product(c, _mm512_slli_epi32(pair[i], 16), x + 2 * i, ldx, rows, whole);
		if (whole || 2 * i + 1 < n)
			add_product(c, _mm512_and_si512(pair[i], high), x + 2 * i + 1, ldx, rows, whole);
	}
	if (whole)
		c->left -= HELD_DEEP;
}

ALWAYS void held_columns(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t depth, const uint16_t *w,
			 int64_t ldw, int n, bool add, int rows)
{
	const __mmask16 live = (__mmask16)(0xffffu >> (16 - n));
	struct chains c = {.chain = chain_of(depth), .to_come = depth};

	for (int64_t k = 0; k < depth; k += HELD_DEEP) {
		const int m = depth - k < HELD_DEEP ? (int)(depth - k) : HELD_DEEP;
		const __mmask32 deep = 0xffffffffu >> (HELD_DEEP - m);
		__m512i t[16];

#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			const uint16_t *from = w + (i < n ? i : n - 1) * ldw + k;

			prefetch(from + 8 * HELD_DEEP);
			t[i] = _mm512_maskz_loadu_epi16(deep, from);
		}
		sl_turn16(t); /* now t[i] holds pair i of each of 16 columns */
		if (m == HELD_DEEP && c.left >= HELD_DEEP)
			add_block(&c, t, x + k, ldx, m, rows, true);
		else
			add_block(&c, t, x + k, ldx, m, rows, false);
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++, y += ldy) {
		const __m512 all = c.ended ? _mm512_add_ps(c.acc[r], c.sum[r]) : c.acc[r];

		_mm512_mask_storeu_ps(y, live, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(live, y), all) : all);
	}
}

static void held_rows(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t depth, const uint16_t *w, int64_t ldw,
		      int rows, int64_t n, bool add)
{
	for (int64_t at = 0; at < n; at += 16, y += 16, w += 16 * ldw) {
		const int wide = n - at < 16 ? (int)(n - at) : 16;

		switch (rows) {
		case 1:
			held_columns(y, ldy, x, ldx, depth, w, ldw, wide, add, 1);
			break;
		case 2:
			held_columns(y, ldy, x, ldx, depth, w, ldw, wide, add, 2);
			break;
		case 3:
			held_columns(y, ldy, x, ldx, depth, w, ldw, wide, add, 3);
			break;
		default:
			held_columns(y, ldy, x, ldx, depth, w, ldw, wide, add, 4);
		}
	}
}
