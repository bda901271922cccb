/* Both transports under the same cases, on loopback; then what only ZeroMQ can suffer: raw sockets that misbehave while
 * a good client goes on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/link/loop.h"
#include "common/link/peers.h"
#include "common/link/transport.h"
#include "common/link/transport_inproc.h"
#include "common/link/wire.h"

enum { PART = 1 << 16, HWM = 8, GIVE_UP_MS = 20000 };

/* One end and what happened to it. */
struct end {
	struct sl_loop *loop;
	struct sl_transport *transport;
	sl_peer peer; /* that sent last */
	uint64_t messages, payload_bytes, writable, malformed, lost;
	uint64_t stop_at; /* messages after which the loop stops; 0: never */
	bool stop_on_lost, stop_on_writable, stop_on_malformed;
	bool echo;
	sl_peer echo_to;     /* 0: to whoever sends */
	int echo_left;       /* a ping that is sent again for each answer */
	uint32_t header_sum; /* of first bytes */
	char last[64];
};

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct end *e = arg;

	e->peer = peer;
	e->messages++;
	e->payload_bytes += payload.len;
	e->header_sum += header.data[0];
	snprintf(e->last, sizeof e->last, "%.*s", (int)header.len, (const char *)header.data);
	if ((e->echo || e->echo_left > 0) && (!e->echo_to || e->echo_to == peer)) {
		e->echo_left--;
		assert_int_equal(sl_transport_send(e->transport, peer, header, &(struct sl_payload){.bytes = payload}),
				 SL_OK);
	}
	if (e->messages == e->stop_at)
		sl_loop_stop(e->loop);
}

static void on_writable(void *arg, sl_peer peer)
{
	struct end *e = arg;

	(void)peer;
	e->writable++;
	if (e->stop_on_writable)
		sl_loop_stop(e->loop);
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	struct end *e = arg;

	(void)peer;
	assert_non_null(why);
	e->malformed++;
	if (e->stop_on_malformed)
		sl_loop_stop(e->loop);
}

static void on_lost(void *arg, sl_peer peer)
{
	struct end *e = arg;

	(void)peer;
	e->lost++;
	if (e->stop_on_lost)
		sl_loop_stop(e->loop);
}

static const struct sl_transport_events events = {
	.message = on_message, .writable = on_writable, .malformed = on_malformed, .lost = on_lost};

static const char *const schemes[] = {"tcp://127.0.0.1:*", "inproc://test"};
enum { SCHEMES = 2 };

static void open_server(struct end *e, struct sl_loop *loop, const char *endpoint)
{
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = PART, .hwm = HWM};
	struct sl_fail fail;

	*e = (struct end){.loop = loop};
	if (sl_transport_bind(&e->transport, loop, &conf, &events, e, &fail))
		fail_msg("%s", fail.text);
}

static void open_client(struct end *e, struct sl_loop *loop, const char *endpoint)
{
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = PART, .hwm = HWM};
	struct sl_fail fail;

	*e = (struct end){.loop = loop};
	if (sl_transport_connect(&e->transport, loop, &conf, &events, e, &fail))
		fail_msg("%s", fail.text);
}

static struct sl_loop *open_loop(void)
{
	struct sl_loop *loop;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	return loop;
}

static void gave_up(void *arg)
{
	(void)arg;
	fail_msg("nothing happened for %d ms", GIVE_UP_MS);
}

/* Until somebody stops the loop, with a limit. */
static void run(struct sl_loop *loop)
{
	struct sl_timer *timer;

	assert_int_equal(sl_timer_open(&timer, loop, gave_up, NULL, NULL), SL_OK);
	sl_timer_start(timer, GIVE_UP_MS, 0);
	sl_loop_run(loop);
	sl_timer_close(timer);
}

static void stop_loop(void *arg)
{
	sl_loop_stop(arg);
}

static void run_for(struct sl_loop *loop, uint64_t ms)
{
	struct sl_timer *timer;

	assert_int_equal(sl_timer_open(&timer, loop, stop_loop, loop, NULL), SL_OK);
	sl_timer_start(timer, ms, 0);
	sl_loop_run(loop);
	sl_timer_close(timer);
}

