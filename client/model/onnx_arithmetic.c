/* Sums, products, differences and quotients: of values, of a value and a number, of a value and a parameter. */
#include <string.h>

#include "client/model/onnx_arithmetic.h"
#include "client/model/onnx_recurrent.h"
#include "client/model/onnx_tokens.h"

static bool is_param(const struct sl_onnx_import *im, const struct sl_onnx_value *v)
{
	return v && v->value < 0 && sl_onnx_learns(im, v->constant);
}

bool sl_onnx_fixed_in(struct sl_onnx_import *im, size_t i, float *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);

	if (v && sl_onnx_learns(im, v->constant))
		sl_onnx_refuse(im, "'%.96s' is a parameter or a buffer, and would not learn here: write it as a number",
			       v->constant->name);
	return sl_onnx_scalar_in(im, i, out);
}

/* Output 0 becomes by · x + plus, where x is input `i`. */
static void affine(struct sl_onnx_import *im, size_t i, float by, float plus)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	const int x = sl_onnx_data_in(im, i, 0);

	if (!(by >= -1e30f && by <= 1e30f))
		sl_onnx_refuse(im, "its factor is %g", (double)by);
	if (!(plus >= -1e30f && plus <= 1e30f))
		sl_onnx_refuse(im, "it adds %g", (double)plus);
	if (!im->b->err)
		sl_onnx_out_like(im, sl_build_affine(im->b, im->name, x, by, plus), v);
}

/* Brings v into a layout that depends on its axes alone: images into [H,W,C], values per token into [tokens, features],
 * others into the file's order of axes. -1 after a refusal. */
static int canonical(struct sl_onnx_import *im, struct sl_onnx_value *v)
{
	const int n = v->view.n_axis;
	const bool fits = sl_onnx_batch_axis(&v->view) == 0 && n >= 2 && n <= 4;

	if (im->b->err)
		return -1;
	if (sl_onnx_per_token(im, v) && n == 3)
		for (int i = 0; i < n; i++)
			if (sl_onnx_axis_of_tokens(im, v, i) && i != sl_onnx_batch_axis(&v->view))
				return sl_onnx_arrange_axes(im, v, (int[]){i, 3 - i - sl_onnx_batch_axis(&v->view)}, 2,
							    0);
	if (fits && n == 4)
		return sl_onnx_arrange_axes(im, v, (int[]){2, 3, 1}, 3, 0);
	if (fits)
		return sl_onnx_arrange_axes(im, v, (int[]){1, 2}, n - 1, 0);
	sl_onnx_refuse(im, "its inputs have other axes than [batch, …], of which 1 to 3 are read");
	return -1;
}

static bool same_view(const struct sl_onnx_view *a, const struct sl_onnx_view *b)
{
	bool same = a->n_atom == b->n_atom && a->n_axis == b->n_axis;

	for (int i = 0; same && i < a->n_atom; i++)
		same = a->size[i] == b->size[i];
	for (int i = 0; same && i < a->n_axis; i++) {
		same = a->axis[i].n == b->axis[i].n;
		for (int k = 0; same && k < a->axis[i].n; k++)
			same = a->axis[i].atom[k] == b->axis[i].atom[k];
	}
	return same;
}

/* Whether both have the same axes for tokens and for the batch, and equal sizes. */
static bool same_order(const struct sl_onnx_import *im, const struct sl_onnx_value *v, const struct sl_onnx_value *w)
{
	bool same = v->view.n_axis == w->view.n_axis && sl_onnx_batch_axis(&v->view) == sl_onnx_batch_axis(&w->view);

	for (int i = 0; same && i < v->view.n_axis; i++)
		same = sl_onnx_axis_of_tokens(im, v, i) == sl_onnx_axis_of_tokens(im, w, i) &&
		       sl_onnx_axis_size(&v->view, i) == sl_onnx_axis_size(&w->view, i);
	return same;
}

/* Whether GATE multiplies a by b: b has a's last dimension, and 1 for all others. */
static bool gates(const struct sl_shape *a, const struct sl_shape *b)
{
	bool one = a->ndim == b->ndim && a->ndim >= 3 && a->dim[a->ndim - 1] == b->dim[b->ndim - 1];

	for (int i = 1; one && i < b->ndim - 1; i++)
		one = b->dim[i] == 1;
	return one;
}

