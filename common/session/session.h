/* The session: which frame, task or request is legal when, on either side of the link. It is a pure state machine
 * without socket, clock, thread or memory of its own. Its driver, port.c on both sides, feeds it events with the time
 * and carries out the actions that it answers with. client_table.c and server_table.c are its specification, as tables.
 *
 * A run of parts is one encoded tensor of one chunk, or weights, cut into Part frames. A pass is the work on one batch.
 * A training step of n chunks is one pass. For each chunk, head_act goes to the server, mid_act comes back, mid_grad
 * goes to the server and head_grad comes back; COMMIT and COMMITTED end the step. A gradient does not cross if nothing
 * below its cut learns. COMMIT may then overtake the last mid_grad, since it is short; the server holds it until its
 * backward is done. In a run that clips gradients, the server sends NORM before COMMIT, and COMMIT carries the factor
 * for all gradients. An evaluation pass is head_act and mid_act alone. Runs of one kind come in chunk order, the parts
 * of a run in order of offset; kinds interleave freely.
 *
 * Where the agreement says calls.free, a training step is free: it is made of calls, each of some chunks, and neither
 * side knows beforehand how many there will be. Its parts say batch_rows 0. head_act comes in chunk order and says the
 * rows of its chunk. Each chunk whose forward is done may have one gradient, in any order. COMMIT says how many have
 * had one. The client's caller begins calls (BEGIN_STEP, MORE), reports the gradients of a call (GRADS), asks for the
 * norm (ASK_NORM) and applies the step (APPLY). For ASK_NORM the client sends NORM with the number of gradients; the
 * server answers NORM with the squares.
 *
 * In a vertical group (limits.party) the parties share each pass. A party with features sends head_act and gets
 * head_grad; one with labels gets mid_act and sends mid_grad; one with labels and an input (JOINED) does both. Each
 * begins a pass with ORDER, a hash of its rows. On the server MID_FWD of a party with features only decodes, and
 * MID_BWD only encodes. After MOVED the group tells which chunks can go on (CHUNK). It sends ORDER back (ECHO) to a
 * party with features that awaits no gradient. If the run clips, each party sends NORM with its own squares before
 * COMMIT; once all have, the group sends all of them NORM with the sum (SUM).
 *
 * A step in which either side finds NaN or Inf is abandoned. The side that finds it sends ABANDON; both drop what is
 * queued and let running tasks end, and nothing is applied. The client then decides: COMMIT with `skip` counts the step
 * as done; FETCH or REFUSE ends the run with the state before it. abandon.c has what both roles share. */
#ifndef SL_SESSION_SESSION_H
#define SL_SESSION_SESSION_H

#include <stdbool.h>

#include "common/graph/cut.h"
#include "common/link/proof.h"

enum sl_session_role { SL_SESSION_CLIENT, SL_SESSION_SERVER };

#define SL_SESSION_STATE_MAP(X)                                                                       \
	X(NEW)     /* nothing sent or received yet */                                                 \
	X(HELLO)   /* client: waits for WELCOME */                                                    \
	X(OPENING) /* server: builds its plan */                                                      \
	X(WEIGHTS) /* server: waits for the middle's weights; member that comes: for head and tail */ \
	X(READY)                                                                                      \
	X(STEP)    /* a training pass is under way */                                                 \
	X(COMMIT)  /* the pass is complete; the step is being applied */                              \
	X(ABANDON) /* NaN or Inf in the pass: nothing of it is applied */                             \
	X(EVAL)    /* an evaluation pass is under way */                                              \
	X(FETCH)   /* the server sends the middle's weights */                                        \
	X(ALIGN)   /* client: letters of an alignment cross (limits.run_bytes[SL_PART_LETTER]) */     \
	X(CLOSED)  /* said goodbye, or failed */

enum sl_session_state {
#define X(name) SL_SESSION_##name,
	SL_SESSION_STATE_MAP(X)
#undef X
		SL_SESSION_STATE_COUNT
};

