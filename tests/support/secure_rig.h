/* A server's and clients' ends of the ZeroMQ transport with CURVE, and the loop that drives them
 * until a condition holds. One rig per process. All functions fail the test on an error. */
#ifndef SL_TESTS_SECURE_RIG_H
#define SL_TESTS_SECURE_RIG_H

#include "common/link/gate.h"
#include "common/link/loop.h"
#include "common/link/transport.h"

enum {
	SECURE_PART = 1 << 16,
	SECURE_HWM = 8,
	SECURE_GIVE_UP_MS = 60000,
	SECURE_PROMPT_MS = 7000, /* ZeroMQ itself gives up a handshake after 8 s */
	SECURE_ARRIVALS = 100000
};

struct secure_end {
	struct sl_transport *transport;
	uint64_t messages, malformed, lost;
	uint64_t writable;
	struct sl_key from; /* the last sender's key, as the server's end knows it */
	bool known, echo;
	sl_peer peer;
	int refusals;
	struct sl_fail refusal;
	struct sl_traffic traffic[SL_WAYS]; /* of a client's end */
};

extern struct secure_rig {
	struct sl_loop *loop;
	struct sl_keypair server_key, good_key, other_key;
	struct sl_gate *gate;
	struct secure_end server;
	struct sl_transport_auth server_auth;
} secure;

/* The `arg` of these events is a struct secure_end. */
extern const struct sl_transport_events secure_events;

/* Runs until *counter ≥ least or *flag is set (either pointer may be NULL). Returns false after limit_ms. */
bool secure_run_until(const uint64_t *counter, uint64_t least, const int *flag, int limit_ms);
void secure_run_for(int ms);

/* A group's setup: makes the keys. */
int secure_make_keys(void **state);
/* An allow list of this key alone; NULL: an empty list. The caller closes it. */
struct sl_allow *secure_list_of(const struct sl_keypair *pair);

void secure_open_server_at(const char *endpoint, bool auth);
/* Opens a loop, and a server whose gate admits good_key. Skips the test if ZeroMQ has no CURVE. */
void secure_open_server(bool auth);
void secure_close_server(void);
void secure_open_client(struct secure_end *e, const struct sl_transport_auth *auth);

enum sl_err secure_say(struct secure_end *e, sl_peer peer, size_t len);
/* A message to the server and back. */
void secure_ping(struct secure_end *e, int limit_ms);
/* Expects AUTH, with `first` in its text and, unless `own` is NULL, the fingerprint of `own`. */
void secure_expect_refusal(struct secure_end *e, const char *first, const struct sl_keypair *own);

#endif
