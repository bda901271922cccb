/* Softmax cross-entropy and soft Dice. `saved`: the gradient of loss_sum [N, K], which backward only scales.
 * For cross-entropy it is softmax − target; it is 0 in ignored rows. With SL_PRE_LINEAR the scaled gradient
 * replaces the logits. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/impl.h"

enum {
	PIECE = 8192, /* classes whose e^x are summed in float; the sums of pieces are added in double */
	BLOCK_FLOATS = 8 * SL_CPU_BLOCK
};

/* The result of one row; correct: 1 or 0. */
struct answer {
	double loss;
	int64_t correct;
};

struct job {
	const struct sl_op_call *call;
	const float *x;
	float *grad;           /* [N, K] */
	struct answer *answer; /* [N] */
	int classes;
	/* For Dice. A large picture, as a volume is, is divided into blocks of pixels, whose sums are added in order.
	 */
	int64_t pictures, pixels, blocks, block_pixels; /* pixels and blocks of a picture */
	struct dice *dice; /* [pictures, K], the first d of a picture is its loss; then [pictures·blocks, K] */
	float *scratch;    /* with SL_PRE_LINEAR: row_room floats for each worker */
};

/* Dice terms of one class of a picture, or of a block of it; tests/ref/xent.c defines a, b and d. A block's d holds one
 * pixel's at a time. */
struct dice {
	double a, b, d;
};

struct block {
	int64_t picture, first, end; /* pixels, counted through all pictures */
	struct dice *of;
};

static void divide(struct job *j, const struct sl_shape *logits)
{
	j->pictures = logits->dim[0];
	j->pixels = sl_xent_rows(logits) / j->pictures;
	j->blocks = sl_cpu_blocks(j->pixels * j->classes, BLOCK_FLOATS);
	j->block_pixels = sl_cpu_blocks(j->pixels, j->blocks);
	j->blocks = sl_cpu_blocks(j->pixels, j->block_pixels);
}

/* Floats for a copy of a row's logits, or for two numbers of each of its pieces. */
static int64_t row_room(int64_t classes)
{
	return sl_cpu_line(classes + 2);
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	int64_t rows = sl_xent_rows(&p->op->in_shape[0]);
	struct job j = {.classes = p->op->u.xent.classes};

	p->sizes.workspace_bytes = (size_t)rows * sizeof(struct answer);
	if (p->form.pre == SL_PRE_LINEAR) {
		p->sizes.workspace_bytes +=
			(size_t)(sl_cpu_threads(p->be) * row_room(p->op->u.xent.classes)) * sizeof(float);
		return SL_OK;
	}
	p->sizes.saved_bytes = (size_t)(rows * p->op->u.xent.classes) * sizeof(float);
	divide(&j, &p->op->in_shape[0]);
	if (p->op->u.xent.fn != SL_XENT_ENTROPY)
		p->sizes.workspace_bytes += (size_t)(j.pictures * (1 + j.blocks) * j.classes) * sizeof(struct dice);
	return SL_OK;
}

static bool is_ignored(const struct sl_op_call *call, int64_t n)
{
	return call->rule.ignores && call->labels[n] == call->rule.ignored;
}

/* Label smoothing. g [K] holds the softmax, x [K] the logits. Returns what smoothing adds to the row's loss:
 * it moves a share of the target from the label to all classes. */
static double smooth(float *g, const float *x, int classes, int label, float top, double smoothing)
{
	double all = 0;

	for (int k = 0; k < classes; k++) {
		all += (double)x[k] - (double)top;
		g[k] -= (float)(smoothing / classes);
	}
	g[label] += (float)smoothing;
	return smoothing * ((double)x[label] - (double)top - all / classes);
}

/* The same for a mixed row, whose target has `share` at the label and the rest at `other`. Returns the row's
 * loss. */
