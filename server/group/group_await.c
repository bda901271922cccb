/* Whom a group's step waits for, who comes and goes, and who may leave. On the loop. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group/group_impl.h"

static bool is_elsewhere(const struct sl_group *g, int k)
{
	const struct sl_middle *m = g->t.seat[k].link == SL_LINK_OPEN ? g->member[k].m : NULL;
	const enum sl_session_state s = m ? sl_port_session(m->port)->state : SL_SESSION_CLOSED;

	return s == SL_SESSION_EVAL || s == SL_SESSION_FETCH;
}

/* ---- how long a step waits for a member
 *
 * Unless each step needs all, a group waits for a member as long as that member's usual steps predict
 * (share.patience_s). Time counts from when the group could do the step without it. A member that is late again and
 * again has a credit: its patience at most, less what the group has waited for it, and more by a tenth of the time that
 * passes while it has a link. So it delays a run by a tenth at most. The group does not begin to wait where the credit
 * is less than what the member's usual step still takes: it would wait in vain, and the credit would never be enough.
 * In a round the time counts anew with each of the member's steps. */

/* While members gather, after a restart of the server: their back-off is at most 32 s. */
enum { USUAL_STEPS = 10, PATIENCE_LEAST_MS = 10000, GATHERS_MS = 40000, REFILL = 10 };

static int64_t member_patience_ms(const struct sl_group *g, int k)
{
	const uint64_t usual = USUAL_STEPS * g->member[k].usual_ms;

	if (g->agreed.share.patience_s)
		return (int64_t)g->agreed.share.patience_s * 1000;
	return (int64_t)(usual > PATIENCE_LEAST_MS ? usual : PATIENCE_LEAST_MS);
}

static uint64_t now_ms(const struct sl_group *g)
{
	return sl_loop_now_ms(g->groups->loop);
}

/* Begins, ends or reads the clock of member k. */
static void look_at_clock(struct sl_group *g, int k, enum sl_trunk_patience what)
{
	struct sl_group_member *p = &g->member[k];

	if (!sl_trunk_waits_for(&g->t, k, what)) {
		p->waits_ms = 0;
		g->t.seat[k].tired = g->t.seat[k].tired && !g->t.open && g->t.seat[k].link == SL_LINK_NONE;
		return;
	}
	if (!p->waits_ms && (int64_t)p->usual_ms - (int64_t)(now_ms(g) - p->began_ms) > p->credit_ms) {
		g->t.seat[k].tired = true;
		return;
	}
	p->waits_ms = p->waits_ms ? p->waits_ms : now_ms(g);
	g->t.seat[k].tired = (int64_t)(now_ms(g) - p->waits_ms) >= p->credit_ms;
}

void sl_group_clock_welcomed(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const int64_t one = member_patience_ms(g, k) / USUAL_STEPS;

	p->began_ms = now_ms(g);
	p->waits_ms = 0;
	if (!p->usual_ms)
		p->credit_ms = USUAL_STEPS * one;
	p->credit_ms = p->credit_ms > one ? p->credit_ms : one; /* else it would never be in time again */
}

void sl_group_clock_ready(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const uint64_t took = now_ms(g) - p->began_ms;

	p->usual_ms = p->usual_ms ? (7 * p->usual_ms + took) / 8 : took;
}

/* Its step is over: the group has waited for it for so long. */
static void end_step(struct sl_group *g, int k, int64_t waited)
{
	struct sl_group_member *p = &g->member[k];
	const int64_t most = member_patience_ms(g, k);

	p->credit_ms -= waited;
	if (g->t.seat[k].link != SL_LINK_NONE) /* one that is away is awaited once */
		p->credit_ms += (int64_t)(now_ms(g) - p->began_ms) / REFILL;
	p->credit_ms = p->credit_ms < 0 ? 0 : p->credit_ms > most ? most : p->credit_ms;
	p->began_ms = now_ms(g);
	g->t.seat[k].tired = false;
}

void sl_group_clock_stepped(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];

	end_step(g, k, p->waits_ms ? (int64_t)(now_ms(g) - p->waits_ms) : 0);
	p->waits_ms = 0;
}

void sl_group_clock_moved(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];

	sl_group_clock_ready(g, k);
	end_step(g, k, 0); /* a site with more batches than the others is not slow */
	p->waits_ms = p->waits_ms ? now_ms(g) : 0;
}

