/* A transport moves whole messages: a header of at most SL_WIRE_HEADER_MAX bytes and a payload of at most part_bytes,
 * or for a Hello SL_WIRE_HELLO_MAX. This one uses ZeroMQ (ROUTER/DEALER); tests have one of their own.
 * All functions and callbacks are on the loop's thread, except `release`. */
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

/* The sender of a message; valid until the transport closes. A client has one peer, SL_PEER_SERVER. 0 is no peer. */
typedef uint64_t sl_peer;
enum { SL_PEER_SERVER = 1 };

enum { SL_TRANSPORT_STRANGERS = 256, SL_TRANSPORT_PEERS = 16384, SL_TRANSPORT_CROWD = 2048 };

struct sl_transport_events {
	/* A message has come. Header and payload are valid only during the call. */
	void (*message)(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
	/* sl_transport_send returned BUSY for this peer, and may now be tried again. */
	void (*writable)(void *arg, sl_peer peer);
	/* A message of the wrong form (number of frames, sizes) was dropped; the receiver may tell the peer and close.
	 * Peer 0: the sender cannot be answered. It chose its own routing id, which Split's clients never do, or there
	 * is no number left for it. */
	void (*malformed)(void *arg, sl_peer peer, const char *why);
	/* The peer's connection is lost. A connected transport learns it from ZeroMQ's monitor, and reconnects by
	 * itself. A bound one learns it only when a send fails; heartbeats tell earlier. */
	void (*lost)(void *arg, sl_peer peer);
	/* A connected transport will never be let in: *why (AUTH) says whose key is wrong. May be NULL. */
	void (*refused)(void *arg, const struct sl_fail *why);
};

/* A payload. After a successful send the transport owns it until it calls release(release_arg), from any thread.
 * release NULL: the payload is copied before send returns. */
struct sl_payload {
	struct sl_bytes bytes;
	void (*release)(void *release_arg);
	void *release_arg;
};

/* The keys for CURVE: all traffic is encrypted, and both ends prove that they own their keys. Borrowed while the
 * transport is open. */
struct sl_transport_auth {
	const struct sl_keypair *own;
	const struct sl_key *server; /* connecting: the server's public key */
	/* Connecting: 1 after a successful handshake, and one more for each that is cut since; outlives the transport.
	 * Those are blamed on the network, or on a proxy without a server, and on keys only if they are many. NULL: not
	 * remembered. */
	int *met;
	struct sl_gate *gate; /* bound: which clients may connect */
};

struct sl_transport_conf {
	const char *endpoint; /* tcp://127.0.0.1:5570, or ipc:///run/split */
	size_t part_bytes;    /* largest payload of a part accepted, ≤ 1 MiB */
	int hwm;              /* messages queued per peer inside the transport */
	/* NULL: no keys and no encryption. With keys a bound transport first tests that unknown keys are refused (AUTH:
	 * they are not). */
	const struct sl_transport_auth *auth;
	/* Bound: bytes of payload that a peer may have in flight, by the credit that it is granted. A peer that sends
	 * more is reported as malformed, and cut. One that was never answered is cut after 64 KiB. 0: no limits. */
	uint64_t window_bytes;
	int arrivals_per_s; /* bound: new connections per second, from all addresses (arrivals.h); 0: 64 */
	/* Connecting: [SL_WAYS], to which it adds the bytes that its connections carry; outlives the transport. NULL:
	 * not counted. */
	struct sl_traffic *traffic;
	uint64_t *came; /* bound: counts connections that have come; as traffic */
};

enum sl_err sl_transport_connect(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
				 const struct sl_transport_events *events, void *arg,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_transport_bind(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
			      const struct sl_transport_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
/* Largest payload of any message that a transport accepts; a bound one accepts Hellos besides parts. */
static inline size_t sl_transport_payload_max(const struct sl_transport_conf *conf, bool bound)
{
	return bound && conf->part_bytes < SL_WIRE_HELLO_MAX ? SL_WIRE_HELLO_MAX : conf->part_bytes;
}

/* The endpoint; when bound to port 0, with the port that the system chose. */
const char *sl_transport_endpoint(const struct sl_transport *transport);

/* OK: the transport owns the payload (and may release it before this returns). On any error the caller still owns it.
 * BUSY: high-water mark reached, wait for `writable`. PEER_LOST: there is no such peer any more. */
enum sl_err sl_transport_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			      const struct sl_payload *payload) SL_MUST_CHECK;
/* For a bound transport with auth: the key that the peer has proved to own. False: no such peer, or no auth. */
bool sl_transport_peer_key(const struct sl_transport *transport, sl_peer peer, struct sl_key *out);
enum { SL_TRANSPORT_HOST = 64 };
/* Where the peer's connection comes from, in digits: an IPv4 (also in IPv6's form, ::ffff:…) or IPv6 address, or
 * "local" for a socket of this host. A proxy's or a NAT's address is that of the proxy. "": not known, or the
 * connection has ended. */
void sl_transport_peer_host(const struct sl_transport *transport, sl_peer peer, char out[SL_TRANSPORT_HOST]);
/* Bytes that have come on the peer's connection so far, also of a message that is not complete. 0: not known, or the
 * connection has ended. */
uint64_t sl_transport_arrived(const struct sl_transport *transport, sl_peer peer);
/* Brings conf.traffic up to date; closing does so too. */
void sl_transport_count(struct sl_transport *transport);
/* Forgets a peer: its later messages get a new number. What was sent to it still leaves. A bound transport knows at
 * most SL_TRANSPORT_STRANGERS peers to which it never sent anything (strangers), and drops the one silent for longest.
 * It knows at most SL_TRANSPORT_PEERS in all, and ignores newcomers beyond: so code that answers a peer must forget it
 * in the end. At most SL_TRANSPORT_CROWD connections, or half of the process's descriptors, may have no peer, a
 * stranger or a forgotten peer; forgotten ones are cut first, then the oldest. */
void sl_transport_forget(struct sl_transport *transport, sl_peer peer);
/* Releases every payload that it still owns before it returns, or soon after from another thread: the memory of
 * payloads must outlive the call by `linger_ms`. Blocks at most that long. No event comes afterwards. NULL is fine. */
void sl_transport_close(struct sl_transport *transport, int linger_ms);

#endif
