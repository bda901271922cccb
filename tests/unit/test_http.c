/* One page over HTTP: what counts as a request, the answers, and which clients are dropped. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/link/http.h"
#include "common/link/loop.h"
#include "common/link/request.h"
#include "tests/support/still_clock.h"
#include "tests/support/unit.h"

enum { LARGE = 8 << 20, CLIENTS = 16, ANSWER = 1024 };

static const char names[][SL_REQUEST_NAME] = {"a"}; /* besides addresses and localhost */

#define GET "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
#define ANSWER_OF(status, length, body)                                                             \
	"HTTP/1.1 " status "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " length \
	"\r\nConnection: close\r\n\r\n" body
#define THE_PAGE \
	"HTTP/1.1 200 OK\r\nContent-Type: text/x-test\r\nContent-Length: 7\r\nConnection: close\r\n\r\nanswer\n"

/* ---- what counts as a request */

struct request_case {
	const char *head;
	int status;
	size_t len; /* 0: the length of the text */
};

static const struct request_case requests[] = {
	{GET, 200, 0},
	{"GET /metrics HTTP/1.1\nhost:\n\n", 200, 0},
	{"GET /metrics?a=b%20&c HTTP/1.1\r\nAccept: */*\r\nHOST:\ta:1\r\nX-\xc3\xa4: 1\r\n\r\n", 400, 0},
	{"GET /metrics?a=b%20&c HTTP/1.1\r\nAccept: */*\r\nHOST:\ta:1\r\nX: \xc3\xa4\r\n\r\n", 200, 0},
	{"GET /metrics HTTP/1.0\r\n\r\n", 200, 0},
	{"GET /metrics HTTP/1.9\r\nHost: a\r\n\r\nGET", 200, 0},
	{GET "\0\1\2 whatever comes behind it", 200, sizeof GET + 10},
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET /metric HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET /metrics/ HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET /METRICS HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"POST /status HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 405, 0},
	{"get /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405, 0},
	{"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405, 0},
	{"GET /metrics HTTP/1.1\r\n\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, 0},
	{"GET /metrics HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, 0},
	{"GET /metrics\r\n", 400, 0},
	{"GET  /metrics HTTP/1.1\r\n", 400, 0},
	{"GET /metrics  HTTP/1.1\r\n", 400, 0},
	{"GET /metrics HTTP/1.1 \r\n", 400, 0},
	{"GET /metrics HTTP/2.0\r\n", 400, 0},
	{"GET /metrics HTTP/1.11\r\n", 400, 0},
	{"GET /metrics http/1.1\r\n", 400, 0},
	{"GET metrics HTTP/1.1\r\n", 400, 0},
	/* the absolute form, RFC 9112 3.2.2 */
	{"GET http://a/metrics HTTP/1.1\r\nHost: b\r\n\r\n", 200, 0},
	{"GET HTTP://[::1]:9570/metrics?a=http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", 200, 0},
	{"GET http://a/metrics HTTP/1.0\r\n\r\n", 200, 0},
	{"PUT http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405, 0},
	{"GET http://a/metrics HTTP/1.1\r\n\r\n", 400, 0},
	{"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET http://a?/metrics HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET http://a//metrics HTTP/1.1\r\nHost: a\r\n\r\n", 404, 0},
	{"GET http:///metrics HTTP/1.1\r\n", 400, 0},
	{"GET http://?a/metrics HTTP/1.1\r\n", 400, 0},
	{"GET http:// HTTP/1.1\r\n", 400, 0},
	{"GET http:/metrics HTTP/1.1\r\n", 400, 0},
	{"GET https://a/metrics HTTP/1.1\r\n", 400, 0},
	{"GET http://a/metrics\r\n", 400, 0},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 0},
	{"GET /m\xc3\xa4 HTTP/1.1\r\n", 400, 0},
	{" /metrics HTTP/1.1\r\n", 400, 0},
	{"\r\n" GET, 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: a\r\n folded\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost : a\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\n: a\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: a\rb\r\n", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: a\033[2J", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: \0\r\n\r\n", 400, 34},
	{"\026\003\001\002", 400, 0}, /* TLS */
	{"\0", 400, 1},
	{"\177", 400, 0},
	{"GET /metrics HTTP/1.1\r\nHost: a\r\n", 0, 0},
	{"G", 0, 0},
	{"", 0, 0},
};

static size_t length(const struct request_case *c)
{
	return c->len ? c->len : strlen(c->head);
}

static void requests_are_told_from_what_is_none(void **state)
{
	for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
		const struct request_case *c = &requests[i];
		int known = 0;

		/* Byte by byte: once a status is known, it does not change. */
		for (size_t len = 0; len <= length(c); len++) {
			int status = sl_request_status(c->head, len, "/metrics");

			if (known && status != known)
				fail_msg("%.40s: %d, then %d", c->head, known, status);
			known = status;
		}
		if (known != c->status)
			fail_msg("%.40s: %d, not %d", c->head, known, c->status);
	}
}

static void a_head_is_bounded(void **state)
{
	static char head[SL_REQUEST_MAX + 100];
	size_t len = strlen(strcpy(head, "GET /metrics HTTP/1.1\r\nHost: a\r\nX: "));

	memset(head + len, 'x', sizeof head - len);
	assert_int_equal(sl_request_status(head, SL_REQUEST_MAX - 1, "/metrics"), 0);
	assert_int_equal(sl_request_status(head, SL_REQUEST_MAX, "/metrics"), 431);
	assert_int_equal(sl_request_status(head, sizeof head, "/metrics"), 431);
	memcpy(head + SL_REQUEST_MAX - 3, "\r\n\r\n", 4);
	assert_int_equal(sl_request_status(head, sizeof head, "/metrics"), 431);
	memcpy(head + SL_REQUEST_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(sl_request_status(head, sizeof head, "/metrics"), 200);
}

/* ---- a daemon whose loop runs in a thread of its own */

struct daemon {
	struct sl_loop *loop;
	struct sl_http *http;
	struct sl_async *quit;
	pthread_t thread;
	_Atomic(const char *) says; /* NULL: stands for a lack of memory */
	_Atomic(size_t) large;      /* > 0: so many x instead of it */
	int port;
};

static char *text(void *arg)
{
	const struct daemon *d = arg;
	const char *says = d->says;
	size_t large = d->large;
	char *out;

	if (!large)
		return says ? strdup(says) : NULL;
	out = malloc(large + 1);
	memset(out, 'x', large);
	out[large] = 0;
	return out;
}

static void quit(void *arg)
{
	sl_loop_stop(((struct daemon *)arg)->loop);
}

static void *run(void *arg)
{
	sl_loop_run(((struct daemon *)arg)->loop);
	return NULL;
}

static int set_up(void **state)
{
	struct daemon *d = calloc(1, sizeof *d);
	struct sl_http_page page = {
		.path = "/metrics", .type = "text/x-test", .name = names, .n_name = 1, .text = text, .arg = d};
	struct sl_fail fail;

	d->says = "answer\n";
	still_clock_stop();
	assert_int_equal(sl_loop_open(&d->loop, NULL), SL_OK);
	if (sl_http_open(&d->http, d->loop, "127.0.0.1:0", &page, &fail))
		fail_msg("%s", fail.text);
	assert_true(sl_http_is_loopback(d->http));
	assert_int_equal(sscanf(sl_http_address(d->http), "127.0.0.1:%d", &d->port), 1);
	assert_int_equal(sl_async_open(&d->quit, d->loop, quit, d, NULL), SL_OK);
	assert_int_equal(pthread_create(&d->thread, NULL, run, d), 0);
	*state = d;
	return 0;
}

static int tear_down(void **state)
{
	struct daemon *d = *state;

	sl_async_wake(d->quit);
	pthread_join(d->thread, NULL);
	sl_async_close(d->quit);
	sl_http_close(d->http);
	sl_loop_close(d->loop);
	free(d);
	still_clock_start();
	return 0;
}

static int dial(const struct daemon *d)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)d->port)};
	struct timeval limit = {.tv_sec = 60};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	return fd;
}

/* Reads until the other side closes; -1: the connection was reset. Closes fd. Where libuv uses
 * io_uring, a receive with a time limit may end with EINTR, although there was no signal. */
static ssize_t hear(int fd, char *out, size_t room)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < room) {
		n = TEMP_FAILURE_RETRY(recv(fd, out + len, room - len, 0));
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		assert_int_equal(errno, ECONNRESET);
	close(fd);
	return n < 0 ? -1 : (ssize_t)len;
}

