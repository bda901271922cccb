/* The limit on new connections per second, and the kernel filter that drops the SYNs of addresses above it. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/link/arrivals.h"
#include "common/link/synfilter.h"
#include "tests/support/unit.h"

enum { START_MS = 1000000, HOUR_MS = 3600000, MANY = 1000 };
enum { PER_S = 64, BURST = PER_S * SL_ARRIVALS_BURST_S };
enum { PER_ADDRESS_S = PER_S / 2, ADDRESS_BURST = PER_ADDRESS_S * SL_ARRIVALS_ADDRESS_BURST_S };

static struct sl_address ip4(uint32_t host)
{
	const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};

	return sl_address_of((const struct sockaddr *)&in);
}

static struct sl_address ip6(const char *text)
{
	struct sockaddr_in6 in = {.sin6_family = AF_INET6};

	assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
	return sl_address_of((const struct sockaddr *)&in);
}

static bool same(struct sl_address a, struct sl_address b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

static struct sl_arrivals *open_arrivals(void)
{
	struct sl_arrivals *a;

	assert_int_equal(sl_arrivals_open(&a, PER_S, START_MS, NULL), SL_OK);
	return a;
}

static int admitted(struct sl_arrivals *a, struct sl_address from, int n, uint64_t now_ms)
{
	int in = 0;

	for (int i = 0; i < n; i++)
		in += sl_arrivals_admit(a, &from, now_ms);
	return in;
}

static void addresses_are_hosts_and_networks(void **state)
{
	const struct sockaddr other = {.sa_family = AF_UNIX};

	assert_true(same(ip4(0x7f000001), ip6("::ffff:127.0.0.1")));
	assert_false(same(ip4(0x7f000001), ip4(0x7f000002)));
	assert_true(same(ip6("2001:db8:1:2::1"), ip6("2001:db8:1:2:ffff::")));
	assert_false(same(ip6("2001:db8:1:2::1"), ip6("2001:db8:1:3::1")));
	assert_true(same(sl_address_of(&other), (struct sl_address){{0}}));
}

static void one_address_has_its_budget(void **state)
{
	struct sl_arrivals *a = open_arrivals();
	struct sl_shut shut;

	assert_int_equal(admitted(a, ip4(1), ADDRESS_BURST, START_MS), ADDRESS_BURST);
	assert_false(sl_arrivals_shut(a, START_MS, &shut));
	assert_int_equal(shut.n, 0);
	assert_int_equal(admitted(a, ip4(1), 1, START_MS), 0);
	assert_true(sl_arrivals_shut(a, START_MS, &shut));
	assert_int_equal(shut.n, 1);
	assert_true(same(shut.address[0], ip4(1)) && !shut.all);
	assert_int_equal(admitted(a, ip4(2), 10, START_MS), 10);
	assert_false(sl_arrivals_shut(a, START_MS + 1000, &shut)); /* not yet half of the budget is back */
	assert_int_equal(admitted(a, ip4(1), MANY, START_MS + 1000), PER_ADDRESS_S - 1);
	assert_false(sl_arrivals_shut(a, START_MS + 10000, &shut)); /* refused connections use budget, too */
	assert_int_equal(shut.n, 1);
	assert_true(sl_arrivals_shut(a, START_MS + HOUR_MS, &shut));
	assert_int_equal(shut.n, 0);
	assert_int_equal(admitted(a, ip4(1), MANY, START_MS + HOUR_MS), ADDRESS_BURST);
	sl_arrivals_close(a);
}

static void all_of_them_have_one(void **state)
{
	struct sl_arrivals *a = open_arrivals();
	struct sl_shut shut;
	int in = 0;

	/* Connections that are refused by the budget of their address use none of the common budget. */
	assert_int_equal(admitted(a, ip4(1), MANY, START_MS), ADDRESS_BURST);
	for (uint32_t i = 2; i < MANY; i++)
		in += admitted(a, ip4(i), 1, START_MS);
	assert_int_equal(in, BURST - ADDRESS_BURST);
	assert_true(sl_arrivals_shut(a, START_MS, &shut));
	assert_true(shut.all);
	assert_true(sl_arrivals_shut(a, START_MS + HOUR_MS, &shut));
	assert_false(shut.all);
	sl_arrivals_close(a);
}

/* Ten times as many connections as the limit allows, for an hour: no more than the rate are admitted. */
static void the_rate_holds(void **state)
{
	struct sl_arrivals *a = open_arrivals();
	uint64_t now_ms = START_MS;
	struct sl_shut shut = {.all = false};
	int in = 0, came = 0;

	for (int ms = 0; ms < HOUR_MS; ms += 20, now_ms += 20) {
		sl_arrivals_shut(a, now_ms, &shut);
		if (shut.all)
			continue;
		for (int i = 0; i < PER_S / 5; i++, came++)
			in += admitted(a, ip4((uint32_t)rand() % 100), 1, now_ms);
	}
	assert_in_range(in, HOUR_MS / 1000 * PER_S / 2, HOUR_MS / 1000 * PER_S + BURST);
	assert_in_range(came, in, HOUR_MS / 1000 * PER_S + 2 * BURST);
	sl_arrivals_close(a);
}

