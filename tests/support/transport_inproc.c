/* Both ends are in one process, on one loop or on two loops in two threads. One lock guards everything. */
#include <stdlib.h>
#include <string.h>

#include "common/link/loop_uv.h"
#include "common/link/transport_impl.h"
#include "common/link/wire.h"
#include "tests/support/transport_inproc.h"

enum { DELIVER_MESSAGES = 32, NAME_MAX_BYTES = 128, CLIENT = 0, SERVER = 1 };

struct message {
	struct message *next;
	struct sl_bytes header, payload;
	void (*release)(void *arg);
	void *release_arg;
	uint8_t mem[]; /* the header, and a payload that had to be copied */
};

struct queue {
	struct message *head, **tail;
	int count;
	struct message *held;
	bool sender_waits; /* its send returned BUSY */
};

/* A connection. `to[SERVER]` holds what the client sent. */
struct channel {
	struct channel *next[2]; /* in the list of each end */
	struct inproc *end[2];   /* NULL: closed */
	struct queue to[2];
	sl_peer peer;              /* the server's number for the client; 0: the server forgot it */
	bool writable[2], lost[2]; /* events to report to an end */
};

struct inproc {
	struct sl_transport base;
	struct sl_transport_events events;
	void *arg;
	struct sl_async *async;
	size_t payload_max;
	int hwm, side;
	struct channel *channels;
	sl_peer last_peer;
	struct inproc *next_bound;
	bool delivering, closed;
	enum sl_fault (*fault)(void *arg, struct sl_bytes header, struct sl_bytes payload);
	void *fault_arg;
	char endpoint[NAME_MAX_BYTES];
};

static uv_mutex_t lock;
static uv_once_t lock_once = UV_ONCE_INIT;
static struct inproc *bound_list;

static void lock_init(void)
{
	if (uv_mutex_init(&lock))
		abort(); /* this fails only for lack of memory */
}

static void message_free(struct message *m)
{
	if (!m)
		return;
	if (m->release)
		m->release(m->release_arg);
	free(m);
}

static void queue_drop(struct queue *q)
{
	while (q->head) {
		struct message *next = q->head->next;

		message_free(q->head);
		q->head = next;
	}
	message_free(q->held);
	*q = (struct queue){.tail = &q->head};
}

static void queue_put(struct queue *q, struct message *m)
{
	m->next = NULL;
	*q->tail = m;
	q->tail = &m->next;
	q->count++;
}

static struct message *message_of(struct sl_bytes header, const struct sl_payload *payload, bool copy)
{
	size_t len = payload ? payload->bytes.len : 0;
	bool own = payload && payload->release && !copy;
	struct message *m = malloc(sizeof *m + header.len + (own ? 0 : len));

	if (!m)
		return NULL;
	*m = (struct message){.header = {m->mem, header.len}};
	memcpy(m->mem, header.data, header.len);
	if (own) {
		m->payload = payload->bytes;
		m->release = payload->release;
		m->release_arg = payload->release_arg;
	} else if (len) {
		m->payload = (struct sl_bytes){m->mem + header.len, len};
		memcpy(m->mem + header.len, payload->bytes.data, len);
	}
	return m;
}

static struct channel *channel_of(struct inproc *t, sl_peer peer)
{
	for (struct channel *c = t->channels; c; c = c->next[t->side])
		if (peer && (t->side == SERVER ? c->peer == peer : peer == SL_PEER_SERVER))
			return c;
	return NULL;
}

/* Enqueues the message, changed by `fault`. NOMEM: nothing was enqueued. */
static enum sl_err put_with_fault(struct queue *q, enum sl_fault fault, struct sl_bytes header,
				  const struct sl_payload *payload)
{
	bool copy = fault == SL_FAULT_CORRUPT || fault == SL_FAULT_DROP;
	struct message *m = message_of(header, payload, copy);
	struct message *twin = m && fault == SL_FAULT_DUPLICATE ? message_of(header, payload, true) : NULL;

	if (!m || (fault == SL_FAULT_DUPLICATE && !twin)) {
		free(m); /* the caller still owns the payload */
		return SL_ERR_NOMEM;
	}
	if (fault == SL_FAULT_CORRUPT)
		m->mem[m->payload.len ? m->header.len + m->payload.len / 2 : m->header.len / 2] ^= 0x10;
	if (fault == SL_FAULT_DROP) {
		free(m);
	} else if (fault == SL_FAULT_HOLD) {
		message_free(q->held);
		q->held = m;
	} else {
		queue_put(q, m);
		if (twin)
			queue_put(q, twin);
		if (q->held)
			queue_put(q, q->held);
		q->held = NULL;
	}
	if (copy && payload && payload->release)
		payload->release(payload->release_arg);
	return SL_OK;
}

