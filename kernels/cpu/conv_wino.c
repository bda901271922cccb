/* Dense 3×3 convolutions of stride 1 with padding 1 by Winograd's F(2×2, 3×3): a tile of 2×2 outputs costs 16
 * products of channels instead of 36.
 *
 *   forward   V = Bᵀ·x·B of a tile's 4×4 inputs   M = V·U, U = G·w·Gᵀ   y = Aᵀ·M·A
 *   dX        the same, from dy, with the weights rotated by 180°
 *   dW        dU = Σ over tiles of (A·dy·Aᵀ)ᵀ·V   dw = Gᵀ·dU·G
 *
 * Each of the 16 places of the 4×4 domain is one matrix product, [tiles, C]·[C, O] or its counterpart. Tiles
 * are numbered by rows of tiles through all images. A block is some of these rows, so that its output is
 * contiguous. The shape alone determines how the work is divided, not the number of threads. */
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	PLACES = 16,
	LEAST_CHANNELS = 32, /* below, the transforms cost more than they save */
	MOST_WIDTH = 256,    /* a block has at least one row of tiles, so its width is limited */
	BLOCK_FLOATS = 1 << 18,
	LEAST_TILES = 28,
	MOST_TILES = 112,
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22, /* of all partial dU together: 16 MiB */
	FEW_SPANS = 4,
	GROUPS = 4, /* tasks that a span is divided into if there are few: each computes one row of the 4×4 domain */
	COLUMNS = 128,
	PAD = 16, /* floats between rows: rows a power of two apart would map to the same cache sets */
	STEP = 16 /* channels of weights that are transformed at a time */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	int64_t tiles_h, tiles_w;
	int64_t rows, block_rows, blocks; /* rows of tiles: all, of a block; blocks */
	int64_t most_rows, most_blocks;   /* upper bounds of block_rows and blocks, which no smaller number of images
					   * exceeds */
	int64_t spans, span_blocks, groups, columns, column_groups;
	float *packed;  /* U: 16 packed matrices [in, out] */
	float *part;    /* [spans, dU and dbias] */
	float *zero;    /* [max(C, O)]: read for pixels outside the image */
	float *scratch; /* per worker: V, M, gradients */
	struct sl_conv_bn bn;
};

/* One direction through the convolution: from [n, h, w, in] to [n, h, w, out]. */
struct pass {
	const struct job *j;
	int64_t in, out;
	bool back; /* from dy to dx */
	struct sl_gemm_weights u[PLACES];
};

/* Rows of pixels, in a tensor or in a worker's scratch: pixel m of the whole tensor is at base + m·c. */
struct pixels {
	const float *base;
	int64_t c;
};

static int64_t most_tiles(const struct job *j)
{
	return j->most_rows * j->tiles_w;
}

static int64_t place_floats(const struct job *j, int64_t c)
{
	return sl_cpu_line(most_tiles(j) * (c + PAD));
}

static int64_t gradient_floats(const struct job *j)
{
	return (2 * j->most_rows + 2) * j->d.w * j->d.o;
}

static int64_t worker_floats(const struct job *j)
{
	return PLACES * (place_floats(j, j->d.c) + place_floats(j, j->d.o)) + sl_cpu_line(gradient_floats(j));
}

static int64_t part_floats(const struct job *j)
{
	return PLACES * j->d.o * j->d.c + sl_cpu_line(j->d.o);
}

static int64_t most_spans(const struct sl_conv_dims *d)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (PLACES * d->o * d->c)));
}

static int64_t packed_floats(const struct sl_conv_dims *d)
{
	return PLACES * sl_cpu_line(sl_cpu_max(sl_gemm_packed_floats(d->c, d->o), sl_gemm_packed_floats(d->o, d->c)));
}

static void divide(struct job *j)
{
	const struct sl_conv_dims *d = &j->d;
	int64_t tiles = BLOCK_FLOATS / (PLACES * (d->c + d->o));

	tiles = sl_cpu_max(LEAST_TILES, sl_cpu_min(MOST_TILES, tiles));
	j->tiles_h = sl_cpu_blocks(d->h, 2);
	j->tiles_w = sl_cpu_blocks(d->w, 2);
	j->rows = d->n * j->tiles_h;
	j->most_rows = sl_cpu_max(1, tiles / j->tiles_w);
	j->most_blocks = sl_cpu_blocks(j->rows, j->most_rows);
	j->block_rows = sl_cpu_blocks(j->rows, j->most_blocks);
	j->blocks = sl_cpu_blocks(j->rows, j->block_rows);
	j->span_blocks = sl_cpu_blocks(j->blocks, most_spans(d));
	j->spans = sl_cpu_blocks(j->blocks, j->span_blocks);
	j->groups = j->spans >= FEW_SPANS ? 1 : GROUPS;
	j->columns = j->spans >= FEW_SPANS ? d->o : sl_cpu_min(d->o, COLUMNS);
	j->column_groups = sl_cpu_blocks(d->o, j->columns);
}

