/* Batch normalisation (Ioffe and Szegedy, "Batch normalization", 2015), per channel over the M = N·H·W values of one
 * chunk, then the fused activation:
 *   mean = Σx / M      var = Σ(x − mean)² / M      x̂ = (x − mean) / sqrt(var + eps)      out = act(γ·x̂ + β)
 * and with g = dout · act'(γ·x̂ + β):
 *   dβ = Σg      dγ = Σ g·x̂      dx = γ / sqrt(var + eps) · (g − dβ/M − x̂·dγ/M)
 * With training = false mean and var are the running ones, constants: dx = γ / sqrt(var + eps) · g.
 * Commit, as torch: running = (1 − m)·running + m·batch, with the unbiased variance Σ(x − mean)² / (M − 1). */
#include <math.h>

#include "tests/ref/kernels.h"

enum { GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR };

struct channel_stats {
	double mean, var; /* var is the biased one */
};

/* Saved: struct channel_stats [C]. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes = (struct sl_op_sizes){.saved_bytes = (size_t)p->op->u.bn.c * sizeof(struct channel_stats)};
	return SL_OK;
}

static struct channel_stats measure(const float *x, int64_t m, int64_t c, int64_t channel)
{
	struct channel_stats s = {0};

	for (int64_t i = 0; i < m; i++)
		s.mean += x[i * c + channel];
	s.mean /= (double)m;
	for (int64_t i = 0; i < m; i++)
		s.var += (x[i * c + channel] - s.mean) * (x[i * c + channel] - s.mean);
	s.var /= (double)m;
	return s;
}

static struct channel_stats stats_of(const struct sl_op_call *call, int64_t channel)
{
	if (call->training)
		return ((const struct channel_stats *)call->saved)[channel];
	return (struct channel_stats){call->param[RUNNING_MEAN][channel], call->param[RUNNING_VAR][channel]};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	int64_t c = op->u.bn.c, m = sl_shape_count(&call->in[0].shape) / c;
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t k = 0; k < c; k++) {
		struct channel_stats *saved = call->saved;

		if (call->training)
			saved[k] = measure(x, m, c, k);

		struct channel_stats s = stats_of(call, k);
		double inv = 1 / sqrt(s.var + op->u.bn.eps);

		for (int64_t i = k; i < m * c; i += c)
			y[i] = (float)sl_ref_act_value(op->u.bn.act, call->param[GAMMA][k] * (x[i] - s.mean) * inv +
									     call->param[BETA][k]);
	}
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	int64_t c = op->u.bn.c, m = sl_shape_count(&call->in[0].shape) / c;
	const float *x = call->in[0].data, *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t k = 0; k < c; k++) {
		struct channel_stats s = stats_of(call, k);
		double inv = 1 / sqrt(s.var + op->u.bn.eps), gamma = call->param[GAMMA][k], beta = call->param[BETA][k];
		double dbeta = 0, dgamma = 0;

		for (int64_t i = k; i < m * c; i += c) {
			double xhat = (x[i] - s.mean) * inv;
			double g = dy[i] * sl_ref_act_slope(op->u.bn.act, gamma * xhat + beta);

			dbeta += g;
			dgamma += g * xhat;
		}
		if (call->grad[GAMMA])
			sl_ref_store(&call->grad[GAMMA][k], true, dgamma);
		if (call->grad[BETA])
			sl_ref_store(&call->grad[BETA][k], true, dbeta);
		for (int64_t i = k; i < m * c && dx; i += c) {
			double xhat = (x[i] - s.mean) * inv;
			double g = dy[i] * sl_ref_act_slope(op->u.bn.act, gamma * xhat + beta);

			if (call->training)
				g -= (dbeta + xhat * dgamma) / (double)m;
			sl_ref_store(&dx[i], call->din_add[0], gamma * inv * g);
		}
	}
	return SL_OK;
}

static enum sl_err commit(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const struct channel_stats *saved = call->saved;
	int64_t m = sl_shape_count(&call->in[0].shape) / op->u.bn.c;
	double momentum = op->u.bn.momentum;
	double unbias = m > 1 ? (double)m / (double)(m - 1) : 1;

	for (int k = 0; k < op->u.bn.c; k++) {
		float *mean = &call->param[RUNNING_MEAN][k], *var = &call->param[RUNNING_VAR][k];

		*mean = (float)((1 - momentum) * *mean + momentum * saved[k].mean);
		*var = (float)((1 - momentum) * *var + momentum * saved[k].var * unbias);
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_batchnorm = {
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.commit = commit,
};
