/* Dense 3×3 convolutions of stride 1 with padding 1 by Winograd's F(4×4, 3×3). A tile of 4×4 outputs costs 36 products
 * of channels instead of 144.
 *
 *   forward   V = Bᵀ·x·B of a tile's inputs       M = V·U, U = G·w·Gᵀ   y = Aᵀ·M·A
 *   dX        the same, from dy, with the weights rotated by 180°
 *   dW        dU = Σ over tiles of (A·dy·Aᵀ)ᵀ·V   dw = Gᵀ·dU·G
 *
 * Behind a WINDOW that is read in place, V of a tile has the k slices' channels side by side. Then dX is made from k
 * slices of dy, with k·O channels.
 *
 * Inputs are 6×6. Each of the 36 places of this domain is one matrix product, [tiles, C]·[C, O] or its counterpart.
 * Tiles are numbered by rows of tiles through all images. A block is some of these rows, so that its output is
 * contiguous. The shape alone determines how the work is divided, not the number of threads. */
#include <string.h>

#include "kernels/cpu/conv_wino_impl.h"

enum {
	LEAST_CHANNELS = 16, /* below, the transforms cost more than they save */
	MOST_WIDTH = 256,    /* a block has at least one row of tiles, so its width is limited */
	BLOCK_FLOATS = 1 << 18,
	LEAST_TILES = 28,
	MOST_TILES = 112,
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22,    /* of all partial dU together: 16 MiB */
	FEW_TILES = 64,           /* of which dU is made in the cache */
	LARGE_GRADIENT = 1 << 19, /* floats of dU */
	LARGE_WEIGHTS = 1 << 20   /* floats of U */
};

/* ---- memory, and how the work is divided */

/* Floats of a unit of a block's V or M. */
static int64_t place_floats(const struct sl_wino_job *j, int64_t c)
{
	return sl_wino_apart(j->most_rows * j->tiles_w * (c + SL_WINO_PAD));
}

static int64_t gradient_floats(const struct sl_wino_job *j)
{
	return (SL_WINO_OUT * j->most_rows + 2) * j->d.out_w * j->d.o;
}

int64_t sl_wino_worker_floats(const struct sl_wino_job *j)
{
	const int64_t block = j->units * (place_floats(j, sl_wino_most_in(j)) + place_floats(j, sl_wino_most_out(j)));

	return sl_cpu_max(block, sl_wino_round_worker_floats(j)) + sl_cpu_line(gradient_floats(j));
}

static int64_t part_floats(const struct sl_wino_job *j)
{
	return SL_WINO_PLACES * sl_wino_gradient_place(j);
}

static int64_t most_spans(const struct sl_wino_job *j)
{
	if (j->large_dw)
		return j->whole_dw ? 0 : 1;
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (SL_WINO_PLACES * j->d.o * j->d.c)));
}

int64_t sl_wino_matrix_floats(const struct sl_wino_job *j)
{
	const int64_t c = j->d.c, o = j->d.o, taps = j->d.taps;

	return sl_wino_apart(sl_cpu_max(sl_gemm_packed_floats(c, o), sl_gemm_packed_floats(taps * o, c / taps)));
}

static int64_t packed_floats(const struct sl_wino_job *j)
{
	return j->whole ? 0 : SL_WINO_PLACES * sl_wino_matrix_floats(j);
}

static int64_t bias_floats(const struct sl_wino_job *j)
{
	return sl_cpu_max(MAX_SPANS, j->large_dw ? j->rows : 0) * sl_cpu_line(j->d.o);
}

