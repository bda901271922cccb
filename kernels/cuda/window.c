/* Neighbouring slices of volumes side by side in the channels (struct sl_window_attr). */
#include "kernels/cuda/window.h"
#include "kernels/cuda/cuda.h"

/* `in` and `out` are the op's input and output, or in backward their gradients. */
static enum sl_err run(const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
		       bool backward, bool add)
{
	const struct sl_window_attr *a = &call->op->u.window;
	const bool back = a->back > 0;
	const struct sl_shape *narrow = back ? &out->shape : &in->shape, *wide = back ? &in->shape : &out->shape;
	const int64_t h = in->shape.dim[1] / call->op->slices;
	const struct cu_slices w = {.n = in->shape.dim[0],
				    .d = narrow->dim[1] / h,
				    .out = wide->dim[1] / h,
				    .plane = h * in->shape.dim[2],
				    .c = narrow->dim[3],
				    .k = a->k,
				    .stride = a->stride,
				    .pad = a->pad,
				    .dilation = a->dilation};
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      (back == backward ? cu_window_spread : cu_window_collect)(
				      cu->stream, cu_op_type(call->op), backward ? in->data : out->data, add,
				      backward ? out->data : in->data, &w),
			      call->op->name);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	return run(call, &call->in[0], &call->out, false, false);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	return call->din[0].data ? run(call, &call->din[0], &call->dout, true, call->din_add[0]) : SL_OK;
}

const struct sl_kernel cu_op_window = {.forward = forward, .backward = backward};
