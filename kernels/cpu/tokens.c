/* Ops on tokens. select: the first token of every row. gather: chosen tokens. transpose: a row's tokens by
 * features. embedding: a row of a table for every token; lookup: for every number of a row. */
#include <math.h>
#include <string.h>

#include "common/base/pieces.h"
#include "common/base/worker.h"
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

const struct sl_kernel sl_cpu_op_select = {.forward = select_forward, .backward = select_backward};

/* The copies are short: one thread makes them, and lets other jobs run now and then. */
enum { GATHER_TOKENS = 1024 };

static void gather_turn(int64_t i)
{
	if (i % GATHER_TOKENS == GATHER_TOKENS - 1)
		sl_worker_turn();
}

static enum sl_err gather_forward(const struct sl_op_call *call)
{
	const int64_t f = sl_shape_row(&call->out.shape);
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < call->dims.chosen; i++) {
		memcpy(y + i * f, x + (int64_t)call->dims.place[i] * f, (size_t)f * sizeof *y);
		gather_turn(i);
	}
	return SL_OK;
}

static enum sl_err gather_backward(const struct sl_op_call *call)
{
	const int64_t f = sl_shape_row(&call->dout.shape);
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(call->be);
	const float *dy = call->dout.data;
	float *dx = call->din[0].data;

	if (dx == NULL)
		return SL_OK;
	if (!call->din_add[0])
		sl_clear(dx, (size_t)(call->dims.tokens * f) * sizeof *dx);
	for (int64_t i = 0; i < call->dims.chosen; i++) {
		float *to = dx + (int64_t)call->dims.place[i] * f;

		simd->sum(to, to, dy + i * f, f);
		gather_turn(i);
	}
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_gather = {.forward = gather_forward, .backward = gather_backward};

/* Transposes each of n matrices [rows,columns]. A task is a strip of a matrix's columns, which become rows. */
struct turn_job {
	float *to;
	const float *from;
	bool add;
	int64_t rows, columns, strips;
};

enum { TURN_COLUMNS = 64, TURN_ROWS = 16 };

/* TURN_ROWS rows at a time: their cache lines stay in L1, and each output line is written whole. */
static void turn_strip(void *arg, int64_t task, int worker)
{
	const struct turn_job *j = arg;
	const int64_t at = task / j->strips * j->rows * j->columns, first = task % j->strips * TURN_COLUMNS;
	const int64_t stop = sl_cpu_min(first + TURN_COLUMNS, j->columns);
	const float *from = j->from + at;
	float *to = j->to + at;

	for (int64_t row = 0; row < j->rows; row += TURN_ROWS) {
		const int64_t n = sl_cpu_min(TURN_ROWS, j->rows - row);

		for (int64_t c = first; c < stop; c++) {
			float *out = to + c * j->rows + row;
			const float *in = from + row * j->columns + c;

			for (int64_t r = 0; r < n; r++)
				out[r] = j->add ? out[r] + in[r * j->columns] : in[r * j->columns];
		}
	}
}

/* `row`: the shape [N,F,S]. `to_tokens`: from it to [N·S,F]; otherwise back. */
static void turn(const struct sl_op_call *call, struct turn_job *j, const struct sl_shape *row, bool to_tokens)
{
	j->rows = row->dim[to_tokens ? 1 : 2];
	j->columns = row->dim[to_tokens ? 2 : 1];
	j->strips = sl_cpu_blocks(j->columns, TURN_COLUMNS);
	sl_pool_run(call->be->pool, row->dim[0] * j->strips, turn_strip, j);
}

static enum sl_err transpose_forward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;
	struct turn_job j = {.to = call->out.data, .from = call->in[0].data};

	turn(call, &j, to_rows ? &call->out.shape : &call->in[0].shape, !to_rows);
	return SL_OK;
}

static enum sl_err transpose_backward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;
	struct turn_job j = {.to = call->din[0].data, .from = call->dout.data, .add = call->din_add[0]};

	if (j.to != NULL)
		turn(call, &j, to_rows ? &call->dout.shape : &call->din[0].shape, to_rows);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_transpose = {.forward = transpose_forward, .backward = transpose_backward};

/* The row of the table for token `t` of a row that begins at `first`, after `past` cached tokens; ids are in
 * range (exec.h). *marks counts the row's segment marks so far: it is 0 before the first token, and tokens
 * come in order. */
static int64_t looked_up(const struct sl_op_call *call, int64_t t, int64_t first, int64_t past, int64_t *marks)
{
	const struct sl_embedding_attr *a = &call->op->u.embedding;
	const int32_t *id = call->in[0].data;
	int64_t at;

	if (a->position)
		return a->first + past + t - first;
	if (!a->segment)
		return id[t];
	at = *marks < a->rows ? *marks : a->rows - 1;
	*marks += id[t] == a->mark;
	return at;
}

