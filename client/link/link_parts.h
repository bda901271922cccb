/* A link, as link.c and link_table.c share it; nobody else includes this. */
#ifndef SL_CLIENT_LINK_PARTS_H
#define SL_CLIENT_LINK_PARTS_H

#include "client/link/link.h"
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

struct sl_link {
	struct sl_link_conf conf;
	struct sl_link_events events;
	struct sl_link_work work;
	void *arg;
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_worker *worker;
	struct sl_async *jobs_done;
	struct sl_timer *ticker;
	struct sl_port *port;
	struct sl_bytes text;            /* the payload of its Hello; its own */
	enum link_state state, ended_in; /* ended_in: the state from which it came to one above UP */
	uint64_t opened_ms;
	uint64_t worked, worked_ms; /* what had gone on, and until when it was not waited for in vain */
	bool lost;                  /* the connection broke, and nothing has been heard since */
	bool said;                  /* what the operator is told of this state */
	struct sl_job last;         /* behind the task that ran when the session ended */
	struct sl_fail why;
};

void sl_link_event(struct sl_link *l, enum link_event ev); /* link_table.c */
void sl_link_free(struct sl_link *l);                      /* behind its port */

#endif
