/* What the client's own TCP connection finds at an endpoint that does not answer ZMTP: all kinds of
 * peers, none of them trusted. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/loop.h"
#include "common/link/probe.h"
#include "tests/support/fake_peer.h"
#include "tests/support/still_clock.h"
#include "tests/support/unit.h"

enum { MS = 120000, SHORT_MS = 150, LATE_MS = 60000 };

/* ---- the bytes of a greeting */

static struct sl_bytes first(const struct fake_greeting *g, size_t len)
{
	return (struct sl_bytes){g->byte, len};
}

static void a_greeting_tells_its_mechanism(void **state)
{
	static const struct {
		const char *mechanism;
		enum sl_greeting greeting;
	} cases[] = {
		{"NULL", SL_GREETING_NULL},
		{"CURVE", SL_GREETING_CURVE},
		{"PLAIN", SL_GREETING_OTHER},
		{"GSSAPI", SL_GREETING_OTHER},
		{"", SL_GREETING_OTHER},
		{"CURVE2", SL_GREETING_OTHER},
		{"NUL", SL_GREETING_OTHER},
		{"curve", SL_GREETING_OTHER},
		{"AMECHANISMOF20LETTER", SL_GREETING_OTHER},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fake_greeting g = fake_greeting(cases[i].mechanism);

		for (size_t len = 0; len <= sizeof g.byte; len++)
			assert_int_equal(sl_greeting_read(first(&g, len)),
					 len < 32 ? SL_GREETING_PART : cases[i].greeting);
	}
}

static void what_is_no_greeting_is_seen_as_soon_as_it_shows(void **state)
{
	struct fake_greeting g = fake_greeting("CURVE");

	assert_int_equal(sl_greeting_read((struct sl_bytes){(const uint8_t *)"H", 1}), SL_GREETING_ALIEN);
	assert_int_equal(sl_greeting_read((struct sl_bytes){(const uint8_t *)"", 1}), SL_GREETING_ALIEN);
	g.byte[9] = 0; /* a frame of ZMTP 1.0 */
	assert_int_equal(sl_greeting_read(first(&g, 9)), SL_GREETING_PART);
	assert_int_equal(sl_greeting_read(first(&g, 10)), SL_GREETING_ALIEN);
	g = fake_greeting("CURVE");
	for (int major = 0; major < 256; major++) {
		g.byte[10] = (uint8_t)major;
		assert_int_equal(sl_greeting_read(first(&g, 10)), SL_GREETING_PART);
		assert_int_equal(sl_greeting_read(first(&g, 11)), major < 3 ? SL_GREETING_OLD : SL_GREETING_PART);
	}
	for (int i = 0; i < SL_GREETING_COUNT; i++)
		assert_true(strlen(sl_greeting_text((enum sl_greeting)i)) < SL_PROBE_TEXT);
}

static void who_has_keys_wants_one_that_has(void **state)
{
	struct sl_fail fail = {0};

	for (int i = 0; i < SL_GREETING_COUNT; i++) {
		enum sl_greeting g = (enum sl_greeting)i;

		for (int keys = 0; keys < 2; keys++) {
			bool differ = g == (keys ? SL_GREETING_NULL : SL_GREETING_CURVE);

			fail.code = SL_OK;
			assert_int_equal(sl_greeting_judge(g, keys, NULL, "tcp://h:1", &fail),
					 differ ? SL_ERR_AUTH : SL_OK);
			assert_int_equal(fail.code, differ ? SL_ERR_AUTH : SL_OK);
		}
	}
	assert_int_equal(sl_greeting_judge(SL_GREETING_NULL, true, "12ab-34cd", "tcp://h:1", &fail), SL_ERR_AUTH);
	assert_string_equal(
		fail.text, "tcp://h:1 does not authenticate: its config has no auth section, but this client's has one "
			   "(the fingerprint of its key is 12ab-34cd)");
}

/* ---- the network */

/* Binds a socket to a free port of the loopback interface, and writes its endpoint. */
static int bound(char endpoint[64])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(endpoint, 64, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	return fd;
}

static void says_what_the_network_says(void **state)
{
	char endpoint[64], out[SL_PROBE_TEXT], again[SL_PROBE_TEXT];
	int fd = bound(endpoint);

	assert_int_equal(sl_probe_wait(endpoint, MS, out), SL_GREETING_PART);
	assert_string_equal(out, "Connection refused");
	close(fd);
	sl_probe_wait("tcp://no-such-host.invalid:5570", MS, out);
	assert_ptr_equal(strstr(out, "no-such-host.invalid: "), out);
	sl_probe_wait("tcp://[::1]:1", MS, out);
	sl_probe_wait("tcp://[::1]:2", MS, again);
	assert_string_equal(out, again);
	for (const char *const *bad =
		     (const char *const[]){"tcp://", "tcp://:1", "tcp://a:123456789", "ipc://a:1", "", NULL};
	     *bad; bad++) {
		assert_int_equal(sl_probe_wait(*bad, MS, out), SL_GREETING_PART);
		assert_string_equal(out, "no address");
	}
}