static void answers(const struct daemon *d, const char *request, size_t len, const char *expected)
{
	char got[ANSWER];
	int fd = dial(d);
	ssize_t n;

	assert_int_equal(send(fd, request, len, MSG_NOSIGNAL), (ssize_t)len);
	n = hear(fd, got, sizeof got - 1);
	assert_true(n >= 0);
	got[n] = 0;
	assert_string_equal(got, expected);
}

static void the_page_is_answered(void **state)
{
	struct daemon *d = *state;

	for (int i = 0; i < 50; i++)
		answers(d, GET, strlen(GET), THE_PAGE);
	d->says = "";
	answers(d, GET, strlen(GET),
		"HTTP/1.1 200 OK\r\nContent-Type: text/x-test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	d->says = NULL;
	answers(d, GET, strlen(GET), ANSWER_OF("503 Service Unavailable", "20", "Service Unavailable\n"));
}

static void nothing_else_is(void **state)
{
	static const char other[] = "GET /status HTTP/1.0\r\n\r\n", post[] = "POST /metrics HTTP/1.0\r\n\r\nbody",
			  head[] = "HEAD /metrics HTTP/1.0\r\n\r\n", nul[] = "GET /metrics HTTP/1.0\r\nX: \0\r\n\r\n";
	static const char post_answer[] =
		"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n"
		"Allow: GET\r\nConnection: close\r\n\r\nMethod Not Allowed\n";
	static char endless[SL_REQUEST_MAX + 1];
	struct daemon *d = *state;

	answers(d, other, strlen(other), ANSWER_OF("404 Not Found", "10", "Not Found\n"));
	answers(d, post, strlen(post), post_answer);
	answers(d, head, strlen(head), strndupa(post_answer, strlen(post_answer) - 19));
	answers(d, nul, sizeof nul - 1, ANSWER_OF("400 Bad Request", "12", "Bad Request\n"));
	answers(d, "\026\003\001\001", 4, ANSWER_OF("400 Bad Request", "12", "Bad Request\n"));
	memset(endless, 'A', sizeof endless);
	answers(d, endless, sizeof endless,
		ANSWER_OF("431 Request Header Fields Too Large", "32", "Request Header Fields Too Large\n"));
	answers(d, GET, strlen(GET), THE_PAGE);
}

/* A request byte by byte; further requests behind the first, or
 * a megabyte of zeros: there is one answer, and it arrives. */
static void an_answer_is_never_lost(void **state)
{
	enum { MORE = 1 << 20 };
	struct daemon *d = *state;
	char *much = calloc(1, MORE), got[ANSWER];
	int fd = dial(d), flag = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &flag, sizeof flag);
	for (const char *at = GET; *at; at++)
		assert_int_equal(send(fd, at, 1, MSG_NOSIGNAL), 1);
	assert_int_equal(hear(fd, got, sizeof got), strlen(THE_PAGE));
	for (size_t i = 0; i + strlen(GET) < MORE; i += strlen(GET))
		memcpy(much + i, GET, strlen(GET));
	for (int i = 0; i < 2; i++) {
		fd = dial(d);
		for (size_t sent = 0; sent < MORE;) {
			ssize_t n = send(fd, much + sent, MORE - sent, MSG_NOSIGNAL);

			assert_true(n > 0);
			sent += (size_t)n;
		}
		assert_int_equal(hear(fd, got, sizeof got), strlen(THE_PAGE));
		memset(much + strlen(GET), 0, MORE - strlen(GET));
	}
	free(much);
}

