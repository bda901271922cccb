/* Ends of a transport that count their events, and a loop with a time limit. All functions fail the
 * test on an error. */
#ifndef SL_TESTS_LINK_END_H
#define SL_TESTS_LINK_END_H

#include "common/link/loop.h"
#include "common/link/transport.h"

enum { LINK_END_PART = 1 << 16, LINK_END_HWM = 8, LINK_END_GIVE_UP_MS = 20000 };
enum { LINK_END_ARRIVALS = 100000 }; /* per second: too many to be limited in tests of other things */

/* One end of a transport, and counts of its events. */
struct link_end {
	struct sl_loop *loop;
	struct sl_transport *transport;
	sl_peer peer; /* the last sender */
	uint64_t messages, payload_bytes, writable, malformed, lost;
	uint64_t stop_at; /* stops the loop at this number of messages; 0: never */
	bool stop_on_lost, stop_on_writable, stop_on_malformed;
	bool echo;
	sl_peer echo_to;     /* echo only to this peer; 0: to every sender */
	int echo_left;       /* how many more messages to echo, without `echo` */
	uint32_t header_sum; /* sum of the headers' first bytes */
	char last[64];
};

/* The `arg` of these events is a struct link_end. */
extern const struct sl_transport_events link_end_events;
void link_end_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
void link_end_writable(void *arg, sl_peer peer);
void link_end_malformed(void *arg, sl_peer peer, const char *why);
void link_end_lost(void *arg, sl_peer peer);

void link_end_open_server(struct link_end *e, struct sl_loop *loop, const char *endpoint);
void link_end_open_client(struct link_end *e, struct sl_loop *loop, const char *endpoint);

struct sl_loop *link_end_open_loop(void);
/* link_end_run: until an event stops the loop. link_end_run_for: for `ms`, or until then. */
void link_end_run(struct sl_loop *loop);
void link_end_run_for(struct sl_loop *loop, uint64_t ms);

struct sl_bytes link_end_text(const char *s);
/* Sends once there is a connection: until then the transport returns BUSY and later calls `writable`. */
void link_end_send_when_writable(struct link_end *e, const char *header);
/* The client sends a message and waits for the server's echo. */
void link_end_ping(struct link_end *client, struct link_end *server);

#endif
