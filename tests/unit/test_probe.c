/* What TCP says of an endpoint where nobody answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/link/probe.h"

enum { MS = 5000 };

/* A socket bound to a free port of loopback, and its endpoint. */
static int bound(char endpoint[64], bool listening)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	if (listening)
		assert_int_equal(listen(fd, 1), 0);
	snprintf(endpoint, 64, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	return fd;
}

static void says_what_tcp_says(void **state)
{
	char endpoint[64], out[SL_PROBE_TEXT];
	int fd = bound(endpoint, false);

	(void)state;
	assert_string_equal(sl_probe(endpoint, MS, out), "Connection refused");
	close(fd);
	fd = bound(endpoint, true);
	assert_non_null(strstr(sl_probe(endpoint, MS, out), "the port is open"));
	close(fd);
	assert_ptr_equal(strstr(sl_probe("tcp://no-such-host.invalid:5570", MS, out), "no-such-host.invalid: "), out);
	assert_string_equal(sl_probe("tcp://[::1]:1", MS, out),
			    sl_probe("tcp://[::1]:2", MS, (char[SL_PROBE_TEXT]){0}));
	assert_string_equal(sl_probe("tcp://", MS, out), "no address");
	assert_string_equal(sl_probe("tcp://:1", MS, out), "no address");
	assert_string_equal(sl_probe("tcp://a:123456789", MS, out), "no address");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_tcp_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
