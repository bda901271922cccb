/* The room's own: connections of a bound socket that no session has. ZeroMQ takes any number, and once descriptors run
 * out it does nothing but try to accept: so there may be so many and no more. Cut is who had his turn, else who has
 * been there for longest: a newcomer has the time to say Hello. Loop thread. */
#ifndef SL_LINK_CROWD_H
#define SL_LINK_CROWD_H

#include "common/link/transport.h"

struct sl_crowd;

/* At most `limit` of them, and at most half of the descriptors that the process may have. */
enum sl_err sl_crowd_open(struct sl_crowd **out, int limit, struct sl_fail *fail) SL_MUST_CHECK;
void sl_crowd_close(struct sl_crowd *crowd); /* NULL is fine */

/* A connection is there, is gone: its descriptor, as ZeroMQ's monitor names it, and in the monitor's order. Any other
 * number, and news of others, are taken for nothing. */
void sl_crowd_came(struct sl_crowd *crowd, int fd);
void sl_crowd_went(struct sl_crowd *crowd, int fd);
/* A peer that its messages said to be of this connection is answered. The stamp is for leave; 0: of no connection that
 * is known. Messages outlive their connection, and its descriptor may be another's by then: so several may be there. */
uint64_t sl_crowd_settle(struct sl_crowd *crowd, int fd);
/* … is forgotten again. */
void sl_crowd_leave(struct sl_crowd *crowd, int fd, uint64_t stamp);

int sl_crowd_count(const struct sl_crowd *crowd);
/* Shuts down what is too much, and says so in the log, once a second at most. Only with all the monitor's news taken
 * in: a descriptor may be another's by now. */
void sl_crowd_thin(struct sl_crowd *crowd);

#endif
