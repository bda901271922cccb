/* Mean squares. Saved: x − target as float [N, K]. The sum reaches the caller's memory when the next fence
 * has passed. */
#include "kernels/cuda/cuda.h"

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_shape *s = &p->op->in_shape[0];

	if (p->op->u.mse.fn != SL_MSE_SQUARE)
		return sl_fail_set(p->fail, SL_ERR_CONFIG,
				   "%s: a GPU computes mean squares alone of the losses of numbers: take device: cpu",
				   p->op->name);
	p->sizes = (struct sl_op_sizes){.workspace_bytes = (size_t)s->dim[0] * (sizeof(double) + sizeof(int32_t)),
					.saved_bytes = (size_t)sl_shape_count(s) * sizeof(float)};
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const int64_t n = call->in[0].shape.dim[0];
	double *row_loss = call->workspace;
	struct cu_xent_result *result;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err)
		err = cu_result_place(cu, &result);
	if (!err)
		err = cu_check(cu,
			       cu_mse_forward(cu->stream, result, call->saved, row_loss, (int32_t *)(row_loss + n),
					      call->in[0].data, call->targets, n, cu_channels(&call->in[0].shape)),
			       call->op->name);
	if (!err)
		cu_result_take(cu, call);
	return err;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->din[0].shape;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_mse_backward(cu->stream, call->din[0].data, call->din_add[0], call->saved, call->loss_scale,
					s->dim[0], cu_channels(s)),
			call->op->name);
}

const struct sl_kernel cu_op_mse = {.prepare = prepare, .forward = forward, .backward = backward};
