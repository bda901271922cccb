/* Group norm (Wu and He, "Group normalization", 2018): over the pixels of a row and the channels of a group, n numbers,
 *   mean = Σx / n      var = Σ(x − mean)² / n      x̂ = (x − mean) / sqrt(var + eps)      out = γ·x̂ + β
 * and with g = dout·γ
 *   dβ = Σ dout      dγ = Σ dout·x̂      dx = (g − Σg / n − x̂·Σ(g·x̂) / n) / sqrt(var + eps) */
#include <math.h>

#include "tests/ref/kernels.h"

enum { GAMMA, BETA };

/* One group of one row: channel c of pixel p is number p·all + c. */
struct group {
	const float *x, *gamma, *beta;
	int64_t pixels, channels, all, at; /* at: index of the group's first value */
	double mean, inv;
};

static struct group group_of(const struct sl_op_call *call, const struct sl_shape *s, int64_t index)
{
	const struct sl_op *op = call->op;
	const int64_t groups = op->u.groupnorm.groups, all = s->dim[s->ndim - 1],
		      first = index % groups * (all / groups);
	struct group g = {.channels = all / groups, .all = all, .pixels = sl_shape_row(s) / all};

	g.at = index / groups * sl_shape_row(s) + first;
	g.x = (const float *)call->in[0].data + g.at;
	g.gamma = op->n_param ? call->param[GAMMA] + first : NULL;
	g.beta = op->n_param ? call->param[BETA] + first : NULL;
	return g;
}

static int64_t place(const struct group *g, int64_t i)
{
	return i / g->channels * g->all + i % g->channels;
}

static void measure(struct group *g, double eps)
{
	const int64_t n = g->pixels * g->channels;
	double var = 0;

	g->mean = 0;
	for (int64_t i = 0; i < n; i++)
		g->mean += g->x[place(g, i)] / (double)n;
	for (int64_t i = 0; i < n; i++)
		var += (g->x[place(g, i)] - g->mean) * (g->x[place(g, i)] - g->mean) / (double)n;
	g->inv = 1 / sqrt(var + eps);
}

static double factor(const struct group *g, int64_t i)
{
	return g->gamma ? g->gamma[i % g->channels] : 1;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_groupnorm_attr *a = &call->op->u.groupnorm;

	for (int64_t k = 0; k < call->out.shape.dim[0] * a->groups; k++) {
		struct group g = group_of(call, &call->out.shape, k);
		float *y = (float *)call->out.data + g.at;

		measure(&g, (double)a->eps);
		for (int64_t i = 0; i < g.pixels * g.channels; i++)
			y[place(&g, i)] = (float)(factor(&g, i) * (g.x[place(&g, i)] - g.mean) * g.inv +
						  (g.beta ? g.beta[i % g.channels] : 0));
	}
	return SL_OK;
}

static void backward_params(const struct sl_op_call *call, const struct group *g, const float *dy, int64_t first)
{
	for (int64_t c = 0; c < g->channels; c++) {
		double dgamma = 0, dbeta = 0;

		for (int64_t p = 0; p < g->pixels; p++) {
			dgamma += dy[p * g->all + c] * (g->x[p * g->all + c] - g->mean) * g->inv;
			dbeta += dy[p * g->all + c];
		}
		if (call->grad[GAMMA])
			call->grad[GAMMA][first + c] += (float)dgamma;
		if (call->grad[BETA])
			call->grad[BETA][first + c] += (float)dbeta;
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_groupnorm_attr *a = &call->op->u.groupnorm;

	for (int64_t k = 0; k < call->dout.shape.dim[0] * a->groups; k++) {
		struct group g = group_of(call, &call->dout.shape, k);
		const int64_t n = g.pixels * g.channels;
		const float *dy = (const float *)call->dout.data + g.at;
		float *dx = call->din[0].data ? (float *)call->din[0].data + g.at : NULL;
		double sum = 0, along = 0;

		measure(&g, (double)a->eps);
		if (call->op->n_param)
			backward_params(call, &g, dy, k % a->groups * g.channels);
		for (int64_t i = 0; i < n; i++) {
			sum += dy[place(&g, i)] * factor(&g, i) / (double)n;
			along += dy[place(&g, i)] * factor(&g, i) * (g.x[place(&g, i)] - g.mean) * g.inv / (double)n;
		}
		for (int64_t i = 0; i < n && dx; i++)
			sl_ref_store(&dx[place(&g, i)], call->din_add[0],
				     (dy[place(&g, i)] * factor(&g, i) - sum -
				      (g.x[place(&g, i)] - g.mean) * g.inv * along) *
					     g.inv);
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_groupnorm = {.forward = forward, .backward = backward};
