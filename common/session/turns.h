/* Which steps of a group are which member's own, by its mode. Both sides compute this from what they agree on. Steps
 * count for the group: every member has them all, and passes those that are not its own. Pure. */
#ifndef SL_SESSION_TURNS_H
#define SL_SESSION_TURNS_H

#include "common/conf/agreed.h"

struct sl_turns {
	enum sl_conf_share_mode mode;
	uint64_t seed, epoch_steps;
	int members;
	uint64_t count[SL_CONF_SHARE_CLIENTS]; /* of an epoch's steps, by member; sync needs none */
};

/* Whether they fit together, as all members' say they do: in serial the counts make up an epoch, in rounds no count is
 * above it. */
bool sl_turns_fit(const struct sl_turns *t);
/* In serial: the member whose turn `step` is. An epoch holds each member as often as its count says, in an order that
 * follows from seed and epoch. */
int sl_turns_whose(const struct sl_turns *t, uint64_t step);
/* In rounds a member trains until its epoch is over, and passes the rest of the longest one. */
bool sl_turns_own(const struct sl_turns *t, int member, uint64_t step);
/* How many of the first `step` steps are the member's own. As long as the epoch that `step` is in. */
uint64_t sl_turns_before(const struct sl_turns *t, int member, uint64_t step);

#endif
