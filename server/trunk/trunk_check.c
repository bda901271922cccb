/* What holds of a table of seats between two events, of their records between two jobs, and of a trunk: assertions.
 * Members cannot break them, whatever they send. */
#include "common/base/assert.h"
#include "server/trunk/trunk.h"

static void check_seat(const struct sl_trunk_table *t, int k)
{
	const struct sl_seat *s = &t->seat[k];

	if (k >= t->first && k < t->end)
		sl_assert((s->link == SL_LINK_NONE) == !s->hello);
	/* what a link brought goes with it */
	if (s->link == SL_LINK_NONE)
		sl_assert(!s->prepared && !s->skip && !s->elsewhere && !s->anew);
	sl_assert_if(s->skip, s->prepared);
	sl_assert_if(s->anew, s->link == SL_LINK_JOINING);
	/* only a member that was welcomed does a step, and nobody loses patience where each step needs all */
	if (k >= t->first && k < t->end)
		sl_assert_if(s->prepared, s->link == SL_LINK_OPEN);
	sl_assert_if(s->tired, !sl_trunk_needs_all(t));
	if (s->link == SL_LINK_OPEN)
		sl_assert(s->state == SL_SEAT_IN || s->state == SL_SEAT_DONE);
	/* heads and tails are handed over while others train */
	if (!t->open)
		sl_assert(s->link != SL_LINK_ASKING && s->link != SL_LINK_GIVEN);
	/* nobody is further than the round under way */
	if (t->open && s->link == SL_LINK_OPEN)
		sl_assert_int(s->number, <=, t->step + t->round);
}

void sl_trunk_check(const struct sl_trunk_table *t)
{
	sl_assert(0 <= t->first && t->first <= t->end && t->end <= t->n);
	sl_assert_int(t->quorum, >=, 1);
	sl_assert_int(t->quorum, <=, t->n);
	sl_assert(t->least >= 0 && t->least <= 1);
	sl_assert_int(t->round, >=, 1);
	for (int k = 0; k < t->n; k++)
		check_seat(t, k);
}

void sl_trunk_check_act(const struct sl_trunk_table *t, enum sl_trunk_act act, int seat)
{
	const struct sl_trunk_tally c = sl_trunk_count(t);

	sl_assert_int(seat, >=, -1);
	sl_assert_int(seat, <, t->n);
	switch (act) {
	case SL_TRUNK_APPLY: /* a step has its quorum, and leaves out nobody whom it is owed to */
		sl_assert(t->open && !c.awaited);
		if (!t->led)
			sl_assert_int(c.ready, >=, sl_trunk_least(t));
		for (int k = t->first; k < t->end; k++)
			sl_assert_if(sl_trunk_owes(t, k), sl_seat_is_ready(t, k));
		break;
	case SL_TRUNK_BEHIND:
	case SL_TRUNK_CATCH_UP:
		sl_assert_int(t->seat[seat].number, <, t->step);
		break;
	case SL_TRUNK_STEP:
		sl_assert(t->seat[seat].prepared && t->seat[seat].number >= t->step);
		break;
	case SL_TRUNK_COME:
		sl_assert(t->open && t->seat[seat].link != SL_LINK_NONE && t->seat[seat].link != SL_LINK_OPEN);
		break;
	case SL_TRUNK_LET_GO:
		sl_assert(t->seat[seat].asks && t->seat[seat].link == SL_LINK_OPEN);
		break;
	case SL_TRUNK_WAIT:
	case SL_TRUNK_CHOOSE:
	case SL_TRUNK_BACK:
	case SL_TRUNK_OVER:
		break;
	}
}

void sl_records_check(const struct sl_records *r)
{
	sl_assert(0 <= r->first && r->first <= r->end && r->end <= r->n);
	sl_assert_int(r->on_disk, <=, r->done);
	sl_assert_int(r->complete, <=, r->on_disk); /* head and tail come behind the middle */
	sl_assert_int(r->fixed, <=, r->done);
	sl_assert_int(r->n_stored, >=, 0);
	for (int i = 1; i < r->n_stored; i++)
		sl_assert_int(r->stored[i - 1], >, r->stored[i]);
	for (int k = r->first; k < r->end; k++) {
		const struct sl_record *s = &r->seat[k];

		sl_assert_int(s->state, <=, SL_SEAT_NEVER);
		sl_assert_if(s->foreign, r->group);
	}
}

void sl_trunk_check_whole(const struct sl_trunk *t)
{
	sl_assert_int(t->state, ==, SL_TRUNK_WHOLE);
	sl_assert_int(sl_exec_done(t->exec), ==, t->r.done);
	sl_assert_int(t->from, <=, t->r.done);
	sl_records_check(&t->r);
}

void sl_trunk_check_pins(const struct sl_keep *k)
{
	sl_assert_int(k->n_pin, >=, 0);
	sl_assert_int(k->n_pin, <=, SL_CHECKPOINT_MAX_PINS);
	for (int i = 0; i < k->n_pin; i++) {
		sl_assert_int(k->pin[i], >, 0); /* nobody needs a file of the first weights */
		for (int j = 0; j < i; j++)
			sl_assert_int(k->pin[i], !=, k->pin[j]);
	}
}
