/* Convolutions with groups of several channels, dense ones with dilation, and depthwise ones that conv_dw.c
 * does not take. Patches P [M, K] of a group, K = KH·KW·I/groups, are multiplied with the group's weights;
 * the rows of its outputs are O floats apart:
 *   Y = P·Wᵀ        dP = dY·W        dW = dYᵀ·P
 * A task has one group: of a block of output pixels in forward, of one image for dX, whose patches overlap,
 * of a span of images for dW. Spans depend on the shape alone, and are summed in order. */
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	BLOCK_FLOATS = 16384, /* of a block's patches: 64 KiB, for the core's nearest caches */
	MOST_ROWS = 448,
	LEAST_ROWS = 28,
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22, /* of all partial dW together: 16 MiB */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	int64_t groups, in, out, k; /* channels of a group: input, output; KH·KW·in */
	int64_t pixels;             /* of one image's output */
	int64_t block_rows;
	int64_t spans, span_images;
	float *part;    /* [spans, dW and dbias] */
	float *packed;  /* of each group */
	float *scratch; /* per worker [block_rows, K] */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(j->d.o * j->k) + sl_cpu_line(j->d.o);
}

static int64_t packed_floats(const struct job *j)
{
	return sl_cpu_line(sl_cpu_max(sl_gemm_packed_floats(j->k, j->out), sl_gemm_packed_floats(j->out, j->k)));
}

static int64_t scratch_floats(const struct job *j)
{
	return sl_cpu_line(j->block_rows * j->k);
}

static int64_t most_spans(const struct job *j)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (j->d.o * j->k)));
}

static struct job job_of(const struct sl_op *op, const struct sl_conv_dims *d, struct sl_backend *be, float *workspace)
{
	struct job j = {.simd = sl_cpu_simd_of(be), .d = *d, .groups = op->u.conv.groups};

	j.in = d->c / j.groups;
	j.out = d->o / j.groups;
	j.k = (int64_t)d->kh * d->kw * j.in;
	j.pixels = d->out_h * d->out_w;
	j.block_rows = sl_cpu_max(LEAST_ROWS, sl_cpu_min(MOST_ROWS, BLOCK_FLOATS / j.k));
	j.span_images = sl_cpu_blocks(d->n, most_spans(&j));
	j.spans = sl_cpu_blocks(d->n, j.span_images);
	j.part = workspace;
	j.packed = j.part + most_spans(&j) * part_floats(&j);
	j.scratch = j.packed + j.groups * packed_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, op->in_shape[0].dim[0]);
	const struct job j = job_of(op, &d, be, NULL);

	return (size_t)(most_spans(&j) * part_floats(&j) + j.groups * packed_floats(&j) +
			sl_cpu_threads(be) * scratch_floats(&j)) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call)
{
	struct job j = job_of(call->op, &call->d, call->be, call->workspace);

	j.call = call;
	return j;
}

/* Packs Wᵀ [K, O/groups] for forward, W [O/groups, K] for backward. */
static struct sl_gemm_weights pack(const struct job *j, int64_t g, bool back)
{
	const float *w = j->call->w + g * j->out * j->k;
	float *packed = j->packed + g * packed_floats(j);

	return back ? sl_gemm_pack_here(j->simd, packed, w, j->out, j->k, j->k, 1)
		    : sl_gemm_pack_here(j->simd, packed, w, j->k, j->out, 1, j->k);
}

static void pack_forward(void *arg, int64_t g, int worker)
{
	(void)pack(arg, g, false);
}

static void pack_back(void *arg, int64_t g, int worker)
{
	(void)pack(arg, g, true);
}

static struct sl_gemm_weights packed_of(const struct job *j, int64_t g, bool back)
{
	return (struct sl_gemm_weights){j->simd, j->packed + g * packed_floats(j), back ? j->out : j->k,
					back ? j->k : j->out, false};
}

/* The offset in x of tap (i, k) of output pixel m of image n, for group g; -1: outside the image. */
static int64_t tap_at(const struct job *j, int64_t n, int64_t m, int i, int k, int64_t g)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t h = m / d->out_w * d->stride - d->pad + (int64_t)i * d->dilation;
	const int64_t w = m % d->out_w * d->stride - d->pad + (int64_t)k * d->dilation;

	return h < 0 || h >= d->h || w < 0 || w >= d->w ? -1 : ((n * d->h + h) * d->w + w) * d->c + g * j->in;
}

static void copy_patches(const struct job *j, float *p, int64_t n, int64_t m, int64_t rows, int64_t g)
{
	for (int64_t r = m; r < m + rows; r++) {
		for (int t = 0; t < j->d.kh * j->d.kw; t++, p += j->in) {
			const int64_t at = tap_at(j, n, r, t / j->d.kw, t % j->d.kw, g);

			if (at < 0)
				memset(p, 0, (size_t)j->in * sizeof *p);
			else
				memcpy(p, j->call->x + at, (size_t)j->in * sizeof *p);
		}
	}
}

