/* Views (onnx_impl.h), and how a value gets the layout that a reader needs (onnx_views.c); outputs with a given view,
 * and the nodes that follow (onnx_args.c). */
#ifndef SL_CLIENT_MODEL_ONNX_VIEWS_H
#define SL_CLIENT_MODEL_ONNX_VIEWS_H

#include "client/model/onnx_impl.h"

/* ---- views (onnx_views.c) */

int64_t sl_onnx_axis_size(const struct sl_onnx_view *v, int axis);
/* The view of a value in the usual layout of our graph: an image is [N,C,H,W] in the file. */
struct sl_onnx_view sl_onnx_view_of(const struct sl_onnx_import *im, const struct sl_shape *shape);
/* Brings v into the layout atom[n_atom] and the shape dim[n_dim], both without the batch. Of a value per token, atom 1
 * and im->tokens must come first. Returns the arranged value, for which v stands from now on; -1 after a refusal. */
int sl_onnx_arrange(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *atom, int n_atom, const int64_t *dim,
		    int n_dim);
/* The same by axes in that order: the first `joined` axes make one dimension, each other axis makes its own. */
int sl_onnx_arrange_axes(struct sl_onnx_import *im, struct sl_onnx_value *v, const int *axis, int n_axis, int joined);
/* Makes `axis` the last dimension, and all other axes one dimension in front of it. A value that ends with the axis
 * stays as it is; with `as_tokens` only if it has at most two dimensions after the batch. */
int sl_onnx_innermost(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool as_tokens);
/* Arranges v so that a dimension of its shape is that axis alone; returns the dimension. *value: the arranged value. */
int sl_onnx_own_axis(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, int *value);
/* Resolves the sizes to[n] of a Reshape: 0 becomes the input's own size in dim[n_dim], and one −1 what is left. False:
 * they do not hold as many elements as `dim`. */
bool sl_onnx_fill_sizes(const int64_t *dim, int n_dim, int64_t *to, int n);
/* Gives the view axes of the sizes dim[n], by splitting and regrouping atoms. False: it cannot; *v is unchanged. */
bool sl_onnx_reshape_view(struct sl_onnx_view *v, const int64_t *dim, int n);
/* The axis that has the batch's atom; 0: none has it. */
int sl_onnx_batch_axis(const struct sl_onnx_view *v);
/* Makes the axis one atom of another size. sl_onnx_own_axis or sl_onnx_innermost must have arranged it. */
void sl_onnx_resize_axis(struct sl_onnx_view *v, int axis, int64_t size);

/* ---- texts. In the file, padding makes all rows equally long: [batch, tokens, …]. Here rows have their own lengths
 * and no padding, and values are per token. Shapes in our graph lack the axis of tokens, which is atom 1 of a view. A
 * network that cannot be read so, and has no mask of padding, is read once more with im->whole: rows are padded here as
 * in the file, and what an embedding gives becomes a value of rows, in which the tokens are an axis like others. */

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

/* Refuses a node that mixes the tokens of a row, and so would mix them with padding. */
void sl_onnx_refuse_mixed(struct sl_onnx_import *im);

/* ---- outputs and following nodes (onnx_args.c) */

/* As sl_onnx_out, with the view of another value, or with that view; or set output 0 to a number. */
void sl_onnx_out_like(struct sl_onnx_import *im, int value, const struct sl_onnx_value *as);
void sl_onnx_out_view(struct sl_onnx_import *im, int value, const struct sl_onnx_view *view);
void sl_onnx_out_number(struct sl_onnx_import *im, float number);
/* The only node that reads output 0 of node `index`, if it is of that kind; else -1. */
int sl_onnx_next(struct sl_onnx_import *im, int index, const char *kind);
/* The two nodes that read output 0 of node `index`; -1 if there are more or fewer. */
void sl_onnx_two_readers(struct sl_onnx_import *im, int index, int *a, int *b);

/* Joins the nodes up to `index` to the node that is being read, which then makes the output of node `index`. */
void sl_onnx_join(struct sl_onnx_import *im, int index);

#endif
