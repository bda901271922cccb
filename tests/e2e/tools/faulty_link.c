/* faulty_link UPSTREAM_PORT FAULT DIR KIND NTH[+] [MS]: a relay on a loopback port of its own, which it prints. It
 * parses ZMTP 3 without encryption, and injects one fault. DIR: up, to the server, or down. KIND: a message kind from
 * hello to norm, by the schema's field number; mid_act, head_grad or weights, a part of these; or any. The fault hits
 * the NTH message, from 1, of that direction and kind over all connections; with + also all later ones. FAULT:
 *
 *   drop       that message and all after it are lost; the connection is closed
 *   vanish     the same, but the connection stays open, even when one side closes its own: half open
 *   late       the connection stops, both ways, for MS, whatever its ends do; then everything arrives
 *   slow       the message takes MS, byte by byte; what goes the other way does not wait
 *   duplicate  the message is sent twice
 *   header     one bit of the message's header is flipped
 *   payload    one bit of its payload is flipped
 *   none       no fault
 *   swap       the message is sent after the next one
 *   mute       from then on that direction carries only heartbeats and credit
 *   total, rows, chunk, step, epoch, hash, made, negative, nan, kept
 *              a field of the message is changed, see bend(); it stays well formed, and its checksums are right
 *   lie        a field of the message is another; KIND is a name of lies.h
 *   part, committed, norm, abandon, fetch, welcome
 *              an unsolicited message of that kind is sent after it
 *
 * Other connections are relayed unchanged meanwhile. The program ends on SIGTERM. Its last line is JSON: for each
 * direction the messages that were delivered whole, and their bytes of headers and payloads without ZMTP's own;
 * `wire`, the bytes that the client's connections carried: all that it sent and all that was relayed to it; the number
 * of connections; and the milliseconds until the client closed the faulty one (-1: never). On an encrypted link each
 * frame counts as a message. */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/link/wire.h"
#include "tests/e2e/tools/lies.h"
#include "tests/e2e/tools/loopback.h"

enum { MAX_LINKS = 64, READ = 1 << 16, GREETING = 64, MORE = 1, LONG = 2, COMMAND = 4 };
enum side { UP, DOWN, SIDES }; /* what comes from the client goes up */
enum fault {
	NONE,
	DROP,
	VANISH,
	LATE,
	SLOW,
	DUPLICATE,
	HEADER,
	PAYLOAD,
	SWAP,
	MUTE,
	LIE,
	TOTAL, /* from here on the message is another one */
	ROWS,
	CHUNK,
	STEP,
	EPOCH,
	HASH,
	MADE,
	NEGATIVE,
	NOT_A_NUMBER,
	KEPT,
	SAY_PART, /* from here on there is one more */
	SAY_COMMITTED,
	SAY_NORM,
	SAY_ABANDON,
	SAY_FETCH,
	SAY_WELCOME,
	FAULTS
};

static const char *const fault_name[FAULTS] = {
	"none",     "drop", "vanish", "late", "slow",      "duplicate", "header",  "payload", "swap",
	"mute",     "lie",  "total",  "rows", "chunk",     "step",      "epoch",   "hash",    "made",
	"negative", "nan",  "kept",   "part", "committed", "norm",      "abandon", "fetch",   "welcome"};
enum { PART = 5, CREDIT = 6, HEARTBEAT = 10, SCHEMA = 15 };
static const char *const kind_name[] = {"any",       "epoch",   "hello",    "welcome",   "refuse",
					"part",      "credit",  "commit",   "committed", "fetch",
					"heartbeat", "bye",     "abandon",  "challenge", "norm",
					"head_act",  "mid_act", "mid_grad", "head_grad", "weights"};
enum { KINDS = sizeof kind_name / sizeof kind_name[0] };

struct stream {
	int fd; /* to read from */
	uint8_t *data;
	size_t len, cap; /* read, and not yet relayed */
	unsigned long long read;
	size_t greeted; /* bytes of ZMTP's greeting, which are relayed one by one: each side waits for the other's first
			 */
	bool eof;
};

