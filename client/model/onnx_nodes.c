/* Kinds of nodes of an ONNX file, one reader each: what it refuses, and which of our nodes it makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_nodes.h"

/* ---- windows */

struct window {
	int k, stride, pad, dilation;
};

static void check_auto_pad(struct sl_onnx_import *im)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "auto_pad", SL_ONNX_ATTR_STRING);

	if (a && (a->s.len != 6 || memcmp(a->s.data, "NOTSET", 6) != 0))
		sl_onnx_refuse(im, "auto_pad %.*s is not read; export with explicit pads",
			       (int)(a->s.len < 20 ? a->s.len : 20), a->s.data ? (const char *)a->s.data : "");
}

static struct window read_window(struct sl_onnx_import *im)
{
	struct window w;

	check_auto_pad(im);
	w.k = sl_onnx_same_ints(im, "kernel_shape", 2, 0, "windows are square here");
	w.stride = sl_onnx_same_ints(im, "strides", 2, 1, "strides are the same in both directions here");
	w.pad = sl_onnx_same_ints(im, "pads", 4, 0, "padding is the same on all sides here");
	w.dilation = sl_onnx_same_ints(im, "dilations", 2, 1, "dilation is the same in both directions here");
	if (!im->b->err && (w.stride < 1 || w.dilation < 1))
		sl_onnx_refuse(im, "stride %d, dilation %d: both are at least 1", w.stride, w.dilation);
	return w;
}

/* Where windows end with the image, counting up is counting down. */
static void check_ceil(struct sl_onnx_import *im, int in, struct window w)
{
	const struct sl_shape s = sl_build_shape(im->b, in);

	if (!im->b->err && sl_onnx_attr_int(im, "ceil_mode", 0) &&
	    ((s.dim[1] + 2 * w.pad - w.k) % w.stride || (s.dim[2] + 2 * w.pad - w.k) % w.stride))
		sl_onnx_refuse(im,
			       "ceil_mode adds a window beyond the border of an image of %lldx%lld, which is not read; "
			       "take another size of images, or ceil_mode=False",
			       (long long)s.dim[1], (long long)s.dim[2]);
}

/* ---- kinds */

static void read_conv(struct sl_onnx_import *im)
{
	int border;
	const int x = sl_onnx_padded_in(im, &border), before = im->n_param;
	const struct window w = read_window(im);
	const int64_t groups = sl_onnx_attr_int(im, "group", 1), in_c = im->b->err ? 1 : sl_onnx_last_of(im, x);
	const Onnx__Tensor *weight = sl_onnx_param_in(im, 1, 4), *bias;
	char text[SL_ONNX_DIMS_TEXT];

	if (!weight)
		return;
	if (weight->dims[2] != weight->dims[3] || (w.k && w.k != weight->dims[2])) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s; windows are square here", weight->name,
			       sl_onnx_dims_text(weight, text));
		return;
	}
	if (groups < 1 || groups > SL_ONNX_MOST || in_c % groups || weight->dims[0] % groups ||
	    weight->dims[1] != in_c / groups) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which does not fit %lld channels in %lld groups",
			       weight->name, sl_onnx_dims_text(weight, text), (long long)in_c, (long long)groups);
		return;
	}
	bias = im->node->n_input > 2 && im->node->input[2][0] ? sl_onnx_param_in(im, 2, 1) : NULL;
	if (im->b->err || (bias && !sl_onnx_vector_of(im, bias, weight->dims[0])))
		return;
	sl_onnx_use_params(im, before);
	sl_onnx_out(im,
		    sl_build_conv_from(im->b, im->name, x,
				       (struct sl_build_window){.out_c = (int)weight->dims[0],
								.k = (int)weight->dims[2],
								.stride = w.stride,
								.pad = w.pad + border,
								.dilation = w.dilation,
								.groups = (int)groups,
								.bias = bias},
				       (struct sl_init){SL_INIT_ZERO, 0}),
		    false);
}