/* Adds to view `a` the axes that b has in front of it, and b's batch axis: values of positions lack these. */
static void complete(struct sl_onnx_view *a, const struct sl_onnx_view *b)
{
	const int batch = sl_onnx_batch_axis(b), more = b->n_axis - a->n_axis;
	const struct sl_onnx_axis *own = &a->axis[sl_onnx_batch_axis(a)];

	if (own->n && own->atom[0] == 0)
		return;
	if (more > 0) {
		memmove(a->axis + more, a->axis, (size_t)a->n_axis * sizeof *a->axis);
		memset(a->axis, 0, (size_t)more * sizeof *a->axis);
		a->n_axis = b->n_axis;
	}
	if (!a->axis[batch].n)
		a->axis[batch] = (struct sl_onnx_axis){1, {0}};
}

int sl_onnx_repeat(struct sl_onnx_import *im, int x, const struct sl_shape *want)
{
	const struct sl_shape has = sl_build_shape(im->b, x);

	for (int d = 1; d < want->ndim; d++)
		if (has.dim[d] != want->dim[d] && !im->b->err && want->dim[d] <= SL_ONNX_MOST)
			x = sl_build_resample(im->b, im->name, x,
					      (struct sl_resample_attr){.axis = d,
									.size = (int)want->dim[d],
									.mode = SL_RESAMPLE_EDGE,
									.step = 1,
									.window = 1});
	return x;
}

/* The shape to which both broadcast; false: they do not fit each other. */
static bool common_shape(const struct sl_shape *a, const struct sl_shape *b, struct sl_shape *out)
{
	bool fits = a->ndim == b->ndim;

	*out = *a;
	for (int d = 1; fits && d < a->ndim; d++) {
		fits = a->dim[d] == b->dim[d] || a->dim[d] == 1 || b->dim[d] == 1;
		out->dim[d] = a->dim[d] == 1 ? b->dim[d] : a->dim[d];
	}
	return fits;
}

/* How the second input of a sum or product is changed first, so that these also serve for differences and quotients. */
enum second { AS_IT_IS, INVERSE, MINUS };

/* Inverts or negates x, or returns it as it is. */
static int as_second(struct sl_onnx_import *im, int x, enum second second)
{
	if (im->b->err || second == AS_IT_IS)
		return x;
	return second == MINUS ? sl_build_scale(im->b, im->name, x, -1)
			       : sl_build_math(im->b, im->name, x, SL_MATH_RECIPROCAL);
}

void sl_onnx_out_pair(struct sl_onnx_import *im, enum sl_op_kind kind, const char *what, struct sl_onnx_value *v,
		      struct sl_onnx_value *w)
{
	struct sl_shape a, b, all;

	if (v->permuted || w->permuted) {
		sl_onnx_refuse(im, "it %s flattened images, which is not read", what);
		return;
	}
	if (im->whole || (sl_onnx_per_token(im, v) && sl_onnx_per_token(im, w))) {
		complete(&v->view, &w->view);
		complete(&w->view, &v->view);
	}
	a = sl_build_shape(im->b, v->value);
	b = sl_build_shape(im->b, w->value);
	if (!same_view(&v->view, &w->view) || !sl_shape_equal(&a, &b)) {
		(void)canonical(im, v);
		(void)canonical(im, w);
	}
	if (im->b->err)
		return;
	a = sl_build_shape(im->b, v->value);
	b = sl_build_shape(im->b, w->value);
	if (sl_onnx_per_token(im, v) && !same_order(im, v, w))
		sl_onnx_refuse(im, "it %s values of tokens whose axes differ", what);
	else if (sl_shape_equal(&a, &b))
		sl_onnx_out_like(im, sl_build_pair(im->b, im->name, kind, v->value, w->value), v);
	else if (kind == SL_OP_MUL && gates(&a, &b))
		sl_onnx_out_like(im, sl_build_pair(im->b, im->name, SL_OP_GATE, v->value, w->value), v);
	else if (kind == SL_OP_MUL && gates(&b, &a))
		sl_onnx_out_like(im, sl_build_pair(im->b, im->name, SL_OP_GATE, w->value, v->value), w);
	else if (!sl_onnx_per_token(im, v) && common_shape(&a, &b, &all)) {
		const int x = sl_onnx_repeat(im, v->value, &all), y = sl_onnx_repeat(im, w->value, &all);

		sl_onnx_out(im, sl_build_pair(im->b, im->name, kind, x, y));
	} else
		sl_onnx_refuse(im, "it %s values whose shapes do not fit each other", what);
}

