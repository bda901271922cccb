/* Statistics and randomness. */
#include "kernels/cpu/codec_avx512.h"

void sl_avx512_minmax(const float *x, int64_t n, struct sl_range *io)
{
	int64_t i = 0;

	if (n >= 64) {
		__m512 lo[4], hi[4];
		__m512i top[4];

		for (int j = 0; j < 4; j++) {
			lo[j] = _mm512_set1_ps(io->min);
			hi[j] = _mm512_set1_ps(io->max);
			top[j] = _mm512_set1_epi32((int)io->top);
		}
		for (; i + 64 <= n; i += 64) {
			for (int j = 0; j < 4; j++) {
				__m512 v = _mm512_loadu_ps(x + i + 16 * j);

				lo[j] = _mm512_min_ps(v, lo[j]);
				hi[j] = _mm512_max_ps(v, hi[j]);
				top[j] = _mm512_max_epu32(magnitude16(v), top[j]);
			}
		}
		for (int j = 1; j < 4; j++) {
			lo[0] = _mm512_min_ps(lo[j], lo[0]);
			hi[0] = _mm512_max_ps(hi[j], hi[0]);
			top[0] = _mm512_max_epu32(top[j], top[0]);
		}
		io->min = _mm512_reduce_min_ps(lo[0]);
		io->max = _mm512_reduce_max_ps(hi[0]);
		io->top = _mm512_reduce_max_epu32(top[0]);
	}
	sl_c_minmax(x + i, n - i, io);
}

uint32_t sl_avx512_minmax_cols(const float *x, int64_t rows, int64_t c, float *lo, float *hi)
{
	__m512i top = _mm512_setzero_si512();

	for (int64_t r = 0; r < rows; r++) {
		const float *row = x + r * c;

		for (int64_t j = 0; j < c; j += 16) {
			__mmask16 m = c - j < 16 ? (__mmask16)((1u << (c - j)) - 1) : (__mmask16)0xffff;
			__m512 v = _mm512_maskz_loadu_ps(m, row + j);
			__m512 l = _mm512_maskz_loadu_ps(m, lo + j), h = _mm512_maskz_loadu_ps(m, hi + j);

			_mm512_mask_storeu_ps(lo + j, m, _mm512_min_ps(v, l));
			_mm512_mask_storeu_ps(hi + j, m, _mm512_max_ps(v, h));
			top = _mm512_max_epu32(magnitude16(v), top);
		}
	}
	for (int64_t j = 0; j < c; j++) {
		lo[j] += 0.0f;
		hi[j] += 0.0f;
	}
	return _mm512_reduce_max_epu32(top);
}

double sl_avx512_sum_squares(const float *x, int64_t n, uint32_t *top)
{
	__m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
	__m512i most = _mm512_set1_epi32((int)*top);
	double sum[16];
	uint32_t last;
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
		__m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

		/* the product of two floats is exact in double: fused or not is the same */
		low = _mm512_fmadd_pd(a, a, low);
		high = _mm512_fmadd_pd(b, b, high);
		most = _mm512_max_epu32(magnitude16(v), most);
	}
	_mm512_storeu_pd(sum, low);
	_mm512_storeu_pd(sum + 8, high);
	last = _mm512_reduce_max_epu32(most);
	for (int j = 0; i < n; i++, j++) {
		double v = x[i];
		uint32_t m = sl_magnitude(x[i]);

		sum[j] += v * v;
		last = m > last ? m : last;
	}
	*top = last;
	for (int width = 8; width > 0; width /= 2) {
		for (int j = 0; j < width; j++)
			sum[j] += sum[j + width];
	}
	return sum[0];
}

/* High and low halves of 16 products c·m. */
static inline void multiply(__m512i c, __m512i m, __m512i *high, __m512i *low)
{
	__m512i even = _mm512_mul_epu32(c, m), odd = _mm512_mul_epu32(_mm512_srli_epi64(c, 32), m);

	*high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
	*low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

/* 16 Philox blocks from `quad`, as 64 words in order. */
static inline void philox16(const struct sl_rng_key *key, uint32_t quad, uint32_t *out)
{
	/* block L + 4·t at position 4·L + t: unpacking then leaves four blocks in order in every register */
	__m512i c0 = _mm512_add_epi32(_mm512_set1_epi32((int)quad),
				      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	__m512i c1 = _mm512_set1_epi32((int)((uint32_t)key->chunk << 16 | key->tensor));
	__m512i c2 = _mm512_set1_epi32((int)(uint32_t)key->step), c3 = _mm512_set1_epi32((int)(key->step >> 32));
	const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	__m512i a, b, c, d;

	for (int round = 0; round < 10; round++) {
		__m512i h0, l0, h1, l1;

		multiply(c0, m0, &h0, &l0);
		multiply(c2, m1, &h1, &l1);
		c0 = _mm512_ternarylogic_epi32(h1, c1, _mm512_set1_epi32((int)k0), 0x96);
		c1 = l1;
		c2 = _mm512_ternarylogic_epi32(h0, c3, _mm512_set1_epi32((int)k1), 0x96);
		c3 = l0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	a = _mm512_unpacklo_epi32(c0, c1);
	b = _mm512_unpackhi_epi32(c0, c1);
	c = _mm512_unpacklo_epi32(c2, c3);
	d = _mm512_unpackhi_epi32(c2, c3);
	_mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, c));
	_mm512_storeu_si512(out + 16, _mm512_unpackhi_epi64(a, c));
	_mm512_storeu_si512(out + 32, _mm512_unpacklo_epi64(b, d));
	_mm512_storeu_si512(out + 48, _mm512_unpackhi_epi64(b, d));
}

void sl_avx512_random32(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	int64_t i = 0;

	for (; i + 64 <= n; i += 64)
		philox16(key, (uint32_t)((first + (uint64_t)i) / 4), out + i);
	sl_c_random32(key, first + (uint64_t)i, n - i, out + i);
}

void sl_avx512_random16(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out)
{
	int64_t i = 0;

	for (; i + 128 <= n; i += 128)
		philox16(key, (uint32_t)((first + (uint64_t)i) / 8), (uint32_t *)(void *)(out + i));
	sl_c_random16(key, first + (uint64_t)i, n - i, out + i);
}
