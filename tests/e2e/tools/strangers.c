/* usage: strangers ids PORT | flood PORT SECONDS | endless PORT SECONDS - peers of 127.0.0.1:PORT that speak ZMTP on
 * raw sockets and never send Hello. They have a low CPU priority.
 *
 * ids: announce as Identity the numbers that an unseeded ZeroMQ would give to its first connections, and then let it
 *   number some. Prints how many of them stood at the end.
 * flood: connections without end from 40 addresses, every second one with an Identity of the form of ZeroMQ's own.
 *   Prints how many were opened, and how many of them got a greeting.
 * endless: 20 connections that each send an endless message; one that is cut comes back. Prints bytes sent and cuts.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/e2e/tools/loopback.h"

enum { GREETING = 64, ID = 5, TAKEN = 64, COUNTED = 16, OPEN = 400, ADDRESSES = 40, ENDLESS = 20, FRAME = 32 << 10 };
enum { MORE = 1, LONG = 2, COMMAND = 4, PATIENCE_MS = 10000, STAY_MS = 2000 };
enum { FIRST_OF_RAND = 0x6b8b4567 }; /* what rand() gives first where nobody has seeded it */

static const uint32_t first_sources = 0x7f000101; /* 127.0.1.1 */

/* Begins a connection from that loopback address; returns the socket, or -1. */
static int begin(int port, uint32_t source)
{
	struct sockaddr_in from = loopback(0), to = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	from.sin_addr.s_addr = htonl(source);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
	    (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS))
		return fd;
	close(fd);
	return -1;
}

