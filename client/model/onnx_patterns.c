/* Several nodes that torch writes for one module. They are read together, when the importer is at the first of them. */
#include <math.h>
#include <string.h>

#include "client/model/onnx_shapes.h"

static const Onnx__Node *node_at(const struct sl_onnx_import *im, int index)
{
	return index < 0 ? NULL : im->onnx->graph->node[index];
}

/* The constant of that name as one float; false: it is something else. */
static bool number(struct sl_onnx_import *im, const char *name, float *out)
{
	const struct sl_onnx_value *v = name[0] ? sl_onnx_find(im, name) : NULL;

	if (!v || !v->known || v->value >= 0 || !v->constant || sl_onnx_learns(im, v->constant) ||
	    v->constant->data_type != SL_ONNX_FLOAT || sl_onnx_count(v->constant) != 1)
		return false;
	sl_onnx_read_f32(v->constant, out);
	return true;
}

/* Whether v is computed by a node. A sum of tokens is not accepted: our graph has their mean in its place, of which
 * most functions give other results. */
static bool is_computed(const struct sl_onnx_value *v)
{
	return v && v->value >= 0 && !v->summed;
}

/* The other input's name, of a node with two inputs, one of which is `of`; "": it has not two. */
static const char *other(const Onnx__Node *n, const char *of)
{
	return n->n_input != 2 ? "" : strcmp(n->input[0], of) == 0 ? n->input[1] : n->input[0];
}

/* The next node, if it is of that kind and its other input is a constant of one float, *out; else -1. */
static int next_with(struct sl_onnx_import *im, int index, const char *kind, float *out)
{
	const int next = sl_onnx_next(im, index, kind);

	return next >= 0 && number(im, other(node_at(im, next), node_at(im, index)->output[0]), out) ? next : -1;
}

bool sl_onnx_reads(const Onnx__Node *n, const char *name)
{
	for (size_t i = 0; n && i < n->n_input; i++)
		if (strcmp(n->input[i], name) == 0)
			return true;
	return false;
}

/* The next node, if it is of that kind and its other input is a vector of `count` parameters along one axis; else -1.
 * `axis` counts from the last one, which is 1. */
static int next_param(struct sl_onnx_import *im, int index, const char *kind, int64_t count, int axis)
{
	const int next = sl_onnx_next(im, index, kind);
	const char *name = next < 0 ? "" : other(node_at(im, next), node_at(im, index)->output[0]);
	const struct sl_onnx_value *v = name[0] ? sl_onnx_find(im, name) : NULL;
	int64_t all = 1;

	if (!v || v->value >= 0 || !v->constant || !v->constant->name || v->constant->n_dims != 1 ||
	    sl_onnx_count(v->constant) != count)
		return -1;
	for (int i = 0; i < v->n_dim; i++)
		all *= v->dim[i];
	return v->known && all == count && v->n_dim >= axis && v->dim[v->n_dim - axis] == count ? next : -1;
}

/* The nodes after `index` may be a Mul by γ of a norm, and then an Add of β: those that are there become its
 * parameters. Returns the last of these nodes, or `index`. */
static int take_affine(struct sl_onnx_import *im, int index, int64_t c, int axis, bool *weight, bool *bias)
{
	const int before = im->n_param, mul = next_param(im, index, "Mul", c, axis);
	const int add = mul < 0 ? -1 : next_param(im, mul, "Add", c, axis);

	*weight = mul >= 0;
	*bias = add >= 0;
	if (mul >= 0)
		sl_onnx_param_named(im, other(node_at(im, mul), node_at(im, index)->output[0]));
	if (add >= 0)
		sl_onnx_param_named(im, other(node_at(im, add), node_at(im, mul)->output[0]));
	sl_onnx_use_params(im, before);
	return add >= 0 ? add : mul >= 0 ? mul : index;
}