/* The file has what the old value keeps, as a float of few digits: 0.9 for torch's momentum of 0.1. */
static float torch_momentum(float kept)
{
	char text[32];

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)kept);
		if (strtof(text, NULL) == kept)
			break;
	}
	return (float)(1.0 - strtod(text, NULL));
}

static void read_batchnorm(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im), before = im->n_param;
	const float eps = sl_onnx_attr_float(im, "epsilon", 1e-5f), kept = sl_onnx_attr_float(im, "momentum", 0.9f);
	/* Before opset 14 a node in training has five outputs. */
	const bool training =
		im->onnx->opset >= 14 ? sl_onnx_attr_int(im, "training_mode", 0) == 1 : im->node->n_output == 5;

	if (!im->b->err && !training)
		sl_onnx_refuse(im, "it is of a network in evaluation; export model.train() with "
				   "training=TrainingMode.TRAINING");
	if (!im->b->err && (!(eps >= 1e-30f && eps <= 1) || !(kept >= 0 && kept <= 1)))
		sl_onnx_refuse(im, "epsilon %g and momentum %g do not lie in 0 … 1", (double)eps, (double)kept);
	for (size_t i = 1; i <= 4 && !im->b->err; i++)
		(void)!sl_onnx_vector_of(im, sl_onnx_param_in(im, i, 1), sl_onnx_last_of(im, x));
	if (im->b->err)
		return;
	sl_onnx_use_params(im, before);
	sl_onnx_out(im, sl_build_bn_with(im->b, im->name, x, SL_INIT_ONE, eps, torch_momentum(kept)), false);
}

static void read_act(struct sl_onnx_import *im, enum sl_act act)
{
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted);

	if (x >= 0)
		sl_onnx_out(im, sl_build_act(im->b, im->name, x, act), permuted);
}

static void read_relu(struct sl_onnx_import *im)
{
	read_act(im, SL_ACT_RELU);
}

static void read_clip(struct sl_onnx_import *im)
{
	float low, high;

	if (!sl_onnx_scalar_in(im, 1, &low) || !sl_onnx_scalar_in(im, 2, &high) || low != 0 || high != 6)
		sl_onnx_refuse(im, "its bounds are not constants 0 and 6: of clips ReLU6 is read");
	read_act(im, SL_ACT_RELU6);
}

static void read_dropout(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *mode = sl_onnx_in(im, 2);
	float p = 0.5f;
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted);

	if (im->b->err)
		return;
	if (!mode || !mode->constant || mode->constant->data_type != SL_ONNX_BOOL ||
	    sl_onnx_count(mode->constant) != 1 ||
	    !(mode->constant->has_raw_data ? mode->constant->raw_data.data[0] : mode->constant->int32_data[0])) {
		sl_onnx_refuse(im, "its training_mode is not the constant true; export model.train() with "
				   "training=TrainingMode.TRAINING");
		return;
	}
	if ((im->node->input[1][0] && !sl_onnx_scalar_in(im, 1, &p)) || !(p >= 0 && p < 1)) {
		sl_onnx_refuse(im, "its ratio is no constant in [0, 1)");
		return;
	}
	sl_onnx_out(im, p > 0 ? sl_build_dropout(im->b, im->name, x, p) : x, permuted);
}

static void read_smooth(struct sl_onnx_import *im, enum sl_op_kind kind)
{
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted);

	if (x >= 0)
		sl_onnx_out(im, sl_build_smooth(im->b, im->name, x, kind, false), permuted);
}

static void read_sigmoid(struct sl_onnx_import *im)
{
	read_smooth(im, SL_OP_SIGMOID);
}

static void read_hard_sigmoid(struct sl_onnx_import *im)
{
	const float alpha = sl_onnx_attr_float(im, "alpha", 0.2f), beta = sl_onnx_attr_float(im, "beta", 0.5f);

	if (alpha != (float)(1.0 / 6) || beta != 0.5f)
		sl_onnx_refuse(im, "alpha %g and beta %g are not 1/6 and 1/2: torch.nn.Hardsigmoid's are read",
			       (double)alpha, (double)beta);
	read_smooth(im, SL_OP_HARDSIGMOID);
}

