/* The inside of a group, only for the files group*.c; with the functions that they share on the loop's thread. */
#ifndef SL_SERVER_GROUP_GROUP_IMPL_H
#define SL_SERVER_GROUP_GROUP_IMPL_H

#include "common/session/fold.h"
#include "common/session/turns.h"
#include "server/group/group.h"
#include "server/group/group_log.h"
#include "server/group/ranks.h"
#include "server/trunk/middle_task.h"
#include "server/trunk/trunk_records.h"

/* A member that comes, or a checkpoint, needs a head and tail, and the server asked this member for its own, or for
 * their hash. WRONG: most of the others have a different head and tail. OLD: these are of an earlier step, since a
 * message to it was lost; it is not asked again before it has done the step. */
enum sl_group_answer { ANSWER_NONE, ANSWER_AWAITED, ANSWER_THERE, ANSWER_WRONG, ANSWER_OLD };

/* Whose head and tail a member that comes has got. */
enum { FROM_NOBODY, FROM_STORE, FROM_MEMBER /* and its number */ };

/* A client as it has proven to be. */
struct sl_group_client {
	uint8_t session[SL_SESSION_BYTES]; /* its run; zeros: nobody */
	struct sl_key key;                 /* zeros: there was no auth */
};

/* What the loop knows of a member, besides its seat in the table. */
struct sl_group_member {
	struct sl_middle *m;          /* its session; NULL: none */
	int entered;                  /* its sessions that are admitted and not over, m among them */
	enum sl_conf_share_role role; /* in a vertical group: of m, or of the last one that was admitted */
	int sends;                    /* the same: of the middle's inputs those that it gives; 0: all, or none */
	int backward;    /* the same: chunks of the pass whose head_grad was begun; -1: its order is back */
	uint64_t misses; /* steps that were done without it since its last one */
	/* how long a step waits for it, unless it needs all (group_await.c) */
	uint64_t began_ms; /* when it could begin the step under way */
	uint64_t waits_ms; /* since when the group could go on without it; 0: not */
	uint64_t usual_ms; /* its usual time for a step; 0: not known */
	int64_t credit_ms; /* how long the group still waits for it */
	enum sl_group_answer answer;
	uint64_t asked;    /* the step before which its head and tail were asked for */
	uint64_t asked_ms; /* and when */
	int64_t idle_s;    /* since when others wait for it though it has a link; 0: they do not */
	int64_t away_s;    /* when its last link ended; 0: it has had none since this server knows the group */
	uint64_t reported; /* the step behind that of its last report; 0: none */
	int got, shuns; /* FROM_…: what it got as it came; what it could not open, so that others are asked first */
	struct sl_group_client owner; /* whose the seat is: as the worker knew behind the last job that may change it */
	struct sl_group_client asked_for; /* the last client that was refused here, and why */
	char refused[200];                /* "": none was */
};

/* What the worker knows of a member, besides its record. It outlives the member's links. */
struct sl_group_seat {
	struct sl_middle *m;           /* its session, from sl_group_lend to sl_group_last */
	uint64_t made;                 /* the branch that made its state before step `number`; 0: the initial weights */
	struct sl_codecs_state codecs; /* state of its last session's codecs, if `kept` */
	uint64_t codec_bytes;          /* bytes that are counted for these: the most so far */
	struct sl_charge charge;       /* these, and in rounds the copy: of the member's client */
	bool kept;
	uint64_t turns; /* of its last session; 0: not known */
	bool copied;    /* in rounds: its copy has its own moments, since this server made it or read it */
	bool fresh;     /* the session's codecs have not been given that state yet, so theirs must not replace it */
	uint8_t session[SL_SESSION_BYTES]; /* the session that the seat belongs to; zeros: nobody has been welcomed */
	struct sl_key owner;               /* the key of that client; zeros: there was no auth */
	uint64_t asked_ms, asked_at;       /* when it asked alone to begin anew, 0: never, and behind which step */
};

enum {
	SL_GROUP_MEANS = 3,             /* of the step under way, and of two that a late member may still need */
	SL_GROUP_HEARS_MS = 20,         /* how often a rank without a group looks for letters of others */
	SL_GROUP_COME_AGAIN_MS = 120000 /* by then all clients have tried again: their back-off is at most 32 s */
};

/* The mean change of all heads and tails in a step, as it is sent to members: the run end_mean. */
struct sl_group_mean {
	uint64_t step;
	bool whole; /* `run` is complete */
	struct sl_buf run;
};

