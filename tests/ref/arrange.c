/* Ops that rearrange values: permute, resample (struct sl_resample_attr), and repeat, which copies
 * a parameter to every row. */
#include "common/graph/taps.h"
#include "tests/ref/kernels.h"

/* y [outer, c, b, d] = x [outer, b, c, d] with the middle dimensions swapped */
static void permute(float *y, bool add, const float *x, int64_t n, int64_t b, int64_t c, int64_t d)
{
	for (int64_t i = 0; i < n && y; i++) {
		const int64_t o = i / (b * c * d), at_c = i / (b * d) % c, at_b = i / d % b;

		sl_ref_store(&y[i], add, x[((o * b + at_b) * c + at_c) * d + i % d]);
	}
}

static int64_t inner_of(const struct sl_op *op)
{
	const struct sl_permute_attr *a = &op->u.permute;

	return sl_shape_row(&op->in_shape[0]) / a->outer / a->b / a->c;
}

static enum sl_err permute_forward(const struct sl_op_call *call)
{
	const struct sl_permute_attr *a = &call->op->u.permute;

	permute(call->out.data, false, call->in[0].data, sl_shape_count(&call->out.shape), a->b, a->c,
		inner_of(call->op));
	return SL_OK;
}

static enum sl_err permute_backward(const struct sl_op_call *call)
{
	const struct sl_permute_attr *a = &call->op->u.permute;

	permute(call->din[0].data, call->din_add[0], call->dout.data, sl_shape_count(&call->dout.shape), a->c, a->b,
		inner_of(call->op));
	return SL_OK;
}

/* The shapes of a resample: x [outer, n, inner], y [outer, m, inner]. */
struct axis {
	int64_t outer, n, m, inner;
};

static struct axis axis_of(const struct sl_op *op, const struct sl_shape *out)
{
	const struct sl_resample_attr *a = &op->u.resample;
	struct axis x = {.n = op->in_shape[0].dim[a->axis], .m = a->size, .inner = sl_op_inner(out, a->axis + 1)};

	x.outer = sl_shape_count(out) / x.m / x.inner;
	return x;
}

static double weight_of(struct sl_taps t, int64_t j)
{
	return j < t.from || j >= t.from + t.count ? 0 : j == t.from ? t.first : t.rest;
}

static enum sl_err resample_forward(const struct sl_op_call *call)
{
	const struct axis x = axis_of(call->op, &call->out.shape);
	const float *in = call->in[0].data;
	float *out = call->out.data;

	for (int64_t k = 0; k < x.outer * x.m * x.inner; k++) {
		const struct sl_taps t = sl_taps_of(&call->op->u.resample, x.n, k / x.inner % x.m);
		double sum = 0;

		for (int64_t j = t.from; j < t.from + t.count; j++)
			sum += weight_of(t, j) * in[(k / x.inner / x.m * x.n + j) * x.inner + k % x.inner];
		out[k] = (float)sum;
	}
	return SL_OK;
}

static enum sl_err resample_backward(const struct sl_op_call *call)
{
	const struct axis x = axis_of(call->op, &call->dout.shape);
	const float *dout = call->dout.data;
	float *din = call->din[0].data;

	for (int64_t k = 0; k < x.outer * x.n * x.inner && din; k++) {
		const int64_t j = k / x.inner % x.n;
		double sum = 0;

		for (int64_t i = 0; i < x.m; i++)
			sum += weight_of(sl_taps_of(&call->op->u.resample, x.n, i), j) *
			       dout[(k / x.inner / x.n * x.m + i) * x.inner + k % x.inner];
		sl_ref_store(&din[k], call->din_add[0], sum);
	}
	return SL_OK;
}

static enum sl_err repeat_forward(const struct sl_op_call *call)
{
	const int64_t n = sl_shape_row(&call->out.shape);
	float *out = call->out.data;

	for (int64_t i = 0; i < call->out.shape.dim[0] * n; i++)
		out[i] = call->param[0][i % n];
	return SL_OK;
}

/* The input only determines the number of rows, so its gradient is 0. */
static enum sl_err repeat_backward(const struct sl_op_call *call)
{
	const int64_t n = sl_shape_row(&call->dout.shape);
	const float *dout = call->dout.data;
	float *din = call->din[0].data;

	for (int64_t i = 0; i < n && call->grad[0]; i++) {
		double sum = 0;

		for (int64_t row = 0; row < call->dout.shape.dim[0]; row++)
			sum += dout[row * n + i];
		call->grad[0][i] += (float)sum;
	}
	for (int64_t i = 0; i < sl_shape_count(&call->din[0].shape) && din && !call->din_add[0]; i++)
		din[i] = 0;
	return SL_OK;
}

const struct sl_kernel sl_ref_permute = {.forward = permute_forward, .backward = permute_backward};
const struct sl_kernel sl_ref_resample = {.forward = resample_forward, .backward = resample_backward};
const struct sl_kernel sl_ref_repeat = {.forward = repeat_forward, .backward = repeat_backward};