static void read_hard_swish(struct sl_onnx_import *im)
{
	read_smooth(im, SL_OP_HARDSWISH);
}

static void read_tanh(struct sl_onnx_import *im)
{
	read_smooth(im, SL_OP_TANH);
}

/* x times a constant, if input `i` is one of one element. */
static bool read_scale(struct sl_onnx_import *im, size_t i)
{
	bool permuted;
	float by;
	int x;

	if (im->b->err || !sl_onnx_scalar_in(im, i, &by))
		return false;
	x = sl_onnx_data_in(im, 1 - i, 0, &permuted);
	if (!(by >= -1e30f && by <= 1e30f))
		sl_onnx_refuse(im, "its factor is %g", (double)by);
	if (!im->b->err)
		sl_onnx_out(im, sl_build_scale(im->b, im->name, x, by), permuted);
	return true;
}

static bool is_plane_of_one(const struct sl_shape *s)
{
	return s->ndim == 4 && s->dim[1] == 1 && s->dim[2] == 1;
}

/* Of one shape, element by element; or an image's channels by numbers of their own (squeeze and excitation). */
static void read_mul(struct sl_onnx_import *im)
{
	bool permuted[2];
	int x, y;
	struct sl_shape a, b;

	if (read_scale(im, 1) || read_scale(im, 0))
		return;
	x = sl_onnx_data_in(im, 0, 0, &permuted[0]);
	y = sl_onnx_data_in(im, 1, 0, &permuted[1]);
	if (im->b->err)
		return;
	a = sl_build_shape(im->b, x);
	b = sl_build_shape(im->b, y);
	if (permuted[0] || permuted[1])
		sl_onnx_refuse(im, "it multiplies flattened images, which is not read");
	else if (sl_shape_equal(&a, &b))
		sl_onnx_out(im, sl_build_mul(im->b, im->name, x, y), false);
	else if (a.ndim == 4 && is_plane_of_one(&b) && a.dim[3] == b.dim[3])
		sl_onnx_out(im, sl_build_pair(im->b, im->name, SL_OP_GATE, x, y), false);
	else if (b.ndim == 4 && is_plane_of_one(&a) && a.dim[3] == b.dim[3])
		sl_onnx_out(im, sl_build_pair(im->b, im->name, SL_OP_GATE, y, x), false);
	else
		sl_onnx_refuse(im, "it multiplies values whose shapes are neither one nor [C, H, W] and [C, 1, 1]");
}

static void read_add(struct sl_onnx_import *im)
{
	bool permuted[2];
	const int x = sl_onnx_data_in(im, 0, 0, &permuted[0]), y = sl_onnx_data_in(im, 1, 0, &permuted[1]);
	struct sl_shape a, b;

	if (im->b->err)
		return;
	a = sl_build_shape(im->b, x);
	b = sl_build_shape(im->b, y);
	if (!sl_shape_equal(&a, &b) || permuted[0] || permuted[1]) {
		sl_onnx_refuse(im, permuted[0] || permuted[1]
					   ? "it adds flattened images, which is not read"
					   : "it adds values of different shapes, which is not read");
		return;
	}
	sl_onnx_out(im, sl_build_add(im->b, im->name, x, y), false);
}

static void read_pool(struct sl_onnx_import *im, enum sl_op_kind kind, int x, int border)
{
	struct window w = read_window(im);

	w.pad += border;
	if (!im->b->err && (w.k < 1 || w.dilation != 1))
		sl_onnx_refuse(im, w.k < 1 ? "it has no kernel_shape" : "dilation of pools is not read");
	if (im->b->err)
		return;
	check_ceil(im, x, w);
	if (w.k == 1 && w.stride == 1 && !w.pad)
		sl_onnx_out(im, x, false);
	else
		sl_onnx_out(im,
			    sl_build_pool(im->b, im->name, x, kind,
					  (struct sl_pool_attr){.k = w.k, .stride = w.stride, .pad = w.pad}),
			    false);
}

