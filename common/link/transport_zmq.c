/* A ROUTER if bound, a DEALER if connecting. Each transport has its own context: so closing it waits until ZeroMQ has
 * released every payload, and each can have an authentication handler at the fixed inproc address that ZeroMQ asks. */
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/base/failpoint.h"
#include "common/link/curve.h"
#include "common/link/door.h"
#include "common/link/handshake.h"
#include "common/link/peers.h"
#include "common/link/transport_impl.h"
#include "common/link/wire.h"
#include "common/link/zap.h"
#include "common/link/zpayload.h"
#include "common/link/zsocket.h"
#include "common/link/zwatch.h"

enum {
	DRAIN_MESSAGES = 32, /* per turn of the loop, so that other work gets its turn */
	RETRY_MS = 10,       /* a call for another peer can swallow the wake-up for a busy one */
	ENDPOINT_MAX = 256,
	FRAME_EXTRA = 64, /* an upper bound on what ZMTP and CURVE add to a frame */
	KEEP_BLOCK_BYTES = 32 << 20,
	KEEP_FREE_BYTES = 64 << 20,
};

struct zmq_transport {
	struct sl_transport base;
	struct sl_transport_events events;
	void *arg;
	size_t payload_max;
	bool bound, closing;
	void *context, *socket, *monitor;
	struct sl_zwatch watch, monitor_watch;
	int watches; /* not yet closed */
	struct sl_timer *retry;
	bool retrying;
	struct sl_peers *peers;      /* if bound */
	struct sl_door *door;        /* if bound: limits connections, and cuts hostile ones */
	struct sl_timer *door_watch; /* if bound */
	struct sl_loop *loop;
	size_t took;                     /* bytes received of the current message */
	struct sl_zap *zap;              /* if bound, with auth */
	bool busy, lost;                 /* if connecting */
	struct sl_handshakes handshakes; /* if connecting */
	struct sl_traffic_tap tap;       /* if connecting */
	struct sl_zrecords records;
	char endpoint[ENDPOINT_MAX];
};

static struct zmq_transport *of(struct sl_transport *transport)
{
	return (struct zmq_transport *)transport;
}

/* ---- sending */

static enum sl_err err_of_errno(void)
{
	switch (errno) {
	case EAGAIN:
		return SL_ERR_BUSY;
	case EHOSTUNREACH:
		return SL_ERR_PEER_LOST;
	default:
		return SL_ERR_OS;
	}
}

static int send_frame(void *socket, const void *data, size_t len)
{
	int rc;

	do
		rc = zmq_send(socket, data, len, ZMQ_DONTWAIT | ZMQ_SNDMORE);
	while (rc < 0 && errno == EINTR);
	return rc;
}

static enum sl_err send_message(struct zmq_transport *t, const uint8_t *address, struct sl_bytes header, zmq_msg_t *msg)
{
	int rc;

	/* Sending the first frame fails if the high-water mark is reached or the peer is gone. At a later frame a
	 * DEALER's connection may be gone; ZeroMQ then rolls the message back. */
	if (address && send_frame(t->socket, address, SL_PEER_ID_BYTES) < 0)
		return err_of_errno();
	if (send_frame(t->socket, header.data, header.len) < 0)
		return err_of_errno();
	do
		rc = zmq_msg_send(msg, t->socket, ZMQ_DONTWAIT);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? err_of_errno() : SL_OK;
}

static void flag(struct zmq_transport *t, sl_peer peer, bool gone)
{
	if (!t->bound) {
		t->busy = true; /* ZMQ_POLLOUT will show when it is writable */
		return;
	}
	sl_peers_flag(t->peers, peer, gone);
	if (!t->retrying) {
		t->retrying = true;
		sl_timer_start(t->retry, RETRY_MS, 0);
	}
}