/* A sum or a product of two computed values. */
static void pair(struct sl_onnx_import *im, enum sl_op_kind kind, const char *what, enum second second)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0), *w = sl_onnx_in(im, 1), other;

	sl_onnx_data_in(im, 0, 0);
	sl_onnx_data_in(im, 1, 0);
	if (im->b->err)
		return;
	if (second) {
		other = *w;
		other.value = as_second(im, w->value, second);
		w = &other;
	}
	sl_onnx_out_pair(im, kind, what, v, w);
}

/* Aligns the parameter p with the last axes of x: dim[i] is p's size along axis i of x. False: p does not broadcast to
 * x, or differs between samples. */
static bool beside(const struct sl_onnx_value *x, const struct sl_onnx_value *p, int64_t dim[4])
{
	const int n = x->view.n_axis, lack = n - p->n_dim, batch = sl_onnx_batch_axis(&x->view);

	for (int i = 0; i < -lack; i++)
		if (p->dim[i] != 1)
			return false;
	for (int i = 0; i < n; i++) {
		dim[i] = i < lack ? 1 : p->dim[i - lack];
		if (dim[i] != 1 && (i == batch || dim[i] != sl_onnx_axis_size(&x->view, i)))
			return false;
	}
	return true;
}

/* The parameter of input `i` as a value of every row, in x's layout and with as many dimensions; -1 after a refusal.
 * *last_only: it varies along the last of several dimensions alone, as GATE needs it. */
static int repeated(struct sl_onnx_import *im, size_t i, struct sl_onnx_value *x, bool *last_only)
{
	const struct sl_onnx_value *p = sl_onnx_in(im, i);
	const bool token = sl_onnx_per_token(im, x);
	const int n = x->view.n_axis, before = im->n_param;
	struct sl_shape shape = {n - 1, {0}}, file = {0};
	int64_t dim[4] = {1, 1, 1, 1}, all = 1;
	const Onnx__Tensor *t;
	bool same, fits = true;

	if ((token ? sl_onnx_innermost(im, x, n - 1, false) : canonical(im, x)) < 0)
		return -1;
	*last_only = false;
	if (token && n == 3 && beside(x, p, dim) && dim[0] * dim[1] > 1)
		return sl_onnx_places_param(im, i);
	t = sl_onnx_param_in(im, i, p->constant->n_dims);
	if (!t)
		return -1;
	for (int k = 0; k < p->n_dim; k++)
		all *= p->dim[k];
	if (n > 4 || !beside(x, p, dim) || t->n_dims < 1 || t->n_dims > 4 || all != sl_onnx_count(t)) {
		sl_onnx_refuse(im, "its parameter '%.96s' does not fit its input", t->name);
		return -1;
	}
	same = n != 4 || dim[1] == 1 || (dim[2] == 1 && dim[3] == 1);
	for (int k = 0; k < 3 && !same && fits; k++)
		fits = t->n_dims >= 3 && t->dims[t->n_dims - 3 + (size_t)k] == dim[k + 1];
	if (!fits) {
		sl_onnx_refuse(
			im, "its parameter '%.96s' has one number for each pixel, and is not [1, C, H, W] or [C, H, W]",
			t->name);
		return -1;
	}
	for (int k = 0; k < n - 1; k++)
		shape.dim[k] = dim[n == 4 ? (int[]){2, 3, 1}[k] : k + 1];
	*last_only = n > 2;
	for (int k = 0; k < n - 2; k++)
		*last_only &= shape.dim[k] == 1;
	if (token) {
		shape = (struct sl_shape){1, {dim[n - 1]}};
		*last_only = false;
	}
	file.ndim = (int)t->n_dims;
	for (int k = 0; k < file.ndim; k++)
		file.dim[k] = t->dims[k];
	sl_onnx_use_params(im, before);
	i = (size_t)sl_build_repeat(im->b, im->name, x->value, shape, file,
				    same             ? SL_LAYOUT_SAME
				    : t->n_dims == 4 ? SL_LAYOUT_OHWI_FROM_OIHW
						     : SL_LAYOUT_HWC_FROM_C1HW);
	im->b->param_name = NULL;
	return im->b->err ? -1 : (int)i;
}

/* Returns the op that joins x and *p: `kind`, or GATE. *p: the parameter of input `i`, inverted or negated as `second`
 * says, and repeated along the dimensions that this op does not broadcast. */
static enum sl_op_kind fit(struct sl_onnx_import *im, size_t i, struct sl_onnx_value *x, enum sl_op_kind kind,
			   enum second second, int *p)
{
	struct sl_shape want;
	bool last_only = false;