static struct job job_of(const struct sl_cpu_simd *simd, const struct sl_conv_dims *d, float *workspace)
{
	struct job j = {.d = *d, .simd = simd};

	divide(&j);
	j.part = workspace;
	j.packed = j.part + j.spans * part_floats(&j);
	j.zero = j.packed + packed_floats(d);
	j.scratch = j.zero + sl_cpu_line(sl_cpu_max(d->c, d->o));
	return j;
}

/* For the largest chunk: fewer images never need more of any part. */
static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, op->in_shape[0].dim[0]);
	const struct job j = job_of(sl_cpu_simd_of(be), &d, NULL);

	return (size_t)(most_spans(&d) * part_floats(&j) + packed_floats(&d) + sl_cpu_line(sl_cpu_max(d.c, d.o)) +
			sl_cpu_threads(be) * worker_floats(&j) + sl_conv_bn_floats(&d, j.most_blocks)) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call, bool backward)
{
	struct job j = job_of(sl_cpu_simd_of(call->be), &call->d, call->workspace);

	j.call = call;
	j.bn = sl_conv_bn_open(call, backward, j.scratch + sl_cpu_threads(call->be) * worker_floats(&j));
	memset(j.zero, 0, (size_t)sl_cpu_max(j.d.c, j.d.o) * sizeof(float));
	return j;
}

/* ---- weights */

/* A panel of U for forward, [C, O's columns]: transformed along C, then transposed. */
static void pack_forward(const struct pass *p, int64_t at, int64_t n, int64_t width, float *const to[PLACES])
{
	const struct job *j = p->j;
	const int64_t c = j->d.c;
	float u[PLACES][STEP];

	for (int64_t o = 0; o < n; o++) {
		for (int64_t k = 0; k < c; k += STEP) {
			const int64_t some = sl_cpu_min(STEP, c - k);

			j->simd->wino_weights(u[0], STEP, j->call->w + (at + o) * 9 * c + k, c, (int)some, false);
			for (int i = 0; i < PLACES; i++)
				for (int64_t s = 0; s < some; s++)
					to[i][(k + s) * width + o] = u[i][s];
		}
	}
	for (int i = 0; i < PLACES && n < width; i++)
		for (int64_t k = 0; k < c; k++)
			memset(to[i] + k * width + n, 0, (size_t)(width - n) * sizeof(float));
}

/* A panel of U for dX, [O, C's columns]. */
static void pack_back(const struct pass *p, int64_t at, int64_t n, int64_t width, float *const to[PLACES])
{
	const struct job *j = p->j;

	for (int64_t o = 0; o < j->d.o; o++) {
		j->simd->wino_weights(to[0] + o * width, to[1] - to[0], j->call->w + o * 9 * j->d.c + at, j->d.c,
				      (int)n, true);
		for (int i = 0; i < PLACES && n < width; i++)
			memset(to[i] + o * width + n, 0, (size_t)(width - n) * sizeof(float));
	}
}

static void pack_panel(void *arg, int64_t panel, int worker)
{
	const struct pass *p = arg;
	const int64_t at = panel * p->j->simd->panel, n = sl_cpu_min(p->j->simd->panel, p->out - at);
	const int64_t width = n > p->j->simd->panel / 2 ? p->j->simd->panel : p->j->simd->panel / 2;
	float *to[PLACES];

	for (int i = 0; i < PLACES; i++)
		to[i] = p->u[i].packed + at * p->in;
	(p->back ? pack_back : pack_forward)(p, at, n, width, to);
}

static struct pass open_pass(const struct job *j, bool back)
{
	struct pass p = {.j = j, .in = back ? j->d.o : j->d.c, .out = back ? j->d.c : j->d.o, .back = back};
	const int64_t apart = sl_cpu_line(sl_gemm_packed_floats(p.in, p.out));

	for (int i = 0; i < PLACES; i++)
		p.u[i] = (struct sl_gemm_weights){j->simd, j->packed + i * apart, p.in, p.out, false};
	sl_pool_run(j->call->be->pool, sl_cpu_blocks(p.out, j->simd->panel), pack_panel, &p);
	return p;
}

/* ---- tiles */

/* The first row of pixels of a row of tiles, counted through all images. */
static int64_t first_row(const struct job *j, int64_t tile_row)
{
	return tile_row / j->tiles_h * j->d.h + tile_row % j->tiles_h * 2;
}

