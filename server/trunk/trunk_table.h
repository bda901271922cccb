/* What a trunk does next: who is there, and whom a step waits for. The loop's; what of each seat survives links and
 * servers is the worker's (trunk_records.h). Both are pure: no I/O, no clock, no thread. tests/suite/test_trunk_table.c
 * walks all states of three seats.
 *
 * Four facts have four words. The link is closed: `link`. The seat is awaited: IN. The run is finished: DONE. The
 * record is no longer needed: a record that is EMPTY. */
#ifndef SL_SERVER_TRUNK_TRUNK_TABLE_H
#define SL_SERVER_TRUNK_TRUNK_TABLE_H

#include "common/link/wire.h"

enum sl_seat_state {
	SL_SEAT_IN,    /* it takes part, and steps wait for it, also while its link is lost */
	SL_SEAT_LATE,  /* it takes part, and steps do not wait: it must be in time `probation` times first */
	SL_SEAT_AWAY,  /* its run has steps to do, and nobody waits for it (where members come and go) */
	SL_SEAT_DONE,  /* its run is over, and nobody waits for it: it may come for what is behind its last step */
	SL_SEAT_EMPTY, /* nobody has had it yet; a record: its member has said goodbye behind its last step */
};

/* A session that is JOINING may not be its seat's member. So the seat keeps its state until the welcome. */
/* Where heads and tails are shared, one that JOINS while others train may need theirs. ASKING: they are asked for.
 * GIVEN: they are there. */
enum sl_seat_link { SL_LINK_NONE, SL_LINK_JOINING, SL_LINK_ASKING, SL_LINK_GIVEN, SL_LINK_OPEN };

/* ---- the loop's */

struct sl_seat {
	enum sl_seat_state state;
	enum sl_seat_link link;
	const struct sl_hello *hello; /* of the link; NULL: there is none */
	bool prepared, skip;          /* its part of the step `number` is done; there is none to add */
	bool asks;                    /* it has asked for the weights of its last step, and has not got them */
	bool elsewhere;               /* it evaluates, or takes weights: it is not late */
	uint64_t number;              /* the step it does next: the trunk's, or one that was done without it */
	uint64_t ends_at;             /* steps of its run in all; 0: unknown */
	int lapses, probation;        /* how often it was waited for in vain; as in SL_SEAT_LATE */
};

/* What other ranks have told. */
struct sl_trunk_far {
	int ready, members, safe;
	bool elsewhere, end_elsewhere;
	bool could;          /* each of them could do the step */
	uint64_t unsafe_end; /* the lowest end of a run whose member may have to redo steps; UINT64_MAX: of none */
};

struct sl_trunk_table {
	struct sl_seat *seat;
	int n, first, end; /* seats of this rank: first … end - 1 */
	int least;         /* members that a step needs, where they come and go; 0: there are n, all the time */
	bool rounds, ranks;
	bool staying; /* it outlives its members' links */
	bool open;    /* OPEN: it trains; else GATHER. APPLY is a job of the worker */
	uint64_t step, round;
	uint64_t gone_at; /* by the newest checkpoint some were done behind this step; 0: nobody */
	struct sl_trunk_far far;
};

/* What the seats of this rank add up to. */
struct sl_trunk_tally {
	int ready, awaited, members;
	bool elsewhere; /* one of the awaited is */
	bool works;     /* one that is not awaited may be ready soon */
};

static inline bool sl_seat_is_in(enum sl_seat_state state)
{
	return state == SL_SEAT_IN || state == SL_SEAT_LATE;
}
static inline bool sl_seat_is_at_end(const struct sl_seat *s)
{
	return s->ends_at && s->number >= s->ends_at;
}
/* It was welcomed with others' head and tail, and has not said anything since: nobody waits for it. */
static inline bool sl_seat_is_newcomer(const struct sl_seat *s)
{
	return s->state == SL_SEAT_LATE && s->link == SL_LINK_OPEN && !s->lapses;
}
bool sl_seat_is_ready(const struct sl_trunk_table *t, int k);
struct sl_trunk_tally sl_trunk_count(const struct sl_trunk_table *t);
int sl_trunk_least(const struct sl_trunk_table *t);

/* Whether time counts for whoever is awaited, and for whoever holds up the end of others' runs: once it has counted for
 * share.straggler_s, nobody waits any more (`tired`). */
bool sl_trunk_time_counts(const struct sl_trunk_table *t);
bool sl_trunk_end_counts(const struct sl_trunk_table *t);
/* With ranks: what this one tells the others of the end of runs; whether it waits for nobody of its own. */
struct sl_trunk_far sl_trunk_tell(const struct sl_trunk_table *t);
bool sl_trunk_could(const struct sl_trunk_table *t, bool tired);

enum sl_trunk_act {
	SL_TRUNK_WAIT,
	SL_TRUNK_CHOOSE,   /* all that are awaited are here: choose the step to go on from */
	SL_TRUNK_COME,     /* the seat's member comes while others train */
	SL_TRUNK_BEHIND,   /* the seat has prepared a step that was done without it */
	SL_TRUNK_CATCH_UP, /* the seat has skipped a step that was done without it */
	SL_TRUNK_STEP,     /* the seat is ready for a step inside its round */
	SL_TRUNK_LET_GO,   /* some seats get the weights of their last step, and may leave */
	SL_TRUNK_APPLY,
};
/* What is next, while the worker has no job of this trunk. */
enum sl_trunk_act sl_trunk_next(const struct sl_trunk_table *t, bool tired, bool end_tired, int *seat);
bool sl_trunk_may_leave(const struct sl_trunk_table *t, int k, bool end_tired);

/* Its events. A link; the member is welcomed, to the step `number`. */
void sl_trunk_joins(struct sl_trunk_table *t, int k, const struct sl_hello *hello);
void sl_trunk_welcome(struct sl_trunk_table *t, int k, uint64_t number);
/* The member that is JOINING or GIVEN needs heads and tails: until these are there nobody waits for it. What was asked
 * for is there. One that gets it is welcomed as a newcomer. */
void sl_trunk_needs_ends(struct sl_trunk_table *t, int k);
void sl_trunk_has_ends(struct sl_trunk_table *t);
void sl_trunk_welcome_newcomer(struct sl_trunk_table *t, int k, uint64_t number);
/* The seat's part of its step is done. */
void sl_trunk_prepared(struct sl_trunk_table *t, int k, bool skip);
/* All go back, and are awaited; but those that may have left. */
void sl_trunk_gathers(struct sl_trunk_table *t);
/* It trains, from `step` on. */
void sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);
/* Nobody waits for the seat any more, where members come and go. False: nobody did. */
bool sl_trunk_out(struct sl_trunk_table *t, int k);
/* Its state behind the last step is on its disk. */
void sl_trunk_asks(struct sl_trunk_table *t, int k);
/* Its link is over. LEFT: with a goodbye; PAUSED: it means to come back. */
enum sl_seat_end { SL_SEAT_LOST, SL_SEAT_PAUSED, SL_SEAT_LEFT };
void sl_trunk_over(struct sl_trunk_table *t, int k, enum sl_seat_end how);
/* A step was done with it, or without it. False: that step did not wait for it. */
void sl_trunk_in_time(struct sl_trunk_table *t, int k);
bool sl_trunk_late(struct sl_trunk_table *t, int k);

#endif
