/* From a graph of ours to the nodes of an ONNX file. There images are [N,C,H,W], other values as they are here, and
 * parameters as torch has them. An op of ours becomes the nodes that the reader makes that op of again. */
#include "client/model/onnx_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_emit.h"
#include "client/model/weights_file.h"

struct writer {
	struct sl_onnx_emit e;
	const struct sl_model *model;
	const struct sl_graph *g;
	const float *const *param;
	struct sl_onnx_text *name; /* of the graph's values */
	bool *repeats;             /* values that stand for a parameter, which nodes repeat by themselves */
	bool *flattened;           /* rows that are images, in the file's order of numbers */
	struct sl_op op;           /* that is being written */
	const struct sl_node *node;
	int index; /* of the node, or of the last one that was written with it */
	struct sl_fail *fail;
	enum sl_err err;
};

static void refuse(struct writer *w, const char *why)
{
	if (!w->err)
		w->err = sl_fail_set(w->fail, SL_ERR_CONFIG,
				     "%.96s (%s) has no form in ONNX files%s: name a file that ends with .safetensors",
				     w->node->name, sl_op_kind_name(w->node->kind), why);
}

/* ---- what the node reads and has */

static const char *in(const struct writer *w, int i)
{
	return w->name[w->g->link[w->node->in + i]].t;
}

static const struct sl_file_param *param_of(const struct writer *w, int i)
{
	return &w->model->file[w->g->link[w->node->param + i]];
}

static const char *param(const struct writer *w, int i)
{
	return i < w->node->n_param ? w->g->param[w->g->link[w->node->param + i]].name : NULL;
}

static bool is_image(const struct sl_shape *s)
{
	return s->ndim == 4;
}

/* Where an axis of ours lies in the file. */
static int64_t axis_in_file(const struct sl_shape *s, int axis)
{
	return is_image(s) ? (int[]){0, 2, 3, 1}[axis] : axis;
}

static void out(struct writer *w, struct sl_onnx_text made)
{
	w->name[w->node->out] = made;
}

static struct sl_onnx_text two(struct writer *w, const char *kind, const char *x, struct sl_onnx_text y)
{
	return SL_ONNX_EMIT(&w->e, kind, x, y.t);
}

static struct sl_onnx_text number(struct writer *w, const char *kind, struct sl_onnx_text x, float v)
{
	return two(w, kind, x.t, sl_onnx_emit_number(&w->e, v));
}

static struct sl_onnx_text with_list(struct writer *w, const char *kind, const char *x, const int64_t *v, int n)
{
	return two(w, kind, x, sl_onnx_emit_list(&w->e, v, n));
}