/* Shared heads and tails. */
struct sl_group_ends {
	struct sl_end_layout layout;
	struct sl_end_sum sum;
	size_t bound;        /* most bytes of a run */
	struct sl_buf state; /* those before step `state_of`, given in `state_branch`, from the store; empty: none */
	uint64_t state_of, state_branch;
	struct sl_group_mean mean[SL_GROUP_MEANS], *next; /* next: of the step under way */
};

/* The group's jobs on the worker.
 *
 * CHOOSE: where all go on from. REJOIN: where `which` goes on from, while others train. CATCH_UP: `which` has skipped a
 * step that was done without it. STEP: `which` does a step inside its round. APPLY: the step of all, or the end of a
 * round. LET_GO: those in `part` may leave. STORE: head and tail for the checkpoint of step `due`. KEEP: a checkpoint
 * that could not be written before. OVER: with other ranks, nobody needs the group any more. */
enum sl_group_job {
	GROUP_IDLE,
	GROUP_CHOOSE,
	GROUP_REJOIN,
	GROUP_CATCH_UP,
	GROUP_STEP,
	GROUP_APPLY,
	GROUP_LET_GO,
	GROUP_STORE,
	GROUP_KEEP,
	GROUP_OVER
};

/* Whether a member that comes while others train gets the head and tail of another one. */
enum sl_group_gift {
	GIFT_NONE,
	GIFT_WHOLE, /* it gets those of member `giver` */
	GIFT_WRONG, /* most of the others have different ones than `giver` */
};

/* What ranks send each other (ranks.h, group_letters.c). */
enum sl_group_letter {
	LETTER_SEAT, /* struct sl_group_told: a seat of the sender has changed */
	LETTER_ACT,  /* struct sl_group_act, from rank 0 */
	LETTER_BACK, /* struct sl_group_back: the members of all ranks go back */
	LETTER_INTRO /* the payload of a Hello, from which a rank without members makes the group */
};
struct sl_group_told {
	uint64_t key, branch; /* the group's; key 0: the sender has none; branch 0: it does not train */
	uint64_t acts;        /* that the sender has carried out */
	uint64_t turns;       /* of the member */
	int32_t k;            /* the seat */
	uint8_t keep;         /* the member's Commit asks for a checkpoint */
	double lr;            /* in that Commit; SL_GROUP_NO_LR: it names none, or there is no part */
	struct sl_seat seat;
	struct sl_hello hello; /* if there is a link */
};
/* What rank 0 knows of all members, for CHOOSE. */
struct sl_group_steps {
	int32_t n;
	uint8_t gone;                    /* a member is done, and not here */
	uint64_t step[SL_WIRE_HELD_MAX]; /* that all members here have named, newest first */
	uint64_t turns[SL_CONF_SHARE_CLIENTS];
};
/* What all ranks do: CHOOSE, APPLY or OVER. */
struct sl_group_act {
	uint64_t key, count;         /* the group's; acts of rank 0 up to this one */
	int32_t act;                 /* enum sl_trunk_act */
	uint8_t checkpoint;          /* APPLY: write one behind it */
	double lr;                   /* APPLY */
	struct sl_group_steps steps; /* CHOOSE */
};
struct sl_group_back {
	uint64_t key, branch;
	char why[SL_FAIL_TEXT];
};

/* A member's part in a job. */
struct sl_group_part {
	struct sl_middle *m; /* the session whose part is added; NULL: the member has no part */
	uint64_t rows;       /* of its batch */
	uint64_t counts;     /* as in struct sl_fold_part */
	bool lost;           /* the member has no link: it is away from this step on, unless the step needs all */
	bool leaves; /* LET_GO: its run is over; otherwise it gets its weights, and says when its model is written */
};

/* A pass of a vertical group, once all parties have begun it; chunks whose forward pass was begun. */
struct sl_group_pass {
	bool on;
	int forward;
};

