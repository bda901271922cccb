/* The ZeroMQ transport with CURVE: who gets in, who hears what, and what strangers and misbehaving guests can do. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/curve.h"
#include "common/link/gate.h"
#include "common/link/loop.h"
#include "common/link/transport.h"
#include "common/link/wire.h"
#include "common/link/zap.h"

enum { PART = 1 << 16, HWM = 8, GIVE_UP_MS = 20000, PROMPT_MS = 3000 };

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { GROWTH_KIB = 512 << 10 }; /* they keep what is freed */
#else
enum { GROWTH_KIB = 32 << 10 };
#endif

static struct sl_loop *loop;
static struct sl_keypair server_key, good_key, other_key;

struct end {
	struct sl_transport *transport;
	uint64_t messages, malformed, lost;
	uint64_t writable;
	struct sl_key from; /* who sent last, as the server's end knows it */
	bool known, echo;
	sl_peer peer;
	int refusals;
	struct sl_fail refusal;
};

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct end *e = arg;

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
	((struct end *)arg)->writable++;
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	(void)peer;
	assert_non_null(why);
	((struct end *)arg)->malformed++;
}

static void on_lost(void *arg, sl_peer peer)
{
	(void)peer;
	((struct end *)arg)->lost++;
}

static void on_refused(void *arg, const struct sl_fail *why)
{
	struct end *e = arg;

	e->refusals++;
	e->refusal = *why;
}

static const struct sl_transport_events events = {on_message, on_writable, on_malformed, on_lost, on_refused};

/* ---- the loop, until something is so */

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
		sl_loop_stop(loop);
}

static bool run_until(const uint64_t *counter, uint64_t least, const int *flag, int limit_ms)
{
	struct sl_timer *timer;

	wanted.counter = counter;
	wanted.least = least;
	wanted.flag = flag;
	wanted.end_ms = sl_now_ms() + (uint64_t)limit_ms;
	assert_int_equal(sl_timer_open(&timer, loop, look, NULL, NULL), SL_OK);
	sl_timer_start(timer, 1, 1);
	sl_loop_run(loop);
	sl_timer_close(timer);
	return wanted.came;
}

static void run_for(int ms)
{
	run_until(NULL, 0, NULL, ms);
}

/* ---- two ends */

static int make_keys(void **state)
{
	(void)state;
	if (!zmq_has("curve"))
		return 0; /* every case is skipped */
	return sl_keypair_make(&server_key, NULL) || sl_keypair_make(&good_key, NULL) ||
	       sl_keypair_make(&other_key, NULL);
}

static struct sl_allow *list_of(const struct sl_keypair *pair)
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

static struct sl_gate *gate;
static struct end server;
static struct sl_transport_auth server_auth;

static void open_server_at(const char *endpoint, bool auth)
{
	struct sl_transport_conf conf = {endpoint, PART, HWM, auth ? &server_auth : NULL};
	struct sl_fail fail;

	server = (struct end){.echo = true};
	if (sl_transport_bind(&server.transport, loop, &conf, &events, &server, &fail))
		fail_msg("%s", fail.text);
}

static void open_server(bool auth)
{
	if (!zmq_has("curve"))
		skip();
	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	assert_int_equal(sl_gate_open(&gate, list_of(&good_key), NULL), SL_OK);
	server_auth = (struct sl_transport_auth){.own = &server_key, .gate = gate};
	open_server_at("tcp://127.0.0.1:*", auth);
}

static void close_server(void)
{
	sl_transport_close(server.transport, 0);
	sl_gate_close(gate);
	sl_loop_close(loop);
}

static void open_client(struct end *e, const struct sl_transport_auth *auth)
{
	struct sl_transport_conf conf = {sl_transport_endpoint(server.transport), PART, HWM, auth};
	struct sl_fail fail;

	*e = (struct end){0};
	if (sl_transport_connect(&e->transport, loop, &conf, &events, e, &fail))
		fail_msg("%s", fail.text);
}

static enum sl_err say(struct end *e, sl_peer peer, size_t len)
{
	static const uint8_t zeros[PART];
	const struct sl_payload payload = {.bytes = {zeros, len}};

	return sl_transport_send(e->transport, peer, (struct sl_bytes){(const uint8_t *)"hello", 5}, &payload);
}

