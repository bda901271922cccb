/* Readers of nodes that change shapes, take parts of values or join values. */
#include <string.h>

#include "client/model/onnx_shapes.h"
#include "client/model/onnx_tokens.h"

/* ---- constants: of these only the dimensions change */

static const struct sl_onnx_value *constant_in(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);

	return v && v->value < 0 && v->constant ? v : NULL;
}

/* ---- unsqueeze, squeeze */

static bool has_axis(const int64_t *axis, int n, int i, int of)
{
	for (int k = 0; k < n; k++)
		if (axis[k] == i || axis[k] == i - of)
			return true;
	return false;
}

void sl_onnx_read_unsqueeze(struct sl_onnx_import *im)
{
	struct sl_onnx_value made, *v = sl_onnx_in(im, 0);
	int64_t axis[SL_ONNX_INTS];
	const int n = sl_onnx_ints_in(im, 1, axis);
	int of, from = 0;

	if (im->b->err || sl_onnx_read_ints(im))
		return;
	if (!v || n < 1) {
		sl_onnx_refuse(im, "its axes are no constants");
		return;
	}
	made = *v;
	of = (v->value < 0 ? made.n_dim : v->view.n_axis) + n;
	if (of > SL_ONNX_ATOMS) {
		sl_onnx_refuse(im, "it makes %d axes, where %d are the most", of, SL_ONNX_ATOMS);
		return;
	}
	made.n_dim = made.view.n_axis = of;
	for (int i = 0; i < of; i++) {
		const bool is_new = has_axis(axis, n, i, of);

		if (!is_new && from >= of - n) {
			sl_onnx_refuse(im, "its axes are not those of its input");
			return;
		}
		made.dim[i] = is_new ? 1 : v->dim[from];
		made.view.axis[i] = is_new ? (struct sl_onnx_axis){0} : v->view.axis[from];
		from += !is_new;
	}
	sl_onnx_out_same(im, &made);
}

void sl_onnx_read_squeeze(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_onnx_value made;
	int64_t axis[SL_ONNX_INTS];
	const int n = im->node->n_input > 1 ? sl_onnx_ints_in(im, 1, axis) : -1;

	if (im->b->err || sl_onnx_read_ints(im) || sl_onnx_data_in(im, 0, 0) < 0)
		return;
	made = *v;
	made.view.n_axis = 0;
	for (int i = 0; i < n; i++)
		if (axis[i] < -v->view.n_axis || axis[i] >= v->view.n_axis)
			sl_onnx_refuse(im, "axis %lld is not there", (long long)axis[i]);
	for (int i = 0; i < v->view.n_axis; i++) {
		const bool gone = has_axis(axis, n, i, v->view.n_axis);

		if (gone && sl_onnx_axis_size(&v->view, i) != 1)
			sl_onnx_refuse(im, "axis %d is not of size 1", i);
		if (!gone)
			made.view.axis[made.view.n_axis++] = v->view.axis[i];
	}
	if (n < 1)
		sl_onnx_refuse(im, "its axes are no constants");
	sl_onnx_out_same(im, &made);
}

/* ---- flatten, reshape, transpose */

/* Reshapes v to [batch, features]. x: its value, which in an image has another order of elements (`permuted`). */
static void flatten(struct sl_onnx_import *im, const struct sl_onnx_value *v, int x)
{
	const struct sl_shape s = sl_build_shape(im->b, x);
	struct sl_onnx_value made = *v;
	bool image = s.ndim == 4 && v->view.n_axis == 4 && v->view.n_atom == 4;

	for (int i = 0; image && i < 4; i++)
		image = v->view.axis[i].n == 1 && v->view.axis[i].atom[0] == (int[]){0, 3, 1, 2}[i];
	if (!sl_onnx_reshape_view(&made.view, (int64_t[]){im->batch, sl_shape_row(&s)}, 2)) {
		sl_onnx_refuse(im, "its shape is not [batch, features] of all features; write x.flatten(1)");
		return;
	}
	if (image) {
		made.permuted = s.dim[1] * s.dim[2] > 1;
		made.value = sl_build_flatten(im->b, im->name, x);
	} else if (s.ndim != 2 || !v->permuted) {
		made.value = sl_onnx_arrange_axes(im, &made, (int[]){1}, 1, 0);
	}
	sl_onnx_out_same(im, &made);
}

