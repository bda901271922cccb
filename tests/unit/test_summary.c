/* Figures at the end of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary.h"

/* The checkpoint knows what the client computed in all steps; the server's share is known of this process's alone. */
static void after_resume_times_are_those_of_a_batch(void **state)
{
	const struct sl_training_totals t = {
		.mode = "remote",
		.steps = 480,
		.linked_steps = 120,
		.linked_from = 360,
		.train_s = 240,
		.compute_s = 48,
		.train_tx_bytes = 480ull * 2000000,
	};
	const struct sl_training_link link = {.server_compute_s = 36};
	struct sl_jsonl_summary s;
	(void)state;

	sl_summary_fill(&s, NULL, &t, &link, "finished");
	assert_true(s.t_per_batch_s == 0.5);
	assert_float_equal(s.t_compute_per_batch_s, 0.1 + 0.3, 1e-12);
	assert_float_equal(s.avg_mb_s, 2 / 0.4, 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_resume_times_are_those_of_a_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
