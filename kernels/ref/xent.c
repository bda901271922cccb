/* Softmax cross-entropy, torch.nn.CrossEntropyLoss before its mean: with p = softmax(logits),
 *   loss_sum = Σ_n −log p[n,label[n]]      dlogits[n,k] = loss_scale · (p[n,k] − (k == label[n])) */
#include <math.h>

#include "kernels/ref/kernels.h"

/* Saved: p as double [N,K]; the logits are not kept for backward. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes = (struct sl_op_sizes){.saved_bytes = (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(double)};
	return SL_OK;
}

/* Fills p[K]; returns -log p[label]. */
static double softmax(double *p, const float *logit, int classes, int label, int *largest)
{
	double sum = 0;
	int top = 0;

	for (int k = 1; k < classes; k++)
		if (logit[k] > logit[top])
			top = k;
	for (int k = 0; k < classes; k++) {
		p[k] = exp((double)logit[k] - logit[top]);
		sum += p[k];
	}
	for (int k = 0; k < classes; k++)
		p[k] /= sum;
	*largest = top;
	return log(sum) - ((double)logit[label] - logit[top]);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	int64_t rows = call->in[0].shape.dim[0], classes = call->op->u.xent.classes, correct = 0;
	const float *logits = call->in[0].data;
	double *p = call->saved, loss = 0;

	for (int64_t n = 0; n < rows; n++) {
		int largest;

		loss += softmax(p + n * classes, logits + n * classes, (int)classes, call->labels[n], &largest);
		correct += largest == call->labels[n];
	}
	*call->loss_sum = loss;
	*call->correct = correct;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	int64_t rows = call->din[0].shape.dim[0], classes = call->op->u.xent.classes;
	const double *p = call->saved;
	float *dx = call->din[0].data;

	for (int64_t n = 0; n < rows && dx; n++)
		for (int64_t k = 0; k < classes; k++)
			sl_ref_store(&dx[n * classes + k], call->din_add[0],
				     call->loss_scale * (p[n * classes + k] - (k == call->labels[n])));
	return SL_OK;
}

const struct sl_kernel sl_ref_xent = {
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
};
