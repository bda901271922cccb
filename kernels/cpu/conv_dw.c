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

	(void)be;
	return (size_t)(MAX_SPANS * part_floats(&d)) * sizeof(float);
}

static struct job job_of(const struct sl_conv_call *call)
{
	int64_t per_span = sl_cpu_blocks(call->d.n, MAX_SPANS);

	return (struct job){call, call->d, sl_cpu_blocks(call->d.n, per_span), per_span, call->workspace};
}

/* Input offset that tap (kh, kw) of output (oh, ow) reads, −1 outside. */
static int64_t tap(const struct sl_conv_dims *d, int64_t n, int64_t oh, int64_t ow, int kh, int kw)
{
	int64_t h = oh * d->stride - d->pad + kh * d->dilation, w = ow * d->stride - d->pad + kw * d->dilation;

	return h < 0 || h >= d->h || w < 0 || w >= d->w ? -1 : ((n * d->h + h) * d->w + w) * d->c;
}

static void forward_image(void *arg, int64_t n, int worker)
{
	const struct sl_conv_call *call = ((const struct job *)arg)->call;
	const struct sl_conv_dims *d = &call->d;
	int64_t c = d->c;

	(void)worker;
	for (int64_t at = 0; at < d->out_h * d->out_w; at++) {
		float *y = call->y + (n * d->out_h * d->out_w + at) * c;

		memset(y, 0, (size_t)c * sizeof(float));
		for (int k = 0; k < d->kh * d->kw; k++) {
			int64_t from = tap(d, n, at / d->out_w, at % d->out_w, k / d->kw, k % d->kw);

			for (int64_t i = 0; i < c && from >= 0; i++)
				y[i] += call->x[from + i] * call->w[k * c + i];
		}
		for (int64_t i = 0; i < c && call->bias != NULL; i++)
			y[i] += call->bias[i];
	}
}

static void backward_image(const struct job *j, int64_t n, float *dw)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &call->d;
	int64_t c = d->c, image = d->h * d->w * c;
	float *db = dw + d->kh * d->kw * c;

	if (call->dx != NULL && !call->add)
		memset(call->dx + n * image, 0, (size_t)image * sizeof(float));
	for (int64_t at = 0; at < d->out_h * d->out_w; at++) {
		const float *dy = call->dy + (n * d->out_h * d->out_w + at) * c;

		for (int k = 0; k < d->kh * d->kw; k++) {
			int64_t from = tap(d, n, at / d->out_w, at % d->out_w, k / d->kw, k % d->kw);

			for (int64_t i = 0; i < c && from >= 0 && call->dw != NULL; i++)
				dw[k * c + i] += call->x[from + i] * dy[i];
			for (int64_t i = 0; i < c && from >= 0 && call->dx != NULL; i++)
				call->dx[from + i] += call->w[k * c + i] * dy[i];
		}
		for (int64_t i = 0; i < c; i++)
			db[i] += dy[i];
	}
}

static void backward_span(void *arg, int64_t span, int worker)
{
	const struct job *j = arg;
	float *dw = j->part + span * part_floats(&j->d);
	int64_t end = sl_cpu_min(j->d.n, (span + 1) * j->span_images);

	(void)worker;
	memset(dw, 0, (size_t)part_floats(&j->d) * sizeof(float));
	for (int64_t n = span * j->span_images; n < end; n++)
		backward_image(j, n, dw);
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = job_of(call);

	sl_pool_run(call->be->pool, j.d.n, forward_image, &j);
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = job_of(call);
	int64_t taps = (int64_t)j.d.kh * j.d.kw * j.d.c;

	sl_pool_run(call->be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, taps, part_floats(&j.d), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + taps, j.d.c, part_floats(&j.d), j.spans);
}

const struct sl_conv_kernel sl_conv_dw = {workspace_bytes, forward, backward};
