/* qsgd:q (Alistarh et al., "QSGD", NIPS 2017) and terngrad (Wen et al., "TernGrad", NIPS 2017). Every bucket of
 * consecutive elements has a scale; every element a sign and a stochastic level 0 … q of |x|/scale. The scale of
 * qsgd is the 2-norm, or with norm=max the largest magnitude. terngrad has one level, of the largest magnitude.
 *
 * Payload: for every bucket {f32 scale}, then per element level and sign (the top bit), 1 + ⌈log2(q+1)⌉ bits,
 * packed: 4 · buckets + ⌈n·bits/8⌉ bytes. */
#include <float.h>
#include <math.h>
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
	struct sl_tiled t;
	uint16_t q;
	int bits; /* of a level, without the sign */
	int64_t bucket;
	struct sl_affine *affine; /* [groups] */
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

/* An element's error has a variance of step²/4 at most. So with norm=2 a bucket of n elements loses n/(4q²) of its
 * squares. With norm=max an element's error is below 1/q of the largest magnitude. With one level (q = 1) a bucket
 * can lose (1 + √n)/2 − 1 of its squares: if all other elements are 1/(1 + √n) of the largest. */
static bool contracts(int64_t bucket, int64_t n, double q, bool squares)
{
	n = bucket != 0 && bucket < n ? bucket : n;
	if (squares)
		return (double)n < 4 * q * q;
	return q > 1 || n < 9;
}

static bool qsgd_contracts(const double *arg, const struct sl_extent *in)
{
	return contracts((int64_t)arg[QSGD_BUCKET], sl_shape_count(&in->shape), arg[QSGD_Q], arg[QSGD_NORM] == NORM_2);
}

static bool tern_contracts(const double *arg, const struct sl_extent *in)
{
	return contracts((int64_t)arg[TERN_BUCKET], sl_shape_count(&in->shape), 1, false);
}

static void close_levels(void *state)
{
	struct levels *l = state;

	sl_groups_close(&l->t.groups);
	free(l->affine);
}

static void need_levels(const struct sl_stage_env *env, int64_t bucket, struct sl_memory *need)
{
	int64_t n = sl_shape_count(&env->most.shape), most = sl_groups_count(n, bucket);

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
	struct levels *l = *state;
	enum sl_err err;

	l->t.env = *env;
	l->q = (uint16_t)q;
	l->bits = level_bits(q);
	l->bucket = bucket;
	l->t.squares = squares;
	err = sl_groups_open(&l->t.groups, n, most, fail);
	if (err)
		return err;
	l->affine = calloc((size_t)most, sizeof *l->affine);
	return l->affine != NULL
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %lld buckets", (long long)most);
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

/* The scale is at least the largest magnitude, even if a norm was rounded down. */
static float scale_of(const struct levels *l, const struct sl_group_stat *s)
{
	float top;
	double norm;

	memcpy(&top, &s->range.top, sizeof top);
	if (!l->t.squares)
		return top;
	norm = sqrt(s->squares);
	return norm > FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
}

/* Writes the scales of groups first … stop-1, which are measured. */
static void write_scales(struct sl_tiled *t, int64_t first, int64_t stop)
{
	struct levels *l = (struct levels *)t;

	for (int64_t g = first; g < stop; g++) {
		float scale = scale_of(l, &t->groups.stat[g]);

		memcpy(t->heads_out + g * SCALE_BYTES, &scale, sizeof scale);
		l->affine[g] = sl_affine_of_scale(scale, l->q);
	}
}

static void read_scales(struct sl_tiled *t, int64_t first, int64_t stop)
{
	struct levels *l = (struct levels *)t;

	for (int64_t g = first; g < stop; g++) {
		float scale;

		memcpy(&scale, t->heads_in + g * SCALE_BYTES, sizeof scale);
		l->affine[g] = sl_affine_of_scale(scale, l->q);
	}
}

static void encode_tile(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code, uint32_t *rnd)
{
	const struct levels *l = (const struct levels *)t;

	t->env.loops->random_halves(&t->key, (uint64_t)first, stop - first, rnd);
	for (int64_t at = first, run; at < stop; at += run) {
		run = sl_groups_run(&t->groups, at, stop);
		t->env.loops->levels(t->x + at, run, &l->affine[at / t->groups.size], rnd + (at - first), l->bits, l->q,
				     code + (at - first));
	}
	t->env.loops->pack(code, stop - first, l->bits + 1, t->out + first * (l->bits + 1) / 8);
}

static void decode_tile(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code)
{
	const struct levels *l = (const struct levels *)t;

	t->env.loops->unpack(t->in + first * (l->bits + 1) / 8, stop - first, l->bits + 1, code);
	for (int64_t at = first, run; at < stop; at += run) {
		run = sl_groups_run(&t->groups, at, stop);
		t->env.loops->unlevels(code + (at - first), run, &l->affine[at / t->groups.size], l->bits, t->y + at);
	}
}

static const struct sl_tiled_kind tiled = {
	.head_bytes = SCALE_BYTES,
	.write = write_scales,
	.read = read_scales,
	.encode = encode_tile,
	.decode = decode_tile,
};

static void set_groups(struct levels *l, const struct sl_extent *xs)
{
	sl_groups_set(&l->t.groups, sl_shape_count(&xs->shape), l->bucket);
	l->t.kind = &tiled;
	l->t.heads = l->t.groups.count;
	l->t.within = sl_groups_within_blocks(&l->t.groups);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct levels *l = state;
	const size_t bytes = payload_bytes(sl_shape_count(&xs->shape), l->bucket, l->q);

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	set_groups(l, xs);
	return sl_tiled_encode(&l->t, call, x, false, out, bytes);
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
	set_groups(l, xs);
	for (int64_t g = 0; g < l->t.heads; g++) {
		float scale;

		if (g % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		memcpy(&scale, in.data + g * SCALE_BYTES, sizeof scale);
		if (!isfinite(scale) || signbit(scale))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: scale %g of bucket %lld", (double)scale,
					   (long long)g);
	}
	if (!sl_tiled_check(&l->t, in, l->bits + 1, (uint16_t)((1u << l->bits) - 1), l->q))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: one is above %d", l->q);
	sl_tiled_decode(&l->t, in, x);
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
	.size = sizeof(struct levels),
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
	.size = sizeof(struct levels),
	.memory = tern_memory,
	.open = open_tern,
	.close = close_levels,
	.encode = encode,
	.decode = decode,
};