static struct sl_bytes text(const char *s)
{
	return (struct sl_bytes){(const uint8_t *)s, strlen(s)};
}

/* A connected client has no connection yet: BUSY, and then `writable`. */
static void send_when_writable(struct end *e, const char *header)
{
	while (sl_transport_send(e->transport, SL_PEER_SERVER, text(header), NULL) == SL_ERR_BUSY) {
		e->stop_on_writable = true;
		run(e->loop);
		e->stop_on_writable = false;
	}
}

static void release_one(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* ---- both transports */

static void many_small_messages_go_both_ways(const char *endpoint)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;

	open_server(&server, loop, endpoint);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.echo = true;
	client.echo_left = 9999;
	client.stop_at = 10000;
	send_when_writable(&client, "ping");
	run(loop);
	assert_int_equal(server.messages, 10000);
	assert_int_equal(client.messages, 10000);
	assert_string_equal(client.last, "ping");
	assert_int_equal(server.payload_bytes + server.malformed + client.malformed + server.lost + client.lost, 0);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

/* Sends `total` parts as fast as the transport takes them. */
struct pump {
	struct end end;
	sl_peer to;
	int sent, total, busy;
	atomic_int released;
	uint8_t *data;
};

static void pump_on(struct pump *p)
{
	while (p->sent < p->total) {
		struct sl_payload payload = {
			.bytes = {p->data, PART}, .release = release_one, .release_arg = &p->released};
		char header[32];
		enum sl_err err;

		snprintf(header, sizeof header, "%d", p->sent);
		err = sl_transport_send(p->end.transport, p->to, text(header), &payload);
		if (err == SL_ERR_BUSY) {
			p->busy++;
			return;
		}
		assert_int_equal(err, SL_OK);
		p->sent++;
	}
}

static void pump_writable(void *arg, sl_peer peer)
{
	struct pump *p = arg;

	(void)peer;
	p->end.writable++;
	pump_on(p);
}

static const struct sl_transport_events pump_events = {
	.message = on_message, .writable = pump_writable, .malformed = on_malformed, .lost = on_lost};

static void open_pump(struct pump *p, struct sl_loop *loop, const char *endpoint, int total)
{
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = PART, .hwm = HWM};

	*p = (struct pump){.end = {.loop = loop}, .total = total, .to = SL_PEER_SERVER, .data = malloc(PART)};
	memset(p->data, 0x5a, PART);
	assert_int_equal(sl_transport_connect(&p->end.transport, loop, &conf, &pump_events, p, NULL), SL_OK);
}

static void parts_arrive_whole_and_are_released_once(const char *endpoint)
{
	struct sl_loop *loop = open_loop();
	struct end server;
	struct pump p;

	open_server(&server, loop, endpoint);
	open_pump(&p, loop, sl_transport_endpoint(server.transport), 3000);
	server.stop_at = 3000;
	pump_on(&p);
	run(loop);
	assert_string_equal(server.last, "2999");
	assert_true(server.payload_bytes == 3000ull * PART);
	assert_true(p.busy > 1); /* the high-water mark was reached, and `writable` led on */
	sl_transport_close(p.end.transport, 0);
	assert_int_equal(p.released, 3000);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
	free(p.data);
}

struct slow_server {
	const char *endpoint;
	pthread_barrier_t opened, go;
	struct end end;
	int expect;
};

static void *slow_server_main(void *arg)
{
	struct slow_server *s = arg;
	struct sl_loop *loop = open_loop();

	open_server(&s->end, loop, s->endpoint);
	s->end.stop_at = (uint64_t)s->expect;
	pthread_barrier_wait(&s->opened);
	pthread_barrier_wait(&s->go); /* meanwhile it does not read */
	run(loop);
	sl_transport_close(s->end.transport, 0);
	sl_loop_close(loop);
	return NULL;
}

