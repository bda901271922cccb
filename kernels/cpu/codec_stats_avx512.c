/* Statistics and random numbers. */
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

				ask_ahead(x + i + 16 * j);
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

/* Columns k … k+16·vecs-1 over all rows, kept in registers. `vecs` is a constant. */
INLINE __m512i cols_tile(const float *x, int64_t rows, int64_t c, float *lo, float *hi, int vecs)
{
	__m512i top = _mm512_setzero_si512();
	__m512 l[4], h[4];

	for (int j = 0; j < vecs; j++) {
		l[j] = _mm512_loadu_ps(lo + 16 * j);
		h[j] = _mm512_loadu_ps(hi + 16 * j);
	}
	for (int64_t r = 0; r < rows; r++) {
		for (int j = 0; j < vecs; j++) {
			__m512 v = _mm512_loadu_ps(x + r * c + 16 * j);

			ask_ahead(x + r * c + 16 * j);
			l[j] = _mm512_min_ps(v, l[j]);
			h[j] = _mm512_max_ps(v, h[j]);
			top = _mm512_max_epu32(magnitude16(v), top);
		}
	}
	for (int j = 0; j < vecs; j++) {
		_mm512_storeu_ps(lo + 16 * j, l[j]);
		_mm512_storeu_ps(hi + 16 * j, h[j]);
	}
	return top;
}

uint32_t sl_avx512_minmax_cols(const float *x, int64_t rows, int64_t c, float *lo, float *hi)
{
	__m512i top = _mm512_setzero_si512();
	int64_t k = 0;

	for (; k + 64 <= c; k += 64)
		top = _mm512_max_epu32(top, cols_tile(x + k, rows, c, lo + k, hi + k, 4));
	if (k + 32 <= c) {
		top = _mm512_max_epu32(top, cols_tile(x + k, rows, c, lo + k, hi + k, 2));
		k += 32;
	}
	for (int64_t r = 0; r < rows; r++) {
		for (int64_t j = k; j < c; j += 16) {
			__mmask16 m = c - j < 16 ? (__mmask16)((1u << (c - j)) - 1) : (__mmask16)0xffff;
			__m512 v = _mm512_maskz_loadu_ps(m, x + r * c + j);
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
	__m256d four;
	__m128d two;

	/* lanes beyond the end are 0, and their squares change no sum */
	for (int64_t i = 0; i < n; i += 16) {
		__mmask16 m = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : (__mmask16)0xffff;
		__m512 v = _mm512_maskz_loadu_ps(m, x + i);
		__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
		__m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

		ask_ahead(x + i);
		/* the product of two floats is exact in double, so fusing changes nothing */
		low = _mm512_fmadd_pd(a, a, low);
		high = _mm512_fmadd_pd(b, b, high);
		most = _mm512_max_epu32(magnitude16(v), most);
	}
	*top = _mm512_reduce_max_epu32(most);
	low = _mm512_add_pd(low, high);
	four = _mm256_add_pd(_mm512_castpd512_pd256(low), _mm512_extractf64x4_pd(low, 1));
	two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
	return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}

enum { WORDS = 4 * 32 };

/* 32 Philox blocks from `quad` on, as 128 words in order. A register holds one word of eight blocks, each in
 * the low half of 64 bits. mul_epu32 ignores the high half, so products need no shuffles. */
static inline void philox(const struct sl_rng_key *key, uint32_t quad, uint32_t *out)
{
	/* block L + 4·t at position 2·L + t: the unpacking below then leaves four blocks in order in every
	 * register */
	const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
	const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	__m512i c0[4], c1[4], c2[4], c3[4];

	for (int j = 0; j < 4; j++) {
		c0[j] = _mm512_add_epi32(_mm512_set1_epi64((uint32_t)(quad + 8 * (uint32_t)j)), order);
		c1[j] = _mm512_set1_epi64((uint32_t)key->chunk << 16 | key->tensor);
		c2[j] = _mm512_set1_epi64((uint32_t)key->step);
		c3[j] = _mm512_set1_epi64((uint32_t)(key->step >> 32));
	}
	for (int round = 0; round < 10; round++) {
		const __m512i r0 = _mm512_set1_epi64(k0), r1 = _mm512_set1_epi64(k1);

		for (int j = 0; j < 4; j++) {
			__m512i p0 = _mm512_mul_epu32(c0[j], m0), p1 = _mm512_mul_epu32(c2[j], m1);

			c0[j] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[j], r0, 0x96);
			c1[j] = p1;
			c2[j] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[j], r1, 0x96);
			c3[j] = p0;
		}
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	for (int j = 0; j < 4; j++) {
		__m512i a = _mm512_mask_blend_epi32(0xaaaa, c0[j], _mm512_slli_epi64(c1[j], 32));
		__m512i b = _mm512_mask_blend_epi32(0xaaaa, c2[j], _mm512_slli_epi64(c3[j], 32));

		_mm512_storeu_si512(out + 32 * j, _mm512_unpacklo_epi64(a, b));
		_mm512_storeu_si512(out + 32 * j + 16, _mm512_unpackhi_epi64(a, b));
	}
}

#define NAME(x) sl_avx512_##x
#include "kernels/cpu/body_random.h"
