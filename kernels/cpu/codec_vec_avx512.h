/* The vector operations of body_half.h, body_mark.h and body_cells.h, for AVX-512, which also has streaming
 * stores. */
#ifndef SL_CPU_CODEC_VEC_AVX512_H
#define SL_CPU_CODEC_VEC_AVX512_H

#include "kernels/cpu/codec_avx512.h"

#define STREAMS

enum { LANES = 16 };
typedef __m512 vec;
typedef __m512i ivec;
#define vec_load(p)          _mm512_loadu_ps(p)
#define vec_store(p, v)      _mm512_storeu_ps(p, v)
#define vec_put              put16
#define vec_set1(v)          _mm512_set1_ps(v)
#define vec_add(a, b)        _mm512_add_ps(a, b)
#define vec_sub(a, b)        _mm512_sub_ps(a, b)
#define vec_mul(a, b)        _mm512_mul_ps(a, b)
#define vec_clamp(v, lo, hi) _mm512_max_ps(_mm512_min_ps(v, hi), lo)
#define vec_of_halves(p)     _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define vec_to_halves(p, v)  _mm256_storeu_si256((void *)(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define vec_magnitude(v)     magnitude16(v)
#define ivec_zero()          _mm512_setzero_si512()
#define ivec_set1(v)         _mm512_set1_epi32(v)
#define ivec_max(a, b)       _mm512_max_epu32(a, b)
#define ivec_most(v)         _mm512_reduce_max_epu32(v)
#define ivec_reach(m, least) _mm512_cmpge_epu32_mask(m, least) /* bit i: lane i of m ≥ least */

static inline vec vec_of_bf16(const uint8_t *in)
{
	__m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)in));

	return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

#endif
