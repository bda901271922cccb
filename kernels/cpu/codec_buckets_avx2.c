/* sortquant's codes and bucket statistics. */
#include "kernels/cpu/codec_vec_avx2.h"

/* Two registers of eight values; `low` alone serves up to 8 buckets. */
struct table16 {
	__m256 low, high;
};

static inline struct table16 table_of(const float value[16])
{
	return (struct table16){_mm256_loadu_ps(value), _mm256_loadu_ps(value + 8)};
}

INLINE __m256 pick(const struct table16 *t, __m256i k, int count)
{
	__m256 low = _mm256_permutevar8x32_ps(t->low, k);

	if (count <= 8)
		return low;
	return _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(t->high, k),
				_mm256_castsi256_ps(_mm256_slli_epi32(k, 28)));
}

static int64_t ivec_sum(__m256i v)
{
	int32_t lane[8];
	int64_t sum = 0;

	_mm256_storeu_si256((void *)lane, v);
	for (int j = 0; j < 8; j++)
		sum += lane[j];
	return sum;
}

static float vec_most(__m256 v)
{
	float lane[8], most;

	_mm256_storeu_ps(lane, v);
	most = lane[0];
	for (int j = 1; j < 8; j++)
		most = lane[j] > most ? lane[j] : most;
	return most;
}

#define vec_max(a, b)             _mm256_max_ps(a, b)
#define vec_min(a, b)             _mm256_min_ps(a, b)
#define vec_of_ivec(v)            _mm256_cvtepi32_ps(v)
#define vec_lt(a, b)              _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define vec_le(a, b)              _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ))
#define vec_ge(a, b)              _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GE_OQ))
#define vec_choose(mask, yes, no) _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(mask))
#define ivec_add(a, b)            _mm256_add_epi32(a, b)
#define ivec_sub(a, b)            _mm256_sub_epi32(a, b)
#define ivec_and(a, b)            _mm256_and_si256(a, b)
#define ivec_or(a, b)             _mm256_or_si256(a, b)
#define ivec_min(a, b)            _mm256_min_epu32(a, b)
#define ivec_up(v, bits)          _mm256_sll_epi32(v, _mm_cvtsi32_si128(bits))
#define ivec_down(v, bits)        _mm256_srl_epi32(v, _mm_cvtsi32_si128(bits))
#define ivec_round(v)             _mm256_cvtps_epi32(v)
#define ivec_trunc(v)             _mm256_cvttps_epi32(v)
#define ivec_lt(a, b)             _mm256_cmpgt_epi32(b, a)
#define ivec_load(p)              _mm256_loadu_si256((const void *)(p))
#define ivec_of_codes(p)          load8(p)
#define ivec_to_codes(p, v)       store8(p, v)

#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_bisect.h"
