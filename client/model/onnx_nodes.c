/* The table of the kinds of ONNX nodes, and readers of single kinds. A reader refuses a node that does not fit, or
 * makes nodes of our graph from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_arithmetic.h"
#include "client/model/onnx_nodes.h"
#include "client/model/onnx_recurrent.h"
#include "client/model/onnx_tokens.h"
#include "client/model/onnx_windows.h"

/* torch's momentum, such as 0.1, is 1 minus the file's, 0.9. It is computed from the shortest decimal number that gives
 * the file's float, so that no rounding is left. */
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

/* Batch norms of images, of signals, and of rows, which become images of one pixel. */
static void read_batchnorm(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const bool rows = v && v->value >= 0 && v->view.n_axis == 2;
	int x = rows ? sl_onnx_data_in(im, 0, 2) : sl_onnx_image_in(im);
	const int before = im->n_param;
	const float eps = sl_onnx_attr_float(im, "epsilon", 1e-5f), kept = sl_onnx_attr_float(im, "momentum", 0.9f);
	/* Before opset 14 there is no such attribute: a node in training has five outputs. */
	const bool training =
		im->onnx->trainable ||
		(im->onnx->opset >= 14 ? sl_onnx_attr_int(im, "training_mode", 0) == 1 : im->node->n_output == 5);

	if (!im->b->err && !training)
		sl_onnx_refuse(im, "it is of a network in evaluation; export model.train() with "
				   "training=TrainingMode.TRAINING");
	if (!im->b->err && (!(eps >= 1e-30f && eps <= 1) || !(kept >= 0 && kept <= 1)))
		sl_onnx_refuse(im, "epsilon %g and momentum %g do not lie in 0 … 1", (double)eps, (double)kept);
	for (size_t i = 1; i <= 4 && !im->b->err; i++)
		(void)!sl_onnx_vector_of(im, sl_onnx_param_in(im, i, 1), sl_onnx_last_of(im, x));
	if (rows && v->permuted)
		sl_onnx_refuse(im, "it is of flattened images, which is not read; norm the image");
	if (im->b->err)
		return;
	if (rows)
		x = sl_build_permute(im->b, im->name, x, (struct sl_permute_attr){1, 1, 1, 1, 1});
	sl_onnx_use_params(im, before);
	x = sl_build_bn_with(im->b, im->name, x, SL_INIT_ONE, eps, torch_momentum(kept));
	sl_onnx_out(im, rows ? sl_build_flatten(im->b, im->name, x) : x);
}

/* An elementwise function: the activation `act`, or for SL_ACT_NONE the op of the node's kind. */
static void read_each(struct sl_onnx_import *im, enum sl_act act)
{
	const int x = sl_onnx_data_in(im, 0, 0);

	if (x >= 0)
		sl_onnx_out_like(im,
				 act ? sl_build_act(im->b, im->name, x, act)
				     : sl_build_smooth(im->b, im->name, x, im->op, false),
				 sl_onnx_in(im, 0));
}

static void read_relu(struct sl_onnx_import *im)
{
	read_each(im, SL_ACT_RELU);
}

static void read_smooth(struct sl_onnx_import *im)
{
	read_each(im, SL_ACT_NONE);
}

/* min(x, at), or with sign −1 max(x, at). Like torch.clamp it has a gradient at the bound. Two simple forms round
 * badly. at + relu(x − at) loses digits of an x that is small beside the bound; x + relu(at − x) loses the bound where
 * x is far beyond it. So x is first limited to twice the bound, without rounding: by relu6 of x over a power of two. */
