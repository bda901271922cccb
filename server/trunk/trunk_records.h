/* What of a trunk's seats survives links and servers, and what follows from it: where a member that comes back goes on
 * from, who is awaited when a server begins again, and when nobody needs the files any more. The worker's; pure, as
 * trunk_table.h is. */
#ifndef SL_SERVER_TRUNK_TRUNK_RECORDS_H
#define SL_SERVER_TRUNK_TRUNK_RECORDS_H

#include "server/trunk/trunk_table.h"

struct sl_record {
	enum sl_seat_state state;     /* never LATE */
	const struct sl_hello *hello; /* of its session; NULL: it has none */
	bool foreign;                 /* the session is another client's than the seat's */
	bool has_files;               /* a checkpoint lies on its disk for sure: whoever begins anew has lost it */
	uint64_t number, ends_at;
	uint64_t pin[2]; /* checkpoints on its disk, or being written: the newest, and the one before */
	uint64_t back_to;
	int backs; /* how often all went back for it, to `back_to` at most */
};

struct sl_records {
	struct sl_record *seat;
	int n, first, end;
	bool varies, ranks;
	uint64_t done, late_at; /* the trunk's step; the newest one that was done without somebody, 0: none */
	uint64_t gone_at;       /* the step behind which those are done that are not here */
	uint64_t on_disk;       /* the newest checkpoint that is known to be there; 0: none */
	bool stays;             /* the newest checkpoint outlives a goodbye, for a longer run */
	const uint64_t *stored; /* [n_stored] checkpoints of this trunk, newest first */
	int n_stored;
};

/* A checkpoint's note on each seat: see sl_records_hear. */
enum { SL_NOTE_IN = '0', SL_NOTE_FINISHED = '1', SL_NOTE_AWAY = '2' };
char sl_record_note(const struct sl_records *r, int k);
/* What the newest checkpoint says, of step `at`. */
void sl_records_hear(struct sl_records *r, const char *note, uint64_t at);
/* Seats that are done and not here. */
int sl_records_gone(const struct sl_records *r);
/* Who is gone has come back for a longer run: everybody is awaited again. */
void sl_records_await_all(struct sl_records *r);

static inline bool sl_hello_is_new(const struct sl_hello *h)
{
	return h->n_held == 1 && h->held[0] == 0;
}
/* The newest step below that of its seat that it holds. False: there is none. */
bool sl_record_newest(const struct sl_record *s, uint64_t *step);
/* Most of the others keep checkpoints behind `step` alone. */
bool sl_records_are_past(const struct sl_records *r, int k, uint64_t step);

/* Where the member of a seat goes on from, that comes while others train. */
enum sl_come {
	SL_COME_HERE,    /* from the seat's step */
	SL_COME_LONGER,  /* its run has become longer: all go back, and everybody is awaited */
	SL_COME_BACK,    /* all go back with it */
	SL_COME_BEHIND,  /* by itself from *newest, though it has done steps since */
	SL_COME_ANEW,    /* it begins anew, by itself */
	SL_COME_LOST,    /* refused: it begins anew and has lost its files */
	SL_COME_NOWHERE, /* refused: there is no step that it and the others hold */
	SL_COME_LATER,   /* once heads and tails of others are there, which it needs */
};
enum sl_come sl_record_come(struct sl_records *r, int k, uint64_t *newest);
/* It comes with the heads and tails of others, of step `number`. It is in once it has done a step. */
void sl_record_newcomer(struct sl_record *s, uint64_t number);
/* It has come so; not for refusals. */
void sl_record_forget(struct sl_record *s); /* its member begins anew */
void sl_record_came(struct sl_records *r, int k, enum sl_come how, uint64_t newest);

/* Whether a trunk whose other members are not here can go on from the step. `left`: the note of that step's checkpoint;
 * NULL: it has none. */
bool sl_records_can_begin(const struct sl_records *r, uint64_t step, const char *left);
/* All go on from the step, whose checkpoint has been read. A member that was behind it then, and has passed the steps
 * that it missed since, holds this step alone. True: there was one, and its seat's state is another than was read. */
bool sl_record_caught_up(const struct sl_records *r, int k, uint64_t step);
void sl_records_begin(struct sl_records *r, uint64_t step);
/* The group had done steps up to that of a checkpoint, which has been read, without the member: it goes on behind the
 * others, from *from. Not where others are elsewhere, or members come and go. */
bool sl_record_was_late(const struct sl_records *r, int k, uint64_t step, uint64_t *from);
/* The seat whose member begins anew or comes from elsewhere, where the others can go on from a checkpoint; -1: none. */
int sl_records_stranger(const struct sl_records *r);

/* A step was done, or a round of `steps`. What each seat of this rank had to do with it: LOST, its link was lost, and
 * nobody waits for it any more. `others_missed`: one of another rank was not in it. */
enum sl_took { SL_TOOK_PART, SL_TOOK_LEFT_OUT, SL_TOOK_MISSED, SL_TOOK_LOST };
void sl_records_stepped(struct sl_records *r, const enum sl_took *took, uint64_t steps, bool others_missed);
/* What its Commit says of its checkpoints: `kept` of the next step, of which the newest may still be being written. */
void sl_record_keeps(struct sl_record *s, const uint64_t kept[2], bool writing, uint64_t next);
/* It gets the weights of its last step, and may leave: this is on the disk before it hears so. */
void sl_record_let_go(struct sl_records *r, int k);
/* Its session is over; and what is to be done with the files, if it was the last one. */
void sl_record_over(struct sl_records *r, int k, enum sl_seat_end how);
enum sl_last { SL_LAST_NOTHING, SL_LAST_WRITE, SL_LAST_REMOVE };
enum sl_last sl_records_last(const struct sl_records *r, enum sl_seat_end how);

#endif
