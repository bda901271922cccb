/* lowrank: the factors are computed in place of the chain's values, in [N][r·(C + M)], B before A. Warm
 * factors stay on the device; a checkpoint downloads them. */
#include <stdlib.h>
#include <string.h>

#include "common/codec/warm.h"
#include "kernels/cuda/codec_lowrank.h"
#include "kernels/cuda/codec_stage.h"

enum { RANK, ITERS, WARM };

struct lowrank {
	struct cu_stage stage;
	int r, iters;
	int64_t m, c;
	bool a_large;         /* A is the larger side: C ≤ M */
	struct sl_warm *warm; /* [slots], or NULL */
};

static size_t warm_floats(const struct lowrank *l, int64_t rows)
{
	return (size_t)(rows * l->r * (l->a_large ? l->m : l->c));
}

static void close_lowrank(void *state)
{
	struct lowrank *l = state;

	for (int s = 0; l->warm != NULL && s < l->stage.env.slots; s++) {
		cu_stage_free(&l->stage, l->warm[s].current);
		cu_stage_free(&l->stage, l->warm[s].pending);
	}
	free(l->warm);
	cu_stage_close(&l->stage);
	free(l);
}

static enum sl_err open_warm(struct lowrank *l, struct sl_fail *fail)
{
	const struct sl_stage_env *env = &l->stage.env;
	size_t bytes = warm_floats(l, env->most.shape.dim[0]) * sizeof(float);
	enum sl_err err = SL_OK;

	l->warm = calloc((size_t)env->slots, sizeof *l->warm);
	if (l->warm == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "lowrank: no memory for %d slots", env->slots);
	for (int s = 0; s < env->slots && !err; s++) {
		err = cu_stage_alloc(&l->stage, bytes, (void **)&l->warm[s].current, fail);
		if (!err)
			err = cu_stage_alloc(&l->stage, bytes, (void **)&l->warm[s].pending, fail);
	}
	return err;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_shape *s = &env->most.shape;
	int64_t c = s->dim[s->ndim - 1], m = sl_shape_row(s) / c;
	uint64_t slot = 0;

	cu_stage_memory(env, sizeof(struct lowrank), need);
	if (env->arg[WARM] == 0)
		return;
	sl_need(&slot, s->dim[0] * (int64_t)env->arg[RANK] * (c <= m ? m : c), 2 * sizeof(float));
	sl_need(&need->device, env->slots, slot);
	sl_need(&need->host, env->slots, sizeof(struct sl_warm));
}

static enum sl_err open_lowrank(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct sl_shape *s = &env->most.shape;
	int64_t c = s->dim[s->ndim - 1], m = sl_shape_row(s) / c;
	struct lowrank *l;
	enum sl_err err;

	if (s->ndim < 3 || env->arg[RANK] > (double)(m < c ? m : c))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: lowrank:%g needs samples of at least that many positions and channels, not "
				   "%lld and %lld",
				   env->arg[RANK], (long long)m, (long long)c);
	l = calloc(1, sizeof *l);
	if (l == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "lowrank: no memory");
	l->r = (int)env->arg[RANK];
	l->iters = (int)env->arg[ITERS];
	l->m = m;
	l->c = c;
	l->a_large = c <= m;
	err = cu_stage_open(&l->stage, env, fail);
	if (!err && env->arg[WARM] != 0)
		err = open_warm(l, fail);
	if (err) {
		close_lowrank(l);
		return err;
	}
	*state = l;
	return SL_OK;
}

static struct cu_factors factors_in(const struct lowrank *l, float *y, const float *x, int64_t samples)
{
	return (struct cu_factors){.samples = samples,
				   .m = l->m,
				   .c = l->c,
				   .r = l->r,
				   .x = x,
				   .b = y,
				   .a = y + l->r * l->c,
				   .stride = l->r * (l->m + l->c)};
}

/* ---- encoding */

static cudaError_t queue_iteration(struct lowrank *l, const struct cu_factors *f)
{
	struct cu_stage *s = &l->stage;
	cudaError_t queued = l->a_large ? cu_factors_b(s->stream, f) : cu_factors_a(s->stream, f);

	if (queued == cudaSuccess)
		queued = cu_factors_orthonormal(s->stream, s->status, f, !l->a_large);
	if (queued == cudaSuccess)
		queued = l->a_large ? cu_factors_a(s->stream, f) : cu_factors_b(s->stream, f);
	return queued;
}

/* The warm factors of a call; NULL: none are kept, or the call is not training. */
static struct sl_warm *warm_of(const struct lowrank *l, const struct sl_codec_call *call)
{
	return l->warm != NULL && call->training ? &l->warm[call->chunk % l->stage.env.slots] : NULL;
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct lowrank *l = state;
	struct cu_stage *s = &l->stage;
	const struct sl_rng_key key = sl_codec_key(s->env.seed, s->env.dir, call, SL_STAGE_TRANSFORM);
	const struct cu_philox philox = cu_philox_of(&key);
	struct sl_warm *warm = warm_of(l, call);
	const struct cu_factors f = factors_in(l, (float *)(void *)y, x, xs->shape.dim[0]);
	enum sl_err err = cu_stage_begin(s);
	cudaError_t queued;

