/* From nodes that resize, repeat and join axes to those of an ONNX file. */
#include "client/model/onnx_write_impl.h"

#include <stdio.h>
#include <string.h>

/* More numbers of an axis before and behind. */
static struct sl_onnx_text padded(struct sl_onnx_writer *w, struct sl_onnx_text x, int64_t axis, int64_t before,
				  int64_t behind, enum sl_resample mode)
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
static void write_resize(struct sl_onnx_writer *w, int64_t axis)
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

static void write_mean(struct sl_onnx_writer *w, int64_t axis, int64_t behind)
{
	const struct sl_resample_attr *a = &w->op.u.resample;
	const bool high = axis == 2;

	out(w, SL_ONNX_EMIT(&w->e, "AveragePool", in(w, 0)));
	sl_onnx_emit_window(
		&w->e, high ? a->window : 1, high ? 1 : a->window, (int64_t[]){high ? a->step : 1, high ? 1 : a->step},
		(int64_t[]){high ? a->before : 0, high ? 0 : a->before, high ? behind : 0, high ? 0 : behind});
	sl_onnx_emit_int(&w->e, "count_include_pad", 1);
}

/* The sizes of a batch as large as that of input `i`: [batch, …]. */
static struct sl_onnx_text sizes(struct sl_onnx_writer *w, int i, const int64_t *size, int n)
{
	const struct sl_onnx_text batch = sl_onnx_emit_slice(&w->e, SL_ONNX_EMIT(&w->e, "Shape", in(w, i)), 0, 0, 1, 1);
	const struct sl_onnx_text all = two(w, "Concat", batch.t, sl_onnx_emit_list(&w->e, size, n));

	sl_onnx_emit_int(&w->e, "axis", 0);
	return all;
}

/* An axis of one number, which is repeated. */
static void write_expand(struct sl_onnx_writer *w, int axis)
{
	const struct sl_shape *s = &w->op.in_shape[0];
	int64_t size[SL_MAX_DIMS];

	for (int d = 1; d < s->ndim; d++)
		size[d - 1] = d == axis ? w->op.u.resample.size : s->dim[d];
	out(w, two(w, "Expand", in(w, 0), sizes(w, 0, size, s->ndim - 1)));
}

void sl_onnx_write_resample(struct sl_onnx_writer *w)
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
	} else if (a->mode == SL_RESAMPLE_EDGE && n == 1 && !is_image(s)) {
		write_expand(w, a->axis);
	} else if (a->mode <= SL_RESAMPLE_EDGE) {
		x = padded(w, x, axis, a->before, behind, a->mode);
		if (a->first || last < n || a->step > 1)
			x = sl_onnx_emit_slice(&w->e, x, axis, a->first, last + a->before, a->step);
		out(w, x);
	} else if (a->mode <= SL_RESAMPLE_ALIGNED && is_image(s)) {
		write_resize(w, axis);
	} else {
		sl_onnx_write_refuse(w, " in this mode");
	}
}

/* The last of the nodes that the reader makes of nn.PReLU, relu(x) − w · relu(−x), where this is the first; or NULL. */
static const struct sl_node *prelu_end(const struct sl_onnx_writer *w)
{
	const struct sl_node *n = w->node + 1, *end = w->g->node + w->g->n_node;

	while (n < end && n->kind == SL_OP_RESAMPLE)
		n++;
	return n + 5 < end && n->kind == SL_OP_SCALE && n[1].kind == SL_OP_ACT && n[5].kind == SL_OP_ADD &&
			       strcmp(n[5].name, w->node->name) == 0
		       ? n + 5
		       : NULL;
}

/* Whether the parameter's axes, and `behind` further ones of size 1, are the last ones of a repeated row's. */
static bool is_aligned(const struct sl_shape *s, const struct sl_shape *p, int behind)
{
	const int first = s->ndim - p->ndim - behind;
	bool same = true;

	for (int i = 1; i < s->ndim; i++) {
		const int at = (int)axis_in_file(s, i) - first;

		same &= s->dim[i] == (at < 0 || at >= p->ndim ? 1 : p->dim[at]);
	}
	for (int at = 0; at < p->ndim; at++) /* others are the batch's, or in front of it */
		same &= at + first > 0 || p->dim[at] == 1;
	return same;
}

/* Stands for the parameter itself, which may lack axes of size 1: nodes align the last axes of what they read. */
void sl_onnx_write_repeat(struct sl_onnx_writer *w)
{
	const struct sl_shape *s = &w->op.out_shape, *p = &param_of(w, 0)->shape;
	const struct sl_node *end = prelu_end(w);
	const int lack = s->ndim - 1 - p->ndim;
	struct sl_onnx_text x;
	int behind = end && lack > 0 ? lack : 0;

	while (behind < s->ndim && !is_aligned(s, p, behind))
		behind++;
	snprintf(x.t, sizeof x.t, "%s", w->g->param[w->g->link[w->node->param]].name);
	if (behind == s->ndim)
		sl_onnx_write_refuse(w, " of this parameter");
	else if (behind)
		x = with_list(w, "Unsqueeze", x.t, (int64_t[]){p->ndim, p->ndim + 1, p->ndim + 2}, behind);
	w->repeats[w->node->out] = true;
	out(w, x);
	if (!end)
		return;
	w->name[end->out] = two(w, "PRelu", in(w, 0), x);
	w->index = (int)(end - w->g->node);
}

void sl_onnx_write_concat(struct sl_onnx_writer *w)
{
	const struct sl_shape *s = &w->op.out_shape;
	struct sl_onnx_text part[2];

	for (int i = 0; i < 2; i++) {
		const int v = w->g->link[w->node->in + i];

		part[i] = w->name[v];
		if (!w->repeats[v])
			continue;
		/* a parameter, such as a class token, for every sample */
		part[i] = two(w, "Expand", w->name[v].t, sizes(w, 1 - i, (int64_t[]){1, 1}, s->ndim - 1));
	}
	out(w, two(w, "Concat", part[0].t, part[1]));
	sl_onnx_emit_int(&w->e, "axis", axis_in_file(s, sl_op_concat_axis(&w->op)));
}
