/* A listener on loopback that answers every connection in the same way, on a thread of its own: what a service that is
 * no server of ours, or one that misbehaves, does to whoever connects. Everything fails the test where it does not
 * work. */
#ifndef SL_TESTS_FAKE_PEER_H
#define SL_TESTS_FAKE_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_end { FAKE_HOLD /* until it is closed */, FAKE_CLOSE /* when it has heard an opening */, FAKE_RESET };

struct fake_peer {
	/* set before fake_peer_open */
	const uint8_t *say; /* NULL: it says nothing */
	size_t len;
	size_t at_once; /* bytes of one send; 0: all */
	int pause_ms;   /* before each */
	enum fake_end end;
	/* The worst case of who asks for another mechanism: a ZeroMQ that sends its own behind the signature and the
	 * version of the other end, and then, where that has sent its mechanism, resets before it got through. */
	bool snatches;
	/* its own */
	char endpoint[64];
	atomic_int said;             /* how often it has sent something, where it is no snatching one */
	atomic_int accepted, probed; /* probed: those whom a snatching one let read its greeting */
	atomic_bool over;
	int fd;
	pthread_t thread;
};

/* A whole greeting, ZMTP 3.1. */
struct fake_greeting {
	uint8_t byte[64];
};
struct fake_greeting fake_greeting(const char *mechanism);

void fake_peer_open(struct fake_peer *peer);
void fake_peer_close(struct fake_peer *peer);

#endif
