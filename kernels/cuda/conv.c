/* Convolution. 1×1 with stride 1 is one matrix product with M = N·H·W; depthwise has kernels of its own.
 * Other dense convolutions use cuDNN. If it is missing, or has no algorithm that gives the same bits in every
 * run, they use patches (im2col) and a matrix product.
 *   out[M,O] = x[M,I] · w[O,I]^T     dx[M,I] = dout[M,O] · w[O,I]     dw[O,I] += dout[M,O]^T · x[M,I]
 * Groups of several channels, and dilation, have plain kernels of their own. A depthwise one may do half of the
 * work of a batch norm in front, or that of an activation; its workspace is [2, C] statistics of eval mode | partial
 * sums.
 * In 16 bits cuDNN would return dw in 16 bits, too. So there dw is always a matrix product, with fp32 sums
 * and result. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { WEIGHT, BIAS };
enum path { POINTWISE, DEPTHWISE, GROUPED, DENSE };

/* Patches of more images at once would only cost memory. dnn_budget: the largest workspace of a cuDNN
 * algorithm. */
static const size_t patch_budget = (size_t)64 << 20;
static const size_t dnn_budget = (size_t)256 << 20;

struct conv {
	enum path path;
	struct cu_gemm_type product, wide_product; /* wide: with an fp32 result */
	struct cu_window win;                      /* for the largest chunk */
	int groups, dilation;
	bool depthwise;
	int64_t out_c;
	struct dnn_conv *dnn; /* DENSE, may be NULL */
	int64_t patch_images; /* DENSE: images whose patches the workspace holds */
};

static struct cu_window window_at(const struct conv *cv, int64_t rows)
{
	struct cu_window win = cv->win;

	win.n = rows;
	return win;
}

static int64_t patch_len(const struct cu_window *win)
{
	return (int64_t)win->kh * win->kw * win->c;
}

static void release(void *state)
{
	struct conv *cv = state;

	if (cv)
		dnn_conv_close(cv->dnn);
	free(cv);
}

/* The workspace of a dense convolution holds cuDNN's workspace or the patches. */
static enum sl_err prepare_dense(struct cuda *cu, struct conv *cv, enum sl_precision precision, size_t *workspace,
				 struct sl_fail *fail)
{
	const size_t image = (size_t)(cv->win.ho * cv->win.wo * patch_len(&cv->win)) * sizeof(float);
	enum sl_err err;

	cv->patch_images = image < patch_budget ? (int64_t)(patch_budget / image) : 1;
	if (cv->patch_images > cv->win.n)
		cv->patch_images = cv->win.n;
	*workspace = (size_t)cv->patch_images * image;
	if (!cu->dnn)
		return SL_OK;
	err = dnn_conv_open(&cv->dnn, cu->dnn, &cv->win, cv->out_c, precision, cu->options.inexact_order, dnn_budget,
			    fail);
	if (!err && dnn_conv_workspace(cv->dnn) > *workspace)
		*workspace = dnn_conv_workspace(cv->dnn);
	return err;
}

static enum sl_err prepare_pointwise(struct cuda *cu, const struct conv *cv)
{
	const int64_t m = cv->win.n * cv->win.ho * cv->win.wo, o = cv->out_c, i = cv->win.c;
	enum sl_err err = cu_gemm_prepare(cu, cv->product, false, true, m, o, i);

	if (!err)
		err = cu_gemm_prepare(cu, cv->product, false, false, m, i, o);
	return err ? err : cu_gemm_prepare(cu, cv->wide_product, true, false, o, i, m);
}

static enum path path_of(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;
	const bool depthwise = sl_op_is_depthwise(op);

	return (a->groups > 1 && !depthwise) || (a->dilation > 1 && (a->kh > 1 || a->kw > 1)) ? GROUPED
	       : depthwise                                                                    ? DEPTHWISE
	       : a->kh == 1 && a->kw == 1 && a->stride == 1 && a->pad == 0                    ? POINTWISE
											      : DENSE;
}

static struct cu_window window_of(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;

	return cu_window_of(&op->in_shape[0], &op->out_shape, a->kh, a->kw, a->stride, a->pad);
}

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	struct cu_window win;

	if (form.post != SL_POST_NONE || form.pre == SL_PRE_NONE)
		return form.post == SL_POST_NONE;
	win = window_of(op);
	return form.pre != SL_PRE_LINEAR && form.pre != SL_PRE_WINDOW && path_of(op) == DEPTHWISE &&
	       cu_depthwise_bytes(&win) > 0;
}