/* Kernel and codec work that the driver does off the loop's thread; TASK_DONE tells the session that it has ended. */
#define SL_TASK_MAP(X)                                                               \
	X(ADMIT)    /* server: checks whether it can serve what a Hello asks for */  \
	X(OPEN)     /* server: takes memory and loads weights for it */              \
	X(INSTALL)  /* server: puts the uploaded weights in place */                 \
	X(HEAD_FWD) /* client: head forward, encode head_act */                      \
	X(MID_FWD)  /* server: decode head_act, forward, encode mid_act */           \
	X(TAIL)     /* client: decode mid_act, forward [, backward, encode] */       \
	X(GRAD)     /* client, free step: encode mid_grad; TAIL only decodes */      \
	X(MID_BWD)  /* server: decode mid_grad, backward, encode head_grad */        \
	X(HEAD_BWD) /* client: decode head_grad, backward */                         \
	X(COMMIT)   /* either: step the optimizers, update running statistics */     \
	X(PREPARE)  /* server, group: check the member's gradient for NaN and Inf */ \
	X(GATHER)   /* server: collect the middle's weights for FETCH */             \
	X(TELL)     /* client, shared ends: encode end_grad */                       \
	X(MEAN)     /* server, shared ends: write end_mean of the step */            \
	X(GIVE)     /* client, shared ends: write head and tail as a whole */        \
	X(NORM)     /* server, free step: squares of the gradient so far */          \
	X(ABANDON)  /* either: after all tasks of a pass, codecs roll it back */

enum sl_task {
#define X(name) SL_TASK_##name,
	SL_TASK_MAP(X)
#undef X
		SL_TASK_COUNT
};

enum sl_event_kind {
	/* a frame of this kind arrived: same order as enum sl_frame_kind */
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
	SL_EV_RECORD,
	SL_EV_REPORT,
	/* from the driver */
	SL_EV_TASK_DONE,
	SL_EV_OPEN,       /* client: say Hello */
	SL_EV_BEGIN_STEP, /* client */
	SL_EV_BEGIN_EVAL, /* client */
	SL_EV_PASS,       /* client, in a group: step `number` has no batch of this member */
	SL_EV_BEGIN_FETCH,
	SL_EV_LEAVE,     /* client: say goodbye */
	SL_EV_NONFINITE, /* a task found NaN or Inf, and sl_session_abandons */
	SL_EV_SKIP,      /* client, after ABANDONED: count the step as done */
	/* client, free steps. A call is `chunks` chunks, the first of which is `chunk`. */
	SL_EV_MORE,     /* another call of the step; BEGIN_STEP begins the first one */
	SL_EV_GRADS,    /* the gradients of a call's activations are ready to be encoded */
	SL_EV_ASK_NORM, /* the caller wants the norm of the gradients so far */
	SL_EV_APPLY,    /* apply the step with `lr` and grad_scale */
	/* server, in a group: the member goes on from `next_step`. Without a group TASK_DONE(OPEN) says so. */
	SL_EV_JOINED,
	SL_EV_DECIDED, /* server, after PREPARED: the group's step is done; without a group TASK_DONE(COMMIT) */
	SL_EV_LATE,    /* server: the group has done all steps before `next_step`; the member may lack some */
	SL_EV_GIVE,    /* server, after ASKED: the group allows the member to fetch the weights */
	SL_EV_ASK,     /* server: the group needs this member's head and tail (`whole`), or their hash */
	SL_EV_CHUNK,   /* server, vertical: `chunk` can go on: FEATURES: encode head_grad, LABELS: forward */
	SL_EV_ECHO,    /* server, vertical: the middle's forward passes are done */
	SL_EV_SUM,     /* server, vertical: all parties have sent their squares; squares[0] is the whole gradient's */
	SL_EV_TELL,    /* server: sends `text` to the member, in pieces */
	SL_EV_SAY,     /* either, in a group: sends `report` */
	SL_EV_ENDS,    /* no event of its own: the table's column for parts of SL_PART_ENDS and for TASK_DONE(GIVE) */
	SL_EV_TICK,
	SL_EV_COUNT
};

