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
	uint64_t pin[2]; /* the member's checkpoints: the newest, maybe still being written, and the one before */
	uint64_t back_to;
	int backs; /* how often all went back for the member, to step `back_to` or an earlier one */
};

struct sl_records {
	struct sl_record *seat;
	int n, first, end;      /* seats; those of this rank: first … end - 1 */
	bool goes_on, ranks;    /* steps may be done without a member; other ranks have some of the seats */
	uint64_t done, fixed;   /* the trunk's next step; nobody goes back to before `fixed`: a member has left there */
	uint64_t gone_at;       /* the step at which members that are not here had finished */
	uint64_t on_disk;       /* the newest checkpoint that is known to be there; 0: none */
	uint64_t complete;      /* the same, with head and tail where a group that goes on shares these */
	uint64_t asked[2];      /* of the checkpoints that all were asked for, the newest and the one before */
	bool stays;             /* the newest checkpoint stays after a goodbye, so that the run can be made longer */
	const uint64_t *stored; /* [n_stored] steps of this trunk's checkpoints, newest first */
	int n_stored;
};

/* The character for a seat in a checkpoint's note (keep.h). FINISHED: its run is over, so that it may leave. */
enum { SL_NOTE_IN = '0', SL_NOTE_FINISHED = '1', SL_NOTE_AWAY = '2', SL_NOTE_NEVER = '3' };
char sl_record_note(const struct sl_records *r, int k);
/* Sets the states of seats by the note of the newest checkpoint, which is of step `at`. */
void sl_records_read_note(struct sl_records *r, const char *note, uint64_t at);
/* The number of seats that are done and have no session; 0 in a group that goes on. */
int sl_records_gone(const struct sl_records *r);
/* A member that was done has come back for a longer run: all seats that are done are awaited again. */
void sl_records_await_all(struct sl_records *r);

/* Another client than the seat's can begin anew there: the seat's run has kept no file. */
static inline bool sl_record_can_begin_anew(const struct sl_record *s)
{
	return !s->has_files && sl_hello_holds(s->hello, 0);
}
/* The newest step below that of its seat that the member holds. False: there is none. */
bool sl_record_newest(const struct sl_record *s, uint64_t *step);
/* Most members other than k have two checkpoints that are both later than `step`. */
bool sl_records_are_past(const struct sl_records *r, int k, uint64_t step);

/* Where a member that comes while others train goes on from. */
enum sl_come {
	SL_COME_HERE,    /* from the seat's step */
	SL_COME_LONGER,  /* its run has become longer: all go back, and everybody is awaited */
	SL_COME_BACK,    /* all go back with it */
	SL_COME_OWN,     /* from the trunk's step, with the head and tail of *newest, which it has */
	SL_COME_LOST,    /* refused: it begins anew and has lost its files */
	SL_COME_NOWHERE, /* refused: there is no step that it and the others hold */
	SL_COME_LATER,   /* it needs heads and tails of others, and waits until these are there */
};
/* In a group that does not go on. */
enum sl_come sl_record_come(struct sl_records *r, int k, uint64_t *newest);
void sl_record_forget(struct sl_record *s); /* its member begins anew */
/* Updates the record of a member that came as `how`, which is no refusal and not LATER. */
void sl_record_came(struct sl_records *r, int k, enum sl_come how);

/* Whether the trunk can go on from `step` without the members that are not here. `left`: the note of that step's
 * checkpoint; NULL: it has none. */
bool sl_records_can_begin(const struct sl_records *r, uint64_t step, const char *left);
void sl_records_begin(struct sl_records *r, uint64_t step); /* all go on from `step`, whose checkpoint was read */
/* The seat whose member begins anew, or holds none of the others' steps, while the others can go on from a checkpoint;
 * -1: none. */
int sl_records_stranger(const struct sl_records *r);

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

#endif
