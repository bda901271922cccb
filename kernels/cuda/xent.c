/* Softmax cross-entropy. Saved: softmax as float [N, K], then the labels [N]; for mixed rows also the other
 * labels and the shares, [N] each. The sums reach the caller's memory when the next fence has passed. */
#include "kernels/cuda/cuda.h"

static size_t labels_at(const struct sl_op *op)
{
	return cu_align((size_t)sl_shape_count(&op->in_shape[0]) * sizeof(float));
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const size_t n = (size_t)sl_xent_rows(&p->op->in_shape[0]);

	if (p->op->u.xent.fn != SL_XENT_ENTROPY)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "%s: a GPU computes no Dice loss: take device: cpu",
				   p->op->name);
	p->sizes = (struct sl_op_sizes){.workspace_bytes = n * (sizeof(double) + sizeof(int32_t)),
					.saved_bytes = labels_at(p->op) + 3 * n * sizeof(int32_t)};
	return SL_OK;
}

/* `labels`: saved labels in device memory, followed by the other labels and the shares. */
static struct cu_xent_rule rule_of(const struct sl_op_call *call, const int32_t *labels, int64_t n)
{
	struct cu_xent_rule rule = {call->rule.smoothing, call->rule.ignores, call->rule.ignored, NULL, NULL};

	if (call->rule.other) {
		rule.other = labels + n;
		rule.share = (const float *)(labels + 2 * n);
	}
	return rule;
}

static cudaError_t store_labels(const struct cuda *cu, const struct sl_op_call *call, int32_t *labels, int64_t n)
{
	cudaError_t err = cu_labels_store(cu->stream, labels, call->labels, n);

	if (!err && call->rule.other)
		err = cu_labels_store(cu->stream, labels + n, call->rule.other, n);
	if (!err && call->rule.other) /* the floats' bits */
		err = cu_labels_store(cu->stream, labels + 2 * n, (const int32_t *)call->rule.share, n);
	return err;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int64_t n = sl_xent_rows(&call->in[0].shape), k = op->u.xent.classes;
	double *row_loss = call->workspace;
	int32_t *labels = (int32_t *)((char *)call->saved + labels_at(op)), *row_correct = (int32_t *)(row_loss + n);
	struct cu_xent_result *result;
	struct cuda *cu;
	/* only clients have class weights, and they compute their ends on a CPU */
	enum sl_err err = call->rule.weight ? SL_ERR_BUG : cu_enter(call->be, &cu);

	if (!err)
		err = cu_result_place(cu, &result);
	if (err)
		return err;
	err = cu_check(cu, store_labels(cu, call, labels, n), op->name);
	if (!err)
		err = cu_check(cu,
			       cu_xent_forward(cu->stream, result, call->saved, row_loss, row_correct, call->in[0].data,
					       labels, rule_of(call, labels, n), n, k),
			       op->name);
	if (!err)
		cu_result_take(cu, call);
	return err;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const int32_t *labels = (const int32_t *)((const char *)call->saved + labels_at(op));
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || !call->din[0].data)
		return err;
	return cu_check(cu,
			cu_xent_backward(cu->stream, call->din[0].data, call->din_add[0], call->saved, labels,
					 rule_of(call, labels, sl_xent_rows(&call->din[0].shape)), call->loss_scale,
					 sl_xent_rows(&call->din[0].shape), op->u.xent.classes),
			op->name);
}

const struct sl_kernel cu_op_xent = {.prepare = prepare, .forward = forward, .backward = backward};
