#include "server/trunk/trunk_records.h"

#include <string.h>

/* tests/suite/test_trunk_table.c plants faults in its own copy of this file, and must find each of them. */
#ifndef SL_PLANTED
#define SL_PLANTED(fault) false
#endif

enum { BACK_MOST = 5 }; /* a member that crashes again and again must not make the others repeat steps for ever */

/* ---- who is done */

static bool run_is_over(const struct sl_record *s)
{
	return s->ends_at && s->number >= s->ends_at;
}

/* The seat's run is over, and all other members that are in have longer runs: so nobody waits for it. */
static bool others_run_on(const struct sl_records *r, const struct sl_record *s)
{
	for (int k = 0; k < r->n; k++) {
		const struct sl_record *other = &r->seat[k];

		if (other != s && other->state == SL_SEAT_IN && other->ends_at <= s->ends_at)
			return false;
	}
	return run_is_over(s);
}

char sl_record_note(const struct sl_records *r, int k)
{
	const struct sl_record *s = &r->seat[k];

	if (r->goes_on)
		return s->state == SL_SEAT_DONE    ? SL_NOTE_FINISHED
		       : s->state == SL_SEAT_AWAY  ? SL_NOTE_AWAY
		       : s->state == SL_SEAT_NEVER ? SL_NOTE_NEVER
						   : SL_NOTE_IN;
	if (SL_PLANTED(NOBODY_NOTES_WHO_LEFT))
		return SL_NOTE_IN;
	if (SL_PLANTED(GOODBYE_MUST_BE_HEARD))
		return s->state == SL_SEAT_NEVER ? SL_NOTE_FINISHED : SL_NOTE_IN;
	return s->state != SL_SEAT_IN || others_run_on(r, s) ? SL_NOTE_FINISHED : SL_NOTE_IN;
}

void sl_records_read_note(struct sl_records *r, const char *note, uint64_t at)
{
	for (int k = r->first; k < r->end && k < (int)strlen(note); k++) { /* other ranks do the same for theirs */
		if (note[k] == SL_NOTE_FINISHED)
			r->seat[k].state = SL_SEAT_DONE;
		else
			r->seat[k].state = note[k] == SL_NOTE_IN      ? SL_SEAT_IN
					   : note[k] == SL_NOTE_NEVER ? SL_SEAT_NEVER
								      : SL_SEAT_AWAY;
	}
	r->gone_at = at;
}

int sl_records_gone(const struct sl_records *r)
{
	int n = 0;

	for (int k = r->first; k < r->end && !r->goes_on; k++)
		n += r->seat[k].state == SL_SEAT_DONE && !r->seat[k].hello;
	return n;
}

void sl_records_await_all(struct sl_records *r)
{
	for (int k = 0; k < r->n; k++)
		if (r->seat[k].state == SL_SEAT_DONE)
			r->seat[k].state = SL_SEAT_IN;
}

/* ---- whether all can go back for one member
 *
 * The server cannot check which steps a member holds: it may have lost its files, have a full disk, or lie. So a step
 * that it names counts only if the store has it, and most of the others hold it, too. Otherwise one member could make
 * all begin anew, or end. */

bool sl_record_newest(const struct sl_record *s, uint64_t *step)
{
	bool any = false;

	for (uint32_t i = 0; i < s->hello->n_held; i++)
		if (s->hello->held[i] < s->number && (!any || s->hello->held[i] > *step)) {
			*step = s->hello->held[i];
			any = true;
		}
	return any;
}

/* A member's last Commit named its two checkpoints. If the older one, pin[1], is later than `step`, that is gone. But
 * one of a pause or of a lost link is not another member's: all must have been asked for two that are later. Members
 * that stay count while their links are lost, too: otherwise it would depend on who comes back first. */
bool sl_records_are_past(const struct sl_records *r, int k, uint64_t step)
{
	int others = 0, later = 0;

	for (int i = r->first; i < r->end; i++) {
		if (i == k || (!r->seat[i].hello && (r->seat[i].state != SL_SEAT_IN || SL_PLANTED(LINKED_ALONE_COUNT))))
			continue;
		others++;
		later += r->seat[i].pin[1] > step;
	}
	return 2 * later > others && r->asked[1] > step && !SL_PLANTED(ONE_TAKES_ALL_BACK);
}

