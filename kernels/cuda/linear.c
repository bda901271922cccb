/* Fully connected layer: out[N,O] = x[N,F] · w[O,F]^T + bias (transposed: x · w[F,O]). Every position of a
 * sequence is a row. */
#include "kernels/cuda/cuda.h"

enum { WEIGHT, BIAS };

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	const int64_t f = op->u.linear.in_f, o = op->u.linear.out_f, n = sl_shape_count(&op->in_shape[0]) / f;
	const bool transposed = op->u.linear.transposed;
	struct cuda *cu;
	enum sl_err err = cu_enter(p->be, &cu);

	if (!err)
		err = cu_gemm_prepare(cu, cu_product(op), false, !transposed, n, o, f);
	if (!err)
		err = cu_gemm_prepare(cu, cu_product(op), false, transposed, n, f, o);
	if (!err)
		err = transposed ? cu_gemm_prepare(cu, cu_wide_product(op), true, false, f, o, n)
				 : cu_gemm_prepare(cu, cu_wide_product(op), true, false, o, f, n);
	if (err)
		return sl_fail_set(p->fail, err, "%s: cuBLAS has no product of its shape", op->name);
	p->sizes =
		(struct sl_op_sizes){.workspace_bytes = op->u.linear.bias ? cu_columns_bytes(op->u.linear.out_f) : 0};
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t f = op->u.linear.in_f, o = op->u.linear.out_f, n = sl_shape_count(&call->in[0].shape) / f;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err)
		err = cu_gemm(cu, cu_product(op), call->out.data, call->in[0].data, false, cu_weight(call),
			      !op->u.linear.transposed, n, o, f, 0);
	if (!err && op->u.linear.bias)
		err = cu_check(cu, cu_bias(cu->stream, cu_op_type(op), call->out.data, call->param[BIAS], n, o),
			       op->name);
	return err;
}

static enum sl_err backward_weight(struct cuda *cu, const struct sl_op *op, float *dw, const void *x, const void *dy,
				   int64_t n)
{
	const int64_t f = op->u.linear.in_f, o = op->u.linear.out_f;

	return op->u.linear.transposed ? cu_gemm(cu, cu_wide_product(op), dw, x, true, dy, false, f, o, n, 1)
				       : cu_gemm(cu, cu_wide_product(op), dw, dy, true, x, false, o, f, n, 1);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t f = op->u.linear.in_f, o = op->u.linear.out_f, n = sl_shape_count(&call->dout.shape) / o;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && call->grad[WEIGHT])
		err = backward_weight(cu, op, call->grad[WEIGHT], call->in[0].data, call->dout.data, n);
	if (!err && op->u.linear.bias && call->grad[BIAS])
		err = cu_check(cu,
			       cu_column_sums(cu->stream, call->grad[BIAS], cu_op_type(op), call->dout.data, n, o,
					      call->workspace, cu->counters),
			       op->name);
	if (!err && call->din[0].data)
		err = cu_gemm(cu, cu_product(op), call->din[0].data, call->dout.data, false, cu_weight(call),
			      op->u.linear.transposed, n, f, o, call->din_add[0] ? 1 : 0);
	return err;
}

const struct sl_kernel cu_op_linear = {.prepare = prepare, .forward = forward, .backward = backward};
