/* Depthwise convolution of any kernel, stride and padding: plain loops, channels innermost. */
#include <string.h>

#include "kernels/cpu/conv.h"

enum { MAX_SPANS = 64 };

struct job {
	const struct sl_conv_call *call;
	struct sl_conv_dims d;
	int64_t spans, span_images;
	float *part; /* [spans, KH·KW·C + C] */
};

static int64_t part_floats(const struct sl_conv_dims *d)
{
	return sl_cpu_line((d->kh * d->kw + 1) * d->c);
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, 1);

	return (size_t)(MAX_SPANS * part_floats(&d)) * sizeof(float);
}

static struct job job_of(const struct sl_conv_call *call)
{
	int64_t per_span = sl_cpu_blocks(call->d.n, MAX_SPANS);

	return (struct job){call, call->d, sl_cpu_blocks(call->d.n, per_span), per_span, call->workspace};
}

/* The taps of an output pixel that lie in the image: rows [h0, h1) and columns [w0, w1) of the window. `from` is the
 * input offset of tap (0, 0), which may lie outside. */
struct window {
	int64_t h0, h1, w0, w1, from;
};

static void clip(int64_t at, int64_t step, int64_t k, int64_t size, int64_t *first, int64_t *end)
{
	*first = at < 0 ? sl_cpu_blocks(-at, step) : 0;
	*end = at < size ? sl_cpu_min(k, sl_cpu_blocks(size - at, step)) : 0;
}

static struct window window_at(const struct sl_conv_dims *d, int64_t n, int64_t at)
{
	int64_t h = at / d->out_w * d->stride - d->pad, w = at % d->out_w * d->stride - d->pad;
	struct window v = {.from = ((n * d->h + h) * d->w + w) * d->c};

	clip(h, d->dilation, d->kh, d->h, &v.h0, &v.h1);
	clip(w, d->dilation, d->kw, d->w, &v.w0, &v.w1);
	return v;
}

/* Output pixels of a step. */
static int64_t step_of(const struct sl_conv_dims *d)
{
	return sl_cpu_max(1, SL_CPU_BLOCK / ((int64_t)d->kh * d->kw * d->c));
}

static void forward_pixel(const struct sl_conv_call *call, int64_t n, int64_t at)
{
	const struct sl_conv_dims *d = &call->d;
	const struct window v = window_at(d, n, at);
	const int64_t c = d->c, right = d->dilation * c, down = d->dilation * d->w * c;
	float *y = call->y + (n * d->out_h * d->out_w + at) * c;

	memset(y, 0, (size_t)c * sizeof(float));
	for (int64_t h = v.h0; h < v.h1; h++)
		for (int64_t w = v.w0; w < v.w1; w++) {
			const float *x = call->x + v.from + h * down + w * right, *by = call->w + (h * d->kw + w) * c;

			for (int64_t i = 0; i < c; i++)
				y[i] += x[i] * by[i];
		}
	for (int64_t i = 0; i < c && call->bias != NULL; i++)
		y[i] += call->bias[i];
}

static void forward_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t pixels = j->d.out_h * j->d.out_w;

	for (int64_t at = s->at; at < pixels;) {
		for (const int64_t end = sl_cpu_min(pixels, at + step_of(&j->d)); at < end; at++)
			forward_pixel(j->call, n, at);
		if (sl_pool_stop(s, at))
			return;
	}
}

static void backward_pixel(const struct sl_conv_call *call, int64_t n, int64_t at, float *dw)
{
	const struct sl_conv_dims *d = &call->d;
	const struct window v = window_at(d, n, at);
	const int64_t c = d->c, right = d->dilation * c, down = d->dilation * d->w * c;
	const float *dy = call->dy + (n * d->out_h * d->out_w + at) * c;
	float *db = dw + (int64_t)d->kh * d->kw * c;

	for (int64_t h = v.h0; h < v.h1; h++)
		for (int64_t w = v.w0; w < v.w1; w++) {
			const int64_t from = v.from + h * down + w * right, k = (h * d->kw + w) * c;

			for (int64_t i = 0; i < c && call->dw != NULL; i++)
				dw[k + i] += call->x[from + i] * dy[i];
			for (int64_t i = 0; i < c && call->dx != NULL; i++)
				call->dx[from + i] += call->w[k + i] * dy[i];
		}
	for (int64_t i = 0; i < c; i++)
		db[i] += dy[i];
}

/* Steps are counted through the pixels of all images of the span. */
static void backward_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_conv_call *call = j->call;
	const int64_t image = j->d.h * j->d.w * j->d.c, pixels = j->d.out_h * j->d.out_w, first = span * j->span_images;
	const int64_t end = (sl_cpu_min(j->d.n, first + j->span_images) - first) * pixels;
	float *dw = j->part + span * part_floats(&j->d);

	if (s->at == 0)
		memset(dw, 0, (size_t)part_floats(&j->d) * sizeof(float));
	for (int64_t at = s->at; at < end;) {
		const int64_t n = first + at / pixels, begin = at % pixels;
		const int64_t stop = sl_cpu_min(pixels, begin + step_of(&j->d));

		if (begin == 0 && call->dx != NULL && !call->add)
			memset(call->dx + n * image, 0, (size_t)image * sizeof(float));
		for (int64_t m = begin; m < stop; m++)
			backward_pixel(call, n, m, dw);
		at += stop - begin;
		if (sl_pool_stop(s, at))
			return;
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = job_of(call);

	sl_pool_run_long(call->be->pool, j.d.n, forward_image, &j);
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = job_of(call);
	int64_t taps = (int64_t)j.d.kh * j.d.kw * j.d.c;

	sl_pool_run_long(call->be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, taps, part_floats(&j.d), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + taps, j.d.c, part_floats(&j.d), j.spans);
}

const struct sl_conv_kernel sl_conv_dw = {workspace_bytes, forward, backward};
