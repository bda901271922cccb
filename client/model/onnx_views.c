/* Views (onnx_impl.h): where the axes of a file's values lie in memory, and how a value gets another layout. */
#include <string.h>

#include "client/model/onnx_views.h"

int64_t sl_onnx_axis_size(const struct sl_onnx_view *v, int axis)
{
	int64_t n = 1;

	for (int i = 0; i < v->axis[axis].n; i++)
		n *= v->size[v->axis[axis].atom[i]];
	return n;
}

struct sl_onnx_view sl_onnx_view_of(const struct sl_onnx_import *im, const struct sl_shape *s)
{
	static const int image[] = {0, 3, 1, 2};
	struct sl_onnx_view v = {.n_atom = s->ndim, .n_axis = s->ndim, .size = {im->batch}};

	for (int i = 0; i < s->ndim; i++) {
		v.size[i] = i ? s->dim[i] : im->batch;
		v.axis[i] = (struct sl_onnx_axis){1, {s->ndim == 4 ? image[i] : i}};
	}
	return v;
}

int sl_onnx_batch_axis(const struct sl_onnx_view *v)
{
	for (int i = 0; i < v->n_axis; i++)
		for (int k = 0; k < v->axis[i].n; k++)
			if (v->axis[i].atom[k] == 0)
				return i;
	return 0;
}

void sl_onnx_resize_axis(struct sl_onnx_view *v, int axis, int64_t size)
{
	struct sl_onnx_axis *a = &v->axis[axis];

	if (!a->n && v->n_atom < SL_ONNX_ATOMS) { /* an axis without atoms has size 1, and may lie anywhere */
		a->atom[a->n++] = v->n_atom;
		v->size[v->n_atom++] = size;
		return;
	}
	v->size[a->atom[0]] = size;
	for (int i = 1; i < a->n; i++)
		v->size[a->atom[i]] = 1;
	a->n = 1;
}

/* ---- reshapes */

/* Splits atom list[at] in two: the outer one of size `first`, the inner one of the rest. Atoms after it get new
 * numbers. False: there are too many atoms, or it is the batch's. */
static bool part_atom(struct sl_onnx_view *v, int *list, int *n, int at, int64_t first)
{
	const int atom = list[at];

	if (v->n_atom == SL_ONNX_ATOMS || *n == SL_ONNX_ATOMS || atom == 0)
		return false;
	for (int i = 0; i < *n; i++)
		list[i] += list[i] > atom;
	memmove(list + at + 2, list + at + 1, (size_t)(*n - at - 1) * sizeof *list);
	list[at + 1] = atom + 1;
	(*n)++;
	memmove(v->size + atom + 2, v->size + atom + 1, (size_t)(v->n_atom - atom - 1) * sizeof *v->size);
	v->size[atom + 1] = v->size[atom] / first;
	v->size[atom] = first;
	v->n_atom++;
	return true;
}

bool sl_onnx_reshape_view(struct sl_onnx_view *view, const int64_t *dim, int n)
{
	struct sl_onnx_view v = *view;
	int list[SL_ONNX_ATOMS], count = 0, at = 0;

	for (int i = 0; i < v.n_axis; i++)
		for (int k = 0; k < v.axis[i].n; k++)
			if (v.size[v.axis[i].atom[k]] != 1 && count < SL_ONNX_ATOMS)
				list[count++] = v.axis[i].atom[k];
	v.n_axis = n;
	for (int i = 0; i < n; i++) {
		int64_t left = dim[i];

		v.axis[i] = (struct sl_onnx_axis){0};
		while (left > 1) {
			const int64_t size = at < count ? v.size[list[at]] : 0;

			if (!size || (left % size && size % left))
				return false;
			if (size > left && !part_atom(&v, list, &count, at, left))
				return false;
			left /= v.size[list[at]];
			at++;
		}
		if (left != 1)
			return false;
	}
	if (at != count)
		return false;
	at = 0;
	for (int i = 0; i < n; i++)
		for (int64_t left = dim[i]; left > 1; left /= v.size[list[at++]])
			v.axis[i].atom[v.axis[i].n++] = list[at];
	*view = v;
	return true;
}

/* ---- layouts */

void sl_onnx_refuse_mixed(struct sl_onnx_import *im)
{
	sl_onnx_refuse(im,
		       "it mixes the tokens of a row, which only attention and a mean may do in a network with a mask "
		       "of padding");
}

