/* How a value gets the order of axes that its reader wants (onnx_views.c), and nodes that follow each other
 * (onnx_args.c). */
#ifndef SL_CLIENT_MODEL_ONNX_VIEWS_H
#define SL_CLIENT_MODEL_ONNX_VIEWS_H

#include "client/model/onnx_impl.h"

/* ---- views (onnx_views.c) */

int64_t sl_onnx_axis_size(const struct sl_onnx_view *v, int axis);
struct sl_onnx_view sl_onnx_view_of(const struct sl_onnx_import *im, const struct sl_shape *shape);
/* v in that order of atoms, of which 0 is none, in a shape of so many dimensions behind the batch; what v stands for is
 * the arranged value from here on. -1 after a refusal. */
int sl_onnx_arrange(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *atom, int n_atom, const int64_t *dim,
		    int n_dim);
/* Axes in that order, of which `joined` make the first dimension, and each other one its own. */
int sl_onnx_arrange_axes(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *axis, int n_axis, int joined);
/* The axis innermost, all others in front of it as one dimension; or v itself, where it lies so and has that last one.
 */
int sl_onnx_innermost(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool as_tokens);
/* The shape's dimension that is that axis alone; the value is arranged so. */
int sl_onnx_own_axis(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, int *value);
/* The sizes that a Reshape asks for: 0 in `to` is the input's own size, and one −1 is what is left. False where they do
 * not hold as many numbers as `dim` does. */
bool sl_onnx_fill_sizes(const int64_t *dim, int n_dim, int64_t *to, int n);
bool sl_onnx_reshape_view(struct sl_onnx_view *v, const int64_t *dim, int n);
/* The axis that is the batch's. */
int sl_onnx_batch_axis(const struct sl_onnx_view *v);
/* That axis is one atom of another size, where it was arranged by sl_onnx_own_axis or sl_onnx_innermost. */
void sl_onnx_resize_axis(struct sl_onnx_view *v, int axis, int64_t size);

/* ---- texts. A file has rows of equal length, which padding fills up, as [batch, tokens, …]. Here rows have their own
 * lengths and no padding, and values are per token: the graph's shapes lack the axis of tokens, which is atom 1. */

static inline bool sl_onnx_is_ids(const struct sl_onnx_import *im, const struct sl_onnx_value *v)
{
	return im->tokens && v && v->value == SL_BUILD_INPUT;
}

static inline bool sl_onnx_per_token(const struct sl_onnx_import *im, const struct sl_onnx_value *v)
{
	return im->tokens && v->value >= 0 && im->b->graph->value[v->value].lead == SL_PER_TOKEN;
}

static inline bool sl_onnx_axis_of_tokens(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int axis)
{
	return sl_onnx_per_token(im, v) && axis >= 0 && axis < v->view.n_axis && v->view.axis[axis].n == 1 &&
	       v->view.axis[axis].atom[0] == 1;
}

/* ---- outputs and following nodes (onnx_args.c) */

/* The same with the axes of another value, or others. */
void sl_onnx_out_like(struct sl_onnx_import *im, int value, const struct sl_onnx_value *as);
void sl_onnx_out_view(struct sl_onnx_import *im, int value, const struct sl_onnx_view *view);
void sl_onnx_out_number(struct sl_onnx_import *im, float number);
/* The node that alone reads output 0 of node `index`, if it is of that kind; -1. */
int sl_onnx_next(struct sl_onnx_import *im, int index, const char *kind);
/* The two nodes that read it, where there are two; -1. */
void sl_onnx_two_readers(struct sl_onnx_import *im, int index, int *a, int *b);

/* Nodes up to `index` are read as a part of this one, which makes that node's output. */
void sl_onnx_join(struct sl_onnx_import *im, int index);

#endif