struct sl_event {
	enum sl_event_kind kind;
	const struct sl_frame *frame; /* of events that are frames */
	enum sl_task task;            /* TASK_DONE */
	const struct sl_fail *why;    /* NONFINITE */
	int chunk;                    /* TASK_DONE: the task's; MORE, GRADS: the call's first */
	int chunks;                   /* GRADS */
	uint64_t batch_rows;          /* BEGIN_STEP, BEGIN_EVAL, MORE: rows of the batch, or of the call */
	const uint32_t *begin;        /* offset of each row's first token, [batch_rows + 1]; NULL: no tokens */
	const uint32_t *pieces;       /* pieces of padded rows (tensor.h), [2·batch_rows + 1]; NULL: not padded */
	const uint32_t *chosen;       /* offset in `place` of each row's, [batch_rows + 1]; NULL: none is chosen */
	const uint32_t *place;        /* the chosen tokens, as numbers in the batch */
	const uint32_t *cached;       /* BEGIN_EVAL, cached rows: [2·batch_rows] (tensor.h); NULL: rows are whole */
	const uint8_t *tag;           /* BEGIN_STEP, BEGIN_EVAL, vertical: [SL_WIRE_ORDER] of the rows */
	const int32_t *samples;       /* BEGIN_STEP: by row, the sample's number in the data set; NULL: unknown */
	const uint32_t *home;         /* by sample: its home at the server (codec/lengths.h); NULL: none */
	uint64_t number;   /* BEGIN_STEP, PASS: the step; BEGIN_EVAL: the batch's number; TICK: sl_transport_arrived */
	double lr;         /* BEGIN_STEP, PASS, APPLY; DECIDED: the group's, -1: the member's own */
	double grad_scale; /* APPLY: factor for all gradients, 0 < grad_scale ≤ 1. BEGIN_STEP: struct sl_session's
			      mean_factor; 0: 1 */
	bool checkpoint;   /* BEGIN_STEP, PASS, APPLY: the server shall store the state after this step on disk */
	bool checkpointed; /* TASK_DONE(COMMIT or GATHER), DECIDED, on the server: it has stored that state */
	double compute_s;  /* TASK_DONE(COMMIT), DECIDED, on the server: time of its kernels */
	bool mean;         /* DECIDED, with shared ends: the step has a mean */
	/* In a run that clips, at TASK_DONE of a training step's last task before COMMIT: sums of squares. A client's:
	 * the head's and the tail's gradient; a server's: the middle's in [0]. */
	double squares[2];
	bool need_weights;  /* TASK_DONE(OPEN), JOINED: the client must upload the middle's weights */
	uint64_t next_step; /* TASK_DONE(OPEN), JOINED: the step from which both sides go on, one of hello.held; LATE */
	uint64_t first_step;                 /* JOINED: the next step of the group, where it is above next_step */
	uint64_t made;                       /* TASK_DONE(OPEN), JOINED: as in struct sl_welcome */
	uint64_t branch;                     /* JOINED: the same */
	bool common;                         /* JOINED: the same */
	bool ends;                           /* JOINED: the same */
	bool whole;                          /* ASK */
	const char *text;                    /* TELL: JSON, a piece of SL_WIRE_RECORD bytes at most */
	const struct sl_wire_report *report; /* SAY */
	bool more;                           /* TELL: another piece follows */
};

