/* Max and average pooling. Saved by maxpool: the index of the largest element in each window, uint16 [N, HO,
 * WO, C]. */
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

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	const struct cu_window win = window_of(op, op->in_shape[0].dim[0]);

	if (op->kind == SL_OP_MAXPOOL && (int64_t)win.kh * win.kw > UINT16_MAX)
		return sl_fail_set(p->fail, SL_ERR_CONFIG,
				   "%s: a window of %d x %d is larger than the 65535 places of one", op->name, win.kh,
				   win.kw);
	if (op->kind == SL_OP_MAXPOOL)
		p->sizes.saved_bytes = (size_t)(win.n * win.ho * win.wo * win.c) * sizeof(uint16_t);
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const struct cu_window win = window_of(op, call->in[0].shape.dim[0]);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	return cu_check(cu,
			op->kind == SL_OP_MAXPOOL ? cu_maxpool_forward(cu->stream, cu_op_type(op), call->out.data,
								       call->saved, call->in[0].data, &win)
						  : cu_avgpool_forward(cu->stream, cu_op_type(op), call->out.data,
								       call->in[0].data, &win),
			op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const struct cu_window win = window_of(op, call->dout.shape.dim[0]);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			op->kind == SL_OP_MAXPOOL
				? cu_maxpool_backward(cu->stream, cu_op_type(op), call->din[0].data, call->din_add[0],
						      call->dout.data, call->saved, &win)
				: cu_avgpool_backward(cu->stream, cu_op_type(op), call->din[0].data, call->din_add[0],
						      call->dout.data, &win),
			op->name);
}

const struct sl_kernel cu_op_maxpool = {.prepare = prepare, .forward = forward, .backward = backward};
const struct sl_kernel cu_op_avgpool = {.prepare = prepare, .forward = forward, .backward = backward};