static void divide(struct sl_wino_job *j)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t u = SL_WINO_PLACES * d->c * d->o;
	const int64_t side = d->stride == 2 ? SL_WINO_LONG : SL_WINO_SIDE;
	const int64_t tiles = BLOCK_FLOATS / (side * side * (d->c + d->o));

	j->units = side * side;
	j->tiles_h = sl_cpu_blocks(d->out_h, SL_WINO_OUT);
	j->tiles_w = sl_cpu_blocks(d->out_w, SL_WINO_OUT);
	j->last_h = d->out_h - (j->tiles_h - 1) * SL_WINO_OUT;
	j->last_w = d->out_w - (j->tiles_w - 1) * SL_WINO_OUT;
	j->rows = d->n * j->tiles_h;
	j->most_rows = sl_cpu_max(1, sl_cpu_max(LEAST_TILES, sl_cpu_min(MOST_TILES, tiles)) / j->tiles_w);
	j->most_blocks = sl_cpu_blocks(j->rows, j->most_rows);
	j->block_rows = sl_cpu_blocks(j->rows, j->most_blocks);
	j->blocks = sl_cpu_blocks(j->rows, j->block_rows);
	j->round_rows = sl_cpu_max(1, SL_WINO_ROUND_TILES / j->tiles_w);
	j->large_dw = u >= LARGE_GRADIENT;
	j->large = u >= LARGE_WEIGHTS;
	j->whole = j->large && j->rows <= j->round_rows;
	j->whole_dw = j->large && j->rows * j->tiles_w <= FEW_TILES;
	j->span_blocks = sl_cpu_blocks(j->blocks, sl_cpu_max(1, most_spans(j)));
	j->spans = sl_cpu_blocks(j->blocks, j->span_blocks);
}

static struct sl_wino_job job_of(const struct sl_cpu_simd *simd, const struct sl_conv_dims *d)
{
	struct sl_wino_job j = {.d = *d, .simd = simd};

	divide(&j);
	return j;
}

static int64_t zero_floats(const struct sl_wino_job *j)
{
	return sl_cpu_line(sl_cpu_max(j->d.c, j->d.o));
}

/* For the largest chunk: fewer images never need more of any part. */
static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, window, op->in_shape[0].dim[0]);
	const struct sl_wino_job j = job_of(sl_cpu_simd_of(be), &d);

	return (size_t)(most_spans(&j) * part_floats(&j) + bias_floats(&j) + sl_wino_round_floats(&j) +
			packed_floats(&j) + zero_floats(&j) + sl_cpu_threads(be) * sl_wino_worker_floats(&j) +
			sl_conv_bn_floats(&d, j.most_blocks)) *
	       sizeof(float);
}

static struct sl_wino_job open_job(const struct sl_conv_call *call, bool backward)
{
	struct sl_wino_job j = job_of(sl_cpu_simd_of(call->be), &call->d);

	j.call = call;
	j.part = call->workspace;
	j.bias = j.part + most_spans(&j) * part_floats(&j);
	j.round = j.bias + bias_floats(&j);
	j.packed = j.round + sl_wino_round_floats(&j);
	j.zero = j.packed + packed_floats(&j);
	j.scratch = j.zero + zero_floats(&j);
	j.bn = sl_conv_bn_open(call, backward, j.scratch + sl_cpu_threads(call->be) * sl_wino_worker_floats(&j));
	memset(j.zero, 0, (size_t)sl_cpu_max(j.d.c, j.d.o) * sizeof(float));
	return j;
}

/* ---- forward and dX */

static void pack_panel(void *arg, int64_t index, int worker)
{
	const struct sl_wino_pass *p = arg;
	const struct sl_wino_panel a = sl_wino_panel_at(p, index);

	sl_wino_weights(p, &a, 0, p->in, p->u[0].packed + a.at * p->in, sl_wino_matrix_floats(p->j));
}

static struct sl_wino_pass open_pass(const struct sl_wino_job *j, bool back)
{
	struct sl_wino_pass p = {.j = j,
				 .in = back ? j->d.taps * j->d.o : j->d.c,
				 .out = back ? j->d.c / j->d.taps : j->d.o,
				 .back = back};

	for (int i = 0; i < SL_WINO_PLACES && !j->whole; i++)
		p.u[i] =
			(struct sl_gemm_weights){j->simd, j->packed + i * sl_wino_matrix_floats(j), p.in, p.out, false};
	if (!j->whole)
		sl_pool_run(j->call->be->pool, sl_cpu_blocks(p.out, j->simd->panel), pack_panel, &p);
	return p;
}

