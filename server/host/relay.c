#include "server/host/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/session/session.h"

enum { PAIRS = 16, LETTER_MOST = 256 << 10 };

struct seat {
	sl_peer peer; /* 0: free */
	struct sl_key key;
	struct sl_hello hello;
	enum sl_conf_share_role role;
	uint64_t heard_ms, said_ms;
	uint64_t arrived; /* bytes, as the last tick saw */
	uint64_t letters; /* that it has sent */
};

struct pair {
	char group[SL_CONF_TEXT];
	struct seat seat[2];
	uint32_t bytes; /* of a letter; 0: one member is not there yet */
};

struct sl_relay {
	struct sl_loop *loop;
	struct sl_transport *transport;
	const struct sl_conf_server *conf;
	const struct sl_server_auth *auth;
	struct pair pair[PAIRS];
};

struct sl_relay *sl_relay_open(struct sl_loop *loop, struct sl_transport *transport, const struct sl_conf_server *conf,
			       const struct sl_server_auth *auth)
{
	struct sl_relay *r = calloc(1, sizeof *r);

	if (r)
		*r = (struct sl_relay){.loop = loop, .transport = transport, .conf = conf, .auth = auth};
	return r;
}

void sl_relay_close(struct sl_relay *r)
{
	free(r);
}

/* The pair of this peer, and its seat there; NULL: it has none. */
static struct pair *find(const struct sl_relay *r, sl_peer peer, int *member)
{
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < 2; k++)
			if (peer && r->pair[i].seat[k].peer == peer) {
				*member = k;
				return (struct pair *)&r->pair[i];
			}
	return NULL;
}

int sl_relay_seats(const struct sl_relay *r)
{
	int n = 0;

	for (int i = 0; i < PAIRS; i++)
		n += (r->pair[i].seat[0].peer != 0) + (r->pair[i].seat[1].peer != 0);
	return n;
}

/* BUSY: the transport's queue for it is full. */
static enum sl_err say(struct sl_relay *r, struct seat *s, struct sl_frame *frame)
{
	const struct sl_payload payload = {.bytes = frame->payload};
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;
	enum sl_err err;

	frame->epoch = s->hello.epoch;
	err = sl_wire_encode(frame, header, &len);
	if (!err)
		err = sl_transport_send(r->transport, s->peer, (struct sl_bytes){header, len}, &payload);
	if (!err)
		s->said_ms = sl_loop_now_ms(r->loop);
	return err;
}

static void dismiss(struct sl_relay *r, struct seat *s, const struct sl_fail *why)
{
	struct sl_frame frame = {.kind = SL_FRAME_REFUSE};

	if (!s->peer)
		return;
	if (why) {
		sl_refuse_fill(&frame.u.refuse, why);
		(void)!say(r, s, &frame); /* it may be gone */
	}
	sl_transport_forget(r->transport, s->peer);
	*s = (struct seat){.peer = 0};
}

/* Ends an alignment by its member `who`, which is told `why` (NULL: it knows). The other one hears `other`. */
static void end(struct sl_relay *r, struct pair *p, int who, const struct sl_fail *why, const struct sl_fail *other)
{
	if (p->bytes)
		sl_log(SL_LOG_INFO, "align-end", "group %s: %" PRIu64 " letter%s handed on: %s", p->group,
		       p->seat[0].letters + p->seat[1].letters,
		       sl_plural((long long)(p->seat[0].letters + p->seat[1].letters)), other->text);
	dismiss(r, &p->seat[who], why);
	dismiss(r, &p->seat[!who], other);
	*p = (struct pair){.bytes = 0};
}

static void blame(struct sl_relay *r, struct pair *p, int who, const struct sl_fail *why)
{
	struct sl_fail other;

	(void)!sl_fail_set(&other, why->code, "member %d of group %s %s: %s", who, p->group,
			   why->code == SL_ERR_PEER_LOST ? "is lost" : "ended it", sl_fail_sentence(why));
	end(r, p, who, why, &other);
}

bool sl_relay_fail(struct sl_relay *r, sl_peer peer, const struct sl_fail *why)
{
	int who = 0;
	struct pair *p = find(r, peer, &who);

	if (p)
		blame(r, p, who, why);
	return p != NULL;
}

void sl_relay_end(struct sl_relay *r, const struct sl_fail *why)
{
	for (int i = 0; i < PAIRS; i++)
		end(r, &r->pair[i], 0, why, why);
}

/* ---- who comes */

static const char marked[] = "\nshare.align = true\n";

