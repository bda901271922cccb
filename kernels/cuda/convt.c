/* Transposed convolution, by the kernels of the convolution whose adjoint it is (conv.c), roles swapped: forward is
 * its gradient of the input, the gradient of the input is its forward, and the weight's is its own with what goes in
 * as the gradient that comes back. The bias is added and summed here. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { WEIGHT, BIAS };

struct convt {
	struct sl_op adjoint;
	void *conv;        /* its state */
	size_t conv_bytes; /* of its workspace; ours lies behind */
};

static void release(struct sl_backend *be, void *state)
{
	struct convt *ct = state;

	if (ct && ct->conv)
		cu_conv2d.release(be, ct->conv);
	free(ct);
}

/* Workspace: the convolution's, then the input's gradient before it is added, or what the bias's sums need. */
static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	const size_t din = (size_t)sl_shape_count(&op->in_shape[0]) * cu_type_bytes(cu_op_type(op));
	const size_t bias = cu_columns_bytes(op->u.convt.out_c);
	struct convt *ct = calloc(1, sizeof(*ct));
	enum sl_err err;

	if (!ct)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for its state", op->name);
	ct->adjoint = sl_op_convt_adjoint(op);
	err = cu_conv2d.prepare(be, &ct->adjoint, &ct->conv, sizes, fail);
	if (err) {
		free(ct);
		return err;
	}
	ct->conv_bytes = cu_align(sizes->workspace_bytes);
	sizes->workspace_bytes = ct->conv_bytes + (din > bias ? din : bias);
	*state = ct;
	return SL_OK;
}

static struct sl_tensor at(const struct sl_tensor *t, void *data)
{
	struct sl_tensor other = *t;

	other.data = data;
	return other;
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	struct convt *ct = state;
	struct sl_op_call c = *call;
	const struct sl_tensor x = at(out, NULL);
	const bool add = false;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	c.grad[WEIGHT] = c.grad[BIAS] = NULL;
	if (!err)
		err = cu_conv2d.backward(be, &ct->adjoint, ct->conv, &c, &x, NULL, &in[0], out, &add);
	if (!err && op->u.convt.bias)
		err = cu_check(cu,
			       cu_bias(cu->stream, cu_op_type(op), out->data, call->param[BIAS],
				       sl_shape_count(&out->shape) / op->u.convt.out_c, op->u.convt.out_c),
			       op->name);
	return err;
}

static enum sl_err backward_data(struct sl_backend *be, struct cuda *cu, struct convt *ct,
				 const struct sl_op_call *call, const struct sl_tensor *dout, struct sl_tensor *din,
				 bool add)
{
	struct sl_tensor to = at(din, add ? (char *)call->workspace + ct->conv_bytes : din->data);
	enum sl_err err = cu_conv2d.forward(be, &ct->adjoint, ct->conv, call, dout, &to);

	if (!err && add)
		err = cu_check(cu,
			       cu_copy(cu->stream, cu_op_type(&ct->adjoint), din->data, true, to.data,
				       sl_shape_count(&din->shape)),
			       ct->adjoint.name);
	return err;
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	struct convt *ct = state;
	struct sl_tensor none = at(dout, NULL);
	const bool add = false;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	(void)out;
	if (!err && call->grad[WEIGHT])
		err = cu_conv2d.backward(be, &ct->adjoint, ct->conv, call, dout, NULL, &in[0], &none, &add);
	if (!err && op->u.convt.bias && call->grad[BIAS])
		err = cu_check(cu,
			       cu_column_sums(cu->stream, call->grad[BIAS], cu_op_type(op), dout->data,
					      sl_shape_count(&dout->shape) / op->u.convt.out_c, op->u.convt.out_c,
					      (char *)call->workspace + ct->conv_bytes, cu->counters),
			       op->name);
	if (!err && din[0].data)
		err = backward_data(be, cu, ct, call, dout, &din[0], din_add[0]);
	return err;
}

const struct sl_kernel cu_convt2d = {.prepare = prepare, .release = release, .forward = forward, .backward = backward};