static void a_receiver_that_does_not_read_stops_the_sender(const char *endpoint)
{
	struct slow_server s = {.endpoint = endpoint, .expect = 2000};
	struct sl_loop *loop = open_loop();
	pthread_t thread;
	struct pump p;
	int held;

	pthread_barrier_init(&s.opened, NULL, 2);
	pthread_barrier_init(&s.go, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, slow_server_main, &s), 0);
	pthread_barrier_wait(&s.opened);
	open_pump(&p, loop, sl_transport_endpoint(s.end.transport), s.expect);
	pump_on(&p);
	run_for(loop, 300);
	held = p.sent;
	assert_true(held < s.expect); /* marks and the kernel's buffers, no more */
	run_for(loop, 100);
	assert_int_equal(p.sent, held);
	pthread_barrier_wait(&s.go);
	while (p.sent < p.total || p.released < p.total)
		run_for(loop, 10);
	pthread_join(thread, NULL);
	assert_int_equal(s.end.messages, s.expect);
	sl_transport_close(p.end.transport, 0);
	assert_int_equal(p.released, s.expect);
	sl_loop_close(loop);
	free(p.data);
	pthread_barrier_destroy(&s.opened);
	pthread_barrier_destroy(&s.go);
}

static void a_client_that_left_is_lost_to_the_server(const char *endpoint)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;
	atomic_int released = 0;
	uint8_t data[8] = {0};
	struct sl_payload payload = {.bytes = {data, 8}, .release = release_one, .release_arg = &released};
	enum sl_err err = SL_OK;
	int sent = 0;

	open_server(&server, loop, endpoint);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	send_when_writable(&client, "hello");
	run(loop);
	sl_transport_close(client.transport, 0);
	server.stop_on_lost = true;
	for (int i = 0; i < 200 && err == SL_OK && !server.lost; i++) {
		err = sl_transport_send(server.transport, server.peer, text("x"), &payload);
		sent += err == SL_OK;
		run_for(loop, 5);
	}
	assert_int_equal(server.lost, 1);
	err = sl_transport_send(server.transport, server.peer, text("x"), &payload);
	assert_int_equal(err, SL_ERR_PEER_LOST);
	run_for(loop, 20);
	assert_int_equal(server.lost, 1); /* said once, and forgotten */
	sl_transport_close(server.transport, 0);
	assert_int_equal(released, sent); /* and what could not be sent stayed ours */
	sl_loop_close(loop);
}

static void a_server_that_left_is_lost_to_the_client(const char *endpoint)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;

	open_server(&server, loop, endpoint);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	send_when_writable(&client, "hello");
	run(loop);
	sl_transport_close(server.transport, 0);
	client.stop_on_lost = true;
	run(loop);
	assert_int_equal(client.lost, 1);
	sl_transport_close(client.transport, 0);
	sl_loop_close(loop);
}

static void a_forgotten_peer_gets_a_new_number(const char *endpoint)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;
	sl_peer first;

	open_server(&server, loop, endpoint);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	send_when_writable(&client, "one");
	run(loop);
	first = server.peer;
	sl_transport_forget(server.transport, first);
	assert_int_equal(sl_transport_send(server.transport, first, text("x"), NULL), SL_ERR_PEER_LOST);
	server.stop_at = 2;
	send_when_writable(&client, "two");
	run(loop);
	assert_true(server.peer != first && server.peer != 0);
	client.stop_at = 1;
	assert_int_equal(sl_transport_send(server.transport, server.peer, text("x"), NULL), SL_OK);
	run(loop);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static void close_on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct end *e = arg;

	(void)peer, (void)header, (void)payload;
	sl_transport_close(e->transport, 0);
	e->transport = NULL;
	sl_loop_stop(e->loop);
}