static void read_maxpool(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im);

	sl_onnx_must_be(im, "storage_order", 0, 0);
	read_pool(im, SL_OP_MAXPOOL, x, 0);
}

static void read_avgpool(struct sl_onnx_import *im)
{
	int border;
	const int x = sl_onnx_padded_in(im, &border);

	if (sl_onnx_same_ints(im, "pads", 4, 0, "padding is the same on all sides here"))
		sl_onnx_must_be(im, "count_include_pad", 0, 1);
	read_pool(im, SL_OP_AVGPOOL, x, border);
}

/* Zeros around an image become the padding of whatever reads it. */
static void read_pad(struct sl_onnx_import *im)
{
	const Onnx__Attribute *mode = sl_onnx_attr(im, "mode", SL_ONNX_ATTR_STRING);
	struct sl_onnx_value *v = sl_onnx_in(im, 0), same;
	int64_t pad[SL_ONNX_INTS];
	float by = 0;

	if (mode && (mode->s.len != 8 || memcmp(mode->s.data, "constant", 8) != 0))
		sl_onnx_refuse(im, "its mode is not constant: of borders zeros are read");
	if (im->node->n_input > 2 && im->node->input[2][0] && (!sl_onnx_scalar_in(im, 2, &by) || by != 0))
		sl_onnx_refuse(im, "its value is not 0: of borders zeros are read");
	if (sl_onnx_image_in(im) < 0)
		return;
	if (sl_onnx_ints_in(im, 1, pad) != 8) {
		sl_onnx_refuse(im, "its pads are no eight constants");
		return;
	}
	if (pad[0] || pad[1] || pad[4] || pad[5] || pad[2] < 0 || pad[2] > SL_ONNX_MOST || pad[3] != pad[2] ||
	    pad[6] != pad[2] || pad[7] != pad[2]) {
		sl_onnx_refuse(im, "its pads are not the same on all sides of the image");
		return;
	}
	same = *v;
	same.pad = (int)pad[2];
	sl_onnx_out_same(im, &same);
}

static int mean_of_plane(struct sl_onnx_import *im, int x)
{
	return sl_build_pool(im->b, im->name, x, SL_OP_AVGPOOL, (struct sl_pool_attr){0});
}

static void read_global_avgpool(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im);

	if (x >= 0)
		sl_onnx_out(im, mean_of_plane(im, x), false);
}

static void read_reduce_mean(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im);
	const Onnx__Attribute *axes = sl_onnx_attr(im, "axes", SL_ONNX_ATTR_INTS);
	const bool keep = sl_onnx_attr_int(im, "keepdims", 1);
	unsigned over = 0;
	int mean;

	for (size_t i = 0; axes && i < axes->n_ints; i++)
		over |= axes->ints[i] >= -4 && axes->ints[i] < 4 ? 1u << ((axes->ints[i] + 4) % 4) : 1u;
	if (over != 12) /* bits 2 and 3 */
		sl_onnx_refuse(im, "its axes are not height and width, 2 and 3: of other axes no mean is read");
	if (im->b->err)
		return;
	mean = mean_of_plane(im, x);
	sl_onnx_out(im, keep ? mean : sl_build_flatten(im->b, im->name, mean), false);
}