static double mix(const struct sl_op_call *call, int64_t n, float *g, const float *x, int classes, float top,
		  double total)
{
	const double smoothing = (double)call->rule.smoothing, share = (double)call->rule.share[n];
	const double at = (1 - smoothing) * share, there = (1 - smoothing) * (1 - share), each = smoothing / classes;
	const int label = call->labels[n], other = call->rule.other[n];
	double all = 0;

	for (int k = 0; k < classes; k++) {
		all += (double)x[k] - (double)top;
		g[k] -= (float)each;
	}
	g[label] -= (float)at;
	g[other] -= (float)there;
	return log(total) - at * ((double)x[label] - (double)top) - there * ((double)x[other] - (double)top) -
	       each * all;
}

/* The same with class weights: the target is weight · ((1 − ε)·(k == label) + ε/K). Returns the row's loss. */
static double weigh(const struct sl_op_call *call, float *g, const float *x, int classes, int label, float top,
		    double total)
{
	const double smoothing = (double)call->rule.smoothing;
	double all = 0, at = 0;

	for (int k = 0; k < classes; k++)
		all += (double)call->rule.weight[k] * ((1 - smoothing) * (k == label) + smoothing / classes);
	for (int k = 0; k < classes; k++) {
		const double target =
			(double)call->rule.weight[k] * ((1 - smoothing) * (k == label) + smoothing / classes);

		at += target * ((double)x[k] - (double)top);
		g[k] = (float)((double)g[k] * all - target);
	}
	return log(total) * all - at;
}

/* Writes the softmax of x [K] to g [K]; returns Σ exp(x − *top), *top the largest logit. */
static double softmax(float *g, const float *x, int classes, float *top)
{
	double total = 0;

	*top = x[0];
	for (int k = 1; k < classes; k++)
		*top = x[k] > *top ? x[k] : *top;
	for (int k = 0; k < classes; k++) {
		g[k] = expf(x[k] - *top);
		total += (double)g[k];
	}
	for (int k = 0; k < classes; k++)
		g[k] = (float)((double)g[k] / total);
	return total;
}

static int64_t best_of(const float *x, int classes)
{
	int best = 0;

	for (int k = 1; k < classes; k++)
		if (x[k] > x[best])
			best = k;
	return best;
}

/* The gradient of row n, which is not ignored: from x [K] to g [K]. */
static struct answer gradient(const struct job *j, int64_t n, float *g, const float *x)
{
	const int label = j->call->labels[n];
	struct answer a = {.correct = best_of(x, j->classes) == label};
	float top;
	const double total = softmax(g, x, j->classes, &top);

	if (j->call->rule.other) {
		a.loss = mix(j->call, n, g, x, j->classes, top, total);
	} else if (j->call->rule.weight) {
		a.loss = weigh(j->call, g, x, j->classes, label, top, total);
	} else {
		g[label] -= 1.0f;
		a.loss = log(total) - ((double)x[label] - (double)top);
		if (j->call->rule.smoothing > 0)
			a.loss += smooth(g, x, j->classes, label, top, (double)j->call->rule.smoothing);
	}
	return a;
}

static void row(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	float *g = j->grad + n * j->classes;

	if (is_ignored(j->call, n)) {
		memset(g, 0, (size_t)j->classes * sizeof *g);
		j->answer[n] = (struct answer){0};
		return;
	}
	j->answer[n] = gradient(j, n, g, j->x + n * j->classes);
}

/* ---- in place */

/* Whether the label is the first of the largest logits. A NaN there is not. */
static bool is_best(const float *x, int classes, int label)
{
	int above = isnan(x[label]);

	for (int k = 0; k < label; k++)
		above += x[k] >= x[label];
	for (int k = label + 1; k < classes; k++)
		above += x[k] > x[label];
	return !above;
}

/* In place, for a label without smoothing, mixing or weights. Softmax by pieces, which are then merged; stat:
 * two numbers for each piece. */
static struct answer gradient_here(const struct job *j, float *x, int label, float *stat)
{
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(j->call->be);
	const double scale = (double)j->call->loss_scale, at_label = (double)x[label];
	struct answer a = {.correct = is_best(x, j->classes, label)};
	double total = 0, top = -INFINITY;

