/* hadamard — an orthonormal rotation of the last dimension. It spreads large features over all of them, so a quantizer
 * with one scale for each token loses less of the others.
 *
 * Each run of P features becomes H·D·x / √P. P is the largest power of two that divides the last dimension, at most
 * 65536. D is diagonal, with a random sign for each feature. The seed alone draws the signs, so a token is rotated
 * alike in every step. H is the Walsh–Hadamard matrix in its natural order.
 *
 * Every x is multiplied by ±1/√P first; then sums and differences are taken at distances 1, 2, 4 … P/2. The inverse
 * takes the same sums of what came, and multiplies by ±1/√P last.
 *
 * Side bytes: none. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/base/worker.h"
#include "common/codec/sized.h"

static const struct sl_arg args[] = {{0}};
static const int64_t most_run = 1 << 16;

struct hadamard {
	struct sl_stage_env env;
	int64_t features, run;
	float *factor; /* [features] ±1/√run */
	float *room;   /* [threads][run] */
	/* of the running call */
	int64_t n;
	const float *x;
	sl_f32u *y;
	const sl_f32u *from;
	float *to;
	atomic_bool nonfinite;
};

static int64_t features_of(const struct sl_extent *e)
{
	return e->shape.dim[e->shape.ndim - 1];
}

static int64_t run_of(int64_t features)
{
	int64_t run = features & -features;

	return run < most_run ? run : most_run;
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (channels)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "codec: hadamard needs the tensor's channels, and the stage before it does not keep them");
}

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	*out = *in;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const int64_t features = features_of(&env->most);

	sl_need(&need->host, (uint64_t)(features + sl_stage_threads(env) * run_of(features)), sizeof(float));
}

static void close_hadamard(void *state)
{
	struct hadamard *h = state;

	free(h->factor);
	free(h->room);
}

/* Draws the signs with a step that no call has: training and evaluations have the same signs. */
static void draw_signs(struct hadamard *h)
{
	const struct sl_codec_call never = {.step = UINT64_MAX};
	const struct sl_rng_key key = sl_codec_key(h->env.seed, h->env.dir, &never, SL_STAGE_TRANSFORM);
	const float scale = (float)(1 / sqrt((double)h->run));
	uint32_t word = 0;

	for (int64_t i = 0; i < h->features; i++) {
		if (i % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		if (i % 32 == 0)
			word = sl_rng_u32(&key, (uint64_t)i / 32);
		h->factor[i] = word >> i % 32 & 1 ? -scale : scale;
	}
}

static enum sl_err open_hadamard(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const int64_t features = features_of(&env->most), run = run_of(features);
	struct hadamard *h = *state;

	h->env = *env;
	h->features = features;
	h->run = run;
	h->factor = malloc((size_t)features * sizeof *h->factor);
	h->room = malloc((size_t)(sl_stage_threads(env) * run) * sizeof *h->room);
	if (h->factor == NULL || h->room == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "hadamard: no memory");
	draw_signs(h);
	return SL_OK;
}

/* The end of a block of the pool. A block has whole runs; a token of many features has several blocks. */
static int64_t block_end(const struct hadamard *h, int64_t block)
{
	return (block + 1) * SL_CODEC_BLOCK < h->n ? (block + 1) * SL_CODEC_BLOCK : h->n;
}

/* The largest bit pattern without the sign. It is signed, because plain x86-64 has no vector comparison of unsigned
 * integers. */
static int32_t largest(const float *x, int64_t n)
{
	int32_t most = 0;

	for (int64_t i = 0; i < n; i++) {
		int32_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		bits &= 0x7fffffff;
		most = bits > most ? bits : most;
	}
	return most;
}

static void rotate_block(void *arg, int64_t block, int worker)
{
	struct hadamard *h = arg;
	float *room = h->room + worker * h->run;

	for (int64_t at = block * SL_CODEC_BLOCK; at < block_end(h, block); at += h->run) {
		const float *factor = h->factor + at % h->features;

		for (int64_t i = 0; i < h->run; i++)
			room[i] = h->x[at + i] * factor[i];
		h->env.loops->butterflies(room, h->run);
		if (largest(room, h->run) >= SL_F32_INF_BITS)
			atomic_store_explicit(&h->nonfinite, true, memory_order_relaxed);
		memcpy(h->y + at, room, (size_t)h->run * sizeof *room);
	}
}

static void rotate_block_back(void *arg, int64_t block, int worker)
{
	struct hadamard *h = arg;
	float *room = h->room + worker * h->run;

	for (int64_t at = block * SL_CODEC_BLOCK; at < block_end(h, block); at += h->run) {
		const float *factor = h->factor + at % h->features;

		memcpy(room, h->from + at, (size_t)h->run * sizeof *room);
		h->env.loops->butterflies(room, h->run);
		for (int64_t i = 0; i < h->run; i++)
			h->to[at + i] = room[i] * factor[i];
	}
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct hadamard *h = state;

	h->n = sl_shape_count(&xs->shape);
	h->x = x;
	h->y = y;
	h->nonfinite = false;
	sl_pool_run(h->env.pool, sl_codec_blocks(h->n), rotate_block, h);
	*ys = *xs;
	return h->nonfinite ? SL_ERR_NONFINITE : SL_OK;
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	*ys = *xs;
	return sl_sized_parse("hadamard", ys, side, count, fail);
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct hadamard *h = state;

	h->n = sl_shape_count(&xs->shape);
	h->from = y;
	h->to = x;
	sl_pool_run(h->env.pool, sl_codec_blocks(h->n), rotate_block_back, h);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_hadamard = {
	.id = SL_STAGE_ID_HADAMARD,
	.kind = SL_STAGE_TRANSFORM,
	.name = "hadamard",
	.usage = "hadamard takes no argument",
	.args = args,
	.by_token = sl_token_always,
	.check = check,
	.keeps_channels = true,
	.keeps_samples = true,
	.shape = shape,
	.bound = sl_sized_bound,
	.size = sizeof(struct hadamard),
	.memory = memory,
	.open = open_hadamard,
	.close = close_hadamard,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
