/* cells: means of cells as side bytes, and what is left of the values. */
#include <stdlib.h>

#include "kernels/cuda/codec_stage.h"

enum { SIDE };

struct cells {
	struct cu_stage stage;
	struct cu_cells cells;
	uint16_t *mean; /* device, of all samples */
};

static void close_cells(void *state)
{
	struct cells *s = state;

	cu_stage_free(&s->stage, s->mean);
	cu_stage_close(&s->stage);
	free(s);
}

static size_t side_bytes(const struct cells *s, int64_t samples)
{
	const struct cu_cells *c = &s->cells;

	return (size_t)(samples * c->small_h * c->small_w * c->c) * sizeof *s->mean;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_shape *s = &env->most.shape;
	int64_t f = (int64_t)env->arg[SIDE], n = s->dim[0] * s->dim[s->ndim - 1];

	(void)pairing;
	for (int i = 1; i + 1 < s->ndim; i++)
		n *= (s->dim[i] + f - 1) / f;
	cu_stage_memory(env, sizeof(struct cells), need);
	sl_need(&need->device, n, sizeof(uint16_t));
}

static enum sl_err open_cells(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct sl_shape *shape = &env->most.shape;
	struct cells *s;
	struct cu_cells *c;
	enum sl_err err;

	if (shape->ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: cells needs positions, and a tensor of %d dimensions has none", shape->ndim);
	s = calloc(1, sizeof *s);
	if (s == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "cells: no memory");
	c = &s->cells;
	c->f = (int)env->arg[SIDE];
	c->h = (int)shape->dim[1];
	c->w = shape->ndim == 4 ? (int)shape->dim[2] : 1;
	c->c = (int)shape->dim[shape->ndim - 1];
	c->small_h = (c->h + c->f - 1) / c->f;
	c->small_w = (c->w + c->f - 1) / c->f;
	err = cu_stage_open(&s->stage, env, fail);
	if (err == SL_OK)
		err = cu_stage_alloc(&s->stage, side_bytes(s, shape->dim[0]), (void **)&s->mean, fail);
	if (err != SL_OK) {
		close_cells(s);
		return err;
	}
	*state = s;
	return SL_OK;
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct cells *c = state;
	struct cu_stage *s = &c->stage;
	size_t bytes = side_bytes(c, xs->shape.dim[0]);
	cudaError_t queued;
	enum sl_err err;

	if (side->cap - side->len < bytes)
		return SL_ERR_LIMIT;
	err = cu_stage_begin(s);
	if (err != SL_OK)
		return err;
	queued = cu_cells_split(s->stream, c->mean, (float *)(void *)y, s->status, x, &c->cells, xs->shape.dim[0]);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, side->data + side->len, c->mean, bytes, false);
	side->len += bytes;
	*ys = *xs;
	return cu_stage_queued(s, queued);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct cells *c = state;

	(void)side;
	return cu_stage_said(cu_stage_collect(&c->stage, call->slot, NULL), fail);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct cells *c = state;
	struct cu_stage *s = &c->stage;
	size_t bytes = side_bytes(c, xs->shape.dim[0]);
	cudaError_t queued;
	enum sl_err err;

	if (side.len != bytes || count != sl_shape_count(&xs->shape))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "cells: %zu bytes of means and %lld values, expected %zu and %lld", side.len,
				   (long long)count, bytes, (long long)sl_shape_count(&xs->shape));
	for (size_t i = 0; i < bytes; i += sizeof *c->mean)
		if ((side.data[i + 1] & 0x7f) == 0x7f && (side.data[i] & 0x80) != 0)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "cells: mean %zu is not finite", i / sizeof *c->mean);
	err = cu_stage_enter(s);
	if (err != SL_OK)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, c->mean, side.data, bytes);
	if (queued == cudaSuccess)
		queued = cu_stage_settle(s, call->slot, false);
	*ys = *xs;
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct cells *c = state;
	struct cu_stage *s = &c->stage;
	enum sl_err err = cu_stage_enter(s);
	cudaError_t queued;

	(void)call;
	(void)ys;
	if (err != SL_OK)
		return err;
	queued = cu_cells_join(s->stream, x, c->mean, (const float *)(const void *)y, &c->cells, xs->shape.dim[0]);
	if (queued == cudaSuccess)
		queued = cu_stage_read(s);
	return cu_stage_queued(s, queued);
}

const struct sl_codec_stage cu_stage_cells = {.id = SL_STAGE_ID_CELLS,
					      .memory = memory,
					      .open = open_cells,
					      .close = close_cells,
					      .forward = forward,
					      .parse = parse,
					      .inverse = inverse,
					      .collect = collect};
