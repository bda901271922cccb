/* sortquant's codes and bucket statistics. */
#include "kernels/cpu/codec_avx512.h"

enum { MOST_BUCKETS = 16, MOST_EDGES = 8 /* edges whose sums fit in registers */ };

/* Statistics of edges from … from+edges-1. `edges` and `ties` are constants at every call. */
INLINE void edge_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, int from,
		       int edges, bool ties)
{
	__m512i below[MOST_EDGES], upto[MOST_EDGES];
	__m512 most[MOST_EDGES];
	const __m512i minus = _mm512_set1_epi32(-1);

	for (int k = 0; k < edges; k++) {
		below[k] = upto[k] = _mm512_setzero_si512();
		most[k] = _mm512_set1_ps(io->max_below[from + k]);
	}
	for (int64_t i = 0; i < n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);

		for (int k = 0; k < edges; k++) {
			__m512 edge = _mm512_set1_ps(b->edge[from + k]);
			__mmask16 less = _mm512_cmp_ps_mask(v, edge, _CMP_LT_OQ);

			below[k] = _mm512_mask_sub_epi32(below[k], less, below[k], minus);
			if (ties)
				upto[k] = _mm512_sub_epi32(upto[k],
							   _mm512_movm_epi32(_mm512_cmp_ps_mask(v, edge, _CMP_LE_OQ)));
			most[k] = _mm512_mask_max_ps(most[k], less, v, most[k]);
		}
	}
	for (int k = 0; k < edges; k++) {
		io->below[from + k] += _mm512_reduce_add_epi32(below[k]);
		io->upto[from + k] += _mm512_reduce_add_epi32(upto[k]);
		io->max_below[from + k] = _mm512_reduce_max_ps(most[k]) + 0.0f;
	}
}

/* Edges for the bisection: first `middle`, then `low` or `high`, the middles of the halves. From bucket k on,
 * lane k of by2 and by1 holds the edge 2 or 1 further. */
struct edges16 {
	__m512 middle, low, high, by2, by1;
};

/* Lane k: edge k + step. Lanes that wrap around are never used. */
static inline __m512 further(const struct sl_buckets *b, int step)
{
	float edge[16];

	for (int k = 0; k < 16; k++)
		edge[k] = b->edge[(k + step) % 16];
	return _mm512_loadu_ps(edge);
}

static inline struct edges16 edges_of(const struct sl_buckets *b)
{
	return (struct edges16){_mm512_set1_ps(b->edge[b->count / 2]), _mm512_set1_ps(b->edge[b->count / 4]),
				_mm512_set1_ps(b->edge[3 * b->count / 4]), further(b, 2), further(b, 1)};
}

/* The bucket of each element: the number of edges that are ≤ v. `count` is a constant. */
INLINE __m512i bucket_of(__m512 v, const struct edges16 *e, int count)
{
	__mmask16 up = _mm512_cmp_ps_mask(v, e->middle, _CMP_GE_OQ);
	__m512i k = _mm512_maskz_set1_epi32(up, count / 2);

	if (count >= 4) {
		up = _mm512_cmp_ps_mask(v, _mm512_mask_mov_ps(e->low, up, e->high), _CMP_GE_OQ);
		k = _mm512_mask_add_epi32(k, up, k, _mm512_set1_epi32(count / 4));
	}
	if (count >= 16) {
		up = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(k, e->by2), _CMP_GE_OQ);
		k = _mm512_mask_add_epi32(k, up, k, _mm512_set1_epi32(2));
	}
	if (count >= 8) {
		up = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(k, e->by1), _CMP_GE_OQ);
		k = _mm512_mask_add_epi32(k, up, k, _mm512_set1_epi32(1));
	}
	return k;
}

enum { GROUP = 4 * 16, GROUPS = SL_CODEC_TILE / GROUP, MOST_GROUPS = 15 /* that four bits can count */ };

/* Raises most[k] to the largest of 64 elements in bucket k. Rare, so one element at a time. */
static __attribute__((noinline)) void raise_most(float most[MOST_BUCKETS], const float *x, const struct edges16 *edges)
{
	const __m512 reached = _mm512_loadu_ps(most);

	for (int i = 0; i < GROUP; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__m512i k = bucket_of(v, edges, MOST_BUCKETS);
		uint32_t left = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(k, reached), _CMP_GT_OQ);
		int32_t bucket[16];

		_mm512_storeu_si512(bucket, k);
		for (; left != 0; left &= left - 1) {
			int j = __builtin_ctz(left);

			if (x[i + j] > most[bucket[j]])
				most[bucket[j]] = x[i + j];
		}
	}
}

