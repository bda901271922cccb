/* usage: bench_link [--rows] [MiB]
 * Moves MiB (2048) over ZeroMQ on loopback, in runs of 16 MiB that are cut into parts of 1 MiB, as in training: with
 * send queue, headers, XXH3 on both sides, a copy into place and credit. To compare, it moves as many bytes with CURVE
 * and through a plain TCP socket, in turn. Prints medians of ROUNDS rounds with the least and the most. --rows: lines
 * of name, median, min, max and unit, tab-separated. */
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/link/gate.h"
#include "common/link/loop.h"
#include "common/link/outq.h"

enum { PART = 1 << 20, RUN = 16 << 20, WINDOW = 32 << 20, HWM = 64, ROUNDS = 5, MIB = 1 << 20 };

struct result {
	double wall_s, client_cpu_s, server_cpu_s;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_link: %s\n", what);
	exit(70);
}

static double thread_cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the link */

/* Both sides' keys, and the receiver's list of allowed keys. gate NULL: this libzmq has no CURVE. */
static struct {
	struct sl_keypair sender, receiver;
	struct sl_gate *gate;
} keys;

static void make_keys(void)
{
	struct sl_allow *allow;
	struct sl_fail fail;
	char line[SL_KEY_TEXT + 8];

	if (sl_keypair_make(&keys.sender, &fail) || sl_keypair_make(&keys.receiver, &fail))
		return;
	sl_key_print(&keys.sender.public_key, line);
	strcat(line, " sender");
	if (sl_allow_parse(&allow, "list", line, strlen(line), &fail) || sl_gate_open(&keys.gate, allow, &fail))
		die(fail.text);
}

struct receiver {
	bool curve;
	pthread_barrier_t opened, done;
	char endpoint[256];
	struct sl_loop *loop;
	struct sl_transport *transport;
	uint8_t *place; /* RUN bytes */
	uint64_t expect, got;
	double cpu_s;
};

static void give_credit(struct receiver *r, sl_peer peer, uint64_t bytes)
{
	struct sl_frame f = {.kind = SL_FRAME_CREDIT, .u.credit.bytes = bytes};
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	if (sl_wire_encode(&f, header, &len) ||
	    sl_transport_send(r->transport, peer, (struct sl_bytes){header, len}, NULL))
		die("cannot send a credit");
}

static void received(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct receiver *r = arg;
	struct sl_frame f;
	struct sl_fail fail;

	if (sl_wire_decode(header, payload, &f, &fail))
		die(fail.text);
	memcpy(r->place + f.u.part.offset, payload.data, payload.len);
	give_credit(r, peer, payload.len);
	r->got += payload.len;
	if (r->got == r->expect)
		sl_loop_stop(r->loop);
}

static void ignore_peer(void *arg, sl_peer peer)
{
	(void)arg, (void)peer;
}

static void no_malformed(void *arg, sl_peer peer, const char *why)
{
	(void)arg, (void)peer;
	die(why);
}

static void *receiver_main(void *arg)
{
	static const struct sl_transport_events events = {received, ignore_peer, no_malformed, ignore_peer, NULL};
	struct sl_transport_conf conf = {.endpoint = "tcp://127.0.0.1:*", .part_bytes = PART, .hwm = HWM};
	const struct sl_transport_auth auth = {.own = &keys.receiver, .gate = keys.gate};
	struct receiver *r = arg;
	struct sl_fail fail;
	double cpu_s;

	conf.auth = r->curve ? &auth : NULL;

	if (sl_loop_open(&r->loop, &fail) || sl_transport_bind(&r->transport, r->loop, &conf, &events, r, &fail))
		die(fail.text);
	snprintf(r->endpoint, sizeof r->endpoint, "%s", sl_transport_endpoint(r->transport));
	pthread_barrier_wait(&r->opened);
	cpu_s = thread_cpu_s();
	sl_loop_run(r->loop);
	r->cpu_s = thread_cpu_s() - cpu_s;
	pthread_barrier_wait(&r->done);
	sl_transport_close(r->transport, 0);
	sl_loop_close(r->loop);
	return NULL;
}

struct sender {
	struct sl_loop *loop;
	struct sl_outq *queue;
	int runs_left, runs_out;
};

static void credited(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sender *s = arg;
	struct sl_frame f;
	struct sl_fail fail;

	(void)peer;
	if (sl_wire_decode(header, payload, &f, &fail))
		die(fail.text);
	sl_outq_credit(s->queue, f.u.credit.bytes);
}

static void writable(void *arg, sl_peer peer)
{
	(void)peer;
	sl_outq_pump(((struct sender *)arg)->queue);
}

static void run_sent(struct sl_run *run)
{
	struct sender *s = run->arg;

	if (s->runs_left > 0) {
		s->runs_left--;
		sl_outq_post(s->queue, run);
	} else if (--s->runs_out == 0) {
		sl_loop_stop(s->loop);
	}
}

static struct result over_link(uint8_t *data, uint8_t *place, uint64_t bytes, bool curve)
{
	static const struct sl_transport_events events = {credited, writable, no_malformed, ignore_peer, NULL};
	const struct sl_transport_auth auth = {.own = &keys.sender, .server = &keys.receiver.public_key};
	struct sl_transport_conf conf = {.part_bytes = PART, .hwm = HWM, .auth = curve ? &auth : NULL};
	struct receiver r = {.curve = curve, .place = place, .expect = bytes};
	struct sender s = {.runs_left = (int)(bytes / RUN) - 2, .runs_out = 2};
	struct sl_transport *transport;
	struct sl_run run[2];
	struct sl_fail fail;
	struct result out;
	pthread_t thread;
	uint64_t start;

