/* torch.nn.Linear: out[n,o] = bias[o] + Σ_f x[n,f]·w[o,f];  dx[n,f] = Σ_o dout[n,o]·w[o,f]; dw[o,f]
 * = Σ_n dout[n,o]·x[n,f];  dbias[o] = Σ_n dout[n,o]. In [N,S,F] every position is a row n. */
#include "tests/ref/kernels.h"

static int64_t weight_at(const struct sl_linear_attr *a, int64_t o, int64_t f)
{
	return a->transposed ? f * a->out_f + o : o * a->in_f + f;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	int64_t in_f = op->u.linear.in_f, out_f = op->u.linear.out_f, rows = sl_shape_count(&call->in[0].shape) / in_f;
	const float *x = call->in[0].data, *w = call->param[0];
	float *y = call->out.data;

	for (int64_t n = 0; n < rows; n++)
		for (int64_t o = 0; o < out_f; o++) {
			double sum = op->u.linear.bias ? call->param[1][o] : 0;

			for (int64_t f = 0; f < in_f; f++)
				sum += (double)x[n * in_f + f] * w[weight_at(&op->u.linear, o, f)];
			y[n * out_f + o] = (float)sum;
		}
	return SL_OK;
}

static void backward_params(const struct sl_op_call *call, int64_t rows)
{
	const struct sl_op *op = call->op;
	const float *x = call->in[0].data, *dy = call->dout.data;
	int64_t in_f = op->u.linear.in_f, out_f = op->u.linear.out_f;

	for (int64_t o = 0; o < out_f; o++) {
		double dbias = 0;

		for (int64_t f = 0; f < in_f && call->grad[0]; f++) {
			double sum = 0;

			for (int64_t n = 0; n < rows; n++)
				sum += (double)dy[n * out_f + o] * x[n * in_f + f];
			sl_ref_store(&call->grad[0][weight_at(&op->u.linear, o, f)], true, sum);
		}
		for (int64_t n = 0; n < rows; n++)
			dbias += dy[n * out_f + o];
		if (op->u.linear.bias && call->grad[1])
			sl_ref_store(&call->grad[1][o], true, dbias);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	int64_t in_f = op->u.linear.in_f, out_f = op->u.linear.out_f, rows = sl_shape_count(&call->dout.shape) / out_f;
	const float *w = call->param[0], *dy = call->dout.data;
	float *dx = call->din[0].data;

	backward_params(call, rows);
	for (int64_t n = 0; n < rows && dx; n++)
		for (int64_t f = 0; f < in_f; f++) {
			double sum = 0;

			for (int64_t o = 0; o < out_f; o++)
				sum += (double)dy[n * out_f + o] * w[weight_at(&op->u.linear, o, f)];
			sl_ref_store(&dx[n * in_f + f], call->din_add[0], sum);
		}
	return SL_OK;
}

const struct sl_kernel sl_ref_linear = {
	.forward = forward,
	.backward = backward,
};
