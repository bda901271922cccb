/* Low-rank products. Each sum runs in the order that loops.h requires; lanes are independent sums. */
#include "kernels/cpu/codec_avx512.h"
#include "kernels/cpu/turn16.h"

static inline __mmask16 lanes(int64_t left)
{
	return left < 16 ? (__mmask16)((1u << left) - 1) : (__mmask16)0xffff;
}

/* Rows j … j+rows-1 of p, columns k … k+31. Their sums stay in registers over all of m. `rows` is a constant. */
INLINE void xt_tile(const float *x, int64_t m, int64_t c, const float *q, float *p, int64_t k, int rows)
{
	const __mmask16 m0 = lanes(c - k), m1 = c - k > 16 ? lanes(c - k - 16) : 0;
	__m512 sum[4][2];

	for (int j = 0; j < rows; j++)
		sum[j][0] = sum[j][1] = _mm512_setzero_ps();
	for (int64_t i = 0; i < m; i++) {
		const float *row = x + i * c + k;
		__m512 a = _mm512_maskz_loadu_ps(m0, row), b = _mm512_maskz_loadu_ps(m1, row + 16);

		ask_ahead(row);
		ask_ahead(row + 16);
		for (int j = 0; j < rows; j++) {
			__m512 w = _mm512_set1_ps(q[j * m + i]);

			sum[j][0] = _mm512_add_ps(sum[j][0], _mm512_mul_ps(a, w));
			sum[j][1] = _mm512_add_ps(sum[j][1], _mm512_mul_ps(b, w));
		}
	}
	for (int j = 0; j < rows; j++) {
		_mm512_mask_storeu_ps(p + j * c + k, m0, sum[j][0]);
		_mm512_mask_storeu_ps(p + j * c + k + 16, m1, sum[j][1]);
	}
}

void sl_avx512_mul_xt(const float *x, int64_t m, int64_t c, const float *q, int r, float *p)
{
	for (int64_t k = 0; k < c; k += 32) {
		int j = 0;

		for (; j + 4 <= r; j += 4)
			xt_tile(x, m, c, q + j * m, p + j * c, k, 4);
		if (r - j == 3)
			xt_tile(x, m, c, q + j * m, p + j * c, k, 3);
		if (r - j == 2)
			xt_tile(x, m, c, q + j * m, p + j * c, k, 2);
		if (r - j == 1)
			xt_tile(x, m, c, q + j * m, p + j * c, k, 1);
	}
}

/* Columns of q for 16 (or `left` < 16) rows of x, in `rows` rows of q. `rows` is a constant. */
INLINE void x_tile(const float *x, int64_t left, int64_t m, int64_t c, const float *p, float *q, int rows)
{
	__m512 sum[4];
	int64_t k = 0;

	for (int j = 0; j < rows; j++)
		sum[j] = _mm512_setzero_ps();
	for (; left >= 16 && k + 16 <= c; k += 16) {
		__m512i v[16];

		for (int i = 0; i < 16; i++) {
			v[i] = _mm512_loadu_si512(x + i * c + k);
			ask_ahead(x + i * c + k);
		}
		sl_turn16(v);
		for (int i = 0; i < 16; i++) {
			for (int j = 0; j < rows; j++)
				sum[j] = _mm512_add_ps(sum[j],
						       _mm512_mul_ps((__m512)v[i], _mm512_set1_ps(p[j * c + k + i])));
		}
	}
	/* the last columns, or fewer than 16 rows */
	for (; k < c; k += 16) {
		__m512i v[16];

		for (int i = 0; i < 16; i++)
			v[i] = i < left ? _mm512_maskz_loadu_epi32(lanes(c - k), x + i * c + k)
					: _mm512_setzero_si512();
		sl_turn16(v);
		for (int i = 0; i < 16 && i < c - k; i++) {
			for (int j = 0; j < rows; j++)
				sum[j] = _mm512_add_ps(sum[j],
						       _mm512_mul_ps((__m512)v[i], _mm512_set1_ps(p[j * c + k + i])));
		}
	}
	for (int j = 0; j < rows; j++)
		_mm512_mask_storeu_ps(q + j * m, lanes(left), sum[j]);
}

