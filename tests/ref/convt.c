/* torch.nn.ConvTranspose2d: every input pixel spreads its window over the output. out starts as bias[o], then
 *   out[n, y·s − p + ky, x·s − p + kx, o] += x[n,y,x,i] · w[i,ky,kx,o]
 * if inside. Here each output sums, in double, the taps that reach it. */
#include "tests/ref/kernels.h"

struct geometry {
	int64_t n, h, w, c; /* input [N,H,W,I] */
	int64_t oh, ow, o;  /* output [N,OH,OW,O] */
	int64_t kh, kw, s, p;
	int64_t in, each; /* channels of a group */
};

static struct geometry geometry_of(const struct sl_op *op, const struct sl_tensor *in, const struct sl_shape *out)
{
	const int64_t *d = in->shape.dim, *e = out->dim;
	const struct sl_convt_attr *a = &op->u.convt;

	return (struct geometry){d[0],
				 d[1],
				 d[2],
				 d[3],
				 e[1],
				 e[2],
				 e[3],
				 a->kh,
				 a->kw,
				 a->stride,
				 a->pad,
				 a->in_c / a->groups,
				 a->out_c / a->groups};
}

/* The input position i whose tap k reaches output position o (i·s − p + k = o), or -1. */
static int64_t in_pos(int64_t o, int64_t k, const struct geometry *g, int64_t limit)
{
	int64_t d = o + g->p - k;

	return d >= 0 && d % g->s == 0 && d / g->s < limit ? d / g->s : -1;
}

static int64_t in_at(const struct geometry *g, int64_t n, int64_t y, int64_t x)
{
	return ((n * g->h + y) * g->w + x) * g->c;
}

static int64_t out_at(const struct geometry *g, int64_t n, int64_t y, int64_t x)
{
	return ((n * g->oh + y) * g->ow + x) * g->o;
}

/* The weight from input channel i to output channel o, of the same group: [I,KH,KW,O/groups] or, depthwise, [KH,KW,C].
 */
static int64_t weight_at(const struct geometry *g, int64_t i, int64_t ky, int64_t kx, int64_t o)
{
	if (g->c > 1 && g->in == 1 && g->each == 1)
		return (ky * g->kw + kx) * g->c + i;
	return ((i * g->kh + ky) * g->kw + kx) * g->each + o % g->each;
}

static double out_value(const struct geometry *g, const float *x, const float *w, int64_t n, int64_t oy, int64_t ox,
			int64_t o)
{
	double sum = 0;

	for (int64_t ky = 0; ky < g->kh; ky++) {
		int64_t y = in_pos(oy, ky, g, g->h);

		for (int64_t kx = 0; kx < g->kw && y >= 0; kx++) {
			int64_t xx = in_pos(ox, kx, g, g->w);

			for (int64_t i = o / g->each * g->in; i < (o / g->each + 1) * g->in && xx >= 0; i++)
				sum += (double)x[in_at(g, n, y, xx) + i] * w[weight_at(g, i, ky, kx, o)];
		}
	}
	return sum;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->out.shape);
	const float *bias = call->op->u.convt.bias ? call->param[1] : NULL;
	float *y = call->out.data;

	for (int64_t n = 0; n < g.n; n++)
		for (int64_t oy = 0; oy < g.oh; oy++)
			for (int64_t ox = 0; ox < g.ow; ox++)
				for (int64_t o = 0; o < g.o; o++)
					y[out_at(&g, n, oy, ox) + o] =
						(float)(out_value(&g, call->in[0].data, call->param[0], n, oy, ox, o) +
							(bias ? bias[o] : 0));
	return SL_OK;
}

/* The output row or column that tap k of input position i reaches, or -1 if it is cut off. */
static int64_t under(int64_t i, int64_t k, const struct geometry *g, int64_t limit)
{
	int64_t o = i * g->s - g->p + k;

	return o >= 0 && o < limit ? o : -1;
}

static double din_value(const struct geometry *g, const float *dout, const float *w, int64_t n, int64_t y, int64_t x,
			int64_t i)
{
	double sum = 0;

	for (int64_t ky = 0; ky < g->kh; ky++) {
		int64_t oy = under(y, ky, g, g->oh);

		for (int64_t kx = 0; kx < g->kw && oy >= 0; kx++) {
			int64_t ox = under(x, kx, g, g->ow);

			for (int64_t o = i / g->in * g->each; o < (i / g->in + 1) * g->each && ox >= 0; o++)
				sum += (double)dout[out_at(g, n, oy, ox) + o] * w[weight_at(g, i, ky, kx, o)];
		}
	}
	return sum;
}

static double dweight_value(const struct geometry *g, const float *dout, const float *x, int64_t i, int64_t ky,
			    int64_t kx, int64_t o)
{
	double sum = 0;

	for (int64_t n = 0; n < g->n; n++)
		for (int64_t y = 0; y < g->h; y++) {
			int64_t oy = under(y, ky, g, g->oh);

			for (int64_t xx = 0; xx < g->w && oy >= 0; xx++) {
				int64_t ox = under(xx, kx, g, g->ow);

				if (ox >= 0)
					sum += (double)dout[out_at(g, n, oy, ox) + o] * x[in_at(g, n, y, xx) + i];
			}
		}
	return sum;
}

static void backward_params(const struct geometry *g, const struct sl_op_call *call)
{
	const float *dout = call->dout.data, *x = call->in[0].data;
	const bool bias = call->op->u.convt.bias && call->grad[1];

	for (int64_t i = 0; i < g->c && call->grad[0]; i++)
		for (int64_t ky = 0; ky < g->kh; ky++)
			for (int64_t kx = 0; kx < g->kw; kx++)
				for (int64_t o = i / g->in * g->each; o < (i / g->in + 1) * g->each; o++)
					sl_ref_store(&call->grad[0][weight_at(g, i, ky, kx, o)], true,
						     dweight_value(g, dout, x, i, ky, kx, o));
	for (int64_t o = 0; o < g->o && bias; o++) {
		double sum = 0;

		for (int64_t m = 0; m < g->n * g->oh * g->ow; m++)
			sum += dout[m * g->o + o];
		sl_ref_store(&call->grad[1][o], true, sum);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->dout.shape);
	float *dx = call->din[0].data;

	backward_params(&g, call);
	for (int64_t n = 0; n < g.n && dx; n++)
		for (int64_t y = 0; y < g.h; y++)
			for (int64_t x = 0; x < g.w; x++)
				for (int64_t i = 0; i < g.c; i++)
					sl_ref_store(&dx[in_at(&g, n, y, x) + i], call->din_add[0],
						     din_value(&g, call->dout.data, call->param[0], n, y, x, i));
	return SL_OK;
}

const struct sl_kernel sl_ref_convt2d = {
	.forward = forward,
	.backward = backward,
};