/* The buckets of 64 elements, one byte each, in no order. *above: some element exceeds `reached` of its
 * bucket. */
static inline __m512i numbers_of(const float *x, const struct edges16 *edges, __m512 reached, bool *above)
{
	__m512i k[4], pairs[2];
	__mmask16 up[4];

	for (int h = 0; h < 4; h++) {
		__m512 v = _mm512_loadu_ps(x + 16 * h);

		/* the next tile: its range (minmax) is computed first */
		_mm_prefetch((const char *)(x + 16 * h + SL_CODEC_TILE), _MM_HINT_T0);
		k[h] = bucket_of(v, edges, MOST_BUCKETS);
		up[h] = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(k[h], reached), _CMP_GT_OQ);
	}
	pairs[0] = _mm512_or_si512(k[0], _mm512_slli_epi32(k[1], 8));
	pairs[1] = _mm512_or_si512(k[2], _mm512_slli_epi32(k[3], 8));
	*above = !_kortestz_mask16_u8(_kor_mask16(up[0], up[1]), _kor_mask16(up[2], up[3]));
	return _mm512_or_si512(pairs[0], _mm512_slli_epi32(pairs[1], 16));
}

/* For k = 1 … 15, from[k] += the number of the 64·groups bucket numbers that are ≥ k. Each number looks up
 * eight bytes; each byte holds two of the answers (0 or 1) in its nibbles. Sums of MOST_GROUPS answers still
 * fit a nibble. */
static void count_from(const __m512i *number, int64_t groups, int64_t from[MOST_BUCKETS + 1])
{
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
	__m512i sum[MOST_BUCKETS / 2], table[MOST_BUCKETS / 2];

	for (int j = 0; j < MOST_BUCKETS / 2; j++) {
		uint8_t answers[MOST_BUCKETS];

		for (int k = 0; k < MOST_BUCKETS; k++)
			answers[k] = (uint8_t)((k >= 2 * j + 1) | (k >= 2 * j + 2) << 4);
		table[j] = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)answers));
		sum[j] = zero;
	}
	for (int64_t g = 0; g < groups; g++) {
		for (int j = 0; j < MOST_BUCKETS / 2; j++)
			sum[j] = _mm512_add_epi8(sum[j], _mm512_shuffle_epi8(table[j], number[g]));
	}
	for (int j = 0; j < MOST_BUCKETS / 2; j++) {
		__m512i odd = _mm512_and_si512(sum[j], low);
		__m512i even = _mm512_and_si512(_mm512_srli_epi16(sum[j], 4), low);

		from[2 * j + 1] += _mm512_reduce_add_epi64(_mm512_sad_epu8(odd, zero));
		from[2 * j + 2] += _mm512_reduce_add_epi64(_mm512_sad_epu8(even, zero));
	}
}

/* Statistics of all 15 edges without ties; n is a multiple of 64 and at most SL_CODEC_TILE. An element's
 * bucket tells on which side of every edge it lies. */
static void bucket_counts(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io)
{
	const struct edges16 edges = edges_of(b);
	__m512i number[GROUPS];
	int64_t from[MOST_BUCKETS + 1] = {0};
	float most[MOST_BUCKETS];
	__m512 reached;

	/* most[k]: the largest element of bucket k, if it exceeds max_below of the bucket's upper edge, else
	 * max_below */
	for (int k = 0; k < MOST_BUCKETS; k++)
		most[k] = k + 1 < MOST_BUCKETS ? io->max_below[k + 1] : __builtin_inff();
	reached = _mm512_loadu_ps(most);
	for (int64_t i = 0; i < n; i += GROUP) {
		bool above;

		number[i / GROUP] = numbers_of(x + i, &edges, reached, &above);
		if (__builtin_expect(above, 0)) {
			raise_most(most, x + i, &edges);
			reached = _mm512_loadu_ps(most);
		}
	}
	for (int64_t g = 0; g < n / GROUP; g += MOST_GROUPS)
		count_from(number + g, n / GROUP - g < MOST_GROUPS ? n / GROUP - g : MOST_GROUPS, from);
	for (int k = 1; k < MOST_BUCKETS; k++) {
		io->below[k] += n - from[k];
		most[k] = most[k] > most[k - 1] || k + 1 == MOST_BUCKETS ? most[k] : most[k - 1];
		io->max_below[k] = most[k - 1] + 0.0f;
	}
}

