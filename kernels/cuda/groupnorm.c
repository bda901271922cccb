/* Group norm. Saved, for each row and channel: its group's mean and 1/σ. */
#include "kernels/cuda/cuda.h"

enum { GAMMA, BETA };

static struct cu_groupnorm norm_of(const struct sl_op_call *call, const struct sl_shape *s)
{
	const struct sl_op *op = call->op;
	const int64_t c = cu_channels(s);

	return (struct cu_groupnorm){.rows = s->dim[0],
				     .pixels = sl_shape_row(s) / c,
				     .c = c,
				     .groups = op->u.groupnorm.groups,
				     .eps = op->u.groupnorm.eps,
				     .x = call->in[0].data,
				     .gamma = op->n_param ? call->param[GAMMA] : NULL,
				     .beta = op->n_param ? call->param[BETA] : NULL,
				     .stat = call->saved,
				     .sums = call->workspace};
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_shape *s = &p->op->in_shape[0];
	const size_t bytes = (size_t)(s->dim[0] * cu_channels(s)) * 2 * sizeof(float);

	p->sizes = (struct sl_op_sizes){.workspace_bytes = bytes, .saved_bytes = bytes};
	return SL_OK;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct cu_groupnorm g = norm_of(call, &call->out.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu, cu_groupnorm_forward(cu->stream, cu_op_type(call->op), call->out.data, &g),
			      call->op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct cu_groupnorm g = norm_of(call, &call->dout.shape);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	return err ? err
		   : cu_check(cu,
			      cu_groupnorm_backward(cu->stream, cu_op_type(call->op), call->din[0].data,
						    call->din_add[0], g.gamma ? call->grad[GAMMA] : NULL,
						    g.gamma ? call->grad[BETA] : NULL, call->dout.data, &g),
			      call->op->name);
}

const struct sl_kernel cu_op_groupnorm = {.prepare = prepare, .forward = forward, .backward = backward};