enum sl_action_kind {
	SL_ACTION_SEND,      /* send a control frame */
	SL_ACTION_TASK,      /* start `task` for `chunk` */
	SL_ACTION_POST,      /* send the run `what` of `chunk`, which a task has encoded */
	SL_ACTION_KEEP,      /* server: copy the event's payload, which ADMIT reads */
	SL_ACTION_STORE,     /* store the event's payload in `what` of `chunk`, at `offset` of `total` */
	SL_ACTION_CREDIT,    /* the peer grants `bytes` of credit */
	SL_ACTION_JOINING,   /* server: the member is open and waits for its group: JOINED follows */
	SL_ACTION_READY,     /* the handshake is done */
	SL_ACTION_DROP,      /* discard runs of the pass that were not sent; its tasks become no-ops */
	SL_ACTION_ABANDONED, /* client: DROP is done, the outbox says why. SKIP, FETCH or the end follows */
	SL_ACTION_PREPARED, /* server: the member's part of the step is done; it waits for its group: DECIDED follows */
	SL_ACTION_ASKED,    /* server: the member wants to fetch weights; it waits for its group: GIVE follows */
	SL_ACTION_RECORD,   /* client: append the event's text to the group's record */
	SL_ACTION_REPORT,   /* either: the event's report has come (sl_port_report) */
	SL_ACTION_GIVEN,    /* server: the head and tail, or hash, that ASK wanted have arrived */
	SL_ACTION_MOVED, /* server, vertical: the pass has begun, been abandoned, or come further: see CHUNK and ECHO */
	SL_ACTION_NORMED, /* client, free step: the middle's squares[1] has arrived */
	SL_ACTION_STEPPED,
	SL_ACTION_EVALUATED,
	SL_ACTION_FETCHED,
	SL_ACTION_FAIL, /* the session is over; the outbox has the reason */
	SL_ACTION_LEFT  /* the peer said goodbye */
};

enum { SL_ACTION_COUNT = SL_ACTION_LEFT + 1 };

struct sl_action {
	enum sl_action_kind kind;
	enum sl_task task;
	enum sl_part_what what;
	int chunk;
	uint64_t offset, total, bytes;
	bool whole; /* STORE: this part completes the run */
	int frame;  /* SEND: index into the outbox's frames */
};

/* Bounds of what a handshake may ask for; they equal those of the config. */
enum { SL_SESSION_PART_MIN = 4096, SL_SESSION_HEARTBEAT_MIN = 50, SL_SESSION_TIMEOUT_MAX = 600000 };

/* Challenges that a client answers on one link: one for a nonce, one for an epoch, and as many for a server that
 * forgot the first two. */
enum { SL_SESSION_CHALLENGES = 4 };

/* The largest epoch: epochs fit int64_t. */
#define SL_SESSION_EPOCH_MOST ((uint64_t)INT64_MAX)

enum { SL_SESSION_MAX_CHUNKS = 256, SL_OUTBOX_ACTIONS = SL_SESSION_MAX_CHUNKS + 16, SL_OUTBOX_FRAMES = 4 };

struct sl_outbox {
	struct sl_action action[SL_OUTBOX_ACTIONS];
	int n_action;
	struct sl_frame frame[SL_OUTBOX_FRAMES];
	int n_frame;
	struct sl_fail fail; /* the reason of SL_ACTION_FAIL or SL_ACTION_ABANDONED */
};

