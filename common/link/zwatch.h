/* Watches a ZeroMQ socket on a libuv loop. ZMQ_FD is edge-triggered and only says "look at ZMQ_EVENTS", and any call on
 * the socket may swallow its edge. So ZMQ_EVENTS is read before each wait (uv_prepare) and after it (uv_check). If it
 * says that something can be read, an idle handle keeps the loop from sleeping; the descriptor only wakes the loop.
 * Loop thread only. */
#ifndef SL_LINK_ZWATCH_H
#define SL_LINK_ZWATCH_H

#include <stdbool.h>

#include "common/link/loop_uv.h"

struct sl_zwatch {
	void *socket;
	/* Called once per turn of the loop while the socket can be read; reads a bounded number of messages. */
	void (*readable)(void *arg);
	/* Called before each wait, after ZeroMQ has processed the socket's commands; for news that ZMQ_EVENTS does not
	 * show. May be NULL. */
	void (*before_wait)(void *arg, int zmq_events);
	/* Called after sl_zwatch_stop, when libuv has released all handles below. */
	void (*closed)(void *arg);
	void *arg;
	uv_poll_t poll;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	int open; /* handles that libuv still holds */
	bool stopped;
};

/* The caller has set socket, callbacks and arg. Call sl_zwatch_stop after a failure, too. */
enum sl_err sl_zwatch_start(struct sl_zwatch *watch, struct sl_loop *loop, struct sl_fail *fail) SL_MUST_CHECK;
/* Call it before the socket is closed. Calls `closed` later, from the loop; or at once if nothing was started. */
void sl_zwatch_stop(struct sl_zwatch *watch);

#endif
