#include "server/trunk/trunk_table.h"

/* tests/suite/test_trunk_table.c plants faults in its own copy of this file, and must find each of them. */
#ifndef SL_PLANTED
#define SL_PLANTED(fault) false
#endif

enum { PROBATION_MOST = 10 }; /* most doublings of the probation */

/* ---- who is there */

static bool varies(const struct sl_trunk_table *t)
{
	return t->least > 0;
}

int sl_trunk_least(const struct sl_trunk_table *t)
{
	return varies(t) ? t->least : 1;
}

bool sl_seat_is_ready(const struct sl_trunk_table *t, int k)
{
	return t->seat[k].prepared && t->seat[k].number == t->step + t->round - 1;
}

static bool is_safe(const struct sl_seat *s)
{
	return s->state == SL_SEAT_DONE && s->link != SL_LINK_NONE;
}

struct sl_trunk_tally sl_trunk_count(const struct sl_trunk_table *t)
{
	struct sl_trunk_tally c = {0};

	for (int k = t->first; k < t->end; k++) {
		const struct sl_seat *s = &t->seat[k];
		const bool ready = sl_seat_is_ready(t, k), awaited = s->state == SL_SEAT_IN && !ready;

		c.members += sl_seat_is_in(s->state) || is_safe(s);
		c.ready += ready;
		c.awaited += awaited;
		c.elsewhere = c.elsewhere || (awaited && s->elsewhere);
		c.works = c.works || (!ready && s->state == SL_SEAT_LATE && s->link == SL_LINK_OPEN);
	}
	return c;
}

/* The state while members gather. */
struct gathered {
	int here, least; /* members that are here; that are needed */
	bool awaited;    /* an awaited member is not here */
	bool ending;     /* an older link is still there */
	bool done;       /* the runs of all that are here are over */
	bool can;        /* they can go on without those that are done */
	bool away;       /* a member that was done is not here */
	bool old;        /* a member goes on from a step: otherwise all can begin another run */
};

static bool can_do_without(const struct sl_trunk_table *t, const struct sl_seat *s)
{
	/* With ranks this rank's newest checkpoint may not be the one to go on from: the ranks find out together. */
	return (t->ranks || sl_hello_holds(s->hello, t->gone_at)) &&
	       (s->state != SL_SEAT_DONE || sl_hello_is_done(s->hello));
}

static struct gathered gather(const struct sl_trunk_table *t)
{
	struct gathered g = {.done = true, .can = true};

	for (int k = t->first; k < t->end; k++) {
		const struct sl_seat *s = &t->seat[k];

		g.ending = g.ending || s->link == SL_LINK_OPEN;
		g.awaited = g.awaited || (s->link == SL_LINK_NONE && sl_seat_is_in(s->state));
		g.away = g.away || (s->link == SL_LINK_NONE && s->state == SL_SEAT_DONE && t->gone_at);
		if (s->link != SL_LINK_JOINING)
			continue;
		g.here++;
		g.done = g.done && sl_hello_is_done(s->hello);
		g.can = g.can && can_do_without(t, s);
		g.old = g.old || !sl_hello_is_new(s->hello);
	}
	g.least = g.done ? 1 : sl_trunk_least(t); /* members that are done have no step to do */
	return g;
}

bool sl_trunk_left_behind(const struct sl_trunk_table *t, bool who[])
{
	bool done = false, gets = false; /* gets: another member has heads and tails of that step, or may bring them */
	bool any = false;

	for (int k = t->first; k < t->end; k++) {
		const struct sl_seat *s = &t->seat[k];
		const bool here = s->link != SL_LINK_NONE;
		const bool lacks = s->link == SL_LINK_JOINING && !sl_hello_holds(s->hello, t->gone_at);

		done = done || (!here && s->state == SL_SEAT_DONE);
		gets = gets || (here ? !lacks : sl_seat_is_in(s->state) || s->state == SL_SEAT_AWAY);
		any = any || lacks;
		if (who)
			who[k] = lacks;
	}
	return any && done && t->gone_at && !t->open && !t->ranks && !(t->takes && gets);
}

