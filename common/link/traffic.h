/* What the connections of a connecting transport carried: every byte that the kernel took for them and gave them,
 * without TCP's own headers and what TCP sent twice. Loop thread. */
#ifndef SL_LINK_TRAFFIC_H
#define SL_LINK_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_way { SL_SENT, SL_RECEIVED, SL_WAYS };

/* One way. `bytes` is everything. Of that: `weights`, runs of the middle's weights with their headers; `framing`,
 * ZMTP's framing and handshakes; `curve`, what encryption adds to messages. The rest are headers and payloads of other
 * messages. A message counts in its part when it is handed over, so what a broken connection loses is in a part and
 * not in `bytes`. */
struct sl_traffic {
	uint64_t bytes, weights, framing, curve;
};

/* The connection that stands, if any. Zero it, and set `fd` to -1. */
struct sl_traffic_tap {
	struct sl_traffic *total; /* [SL_WAYS], to add to; NULL: nobody asks */
	bool curve;
	int fd;                 /* a duplicate, which outlives ZeroMQ's; -1: no connection */
	uint64_t inode;         /* of that connection */
	uint64_t said[SL_WAYS]; /* over it, by arithmetic */
	uint64_t seen[SL_WAYS]; /* over it: what was added to total */
};

/* A connection stands at this descriptor of ZeroMQ's. */
void sl_tap_connected(struct sl_traffic_tap *tap, int fd);
void sl_tap_shook_hands(struct sl_traffic_tap *tap);
/* A message with two frames of these sizes was handed over, or came. */
void sl_tap_message(struct sl_traffic_tap *tap, enum sl_way way, size_t header, size_t payload);
/* Adds what the connection has carried since the last time. */
void sl_tap_look(struct sl_traffic_tap *tap);
void sl_tap_close(struct sl_traffic_tap *tap);

#endif
