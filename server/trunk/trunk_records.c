#include "server/trunk/trunk_records.h"

#include <string.h>

/* tests/suite/test_trunk_table.c plants faults in its own copy of this file, and must find each of them. */
#ifndef SL_PLANTED
#define SL_PLANTED(fault) false
#endif

/* ---- who is done */

static bool run_is_over(const struct sl_record *s)
{
	return s->ends_at && s->number >= s->ends_at;
}

char sl_record_note(const struct sl_records *r, int k)
{
	static const char note[] = {[SL_SEAT_IN] = SL_NOTE_IN,
				    [SL_SEAT_AWAY] = SL_NOTE_AWAY,
				    [SL_SEAT_DONE] = SL_NOTE_FINISHED,
				    [SL_SEAT_NEVER] = SL_NOTE_NEVER};

	return SL_PLANTED(NOBODY_NOTES_WHO_LEFT) ? SL_NOTE_IN : note[r->seat[k].state];
}

/* The weights may get lost on their way: then the member comes for them once all others have left. */
static void keep_last(struct sl_records *r)
{
	r->stays = r->stays || (r->group && !SL_PLANTED(LAST_FILE_GOES));
}

void sl_records_read_note(struct sl_records *r, const char *note, uint64_t at)
{
	for (int k = r->first; k < r->end && k < (int)strlen(note); k++) { /* other ranks do the same for theirs */
		if (note[k] == SL_NOTE_FINISHED) {
			r->seat[k].state = SL_SEAT_DONE;
			keep_last(r);
		} else {
			r->seat[k].state = note[k] == SL_NOTE_IN      ? SL_SEAT_IN
					   : note[k] == SL_NOTE_NEVER ? SL_SEAT_NEVER
								      : SL_SEAT_AWAY;
		}
	}
	r->gone_at = at;
}

bool sl_records_gone(const struct sl_records *r)
{
	for (int k = r->first; k < r->end; k++)
		if (r->seat[k].state == SL_SEAT_DONE && !r->seat[k].hello)
			return true;
	return false;
}

/* ---- whether all can go back for one member
 *
 * The server cannot check which steps a member holds: it may have lost its files, have a full disk, or lie. So a step
 * that it names counts only if all were asked for that checkpoint. A file of a pause is not another member's. */

uint64_t sl_records_left_at(const struct sl_records *r)
{
	uint64_t step = r->fixed;

	for (int k = r->first; k < r->end; k++)
		if (r->seat[k].state == SL_SEAT_DONE && !r->seat[k].hello && r->seat[k].number > step)
			step = r->seat[k].number;
	return step;
}

bool sl_records_can_go_back(const struct sl_records *r, int k)
{
	const struct sl_hello *h = r->seat[k].hello;
	const uint64_t from = sl_records_left_at(r);

	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] >= from && h->held[i] <= r->done &&
		    (h->held[i] == r->asked[0] || h->held[i] == r->asked[1] || SL_PLANTED(ONE_TAKES_ALL_BACK)))
			return true;
	return false;
}

void sl_record_forget(struct sl_record *s)
{
	s->number = s->rows = s->empty = s->clipped = 0;
	memset(s->pin, 0, sizeof s->pin);
	s->has_files = false;
}

/* ---- where all go on from */

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

int sl_records_odd(const struct sl_records *r)
{
	int odd = -1, here = 0, who;

	for (int k = r->first; k < r->end; k++)
		here += r->seat[k].hello != NULL;
	for (int i = 0; i < r->n_stored; i++) {
		const int n = lacks(r, r->stored[i], &who);

		if (!n)
			return -1; /* all can go on from there */
		if (n == 1 && here > 1 && odd < 0)
			odd = who;
	}
	return odd;
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
	s->has_files = s->pin[writing] != 0;
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
	const bool finished = how == SL_SEAT_LEFT && (!r->group || run_is_over(s) || SL_PLANTED(ANY_GOODBYE_ENDS));

	s->hello = NULL;
	if (finished) {
		s->state = SL_SEAT_DONE;
		r->fixed = r->gone_at = r->done; /* it will not come back to repeat steps with others */
		keep_last(r);
	} else if (how != SL_SEAT_LOST && r->group && !r->all && s->state == SL_SEAT_IN) {
		s->state = SL_SEAT_AWAY;
	}
}

enum sl_last sl_records_last(const struct sl_records *r, enum sl_seat_end how)
{
	bool anybody = false, needed = false;

	for (int k = r->first; k < r->end; k++) {
		anybody = anybody || r->seat[k].hello;
		needed = needed || r->seat[k].state == SL_SEAT_IN || r->seat[k].state == SL_SEAT_AWAY;
	}
	if (!anybody && !needed)
		return r->ranks ? SL_LAST_NOTHING : SL_LAST_REMOVE; /* other ranks may still train */
	if (anybody)
		return r->group && how != SL_SEAT_LOST && r->on_disk ? SL_LAST_WRITE : SL_LAST_NOTHING;
	return r->done != r->on_disk || (r->group && how != SL_SEAT_LOST) ? SL_LAST_WRITE : SL_LAST_NOTHING;
}
