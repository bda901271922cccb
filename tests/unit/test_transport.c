/* The same tests for both transports, on loopback; and faults that the in-memory transport is told to make. */
#include <pthread.h>
#include <stdatomic.h>

#include "common/link/wire.h"
#include "tests/support/link_end.h"
#include "tests/support/transport_inproc.h"
#include "tests/support/unit.h"

static const char *const schemes[] = {"tcp://127.0.0.1:*", "inproc://test"};
enum { SCHEMES = 2 };

static void release_one(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* ---- tests of both transports */

static void many_small_messages_go_both_ways(const char *endpoint)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;

	link_end_open_server(&server, loop, endpoint);
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.echo = true;
	client.echo_left = 9999;
	client.stop_at = 10000;
	link_end_send_when_writable(&client, "ping");
	link_end_run(loop);
	assert_int_equal(server.messages, 10000);
	assert_int_equal(client.messages, 10000);
	assert_string_equal(client.last, "ping");
	assert_int_equal(server.payload_bytes + server.malformed + client.malformed + server.lost + client.lost, 0);
	if (strncmp(endpoint, "tcp", 3) == 0) {
		assert_true(sl_transport_arrived(server.transport, server.peer) > 10000 * strlen("ping"));
		assert_true(sl_transport_arrived(client.transport, SL_PEER_SERVER) > 10000 * strlen("ping"));
	}
	assert_int_equal(sl_transport_arrived(server.transport, server.peer + 1), 0);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

/* Sends `total` parts as fast as the transport takes them. */
struct pump {
	struct link_end end;
	sl_peer to;
	int sent, total, busy;
	atomic_int released;
	uint8_t *data;
};

static void pump_on(struct pump *p)
{
	while (p->sent < p->total) {
		struct sl_payload payload = {
			.bytes = {p->data, LINK_END_PART}, .release = release_one, .release_arg = &p->released};
		char header[32];
		enum sl_err err;

		snprintf(header, sizeof header, "%d", p->sent);
		err = sl_transport_send(p->end.transport, p->to, link_end_text(header), &payload);
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
	.message = link_end_message, .writable = pump_writable, .malformed = link_end_malformed, .lost = link_end_lost};

static void open_pump(struct pump *p, struct sl_loop *loop, const char *endpoint, int total)
{
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = LINK_END_PART, .hwm = LINK_END_HWM};

	*p = (struct pump){.end = {.loop = loop}, .total = total, .to = SL_PEER_SERVER, .data = malloc(LINK_END_PART)};
	memset(p->data, 0x5a, LINK_END_PART);
	assert_int_equal(sl_transport_connect(&p->end.transport, loop, &conf, &pump_events, p, NULL), SL_OK);
}

static void parts_arrive_whole_and_are_released_once(const char *endpoint)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server;
	struct pump p;

	link_end_open_server(&server, loop, endpoint);
	open_pump(&p, loop, sl_transport_endpoint(server.transport), 3000);
	server.stop_at = 3000;
	pump_on(&p);
	link_end_run(loop);
	assert_string_equal(server.last, "2999");
	assert_true(server.payload_bytes == 3000ull * LINK_END_PART);
	assert_true(p.busy > 1); /* it was at the high-water mark, and `writable` made it continue */
	sl_transport_close(p.end.transport, 0);
	assert_int_equal(p.released, 3000);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
	free(p.data);
}

struct slow_server {
	const char *endpoint;
	pthread_barrier_t opened, go;
	struct link_end end;
	int expect;
};

static void *slow_server_main(void *arg)
{
	struct slow_server *s = arg;
	struct sl_loop *loop = link_end_open_loop();

	link_end_open_server(&s->end, loop, s->endpoint);
	s->end.stop_at = (uint64_t)s->expect;
	pthread_barrier_wait(&s->opened);
	pthread_barrier_wait(&s->go); /* until then it does not read */
	link_end_run(loop);
	sl_transport_close(s->end.transport, 0);
	sl_loop_close(loop);
	return NULL;
}

static void a_receiver_that_does_not_read_stops_the_sender(const char *endpoint)
{
	struct slow_server s = {.endpoint = endpoint, .expect = 2000};
	struct sl_loop *loop = link_end_open_loop();
	pthread_t thread;
	struct pump p;
	int held;

	pthread_barrier_init(&s.opened, NULL, 2);
	pthread_barrier_init(&s.go, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, slow_server_main, &s), 0);
	pthread_barrier_wait(&s.opened);
	open_pump(&p, loop, sl_transport_endpoint(s.end.transport), s.expect);
	pump_on(&p);
	do { /* until ZeroMQ's threads have filled all buffers */
		held = p.sent;
		link_end_run_for(loop, 500);
	} while (held == 0 || p.sent != held);
	assert_in_range(held, 1, s.expect - 1); /* only high-water marks and the kernel's buffers */
	pthread_barrier_wait(&s.go);
	while (p.sent < p.total || p.released < p.total)
		link_end_run_for(loop, 10);
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
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	atomic_int released = 0;
	uint8_t data[8] = {0};
	struct sl_payload payload = {.bytes = {data, 8}, .release = release_one, .release_arg = &released};
	enum sl_err err = SL_OK;
	int sent = 0;

	link_end_open_server(&server, loop, endpoint);
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	link_end_send_when_writable(&client, "hello");
	link_end_run(loop);
	sl_transport_close(client.transport, 0);
	server.stop_on_lost = true;
	for (int i = 0; i < 2000 && !server.lost; i++) {
		err = sl_transport_send(server.transport, server.peer, link_end_text("x"), &payload);
		sent += err == SL_OK;
		link_end_run_for(loop, 5);
	}
	assert_int_equal(server.lost, 1);
	err = sl_transport_send(server.transport, server.peer, link_end_text("x"), &payload);
	assert_int_equal(err, SL_ERR_PEER_LOST);
	link_end_run_for(loop, 20);
	assert_int_equal(server.lost, 1); /* reported once, then forgotten */
	sl_transport_close(server.transport, 0);
	assert_int_equal(released, sent); /* parts that could not be sent were not taken */
	sl_loop_close(loop);
}

