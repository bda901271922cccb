/* Mean squares. `saved`: x − target [N, K]. It is a few numbers a row: one thread. */
#include "kernels/cpu/impl.h"

static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(float);
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const int64_t n = sl_shape_count(&call->in[0].shape);
	const float *x = call->in[0].data;
	float *error = call->saved;
	double square = 0;

	for (int64_t i = 0; i < n; i++) {
		error[i] = call->targets ? x[i] - call->targets[i] : x[i];
		square += (double)error[i] * (double)error[i];
	}
	*call->loss_sum = square / (double)sl_shape_row(&call->in[0].shape);
	*call->correct = 0;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->din[0].shape;

	if (call->din[0].data != NULL)
		sl_cpu_simd_of(call->be)->scale(call->din[0].data, call->saved,
						call->loss_scale * 2.0f / (float)sl_shape_row(s), 0, sl_shape_count(s),
						call->din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_cpu_mse = {.prepare = prepare, .forward = forward, .backward = backward};