bool sl_relay_is_asked(struct sl_bytes text)
{
	return memmem(text.data, text.len, marked, sizeof marked - 1) && !memmem(text.data, text.len, "\n\n", 2);
}

/* The group's pair, or a free one. BUSY: there is none, or the key has enough. */
static enum sl_err find_pair(struct sl_relay *r, const char *group, const struct sl_key *key, struct pair **out,
			     struct sl_fail *fail)
{
	struct pair *found = NULL;
	int of_key = 0;

	for (int i = 0; i < PAIRS; i++) {
		struct pair *p = &r->pair[i];
		const bool taken = p->seat[0].peer || p->seat[1].peer;

		if (taken && strcmp(p->group, group) == 0) {
			*out = p;
			return SL_OK;
		}
		if (!taken)
			found = p;
		for (int k = 0; k < 2; k++)
			of_key += r->auth && p->seat[k].peer && sl_key_equal(&p->seat[k].key, key);
	}
	if (!found || of_key >= r->conf->limits.sessions_per_key)
		return sl_fail_set(fail, SL_ERR_BUSY, "%s alignments are under way; try again later",
				   found ? "as many of this key as one may have," : "as many as there may be,");
	snprintf(found->group, sizeof found->group, "%s", group);
	*out = found;
	return SL_OK;
}

/* A member that comes again was lost. Its seat belongs to its key. */
static enum sl_err take_back(struct sl_relay *r, struct pair *p, int member, const struct sl_key *key,
			     struct sl_fail *fail)
{
	struct sl_fail why, other;

	if (!p->seat[member].peer)
		return SL_OK;
	if (r->auth && !sl_key_equal(&p->seat[member].key, key))
		return sl_fail_set(fail, SL_ERR_BUSY, "another key is member %d of group %s", member, p->group);
	(void)!sl_fail_set(&why, SL_ERR_MISMATCH, "another client is member %d of group %s now", member, p->group);
	(void)!sl_fail_set(&other, SL_ERR_PEER_LOST, "member %d of group %s began again", member, p->group);
	dismiss(r, &p->seat[member], &why);
	if (p->bytes)
		dismiss(r, &p->seat[!member], &other);
	p->bytes = 0;
	return SL_OK;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both are there. */
static void begin(struct sl_relay *r, struct pair *p)
{
	const struct sl_hello *a = &p->seat[0].hello, *b = &p->seat[1].hello;
	const uint64_t window = least((uint64_t)r->conf->link.window_bytes, least(a->window_bytes, b->window_bytes));
	struct sl_frame frame = {.kind = SL_FRAME_WELCOME, .u.welcome = {.version = SL_WIRE_VERSION}};
	struct sl_welcome *w = &frame.u.welcome;

	p->bytes = (uint32_t)least(least(least(a->part_bytes, b->part_bytes), (uint64_t)r->conf->limits.part_bytes),
				   least(LETTER_MOST, window));
	w->part_bytes = p->bytes;
	w->window_bytes = 2 * (uint64_t)p->bytes;
	snprintf(w->software, sizeof w->software, "splits %s", SL_VERSION);
	sl_log(SL_LOG_INFO, "align", "group %s: both members are there; letters are handed on, and not kept", p->group);
	for (int k = 0; k < 2; k++)
		(void)!say(r, &p->seat[k], &frame); /* one that is gone is lost soon */
}

enum sl_err sl_relay_enter(struct sl_relay *r, sl_peer peer, const struct sl_key *key, const struct sl_hello *hello,
			   struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_agreed a;
	struct pair *p = NULL;
	struct seat *s;
	enum sl_err err = sl_session_check_hello(hello, fail);

	if (!err)
		err = sl_agreed_read(&a, (const char *)text.data, text.len, fail);
	if (err)
		return err;
	if (r->auth && !sl_allow_in_group(sl_gate_list(r->auth->gate), key, a.share.group))
		return sl_fail_at(
			fail, "share.group", SL_ERR_AUTH,
			"this client's key may not align with group %s: its line in the server's list of clients "
			"needs group=%s",
			a.share.group, a.share.group);
	err = find_pair(r, a.share.group, key, &p, fail);
	if (err)
		return err;
	s = &p->seat[!a.share.member];
	/* The newcomer alone is refused: else any listed key could end the wait of a group's member. */
	if (s->peer && s->role == a.share.role)
		return sl_fail_at(fail, "share.role", SL_ERR_MISMATCH,
				  "group %s has no member with share.role: %s, and both members have %s", p->group,
				  sl_agreed_roles[!a.share.role], sl_agreed_roles[a.share.role]);
	err = take_back(r, p, a.share.member, key, fail);
	if (err)
		return err;
	s = &p->seat[a.share.member];
	*s = (struct seat){.peer = peer, .hello = *hello, .role = a.share.role, .heard_ms = sl_loop_now_ms(r->loop)};
	if (r->auth)
		s->key = *key;
	if (p->seat[!a.share.member].peer)
		begin(r, p);
	return SL_OK;
}

/* ---- what comes */

/* *who: it has sent the letter; after an error, whose fault that is. */
static enum sl_err hand_on(struct sl_relay *r, struct pair *p, int *who, struct sl_frame *f, struct sl_fail *fail)
{
	const struct sl_part *part = &f->u.part;
	const int from = *who;

