#include "kernels/cpu/conv.h"

struct sl_conv_dims sl_conv_dims_of(const struct sl_op *op, int64_t rows)
{
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	const struct sl_conv_attr *a = &op->u.conv;

	return (struct sl_conv_dims){rows,   in[1], in[2], in[3],     out[1], out[2],
				     out[3], a->kh, a->kw, a->stride, a->pad};
}

static const struct sl_conv_kernel *kernel_of(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;

	if (!sl_op_is_depthwise(op))
		return &sl_conv_gemm;
	if (a->kh == 3 && a->kw == 3 && a->pad == 1 && (a->stride == 1 || a->stride == 2))
		return &sl_conv_dw3;
	return &sl_conv_dw;
}

static enum sl_err prepare(struct sl_backend *be, const struct sl_op *op, void **state, struct sl_op_sizes *sizes,
			   struct sl_fail *fail)
{
	(void)state;
	(void)fail;
	*sizes = (struct sl_op_sizes){.workspace_bytes = kernel_of(op)->workspace_bytes(be, op)};
	return SL_OK;
}

static struct sl_conv_call call_of(struct sl_backend *be, const struct sl_op *op, const struct sl_op_call *call,
				   const struct sl_tensor *x)
{
	return (struct sl_conv_call){
		.be = be,
		.op = op,
		.d = sl_conv_dims_of(op, x->shape.dim[0]),
		.x = x->data,
		.w = call->param[0],
		.bias = op->u.conv.bias ? call->param[1] : NULL,
		.workspace = call->workspace,
	};
}

static enum sl_err forward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			   const struct sl_tensor *in, struct sl_tensor *out)
{
	struct sl_conv_call c = call_of(be, op, call, &in[0]);

	(void)state;
	c.y = out->data;
	kernel_of(op)->forward(&c);
	return SL_OK;
}

static enum sl_err backward(struct sl_backend *be, const struct sl_op *op, void *state, const struct sl_op_call *call,
			    const struct sl_tensor *in, const struct sl_tensor *out, const struct sl_tensor *dout,
			    struct sl_tensor *din, const bool *din_add)
{
	struct sl_conv_call c = call_of(be, op, call, &in[0]);

	(void)state;
	(void)out;
	c.dy = dout->data;
	c.dw = call->grad[0];
	c.dbias = c.bias != NULL ? call->grad[1] : NULL;
	c.dx = din[0].data;
	c.add = din[0].data != NULL && din_add[0];
	kernel_of(op)->backward(&c);
	return SL_OK;
}

const struct sl_kernel sl_cpu_conv = {prepare, NULL, forward, backward, NULL};
