/* Pooling over k×k windows, as torch.nn.MaxPool2d and AvgPool2d(count_include_pad=True) in floor mode. k = 0
 * is the whole plane, with stride and padding 0. Backward, a scatter by definition, is written as a gather:
 *   maxpool: dx at a position is Σ dout over the windows whose first largest element lies there
 *   avgpool: dx at a position is Σ dout over the windows that contain it, divided by the window's size */
#include <math.h>

#include "tests/ref/kernels.h"

struct geometry {
	int64_t n, h, w, c; /* input [N,H,W,C] */
	int64_t oh, ow;     /* output [N,OH,OW,C] */
	int64_t kh, kw, s, p;
};

struct pos {
	int64_t y, x;
};

static struct geometry geometry_of(const struct sl_op *op, const struct sl_tensor *in, const struct sl_shape *out)
{
	const struct sl_pool_attr *a = &op->u.pool;
	const int64_t *d = in->shape.dim;

	if (!a->k)
		return (struct geometry){d[0], d[1], d[2], d[3], 1, 1, d[1], d[2], 1, 0};
	return (struct geometry){d[0], d[1], d[2], d[3], out->dim[1], out->dim[2], a->k, a->k, a->stride, a->pad};
}

static int64_t in_at(const struct geometry *g, int64_t n, int64_t y, int64_t x, int64_t c)
{
	return ((n * g->h + y) * g->w + x) * g->c + c;
}

static int64_t out_at(const struct geometry *g, int64_t n, int64_t y, int64_t x, int64_t c)
{
	return ((n * g->oh + y) * g->ow + x) * g->c + c;
}

/* The part of a window along one axis that lies inside [0, size). */
static void window(int64_t o, int64_t k, int64_t s, int64_t p, int64_t size, int64_t *begin, int64_t *end)
{
	int64_t b = o * s - p, e = b + k;

	*begin = b < 0 ? 0 : b;
	*end = e > size ? size : e;
}

/* A NaN counts as largest, so that the output shows it. */
static bool beats(float v, float best)
{
	return v > best || isnan(v);
}

static struct pos largest(const struct geometry *g, const float *x, int64_t n, int64_t oy, int64_t ox, int64_t c)
{
	int64_t y0, y1, x0, x1;
	struct pos best;

	window(oy, g->kh, g->s, g->p, g->h, &y0, &y1);
	window(ox, g->kw, g->s, g->p, g->w, &x0, &x1);
	best = (struct pos){y0, x0};
	for (int64_t y = y0; y < y1; y++)
		for (int64_t xx = x0; xx < x1; xx++)
			if (beats(x[in_at(g, n, y, xx, c)], x[in_at(g, n, best.y, best.x, c)]))
				best = (struct pos){y, xx};
	return best;
}

static double mean(const struct geometry *g, const float *x, int64_t n, int64_t oy, int64_t ox, int64_t c)
{
	int64_t y0, y1, x0, x1;
	double sum = 0;

	window(oy, g->kh, g->s, g->p, g->h, &y0, &y1);
	window(ox, g->kw, g->s, g->p, g->w, &x0, &x1);
	for (int64_t y = y0; y < y1; y++)
		for (int64_t xx = x0; xx < x1; xx++)
			sum += x[in_at(g, n, y, xx, c)];
	return sum / (double)(g->kh * g->kw);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->out.shape);
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t n = 0; n < g.n; n++)
		for (int64_t oy = 0; oy < g.oh; oy++)
			for (int64_t ox = 0; ox < g.ow; ox++)
				for (int64_t c = 0; c < g.c; c++) {
					struct pos best = largest(&g, x, n, oy, ox, c);

					y[out_at(&g, n, oy, ox, c)] = call->op->kind == SL_OP_MAXPOOL
									      ? x[in_at(&g, n, best.y, best.x, c)]
									      : (float)mean(&g, x, n, oy, ox, c);
				}
	return SL_OK;
}

/* The factor by which dout at (oy, ox) enters dx at (y, xx). */
static double share(const struct geometry *g, const float *x, bool is_max, int64_t n, int64_t oy, int64_t ox, int64_t y,
		    int64_t xx, int64_t c)
{
	int64_t dy = y - (oy * g->s - g->p), dx = xx - (ox * g->s - g->p);
	struct pos best;

	if (dy < 0 || dy >= g->kh || dx < 0 || dx >= g->kw)
		return 0;
	if (!is_max)
		return 1 / (double)(g->kh * g->kw);
	best = largest(g, x, n, oy, ox, c);
	return best.y == y && best.x == xx;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct geometry g = geometry_of(call->op, &call->in[0], &call->dout.shape);
	const float *grad = call->dout.data;

	if (!call->din[0].data)
		return SL_OK;
	for (int64_t i = 0; i < g.n * g.h * g.w * g.c; i++) {
		int64_t c = i % g.c, x = i / g.c % g.w, y = i / g.c / g.w % g.h, n = i / g.c / g.w / g.h;
		double sum = 0;

		for (int64_t oy = 0; oy < g.oh; oy++)
			for (int64_t ox = 0; ox < g.ow; ox++)
				sum += share(&g, call->in[0].data, call->op->kind == SL_OP_MAXPOOL, n, oy, ox, y, x,
					     c) *
				       grad[out_at(&g, n, oy, ox, c)];
		sl_ref_store((float *)call->din[0].data + i, call->din_add[0], sum);
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_maxpool = {
	.forward = forward,
	.backward = backward,
};
const struct sl_kernel sl_ref_avgpool = {
	.forward = forward,
	.backward = backward,
};
