/* Shared by the functions that write the nodes of an ONNX file: the node that is being written, and names of values. */
#ifndef SL_CLIENT_MODEL_ONNX_WRITE_IMPL_H
#define SL_CLIENT_MODEL_ONNX_WRITE_IMPL_H

#include "client/model/onnx_emit.h"
#include "client/model/onnx_write.h"
#include "client/model/weights_file.h"

struct sl_onnx_writer {
	struct sl_onnx_emit e;
	const struct sl_model *model;
	const struct sl_graph *g;
	const float *const *param;
	struct sl_onnx_text *name; /* of each value of the graph, its name in the file */
	bool *repeats;             /* values that are a parameter in the file, where other nodes broadcast it */
	bool *flattened;           /* values that are flattened images, whose elements have the file's order */
	struct sl_op op;           /* the op and the node that are being written */
	const struct sl_node *node;
	int index;       /* of the node, or of the last one that was written with it */
	int opset;       /* of the file */
	bool training;   /* batch norms and dropout act as in training */
	int n_two_forms; /* nodes so far that act otherwise in training than in a prediction */
	struct sl_fail *fail;
	enum sl_err err;
};

/* ---- inputs, parameters and output of the node */

static inline const char *in(const struct sl_onnx_writer *w, int i)
{
	return w->name[w->g->link[w->node->in + i]].t;
}

static inline const struct sl_file_param *param_of(const struct sl_onnx_writer *w, int i)
{
	return &w->model->file[w->g->link[w->node->param + i]];
}

static inline const char *param(const struct sl_onnx_writer *w, int i)
{
	return i < w->node->n_param ? w->g->param[w->g->link[w->node->param + i]].name : NULL;
}

static inline bool is_image(const struct sl_shape *s)
{
	return s->ndim == 4;
}

/* The file's axis for an axis of our graph. */
static inline int64_t axis_in_file(const struct sl_shape *s, int axis)
{
	return is_image(s) ? (int[]){0, 2, 3, 1}[axis] : axis;
}

static inline void out(struct sl_onnx_writer *w, struct sl_onnx_text made)
{
	w->name[w->node->out] = made;
}

static inline struct sl_onnx_text two(struct sl_onnx_writer *w, const char *kind, const char *x, struct sl_onnx_text y)
{
	return SL_ONNX_EMIT(&w->e, kind, x, y.t);
}

static inline struct sl_onnx_text number(struct sl_onnx_writer *w, const char *kind, struct sl_onnx_text x, float v)
{
	return two(w, kind, x.t, sl_onnx_emit_number(&w->e, v));
}

static inline struct sl_onnx_text with_list(struct sl_onnx_writer *w, const char *kind, const char *x, const int64_t *v,
					    int n)
{
	return two(w, kind, x, sl_onnx_emit_list(&w->e, v, n));
}

#define ONE(w, kind, x) SL_ONNX_EMIT(&(w)->e, kind, (x).t)
#define LIST(w, kind, x, ...)                                 \
	with_list(w, kind, x, (const int64_t[]){__VA_ARGS__}, \
		  (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* Fails with CONFIG: the node has no form in ONNX files; `why` continues that sentence, as " in this mode". */
void sl_onnx_write_refuse(struct sl_onnx_writer *w, const char *why);

/* ---- writers of ops that make axes longer or shorter, or join them (onnx_write_axes.c) */
void sl_onnx_write_resample(struct sl_onnx_writer *w);
void sl_onnx_write_repeat(struct sl_onnx_writer *w);
void sl_onnx_write_concat(struct sl_onnx_writer *w);

#endif