static void statistics(const struct sl_wino_job *j, int64_t block, int64_t row, int64_t count)
{
	const int64_t o = j->d.o, from = sl_wino_first_row(j, row) * j->d.out_w;
	const int64_t to = sl_wino_first_row(j, row + count) * j->d.out_w;
	const struct sl_bn_range all = {0, o};
	float *part = j->bn.parts + block * j->bn.stride;

	sl_bn_begin_stats(part, j->call->y + from * o, o, all);
	sl_bn_add_stats(j->simd, part, j->call->y + from * o, to - from, o, all);
}

static bool has_statistics(const struct sl_wino_pass *p)
{
	return !p->back && p->j->call->post != NULL && p->j->call->training;
}

static void products(const struct sl_wino_pass *p, const float *v, float *m, int64_t row, int64_t count)
{
	const struct sl_wino_job *j = p->j;
	const int64_t in = place_floats(j, p->in), out = place_floats(j, p->out);

	for (int i = 0; i < SL_WINO_PLACES; i++) {
		const float *from = v + sl_wino_unit(j, i) * in;

		sl_gemm_rows(&p->u[i], m + sl_wino_unit(j, i) * out, p->out + SL_WINO_PAD, &from, 1,
			     p->in + SL_WINO_PAD, sl_wino_tiles(j, i, row, row + count), false,
			     &(struct sl_prefetch){0});
	}
}

static void pass_block(void *arg, int64_t block, int worker)
{
	const struct sl_wino_pass *p = arg;
	const struct sl_wino_job *j = p->j;
	const int64_t row = block * j->block_rows, count = sl_cpu_min(j->block_rows, j->rows - row);
	const int64_t in = place_floats(j, p->in), out = place_floats(j, p->out);
	float *v = j->scratch + worker * sl_wino_worker_floats(j), *m = v + j->units * in;
	struct sl_wino_pixels from = {j->call->x, p->in / j->d.taps};

	if (p->back)
		from = sl_wino_gradient(j, row, count, 1, m + j->units * out);
	sl_wino_in(j, &from, p->back, (struct sl_wino_part){row, row, count, in}, v);
	products(p, v, m, row, count);
	sl_wino_out(p, (struct sl_wino_part){row, row, count, out}, m, p->out + SL_WINO_PAD, 0, p->out);
	if (has_statistics(p))
		statistics(j, block, row, count);
}

static void statistics_task(void *arg, int64_t block, int worker)
{
	const struct sl_wino_job *j = arg;
	const int64_t row = block * j->block_rows;

	statistics(j, block, row, sl_cpu_min(j->block_rows, j->rows - row));
}

static void run_pass(struct sl_wino_job *j, bool back)
{
	struct sl_pool *pool = j->call->be->pool;
	struct sl_wino_pass p = open_pass(j, back);

	if (!j->large) {
		sl_pool_run(pool, j->blocks, pass_block, &p);
		return;
	}
	sl_wino_pass_rounds(&p);
	if (has_statistics(&p))
		sl_pool_run(pool, j->blocks, statistics_task, j);
}

static void forward(const struct sl_conv_call *call)
{
	struct sl_wino_job j = open_job(call, false);

	run_pass(&j, false);
	sl_conv_bn_finish(call, &j.bn, j.blocks, false);
}

/* ---- dW */

