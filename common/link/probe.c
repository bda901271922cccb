#include "common/link/probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOST = 256, PORT = 8 };

/* tcp://host:port, tcp://[host]:port */
static bool split(const char *endpoint, char host[HOST], char port[PORT])
{
	const char *at = strncmp(endpoint, "tcp://", 6) == 0 ? endpoint + 6 : endpoint, *colon = strrchr(at, ':');
	size_t len = colon ? (size_t)(colon - at) : 0;

	if (len >= 2 && at[0] == '[' && at[len - 1] == ']') {
		at++;
		len -= 2;
	}
	if (!len || len >= HOST || strlen(colon + 1) >= PORT)
		return false;
	snprintf(host, HOST, "%.*s", (int)len, at);
	snprintf(port, PORT, "%s", colon + 1);
	return true;
}

/* An errno; 0: connected. */
static int try_connect(const struct addrinfo *to, int timeout_ms)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why = 0;
	struct pollfd poll_for = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof why;

	if (fd < 0)
		return errno;
	if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
		why = errno;
	if (why == EINPROGRESS && poll(&poll_for, 1, timeout_ms) <= 0)
		why = ETIMEDOUT;
	else if (why == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
		why = errno;
	close(fd);
	return why;
}

const char *sl_probe(const char *endpoint, int timeout_ms, char out[SL_PROBE_TEXT])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char host[HOST], port[PORT];
	int why;

	if (!split(endpoint, host, port)) {
		snprintf(out, SL_PROBE_TEXT, "no address");
		return out;
	}
	why = getaddrinfo(host, port, &hints, &found);
	if (why) {
		snprintf(out, SL_PROBE_TEXT, "%.60s: %s", host, gai_strerror(why));
		return out;
	}
	/* the first one is what ZeroMQ takes */
	why = try_connect(found, timeout_ms);
	freeaddrinfo(found);
	if (why)
		snprintf(out, SL_PROBE_TEXT, "%s", strerror(why));
	else
		snprintf(out, SL_PROBE_TEXT,
			 "the port is open: another service's, or one side has keys and the other none");
	return out;
}