	*p = as_second(im, repeated(im, i, x, &last_only), second);
	if (im->b->err)
		return kind;
	kind = last_only && kind == SL_OP_MUL ? SL_OP_GATE : kind;
	want = sl_build_shape(im->b, x->value);
	if (kind == SL_OP_GATE) /* which broadcasts all dimensions but the last */
		for (int d = 1; d < want.ndim - 1; d++)
			want.dim[d] = 1;
	*p = sl_onnx_repeat(im, *p, &want);
	return kind;
}

/* Whether the output's only use is in a Mul, Add, Sub or Div with a value of the sizes to[n], which broadcasts it. */
static bool reader_repeats(struct sl_onnx_import *im, const int64_t *to, int n)
{
	static const char *const kinds[] = {"Mul", "Add", "Sub", "Div"};
	const char *made = im->node->output[0];
	const struct sl_onnx_value *v;
	bool same;
	int next = -1;

	for (int i = 0; next < 0 && i < 4; i++)
		next = sl_onnx_next(im, im->index, kinds[i]);
	if (next < 0 || im->onnx->graph->node[next]->n_input != 2)
		return false;
	v = sl_onnx_find(im,
			 im->onnx->graph->node[next]->input[strcmp(im->onnx->graph->node[next]->input[0], made) == 0]);
	same = v && v->value >= 0 && v->view.n_axis == n;
	for (int i = 0; same && i < n; i++)
		same = to[i] == sl_onnx_axis_size(&v->view, i);
	return same;
}

/* Whether Expand leaves a parameter as it is: it repeats it for every sample only, or the next node broadcasts it. */
static bool stays(struct sl_onnx_import *im, const struct sl_onnx_value *p, const int64_t *to, int n)
{
	bool same = true;

	for (int i = 0, d = p->n_dim - n; i < n; i++, d++)
		same &= to[i] == 1 || (d >= 0 && to[i] == p->dim[d]) || (i == 0 && to[i] == im->batch);
	return same || reader_repeats(im, to, n);
}

void sl_onnx_expand(struct sl_onnx_import *im, const int64_t *to, int n)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_shape want = {n, {0}};
	bool fits;

	if (sl_onnx_read_repeated_row(im, to, n))
		return;
	fits = v && !v->permuted && !v->summed && !sl_onnx_per_token(im, v) && n == v->view.n_axis && n <= 4;

	for (int i = 0; fits && i < n; i++) {
		const int64_t has = sl_onnx_axis_size(&v->view, i);

		fits = to[i] == has || to[i] == 1 || (has == 1 && to[i] > 0 && to[i] <= SL_ONNX_MOST);
		want.dim[n == 4 ? (int[]){0, 3, 1, 2}[i] : i] = to[i] == 1 ? has : to[i];
	}
	if (v && v->value < 0) {
		if (!stays(im, v, to, n))
			sl_onnx_refuse(im, "it repeats the parameter '%.96s' within a sample, which is not read",
				       v->constant->name);
		sl_onnx_out_same(im, v);
	} else if (!fits || canonical(im, v) < 0)
		sl_onnx_refuse(im, "it repeats a computed value in a way that is not read");
	else if (reader_repeats(im, to, n))
		sl_onnx_out_same(im, v);
	else
		sl_onnx_out(im, sl_onnx_repeat(im, v->value, &want));
}

/* A sum or a product of a value and the parameter of input `i`, which is broadcast. */
static void with_param(struct sl_onnx_import *im, size_t i, enum sl_op_kind kind, enum second second)
{
	struct sl_onnx_value *x = sl_onnx_in(im, 1 - i), other;
	int p;

	if (sl_onnx_data_in(im, 1 - i, 0) < 0)
		return;
	if (x->permuted) {
		sl_onnx_refuse(im, "it changes flattened images by a parameter, which is not read");
		return;
	}
	if (i == 0) {
		other = *x;
		other.value = as_second(im, x->value, second);
		x = &other;
	}
	kind = fit(im, i, x, kind, i == 1 ? second : AS_IT_IS, &p);
	if (!im->b->err)
		sl_onnx_out_like(im, sl_build_pair(im->b, im->name, kind, x->value, p), x);
}