/* There and back. */
static void ping(struct end *e, int limit_ms)
{
	uint64_t end_ms = sl_now_ms() + (uint64_t)limit_ms;

	while (say(e, SL_PEER_SERVER, 100) != SL_OK) {
		if (sl_now_ms() > end_ms)
			fail_msg("no way to send for %d ms", limit_ms);
		run_for(2);
	}
	if (!run_until(&e->messages, e->messages + 1, NULL, limit_ms))
		fail_msg("no answer within %d ms", limit_ms);
}

static void expect_refusal(struct end *e, const char *first, const struct sl_keypair *own)
{
	char print[SL_FINGERPRINT];

	/* without keys, a client can only wait until it gets to read the server's greeting */
	assert_true(run_until(NULL, 0, &e->refusals, own ? PROMPT_MS : GIVE_UP_MS));
	assert_int_equal(e->refusal.code, SL_ERR_AUTH);
	if (!strstr(e->refusal.text, first))
		fail_msg("\"%s\" lacks \"%s\"", e->refusal.text, first);
	if (own) {
		sl_key_fingerprint(&own->public_key, print);
		assert_non_null(strstr(e->refusal.text, print));
	}
	assert_int_equal(e->messages, 0);
	assert_int_equal(e->lost, 0); /* it never stood */
}

/* ---- who gets in */

static void a_listed_key_gets_in_and_is_known(void **state)
{
	bool met = false;
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key, .met = &met};
	struct end client;
	struct sl_key none;

	(void)state;
	open_server(true);
	open_client(&client, &auth);
	for (int i = 0; i < 5; i++)
		ping(&client, GIVE_UP_MS);
	assert_true(met);
	assert_true(server.known);
	assert_true(sl_key_equal(&server.from, &good_key.public_key));
	assert_int_equal(client.refusals, 0);
	assert_false(sl_transport_peer_key(client.transport, SL_PEER_SERVER, &none));
	sl_transport_forget(server.transport, server.peer);
	assert_false(sl_transport_peer_key(server.transport, server.peer, &none));
	ping(&client, GIVE_UP_MS); /* and again under a new number */
	assert_true(sl_key_equal(&server.from, &good_key.public_key));
	sl_transport_close(client.transport, 0);
	close_server();
}

static void an_unknown_key_hears_its_fingerprint(void **state)
{
	const struct sl_transport_auth auth = {.own = &other_key, .server = &server_key.public_key};
	struct sl_refusal told;
	struct end client;

	(void)state;
	open_server(true);
	open_client(&client, &auth);
	expect_refusal(&client, "does not know this client's key", &other_key);
	assert_true(sl_gate_take_refusal(gate, &told));
	assert_true(sl_key_equal(&told.key, &other_key.public_key));
	assert_non_null(strstr(told.address, "127.0.0.1"));
	run_for(50);
	assert_int_equal(server.messages, 0);
	sl_transport_close(client.transport, 0);
	close_server();
}

static void a_wrong_server_key_is_named(void **state)
{
	bool met = true;
	const struct sl_transport_auth auth = {.own = &good_key, .server = &other_key.public_key};
	const struct sl_transport_auth again = {.own = &good_key, .server = &other_key.public_key, .met = &met};
	char print[SL_FINGERPRINT];
	struct end client;

	(void)state;
	open_server(true);
	open_client(&client, &auth);
	expect_refusal(&client, "cuts the handshake", &good_key);
	sl_key_fingerprint(&other_key.public_key, print);
	assert_non_null(strstr(client.refusal.text, print));
	assert_int_equal(server.messages, 0);
	sl_transport_close(client.transport, 0);
	/* no news to one that knows better: a proxy in between may have lost the server */
	open_client(&client, &again);
	run_for(1500);
	assert_int_equal(client.refusals, 0);
	sl_transport_close(client.transport, 0);
	close_server();
}

static void a_secret_key_that_is_not_the_public_one_s_does_not_help(void **state)
{
	const struct sl_keypair forged = {good_key.public_key, other_key.secret_key};
	const struct sl_transport_auth auth = {.own = &forged, .server = &server_key.public_key};
	struct end client;

	(void)state;
	open_server(true);
	open_client(&client, &auth);
	run_until(NULL, 0, &client.refusals, PROMPT_MS);
	assert_int_equal(client.refusals, 1);
	assert_int_equal(server.messages, 0);
	sl_transport_close(client.transport, 0);
	close_server();
}

