/* Decides who gets a session: the checks of a Hello, in their order. An older link of the same session stays as it is
 * until the newer one has proven that it is the same client, and is admitted. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/host/host_impl.h"

enum { CLOSING_MORE = 16 }; /* at most limits.sessions + so many may be closing */

static void say(struct sl_host *h, sl_peer peer, const struct sl_frame *frame)
{
	const struct sl_payload none = {0};
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	if (sl_wire_encode(frame, header, &len) == SL_OK &&
	    sl_transport_send(h->transport, peer, (struct sl_bytes){header, len}, &none) != SL_OK)
		sl_log(SL_LOG_DEBUG, "turn-away", "peer %" PRIu64 " does not read its messages", peer);
}

void sl_host_turn_away(struct sl_host *h, sl_peer peer, uint64_t epoch, const struct sl_fail *why)
{
	struct sl_frame frame = {.kind = SL_FRAME_REFUSE, .epoch = epoch};

	h->turned_away++;
	sl_refuse_fill(&frame.u.refuse, why);
	say(h, peer, &frame);
	sl_challenges_end(&h->challenges, peer);
	sl_transport_forget(h->transport, peer);
}

/* ---- the proof */

/* Sends a nonce. `above`: the newest epoch of the session, told only to a peer that has proven the session; or 0. */
static enum sl_err challenge(struct sl_host *h, sl_peer peer, uint64_t epoch, uint64_t above, struct sl_fail *fail)
{
	struct sl_frame frame = {.kind = SL_FRAME_CHALLENGE, .epoch = epoch, .u.challenge.above = above};
	sl_peer gone;
	const uint8_t *nonce = sl_challenges_make(&h->challenges, peer, sl_loop_now_ms(h->loop), &gone);

	if (gone)
		sl_transport_forget(h->transport, gone);
	if (!nonce)
		return sl_fail_set(fail, SL_ERR_OS, "the server has no random bytes");
	memcpy(frame.u.challenge.nonce, nonce, sizeof frame.u.challenge.nonce);
	say(h, peer, &frame);
	return SL_OK;
}

void sl_host_forget_late(struct sl_host *h)
{
	sl_peer late;

	while ((late = sl_challenges_late(&h->challenges, sl_loop_now_ms(h->loop))))
		sl_transport_forget(h->transport, late);
}

/* *proven false: the peer was sent a challenge instead. A nonce is good for one proof, whether that holds or not. */
static enum sl_err prove(struct sl_host *h, sl_peer peer, const struct sl_frame *hello, bool *proven,
			 struct sl_fail *fail)
{
	const uint8_t *nonce = sl_challenges_find(&h->challenges, peer);

	*proven = false;
	if (!nonce || sl_proof_lacks(&hello->u.hello))
		return challenge(h, peer, hello->epoch, 0, fail);
	*proven = sl_proof_holds(&hello->u.hello, nonce);
	sl_challenges_end(&h->challenges, peer);
	return *proven ? SL_OK
		       : sl_fail_set(fail, SL_ERR_PROTOCOL,
				     "the Hello is not signed with the key of its session, or the signature is "
				     "not for this connection");
}

/* ---- the session */

static enum sl_err read_hello(struct sl_bytes header, struct sl_bytes payload, struct sl_frame *frame,
			      struct sl_fail *fail)
{
	enum sl_err err;

	frame->epoch = 0;
	err = sl_wire_decode(header, payload, frame, fail);
	if (!err && frame->kind != SL_FRAME_HELLO)
		err = sl_fail_set(fail, SL_ERR_PEER_LOST,
				  "there is no session on this connection: a session begins with Hello (was the server "
				  "restarted?)");
	if (!err && frame->u.hello.version != SL_WIRE_VERSION)
		err = sl_wire_other_version(frame->u.hello.version, true, fail);
	return err;
}

/* Finds the key of this connection, and checks that it is (still) on the list of clients. */
static enum sl_err know(const struct sl_host *h, sl_peer peer, struct sl_key *key, struct sl_fail *fail)
{
	char print[SL_FINGERPRINT];

	if (!h->auth)
		return SL_OK;
	if (!sl_transport_peer_key(h->transport, peer, key))
		return sl_fail_set(fail, SL_ERR_AUTH, "this connection has no key");
	if (sl_allow_name(sl_gate_list(h->auth->gate), key))
		return SL_OK;
	sl_key_fingerprint(key, print);
	return sl_fail_set(fail, SL_ERR_AUTH, "the key %s is not on this server's list of clients", print);
}

static bool stands(const struct sl_host *h, int i)
{
	return h->session[i] && !h->ending[i];
}

static bool is_of(const struct sl_host *h, int i, const uint8_t session[SL_SESSION_BYTES])
{
	return stands(h, i) && memcmp(sl_middle_session(h->session[i])->hello.session, session, SL_SESSION_BYTES) == 0;
}

