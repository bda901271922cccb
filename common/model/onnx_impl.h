/* What the files onnx*.c share. */
#ifndef SL_MODEL_ONNX_IMPL_H
#define SL_MODEL_ONNX_IMPL_H

#include "common/model/onnx.h"
#include "proto/onnx.pb-c.h"

/* Of Tensor.data_type and Value.type. */
enum sl_onnx_type { SL_ONNX_FLOAT = 1, SL_ONNX_INT32 = 6, SL_ONNX_INT64 = 7, SL_ONNX_BOOL = 9 };
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
	const Onnx__Tensor **init; /* by name */
	int n_init;
	int opset;
};

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

/* ---- from nodes to a graph (onnx.c), kind by kind (onnx_nodes.c) */

enum { SL_ONNX_INTS = 8, SL_ONNX_MOST = 1 << 20 }; /* numbers of a shape; of a window, and of channels */
#define SL_ONNX_BATCH INT64_MIN

/* What a name stands for. Values of four dimensions are [N,C,H,W] in the file and [N,H,W,C] here. */
struct sl_onnx_value {
	const char *name;
	int value;                    /* of the graph; -1: it is constant, or no node of ours */
	const Onnx__Tensor *constant; /* an initializer, or a constant's tensor; NULL: none */
	/* A flattened image of several pixels: its numbers lie in another order than the file's. */
	bool permuted;
	/* What is known of a part of a shape: numbers, or SL_ONNX_BATCH; 0: it is none. A scalar is one without dims.
	 */
	int n_ints;
	bool scalar;
	int64_t ints[SL_ONNX_INTS];
	int pad;    /* zeros around an image that its reader is to add; the graph's value has none */
	bool known; /* its maker has been read */
};

struct sl_onnx_import {
	const struct sl_onnx *onnx;
	struct sl_build *b;
	struct sl_onnx_value *value; /* by name */
	int n_value;
	const char **param; /* initializers that are parameters by now, in order of the graph's */
	int n_param;
	const Onnx__Node *node; /* that is being read */
	char name[SL_NAME_MAX]; /* what it is to be called */
};

struct sl_onnx_kind {
	const char *word;
	int least_in, most_in;
	const char *attr[8]; /* that are read; others are refused */
	void (*read)(struct sl_onnx_import *im);
};
const struct sl_onnx_kind *sl_onnx_find_kind(const char *word); /* NULL: there is none */
void sl_onnx_kinds(char *out, size_t cap);                      /* "Add, …" */

/* CONFIG: "node 'Conv_3' (Conv): " and the sentence. */
void sl_onnx_refuse(struct sl_onnx_import *im, const char *fmt, ...) SL_PRINTF(2, 3);
/* What input `i` of the node is; NULL: it is left out, or there was a failure. */
struct sl_onnx_value *sl_onnx_in(struct sl_onnx_import *im, size_t i);
/* Output 0 of the node is that value. */
void sl_onnx_out(struct sl_onnx_import *im, int value, bool permuted);
void sl_onnx_out_constant(struct sl_onnx_import *im, const Onnx__Tensor *t);
void sl_onnx_out_same(struct sl_onnx_import *im, const struct sl_onnx_value *as);

/* ---- attributes and inputs of the node that is being read (onnx_args.c). What is not so is refused; nothing is read
 * after a refusal. */

/* NULL: it has none of that name. */
const Onnx__Attribute *sl_onnx_attr(struct sl_onnx_import *im, const char *name, int type);
int64_t sl_onnx_attr_int(struct sl_onnx_import *im, const char *name, int64_t standard);
float sl_onnx_attr_float(struct sl_onnx_import *im, const char *name, float standard);
/* An attribute that has one value alone. */
void sl_onnx_must_be(struct sl_onnx_import *im, const char *name, int64_t standard, int64_t right);
/* `n` numbers that are all the same: that number. */
int sl_onnx_same_ints(struct sl_onnx_import *im, const char *name, size_t n, int standard, const char *why);
/* Input `i`, which a node computes: the graph's value; -1 after a refusal. ndim 0: any. */
int sl_onnx_data_in(struct sl_onnx_import *im, size_t i, int ndim, bool *permuted);
int sl_onnx_image_in(struct sl_onnx_import *im);
/* The same, and the border of zeros that it is to have. */
int sl_onnx_padded_in(struct sl_onnx_import *im, int *pad);
int64_t sl_onnx_last_of(const struct sl_onnx_import *im, int value);
/* Input `i` as the next parameter, of that many dimensions; NULL after a refusal. */
const Onnx__Tensor *sl_onnx_param_in(struct sl_onnx_import *im, size_t i, size_t n_dims);
/* The next node has the parameters that were read since there were `before` of them. */
void sl_onnx_use_params(struct sl_onnx_import *im, int before);
bool sl_onnx_vector_of(struct sl_onnx_import *im, const Onnx__Tensor *t, int64_t count);
/* A constant of one element; false: there is none, or no constant. */
bool sl_onnx_scalar_in(struct sl_onnx_import *im, size_t i, float *out);
/* Whole numbers of a constant, or of a part of a shape; -1: there are none, or too many. */
int sl_onnx_ints_in(struct sl_onnx_import *im, size_t i, int64_t out[SL_ONNX_INTS]);

/* ---- readers of kinds that change shapes (onnx_shapes.c) */
void sl_onnx_read_shape(struct sl_onnx_import *im);
void sl_onnx_read_gather(struct sl_onnx_import *im);
void sl_onnx_read_unsqueeze(struct sl_onnx_import *im);
void sl_onnx_read_concat(struct sl_onnx_import *im);
void sl_onnx_read_flatten(struct sl_onnx_import *im);
void sl_onnx_read_reshape(struct sl_onnx_import *im);

/* ---- names (onnx_names.c) */

/* What module a node belongs to, from the name that PyTorch gives it: "/layer1/layer1.0/relu_1/Relu" is of
 * "layer1.0.relu_1", and "Relu" is *last. False: the name is of another form, or too long. */
bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last);
/* Units of a network whose nodes are there, but for the loss: wherever one value crosses, a unit begins at a
 * convolution, a linear layer, or a batch norm that stands in front of one. */
void sl_onnx_units(struct sl_build *b);

#endif