/* The first axis of a mean over the last axes, but not over all; -1: it is over others. */
static int first_axis(struct sl_onnx_import *im, const Onnx__Node *n, int n_axis)
{
	const struct sl_onnx_value *list = n->n_input > 1 ? sl_onnx_find(im, n->input[1]) : NULL;
	int64_t known[SL_ONNX_INTS];
	const int64_t *axis = known;
	int count = list && list->known ? sl_onnx_ints_of(list, known) : -1;

	for (size_t i = 0; i < n->n_attribute; i++)
		if (strcmp(n->attribute[i]->name, "axes") == 0) {
			axis = n->attribute[i]->ints;
			count = n->attribute[i]->n_ints < (size_t)n_axis ? (int)n->attribute[i]->n_ints : -1;
		} else if (strcmp(n->attribute[i]->name, "keepdims") == 0 && !n->attribute[i]->i)
			return -1;
	for (int i = 0; i < count; i++)
		if (axis[i] != i - count && axis[i] != n_axis - count + i)
			return -1;
	return count < 1 || count >= n_axis ? -1 : n_axis - count;
}

static bool is_last_axis(struct sl_onnx_import *im, const Onnx__Node *n, int n_axis)
{
	return first_axis(im, n, n_axis) == n_axis - 1;
}

void sl_onnx_plain_norm(struct sl_onnx_import *im, struct sl_onnx_value *v, int first, float eps)
{
	const int n = v->view.n_axis;
	int axis[SL_ONNX_ATOMS], x;
	int64_t groups = 1;

	if (sl_onnx_batch_axis(&v->view) || first < 1 || v->permuted || !(eps >= 1e-30f && eps <= 1))
		sl_onnx_refuse(im, "it is over the batch, or epsilon is not in 0 … 1");
	for (int i = 1; i < n; i++) {
		axis[i - 1] = i;
		groups *= i < first ? sl_onnx_axis_size(&v->view, i) : 1;
	}
	x = im->b->err ? -1 : sl_onnx_arrange_axes(im, v, axis, n - 1, n - 1);
	if (im->b->err)
		return;
	x = sl_build_permute(im->b, im->name, x, (struct sl_permute_attr){1, 1, 1, 1, 1});
	x = sl_build_groupnorm(im->b, im->name, x, (int)groups, eps, false);
	sl_onnx_out_view(im, sl_build_flatten(im->b, im->name, x), &v->view);
}

/* ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, and then Mul and Add of parameters, if there are any. */
bool sl_onnx_read_layernorm(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int sub = sl_onnx_next(im, im->index, "Sub"), last = v ? v->view.n_axis - 1 : 0;
	const int first = is_computed(v) ? first_axis(im, im->node, v->view.n_axis) : -1;
	int pow = -1, div = -1, at, x;
	float two = 0, eps = 0;
	bool weight, bias;

	if (im->b->err || sub < 0 || first < 1 || v->permuted ||
	    strcmp(node_at(im, sub)->input[0], im->node->input[0]) != 0)
		return false;
	sl_onnx_two_readers(im, sub, &pow, &div);
	if (pow < 0 || strcmp(node_at(im, pow)->op_type, "Pow") != 0) {
		const int swap = pow;

		pow = div;
		div = swap;
	}
	if (pow < 0 || div < 0 || strcmp(node_at(im, pow)->op_type, "Pow") != 0 ||
	    strcmp(node_at(im, div)->op_type, "Div") != 0 || node_at(im, pow)->n_input != 2 ||
	    !number(im, node_at(im, pow)->input[1], &two) || two != 2)
		return false;
	at = sl_onnx_next(im, pow, "ReduceMean");
	at = at < 0 || first_axis(im, node_at(im, at), v->view.n_axis) != first ? -1 : next_with(im, at, "Add", &eps);
	at = at < 0 ? -1 : sl_onnx_next(im, at, "Sqrt");
	if (at < 0 || !sl_onnx_reads(node_at(im, div), node_at(im, at)->output[0]) ||
	    strcmp(node_at(im, div)->input[0], node_at(im, sub)->output[0]) != 0)
		return false;
	weight = first == last;
	if (weight)
		at = take_affine(im, div, sl_onnx_axis_size(&v->view, last), 1, &weight, &bias);
	if (!weight) {
		sl_onnx_join(im, div);
		sl_onnx_plain_norm(im, v, first, eps);
		return true;
	}
	x = sl_onnx_innermost(im, v, last, false);
	if (im->b->err)
		return true;
	sl_onnx_join(im, at);
	sl_onnx_out_like(im, sl_build_layernorm_of(im->b, im->name, x, eps, bias), v);
	return true;
}

