/* Options of ZeroMQ's own TCP sockets, read from the descriptors of this process. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <zmq.h>

#include "common/link/wire.h"
#include "common/link/zsocket.h"
#include "tests/support/unit.h"

enum { FD_MAX = 256, WAIT_MS = 5000 };

static void *context_with(void **socket, int type)
{
	void *context = zmq_ctx_new();

	*socket = zmq_socket(context, type);
	assert_non_null(*socket);
	assert_int_equal(zmq_setsockopt(*socket, ZMQ_LINGER, &(int){0}, sizeof(int)), 0);
	return context;
}

/* Returns the number of connected TCP sockets of this process. *kept_short: how many of them limit unsent data. */
static int connections(int *kept_short)
{
	int n = 0;

	*kept_short = 0;
	for (int fd = 3; fd < FD_MAX; fd++) {
		struct sockaddr_storage peer;
		socklen_t peer_len = sizeof peer, len = sizeof(int);
		int lowat = 0;

		if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0 ||
		    (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
			continue;
		n++;
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, &len), 0);
		*kept_short += lowat > 0 && lowat <= 1 << 20;
	}
	return n;
}

static void both_ends_of_a_connection_keep_little_unsent(void **state)
{
	void *server, *client, *monitor, *listening, *of_server = context_with(&server, ZMQ_ROUTER),
						     *of_client = context_with(&client, ZMQ_DEALER);
	int event = 0, fd = -1, kept_short;
	struct sl_fail fail;
	char endpoint[256];

	assert_int_equal(sl_zsocket_monitor(of_server, server, ZMQ_EVENT_LISTENING, &listening, &fail), SL_OK);
	assert_int_equal(zmq_bind(server, "tcp://127.0.0.1:*"), 0);
	assert_true(sl_zsocket_read(listening, &event, &fd)); /* the event is there at once */
	sl_zsocket_keep_unsent_short(fd);
	assert_int_equal(sl_zsocket_endpoint(server, endpoint, sizeof endpoint, &fail), SL_OK);
	assert_int_equal(sl_zsocket_monitor(of_client, client, ZMQ_EVENT_CONNECTED, &monitor, &fail), SL_OK);
	assert_int_equal(zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &(int){WAIT_MS}, sizeof(int)), 0);
	assert_int_equal(zmq_connect(client, endpoint), 0);
	assert_true(sl_zsocket_read(monitor, &event, &fd));
	assert_int_equal(event, ZMQ_EVENT_CONNECTED);
	sl_zsocket_keep_unsent_short(fd);
	/* once a message has arrived, the server has accepted the connection */
	assert_int_equal(zmq_send(client, "x", 1, 0), 1);
	assert_int_equal(zmq_setsockopt(server, ZMQ_RCVTIMEO, &(int){WAIT_MS}, sizeof(int)), 0);
	assert_true(zmq_recv(server, endpoint, sizeof endpoint, 0) > 0);
	assert_int_equal(connections(&kept_short), 2);
	assert_int_equal(kept_short, 2);
	sl_zsocket_unmonitor(client, &monitor);
	sl_zsocket_unmonitor(server, &listening);
	zmq_close(client);
	zmq_close(server);
	zmq_ctx_term(of_client);
	zmq_ctx_term(of_server);
}

static int64_t option(void *socket, int name, size_t len)
{
	int64_t wide = 0;
	int narrow = 0;

	assert_int_equal(zmq_getsockopt(socket, name, len == sizeof wide ? (void *)&wide : &narrow, &len), 0);
	return len == sizeof wide ? wide : narrow;
}

/* Limits of memory and waiting, which no other test would notice. */
static void sockets_are_bounded(void **state)
{
	const struct sl_transport_conf conf = {.part_bytes = 1000, .hwm = 7};
	struct sl_fail fail;

	for (int bound = 0; bound < 2; bound++) {
		void *socket, *context = context_with(&socket, bound ? ZMQ_ROUTER : ZMQ_DEALER);

		assert_int_equal(sl_zsocket_options(socket, bound, &conf, &fail), SL_OK);
		assert_int_equal(option(socket, ZMQ_SNDHWM, sizeof(int)), 7);
		assert_int_equal(option(socket, ZMQ_RCVHWM, sizeof(int)), 7);
		/* a server accepts a Hello's payload, however small its parts are */
		assert_int_equal(option(socket, ZMQ_MAXMSGSIZE, sizeof(int64_t)),
				 (bound ? SL_WIRE_HELLO_MAX : 1000) + SL_WIRE_HEADER_MAX);
		assert_int_equal(option(socket, ZMQ_LINGER, sizeof(int)), 0);
		assert_int_equal(option(socket, ZMQ_HANDSHAKE_IVL, sizeof(int)), 8000);
		assert_int_equal(option(socket, ZMQ_TCP_KEEPALIVE, sizeof(int)), 1);
		assert_int_equal(option(socket, ZMQ_IMMEDIATE, sizeof(int)), !bound);
		zmq_close(socket);
		zmq_ctx_term(context);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_of_a_connection_keep_little_unsent),
		cmocka_unit_test(sockets_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