void sl_onnx_read_flatten(struct sl_onnx_import *im)
{
	const int64_t axis = sl_onnx_attr_int(im, "axis", 1);
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int x = sl_onnx_data_in(im, 0, 0);

	if (im->b->err)
		return;
	if (axis != 1 && axis != 1 - v->view.n_axis)
		sl_onnx_refuse(im, "axis is %lld, where 1 is read", (long long)axis);
	else
		flatten(im, v, x);
}

bool sl_onnx_fill_sizes(const int64_t *dim, int n_dim, int64_t *to, int n)
{
	int64_t all = 1, rest = 1;
	int open = -1;

	for (int i = 0; i < n_dim; i++)
		if (__builtin_mul_overflow(all, dim[i], &all))
			return false;
	for (int i = 0; i < n; i++) {
		to[i] = to[i] == 0 && i < n_dim ? dim[i] : to[i];
		if (to[i] == -1 && open < 0)
			open = i;
		else if (to[i] < 1 || all / to[i] < rest)
			return false;
		else
			rest *= to[i];
	}
	if (open >= 0)
		to[open] = all / rest;
	return open < 0 ? rest == all : all % rest == 0;
}

static bool sizes_of(const struct sl_onnx_view *v, int64_t *to, int n)
{
	int64_t dim[SL_ONNX_ATOMS];

	for (int i = 0; i < v->n_axis; i++)
		dim[i] = sl_onnx_axis_size(v, i);
	return sl_onnx_fill_sizes(dim, v->n_axis, to, n);
}

/* Reshapes a constant. Only dimensions of size 1 may come and go, as from [C] to [1, C, 1, 1]. */
static void reshape_constant(struct sl_onnx_import *im, const struct sl_onnx_value *v)
{
	struct sl_onnx_value made = *v;
	int64_t to[SL_ONNX_INTS];
	const int n = sl_onnx_ints_in(im, 1, to);
	bool fits = n > 0 && !v->transposed && sl_onnx_fill_sizes(v->dim, v->n_dim, to, n);
	int from = 0;

	made.n_dim = n;
	for (int i = 0; fits && i < n; i++) {
		made.dim[i] = to[i];
		while (to[i] != 1 && from < v->n_dim && v->dim[from] == 1)
			from++;
		fits = to[i] == 1 || (from < v->n_dim && v->dim[from++] == to[i]);
	}
	if (!fits)
		sl_onnx_refuse(im, "it gives a parameter other dimensions, where sizes of 1 alone may come and go");
	sl_onnx_out_same(im, &made);
}

void sl_onnx_read_reshape(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_onnx_value made;
	int64_t to[SL_ONNX_INTS];
	int x, n;

	if (sl_onnx_read_ints(im) || sl_onnx_read_groupnorm(im))
		return;
	if (constant_in(im)) {
		reshape_constant(im, v);
		return;
	}
	x = sl_onnx_data_in(im, 0, 0);
	n = sl_onnx_ints_in(im, 1, to);
	for (int i = 0; i < n && !im->b->err && sl_onnx_attr_int(im, "allowzero", 0); i++)
		if (!to[i])
			sl_onnx_refuse(im, "allowzero is 1, and a size is 0");
	if (im->b->err)
		return;
	made = *v;
	if (n < 1 || !sizes_of(&v->view, to, n)) {
		sl_onnx_refuse(im, "its shape is not that of all numbers of its input");
		return;
	}
	if (n == 2 && to[0] == im->batch) {
		flatten(im, v, x);
		return;
	}
	made.permuted = false;
	if (v->permuted || !sl_onnx_reshape_view(&made.view, to, n))
		sl_onnx_refuse(im, "it parts its input's axes in a way that is not read; to [batch, features] write "
				   "x.flatten(1)");
	sl_onnx_out_same(im, &made);
}

