/* downsample:f — means of f×f positions (f positions of a sequence; fewer at the far edges), restored by linear
 * interpolation between their centres. Output i lies at (i + 1/2)/f − 1/2 between small positions, held at the ends.
 * A gradient g that is paired with its activation goes through the adjoint: Uᵀ·g is sent, and Aᵀ restores it, with U
 * the interpolation and A the mean.
 *
 * Values left: [N, ⌈H/f⌉, ⌈W/f⌉, C], or [N, ⌈S/f⌉, F]; for samples of different lengths S, those of each sample in
 * turn. Side bytes: none. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/sized.h"

enum { FACTOR };

static const struct sl_arg args[] = {
	{.key = "factor", .type = SL_ARG_INT, .positional = true, .required = true, .least = 2, .most = 64},
	{0},
};

/* The sides of a sample, and of the grid of cells that it is divided into. */
struct sides {
	int64_t f, h, w, c, small_h, small_w;
	struct sl_tap *rows, *cols; /* [h], [w] */
};

struct downsample {
	struct sl_stage_env env;
	bool adjoint, ragged;
	/* Of the largest sample. If samples have different lengths, w is 1, and rows is [threads][h], for the sample
	 * that each thread works on. */
	struct sides most;
	float *scratch; /* [threads][small_h · small_w · c] */
	/* of the running call */
	const struct sl_extent *large, *small;
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	atomic_bool nonfinite;
};

static int64_t over(int64_t n, int64_t f)
{
	return (n + f - 1) / f;
}

static struct sides sides_of(const struct sl_extent *e, int64_t f)
{
	const struct sl_shape *s = &e->shape;
	struct sides to = {.f = f, .h = s->ndim > 2 ? s->dim[1] : 1, .w = s->ndim == 4 ? s->dim[2] : 1};

	if (sl_extent_ragged(e))
		to.h = e->longest;
	to.c = s->dim[s->ndim - 1];
	to.small_h = over(to.h, f);
	to.small_w = over(to.w, f);
	return to;
}

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	int64_t f = (int64_t)arg[FACTOR];

	*out = *in;
	for (int i = 1; i + 1 < in->shape.ndim; i++)
		out->shape.dim[i] = over(in->shape.dim[i], f);
	if (!sl_extent_ragged(in))
		return;
	out->shape.dim[0] = sl_extent_cells(in, f);
	out->longest = over(in->longest, f);
	out->begin = begin;
	for (int64_t i = 0; begin != NULL && i <= in->rows; i++)
		begin[i] = i == 0 ? 0 : begin[i - 1] + (uint32_t)over(sl_extent_length(in, i - 1), f);
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (!channels || !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: downsample needs the tensor as it was, and the stage before it "
				   "does not keep it");
	return SL_OK;
}

/* Never: the means leave out a part that is never sent. */
static bool contracts(const double *arg, const struct sl_extent *in)
{
	return false;
}

static void close_downsample(void *state)
{
	struct downsample *d = state;

	free(d->most.rows);
	free(d->most.cols);
	free(d->scratch);
}

static void set_taps(struct sl_tap *taps, int64_t n, int64_t small, int64_t f)
{
	for (int64_t i = 0; i < n; i++)
		taps[i] = sl_tap_of(i, small, f);
}

/* The number of taps of lines: a set for each thread if samples have different lengths. */
static int64_t line_taps(const struct sl_stage_env *env, const struct sides *s)
{
	return sl_extent_ragged(&env->most) ? sl_stage_threads(env) * s->h : s->h;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sides s = sides_of(&env->most, (int64_t)env->arg[FACTOR]);

	sl_need(&need->host, line_taps(env, &s) + s.w, sizeof(struct sl_tap));
	sl_need(&need->host, sl_stage_threads(env) * s.small_h * s.small_w * s.c, sizeof(float));
}

static enum sl_err open_downsample(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	const struct sl_shape *shape = &env->most.shape;
	bool ragged = sl_extent_ragged(&env->most);
	char text[SL_SHAPE_TEXT];
	struct downsample *d = *state;
	struct sides *s = &d->most;

	if (ragged ? shape->ndim != 2 : shape->ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: downsample needs positions, and %s has none",
				   sl_shape_text(shape, text));
	d->env = *env;
	d->adjoint = env->pair != NULL;
	d->ragged = ragged;
	d->most = sides_of(&env->most, (int64_t)env->arg[FACTOR]);
	s->rows = malloc((size_t)line_taps(env, s) * sizeof *s->rows);
	s->cols = malloc((size_t)s->w * sizeof *s->cols);
	d->scratch = malloc(threads * (size_t)(s->small_h * s->small_w * s->c) * sizeof *d->scratch);
	if (s->rows == NULL || s->cols == NULL || d->scratch == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "downsample: no memory");
	if (!ragged)
		set_taps(s->rows, s->h, s->small_h, s->f);
	set_taps(s->cols, s->w, s->small_w, s->f);
	return SL_OK;
}

/* ---- one sample */

static void axpy(float *to, const float *from, float weight, int64_t c)
{
	for (int64_t k = 0; k < c; k++)
		to[k] += weight * from[k];
}

/* Weight of a position in the mean of its cell. */
static float mean_weight(const struct sides *d, int64_t i, int64_t j)
{
	int64_t rows = d->h - i / d->f * d->f, cols = d->w - j / d->f * d->f;

	return 1 / (float)((rows < d->f ? rows : d->f) * (cols < d->f ? cols : d->f));
}

