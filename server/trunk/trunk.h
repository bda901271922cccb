/* The trunk: the state that steps change, apart from the links of the clients that ask for them. It owns the middle's
 * plan, its parameters with gradients and moments, the step that is next, and what the store keeps of all this. A
 * client by itself has a trunk with one seat, a group (group.h) one with a seat for each member. On the device's
 * worker, but for sl_trunk_close. */
#ifndef SL_SERVER_TRUNK_TRUNK_H
#define SL_SERVER_TRUNK_TRUNK_H

#include "common/exec/exec.h"
#include "server/store/keep.h"
#include "server/trunk/trunk_records.h"

/* TORN: a step is applied in part, and there is no way back. */
enum sl_trunk_state { SL_TRUNK_NONE, SL_TRUNK_WHOLE, SL_TRUNK_TORN };

struct sl_trunk {
	struct sl_plan *plan;
	struct sl_exec *exec;
	struct sl_keep keep;
	struct sl_records r;    /* its step, and what of its seats survives */
	struct sl_record alone; /* the one seat of a client without a group */
	uint64_t from;          /* the step where all began */
	enum sl_trunk_state state;
	bool checkpointed;               /* of the last commit or gather */
	struct sl_checkpoint_state kept; /* of its checkpoints */
	bool said_storeless;
};

/* What the store is to a trunk, borrowed; `owner` NULL: no auth. */
struct sl_trunk_store {
	const char *dir; /* "": nothing is kept */
	struct sl_tidy *tidy;
	const struct sl_key *owner;
	const char *core; /* as in struct sl_keep */
};

/* ---- of any trunk. `whose`, for the log: "this session", "group g" */

/* What a run begins with, by way of where `port` takes an upload: weights of the store, or those of the seed. *need:
 * neither, and the client has to send them. */
enum sl_err sl_trunk_first_weights(struct sl_exec *exec, const struct sl_plan *plan, const struct sl_trunk_store *store,
				   const struct sl_hello *hello, struct sl_port *port, bool *need) SL_MUST_CHECK;
/* How a trunk takes up the state of a step; `whose`, for the log, in front of why it could not. */
struct sl_trunk_taker {
	enum sl_err (*take)(void *arg, uint64_t step, struct sl_fail *fail);
	void *arg;
	const char *whose;
};
enum { SL_TRUNK_TRIED = 120 };
/* The first of step[n] that can be taken up, into *chosen. NOINPUT: none can, and `tried` lists them. */
enum sl_err sl_trunk_take_newest(const struct sl_trunk_taker *taker, const uint64_t *step, int n, int *chosen,
				 char tried[SL_TRUNK_TRIED], struct sl_fail *fail) SL_MUST_CHECK;
/* Whether an older one may do where this step failed with `err`: it is not there, damaged, or of another plan. */
bool sl_trunk_passes_over(enum sl_err err, uint64_t step, const char *whose, const struct sl_fail *fail);
/* MISMATCH: the uploaded weights in `range` are others than `hello` announced. */
enum sl_err sl_trunk_check_upload(const struct sl_plan *plan, const struct sl_hello *hello, const float *range,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* The checkpoints that its members count on stay. */
void sl_trunk_pin(struct sl_trunk *t);
/* A checkpoint of the state behind its last step: `err` and `fail` of the attempt. False, and logged: it is not there.
 * Before that, whether there is a store. */
bool sl_trunk_has_store(struct sl_trunk *t, const char *whose);
bool sl_trunk_wrote(struct sl_trunk *t, const char *whose, enum sl_err err, const struct sl_fail *fail);
/* Its weights were asked for, and its state is on the disk, or is not: `kept`, which it returns. */
bool sl_trunk_gathered(struct sl_trunk *t, bool kept);
/* The session of a seat is over. Removes files that nobody needs. True: what was applied is to be written, since it is
 * the state before a step or behind one, and is not on the disk. */
bool sl_trunk_ended(struct sl_trunk *t, int k, enum sl_seat_end how);
void sl_trunk_close(struct sl_trunk *t); /* a zeroed one is fine */

/* ---- of a client by itself */

/* Loads what the newest step needs that both sides can go on from: of those that `hello` names, one that is kept here,
 * or 0. *need_weights: step 0, and the client has to send its weights. MISMATCH: there is none. */
enum sl_err sl_trunk_open(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *hello,
			  struct sl_port *port, bool *need_weights, struct sl_fail *fail) SL_MUST_CHECK;
/* The uploaded weights, which lie in the port's buffer; MISMATCH: they are others than `hello` announced. */
enum sl_err sl_trunk_install(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *hello,
			     struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
/* The step under way on the port: applies it, or counts it as done where it is skipped; then a checkpoint, where one is
 * asked for. NONFINITE: nothing has changed. */
enum sl_err sl_trunk_commit(struct sl_trunk *t, struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
/* Weights to the port's buffer. Who fetches may be about to pause: the state is on the disk before they leave. */
enum sl_err sl_trunk_gather(struct sl_trunk *t, struct sl_port *port) SL_MUST_CHECK;
/* The session is over. */
void sl_trunk_last(struct sl_trunk *t, struct sl_port *port, enum sl_seat_end how);

#endif
