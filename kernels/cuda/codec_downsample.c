/* downsample: means of cells, or the adjoint for a gradient that is paired with its activation. */
#include <stdlib.h>

#include "kernels/cuda/codec_stage.h"

enum { FACTOR };

struct downsample {
	struct cu_stage stage;
	struct cu_cells cells;
	struct cu_tap *taps; /* device: those of rows, then of columns */
};

static void close_downsample(void *state)
{
	struct downsample *d = state;

	cu_stage_free(&d->stage, d->taps);
	cu_stage_close(&d->stage);
	free(d);
}

static void make_taps(struct cu_tap *tap, int n, int small, int f)
{
	for (int i = 0; i < n; i++) {
		const struct sl_tap t = sl_tap_of(i, small, f);

		tap[i] = (struct cu_tap){(int)t.at, (int)t.next, t.near, t.far};
	}
}

static enum sl_err open_taps(struct downsample *d, struct sl_fail *fail)
{
	struct cu_cells *c = &d->cells;
	size_t count = (size_t)c->h + (size_t)c->w, bytes = count * sizeof(struct cu_tap);
	struct sl_backend *be = d->stage.env.be;
	struct cu_tap *host = malloc(bytes);
	enum sl_err err;

	if (host == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "downsample: no memory");
	make_taps(host, c->h, c->small_h, c->f);
	make_taps(host + c->h, c->w, c->small_w, c->f);
	err = cu_stage_alloc(&d->stage, bytes, (void **)&d->taps, fail);
	if (err == SL_OK && be->ops->upload(be, d->taps, host, bytes) != SL_OK)
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the device has failed");
	free(host);
	c->rows = d->taps;
	c->cols = d->taps + c->h;
	return err;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_shape *s = &env->most.shape;
	int64_t taps = 2;

	(void)pairing;
	for (int i = 1; i + 1 < s->ndim; i++)
		taps += s->dim[i];
	cu_stage_memory(env, sizeof(struct downsample), need);
	sl_need(&need->device, taps, sizeof(struct cu_tap));
	sl_need(&need->host, taps, sizeof(struct cu_tap)); /* on their way */
}

static enum sl_err open_downsample(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct sl_shape *s = &env->most.shape;
	struct downsample *d;
	struct cu_cells *c;
	enum sl_err err;

	if (s->ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: downsample needs positions, and a tensor of %d dimensions has none",
				   s->ndim);
	d = calloc(1, sizeof *d);
	if (d == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "downsample: no memory");
	c = &d->cells;
	c->adjoint = env->pair != NULL;
	c->f = (int)env->arg[FACTOR];
	c->h = (int)s->dim[1];
	c->w = s->ndim == 4 ? (int)s->dim[2] : 1;
	c->c = (int)s->dim[s->ndim - 1];
	c->small_h = (c->h + c->f - 1) / c->f;
	c->small_w = (c->w + c->f - 1) / c->f;
	err = cu_stage_open(&d->stage, env, fail);
	if (err == SL_OK)
		err = open_taps(d, fail);
	if (err != SL_OK) {
		close_downsample(d);
		return err;
	}
	*state = d;
	return SL_OK;
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct downsample *d = state;
	struct cu_stage *s = &d->stage;
	enum sl_err err = cu_stage_begin(s);
	cudaError_t queued;

	(void)ys;
	(void)side;
	if (err != SL_OK)
		return err;
	queued = cu_cells_shrink(s->stream, (float *)(void *)y, s->status, x, &d->cells, xs->shape.dim[0]);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, NULL, NULL, 0, false);
	return cu_stage_queued(s, queued);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct downsample *d = state;

	(void)side;
	return cu_stage_said(cu_stage_collect(&d->stage, call->slot, NULL), fail);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	(void)state;
	(void)call;
	(void)xs;
	if (side.len != 0 || count != sl_shape_count(&ys->shape))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "downsample: %lld values, expected %lld", (long long)count,
				   (long long)sl_shape_count(&ys->shape));
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct downsample *d = state;
	struct cu_stage *s = &d->stage;
	enum sl_err err = cu_stage_enter(s);

	(void)call;
	(void)ys;
	return err ? err
		   : cu_codec_check(s->env.be, cu_cells_grow(s->stream, x, (const float *)(const void *)y, &d->cells,
							     xs->shape.dim[0]));
}

const struct sl_codec_stage cu_stage_downsample = {.id = SL_STAGE_ID_DOWNSAMPLE,
						   .memory = memory,
						   .open = open_downsample,
						   .close = close_downsample,
						   .forward = forward,
						   .parse = parse,
						   .inverse = inverse,
						   .collect = collect};