static int permute(struct sl_onnx_import *im, int value, struct sl_permute_attr a)
{
	const struct sl_shape s = sl_build_shape(im->b, value);

	/* no FLATTEN of an image: a linear layer after it would expect its weight in [C,H,W] order */
	if (a.b == 1 && !a.h && s.ndim == 3)
		return sl_build_flatten(im->b, im->name, value);
	return sl_build_permute(im->b, im->name, value, a);
}

static int64_t product(const struct sl_onnx_view *v, const int *list, int n)
{
	int64_t all = 1;

	for (int i = 0; i < n; i++)
		all *= v->size[list[i]];
	return all;
}

/* Brings the n atoms `now` into the order `want`. Each PERMUTE swaps two adjacent blocks of atoms. `shape`: h and w of
 * the last one. */
static int reorder(struct sl_onnx_import *im, const struct sl_onnx_view *v, int value, int *now, const int *want, int n,
		   struct sl_permute_attr shape)
{
	for (int p = 0; p < n; p++) {
		struct sl_permute_attr a = {0};
		int moved[SL_ONNX_ATOMS], q = p, run = 1;
		bool last = true;

		if (now[p] == want[p])
			continue;
		while (now[q] != want[p])
			q++;
		while (q + run < n && now[q + run] == want[p + run])
			run++;
		a.outer = (int)product(v, now, p);
		a.b = (int)product(v, now + p, q - p);
		a.c = (int)product(v, now + q, run);
		memcpy(moved, now + p, (size_t)(q - p) * sizeof *now);
		memmove(now + p, now + q, (size_t)run * sizeof *now);
		memcpy(now + p + run, moved, (size_t)(q - p) * sizeof *now);
		for (int i = 0; i < n; i++)
			last &= now[i] == want[i];
		a.h = last ? shape.h : 0;
		a.w = last ? shape.w : 0;
		value = sl_build_permute(im->b, im->name, value, a);
	}
	return value;
}

/* Gives atoms the numbers of their new places: atom want[i] becomes i + 1. */
static void renumber(struct sl_onnx_view *v, const int *want, int n)
{
	struct sl_onnx_view old = *v;
	int place[SL_ONNX_ATOMS] = {0};

	v->n_atom = n + 1;
	for (int i = 0; i < n; i++) {
		place[want[i]] = i + 1;
		v->size[i + 1] = old.size[want[i]];
	}
	for (int i = 0; i < v->n_axis; i++) {
		v->axis[i].n = 0;
		for (int k = 0; k < old.axis[i].n; k++) {
			const int atom = old.axis[i].atom[k];

			if (atom == 0 || place[atom])
				v->axis[i].atom[v->axis[i].n++] = place[atom];
		}
	}
}

int sl_onnx_arrange(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *atom, int n_atom, const int64_t *dim,
		    int n_dim)
{
	int now[SL_ONNX_ATOMS], want[SL_ONNX_ATOMS], n = 0, w = 0;
	const int skip = !im->b->err && sl_onnx_per_token(im, v); /* the tokens' atom, which stays in front */
	struct sl_permute_attr a;
	struct sl_shape s;
	bool same = true;

	if (im->b->err)
		return -1;
	if (skip && (n_atom < 1 || atom[0] != 1 || n_dim < 2 || dim[0] != im->tokens || n_dim > SL_MAX_DIMS)) {
		sl_onnx_refuse_mixed(im);
		return -1;
	}
	dim += skip;
	n_dim -= skip;
	a = (struct sl_permute_attr){1, 1, 1, n_dim > 1 ? (int)dim[0] : 0, n_dim > 2 ? (int)dim[1] : 0};
	for (int i = 1; i < v->view.n_atom; i++)
		if (v->view.size[i] != 1)
			now[n++] = i;
	for (int i = 0; i < n_atom; i++)
		if (v->view.size[atom[i]] != 1 && w < SL_ONNX_ATOMS)
			want[w++] = atom[i];
	s = sl_build_shape(im->b, v->value);
	for (int i = 0; i < n && w == n; i++)
		same &= now[i] == want[i];
	if (w != n || sl_shape_row(&s) > INT32_MAX) {
		sl_onnx_refuse(im, "its input's axes cannot be put in the order that it takes%s", SL_ONNX_OF_ONE(im));
		return -1;
	}
	if (!same)
		v->value = reorder(im, &v->view, v->value, now + skip, want + skip, n - skip, a);
	s = sl_build_shape(im->b, v->value);
	same = s.ndim == n_dim + 1;
	for (int i = 0; i < n_dim && same; i++)
		same = s.dim[i + 1] == dim[i];
	if (!same)
		v->value = permute(im, v->value, a);
	renumber(&v->view, want, n);
	v->permuted = false;
	return im->b->err ? -1 : v->value;
}

