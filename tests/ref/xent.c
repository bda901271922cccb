/* Softmax cross-entropy: torch.nn.CrossEntropyLoss(label_smoothing=ε, ignore_index) before its mean.
 *   p = softmax(logits)
 *   t[n,k] = w[k] · ((1 − ε)·(s[n]·(k == label[n]) + (1 − s[n])·(k == other[n])) + ε/K)
 *   loss_sum = Σ_n Σ_k −t[n,k]·log p[n,k]      dlogits[n,k] = loss_scale · (p[n,k]·Σ_j t[n,j] − t[n,k])
 * s[n] is 1 except in mixed rows; w[k] is 1 without weights. Ignored rows n have no part in the sum, and dlogits 0.
 * The soft Dice loss is that of monai.losses.DiceLoss(to_onehot_y=True, softmax=True). It is summed over a
 * picture's pixels that are not ignored. With e = smooth_nr = smooth_dr = 1e-5:
 *   y[n,k] = (k == label[n])      D = 1 − 1/K Σ_k a[k] / b[k]      a[k] = e + 2·Σ_n p·y      b[k] = e + Σ_n (p + y)
 *   d[n,k] = −1/K · (2·y[n,k] − a[k] / b[k]) / b[k]
 *   dlogits[n,k] = loss_scale · p[n,k]·(d[n,k] − Σ_j p[n,j]·d[n,j])
 * loss_sum has rule.dice · D of each picture, and dlogits has rule.dice times the above. */
#include <math.h>

#include "tests/ref/kernels.h"

/* Saved: p as double [N,K]; logits are not kept for backward. With SL_PRE_LINEAR, p of one row is in the workspace. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	const bool here = p->form.pre == SL_PRE_LINEAR;

	p->sizes = (struct sl_op_sizes){
		.workspace_bytes = 3 * (size_t)p->op->u.xent.classes * sizeof(double),
		.saved_bytes = here ? 0 : (size_t)sl_shape_count(&p->op->in_shape[0]) * sizeof(double),
	};
	return SL_OK;
}

static bool is_ignored(const struct sl_op_call *call, int64_t n)
{
	return call->rule.ignores && call->labels[n] == call->rule.ignored;
}

static double target_of(const struct sl_op_call *call, int64_t n, int64_t k, int64_t classes)
{
	const double smoothing = (double)call->rule.smoothing,
		     share = call->rule.other ? (double)call->rule.share[n] : 1;
	double target = k == call->labels[n] ? share : 0;

	if (call->rule.other && k == call->rule.other[n])
		target += 1 - share;
	target = (1 - smoothing) * target + smoothing / (double)classes;
	return call->rule.weight ? (double)call->rule.weight[k] * target : target;
}

/* Σ_j t[n,j] */
static double targets_of(const struct sl_op_call *call, int64_t n, int64_t classes)
{
	double sum = 0;

	for (int64_t k = 0; k < classes && call->rule.weight; k++)
		sum += target_of(call, n, k, classes);
	return call->rule.weight ? sum : 1;
}

/* Fills p[K]; returns the row's loss. */
static double softmax(const struct sl_op_call *call, int64_t n, double *p, const float *logit, int classes,
		      int *largest)
{
	double sum = 0, at_target = 0;
	int top = 0;

	for (int k = 1; k < classes; k++)
		if (logit[k] > logit[top])
			top = k;
	for (int k = 0; k < classes; k++) {
		p[k] = exp((double)logit[k] - logit[top]);
		sum += p[k];
		at_target += target_of(call, n, k, classes) * ((double)logit[k] - logit[top]);
	}
	for (int k = 0; k < classes; k++)
		p[k] /= sum;
	*largest = top;
	return log(sum) * targets_of(call, n, classes) - at_target;
}

