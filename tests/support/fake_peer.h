/* A listener on loopback that treats every connection in the same way, on a thread of its own. It
 * stands for a service that is not a Split server, or for one that misbehaves. All functions fail
 * the test on an error. */
#ifndef SL_TESTS_FAKE_PEER_H
#define SL_TESTS_FAKE_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_end {
	FAKE_HOLD /* until fake_peer_close */,
	FAKE_CLOSE /* after it has read a ZMTP signature */,
	FAKE_RESET
};

struct fake_peer {
	/* set before fake_peer_open */
	const uint8_t *say; /* what it sends; NULL: nothing */
	size_t len;
	size_t at_once; /* bytes per send; 0: all */
	int pause_ms;   /* before each send */
	enum fake_end end;
	/* Plays a ZeroMQ server with another mechanism that resets before the client can read which one. Such a server
	 * sends its mechanism after the client's signature and version, and may reset as soon as the client has sent
	 * its own. Only a client that sends signature and version at once, as a probe does, gets the greeting. */
	bool snatches;
	/* set by fake_peer_open */
	char endpoint[64];
	atomic_int said;             /* how many sends succeeded; not counted if `snatches` */
	atomic_int accepted, probed; /* probed: with `snatches`, connections that got the greeting */
	atomic_bool over;
	int fd;
	pthread_t thread;
};

/* A complete greeting of ZMTP 3.1. */
struct fake_greeting {
	uint8_t byte[64];
};
struct fake_greeting fake_greeting(const char *mechanism);

void fake_peer_open(struct fake_peer *peer);
void fake_peer_close(struct fake_peer *peer);

#endif
