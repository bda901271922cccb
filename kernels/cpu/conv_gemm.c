/* Dense convolutions as products over blocks of output pixels. With patches P [M, K],
 * K = KH·KW·I, M = N·H'·W':
 *   Y = P·Wᵀ        dP = dY·W        dW = dYᵀ·P
 * A 1×1 convolution of stride 1 has P = X. Otherwise the patches of a block are copied out, and gradients are
 * scattered back image by image. dW is summed over spans of M, whose number depends on the shape alone, then
 * over the spans. If M has few blocks, their columns are divided as well: Y's in forward, those of dW and dX
 * in backward. Behind a WINDOW that is read in place, a patch has the slices' channels side by side. For dX the
 * weights of each part of the window are a matrix of their own. */
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	BLOCK_FLOATS = 16384, /* of one block of P and Y: 64 KiB, most of it in the nearest cache */
	MOST_ROWS = 504,
	LEAST_ROWS = 56,
	TALL_ROWS = 112, /* rows of a block where BLOCK_FLOATS would give fewer than LEAST_ROWS */
	FORWARD_TASKS = 64,
	MAX_SPANS = 16,
	FEW_BLOCKS = 8,
	WIDE_ROWS = 256, /* rows of backward's block if M has few blocks: a task then has only some columns */
	GRADIENT_ROWS = 32,
	FORWARD_COLUMNS = 128, /* of a task, if M has few blocks */
	COLUMNS = 32,          /* multiple of every panel */
	SPAN_FLOATS = 1 << 22, /* of all partial dW together: 16 MiB */
	SAME_SETS = 512,       /* rows a multiple of so many floats long map to few cache sets */
	SAME_SET = 1024,       /* to a single one, which holds fewer rows than a tile has */
	TURNED_FLOATS = 16384, /* largest dW that may be summed transposed: one thread transposes it back */
};

struct job {
	const struct sl_conv_call *call;
	struct sl_conv_dims d;
	int64_t m, k;
	int64_t block_rows, forward_rows; /* rows of a block; of a task of forward */
	int64_t span_rows, spans;
	int64_t groups, columns;  /* groups that the columns of Y or dX are divided into; columns of a group */
	float *part;              /* [spans, O·K + O] */
	float *scratch;           /* per worker [block_rows, K] and [block_rows, O] */
	float *dy;                /* [M, ld_dy] with several groups: the gradient at Y, computed once for all; NULL:
				   * see `gradient` */
	int64_t ld_dy, ld_p;      /* row strides of what `gradient` and `patches` return */
	struct sl_conv_bn bn;     /* a part per block */
	struct sl_gemm_weights w; /* forward: Wᵀ [K, O]; backward: W [O, K], or of a window's first part [O, K/taps] */
	int64_t w_apart;          /* floats from a part's packed weights to the next part's */
	bool direct;              /* P = X */
	bool pairs;               /* factors are rounded to bfloat16 */
	bool turned;              /* dWᵀ = PᵀdY is summed: its columns fill whole registers better */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(j->d.o * j->k) + sl_cpu_line(j->d.o);
}

static int64_t most_spans(const struct job *j)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (j->d.o * j->k)));
}

/* Rows of a block if M has many blocks. */
static int64_t many_rows(const struct job *j)
{
	int64_t rows = BLOCK_FLOATS / (j->k + j->d.o) / 14 * 14;

	return rows < LEAST_ROWS ? TALL_ROWS : sl_cpu_min(MOST_ROWS, rows);
}

/* Most rows of a block, for any M. */
static int64_t most_rows(const struct job *j)
{
	return sl_cpu_max(WIDE_ROWS, many_rows(j));
}

/* Rows whose length is a power of two map to few cache sets, which hold only few of them. Copies of such rows
 * are one cache line longer. */
static int64_t padded(int64_t n)
{
	return n % SAME_SETS == 0 ? n + SL_CPU_LINE : n;
}

static int64_t worker_floats(const struct job *j)
{
	return sl_cpu_line(most_rows(j) * padded(j->k)) + sl_cpu_line(most_rows(j) * padded(j->d.o));
}

/* Divides the columns into at most `groups` even groups of whole panels. */
static void divide_columns(struct job *j, int64_t all, int64_t groups)
{
	j->columns = sl_cpu_blocks(sl_cpu_blocks(all, sl_cpu_max(1, groups)), COLUMNS) * COLUMNS;
	j->groups = sl_cpu_blocks(all, j->columns);
}

