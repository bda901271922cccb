/* torch.optim.SGD as struct sl_sgd writes it; every value is computed in double and rounded when stored. */
#include "kernels/ref/kernels.h"

enum sl_err sl_ref_sgd(struct sl_backend *be, const struct sl_sgd *sgd, int64_t count, float *weight, float *grad,
		       float *momentum)
{
	double lr = sgd->lr, mu = sgd->momentum, wd = sgd->weight_decay;

	(void)be;
	for (int64_t i = 0; i < count; i++) {
		double g = grad[i] + wd * weight[i];
		double m = sgd->first ? g : mu * momentum[i] + g;

		momentum[i] = (float)m;
		g = sgd->nesterov ? g + mu * m : m;
		weight[i] = (float)(weight[i] - lr * g);
	}
	return SL_OK;
}