#define ONE(w, kind, x) SL_ONNX_EMIT(&(w)->e, kind, (x).t)
#define LIST(w, kind, x, ...)                                 \
	with_list(w, kind, x, (const int64_t[]){__VA_ARGS__}, \
		  (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static float one_at(int64_t i, int64_t n)
{
	return 1;
}

/* Of a causal mask of n tokens: 0 on and below the diagonal. */
static float mask_at(int64_t i, int64_t n)
{
	return i % n > i / n ? -INFINITY : 0;
}

/* ---- kinds */

/* Of conv1d the image of height 1 becomes a signal. */
static void write_conv(struct writer *w)
{
	const struct sl_conv_attr *a = &w->op.u.conv;
	const bool flat = param_of(w, 0)->shape.ndim == 3;
	struct sl_onnx_text x = flat ? LIST(w, "Squeeze", in(w, 0), 2) : (struct sl_onnx_text){""};

	x = SL_ONNX_EMIT(&w->e, "Conv", flat ? x.t : in(w, 0), param(w, 0), param(w, 1));
	sl_onnx_emit_ints(&w->e, "kernel_shape", (int64_t[]){a->kh, a->kw} + flat, 2 - flat);
	sl_onnx_emit_ints(&w->e, "strides", (int64_t[]){a->stride, a->stride}, 2 - flat);
	sl_onnx_emit_ints(&w->e, "dilations", (int64_t[]){a->dilation, a->dilation}, 2 - flat);
	sl_onnx_emit_ints(&w->e, "pads", (int64_t[]){a->pad, a->pad, a->pad, a->pad}, 4 - 2 * flat);
	sl_onnx_emit_int(&w->e, "group", a->groups);
	out(w, flat ? LIST(w, "Unsqueeze", x.t, 2) : x);
}

static void write_convt(struct writer *w)
{
	const struct sl_convt_attr *a = &w->op.u.convt;

	out(w, SL_ONNX_EMIT(&w->e, "ConvTranspose", in(w, 0), param(w, 0), param(w, 1)));
	sl_onnx_emit_square(&w->e, a->kh, a->kw, a->stride, a->pad);
	sl_onnx_emit_ints(&w->e, "output_padding", (int64_t[]){a->out_pad_h, a->out_pad_w}, 2);
}

/* The file has what the old running value keeps. */
static void write_batchnorm(struct writer *w)
{
	out(w, SL_ONNX_EMIT(&w->e, "BatchNormalization", in(w, 0), param(w, 0), param(w, 1), param(w, 2), param(w, 3)));
	sl_onnx_emit_output(&w->e);
	sl_onnx_emit_output(&w->e);
	sl_onnx_emit_float(&w->e, "epsilon", w->op.u.bn.eps);
	sl_onnx_emit_float(&w->e, "momentum", (float)(1.0 - (double)w->op.u.bn.momentum));
	sl_onnx_emit_int(&w->e, "training_mode", 1);
}

static void write_act(struct writer *w)
{
	struct sl_onnx_text low, high;

	if (w->op.u.act == SL_ACT_RELU) {
		out(w, SL_ONNX_EMIT(&w->e, "Relu", in(w, 0)));
		return;
	}
	low = sl_onnx_emit_number(&w->e, 0);
	high = sl_onnx_emit_number(&w->e, 6);
	out(w, SL_ONNX_EMIT(&w->e, "Clip", in(w, 0), low.t, high.t));
}

static void write_pool(struct writer *w)
{
	const struct sl_pool_attr *a = &w->op.u.pool;
	const bool mean = w->op.kind == SL_OP_AVGPOOL;

	out(w, SL_ONNX_EMIT(&w->e,
			    mean ? (a->k ? "AveragePool" : "GlobalAveragePool") : (a->k ? "MaxPool" : "GlobalMaxPool"),
			    in(w, 0)));
	if (a->k)
		sl_onnx_emit_square(&w->e, a->k, a->k, a->stride, a->pad);
	if (a->k && mean)
		sl_onnx_emit_int(&w->e, "count_include_pad", 1);
}

/* Of rows as torch's Linear with a bias, else as a product and a sum. */
static void write_linear(struct writer *w)
{
	const bool turned = w->op.u.linear.transposed;
	struct sl_onnx_text x = {""};

	if (w->op.in_shape[0].ndim == 2 && !turned && (param(w, 1) || param_of(w, 0)->layout != SL_LAYOUT_SAME)) {
		out(w, SL_ONNX_EMIT(&w->e, "Gemm", in(w, 0), param(w, 0), param(w, 1)));
		sl_onnx_emit_int(&w->e, "transB", 1);
		return;
	}
	if (!turned) {
		x = SL_ONNX_EMIT(&w->e, "Transpose", param(w, 0));
		sl_onnx_emit_ints(&w->e, "perm", (int64_t[]){1, 0}, 2);
	}
	x = SL_ONNX_EMIT(&w->e, "MatMul", in(w, 0), turned ? param(w, 0) : x.t);
	out(w, param(w, 1) ? SL_ONNX_EMIT(&w->e, "Add", x.t, param(w, 1)) : x);
}

static void write_dropout(struct writer *w)
{
	out(w, sl_onnx_emit_dropout(&w->e, in(w, 0), w->op.u.dropout.p));
}

/* by · x, x + plus, plus − x, or both. */
static void write_scale(struct writer *w)
{
	const float by = w->op.u.scale.by, plus = w->op.u.scale.plus;
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]], from;

	if (by == -1 && plus != 0) {
		from = sl_onnx_emit_number(&w->e, plus);
		out(w, SL_ONNX_EMIT(&w->e, "Sub", from.t, x.t));
		return;
	}
	if (by != 1 || plus == 0)
		x = number(w, "Mul", x, by);
	out(w, plus != 0 ? number(w, "Add", x, plus) : x);
}

