/* A server's and clients' ends of the ZeroMQ transport with CURVE, and the loop that drives them until something is so.
 * One rig a process; everything fails the test where it does not work. */
#ifndef SL_TESTS_SECURE_RIG_H
#define SL_TESTS_SECURE_RIG_H

#include "common/link/gate.h"
#include "common/link/loop.h"
#include "common/link/transport.h"

enum {
	SECURE_PART = 1 << 16,
	SECURE_HWM = 8,
	SECURE_GIVE_UP_MS = 60000,
	SECURE_PROMPT_MS = 7000, /* ZeroMQ itself gives a handshake up after 8 s */
	SECURE_ARRIVALS = 100000
};

struct secure_end {
	struct sl_transport *transport;
	uint64_t messages, malformed, lost;
	uint64_t writable;
	struct sl_key from; /* who sent last, as the server's end knows it */
	bool known, echo;
	sl_peer peer;
	int refusals;
	struct sl_fail refusal;
	struct sl_traffic traffic[SL_WAYS]; /* of a client's */
};

extern struct secure_rig {
	struct sl_loop *loop;
	struct sl_keypair server_key, good_key, other_key;
	struct sl_gate *gate;
	struct secure_end server;
	struct sl_transport_auth server_auth;
} secure;

/* Their argument is a struct secure_end. */
extern const struct sl_transport_events secure_events;

/* Until *counter ≥ least or *flag, each where it is not NULL, or the time is over: then false. */
bool secure_run_until(const uint64_t *counter, uint64_t least, const int *flag, int limit_ms);
void secure_run_for(int ms);

/* For a group's setup. */
int secure_make_keys(void **state);
/* A list of this key alone, NULL: of none; the caller's. */
struct sl_allow *secure_list_of(const struct sl_keypair *pair);

void secure_open_server_at(const char *endpoint, bool auth);
/* With a loop, and a gate that lets good_key in; skips the test where ZeroMQ has no CURVE. */
void secure_open_server(bool auth);
void secure_close_server(void);
void secure_open_client(struct secure_end *e, const struct sl_transport_auth *auth);

enum sl_err secure_say(struct secure_end *e, sl_peer peer, size_t len);
/* There and back. */
void secure_ping(struct secure_end *e, int limit_ms);
/* AUTH, with `first` in its text and, where `own` is not NULL, its fingerprint. */
void secure_expect_refusal(struct secure_end *e, const char *first, const struct sl_keypair *own);

#endif