/* small = A·x */
static void mean(const struct sides *d, const float *x, float *small)
{
	for (int64_t i = 0; i < d->h; i++) {
		for (int64_t j = 0; j < d->w; j++)
			axpy(small + (i / d->f * d->small_w + j / d->f) * d->c, x + (i * d->w + j) * d->c,
			     mean_weight(d, i, j), d->c);
	}
}

/* x = Aᵀ·small */
static void spread(const struct sides *d, const float *small, float *x)
{
	for (int64_t i = 0; i < d->h; i++) {
		for (int64_t j = 0; j < d->w; j++) {
			const float *from = small + (i / d->f * d->small_w + j / d->f) * d->c;
			float *to = x + (i * d->w + j) * d->c, weight = mean_weight(d, i, j);

			for (int64_t k = 0; k < d->c; k++)
				to[k] = weight * from[k];
		}
	}
}

/* x = U·small */
static void interpolate(const struct sides *d, const struct sl_codec_loops *loops, const float *small, float *x)
{
	for (int64_t i = 0; i < d->h; i++) {
		const struct sl_tap *r = &d->rows[i];
		const float *top = small + r->at * d->small_w * d->c, *low = small + r->next * d->small_w * d->c;

		loops->interpolate(top, low, r, d->cols, d->w, d->c, x + i * d->w * d->c);
	}
}

/* small = Uᵀ·x */
static void collect(const struct sides *d, const float *x, float *small)
{
	for (int64_t i = 0; i < d->h; i++) {
		const struct sl_tap *r = &d->rows[i];
		float *top = small + r->at * d->small_w * d->c, *low = small + r->next * d->small_w * d->c;

		for (int64_t j = 0; j < d->w; j++) {
			const struct sl_tap *s = &d->cols[j];
			const float *from = x + (i * d->w + j) * d->c;

			axpy(top + s->at * d->c, from, r->near * s->near, d->c);
			axpy(top + s->next * d->c, from, r->near * s->far, d->c);
			axpy(low + s->at * d->c, from, r->far * s->near, d->c);
			axpy(low + s->next * d->c, from, r->far * s->far, d->c);
		}
	}
}

/* The sides of one sample. If samples have different lengths, also sets this thread's taps. */
static struct sides sides_at(const struct downsample *d, int64_t row, int worker)
{
	struct sides s = d->most;

	if (!d->ragged)
		return s;
	s.h = sl_extent_length(d->large, row);
	s.small_h = over(s.h, s.f);
	s.rows += worker * d->most.h;
	set_taps(s.rows, s.h, s.small_h, s.f);
	return s;
}

static float *scratch_of(const struct downsample *d, int worker)
{
	return d->scratch + worker * d->most.small_h * d->most.small_w * d->most.c;
}

static void forward_sample(void *arg, int64_t row, int worker)
{
	struct downsample *d = arg;
	const struct sides s = sides_at(d, row, worker);
	int64_t count = s.small_h * s.small_w * s.c;
	float *small = scratch_of(d, worker);
	bool good = true;

	memset(small, 0, (size_t)count * sizeof *small);
	(d->adjoint ? collect : mean)(&s, d->x + sl_extent_at(d->large, row), small);
	for (int64_t i = 0; i < count; i++)
		good = good && isfinite(small[i]);
	if (!good)
		atomic_store_explicit(&d->nonfinite, true, memory_order_relaxed);
	memcpy((void *)(d->y + sl_extent_at(d->small, row)), small, (size_t)count * sizeof *small);
}

static void inverse_sample(void *arg, int64_t row, int worker)
{
	struct downsample *d = arg;
	const struct sides s = sides_at(d, row, worker);
	int64_t count = s.small_h * s.small_w * s.c;
	float *small = scratch_of(d, worker), *to = d->to + sl_extent_at(d->large, row);

	/* a copy, because values in a payload are not aligned */
	memcpy(small, (const void *)(d->from + sl_extent_at(d->small, row)), (size_t)count * sizeof *small);
	if (d->adjoint)
		spread(&s, small, to);
	else
		interpolate(&s, d->env.loops, small, to);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct downsample *d = state;

	d->x = x;
	d->y = y;
	d->large = xs;
	d->small = ys;
	d->nonfinite = false;
	sl_pool_run(d->env.pool, xs->rows, forward_sample, d);
	return d->nonfinite ? SL_ERR_NONFINITE : SL_OK;
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	return sl_sized_parse("downsample", ys, side, count, fail);
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct downsample *d = state;

	d->from = y;
	d->to = x;
	d->large = xs;
	d->small = ys;
	sl_pool_run(d->env.pool, xs->rows, inverse_sample, d);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_downsample = {
	.id = SL_STAGE_ID_DOWNSAMPLE,
	.kind = SL_STAGE_TRANSFORM,
	.pairs = true,
	.name = "downsample",
	.usage = "downsample:f with f = 2…64",
	.args = args,
	.check = check,
	.contracts = contracts,
	.instead = "",
	.by_sample = sl_sized_always,
	.keeps_channels = true,
	.keeps_samples = true,
	.shape = shape,
	.bound = sl_sized_bound,
	.size = sizeof(struct downsample),
	.memory = memory,
	.open = open_downsample,
	.close = close_downsample,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
