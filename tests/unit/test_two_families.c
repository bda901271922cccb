/* A host's name that has an IPv6 and an IPv4 address, while the server listens on one of them. The program replaces
 * libc's getaddrinfo, so that it finds such a host. */
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/link_end.h"
#include "tests/support/unit.h"

static const char both[] = "both.example";

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (host && strcmp(host, both) == 0)
		host = hints && hints->ai_family == AF_INET ? "127.0.0.1" : "::1";
	return real(host, port, hints, out);
}

static bool has_ipv6(void)
{
	const int fd = socket(AF_INET6, SOCK_STREAM, 0);
	const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

/* Sends one message to the server that listens at `listen`, by the name that has both addresses. */
static void reaches(const char *listen)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	char endpoint[64];

	link_end_open_server(&server, loop, listen);
	snprintf(endpoint, sizeof endpoint, "tcp://%s:%s", both,
		 strrchr(sl_transport_endpoint(server.transport), ':') + 1);
	link_end_open_client(&client, loop, endpoint);
	server.stop_at = 1;
	link_end_send_when_writable(&client, "here");
	link_end_run(loop);
	assert_string_equal(server.last, "here");
	assert_int_equal(client.lost + client.malformed + server.malformed, 0);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static void a_server_on_ipv4_is_found(void **state)
{
	reaches("tcp://127.0.0.1:*");
}

static void a_server_on_ipv6_is_found(void **state)
{
	if (!has_ipv6())
		skip();
	reaches("tcp://[::1]:*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_on_ipv4_is_found),
		cmocka_unit_test(a_server_on_ipv6_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
