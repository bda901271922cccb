/* randomk: the values at drawn places; no side bytes. */
#include <stdlib.h>

#include "kernels/cuda/codec_stage.h"

enum { RATIO };

struct randomk {
	struct cu_stage stage;
	struct cu_draw draw; /* of the running call */
};

static void close_randomk(void *state)
{
	struct randomk *r = state;

	cu_stage_close(&r->stage);
	free(r);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	(void)pairing;
	cu_stage_memory(env, sizeof(struct randomk), need);
}

static enum sl_err open_randomk(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct randomk *r = calloc(1, sizeof *r);
	enum sl_err err;

	if (r == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "randomk: no memory");
	err = cu_stage_open(&r->stage, env, fail);
	if (err != SL_OK) {
		close_randomk(r);
		return err;
	}
	*state = r;
	return SL_OK;
}

static void prepare(struct randomk *r, const struct sl_codec_call *call, int64_t n)
{
	const struct sl_stage_env *env = &r->stage.env;
	struct sl_rng_key key = sl_codec_key(env->seed, env->pair_dir, call, SL_STAGE_TRANSFORM);
	struct cu_draw *d = &r->draw;

	d->key = cu_philox_of(&key);
	d->n = (uint32_t)n;
	d->k = (uint32_t)sl_codec_kept(env->arg[RATIO], n);
	d->step = ((uint64_t)n << 32) / d->k;
	d->phase = (uint64_t)((unsigned __int128)d->step * sl_rng_u32(&key, 0) >> 32);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct randomk *r = state;
	struct cu_stage *s = &r->stage;
	int64_t n = sl_shape_count(&xs->shape);
	cudaError_t queued;
	enum sl_err err;

	(void)side;
	if (n == 0)
		return SL_ERR_BUG;
	prepare(r, call, n);
	err = cu_stage_begin(s);
	if (err != SL_OK)
		return err;
	queued = cu_check_finite(s->stream, s->status, x, n);
	if (queued == cudaSuccess)
		queued = cu_draw_gather(s->stream, (float *)(void *)y, x, &r->draw);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, NULL, NULL, 0, false);
	*ys = sl_extent_flat(r->draw.k);
	return cu_stage_queued(s, queued);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct randomk *r = state;

	(void)side;
	return cu_stage_said(cu_stage_collect(&r->stage, call->slot, NULL), fail);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct randomk *r = state;

	prepare(r, call, sl_shape_count(&xs->shape));
	if (count != r->draw.k || side.len != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "randomk: %lld values and %zu bytes of places, expected %u and 0", (long long)count,
				   side.len, r->draw.k);
	*ys = sl_extent_flat(count);
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct randomk *r = state;
	struct cu_stage *s = &r->stage;
	enum sl_err err;

	(void)call;
	(void)ys;
	if (sl_shape_count(&xs->shape) == 0)
		return SL_ERR_BUG;
	err = cu_stage_enter(s);
	return err ? err : cu_stage_queued(s, cu_draw_scatter(s->stream, x, (const float *)(const void *)y, &r->draw));
}

const struct sl_codec_stage cu_stage_randomk = {.id = SL_STAGE_ID_RANDOMK,
						.memory = memory,
						.open = open_randomk,
						.close = close_randomk,
						.forward = forward,
						.parse = parse,
						.inverse = inverse,
						.collect = collect};
