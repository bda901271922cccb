/* Group norm. Sums over pixels are in double, for every channel: for the means, for the variances, and in backward for
 * dβ and dγ. A large row, as a volume is, is divided into blocks of pixels. Their sums are added in the order of the
 * blocks, whose number depends on the shape alone, and those of rows in the order of rows. Saved, for each row and
 * channel: its group's mean and 1/σ. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/impl.h"

enum { GAMMA, BETA };
enum { BLOCK_FLOATS = 8 * SL_CPU_BLOCK, MOST_PASSES = 5 };

struct job {
	const struct sl_op_call *call;
	int64_t rows, pixels, c, groups;
	int64_t blocks, block_pixels; /* of a row */
	const float *x, *dy, *gamma, *beta;
};

/* One pass over a block of a row, or over the sums of a row. */
struct pass {
	void (*fn)(const struct job *j, int64_t row, int64_t block);
	bool of_row;
};

struct run {
	const struct job *j;
	struct pass pass[MOST_PASSES];
	int n;
};

static void divide(struct job *j, const struct sl_op *op, const struct sl_shape *s)
{
	j->rows = s->dim[0];
	j->c = s->dim[s->ndim - 1];
	j->groups = op->u.groupnorm.groups;
	j->pixels = sl_shape_row(s) / j->c;
	j->blocks = sl_cpu_blocks(j->pixels * j->c, BLOCK_FLOATS);
	j->block_pixels = sl_cpu_blocks(j->pixels, j->blocks);
	j->blocks = sl_cpu_blocks(j->pixels, j->block_pixels);
}

static struct job job_of(const struct sl_op_call *call, const struct sl_shape *s)
{
	const struct sl_op *op = call->op;
	struct job j = {.call = call, .x = call->in[0].data, .dy = call->dout.data};

	divide(&j, op, s);
	j.gamma = op->n_param ? call->param[GAMMA] : NULL;
	j.beta = op->n_param ? call->param[BETA] : NULL;
	return j;
}

/* The workspace: two doubles for each channel of a row and, where it has several, of its blocks. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	struct job j = {0};

	divide(&j, p->op, &p->op->in_shape[0]);
	p->sizes.workspace_bytes = (size_t)(j.rows * (j.blocks > 1 ? j.blocks + 1 : 1) * j.c) * 2 * sizeof(double);
	p->sizes.saved_bytes = (size_t)(j.rows * j.c) * 2 * sizeof(float);
	return SL_OK;
}

/* [2, C] */
static double *row_sums(const struct job *j, int64_t row)
{
	return (double *)j->call->workspace + row * j->c * 2;
}

static double *block_sums(const struct job *j, int64_t row, int64_t block)
{
	return row_sums(j, j->blocks > 1 ? j->rows + row * j->blocks + block : row);
}

static float *mean_of(const struct job *j, int64_t row)
{
	return (float *)j->call->saved + row * j->c * 2;
}

struct range {
	int64_t from, to; /* numbers of a tensor: those of a block's pixels */
};

static struct range range_of(const struct job *j, int64_t row, int64_t block)
{
	const int64_t from = row * j->pixels + block * j->block_pixels;
	const int64_t to = sl_cpu_min((row + 1) * j->pixels, from + j->block_pixels);

	return (struct range){from * j->c, to * j->c};
}

/* Adds up the blocks' first or second sums. */
static double *merge(const struct job *j, int64_t row, int which)
{
	double *sum = row_sums(j, row) + which * j->c;

	if (j->blocks == 1)
		return sum;
	memset(sum, 0, (size_t)j->c * sizeof *sum);
	for (int64_t b = 0; b < j->blocks; b++)
		for (int64_t i = 0; i < j->c; i++)
			sum[i] += block_sums(j, row, b)[which * j->c + i];
	return sum;
}

/* Replaces the sum of each channel by the mean over its group. */
static void share(const struct job *j, double *sum)
{
	const int64_t each = j->c / j->groups;

	for (int64_t g = 0; g < j->groups; g++, sum += each) {
		double all = 0;

		for (int64_t i = 0; i < each; i++)
			all += sum[i];
		for (int64_t i = 0; i < each; i++)
			sum[i] = all / (double)(each * j->pixels);
	}
}

static void add_values(const struct job *j, int64_t row, int64_t block)
{
	const struct range r = range_of(j, row, block);
	double *sum = block_sums(j, row, block);

	memset(sum, 0, (size_t)j->c * sizeof *sum);
	for (int64_t p = r.from; p < r.to; p += j->c)
		for (int64_t i = 0; i < j->c; i++)
			sum[i] += (double)j->x[p + i];
}

static void find_mean(const struct job *j, int64_t row, int64_t block)
{
	share(j, merge(j, row, 0));
}

static void add_squares(const struct job *j, int64_t row, int64_t block)
{
	const struct range r = range_of(j, row, block);
	const double *mean = row_sums(j, row);
	double *square = block_sums(j, row, block) + j->c;

	memset(square, 0, (size_t)j->c * sizeof *square);
	for (int64_t p = r.from; p < r.to; p += j->c)
		for (int64_t i = 0; i < j->c; i++) {
			const double d = (double)j->x[p + i] - mean[i];

			square[i] += d * d;
		}
}