struct sl_group {
	struct sl_group_list *groups;
	struct sl_group *next;
	char name[SL_CONF_SHARE_TEXT];
	uint8_t file_name[16];
	uint64_t key;
	struct sl_agreed agreed; /* its first member's */
	struct sl_turns turns;   /* from what its members say */
	int refs;                /* sessions that are not freed, the job under way, `staying`, back_ms */
	int n;
	int first, end;                 /* seats of this rank: first … end - 1; without ranks all */
	struct sl_group_member *member; /* [n] */
	struct sl_trunk_table t;        /* the loop's; t.step is a copy of trunk.r.done */
	uint64_t since;                 /* groups->acts as it was made */
	uint64_t round;                 /* steps of a round; 1 in the other modes */
	uint64_t branch;   /* random number that names its states from here on, until all go back (WIRE.md) */
	uint64_t run;      /* the loop's copy of trunk.keep.run */
	uint64_t due;      /* the step whose checkpoint lacks head and tail; 0: none */
	uint64_t tried_ms; /* when the last state was to be stored again, for members that wait for it */
	uint64_t back_ms;  /* since when all are to come again; meanwhile the group lives without sessions; 0: not */
	uint64_t wait_ms;  /* since when a member waits for a group that is not complete; 0: none does */
	uint64_t here_ms;  /* when a member was last seen here */
	unsigned listed;   /* by which of groups->lists its seats are */
	bool heard;        /* the loop knows the seats' states from the newest checkpoint */
	char waits[400];   /* for whom it waits behind its step, as its members have heard; "": for nobody */
	char away[400];    /* who has no link, awaited or not, likewise */
	struct sl_checkpoint_state shown; /* the loop's copy of trunk.kept */
	/* the job under way */
	struct sl_job job;
	struct sl_share share;
	enum sl_group_job what;
	int which;                  /* the member that the job is for */
	uint64_t behind;            /* CATCH_UP: the step that the member skipped */
	struct sl_group_part *part; /* [n] */
	double lr;
	bool checkpoint; /* write one after the step */
	bool agrees;     /* with other ranks: this one is ready for the job; else none does it */
	bool told;       /* the job is one of rank 0's acts */
	uint64_t left;   /* REJOIN: the last step at which a member of another rank ended */
	/* its result */
	enum sl_err err;
	struct sl_fail fail;
	bool need_weights;
	enum sl_come came; /* REJOIN */
	bool anew;         /* CHOOSE: it begins anew, and waits for all as before its first step */
	bool undone;       /* a session ended before the job began, so it did nothing */
	int odd;           /* CHOOSE: the member to refuse (group_choose.c); -1: none */
	struct sl_group_pass pass;
	/* for a member that comes while others train */
	uint64_t held;           /* the step whose state it goes on from */
	enum sl_group_gift gift; /* whether it gets another member's head and tail */
	uint64_t gift_branch;    /* in which these were given */
	int gift_from;           /* FROM_…: whose they are */
	int shunned;             /* FROM_…: whose it could not open */
	int giver;               /* the member that was asked for its own; -1: none */
	/* (worker) */
	struct sl_charge charge; /* the trunk's memory: of the client that opened it; no budget: nothing is taken yet */
	struct sl_trunk trunk;
	struct sl_group_ends *ends;                  /* NULL: heads and tails are not shared */
	struct sl_group_seat *seat;                  /* [n] */
	uint64_t stored[SL_CHECKPOINT_MAX_PINS + 3]; /* memory of trunk.r.stored */
	struct sl_group_log log;
	char *record; /* as members were told last (group_parts.c); NULL: not yet */
	struct {
		uint64_t end;
		size_t n_back;
	} said;                   /* of the log, as sl_group_say_parts has logged it */
	uint8_t weights_hash[16]; /* the same: of the first weights, while no step is done */
	struct sl_fold fold;      /* parts of all seats; in rounds a part's copy is at its record's step `number` */
	bool has_weights;
	struct sl_group_steps steps; /* CHOOSE */
};

struct sl_group_list {
	struct sl_loop *loop;
	struct sl_worker *worker;
	struct sl_trunk_store store;
	const struct sl_ranks *ranks;    /* NULL: this server is the only one */
	struct sl_backend *be, *host_be; /* this rank's backend; the CPU's */
	struct sl_timer *timer;          /* with other ranks: looks for their letters */
	struct sl_group_act act; /* rank 0: the last one; the others: one that is to be carried out, if `told` */
	bool told;
	uint64_t acts;                   /* that this rank has carried out, or ordered */
	uint64_t *done;                  /* [ranks->count] that each rank has carried out */
	struct sl_group_told *heard_of;  /* [SL_CONF_SHARE_CLIENTS] what was last told of a seat, or heard */
	const struct sl_seat_kind *seat; /* of a member */
	/* with auth: as in sl_group_list_read; NULL: there is no list of clients */
	bool (*may_join)(void *arg, const struct sl_key *key, const char *group);
	void *may_join_arg;
	unsigned lists; /* lists that were read */
	struct sl_group *first;
};

