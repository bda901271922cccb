/* The ZeroMQ transport with CURVE: what strangers can do before they authenticate, and
 * authenticated peers that misbehave. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/curve.h"
#include "common/link/wire.h"
#include "tests/support/secure_rig.h"
#include "tests/support/unit.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { GROWTH_KIB = 512 << 10 }; /* sanitizers keep freed memory */
#else
enum { GROWTH_KIB = 32 << 10 };
#endif

static int raw_tcp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(sl_transport_endpoint(secure.server.transport), ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

/* The greeting of a ZMTP 3.1 client for CURVE. */
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

/* A hundred connections that are silent, send a byte now and then, send garbage, or announce frames that never end. */
static void a_hundred_rogues_before_login_disturb_nobody(void **state)
{
	enum { ROGUES = 100, ROUNDS = 40 };
	static const uint8_t long_frame[] = {0x06, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}; /* a command of 2 GiB */
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	static uint8_t garbage[1 << 14];
	struct secure_end client;
	int fd[ROGUES];
	long before;

	srand(11);
	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (uint8_t)rand();
	secure_open_server(true);
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
			if (n < 0) { /* the server closed the connection: connect again */
				close(fd[i]);
				fd[i] = raw_tcp();
			}
		}
		if (round == 5)
			secure_open_client(&client, &auth);
		if (round >= 5)
			secure_ping(&client, SECURE_PROMPT_MS);
	}
	assert_in_range(resident_kib() - before, 0, GROWTH_KIB);
	assert_int_equal(secure.server.malformed, 0);
	assert_int_equal(secure.server.messages, ROUNDS - 5);
	for (int i = 0; i < ROGUES; i++)
		close(fd[i]);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

struct guest {
	void *context, *socket;
};

static struct guest open_guest(int hwm)
{
	struct guest g = {.context = zmq_ctx_new()};
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};

	g.socket = zmq_socket(g.context, ZMQ_DEALER);
	assert_int_equal(sl_curve_client(g.socket, &auth, NULL), SL_OK);
	zmq_setsockopt(g.socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	zmq_setsockopt(g.socket, ZMQ_RCVHWM, &hwm, sizeof hwm);
	zmq_setsockopt(g.socket, ZMQ_SNDTIMEO, &(int){SECURE_GIVE_UP_MS}, sizeof(int));
	assert_int_equal(zmq_connect(g.socket, sl_transport_endpoint(secure.server.transport)), 0);
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
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	struct guest deaf, slow, wrong;
	struct secure_end client;
	sl_peer deaf_peer;
	int sent = 0;
	long before;

	secure_open_server(true);
	secure.server.echo = false;
	deaf = open_guest(1);
	assert_int_equal(zmq_send(deaf.socket, "hello", 5, ZMQ_SNDMORE), 5);
	assert_int_equal(zmq_send(deaf.socket, "x", 1, 0), 1);
	assert_true(secure_run_until(&secure.server.messages, 1, NULL, SECURE_GIVE_UP_MS));
	deaf_peer = secure.server.peer;
	before = resident_kib();
	for (int i = 0; i < PARTS; i++) {
		enum sl_err err = secure_say(&secure.server, deaf_peer, SECURE_PART);

		sent += err == SL_OK;
		assert_true(err == SL_OK || err == SL_ERR_BUSY);
		if (i % 50 == 0)
			secure_run_for(1);
	}
	assert_in_range(sent, 1, PARTS - 1); /* it never reads: the high-water mark and TCP's buffers */
	slow = open_guest(SECURE_HWM);       /* sends a message that never ends */
	wrong = open_guest(SECURE_HWM);
	assert_int_equal(zmq_send(slow.socket, "hello", 5, ZMQ_SNDMORE), 5);
	secure.server.echo = true;
	secure_open_client(&client, &auth);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(zmq_send(wrong.socket, "one frame", 9, 0), 9);
		secure_ping(&client, SECURE_PROMPT_MS);
	}
	assert_true(secure_run_until(&secure.server.malformed, ROUNDS, NULL, SECURE_GIVE_UP_MS));
	assert_in_range(resident_kib() - before, 0, 2 * GROWTH_KIB);
	close_guest(&deaf);
	close_guest(&slow);
	close_guest(&wrong);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

/* A peer that chooses its own routing id, which may be another's, is cut at its first message, whatever its key. */
static void a_routing_id_is_not_a_key(void **state)
{
	static const uint8_t id[5] = {0, 1, 2, 3, 4};
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	struct secure_end client;
	struct guest g;

	secure_open_server(true);
	g = open_guest(SECURE_HWM);
	zmq_disconnect(g.socket, sl_transport_endpoint(secure.server.transport));
	assert_int_equal(zmq_setsockopt(g.socket, ZMQ_ROUTING_ID, id, sizeof id), 0);
	assert_int_equal(zmq_connect(g.socket, sl_transport_endpoint(secure.server.transport)), 0);
	zmq_send(g.socket, "hello", 5, ZMQ_SNDMORE);
	zmq_send(g.socket, "", 0, 0);
	assert_true(secure_run_until(&secure.server.malformed, 1, NULL, SECURE_GIVE_UP_MS));
	assert_int_equal(secure.server.messages, 0);
	secure_open_client(&client, &auth);
	secure_ping(&client, SECURE_PROMPT_MS);
	close_guest(&g);
	sl_transport_close(client.transport, 0);
	secure_close_server();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hundred_rogues_before_login_disturb_nobody),
		cmocka_unit_test(bad_guests_disturb_nobody),
		cmocka_unit_test(a_routing_id_is_not_a_key),
	};

	return cmocka_run_group_tests(tests, secure_make_keys, NULL);
}
