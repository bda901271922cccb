/* What is read of an ONNX file: its tensors, its sizes (onnx_file.c). */
#ifndef SL_CLIENT_MODEL_ONNX_FILE_H
#define SL_CLIENT_MODEL_ONNX_FILE_H

#include "client/model/onnx.h"
#include "proto/onnx.pb-c.h"

/* Of Tensor.data_type and Value.type. */
enum sl_onnx_type { SL_ONNX_FLOAT = 1, SL_ONNX_INT32 = 6, SL_ONNX_INT64 = 7, SL_ONNX_BOOL = 9, SL_ONNX_DOUBLE = 11 };
/* Of Attribute.type. */
enum sl_onnx_attr {
	SL_ONNX_ATTR_FLOAT = 1,
	SL_ONNX_ATTR_INT = 2,
	SL_ONNX_ATTR_STRING = 3,
	SL_ONNX_ATTR_TENSOR = 4,
	SL_ONNX_ATTR_FLOATS = 6,
	SL_ONNX_ATTR_INTS = 7
};

struct sl_onnx {
	char name[SL_NAME_MAX]; /* the file's, without folders */
	Onnx__Model *model;
	const Onnx__Graph *graph;
	const Onnx__Value *in, *out;
	const Onnx__Value *mask;   /* an input beside token ids; NULL: there is none */
	const Onnx__Tensor **init; /* by name */
	int n_init;
	int opset;
};

extern const char sl_onnx_how[]; /* the call that writes a file which is read */

const Onnx__Tensor *sl_onnx_find_init(const struct sl_onnx *onnx, const char *name); /* NULL: none */
/* Elements of a tensor whose dims were checked. */
int64_t sl_onnx_count(const Onnx__Tensor *t);
/* "[64, 3, 7, 7]" */
enum { SL_ONNX_DIMS_TEXT = 128 };
const char *sl_onnx_dims_text(const Onnx__Tensor *t, char out[SL_ONNX_DIMS_TEXT]);
/* Floats of a FLOAT tensor, whose data were checked. */
void sl_onnx_read_f32(const Onnx__Tensor *t, float *out);
/* Whether dims, type and data fit each other. */
enum sl_err sl_onnx_check_tensor(const Onnx__Tensor *t, const char *name, struct sl_fail *fail) SL_MUST_CHECK;
/* Dimension `i` of input or output; 0: any. */
int64_t sl_onnx_dim(const Onnx__Value *v, size_t i);
size_t sl_onnx_n_dim(const Onnx__Value *v);
enum sl_err sl_onnx_read_sizes(struct sl_onnx_sizes *out, const struct sl_onnx *onnx,
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
