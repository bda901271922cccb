/* AVX2 versions of the codecs' loops (common/codec/loops.h): those that the compiler cannot make of the portable ones.
 */
#ifndef SL_CPU_CODEC_AVX2_H
#define SL_CPU_CODEC_AVX2_H

#include "kernels/cpu/codec_vector.h"

void sl_avx2_minmax(const float *x, int64_t n, struct sl_range *io);
double sl_avx2_sum_squares(const float *x, int64_t n, uint32_t *top);
void sl_avx2_bucket_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io);
void sl_avx2_bucketize(const float *x, int64_t n, const struct sl_buckets *b, const uint16_t *rnd, uint16_t *code);
void sl_avx2_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);
void sl_avx2_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out);
void sl_avx2_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code);
uint32_t sl_avx2_to_f16(const float *x, int64_t n, uint8_t *out);
void sl_avx2_from_f16(const uint8_t *in, int64_t n, float *x);
void sl_avx2_random16(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out);
void sl_avx2_random32(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
int64_t sl_avx2_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap, int64_t *n_cand,
		     int64_t *equal, uint32_t *top);
int64_t sl_avx2_mark(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top);
void sl_avx2_average_cells(const float *restrict x, int64_t lines, int64_t w, int64_t f, int64_t c,
			   float *restrict mean);
uint32_t sl_avx2_subtract_cells(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f, int64_t c,
				sl_f32u *restrict y);
void sl_avx2_add_cells(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to, int64_t f,
		       int64_t c, float *restrict x);

int64_t sl_avx2_gather(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top);

/* Pattern without the sign. */
static inline __m256i magnitude8(__m256 x)
{
	return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

/* The low half of each 32 bits. */
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
