/* The room's own: what becomes of a connecting socket's handshakes, and why they fail. */
#ifndef SL_LINK_HANDSHAKE_H
#define SL_LINK_HANDSHAKE_H

#include "common/link/greeting.h"
#include "common/link/transport.h"

struct sl_probe;

/* Over the life of a transport. The caller sets the first three, which it owns. */
struct sl_handshakes {
	const struct sl_transport_auth *auth; /* NULL: none */
	const char *endpoint;
	struct sl_loop *loop;
	struct sl_fail refusal;  /* AUTH: trying again is clearly of no use; code 0: nothing of the kind */
	bool done;               /* one has gone well since the connection was last lost */
	bool ever;               /* one has gone well at any time; auth->met says so too */
	int cut;                 /* given up by the other side without a word */
	struct sl_probe *probe;  /* NULL: none under way */
	uint64_t probed_ms;      /* when the last one began; 0: never */
	enum sl_greeting theirs; /* what it heard; PART: nothing */
};

/* Of events, for zmq_socket_monitor. */
int sl_handshake_events(void);
/* Looks at one. Where the other side has cut without a word, its greeting is read on a connection of our own, while
 * ZeroMQ tries on. */
void sl_handshake_event(struct sl_handshakes *h, int event, int value);
void sl_handshake_close(struct sl_handshakes *h);

#endif
