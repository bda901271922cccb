/* Connections without a session: how many may stay open, and which ones are cut. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/link/conns.h"
#include "tests/support/fake_peer.h"
#include "tests/support/link_end.h"
#include "tests/support/unit.h"

/* ---- the table */

enum { PAIRS = 8, LIMIT = 3, START_MS = 5000, HELLO_MS = 1000, STRANGER_BYTES = 1000, PEER_BYTES = 10000 };
enum { PER_S = 64, BURST = PER_S * SL_ARRIVALS_BURST_S, ADDRESS_BURST = PER_S / 2 * SL_ARRIVALS_ADDRESS_BURST_S };

struct pairs {
	int ours[PAIRS], theirs[PAIRS];
	struct sl_conns *conns;
};

/* The descriptor that `over` was called with last, and the number of its calls. */
static int over_fd, overs;

static void went_over(void *arg, int fd, uint64_t stamp)
{
	assert_ptr_equal(arg, &overs);
	assert_true(stamp);
	over_fd = fd;
	overs++;
}

static struct sl_conns *open_conns(int limit)
{
	const struct sl_conns_conf conf = {.limit = limit,
					   .hello_ms = HELLO_MS,
					   .stranger_bytes = STRANGER_BYTES,
					   .peer_bytes = PEER_BYTES,
					   .per_s = PER_S,
					   .over = went_over,
					   .arg = &overs};
	struct sl_conns *conns;

	overs = 0;
	assert_int_equal(sl_conns_open(&conns, &conf, START_MS, NULL), SL_OK);
	return conns;
}

