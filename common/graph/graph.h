/* A graph: what a network, or one of the three parts that a cut makes of it, computes. Inputs, parameters and nodes in
 * computing order; every node makes one value. Shapes are of one row or one token. A graph owns all of its memory and
 * points to nothing outside; it is plain data, immutable once built, and may then be shared between threads.
 *
 * Values are numbered: inputs first, then one for each node, in order. Parameters stand in the order in which nodes use
 * them first. A part of a network has its own numbers; streams of random numbers are those of the whole network.
 *
 * The functions sl_graph_add_* build one. They check everything that a peer's text could have wrong (sizes, references,
 * shapes, bounds), so that a reader needs no check of its own but of spelling. */
#ifndef SL_GRAPH_GRAPH_H
#define SL_GRAPH_GRAPH_H

#include "common/graph/decay.h"
#include "common/graph/op.h"

enum {
	SL_GRAPH_MOST_NODES = 8192,
	SL_GRAPH_MOST_PARAMS = 16384,
	SL_GRAPH_MOST_FIELDS = 16, /* inputs, and outputs */
};
/* Elements: of a parameter and of a row's value; of all parameters together, and of all values of a row. */
#define SL_GRAPH_MOST_ELEMENTS INT64_C(0x7fffffff)
#define SL_GRAPH_MOST_TOTAL    (INT64_C(1) << 40)

enum sl_lead { SL_PER_ROW, SL_PER_TOKEN, SL_PER_CHOSEN, SL_ONCE };

/* dim[0] of the shape is 1: it stands for the rows, tokens or chosen tokens of a chunk. A value SL_ONCE (the loss) has
 * one element for any number of rows. */
struct sl_graph_value {
	enum sl_dtype dtype;
	enum sl_lead lead;
	struct sl_shape shape;
	int maker; /* the node that makes it; -1: an input */
};

enum sl_init_kind {
	SL_INIT_ZERO,
	SL_INIT_ONE,
	SL_INIT_EYE,     /* 1 where row = column, of the matrix [the other dimensions, the last one] */
	SL_INIT_FILE,    /* whoever holds the file sends it */
	SL_INIT_NORMAL,  /* mean 0, standard deviation `scale` */
	SL_INIT_UNIFORM, /* in ± `scale` */
	SL_INIT_COUNT
};

/* TIED: of a tail, a parameter that is the head's, where one of this name and stream does what it says there. */
enum sl_role { SL_LEARNS, SL_FROZEN, SL_STATISTIC, SL_TIED };

struct sl_init {
	enum sl_init_kind kind;
	float scale;
};

struct sl_param {
	char name[SL_NAME_MAX]; /* "features.0.0.weight" */
	struct sl_shape shape;  /* in memory (op.h) */
	struct sl_init init;
	/* Its number in the whole network, where inserts come last: the rng's step of `init`, and its place in lists of
	 * the client. A text holds it where init is NORMAL or UNIFORM; elsewhere a reader leaves 0. */
	uint32_t stream;
	enum sl_role role;
	int group; /* of the optimizer: 0, or one of train.groups from 1 on */
	/* BF16 or F16: it is FROZEN, of init FILE, and held in these 16 bits, as a file gives it. F32: it is not held.
	 */
	enum sl_dtype held;
};

struct sl_node {
	enum sl_op_kind kind;
	char name[SL_NAME_MAX]; /* the module's path: "features.1.conv.0.0" */
	int in, n_in;           /* link[in …]: values */
	int param, n_param;     /* link[param …]: parameters */
	int out;                /* value */
	uint16_t stream;        /* rng stream of dropout; else 0 where the graph was read */
	union sl_op_attr u;     /* attributes, and what is derived from shapes */
};

/* What comes in or goes out. */
struct sl_field {
	char name[SL_NAME_MAX]; /* "image", "label", "head_act", "mid_act", "loss" */
	int value;
	int most; /* tokens of a row at most; 1 where the value is per row */
	/* What crosses here narrows (decay.h): the value's last dimension is `full`, and the node that touches it is a
	 * layer over that dimension alone, without bias, with a square matrix: linear, conv2d or convt2d. full 0: no.
	 * With a second pair the value is rows [full, tokens]. The node that touches it is a linear layer over the
	 * tokens, and behind a transpose there is one over the features. */
	struct sl_decay decay;
};

struct sl_graph {
	struct sl_graph_value *value;
	struct sl_param *param;
	struct sl_node *node;
	struct sl_field *in, *out;
	int *link;
	int n_value, n_param, n_node, n_in, n_out, n_link;
	int most; /* tokens of a row at most, by which random numbers are counted; 0: nothing is per token */
	int cap_value, cap_param, cap_node, cap_in, cap_out, cap_link; /* that memory is there for */
	int64_t elements[2];                                           /* of all values, of all parameters so far */
};