/* With few blocks, the number of spans is reduced so that spans × groups is about MAX_SPANS: each span has a
 * dW of its own. */
static void divide(struct job *j, bool backward)
{
	int64_t blocks, spans = most_spans(j);
	bool few;

	j->block_rows = many_rows(j);
	blocks = sl_cpu_blocks(j->m, j->block_rows);
	few = j->direct && blocks < FEW_BLOCKS;
	if (few && backward)
		blocks = sl_cpu_blocks(j->m, sl_cpu_max(WIDE_ROWS, j->block_rows));
	if (few)
		j->block_rows = sl_cpu_blocks(j->m, blocks);
	if (!backward) {
		divide_columns(j, j->d.o, few ? j->d.o / FORWARD_COLUMNS : 1);
	} else {
		divide_columns(j, j->k, few ? MAX_SPANS : 1);
		if (few)
			spans = sl_cpu_min(spans, j->groups >= FEW_BLOCKS ? 1 : sl_cpu_blocks(MAX_SPANS, j->groups));
	}
	j->forward_rows = sl_cpu_blocks(sl_cpu_blocks(j->m, FORWARD_TASKS), j->block_rows) * j->block_rows;
	j->span_rows = sl_cpu_blocks(sl_cpu_blocks(j->m, spans), j->block_rows) * j->block_rows;
	j->spans = sl_cpu_blocks(j->m, j->span_rows);
}

static struct job job_of(const struct sl_op *op, const struct sl_conv_dims *d, bool backward, float *workspace)
{
	struct job j = {.d = *d,
			.direct = sl_conv_is_pointwise(&op->u.conv) && d->window == NULL,
			.pairs = op->precision == SL_PRECISION_BF16_FACTORS};

	j.m = d->n * d->out_h * d->out_w;
	j.k = (int64_t)d->kh * d->kw * d->c;
	divide(&j, backward);
	j.part = workspace;
	j.scratch = workspace + most_spans(&j) * part_floats(&j);
	return j;
}

static int64_t blocks_of(const struct job *j)
{
	return sl_cpu_blocks(j->m, j->block_rows);
}

static int64_t part_packed_floats(const struct job *j)
{
	return sl_cpu_line(sl_gemm_packed_floats(j->d.o, j->k / j->d.taps));
}

/* With a window also the weights of one part, before they are packed. */
static int64_t packed_floats(const struct job *j)
{
	const int64_t parts = j->d.taps * part_packed_floats(j) + (j->d.window ? j->d.o * j->k / j->d.taps : 0);

	return sl_cpu_line(sl_cpu_max(sl_gemm_packed_floats(j->k, j->d.o), parts));
}

static int64_t dy_floats(const struct job *j)
{
	return j->direct ? sl_cpu_line(sl_cpu_min(j->m, FEW_BLOCKS * many_rows(j)) * padded(j->d.o)) : 0;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, window, op->in_shape[0].dim[0]);
	struct job j = job_of(op, &d, true, NULL);

	return (size_t)(most_spans(&j) * part_floats(&j) + sl_cpu_threads(be) * worker_floats(&j) + packed_floats(&j) +
			dy_floats(&j) + sl_conv_bn_floats(&d, sl_cpu_blocks(j.m, many_rows(&j)))) *
	       sizeof(float);
}

/* The cost of a row of dW = AᵀB: rows of tiles times registers. A tile one register wide is bound by loads,
 * and takes more than half the time of one two wide. */
static double outer_cost(const struct sl_cpu_simd *simd, int64_t na, int64_t nb)
{
	int64_t rest = nb % simd->panel;

	return (double)na * ((double)(nb / simd->panel) + (rest == 0 ? 0.0 : rest > simd->panel / 2 ? 1.0 : 0.55));
}

static bool is_turned(const struct job *j, const struct sl_cpu_simd *simd)
{
	return j->groups == 1 && j->d.o * j->k <= TURNED_FLOATS &&
	       outer_cost(simd, j->k, j->d.o) < outer_cost(simd, j->d.o, j->k);
}

static struct sl_gemm_weights part_weights(const struct job *j, int part)
{
	struct sl_gemm_weights w = j->w;

	w.packed += part * j->w_apart;
	return w;
}

