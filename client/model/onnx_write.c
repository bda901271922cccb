/* Turns a graph of ours into nodes of an ONNX file. There, images are [N,C,H,W], other values have our shapes, and
 * parameters have torch's layout. Each op becomes nodes from which the importer makes the same op again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_write_impl.h"

void sl_onnx_write_refuse(struct sl_onnx_writer *w, const char *why)
{
	if (!w->err)
		w->err = sl_fail_set(w->fail, SL_ERR_CONFIG,
				     "%.96s (%s) has no form in ONNX files%s: name a file that ends with .safetensors",
				     w->node->name, sl_op_kind_name(w->node->kind), why);
}

static float one_at(int64_t i, int64_t n)
{
	return 1;
}

/* Element i of a causal mask [n, n]: 0 on and below the diagonal, above it −inf. */
static float mask_at(int64_t i, int64_t n)
{
	return i % n > i / n ? -INFINITY : 0;
}

/* ---- kinds */

/* A conv1d reads a signal: Squeeze takes the image's height of 1 away, and Unsqueeze gives it back. */
static void write_conv(struct sl_onnx_writer *w)
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

static void write_convt(struct sl_onnx_writer *w)
{
	const struct sl_convt_attr *a = &w->op.u.convt;
	const bool flat = param_of(w, 0)->shape.ndim == 3;
	struct sl_onnx_text x = flat ? LIST(w, "Squeeze", in(w, 0), 2) : (struct sl_onnx_text){""};

	x = SL_ONNX_EMIT(&w->e, "ConvTranspose", flat ? x.t : in(w, 0), param(w, 0), param(w, 1));
	sl_onnx_emit_ints(&w->e, "kernel_shape", (int64_t[]){a->kh, a->kw} + flat, 2 - flat);
	sl_onnx_emit_ints(&w->e, "strides", (int64_t[]){a->stride, a->stride}, 2 - flat);
	sl_onnx_emit_ints(&w->e, "pads", (int64_t[]){a->pad, a->pad, a->pad, a->pad}, 4 - 2 * flat);
	sl_onnx_emit_ints(&w->e, "output_padding", (int64_t[]){a->out_pad_h, a->out_pad_w} + flat, 2 - flat);
	if (a->groups > 1)
		sl_onnx_emit_int(&w->e, "group", a->groups);
	out(w, flat ? LIST(w, "Unsqueeze", x.t, 2) : x);
}

/* The file's momentum is the share that the old running value keeps: 1 minus torch's. */
static void write_batchnorm(struct sl_onnx_writer *w)
{
	out(w, SL_ONNX_EMIT(&w->e, "BatchNormalization", in(w, 0), param(w, 0), param(w, 1), param(w, 2), param(w, 3)));
	w->n_two_forms++;
	if (w->training) { /* the new running mean and variance */
		sl_onnx_emit_output(&w->e);
		sl_onnx_emit_output(&w->e);
	}
	sl_onnx_emit_float(&w->e, "epsilon", w->op.u.bn.eps);
	sl_onnx_emit_float(&w->e, "momentum", (float)(1.0 - (double)w->op.u.bn.momentum));
	sl_onnx_emit_int(&w->e, "training_mode", w->training);
}

static void write_act(struct sl_onnx_writer *w)
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

static void write_leaky(struct sl_onnx_writer *w)
{
	out(w, SL_ONNX_EMIT(&w->e, "LeakyRelu", in(w, 0)));
	sl_onnx_emit_float(&w->e, "alpha", w->op.u.leaky.slope);
}

static void write_pool(struct sl_onnx_writer *w)
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

/* Rows with a bias, and flattened images, get a Gemm, as torch writes nn.Linear; others get a MatMul and an Add. */
static void write_linear(struct sl_onnx_writer *w)
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

static void write_lookup(struct sl_onnx_writer *w)
{
	const struct sl_onnx_text id = SL_ONNX_EMIT(&w->e, "Cast", in(w, 0));

	sl_onnx_emit_int(&w->e, "to", SL_ONNX_INT64);
	out(w, two(w, "Gather", param(w, 0), id));
}

static void write_flatten(struct sl_onnx_writer *w)
{
	const struct sl_onnx_text x = w->name[w->g->link[w->node->in]];
	const bool turned = w->flattened[w->node->out] && !is_image(&w->op.in_shape[0]);

	out(w, ONE(w, "Flatten", turned ? sl_onnx_emit_transpose(&w->e, x, "021") : x));
}

