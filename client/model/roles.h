/* What each parameter of a network is to do, as a config says it: patterns over names of parameters. */
#ifndef SL_CLIENT_MODEL_ROLES_H
#define SL_CLIENT_MODEL_ROLES_H

#include "common/conf/conf.h"
#include "common/graph/cut.h"

/* Freezes what the globs (fnmatch) match, in all three parts; "kind:GLOB" means the kind of the layer (ops.def);
 * running statistics go on moving. CONFIG, with the key train.freeze: a pattern matches nothing, which names the
 * nearest name; or nothing is left that learns. */
enum sl_err sl_roles_freeze(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *globs,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Gives what learns the number of the first group, from 1 on, that matches it. CONFIG, with the key train.groups: more
 * groups than can be, a pattern that matches nothing, a group to which nothing is left. Behind sl_roles_freeze. */
enum sl_err sl_roles_group(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *groups,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Whether anything in that part learns. */
bool sl_roles_learn(const struct sl_graph *part);

#endif
