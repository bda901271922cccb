/* cells:f — takes the mean of its cell off every value: f×f positions of a sample (f positions of a sequence; fewer at
 * the far edges), channel by channel, and sends the means apart. What a stage behind it leaves out, topk say, comes
 * back as the mean of its cell, not as zero.
 *
 * Side bytes: the means as bf16, [N, ⌈H/f⌉, ⌈W/f⌉, C], or [N, ⌈S/f⌉, F]. Values: x less its cell's mean as sent. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/loops_c.h"
#include "common/codec/stage.h"

enum { SIDE };
enum { MEAN_BYTES = 2 };
/* 2^126: beyond it, a value and the mean of others may have no finite difference. */
static const uint32_t too_large = 0x7e800000;

static const struct sl_stage_arg args[] = {
	{.key = "side", .type = SL_ARG_INT, .positional = true, .required = true, .least = 2, .most = 64},
	{0},
};

struct cells {
	struct sl_stage_env env;
	int64_t f, h, w, c;
	float *mean; /* [threads][⌈w/f⌉][c] */
	/* of the running call */
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	uint8_t *out;
	const uint8_t *in;
	atomic_bool nonfinite;
};

static int64_t over(int64_t n, int64_t f)
{
	return (n + f - 1) / f;
}

/* Means of one sample. */
static int64_t means_of(const struct sl_shape *s, int64_t f)
{
	int64_t n = s->dim[s->ndim - 1];

	for (int i = 1; i + 1 < s->ndim; i++)
		n *= over(s->dim[i], f);
	return n;
}

static void shape(const double *arg, const struct sl_shape *in, struct sl_shape *out)
{
	(void)arg;
	*out = *in;
}