	pthread_barrier_init(&r.opened, NULL, 2);
	pthread_barrier_init(&r.done, NULL, 2);
	pthread_create(&thread, NULL, receiver_main, &r);
	pthread_barrier_wait(&r.opened);
	conf.endpoint = r.endpoint;
	if (sl_loop_open(&s.loop, &fail) || sl_transport_connect(&transport, s.loop, &conf, &events, &s, &fail) ||
	    sl_outq_open(&s.queue, s.loop, transport, SL_PEER_SERVER, &fail))
		die(fail.text);
	sl_outq_limits(s.queue, PART, WINDOW);
	out.client_cpu_s = thread_cpu_s();
	start = sl_now_ns();
	for (int i = 0; i < 2; i++) {
		run[i] = (struct sl_run){.part.what = SL_PART_HEAD_ACT,
					 .data = data + (size_t)i * RUN,
					 .len = RUN,
					 .sent = run_sent,
					 .arg = &s};
		sl_outq_post(s.queue, &run[i]);
	}
	sl_loop_run(s.loop);
	out.client_cpu_s = thread_cpu_s() - out.client_cpu_s;
	pthread_barrier_wait(&r.done);
	out.wall_s = sl_seconds_since(start);
	pthread_join(thread, NULL);
	out.server_cpu_s = r.cpu_s;
	sl_transport_close(transport, 0);
	sl_outq_close(s.queue);
	sl_loop_close(s.loop);
	pthread_barrier_destroy(&r.opened);
	pthread_barrier_destroy(&r.done);
	return out;
}

/* ---- a plain socket */

struct plain {
	int fd;
	uint8_t *place;
	uint64_t expect;
};

static void *plain_receiver(void *arg)
{
	struct plain *p = arg;
	int fd = accept(p->fd, NULL, NULL);
	size_t at = 0;

	for (uint64_t got = 0; got < p->expect;) {
		ssize_t n = recv(fd, p->place + at, PART < RUN - at ? PART : RUN - at, 0);

		if (n <= 0)
			die("recv");
		got += (uint64_t)n;
		at = (at + (size_t)n) % RUN;
	}
	close(fd);
	return NULL;
}

static double over_socket(const uint8_t *data, uint8_t *place, uint64_t bytes)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	struct plain p = {.fd = socket(AF_INET, SOCK_STREAM, 0), .place = place, .expect = bytes};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;
	uint64_t start;

	if (bind(p.fd, (struct sockaddr *)&at, sizeof at) || listen(p.fd, 1) ||
	    getsockname(p.fd, (struct sockaddr *)&at, &len) || connect(fd, (struct sockaddr *)&at, sizeof at))
		die("socket");
	pthread_create(&thread, NULL, plain_receiver, &p);
	start = sl_now_ns();
	for (uint64_t sent = 0; sent < bytes;) {
		size_t from = sent % (2 * RUN), left = 2 * RUN - from;
		ssize_t n = send(fd, data + from, left < PART ? left : PART, 0);

		if (n <= 0)
			die("send");
		sent += (uint64_t)n;
	}
	pthread_join(thread, NULL);
	close(fd);
	close(p.fd);
	return sl_seconds_since(start);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints median, least and most of `v`, which it sorts. */
static void report(const char *name, const char *unit, double v[ROUNDS], bool rows)
{
	qsort(v, ROUNDS, sizeof *v, by_value);
	printf(rows ? "%s\t%.4f\t%.4f\t%.4f\t%s\n" : "%-24s %7.3f (%.3f to %.3f) %s\n", name, v[ROUNDS / 2], v[0],
	       v[ROUNDS - 1], unit);
}

int main(int argc, char **argv)
{
	bool rows = argc > 1 && strcmp(argv[1], "--rows") == 0;
	const char *mib = argc > 1 + rows ? argv[1 + rows] : "2048";
	uint64_t bytes = strtoull(mib, NULL, 10) * MIB / RUN * RUN;
	uint8_t *data = malloc(2 * RUN), *place = malloc(RUN);
	double gb = (double)bytes * 1e-9, link[ROUNDS], plain[ROUNDS], ratio[ROUNDS], sender[ROUNDS], receiver[ROUNDS];
	double curve[ROUNDS], curve_ratio[ROUNDS];

	if (!data || !place || bytes < 4ull * RUN)
		die("usage: bench_link [--rows] [MiB, at least 64]");
	for (size_t i = 0; i < 2 * RUN; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	memset(place, 0, RUN);
	make_keys();
	for (int i = 0; i < ROUNDS; i++) {
		double s = over_socket(data, place, bytes);
		struct result r = over_link(data, place, bytes, false);
		double curve_s = keys.gate ? over_link(data, place, bytes, true).wall_s : NAN;

		plain[i] = gb / s;
		link[i] = gb / r.wall_s;
		ratio[i] = s / r.wall_s;
		curve[i] = gb / curve_s;
		curve_ratio[i] = r.wall_s / curve_s;
		sender[i] = r.client_cpu_s / gb;
		receiver[i] = r.server_cpu_s / gb;
	}
	if (!rows)
		printf("%.2f GB in parts of 1 MiB\n", gb);
	report("link", "GB/s", link, rows);
	report("plain socket", "GB/s", plain, rows);
	report("link / plain socket", "x", ratio, rows);
	report("sender loop CPU", "s/GB", sender, rows);
	report("receiver loop CPU", "s/GB", receiver, rows);
	if (keys.gate) {
		report("link with CURVE", "GB/s", curve, rows);
		report("CURVE / plain link", "x", curve_ratio, rows);
	}
	sl_gate_close(keys.gate);
	free(data);
	free(place);
	return 0;
}
