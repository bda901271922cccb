/* The table of a trunk's seats (trunk.h: the trained middle, with a seat for each member): who is there, whom a step
 * waits for, and what the trunk does next. It is the loop's; the worker has the records (trunk_records.h), which
 * survive links and restarts. Both are pure: no I/O, no clock, no thread. tests/suite/test_trunk_table.c walks all
 * states of three seats.
 *
 * Four facts of a seat are kept apart. `link`: its link is open. IN: steps wait for it. DONE: its run is finished.
 * EMPTY: its record is no longer needed. */
#ifndef SL_SERVER_TRUNK_TRUNK_TABLE_H
#define SL_SERVER_TRUNK_TRUNK_TABLE_H

#include "common/link/wire.h"

enum sl_seat_state {
	SL_SEAT_IN,    /* it takes part, and steps wait for it, also while its link is lost */
	SL_SEAT_LATE,  /* it takes part, but steps do not wait for it: it must be in time `probation` times first */
	SL_SEAT_AWAY,  /* its run has steps to do, but nobody waits for it: members come and go, or it is too far behind
			*/
	SL_SEAT_DONE,  /* its run is over, and nobody waits for it: it may still fetch its last weights */
	SL_SEAT_EMPTY, /* no member has had it yet; in a record: its member said goodbye after its last step */
};

/* JOINING: the session waits to be welcomed. It may turn out not to be its seat's member, so the seat keeps its state
 * until then. If heads and tails are shared, a member that joins while others train may need theirs. ASKING: the server
 * has asked members for them. GIVEN: they have arrived. */
enum sl_seat_link { SL_LINK_NONE, SL_LINK_JOINING, SL_LINK_ASKING, SL_LINK_GIVEN, SL_LINK_OPEN };

/* ---- the table */

struct sl_seat {
	enum sl_seat_state state;
	enum sl_seat_link link;
	const struct sl_hello *hello; /* of the link; NULL: there is none */
	bool prepared, skip;          /* its part of step `number` is done; skip: that part is empty */
	bool asks;                    /* it has asked for the weights of its last step, and has not got them */
	bool given;     /* it got them, though the server has not stored that step; with `asks`: its model is written */
	bool elsewhere; /* it evaluates, or fetches weights, so it is not late */
	uint64_t number;       /* the step that it does next: the trunk's, or one that was done without it */
	uint64_t ends_at;      /* steps of its run in all; 0: unknown */
	int lapses, probation; /* how often it was waited for in vain; steps until a LATE seat is IN again */
};

/* Sums over the seats of other ranks, as these have last told them. */
struct sl_trunk_far {
	int ready, members, safe;      /* safe: members that are done, and whose last state is on their disk */
	bool elsewhere, end_elsewhere; /* end_elsewhere: a member that is not done is elsewhere */
	bool could;                    /* each of them could do the step */
	uint64_t unsafe_end; /* the earliest end of a run whose member may have to repeat steps; UINT64_MAX: none */
};

struct sl_trunk_table {
	struct sl_seat *seat;
	int n, first, end; /* seats of this rank: first … end - 1 */
	int least;         /* members that a step needs, if members come and go; 0: there are always n */
	bool rounds, ranks;
	bool takes;           /* members come and go, and one that lacks heads and tails gets those of another */
	bool whole;           /* each step needs all seats, which do it together (share.mode: vertical) */
	bool staying;         /* it outlives its members' links */
	bool open;            /* true: it trains; false: it waits until its members have gathered */
	uint64_t step, round; /* the next step (a round's first); steps of a round */
	uint64_t gone_at;     /* by the newest checkpoint, the step at which some members had finished; 0: none */
	struct sl_trunk_far far;
};

/* Sums over the seats of this rank. */
struct sl_trunk_tally {
	int ready, awaited, members;
	bool elsewhere; /* an awaited member is elsewhere */
	bool works;     /* a member that is not awaited may be ready soon */
};

