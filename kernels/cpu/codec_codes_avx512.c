/* Values to codes and back. */
#include <string.h>

#include "kernels/cpu/codec_avx512.h"

struct affine16 {
	__m512 pre, lo, inv, step, post, max;
};

static inline struct affine16 spread(const struct sl_affine *a)
{
	return (struct affine16){_mm512_set1_ps(a->pre),  _mm512_set1_ps(a->lo),   _mm512_set1_ps(a->inv),
				 _mm512_set1_ps(a->step), _mm512_set1_ps(a->post), _mm512_set1_ps(a->max)};
}

static inline __m512 position(__m512 x, __m512 pre, __m512 lo, __m512 inv)
{
	return _mm512_mul_ps(_mm512_sub_ps(_mm512_mul_ps(x, pre), lo), inv);
}

/* floor(t + rnd·2^-16), at most `most` */
static inline __m512i stochastic(__m512 t, const uint16_t *rnd, __m512i most)
{
	__m512i word = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)rnd));
	__m512 u = _mm512_mul_ps(_mm512_cvtepi32_ps(word), _mm512_set1_ps(0x1p-16f));

	return _mm512_min_epu32(_mm512_cvttps_epi32(_mm512_add_ps(t, u)), most);
}

static inline void store(uint16_t *code, __m512i v)
{
	_mm256_storeu_si256((void *)code, _mm512_cvtepi32_epi16(v));
}

static inline __m512i load(const uint16_t *code)
{
	return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)code));
}

static inline __m512 restore(__m512i code, __m512 lo, __m512 step, __m512 post, __m512 max)
{
	__m512 v = _mm512_add_ps(lo, _mm512_mul_ps(_mm512_cvtepi32_ps(code), step));

	return _mm512_min_ps(_mm512_mul_ps(v, post), max);
}

void sl_avx512_quantize(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, uint16_t most,
			uint16_t *code)
{
	const struct affine16 k = spread(a);
	const __m512i top = _mm512_set1_epi32(most);
	int64_t i = 0;

	if (rnd == NULL) {
		for (; i + 16 <= n; i += 16)
			store(code + i, _mm512_cvtps_epi32(position(_mm512_loadu_ps(x + i), k.pre, k.lo, k.inv)));
	} else {
		for (; i + 16 <= n; i += 16)
			store(code + i, stochastic(position(_mm512_loadu_ps(x + i), k.pre, k.lo, k.inv), rnd + i, top));
	}
	sl_c_quantize(x + i, n - i, a, rnd == NULL ? NULL : rnd + i, most, code + i);
}

/* The functions that restore exist twice: storing, and streaming (see put16). `stream` is a constant. */
static inline __attribute__((always_inline)) void dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a,
							     float *x, bool stream)
{
	const struct affine16 k = spread(a);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		put16(x + i, restore(load(code + i), k.lo, k.step, k.post, k.max), stream);
	sl_c_dequantize(code + i, n - i, a, x + i);
}

void sl_avx512_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x)
{
	dequantize(code, n, a, x, false);
}

void sl_avx512_stream_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x)
{
	if (can_stream(x))
		dequantize(code, n, a, x, true);
	else
		dequantize(code, n, a, x, false);
}

void sl_avx512_quantize_cols(const float *x, int64_t n, const float *a, int64_t stride, const uint16_t *rnd,
			     uint16_t most, uint16_t *code)
{
	const __m512i top = _mm512_set1_epi32(most);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		const float *k = a + i;
		__m512 t = position(_mm512_loadu_ps(x + i), _mm512_loadu_ps(k), _mm512_loadu_ps(k + stride),
				    _mm512_loadu_ps(k + 2 * stride));

		store(code + i, rnd == NULL ? _mm512_cvtps_epi32(t) : stochastic(t, rnd + i, top));
	}
	sl_c_quantize_cols(x + i, n - i, a + i, stride, rnd == NULL ? NULL : rnd + i, most, code + i);
}

void sl_avx512_dequantize_cols(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		const float *k = a + i;

		_mm512_storeu_ps(x + i,
				 restore(load(code + i), _mm512_loadu_ps(k + stride), _mm512_loadu_ps(k + 3 * stride),
					 _mm512_loadu_ps(k + 4 * stride), _mm512_loadu_ps(k + 5 * stride)));
	}
	sl_c_dequantize_cols(code + i, n - i, a + i, stride, x + i);
}

