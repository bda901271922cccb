/* A ZeroMQ socket on a libuv loop. ZMQ_FD is edge-triggered and only says "look at ZMQ_EVENTS", and any call on the
 * socket may swallow its edge. So ZMQ_EVENTS is read before each wait (uv_prepare) and after it (uv_check); where it
 * says that something can be read, an idle handle keeps the loop from sleeping; the descriptor only unblocks it.
 * Loop thread only. */
#ifndef SL_LINK_ZWATCH_H
#define SL_LINK_ZWATCH_H

#include <stdbool.h>

#include "common/link/loop_uv.h"

struct sl_zwatch {
	void *socket;
	/* Once per turn while the socket can be read; reads a bounded number of messages. */
	void (*readable)(void *arg);
	/* Before each wait, with the socket's commands taken in: for what does not show in ZMQ_EVENTS. */
	void (*before_wait)(void *arg, int zmq_events);
	/* After sl_zwatch_stop, when libuv has let go of everything here. */
	void (*closed)(void *arg);
	void *arg;
	uv_poll_t poll;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	int open; /* handles that libuv holds */
	bool stopped;
};

/* The caller has filled in socket, callbacks and arg. On failure nothing is left on the loop but what `closed` will
 * announce: call sl_zwatch_stop in either case. */
enum sl_err sl_zwatch_start(struct sl_zwatch *watch, struct sl_loop *loop, struct sl_fail *fail) SL_MUST_CHECK;
/* Before the socket is closed. `closed` is called later, from the loop (or at once where nothing was started). */
void sl_zwatch_stop(struct sl_zwatch *watch);

#endif
