/* Which member's turn each step of a group is, by the group's mode. Both sides compute it from what they agree on.
 * Steps count for the group: every member has all of them, and passes those that are not its own. Pure functions. */
#ifndef SL_SESSION_TURNS_H
#define SL_SESSION_TURNS_H

#include "common/conf/agreed.h"

struct sl_turns {
	enum sl_conf_share_mode mode;
	uint64_t seed, epoch_steps;
	int members;
	uint64_t count[SL_CONF_SHARE_CLIENTS]; /* by member: its steps in an epoch; sync needs none */
};

/* Whether the members' counts fit together: in serial they add up to an epoch, in rounds none is above it. */
bool sl_turns_fit(const struct sl_turns *t);
/* In serial: the member whose turn `step` is. An epoch has each member as often as its count says, in an order that
 * follows from seed and epoch. */
int sl_turns_whose(const struct sl_turns *t, uint64_t step);
/* Whether `step` is the member's own. In rounds a member trains until its own epoch is over, and passes the rest of the
 * longest one. */
bool sl_turns_own(const struct sl_turns *t, int member, uint64_t step);
/* How many of the first `step` steps are the member's own. In serial it takes time linear in the steps of one epoch. */
uint64_t sl_turns_before(const struct sl_turns *t, int member, uint64_t step);

#endif
