/* Fully connected layer. Every position of a sequence is a row.
 *
 * Forward and dX use this backend's own tiles: a task packs some columns of the weights and multiplies rows
 * with them. Each element is the same chain of sums for any division into tasks. So it depends neither on the
 * number of threads, nor on the number of rows, nor on other rows. OpenBLAS computes dW, in tiles of the
 * result that depend on the layer's sizes alone, so that nothing is summed across threads.
 *
 * With precision bf16_factors, all three products multiply pairs of bfloat16 factors. The rows are rounded once;
 * weights of 16 bits already lie as pairs. Tiles and tasks are the same, with a pair in place of a float. dW is
 * not OpenBLAS's then. */
#include <cblas.h>
#include <string.h>

#include "kernels/cpu/gemm.h"

enum {
	WIDTH = 192, /* most columns of a task: with DEEP of them its weights stay in the L2 cache */
	DEEP = 768,  /* weights of a column that are packed at a time */
	LEAST_WIDTH = 64,
	HIGH = 1024, /* most rows of a task: packing costs as much as some 20 of them */
	LEAST_HIGH = 128,
	BLOCK = 112,    /* rows that pass through all of a task's columns: eight tiles of 14 */
	PAD = 16,       /* floats between rows that are copied */
	TILE_ROWS = 14, /* rows of an AVX-512 tile; prefetches are spread over tiles of this height */
	DW_ROWS = 384,  /* a tile of dW; tiles of 256² took 1.15 × as long, as OpenBLAS packs both sides for each */
	DW_COLUMNS = 768,
	DW_LEAST = 192, /* a layer whose dW has fewer rows is one tile high */
	CHAIN = 320,    /* products that OpenBLAS sums in one chain: the rounding error grows with its length */
	BIAS_ROWS = 64, /* of a block of dbias */
	LINE_BYTES = SL_CPU_LINE * sizeof(float)
};

/* y [rows, n] = or += x [rows, depth]·B + bias, where B[k][j] = w[k·row + j·col]. */
struct product {
	const struct sl_cpu_simd *simd;
	const float *x, *w, *bias;
	struct sl_held held; /* weights in 16 bits, in place of w */
	float *y, *scratch;  /* scratch: worker_floats for each worker, then room_of_rows */
	int64_t rows, depth, n, row, col;
	int64_t factors; /* factors of a row; `depth` is the same number, or with pairs the number of pairs */
	bool pairs;
	int64_t width, high; /* of a task */
	int64_t ld;          /* floats between rows of x */
	bool add;
};

/* Chooses the largest tasks that leave every thread two of them. Results do not depend on it. */
static void divide(struct product *p, int threads)
{
	int64_t high = HIGH, width = WIDTH;

	while (sl_cpu_blocks(p->rows, high) * sl_cpu_blocks(p->n, width) < 2 * threads &&
	       (width > LEAST_WIDTH || high > LEAST_HIGH))
		if (width > LEAST_WIDTH)
			width -= 32;
		else
			high /= 2;
	p->width = width;
	p->high = high;
}

static int64_t deep_of(int64_t depth)
{
	return sl_cpu_blocks(depth, sl_cpu_blocks(depth, DEEP));
}

/* The row stride of x that the tiles read. Rows a power of two apart would map to the same cache sets and
 * evict each other; they are copied once for all tasks, with PAD floats between them. */
static int64_t stride_of(int64_t depth)
{
	return depth % 512 ? depth : depth + PAD;
}

static int64_t room_of_rows(int64_t rows, int64_t depth, enum sl_precision precision)
{
	const int64_t room = stride_of(depth) == depth ? 0 : rows * stride_of(depth);

	return precision == SL_PRECISION_BF16_FACTORS ? sl_cpu_max(room, rows * stride_of(sl_gemm_depth(depth, true)))
						      : room;
}

/* Floats of one worker's scratch. */
static int64_t worker_floats(int64_t depth)
{
	return sl_gemm_packed_floats(deep_of(depth), WIDTH);
}

/* The work of one step of a task: columns [j, j + n) of rows [from, to), weights [k, k + depth) of each
 * column. */
struct part {
	int64_t j, n, from, to, k, depth;
	float *packed; /* the weights */
};

/* Adds the bias to `rows` rows of y, for `n` columns from `at` on of the task's; only after their last
 * product. */
static void add_bias(const struct product *p, const struct part *t, float *y, int64_t rows, int64_t at, int64_t n)
{
	for (int64_t r = 0; r < rows && p->bias && t->k + t->depth == p->depth; r++, y += p->n)
		p->simd->sum(y, y, p->bias + t->j + at, n);
}