/* Pointers to size × size pixels of image n from (h, w) on; outside the image to zeros. */
static void point(const struct job *j, const struct pixels *from, int64_t n, int64_t h, int64_t w, int size,
		  const float **to)
{
	for (int a = 0; a < size; a++) {
		const bool outside = h + a < 0 || h + a >= j->d.h;
		const float *row = from->base + ((n * j->d.h + h + a) * j->d.w + w) * from->c;

		for (int b = 0; b < size; b++)
			*to++ = outside || w + b < 0 || w + b >= j->d.w ? j->zero : row + b * from->c;
	}
}

/* V of `count` rows of tiles: rows from … to−1 of the 4×4 domain. */
static void transform_in(const struct job *j, const struct pixels *x, int64_t row, int64_t count, float *v, int from,
			 int to)
{
	const int64_t plane = place_floats(j, x->c);
	const float *d[16];

	for (int64_t r = row; r < row + count; r++) {
		for (int64_t t = 0; t < j->tiles_w; t++, v += x->c + PAD) {
			point(j, x, r / j->tiles_h, r % j->tiles_h * 2 - 1, 2 * t - 1, 4, d);
			j->simd->wino_in(v, plane, d, (int)x->c, from, to);
		}
	}
}

static void transform_gradient(const struct job *j, const struct pixels *dy, int64_t row, int64_t count, int64_t o,
			       int64_t n, float *m, int from, int to)
{
	const int64_t plane = place_floats(j, j->d.o);
	const struct pixels some = {dy->base + o, dy->c};
	const float *at[4];

	for (int64_t r = row; r < row + count; r++) {
		for (int64_t t = 0; t < j->tiles_w; t++, m += n + PAD) {
			point(j, &some, r / j->tiles_h, r % j->tiles_h * 2, 2 * t, 2, at);
			j->simd->wino_grad(m, plane, at, (int)n, from, to);
		}
	}
}

static void transform_out(const struct pass *p, int64_t row, int64_t count, const float *m)
{
	const struct job *j = p->j;
	const struct sl_conv_call *call = j->call;
	const int64_t plane = place_floats(j, p->out);
	float *to = p->back ? call->dx : call->y, *at[4];

	for (int64_t r = row; r < row + count; r++) {
		for (int64_t t = 0; t < j->tiles_w; t++, m += p->out + PAD) {
			const int64_t h = r % j->tiles_h * 2, w = 2 * t;
			float *y = to + ((r / j->tiles_h * j->d.h + h) * j->d.w + w) * p->out;
			const bool right = w + 1 < j->d.w, below = h + 1 < j->d.h;

			at[0] = y;
			at[1] = right ? y + p->out : NULL;
			at[2] = below ? y + j->d.w * p->out : NULL;
			at[3] = right && below ? y + (j->d.w + 1) * p->out : NULL;
			j->simd->wino_out(at, m, plane, p->back ? NULL : call->bias, (int)p->out, p->back && call->add);
		}
	}
}

/* The gradient at y for the pixels that rows of tiles read, with `halo` rows of pixels around them: dy
 * itself, or dy propagated through the batchnorm behind, in `memory`. */
static struct pixels gradient(const struct job *j, int64_t row, int64_t count, int halo, float *memory)
{
	const struct sl_conv_call *call = j->call;
	const int64_t o = j->d.o, all = j->d.n * j->d.h;
	const int64_t from = sl_cpu_max(0, first_row(j, row) - halo) * j->d.w;
	const int64_t to = sl_cpu_min(all, first_row(j, row + count) + halo) * j->d.w;

	if (call->post == NULL)
		return (struct pixels){call->dy, o};
	j->simd->bn_backward(memory, call->dy + from * o, call->out + from * o, &j->bn.post, to - from, (int)o,
			     j->bn.act_post, false);
	return (struct pixels){memory - from * o, o};
}

/* ---- forward and dX */

static void statistics(const struct job *j, int64_t block, int64_t row, int64_t count)
{
	const int64_t o = j->d.o, from = first_row(j, row) * j->d.w, to = first_row(j, row + count) * j->d.w;
	const struct sl_bn_range all = {0, o};
	float *part = j->bn.parts + block * j->bn.stride;

	sl_bn_begin_stats(part, j->call->y + from * o, o, all);
	sl_bn_add_stats(j->simd, part, j->call->y + from * o, to - from, o, all);
}

