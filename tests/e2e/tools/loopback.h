/* Sockets of the loopback, for the tools of these tests. */
#ifndef SL_TESTS_E2E_TOOLS_LOOPBACK_H
#define SL_TESTS_E2E_TOOLS_LOOPBACK_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static inline struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Listens on a free port; returns the socket, or -1. */
static inline int listen_anywhere(int *port)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 16) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) != 0)
		return -1;
	*port = ntohs(at.sin_port);
	return fd;
}

/* Connects from the loopback address `source` (0x7f000001: 127.0.0.1) to `port`. Returns the socket; -1: nobody
 * listens.
 */
static inline int connect_from(uint32_t source, int port)
{
	struct sockaddr_in from = loopback(0), to = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	from.sin_addr.s_addr = htonl(source);
	if (fd >= 0 && (bind(fd, (struct sockaddr *)&from, sizeof from) != 0 ||
			connect(fd, (struct sockaddr *)&to, sizeof to) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline int connect_to(int port)
{
	return connect_from(INADDR_LOOPBACK, port);
}

/* For a relay: accepts the next connection to `listener` and opens one upstream. Returns false if there is none. */
static inline bool accept_one(int listener, int upstream_port, int *client, int *server)
{
	*client = accept(listener, NULL, NULL);
	if (*client < 0)
		return false;
	*server = connect_to(upstream_port);
	if (*server < 0)
		close(*client);
	return *server >= 0;
}

/* Returns false if the other side has closed; the rest of the data is lost then. */
static inline bool send_all(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

#endif
