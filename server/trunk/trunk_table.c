#include "server/trunk/trunk_table.h"

/* tests/suite/test_trunk_table.c plants faults in its own copy of this file, and must find each of them. */
#ifndef SL_PLANTED
#define SL_PLANTED(fault) false
#endif

/* ---- who is there */

bool sl_seat_is_ready(const struct sl_trunk_table *t, int k)
{
	return t->seat[k].prepared && t->seat[k].number == t->step + t->round - 1;
}

bool sl_trunk_owes(const struct sl_trunk_table *t, int k)
{
	const struct sl_seat *s = &t->seat[k];

	if (!(t->least > 0) || s->state == SL_SEAT_DONE || (s->ends_at && t->step >= s->ends_at))
		return false;
	if (SL_PLANTED(AWAY_IS_NOT_OWED) && s->state == SL_SEAT_AWAY)
		return false;
	return (s->state == SL_SEAT_NEVER && !SL_PLANTED(BEGINS_WITHOUT)) ||
	       (s->ends_at && !t->anyway &&
		(double)(s->missed + t->round) > (1 - t->least) * (double)s->ends_at + 1e-9);
}

/* Whether members are inside a round: one that has to get heads and tails waits for its end. */
static bool is_inside(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n && t->rounds; k++)
		if (t->seat[k].link == SL_LINK_OPEN && t->seat[k].number > t->step)
			return true;
	return false;
}

/* The step waits for the member. Steps stop while a member comes, so that it takes part in the one under way. */
static bool is_awaited(const struct sl_trunk_table *t, int k)
{
	const struct sl_seat *s = &t->seat[k];
	const bool comes = s->link != SL_LINK_NONE && (s->link != SL_LINK_ASKING || !is_inside(t));

	if (sl_seat_is_ready(t, k) || s->state == SL_SEAT_DONE)
		return false;
	return sl_trunk_owes(t, k) || (!s->tired && (s->state == SL_SEAT_IN || comes));
}

/* The seats that decide: all, or this rank's, if it is led. */
static int first_seat(const struct sl_trunk_table *t)
{
	return t->led ? t->first : 0;
}

static int end_seat(const struct sl_trunk_table *t)
{
	return t->led ? t->end : t->n;
}

struct sl_trunk_tally sl_trunk_count(const struct sl_trunk_table *t)
{
	struct sl_trunk_tally c = {0};

	for (int k = first_seat(t); k < end_seat(t); k++) {
		c.ready += sl_seat_is_ready(t, k);
		c.awaited += is_awaited(t, k);
	}
	return c;
}

int sl_trunk_least(const struct sl_trunk_table *t)
{
	int left = 0;

	if (SL_PLANTED(NO_QUORUM))
		return 1;
	for (int k = 0; k < t->n; k++)
		left += t->seat[k].state != SL_SEAT_DONE;
	return left < t->quorum ? (left ? left : 1) : t->quorum;
}

/* The state while members gather. */
struct gathered {
	int here;     /* members that are here */
	bool awaited; /* an awaited member is not here */
	bool ending;  /* an older link is still there */
	bool done;    /* the runs of all that are here are over */
};

/* The group has done the run's last step: the member comes for the last state, which needs no others. */
static bool has_ended(const struct sl_trunk_table *t, const struct sl_hello *h)
{
	const uint64_t step = t->step > t->gone_at ? t->step : t->gone_at;

	return h->run_steps && step >= h->run_steps && !SL_PLANTED(END_NEEDS_A_QUORUM);
}

/* A member that was done has come for a longer run: those that were done have to come, too. So they have where parties
 * do each step together and one begins another run, since nobody could give it a head and tail. */
static bool some_go_on(const struct sl_trunk_table *t)
{
	for (int k = first_seat(t); k < end_seat(t) && sl_trunk_needs_all(t); k++) {
		const struct sl_seat *s = &t->seat[k];

		if (s->link == SL_LINK_JOINING && s->state == SL_SEAT_DONE &&
		    (sl_hello_is_new(s->hello) ? t->whole : !sl_hello_is_done(s->hello) && !has_ended(t, s->hello)))
			return true;
	}
	return false;
}

