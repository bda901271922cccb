/* How nodes of an ONNX file become a graph: what the readers of nodes share. */
#ifndef SL_CLIENT_MODEL_ONNX_IMPL_H
#define SL_CLIENT_MODEL_ONNX_IMPL_H

#include "client/model/onnx_file.h"

bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last); /* onnx_nodes.h */

/* ---- from nodes to a graph (onnx.c) */

enum { SL_ONNX_INTS = 8, SL_ONNX_MOST = 1 << 20 }; /* numbers of a shape; of a window, and of channels */
/* Of a file that says none: prime numbers. */
enum { SL_ONNX_ANY_BATCH = 1000003, SL_ONNX_ANY_TOKENS = 10007 };

/* How the axes of the file lie in memory. Memory is a list of atoms, the batch's first; an axis of the file is some of
 * them, the outermost first. So a transpose reorders axes, and a reshape parts or joins their atoms: neither moves a
 * number. What reads a value asks for an order of atoms (sl_onnx_arrange). */
enum { SL_ONNX_ATOMS = 8 };
struct sl_onnx_axis {
	int n, atom[SL_ONNX_ATOMS];
};
struct sl_onnx_view {
	int n_atom, n_axis;
	int64_t size[SL_ONNX_ATOMS]; /* of atoms, in the order of memory */
	struct sl_onnx_axis axis[SL_ONNX_ATOMS];
};

/* Scores of attention, or what softmax makes of them: products of queries and keys, which are [S, heads · D] both. */
struct sl_onnx_scores {
	int q, k, heads, d; /* heads 0: it is none */
	int64_t s, n_query; /* keys and queries */
	int n_axis;         /* of the file's: with 3, batch and heads are one */
	float scale, p;
	bool causal, softmax;
};

/* A mask of scores of attention, as far as it is known: one number for keys before the query, one for the query's own
 * key and one for keys behind it. There are two masks: the mask that comes with token ids says 0 of real tokens in the
 * first, and 1 in the second. Rows have no padding here, so this holds for every token of a row. */
enum { SL_ONNX_BEFORE, SL_ONNX_OWN, SL_ONNX_BEHIND, SL_ONNX_ZONES };
struct sl_onnx_mask {
	float at[2][SL_ONNX_ZONES];
};

/* What a name stands for. Images are [N,C,H,W] in the file and [N,H,W,C] here. */
struct sl_onnx_value {
	const char *name;
	int value;                    /* of the graph; -1: it is constant, or no node of ours */
	const Onnx__Tensor *constant; /* an initializer, or a constant's tensor; NULL: none */
	struct sl_onnx_view view;
	/* A flattened image of several pixels: its numbers lie in another order than the file's. */
	bool permuted;
	bool transposed; /* of a constant matrix */
	/* Of whole numbers that are known, such as a shape, n_ints are there, in n_dim dimensions; 0: none. Of another
	 * constant dims are known. */
	int n_ints, n_dim;
	int64_t ints[SL_ONNX_INTS], dim[SL_ONNX_INTS];
	unsigned open; /* of ints, a bit for each that depends on an axis whose size the file leaves open */
	struct sl_onnx_scores scores;
	bool is_number; /* computed of constants: */
	float number;
	bool is_mask; /* of n_dim and dim: */
	struct sl_onnx_mask mask;
	bool is_places; /* 0, 1 … of a row's tokens, of n_dim and dim */
	/* Of tokens: a mean that stands for a sum, until it is divided by their number. Of a mask: that number. */
	bool summed;
	int maker; /* the node; -1: none */
	bool needed;
	int n_readers, reader[2]; /* live nodes, of which the first two are known */
	int pad;                  /* zeros around an image that its reader is to add; the graph's value has none */
	bool known;               /* its maker has been read, or refused: */
	bool unread;              /* there is no value */
};

/* A module of which a node is not read. */
enum { SL_ONNX_MOST_REFUSED = 64 };
struct sl_onnx_refused {
	char module[SL_NAME_MAX], kind[48], says[SL_FAIL_TEXT];
};

