/* normal:b — codes of b bits for values that are distributed normally about 0, as a token's values are after
 * hadamard. Every token, a run of the last dimension, is divided by its root mean square, the scale. The 2^b levels
 * are those with the least mean square error on N(0, 1) (Lloyd, "Least squares quantization in PCM", 1982; Max,
 * 1960).
 *
 * Payload: for every token f32 scale; then the codes, packed: 4 · tokens + ⌈n·b/8⌉ bytes. The scale is the square
 * root of the mean of squares, in double, rounded once. A code is the number of edges ≤ x; the edge between levels k
 * - 1 and k is edge[k] · scale. x' = level[code] · scale. Products are in fp32, clamped to the largest float. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pieces.h"
#include "common/base/pool.h"
#include "common/base/worker.h"
#include "common/codec/sized.h"

enum { BITS };
enum { SCALE_BYTES = 4, MOST_BITS = 4, HALF = 8 };

static const struct sl_arg args[] = {
	{.key = "bits", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = MOST_BITS},
	{0},
};

/* The levels above 0, by bits - 1; those below are their negatives. Edges are halfway between levels. */
static const double positive[MOST_BITS][HALF] = {
	{0.797884561},
	{0.452780035, 1.510417608},
	{0.245094179, 0.756005281, 1.343909279, 2.151945705},
	{0.128395030, 0.388048299, 0.656759119, 0.942340456, 1.256231197, 1.618046386, 2.069017227, 2.732589571},
};

struct normal {
	struct sl_stage_env env;
	int bits, levels;
	float level[2 * HALF], edge[2 * HALF]; /* edge[0] is not used */
	float *scale;                          /* [tokens] */
	/* of the running call */
	int64_t n, features, tokens;
	const float *x;
	float *y;
	uint8_t *out;
	const uint8_t *in;
	atomic_bool nonfinite;
};

static int64_t features_of(const struct sl_extent *e)
{
	return e->shape.dim[e->shape.ndim - 1];
}

static int64_t tokens_of(const struct sl_extent *e)
{
	const int64_t features = features_of(e);

	return features ? sl_shape_count(&e->shape) / features : 0;
}

/* The worst token of n features has a single value v that is not 0. Its scale is v/√n: v becomes top · v/√n, and each 0
 * the least level in magnitude. So it loses (1 - top/√n)² + least² of its squares. With 3 bits that is less than all of
 * them up to 4,900 features, with 4 bits up to 100,000. */
static bool contracts(const double *arg, const struct sl_extent *in)
{
	return arg[BITS] > 2 && features_of(in) <= (arg[BITS] > 3 ? 100000 : 4900);
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)(tokens_of(in) * SCALE_BYTES + sl_packed_bytes(sl_shape_count(&in->shape), (int)arg[BITS]));
}

static double nominal(const double *arg, const struct sl_extent *in)
{
	return (double)sl_shape_count(&in->shape) * arg[BITS] / 8;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	sl_need(&need->host, (uint64_t)tokens_of(&env->most) + 1, sizeof(float));
}

static void set_levels(struct normal *q)
{
	const int half = q->levels / 2;

	for (int k = 0; k < half; k++) {
		q->level[half + k] = (float)positive[q->bits - 1][k];
		q->level[half - 1 - k] = -q->level[half + k];
	}
	for (int k = 1; k < half; k++) {
		q->edge[half + k] = (float)((positive[q->bits - 1][k - 1] + positive[q->bits - 1][k]) / 2);
		q->edge[half - k] = -q->edge[half + k];
	}
}

static void close_normal(void *state)
{
	struct normal *q = state;

	free(q->scale);
}

static enum sl_err open_normal(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct normal *q = *state;

	q->scale = malloc(((size_t)tokens_of(&env->most) + 1) * sizeof *q->scale);
	if (q->scale == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "normal: no memory");
	q->env = *env;
	q->bits = (int)env->arg[BITS];
	q->levels = 1 << q->bits;
	set_levels(q);
	return SL_OK;
}

static void set_call(struct normal *q, const struct sl_extent *xs)
{
	q->n = sl_shape_count(&xs->shape);
	q->features = features_of(xs);
	q->tokens = tokens_of(xs);
}

/* How many tokens are one unit of work when scales are computed. */
static int64_t unit_of(const struct normal *q)
{
	return q->features && q->features < SL_CODEC_BLOCK ? SL_CODEC_BLOCK / q->features : 1;
}

/* Each token is summed from its own first value, so that its sum does not depend on where it lies. */
static void measure_unit(void *arg, int64_t unit, int worker)
{
	struct normal *q = arg;
	const int64_t end = (unit + 1) * unit_of(q) < q->tokens ? (unit + 1) * unit_of(q) : q->tokens;

	for (int64_t t = unit * unit_of(q); t < end; t++) {
		uint32_t top = 0;
		double sum = 0;

		for (int64_t at = 0; at < q->features; at += SL_CODEC_BLOCK) {
			const int64_t left = q->features - at;

			sum += q->env.loops->sum_squares(q->x + t * q->features + at,
							 left < SL_CODEC_BLOCK ? left : SL_CODEC_BLOCK, &top);
		}
		if (top >= SL_F32_INF_BITS)
			atomic_store_explicit(&q->nonfinite, true, memory_order_relaxed);
		q->scale[t] = (float)sqrt(sum / (double)q->features);
	}
}

