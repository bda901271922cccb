/* A connecting transport whose handshakes fail in the worst way: the peer's greeting
 * never reaches ZeroMQ. The transport must still find out what is wrong, and soon. */
#include <signal.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/handshake.h"
#include "tests/support/fake_peer.h"
#include "tests/support/secure_rig.h"
#include "tests/support/unit.h"

enum {
	TURN_MS = 5,
	WATCH_MS = 200,
	WITHIN = 12, /* a client is refused within so many connections, ZeroMQ's and probes */
	OFTEN = 6
};

/* Runs until a client is refused, or until a moment after its peer
 * has seen `accepted` connections, `probed` of them probes. */
static void run_until(const struct secure_end *e, const struct fake_peer *peer, int accepted, int probed)
{
	uint64_t end_ms = sl_now_ms() + SECURE_GIVE_UP_MS;

	while (!e->refusals && (peer->accepted < accepted || peer->probed < probed)) {
		if (sl_now_ms() > end_ms)
			fail_msg("%d connections and %d probes in all", peer->accepted, peer->probed);
		secure_run_until(NULL, 0, &e->refusals, TURN_MS);
	}
	secure_run_until(NULL, 0, &e->refusals, WATCH_MS);
}

/* Connects a client, with good_key or without keys, to a peer that says `say`; its refusal is in `e`. */
static void meet(struct secure_end *e, struct fake_peer *peer, bool keys, int *met, int accepted, int probed)
{
	const struct sl_transport_auth auth = {
		.own = &secure.good_key, .server = &secure.server_key.public_key, .met = met};
	struct sl_transport_conf conf = {NULL, SECURE_PART, SECURE_HWM, keys ? &auth : NULL, 0, 0, NULL, NULL};
	struct sl_fail fail;

	if (keys && !zmq_has("curve"))
		skip();
	*e = (struct secure_end){0};
	assert_int_equal(sl_loop_open(&secure.loop, NULL), SL_OK);
	fake_peer_open(peer);
	conf.endpoint = peer->endpoint;
	if (sl_transport_connect(&e->transport, secure.loop, &conf, &secure_events, e, &fail))
		fail_msg("%s", fail.text);
	run_until(e, peer, accepted, probed);
	sl_transport_close(e->transport, 0);
	fake_peer_close(peer);
	sl_loop_close(secure.loop);
	assert_int_equal(e->lost, 0);
}

static void expect(bool keys, const char *mechanism, const char *text, const char * not )
{
	const struct fake_greeting g = fake_greeting(mechanism);
	struct fake_peer peer = {.say = g.byte, .len = sizeof g.byte, .snatches = true};
	struct secure_end e;

	meet(&e, &peer, keys, NULL, WITHIN, 0);
	assert_int_equal(e.refusals, 1);
	assert_int_equal(e.refusal.code, SL_ERR_AUTH);
	if (!strstr(e.refusal.text, text) || (not &&strstr(e.refusal.text, not )))
		fail_msg("\"%s\"", e.refusal.text);
}

static void without_keys_at_a_server_with_keys(void **state)
{
	expect(false, "CURVE", "accepts only clients with keys, but this client's config has no auth section", NULL);
}

static void with_keys_at_a_server_without(void **state)
{
	char print[SL_FINGERPRINT];

	sl_key_fingerprint(&secure.good_key.public_key, print);
	expect(true, "NULL", "does not authenticate: its config has no auth section", NULL);
	expect(true, "NULL", print, NULL);
}

static void with_keys_at_a_server_with_another(void **state)
{
	expect(true, "CURVE", "cuts the handshake: its key is not", "no auth section");
}

/* Other peers lead to no refusal: keys are not why the client cannot get in. */
static void others_refuse_nobody(void **state)
{
	static const uint8_t http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	const struct fake_greeting null = fake_greeting("NULL"), plain = fake_greeting("PLAIN"),
				   curve = fake_greeting("CURVE");
	const struct {
		struct fake_peer peer;
		bool keys;
		int accepted;
	} cases[] = {
		{{.say = http, .len = sizeof http - 1, .end = FAKE_CLOSE}, true, 1},
		{{.say = http, .len = sizeof http - 1, .end = FAKE_CLOSE}, false, 1},
		{{.say = plain.byte, .len = 64, .snatches = true}, true, OFTEN},
		{{.say = plain.byte, .len = 64, .snatches = true}, false, OFTEN},
		{{.say = null.byte, .len = 64, .snatches = true}, false, OFTEN},
		{{.say = curve.byte, .len = 9}, true, 1}, /* ZeroMQ sees this as silence */
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fake_peer peer = {.say = cases[i].peer.say,
					 .len = cases[i].peer.len,
					 .end = cases[i].peer.end,
					 .snatches = cases[i].peer.snatches};
		struct secure_end e;

		meet(&e, &peer, cases[i].keys, NULL, cases[i].accepted, 0);
		if (e.refusals)
			fail_msg("case %zu: \"%s\"", i, e.refusal.text);
	}
}

