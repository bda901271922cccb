/* Fully connected layer: out[N,O] = x[N,F] · w[O,F]^T + bias. */
#include "kernels/cuda/cuda.h"

enum { WEIGHT, BIAS };

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	const int64_t n = op->in_shape[0].dim[0], f = op->u.linear.in_f, o = op->u.linear.out_f;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (!err)
		err = cu_gemm_prepare(cu, false, true, n, o, f);
	if (!err)
		err = cu_gemm_prepare(cu, false, false, n, f, o);
	if (!err)
		err = cu_gemm_prepare(cu, true, false, o, f, n);
	if (err)
		return sl_fail_set(fail, err, "%s: cuBLAS has no product of its shape", op->name);
	*state = NULL;
	*sizes = (struct sl_op_sizes){.workspace_bytes = op->u.linear.bias ? cu_columns_bytes(op->u.linear.out_f) : 0};
	return SL_OK;
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	const int64_t n = in[0].shape.dim[0], f = op->u.linear.in_f, o = op->u.linear.out_f;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	if (!err)
		err = cu_gemm(cu, out->data, in[0].data, false, call->param[WEIGHT], true, n, o, f, 0);
	if (!err && op->u.linear.bias)
		err = cu_check(cu, cu_bias(cu->stream, out->data, call->param[BIAS], n, o), op->name);
	return err;
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	const int64_t n = dout->shape.dim[0], f = op->u.linear.in_f, o = op->u.linear.out_f;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	(void)out;
	if (!err && call->grad[WEIGHT])
		err = cu_gemm(cu, call->grad[WEIGHT], dout->data, true, in[0].data, false, o, f, n, 1);
	if (!err && op->u.linear.bias && call->grad[BIAS])
		err = cu_check(
			cu,
			cu_column_sums(cu->stream, call->grad[BIAS], dout->data, n, o, call->workspace, cu->counters),
			op->name);
	if (!err && din[0].data)
		err = cu_gemm(cu, din[0].data, dout->data, false, call->param[WEIGHT], false, n, f, o,
			      din_add[0] ? 1 : 0);
	return err;
}

const struct sl_kernel cu_linear = {.prepare = prepare, .forward = forward, .backward = backward};