int sl_onnx_arrange_axes(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *axis, int n_axis, int joined)
{
	int atom[SL_ONNX_ATOMS], n = 0, n_dim = 0;
	int64_t dim[SL_ONNX_ATOMS] = {1};

	for (int i = 0; i < n_axis; i++) {
		for (int k = 0; k < v->view.axis[axis[i]].n && n < SL_ONNX_ATOMS; k++)
			if (v->view.axis[axis[i]].atom[k])
				atom[n++] = v->view.axis[axis[i]].atom[k];
		if (i < joined)
			dim[0] *= sl_onnx_axis_size(&v->view, axis[i]);
		else
			dim[n_dim + (joined > 0)] = sl_onnx_axis_size(&v->view, axis[i]);
		n_dim += i >= joined;
	}
	return sl_onnx_arrange(im, v, atom, n, dim, n_dim + (joined > 0));
}

int sl_onnx_innermost(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool as_tokens)
{
	const struct sl_onnx_axis *a = &v->view.axis[axis];
	const struct sl_shape s = im->b->err ? sl_shape1(1) : sl_build_shape(im->b, v->value);
	const int batch = sl_onnx_batch_axis(&v->view);
	int order[SL_ONNX_ATOMS], n = 0;
	bool last = s.ndim > 1 && s.dim[s.ndim - 1] == sl_onnx_axis_size(&v->view, axis);

	for (int i = 0; i < a->n; i++)
		last &= a->atom[i] == v->view.n_atom - a->n + i;
	if (last && (!as_tokens || s.ndim <= 3))
		return v->value;
	if (last) { /* the order of all others does not matter */
		int atom[SL_ONNX_ATOMS];
		const int64_t dim[2] = {sl_shape_row(&s) / s.dim[s.ndim - 1], s.dim[s.ndim - 1]};

		for (int i = 1; i < v->view.n_atom; i++)
			atom[n++] = i;
		return sl_onnx_arrange(im, v, atom, n, dim, 2);
	}
	for (int i = 0; i < v->view.n_axis; i++)
		if (i != batch && i != axis)
			order[n++] = i;
	order[n] = axis;
	return sl_onnx_arrange_axes(im, v, order, n + 1, n);
}

int sl_onnx_own_axis(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, int *value)
{
	const struct sl_onnx_axis *a = &v->view.axis[axis];
	const struct sl_shape s = im->b->err ? sl_shape1(1) : sl_build_shape(im->b, v->value);
	int64_t before = 1, dims = 1;
	int atom[SL_ONNX_ATOMS], n = 0;
	const int skip = !im->b->err && sl_onnx_per_token(im, v);
	bool together = a->n > 0;

	for (int i = 1; i < a->n; i++)
		together &= a->atom[i] == a->atom[0] + i;
	for (int i = 1 + skip; together && i < a->atom[0]; i++)
		before *= v->view.size[i];
	*value = v->value;
	for (int d = 1; together && d < s.ndim; dims *= s.dim[d++])
		if (dims == before && s.dim[d] == sl_onnx_axis_size(&v->view, axis))
			return d;
	if (skip)
		atom[n++] = 1;
	if (!together) { /* the axis' atoms move to the front */
		for (int k = 0; k < a->n; k++)
			atom[n++] = a->atom[k];
		before = 1;
	}
	for (int i = 1 + skip; i < v->view.n_atom; i++) {
		bool own = false;

		for (int k = 0; k < a->n; k++)
			own |= !together && a->atom[k] == i;
		if (!own)
			atom[n++] = i;
	}
	*value = sl_onnx_arrange(im, v, atom, n,
				 (int64_t[]){im->tokens, before, sl_onnx_axis_size(&v->view, axis),
					     sl_shape_row(&s) / before / sl_onnx_axis_size(&v->view, axis)} +
					 !skip,
				 3 + skip);
	return 2;
}