	for (int at = 0; at < j->classes; at += PIECE) {
		float *of = stat + 2 * (at / PIECE);

		simd->softmax(x + at, sl_cpu_min(PIECE, j->classes - at), 1, of);
		top = (double)of[0] > top ? (double)of[0] : top;
	}
	for (int at = 0; at < j->classes; at += PIECE)
		total += exp((double)stat[2 * (at / PIECE)] - top) / (double)stat[2 * (at / PIECE) + 1];
	for (int at = 0; at < j->classes; at += PIECE) {
		const float *of = stat + 2 * (at / PIECE);
		const double by = exp((double)of[0] - top) / (double)of[1] / total;

		simd->scale(x + at, x + at, (float)(scale * by), 0, sl_cpu_min(PIECE, j->classes - at), false);
	}
	x[label] = (float)(scale * (exp(at_label - top) / total - 1));
	a.loss = log(total) - (at_label - top);
	return a;
}

static void row_here(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const struct sl_xent_rule *rule = &j->call->rule;
	const size_t bytes = (size_t)j->classes * sizeof(float);
	float *g = j->grad + n * j->classes, *x = j->scratch + worker * row_room(j->classes);

	if (is_ignored(j->call, n)) {
		row(arg, n, worker);
	} else if (!rule->other && !rule->weight && !(rule->smoothing > 0)) {
		j->answer[n] = gradient_here(j, g, j->call->labels[n], x);
	} else {
		memcpy(x, g, bytes);
		j->answer[n] = gradient(j, n, g, x);
		sl_cpu_simd_of(j->call->be)->scale(g, g, j->call->loss_scale, 0, j->classes, false);
	}
}

/* ---- soft Dice */

static struct block block_at(const struct job *j, int64_t task)
{
	const int64_t i = task / j->blocks, first = i * j->pixels + task % j->blocks * j->block_pixels;

	return (struct block){i, first, sl_cpu_min((i + 1) * j->pixels, first + j->block_pixels),
			      j->dice + (j->pictures + task) * j->classes};
}

/* A block's part of a and b [K], from the pixels that are not ignored. */
static void overlap(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct block b = block_at(j, task);
	float top;

	for (int k = 0; k < j->classes; k++)
		b.of[k].a = b.of[k].b = task % j->blocks ? 0 : 1e-5;
	for (int64_t n = b.first; n < b.end; n++) {
		float *p = j->grad + n * j->classes;
		const int label = j->call->labels[n];

		if (is_ignored(j->call, n))
			continue;
		softmax(p, j->x + n * j->classes, j->classes, &top);
		for (int k = 0; k < j->classes; k++)
			b.of[k].b += (double)p[k];
		b.of[label].a += 2 * (double)p[label];
		b.of[label].b += 1;
	}
}

/* Adds up the parts of picture i, and computes its loss D. */
static void add_parts(void *arg, int64_t i, int worker)
{
	const struct job *j = arg;
	struct dice *sum = j->dice + i * j->classes;
	const int from = sl_xent_first(j->call->op->u.xent.fn);
	double mean = 0;

	for (int k = from; k < j->classes; k++) {
		sum[k] = block_at(j, i * j->blocks).of[k];
		for (int64_t block = 1; block < j->blocks; block++) {
			const struct dice *of = block_at(j, i * j->blocks + block).of;

			sum[k].a += of[k].a;
			sum[k].b += of[k].b;
		}
		mean += sum[k].a / sum[k].b / (j->classes - from);
	}
	sum->d = 1 - mean;
}

