/* Arithmetic on known integers: shapes, which the file's example fixes, and numbers that torch computes from them. */
#include <string.h>

#include "client/model/onnx_tokens.h"

/* Known integers v[n], of shape dim[n_dim]. Bit i of `open`: v[i] depends on a size that the file leaves open. */
struct ints {
	int n, n_dim;
	unsigned open;
	int64_t v[SL_ONNX_INTS], dim[SL_ONNX_INTS];
};

static bool known(struct sl_onnx_import *im, size_t i, struct ints *out)
{
	const struct sl_onnx_value *v = i < im->node->n_input ? sl_onnx_in(im, i) : NULL;

	*out = (struct ints){0};
	if (!v || v->value >= 0)
		return false;
	out->n = sl_onnx_ints_in(im, i, out->v);
	if (out->n < 1)
		return false;
	out->n_dim = v->n_ints ? v->n_dim : (int)v->constant->n_dims;
	out->open = v->n_ints ? v->open : 0;
	for (int d = 0; d < out->n_dim; d++)
		out->dim[d] = v->n_ints ? v->dim[d] : v->constant->dims[d];
	return true;
}

static unsigned bit(unsigned open, int64_t i)
{
	return open >> i & 1;
}

/* Appends x->v[i] to *out. */
static void take(struct ints *out, const struct ints *x, int64_t i)
{
	out->open |= bit(x->open, i) << out->n;
	out->v[out->n++] = x->v[i];
}

/* Whether n is an open size or a product with it: a multiple of the prime that stands for the size. */
static bool is_open(const struct sl_onnx_import *im, int64_t n)
{
	return n && ((im->batch == SL_ONNX_ANY_BATCH && n % SL_ONNX_ANY_BATCH == 0) ||
		     (im->tokens == SL_ONNX_ANY_TOKENS && n % SL_ONNX_ANY_TOKENS == 0));
}

static void give(struct sl_onnx_import *im, const struct ints *x)
{
	struct sl_onnx_value made = {.value = -1, .n_ints = x->n, .n_dim = x->n_dim, .open = x->open};

	for (int i = 0; i < x->n; i++)
		made.open |= (unsigned)is_open(im, x->v[i]) << i;
	memcpy(made.ints, x->v, sizeof made.ints);
	memcpy(made.dim, x->dim, sizeof made.dim);
	sl_onnx_out_same(im, &made);
}

static void give_list(struct sl_onnx_import *im, const int64_t *v, int n)
{
	struct ints x = {.n = n, .n_dim = 1, .dim = {n}};

	if (n < 1 || n > SL_ONNX_INTS) {
		sl_onnx_refuse(im, "it makes %d whole numbers, where 1 to %d are read", n, SL_ONNX_INTS);
		return;
	}
	memcpy(x.v, v, (size_t)n * sizeof *v);
	give(im, &x);
}

/* The output of a Shape node: dim[n], or the part that the attributes start and end select, as the newer exporter has
 * it. */
static void give_dims(struct sl_onnx_import *im, const int64_t *dim, int n)
{
	const int64_t from = sl_onnx_bound(sl_onnx_attr_int(im, "start", 0), n);

	give_list(im, dim + from, (int)(sl_onnx_bound(sl_onnx_attr_int(im, "end", n), n) - from));
}

void sl_onnx_read_shape(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v;
	int64_t dim[SL_ONNX_ATOMS];
	struct ints x;

	v = sl_onnx_in(im, 0);
	if (v && (v->is_mask || v->is_places)) {
		give_dims(im, v->dim, v->n_dim);
		return;
	}
	if (known(im, 0, &x) && x.n_dim) {
		give_dims(im, x.dim, x.n_dim);
		return;
	}
	if (sl_onnx_data_in(im, 0, 0) < 0)
		return;
	for (int i = 0; i < v->view.n_axis; i++)
		dim[i] = sl_onnx_axis_size(&v->view, i);
	give_dims(im, dim, v->view.n_axis);
}

static void gather(struct sl_onnx_import *im, const struct ints *from, const struct ints *at)
{
	struct ints picked = {.n_dim = at->n_dim};

	memcpy(picked.dim, at->dim, sizeof picked.dim);
	if (from->n_dim > 1)
		sl_onnx_refuse(im, "it picks rows of a matrix of whole numbers, of which lists are read");
	for (int i = 0; i < at->n; i++) {
		const int64_t k = at->v[i] < 0 ? at->v[i] + from->n : at->v[i];

		if (k < 0 || k >= from->n) {
			sl_onnx_refuse(im, "it picks number %lld of %d", (long long)at->v[i], from->n);
			return;
		}
		take(&picked, from, k);
	}
	give(im, &picked);
}

