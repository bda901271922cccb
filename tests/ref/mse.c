/* Losses of numbers, such as torch.nn.MSELoss, for each row, before the mean over rows:
 *   loss_sum = Σ_n Σ_k l(x[n,k], target[n,k]) / K      dx[n,k] = loss_scale · dl/dx / K
 * l is one of enum sl_mse_fn. */
#include <math.h>

#include "tests/ref/kernels.h"

/* Saved: dl/dx as double [N,K]; x is not kept for backward. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(double);
	return SL_OK;
}

/* σ(−x) = 1 − σ(x). */
static double bce(double x, double t, double weight, double *slope)
{
	const double of_one = 1 + (weight - 1) * t;

	*slope = 1 - t - of_one / (1 + exp(x));
	return (1 - t) * x + of_one * (log1p(exp(-fabs(x))) + fmax(-x, 0));
}

static double loss_of(enum sl_mse_fn fn, double x, double t, double weight, double *slope)
{
	const double e = x - t;

	if (fn == SL_MSE_BCE)
		return bce(x, t, weight, slope);
	*slope = fn == SL_MSE_SQUARE ? 2 * e : (e > 0) - (e < 0);
	if (fn == SL_MSE_SQUARE)
		return e * e;
	if (fn == SL_MSE_L1 || fabs(e) >= 1)
		return fabs(e) - (fn == SL_MSE_HUBER ? 0.5 : 0);
	*slope = e;
	return e * e / 2;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->in[0].shape;
	const int64_t row = sl_shape_row(s);
	const float *x = call->in[0].data, *weight = call->rule.weight;
	double *slope = call->saved, loss = 0;

	for (int64_t i = 0; i < sl_shape_count(s); i++)
		loss += loss_of((enum sl_mse_fn)call->op->u.mse.fn, (double)x[i],
				call->targets ? (double)call->targets[i] : 0, weight ? (double)weight[i % row] : 1,
				&slope[i]) /
			(double)row;
	*call->loss_sum = loss;
	*call->correct = 0;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->din[0].shape;
	const double *slope = call->saved;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(s) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], call->loss_scale * slope[i] / (double)sl_shape_row(s));
	return SL_OK;
}

const struct sl_kernel sl_ref_mse = {.prepare = prepare, .forward = forward, .backward = backward};
