/* The table of a trunk's seats (trunk.h: the trained middle, with a seat for each member): who is there, whom a step
 * waits for, and what the trunk does next. It is the loop's; the worker has the records (trunk_records.h), which
 * survive links and restarts. Both are pure: no I/O, no clock, no thread. tests/suite/test_trunk_table.c walks all
 * states of three seats.
 *
 * A group does a step without a member for which it has waited long enough, unless that member is owed the step. A
 * member that comes back gets the group's head and tail, or goes on with its own. Where each step needs all members
 * (share.least: 1), the group goes back with a member that comes back behind it, if all hold a checkpoint. */
#ifndef SL_SERVER_TRUNK_TRUNK_TABLE_H
#define SL_SERVER_TRUNK_TRUNK_TABLE_H

#include "common/link/wire.h"

enum sl_seat_state {
	SL_SEAT_IN,    /* it takes part, and steps wait for it, also while its link is lost */
	SL_SEAT_AWAY,  /* a step was done while its link was lost: nobody waits for it unless it is owed a step */
	SL_SEAT_DONE,  /* its run is over, and nobody waits for it: it may still fetch its last weights */
	SL_SEAT_NEVER, /* no member has had it yet */
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
	bool anew;      /* it is JOINING, and asks that the group begin anew (--fresh), which all have to ask */
	bool elsewhere; /* it evaluates, or fetches weights, so it is not late */
	bool tired;     /* the group has waited for it as long as it does (share.patience_s) */
	uint64_t number;  /* the step that it does next: the trunk's, or one that was done without it */
	uint64_t ends_at; /* steps of its run in all; 0: unknown */
	uint64_t missed;  /* steps that were done without it */
};

struct sl_trunk_table {
	struct sl_seat *seat;
	int n, first, end; /* seats of this rank: first … end - 1; the others' are as these have last told them */
	bool led; /* another rank decides about steps, and where all go on from: CHOOSE and APPLY mean that this rank's
		     seats are ready for it */
	int quorum;   /* members that a step needs */
	double least; /* part of its steps that each member must have; 1: each step needs all that are not done */
	bool anyway;  /* it goes on though a member gets less (share.unmet: go_on) */
	bool own; /* and if each step needs all: nobody can give a member a head and tail, so its own file has to have
		     them */
	bool rounds;
	bool whole;      /* all members do each pass together (share.mode: vertical) */
	bool staying;    /* with other ranks: it outlives its members' links, until all are done (OVER) */
	bool open;       /* true: it trains; false: it waits until its members have gathered */
	uint64_t stored; /* the newest step whose state is in the store, with head and tail where these are shared */
	bool keeps;      /* there is a store, and members ask for checkpoints */
	uint64_t step, round; /* the next step (a round's first); steps of a round */
	uint64_t gone_at;     /* the newest checkpoint's step, and later that at which a member finished; 0: none */
};

/* Sums over all seats; if the rank is led, over its own. awaited: the step waits for them. */
struct sl_trunk_tally {
	int ready, awaited;
};

static inline bool sl_seat_is_at_end(const struct sl_seat *s)
{
	return s->ends_at && s->number >= s->ends_at;
}
static inline bool sl_trunk_needs_all(const struct sl_trunk_table *t)
{
	return t->least >= 1;
}
/* is_ready: the member's part of the step, or of the round's last step, is done. */
bool sl_seat_is_ready(const struct sl_trunk_table *t, int k);
/* No step may be done without the member: it would miss more than share.least allows, or it has never come. */
bool sl_trunk_owes(const struct sl_trunk_table *t, int k);
struct sl_trunk_tally sl_trunk_count(const struct sl_trunk_table *t);
/* Members that a step needs; those that are done need not be there. */
int sl_trunk_least(const struct sl_trunk_table *t);
/* What the group could do without members that it waits for, so that the time counts: open without those that have no
 * LINK, or do the step without those whose PART is missing. */
enum sl_trunk_patience { SL_PATIENCE_NONE, SL_PATIENCE_LINK, SL_PATIENCE_PART };
enum sl_trunk_patience sl_trunk_patience_for(const struct sl_trunk_table *t);
/* Whether the time that it waits for member k counts, by what sl_trunk_patience_for says. */
bool sl_trunk_waits_for(const struct sl_trunk_table *t, int k, enum sl_trunk_patience what);

enum sl_trunk_act {
	SL_TRUNK_WAIT,
	SL_TRUNK_CHOOSE,   /* all awaited members are here: choose the step to go on from */
	SL_TRUNK_COME,     /* the seat's member comes while others train */
	SL_TRUNK_BACK,     /* nobody who is here, or may soon be, has head and tail: all gather */
	SL_TRUNK_BEHIND,   /* the seat has prepared a step that was done without it */
	SL_TRUNK_CATCH_UP, /* the seat has skipped a step that was done without it */
	SL_TRUNK_STEP,     /* the seat is ready for a step inside its round */
	SL_TRUNK_LET_GO,   /* some seats get the weights of their last step, and may leave */
	SL_TRUNK_APPLY,    /* do the step, or the end of the round, with all that are ready */
	SL_TRUNK_OVER,     /* with other ranks: all are done, and gone */
};
/* What to do next, while the worker has no job of this trunk; *seat: for which seat, -1: for none in particular. */
enum sl_trunk_act sl_trunk_next(const struct sl_trunk_table *t, int *seat);
/* trunk_check.c: assertions on a table between two events, and on what sl_trunk_next says. */
void sl_trunk_check(const struct sl_trunk_table *t);
void sl_trunk_check_act(const struct sl_trunk_table *t, enum sl_trunk_act act, int seat);
bool sl_trunk_may_leave(const struct sl_trunk_table *t, int k);
/* Whether all that are here ask to begin anew: they wait for the others to come and ask, too. */
bool sl_trunk_begins_anew(const struct sl_trunk_table *t);

/* Events. joins: the seat has a session that waits to be welcomed. welcome: the member goes on from step `number`. */
void sl_trunk_joins(struct sl_trunk_table *t, int k, const struct sl_hello *hello);
void sl_trunk_welcome(struct sl_trunk_table *t, int k, uint64_t number);
/* needs_ends: a member that is JOINING or GIVEN needs heads and tails. has_ends: they have arrived. */
void sl_trunk_needs_ends(struct sl_trunk_table *t, int k);
void sl_trunk_has_ends(struct sl_trunk_table *t);
/* The member's part of its step is done; skip: that part is empty. */
void sl_trunk_prepared(struct sl_trunk_table *t, int k, bool skip);
/* All members go back, and have to gather, also those that wait for their last weights, or to leave. */
void sl_trunk_gathers(struct sl_trunk_table *t);
/* The trunk trains from `step` on. Unless it needs all, nobody waits any more for members that have no link. */
void sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);
/* The member asks for its last weights, which says that its last state is on its disk. If it is `given`, it asks again,
 * and says that its model is written. */
void sl_trunk_asks(struct sl_trunk_table *t, int k);
/* The member's link is over. LEFT: with a goodbye; PAUSED: it means to come back. True: the step under way cannot be
 * done without it, so that all must gather (`whole`). */
enum sl_seat_end { SL_SEAT_LOST, SL_SEAT_PAUSED, SL_SEAT_LEFT };
bool sl_trunk_over(struct sl_trunk_table *t, int k, enum sl_seat_end how);
/* A step, or round, was done without the member. */
void sl_trunk_missed(struct sl_trunk_table *t, int k);

#endif