/* Arithmetic of two constant numbers: the output is a number. False: an input is none, or it would divide by 0. */
static bool of_numbers(struct sl_onnx_import *im)
{
	const char kind = im->node->op_type[0];
	float a, b;

	if (!sl_onnx_scalar_in(im, 0, &a) || !sl_onnx_scalar_in(im, 1, &b) || (kind == 'D' && b == 0))
		return false;
	sl_onnx_out_number(im, kind == 'A' ? a + b : kind == 'M' ? a * b : kind == 'S' ? a - b : a / b);
	return true;
}

/* Add or Mul: of known integers, of scores, with a number (by · x + plus), with a parameter, or of two values. */
void sl_onnx_read_sum(struct sl_onnx_import *im)
{
	const bool sum = im->op == SL_OP_ADD;
	float n;

	if (sl_onnx_read_ints(im) || sl_onnx_read_scores(im) || im->b->err || of_numbers(im))
		return;
	for (size_t i = 0; i < 2; i++)
		if (sl_onnx_scalar_in(im, i, &n)) {
			affine(im, 1 - i, sum ? 1 : n, sum ? n : 0);
			return;
		}
	for (size_t i = 0; i < 2; i++)
		if (is_param(im, sl_onnx_in(im, i))) {
			with_param(im, i, im->op, AS_IT_IS);
			return;
		}
	pair(im, im->op, sum ? "adds" : "multiplies", AS_IT_IS);
}

void sl_onnx_read_div(struct sl_onnx_import *im)
{
	float by = 0, from;

	if (sl_onnx_read_ints(im) || sl_onnx_read_gelu(im) || sl_onnx_read_scores(im) || im->b->err || of_numbers(im))
		return;
	if (sl_onnx_scalar_in(im, 1, &by)) {
		if (by == 0)
			sl_onnx_refuse(im, "it divides by 0");
		affine(im, 0, 1 / by, 0);
		return;
	}
	for (size_t i = 0; i < 2; i++)
		if (is_param(im, sl_onnx_in(im, i))) {
			with_param(im, i, SL_OP_MUL, INVERSE);
			return;
		}
	if (sl_onnx_scalar_in(im, 0, &from))
		sl_onnx_read_math(im, 1, SL_MATH_RECIPROCAL, from);
	else
		pair(im, SL_OP_MUL, "divides", INVERSE);
}

void sl_onnx_read_math(struct sl_onnx_import *im, size_t i, int fn, float by)
{
	int x = sl_onnx_data_in(im, i, 0);

	if (!(by >= -1e30f && by <= 1e30f))
		sl_onnx_refuse(im, "its factor is %g", (double)by);
	if (im->b->err)
		return;
	x = sl_build_math(im->b, im->name, x, fn);
	sl_onnx_out_like(im, by == 1 ? x : sl_build_scale(im->b, im->name, x, by), sl_onnx_in(im, i));
}

void sl_onnx_read_sub(struct sl_onnx_import *im)
{
	float by;

	if (sl_onnx_read_ints(im) || im->b->err || of_numbers(im))
		return;
	if (sl_onnx_scalar_in(im, 1, &by)) {
		affine(im, 0, 1, -by);
		return;
	}
	if (sl_onnx_scalar_in(im, 0, &by)) {
		affine(im, 1, -1, by);
		return;
	}
	for (size_t i = 0; i < 2; i++)
		if (is_param(im, sl_onnx_in(im, i))) {
			with_param(im, i, SL_OP_ADD, MINUS);
			return;
		}
	pair(im, SL_OP_ADD, "subtracts", MINUS);
}

void sl_onnx_read_neg(struct sl_onnx_import *im)
{
	affine(im, 0, -1, 0);
}

void sl_onnx_read_pow(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	float by = 0;
	int x, y;

	if (sl_onnx_read_rmsnorm(im) || im->b->err)
		return;
	x = sl_onnx_data_in(im, 0, 0);
	if (!sl_onnx_scalar_in(im, 1, &by) || (by != 2 && by != 3 && by != -1 && by != 0.5f && by != -0.5f))
		sl_onnx_refuse(im, "its exponent is none of the constants 2, 3, 1/2, -1/2 and -1");
	if (im->b->err)
		return;
	if (by < 1) {
		y = by == -1 ? x : sl_build_math(im->b, im->name, x, SL_MATH_SQRT);
		sl_onnx_out_like(im, by < 0 ? sl_build_math(im->b, im->name, y, SL_MATH_RECIPROCAL) : y, v);
		return;
	}
	y = sl_build_mul(im->b, im->name, x, x);
	sl_onnx_out_like(im, by == 3 ? sl_build_mul(im->b, im->name, y, x) : y, v);
}

