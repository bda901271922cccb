/* The inside of a session: middle.c has the loop's part, middle_task.c the worker's, and alone.c what is done where it
 * has no group; a group's files use it too. */
#ifndef SL_SERVER_TRUNK_MIDDLE_TASK_H
#define SL_SERVER_TRUNK_MIDDLE_TASK_H

#include "common/session/agree.h"
#include "server/trunk/middle.h"
#include "server/trunk/trunk.h"

/* ASKS: the Hello is being checked; ADMITTED: agreement and plan are valid; WELCOMED: the handshake is done. */
enum sl_middle_stage { SL_MIDDLE_ASKS, SL_MIDDLE_ADMITTED, SL_MIDDLE_WELCOMED };

/* The state of the session's last job, `last`. */
enum sl_middle_last { SL_MIDDLE_LAST_NONE, SL_MIDDLE_LAST_POSTED, SL_MIDDLE_LAST_DONE };

/* What a session does with its trunk: its own (alone.c), or a group's (group.c). */
struct sl_seat_kind {
	/* (worker) lend, before its codecs are opened: parameters, and memory to compute. last: the session is over. */
	enum sl_err (*lend)(struct sl_middle *m, struct sl_fail *fail);
	enum sl_err (*task[SL_TASK_COUNT])(struct sl_middle *m, struct sl_fail *fail); /* NULL: it has no such task */
	struct sl_exec *(*exec)(const struct sl_middle *m); /* computes the session's middle, from lend on */
	void (*last)(struct sl_middle *m);
	/* Loop: what happens to the session. over: it has ended with *why, or, NULL, by the client's goodbye; leave: it
	 * is freed. */
	void (*action[SL_ACTION_COUNT])(struct sl_middle *m); /* NULL: it has no such action */
	void (*over)(struct sl_middle *m, const struct sl_fail *why);
	void (*leave)(struct sl_middle *m);
};
extern const struct sl_seat_kind sl_seat_alone;

struct sl_middle {
	struct sl_middle_env env;
	sl_peer peer;
	struct sl_port *port;
	struct sl_agreement agreement;
	/* (worker) The session's own trunk; a group's member uses only its plan and exec. */
	struct sl_trunk trunk;
	const struct sl_seat_kind *seat;
	struct sl_group *group;     /* NULL: it has none, or is not admitted */
	struct sl_plan *group_plan; /* (worker) plan of the group's trunk, from ADMIT to OPEN */
	/* (worker) with shared heads and tails: the member's change of these in a step; otherwise zeros */
	struct {
		struct sl_end_layout layout;
		struct sl_end_coder *coder;
		float *change; /* [layout.floats] */
	} ends;
	struct sl_charge charge;                       /* of env.memory; held from the first to the last moment */
	struct sl_session_memory memory, shown_memory; /* (worker); the loop's copy, made after OPEN */
	bool need_weights;
	enum sl_middle_stage stage;
	enum sl_seat_end ended;          /* LOST, unless the client has left or paused */
	char outcome[SL_FAIL_TEXT + 32]; /* the same in words; "": not yet */
	struct sl_memory back;           /* memory of older links, which end when this one is admitted */
	bool owned;                      /* there is auth: the session belongs to the client with the key `owner` */
	struct sl_key owner;
	uint64_t key;                                 /* the worker's, of its last job; 0 until it is admitted */
	struct sl_checkpoint_state shown;             /* the loop's copy of trunk.kept */
	const struct sl_checkpoint_state *checkpoint; /* `shown`, or the group's */
	enum sl_middle_last last_is;
	struct sl_job last;          /* stores the last state, or removes the checkpoints of a client that left */
	double squares;              /* (worker) sum of squares of the gradient of the step under way */
	bool clipped;                /* (worker) a group's: that gradient was scaled down to share.member_norm */
	char network[64], part[200]; /* the middle in words, for the status */
	uint64_t opened_ms, worked_ms, stepped_ns, steps, skipped;
	double step_s, compute_before; /* compute_before: kernels' seconds before the step under way */
	void (*closed)(void *arg);     /* NULL until sl_middle_close */
	void *closed_arg;
};

/* Callbacks of the port (session/port.h); `arg` is the session. (worker) */
enum sl_err sl_middle_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
/* The tensors that plain payloads are received into; the weight range of an upload. */
float *sl_middle_place(void *arg, enum sl_dir dir, int chunk);
float *sl_middle_range(void *arg);

#endif