static void both_must_authenticate_or_neither(void **state)
{
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key};
	struct end client;

	(void)state;
	open_server(true);
	open_client(&client, NULL);
	expect_refusal(&client, "lets in authenticated clients only", NULL);
	sl_transport_close(client.transport, 0);
	close_server();
	open_server(false);
	open_client(&client, &auth);
	/* whichever end sees the other's greeting first cuts: the client may not get to read it */
	expect_refusal(&client, "auth section", &good_key);
	assert_int_equal(server.messages, 0);
	sl_transport_close(client.transport, 0);
	close_server();
}

static void a_new_list_counts_for_the_next_handshake(void **state)
{
	const struct sl_transport_auth auth = {.own = &other_key, .server = &server_key.public_key};
	const struct sl_transport_auth good = {.own = &good_key, .server = &server_key.public_key};
	struct end client, late;

	(void)state;
	open_server(true);
	open_client(&client, &good);
	ping(&client, GIVE_UP_MS);
	sl_allow_free(sl_gate_swap(gate, list_of(&other_key)));
	open_client(&late, &auth);
	ping(&late, GIVE_UP_MS);
	sl_transport_close(client.transport, 0);
	open_client(&client, &good);
	expect_refusal(&client, "does not know", &good_key);
	sl_allow_free(sl_gate_swap(gate, list_of(NULL)));
	ping(&late, GIVE_UP_MS); /* the transport cuts nobody: who reloads ends the sessions */
	sl_transport_close(late.transport, 0);
	sl_transport_close(client.transport, 0);
	close_server();
}

/* A server that comes back with its key is found again, and its absence is no matter of keys. */
static void a_server_that_restarts_refuses_nobody(void **state)
{
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key};
	char endpoint[64];
	struct end client;

	(void)state;
	open_server(true);
	snprintf(endpoint, sizeof endpoint, "%s", sl_transport_endpoint(server.transport));
	open_client(&client, &auth);
	ping(&client, GIVE_UP_MS);
	for (int i = 0; i < 4; i++) {
		sl_transport_close(server.transport, 0);
		run_for(150);
		open_server_at(endpoint, true);
		ping(&client, GIVE_UP_MS);
	}
	assert_int_equal(client.refusals, 0);
	assert_in_range(client.lost, 1, 4);
	sl_transport_close(client.transport, 0);
	close_server();
}

static void inproc_cannot_be_authenticated(void **state)
{
	struct sl_transport_conf conf = {"inproc://x", PART, HWM, &server_auth};
	struct sl_transport *t;
	struct sl_fail fail;

	(void)state;
	open_server(true);
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_CONFIG);
	close_server();
}

/* ---- the proof: it must notice whatever would let strangers in, or friends not */

static enum sl_err prove(bool handler, bool enforce, bool curve, struct sl_fail *fail)
{
	struct sl_zap *zap = NULL;
	struct sl_gate *g;
	struct sl_transport_auth auth = {.own = &server_key};
	void *context = zmq_ctx_new(), *socket;
	enum sl_err err;

	assert_int_equal(sl_gate_open(&g, list_of(&good_key), NULL), SL_OK);
	auth.gate = g;
	if (handler)
		assert_int_equal(sl_zap_open(&zap, context, g, NULL), SL_OK);
	socket = zmq_socket(context, ZMQ_ROUTER);
	zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	if (curve)
		assert_int_equal(sl_curve_server(socket, &server_key, NULL), SL_OK);
	if (!enforce)
		assert_int_equal(zmq_setsockopt(socket, 93, &(int){0}, sizeof(int)), 0);
	err = sl_curve_prove(socket, &auth, fail);
	assert_non_null(sl_allow_name(sl_gate_list(g), &good_key.public_key)); /* put back */
	zmq_close(socket);
	zmq_ctx_term(context);
	sl_zap_close(zap);
	sl_gate_close(g);
	return err;
}

static void the_proof_sees_every_way_to_leave_the_door_open(void **state)
{
	struct sl_fail fail;

	(void)state;
	if (!zmq_has("curve"))
		skip();
	assert_int_equal(prove(true, true, true, &fail), SL_OK);
	assert_int_equal(prove(false, false, true, &fail), SL_ERR_AUTH); /* CURVE alone */
	assert_non_null(strstr(fail.text, "got in"));
	assert_int_equal(prove(false, true, true, &fail), SL_ERR_AUTH); /* nobody answers: nobody gets in */
	assert_non_null(strstr(fail.text, "no clear refusal"));
	assert_int_equal(prove(true, true, false, &fail), SL_ERR_AUTH); /* no CURVE */
}