/* A session also belongs to the key that began it: a copy of a run's secret is useless without the client's key. */
static enum sl_err check_owner(const struct sl_host *h, const struct sl_hello *hello, const struct sl_key *key,
			       struct sl_fail *fail)
{
	char print[SL_FINGERPRINT];

	for (int i = 0; h->auth && i < h->n_place; i++) {
		if (!is_of(h, i, hello->session) || sl_key_equal(&h->key[i], key))
			continue;
		sl_key_fingerprint(key, print);
		sl_log_limited(SL_LOG_WARN, "session-theft",
			       "key %s (%s) asked for a session that belongs to another key", print,
			       sl_allow_name(sl_gate_list(h->auth->gate), key));
		return sl_fail_set(fail, SL_ERR_AUTH, "this session does not belong to the key %s", print);
	}
	return SL_OK;
}

/* The newest epoch known of this session; 0: none is known. */
static uint64_t newest_epoch(const struct sl_host *h, const struct sl_hello *hello)
{
	uint64_t newest = sl_epochs_find(&h->epochs, hello->session);

	for (int i = 0; i < h->n_place; i++)
		if (is_of(h, i, hello->session) && sl_middle_session(h->session[i])->epoch > newest)
			newest = sl_middle_session(h->session[i])->epoch;
	return newest;
}

/* Counts the other sessions: *all of them, and those *of_key. */
static void count_others(const struct sl_host *h, const struct sl_hello *hello, const struct sl_key *key, int *all,
			 int *of_key)
{
	*all = *of_key = 0;
	for (int i = 0; i < h->n_place; i++) {
		if (!stands(h, i) || h->second[i] || is_of(h, i, hello->session))
			continue;
		++*all;
		*of_key += h->auth && sl_key_equal(&h->key[i], key);
	}
}

/* A free place; takes sessions out that are over. -1: there is none. */
static int find_place(struct sl_host *h)
{
	for (int i = 0; i < h->n_place; i++) {
		if (h->session[i] && h->ending[i])
			sl_host_take_out(h, i);
		if (!h->session[i])
			return i;
	}
	return -1;
}

/* Finds a place, or says BUSY. Closing sessions count too: until the worker gets to them they keep their memory. */
static enum sl_err find_room(struct sl_host *h, const struct sl_hello *hello, const struct sl_key *key, int *place,
			     struct sl_fail *fail)
{
	char print[SL_FINGERPRINT];
	int all, of_key;

	count_others(h, hello, key, &all, &of_key);
	if (h->auth && of_key >= h->conf->limits.sessions_per_key) {
		sl_key_fingerprint(key, print);
		return sl_fail_set(fail, SL_ERR_BUSY, "the key %s has %d session%s, as many as one may have here",
				   print, of_key, sl_plural(of_key));
	}
	if (all >= h->conf->limits.sessions)
		return sl_fail_set(fail, SL_ERR_BUSY, "all sessions of this server are taken; try again later");
	if (h->closing >= h->conf->limits.sessions + CLOSING_MORE)
		return sl_fail_set(fail, SL_ERR_BUSY, "%d sessions are being closed; try again later", h->closing);
	*place = find_place(h);
	return *place < 0 ? sl_fail_set(fail, SL_ERR_BUSY, "all sessions of this server are taken; try again later")
			  : SL_OK;
}

/* Ends links of this session with an epoch below that of `newer`: all, or only those that are not admitted yet. */
static void end_older(struct sl_host *h, const struct sl_hello *newer, bool unadmitted)
{
	struct sl_fail why;

	sl_fail_set(&why, SL_ERR_PEER_LOST, "replaced by a newer link of the same session");
	for (int i = 0; i < h->n_place; i++)
		if (is_of(h, i, newer->session) && sl_middle_session(h->session[i])->epoch < newer->epoch &&
		    (!unadmitted || h->second[i]))
			sl_middle_end(h->session[i], &why);
}

void sl_host_admitted(void *arg, struct sl_middle *middle)
{
	struct sl_host *h = arg;

	for (int i = 0; i < h->n_place; i++)
		if (h->session[i] == middle) {
			const struct sl_group *group = sl_middle_group(middle);

			h->second[i] = false;
			sl_visits_begin(h->visits, h->visit[i], sl_middle_status(middle).agreed);
			if (group) /* a group's files have a name of their own */
				sl_retention_join(&h->keeping.what, i, sl_group_file_name(group));
		}
	end_older(h, &sl_middle_session(middle)->hello, false);
}

/* The memory of the session's older links, which they will give back. *any: there is one. */
static struct sl_memory held_by(const struct sl_host *h, const struct sl_hello *hello, bool *any)
{
	struct sl_memory held = {0};

	*any = false;
	for (int i = 0; i < h->n_place; i++) {
		struct sl_middle_status st;

		if (!is_of(h, i, hello->session))
			continue;
		*any = true;
		st = sl_middle_status(h->session[i]);
		sl_memory_add(&held, sl_session_memory_sum(&st.memory));
	}
	return held;
}