static void write_gelu(struct writer *w)
{
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]], y;

	if (w->op.u.gelu.tanh) {
		out(w, ONE(w, "Gelu", x));
		sl_onnx_emit_word(&w->e, "approximate", "tanh");
		return;
	}
	y = ONE(w, "Erf", number(w, "Div", x, (float)M_SQRT2));
	out(w, number(w, "Mul", two(w, "Mul", x.t, number(w, "Add", y, 1)), 0.5f));
}

/* Of the last axis, which an image's channels become. */
static void write_norm(struct writer *w)
{
	const bool image = is_image(&w->op.in_shape[0]);
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]], y;

	if (w->op.u.norm.plus || w->op.u.norm.parts > 1)
		refuse(w, " but of whole tokens, by the weight alone");
	x = image ? sl_onnx_emit_transpose(&w->e, x, "0231") : x;
	if (w->op.kind == SL_OP_LAYERNORM) {
		x = SL_ONNX_EMIT(&w->e, "LayerNormalization", x.t, param(w, 0), param(w, 1));
		sl_onnx_emit_int(&w->e, "axis", -1);
		sl_onnx_emit_float(&w->e, "epsilon", w->op.u.norm.eps);
	} else {
		y = ONE(w, "ReduceMean", number(w, "Pow", x, 2));
		sl_onnx_emit_ints(&w->e, "axes", (int64_t[]){-1}, 1);
		y = ONE(w, "Reciprocal", ONE(w, "Sqrt", number(w, "Add", y, w->op.u.norm.eps)));
		x = two(w, "Mul", x.t, y);
		x = SL_ONNX_EMIT(&w->e, "Mul", x.t, param(w, 0));
	}
	out(w, image ? sl_onnx_emit_transpose(&w->e, x, "0312") : x);
}

static void write_groupnorm(struct writer *w)
{
	const struct sl_groupnorm_attr *a = &w->op.u.groupnorm;
	const int64_t *dim = w->op.in_shape[0].dim;
	struct sl_onnx_text x, ones, zeros;

	if (!is_image(&w->op.in_shape[0])) {
		refuse(w, " but of images");
		return;
	}
	x = LIST(w, "Reshape", in(w, 0), 0, a->groups, -1);
	ones = sl_onnx_emit_floats(&w->e, &(int64_t){a->groups}, 1, one_at);
	zeros = sl_onnx_emit_floats(&w->e, &(int64_t){a->groups}, 1, NULL);
	x = SL_ONNX_EMIT(&w->e, "InstanceNormalization", x.t, ones.t, zeros.t);
	sl_onnx_emit_float(&w->e, "epsilon", a->eps);
	x = LIST(w, "Reshape", x.t, 0, dim[3], dim[1], dim[2]);
	for (int i = 0; i < w->node->n_param; i++)
		x = two(w, i ? "Add" : "Mul", x.t, LIST(w, "Unsqueeze", param(w, i), 1, 2));
	out(w, x);
}

