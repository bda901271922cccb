/* qsgd:q (Alistarh et al., "QSGD", NIPS 2017) and terngrad (Wen et al., "TernGrad", NIPS 2017): a scale for every
 * bucket of consecutive elements, and per element a sign and a stochastic level 0 … q of |x|/scale. The scale of qsgd
 * is the 2-norm, or with norm=max the largest magnitude; terngrad is one level of the largest magnitude.
 *
 * Payload: for every bucket {f32 scale}, then per element level and sign (the top bit), 1 + ⌈log2(q+1)⌉ bits, packed:
 * 4 · buckets + ⌈n·bits/8⌉ bytes. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/base/worker.h"
#include "common/codec/groups.h"

enum { QSGD_Q, QSGD_BUCKET, QSGD_NORM };
enum { TERN_BUCKET };
enum { NORM_2, NORM_MAX };
enum { SCALE_BYTES = 4 };

static const char *const norm_words[] = {"2", "max", NULL};

static const struct sl_arg qsgd_args[] = {
	{.key = "q", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 32767},
	{.key = "bucket", .type = SL_ARG_INT, .least = 8, .most = 1 << 24},
	{.key = "norm", .type = SL_ARG_CHOICE, .choices = norm_words},
	{0},
};

static const struct sl_arg tern_args[] = {
	{.key = "bucket", .type = SL_ARG_INT, .least = 8, .most = 1 << 24},
	{0},
};

struct levels {
	struct sl_stage_env env;
	uint16_t q;
	int bits; /* of a level, without the sign */
	int64_t bucket;
	bool squares;
	struct sl_groups groups;
	struct sl_affine *affine; /* [groups] */
	/* of the running call */
	bool within; /* sl_groups_within_blocks: scales come with the blocks, not before */
	struct sl_rng_key key;
	const float *x;
	float *y;
	uint8_t *scales_out, *out;
	const uint8_t *scales_in, *in;
	atomic_bool bad;
};

static int level_bits(int q)
{
	return 32 - __builtin_clz((unsigned)q);
}

static size_t payload_bytes(int64_t n, int64_t bucket, int q)
{
	return (size_t)(sl_groups_count(n, bucket) * SCALE_BYTES + sl_packed_bytes(n, level_bits(q) + 1));
}

static size_t qsgd_bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return payload_bytes(sl_shape_count(&in->shape), (int64_t)arg[QSGD_BUCKET], (int)arg[QSGD_Q]);
}

static double qsgd_nominal(const double *arg, const struct sl_extent *in)
{
	return (double)sl_shape_count(&in->shape) * (level_bits((int)arg[QSGD_Q]) + 1) / 8;
}

static size_t tern_bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return payload_bytes(sl_shape_count(&in->shape), (int64_t)arg[TERN_BUCKET], 1);
}

static double tern_nominal(const double *arg, const struct sl_extent *in)
{
	return (double)sl_shape_count(&in->shape) / 4;
}

/* An element's error has a variance of step²/4 at most. With norm=2 a bucket of n elements so loses n/(4q²) of its
 * squares, with norm=max an element loses less than the largest / q. Of one level of the largest (1 + √n)/2 − 1 of the
 * squares are lost, where all others are 1/(1 + √n) of it. */
static bool contracts(int64_t bucket, int64_t n, double q, bool squares)
{
	n = bucket != 0 && bucket < n ? bucket : n;
	if (squares)
		return (double)n < 4 * q * q;
	return q > 1 || n < 9;
}

static bool qsgd_contracts(const double *arg, int64_t n)
{
	return contracts((int64_t)arg[QSGD_BUCKET], n, arg[QSGD_Q], arg[QSGD_NORM] == NORM_2);
}

static bool tern_contracts(const double *arg, int64_t n)
{
	return contracts((int64_t)arg[TERN_BUCKET], n, 1, false);
}

static void close_levels(void *state)
{
	struct levels *l = state;

	sl_groups_close(&l->groups);
	free(l->affine);
	free(l);
}

static void need_levels(const struct sl_stage_env *env, int64_t bucket, struct sl_memory *need)
{
	int64_t n = sl_shape_count(&env->most.shape), most = sl_groups_count(n, bucket);

	sl_need(&need->host, 1, sizeof(struct levels));
	sl_groups_memory(n, most, need);
	sl_need(&need->host, most, sizeof(struct sl_affine));
}

static void qsgd_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	need_levels(env, (int64_t)env->arg[QSGD_BUCKET], need);
}

static void tern_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	need_levels(env, (int64_t)env->arg[TERN_BUCKET], need);
}

static enum sl_err open_levels(void **state, const struct sl_stage_env *env, int q, int64_t bucket, bool squares,
			       struct sl_fail *fail)
{
	int64_t n = sl_shape_count(&env->most.shape), most = sl_groups_count(n, bucket);
	struct levels *l = calloc(1, sizeof *l);
	enum sl_err err;

