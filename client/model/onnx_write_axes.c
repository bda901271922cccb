/* Writers of ops that resize, repeat and join axes as nodes of an ONNX file. */
#include "client/model/onnx_write_impl.h"

#include <stdio.h>
#include <string.h>

/* Pads an axis with `before` elements in front and `behind` elements at its end. */
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

/* Resizes an image along one axis. As a batch may have any size, Shape gives it. */
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

/* A mean of windows along one axis of an image. */
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

/* The sizes [batch, size[0], …], with the batch of input `i`, which Shape gives. */
static struct sl_onnx_text sizes(struct sl_onnx_writer *w, int i, const int64_t *size, int n)
{
	const struct sl_onnx_text batch = sl_onnx_emit_slice(&w->e, SL_ONNX_EMIT(&w->e, "Shape", in(w, i)), 0, 0, 1, 1);
	const struct sl_onnx_text all = two(w, "Concat", batch.t, sl_onnx_emit_list(&w->e, size, n));

	sl_onnx_emit_int(&w->e, "axis", 0);
	return all;
}

/* Repeats the one element of an axis. */
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
	} else if (a->mode == SL_RESAMPLE_MEAN && a->size == 1 && a->window == n && !a->before && !behind) {
		out(w, sl_onnx_emit_mean(&w->e, x, axis, w->opset));
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

/* Whether the parameter's axes, and `behind` axes of size 1 after them, broadcast to s, the repeated value's shape. */
static bool is_aligned(const struct sl_shape *s, const struct sl_shape *p, int behind)
{
	const int first = s->ndim - p->ndim - behind;
	bool same = true;

	for (int i = 1; i < s->ndim; i++) {
		const int at = (int)axis_in_file(s, i) - first;

		same &= s->dim[i] == (at < 0 || at >= p->ndim ? 1 : p->dim[at]);
	}
	for (int at = 0; at < p->ndim; at++) /* an axis at the batch's place, or in front of it, must be 1 */
		same &= at + first > 0 || p->dim[at] == 1;
	return same;
}

static bool other_nodes_use(const struct sl_onnx_writer *w, int param)
{
	int uses = 0;

	for (int i = 0; i < w->g->n_node; i++)
		for (int k = 0; k < w->g->node[i].n_param; k++)
			uses += w->g->link[w->g->node[i].param + k] == param;
	return uses > 1;
}

/* REPEAT gets no node: its value is the parameter itself, which other nodes broadcast. They align last axes, so an
 * Unsqueeze adds axes of size 1 that the parameter lacks at its end. The bias of a recurrent cell's first step becomes
 * rows, because its parts are read. */
void sl_onnx_write_repeat(struct sl_onnx_writer *w)
{
	const struct sl_shape *s = &w->op.out_shape, *p = &param_of(w, 0)->shape;
	struct sl_onnx_text x;
	int behind = 0;

	while (behind < s->ndim && !is_aligned(s, p, behind))
		behind++;
	snprintf(x.t, sizeof x.t, "%s", w->g->param[w->g->link[w->node->param]].name);
	if (s->ndim == 2 && !w->repeats[w->g->link[w->node->in]] && other_nodes_use(w, w->g->link[w->node->param])) {
		out(w, two(w, "Expand", x.t, sizes(w, 0, &s->dim[1], 1)));
		return;
	}
	if (behind == s->ndim)
		sl_onnx_write_refuse(w, " of this parameter");
	else if (behind)
		x = with_list(w, "Unsqueeze", x.t, (int64_t[]){p->ndim, p->ndim + 1, p->ndim + 2}, behind);
	w->repeats[w->node->out] = true;
	out(w, x);
}

void sl_onnx_write_concat(struct sl_onnx_writer *w)
{
	const struct sl_shape *s = &w->op.out_shape;
	struct sl_onnx_text part[2];

	for (int i = 0; i < 2; i++) {
		const int v = w->g->link[w->node->in + i];
		const struct sl_shape *own = &w->op.in_shape[i];
		int64_t size[SL_MAX_DIMS];

		part[i] = w->name[v];
		if (!w->repeats[v])
			continue;
		/* a parameter, such as a class token, for every sample */
		for (int d = 1; d < own->ndim; d++)
			size[axis_in_file(own, d) - 1] = own->dim[d];
		part[i] = two(w, "Expand", w->name[v].t, sizes(w, 1 - i, size, own->ndim - 1));
	}
	out(w, two(w, "Concat", part[0].t, part[1]));
	sl_onnx_emit_int(&w->e, "axis", axis_in_file(s, sl_op_concat_axis(&w->op)));
}
