/* Batch normalisation with its activation as an op of its own. Forward: one pass over x for the statistics
 * and one that writes y. Backward: one pass for the sums and one that writes dx. bn.h has the pieces;
 * `form.half` says which of them a neighbouring convolution does. */
#include "kernels/cpu/bn.h"

struct job {
	const struct sl_cpu_simd *simd;
	const struct sl_op *op;
	int64_t rows, block_rows, c;
	bool add;
	const float *x, *dy;
	float *out;  /* y or dx */
	float *part; /* [blocks], each of sl_bn_part_floats */
	struct sl_cpu_bn k;
};

static enum sl_err prepare(struct sl_op_prepare *p)
{
	int64_t c = p->op->u.bn.c, rows = sl_shape_count(&p->op->in_shape[0]) / c;

	p->sizes.saved_bytes = (size_t)(SL_BN_SAVED * c) * sizeof(float);
	p->sizes.workspace_bytes = (size_t)sl_bn_work_floats(rows, c) * sizeof(float);
	return SL_OK;
}

static struct job job_of(const struct sl_op_call *call)
{
	int64_t c = call->op->u.bn.c;

	return (struct job){
		.simd = sl_cpu_simd_of(call->be),
		.op = call->op,
		.rows = sl_shape_count(&call->in[0].shape) / c,
		.block_rows = sl_bn_block_rows(c),
		.c = c,
		.x = call->in[0].data,
		.part = (float *)call->workspace + sl_bn_coef_floats(c),
	};
}

static int64_t rows_in(const struct job *j, int64_t block)
{
	return sl_cpu_min(j->block_rows, j->rows - block * j->block_rows);
}

static void stats_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const float *x = j->x + block * j->block_rows * j->c;
	float *part = j->part + block * sl_bn_part_floats(j->c);

	sl_bn_begin_stats(part, x, j->c, (struct sl_bn_range){0, j->c});
	sl_bn_add_stats(j->simd, part, x, rows_in(j, block), j->c, (struct sl_bn_range){0, j->c});
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;

	if (j->rows * j->c < SL_CPU_STREAMED) {
		j->simd->bn_forward(j->out + at, j->x + at, &j->k, j->c, rows_in(j, block), (int)j->c, j->op->u.bn.act);
		return;
	}
	j->simd->bn_forward_stream(j->out + at, j->x + at, &j->k, rows_in(j, block), (int)j->c, j->op->u.bn.act);
	j->simd->stream_end();
}

static void sums_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;
	float *part = j->part + block * sl_bn_part_floats(j->c);

	sl_bn_begin_sums(part, j->c, (struct sl_bn_range){0, j->c});
	sl_bn_add_sums(j->simd, part, j->dy + at, j->x + at, &j->k, j->op, rows_in(j, block),
		       (struct sl_bn_range){0, j->c});
}

static void backward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * j->block_rows * j->c;

	j->simd->bn_backward(j->out + at, j->dy + at, j->x + at, &j->k, rows_in(j, block), (int)j->c, j->op->u.bn.act,
			     j->add);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call);
	int64_t blocks = sl_cpu_blocks(j.rows, j.block_rows);

	if (call->training && call->form.half != SL_HALF_APPLY) {
		sl_pool_run(call->be->pool, blocks, stats_block, &j);
		sl_bn_finish_stats(call, j.part, blocks);
	}
	if (call->out.data != NULL) {
		j.k = sl_bn_load(call, false, call->workspace);
		j.out = call->out.data;
		sl_pool_run(call->be->pool, blocks, forward_block, &j);
	}
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);
	int64_t blocks = sl_cpu_blocks(j.rows, j.block_rows);

	j.dy = call->dout.data;
	if (call->form.half != SL_HALF_STATS) {
		j.k = sl_bn_load(call, false, call->workspace);
		sl_pool_run(call->be->pool, blocks, sums_block, &j);
		sl_bn_finish_sums(call, j.part, blocks);
	}
	if (call->din[0].data != NULL) {
		j.k = sl_bn_load(call, true, call->workspace);
		j.out = call->din[0].data;
		j.add = call->din_add[0];
		sl_pool_run(call->be->pool, blocks, backward_block, &j);
	}
	return SL_OK;
}

static enum sl_err commit(const struct sl_op_call *call)
{
	sl_bn_commit(call);
	return SL_OK;
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	return op->kind == SL_OP_BATCHNORM && form.pre == SL_PRE_NONE && form.post == SL_POST_NONE;
}

const struct sl_kernel sl_cpu_op_batchnorm = {
	.prepare = prepare, .forward = forward, .backward = backward, .commit = commit, .takes = takes};
