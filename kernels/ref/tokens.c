/* Ops that look at rows of tokens: select, the first token of every row. */
#include "kernels/ref/kernels.h"

static int64_t first_of(const struct sl_op_call *call, int64_t row)
{
	return call->dims.begin ? (int64_t)call->dims.begin[row] : row;
}

static enum sl_err select_forward(const struct sl_op_call *call)
{
	int64_t f = sl_shape_row(&call->out.shape);
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < call->dims.rows; i++)
		for (int64_t k = 0; k < f; k++)
			y[i * f + k] = x[first_of(call, i) * f + k];
	return SL_OK;
}

static enum sl_err select_backward(const struct sl_op_call *call)
{
	int64_t f = sl_shape_row(&call->dout.shape);
	const float *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < call->dims.tokens * f && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], 0);
	for (int64_t i = 0; i < call->dims.rows && dx; i++)
		for (int64_t k = 0; k < f; k++)
			sl_ref_store(&dx[first_of(call, i) * f + k], true, dy[i * f + k]);
	return SL_OK;
}

const struct sl_kernel sl_ref_select = {.forward = select_forward, .backward = select_backward};