static bool all_here(const struct sl_trunk_table *t, bool tired)
{
	const struct gathered g = gather(t);

	if (g.ending)
		return false;
	if (varies(t))
		return g.here >= g.least && (!g.awaited || tired) &&
		       !(t->takes && g.old && sl_trunk_left_behind(t, NULL));
	/* A rank without members (`staying`) takes part in what the others do. Members that cannot go on without those
	 * that are done wait for all. */
	return !g.awaited && (g.here || t->staying) && (!g.away || g.can);
}

/* ---- whom a step waits for */

bool sl_trunk_time_counts(const struct sl_trunk_table *t)
{
	const struct sl_trunk_tally own = sl_trunk_count(t);
	const struct gathered g = gather(t);
	const int ready = own.ready + t->far.ready;

	if (t->whole && !SL_PLANTED(WHOLE_IS_TIRED))
		return false;
	if (!t->open)
		return varies(t) && !g.ending && g.here >= g.least && g.awaited;
	return own.awaited && 2 * ready >= own.members + t->far.members && ready >= sl_trunk_least(t) &&
	       !own.elsewhere && !t->far.elsewhere;
}

bool sl_trunk_could(const struct sl_trunk_table *t, bool tired)
{
	return !sl_trunk_count(t).awaited || tired;
}

static bool may_apply(const struct sl_trunk_table *t, bool tired)
{
	const struct sl_trunk_tally own = sl_trunk_count(t);

	if (!sl_trunk_could(t, tired))
		return false;
	if (!t->ranks)
		return own.ready >= sl_trunk_least(t);
	/* APPLY blocks the worker until the other ranks are there, and members of this rank cannot compute meanwhile.
	 * So if no member is ready, or one may be ready soon, the other ranks must be ready first. A rank without
	 * members has nobody to wait for. */
	if (!own.members || (own.ready && !own.works))
		return true;
	return t->far.could && own.ready + t->far.ready > 0;
}

/* ---- the end of runs */

/* It may have to do its last steps again, for which it needs the others. */
static bool is_unsafe(const struct sl_trunk_table *t, const struct sl_seat *s)
{
	return s->state == SL_SEAT_IN ||
	       (s->given && !s->asks && s->number == t->step && !SL_PLANTED(MODELS_NEED_NOT_BE_WRITTEN));
}

struct sl_trunk_far sl_trunk_tell(const struct sl_trunk_table *t)
{
	struct sl_trunk_far own = {.unsafe_end = UINT64_MAX};

	for (int k = t->first; k < t->end; k++) {
		const struct sl_seat *s = &t->seat[k];

		own.safe += is_safe(s);
		own.end_elsewhere = own.end_elsewhere || (s->state != SL_SEAT_DONE && s->elsewhere);
		if (is_unsafe(t, s) && s->ends_at < own.unsafe_end)
			own.unsafe_end = s->ends_at;
	}
	return own;
}

bool sl_trunk_end_counts(const struct sl_trunk_table *t)
{
	const struct sl_trunk_far own = sl_trunk_tell(t);

	if (t->whole) /* no step could be done again without a member that left */
		return false;
	return 2 * (own.safe + t->far.safe) >= sl_trunk_count(t).members + t->far.members && !own.end_elsewhere &&
	       !t->far.end_elsewhere;
}

/* Member k has written its model, and another one that asked for its last weights has lost its link before it got them.
 */
static bool some_lack_weights(const struct sl_trunk_table *t, int k)
{
	for (int i = t->first; i < t->end && t->seat[k].given; i++)
		if (t->seat[i].asks && !t->seat[i].given && t->seat[i].number == t->step)
			return true;
	return false;
}

