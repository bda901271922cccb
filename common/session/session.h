/* The session: which frame, task or request is legal when, on either side of the link. A pure state machine: no
 * socket, clock, thread or memory of its own. It is fed events with the time, and answers with actions for its driver,
 * port.c, on both sides. client_table.c and server_table.c are the specification, as tables.
 *
 * A training step of n chunks is one pass: head_act up, mid_act down, mid_grad up, head_grad down per chunk, then
 * COMMIT and COMMITTED. A gradient that nothing below needs does not cross: then COMMIT, being short, may come before
 * the last mid_grad, and the server holds it until its backward is done. In a run that clips, NORM comes from the
 * server before COMMIT, which carries what all gradients are multiplied by. An evaluation pass is head_act and mid_act
 * alone. Runs of one kind come in chunk order, the parts of a run in order of offset; kinds interleave freely.
 *
 * Where the agreement says calls.free, a training step is free: it is made of calls, each of some chunks, and neither
 * side knows beforehand how many there will be. Parts say batch_rows 0. head_act comes in chunk order, and says the
 * rows of its chunk. Gradients come in any order, of chunks that have gone forward, or not at all. COMMIT says how many
 * chunks have had one. The client's caller begins calls (BEGIN_STEP, MORE), says when there are gradients of one
 * (GRADS), asks for the norm (ASK_NORM: NORM goes up with the number of chunks, and comes down with the squares), and
 * applies the step (APPLY).
 *
 * A step in which either side finds NaN or Inf is abandoned: whoever finds it says ABANDON, both drop what is queued
 * and let running tasks end, and nothing is applied. The client then decides: COMMIT with `skip` counts the step as
 * done, a FETCH or REFUSE ends the run with the state before it. abandon.c has what both roles share.
 */
#ifndef SL_SESSION_SESSION_H
#define SL_SESSION_SESSION_H

#include <stdbool.h>

#include "common/link/proof.h"

enum sl_session_role { SL_SESSION_CLIENT, SL_SESSION_SERVER };

#define SL_SESSION_STATE_MAP(X)                                                                                  \
	X(NEW)     /* nothing said yet */                                                                        \
	X(HELLO)   /* client: waits for WELCOME */                                                               \
	X(OPENING) /* server: builds its plan */                                                                 \
	X(WEIGHTS) /* waits for weights: a server for the middle's, a member that comes for head's and tail's */ \
	X(READY)                                                                                                 \
	X(STEP)    /* a training pass is under way */                                                            \
	X(COMMIT)  /* the pass is whole; the step is being applied */                                            \
	X(ABANDON) /* NaN or Inf in the pass: nothing of it is applied */                                        \
	X(EVAL)    /* an evaluation pass is under way */                                                         \
	X(FETCH)   /* the middle's weights are on their way back */                                              \
	X(CLOSED)  /* said goodbye, or failed */

enum sl_session_state {
#define X(name) SL_SESSION_##name,
	SL_SESSION_STATE_MAP(X)
#undef X
		SL_SESSION_STATE_COUNT
};

/* Kernel and codec work, done off the loop by the driver; TASK_DONE tells the session. */
#define SL_TASK_MAP(X)                                                          \
	X(ADMIT)    /* server: whether what a Hello asks for can be had */      \
	X(OPEN)     /* server: memory and weights of a Hello */                 \
	X(INSTALL)  /* server: the uploaded weights */                          \
	X(HEAD_FWD) /* client: head forward, encode head_act */                 \
	X(MID_FWD)  /* server: decode head_act, forward, encode mid_act */      \
	X(TAIL)     /* client: decode mid_act, forward [, backward, encode] */  \
	X(GRAD)     /* client, free: encode mid_grad; TAIL decodes alone */     \
	X(MID_BWD)  /* server: decode mid_grad, backward, encode head_grad */   \
	X(HEAD_BWD) /* client: decode head_grad, backward */                    \
	X(COMMIT)   /* either: optimizers and running statistics */             \
	X(PREPARE)  /* server, in a group: whether the member's part is fine */ \
	X(GATHER)   /* server: weights of the middle for FETCH */               \
	X(TELL)     /* client, with shared ends: encode end_grad */             \
	X(MEAN)     /* server, with shared ends: end_mean of the step */        \
	X(GIVE)     /* client, with shared ends: what one that comes gets */    \
	X(NORM)     /* server, free: squares of the gradient so far */          \
	X(ABANDON)  /* either: behind all tasks of a pass; codecs forget it */

