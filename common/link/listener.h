/* A listening socket on which questions are answered: a connection asks once, gets one answer, and is closed. Slow,
 * silent and greedy ones are dropped, and none ever blocks the loop. Loop thread. For files of this room. */
#ifndef SL_LINK_LISTENER_H
#define SL_LINK_LISTENER_H

#include <stdbool.h>

#include "common/link/loop_uv.h"

struct sl_listener_kind {
	/* Connections at a time. For one more the oldest goes, first of those that still owe their question. */
	int clients;
	size_t most;                /* bytes of a question */
	uint64_t ask_ms, answer_ms; /* time to ask, and to take the answer; 0: ask_ms is for both */
	/* False: text[len] is not a whole question yet. `ended`: nothing more comes. *answer is malloc'ed; NULL: the
	 * connection closes without one. */
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
	void *arg; /* for `hear`; malloc'ed, and freed behind sl_listener_close: the listener is part of it */
	struct sl_asker *first; /* the oldest */
	bool closing, closed;
};

/* The socket is bound. As uv_listen. It keeps no loop running. */
int sl_listener_listen(struct sl_listener *listener);
void sl_listener_close(struct sl_listener *listener); /* again is fine */

#endif
