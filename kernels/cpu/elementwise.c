/* Activation, sum, product with a constant, dropout, flatten: loops over elements in blocks. */
#include <string.h>

#include "kernels/cpu/impl.h"

struct job {
	const struct sl_cpu_simd *simd;
	int64_t n;
	float *out;
	const float *a, *b;
	enum sl_act act;
	bool add;
	const struct sl_rng_key *rng;
	float p;  /* of dropout */
	float by; /* of scale */
};

static void run(struct sl_backend *be, sl_pool_fn *fn, struct job *job)
{
	job->simd = sl_cpu_simd_of(be);
	sl_pool_run(be->pool, sl_cpu_blocks(job->n, SL_CPU_BLOCK), fn, job);
}

static int64_t count_in(const struct job *j, int64_t at)
{
	return sl_cpu_min(SL_CPU_BLOCK, j->n - at);
}

/* Identity: out = or += a. In place there is nothing to do. */
static void copy_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK, n = count_in(j, at);

	(void)worker;
	if (j->add)
		j->simd->sum(j->out + at, j->out + at, j->a + at, n);
	else
		memcpy(j->out + at, j->a + at, (size_t)n * sizeof(float));
}

static void pass(struct sl_backend *be, float *out, const float *a, int64_t n, bool add)
{
	if (add || out != a)
		run(be, copy_block, &(struct job){.n = n, .out = out, .a = a, .add = add});
}

static void act_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	(void)worker;
	j->simd->act_forward(j->out + at, j->a + at, count_in(j, at), j->act);
}

static enum sl_err act_forward(struct sl_backend *be, const struct sl_op *op, void *state,
			       const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)state;
	(void)call;
	run(be, act_block,
	    &(struct job){.n = sl_shape_count(&in[0].shape), .out = out->data, .a = in[0].data, .act = op->u.act});
	return SL_OK;
}

static void act_back_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	(void)worker;
	j->simd->act_backward(j->out + at, j->a + at, j->b + at, count_in(j, at), j->act, j->add);
}

static enum sl_err act_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
				const struct sl_tensor *dout, struct sl_tensor *din, const bool *din_add)
{
	(void)state;
	(void)call;
	(void)out;
	if (din[0].data != NULL)
		run(be, act_back_block,
		    &(struct job){.n = sl_shape_count(&dout->shape),
				  .out = din[0].data,
				  .a = dout->data,
				  .b = in[0].data,
				  .act = op->u.act,
				  .add = din_add[0]});
	return SL_OK;
}

static void add_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	(void)worker;
	j->simd->sum(j->out + at, j->a + at, j->b + at, count_in(j, at));
}

static enum sl_err add_forward(struct sl_backend *be, const struct sl_op *op, void *state,
			       const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)op;
	(void)state;
	(void)call;
	run(be, add_block,
	    &(struct job){.n = sl_shape_count(&in[0].shape), .out = out->data, .a = in[0].data, .b = in[1].data});
	return SL_OK;
}

static enum sl_err add_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
				const struct sl_tensor *dout, struct sl_tensor *din, const bool *din_add)
{
	(void)op;
	(void)state;
	(void)call;
	(void)in;
	(void)out;
	for (int i = 0; i < 2; i++)
		if (din[i].data != NULL)
			pass(be, din[i].data, dout->data, sl_shape_count(&dout->shape), din_add[i]);
	return SL_OK;
}

static void scale_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	(void)worker;
	j->simd->scale(j->out + at, j->a + at, j->by, count_in(j, at), j->add);
}

/* Forward and backward are the same product. */
static void scale(struct sl_backend *be, const struct sl_op *op, float *out, bool add, const float *x, int64_t n)
{
	run(be, scale_block, &(struct job){.n = n, .out = out, .a = x, .by = op->u.scale.by, .add = add});
}

static enum sl_err scale_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				 const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)state;
	(void)call;
	scale(be, op, out->data, false, in[0].data, sl_shape_count(&in[0].shape));
	return SL_OK;
}

static enum sl_err scale_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				  const struct sl_op_call *call, const struct sl_tensor *in,
				  const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				  const bool *din_add)
{
	(void)state;
	(void)call;
	(void)in;
	(void)out;
	if (din[0].data != NULL)
		scale(be, op, din[0].data, din_add[0], dout->data, sl_shape_count(&dout->shape));
	return SL_OK;
}

/* Drawing is most of the work, and what is dropped is small: blocks are, too. */
enum { DROPOUT_BLOCK = SL_CPU_BLOCK / 8 };

static void dropout_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * DROPOUT_BLOCK, n = sl_cpu_min(DROPOUT_BLOCK, j->n - at);

	(void)worker;
	j->simd->dropout(j->out + at, j->a + at, j->rng, at, n, j->p, j->add);
}

static void drop(struct sl_backend *be, const struct sl_op *op, const struct sl_op_call *call, float *out,
		 const float *a, int64_t n, bool add)
{
	if (!call->training || op->u.dropout.p == 0.0f)
		pass(be, out, a, n, add);
	else
		sl_pool_run(be->pool, sl_cpu_blocks(n, DROPOUT_BLOCK), dropout_block,
			    &(struct job){.simd = sl_cpu_simd_of(be),
					  .n = n,
					  .out = out,
					  .a = a,
					  .add = add,
					  .rng = &call->rng,
					  .p = op->u.dropout.p});
}

static enum sl_err dropout_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				   const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)state;
	drop(be, op, call, out->data, in[0].data, sl_shape_count(&in[0].shape), false);
	return SL_OK;
}

static enum sl_err dropout_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				    const struct sl_op_call *call, const struct sl_tensor *in,
				    const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				    const bool *din_add)
{
	(void)state;
	(void)in;
	(void)out;
	if (din[0].data != NULL)
		drop(be, op, call, din[0].data, dout->data, sl_shape_count(&dout->shape), din_add[0]);
	return SL_OK;
}

static enum sl_err flatten_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				   const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)op;
	(void)state;
	(void)call;
	pass(be, out->data, in[0].data, sl_shape_count(&in[0].shape), false);
	return SL_OK;
}

static enum sl_err flatten_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				    const struct sl_op_call *call, const struct sl_tensor *in,
				    const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				    const bool *din_add)
{
	(void)op;
	(void)state;
	(void)call;
	(void)in;
	(void)out;
	if (din[0].data != NULL)
		pass(be, din[0].data, dout->data, sl_shape_count(&dout->shape), din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_cpu_act = {sl_cpu_prepare_nothing, NULL, act_forward, act_backward, NULL};
const struct sl_kernel sl_cpu_add = {sl_cpu_prepare_nothing, NULL, add_forward, add_backward, NULL};
const struct sl_kernel sl_cpu_scale = {sl_cpu_prepare_nothing, NULL, scale_forward, scale_backward, NULL};
const struct sl_kernel sl_cpu_dropout = {sl_cpu_prepare_nothing, NULL, dropout_forward, dropout_backward, NULL};
const struct sl_kernel sl_cpu_flatten = {sl_cpu_prepare_nothing, NULL, flatten_forward, flatten_backward, NULL};