static float held(float v)
{
	return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
}

/* Sets the levels or edges of a token, in the form that sortquant's loops take: buckets with codes of 0 bits. */
static void set_token(const struct normal *q, struct sl_buckets *b, float scale, bool encodes)
{
	for (int k = 0; k < q->levels; k++) {
		b->edge[k] = encodes ? q->edge[k] * scale : INFINITY;
		b->lo[k] = encodes ? 0 : held(q->level[k] * scale);
	}
}

static void open_buckets(const struct normal *q, struct sl_buckets *b)
{
	*b = (struct sl_buckets){.count = q->levels};
	for (int k = 0; k < 2 * HALF; k++) {
		b->edge[k] = INFINITY;
		b->pre[k] = b->post[k] = 1;
		b->max[k] = FLT_MAX;
	}
}

static void code_block(void *arg, int64_t block, int worker)
{
	const struct normal *q = arg;
	const struct sl_codec_loops *loops = sl_codec_storing(q->env.loops);
	const int64_t first = block * SL_CODEC_BLOCK;
	const int64_t stop = first + SL_CODEC_BLOCK < q->n ? first + SL_CODEC_BLOCK : q->n;
	uint16_t code[SL_CODEC_TILE];
	struct sl_buckets b;

	open_buckets(q, &b);
	for (int64_t at = first; at < stop; at += SL_CODEC_TILE) {
		const int64_t end = at + SL_CODEC_TILE < stop ? at + SL_CODEC_TILE : stop;

		if (q->in != NULL)
			loops->unpack(q->in + at * q->bits / 8, end - at, q->bits, code);
		for (int64_t i = at, next; i < end; i = next) {
			const int64_t token = i / q->features, behind = (token + 1) * q->features;

			next = behind < end ? behind : end;
			set_token(q, &b, q->scale[token], q->in == NULL);
			if (q->in != NULL)
				loops->unbucketize(code + (i - at), next - i, &b, q->y + i);
			else
				loops->bucketize(q->x + i, next - i, &b, NULL, code + (i - at));
		}
		if (q->in == NULL)
			loops->pack(code, end - at, q->bits, q->out + at * q->bits / 8);
	}
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct normal *q = state;
	uint8_t *scales = out->data + out->len;

	if (out->cap - out->len < bound(q->env.arg, false, xs))
		return SL_ERR_LIMIT;
	set_call(q, xs);
	q->x = x;
	q->in = NULL;
	q->out = scales + q->tokens * SCALE_BYTES;
	q->nonfinite = false;
	sl_pool_run(q->env.pool, (q->tokens + unit_of(q) - 1) / unit_of(q), measure_unit, q);
	if (q->nonfinite)
		return SL_ERR_NONFINITE;
	sl_copy(scales, q->scale, (size_t)q->tokens * SCALE_BYTES);
	sl_pool_run(q->env.pool, sl_codec_blocks(q->n), code_block, q);
	out->len += bound(q->env.arg, false, xs);
	return SL_OK;
}

static enum sl_err check_scales(const uint8_t *at, int64_t tokens, struct sl_fail *fail)
{
	for (int64_t t = 0; t < tokens; t++) {
		float scale;

		if (t % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		memcpy(&scale, at + t * SCALE_BYTES, sizeof scale);
		if (!isfinite(scale) || signbit(scale))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "normal: scale %g of token %lld", (double)scale,
					   (long long)t);
	}
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct normal *q = state;
	const size_t bytes = bound(q->env.arg, false, xs);
	int used;
	enum sl_err err;

	set_call(q, xs);
	used = (int)(q->n * q->bits % 8);
	if (in.len != bytes)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "normal: %zu bytes, expected %zu", in.len, bytes);
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "normal: bits are set behind the last code");
	err = check_scales(in.data, q->tokens, fail);
	if (err)
		return err;
	sl_copy(q->scale, in.data, (size_t)q->tokens * SCALE_BYTES);
	q->in = in.data + q->tokens * SCALE_BYTES;
	q->y = x;
	sl_pool_run(q->env.pool, sl_codec_blocks(q->n), code_block, q);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_normal = {
	.id = SL_STAGE_ID_NORMAL,
	.kind = SL_STAGE_QUANTIZER,
	.name = "normal",
	.usage = "normal:b with b = 1…4, the bits of a value",
	.args = args,
	.by_token = sl_token_always,
	.contracts = contracts,
	.instead = ", or write normal:3 (tokens of at most 4900 features) or normal:4 (100000)",
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct normal),
	.memory = memory,
	.open = open_normal,
	.close = close_normal,
	.encode = encode,
	.decode = decode,
};
