/* Layer norm and RMS norm: a row at a time, in blocks of rows. The gradients of the parameters are summed by
 * block, and the blocks in order. Saved: mean and 1/σ of each row (for RMS norm 0 and 1 over the root mean
 * square). */
#include <string.h>

#include "kernels/cpu/impl.h"

enum { GAMMA, BETA, ROWS = 64 /* of a block */ };

struct job {
	const struct sl_op_call *call;
	const struct sl_cpu_simd *simd;
	int64_t rows, f;
	const float *gamma;
	float *part; /* for each block: the gradients of γ and β, `line` floats each */
	int64_t line;
};

static enum sl_err prepare(struct sl_op_prepare *p)
{
	int64_t f = sl_op_normed(p->op), rows = sl_shape_count(&p->op->in_shape[0]) / f;

	p->sizes.saved_bytes = (size_t)rows * 2 * sizeof(float);
	p->sizes.workspace_bytes =
		(size_t)((sl_cpu_blocks(rows, ROWS) * 2 + p->op->u.norm.plus) * sl_cpu_line(f)) * sizeof(float);
	return SL_OK;
}

static struct job job_of(const struct sl_op_call *call)
{
	int64_t f = sl_op_normed(call->op);
	struct job j = {.call = call,
			.simd = sl_cpu_simd_of(call->be),
			.rows = sl_shape_count(&call->in[0].shape) / f,
			.f = f,
			.gamma = call->param[GAMMA],
			.part = call->workspace,
			.line = sl_cpu_line(f)};
	float *added = j.part + sl_cpu_blocks(j.rows, ROWS) * 2 * j.line;

	if (!call->op->u.norm.plus)
		return j;
	for (int64_t i = 0; i < f; i++)
		added[i] = 1 + call->param[GAMMA][i];
	j.gamma = added;
	return j;
}

static bool is_centred(const struct sl_op *op)
{
	return op->kind == SL_OP_LAYERNORM;
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const struct sl_op_call *c = j->call;
	const float *x = c->in[0].data, *beta = c->op->n_param > 1 ? c->param[BETA] : NULL;
	float *y = c->out.data, *stat = c->saved;

	for (int64_t n = block * ROWS; n < sl_cpu_min(j->rows, (block + 1) * ROWS); n++)
		j->simd->norm_forward(y + n * j->f, stat + 2 * n, x + n * j->f, j->gamma, beta, j->f, c->op->u.norm.eps,
				      is_centred(c->op));
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	sl_pool_run(call->be->pool, sl_cpu_blocks(j.rows, ROWS), forward_block, &j);
	return SL_OK;
}

static void backward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const struct sl_op_call *c = j->call;
	const float *x = c->in[0].data, *dy = c->dout.data, *stat = c->saved;
	float *dx = c->din[0].data, *part = j->part + block * 2 * j->line;

	memset(part, 0, (size_t)(2 * j->line) * sizeof *part);
	for (int64_t n = block * ROWS; n < sl_cpu_min(j->rows, (block + 1) * ROWS); n++)
		j->simd->norm_backward(dx ? dx + n * j->f : NULL, dy + n * j->f, x + n * j->f, j->gamma, stat + 2 * n,
				       j->f, is_centred(c->op), c->din_add[0], c->grad[GAMMA] ? part : NULL,
				       c->grad[BETA] ? part + j->line : NULL);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);
	int64_t blocks = sl_cpu_blocks(j.rows, ROWS);

	sl_pool_run(call->be->pool, blocks, backward_block, &j);
	for (int i = 0; i < call->op->n_param; i++)
		if (call->grad[i] != NULL)
			sl_cpu_reduce(call->be, call->grad[i], j.part + i * j.line, j.f, 2 * j.line, blocks);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_layernorm = {.prepare = prepare, .forward = forward, .backward = backward};
const struct sl_kernel sl_cpu_op_rmsnorm = {.prepare = prepare, .forward = forward, .backward = backward};
