/* Kinds of nodes of an ONNX file, one reader each: what it refuses, and which of our nodes it makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/onnx_impl.h"

enum { MOST = 1 << 20 }; /* of a window, and of channels */

/* ---- attributes */

static const Onnx__Attribute *attr(struct sl_onnx_import *im, const char *name, int type)
{
	const Onnx__Node *n = im->node;

	for (size_t i = 0; i < n->n_attribute; i++) {
		if (strcmp(n->attribute[i]->name, name) != 0)
			continue;
		if (n->attribute[i]->type == type)
			return n->attribute[i];
		sl_onnx_refuse(im, "its attribute %s is not of the right type", name);
	}
	return NULL;
}

static int64_t attr_int(struct sl_onnx_import *im, const char *name, int64_t standard)
{
	const Onnx__Attribute *a = attr(im, name, SL_ONNX_ATTR_INT);

	return a ? a->i : standard;
}

static float attr_float(struct sl_onnx_import *im, const char *name, float standard)
{
	const Onnx__Attribute *a = attr(im, name, SL_ONNX_ATTR_FLOAT);

	return a ? a->f : standard;
}

/* An attribute that has one value alone. */
static void must_be(struct sl_onnx_import *im, const char *name, int64_t standard, int64_t right)
{
	const int64_t is = attr_int(im, name, standard);

	if (is != right)
		sl_onnx_refuse(im, "%s is %lld, where %lld is read", name, (long long)is, (long long)right);
}

/* `n` numbers that are all the same: that number. */
static int same_ints(struct sl_onnx_import *im, const char *name, size_t n, int standard, const char *why)
{
	const Onnx__Attribute *a = attr(im, name, SL_ONNX_ATTR_INTS);

	if (!a)
		return standard;
	if (a->n_ints != n) {
		sl_onnx_refuse(im, "%s has %zu numbers, where an image's have %zu", name, a->n_ints, n);
		return standard;
	}
	for (size_t i = 0; i < n; i++)
		if (a->ints[i] != a->ints[0] || a->ints[i] < 0 || a->ints[i] > MOST) {
			sl_onnx_refuse(im, "%s: %lld and %lld; %s", name, (long long)a->ints[0], (long long)a->ints[i],
				       why);
			return standard;
		}
	return (int)a->ints[0];
}

/* ---- inputs */

/* Input `i`, which a node computes: the graph's value; -1 after a refusal. ndim 0: any. */
static int data_in(struct sl_onnx_import *im, size_t i, int ndim, bool *permuted)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);

	*permuted = false;
	if (!im->b->err && v && v->pad)
		sl_onnx_refuse(im, "its input %zu has a border of zeros, which convolutions and means alone read", i);
	if (im->b->err)
		return -1;
	if (!v || v->value < 0) {
		sl_onnx_refuse(im, "its input %zu is %s, where a computed value is read", i,
			       v ? "constant" : "not there");
		return -1;
	}
	if (ndim && sl_build_shape(im->b, v->value).ndim != ndim) {
		sl_onnx_refuse(im, "it takes %s",
			       ndim == 4 ? "images, [batch, channels, height, width]" : "rows, [batch, features]");
		return -1;
	}
	*permuted = v->permuted;
	return v->value;
}

static int image_in(struct sl_onnx_import *im)
{
	bool permuted;

	return data_in(im, 0, 4, &permuted);
}

/* The same, and the border of zeros that it is to have. */
static int padded_in(struct sl_onnx_import *im, int *pad)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int x;

	*pad = v ? v->pad : 0;
	if (v)
		v->pad = 0;
	x = image_in(im);
	if (v)
		v->pad = *pad;
	return x;
}

static int64_t last_of(const struct sl_onnx_import *im, int value)
{
	const struct sl_shape s = sl_build_shape(im->b, value);

	return s.dim[s.ndim - 1];
}