static struct sl_onnx_text dropout(struct sl_onnx_writer *w, const char *x, float p)
{
	w->n_two_forms++;
	return sl_onnx_emit_dropout(&w->e, x, p, w->training);
}

static void write_dropout(struct sl_onnx_writer *w)
{
	out(w, dropout(w, in(w, 0), w->op.u.dropout.p));
}

static void write_gelu(struct sl_onnx_writer *w)
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

/* The norm is over the last axis, so images are transposed to [N,H,W,C] for it. */
static void write_norm(struct sl_onnx_writer *w)
{
	const bool image = is_image(&w->op.in_shape[0]);
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]], y;

	if (w->op.u.norm.plus || w->op.u.norm.parts > 1)
		sl_onnx_write_refuse(w, " but of whole tokens, by the weight alone");
	x = image ? sl_onnx_emit_transpose(&w->e, x, "0231") : x;
	if (w->op.kind == SL_OP_LAYERNORM) {
		x = SL_ONNX_EMIT(&w->e, "LayerNormalization", x.t, param(w, 0), param(w, 1));
		sl_onnx_emit_int(&w->e, "axis", -1);
		sl_onnx_emit_float(&w->e, "epsilon", w->op.u.norm.eps);
	} else {
		y = number(w, "Pow", x, 2);
		y = sl_onnx_emit_mean(&w->e, y, -1, w->opset);
		y = ONE(w, "Reciprocal", ONE(w, "Sqrt", number(w, "Add", y, w->op.u.norm.eps)));
		x = two(w, "Mul", x.t, y);
		x = SL_ONNX_EMIT(&w->e, "Mul", x.t, param(w, 0));
	}
	out(w, image ? sl_onnx_emit_transpose(&w->e, x, "0312") : x);
}

