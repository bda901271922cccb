/* Counts the bytes that a connecting transport's connections carry: all that the kernel accepted for sending and all
 * that it received, without TCP's headers and retransmissions. Loop thread. */
#ifndef SL_LINK_TRAFFIC_H
#define SL_LINK_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_way { SL_SENT, SL_RECEIVED, SL_WAYS };

/* The bytes of one direction. `bytes` is the total. Parts of it are `weights`: runs of the middle's weights with their
 * headers; `framing`: ZMTP's framing and handshakes; `curve`: what encryption adds to messages. The rest are headers
 * and payloads of other messages. A part counts a message when it is handed to ZeroMQ, so it includes messages that a
 * broken connection loses; `bytes` does not. */
struct sl_traffic {
	uint64_t bytes, weights, framing, curve;
};

/* The counter of the current connection, if any. The caller zeroes it, and sets `fd` to -1. */
struct sl_traffic_tap {
	struct sl_traffic *total; /* [SL_WAYS], to which it adds; NULL: nothing is counted */
	bool curve;
	int fd;                 /* a duplicate of ZeroMQ's descriptor, which outlives it; -1: no connection */
	uint64_t inode;         /* of that connection's socket */
	uint64_t said[SL_WAYS]; /* bytes on this connection, computed from handshake and messages */
	uint64_t seen[SL_WAYS]; /* bytes on this connection that were added to `total` */
};

/* ZeroMQ has a new connection with this descriptor. */
void sl_tap_connected(struct sl_traffic_tap *tap, int fd);
void sl_tap_shook_hands(struct sl_traffic_tap *tap);
/* A message with two frames of these sizes was handed to ZeroMQ, or received. */
void sl_tap_message(struct sl_traffic_tap *tap, enum sl_way way, size_t header, size_t payload);
/* Adds the bytes that the connection has carried since the last call. */
void sl_tap_look(struct sl_traffic_tap *tap);
void sl_tap_close(struct sl_traffic_tap *tap);

#endif