/* Computes `rows` rows of y from i on, for `n` columns from `at` on of the task's. */
static void product_rows(const struct product *p, const struct part *t, int64_t i, int64_t at, int64_t n,
			 struct sl_prefetch *next)
{
	const int64_t rows = sl_cpu_min(BLOCK, t->to - i);
	const struct sl_gemm_weights w = {p->simd, t->packed + at * t->depth, t->depth, n, p->pairs};
	const float *x = p->x + i * p->ld + t->k;
	float *y = p->y + i * p->n + t->j + at;

	sl_gemm_rows(&w, y, p->n, &x, 1, p->ld, rows, p->add || t->k > 0, next);
	add_bias(p, t, y, rows, at, n);
}

/* One contiguous range from `from` on, to be prefetched while so many rows are multiplied. */
static struct sl_prefetch ahead(const void *from, int64_t bytes, int64_t rows)
{
	return (struct sl_prefetch){.at = {from},
				    .end = {(const char *)from + bytes},
				    .n = bytes > 0,
				    .per_tile = (int)(bytes / LINE_BYTES / sl_cpu_blocks(rows, TILE_ROWS)) + 1};
}

static int64_t factors_of(const struct product *p, int64_t depth)
{
	return p->pairs ? 2 * depth : depth;
}

/* Address of the weights of column `j` from depth `k` on. */
static const void *weights_at(const struct product *p, int64_t j, int64_t k)
{
	const int64_t at = factors_of(p, k) * p->row + j * p->col;

	return p->held.data ? (const void *)(p->held.data + at) : (const void *)(p->w + at);
}

/* Packs n of the task's columns, from `at` on. */
static void pack(const struct product *p, const struct part *t, int64_t at, int64_t n)
{
	const void *w = weights_at(p, t->j + at, t->k);

	const int64_t factors = sl_cpu_min(factors_of(p, t->depth), p->factors - factors_of(p, t->k));

	if (p->held.data && p->pairs)
		sl_gemm_pack_pairs(p->simd, t->packed + at * t->depth, (struct sl_held){w, p->held.f16}, factors, n,
				   p->row, p->col);
	else if (p->held.data)
		sl_gemm_pack_held(p->simd, t->packed + at * t->depth, (struct sl_held){w, p->held.f16}, t->depth, n,
				  p->row, p->col);
	else
		sl_gemm_pack_here(p->simd, t->packed + at * t->depth, w, factors, n, p->row, p->col, p->pairs);
}

/* The first panel of a block prefetches the rows of the next tile. */
static struct sl_prefetch ahead_rows(const struct product *p, const struct part *t, int64_t i)
{
	const int64_t rows = sl_cpu_min(BLOCK, t->to - i);

	if (p->ld != t->depth || rows <= TILE_ROWS)
		return (struct sl_prefetch){.n = 0};
	return ahead(p->x + (i + TILE_ROWS) * p->depth, (rows - TILE_ROWS) * p->depth * (int64_t)sizeof *p->x,
		     rows - TILE_ROWS);
}

/* The first rows, while columns are packed one panel after another: the next panel is fetched from memory
 * while this one is multiplied. */
static void product_first(const struct product *p, const struct part *t)
{
	const int64_t panel = p->simd->panel, rows = sl_cpu_min(BLOCK, t->to - t->from);
	const int64_t column = p->col * (p->held.data ? (int64_t)sizeof *p->held.data : (int64_t)sizeof *p->w);

	for (int64_t at = 0; at < t->n; at += panel) {
		const int64_t n = sl_cpu_min(panel, t->n - at), left = t->n - at - n;
		struct sl_prefetch next = {.n = 0};

		pack(p, t, at, n);
		if (at == 0)
			next = ahead_rows(p, t, t->from);
		else if (p->col == factors_of(p, t->depth)) /* the next panel is contiguous */
			next = ahead(weights_at(p, t->j + at + n, t->k), sl_cpu_min(panel, left) * column, rows);
		product_rows(p, t, t->from, at, n, &next);
	}
}

/* Whether there are few rows and the weights can be read in place. */
static bool takes_held_rows(const struct product *p)
{
	return p->held.data && !p->held.f16 && !p->pairs && p->row == 1 && p->rows <= p->simd->held_most;
}

static void product_held(const struct product *p, const struct part *t)
{
	float *y = p->y + t->from * p->n + t->j;
	const int rows = (int)(t->to - t->from);

	p->simd->held_rows(y, p->n, p->x + t->from * p->ld + t->k, p->ld, t->depth, weights_at(p, t->j, t->k), p->col,
			   rows, t->n, p->add || t->k > 0);
	add_bias(p, t, y, rows, 0, t->n);
}

