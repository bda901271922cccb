/* usage: rogues PORT COUNT - until SIGTERM, opens COUNT connections from 127.0.0.2 to that port that are not clients: a
 * third is silent, a third sends a ZMTP greeting for CURVE byte by byte, a third garbage, 1 MB/s in total. A connection
 * that is cut is opened again. The program has a low CPU priority, so that it costs only what it costs the server.
 * It prints "standing" when all stand, and "cut" when two thirds have been cut; at the end how many stood at once, how
 * often they were cut, and kB/s of garbage: "100 40 1000". */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/tools/loopback.h"

enum { MAX = 1000, TURN_MS = 10, DRIP_TURNS = 10, BYTES_PER_TURN = 10000 };
enum kind { SILENT, DRIP, BABBLE, KINDS };

static const unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};

struct rogue {
	int fd; /* -1: cut */
	int sent;
};

static volatile sig_atomic_t over;
static long garbage; /* bytes sent */

static void on_term(int signum)
{
	(void)signum;
	over = 1;
}

/* Returns false if the other side has closed. */
static bool turn(struct rogue *r, enum kind kind, int turns, int babblers)
{
	unsigned char data[BYTES_PER_TURN];
	ssize_t n = recv(r->fd, data, sizeof data, MSG_DONTWAIT);
	size_t len = (size_t)(BYTES_PER_TURN / babblers);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return false;
	if (kind == SILENT || (kind == DRIP && turns % DRIP_TURNS))
		return true;
	if (kind == DRIP)
		return send(r->fd, greeting + r->sent++ % (int)sizeof greeting, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)rand();
	n = send(r->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	garbage += n > 0 ? n : 0;
	return n > 0 || errno == EAGAIN;
}

int main(int argc, char **argv)
{
	static struct rogue rogue[MAX];
	int port = argc == 3 ? atoi(argv[1]) : 0, count = argc == 3 ? atoi(argv[2]) : 0, most = 0;
	struct timespec from, to, next;
	long cuts = 0, told = 0;

	if (port < 1 || count < KINDS || count > MAX)
		return 64;
	signal(SIGTERM, on_term);
	(void)!nice(19);
	for (int i = 0; i < count; i++)
		rogue[i].fd = -1;
	clock_gettime(CLOCK_MONOTONIC, &from);
	next = from;
	for (int turns = 0; !over; turns++) {
		int standing = 0;

		for (int i = 0; i < count; i++) {
			struct rogue *r = &rogue[i];

			if (r->fd < 0)
				*r = (struct rogue){.fd = connect_from(0x7f000002, port)};
			if (r->fd < 0)
				continue;
			standing++;
			if (!turn(r, (enum kind)(i % KINDS), turns, count / KINDS)) {
				close(r->fd);
				r->fd = -1;
				cuts++;
			}
		}
		if (standing == count && most < count)
			puts("standing");
		if (cuts >= count * 2 / KINDS && told < count * 2 / KINDS)
			puts("cut");
		fflush(stdout);
		most = standing > most ? standing : most;
		told = cuts;
		next.tv_nsec += TURN_MS * 1000000L;
		next.tv_sec += next.tv_nsec / 1000000000L;
		next.tv_nsec %= 1000000000L;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%d %ld %.0f\n", most, cuts,
	       (double)garbage / 1e3 /
		       ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9));
	return 0;
}