static size_t bound(const double *arg, bool paired, const struct sl_shape *in)
{
	(void)paired;
	return (size_t)(in->dim[0] * means_of(in, (int64_t)arg[SIDE]) * MEAN_BYTES);
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	(void)arg;
	if (!channels || !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: cells needs the tensor as it was, and the stage before it does not keep it");
	return SL_OK;
}

static void close_cells(void *state)
{
	struct cells *s = state;

	free(s->mean);
	free(s);
}

static enum sl_err open_cells(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = env->pool == NULL ? 1 : (size_t)sl_pool_threads(env->pool);
	const struct sl_shape *shape = &env->shape;
	char text[SL_SHAPE_TEXT];
	struct cells *s;

	if (shape->ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: cells needs positions, and %s has none",
				   sl_shape_text(shape, text));
	s = calloc(1, sizeof *s);
	if (s == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "cells: no memory");
	s->env = *env;
	s->f = (int64_t)env->arg[SIDE];
	s->c = shape->dim[shape->ndim - 1];
	s->h = shape->dim[1];
	s->w = shape->ndim == 4 ? shape->dim[2] : 1;
	s->mean = malloc(threads * (size_t)(over(s->w, s->f) * s->c) * sizeof *s->mean);
	if (s->mean == NULL) {
		close_cells(s);
		return sl_fail_set(fail, SL_ERR_NOMEM, "cells: no memory");
	}
	*state = s;
	return SL_OK;
}

/* ---- rows of channels */

static void add_row(float *restrict mean, const float *restrict x, int64_t c)
{
	for (int64_t k = 0; k < c; k++)
		mean[k] += x[k];
}

/* Largest pattern of what is left. */
static uint32_t subtract_row(sl_f32u *restrict y, const float *restrict x, const float *restrict mean, int64_t c)
{
	uint32_t top = 0;

	for (int64_t k = 0; k < c; k++) {
		float left = x[k] - mean[k];
		uint32_t m = sl_magnitude(left);

		y[k] = left;
		top = m > top ? m : top;
	}
	return top;
}

static void restore_row(float *restrict x, const sl_f32u *restrict y, const float *restrict mean, int64_t c)
{
	for (int64_t k = 0; k < c; k++)
		x[k] = y[k] + mean[k];
}

/* ---- bands: lines of positions that share a line of cells, walked in the order of memory */

static int64_t band_lines(const struct cells *s, int64_t band)
{
	int64_t left = s->h - band * s->f;

	return left < s->f ? left : s->f;
}

/* mean [across][c] */
static void average_band(const struct cells *s, const float *x, int64_t lines, float *mean)
{
	int64_t c = s->c, across = over(s->w, s->f);

	memset(mean, 0, (size_t)(across * c) * sizeof *mean);
	for (int64_t i = 0; i < lines; i++) {
		for (int64_t j = 0; j < s->w; j++)
			add_row(mean + j / s->f * c, x + (i * s->w + j) * c, c);
	}
	for (int64_t n = 0; n < across; n++) {
		int64_t left = s->w - n * s->f, width = left < s->f ? left : s->f;
		float share = 1.0f / (float)(lines * width);

		for (int64_t k = 0; k < c; k++)
			mean[n * c + k] *= share;
	}
}

static uint32_t subtract_band(const struct cells *s, const float *x, sl_f32u *y, int64_t lines, const float *mean)
{
	uint32_t top = 0;

	for (int64_t i = 0; i < lines; i++) {
		for (int64_t j = 0; j < s->w; j++) {
			int64_t at = (i * s->w + j) * s->c;
			uint32_t m = subtract_row(y + at, x + at, mean + j / s->f * s->c, s->c);

			top = m > top ? m : top;
		}
	}
	return top;
}

static void restore_band(const struct cells *s, const sl_f32u *y, float *x, int64_t lines, const float *mean)
{
	for (int64_t i = 0; i < lines; i++) {
		for (int64_t j = 0; j < s->w; j++) {
			int64_t at = (i * s->w + j) * s->c;

			restore_row(x + at, y + at, mean + j / s->f * s->c, s->c);
		}
	}
}

/* ---- samples */

static void encode_sample(void *arg, int64_t row, int worker)
{
	struct cells *s = arg;
	int64_t bands = over(s->h, s->f), means = over(s->w, s->f) * s->c;
	float *mean = s->mean + worker * means;
	uint32_t top = 0, left;

	for (int64_t b = 0; b < bands; b++) {
		int64_t at = (row * s->h + b * s->f) * s->w * s->c, lines = band_lines(s, b);
		uint8_t *out = s->out + (row * bands + b) * means * MEAN_BYTES;

		average_band(s, s->x + at, lines, mean);
		left = s->env.loops->to_bf16(mean, means, out);
		top = left > top ? left : top;
		s->env.loops->from_bf16(out, means, mean);
		left = subtract_band(s, s->x + at, s->y + at, lines, mean);
		top = left > top ? left : top;
	}
	if (top >= too_large)
		atomic_store_explicit(&s->nonfinite, true, memory_order_relaxed);
}

static void decode_sample(void *arg, int64_t row, int worker)
{
	struct cells *s = arg;
	int64_t bands = over(s->h, s->f), means = over(s->w, s->f) * s->c;
	float *mean = s->mean + worker * means;

	for (int64_t b = 0; b < bands; b++) {
		int64_t at = (row * s->h + b * s->f) * s->w * s->c;

		s->env.loops->from_bf16(s->in + (row * bands + b) * means * MEAN_BYTES, means, mean);
		restore_band(s, s->from + at, s->to + at, band_lines(s, b), mean);
	}
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_shape *xs,
			   sl_f32u *y, struct sl_shape *ys, struct sl_buf *side)
{
	struct cells *s = state;
	size_t bytes = bound(s->env.arg, false, xs);

	(void)call;
	if (side->cap - side->len < bytes)
		return SL_ERR_LIMIT;
	s->x = x;
	s->y = y;
	s->out = side->data + side->len;
	s->nonfinite = false;
	sl_pool_run(s->env.pool, xs->dim[0], encode_sample, s);
	if (s->nonfinite)
		return SL_ERR_NONFINITE;
	side->len += bytes;
	*ys = *xs;
	return SL_OK;
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_shape *xs, struct sl_shape *ys, struct sl_fail *fail)
{
	struct cells *s = state;
	size_t bytes = bound(s->env.arg, false, xs);

	(void)call;
	if (side.len != bytes || count != sl_shape_count(xs))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "cells: %zu bytes of means and %lld values, expected %zu and %lld", side.len,
				   (long long)count, bytes, (long long)sl_shape_count(xs));
	for (size_t i = 0; i < bytes; i += MEAN_BYTES) {
		if ((side.data[i + 1] & 0x7f) == 0x7f && (side.data[i] & 0x80) != 0)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "cells: mean %zu is not finite", i / MEAN_BYTES);
	}
	s->in = side.data;
	*ys = *xs;
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_shape *ys,
			   float *x, const struct sl_shape *xs)
{
	struct cells *s = state;

	(void)call;
	(void)ys;
	s->from = y;
	s->to = x;
	sl_pool_run(s->env.pool, xs->dim[0], decode_sample, s);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_cells = {
	.id = SL_STAGE_ID_CELLS,
	.kind = SL_STAGE_TRANSFORM,
	.keeps_places = true,
	.name = "cells",
	.usage = "cells:f with f = 2…64, the side of the cells whose means are sent apart",
	.args = args,
	.check = check,
	.keeps_channels = true,
	.keeps_samples = true,
	.shape = shape,
	.bound = bound,
	.open = open_cells,
	.close = close_cells,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