static void pass_block(void *arg, int64_t block, int worker)
{
	const struct pass *p = arg;
	const struct job *j = p->j;
	const struct sl_conv_call *call = j->call;
	const int64_t row = block * j->block_rows, count = sl_cpu_min(j->block_rows, j->rows - row);
	const int64_t ldv = p->in + PAD, ldm = p->out + PAD;
	float *v = j->scratch + worker * worker_floats(j), *m = v + PLACES * place_floats(j, p->in);
	struct pixels from = {call->x, p->in};

	if (p->back)
		from = gradient(j, row, count, 1, m + PLACES * place_floats(j, p->out));
	transform_in(j, &from, row, count, v, 0, 4);
	for (int i = 0; i < PLACES; i++) {
		const float *seg = v + i * place_floats(j, p->in);

		sl_gemm_rows(&p->u[i], m + i * place_floats(j, p->out), ldm, &seg, 1, ldv, count * j->tiles_w, false,
			     &(struct sl_prefetch){0});
	}
	transform_out(p, row, count, m);
	if (!p->back && call->post != NULL && call->training)
		statistics(j, block, row, count);
}

static void forward(const struct sl_conv_call *call)
{
	const struct job j = open_job(call, false);
	struct pass p = open_pass(&j, false);

	sl_pool_run(call->be->pool, j.blocks, pass_block, &p);
	sl_conv_bn_finish(call, &j.bn, j.blocks, false);
}

/* ---- dW */

/* A span's dU for some output channels: one row of the 4×4 domain, or all four. The task of row 0 also sums
 * dbias. */
static void weight_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int from = (int)(task % j->groups), rows = GROUPS / (int)j->groups;
	const int64_t column = task / j->groups % j->column_groups * j->columns,
		      span = task / j->groups / j->column_groups;
	const int64_t n = sl_cpu_min(j->columns, j->d.o - column), c = j->d.c, o = j->d.o;
	const int64_t begin = span * j->span_blocks * j->block_rows;
	const int64_t end = sl_cpu_min(j->rows, begin + j->span_blocks * j->block_rows);
	float *du = j->part + span * part_floats(j), *db = du + PLACES * o * c + column;
	float *v = j->scratch + s->worker * worker_floats(j), *m = v + PLACES * place_floats(j, c);
	const struct pixels x = {j->call->x, c};

	du += (from * 4 * o + column) * c;
	for (int i = 0; i < 4 * rows && s->at == 0; i++)
		memset(du + i * o * c, 0, (size_t)(n * c) * sizeof(float));
	if (from == 0 && s->at == 0)
		memset(db, 0, (size_t)n * sizeof(float));
	for (int64_t row = begin + s->at; row < end;) {
		const int64_t count = sl_cpu_min(j->block_rows, end - row);
		const struct pixels dy = gradient(j, row, count, 0, m + PLACES * place_floats(j, o));

		transform_in(j, &x, row, count, v, from, from + rows);
		transform_gradient(j, &dy, row, count, column, n, m, from, from + rows);
		for (int i = 0; i < 4 * rows; i++)
			j->simd->gemm_outer(du + i * o * c, c, m + i * place_floats(j, o), n + PAD, n,
					    v + i * place_floats(j, c), c + PAD, c, count * j->tiles_w,
					    &(struct sl_prefetch){0});
		if (from == 0 && j->call->dbias != NULL)
			for (int64_t px = first_row(j, row) * j->d.w; px < first_row(j, row + count) * j->d.w; px++)
				j->simd->sum(db, db, dy.base + px * o + column, n);
		row += j->block_rows;
		if (row < end && sl_pool_stop(s, row - begin))
			return;
	}
}

/* Sums the spans' dU of output channel o, and transforms it back. */
static void add_weights(void *arg, int64_t o, int worker)
{
	const struct job *j = arg;
	const int64_t c = j->d.c, plane = j->d.o * c;
	float *du = j->part + o * c;

	for (int64_t span = 1; span < j->spans; span++)
		for (int i = 0; i < PLACES; i++)
			j->simd->sum(du + i * plane, du + i * plane, du + span * part_floats(j) + i * plane, c);
	j->simd->wino_weights_back(j->call->dw + o * 9 * c, c, du, plane, (int)c);
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);

	if (call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(call->be->pool, j.spans * j.column_groups * j.groups, weight_task, &j);
	if (call->dw != NULL)
		sl_pool_run(call->be->pool, j.d.o, add_weights, &j);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + PLACES * j.d.o * j.d.c, j.d.o, part_floats(&j), j.spans);
	if (call->dx != NULL) {
		struct pass p = open_pass(&j, true);

		sl_pool_run(call->be->pool, j.blocks, pass_block, &p);
	}
	sl_conv_bn_finish(call, &j.bn, j.blocks, true);
}

bool sl_conv_wino_takes(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;
	const int64_t *in = op->in_shape[0].dim;

	return a->kh == 3 && a->kw == 3 && a->stride == 1 && a->pad == 1 && a->groups == 1 && a->dilation == 1 &&
	       in[2] <= MOST_WIDTH && in[3] >= LEAST_CHANNELS && op->out_shape.dim[3] >= LEAST_CHANNELS;
}

const struct sl_conv_kernel sl_conv_wino = {workspace_bytes, forward, backward};