/* What one side accepts, from its plan and codecs. The server knows it after TASK_OPEN. */
struct sl_session_limits {
	uint64_t run_bytes[SL_PART_WHAT_COUNT]; /* most bytes of a run for a full chunk; 0: never accepted */
	enum sl_party party;                    /* in a vertical group, what the client has */
	bool shared;                            /* the session is in a group, which sends JOINED and DECIDED */
	bool ends;                              /* the group's members share head and tail: end_grad crosses */
	uint64_t ends_round; /* end_grad crosses only in a round's last step, and rounds have so many; 0: it crosses in
				each step, from those that take part */
	uint64_t batch;      /* rows of a full batch */
	uint64_t rows;       /* rows of a full chunk */
	double clip_norm;    /* 0: gradients are not clipped */
	int accumulate;      /* batches in a step of the optimizer; 0 counts as 1 */
	bool no_mid_grad, no_head_grad;    /* these do not cross: nothing below learns; the former implies the latter */
	uint64_t row_tokens, chunk_tokens; /* most tokens of a row and of a chunk; 0: no tokens */
	bool whole_rows;                   /* every row has exactly row_tokens tokens */
	/* What head_act begins with, not counted in run_bytes: lengths of rows, the choice of tokens, homes of rows
	 * (codec/lengths.h). */
	enum { SL_FRONT_LENGTHS = 1, SL_FRONT_CHOICE = 2, SL_FRONT_HOMES = 4 } fronts; /* bits */
	bool cached;     /* lengths also say what is cached; only evaluations are legal */
	bool token_loss; /* parts of a step say how many tokens of the batch have a loss */
	int chunks;      /* most chunks of a pass */
	bool free_calls; /* training steps are free, as above */
};

struct sl_session_counts {
	uint64_t frames, parts, stale_frames, refused_frames;
	uint64_t worked; /* frames that were work, not heartbeats, credit or small parts (is_work) */
	uint64_t crumbs; /* bytes of parts since the last such frame */
};

/* A pass is ABANDONED once NaN or Inf was found or the member was late, and QUIET once none of its work is under way
 * on this side. */
enum sl_pass_fate { SL_PASS_GOES_ON, SL_PASS_ABANDONED, SL_PASS_QUIET };
/* What the COMMIT of a pass does. PASSES: the member computed nothing, since the step is another member's. */
enum sl_pass_commit { SL_COMMIT_APPLIES, SL_COMMIT_SKIPS, SL_COMMIT_PASSES };
/* Server: a request that arrived too early and waits, until the upload is complete or the pass is QUIET. COMMIT: it
 * came before the pass's last gradient. SKIP: a COMMIT that applies nothing. */
enum sl_pass_asked { SL_ASKED_NOTHING, SL_ASKED_COMMIT, SL_ASKED_SKIP, SL_ASKED_FETCH };
enum sl_pass_back { SL_BACK_NONE, SL_BACK_GIVEN, SL_BACK_ENCODED, SL_BACK_CAME };
/* What COMMITTED of a pass said or will say. MEAN: an end_mean belongs to the pass. */
enum sl_pass_decided { SL_DECIDED_NOT, SL_DECIDED_PLAIN, SL_DECIDED_MEAN };
/* Whether the server stores the state after the step on disk. ASKED: the client wants it. DONE: it did, as COMMITTED
 * says. */
enum sl_pass_keep { SL_KEEP_NOT, SL_KEEP_ASKED, SL_KEEP_DONE };
/* Client: the server asked for head and tail. BEHIND: GIVE waits for the COMMIT task that changes them. */
enum sl_gift { SL_GIFT_NONE, SL_GIFT_BEHIND, SL_GIFT_UNDER_WAY };