static int bounded(struct sl_onnx_import *im, int x, float at, float sign)
{
	struct sl_build *b = im->b;
	const char *name = im->name;
	const float far = sign * at; /* the result is sign · min(t, far), where t = sign · x */
	float by;
	int low, near, exponent;

	if (!(at > -1e18f && at < 1e18f))
		sl_onnx_refuse(im, "its bound is %g, where ±1e18 is the most", (double)at);
	if (b->err)
		return -1;
	if (far <= 0) { /* far − d − relu(−d), d = far − t */
		x = sl_build_affine(b, name, x, -sign, far);
		near = sl_build_act(b, name, sl_build_scale(b, name, x, -1), SL_ACT_RELU);
		return sl_build_affine(b, name, sl_build_add(b, name, x, near), -sign, at);
	}
	(void)frexpf(far / 6, &exponent);
	by = ldexpf(1, exponent > -99 ? exponent : -99);
	low = sl_build_act(b, name, sl_build_affine(b, name, x, sign, 0), SL_ACT_RELU);
	low = sl_build_add(b, name, x, sl_build_scale(b, name, low, -sign));
	near = sl_build_act(b, name, sl_build_scale(b, name, x, sign / by), SL_ACT_RELU6);
	x = sl_build_add(b, name, low, sl_build_scale(b, name, near, sign * by));
	near = sl_build_act(b, name, sl_build_affine(b, name, x, sign, -far), SL_ACT_RELU);
	return sl_build_add(b, name, x, sl_build_scale(b, name, near, -sign));
}

/* Max or Min of a value and a number: torch.clamp with one bound. */
static void read_bound(struct sl_onnx_import *im)
{
	float at;
	const size_t i = sl_onnx_fixed_in(im, 0, &at);

	if (!i && !sl_onnx_fixed_in(im, 1, &at))
		sl_onnx_refuse(im, "torch's maximum and minimum of two values are not read: write them with relu");
	else
		sl_onnx_out_like(im, bounded(im, sl_onnx_data_in(im, i, 0), at, im->node->op_type[1] == 'a' ? -1 : 1),
				 sl_onnx_in(im, i));
}

static void read_clip(struct sl_onnx_import *im)
{
	float low, high;
	const bool has_low = sl_onnx_fixed_in(im, 1, &low), has_high = sl_onnx_fixed_in(im, 2, &high);
	const bool no_low = im->node->n_input < 2 || !im->node->input[1][0],
		   no_high = im->node->n_input < 3 || !im->node->input[2][0];
	int x;

	if (has_low == no_low || has_high == no_high || (no_low && no_high) || (has_low && has_high && low >= high))
		sl_onnx_refuse(im, "its bounds are not constants, the lower one first");
	if (has_low && has_high && low == 0 && high == 6) {
		read_each(im, SL_ACT_RELU6);
		return;
	}
	x = sl_onnx_data_in(im, 0, 0);
	x = has_low ? bounded(im, x, low, -1) : x;
	sl_onnx_out_like(im, has_high ? bounded(im, x, high, 1) : x, sl_onnx_in(im, 0));
}

static bool is_true(const struct sl_onnx_value *v)
{
	const Onnx__Tensor *t = v ? v->constant : NULL;

	return t && t->data_type == SL_ONNX_BOOL && sl_onnx_count(t) == 1 &&
	       (t->has_raw_data ? t->raw_data.data[0] : t->int32_data[0]);
}

static void read_dropout(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *mode = sl_onnx_in(im, 2), *v = sl_onnx_in(im, 0);
	const bool scores = v && v->scores.heads;
	float p = 0.5f;
	const int x = scores ? 0 : sl_onnx_data_in(im, 0, 0);

	if (im->b->err)
		return;
	if (!(im->onnx->trainable && !mode) && !is_true(mode)) {
		sl_onnx_refuse(im, "its training_mode is not the constant true; export model.train() with "
				   "training=TrainingMode.TRAINING");
		return;
	}
	if (scores) {
		(void)!sl_onnx_read_scores(im);
		return;
	}
	if ((im->node->n_input > 1 && im->node->input[1][0] && !sl_onnx_scalar_in(im, 1, &p)) || !(p >= 0 && p < 1)) {
		sl_onnx_refuse(im, "its ratio is no constant in [0, 1)");
		return;
	}
	sl_onnx_out_like(im, p > 0 ? sl_build_dropout(im->b, im->name, x, p) : x, sl_onnx_in(im, 0));
}

/* Sigmoid. Followed by Log it is nn.LogSigmoid, −softplus(−x); multiplied by x it is nn.SiLU. */
static void read_sigmoid(struct sl_onnx_import *im)
{
	const int log = sl_onnx_next(im, im->index, "Log"), mul = sl_onnx_next(im, im->index, "Mul");
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int x;

	if (mul >= 0 && sl_onnx_reads(im->onnx->graph->node[mul], im->node->input[0])) {
		im->op = SL_OP_SILU;
		sl_onnx_join(im, mul);
	}
	if (log < 0) {
		read_smooth(im);
		return;
	}
	x = sl_onnx_data_in(im, 0, 0);
	if (x < 0)
		return;
	x = sl_build_smooth(im->b, im->name, sl_build_scale(im->b, im->name, x, -1), SL_OP_SOFTPLUS, false);
	sl_onnx_join(im, log);
	sl_onnx_out_like(im, sl_build_scale(im->b, im->name, x, -1), v);
}

