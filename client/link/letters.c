#include "client/link/letters.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/session/session.h"

enum { HWM = 64, LINGER_MS = 3000, TICK_FRACTION = 4 };

struct sl_letters {
	const struct sl_conf_client *conf;
	struct sl_letters_events events;
	void *arg;
	struct sl_loop *loop;
	struct sl_transport *transport;
	struct sl_timer *ticker;
	struct sl_secret secret;
	char text[SL_AGREED_TEXT]; /* the payload of the proven Hello */
	struct sl_session session;
	struct sl_outbox out;
	uint64_t opened_ms, moved_ms; /* moved: the last letter came */
	bool told;                    /* the log has the line about waiting */
};

static void fail_with(struct sl_letters *l, const struct sl_fail *why);

static bool is_unheard(const struct sl_letters *l)
{
	return l->session.counts.frames == 0;
}

/* Letters under way are few, so only a connection that stands still lets frames pile up. */
static void say(struct sl_letters *l, const struct sl_frame *frame)
{
	const struct sl_payload payload = {.bytes = frame->payload};
	const bool optional = frame->kind == SL_FRAME_HEARTBEAT || l->session.state == SL_SESSION_CLOSED;
	uint8_t header[SL_WIRE_HEADER_MAX];
	struct sl_fail why;
	size_t len;
	enum sl_err err = sl_wire_encode(frame, header, &len);

	if (!err)
		err = sl_transport_send(l->transport, SL_PEER_SERVER, (struct sl_bytes){header, len}, &payload);
	if (!err || optional || is_unheard(l)) /* on_writable says the Hello again */
		return;
	sl_fail_set(&why, SL_ERR_PEER_LOST, "%s takes no more messages (%s)", l->conf->server, sl_err_text(err));
	fail_with(l, &why);
}

/* An event's receiver may post a letter, or end: it is called last. */
static void act(struct sl_letters *l, const struct sl_frame *came)
{
	const bool over = l->session.state == SL_SESSION_CLOSED;

	for (int i = 0, n = l->out.n_action; i < n && (l->session.state == SL_SESSION_CLOSED) == over; i++) {
		const struct sl_action a = l->out.action[i];

		if (a.kind == SL_ACTION_SEND) {
			say(l, &l->out.frame[a.frame]);
		} else if (a.kind == SL_ACTION_READY) {
			l->events.open(l->arg, l->session.hello.part_bytes);
		} else if (a.kind == SL_ACTION_STORE) {
			l->events.came(l->arg, came->payload);
		} else if (a.kind == SL_ACTION_FAIL) {
			const struct sl_fail why = l->out.fail;

			l->events.failed(l->arg, &why);
		}
	}
}

static void step(struct sl_letters *l, const struct sl_event *ev)
{
	(void)!sl_session_step(&l->session, ev, sl_loop_now_ms(l->loop), &l->out); /* an action says so */
	act(l, ev->frame);
}

static void fail_with(struct sl_letters *l, const struct sl_fail *why)
{
	sl_session_fail(&l->session, why, sl_loop_now_ms(l->loop), &l->out);
	act(l, NULL);
}

/* ---- what comes */

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_letters *l = arg;
	struct sl_frame frame;
	struct sl_fail fail;

	if (sl_wire_decode(header, payload, &frame, &fail)) {
		fail_with(l, &fail);
		return;
	}
	if (frame.kind == SL_FRAME_PART || frame.kind == SL_FRAME_WELCOME)
		l->moved_ms = sl_loop_now_ms(l->loop);
	else if (frame.kind == SL_FRAME_HEARTBEAT && l->session.state == SL_SESSION_HELLO && l->events.waits)
		l->events.waits(l->arg);
	else if (frame.kind == SL_FRAME_HEARTBEAT && l->session.state == SL_SESSION_HELLO && !l->told)
		sl_log(SL_LOG_INFO, "align-waits", "%s has answered, and waits for member %d of group %s",
		       l->conf->server, !l->conf->agreed.share.member, l->conf->agreed.share.group);
	l->told |= frame.kind == SL_FRAME_HEARTBEAT;
	step(l, &(struct sl_event){.kind = (enum sl_event_kind)frame.kind, .frame = &frame});
}

static void on_writable(void *arg, sl_peer peer)
{
	struct sl_letters *l = arg;

	if (is_unheard(l))
		step(l, &(struct sl_event){.kind = SL_EV_OPEN});
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_PROTOCOL, "the server sent a malformed message: %s", why);
	fail_with(arg, &fail);
}

static void on_lost(void *arg, sl_peer peer)
{
	struct sl_letters *l = arg;
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_PEER_LOST, "the connection to %s broke", l->conf->server);
	if (is_unheard(l)) /* the Hello may be lost with it */
		on_writable(l, peer);
	else
		fail_with(l, &fail);
}

static void on_refused(void *arg, const struct sl_fail *why)
{
	fail_with(arg, why);
}

/* ---- time */