/* Multiplies blocks of the task's rows with a range of depth of its columns, which is packed in the scratch.
 * The steps are the blocks, for one range of depth after another. */
static void product_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct product *p = arg;
	const int64_t across = sl_cpu_blocks(p->n, p->width), deep = deep_of(p->depth);
	struct part t = {.j = task % across * p->width, .from = task / across * p->high};
	int64_t blocks, steps;

	t.n = sl_cpu_min(p->width, p->n - t.j);
	t.to = sl_cpu_min(p->rows, t.from + p->high);
	t.packed = p->scratch + s->worker * worker_floats(p->depth);
	blocks = sl_cpu_blocks(t.to - t.from, BLOCK);
	steps = blocks * sl_cpu_blocks(p->depth, deep);
	for (int64_t at = s->at; at < steps;) {
		const int64_t i = t.from + at % blocks * BLOCK;

		t.k = at / blocks * deep;
		t.depth = sl_cpu_min(deep, p->depth - t.k);
		if (takes_held_rows(p)) {
			product_held(p, &t);
		} else if (i == t.from && p->row == 1) {
			product_first(p, &t);
		} else {
			struct sl_prefetch next;

			if (i == t.from)
				pack(p, &t, 0, t.n);
			next = ahead_rows(p, &t, i);
			product_rows(p, &t, i, 0, t.n, &next);
		}
		if (++at < steps && sl_pool_stop(s, at))
			return;
	}
}

struct copy_job {
	const struct product *p;
	float *to;
};

static void copy_block(void *arg, int64_t block, int worker)
{
	const struct copy_job *j = arg;
	const struct product *p = j->p;

	for (int64_t r = block * BLOCK; r < sl_cpu_min(p->rows, (block + 1) * BLOCK); r++) {
		float *to = j->to + r * p->ld;

		if (p->pairs)
			sl_gemm_round_row(p->simd, to, p->x + r * p->factors, p->factors);
		else
			memcpy(to, p->x + r * p->depth, (size_t)p->depth * sizeof *to);
	}
}

static void multiply(struct product *p, const struct sl_op_call *call)
{
	const int threads = sl_cpu_threads(call->be);
	struct copy_job copy = {p, (float *)call->workspace + threads * worker_floats(p->depth)};

	p->simd = sl_cpu_simd_of(call->be);
	p->scratch = call->workspace;
	p->pairs = call->op->precision == SL_PRECISION_BF16_FACTORS;
	p->factors = p->depth;
	p->depth = sl_gemm_depth(p->factors, p->pairs);
	p->ld = stride_of(p->depth);
	if (p->pairs || p->ld != p->depth) {
		sl_pool_run(call->be->pool, sl_cpu_blocks(p->rows, BLOCK), copy_block, &copy);
		p->x = copy.to;
	}
	divide(p, threads);
	sl_pool_run_long(call->be->pool, sl_cpu_blocks(p->rows, p->high) * sl_cpu_blocks(p->n, p->width), product_task,
			 p);
}

struct job {
	const struct sl_cpu_simd *simd;
	int64_t rows, f, o;
	const float *x, *w, *bias, *dy;
	struct sl_held held;
	float *dw, *part;
	bool transposed; /* w and dw are [F,O] */
	bool pairs;      /* factors are rounded to bfloat16 */
};

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_linear_attr *a = &p->op->u.linear;
	const int64_t rows = sl_shape_count(&p->op->in_shape[0]) / a->in_f;
	const int64_t threads = sl_cpu_threads(p->be);
	const enum sl_precision as = p->op->precision;
	const int64_t product = sl_cpu_max(threads * worker_floats(a->in_f) + room_of_rows(rows, a->in_f, as),
					   threads * worker_floats(a->out_f) + room_of_rows(rows, a->out_f, as));
	const int64_t bias = a->bias ? (sl_cpu_blocks(rows, BIAS_ROWS) + 1) * sl_cpu_line(a->out_f) : 0;

	p->sizes.workspace_bytes = (size_t)sl_cpu_max(product, bias) * sizeof(float);
	return SL_OK;
}

/* Rows of a tile of dW. A large enough layer has an even number of equally high tiles, so that two threads
 * finish together. */
static int64_t dw_rows(int64_t rows, int64_t cols)
{
	const int64_t n = sl_cpu_blocks(rows, DW_ROWS), odd = n * sl_cpu_blocks(cols, DW_COLUMNS) % 2;

	return rows < DW_LEAST ? DW_ROWS : sl_cpu_line(sl_cpu_blocks(rows, n + odd));
}