/* While members gather: whether they wait for this one, which is not here. */
static bool is_expected(const struct sl_trunk_table *t, const struct sl_seat *s)
{
	if (s->link != SL_LINK_NONE)
		return false;
	if (s->state == SL_SEAT_DONE)
		return some_go_on(t);
	return s->state == SL_SEAT_NEVER ? t->least > 0 && !SL_PLANTED(BEGINS_WITHOUT)
					 : s->state == SL_SEAT_IN && !s->tired;
}

static struct gathered gather(const struct sl_trunk_table *t)
{
	struct gathered g = {.done = true};

	for (int k = first_seat(t); k < end_seat(t); k++) {
		const struct sl_seat *s = &t->seat[k];

		g.ending = g.ending || s->link == SL_LINK_OPEN;
		g.awaited = g.awaited || is_expected(t, s);
		if (s->link != SL_LINK_JOINING)
			continue;
		g.here++;
		g.done = g.done && (sl_hello_is_done(s->hello) || has_ended(t, s->hello));
	}
	return g;
}

static bool all_here(const struct sl_trunk_table *t)
{
	const struct gathered g = gather(t);

	if (g.ending || g.awaited)
		return false;
	return t->led || g.here >= (g.done ? 1 : sl_trunk_least(t)); /* members that are done have no step to do */
}

/* ---- a group that is to begin anew */

bool sl_trunk_begins_anew(const struct sl_trunk_table *t)
{
	bool some = false;

	for (int k = 0; k < t->n; k++) {
		some = some || t->seat[k].anew;
		if (t->seat[k].link != SL_LINK_NONE && !t->seat[k].anew)
			return false;
	}
	return some;
}

static enum sl_trunk_act begin_anew(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++)
		if (t->seat[k].link == SL_LINK_NONE)
			return SL_TRUNK_WAIT;
	return SL_TRUNK_CHOOSE;
}

/* ---- whom a step waits for */

/* Whether a member that is owed the step is not ready. */
static bool owes_any(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++)
		if (sl_trunk_owes(t, k) && !sl_seat_is_ready(t, k))
			return true;
	return false;
}

/* Somebody needs head and tail, and nobody is here who has them, or will have them: those inside a round have theirs of
 * its end, if they are enough to end it. */
static bool lacks_ends(const struct sl_trunk_table *t)
{
	bool asks = false;
	int inside = 0;

	for (int k = 0; k < t->n; k++) {
		const struct sl_seat *s = &t->seat[k];

		if (s->link == SL_LINK_GIVEN || (s->link == SL_LINK_OPEN && s->number <= t->step))
			return false;
		inside += s->link == SL_LINK_OPEN;
		asks = asks || s->link == SL_LINK_ASKING;
	}
	return asks && (inside < sl_trunk_least(t) || owes_any(t));
}

enum sl_trunk_patience sl_trunk_patience_for(const struct sl_trunk_table *t)
{
	if (sl_trunk_needs_all(t))
		return SL_PATIENCE_NONE;
	if (!t->open)
		return gather(t).here >= sl_trunk_least(t) ? SL_PATIENCE_LINK : SL_PATIENCE_NONE;
	if (lacks_ends(t))
		return SL_PATIENCE_LINK;
	return !owes_any(t) && sl_trunk_count(t).ready >= sl_trunk_least(t) ? SL_PATIENCE_PART : SL_PATIENCE_NONE;
}

bool sl_trunk_waits_for(const struct sl_trunk_table *t, int k, enum sl_trunk_patience what)
{
	const struct sl_seat *s = &t->seat[k];

	if (what == SL_PATIENCE_NONE || s->state == SL_SEAT_DONE || s->elsewhere)
		return false;
	if (what == SL_PATIENCE_LINK)
		return s->link == SL_LINK_NONE && s->state == SL_SEAT_IN;
	return !sl_seat_is_ready(t, k) && (s->state == SL_SEAT_IN || s->link != SL_LINK_NONE);
}