static void read_hard_sigmoid(struct sl_onnx_import *im)
{
	const float alpha = sl_onnx_attr_float(im, "alpha", 0.2f), beta = sl_onnx_attr_float(im, "beta", 0.5f);

	if (alpha != (float)(1.0 / 6) || beta != 0.5f)
		sl_onnx_refuse(im, "alpha %g and beta %g are not 1/6 and 1/2: torch.nn.Hardsigmoid's are read",
			       (double)alpha, (double)beta);
	read_smooth(im);
}

/* x · tanh(softplus(x)) */
static void read_mish(struct sl_onnx_import *im)
{
	const int x = sl_onnx_data_in(im, 0, 0);
	int y;

	if (x < 0)
		return;
	y = sl_build_smooth(im->b, im->name, x, SL_OP_SOFTPLUS, false);
	y = sl_build_smooth(im->b, im->name, y, SL_OP_TANH, false);
	sl_onnx_out_like(im, sl_build_mul(im->b, im->name, x, y), sl_onnx_in(im, 0));
}

static void read_gelu(struct sl_onnx_import *im)
{
	const Onnx__Attribute *how = sl_onnx_attr(im, "approximate", SL_ONNX_ATTR_STRING);
	const int x = sl_onnx_data_in(im, 0, 0);

	if (x >= 0)
		sl_onnx_out_like(
			im, sl_build_smooth(im->b, im->name, x, SL_OP_GELU, how && sl_onnx_is_word(how->s, "tanh")),
			sl_onnx_in(im, 0));
}

static void read_layernorm(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int before = im->n_param;
	const float eps = sl_onnx_attr_float(im, "epsilon", 1e-5f);
	const int64_t axis = sl_onnx_attr_int(im, "axis", -1);
	const bool bias = im->node->n_input > 2 && im->node->input[2][0];
	int x, first;
	int64_t all = 1;

	sl_onnx_data_in(im, 0, 0);
	if (im->b->err)
		return;
	first = (int)(axis < -v->view.n_axis || axis >= v->view.n_axis ? 0 : axis < 0 ? axis + v->view.n_axis : axis);
	for (int i = first; i < v->view.n_axis; i++)
		all *= sl_onnx_axis_size(&v->view, i);
	if (sl_onnx_all_are(im, sl_onnx_in(im, 1), all, 1) &&
	    (!bias || sl_onnx_all_are(im, sl_onnx_in(im, 2), all, 0))) {
		sl_onnx_plain_norm(im, v, first, eps);
		return;
	}
	if (v->permuted || first != v->view.n_axis - 1 || !(eps >= 1e-30f && eps <= 1)) {
		sl_onnx_refuse(im, "with parameters it is over the last axis alone, and epsilon is in 0 … 1");
		return;
	}
	for (size_t i = 1; i < 2 + (size_t)bias && !im->b->err; i++)
		(void)!sl_onnx_vector_of(im, sl_onnx_param_in(im, i, 1),
					 sl_onnx_axis_size(&v->view, v->view.n_axis - 1));
	x = im->b->err ? -1 : sl_onnx_innermost(im, v, v->view.n_axis - 1, false);
	sl_onnx_use_params(im, before);
	if (!im->b->err)
		sl_onnx_out_like(im, sl_build_layernorm_of(im->b, im->name, x, eps, bias), v);
}

/* Cast: accepted for constants that already have the target type, for known integers, which keep their value, and from
 * one number to float. CastLike is read as a cast to float. */
