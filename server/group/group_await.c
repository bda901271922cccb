/* Whom a group's step waits for, who comes and goes, and who may leave. On the loop. With other ranks each knows the
 * last word of the others, which may be old. So words decide only when a rank goes to a meeting; the meeting decides
 * what is done (group_ranks.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group/group_impl.h"

static bool is_elsewhere(const struct sl_group *g, int k)
{
	const struct sl_middle *m = g->t.seat[k].link == SL_LINK_OPEN ? g->member[k].m : NULL;
	const enum sl_session_state s = m ? sl_port_session(m->port)->state : SL_SESSION_CLOSED;

	return s == SL_SESSION_EVAL || s == SL_SESSION_FETCH;
}

/* Whether the group has waited for share.straggler_s. `waits`: it waits now. *since_ms: since when; 0: it does not. */
static bool waited(const struct sl_group *g, bool waits, uint64_t *since_ms)
{
	const uint64_t now_ms = sl_loop_now_ms(g->groups->loop);
	const uint64_t patience_ms = (uint64_t)g->agreed.share.straggler_s * 1000;

	if (!waits || !patience_ms)
		*since_ms = 0;
	else if (!*since_ms)
		*since_ms = now_ms;
	return *since_ms && now_ms - *since_ms >= patience_ms;
}

/* Lists the awaited members of this rank that have no link, with commas, and why one was refused. True: one was
 * refused, and will not come again with the same settings. */
static bool list_missing(const struct sl_group *g, char *out, size_t size)
{
	bool refused = false;
	size_t at = 0;

	out[0] = '\0';
	for (int k = g->first; k < g->end && at + 1 < size; k++) {
		const struct sl_group_member *p = &g->member[k];
		const bool was_refused = p->refused[0] != '\0';
		const bool is_done = g->t.seat[k].state == SL_SEAT_DONE && !g->t.open;
		int n;

		if (p->m || (!was_refused && !sl_seat_is_in(g->t.seat[k].state) && !is_done))
			continue;
		refused = refused || was_refused;
		n = snprintf(out + at, size - at, "%s%d%s%s%s", at ? ", " : "", k, was_refused ? " (refused: " : "",
			     p->refused, was_refused ? ")" : "");
		at += (size_t)n;
	}
	return refused;
}

/* How long to wait: share.wait_s; 0: for ever. A member that is left behind waits less, but long enough for the others
 * to come again: the server may have died before they heard that they are done. */
static uint64_t patience_of(const struct sl_group *g, bool left_behind)
{
	const uint64_t ms = (uint64_t)g->agreed.share.wait_s * 1000;

	return left_behind && (!ms || ms > SL_GROUP_COME_AGAIN_MS) ? SL_GROUP_COME_AGAIN_MS : ms;
}

bool sl_group_gives_up(struct sl_group *g, bool who[], struct sl_fail *why)
{
	const uint64_t now_ms = sl_loop_now_ms(g->groups->loop);
	uint64_t patience_ms;
	char missing[400];
	const bool left_behind = sl_trunk_left_behind(&g->t, who);
	bool waits = false, refused;

	patience_ms = patience_of(g, left_behind);
	for (int k = g->first; k < g->end; k++)
		waits = waits || g->t.seat[k].link == (g->t.open ? SL_LINK_ASKING : SL_LINK_JOINING);
	if (!waits || !g->wait_ms)
		g->wait_ms = waits ? now_ms : 0;
	if (!waits || !patience_ms || now_ms - g->wait_ms < patience_ms)
		return false;
	g->wait_ms = 0;
	if (left_behind) {
		(void)sl_fail_at(why, "share.member", SL_ERR_MISMATCH, SL_GROUP_LEFT_BEHIND, g->name, g->t.gone_at,
				 sl_agreed_shares_ends(&g->agreed) ? ": their model is its model, too" : "");
		return true;
	}
	memset(who, true, (size_t)g->n);
	if (g->t.open) {
		(void)sl_fail_at(why, "share.wait_s", SL_ERR_TIMEOUT,
				 "nobody who has the heads and tails of group %s has come within %d s", g->name,
				 g->agreed.share.wait_s);
		return true;
	}
	refused = list_missing(g, missing, sizeof missing);
	(void)sl_fail_at(why, "share.wait_s", refused ? SL_ERR_MISMATCH : SL_ERR_TIMEOUT,
			 "group %s was not complete within %d s: missing are members %s", g->name,
			 g->agreed.share.wait_s, missing);
	sl_log_limited(SL_LOG_WARN, "group-waits", "%s", why->text);
	return true;
}