/* Members that are here, if these are fewer than share.quorum and one of them has steps to do; else -1. */
static int too_few(const struct sl_group *g)
{
	bool waits = false;
	int here = 0;

	for (int k = 0; k < g->n && g->t.open && !sl_trunk_needs_all(&g->t); k++) {
		const struct sl_seat *s = &g->t.seat[k];

		if (s->link == SL_LINK_NONE || s->state == SL_SEAT_DONE)
			continue;
		here++;
		waits = waits || !s->ends_at || g->t.step < s->ends_at;
	}
	return waits && here < sl_trunk_least(&g->t) ? here : -1;
}

/* For how long a member with a link has done nothing for what the others wait for: its part of the step, or its head
 * and tail. */
static uint64_t idle_ms(const struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];
	const struct sl_seat *s = &g->t.seat[k];
	uint64_t since = p->asked_ms;

	if (!g->t.open || !p->m || s->link != SL_LINK_OPEN)
		return 0;
	if (p->answer != ANSWER_AWAITED) {
		if (s->state != SL_SEAT_IN || s->asks || sl_seat_is_ready(&g->t, k) || sl_seat_is_at_end(s))
			return 0;
		since = p->began_ms > p->m->worked_ms ? p->began_ms : p->m->worked_ms;
	}
	return now_ms(g) - since;
}

/* Whether a member waits for the others. In a vertical group each waits for the others in its pass. */
static bool some_wait(const struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		if (s->link == SL_LINK_ASKING ||
		    (s->link == SL_LINK_OPEN && (s->asks || g->t.whole || sl_seat_is_ready(&g->t, k))))
			return true;
	}
	return false;
}

/* Finds the members that have a link, and for which others wait longer than a step is slow. The longest time. */
static uint64_t look_for_idle(struct sl_group *g)
{
	const uint64_t bound_ms = (uint64_t)g->agreed.share.wait_s * 1000;
	const bool waits = some_wait(g);
	uint64_t longest = 0;

	for (int k = g->first; k < g->end; k++) {
		struct sl_group_member *p = &g->member[k];
		const uint64_t idle = waits ? idle_ms(g, k) : 0;
		/* where its patience runs, the group goes on without it */
		uint64_t slow = p->waits_ms ? UINT64_MAX : (uint64_t)member_patience_ms(g, k);

		slow = bound_ms && bound_ms < slow ? bound_ms : slow;
		if (idle < slow)
			p->idle_s = 0;
		else if (!p->idle_s)
			p->idle_s = sl_wall_s() - (int64_t)(idle / 1000);
		longest = p->idle_s && idle > longest ? idle : longest;
	}
	return longest;
}

/* Whether the others wait for the member, or would. */
static bool is_missed(const struct sl_group *g, int k)
{
	if (sl_trunk_begins_anew(&g->t))
		return g->t.seat[k].link == SL_LINK_NONE;
	return g->t.seat[k].state == SL_SEAT_IN ||
	       (g->t.seat[k].state != SL_SEAT_DONE &&
		(too_few(g) >= 0 || (g->t.seat[k].state == SL_SEAT_NEVER && !g->t.open))) ||
	       sl_trunk_owes(&g->t, k);
}

/* Of a member that was here, and was not refused since; or is here, and idle. */
static const char *since(const struct sl_group *g, int k, char out[48])
{
	const struct sl_group_member *p = &g->member[k];
	const time_t from = (time_t)(p->idle_s ? p->idle_s : p->away_s);
	struct tm tm;

	out[0] = '\0';
	if (from && (p->idle_s || !sl_group_was_refused(g, k)[0]))
		strftime(out, 48, p->idle_s ? " (here, idle since %Y-%m-%d %H:%M UTC)" : " (since %Y-%m-%d %H:%M UTC)",
			 gmtime_r(&from, &tm));
	return out;
}

/* A member without a link, awaited or not, that has steps to do. */
static bool is_away(const struct sl_group *g, int k)
{
	return g->t.open && !g->member[k].m && g->t.seat[k].state != SL_SEAT_DONE && !sl_group_is_off(g, k);
}