/* group_lr.c. The learning rate of a step, from lr[n] of the members; SL_GROUP_NO_LR: the member names none. Pure. */
#define SL_GROUP_NO_LR (-1.0)
struct sl_group_lr {
	double lr;        /* SL_GROUP_NO_LR: no member names one */
	bool most, alike; /* more than half of those that name one, or all of them, name `lr` */
};
struct sl_group_lr sl_group_vote(const double *lr, int n);
void sl_group_say_lr(const struct sl_group *group, const struct sl_group_lr *vote); /* logs a vote without a majority */
/* Returns MISMATCH: the member's `lr` is not the group's. */
enum sl_err sl_group_other_lr(const struct sl_group *group, double lr, struct sl_fail *fail);

void sl_group_run(struct sl_job *job); /* (worker) */
/* group.c, for events of members. advance posts the next job, if none is under way. release drops a reference, and
 * frees the group with the last one. stay_for_a_while: it lives without sessions until all had time to come again.
 * end_member ends its session. end_others: all go back because of member k; `so`: what became of it, for them; `how`:
 * for the log. go_on: a vertical group's pass. */
void sl_group_advance(struct sl_group *group);
void sl_group_release(struct sl_group *group);
void sl_group_stay_for_a_while(struct sl_group *group);
void sl_group_end_member(struct sl_group_member *p, const struct sl_fail *why);
void sl_group_end_others(struct sl_group *group, int k, const char *so, const char *how, uint64_t step);
void sl_group_go_on(struct sl_group *group);
extern const struct sl_seat_kind sl_group_seat_kind; /* group_member.c */
/* make adds a group without members to the list. NOMEM. attend: the group stays, without members on this rank, and
 * takes part in what other ranks do. */