/* The last word of rank `r`, if it trains on the same branch; otherwise NULL. */
static const struct sl_group_word *word_of(const struct sl_group *g, int r)
{
	const struct sl_group_word *w = &g->groups->word[r];

	return w->open && w->branch == g->branch ? w : NULL;
}

/* The word is about the same step as this rank's. */
static bool is_of_this_step(const struct sl_group *g, const struct sl_group_word *w)
{
	return w->open && w->branch == g->branch && w->met == g->met && w->step == g->t.step;
}

static struct sl_trunk_far hear_far(const struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	struct sl_trunk_far far = {.could = true, .unsafe_end = UINT64_MAX};

	for (int r = 0; ranks && r < ranks->count; r++) {
		const struct sl_group_word *w = &g->groups->word[r], *ours = word_of(g, r);
		const bool same = is_of_this_step(g, w);

		if (r == ranks->rank)
			continue;
		far.members += w->members;
		far.could = far.could && same && w->could;
		far.ready += same ? w->ready : 0;
		far.elsewhere = far.elsewhere || (same && w->elsewhere);
		if (!ours || ours->unsafe_end < far.unsafe_end) /* 0 if nothing is known: then nobody may leave */
			far.unsafe_end = ours ? ours->unsafe_end : 0;
		far.safe += ours ? ours->safe : 0;
		far.end_elsewhere = far.end_elsewhere || (ours && ours->end_elsewhere);
	}
	return far;
}

static void look(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		g->t.seat[k].elsewhere = is_elsewhere(g, k);
	g->t.far = hear_far(g);
}

static bool is_tired(struct sl_group *g)
{
	return waited(g, sl_trunk_time_counts(&g->t), &g->half_ms);
}

static bool is_end_tired(struct sl_group *g)
{
	return waited(g, sl_trunk_end_counts(&g->t), &g->end_ms);
}

enum sl_trunk_act sl_group_next(struct sl_group *g, int *k)
{
	for (int i = g->first; i < g->end && !sl_group_varies(g); i++)
		if (g->trunk.r.seat[i].state == SL_SEAT_AWAY) /* it is too far behind */
			(void)sl_trunk_out(&g->t, i);
	look(g);
	return sl_trunk_next(&g->t, is_tired(g), g->t.open && is_end_tired(g), k);
}

void sl_group_leaving(struct sl_group *g)
{
	const bool tired = is_end_tired(g);

	for (int k = g->first; k < g->end; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		g->part[k].m = sl_trunk_may_leave(&g->t, k, tired) ? g->member[k].m : NULL;
		g->part[k].leaves = s->given && s->asks && (g->part[k].m || s->link == SL_LINK_NONE);
	}
}

/* ---- words */

enum sl_err sl_group_list_ranks(struct sl_group_list *gs, const struct sl_ranks *ranks, struct sl_backend *be,
				struct sl_backend *host_be)
{
	gs->ranks = ranks;
	gs->be = be;
	gs->host_be = host_be;
	if (ranks)
		gs->word = calloc((size_t)ranks->count, sizeof *gs->word);
	return ranks && !gs->word ? SL_ERR_NOMEM : SL_OK;
}

static void tell_step(struct sl_group *g, struct sl_group_word *word)
{
	const struct sl_trunk_tally own = sl_trunk_count(&g->t);

	word->members = own.members;
	if (!g->t.open)
		return; /* the step is not known: the worker may be choosing where to go on from */
	word->open = true;
	word->step = g->t.step;
	word->branch = g->branch;
	word->met = g->met;
	word->ready = own.ready;
	word->elsewhere = own.elsewhere;
	word->could = sl_trunk_could(&g->t, is_tired(g));
	word->calls = g->back_of >= 0;
}

