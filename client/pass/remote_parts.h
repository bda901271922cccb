/* A distributed run, as remote.c and remote_task.c share it; nobody else includes this. */
#ifndef SL_CLIENT_PASS_REMOTE_PARTS_H
#define SL_CLIENT_PASS_REMOTE_PARTS_H

#include "client/pass/remote.h"
#include "client/step/ends_round.h"
#include "common/link/sealed.h"

struct sl_remote {
	struct sl_remote_conf conf;
	struct sl_link *link;
	struct sl_ends ends;
	/* for a group that shares heads and tails; else zeros */
	struct sl_end_layout layout, state; /* state: if steps may be done without a member; borrows layout's arrays */
	struct sl_end_coder *end[SL_END_COUNT]; /* (worker) */
	float *change;                          /* (worker) [layout.floats] */
	struct sl_ends_round round;             /* (worker) if they are averaged after every round */
	bool told;                              /* (worker) end_grad of the step under way was made */
	/* the pass under way */
	uint64_t started_ns;
	struct sl_port_stats before;
	double lr;
	double squares[2]; /* (worker) squared norms of the gradients of head and tail */
	uint64_t applied;  /* (worker) the step after the last one that was applied */
	bool torn;         /* (worker) a step is applied in part, and there is no way back */
};

/* remote_task.c; worker's thread, or any while no task is under way */
enum sl_err sl_remote_run_task(void *remote, enum sl_task task, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_remote_commit(struct sl_remote *r, struct sl_fail *fail) SL_MUST_CHECK;

/* How the head and tail before the session's next step are sealed in that branch of the group's states. */
struct sl_sealed sl_remote_seal(const struct sl_remote *r, uint64_t branch);
static inline size_t sl_remote_seal_bytes(const struct sl_remote *r)
{
	return r->conf.seal ? SL_SEALED_BYTES : 0;
}

#endif