	if (part->what != SL_PART_LETTER || part->chunk || part->training || part->step || part->rows ||
	    part->batch_rows || part->tokens || part->answers || part->offset)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "a part that is no letter");
	if (!p->bytes || f->payload.len != p->bytes || part->total != p->bytes)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a letter of %zu bytes, where all have %u", f->payload.len,
				   p->bytes);
	if (p->seat[from].letters++ > p->seat[!from].letters)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a letter before its turn");
	if (!say(r, &p->seat[!from], f))
		return SL_OK;
	*who = !from;
	return sl_fail_set(fail, SL_ERR_PEER_LOST, "it takes no more messages");
}

/* It has ended by itself, and says why, or that it is done. */
static void leave(struct sl_relay *r, struct pair *p, int who, const struct sl_frame *f)
{
	const struct sl_refuse *said = f->kind == SL_FRAME_REFUSE ? &f->u.refuse : NULL;
	struct sl_fail other;

	(void)!sl_fail_set(&other, said && said->code ? (enum sl_err)said->code : SL_ERR_PEER_LOST,
			   "member %d of group %s %s%s", who, p->group, said ? "ended it: " : "has left",
			   said ? said->text : "");
	end(r, p, who, NULL, &other);
}

bool sl_relay_deliver(struct sl_relay *r, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_frame f = {.epoch = 0};
	struct sl_fail fail;
	int who = 0;
	struct pair *p = find(r, peer, &who);
	enum sl_err err;

	if (!p)
		return false;
	err = sl_wire_decode(header, payload, &f, &fail);
	p->seat[who].heard_ms = sl_loop_now_ms(r->loop);
	if (!err && f.kind == SL_FRAME_PART)
		err = hand_on(r, p, &who, &f, &fail);
	else if (!err && (f.kind == SL_FRAME_BYE || f.kind == SL_FRAME_REFUSE))
		leave(r, p, who, &f);
	else if (!err && f.kind != SL_FRAME_HEARTBEAT)
		err = sl_fail_set(&fail, SL_ERR_PROTOCOL, "%s: a frame that an alignment does not have",
				  sl_frame_kind_name(f.kind));
	if (err)
		blame(r, p, who, &fail);
	return true;
}

/* ---- time */

/* Whether it is lost, or its key was taken off the list of clients. */
static bool is_over(const struct sl_relay *r, const struct pair *p, const struct seat *s, uint64_t now_ms,
		    struct sl_fail *fail)
{
	if (r->auth && !sl_allow_in_group(sl_gate_list(r->auth->gate), &s->key, p->group))
		sl_fail_set(fail, SL_ERR_AUTH, "its key was taken off this server's list of clients");
	else if (now_ms - s->heard_ms > s->hello.timeout_ms)
		sl_fail_set(fail, SL_ERR_PEER_LOST, "it has been silent for %u ms", s->hello.timeout_ms);
	else
		return false;
	return true;
}

static void tick_seat(struct sl_relay *r, struct pair *p, int k, uint64_t now_ms)
{
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .u.heartbeat.sent_ms = now_ms};
	struct seat *s = &p->seat[k];
	struct sl_fail why;
	uint64_t arrived;

	if (!s->peer)
		return;
	arrived = sl_transport_arrived(r->transport, s->peer);
	if (arrived > s->arrived) /* a letter can take longer than the patience */
		s->heard_ms = now_ms;
	s->arrived = arrived;
	if (is_over(r, p, s, now_ms, &why))
		blame(r, p, k, &why);
	else if (now_ms - s->said_ms >= s->hello.heartbeat_ms)
		(void)!say(r, s, &beat); /* a full queue says more than a heartbeat */
}

void sl_relay_tick(struct sl_relay *r)
{
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < 2; k++)
			tick_seat(r, &r->pair[i], k, sl_loop_now_ms(r->loop));
}