/* Input `i` as the next parameter, [n_dims of them], of that many dimensions; NULL after a refusal. */
static const Onnx__Tensor *param_in(struct sl_onnx_import *im, size_t i, size_t n_dims)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	const Onnx__Tensor *t = v ? v->constant : NULL;
	char text[SL_ONNX_DIMS_TEXT];

	if (im->b->err)
		return NULL;
	if (!t || !t->name || sl_onnx_find_init(im->onnx, t->name) != t) {
		sl_onnx_refuse(im, "its input %zu is no initializer; export with do_constant_folding=False", i);
		return NULL;
	}
	if (t->data_type != SL_ONNX_FLOAT) {
		sl_onnx_refuse(im, "its parameter '%.96s' is of type %d, where float32 is read", t->name, t->data_type);
		return NULL;
	}
	if (t->n_dims != n_dims) {
		sl_onnx_refuse(im, "its parameter '%.96s' is %s, where %zu dimensions are right", t->name,
			       sl_onnx_dims_text(t, text), n_dims);
		return NULL;
	}
	for (size_t d = 0; d < n_dims; d++)
		if (t->dims[d] < 1 || t->dims[d] > (n_dims == 2 && d ? SL_GRAPH_MOST_ELEMENTS : MOST)) {
			sl_onnx_refuse(im, "its parameter '%.96s' is %s", t->name, sl_onnx_dims_text(t, text));
			return NULL;
		}
	for (int p = 0; p < im->n_param; p++)
		if (strcmp(im->param[p], t->name) == 0) {
			sl_onnx_refuse(im,
				       "its parameter '%.96s' is another node's too; shared parameters are not read",
				       t->name);
			return NULL;
		}
	im->param[im->n_param++] = t->name;
	return t;
}

/* The next node has the parameters that were read since there were `before` of them. */
static void use_params(struct sl_onnx_import *im, int before)
{
	im->b->param_name = im->param + before;
}

static bool vector_of(struct sl_onnx_import *im, const Onnx__Tensor *t, int64_t count)
{
	if (t && t->dims[0] != count)
		sl_onnx_refuse(im, "its parameter '%.96s' has %lld elements, where %lld are right", t->name,
			       (long long)t->dims[0], (long long)count);
	return t && t->dims[0] == count;
}

/* A constant of one element; false: there is none, or no constant. */
static bool scalar_in(struct sl_onnx_import *im, size_t i, float *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);

	if (!v || !v->constant || v->constant->data_type != SL_ONNX_FLOAT || sl_onnx_count(v->constant) != 1)
		return false;
	sl_onnx_read_f32(v->constant, out);
	return true;
}

/* `n` whole numbers of a constant; false: there is none of so many. */
static bool ints_in(struct sl_onnx_import *im, size_t i, int64_t n, int64_t *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	const Onnx__Tensor *t = v ? v->constant : NULL;

	if (!t || t->data_type != SL_ONNX_INT64 || sl_onnx_count(t) != n)
		return false;
	memcpy(out, t->has_raw_data ? (const void *)t->raw_data.data : t->int64_data, (size_t)n * sizeof *out);
	return true;
}

/* ---- windows */

struct window {
	int k, stride, pad, dilation;
};

static void check_auto_pad(struct sl_onnx_import *im)
{
	const Onnx__Attribute *a = attr(im, "auto_pad", SL_ONNX_ATTR_STRING);

	if (a && (a->s.len != 6 || memcmp(a->s.data, "NOTSET", 6) != 0))
		sl_onnx_refuse(im, "auto_pad %.*s is not read; export with explicit pads",
			       (int)(a->s.len < 20 ? a->s.len : 20), a->s.data ? (const char *)a->s.data : "");
}

static struct window read_window(struct sl_onnx_import *im)
{
	struct window w;

	check_auto_pad(im);
	w.k = same_ints(im, "kernel_shape", 2, 0, "windows are square here");
	w.stride = same_ints(im, "strides", 2, 1, "strides are the same in both directions here");
	w.pad = same_ints(im, "pads", 4, 0, "padding is the same on all sides here");
	w.dilation = same_ints(im, "dilations", 2, 1, "dilation is the same in both directions here");
	if (!im->b->err && (w.stride < 1 || w.dilation < 1))
		sl_onnx_refuse(im, "stride %d, dilation %d: both are at least 1", w.stride, w.dilation);
	return w;
}

