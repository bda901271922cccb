/* Transposed convolution, by the kernels of the convolution whose adjoint it is (conv.c), with swapped roles.
 * Forward is that convolution's input gradient; the input gradient is its forward. The weight gradient is
 * that convolution's own, with input and output gradient swapped. The bias is added and its gradient summed
 * here. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { WEIGHT, BIAS };

struct convt {
	struct sl_op adjoint;
	void *conv;        /* the convolution's state */
	size_t conv_bytes; /* the convolution's workspace; this op's own part is behind it */
};

static void release(void *state)
{
	struct convt *ct = state;

	if (ct && ct->conv)
		cu_op_conv.release(ct->conv);
	free(ct);
}

/* Workspace: the convolution's, then either the input's gradient before it is added to din, or the bias's
 * sums. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	const size_t din = (size_t)sl_shape_count(&op->in_shape[0]) * cu_type_bytes(cu_op_type(op));
	const size_t bias = cu_columns_bytes(op->u.convt.out_c);
	struct convt *ct = calloc(1, sizeof(*ct));
	struct sl_op_prepare conv;
	enum sl_err err;

	if (!ct)
		return sl_fail_set(p->fail, SL_ERR_NOMEM, "%s: no memory for its state", op->name);
	ct->adjoint = sl_op_convt_adjoint(op);
	conv = (struct sl_op_prepare){.be = p->be, .op = &ct->adjoint, .fail = p->fail};
	err = cu_op_conv.prepare(&conv);
	if (err) {
		free(ct);
		return err;
	}
	ct->conv = conv.state;
	ct->conv_bytes = cu_align(conv.sizes.workspace_bytes);
	p->sizes = conv.sizes;
	p->sizes.workspace_bytes = ct->conv_bytes + (din > bias ? din : bias);
	p->state = ct;
	return SL_OK;
}

/* A call of the convolution. The caller sets its tensors and the gradients of parameters. */
static struct sl_op_call conv_call(const struct sl_op_call *call)
{
	const struct convt *ct = call->state;
	struct sl_op_call c = *call;

	c.op = &ct->adjoint;
	c.state = ct->conv;
	c.in[0] = c.out = c.dout = c.din[0] = (struct sl_tensor){.dtype = call->in[0].dtype};
	c.din_add[0] = false;
	c.grad[WEIGHT] = c.grad[BIAS] = NULL;
	return c;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct sl_op_call c = conv_call(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	c.dout = call->in[0];
	c.din[0] = call->out;
	if (!err)
		err = cu_op_conv.backward(&c);
	if (!err && op->u.convt.bias)
		err = cu_check(cu,
			       cu_bias(cu->stream, cu_op_type(op), call->out.data, call->param[BIAS],
				       sl_shape_count(&call->out.shape) / op->u.convt.out_c, op->u.convt.out_c),
			       op->name);
	return err;
}

static void *own_workspace(const struct sl_op_call *call)
{
	return (char *)call->workspace + ((const struct convt *)call->state)->conv_bytes;
}

static enum sl_err backward_data(struct cuda *cu, const struct sl_op_call *call)
{
	const struct sl_tensor *din = &call->din[0];
	struct sl_op_call c = conv_call(call);
	enum sl_err err;

	c.in[0] = call->dout;
	c.out = *din;
	if (call->din_add[0])
		c.out.data = own_workspace(call);
	err = cu_op_conv.forward(&c);
	if (!err && call->din_add[0])
		err = cu_check(cu,
			       cu_copy(cu->stream, cu_op_type(call->op), din->data, true, c.out.data,
				       sl_shape_count(&din->shape)),
			       call->op->name);
	return err;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct sl_op_call weight = conv_call(call);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	weight.in[0] = call->dout;
	weight.dout = call->in[0];
	weight.grad[WEIGHT] = call->grad[WEIGHT];
	if (!err && call->grad[WEIGHT])
		err = cu_op_conv.backward(&weight);
	if (!err && op->u.convt.bias && call->grad[BIAS])
		err = cu_check(cu,
			       cu_column_sums(cu->stream, call->grad[BIAS], cu_op_type(op), call->dout.data,
					      sl_shape_count(&call->dout.shape) / op->u.convt.out_c, op->u.convt.out_c,
					      own_workspace(call), cu->counters),
			       op->name);
	if (!err && call->din[0].data)
		err = backward_data(cu, call);
	return err;
}

const struct sl_kernel cu_op_convt = {.prepare = prepare, .release = release, .forward = forward, .backward = backward};