/* One tile of dw += leftᵀ·right; both are [rows, …]. */
static void weight_tile(void *arg, int64_t block, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t rows = j->transposed ? j->f : j->o, cols = j->transposed ? j->o : j->f;
	const float *left = j->transposed ? j->x : j->dy, *right = j->transposed ? j->dy : j->x;
	const int64_t across = sl_cpu_blocks(cols, DW_COLUMNS);
	const int64_t high = dw_rows(rows, cols), r = block / across * high, c = block % across * DW_COLUMNS;
	const int64_t chain = sl_cpu_blocks(j->rows, sl_cpu_blocks(j->rows, CHAIN));

	for (int64_t at = s->at; at < j->rows;) {
		const int64_t deep = sl_cpu_min(chain, j->rows - at);
		const int64_t m = sl_cpu_min(high, rows - r), n = sl_cpu_min(DW_COLUMNS, cols - c);
		const float *a = left + at * rows + r, *b = right + at * cols + c;
		float *dw = j->dw + r * cols + c;

		if (j->pairs)
			sl_gemm_outer(j->simd, true, dw, cols, a, rows, m, b, cols, n, deep, &(struct sl_prefetch){0});
		else
			cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)n, (int)deep, 1.0f, a,
				    (int)rows, b, (int)cols, 1.0f, dw, (int)cols);
		at += chain;
		if (at < j->rows && sl_pool_stop(s, at))
			return;
	}
}

static void bias_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t at = block * BIAS_ROWS;
	float *part = j->part + block * sl_cpu_line(j->o);

	memset(part, 0, (size_t)j->o * sizeof *part);
	j->simd->row_sum(part, j->dy + at * j->o, j->o, sl_cpu_min(BIAS_ROWS, j->rows - at), (int)j->o);
}

static struct job job_of(const struct sl_op_call *call)
{
	const struct sl_linear_attr *a = &call->op->u.linear;

	return (struct job){
		.simd = sl_cpu_simd_of(call->be),
		.rows = sl_shape_count(&call->in[0].shape) / a->in_f,
		.f = a->in_f,
		.o = a->out_f,
		.x = call->in[0].data,
		.w = call->param[0],
		.held = call->held,
		.transposed = a->transposed,
		.pairs = call->op->precision == SL_PRECISION_BF16_FACTORS,
		.bias = a->bias ? call->param[1] : NULL,
	};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct job j = job_of(call);

	multiply(&(struct product){.x = j.x,
				   .w = j.w,
				   .held = j.held,
				   .bias = j.bias,
				   .y = call->out.data,
				   .rows = j.rows,
				   .depth = j.f,
				   .n = j.o,
				   .row = j.transposed ? j.o : 1,
				   .col = j.transposed ? 1 : j.f},
		 call);
	return SL_OK;
}

/* The rows are summed apart from the gradient so far, so that rounding does not grow with that. */
static void bias_back(struct job *j, const struct sl_op_call *call)
{
	const int64_t blocks = sl_cpu_blocks(j->rows, BIAS_ROWS), line = sl_cpu_line(j->o);
	float *total = (float *)call->workspace + blocks * line;

	j->part = call->workspace;
	sl_pool_run(call->be->pool, blocks, bias_block, j);
	memset(total, 0, (size_t)j->o * sizeof *total);
	sl_cpu_reduce(call->be, total, j->part, j->o, line, blocks);
	j->simd->sum(call->grad[1], call->grad[1], total, j->o);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	j.dy = call->dout.data;
	j.dw = call->grad[0];
	if (j.dw) {
		const int64_t rows = j.transposed ? j.f : j.o, cols = j.transposed ? j.o : j.f;

		sl_pool_run_long(call->be->pool,
				 sl_cpu_blocks(rows, dw_rows(rows, cols)) * sl_cpu_blocks(cols, DW_COLUMNS),
				 weight_tile, &j);
	}
	if (j.bias && call->grad[1])
		bias_back(&j, call);
	if (call->din[0].data)
		multiply(&(struct product){.x = j.dy,
					   .w = j.w,
					   .held = j.held,
					   .y = call->din[0].data,
					   .rows = j.rows,
					   .depth = j.o,
					   .n = j.f,
					   .row = j.transposed ? 1 : j.f,
					   .col = j.transposed ? j.o : 1,
					   .add = call->din_add[0]},
			 call);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_linear = {
	.prepare = prepare, .forward = forward, .backward = backward, .takes_held = true};
