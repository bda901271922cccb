/* cells:f — subtracts from every value the mean of its cell, channel by channel, and sends the means apart. A cell
 * is f×f positions of a sample (f positions of a sequence; fewer at the far edges). A value that a later stage such
 * as topk leaves out comes back as the mean of its cell, not as zero.
 *
 * Side bytes: the means as bf16, [N, ⌈H/f⌉, ⌈W/f⌉, C], or [N, ⌈S/f⌉, F]; for samples of different lengths S, those
 * of each sample in turn. Values: x minus its cell's mean as sent. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/loops_c.h"
#include "common/codec/sized.h"

enum { SIDE };
enum { MEAN_BYTES = 2, BF16_INF_BITS = 0x7f80 };
/* 2^126: from there on, a value minus a mean may overflow. */
static const uint32_t too_large = 0x7e800000;

static const struct sl_arg args[] = {
	{.key = "side", .type = SL_ARG_INT, .positional = true, .required = true, .least = 2, .most = 64},
	{0},
};

struct cells {
	struct sl_stage_env env;
	int64_t f, h, w, c;
	float *mean; /* [threads][⌈w/f⌉][c] */
	/* If samples have different lengths: h is the most, w is 1, and the bands of sample i begin at bands[i]. */
	uint32_t *bands; /* [rows], or NULL */
	/* of the running call */
	struct sl_extent xs;
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	uint8_t *out;
	const uint8_t *in;
	int64_t means; /* how many `in` has */
	atomic_bool nonfinite;
};

static int64_t over(int64_t n, int64_t f)
{
	return (n + f - 1) / f;
}

/* The number of means of all samples. */
static int64_t means_of(const struct sl_extent *e, int64_t f)
{
	const struct sl_shape *s = &e->shape;
	int64_t n = s->dim[s->ndim - 1];

	if (sl_extent_ragged(e))
		return n * sl_extent_cells(e, f);
	for (int i = 1; i + 1 < s->ndim; i++)
		n *= over(s->dim[i], f);
	return s->dim[0] * n;
}

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	*out = *in;
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)(means_of(in, (int64_t)arg[SIDE]) * MEAN_BYTES);
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (!channels || !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: cells needs the tensor as it was, and the stage before it does not keep it");
	return SL_OK;
}

static void close_cells(void *state)
{
	struct cells *s = state;

	free(s->mean);
	free(s->bands);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_shape *s = &env->most.shape;
	int64_t w = s->ndim == 4 ? s->dim[2] : 1, line = over(w, (int64_t)env->arg[SIDE]) * s->dim[s->ndim - 1];

	sl_need(&need->host, sl_stage_threads(env) * line, sizeof(float));
	if (sl_extent_ragged(&env->most))
		sl_need(&need->host, env->most.rows, sizeof(uint32_t));
}

static enum sl_err open_cells(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	const struct sl_shape *shape = &env->most.shape;
	bool ragged = sl_extent_ragged(&env->most);
	char text[SL_SHAPE_TEXT];
	struct cells *s = *state;

	if (ragged ? shape->ndim != 2 : shape->ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: cells needs positions, and %s has none",
				   sl_shape_text(shape, text));
	s->env = *env;
	s->f = (int64_t)env->arg[SIDE];
	s->c = shape->dim[shape->ndim - 1];
	s->h = ragged ? env->most.longest : shape->dim[1];
	s->w = shape->ndim == 4 ? shape->dim[2] : 1;
	s->mean = malloc(threads * (size_t)(over(s->w, s->f) * s->c) * sizeof *s->mean);
	if (ragged)
		s->bands = malloc((size_t)env->most.rows * sizeof *s->bands);
	return s->mean != NULL && (!ragged || s->bands != NULL) ? SL_OK
								: sl_fail_set(fail, SL_ERR_NOMEM, "cells: no memory");
}

/* ---- bands: lines of positions that share a line of cells, walked in the order of memory */

/* For one sample: its lines, the lines before it, the bands before it. */
struct lines {
	int64_t count, before, bands_before;
};

static struct lines lines_of(const struct cells *s, int64_t row)
{
	if (s->bands == NULL)
		return (struct lines){s->h, row * s->h, row * over(s->h, s->f)};
	return (struct lines){sl_extent_length(&s->xs, row), s->xs.begin[row], s->bands[row]};
}

