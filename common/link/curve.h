/* The room's own: CURVE on a ZeroMQ socket, and proof that it keeps strangers out. */
#ifndef SL_LINK_CURVE_H
#define SL_LINK_CURVE_H

#include "common/link/transport.h"

struct sl_zap;

/* Sets and checks the options of `socket`; before it is bound or connected. */
enum sl_err sl_curve_server(void *socket, const struct sl_keypair *own, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_curve_client(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* Binds `socket`, a server's with all its options, to a port of loopback for a moment; a key made up for the occasion
 * must get in there while the gate's list names it alone, and another one must be refused. Leaves the gate's list as it
 * was. AUTH with what went wrong. Blocks, at most some seconds. */
enum sl_err sl_curve_prove(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* All that a server's socket needs, in the right order: the handler, the options, the proof. *out is set once there is
 * a handler, also where a later step fails: close it behind the context. */
enum sl_err sl_curve_guard(struct sl_zap **out, void *context, void *socket, const struct sl_transport_auth *auth,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* What the monitor of a connecting socket says about its handshakes, over the life of a transport. */
struct sl_handshakes {
	const struct sl_transport_auth *auth; /* NULL: none */
	const char *endpoint;
	bool done; /* one has gone well since the connection was last lost */
	bool ever; /* … or at any time; auth->met says so too */
	int cut;   /* given up by the other side without a word, in a row */
};

/* Of events, for zmq_socket_monitor. */
int sl_handshake_events(void);
/* Looks at one; fills *fail (AUTH) where trying again is clearly of no use, else leaves it. */
void sl_handshake_event(struct sl_handshakes *h, int event, int value, struct sl_fail *fail);

#endif