/* It begins anew, though it had a checkpoint, or most of the others have two. */
static bool lost_files(const struct sl_records *r, int k)
{
	if (SL_PLANTED(NONE_TO_LOSE))
		return sl_hello_is_new(r->seat[k].hello) && r->on_disk;
	return sl_hello_is_new(r->seat[k].hello) && (r->seat[k].has_files || sl_records_are_past(r, k, 0));
}

static bool is_stored(const struct sl_records *r, uint64_t step)
{
	for (int i = 0; i < r->n_stored; i++)
		if (r->stored[i] == step)
			return true;
	return false;
}

/* *step: the newest step that it holds, that is stored, and that most of the others hold. False: there is none. */
static bool can_go_back(const struct sl_records *r, int k, uint64_t *step)
{
	const struct sl_hello *h = r->seat[k].hello;
	bool can = false;

	*step = 0;
	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] < r->seat[k].number && (!h->held[i] || is_stored(r, h->held[i])) &&
		    !sl_records_are_past(r, k, h->held[i])) {
			can = true;
			*step = h->held[i] > *step ? h->held[i] : *step;
		}
	return can;
}

/* Only a later step than before resets the count: a member that names two steps in turns must not go on for ever. */
static bool may_go_back(struct sl_records *r, int k)
{
	struct sl_record *s = &r->seat[k];
	uint64_t step;

	if (lost_files(r, k) || !can_go_back(r, k, &step))
		return false;
	if (step > s->back_to) {
		s->back_to = step;
		s->backs = 0;
	}
	return s->backs++ < BACK_MOST;
}

enum sl_come sl_record_come(struct sl_records *r, int k, uint64_t *newest)
{
	struct sl_record *s = &r->seat[k];

	*newest = 0;
	if (sl_hello_holds(s->hello, s->number) && (s->state != SL_SEAT_DONE || sl_hello_is_done(s->hello)))
		return SL_COME_HERE;
	/* A member that was done cannot begin anew while others are here. */
	if (lost_files(r, k) || (s->state == SL_SEAT_DONE && sl_hello_is_new(s->hello)))
		return SL_COME_LOST;
	if (s->state == SL_SEAT_DONE) /* the others need not be there any more */
		return s->hello->run_steps > s->number || SL_PLANTED(ANY_RUN_IS_LONGER) ? SL_COME_LONGER
											: SL_COME_NOWHERE;
	if (sl_record_newest(s, newest) && *newest < r->fixed) /* others left since, and do not repeat steps */
		return SL_COME_OWN;
	return may_go_back(r, k) ? SL_COME_BACK : SL_COME_NOWHERE;
}

void sl_record_came(struct sl_records *r, int k, enum sl_come how)
{
	struct sl_record *s = &r->seat[k];

	if (how == SL_COME_LONGER)
		sl_records_await_all(r);
	if (how == SL_COME_LONGER || how == SL_COME_BACK)
		return;
	s->state = SL_SEAT_IN;
	s->ends_at = s->hello->run_steps;
	if (how == SL_COME_OWN)
		s->number = r->done;
}

void sl_record_forget(struct sl_record *s)
{
	s->number = s->rows = 0;
	memset(s->pin, 0, sizeof s->pin);
	s->has_files = false;
}

/* ---- where all go on from */

/* The step at which the last member of this rank ended: earlier steps cannot be repeated without it. */
static uint64_t left_at(const struct sl_records *r)
{
	uint64_t step = 0;

	for (int k = r->first; k < r->end; k++)
		if (r->seat[k].state != SL_SEAT_IN && !r->seat[k].hello && r->seat[k].number > step)
			step = r->seat[k].number;
	return step;
}

bool sl_records_can_begin(const struct sl_records *r, uint64_t step, const char *left)
{
	const int gone = sl_records_gone(r);

	if (step < left_at(r) || (gone && !r->ranks && step != r->gone_at))
		return false;
	if (!gone || !r->ranks)
		return true;
	for (int k = r->first; k < r->end; k++)
		if (!r->seat[k].hello && r->seat[k].state == SL_SEAT_DONE && (!left || left[k] != SL_NOTE_FINISHED))
			return false;
	return true;
}

static int lacks(const struct sl_records *r, uint64_t step, int *who)
{
	int n = 0;

	for (int k = r->first; k < r->end; k++)
		if (r->seat[k].hello && !sl_hello_holds(r->seat[k].hello, step)) {
			*who = k;
			n++;
		}
	return n;
}