static void find_inverse(const struct job *j, int64_t row, int64_t block)
{
	const double *sum = row_sums(j, row), *square = merge(j, row, 1);
	float *mean = mean_of(j, row), *inv = mean + j->c;

	share(j, row_sums(j, row) + j->c);
	for (int64_t i = 0; i < j->c; i++) {
		mean[i] = (float)sum[i];
		inv[i] = (float)(1 / sqrt(square[i] + (double)j->call->op->u.groupnorm.eps));
	}
}

static void write_values(const struct job *j, int64_t row, int64_t block)
{
	const struct range r = range_of(j, row, block);
	const float *mean = mean_of(j, row), *inv = mean + j->c;
	float *y = j->call->out.data;

	for (int64_t p = r.from; p < r.to; p += j->c)
		for (int64_t i = 0; i < j->c; i++) {
			const float v = (j->x[p + i] - mean[i]) * inv[i];

			y[p + i] = j->gamma ? v * j->gamma[i] + j->beta[i] : v;
		}
}

static void add_gradients(const struct job *j, int64_t row, int64_t block)
{
	const struct range r = range_of(j, row, block);
	const float *mean = mean_of(j, row), *inv = mean + j->c;
	double *sum = block_sums(j, row, block), *along = sum + j->c;

	memset(sum, 0, (size_t)j->c * 2 * sizeof *sum);
	for (int64_t p = r.from; p < r.to; p += j->c)
		for (int64_t i = 0; i < j->c; i++) {
			const double d = (double)j->dy[p + i];

			sum[i] += d;
			along[i] += d * (double)((j->x[p + i] - mean[i]) * inv[i]);
		}
}

static void find_gradients(const struct job *j, int64_t row, int64_t block)
{
	(void)merge(j, row, 0);
	(void)merge(j, row, 1);
}

static void share_gradients(const struct job *j, int64_t row, int64_t block)
{
	double *sum = row_sums(j, row), *along = sum + j->c;

	for (int64_t i = 0; i < j->c && j->gamma; i++) {
		sum[i] *= (double)j->gamma[i];
		along[i] *= (double)j->gamma[i];
	}
	share(j, sum);
	share(j, along);
}

static void write_gradients(const struct job *j, int64_t row, int64_t block)
{
	const struct range r = range_of(j, row, block);
	const float *mean = mean_of(j, row), *inv = mean + j->c;
	const double *sum = row_sums(j, row), *along = sum + j->c;
	const bool add = j->call->din_add[0];
	float *dx = j->call->din[0].data;

	for (int64_t p = r.from; p < r.to; p += j->c)
		for (int64_t i = 0; i < j->c; i++) {
			const float h = (j->x[p + i] - mean[i]) * inv[i];
			const float g = j->dy[p + i] * (j->gamma ? j->gamma[i] : 1.0f);
			const float v = (g - (float)sum[i] - h * (float)along[i]) * inv[i];

			dx[p + i] = add ? dx[p + i] + v : v;
		}
}

static void whole_row(void *arg, int64_t row, int worker)
{
	const struct run *r = arg;

	for (int i = 0; i < r->n; i++)
		r->pass[i].fn(r->j, row, 0);
}

static void one_pass(void *arg, int64_t task, int worker)
{
	const struct run *r = arg;
	const int64_t blocks = r->pass[0].of_row ? 1 : r->j->blocks;

	r->pass[0].fn(r->j, task / blocks, task % blocks);
}

/* Small rows take all passes in one task. */
static void run(struct run *r)
{
	const struct job *j = r->j;
	struct sl_pool *pool = j->call->be->pool;

	if (j->blocks == 1) {
		sl_pool_run(pool, j->rows, whole_row, r);
		return;
	}
	for (int i = 0; i < r->n; i++) {
		struct run one = {j, {r->pass[i]}, 1};

		sl_pool_run(pool, j->rows * (r->pass[i].of_row ? 1 : j->blocks), one_pass, &one);
	}
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct job j = job_of(call, &call->out.shape);

	run(&(struct run){&j,
			  {{add_values, false},
			   {find_mean, true},
			   {add_squares, false},
			   {find_inverse, true},
			   {write_values, false}},
			  5});
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct job j = job_of(call, &call->dout.shape);

	run(&(struct run){&j, {{add_gradients, false}, {find_gradients, true}}, 2});
	for (int which = 0; which < call->op->n_param; which++) {
		float *grad = call->grad[which];

		for (int64_t row = 0; row < j.rows && grad; row++)
			for (int64_t i = 0; i < j.c; i++)
				grad[i] += (float)row_sums(&j, row)[(which == GAMMA) * j.c + i];
	}
	if (call->din[0].data)
		run(&(struct run){&j, {{share_gradients, true}, {write_gradients, false}}, 2});
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_groupnorm = {.prepare = prepare, .forward = forward, .backward = backward};
