/* Layer norm and RMS norm. Saved: mean and 1/σ of each row. */
#include "kernels/cuda/cuda.h"

enum { GAMMA, BETA };

static struct cu_norm norm_of(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t f = sl_op_normed(op);

	return (struct cu_norm){.m = sl_shape_count(&call->in[0].shape) / f,
				.f = f,
				.type = cu_op_type(op),
				.x = call->in[0].data,
				.weight = call->param[GAMMA],
				.bias = op->n_param > 1 ? call->param[BETA] : NULL,
				.stat = call->saved,
				.eps = op->u.norm.eps,
				.plus = op->u.norm.plus ? 1.f : -0.f,
				.centred = op->kind == SL_OP_LAYERNORM};
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const int64_t f = sl_op_normed(p->op), m = sl_shape_count(&p->op->in_shape[0]) / f;

	p->sizes = (struct sl_op_sizes){.workspace_bytes = cu_norm_bytes(m, f),
					.saved_bytes = (size_t)m * 2 * sizeof(float)};
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct cu_norm norm = norm_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err : cu_check(cu, cu_norm_forward(cu->stream, call->out.data, &norm), call->op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct cu_norm norm = norm_of(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && (call->grad[GAMMA] || call->grad[BETA]))
		err = cu_check(cu,
			       cu_norm_params(cu->stream, call->grad[GAMMA], call->grad[BETA], call->dout.data,
					      call->workspace, &norm),
			       call->op->name);
	if (!err && call->din[0].data)
		err = cu_check(cu, cu_norm_dx(cu->stream, call->din[0].data, call->din_add[0], call->dout.data, &norm),
			       call->op->name);
	return err;
}

const struct sl_kernel cu_op_layernorm = {.prepare = prepare, .forward = forward, .backward = backward};
const struct sl_kernel cu_op_rmsnorm = {.prepare = prepare, .forward = forward, .backward = backward};