/* Where windows end with the image, counting up is counting down. */
static void check_ceil(struct sl_onnx_import *im, int in, struct window w)
{
	const struct sl_shape s = sl_build_shape(im->b, in);

	if (!im->b->err && attr_int(im, "ceil_mode", 0) &&
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
	const int x = padded_in(im, &border), before = im->n_param;
	const struct window w = read_window(im);
	const int64_t groups = attr_int(im, "group", 1), in_c = im->b->err ? 1 : last_of(im, x);
	const Onnx__Tensor *weight = param_in(im, 1, 4), *bias;
	char text[SL_ONNX_DIMS_TEXT];

	if (!weight)
		return;
	if (weight->dims[2] != weight->dims[3] || (w.k && w.k != weight->dims[2])) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s; windows are square here", weight->name,
			       sl_onnx_dims_text(weight, text));
		return;
	}
	if (groups < 1 || groups > MOST || in_c % groups || weight->dims[0] % groups ||
	    weight->dims[1] != in_c / groups) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which does not fit %lld channels in %lld groups",
			       weight->name, sl_onnx_dims_text(weight, text), (long long)in_c, (long long)groups);
		return;
	}
	bias = im->node->n_input > 2 && im->node->input[2][0] ? param_in(im, 2, 1) : NULL;
	if (im->b->err || (bias && !vector_of(im, bias, weight->dims[0])))
		return;
	use_params(im, before);
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
	const int x = image_in(im), before = im->n_param;
	const float eps = attr_float(im, "epsilon", 1e-5f), kept = attr_float(im, "momentum", 0.9f);
	/* Before opset 14 a node in training has five outputs. */
	const bool training = im->onnx->opset >= 14 ? attr_int(im, "training_mode", 0) == 1 : im->node->n_output == 5;

	if (!im->b->err && !training)
		sl_onnx_refuse(im, "it is of a network in evaluation; export model.train() with "
				   "training=TrainingMode.TRAINING");
	if (!im->b->err && (!(eps >= 1e-30f && eps <= 1) || !(kept >= 0 && kept <= 1)))
		sl_onnx_refuse(im, "epsilon %g and momentum %g do not lie in 0 … 1", (double)eps, (double)kept);
	for (size_t i = 1; i <= 4 && !im->b->err; i++)
		(void)!vector_of(im, param_in(im, i, 1), last_of(im, x));
	if (im->b->err)
		return;
	use_params(im, before);
	sl_onnx_out(im, sl_build_bn_with(im->b, im->name, x, SL_INIT_ONE, eps, torch_momentum(kept)), false);
}

static void read_act(struct sl_onnx_import *im, enum sl_act act)
{
	bool permuted;
	const int x = data_in(im, 0, 0, &permuted);

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

	if (!scalar_in(im, 1, &low) || !scalar_in(im, 2, &high) || low != 0 || high != 6)
		sl_onnx_refuse(im, "its bounds are not constants 0 and 6: of clips ReLU6 is read");
	read_act(im, SL_ACT_RELU6);
}

static void read_dropout(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *mode = sl_onnx_in(im, 2);
	float p = 0.5f;
	bool permuted;
	const int x = data_in(im, 0, 0, &permuted);

	if (im->b->err)
		return;
	if (!mode || !mode->constant || mode->constant->data_type != SL_ONNX_BOOL ||
	    sl_onnx_count(mode->constant) != 1 ||
	    !(mode->constant->has_raw_data ? mode->constant->raw_data.data[0] : mode->constant->int32_data[0])) {
		sl_onnx_refuse(im, "its training_mode is not the constant true; export model.train() with "
				   "training=TrainingMode.TRAINING");
		return;
	}
	if ((im->node->input[1][0] && !scalar_in(im, 1, &p)) || !(p >= 0 && p < 1)) {
		sl_onnx_refuse(im, "its ratio is no constant in [0, 1)");
		return;
	}
	sl_onnx_out(im, p > 0 ? sl_build_dropout(im->b, im->name, x, p) : x, permuted);
}

static void read_add(struct sl_onnx_import *im)
{
	bool permuted[2];
	const int x = data_in(im, 0, 0, &permuted[0]), y = data_in(im, 1, 0, &permuted[1]);
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
	const int x = image_in(im);

	must_be(im, "storage_order", 0, 0);
	read_pool(im, SL_OP_MAXPOOL, x, 0);
}

static void read_avgpool(struct sl_onnx_import *im)
{
	int border;
	const int x = padded_in(im, &border);

	if (same_ints(im, "pads", 4, 0, "padding is the same on all sides here"))
		must_be(im, "count_include_pad", 0, 1);
	read_pool(im, SL_OP_AVGPOOL, x, border);
}

