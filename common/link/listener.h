/* A listening socket for requests: each connection sends one request, gets one answer, and is closed. Connections that
 * are slow or silent, or send too much, are dropped; none ever blocks the loop. Loop thread. For files of this room. */
#ifndef SL_LINK_LISTENER_H
#define SL_LINK_LISTENER_H

#include <stdbool.h>

#include "common/link/loop_uv.h"

struct sl_listener_kind {
	/* Connections at a time. For one more, the oldest without a complete request is closed, or else the oldest. */
	int clients;
	size_t most;                /* bytes of a request */
	uint64_t ask_ms, answer_ms; /* time to send the request, and to read the answer; 0: ask_ms is for both */
	/* False: text[len] is not a complete request yet. `ended`: no more bytes will come. *answer is malloc'ed; NULL:
	 * the connection closes without an answer. */
	bool (*hear)(void *arg, char *text, size_t len, bool ended, char **answer);
};

struct sl_listener {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	};
	const struct sl_listener_kind *kind;
	void *arg; /* for `hear`; malloc'ed memory that contains the listener, and is freed after sl_listener_close */
	struct sl_asker *first; /* the oldest connection */
	bool closing, closed;
};

/* Listens on the bound socket; returns uv_listen's status. It does not keep the loop running. */
int sl_listener_listen(struct sl_listener *listener);
void sl_listener_close(struct sl_listener *listener); /* idempotent */

#endif
