/* Ops that treat every element by itself: activation, sum, product with a constant, dropout, flatten.
 *   relu(x) = max(x, 0)      relu6(x) = min(max(x, 0), 6)
 *   dropout: element i of the chunk's output is kept iff unit(philox(rng, i)) >= p, and then x / (1 − p) */
#include <string.h>

#include "kernels/ref/kernels.h"

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

static enum sl_err act_forward(struct sl_backend *be, const struct sl_op *op, void *state,
			       const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	const float *x = in[0].data;
	float *y = out->data;

	(void)be;
	(void)state;
	(void)call;
	for (int64_t i = 0; i < sl_shape_count(&in[0].shape); i++)
		y[i] = (float)sl_ref_act_value(op->u.act, x[i]);
	return SL_OK;
}

static enum sl_err act_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
				const struct sl_tensor *dout, struct sl_tensor *din, const bool *din_add)
{
	const float *x = in[0].data, *dy = dout->data;
	float *dx = din[0].data;

	(void)be;
	(void)state;
	(void)call;
	(void)out;
	for (int64_t i = 0; i < sl_shape_count(&dout->shape) && dx; i++)
		sl_ref_store(&dx[i], din_add[0], dy[i] * sl_ref_act_slope(op->u.act, x[i]));
	return SL_OK;
}

static enum sl_err add_forward(struct sl_backend *be, const struct sl_op *op, void *state,
			       const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	const float *a = in[0].data, *b = in[1].data;
	float *y = out->data;

	(void)be;
	(void)op;
	(void)state;
	(void)call;
	for (int64_t i = 0; i < sl_shape_count(&in[0].shape); i++)
		y[i] = a[i] + b[i];
	return SL_OK;
}

/* Both inputs of a sum, and the one of flatten, take the gradient as it is. */
static enum sl_err pass_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				 const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out,
				 const struct sl_tensor *dout, struct sl_tensor *din, const bool *din_add)
{
	const float *dy = dout->data;

	(void)be;
	(void)state;
	(void)call;
	(void)in;
	(void)out;
	for (int k = 0; k < op->n_in; k++) {
		float *dx = din[k].data;

		for (int64_t i = 0; i < sl_shape_count(&dout->shape) && dx; i++)
			sl_ref_store(&dx[i], din_add[k], dy[i]);
	}
	return SL_OK;
}

static void scale(float *y, bool add, const float *x, double by, int64_t n)
{
	for (int64_t i = 0; i < n && y; i++)
		sl_ref_store(&y[i], add, by * x[i]);
}

static enum sl_err scale_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				 const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)be;
	(void)state;
	(void)call;
	scale(out->data, false, in[0].data, op->u.scale.by, sl_shape_count(&in[0].shape));
	return SL_OK;
}

static enum sl_err scale_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				  const struct sl_op_call *call, const struct sl_tensor *in,
				  const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				  const bool *din_add)
{
	(void)be;
	(void)state;
	(void)call;
	(void)in;
	(void)out;
	scale(din[0].data, din_add[0], dout->data, op->u.scale.by, sl_shape_count(&dout->shape));
	return SL_OK;
}

/* v / (1 − p) where element i is kept, else 0. */
static double dropout_value(const struct sl_op *op, const struct sl_op_call *call, int64_t i, double v)
{
	if (!call->training)
		return v;
	if (sl_rng_unit(sl_rng_u32(&call->rng, (uint64_t)i)) < op->u.dropout.p)
		return 0;
	return v / (1 - (double)op->u.dropout.p);
}

static enum sl_err dropout_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				   const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	const float *x = in[0].data;
	float *y = out->data;

	(void)be;
	(void)state;
	for (int64_t i = 0; i < sl_shape_count(&in[0].shape); i++)
		y[i] = (float)dropout_value(op, call, i, x[i]);
	return SL_OK;
}

static enum sl_err dropout_backward(struct sl_backend *be, const struct sl_op *op, void *state,
				    const struct sl_op_call *call, const struct sl_tensor *in,
				    const struct sl_tensor *out, const struct sl_tensor *dout, struct sl_tensor *din,
				    const bool *din_add)
{
	const float *dy = dout->data;
	float *dx = din[0].data;

	(void)be;
	(void)state;
	(void)in;
	(void)out;
	for (int64_t i = 0; i < sl_shape_count(&dout->shape) && dx; i++)
		sl_ref_store(&dx[i], din_add[0], dropout_value(op, call, i, dy[i]));
	return SL_OK;
}

static enum sl_err flatten_forward(struct sl_backend *be, const struct sl_op *op, void *state,
				   const struct sl_op_call *call, const struct sl_tensor *in, struct sl_tensor *out)
{
	(void)be;
	(void)op;
	(void)state;
	(void)call;
	memcpy(out->data, in[0].data, (size_t)sl_shape_count(&in[0].shape) * sizeof(float));
	return SL_OK;
}

const struct sl_kernel sl_ref_act = {
	.prepare = sl_ref_prepare_nothing,
	.forward = act_forward,
	.backward = act_backward,
};
const struct sl_kernel sl_ref_add = {
	.prepare = sl_ref_prepare_nothing,
	.forward = add_forward,
	.backward = pass_backward,
};
const struct sl_kernel sl_ref_scale = {
	.prepare = sl_ref_prepare_nothing,
	.forward = scale_forward,
	.backward = scale_backward,
};
const struct sl_kernel sl_ref_dropout = {
	.prepare = sl_ref_prepare_nothing,
	.forward = dropout_forward,
	.backward = dropout_backward,
};
const struct sl_kernel sl_ref_flatten = {
	.prepare = sl_ref_prepare_nothing,
	.forward = flatten_forward,
	.backward = pass_backward,
};
