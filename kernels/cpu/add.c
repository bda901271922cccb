/* The sum of two tensors. The batch norm in front of the first one, and the activation behind the sum, work on the same
 * block while it is in the cache (struct sl_exec_form). Blocks are those of batchnorm.c, and sums have the same bits.
 */
#include "kernels/cpu/bn.h"

struct job {
	const struct sl_cpu_simd *simd;
	const struct sl_op_call *call;
	int64_t n, per_block; /* floats */
	int c;                /* channels, if there is a batch norm */
	enum sl_act act;
	float *part; /* [blocks], each of sl_bn_part_floats(c) */
	struct sl_cpu_bn norm;
};

static bool has_norm(const struct sl_op_call *call)
{
	return call->form.pre == SL_PRE_NORM;
}

static int64_t channels(const struct sl_op *op)
{
	return op->in_shape[0].dim[op->in_shape[0].ndim - 1];
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const int64_t c = channels(p->op), n = sl_shape_count(&p->op->in_shape[0]);

	if (p->form.pre == SL_PRE_NORM)
		p->sizes.workspace_bytes = (size_t)sl_bn_work_floats(n / c, c) * sizeof(float);
	return SL_OK;
}

static struct job job_of(const struct sl_op_call *call)
{
	struct job j = {
		.simd = sl_cpu_simd_of(call->be),
		.call = call,
		.n = sl_shape_count(&call->in[0].shape),
		.per_block = SL_CPU_BLOCK,
		.act = call->form.post == SL_POST_ACT ? call->post->op->u.act : SL_ACT_NONE,
	};

	if (has_norm(call)) {
		j.c = (int)channels(call->op);
		j.per_block = sl_bn_block_rows(j.c) * j.c;
		j.norm = sl_bn_load(call->pre, false, call->workspace);
		j.part = (float *)call->workspace + sl_bn_coef_floats(j.c);
	}
	return j;
}

static void run(sl_pool_fn *fn, struct job *j)
{
	sl_pool_run(j->call->be->pool, sl_cpu_blocks(j->n, j->per_block), fn, j);
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t at = block * j->per_block, n = sl_cpu_min(j->per_block, j->n - at);
	const float *a = (const float *)j->call->in[0].data + at, *b = (const float *)j->call->in[1].data + at;
	const bool streams = j->n >= SL_CPU_STREAMED;
	const int c = j->c ? j->c : (int)n;

	j->simd->norm_sum((float *)j->call->out.data + at, a, b, j->c ? &j->norm : NULL, n / c, c, j->act, streams);
	if (streams)
		j->simd->stream_end();
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	run(forward_block, &j);
	return SL_OK;
}

/* The activation's derivative is known from its output: that lies between its bounds where the input does. */
static void backward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const struct sl_op_call *c = j->call;
	const int64_t at = block * j->per_block, n = sl_cpu_min(j->per_block, j->n - at);
	const float *dy = (const float *)c->dout.data + at;
	const float *y = j->act == SL_ACT_NONE ? dy : (const float *)c->out.data + at; /* without one, any */
	float *da = c->din[0].data, *db = c->din[1].data;

	if (da && db && !c->din_add[0]) {
		j->simd->act_fork(da + at, db + at, dy, y, n, j->act, c->din_add[1]);
	} else {
		for (int k = 0; k < 2; k++)
			if (c->din[k].data)
				j->simd->act_backward((float *)c->din[k].data + at, dy, y, n, j->act, c->din_add[k]);
	}
	if (j->c) {
		float *part = j->part + block * sl_bn_part_floats(j->c);
		const struct sl_bn_range all = {0, j->c};

		sl_bn_begin_sums(part, j->c, all);
		sl_bn_add_sums(j->simd, part, da + at, (const float *)c->in[0].data + at, &j->norm, c->pre->op,
			       n / j->c, all);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	run(backward_block, &j);
	if (has_norm(call))
		sl_bn_finish_sums(call->pre, j.part, sl_cpu_blocks(j.n, j.per_block));
	return SL_OK;
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	return (form.pre == SL_PRE_NONE || form.pre == SL_PRE_NORM) &&
	       (form.post == SL_POST_NONE || form.post == SL_POST_ACT);
}

const struct sl_kernel sl_cpu_op_add = {.prepare = prepare, .forward = forward, .backward = backward, .takes = takes};