enum sl_task {
#define X(name) SL_TASK_##name,
	SL_TASK_MAP(X)
#undef X
		SL_TASK_COUNT
};

enum sl_event_kind {
	/* a frame of this kind came: same order as enum sl_frame_kind */
	SL_EV_HELLO,
	SL_EV_WELCOME,
	SL_EV_REFUSE,
	SL_EV_PART,
	SL_EV_CREDIT,
	SL_EV_COMMIT,
	SL_EV_COMMITTED,
	SL_EV_FETCH,
	SL_EV_HEARTBEAT,
	SL_EV_BYE,
	SL_EV_ABANDON,
	SL_EV_CHALLENGE,
	SL_EV_NORM,
	/* the driver's */
	SL_EV_TASK_DONE,
	SL_EV_OPEN,       /* client: say Hello */
	SL_EV_BEGIN_STEP, /* client */
	SL_EV_BEGIN_EVAL, /* client */
	SL_EV_PASS,       /* client, in a group: step `number` is done without a batch of this member's */
	SL_EV_BEGIN_FETCH,
	SL_EV_LEAVE,     /* client: say goodbye */
	SL_EV_NONFINITE, /* a task of a training pass found NaN or Inf, where sl_session_abandons */
	SL_EV_SKIP,      /* client, after ABANDONED: the step counts as done */
	/* client, free. Calls are `chunks` chunks from `chunk` on. */
	SL_EV_MORE,     /* another call of the step, as BEGIN_STEP has the first one */
	SL_EV_GRADS,    /* the gradients of a call's activations are there */
	SL_EV_ASK_NORM, /* of the gradients so far */
	SL_EV_APPLY,    /* the step is to be applied, with `lr` and grad_scale */
	/* server, in a group: it goes on from `next_step`, as TASK_DONE(OPEN) says it where there is no group */
	SL_EV_JOINED,
	SL_EV_DECIDED, /* server, after PREPARED: the group's step is done, as TASK_DONE(COMMIT) says it elsewhere */
	SL_EV_LATE,    /* server: the group has done the steps before `next_step` without this member */
	SL_EV_GIVE,    /* server, after ASKED: the group lets the member have its weights */
	SL_EV_ASK,     /* server: the group needs head and tail of the member, `whole`, or their hash */
	SL_EV_ENDS,    /* none: the rule for parts of SL_PART_ENDS, and for the end of the task GIVE */
	SL_EV_TICK,
	SL_EV_COUNT
};

struct sl_event {
	enum sl_event_kind kind;
	const struct sl_frame *frame; /* frames */
	enum sl_task task;            /* TASK_DONE */
	const struct sl_fail *why;    /* NONFINITE */
	int chunk;                    /* TASK_DONE; MORE, GRADS: the call's first */
	int chunks;                   /* GRADS */
	uint64_t batch_rows;          /* BEGIN_STEP, BEGIN_EVAL, MORE: rows of this batch, or call */
	const uint32_t *begin;        /* where each row's tokens begin, [batch_rows + 1]; NULL: no tokens */
	const uint32_t *pieces;       /* pieces of padded rows (tensor.h), [2·batch_rows + 1]; NULL: not padded */
	const uint32_t *chosen; /* where each row's chosen tokens begin in `place`, [batch_rows + 1]; NULL: none */
	const uint32_t *place;  /* which tokens of the batch they are */
	const uint32_t *cached; /* BEGIN_EVAL: [2·batch_rows] (tensor.h); NULL: rows are whole */
	const int32_t *samples; /* BEGIN_STEP: which of the set the rows are; NULL: nobody knows */
	const uint32_t *home;   /* of each sample of the set, where the server keeps its row; NULL: it does not */
	uint64_t number;        /* BEGIN_STEP, PASS: the step; BEGIN_EVAL: number of the batch */
	double lr;              /* BEGIN_STEP, PASS, APPLY */
	double grad_scale;      /* APPLY: 0 < grad_scale ≤ 1; what all gradients are multiplied by */
	bool checkpoint;        /* BEGIN_STEP, PASS: the server keeps the state behind it on disk */
	bool checkpointed;      /* TASK_DONE(COMMIT or GATHER) on the server: that state is on its disk */
	double compute_s;       /* TASK_DONE(COMMIT) on the server */
	bool mean;              /* DECIDED, with shared ends: there is a mean of the step */
	/* Where gradients are clipped, TASK_DONE of a training step's last task before COMMIT: squares of the head's
	 * and the tail's gradient, on the client; of the middle's, the first, on the server. */
	double squares[2];
	bool need_weights;   /* TASK_DONE(OPEN) */
	uint64_t next_step;  /* TASK_DONE(OPEN): the step that both go on from, one of hello.held */
	uint64_t first_step; /* JOINED: the step that comes next, where it is a later one */
	uint64_t made;       /* TASK_DONE(OPEN): as in struct sl_welcome */
	uint64_t branch;     /* JOINED: the same */
	bool common;         /* JOINED: the same */
	bool ends;           /* JOINED: the same */
	bool whole;          /* ASK */
};

