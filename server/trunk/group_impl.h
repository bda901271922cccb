/* What a group is made of, for the files group*.c alone; and what its files do on the loop. */
#ifndef SL_SERVER_TRUNK_GROUP_IMPL_H
#define SL_SERVER_TRUNK_GROUP_IMPL_H

#include "common/session/fold.h"
#include "common/session/turns.h"
#include "server/trunk/group.h"
#include "server/trunk/middle_task.h"
#include "server/trunk/ranks.h"
#include "server/trunk/trunk_records.h"

/* What a member was asked for that the others need for one that comes. WRONG: most of the others have another head and
 * tail. */
enum sl_group_answer { ANSWER_NONE, ANSWER_AWAITED, ANSWER_THERE, ANSWER_WRONG };

/* A member as the loop sees it, beside its seat in the table. */
struct sl_group_member {
	struct sl_middle *m; /* its session; NULL: none */
	int entered;         /* its sessions that are admitted and not over, m among them */
	int late;            /* steps that were done without it */
	enum sl_group_answer answer;
	char refused[200]; /* why the client that asked for the seat last may not join; "": none was refused */
};

/* A member as the worker sees it, beside its record: what outlives its links. */
struct sl_group_seat {
	struct sl_middle *m; /* its session, from sl_group_lend to sl_group_last */
	uint64_t made;       /* the branch on which its state before `number` was made; 0: the first weights */
	struct sl_codecs_state codecs; /* of its last session, where `kept` */
	uint64_t codec_bytes;          /* that count for these: the most so far */
	bool kept;
	bool fresh; /* its session's codecs have not been given what is kept: theirs is not to be kept */
	uint8_t session[SL_SESSION_BYTES]; /* whose run it is; zeros: nobody has been welcomed there */
	struct sl_key owner;               /* that client's key; zeros: there was no auth */
};

enum {
	SL_GROUP_MEANS = 64,
	SL_GROUP_COME_AGAIN_MS = 120000 /* clients try again after 32 s at the latest */
};

/* What a step has changed in all heads and tails, as members hear it. */
struct sl_group_mean {
	uint64_t step;
	bool whole;
	struct sl_buf run;
};

/* Heads and tails that are shared. */
struct sl_group_ends {
	struct sl_end_layout layout;
	struct sl_end_sum sum;
	size_t bound;  /* of a run */
	uint64_t from; /* steps before it have no mean here any more */
	struct sl_group_mean mean[SL_GROUP_MEANS], *next;
};

/* STEP: of one member inside a round. APPLY: of all; in rounds it ends one. MEET: with other ranks, about going back.
 * LET_GO: those in `part` may leave. */
enum sl_group_job {
	GROUP_IDLE,
	GROUP_CHOOSE,
	GROUP_REJOIN,
	GROUP_CATCH_UP,
	GROUP_STEP,
	GROUP_APPLY,
	GROUP_MEET,
	GROUP_LET_GO
};

/* Heads and tails that a member gets, which comes while others train. */
enum sl_group_gift {
	GIFT_NONE,
	GIFT_WHOLE, /* of member `giver` */
	GIFT_WRONG, /* that member's are not those of most others */
};

/* What came of a job; of a step's by the ranks' meeting before it. Without ranks: GO or VOID. */
enum sl_group_met {
	MET_GO,   /* the step is done */
	MET_NONE, /* it is not, and nothing has changed */
	MET_BACK, /* all members of all ranks go back */
	MET_OVER, /* all members of all ranks have left */
	MET_VOID, /* somebody of this rank has left meanwhile, and nothing was done */
};

/* What a rank's loop tells the others of its group, whenever it changes. */
struct sl_group_word {
	uint64_t step, branch;
	uint64_t unsafe_end; /* the lowest end of a run whose member may have to redo steps; UINT64_MAX: of none */
	int32_t safe;        /* members that have done their runs, and need nobody (group_await.c) */
	uint32_t met;        /* meetings of the ranks since they have chosen where to go on from */
	int32_t ready, members;
	uint8_t open;
	uint8_t elsewhere;     /* a member that is awaited evaluates, or takes weights */
	uint8_t could;         /* this rank waits for nobody of its own */
	uint8_t calls;         /* it calls for a meeting: a member has to go back */
	uint8_t end_elsewhere; /* as `elsewhere`, of members that are not safe */
};
_Static_assert(sizeof(struct sl_group_word) <= SL_RANKS_WORD, "a word of the ranks");