struct link {
	bool used, faulty, silent, mute, shut[SIDES];
	struct stream in[SIDES]; /* [UP]: from the client */
	uint8_t *swapped;        /* a message that goes out behind the next one; NULL: none */
	size_t swapped_len;
	size_t slow_len, slow_sent; /* of the message that goes slowly, the first in its buffer; slow_len 0: none */
};

static volatile sig_atomic_t stop;
static struct link links[MAX_LINKS];
static struct {
	enum fault fault;
	enum side side;
	int kind;
	const struct lie *lie;
	long nth;
	bool always;
	uint64_t ms;
} plan;
static bool done;
static uint64_t done_ms, release_ms;
static long noticed_ms = -1, connections, seen, messages[SIDES];
static unsigned long long bytes[SIDES], wire[SIDES];

static void on_term(int signum)
{
	(void)signum;
	stop = 1;
}

/* ---- ZMTP */

/* Returns the size of the frame at `data`, and where its body begins; 0 if the frame is incomplete. */
static size_t frame_bytes(const uint8_t *data, size_t len, size_t *body)
{
	uint64_t n = 0;

	*body = len && data[0] & LONG ? 9 : 2;
	if (len < *body)
		return 0;
	for (size_t i = 1; i < *body; i++)
		n = n << 8 | data[i];
	return len - *body >= n ? *body + (size_t)n : 0;
}

/* Returns the schema's number of the message kind: the field after the epoch, which is a varint. */
static int kind_of(const uint8_t *header, size_t len)
{
	size_t at = 1;

	while (at < len && header[at] & 0x80)
		at++;
	return at + 1 < len ? header[at + 1] >> 3 : 0;
}

static void relay(struct link *l, enum side side, const uint8_t *data, size_t len)
{
	if (!l->silent && send_all(l->in[!side].fd, data, len))
		wire[DOWN] += side == DOWN ? len : 0;
}

static void begin_fault(struct link *l)
{
	done = l->faulty = true;
	done_ms = sl_now_ms();
	release_ms = done_ms + plan.ms;
	l->silent = plan.fault == DROP || plan.fault == VANISH;
}

/* ---- lies */

static void nan_part(struct sl_frame *f)
{
	static const uint8_t nan_le[] = {0, 0, 0xc0, 0x7f};

	if (f->payload.len < sizeof nan_le)
		exit(1);
	memcpy((uint8_t *)(uintptr_t)f->payload.data + f->payload.len - sizeof nan_le, nan_le, sizeof nan_le);
	f->u.part.xxh3 = sl_wire_hash(f->payload);
}

static void bend_part(struct sl_frame *f)
{
	struct sl_part *p = &f->u.part;

	p->total += plan.fault == TOTAL ? 4 : 0;
	p->rows += plan.fault == ROWS;
	p->chunk += plan.fault == CHUNK;
	p->step += plan.fault == STEP || plan.fault == KEPT;
	p->xxh3 ^= plan.fault == HASH;
	if (plan.fault == NOT_A_NUMBER)
		nan_part(f);
}

static void bend(struct sl_frame *f)
{
	f->epoch += plan.fault == EPOCH;
	if (f->kind == SL_FRAME_PART)
		bend_part(f);
	if (f->kind == SL_FRAME_WELCOME) {
		f->u.welcome.next_step += plan.fault == STEP;
		f->u.welcome.begin += plan.fault == STEP;
		f->u.welcome.made += plan.fault == MADE;
		f->u.welcome.plan_hash[0] ^= plan.fault == HASH;
	}
	if (f->kind == SL_FRAME_COMMITTED) {
		f->u.committed.step += plan.fault == STEP;
		f->u.committed.checkpointed |= plan.fault == KEPT;
		f->u.committed.compute_s = plan.fault == NOT_A_NUMBER ? 0.0 / 0.0 : f->u.committed.compute_s;
	}
	if (f->kind == SL_FRAME_NORM) {
		f->u.norm.step += plan.fault == STEP;
		f->u.norm.squares = plan.fault == NOT_A_NUMBER ? 0.0 / 0.0
				    : plan.fault == NEGATIVE   ? -1
							       : f->u.norm.squares;
	}
}

