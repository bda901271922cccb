/* Ops that move numbers: permute, resample, and repeat, which copies a parameter to every row. */
#include "kernels/cuda/cuda.h"

static enum sl_err permute(const struct sl_op_call *call, const struct sl_tensor *to, bool add,
			   const struct sl_tensor *from, bool back)
{
	const struct sl_permute_attr *a = &call->op->u.permute;
	const int64_t d = sl_shape_row(&call->op->in_shape[0]) / a->outer / a->b / a->c;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_permute(cu->stream, cu_op_type(call->op), to->data, add, from->data,
					 back ? a->c : a->b, back ? a->b : a->c, d, sl_shape_count(&from->shape)),
			      call->op->name);
}

static enum sl_err permute_forward(const struct sl_op_call *call)
{
	return permute(call, &call->out, false, &call->in[0], false);
}

static enum sl_err permute_backward(const struct sl_op_call *call)
{
	return call->din[0].data ? permute(call, &call->din[0], call->din_add[0], &call->dout, true) : SL_OK;
}

static struct cu_resample resample_of(const struct sl_op_call *call, const struct sl_shape *out)
{
	const struct sl_resample_attr *a = &call->op->u.resample;
	struct cu_resample r = {.n = call->op->in_shape[0].dim[a->axis],
				.m = a->size,
				.inner = sl_op_inner(out, a->axis + 1),
				.mode = a->mode,
				.at = a->first - a->before,
				.step = a->step,
				.window = a->window};

	r.outer = sl_shape_count(out) / r.m / r.inner;
	return r;
}

static enum sl_err resample_forward(const struct sl_op_call *call)
{
	const struct cu_resample r = resample_of(call, &call->out.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_resample_forward(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
						  &r),
			      call->op->name);
}

static enum sl_err resample_backward(const struct sl_op_call *call)
{
	const struct cu_resample r = resample_of(call, &call->dout.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_resample_backward(cu->stream, cu_op_type(call->op), call->din[0].data, call->din_add[0],
					     call->dout.data, &r),
			call->op->name);
}

static enum sl_err repeat_forward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_repeat(cu->stream, cu_op_type(call->op), call->out.data, call->param[0],
					call->out.shape.dim[0], sl_shape_row(&call->out.shape)),
			      call->op->name);
}

/* The input only determines the number of rows, so its gradient is 0. */
static enum sl_err repeat_backward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && call->grad[0])
		err = cu_check(cu,
			       cu_repeat_sum(cu->stream, cu_op_type(call->op), call->grad[0], call->dout.data,
					     call->dout.shape.dim[0], sl_shape_row(&call->dout.shape)),
			       call->op->name);
	if (!err && call->din[0].data && !call->din_add[0])
		err = call->be->ops->zero(call->be, call->din[0].data,
					  (size_t)sl_shape_count(&call->din[0].shape) *
						  (cu_op_type(call->op) == CU_F32 ? 4 : 2));
	return err;
}

const struct sl_kernel cu_op_permute = {.forward = permute_forward, .backward = permute_backward};
const struct sl_kernel cu_op_resample = {.forward = resample_forward, .backward = resample_backward};
const struct sl_kernel cu_op_repeat = {.forward = repeat_forward, .backward = repeat_backward};
