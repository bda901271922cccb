/* For files of this room: limits on the connections of a bound socket. ZeroMQ accepts any number of them, and once
 * descriptors run out it does nothing but try to accept. It also buffers whatever a peer sends until a message is
 * complete, however long that gets. So the connections without a session are limited in number and time, and every
 * connection in the bytes that have come but were not received as messages. Loop thread. */
#ifndef SL_LINK_CONNS_H
#define SL_LINK_CONNS_H

#include "common/link/arrivals.h"
#include "common/link/transport.h"

struct sl_conns;

struct sl_conns_conf {
	int limit;               /* connections without a session; at most half of the process' descriptors */
	uint64_t hello_ms;       /* a connection without a session that sends nothing for so long is cut */
	uint64_t stranger_bytes; /* pending bytes of a connection that was never answered */
	uint64_t peer_bytes;     /* pending bytes of any other; and of all connections with forgotten peers together */
	int per_s;               /* new connections per second (arrivals.h) */
	/* A peer that was answered has sent more than peer_bytes. The next sl_conns_check cuts its connection; until
	 * then the callee can tell it why. */
	void (*over)(void *arg, int fd, uint64_t stamp);
	void *arg;
};

enum sl_err sl_conns_open(struct sl_conns **out, const struct sl_conns_conf *conf, uint64_t now_ms,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_conns_close(struct sl_conns *conns); /* NULL is fine */

/* A connection was opened, or closed. `fd` is its descriptor; call both in the order of the monitor's events. Unknown
 * descriptors are ignored. A connection beyond the budget of its address is cut. */
void sl_conns_add(struct sl_conns *conns, int fd);
void sl_conns_remove(struct sl_conns *conns, int fd);
/* How many have come so far, cut ones included. */
uint32_t sl_conns_total(const struct sl_conns *conns);
/* A message of so many bytes, framing included, was received on the connection. Too high a number does no harm. */
void sl_conns_received(struct sl_conns *conns, int fd, size_t bytes);
/* A peer is answered whose messages came on this connection. Returns a stamp for sl_conns_forget_peer; 0: the
 * connection is unknown. A connection may have several peers: a message may be read after its connection has closed,
 * when another one has the descriptor. */
uint64_t sl_conns_answered(struct sl_conns *conns, int fd);
/* The connection's peer is forgotten. If that was its last one, it has conf.hello_ms for a new Hello. */
void sl_conns_forget_peer(struct sl_conns *conns, int fd, uint64_t stamp);

/* Bytes that have come on the connection that sl_conns_answered gave this stamp; 0: it has ended. */
uint64_t sl_conns_arrived(struct sl_conns *conns, int fd, uint64_t stamp);

/* Where that connection comes from, as sl_transport_peer_host. */
void sl_conns_host(struct sl_conns *conns, int fd, uint64_t stamp, char out[SL_TRANSPORT_HOST]);

/* Number of connections without a session. */
int sl_conns_waiting(const struct sl_conns *conns);

/* The functions below cut connections, and log that, once a second at most. First read all events of the monitor,
 * because a descriptor may belong to another connection by now. */

/* Cuts connections beyond conf.limit: first those of forgotten peers, then the oldest, so that a newcomer has time for
 * its Hello. */
void sl_conns_trim(struct sl_conns *conns);
/* Cuts connections that were silent for too long, or have too many pending bytes. Call it some dozen times a second. */
void sl_conns_check(struct sl_conns *conns, uint64_t now_ms);
/* Cuts a connection at once; pending bytes are lost. */
void sl_conns_drop(struct sl_conns *conns, int fd);
/* The addresses to be blocked, as sl_arrivals_shut. */
bool sl_conns_shut(struct sl_conns *conns, uint64_t now_ms, struct sl_shut *out);

#endif
