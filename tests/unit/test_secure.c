/* The ZeroMQ transport with CURVE: who is admitted, and what each peer is told. */
#include <unistd.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/curve.h"
#include "common/link/zap.h"
#include "tests/support/secure_rig.h"
#include "tests/support/unit.h"

/* ---- admission */

static void a_listed_key_gets_in_and_is_known(void **state)
{
	int met = 0;
	const struct sl_transport_auth auth = {
		.own = &secure.good_key, .server = &secure.server_key.public_key, .met = &met};
	struct secure_end client;
	struct sl_key none;

	secure_open_server(true);
	secure_open_client(&client, &auth);
	for (int i = 0; i < 5; i++)
		secure_ping(&client, SECURE_GIVE_UP_MS);
	assert_true(met);
	assert_true(secure.server.known);
	assert_true(sl_key_equal(&secure.server.from, &secure.good_key.public_key));
	assert_int_equal(client.refusals, 0);
	assert_false(sl_transport_peer_key(client.transport, SL_PEER_SERVER, &none));
	sl_transport_forget(secure.server.transport, secure.server.peer);
	assert_false(sl_transport_peer_key(secure.server.transport, secure.server.peer, &none));
	secure_ping(&client, SECURE_GIVE_UP_MS); /* comes again under a new number */
	assert_true(sl_key_equal(&secure.server.from, &secure.good_key.public_key));
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

/* The bytes of a connection are those of its messages, framing and encryption, exactly. */
static void the_parts_of_the_traffic_are_all_of_it(void **state)
{
	enum { PINGS = 3, LONG = 3000, HELLO = 5, SHORT = 100 };
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};

	for (int keys = 0; keys < 2; keys++) {
		struct secure_end client;

		secure_open_server(keys);
		secure_open_client(&client, keys ? &auth : NULL);
		for (int i = 0; i < PINGS; i++)
			secure_ping(&client, SECURE_GIVE_UP_MS);
		assert_int_equal(secure_say(&client, SL_PEER_SERVER, LONG), SL_OK);
		assert_true(secure_run_until(&client.messages, PINGS + 1, NULL, SECURE_GIVE_UP_MS));
		sl_transport_count(client.transport);
		for (int way = 0; way < SL_WAYS; way++) {
			const struct sl_traffic *t = &client.traffic[way];

			assert_true(t->framing > 0 && (t->curve > 0) == keys && t->weights == 0);
			assert_int_equal(t->bytes - t->framing - t->curve, PINGS * (HELLO + SHORT) + HELLO + LONG);
		}
		sl_transport_close(client.transport, 0);
		secure_close_server();
	}
}