void sl_avx512_levels(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, int bits, uint16_t q,
		      uint16_t *code)
{
	const struct affine16 k = spread(a);
	const __m512i most = _mm512_set1_epi32(q), sign = _mm512_set1_epi32(1 << bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		__m512 t = _mm512_mul_ps(_mm512_mul_ps(_mm512_castsi512_ps(magnitude16(v)), k.pre), k.inv);
		__m512i level = stochastic(t, rnd + i, most);
		__mmask16 negative = _mm512_mask_test_epi32_mask(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ),
								 level, level);

		store(code + i, _mm512_mask_or_epi32(level, negative, level, sign));
	}
	sl_c_levels(x + i, n - i, a, rnd + i, bits, q, code + i);
}

static inline __attribute__((always_inline)) void unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a,
							   int bits, float *x, bool stream)
{
	const struct affine16 k = spread(a);
	const __m512i mask = _mm512_set1_epi32((1 << bits) - 1), sign = _mm512_set1_epi32((int)0x80000000u);
	const __m128i up = _mm_cvtsi32_si128(31 - bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i c = load(code + i);
		__m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_and_si512(c, mask)), k.step);

		v = _mm512_min_ps(_mm512_mul_ps(v, k.post), k.max);
		/* v ^ ((c << up) & sign) */
		v = _mm512_castsi512_ps(
			_mm512_ternarylogic_epi32(_mm512_castps_si512(v), _mm512_sll_epi32(c, up), sign, 0x78));
		put16(x + i, v, stream);
	}
	sl_c_unlevels(code + i, n - i, a, bits, x + i);
}

void sl_avx512_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x)
{
	unlevels(code, n, a, bits, x, false);
}

void sl_avx512_stream_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x)
{
	if (can_stream(x))
		unlevels(code, n, a, bits, x, true);
	else
		unlevels(code, n, a, bits, x, false);
}

enum { MOST_BUCKETS = 16, MOST_EDGES = 8 /* whose sums fit in registers */ };

/* Edges from … from+edges-1. `edges` and `ties` are constants at every call. */
static inline __attribute__((always_inline)) void edge_stats(const float *x, int64_t n, const struct sl_buckets *b,
							     struct sl_bucket_stats *io, int from, int edges, bool ties)
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

/* Edges for the bisection: the one in the middle, those in the middle of the halves, and then, for bucket k so far, the
 * one that lies `step` further on: at lane k of a table. */
struct edges16 {
	__m512 middle, low, high, by2, by1;
};

/* Lane k: edge k + step. Where k may not go on, what it wraps to is not used. */
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

/* Number of edges that are ≤ v. `count` is a constant. */
static inline __attribute__((always_inline)) __m512i bucket_of(__m512 v, const struct edges16 *e, int count)
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

/* Raises most[] to what passes it in 64 elements, one by one: rare. */
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

/* The buckets of 64 elements, a byte each and in no order; *above where one passes what its bucket has reached. */
static inline __m512i numbers_of(const float *x, const struct edges16 *edges, __m512 reached, bool *above)
{
	__m512i k[4], pairs[2];
	__mmask16 up[4];

	for (int h = 0; h < 4; h++) {
		__m512 v = _mm512_loadu_ps(x + 16 * h);

		/* of the next tile, whose range is taken first */
		_mm_prefetch((const char *)(x + 16 * h + SL_CODEC_TILE), _MM_HINT_T0);
		k[h] = bucket_of(v, edges, MOST_BUCKETS);
		up[h] = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(k[h], reached), _CMP_GT_OQ);
	}
	pairs[0] = _mm512_or_si512(k[0], _mm512_slli_epi32(k[1], 8));
	pairs[1] = _mm512_or_si512(k[2], _mm512_slli_epi32(k[3], 8));
	*above = !_kortestz_mask16_u8(_kor_mask16(up[0], up[1]), _kor_mask16(up[2], up[3]));
	return _mm512_or_si512(pairs[0], _mm512_slli_epi32(pairs[1], 16));
}

/* For k = 1 … 15, from[k] += how many of 64·groups bucket numbers are k or more. A number looks up eight bytes, each
 * with two of the answers in its halves; sums of MOST_GROUPS of them stay within the halves. */
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

/* All edges without ties, where they are 15: n a multiple of 64 and at most SL_CODEC_TILE. The bucket of each element
 * tells on which side of every edge it is. */