static void open_pairs(struct pairs *p)
{
	p->conns = open_conns(LIMIT);
	for (int i = 0; i < PAIRS; i++) {
		int fd[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		p->ours[i] = fd[0];
		p->theirs[i] = fd[1];
		sl_conns_add(p->conns, fd[0]);
	}
	assert_int_equal(sl_conns_waiting(p->conns), PAIRS);
}

static bool is_cut(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Closes all pairs; exactly those marked x in `cut` must have been cut. */
static void close_pairs(struct pairs *p, const char *cut)
{
	for (int i = 0; i < PAIRS; i++) {
		if (is_cut(p->theirs[i]) != (cut[i] == 'x'))
			fail_msg("pair %d of %s", i, cut);
		close(p->ours[i]);
		close(p->theirs[i]);
	}
	sl_conns_close(p->conns);
}

static void the_oldest_go_first(void **state)
{
	struct pairs p;

	open_pairs(&p);
	sl_conns_trim(p.conns);
	assert_int_equal(sl_conns_waiting(p.conns), LIMIT);
	sl_conns_trim(p.conns);
	assert_int_equal(sl_conns_waiting(p.conns), LIMIT);
	close_pairs(&p, "xxxxx...");
}

/* The limit is at most half of the process's descriptors, whatever the config says. */
static void half_of_the_descriptors_are_left(void **state)
{
	struct rlimit fds, few;
	struct pairs p;

	open_pairs(&p);
	sl_conns_close(p.conns);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &fds), 0);
	few = (struct rlimit){PAIRS, fds.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	p.conns = open_conns(PAIRS - 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
	for (int i = 0; i < PAIRS; i++)
		sl_conns_add(p.conns, p.ours[i]);
	sl_conns_trim(p.conns);
	assert_int_equal(sl_conns_waiting(p.conns), PAIRS / 2);
	close_pairs(&p, "xxxx....");
}

static void who_has_a_session_is_not_of_them(void **state)
{
	struct pairs p;

	open_pairs(&p);
	assert_true(sl_conns_answered(p.conns, p.ours[0]));
	assert_true(sl_conns_answered(p.conns, p.ours[2]));
	sl_conns_trim(p.conns);
	assert_int_equal(sl_conns_waiting(p.conns), LIMIT);
	close_pairs(&p, ".x.xx...");
}

static void who_had_his_turn_goes_before_all(void **state)
{
	uint64_t stamp[6];
	struct pairs p;

	open_pairs(&p);
	for (int i = 0; i < 6; i++)
		stamp[i] = sl_conns_answered(p.conns, p.ours[i]);
	sl_conns_forget_peer(p.conns, p.ours[1], stamp[1]);
	sl_conns_forget_peer(p.conns, p.ours[0], stamp[1]); /* another connection's stamp: ignored */
	sl_conns_trim(p.conns);
	assert_int_equal(sl_conns_waiting(p.conns), LIMIT);
	sl_conns_forget_peer(p.conns, p.ours[4], stamp[4]);
	sl_conns_forget_peer(p.conns, p.ours[5], stamp[5]);
	sl_conns_trim(p.conns);
	close_pairs(&p, "....xx..");
}

/* A late message of a closed connection does not affect the connection that reuses its descriptor. */
static void who_is_late_takes_nobody_along(void **state)
{
	uint64_t late, whose;
	struct pairs p;

	open_pairs(&p);
	late = sl_conns_answered(p.conns, p.ours[0]);
	sl_conns_remove(p.conns, p.ours[0]);
	sl_conns_add(p.conns, p.ours[0]);
	whose = sl_conns_answered(p.conns, p.ours[0]);
	sl_conns_forget_peer(p.conns, p.ours[0], late);
	late = sl_conns_answered(p.conns, p.ours[0]);
	sl_conns_forget_peer(p.conns, p.ours[0], late);
	assert_int_equal(sl_conns_waiting(p.conns), PAIRS - 1);
	sl_conns_trim(p.conns);
	assert_false(is_cut(p.theirs[0]));
	sl_conns_forget_peer(p.conns, p.ours[0], whose);
	sl_conns_trim(p.conns);
	close_pairs(&p, "xxxxx...");
}

static void a_descriptor_is_used_again(void **state)
{
	uint64_t stamp;
	struct pairs p;

	open_pairs(&p);
	stamp = sl_conns_answered(p.conns, p.ours[0]);
	for (int i = 0; i < 6; i++)
		sl_conns_remove(p.conns, p.ours[i]);
	sl_conns_remove(p.conns, p.ours[0]);
	assert_int_equal(sl_conns_waiting(p.conns), 2);
	sl_conns_add(p.conns, p.ours[0]);
	sl_conns_forget_peer(p.conns, p.ours[0], stamp); /* the stamp of the earlier connection */
	sl_conns_add(p.conns, p.ours[7]);                /* the monitor's message about its end was lost */
	assert_int_equal(sl_conns_waiting(p.conns), 3);
	sl_conns_add(p.conns, p.ours[1]);
	sl_conns_trim(p.conns);
	close_pairs(&p, "......x.");
}

static void other_numbers_are_nobody(void **state)
{
	static const int bad[] = {-1, -1000, 1 << 30, 63, 64, 1 << 16};
	struct sl_conns *c;

	c = open_conns(LIMIT);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(sl_conns_answered(c, bad[i]), 0);
		sl_conns_forget_peer(c, bad[i], 1);
		sl_conns_forget_peer(c, bad[i], 0);
		sl_conns_remove(c, bad[i]);
	}
	assert_int_equal(sl_conns_waiting(c), 0);
	sl_conns_add(c, -1);
	sl_conns_add(c, 1 << 30);
	assert_int_equal(sl_conns_waiting(c), 0);
	sl_conns_trim(c);
	sl_conns_close(c);
	sl_conns_close(NULL);
}

static void watch_for(struct sl_conns *c, uint64_t *now_ms, uint64_t ms)
{
	for (uint64_t until = *now_ms + ms; *now_ms < until;) {
		*now_ms += 50;
		sl_conns_check(c, *now_ms);
	}
}

static void who_says_nothing_is_cut(void **state)
{
	uint64_t now_ms = START_MS, stamp[2];
	struct pairs p;

	open_pairs(&p);
	sl_conns_received(p.conns, p.ours[0], 10); /* its message is being answered */
	stamp[0] = sl_conns_answered(p.conns, p.ours[1]);
	stamp[1] = sl_conns_answered(p.conns, p.ours[2]);
	sl_conns_forget_peer(p.conns, p.ours[2], stamp[1]);
	watch_for(p.conns, &now_ms, HELLO_MS / 2);
	sl_conns_received(p.conns, p.ours[1], 10);
	sl_conns_forget_peer(p.conns, p.ours[1], stamp[0]); /* refused: it may try again */
	now_ms += 100 * HELLO_MS;                           /* the loop did not run */
	sl_conns_check(p.conns, now_ms);
	for (int i = 0; i < PAIRS; i++)
		assert_false(is_cut(p.theirs[i]));
	watch_for(p.conns, &now_ms, HELLO_MS / 2);
	for (int i = 0; i < PAIRS; i++)
		assert_int_equal(is_cut(p.theirs[i]), i > 1);
	watch_for(p.conns, &now_ms, HELLO_MS);
	close_pairs(&p, ".xxxxxxx");
}

/* ---- over TCP */

struct tcp {
	int ours, theirs;
};

static struct tcp open_tcp(int listener, const struct sockaddr_in *at)
{
	struct tcp t = {.theirs = socket(AF_INET, SOCK_STREAM, 0)};

	assert_true(t.theirs >= 0);
	assert_int_equal(connect(t.theirs, (const struct sockaddr *)at, sizeof *at), 0);
	assert_int_equal(setsockopt(t.theirs, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
	t.ours = accept(listener, NULL, NULL);
	assert_true(t.ours >= 0);
	return t;
}

/* Sends so many bytes, and waits until the other side's kernel has them. */
static void say(const struct tcp *t, size_t bytes)
{
	static const char zeros[2 * PEER_BYTES];
	int on_its_way = 1;

	assert_true(bytes <= sizeof zeros);
	assert_int_equal(send(t->theirs, zeros, bytes, MSG_NOSIGNAL), bytes);
	while (on_its_way)
		assert_int_equal(ioctl(t->theirs, SIOCOUTQ, &on_its_way), 0);
}

static void close_tcp(const struct tcp *t, bool cut)
{
	assert_int_equal(is_cut(t->theirs), cut);
	close(t->ours);
	close(t->theirs);
}

static int listen_here(struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
	assert_int_equal(listen(fd, BURST), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

/* A later connection may have the descriptor of an earlier one. Its bytes are no sign of life of the earlier peer. */
static void bytes_belong_to_their_connection(void **state)
{
	struct sl_conns *c = open_conns(LIMIT);
	struct sockaddr_in at;
	int listener = listen_here(&at);
	struct tcp peer = open_tcp(listener, &at);
	uint64_t first, second;

	sl_conns_add(c, peer.ours);
	first = sl_conns_answered(c, peer.ours);
	assert_int_equal(sl_conns_arrived(c, peer.ours, first), 0);
	say(&peer, 700);
	assert_int_equal(sl_conns_arrived(c, peer.ours, first), 700);
	assert_int_equal(sl_conns_arrived(c, peer.ours, 0), 0);
	sl_conns_remove(c, peer.ours);
	assert_int_equal(sl_conns_arrived(c, peer.ours, first), 0);
	sl_conns_add(c, peer.ours);
	second = sl_conns_answered(c, peer.ours);
	assert_int_equal(sl_conns_arrived(c, peer.ours, first), 0);
	assert_int_equal(sl_conns_arrived(c, peer.ours, second), 700);
	close_tcp(&peer, false);
	close(listener);
	sl_conns_close(c);
}

static void who_sends_more_than_may_wait_is_cut(void **state)
{
	struct sl_conns *c = open_conns(LIMIT);
	struct sockaddr_in at;
	int listener = listen_here(&at);
	struct tcp stranger = open_tcp(listener, &at), quiet = open_tcp(listener, &at), peer = open_tcp(listener, &at);

	sl_conns_add(c, stranger.ours);
	sl_conns_add(c, quiet.ours);
	sl_conns_add(c, peer.ours);
	assert_true(sl_conns_answered(c, peer.ours));
	say(&stranger, STRANGER_BYTES);
	say(&quiet, STRANGER_BYTES);
	say(&peer, PEER_BYTES);
	sl_conns_check(c, START_MS);
	assert_int_equal(sl_conns_waiting(c), 2);
	say(&stranger, 1);
	say(&peer, 1);
	sl_conns_received(c, peer.ours, 1);
	sl_conns_check(c, START_MS);
	assert_int_equal(sl_conns_waiting(c), 1);
	assert_int_equal(overs, 0);
	say(&peer, 1);
	sl_conns_check(c, START_MS);
	assert_int_equal(overs, 1);
	assert_int_equal(over_fd, peer.ours);
	assert_false(is_cut(peer.theirs)); /* the server can still tell it why */
	sl_conns_check(c, START_MS);
	close_tcp(&stranger, true);
	close_tcp(&quiet, false);
	close_tcp(&peer, true);
	close(listener);
	sl_conns_close(c);
}

/* The server may count more bytes as taken in than a message
 * had on the wire. That is no credit for later messages. */
static void what_was_taken_is_never_more_than_what_came(void **state)
{
	struct sl_conns *c = open_conns(LIMIT);
	struct sockaddr_in at;
	int listener = listen_here(&at);
	struct tcp peer = open_tcp(listener, &at);

	sl_conns_add(c, peer.ours);
	assert_true(sl_conns_answered(c, peer.ours));
	for (int i = 0; i < 20; i++) {
		say(&peer, 1);
		sl_conns_received(c, peer.ours, 100);
		sl_conns_check(c, START_MS);
	}
	say(&peer, PEER_BYTES + 1);
	sl_conns_check(c, START_MS);
	assert_int_equal(overs, 1);
	close_tcp(&peer, false);
	close(listener);
	sl_conns_close(c);
}

/* A refused peer may have as many bytes in flight as a session,
 * but all refused ones together have a single window. */
static void those_that_were_forgotten_share_one_window(void **state)
{
	struct sl_conns *c = open_conns(PAIRS);
	struct sockaddr_in at;
	int listener = listen_here(&at);
	struct tcp t[3];

	for (int i = 0; i < 3; i++) {
		t[i] = open_tcp(listener, &at);
		sl_conns_add(c, t[i].ours);
		sl_conns_forget_peer(c, t[i].ours, sl_conns_answered(c, t[i].ours));
	}
	say(&t[0], PEER_BYTES);
	say(&t[1], STRANGER_BYTES);
	sl_conns_check(c, START_MS);
	assert_int_equal(sl_conns_waiting(c), 3);
	say(&t[2], STRANGER_BYTES + 1);
	sl_conns_check(c, START_MS);
	assert_int_equal(sl_conns_waiting(c), 2);
	assert_int_equal(overs, 0);
	close_tcp(&t[0], t[0].ours > t[2].ours); /* the one checked last is cut */
	close_tcp(&t[1], false);
	close_tcp(&t[2], t[2].ours > t[0].ours);
	close(listener);
	sl_conns_close(c);
}

static void who_comes_too_often_is_cut(void **state)
{
	struct sl_conns *c = open_conns(BURST);
	struct sockaddr_in at;
	struct tcp t[ADDRESS_BURST + 2];
	int listener = listen_here(&at);
	struct sl_shut shut;

	for (int i = 0; i < ADDRESS_BURST + 2; i++) {
		t[i] = open_tcp(listener, &at);
		sl_conns_add(c, t[i].ours);
		assert_int_equal(sl_conns_shut(c, START_MS, &shut), i == ADDRESS_BURST);
	}
	assert_int_equal(shut.n, 1);
	assert_int_equal(sl_conns_total(c), ADDRESS_BURST + 2);
	for (int i = 0; i < ADDRESS_BURST + 2; i++)
		close_tcp(&t[i], i >= ADDRESS_BURST);
	close(listener);
	sl_conns_close(c);
}

/* ---- a server */

enum { FDS = 256, STRANGERS = 300, ROUND = 20, SETTLE_MS = 20, ENOUGH_FDS = 2048 };

static rlim_t allow_fds(rlim_t n)
{
	struct rlimit r;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	before = r.rlim_cur;
	if (r.rlim_max != RLIM_INFINITY && r.rlim_max < n)
		skip();
	r.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	return before;
}

/* A ZeroMQ client that finishes its handshake and then sends nothing. */
static int stranger(const char *endpoint)
{
	static const char ready[] = "\4\34\5READY\13Socket-Type\0\0\0\6DEALER";
	const struct fake_greeting g = fake_greeting("NULL");
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	(void)!send(fd, g.byte, sizeof g.byte, MSG_NOSIGNAL);
	(void)!send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL);
	return fd;
}

static bool stands(int fd)
{
	char heard[256];
	ssize_t n;

	do
		n = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
	while (n > 0);
	return n < 0 && errno == EAGAIN;
}

static void strangers_take_neither_places_nor_sessions(void **state)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, good, refused, newcomer;
	int fd[STRANGERS], standing = 0;
	rlim_t before;

	before = allow_fds(FDS);
	link_end_open_server(&server, loop, "tcp://127.0.0.1:*");
	allow_fds(ENOUGH_FDS);
	link_end_open_client(&good, loop, sl_transport_endpoint(server.transport));
	link_end_open_client(&refused, loop, sl_transport_endpoint(server.transport));
	link_end_ping(&good, &server);
	link_end_ping(&refused, &server);
	sl_transport_forget(server.transport, server.peer);
	for (int i = 0; i < STRANGERS; i++) {
		fd[i] = stranger(sl_transport_endpoint(server.transport));
		if (i % ROUND == ROUND - 1)
			link_end_run_for(loop, SETTLE_MS);
	}
	link_end_open_client(&newcomer, loop, sl_transport_endpoint(server.transport));
	link_end_ping(&newcomer, &server);
	link_end_ping(&good, &server);
	link_end_run_for(loop, 200);
	for (int i = 0; i < STRANGERS; i++)
		standing += stands(fd[i]);
	assert_in_range(standing, FDS / 2 - 2, FDS / 2);
	assert_true(stands(fd[STRANGERS - 1]));
	assert_int_equal(good.lost + newcomer.lost, 0);
	assert_int_equal(refused.lost, 1);
	for (int i = 0; i < STRANGERS; i++)
		close(fd[i]);
	sl_transport_close(good.transport, 0);
	sl_transport_close(refused.transport, 0);
	sl_transport_close(newcomer.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
	allow_fds(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_go_first),
		cmocka_unit_test(half_of_the_descriptors_are_left),
		cmocka_unit_test(who_has_a_session_is_not_of_them),
		cmocka_unit_test(who_had_his_turn_goes_before_all),
		cmocka_unit_test(who_is_late_takes_nobody_along),
		cmocka_unit_test(a_descriptor_is_used_again),
		cmocka_unit_test(other_numbers_are_nobody),
		cmocka_unit_test(who_says_nothing_is_cut),
		cmocka_unit_test(bytes_belong_to_their_connection),
		cmocka_unit_test(who_sends_more_than_may_wait_is_cut),
		cmocka_unit_test(what_was_taken_is_never_more_than_what_came),
		cmocka_unit_test(those_that_were_forgotten_share_one_window),
		cmocka_unit_test(who_comes_too_often_is_cut),
		cmocka_unit_test(strangers_take_neither_places_nor_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
