/* The inside of a link, for link.c and link_table.c only. */
#ifndef SL_CLIENT_LINK_PARTS_H
#define SL_CLIENT_LINK_PARTS_H

#include "client/link/link.h"
#include "common/link/loop.h"

/* The order matters: below UP the handshake is not done, above UP the session is over. */
enum link_state {
	LINK_CALLING,   /* nothing has arrived from the server yet */
	LINK_PREPARING, /* the server has answered, and builds its side of the run */
	LINK_UP,        /* the handshake is done: the caller may ask for steps, evaluations and weights */
	LINK_STOPPING,  /* the session failed, and its last task has not ended */
	LINK_DOWN,      /* the session is over and the caller knows: it closes next */
	LINK_CLOSING,   /* waits for the last task to end, then frees everything */
	LINK_STATE_COUNT
};

enum link_event {
	LINK_TICK,
	LINK_HEARD,    /* a frame of the server arrived */
	LINK_WELCOMED, /* the handshake is done */
	LINK_FAILED,   /* the session is over; `why` says why */
	LINK_QUIET,    /* no task is under way any more */
	LINK_PAUSE,    /* the caller ends the session; the server shall keep its side */
	LINK_CLOSE,    /* the caller ends the session */
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
	struct sl_bytes text;            /* the payload of the Hello; the link owns it */
	enum link_state state, ended_in; /* ended_in: the last state that was not above UP */
	uint64_t opened_ms;
	uint64_t worked, worked_ms; /* for stalls(): the work seen so far; when it last grew, or none was expected */
	bool lost;                  /* the connection broke, and nothing has arrived since */
	bool came_back;             /* it broke, and something has arrived since */
	bool stalled;               /* a member got nothing but heartbeats for link.stall_s, so its link ends */
	bool said;                  /* the log has the line about waiting in this state */
	struct sl_job last;         /* queued behind the last task: its end is LINK_QUIET */
	struct sl_fail why;
};

/* link_table.c */
struct link_rule {
	enum link_state next;
	void (*act[2])(struct sl_link *l); /* NULL: no further action */
	bool there;                        /* false: this state ignores the event */
};
extern const struct link_rule sl_link_table[LINK_STATE_COUNT][LINK_EVENT_COUNT];
void sl_link_event(struct sl_link *l, enum link_event ev);
void sl_link_free(struct sl_link *l); /* after its port is closed */

#endif
