/* Softmax cross-entropy, torch.nn.CrossEntropyLoss(label_smoothing=ε, ignore_index) before its mean: with
 * p = softmax(logits) and the target t[n,k] = (1 − ε)·(k == label[n]) + ε/K,
 *   loss_sum = Σ_n Σ_k −t[n,k]·log p[n,k]      dlogits[n,k] = loss_scale · (p[n,k] − t[n,k])
 * over the rows n that are not ignored; the others have dlogits 0. */
#include <math.h>

#include "kernels/ref/kernels.h"

/* Saved: p as double [N,K]; the logits are not kept for backward. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes = (struct sl_op_sizes){.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(double)};
	return SL_OK;
}

static bool is_ignored(const struct sl_op_call *call, int64_t n)
{
	return call->rule.ignores && call->labels[n] == call->rule.ignored;
}

/* Fills p[K]; returns the row's loss. */
static double softmax(double *p, const float *logit, int classes, int label, double smoothing, int *largest)
{
	double sum = 0, all = 0;
	int top = 0;

	for (int k = 1; k < classes; k++)
		if (logit[k] > logit[top])
			top = k;
	for (int k = 0; k < classes; k++) {
		p[k] = exp((double)logit[k] - logit[top]);
		sum += p[k];
		all += (double)logit[k] - logit[top];
	}
	for (int k = 0; k < classes; k++)
		p[k] /= sum;
	*largest = top;
	return log(sum) - (1 - smoothing) * ((double)logit[label] - logit[top]) -
	       (smoothing > 0 ? smoothing / classes * all : 0);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	int64_t rows = call->in[0].shape.dim[0], classes = call->op->u.xent.classes, correct = 0;
	const float *logits = call->in[0].data;
	double *p = call->saved, loss = 0;

	for (int64_t n = 0; n < rows; n++) {
		int largest;

		if (is_ignored(call, n))
			continue;
		loss += softmax(p + n * classes, logits + n * classes, (int)classes, call->labels[n],
				(double)call->rule.smoothing, &largest);
		correct += largest == call->labels[n];
	}
	*call->loss_sum = loss;
	*call->correct = correct;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	int64_t rows = call->din[0].shape.dim[0], classes = call->op->u.xent.classes;
	const double *p = call->saved, smoothing = (double)call->rule.smoothing;
	float *dx = call->din[0].data;

	for (int64_t n = 0; n < rows && dx; n++)
		for (int64_t k = 0; k < classes; k++) {
			double target = (1 - smoothing) * (k == call->labels[n]) + smoothing / (double)classes;

			sl_ref_store(&dx[n * classes + k], call->din_add[0],
				     is_ignored(call, n) ? 0 : call->loss_scale * (p[n * classes + k] - target));
		}
	return SL_OK;
}

const struct sl_kernel sl_ref_xent = {
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
};