static void closing_from_inside_an_event_is_safe(const char *endpoint)
{
	const struct sl_transport_events closing = {
		.message = close_on_message, .writable = on_writable, .malformed = on_malformed, .lost = on_lost};
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = PART, .hwm = HWM};
	struct sl_loop *loop = open_loop();
	struct end server = {.loop = loop}, client;

	assert_int_equal(sl_transport_bind(&server.transport, loop, &conf, &closing, &server, NULL), SL_OK);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	send_when_writable(&client, "one");
	(void)!sl_transport_send(client.transport, SL_PEER_SERVER, text("two"), NULL);
	run(loop);
	assert_null(server.transport);
	sl_transport_close(client.transport, 0);
	sl_loop_close(loop);
}

static void on_both(void (*test)(const char *endpoint))
{
	for (int i = 0; i < SCHEMES; i++)
		test(schemes[i]);
}

#define BOTH(name)                            \
	static void both_##name(void **state) \
	{                                     \
		(void)state;                  \
		on_both(name);                \
	}
BOTH(many_small_messages_go_both_ways)
BOTH(parts_arrive_whole_and_are_released_once)
BOTH(a_receiver_that_does_not_read_stops_the_sender)
BOTH(a_client_that_left_is_lost_to_the_server)
BOTH(a_server_that_left_is_lost_to_the_client)
BOTH(a_forgotten_peer_gets_a_new_number)
BOTH(closing_from_inside_an_event_is_safe)

static void wrong_configurations_say_what_would_be_right(void **state)
{
	struct sl_loop *loop = open_loop();
	struct sl_transport *t;
	struct sl_transport_conf conf = {.endpoint = "udp://x", .part_bytes = PART, .hwm = HWM};
	struct sl_fail fail;
	struct end server;

	(void)state;
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "tcp://"));
	conf.endpoint = "tcp://no-port";
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_CONFIG);
	conf.part_bytes = SL_WIRE_PART_MAX + 1;
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_CONFIG);
	open_server(&server, loop, schemes[0]);
	conf = (struct sl_transport_conf){sl_transport_endpoint(server.transport), PART, HWM, NULL};
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &events, NULL, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "in use"));
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

/* ---- faults of the inproc transport */

static enum sl_fault next_fault(void *arg, struct sl_bytes header, struct sl_bytes payload)
{
	enum sl_fault *fault = arg, now = *fault;

	(void)header, (void)payload;
	*fault = SL_FAULT_NONE;
	return now;
}

static void faults_do_what_they_say(void **state)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;
	enum sl_fault fault = SL_FAULT_DROP;

	(void)state;
	open_server(&server, loop, schemes[1]);
	open_client(&client, loop, schemes[1]);
	sl_inproc_faults(client.transport, next_fault, &fault);
	send_when_writable(&client, "dropped");
	send_when_writable(&client, "kept");
	run_for(loop, 10);
	assert_int_equal(server.messages, 1);
	assert_string_equal(server.last, "kept");
	fault = SL_FAULT_DUPLICATE;
	send_when_writable(&client, "twice");
	run_for(loop, 10);
	assert_int_equal(server.messages, 3);
	fault = SL_FAULT_HOLD;
	send_when_writable(&client, "first");
	send_when_writable(&client, "second");
	run_for(loop, 10);
	assert_string_equal(server.last, "first");
	fault = SL_FAULT_CORRUPT;
	send_when_writable(&client, "abcd");
	run_for(loop, 10);
	assert_string_equal(server.last, "absd");
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

/* ---- ZeroMQ against raw sockets */

struct raw {
	void *context, *socket;
};

static struct raw raw_open(const char *endpoint, const char *routing_id)
{
	struct raw r = {.context = zmq_ctx_new()};

	r.socket = zmq_socket(r.context, ZMQ_DEALER);
	if (routing_id)
		assert_int_equal(zmq_setsockopt(r.socket, ZMQ_ROUTING_ID, routing_id, strlen(routing_id)), 0);
	zmq_setsockopt(r.socket, ZMQ_LINGER, &(int){0}, sizeof(int));
	assert_int_equal(zmq_connect(r.socket, endpoint), 0);
	return r;
}

static void raw_send(struct raw *r, const size_t *frame_len, int frames)
{
	for (int i = 0; i < frames; i++) {
		uint8_t *data = calloc(1, frame_len[i] + 1);

		assert_non_null(data);
		assert_int_equal(zmq_send(r->socket, data, frame_len[i], i + 1 < frames ? ZMQ_SNDMORE : 0),
				 (int)frame_len[i]);
		free(data);
	}
}