/* Sends SIGTERM as soon as the process has a handler for it. */
static void *terminate(void *arg)
{
	struct sigaction now;

	(void)arg;
	do {
		usleep(1000);
		sigaction(SIGTERM, NULL, &now);
	} while (now.sa_handler == SIG_IGN || now.sa_handler == SIG_DFL);
	kill(getpid(), SIGTERM);
	return NULL;
}

/* A signal ends a program that waits for a probe: it does not wait for the deadline. */
static void a_signal_ends_the_wait(void **state)
{
	uint64_t from_ms = sl_now_ms();
	char endpoint[64], out[SL_PROBE_TEXT];
	int fd = bound(endpoint);
	pthread_t thread;

	assert_int_equal(listen(fd, 1), 0); /* it never sends a byte */
	assert_int_equal(pthread_create(&thread, NULL, terminate, NULL), 0);
	assert_int_equal(sl_probe_wait(endpoint, 4 * MS, out), SL_GREETING_PART);
	assert_string_equal(out, "interrupted by signal 15");
	assert_in_range(sl_now_ms() - from_ms, 0, 2 * MS);
	pthread_join(thread, NULL);
	close(fd);
}

/* ---- peers */

struct peer_case {
	const char *name;
	struct fake_peer peer;
	int ms; /* the probe's deadline; 0: the test must end without one */
	enum sl_greeting greeting;
	const char *text;
};

/* The probe's clock starts after its peer has sent its bytes, if it sends any. */
static void *start_clock(void *arg)
{
	struct peer_case *c = arg;

	while (c->ms && c->peer.say && !c->peer.said)
		usleep(1000);
	still_clock_start();
	return NULL;
}

static void check_peer(struct peer_case *c)
{
	char text[SL_PROBE_TEXT] = "";
	uint64_t from_ms, took_ms;
	enum sl_greeting greeting;
	pthread_t clock;

	fake_peer_open(&c->peer);
	still_clock_stop();
	from_ms = sl_now_ms();
	assert_int_equal(pthread_create(&clock, NULL, start_clock, c), 0);
	greeting = sl_probe_wait(c->peer.endpoint, c->ms ? c->ms : MS, text);
	took_ms = sl_now_ms() - from_ms;
	pthread_join(clock, NULL);
	fake_peer_close(&c->peer);
	if (greeting != c->greeting || !strstr(text, c->text))
		fail_msg("%s: %d, \"%s\"", c->name, (int)greeting, text);
	if (took_ms > LATE_MS || (c->ms && took_ms < (uint64_t)c->ms - 1))
		fail_msg("%s: after %d ms", c->name, (int)took_ms);
}

static void every_kind_of_peer_is_told_apart(void **state)
{
	static const uint8_t http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	static uint8_t garbage[1 << 20];
	const struct fake_greeting null = fake_greeting("NULL"), curve = fake_greeting("CURVE"),
				   plain = fake_greeting("PLAIN");
	struct fake_greeting old = fake_greeting("");
	struct peer_case cases[] = {
		{"silence", {.end = FAKE_HOLD}, SHORT_MS, SL_GREETING_PART, "sends nothing"},
		{"hanging up", {.end = FAKE_CLOSE}, 0, SL_GREETING_PART, "closes the connection at once"},
		{"reset", {.end = FAKE_RESET}, 0, SL_GREETING_PART, ""},
		{"http", {.say = http, .len = sizeof http - 1}, 0, SL_GREETING_ALIEN, "does not speak ZMTP"},
		{"flood", {.say = garbage, .len = sizeof garbage}, 0, SL_GREETING_ALIEN, "does not speak ZMTP"},
		{"flood of signatures",
		 {.say = garbage + 64, .len = sizeof garbage - 64},
		 0,
		 SL_GREETING_OTHER,
		 "neither"},
		{"whole", {.say = null.byte, .len = 64}, 0, SL_GREETING_NULL, "without keys"},
		{"whole, and gone",
		 {.say = curve.byte, .len = 64, .end = FAKE_CLOSE},
		 0,
		 SL_GREETING_CURVE,
		 "with keys"},
		{"byte by byte",
		 {.say = curve.byte, .len = 64, .at_once = 1, .pause_ms = 2},
		 0,
		 SL_GREETING_CURVE,
		 "with keys"},
		{"too slowly",
		 {.say = curve.byte, .len = 64, .at_once = 1, .pause_ms = 40},
		 SHORT_MS,
		 SL_GREETING_PART,
		 "did not finish it"},
		{"half", {.say = curve.byte, .len = 20}, SHORT_MS, SL_GREETING_PART, "did not finish it"},
		{"half, and gone",
		 {.say = curve.byte, .len = 31, .end = FAKE_CLOSE},
		 0,
		 SL_GREETING_PART,
		 "did not finish it"},
		{"as much as it takes", {.say = curve.byte, .len = 32}, 0, SL_GREETING_CURVE, "with keys"},
		{"another mechanism", {.say = plain.byte, .len = 64}, 0, SL_GREETING_OTHER, "neither"},
		{"ZMTP 2", {.say = old.byte, .len = 12}, 0, SL_GREETING_OLD, "older"},
		{"snatching", {.say = curve.byte, .len = 64, .snatches = true}, 0, SL_GREETING_CURVE, "with keys"},
	};

	old.byte[10] = 1;
	memset(garbage, 0x7f, 64);
	memset(garbage + 64, 0xff, sizeof garbage - 64);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		check_peer(&cases[i]);
}

