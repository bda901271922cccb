/* Cross-correlation, as torch.nn.Conv2d, and its backward passes. d is the dilation. With x zero outside
 * [0,H) × [0,W),
 *   out[n,oy,ox,o]   = bias[o] + Σ_{ky,kx,j} x[n, oy·s − p + ky·d, ox·s − p + kx·d, channel(o,j)] · w[o,ky,kx,j]
 * where j runs over the I/groups input channels of o's group. */
#include "tests/ref/kernels.h"

struct geometry {
	int64_t n, h, w, c; /* input [N,H,W,C] */
	int64_t oh, ow, o;  /* output [N,OH,OW,O] */
	int64_t kh, kw, s, p, d;
	int64_t per_out;   /* input channels per group */
	int64_t per_group; /* output channels per group */
	bool depthwise;    /* weight [KH,KW,C] */
};

static struct geometry geometry_of(const struct sl_op *op, const struct sl_tensor *in, const struct sl_shape *out)
{
	const struct sl_conv_attr *a = &op->u.conv;
	return (struct geometry){
		.n = in->shape.dim[0],
		.h = in->shape.dim[1],
		.w = in->shape.dim[2],
		.c = in->shape.dim[3],
		.oh = out->dim[1],
		.ow = out->dim[2],
		.o = out->dim[3],
		.kh = a->kh,
		.kw = a->kw,
		.s = a->stride,
		.p = a->pad,
		.d = a->dilation,
		.per_out = in->shape.dim[3] / a->groups,
		.per_group = out->dim[3] / a->groups,
		.depthwise = sl_op_is_depthwise(op),
	};
}

static int64_t in_at(const struct geometry *g, int64_t n, int64_t y, int64_t x, int64_t c)
{
	return ((n * g->h + y) * g->w + x) * g->c + c;
}

static int64_t out_at(const struct geometry *g, int64_t n, int64_t y, int64_t x, int64_t o)
{
	return ((n * g->oh + y) * g->ow + x) * g->o + o;
}

/* Index into the weight: [O,KH,KW,I/groups], depthwise [KH,KW,C]. */
static int64_t weight_at(const struct geometry *g, int64_t o, int64_t ky, int64_t kx, int64_t j)
{
	return g->depthwise ? (ky * g->kw + kx) * g->c + o : ((o * g->kh + ky) * g->kw + kx) * g->per_out + j;
}

static int64_t channel(const struct geometry *g, int64_t o, int64_t j)
{
	return o / g->per_group * g->per_out + j;
}

static double out_value(const struct geometry *g, const float *x, const float *w, int64_t n, int64_t oy, int64_t ox,
			int64_t o)
{
	double sum = 0;

	for (int64_t ky = 0; ky < g->kh; ky++) {
		int64_t y = oy * g->s - g->p + ky * g->d;

		if (y < 0 || y >= g->h)
			continue;
		for (int64_t kx = 0; kx < g->kw; kx++) {
			int64_t xx = ox * g->s - g->p + kx * g->d;

			if (xx < 0 || xx >= g->w)
				continue;
			for (int64_t j = 0; j < g->per_out; j++)
				sum += (double)x[in_at(g, n, y, xx, channel(g, o, j))] * w[weight_at(g, o, ky, kx, j)];
		}
	}
	return sum;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->out.shape);
	const float *x = call->in[0].data, *w = call->param[0], *bias = call->op->u.conv.bias ? call->param[1] : NULL;
	float *y = call->out.data;

	for (int64_t n = 0; n < g.n; n++)
		for (int64_t oy = 0; oy < g.oh; oy++)
			for (int64_t ox = 0; ox < g.ow; ox++)
				for (int64_t o = 0; o < g.o; o++)
					y[out_at(&g, n, oy, ox, o)] =
						(float)(out_value(&g, x, w, n, oy, ox, o) + (bias ? bias[o] : 0));
	return SL_OK;
}

/* The output position o whose tap k reads input position i (o·s − p + k·d = i), or -1. */
static int64_t out_pos(int64_t i, int64_t k, const struct geometry *g, int64_t limit)
{
	int64_t d = i + g->p - k * g->d;

	return d >= 0 && d % g->s == 0 && d / g->s < limit ? d / g->s : -1;
}

static double din_value(const struct geometry *g, const float *dout, const float *w, int64_t n, int64_t y, int64_t x,
			int64_t c)
{
	int64_t group = c / g->per_out, first = group * g->per_group, end = first + g->per_group;
	double sum = 0;

	for (int64_t ky = 0; ky < g->kh; ky++) {
		int64_t oy = out_pos(y, ky, g, g->oh);

		for (int64_t kx = 0; kx < g->kw && oy >= 0; kx++) {
			int64_t ox = out_pos(x, kx, g, g->ow);

			for (int64_t o = first; o < end && ox >= 0; o++)
				sum += (double)dout[out_at(g, n, oy, ox, o)] *
				       w[weight_at(g, o, ky, kx, c % g->per_out)];
		}
	}
	return sum;
}

static double dweight_value(const struct geometry *g, const float *dout, const float *x, int64_t o, int64_t ky,
			    int64_t kx, int64_t j)
{
	double sum = 0;

	for (int64_t n = 0; n < g->n; n++)
		for (int64_t oy = 0; oy < g->oh; oy++) {
			int64_t y = oy * g->s - g->p + ky * g->d;

			if (y < 0 || y >= g->h)
				continue;
			for (int64_t ox = 0; ox < g->ow; ox++) {
				int64_t xx = ox * g->s - g->p + kx * g->d;

				if (xx < 0 || xx >= g->w)
					continue;
				sum += (double)dout[out_at(g, n, oy, ox, o)] * x[in_at(g, n, y, xx, channel(g, o, j))];
			}
		}
	return sum;
}

static void backward_weight(const struct geometry *g, const float *dout, const float *x, float *grad)
{
	for (int64_t o = 0; o < g->o; o++)
		for (int64_t ky = 0; ky < g->kh; ky++)
			for (int64_t kx = 0; kx < g->kw; kx++)
				for (int64_t j = 0; j < g->per_out; j++)
					sl_ref_store(&grad[weight_at(g, o, ky, kx, j)], true,
						     dweight_value(g, dout, x, o, ky, kx, j));
}

static void backward_bias(const struct geometry *g, const float *dout, float *grad)
{
	for (int64_t o = 0; o < g->o; o++) {
		double sum = 0;

		for (int64_t m = 0; m < g->n * g->oh * g->ow; m++)
			sum += dout[m * g->o + o];
		sl_ref_store(&grad[o], true, sum);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->dout.shape);
	float *dx = call->din[0].data;

	if (call->grad[0])
		backward_weight(&g, call->dout.data, call->in[0].data, call->grad[0]);
	if (call->op->u.conv.bias && call->grad[1])
		backward_bias(&g, call->dout.data, call->grad[1]);
	if (!dx)
		return SL_OK;
	for (int64_t n = 0; n < g.n; n++)
		for (int64_t y = 0; y < g.h; y++)
			for (int64_t x = 0; x < g.w; x++)
				for (int64_t c = 0; c < g.c; c++)
					sl_ref_store(&dx[in_at(&g, n, y, x, c)], call->din_add[0],
						     din_value(&g, call->dout.data, call->param[0], n, y, x, c));
	return SL_OK;
}

const struct sl_kernel sl_ref_conv2d = {
	.forward = forward,
	.backward = backward,
};