static void pack_back(struct job *j, float *packed)
{
	const struct sl_conv_call *call = j->call;
	const int64_t o = j->d.o, taps = j->d.taps, k = j->k / taps, c = j->d.c / taps;
	float *part = packed + taps * part_packed_floats(j);

	j->w_apart = part_packed_floats(j);
	if (j->d.window == NULL)
		j->w = sl_gemm_pack(call->be, packed, call->w, o, k, k, 1, j->pairs);
	for (int64_t i = taps - 1; i >= 0 && j->d.window != NULL; i--) {
		for (int64_t m = 0; m < o * k / c; m++)
			memcpy(part + m * c, call->w + (m * taps + i) * c, (size_t)c * sizeof *part);
		j->w = sl_gemm_pack(call->be, packed + i * j->w_apart, part, o, k, k, 1, j->pairs);
	}
}

static struct job open_job(const struct sl_conv_call *call, bool backward)
{
	struct job j = job_of(call->op, &call->d, backward, call->workspace);
	float *packed = j.scratch + sl_cpu_threads(call->be) * worker_floats(&j);

	j.call = call;
	j.turned = backward && is_turned(&j, sl_cpu_simd_of(call->be));
	j.bn = sl_conv_bn_open(call, backward, packed + packed_floats(&j) + dy_floats(&j));
	j.ld_dy = j.d.o;
	j.ld_p = j.k;
	if (backward && j.groups > 1 && (call->post != NULL || padded(j.d.o) != j.d.o))
		j.dy = packed + packed_floats(&j);
	if (backward && (j.dy != NULL || j.d.o % SAME_SET == 0))
		j.ld_dy = padded(j.d.o);
	if (backward ? j.groups > 1 : j.k % SAME_SET == 0)
		j.ld_p = padded(j.k);
	if (backward)
		pack_back(&j, packed);
	else
		j.w = sl_gemm_pack(call->be, packed, call->w, j.k, j.d.o, 1, j.k, j.pairs);
	return j;
}

/* Taps of a kernel's row that are contiguous in x: all, or one with dilation. Those that lie in the image are
 * [from, to), and the first of these is pixel `at` of the image. */
struct run {
	int64_t at, from, to;
};

static int run_taps(const struct sl_conv_dims *d)
{
	return d->dilation == 1 ? d->kw : 1;
}

/* The run from tap (kh, kw) of output pixel m on. */
static struct run run_at(const struct sl_conv_dims *d, int64_t m, int kh, int kw)
{
	const int64_t ow = m % d->out_w, oh = m / d->out_w % d->out_h;
	const int64_t h = oh * d->stride - d->pad + (int64_t)kh * d->dilation;
	const int64_t w = ow * d->stride - d->pad + (int64_t)kw * d->dilation;
	const int64_t from = sl_cpu_max(0, -w), to = sl_cpu_min(run_taps(d), d->w - w);

	if (h < 0 || h >= d->h || to <= from)
		return (struct run){0};
	return (struct run){h * d->w + w + from, from, to};
}

/* Copies the pixels of a run from the slices of output image n. */
static void copy_slices(const struct job *j, float *p, const struct run *r, int64_t n)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t c = d->c / d->taps;

	for (int i = 0; i < d->taps; i++, p += c) {
		const int64_t slice = sl_conv_slice(d, n, i), some = d->window ? 1 : r->to - r->from;
		const float *x = j->call->x + (slice * d->h * d->w + r->at) * c;

		for (int64_t t = 0; t < r->to - r->from; t += some)
			if (slice < 0)
				memset(p + t * d->c, 0, (size_t)c * sizeof(float));
			else
				memcpy(p + t * d->c, x + t * c, (size_t)(some * c) * sizeof(float));
	}
}

/* Copies one patch, zero outside the image. */
static void copy_patch(const struct job *j, float *p, int64_t m)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t n = m / d->out_w / d->out_h;
	const int taps = run_taps(d);

	for (int t = 0; t < d->kh * d->kw; t += taps, p += taps * d->c) {
		const struct run r = run_at(d, m, t / d->kw, t % d->kw);

		memset(p, 0, (size_t)(r.from * d->c) * sizeof(float));
		copy_slices(j, p + r.from * d->c, &r, n);
		memset(p + r.to * d->c, 0, (size_t)((taps - r.to) * d->c) * sizeof(float));
	}
}

/* Adds the gradient of a patch, or of its part of a window's slice, to the image dx. */
static void scatter_patch(const struct job *j, float *dx, const float *p, int64_t m)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t c = d->c / d->taps;
	const int taps = run_taps(d);

	for (int t = 0; t < d->kh * d->kw; t += taps, p += taps * c) {
		const struct run r = run_at(d, m, t / d->kw, t % d->kw);
		float *to = dx + r.at * c;

		if (r.to > r.from)
			sl_cpu_simd_of(j->call->be)->sum(to, to, p + r.from * c, (r.to - r.from) * c);
	}
}