/* Of a member in a job. */
struct sl_group_part {
	struct sl_middle *m; /* whose part is added; NULL: it is left out */
	uint64_t rows;       /* of its batch */
	uint64_t counts;     /* as in struct sl_fold_part */
	bool lost;           /* it has no link, where members come and go: it leaves */
};

struct sl_group {
	struct sl_group_list *groups;
	struct sl_group *next;
	char name[SL_CONF_SHARE_TEXT];
	uint8_t file_name[16];
	uint64_t key;
	struct sl_agreed agreed; /* its first member's */
	struct sl_turns turns;   /* by what its members say */
	int refs;                /* sessions that are not freed, the job under way, `staying` */
	int n;
	int first, end;                 /* seats whose members this rank serves, first … end - 1: all without ranks */
	struct sl_group_member *member; /* [n] */
	struct sl_trunk_table t;        /* the loop's: its step is a copy of trunk.r.done */
	uint64_t round;                 /* steps from one border to the next; 1 but in rounds */
	uint64_t branch;
	uint64_t half_ms; /* since when half of the members are done; 0: they are not */
	uint64_t end_ms;  /* the same of members whose run is over */
	uint64_t back_ms; /* since when all are to come again, and what the seats know stays; 0: they need not */
	uint64_t wait_ms; /* since when a member waits for a group that is not complete; 0: none does */
	bool heard;       /* who is in, by the newest checkpoint */
	bool said_short;  /* that there are too few members to go on */
	uint64_t late;
	struct sl_checkpoint_state shown; /* the loop's copy of trunk.kept */
	/* the job under way */
	struct sl_job job;
	struct sl_share share;
	enum sl_group_job what;
	int which;       /* member */
	int back_of;     /* with other ranks: the member for which all should go back; -1: nobody */
	uint64_t behind; /* CATCH_UP: the step that it skipped */
	struct sl_group_part *part;
	double lr;
	bool checkpoint;
	/* its outcome */
	enum sl_err err;
	struct sl_fail fail;
	bool need_weights;
	enum sl_come came; /* how a member came while others train */
	bool common;       /* all go on from the newest step that they hold */
	enum sl_group_met came_of;
	int back_with; /* the member that all go back with */
	int stranger;  /* the member that begins anew among others; -1: nobody */
	/* of one that comes while others train */
	uint64_t held;           /* the step whose state it holds */
	enum sl_group_gift gift; /* heads and tails that it gets */
	int giver;               /* the member that has handed over its own; -1: nobody has */
	/* (worker) */
	_Atomic uint64_t *memory_used; /* the server's; NULL: nothing of it is this group's */
	uint64_t memory_limit;         /* the server's; 0: none */
	uint64_t memory_bytes; /* of it: the trunk, in rounds the copies, and what codecs keep, which outlive links */
	struct sl_trunk trunk;
	struct sl_group_ends *ends; /* NULL: members have heads and tails of their own */
	struct sl_group_seat *seat; /* [n] */
	uint64_t stored[SL_CHECKPOINT_MAX_PINS + 3];
	struct sl_fold fold; /* of all seats; in rounds a part's copy is `number` steps on */
	bool some_gone;      /* members that are done are not here, on other ranks or on this one */
	bool has_weights;
	/* with other ranks (group_ranks.c) */
	uint32_t met;
	bool others_missed; /* in this step somebody of another rank has no part, and has not left */
};

struct sl_group_list {
	struct sl_loop *loop;
	struct sl_worker *worker;
	struct sl_trunk_store store;
	const struct sl_ranks *ranks;    /* NULL: this server is the only one */
	struct sl_backend *be, *host_be; /* this rank's backend; the CPU's */
	struct sl_group_intro *intro;    /* of a group that other ranks have (group_intro.c) */
	struct sl_group_word *word;      /* [ranks->count] what each has told last */
	struct sl_group *first;
};

/* group_lr.c: of so many members; SL_GROUP_NO_LR: it has none to say. Pure. */
#define SL_GROUP_NO_LR (-1.0)
struct sl_group_lr {
	double lr;        /* SL_GROUP_NO_LR: nobody says one */
	bool most, alike; /* more than half of them, or all, say it */
};
struct sl_group_lr sl_group_vote(const double *lr, int n);
void sl_group_say_lr(const struct sl_group *group, const struct sl_group_lr *vote); /* where none has most */
enum sl_err sl_group_other_lr(const struct sl_group *group, double lr, struct sl_fail *fail);

