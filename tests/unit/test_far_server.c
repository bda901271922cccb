/* A server far away: the handshake with keys takes three round trips, and neither side gives up meanwhile. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/link/explain.h"
#include "client/train/drive.h"
#include "common/base/clock.h"
#include "tests/support/secure_rig.h"
#include "tests/support/still_clock.h"
#include "tests/support/unit.h"

enum { ONE_WAY_MS = 1000, FLIGHTS = 256, READ = 4096, TURN_MS = 5 };

struct flight {
	uint64_t due_ms;
	int to;
	ssize_t len; /* 0: the end of the stream */
	char bytes[READ];
};

/* A relay for one connection that delays each byte by ONE_WAY_MS.
 * Nothing waits in real time: the relay sets the clock. */
static struct far {
	pthread_t thread;
	int listener, port;
	atomic_bool over;
	struct flight flight[FLIGHTS];
	unsigned sent, arrived;
} far;

static int loopback(int port, bool listens)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (listens)
		assert_true(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
	else if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
		abort();
	return fd;
}

static void deliver(void)
{
	while (far.arrived != far.sent) {
		struct flight *f = &far.flight[far.arrived % FLIGHTS];

		if (sl_now_ms() < f->due_ms)
			return;
		if (f->len)
			(void)!send(f->to, f->bytes, (size_t)f->len, MSG_NOSIGNAL);
		else
			(void)shutdown(f->to, SHUT_WR);
		far.arrived++;
	}
}

/* After a turn without bytes: moves the clock on to when the next bytes are due, or by a turn if there are none. */
static void go_on(void)
{
	uint64_t now_ms = sl_now_ms(), due_ms = far.flight[far.arrived % FLIGHTS].due_ms;

	if (far.arrived == far.sent)
		still_clock_go_on(TURN_MS);
	else if (due_ms > now_ms)
		still_clock_go_on((int)(due_ms - now_ms));
}

static void *relay(void *arg)
{
	struct pollfd end[2] = {{.events = POLLIN}, {.events = POLLIN}};

	(void)arg;
	end[0].fd = accept(far.listener, NULL, NULL);
	end[1].fd = loopback(far.port, false);
	while (!atomic_load(&far.over)) {
		if (poll(end, 2, TURN_MS) == 0)
			go_on();
		deliver();
		for (int i = 0; i < 2; i++) {
			struct flight *f = &far.flight[far.sent % FLIGHTS];

			if (!end[i].revents || end[i].fd < 0 || far.sent - far.arrived == FLIGHTS)
				continue;
			f->len = recv(end[i].fd, f->bytes, READ, 0);
			f->len = f->len < 0 ? 0 : f->len;
			f->to = end[!i].fd < 0 ? ~end[!i].fd : end[!i].fd;
			f->due_ms = sl_now_ms() + ONE_WAY_MS;
			far.sent++;
			if (!f->len)
				end[i].fd = ~end[i].fd; /* poll ignores a negative descriptor */
		}
	}
	for (int i = 0; i < 2; i++)
		close(end[i].fd < 0 ? ~end[i].fd : end[i].fd);
	return NULL;
}

/* Starts the relay before `server`; `endpoint` is where to connect. */
static void go_far(char endpoint[64], const char *server)
{
	struct sockaddr_in at;
	socklen_t len = sizeof at;

	still_clock_stop();
	atomic_store(&far.over, false);
	far.sent = far.arrived = 0; /* drops what was in flight when the last test ended */
	far.port = atoi(strrchr(server, ':') + 1);
	far.listener = loopback(0, true);
	assert_int_equal(getsockname(far.listener, (struct sockaddr *)&at, &len), 0);
	snprintf(endpoint, 64, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&far.thread, NULL, relay, NULL), 0);
}

static void come_back(void)
{
	atomic_store(&far.over, true);
	pthread_join(far.thread, NULL);
	close(far.listener);
	still_clock_start();
}

static void two_seconds_there_and_back(void **state)
{
	const struct sl_transport_auth auth = {.own = &secure.good_key, .server = &secure.server_key.public_key};
	char endpoint[64];
	const struct sl_transport_conf conf = {endpoint, SECURE_PART, SECURE_HWM, &auth, 0, 0, NULL, NULL};
	struct secure_end client = {0};

	secure_open_server(true);
	go_far(endpoint, sl_transport_endpoint(secure.server.transport));
	assert_int_equal(sl_transport_connect(&client.transport, secure.loop, &conf, &secure_events, &client, NULL),
			 SL_OK);
	secure_ping(&client, SECURE_GIVE_UP_MS);
	assert_int_equal(client.lost, 0);
	assert_int_equal(client.refusals, 0);
	sl_transport_close(client.transport, 0);
	secure_close_server();
	come_back();
}

/* A client that allows too little time is told how much is enough. That is at least the 10 s
 * that the handshake takes (connecting to the relay takes no time), and not beyond reason. */
static void how_much_would_do_is_said(void **state)
{
	static struct sl_conf_client conf;
	struct sl_fail fail;
	int would_do = 0;
	const char *at;

	secure_open_server(true);
	go_far(conf.server, sl_transport_endpoint(secure.server.transport));
	snprintf(conf.auth.secret_key, sizeof conf.auth.secret_key, "some");
	conf.link.connect_timeout_ms = 9000;
	sl_fail_set(&fail, SL_ERR_TIMEOUT, "no answer");
	assert_int_equal(sl_link_explain(&conf, &fail), SL_ERR_TIMEOUT);
	at = strstr(fail.text, "link.connect_timeout_ms to ");
	if (!at || sscanf(at, "link.connect_timeout_ms to %d or more", &would_do) != 1)
		fail_msg("%s", fail.text);
	assert_in_range(would_do, 10000, 50000);
	secure_close_server();
	come_back();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_seconds_there_and_back),
		cmocka_unit_test(how_much_would_do_is_said),
	};

	return cmocka_run_group_tests(tests, secure_make_keys, NULL);
}
