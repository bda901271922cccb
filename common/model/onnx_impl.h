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

/* What a name stands for. Values of four dimensions are [N,C,H,W] in the file and [N,H,W,C] here. */
struct sl_onnx_value {
	const char *name;
	int value;                    /* of the graph; -1: it is constant, or no node of ours */
	const Onnx__Tensor *constant; /* an initializer, or a constant's tensor; NULL: none */
	/* A flattened image of several pixels: its numbers lie in another order than the file's. */
	bool permuted;
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

/* ---- names (onnx_names.c) */

/* What module a node belongs to, from the name that PyTorch gives it: "/layer1/layer1.0/relu_1/Relu" is of
 * "layer1.0.relu_1", and "Relu" is *last. False: the name is of another form, or too long. */
bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last);
/* Units of a network whose nodes are there, but for the loss: wherever one value crosses, a unit begins at a
 * convolution, a linear layer, or a batch norm that stands in front of one. */
void sl_onnx_units(struct sl_build *b);

#endif