static void write_attention(struct writer *w)
{
	const struct sl_attention_attr *a = &w->op.u.attention;
	const int64_t s = w->op.in_shape[0].dim[1], all = w->op.in_shape[0].dim[2];
	struct sl_onnx_text head[3], x;

	if (!a->each || sl_attention_kv(a) != a->heads || a->rope > 0) {
		refuse(w, " where heads share keys, or turn by positions");
		return;
	}
	for (int i = 0; i < 3; i++)
		head[i] = sl_onnx_emit_transpose(&w->e, LIST(w, "Reshape", in(w, i), 0, s, a->heads, all / a->heads),
						 i == 1 ? "0231" : "0213");
	x = number(w, "Mul", two(w, "MatMul", head[0].t, head[1]), (float)(1 / sqrt((double)(all / a->heads))));
	if (a->causal)
		x = two(w, "Add", x.t, sl_onnx_emit_floats(&w->e, (int64_t[]){s, s}, 2, mask_at));
	x = ONE(w, "Softmax", x);
	sl_onnx_emit_int(&w->e, "axis", -1);
	if (a->p > 0)
		x = sl_onnx_emit_dropout(&w->e, x.t, a->p);
	x = sl_onnx_emit_transpose(&w->e, two(w, "MatMul", x.t, head[2]), "0213");
	out(w, LIST(w, "Reshape", x.t, 0, s, all));
}

/* In the order of memory, both sides of it. */
static void write_permute(struct writer *w)
{
	const struct sl_permute_attr *a = &w->op.u.permute;
	const struct sl_shape *from = &w->op.in_shape[0], *to = &w->op.out_shape;
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]];

	if (is_image(from))
		x = sl_onnx_emit_transpose(&w->e, x, "0231");
	if (a->b > 1 && a->c > 1)
		x = sl_onnx_emit_transpose(&w->e, LIST(w, "Reshape", x.t, 0, a->outer, a->b, a->c, -1), "01324");
	x = with_list(w, "Reshape", x.t, (const int64_t[]){0, to->dim[1], to->dim[2], to->dim[3]}, to->ndim);
	out(w, is_image(to) ? sl_onnx_emit_transpose(&w->e, x, "0312") : x);
}

/* More numbers of an axis before and behind. */
static struct sl_onnx_text padded(struct writer *w, struct sl_onnx_text x, int64_t axis, int64_t before, int64_t behind,
				  enum sl_resample mode)
{
	const int n = w->op.in_shape[0].ndim;
	int64_t pads[2 * SL_MAX_DIMS] = {0};

	if (!before && !behind)
		return x;
	pads[axis] = before;
	pads[n + axis] = behind;
	x = with_list(w, "Pad", x.t, pads, 2 * n);
	sl_onnx_emit_word(&w->e, "mode",
			  mode == SL_RESAMPLE_REFLECT ? "reflect"
			  : mode == SL_RESAMPLE_EDGE  ? "edge"
						      : "constant");
	return x;
}

/* To that size along an axis of an image, whose batch may have any. */
static void write_resize(struct writer *w, int64_t axis)
{
	const struct sl_resample_attr *a = &w->op.u.resample;
	const struct sl_shape *s = &w->op.in_shape[0];
	const int64_t size[] = {s->dim[3], axis == 2 ? a->size : s->dim[1], axis == 3 ? a->size : s->dim[2]};
	const bool nearest = a->mode == SL_RESAMPLE_NEAREST;
	struct sl_onnx_text shape = sl_onnx_emit_list(&w->e, size, 3), batch;

	batch = sl_onnx_emit_slice(&w->e, SL_ONNX_EMIT(&w->e, "Shape", in(w, 0)), 0, 0, 1, 1);
	shape = two(w, "Concat", batch.t, shape);
	sl_onnx_emit_int(&w->e, "axis", 0);
	out(w, SL_ONNX_EMIT(&w->e, "Resize", in(w, 0), "", "", shape.t));
	sl_onnx_emit_word(&w->e, "mode", nearest ? "nearest" : "linear");
	sl_onnx_emit_word(&w->e, "coordinate_transformation_mode",
			  nearest                         ? "asymmetric"
			  : a->mode == SL_RESAMPLE_LINEAR ? "half_pixel"
							  : "align_corners");
	if (nearest)
		sl_onnx_emit_word(&w->e, "nearest_mode", "floor");
}