static void an_unknown_key_hears_its_fingerprint(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.other_key, .server = &secure.server_key.public_key};
	struct sl_refusal told;
	struct secure_end client;

	secure_open_server(true);
	secure_open_client(&client, &auth);
	secure_expect_refusal(&client, "does not know this client's key", &secure.other_key);
	assert_true(sl_gate_take_refusal(secure.gate, &told));
	assert_true(sl_key_equal(&told.key, &secure.other_key.public_key));
	assert_non_null(strstr(told.address, "127.0.0.1"));
	secure_run_for(50);
	assert_int_equal(secure.server.messages, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

static void a_wrong_server_key_is_named(void **state)
{
	int met = 1;
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.other_key.public_key};
	const struct sl_transport_auth again = {
		.own = &secure.good_key, .server = &secure.other_key.public_key, .met = &met};
	char print[SL_FINGERPRINT];
	struct secure_end client;

	secure_open_server(true);
	secure_open_client(&client, &auth);
	secure_expect_refusal(&client, "cuts the handshake", &secure.good_key);
	sl_key_fingerprint(&secure.other_key.public_key, print);
	assert_non_null(strstr(client.refusal.text, print));
	assert_int_equal(secure.server.messages, 0);
	sl_transport_close(client.transport, 0);
	/* a client that has met this server hears nothing: a proxy in between may have lost the server */
	secure_open_client(&client, &again);
	secure_run_for(1500);
	assert_int_equal(client.refusals, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

static void a_secret_key_that_is_not_the_public_one_s_does_not_help(void **state)
{
	const struct sl_keypair forged = {secure.good_key.public_key, secure.other_key.secret_key};
	const struct sl_transport_auth auth = {.own = &forged, .server = &secure.server_key.public_key};
	struct secure_end client;

	secure_open_server(true);
	secure_open_client(&client, &auth);
	secure_run_until(NULL, 0, &client.refusals, SECURE_PROMPT_MS);
	assert_int_equal(client.refusals, 1);
	assert_int_equal(secure.server.messages, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

static void both_must_authenticate_or_neither(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	struct secure_end client;

	secure_open_server(true);
	secure_open_client(&client, NULL);
	secure_expect_refusal(&client, "accepts only clients with keys", NULL);
	sl_transport_close(client.transport, 0);
	secure_close_server();
	secure_open_server(false);
	secure_open_client(&client, &auth);
	secure_expect_refusal(&client, "does not authenticate: its config has no auth section", &secure.good_key);
	assert_int_equal(secure.server.messages, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

static void a_new_list_counts_for_the_next_handshake(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.other_key, .server = &secure.server_key.public_key};
	const struct sl_transport_auth good = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	struct secure_end client, late;

	secure_open_server(true);
	secure_open_client(&client, &good);
	secure_ping(&client, SECURE_GIVE_UP_MS);
	sl_allow_free(sl_gate_swap(secure.gate, secure_list_of(&secure.other_key)));
	secure_open_client(&late, &auth);
	secure_ping(&late, SECURE_GIVE_UP_MS);
	sl_transport_close(client.transport, 0);
	secure_open_client(&client, &good);
	secure_expect_refusal(&client, "does not know", &secure.good_key);
	sl_allow_free(sl_gate_swap(secure.gate, secure_list_of(NULL)));
	secure_ping(&late, SECURE_GIVE_UP_MS); /* the transport cuts nobody: the caller of a reload ends sessions */
	sl_transport_close(late.transport, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

/* A client finds a server again that restarts with its key. It does not take its absence for a refusal of the key. */
static void a_server_that_restarts_refuses_nobody(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	char endpoint[64];
	struct secure_end client;

	secure_open_server(true);
	snprintf(endpoint, sizeof endpoint, "%s", sl_transport_endpoint(secure.server.transport));
	secure_open_client(&client, &auth);
	secure_ping(&client, SECURE_GIVE_UP_MS);
	for (int i = 0; i < 4; i++) {
		sl_transport_close(secure.server.transport, 0);
		secure_run_for(150);
		secure_open_server_at(endpoint, true);
		secure_ping(&client, SECURE_GIVE_UP_MS);
	}
	assert_int_equal(client.refusals, 0);
	assert_in_range(client.lost, 1, 4);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

/* ---- the proof must notice all that would admit strangers, or keep out listed clients */

static enum sl_err prove(bool handler, bool enforce, bool curve, struct sl_fail *fail)
{
	struct sl_zap *zap = NULL;
	struct sl_gate *g;
	struct sl_transport_auth auth = {.own = &secure.server_key};
	void *context = zmq_ctx_new(), *socket;
	enum sl_err err;

	assert_int_equal(sl_gate_open(&g, secure_list_of(&secure.good_key), NULL), SL_OK);
	auth.gate = g;
	if (handler)
		assert_int_equal(sl_zap_open(&zap, context, g, NULL), SL_OK);
	socket = zmq_socket(context, ZMQ_ROUTER);
	zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	if (curve)
		assert_int_equal(sl_curve_server(socket, &secure.server_key, NULL), SL_OK);
	if (!enforce)
		assert_int_equal(zmq_setsockopt(socket, 93, &(int){0}, sizeof(int)), 0);
	err = sl_curve_prove(socket, &auth, fail);
	assert_non_null(sl_allow_name(sl_gate_list(g), &secure.good_key.public_key)); /* restored by the proof */
	zmq_close(socket);
	zmq_ctx_term(context);
	sl_zap_close(zap);
	sl_gate_close(g);
	return err;
}

static void the_proof_sees_every_way_to_leave_the_door_open(void **state)
{
	struct sl_fail fail;

	if (!zmq_has("curve"))
		skip();
	assert_int_equal(prove(true, true, true, &fail), SL_OK);
	assert_int_equal(prove(false, false, true, &fail), SL_ERR_AUTH); /* CURVE without the handler */
	assert_non_null(strstr(fail.text, "got in"));
	assert_int_equal(prove(false, true, true, &fail), SL_ERR_AUTH); /* no handler answers, so nobody is admitted */
	assert_non_null(strstr(fail.text, "no clear refusal"));
	assert_int_equal(prove(true, true, false, &fail), SL_ERR_AUTH); /* no CURVE */
}

/* The proof is part of binding: a key pair whose halves do not match admits nobody. */
static void a_server_that_fails_its_proof_does_not_open(void **state)
{
	const struct sl_keypair forged = {secure.other_key.public_key, secure.server_key.secret_key};
	struct sl_transport_auth auth = {.own = &forged};
	struct sl_transport_conf conf = {"tcp://127.0.0.1:*", SECURE_PART, SECURE_HWM, &auth, 0, 0, NULL, NULL};
	struct sl_transport *t;
	struct sl_fail fail;

	secure_open_server(true);
	auth.gate = secure.gate;
	assert_int_equal(sl_transport_bind(&t, secure.loop, &conf, &secure_events, NULL, &fail), SL_ERR_AUTH);
	assert_non_null(strstr(fail.text, "self-test"));
	secure_close_server();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listed_key_gets_in_and_is_known),
		cmocka_unit_test(the_parts_of_the_traffic_are_all_of_it),
		cmocka_unit_test(an_unknown_key_hears_its_fingerprint),
		cmocka_unit_test(a_wrong_server_key_is_named),
		cmocka_unit_test(a_secret_key_that_is_not_the_public_one_s_does_not_help),
		cmocka_unit_test(both_must_authenticate_or_neither),
		cmocka_unit_test(a_new_list_counts_for_the_next_handshake),
		cmocka_unit_test(a_server_that_restarts_refuses_nobody),
		cmocka_unit_test(the_proof_sees_every_way_to_leave_the_door_open),
		cmocka_unit_test(a_server_that_fails_its_proof_does_not_open),
	};

	return cmocka_run_group_tests(tests, secure_make_keys, NULL);
}