enum sl_err sl_group_make(struct sl_group_list *groups, const struct sl_agreed *agreed, struct sl_group **out,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_attend(struct sl_group *group);
void sl_group_drop(struct sl_group *group); /* takes it out of the list, and frees it */
/* group_await.c. What to do next, by the table and the clock; *k as in sl_trunk_next. */
enum sl_trunk_act sl_group_next(struct sl_group *group, int *k);
/* Puts those that wait for their last weights, and may leave, into `part`. */
void sl_group_leaving(struct sl_group *group);
/* Whether members have waited for share.wait_s in vain; `why` says who is missing, or was refused. Its code is
 * SL_ERR_UNAVAILABLE where each of these is here, and idle. */
bool sl_group_gives_up(struct sl_group *group, struct sl_fail *why);
/* group_letters.c; with other ranks. see: the table gets their seats. tell_seats:
 * they hear of this rank's. joint: what to do where the table says `act`; what all ranks do together rank 0 may have to
 * put off, and others do when it says so. announce: before the job of such an act is posted; rank 0 sends it, and
 * others take over what it says of the step. carried_out: a job is done. tell_back: all members of all ranks go back.
 */
void sl_group_see(struct sl_group *group);
void sl_group_tell_seats(struct sl_group *group);
enum sl_trunk_act sl_group_joint(struct sl_group *group, enum sl_trunk_act act);
void sl_group_announce(struct sl_group *group, enum sl_trunk_act act);
void sl_group_carried_out(struct sl_group *group);
void sl_group_tell_back(const struct sl_group *group, const struct sl_fail *why);
/* group.c: other ranks' members go back. */
void sl_group_go_back(struct sl_group *group, const struct sl_fail *why);
static inline bool sl_group_is_own(const struct sl_group *g, int k)
{
	return k >= g->first && k < g->end;
}
static inline bool sl_group_has_rounds(const struct sl_group *g)
{
	return g->agreed.share.mode == SL_SHARE_ROUNDS;
}
/* The last step of the round under way; outside of rounds the step under way. */
static inline uint64_t sl_group_last_step(const struct sl_group *g)
{
	return g->trunk.r.done + g->round - 1;
}
static inline int sl_group_seat_of(const struct sl_middle *m)
{
	return m->agreement.agreed.share.member;
}
/* Whether members can get heads and tails from others. */
static inline bool sl_group_gives(const struct sl_group *g)
{
	return g->ends && !g->groups->ranks;
}
/* Whether a member without the checkpoint of the others cannot go on. */
static inline bool sl_group_needs_files(const struct sl_group *g)
{
	return g->t.whole || g->groups->ranks;
}
/* Copies the seats' states, which the newest checkpoint names, from the records to the table. */
void sl_group_hear_in(struct sl_group *group);
/* The clock of a member: welcomed begins it; ready, its part is there; stepped, after each step; moved, after one
 * inside a round. */
void sl_group_clock_welcomed(struct sl_group *group, int k);
void sl_group_clock_ready(struct sl_group *group, int k);
void sl_group_clock_stepped(struct sl_group *group, int k);
void sl_group_clock_moved(struct sl_group *group, int k);
/* say_short logs that too few members are there, or that one is owed the step. */
void sl_group_say_short(struct sl_group *group);
/* note_late: the step was done without member k; note_part: with it. say_here: logs that it waits for the others. */
void sl_group_note_late(struct sl_group *group, int k);
void sl_group_note_part(struct sl_group *group, int k);
void sl_group_say_here(const struct sl_group *group, int k);
/* After LET_GO: gives those in `part` their last weights. */
void sl_group_gone(struct sl_group *group);
/* The member fetches weights. False: it gets them at once. */
bool sl_group_hear_ask(struct sl_group *group, struct sl_middle *m);
/* Whether the members' turns make up an epoch. */
bool sl_group_turns_fit(struct sl_group *group, struct sl_fail *why);
/* group_owner.c, on the loop. hear_owners: copies whose the seats are, when a job is done. is_strangers: the session's
 * client is not the one that seat k is known to belong to, so what it says and does changes nothing for the members.
 * note_refused: it may not join. was_refused: why the seat's own client may not; "": it was not refused. */
void sl_group_hear_owners(struct sl_group *group);
bool sl_group_is_strangers(const struct sl_group *group, int k, const struct sl_middle *m);
void sl_group_note_refused(struct sl_group *group, int k, const struct sl_middle *m, const char *why);
const char *sl_group_was_refused(const struct sl_group *group, int k);
/* group_owner.c, while no job runs: seats of clients that the list does not have any more are done. is_off: this one
 * is. */
void sl_group_take_off(struct sl_group *group);
bool sl_group_is_off(const struct sl_group *group, int k);
/* group_report.c: the report that a member has just sent. */
void sl_group_hear_report(struct sl_group *group, struct sl_middle *m);
/* group_parts.c, without other ranks: tells member k, or all (-1), who took part in its steps; logs it, once
 * for each state of the group's log. */
void sl_group_tell_record(struct sl_group *group, int k);
void sl_group_say_parts(struct sl_group *group);
/* group_give.c, for shared heads and tails, while no job runs: asks members for those that one who comes or a
 * checkpoint needs, or notes that they have arrived. True: those for the checkpoint of step `due` are there. */
bool sl_group_ask_ends(struct sl_group *group);
/* Functions of the worker's files that the loop calls while no job runs. take_plan: the trunk's plan, which belongs to
 * the group from now on; sets the records by the newest checkpoint. ends_open: takes memory for shared heads and tails.
 * ends_has: whether a step has a mean of these. */
void sl_group_take_plan(struct sl_group *group, struct sl_plan *plan);
enum sl_err sl_group_ends_open(struct sl_group *group, const struct sl_agreement *agreement,
			       const struct sl_end_layout *layout, struct sl_backend *host,
			       struct sl_fail *fail) SL_MUST_CHECK;
bool sl_group_ends_has(const struct sl_group *group, uint64_t step);
void sl_group_free_trunk(struct sl_group *group); /* nothing of the group may run any more */
/* group_ranks.c, on the loop. decline: the answer of a rank that does not have the group of rank 0's act; it waits for
 * the other ranks. may_enter_rank: whether this rank serves such a member. MISMATCH, BUSY. */
void sl_group_decline(const struct sl_ranks *ranks, enum sl_trunk_act act);
enum sl_err sl_group_may_enter_rank(const struct sl_group_list *groups, const struct sl_agreed *agreed,
				    struct sl_fail *fail) SL_MUST_CHECK;
/* group_owner.c. The member begins anew, and is not the one that the seat belongs to. */
bool sl_group_begins_anew(const struct sl_group *g, int k, const struct sl_hello *hello);
/* Such a member begins not the run of the group: it has done that one, or the group's run is done and has another
 * length. Not beside a job. */
bool sl_group_is_another_run(const struct sl_group *g, int k, const struct sl_hello *hello);
/* Session m of seat k asks that the group begin anew (--fresh), and has not begun it yet. Never with share.least 0,
 * where a member comes without its files. Not beside a job. */
bool sl_group_asks_anew(const struct sl_group *g, int k, const struct sl_middle *m);

#endif
