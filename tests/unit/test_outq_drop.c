/* Runs that are dropped with an abandoned step, and credit that does not wrap around. */
#include "tests/support/outq_rig.h"

/* A dropped run ends once its parts come back from the transport. Weights are not dropped: they
 * leave when there is credit. */
static void what_is_dropped_ends_once(void **state)
{
	struct rig *rig = rig_open(schemes[1], 64);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0), weights = run_of(rig, data, 2, 0);
	uint64_t header_bytes;

	weights.part.what = SL_PART_WEIGHTS;
	sl_outq_limits(rig->queue, PART, 10 * PART);
	sl_outq_post(rig->queue, &run);
	sl_outq_post(rig->queue, &weights);
	sl_outq_drop(rig->queue);
	assert_int_equal(rig->sents, 0);
	sl_outq_credit(rig->queue, PLENTY);
	rig->stop_at_sents = 2;
	sl_loop_run(rig->loop);
	assert_int_equal(rig->sents, 2);
	assert_int_equal(rig->sent[0], 0);
	assert_int_equal(rig->parts[0], 10);
	assert_memory_equal(rig->got[2], data, RUN);
	header_bytes = weights.header_bytes;
	assert_int_equal(run.header_bytes + header_bytes, sl_outq_stats(rig->queue).header_bytes);
	rig->stop_at_sents = 3;
	sl_outq_post(rig->queue, &weights); /* the same run again: its header bytes start anew */
	sl_loop_run(rig->loop);
	assert_int_equal(weights.header_bytes, header_bytes);
	rig_close(rig);
}

static void a_part_dropped_while_busy_is_hashed_anew(void **state)
{
	struct rig *rig = rig_open(schemes[1], 1);
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT};
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	assert_int_equal(sl_outq_control(rig->queue, &beat), SL_OK); /* now the transport is full */
	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	sl_outq_drop(rig->queue);
	assert_int_equal(rig->sents, 1);
	run = run_of(rig, fill(data, 2), 0, 0);
	sl_outq_post(rig->queue, &run);
	rig->stop_at_sents = 2;
	sl_loop_run(rig->loop);
	assert_memory_equal(rig->got[0], data, RUN);
	rig_close(rig);
}

static void credit_does_not_wrap(void **state)
{
	struct rig *rig = rig_open(schemes[1], 64);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	sl_outq_limits(rig->queue, PART, UINT64_MAX);
	for (int i = 1; i <= 2; i++) {
		rig->stop_at_sents = i;
		sl_outq_post(rig->queue, &run);
		sl_loop_run(rig->loop);
		sl_outq_credit(rig->queue, RUN + PART);
	}
	assert_int_equal(rig->parts[0], 2 * 101);
	rig_close(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_dropped_ends_once),
		cmocka_unit_test(a_part_dropped_while_busy_is_hashed_anew),
		cmocka_unit_test(credit_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