void sl_onnx_read_transpose(struct sl_onnx_import *im)
{
	const Onnx__Attribute *perm = sl_onnx_attr(im, "perm", SL_ONNX_ATTR_INTS);
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_onnx_value made;
	bool fits;

	if (im->b->err || sl_onnx_read_ints(im))
		return;
	if (constant_in(im)) { /* it may be a linear layer's weight */
		made = *v;
		made.transposed ^= !perm || perm->n_ints != 2 || perm->ints[0];
		if (v->n_dim != 2)
			sl_onnx_refuse(im, "it turns a parameter of other than two dimensions, which is not read");
		sl_onnx_out_same(im, &made);
		return;
	}
	if (sl_onnx_data_in(im, 0, 0) < 0)
		return;
	made = *v;
	fits = perm && (int)perm->n_ints == v->view.n_axis && !v->permuted;
	for (int i = 0; fits && i < v->view.n_axis; i++) {
		for (int k = 0; k < i; k++)
			fits &= perm->ints[k] != perm->ints[i];
		fits &= perm->ints[i] >= 0 && perm->ints[i] < v->view.n_axis;
		if (fits)
			made.view.axis[i] = v->view.axis[perm->ints[i]];
	}
	if (!fits)
		sl_onnx_refuse(im, "its perm is no order of its input's axes");
	sl_onnx_out_same(im, &made);
}

/* [C·r·r, H, W] becomes [C, H·r, W·r], as in nn.PixelShuffle. */
void sl_onnx_read_depth_to_space(struct sl_onnx_import *im)
{
	const Onnx__Attribute *mode = sl_onnx_attr(im, "mode", SL_ONNX_ATTR_STRING);
	const int64_t r = sl_onnx_attr_int(im, "blocksize", 0);
	struct sl_onnx_value made, *v = sl_onnx_in(im, 0);
	struct sl_onnx_axis two[2];
	int64_t c, h, w;

	if (sl_onnx_data_in(im, 0, 4) < 0)
		return;
	made = *v;
	c = sl_onnx_axis_size(&v->view, 1);
	h = sl_onnx_axis_size(&v->view, 2);
	w = v->view.n_axis == 4 ? sl_onnx_axis_size(&v->view, 3) : 0;
	if (!w || !mode || !sl_onnx_is_word(mode->s, "CRD") || r < 1 || r > 256 || c % (r * r) ||
	    !sl_onnx_reshape_view(&made.view, (int64_t[]){im->batch, c / r / r, r, r, h, w}, 6)) {
		sl_onnx_refuse(im, "it is not as nn.PixelShuffle makes it");
		return;
	}
	memcpy(two, made.view.axis + 2, sizeof two);
	for (int i = 0; i < 2; i++) { /* to C, H, r, W, r */
		made.view.axis[2 + 2 * i] = made.view.axis[4 + i];
		made.view.axis[3 + 2 * i] = two[i];
	}
	if (!sl_onnx_reshape_view(&made.view, (int64_t[]){im->batch, c / r / r, h * r, w * r}, 4))
		sl_onnx_refuse(im, "it is not as nn.PixelShuffle makes it");
	sl_onnx_out_same(im, &made);
}

/* ---- parts */

int64_t sl_onnx_bound(int64_t at, int64_t n)
{
	at = at < 0 ? (at < -n ? 0 : at + n) : at;
	return at > n ? n : at;
}