struct sl_onnx_import {
	const struct sl_onnx *onnx;
	struct sl_build *b;
	struct sl_onnx_value *value; /* by name */
	int n_value;
	const char **param; /* initializers that are parameters by now, in order of the graph's */
	int n_param;
	const Onnx__Node *node;          /* that is being read */
	enum sl_op_kind op;              /* of its kind (onnx_nodes.h) */
	char name[SL_NAME_MAX];          /* what it is to be called */
	struct sl_onnx_refused *refused; /* [SL_ONNX_MOST_REFUSED] */
	int n_refused;                   /* all of them, listed or not */
	int64_t batch;                   /* of the file's example */
	int64_t tokens;                  /* of its rows; 0: the input is not token ids */
	int world;                       /* what the mask of tokens says of real ones; -1: nothing has shown it yet */
	bool *done;                      /* nodes that were read as a part of others */
	int index;                       /* of the node that is being read */
	bool flat;                       /* its image is a signal, [batch, channels, length] in the file */
	int end;                         /* of the node whose output it makes */
};

/* ---- values, attributes and inputs of the node that is being read (onnx_args.c). What does not fit is refused;
 * nothing is read after a refusal. */

/* The node is called as the parameter is, without its last word; false: that has one word, or is too long. */
bool sl_onnx_name_by(struct sl_onnx_import *im, const char *param);
/* Order of im->value. */
int sl_onnx_by_name(const void *a, const void *b);
/* What a name stands for; NULL: the file has no such name. */
struct sl_onnx_value *sl_onnx_find(struct sl_onnx_import *im, const char *name);
/* What a refusal for the place of an axis says besides: in an example of one sample other axes of 1 look like the
 * batch. */
#define SL_ONNX_OF_ONE(im) ((im)->batch == 1 ? "; its example is of 1 sample: export the network with 2" : "")
/* CONFIG: "node 'Conv_3' (Conv): " and the sentence. */
void sl_onnx_refuse(struct sl_onnx_import *im, const char *fmt, ...) SL_PRINTF(2, 3);
/* What input `i` of the node is; NULL: it is left out, or there was a failure. */
struct sl_onnx_value *sl_onnx_in(struct sl_onnx_import *im, size_t i);
/* Output 0 of the node is that value. */
void sl_onnx_out(struct sl_onnx_import *im, int value);
void sl_onnx_out_constant(struct sl_onnx_import *im, const Onnx__Tensor *t);
void sl_onnx_out_same(struct sl_onnx_import *im, const struct sl_onnx_value *as);
/* NULL: it has none of that name. */
const Onnx__Attribute *sl_onnx_attr(struct sl_onnx_import *im, const char *name, int type);
int64_t sl_onnx_attr_int(struct sl_onnx_import *im, const char *name, int64_t standard);
float sl_onnx_attr_float(struct sl_onnx_import *im, const char *name, float standard);
/* An attribute that has one value alone. */
void sl_onnx_must_be(struct sl_onnx_import *im, const char *name, int64_t standard, int64_t right);
/* Input `i`, which a node computes: the graph's value; -1 after a refusal. ndim 0: any. */
int sl_onnx_data_in(struct sl_onnx_import *im, size_t i, int ndim);
int sl_onnx_image_in(struct sl_onnx_import *im);
/* The same, and the border of zeros that it is to have. */
int sl_onnx_padded_in(struct sl_onnx_import *im, int *pad);

int64_t sl_onnx_last_of(const struct sl_onnx_import *im, int value);
/* Input `i` as the next parameter, of that many dimensions; NULL after a refusal. */
const Onnx__Tensor *sl_onnx_param_in(struct sl_onnx_import *im, size_t i, size_t n_dims);
/* Whether a tensor is an initializer that learns. The newer exporter has constants among them, as val_7. */
bool sl_onnx_learns(const struct sl_onnx_import *im, const Onnx__Tensor *t);
/* The one that a name stands for, which may have more dimensions of size 1 by now. */
const Onnx__Tensor *sl_onnx_param_named(struct sl_onnx_import *im, const char *name);
/* The next node has the parameters that were read since there were `before` of them. */
void sl_onnx_use_params(struct sl_onnx_import *im, int before);
bool sl_onnx_vector_of(struct sl_onnx_import *im, const Onnx__Tensor *t, int64_t count);
/* A constant of one element; false: there is none, or one that learns. */
bool sl_onnx_scalar_in(struct sl_onnx_import *im, size_t i, float *out);
/* Whole numbers of a constant, or of a part of a shape; -1: there are none, or too many. */
int sl_onnx_ints_of(const struct sl_onnx_value *v, int64_t out[SL_ONNX_INTS]);
int sl_onnx_ints_in(struct sl_onnx_import *im, size_t i, int64_t out[SL_ONNX_INTS]);

#endif
