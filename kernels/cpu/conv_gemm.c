/* Dense convolutions as products over blocks of output pixels. With patches P [M, K], K = KH·KW·I, M = N·H'·W':
 *   Y = P·Wᵀ        dP = dY·W        dW = dYᵀ·P
 * A 1×1 convolution of stride 1 has P = X; else the patches of a block are copied out, and gradients scattered back
 * image by image. dW is summed over a number of spans of M that depends on the shape alone, then over the spans. */
#include <cblas.h>
#include <string.h>

#include "kernels/cpu/conv.h"

enum {
	BLOCK_FLOATS = 131072, /* of one block of P and Y: half of a 1 MiB L2 cache */
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22, /* of all partial dW together: 16 MiB */
};

struct job {
	const struct sl_conv_call *call;
	struct sl_conv_dims d;
	int64_t m, k;
	int64_t block_rows, span_rows, spans;
	float *part;    /* [spans, O·K + O] */
	float *scratch; /* per worker [block_rows, K] */
	bool direct;    /* P = X */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(j->d.o * j->k) + sl_cpu_line(j->d.o);
}

static struct job job_of(const struct sl_conv_call *call, const struct sl_op *op, const struct sl_conv_dims *d,
			 float *workspace)
{
	struct job j = {.call = call, .d = *d};
	bool unit = d->kh == 1 && d->kw == 1 && d->stride == 1 && d->pad == 0;
	int64_t room;

	(void)op;
	j.m = d->n * d->out_h * d->out_w;
	j.k = (int64_t)d->kh * d->kw * d->c;
	j.direct = unit;
	j.block_rows = sl_cpu_min(512, sl_cpu_max(32, BLOCK_FLOATS / (j.k + d->o) / 16 * 16));
	room = sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (d->o * j.k)));
	j.span_rows = sl_cpu_blocks(sl_cpu_blocks(j.m, room), j.block_rows) * j.block_rows;
	j.spans = sl_cpu_blocks(j.m, j.span_rows);
	j.part = workspace;
	j.scratch = workspace + room * part_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, op->in_shape[0].dim[0]);
	struct job j = job_of(NULL, op, &d, NULL);
	int64_t parts = sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (d.o * j.k))) * part_floats(&j);

	return (size_t)(parts + sl_cpu_threads(be) * j.block_rows * j.k) * sizeof(float);
}

/* One patch: KH runs of KW·I floats, each contiguous in x, zero where it hangs over the edge. */
static void copy_patch(const struct job *j, float *p, int64_t m)
{
	const struct sl_conv_dims *d = &j->d;
	int64_t ow = m % d->out_w, oh = m / d->out_w % d->out_h, n = m / d->out_w / d->out_h;
	int64_t w0 = ow * d->stride - d->pad, from = sl_cpu_max(0, -w0), to = sl_cpu_min(d->kw, d->w - w0);

	for (int kh = 0; kh < d->kh; kh++, p += d->kw * d->c) {
		int64_t h = oh * d->stride - d->pad + kh;

		if (h < 0 || h >= d->h || to <= from) {
			memset(p, 0, (size_t)(d->kw * d->c) * sizeof(float));
			continue;
		}
		memset(p, 0, (size_t)(from * d->c) * sizeof(float));
		memcpy(p + from * d->c, j->call->x + ((n * d->h + h) * d->w + w0 + from) * d->c,
		       (size_t)((to - from) * d->c) * sizeof(float));
		memset(p + to * d->c, 0, (size_t)((d->kw - to) * d->c) * sizeof(float));
	}
}

static void scatter_patch(const struct job *j, const float *p, int64_t m)
{
	const struct sl_conv_dims *d = &j->d;
	int64_t ow = m % d->out_w, oh = m / d->out_w % d->out_h, n = m / d->out_w / d->out_h;
	int64_t w0 = ow * d->stride - d->pad, from = sl_cpu_max(0, -w0), to = sl_cpu_min(d->kw, d->w - w0);

	for (int kh = 0; kh < d->kh; kh++, p += d->kw * d->c) {
		int64_t h = oh * d->stride - d->pad + kh;
		float *dx = j->call->dx + ((n * d->h + h) * d->w + w0 + from) * d->c;

		if (h >= 0 && h < d->h && to > from)
			sl_cpu_simd_of(j->call->be)->sum(dx, dx, p + from * d->c, (to - from) * d->c);
	}
}

