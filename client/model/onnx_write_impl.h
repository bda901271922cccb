/* What the writers of an ONNX file's nodes share: the node that is being written, and the names of its inputs. */
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
	struct sl_onnx_text *name; /* of the graph's values */
	bool *repeats;             /* values that stand for a parameter, which nodes repeat by themselves */
	bool *flattened;           /* rows that are images, in the file's order of numbers */
	struct sl_op op;           /* that is being written */
	const struct sl_node *node;
	int index; /* of the node, or of the last one that was written with it */
	struct sl_fail *fail;
	enum sl_err err;
};

/* ---- what the node reads and has */

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

/* Where an axis of ours lies in the file. */
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

/* CONFIG: the node has no form in ONNX files; `why` goes on behind its kind. */
void sl_onnx_write_refuse(struct sl_onnx_writer *w, const char *why);

/* ---- what makes axes longer, shorter or joins them (onnx_write_axes.c) */
void sl_onnx_write_resample(struct sl_onnx_writer *w);
void sl_onnx_write_repeat(struct sl_onnx_writer *w);
void sl_onnx_write_concat(struct sl_onnx_writer *w);

#endif
