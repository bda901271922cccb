/* sortquant:b+s — the values in sorted order are cut into 2^s buckets of equal count (to 1 % of n, equal values
 * aside). Each bucket has uniform codes of b bits between its own least and largest value, rounded as quant does.
 *
 * Edges come from a sorted sample. One scan counts what lies below each edge. An edge that is off is moved to where
 * the counts say, or found exactly. Tensors of up to SL_SAMPLE elements are their own sample.
 *
 * Payload: for every bucket {f32 min, f32 max}, then per element the code and above it the bucket, b + s bits,
 * packed: 8 · 2^s + ⌈n·(b+s)/8⌉ bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/places.h"
#include "common/codec/select.h"

enum { BITS, SPLIT, ROUND };
enum { ROUND_NEAREST, ROUND_STOCHASTIC };
enum { RANGE_BYTES = 8, MOST_BUCKETS = 16, TRIES = 3, BINS = 2048 };

static const char *const round_words[] = {"nearest", "stochastic", NULL};

static const struct sl_arg args[] = {
	{.key = "bits", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 15},
	{.key = "split", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 4},
	{.key = "round", .type = SL_ARG_CHOICE, .choices = round_words},
	{0},
};

struct sortquant {
	struct sl_stage_env env;
	struct sl_buckets buckets;
	struct sl_bucket_stats *stats; /* [blocks] */
	struct sl_bucket_stats sum;
	float known_below[MOST_BUCKETS]; /* largest sample below each edge, or -Inf: initial max_below of a block */
	uint32_t *sample, *scratch;      /* [SL_SAMPLE] */
	uint32_t *bins;                  /* [threads][BINS] */
	uint32_t lo, hi;                 /* range of keys of a histogram */
	int shift;
	/* of the running call */
	struct sl_rng_key key;
	int64_t n;
	const float *x;
	float *y;
	uint8_t *out;
	const uint8_t *in;
};

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (arg[BITS] + arg[SPLIT] > 16)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: sortquant:b+s with b + s at most 16, got '%g+%g'",
				   arg[BITS], arg[SPLIT]);
	return SL_OK;
}

/* As in quant, with the range of a bucket. */
static bool contracts(const double *arg, const struct sl_extent *in)
{
	return arg[ROUND] == ROUND_NEAREST || arg[BITS] > 1;
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)(RANGE_BYTES << (int)arg[SPLIT]) +
	       (size_t)sl_packed_bytes(sl_shape_count(&in->shape), (int)(arg[BITS] + arg[SPLIT]));
}

static double nominal(const double *arg, const struct sl_extent *in)
{
	return (double)sl_shape_count(&in->shape) * (arg[BITS] + arg[SPLIT]) / 8;
}

static void close_sortquant(void *state)
{
	struct sortquant *q = state;

	free(q->stats);
	free(q->sample);
	free(q->scratch);
	free(q->bins);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sortquant *q = NULL;

	sl_need(&need->host, sl_codec_blocks(sl_shape_count(&env->most.shape)) + 1, sizeof *q->stats);
	sl_need(&need->host, SL_SAMPLE, sizeof *q->sample + sizeof *q->scratch);
	sl_need(&need->host, sl_stage_threads(env), BINS * sizeof *q->bins);
}

static enum sl_err open_sortquant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	int64_t n = sl_shape_count(&env->most.shape);
	struct sortquant *q = *state;

	q->env = *env;
	q->buckets.count = 1 << (int)env->arg[SPLIT];
	q->buckets.code_bits = (int)env->arg[BITS];
	q->stats = calloc((size_t)sl_codec_blocks(n) + 1, sizeof *q->stats);
	q->sample = malloc(SL_SAMPLE * sizeof *q->sample);
	q->scratch = malloc(SL_SAMPLE * sizeof *q->scratch);
	q->bins = malloc(threads * BINS * sizeof *q->bins);
	if (q->stats == NULL || q->sample == NULL || q->scratch == NULL || q->bins == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "sortquant: no memory for %lld elements", (long long)n);
	return SL_OK;
}

/* ---- edges. Keys: unsigned integers in the order of the floats. */