	if (l == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for levels");
	l->env = *env;
	l->q = (uint16_t)q;
	l->bits = level_bits(q);
	l->bucket = bucket;
	l->squares = squares;
	err = sl_groups_open(&l->groups, n, most, fail);
	if (err != SL_OK)
		goto fail;
	l->affine = calloc((size_t)most, sizeof *l->affine);
	if (l->affine == NULL) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %lld buckets", (long long)most);
		goto fail;
	}
	*state = l;
	return SL_OK;
fail:
	close_levels(l);
	return err;
}

static enum sl_err open_qsgd(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_levels(state, env, (int)env->arg[QSGD_Q], (int64_t)env->arg[QSGD_BUCKET],
			   env->arg[QSGD_NORM] == NORM_2, fail);
}

static enum sl_err open_tern(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_levels(state, env, 1, (int64_t)env->arg[TERN_BUCKET], false, fail);
}

/* At least the largest magnitude, whatever the rounding of a norm. */
static float scale_of(const struct levels *l, const struct sl_group_stat *s)
{
	float top;
	double norm;

	memcpy(&top, &s->range.top, sizeof top);
	if (!l->squares)
		return top;
	norm = sqrt(s->squares);
	return norm > FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
}

/* Scales of groups first … stop-1, measured, to the payload. */
static void write_scales(struct levels *l, int64_t first, int64_t stop)
{
	for (int64_t g = first; g < stop; g++) {
		float scale = scale_of(l, &l->groups.stat[g]);

		memcpy(l->scales_out + g * SCALE_BYTES, &scale, sizeof scale);
		l->affine[g] = sl_affine_of_scale(scale, l->q);
	}
}

/* The same for the groups from element `first` on that are measured at once. False: NaN or Inf. */
static bool measure_stretch(struct levels *l, int64_t first)
{
	int64_t stretch = sl_groups_stretch(&l->groups), group = first / l->groups.size;
	int64_t stop = group + stretch / l->groups.size;

	if (stop > l->groups.count)
		stop = l->groups.count;
	if (!sl_groups_measure_some(&l->groups, l->env.loops, l->x, l->squares, group, stop))
		return false;
	write_scales(l, group, stop);
	return true;
}

static void read_scales(struct levels *l, int64_t first, int64_t stop)
{
	for (int64_t g = first; g < stop; g++) {
		float scale;

		memcpy(&scale, l->scales_in + g * SCALE_BYTES, sizeof scale);
		l->affine[g] = sl_affine_of_scale(scale, l->q);
	}
}

static void encode_tile(const struct levels *l, int64_t first, int64_t stop, uint16_t *code, uint16_t *rnd)
{
	l->env.loops->random16(&l->key, (uint64_t)first, stop - first, rnd);
	for (int64_t at = first, run; at < stop; at += run) {
		run = sl_groups_run(&l->groups, at, stop);
		l->env.loops->levels(l->x + at, run, &l->affine[at / l->groups.size], rnd + (at - first), l->bits, l->q,
				     code + (at - first));
	}
	l->env.loops->pack(code, stop - first, l->bits + 1, l->out + first * (l->bits + 1) / 8);
}

static void decode_tile(const struct levels *l, int64_t first, int64_t stop, uint16_t *code)
{
	l->env.loops->unpack(l->in + first * (l->bits + 1) / 8, stop - first, l->bits + 1, code);
	for (int64_t at = first, run; at < stop; at += run) {
		run = sl_groups_run(&l->groups, at, stop);
		l->env.loops->unlevels(code + (at - first), run, &l->affine[at / l->groups.size], l->bits, l->y + at);
	}
}

static bool check_tile(const struct levels *l, int64_t first, int64_t stop, uint16_t *code)
{
	uint32_t most = 0, mask = (1u << l->bits) - 1;

	l->env.loops->unpack(l->in + first * (l->bits + 1) / 8, stop - first, l->bits + 1, code);
	for (int64_t i = 0; i < stop - first; i++)
		most = (code[i] & mask) > most ? code[i] & mask : most;
	return most <= l->q;
}

static int64_t block_end(const struct levels *l, int64_t first)
{
	return first + SL_CODEC_BLOCK < l->groups.n ? first + SL_CODEC_BLOCK : l->groups.n;
}

static void encode_block(void *arg, int64_t block, int worker)
{
	struct levels *l = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = block_end(l, first), end;
	uint16_t code[SL_CODEC_TILE], rnd[SL_CODEC_TILE];

	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		if (l->within && first % sl_groups_stretch(&l->groups) == 0 && !measure_stretch(l, first)) {
			atomic_store_explicit(&l->bad, true, memory_order_relaxed);
			return;
		}
		encode_tile(l, first, end, code, rnd);
	}
}