/* x: Pow, ReduceMean, Add, Sqrt, Reciprocal or Div, Mul with x, Mul with a parameter. */
bool sl_onnx_read_rmsnorm(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int mean = sl_onnx_next(im, im->index, "ReduceMean"), before = im->n_param;
	int last, at, mul, x;
	float eps, two, one;

	if (im->b->err || mean < 0 || !is_computed(v) || v->permuted || !number(im, im->node->input[1], &two) ||
	    two != 2 || !is_last_axis(im, node_at(im, mean), v->view.n_axis))
		return false;
	last = v->view.n_axis - 1;
	at = next_with(im, mean, "Add", &eps);
	at = at < 0 ? -1 : sl_onnx_next(im, at, "Sqrt");
	mul = at < 0 ? -1 : sl_onnx_next(im, at, "Reciprocal");
	if (mul < 0 && at >= 0) {
		mul = sl_onnx_next(im, at, "Div");
		mul = mul >= 0 && number(im, node_at(im, mul)->input[0], &one) && one == 1 ? mul : -1;
	}
	mul = mul < 0 ? -1 : sl_onnx_next(im, mul, "Mul");
	if (mul < 0 || !sl_onnx_reads(node_at(im, mul), im->node->input[0]))
		return false;
	at = next_param(im, mul, "Mul", sl_onnx_axis_size(&v->view, last), 1);
	if (at < 0)
		return false;
	x = sl_onnx_innermost(im, v, last, false);
	sl_onnx_param_named(im, other(node_at(im, at), node_at(im, mul)->output[0]));
	sl_onnx_use_params(im, before);
	if (im->b->err)
		return true;
	sl_onnx_join(im, at);
	sl_onnx_out_like(im, sl_build_rmsnorm(im->b, im->name, x, (int)sl_onnx_axis_size(&v->view, last), eps, false),
			 v);
	return true;
}

/* x: Div by √2, Erf, Add 1, Mul with x, Mul by 1/2. */
bool sl_onnx_read_gelu(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int erf = sl_onnx_next(im, im->index, "Erf");
	float root, one = 0, half = 0;
	int at;

	if (im->b->err || !is_computed(v) || erf < 0 || !number(im, im->node->input[1], &root) ||
	    fabsf(root - 1.41421356f) > 1e-5f)
		return false;
	at = next_with(im, erf, "Add", &one);
	at = at < 0 || one != 1 ? -1 : sl_onnx_next(im, at, "Mul");
	if (at < 0 || !sl_onnx_reads(node_at(im, at), im->node->input[0]))
		return false;
	at = next_with(im, at, "Mul", &half);
	if (at < 0 || half != 0.5f)
		return false;
	sl_onnx_join(im, at);
	sl_onnx_out_like(im, sl_build_gelu(im->b, im->name, v->value), v);
	return true;
}

bool sl_onnx_all_are(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int64_t n, float is)
{
	const Onnx__Tensor *t = v && v->known && v->value < 0 ? v->constant : NULL;
	float at;

	if (!t || t->data_type != SL_ONNX_FLOAT || sl_onnx_count(t) != n || sl_onnx_learns(im, t))
		return false;
	for (int64_t i = 0; i < n; i++) {
		memcpy(&at, (t->has_raw_data ? (const char *)t->raw_data.data : (const char *)t->float_data) + i * 4,
		       sizeof at);
		if (at != is)
			return false;
	}
	return true;
}

