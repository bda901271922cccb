/* A link, as remote.c, remote_task.c and link_table.c share it; nobody else includes this. */
#ifndef SL_CLIENT_RUN_REMOTE_PARTS_H
#define SL_CLIENT_RUN_REMOTE_PARTS_H

#include "client/run/ends_round.h"
#include "client/run/remote.h"
#include "common/link/loop.h"

/* In this order: below UP nobody has been welcomed, above it the session is over. */
enum link_state {
	LINK_CALLING,   /* nothing has been heard of the server */
	LINK_PREPARING, /* it is there, and builds its side of the run */
	LINK_UP,        /* the caller asks for steps, evaluations and weights */
	LINK_STOPPING,  /* the session failed, and its last task has not ended */
	LINK_DOWN,      /* the session is over, as the caller knows: it closes next */
	LINK_CLOSING,   /* the last task ends, then everything is freed */
	LINK_STATE_COUNT
};

enum link_event {
	LINK_TICK,
	LINK_HEARD,    /* a frame of the server */
	LINK_WELCOMED, /* the handshake is done */
	LINK_FAILED,   /* the session is over: `why` */
	LINK_QUIET,    /* no task is under way any more */
	LINK_PAUSE,    /* the caller: the session is to end, and the server to keep its side */
	LINK_CLOSE,    /* the caller: it is to end */
	LINK_EVENT_COUNT
};

struct sl_remote {
	struct sl_remote_conf conf;
	struct sl_remote_events events;
	void *arg;
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;
	struct sl_async *jobs_done;
	struct sl_timer *ticker;
	struct sl_port *port;
	struct sl_ends ends;
	/* of a group that shares heads and tails; else zeros */
	struct sl_end_layout layout;
	struct sl_end_coder *end[SL_END_COUNT]; /* (worker) */
	float *change;                          /* (worker) [layout.floats] */
	struct sl_ends_round round;             /* (worker) where they are averaged after every round */
	bool told;                              /* (worker) end_grad of the step under way was made */
	struct sl_bytes text;                   /* the payload of its Hello; its own */
	enum link_state state, ended_in;        /* ended_in: the state from which it came to one above UP */
	uint64_t opened_ms;
	uint64_t worked, worked_ms; /* what the server had done, and until when it was not waited for in vain */
	bool said;                  /* what the operator is told of this state */
	struct sl_job last;         /* behind the task that ran when the session ended */
	struct sl_fail why;
	/* the pass under way */
	uint64_t started_ns;
	struct sl_port_stats before;
	double lr;
	double squares[2]; /* (worker) of the gradients of head and tail */
	uint64_t applied;  /* (worker) the step behind the last one that was applied */
	bool torn;         /* (worker) a step is applied in part, and there is no way back */
};

void sl_link_event(struct sl_remote *r, enum link_event ev); /* link_table.c */
void sl_remote_free(struct sl_remote *r);                    /* behind its port */

/* remote_task.c; worker's thread, or any while no task is under way */
enum sl_err sl_remote_run_task(void *remote, enum sl_task task, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_remote_commit(struct sl_remote *r, struct sl_fail *fail) SL_MUST_CHECK;

#endif