static void more_addresses_than_the_table_holds(void **state)
{
	struct sl_arrivals *a = open_arrivals();
	struct sl_shut shut;

	for (uint32_t i = 0; i < 200; i++)
		admitted(a, ip4(i), ADDRESS_BURST + 1, START_MS);
	sl_arrivals_shut(a, START_MS, &shut);
	assert_int_equal(shut.n, SL_ARRIVALS_SHUT);
	for (uint32_t i = 0; i < 100000; i++)
		admitted(a, ip4(i), 1, START_MS);
	sl_arrivals_shut(a, START_MS, &shut);
	assert_true(shut.all);
	sl_arrivals_shut(a, START_MS + HOUR_MS, &shut);
	assert_int_equal(shut.n, 0);
	sl_arrivals_close(a);
	sl_arrivals_close(NULL);
}

/* ---- the SYN filter */

static int listen_at(struct sockaddr_in *at, int domain)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	socklen_t len = sizeof six;
	int fd = socket(domain, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0)
		return -1;
	if (domain == AF_INET6) {
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int)), 0);
		if (bind(fd, (struct sockaddr *)&six, sizeof six) != 0)
			return -1;
	} else {
		assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
	}
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&six, &len), 0);
	at->sin_port = six.sin6_port; /* both families have the port at the same offset */
	return fd;
}

/* Whether a connection from 127.0.0.`host` is established
 * within 100 ms. TCP would repeat a dropped SYN after 1 s. */
static bool gets_in(const struct sockaddr_in *at, uint32_t host)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 + host)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {fd, POLLOUT, 0};
	bool in;

	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	in = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ||
	     (errno == EINPROGRESS && poll(&p, 1, 100) == 1 && p.revents == POLLOUT);
	close(fd);
	return in;
}

static bool gets_in_by_ip6(const struct sockaddr_in *at)
{
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_port = at->sin_port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {fd, POLLOUT, 0};
	bool in = connect(fd, (struct sockaddr *)&to, sizeof to) == 0 ||
		  (errno == EINPROGRESS && poll(&p, 1, 100) == 1 && p.revents == POLLOUT);

	close(fd);
	return in;
}

static void who_is_shut_out_does_not_get_in(void **state)
{
	struct sl_shut shut = {.n = 2, .address = {ip4(0x7f000002), ip4(0x7f000004)}};
	struct sockaddr_in at;
	int fd = listen_at(&at, AF_INET);

	if (!sl_synfilter_set(fd, &shut))
		skip(); /* this kernel has no such filter */
	assert_true(gets_in(&at, 1));
	assert_false(gets_in(&at, 2));
	assert_true(gets_in(&at, 3));
	assert_false(gets_in(&at, 4));
	shut.all = true;
	assert_true(sl_synfilter_set(fd, &shut));
	assert_false(gets_in(&at, 1));
	assert_true(sl_synfilter_set(fd, &(struct sl_shut){.n = 0}));
	for (uint32_t host = 1; host < 5; host++)
		assert_true(gets_in(&at, host));
	close(fd);
}

static void both_versions_of_ip_are_told_apart(void **state)
{
	struct sl_shut shut = {.n = SL_ARRIVALS_SHUT};
	struct sockaddr_in at;
	int fd = listen_at(&at, AF_INET6);

	if (fd < 0 || !gets_in_by_ip6(&at))
		skip(); /* this machine has no IPv6 */
	for (int i = 0; i < SL_ARRIVALS_SHUT; i++)
		shut.address[i] = i % 2 ? ip4(0x7f000002) : ip6("2001:db8:1:2::");
	if (!sl_synfilter_set(fd, &shut))
		skip();
	assert_true(gets_in_by_ip6(&at));
	assert_true(gets_in(&at, 1));
	assert_false(gets_in(&at, 2));
	shut.address[SL_ARRIVALS_SHUT - 2] = ip6("::1");
	assert_true(sl_synfilter_set(fd, &shut));
	assert_false(gets_in_by_ip6(&at));
	assert_true(gets_in(&at, 1));
	close(fd);
}

static void other_sockets_take_no_filter(void **state)
{
	const struct sl_shut shut = {.all = true};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_false(sl_synfilter_set(fd, &shut));
	assert_false(sl_synfilter_set(-1, &shut));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_hosts_and_networks),
		cmocka_unit_test(one_address_has_its_budget),
		cmocka_unit_test(all_of_them_have_one),
		cmocka_unit_test(the_rate_holds),
		cmocka_unit_test(more_addresses_than_the_table_holds),
		cmocka_unit_test(who_is_shut_out_does_not_get_in),
		cmocka_unit_test(both_versions_of_ip_are_told_apart),
		cmocka_unit_test(other_sockets_take_no_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