static void write_mean(struct writer *w, int64_t axis, int64_t behind)
{
	const struct sl_resample_attr *a = &w->op.u.resample;
	const bool high = axis == 2;

	out(w, SL_ONNX_EMIT(&w->e, "AveragePool", in(w, 0)));
	sl_onnx_emit_window(
		&w->e, high ? a->window : 1, high ? 1 : a->window, (int64_t[]){high ? a->step : 1, high ? 1 : a->step},
		(int64_t[]){high ? a->before : 0, high ? 0 : a->before, high ? behind : 0, high ? 0 : behind});
	sl_onnx_emit_int(&w->e, "count_include_pad", 1);
}

static void write_resample(struct writer *w)
{
	const struct sl_resample_attr *a = &w->op.u.resample;
	const struct sl_shape *s = &w->op.in_shape[0];
	const int64_t axis = axis_in_file(s, a->axis), n = s->dim[a->axis],
		      last = (int64_t)a->first - a->before + (int64_t)(a->size - 1) * a->step + a->window,
		      behind = last > n ? last - n : 0;
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]];

	if (w->repeats[w->g->link[w->node->in]]) {
		w->repeats[w->node->out] = true;
		out(w, x);
	} else if (a->mode == SL_RESAMPLE_MEAN && is_image(s) && axis > 1) {
		write_mean(w, axis, behind);
	} else if (a->mode <= SL_RESAMPLE_EDGE) {
		x = padded(w, x, axis, a->before, behind, a->mode);
		if (a->first || last < n || a->step > 1)
			x = sl_onnx_emit_slice(&w->e, x, axis, a->first, last + a->before, a->step);
		out(w, x);
	} else if (a->mode <= SL_RESAMPLE_ALIGNED && is_image(s)) {
		write_resize(w, axis);
	} else {
		refuse(w, " in this mode");
	}
}

/* The last of the nodes that the reader makes of nn.PReLU, relu(x) − w · relu(−x), where this is the first; or NULL. */
static const struct sl_node *prelu_end(const struct writer *w)
{
	const struct sl_node *n = w->node + 1, *end = w->g->node + w->g->n_node;

	while (n < end && n->kind == SL_OP_RESAMPLE)
		n++;
	return n + 5 < end && n->kind == SL_OP_SCALE && n[1].kind == SL_OP_ACT && n[5].kind == SL_OP_ADD &&
			       strcmp(n[5].name, w->node->name) == 0
		       ? n + 5
		       : NULL;
}

/* Stands for the parameter itself, which may lack axes of size 1: nodes align the last axes of what they read. */
static void write_repeat(struct writer *w)
{
	const struct sl_shape *s = &w->op.out_shape, *p = &param_of(w, 0)->shape;
	const struct sl_node *end = prelu_end(w);
	const int lack = s->ndim - 1 - p->ndim;
	struct sl_onnx_text x;
	bool aligned = true;

	for (int i = 1; i < s->ndim; i++) {
		const int at = (int)axis_in_file(s, i) - 1 - lack;

		aligned &= s->dim[i] == (at < 0 ? 1 : p->dim[at]);
	}
	snprintf(x.t, sizeof x.t, "%s", w->g->param[w->g->link[w->node->param]].name);
	if ((end || !aligned) && lack > 0)
		x = with_list(w, "Unsqueeze", x.t, (int64_t[]){p->ndim, p->ndim + 1}, lack);
	w->repeats[w->node->out] = true;
	out(w, x);
	if (!end)
		return;
	w->name[end->out] = two(w, "PRelu", in(w, 0), x);
	w->index = (int)(end - w->g->node);
}

static void write_concat(struct writer *w)
{
	const struct sl_shape *s = &w->op.out_shape;
	struct sl_onnx_text part[2];

	for (int i = 0; i < 2; i++) {
		const int v = w->g->link[w->node->in + i];

		part[i] = w->name[v];
		if (!w->repeats[v])
			continue;
		/* a parameter, such as a class token, for every sample */
		part[i] = sl_onnx_emit_slice(&w->e, SL_ONNX_EMIT(&w->e, "Shape", in(w, 1 - i)), 0, 0, 1, 1);
		part[i] = two(w, "Concat", part[i].t, sl_onnx_emit_list(&w->e, (int64_t[]){1, 1}, s->ndim - 1));
		sl_onnx_emit_int(&w->e, "axis", 0);
		part[i] = two(w, "Expand", w->name[v].t, part[i]);
	}
	out(w, two(w, "Concat", part[0].t, part[1]));
	sl_onnx_emit_int(&w->e, "axis", axis_in_file(s, sl_op_concat_axis(&w->op)));
}

