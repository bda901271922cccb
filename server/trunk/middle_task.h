/* A session on the server, as middle.c and middle_task.c see it, and nobody else: the loop's part and the worker's. */
#ifndef SL_SERVER_TRUNK_MIDDLE_TASK_H
#define SL_SERVER_TRUNK_MIDDLE_TASK_H

#include <stdatomic.h>

#include "common/session/agree.h"
#include "server/trunk/group.h"
#include "server/trunk/middle.h"
#include "server/trunk/trunk.h"

/* How far it has come: ADMITTED, its agreement and plan stand. */
enum sl_middle_stage { SL_MIDDLE_ASKS, SL_MIDDLE_ADMITTED, SL_MIDDLE_WELCOMED };

/* Of the job behind its last task. */
enum sl_middle_last { SL_MIDDLE_LAST_NONE, SL_MIDDLE_LAST_POSTED, SL_MIDDLE_LAST_DONE };

struct sl_middle {
	struct sl_middle_env env;
	sl_peer peer;
	struct sl_port *port;
	struct sl_agreement agreement;
	/* (worker) Of this session alone; a group's member has plan and executor here, and no more. */
	struct sl_trunk trunk;
	struct sl_group *group;     /* NULL: none, or it is not admitted */
	struct sl_plan *group_plan; /* (worker) the group's trunk's, from ADMIT to OPEN */
	/* (worker) in a group that shares heads and tails: what the member tells of a step; else zeros */
	struct {
		struct sl_end_layout layout;
		struct sl_end_coder *coder;
		float *change; /* [layout.floats] */
	} ends;
	_Atomic uint64_t memory_bytes;                 /* counted in *env.memory_used */
	struct sl_session_memory memory, shown_memory; /* the worker's; the loop's copy of it, from READY on */
	bool need_weights;
	enum sl_middle_stage stage;
	enum sl_seat_end ended; /* LOST, unless its client has said more */
	struct sl_memory back;  /* of its older links, which end when it is admitted */
	bool owned;             /* there is auth: the session belongs to the client with this key */
	struct sl_key owner;
	struct sl_checkpoint_state shown; /* the loop's copy of the trunk's */
	enum sl_middle_last last_is;
	struct sl_job last; /* writes the state behind the last applied step, or clears the checkpoints of a client that
			       left */
	double squares;     /* (worker) of the gradient of the step under way */
	char network[64], part[200]; /* what the status says of the middle */
	uint64_t opened_ms, worked_ms, stepped_ns, steps, skipped;
	double step_s, compute_before; /* kernels, in all, before the step under way */
	void (*closed)(void *arg);     /* NULL until it is to be closed */
	void *closed_arg;
};

/* Callbacks of the port (session/port.h), `arg` the session. On the worker: */
enum sl_err sl_middle_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
/* Where a payload that is the tensor itself goes. */
float *sl_middle_place(void *arg, enum sl_dir dir, int chunk);
float *sl_middle_range(void *arg);

#endif