/* The only member here that lacks a checkpoint which all others hold; -1: none, or all hold some checkpoint. */
static int find_odd(const struct sl_records *r)
{
	int odd = -1, who;

	for (int i = 0; i < r->n_stored; i++) {
		const int n = lacks(r, r->stored[i], &who);

		if (!n)
			return -1; /* all can go on from there */
		if (n == 1 && odd < 0)
			odd = who;
	}
	return odd >= 0 && sl_records_are_past(r, odd, 0) ? odd : -1;
}

int sl_records_stranger(const struct sl_records *r)
{
	int fresh = -1;

	for (int k = r->first; k < r->end; k++)
		if (r->seat[k].hello && sl_hello_is_new(r->seat[k].hello))
			fresh = k;
	return fresh >= 0 && lost_files(r, fresh) ? fresh : find_odd(r);
}

void sl_records_begin(struct sl_records *r, uint64_t step)
{
	r->done = r->on_disk = step;
	r->fixed = 0;
	for (int k = r->first; k < r->end && !r->goes_on; k++) {
		struct sl_record *s = &r->seat[k];

		if (s->hello) {
			s->state = SL_SEAT_IN;
			s->ends_at = s->hello->run_steps;
		}
	}
}

/* ---- a step, and the end of a session */

void sl_records_stepped(struct sl_records *r, const struct sl_took *took, uint64_t steps)
{
	for (int k = 0; k < r->n; k++) {
		struct sl_record *s = &r->seat[k];

		if (k < r->first || k >= r->end || !took || took[k].part)
			s->number = r->done + steps;
		else if (took[k].lost && s->state == SL_SEAT_IN)
			s->state = SL_SEAT_AWAY;
	}
	r->done += steps;
}

void sl_record_keeps(struct sl_record *s, const uint64_t kept[2], bool writing, uint64_t next)
{
	for (int i = 0; i < 2; i++)
		s->pin[i] = kept[i] < next ? kept[i] : 0; /* a later one cannot exist */
	s->has_files = s->pin[writing && !SL_PLANTED(BEING_WRITTEN_COUNTS)] != 0;
}

/* The weights may get lost on their way: then the member comes for them once all others have left. */
static void keep_last(struct sl_records *r)
{
	r->stays = r->stays || (r->goes_on && !SL_PLANTED(LAST_FILE_GOES));
}

void sl_record_let_go(struct sl_records *r, int k)
{
	r->seat[k].state = SL_SEAT_DONE;
	r->fixed = r->gone_at = r->done; /* it will not come back to repeat steps with others */
	keep_last(r);
}

void sl_record_over(struct sl_records *r, int k, enum sl_seat_end how)
{
	struct sl_record *s = &r->seat[k];
	const bool finished = how == SL_SEAT_LEFT && (!r->goes_on || run_is_over(s) || SL_PLANTED(ANY_GOODBYE_ENDS));

	s->hello = NULL;
	if (finished) {
		s->state = r->goes_on ? SL_SEAT_DONE : SL_SEAT_NEVER;
		r->fixed = r->done; /* it will not come back to repeat steps with others */
		r->gone_at = r->goes_on ? r->done : r->gone_at;
		keep_last(r);
	} else if (how != SL_SEAT_LOST && r->goes_on && s->state == SL_SEAT_IN) {
		s->state = SL_SEAT_AWAY;
	}
}

static bool is_needed(const struct sl_records *r, const struct sl_record *s)
{
	if (r->goes_on)
		return s->state == SL_SEAT_IN || s->state == SL_SEAT_AWAY;
	/* A member that is done and said no goodbye may still come for its weights: in the file that stays. */
	return s->state == SL_SEAT_IN || (s->state == SL_SEAT_DONE && !r->stays);
}

enum sl_last sl_records_last(const struct sl_records *r, enum sl_seat_end how)
{
	bool anybody = false, needed = false;

	for (int k = r->first; k < r->end; k++) {
		anybody = anybody || r->seat[k].hello;
		needed = needed || is_needed(r, &r->seat[k]);
	}
	if (!anybody && !needed)
		return r->ranks ? SL_LAST_NOTHING : SL_LAST_REMOVE; /* other ranks may still train */
	if (anybody)
		return r->goes_on && how != SL_SEAT_LOST && r->on_disk ? SL_LAST_WRITE : SL_LAST_NOTHING;
	return r->done != r->on_disk || (r->goes_on && how != SL_SEAT_LOST) ? SL_LAST_WRITE : SL_LAST_NOTHING;
}