/* Lists the awaited members of this rank that have no link, or are idle, with commas, and why one was refused; `all`:
 * those that nobody waits for, too. SL_ERR_MISMATCH: one was refused, and will not come again with the same settings.
 * SL_ERR_TIMEOUT: one is away. SL_ERR_UNAVAILABLE: each is here, and so has not done its last step. */
static enum sl_err list_missing(const struct sl_group *g, bool all, char *out, size_t size)
{
	enum { MORE = 16 }; /* " and 1234 more" */
	bool refused = false, away = false;
	size_t at = 0;
	int more = 0;

	out[0] = '\0';
	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_member *p = &g->member[k];
		const char *why = sl_group_was_refused(g, k);
		const bool was_refused = why[0] != '\0';
		const bool is_done = g->t.seat[k].state == SL_SEAT_DONE && !g->t.open;
		char text[48];
		int n;

		if (!p->idle_s && (p->m || (!was_refused && !is_missed(g, k) && !is_done && !(all && is_away(g, k)))))
			continue;
		refused = refused || was_refused;
		away = away || !p->idle_s;
		n = snprintf(out + at, size - at, "%s%d%s%s%s%s", at ? ", " : "", k, was_refused ? " (refused: " : "",
			     why, was_refused ? ")" : "", since(g, k, text));
		if (!more && (at + (size_t)n + MORE < size || !at))
			at = at + (size_t)n < size ? at + (size_t)n : size - 1;
		else
			more++;
	}
	out[at] = '\0'; /* without an item that did not fit */
	if (more)
		snprintf(out + at, size - at, " and %d more", more);
	return refused ? SL_ERR_MISMATCH : away || !at ? SL_ERR_TIMEOUT : SL_ERR_UNAVAILABLE;
}

bool sl_group_gives_up(struct sl_group *g, struct sl_fail *why)
{
	const uint64_t now = now_ms(g), patience_ms = (uint64_t)g->agreed.share.wait_s * 1000, idle = look_for_idle(g);
	char missing[400];
	bool waits = too_few(g) >= 0, here = g->groups->ranks;
	enum sl_err err;

	for (int k = g->first; k < g->end; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		here = here || s->link != SL_LINK_NONE;
		waits = waits || s->anew ||
			(g->t.open ? sl_trunk_owes(&g->t, k) && s->link == SL_LINK_NONE : s->link == SL_LINK_JOINING);
	}
	if (g->t.open && !here && now - g->here_ms < GATHERS_MS) /* a member that waits makes its link anew */
		return false;
	g->here_ms = now;
	waits = waits && here;
	if (!waits || !g->wait_ms)
		g->wait_ms = waits ? now : 0;
	if (!patience_ms || (idle < patience_ms && (!waits || now - g->wait_ms < patience_ms)))
		return false;
	g->wait_ms = 0;
	err = list_missing(g, false, missing, sizeof missing);
	(void)sl_fail_at(why, "share.wait_s", err, "group %s was not complete within %d s: missing are members %s%s",
			 g->name, g->agreed.share.wait_s, missing,
			 g->anew && g->t.gone_at ? ". The group's run is done, so this is another one: a member that "
						   "lost its files copies the model of another member"
						 : "");
	sl_log_limited(SL_LOG_WARN, "group-waits", "%s", why->text);
	return true;
}

static void look(struct sl_group *g)
{
	enum sl_trunk_patience what;

	for (int k = g->first; k < g->end; k++) {
		g->t.seat[k].elsewhere = is_elsewhere(g, k);
		g->t.seat[k].anew = g->t.seat[k].link == SL_LINK_JOINING && !sl_trunk_needs_all(&g->t) &&
				    (!g->t.open || g->t.step) && sl_group_asks_anew(g, k, g->member[k].m);
	}
	sl_group_see(g);
	what = sl_trunk_patience_for(&g->t);
	for (int k = 0; k < g->n && !sl_trunk_needs_all(&g->t); k++)
		look_at_clock(g, k, what);
}

enum sl_trunk_act sl_group_next(struct sl_group *g, int *k)
{
	enum sl_trunk_act act;

	look(g);
	sl_trunk_check(&g->t);
	act = sl_trunk_next(&g->t, k);
	sl_trunk_check_act(&g->t, act, *k);
	return act;
}

