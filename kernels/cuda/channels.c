/* Gate (each channel times a number of its own) and concat. */
#include "kernels/cuda/cuda.h"

static int64_t channels_of(const struct sl_shape *s)
{
	return s->dim[s->ndim - 1];
}

static int64_t pixels_of(const struct sl_shape *s)
{
	return sl_shape_row(s) / channels_of(s);
}

static enum sl_err gate_forward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->out.shape;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_gate(cu->stream, cu_op_type(call->op), call->out.data, false, call->in[0].data,
				      call->in[1].data, s->dim[0], pixels_of(s), channels_of(s)),
			      call->op->name);
}

static enum sl_err gate_backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->dout.shape;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && call->din[0].data)
		err = cu_check(cu,
			       cu_gate(cu->stream, cu_op_type(call->op), call->din[0].data, call->din_add[0],
				       call->dout.data, call->in[1].data, s->dim[0], pixels_of(s), channels_of(s)),
			       call->op->name);
	if (!err && call->din[1].data)
		err = cu_check(cu,
			       cu_gate_sums(cu->stream, cu_op_type(call->op), call->din[1].data, call->din_add[1],
					    call->dout.data, call->in[0].data, s->dim[0], pixels_of(s), channels_of(s)),
			       call->op->name);
	return err;
}

/* Concat's "channels" are all dimensions from its axis on. */
static enum sl_err concat_forward(const struct sl_op_call *call)
{
	const int axis = sl_op_concat_axis(call->op);
	const int64_t a = sl_op_inner(&call->op->in_shape[0], axis), b = sl_op_inner(&call->op->in_shape[1], axis);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_concat(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data, a,
					call->in[1].data, b, sl_shape_count(&call->out.shape) / (a + b)),
			      call->op->name);
}

static enum sl_err concat_backward(const struct sl_op_call *call)
{
	const int axis = sl_op_concat_axis(call->op);
	const int64_t all = sl_op_inner(&call->dout.shape, axis);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	for (int k = 0; k < 2 && !err; k++) {
		const int64_t c = sl_op_inner(&call->op->in_shape[k], axis);

		if (call->din[k].data)
			err = cu_check(cu,
				       cu_take(cu->stream, cu_op_type(call->op), call->din[k].data, call->din_add[k],
					       call->dout.data, c, k ? all - c : 0, all,
					       sl_shape_count(&call->dout.shape) / all),
				       call->op->name);
	}
	return err;
}

const struct sl_kernel cu_op_gate = {.forward = gate_forward, .backward = gate_backward};
const struct sl_kernel cu_op_concat = {.forward = concat_forward, .backward = concat_backward};