static void a_server_that_left_is_lost_to_the_client(const char *endpoint)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;

	link_end_open_server(&server, loop, endpoint);
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	link_end_send_when_writable(&client, "hello");
	link_end_run(loop);
	sl_transport_close(server.transport, 0);
	client.stop_on_lost = true;
	link_end_run(loop);
	assert_int_equal(client.lost, 1);
	sl_transport_close(client.transport, 0);
	sl_loop_close(loop);
}

static void a_forgotten_peer_gets_a_new_number(const char *endpoint)
{
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	sl_peer first;

	link_end_open_server(&server, loop, endpoint);
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	server.stop_at = 1;
	link_end_send_when_writable(&client, "one");
	link_end_run(loop);
	first = server.peer;
	sl_transport_forget(server.transport, first);
	assert_int_equal(sl_transport_send(server.transport, first, link_end_text("x"), NULL), SL_ERR_PEER_LOST);
	server.stop_at = 2;
	link_end_send_when_writable(&client, "two");
	link_end_run(loop);
	assert_true(server.peer != first && server.peer != 0);
	client.stop_at = 1;
	assert_int_equal(sl_transport_send(server.transport, server.peer, link_end_text("x"), NULL), SL_OK);
	link_end_run(loop);
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
}

static void close_on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct link_end *e = arg;

	(void)peer, (void)header, (void)payload;
	sl_transport_close(e->transport, 0);
	e->transport = NULL;
	sl_loop_stop(e->loop);
}

static void closing_from_inside_an_event_is_safe(const char *endpoint)
{
	const struct sl_transport_events closing = {.message = close_on_message,
						    .writable = link_end_writable,
						    .malformed = link_end_malformed,
						    .lost = link_end_lost};
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = LINK_END_PART, .hwm = LINK_END_HWM};
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server = {.loop = loop}, client;

	assert_int_equal(sl_transport_bind(&server.transport, loop, &conf, &closing, &server, NULL), SL_OK);
	link_end_open_client(&client, loop, sl_transport_endpoint(server.transport));
	link_end_send_when_writable(&client, "one");
	(void)!sl_transport_send(client.transport, SL_PEER_SERVER, link_end_text("two"), NULL);
	link_end_run(loop);
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
	struct sl_loop *loop = link_end_open_loop();
	struct sl_transport *t;
	struct sl_transport_conf conf = {.endpoint = "udp://x", .part_bytes = LINK_END_PART, .hwm = LINK_END_HWM};
	struct sl_fail fail;
	struct link_end server;

	assert_int_equal(sl_transport_bind(&t, loop, &conf, &link_end_events, NULL, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "tcp://"));
	conf.endpoint = "tcp://no-port";
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &link_end_events, NULL, &fail), SL_ERR_CONFIG);
	conf.part_bytes = SL_WIRE_PART_MAX + 1;
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &link_end_events, NULL, &fail), SL_ERR_CONFIG);
	link_end_open_server(&server, loop, schemes[0]);
	conf = (struct sl_transport_conf){
		sl_transport_endpoint(server.transport), LINK_END_PART, LINK_END_HWM, NULL, 0, 0, NULL, NULL};
	assert_int_equal(sl_transport_bind(&t, loop, &conf, &link_end_events, NULL, &fail), SL_ERR_UNAVAILABLE);
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
	struct sl_loop *loop = link_end_open_loop();
	struct link_end server, client;
	enum sl_fault fault = SL_FAULT_DROP;

	link_end_open_server(&server, loop, schemes[1]);
	link_end_open_client(&client, loop, schemes[1]);
	sl_inproc_faults(client.transport, next_fault, &fault);
	link_end_send_when_writable(&client, "dropped");
	link_end_send_when_writable(&client, "kept");
	link_end_run_for(loop, 10);
	assert_int_equal(server.messages, 1);
	assert_string_equal(server.last, "kept");
	fault = SL_FAULT_DUPLICATE;
	link_end_send_when_writable(&client, "twice");
	link_end_run_for(loop, 10);
	assert_int_equal(server.messages, 3);
	fault = SL_FAULT_HOLD;
	link_end_send_when_writable(&client, "first");
	link_end_send_when_writable(&client, "second");
	link_end_run_for(loop, 10);
	assert_string_equal(server.last, "first");
	fault = SL_FAULT_CORRUPT;
	link_end_send_when_writable(&client, "abcd");
	link_end_run_for(loop, 10);
	assert_string_equal(server.last, "absd");
	sl_transport_close(client.transport, 0);
	sl_transport_close(server.transport, 0);
	sl_loop_close(loop);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
