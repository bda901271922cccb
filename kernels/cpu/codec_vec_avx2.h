/* The vector operations of body_half.h, body_mark.h, body_cells.h and body_bisect.h, for AVX2. */
#ifndef SL_CPU_CODEC_VEC_AVX2_H
#define SL_CPU_CODEC_VEC_AVX2_H

#include "kernels/cpu/codec_avx2.h"

enum { LANES = 8 };
typedef __m256 vec;
typedef __m256i ivec;
#define vec_load(p)           _mm256_loadu_ps(p)
#define vec_store(p, v)       _mm256_storeu_ps(p, v)
#define vec_put(p, v, stream) ((void)(stream), _mm256_storeu_ps(p, v))
#define vec_set1(v)           _mm256_set1_ps(v)
#define vec_add(a, b)         _mm256_add_ps(a, b)
#define vec_sub(a, b)         _mm256_sub_ps(a, b)
#define vec_mul(a, b)         _mm256_mul_ps(a, b)
#define vec_clamp(v, lo, hi)  _mm256_max_ps(_mm256_min_ps(v, hi), lo)
#define vec_of_halves(p)      _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define vec_to_halves(p, v)   _mm_storeu_si128((void *)(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define vec_magnitude(v)      magnitude8(v)
#define ivec_zero()           _mm256_setzero_si256()
#define ivec_set1(v)          _mm256_set1_epi32(v)
#define ivec_max(a, b)        _mm256_max_epu32(a, b)
#define ivec_most(v)          most_of(v)
#define ivec_reach(m, least)                                                                   \
	(bits_of(_mm256_cmpgt_epi32(least, m)) ^ 0xff) /* bit i: lane i of m ≥ least; both < \
							* 2^31 */

static inline vec vec_of_bf16(const uint8_t *in)
{
	__m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)in));

	return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

#endif
