/* Ops on tokens: select, the first token of every row; gather, chosen tokens; transpose, swaps a
 * row's tokens and features; embedding, looks up a table row for every token; lookup, for every number. */
#include <math.h>
#include <string.h>

#include "tests/ref/kernels.h"

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

static enum sl_err gather_forward(const struct sl_op_call *call)
{
	int64_t f = sl_shape_row(&call->out.shape);
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < call->dims.chosen; i++)
		for (int64_t k = 0; k < f; k++)
			y[i * f + k] = x[(int64_t)call->dims.place[i] * f + k];
	return SL_OK;
}

static enum sl_err gather_backward(const struct sl_op_call *call)
{
	int64_t f = sl_shape_row(&call->dout.shape);
	const float *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < call->dims.tokens * f && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], 0);
	for (int64_t i = 0; i < call->dims.chosen && dx; i++)
		for (int64_t k = 0; k < f; k++)
			sl_ref_store(&dx[(int64_t)call->dims.place[i] * f + k], true, dy[i * f + k]);
	return SL_OK;
}

const struct sl_kernel sl_ref_gather = {.forward = gather_forward, .backward = gather_backward};

/* Transposes each of n matrices [rows, columns]. */
static void transpose(float *to, const float *from, bool add, int64_t n, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t c = 0; c < columns; c++)
				sl_ref_store(&to[(i * columns + c) * rows + r], add,
					     from[(i * rows + r) * columns + c]);
}

static enum sl_err transpose_forward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;
	const struct sl_shape *row = to_rows ? &call->out.shape : &call->in[0].shape;

	transpose(call->out.data, call->in[0].data, false, row->dim[0], row->dim[to_rows ? 2 : 1],
		  row->dim[to_rows ? 1 : 2]);
	return SL_OK;
}

static enum sl_err transpose_backward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;
	const struct sl_shape *row = to_rows ? &call->dout.shape : &call->din[0].shape;

	if (call->din[0].data)
		transpose(call->din[0].data, call->dout.data, call->din_add[0], row->dim[0], row->dim[to_rows ? 1 : 2],
			  row->dim[to_rows ? 2 : 1]);
	return SL_OK;
}

const struct sl_kernel sl_ref_transpose = {.forward = transpose_forward, .backward = transpose_backward};

/* The table row of a token; exec.h guarantees that ids are in range. */
static int64_t looked_up(const struct sl_op_call *call, int64_t token, int64_t row)
{
	const struct sl_embedding_attr *a = &call->op->u.embedding;
	const int32_t *id = call->in[0].data;
	int64_t marks = 0;

	if (a->position)
		return a->first + sl_dims_past(&call->dims, row) + token - first_of(call, row);
	if (!a->segment)
		return id[token];
	for (int64_t t = first_of(call, row); t < token; t++)
		marks += id[t] == a->mark;
	return marks < a->rows ? marks : a->rows - 1;
}

/* The row that contains this token, given the row of the token before. */
static int64_t row_of(const struct sl_op_call *call, int64_t token, int64_t row)
{
	return row + 1 < call->dims.rows && token == first_of(call, row + 1) ? row + 1 : row;
}

static enum sl_err embedding_forward(const struct sl_op_call *call)
{
	const int64_t f = call->op->u.embedding.features, n = call->out.shape.dim[0];
	float *y = call->out.data;

	for (int64_t t = 0, row = 0; t < n; t++) {
		row = row_of(call, t, row);
		memcpy(y + t * f, call->param[0] + looked_up(call, t, row) * f, (size_t)f * sizeof *y);
	}
	return SL_OK;
}

static enum sl_err embedding_backward(const struct sl_op_call *call)
{
	const int64_t f = call->op->u.embedding.features, n = call->dout.shape.dim[0];
	const float *dy = call->dout.data;

	for (int64_t t = 0, row = 0; t < n && call->grad[0]; t++) {
		row = row_of(call, t, row);
		for (int64_t k = 0; k < f; k++)
			call->grad[0][looked_up(call, t, row) * f + k] += dy[t * f + k];
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_embedding = {.forward = embedding_forward, .backward = embedding_backward};

static enum sl_err lookup_forward(const struct sl_op_call *call)
{
	const struct sl_lookup_attr *a = &call->op->u.lookup;
	const int64_t n = sl_shape_count(&call->in[0].shape);
	const float *id = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < a->features; k++)
			y[i * a->features + k] = id[i] >= 0 && id[i] < (float)a->rows
							 ? call->param[0][(int64_t)id[i] * a->features + k]
							 : NAN;
	return SL_OK;
}

/* Ids have no gradient. */
static enum sl_err lookup_backward(const struct sl_op_call *call)
{
	const struct sl_lookup_attr *a = &call->op->u.lookup;
	const int64_t n = sl_shape_count(&call->in[0].shape);
	const float *id = call->in[0].data, *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < n; i++) {
		if (dx && !call->din_add[0])
			dx[i] = 0;
		for (int64_t k = 0; k < a->features && call->grad[0] && id[i] >= 0 && id[i] < (float)a->rows; k++)
			call->grad[0][(int64_t)id[i] * a->features + k] += dy[i * a->features + k];
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_lookup = {.forward = lookup_forward, .backward = lookup_backward};
