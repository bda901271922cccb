/* Smooth activations, element by element in blocks: GELU, SiLU, tanh, sigmoid and its hard forms, ELU,
 * softplus, math functions. Also the product of two tensors. */
#include "kernels/cpu/impl.h"

enum { BLOCK = SL_CPU_BLOCK / 8 }; /* exponentials are most of the work, so blocks are small */

struct job {
	const struct sl_cpu_simd *simd;
	int64_t n;
	float *out; /* y or dx */
	const float *x, *dy;
	enum sl_cpu_smooth kind;
	bool add;
};

static int64_t count_in(const struct job *j, int64_t at)
{
	return sl_cpu_min(BLOCK, j->n - at);
}

static enum sl_cpu_smooth kind_of(const struct sl_op *op)
{
	if (op->kind == SL_OP_MATH)
		return (enum sl_cpu_smooth)(SL_SMOOTH_EXP + op->u.math.fn);
	if (op->kind == SL_OP_GELU)
		return op->u.gelu.tanh ? SL_SMOOTH_GELU_TANH : SL_SMOOTH_GELU;
	return op->kind == SL_OP_SILU          ? SL_SMOOTH_SILU
	       : op->kind == SL_OP_SIGMOID     ? SL_SMOOTH_SIGMOID
	       : op->kind == SL_OP_HARDSIGMOID ? SL_SMOOTH_HARDSIGMOID
	       : op->kind == SL_OP_HARDSWISH   ? SL_SMOOTH_HARDSWISH
	       : op->kind == SL_OP_ELU         ? SL_SMOOTH_ELU
	       : op->kind == SL_OP_SOFTPLUS    ? SL_SMOOTH_SOFTPLUS
					       : SL_SMOOTH_TANH;
}

static void run(const struct sl_op_call *call, sl_pool_fn *fn, struct job *j)
{
	j->simd = sl_cpu_simd_of(call->be);
	sl_pool_run(call->be->pool, sl_cpu_blocks(j->n, BLOCK), fn, j);
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * BLOCK;

	j->simd->smooth_forward(j->out + at, j->x + at, count_in(j, at), j->kind);
}

static void backward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * BLOCK;

	j->simd->smooth_backward(j->out + at, j->dy + at, j->x + at, count_in(j, at), j->kind, j->add);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	run(call, forward_block,
	    &(struct job){.n = sl_shape_count(&call->in[0].shape),
			  .out = call->out.data,
			  .x = call->in[0].data,
			  .kind = kind_of(call->op)});
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	if (call->din[0].data != NULL)
		run(call, backward_block,
		    &(struct job){.n = sl_shape_count(&call->dout.shape),
				  .out = call->din[0].data,
				  .x = call->in[0].data,
				  .dy = call->dout.data,
				  .kind = kind_of(call->op),
				  .add = call->din_add[0]});
	return SL_OK;
}

static void product_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * BLOCK;

	j->simd->product(j->out + at, j->x + at, j->dy + at, count_in(j, at), j->add);
}

static enum sl_err mul_forward(const struct sl_op_call *call)
{
	run(call, product_block,
	    &(struct job){.n = sl_shape_count(&call->in[0].shape),
			  .out = call->out.data,
			  .x = call->in[0].data,
			  .dy = call->in[1].data});
	return SL_OK;
}

static enum sl_err mul_backward(const struct sl_op_call *call)
{
	for (int k = 0; k < 2; k++)
		if (call->din[k].data != NULL)
			run(call, product_block,
			    &(struct job){.n = sl_shape_count(&call->dout.shape),
					  .out = call->din[k].data,
					  .x = call->in[1 - k].data,
					  .dy = call->dout.data,
					  .add = call->din_add[k]});
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_smooth = {.forward = forward, .backward = backward};
const struct sl_kernel sl_cpu_op_mul = {.forward = mul_forward, .backward = mul_backward};
