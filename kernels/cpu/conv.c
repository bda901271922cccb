#include "kernels/cpu/conv.h"

enum { FEW_CHANNELS = 8 };

const struct sl_conv_kernel *sl_conv_kernel_of(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;

	if (sl_conv_group_takes(op))
		return &sl_conv_group;
	if (sl_conv_wino_takes(op))
		return &sl_conv_wino;
	if (sl_conv_rows_takes(op))
		return &sl_conv_rows;
	if (!sl_op_is_depthwise(op))
		return &sl_conv_gemm;
	if (a->kh == 3 && a->kw == 3 && a->dilation == 1 && a->pad == 1 && (a->stride == 1 || a->stride == 2))
		return &sl_conv_dw3;
	return &sl_conv_dw;
}

/* Whether the kernel reads a window's slices where they are. Winograd's dX goes over as many slices as its y, and the
 * gradient that a batchnorm behind it passes on is at hand for one slice at a time. Elsewhere dX is added up part by
 * part, which takes longer than a window in memory if the parts have few channels. */
static bool takes_window(const struct sl_conv_kernel *kernel, struct sl_exec_form form)
{
	const struct sl_op *window = form.window;

	if (kernel == &sl_conv_wino)
		return form.post == SL_POST_NONE && window->u.window.stride == 1 &&
		       window->out_shape.dim[1] == window->in_shape[0].dim[1];
	return form.post != SL_POST_WHOLE && (!form.window_din || window->in_shape[0].dim[3] >= FEW_CHANNELS) &&
	       (kernel == &sl_conv_rows || kernel == &sl_conv_gemm);
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	const struct sl_conv_kernel *kernel = sl_conv_kernel_of(op);

	if (form.pre == SL_PRE_WINDOW)
		return takes_window(kernel, form);
	if (kernel == &sl_conv_dw || kernel == &sl_conv_group)
		return form.pre == SL_PRE_NONE && form.post == SL_POST_NONE;
	if (form.post == SL_POST_WHOLE)
		return form.pre == SL_PRE_NONE && sl_conv_stem_takes(op);
	return form.pre == SL_PRE_NONE || kernel == &sl_conv_dw3 || sl_conv_is_pointwise(&op->u.conv);
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;

	p->sizes = (struct sl_op_sizes){.workspace_bytes =
						sl_conv_kernel_of(op)->workspace_bytes(p->be, op, p->form.window)};
	if (sl_conv_stem_takes(op) && p->form.pre != SL_PRE_WINDOW) {
		size_t stem = sl_conv_stem.workspace_bytes(p->be, op, NULL);

		p->sizes.workspace_bytes = stem > p->sizes.workspace_bytes ? stem : p->sizes.workspace_bytes;
		p->sizes.saved_bytes = sl_conv_stem_saved_bytes(op);
	}
	return SL_OK;
}

static struct sl_conv_call call_of(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const struct sl_tensor *x = &call->in[0];

	return (struct sl_conv_call){
		.be = call->be,
		.op = op,
		.d = sl_conv_dims_of(op, call->form.window, x->shape.dim[0]),
		.x = x->data,
		.w = call->param[0],
		.bias = op->u.conv.bias ? call->param[1] : NULL,
		.training = call->training,
		.pre = call->form.pre == SL_PRE_WINDOW ? NULL : call->pre,
		.post = call->post,
		.saved = call->saved,
		.workspace = call->workspace,
	};
}

static const struct sl_conv_kernel *kernel_of(const struct sl_op_call *call)
{
	return call->form.post == SL_POST_WHOLE ? &sl_conv_stem : sl_conv_kernel_of(call->op);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct sl_conv_call c = call_of(call);

	c.y = call->out.data;
	kernel_of(call)->forward(&c);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct sl_conv_call c = call_of(call);

	c.out = call->out.data;
	c.dy = call->dout.data;
	c.dw = call->grad[0];
	c.dbias = c.bias != NULL ? call->grad[1] : NULL;
	c.dx = call->din[0].data;
	c.add = call->din[0].data != NULL && call->din_add[0];
	kernel_of(call)->backward(&c);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_conv = {.prepare = prepare, .forward = forward, .backward = backward, .takes = takes};
