/* Ops on single elements: activation, sum, product, product with a constant, dropout, flatten.
 *   relu(x) = max(x, 0)      relu6(x) = min(max(x, 0), 6)
 *   leakyrelu(x) = x, or slope · x where x ≤ 0
 *   dropout: element i of the chunk's output becomes x / (1 − p) if unit(philox(rng, i)) >= p,
 *     else 0. For tokens, i is (row · most + position in the row) · F + f. */
#include <string.h>

#include "tests/ref/kernels.h"

double sl_ref_act_value(enum sl_act act, double y)
{
	if (act == SL_ACT_NONE)
		return y;
	if (y < 0)
		return 0;
	return act == SL_ACT_RELU6 && y > 6 ? 6 : y;
}

double sl_ref_act_slope(enum sl_act act, double y)
{
	if (act == SL_ACT_NONE)
		return 1;
	if (y <= 0)
		return 0;
	return act == SL_ACT_RELU6 && y >= 6 ? 0 : 1;
}

static enum sl_err act_forward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = (float)sl_ref_act_value(call->op->u.act, x[i]);
	return SL_OK;
}

static enum sl_err act_backward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data, *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], dy[i] * sl_ref_act_slope(call->op->u.act, x[i]));
	return SL_OK;
}

static double leaky(const struct sl_op_call *call, int64_t i, double a)
{
	return ((const float *)call->in[0].data)[i] > 0 ? a : a * call->op->u.leaky.slope;
}

static enum sl_err leaky_forward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = (float)leaky(call, i, x[i]);
	return SL_OK;
}

static enum sl_err leaky_backward(const struct sl_op_call *call)
{
	const float *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], leaky(call, i, dy[i]));
	return SL_OK;
}

static enum sl_err mul_forward(const struct sl_op_call *call)
{
	const float *a = call->in[0].data, *b = call->in[1].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = a[i] * b[i];
	return SL_OK;
}

static enum sl_err mul_backward(const struct sl_op_call *call)
{
	const float *dy = call->dout.data;

	for (int k = 0; k < 2; k++) {
		const float *other = call->in[1 - k].data;
		float *dx = call->din[k].data;

		for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
			sl_ref_store(&dx[i], call->din_add[k], (double)dy[i] * other[i]);
	}
	return SL_OK;
}

static enum sl_err add_forward(const struct sl_op_call *call)
{
	const float *a = call->in[0].data, *b = call->in[1].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = a[i] + b[i];
	return SL_OK;
}

/* For a sum and for flatten, each input's gradient is that of the output. */
static enum sl_err pass_backward(const struct sl_op_call *call)
{
	const float *dy = call->dout.data;

	for (int k = 0; k < call->op->n_in; k++) {
		float *dx = call->din[k].data;

		for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
			sl_ref_store(&dx[i], call->din_add[k], dy[i]);
	}
	return SL_OK;
}

static void scale(float *y, bool add, const float *x, double by, double plus, int64_t n)
{
	for (int64_t i = 0; i < n && y; i++)
		sl_ref_store(&y[i], add, by * x[i] + plus);
}

static enum sl_err scale_forward(const struct sl_op_call *call)
{
	scale(call->out.data, false, call->in[0].data, call->op->u.scale.by, call->op->u.scale.plus,
	      sl_shape_count(&call->in[0].shape));
	return SL_OK;
}

static enum sl_err scale_backward(const struct sl_op_call *call)
{
	scale(call->din[0].data, call->din_add[0], call->dout.data, call->op->u.scale.by, 0,
	      sl_shape_count(&call->dout.shape));
	return SL_OK;
}

/* The number that element i is drawn with. For tokens it does not depend on the lengths of other rows. */
static int64_t drawn_by(const struct sl_op_call *call, int64_t i)
{
	const int64_t f = sl_shape_row(&call->op->out_shape), token = i / f;
	int64_t row = 0;

	if (call->op->most == 1 || !call->dims.begin)
		return i;
	while (token >= (int64_t)call->dims.begin[row + 1])
		row++;
	return (row * call->op->most + token - (int64_t)call->dims.begin[row]) * f + i % f;
}

static double dropout_value(const struct sl_op_call *call, int64_t i, double v)
{
	const double p = (double)call->op->u.dropout.p;

	if (!call->training)
		return v;
	if (sl_rng_unit(sl_rng_u32(&call->rng, (uint64_t)drawn_by(call, i))) < p)
		return 0;
	return v / (1 - p);
}

static enum sl_err dropout_forward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = (float)dropout_value(call, i, x[i]);
	return SL_OK;
}

static enum sl_err dropout_backward(const struct sl_op_call *call)
{
	const float *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], dropout_value(call, i, dy[i]));
	return SL_OK;
}

static enum sl_err flatten_forward(const struct sl_op_call *call)
{
	memcpy(call->out.data, call->in[0].data, (size_t)sl_shape_count(&call->in[0].shape) * sizeof(float));
	return SL_OK;
}

const struct sl_kernel sl_ref_act = {
	.forward = act_forward,
	.backward = act_backward,
};
const struct sl_kernel sl_ref_mul = {
	.forward = mul_forward,
	.backward = mul_backward,
};
const struct sl_kernel sl_ref_add = {
	.forward = add_forward,
	.backward = pass_backward,
};
const struct sl_kernel sl_ref_scale = {
	.forward = scale_forward,
	.backward = scale_backward,
};
const struct sl_kernel sl_ref_dropout = {
	.forward = dropout_forward,
	.backward = dropout_backward,
};
const struct sl_kernel sl_ref_flatten = {
	.forward = flatten_forward,
	.backward = pass_backward,
};
const struct sl_kernel sl_ref_leakyrelu = {.forward = leaky_forward, .backward = leaky_backward};