/* Sends greeting and READY at once; with an id of 0, no Identity. Returns false if not sent. */
static bool introduce(int fd, const uint8_t *id)
{
	static const uint8_t greeting[GREETING] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
	static const char type[] = "\5READY\13Socket-Type\0\0\0\6DEALER", name[] = "\10Identity\0\0\0\5";
	uint8_t say[GREETING + 64];
	size_t len = GREETING;

	memcpy(say, greeting, GREETING);
	say[len++] = COMMAND;
	say[len++] = (uint8_t)(sizeof type - 1 + (id ? sizeof name - 1 + ID : 0));
	memcpy(say + len, type, sizeof type - 1);
	len += sizeof type - 1;
	if (id) {
		memcpy(say + len, name, sizeof name - 1);
		len += sizeof name - 1;
		memcpy(say + len, id, ID);
		len += ID;
	}
	return send(fd, say, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static void number(uint8_t id[ID], uint32_t n)
{
	for (int i = 0; i < ID; i++)
		id[i] = i ? (uint8_t)(n >> 8 * (ID - 1 - i)) : 0;
}

/* Returns 1 if the socket is writable, 0 if not yet, -1 if it is closed. */
static int ready(int fd)
{
	struct pollfd p = {fd, POLLOUT, 0};

	if (poll(&p, 1, 0) < 0 || p.revents & (POLLERR | POLLHUP))
		return -1;
	return p.revents & POLLOUT ? 1 : 0;
}

/* Drops received data; returns -1 if the connection is closed. */
static ssize_t drain(int fd)
{
	uint8_t heard[4096];
	ssize_t n, all = 0;

	while ((n = recv(fd, heard, sizeof heard, MSG_DONTWAIT)) > 0)
		all += n;
	return n == 0 || errno != EAGAIN ? -1 : all;
}

static void pause_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

static int say_ids(int port)
{
	int fd[TAKEN + COUNTED], standing = 0;

	for (int i = 0; i < TAKEN + COUNTED; i++) {
		uint64_t until = sl_now_ms() + PATIENCE_MS;
		uint8_t id[ID];

		number(id, FIRST_OF_RAND + (uint32_t)i);
		fd[i] = begin(port, first_sources);
		while (fd[i] >= 0 && !ready(fd[i]) && sl_now_ms() < until)
			pause_ms(1);
		if (fd[i] < 0 || !introduce(fd[i], i < TAKEN ? id : NULL))
			continue;
		/* its greeting and its READY are more than this */
		for (ssize_t got = 0, n; got <= GREETING && sl_now_ms() < until; got += n) {
			n = drain(fd[i]);
			if (n < 0)
				break;
			pause_ms(1);
		}
	}
	pause_ms(200);
	for (int i = 0; i < TAKEN + COUNTED; i++)
		standing += fd[i] >= 0 && drain(fd[i]) >= 0;
	printf("%d\n", standing);
	return 0;
}

static int flood(int port, uint64_t until_ms)
{
	static struct {
		int fd; /* 0: none */
		bool introduced, greeted;
		uint64_t born_ms;
	} open[OPEN];
	long opened = 0, greeted = 0;

	while (sl_now_ms() < until_ms) {
		uint64_t now = sl_now_ms();

		for (int i = 0; i < OPEN; i++) {
			int is = open[i].fd > 0 ? ready(open[i].fd) : -1;
			uint8_t id[ID];

			if (is == 1 && !open[i].introduced) {
				number(id, (uint32_t)rand() << 1 ^ (uint32_t)rand());
				open[i].introduced = introduce(open[i].fd, i & 1 ? id : NULL);
			} else if (is == 1 && !open[i].greeted) {
				ssize_t n = drain(open[i].fd);

				greeted += open[i].greeted = n > 0;
				is = n < 0 ? -1 : is;
			}
			/* one with a name stays; the others make the count go on */
			if (is >= 0 && !(open[i].greeted && !(i & 1)) && now - open[i].born_ms < STAY_MS)
				continue;
			if (open[i].fd > 0)
				close(open[i].fd);
			open[i].fd = begin(port, first_sources + (uint32_t)(rand() % ADDRESSES));
			open[i].introduced = open[i].greeted = false;
			open[i].born_ms = now;
			opened += open[i].fd > 0;
		}
		pause_ms(1);
	}
	printf("%ld %ld\n", opened, greeted);
	return 0;
}

/* Sends the next part of an endless message. Returns false if the connection is closed. */
static bool go_on(int fd, bool *introduced, uint64_t *bytes)
{
	static uint8_t frame[9 + FRAME] = {MORE | LONG, 0, 0, 0, 0, 0, FRAME >> 16, FRAME >> 8 & 0xff, FRAME & 0xff};
	int is = ready(fd);

	if (is < 1)
		return is == 0;
	if (!*introduced) {
		*introduced = introduce(fd, NULL);
		return *introduced;
	}
	if (drain(fd) < 0)
		return false;
	/* blocking: a frame is sent whole, or the connection is closed */
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	for (int i = 0; i < 8; i++) {
		if (!send_all(fd, frame, sizeof frame))
			return false;
		*bytes += sizeof frame;
	}
	return true;
}

static int endless(int port, uint64_t until_ms)
{
	static struct {
		int fd; /* 0: none */
		bool introduced;
	} open[ENDLESS];
	uint64_t bytes = 0;
	long cuts = 0;

	while (sl_now_ms() < until_ms) {
		for (int i = 0; i < ENDLESS; i++) {
			if (open[i].fd > 0 && go_on(open[i].fd, &open[i].introduced, &bytes))
				continue;
			if (open[i].fd > 0) {
				close(open[i].fd);
				cuts++;
			}
			open[i].fd = begin(port, first_sources + (uint32_t)i);
			open[i].introduced = false;
		}
	}
	printf("%llu %ld\n", (unsigned long long)bytes, cuts);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	int port = argc > 2 ? atoi(argv[2]) : 0;
	uint64_t until_ms = sl_now_ms() + 1000 * (uint64_t)(argc > 3 ? atoi(argv[3]) : 1);

	(void)!nice(19);
	if (port > 0 && strcmp(mode, "ids") == 0)
		return say_ids(port);
	if (port > 0 && strcmp(mode, "flood") == 0)
		return flood(port, until_ms);
	if (port > 0 && strcmp(mode, "endless") == 0)
		return endless(port, until_ms);
	return 64;
}
