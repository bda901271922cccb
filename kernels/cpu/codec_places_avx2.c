/* Finds and marks large elements, and gathers them. |bits| < 2^31, so signed comparisons work. */
#include "kernels/cpu/codec_vec_avx2.h"

int64_t sl_avx2_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap, int64_t *n_cand,
		     int64_t *equal, uint32_t *top)
{
	const __m256i low = _mm256_set1_epi32((int)lo), high = _mm256_set1_epi32((int)hi);
	__m256i most = _mm256_set1_epi32((int)*top), less = _mm256_setzero_si256(), same = _mm256_setzero_si256();
	int64_t i = 0, above = 0, found = 0, equals = 0, rest_found, rest_equal;
	uint32_t lane[2][8];

	for (; i + 8 <= n; i += 8) {
		__m256i m = magnitude8(_mm256_loadu_ps(x + i)), below = _mm256_cmpgt_epi32(high, m);
		uint32_t between = bits_of(_mm256_and_si256(below, _mm256_cmpgt_epi32(m, low)));

		most = _mm256_max_epu32(m, most);
		less = _mm256_sub_epi32(less, below);
		same = _mm256_sub_epi32(same, _mm256_cmpeq_epi32(m, low));
		for (; __builtin_expect(between != 0, 0); between &= between - 1) {
			if (found < cap)
				cand[found] = sl_magnitude(x[i + __builtin_ctz(between)]);
			found++;
		}
	}
	_mm256_storeu_si256((void *)lane[0], less);
	_mm256_storeu_si256((void *)lane[1], same);
	above = i;
	for (int j = 0; j < 8; j++) {
		above -= lane[0][j];
		equals += lane[1][j];
	}
	*top = most_of(most);
	above += sl_c_scan(x + i, n - i, lo, hi, cand + (found < cap ? found : cap), found < cap ? cap - found : 0,
			   &rest_found, &rest_equal, top);
	*n_cand = found + rest_found;
	*equal = equals + rest_equal;
	return above;
}

#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_mark.h"

int64_t sl_avx2_gather(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top)
{
	struct sl_range range = {0, 0, *top};
	int64_t count = 0;

	sl_avx2_minmax(x, n, &range);
	*top = range.top;
	for (int64_t i = 0; i < n; i += 64) {
		for (uint64_t word = bitmap[i / 64]; word != 0; word &= word - 1)
			y[count++] = x[i + __builtin_ctzll(word)];
	}
	return count;
}