static void raw_close(struct raw *r)
{
	zmq_close(r->socket);
	zmq_ctx_term(r->context);
}

static void expect_malformed(struct end *server, struct raw *r, const size_t *frame_len, int frames)
{
	uint64_t before = server->malformed;

	server->stop_on_malformed = true;
	raw_send(r, frame_len, frames);
	run(server->loop);
	server->stop_on_malformed = false;
	assert_int_equal(server->malformed, before + 1);
}

static void ping(struct end *client, struct end *server)
{
	server->echo = true;
	client->stop_at = client->messages + 1;
	send_when_writable(client, "ping");
	run(client->loop);
	assert_int_equal(client->messages, client->stop_at);
}

static void malformed_messages_are_dropped_and_others_go_on(void **state)
{
	struct sl_loop *loop = open_loop();
	struct end server, client;
	struct raw r, named;
	size_t hundred[100] = {0};
	uint64_t good;

	(void)state;
	open_server(&server, loop, schemes[0]);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	ping(&client, &server);
	r = raw_open(sl_transport_endpoint(server.transport), NULL);
	good = server.messages;
	expect_malformed(&server, &r, (size_t[]){10}, 1);
	expect_malformed(&server, &r, (size_t[]){0}, 1);
	expect_malformed(&server, &r, (size_t[]){10, 10, 10}, 3);
	expect_malformed(&server, &r, hundred, 100);
	expect_malformed(&server, &r, (size_t[]){0, 10}, 2);
	expect_malformed(&server, &r, (size_t[]){SL_WIRE_HEADER_MAX + 1, 10}, 2);
	expect_malformed(&server, &r, (size_t[]){10, PART + 1}, 2);
	assert_int_equal(server.messages, good);
	server.stop_at = good + 1;
	server.echo = false;
	raw_send(&r, (size_t[]){SL_WIRE_HEADER_MAX, PART}, 2); /* the largest that is right */
	run(loop);
	named = raw_open(sl_transport_endpoint(server.transport), "i am somebody else");
	expect_malformed(&server, &named, (size_t[]){10, 10}, 2);
	raw_close(&named);
	/* beyond ZMQ_MAXMSGSIZE ZeroMQ itself cuts the connection: nothing is seen of it here */
	raw_send(&r, (size_t[]){10, PART + SL_WIRE_HEADER_MAX + 1}, 2);
	run_for(loop, 50);
	assert_int_equal(server.messages, good + 1);
	ping(&client, &server);
	raw_close(&r);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static int raw_tcp(const char *endpoint)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint8_t garbage[256];

	to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (uint8_t)rand();
	(void)!send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
	return fd;
}