INLINE void tile_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, bool ties)
{
	switch (b->count) {
	case 2:
		edge_stats(x, n, b, io, 1, 1, ties);
		break;
	case 4:
		edge_stats(x, n, b, io, 1, 3, ties);
		break;
	case 8:
		edge_stats(x, n, b, io, 1, 7, ties);
		break;
	default:
		if (ties) {
			edge_stats(x, n, b, io, 1, 8, true);
			edge_stats(x, n, b, io, 9, 7, true);
		} else {
			bucket_counts(x, n, b, io);
		}
		break;
	}
}

/* Stores the low halves of 32 words, in order. */
static inline void store_pair(uint16_t *code, __m512i low, __m512i high, __m512i order)
{
	_mm512_storeu_si512(code, _mm512_permutex2var_epi16(low, order, high));
}

/* `scaled`, a constant: some `pre` is not 1. */
INLINE void bucketize(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code,
		      int count, bool scaled)
{
	const __m512 pre = _mm512_loadu_ps(b->pre), lo = _mm512_loadu_ps(b->lo), inv = _mm512_loadu_ps(b->inv);
	const struct edges16 edges = edges_of(b);
	const __m128i up = _mm_cvtsi32_si128(b->code_bits);
	const __m512i most = _mm512_set1_epi32((1 << b->code_bits) - 1);
	__m512i order = _mm512_setzero_si512();

	for (int i = 0; i < 32; i++)
		order = _mm512_mask_set1_epi16(order, (__mmask32)1 << i, (int16_t)(2 * i));
	/* two registers at a time: the steps of one bisection depend on each other */
	for (int64_t i = 0; i < n; i += 2 * 16) {
		__m512 v[2];
		__m512i k[2];

		for (int h = 0; h < 2; h++) {
			v[h] = _mm512_loadu_ps(x + i + 16 * h);
			ask_ahead(x + i + 16 * h);
			k[h] = bucket_of(v[h], &edges, count);
		}
		for (int h = 0; h < 2; h++) {
			__m512i code_of;
			__m512 t = scaled ? _mm512_mul_ps(v[h], _mm512_permutexvar_ps(k[h], pre)) : v[h];

			t = _mm512_sub_ps(t, _mm512_permutexvar_ps(k[h], lo));
			t = _mm512_mul_ps(t, _mm512_permutexvar_ps(k[h], inv));
			code_of = rnd ? stochastic(t, rnd + i + 16 * h, most) : _mm512_cvtps_epi32(t);
			k[h] = _mm512_or_si512(_mm512_sll_epi32(k[h], up), code_of);
		}
		store_pair(code + i, k[0], k[1], order);
	}
}

INLINE void unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x, bool stream)
{
	const __m512 lo = _mm512_loadu_ps(b->lo), step = _mm512_loadu_ps(b->step);
	const __m512 post = _mm512_loadu_ps(b->post), max = _mm512_loadu_ps(b->max);
	const __m512i mask = _mm512_set1_epi32((1 << b->code_bits) - 1);
	const __m128i down = _mm_cvtsi32_si128(b->code_bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i c = load16(code + i), k = _mm512_srl_epi32(c, down);

		put16(x + i,
		      restore(_mm512_and_si512(c, mask), _mm512_permutexvar_ps(k, lo), _mm512_permutexvar_ps(k, step),
			      _mm512_permutexvar_ps(k, post), _mm512_permutexvar_ps(k, max)),
		      stream);
	}
	sl_c_unbucketize(code + i, n - i, b, x + i);
}

void sl_avx512_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	unbucketize(code, n, b, x, false);
}

void sl_avx512_stream_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	if (can_stream(x))
		unbucketize(code, n, b, x, true);
	else
		unbucketize(code, n, b, x, false);
}

enum { STATS_AT_ONCE = GROUP, CODES_AT_ONCE = 32 };
#define NAME(x) sl_avx512_##x
#include "kernels/cpu/body_buckets.h"