void sl_group_leaving(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		g->part[k].m = sl_trunk_may_leave(&g->t, k) ? g->member[k].m : NULL;
		g->part[k].leaves = s->given && s->asks && s->link == SL_LINK_NONE; /* its model is written */
		g->part[k].leaves = g->part[k].leaves || (g->part[k].m && !g->t.keeps);
	}
}

/* ---- who is there */

void sl_group_hear_in(struct sl_group *g)
{
	for (int k = 0; k < g->n && !g->heard; k++)
		g->t.seat[k].state = g->trunk.r.seat[k].state;
	if (!g->heard)
		g->t.gone_at = g->trunk.r.gone_at;
	for (int k = 0; k < g->n && !g->heard; k++)
		g->member[k].credit_ms = g->agreed.share.patience_s ? member_patience_ms(g, k) : GATHERS_MS;
	g->heard = true;
}

void sl_group_note_part(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];

	if (p->misses)
		sl_log_limited(SL_LOG_INFO, "group-late",
			       "group %s: member %d takes part again in step %" PRIu64 ", and has missed %" PRIu64
			       " steps",
			       g->name, k, g->t.step, p->misses);
	p->misses = 0;
	p->got = p->shuns = FROM_NOBODY;
	p->answer = p->answer == ANSWER_OLD ? ANSWER_NONE : p->answer;
}

void sl_group_note_late(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];

	sl_trunk_missed(&g->t, k);
	if (!p->misses)
		sl_log_limited(SL_LOG_WARN, "group-late", "group %s: step %" PRIu64 " was done without member %d, %s",
			       g->name, g->t.step, k,
			       p->m && sl_seat_is_at_end(&g->t.seat[k]) ? "whose run is over"
			       : p->m                                   ? "which was late"
			       : g->t.seat[k].ends_at                   ? "whose link is lost"
									: "which has never come");
	p->misses += g->round;
	if (p->m && g->t.seat[k].link == SL_LINK_OPEN)
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
}

void sl_group_say_here(const struct sl_group *g, int who)
{
	int here = 0;

	for (int k = 0; k < g->n; k++)
		here += g->t.seat[k].link == SL_LINK_JOINING;
	sl_log_limited(SL_LOG_INFO, "group-waits", "group %s: member %d is here, %d of %d", g->name, who, here, g->n);
}

/* For which member without a link, or which is idle, the others wait; -1: for none. */
static int find_owed(const struct sl_group *g)
{
	for (int k = g->first; k < g->end && g->t.open; k++)
		if (g->member[k].idle_s || (sl_trunk_owes(&g->t, k) && !g->member[k].m))
			return k;
	return -1;
}

void sl_group_say_short(struct sl_group *g)
{
	char missing[sizeof g->waits] = "", away[sizeof g->away] = "", text[48], limit[96] = "";
	uint64_t ends_at;
	int owed, here;

	(void)look_for_idle(g);
	owed = find_owed(g);
	here = owed < 0 ? too_few(g) : -1;
	ends_at = owed < 0 ? 0 : g->t.seat[owed].ends_at;
	if (owed >= 0 || here >= 0)
		(void)list_missing(g, false, missing, sizeof missing);
	(void)list_missing(g, true, away, sizeof away);
	if (strcmp(missing, g->waits) == 0 && strcmp(away, g->away) == 0)
		return;
	memcpy(g->away, away, sizeof g->away);
	if (strcmp(missing, g->waits) == 0)
		owed = here = -1; /* it is said already */
	memcpy(g->waits, missing, sizeof g->waits);
	if (ends_at)
		snprintf(limit, sizeof limit, ", and may miss %.0f of all %" PRIu64 " (share.least is %g)",
			 floor((1 - g->t.least) * (double)ends_at + 1e-9), ends_at, g->t.least);
	if (owed >= 0)
		sl_log_limited(SL_LOG_WARN, "group-owes",
			       "group %s waits behind step %" PRIu64
			       " for member %d, which %s%s: it has missed %" PRIu64 " steps%s",
			       g->name, g->t.step, owed,
			       g->member[owed].idle_s ? "does not do its part"
			       : ends_at              ? "is away"
						      : "has never come",
			       since(g, owed, text), g->t.seat[owed].missed, limit);
	else if (here >= 0)
		sl_log_limited(SL_LOG_WARN, "group-short",
			       "group %s waits behind step %" PRIu64 ": %d member%s there, and share.quorum needs %d: "
			       "missing are %s",
			       g->name, g->t.step, here, sl_plural(here), sl_trunk_least(&g->t), missing);
	sl_group_tell_record(g, -1);
}