static enum sl_err zmq_transport_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
				      const struct sl_payload *payload)
{
	struct zmq_transport *t = of(transport);
	const uint8_t *address = NULL;
	const size_t len = payload ? payload->bytes.len : 0;
	struct sl_zrecord *record;
	zmq_msg_t msg;
	enum sl_err err;

	if (header.len < 1 || header.len > SL_WIRE_HEADER_MAX || len > SL_WIRE_PART_MAX)
		return SL_ERR_LIMIT;
	if (t->bound)
		address = sl_peers_address(t->peers, peer);
	if (t->bound ? !address : peer != SL_PEER_SERVER)
		return SL_ERR_PEER_LOST;
	SL_FAILPOINT(SL_FP_LINK_SEND);
	err = sl_zpayload_open(&t->records, &msg, &record, payload);
	if (err)
		return err;
	err = send_message(t, address, header, &msg);
	if (!err) {
		sl_tap_message(&t->tap, SL_SENT, header.len, len);
		return SL_OK;
	}
	sl_zpayload_take_back(&msg, record);
	if (err == SL_ERR_BUSY || err == SL_ERR_PEER_LOST)
		flag(t, peer, err == SL_ERR_PEER_LOST);
	return err;
}

/* Delivers the events `refused`, `lost` and `writable` here, so that none comes from inside a caller's send. */
static void tell_flagged(void *arg, int zmq_events)
{
	struct zmq_transport *t = arg;

	if (t->handshakes.refusal.code) {
		const struct sl_fail why = t->handshakes.refusal;

		t->handshakes.refusal.code = SL_OK;
		if (t->events.refused)
			t->events.refused(t->arg, &why);
	}
	if (!t->closing && t->lost) {
		t->lost = false;
		t->events.lost(t->arg, SL_PEER_SERVER);
	}
	if (!t->closing && t->busy && zmq_events & ZMQ_POLLOUT) {
		t->busy = false;
		t->events.writable(t->arg, SL_PEER_SERVER);
	}
	if (!t->bound)
		return;
	/* A ROUTER does not tell which peer is writable again, so each one tries. A peer that is still full is flagged
	 * again, behind the ones counted here. */
	for (size_t n = sl_peers_flagged(t->peers); n && !t->closing; n--) {
		bool gone;
		sl_peer peer = sl_peers_take_flagged(t->peers, &gone);

		if (!peer)
			break;
		if (!gone) {
			t->events.writable(t->arg, peer);
			continue;
		}
		t->events.lost(t->arg, peer);
		sl_peers_forget(t->peers, peer); /* its routing id never comes back */
	}
}

static void retry(void *arg)
{
	struct zmq_transport *t = arg;

	/* tell_flagged runs before the loop waits again; a peer that is still busy then starts the next retry */
	t->retrying = false;
}

/* ---- receiving */

static bool more(zmq_msg_t *msg)
{
	return zmq_msg_more(msg) != 0;
}

static int receive(struct zmq_transport *t, zmq_msg_t *msg)
{
	int rc;

	do
		rc = zmq_msg_recv(msg, t->socket, ZMQ_DONTWAIT);
	while (rc < 0 && errno == EINTR);
	if (rc >= 0)
		t->took += (size_t)rc + FRAME_EXTRA;
	return rc;
}

/* Discards the remaining frames of a message; true if there were any. */
static bool swallow(struct zmq_transport *t, zmq_msg_t *last)
{
	bool any = false;

	while (more(last) && receive(t, last) >= 0)
		any = true;
	return any;
}

static struct sl_bytes bytes_of(zmq_msg_t *msg)
{
	return (struct sl_bytes){.data = zmq_msg_data(msg), .len = zmq_msg_size(msg)};
}

/* What is wrong with a message's form; NULL: nothing. */
static const char *fault_of(struct zmq_transport *t, zmq_msg_t *header, zmq_msg_t *payload, bool two)
{
	bool longer = swallow(t, two ? payload : header);

	if (!two || longer)
		return "a message must have two frames, header and payload";
	if (zmq_msg_size(header) < 1 || zmq_msg_size(header) > SL_WIRE_HEADER_MAX)
		return "a header must have 1 to 4096 bytes";
	if (zmq_msg_size(payload) > t->payload_max)
		return "a payload is larger than it may be";
	return NULL;
}

/* Whether a message was sent with the key that the peer's first one had. ZeroMQ attaches the user id, which is the key,
 * to every frame but the routing id. So a peer that chooses a routing id of another one cannot speak as that one. */
static bool has_the_peers_key(struct zmq_transport *t, sl_peer peer, zmq_msg_t *frame)
{
	const char *user = zmq_msg_gets(frame, "User-Id");
	struct sl_key key;

	return user && sl_key_parse(&key, user, strlen(user)) && sl_peers_claim(t->peers, peer, &key);
}