/* Makes a message that answers no request. */
static void make_up(struct sl_frame *f)
{
	static const uint8_t zeros[64];
	static const enum sl_frame_kind kind[] = {SL_FRAME_PART,    SL_FRAME_COMMITTED, SL_FRAME_NORM,
						  SL_FRAME_ABANDON, SL_FRAME_FETCH,     SL_FRAME_WELCOME};
	const uint64_t epoch = f->epoch;

	*f = (struct sl_frame){.kind = kind[plan.fault - SAY_PART], .epoch = epoch};
	if (f->kind != SL_FRAME_PART)
		return;
	f->payload = (struct sl_bytes){zeros, sizeof zeros};
	f->u.part = (struct sl_part){.what = SL_PART_MID_ACT,
				     .training = true,
				     .rows = 4,
				     .total = sizeof zeros,
				     .xxh3 = sl_wire_hash(f->payload)};
}

static void relay_one(struct link *l, enum side side, struct sl_bytes body, uint8_t flags)
{
	uint8_t head[9] = {(uint8_t)(flags | LONG)};

	for (int i = 0; i < 8; i++)
		head[1 + i] = (uint8_t)((uint64_t)body.len >> (56 - 8 * i));
	relay(l, side, head, sizeof head);
	relay(l, side, body.data, body.len);
}

static void lie(struct link *l, enum side side, struct sl_bytes header, struct sl_bytes payload)
{
	uint8_t again[SL_WIRE_HEADER_MAX];
	struct sl_frame frame;
	struct sl_fail fail;
	size_t len;

	if (sl_wire_decode(header, payload, &frame, &fail) != SL_OK)
		exit(1);
	if (plan.lie && lie_is_unasked(plan.lie))
		lie_make_up(plan.lie, &frame, frame.u.part.step);
	else if (plan.lie)
		lie_bend(plan.lie, &frame);
	else
		(plan.fault < SAY_PART ? bend : make_up)(&frame);
	if (sl_wire_encode(&frame, again, &len) != SL_OK)
		exit(1);
	relay_one(l, side, (struct sl_bytes){again, len}, MORE);
	relay_one(l, side, frame.payload, 0);
}

/* ---- messages */

static bool is_meant(struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_frame frame;
	struct sl_fail fail;

	if (plan.lie && sl_wire_decode(header, payload, &frame, &fail) == SL_OK)
		return lie_is_unasked(plan.lie) ? frame.kind == SL_FRAME_PART && frame.u.part.training
						: lie_is_about(plan.lie, &frame);
	if (plan.kind < SCHEMA)
		return plan.kind == 0 || plan.kind == kind_of(header.data, header.len);
	return kind_of(header.data, header.len) == PART && sl_wire_decode(header, payload, &frame, &fail) == SL_OK &&
	       frame.u.part.what == (uint32_t)(plan.kind - SCHEMA);
}

/* Returns true if the fault `mute` drops the message. */
static bool hushed(const struct link *l, enum side side, struct sl_bytes header)
{
	const int kind = kind_of(header.data, header.len);

	return l->mute && side == plan.side && kind != HEARTBEAT && kind != CREDIT;
}

static void swap(struct link *l, const uint8_t *data, size_t len)
{
	l->swapped = malloc(len);
	if (!l->swapped)
		exit(1);
	memcpy(l->swapped, data, len);
	l->swapped_len = len;
}

static void say_swapped(struct link *l, enum side side)
{
	if (!l->swapped || side != plan.side)
		return;
	relay(l, side, l->swapped, l->swapped_len);
	free(l->swapped);
	l->swapped = NULL;
}

