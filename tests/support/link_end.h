/* Ends of a transport that count what happens to them, and a loop under a time limit. Everything fails the test where
 * it does not work. */
#ifndef SL_TESTS_LINK_END_H
#define SL_TESTS_LINK_END_H

#include "common/link/loop.h"
#include "common/link/transport.h"

enum { LINK_END_PART = 1 << 16, LINK_END_HWM = 8, LINK_END_GIVE_UP_MS = 20000 };
enum { LINK_END_ARRIVALS = 100000 }; /* a second: no test of another thing is to meet this bound */

/* One end and what happened to it. */
struct link_end {
	struct sl_loop *loop;
	struct sl_transport *transport;
	sl_peer peer; /* that sent last */
	uint64_t messages, payload_bytes, writable, malformed, lost;
	uint64_t stop_at; /* messages after which the loop stops; 0: never */
	bool stop_on_lost, stop_on_writable, stop_on_malformed;
	bool echo;
	sl_peer echo_to;     /* 0: to whoever sends */
	int echo_left;       /* a ping that is sent again for each answer */
	uint32_t header_sum; /* of first bytes */
	char last[64];
};

/* Their argument is a struct link_end. */
extern const struct sl_transport_events link_end_events;
void link_end_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
void link_end_writable(void *arg, sl_peer peer);
void link_end_malformed(void *arg, sl_peer peer, const char *why);
void link_end_lost(void *arg, sl_peer peer);

void link_end_open_server(struct link_end *e, struct sl_loop *loop, const char *endpoint);
void link_end_open_client(struct link_end *e, struct sl_loop *loop, const char *endpoint);

struct sl_loop *link_end_open_loop(void);
/* Until somebody stops the loop; for so long. */
void link_end_run(struct sl_loop *loop);
void link_end_run_for(struct sl_loop *loop, uint64_t ms);

struct sl_bytes link_end_text(const char *s);
/* A connected client has no connection yet: BUSY, and then `writable`. */
void link_end_send_when_writable(struct link_end *e, const char *header);
/* The client says something, and hears the server's echo of it. */
void link_end_ping(struct link_end *client, struct link_end *server);

#endif
