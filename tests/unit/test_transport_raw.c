/* The ZeroMQ transport against raw sockets that misbehave, while a good client continues. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/link/loop.h"
#include "common/link/transport.h"
#include "common/link/wire.h"
#include "tests/support/link_end.h"
#include "tests/support/unit.h"

struct raw {
	void *context, *socket;
};

static struct raw raw_open(const char *endpoint, const char *routing_id)
{
	struct raw r = {.context = zmq_ctx_new()};

	r.socket = zmq_socket(r.context, ZMQ_DEALER);
	if (routing_id)
		assert_int_equal(zmq_setsockopt(r.socket, ZMQ_ROUTING_ID, routing_id, strlen(routing_id)), 0);
	zmq_setsockopt(r.socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	assert_int_equal(zmq_connect(r.socket, endpoint), 0);
	return r;
}

static void raw_send(struct raw *r, const size_t *frame_len, int frames)
{
	for (int i = 0; i < frames; i++) {
		uint8_t *data = calloc(1, frame_len[i] + 1);

		assert_non_null(data);
		assert_int_equal(zmq_send(r->socket, data, frame_len[i], i + 1 < frames ? ZMQ_SNDMORE : 0),
				 (int)frame_len[i]);
		free(data);
	}
}

static void raw_close(struct raw *r)
{
	zmq_close(r->socket);
	zmq_ctx_term(r->context);
}

static void expect_malformed(struct link_end *server, struct raw *r, const size_t *frame_len, int frames)
{
	uint64_t before = server->malformed;

	server->stop_on_malformed = true;
	raw_send(r, frame_len, frames);
	link_end_run(server->loop);
	server->stop_on_malformed = false;
	assert_int_equal(server->malformed, before + 1);
}

static void malformed_messages_are_dropped_and_others_go_on(void **state)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	struct raw r, named;
	size_t hundred[100] = {0};
	uint64_t good, malformed;

	link_end_open_server(&server, loop, "tcp://127.0.0.1:*");
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	link_end_ping(&client, &server);
	r = raw_open(sl_transport_endpoint(server.transport), NULL);
	good = server.messages;
	expect_malformed(&server, &r, (size_t[]){10}, 1);
	expect_malformed(&server, &r, (size_t[]){0}, 1);
	expect_malformed(&server, &r, (size_t[]){10, 10, 10}, 3);
	expect_malformed(&server, &r, hundred, 100);
	expect_malformed(&server, &r, (size_t[]){0, 10}, 2);
	expect_malformed(&server, &r, (size_t[]){SL_WIRE_HEADER_MAX + 1, 10}, 2);
	expect_malformed(&server, &r, (size_t[]){10, SL_WIRE_HELLO_MAX + 1}, 2);
	assert_int_equal(server.messages, good);
	server.stop_at = good + 1;
	server.echo = false;
	raw_send(&r, (size_t[]){SL_WIRE_HEADER_MAX, SL_WIRE_HELLO_MAX},
		 2); /* the largest legal message: here a Hello is larger than a part */
	link_end_run(loop);
	named = raw_open(sl_transport_endpoint(server.transport), "i am somebody else");
	expect_malformed(&server, &named, (size_t[]){10, 10}, 2);
	raw_close(&named);
	/* beyond ZMQ_MAXMSGSIZE ZeroMQ itself cuts the connection, and the transport sees nothing */
	malformed = server.malformed;
	raw_send(&r, (size_t[]){10, SL_WIRE_HELLO_MAX + SL_WIRE_HEADER_MAX + 1}, 2);
	link_end_run_for(loop, 50);
	assert_int_equal(server.messages, good + 1);
	assert_int_equal(server.malformed, malformed);
	link_end_ping(&client, &server);
	raw_close(&r);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static int tcp_connect(const char *endpoint)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static void expect_cut(const char *endpoint, const void *bytes, size_t len)
{
	int fd = tcp_connect(endpoint);
	char greeting[64];
	ssize_t n;

	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 60}, sizeof(struct timeval)), 0);
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
	while ((n = TEMP_FAILURE_RETRY(recv(fd, greeting, sizeof greeting, 0))) > 0)
		;
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

/* ZMTP before version 3: libzmq would abort if it got a routing id in it while the socket closes. A
 * greeting, an empty routing id and a message are ignored. */
static void older_protocols_are_cut(void **state)
{
	static const uint8_t one[] = {1, 0, 2, 0, 'x'},
			     one_with_version[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0, 5, 1, 0, 2, 0, 'x'},
			     two[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 5, 0, 0, 0, 1, 'x'};
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;

	link_end_open_server(&server, loop, "tcp://127.0.0.1:*");
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	expect_cut(sl_transport_endpoint(server.transport), one, sizeof one);
	expect_cut(sl_transport_endpoint(server.transport), one_with_version, sizeof one_with_version);
	expect_cut(sl_transport_endpoint(server.transport), two, sizeof two);
	link_end_ping(&client, &server);
	assert_int_equal(server.malformed, 0);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static int raw_tcp(const char *endpoint)
{
	int fd = tcp_connect(endpoint);
	uint8_t garbage[256];

	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (uint8_t)rand();
	(void)!send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
	return fd;
}

static void thousands_of_garbage_connections_disturb_nobody(void **state)
{
	enum { BATCHES = 30, TCP = 70, ZMQ = 10 };
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	sl_peer good;

	srand(7);
	link_end_open_server(&server, loop, "tcp://127.0.0.1:*");
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	link_end_ping(&client, &server);
	good = server.echo_to = server.peer; /* strangers may be gone by now */
	for (int b = 0; b < BATCHES; b++) {
		int fd[TCP];
		struct raw raw[ZMQ];

		server.echo = false;
		for (int i = 0; i < ZMQ; i++) {
			raw[i] = raw_open(sl_transport_endpoint(server.transport), NULL);
			raw_send(&raw[i], (size_t[]){100, 1000}, 2);
		}
		for (int i = 0; i < TCP; i++)
			fd[i] = raw_tcp(sl_transport_endpoint(server.transport));
		link_end_run_for(loop, 5);
		link_end_ping(&client, &server);
		for (int i = 0; i < TCP; i++)
			close(fd[i]);
		for (int i = 0; i < ZMQ; i++)
			raw_close(&raw[i]);
	}
	/* answers go only to the number that it had first; messages of strangers that are gone may
	 * still arrive */
	client.stop_at = client.messages + 1;
	link_end_send_when_writable(&client, "still me");
	link_end_run(loop);
	assert_string_equal(client.last, "still me");
	assert_true(server.echo_to == good);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_messages_are_dropped_and_others_go_on),
		cmocka_unit_test(older_protocols_are_cut),
		cmocka_unit_test(thousands_of_garbage_connections_disturb_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