/* Handles a whole message of two frames, [0, first) and [first, len). Returns false if it must stay in the buffer. */
static bool message(struct link *l, enum side side, uint8_t *data, size_t first, size_t len)
{
	size_t head = 0, body = 0;
	struct sl_bytes header, payload;
	enum fault fault = NONE;

	frame_bytes(data, first, &head);
	frame_bytes(data + first, len - first, &body);
	header = (struct sl_bytes){data + head, first - head};
	payload = (struct sl_bytes){data + first + body, len - first - body};
	if ((!done || plan.always) && plan.fault != NONE && side == plan.side && is_meant(header, payload) &&
	    ++seen >= plan.nth) {
		fault = plan.fault;
		begin_fault(l);
	}
	if (fault == SLOW)
		l->slow_len = len;
	if (fault == LATE || fault == SLOW)
		return false;
	l->mute |= fault == MUTE;
	if (hushed(l, side, header))
		return true;
	if (fault == HEADER)
		data[head + (first - head) / 2] ^= 0x10;
	else if (fault == PAYLOAD && payload.len)
		data[first + body + payload.len / 2] ^= 0x10;
	if (fault == SWAP && !l->swapped) {
		swap(l, data, len);
		return true;
	}
	for (int copies = fault == DUPLICATE ? 2 : 1; copies > 0 && !l->silent; copies--) {
		if (fault < LIE || fault >= SAY_PART || (fault == LIE && lie_is_unasked(plan.lie)))
			relay(l, side, data, len);
		if (fault >= LIE)
			lie(l, side, header, payload);
		messages[side]++;
		bytes[side] += header.len + payload.len;
	}
	say_swapped(l, side);
	return true;
}

static bool held(const struct link *l, enum side side)
{
	return (l->faulty && plan.fault == LATE && sl_now_ms() < release_ms) || (l->slow_len && side == plan.side);
}

/* Relays all complete messages. A hold begins with the faulty message, which then stays in the buffer. */
static void advance(struct link *l, enum side side)
{
	struct stream *s = &l->in[side];
	size_t at = 0, body, first, second;

	if (s->greeted < GREETING) {
		at = s->len < GREETING - s->greeted ? s->len : GREETING - s->greeted;
		relay(l, side, s->data, at);
		s->greeted += at;
	}
	while (s->greeted == GREETING && !held(l, side)) {
		uint8_t *data = s->data + at;

		first = frame_bytes(data, s->len - at, &body);
		second = first && data[0] & MORE ? frame_bytes(data + first, s->len - at - first, &body) : 0;
		if (!first || (data[0] & MORE && !second))
			break;
		if (data[0] & COMMAND)
			relay(l, side, data, first);
		else if (!message(l, side, data, first, first + second))
			break;
		at += first + second;
	}
	memmove(s->data, s->data + at, s->len - at);
	s->len -= at;
}

/* Relays of the slow message what is due by now. */
static void trickle(struct link *l)
{
	struct stream *s = &l->in[plan.side];
	const uint64_t now_ms = sl_now_ms();
	const size_t due = now_ms < release_ms ? l->slow_len * (now_ms - done_ms) / plan.ms : l->slow_len;
	size_t body, first;

	relay(l, plan.side, s->data + l->slow_sent, due - l->slow_sent);
	l->slow_sent = due;
	if (due < l->slow_len)
		return;
	first = frame_bytes(s->data, s->len, &body);
	bytes[plan.side] += first - body;
	frame_bytes(s->data + first, s->len - first, &body);
	bytes[plan.side] += l->slow_len - first - body;
	messages[plan.side]++;
	s->len -= l->slow_len;
	memmove(s->data, s->data + l->slow_len, s->len);
	l->slow_len = 0;
	advance(l, plan.side);
}

/* ---- connections */

static void close_link(struct link *l)
{
	for (int side = 0; side < SIDES; side++) {
		close(l->in[side].fd);
		free(l->in[side].data);
	}
	free(l->swapped);
	*l = (struct link){.used = false};
}

/* Counts bytes that had arrived unread when the client reset the connection: a reset discards them in the socket. */
static unsigned long long came_unread(const struct stream *s)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	(void)getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_bytes_received > s->read ? info.tcpi_bytes_received - s->read : 0;
}

static void readable(struct link *l, enum side side)
{
	struct stream *s = &l->in[side];
	ssize_t n;

	if (s->cap - s->len < READ) {
		s->cap = 2 * s->cap + READ;
		s->data = realloc(s->data, s->cap);
		if (!s->data)
			exit(1);
	}
	n = recv(s->fd, s->data + s->len, READ, 0);
	if (n <= 0) {
		s->eof = true;
		wire[UP] += n < 0 && side == UP ? came_unread(s) : 0;
		if (side == UP && l->faulty && noticed_ms < 0)
			noticed_ms = (long)(sl_now_ms() - done_ms);
		return;
	}
	wire[UP] += side == UP ? (unsigned long long)n : 0;
	s->read += (unsigned long long)n;
	if (l->silent)
		return; /* lost */
	s->len += (size_t)n;
	advance(l, side);
}