/* A span's dU and dbias. */
static void weight_task(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct sl_wino_job *j = arg;
	const int64_t c = j->d.c, o = j->d.o, place_v = place_floats(j, c), place_m = place_floats(j, o);
	const int64_t begin = span * j->span_blocks * j->block_rows, place_u = sl_wino_gradient_place(j);
	const int64_t end = sl_cpu_min(j->rows, begin + j->span_blocks * j->block_rows);
	float *du = j->part + span * part_floats(j), *db = j->bias + span * sl_cpu_line(o);
	float *v = j->scratch + s->worker * sl_wino_worker_floats(j), *m = v + j->units * place_v;
	const struct sl_wino_pixels x = {j->call->x, c / j->d.taps};

	if (s->at == 0) {
		memset(du, 0, (size_t)part_floats(j) * sizeof(float));
		memset(db, 0, (size_t)o * sizeof(float));
	}
	for (int64_t row = begin + s->at; row < end;) {
		const int64_t count = sl_cpu_min(j->block_rows, end - row);
		const struct sl_wino_pixels dy = sl_wino_gradient(j, row, count, 0, m + j->units * place_m);

		sl_wino_in(j, &x, false, (struct sl_wino_part){row, row, count, place_v}, v);
		sl_wino_grad(j, &dy, (struct sl_wino_part){row, row, count, place_m}, m);
		for (int i = 0; i < SL_WINO_PLACES; i++)
			j->simd->gemm_outer(du + i * place_u, c, m + sl_wino_unit(j, i) * place_m, o + SL_WINO_PAD, o,
					    v + sl_wino_unit(j, i) * place_v, c + SL_WINO_PAD, c,
					    sl_wino_tiles(j, i, row, row + count), &(struct sl_prefetch){0});
		if (j->call->dbias != NULL)
			sl_wino_add_bias(j, db, &dy, row, count);
		row += j->block_rows;
		if (row < end && sl_pool_stop(s, row - begin))
			return;
	}
}

/* Sums the spans' dU of output channel o, and transforms it back. */
static void add_weights(void *arg, int64_t o, int worker)
{
	const struct sl_wino_job *j = arg;
	const int64_t c = j->d.c, place = sl_wino_gradient_place(j);
	float *du = j->part + o * c;

	for (int64_t span = 1; span < j->spans && !j->large_dw; span++)
		for (int i = 0; i < SL_WINO_PLACES; i++)
			j->simd->sum(du + i * place, du + i * place, du + span * part_floats(j) + i * place, c);
	sl_wino_weights_back(j, j->call->dw + o * 9 * c, du, place, c);
}

static void backward(const struct sl_conv_call *call)
{
	struct sl_wino_job j = open_job(call, true);
	struct sl_pool *pool = call->be->pool;

	if (call->dw != NULL || call->dbias != NULL) {
		if (j.large_dw)
			sl_wino_weight_rounds(&j);
		else
			sl_pool_run_long(pool, j.spans, weight_task, &j);
	}
	if (call->dw != NULL && !j.whole_dw)
		sl_pool_run(pool, j.d.o, add_weights, &j);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.bias, j.d.o, sl_cpu_line(j.d.o), j.large_dw ? j.rows : j.spans);
	if (call->dx != NULL)
		run_pass(&j, true);
	sl_conv_bn_finish(call, &j.bn, j.blocks, true);
}

/* Volumes' stride 2 is not made here: dX would go over twice as many slices as a window has, and a window that is read
 * in place shall give the bits of one that is not. */
bool sl_conv_wino_takes(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;
	const int64_t *out = op->out_shape.dim;

	return a->kh == 3 && a->kw == 3 && (a->stride == 1 || (a->stride == 2 && op->slices == 0)) && a->pad == 1 &&
	       a->groups == 1 && a->dilation == 1 && out[2] <= MOST_WIDTH &&
	       (out[1] > 2 || out[2] > 2) && /* else most of a tile lies outside the image */
	       op->in_shape[0].dim[3] >= LEAST_CHANNELS && out[3] >= LEAST_CHANNELS;
}

double sl_conv_wino_products(const struct sl_op *op, int64_t rows)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, rows);
	struct sl_wino_job j = {.d = d};
	int64_t tiles = 0;

	divide(&j);
	for (int i = 0; i < SL_WINO_PLACES; i++)
		tiles += sl_wino_tiles(&j, i, 0, j.rows);
	return (double)tiles * (double)(d.c * d.o);
}

const struct sl_conv_kernel sl_conv_wino = {workspace_bytes, forward, backward};
