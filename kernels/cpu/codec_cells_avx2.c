#include "kernels/cpu/codec_avx2.h"

#define NAME(x) sl_avx2_##x

enum { LANES = 8 };
typedef __m256 vec;
typedef __m256i ivec;
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_store(p, v)  _mm256_storeu_ps(p, v)
#define vec_put(p, v, s) _mm256_storeu_ps(p, v)
#define vec_set1(v)      _mm256_set1_ps(v)
#define vec_add(a, b)    _mm256_add_ps(a, b)
#define vec_sub(a, b)    _mm256_sub_ps(a, b)
#define vec_mul(a, b)    _mm256_mul_ps(a, b)
#define ivec_zero()      _mm256_setzero_si256()
#define vec_top(top, v)  _mm256_max_epu32(top, magnitude8(v))
#define vec_top_of(top)  most_of(top)

static inline vec vec_means(const uint8_t *mean)
{
	__m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)mean));

	return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

#include "kernels/cpu/body_cells.h"
