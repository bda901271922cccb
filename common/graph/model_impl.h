/* How layers.c adds a node to a model under construction, which model.c holds. */
#ifndef SL_GRAPH_MODEL_IMPL_H
#define SL_GRAPH_MODEL_IMPL_H

#include "common/graph/model.h"

/* A node under construction; nothing is done after a failure. */
struct sl_draft {
	struct sl_node node;
	int in[SL_OP_MAX_IN], param[SL_OP_MAX_PARAM];
};

/* What a parameter is, besides its name. `file`: [0] where weight files have the same shape. */
struct sl_made_param {
	const char *suffix;
	struct sl_shape shape;
	struct sl_init init;
	enum sl_role role;
	struct sl_shape file;
	enum sl_param_layout layout;
	int64_t channels;
};

/* A node that takes value `in`; more inputs and parameters may follow. */
struct sl_draft sl_draft_begin(struct sl_build *b, enum sl_op_kind kind, const char *name, int in);
/* A new parameter of the draft; in the model's list of parameters too. */
void sl_draft_param(struct sl_build *b, struct sl_draft *d, const struct sl_made_param *made);
/* The value that the node makes; -1 after a failure. */
int sl_draft_finish(struct sl_build *b, struct sl_draft *d);
/* dst = name and suffix. False, and the build has failed: too long. */
bool sl_build_name(struct sl_build *b, char dst[SL_NAME_MAX], const char *name, const char *suffix);

#endif
