/* The importer of ONNX files: its state, and what its readers share. A reader is a function that turns a node of one
 * kind in the file into nodes of our graph. */
#ifndef SL_CLIENT_MODEL_ONNX_IMPL_H
#define SL_CLIENT_MODEL_ONNX_IMPL_H

#include <string.h>

#include "client/model/onnx_file.h"

bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last); /* onnx_nodes.h */

/* ---- from nodes to a graph (onnx.c) */

/* The most known integers of a value, such as a shape; the largest size of a window, and the most channels. */
enum { SL_ONNX_INTS = 8, SL_ONNX_MOST = 1 << 20 };
/* Stand for sizes that the file leaves open. They are primes, so that a multiple of one shows where it comes from. */
enum { SL_ONNX_ANY_BATCH = 1000003, SL_ONNX_ANY_TOKENS = 10007 };

/* A view maps the axes of a value in the file to its layout in memory. Memory is a row-major array whose dimensions are
 * called atoms; atom 0 is the batch. An axis of the file is a list of atoms, the outermost first. So a Transpose only
 * reorders axes, and a Reshape only splits or regroups atoms: neither moves data. A reader that needs a certain order
 * of atoms asks for it (sl_onnx_arrange). */
enum { SL_ONNX_ATOMS = 8 };
struct sl_onnx_axis {
	int n, atom[SL_ONNX_ATOMS];
};
struct sl_onnx_view {
	int n_atom, n_axis;
	int64_t size[SL_ONNX_ATOMS]; /* of atoms, outermost first */
	struct sl_onnx_axis axis[SL_ONNX_ATOMS];
};

/* Attention scores, or their softmax. Our graph has no node for them: the queries q and the keys k, both [S, heads ·
 * D], wait here until the product with the attention's values is read. */
struct sl_onnx_scores {
	int q, k, heads, d; /* heads 0: the value is no scores */
	int64_t s, n_query; /* numbers of keys and of queries */
	int64_t first;  /* size of axis 0: the batch's, or a multiple where windows of each sample stand beside it */
	int n_axis;     /* axes in the file; with 3, batch and heads are one axis */
	float scale, p; /* p: of the dropout after softmax */
	bool causal, softmax;
};

/* A mask of attention scores. It has one number for each zone: for the keys before the query, for the query's own key,
 * and for the keys after it. A padding mask marks real tokens by 0 or by 1; which of these, only its use shows. So
 * masks are computed for both cases: at[0] is the mask if real tokens are 0, at[1] the mask if they are 1. Rows have no
 * padding here, so all their tokens are real. */
enum { SL_ONNX_BEFORE, SL_ONNX_OWN, SL_ONNX_BEHIND, SL_ONNX_ZONES };
struct sl_onnx_mask {
	float at[2][SL_ONNX_ZONES];
};

/* What the importer knows about one named value of the file. Images are [N,C,H,W] in the file and [N,H,W,C] here. */
struct sl_onnx_value {
	const char *name;
	int value;                    /* of our graph; -1: it is constant, or our graph has no node for it */
	const Onnx__Tensor *constant; /* an initializer, or a Constant node's tensor; NULL: none */
	struct sl_onnx_view view;
	/* A flattened image of several pixels: its elements are in [H,W,C] order here, in [C,H,W] order in the file. */
	bool permuted;
	bool transposed; /* the file transposes this constant, a matrix */
	bool weights;    /* it comes from a softmax of a computed value: products with it are no scores of attention */
	/* ints[n_ints]: the known integers of a value such as a shape; n_ints 0: none. dim[n_dim]: the dimensions of
	 * these, of another constant, or of a mask. */
	int n_ints, n_dim;
	int64_t ints[SL_ONNX_INTS], dim[SL_ONNX_INTS];
	unsigned open; /* bit i: ints[i] depends on an axis whose size the file leaves open */
	struct sl_onnx_scores scores;
	bool is_number; /* it is `number`, computed from constants */
	float number;
	bool is_mask; /* it is `mask`, of shape dim[n_dim] */
	struct sl_onnx_mask mask;
	bool is_places; /* it is the positions 0, 1 … of a row's tokens, of shape dim[n_dim] */
	/* A value: this is the mean of a row's tokens. It stands for their sum until the graph divides it by the number
	 * of tokens. A mask: this is that number. */
	bool summed;
	int maker;                /* index of the node that makes it; -1: none */
	bool needed;              /* the file's output depends on it */
	int n_readers, reader[2]; /* live nodes that read it: their number, and the last two of them */
	int pad;                  /* width of a border of zeros that the file adds: the node that reads it pads */
	bool known;               /* its maker has been read or refused, or it needs none */
	bool unread;              /* its maker was refused, or depends on an unread value: there is no value */
};

/* A module that the importer cannot read: the kind of a refused node, and the error text. */
enum { SL_ONNX_MOST_REFUSED = 64 };
struct sl_onnx_refused {
	char module[SL_NAME_MAX], kind[48], says[SL_FAIL_TEXT];
};