/* A client that shuts down its sending side is still answered. */
static void a_half_closed_connection_is_answered(void **state)
{
	struct daemon *d = *state;
	char *got = malloc(LARGE + ANSWER);
	ssize_t n;
	int fd;

	d->large = LARGE; /* more than the kernel takes at once */
	fd = dial(d);
	assert_int_equal(send(fd, GET, strlen(GET), MSG_NOSIGNAL), strlen(GET));
	shutdown(fd, SHUT_WR);
	usleep(200000);
	n = hear(fd, got, LARGE + ANSWER);
	assert_true(n > LARGE);
	assert_int_equal(memcmp(got, "HTTP/1.1 200 OK\r\n", 17), 0);
	assert_non_null(memmem(got, 200, "Content-Length: 8388608\r\n", 25));
	d->large = 0;
	fd = dial(d);
	assert_int_equal(send(fd, GET, strlen(GET) - 2, MSG_NOSIGNAL),
			 strlen(GET) - 2); /* the stream ends within the head */
	shutdown(fd, SHUT_WR);
	n = hear(fd, got, ANSWER);
	assert_int_equal(memcmp(got, "HTTP/1.1 400 ", 13), 0);
	fd = dial(d);
	shutdown(fd, SHUT_WR);
	assert_int_equal(hear(fd, got, ANSWER), 0);
	free(got);
}

