/* Smooth activations (GELU, SiLU, tanh, sigmoid and its hard forms, ELU, softplus, math functions), and
 * products of two tensors. */
#include "kernels/cuda/cuda.h"

static enum cu_smooth kind_of(const struct sl_op *op)
{
	if (op->kind == SL_OP_MATH)
		return (enum cu_smooth)(CU_SMOOTH_EXP + op->u.math.fn);
	if (op->kind == SL_OP_GELU)
		return op->u.gelu.tanh ? CU_SMOOTH_GELU_TANH : CU_SMOOTH_GELU;
	return op->kind == SL_OP_SILU          ? CU_SMOOTH_SILU
	       : op->kind == SL_OP_SIGMOID     ? CU_SMOOTH_SIGMOID
	       : op->kind == SL_OP_HARDSIGMOID ? CU_SMOOTH_HARDSIGMOID
	       : op->kind == SL_OP_HARDSWISH   ? CU_SMOOTH_HARDSWISH
	       : op->kind == SL_OP_ELU         ? CU_SMOOTH_ELU
	       : op->kind == SL_OP_SOFTPLUS    ? CU_SMOOTH_SOFTPLUS
					       : CU_SMOOTH_TANH;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_smooth_forward(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
						kind_of(call->op), sl_shape_count(&call->in[0].shape)),
			      call->op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_smooth_backward(cu->stream, cu_op_type(call->op), call->din[0].data, call->din_add[0],
					   call->dout.data, call->in[0].data, kind_of(call->op),
					   sl_shape_count(&call->dout.shape)),
			call->op->name);
}

static enum sl_err mul_forward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_mul(cu->stream, cu_op_type(call->op), call->out.data, false, call->in[0].data,
				     call->in[1].data, sl_shape_count(&call->in[0].shape)),
			      call->op->name);
}

static enum sl_err mul_backward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	for (int k = 0; k < 2 && !err; k++)
		if (call->din[k].data)
			err = cu_check(cu,
				       cu_mul(cu->stream, cu_op_type(call->op), call->din[k].data, call->din_add[k],
					      call->dout.data, call->in[1 - k].data, sl_shape_count(&call->dout.shape)),
				       call->op->name);
	return err;
}

const struct sl_kernel cu_op_smooth = {.forward = forward, .backward = backward};
const struct sl_kernel cu_op_mul = {.forward = mul_forward, .backward = mul_backward};
