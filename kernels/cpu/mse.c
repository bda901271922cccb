/* Losses of numbers. `saved`: dl/dx [N, K]; for squares half of it. There are few numbers per row, so one
 * thread computes it. */
#include <math.h>

#include "kernels/cpu/impl.h"

static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(float);
	return SL_OK;
}

/* Takes an output and its target, returns the loss, and sets *slope to the value that is saved. */
typedef double (*number_loss)(float x, float t, float weight, float *slope);

static double square(float x, float t, float weight, float *slope)
{
	*slope = x - t;
	return (double)*slope * (double)*slope;
}

static double absolute(float x, float t, float weight, float *slope)
{
	*slope = (float)((x > t) - (x < t));
	return fabs((double)x - (double)t);
}

static double huber(float x, float t, float weight, float *slope)
{
	const double e = fabs((double)x - (double)t);

	*slope = fminf(fmaxf(x - t, -1), 1);
	return e < 1 ? e * e / 2 : e - 0.5;
}

static double bce(float x, float t, float weight, float *slope)
{
	const double small = exp(-fabs((double)x)), of_one = 1 + ((double)weight - 1) * (double)t;
	const double against = (x < 0 ? 1 : small) / (1 + small); /* 1 − σ(x) */

	*slope = (float)(1 - (double)t - of_one * against);
	return (1 - (double)t) * (double)x + of_one * (log1p(small) + fmax(-(double)x, 0));
}

static const number_loss losses[SL_MSE_COUNT] = {
	[SL_MSE_SQUARE] = square, [SL_MSE_L1] = absolute, [SL_MSE_HUBER] = huber, [SL_MSE_BCE] = bce};

static enum sl_err forward(const struct sl_op_call *call)
{
	const int64_t n = sl_shape_count(&call->in[0].shape), row = sl_shape_row(&call->in[0].shape);
	const float *x = call->in[0].data, *weight = call->rule.weight;
	const number_loss loss = losses[call->op->u.mse.fn];
	float *slope = call->saved;
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += loss(x[i], call->targets ? call->targets[i] : 0, weight ? weight[i % row] : 1, &slope[i]);
	*call->loss_sum = sum / (double)row;
	*call->correct = 0;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_shape *s = &call->din[0].shape;
	const float factor = call->op->u.mse.fn == SL_MSE_SQUARE ? 2.0f : 1.0f;

	if (call->din[0].data != NULL)
		sl_cpu_simd_of(call->be)->scale(call->din[0].data, call->saved,
						call->loss_scale * factor / (float)sl_shape_row(s), 0,
						sl_shape_count(s), call->din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_mse = {.prepare = prepare, .forward = forward, .backward = backward};
