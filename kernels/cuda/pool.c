/* Max and average pooling. Saved by maxpool: the place of the largest element in each window, uint16 [N, HO, WO, C]. */
#include "kernels/cuda/cuda.h"

static struct cu_window window_of(const struct sl_op *op, int64_t rows)
{
	const struct sl_pool_attr *a = &op->u.pool;
	const struct sl_shape *in = &op->in_shape[0];
	struct cu_window win = a->k ? cu_window_of(in, &op->out_shape, a->k, a->k, a->stride, a->pad)
				    : cu_window_of(in, &op->out_shape, (int)in->dim[1], (int)in->dim[2], 1, 0);

	win.n = rows;
	return win;
}

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	const struct cu_window win = window_of(op, op->in_shape[0].dim[0]);

	(void)be;
	if (op->kind == SL_OP_MAXPOOL && (int64_t)win.kh * win.kw > UINT16_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s: a window of %d x %d is larger than the 65535 places of one", op->name, win.kh,
				   win.kw);
	*state = NULL;
	*sizes = (struct sl_op_sizes){0};
	if (op->kind == SL_OP_MAXPOOL)
		sizes->saved_bytes = (size_t)(win.n * win.ho * win.wo * win.c) * sizeof(uint16_t);
	return SL_OK;
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	const struct cu_window win = window_of(op, in[0].shape.dim[0]);
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	if (err)
		return err;
	return cu_check(
		cu,
		op->kind == SL_OP_MAXPOOL
			? cu_maxpool_forward(cu->stream, cu_op_type(op), out->data, call->saved, in[0].data, &win)
			: cu_avgpool_forward(cu->stream, cu_op_type(op), out->data, in[0].data, &win),
		op->name);
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	const struct cu_window win = window_of(op, dout->shape.dim[0]);
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	(void)in;
	(void)out;
	if (err || !din[0].data)
		return err;
	return cu_check(cu,
			op->kind == SL_OP_MAXPOOL ? cu_maxpool_backward(cu->stream, cu_op_type(op), din[0].data,
									din_add[0], dout->data, call->saved, &win)
						  : cu_avgpool_backward(cu->stream, cu_op_type(op), din[0].data,
									din_add[0], dout->data, &win),
			op->name);
}

const struct sl_kernel cu_maxpool = {.prepare = prepare, .forward = forward, .backward = backward};
const struct sl_kernel cu_avgpool = {.prepare = prepare, .forward = forward, .backward = backward};
