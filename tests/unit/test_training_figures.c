/* The figures that a member of a group reports: what is too long for a report is not sent, and a warning says so once.
 */
#include "client/train/training_run.h"
#include "common/base/log.h"
#include "tests/support/unit.h"

enum { METRICS = 12 };

static void what_is_too_long_is_said_once(void **state)
{
	static char name[METRICS][100];
	static struct sl_metric metric[METRICS];
	struct sl_training r = {.totals = {.test_step = 7, .test_samples = 30, .test_loss = 0.5}};
	char out[SL_WIRE_REPORT + 1] = "";
	struct sl_log_warning warning;

	for (int i = 0; i < METRICS; i++) {
		memset(name[i], 'a' + i, sizeof name[i] - 1);
		metric[i].name = name[i];
	}
	r.totals.score[0].metric = &metric[0];
	r.report_due = true;
	assert_true(sl_training_figures(&r, out));
	assert_non_null(strstr(out, "\"step\":7"));
	assert_false(sl_training_figures(&r, out)); /* it is not due again */
	for (int i = 0; i < METRICS; i++)
		r.totals.score[i].metric = &metric[i];
	for (int i = 0; i < 3; i++) {
		r.report_due = true;
		assert_false(sl_training_figures(&r, out));
	}
	assert_int_equal(sl_log_warned(), 1);
	assert_true(sl_log_warning(0, &warning));
	assert_string_equal(warning.id, "report-too-long");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_too_long_is_said_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
