/* An ONNX file under construction, as bytes of its protobuf messages (onnx.proto of onnx.ai): nodes one after the
 * other, constants, attributes. When memory runs out, `full` is set, and further calls append nothing. */
#ifndef SL_CLIENT_MODEL_ONNX_EMIT_H
#define SL_CLIENT_MODEL_ONNX_EMIT_H

#include "common/graph/graph.h"
#include "common/weights/safetensors.h"

/* Values of Tensor.data_type and TensorType.elem_type. */
enum sl_onnx_type { SL_ONNX_FLOAT = 1, SL_ONNX_INT64 = 7, SL_ONNX_BOOL = 9 };
/* Values of Attribute.type. */
enum sl_onnx_attr {
	SL_ONNX_ATTR_FLOAT = 1,
	SL_ONNX_ATTR_INT = 2,
	SL_ONNX_ATTR_STRING = 3,
	SL_ONNX_ATTR_TENSOR = 4,
	SL_ONNX_ATTR_INTS = 7
};

/* Ends the name of a layer in names of its further nodes, since ONNX Runtime refuses two nodes of the same name. */
#define SL_ONNX_PART ":part"

/* The key of a note in files of ours that predict. Its value is how many batch norms and dropouts the file has, in
 * their form for prediction. If none is missing, the network can be trained again (python/split/onnx_file.py). */
#define SL_ONNX_TRAINABLE "split.trainable_nodes"

struct sl_onnx_message {
	uint8_t *data;
	size_t len, cap;
	bool full;
};

/* A zeroed one is empty. The caller frees graph.data and node.data. */
struct sl_onnx_emit {
	struct sl_onnx_message graph, node; /* node: the last node, which may still get attributes */
	int n_made;                         /* number of values so far, from which their names are made */
	const char *name;                   /* the name of the nodes that follow */
	bool again; /* a node has it already, so others get SL_ONNX_PART and a number behind it */
};

/* The name of a value. */
struct sl_onnx_text {
	char t[SL_NAME_MAX];
};

/* Appends a node of that kind, with input names up to a NULL; returns its output. */
struct sl_onnx_text sl_onnx_emit_node(struct sl_onnx_emit *e, const char *kind, const char *const *in);
#define SL_ONNX_EMIT(e, kind, ...) sl_onnx_emit_node(e, kind, (const char *const[]){__VA_ARGS__, NULL})
/* Add one more output, or an attribute, to the last node. */
struct sl_onnx_text sl_onnx_emit_output(struct sl_onnx_emit *e);
void sl_onnx_emit_ints(struct sl_onnx_emit *e, const char *name, const int64_t *v, int n);
void sl_onnx_emit_int(struct sl_onnx_emit *e, const char *name, int64_t v);
void sl_onnx_emit_float(struct sl_onnx_emit *e, const char *name, float v);
void sl_onnx_emit_word(struct sl_onnx_emit *e, const char *name, const char *v);
/* The attributes of a window, by height and width; pads: top, left, bottom, right. */
void sl_onnx_emit_window(struct sl_onnx_emit *e, int64_t kh, int64_t kw, const int64_t stride[2],
			 const int64_t pads[4]);
void sl_onnx_emit_square(struct sl_onnx_emit *e, int64_t kh, int64_t kw, int64_t stride, int64_t pad);

/* Constants: n integers, one float, and a list or matrix of floats: element i is at(i, dim[0]); `at` NULL: 0. */
struct sl_onnx_text sl_onnx_emit_list(struct sl_onnx_emit *e, const int64_t *v, int n);
struct sl_onnx_text sl_onnx_emit_number(struct sl_onnx_emit *e, float v);
struct sl_onnx_text sl_onnx_emit_floats(struct sl_onnx_emit *e, const int64_t *dim, int n_dim,
					float (*at)(int64_t i, int64_t n));
/* Nodes with their constants. Transpose: perm as digits, "0231". Slice: elements first, first + step … below `end`. */
struct sl_onnx_text sl_onnx_emit_transpose(struct sl_onnx_emit *e, struct sl_onnx_text x, const char *perm);
struct sl_onnx_text sl_onnx_emit_slice(struct sl_onnx_emit *e, struct sl_onnx_text x, int64_t axis, int64_t first,
				       int64_t end, int64_t step);
/* The mean over one axis, which stays with size 1. From opset 18 on the axes are an input. */
struct sl_onnx_text sl_onnx_emit_mean(struct sl_onnx_emit *e, struct sl_onnx_text x, int64_t axis, int opset);
struct sl_onnx_text sl_onnx_emit_dropout(struct sl_onnx_emit *e, const char *x, float p, bool training);
/* Adds a parameter as an initializer, or, if it is constant, as a Constant node, which must stand before its readers.
 */
void sl_onnx_emit_param(struct sl_onnx_emit *e, const char *name, const struct sl_shape *shape, const float *v,
			bool constant);
/* Declares an input or an output of floats, whose dimension 0 is the batch, of any size. */
enum { SL_ONNX_INPUT = 11, SL_ONNX_OUTPUT };
void sl_onnx_emit_end(struct sl_onnx_emit *e, unsigned end, const char *name, const int64_t *dim, int n_dim);
/* Writes the whole file. `trainable`: the value of SL_ONNX_TRAINABLE; below 0: no such note. CANTCREATE: it would have
 * 2 GiB or more. */
enum sl_err sl_onnx_emit_save(struct sl_onnx_emit *e, int opset, int trainable, const struct sl_st_note *notes,
			      int n_notes, const char *path, struct sl_fail *fail) SL_MUST_CHECK;

#endif
