/* Batch normalisation with its activation. `saved`: mean [C], what its rounding to float
 * lost [C], 1/σ [C], unbiased variance [C] of the chunk; backward
 * recomputes everything else from x. Statistics: moments of blocks of rows, put together in block order in double. */
#include <math.h>

#include "kernels/cpu/impl.h"

enum saved { MEAN, MEAN_REST, INV_STD, UNBIASED_VAR, SAVED_COUNT };

struct job {
	const struct sl_cpu_simd *simd;
	int64_t rows, block_rows;
	int c;
	enum sl_act act;
	bool add;
	const float *x, *dy;
	float *out;  /* y or dx */
	float *part; /* [blocks, 2, C] */
	struct sl_cpu_bn k;
};

static int64_t rows_of(const struct sl_op *op, const struct sl_tensor *t)
{
	return sl_shape_count(&t->shape) / op->u.bn.c;
}

static int64_t block_rows_of(int c)
{
	return sl_cpu_max(1, SL_CPU_BLOCK / c);
}

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	int64_t c = op->u.bn.c, rows = sl_shape_count(&op->in_shape[0]) / c;

	(void)be;
	(void)state;
	(void)fail;
	sizes->saved_bytes = (size_t)(SAVED_COUNT * c) * sizeof(float);
	sizes->workspace_bytes =
		(size_t)(6 * sl_cpu_line(c) + sl_cpu_blocks(rows, block_rows_of((int)c)) * 2 * c) * sizeof(float);
	return SL_OK;
}

static struct job job_of(struct sl_backend *be, const struct sl_op *op, const struct sl_op_call *call,
			 const struct sl_tensor *x)
{
	int64_t line = sl_cpu_line(op->u.bn.c);
	float *ws = call->workspace;

	return (struct job){
		.simd = sl_cpu_simd_of(be),
		.rows = rows_of(op, x),
		.block_rows = block_rows_of(op->u.bn.c),
		.c = op->u.bn.c,
		.act = op->u.bn.act,
		.x = x->data,
		.part = ws + 6 * line,
		.k = {ws, ws + line, ws + 2 * line, ws + 3 * line, ws + 4 * line, ws + 5 * line},
	};
}

static int64_t rows_in(const struct job *j, int64_t block)
{
	return sl_cpu_min(j->block_rows, j->rows - block * j->block_rows);
}

static void moments_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	float *part = j->part + block * 2 * j->c;

	(void)worker;
	j->simd->moments(part, part + j->c, j->x + block * j->block_rows * j->c, rows_in(j, block), j->c);
}

static void apply_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;

	(void)worker;
	j->simd->bn_forward(j->out + at, j->x + at, &j->k, rows_in(j, block), j->c, j->act);
}

static void sums_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;
	float *part = j->part + block * 2 * j->c;

	(void)worker;
	j->simd->bn_sums(part, part + j->c, j->dy + at, j->x + at, &j->k, rows_in(j, block), j->c, j->act);
}

static void back_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;

	(void)worker;
	j->simd->bn_backward(j->out + at, j->dy + at, j->x + at, &j->k, rows_in(j, block), j->c, j->act, j->add);
}

/* Mean and variance of the whole from those of the blocks: the sum of squares about the common mean is that of each
 * block about its own plus rows·(difference of means)². A block's mean is told from its first row. */
static void chunk_moments(const struct job *j, int64_t blocks, float eps, float *saved)
{
	int64_t c = j->c;

	for (int64_t k = 0; k < c; k++) {
		const float *part = j->part + k, *x = j->x + k;
		double origin = (double)x[0], mean = 0, m2 = 0;

		for (int64_t b = 0; b < blocks; b++)
			mean += (double)rows_in(j, b) *
				((double)x[b * j->block_rows * c] - origin + (double)part[b * 2 * c]);
		mean = origin + mean / (double)j->rows;
		for (int64_t b = 0; b < blocks; b++) {
			double d = (double)x[b * j->block_rows * c] - mean + (double)part[b * 2 * c];

			m2 += (double)part[(b * 2 + 1) * c] + (double)rows_in(j, b) * d * d;
		}
		saved[MEAN * c + k] = (float)mean;
		saved[MEAN_REST * c + k] = (float)(mean - (double)(float)mean);
		saved[INV_STD * c + k] = (float)(1.0 / sqrt(m2 / (double)j->rows + (double)eps));
		saved[UNBIASED_VAR * c + k] = (float)(m2 / (double)sl_cpu_max(1, j->rows - 1));
	}
}

