/* What a group hears of other ranks (group_letters.c). On the loop. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/link/loop.h"
#include "common/session/agree.h"
#include "server/group/group_impl.h"

static void hear_seat(struct sl_group_list *gs, const struct sl_ranks_letter *l)
{
	const struct sl_group_told *told = l->data;

	if (told->key)
		gs->heard_of[told->k] = *told;
	gs->done[l->from] = told->acts;
}

/* The rank may have dropped its group, or never had it. */
static void hear_act(struct sl_group_list *gs, const struct sl_ranks_letter *l)
{
	struct sl_group_told none = {0};

	memcpy(&gs->act, l->data, sizeof gs->act);
	gs->told = gs->first && gs->act.key == gs->first->key;
	if (gs->told)
		return;
	sl_group_decline(gs->ranks, (enum sl_trunk_act)gs->act.act);
	none.acts = gs->acts = gs->act.count;
	gs->ranks->send(gs->ranks, LETTER_SEAT, &none, sizeof none);
}

static void hear_back(struct sl_group_list *gs, const struct sl_ranks_letter *l)
{
	const struct sl_group_back *letter = l->data;
	struct sl_group *g = gs->first;
	struct sl_fail why;

	if (!g || !g->t.open || letter->key != g->key || letter->branch != g->branch)
		return;
	(void)!sl_fail_set(&why, SL_ERR_BUSY, "%s", letter->why);
	sl_group_go_back(g, &why);
}

/* ---- a group of other ranks
 *
 * After a job was started again, members that were done do not come back. A rank whose members were all done would then
 * not know its group, without which the other ranks cannot go on. So each rank sends the Hello of its group's first
 * member to all. A rank without a group makes one from that, if its newest checkpoint says that all its members are
 * done, and takes part without members. */

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

static void hear_intro(struct sl_group_list *gs, const struct sl_ranks_letter *l)
{
	struct sl_end_layout ends = {0};
	struct sl_fail fail;

	if (gs->first) /* this rank knows its group */
		return;
	if (look(gs, (struct sl_bytes){l->data, l->bytes}, &ends, &fail))
		sl_log_limited(SL_LOG_WARN, "ranks", "another rank tells of a group: %s", fail.text);
	sl_end_layout_close(&ends);
}

static void hear_ranks(void *arg)
{
	static void (*const hear[])(struct sl_group_list *, const struct sl_ranks_letter *) = {
		[LETTER_SEAT] = hear_seat,
		[LETTER_ACT] = hear_act,
		[LETTER_BACK] = hear_back,
		[LETTER_INTRO] = hear_intro,
	};
	struct sl_group_list *gs = arg;
	struct sl_ranks_letter l;
	bool any = false;

	while (gs->ranks->receive(gs->ranks, &l)) {
		hear[l.kind](gs, &l);
		free(l.data);
		any = true;
	}
	if (any && gs->first)
		sl_group_advance(gs->first);
}

enum sl_err sl_group_list_ranks(struct sl_group_list *gs, const struct sl_ranks *ranks, struct sl_backend *be,
				struct sl_backend *host_be)
{
	struct sl_fail fail;

	gs->ranks = ranks;
	gs->be = be;
	gs->host_be = host_be;
	if (!ranks)
		return SL_OK;
	gs->done = calloc((size_t)ranks->count, sizeof *gs->done);
	gs->heard_of = calloc(SL_CONF_SHARE_CLIENTS, sizeof *gs->heard_of);
	if (!gs->done || !gs->heard_of || sl_timer_open(&gs->timer, gs->loop, hear_ranks, gs, &fail))
		return SL_ERR_NOMEM;
	sl_timer_start(gs->timer, SL_GROUP_HEARS_MS, SL_GROUP_HEARS_MS);
	return SL_OK;
}