bool sl_trunk_may_leave(const struct sl_trunk_table *t, int k, bool end_tired)
{
	const uint64_t own = sl_trunk_tell(t).unsafe_end;
	const uint64_t far = SL_PLANTED(OTHER_RANKS_MAY_REDO) ? UINT64_MAX : t->far.unsafe_end;

	return t->seat[k].asks && t->seat[k].link == SL_LINK_OPEN &&
	       (end_tired || SL_PLANTED(LEAVE_AT_ONCE) ||
		(t->seat[k].ends_at < (far < own ? far : own) && !some_lack_weights(t, k)));
}

/* ---- what is next */

/* In rounds: if others are inside a round, a newcomer waits for its end, since the round would otherwise have to wait
 * for the newcomer's steps. If the others are too few to end the round, it comes at once. */
static bool comes_later(const struct sl_trunk_table *t, int k)
{
	bool inside = false;
	int in = 0;

	if (!varies(t) || !t->rounds || sl_seat_is_in(t->seat[k].state))
		return false;
	for (int i = 0; i < t->n; i++)
		if (t->seat[i].link == SL_LINK_OPEN && sl_seat_is_in(t->seat[i].state)) {
			in++;
			inside = inside || t->seat[i].number > t->step;
		}
	return inside && in >= sl_trunk_least(t);
}

static int find_coming(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++)
		if ((t->seat[k].link == SL_LINK_GIVEN && !SL_PLANTED(GIVEN_STAYS_OUT)) ||
		    (t->seat[k].link == SL_LINK_JOINING && !comes_later(t, k)))
			return k;
	return -1;
}

/* A seat that has prepared a step: one that was done without it (`behind`), or one inside its round. */
static int find_prepared(const struct sl_trunk_table *t, bool behind)
{
	for (int k = 0; k < t->n; k++) {
		const struct sl_seat *s = &t->seat[k];

		if (s->link != SL_LINK_NONE && s->prepared && (s->number < t->step) == behind &&
		    !sl_seat_is_ready(t, k))
			return k;
	}
	return -1;
}

static int find_leaving(const struct sl_trunk_table *t, bool end_tired)
{
	for (int k = t->first; k < t->end; k++)
		if (sl_trunk_may_leave(t, k, end_tired))
			return k;
	return -1;
}

enum sl_trunk_act sl_trunk_next(const struct sl_trunk_table *t, bool tired, bool end_tired, int *seat)
{
	*seat = -1;
	if (!t->open)
		return all_here(t, tired) ? SL_TRUNK_CHOOSE : SL_TRUNK_WAIT;
	if ((*seat = find_coming(t)) >= 0)
		return SL_TRUNK_COME;
	if ((*seat = find_prepared(t, true)) >= 0)
		return t->seat[*seat].skip ? SL_TRUNK_CATCH_UP : SL_TRUNK_BEHIND;
	if ((*seat = find_prepared(t, false)) >= 0)
		return SL_TRUNK_STEP;
	if ((*seat = find_leaving(t, end_tired)) >= 0)
		return SL_TRUNK_LET_GO;
	return may_apply(t, tired) ? SL_TRUNK_APPLY : SL_TRUNK_WAIT;
}

/* ---- events */

static void close_link(struct sl_seat *s)
{
	s->link = SL_LINK_NONE;
	s->hello = NULL;
	s->prepared = s->skip = s->elsewhere = false;
}

void sl_trunk_joins(struct sl_trunk_table *t, int k, const struct sl_hello *hello)
{
	close_link(&t->seat[k]);
	t->seat[k].link = SL_LINK_JOINING;
	t->seat[k].hello = hello;
}

void sl_trunk_welcome(struct sl_trunk_table *t, int k, uint64_t number, bool newcomer)
{
	struct sl_seat *s = &t->seat[k];

	s->probation = newcomer ? 1 : s->probation;
	s->lapses = newcomer ? 0 : s->lapses;
	s->link = SL_LINK_OPEN;
	s->state = s->probation ? SL_SEAT_LATE : SL_SEAT_IN;
	s->prepared = s->skip = s->asks = s->given = false;
	s->number = number;
	s->ends_at = s->hello->run_steps;
}

