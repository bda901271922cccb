/* Gate (scales each channel by a value of its own), and concat. */
#include "tests/ref/kernels.h"

static enum sl_err gate_forward(const struct sl_op_call *call)
{
	const int64_t rows = call->out.shape.dim[0], c = call->in[1].shape.dim[call->in[1].shape.ndim - 1];
	const int64_t pixels = sl_shape_row(&call->out.shape) / c;
	const float *x = call->in[0].data, *by = call->in[1].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < rows * pixels * c; i++)
		y[i] = x[i] * by[i / (pixels * c) * c + i % c];
	return SL_OK;
}

static enum sl_err gate_backward(const struct sl_op_call *call)
{
	const int64_t rows = call->dout.shape.dim[0], c = call->dout.shape.dim[call->dout.shape.ndim - 1];
	const int64_t pixels = sl_shape_row(&call->dout.shape) / c;
	const float *x = call->in[0].data, *by = call->in[1].data, *dy = call->dout.data;
	float *dx = call->din[0].data, *dby = call->din[1].data;

	for (int64_t i = 0; i < rows * pixels * c && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], (double)dy[i] * by[i / (pixels * c) * c + i % c]);
	for (int64_t i = 0; i < rows * c && dby; i++) {
		double sum = 0;

		for (int64_t p = 0; p < pixels; p++) {
			const int64_t at = (i / c * pixels + p) * c + i % c;

			sum += (double)dy[at] * x[at];
		}
		sl_ref_store(&dby[i], call->din_add[1], sum);
	}
	return SL_OK;
}

static enum sl_err concat_forward(const struct sl_op_call *call)
{
	const int axis = sl_op_concat_axis(call->op);
	const int64_t a = sl_op_inner(&call->in[0].shape, axis), b = sl_op_inner(&call->in[1].shape, axis);
	const float *in[2] = {call->in[0].data, call->in[1].data};
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->out.shape); i++) {
		const int64_t m = i / (a + b), c = i % (a + b);

		y[i] = c < a ? in[0][m * a + c] : in[1][m * b + c - a];
	}
	return SL_OK;
}

static enum sl_err concat_backward(const struct sl_op_call *call)
{
	const int axis = sl_op_concat_axis(call->op);
	const int64_t c[2] = {sl_op_inner(&call->op->in_shape[0], axis), sl_op_inner(&call->op->in_shape[1], axis)};
	const float *dy = call->dout.data;

	for (int k = 0; k < 2; k++) {
		const int64_t all = c[0] + c[1], count = sl_shape_count(&call->dout.shape) / all * c[k];
		float *dx = call->din[k].data;

		for (int64_t i = 0; i < count && dx; i++)
			sl_ref_store(&dx[i], call->din_add[k], dy[i / c[k] * all + (k ? c[0] : 0) + i % c[k]]);
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_gate = {.forward = gate_forward, .backward = gate_backward};
const struct sl_kernel sl_ref_concat = {.forward = concat_forward, .backward = concat_backward};
