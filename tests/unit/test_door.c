/* A server's transport against connections that choose their own identity, never end a
 * message, or send more than they may. A well-behaved client is served all the time. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "common/link/door.h"
#include "common/link/peers.h"
#include "tests/support/fake_peer.h"
#include "tests/support/link_end.h"
#include "tests/support/unit.h"

enum { MORE = 1, LONG = 2, FRAME = LINK_END_PART, WINDOW = 4 * LINK_END_PART, HWM = 64, HEADER = 100, WAIT_S = 20 };

struct rig {
	struct link_end server, client;
	struct sl_loop *loop;
	int visitor; /* a connection that comes while the server takes in a message */
};

static void open_rig_with(struct rig *r, const struct sl_transport_events *events)
{
	const struct sl_transport_conf conf = {
		.endpoint = "tcp://127.0.0.1:*", .part_bytes = LINK_END_PART, .hwm = HWM, .window_bytes = WINDOW};
	struct sl_fail fail;

	*r = (struct rig){0};
	r->loop = r->server.loop = link_end_open_loop();
	if (sl_transport_bind(&r->server.transport, r->loop, &conf, events, &r->server, &fail))
		fail_msg("%s", fail.text);
	link_end_open_client(&r->client, r->loop, sl_transport_endpoint(r->server.transport));
	link_end_ping(&r->client, &r->server);
}

static void open_rig(struct rig *r)
{
	open_rig_with(r, &link_end_events);
}

static void close_rig(struct rig *r)
{
	link_end_ping(&r->client, &r->server);
	assert_int_equal(r->client.lost, 0);
	sl_transport_close(r->client.transport, 0);
	sl_transport_close(r->server.transport, 0);
	sl_loop_close(r->loop);
}

static int connect_raw(const struct rig *r)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(sl_transport_endpoint(r->server.transport), ':') + 1));
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = WAIT_S}, sizeof(struct timeval)),
		0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

/* A connection that has finished its handshake. `identity` NULL: it announces none. */
static int open_raw(const struct rig *r, const char *identity, size_t len)
{
	static const char type[] = "\5READY\13Socket-Type\0\0\0\6DEALER";
	const struct fake_greeting g = fake_greeting("NULL");
	uint8_t ready[256] = {4, (uint8_t)(sizeof type - 1 + (identity ? 13 + len : 0))};
	size_t n = 2 + sizeof type - 1;
	int fd = connect_raw(r);
	uint8_t heard[sizeof g.byte + 8];
	size_t got = 0;

	memcpy(ready + 2, type, sizeof type - 1);
	if (identity) {
		memcpy(ready + n, "\10Identity\0\0\0", 12);
		ready[n + 12] = (uint8_t)len;
		memcpy(ready + n + 13, identity, len);
		n += 13 + len;
	}
	assert_int_equal(send(fd, g.byte, sizeof g.byte, MSG_NOSIGNAL), sizeof g.byte);
	assert_int_equal(send(fd, ready, n, MSG_NOSIGNAL), n);
	/* The peer's greeting and the beginning of its READY: sending
	 * a message before that would break the handshake.
	 * MSG_WAITALL would not do: the loop's io_uring interrupts recv, which then returns a part. */
	while (got < sizeof heard) {
		ssize_t part = TEMP_FAILURE_RETRY(recv(fd, heard + got, sizeof heard - got, 0));

		assert_true(part > 0);
		got += (size_t)part;
	}
	return fd;
}

/* Sends one frame. False: the connection is closed. */
static bool put(int fd, bool more, size_t len)
{
	static uint8_t frame[9 + FRAME];
	size_t sent = 0;

	memset(frame, 0, 9);
	frame[0] = (uint8_t)(LONG | (more ? MORE : 0));
	for (int i = 0; i < 8; i++)
		frame[1 + i] = (uint8_t)((uint64_t)len >> 8 * (7 - i));
	memset(frame + 9, 'x', HEADER);
	while (sent < 9 + len) {
		ssize_t n = TEMP_FAILURE_RETRY(send(fd, frame + sent, 9 + len - sent, MSG_NOSIGNAL));

		if (n <= 0)
			return false;
		sent += (size_t)n;
	}
	return true;
}

