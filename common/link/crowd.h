/* The room's own: connections of a bound socket, and which of them are cut. ZeroMQ takes any number of them, and once
 * descriptors run out it does nothing but try to accept; it holds whatever a peer sends until a message is whole,
 * however long that gets. So those without a session are bounded in number and in time, and every connection in bytes
 * that came and that nobody has taken in. Loop thread. */
#ifndef SL_LINK_CROWD_H
#define SL_LINK_CROWD_H

#include "common/link/arrivals.h"
#include "common/link/transport.h"

struct sl_crowd;

struct sl_crowd_conf {
	int limit;               /* connections without a session; at most half of the process' descriptors */
	uint64_t hello_ms;       /* one of these that says nothing for so long is cut */
	uint64_t stranger_bytes; /* not taken in, of a connection that was never answered */
	uint64_t peer_bytes;     /* not taken in, of any other connection; of all that were forgotten, together */
	int per_s;               /* that may come (arrivals.h) */
	/* A peer that is answered has sent more than peer_bytes. Its connection is cut when sl_crowd_watch is called
	 * next: until then it can be told why. */
	void (*over)(void *arg, int fd, uint64_t stamp);
	void *arg;
};

enum sl_err sl_crowd_open(struct sl_crowd **out, const struct sl_crowd_conf *conf, uint64_t now_ms,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_crowd_close(struct sl_crowd *crowd); /* NULL is fine */

/* A connection is there, is gone: its descriptor, as ZeroMQ's monitor names it, and in the monitor's order. Any other
 * number, and news of others, are taken for nothing. One that comes beyond its address' budget is cut. */
void sl_crowd_came(struct sl_crowd *crowd, int fd);
void sl_crowd_went(struct sl_crowd *crowd, int fd);
/* How many have come so far, cut ones included. */
uint32_t sl_crowd_total(const struct sl_crowd *crowd);
/* A message of so many bytes was taken in, framing included; too many do no harm. */
void sl_crowd_took(struct sl_crowd *crowd, int fd, size_t bytes);
/* A peer that its messages said to be of this connection is answered. The stamp is for leave; 0: of no connection that
 * is known. Messages outlive their connection, and its descriptor may be another's by then: so several may be there. */
uint64_t sl_crowd_settle(struct sl_crowd *crowd, int fd);
/* The connection's peer is forgotten again. It has conf.hello_ms to begin anew. */
void sl_crowd_leave(struct sl_crowd *crowd, int fd, uint64_t stamp);

/* Those without a session. */
int sl_crowd_count(const struct sl_crowd *crowd);

/* What follows shuts connections down, and says so in the log, once a second at most. Only with all the monitor's news
 * taken in: a descriptor may be another's by now. */

/* Those beyond conf.limit: first those that were forgotten, then the oldest, so that a newcomer has time for a Hello.
 */
void sl_crowd_thin(struct sl_crowd *crowd);
/* Those that say nothing for too long, or sent too much. To be called some dozen times a second. */
void sl_crowd_watch(struct sl_crowd *crowd, uint64_t now_ms);
/* At once, with all that it has sent and nobody has read. */
void sl_crowd_cut(struct sl_crowd *crowd, int fd);
/* Who is to be kept from connecting (arrivals.h). */
bool sl_crowd_shut(struct sl_crowd *crowd, uint64_t now_ms, struct sl_shut *out);

#endif