static void monitor_readable(void *arg)
{
	struct zmq_transport *t = arg;
	int event, value;

	while (sl_zsocket_read(t->monitor, &event, &value)) {
		if (t->bound) {
			sl_door_event(t->door, event, value);
		} else if (event == ZMQ_EVENT_CONNECT_RETRIED) {
			if (sl_handshake_missed(&t->handshakes))
				sl_zsocket_redial(t->socket, t->endpoint, t->handshakes.ipv4);
		} else if (event == ZMQ_EVENT_CONNECTED) {
			t->handshakes.reached = true;
			sl_zsocket_keep_unsent_short(value);
			sl_tap_connected(&t->tap, value);
		} else if (event == ZMQ_EVENT_DISCONNECTED) {
			/* this event also comes for a connection that was never established */
			t->lost |= t->handshakes.done;
			t->handshakes.done = false;
			sl_tap_close(&t->tap);
		} else {
			if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
				sl_tap_shook_hands(&t->tap);
			sl_handshake_event(&t->handshakes, event, value);
		}
	}
	if (t->bound)
		sl_conns_trim(sl_door_conns(t->door));
}

/* The peer that sent a message to a bound transport. Counts the message for its connection. Returns 0, with *fault, if
 * the peer chose its routing id, and so is cut, or if there is no number for it. */
static sl_peer peer_of(struct zmq_transport *t, zmq_msg_t *id, zmq_msg_t *header, const char **fault)
{
	int fd = zmq_msg_get(header, ZMQ_SRCFD);
	sl_peer peer = 0;

	/* The door must know a connection before it sees its first message, so read the monitor's events now. */
	if (!sl_peers_know(t->peers, zmq_msg_data(id), zmq_msg_size(id)))
		monitor_readable(t);
	if (sl_door_gave(t->door, zmq_msg_data(id), zmq_msg_size(id))) {
		sl_conns_received(sl_door_conns(t->door), fd, t->took);
		peer = sl_peers_seen(t->peers, zmq_msg_data(id), zmq_msg_size(id), fd);
		if (!peer && !*fault)
			*fault = "the table of peers is full";
	} else {
		sl_conns_drop(sl_door_conns(t->door), fd);
		*fault = "the peer chose its own routing id";
	}
	return peer;
}

/* Receives one message; false: there is none. */
static bool receive_one(struct zmq_transport *t)
{
	zmq_msg_t id, header, payload;
	sl_peer peer = SL_PEER_SERVER;
	const char *fault;
	bool got, two = false;

	zmq_msg_init(&id);
	zmq_msg_init(&header);
	zmq_msg_init(&payload);
	t->took = 0;
	got = !t->bound || (receive(t, &id) >= 0 && more(&id));
	if (got)
		got = receive(t, &header) >= 0;
	if (got) {
		SL_FAILPOINT(SL_FP_LINK_RECEIVE);
		if (more(&header))
			two = receive(t, &payload) >= 0;
		sl_tap_message(&t->tap, SL_RECEIVED, zmq_msg_size(&header), zmq_msg_size(&payload));
		fault = fault_of(t, &header, &payload, two);
		if (t->bound)
			peer = peer_of(t, &id, &header, &fault);
		if (t->zap && peer && !has_the_peers_key(t, peer, two ? &payload : &header)) {
			peer = 0;
			fault = "this routing id began with another key";
		}
		if (fault)
			t->events.malformed(t->arg, peer, fault);
		else
			t->events.message(t->arg, peer, bytes_of(&header), bytes_of(&payload));
	}
	zmq_msg_close(&id);
	zmq_msg_close(&header);
	zmq_msg_close(&payload);
	return got;
}

/* ---- connections of a bound transport */

/* Reports the peers of a connection that has more pending bytes than its credit allows. */
static void over(void *arg, int fd, uint64_t stamp)
{
	struct zmq_transport *t = arg;
	sl_peer peer;

	for (int at = 0; !t->closing && (peer = sl_peers_on(t->peers, fd, stamp, &at));)
		t->events.malformed(t->arg, peer,
				    "the peer sent more than its credit allows, or a message that does not end");
}

static void watch_door(void *arg)
{
	struct zmq_transport *t = arg;

	monitor_readable(t);
	sl_door_watch(t->door, sl_loop_now_ms(t->loop));
}