static void tell_end(const struct sl_group *g, struct sl_group_word *word)
{
	const struct sl_trunk_far own = sl_trunk_tell(&g->t);

	word->unsafe_end = own.unsafe_end;
	word->safe = own.safe;
	word->end_elsewhere = own.end_elsewhere;
}

void sl_group_tell(struct sl_group_list *gs)
{
	struct sl_group *g = gs->first;
	struct sl_group_word *said, word;

	if (!gs->ranks)
		return;
	if (g)
		look(g);
	said = &gs->word[gs->ranks->rank];
	memcpy(&word, said, sizeof word); /* copies the padding, too, since words are compared as bytes */
	/* From APPLY or MEET until the ranks have met, what the word says about the step must not change. */
	if (!g || (g->what != GROUP_APPLY && g->what != GROUP_MEET)) {
		memset(&word, 0, sizeof word);
		if (g)
			tell_step(g, &word);
	}
	if (g)
		tell_end(g, &word);
	if (memcmp(said, &word, sizeof word) == 0)
		return;
	*said = word;
	gs->ranks->tell(gs->ranks, &word, sizeof word);
}

bool sl_group_is_called(const struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;

	for (int r = 0; ranks && r < ranks->count; r++) {
		const struct sl_group_word *w = &g->groups->word[r];

		if (r != ranks->rank && w->open && w->calls && w->met == g->met)
			return true;
	}
	return false;
}

/* ---- members that come and go (share.clients: 2..8)
 *
 * A member is *in* from the step to which it is welcomed until it stops its run, is done, or has had no link for
 * share.straggler_s. Steps are done by the members that are in. A seat keeps the number of the step after its member's
 * last one. So a member that comes back goes on with the head and tail that it had. Each checkpoint says who was in.
 * The newest one says whom a restarted server waits for, even if the group goes on from an older one. */

void sl_group_hear_in(struct sl_group *g)
{
	for (int k = 0; k < g->n && !g->heard; k++)
		g->t.seat[k].state = g->trunk.r.seat[k].state;
	if (!g->heard)
		g->t.gone_at = g->trunk.r.gone_at;
	g->heard = true;
}

/* Nobody waits for the member any more. */
static void goes(struct sl_group *g, int k, const char *why)
{
	if (sl_trunk_out(&g->t, k))
		sl_group_say_gone(g, k, why);
}

int sl_group_begun(struct sl_group *g)
{
	int n = 0;

	g->half_ms = 0;
	for (int k = 0; k < g->n; k++) {
		n += g->part[k].m != NULL;
		if (!g->part[k].m)
			goes(g, k,
			     g->member[k].m ? "it does not hold that step"
					    : "it did not come back, and share.straggler_s is over");
	}
	return n;
}

uint64_t sl_group_comes_in(struct sl_group *g, int k, bool with_ends)
{
	const uint64_t from = g->trunk.r.seat[k].number;
	const uint64_t begin =
		from > g->t.step || g->ends ? from : g->t.step; /* shared ends also learn from the steps it missed */
	const bool was = sl_seat_is_in(g->t.seat[k].state);

	sl_trunk_welcome(&g->t, k, begin, with_ends);
	if (!was)
		sl_log_limited(SL_LOG_INFO, "group-joins",
			       "group %s: member %d joins behind step %" PRIu64 ": %d are in", g->name, k, begin,
			       sl_trunk_count(&g->t).members);
	return begin;
}

void sl_group_note_late(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	char why[64] = "not awaited yet";

	if (!sl_seat_is_in(g->t.seat[k].state))
		return;
	if (g->part[k].lost) {
		goes(g, k, "its link was lost, and share.straggler_s is over");
		return;
	}
	if (sl_seat_is_newcomer(&g->t.seat[k])) {
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
		return;
	}
	g->late++;
	p->late++;
	if (sl_trunk_late(&g->t, k))
		snprintf(why, sizeof why, "share.straggler_s: %d", g->agreed.share.straggler_s);
	sl_log_limited(SL_LOG_WARN, "group-late",
		       "group %s: step %" PRIu64 " was done without member %d, which was %s (%s)", g->name, g->t.step,
		       k, p->m ? "late" : "away", why);
	if (p->m && g->t.seat[k].link == SL_LINK_OPEN)
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
}