/* P of rows [m, m + rows): x itself or the worker's scratch. */
static const float *patches(const struct job *j, int64_t m, int64_t rows, int worker)
{
	float *p = j->scratch + worker * j->block_rows * j->k;

	if (j->direct)
		return j->call->x + m * j->k;
	for (int64_t r = 0; r < rows; r++)
		copy_patch(j, p + r * j->k, m + r);
	return p;
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t m = block * j->block_rows, rows = sl_cpu_min(j->block_rows, j->m - m), o = j->d.o;
	float *y = j->call->y + m * o;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)o, (int)j->k, 1.0f,
		    patches(j, m, rows, worker), (int)j->k, j->call->w, (int)j->k, 0.0f, y, (int)o);
	if (j->call->bias != NULL)
		sl_cpu_simd_of(j->call->be)->add_row(y, j->call->bias, rows, (int)o);
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = job_of(call, call->op, &call->d, call->workspace);

	sl_pool_run(call->be->pool, sl_cpu_blocks(j.m, j.block_rows), forward_block, &j);
}

static void data_product(const struct job *j, float *dp, int64_t m, int64_t rows, bool add)
{
	int64_t o = j->d.o;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)j->k, (int)o, 1.0f, j->call->dy + m * o,
		    (int)o, j->call->w, (int)j->k, add ? 1.0f : 0.0f, dp, (int)j->k);
}

/* dW and dbias of one span; dX of its rows as well where P = X, while dY is in the cache. */
static void backward_span(void *arg, int64_t span, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_call *call = j->call;
	int64_t o = j->d.o, end = sl_cpu_min(j->m, (span + 1) * j->span_rows);
	float *dw = j->part + span * part_floats(j), *db = dw + sl_cpu_line(o * j->k);
	bool first = true;

	memset(db, 0, (size_t)o * sizeof(float));
	for (int64_t m = span * j->span_rows; m < end; m += j->block_rows, first = false) {
		int64_t rows = sl_cpu_min(j->block_rows, end - m);
		const float *dy = call->dy + m * o;

		if (call->dw != NULL)
			cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)o, (int)j->k, (int)rows, 1.0f, dy,
				    (int)o, patches(j, m, rows, worker), (int)j->k, first ? 0.0f : 1.0f, dw, (int)j->k);
		if (call->dbias != NULL)
			sl_cpu_simd_of(call->be)->row_sum(db, dy, rows, (int)o);
		if (j->direct && call->dx != NULL)
			data_product(j, call->dx + m * j->k, m, rows, call->add);
	}
}

static void data_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	int64_t plane = d->out_h * d->out_w, image = d->h * d->w * d->c;
	float *dp = j->scratch + worker * j->block_rows * j->k;

	if (!j->call->add)
		memset(j->call->dx + n * image, 0, (size_t)image * sizeof(float));
	for (int64_t m = n * plane; m < (n + 1) * plane; m += j->block_rows) {
		int64_t rows = sl_cpu_min(j->block_rows, (n + 1) * plane - m);

		data_product(j, dp, m, rows, false);
		for (int64_t r = 0; r < rows; r++)
			scatter_patch(j, dp + r * j->k, m + r);
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = job_of(call, call->op, &call->d, call->workspace);
	struct sl_backend *be = call->be;

	sl_pool_run(be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(be, call->dw, j.part, j.d.o * j.k, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(be, call->dbias, j.part + sl_cpu_line(j.d.o * j.k), j.d.o, part_floats(&j), j.spans);
	if (!j.direct && call->dx != NULL)
		sl_pool_run(be->pool, j.d.n, data_image, &j);
}

const struct sl_conv_kernel sl_conv_gemm = {workspace_bytes, forward, backward};
