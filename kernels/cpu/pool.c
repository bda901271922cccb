/* Max and average pooling: one block of work per image, channels in the innermost loop. Max pooling finds its maxima
 * again in backward: the first one of a window in row order takes the gradient, as in PyTorch. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/impl.h"

struct job {
	const struct sl_cpu_simd *simd;
	int64_t h, w, c, out_h, out_w;
	int k_h, k_w, stride, pad;
	const float *x, *dy;
	float *out; /* y or dx */
	bool add;
};

static struct job job_of(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	bool whole = op->u.pool.k == 0;

	return (struct job){
		.simd = sl_cpu_simd_of(call->be),
		.h = in[1],
		.w = in[2],
		.c = in[3],
		.out_h = out[1],
		.out_w = out[2],
		.k_h = whole ? (int)in[1] : op->u.pool.k,
		.k_w = whole ? (int)in[2] : op->u.pool.k,
		.stride = whole ? 1 : op->u.pool.stride,
		.pad = whole ? 0 : op->u.pool.pad,
	};
}

struct window {
	int64_t h0, h1, w0, w1; /* the part of it that lies in the image */
};

static struct window window_at(const struct job *j, int64_t oh, int64_t ow)
{
	int64_t h = oh * j->stride - j->pad, w = ow * j->stride - j->pad;

	return (struct window){sl_cpu_max(0, h), sl_cpu_min(j->h, h + j->k_h), sl_cpu_max(0, w),
			       sl_cpu_min(j->w, w + j->k_w)};
}

static enum sl_err pool(const struct sl_op_call *call, sl_pool_fn *image)
{
	struct job j = job_of(call);

	j.x = call->in[0].data;
	j.out = call->out.data;
	sl_pool_run(call->be->pool, call->in[0].shape.dim[0], image, &j);
	return SL_OK;
}

static enum sl_err pool_back(const struct sl_op_call *call, sl_pool_fn *image)
{
	struct job j = job_of(call);

	if (call->din[0].data == NULL)
		return SL_OK;
	j.x = call->in[0].data;
	j.dy = call->dout.data;
	j.out = call->din[0].data;
	j.add = call->din_add[0];
	sl_pool_run(call->be->pool, call->dout.shape.dim[0], image, &j);
	return SL_OK;
}

static void average_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const float *x = j->x + n * j->h * j->w * j->c;
	float *y = j->out + n * j->out_h * j->out_w * j->c;

	(void)worker;
	for (int64_t oh = 0; oh < j->out_h; oh++)
		for (int64_t ow = 0; ow < j->out_w; ow++, y += j->c) {
			struct window v = window_at(j, oh, ow);

			j->simd->window_sum(y, x + (v.h0 * j->w + v.w0) * j->c, j->w * j->c, v.h1 - v.h0, v.w1 - v.w0,
					    (int)j->c, 1.0 / (double)(j->k_h * j->k_w));
		}
}

static enum sl_err average_forward(const struct sl_op_call *call)
{
	return pool(call, average_image);
}

static void average_back_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const float *dy = j->dy + n * j->out_h * j->out_w * j->c;
	float *dx = j->out + n * j->h * j->w * j->c;
	bool whole = j->k_h == j->h && j->k_w == j->w && j->pad == 0;
	float by = 1.0f / (float)(j->k_h * j->k_w);

	(void)worker;
	if (!whole && !j->add)
		memset(dx, 0, (size_t)(j->h * j->w * j->c) * sizeof(float));
	for (int64_t oh = 0; oh < j->out_h; oh++)
		for (int64_t ow = 0; ow < j->out_w; ow++, dy += j->c) {
			struct window v = window_at(j, oh, ow);

			for (int64_t h = v.h0; h < v.h1; h++)
				for (int64_t w = v.w0; w < v.w1; w++)
					j->simd->scale(dx + (h * j->w + w) * j->c, dy, by, j->c, j->add || !whole);
		}
}

static enum sl_err average_backward(const struct sl_op_call *call)
{
	return pool_back(call, average_back_image);
}

/* A NaN is a maximum, so that it is seen. */
static bool beats(float v, float best)
{
	return v > best || isnan(v);
}

static void max_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const float *x = j->x + n * j->h * j->w * j->c;
	float *y = j->out + n * j->out_h * j->out_w * j->c;

	(void)worker;
	for (int64_t oh = 0; oh < j->out_h; oh++)
		for (int64_t ow = 0; ow < j->out_w; ow++, y += j->c) {
			struct window v = window_at(j, oh, ow);

			for (int64_t k = 0; k < j->c; k++)
				y[k] = -INFINITY;
			for (int64_t h = v.h0; h < v.h1; h++)
				for (int64_t w = v.w0; w < v.w1; w++) {
					const float *at = x + (h * j->w + w) * j->c;

					for (int64_t k = 0; k < j->c; k++)
						y[k] = beats(at[k], y[k]) ? at[k] : y[k];
				}
		}
}

static enum sl_err max_forward(const struct sl_op_call *call)
{
	return pool(call, max_image);
}

static void max_back_window(const struct job *j, float *dx, const float *dy, const float *x, struct window v)
{
	for (int64_t k = 0; k < j->c; k++) {
		int64_t where = (v.h0 * j->w + v.w0) * j->c + k;
		float best = -INFINITY;

		for (int64_t h = v.h0; h < v.h1; h++)
			for (int64_t w = v.w0; w < v.w1; w++) {
				int64_t at = (h * j->w + w) * j->c + k;

				if (beats(x[at], best)) {
					best = x[at];
					where = at;
				}
			}
		dx[where] += dy[k];
	}
}

static void max_back_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const float *x = j->x + n * j->h * j->w * j->c, *dy = j->dy + n * j->out_h * j->out_w * j->c;
	float *dx = j->out + n * j->h * j->w * j->c;

	(void)worker;
	if (!j->add)
		memset(dx, 0, (size_t)(j->h * j->w * j->c) * sizeof(float));
	for (int64_t oh = 0; oh < j->out_h; oh++)
		for (int64_t ow = 0; ow < j->out_w; ow++, dy += j->c)
			max_back_window(j, dx, dy, x, window_at(j, oh, ow));
}

static enum sl_err max_backward(const struct sl_op_call *call)
{
	return pool_back(call, max_back_image);
}

const struct sl_kernel sl_cpu_maxpool = {.forward = max_forward, .backward = max_backward};
const struct sl_kernel sl_cpu_avgpool = {.forward = average_forward, .backward = average_backward};
