/* For files of this room: protects a bound socket from too many or hostile connections. conns.h cuts connections,
 * arrivals.h limits their rate, synfilter.h blocks addresses; and peers with a routing id of their own choice are
 * detected. Loop thread. */
#ifndef SL_LINK_DOOR_H
#define SL_LINK_DOOR_H

#include "common/link/conns.h"

enum { SL_DOOR_WATCH_MS = 20 }; /* the caller's period for sl_door_watch */

struct sl_door;

/* `over`, its `arg`: as in struct sl_conns_conf. */
enum sl_err sl_door_open(struct sl_door **out, const struct sl_transport_conf *conf,
			 void (*over)(void *arg, int fd, uint64_t stamp), void *arg, uint64_t now_ms,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_door_close(struct sl_door *door); /* NULL is fine */
struct sl_conns *sl_door_conns(struct sl_door *door);

/* Seeds rand(), from which a ROUTER draws the number of its first connection, and counts on from it; call it before the
 * ROUTER is made. A peer can announce a number as its Identity, and ZeroMQ aborts when the count reaches that number.
 * So peers must not be able to guess the count, and ZeroMQ does not seed rand() itself. */
enum sl_err sl_door_seed(struct sl_fail *fail) SL_MUST_CHECK;
/* Learns the ROUTER's count from a connection within the process. Call it before `socket`, of `context`, is bound to
 * the public endpoint. */
enum sl_err sl_door_learn(struct sl_door *door, void *context, void *socket, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether ZeroMQ can have given this routing id to a connection so far. First read all events of the monitor. */
bool sl_door_gave(const struct sl_door *door, const void *id, size_t len);

/* The monitor's events that the door needs; and takes in one of them. */
int sl_door_events(void);
void sl_door_event(struct sl_door *door, int event, int value);
/* Cuts connections that exceed a limit. First read all events of the monitor. */
void sl_door_watch(struct sl_door *door, uint64_t now_ms);

#endif