static size_t stats_bytes(const struct conv *cv)
{
	return cu_align(2 * (size_t)cv->win.c * sizeof(float));
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	const struct sl_conv_attr *a = &op->u.conv;
	struct conv *cv = calloc(1, sizeof(*cv));
	size_t workspace = 0, bias;
	struct cuda *cu;
	enum sl_err err = cu_enter(p->be, &cu);

	if (!cv)
		return sl_fail_set(p->fail, SL_ERR_NOMEM, "%s: no memory for its state", op->name);
	if (err) {
		sl_fail_set(p->fail, err, "%s: the device has failed", op->name);
		goto fail;
	}
	cv->win = window_of(op);
	cv->out_c = a->out_c;
	cv->product = cu_product(op);
	cv->wide_product = cu_wide_product(op);
	cv->groups = a->groups;
	cv->dilation = a->dilation;
	cv->depthwise = sl_op_is_depthwise(op);
	cv->path = path_of(op);
	if (cv->path == DEPTHWISE)
		workspace = stats_bytes(cv) + cu_depthwise_bytes(&cv->win);
	if (cv->path == DENSE)
		err = prepare_dense(cu, cv, op->precision, &workspace, p->fail);
	if (cv->path == POINTWISE && prepare_pointwise(cu, cv))
		err = sl_fail_set(p->fail, SL_ERR_DEVICE, "%s: cuBLAS has no product of its shape", op->name);
	if (err)
		goto fail;
	bias = a->bias ? cu_columns_bytes(a->out_c) : 0;
	p->sizes = (struct sl_op_sizes){.workspace_bytes = workspace > bias ? workspace : bias};
	p->state = cv;
	return SL_OK;
fail:
	release(cv);
	return err;
}

/* The images from `first` on whose patches fit in the workspace. */
static struct cu_window patch_part(const struct conv *cv, int64_t first, int64_t rows)
{
	return window_at(cv, rows - first < cv->patch_images ? rows - first : cv->patch_images);
}

/* The i-th image of a tensor shaped like the input, and of one shaped like the output. */
static void *in_image(const struct conv *cv, const void *x, int64_t i)
{
	return cu_at(x, cv->product.in, i * cv->win.h * cv->win.w * cv->win.c);
}

static void *out_image(const struct conv *cv, const void *out, int64_t i)
{
	return cu_at(out, cv->product.in, i * cv->win.ho * cv->win.wo * cv->out_c);
}

static enum sl_err dense_forward(struct cuda *cu, struct conv *cv, void *patches, const void *w, const void *x,
				 void *out, int64_t rows)
{
	enum sl_err err = SL_ERR_UNAVAILABLE;

	if (cv->dnn && dnn_conv_has(cv->dnn, DNN_FORWARD, rows))
		err = dnn_conv_forward(cv->dnn, out, x, w, patches);
	if (err != SL_ERR_UNAVAILABLE)
		return err;
	err = SL_OK;
	for (int64_t i = 0; i < rows && !err; i += cv->patch_images) {
		const struct cu_window win = patch_part(cv, i, rows);
		const int64_t m = win.n * win.ho * win.wo;

		err = cu_check(cu, cu_im2col(cu->stream, cv->product.in, patches, in_image(cv, x, i), 0, m, &win),
			       "im2col");
		if (!err)
			err = cu_gemm(cu, cv->product, out_image(cv, out, i), patches, false, w, true, m, cv->out_c,
				      patch_len(&win), 0);
	}
	return err;
}

static enum sl_err dense_data(struct cuda *cu, struct conv *cv, void *patches, const void *w, const void *dout,
			      void *dx, bool add, int64_t rows)
{
	enum sl_err err = SL_ERR_UNAVAILABLE;

	if (cv->dnn && dnn_conv_has(cv->dnn, DNN_DATA, rows))
		err = dnn_conv_data(cv->dnn, dx, add, dout, w, patches);
	if (err != SL_ERR_UNAVAILABLE)
		return err;
	err = SL_OK;
	for (int64_t i = 0; i < rows && !err; i += cv->patch_images) {
		const struct cu_window win = patch_part(cv, i, rows);

		err = cu_gemm(cu, cv->wide_product, patches, out_image(cv, dout, i), false, w, false,
			      win.n * win.ho * win.wo, patch_len(&win), cv->out_c, 0);
		if (!err)
			err = cu_check(cu,
				       cu_col2im(cu->stream, cv->product.in, in_image(cv, dx, i), add, patches, &win),
				       "col2im");
	}
	return err;
}

static enum sl_err dense_weight(struct cuda *cu, struct conv *cv, void *patches, float *dw, const void *dout,
				const void *x, int64_t rows)
{
	enum sl_err err = SL_ERR_UNAVAILABLE;

	if (cv->dnn && cv->product.in == CU_F32 && dnn_conv_has(cv->dnn, DNN_WEIGHT, rows))
		err = dnn_conv_weight(cv->dnn, dw, dout, x, patches);
	if (err != SL_ERR_UNAVAILABLE)
		return err;
	err = SL_OK;
	for (int64_t i = 0; i < rows && !err; i += cv->patch_images) {
		const struct cu_window win = patch_part(cv, i, rows);
		const int64_t m = win.n * win.ho * win.wo;

		err = cu_check(cu, cu_im2col(cu->stream, cv->product.in, patches, in_image(cv, x, i), 0, m, &win),
			       "im2col");
		if (!err)
			err = cu_gemm(cu, cv->wide_product, dw, out_image(cv, dout, i), true, patches, false, cv->out_c,
				      patch_len(&win), m, 1);
	}
	return err;
}

