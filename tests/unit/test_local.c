/* A run in one process: the byte counts of a step are those of that step alone, and the run's are their sum. */

#include "tests/support/local_run.h"
#include "tests/support/unit.h"

static void bytes_are_those_of_the_step(void **state)
{
	const struct local_run_conf conf = {.head = "", .tail = "", .form_cifar = true, .chunks = 2, .threads = 1};
	uint64_t payload[SL_CROSS_COUNT];
	double nominal[SL_CROSS_COUNT];
	struct sl_step_result r[3];
	const int32_t *labels;
	const float *images;
	struct local_run run;
	struct sl_feed feed;
	struct sl_fail fail;

	local_run_open(&run, &conf);
	local_run_batch(&images, &labels);
	feed = (struct sl_feed){.input = images, .target = labels, .rows = LOCAL_ROWS};
	for (int i = 0; i < 3; i++) {
		enum sl_err err = i < 2 ? sl_local_step(run.local, &feed, (uint64_t)i, 0.1, &r[i], &fail)
					: sl_local_eval(run.local, &feed, 0, &r[i], &fail);

		if (err)
			fail_msg("%s", fail.text);
	}
	assert_true(r[0].tx_bytes > 0 && r[0].rx_bytes > 0);
	assert_int_equal(r[0].tx_bytes, r[1].tx_bytes);
	assert_int_equal(r[0].rx_bytes, r[1].rx_bytes);
	sl_local_payload(run.local, payload, nominal);
	assert_int_equal(r[2].tx_bytes, payload[SL_DIR_HEAD_ACT] / 3);
	assert_int_equal(r[2].rx_bytes, payload[SL_DIR_MID_ACT] / 3);
	assert_int_equal(2 * r[0].tx_bytes + r[2].tx_bytes, payload[SL_DIR_HEAD_ACT] + payload[SL_DIR_MID_GRAD]);
	assert_int_equal(2 * r[0].rx_bytes + r[2].rx_bytes, payload[SL_DIR_MID_ACT] + payload[SL_DIR_HEAD_GRAD]);
	local_run_close(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_those_of_the_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
