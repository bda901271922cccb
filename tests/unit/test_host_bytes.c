/* A server's figures of a session's bytes equal those on the link:
 * headers and payloads in both directions, by tensor and in total. */
#include <jansson.h>

#include "common/codec/frame.h"
#include "server/host/host_impl.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

enum { ROWS = 2, BATCHES = 3 };

static struct sl_port_stats stats(void)
{
	return sl_middle_status(host_rig.host->session[0]).stats;
}

/* Sends the frame, and adds the length of its header to *headers. */
static void say(struct host_client *c, struct sl_frame *f, struct sl_bytes payload, uint64_t *headers)
{
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	if (f->kind == SL_FRAME_PART)
		host_rig_say_part(c, f, payload);
	else
		host_rig_say(c, f);
	assert_int_equal(sl_wire_encode(f, header, &len), SL_OK);
	*headers += len;
}

/* Sends a batch of an evaluation, uncompressed and in two parts. */
static void send_batch(struct host_client *c, const struct asked *a, uint64_t number, uint64_t total, uint64_t *headers)
{
	static uint8_t payload[HOST_RIG_PART];
	struct sl_frame part = {
		.kind = SL_FRAME_PART,
		.epoch = 1,
		.u.part = {.what = SL_PART_HEAD_ACT, .step = number, .rows = ROWS, .batch_rows = ROWS, .total = total}};
	const uint64_t first = total / 3;

	assert_in_range(total, SL_FRAME_BYTES + 1, sizeof payload);
	sl_frame_write(payload, &a->agreement.codec[SL_DIR_HEAD_ACT], false, ROWS);
	say(c, &part, (struct sl_bytes){payload, first}, headers);
	part.u.part.offset = first;
	say(c, &part, (struct sl_bytes){payload + first, total - first}, headers);
}

static uint64_t came(const struct host_client *c)
{
	uint64_t bytes = c->payload_bytes;

	for (int kind = 0; kind < SL_FRAME_COUNT; kind++) /* a Challenge comes before the session */
		bytes += kind == SL_FRAME_CHALLENGE ? 0 : c->header_bytes[kind];
	return bytes;
}

/* The status has the same numbers of bytes, and its times are in seconds. */
static void check_status(const struct sl_port_stats *s)
{
	char *text = sl_host_status(host_rig.host);
	json_t *root = json_loads(text, 0, NULL), *session = json_array_get(json_object_get(root, "sessions"), 0);
	double age_s = json_number_value(json_object_get(session, "age_s"));
	double idle_s = json_number_value(json_object_get(session, "idle_s"));

	assert_non_null(session);
	assert_int_equal(json_integer_value(json_object_get(session, "tx_bytes")), s->tx_bytes);
	assert_int_equal(json_integer_value(json_object_get(session, "rx_bytes")), s->rx_bytes);
	assert_true(age_s > 0 && age_s <= json_number_value(json_object_get(root, "uptime_s")));
	assert_true(idle_s >= 0 && idle_s <= age_s);
	json_decref(root);
	free(text);
}

static void bytes_are_those_of_the_link(void **state)
{
	struct asked a = host_rig_agreement_of(10, 32, ROWS);
	struct sl_frame hello = host_rig_hello_of(&a, 1, 1, NULL);
	uint64_t total, hello_bytes = 0, up = 0;
	struct sl_port_stats s = {0};
	struct host_client c;
	struct sl_plan *plan;
	struct sl_fail fail;

	assert_int_equal(plan_open(&plan, &a.split, &fail), SL_OK);
	total = SL_FRAME_BYTES + ROWS * (uint64_t)sl_shape_row(&plan->segment[SL_MIDDLE].in_shape) * sizeof(float);
	sl_plan_close(plan);
	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	say(&c, &hello, (struct sl_bytes){0}, &hello_bytes);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < BATCHES; i++) {
		send_batch(&c, &a, (uint64_t)i, total, &up);
		host_rig_await(&c.came[SL_FRAME_PART], i + 1);
	}
	/* A heartbeat may still be in flight. */
	for (int i = 0; i < 1000 && (s.tx_bytes != came(&c) || !s.wire[SL_DIR_MID_ACT]); i++) {
		host_rig_turn();
		s = stats();
	}
	assert_int_equal(s.rx_bytes, hello_bytes + hello.payload.len + BATCHES * total + up);
	assert_int_equal(s.payload[SL_DIR_HEAD_ACT], BATCHES * total);
	assert_int_equal(s.wire[SL_DIR_HEAD_ACT], BATCHES * total + up);
	assert_true(s.nominal[SL_DIR_HEAD_ACT] == (double)(BATCHES * (total - SL_FRAME_BYTES)));
	assert_int_equal(s.tx_bytes, came(&c));
	assert_int_equal(s.payload[SL_DIR_MID_ACT], c.payload_bytes);
	assert_int_equal(s.wire[SL_DIR_MID_ACT], c.payload_bytes + c.header_bytes[SL_FRAME_PART]);
	assert_true(s.nominal[SL_DIR_MID_ACT] == (double)(c.payload_bytes - BATCHES * SL_FRAME_BYTES));
	assert_int_equal(s.wire[SL_DIR_MID_GRAD] + s.wire[SL_DIR_HEAD_GRAD], 0);
	for (int i = 0; i < 10; i++)
		host_rig_turn(); /* the client is silent for some ms */
	s = stats();
	check_status(&s);
	host_rig_hang_up(&c);
	host_rig_close();
}

static void a_frame_that_is_none_is_counted(void **state)
{
	const struct sl_frame hello = host_rig_small_hello(1, 1);
	static const uint8_t garbage[] = {0xff, 0x00, 0x17};
	const struct sl_payload none = {0};
	struct host_client c;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	assert_int_equal(
		sl_transport_send(c.transport, SL_PEER_SERVER, (struct sl_bytes){garbage, sizeof garbage}, &none),
		SL_OK);
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_PROTOCOL), "malformed frame"));
	assert_int_equal(sl_host_counts(host_rig.host).rejected, 1);
	host_rig_hang_up(&c);
	host_rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_those_of_the_link),
		cmocka_unit_test(a_frame_that_is_none_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
