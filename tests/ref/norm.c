/* Norms over the last dimension, F values at a time. Layer norm (Ba, Kiros and Hinton, "Layer normalization", 2016):
 *   mean = Σx / F      var = Σ(x − mean)² / F      x̂ = (x − mean) / sqrt(var + eps)      out = γ·x̂ + β
 * RMS norm (Zhang and Sennrich, "Root mean square layer normalization", 2019) has mean 0 and no β. With `plus` its γ
 * is 1 + the weight. With g = dout·γ:
 *   dβ = Σ dout      dγ = Σ dout·x̂      dx = (g − Σg / F − x̂·Σ(g·x̂) / F) / sqrt(var + eps)
 * RMS norm lacks the term Σg / F. */
#include <math.h>

#include "tests/ref/kernels.h"

enum { GAMMA, BETA };

struct measures {
	double mean, inv;
};

/* Saved: struct measures [rows]. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes.saved_bytes =
		(size_t)(sl_shape_count(&p->op->in_shape[0]) / sl_op_normed(p->op)) * sizeof(struct measures);
	return SL_OK;
}

static double weight_of(const struct sl_op_call *call, int64_t i)
{
	return (double)call->param[GAMMA][i] + call->op->u.norm.plus;
}

static struct measures measure(const struct sl_op *op, const float *x, int64_t f)
{
	double mean = 0, var = 0;

	for (int64_t i = 0; i < f && op->kind == SL_OP_LAYERNORM; i++)
		mean += x[i] / (double)f;
	for (int64_t i = 0; i < f; i++)
		var += (x[i] - mean) * (x[i] - mean) / (double)f;
	return (struct measures){mean, 1 / sqrt(var + op->u.norm.eps)};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	int64_t f = sl_op_normed(op), rows = sl_shape_count(&call->in[0].shape) / f;
	const float *beta = op->n_param > 1 ? call->param[BETA] : NULL;

	for (int64_t n = 0; n < rows; n++) {
		const float *x = (const float *)call->in[0].data + n * f;
		float *y = (float *)call->out.data + n * f;
		struct measures m = measure(op, x, f);

		((struct measures *)call->saved)[n] = m;
		for (int64_t i = 0; i < f; i++)
			y[i] = (float)(weight_of(call, i) * (x[i] - m.mean) * m.inv + (beta ? beta[i] : 0));
	}
	return SL_OK;
}

static void backward_row(const struct sl_op_call *call, int64_t n, int64_t f)
{
	const float *x = (const float *)call->in[0].data + n * f, *dy = (const float *)call->dout.data + n * f;
	float *dx = (float *)call->din[0].data + n * f;
	struct measures m = ((const struct measures *)call->saved)[n];
	double sum = 0, along = 0;

	for (int64_t i = 0; i < f; i++) {
		sum += (double)dy[i] * weight_of(call, i) / (double)f;
		along += dy[i] * weight_of(call, i) * (x[i] - m.mean) * m.inv / (double)f;
	}
	if (call->op->kind == SL_OP_RMSNORM)
		sum = 0;
	for (int64_t i = 0; i < f; i++)
		sl_ref_store(&dx[i], call->din_add[0],
			     m.inv * ((double)dy[i] * weight_of(call, i) - sum - (x[i] - m.mean) * m.inv * along));
}

static void backward_params(const struct sl_op_call *call, int64_t rows, int64_t f)
{
	const float *x = call->in[0].data, *dy = call->dout.data;

	for (int64_t i = 0; i < f; i++) {
		double dgamma = 0, dbeta = 0;

		for (int64_t n = 0; n < rows; n++) {
			struct measures m = ((const struct measures *)call->saved)[n];

			dgamma += dy[n * f + i] * (x[n * f + i] - m.mean) * m.inv;
			dbeta += dy[n * f + i];
		}
		if (call->grad[GAMMA])
			sl_ref_store(&call->grad[GAMMA][i], true, dgamma);
		if (call->op->n_param > 1 && call->grad[BETA])
			sl_ref_store(&call->grad[BETA][i], true, dbeta);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	int64_t f = sl_op_normed(call->op), rows = sl_shape_count(&call->in[0].shape) / f;

	backward_params(call, rows, f);
	for (int64_t n = 0; n < rows && call->din[0].data; n++)
		backward_row(call, n, f);
	return SL_OK;
}

const struct sl_kernel sl_ref_layernorm = {.prepare = prepare, .forward = forward, .backward = backward};
const struct sl_kernel sl_ref_rmsnorm = {.prepare = prepare, .forward = forward, .backward = backward};
