/* Takes the place of common/link/transport_zmq.c: connections with latency, high-water marks and reconnects, whose
 * messages keep their order. A payload is read some time after it was sent, and released then, as ZeroMQ's thread does.
 * What a killed sender had not yet given to the wire is lost; what is on the wire arrives, and then the other end
 * learns that the connection is gone. */
#define SL_FAILPOINTS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/failpoint.h"
#include "common/link/transport_impl.h"
#include "tests/sim/sim.h"

struct connection;

struct message {
	struct message *next;
	struct connection *c;
	int to; /* the side that receives it */
	uint64_t late_ns;
	size_t header, payload;
	const uint8_t *from; /* the payload, until it is on the wire */
	void (*release)(void *arg);
	void *release_arg;
	struct sim_event *event;
	uint8_t *bytes; /* of both, once it is on the wire */
	uint8_t copy[]; /* of the header, and of a payload that nobody waits for */
};

/* One end of connections: the client's socket has one, the server's has many. */
struct sim_end {
	struct sl_transport base;
	struct sl_transport_events events;
	void *arg;
	struct sim_proc *proc;
	int side, most; /* most: messages under way */
	size_t payload_max;
	bool closed;
	char endpoint[128];
	struct connection *c; /* the client's, or the first of the server's */
	sl_peer last;
	struct sim_end *next; /* of the same process */
	struct sim_event *retry;
};

struct connection {
	struct connection *next; /* at the server */
	struct sim_end *end[2];  /* by side; NULL: it is gone */
	sl_peer peer;            /* the server's name for it; 0: it has received nothing yet, or has forgotten it */
	bool up, waits[2], gone; /* gone: the server's next send fails */
	int count[2];            /* messages under way to this side */
	uint64_t wired_ns[2], arrived_ns[2];
	struct message *out[2], **tail[2]; /* not on the wire yet */
	int refs;
};

static struct sim_end *bound;

static void *made(size_t size)
{
	void *p = calloc(1, size);

	return p ? p : (abort(), NULL);
}

static void drop(struct connection *c)
{
	if (--c->refs == 0)
		free(c);
}

static uint64_t latency(void)
{
	const uint64_t ns = 20000ull << sim_draw(SIM_NET, 8); /* 20 µs to 5 ms */

	return ns + sim_draw(SIM_NET, ns);
}

/* ---- the ends learn of a connection's end ---- */

struct loss {
	struct sim_end *end;
	struct connection *c;
};

static void try_connect(void *arg);

static void tell_lost(void *arg)
{
	struct loss lost = *(struct loss *)arg;
	struct sim_end *e = lost.end;
	struct connection *c = lost.c;

	free(arg);
	if (c->end[e->side] == e && !e->closed && e->side == SIM_SERVER) {
		c->gone = true; /* a bound socket learns it when a send fails */
	} else if (c->end[e->side] == e && !e->closed) {
		c->end[SIM_CLIENT] = NULL;
		e->c = NULL;
		e->retry = sim_at(e->proc, 20 * SIM_MS + sim_draw(SIM_NET, 80 * SIM_MS), try_connect, e);
		e->events.lost(e->arg, SL_PEER_SERVER);
	}
	drop(c);
}

/* After all that is on its way to it. */
static void hear_end(struct connection *c, int side)
{
	struct sim_end *e = c->end[side];
	struct loss *lost;

	c->up = false;
	if (!e)
		return;
	lost = made(sizeof *lost);
	*lost = (struct loss){e, c};
	c->refs++;
	sim_at(e->proc, (c->arrived_ns[side] > sim.now_ns ? c->arrived_ns[side] - sim.now_ns : 0) + latency(),
	       tell_lost, lost);
}

/* The network breaks the connection: both ends learn it, and the client connects again. */
static void cut(struct connection *c)
{
	hear_end(c, SIM_CLIENT);
	hear_end(c, SIM_SERVER);
}

/* ---- a message arrives ---- */

static void tell_client_writable(void *arg)
{
	struct sim_end *e = arg;

	if (!e->closed && e->c && e->c->up)
		e->events.writable(e->arg, SL_PEER_SERVER);
}

static void tell_server_writable(void *arg)
{
	struct connection *c = arg;
	struct sim_end *e = c->end[SIM_SERVER];

	if (e && !e->closed && c->peer)
		e->events.writable(e->arg, c->peer);
	drop(c);
}

/* A message less is under way to this side: the sender may go on. */
static void make_room(struct connection *c, int to)
{
	struct sim_end *from = c->end[!to];

	c->count[to]--;
	if (!from || !c->waits[!to] || c->count[to] >= from->most)
		return;
	c->waits[!to] = false;
	if (from->side == SIM_SERVER)
		c->refs++;
	sim_at(from->proc, sim_draw(SIM_NET, 100000),
	       from->side == SIM_SERVER ? tell_server_writable : tell_client_writable,
	       from->side == SIM_SERVER ? (void *)c : (void *)from);
}