/* Room for so many; the add functions below make more where it does not suffice. A reader that has counted its lines
 * calls this once. LIMIT beyond the bounds above. A zeroed graph is an empty one. */
struct sl_graph_room {
	int nodes, params, in, out, links;
};
enum sl_err sl_graph_reserve(struct sl_graph *g, const struct sl_graph_room *room, struct sl_fail *fail) SL_MUST_CHECK;
void sl_graph_close(struct sl_graph *g); /* idempotent; a zeroed one is fine; the struct itself is the caller's */

/* All inputs come before the first node. shape.dim[0] is 1. CONFIG or LIMIT with a sentence; the graph may be closed
 * only, then. */
enum sl_err sl_graph_add_input(struct sl_graph *g, const char *name, enum sl_dtype dtype, enum sl_lead lead,
			       struct sl_shape shape, int most, const struct sl_decay *decay /* NULL: none */,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* Checks name, shape, init, role and totals. Names of parameters are unique, which sl_graph_check sees to. */
enum sl_err sl_graph_add_param(struct sl_graph *g, const struct sl_param *param, struct sl_fail *fail) SL_MUST_CHECK;
/* kind, name, stream and the attributes of ops.def are read from `node`; in [node->n_in] and param [node->n_param] are
 * values and parameters that are there. Derives the rest of node->u, infers the new value's shape: *out, may be NULL.
 */
enum sl_err sl_graph_add_node(struct sl_graph *g, const struct sl_node *node, const int *in, const int *param, int *out,
			      struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_graph_add_output(struct sl_graph *g, const char *name, int value, const struct sl_decay *decay,
				struct sl_fail *fail) SL_MUST_CHECK;
/* What can be said of the whole only: unique names of parameters, each used, first uses in order; every node but makers
 * of outputs has a reader; what decays fits. CONFIG names the node or parameter. */
enum sl_err sl_graph_check(const struct sl_graph *g, struct sl_fail *fail) SL_MUST_CHECK;

/* The nodes beside a field that decays, from the field on: one, or with a second pair SL_NARROW_CHAIN of them: the
 * layer over the tokens, the transpose, the layer over the features. Returns how many; 0: there is none that can
 * narrow. */
enum { SL_NARROW_TOKENS, SL_NARROW_TRANSPOSE, SL_NARROW_FEATURES, SL_NARROW_CHAIN };
int sl_graph_narrowing(const struct sl_graph *g, const struct sl_field *field, bool out, int node[SL_NARROW_CHAIN]);

/* The planned op of a node (op.h) for one row, as kernels will see it: values and parameters by the graph's numbers.
 * Inputs that only say what is right (the labels of xent) are no inputs of the op. */
struct sl_op sl_graph_op(const struct sl_graph *g, int node);
/* Seeded initialisation, in memory layout, the same on either side of any cut: rng key (seed, step = the parameter's
 * stream, stream SL_RNG_INIT). FILE gives 0. out [elements of the shape]. */
void sl_param_init(const struct sl_param *param, uint64_t seed, float *out);

/* ---- the table of ops.def */

enum sl_attr_type { SL_ATTR_INT, SL_ATTR_PAIR, SL_ATTR_REAL, SL_ATTR_FLAG, SL_ATTR_ACT, SL_ATTR_STREAM };

struct sl_attr {
	const char *key;
	enum sl_attr_type type;
	size_t offset; /* in struct sl_node */
	double least, most, standard;
};

struct sl_op_row {
	const char *word;
	int n_in, least_param, most_param;
	const char *params; /* suffixes, one blank between */
	int keeps;
};

struct sl_op_row sl_op_row(enum sl_op_kind kind); /* of any kind below SL_OP_COUNT */
/* Attribute `index` of a kind, in order of the text; NULL behind the last. */
const struct sl_attr *sl_op_attr(enum sl_op_kind kind, int index);
/* A node of that kind with the standard value of every attribute. */
struct sl_node sl_node_of(enum sl_op_kind kind);
/* An attribute as a number, and to set it: PAIR's two are `which` 0 and 1. _set refuses (false) what is out of bounds,
 * and NaN. */
double sl_attr_get(const struct sl_node *node, const struct sl_attr *attr, int which);
bool sl_attr_set(struct sl_node *node, const struct sl_attr *attr, int which, double value) SL_MUST_CHECK;
const char *sl_act_name(enum sl_act act); /* "none", "relu", "relu6" */

#endif
