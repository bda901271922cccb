/* sortquant's codes. */
#include "kernels/cpu/codec_avx2.h"

/* Sixteen values by lane number: two registers of eight, of which few buckets need only the first. */
struct table16 {
	__m256 low, high;
};

static inline struct table16 table_of(const float value[16])
{
	return (struct table16){_mm256_loadu_ps(value), _mm256_loadu_ps(value + 8)};
}

/* `wide`, a constant: k may be 8 and more. */
INLINE __m256 pick(const struct table16 *t, __m256i k, bool wide)
{
	__m256 low = _mm256_permutevar8x32_ps(t->low, k);

	if (!wide)
		return low;
	return _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(t->high, k),
				_mm256_castsi256_ps(_mm256_slli_epi32(k, 28)));
}

/* The bucket of each element by bisection: the edge in the middle first, then those in the middle of the halves.
 * `count` is a constant. */
INLINE __m256i bucket_of(__m256 v, const struct table16 *edge, __m256 middle, int count)
{
	__m256i up = _mm256_castps_si256(_mm256_cmp_ps(v, middle, _CMP_GE_OQ));
	__m256i k = _mm256_and_si256(up, _mm256_set1_epi32(count / 2));

	for (int half = count / 4; half > 0; half /= 2) {
		__m256 e = pick(edge, _mm256_add_epi32(k, _mm256_set1_epi32(half)), count > 8);

		up = _mm256_castps_si256(_mm256_cmp_ps(v, e, _CMP_GE_OQ));
		k = _mm256_add_epi32(k, _mm256_and_si256(up, _mm256_set1_epi32(half)));
	}
	return k;
}

/* floor(t + rnd·2^-16), at most `most` */
static inline __m256i stochastic(__m256 t, const uint16_t *rnd, __m256i most)
{
	__m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(load8(rnd)), _mm256_set1_ps(0x1p-16f));

	return _mm256_min_epu32(_mm256_cvttps_epi32(_mm256_add_ps(t, u)), most);
}

INLINE void bucketize(const float *x, int64_t n, const struct sl_buckets *b, const uint16_t *rnd, uint16_t *code,
		      int count, bool scaled)
{
	const struct table16 edge = table_of(b->edge), pre = table_of(b->pre), lo = table_of(b->lo),
			     inv = table_of(b->inv);
	const __m256 middle = _mm256_set1_ps(b->edge[count / 2]);
	const __m256i most = _mm256_set1_epi32((1 << b->code_bits) - 1);
	const __m128i shift = _mm_cvtsi32_si128(b->code_bits);

	for (int64_t i = 0; i < n; i += 8) {
		__m256 v = _mm256_loadu_ps(x + i), t;
		__m256i k = bucket_of(v, &edge, middle, count);

		t = scaled ? _mm256_mul_ps(v, pick(&pre, k, count > 8)) : v;
		t = _mm256_sub_ps(t, pick(&lo, k, count > 8));
		t = _mm256_mul_ps(t, pick(&inv, k, count > 8));
		store8(code + i, _mm256_or_si256(_mm256_sll_epi32(k, shift),
						 rnd ? stochastic(t, rnd + i, most) : _mm256_cvtps_epi32(t)));
	}
}

static int64_t sum_of(__m256i v)
{
	int32_t lane[8];
	int64_t sum = 0;

	_mm256_storeu_si256((void *)lane, v);
	for (int j = 0; j < 8; j++)
		sum += lane[j];
	return sum;
}

/* Edges from … from+edges-1, at most 4. `edges` and `ties` are constants at every call. */
INLINE void edge_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, int from,
		       int edges, bool ties)
{
	__m256i below[4], upto[4];
	__m256 most[4];

	for (int k = 0; k < edges; k++) {
		below[k] = upto[k] = _mm256_setzero_si256();
		most[k] = _mm256_set1_ps(io->max_below[from + k]);
	}
	for (int64_t i = 0; i < n; i += 8) {
		__m256 v = _mm256_loadu_ps(x + i);

		for (int k = 0; k < edges; k++) {
			__m256 edge = _mm256_broadcast_ss(&b->edge[from + k]),
			       less = _mm256_cmp_ps(v, edge, _CMP_LT_OQ);

			below[k] = _mm256_sub_epi32(below[k], _mm256_castps_si256(less));
			if (ties)
				upto[k] = _mm256_sub_epi32(upto[k],
							   _mm256_castps_si256(_mm256_cmp_ps(v, edge, _CMP_LE_OQ)));
			most[k] = _mm256_max_ps(_mm256_blendv_ps(most[k], v, less), most[k]);
		}
	}
	for (int k = 0; k < edges; k++) {
		float lane[8];

		io->below[from + k] += sum_of(below[k]);
		io->upto[from + k] += sum_of(upto[k]);
		_mm256_storeu_ps(lane, most[k]);
		for (int j = 0; j < 8; j++)
			io->max_below[from + k] = lane[j] > io->max_below[from + k] ? lane[j] : io->max_below[from + k];
		io->max_below[from + k] += 0.0f;
	}
}

INLINE void tile_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, bool ties)
{
	int from = 1;

	if (b->count == 2) {
		edge_stats(x, n, b, io, 1, 1, ties);
		return;
	}
	for (; from + 4 <= b->count; from += 4)
		edge_stats(x, n, b, io, from, 4, ties);
	edge_stats(x, n, b, io, from, 3, ties);
}

INLINE void unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x, bool wide)
{
	const struct table16 lo = table_of(b->lo), step = table_of(b->step), post = table_of(b->post),
			     max = table_of(b->max);
	const __m256i mask = _mm256_set1_epi32((1 << b->code_bits) - 1);
	const __m128i shift = _mm_cvtsi32_si128(b->code_bits);

	for (int64_t i = 0; i < n; i += 8) {
		__m256i c = load8(code + i), k = _mm256_srl_epi32(c, shift);
		__m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_and_si256(c, mask)), pick(&step, k, wide));

		v = _mm256_mul_ps(_mm256_add_ps(pick(&lo, k, wide), v), pick(&post, k, wide));
		_mm256_storeu_ps(x + i, _mm256_min_ps(v, pick(&max, k, wide)));
	}
}

void sl_avx2_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	int64_t whole = n & ~(int64_t)7;

	if (b->count > 8)
		unbucketize(code, whole, b, x, true);
	else
		unbucketize(code, whole, b, x, false);
	sl_c_unbucketize(code + whole, n - whole, b, x + whole);
}

enum { STATS_AT_ONCE = 8, CODES_AT_ONCE = 8 };
#define NAME(x) sl_avx2_##x
#include "kernels/cpu/body_buckets.h"