void sl_avx512_mul_x(const float *x, int64_t m, int64_t c, const float *p, int r, float *q)
{
	for (int64_t i = 0; i < m; i += 16) {
		int64_t left = m - i;
		int j = 0;

		for (; j + 4 <= r; j += 4)
			x_tile(x + i * c, left, m, c, p + j * c, q + j * m + i, 4);
		if (r - j == 3)
			x_tile(x + i * c, left, m, c, p + j * c, q + j * m + i, 3);
		if (r - j == 2)
			x_tile(x + i * c, left, m, c, p + j * c, q + j * m + i, 2);
		if (r - j == 1)
			x_tile(x + i * c, left, m, c, p + j * c, q + j * m + i, 1);
	}
}

/* Columns k … k+31 of all rows of x, for rank r ≤ 8 with b in registers. `r` is a constant. */
INLINE void outer_tile(const float *a, const float *b, int64_t m, int64_t c, int64_t k, int r, float *x)
{
	__m512 u[8], v[8];

	for (int j = 0; j < r; j++) {
		u[j] = _mm512_loadu_ps(b + j * c + k);
		v[j] = _mm512_loadu_ps(b + j * c + k + 16);
	}
	for (int64_t i = 0; i < m; i++) {
		__m512 w = _mm512_set1_ps(a[i]), s = _mm512_mul_ps(w, u[0]), t = _mm512_mul_ps(w, v[0]);

		for (int j = 1; j < r; j++) {
			w = _mm512_set1_ps(a[j * m + i]);
			s = _mm512_add_ps(s, _mm512_mul_ps(w, u[j]));
			t = _mm512_add_ps(t, _mm512_mul_ps(w, v[j]));
		}
		_mm512_storeu_ps(x + i * c + k, s);
		_mm512_storeu_ps(x + i * c + k + 16, t);
	}
}

/* Any rank, columns k … c-1. */
static void outer_any(const float *a, const float *b, int64_t m, int64_t c, int64_t k, int r, float *x)
{
	for (int64_t i = 0; i < m; i++) {
		for (int64_t l = k; l < c; l += 16) {
			const __mmask16 keep = lanes(c - l);
			__m512 s = _mm512_mul_ps(_mm512_set1_ps(a[i]), _mm512_maskz_loadu_ps(keep, b + l));

			for (int j = 1; j < r; j++)
				s = _mm512_add_ps(s, _mm512_mul_ps(_mm512_set1_ps(a[j * m + i]),
								   _mm512_maskz_loadu_ps(keep, b + j * c + l)));
			_mm512_mask_storeu_ps(x + i * c + l, keep, s);
		}
	}
}

void sl_avx512_outer(const float *a, const float *b, int64_t m, int64_t c, int r, float *x)
{
	int64_t k = 0;

	/* Tiles of columns only where rows are short. A long row would be written in pieces, with gaps
	 * between them, in each of m/32 passes; outer_any writes it whole. */
	for (; r <= 8 && c <= 128 && k + 32 <= c; k += 32) {
		switch (r) {
		case 1:
			outer_tile(a, b, m, c, k, 1, x);
			break;
		case 2:
			outer_tile(a, b, m, c, k, 2, x);
			break;
		case 3:
			outer_tile(a, b, m, c, k, 3, x);
			break;
		case 4:
			outer_tile(a, b, m, c, k, 4, x);
			break;
		case 5:
			outer_tile(a, b, m, c, k, 5, x);
			break;
		case 6:
			outer_tile(a, b, m, c, k, 6, x);
			break;
		case 7:
			outer_tile(a, b, m, c, k, 7, x);
			break;
		default:
			outer_tile(a, b, m, c, k, 8, x);
			break;
		}
	}
	if (k < c)
		outer_any(a, b, m, c, k, r, x);
}