static void bucket_counts(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io)
{
	const struct edges16 edges = edges_of(b);
	__m512i number[GROUPS];
	int64_t from[MOST_BUCKETS + 1] = {0};
	float most[MOST_BUCKETS];
	__m512 reached;

	/* most[k]: largest element of bucket k that matters, one above what is known to lie below its upper edge */
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

static inline __attribute__((always_inline)) void bucket_stats(const float *x, int64_t n, const struct sl_buckets *b,
							       struct sl_bucket_stats *io, bool ties)
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

void sl_avx512_bucket_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io)
{
	int64_t whole = n & ~(int64_t)(GROUP - 1);

	for (int64_t i = 0; i < whole; i += SL_CODEC_TILE) {
		int64_t some = whole - i < SL_CODEC_TILE ? whole - i : SL_CODEC_TILE;

		sl_avx512_minmax(x + i, some, &io->range);
		if (b->ties)
			bucket_stats(x + i, some, b, io, true);
		else
			bucket_stats(x + i, some, b, io, false);
	}
	sl_c_bucket_stats(x + whole, n - whole, b, io);
}

/* The low halves of 32 words, in order. */
static inline void store_pair(uint16_t *code, __m512i low, __m512i high, __m512i order)
{
	_mm512_storeu_si512(code, _mm512_permutex2var_epi16(low, order, high));
}

/* `scaled`, a constant: some `pre` is not 1. */
static inline __attribute__((always_inline)) void bucketize(const float *x, int64_t n, const struct sl_buckets *b,
							    uint16_t *code, int count, bool scaled)
{
	const __m512 pre = _mm512_loadu_ps(b->pre), lo = _mm512_loadu_ps(b->lo), inv = _mm512_loadu_ps(b->inv);
	const struct edges16 edges = edges_of(b);
	const __m128i up = _mm_cvtsi32_si128(b->code_bits);
	__m512i order = _mm512_setzero_si512();

	for (int i = 0; i < 32; i++)
		order = _mm512_mask_set1_epi16(order, (__mmask32)1 << i, (int16_t)(2 * i));
	/* two at a time: the steps of one bisection wait for each other */
	for (int64_t i = 0; i < n; i += 2 * 16) {
		__m512 v[2];
		__m512i k[2];

		for (int h = 0; h < 2; h++) {
			v[h] = _mm512_loadu_ps(x + i + 16 * h);
			ask_ahead(x + i + 16 * h);
			k[h] = bucket_of(v[h], &edges, count);
		}
		for (int h = 0; h < 2; h++) {
			__m512 t = scaled ? _mm512_mul_ps(v[h], _mm512_permutexvar_ps(k[h], pre)) : v[h];

			t = _mm512_sub_ps(t, _mm512_permutexvar_ps(k[h], lo));
			t = _mm512_mul_ps(t, _mm512_permutexvar_ps(k[h], inv));
			k[h] = _mm512_or_si512(_mm512_sll_epi32(k[h], up), _mm512_cvtps_epi32(t));
		}
		store_pair(code + i, k[0], k[1], order);
	}
}

static inline __attribute__((always_inline)) void bucketize_any(const float *x, int64_t n, const struct sl_buckets *b,
								uint16_t *code, bool scaled)
{
	switch (b->count) {
	case 2:
		bucketize(x, n, b, code, 2, scaled);
		break;
	case 4:
		bucketize(x, n, b, code, 4, scaled);
		break;
	case 8:
		bucketize(x, n, b, code, 8, scaled);
		break;
	default:
		bucketize(x, n, b, code, 16, scaled);
		break;
	}
}

void sl_avx512_bucketize(const float *x, int64_t n, const struct sl_buckets *b, uint16_t *code)
{
	int64_t whole = n & ~(int64_t)31;
	bool scaled = false;

	for (int k = 0; k < b->count; k++)
		scaled = scaled || b->pre[k] != 1;
	if (scaled)
		bucketize_any(x, whole, b, code, true);
	else
		bucketize_any(x, whole, b, code, false);
	sl_c_bucketize(x + whole, n - whole, b, code + whole);
}

static inline __attribute__((always_inline)) void unbucketize(const uint16_t *code, int64_t n,
							      const struct sl_buckets *b, float *x, bool stream)
{
	const __m512 lo = _mm512_loadu_ps(b->lo), step = _mm512_loadu_ps(b->step);
	const __m512 post = _mm512_loadu_ps(b->post), max = _mm512_loadu_ps(b->max);
	const __m512i mask = _mm512_set1_epi32((1 << b->code_bits) - 1);
	const __m128i down = _mm_cvtsi32_si128(b->code_bits);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i c = load(code + i), k = _mm512_srl_epi32(c, down);

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

void sl_avx512_settle(void)
{
	_mm_sfence();
}