static void read_cast(struct sl_onnx_import *im)
{
	const int64_t to = sl_onnx_attr_int(im, "to", SL_ONNX_FLOAT);
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_onnx_mask one;

	if (im->b->err)
		return;
	if (v && v->n_ints == 1 && v->ints[0] && v->open && to == SL_ONNX_FLOAT)
		sl_onnx_refuse(im,
			       "it computes with the number of samples or tokens, which is not known here; in place "
			       "of a sum divided by it take x.mean()");
	else if (v && v->value < 0 && to == SL_ONNX_FLOAT && v->constant && v->constant->data_type == SL_ONNX_DOUBLE &&
		 sl_onnx_count(v->constant) == 1 && sl_onnx_mask_in(im, 0, &one))
		sl_onnx_out_number(im, one.at[0][0]);
	else if (v && v->value < 0 && to == SL_ONNX_FLOAT && (v->is_number || v->n_ints == 1))
		sl_onnx_out_number(im, v->is_number ? v->number : (float)v->ints[0]);
	else if (v && v->value < 0 && v->constant &&
		 (v->constant->data_type == to ||
		  (to == SL_ONNX_FLOAT && v->constant->data_type == SL_ONNX_INT64 && sl_onnx_count(v->constant) == 1)))
		sl_onnx_out_same(im, v);
	else if (to != SL_ONNX_INT64 || !sl_onnx_read_ints(im))
		sl_onnx_refuse(im, "it changes a type, which is not read: values are float32");
}

/* Expand. Constants that do not learn, such as positions of tokens, stay as they are. So do values that are at most
 * repeated for every sample. sl_onnx_expand reads other values, and parameters. */
static void read_expand(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int64_t to[SL_ONNX_INTS];
	const int n = sl_onnx_ints_in(im, 1, to);
	struct sl_onnx_value made;
	bool same;

	if (im->b->err || !v)
		return;
	made = *v;
	same = v->value < 0 ? v->constant || v->is_number : n == v->view.n_axis;
	if (v->value < 0 && v->constant && sl_onnx_count(v->constant) == 1 && n > 0) { /* such as a mask of ones */
		made.n_dim = n;
		memcpy(made.dim, to, (size_t)n * sizeof *to);
	}
	for (int i = 0; same && v->value >= 0 && i < n; i++) {
		if (sl_onnx_per_token(im, v) && !v->view.axis[i].n && to[i] == im->batch)
			made.view.axis[i] = (struct sl_onnx_axis){1, {0}};
		else
			same = to[i] == 1 || to[i] == sl_onnx_axis_size(&v->view, i);
	}
	if ((!same && v->value >= 0) || (v->value < 0 && sl_onnx_learns(im, v->constant)))
		sl_onnx_expand(im, to, n);
	else if (!same)
		sl_onnx_refuse(im, "it repeats a constant, which is not read");
	else
		sl_onnx_out_same(im, &made);
}

/* Exp, Log, Sqrt or Reciprocal of a value; also the root or the reciprocal of a constant number. */
static void read_math(struct sl_onnx_import *im)
{
	static const char initial[SL_MATH_COUNT] = "ELSR";
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const char first = im->node->op_type[0];
	float x;

	if ((first == 'S' || first == 'R') && v && v->value < 0 && !sl_onnx_learns(im, v->constant) &&
	    sl_onnx_scalar_in(im, 0, &x) && x > 0)
		sl_onnx_out_number(im, first == 'R' ? 1 / x : sqrtf(x));
	else if (first != 'S' || !sl_onnx_read_deviation(im))
		sl_onnx_read_math(im, 0, (int)((const char *)memchr(initial, first, sizeof initial) - initial), 1);
}

static void read_known(struct sl_onnx_import *im)
{
	if (!sl_onnx_read_ints(im))
		sl_onnx_refuse(im, "of this kind only the arithmetic of shapes is read");
}

static void read_range(struct sl_onnx_import *im)
{
	if (!sl_onnx_read_range(im))
		sl_onnx_refuse(im, "it is read of the places of tokens alone, from 0 on");
}

static void read_celu(struct sl_onnx_import *im)
{
	if (sl_onnx_attr_float(im, "alpha", 1) != 1)
		sl_onnx_refuse(im, "alpha is %g, where 1 is read", (double)sl_onnx_attr_float(im, "alpha", 1));
	read_smooth(im);
}

