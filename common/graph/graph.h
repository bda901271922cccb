/* A graph describes what a network computes, or one of the three segments into which a cut divides it. It lists inputs,
 * parameters and nodes in computing order; every node makes one value. Shapes are those of one row or one token. A
 * graph owns all of its memory and points to nothing outside. Once built it is immutable, so threads may share it.
 *
 * Values are numbered: inputs first, then one for each node, in order. Parameters stand in the order in which nodes
 * first use them. A segment numbers its values and parameters anew, but random streams keep the whole network's number.
 *
 * The functions sl_graph_add_* build a graph. They check everything that a peer's text could have wrong (sizes,
 * references, shapes, bounds), so the code that reads a text need only check its spelling. */
#ifndef SL_GRAPH_GRAPH_H
#define SL_GRAPH_GRAPH_H

#include "common/graph/decay.h"
#include "common/graph/op.h"

enum {
	SL_GRAPH_MOST_NODES = 8192,
	SL_GRAPH_MOST_PARAMS = 16384,
	SL_GRAPH_MOST_FIELDS = 16, /* of inputs, and of outputs */
};
/* MOST_ELEMENTS: of one parameter, and of one value of a row. MOST_TOTAL: of all parameters together, and of all values
 * of a row together. */
#define SL_GRAPH_MOST_ELEMENTS INT64_C(0x7fffffff)
#define SL_GRAPH_MOST_TOTAL    (INT64_C(1) << 40)

enum sl_lead { SL_PER_ROW, SL_PER_TOKEN, SL_PER_CHOSEN, SL_ONCE };

/* `lead` says what dimension 0 counts: a chunk's rows, tokens or chosen tokens. In `shape` it is 1. An SL_ONCE value
 * (the loss) has one element for any number of rows. */
struct sl_graph_value {
	enum sl_dtype dtype;
	enum sl_lead lead;
	struct sl_shape shape;
	int maker; /* index of the node that computes it; -1: an input */
};

enum sl_init_kind {
	SL_INIT_ZERO,
	SL_INIT_ONE,
	SL_INIT_EYE,     /* the identity: 1 where row = column of the matrix [all other dimensions, the last one] */
	SL_INIT_FILE,    /* values come from a weight file, which the client sends to the server */
	SL_INIT_NORMAL,  /* mean 0, standard deviation `scale` */
	SL_INIT_UNIFORM, /* in ± `scale` */
	SL_INIT_COUNT
};

/* TIED: a parameter of the tail that shares the head's memory. The head's parameter of the same name and stream has the
 * real role. */
enum sl_role { SL_LEARNS, SL_FROZEN, SL_STATISTIC, SL_TIED };

struct sl_init {
	enum sl_init_kind kind;
	float scale;
};

struct sl_param {
	char name[SL_NAME_MAX]; /* "features.0.0.weight" */
	struct sl_shape shape;  /* of the memory layout (op.h) */
	struct sl_init init;
	/* Its index in the whole network, in which inserts come last. It is the step in the rng's key for `init`, and
	 * the index in the client's lists. A text holds it if init is NORMAL or UNIFORM; else a reader leaves 0. */
	uint32_t stream;
	enum sl_role role;
	int group; /* the optimizer's parameter group: 0, or one of train.groups, counted from 1 */
	/* BF16 or F16: the parameter is FROZEN, its init is FILE, and memory holds it in these 16 bits, as the file
	 * does. F32: it is fp32 in memory. */
	enum sl_dtype held;
};

struct sl_node {
	enum sl_op_kind kind;
	char name[SL_NAME_MAX]; /* the module's path: "features.1.conv.0.0" */
	int in, n_in;           /* link[in … in + n_in - 1]: the values that it reads */
	int param, n_param;     /* link[param …]: its parameters */
	int out;                /* the value that it makes */
	uint16_t stream;        /* dropout's rng stream; for other ops, 0 if the graph was read from a text */
	int slices;             /* of a volume, if the op reads one as such (struct sl_op) */
	union sl_op_attr u;     /* attributes, and numbers derived from the shapes */
};

/* An input or an output. */
struct sl_field {
	char name[SL_NAME_MAX]; /* "image", "label", "head_act", "mid_act", "loss" */
	int value;
	int most;   /* tokens of a row at most; 1 if the value is not per token */
	bool still; /* an input of a middle with several: its gradient is not computed, and does not cross */
	/* decay.full > 0: the width of this value falls during training (decay.h). Its last dimension is `full`. The
	 * node next to it is a layer over that dimension alone, without bias, with a square matrix: linear, conv2d or
	 * convt2d. With decay.tokens > 0 the value is rows [full, tokens]. The node next to it is then a linear layer
	 * over the tokens; beyond it come a transpose and a linear layer over the features. */
	struct sl_decay decay;
};