/* The few bytes of the probe must make ZeroMQ itself send its mechanism. */
static void zeromq_is_heard_whole(void **state)
{
	static const struct {
		int option;
		enum sl_greeting greeting;
	} cases[] = {
		{0, SL_GREETING_NULL}, {ZMQ_PLAIN_SERVER, SL_GREETING_OTHER}, {ZMQ_CURVE_SERVER, SL_GREETING_CURVE}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
		char endpoint[256], text[SL_PROBE_TEXT], public_key[41], secret_key[41];
		size_t len = sizeof endpoint;

		assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int)), 0);
		if (cases[i].option)
			assert_int_equal(zmq_setsockopt(socket, cases[i].option, &(int){1}, sizeof(int)), 0);
		if (cases[i].option == ZMQ_CURVE_SERVER) {
			assert_int_equal(zmq_curve_keypair(public_key, secret_key), 0);
			assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, 41), 0);
		}
		assert_int_equal(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
		assert_int_equal(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &len), 0);
		for (int times = 0; times < 20; times++)
			assert_int_equal(sl_probe_wait(endpoint, MS, text), cases[i].greeting);
		zmq_close(socket);
		zmq_ctx_term(context);
	}
}

/* ---- lifetime */

static void must_not_come(void *arg, enum sl_greeting greeting, const char *text)
{
	(void)arg;
	fail_msg("%d, \"%s\" from a probe that is closed", (int)greeting, text);
}

static void stop_loop(void *arg)
{
	sl_loop_stop(arg);
}

/* A probe can be closed at every stage. It then calls nothing any more, and frees all (the sanitizers check). */
static void a_probe_can_be_closed_at_any_time(void **state)
{
	struct fake_peer peer = {.at_once = 1, .say = (const uint8_t *)"\xff", .len = 1, .pause_ms = 3};
	struct sl_loop *loop;
	struct sl_timer *timer;
	struct sl_probe *probe;
	struct sl_fail fail;

	sl_probe_close(NULL);
	fake_peer_open(&peer);
	for (int after_ms = 0; after_ms < 12; after_ms++) {
		assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
		assert_int_equal(sl_timer_open(&timer, loop, stop_loop, loop, &fail), SL_OK);
		assert_int_equal(sl_probe_open(&probe, loop, peer.endpoint, false, MS, must_not_come, NULL, &fail),
				 SL_OK);
		if (after_ms) {
			sl_timer_start(timer, (uint64_t)after_ms, 0);
			sl_loop_run(loop);
		}
		sl_probe_close(probe);
		sl_timer_start(timer, 20, 0);
		if (after_ms % 2)
			sl_loop_run(loop);
		sl_timer_close(timer);
		sl_loop_close(loop);
	}
	fake_peer_close(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_tells_its_mechanism),
		cmocka_unit_test(what_is_no_greeting_is_seen_as_soon_as_it_shows),
		cmocka_unit_test(who_has_keys_wants_one_that_has),
		cmocka_unit_test(says_what_the_network_says),
		cmocka_unit_test(a_signal_ends_the_wait),
		cmocka_unit_test(every_kind_of_peer_is_told_apart),
		cmocka_unit_test(zeromq_is_heard_whole),
		cmocka_unit_test(a_probe_can_be_closed_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
