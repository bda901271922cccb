/* The job REJOIN: where a member that comes while others train goes on from. On the worker. */
#include <inttypes.h>

#include "common/base/clock.h"
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

/* The newest step that the member holds, up to its last one in the log: it may hold later ones, of steps that were
 * given up or done without it. 0: none. */
static uint64_t newest_held(const struct sl_group *g)
{
	const struct sl_hello *h = g->trunk.r.seat[g->which].hello;
	const uint64_t last = sl_group_log_last(&g->log, g->which);
	uint64_t step = 0;

	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] <= last && h->held[i] > step)
			step = h->held[i];
	return step;
}

/* It does not hold the state before the group's step. So it gets the group's head and tail, or goes on with its own,
 * and its codecs begin anew. */
static void come_anew(struct sl_group *g, uint64_t held)
{
	const int k = g->which;
	struct sl_record *record = &g->trunk.r.seat[k];

	g->held = record->foreign ? 0 : held;
	if (g->ends && g->trunk.r.done && !sl_group_give(g, k)) {
		g->came = SL_COME_LATER;
		return;
	}
	g->gift = g->ends && g->trunk.r.done ? GIFT_WHOLE : GIFT_NONE;
	sl_group_forget_codecs(g, k);
	record->number = g->trunk.r.done;
	g->seat[k].made = g->gift ? g->gift_branch | SL_MADE_ANEW : g->trunk.r.done ? SL_MADE_UNKNOWN : 0;
	if (g->trunk.r.done && sl_group_log_return(&g->log, k, g->gift ? SL_GROUP_GIVEN : g->held))
		g->err = sl_fail_set(&g->fail, SL_ERR_NOMEM, "no memory for the log of group %s", g->name);
	reset_copy(g, true);
	g->seat[k].copied = true;
	sl_log_limited(SL_LOG_INFO, "group-joins", "group %s: member %d comes before step %" PRIu64 ", with %s",
		       g->name, k, g->trunk.r.done + 1,
		       g->gift ? "the group's head and tail" : "its own head and tail");
}

static bool begins_with_other_weights(struct sl_group *g)
{
	const struct sl_hello *h = g->trunk.r.seat[g->which].hello;

	if (g->trunk.r.done || memcmp(h->weights_hash, g->weights_hash, sizeof g->weights_hash) == 0)
		return false;
	g->err = sl_fail_at(&g->fail, "model.weights", SL_ERR_MISMATCH,
			    "member %d begins with other weights of the middle than the others of group %s", g->which,
			    g->name);
	return true;
}

/* The member holds the state before the step that it does next, and so does the server. */
static bool holds_state(const struct sl_group *g)
{
	const struct sl_record *record = &g->trunk.r.seat[g->which];

	return !record->foreign && record->number >= g->trunk.r.done && sl_hello_holds(record->hello, record->number) &&
	       (!record->number || !sl_group_own_moments(g) || g->seat[g->which].copied);
}

static void go_on(struct sl_group *g)
{
	const bool own = sl_group_own_moments(g) && g->seat[g->which].copied;

	give_codecs(g);
	if (!g->err && g->trunk.r.seat[g->which].number == g->trunk.r.done && !own)
		reset_copy(g, true); /* it may have been made just now */
	g->seat[g->which].copied = true;
}

/* It does not hold what the others do, and nobody can give it head and tail. Unless others have left since, who do not
 * repeat steps: then it goes on with its own, if it has not written its model. With private ones it needs a state that
 * the log knows: an older copy of the server's store knows none of its confirmed ones. */
static bool needs_its_files(const struct sl_group *g, uint64_t held)
{
	const struct sl_record *s = &g->trunk.r.seat[g->which];
	const bool was_done = g->t.own && s->state == SL_SEAT_DONE && !sl_hello_holds(s->hello, s->number);
	const bool unknown = !g->ends && g->trunk.r.done && !held && !sl_hello_holds(s->hello, 0);

	return was_done || unknown || (sl_group_needs_files(g) && (g->ends || !sl_records_left_at(&g->trunk.r)));
}

