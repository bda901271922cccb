/* A client's and a server's session joined by a relay in memory: no transport, clock, codec or kernel. Runs are cut
 * into parts by credit, tasks finish in order of their kind, and a seeded choice says which of all the things that
 * could happen next does. */
#ifndef SL_TESTS_SESSION_RIG_H
#define SL_TESTS_SESSION_RIG_H

#include "common/session/session.h"

enum { RIG_INBOX = 2048 };

enum rig_who { RIG_CLIENT, RIG_SERVER };

struct rig_conf {
	uint64_t batch, rows; /* of a full batch, of a full chunk */
	uint32_t part_bytes;
	uint64_t window_bytes;
	bool need_weights;
	uint64_t next_step; /* that the server goes on from: 12 or 0, as the Hello says */
	uint64_t seed;      /* of the choices */
	bool storeless;     /* the server keeps nothing */
	bool no_mid_grad, no_head_grad;
	double clip_norm;
	bool tokens;         /* rows have 1 to RIG_ROW_TOKENS, and head_act begins with their lengths */
	bool shared;         /* the client is a member of a group */
	bool ends;           /* the group shares heads and tails */
	bool comes;          /* … and its members come and go */
	bool free_calls;     /* steps are free */
	uint64_t ends_round; /* heads and tails are shared by rounds of so many steps; 0: by step */
	bool token_loss;     /* all tokens have a loss, which is counted */
};

enum { RIG_ROW_TOKENS = 5 };

/* The three that can be: both gradients cross, the middle's alone, none. */
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
	int chunk[SL_SESSION_MAX_CHUNKS]; /* [(first + i) % SL_SESSION_MAX_CHUNKS]; not of an inbox */
};

struct rig_side {
	struct sl_session s;
	struct sl_frame inbox[RIG_INBOX];
	struct rig_fifo in;
	struct rig_run run[SL_PART_WHAT_COUNT][SL_SESSION_MAX_CHUNKS];
	struct rig_fifo out[SL_PART_WHAT_COUNT];
	struct rig_fifo task[SL_TASK_COUNT]; /* started, not yet done */
	uint64_t credit;
	/* what the session has said */
	int tasks[SL_TASK_COUNT]; /* started since the rig was opened */
	uint64_t stored[SL_PART_WHAT_COUNT], whole[SL_PART_WHAT_COUNT];
	uint64_t frames_in, parts_in, granted;
	int most_actions, most_frames;
	int poison; /* the task of this number and kind finds NaN; -1: none */
	enum sl_task poison_task;
	int tasks_ended[SL_TASK_COUNT]; /* since the rig was opened */
	int dropped, abandoned, joining, prepared, given;
	int ready, stepped, evaluated, fetched, failed, left;
	struct sl_fail fail;
};

struct rig {
	struct rig_conf conf;
	struct rig_side side[2];
	uint64_t now_ms, choices;
};

/* Limits, Hello and both sessions; nothing is said yet. */
void rig_open(struct rig *rig, const struct rig_conf *conf);
struct sl_hello rig_hello(const struct rig_conf *conf);
/* Most bytes of a run of a full chunk; the same on both sides. */
uint64_t rig_run_bytes(enum sl_part_what what);

/* Feeds an event and carries out what the session answers. */
enum sl_err rig_event(struct rig *rig, enum rig_who who, const struct sl_event *ev);
/* The same for a frame from nowhere. */
enum sl_err rig_frame(struct rig *rig, enum rig_who who, const struct sl_frame *frame);
/* One thing that can happen; false where nothing can. */
bool rig_turn(struct rig *rig);
void rig_settle(struct rig *rig); /* turns until nothing is left to do */
void rig_shake_hands(struct rig *rig);

void rig_begin_step(struct rig *rig, uint64_t rows);
void rig_begin_eval(struct rig *rig, uint64_t number, uint64_t rows);
void rig_begin_fetch(struct rig *rig);

/* Both sides open, hands shaken. */
void rig_open_ready(struct rig *rig, const struct rig_conf *conf);
/* Ends the oldest task of this kind, which must be of this chunk. */
void rig_done(struct rig *rig, enum rig_who who, enum sl_task task, int chunk);
/* A part of 1,000 bytes, as it is expected next; it must be taken. */
void rig_give(struct rig *rig, enum rig_who to, enum sl_part_what what);
/* A step of 61 rows in chunks of 16, of which the server has computed chunk 0 forward and received chunk 1. */
void rig_step_under_way(struct rig *rig, const struct rig_conf *conf);

/* A part as the pass under way expects it next, of `len` bytes: a whole run. */
struct sl_frame rig_part(const struct rig *rig, enum rig_who to, enum sl_part_what what, uint64_t len);

#endif
