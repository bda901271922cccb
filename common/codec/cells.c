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
enum { MEAN_BYTES = 2, BF16_INF_BITS = 0x7f80 };
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
	int64_t means; /* in `in` */
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

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_shape *s = &env->shape;
	int64_t w = s->ndim == 4 ? s->dim[2] : 1, line = over(w, (int64_t)env->arg[SIDE]) * s->dim[s->ndim - 1];

	(void)pairing;
	sl_need(&need->host, 1, sizeof(struct cells));
	sl_need(&need->host, sl_stage_threads(env) * line, sizeof(float));
}

static enum sl_err open_cells(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
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

/* ---- bands: lines of positions that share a line of cells, walked in the order of memory */

static int64_t band_lines(const struct cells *s, int64_t band)
{
	int64_t left = s->h - band * s->f;

	return left < s->f ? left : s->f;
}

static void encode_sample(void *arg, int64_t row, int worker)
{
	struct cells *s = arg;
	const struct sl_codec_loops *loops = s->env.loops;
	int64_t bands = over(s->h, s->f), means = over(s->w, s->f) * s->c, line = s->w * s->c;
	float *mean = s->mean + worker * means;
	uint32_t top = 0, left;

	for (int64_t b = 0; b < bands; b++) {
		int64_t at = (row * s->h + b * s->f) * line, lines = band_lines(s, b);
		uint8_t *out = s->out + (row * bands + b) * means * MEAN_BYTES;

		loops->average_cells(s->x + at, lines, s->w, s->f, s->c, mean);
		left = loops->to_bf16(mean, means, out);
		top = left > top ? left : top;
		for (int64_t i = 0; i < lines; i++, at += line) {
			left = loops->subtract_cells(s->x + at, out, s->w, s->f, s->c, s->y + at);
			top = left > top ? left : top;
		}
	}
	sl_codec_settle(loops);
	if (top >= too_large)
		atomic_store_explicit(&s->nonfinite, true, memory_order_relaxed);
}

/* Part of one position, or positions of one line, whichever begins at element `first`. */
static void restore_run(const void *state, const sl_f32u *y, int64_t first, int64_t n, float *x)
{
	const struct cells *s = state;
	int64_t c = s->c, bands = over(s->h, s->f), means = over(s->w, s->f) * c;

	for (int64_t some; n > 0; n -= some, first += some, y += some, x += some) {
		int64_t line = first / (s->w * c), j = first / c % s->w, k = first % c;
		int64_t band = line / s->h * bands + line % s->h / s->f;
		const uint8_t *mean = s->in + band * means * MEAN_BYTES;

		if (k == 0 && n >= c) {
			int64_t to = n / c < s->w - j ? j + n / c : s->w;

			some = (to - j) * c;
			s->env.loops->add_cells(y, mean, j, to, s->f, c, x);
		} else {
			some = c - k < n ? c - k : n;
			s->env.loops->add_cells(y, mean + (j / s->f * c + k) * MEAN_BYTES, 0, 1, 1, some, x);
		}
	}
}

static void decode_sample(void *arg, int64_t row, int worker)
{
	const struct cells *s = arg;
	int64_t n = s->h * s->w * s->c;

	(void)worker;
	restore_run(s, s->from + row * n, row * n, n, s->to + row * n);
	sl_codec_settle(s->env.loops);
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

/* Pattern of a mean, without the sign: signed, because that is what plain x86-64 can compare eight of at once. */
static inline int16_t size_of_mean(const uint8_t *mean)
{
	uint16_t half;

	memcpy(&half, mean, sizeof half);
	return (int16_t)(half & 0x7fff);
}

static void check_block(void *arg, int64_t block, int worker)
{
	struct cells *s = arg;
	int64_t first = block * SL_CODEC_BLOCK,
		stop = first + SL_CODEC_BLOCK < s->means ? first + SL_CODEC_BLOCK : s->means;
	int16_t most = 0;

	(void)worker;
	for (int64_t i = first; i < stop; i++)
		most = size_of_mean(s->in + i * MEAN_BYTES) > most ? size_of_mean(s->in + i * MEAN_BYTES) : most;
	if (most >= BF16_INF_BITS)
		atomic_store_explicit(&s->nonfinite, true, memory_order_relaxed);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_shape *xs, struct sl_shape *ys, struct sl_fail *fail)
{
	struct cells *s = state;
	size_t bytes = bound(s->env.arg, false, xs);
	int64_t at = 0;

	(void)call;
	if (side.len != bytes || count != sl_shape_count(xs))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "cells: %zu bytes of means and %lld values, expected %zu and %lld", side.len,
				   (long long)count, bytes, (long long)sl_shape_count(xs));
	s->in = side.data;
	s->means = (int64_t)bytes / MEAN_BYTES;
	s->nonfinite = false;
	sl_pool_run(s->env.pool, sl_codec_blocks(s->means), check_block, s);
	if (s->nonfinite) {
		while (size_of_mean(side.data + at * MEAN_BYTES) < BF16_INF_BITS)
			at++;
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "cells: mean %lld is not finite", (long long)at);
	}
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
	.memory = memory,
	.open = open_cells,
	.close = close_cells,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
	.restore_run = restore_run,
};