static void thousands_of_garbage_connections_disturb_nobody(void **state)
{
	enum { BATCHES = 30, TCP = 70, ZMQ = 10 };
	struct sl_loop *loop = open_loop();
	struct end server, client;
	sl_peer good;

	(void)state;
	srand(7);
	open_server(&server, loop, schemes[0]);
	open_client(&client, loop, sl_transport_endpoint(server.transport));
	ping(&client, &server);
	good = server.echo_to = server.peer; /* strangers may be gone again */
	for (int b = 0; b < BATCHES; b++) {
		int fd[TCP];
		struct raw raw[ZMQ];

		server.echo = false;
		for (int i = 0; i < ZMQ; i++) {
			raw[i] = raw_open(sl_transport_endpoint(server.transport), NULL);
			raw_send(&raw[i], (size_t[]){100, 1000}, 2);
		}
		for (int i = 0; i < TCP; i++)
			fd[i] = raw_tcp(sl_transport_endpoint(server.transport));
		run_for(loop, 5);
		ping(&client, &server);
		for (int i = 0; i < TCP; i++)
			close(fd[i]);
		for (int i = 0; i < ZMQ; i++)
			raw_close(&raw[i]);
	}
	/* an answer comes to the number that it had at first alone; messages of strangers that have gone may still come
	 */
	client.stop_at = client.messages + 1;
	send_when_writable(&client, "still me");
	run(loop);
	assert_string_equal(client.last, "still me");
	assert_true(server.echo_to == good);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

/* ---- the table of peers */

static sl_peer seen(struct sl_peers *peers, uint32_t n)
{
	uint8_t id[SL_PEER_ID_BYTES] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

	return sl_peers_seen(peers, id, sizeof id);
}

static void strangers_are_bounded_and_acquaintances_stay(void **state)
{
	struct sl_peers *peers;
	sl_peer known, quiet, talker, other;

	(void)state;
	assert_int_equal(sl_peers_open(&peers, NULL), SL_OK);
	known = seen(peers, 1);
	quiet = seen(peers, 2);
	talker = seen(peers, 3);
	assert_non_null(sl_peers_address(peers, known));
	for (uint32_t n = 0; n < 100000; n++) {
		other = seen(peers, 1000 + n);
		assert_true(other && other != known && other != talker);
		if (n % 100 == 0)
			assert_true(seen(peers, 3) == talker);
	}
	assert_true(seen(peers, 1) == known);
	assert_null(sl_peers_address(peers, quiet)); /* silent for longest: gone */
	assert_true(seen(peers, 2) != quiet);
	sl_peers_close(peers);
}

static void a_full_table_ignores_newcomers(void **state)
{
	struct sl_peers *peers;
	sl_peer first = 0;

	(void)state;
	assert_int_equal(sl_peers_open(&peers, NULL), SL_OK);
	for (uint32_t n = 0; n < SL_TRANSPORT_PEERS; n++) {
		sl_peer p = seen(peers, n);

		first = first ? first : p;
		assert_non_null(sl_peers_address(peers, p));
	}
	assert_true(seen(peers, 99999) == 0);
	sl_peers_forget(peers, first);
	assert_true(seen(peers, 99999) != 0);
	assert_true(seen(peers, 5) != 0);
	sl_peers_close(peers);
}

static void flagged_peers_are_listed_once_in_order(void **state)
{
	struct sl_peers *peers;
	sl_peer a, b, c;
	bool gone;

	(void)state;
	assert_int_equal(sl_peers_open(&peers, NULL), SL_OK);
	a = seen(peers, 1), b = seen(peers, 2), c = seen(peers, 3);
	sl_peers_flag(peers, b, false);
	sl_peers_flag(peers, a, false);
	sl_peers_flag(peers, c, false);
	sl_peers_flag(peers, b, true);
	sl_peers_forget(peers, c);
	assert_int_equal(sl_peers_flagged(peers), 2);
	assert_true(sl_peers_take_flagged(peers, &gone) == b && gone);
	assert_true(sl_peers_take_flagged(peers, &gone) == a && !gone);
	assert_true(sl_peers_take_flagged(peers, &gone) == 0);
	sl_peers_close(peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_many_small_messages_go_both_ways),
		cmocka_unit_test(both_parts_arrive_whole_and_are_released_once),
		cmocka_unit_test(both_a_receiver_that_does_not_read_stops_the_sender),
		cmocka_unit_test(both_a_client_that_left_is_lost_to_the_server),
		cmocka_unit_test(both_a_server_that_left_is_lost_to_the_client),
		cmocka_unit_test(both_a_forgotten_peer_gets_a_new_number),
		cmocka_unit_test(both_closing_from_inside_an_event_is_safe),
		cmocka_unit_test(wrong_configurations_say_what_would_be_right),
		cmocka_unit_test(faults_do_what_they_say),
		cmocka_unit_test(malformed_messages_are_dropped_and_others_go_on),
		cmocka_unit_test(thousands_of_garbage_connections_disturb_nobody),
		cmocka_unit_test(strangers_are_bounded_and_acquaintances_stay),
		cmocka_unit_test(a_full_table_ignores_newcomers),
		cmocka_unit_test(flagged_peers_are_listed_once_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
