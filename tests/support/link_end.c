#include "tests/support/link_end.h"
#include "tests/support/unit.h"

void link_end_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct link_end *e = arg;

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

void link_end_writable(void *arg, sl_peer peer)
{
	struct link_end *e = arg;

	(void)peer;
	e->writable++;
	if (e->stop_on_writable)
		sl_loop_stop(e->loop);
}

void link_end_malformed(void *arg, sl_peer peer, const char *why)
{
	struct link_end *e = arg;

	(void)peer;
	assert_non_null(why);
	e->malformed++;
	if (e->stop_on_malformed)
		sl_loop_stop(e->loop);
}

void link_end_lost(void *arg, sl_peer peer)
{
	struct link_end *e = arg;

	(void)peer;
	e->lost++;
	if (e->stop_on_lost)
		sl_loop_stop(e->loop);
}

const struct sl_transport_events link_end_events = {.message = link_end_message,
						    .writable = link_end_writable,
						    .malformed = link_end_malformed,
						    .lost = link_end_lost};

void link_end_open_server(struct link_end *e, struct sl_loop *loop, const char *endpoint)
{
	struct sl_transport_conf conf = {.endpoint = endpoint,
					 .part_bytes = LINK_END_PART,
					 .hwm = LINK_END_HWM,
					 .arrivals_per_s = LINK_END_ARRIVALS};
	struct sl_fail fail;

	*e = (struct link_end){.loop = loop};
	if (sl_transport_bind(&e->transport, loop, &conf, &link_end_events, e, &fail))
		fail_msg("%s", fail.text);
}

void link_end_open_client(struct link_end *e, struct sl_loop *loop, const char *endpoint)
{
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = LINK_END_PART, .hwm = LINK_END_HWM};
	struct sl_fail fail;

	*e = (struct link_end){.loop = loop};
	if (sl_transport_connect(&e->transport, loop, &conf, &link_end_events, e, &fail))
		fail_msg("%s", fail.text);
}

struct sl_loop *link_end_open_loop(void)
{
	struct sl_loop *loop;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	return loop;
}

static void gave_up(void *arg)
{
	(void)arg;
	fail_msg("nothing happened for %d ms", LINK_END_GIVE_UP_MS);
}

void link_end_run(struct sl_loop *loop)
{
	struct sl_timer *timer;

	assert_int_equal(sl_timer_open(&timer, loop, gave_up, NULL, NULL), SL_OK);
	sl_timer_start(timer, LINK_END_GIVE_UP_MS, 0);
	sl_loop_run(loop);
	sl_timer_close(timer);
}

static void stop_loop(void *arg)
{
	sl_loop_stop(arg);
}

void link_end_run_for(struct sl_loop *loop, uint64_t ms)
{
	struct sl_timer *timer;

	assert_int_equal(sl_timer_open(&timer, loop, stop_loop, loop, NULL), SL_OK);
	sl_timer_start(timer, ms, 0);
	sl_loop_run(loop);
	sl_timer_close(timer);
}

struct sl_bytes link_end_text(const char *s)
{
	return (struct sl_bytes){(const uint8_t *)s, strlen(s)};
}

void link_end_send_when_writable(struct link_end *e, const char *header)
{
	while (sl_transport_send(e->transport, SL_PEER_SERVER, link_end_text(header), NULL) == SL_ERR_BUSY) {
		e->stop_on_writable = true;
		link_end_run(e->loop);
		e->stop_on_writable = false;
	}
}

void link_end_ping(struct link_end *client, struct link_end *server)
{
	server->echo = true;
	client->stop_at = client->messages + 1;
	link_end_send_when_writable(client, "ping");
	link_end_run(client->loop);
	assert_int_equal(client->messages, client->stop_at);
}