struct sl_onnx_import {
	const struct sl_onnx *onnx;
	struct sl_build *b;
	struct sl_onnx_value *value; /* by name */
	int n_value;
	const char **param; /* names of initializers that nodes have used as parameters, in order of use */
	int n_param, cap_param;
	const Onnx__Node *node;          /* the node that is being read */
	enum sl_op_kind op;              /* the op of its kind (onnx_nodes.h) */
	char name[SL_NAME_MAX];          /* its name in our graph */
	struct sl_onnx_refused *refused; /* [SL_ONNX_MOST_REFUSED] */
	int n_refused;                   /* modules that were refused, listed or not */
	int64_t batch;                   /* samples in the file's example, or SL_ONNX_ANY_BATCH */
	int64_t tokens;                  /* tokens in its rows, or SL_ONNX_ANY_TOKENS; 0: the input is no token ids */
	int64_t whole; /* tokens of every row, if these are an axis like others (onnx_views.h); else 0 */
	bool masked;   /* the network has a mask of padding */
	int32_t pad;   /* the token that rows are padded with; -1: not known yet */
	int world;     /* the padding mask marks real tokens by 0 or by 1; -1: not known yet */
	bool *done;    /* nodes that were read before: constants, and parts of other nodes */
	int index;     /* of the node that is being read */
	bool flat;     /* its image is a signal, [batch, channels, length] in the file */
	int end;       /* index of the node whose output it makes: of the last one that it joins */
};

/* ---- inputs, outputs and attributes of the node that is being read (onnx_args.c). These functions refuse what does
 * not fit, and read nothing after a refusal. */

/* Names the node after a parameter, without its last word. False: the parameter's name has one word, or is too long. */
bool sl_onnx_name_by(struct sl_onnx_import *im, const char *param);
/* Compares two values by name, the order of im->value; for qsort and bsearch. */
int sl_onnx_by_name(const void *a, const void *b);
/* The value of that name; NULL: the file has none. */
struct sl_onnx_value *sl_onnx_find(struct sl_onnx_import *im, const char *name);
/* The end of an error text about a misplaced axis: if the file's example has one sample, other axes of size 1 look like
 * the batch. */
#define SL_ONNX_OF_ONE(im) ((im)->batch == 1 ? "; its example is of 1 sample: export the network with 2" : "")
/* The build fails with CONFIG: "node 'Conv_3' (Conv): " and the text. */
void sl_onnx_refuse(struct sl_onnx_import *im, const char *fmt, ...) SL_PRINTF(2, 3);
/* The value of input `i`; NULL: it is left out, or the build has failed. Refuses a name that has no value yet. */
struct sl_onnx_value *sl_onnx_in(struct sl_onnx_import *im, size_t i);
/* Set output 0 of the node: to a value of our graph in its usual view, to a constant, or to a copy of `as`. */
void sl_onnx_out(struct sl_onnx_import *im, int value);
void sl_onnx_out_constant(struct sl_onnx_import *im, const Onnx__Tensor *t);
void sl_onnx_out_same(struct sl_onnx_import *im, const struct sl_onnx_value *as);
/* An attribute of that type (enum sl_onnx_attr); NULL: the node has none. `standard`: the value if it has none. */
const Onnx__Attribute *sl_onnx_attr(struct sl_onnx_import *im, const char *name, int type);
/* Whether an attribute's bytes are that word. */
static inline bool sl_onnx_is_word(ProtobufCBinaryData s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.data, word, s.len) == 0;
}
int64_t sl_onnx_attr_int(struct sl_onnx_import *im, const char *name, int64_t standard);
float sl_onnx_attr_float(struct sl_onnx_import *im, const char *name, float standard);
/* Refuses the node unless the attribute is `right`, the only value that is supported. */
void sl_onnx_must_be(struct sl_onnx_import *im, const char *name, int64_t standard, int64_t right);
/* Input `i`, which must be a computed value: its value in our graph; -1 after a refusal. ndim 4: it is arranged as an
 * image [H,W,C], a signal as an image of height 1 (im->flat); 2: as a row; 0: any value, as it is. */
int sl_onnx_data_in(struct sl_onnx_import *im, size_t i, int ndim);
int sl_onnx_image_in(struct sl_onnx_import *im);
/* The same for a reader that adds the zeros of sl_onnx_value.pad itself: *pad is the width of that border. */
int sl_onnx_padded_in(struct sl_onnx_import *im, int *pad);

/* The last dimension of a value of our graph. */
int64_t sl_onnx_last_of(const struct sl_onnx_import *im, int value);
/* Makes input `i`, an initializer of that many dimensions, the next parameter; NULL after a refusal. */
const Onnx__Tensor *sl_onnx_param_in(struct sl_onnx_import *im, size_t i, size_t n_dims);
/* Whether a tensor is an initializer that learns. The newer exporter lists constants among initializers, as "val_7". */
bool sl_onnx_learns(const struct sl_onnx_import *im, const Onnx__Tensor *t);
/* The same for the initializer behind a name; nodes may have added dimensions of size 1 to it. */
const Onnx__Tensor *sl_onnx_param_named(struct sl_onnx_import *im, const char *name);
/* The next node of our graph gets the names of the parameters that were made since im->n_param was `before`. */
void sl_onnx_use_params(struct sl_onnx_import *im, int before);
/* Whether dimension 0 of t is `count`; another size is refused. t NULL: false. */
bool sl_onnx_vector_of(struct sl_onnx_import *im, const Onnx__Tensor *t, int64_t count);
/* Input `i` as a constant of one element; false: it is something else, or it learns. */
bool sl_onnx_scalar_in(struct sl_onnx_import *im, size_t i, float *out);
/* The known integers of a value or of input `i`: of an INT64 constant, or computed from shapes. Returns their number;
 * -1: they are not known, or too many. */
int sl_onnx_ints_of(const struct sl_onnx_value *v, int64_t out[SL_ONNX_INTS]);
int sl_onnx_ints_in(struct sl_onnx_import *im, size_t i, int64_t out[SL_ONNX_INTS]);

#endif