/* For calls of lines_of that follow. */
static void set_extent(struct cells *s, const struct sl_extent *xs)
{
	uint32_t bands = 0;

	s->xs = *xs;
	for (int64_t row = 0; s->bands != NULL && row < xs->rows; row++) {
		s->bands[row] = bands;
		bands += (uint32_t)over(sl_extent_length(xs, row), s->f);
	}
}

static int64_t band_lines(const struct cells *s, int64_t count, int64_t band)
{
	int64_t left = count - band * s->f;

	return left < s->f ? left : s->f;
}

static void encode_sample(void *arg, int64_t row, int worker)
{
	struct cells *s = arg;
	const struct sl_codec_loops *loops = s->env.loops;
	const struct lines l = lines_of(s, row);
	int64_t bands = over(l.count, s->f), means = over(s->w, s->f) * s->c, line = s->w * s->c;
	float *mean = s->mean + worker * means;
	uint32_t top = 0, left;

	for (int64_t b = 0; b < bands; b++) {
		int64_t at = (l.before + b * s->f) * line, lines = band_lines(s, l.count, b);
		uint8_t *out = s->out + (l.bands_before + b) * means * MEAN_BYTES;

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

/* Restores elements first … first+n-1. Each pass takes part of one position, or whole positions of one line. */
static void restore_run(const void *state, const sl_f32u *y, int64_t first, int64_t n, float *x)
{
	const struct cells *s = state;
	int64_t c = s->c, means = over(s->w, s->f) * c, of = s->w * c;
	int64_t row = s->bands == NULL ? first / of / s->h : sl_extent_find(&s->xs, first / of);
	struct lines l = lines_of(s, row);

	for (int64_t some; n > 0; n -= some, first += some, y += some, x += some) {
		int64_t line = first / of, j = first / c % s->w, k = first % c;
		const uint8_t *mean;

		if (line == l.before + l.count)
			l = lines_of(s, ++row);
		mean = s->in + (l.bands_before + (line - l.before) / s->f) * means * MEAN_BYTES;

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
	const struct lines l = lines_of(s, row);
	int64_t line = s->w * s->c, at = l.before * line;

	restore_run(s, s->from + at, at, l.count * line, s->to + at);
	sl_codec_settle(s->env.loops);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct cells *s = state;
	size_t bytes = bound(s->env.arg, false, xs);

	if (side->cap - side->len < bytes)
		return SL_ERR_LIMIT;
	s->x = x;
	s->y = y;
	s->out = side->data + side->len;
	s->nonfinite = false;
	set_extent(s, xs);
	sl_pool_run(s->env.pool, xs->rows, encode_sample, s);
	if (s->nonfinite)
		return SL_ERR_NONFINITE;
	side->len += bytes;
	*ys = *xs;
	return SL_OK;
}

/* The bit pattern of a mean, without the sign. It is signed, because plain x86-64 can compare eight signed words at
 * once, but not unsigned ones. */
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

	for (int64_t i = first; i < stop; i++)
		most = size_of_mean(s->in + i * MEAN_BYTES) > most ? size_of_mean(s->in + i * MEAN_BYTES) : most;
	if (most >= BF16_INF_BITS)
		atomic_store_explicit(&s->nonfinite, true, memory_order_relaxed);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct cells *s = state;
	size_t bytes = bound(s->env.arg, false, xs);
	int64_t at = 0;

	if (side.len != bytes || count != sl_shape_count(&xs->shape))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "cells: %zu bytes of means and %lld values, expected %zu and %lld", side.len,
				   (long long)count, bytes, (long long)sl_shape_count(&xs->shape));
	set_extent(s, xs);
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

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct cells *s = state;

	s->from = y;
	s->to = x;
	sl_pool_run(s->env.pool, xs->rows, decode_sample, s);
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
	.by_sample = sl_sized_always,
	.keeps_channels = true,
	.keeps_samples = true,
	.shape = shape,
	.bound = bound,
	.size = sizeof(struct cells),
	.memory = memory,
	.open = open_cells,
	.close = close_cells,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
	.restore_run = restore_run,
};
