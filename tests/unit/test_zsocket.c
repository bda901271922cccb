/* What becomes of ZeroMQ's own TCP sockets, seen at the descriptors of this process. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <zmq.h>

#include "common/link/zsocket.h"

enum { FD_MAX = 256, WAIT_MS = 5000 };

static void *context_with(void **socket, int type)
{
	void *context = zmq_ctx_new();

	*socket = zmq_socket(context, type);
	assert_non_null(*socket);
	assert_int_equal(zmq_setsockopt(*socket, ZMQ_LINGER, &(int){0}, sizeof(int)), 0);
	return context;
}

/* Connected TCP sockets of this process, and how many of them keep what is unsent short. */
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

	(void)state;
	assert_int_equal(sl_zsocket_monitor(of_server, server, ZMQ_EVENT_LISTENING, &listening, &fail), SL_OK);
	assert_int_equal(zmq_bind(server, "tcp://127.0.0.1:*"), 0);
	assert_true(sl_zsocket_read(listening, &event, &fd)); /* at once */
	sl_zsocket_keep_unsent_short(fd);
	assert_int_equal(sl_zsocket_endpoint(server, endpoint, sizeof endpoint, &fail), SL_OK);
	assert_int_equal(sl_zsocket_monitor(of_client, client, ZMQ_EVENT_CONNECTED, &monitor, &fail), SL_OK);
	assert_int_equal(zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &(int){WAIT_MS}, sizeof(int)), 0);
	assert_int_equal(zmq_connect(client, endpoint), 0);
	assert_true(sl_zsocket_read(monitor, &event, &fd));
	assert_int_equal(event, ZMQ_EVENT_CONNECTED);
	sl_zsocket_keep_unsent_short(fd);
	/* a message has gone through, so the server has accepted */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_of_a_connection_keep_little_unsent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