/* Output `out` becomes the elements first, first + step … of an axis of v. `keep`: an axis of one element stays. */
static void cut(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, struct sl_resample_attr a, bool keep,
		size_t out)
{
	struct sl_onnx_value made, *to = sl_onnx_find(im, im->node->output[out]);
	int x;

	if (sl_onnx_axis_of_tokens(im, v, axis)) {
		if (a.first || a.size != 1 || out)
			sl_onnx_refuse(im,
				       "of the tokens of a row the first is read, x[:, 0], and their mean, x.mean(1)");
		else
			sl_onnx_read_row(im, v, axis, false, keep);
		return;
	}
	if (axis == sl_onnx_batch_axis(&v->view) || a.size < 1) {
		sl_onnx_refuse(im, "it takes %s%s", a.size < 1 ? "nothing" : "some of the batch", SL_ONNX_OF_ONE(im));
		return;
	}
	a.axis = sl_onnx_own_axis(im, v, axis, &x);
	made = *v;
	if (!im->b->err && sl_onnx_axis_size(&v->view, axis) != a.size)
		made.value = sl_build_resample(im->b, im->name, x, a);
	sl_onnx_resize_axis(&made.view, axis, a.size);
	for (int i = axis; i < made.view.n_axis - 1 && !keep; i++)
		made.view.axis[i] = made.view.axis[i + 1];
	made.view.n_axis -= !keep;
	made.permuted = false;
	if (im->b->err || !to)
		return;
	made.name = to->name;
	made.known = true;
	*to = made;
}

/* Slice of a constant from its first row on, such as positions or a causal mask for more tokens than rows have. False:
 * it is another slice. */
static bool front_of_constant(struct sl_onnx_import *im)
{
	struct sl_onnx_value made;
	int64_t from[SL_ONNX_INTS], to[SL_ONNX_INTS], axis[SL_ONNX_INTS], step[SL_ONNX_INTS];

	if (!constant_in(im) || sl_onnx_ints_in(im, 1, from) != 1 || sl_onnx_ints_in(im, 2, to) != 1 ||
	    im->node->n_input < 4 || sl_onnx_ints_in(im, 3, axis) != 1)
		return false;
	made = *constant_in(im);
	axis[0] += axis[0] < 0 ? made.n_dim : 0;
	if (im->node->n_input > 4 && (sl_onnx_ints_in(im, 4, step) != 1 || step[0] != 1))
		return false;
	if (axis[0] < 0 || axis[0] >= made.n_dim || from[0] || to[0] < 1 || (to[0] > made.dim[axis[0]] && !im->tokens))
		return false;
	if (to[0] == im->tokens || to[0] < made.dim[axis[0]])
		made.dim[axis[0]] = to[0];
	sl_onnx_out_same(im, &made);
	return true;
}

void sl_onnx_read_slice(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int64_t from[SL_ONNX_INTS], to[SL_ONNX_INTS], axis[SL_ONNX_INTS], step[SL_ONNX_INTS];
	struct sl_onnx_value all;
	int n, m;

	if (sl_onnx_read_ints(im) || front_of_constant(im) || sl_onnx_data_in(im, 0, 0) < 0)
		return;
	n = sl_onnx_ints_in(im, 1, from);
	m = im->node->n_input > 3 ? sl_onnx_ints_in(im, 3, axis) : -1;
	for (int i = 0; i < SL_ONNX_INTS; i++)
		step[i] = 1;
	if (im->node->n_input > 4 && im->node->input[4][0] && sl_onnx_ints_in(im, 4, step) != n)
		m = -1;
	if (n < 1 || m != n || sl_onnx_ints_in(im, 2, to) != n || v->permuted) {
		sl_onnx_refuse(im, "where it cuts is not constant");
		return;
	}
	all = *v;
	for (int i = 0; i < n && !im->b->err; i++) {
		const int a = (int)(axis[i] < 0 ? axis[i] + all.view.n_axis : axis[i]);
		int64_t size, first, end;

		if (a < 0 || a >= all.view.n_axis || step[i] < 1 || step[i] > SL_ONNX_MOST) {
			sl_onnx_refuse(im, "axis %lld, step %lld: which is not read", (long long)axis[i],
				       (long long)step[i]);
			return;
		}
		size = sl_onnx_axis_size(&all.view, a);
		first = sl_onnx_bound(from[i], size);
		end = sl_onnx_bound(to[i], size);
		if (first == 0 && end == size && step[i] == 1) {
			sl_onnx_out_same(im, &all);
			continue;
		}
		if (size > SL_ONNX_MOST) {
			sl_onnx_refuse(im, "it cuts an axis of %lld numbers, where %d are the most", (long long)size,
				       SL_ONNX_MOST);
			return;
		}
		cut(im, &all, a,
		    (struct sl_resample_attr){.size = (int)((end - first + step[i] - 1) / step[i]),
					      .first = (int)first,
					      .step = (int)step[i],
					      .window = 1},
		    true, 0);
		if (!im->b->err)
			all = *sl_onnx_find(im, im->node->output[0]);
	}
}