static bool is_closed(int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLRDHUP};

	return poll(&end, 1, 0) == 1 && end.revents;
}

/* Returns when the daemon's loop has answered one more request. */
static void let_it_turn(const struct daemon *d)
{
	static const char other[] = "GET / HTTP/1.0\r\n\r\n";

	answers(d, other, strlen(other), ANSWER_OF("404 Not Found", "10", "Not Found\n"));
}

struct loris {
	const char *text; /* one byte of it in each turn, then `then`, if there is one */
	const char *then;
	int fd, ms; /* ms: when it was closed; 0: not yet */
};

static void drip(struct loris *l, int ms)
{
	if (l->ms)
		return;
	if (*l->text || l->then)
		(void)!send(l->fd, *l->text ? l->text++ : l->then, 1, MSG_NOSIGNAL);
	if (is_closed(l->fd))
		l->ms = ms;
}

static void slow_ones_are_dropped(void **state)
{
	enum { TURN_MS = 50, END_MS = 20000, ENOUGH_MS = 4000 /* for the last one's GET */ };
	struct daemon *d = *state;
	struct loris slow[] = {
		{.text = ""}, /* silent */
		{.text = "GET /metrics HTTP/1.1\r\nHost: ", .then = "a"},
		{.text = GET, .then = "x"}, /* a large answer that it does not read */
	};
	int n = sizeof slow / sizeof slow[0], small = 4096, at_once = 1;

	d->large = LARGE;
	for (int i = 0; i < n; i++) {
		slow[i].fd = dial(d);
		setsockopt(slow[i].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
		/* a closed side answers a byte with a reset, but the kernel would hold the byte for up to 40 ms */
		setsockopt(slow[i].fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
	}
	for (int ms = TURN_MS; ms < END_MS; ms += TURN_MS) {
		for (int i = 0; i < n; i++)
			drip(&slow[i], ms);
		let_it_turn(d);
		still_clock_go_on(TURN_MS);
		if (ms == ENOUGH_MS) {
			d->large = 0;
			answers(d, GET, strlen(GET), THE_PAGE);
		}
	}
	for (int i = 0; i < n; i++) {
		close(slow[i].fd);
		if (slow[i].ms < 4800 || slow[i].ms > 5500)
			fail_msg("%d: after %d ms", i, slow[i].ms);
	}
}

/* A page of another site, whose name was pointed to this address, gets nothing. */
static void another_host_s_page_is_refused(void **state)
{
	static const char *const ours[] = {"a",         "A:1",           "\tlocalhost ", "LOCALHOST:9570",
					   "127.0.0.1", "10.1.2.3:9570", "[::1]",        "[fe80::1]:9570"},
				 *const others[] = {"b", "a.b", "", "localhost.example", "127.0.0.1.example:1",
						    "[", "a b"};
	struct daemon *d = *state;
	char head[100];

	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
		snprintf(head, sizeof head, "GET /metrics HTTP/1.1\r\nX: y\r\nhost:%s\r\n\r\n", ours[i]);
		if (!sl_request_is_for(head, strlen(head), names, 1))
			fail_msg("%s", ours[i]);
	}
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		snprintf(head, sizeof head, "GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", others[i]);
		if (sl_request_is_for(head, strlen(head), names, 1))
			fail_msg("%s", others[i]);
	}
	assert_true(sl_request_is_for("GET /metrics HTTP/1.0\r\n\r\n", 25, names, 1));
	answers(d, head, strlen(head),
		"HTTP/1.1 421 Misdirected Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 52\r\n"
		"Connection: close\r\n\r\nMisdirected Request: metrics_hosts has no such name\n");
}