static bool is_over(int fd)
{
	char heard[4096];
	ssize_t n;

	do
		n = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno != EAGAIN;
}

static void await_end(struct rig *r, int fd)
{
	for (int i = 0; !is_over(fd); i++) {
		assert_true(i < WAIT_S * 100);
		link_end_run_for(r->loop, 10);
	}
	close(fd);
}

/* Waits until the other side's kernel has everything. */
static void await_arrival(int fd)
{
	int waiting = 1;

	for (int i = 0; waiting; i++) {
		assert_int_equal(ioctl(fd, SIOCOUTQ, &waiting), 0);
		assert_true(i < WAIT_S * 1000);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static void who_numbers_itself_is_cut(void **state)
{
	static const struct {
		const char *id;
		size_t len;
	} names[] = {{"somebody", 8}, {"\0", 1}, {"\0abcd", 5}, {"\0\xff\xff\xff\xff", 5}, {"abcde", 5}};
	struct rig r;

	open_rig(&r);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		uint64_t messages = r.server.messages;
		int fd = open_raw(&r, names[i].id, names[i].len);

		assert_true(put(fd, true, HEADER) && put(fd, false, 0));
		await_end(&r, fd);
		assert_int_equal(r.server.messages, messages);
		assert_int_equal(r.server.malformed, i + 1);
	}
	close_rig(&r);
}

/* Peers with an identity assigned by ZeroMQ are accepted, also
 * if many come and go between two looks at the monitor. */
static void who_is_numbered_gets_in(void **state)
{
	enum { MANY = 60 };
	int fd[MANY];
	struct rig r;

	open_rig(&r);
	r.server.echo = false;
	r.server.stop_at = r.server.messages + MANY;
	for (int i = 0; i < MANY; i++) {
		fd[i] = open_raw(&r, i % 2 ? "" : NULL, 0);
		assert_true(put(fd[i], true, HEADER) && put(fd[i], false, 0));
	}
	link_end_run(r.loop);
	assert_int_equal(r.server.malformed, 0);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	close_rig(&r);
}

/* sl_door_seed lets ZeroMQ's count of peers start at random: a
 * peer that announces the next number makes ZeroMQ abort. */
static void counts_begin_anywhere(void **state)
{
	uint32_t numbers[8] = {0};
	struct rig r;

	for (int i = 0; i < 8; i++) {
		uint8_t id[SL_PEER_ID_BYTES] = {0};
		void *context = zmq_ctx_new(), *router, *dealer;

		assert_int_equal(sl_door_seed(NULL), SL_OK);
		router = zmq_socket(context, ZMQ_ROUTER);
		dealer = zmq_socket(context, ZMQ_DEALER);
		zmq_setsockopt(dealer, ZMQ_LINGER, &(int){0}, sizeof(int));
		assert_int_equal(zmq_bind(router, "inproc://x"), 0);
		assert_int_equal(zmq_connect(dealer, "inproc://x"), 0);
		assert_int_equal(zmq_send(dealer, "", 0, 0), 0);
		assert_int_equal(zmq_recv(router, id, sizeof id, 0), sizeof id);
		memcpy(&numbers[i], id + 1, sizeof numbers[i]);
		for (int j = 0; j < i; j++)
			assert_true(numbers[j] != numbers[i]);
		zmq_close(dealer);
		zmq_close(router);
		zmq_ctx_term(context);
	}
	open_rig(&r);
	close_rig(&r);
}

static void a_message_without_an_end_is_cut(void **state)
{
	size_t sent = 0;
	struct rig r;
	int fd;

	open_rig(&r);
	fd = open_raw(&r, NULL, 0);
	while (!is_over(fd) && put(fd, true, FRAME)) {
		sent += FRAME;
		link_end_run_for(r.loop, 1);
		assert_true(sent < 1 << 30);
	}
	await_end(&r, fd);
	assert_int_equal(r.server.malformed, 0); /* no event ever named this peer */
	close_rig(&r);
}

/* The same for a peer that was answered: the transport reports it, and then cuts it. */
static void so_is_that_of_a_peer(void **state)
{
	uint64_t malformed;
	size_t sent = 0;
	struct rig r;
	int fd;

	open_rig(&r);
	fd = open_raw(&r, NULL, 0);
	malformed = r.server.malformed;
	r.server.stop_at = r.server.messages + 1;
	assert_true(put(fd, true, HEADER) && put(fd, false, 0));
	link_end_run(r.loop); /* the message is echoed */
	while (!is_over(fd) && put(fd, true, FRAME)) {
		sent += FRAME;
		link_end_run_for(r.loop, 1);
		assert_true(sent < 1 << 30);
	}
	await_end(&r, fd);
	assert_true(sent > WINDOW);
	assert_int_equal(r.server.malformed, malformed + 1);
	close_rig(&r);
}

static void talk(struct rig *r, int fd, int parts)
{
	r->server.echo = true;
	r->server.stop_at = r->server.messages + 1;
	assert_true(put(fd, true, HEADER) && put(fd, false, 0));
	link_end_run(r->loop);
	r->server.echo = false;
	r->server.stop_at = 0;
	for (int i = 0; i < parts; i++)
		assert_true(put(fd, true, HEADER) && put(fd, false, FRAME));
	await_arrival(fd); /* meanwhile the loop stands still: the next thing it does is to check */
	nanosleep(&(struct timespec){.tv_nsec = 2 * SL_DOOR_WATCH_MS * 1000000L}, NULL);
}

static void who_sends_more_than_its_credit_is_cut(void **state)
{
	struct rig r;
	int fd;

	open_rig(&r);
	fd = open_raw(&r, NULL, 0);
	for (int i = 0; i < 3; i++) { /* as much as may be in flight */
		uint64_t parts = r.server.payload_bytes;

		talk(&r, fd, WINDOW / FRAME);
		while (r.server.payload_bytes < parts + WINDOW)
			link_end_run_for(r.loop, 10);
		assert_int_equal(r.server.malformed, 0);
	}
	r.server.stop_on_malformed = true;
	talk(&r, fd, WINDOW / FRAME + (2 << 20) / FRAME);
	link_end_run(r.loop);
	assert_int_equal(r.server.malformed, 1);
	r.server.stop_on_malformed = false;
	await_end(&r, fd);
	close_rig(&r);
}

/* While the server takes in the client's second message, another client connects and sends a Hello. */
static void let_a_visitor_in(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct rig *r = arg; /* `server` is its first member */

	link_end_message(&r->server, peer, header, payload);
	if (r->server.messages != 2)
		return;
	r->visitor = open_raw(r, NULL, 0);
	assert_true(put(r->visitor, true, HEADER) && put(r->visitor, false, 0));
	await_arrival(r->visitor);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* time for ZeroMQ's thread to read it */
}

/* Connections that never send anything make the transport's count of connections
 * run ahead of ZeroMQ's. A peer whose message comes before the monitor's event
 * is still known: its Hello may be longer than a stranger's limit. */
static void a_visitor_is_known_once_it_is_answered(void **state)
{
	struct sl_transport_events events = link_end_events;
	struct rig r;

	events.message = let_a_visitor_in;
	open_rig_with(&r, &events);
	for (int i = 0; i < 3; i++)
		close(connect_raw(&r));
	link_end_run_for(r.loop, 20);
	link_end_ping(&r.client, &r.server);
	while (r.server.messages < 3)
		link_end_run_for(r.loop, 10);
	r.server.stop_at = r.server.messages + 4;
	for (int i = 0; i < 4; i++)
		assert_true(put(r.visitor, true, HEADER) && put(r.visitor, false, FRAME));
	await_arrival(r.visitor);
	nanosleep(&(struct timespec){.tv_nsec = 2 * SL_DOOR_WATCH_MS * 1000000L}, NULL);
	link_end_run(r.loop);
	assert_false(is_over(r.visitor));
	close(r.visitor);
	close_rig(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_numbers_itself_is_cut),
		cmocka_unit_test(who_is_numbered_gets_in),
		cmocka_unit_test(counts_begin_anywhere),
		cmocka_unit_test(a_message_without_an_end_is_cut),
		cmocka_unit_test(so_is_that_of_a_peer),
		cmocka_unit_test(who_sends_more_than_its_credit_is_cut),
		cmocka_unit_test(a_visitor_is_known_once_it_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
