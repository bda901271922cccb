/* Mean squares, torch.nn.MSELoss of each row before the mean over rows:
 *   loss_sum = Σ_n Σ_k (x[n,k] − target[n,k])² / K      dx[n,k] = loss_scale · 2·(x[n,k] − target[n,k]) / K */
#include "kernels/ref/kernels.h"

/* Saved: x − target as double [N,K]; x is not kept for backward. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(double);
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->in[0].shape;
	const float *x = call->in[0].data;
	double *error = call->saved, loss = 0;

	for (int64_t i = 0; i < sl_shape_count(s); i++) {
		error[i] = (double)x[i] - (call->targets ? call->targets[i] : 0);
		loss += error[i] * error[i] / (double)sl_shape_row(s);
	}
	*call->loss_sum = loss;
	*call->correct = 0;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->din[0].shape;
	const double *error = call->saved;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(s) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], call->loss_scale * 2 * error[i] / (double)sl_shape_row(s));
	return SL_OK;
}

const struct sl_kernel sl_ref_mse = {.prepare = prepare, .forward = forward, .backward = backward};