static bool may_apply(const struct sl_trunk_table *t)
{
	const struct sl_trunk_tally c = sl_trunk_count(t);

	return !c.awaited && (t->led || c.ready >= sl_trunk_least(t));
}

/* ---- the end of runs */

/* It may have to do its last steps again, for which it needs the others: its last state is not on its disk, and its
 * model is not written. NEVER: its rank has not told of it yet. */
static bool is_unsafe(const struct sl_seat *s)
{
	return s->state == SL_SEAT_NEVER || (s->state == SL_SEAT_IN && (!s->asks || s->link == SL_LINK_NONE));
}

/* The earliest end of a run whose member may have to repeat steps; UINT64_MAX: none. */
static uint64_t unsafe_end(const struct sl_trunk_table *t)
{
	const int end_of = SL_PLANTED(OTHER_RANKS_MAY_REDO) ? t->end : t->n;
	uint64_t end = UINT64_MAX;

	for (int k = 0; k < end_of; k++)
		if (is_unsafe(&t->seat[k]) && t->seat[k].ends_at < end)
			end = t->seat[k].ends_at;
	return end;
}

/* All whose runs end there have their last states on their disks, or their models. */
static bool all_are_safe(const struct sl_trunk_table *t, const struct sl_seat *s)
{
	return !t->own || SL_PLANTED(LEAVES_ALONE) || s->ends_at < unsafe_end(t);
}

bool sl_trunk_may_leave(const struct sl_trunk_table *t, int k)
{
	const struct sl_seat *s = &t->seat[k];

	if (!s->asks || s->link != SL_LINK_OPEN)
		return false;
	if (SL_PLANTED(LEAVE_AT_ONCE))
		return true;
	/* Once its last state is in the store, nobody needs it. It gets the weights at once, and asks again. */
	return all_are_safe(t, s) && (!s->given || !t->keeps || t->stored >= s->number);
}

/* ---- what is next */

static int find_coming(const struct sl_trunk_table *t)
{
	for (int k = t->first; k < t->end; k++)
		if ((t->seat[k].link == SL_LINK_GIVEN && !SL_PLANTED(GIVEN_STAYS_OUT)) ||
		    t->seat[k].link == SL_LINK_JOINING)
			return k;
	return -1;
}

/* Members ask for head and tail, and nobody who is here, or may soon be, has them. */
static bool ends_are_lost(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++) {
		const struct sl_seat *s = &t->seat[k];

		if (s->link == SL_LINK_NONE && s->state == SL_SEAT_IN && !s->tired && !SL_PLANTED(GOES_BACK_AT_ONCE))
			return false;
	}
	return lacks_ends(t);
}

/* A seat that has prepared a step: one that was done without it (`behind`), or one inside its round. */
static int find_prepared(const struct sl_trunk_table *t, bool behind)
{
	for (int k = t->first; k < t->end; k++) {
		const struct sl_seat *s = &t->seat[k];

		if (s->link != SL_LINK_NONE && s->prepared && (s->number < t->step) == behind &&
		    !sl_seat_is_ready(t, k))
			return k;
	}
	return -1;
}

static int find_leaving(const struct sl_trunk_table *t)
{
	for (int k = t->first; k < t->end; k++)
		if (sl_trunk_may_leave(t, k))
			return k;
	return -1;
}

static bool all_have_left(const struct sl_trunk_table *t)
{
	for (int k = 0; k < t->n; k++)
		if (t->seat[k].state != SL_SEAT_DONE || t->seat[k].link != SL_LINK_NONE)
			return false;
	return true;
}

