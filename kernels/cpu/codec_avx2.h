/* AVX2 versions of the codecs' loops (common/codec/loops.h) that the compiler cannot generate from the
 * portable code. */
#ifndef SL_CPU_CODEC_AVX2_H
#define SL_CPU_CODEC_AVX2_H

#include "kernels/cpu/codec_vector.h"

#define NAME(x) sl_avx2_##x
#include "common/codec/loops_names.h"
#undef NAME

/* The IEEE-754 pattern without the sign. */
static inline __m256i magnitude8(__m256 x)
{
	return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

/* Stores the low half of each 32-bit lane. */
static inline void store8(uint16_t *code, __m256i v)
{
	__m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);

	_mm_storeu_si128((void *)code, _mm256_castsi256_si128(pairs));
}

static inline __m256i load8(const uint16_t *code)
{
	return _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)code));
}

static inline uint32_t bits_of(__m256i mask)
{
	return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(mask));
}

static inline uint32_t most_of(__m256i v)
{
	uint32_t lane[8], most = 0;

	_mm256_storeu_si256((void *)lane, v);
	for (int i = 0; i < 8; i++)
		most = lane[i] > most ? lane[i] : most;
	return most;
}

#endif