struct sl_visitor sl_host_visitor(const struct sl_host *h, sl_peer peer, const struct sl_key *key,
				  char print[SL_FINGERPRINT], char host[SL_TRANSPORT_HOST])
{
	sl_transport_peer_host(h->transport, peer, host);
	if (!h->auth)
		return (struct sl_visitor){.host = host};
	sl_key_fingerprint(key, print);
	return (struct sl_visitor){sl_allow_name(sl_gate_list(h->auth->gate), key), print, host};
}

static void note_visitor(struct sl_host *h, int place, const struct sl_hello *hello, const struct sl_key *key)
{
	const sl_peer peer = sl_middle_peer(h->session[place]);
	char print[SL_FINGERPRINT], host[SL_TRANSPORT_HOST];
	const struct sl_visitor who = sl_host_visitor(h, peer, key, print, host);

	h->visit[place] = sl_visit_new(&who, hello);
	if (!h->auth)
		return;
	h->key[place] = *key;
	sl_log_limited(SL_LOG_INFO, "session-key", "peer %" PRIu64 " is %s, key %s", peer, who.client, print);
}

static void join(struct sl_host *h, int place, const struct sl_hello *hello)
{
	uint8_t name[16];

	sl_session_name(hello->session, name);
	sl_retention_join(&h->keeping.what, place, name);
}

/* Most memory of one key. The list of clients may have changed since the last call. */
static uint64_t key_limit(const struct sl_host *h)
{
	const uint64_t whole = atomic_load(&h->memory.limit), asked = (uint64_t)h->conf->limits.memory_bytes_per_key;

	return asked ? asked : sl_allow_count(sl_gate_list(h->auth->gate)) > 1 ? whole / 2 : whole;
}

/* The budget of a client's key, new or in use; frees those in which nothing counts. NULL: no memory. */
static struct sl_budget *budget_of(struct sl_host *h, const struct sl_key *key)
{
	struct sl_key_budget *b, *found = NULL;

	for (struct sl_key_budget **at = &h->key_budgets; (b = *at);) {
		if (sl_key_equal(&b->key, key)) {
			found = b;
		} else if (!atomic_load(&b->budget.charges)) {
			*at = b->next;
			free(b);
			continue;
		}
		at = &b->next;
	}
	if (!found) {
		found = calloc(1, sizeof *found);
		if (!found)
			return NULL;
		found->key = *key;
		found->budget.whole = &h->memory;
		found->next = h->key_budgets;
		h->key_budgets = found;
	}
	atomic_store(&found->budget.limit, key_limit(h));
	return &found->budget;
}

/* Opens a session for a proven Hello with an epoch above all earlier ones. */
static enum sl_err seat(struct sl_host *h, sl_peer peer, const struct sl_hello *hello, const struct sl_key *key,
			int *place, struct sl_fail *fail)
{
	struct sl_middle_env env = h->env;
	struct sl_memory held;
	bool second;
	enum sl_err err;

	end_older(h, hello, true);
	err = find_room(h, hello, key, place, fail);
	if (err)
		return err;
	if (h->auth)
		env.memory = budget_of(h, key);
	if (!env.memory)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	held = held_by(h, hello, &second);
	err = sl_middle_open(&h->session[*place], &env, peer, h->auth ? key : NULL, held, fail);
	if (err)
		return err;
	h->ending[*place] = false;
	h->second[*place] = second;
	h->rate[*place] = (struct sl_rate){0};
	join(h, *place, hello);
	note_visitor(h, *place, hello, key);
	return SL_OK;
}

void sl_host_hello(struct sl_host *h, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_frame frame;
	struct sl_fail fail;
	struct sl_key key;
	char print[SL_FINGERPRINT], host[SL_TRANSPORT_HOST];
	bool proven = false, aligns;
	int place;
	enum sl_err err = read_hello(header, payload, &frame, &fail);

	if (!err && h->shut)
		err = sl_fail_set(&fail, SL_ERR_UNAVAILABLE, "the server is shutting down");
	if (!err)
		err = know(h, peer, &key, &fail);
	if (!err)
		err = prove(h, peer, &frame, &proven, &fail);
	if (!err && !proven)
		return;
	if (!err)
		err = check_owner(h, &frame.u.hello, &key, &fail);
	if (!err && frame.epoch <= newest_epoch(h, &frame.u.hello)) {
		h->turned_away++;
		err = challenge(h, peer, frame.epoch, newest_epoch(h, &frame.u.hello), &fail);
		if (!err)
			return;
	}
	aligns = !err && sl_relay_is_asked(payload);
	if (!err)
		err = aligns ? sl_relay_enter(h->relay, peer, &key, &frame.u.hello, payload, &fail)
			     : seat(h, peer, &frame.u.hello, &key, &place, &fail);
	if (!err && aligns) {
		const struct sl_visitor who = sl_host_visitor(h, peer, &key, print, host);

		sl_visits_align(h->visits, &who);
	}
	if (err)
		sl_host_turn_away(h, peer, frame.epoch, &fail);
	else if (!aligns)
		sl_middle_deliver(h->session[place], header, payload);
}