/* Sets d [K] of a pixel whose softmax is p [K] to rule.dice times the gradient of D at its logits. */
static void slope(const struct job *j, const struct dice *sum, struct dice *of, const float *p, int label)
{
	const int from = sl_xent_first(j->call->op->u.xent.fn);
	double mean = 0;

	for (int k = 0; k < from; k++)
		of[k].d = 0;
	for (int k = from; k < j->classes; k++) {
		of[k].d = (sum[k].a / sum[k].b - 2 * (k == label)) / sum[k].b / (j->classes - from);
		mean += (double)p[k] * of[k].d;
	}
	for (int k = 0; k < j->classes; k++)
		of[k].d = (double)j->call->rule.dice * (double)p[k] * (of[k].d - mean);
}

static void slopes(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct block b = block_at(j, task);
	const struct dice *sum = j->dice + b.picture * j->classes;
	const bool both = sl_xent_has_entropy(j->call->op->u.xent.fn);

	for (int64_t n = b.first; n < b.end; n++) {
		float *g = j->grad + n * j->classes;
		const bool counts = !is_ignored(j->call, n);

		if (counts)
			slope(j, sum, b.of, g, j->call->labels[n]);
		if (both || !counts)
			row(arg, n, worker);
		else
			j->answer[n].correct = best_of(j->x + n * j->classes, j->classes) == j->call->labels[n];
		for (int k = 0; k < j->classes && counts; k++)
			g[k] = (float)((both ? (double)g[k] : 0) + b.of[k].d);
		j->answer[n].loss = both ? j->answer[n].loss : 0;
	}
	if (b.first == b.picture * j->pixels)
		j->answer[b.first].loss += (double)j->call->rule.dice * sum->d;
}

static void run_dice(struct job *j)
{
	struct sl_pool *pool = j->call->be->pool;

	sl_pool_run(pool, j->pictures * j->blocks, overlap, j);
	sl_pool_run(pool, j->pictures, add_parts, j);
	sl_pool_run(pool, j->pictures * j->blocks, slopes, j);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	int64_t rows = sl_xent_rows(&call->in[0].shape), correct = 0;
	struct job j = {.call = call,
			.x = call->in[0].data,
			.grad = call->saved,
			.answer = call->workspace,
			.classes = call->op->u.xent.classes,
			.dice = (struct dice *)((struct answer *)call->workspace + rows),
			.scratch = (float *)((struct answer *)call->workspace + rows)};
	const bool dice = call->op->u.xent.fn != SL_XENT_ENTROPY, here = call->form.pre == SL_PRE_LINEAR;
	double loss = 0;

	if (call->dice_sum)
		*call->dice_sum = 0;
	if (here)
		j.grad = call->in[0].data;
	divide(&j, &call->in[0].shape);
	if (dice)
		run_dice(&j);
	else
		sl_pool_run(call->be->pool, rows, here ? row_here : row, &j);
	for (int64_t n = 0; n < rows; n++) {
		loss += j.answer[n].loss;
		correct += j.answer[n].correct;
	}
	*call->loss_sum = loss;
	*call->correct = correct;
	for (int64_t i = 0; i < j.pictures && dice && call->dice_sum; i++)
		*call->dice_sum += j.dice[i * j.classes].d;
	return SL_OK;
}

static void scale_block(void *arg, int64_t block, int worker)
{
	const struct sl_op_call *call = ((const struct job *)arg)->call;
	const int64_t at = block * SL_CPU_BLOCK, all = sl_shape_count(&call->din[0].shape);

	sl_cpu_simd_of(call->be)->scale((float *)call->din[0].data + at, (const float *)call->saved + at,
					call->loss_scale, 0, sl_cpu_min(SL_CPU_BLOCK, all - at), call->din_add[0]);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = {.call = call};

	if (call->din[0].data != NULL)
		sl_pool_run(call->be->pool, sl_cpu_blocks(sl_shape_count(&call->din[0].shape), SL_CPU_BLOCK),
			    scale_block, &j);
	return SL_OK;
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	return form.pre == SL_PRE_LINEAR && op->u.xent.fn == SL_XENT_ENTROPY;
}

const struct sl_kernel sl_cpu_op_xent = {.prepare = prepare, .forward = forward, .backward = backward, .takes = takes};