struct sl_session {
	enum sl_session_role role;
	enum sl_session_state state, ended_in; /* ended_in: the state before CLOSED */
	uint64_t epoch;
	struct sl_hello hello; /* the client's own, or as received */
	struct sl_session_limits limits;
	uint64_t window_bytes;      /* credit that this side grants */
	uint64_t consumed_bytes;    /* received since this side's last CREDIT */
	uint64_t peer_window_bytes; /* credit that the other side granted in the handshake; 0: none yet */
	uint64_t next_step;         /* the only step accepted */
	uint64_t held_step;         /* client: the step whose state Welcome named: next_step then, or an earlier one */
	bool paused;                /* server: it ended because the client paused and means to come back */
	uint64_t made, branch;      /* client: of the state that Welcome named, as in struct sl_welcome */
	uint64_t group_step;        /* server: steps that the group has done; this member may be behind */
	bool joining;               /* server: the member waits for its group */
	/* the pass under way */
	bool training;
	uint64_t number;              /* step, or evaluation batch */
	uint64_t batch_rows, answers; /* answers: tokens with a loss; 0 without token_loss */
	int chunks;
	uint32_t tokens[SL_SESSION_MAX_CHUNKS]; /* by chunk; 0: no tokens, or not known yet */
	double lr;
	double group_lr; /* server: the group's, if it took another one than the client's; else below 0 */
	/* If the run clips, sums of squares: on a client of head, middle (-1: not known yet) and tail. In a vertical
	 * group [1] is of all parties and the middle, and on a server [0] of the client. */
	double squares[3];
	double own_squares; /* client: of its head and tail, once they are known; 0 before */
	double mean_factor; /* client: factor that makes the sum of the step's batches their mean; 1 without
			       accumulation */
	double grad_scale;  /* factor for all gradients, mean_factor included; 0: none; -1: free step, not known yet */
	/* Free steps, by chunk: its rows; how far its gradient is: on a client given, encoded, on both come from the
	 * peer. backs: gradients given (client), or that began to come (server). */
	uint32_t rows_of[SL_SESSION_MAX_CHUNKS];
	enum sl_pass_back back[SL_SESSION_MAX_CHUNKS];
	int backs;
	int norm_of;   /* server: gradients that the norm asked for shall include; -1: NORM runs; 0: none. In a vertical
			  group -1: the client's own squares were sent, or have come */
	int committed; /* server: chunks with a gradient, as COMMIT says; 0: COMMIT has not come */
	enum sl_pass_keep keep;
	uint64_t kept[SL_WIRE_KEPT]; /* steps of the client's checkpoints for COMMIT; set by its driver */
	double decided_s;            /* server: kernel time of the step, for COMMITTED */
	uint64_t kept_step; /* client: the newest state that the server says is on its disk (WELCOME, COMMITTED, answer
			       to FETCH), as the step after it; 0: none. Server: that of its answer to FETCH */
	enum sl_pass_decided decided;
	enum sl_pass_asked asked;
	bool abandon_asked; /* server: ABANDON came before the upload was complete */
	enum sl_pass_fate fate;
	bool late; /* abandoned because the group went on without this member */
	enum sl_pass_commit commit;
	char nonfinite[SL_WIRE_TEXT_MAX]; /* why the pass was abandoned */
	double server_compute_s;          /* client: the kernel time that COMMITTED said; valid once `decided` */
	struct {
		int chunk; /* the next chunk whose parts are accepted */
		uint64_t received, total;
	} lane[SL_PART_WHAT_COUNT];
	int done[SL_TASK_COUNT]; /* by task: how many chunks of this pass it has done */
	/* client: for the proof in its Hello */
	const struct sl_secret *secret; /* borrowed; NULL: a Challenge ends the session */
	struct sl_bytes text;           /* payload of the Hello with the proof; borrowed */
	bool first;                     /* this process had no link before, so a Challenge may raise its epoch */
	int challenges;
	uint8_t nonce[SL_NONCE_BYTES]; /* of the last Challenge */
	/* liveness */
	uint32_t patience_ms; /* silence after which the peer is lost; 0: wait for ever */
	uint64_t heard_ms, said_ms;
	uint64_t arrived;           /* as the last TICK said */
	const char *device;         /* server: the device name for Welcome; borrowed, or NULL */
	char there[SL_WIRE_DEVICE]; /* client: the device name from Welcome */
	struct sl_session_counts counts;
	bool writing;          /* kept[0] is still being written */
	bool common;           /* client: as in struct sl_welcome */
	uint64_t record_bytes; /* client: of the group's record, of which pieces are missing; 0: none are */
	enum sl_gift gift;
	uint64_t gift_bytes, gift_step; /* gift_bytes: of the head and tail, or hash, that were asked for; 0: none.
					   gift_step, on the server: the step before which the member had them */
};