static uint32_t key_of(uint32_t bits)
{
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float value_of(uint32_t key)
{
	uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
	float v;

	memcpy(&v, &bits, sizeof v);
	return v + 0.0f;
}

static void stats_block(void *arg, int64_t block, int worker)
{
	struct sortquant *q = arg;
	struct sl_bucket_stats *s = &q->stats[block];

	*s = (struct sl_bucket_stats){.range = SL_RANGE_EMPTY};
	memcpy(s->max_below, q->known_below, sizeof s->max_below);
	q->env.loops->bucket_stats(q->x + block * SL_CODEC_BLOCK, sl_block_length(q->n, block), &q->buckets, s);
}

/* The largest sample below an edge. If a block's maximum starts from it, few elements raise that. */
static float known_below(const struct sortquant *q, float edge, int64_t samples)
{
	int64_t low = 0, high = samples;

	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (value_of(q->sample[middle]) < edge)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? -INFINITY : value_of(q->sample[low - 1]);
}

static enum sl_err measure(struct sortquant *q, int64_t samples)
{
	int64_t blocks = sl_codec_blocks(q->n);
	struct sl_bucket_stats *sum = &q->sum;

	for (int k = 0; k < MOST_BUCKETS; k++)
		q->known_below[k] =
			k == 0 || k >= q->buckets.count ? -INFINITY : known_below(q, q->buckets.edge[k], samples);

	sl_pool_run(q->env.pool, blocks, stats_block, q);
	*sum = q->stats[0];
	for (int64_t b = 1; b < blocks; b++) {
		const struct sl_bucket_stats *s = &q->stats[b];

		for (int k = 1; k < q->buckets.count; k++) {
			sum->below[k] += s->below[k];
			sum->upto[k] += s->upto[k];
			sum->max_below[k] = fmaxf(sum->max_below[k], s->max_below[k]);
		}
		sum->range.min = fminf(sum->range.min, s->range.min);
		sum->range.max = fmaxf(sum->range.max, s->range.max);
		sum->range.top = s->range.top > sum->range.top ? s->range.top : sum->range.top;
	}
	return sum->range.top >= SL_F32_INF_BITS ? SL_ERR_NONFINITE : SL_OK;
}

static int64_t target(const struct sortquant *q, int k)
{
	return q->n * k / q->buckets.count;
}

/* Whether as many elements are below edge k as should be, within 1 % of n; values equal to the edge may count on
 * either side. */
static bool balanced(const struct sortquant *q, int k)
{
	int64_t slack = q->n / 100;

	int64_t upto = q->buckets.ties ? q->sum.upto[k] : q->sum.below[k];

	return q->sum.below[k] <= target(q, k) + slack && upto >= target(q, k) - slack;
}

/* Moves each edge that is off to where its target lies by the counts of the last scan, interpolating sample ranks
 * linearly between neighbouring edges. */
static void move_edges(struct sortquant *q, int64_t *rank, int64_t samples)
{
	int count = q->buckets.count;
	int64_t known_rank[MOST_BUCKETS + 1], known_below[MOST_BUCKETS + 1];

	for (int k = 0; k <= count; k++) {
		known_rank[k] = k == 0 ? 0 : k == count ? samples : rank[k];
		known_below[k] = k == 0 ? 0 : k == count ? q->n : q->sum.below[k];
	}
	for (int k = 1; k < count; k++) {
		int at = 0;
		double part;

		if (balanced(q, k))
			continue;
		while (at < count - 1 && known_below[at + 1] <= target(q, k))
			at++;
		part = (double)(target(q, k) - known_below[at]) /
		       fmax(1, (double)(known_below[at + 1] - known_below[at]));
		rank[k] = known_rank[at] + (int64_t)(part * (double)(known_rank[at + 1] - known_rank[at]));
		rank[k] = rank[k] < 0 ? 0 : rank[k] >= samples ? samples - 1 : rank[k];
	}
	/* Interpolation can pass an edge that stays, if many elements equal it. The loops need ascending edges:
	 * otherwise loops that bisect would count other elements than loops that compare with every edge. */
	for (int k = count - 2; k > 0; k--)
		rank[k] = rank[k] < rank[k + 1] ? rank[k] : rank[k + 1];
	for (int k = 1; k < count; k++)
		q->buckets.edge[k] = value_of(q->sample[rank[k]]);
}

static void count_block(void *arg, int64_t block, int worker)
{
	struct sortquant *q = arg;
	const float *x = q->x + block * SL_CODEC_BLOCK;
	uint32_t *bins = q->bins + (size_t)worker * BINS;
	int64_t len = sl_block_length(q->n, block);

	for (int64_t i = 0; i < len; i++) {
		float v = x[i] + 0.0f;
		uint32_t bits, key;

		memcpy(&bits, &v, sizeof bits);
		key = key_of(bits) - q->lo;
		if (key < q->hi - q->lo)
			bins[key >> q->shift]++;
	}
}

/* Finds the element of this rank (0: the least) by histograms of keys. */
static float exact_rank(struct sortquant *q, int64_t rank)
{
	int threads = q->env.pool == NULL ? 1 : sl_pool_threads(q->env.pool);

	q->lo = key_of(0xff800000u);
	q->hi = key_of(SL_F32_INF_BITS);
	while (q->hi - q->lo > 1) {
		int bin = 0;

		q->shift = 0;
		while ((q->hi - q->lo - 1) >> q->shift >= BINS)
			q->shift++;
		memset(q->bins, 0, (size_t)threads * BINS * sizeof *q->bins);
		sl_pool_run(q->env.pool, sl_codec_blocks(q->n), count_block, q);
		for (int t = 1; t < threads; t++) {
			for (int b = 0; b < BINS; b++)
				q->bins[b] += q->bins[t * BINS + b];
		}
		while (bin < BINS - 1 && rank >= q->bins[bin])
			rank -= q->bins[bin++];
		q->lo += (uint32_t)bin << q->shift;
		q->hi = q->hi - q->lo > 1u << q->shift ? q->lo + (1u << q->shift) : q->hi;
	}
	return value_of(q->lo);
}

static enum sl_err find_edges(struct sortquant *q)
{
	int64_t samples = q->n < SL_SAMPLE ? q->n : SL_SAMPLE, rank[MOST_BUCKETS];
	struct sl_buckets *b = &q->buckets;
	enum sl_err err;

	if (q->n <= SL_SAMPLE)
		memcpy(q->sample, q->x, (size_t)q->n * sizeof *q->x);
	else
		sl_sample(q->x, q->n, true, q->sample);
	for (int64_t i = 0; i < samples; i++)
		q->sample[i] = key_of(q->sample[i]);
	sl_radix_sort(q->sample, q->scratch, samples);
	for (int k = 0; k < MOST_BUCKETS; k++) {
		rank[k] = samples * k / b->count;
		b->edge[k] = k == 0 ? -INFINITY : k < b->count ? value_of(q->sample[rank[k]]) : INFINITY;
	}
	/* if the sample has an edge twice, many elements may be equal to it */
	b->ties = q->n <= SL_SAMPLE;
	for (int k = 1; k < b->count; k++) {
		b->ties = b->ties || (rank[k] > 0 && q->sample[rank[k] - 1] == q->sample[rank[k]]) ||
			  (rank[k] + 1 < samples && q->sample[rank[k] + 1] == q->sample[rank[k]]);
	}
	for (int tries = 0;; tries++) {
		bool all = true;

		err = measure(q, samples);
		if (err)
			return err;
		for (int k = 1; k < b->count; k++)
			all = all && balanced(q, k);
		if (all)
			return SL_OK;
		if (tries < TRIES) {
			/* moved by the counts of this scan, which may lack ties; the next scan counts them */
			move_edges(q, rank, samples);
			b->ties = true;
			continue;
		}
		for (int k = 1; k < b->count; k++)
			b->edge[k] = exact_rank(q, target(q, k));
		return measure(q, samples);
	}
}

static void set_bucket(struct sl_buckets *b, int k, float min, float max)
{
	struct sl_affine a = sl_affine_of(min, max, (1 << b->code_bits) - 1);

	b->pre[k] = a.pre;
	b->lo[k] = a.lo;
	b->inv[k] = a.inv;
	b->step[k] = a.step;
	b->post[k] = a.post;
	b->max[k] = a.max;
}

/* ---- codes */

static void code_block(void *arg, int64_t block, int worker)
{
	const struct sortquant *q = arg;
	const struct sl_codec_loops *loops = q->env.loops;
	int bits = q->buckets.code_bits + __builtin_ctz((unsigned)q->buckets.count);
	int64_t first = block * SL_CODEC_BLOCK, stop = first + sl_block_length(q->n, block);
	const bool stochastic = q->env.arg[ROUND] == ROUND_STOCHASTIC;
	uint16_t code[SL_CODEC_TILE];
	uint32_t rnd[SL_CODEC_TILE];

	for (; first < stop; first += SL_CODEC_TILE) {
		int64_t n = stop - first < SL_CODEC_TILE ? stop - first : SL_CODEC_TILE;

		if (q->out != NULL) {
			if (stochastic)
				loops->random_halves(&q->key, (uint64_t)first, n, rnd);
			loops->bucketize(q->x + first, n, &q->buckets, stochastic ? rnd : NULL, code);
			loops->pack(code, n, bits, q->out + first * bits / 8);
		} else {
			loops->unpack(q->in + first * bits / 8, n, bits, code);
			loops->unbucketize(code, n, &q->buckets, q->y + first);
		}
	}
	sl_codec_settle(loops);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct sortquant *q = state;
	int count = q->buckets.count;
	uint8_t *ranges = out->data + out->len;
	size_t bytes = bound(q->env.arg, false, xs);

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	q->n = sl_shape_count(&xs->shape);
	q->x = x;
	q->key = sl_codec_key(q->env.seed, q->env.dir, call, SL_STAGE_QUANTIZER);
	q->out = ranges + count * RANGE_BYTES;
	if (q->n > 0) {
		enum sl_err err = find_edges(q);

		if (err)
			return err;
	}
	for (int k = 0; k < count; k++) {
		float min = 0, max = 0;

		if (q->n > 0) {
			min = k == 0 ? q->sum.range.min : q->buckets.edge[k];
			max = k == count - 1 ? q->sum.range.max : q->sum.max_below[k + 1];
			/* an empty bucket: nothing lies between two equal edges, or below the first one */
			max = max < min ? min : max;
		}
		memcpy(ranges + k * RANGE_BYTES, &min, 4);
		memcpy(ranges + k * RANGE_BYTES + 4, &max, 4);
		set_bucket(&q->buckets, k, min, max);
	}
	sl_pool_run(q->env.pool, sl_codec_blocks(q->n), code_block, q);
	out->len += bytes;
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct sortquant *q = state;
	int bits = (int)(q->env.arg[BITS] + q->env.arg[SPLIT]);
	int used = (int)(sl_shape_count(&xs->shape) * bits % 8);
	size_t bytes = bound(q->env.arg, false, xs);

	if (in.len != bytes)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: %zu bytes, expected %zu", in.len, bytes);
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: bits are set behind the last code");
	for (int k = 0; k < q->buckets.count; k++) {
		float range[2];

		memcpy(range, in.data + k * RANGE_BYTES, sizeof range);
		if (!isfinite(range[0]) || !isfinite(range[1]) || range[0] > range[1])
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: range %g to %g of bucket %d",
					   (double)range[0], (double)range[1], k);
		set_bucket(&q->buckets, k, range[0], range[1]);
	}
	q->n = sl_shape_count(&xs->shape);
	q->y = x;
	q->in = in.data + q->buckets.count * RANGE_BYTES;
	q->out = NULL;
	sl_pool_run(q->env.pool, sl_codec_blocks(q->n), code_block, q);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_sortquant = {
	.id = SL_STAGE_ID_SORTQUANT,
	.kind = SL_STAGE_QUANTIZER,
	.name = "sortquant",
	.usage = "sortquant:b+s with s = 1…4 and b + s at most 16, such as sortquant:6+2; option "
		 "round=nearest|stochastic",
	.args = args,
	.check = check,
	.contracts = contracts,
	.instead = ", or write sortquant:2+1 or more bits",
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct sortquant),
	.memory = memory,
	.open = open_sortquant,
	.close = close_sortquant,
	.encode = encode,
	.decode = decode,
};
