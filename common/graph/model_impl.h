/* Interface between model.c, which holds a model under construction, and layers.c, which adds nodes to it. */
#ifndef SL_GRAPH_MODEL_IMPL_H
#define SL_GRAPH_MODEL_IMPL_H

#include "common/graph/model.h"

/* A node under construction. After a failure of the build, the functions below do nothing. */
struct sl_draft {
	struct sl_node node;
	int in[SL_OP_MAX_IN], param[SL_OP_MAX_PARAM];
};

/* A new parameter. Its name is the node's with `suffix`, unless sl_build.param_name gives another. */
struct sl_made_param {
	const char *suffix;
	struct sl_shape shape;
	struct sl_init init;
	enum sl_role role;
	struct sl_shape file; /* in weight files; ndim 0: `shape` */
	enum sl_param_layout layout;
	int64_t channels;
};

/* Begins a node whose first input is value `in`; the caller may append inputs and parameters to the draft. */
struct sl_draft sl_draft_begin(struct sl_build *b, enum sl_op_kind kind, const char *name, int in);
/* The same for a node that computes what `node` does (sl_node_like). */
struct sl_draft sl_draft_like(struct sl_build *b, const struct sl_node *node, const char *name, int in);
/* Adds a new parameter to the graph, to the model's lists and to the draft. */
void sl_draft_param(struct sl_build *b, struct sl_draft *d, const struct sl_made_param *made);
/* Adds the node to the graph. Returns the value that it makes; -1 after a failure. */
int sl_draft_finish(struct sl_build *b, struct sl_draft *d);
/* dst = name and suffix. If that is too long, fails the build with CONFIG and returns false. */
bool sl_build_name(struct sl_build *b, char dst[SL_NAME_MAX], const char *name, const char *suffix);

#endif