static void arrive(void *arg)
{
	struct message *m = arg;
	struct connection *c = m->c;
	struct sim_end *e = c->end[m->to];

	make_room(c, m->to);
	if (e && !e->closed) {
		const struct sl_bytes header = {m->bytes, m->header}, payload = {m->bytes + m->header, m->payload};
		sl_peer from = SL_PEER_SERVER;

		sl_failpoint_pass(SL_FP_LINK_RECEIVE);
		if (e->side == SIM_SERVER)
			from = c->peer ? c->peer : (c->peer = ++e->last);
		if (m->payload > e->payload_max)
			e->events.malformed(e->arg, from, "too large");
		else
			e->events.message(e->arg, from, header, payload);
	}
	free(m->bytes);
	free(m);
	drop(c);
}

/* ---- a message is put on the wire, where faults wait for it ---- */

static uint64_t parted_until(const struct sim_end *client)
{
	const uint64_t own = client ? client->proc->parted_until : 0;

	return own > sim.parted_until ? own : sim.parted_until;
}

static void put(struct message *m)
{
	struct connection *c = m->c;
	uint64_t when = sim.now_ns + latency();

	const uint64_t parted = parted_until(c->end[SIM_CLIENT]);

	if (parted > when)
		when = parted + sim_draw(SIM_NET, SIM_MS);
	when += m->late_ns;
	if (when <= c->arrived_ns[m->to])
		when = c->arrived_ns[m->to] + 1;
	c->arrived_ns[m->to] = when;
	c->refs++;
	sim_at(c->end[m->to]->proc, when - sim.now_ns, arrive, m);
}

static void put_again(const struct message *m)
{
	struct message *twin = made(sizeof *twin);

	*twin = *m;
	twin->bytes = made(m->header + m->payload + 1);
	memcpy(twin->bytes, m->bytes, m->header + m->payload);
	m->c->count[m->to]++;
	put(twin);
}

/* The fault that this message meets; SIM_KINDS: none. */
static enum sim_kind fault_of(const struct message *m)
{
	char what[64];

	sim.messages[!m->to]++;
	snprintf(what, sizeof what, "%zu + %zu bytes", m->header, m->payload);
	for (enum sim_kind k = SIM_DROP; k <= SIM_LATE; k++)
		if (sim_fires(k, !m->to, what))
			return k;
	return SIM_KINDS;
}

static void unlink_message(struct message *m)
{
	struct message **p = &m->c->out[m->to];

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	if (!m->next)
		m->c->tail[m->to] = p;
}

static void wire(void *arg)
{
	struct message *m = arg;
	struct connection *c = m->c;
	enum sim_kind fault;

	unlink_message(m);
	m->bytes = made(m->header + m->payload + 1);
	memcpy(m->bytes, m->copy, m->header);
	if (m->payload)
		memcpy(m->bytes + m->header, m->from, m->payload);
	if (m->release)
		m->release(m->release_arg);
	sim_mix(XXH3_64bits(m->bytes, m->header + m->payload));
	fault = fault_of(m);
	if (fault == SIM_FLIP)
		m->bytes[m->payload ? m->header + m->payload / 2 : m->header / 2] ^= 0x10;
	if (fault == SIM_PARTITION)
		sim.parted_until = sim.now_ns + sim.fault[sim.armed - 1].ms * SIM_MS;
	if (fault == SIM_DROP || !c->end[m->to]) {
		c->count[m->to]--;
		free(m->bytes);
		free(m);
		return;
	}
	if (fault == SIM_TWICE)
		put_again(m);
	if (fault == SIM_LATE) /* what is on its way arrives, perhaps after the next link was made */
		m->late_ns = sim.fault[sim.armed - 1].ms * 2 * SIM_MS;
	put(m);
	if (fault == SIM_CUT || fault == SIM_LATE)
		cut(c);
}

/* What this end has not given to the wire is lost, or follows at once. */
static void flush(struct connection *c, int to, bool lost)
{
	struct message *m;

	while ((m = c->out[to])) {
		sim_cancel(m->event);
		if (!lost) {
			wire(m);
			continue;
		}
		unlink_message(m);
		if (m->release)
			m->release(m->release_arg);
		free(m);
	}
}

/* ---- the transport's calls ---- */

static enum sl_err end_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			    const struct sl_payload *payload)
{
	struct sim_end *e = (struct sim_end *)(void *)transport;
	struct connection *c = e->c;
	const size_t len = payload ? payload->bytes.len : 0;
	const bool waits = payload && payload->release;
	const int to = !e->side;
	struct message *m;
	uint64_t ns = sim_draw(SIM_NET, 50000);

