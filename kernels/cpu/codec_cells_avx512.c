#include "kernels/cpu/codec_avx512.h"

#define NAME(x) sl_avx512_##x
#define STREAMS

enum { LANES = 16 };
typedef __m512 vec;
typedef __m512i ivec;
#define vec_load(p)     _mm512_loadu_ps(p)
#define vec_store(p, v) _mm512_storeu_ps(p, v)
#define vec_put         put16
#define vec_set1(v)     _mm512_set1_ps(v)
#define vec_add(a, b)   _mm512_add_ps(a, b)
#define vec_sub(a, b)   _mm512_sub_ps(a, b)
#define vec_mul(a, b)   _mm512_mul_ps(a, b)
#define ivec_zero()     _mm512_setzero_si512()
#define vec_top(top, v) _mm512_max_epu32(top, magnitude16(v))
#define vec_top_of(top) _mm512_reduce_max_epu32(top)

static inline vec vec_means(const uint8_t *mean)
{
	__m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)mean));

	return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

#include "kernels/cpu/body_cells.h"