/* P of rows [m, m + rows), row stride ld_p: x itself, or a copy in the worker's scratch. If P = X, only
 * columns k are copied. */
static const float *patches(const struct job *j, int64_t m, int64_t rows, struct sl_bn_range k, int worker)
{
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(j->call->be);
	const float *x = j->call->x + m * j->k;
	float *p = j->scratch + worker * worker_floats(j);
	struct sl_cpu_bn bn;

	if (j->direct && j->call->pre == NULL && j->ld_p == j->k)
		return x;
	bn = sl_bn_from(&j->bn.pre, k.at);
	for (int64_t r = 0; r < rows; r++) {
		float *to = p + r * j->ld_p;

		if (!j->direct)
			copy_patch(j, to, m + r);
		else if (j->call->pre == NULL)
			memcpy(to + k.at, x + r * j->k + k.at, (size_t)k.n * sizeof(float));
		else if (j->ld_p != j->k)
			simd->bn_forward(to + k.at, x + r * j->k + k.at, &bn, k.n, 1, (int)k.n, j->bn.act_pre);
	}
	if (j->direct && j->call->pre != NULL && j->ld_p == j->k)
		simd->bn_forward(p + k.at, x + k.at, &bn, j->k, rows, (int)k.n, j->bn.act_pre);
	return p;
}

static void bn_gradient(const struct job *j, float *to, int64_t m, int64_t rows)
{
	int64_t o = j->d.o;

	sl_cpu_simd_of(j->call->be)
		->bn_backward(to, j->call->dy + m * o, j->call->out + m * o, &j->bn.post, rows, (int)o, j->bn.act_post,
			      false);
}

/* Rows [m, m + rows) of the gradient at Y, row stride ld_dy. */
static void copy_gradient(const struct job *j, float *to, int64_t m, int64_t rows)
{
	const int64_t o = j->d.o;

	if (j->ld_dy == o) {
		bn_gradient(j, to, m, rows);
		return;
	}
	for (int64_t r = m; r < m + rows; r++, to += j->ld_dy)
		if (j->call->post != NULL)
			bn_gradient(j, to, r, 1);
		else
			memcpy(to, j->call->dy + r * o, (size_t)o * sizeof(float));
}

static void gradient_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t m = block * GRADIENT_ROWS;

	copy_gradient(j, j->dy + m * j->ld_dy, m, sl_cpu_min(GRADIENT_ROWS, j->m - m));
}

/* The gradient at Y of rows [m, m + rows), row stride ld_dy: dy itself, or a copy, propagated through the batchnorm
 * behind if there is one. */
static const float *gradient(const struct job *j, int64_t m, int64_t rows, int worker)
{
	float *to = j->scratch + worker * worker_floats(j) + sl_cpu_line(most_rows(j) * padded(j->k));

	if (j->dy != NULL)
		return j->dy + m * j->ld_dy;
	if (j->call->post == NULL && j->ld_dy == j->d.o)
		return j->call->dy + m * j->d.o;
	copy_gradient(j, to, m, rows);
	return to;
}

static void expect(struct sl_prefetch *next, const float *p, int64_t from, int64_t to, int64_t width)
{
	if (p == NULL || to <= from)
		return;
	next->at[next->n] = (const char *)(p + from * width);
	next->end[next->n++] = (const char *)(p + to * width);
}

/* The memory that the block of rows from m on will touch first, in a span that ends at `end`. */
static struct sl_prefetch ahead(const struct job *j, int64_t m, int64_t end, bool backward)
{
	const struct sl_conv_call *call = j->call;
	int64_t to = sl_cpu_min(end, m + j->block_rows), tile = j->w.simd->tile_rows, panel = j->w.simd->panel;
	int64_t o = j->d.o, lines = 0, tiles;
	struct sl_prefetch next = {.n = 0};

	expect(&next, backward ? call->dx : call->y, m, to, backward ? j->k : o);
	expect(&next, call->x, m, to, j->k);
	if (backward) {
		expect(&next, call->post != NULL ? call->out : NULL, m, to, o);
		expect(&next, call->dy, m, to, o);
	}
	for (int i = 0; i < next.n; i++)
		lines += (next.end[i] - next.at[i]) / 64;
	tiles = sl_cpu_blocks(j->block_rows, tile) * sl_cpu_blocks(backward ? j->k : o, panel);
	if (backward)
		tiles += j->turned ? sl_cpu_blocks(j->k, tile) * sl_cpu_blocks(o, panel)
				   : sl_cpu_blocks(o, tile) * sl_cpu_blocks(j->k, panel);
	next.per_tile = (int)sl_cpu_blocks(lines, tiles);
	return next;
}

