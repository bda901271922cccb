/* usage: squatters PORT LORIS DEAF [FLOODS] - until SIGTERM, peers that log in as clients do, on raw sockets, and then
 * waste the server's resources. LORIS of them send an endless message, ten bytes a second. DEAF of them request the
 * weights and read nothing, but grant credit and send heartbeats. FLOODS of them send an endless message as fast as
 * possible, beyond their credit. A peer that is refused or cut comes back. They have a low CPU priority. The program
 * prints when all have logged in; at the end, how often one did. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/link/proof.h"
#include "tests/e2e/tools/loopback.h"
#include "tests/support/asked.h"

enum { MAX = 64, TURN_MS = 100, LOGIN_MS = 5000, GREETING = 64, MORE = 1, COMMAND = 4, PART = 1 << 20 };

struct squatter {
	int fd; /* -1: none */
	enum { LORIS, DEAF, FLOOD } kind;
	uint64_t epoch;
	size_t sent; /* of a loris's message */
};

static volatile sig_atomic_t over;
static struct asked asked;
static struct sl_plan *plan;
static int port;
static long logins;

static void on_term(int signum)
{
	(void)signum;
	over = 1;
}

static bool put(int fd, const void *data, size_t len)
{
	/* a peer whose buffers are full is what these are for: none of them waits */
	return send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static bool put_frame(int fd, uint8_t flags, const void *data, size_t len)
{
	uint8_t head[9] = {flags, (uint8_t)len};

	if (len < 256)
		return put(fd, head, 2) && put(fd, data, len);
	head[0] |= 2;
	for (int i = 0; i < 8; i++)
		head[1 + i] = (uint8_t)((uint64_t)len >> 8 * (7 - i));
	return put(fd, head, 9) && put(fd, data, len);
}

static bool say(struct squatter *s, struct sl_frame *f)
{
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	f->epoch = s->epoch;
	return sl_wire_encode(f, header, &len) == SL_OK && put_frame(s->fd, MORE, header, len) &&
	       put_frame(s->fd, 0, f->payload.data, f->payload.len);
}

/* Reads len bytes. Returns false if they do not arrive in time. */
static bool take(int fd, uint8_t *data, size_t len, uint64_t until_ms)
{
	while (len) {
		struct pollfd p = {fd, POLLIN, 0};
		ssize_t n;

		if (sl_now_ms() >= until_ms || poll(&p, 1, TURN_MS) < 0)
			return false;
		if (!p.revents)
			continue;
		n = recv(fd, data, len, 0);
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* Reads len bytes and drops them. */
static bool swallow(int fd, size_t len, uint64_t until_ms)
{
	uint8_t data[256];

	return len <= sizeof data && take(fd, data, len, until_ms);
}

static bool zmtp(int fd, uint64_t until_ms)
{
	static const uint8_t greeting[GREETING] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
	static const char ready[] = "\5READY\13Socket-Type\0\0\0\6DEALER";

	return put(fd, greeting, sizeof greeting) && swallow(fd, GREETING, until_ms) &&
	       put_frame(fd, COMMAND, ready, sizeof ready - 1);
}

/* Waits for the header of a Challenge; skips other ZMTP frames. */
static bool await_nonce(int fd, uint64_t until_ms, uint8_t nonce[SL_NONCE_BYTES])
{
	for (;;) {
		uint8_t head[2], frame[255];
		struct sl_frame f;
		struct sl_fail fail;

		if (!take(fd, head, sizeof head, until_ms) || head[0] & 2 || !take(fd, frame, head[1], until_ms))
			return false;
		if (sl_wire_decode((struct sl_bytes){frame, head[1]}, (struct sl_bytes){0}, &f, &fail) != SL_OK)
			continue; /* READY, or an empty payload */
		if (f.kind != SL_FRAME_CHALLENGE)
			return false;
		memcpy(nonce, f.u.challenge.nonce, SL_NONCE_BYTES);
		return true;
	}
}

static bool hello(struct squatter *s, uint64_t until_ms)
{
	uint8_t nonce[SL_NONCE_BYTES];
	struct sl_secret secret;
	static struct sl_bytes said;
	struct sl_fail fail;
	struct sl_frame f = {.kind = SL_FRAME_HELLO,
			     .u.hello = {.version = SL_WIRE_VERSION,
					 .n_held = 1,
					 .software = "squatter",
					 .weights_source = SL_WEIGHTS_SEED,
					 .part_bytes = PART,
					 .window_bytes = 1 << 26,
					 .heartbeat_ms = 200,
					 .timeout_ms = 10000}};

	if (sl_secret_make(&secret, &fail) != SL_OK)
		return false;
	memcpy(f.u.hello.session, secret.session, sizeof f.u.hello.session);
	s->epoch = f.u.hello.epoch = 1;
	free((void *)(uintptr_t)said.data);
	if (sl_agreement_say(&asked.agreement, plan, &said, &f.u.hello, &fail))
		return false;
	if (!say(s, &f) || !await_nonce(s->fd, until_ms, nonce) || !swallow(s->fd, 2, until_ms) ||
	    sl_proof_make(&f.u.hello, &secret, nonce) != SL_OK)
		return false;
	f.payload = said;
	return say(s, &f);
}

static bool log_in(struct squatter *s)
{
	uint64_t until_ms = sl_now_ms() + LOGIN_MS;

	s->sent = 0;
	s->fd = connect_to(port);
	if (s->fd < 0)
		return false;
	/* Welcome's header is more than this, a Refuse that is not for us would be the end too */
	if (zmtp(s->fd, until_ms) && hello(s, until_ms) && swallow(s->fd, 80, until_ms) &&
	    (s->kind != DEAF || say(s, &(struct sl_frame){.kind = SL_FRAME_FETCH}))) {
		logins++;
		return true;
	}
	close(s->fd);
	s->fd = -1;
	return false;
}

/* A loris reads, because it waits to be refused. */
static bool drip(struct squatter *s)
{
	static const uint8_t begin[9] = {MORE | 2, 0, 0, 0, 0, 0, 0, 0x0f, 0xff};
	uint8_t heard[4096], byte = s->sent < sizeof begin ? begin[s->sent] : 0x55;
	ssize_t n = recv(s->fd, heard, sizeof heard, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return false;
	for (ssize_t i = 0; i < n; i++) /* a Refuse: field 4 behind an epoch of one byte */
		if (i + 2 < n && heard[i] == 8 && heard[i + 1] == 1 && heard[i + 2] == (4 << 3 | 2))
			return false;
	s->sent++;
	return put(s->fd, &byte, 1);
}

/* Sends frames of 64 KiB, each marked "more follow", for the length of a turn; reads nothing. */
static bool pour(struct squatter *s)
{
	static const uint8_t frame[9 + (64 << 10)] = {MORE | 2, 0, 0, 0, 0, 0, 1, 0, 0};
	uint64_t until_ms = sl_now_ms() + TURN_MS;

	while (sl_now_ms() < until_ms) {
		ssize_t n = send(s->fd, frame + s->sent, sizeof frame - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN;
		s->sent = (s->sent + (size_t)n) % sizeof frame;
	}
	return true;
}

static bool ignore(struct squatter *s)
{
	struct sl_frame credit = {.kind = SL_FRAME_CREDIT, .u.credit.bytes = 1 << 24};
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .u.heartbeat.sent_ms = sl_now_ms()};

	return say(s, &credit) && say(s, &beat);
}

static void turn(struct squatter *s)
{
	if (s->fd < 0 && !log_in(s))
		return;
	if (s->kind == DEAF ? ignore(s) : s->kind == LORIS ? drip(s) : pour(s))
		return;
	close(s->fd);
	s->fd = -1;
}

static void open_plan(void)
{
	struct sl_fail fail;

	/* of some size: these shall cost memory, and what a deaf one does not read shall be more than a socket holds */
	asked = (struct asked){.split = {.model = {.name = "mobilenet_v2", .width = 0.5, .classes = 10, .image = 32},
					 .cut = {.partition = "1:-1"}}};
	asked.agreement.agreed = sl_agreed_default();
	asked.agreement.agreed.batch = 2;
	asked.agreement.agreed.chunks = 1;
	asked.agreement.agreed.seed = 5;
	if (asked_settle(&asked, &fail) || plan_open(&plan, &asked.split, &fail)) {
		fprintf(stderr, "squatters: %s\n", fail.text);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static struct squatter squatter[MAX];
	int loris = argc > 3 ? atoi(argv[2]) : 0, deaf = argc > 3 ? atoi(argv[3]) : 0;
	int n = loris + deaf + (argc > 4 ? atoi(argv[4]) : 0);

	port = argc > 3 ? atoi(argv[1]) : 0;
	if (port < 1 || n < 1 || n > MAX)
		return 64;
	signal(SIGTERM, on_term);
	open_plan();
	for (int i = 0; i < n; i++)
		squatter[i] = (struct squatter){.fd = -1, .kind = i < loris ? LORIS : i < loris + deaf ? DEAF : FLOOD};
	for (int i = 0; i < n && !over; i++)
		for (int tries = 0; tries < 3 && !over && !log_in(&squatter[i]); tries++)
			;
	printf("%ld\n", logins);
	fflush(stdout);
	(void)!nice(19);
	while (!over) {
		for (int i = 0; i < n; i++)
			turn(&squatter[i]);
		nanosleep(&(struct timespec){.tv_nsec = TURN_MS * 1000000L}, NULL);
	}
	printf("%ld\n", logins);
	sl_plan_close(plan);
	return 0;
}
