/* Ops on tokens. select: the first token of every row. gather: chosen tokens. transpose: a row's tokens by
 * features. embedding: a row of a table for every token. */
#include "kernels/cuda/cuda.h"

static struct cu_rows rows_of(const struct sl_op_call *call, const struct sl_shape *row)
{
	return (struct cu_rows){call->dims.rows, call->dims.tokens, sl_shape_row(row), call->dims.begin};
}

static enum sl_err select_forward(const struct sl_op_call *call)
{
	const struct cu_rows rows = rows_of(call, &call->out.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_select_forward(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
						&rows),
			      call->op->name);
}

static enum sl_err select_backward(const struct sl_op_call *call)
{
	const struct cu_rows rows = rows_of(call, &call->dout.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_select_backward(cu->stream, cu_op_type(call->op), call->din[0].data, call->din_add[0],
					   call->dout.data, &rows),
			call->op->name);
}

const struct sl_kernel cu_op_select = {.forward = select_forward, .backward = select_backward};

/* `row`: the shape [N,F,S]. `to_tokens`: from it to [N·S,F]; otherwise back. */
static enum sl_err turn(const struct sl_op_call *call, const struct sl_tensor *to, bool add,
			const struct sl_tensor *from, const struct sl_shape *row, bool to_tokens)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_transpose(cu->stream, cu_op_type(call->op), to->data, add, from->data, row->dim[0],
					   row->dim[to_tokens ? 1 : 2], row->dim[to_tokens ? 2 : 1]),
			      call->op->name);
}

static enum sl_err transpose_forward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;

	return turn(call, &call->out, false, &call->in[0], to_rows ? &call->out.shape : &call->in[0].shape, !to_rows);
}

static enum sl_err transpose_backward(const struct sl_op_call *call)
{
	const bool to_rows = call->op->u.transpose.tokens > 0;

	if (!call->din[0].data)
		return SL_OK;
	return turn(call, &call->din[0], call->din_add[0], &call->dout,
		    to_rows ? &call->dout.shape : &call->din[0].shape, to_rows);
}

const struct sl_kernel cu_op_transpose = {.forward = transpose_forward, .backward = transpose_backward};

static struct cu_chosen chosen_of(const struct sl_op_call *call, const struct sl_shape *row)
{
	return (struct cu_chosen){call->dims.chosen, call->dims.tokens, sl_shape_row(row), call->dims.place};
}

static enum sl_err gather_forward(const struct sl_op_call *call)
{
	const struct cu_chosen chosen = chosen_of(call, &call->out.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_gather_forward(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
						&chosen),
			      call->op->name);
}

static enum sl_err gather_backward(const struct sl_op_call *call)
{
	const struct cu_chosen chosen = chosen_of(call, &call->dout.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_gather_backward(cu->stream, cu_op_type(call->op), call->din[0].data, call->din_add[0],
					   call->dout.data, &chosen),
			call->op->name);
}

const struct sl_kernel cu_op_gather = {.forward = gather_forward, .backward = gather_backward};

static struct cu_lookup lookup_of(const struct sl_op_call *call)
{
	const struct sl_embedding_attr *a = &call->op->u.embedding;

	return (struct cu_lookup){{call->dims.rows, call->dims.begin ? call->dims.tokens : call->dims.rows, a->features,
				   call->dims.begin},
				  call->in[0].data,
				  a->position,
				  a->first,
				  a->segment,
				  a->mark,
				  a->rows};
}

static enum sl_err embedding_forward(const struct sl_op_call *call)
{
	const struct cu_lookup lookup = lookup_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_embedding_forward(cu->stream, cu_op_type(call->op), call->out.data, call->param[0],
						   &lookup),
			      call->op->name);
}

static enum sl_err embedding_backward(const struct sl_op_call *call)
{
	const struct cu_lookup lookup = lookup_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->grad[0])
		return err;
	return cu_check(
		cu, cu_embedding_backward(cu->stream, cu_op_type(call->op), call->grad[0], call->dout.data, &lookup),
		call->op->name);
}

const struct sl_kernel cu_op_embedding = {.forward = embedding_forward, .backward = embedding_backward};