enum sl_action_kind {
	SL_ACTION_SEND,    /* a control frame */
	SL_ACTION_TASK,    /* do task for chunk */
	SL_ACTION_POST,    /* send the run `what` of chunk, which a task has encoded */
	SL_ACTION_KEEP,    /* server: the event's payload is what ADMIT reads */
	SL_ACTION_STORE,   /* the event's payload belongs to `what` of chunk at `offset` of `total` */
	SL_ACTION_CREDIT,  /* the peer grants `bytes` */
	SL_ACTION_JOINING, /* server: the member is open, and waits for its group: JOINED */
	SL_ACTION_READY,   /* the handshake is done */
	SL_ACTION_DROP, /* runs of the pass that have not left never will, and its tasks have nothing to do any more */
	SL_ACTION_ABANDONED, /* client: all of that has happened; text in the outbox. SKIP, FETCH or the end come next
			      */
	SL_ACTION_PREPARED,  /* server: the member's part of the step is done, and waits for its group: DECIDED */
	SL_ACTION_ASKED,     /* server: the member fetches weights, and waits for its group: GIVE */
	SL_ACTION_GIVEN,     /* server: what ASK asked for is whole */
	SL_ACTION_NORMED,    /* client, free: squares[1] is the middle's */
	SL_ACTION_STEPPED,
	SL_ACTION_EVALUATED,
	SL_ACTION_FETCHED,
	SL_ACTION_FAIL, /* the session is over: `err` and text in the outbox */
	SL_ACTION_LEFT  /* the peer said goodbye */
};

struct sl_action {
	enum sl_action_kind kind;
	enum sl_task task;
	enum sl_part_what what;
	int chunk;
	uint64_t offset, total, bytes;
	bool whole; /* STORE: this part completes the run */
	int frame;  /* SEND: index into the outbox's frames */
};

/* What a handshake may ask for: as the config's own bounds. */
enum { SL_SESSION_PART_MIN = 4096, SL_SESSION_HEARTBEAT_MIN = 50, SL_SESSION_TIMEOUT_MAX = 600000 };

/* Challenges that one link answers: one for a nonce, one for an epoch, and as many for a server that forgot the first.
 */
enum { SL_SESSION_CHALLENGES = 4 };

/* Epochs fit int64_t. */
#define SL_SESSION_EPOCH_MOST ((uint64_t)INT64_MAX)

enum { SL_SESSION_MAX_CHUNKS = 256, SL_OUTBOX_ACTIONS = SL_SESSION_MAX_CHUNKS + 16, SL_OUTBOX_FRAMES = 4 };

struct sl_outbox {
	struct sl_action action[SL_OUTBOX_ACTIONS];
	int n_action;
	struct sl_frame frame[SL_OUTBOX_FRAMES];
	int n_frame;
	struct sl_fail fail; /* of SL_ACTION_FAIL, SL_ACTION_ABANDONED */
};

/* One side's bounds, from its plan and codecs. The server knows them after TASK_OPEN. */
struct sl_session_limits {
	uint64_t run_bytes[SL_PART_WHAT_COUNT]; /* most bytes of a run of a full chunk; 0: never accepted */
	bool shared;                            /* of a group: JOINED and DECIDED come from there */
	bool ends;                              /* members have one head and one tail: end_grad crosses */
	uint64_t ends_round; /* end_grad crosses in a round's last step, of all members; 0: in each step, of those who
				take part */
	uint64_t batch;      /* rows of a full batch */
	uint64_t rows;       /* rows of a full chunk */
	double clip_norm;    /* 0: gradients are not clipped */
	bool no_mid_grad, no_head_grad;    /* these do not cross: nothing below learns; the former implies the latter */
	uint64_t row_tokens, chunk_tokens; /* most tokens of a row and of a chunk; 0: there are none */
	bool whole_rows;                   /* every row has row_tokens */
	bool lengths;                      /* head_act begins with lengths, which run_bytes leaves out, */
	bool choice, homes;                /* and these with choice and homes of rows (codec/lengths.h) */
	bool cached;                       /* lengths say what is cached, too; there are evaluations alone */
	bool token_loss;                   /* parts of a step say how many tokens of its batch have a loss */
	int chunks;                        /* most of a pass */
	bool free_calls;                   /* training steps are free, as above */
};

