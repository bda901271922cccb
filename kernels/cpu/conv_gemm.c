/* Dense convolutions as products over blocks of output pixels. With patches P [M, K], K = KH·KW·I, M = N·H'·W':
 *   Y = P·Wᵀ        dP = dY·W        dW = dYᵀ·P
 * A 1×1 convolution of stride 1 has P = X; else the patches of a block are copied out, and gradients scattered back
 * image by image. dW is summed over a number of spans of M that depends on the shape alone, then over the spans. */
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	BLOCK_FLOATS = 32768, /* of one block of P and Y: with its gradients still in a 1 MiB L2 cache */
	FORWARD_TASKS = 64,
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22, /* of all partial dW together: 16 MiB */
};

struct job {
	const struct sl_conv_call *call;
	struct sl_conv_dims d;
	int64_t m, k;
	int64_t block_rows, forward_rows; /* of a block; of a task of forward */
	int64_t span_rows, spans;
	float *part;              /* [spans, O·K + O] */
	float *scratch;           /* per worker [block_rows, K] and [block_rows, O] */
	struct sl_conv_bn bn;     /* a part per block */
	struct sl_gemm_weights w; /* forward: Wᵀ [K, O]; backward: W [O, K] */
	bool direct;              /* P = X */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(j->d.o * j->k) + sl_cpu_line(j->d.o);
}

static int64_t most_spans(const struct job *j)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (j->d.o * j->k)));
}

static int64_t worker_floats(const struct job *j)
{
	return sl_cpu_line(j->block_rows * j->k) + sl_cpu_line(j->block_rows * j->d.o);
}

static struct job job_of(const struct sl_op *op, const struct sl_conv_dims *d, float *workspace)
{
	struct job j = {.d = *d, .direct = sl_conv_is_pointwise(&op->u.conv)};

	j.m = d->n * d->out_h * d->out_w;
	j.k = (int64_t)d->kh * d->kw * d->c;
	j.block_rows = sl_cpu_min(504, sl_cpu_max(112, BLOCK_FLOATS / (j.k + d->o) / 14 * 14));
	j.forward_rows = sl_cpu_blocks(sl_cpu_blocks(j.m, FORWARD_TASKS), j.block_rows) * j.block_rows;
	j.span_rows = sl_cpu_blocks(sl_cpu_blocks(j.m, most_spans(&j)), j.block_rows) * j.block_rows;
	j.spans = sl_cpu_blocks(j.m, j.span_rows);
	j.part = workspace;
	j.scratch = workspace + most_spans(&j) * part_floats(&j);
	return j;
}

static int64_t blocks_of(const struct job *j)
{
	return sl_cpu_blocks(j->m, j->block_rows);
}

