/* Vertical groups, only for the files group*.c: one party has the tail and the labels, each of the others an input and
 * its head. Each pass is of all. The trunk's executor computes it, in tasks of the session of the party with labels. */
#ifndef SL_SERVER_GROUP_GROUP_PARTIES_H
#define SL_SERVER_GROUP_GROUP_PARTIES_H

#include "server/group/group_impl.h"

/* A member asks to join. MISMATCH: another one that is here has its labels or input, or nobody would have labels. */
enum sl_err sl_parties_fit(const struct sl_group *group, const struct sl_agreed *asked,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* A pass has begun, been abandoned, or come further at one party: tells all what they can do next. MISMATCH: their
 * passes are not the same. */
enum sl_err sl_parties_go_on(struct sl_group *group, struct sl_fail *fail) SL_MUST_CHECK;

#endif
