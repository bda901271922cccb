/* Shared by all convolution algorithms: dimensions, and the batch norms or activations computed with a
 * convolution. */
#include "kernels/cpu/conv.h"

struct sl_conv_dims sl_conv_dims_of(const struct sl_op *op, const struct sl_op *window, int64_t rows)
{
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	const struct sl_conv_attr *a = &op->u.conv;
	struct sl_conv_dims d = {rows,  in[1],     in[2],  in[3],       out[1], out[2], out[3], a->kh,
				 a->kw, a->stride, a->pad, a->dilation, NULL,   1,      1,      1};

	if (window != NULL) {
		d.window = &window->u.window;
		d.taps = window->u.window.k;
		d.slices = window->slices;
		d.n_out = window->out_shape.dim[1] / in[1];
	}
	return d;
}

static int64_t most_channels(const struct sl_conv_dims *d)
{
	return sl_cpu_max(d->c, d->o);
}

int64_t sl_conv_bn_floats(const struct sl_conv_dims *d, int64_t blocks)
{
	int64_t c = most_channels(d);

	return 2 * sl_bn_coef_floats(c) + blocks * sl_bn_part_floats(c);
}

/* Coefficients of a batchnorm that leaves x unchanged, so that an activation can be treated as a batchnorm. */
static struct sl_cpu_bn identity(int64_t c, float *memory)
{
	struct sl_cpu_bn n = {.mean = memory, .scale = memory + c, .shift = memory};

	for (int64_t k = 0; k < c; k++) {
		n.mean[k] = 0.0f;
		n.scale[k] = 1.0f;
	}
	return n;
}

struct sl_conv_bn sl_conv_bn_open(const struct sl_conv_call *call, bool backward, float *memory)
{
	int64_t c = most_channels(&call->d);
	struct sl_conv_bn bn = {
		.parts = memory + 2 * sl_bn_coef_floats(c),
		.stride = sl_bn_part_floats(backward ? call->d.c : call->d.o),
	};

	if (sl_conv_has_bn_pre(call)) {
		bn.pre = sl_bn_load(call->pre, false, memory);
		bn.act_pre = call->pre->op->u.bn.act;
	} else if (call->pre != NULL) {
		bn.pre = identity(call->d.c, memory);
		bn.act_pre = call->pre->op->u.act;
	}
	if (call->post != NULL && backward) {
		bn.post = sl_bn_load(call->post, true, memory + sl_bn_coef_floats(c));
		bn.act_post = call->post->op->u.bn.act;
	}
	return bn;
}

void sl_conv_bn_finish(const struct sl_conv_call *call, const struct sl_conv_bn *bn, int64_t blocks, bool backward)
{
	if (backward && sl_conv_has_bn_pre(call))
		sl_bn_finish_sums(call->pre, bn->parts, blocks);
	if (!backward && call->post != NULL && call->training)
		sl_bn_finish_stats(call->post, bn->parts, blocks);
}