static void write_groupnorm(struct sl_onnx_writer *w)
{
	const struct sl_groupnorm_attr *a = &w->op.u.groupnorm;
	const int64_t *dim = w->op.in_shape[0].dim;
	struct sl_onnx_text x, ones, zeros;

	if (!is_image(&w->op.in_shape[0])) {
		sl_onnx_write_refuse(w, " but of images");
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

static void write_attention(struct sl_onnx_writer *w)
{
	const struct sl_attention_attr *a = &w->op.u.attention;
	const int64_t s = w->op.in_shape[0].dim[1], all = w->op.in_shape[0].dim[2];
	struct sl_onnx_text head[3], x;

	if (!a->each || sl_attention_kv(a) != a->heads || a->rope > 0 || a->cap > 0 || a->window) {
		sl_onnx_write_refuse(w,
				     " where heads share keys or turn by positions, or scores have a cap or a window");
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
		x = dropout(w, x.t, a->p);
	x = sl_onnx_emit_transpose(&w->e, two(w, "MatMul", x.t, head[2]), "0213");
	out(w, LIST(w, "Reshape", x.t, 0, s, all));
}

/* Permutes in our memory order: images are transposed to it before, and back after. */
static void write_permute(struct sl_onnx_writer *w)
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

/* The ONNX kinds of ops that write_same writes. */
static const char *const words[SL_OP_COUNT] = {
	[SL_OP_ADD] = "Add",     [SL_OP_MUL] = "Mul",           [SL_OP_GATE] = "Mul",
	[SL_OP_TANH] = "Tanh",   [SL_OP_SIGMOID] = "Sigmoid",   [SL_OP_HARDSWISH] = "HardSwish",
	[SL_OP_ELU] = "Elu",     [SL_OP_SOFTPLUS] = "Softplus", [SL_OP_HARDSIGMOID] = "HardSigmoid",
	[SL_OP_SILU] = "Sigmoid"};

/* A parameter comes first: the importer would name the node after a parameter in a later input. */
static void write_same(struct sl_onnx_writer *w)
{
	const bool pair = w->node->n_in == 2, turn = pair && w->repeats[w->g->link[w->node->in + 1]];

	out(w, SL_ONNX_EMIT(&w->e, words[w->node->kind], in(w, turn), pair ? in(w, !turn) : NULL));
	if (w->node->kind == SL_OP_SILU)
		out(w, two(w, "Mul", in(w, 0), w->name[w->node->out]));
	if (w->node->kind == SL_OP_HARDSIGMOID)
		sl_onnx_emit_float(&w->e, "alpha", (float)(1.0 / 6));
}

/* This node may invert or negate a parameter p, and the next one multiply x by the result, or add it to x. Then both
 * are written as one node, x / p or x − p. There is always a next node: at least the loss. */
static bool write_with_next(struct sl_onnx_writer *w, const char *kind)
{
	const struct sl_node *next = w->node + 1;
	int value = w->node->out;

	for (; next->kind == SL_OP_RESAMPLE && w->g->link[next->in] == value; next++)
		value = next->out;
	if (!w->repeats[w->g->link[w->node->in]] || next->n_in < 2 || w->g->link[next->in + 1] != value)
		return false;
	w->name[next->out] = two(w, kind, w->name[w->g->link[next->in]].t, w->name[w->g->link[w->node->in]]);
	w->index = (int)(next - w->g->node);
	return true;
}

static void write_math(struct sl_onnx_writer *w)
{
	static const char *const math[SL_MATH_COUNT] = {"Exp", "Log", "Sqrt", "Reciprocal"};

	if (!write_with_next(w, "Div"))
		out(w, SL_ONNX_EMIT(&w->e, math[w->op.u.math.fn], in(w, 0), NULL));
}

/* by · x + plus: as Mul, as Add, as both, or as Sub for plus − x. */
static void write_scale(struct sl_onnx_writer *w)
{
	const float by = w->op.u.scale.by, plus = w->op.u.scale.plus;
	struct sl_onnx_text x = w->name[w->g->link[w->node->in]], from;

	if (by == -1 && plus == 0 && write_with_next(w, "Sub"))
		return;
	if (by == -1 && plus != 0) {
		from = sl_onnx_emit_number(&w->e, plus);
		out(w, SL_ONNX_EMIT(&w->e, "Sub", from.t, x.t));
		return;
	}
	if (by != 1 || plus == 0)
		x = number(w, "Mul", x, by);
	out(w, plus != 0 ? number(w, "Add", x, plus) : x);
}

static void (*const kinds[SL_OP_COUNT])(struct sl_onnx_writer *w) = {
	[SL_OP_MATH] = write_math,
	[SL_OP_CONV2D] = write_conv,
	[SL_OP_CONVT2D] = write_convt,
	[SL_OP_BATCHNORM] = write_batchnorm,
	[SL_OP_ACT] = write_act,
	[SL_OP_MAXPOOL] = write_pool,
	[SL_OP_AVGPOOL] = write_pool,
	[SL_OP_LINEAR] = write_linear,
	[SL_OP_LOOKUP] = write_lookup,
	[SL_OP_DROPOUT] = write_dropout,
	[SL_OP_SCALE] = write_scale,
	[SL_OP_LEAKYRELU] = write_leaky,
	[SL_OP_FLATTEN] = write_flatten,
	[SL_OP_GELU] = write_gelu,
	[SL_OP_LAYERNORM] = write_norm,
	[SL_OP_RMSNORM] = write_norm,
	[SL_OP_GROUPNORM] = write_groupnorm,
	[SL_OP_ATTENTION] = write_attention,
	[SL_OP_PERMUTE] = write_permute,
	[SL_OP_RESAMPLE] = sl_onnx_write_resample,
	[SL_OP_REPEAT] = sl_onnx_write_repeat,
	[SL_OP_CONCAT] = sl_onnx_write_concat,
};

/* ---- the whole network */

/* Whether the linear layer that reads value v, through elementwise ops, has columns in the order of an image's planes.
 */
static bool reads_planes(const struct sl_onnx_writer *w, int v, int64_t channels)
{
	for (int i = w->index + 1; i < w->g->n_node; i++) {
		const struct sl_node *n = &w->g->node[i];

		if (w->g->link[n->in] != v)
			continue;
		if (n->kind == SL_OP_LINEAR) {
			const struct sl_file_param *p = &w->model->file[w->g->link[n->param]];

			return p->layout == SL_LAYOUT_HWC_FROM_CHW && p->channels == channels;
		}
		if (sl_op_is_elementwise(n->kind))
			v = n->out;
	}
	return false;
}

/* A flattened image has another order of elements in the file, and so have flattened tokens whose linear layer wants
 * them by features. So only a linear layer, whose weight fits that order, and elementwise ops may read it; other ops
 * are refused. */
static void check_flattened(struct sl_onnx_writer *w)
{
	const struct sl_shape *s = &w->op.in_shape[0];
	bool reads = false;

	for (int i = 0; i < w->node->n_in; i++)
		reads |= w->flattened[w->g->link[w->node->in + i]];
	if (w->node->kind == SL_OP_FLATTEN)
		w->flattened[w->node->out] = is_image(s) ? s->dim[1] * s->dim[2] > 1
							 : s->ndim == 3 && reads_planes(w, w->node->out, s->dim[2]);
	else
		w->flattened[w->node->out] = reads && w->node->kind != SL_OP_LINEAR;
	if (w->node->kind == SL_OP_LINEAR ? reads != (param_of(w, 0)->layout == SL_LAYOUT_HWC_FROM_CHW &&
						      param_of(w, 0)->channels < s->dim[1])
					  : reads && !sl_op_is_elementwise(w->node->kind))
		sl_onnx_write_refuse(w, " of flattened images");
}

static void write_node(struct sl_onnx_writer *w)
{
	w->node = &w->g->node[w->index];
	if (sl_op_is_loss(w->node->kind))
		return;
	w->op = sl_graph_op(w->g, w->index);
	check_flattened(w);
	w->e.name = w->node->name;
	w->e.again = false;
	for (int i = 0; i < w->index; i++)
		w->e.again |= strcmp(w->g->node[i].name, w->e.name) == 0;
	if (w->node->slices)
		sl_onnx_write_refuse(w, ", as it reads volumes");
	else if (kinds[w->node->kind] || words[w->node->kind])
		(kinds[w->node->kind] ? kinds[w->node->kind] : write_same)(w);
	else
		sl_onnx_write_refuse(w, "");
}

/* What learns is an initializer. What the network holds fixed is a constant, so that no reader trains it. */
static void write_params(struct sl_onnx_writer *w)
{
	w->e.name = "";
	for (int i = 0; i < w->model->n_plain; i++) {
		const struct sl_file_param *p = &w->model->file[i];
		float *file = malloc((size_t)sl_shape_count(&p->shape) * sizeof *file);

		w->e.graph.full |= !file;
		if (!file)
			return;
		sl_param_to_file_order(p, w->param[i], file);
		sl_onnx_emit_param(&w->e, w->g->param[i].name, &p->shape, file, w->g->param[i].role == SL_FROZEN);
		free(file);
	}
}

/* The network's input and its logits. */
static void write_ends(struct sl_onnx_writer *w)
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
			   : m->graph.n_in > 2             ? "has several inputs"
			   : m->n_adapter                  ? "has adapters"
			   : m->graph.n_param > m->n_plain ? "has inserts"
							   : NULL;

	for (int i = 0; i < m->graph.n_param && !what; i++)
		if (strcmp(m->graph.param[i].name, m->graph.in[0].name) == 0)
			what = "has a parameter of its input's name";

	return what ? sl_fail_set(fail, SL_ERR_CONFIG,
				  "%s %s, which is not written as ONNX: name a file that ends with .safetensors",
				  m->name, what)
		    : SL_OK;
}

enum sl_err sl_onnx_write(const struct sl_model *model, const char *path, const float *const *param, bool training,
			  const struct sl_st_note *notes, int n_notes, struct sl_fail *fail)
{
	const struct sl_graph *g = &model->graph;
	struct sl_onnx_writer w = {
		.model = model, .g = g, .param = param, .fail = fail, .opset = 17, .training = training};

	w.err = check(model, fail);
	if (w.err)
		return w.err;
	for (int i = 0; i < g->n_node; i++) /* Gelu came with 20 */
		w.opset = g->node[i].kind == SL_OP_GELU && g->node[i].u.gelu.tanh ? 20 : w.opset;
	w.name = calloc((size_t)g->n_value, sizeof *w.name);
	w.repeats = calloc((size_t)g->n_value, 2 * sizeof *w.repeats);
	w.e.graph.full = !w.name || !w.repeats;
	if (!w.e.graph.full) {
		w.flattened = w.repeats + g->n_value;
		snprintf(w.name[SL_BUILD_INPUT].t, sizeof w.name->t, "%s", g->in[0].name);
		write_params(&w);
		for (; w.index < g->n_node && !w.err; w.index++)
			write_node(&w);
		write_ends(&w);
	}
	if (!w.err)
		w.err = sl_onnx_emit_save(&w.e, w.opset, training ? -1 : w.n_two_forms, notes, n_notes, path, fail);
	free(w.e.node.data);
	free(w.e.graph.data);
	free(w.name);
	free(w.repeats);
	return w.err;
}
