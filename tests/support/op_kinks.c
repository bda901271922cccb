/* Sets gradients to 0 where an op has none, or where rounding would decide on it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_run.h"

static bool near_kink(enum sl_act act, double y, double margin)
{
	if (act == SL_ACT_NONE)
		return false;
	return fabs(y) < margin || (act == SL_ACT_RELU6 && fabs(y - 6) < margin);
}

static void avoid_batchnorm(struct op_host *host, const struct op_case *c, const struct op_host_params *p,
			    double margin)
{
	int64_t channels = c->c, m = host->in_count[0] / channels;
	const float *x = host->in[0];

	for (int64_t k = 0; k < channels; k++) {
		double mean = 0, var = 0;

		for (int64_t i = 0; i < m; i++)
			mean += x[i * channels + k] / (double)m;
		for (int64_t i = 0; i < m; i++)
			var += (x[i * channels + k] - mean) * (x[i * channels + k] - mean) / (double)m;
		if (c->eval) {
			mean = p->param[2][k];
			var = p->param[3][k];
		}
		for (int64_t i = k; i < m * channels; i += channels) {
			double y = p->param[0][k] * (x[i] - mean) / sqrt(var + c->u.bn.eps) + p->param[1][k];

			if (near_kink(c->u.bn.act, y, margin))
				host->dout[i] = 0;
		}
	}
}

/* Whether the two largest values of the window that begins at (y0, x0) differ by less than `margin`. */
static bool close_window(const struct op_host *host, const struct op_case *c, int64_t n, int y0, int x0, int ch,
			 double margin)
{
	int kh = c->u.pool.k ? c->u.pool.k : c->h, kw = c->u.pool.k ? c->u.pool.k : c->w;
	double first = -INFINITY, second = -INFINITY;

	for (int y = y0 < 0 ? 0 : y0; y < y0 + kh && y < c->h; y++)
		for (int x = x0 < 0 ? 0 : x0; x < x0 + kw && x < c->w; x++) {
			double v = host->in[0][((n * c->h + y) * c->w + x) * c->c + ch];

			second = fmax(second, fmin(first, v));
			first = fmax(first, v);
		}
	return first - second < margin;
}

static void avoid_maxpool(struct op_host *host, const struct op_case *c, const struct sl_op *op, double margin)
{
	int stride = c->u.pool.k ? c->u.pool.stride : 1, pad = c->u.pool.k ? c->u.pool.pad : 0;
	int64_t oh = op->out_shape.dim[1], ow = op->out_shape.dim[2];

	for (int64_t i = 0; i < host->out_count; i++) {
		int ch = (int)(i % c->c), ox = (int)(i / c->c % ow), oy = (int)(i / c->c / ow % oh);

		if (close_window(host, c, i / c->c / ow / oh, oy * stride - pad, ox * stride - pad, ch, margin))
			host->dout[i] = 0;
	}
}

void op_avoid_kinks(struct op_host *host, const struct op_case *c, const struct sl_op *op,
		    const struct op_host_params *params, double margin, bool with_input)
{
	if (c->kind == SL_OP_BATCHNORM)
		avoid_batchnorm(host, c, params, margin);
	for (int64_t i = 0; c->kind == SL_OP_ELU && with_input && i < host->out_count; i++)
		if (fabs((double)host->in[0][i]) < margin) /* the second derivative jumps at 0 */
			host->dout[i] = 0;
	for (int64_t i = 0;
	     c->kind == SL_OP_MSE && (c->u.mse.fn == SL_MSE_L1 || c->u.mse.fn == SL_MSE_HUBER) && i < host->in_count[0];
	     i++) /* |x − t|, or its second derivative, jumps there */
		if (fabs(fabs((double)host->in[0][i] - (double)host->targets[i]) - (c->u.mse.fn == SL_MSE_HUBER)) <
		    margin)
			host->targets[i] += 4 * (float)margin;
	if (c->kind == SL_OP_MAXPOOL && with_input)
		avoid_maxpool(host, c, op, margin);
	for (int64_t i = 0; op_is_hard(c->kind) && with_input && i < host->out_count; i++)
		if (fabs(fabs((double)host->in[0][i]) - 3) < margin)
			host->dout[i] = 0;
	for (int64_t i = 0; c->kind == SL_OP_LEAKYRELU && with_input && i < host->out_count; i++)
		if (fabs((double)host->in[0][i]) < margin)
			host->dout[i] = 0;
	for (int64_t i = 0; c->kind == SL_OP_ACT && with_input && i < host->out_count; i++)
		if (near_kink(c->u.act, host->in[0][i], margin))
			host->dout[i] = 0;
}
