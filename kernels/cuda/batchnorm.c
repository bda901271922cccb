/* Batch normalisation with its activation; the formulas are in tests/ref/batchnorm.c.
 * Saved: mean, 1/sqrt(var + eps) and biased var of the chunk, [3, C]. In eval mode the first two come from
 * the running statistics and are in the workspace. The workspace also has backward's coefficients and partial
 * sums.
 * A depthwise convolution behind may do the second half of forward and the first of backward (SL_HALF_STATS); it
 * finds what it needs by cu_bn_front, and leaves backward's coefficients in `saved`, which is then [5, C]. */
#include "kernels/cuda/cuda.h"

enum { GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR };
enum { SAVED = 3, SAVED_WITH_COEF = 5 };

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const size_t c = (size_t)p->op->u.bn.c;

	p->sizes = (struct sl_op_sizes){.workspace_bytes =
						cu_align(2 * c * sizeof(float)) * 2 + cu_columns_bytes((int64_t)c),
					.saved_bytes = (p->form.half ? SAVED_WITH_COEF : SAVED) * c * sizeof(float)};
	return SL_OK;
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	return form.pre == SL_PRE_NONE && form.post == SL_POST_NONE && form.half != SL_HALF_APPLY;
}

/* Workspace: [2, C] statistics of eval mode | [2, C] coefficients of backward | partial sums. */
static struct cu_bn describe(struct cuda *cu, const struct sl_op_call *call, float **coef)
{
	const struct sl_op *op = call->op;
	const int64_t c = op->u.bn.c;
	char *workspace = call->workspace;
	const size_t part = cu_align(2 * (size_t)c * sizeof(float));
	float *stats = call->training ? call->saved : call->workspace;

	*coef = call->form.half ? (float *)call->saved + SAVED * c : (float *)(workspace + part);
	return (struct cu_bn){.m = sl_shape_count(&call->in[0].shape) / c,
			      .c = c,
			      .type = cu_op_type(op),
			      .x = call->in[0].data,
			      .mean = stats,
			      .invstd = stats + c,
			      .var = call->training ? stats + 2 * c : NULL,
			      .weight = call->param[GAMMA],
			      .bias = call->param[BETA],
			      .eps = op->u.bn.eps,
			      .act = (int)op->u.bn.act,
			      .workspace = workspace + 2 * part,
			      .counter = cu->counters};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct cu_bn bn;
	struct cuda *cu;
	float *coef;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	bn = describe(cu, call, &coef);
	if (call->form.half && !call->training)
		return SL_OK;
	if (call->training && cu_bn_small(&bn, call->out.data, NULL))
		return cu_check(cu, cu_bn_forward_small(cu->stream, call->out.data, &bn), op->name);
	err = cu_check(cu,
		       call->training
			       ? cu_bn_statistics(cu->stream, &bn)
			       : cu_bn_running(cu->stream, &bn, call->param[RUNNING_MEAN], call->param[RUNNING_VAR]),
		       op->name);
	return err || call->form.half ? err : cu_check(cu, cu_bn_apply(cu->stream, call->out.data, &bn), op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct cu_bn bn;
	struct cuda *cu;
	float *coef;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	bn = describe(cu, call, &coef);
	if (!call->form.half && call->training && call->din[0].data &&
	    cu_bn_small(&bn, call->dout.data, call->din[0].data))
		return cu_check(cu,
				cu_bn_backward_small(cu->stream, call->din[0].data, call->din_add[0], call->grad[GAMMA],
						     call->grad[BETA], call->dout.data, &bn),
				op->name);
	if (!call->training)
		err = cu_check(cu, cu_bn_running(cu->stream, &bn, call->param[RUNNING_MEAN], call->param[RUNNING_VAR]),
			       op->name);
	if (!err && !call->form.half)
		err = cu_check(cu,
			       cu_bn_gradient_sums(cu->stream, call->grad[GAMMA], call->grad[BETA], coef,
						   call->dout.data, &bn),
			       op->name);
	if (!err && call->din[0].data)
		err = cu_check(cu,
			       cu_bn_dx(cu->stream, call->din[0].data, call->din_add[0], call->dout.data,
					call->training ? coef : NULL, &bn),
			       op->name);
	return err;
}

enum sl_err cu_bn_front(struct cuda *cu, const struct sl_op_call *bn, float *stats, struct cu_front *out)
{
	const int64_t c = bn->op->u.bn.c;
	const struct cu_bn constant = {.c = c, .mean = stats, .invstd = stats + c, .eps = bn->op->u.bn.eps};
	const float *from = bn->training ? bn->saved : stats;

	*out = (struct cu_front){.mean = from,
				 .invstd = from + c,
				 .weight = bn->param[GAMMA],
				 .bias = bn->param[BETA],
				 .act = (int)bn->op->u.bn.act,
				 .dweight = bn->grad[GAMMA],
				 .dbias = bn->grad[BETA],
				 .coef = (float *)bn->saved + SAVED * c};
	return bn->training
		       ? SL_OK
		       : cu_check(cu,
				  cu_bn_running(cu->stream, &constant, bn->param[RUNNING_MEAN], bn->param[RUNNING_VAR]),
				  bn->op->name);
}

static enum sl_err commit(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t c = op->u.bn.c, m = sl_shape_count(&call->in[0].shape) / c;
	const float *saved = call->saved;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	return cu_check(cu,
			cu_bn_commit(cu->stream, call->param[RUNNING_MEAN], call->param[RUNNING_VAR], saved,
				     saved + 2 * c, op->u.bn.momentum, m, c),
			op->name);
}

const struct sl_kernel cu_op_batchnorm = {
	.prepare = prepare, .forward = forward, .backward = backward, .commit = commit, .takes = takes};
