/* After a job was started again, members that were done do not come back. A rank whose members were all done would then
 * not know its group, without which the other ranks cannot go on. So each rank sends the Hello of its group's first
 * member to all. A rank without a group makes one from that, if its newest checkpoint says that all its members are
 * done, and takes part without members. On the loop, which has no member of a group to serve then. */
#include <string.h>

#include "common/base/log.h"
#include "common/session/agree.h"
#include "server/group/group_impl.h"

static bool all_done(struct sl_group_list *gs, const struct sl_agreed *a, const struct sl_plan *plan)
{
	const struct sl_ranks_span own = sl_ranks_span(gs->ranks, a->share.clients);
	char left[SL_KEEP_SEATS];
	uint8_t name[16];
	struct sl_keep keep;
	uint64_t step;

	sl_group_name(a->share.group, name);
	sl_keep_open(&keep, gs->store.dir, gs->store.retention, name, NULL, plan, gs->store.core);
	if (!sl_keep_read_seats(&keep, &step, left) || own.end > (int)strlen(left))
		return false;
	for (int k = own.first; k < own.end; k++)
		if (left[k] != SL_NOTE_FINISHED)
			return false;
	return true;
}

/* Takes over the plan. */
static enum sl_err take_part(struct sl_group_list *gs, const struct sl_agreement *agreement,
			     const struct sl_end_layout *ends, struct sl_plan *plan, struct sl_fail *fail)
{
	struct sl_group *g;
	enum sl_err err = sl_group_make(gs, &agreement->agreed, &g, fail);

	if (err) {
		sl_plan_close(plan);
		return err;
	}
	sl_group_take_plan(g, plan);
	err = plan->spec.shared_ends ? sl_group_ends_open(g, agreement, ends, gs->host_be, fail) : SL_OK;
	if (err) {
		sl_group_drop(g);
		return err;
	}
	sl_log(SL_LOG_INFO, "ranks", "group %s: all members of this rank are done, and other ranks train on", g->name);
	sl_group_attend(g);
	return SL_OK;
}

static enum sl_err look(struct sl_group_list *gs, struct sl_bytes text, struct sl_end_layout *ends,
			struct sl_fail *fail)
{
	struct sl_agreement agreement;
	struct sl_plan *plan;
	enum sl_err err = sl_agreement_hear(&agreement, &plan, text, fail);

	if (err)
		return err;
	if (plan->spec.shared_ends) {
		err = sl_agreement_ends(ends, text, fail);
		if (!err)
			err = sl_end_layout_settle(ends, &plan->spec, fail);
	}
	sl_plan_close(plan); /* the member's plan; the trunk has its own */
	if (!err)
		err = sl_agreement_trunk(&agreement, &plan, text, fail);
	if (err)
		return err;
	if (all_done(gs, &agreement.agreed, plan))
		return take_part(gs, &agreement, ends, plan, fail);
	sl_plan_close(plan);
	return SL_OK;
}

void sl_group_hear_intro(struct sl_group_list *gs, struct sl_bytes text)
{
	struct sl_end_layout ends = {0};
	struct sl_fail fail;

	if (gs->first) /* this rank knows its group */
		return;
	if (look(gs, text, &ends, &fail))
		sl_log_limited(SL_LOG_WARN, "ranks", "another rank tells of a group: %s", fail.text);
	sl_end_layout_close(&ends);
}