/* The proof is part of binding: a pair whose halves do not fit lets nobody in. */
static void a_server_that_fails_its_proof_does_not_open(void **state)
{
	const struct sl_keypair forged = {other_key.public_key, server_key.secret_key};
	struct sl_transport_auth auth = {.own = &forged};
	struct sl_transport_conf conf = {"tcp://127.0.0.1:*", PART, HWM, &auth};
	struct sl_transport *t;
	struct sl_fail fail;

	(void)state;
	open_server(true);
	auth.gate = gate;
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_AUTH);
	assert_non_null(strstr(fail.text, "self-test"));
	close_server();
}

/* ---- strangers and bad guests */

static int raw_tcp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(sl_transport_endpoint(server.transport), ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

/* ZMTP 3.1's greeting for CURVE, as a client. */
static const uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};

static long resident_kib(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*s %ld", &pages), 1);
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A hundred connections that say nothing, a byte now and then, garbage, or announce frames that never end. */
static void a_hundred_rogues_before_login_disturb_nobody(void **state)
{
	enum { ROGUES = 100, ROUNDS = 40 };
	static const uint8_t long_frame[] = {0x06, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}; /* a command of 2 GiB */
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key};
	static uint8_t garbage[1 << 14];
	struct end client;
	int fd[ROGUES];
	long before;

	(void)state;
	srand(11);
	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (uint8_t)rand();
	open_server(true);
	for (int i = 0; i < ROGUES; i++)
		fd[i] = raw_tcp();
	before = resident_kib();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < ROGUES; i++) {
			ssize_t n = 0;

			if (i % 4 == 1)
				n = send(fd[i], greeting + round, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			else if (i % 4 == 2)
				n = send(fd[i], garbage, sizeof garbage, MSG_NOSIGNAL | MSG_DONTWAIT);
			else if (i % 4 == 3 && round == 0)
				n = send(fd[i], greeting, sizeof greeting, MSG_NOSIGNAL) +
				    send(fd[i], long_frame, sizeof long_frame, MSG_NOSIGNAL);
			else if (i % 4 == 3)
				n = send(fd[i], garbage, sizeof garbage, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (n < 0) { /* cut: come back */
				close(fd[i]);
				fd[i] = raw_tcp();
			}
		}
		if (round == 5)
			open_client(&client, &auth);
		if (round >= 5)
			ping(&client, PROMPT_MS);
	}
	assert_in_range(resident_kib() - before, 0, GROWTH_KIB);
	assert_int_equal(server.malformed, 0);
	assert_int_equal(server.messages, ROUNDS - 5);
	for (int i = 0; i < ROGUES; i++)
		close(fd[i]);
	sl_transport_close(client.transport, 0);
	close_server();
}

struct guest {
	void *context, *socket;
};

static struct guest open_guest(int hwm)
{
	struct guest g = {.context = zmq_ctx_new()};
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key};

	g.socket = zmq_socket(g.context, ZMQ_DEALER);
	assert_int_equal(sl_curve_client(g.socket, &auth, NULL), SL_OK);
	zmq_setsockopt(g.socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	zmq_setsockopt(g.socket, ZMQ_RCVHWM, &hwm, sizeof hwm);
	zmq_setsockopt(g.socket, ZMQ_SNDTIMEO, &(int){GIVE_UP_MS}, sizeof(int));
	assert_int_equal(zmq_connect(g.socket, sl_transport_endpoint(server.transport)), 0);
	return g;
}

static void close_guest(struct guest *g)
{
	zmq_close(g->socket);
	zmq_ctx_term(g->context);
}

static void bad_guests_disturb_nobody(void **state)
{
	enum { ROUNDS = 30, PARTS = 1000 };
	const struct sl_transport_auth auth = {.own = &good_key, .server = &server_key.public_key};
	struct guest deaf, slow, wrong;
	struct end client;
	sl_peer deaf_peer;
	int sent = 0;
	long before;

	(void)state;
	open_server(true);
	server.echo = false;
	deaf = open_guest(1);
	assert_int_equal(zmq_send(deaf.socket, "hello", 5, ZMQ_SNDMORE), 5);
	assert_int_equal(zmq_send(deaf.socket, "x", 1, 0), 1);
	assert_true(run_until(&server.messages, 1, NULL, GIVE_UP_MS));
	deaf_peer = server.peer;
	before = resident_kib();
	for (int i = 0; i < PARTS; i++) {
		enum sl_err err = say(&server, deaf_peer, PART);

		sent += err == SL_OK;
		assert_true(err == SL_OK || err == SL_ERR_BUSY);
		if (i % 50 == 0)
			run_for(1);
	}
	assert_in_range(sent, 1, PARTS - 1); /* it never reads: the high-water mark and TCP's buffers, no more */
	slow = open_guest(HWM);              /* a message that is never whole */
	wrong = open_guest(HWM);
	assert_int_equal(zmq_send(slow.socket, "hello", 5, ZMQ_SNDMORE), 5);
	server.echo = true;
	open_client(&client, &auth);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(zmq_send(wrong.socket, "one frame", 9, 0), 9);
		ping(&client, PROMPT_MS);
	}
	assert_true(run_until(&server.malformed, ROUNDS, NULL, GIVE_UP_MS));
	assert_in_range(resident_kib() - before, 0, 2 * GROWTH_KIB);
	close_guest(&deaf);
	close_guest(&slow);
	close_guest(&wrong);
	sl_transport_close(client.transport, 0);
	close_server();
}

