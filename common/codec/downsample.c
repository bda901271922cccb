/* downsample:f — means of f×f positions (f positions of a sequence; fewer at the far edges), restored by linear
 * interpolation between their centres: output i lies at (i + 1/2)/f − 1/2 between small positions, held at the ends.
 * A gradient that is paired with its activation goes through the adjoint of that: it is sent as Uᵀ·g, restored as
 * Aᵀ·(that), with U the interpolation and A the mean.
 *
 * Values left: [N, ⌈H/f⌉, ⌈W/f⌉, C], or [N, ⌈S/f⌉, F]. Side bytes: none. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/sized.h"

enum { FACTOR };

static const struct sl_stage_arg args[] = {
	{.key = "factor", .type = SL_ARG_INT, .positional = true, .required = true, .least = 2, .most = 64},
	{0},
};

struct downsample {
	struct sl_stage_env env;
	bool adjoint;
	int64_t f, h, w, c, small_h, small_w;
	struct sl_tap *rows, *cols; /* [h], [w] */
	float *scratch;             /* [threads][small_h · small_w · c] */
	/* of the running call */
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	atomic_bool nonfinite;
};

static void sides(const struct sl_shape *s, int64_t *h, int64_t *w, int64_t *c)
{
	*c = s->dim[s->ndim - 1];
	*h = s->ndim > 2 ? s->dim[1] : 1;
	*w = s->ndim == 4 ? s->dim[2] : 1;
}

static void shape(const double *arg, const struct sl_shape *in, struct sl_shape *out)
{
	int64_t f = (int64_t)arg[FACTOR];

	*out = *in;
	for (int i = 1; i + 1 < in->ndim; i++)
		out->dim[i] = (in->dim[i] + f - 1) / f;
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	(void)arg;
	if (!channels || !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: downsample needs the tensor as it was, and the stage before it "
				   "does not keep it");
	return SL_OK;
}

static void close_downsample(void *state)
{
	struct downsample *d = state;

	free(d->rows);
	free(d->cols);
	free(d->scratch);
	free(d);
}

static struct sl_tap *make_taps(int64_t n, int64_t small, int64_t f)
{
	struct sl_tap *taps = malloc((size_t)n * sizeof *taps);

	for (int64_t i = 0; taps != NULL && i < n; i++)
		taps[i] = sl_tap_of(i, small, f);
	return taps;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	struct sl_shape small;
	int64_t h, w, c, n;

	(void)pairing;
	shape(env->arg, &env->shape, &small);
	sides(&env->shape, &h, &w, &c);
	n = sl_shape_row(&small);
	sl_need(&need->host, 1, sizeof(struct downsample));
	sl_need(&need->host, h + w, sizeof(struct sl_tap));
	sl_need(&need->host, sl_stage_threads(env) * n, sizeof(float));
}

static enum sl_err open_downsample(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	char text[SL_SHAPE_TEXT];
	struct downsample *d;

	if (env->shape.ndim < 3)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: downsample needs positions, and %s has none",
				   sl_shape_text(&env->shape, text));
	d = calloc(1, sizeof *d);
	if (d == NULL)
		goto fail;
	d->env = *env;
	d->adjoint = env->pair != NULL;
	d->f = (int64_t)env->arg[FACTOR];
	sides(&env->shape, &d->h, &d->w, &d->c);
	d->small_h = (d->h + d->f - 1) / d->f;
	d->small_w = (d->w + d->f - 1) / d->f;
	d->rows = make_taps(d->h, d->small_h, d->f);
	d->cols = make_taps(d->w, d->small_w, d->f);
	d->scratch = malloc(threads * (size_t)(d->small_h * d->small_w * d->c) * sizeof *d->scratch);
	if (d->rows == NULL || d->cols == NULL || d->scratch == NULL)
		goto fail;
	*state = d;
	return SL_OK;
fail:
	if (d != NULL)
		close_downsample(d);
	return sl_fail_set(fail, SL_ERR_NOMEM, "downsample: no memory");
}