/* A server that hangs, or is behind a link that passes nothing, may have the right key. */
static void a_greeting_that_nobody_hears_blames_no_key(void **state)
{
	const struct fake_greeting curve = fake_greeting("CURVE");
	struct fake_peer peer = {.say = curve.byte, .len = 11, .snatches = true};
	struct secure_end e;

	meet(&e, &peer, true, NULL, OFTEN, 2);
	assert_int_equal(e.refusals, 0);
}

/* At most one probe a second, however often ZeroMQ tries to connect. */
static void probes_are_few(void **state)
{
	const struct fake_greeting null = fake_greeting("NULL");
	struct fake_peer peer = {.say = null.byte, .len = 64, .snatches = true};
	uint64_t from_ms = sl_now_ms();
	struct secure_end e;

	meet(&e, &peer, false, NULL, 4 * OFTEN, 2);
	assert_int_equal(e.refusals, 0);
	assert_in_range(peer.probed, 2, 1 + (sl_now_ms() - from_ms) / 1000);
}

/* A client whose keys were accepted once blames the network for a
 * handshake that is cut. It still notices a server that has changed. */
static void who_has_met_the_server_still_reads_its_greeting(void **state)
{
	const struct fake_greeting null = fake_greeting("NULL"), curve = fake_greeting("CURVE");
	struct fake_peer same = {.say = curve.byte, .len = 64, .snatches = true};
	struct fake_peer changed = {.say = null.byte, .len = 64, .snatches = true};
	struct secure_end e;
	int met = 1;

	meet(&e, &same, true, &met, OFTEN, 0);
	assert_int_equal(e.refusals, 0);
	meet(&e, &changed, true, &met, WITHIN, 0);
	assert_int_equal(e.refusals, 1);
	assert_non_null(strstr(e.refusal.text, "does not authenticate"));
	met = 100; /* cut so often since: another server has its place */
	same = (struct fake_peer){.say = curve.byte, .len = 64, .snatches = true};
	meet(&e, &same, true, &met, WITHIN, 0);
	assert_int_equal(e.refusal.code, SL_ERR_AUTH);
	assert_non_null(strstr(e.refusal.text, "its key is not"));
}

/* Which of ZeroMQ's events blame a key. */
static void only_clear_words_blame_a_key(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	struct fake_peer busy; /* stands for a running probe, so that no other is started */
	struct sl_loop *loop;
	struct sl_handshakes fresh = {.auth = &auth,
				      .endpoint = "tcp://a.example:1",
				      .probe = (struct sl_probe *)(void *)&busy,
				      .theirs = SL_GREETING_CURVE};
	struct sl_handshakes h;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	fresh.loop = loop;
	h = fresh;
	for (int i = 1; i <= 3; i++) { /* one or two may come from a restart */
		sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, 0);
		assert_int_equal(h.refusal.code, i < 3 ? SL_OK : SL_ERR_AUTH);
	}
	h = fresh;
	sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_SUCCEEDED, 0); /* its keys were accepted */
	for (int i = 0; i < 10; i++)
		sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, 0);
	assert_int_equal(h.refusal.code, SL_OK);
	h = fresh;
	sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, 300); /* the server's ZAP handler could not tell */
	sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, 500);
	assert_int_equal(h.refusal.code, SL_OK);
	sl_handshake_event(&h, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, 400);
	assert_int_equal(h.refusal.code, SL_ERR_AUTH);
	assert_non_null(strstr(h.refusal.text, "does not know this client's key"));
	sl_loop_close(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_keys_at_a_server_with_keys),
		cmocka_unit_test(with_keys_at_a_server_without),
		cmocka_unit_test(with_keys_at_a_server_with_another),
		cmocka_unit_test(others_refuse_nobody),
		cmocka_unit_test(a_greeting_that_nobody_hears_blames_no_key),
		cmocka_unit_test(probes_are_few),
		cmocka_unit_test(who_has_met_the_server_still_reads_its_greeting),
		cmocka_unit_test(only_clear_words_blame_a_key),
	};

	return cmocka_run_group_tests(tests, secure_make_keys, NULL);
}
