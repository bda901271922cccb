/* The room's own: what a bound socket does about the connections that come to it. crowd.h cuts them, arrivals.h counts
 * them, synfilter.h keeps them out; and ZeroMQ must number them, not they themselves. Loop thread. */
#ifndef SL_LINK_DOOR_H
#define SL_LINK_DOOR_H

#include "common/link/crowd.h"

enum { SL_DOOR_WATCH_MS = 20 }; /* how often sl_door_watch is to be called */

struct sl_door;

/* `over`, its `arg`: as in struct sl_crowd_conf. */
enum sl_err sl_door_open(struct sl_door **out, const struct sl_transport_conf *conf,
			 void (*over)(void *arg, int fd, uint64_t stamp), void *arg, uint64_t now_ms,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_door_close(struct sl_door *door); /* NULL is fine */
struct sl_crowd *sl_door_crowd(struct sl_door *door);

/* Before the ROUTER is made, which takes a random number for the first connection's and counts on from it. A peer that
 * guesses a number and announces it as its Identity has it, and when the count gets there ZeroMQ aborts. Nobody seeds
 * what it draws from but we. */
enum sl_err sl_door_seed(struct sl_fail *fail) SL_MUST_CHECK;
/* Learns where the count stands, from a connection of its own within the process; before `socket`, of `context`, is
 * bound to the endpoint that others come to. */
enum sl_err sl_door_learn(struct sl_door *door, void *context, void *socket, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether a routing id can be one that ZeroMQ gave to a connection so far. With all the monitor's news taken in. */
bool sl_door_gave(const struct sl_door *door, const void *id, size_t len);

/* An event of the monitor's, of those that sl_door_events names. */
int sl_door_events(void);
void sl_door_event(struct sl_door *door, int event, int value);
/* Cuts what is too much. With all the monitor's news taken in. */
void sl_door_watch(struct sl_door *door, uint64_t now_ms);

#endif