/* Computes columns o of rows [m, m + rows) of Y, and their part of the statistics of `post`. */
static void forward_rows(const struct job *j, int64_t m, int64_t rows, struct sl_bn_range o, int worker,
			 struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_cpu_simd *simd = j->w.simd;
	struct sl_gemm_weights w = sl_gemm_columns(&j->w, o.at, o.n);
	float *y = call->y + m * j->d.o, *part = j->bn.parts + m / j->block_rows * j->bn.stride;
	const float *p = patches(j, m, rows, (struct sl_bn_range){0, j->k}, worker);

	sl_gemm_float_rows(&w, 0, j->k, y + o.at, j->d.o, p, j->ld_p, rows, false, next);
	for (int64_t r = 0; r < rows && call->bias != NULL; r++)
		simd->sum(y + r * j->d.o + o.at, y + r * j->d.o + o.at, call->bias + o.at, o.n);
	if (call->post != NULL && call->training) {
		sl_bn_begin_stats(part, y, j->d.o, o);
		sl_bn_add_stats(simd, part, y, rows, j->d.o, o);
	}
}

static struct sl_bn_range columns_of(const struct job *j, int64_t group, int64_t all)
{
	return (struct sl_bn_range){group * j->columns, sl_cpu_min(j->columns, all - group * j->columns)};
}

static void forward_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	int64_t span = task / j->groups, end = sl_cpu_min(j->m, (span + 1) * j->forward_rows);

	for (int64_t m = span * j->forward_rows + s->at; m < end;) {
		struct sl_prefetch next = {.n = 0};

		if (j->direct)
			next = ahead(j, m + j->block_rows, end, false);
		forward_rows(j, m, sl_cpu_min(j->block_rows, end - m), columns_of(j, task % j->groups, j->d.o),
			     s->worker, &next);
		m += j->block_rows;
		if (m < end && sl_pool_stop(s, m - span * j->forward_rows))
			return;
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, false);

	sl_pool_run_long(call->be->pool, sl_cpu_blocks(j.m, j.forward_rows) * j.groups, forward_task, &j);
	sl_conv_bn_finish(call, &j.bn, blocks_of(&j), false);
}

/* Computes columns k of rows [m, m + rows) of dX. */
static void data_block(const struct job *j, const float *dy, int64_t m, int64_t rows, struct sl_bn_range k,
		       struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	struct sl_gemm_weights w = sl_gemm_columns(&j->w, k.at, k.n);
	float *dx = call->dx + m * j->k, *part = j->bn.parts + m / j->block_rows * j->bn.stride;

	sl_gemm_float_rows(&w, 0, j->d.o, dx + k.at, j->k, dy, j->ld_dy, rows, call->add, next);
	for (int64_t r = m; r < m + rows && call->pre != NULL && !sl_conv_has_bn_pre(call); r++)
		w.simd->act_backward(call->dx + r * j->k + k.at, call->dx + r * j->k + k.at, call->x + r * j->k + k.at,
				     k.n, j->bn.act_pre, false);
	if (!sl_conv_has_bn_pre(call))
		return;
	sl_bn_begin_sums(part, j->k, k);
	sl_bn_add_sums(w.simd, part, dx, call->x + m * j->k, &j->bn.pre, call->pre->op, rows, k);
}

/* A span's dW or dWᵀ. With a single span it is summed in the result itself. */
static float *weights_of(const struct job *j, int64_t span)
{
	return j->spans == 1 && !j->turned ? j->call->dw : j->part + span * part_floats(j);
}

/* One span's dW for columns k, and dbias. If P = X, also dX of these rows, while dY is in the cache. */
static void backward_rows(const struct job *j, int64_t span, int64_t m, int64_t rows, struct sl_bn_range k, int worker,
			  struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(call->be);
	const int64_t o = j->d.o;
	const float *dy = gradient(j, m, rows, worker);
	float *dw = weights_of(j, span), *db = j->part + span * part_floats(j) + sl_cpu_line(o * j->k);

	if (call->dw != NULL && j->turned)
		sl_gemm_outer(simd, j->pairs, dw, o, patches(j, m, rows, k, worker), j->ld_p, j->k, dy, j->ld_dy, o,
			      rows, next);
	else if (call->dw != NULL)
		sl_gemm_outer(simd, j->pairs, dw + k.at, j->k, dy, j->ld_dy, o, patches(j, m, rows, k, worker) + k.at,
			      j->ld_p, k.n, rows, next);
	if (call->dbias != NULL && k.at == 0)
		simd->row_sum(db, dy, j->ld_dy, rows, (int)o);
	if (j->direct && call->dx != NULL)
		data_block(j, dy, m, rows, k, next);
}

