/* The job REJOIN: where a member that comes while others train goes on from. On the worker. */
#include <inttypes.h>

#include "common/base/log.h"
#include "server/group/group_work.h"

/* In rounds: makes the member's copy equal to the trunk again. */
static void reset_copy(struct sl_group *g, bool moments)
{
	if (sl_group_reset_copy(g, g->which, moments))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the copy of member %d could not be set", g->which);
}

static void give_codecs(struct sl_group *g)
{
	const struct sl_group_seat *seat = &g->seat[g->which];

	if (seat->kept && sl_codecs_state_give(&seat->codecs, sl_port_codecs(seat->m->port)))
		g->err = sl_fail_set(&g->fail, SL_ERR_DATA, "the state of member %d does not fit its codecs", g->which);
}

static void run_come(struct sl_group *g)
{
	const int k = g->which;
	const struct sl_record *record = &g->trunk.r.seat[k];
	uint64_t newest;

	g->came = sl_record_come(&g->trunk.r, k, &newest);
	if (g->came == SL_COME_BACK || sl_group_comes_later(g, k, newest))
		return;
	if (g->came == SL_COME_LOST) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "group %s waits for member %d, which lost its link, and this client begins anew: "
				    "--resume goes on with its log.dir; or take another number",
				    g->name, k);
	} else if (g->came == SL_COME_NOWHERE) {
		g->err =
			sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				   "member %d of group %s goes on from step %" PRIu64
				   ", which is not where the group knows it: --resume with its own log.dir, or --fresh",
				   k, g->name, record->hello->held[0]);
	} else if (g->came == SL_COME_ANEW) {
		if (record->state == SL_SEAT_IN)
			sl_log_limited(
				SL_LOG_WARN, "ends-behind",
				"group %s: member %d begins anew: it has kept nothing of the steps up to %" PRIu64
				", so nobody goes back",
				g->name, k, record->number);
		sl_group_begin_anew(g, k);
	} else if (g->came == SL_COME_BEHIND) {
		sl_group_go_on_behind(g, k, newest);
	} else {
		give_codecs(g);
	}
	if (g->err)
		return;
	sl_record_came(&g->trunk.r, k, SL_COME_HERE, 0);
	if (g->gift == GIFT_WHOLE) {
		sl_record_newcomer(&g->trunk.r.seat[k], sl_port_session(g->seat[g->giver].m->port)->gift_step);
		g->seat[k].made = g->branch;
	}
	/* In rounds: a member that is not inside the round under way begins it with the trunk's state. */
	if (record->number <= g->trunk.r.done)
		reset_copy(g, true);
}

/* All cannot go back, since steps were done without somebody: the member goes on with the state that it has. */
static void come_behind(struct sl_group *g, uint64_t newest)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	if (g->ends && !sl_group_ends_reach(g, newest)) {
		g->err = sl_fail_at(
			&g->fail, "share.member", SL_ERR_MISMATCH,
			"member %d goes on from step %" PRIu64 ", and group %s "
			"has not kept the means of heads and tails from there on. Members that may be away for "
			"long need a range in share.clients, such as %d..%d",
			g->which, newest, g->name, g->n > 2 ? g->n - 1 : 1, g->n);
		g->trunk.r.seat[g->which].state = SL_SEAT_AWAY;
		return;
	}
	if (!g->ends)
		sl_log_limited(SL_LOG_WARN, "ends-behind",
			       "group %s: member %d goes on with the head and tail of step %" PRIu64
			       ", which has done %" PRIu64 ": %s, so nobody goes back",
			       g->name, g->which, newest, g->trunk.r.seat[g->which].number,
			       newest >= g->trunk.r.late_at ? "all have gone back to that step for it time and again"
							    : "steps since were done without somebody");
	seat->made = SL_MADE_UNKNOWN;
	reset_copy(g, !sl_group_own_moments(g)); /* it may have done a step of the round under way */
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_forget(sl_port_codecs(seat->m->port)[dir]);
}

/* For groups whose members stay. The member goes on from its seat's step, or all go back. If steps were done without
 * somebody since, it goes on with the state that it has. */
static void run_rejoin(struct sl_group *g)
{
	const struct sl_record *record = &g->trunk.r.seat[g->which];
	const bool was_done = record->state == SL_SEAT_DONE;
	uint64_t newest;

	g->came = sl_record_come(&g->trunk.r, g->which, &newest);
	if (g->came == SL_COME_LOST)
		g->err = sl_fail_at(
			&g->fail, "share.member", SL_ERR_MISMATCH,
			"group %s trains already, and member %d begins anew: --resume goes on with its log.dir",
			g->name, g->which);
	else if (g->came == SL_COME_NOWHERE && was_done)
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH, SL_GROUP_LEFT_BEHIND, g->name,
				    record->number, g->ends ? ": their model is its model, too" : "");
	else if (g->came == SL_COME_NOWHERE)
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "member %d goes on from step %" PRIu64 ", and group %s "
				    "has no checkpoint of a step that this member and the others hold",
				    g->which, newest ? newest : record->hello->held[0], g->name);
	else if (g->came == SL_COME_HERE && was_done)
		reset_copy(g, true);
	else if (g->came == SL_COME_BEHIND)
		come_behind(g, newest);
	if (!g->err && g->came == SL_COME_HERE)
		give_codecs(g);
	if (!g->err)
		sl_record_came(&g->trunk.r, g->which, g->came, newest);
}

void sl_group_run_return(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];
	bool back;

	g->came = SL_COME_HERE;
	g->gift = GIFT_NONE;
	g->need_weights = !g->has_weights;
	g->err = seat->m ? sl_group_check_owner(g, g->which, &g->fail) : SL_OK;
	if (g->err || !seat->m) {
		seat->fresh = g->err;
		return;
	}
	g->trunk.r.seat[g->which].foreign = sl_group_is_foreign(g, g->which);
	sl_group_list_stored(g);
	if (sl_group_varies(g))
		run_come(g);
	else
		run_rejoin(g);
	back = g->came == SL_COME_BACK || g->came == SL_COME_LONGER || g->came == SL_COME_LATER;
	seat->fresh = g->err || back;
	if (!seat->fresh)
		sl_group_note_owner(g, g->which);
}