/* ---- activations that are composed of other ops: max(x, 0) is relu(x), min(x, 0) is x − relu(x) */

/* above · max(x, 0) + below · x */
static int bent(struct sl_onnx_import *im, int x, float above, float below)
{
	int y = sl_build_act(im->b, im->name, x, SL_ACT_RELU);

	if (above != 1)
		y = sl_build_scale(im->b, im->name, y, above);
	return sl_build_add(im->b, im->name, y, sl_build_scale(im->b, im->name, x, below));
}

/* max(x, 0) + max(−x, 0), whose gradient at 0 is 0 */
static int magnitude(struct sl_onnx_import *im, int x)
{
	const int minus = sl_build_act(im->b, im->name, sl_build_scale(im->b, im->name, x, -1), SL_ACT_RELU);

	return sl_build_add(im->b, im->name, sl_build_act(im->b, im->name, x, SL_ACT_RELU), minus);
}

void sl_onnx_read_abs(struct sl_onnx_import *im)
{
	const int x = sl_onnx_data_in(im, 0, 0);

	if (!im->b->err)
		sl_onnx_out_like(im, magnitude(im, x), sl_onnx_in(im, 0));
}

/* x / (1 + |x|) */
void sl_onnx_read_softsign(struct sl_onnx_import *im)
{
	const int x = sl_onnx_data_in(im, 0, 0);
	int y;

	if (im->b->err)
		return;
	y = sl_build_affine(im->b, im->name, magnitude(im, x), 1, 1);
	y = sl_build_math(im->b, im->name, y, SL_MATH_RECIPROCAL);
	sl_onnx_out_like(im, sl_build_mul(im->b, im->name, x, y), sl_onnx_in(im, 0));
}

void sl_onnx_read_leaky(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const float slope = sl_onnx_attr_float(im, "alpha", 0.01f);
	const int x = sl_onnx_data_in(im, 0, 0);

	if (!(slope >= -1e6f && slope <= 1e6f))
		sl_onnx_refuse(im, "its slope is %g", (double)slope);
	if (!im->b->err)
		sl_onnx_out_like(im, bent(im, x, 1 - slope, slope), v);
}

/* by · ELU of this alpha. The op ELU has alpha 1, so this is by · (alpha · elu(x) + (1 − alpha) · relu(x)). */
static void elu(struct sl_onnx_import *im, float alpha, float by)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int x = sl_onnx_data_in(im, 0, 0);
	int y;

	if (!(alpha >= -1e6f && alpha <= 1e6f && by >= -1e6f && by <= 1e6f))
		sl_onnx_refuse(im, "its alpha is %g", (double)alpha);
	if (im->b->err)
		return;
	y = sl_build_smooth(im->b, im->name, x, SL_OP_ELU, false);
	if (alpha * by != 1)
		y = sl_build_scale(im->b, im->name, y, alpha * by);
	if (alpha != 1)
		y = sl_build_add(im->b, im->name, y,
				 sl_build_scale(im->b, im->name, sl_build_act(im->b, im->name, x, SL_ACT_RELU),
						by * (1 - alpha)));
	sl_onnx_out_like(im, y, v);
}

void sl_onnx_read_elu(struct sl_onnx_import *im)
{
	if (im->node->op_type[0] == 'S')
		elu(im, sl_onnx_attr_float(im, "alpha", 1.67326319f), sl_onnx_attr_float(im, "gamma", 1.05070102f));
	else
		elu(im, sl_onnx_attr_float(im, "alpha", 1), 1);
}

/* relu(x) + w · (x − relu(x)), where w is a parameter: a number for each channel, or one for all. */
void sl_onnx_read_prelu(struct sl_onnx_import *im)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	enum sl_op_kind kind;
	int x, y, p;

	sl_onnx_data_in(im, 0, 0);
	if ((v && v->permuted) || !is_param(im, sl_onnx_in(im, 1)))
		sl_onnx_refuse(im, "its slope is no parameter, or it is of flattened images");
	if (im->b->err)
		return;
	kind = fit(im, 1, v, SL_OP_MUL, AS_IT_IS, &p);
	if (im->b->err)
		return;
	x = sl_build_act(im->b, im->name, v->value, SL_ACT_RELU);
	y = sl_build_add(im->b, im->name, v->value, sl_build_scale(im->b, im->name, x, -1));
	y = sl_build_pair(im->b, im->name, kind, y, p);
	sl_onnx_out_like(im, sl_build_add(im->b, im->name, x, y), v);
}