static inline bool sl_seat_is_in(enum sl_seat_state state)
{
	return state == SL_SEAT_IN || state == SL_SEAT_LATE;
}
static inline bool sl_seat_is_at_end(const struct sl_seat *s)
{
	return s->ends_at && s->number >= s->ends_at;
}
/* It was welcomed with another member's head and tail, and has not done a step since: nobody waits for it. */
static inline bool sl_seat_is_newcomer(const struct sl_seat *s)
{
	return s->state == SL_SEAT_LATE && s->link == SL_LINK_OPEN && !s->lapses;
}
/* is_ready: the member's part of the step, or of the round's last step, is done. least: members that a step needs. */
bool sl_seat_is_ready(const struct sl_trunk_table *t, int k);
struct sl_trunk_tally sl_trunk_count(const struct sl_trunk_table *t);
int sl_trunk_least(const struct sl_trunk_table *t);

/* Whether members wait in vain for others that are done: they do not hold the step at which those finished, who do not
 * come back to repeat earlier ones. If they take heads and tails, nobody is left who has these. who: NULL, or [n]. */
bool sl_trunk_left_behind(const struct sl_trunk_table *t, bool who[]);

/* Whether the time share.straggler_s is running: _time_counts for members that a step awaits, _end_counts for members
 * that hold up the end of others' runs. Once it is over nobody waits any more: `tired`, `end_tired` below. */
bool sl_trunk_time_counts(const struct sl_trunk_table *t);
bool sl_trunk_end_counts(const struct sl_trunk_table *t);
/* With ranks. _tell: what this one tells the others about the end of runs. _could: it waits for none of its members. */
struct sl_trunk_far sl_trunk_tell(const struct sl_trunk_table *t);
bool sl_trunk_could(const struct sl_trunk_table *t, bool tired);

enum sl_trunk_act {
	SL_TRUNK_WAIT,
	SL_TRUNK_CHOOSE,   /* all awaited members are here: choose the step to go on from */
	SL_TRUNK_COME,     /* the seat's member comes while others train */
	SL_TRUNK_BEHIND,   /* the seat has prepared a step that was done without it */
	SL_TRUNK_CATCH_UP, /* the seat has skipped a step that was done without it */
	SL_TRUNK_STEP,     /* the seat is ready for a step inside its round */
	SL_TRUNK_LET_GO,   /* some seats get the weights of their last step, and may leave */
	SL_TRUNK_APPLY,    /* do the step, or the end of the round, with all that are ready */
};
/* What to do next, while the worker has no job of this trunk; *seat: for which seat, -1: for none in particular. */
enum sl_trunk_act sl_trunk_next(const struct sl_trunk_table *t, bool tired, bool end_tired, int *seat);
bool sl_trunk_may_leave(const struct sl_trunk_table *t, int k, bool end_tired);

/* Events. joins: the seat has a session that waits to be welcomed. welcome: the member goes on from step
 * `number`; newcomer: with the heads and tails that it got. */
void sl_trunk_joins(struct sl_trunk_table *t, int k, const struct sl_hello *hello);
void sl_trunk_welcome(struct sl_trunk_table *t, int k, uint64_t number, bool newcomer);
/* needs_ends: a member that is JOINING or GIVEN needs heads and tails; nobody waits for it until these are there.
 * has_ends: they have arrived. */
void sl_trunk_needs_ends(struct sl_trunk_table *t, int k);
void sl_trunk_has_ends(struct sl_trunk_table *t);
/* The member's part of its step is done; skip: that part is empty. */
void sl_trunk_prepared(struct sl_trunk_table *t, int k, bool skip);
/* All members go back, and have to gather. Those that still wait for their last weights are awaited, too; those that
 * got them may have left. */
void sl_trunk_gathers(struct sl_trunk_table *t);
/* The trunk trains from `step` on. */
void sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);
/* Members come and go, and nobody waits for this one any more. False: nobody did before. */
bool sl_trunk_out(struct sl_trunk_table *t, int k);
/* The member asks for its last weights, which says that its last state is on its disk. If it is `given`, it asks again,
 * and says that its model is written. */
void sl_trunk_asks(struct sl_trunk_table *t, int k);
/* The member's link is over. LEFT: with a goodbye; PAUSED: it means to come back. True: the step under way cannot be
 * done without it, so that all must gather (`whole`). */
enum sl_seat_end { SL_SEAT_LOST, SL_SEAT_PAUSED, SL_SEAT_LEFT };
bool sl_trunk_over(struct sl_trunk_table *t, int k, enum sl_seat_end how);
/* A step was done: in_time, with the member; late, without it. False: that step did not wait for it. */
void sl_trunk_in_time(struct sl_trunk_table *t, int k);
bool sl_trunk_late(struct sl_trunk_table *t, int k);

#endif
