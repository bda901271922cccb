/* The learning rate of a step. Each member names one in its Commit, unless it skips the step. If more than half name
 * the same rate, that is the group's, and members with another one are refused. Without a majority nobody knows who is
 * wrong: no member is ended, and the smallest rate is taken, which does the least harm. COMMITTED says it to members
 * with another one, so that heads and tails learn by it, too. */
#include <inttypes.h>

#include "common/base/log.h"
#include "server/group/group_impl.h"

struct sl_group_lr sl_group_vote(const double *lr, int n)
{
	struct sl_group_lr out = {.lr = SL_GROUP_NO_LR, .most = true, .alike = true};
	int voters = 0, most = 0;

	for (int k = 0; k < n; k++)
		voters += lr[k] != SL_GROUP_NO_LR;
	for (int k = 0; k < n; k++) {
		int same = 0;

		if (lr[k] == SL_GROUP_NO_LR)
			continue;
		for (int i = 0; i < n; i++)
			same += lr[i] == lr[k];
		out.alike = out.alike && same == voters;
		if (same > most || (same == most && lr[k] < out.lr))
			out.lr = lr[k];
		most = same > most ? same : most;
	}
	out.most = 2 * most > voters;
	for (int k = 0; k < n && !out.most; k++)
		if (lr[k] != SL_GROUP_NO_LR && lr[k] < out.lr)
			out.lr = lr[k];
	return out;
}

void sl_group_say_lr(const struct sl_group *g, const struct sl_group_lr *vote)
{
	if (!vote->most)
		sl_log_limited(SL_LOG_WARN, "group-lr",
			       "group %s: the members differ in the learning rate of step %" PRIu64
			       ", and none has most of them: the smallest, %g, is taken. All members need the same "
			       "train.schedule and train.epochs",
			       g->name, g->t.step, vote->lr);
}

enum sl_err sl_group_other_lr(const struct sl_group *g, double lr, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_MISMATCH,
			   "the learning rate of step %" PRIu64
			   " is %g in group %s, this client's is %g: all members need the same train.schedule "
			   "and train.epochs",
			   g->t.step, g->lr, g->name, lr);
}