static void scatter_patches(const struct job *j, const float *p, int64_t n, int64_t m, int64_t rows, int64_t g)
{
	for (int64_t r = m; r < m + rows; r++) {
		for (int t = 0; t < j->d.kh * j->d.kw; t++, p += j->in) {
			const int64_t at = tap_at(j, n, r, t / j->d.kw, t % j->d.kw, g);

			for (int64_t i = 0; i < j->in && at >= 0; i++)
				j->call->dx[at + i] += p[i];
		}
	}
}

static int64_t blocks_of(const struct job *j)
{
	return sl_cpu_blocks(j->pixels, j->block_rows);
}

static void forward_task(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const int64_t g = task % j->groups, block = task / j->groups % blocks_of(j),
		      n = task / j->groups / blocks_of(j);
	const int64_t m = block * j->block_rows, rows = sl_cpu_min(j->block_rows, j->pixels - m), o = j->d.o;
	const struct sl_gemm_weights w = packed_of(j, g, false);
	float *p = j->scratch + worker * scratch_floats(j), *y = j->call->y + (n * j->pixels + m) * o + g * j->out;
	const float *bias = j->call->bias;
	const float *seg = p;

	copy_patches(j, p, n, m, rows, g);
	sl_gemm_rows(&w, y, o, &seg, 1, j->k, rows, false, &(struct sl_prefetch){0});
	for (int64_t r = 0; r < rows && bias != NULL; r++)
		for (int64_t i = 0; i < j->out; i++)
			y[r * o + i] += bias[g * j->out + i];
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	sl_pool_run(call->be->pool, j.groups, pack_forward, &j);
	sl_pool_run(call->be->pool, j.d.n * blocks_of(&j) * j.groups, forward_task, &j);
}

/* ---- backward */

static void data_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t g = task % j->groups, n = task / j->groups, o = j->d.o, c = j->d.c;
	const struct sl_gemm_weights w = packed_of(j, g, true);
	float *p = j->scratch + s->worker * scratch_floats(j), *dx = j->call->dx + n * j->d.h * j->d.w * c + g * j->in;

	for (int64_t at = 0; at < j->d.h * j->d.w && !j->call->add && s->at == 0; at++)
		memset(dx + at * c, 0, (size_t)j->in * sizeof *dx);
	for (int64_t m = s->at; m < j->pixels;) {
		const int64_t rows = sl_cpu_min(j->block_rows, j->pixels - m);
		const float *dy = j->call->dy + (n * j->pixels + m) * o + g * j->out;

		sl_gemm_rows(&w, p, j->k, &dy, 1, o, rows, false, &(struct sl_prefetch){0});
		scatter_patches(j, p, n, m, rows, g);
		m += rows;
		if (sl_pool_stop(s, m))
			return;
	}
}

/* Adds the contribution of `rows` output pixels of an image to a group's dW. */
static void weight_rows(const struct job *j, float *dw, float *p, int64_t n, int64_t m, int64_t rows, int64_t g)
{
	const float *dy = j->call->dy + (n * j->pixels + m) * j->d.o + g * j->out;

	copy_patches(j, p, n, m, rows, g);
	j->simd->gemm_outer(dw, j->k, dy, j->d.o, j->out, p, j->k, j->k, rows, &(struct sl_prefetch){0});
}

/* dW of one group over a span of images, whose blocks are the steps. The task of the first group also sums
 * dbias, for all groups. */
static void weight_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t g = task % j->groups, span = task / j->groups, o = j->d.o, blocks = blocks_of(j);
	const int64_t first = span * j->span_images, images = sl_cpu_min(j->d.n - first, j->span_images);
	float *part = j->part + span * part_floats(j), *dw = part + g * j->out * j->k;
	float *db = part + sl_cpu_line(o * j->k), *p = j->scratch + s->worker * scratch_floats(j);

	if (s->at == 0)
		memset(dw, 0, (size_t)(j->out * j->k) * sizeof *dw);
	if (s->at == 0 && g == 0)
		memset(db, 0, (size_t)o * sizeof *db);
	for (int64_t at = s->at; at < images * blocks;) {
		const int64_t n = first + at / blocks, m = at % blocks * j->block_rows;

		weight_rows(j, dw, p, n, m, sl_cpu_min(j->block_rows, j->pixels - m), g);
		if (++at % blocks == 0 && g == 0)
			j->simd->row_sum(db, j->call->dy + n * j->pixels * o, o, j->pixels, (int)o);
		if (sl_pool_stop(s, at))
			return;
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);
	const int64_t weights = j.d.o * j.k;

	if (call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(call->be->pool, j.spans * j.groups, weight_task, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, weights, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + sl_cpu_line(weights), j.d.o, part_floats(&j), j.spans);
	if (call->dx == NULL)
		return;
	sl_pool_run(call->be->pool, j.groups, pack_back, &j);
	sl_pool_run_long(call->be->pool, j.d.n * j.groups, data_task, &j);
}

/* A window of one pixel has no gaps, so its dilation does not matter. */
bool sl_conv_group_takes(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;

	if (sl_op_is_depthwise(op))
		return !sl_conv_dw_takes(op);
	return a->groups > 1 || (a->dilation > 1 && (a->kh > 1 || a->kw > 1));
}

const struct sl_conv_kernel sl_conv_group = {workspace_bytes, forward, backward};
