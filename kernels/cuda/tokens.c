/* Ops of tokens: select, the first token of every row; gather, chosen tokens; embedding, a row of a table for every
 * token. */
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

const struct sl_kernel cu_select_op = {.forward = select_forward, .backward = select_backward};

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

const struct sl_kernel cu_gather_op = {.forward = gather_forward, .backward = gather_backward};

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

const struct sl_kernel cu_embedding = {.forward = embedding_forward, .backward = embedding_backward};
