/* The roles of parameters by a config's patterns over their names: what is frozen, and what learns in which group. */
#ifndef SL_CLIENT_MODEL_ROLES_H
#define SL_CLIENT_MODEL_ROLES_H

#include "common/conf/conf.h"
#include "common/graph/cut.h"

/* Freezes the parameters that the globs (fnmatch) match, in all three parts. "kind:GLOB" matches the kind of the layer
 * (ops.def). Running statistics go on moving. CONFIG at train.freeze: a pattern matches nothing (the error text has the
 * nearest name), or no parameter is left that learns. */
enum sl_err sl_roles_freeze(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *globs,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Gives each parameter that learns the number, from 1 on, of the first group that matches it. CONFIG at train.groups:
 * there are too many groups, a pattern matches nothing, or a group gets no parameter. Call it after sl_roles_freeze. */
enum sl_err sl_roles_group(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *groups,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Whether anything in that part learns. */
bool sl_roles_learn(const struct sl_graph *part);

#endif
