/* Activation, sum, product with a constant, dropout, flatten, the optimizer. */
#include "kernels/cuda/cuda.h"

_Static_assert((int)CU_ACT_NONE == (int)SL_ACT_NONE && (int)CU_ACT_RELU == (int)SL_ACT_RELU &&
		       (int)CU_ACT_RELU6 == (int)SL_ACT_RELU6,
	       "the device's activations are numbered as the model's");

enum cu_type cu_type_of(enum sl_dtype dtype)
{
	return dtype == SL_BF16 ? CU_BF16 : dtype == SL_F16 ? CU_F16 : CU_F32;
}

static enum sl_err act_forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_act_forward(cu->stream, cu_op_type(op), call->out.data, call->in[0].data,
					     (int)op->u.act, sl_shape_count(&call->in[0].shape)),
			      op->name);
}

static enum sl_err act_backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_act_backward(cu->stream, cu_op_type(op), call->din[0].data, call->din_add[0],
					call->dout.data, call->in[0].data, (int)op->u.act,
					sl_shape_count(&call->dout.shape)),
			op->name);
}

static enum sl_err add_forward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_add(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
				     call->in[1].data, sl_shape_count(&call->in[0].shape)),
			      call->op->name);
}

/* Both inputs of a sum, and the input of flatten, get the gradient unchanged. */
static enum sl_err pass_backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	for (int k = 0; k < op->n_in && !err; k++)
		if (call->din[k].data)
			err = cu_check(cu,
				       cu_copy(cu->stream, cu_op_type(op), call->din[k].data, call->din_add[k],
					       call->dout.data, sl_shape_count(&call->dout.shape)),
				       op->name);
	return err;
}

static enum sl_err flatten_forward(const struct sl_op_call *call)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_copy(cu->stream, cu_op_type(call->op), call->out.data, false, call->in[0].data,
				      sl_shape_count(&call->in[0].shape)),
			      call->op->name);
}

/* Forward and backward are the same product. LEAKYRELU's is with 1 where its input is positive. */
static enum sl_err scale(const struct sl_op_call *call, const struct sl_tensor *out, bool add,
			 const struct sl_tensor *x, float plus)
{
	const struct sl_op *op = call->op;
	const bool leaky = op->kind == SL_OP_LEAKYRELU;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_scale(cu->stream, cu_op_type(op), out->data, add, x->data,
				       leaky ? call->in[0].data : NULL, leaky ? op->u.leaky.slope : op->u.scale.by,
				       leaky ? 0 : plus, sl_shape_count(&x->shape)),
			      op->name);
}

static enum sl_err scale_forward(const struct sl_op_call *call)
{
	return scale(call, &call->out, false, &call->in[0], call->op->u.scale.plus);
}

static enum sl_err scale_backward(const struct sl_op_call *call)
{
	return call->din[0].data ? scale(call, &call->din[0], call->din_add[0], &call->dout, 0) : SL_OK;
}

/* Forward and backward are the same product; outside training it is a copy. */
static enum sl_err dropout(const struct sl_op_call *call, const struct sl_tensor *out, bool add,
			   const struct sl_tensor *x)
{
	const struct sl_op *op = call->op;
	const struct cu_philox key = {.seed = call->rng.seed,
				      .step = call->rng.step,
				      .chunk_tensor = (uint32_t)call->rng.chunk << 16 | call->rng.tensor};
	const int64_t n = sl_shape_count(&x->shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	if (!call->training)
		return cu_check(cu, cu_copy(cu->stream, cu_op_type(op), out->data, add, x->data, n), op->name);
	if (op->most > 1 && call->dims.begin) {
		const struct cu_rows rows = {call->dims.rows, call->dims.tokens, sl_shape_row(&op->out_shape),
					     call->dims.begin};

		return cu_check(cu,
				cu_dropout_tokens(cu->stream, cu_op_type(op), out->data, add, x->data, op->u.dropout.p,
						  &key, &rows, op->most),
				op->name);
	}
	return cu_check(cu,
			cu_dropout(cu->stream, cu_op_type(op), out->data, add, x->data, op->u.dropout.p, &key,
				   cu_graphs_take_step(&cu->graphs) ? cu->step : NULL, n),
			op->name);
}

static enum sl_err dropout_forward(const struct sl_op_call *call)
{
	return dropout(call, &call->out, false, &call->in[0]);
}

static enum sl_err dropout_backward(const struct sl_op_call *call)
{
	return call->din[0].data ? dropout(call, &call->din[0], call->din_add[0], &call->dout) : SL_OK;
}

static cudaError_t sgd(struct cuda *cu, const struct sl_update *u, int64_t count, float *weight, const float *grad,
		       float *momentum)
{
	const struct cu_sgd o = {
		.lr = u->lr, .momentum = u->momentum, .weight_decay = u->weight_decay, .nesterov = u->nesterov};

	return cu_sgd(cu->stream, weight, grad, momentum, &o, count);
}

static cudaError_t adam(struct cuda *cu, const struct sl_update *u, int64_t count, float *weight, const float *grad,
			float *const moment[SL_MOMENTS_MOST])
{
	const struct cu_adam o = {.weight_decay = u->weight_decay,
				  .keep = u->keep,
				  .beta1 = u->beta1,
				  .gain1 = u->gain1,
				  .beta2 = u->beta2,
				  .gain2 = u->gain2,
				  .rate = u->rate,
				  .root = u->root,
				  .eps = u->eps};

	return cu_adam(cu->stream, weight, grad, moment[0], moment[1], &o, count);
}

enum sl_err cu_update_range(struct sl_backend *be, const struct sl_update *u, int64_t count, float *weight,
			    const float *grad, float *const moment[SL_MOMENTS_MOST])
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (err)
		return err;
	return cu_check(cu,
			u->kind == SL_OPTIMIZER_SGD ? sgd(cu, u, count, weight, grad, moment[0])
						    : adam(cu, u, count, weight, grad, moment),
			"the optimizer");
}

enum sl_err cu_convert_range(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			     const float *scale, int64_t count)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	return err ? err
		   : cu_check(cu, cu_convert(cu->stream, out, cu_type_of(to), x, cu_type_of(from), scale, count),
			      "converting");
}

const struct sl_kernel cu_op_act = {.forward = act_forward, .backward = act_backward};
const struct sl_kernel cu_op_add = {.forward = add_forward, .backward = pass_backward};
const struct sl_kernel cu_op_scale = {.forward = scale_forward, .backward = scale_backward};
const struct sl_kernel cu_op_dropout = {.forward = dropout_forward, .backward = dropout_backward};
const struct sl_kernel cu_op_flatten = {.forward = flatten_forward, .backward = pass_backward};
