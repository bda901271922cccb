/* Quantises values to codes and restores them. */
#include "kernels/cpu/codec_avx512.h"

struct affine16 {
	__m512 pre, lo, inv, step, post, max;
};

static inline struct affine16 spread(const struct sl_affine *a)
{
	return (struct affine16){_mm512_set1_ps(a->pre),  _mm512_set1_ps(a->lo),   _mm512_set1_ps(a->inv),
				 _mm512_set1_ps(a->step), _mm512_set1_ps(a->post), _mm512_set1_ps(a->max)};
}

static inline __m512 position(__m512 x, __m512 pre, __m512 lo, __m512 inv)
{
	return _mm512_mul_ps(_mm512_sub_ps(_mm512_mul_ps(x, pre), lo), inv);
}

static inline void store(uint16_t *code, __m512i v)
{
	_mm256_storeu_si256((void *)code, _mm512_cvtepi32_epi16(v));
}

void sl_avx512_quantize(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, uint16_t most,
			uint16_t *code)
{
	const struct affine16 k = spread(a);
	const __m512i top = _mm512_set1_epi32(most);
	int64_t i = 0;

	if (rnd == NULL) {
		for (; i + 16 <= n; i += 16)
			store(code + i, _mm512_cvtps_epi32(position(_mm512_loadu_ps(x + i), k.pre, k.lo, k.inv)));
	} else {
		for (; i + 16 <= n; i += 16)
			store(code + i, stochastic(position(_mm512_loadu_ps(x + i), k.pre, k.lo, k.inv), rnd + i, top));
	}
	sl_c_quantize(x + i, n - i, a, rnd == NULL ? NULL : rnd + i, most, code + i);
}

/* Each function that restores values exists twice: with ordinary and with streaming stores (see put16).
 * `stream` is a constant. */
INLINE void dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x, bool stream)
{
	const struct affine16 k = spread(a);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		put16(x + i, restore(load16(code + i), k.lo, k.step, k.post, k.max), stream);
	sl_c_dequantize(code + i, n - i, a, x + i);
}

void sl_avx512_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x)
{
	dequantize(code, n, a, x, false);
}

void sl_avx512_stream_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x)
{
	if (can_stream(x))
		dequantize(code, n, a, x, true);
	else
		dequantize(code, n, a, x, false);
}

void sl_avx512_quantize_cols(const float *x, int64_t n, const float *a, int64_t stride, const uint32_t *rnd,
			     uint16_t most, uint16_t *code)
{
	const __m512i top = _mm512_set1_epi32(most);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		const float *k = a + i;
		__m512 t = position(_mm512_loadu_ps(x + i), _mm512_loadu_ps(k), _mm512_loadu_ps(k + stride),
				    _mm512_loadu_ps(k + 2 * stride));

		store(code + i, rnd == NULL ? _mm512_cvtps_epi32(t) : stochastic(t, rnd + i, top));
	}
	sl_c_quantize_cols(x + i, n - i, a + i, stride, rnd == NULL ? NULL : rnd + i, most, code + i);
}

void sl_avx512_dequantize_cols(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		const float *k = a + i;

		_mm512_storeu_ps(x + i,
				 restore(load16(code + i), _mm512_loadu_ps(k + stride), _mm512_loadu_ps(k + 3 * stride),
					 _mm512_loadu_ps(k + 4 * stride), _mm512_loadu_ps(k + 5 * stride)));
	}
	sl_c_dequantize_cols(code + i, n - i, a + i, stride, x + i);
}

void sl_avx512_levels(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, int bits, uint16_t q,
		      uint16_t *code)
{
	const struct affine16 k = spread(a);
	const __m512i most = _mm512_set1_epi32(q), sign = _mm512_set1_epi32(1 << bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__m512 t = _mm512_mul_ps(_mm512_mul_ps(_mm512_castsi512_ps(magnitude16(v)), k.pre), k.inv);
		__m512i level = stochastic(t, rnd + i, most);
		__mmask16 negative = _mm512_mask_test_epi32_mask(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ),
								 level, level);

		store(code + i, _mm512_mask_or_epi32(level, negative, level, sign));
	}
	sl_c_levels(x + i, n - i, a, rnd + i, bits, q, code + i);
}

INLINE void unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x, bool stream)
{
	const struct affine16 k = spread(a);
	const __m512i mask = _mm512_set1_epi32((1 << bits) - 1), sign = _mm512_set1_epi32((int)0x80000000u);
	const __m128i up = _mm_cvtsi32_si128(31 - bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i c = load16(code + i);
		__m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_and_si512(c, mask)), k.step);

		v = _mm512_min_ps(_mm512_mul_ps(v, k.post), k.max);
		/* v ^ ((c << up) & sign) */
		v = _mm512_castsi512_ps(
			_mm512_ternarylogic_epi32(_mm512_castps_si512(v), _mm512_sll_epi32(c, up), sign, 0x78));
		put16(x + i, v, stream);
	}
	sl_c_unlevels(code + i, n - i, a, bits, x + i);
}

void sl_avx512_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x)
{
	unlevels(code, n, a, bits, x, false);
}

void sl_avx512_stream_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x)
{
	if (can_stream(x))
		unlevels(code, n, a, bits, x, true);
	else
		unlevels(code, n, a, bits, x, false);
}

void sl_avx512_settle(void)
{
	_mm_sfence();
}