static void backward_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	int64_t o = j->d.o, span = task / j->groups, end = sl_cpu_min(j->m, (span + 1) * j->span_rows);
	struct sl_bn_range k = columns_of(j, task % j->groups, j->k);
	float *dw = weights_of(j, span), *db = j->part + span * part_floats(j) + sl_cpu_line(o * j->k);

	for (int64_t r = 0; r < o && (j->spans > 1 || j->turned) && s->at == 0; r++)
		memset(dw + r * j->k + k.at, 0, (size_t)k.n * sizeof(float));
	if (k.at == 0 && s->at == 0)
		memset(db, 0, (size_t)o * sizeof(float));
	for (int64_t m = span * j->span_rows + s->at; m < end;) {
		struct sl_prefetch next = {.n = 0};

		if (j->direct)
			next = ahead(j, m + j->block_rows, end, true);
		backward_rows(j, span, m, sl_cpu_min(j->block_rows, end - m), k, s->worker, &next);
		m += j->block_rows;
		if (m < end && sl_pool_stop(s, m - span * j->span_rows))
			return;
	}
}

/* dX of image n. A slice of a window gets the parts of the output images that read it, in their order. */
static void data_image(void *arg, int64_t n, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	const int64_t plane = d->out_h * d->out_w, image = d->h * d->w * d->c / d->taps, k = j->k / d->taps;
	float *dp = j->scratch + s->worker * worker_floats(j), *dx = j->call->dx + n * image;

	if (!j->call->add && s->at == 0)
		memset(dx, 0, (size_t)image * sizeof(float));
	for (int64_t at = s->at; at < d->taps * plane;) {
		const int part = d->taps - 1 - (int)(at / plane);
		const int64_t out = sl_conv_slice_back(d, n, part), m = out * plane + at % plane;
		const int64_t rows = out < 0 ? plane : sl_cpu_min(j->block_rows, plane - at % plane);
		const struct sl_gemm_weights w = part_weights(j, part);

		if (out >= 0) {
			const float *dy = gradient(j, m, rows, s->worker);

			sl_gemm_float_rows(&w, 0, j->d.o, dp, k, dy, j->ld_dy, rows, false, &(struct sl_prefetch){0});
			for (int64_t r = 0; r < rows; r++)
				scatter_patch(j, dx, dp + r * k, m + r);
		}
		at += rows;
		if (at < d->taps * plane && sl_pool_stop(s, at))
			return;
	}
}

/* Sums the spans' dWᵀ, and adds its transpose to dw. */
static void add_turned(const struct job *j)
{
	int64_t o = j->d.o, stride = part_floats(j);

	sl_cpu_reduce(j->call->be, j->part, j->part + stride, o * j->k, stride, j->spans - 1);
	for (int64_t r = 0; r < o; r++)
		for (int64_t k = 0; k < j->k; k++)
			j->call->dw[r * j->k + k] += j->part[k * o + r];
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);
	struct sl_backend *be = call->be;

	if (j.dy != NULL)
		sl_pool_run(be->pool, sl_cpu_blocks(j.m, GRADIENT_ROWS), gradient_block, &j);
	if (j.direct || call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(be->pool, j.spans * j.groups, backward_task, &j);
	if (call->dw != NULL && j.turned)
		add_turned(&j);
	else if (call->dw != NULL && j.spans > 1)
		sl_cpu_reduce(be, call->dw, j.part, j.d.o * j.k, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(be, call->dbias, j.part + sl_cpu_line(j.d.o * j.k), j.d.o, part_floats(&j), j.spans);
	if (!j.direct && call->dx != NULL)
		sl_pool_run_long(be->pool, j.d.n / j.d.n_out * j.d.slices, data_image, &j);
	sl_conv_bn_finish(call, &j.bn, blocks_of(&j), true);
}

const struct sl_conv_kernel sl_conv_gemm = {workspace_bytes, forward, backward};
