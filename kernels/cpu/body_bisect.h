/* sortquant's loops over whole registers, for a file of one SIMD level without mask registers. Buckets
 * are found by bisection. Values by bucket come from tables in registers. This file defines
 * `tile_stats` and `bucketize` for body_buckets.h, and includes that file at its end.
 *
 * The including file includes its codec_vec_*.h before, and defines NAME. It also defines:
 *   struct table16: 16 values. table_of(value): the table of an array.
 *   pick(t, k, count): in each lane, value k of the table. k is below `count`, which is a constant.
 *   vec_max, vec_min, vec_of_ivec: vec_min(a, b) is a < b ? a : b.
 *   vec_lt, vec_le, vec_ge; ivec_lt, of values below 2^31: masks, each an ivec. vec_choose(mask, yes, no).
 *   vec_most, ivec_sum: over all lanes.
 *   ivec_add, ivec_sub, ivec_and, ivec_or, ivec_min: of two vectors.
 *   ivec_up(v, bits), ivec_down(v, bits): shifts.
 *   ivec_round, ivec_trunc: of a vec.
 *   ivec_load(p): LANES words.
 *   ivec_of_codes(p), ivec_to_codes(p, v): LANES codes of 16 bits. */

/* The bucket of each element by bisection: the edge in the middle first, then those in the middle of the halves.
 * `count` is a constant. */
INLINE ivec bucket_of(vec v, const struct table16 *edge, vec middle, int count)
{
	ivec k = ivec_and(vec_ge(v, middle), ivec_set1(count / 2));

	for (int half = count / 4; half > 0; half /= 2) {
		const vec e = pick(edge, ivec_add(k, ivec_set1(half)), count);

		k = ivec_add(k, ivec_and(vec_ge(v, e), ivec_set1(half)));
	}
	return k;
}

/* stochastic of common/codec/body_codes.h */
static inline ivec stochastic(vec t, const uint32_t *rnd, ivec most)
{
	const ivec below = ivec_trunc(t), u = ivec_down(ivec_load(rnd), 1);
	const ivec chance = ivec_trunc(vec_mul(vec_sub(t, vec_of_ivec(below)), vec_set1(0x1p31f)));

	return ivec_min(ivec_sub(below, ivec_lt(u, chance)), most); /* a true lane is -1 */
}

INLINE void bucketize(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code,
		      int count, bool scaled)
{
	const struct table16 edge = table_of(b->edge), pre = table_of(b->pre), lo = table_of(b->lo),
			     inv = table_of(b->inv);
	const vec middle = vec_set1(b->edge[count / 2]);
	const int bits = b->code_bits; /* a local copy: each store may alias b->code_bits, which would be reloaded */
	const ivec most = ivec_set1((1 << bits) - 1);

	for (int64_t i = 0; i < n; i += LANES) {
		const vec v = vec_load(x + i);
		const ivec k = bucket_of(v, &edge, middle, count);
		vec t = scaled ? vec_mul(v, pick(&pre, k, count)) : v;

		t = vec_mul(vec_sub(t, pick(&lo, k, count)), pick(&inv, k, count));
		ivec_to_codes(code + i, ivec_or(ivec_up(k, bits), rnd ? stochastic(t, rnd + i, most) : ivec_round(t)));
	}
}

/* Statistics of edges from … from+edges-1, at most 4. `edges` and `ties` are constants at every call. */
INLINE void edge_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, int from,
		       int edges, bool ties)
{
	ivec below[4], upto[4];
	vec most[4];

	for (int k = 0; k < edges; k++) {
		below[k] = upto[k] = ivec_zero();
		most[k] = vec_set1(io->max_below[from + k]);
	}
	for (int64_t i = 0; i < n; i += LANES) {
		const vec v = vec_load(x + i);

		for (int k = 0; k < edges; k++) {
			const vec edge = vec_set1(b->edge[from + k]);
			const ivec less = vec_lt(v, edge);

			below[k] = ivec_sub(below[k], less);
			if (ties)
				upto[k] = ivec_sub(upto[k], vec_le(v, edge));
			most[k] = vec_max(vec_choose(less, v, most[k]), most[k]);
		}
	}
	for (int k = 0; k < edges; k++) {
		io->below[from + k] += ivec_sum(below[k]);
		io->upto[from + k] += ivec_sum(upto[k]);
		io->max_below[from + k] = vec_most(most[k]) + 0.0f;
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

INLINE void unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x, int count)
{
	const struct table16 lo = table_of(b->lo), step = table_of(b->step), post = table_of(b->post),
			     max = table_of(b->max);
	const int bits = b->code_bits;
	const ivec mask = ivec_set1((1 << bits) - 1);

	for (int64_t i = 0; i < n; i += LANES) {
		const ivec c = ivec_of_codes(code + i), k = ivec_down(c, bits);
		const vec most = pick(&max, k, count);
		vec v = vec_mul(vec_of_ivec(ivec_and(c, mask)), pick(&step, k, count));

		v = vec_mul(vec_add(pick(&lo, k, count), v), pick(&post, k, count));
		vec_store(x + i, vec_min(v, most));
	}
}

void NAME(unbucketize)(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	int64_t whole = n & ~(int64_t)(LANES - 1);

	if (b->count > 8)
		unbucketize(code, whole, b, x, 16);
	else if (b->count > 4)
		unbucketize(code, whole, b, x, 8);
	else
		unbucketize(code, whole, b, x, 4);
	sl_c_unbucketize(code + whole, n - whole, b, x + whole);
}

enum { STATS_AT_ONCE = LANES, CODES_AT_ONCE = LANES };
#include "kernels/cpu/body_buckets.h"
