#include "tests/support/secure_rig.h"
#include "tests/support/unit.h"

#include <zmq.h>

#include "common/base/clock.h"

struct secure_rig secure;

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct secure_end *e = arg;

	e->peer = peer;
	e->messages++;
	e->known = sl_transport_peer_key(e->transport, peer, &e->from);
	if (e->echo)
		assert_int_equal(sl_transport_send(e->transport, peer, header, &(struct sl_payload){.bytes = payload}),
				 SL_OK);
}

static void on_writable(void *arg, sl_peer peer)
{
	(void)peer;
	((struct secure_end *)arg)->writable++;
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	(void)peer;
	assert_non_null(why);
	((struct secure_end *)arg)->malformed++;
}

static void on_lost(void *arg, sl_peer peer)
{
	(void)peer;
	((struct secure_end *)arg)->lost++;
}

static void on_refused(void *arg, const struct sl_fail *why)
{
	struct secure_end *e = arg;

	e->refusals++;
	e->refusal = *why;
}

const struct sl_transport_events secure_events = {on_message, on_writable, on_malformed, on_lost, on_refused};

static struct {
	const uint64_t *counter;
	uint64_t least;
	const int *flag;
	uint64_t end_ms;
	bool came;
} wanted;

static void look(void *arg)
{
	(void)arg;
	wanted.came = (wanted.counter && *wanted.counter >= wanted.least) || (wanted.flag && *wanted.flag);
	if (wanted.came || sl_now_ms() >= wanted.end_ms)
		sl_loop_stop(secure.loop);
}

bool secure_run_until(const uint64_t *counter, uint64_t least, const int *flag, int limit_ms)
{
	struct sl_timer *timer;

	wanted.counter = counter;
	wanted.least = least;
	wanted.flag = flag;
	wanted.end_ms = sl_now_ms() + (uint64_t)limit_ms;
	assert_int_equal(sl_timer_open(&timer, secure.loop, look, NULL, NULL), SL_OK);
	sl_timer_start(timer, 1, 1);
	sl_loop_run(secure.loop);
	sl_timer_close(timer);
	return wanted.came;
}

void secure_run_for(int ms)
{
	secure_run_until(NULL, 0, NULL, ms);
}

int secure_make_keys(void **state)
{
	if (!zmq_has("curve"))
		return 0; /* every case is skipped */
	return sl_keypair_make(&secure.server_key, NULL) || sl_keypair_make(&secure.good_key, NULL) ||
	       sl_keypair_make(&secure.other_key, NULL);
}

struct sl_allow *secure_list_of(const struct sl_keypair *pair)
{
	struct sl_allow *allow;
	char text[128], key[SL_KEY_TEXT];
	int n = 0;

	if (pair) {
		sl_key_print(&pair->public_key, key);
		n = snprintf(text, sizeof text, "%s somebody\n", key);
	}
	assert_int_equal(sl_allow_parse(&allow, "list", text, (size_t)n, NULL), SL_OK);
	return allow;
}

void secure_open_server_at(const char *endpoint, bool auth)
{
	struct sl_transport_conf conf = {endpoint, SECURE_PART,     SECURE_HWM, auth ? &secure.server_auth : NULL,
					 0,        SECURE_ARRIVALS, NULL,       NULL};
	struct sl_fail fail;

	secure.server = (struct secure_end){.echo = true};
	if (sl_transport_bind(&secure.server.transport, secure.loop, &conf, &secure_events, &secure.server, &fail))
		fail_msg("%s", fail.text);
}

void secure_open_server(bool auth)
{
	if (!zmq_has("curve"))
		skip();
	assert_int_equal(sl_loop_open(&secure.loop, NULL), SL_OK);
	assert_int_equal(sl_gate_open(&secure.gate, secure_list_of(&secure.good_key), NULL), SL_OK);
	secure.server_auth = (struct sl_transport_auth){.own = &secure.server_key, .gate = secure.gate};
	secure_open_server_at("tcp://127.0.0.1:*", auth);
}

void secure_close_server(void)
{
	sl_transport_close(secure.server.transport, 0);
	sl_gate_close(secure.gate);
	sl_loop_close(secure.loop);
}

void secure_open_client(struct secure_end *e, const struct sl_transport_auth *auth)
{
	struct sl_transport_conf conf = {
		sl_transport_endpoint(secure.server.transport), SECURE_PART, SECURE_HWM, auth, 0, 0, e->traffic, NULL};
	struct sl_fail fail;

	*e = (struct secure_end){0};
	if (sl_transport_connect(&e->transport, secure.loop, &conf, &secure_events, e, &fail))
		fail_msg("%s", fail.text);
}

enum sl_err secure_say(struct secure_end *e, sl_peer peer, size_t len)
{
	static const uint8_t zeros[SECURE_PART];
	const struct sl_payload payload = {.bytes = {zeros, len}};

	return sl_transport_send(e->transport, peer, (struct sl_bytes){(const uint8_t *)"hello", 5}, &payload);
}

void secure_ping(struct secure_end *e, int limit_ms)
{
	uint64_t end_ms = sl_now_ms() + (uint64_t)limit_ms;

	while (secure_say(e, SL_PEER_SERVER, 100) != SL_OK) {
		if (sl_now_ms() > end_ms)
			fail_msg("no way to send for %d ms", limit_ms);
		secure_run_for(2);
	}
	if (!secure_run_until(&e->messages, e->messages + 1, NULL, limit_ms))
		fail_msg("no answer within %d ms", limit_ms);
}

void secure_expect_refusal(struct secure_end *e, const char *first, const struct sl_keypair *own)
{
	char print[SL_FINGERPRINT];

	assert_true(secure_run_until(NULL, 0, &e->refusals, SECURE_PROMPT_MS));
	assert_int_equal(e->refusal.code, SL_ERR_AUTH);
	if (!strstr(e->refusal.text, first))
		fail_msg("\"%s\" lacks \"%s\"", e->refusal.text, first);
	if (own) {
		sl_key_fingerprint(&own->public_key, print);
		assert_non_null(strstr(e->refusal.text, print));
	}
	assert_int_equal(e->messages, 0);
	assert_int_equal(e->lost, 0); /* it was never connected */
}