struct channel {
	double mean_rest, inv_std;
};

static struct channel channel_of(const struct sl_op *op, const struct sl_op_call *call, int k)
{
	const float *saved = call->saved;
	int64_t c = op->u.bn.c;

	if (call->training)
		return (struct channel){(double)saved[MEAN_REST * c + k], (double)saved[INV_STD * c + k]};
	return (struct channel){0.0, 1.0 / sqrt((double)call->param[3][k] + (double)op->u.bn.eps)};
}

static void set_affine(const struct job *j, const struct sl_op *op, const struct sl_op_call *call)
{
	const float *weight = call->param[0], *bias = call->param[1], *saved = call->saved;

	for (int k = 0; k < j->c; k++) {
		struct channel ch = channel_of(op, call, k);
		double scale = (double)weight[k] * ch.inv_std;

		j->k.mean[k] = call->training ? saved[MEAN * j->c + k] : call->param[2][k];
		j->k.scale[k] = (float)scale;
		j->k.shift[k] = (float)((double)bias[k] - ch.mean_rest * scale);
	}
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	struct job j = job_of(be, op, call, &in[0]);
	int64_t blocks = sl_cpu_blocks(j.rows, j.block_rows);

	(void)state;
	j.out = out->data;
	if (call->training) {
		sl_pool_run(be->pool, blocks, moments_block, &j);
		chunk_moments(&j, blocks, op->u.bn.eps, call->saved);
	}
	set_affine(&j, op, call);
	sl_pool_run(be->pool, blocks, apply_block, &j);
	return SL_OK;
}

/* dβ = Σ g, dγ = Σ g·x̂; in training dx = γ/σ·(g − dβ/M − x̂·dγ/M), else γ/σ·g. */
static void set_back(const struct job *j, const struct sl_op *op, const struct sl_op_call *call, int64_t blocks)
{
	for (int k = 0; k < j->c; k++) {
		struct channel ch = channel_of(op, call, k);
		double scale = (double)call->param[0][k] * ch.inv_std, sum_g = 0, sum_gx = 0, per_row;

		for (int64_t i = 0; i < blocks; i++) {
			sum_g += (double)j->part[i * 2 * j->c + k];
			sum_gx += (double)j->part[(i * 2 + 1) * j->c + k];
		}
		sum_gx -= ch.mean_rest * sum_g;
		per_row = call->training ? -scale / (double)j->rows : 0.0;
		j->k.a[k] = (float)scale;
		j->k.b[k] = (float)(per_row * ch.inv_std * ch.inv_std * sum_gx);
		j->k.d[k] = (float)(per_row * (sum_g - ch.mean_rest * ch.inv_std * ch.inv_std * sum_gx));
		if (call->grad[0] != NULL)
			call->grad[0][k] += (float)(sum_gx * ch.inv_std);
		if (call->grad[1] != NULL)
			call->grad[1][k] += (float)sum_g;
	}
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	struct job j = job_of(be, op, call, &in[0]);
	int64_t blocks = sl_cpu_blocks(j.rows, j.block_rows);

	(void)state;
	(void)out;
	j.dy = dout->data;
	set_affine(&j, op, call);
	sl_pool_run(be->pool, blocks, sums_block, &j);
	set_back(&j, op, call, blocks);
	if (din[0].data != NULL) {
		j.out = din[0].data;
		j.add = din_add[0];
		sl_pool_run(be->pool, blocks, back_block, &j);
	}
	return SL_OK;
}

static enum sl_err commit(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			  int64_t rows)
{
	const float *saved = call->saved;
	float m = op->u.bn.momentum;
	int c = op->u.bn.c;

	(void)be;
	(void)state;
	(void)rows;
	for (int k = 0; k < c; k++) {
		call->param[2][k] = (1.0f - m) * call->param[2][k] + m * saved[MEAN * c + k];
		call->param[3][k] = (1.0f - m) * call->param[3][k] + m * saved[UNBIASED_VAR * c + k];
	}
	return SL_OK;
}

const struct sl_kernel sl_cpu_batchnorm = {prepare, NULL, forward, backward, commit};
