/* Kinds of nodes that change shapes: flatten and reshape, the arithmetic of shapes in front of it, concat. Of a shape
 * the batch is not known: SL_ONNX_BATCH stands for it. */
#include <string.h>

#include "client/model/onnx_nodes.h"

static void out_ints(struct sl_onnx_import *im, const int64_t *ints, int n, bool scalar)
{
	struct sl_onnx_value made = {.value = -1, .n_ints = n, .scalar = scalar};

	memcpy(made.ints, ints, (size_t)n * sizeof *ints);
	sl_onnx_out_same(im, &made);
}

/* In the file's order. */
void sl_onnx_read_shape(struct sl_onnx_import *im)
{
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted);
	struct sl_shape s;
	int64_t dim[4] = {SL_ONNX_BATCH};

	if (im->b->err)
		return;
	s = sl_build_shape(im->b, x);
	for (int i = 1; i < s.ndim; i++)
		dim[i] = s.ndim == 4 ? s.dim[i == 1 ? 3 : i - 1] : s.dim[i];
	out_ints(im, dim, s.ndim, false);
}

void sl_onnx_read_gather(struct sl_onnx_import *im)
{
	int64_t from[SL_ONNX_INTS], index[SL_ONNX_INTS], picked[SL_ONNX_INTS];
	const struct sl_onnx_value *at = sl_onnx_in(im, 1);
	const int n = sl_onnx_ints_in(im, 0, from), m = sl_onnx_ints_in(im, 1, index);

	sl_onnx_must_be(im, "axis", 0, 0);
	if (im->b->err)
		return;
	if (n < 1 || m < 1) {
		sl_onnx_refuse(im, "it does not pick from a shape by a constant");
		return;
	}
	for (int i = 0; i < m; i++) {
		if (index[i] < -n || index[i] >= n) {
			sl_onnx_refuse(im, "it picks number %lld of %d", (long long)index[i], n);
			return;
		}
		picked[i] = from[index[i] < 0 ? index[i] + n : index[i]];
	}
	out_ints(im, picked, m, m == 1 && at->constant && !at->constant->n_dims);
}

void sl_onnx_read_unsqueeze(struct sl_onnx_import *im)
{
	int64_t ints[SL_ONNX_INTS], axis[SL_ONNX_INTS];
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const bool scalar = v && (v->n_ints ? v->scalar : v->constant && !v->constant->n_dims);
	const int n = sl_onnx_ints_in(im, 0, ints), axes = sl_onnx_ints_in(im, 1, axis);

	if (im->b->err)
		return;
	if (n != 1 || !scalar || axes != 1 || (axis[0] != 0 && axis[0] != -1)) {
		sl_onnx_refuse(im, "it does not make a list of one number of a shape");
		return;
	}
	out_ints(im, ints, 1, false);
}

static void concat_ints(struct sl_onnx_import *im)
{
	int64_t all[SL_ONNX_INTS], ints[SL_ONNX_INTS];
	int count = 0;

	sl_onnx_must_be(im, "axis", 0, 0);
	for (size_t i = 0; i < im->node->n_input && !im->b->err; i++) {
		const struct sl_onnx_value *v = sl_onnx_in(im, i);
		const int n = sl_onnx_ints_in(im, i, ints);

		if (im->b->err)
			return;
		if (n < 1 || count + n > SL_ONNX_INTS || (v->n_ints && v->scalar)) {
			sl_onnx_refuse(im, "it joins what is no part of a shape");
			return;
		}
		memcpy(all + count, ints, (size_t)n * sizeof *ints);
		count += n;
	}
	if (!im->b->err)
		out_ints(im, all, count, false);
}

/* The sum of two that was made before, as of a dense block, which joins ever more of the same. */
static int joined(struct sl_onnx_import *im, int a, int b)
{
	const struct sl_graph *g = im->b->graph;

	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_CONCAT && g->link[g->node[i].in] == a && g->link[g->node[i].in + 1] == b)
			return g->node[i].out;
	return sl_build_pair(im->b, im->name, SL_OP_CONCAT, a, b);
}

/* Of channels: two at a time. */
void sl_onnx_read_concat(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *first = sl_onnx_in(im, 0);
	const int64_t axis = sl_onnx_attr_int(im, "axis", 0);
	bool permuted;
	int all = -1;

	if (im->b->err)
		return;
	if (!first || first->value < 0) {
		concat_ints(im);
		return;
	}
	if (axis != 1 && axis != -3)
		sl_onnx_refuse(im, "axis is %lld, where 1, of channels, is read", (long long)axis);
	for (size_t i = 0; i < im->node->n_input && !im->b->err; i++) {
		const int x = sl_onnx_data_in(im, i, 4, &permuted);
		struct sl_shape a, b;

		if (im->b->err)
			return;
		a = sl_build_shape(im->b, i ? all : x);
		b = sl_build_shape(im->b, x);
		if (a.dim[1] != b.dim[1] || a.dim[2] != b.dim[2])
			sl_onnx_refuse(im, "it joins images of %lldx%lld and %lldx%lld", (long long)a.dim[1],
				       (long long)a.dim[2], (long long)b.dim[1], (long long)b.dim[2]);
		else
			all = i ? joined(im, all, x) : x;
	}
	sl_onnx_out(im, all, false);
}

static void flatten(struct sl_onnx_import *im, int x, bool permuted)
{
	const struct sl_shape s = sl_build_shape(im->b, x);

	if (s.ndim == 2)
		sl_onnx_out(im, x, permuted);
	else
		sl_onnx_out(im, sl_build_flatten(im->b, im->name, x), s.dim[1] * s.dim[2] > 1);
}

void sl_onnx_read_flatten(struct sl_onnx_import *im)
{
	const int64_t axis = sl_onnx_attr_int(im, "axis", 1);
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted);

	if (im->b->err)
		return;
	if (axis != 1 && axis != 1 - sl_build_shape(im->b, x).ndim)
		sl_onnx_refuse(im, "axis is %lld, where 1 is read", (long long)axis);
	else
		flatten(im, x, permuted);
}

/* A trace writes the batch of its example as a number. */
static bool is_batch(const struct sl_onnx_import *im, int64_t size)
{
	return size == SL_ONNX_BATCH || size == 0 || (size > 0 && size == sl_onnx_dim(im->onnx->in, 0));
}

/* To [batch, features], as x.view(x.size(0), -1) asks for. */
void sl_onnx_read_reshape(struct sl_onnx_import *im)
{
	int64_t to[SL_ONNX_INTS];
	bool permuted;
	const int x = sl_onnx_data_in(im, 0, 0, &permuted), n = sl_onnx_ints_in(im, 1, to);
	struct sl_shape s;

	sl_onnx_must_be(im, "allowzero", 0, 0);
	if (im->b->err)
		return;
	s = sl_build_shape(im->b, x);
	if (n != 2 || !(is_batch(im, to[0]) || to[0] == -1) ||
	    !(to[1] == sl_shape_row(&s) || (to[1] == -1 && to[0] != -1)))
		sl_onnx_refuse(im, "its shape is not [batch, features] of all features; write x.flatten(1)");
	else
		flatten(im, x, permuted);
}