/* ---- one sample */

static void axpy(float *to, const float *from, float weight, int64_t c)
{
	for (int64_t k = 0; k < c; k++)
		to[k] += weight * from[k];
}

/* Weight of a position in the mean of its cell. */
static float mean_weight(const struct downsample *d, int64_t i, int64_t j)
{
	int64_t rows = d->h - i / d->f * d->f, cols = d->w - j / d->f * d->f;

	return 1 / (float)((rows < d->f ? rows : d->f) * (cols < d->f ? cols : d->f));
}

/* small = A·x */
static void mean(const struct downsample *d, const float *x, float *small)
{
	for (int64_t i = 0; i < d->h; i++) {
		for (int64_t j = 0; j < d->w; j++)
			axpy(small + (i / d->f * d->small_w + j / d->f) * d->c, x + (i * d->w + j) * d->c,
			     mean_weight(d, i, j), d->c);
	}
}

/* x = Aᵀ·small */
static void spread(const struct downsample *d, const float *small, float *x)
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
static void interpolate(const struct downsample *d, const float *small, float *x)
{
	for (int64_t i = 0; i < d->h; i++) {
		const struct sl_tap *r = &d->rows[i];
		const float *top = small + r->at * d->small_w * d->c, *low = small + r->next * d->small_w * d->c;

		d->env.loops->interpolate(top, low, r, d->cols, d->w, d->c, x + i * d->w * d->c);
	}
}

/* small = Uᵀ·x */
static void collect(const struct downsample *d, const float *x, float *small)
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

static void forward_sample(void *arg, int64_t row, int worker)
{
	struct downsample *d = arg;
	int64_t count = d->small_h * d->small_w * d->c;
	float *small = d->scratch + worker * count;
	bool good = true;

	memset(small, 0, (size_t)count * sizeof *small);
	(d->adjoint ? collect : mean)(d, d->x + row * d->h * d->w * d->c, small);
	for (int64_t i = 0; i < count; i++)
		good = good && isfinite(small[i]);
	if (!good)
		atomic_store_explicit(&d->nonfinite, true, memory_order_relaxed);
	memcpy((void *)(d->y + row * count), small, (size_t)count * sizeof *small);
}

static void inverse_sample(void *arg, int64_t row, int worker)
{
	struct downsample *d = arg;
	int64_t count = d->small_h * d->small_w * d->c;
	float *small = d->scratch + worker * count;

	/* a copy, because values in a payload have no alignment */
	memcpy(small, (const void *)(d->from + row * count), (size_t)count * sizeof *small);
	(d->adjoint ? spread : interpolate)(d, small, d->to + row * d->h * d->w * d->c);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_shape *xs,
			   sl_f32u *y, struct sl_shape *ys, struct sl_buf *side)
{
	struct downsample *d = state;

	(void)call;
	(void)side;
	d->x = x;
	d->y = y;
	d->nonfinite = false;
	sl_pool_run(d->env.pool, xs->dim[0], forward_sample, d);
	if (d->nonfinite)
		return SL_ERR_NONFINITE;
	shape(d->env.arg, xs, ys);
	return SL_OK;
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_shape *xs, struct sl_shape *ys, struct sl_fail *fail)
{
	struct downsample *d = state;
	struct sl_shape expect;

	(void)call;
	shape(d->env.arg, xs, &expect);
	return sl_sized_parse("downsample", &expect, side, count, ys, fail);
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_shape *ys,
			   float *x, const struct sl_shape *xs)
{
	struct downsample *d = state;

	(void)call;
	(void)ys;
	d->from = y;
	d->to = x;
	sl_pool_run(d->env.pool, xs->dim[0], inverse_sample, d);
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
	.keeps_channels = true,
	.keeps_samples = true,
	.shape = shape,
	.bound = sl_sized_bound,
	.memory = memory,
	.open = open_downsample,
	.close = close_downsample,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