static void embed_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const int64_t first = first_of(j->call, row), stop = stop_of(j->call, row);
	const int64_t past = sl_dims_past(&j->call->dims, row);
	float *y = j->call->out.data;
	int64_t marks = 0;

	for (int64_t t = first; t < stop; t++) {
		const int64_t at = looked_up(j->call, t, first, past, &marks) * j->f;

		if (j->call->held.data)
			sl_cpu_simd_of(j->call->be)
				->widen(y + t * j->f, j->call->held.data + at, j->f, j->call->held.f16);
		else
			memcpy(y + t * j->f, j->call->param[0] + at, (size_t)j->f * sizeof *y);
	}
}

static enum sl_err embedding_forward(const struct sl_op_call *call)
{
	struct job j = {call, call->op->u.embedding.features};

	sl_pool_run(call->be->pool, call->dims.rows, embed_row, &j);
	return SL_OK;
}

/* Tokens may share a row of the table. So a task has some features of all tokens, and adds them in order. */
enum { EMBEDDING_FEATURES = 64 };

static void embed_back(void *arg, int64_t block, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t k = block * EMBEDDING_FEATURES, n = sl_cpu_min(EMBEDDING_FEATURES, j->f - k);
	const float *dy = (const float *)j->call->dout.data + k;
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(j->call->be);

	for (int64_t row = s->at; row < j->call->dims.rows; row++) {
		const int64_t first = first_of(j->call, row), stop = stop_of(j->call, row);
		int64_t marks = 0;

		for (int64_t t = first; t < stop; t++) {
			float *to = j->call->grad[0] + looked_up(j->call, t, first, 0, &marks) * j->f + k;

			simd->sum(to, to, dy + t * j->f, n);
		}
		if (sl_pool_stop(s, row + 1))
			return;
	}
}

static enum sl_err embedding_backward(const struct sl_op_call *call)
{
	struct job j = {call, call->op->u.embedding.features};

	if (call->grad[0] != NULL)
		sl_pool_run_long(call->be->pool, sl_cpu_blocks(j.f, EMBEDDING_FEATURES), embed_back, &j);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_embedding = {
	.forward = embedding_forward, .backward = embedding_backward, .takes_held = true};

/* ---- lookup */

static void look_up_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const struct sl_lookup_attr *a = &j->call->op->u.lookup;
	const int64_t n = j->call->in[0].shape.dim[1];
	const float *id = (const float *)j->call->in[0].data + row * n;
	float *y = (float *)j->call->out.data + row * n * j->f;

	for (int64_t k = 0; k < n; k++, y += j->f) {
		const int64_t at = sl_lookup_row(a, id[k]);

		if (at >= 0)
			memcpy(y, j->call->param[0] + at * j->f, (size_t)j->f * sizeof *y);
		for (int64_t i = 0; at < 0 && i < j->f; i++)
			y[i] = NAN;
	}
}

static enum sl_err lookup_forward(const struct sl_op_call *call)
{
	struct job j = {call, call->op->u.lookup.features};

	sl_pool_run(call->be->pool, call->in[0].shape.dim[0], look_up_row, &j);
	return SL_OK;
}

/* As of embedding: a task has some features of all numbers. */
static void look_up_back(void *arg, int64_t block, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_lookup_attr *a = &j->call->op->u.lookup;
	const int64_t k = block * EMBEDDING_FEATURES, n = sl_cpu_min(EMBEDDING_FEATURES, j->f - k);
	const int64_t ids = j->call->in[0].shape.dim[1];
	const float *id = j->call->in[0].data, *dy = (const float *)j->call->dout.data + k;
	const struct sl_cpu_simd *simd = sl_cpu_simd_of(j->call->be);

	for (int64_t row = s->at; row < j->call->in[0].shape.dim[0]; row++) {
		for (int64_t i = row * ids; i < (row + 1) * ids; i++) {
			const int64_t at = sl_lookup_row(a, id[i]);
			float *to = j->call->grad[0] + at * j->f + k;

			if (at >= 0)
				simd->sum(to, to, dy + i * j->f, n);
		}
		if (sl_pool_stop(s, row + 1))
			return;
	}
}

static enum sl_err lookup_backward(const struct sl_op_call *call)
{
	struct job j = {call, call->op->u.lookup.features};

	if (call->grad[0])
		sl_pool_run_long(call->be->pool, sl_cpu_blocks(j.f, EMBEDDING_FEATURES), look_up_back, &j);
	if (call->din[0].data && !call->din_add[0])
		return call->be->ops->zero(call->be, call->din[0].data,
					   (size_t)sl_shape_count(&call->din[0].shape) * sizeof(float));
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_lookup = {.forward = lookup_forward, .backward = lookup_backward};