void sl_onnx_read_split(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int64_t size[SL_ONNX_INTS], axis = sl_onnx_attr_int(im, "axis", 0), first = 0, all;
	const size_t n = im->node->n_output;

	if (sl_onnx_data_in(im, 0, 0) < 0)
		return;
	axis += axis < 0 ? v->view.n_axis : 0;
	if (axis < 0 || axis >= v->view.n_axis || v->permuted || n > SL_ONNX_INTS) {
		sl_onnx_refuse(im, "it parts an axis that is not there, or into more than %d", SL_ONNX_INTS);
		return;
	}
	all = sl_onnx_axis_size(&v->view, (int)axis);
	for (size_t i = 0; i < n; i++)
		size[i] = all % (int64_t)n ? 0 : all / (int64_t)n;
	if (im->node->n_input > 1 && im->node->input[1][0] && sl_onnx_ints_in(im, 1, size) != (int)n)
		sl_onnx_refuse(im, "its sizes are no constants, one for each output");
	for (size_t i = 0; i < n && !im->b->err; first += size[i++]) {
		if (size[i] < 1 || (i == n - 1 && size[i] != all - first) || size[i] > all - first ||
		    all > SL_ONNX_MOST)
			sl_onnx_refuse(im, "its sizes are not those of its input");
		else if (im->node->output[i][0] && sl_onnx_find(im, im->node->output[i])->needed)
			cut(im, v, (int)axis,
			    (struct sl_resample_attr){
				    .size = (int)size[i], .first = (int)first, .step = 1, .window = 1},
			    true, i);
	}
}

/* Gather: of known integers, of a table's rows (sl_onnx_read_lookup), or of one element of an axis, as x[:, 0]. */
void sl_onnx_read_gather(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0), *at = sl_onnx_in(im, 1);
	int64_t index[SL_ONNX_INTS], axis = sl_onnx_attr_int(im, "axis", 0), size;

	if ((axis == 0 && sl_onnx_read_ints(im)) || sl_onnx_read_lookup(im))
		return;
	if (sl_onnx_data_in(im, 0, 0) < 0)
		return;
	axis += axis < 0 ? v->view.n_axis : 0;
	if (axis < 0 || axis >= v->view.n_axis || v->permuted || sl_onnx_ints_in(im, 1, index) != 1 ||
	    (at->n_ints ? at->n_dim : (int)at->constant->n_dims)) {
		sl_onnx_refuse(im, "it does not take one constant number of an axis");
		return;
	}
	size = sl_onnx_axis_size(&v->view, (int)axis);
	index[0] += index[0] < 0 ? size : 0;
	if (index[0] < 0 || index[0] >= size || size > SL_ONNX_MOST)
		sl_onnx_refuse(im, "it picks number %lld of %lld", (long long)index[0], (long long)size);
	else
		cut(im, v, (int)axis,
		    (struct sl_resample_attr){.size = 1, .first = (int)index[0], .step = 1, .window = 1}, false, 0);
}

/* ---- concat */

/* Joins a and b, or returns the value in which both were joined before: a dense block joins ever more of the same. */
static int joined(struct sl_onnx_import *im, int a, int b, int axis)
{
	const struct sl_graph *g = im->b->graph;

	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_CONCAT && g->link[g->node[i].in] == a && g->link[g->node[i].in + 1] == b &&
		    g->node[i].u.concat.axis == axis)
			return g->node[i].out;
	return sl_build_concat(im->b, im->name, a, b, axis);
}

