/* A parsed ONNX file: its tensors, and the sizes of its input and output (onnx_file.c). */
#ifndef SL_CLIENT_MODEL_ONNX_FILE_H
#define SL_CLIENT_MODEL_ONNX_FILE_H

#include "client/model/onnx.h"
#include "proto/onnx.pb-c.h"

/* Values of Tensor.data_type and TensorType.elem_type. */
enum sl_onnx_type { SL_ONNX_FLOAT = 1, SL_ONNX_INT32 = 6, SL_ONNX_INT64 = 7, SL_ONNX_BOOL = 9, SL_ONNX_DOUBLE = 11 };
/* Values of Attribute.type. */
enum sl_onnx_attr {
	SL_ONNX_ATTR_FLOAT = 1,
	SL_ONNX_ATTR_INT = 2,
	SL_ONNX_ATTR_STRING = 3,
	SL_ONNX_ATTR_TENSOR = 4,
	SL_ONNX_ATTR_FLOATS = 6,
	SL_ONNX_ATTR_INTS = 7,
	SL_ONNX_ATTR_STRINGS = 8
};

/* Ends the name of a layer in names of its further nodes, since ONNX Runtime refuses two nodes of the same name. */
#define SL_ONNX_PART ":part"

/* The key of a note in files of ours that predict. Its value is how many batch norms and dropouts the file has, in
 * their form for prediction. If none is missing, the network can be trained again. */
#define SL_ONNX_TRAINABLE "split.trainable_nodes"

struct sl_onnx {
	char name[SL_NAME_MAX]; /* the file's name, without folders */
	Onnx__Model *model;
	const Onnx__Graph *graph;
	const Onnx__Value *in, *out;
	const Onnx__Value *mask;   /* the input beside token ids; NULL: there is none */
	const Onnx__Tensor **init; /* initializers, sorted by name */
	int n_init;
	int opset;
	bool trainable; /* it predicts, and contains all that its training needs (SL_ONNX_TRAINABLE) */
};

extern const char sl_onnx_how[]; /* for messages: the export call that writes a supported file */

const Onnx__Tensor *sl_onnx_find_init(const struct sl_onnx *onnx, const char *name); /* NULL: none */
/* The number of elements of a checked tensor (sl_onnx_check_tensor). */
int64_t sl_onnx_count(const Onnx__Tensor *t);
/* The dimensions as text: "[64, 3, 7, 7]". */
enum { SL_ONNX_DIMS_TEXT = 128 };
const char *sl_onnx_dims_text(const Onnx__Tensor *t, char out[SL_ONNX_DIMS_TEXT]);
/* Copies the elements of a checked FLOAT tensor. */
void sl_onnx_read_f32(const Onnx__Tensor *t, float *out);
/* Checks that dims, type and data fit each other. CONFIG: the data are in another file or in segments; else DATA. */
enum sl_err sl_onnx_check_tensor(const Onnx__Tensor *t, const char *name, struct sl_fail *fail) SL_MUST_CHECK;
/* Dimension `i` of an input or output; 0: the file leaves it open. */
int64_t sl_onnx_dim(const Onnx__Value *v, size_t i);
size_t sl_onnx_n_dim(const Onnx__Value *v);
enum sl_err sl_onnx_read_sizes(struct sl_model_sizes *out, const struct sl_onnx *onnx,
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