/* With the routing id of a client that has left, a guest with another key does not become that client. */
static void a_routing_id_is_not_a_key(void **state)
{
	struct guest g, thief;
	struct sl_transport_auth auth = {.own = &other_key, .server = &server_key.public_key};
	char text[300], key[2][SL_KEY_TEXT];
	static const uint8_t id[5] = {0, 1, 2, 3, 4};
	struct sl_allow *both;
	sl_peer first;
	int n;

	(void)state;
	open_server(true);
	server.echo = false;
	sl_key_print(&good_key.public_key, key[0]);
	sl_key_print(&other_key.public_key, key[1]);
	n = snprintf(text, sizeof text, "%s one\n%s two\n", key[0], key[1]);
	assert_int_equal(sl_allow_parse(&both, "list", text, (size_t)n, NULL), SL_OK);
	sl_allow_free(sl_gate_swap(gate, both));
	g = open_guest(HWM);
	zmq_disconnect(g.socket, sl_transport_endpoint(server.transport));
	assert_int_equal(zmq_setsockopt(g.socket, ZMQ_ROUTING_ID, id, sizeof id), 0);
	assert_int_equal(zmq_connect(g.socket, sl_transport_endpoint(server.transport)), 0);
	zmq_send(g.socket, "hello", 5, ZMQ_SNDMORE);
	zmq_send(g.socket, "", 0, 0);
	assert_true(run_until(&server.messages, 1, NULL, GIVE_UP_MS));
	first = server.peer;
	close_guest(&g);
	run_for(100);
	thief.context = zmq_ctx_new();
	thief.socket = zmq_socket(thief.context, ZMQ_DEALER);
	assert_int_equal(sl_curve_client(thief.socket, &auth, NULL), SL_OK);
	zmq_setsockopt(thief.socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	assert_int_equal(zmq_setsockopt(thief.socket, ZMQ_ROUTING_ID, id, sizeof id), 0);
	assert_int_equal(zmq_connect(thief.socket, sl_transport_endpoint(server.transport)), 0);
	zmq_send(thief.socket, "hello", 5, ZMQ_SNDMORE);
	zmq_send(thief.socket, "", 0, 0);
	assert_true(run_until(&server.malformed, 1, NULL, GIVE_UP_MS));
	assert_int_equal(server.messages, 1);
	assert_true(sl_transport_peer_key(server.transport, first, &server.from));
	assert_true(sl_key_equal(&server.from, &good_key.public_key));
	close_guest(&thief);
	close_server();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listed_key_gets_in_and_is_known),
		cmocka_unit_test(an_unknown_key_hears_its_fingerprint),
		cmocka_unit_test(a_wrong_server_key_is_named),
		cmocka_unit_test(a_secret_key_that_is_not_the_public_one_s_does_not_help),
		cmocka_unit_test(both_must_authenticate_or_neither),
		cmocka_unit_test(a_new_list_counts_for_the_next_handshake),
		cmocka_unit_test(a_server_that_restarts_refuses_nobody),
		cmocka_unit_test(inproc_cannot_be_authenticated),
		cmocka_unit_test(the_proof_sees_every_way_to_leave_the_door_open),
		cmocka_unit_test(a_server_that_fails_its_proof_does_not_open),
		cmocka_unit_test(a_hundred_rogues_before_login_disturb_nobody),
		cmocka_unit_test(bad_guests_disturb_nobody),
		cmocka_unit_test(a_routing_id_is_not_a_key),
	};

	return cmocka_run_group_tests(tests, make_keys, NULL);
}