/* Kinds that are one node without more. */
static const char *const words[SL_OP_COUNT] = {[SL_OP_ADD] = "Add",         [SL_OP_MUL] = "Mul",
					       [SL_OP_GATE] = "Mul",        [SL_OP_TANH] = "Tanh",
					       [SL_OP_SIGMOID] = "Sigmoid", [SL_OP_HARDSWISH] = "HardSwish",
					       [SL_OP_ELU] = "Elu",         [SL_OP_SOFTPLUS] = "Softplus",
					       [SL_OP_FLATTEN] = "Flatten", [SL_OP_HARDSIGMOID] = "HardSigmoid",
					       [SL_OP_SILU] = "Sigmoid"};

/* A parameter comes first, where the reader looks for no name. */
static void write_same(struct writer *w)
{
	const bool pair = w->node->n_in == 2, turn = pair && w->repeats[w->g->link[w->node->in + 1]];

	out(w, SL_ONNX_EMIT(&w->e, words[w->node->kind], in(w, turn), pair ? in(w, !turn) : NULL));
	if (w->node->kind == SL_OP_SILU)
		out(w, two(w, "Mul", in(w, 0), w->name[w->node->out]));
	if (w->node->kind == SL_OP_HARDSIGMOID)
		sl_onnx_emit_float(&w->e, "alpha", (float)(1.0 / 6));
}

/* x times the reciprocal of a parameter is x divided by it. Some node is always behind: the loss. */
static void write_math(struct writer *w)
{
	static const char *const math[SL_MATH_COUNT] = {"Exp", "Log", "Sqrt", "Reciprocal"};
	const struct sl_node *next = w->node + 1;

	if (!w->repeats[w->g->link[w->node->in]] || next->n_in < 2 || w->g->link[next->in + 1] != w->node->out) {
		out(w, SL_ONNX_EMIT(&w->e, math[w->op.u.math.fn], in(w, 0), NULL));
		return;
	}
	w->name[next->out] = two(w, "Div", w->name[w->g->link[next->in]].t, w->name[w->g->link[w->node->in]]);
	w->index++;
}

static void (*const kinds[SL_OP_COUNT])(struct writer *w) = {
	[SL_OP_MATH] = write_math,
	[SL_OP_CONV2D] = write_conv,
	[SL_OP_CONVT2D] = write_convt,
	[SL_OP_BATCHNORM] = write_batchnorm,
	[SL_OP_ACT] = write_act,
	[SL_OP_MAXPOOL] = write_pool,
	[SL_OP_AVGPOOL] = write_pool,
	[SL_OP_LINEAR] = write_linear,
	[SL_OP_DROPOUT] = write_dropout,
	[SL_OP_SCALE] = write_scale,
	[SL_OP_GELU] = write_gelu,
	[SL_OP_LAYERNORM] = write_norm,
	[SL_OP_RMSNORM] = write_norm,
	[SL_OP_GROUPNORM] = write_groupnorm,
	[SL_OP_ATTENTION] = write_attention,
	[SL_OP_PERMUTE] = write_permute,
	[SL_OP_RESAMPLE] = write_resample,
	[SL_OP_REPEAT] = write_repeat,
	[SL_OP_CONCAT] = write_concat,
};

/* ---- the whole */