void sl_group_run(struct sl_job *job); /* (worker) */
/* A group that nobody is in yet, in the list. NOMEM. `attend`: it stays, without any member here, and takes part in
 * what other ranks do. */
enum sl_err sl_group_make(struct sl_group_list *groups, const struct sl_agreed *agreed, struct sl_group **out,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_attend(struct sl_group *group);
void sl_group_drop(struct sl_group *group); /* out of the list, and freed */
/* An executor with a trunk's parameters, and no more. */
enum sl_err sl_group_open_bare(struct sl_exec **out, const struct sl_plan *plan, struct sl_backend *be,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* group_intro.c: hears of other ranks' groups. */
void sl_group_hear_intro(struct sl_group_list *groups);
void sl_group_close_intro(struct sl_group_list *groups);
/* group_await.c. What is next, by the table and the clock; and for which member, where it is for one. */
enum sl_trunk_act sl_group_next(struct sl_group *group, int *k);
/* Those who wait for their last weights and may leave, into `part`. */
void sl_group_leaving(struct sl_group *group);
/* The members of this rank that a step waits for and that have no link, with commas between them, and why one was
 * refused. True: somebody was refused, who does not come again as it is. */
bool sl_group_missing(const struct sl_group *g, char *out, size_t size);
/* Whether members have waited for share.wait_s in vain; `why` says who is missing, or was refused. *who: the only one
 * that gives up; -1: all do. */
bool sl_group_gives_up(struct sl_group *group, int *who, struct sl_fail *why);
/* Tells the other ranks how it stands, where that has changed; whether one of them calls for a meeting. */
void sl_group_tell(struct sl_group_list *groups);
bool sl_group_is_called(const struct sl_group *group);
static inline bool sl_group_has_rounds(const struct sl_group *g)
{
	return g->agreed.share.mode == SL_SHARE_ROUNDS;
}
/* The last step of those that are under way. */
static inline uint64_t sl_group_last_step(const struct sl_group *g)
{
	return g->trunk.r.done + g->round - 1;
}
static inline int sl_group_seat_of(const struct sl_middle *m)
{
	return m->agreement.agreed.share.member;
}
/* Members come and go at a step's border (share.clients: 2..8). */
static inline bool sl_group_varies(const struct sl_group *g)
{
	return g->agreed.share.least > 0;
}
/* The first session has heard who is awaited; those that are there have begun, and the others are not in; a
 * member is welcomed, to the step that it does first. */
void sl_group_hear_in(struct sl_group *group);
int sl_group_begun(struct sl_group *group);
uint64_t sl_group_comes_in(struct sl_group *group, int k, bool with_ends);
/* It is out of reach, and not in any more: says so where it was. */
void sl_group_goes(struct sl_group *group, int k, const char *why);
void sl_group_say_gone(const struct sl_group *group, int k, const char *why);
void sl_group_say_short(struct sl_group *group);
/* Behind LET_GO: those in `part` get theirs. */
void sl_group_gone(struct sl_group *group);
/* It fetches weights. False: it gets them at once. */
bool sl_group_hear_ask(struct sl_group *group, struct sl_middle *m);
/* Whether the members' turns make up an epoch. */
bool sl_group_turns_fit(struct sl_group *group, struct sl_fail *why);
/* group_give.c, where heads and tails are shared. While no job runs: asks for those that members need who come, or
 * finds that they are there. */
void sl_group_ask_ends(struct sl_group *group);
/* What the loop asks of the worker's files, while no job runs, or nothing of the group: who is done, by the newest
 * checkpoint; room for shared heads and tails; whether a step has a mean of them; the end of all. */
void sl_group_hear_left(struct sl_group *group);
enum sl_err sl_group_ends_open(struct sl_group *group, const struct sl_agreement *agreement,
			       const struct sl_end_layout *layout, struct sl_backend *host,
			       struct sl_fail *fail) SL_MUST_CHECK;
bool sl_group_ends_has(const struct sl_group *group, uint64_t step);
void sl_group_free_trunk(struct sl_group *group); /* nothing of it runs any more */
/* group_ranks.c, (loop): whether this rank serves such a member. MISMATCH, BUSY. */
enum sl_err sl_group_may_enter_rank(const struct sl_group_list *groups, const struct sl_agreed *agreed,
				    struct sl_fail *fail) SL_MUST_CHECK;

#endif