	if (err)
		return err;
	queued = cu_factors_start(s->stream, &f, l->a_large, &philox, warm != NULL ? warm->current : NULL,
				  warm != NULL ? warm->current_rows : 0);
	for (int i = 0; i < l->iters && queued == cudaSuccess; i++)
		queued = queue_iteration(l, &f);
	if (queued == cudaSuccess)
		queued = cu_factors_check(s->stream, s->status, &f, l->a_large);
	if (queued == cudaSuccess && warm != NULL)
		queued = cu_factors_keep(s->stream, warm->pending, &f, l->a_large);
	if (queued == cudaSuccess)
		queued = cu_factors_balance(s->stream, &f);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, NULL, NULL, 0, false);
	if (warm != NULL)
		warm->pending_rows = xs->shape.dim[0];
	return cu_stage_queued(s, queued);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct lowrank *l = state;
	struct sl_warm *warm = warm_of(l, call);
	enum sl_err err = cu_stage_collect(&l->stage, call->slot, NULL);

	if (err && warm != NULL)
		warm->pending_rows = 0;
	return cu_stage_said(err, fail);
}

static void commit(void *state)
{
	struct lowrank *l = state;

	sl_warm_commit(l->warm, l->stage.env.slots);
}

static void rollback(void *state)
{
	struct lowrank *l = state;

	sl_warm_rollback(l->warm, l->stage.env.slots);
}

/* ---- checkpoints: the same bytes as the portable stage's */

static size_t state_bytes(const void *state)
{
	const struct lowrank *l = state;
	const struct sl_stage_env *env = &l->stage.env;

	return l->warm == NULL ? 0 : (size_t)env->slots * (4 + warm_floats(l, env->most.shape.dim[0]) * sizeof(float));
}

static enum sl_err save(const void *state, struct sl_buf *out)
{
	const struct lowrank *l = state;
	struct sl_backend *be = l->stage.env.be;
	enum sl_err err = SL_OK;

	for (int s = 0; l->warm != NULL && s < l->stage.env.slots && !err; s++) {
		uint32_t rows = (uint32_t)l->warm[s].current_rows;
		size_t bytes = warm_floats(l, rows) * sizeof(float);

		err = sl_buf_put(out, &rows, sizeof rows);
		if (!err && bytes > out->cap - out->len)
			err = SL_ERR_LIMIT;
		if (!err && bytes > 0)
			err = be->ops->download(be, out->data + out->len, l->warm[s].current, bytes);
		if (!err)
			out->len += bytes;
	}
	return err;
}

static enum sl_err load(void *state, struct sl_bytes *in)
{
	struct lowrank *l = state;
	struct sl_backend *be = l->stage.env.be;
	enum sl_err err = SL_OK;

	for (int s = 0; l->warm != NULL && s < l->stage.env.slots; s++) {
		struct sl_bytes four, floats = {0};
		uint32_t rows = 0;

		l->warm[s].current_rows = 0;
		if (!err)
			err = sl_bytes_take(in, sizeof rows, &four);
		if (!err)
			memcpy(&rows, four.data, sizeof rows);
		if (!err && rows > l->stage.env.most.shape.dim[0])
			err = SL_ERR_DATA;
		if (!err)
			err = sl_bytes_take(in, warm_floats(l, rows) * sizeof(float), &floats);
		if (!err && floats.len > 0)
			err = be->ops->upload(be, l->warm[s].current, floats.data, floats.len);
		if (!err)
			l->warm[s].current_rows = rows;
	}
	return err;
}

/* ---- decoding */

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	if (side.len != 0 || count != sl_shape_count(&ys->shape))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "lowrank: %lld values, expected %lld", (long long)count,
				   (long long)sl_shape_count(&ys->shape));
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct lowrank *l = state;
	struct cu_stage *s = &l->stage;
	const struct cu_factors f = factors_in(l, (float *)(uintptr_t)y, NULL, xs->shape.dim[0]);
	enum sl_err err = cu_stage_enter(s);

	return err ? err : cu_stage_queued(s, cu_factors_product(s->stream, x, &f));
}

const struct sl_codec_stage cu_stage_lowrank = {.id = SL_STAGE_ID_LOWRANK,
						.memory = memory,
						.open = open_lowrank,
						.close = close_lowrank,
						.commit = commit,
						.rollback = rollback,
						.state_bytes = state_bytes,
						.save = save,
						.load = load,
						.forward = forward,
						.parse = parse,
						.inverse = inverse,
						.collect = collect};
