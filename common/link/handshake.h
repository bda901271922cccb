/* For files of this room: follows a connecting socket's handshakes, and finds out why they fail. */
#ifndef SL_LINK_HANDSHAKE_H
#define SL_LINK_HANDSHAKE_H

#include "common/link/greeting.h"
#include "common/link/transport.h"

struct sl_probe;

/* The handshakes of one transport. The caller sets the first three fields, and owns what they point to. */
struct sl_handshakes {
	const struct sl_transport_auth *auth; /* NULL: none */
	const char *endpoint;
	struct sl_loop *loop;
	struct sl_fail refusal;  /* AUTH: trying again is useless; code 0: it may help */
	bool done;               /* one has succeeded since the connection was last lost */
	bool ever;               /* one has ever succeeded; auth->met says so, too */
	int cut;                 /* handshakes that the peer cut without giving a reason */
	struct sl_probe *probe;  /* NULL: no probe is running */
	uint64_t probed_ms;      /* when the last probe began; 0: never */
	enum sl_greeting theirs; /* the greeting that it read; PART: none */
	bool ipv4;               /* only IPv4 addresses of the endpoint's host are tried; else ZeroMQ prefers IPv6 */
	int missed;              /* how often nobody was found there */
	bool reached;            /* a connection was there: `ipv4` stays as it is */
};

/* The set of monitor events that sl_handshake_event needs, for zmq_socket_monitor. */
int sl_handshake_events(void);
/* Takes in an event. If the peer cut the handshake without a reason, a probe reads its greeting on another connection,
 * while ZeroMQ goes on trying. */
void sl_handshake_event(struct sl_handshakes *h, int event, int value);
/* Takes in that an attempt to connect has found nobody. Whether the next one must be made with the other `ipv4`: a name
 * such as localhost may have an IPv6 address where the server listens on IPv4 alone, and ZeroMQ tries one family. */
bool sl_handshake_missed(struct sl_handshakes *h);
void sl_handshake_close(struct sl_handshakes *h);

#endif