/* Zeros around an image become the padding of whatever reads it. */
static void read_pad(struct sl_onnx_import *im)
{
	const Onnx__Attribute *mode = attr(im, "mode", SL_ONNX_ATTR_STRING);
	struct sl_onnx_value *v = sl_onnx_in(im, 0), same;
	int64_t pad[8];
	float by = 0;

	if (mode && (mode->s.len != 8 || memcmp(mode->s.data, "constant", 8) != 0))
		sl_onnx_refuse(im, "its mode is not constant: of borders zeros are read");
	if (im->node->n_input > 2 && im->node->input[2][0] && (!scalar_in(im, 2, &by) || by != 0))
		sl_onnx_refuse(im, "its value is not 0: of borders zeros are read");
	if (image_in(im) < 0)
		return;
	if (!ints_in(im, 1, 8, pad)) {
		sl_onnx_refuse(im, "its pads are no eight constants");
		return;
	}
	if (pad[0] || pad[1] || pad[4] || pad[5] || pad[2] < 0 || pad[2] > MOST || pad[3] != pad[2] ||
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
	const int x = image_in(im);

	if (x >= 0)
		sl_onnx_out(im, mean_of_plane(im, x), false);
}

static bool is_permuted(const struct sl_onnx_import *im, int image)
{
	const struct sl_shape s = sl_build_shape(im->b, image);

	return s.dim[1] * s.dim[2] > 1;
}

static void read_reduce_mean(struct sl_onnx_import *im)
{
	const int x = image_in(im);
	const Onnx__Attribute *axes = attr(im, "axes", SL_ONNX_ATTR_INTS);
	const bool keep = attr_int(im, "keepdims", 1);
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

static void read_flatten(struct sl_onnx_import *im)
{
	const int64_t axis = attr_int(im, "axis", 1);
	bool permuted;
	const int x = data_in(im, 0, 0, &permuted);
	int ndim;

	if (im->b->err)
		return;
	ndim = sl_build_shape(im->b, x).ndim;
	if (axis != 1 && axis != 1 - ndim)
		sl_onnx_refuse(im, "axis is %lld, where 1 is read", (long long)axis);
	else if (ndim == 2)
		sl_onnx_out(im, x, permuted);
	else
		sl_onnx_out(im, sl_build_flatten(im->b, im->name, x), is_permuted(im, x));
}

static void read_gemm(struct sl_onnx_import *im)
{
	const int before = im->n_param;
	bool permuted = false;
	const int x = data_in(im, 0, 2, &permuted);
	const Onnx__Tensor *weight, *bias;
	struct sl_model *m = im->b->model;
	char text[SL_ONNX_DIMS_TEXT];
	int y;

	must_be(im, "transA", 0, 0);
	must_be(im, "transB", 0, 1);
	if (attr_float(im, "alpha", 1) != 1 || attr_float(im, "beta", 1) != 1)
		sl_onnx_refuse(im, "alpha and beta are not 1: of products torch.nn.Linear's is read");
	weight = param_in(im, 1, 2);
	if (!weight)
		return;
	if (weight->dims[1] != last_of(im, x)) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which does not fit rows of %lld", weight->name,
			       sl_onnx_dims_text(weight, text), (long long)last_of(im, x));
		return;
	}
	bias = im->node->n_input > 2 && im->node->input[2][0] ? param_in(im, 2, 1) : NULL;
	if (im->b->err || (bias && !vector_of(im, bias, weight->dims[0])))
		return;
	use_params(im, before);
	y = sl_build_linear(im->b, im->name, x, (int)weight->dims[0], bias, (struct sl_init){SL_INIT_ZERO, 0});
	/* The builder and this reader must agree on the order of the numbers that come in. */
	if (y >= 0 && permuted != (m->file[im->b->graph->n_param - (bias ? 2 : 1)].layout == SL_LAYOUT_HWC_FROM_CHW))
		sl_onnx_refuse(im, "what lies between it and the flattened image is not read");
	sl_onnx_out(im, y, false);
}

static void read_constant(struct sl_onnx_import *im)
{
	const Onnx__Attribute *a = attr(im, "value", SL_ONNX_ATTR_TENSOR);
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
	{"Constant", 0, 0, {"value"}, read_constant},
	{"Conv", 2, 3, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, read_conv},
	{"Dropout", 3, 3, {NULL}, read_dropout},
	{"Flatten", 1, 1, {"axis"}, read_flatten},
	{"Gemm", 2, 3, {"alpha", "beta", "transA", "transB"}, read_gemm},
	{"GlobalAveragePool", 1, 1, {NULL}, read_global_avgpool},
	{"Identity", 1, 1, {NULL}, read_identity},
	{"MaxPool",
	 1,
	 1,
	 {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
	 read_maxpool},
	{"ReduceMean", 1, 1, {"axes", "keepdims"}, read_reduce_mean},
	{"Pad", 2, 3, {"mode"}, read_pad},
	{"Relu", 1, 1, {NULL}, read_relu},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const struct sl_onnx_kind *sl_onnx_find_kind(const char *word)
{
	for (int i = 0; i < N_KINDS; i++)
		if (strcmp(kinds[i].word, word) == 0)
			return &kinds[i];
	return NULL;
}

void sl_onnx_kinds(char *out, size_t cap)
{
	size_t used = 0;

	for (int i = 0; i < N_KINDS && used < cap; i++)
		used += (size_t)snprintf(out + used, cap - used, "%s%s", i ? ", " : "", kinds[i].word);
}
