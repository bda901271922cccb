/* A trunk (trunk.h) is a middle that steps train; each client that trains it has a seat. These are the records of its
 * seats, which survive links and restarts of the server. They decide where a member that comes
 * back goes on from, whom a restarted server waits for, and when nobody needs the files any more. Pure functions, as in
 * trunk_table.h; called on the worker. */
#ifndef SL_SERVER_TRUNK_TRUNK_RECORDS_H
#define SL_SERVER_TRUNK_TRUNK_RECORDS_H

#include "server/trunk/trunk_table.h"

struct sl_record {
	enum sl_seat_state state;
	const struct sl_hello *hello; /* of the seat's session; NULL: it has none */
	bool foreign;                 /* the session is not of the client that the seat belongs to */
	bool has_files;               /* its member surely has a checkpoint: one that begins anew has lost its files */
	uint64_t number, ends_at;     /* the step that it does next; steps of its run in all; 0: not known */
	uint64_t rows;                /* of all steps that it took part in */
	uint64_t empty, clipped; /* steps that it was in without a gradient: not finite, or above share.member_norm;
				    and with one that was scaled down to it */
	uint64_t pin[2]; /* the member's checkpoints: the newest, maybe still being written, and the one before */
};

struct sl_records {
	struct sl_record *seat;
	int n, first, end;    /* seats; those of this rank: first … end - 1 */
	bool group;           /* the seats are a group's members */
	bool all, ranks;      /* each step needs all of them; other ranks have some of the seats */
	uint64_t done, fixed; /* the trunk's next step; nobody goes back to before `fixed`: a member has left there, or
				 members did not all hold a step when they went on from there */
	uint64_t gone_at;     /* the step at which members that are not here had finished */
	uint64_t on_disk;     /* the newest checkpoint that is known to be there; 0: none */
	uint64_t complete;    /* the same, with head and tail where a group gives these */
	uint64_t asked[2];    /* of the checkpoints that all were asked for, the newest and the one before */
	bool stays;           /* the newest checkpoint stays after a goodbye, so that the run can be made longer */
	const uint64_t *stored; /* [n_stored] steps of this trunk's checkpoints, newest first */
	int n_stored;
};

/* The character for a seat in a checkpoint's note (keep.h). FINISHED: its run is over, so that it may leave. */
enum { SL_NOTE_IN = '0', SL_NOTE_FINISHED = '1', SL_NOTE_AWAY = '2', SL_NOTE_NEVER = '3' };
char sl_record_note(const struct sl_records *r, int k);
/* Sets the states of seats by the note of the newest checkpoint, which is of step `at`. */
void sl_records_read_note(struct sl_records *r, const char *note, uint64_t at);
/* Whether seats of this rank are done and have no session. */
bool sl_records_gone(const struct sl_records *r);

/* Another client than the seat's can begin anew there: the seat's run has kept no file. */
static inline bool sl_record_can_begin_anew(const struct sl_record *s)
{
	return !s->has_files && sl_hello_holds(s->hello, 0);
}
/* Where a member that comes while others train goes on from. */
enum sl_come {
	SL_COME_HERE,  /* it goes on, with the state that it has, or that it gets */
	SL_COME_BACK,  /* all go back with it */
	SL_COME_LATER, /* it needs heads and tails of others, and waits until these are there */
};
/* Whether all can go back to a step that member k holds: all were asked for its checkpoint, or can begin anew, and
 * nobody has left behind it. */
bool sl_records_can_go_back(const struct sl_records *r, int k);
/* The step at which the last member of this rank ended: earlier ones cannot be done again without it. */
uint64_t sl_records_left_at(const struct sl_records *r);
void sl_record_forget(struct sl_record *s); /* its member begins anew */
/* The only member here that lacks a checkpoint which all others hold; -1: none, or all hold some checkpoint. */
int sl_records_odd(const struct sl_records *r);

/* A step, or a round of `steps`, was done. took: [n], whether the seat took part; NULL: all did. lost: it did not, and
 * has no link. */
struct sl_took {
	bool part, lost;
};
void sl_records_stepped(struct sl_records *r, const struct sl_took *took, uint64_t steps);
/* Notes the member's checkpoints, as its Commit names them, newest first. `writing`: the newest is not yet on its disk.
 * `next`: the step that it does next. */
void sl_record_keeps(struct sl_record *s, const uint64_t kept[2], bool writing, uint64_t next);
/* The member gets the weights of its last step, and may leave. The caller stores that before it answers the member. */
void sl_record_let_go(struct sl_records *r, int k);
/* over: the session of seat k has ended. last: what to do with the files then. */
void sl_record_over(struct sl_records *r, int k, enum sl_seat_end how);
enum sl_last { SL_LAST_NOTHING, SL_LAST_WRITE, SL_LAST_REMOVE };
enum sl_last sl_records_last(const struct sl_records *r, enum sl_seat_end how);
void sl_records_check(const struct sl_records *r); /* trunk_check.c: assertions on records between two jobs */

#endif