/* ---- the end of members' runs
 *
 * A member may leave once the state behind its last step is stored, since others can then get it from the store. Until
 * then it has its weights, and waits. Where nobody can give a member its head and tail, another one that is killed may
 * have to do its last steps again, for which it needs all. So there a member gets its weights once all members whose
 * runs end there have said, by asking for theirs, that their states are on their disks.
 *
 * Every checkpoint says who may leave, and a group that goes on from it does not wait for those. The checkpoint is on
 * the disk before such a member gets its last weights. So this holds whenever the server dies, whether or not it has
 * received a goodbye. */

static void give(struct sl_group *g, int k)
{
	sl_group_tell_record(g, k);
	g->t.seat[k].asks = false;
	g->t.seat[k].given = !g->part[k].leaves;
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

	for (int k = 0; k < g->n; k++)
		safe += g->t.seat[k].state == SL_SEAT_DONE && g->t.seat[k].link != SL_LINK_NONE;
	sl_log_limited(SL_LOG_INFO, "group-done", "group %s: member %d is done behind step %" PRIu64 ", %d of %d",
		       g->name, who, g->t.seat[who].number, safe, g->n);
}

bool sl_group_hear_ask(struct sl_group *g, struct sl_middle *m)
{
	const int k = sl_group_seat_of(m);

	if (g->member[k].m == m && sl_seat_is_at_end(&g->t.seat[k])) {
		sl_trunk_asks(&g->t, k);
		say_done(g, k);
		return true;
	}
	sl_port_event(m->port, &(struct sl_event){.kind = SL_EV_GIVE});
	return false;
}

/* The only member that is not here, and that nobody waits for, has the turns that the others leave. */
static void find_turns(struct sl_group *g)
{
	uint64_t sum = 0;
	int away = -1;

	for (int k = 0; k < g->n; k++) {
		if (!g->turns.count[k])
			g->turns.count[k] = g->seat[k].turns;
		sum += g->turns.count[k];
		away = !g->turns.count[k] && !g->member[k].m && g->t.seat[k].state == SL_SEAT_AWAY ? k : away;
	}
	if (away >= 0 && g->agreed.share.mode == SL_SHARE_SERIAL && sum < g->turns.epoch_steps)
		g->turns.count[away] = g->turns.epoch_steps - sum;
}

bool sl_group_turns_fit(struct sl_group *g, struct sl_fail *why)
{
	char list[200] = "";
	int at = 0;

	find_turns(g);
	if (sl_records_gone(&g->trunk.r) || g->steps.gone || sl_turns_fit(&g->turns))
		return true;
	for (int k = 0; k < g->n && at < (int)sizeof list - 24; k++)
		at += snprintf(list + at, sizeof list - (size_t)at, "%s%" PRIu64, k ? ", " : "", g->turns.count[k]);
	(void)sl_fail_at(why, "share.batches", SL_ERR_MISMATCH,
			 "group %s: the members' batches do not make up an epoch of %" PRIu64
			 " steps: where their data are unequal, all need share.batches: [%s]",
			 g->name, g->turns.epoch_steps, list);
	return false;
}

/* ---- the status */

void sl_group_status(const struct sl_group *g, const struct sl_middle *m, struct sl_status_session *out)
{
	const int k = sl_group_seat_of(m);

	snprintf(out->group, sizeof out->group, "%s", g->name);
	(void)list_missing(g, true, out->missing, sizeof out->missing);
	out->member = k;
	out->members = g->n;
	out->members_least = sl_trunk_needs_all(&g->t) ? 0 : g->t.quorum;
	for (int i = 0; i < g->n; i++)
		out->members_here += g->t.seat[i].link != SL_LINK_NONE;
	out->group_step = (int64_t)g->t.step;
	out->late = (int64_t)g->t.seat[k].missed; /* since the group's first step */
	out->awaited =
		g->t.open && g->member[k].m == m && g->t.seat[k].state == SL_SEAT_IN && !sl_seat_is_ready(&g->t, k);
}