/* Slices dimension 0 of a list or a matrix. */
static void slice(struct sl_onnx_import *im, const struct ints *x)
{
	struct ints from, to, axes, steps, out = {.n_dim = x->n_dim};
	const int64_t wide = x->n_dim > 1 ? x->dim[1] : 1, n = x->n / wide;

	if (!known(im, 1, &from) || !known(im, 2, &to) || from.n != 1 || to.n != 1 ||
	    (known(im, 3, &axes) && axes.v[0] != 0)) {
		sl_onnx_refuse(im, "it cuts a shape in a way that is not read");
		return;
	}
	if (!known(im, 4, &steps))
		steps = (struct ints){.n = 1, .v = {1}};
	if (steps.v[0] == 1) {
		const int64_t first = sl_onnx_bound(from.v[0], n), end = sl_onnx_bound(to.v[0], n);

		for (int64_t i = first * wide; i < end * wide; i++)
			take(&out, x, i);
	} else if (steps.v[0] == -1 && from.v[0] == -1 && to.v[0] < -n) {
		for (int64_t i = n - 1; i >= 0; i--)
			for (int64_t k = 0; k < wide; k++)
				take(&out, x, i * wide + k);
	}
	if (!out.n) {
		sl_onnx_refuse(im, "it cuts a shape in a way that is not read");
		return;
	}
	memcpy(out.dim, x->dim, sizeof out.dim);
	out.dim[0] = out.n / wide;
	give(im, &out);
}

static void concat(struct sl_onnx_import *im)
{
	struct ints all = {.n_dim = 1}, x;

	sl_onnx_must_be(im, "axis", 0, 0);
	for (size_t i = 0; i < im->node->n_input && !im->b->err; i++) {
		if (!known(im, i, &x) || x.n_dim != 1 || all.n + x.n > SL_ONNX_INTS) {
			sl_onnx_refuse(im, "it joins what is no part of a shape");
			return;
		}
		for (int k = 0; k < x.n; k++)
			take(&all, &x, k);
	}
	all.dim[0] = all.n;
	if (!im->b->err)
		give(im, &all);
}

static void arithmetic(struct sl_onnx_import *im, const struct ints *a, const struct ints *b)
{
	struct ints out = a->n_dim >= b->n_dim ? *a : *b;
	const char kind = im->node->op_type[0];
	bool ok = true;

	ok = a->n == b->n || a->n == 1 || b->n == 1;
	out.n = a->n > b->n ? a->n : b->n;
	out.open = 0;
	for (int i = 0; i < out.n && ok; i++) {
		const int of_a = a->n > 1 ? i : 0, of_b = b->n > 1 ? i : 0;
		const int64_t x = a->v[of_a], y = b->v[of_b];

		out.open |= (bit(a->open, of_a) | bit(b->open, of_b)) << i;
		if (kind == 'D') {
			ok = y > 0 && x >= 0;
			out.v[i] = ok ? x / y : 0;
		} else {
			ok = kind == 'A'   ? !__builtin_add_overflow(x, y, &out.v[i])
			     : kind == 'S' ? !__builtin_sub_overflow(x, y, &out.v[i])
					   : !__builtin_mul_overflow(x, y, &out.v[i]);
		}
	}
	if (!ok)
		sl_onnx_refuse(im, "it computes a shape in a way that is not read");
	else
		give(im, &out);
}

static void product(struct sl_onnx_import *im, const struct ints *x)
{
	struct ints out = {.n = 1, .v = {1}, .n_dim = sl_onnx_attr_int(im, "keepdims", 1) != 0, .open = x->open != 0};
	bool ok = true;

	for (int i = 0; i < x->n && ok; i++)
		ok = !__builtin_mul_overflow(out.v[0], x->v[i], &out.v[0]);
	if (!ok)
		sl_onnx_refuse(im, "it computes a shape in a way that is not read");
	else
		give(im, &out);
}

static void reshape(struct sl_onnx_import *im, struct ints x, const struct ints *to)
{
	int64_t known_size = 1;
	int open = -1;

	for (int i = 0; i < to->n; i++)
		if (to->v[i] == -1)
			open = i;
		else if (to->v[i] < 1 || to->v[i] > SL_ONNX_INTS)
			known_size = SL_ONNX_INTS + 1;
		else
			known_size *= to->v[i] < SL_ONNX_INTS && known_size <= SL_ONNX_INTS ? to->v[i] : 1;
	if (to->n > 2 || known_size > x.n || x.n % known_size || (open < 0 && known_size != x.n)) {
		sl_onnx_refuse(im, "it changes whole numbers in a way that is not read");
		return;
	}
	x.n_dim = to->n;
	for (int i = 0; i < to->n; i++)
		x.dim[i] = i == open ? x.n / known_size : to->v[i];
	give(im, &x);
}

static void transpose(struct sl_onnx_import *im, const struct ints *x)
{
	const Onnx__Attribute *perm = sl_onnx_attr(im, "perm", SL_ONNX_ATTR_INTS);
	struct ints out = *x;

	if (x->n_dim == 2 && (!perm || perm->n_ints != 2 || perm->ints[0]) && x->dim[0] * x->dim[1] == x->n) {
		out.open = 0;
		for (int i = 0; i < x->n; i++) {
			const int64_t to = i % x->dim[1] * x->dim[0] + i / x->dim[1];

			out.v[to] = x->v[i];
			out.open |= bit(x->open, i) << to;
		}
		out.dim[0] = x->dim[1];
		out.dim[1] = x->dim[0];
	}
	give(im, &out);
}

