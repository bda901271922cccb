/* usage: bench_socket ADDRESS PORT MB SECONDS          listens, leads the rounds and prints.
 *        bench_socket ADDRESS PORT MB                  connects, and moves the data of each round.
 *
 * Measures what a core that computes loses to a link, without Split's code: a thread computes for SECONDS without use
 * of memory, first alone, then while two more threads send and receive MB (10^6 bytes) over one plain TCP connection.
 * Prints the seconds that it then takes longer: the median of ROUNDS rounds, the least and the most, tab-separated. Pin
 * the process to one core. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

enum { ROUNDS = 5, PIECE = 1 << 20, CALIBRATE = 20000000, TRIES = 500, TRY_US = 10000 };

static int fd;
static size_t bytes;
static volatile double sink;

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(70);
}

static void *send_all(void *arg)
{
	uint8_t *piece = arg;

	for (size_t at = 0; at < bytes;) {
		ssize_t n = send(fd, piece, bytes - at < PIECE ? bytes - at : PIECE, MSG_NOSIGNAL);

		if (n <= 0)
			die("send");
		at += (size_t)n;
	}
	return NULL;
}

static void *receive_all(void *arg)
{
	uint8_t *piece = arg;

	for (size_t at = 0; at < bytes;) {
		ssize_t n = recv(fd, piece, bytes - at < PIECE ? bytes - at : PIECE, 0);

		if (n <= 0)
			die("recv");
		at += (size_t)n;
	}
	return NULL;
}

static double compute(long turns)
{
	uint64_t start = sl_now_ns();
	double x = 1;

	for (long i = 0; i < turns; i++)
		x = x * 1.0000001 + 1e-9;
	sink = x;
	return sl_seconds_since(start);
}

static double move(uint8_t *out, uint8_t *in, long turns)
{
	pthread_t sender, receiver;
	double seconds;

	pthread_create(&sender, NULL, send_all, out);
	pthread_create(&receiver, NULL, receive_all, in);
	seconds = compute(turns);
	pthread_join(sender, NULL);
	pthread_join(receiver, NULL);
	return seconds;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void lead(const struct sockaddr_in *at, uint8_t *out, uint8_t *in, double seconds)
{
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	long turns = (long)(CALIBRATE * seconds / compute(CALIBRATE));
	double more[ROUNDS];

	if (setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
	    bind(listening, (const struct sockaddr *)at, sizeof *at) || listen(listening, 1))
		die("listen");
	fd = accept(listening, NULL, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		double alone = compute(turns);

		if (send(fd, "", 1, 0) != 1)
			die("send");
		more[i] = move(out, in, turns) - alone;
	}
	qsort(more, ROUNDS, sizeof *more, by_value);
	printf("%.4f\t%.4f\t%.4f\n", more[ROUNDS / 2], more[0], more[ROUNDS - 1]);
	close(listening);
}

static void follow(const struct sockaddr_in *at, uint8_t *out, uint8_t *in)
{
	char told;
	int tries = 0;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	while (connect(fd, (const struct sockaddr *)at, sizeof *at))
		if (++tries == TRIES)
			die("connect");
		else
			usleep(TRY_US);
	while (recv(fd, &told, 1, 0) == 1)
		move(out, in, 0);
}

int main(int argc, char **argv)
{
	uint8_t *out = malloc(PIECE), *in = malloc(PIECE);
	struct sockaddr_in at = {.sin_family = AF_INET};

	if (argc < 4 || argc > 5 || !out || !in || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) {
		fprintf(stderr, "usage: bench_socket ADDRESS PORT MB [SECONDS]\n");
		return 64;
	}
	at.sin_port = htons((uint16_t)atoi(argv[2]));
	bytes = (size_t)(atof(argv[3]) * 1e6);
	memset(out, 1, PIECE);
	memset(in, 1, PIECE);
	if (argc == 5)
		lead(&at, out, in, atof(argv[4]));
	else
		follow(&at, out, in);
	close(fd);
	free(out);
	free(in);
	return 0;
}