static void read_gemm(struct sl_onnx_import *im)
{
	const int before = im->n_param;
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const Onnx__Tensor *weight, *bias;
	const struct sl_graph *g = im->b->graph;
	char text[SL_ONNX_DIMS_TEXT];
	int x, y;

	sl_onnx_must_be(im, "transA", 0, 0);
	sl_onnx_must_be(im, "transB", 0, 1);
	if (sl_onnx_attr_float(im, "alpha", 1) != 1 || sl_onnx_attr_float(im, "beta", 1) != 1)
		sl_onnx_refuse(im, "alpha and beta are not 1: of products torch.nn.Linear's is read");
	if (sl_onnx_read_product_of_zeros(im))
		return;
	if (v && v->value >= 0 && v->view.n_axis == 2 && !v->permuted && v->view.axis[0].n > 1) {
		sl_onnx_read_gemm_of_tokens(im);
		return;
	}
	x = sl_onnx_data_in(im, 0, 2);
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
	/* The builder and this reader must agree on the order of the input's elements. */
	if (y >= 0 &&
	    v->permuted != (im->b->model->file[g->link[g->node[g->n_node - 1].param]].layout == SL_LAYOUT_HWC_FROM_CHW))
		sl_onnx_refuse(im, "what lies between it and the flattened image is not read");
	sl_onnx_out(im, y);
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
	{"Abs", 1, 1, "", .read = sl_onnx_read_abs},
	{"Add", 2, 2, "", .read = sl_onnx_read_sum, .op = SL_OP_ADD},
	{"And", 2, 2, "", .read = read_known},
	{"AveragePool", 1, 1, "auto_pad ceil_mode count_include_pad kernel_shape pads strides",
	 .read = sl_onnx_read_avgpool},
	{"BatchNormalization", 5, 5, "epsilon momentum training_mode", .read = read_batchnorm},
	{"Cast", 1, 1, "to", .read = read_cast},
	{"CastLike", 2, 2, "", .read = read_cast},
	{"Celu", 1, 1, "alpha", .read = read_celu, .op = SL_OP_ELU},
	{"Clip", 2, 3, "", .read = read_clip},
	{"Concat", 1, SL_GRAPH_MOST_NODES, "axis", .read = sl_onnx_read_concat},
	{"Constant", 0, 0, "value", .read = read_constant},
	{"ConstantOfShape", 1, 1, "value", .read = read_known},
	{"Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides", .read = sl_onnx_read_conv},
	{"ConvTranspose", 2, 3, "auto_pad dilations group kernel_shape output_padding pads strides",
	 .read = sl_onnx_read_convt},
	{"DepthToSpace", 1, 1, "blocksize mode", .read = sl_onnx_read_depth_to_space},
	{"Div", 2, 2, "", .read = sl_onnx_read_div},
	{"Dropout", 1, 3, "", .read = read_dropout},
	{"Einsum", 2, 2, "equation", .read = sl_onnx_read_matmul},
	{"Elu", 1, 1, "alpha", .read = sl_onnx_read_elu},
	{"Equal", 2, 2, "", .read = read_known},
	{"Erf", 1, 1, "", .read = sl_onnx_refuse_kind}, /* alone; inside a GELU it is read with the GELU's first node */
	{"Exp", 1, 1, "", .read = read_math},
	{"Expand", 2, 2, "", .read = read_expand},
	{"Flatten", 1, 1, "axis", .read = sl_onnx_read_flatten},
	{"GRU", 3, 6, "direction hidden_size linear_before_reset", .read = NULL}, /* sl_onnx_read_recurrent */
	{"Gather", 2, 2, "axis", .read = sl_onnx_read_gather},
	{"Greater", 2, 2, "", .read = read_known},
	{"GreaterOrEqual", 2, 2, "", .read = read_known},
	{"Gelu", 1, 1, "approximate", .read = read_gelu},
	{"Gemm", 2, 3, "alpha beta transA transB", .read = read_gemm},
	{"GlobalAveragePool", 1, 1, "", .read = sl_onnx_read_global_pool, .op = SL_OP_AVGPOOL},
	{"GlobalMaxPool", 1, 1, "", .read = sl_onnx_read_global_pool, .op = SL_OP_MAXPOOL},
	{"HardSigmoid", 1, 1, "alpha beta", .read = read_hard_sigmoid, .op = SL_OP_HARDSIGMOID},
	{"HardSwish", 1, 1, "", .read = read_smooth, .op = SL_OP_HARDSWISH},
	{"Identity", 1, 1, "", .read = read_identity},
	{"InstanceNormalization", 3, 3, "epsilon", .read = sl_onnx_read_instancenorm},
	{"IsNaN", 1, 1, "", .read = read_known},
	{"LSTM", 3, 7, "direction hidden_size", .read = NULL},
	{"LayerNormalization", 2, 3, "axis epsilon stash_type", .read = read_layernorm},
	{"LeakyRelu", 1, 1, "alpha", .read = sl_onnx_read_leaky},
	{"Less", 2, 2, "", .read = read_known},
	{"LessOrEqual", 2, 2, "", .read = read_known},
	{"Log", 1, 1, "", .read = read_math}, /* after a sigmoid it is read with the sigmoid */
	{"MatMul", 2, 2, "", .read = sl_onnx_read_matmul},
	{"Max", 2, 2, "", .read = read_bound},
	{"MaxPool", 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
	 .read = sl_onnx_read_maxpool},
	{"Min", 2, 2, "", .read = read_bound},
	{"Mish", 1, 1, "", .read = read_mish},
	{"Mul", 2, 2, "", .read = sl_onnx_read_sum, .op = SL_OP_MUL},
	{"Neg", 1, 1, "", .read = sl_onnx_read_neg},
	{"Not", 1, 1, "", .read = read_known},
	{"Or", 2, 2, "", .read = read_known},
	{"PRelu", 2, 2, "", .read = sl_onnx_read_prelu},
	{"Pad", 2, 3, "mode", .read = sl_onnx_read_pad},
	{"Pow", 2, 2, "", .read = sl_onnx_read_pow},
	{"RNN", 3, 6, "activations direction hidden_size", .read = NULL},
	{"Range", 3, 3, "", .read = read_range},
	{"Reciprocal", 1, 1, "", .read = read_math}, /* inside an RMS norm it is read with the norm */
	{"ReduceL2", 1, 2, "axes keepdims noop_with_empty_axes", .read = sl_onnx_read_reduce, .op = SL_OP_MUL},
	{"ReduceMax", 1, 2, "axes keepdims noop_with_empty_axes", .read = sl_onnx_read_reduce, .op = SL_OP_MAXPOOL},
	{"ReduceMean", 1, 2, "axes keepdims noop_with_empty_axes", .read = sl_onnx_read_reduce, .op = SL_OP_AVGPOOL},
	{"ReduceProd", 1, 1, "keepdims", .read = read_known},
	{"ReduceSum", 2, 2, "keepdims noop_with_empty_axes", .read = sl_onnx_read_reduce, .op = SL_OP_ADD},
	{"Relu", 1, 1, "", .read = read_relu},
	{"Reshape", 2, 2, "allowzero", .read = sl_onnx_read_reshape},
	{"Resize", 1, 4, "coordinate_transformation_mode cubic_coeff_a mode nearest_mode extrapolation_value",
	 .read = sl_onnx_read_resize},
	{"Selu", 1, 1, "alpha gamma", .read = sl_onnx_read_elu},
	{"Shape", 1, 1, "end start", .read = sl_onnx_read_shape},
	{"Sigmoid", 1, 1, "", .read = read_sigmoid, .op = SL_OP_SIGMOID},
	{"Slice", 3, 5, "", .read = sl_onnx_read_slice},
	{"Softmax", 1, 1, "axis", .read = sl_onnx_read_softmax},
	{"Softplus", 1, 1, "", .read = read_smooth, .op = SL_OP_SOFTPLUS},
	{"Softsign", 1, 1, "", .read = sl_onnx_read_softsign},
	{"Split", 1, 2, "axis num_outputs", .read = sl_onnx_read_split},
	{"Sqrt", 1, 1, "", .read = read_math},
	{"Squeeze", 1, 2, "", .read = sl_onnx_read_squeeze},
	{"Sub", 2, 2, "", .read = sl_onnx_read_sub},
	{"Tanh", 1, 1, "", .read = read_smooth, .op = SL_OP_TANH},
	{"Transpose", 1, 1, "perm", .read = sl_onnx_read_transpose},
	{"Trilu", 1, 2, "upper", .read = sl_onnx_read_trilu},
	{"Unsqueeze", 2, 2, "", .read = sl_onnx_read_unsqueeze},
	{"Where", 3, 3, "", .read = read_known},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const struct sl_onnx_kind *sl_onnx_find_kind(const char *word)
{
	for (int i = 0; i < N_KINDS; i++)
		if (strcmp(kinds[i].word, word) == 0)
			return &kinds[i];
	return NULL;
}