static void fill(struct sl_onnx_import *im, const struct ints *n)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "value", SL_ONNX_ATTR_TENSOR);
	int64_t all[SL_ONNX_INTS] = {0};
	struct sl_fail why;

	if (a && a->t && sl_onnx_check_tensor(a->t, im->name, &why)) {
		sl_onnx_refuse(im, "%s", why.text);
		return;
	}
	if (n->n != 1 || n->v[0] < 1 || n->v[0] > SL_ONNX_INTS ||
	    (a && a->t && (a->t->data_type != SL_ONNX_INT64 || !a->t->has_raw_data || a->t->raw_data.len != 8))) {
		sl_onnx_fill_mask(im, a ? a->t : NULL, n->v, n->n);
		return;
	}
	if (a && a->t)
		memcpy(all, a->t->raw_data.data, sizeof *all);
	for (int i = 1; i < SL_ONNX_INTS; i++)
		all[i] = all[0];
	give_list(im, all, (int)n->v[0]);
}

static void compare(struct sl_onnx_import *im, const struct ints *a, const struct ints *b)
{
	struct ints out = *a;

	for (int i = 0; i < a->n; i++) {
		out.v[i] = a->v[i] == b->v[b->n > 1 ? i : 0];
		out.open |= bit(b->open, b->n > 1 ? i : 0) << i;
	}
	if (a->n != b->n && b->n != 1)
		sl_onnx_refuse(im, "it compares lists of other lengths");
	else
		give(im, &out);
}

static void choose(struct sl_onnx_import *im, const struct ints *which, const struct ints *a, const struct ints *b)
{
	struct ints out = *which;

	out.n = 0;
	for (int i = 0; i < which->n; i++) {
		const struct ints *from = which->v[i] ? a : b;

		take(&out, from, from->n > 1 ? i : 0);
	}
	if ((a->n != out.n && a->n != 1) || (b->n != out.n && b->n != 1))
		sl_onnx_refuse(im, "it chooses from lists of other lengths");
	else
		give(im, &out);
}

int sl_onnx_scales_in(struct sl_onnx_import *im, size_t i, int64_t *out, int most)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	const Onnx__Tensor *t = v && v->value < 0 ? v->constant : NULL;
	float scale[SL_ONNX_INTS];
	int n = 0;

	if (!t || t->data_type != SL_ONNX_FLOAT || t->n_dims != 1 || sl_onnx_count(t) > most)
		return -1;
	sl_onnx_read_f32(t, scale);
	for (; n < sl_onnx_count(t); n++) {
		if (!(scale[n] >= 1 && scale[n] <= 1024) || scale[n] != (float)(int)scale[n])
			return -1;
		out[n] = (int64_t)scale[n];
	}
	return n;
}

static bool all_scales(struct sl_onnx_import *im)
{
	int64_t all[SL_ONNX_INTS];
	int n = 0;

	for (size_t i = 0; i < im->node->n_input; i++) {
		const int more = sl_onnx_scales_in(im, i, all + n, SL_ONNX_INTS - n);

		if (more < 0)
			return false;
		n += more;
	}
	if (n)
		give_list(im, all, n);
	return n > 0;
}

bool sl_onnx_read_ints(struct sl_onnx_import *im)
{
	const char *kind = im->node->op_type;
	struct ints a, b, c;

	if (!im->b->err && strcmp(kind, "Concat") == 0 && all_scales(im))
		return true;
	if (im->b->err || !known(im, 0, &a))
		return false;
	if (strcmp(kind, "Cast") == 0 || strcmp(kind, "Identity") == 0)
		give(im, &a);
	else if (strcmp(kind, "Concat") == 0)
		concat(im);
	else if (strcmp(kind, "Slice") == 0)
		slice(im, &a);
	else if (strcmp(kind, "Transpose") == 0)
		transpose(im, &a);
	else if (strcmp(kind, "ConstantOfShape") == 0)
		fill(im, &a);
	else if (strcmp(kind, "ReduceProd") == 0)
		product(im, &a);
	else if (strcmp(kind, "Unsqueeze") == 0) {
		a.n_dim = 1;
		a.dim[0] = a.n;
		give(im, &a);
	} else if (strcmp(kind, "Squeeze") == 0) {
		a.n_dim = a.n > 1;
		give(im, &a);
	} else if (!known(im, 1, &b))
		return false;
	else if (strcmp(kind, "Gather") == 0)
		gather(im, &a, &b);
	else if (strcmp(kind, "Reshape") == 0)
		reshape(im, a, &b);
	else if (strcmp(kind, "Add") == 0 || strcmp(kind, "Sub") == 0 || strcmp(kind, "Mul") == 0 ||
		 strcmp(kind, "Div") == 0)
		arithmetic(im, &a, &b);
	else if (strcmp(kind, "Equal") == 0)
		compare(im, &a, &b);
	else if (strcmp(kind, "Where") == 0 && known(im, 2, &c))
		choose(im, &a, &b, &c);
	else
		return false;
	return true;
}