/* The session itself finds a server that is silent. */
static bool is_over(const struct sl_letters *l, struct sl_fail *fail)
{
	const struct sl_conf_client *c = l->conf;
	const uint64_t now_ms = sl_loop_now_ms(l->loop), waited_ms = now_ms - l->opened_ms;
	const uint64_t wait_ms = (uint64_t)c->agreed.share.wait_s * 1000, stall_ms = (uint64_t)c->link.stall_s * 1000;
	const bool waits = l->session.state == SL_SESSION_HELLO;
	const int other = !c->agreed.share.member;

	if (is_unheard(l) && waited_ms > (uint64_t)c->link.connect_timeout_ms)
		sl_fail_set(fail, SL_ERR_TIMEOUT, "no answer from %s within %d ms: is splits running there?", c->server,
			    c->link.connect_timeout_ms);
	else if (waits && wait_ms && waited_ms > wait_ms)
		sl_fail_set(
			fail, SL_ERR_UNAVAILABLE,
			"member %d of group %s has not come within %d s (share.wait_s): run splitc align there, too",
			other, c->agreed.share.group, c->agreed.share.wait_s);
	else if (!waits && stall_ms && now_ms - l->moved_ms > stall_ms)
		sl_fail_set(fail, SL_ERR_TIMEOUT, "no letter of member %d has come for %d s (link.stall_s)", other,
			    c->link.stall_s);
	else
		return false;
	return true;
}

static void on_tick(void *arg)
{
	struct sl_letters *l = arg;
	struct sl_fail fail;

	if (l->session.state == SL_SESSION_NEW)
		step(l, &(struct sl_event){.kind = SL_EV_OPEN});
	else if (is_over(l, &fail))
		fail_with(l, &fail);
	else if (!is_unheard(l))
		step(l, &(struct sl_event){.kind = SL_EV_TICK,
					   .number = sl_transport_arrived(l->transport, SL_PEER_SERVER)});
}

/* ---- opening */

static void open_session(struct sl_letters *l)
{
	const struct sl_conf_client *c = l->conf;
	const struct sl_session_limits limits = {.run_bytes[SL_PART_LETTER] = SL_WIRE_PART_MAX, .shared = true};
	struct sl_bytes text = {(const uint8_t *)l->text, 0};
	struct sl_agreed a = sl_agreed_default();
	struct sl_hello hello = {.version = SL_WIRE_VERSION,
				 .epoch = 1,
				 .n_held = 1,
				 .software = "splitc " SL_VERSION,
				 .part_bytes = (uint32_t)c->link.part_bytes,
				 .window_bytes = (uint64_t)c->link.window_bytes,
				 .heartbeat_ms = (uint32_t)c->link.heartbeat_ms,
				 .timeout_ms = (uint32_t)c->link.timeout_ms};

	memcpy(a.share.group, c->agreed.share.group, sizeof a.share.group);
	a.share.mode = SL_SHARE_VERTICAL;
	a.share.clients = c->agreed.share.clients;
	a.share.member = c->agreed.share.member;
	a.share.role = c->agreed.share.role;
	a.share.align = SL_SHARE_ALIGNS;
	memcpy(hello.session, l->secret.session, sizeof hello.session);
	text.len = sl_agreed_write(&a, l->text);
	hello.payload_xxh3 = sl_wire_hash(text);
	sl_session_open_client(&l->session, &hello, l->opened_ms);
	l->session.secret = &l->secret;
	l->session.text = text;
	l->session.first = true;
	sl_session_set_limits(&l->session, &limits);
}

enum sl_err sl_letters_open(struct sl_letters **out, struct sl_loop *loop, const struct sl_conf_client *conf,
			    const struct sl_transport_auth *auth, const struct sl_letters_events *events, void *arg,
			    struct sl_fail *fail)
{
	static const struct sl_transport_events transport_events = {on_message, on_writable, on_malformed, on_lost,
								    on_refused};
	const struct sl_transport_conf transport = {.endpoint = conf->server,
						    .part_bytes = (size_t)conf->link.part_bytes,
						    .hwm = HWM,
						    .auth = auth->own ? auth : NULL};
	struct sl_letters *l = calloc(1, sizeof *l);
	enum sl_err err;

	if (!l)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for an alignment");
	l->conf = conf;
	l->events = *events;
	l->arg = arg;
	l->loop = loop;
	l->opened_ms = sl_loop_now_ms(loop);
	err = sl_secret_make(&l->secret, fail);
	if (!err)
		err = sl_transport_connect(&l->transport, loop, &transport, &transport_events, l, fail);
	if (!err)
		err = sl_timer_open(&l->ticker, loop, on_tick, l, fail);
	if (err) {
		sl_letters_close(l);
		return err;
	}
	open_session(l);
	sl_timer_start(l->ticker, 1, (uint64_t)(conf->link.heartbeat_ms / TICK_FRACTION + 1));
	*out = l;
	return SL_OK;
}

/* ---- letters */

void sl_letters_post(struct sl_letters *l, const uint8_t *letter)
{
	struct sl_frame frame = {
		.kind = SL_FRAME_PART, .epoch = l->session.epoch, .payload = {letter, l->session.hello.part_bytes}};

	if (l->session.state == SL_SESSION_CLOSED)
		return;
	frame.u.part = (struct sl_part){
		.what = SL_PART_LETTER, .total = frame.payload.len, .xxh3 = sl_wire_hash(frame.payload)};
	say(l, &frame);
}

void sl_letters_end(struct sl_letters *l, const struct sl_fail *why)
{
	if (why)
		fail_with(l, why);
	else if (l->session.state != SL_SESSION_CLOSED)
		step(l, &(struct sl_event){.kind = SL_EV_LEAVE});
}

void sl_letters_close(struct sl_letters *l)
{
	if (!l)
		return;
	sl_timer_close(l->ticker);
	sl_transport_close(l->transport, LINGER_MS);
	sl_secret_wipe(&l->secret);
	free(l);
}
