/* lookup: a row of a table for every number of a row. */
#include "kernels/cuda/lookup.h"
#include "kernels/cuda/cuda.h"

static struct cu_ids ids_of(const struct sl_op_call *call)
{
	const struct sl_lookup_attr *a = &call->op->u.lookup;

	return (struct cu_ids){call->in[0].data, sl_shape_count(&call->in[0].shape), a->rows, a->features};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct cu_ids ids = ids_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_lookup_forward(cu->stream, cu_op_type(call->op), call->out.data, call->param[0], &ids),
			      call->op->name);
}

/* Ids have no gradient. */
static enum sl_err backward(const struct sl_op_call *call)
{
	const struct cu_ids ids = ids_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && call->grad[0])
		err = cu_check(
			cu, cu_lookup_backward(cu->stream, cu_op_type(call->op), call->grad[0], call->dout.data, &ids),
			call->op->name);
	if (!err && call->din[0].data && !call->din_add[0])
		err = call->be->ops->zero(call->be, call->din[0].data,
					  (size_t)ids.n * (cu_op_type(call->op) == CU_F32 ? 4 : 2));
	return err;
}

const struct sl_kernel cu_op_lookup = {.forward = forward, .backward = backward};