/* However many connections are silent, a client that asks is answered at once, and only so many are kept open. */
static void many_connections_keep_nobody_out(void **state)
{
	enum { CROWD = 100 };
	struct daemon *d = *state;
	int fd[CROWD], gone = 0;

	for (int i = 0; i < CROWD; i++) {
		fd[i] = dial(d);
		if (i % 2)
			assert_int_equal(send(fd[i], "GET", 3, MSG_NOSIGNAL), 3);
	}
	let_it_turn(d);
	for (int i = 0; i < CROWD; i++)
		gone += is_closed(fd[i]);
	assert_true(gone >= CROWD - CLIENTS);
	for (int i = 0; i < 10; i++)
		answers(d, GET, strlen(GET), THE_PAGE);
	for (int i = 0; i < CROWD; i++)
		close(fd[i]);
	answers(d, GET, strlen(GET), THE_PAGE);
}

static void clients_of_a_daemon_that_ends(void **state)
{
	void *own = NULL;
	int fd[3];

	assert_int_equal(set_up(&own), 0);
	for (int i = 0; i < 3; i++)
		fd[i] = dial(own);
	assert_int_equal(send(fd[1], "GET /m", 6, MSG_NOSIGNAL), 6);
	answers(own, GET, strlen(GET), THE_PAGE);
	assert_int_equal(tear_down(&own), 0);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

static void addresses(void **state)
{
	static const char *const wrong[] = {"",
					    "9570",
					    ":9570",
					    "*:9570",
					    "127.0.0.1",
					    "127.0.0.1:",
					    "127.0.0.1:x",
					    "127.0.0.1:65536",
					    "a.example:1",
					    "[::1:1",
					    "[127.0.0.1]:1",
					    "::1",
					    "127.0.0.1:-1"};
	struct daemon *d = *state;
	struct sl_http_page page = {
		.path = "/metrics", .type = "text/x-test", .name = names, .n_name = 1, .text = text, .arg = d};
	struct sl_loop *loop;
	struct sl_http *http;
	struct sl_fail fail;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_int_equal(sl_http_open(&http, loop, wrong[i], &page, &fail), SL_ERR_CONFIG);
	assert_int_equal(sl_http_open(&http, loop, sl_http_address(d->http), &page, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "address already in use"));
	assert_int_equal(sl_http_open(&http, loop, "192.0.2.1:0", &page, &fail), SL_ERR_UNAVAILABLE);
	assert_int_equal(sl_http_open(&http, loop, "localhost:0", &page, &fail), SL_OK);
	assert_int_equal(strncmp(sl_http_address(http), "127.0.0.1:", 10), 0);
	sl_http_close(http);
	assert_int_equal(sl_http_open(&http, loop, "0.0.0.0:0", &page, &fail), SL_OK);
	assert_false(sl_http_is_loopback(http));
	sl_http_close(http);
	if (sl_http_open(&http, loop, "[::1]:0", &page, &fail) == SL_OK) { /* otherwise this host has no IPv6 */
		assert_int_equal(strncmp(sl_http_address(http), "[::1]:", 6), 0);
		assert_true(sl_http_is_loopback(http));
		sl_http_close(http);
		assert_int_equal(sl_http_open(&http, loop, "[::]:0", &page, &fail), SL_OK);
		assert_false(sl_http_is_loopback(http));
		sl_http_close(http);
	}
	sl_http_close(NULL);
	sl_loop_close(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_told_from_what_is_none),
		cmocka_unit_test(a_head_is_bounded),
		cmocka_unit_test_setup_teardown(another_host_s_page_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_page_is_answered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_else_is, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_answer_is_never_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_half_closed_connection_is_answered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slow_ones_are_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_connections_keep_nobody_out, set_up, tear_down),
		cmocka_unit_test(clients_of_a_daemon_that_ends),
		cmocka_unit_test_setup_teardown(addresses, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