/* Whether n, a Reshape, restores the shape of v, this node's input. */
static bool restores(struct sl_onnx_import *im, const struct sl_onnx_value *v, const Onnx__Node *n)
{
	const struct sl_onnx_value *shape = n->n_input > 1 ? sl_onnx_find(im, n->input[1]) : NULL;
	const Onnx__Node *maker = node_at(im, shape ? shape->maker : -1);
	int64_t to[SL_ONNX_INTS];
	const int n_to = shape && shape->known ? sl_onnx_ints_of(shape, to) : -1;
	bool same = n_to == v->view.n_axis;

	if (n_to < 0)
		return maker && maker->n_input && strcmp(maker->op_type, "Shape") == 0 &&
		       strcmp(maker->input[0], im->node->input[0]) == 0;
	for (int i = 0; same && i < n_to; i++)
		same = to[i] < 1 || to[i] == sl_onnx_axis_size(&v->view, i);
	return same;
}

/* Reshape to [batch, groups, −1], InstanceNormalization by ones and zeros, Reshape back, Mul and Add of parameters. */
bool sl_onnx_read_groupnorm(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int norm = sl_onnx_next(im, im->index, "InstanceNormalization");
	int64_t to[SL_ONNX_INTS], c;
	bool weight, bias;
	float eps = 1e-5f;
	int at, x;

	if (im->b->err || norm < 0 || !v || v->value < 0 || v->view.n_axis < 2 || node_at(im, norm)->n_input != 3 ||
	    sl_onnx_ints_in(im, 1, to) != 3 || (at = sl_onnx_next(im, norm, "Reshape")) < 0)
		return false;
	c = sl_onnx_axis_size(&v->view, 1);
	for (size_t i = 0; i < node_at(im, norm)->n_attribute; i++)
		if (strcmp(node_at(im, norm)->attribute[i]->name, "epsilon") == 0)
			eps = node_at(im, norm)->attribute[i]->f;
	if ((to[0] && to[0] != im->batch) || to[1] < 1 || c % to[1] || !restores(im, v, node_at(im, at)) ||
	    !sl_onnx_all_are(im, sl_onnx_find(im, node_at(im, norm)->input[1]), to[1], 1) ||
	    !sl_onnx_all_are(im, sl_onnx_find(im, node_at(im, norm)->input[2]), to[1], 0) ||
	    !(eps >= 1e-30f && eps <= 1))
		return false;
	x = sl_onnx_image_in(im);
	at = take_affine(im, at, c, v->view.n_axis - 1, &weight, &bias);
	if (im->b->err)
		return true;
	if (weight != bias) {
		sl_onnx_refuse(im, "nn.GroupNorm with a weight and no bias is not read");
		return true;
	}
	sl_onnx_join(im, at);
	sl_onnx_out(im, sl_build_groupnorm(im->b, im->name, x, (int)to[1], eps, weight));
	return true;
}

/* It becomes a group norm, where each channel is a group. */
void sl_onnx_read_instancenorm(struct sl_onnx_import *im)
{
	const float eps = sl_onnx_attr_float(im, "epsilon", 1e-5f);
	const int x = sl_onnx_image_in(im), before = im->n_param;
	const struct sl_onnx_value *weight = sl_onnx_in(im, 1), *bias = sl_onnx_in(im, 2);
	int64_t c;
	bool plain;

	if (im->b->err)
		return;
	c = sl_onnx_last_of(im, x);
	plain = sl_onnx_all_are(im, weight, c, 1) && sl_onnx_all_are(im, bias, c, 0);
	for (size_t i = 1; i < 3 && !plain && !im->b->err; i++)
		(void)!sl_onnx_vector_of(im, sl_onnx_param_in(im, i, 1), c);
	if (!(eps >= 1e-30f && eps <= 1))
		sl_onnx_refuse(im, "epsilon %g does not lie in 0 … 1", (double)eps);
	if (im->b->err)
		return;
	sl_onnx_use_params(im, before);
	sl_onnx_out(im, sl_build_groupnorm(im->b, im->name, x, (int)c, eps, !plain));
}
