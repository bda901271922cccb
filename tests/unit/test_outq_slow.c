/* The queue over a transport that accepts everything and sends nothing until it is told to. */

#include "common/link/loop.h"
#include "common/link/outq.h"
#include "common/link/transport_impl.h"
#include "tests/support/unit.h"

static void stop_loop(void *arg)
{
	sl_loop_stop(arg);
}

struct hoard {
	struct sl_transport transport;
	struct sl_payload held[32];
	int chunk[32], taken, released;
};

static void forget_run(struct sl_run *run)
{
	(void)run;
}

static enum sl_err hoard_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			      const struct sl_payload *payload)
{
	struct hoard *h = (struct hoard *)transport;
	struct sl_frame f;

	(void)peer;
	assert_int_equal(sl_wire_decode(header, payload->bytes, &f, NULL), SL_OK);
	assert_true(h->taken < 32);
	h->chunk[h->taken] = (int)f.u.part.chunk;
	h->held[h->taken++] = *payload;
	return SL_OK;
}

static void hoard_release(struct hoard *h, struct sl_loop *loop, int parts)
{
	struct sl_timer *timer;

	for (int i = 0; i < parts; i++, h->released++)
		h->held[h->released].release(h->held[h->released].release_arg);
	assert_int_equal(sl_timer_open(&timer, loop, stop_loop, loop, NULL), SL_OK);
	sl_timer_start(timer, 50, 0); /* long enough to process what came back, and for the link to look slow */
	sl_loop_run(loop);
	sl_timer_close(timer);
}

static void a_slow_transport_is_kept_short(void **state)
{
	enum { MIB = 1 << 20, LONG = 12 };
	static const struct sl_transport_ops ops = {.send = hoard_send};
	struct hoard hoard = {.transport.ops = &ops};
	uint8_t *data = calloc(LONG, MIB);
	struct sl_run late = {.part = {.what = SL_PART_HEAD_ACT, .rows = 1, .batch_rows = 1},
			      .priority = 2,
			      .sent = forget_run},
		      urgent = late;
	struct sl_outq *queue;
	struct sl_loop *loop;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	assert_int_equal(sl_outq_open(&queue, loop, &hoard.transport, SL_PEER_SERVER, NULL), SL_OK);
	sl_outq_epoch(queue, 5);
	sl_outq_limits(queue, MIB, 1 << 30);
	late.data = urgent.data = data;
	late.len = (size_t)LONG * MIB;
	urgent.len = 2 * MIB;
	urgent.priority = 1;
	urgent.part.chunk = 1;
	sl_outq_post(queue, &late);
	assert_int_equal(hoard.taken, 4); /* fewer than the window allows */
	hoard_release(&hoard, loop, 0);
	sl_outq_post(queue, &urgent);
	assert_int_equal(hoard.taken, 4);
	hoard_release(&hoard, loop, 1); /* one part took 50 ms: the three that are ahead suffice */
	assert_int_equal(hoard.taken, 4);
	hoard_release(&hoard, loop, 3);
	assert_int_equal(hoard.taken, 5);
	hoard_release(&hoard, loop, 1);
	hoard_release(&hoard, loop, 1);
	assert_int_equal(hoard.taken, 7); /* one at a time, the urgent ones first */
	assert_int_equal(hoard.chunk[4], 1);
	assert_int_equal(hoard.chunk[5], 1);
	assert_int_equal(hoard.chunk[6], 0);
	sl_outq_abort(queue);
	hoard_release(&hoard, loop, hoard.taken - hoard.released);
	sl_outq_close(queue);
	sl_loop_close(loop);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_transport_is_kept_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