/* Closes the connection if a side did, or if the link must be dropped: after everything that was relayed, and never by
 * a reset, which would discard bytes in the other side's buffers. */
static void wind_up(struct link *l)
{
	if (held(l, plan.side) || (l->silent && plan.fault == VANISH))
		return;
	for (int side = 0; side < SIDES; side++) {
		bool over = l->in[side].eof || (l->silent && plan.fault == DROP);

		if (l->faulty && plan.fault == LATE)
			advance(l, (enum side)side);
		if (over && !l->shut[side]) {
			shutdown(l->in[!side].fd, SHUT_WR);
			l->shut[side] = true;
		}
	}
	if (l->in[UP].eof && l->in[DOWN].eof)
		close_link(l);
}

static void take_one(int listener, int upstream_port)
{
	int client, server;

	if (!accept_one(listener, upstream_port, &client, &server))
		return;
	for (int i = 0; i < MAX_LINKS; i++) {
		if (links[i].used)
			continue;
		links[i] = (struct link){.used = true, .in = {{.fd = client}, {.fd = server}}};
		connections++;
		return;
	}
	close(client);
	close(server);
}

static void serve(int listener, int upstream_port)
{
	struct pollfd fds[1 + SIDES * MAX_LINKS];

	while (!stop) {
		fds[0] = (struct pollfd){listener, POLLIN, 0};
		for (int i = 0; i < SIDES * MAX_LINKS; i++) {
			const struct link *l = &links[i / SIDES];

			/* a side that has closed is readable for ever */
			fds[1 + i] =
				(struct pollfd){l->used && !l->in[i % SIDES].eof ? l->in[i % SIDES].fd : -1, POLLIN, 0};
		}
		if (poll(fds, 1 + SIDES * MAX_LINKS, 20) < 0 && errno != EINTR)
			return;
		for (int i = 0; i < SIDES * MAX_LINKS; i++)
			if (fds[1 + i].fd >= 0 && fds[1 + i].revents)
				readable(&links[i / SIDES], (enum side)(i % SIDES));
		for (int i = 0; i < MAX_LINKS; i++)
			if (links[i].slow_len)
				trickle(&links[i]);
		for (int i = 0; i < MAX_LINKS; i++)
			if (links[i].used)
				wind_up(&links[i]);
		if (fds[0].revents)
			take_one(listener, upstream_port);
	}
}

static int find(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	fprintf(stderr, "faulty_link: what is '%s'?\n", name);
	exit(64);
}

int main(int argc, char **argv)
{
	static const char *const side_name[SIDES] = {"up", "down"};
	int port = 0, listener = listen_anywhere(&port);

	for (int i = 0; argc == 2 && i < LIES; i++)
		puts(lies[i].name);
	if (argc < 6 || listener < 0)
		return 64;
	plan.fault = (enum fault)find(fault_name, FAULTS, argv[2]);
	plan.side = (enum side)find(side_name, SIDES, argv[3]);
	if (plan.fault == LIE && lie_named(argv[4]) < 0)
		return 64;
	if (plan.fault == LIE)
		plan.lie = &lies[lie_named(argv[4])];
	else
		plan.kind = find(kind_name, KINDS, argv[4]);
	plan.nth = atol(argv[5]);
	plan.always = strchr(argv[5], '+') != NULL;
	plan.ms = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
	signal(SIGTERM, on_term);
	signal(SIGPIPE, SIG_IGN);
	printf("%d\n", port);
	fflush(stdout);
	serve(listener, atoi(argv[1]));
	printf("{\"done\":%s,\"connections\":%ld,\"noticed_ms\":%ld,\"up\":%ld,\"up_bytes\":%llu,\"down\":%ld,"
	       "\"down_bytes\":%llu,\"wire_up\":%llu,\"wire_down\":%llu}\n",
	       done ? "true" : "false", connections, noticed_ms, messages[UP], bytes[UP], messages[DOWN], bytes[DOWN],
	       wire[UP], wire[DOWN]);
	return 0;
}