static enum sl_err inproc_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			       const struct sl_payload *payload)
{
	struct inproc *t = (struct inproc *)transport;
	int far = !t->side;
	struct channel *c;
	enum sl_fault fault = SL_FAULT_NONE;
	enum sl_err err;

	if (header.len < 1 || header.len > SL_WIRE_HEADER_MAX || (payload && payload->bytes.len > SL_WIRE_PART_MAX))
		return SL_ERR_LIMIT;
	uv_mutex_lock(&lock);
	c = channel_of(t, peer);
	if (!c || !c->end[far]) {
		err = SL_ERR_PEER_LOST;
	} else if (c->to[far].count >= t->hwm) {
		c->to[far].sender_waits = true;
		err = SL_ERR_BUSY;
	} else {
		if (t->fault)
			fault = t->fault(t->fault_arg, header, payload ? payload->bytes : (struct sl_bytes){0});
		err = put_with_fault(&c->to[far], fault, header, payload);
		sl_async_wake(c->end[far]->async);
	}
	uv_mutex_unlock(&lock);
	return err;
}

/* ---- delivering */

/* The events that one turn found on one channel. They are taken under the lock and reported without it. */
struct news {
	sl_peer peer;
	bool lost, writable;
	struct message *message;
};

/* Takes the events of the first channel that has some; false: there are none. */
static bool take_news(struct inproc *t, struct news *out)
{
	for (struct channel *c = t->channels; c; c = c->next[t->side]) {
		struct queue *q = &c->to[t->side];

		if (!q->head && !c->writable[t->side] && !(c->lost[t->side] && (c->peer || t->side == CLIENT)))
			continue;
		if (t->side == SERVER && !c->peer)
			c->peer = ++t->last_peer;
		*out = (struct news){.peer = t->side == SERVER ? c->peer : SL_PEER_SERVER,
				     .writable = c->writable[t->side]};
		c->writable[t->side] = false;
		out->message = q->head;
		if (q->head) {
			q->head = q->head->next;
			if (!q->head)
				q->tail = &q->head;
			if (--q->count < t->hwm && q->sender_waits && c->end[!t->side]) {
				q->sender_waits = false;
				c->writable[!t->side] = true;
				sl_async_wake(c->end[!t->side]->async);
			}
		} else if (c->lost[t->side]) {
			c->lost[t->side] = false; /* after everything that was sent before */
			out->lost = true;
		}
		return true;
	}
	return false;
}

static void tell(struct inproc *t, const struct news *news)
{
	struct message *m = news->message;

	if (news->writable && !t->closed)
		t->events.writable(t->arg, news->peer);
	if (m && !t->closed) {
		if (m->payload.len > t->payload_max)
			t->events.malformed(t->arg, news->peer, "a payload is larger than it may be");
		else
			t->events.message(t->arg, news->peer, m->header, m->payload);
	}
	if (news->lost && !t->closed)
		t->events.lost(t->arg, news->peer);
	message_free(m);
}

static void deliver(void *arg)
{
	struct inproc *t = arg;
	struct news news;

	t->delivering = true;
	for (int i = 0; i < DELIVER_MESSAGES && !t->closed; i++) {
		bool any;

		uv_mutex_lock(&lock);
		any = take_news(t, &news);
		uv_mutex_unlock(&lock);
		if (!any)
			break;
		tell(t, &news);
		if (i == DELIVER_MESSAGES - 1 && !t->closed)
			sl_async_wake(t->async);
	}
	t->delivering = false;
	if (t->closed)
		free(t);
}

/* ---- opening and closing */

static struct inproc *bound_at(const char *endpoint)
{
	for (struct inproc *t = bound_list; t; t = t->next_bound)
		if (strcmp(t->endpoint, endpoint) == 0)
			return t;
	return NULL;
}

static void unlink_bound(struct inproc *t)
{
	for (struct inproc **link = &bound_list; *link; link = &(*link)->next_bound)
		if (*link == t) {
			*link = t->next_bound;
			return;
		}
}

