/* Max and average pooling. An image is one block of work, with some windows a step; channels are the
 * innermost loop. A single window of a large image, as a volume is, is divided into blocks of channels. Max pooling
 * finds its maxima again in backward: the first one of a window in row order takes the gradient, as in PyTorch. */
#include <string.h>

#include "kernels/cpu/impl.h"

enum {
	CALL = 16,     /* overhead of a window, in elements */
	CHANNELS = 32, /* of a block, if there are several */
	LARGE = 8 * SL_CPU_BLOCK
};

struct job {
	const struct sl_cpu_simd *simd;
	int64_t h, w, c, out_h, out_w;
	int64_t k_h, k_w;
	int stride, pad;
	int64_t step;            /* windows */
	int64_t blocks, block_c; /* of an image; channels of a block */
	const float *x, *dy;
	float *out; /* y or dx */
	bool add;
};

static struct job job_of(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	bool whole = op->u.pool.k == 0;
	int64_t k_h = whole ? in[1] : op->u.pool.k, k_w = whole ? in[2] : op->u.pool.k;

	const bool divides = whole && in[1] * in[2] * in[3] > LARGE;
	const int64_t block_c = divides ? CHANNELS : in[3];

	return (struct job){
		.blocks = sl_cpu_blocks(in[3], block_c),
		.block_c = block_c,
		.simd = sl_cpu_simd_of(call->be),
		.h = in[1],
		.w = in[2],
		.c = in[3],
		.out_h = out[1],
		.out_w = out[2],
		.k_h = k_h,
		.k_w = k_w,
		.step = sl_cpu_max(1, SL_CPU_BLOCK / (CALL + sl_cpu_min(k_h, in[1]) * sl_cpu_min(k_w, in[2]) * in[3])),
		.stride = whole ? 1 : op->u.pool.stride,
		.pad = whole ? 0 : op->u.pool.pad,
	};
}

struct window {
	int64_t h0, h1, w0, w1; /* the part of the window that lies in the image */
	int c;                  /* the block's channels */
};

static struct window window_at(const struct job *j, int64_t oh, int64_t ow, int64_t c)
{
	int64_t h = oh * j->stride - j->pad, w = ow * j->stride - j->pad;

	return (struct window){sl_cpu_max(0, h), sl_cpu_min(j->h, h + j->k_h), sl_cpu_max(0, w),
			       sl_cpu_min(j->w, w + j->k_w), (int)c};
}

static enum sl_err pool(const struct sl_op_call *call, sl_pool_long_fn *image)
{
	struct job j = job_of(call);

	j.x = call->in[0].data;
	j.out = call->out.data;
	sl_pool_run_long(call->be->pool, call->in[0].shape.dim[0] * j.blocks, image, &j);
	return SL_OK;
}

static enum sl_err pool_back(const struct sl_op_call *call, sl_pool_long_fn *image)
{
	struct job j = job_of(call);

	if (call->din[0].data == NULL)
		return SL_OK;
	j.x = call->in[0].data;
	j.dy = call->dout.data;
	j.out = call->din[0].data;
	j.add = call->din_add[0];
	sl_pool_run_long(call->be->pool, call->dout.shape.dim[0] * j.blocks, image, &j);
	return SL_OK;
}

/* Processes one window of an image: writes all of its y, or adds its share to dx. */
typedef void window_fn(const struct job *j, const float *x, float *out, const float *dy, struct window v);