static enum sl_err open_door(struct zmq_transport *t, const struct sl_transport_conf *conf, struct sl_fail *fail)
{
	enum sl_err err = sl_door_open(&t->door, conf, over, t, sl_loop_now_ms(t->loop), fail);

	if (!err)
		err = sl_peers_open(&t->peers, sl_door_conns(t->door), fail);
	return err ? err : sl_timer_open(&t->door_watch, t->loop, watch_door, t, fail);
}

static void readable(void *arg)
{
	struct zmq_transport *t = arg;

	for (int i = 0; i < DRAIN_MESSAGES && !t->closing && receive_one(t); i++)
		;
}

/* ---- opening and closing */

static void transport_free(struct zmq_transport *t)
{
	sl_zrecords_close(&t->records);
	sl_peers_close(t->peers);
	sl_door_close(t->door);
	free(t);
}

static void watch_closed(void *arg)
{
	struct zmq_transport *t = arg;

	if (--t->watches == 0)
		transport_free(t);
}

static void zmq_transport_close(struct sl_transport *transport, int linger_ms)
{
	struct zmq_transport *t = of(transport);

	t->closing = true;
	sl_timer_close(t->retry);
	sl_timer_close(t->door_watch);
	sl_handshake_close(&t->handshakes);
	t->watches = 3; /* the two watches, and this call */
	if (t->socket)
		zmq_setsockopt(t->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
	/* The watches first: libuv must release the descriptors before they are closed. The loop frees the watches'
	 * memory later, after ZeroMQ's end. */
	sl_zwatch_stop(&t->watch);
	sl_zwatch_stop(&t->monitor_watch);
	sl_zsocket_unmonitor(t->socket, &t->monitor);
	if (t->socket)
		zmq_close(t->socket);
	if (t->context)
		while (zmq_ctx_term(t->context) < 0 && errno == EINTR)
			;
	sl_tap_close(&t->tap); /* after ZeroMQ has sent all it had to send */
	sl_zap_close(t->zap);
	watch_closed(t);
}

static enum sl_err open_monitor(struct zmq_transport *t, struct sl_loop *loop, struct sl_fail *fail)
{
	int events = t->bound ? sl_door_events()
			      : ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED |
					sl_handshake_events();
	enum sl_err err = sl_zsocket_monitor(t->context, t->socket, events, &t->monitor, fail);

	if (err)
		return err;
	t->monitor_watch.socket = t->monitor;
	t->monitor_watch.readable = monitor_readable;
	return sl_zwatch_start(&t->monitor_watch, loop, fail);
}

static enum sl_err attach(struct zmq_transport *t, const struct sl_transport_conf *conf, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (t->bound)
		err = sl_zsocket_bind(t->socket, conf->endpoint, fail);
	else if (SL_FAILPOINT_CALL(SL_FP_LINK_CONNECT, zmq_connect(t->socket, conf->endpoint)) < 0)
		err = sl_fail_set(fail, errno == EINVAL ? SL_ERR_CONFIG : SL_ERR_UNAVAILABLE,
				  "cannot connect to %s: %s", conf->endpoint, zmq_strerror(errno));
	if (err)
		return err;
	err = sl_zsocket_endpoint(t->socket, t->endpoint, sizeof t->endpoint, fail);
	monitor_readable(t); /* learns the listening socket before it can have accepted much */
	return err;
}

/* ZeroMQ allocates a block per received part, and frees it on another thread. With glibc's defaults those pages go back
 * to the kernel again and again: that costs 0.2 s of page faults per GB, and a third of the throughput. */
static void keep_freed_parts(void)
{
	mallopt(M_MMAP_THRESHOLD, KEEP_BLOCK_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEEP_FREE_BYTES);
}

/* ZeroMQ's thread wakes up for every few packets. As a batch thread it does not preempt a computing thread on its core
 * each time, but runs at the kernel's next tick at the latest; on an idle core it runs at once. */
static void *open_context(void)
{
	void *context = zmq_ctx_new();

	if (context)
		(void)zmq_ctx_set(context, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH);
	return context;
}

static const char *zmq_transport_endpoint(const struct sl_transport *transport)
{
	return ((const struct zmq_transport *)transport)->endpoint;
}

static bool zmq_transport_peer_key(const struct sl_transport *transport, sl_peer peer, struct sl_key *out)
{
	const struct zmq_transport *t = (const struct zmq_transport *)transport;
	const struct sl_key *key = t->zap ? sl_peers_key(t->peers, peer) : NULL;

	if (key)
		*out = *key;
	return key != NULL;
}

static void zmq_transport_peer_host(const struct sl_transport *transport, sl_peer peer, char out[SL_TRANSPORT_HOST])
{
	const struct zmq_transport *t = (const struct zmq_transport *)transport;

	if (t->bound)
		sl_peers_host(t->peers, peer, out);
}

static uint64_t zmq_transport_arrived(const struct sl_transport *transport, sl_peer peer)
{
	const struct zmq_transport *t = (const struct zmq_transport *)transport;

	return t->bound ? sl_peers_arrived(t->peers, peer) : sl_zsocket_arrived(t->tap.fd);
}

static void zmq_transport_count(struct sl_transport *transport)
{
	sl_tap_look(&of(transport)->tap);
}

static void zmq_transport_forget(struct sl_transport *transport, sl_peer peer)
{
	struct zmq_transport *t = of(transport);

	if (t->bound)
		sl_peers_forget(t->peers, peer);
}

static const struct sl_transport_ops zmq_ops = {
	.endpoint = zmq_transport_endpoint,
	.send = zmq_transport_send,
	.peer_key = zmq_transport_peer_key,
	.peer_host = zmq_transport_peer_host,
	.arrived = zmq_transport_arrived,
	.count = zmq_transport_count,
	.forget = zmq_transport_forget,
	.close = zmq_transport_close,
};

enum sl_err sl_transport_zmq_open(struct sl_transport **out, struct sl_loop *loop, bool bind,
				  const struct sl_transport_conf *conf, const struct sl_transport_events *events,
				  void *arg, struct sl_fail *fail)
{
	struct zmq_transport *t = calloc(1, sizeof *t);
	enum sl_err err = SL_OK;

	if (!t)
		return sl_fail_set(fail, SL_ERR_NOMEM, "transport: out of memory");
	t->base.ops = &zmq_ops;
	t->events = *events;
	t->arg = arg;
	t->payload_max = sl_transport_payload_max(conf, bind);
	t->bound = bind;
	t->loop = loop;
	t->tap = (struct sl_traffic_tap){.total = bind ? NULL : conf->traffic, .curve = conf->auth != NULL, .fd = -1};
	t->handshakes.auth = conf->auth;
	t->handshakes.endpoint = t->endpoint;
	t->handshakes.loop = loop;
	t->watch.arg = t->monitor_watch.arg = t;
	t->watch.closed = t->monitor_watch.closed = watch_closed;
	t->watch.readable = readable;
	t->watch.before_wait = tell_flagged;
	keep_freed_parts();
	err = sl_zsocket_room(fail);
	if (!err)
		t->context = open_context();
	if (!err && bind)
		err = sl_door_seed(fail);
	if (!err && t->context)
		t->socket = zmq_socket(t->context, bind ? ZMQ_ROUTER : ZMQ_DEALER);
	if (!err && !t->socket)
		err = sl_fail_set(fail, SL_ERR_OS, "ZeroMQ socket: %s", zmq_strerror(errno));
	if (!err)
		err = sl_timer_open(&t->retry, loop, retry, t, fail);
	if (!err && bind)
		err = open_door(t, conf, fail);
	if (!err)
		err = sl_zsocket_options(t->socket, bind, conf, fail);
	if (!err && conf->auth)
		err = bind ? sl_curve_guard(&t->zap, t->context, t->socket, conf->auth, fail)
			   : sl_curve_client(t->socket, conf->auth, fail);
	if (!err && bind)
		err = sl_door_learn(t->door, t->context, t->socket, fail);
	if (!err)
		err = open_monitor(t, loop, fail);
	if (!err)
		err = attach(t, conf, fail);
	if (!err) {
		t->watch.socket = t->socket;
		err = sl_zwatch_start(&t->watch, loop, fail);
	}
	if (!err && bind)
		sl_timer_start(t->door_watch, SL_DOOR_WATCH_MS, SL_DOOR_WATCH_MS);
	if (err)
		goto fail;
	*out = &t->base;
	return SL_OK;
fail:
	zmq_transport_close(&t->base, 0);
	return err;
}