/* The last end to close frees the channel. */
static void leave(struct channel *c, int side)
{
	queue_drop(&c->to[side]);
	message_free(c->to[!side].held); /* a message held by this end is never sent */
	c->to[!side].held = NULL;
	c->end[side] = NULL;
	if (!c->end[!side]) {
		queue_drop(&c->to[!side]);
		free(c);
		return;
	}
	c->lost[!side] = true;
	sl_async_wake(c->end[!side]->async);
}

static void inproc_close(struct sl_transport *transport, int linger_ms)
{
	struct inproc *t = (struct inproc *)transport;

	(void)linger_ms; /* everything sent is in the other end's queue already */
	uv_mutex_lock(&lock);
	unlink_bound(t);
	while (t->channels) {
		struct channel *c = t->channels;

		t->channels = c->next[t->side];
		leave(c, t->side);
	}
	uv_mutex_unlock(&lock);
	sl_async_close(t->async);
	t->closed = true;
	if (!t->delivering)
		free(t);
}

static void inproc_forget(struct sl_transport *transport, sl_peer peer)
{
	struct inproc *t = (struct inproc *)transport;
	struct channel *c;

	uv_mutex_lock(&lock);
	c = t->side == SERVER ? channel_of(t, peer) : NULL;
	if (c)
		c->peer = 0;
	uv_mutex_unlock(&lock);
}

static const char *inproc_endpoint(const struct sl_transport *transport)
{
	return ((const struct inproc *)transport)->endpoint;
}

static const struct sl_transport_ops inproc_ops = {
	.endpoint = inproc_endpoint,
	.send = inproc_send,
	.forget = inproc_forget,
	.close = inproc_close,
};

void sl_inproc_faults(struct sl_transport *transport,
		      enum sl_fault (*fault)(void *arg, struct sl_bytes header, struct sl_bytes payload), void *arg)
{
	struct inproc *t = (struct inproc *)transport;

	if (transport->ops != &inproc_ops)
		return;
	uv_mutex_lock(&lock);
	t->fault = fault;
	t->fault_arg = arg;
	uv_mutex_unlock(&lock);
}

/* The caller holds the lock. */
static enum sl_err join(struct inproc *t, struct sl_fail *fail)
{
	struct inproc *server = bound_at(t->endpoint);
	struct channel *c;

	if (t->side == SERVER) {
		if (server)
			return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cannot listen on %s: address in use",
					   t->endpoint);
		t->next_bound = bound_list;
		bound_list = t;
		return SL_OK;
	}
	if (!server)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cannot connect to %s: nobody listens", t->endpoint);
	c = calloc(1, sizeof *c);
	if (!c)
		return sl_fail_set(fail, SL_ERR_NOMEM, "transport: out of memory");
	c->end[CLIENT] = t;
	c->end[SERVER] = server;
	for (int side = 0; side < 2; side++) {
		c->to[side].tail = &c->to[side].head;
		c->next[side] = c->end[side]->channels;
		c->end[side]->channels = c;
	}
	return SL_OK;
}

enum sl_err sl_transport_inproc_open(struct sl_transport **out, struct sl_loop *loop, bool bind,
				     const struct sl_transport_conf *conf, const struct sl_transport_events *events,
				     void *arg, struct sl_fail *fail)
{
	struct inproc *t;
	enum sl_err err;

	if (strlen(conf->endpoint) >= NAME_MAX_BYTES)
		return sl_fail_set(fail, SL_ERR_CONFIG, "endpoint \"%s\" is too long", conf->endpoint);
	t = calloc(1, sizeof *t);
	if (!t)
		return sl_fail_set(fail, SL_ERR_NOMEM, "transport: out of memory");
	t->base.ops = &inproc_ops;
	t->events = *events;
	t->arg = arg;
	t->payload_max = sl_transport_payload_max(conf, bind);
	t->hwm = conf->hwm;
	t->side = bind ? SERVER : CLIENT;
	strcpy(t->endpoint, conf->endpoint);
	err = sl_async_open(&t->async, loop, deliver, t, fail);
	if (err) {
		free(t);
		return err;
	}
	uv_once(&lock_once, lock_init);
	uv_mutex_lock(&lock);
	err = join(t, fail);
	uv_mutex_unlock(&lock);
	if (err) {
		sl_async_close(t->async);
		free(t);
		return err;
	}
	*out = &t->base;
	return SL_OK;
}
