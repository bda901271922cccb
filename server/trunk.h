/* The trunk: the state that steps change, apart from the link of the client that asks for them. It owns the middle's
 * plan, its parameters with gradients and moments, the step that is next, and what the store keeps of all this. A
 * session (middle.c) borrows it, and brings port and codecs. On the device's worker, but for sl_trunk_close. */
#ifndef SL_SERVER_TRUNK_H
#define SL_SERVER_TRUNK_H

#include "common/exec/exec.h"
#include "server/keep.h"

struct sl_trunk {
	struct sl_plan *plan;
	struct sl_exec *exec;
	struct sl_keep keep;
	uint64_t applied, from; /* steps: the next one to do; where the session began */
	uint64_t on_disk;       /* the newest checkpoint that is known to be there; 0: none */
	bool stays; /* the client has asked for one behind the last step: it outlives a goodbye, for a longer run */
	bool checkpointed;               /* of the last commit or gather */
	struct sl_checkpoint_state kept; /* of its checkpoints */
	bool opened, torn;               /* torn: a step is applied in part, and there is no way back */
	bool said_storeless;
};

/* What the store is to a trunk, borrowed; `owner` NULL: no auth. */
struct sl_trunk_store {
	const char *dir; /* "": nothing is kept */
	struct sl_tidy *tidy;
	const struct sl_key *owner;
	const char *core; /* as in struct sl_keep */
};

/* Loads what the newest step needs that both sides can go on from: of those that `hello` names, one that is kept here,
 * or 0. *need_weights: step 0, and the client has to send its weights. MISMATCH: there is none. */
enum sl_err sl_trunk_open(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *hello,
			  struct sl_port *port, bool *need_weights, struct sl_fail *fail) SL_MUST_CHECK;
void sl_trunk_close(struct sl_trunk *t); /* a zeroed one is fine */
/* What a run begins with, by way of `range` [weight_count]: weights of the store, or those of the seed. *need: neither,
 * and the client has to send them. */
enum sl_err sl_trunk_first_weights(struct sl_exec *exec, const struct sl_plan *plan, const struct sl_trunk_store *store,
				   const struct sl_hello *hello, float *range, bool *need) SL_MUST_CHECK;
/* MISMATCH: the uploaded weights in `range` are others than `hello` announced. */
enum sl_err sl_trunk_check_upload(const struct sl_plan *plan, const struct sl_hello *hello, const float *range,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* The uploaded weights, which lie in the port's buffer; MISMATCH: they are others than `hello` announced. */
enum sl_err sl_trunk_install(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *hello,
			     struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
/* The step under way on the port: applies it, or counts it as done where it is skipped; then a checkpoint, where one is
 * asked for. NONFINITE: nothing has changed. */
enum sl_err sl_trunk_commit(struct sl_trunk *t, struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
/* Weights to the port's buffer. Who fetches may be about to pause: the state is on the disk before they leave. */
enum sl_err sl_trunk_gather(struct sl_trunk *t, struct sl_port *port) SL_MUST_CHECK;
/* The session is over, `left`: with a goodbye. What was applied is written, unless it is on the disk already, or is
 * neither the state before a step nor the one behind it; or all but what is to stay is removed. */
void sl_trunk_last(struct sl_trunk *t, struct sl_port *port, bool left);

#endif