/* A member asks to begin anew, and others are here that have not. They may be gone already, and their links not yet
 * lost: it comes again until they do a step, or have had the time to be missed. */
static enum sl_err refuse_anew(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];
	const uint64_t now = sl_now_ms(), step = g->trunk.r.done;
	enum sl_err err = sl_group_check_anew(g, g->which, &g->fail);

	if (!err)
		return SL_OK;
	if (!seat->asked_ms || now - seat->asked_ms > 2 * SL_GROUP_COME_AGAIN_MS) {
		seat->asked_ms = now;
		seat->asked_at = step;
	}
	if (step == seat->asked_at && now - seat->asked_ms < SL_GROUP_COME_AGAIN_MS / 2)
		err = SL_ERR_BUSY;
	else
		seat->asked_ms = 0;
	return g->fail.code = err;
}

static void come(struct sl_group *g)
{
	struct sl_record *record = &g->trunk.r.seat[g->which];
	const struct sl_hello *h = record->hello;
	const uint64_t held = newest_held(g);

	g->held = record->number;
	if (sl_group_is_another_run(g, g->which, h)) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_BUSY,
				    "member %d of group %s begins another run, and others are still at this one: "
				    "come again once these are done",
				    g->which, g->name);
		return;
	}
	if (begins_with_other_weights(g))
		return;
	if (holds_state(g))
		go_on(g);
	else if (sl_trunk_needs_all(&g->t) && (!record->foreign || sl_hello_is_new(h)) &&
		 sl_records_can_go_back(&g->trunk.r, g->which))
		g->came = SL_COME_BACK;
	else if (g->trunk.r.done && refuse_anew(g))
		g->err = g->fail.code;
	else if (needs_its_files(g, held) && record->state != SL_SEAT_DONE && h->held[0] > g->trunk.r.done)
		g->err = sl_fail_set(&g->fail, SL_ERR_MISMATCH,
				     "member %d of group %s has the checkpoint of step %" PRIu64
				     ", and the newest one in the server's store is of step %" PRIu64
				     ": put the newer store back, or let all members begin anew with --fresh",
				     g->which, g->name, h->held[0], g->trunk.r.done);
	else if ((!g->trunk.r.done && !sl_hello_holds(h, 0)) || needs_its_files(g, held))
		g->err = sl_fail_at(
			&g->fail, "share.member", SL_ERR_MISMATCH,
			"member %d goes on from step %" PRIu64 ", and group %s %s", g->which, h->held[0], g->name,
			record->state == SL_SEAT_DONE ? "has done its run, and this member, too"
			: g->trunk.r.done
				? "has no checkpoint that it holds, too: let all members begin anew with --fresh"
				: "begins anew: this member can begin anew with --fresh");
	else
		come_anew(g, held);
	if (!g->err && g->came != SL_COME_LATER && g->came != SL_COME_BACK) {
		record->state = SL_SEAT_IN;
		record->ends_at = h->run_steps;
	}
}

void sl_group_run_return(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	g->came = SL_COME_HERE;
	g->trunk.r.fixed = g->left > g->trunk.r.fixed ? g->left : g->trunk.r.fixed;
	g->gift = GIFT_NONE;
	g->need_weights = !g->has_weights;
	g->err = seat->m ? sl_group_check_owner(g, g->which, &g->fail) : SL_OK;
	if (g->err || !seat->m) {
		seat->fresh = g->err;
		return;
	}
	g->trunk.r.seat[g->which].foreign = sl_group_is_foreign(g, g->which);
	come(g);
	seat->fresh = g->err || g->came == SL_COME_BACK || g->came == SL_COME_LATER;
	if (!seat->fresh)
		sl_group_note_owner(g, g->which);
}
