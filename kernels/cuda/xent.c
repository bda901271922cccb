/* Softmax cross-entropy. Saved: softmax as float [N, K], then the labels [N]. The sums reach the caller's memory when
 * the next fence has passed. */
#include "kernels/cuda/cuda.h"

static size_t labels_at(const struct sl_op *op)
{
	return cu_align((size_t)sl_shape_count(&op->in_shape[0]) * sizeof(float));
}

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	const size_t n = (size_t)op->in_shape[0].dim[0];

	(void)be;
	(void)fail;
	*state = NULL;
	*sizes = (struct sl_op_sizes){.workspace_bytes = n * (sizeof(double) + sizeof(int32_t)),
				      .saved_bytes = labels_at(op) + n * sizeof(int32_t)};
	return SL_OK;
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	const int64_t n = in[0].shape.dim[0], k = op->u.xent.classes;
	double *row_loss = call->workspace;
	int32_t *labels = (int32_t *)((char *)call->saved + labels_at(op)), *row_correct = (int32_t *)(row_loss + n);
	struct cu_xent_result *result;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	(void)out;
	if (err)
		return err;
	if (cu->results - atomic_load_explicit(&cu->results_delivered, memory_order_acquire) >= CU_RESULTS)
		return SL_ERR_LIMIT;
	result = &cu->result[cu->results % CU_RESULTS];
	err = cu_check(cu, cu_labels_store(cu->stream, labels, call->labels, n), op->name);
	if (!err)
		err = cu_check(cu,
			       cu_xent_forward(cu->stream, result, call->saved, row_loss, row_correct, in[0].data,
					       labels, n, k),
			       op->name);
	if (err)
		return err;
	cu->result_to[cu->results++ % CU_RESULTS] =
		(struct cu_result){.loss_sum = call->loss_sum, .correct = call->correct};
	return SL_OK;
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	const int32_t *labels = (const int32_t *)((const char *)call->saved + labels_at(op));
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)state;
	(void)in;
	(void)out;
	(void)dout;
	if (err || !din[0].data)
		return err;
	return cu_check(cu,
			cu_xent_backward(cu->stream, din[0].data, din_add[0], call->saved, labels, call->loss_scale,
					 din[0].shape.dim[0], op->u.xent.classes),
			op->name);
}

const struct sl_kernel cu_xent = {.prepare = prepare, .forward = forward, .backward = backward};