void sl_trunk_needs_ends(struct sl_trunk_table *t, int k)
{
	if (!SL_PLANTED(ASKING_IS_AWAITED))
		(void)sl_trunk_out(t, k);
	if (!SL_PLANTED(WRONG_ENDS_ARE_KEPT) || t->seat[k].link != SL_LINK_GIVEN)
		t->seat[k].link = SL_LINK_ASKING;
}

void sl_trunk_has_ends(struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++)
		if (t->seat[k].link == SL_LINK_ASKING)
			t->seat[k].link = SL_LINK_GIVEN;
}

void sl_trunk_prepared(struct sl_trunk_table *t, int k, bool skip)
{
	struct sl_seat *s = &t->seat[k];

	if (sl_seat_is_newcomer(s)) {
		s->state = SL_SEAT_IN;
		s->probation = 0;
	}
	s->prepared = true;
	s->skip = skip;
}

void sl_trunk_opens(struct sl_trunk_table *t, uint64_t step)
{
	t->open = true;
	t->step = step;
	for (int k = 0; k < t->n; k++) {
		t->seat[k].probation = 0;
		if (t->seat[k].state == SL_SEAT_LATE)
			t->seat[k].state = SL_SEAT_IN;
	}
}

void sl_trunk_gathers(struct sl_trunk_table *t)
{
	t->open = false;
	for (int k = 0; k < t->n; k++) {
		if (t->seat[k].asks || t->seat[k].given) /* it may have to repeat steps */
			t->seat[k].state = SL_SEAT_IN;
		t->seat[k].asks = t->seat[k].given = false;
		if (t->seat[k].link == SL_LINK_ASKING || t->seat[k].link == SL_LINK_GIVEN)
			t->seat[k].link = SL_LINK_JOINING;
	}
}

void sl_trunk_asks(struct sl_trunk_table *t, int k)
{
	t->seat[k].asks = true;
	t->seat[k].state = SL_SEAT_DONE;
}

bool sl_trunk_out(struct sl_trunk_table *t, int k)
{
	struct sl_seat *s = &t->seat[k];
	const bool was = sl_seat_is_in(s->state);

	if (was)
		s->state = SL_SEAT_AWAY;
	s->probation = 0;
	return was;
}

bool sl_trunk_over(struct sl_trunk_table *t, int k, enum sl_seat_end how)
{
	struct sl_seat *s = &t->seat[k];
	const bool welcomed = s->link == SL_LINK_OPEN;
	const bool breaks = t->whole && t->open && welcomed && s->state == SL_SEAT_IN;

	close_link(s);
	s->given = s->given && how != SL_SEAT_LEFT;
	if (how == SL_SEAT_LEFT && welcomed && (!varies(t) || sl_seat_is_at_end(s))) {
		s->state = SL_SEAT_DONE;
		t->gone_at = varies(t) ? t->step : t->gone_at;
	} else if (how != SL_SEAT_LOST && varies(t) && (welcomed || !t->open)) {
		(void)sl_trunk_out(t, k);
	}
	return breaks;
}

void sl_trunk_in_time(struct sl_trunk_table *t, int k)
{
	struct sl_seat *s = &t->seat[k];

	s->probation -= s->probation > 0;
	if (s->state == SL_SEAT_LATE && !s->probation)
		s->state = SL_SEAT_IN;
}

bool sl_trunk_late(struct sl_trunk_table *t, int k)
{
	struct sl_seat *s = &t->seat[k];

	if (s->state != SL_SEAT_IN)
		return false;
	s->probation = 1 << (s->lapses < PROBATION_MOST ? s->lapses : PROBATION_MOST);
	s->lapses++;
	s->state = SL_SEAT_LATE;
	return true;
}