/* *out: a parameter as a value that every sample has, such as a class token [1, 1, F]. `like`: a value with a row for
 * each sample. */
static void repeat_param(struct sl_onnx_import *im, size_t i, struct sl_onnx_value *out, int like)
{
	const int before = im->n_param;
	const Onnx__Tensor *t = sl_onnx_param_in(im, i, 3);
	struct sl_shape s;
	int x;

	if (!t)
		return;
	s = sl_shape2(t->dims[1], t->dims[2]);
	if (t->dims[0] != 1)
		sl_onnx_refuse(im, "its parameter '%.96s' is not [1, tokens, features]", t->name);
	sl_onnx_use_params(im, before);
	x = sl_build_repeat(im->b, im->name, like, s, sl_shape3(1, t->dims[1], t->dims[2]), SL_LAYOUT_SAME);
	im->b->param_name = NULL;
	if (im->b->err)
		return;
	s = sl_build_shape(im->b, x);
	*out = (struct sl_onnx_value){.value = x, .view = sl_onnx_view_of(im, &s)};
}

/* Joins two at a time. Images are [H,W,C], as elsewhere; other values have the file's order of axes. */
void sl_onnx_read_concat(struct sl_onnx_import *im)
{
	int64_t axis = sl_onnx_attr_int(im, "axis", 0);
	struct sl_onnx_value all = {0}, next;
	int like = -1, order[SL_ONNX_ATOMS];

	if (sl_onnx_read_ints(im))
		return;
	for (size_t i = 0; i < im->node->n_input && !im->b->err && like < 0; i++) {
		const struct sl_onnx_value *v = sl_onnx_in(im, i);

		like = v ? v->value : -1;
	}
	if (like < 0)
		sl_onnx_refuse(im, "it joins constants alone: scales of an upsampling, which are read where they are "
				   "whole; give nn.Upsample a size");
	for (size_t i = 0; i < im->node->n_input && !im->b->err; i++) {
		struct sl_onnx_value *v = sl_onnx_in(im, i);
		bool fits;
		int at;

		if (v && v->value < 0 && v->constant && like >= 0)
			repeat_param(im, i, &next, like);
		else if (sl_onnx_data_in(im, i, 0) >= 0)
			next = *v;
		if (im->b->err)
			return;
		axis += axis < 0 ? next.view.n_axis : 0;
		fits = axis > 0 && axis < next.view.n_axis && next.view.n_axis >= 2 && next.view.n_axis <= 4 &&
		       sl_onnx_batch_axis(&next.view) == 0 && !next.permuted;
		for (int k = 0; k < next.view.n_axis - 1; k++)
			order[k] = next.view.n_axis == 4 ? (int[]){2, 3, 1}[k] : k + 1;
		for (int k = 0; i && k < next.view.n_axis; k++)
			fits &= next.view.n_axis == all.view.n_axis &&
				(k == axis || sl_onnx_axis_size(&all.view, k) == sl_onnx_axis_size(&next.view, k));
		if (!fits) {
			sl_onnx_refuse(im, "it joins values along axis %lld whose other axes differ", (long long)axis);
			return;
		}
		sl_onnx_arrange_axes(im, &next, order, next.view.n_axis - 1, 0);
		at = next.view.n_axis == 4 ? (int[]){0, 3, 1, 2}[axis] : (int)axis;
		if (i && !im->b->err) {
			const int64_t size =
				sl_onnx_axis_size(&all.view, (int)axis) + sl_onnx_axis_size(&next.view, (int)axis);

			next.value = joined(im, all.value, next.value, at == next.view.n_axis - 1 ? 0 : at);
			if (!im->b->err) {
				const struct sl_shape s = sl_build_shape(im->b, next.value);

				next.view = sl_onnx_view_of(im, &s);
			}
			if (size > SL_GRAPH_MOST_ELEMENTS)
				sl_onnx_refuse(im, "it joins too much");
		}
		all = next;
	}
	if (!im->b->err)
		sl_onnx_out_like(im, all.value, &all);
}
