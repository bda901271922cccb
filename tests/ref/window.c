/* Neighbouring slices of volumes, side by side in the channels (struct sl_window_attr). */
#include "tests/ref/kernels.h"

struct volumes {
	int64_t n, d, out, plane, c; /* d slices of `plane` pixels and c channels; `out` slices of k·c channels */
	const struct sl_window_attr *a;
};

static struct volumes volumes_of(const struct sl_op_call *call, const struct sl_shape *in, const struct sl_shape *out)
{
	const struct sl_op *op = call->op;
	const struct sl_window_attr *a = &op->u.window;
	const struct sl_shape *small = a->back ? out : in, *wide = a->back ? in : out;
	const int64_t h = in->dim[1] / op->slices;

	return (struct volumes){in->dim[0], small->dim[1] / h, wide->dim[1] / h, h * in->dim[2], small->dim[3], a};
}

/* Element e of the wide side is this element of the small side; -1: it is outside. */
static int64_t place(const struct volumes *v, int64_t e)
{
	const int64_t j = e % v->c, i = e / v->c % v->a->k, p = e / v->c / v->a->k % v->plane;
	const int64_t o = e / v->c / v->a->k / v->plane % v->out, n = e / v->c / v->a->k / v->plane / v->out;
	const int64_t at = o * v->a->stride - v->a->pad + i * v->a->dilation;

	return at < 0 || at >= v->d ? -1 : ((n * v->d + at) * v->plane + p) * v->c + j;
}

static void spread(const struct volumes *v, float *wide, const float *small, bool add)
{
	for (int64_t e = 0; e < v->n * v->out * v->plane * v->a->k * v->c; e++) {
		const int64_t at = place(v, e);

		sl_ref_store(&wide[e], add, at < 0 ? 0 : (double)small[at]);
	}
}

static void collect(const struct volumes *v, float *small, const float *wide, bool add)
{
	for (int64_t e = 0; !add && e < v->n * v->d * v->plane * v->c; e++)
		small[e] = 0;
	for (int64_t e = 0; e < v->n * v->out * v->plane * v->a->k * v->c; e++) {
		const int64_t at = place(v, e);

		if (at >= 0)
			small[at] += wide[e];
	}
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct volumes v = volumes_of(call, &call->in[0].shape, &call->out.shape);

	(v.a->back ? collect : spread)(&v, call->out.data, call->in[0].data, false);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct volumes v = volumes_of(call, &call->din[0].shape, &call->dout.shape);

	if (call->din[0].data)
		(v.a->back ? spread : collect)(&v, call->din[0].data, call->dout.data, call->din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_ref_window = {.forward = forward, .backward = backward};
