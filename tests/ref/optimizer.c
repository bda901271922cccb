/* The formulas of common/exec/optimizer.h; every value is computed in double and rounded when stored. */
#include <math.h>

#include "tests/ref/kernels.h"

static void sgd(const struct sl_update *u, int64_t count, float *weight, const float *grad, float *momentum)
{
	double lr = u->lr, mu = u->momentum, wd = u->weight_decay;

	for (int64_t i = 0; i < count; i++) {
		double g = grad[i] + wd * weight[i];
		double m = mu * momentum[i] + g;

		momentum[i] = (float)m;
		g = u->nesterov ? g + mu * m : m;
		weight[i] = (float)(weight[i] - lr * g);
	}
}

static void adam(const struct sl_update *u, int64_t count, float *weight, const float *grad, float *first,
		 float *second)
{
	for (int64_t i = 0; i < count; i++) {
		double w = (double)u->keep * weight[i];
		double g = grad[i] + (double)u->weight_decay * weight[i];
		double m = (double)u->beta1 * first[i] + u->gain1 * g;
		double v = (double)u->beta2 * second[i] + u->gain2 * (g * g);

		first[i] = (float)m;
		second[i] = (float)v;
		weight[i] = (float)(w - u->rate * m / (sqrt(v) * u->root + u->eps));
	}
}

enum sl_err sl_ref_update(struct sl_backend *be, const struct sl_update *u, int64_t count, float *weight,
			  const float *grad, float *const moment[SL_MOMENTS_MOST])
{
	if (u->kind == SL_OPTIMIZER_SGD)
		sgd(u, count, weight, grad, moment[0]);
	else
		adam(u, count, weight, grad, moment[0], moment[1]);
	return SL_OK;
}