static int64_t packed_floats(const struct job *j)
{
	return sl_cpu_line(sl_cpu_max(sl_gemm_packed_floats(j->k, j->d.o), sl_gemm_packed_floats(j->d.o, j->k)));
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, op->in_shape[0].dim[0]);
	struct job j = job_of(op, &d, NULL);

	return (size_t)(most_spans(&j) * part_floats(&j) + sl_cpu_threads(be) * worker_floats(&j) + packed_floats(&j) +
			sl_conv_bn_floats(&d, blocks_of(&j))) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call, bool backward)
{
	struct job j = job_of(call->op, &call->d, call->workspace);
	float *packed = j.scratch + sl_cpu_threads(call->be) * worker_floats(&j);

	j.call = call;
	j.bn = sl_conv_bn_open(call, backward, packed + packed_floats(&j));
	j.w = backward ? sl_gemm_pack(call->be, packed, call->w, j.d.o, j.k, j.k, 1)
		       : sl_gemm_pack(call->be, packed, call->w, j.k, j.d.o, 1, j.k);
	return j;
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

/* P of rows [m, m + rows): x itself or made in the worker's scratch. */
static const float *patches(const struct job *j, int64_t m, int64_t rows, int worker)
{
	const float *x = j->call->x + m * j->k;
	float *p = j->scratch + worker * worker_floats(j);

	if (j->direct && j->call->before == NULL)
		return x;
	if (j->direct)
		sl_cpu_simd_of(j->call->be)->bn_forward(p, x, &j->bn.before, rows, (int)j->k, j->bn.act_before);
	else
		for (int64_t r = 0; r < rows; r++)
			copy_patch(j, p + r * j->k, m + r);
	return p;
}

/* The gradient at Y of rows [m, m + rows): dy itself, or put through the batchnorm behind. */
static const float *gradient(const struct job *j, int64_t m, int64_t rows, int worker)
{
	int64_t o = j->d.o;
	float *to = j->scratch + worker * worker_floats(j) + sl_cpu_line(j->block_rows * j->k);

	if (j->call->after == NULL)
		return j->call->dy + m * o;
	sl_cpu_simd_of(j->call->be)
		->bn_backward(to, j->call->dy + m * o, j->call->out + m * o, &j->bn.after, rows, (int)o,
			      j->bn.act_after, false);
	return to;
}

static void expect(struct sl_prefetch *next, const float *p, int64_t from, int64_t to, int64_t width)
{
	if (p == NULL || to <= from)
		return;
	next->at[next->n] = (const char *)(p + from * width);
	next->end[next->n++] = (const char *)(p + to * width);
}

/* What the block of rows that begins at m, in a span that ends at `end`, will touch first. */
static struct sl_prefetch ahead(const struct job *j, int64_t m, int64_t end, bool backward)
{
	const struct sl_conv_call *call = j->call;
	int64_t to = sl_cpu_min(end, m + j->block_rows), tile = j->w.simd->tile_rows, panel = j->w.simd->panel;
	int64_t o = j->d.o, lines = 0, tiles;
	struct sl_prefetch next = {.n = 0};

	expect(&next, backward ? call->dx : call->y, m, to, backward ? j->k : o);
	expect(&next, call->x, m, to, j->k);
	if (backward) {
		expect(&next, call->after != NULL ? call->out : NULL, m, to, o);
		expect(&next, call->dy, m, to, o);
	}
	for (int i = 0; i < next.n; i++)
		lines += (next.end[i] - next.at[i]) / 64;
	tiles = sl_cpu_blocks(j->block_rows, tile) * sl_cpu_blocks(backward ? j->k : o, panel);
	if (backward)
		tiles += sl_cpu_blocks(o, tile) * sl_cpu_blocks(j->k, panel);
	next.per_tile = (int)sl_cpu_blocks(lines, tiles);
	return next;
}

/* Rows [m, m + rows) of Y, and their part of the statistics of `after`. */
static void forward_rows(const struct job *j, int64_t m, int64_t rows, int worker, struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_cpu_simd *simd = j->w.simd;
	int64_t o = j->d.o;
	float *y = call->y + m * o, *part = j->bn.parts + m / j->block_rows * j->bn.stride;
	const float *p = patches(j, m, rows, worker);

	sl_gemm_rows(&j->w, y, o, &p, 1, j->k, rows, false, next);
	if (call->bias != NULL)
		simd->add_row(y, call->bias, rows, (int)o);
	if (call->after != NULL && call->training) {
		sl_bn_begin_stats(part, y, o);
		sl_bn_add_stats(simd, part, y, rows, o);
	}
}

static void forward_span(void *arg, int64_t span, int worker)
{
	const struct job *j = arg;
	int64_t end = sl_cpu_min(j->m, (span + 1) * j->forward_rows);

	for (int64_t m = span * j->forward_rows; m < end; m += j->block_rows) {
		struct sl_prefetch next = {.n = 0};

		if (j->direct)
			next = ahead(j, m + j->block_rows, end, false);
		forward_rows(j, m, sl_cpu_min(j->block_rows, end - m), worker, &next);
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, false);

	sl_pool_run(call->be->pool, sl_cpu_blocks(j.m, j.forward_rows), forward_span, &j);
	sl_conv_bn_finish(call, &j.bn, blocks_of(&j), false);
}

static void data_block(const struct job *j, const float *dy, int64_t m, int64_t rows, struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	float *dx = call->dx + m * j->k, *part = j->bn.parts + m / j->block_rows * j->bn.stride;

	sl_gemm_rows(&j->w, dx, j->k, &dy, 1, j->d.o, rows, call->add, next);
	if (call->before == NULL)
		return;
	sl_bn_begin_sums(part, j->k);
	sl_bn_add_sums(sl_cpu_simd_of(call->be), part, dx, call->x + m * j->k, &j->bn.before, call->before->op, rows);
}

/* dW and dbias of one span; dX of its rows as well where P = X, while dY is in the cache. */
static void backward_span(void *arg, int64_t span, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_call *call = j->call;
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(call->be);
	int64_t o = j->d.o, end = sl_cpu_min(j->m, (span + 1) * j->span_rows);
	float *dw = j->part + span * part_floats(j), *db = dw + sl_cpu_line(o * j->k);

	memset(dw, 0, (size_t)part_floats(j) * sizeof(float));
	for (int64_t m = span * j->span_rows; m < end; m += j->block_rows) {
		int64_t rows = sl_cpu_min(j->block_rows, end - m);
		const float *dy = gradient(j, m, rows, worker);
		struct sl_prefetch next = {.n = 0};

		if (j->direct)
			next = ahead(j, m + j->block_rows, end, true);
		if (call->dw != NULL)
			sl_gemm_outer(simd, dw, j->k, dy, o, o, patches(j, m, rows, worker), j->k, j->k, rows, &next);
		if (call->dbias != NULL)
			simd->row_sum(db, dy, rows, (int)o);
		if (j->direct && call->dx != NULL)
			data_block(j, dy, m, rows, &next);
	}
}

static void data_image(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	int64_t plane = d->out_h * d->out_w, image = d->h * d->w * d->c;
	float *dp = j->scratch + worker * worker_floats(j);

	if (!j->call->add)
		memset(j->call->dx + n * image, 0, (size_t)image * sizeof(float));
	for (int64_t m = n * plane; m < (n + 1) * plane; m += j->block_rows) {
		int64_t rows = sl_cpu_min(j->block_rows, (n + 1) * plane - m);

		const float *dy = gradient(j, m, rows, worker);
		struct sl_prefetch none = {.n = 0};

		sl_gemm_rows(&j->w, dp, j->k, &dy, 1, d->o, rows, false, &none);
		for (int64_t r = 0; r < rows; r++)
			scatter_patch(j, dp + r * j->k, m + r);
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);
	struct sl_backend *be = call->be;

	if (j.direct || call->dw != NULL || call->dbias != NULL)
		sl_pool_run(be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(be, call->dw, j.part, j.d.o * j.k, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(be, call->dbias, j.part + sl_cpu_line(j.d.o * j.k), j.d.o, part_floats(&j), j.spans);
	if (!j.direct && call->dx != NULL)
		sl_pool_run(be->pool, j.d.n, data_image, &j);
	sl_conv_bn_finish(call, &j.bn, blocks_of(&j), true);
}

const struct sl_conv_kernel sl_conv_gemm = {workspace_bytes, forward, backward};