	sl_failpoint_pass(SL_FP_LINK_SEND);
	while (e->side == SIM_SERVER && c && c->peer != peer)
		c = c->next;
	if (e->side == SIM_SERVER && (!c || c->gone || !peer))
		return SL_ERR_PEER_LOST;
	if (!c)
		return SL_ERR_BUSY;
	if ((!c->up && e->side == SIM_CLIENT) || c->count[to] >= e->most) {
		c->waits[e->side] = true;
		return SL_ERR_BUSY;
	}
	m = made(sizeof *m + header.len + (waits ? 0 : len));
	*m = (struct message){.c = c, .to = to, .header = header.len, .payload = len};
	memcpy(m->copy, header.data, header.len);
	m->from = waits ? payload->bytes.data : m->copy + header.len;
	if (waits) {
		m->release = payload->release;
		m->release_arg = payload->release_arg;
	} else if (len) {
		memcpy(m->copy + header.len, payload->bytes.data, len);
	}
	c->count[to]++;
	*c->tail[to] = m;
	c->tail[to] = &m->next;
	if (c->wired_ns[to] >= sim.now_ns + ns)
		ns = c->wired_ns[to] + 1 - sim.now_ns;
	c->wired_ns[to] = sim.now_ns + ns;
	m->event = sim_at(e->proc, ns, wire, m);
	return SL_OK;
}

static void leave(struct connection *c, int side, bool killed)
{
	flush(c, !side, killed);
	hear_end(c, !side);
	c->end[side] = NULL;
	drop(c);
}

/* The memory stays, since events may name it. */
static void close_end(struct sim_end *e, bool killed)
{
	struct connection *next;

	e->closed = true;
	if (bound == e)
		bound = NULL;
	if (e->retry)
		sim_cancel(e->retry);
	e->retry = NULL;
	for (struct connection *c = e->c; c; c = next) {
		next = e->side == SIM_SERVER ? c->next : NULL;
		leave(c, e->side, killed);
	}
	e->c = NULL;
}

static void end_close(struct sl_transport *transport, int linger_ms)
{
	struct sim_end *e = (struct sim_end *)(void *)transport, **p = &e->proc->ends;

	close_end(e, false);
	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
}

void sim_net_dead(struct sim_proc *proc)
{
	for (struct sim_end *e = proc->ends; e; e = e->next)
		close_end(e, true);
	proc->ends = NULL;
}

static void try_connect(void *arg)
{
	struct sim_end *e = arg;
	struct connection *c;

	e->retry = NULL;
	if (e->closed)
		return;
	if (!bound || parted_until(e) > sim.now_ns) {
		e->retry = sim_at(e->proc, (sim.days ? 1000 : 50) * SIM_MS + sim_draw(SIM_NET, 100 * SIM_MS),
				  try_connect, e);
		return;
	}
	c = made(sizeof *c);
	*c = (struct connection){.next = bound->c, .end = {e, bound}, .up = true, .refs = 2};
	c->tail[0] = &c->out[0];
	c->tail[1] = &c->out[1];
	bound->c = c;
	e->c = c;
	e->events.writable(e->arg, SL_PEER_SERVER);
}

static const char *end_name(const struct sl_transport *transport)
{
	return ((const struct sim_end *)(const void *)transport)->endpoint;
}

static void end_forget(struct sl_transport *transport, sl_peer peer)
{
	struct sim_end *e = (struct sim_end *)(void *)transport;

	for (struct connection *c = e->side == SIM_SERVER ? e->c : NULL; c; c = c->next)
		if (c->peer == peer)
			c->peer = 0;
}

enum sl_err sl_transport_zmq_open(struct sl_transport **out, struct sl_loop *loop, bool bind,
				  const struct sl_transport_conf *conf, const struct sl_transport_events *events,
				  void *arg, struct sl_fail *fail)
{
	static const struct sl_transport_ops ops = {
		.endpoint = end_name, .send = end_send, .forget = end_forget, .close = end_close};
	struct sim_end *e = made(sizeof *e);

	*e = (struct sim_end){.base = {.ops = &ops},
			      .events = *events,
			      .arg = arg,
			      .proc = sim.cur,
			      .side = bind ? SIM_SERVER : SIM_CLIENT,
			      .most = conf->hwm,
			      .payload_max = sl_transport_payload_max(conf, bind),
			      .next = sim.cur->ends};
	snprintf(e->endpoint, sizeof e->endpoint, "%s", conf->endpoint);
	sl_failpoint_pass(bind ? SL_FP_LINK_BIND : SL_FP_LINK_CONNECT);
	sim.cur->ends = e;
	if (bind)
		bound = e;
	else
		e->retry = sim_at(e->proc, latency(), try_connect, e);
	*out = &e->base;
	return SL_OK;
}