static void read_gemm(struct sl_onnx_import *im)
{
	const int before = im->n_param;
	bool permuted = false;
	const int x = sl_onnx_data_in(im, 0, 2, &permuted);
	const Onnx__Tensor *weight, *bias;
	struct sl_model *m = im->b->model;
	char text[SL_ONNX_DIMS_TEXT];
	int y;

	sl_onnx_must_be(im, "transA", 0, 0);
	sl_onnx_must_be(im, "transB", 0, 1);
	if (sl_onnx_attr_float(im, "alpha", 1) != 1 || sl_onnx_attr_float(im, "beta", 1) != 1)
		sl_onnx_refuse(im, "alpha and beta are not 1: of products torch.nn.Linear's is read");
	weight = sl_onnx_param_in(im, 1, 2);
	if (!weight)
		return;
	if (weight->dims[1] != sl_onnx_last_of(im, x)) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which does not fit rows of %lld", weight->name,
			       sl_onnx_dims_text(weight, text), (long long)sl_onnx_last_of(im, x));
		return;
	}
	bias = im->node->n_input > 2 && im->node->input[2][0] ? sl_onnx_param_in(im, 2, 1) : NULL;
	if (im->b->err || (bias && !sl_onnx_vector_of(im, bias, weight->dims[0])))
		return;
	sl_onnx_use_params(im, before);
	y = sl_build_linear(im->b, im->name, x, (int)weight->dims[0], bias, (struct sl_init){SL_INIT_ZERO, 0});
	/* The builder and this reader must agree on the order of the numbers that come in. */
	if (y >= 0 && permuted != (m->file[im->b->graph->n_param - (bias ? 2 : 1)].layout == SL_LAYOUT_HWC_FROM_CHW))
		sl_onnx_refuse(im, "what lies between it and the flattened image is not read");
	sl_onnx_out(im, y, false);
}

static void read_constant(struct sl_onnx_import *im)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "value", SL_ONNX_ATTR_TENSOR);
	struct sl_fail why;

	if (im->b->err)
		return;
	if (!a || !a->t)
		sl_onnx_refuse(im, "it has no tensor in its attribute value");
	else if (sl_onnx_check_tensor(a->t, im->name, &why))
		sl_onnx_refuse(im, "%s", why.text);
	else
		sl_onnx_out_constant(im, a->t);
}

static void read_identity(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);

	if (v)
		sl_onnx_out_same(im, v);
}

static const struct sl_onnx_kind kinds[] = {
	{"Add", 2, 2, {NULL}, read_add},
	{"AveragePool",
	 1,
	 1,
	 {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"},
	 read_avgpool},
	{"BatchNormalization", 5, 5, {"epsilon", "momentum", "training_mode"}, read_batchnorm},
	{"Clip", 3, 3, {NULL}, read_clip},
	{"Concat", 1, SL_GRAPH_MOST_NODES, {"axis"}, sl_onnx_read_concat},
	{"Constant", 0, 0, {"value"}, read_constant},
	{"Conv", 2, 3, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, read_conv},
	{"Dropout", 3, 3, {NULL}, read_dropout},
	{"Flatten", 1, 1, {"axis"}, sl_onnx_read_flatten},
	{"Gather", 2, 2, {"axis"}, sl_onnx_read_gather},
	{"Gemm", 2, 3, {"alpha", "beta", "transA", "transB"}, read_gemm},
	{"GlobalAveragePool", 1, 1, {NULL}, read_global_avgpool},
	{"HardSigmoid", 1, 1, {"alpha", "beta"}, read_hard_sigmoid},
	{"HardSwish", 1, 1, {NULL}, read_hard_swish},
	{"Identity", 1, 1, {NULL}, read_identity},
	{"MaxPool",
	 1,
	 1,
	 {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
	 read_maxpool},
	{"ReduceMean", 1, 1, {"axes", "keepdims"}, read_reduce_mean},
	{"Mul", 2, 2, {NULL}, read_mul},
	{"Pad", 2, 3, {"mode"}, read_pad},
	{"Relu", 1, 1, {NULL}, read_relu},
	{"Reshape", 2, 2, {"allowzero"}, sl_onnx_read_reshape},
	{"Shape", 1, 1, {NULL}, sl_onnx_read_shape},
	{"Sigmoid", 1, 1, {NULL}, read_sigmoid},
	{"Tanh", 1, 1, {NULL}, read_tanh},
	{"Unsqueeze", 2, 2, {NULL}, sl_onnx_read_unsqueeze},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const struct sl_onnx_kind *sl_onnx_find_kind(const char *word)
{
	for (int i = 0; i < N_KINDS; i++)
		if (strcmp(kinds[i].word, word) == 0)
			return &kinds[i];
	return NULL;
}