/* Whether the pass's COMMIT applies nothing. */
static inline bool sl_session_skips(const struct sl_session *s)
{
	return s->commit != SL_COMMIT_APPLIES;
}

/* Whether the pass under way is a free step. */
static inline bool sl_session_is_free(const struct sl_session *s)
{
	return s->limits.free_calls && s->training;
}

/* The number that the step's loss is a mean over: tokens with a loss, or rows. */
static inline uint64_t sl_session_counts(const struct sl_session *s)
{
	return s->limits.token_loss ? s->answers : s->batch_rows;
}

/* The most that grad_scale of a Commit of `step` may be; 0: it is left out. */
static inline int sl_session_scale_most(const struct sl_session *s, uint64_t step)
{
	const int batches = s->limits.accumulate;

	if (batches > 1 && (step + 1) % (uint64_t)batches == 0)
		return batches;
	return s->limits.clip_norm > 0 || s->limits.free_calls;
}

/* The batch_rows that parts of the pass carry. */
static inline uint64_t sl_session_said_rows(const struct sl_session *s)
{
	return sl_session_is_free(s) ? 0 : s->batch_rows;
}

/* Whether end_grad was encoded (client) or has arrived completely (server). */
static inline bool sl_session_told(const struct sl_session *s)
{
	return s->role == SL_SESSION_CLIENT ? s->done[SL_TASK_TELL] > 0 : s->lane[SL_PART_END_GRAD].chunk > 0;
}

/* Client: whether COMMITTED has arrived, and with it the mean if there is one. */
static inline bool sl_session_heard(const struct sl_session *s)
{
	return s->decided == SL_DECIDED_PLAIN || (s->decided == SL_DECIDED_MEAN && s->lane[SL_PART_END_MEAN].chunk > 0);
}

/* Client: whether this link brought the group's head and tail, as they are before next_step. */
static inline bool sl_session_has_ends(const struct sl_session *s)
{
	return s->role == SL_SESSION_CLIENT && s->lane[SL_PART_ENDS].chunk > 0;
}

/* Opens a client's session. The caller has set everything in *hello. patience_ms becomes hello's timeout_ms; the
 * caller may change it, and sets `secret`, `text` and `first`. */
void sl_session_open_client(struct sl_session *s, const struct sl_hello *hello, uint64_t now_ms);
/* Opens a server's session. `window_bytes`: the credit that it grants; part_bytes: the most that it accepts. The rest
 * comes with Hello. */
void sl_session_open_server(struct sl_session *s, uint64_t window_bytes, uint32_t part_bytes, uint64_t now_ms);
/* Checks the bounds of a Hello. VERSION, LIMIT, PROTOCOL. */
enum sl_err sl_session_check_hello(const struct sl_hello *hello, struct sl_fail *fail) SL_MUST_CHECK;
/* To be called once the plan is known: on the client before OPEN, on the server before TASK_DONE(OPEN). */
void sl_session_set_limits(struct sl_session *s, const struct sl_session_limits *limits);

/* Handles one event and overwrites *out. A returned error is also an SL_ACTION_FAIL in *out, after a REFUSE if the
 * peer should hear of it. The session is then CLOSED and answers every later event with nothing. */
enum sl_err sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out);

/* Ends the session for a reason outside the state machine, such as a task that failed: REFUSE to the peer, then
 * FAIL. */
void sl_session_fail(struct sl_session *s, const struct sl_fail *why, uint64_t now_ms, struct sl_outbox *out);

/* Whether NaN or Inf that a task finds now abandons a training pass (NONFINITE) instead of ending the session. */
bool sl_session_abandons(const struct sl_session *s);

uint64_t sl_session_chunk_rows(const struct sl_session *s, int chunk); /* of the pass under way */
const char *sl_session_state_name(enum sl_session_state state);
const char *sl_task_name(enum sl_task task);

#endif
