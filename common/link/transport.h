/* Transports move whole messages: a header of at most SL_WIRE_HEADER_MAX bytes and a payload of at most part_bytes, or
 * a Hello's. The one here is of ZeroMQ (ROUTER/DEALER); tests have one of their own.
 * All functions and callbacks on the loop's thread, but for `release`. */
#ifndef SL_LINK_TRANSPORT_H
#define SL_LINK_TRANSPORT_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/link/key.h"
#include "common/link/traffic.h"
#include "common/link/wire.h"

struct sl_gate;
struct sl_loop;
struct sl_transport;

/* Who sent a message: valid until the transport closes. A client has one peer, SL_PEER_SERVER. 0 is never used. */
typedef uint64_t sl_peer;
enum { SL_PEER_SERVER = 1 };

enum { SL_TRANSPORT_STRANGERS = 256, SL_TRANSPORT_PEERS = 16384, SL_TRANSPORT_CROWD = 2048 };

struct sl_transport_events {
	/* Header and payload are valid during the call only. */
	void (*message)(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
	/* sl_transport_send said BUSY for this peer and may now be tried again. */
	void (*writable)(void *arg, sl_peer peer);
	/* A message of the wrong form (part count, sizes) was dropped; `peer` may be told and closed. Peer 0: it came
	 * from one that gave itself a routing id, which ours never do; it gets no number and cannot be answered. */
	void (*malformed)(void *arg, sl_peer peer, const char *why);
	/* Connection state, as far as the transport knows it (a ZeroMQ monitor's news: reconnects by itself). A bound
	 * transport learns it when a send finds nobody: heartbeats are the way to know earlier. */
	void (*lost)(void *arg, sl_peer peer);
	/* A connected transport knows that it will never get in: *why (AUTH) says whose key is wrong. NULL: not told.
	 */
	void (*refused)(void *arg, const struct sl_fail *why);
};

/* Payload that the transport owns from a successful send until it calls release(release_arg), from any thread.
 * release NULL: the payload is copied before send returns. */
struct sl_payload {
	struct sl_bytes bytes;
	void (*release)(void *release_arg);
	void *release_arg;
};

/* CURVE: everything is encrypted, and both ends prove that they own their keys. Borrowed while the transport is open.
 */
struct sl_transport_auth {
	const struct sl_keypair *own;
	const struct sl_key *server; /* of a connecting one: whom it means to reach */
	/* Of a connecting one: set once a handshake has gone well, and outlives the transport. From then on a handshake
	 * that is cut is the network's doing, or a proxy's without a server behind it. NULL: as if each was the first.
	 */
	bool *met;
	struct sl_gate *gate; /* of a bound one: whom it lets in */
};

struct sl_transport_conf {
	const char *endpoint; /* tcp://127.0.0.1:5570, or ipc:///run/split */
	size_t part_bytes;    /* largest payload of a part accepted, ≤ 1 MiB */
	int hwm;              /* messages queued per peer inside the transport */
	/* NULL: neither. A bound one tries at once whether strangers are kept out (AUTH: they are not). */
	const struct sl_transport_auth *auth;
	/* Of a bound one: payload that a peer may have under way, by the credit that it is granted. Who sends more is
	 * reported as malformed, and cut; who was never answered is cut after 64 KiB. 0: nobody is. */
	uint64_t window_bytes;
	int arrivals_per_s; /* of a bound one: connections that may come, in all (arrivals.h); 0: 64 */
	/* Of a connecting one: [SL_WAYS], to which it adds what its connections carry; outlives it. NULL: not counted.
	 */
	struct sl_traffic *traffic;
};

enum sl_err sl_transport_connect(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
				 const struct sl_transport_events *events, void *arg,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_transport_bind(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
			      const struct sl_transport_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
/* Largest payload of any message that a transport takes in: a bound one admits Hellos beside parts. */
static inline size_t sl_transport_payload_max(const struct sl_transport_conf *conf, bool bound)
{
	return bound && conf->part_bytes < SL_WIRE_HELLO_MAX ? SL_WIRE_HELLO_MAX : conf->part_bytes;
}

/* The address really bound (port 0 chosen by the system). */
const char *sl_transport_endpoint(const struct sl_transport *transport);

/* OK: the transport owns the payload (and may release it before this returns). BUSY: HWM reached, the caller still owns
 * it and waits for `writable`. PEER_LOST: no such peer any more; the caller still owns it. */
enum sl_err sl_transport_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			      const struct sl_payload *payload) SL_MUST_CHECK;
/* A bound one with auth: the key that this peer's connection has proved to own. False: no such peer, or no auth. */
bool sl_transport_peer_key(const struct sl_transport *transport, sl_peer peer, struct sl_key *out);
/* Brings conf.traffic up to date; closing does so too. */
void sl_transport_count(struct sl_transport *transport);
/* Forgets a peer (its later messages get a new number); what was sent to it still leaves. A bound transport remembers
 * at most SL_TRANSPORT_STRANGERS peers that it never sent anything, dropping the one silent for longest, and at most
 * SL_TRANSPORT_PEERS at all, ignoring newcomers: so whoever answers a peer must forget it in the end. Of connections
 * whose peer has no number, is a stranger or forgotten, at most SL_TRANSPORT_CROWD stand, or half as many as the
 * process may have descriptors; forgotten ones are cut first, then the oldest. */
void sl_transport_forget(struct sl_transport *transport, sl_peer peer);
/* Every payload still owned is released before this returns, or soon after from another thread: memory behind
 * payloads must outlive it by `linger_ms`. Blocks at most that long. No event comes after it. NULL is fine. */
void sl_transport_close(struct sl_transport *transport, int linger_ms);

#endif
