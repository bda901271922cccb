/* bad_link UPSTREAM_PORT SEED MEAN_BYTES: a bad TCP link: a relay on a loopback port of its own, which it prints. After
 * a random number of bytes around MEAN_BYTES it does one of these, and starts over: it drops the connection; it falls
 * silent for three seconds without closing, then drops it; it flips one bit of the data; it holds everything for 300
 * ms. It ends on SIGTERM, and then prints how often it did each. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "tests/e2e/tools/loopback.h"

enum { MAX_PAIRS = 64, BUFFER = 65536 };
enum fault { DROP, SILENCE, FLIP, HOLD, FAULTS };

static const char *const fault_name[FAULTS] = {"drop", "silence", "flip", "hold"};
static volatile sig_atomic_t stop;
static struct sl_rng_key key = {.tensor = SL_RNG_TEST};
static uint64_t drawn, mean_bytes, left;
static unsigned done[FAULTS];

struct pair {
	int end[2]; /* client, server; -1: free */
};

static struct pair pairs[MAX_PAIRS];

static uint32_t chance(uint32_t n)
{
	return sl_rng_below(sl_rng_u32(&key, drawn++), n);
}

static void on_term(int signum)
{
	(void)signum;
	stop = 1;
}

static void nap(long ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static void drop(struct pair *p)
{
	close(p->end[0]);
	close(p->end[1]);
	p->end[0] = p->end[1] = -1;
}

static void take_one(int listener, int upstream_port)
{
	int client, server;

	if (!accept_one(listener, upstream_port, &client, &server))
		return;
	for (int i = 0; i < MAX_PAIRS; i++)
		if (pairs[i].end[0] < 0) {
			pairs[i] = (struct pair){{client, server}};
			return;
		}
	close(client);
	close(server);
}

/* Returns false if the connection must be dropped. */
static bool misbehave(uint8_t *data, size_t len)
{
	enum fault f = (enum fault)chance(FAULTS);

	left = mean_bytes / 2 + chance((uint32_t)mean_bytes);
	done[f]++;
	if (f == FLIP)
		data[chance((uint32_t)len)] ^= (uint8_t)(1u << chance(8));
	else if (f == HOLD)
		nap(300);
	else if (f == SILENCE)
		nap(3000);
	return f == FLIP || f == HOLD;
}

static void relay(struct pair *p, int from)
{
	static uint8_t data[BUFFER];
	ssize_t n = recv(p->end[from], data, sizeof data, 0);
	bool good = n > 0;

	if (good && (uint64_t)n < left)
		left -= (uint64_t)n;
	else if (good)
		good = misbehave(data, (size_t)n);
	if (!good || !send_all(p->end[!from], data, (size_t)n))
		drop(p);
}

static void serve(int listener, int upstream_port)
{
	struct pollfd fds[1 + 2 * MAX_PAIRS];

	while (!stop) {
		fds[0] = (struct pollfd){listener, POLLIN, 0};
		for (int i = 0; i < 2 * MAX_PAIRS; i++)
			fds[1 + i] = (struct pollfd){pairs[i / 2].end[i % 2], POLLIN, 0};
		if (poll(fds, 1 + 2 * MAX_PAIRS, 100) <= 0)
			continue;
		for (int i = 0; i < 2 * MAX_PAIRS; i++)
			if (fds[1 + i].revents && pairs[i / 2].end[i % 2] == fds[1 + i].fd)
				relay(&pairs[i / 2], i % 2);
		if (fds[0].revents)
			take_one(listener, upstream_port);
	}
}

int main(int argc, char **argv)
{
	int port, listener = listen_anywhere(&port);

	if (argc != 4 || listener < 0)
		return 64;
	key.seed = strtoull(argv[2], NULL, 10);
	mean_bytes = left = strtoull(argv[3], NULL, 10);
	signal(SIGTERM, on_term);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < MAX_PAIRS; i++)
		pairs[i].end[0] = pairs[i].end[1] = -1;
	printf("%d\n", port);
	fflush(stdout);
	serve(listener, atoi(argv[1]));
	for (int f = 0; f < FAULTS; f++)
		printf("%s %u%s", fault_name[f], done[f], f == FAULTS - 1 ? "\n" : ", ");
	return 0;
}
