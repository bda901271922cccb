#include "tests/support/fake_peer.h"
#include "tests/support/unit.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

enum { LOOK_MS = 5, HELD = 64, OPENING = 11, HEAR_MS = 60000 };

struct fake_greeting fake_greeting(const char *mechanism)
{
	struct fake_greeting g = {{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1}};

	memcpy(g.byte + 12, mechanism, strlen(mechanism));
	return g;
}

static void wait_ms(int ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static bool say(int fd, const uint8_t *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Reads and discards `len` bytes; false if they do not come within `ms`. */
static bool hear(struct fake_peer *p, int fd, size_t len, int ms)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	uint8_t byte;

	for (; len && ms > 0 && !atomic_load(&p->over);) {
		if (poll(&in, 1, LOOK_MS) <= 0) {
			ms -= LOOK_MS;
			continue;
		}
		if (recv(fd, &byte, 1, 0) <= 0)
			return false;
		len--;
	}
	return !len;
}

static bool at_hand(int fd)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};

	return poll(&in, 1, 0) == 1;
}

static void reset(int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static enum fake_end serve(struct fake_peer *p, int fd)
{
	size_t step = p->at_once ? p->at_once : p->len;

	if (p->snatches) {
		/* A probe sends more than the signature at once. ZeroMQ waits for a reply before it
		 * sends the rest. */
		if (!hear(p, fd, OPENING - 1, HEAR_MS))
			return FAKE_CLOSE;
		if (!at_hand(fd)) {
			(void)(say(fd, p->say, OPENING) && hear(p, fd, 2, HEAR_MS));
			return FAKE_RESET;
		}
		(void)say(fd, p->say, OPENING);
		atomic_fetch_add(&p->probed, 1);
		(void)say(fd, p->say + OPENING, p->len - OPENING);
		return p->end;
	}
	for (size_t at = 0; p->say && at < p->len && !atomic_load(&p->over); at += step) {
		if (p->pause_ms)
			wait_ms(p->pause_ms);
		if (!say(fd, p->say + at, p->len - at < step ? p->len - at : step))
			return FAKE_CLOSE;
		atomic_fetch_add(&p->said, 1);
	}
	if (p->end == FAKE_CLOSE && hear(p, fd, OPENING - 1, HEAR_MS)) /* unread bytes would turn
									* the close into a reset */
		while (at_hand(fd) && hear(p, fd, 1, HEAR_MS))
			;
	return p->end;
}

static void *run(void *arg)
{
	struct fake_peer *p = arg;
	struct pollfd in = {.fd = p->fd, .events = POLLIN};
	int held[HELD], n = 0;

	while (!atomic_load(&p->over)) {
		enum fake_end end;
		int fd;

		if (poll(&in, 1, LOOK_MS) <= 0)
			continue;
		fd = accept(p->fd, NULL, NULL);
		if (fd < 0)
			continue;
		atomic_fetch_add(&p->accepted, 1);
		end = serve(p, fd);
		if (end == FAKE_HOLD && n < HELD) {
			held[n++] = fd;
			continue;
		}
		if (end == FAKE_RESET)
			reset(fd);
		close(fd);
	}
	while (n)
		close(held[--n]);
	return NULL;
}

void fake_peer_open(struct fake_peer *p)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;

	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(getsockname(p->fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(listen(p->fd, 16), 0);
	snprintf(p->endpoint, sizeof p->endpoint, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	atomic_store(&p->said, 0);
	atomic_store(&p->accepted, 0);
	atomic_store(&p->probed, 0);
	atomic_store(&p->over, false);
	assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
}

void fake_peer_close(struct fake_peer *p)
{
	atomic_store(&p->over, true);
	pthread_join(p->thread, NULL);
	close(p->fd);
}