struct sl_session_counts {
	uint64_t frames, parts, stale_frames, refused_frames;
	uint64_t worked; /* frames of this link by which the step goes on */
	uint64_t crumbs; /* bytes of parts since the last of them */
};

/* Of a pass: NaN or Inf was found, or it came too late; QUIET, and nothing of it is under way here any more. */
enum sl_pass_fate { SL_PASS_GOES_ON, SL_PASS_ABANDONED, SL_PASS_QUIET };
/* What the COMMIT of a pass does. PASSES: nothing was computed, since the step is another member's. */
enum sl_pass_commit { SL_COMMIT_APPLIES, SL_COMMIT_SKIPS, SL_COMMIT_PASSES };
/* Server: what came before the weights were whole, or before the pass was QUIET, and waits for that. COMMIT: it came
 * before the last gradient of its pass. SKIP: a COMMIT that does not apply. */
enum sl_pass_asked { SL_ASKED_NOTHING, SL_ASKED_COMMIT, SL_ASKED_SKIP, SL_ASKED_FETCH };
/* What COMMITTED of a pass said, or is to say. MEAN: end_mean belongs to it. */
enum sl_pass_decided { SL_DECIDED_NOT, SL_DECIDED_PLAIN, SL_DECIDED_MEAN };
/* Of a step: the server is to keep the state behind it on disk; and it does, as COMMITTED says. */
enum sl_pass_keep { SL_KEEP_NOT, SL_KEEP_ASKED, SL_KEEP_DONE };
/* Client: head and tail were asked for. BEHIND: those behind the step that is being applied. */
enum sl_gift { SL_GIFT_NONE, SL_GIFT_BEHIND, SL_GIFT_UNDER_WAY };

struct sl_session {
	enum sl_session_role role;
	enum sl_session_state state, ended_in; /* ended_in: the state before CLOSED */
	uint64_t epoch;
	struct sl_hello hello; /* the client's own, or as received */
	struct sl_session_limits limits;
	uint64_t window_bytes;      /* credit that this side grants */
	uint64_t consumed_bytes;    /* since the last CREDIT */
	uint64_t peer_window_bytes; /* credit that the other side granted in the handshake; 0: none yet */
	uint64_t next_step;         /* the only one accepted */
	uint64_t held_step;         /* client: the step whose state Welcome named; next_step then, or an earlier one */
	bool paused;                /* server: it is over because the client means to come back */
	uint64_t made, branch;      /* client: of the state that Welcome named, as in struct sl_welcome */
	uint64_t group_step;        /* server: steps that the group has done; a member may be behind */
	bool joining;               /* server: it waits for its group */
	/* the pass under way */
	bool training;
	uint64_t number;              /* step, or evaluation batch */
	uint64_t batch_rows, answers; /* answers: 0 where the limits have no token_loss */
	int chunks;
	uint32_t tokens[SL_SESSION_MAX_CHUNKS]; /* of each chunk; 0: none, or not known yet */
	double lr;
	double squares[3]; /* client, which clips: of head, middle (-1: not known yet) and tail */
	double grad_scale; /* what gradients are multiplied by; 0: they are not clipped; -1: free, and not known yet */
	/* Of a free step: rows of its chunks; on a client whether their gradient was asked for, 1, or made, 2; whether
	 * one has come; how many were asked for, or have begun to come. */
	uint32_t rows_of[SL_SESSION_MAX_CHUNKS];
	uint8_t back[SL_SESSION_MAX_CHUNKS];
	bool came[SL_SESSION_MAX_CHUNKS];
	int backs;
	int norm_of;   /* server: the norm is wanted once so many gradients are in it; 0: it is not */
	int committed; /* server: chunks with a gradient that COMMIT names; 0: it has not come */
	enum sl_pass_keep keep;
	uint64_t kept[SL_WIRE_KEPT]; /* the client's checkpoints, as COMMIT names them; its driver sets them */
	double decided_s;            /* server: what the kernels of that step took, to be said */
	uint64_t kept_step;          /* client: the newest state that the server said it has on its disk (WELCOME,
					COMMITTED, the answer to FETCH), behind so many steps; 0: none. Server:
					of its answer to FETCH */
	enum sl_pass_decided decided;
	enum sl_pass_asked asked;
	bool abandon_asked; /* server: ABANDON came before the weights were whole */
	enum sl_pass_fate fate;
	bool late; /* it was abandoned because the group went on without this member */
	enum sl_pass_commit commit;
	char nonfinite[SL_WIRE_TEXT_MAX]; /* why it was abandoned */
	double server_compute_s;          /* client: what COMMITTED said of this pass, once that is `decided` */
	struct {
		int chunk; /* the only one whose parts are accepted */
		uint64_t received, total;
	} lane[SL_PART_WHAT_COUNT];
	int done[SL_TASK_COUNT]; /* chunks done by task in this pass */
	/* client: the proof of its Hello */
	const struct sl_secret *secret; /* borrowed; NULL: a Challenge ends the session */
	struct sl_bytes text;           /* the payload of the Hello that has it; borrowed */
	bool first;                     /* this process had no link before: its epoch may rise above another's */
	int challenges;
	uint8_t nonce[SL_NONCE_BYTES]; /* the last one's */
	/* liveness */
	uint32_t patience_ms; /* silence after which the peer is lost; 0: wait for ever */
	uint64_t heard_ms, said_ms;
	const char *device;         /* server: how it calls itself in Welcome; borrowed, or NULL */
	char there[SL_WIRE_DEVICE]; /* client: that */
	struct sl_session_counts counts;
	bool writing; /* kept[0] is still being written */
	bool common;  /* client: as in struct sl_welcome */
	enum sl_gift gift;
	uint64_t gift_bytes, gift_step; /* of the head and tail, or their hash, that were asked for; 0: none. Server:
					   the step before which they were such */
};

