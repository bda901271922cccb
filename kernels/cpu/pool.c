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

static struct job job_of(struct sl_backend *be, const struct sl_op *op)
{
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	bool whole = op->u.pool.k == 0;

	return (struct job){
		.simd = sl_cpu_simd_of(be),
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

static enum sl_err pool(struct sl_backend *be, const struct sl_op *op, const struct sl_tensor *in,
			struct sl_tensor *out, sl_pool_fn *image)
{
	struct job j = job_of(be, op);

	j.x = in[0].data;
	j.out = out->data;
	sl_pool_run(be->pool, in[0].shape.dim[0], image, &j);
	return SL_OK;
}

static enum sl_err pool_back(struct sl_backend *be, const struct sl_op *op, const struct sl_tensor *in,
			     const struct sl_tensor *dout, struct sl_tensor *din, bool add, sl_pool_fn *image)
{
	struct job j = job_of(be, op);

	if (din[0].data == NULL)
		return SL_OK;
	j.x = in[0].data;
	j.dy = dout->data;
	j.out = din[0].data;
	j.add = add;
	sl_pool_run(be->pool, dout->shape.dim[0], image, &j);
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

static enum sl_err average_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				   const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)state;
	(void)call;
	return pool(be, op, in, out, average_image);
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

static enum sl_err average_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				    const struct sl_op_call *call, const struct sl_tensor *in,
				    const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				    const bool *din_add)
{
	(void)state;
	(void)call;
	(void)out;
	return pool_back(be, op, in, dout, din, din_add[0], average_back_image);
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

static enum sl_err max_forward(struct sl_backend *be, const struct sl_op *op, void *state,
			       const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)state;
	(void)call;
	return pool(be, op, in, out, max_image);
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

static enum sl_err max_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
				const struct sl_tensor *dout, struct sl_tensor *din, const bool *din_add)
{
	(void)state;
	(void)call;
	(void)out;
	return pool_back(be, op, in, dout, din, din_add[0], max_back_image);
}

const struct sl_kernel sl_cpu_maxpool = {sl_cpu_prepare_nothing, NULL, max_forward, max_backward, NULL};
const struct sl_kernel sl_cpu_avgpool = {sl_cpu_prepare_nothing, NULL, average_forward, average_backward, NULL};
