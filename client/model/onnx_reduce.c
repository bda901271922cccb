/* Readers of nodes that reduce whole axes: means, maxima, sums, norms; softmax. */
#include "client/model/onnx_arithmetic.h"
#include "client/model/onnx_tokens.h"
#include "client/model/onnx_windows.h"

/* The root of a sum of squares, as of a norm. What is added gives the root of 0 the gradient 0, as torch does. */
static int root(struct sl_onnx_import *im, int x)
{
	return sl_build_math(im->b, im->name, sl_build_affine(im->b, im->name, x, 1, 1e-30f), SL_MATH_SQRT);
}

bool sl_onnx_read_deviation(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const char *maker = v && v->value >= 0 && v->maker >= 0 ? im->onnx->graph->node[v->maker]->op_type : "";

	if (strcmp(maker, "ReduceMean") != 0 && strcmp(maker, "Div") != 0)
		return false;
	if (sl_onnx_data_in(im, 0, 0) >= 0)
		sl_onnx_out_like(im, root(im, v->value), v);
	return true;
}

void sl_onnx_read_global_pool(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im);

	if (x >= 0)
		sl_onnx_out(im, sl_build_pool(im->b, im->name, x, im->op, (struct sl_pool_attr){0}));
}

/* Arranges v as [n, 1, others], with the axes whose bits are set in `over` in front. Returns n; 0 after a refusal. */
static int64_t axes_in_front(struct sl_onnx_import *im, struct sl_onnx_value *v, unsigned over)
{
	const int batch = sl_onnx_batch_axis(&v->view);
	int atom[SL_ONNX_ATOMS], n = 0;
	int64_t dim[3] = {1, 1, 1};

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < v->view.n_axis; i++) {
			if (i == batch || (over >> i & 1) == (unsigned)pass)
				continue;
			dim[2 * pass] *= sl_onnx_axis_size(&v->view, i);
			for (int k = 0; k < v->view.axis[i].n && n < SL_ONNX_ATOMS; k++)
				atom[n++] = v->view.axis[i].atom[k];
		}
	if (over >> batch & 1)
		sl_onnx_refuse(im, "it is over the batch");
	return sl_onnx_arrange(im, v, atom, n, dim, 3) < 0 ? 0 : dim[0];
}

/* The node's op over all of height and width, which have n elements. A sum is a mean times n; SL_OP_MUL stands for the
 * root of the sum of squares. */
static int pool_of(struct sl_onnx_import *im, int x, enum sl_op_kind op, int64_t n)
{
	const bool norm = op == SL_OP_MUL, sum = norm || op == SL_OP_ADD;

	x = norm ? sl_build_mul(im->b, im->name, x, x) : x;
	x = sl_build_pool(im->b, im->name, x, sum ? SL_OP_AVGPOOL : op, (struct sl_pool_attr){0});
	x = sum ? sl_build_scale(im->b, im->name, x, (float)n) : x;
	return norm ? root(im, x) : x;
}

/* Pools over the axes of v whose bits are set in `over`. `keep`: these axes stay, with size 1. */
static void pool_of_axes(struct sl_onnx_import *im, struct sl_onnx_value *v, enum sl_op_kind op, unsigned over,
			 bool keep)
{
	const int64_t n = axes_in_front(im, v, over);
	struct sl_onnx_value made;

	if (!n)
		return;
	made = *v;
	made.value = sl_build_flatten(im->b, im->name, pool_of(im, v->value, op, n));
	for (int i = 0; i < v->view.n_axis; i++)
		for (int k = 0; k < v->view.axis[i].n && over >> i & 1; k++)
			made.view.size[v->view.axis[i].atom[k]] = 1;
	made.view.n_axis = 0;
	for (int i = 0; i < v->view.n_axis; i++)
		if (keep || !(over >> i & 1))
			made.view.axis[made.view.n_axis++] = v->view.axis[i];
	sl_onnx_out_same(im, &made);
}

void sl_onnx_read_reduce(struct sl_onnx_import *im)
{
	const Onnx__Attribute *axes = sl_onnx_attr(im, "axes", SL_ONNX_ATTR_INTS);
	const bool keep = sl_onnx_attr_int(im, "keepdims", 1);
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int64_t at[SL_ONNX_INTS];
	unsigned over = 0;
	int x, n = axes ? (int)axes->n_ints : 0, pooled;

	if ((im->op == SL_OP_AVGPOOL && sl_onnx_read_layernorm(im)) || sl_onnx_data_in(im, 0, 0) < 0)
		return;
	if (!axes)
		n = sl_onnx_ints_in(im, 1, at);
	for (int i = 0; i < n; i++) {
		const int64_t a = axes ? axes->ints[i] : at[i];

		over |= a >= -v->view.n_axis && a < v->view.n_axis ? 1u << ((a + v->view.n_axis) % v->view.n_axis) : 1u;
	}
	for (int i = 0; i < v->view.n_axis && (im->op == SL_OP_AVGPOOL || im->op == SL_OP_ADD); i++)
		if (over == 1u << i && sl_onnx_axis_of_tokens(im, v, i)) {
			sl_onnx_read_row(im, sl_onnx_in(im, 0), i, true, keep);
			if (!im->b->err)
				sl_onnx_find(im, im->node->output[0])->summed = im->op == SL_OP_ADD;
			return;
		}
	if (n < 1 || (over & 1) || v->permuted)
		sl_onnx_refuse(im, "its axes are no constants, or the batch is among them");
	if (im->b->err)
		return;
	if (v->view.n_axis != 4 || over != 12 || sl_onnx_batch_axis(&v->view)) {
		pool_of_axes(im, sl_onnx_in(im, 0), im->op, over, keep);
		return;
	}
	x = sl_onnx_image_in(im);
	pooled = im->b->err ? -1
			    : pool_of(im, x, im->op, sl_onnx_axis_size(&v->view, 2) * sl_onnx_axis_size(&v->view, 3));
	sl_onnx_out(im, keep ? pooled : sl_build_flatten(im->b, im->name, pooled));
}

void sl_onnx_out_sum(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool keep)
{
	pool_of_axes(im, v, SL_OP_ADD, 1u << axis, keep);
}

/* e / Σ e, where e = exp(x − max x). */
void sl_onnx_out_softmax(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis)
{
	const int64_t n = axes_in_front(im, v, 1u << axis);
	struct sl_onnx_value made;
	struct sl_shape shape;
	int e, top, sum;

	if (!n)
		return;
	shape = sl_build_shape(im->b, v->value);
	top = sl_build_scale(im->b, im->name, pool_of(im, v->value, SL_OP_MAXPOOL, n), -1);
	top = sl_build_add(im->b, im->name, v->value, sl_onnx_repeat(im, top, &shape));
	e = sl_build_math(im->b, im->name, top, SL_MATH_EXP);
	sum = sl_build_math(im->b, im->name, pool_of(im, e, SL_OP_ADD, n), SL_MATH_RECIPROCAL);
	made = *v;
	made.weights = true;
	made.value = sl_build_pair(im->b, im->name, SL_OP_GATE, e, sum);
	sl_onnx_out_same(im, &made);
}