/* The COMMIT of the pass applies nothing. */
static inline bool sl_session_skips(const struct sl_session *s)
{
	return s->commit != SL_COMMIT_APPLIES;
}

/* The pass under way is a free step. */
static inline bool sl_session_is_free(const struct sl_session *s)
{
	return s->limits.free_calls && s->training;
}

/* What the loss of the step is a mean over: tokens or rows. */
static inline uint64_t sl_session_counts(const struct sl_session *s)
{
	return s->limits.token_loss ? s->answers : s->batch_rows;
}

/* batch_rows of its parts. */
static inline uint64_t sl_session_said_rows(const struct sl_session *s)
{
	return sl_session_is_free(s) ? 0 : s->batch_rows;
}

/* All of end_grad is on its way, or on a server here. */
static inline bool sl_session_told(const struct sl_session *s)
{
	return s->role == SL_SESSION_CLIENT ? s->done[SL_TASK_TELL] > 0 : s->lane[SL_PART_END_GRAD].chunk > 0;
}

/* Client: COMMITTED has come, and with it the mean where there is one. */
static inline bool sl_session_heard(const struct sl_session *s)
{
	return s->decided == SL_DECIDED_PLAIN || (s->decided == SL_DECIDED_MEAN && s->lane[SL_PART_END_MEAN].chunk > 0);
}

/* Client: this link brought head and tail, as they are before next_step. */
static inline bool sl_session_has_ends(const struct sl_session *s)
{
	return s->role == SL_SESSION_CLIENT && s->lane[SL_PART_ENDS].chunk > 0;
}

/* The client's: everything in hello is set. patience_ms is hello's timeout_ms until the caller changes it; so are
 * `secret` and `first`. */
void sl_session_open_client(struct sl_session *s, const struct sl_hello *hello, uint64_t now_ms);
/* The server's: `window_bytes` is the credit it grants, the rest comes with Hello. */
void sl_session_open_server(struct sl_session *s, uint64_t window_bytes, uint32_t part_bytes, uint64_t now_ms);
/* Once the plan is known: the client's before OPEN, the server's before TASK_DONE(OPEN). */
void sl_session_set_limits(struct sl_session *s, const struct sl_session_limits *limits);

/* Advances. *out is overwritten. A returned error is also an SL_ACTION_FAIL in *out, with a REFUSE to send before it
 * where the peer should hear of it; the session is then CLOSED and answers every later event with nothing. */
enum sl_err sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out);

/* Ends the session from outside (a task failed, a weight did not fit): REFUSE to the peer, then FAIL. */
void sl_session_fail(struct sl_session *s, const struct sl_fail *why, uint64_t now_ms, struct sl_outbox *out);

/* NaN or Inf found now is an event, not the session's end: a training pass is under way. */
bool sl_session_abandons(const struct sl_session *s);

uint64_t sl_session_chunk_rows(const struct sl_session *s, int chunk); /* of the pass under way */
const char *sl_session_state_name(enum sl_session_state state);
const char *sl_task_name(enum sl_task task);

#endif
