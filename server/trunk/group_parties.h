/* Vertical groups, only for the files group*.c: one party has the head, the other the tail. Each pass is of both. The
 * trunk's executor computes it, in tasks of the session of the party with labels. */
#ifndef SL_SERVER_TRUNK_GROUP_PARTIES_H
#define SL_SERVER_TRUNK_GROUP_PARTIES_H

#include "server/trunk/group_impl.h"

/* A member asks to join. MISMATCH: another one that is here has its role. */
enum sl_err sl_parties_fit(const struct sl_group *group, const struct sl_agreed *asked,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* A pass has begun, been abandoned, or come further at one party: tells both what they can do next. MISMATCH: their
 * passes are not the same. */
enum sl_err sl_parties_go_on(struct sl_group *group, struct sl_fail *fail) SL_MUST_CHECK;

#endif