enum sl_trunk_act sl_trunk_next(const struct sl_trunk_table *t, int *seat)
{
	*seat = -1;
	if (sl_trunk_begins_anew(t))
		return begin_anew(t);
	if (t->staying && !t->led && all_have_left(t))
		return SL_TRUNK_OVER;
	if (!t->open)
		return all_here(t) ? SL_TRUNK_CHOOSE : SL_TRUNK_WAIT;
	if ((*seat = find_coming(t)) >= 0)
		return SL_TRUNK_COME;
	if (ends_are_lost(t))
		return SL_TRUNK_BACK;
	if ((*seat = find_prepared(t, true)) >= 0)
		return t->seat[*seat].skip ? SL_TRUNK_CATCH_UP : SL_TRUNK_BEHIND;
	if ((*seat = find_prepared(t, false)) >= 0)
		return SL_TRUNK_STEP;
	if ((*seat = find_leaving(t)) >= 0)
		return SL_TRUNK_LET_GO;
	return may_apply(t) ? SL_TRUNK_APPLY : SL_TRUNK_WAIT;
}

/* ---- events */

static void close_link(struct sl_seat *s)
{
	s->link = SL_LINK_NONE;
	s->hello = NULL;
	s->prepared = s->skip = s->elsewhere = s->anew = false;
}

void sl_trunk_joins(struct sl_trunk_table *t, int k, const struct sl_hello *hello)
{
	close_link(&t->seat[k]);
	t->seat[k].link = SL_LINK_JOINING;
	t->seat[k].hello = hello;
}

void sl_trunk_welcome(struct sl_trunk_table *t, int k, uint64_t number)
{
	struct sl_seat *s = &t->seat[k];

	s->link = SL_LINK_OPEN;
	s->state = SL_SEAT_IN;
	s->prepared = s->skip = s->asks = s->given = s->tired = false;
	s->number = number;
	s->ends_at = s->hello->run_steps;
}

void sl_trunk_needs_ends(struct sl_trunk_table *t, int k)
{
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
	t->seat[k].prepared = true;
	t->seat[k].skip = skip;
}

void sl_trunk_opens(struct sl_trunk_table *t, uint64_t step)
{
	t->open = true;
	t->step = step;
	for (int k = 0; k < t->n && !sl_trunk_needs_all(t); k++)
		if (t->seat[k].link == SL_LINK_NONE && t->seat[k].state == SL_SEAT_IN)
			t->seat[k].state = SL_SEAT_AWAY; /* all others are here, or patience is over */
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
	struct sl_seat *s = &t->seat[k];

	s->asks = true;
	if (!t->own || !t->keeps || s->given || t->stored >= s->number ||
	    SL_PLANTED(ASKING_IS_SAFE)) /* else it has no file of its last state */
		s->state = SL_SEAT_DONE;
}

bool sl_trunk_over(struct sl_trunk_table *t, int k, enum sl_seat_end how)
{
	struct sl_seat *s = &t->seat[k];
	const bool welcomed = s->link == SL_LINK_OPEN;
	const bool breaks = t->whole && t->open && welcomed && s->state == SL_SEAT_IN;

	close_link(s);
	s->given = s->given && how != SL_SEAT_LEFT;
	if (how == SL_SEAT_LEFT && welcomed && sl_seat_is_at_end(s)) {
		s->state = SL_SEAT_DONE;
		t->gone_at = t->step;
	} else if (!sl_trunk_needs_all(t) && (s->asks || (s->given && !SL_PLANTED(GIVEN_IS_GONE))) &&
		   s->state == SL_SEAT_DONE) {
		s->state = SL_SEAT_IN; /* it may lack its last weights, or waits until its last state is stored */
	} else if (!sl_trunk_needs_all(t) && how != SL_SEAT_LOST && s->state == SL_SEAT_IN && (welcomed || !t->open)) {
		s->state = SL_SEAT_AWAY; /* it was stopped, and does not come back soon */
	}
	if (!sl_trunk_needs_all(
		    t)) /* else its own file has its last state: all others may leave, or it comes when all go back */
		s->asks = s->given = false;
	return breaks;
}

void sl_trunk_missed(struct sl_trunk_table *t, int k)
{
	struct sl_seat *s = &t->seat[k];

	s->missed += t->round;
	if (s->state == SL_SEAT_IN && s->link == SL_LINK_NONE)
		s->state = SL_SEAT_AWAY;
}
