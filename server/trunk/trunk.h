/* The trunk: the state that steps change, which outlives links. It owns the middle's plan, its parameters with
 * gradients and moments, the number of the next step, and their checkpoints in the store. A client without a group has
 * a trunk with one seat (alone.c); a group (group.h) has one with a seat for each member. On the device's worker,
 * except for sl_trunk_close. */
#ifndef SL_SERVER_TRUNK_TRUNK_H
#define SL_SERVER_TRUNK_TRUNK_H

#include "common/exec/exec.h"
#include "server/store/keep.h"
#include "server/trunk/trunk_records.h"

/* TORN: a step is applied only in part, and cannot be undone. */
enum sl_trunk_state { SL_TRUNK_NONE, SL_TRUNK_WHOLE, SL_TRUNK_TORN };

struct sl_trunk {
	struct sl_plan *plan;
	struct sl_exec *exec;
	struct sl_keep keep;
	struct sl_records r;    /* its next step, and the records of its seats */
	struct sl_record alone; /* the one seat of a client without a group */
	uint64_t from;          /* the step from which it went on when it was opened, or when all last went back */
	enum sl_trunk_state state;
	bool checkpointed;               /* the last commit or gather has stored the state */
	struct sl_checkpoint_state kept; /* its checkpoints, for the status */
	bool said_storeless;             /* the log says that there is no store */
};

/* The store as a trunk uses it; borrowed. `owner` NULL: no auth. */
struct sl_trunk_store {
	const char *dir; /* "": nothing is stored */
	struct sl_retention *retention;
	const struct sl_key *owner;
	const char *core; /* as in struct sl_keep */
};

/* `whose`, for the log: "this session" or "group NAME". */

/* Sets the initial weights of a run: those in the store, or those of the seed. It uses the port's upload buffer. *need:
 * there are neither, so the client has to upload them. */
enum sl_err sl_trunk_first_weights(struct sl_exec *exec, const struct sl_plan *plan, const struct sl_trunk_store *store,
				   const struct sl_hello *hello, struct sl_port *port, bool *need) SL_MUST_CHECK;
/* take loads the state before `step` into a trunk. `whose` begins the line in the log if that fails. */
struct sl_trunk_taker {
	enum sl_err (*take)(void *arg, uint64_t step, struct sl_fail *fail);
	void *arg;
	const char *whose;
};
enum { SL_TRUNK_TRIED = 120 };
/* Takes up the first of step[n] that it can; *chosen is its index. NOINPUT: none could, and `tried` lists them; *fail
 * says why the first file is of no use that is there, and its code is 0 if there is none. */
enum sl_err sl_trunk_take_newest(const struct sl_trunk_taker *taker, const uint64_t *step, int n, int *chosen,
				 char tried[SL_TRUNK_TRIED], struct sl_fail *fail) SL_MUST_CHECK;
/* Whether to try an older step after this one failed with `err`: its file is missing, damaged, unreadable, or of
 * another plan. Logs why, unless it is missing. */
bool sl_trunk_passes_over(enum sl_err err, uint64_t step, const char *whose, const struct sl_fail *fail);
/* MISMATCH: the uploaded weights in `range` are others than `hello` announced. */
enum sl_err sl_trunk_check_upload(const struct sl_plan *plan, const struct sl_hello *hello, const float *range,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Installs the uploaded weights from the port's buffer, and stores them. MISMATCH: `hello` announced others. */
enum sl_err sl_trunk_install(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *hello,
			     struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
/* Lets the next write keep the files of all steps of which members have checkpoints. */
void sl_trunk_pin(struct sl_trunk *t);
void sl_trunk_pin_step(struct sl_keep *keep, uint64_t step); /* the same for one step, beside those */
/* For a checkpoint of the state after the last step. has_store, called first: whether there is a store. wrote: notes
 * the result `err` and `fail` of writing it. False, and logged: there is no checkpoint. */
bool sl_trunk_has_store(struct sl_trunk *t, const char *whose);
bool sl_trunk_wrote(struct sl_trunk *t, const char *whose, enum sl_err err, const struct sl_fail *fail);
/* A client fetches the weights; `kept`: their state is on the disk. Returns `kept`. */
bool sl_trunk_gathered(struct sl_trunk *t, bool kept);
/* The session of seat k is over: removes files that nobody needs. True: the caller has to store the state, which is
 * whole, and not on the disk. */
bool sl_trunk_ended(struct sl_trunk *t, int k, enum sl_seat_end how);
void sl_trunk_close(struct sl_trunk *t); /* a zeroed one is fine */

/* trunk_check.c: assertions. _whole: the executor stands where the records say, before and after each step. _pins: what
 * the next write keeps. */
void sl_trunk_check_whole(const struct sl_trunk *t);
void sl_trunk_check_pins(const struct sl_keep *keep);

#endif