void sl_group_say_here(const struct sl_group *g, int who)
{
	int here = 0;

	for (int k = 0; k < g->n; k++)
		here += g->t.seat[k].link == SL_LINK_JOINING;
	sl_log_limited(SL_LOG_INFO, "group-waits", "group %s: member %d is here, %d of %d", g->name, who, here,
		       sl_group_varies(g) ? sl_trunk_least(&g->t) : g->n);
}

void sl_group_say_gone(const struct sl_group *g, int k, const char *why)
{
	sl_log_limited(SL_LOG_INFO, "group-leaves",
		       "group %s: member %d leaves behind step %" PRIu64 " (%s): %d are in", g->name, k, g->t.step, why,
		       sl_trunk_count(&g->t).members);
}

/* Lists the members that are not there, among those that ever were. */
static const char *say_missing(const struct sl_group *g, char out[200])
{
	int at = 0;

	for (int k = 0; k < g->n && at < 160; k++) {
		const bool in = sl_seat_is_in(g->t.seat[k].state);

		if (g->member[k].m || (!in && !g->trunk.r.seat[k].number))
			continue;
		at += snprintf(out + at, (size_t)(200 - at), "%s %d (%s)", at ? "," : "; not there:", k,
			       in ? "lost its link" : "has left");
	}
	out[at] = '\0';
	return out;
}

void sl_group_say_short(struct sl_group *g)
{
	char missing[200];
	int here = 0;

	if (!sl_group_varies(g) || !g->t.open)
		return;
	for (int k = 0; k < g->n; k++) {
		if (g->t.seat[k].state == SL_SEAT_DONE)
			return; /* runs are ending, so few members are no problem */
		here += g->member[k].m && sl_seat_is_in(g->t.seat[k].state);
	}
	if (here < sl_trunk_least(&g->t) && !g->said_short)
		sl_log_limited(SL_LOG_WARN, "group-short",
			       "group %s waits behind step %" PRIu64 ": %d member%s there, and share.clients needs "
			       "%d%s",
			       g->name, g->t.step, here, sl_plural(here), sl_trunk_least(&g->t),
			       say_missing(g, missing));
	g->said_short = here < sl_trunk_least(&g->t);
}

/* ---- the end of members' runs
 *
 * A member that is done does not come back. If another one is killed before its own last checkpoint is on its disk, the
 * steps since then cannot be repeated without the first. So a member that fetches the weights of its last step thereby
 * says that its state is on its disk. It gets these weights once all members whose runs end there have said so. The
 * group does not wait for members that are not awaited, or that are late by share.straggler_s.
 *
 * Where the server could not store that step, no member has a checkpoint of it either. Then all get their weights,
 * write their models, and ask again: they may leave once all have done so. A member that dies before finds the others
 * there.
 *
 * Every checkpoint says who may leave, and a group that goes on from it does not wait for those. The checkpoint is on
 * the disk before such a member gets its last weights. So this holds whenever the server dies, whether or not it has
 * received a goodbye. */

static void give(struct sl_group *g, int k)
{
	g->t.seat[k].asks = false;
	g->t.seat[k].given = !g->part[k].leaves;
	g->end_ms = 0;
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

/* The only member that is not here, and that nobody waits for, has the turns that the others leave. */
static void find_turns(struct sl_group *g)
{
	uint64_t sum = 0;
	int away = -1;

	for (int k = 0; k < g->n; k++) {
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

/* ---- the status */

void sl_group_status(const struct sl_group *g, const struct sl_middle *m, struct sl_status_session *out)
{
	const int k = sl_group_seat_of(m);

	snprintf(out->group, sizeof out->group, "%s", g->name);
	(void)list_missing(g, out->missing, sizeof out->missing);
	out->member = k;
	out->members = g->n;
	out->members_least = g->agreed.share.least;
	out->members_here = g->n - (g->end - g->first); /* members of other ranks are counted as here */
	for (int i = 0; i < g->n; i++)
		out->members_here += g->member[i].m != NULL;
	out->group_step = (int64_t)g->t.step;
	out->late = g->member[k].late;
	out->awaited =
		g->t.open && g->member[k].m == m && g->t.seat[k].state == SL_SEAT_IN && !sl_seat_is_ready(&g->t, k);
}