static struct cu_conv_groups grouped_at(const struct conv *cv, int64_t rows)
{
	return (struct cu_conv_groups){window_at(cv, rows), cv->out_c, cv->groups, cv->dilation, cv->depthwise};
}

/* *out: the norm or activation in front, in *at; NULL: there is none. */
static enum sl_err front_of(struct cuda *cu, const struct sl_op_call *call, struct cu_front *at,
			    const struct cu_front **out)
{
	*out = call->form.pre ? at : NULL;
	*at = (struct cu_front){.act = call->form.pre == SL_PRE_ACT ? (int)call->pre->op->u.act : 0};
	return call->form.pre == SL_PRE_NORM ? cu_bn_front(cu, call->pre, call->workspace, at) : SL_OK;
}

static enum sl_err depthwise_forward(struct cuda *cu, const struct sl_op_call *call, const struct cu_window *win)
{
	const float *bias = call->op->u.conv.bias ? call->param[BIAS] : NULL;
	const struct cu_front *front;
	struct cu_front memory;
	enum sl_err err = front_of(cu, call, &memory, &front);

	return err ? err
		   : cu_check(cu,
			      cu_depthwise_forward(cu->stream, cu_op_type(call->op), call->out.data, call->in[0].data,
						   call->param[WEIGHT], bias, front, win),
			      call->op->name);
}

static enum sl_err depthwise_backward(struct cuda *cu, const struct sl_op_call *call, const struct cu_window *win)
{
	const struct conv *cv = call->state;
	const struct cu_front *front;
	struct cu_front memory;
	enum sl_err err = front_of(cu, call, &memory, &front);

	return err ? err
		   : cu_check(cu,
			      cu_depthwise_backward(cu->stream, cu_op_type(call->op), call->din[0].data,
						    call->din_add[0], call->grad[WEIGHT], call->dout.data,
						    call->in[0].data, call->param[WEIGHT], front,
						    (char *)call->workspace + stats_bytes(cv), win),
			      call->op->name);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct conv *cv = call->state;
	const int64_t rows = call->in[0].shape.dim[0], m = rows * cv->win.ho * cv->win.wo;
	const float *bias = op->u.conv.bias ? call->param[BIAS] : NULL;
	const struct cu_window win = window_at(cv, rows);
	const struct cu_conv_groups grouped = grouped_at(cv, rows);
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	if (cv->path == GROUPED)
		return cu_check(cu,
				cu_grouped_forward(cu->stream, cu_op_type(op), call->out.data, call->in[0].data,
						   call->param[WEIGHT], bias, &grouped),
				op->name);
	if (cv->path == DEPTHWISE)
		return depthwise_forward(cu, call, &win);
	err = cv->path == POINTWISE
		      ? cu_gemm(cu, cv->product, call->out.data, call->in[0].data, false, cu_weight(call), true, m,
				cv->out_c, cv->win.c, 0)
		      : dense_forward(cu, cv, call->workspace, cu_weight(call), call->in[0].data, call->out.data, rows);
	if (!err && bias)
		err = cu_check(cu, cu_bias(cu->stream, cu_op_type(op), call->out.data, bias, m, cv->out_c), op->name);
	return err;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct conv *cv = call->state;
	const int64_t rows = call->dout.shape.dim[0], m = rows * cv->win.ho * cv->win.wo;
	const struct cu_window win = window_at(cv, rows);
	const void *x = call->in[0].data, *w = cu_weight(call);
	void *dx = call->din[0].data;
	const struct cu_conv_groups grouped = grouped_at(cv, rows);
	float *dw = call->grad[WEIGHT];
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (!err && cv->path == GROUPED)
		err = cu_check(cu,
			       cu_grouped_backward(cu->stream, cu_op_type(op), dx, call->din_add[0], dw,
						   call->dout.data, x, call->param[WEIGHT], &grouped),
			       op->name);
	if (!err && cv->path == DEPTHWISE)
		err = depthwise_backward(cu, call, &win);
	if (!err && cv->path == POINTWISE && dw)
		err = cu_gemm(cu, cv->wide_product, dw, call->dout.data, true, x, false, cv->out_c, cv->win.c, m, 1);
	if (!err && cv->path == POINTWISE && dx)
		err = cu_gemm(cu, cv->product, dx, call->dout.data, false, w, false, m, cv->win.c, cv->out_c,
			      call->din_add[0] ? 1 : 0);
	if (!err && cv->path == DENSE && dw)
		err = dense_weight(cu, cv, call->workspace, dw, call->dout.data, x, rows);
	if (!err && cv->path == DENSE && dx)
		err = dense_data(cu, cv, call->workspace, w, call->dout.data, dx, call->din_add[0], rows);
	if (!err && op->u.conv.bias && call->grad[BIAS])
		err = cu_check(cu,
			       cu_column_sums(cu->stream, call->grad[BIAS], cu_op_type(op), call->dout.data, m,
					      cv->out_c, call->workspace, cu->counters),
			       op->name);
	return err;
}

const struct sl_kernel cu_op_conv = {
	.prepare = prepare, .release = release, .forward = forward, .backward = backward, .takes = takes};
