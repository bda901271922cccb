/* A client's and a server's session joined by a relay in memory, without transport, clock, codec or
 * kernel. Credit cuts runs into parts. Tasks of one kind finish in order. A seeded choice decides
 * which of all possible events happens next. */
#ifndef SL_TESTS_SESSION_RIG_H
#define SL_TESTS_SESSION_RIG_H

#include "common/session/session.h"

enum { RIG_INBOX = 2048 };

enum rig_who { RIG_CLIENT, RIG_SERVER };

struct rig_conf {
	uint64_t batch, rows; /* rows of a full batch, and of a full chunk */
	uint32_t part_bytes;
	uint64_t window_bytes;
	bool need_weights;
	uint64_t next_step; /* the step that the server resumes at: 12 or 0, as in the Hello */
	uint64_t seed;      /* seed of the choices */
	bool storeless;     /* the server keeps nothing */
	bool no_mid_grad, no_head_grad;
	double clip_norm;
	bool tokens;         /* a row has 1 to RIG_ROW_TOKENS tokens, and head_act begins with the rows' lengths */
	bool shared;         /* the client is a member of a group */
	bool ends;           /* the group shares heads and tails, */
	bool comes;          /* and steps may be done without one of them */
	bool free_calls;     /* steps are free */
	uint64_t ends_round; /* steps per round that shares heads and tails; 0: shared at each step */
	bool token_loss;     /* every token has a loss, and these are counted */
	enum sl_party party; /* the group is vertical, and the client has this; the other party keeps step */
};

enum { RIG_ROW_TOKENS = 5, RIG_OTHER_SQUARES = 16 /* of the middle and the other party, where these clip */ };

/* The three combinations: both gradients cross, only the middle's, none. */
static inline void rig_grads(struct rig_conf *conf, int which)
{
	conf->no_mid_grad = which > 1;
	conf->no_head_grad = which > 0;
}

struct rig_run {
	struct sl_part part;
	uint64_t len, sent;
};

struct rig_fifo {
	int first, count;
	int chunk[SL_SESSION_MAX_CHUNKS]; /* [(first + i) % SL_SESSION_MAX_CHUNKS]; unused by an inbox */
};

struct rig_side {
	struct sl_session s;
	struct sl_frame inbox[RIG_INBOX];
	struct rig_fifo in;
	struct rig_run run[SL_PART_WHAT_COUNT][SL_SESSION_MAX_CHUNKS];
	struct rig_fifo out[SL_PART_WHAT_COUNT];
	struct rig_fifo task[SL_TASK_COUNT]; /* started, not yet done */
	uint64_t credit;
	/* what the session has asked for or reported */
	int tasks[SL_TASK_COUNT]; /* started since the rig was opened */
	uint64_t stored[SL_PART_WHAT_COUNT], whole[SL_PART_WHAT_COUNT];
	uint64_t frames_in, parts_in, granted;
	int most_actions, most_frames;
	int poison; /* task number `poison` of kind poison_task finds NaN; -1: none */
	enum sl_task poison_task;
	int tasks_ended[SL_TASK_COUNT]; /* since the rig was opened */
	int handed; /* chunks of this pass in which the other party has kept step; one ORDER that came back counts, too
		     */
	int dropped, abandoned, joining, prepared, given, reported, recorded;
	int ready, stepped, evaluated, fetched, failed, left;
	struct sl_fail fail;
};

struct rig {
	struct rig_conf conf;
	struct rig_side side[2];
	uint64_t now_ms, choices;
};

/* Sets up limits, Hello and both sessions; no frame is sent yet. */
void rig_open(struct rig *rig, const struct rig_conf *conf);
struct sl_hello rig_hello(const struct rig_conf *conf);
/* Upper bound of the bytes of a full chunk's run; the same on both sides. */
uint64_t rig_run_bytes(enum sl_part_what what);

/* Feeds an event to a session and carries out the actions that it returns. */
enum sl_err rig_event(struct rig *rig, enum rig_who who, const struct sl_event *ev);
/* The same for a frame that the other side did not send. */
enum sl_err rig_frame(struct rig *rig, enum rig_who who, const struct sl_frame *frame);
/* Lets one possible event happen; false if there is none. */
bool rig_turn(struct rig *rig);
void rig_settle(struct rig *rig); /* turns until no event is possible */
void rig_shake_hands(struct rig *rig);

void rig_begin_step(struct rig *rig, uint64_t rows);
void rig_begin_eval(struct rig *rig, uint64_t number, uint64_t rows);
void rig_begin_fetch(struct rig *rig);

/* Opens both sides and completes the handshake. */
void rig_open_ready(struct rig *rig, const struct rig_conf *conf);
/* Ends the oldest task of this kind, and checks that it is of this chunk. */
void rig_done(struct rig *rig, enum rig_who who, enum sl_task task, int chunk);
/* Delivers the next expected part, of 1,000 bytes, which must be accepted. */
void rig_give(struct rig *rig, enum rig_who to, enum sl_part_what what);
/* Opens a rig in the middle of a step of 61 rows in chunks of 16: the server has computed chunk 0
 * forward and received chunk 1. */
void rig_step_under_way(struct rig *rig, const struct rig_conf *conf);

/* The part that the current pass expects next, as one whole run of `len` bytes. */
struct sl_frame rig_part(const struct rig *rig, enum rig_who to, enum sl_part_what what, uint64_t len);

#endif
