/* The end of a group's run, and how members leave. A member that is done does not come back. If another one is killed
 * before its own last checkpoint is on its disk, the steps since cannot be done again without the first. So whoever
 * fetches the weights of its last step says that its state is on its disk. It hears the weights once all members have
 * said so whose run ends there. Members that are not awaited, or not in time for share.straggler_s, are not waited for.
 *
 * Every checkpoint says who may leave, and a group that goes on from there does not wait for them. It is on the disk
 * before such a member hears its last weights: so this holds whenever the server dies, and whether or not it has heard
 * a goodbye. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/group_impl.h"

/* ---- the loop's */

static void give(struct sl_group *g, int k)
{
	g->t.seat[k].asks = false;
	sl_port_event(g->member[k].m->port, &(struct sl_event){.kind = SL_EV_GIVE});
}

void sl_group_gone(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (g->part[k].m && g->part[k].m == g->member[k].m && g->t.seat[k].asks)
			give(g, k);
}

static void say_done(const struct sl_group *g, int who)
{
	int safe = 0;

	for (int k = g->first; k < g->end; k++)
		safe += g->t.seat[k].state == SL_SEAT_DONE && g->member[k].m;
	sl_log_limited(SL_LOG_INFO, "group-done", "group %s: member %d is done behind step %" PRIu64 ", %d of %d",
		       g->name, who, g->t.seat[who].number, safe, g->end - g->first);
}

bool sl_group_hear_ask(struct sl_group *g, struct sl_middle *m)
{
	const int k = sl_group_seat_of(m);

	if (g->member[k].m == m && !sl_group_varies(g) && sl_seat_is_at_end(&g->t.seat[k])) {
		sl_trunk_asks(&g->t, k);
		say_done(g, k);
		return true;
	}
	sl_port_event(m->port, &(struct sl_event){.kind = SL_EV_GIVE});
	return false;
}

bool sl_group_turns_fit(struct sl_group *g, struct sl_fail *why)
{
	char list[200] = "";
	int at = 0;

	if (sl_records_gone(&g->trunk.r) || g->some_gone || sl_turns_fit(&g->turns))
		return true;
	for (int k = 0; k < g->n && at < (int)sizeof list - 24; k++)
		at += snprintf(list + at, sizeof list - (size_t)at, "%s%" PRIu64, k ? ", " : "", g->turns.count[k]);
	(void)sl_fail_at(why, "share.batches", SL_ERR_MISMATCH,
			 "group %s: the members' batches do not make up an epoch of %" PRIu64
			 " steps: where their data are unequal, all need share.batches: [%s]",
			 g->name, g->turns.epoch_steps, list);
	return false;
}

/* ---- the worker's */

void sl_group_hear_left(struct sl_group *g)
{
	char left[SL_KEEP_LEFT];
	uint64_t at;

	if (!sl_keep_who_left(&g->trunk.keep, &at, left))
		return;
	sl_records_hear(&g->trunk.r, left, at);
	memcpy(g->trunk.keep.left, left, sizeof g->trunk.keep.left);
}

/* Nobody is inside a round: what the trunk and the seats hold is one state. */
bool sl_group_at_border(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->trunk.r.seat[k].number > g->trunk.r.done)
			return false;
	return true;
}

void sl_group_last(struct sl_group *g, struct sl_middle *m)
{
	const int k = sl_group_seat_of(m);
	const enum sl_seat_end how = m->stage == SL_MIDDLE_WELCOMED ? m->ended : SL_SEAT_LOST;
	struct sl_group_seat *seat = &g->seat[k];

	if (seat->m != m)
		return;
	SL_FAILPOINT(m->ended == SL_SEAT_LEFT ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_group_hold_codecs(seat))
		seat->kept = false;
	seat->m = NULL;
	if (sl_trunk_ended(&g->trunk, k, how) && sl_group_at_border(g))
		(void)sl_group_keep(g);
	SL_FAILPOINT(m->ended == SL_SEAT_LEFT ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}

void sl_group_run_let_go(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (g->part[k].m && g->part[k].m == g->seat[k].m)
			sl_record_let_go(&g->trunk.r, k);
	sl_group_keep_left(g);
	SL_FAILPOINT(SL_FP_SERVER_LET_GO);
}
