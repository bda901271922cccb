/* Ops that look at rows of tokens: select, the first token of every row. */
#include <string.h>

#include "kernels/cpu/impl.h"

struct job {
	const struct sl_op_call *call;
	int64_t f;
};

static int64_t first_of(const struct sl_op_call *call, int64_t row)
{
	return call->dims.begin != NULL ? (int64_t)call->dims.begin[row] : row;
}

static int64_t stop_of(const struct sl_op_call *call, int64_t row)
{
	return call->dims.begin != NULL ? (int64_t)call->dims.begin[row + 1] : row + 1;
}

static void forward_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const float *x = j->call->in[0].data;
	float *y = j->call->out.data;

	(void)worker;
	memcpy(y + row * j->f, x + first_of(j->call, row) * j->f, (size_t)j->f * sizeof *y);
}

static enum sl_err select_forward(const struct sl_op_call *call)
{
	struct job j = {call, sl_shape_row(&call->out.shape)};

	sl_pool_run(call->be->pool, call->dims.rows, forward_row, &j);
	return SL_OK;
}

static void backward_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	int64_t first = first_of(j->call, row), rest = stop_of(j->call, row) - first - 1;
	const float *dy = (const float *)j->call->dout.data + row * j->f;
	float *dx = (float *)j->call->din[0].data + first * j->f;

	(void)worker;
	if (!j->call->din_add[0]) {
		memcpy(dx, dy, (size_t)j->f * sizeof *dx);
		memset(dx + j->f, 0, (size_t)(rest * j->f) * sizeof *dx);
		return;
	}
	for (int64_t k = 0; k < j->f; k++)
		dx[k] += dy[k];
}

static enum sl_err select_backward(const struct sl_op_call *call)
{
	struct job j = {call, sl_shape_row(&call->dout.shape)};

	if (call->din[0].data != NULL)
		sl_pool_run(call->be->pool, call->dims.rows, backward_row, &j);
	return SL_OK;
}

const struct sl_kernel sl_cpu_select = {.forward = select_forward, .backward = select_backward};
