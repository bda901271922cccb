/* AVX-512 versions of the codecs' loops (common/codec/loops.h); codec_loops_avx512.c makes their table. */
#ifndef SL_CPU_CODEC_AVX512_H
#define SL_CPU_CODEC_AVX512_H

#include "kernels/cpu/codec_vector.h"

#define NAME(x) sl_avx512_##x
#include "common/codec/loops_names.h"
#undef NAME

void sl_avx512_stream_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x);
void sl_avx512_stream_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x);
void sl_avx512_stream_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);
void sl_avx512_settle(void);
void sl_avx512_stream_from_f16(const uint8_t *in, int64_t n, float *x);
void sl_avx512_stream_from_bf16(const uint8_t *in, int64_t n, float *x);
uint32_t sl_avx512_stream_subtract_cells(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f,
					 int64_t c, sl_f32u *restrict y);
void sl_avx512_stream_add_cells(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to,
				int64_t f, int64_t c, float *restrict x);
int64_t sl_avx512_stream_expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x);

/* The IEEE-754 pattern without the sign. */
static inline __m512i magnitude16(__m512 x)
{
	return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

static inline __m512i load16(const uint16_t *code)
{
	return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)code));
}

/* stochastic of common/codec/body_codes.h */
static inline __m512i stochastic(__m512 t, const uint32_t *rnd, __m512i most)
{
	const __m512i below = _mm512_cvttps_epi32(t), u = _mm512_srli_epi32(_mm512_loadu_si512(rnd), 1);
	const __m512 part = _mm512_mul_ps(_mm512_sub_ps(t, _mm512_cvtepi32_ps(below)), _mm512_set1_ps(0x1p31f));
	const __mmask16 up = _mm512_cmplt_epi32_mask(u, _mm512_cvttps_epi32(part));

	return _mm512_min_epu32(_mm512_mask_add_epi32(below, up, below, _mm512_set1_epi32(1)), most);
}

static inline __m512 restore(__m512i code, __m512 lo, __m512 step, __m512 post, __m512 max)
{
	__m512 v = _mm512_add_ps(lo, _mm512_mul_ps(_mm512_cvtepi32_ps(code), step));

	return _mm512_min_ps(_mm512_mul_ps(v, post), max);
}

/* Streaming stores bypass the caches, and memory is not read first. They are faster for results larger than
 * the caches. They need whole cache lines, and a fence before another thread is told. */
static inline bool can_stream(const float *x)
{
	return (uintptr_t)x % 64 == 0;
}

INLINE void put16(float *x, __m512 v, bool stream)
{
	if (stream)
		_mm512_stream_ps(x, v);
	else
		_mm512_storeu_ps(x, v);
}

#endif
