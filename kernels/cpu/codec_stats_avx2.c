/* Statistics and random numbers. */
#include "kernels/cpu/codec_avx2.h"

static inline void fold(struct sl_range *io, __m256 lo, __m256 hi, __m256i top)
{
	float least[8], most[8];
	uint32_t bits = most_of(top);

	_mm256_storeu_ps(least, lo);
	_mm256_storeu_ps(most, hi);
	for (int j = 0; j < 8; j++) {
		io->min = least[j] < io->min ? least[j] : io->min;
		io->max = most[j] > io->max ? most[j] : io->max;
	}
	io->top = bits > io->top ? bits : io->top;
}

void sl_avx2_minmax(const float *x, int64_t n, struct sl_range *io)
{
	__m256 lo[2], hi[2];
	__m256i top[2];
	int64_t i = 0;

	for (int j = 0; j < 2; j++) {
		lo[j] = _mm256_set1_ps(io->min);
		hi[j] = _mm256_set1_ps(io->max);
		top[j] = _mm256_setzero_si256();
	}
	for (; i + 16 <= n; i += 16) {
		for (int j = 0; j < 2; j++) {
			__m256 v = _mm256_loadu_ps(x + i + 8 * j);

			/* min and max return their second operand if v is NaN */
			lo[j] = _mm256_min_ps(v, lo[j]);
			hi[j] = _mm256_max_ps(v, hi[j]);
			top[j] = _mm256_max_epu32(magnitude8(v), top[j]);
		}
	}
	fold(io, _mm256_min_ps(lo[0], lo[1]), _mm256_max_ps(hi[0], hi[1]), _mm256_max_epu32(top[0], top[1]));
	sl_c_minmax(x + i, n - i, io);
}

double sl_avx2_sum_squares(const float *x, int64_t n, uint32_t *top)
{
	__m256i most = _mm256_set1_epi32((int)*top);
	__m256d part[4];
	double sum[16];
	uint32_t last;
	int64_t i = 0;

	for (int j = 0; j < 4; j++)
		part[j] = _mm256_setzero_pd();
	for (; i + 16 <= n; i += 16) {
		for (int j = 0; j < 4; j++) {
			__m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * j));

			/* the product of two floats is exact in double, so fusing changes nothing */
			part[j] = _mm256_fmadd_pd(v, v, part[j]);
		}
		most = _mm256_max_epu32(magnitude8(_mm256_loadu_ps(x + i)), most);
		most = _mm256_max_epu32(magnitude8(_mm256_loadu_ps(x + i + 8)), most);
	}
	for (int j = 0; j < 4; j++)
		_mm256_storeu_pd(sum + 4 * j, part[j]);
	last = most_of(most);
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

enum { WORDS = 4 * 16 };

/* 16 Philox blocks from `quad` on, as 64 words in order. A register holds one word of four blocks, each in
 * the low half of 64 bits. mul_epu32 ignores the high half, so products need no shuffles. */
static inline void philox(const struct sl_rng_key *key, uint32_t quad, uint32_t *out)
{
	/* the unpacking below then leaves two blocks in order in every register */
	const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3);
	const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	__m256i c0[4], c1[4], c2[4], c3[4];

	for (int j = 0; j < 4; j++) {
		c0[j] = _mm256_add_epi32(_mm256_set1_epi64x((uint32_t)(quad + 4 * (uint32_t)j)), order);
		c1[j] = _mm256_set1_epi64x((uint32_t)key->chunk << 16 | key->tensor);
		c2[j] = _mm256_set1_epi64x((uint32_t)key->step);
		c3[j] = _mm256_set1_epi64x((uint32_t)(key->step >> 32));
	}
	for (int round = 0; round < 10; round++) {
		const __m256i r0 = _mm256_set1_epi64x(k0), r1 = _mm256_set1_epi64x(k1);

		for (int j = 0; j < 4; j++) {
			__m256i p0 = _mm256_mul_epu32(c0[j], m0), p1 = _mm256_mul_epu32(c2[j], m1);

			c0[j] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1[j]), r0);
			c1[j] = p1;
			c2[j] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3[j]), r1);
			c3[j] = p0;
		}
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	for (int j = 0; j < 4; j++) {
		__m256i a = _mm256_blend_epi32(c0[j], _mm256_slli_epi64(c1[j], 32), 0xaa);
		__m256i b = _mm256_blend_epi32(c2[j], _mm256_slli_epi64(c3[j], 32), 0xaa);

		_mm256_storeu_si256((void *)(out + 16 * j), _mm256_unpacklo_epi64(a, b));
		_mm256_storeu_si256((void *)(out + 16 * j + 8), _mm256_unpackhi_epi64(a, b));
	}
}

#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_random.h"