/* Fills a and b [K] of the picture whose first pixel is `first`, from p [N, K]; returns D. */
static double overlap(const struct sl_op_call *call, const double *p, int64_t first, int64_t pixels, double *a,
		      double *b)
{
	const int64_t classes = call->op->u.xent.classes;
	const int from = sl_xent_first(call->op->u.xent.fn);
	double sum = 0;

	for (int64_t k = 0; k < classes; k++) {
		a[k] = b[k] = 1e-5;
		for (int64_t n = first; n < first + pixels; n++) {
			const bool is = k == call->labels[n];

			a[k] += is_ignored(call, n) ? 0 : 2 * p[n * classes + k] * is;
			b[k] += is_ignored(call, n) ? 0 : p[n * classes + k] + is;
		}
		sum += k < from ? 0 : a[k] / b[k];
	}
	return 1 - sum / (double)(classes - from);
}

/* Returns the sum of all pictures' Dice losses; adds their gradient to dx [N, K] unless dx is NULL. */
static double dice(const struct sl_op_call *call, int64_t pictures, int64_t pixels, float *dx)
{
	const int64_t classes = call->op->u.xent.classes;
	const int from = sl_xent_first(call->op->u.xent.fn);
	double *a = call->workspace, *b = a + classes, *d = b + classes, loss = 0;

	for (int64_t first = 0; first < pictures * pixels; first += pixels) {
		loss += overlap(call, call->saved, first, pixels, a, b);
		for (int64_t n = first; n < first + pixels && dx; n++) {
			const double *p = (const double *)call->saved + n * classes;
			double mean = 0;

			for (int64_t k = 0; k < classes; k++) {
				d[k] = k < from ? 0
						: (a[k] / b[k] - 2 * (k == call->labels[n])) / b[k] /
							  (double)(classes - from);
				mean += p[k] * d[k];
			}
			for (int64_t k = 0; k < classes && !is_ignored(call, n); k++)
				dx[n * classes + k] += (float)((double)call->loss_scale * (double)call->rule.dice *
							       p[k] * (d[k] - mean));
		}
	}
	if (call->dice_sum)
		*call->dice_sum = loss;
	return loss * (double)call->rule.dice;
}

/* The gradient of cross-entropy for row n: dx [K], from p [K]. */
static void slope(const struct sl_op_call *call, int64_t n, const double *p, float *dx, bool add)
{
	const bool none = is_ignored(call, n) || !sl_xent_has_entropy(call->op->u.xent.fn);
	const int64_t classes = call->op->u.xent.classes;
	const double all = none ? 0 : targets_of(call, n, classes);

	for (int64_t k = 0; k < classes; k++)
		sl_ref_store(&dx[k], add, none ? 0 : call->loss_scale * (p[k] * all - target_of(call, n, k, classes)));
}

static enum sl_err forward(const struct sl_op_call *call)
{
	int64_t rows = sl_xent_rows(&call->in[0].shape), classes = call->op->u.xent.classes, correct = 0;
	const bool here = call->form.pre == SL_PRE_LINEAR;
	float *logits = call->in[0].data;
	double loss = 0;

	for (int64_t n = 0; n < rows; n++) {
		double *p = here ? call->workspace : (double *)call->saved + n * classes;
		int largest;

		if (!is_ignored(call, n)) {
			loss += softmax(call, n, p, logits + n * classes, (int)classes, &largest);
			correct += largest == call->labels[n];
		}
		if (here)
			slope(call, n, p, logits + n * classes, false);
	}
	if (!sl_xent_has_entropy(call->op->u.xent.fn))
		loss = 0;
	if (call->op->u.xent.fn != SL_XENT_ENTROPY)
		loss += dice(call, call->in[0].shape.dim[0], rows / call->in[0].shape.dim[0], NULL);
	*call->loss_sum = loss;
	*call->correct = correct;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	int64_t rows = sl_xent_rows(&call->din[0].shape), classes = call->op->u.xent.classes;
	const double *p = call->saved;
	float *dx = call->din[0].data;

	for (int64_t n = 0; n < rows && dx; n++)
		slope(call, n, p + n * classes, dx + n * classes, call->din_add[0]);
	if (dx && call->op->u.xent.fn != SL_XENT_ENTROPY)
		dice(call, call->din[0].shape.dim[0], rows / call->din[0].shape.dim[0], dx);
	return SL_OK;
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	return form.pre == SL_PRE_LINEAR && op->u.xent.fn == SL_XENT_ENTROPY;
}

const struct sl_kernel sl_ref_xent = {
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.takes = takes,
};
