/* usage: rogues PORT COUNT — until SIGTERM, COUNT connections to that port of 127.0.0.1 that are no clients: a third
 * says nothing, a third sends a ZMTP greeting for CURVE byte by byte, a third garbage, 1 MB/s together. Whoever is cut
 * comes back. At the end, prints how many stood at once and how often they were cut: "100 40". */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX = 1000, TURN_MS = 10, DRIP_TURNS = 10, BYTES_PER_TURN = 10000 };
enum kind { SILENT, DRIP, BABBLE, KINDS };

static const unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};

struct rogue {
	int fd; /* -1: cut */
	int sent;
};

static volatile sig_atomic_t over;

static void on_term(int signum)
{
	(void)signum;
	over = 1;
}

static int connect_to(int port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* False: the other side is through with it. */
static int turn(struct rogue *r, enum kind kind, int turns, int babblers)
{
	unsigned char data[BYTES_PER_TURN];
	ssize_t n = recv(r->fd, data, sizeof data, MSG_DONTWAIT);
	size_t len = (size_t)(BYTES_PER_TURN / babblers);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return 0;
	if (kind == SILENT || (kind == DRIP && turns % DRIP_TURNS))
		return 1;
	if (kind == DRIP)
		return send(r->fd, greeting + r->sent++ % (int)sizeof greeting, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)rand();
	return send(r->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 || errno == EAGAIN;
}

int main(int argc, char **argv)
{
	static struct rogue rogue[MAX];
	int port = argc == 3 ? atoi(argv[1]) : 0, count = argc == 3 ? atoi(argv[2]) : 0, most = 0;
	long cuts = 0;

	if (port < 1 || count < KINDS || count > MAX)
		return 64;
	signal(SIGTERM, on_term);
	for (int i = 0; i < count; i++)
		rogue[i].fd = -1;
	for (int turns = 0; !over; turns++) {
		int standing = 0;

		for (int i = 0; i < count; i++) {
			struct rogue *r = &rogue[i];

			if (r->fd < 0)
				*r = (struct rogue){.fd = connect_to(port)};
			if (r->fd < 0)
				continue;
			standing++;
			if (!turn(r, (enum kind)(i % KINDS), turns, count / KINDS)) {
				close(r->fd);
				r->fd = -1;
				cuts++;
			}
		}
		most = standing > most ? standing : most;
		nanosleep(&(struct timespec){.tv_nsec = TURN_MS * 1000000L}, NULL);
	}
	printf("%d %ld\n", most, cuts);
	return 0;
}