struct sl_graph {
	struct sl_graph_value *value;
	struct sl_param *param;
	struct sl_node *node;
	struct sl_field *in, *out;
	int *link;
	int n_value, n_param, n_node, n_in, n_out, n_link;
	int most; /* tokens of a row at most, which random number counters use as row length; 0: nothing is per token */
	int cap_value, cap_param, cap_node, cap_in, cap_out, cap_link; /* allocated elements of the lists above */
	int64_t elements[2]; /* total elements so far: of all values of a row, of all parameters */
};

/* Allocates the lists of a graph in advance, for a caller that has counted; the add functions below enlarge them if
 * need be. LIMIT: beyond the bounds above. A zeroed graph is an empty one. */
struct sl_graph_room {
	int nodes, params, in, out, links;
};
enum sl_err sl_graph_reserve(struct sl_graph *g, const struct sl_graph_room *room, struct sl_fail *fail) SL_MUST_CHECK;
void sl_graph_close(struct sl_graph *g); /* idempotent; a zeroed graph is fine; the caller owns the struct itself */

/* All inputs are added before the first node. shape.dim[0] is 1. Errors of all four functions: CONFIG or LIMIT with a
 * sentence, or NOMEM; afterwards the graph may only be closed. */
enum sl_err sl_graph_add_input(struct sl_graph *g, const char *name, enum sl_dtype dtype, enum sl_lead lead,
			       struct sl_shape shape, int most, const struct sl_decay *decay /* NULL: none */,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* Checks name, shape, init, role and totals; sl_graph_check checks that names are unique. */
enum sl_err sl_graph_add_param(struct sl_graph *g, const struct sl_param *param, struct sl_fail *fail) SL_MUST_CHECK;
/* Reads kind, name, stream and the attributes of ops.def from `node`. in [node->n_in] and param [node->n_param] are
 * existing values and parameters. Derives the rest of the new node's attributes, and infers the shape of its value.
 * *out = that value; `out` may be NULL. */
enum sl_err sl_graph_add_node(struct sl_graph *g, const struct sl_node *node, const int *in, const int *param, int *out,
			      struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_graph_add_output(struct sl_graph *g, const char *name, int value, const struct sl_decay *decay,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Checks what only the whole graph shows. Parameter names are unique, every parameter is used, and they stand in order
 * of first use. Every value is read or is an output. Each decaying field has layers that can narrow. CONFIG names the
 * value, field or parameter. */
enum sl_err sl_graph_check(const struct sl_graph *g, struct sl_fail *fail) SL_MUST_CHECK;

/* Finds the nodes next to a decaying field whose layers narrow, beginning at the field. There is one; with
 * decay.tokens > 0 there are SL_NARROW_CHAIN: the layer over the tokens, the transpose, the layer over the features.
 * `out`: the field is an output. Returns how many; 0: no layer there can narrow. */
enum { SL_NARROW_TOKENS, SL_NARROW_TRANSPOSE, SL_NARROW_FEATURES, SL_NARROW_CHAIN };
int sl_graph_narrowing(const struct sl_graph *g, const struct sl_field *field, bool out, int node[SL_NARROW_CHAIN]);

/* The op of a node for one row, in the form that kernels get (op.h), with the graph's indices of values and parameters.
 * A loss' labels or targets are not among the op's inputs. */
struct sl_op sl_graph_op(const struct sl_graph *g, int node);
/* Whether a node mixes the tokens of a row: then all rows are padded to one length. */
bool sl_graph_takes_whole_rows(const struct sl_graph *g);
/* Initialises a parameter from the seed, in memory layout. The result does not depend on the cut: the rng's key is
 * (seed, step = the parameter's stream, stream SL_RNG_INIT). FILE gives 0. out [elements of the shape]. */
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
	const char *params; /* suffixes of parameter names, separated by one blank */
	int keeps;
};

struct sl_op_row sl_op_row(enum sl_op_kind kind); /* `kind` is below SL_OP_COUNT */
/* Attribute `index` of a kind, in the order of a graph's text; NULL behind the last. */
const struct sl_attr *sl_op_attr(enum sl_op_kind kind, int index);
/* A node of that kind with the standard value of every attribute. */
struct sl_node sl_node_of(enum sl_op_kind kind);
/* A node that computes what `from` does: its kind and all attributes, but no name, stream or links. Whoever copies a
 * node into another graph begins with this, so that no attribute is forgotten. */
struct sl_node sl_node_like(const struct sl_node *from);
/* Get and set an attribute as a number; `which` is 0 or 1 for the two numbers of a PAIR, else 0. sl_attr_set returns
 * false, and changes nothing, if the value is out of bounds, NaN, or not whole where it must be. */
double sl_attr_get(const struct sl_node *node, const struct sl_attr *attr, int which);
bool sl_attr_set(struct sl_node *node, const struct sl_attr *attr, int which, double value) SL_MUST_CHECK;
const char *sl_act_name(enum sl_act act); /* "none", "relu", "relu6" */

#endif