static void check_block(void *arg, int64_t block, int worker)
{
	struct levels *l = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = block_end(l, first), end;
	uint16_t code[SL_CODEC_TILE];

	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		if (!check_tile(l, first, end, code))
			atomic_store_explicit(&l->bad, true, memory_order_relaxed);
	}
}

static void decode_block(void *arg, int64_t block, int worker)
{
	struct levels *l = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = block_end(l, first), end;
	uint16_t code[SL_CODEC_TILE];

	if (l->within)
		read_scales(l, first / l->groups.size, sl_groups_count(stop, l->groups.size));
	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		decode_tile(l, first, end, code);
	}
	sl_codec_settle(l->env.loops);
}

/* Of all groups, by one thread. */
static void in_pieces(struct levels *l, void (*fn)(struct levels *l, int64_t first, int64_t stop))
{
	const int64_t count = l->groups.count;

	for (int64_t at = 0; at < count; at += SL_CODEC_BLOCK) {
		sl_worker_turn();
		fn(l, at, count - at < SL_CODEC_BLOCK ? count : at + SL_CODEC_BLOCK);
	}
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct levels *l = state;
	size_t bytes = payload_bytes(sl_shape_count(&xs->shape), l->bucket, l->q);
	enum sl_err err;

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	l->x = x;
	l->key = sl_codec_key(l->env.seed, l->env.dir, call, SL_STAGE_QUANTIZER);
	sl_groups_set(&l->groups, sl_shape_count(&xs->shape), l->bucket);
	l->within = sl_groups_within_blocks(&l->groups);
	l->scales_out = out->data + out->len;
	l->out = l->scales_out + l->groups.count * SCALE_BYTES;
	l->bad = false;
	if (!l->within) {
		err = sl_groups_measure(&l->groups, l->env.loops, l->env.pool, x, l->squares);
		if (err != SL_OK)
			return err;
		in_pieces(l, write_scales);
	}
	sl_pool_run(l->env.pool, sl_codec_blocks(l->groups.n), encode_block, l);
	if (l->bad)
		return SL_ERR_NONFINITE;
	out->len += bytes;
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct levels *l = state;
	int64_t n = sl_shape_count(&xs->shape);
	int used = (int)(n * (l->bits + 1) % 8);

	if (in.len != payload_bytes(n, l->bucket, l->q))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: %zu bytes, expected %zu", in.len,
				   payload_bytes(n, l->bucket, l->q));
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: bits are set behind the last code");
	sl_groups_set(&l->groups, n, l->bucket);
	l->within = sl_groups_within_blocks(&l->groups);
	for (int64_t g = 0; g < l->groups.count; g++) {
		float scale;

		if (g % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		memcpy(&scale, in.data + g * SCALE_BYTES, sizeof scale);
		if (!isfinite(scale) || signbit(scale))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: scale %g of bucket %lld", (double)scale,
					   (long long)g);
	}
	l->scales_in = in.data;
	l->in = in.data + l->groups.count * SCALE_BYTES;
	l->bad = false;
	if (l->q != (1u << l->bits) - 1)
		sl_pool_run(l->env.pool, sl_codec_blocks(n), check_block, l);
	if (l->bad)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: one is above %d", l->q);
	if (!l->within)
		in_pieces(l, read_scales);
	l->y = x;
	sl_pool_run(l->env.pool, sl_codec_blocks(n), decode_block, l);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_qsgd = {
	.id = SL_STAGE_ID_QSGD,
	.kind = SL_STAGE_QUANTIZER,
	.name = "qsgd",
	.usage = "qsgd:q with q = 1…32767 levels; options bucket=8…16777216, norm=2|max",
	.args = qsgd_args,
	.contracts = qsgd_contracts,
	.instead = " (its errors have mean zero, so it needs none), or write norm=max or bucket=N below 4·q², "
		   "with q of 2 or more",
	.bound = qsgd_bound,
	.nominal = qsgd_nominal,
	.memory = qsgd_memory,
	.open = open_qsgd,
	.close = close_levels,
	.encode = encode,
	.decode = decode,
};

const struct sl_codec_stage sl_stage_terngrad = {
	.id = SL_STAGE_ID_TERNGRAD,
	.kind = SL_STAGE_QUANTIZER,
	.name = "terngrad",
	.usage = "terngrad takes the option bucket=8…16777216",
	.args = tern_args,
	.contracts = tern_contracts,
	.instead = " (its errors have mean zero, so it needs none), or write bucket=8",
	.bound = tern_bound,
	.nominal = tern_nominal,
	.memory = tern_memory,
	.open = open_tern,
	.close = close_levels,
	.encode = encode,
	.decode = decode,
};