/* Rows of an image's numbers, which only a linear layer and what keeps their places may read. */
static void check_flattened(struct writer *w)
{
	const struct sl_shape *s = &w->op.in_shape[0];
	bool reads = false;

	for (int i = 0; i < w->node->n_in; i++)
		reads |= w->flattened[w->g->link[w->node->in + i]];
	if (reads && w->node->kind != SL_OP_LINEAR && !sl_op_is_elementwise(w->node->kind))
		refuse(w, " of flattened images");
	w->flattened[w->node->out] = w->node->kind == SL_OP_FLATTEN ? is_image(s) && s->dim[1] * s->dim[2] > 1
								    : reads && w->node->kind != SL_OP_LINEAR;
}

static void write_node(struct writer *w)
{
	w->node = &w->g->node[w->index];
	if (sl_op_is_loss(w->node->kind))
		return;
	w->op = sl_graph_op(w->g, w->index);
	check_flattened(w);
	w->e.name = w->node->name;
	if (kinds[w->node->kind] || words[w->node->kind])
		(kinds[w->node->kind] ? kinds[w->node->kind] : write_same)(w);
	else
		refuse(w, "");
}

static void write_params(struct writer *w)
{
	for (int i = 0; i < w->model->n_plain; i++) {
		const struct sl_file_param *p = &w->model->file[i];
		float *file = malloc((size_t)sl_shape_count(&p->shape) * sizeof *file);

		w->e.graph.full |= !file;
		if (!file)
			return;
		sl_param_to_file_order(p, w->param[i], file);
		sl_onnx_emit_param(&w->e, w->g->param[i].name, &p->shape, file);
		free(file);
	}
}

/* The network's input and its logits. */
static void write_ends(struct writer *w)
{
	const int end[] = {SL_BUILD_INPUT, w->g->link[w->g->node[w->g->n_node - 1].in]};

	for (int i = 0; i < 2; i++) {
		const struct sl_shape *s = &w->g->value[end[i]].shape;
		int64_t dim[SL_MAX_DIMS];

		for (int d = 0; d < s->ndim; d++)
			dim[axis_in_file(s, d)] = s->dim[d];
		sl_onnx_emit_end(&w->e, i ? SL_ONNX_OUTPUT : SL_ONNX_INPUT, w->name[end[i]].t, dim, s->ndim);
	}
}

static enum sl_err check(const struct sl_model *m, struct sl_fail *fail)
{
	const char *what = m->vocab                        ? "reads tokens"
			   : m->n_adapter                  ? "has adapters"
			   : m->graph.n_param > m->n_plain ? "has inserts"
							   : NULL;

	return what ? sl_fail_set(fail, SL_ERR_CONFIG,
				  "%s %s, which is not written as ONNX: name a file that ends with .safetensors",
				  m->name, what)
		    : SL_OK;
}

enum sl_err sl_onnx_write(const struct sl_model *model, const char *path, const float *const *param,
			  const struct sl_st_note *notes, int n_notes, struct sl_fail *fail)
{
	const struct sl_graph *g = &model->graph;
	struct writer w = {.model = model, .g = g, .param = param, .fail = fail};
	int opset = 17; /* Gelu is of 20 */

	w.err = check(model, fail);
	if (w.err)
		return w.err;
	for (int i = 0; i < g->n_node; i++)
		opset = g->node[i].kind == SL_OP_GELU && g->node[i].u.gelu.tanh ? 20 : opset;
	w.name = calloc((size_t)g->n_value, sizeof *w.name);
	w.repeats = calloc((size_t)g->n_value, 2 * sizeof *w.repeats);
	w.e.graph.full = !w.name || !w.repeats;
	if (!w.e.graph.full) {
		w.flattened = w.repeats + g->n_value;
		snprintf(w.name[SL_BUILD_INPUT].t, sizeof w.name->t, "%s", g->in[0].name);
		for (; w.index < g->n_node && !w.err; w.index++)
			write_node(&w);
		write_params(&w);
		write_ends(&w);
	}
	if (!w.err)
		w.err = sl_onnx_emit_save(&w.e, opset, notes, n_notes, path, fail);
	free(w.e.node.data);
	free(w.e.graph.data);
	free(w.name);
	free(w.repeats);
	return w.err;
}
