/* An ONNX file under construction, as bytes of its messages (proto/onnx.proto): nodes one behind the other, constants,
 * attributes. Where memory ends, `full` says so, and nothing more is done. */
#ifndef SL_CLIENT_MODEL_ONNX_EMIT_H
#define SL_CLIENT_MODEL_ONNX_EMIT_H

#include "client/model/onnx_file.h"
#include "common/weights/safetensors.h"

struct sl_onnx_message {
	uint8_t *data;
	size_t len, cap;
	bool full;
};

/* A zeroed one is empty; `graph` and `node` are malloc'ed. */
struct sl_onnx_emit {
	struct sl_onnx_message graph, node; /* node: the last one, which may get attributes */
	int n_made;                         /* values so far, which their names count */
	const char *name;                   /* of the nodes that follow */
};

/* What a value is called. */
struct sl_onnx_text {
	char t[SL_NAME_MAX];
};

/* A node of that kind, and the value that it makes; inputs up to a NULL. */
struct sl_onnx_text sl_onnx_emit_node(struct sl_onnx_emit *e, const char *kind, const char *const *in);
#define SL_ONNX_EMIT(e, kind, ...) sl_onnx_emit_node(e, kind, (const char *const[]){__VA_ARGS__, NULL})
/* One more output of the last node, and its attributes. */
struct sl_onnx_text sl_onnx_emit_output(struct sl_onnx_emit *e);
void sl_onnx_emit_ints(struct sl_onnx_emit *e, const char *name, const int64_t *v, int n);
void sl_onnx_emit_int(struct sl_onnx_emit *e, const char *name, int64_t v);
void sl_onnx_emit_float(struct sl_onnx_emit *e, const char *name, float v);
void sl_onnx_emit_word(struct sl_onnx_emit *e, const char *name, const char *v);
/* Those of a window, by height and width. */
void sl_onnx_emit_window(struct sl_onnx_emit *e, int64_t kh, int64_t kw, const int64_t stride[2],
			 const int64_t pads[4]);
void sl_onnx_emit_square(struct sl_onnx_emit *e, int64_t kh, int64_t kw, int64_t stride, int64_t pad);

/* Constants: of whole numbers, of one float, and of floats, a list or a matrix: at(i, dim[0]) is number i; NULL: 0. */
struct sl_onnx_text sl_onnx_emit_list(struct sl_onnx_emit *e, const int64_t *v, int n);
struct sl_onnx_text sl_onnx_emit_number(struct sl_onnx_emit *e, float v);
struct sl_onnx_text sl_onnx_emit_floats(struct sl_onnx_emit *e, const int64_t *dim, int n_dim,
					float (*at)(int64_t i, int64_t n));
/* Nodes with what they need: axes by digits, "0231"; numbers first, first + step … of an axis. */
struct sl_onnx_text sl_onnx_emit_transpose(struct sl_onnx_emit *e, struct sl_onnx_text x, const char *perm);
struct sl_onnx_text sl_onnx_emit_slice(struct sl_onnx_emit *e, struct sl_onnx_text x, int64_t axis, int64_t first,
				       int64_t end, int64_t step);
struct sl_onnx_text sl_onnx_emit_dropout(struct sl_onnx_emit *e, const char *x, float p); /* in training */
/* A parameter. */
void sl_onnx_emit_param(struct sl_onnx_emit *e, const char *name, const struct sl_shape *shape, const float *v);
/* An input or an output of floats, of which dimension 0 is the batch. */
enum { SL_ONNX_INPUT = 11, SL_ONNX_OUTPUT };
void sl_onnx_emit_end(struct sl_onnx_emit *e, unsigned end, const char *name, const int64_t *dim, int n_dim);
/* The whole file; LIMIT: it is 2 GiB or more. */
enum sl_err sl_onnx_emit_save(struct sl_onnx_emit *e, int opset, const struct sl_st_note *notes, int n_notes,
			      const char *path, struct sl_fail *fail) SL_MUST_CHECK;

#endif
