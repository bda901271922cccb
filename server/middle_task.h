/* A session on the server, as middle.c and middle_task.c see it, and nobody else: the loop's part and the worker's. */
#ifndef SL_SERVER_MIDDLE_TASK_H
#define SL_SERVER_MIDDLE_TASK_H

#include <stdatomic.h>

#include "common/nn/exec.h"
#include "common/session/agree.h"
#include "server/keep.h"
#include "server/middle.h"

struct sl_middle {
	struct sl_middle_env env;
	sl_peer peer;
	struct sl_port *port;
	struct sl_agreement agreement;
	struct sl_plan *plan;
	struct sl_exec *exec;
	_Atomic uint64_t memory_bytes;                 /* counted in *env.memory_used */
	struct sl_session_memory memory, shown_memory; /* the worker's; the loop's copy of it, from READY on */
	bool need_weights, over;
	bool said_storeless; /* (worker) */
	/* recovery: what the worker has applied, and the last words that it writes of it */
	struct sl_keep keep;
	struct sl_memory back; /* of its older links, which end when it is admitted */
	bool owned;            /* … by the client with this key: there is auth */
	struct sl_key owner;
	uint64_t applied, from; /* steps, on the worker: the next one to do; where the session began */
	uint64_t on_disk;       /* the newest checkpoint that is known to be there; 0: none */
	bool stays; /* the client has asked for one behind the last step: it outlives a goodbye, for a longer run */
	bool checkpointed;                      /* of the last commit or gather */
	struct sl_checkpoint_state kept, shown; /* the worker's, and the loop's copy of it */
	struct sl_job last; /* writes the state behind the last applied step, or clears the checkpoints of a client that
			       left */
	double squares;     /* (worker) of the gradient of the step under way */
	bool opened, torn;  /* (worker) torn: a step is applied in part, and there is no way back */
	bool admitted;      /* agreement and plan stand */
	char network[64], part[200]; /* what the status says of the middle */
	bool welcomed, left, last_posted, last_done, closing;
	uint64_t opened_ms, worked_ms, stepped_ns, steps, skipped;
	double step_s, compute_before; /* kernels, in all, before the step under way */
	void (*closed)(void *arg);
	void *closed_arg;
};

/* Callbacks of the port (session/port.h), `arg` the session. On the worker: */
enum sl_err sl_middle_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
/* Where a payload that is the tensor itself goes. */
float *sl_middle_place(void *arg, enum sl_dir dir, int chunk);
/* (worker) Writes what was applied to the store; false, and logged: it is not there. */
bool sl_middle_keep(struct sl_middle *m);

#endif
