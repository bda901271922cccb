/* Softmax cross-entropy. `saved`: softmax − one-hot [N, K], so that backward only scales it. */
#include <math.h>

#include "kernels/cpu/impl.h"

struct job {
	const struct sl_op_call *call;
	const float *x;
	float *grad;  /* [N, K] */
	double *loss; /* [N] */
	int classes;
};

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	int64_t rows = op->in_shape[0].dim[0];

	(void)be;
	(void)state;
	(void)fail;
	sizes->saved_bytes = (size_t)(rows * op->u.xent.classes) * sizeof(float);
	sizes->workspace_bytes = (size_t)rows * sizeof(double);
	return SL_OK;
}

static void row(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	const float *x = j->x + n * j->classes;
	float *g = j->grad + n * j->classes;
	int label = j->call->labels[n];
	float top = x[0];
	double total = 0;

	(void)worker;
	for (int k = 1; k < j->classes; k++)
		top = x[k] > top ? x[k] : top;
	for (int k = 0; k < j->classes; k++) {
		g[k] = expf(x[k] - top);
		total += (double)g[k];
	}
	for (int k = 0; k < j->classes; k++)
		g[k] = (float)((double)g[k] / total);
	g[label] -= 1.0f;
	j->loss[n] = log(total) - ((double)x[label] - (double)top);
}

static int64_t best_of(const float *x, int classes)
{
	int best = 0;

	for (int k = 1; k < classes; k++)
		if (x[k] > x[best])
			best = k;
	return best;
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	struct job j = {call, in[0].data, call->saved, call->workspace, op->u.xent.classes};
	int64_t rows = in[0].shape.dim[0], correct = 0;
	double loss = 0;

	(void)state;
	(void)out;
	sl_pool_run(be->pool, rows, row, &j);
	for (int64_t n = 0; n < rows; n++) {
		loss += j.loss[n];
		correct += best_of(j.x + n * j.classes, j.classes) == call->labels[n];
	}
	*call->loss_sum = loss;
	*call->correct = correct;
	return SL_OK;
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	int64_t rows = din[0].shape.dim[0];

	(void)state;
	(void)in;
	(void)out;
	(void)dout;
	if (din[0].data != NULL)
		sl_cpu_simd_of(be)->scale(din[0].data, call->saved, call->loss_scale, rows * op->u.xent.classes,
					  din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_cpu_xent = {prepare, NULL, forward, backward, NULL};