/* Runs fn for the windows of an image's block, in order. */
static void windows(const struct job *j, int64_t block, struct sl_pool_step *s, window_fn *fn)
{
	const int64_t in = j->h * j->w * j->c, outs = j->out_h * j->out_w, n = block / j->blocks;
	const int64_t first = block % j->blocks * j->block_c, c = sl_cpu_min(j->block_c, j->c - first);
	const float *x = j->x != NULL ? j->x + n * in + first : NULL;
	const float *dy = j->dy != NULL ? j->dy + n * outs * j->c + first : NULL;
	float *out = j->out + n * (dy != NULL ? in : outs * j->c) + first;

	for (int64_t at = s->at, oh = at / j->out_w, ow = at % j->out_w; at < outs;) {
		for (const int64_t end = sl_cpu_min(outs, at + j->step); at < end; at++) {
			fn(j, x, dy != NULL ? out : out + at * j->c, dy != NULL ? dy + at * j->c : NULL,
			   window_at(j, oh, ow, c));
			if (++ow == j->out_w) {
				ow = 0;
				oh++;
			}
		}
		if (sl_pool_stop(s, at))
			return;
	}
}

static void average_window(const struct job *j, const float *x, float *y, const float *dy, struct window v)
{
	j->simd->window_sum(y, x + (v.h0 * j->w + v.w0) * j->c, j->w * j->c, j->c, v.h1 - v.h0, v.w1 - v.w0, v.c,
			    1.0 / (double)(j->k_h * j->k_w));
}

static void average_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	windows(arg, n, s, average_window);
}

static enum sl_err average_forward(const struct sl_op_call *call)
{
	return pool(call, average_image);
}

/* Whether the only window covers the image. */
static bool is_whole(const struct job *j)
{
	return j->k_h == j->h && j->k_w == j->w && j->pad == 0;
}

static void average_back_window(const struct job *j, const float *x, float *dx, const float *dy, struct window v)
{
	const float by = 1.0f / (float)(j->k_h * j->k_w);

	for (int64_t h = v.h0; h < v.h1; h++)
		for (int64_t w = v.w0; w < v.w1; w++)
			j->simd->scale(dx + (h * j->w + w) * j->c, dy, by, 0, v.c, j->add || !is_whole(j));
}

static void clear_image(const struct job *j, int64_t n)
{
	memset(j->out + n * j->h * j->w * j->c, 0, (size_t)(j->h * j->w * j->c) * sizeof(float));
}

static void average_back_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	const struct job *j = arg;

	if (!is_whole(j) && !j->add && s->at == 0)
		clear_image(j, n);
	windows(j, n, s, average_back_window);
}

static enum sl_err average_backward(const struct sl_op_call *call)
{
	return pool_back(call, average_back_image);
}

static void max_window(const struct job *j, const float *x, float *y, const float *dy, struct window v)
{
	j->simd->window_max(y, x + (v.h0 * j->w + v.w0) * j->c, j->w * j->c, j->c, v.h1 - v.h0, v.w1 - v.w0, v.c);
}

static void max_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	windows(arg, n, s, max_window);
}

static enum sl_err max_forward(const struct sl_op_call *call)
{
	return pool(call, max_image);
}

/* Whether each pixel lies in one window. */
static bool tiles(const struct job *j)
{
	return is_whole(j) || (j->stride == j->k_h && j->stride == j->k_w && j->pad == 0 &&
			       j->out_h * j->stride == j->h && j->out_w * j->stride == j->w);
}

static void max_back_window(const struct job *j, const float *x, float *dx, const float *dy, struct window v)
{
	const int64_t at = (v.h0 * j->w + v.w0) * j->c;

	j->simd->window_max_back(dx + at, dy, x + at, j->w * j->c, j->c, v.h1 - v.h0, v.w1 - v.w0, v.c,
				 j->add || !tiles(j));
}

static void max_back_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	const struct job *j = arg;

	if (!tiles(j) && !j->add && s->at == 0)
		clear_image(j, n);
	windows(j, n, s, max_back_window);
}

static enum sl_err max_backward(const struct sl_op_call *call)
{
	return pool_back(call, max_back_image);
}

const struct sl_kernel sl_cpu_op_maxpool = {.forward = max_forward, .backward = max_backward};
const struct sl_kernel sl_cpu_op_avgpool = {.forward = average_forward, .backward = average_backward};
