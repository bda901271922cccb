#include <math.h>

#include "common/telemetry/spark.h"
#include "tests/support/unit.h"

static void bars_span_the_values(void **state)
{
	struct sl_spark s = {0};
	char text[SL_SPARK_TEXT];

	assert_string_equal(sl_spark_text(&s, true, text), "");
	sl_spark_add(&s, 2);
	assert_string_equal(sl_spark_text(&s, false, text), "_"); /* a single value has no range */
	sl_spark_add(&s, (double)NAN);
	sl_spark_add(&s, (double)INFINITY);
	sl_spark_add(&s, 1);
	sl_spark_add(&s, 1.5);
	assert_string_equal(sl_spark_text(&s, false, text), "#_=");
	assert_string_equal(sl_spark_text(&s, true, text), "█▁▅");
}

static void the_oldest_go(void **state)
{
	struct sl_spark s = {0};
	char text[SL_SPARK_TEXT];

	for (int i = 0; i < 3 * SL_SPARK_VALUES; i++)
		sl_spark_add(&s, i);
	assert_int_equal(s.n, SL_SPARK_VALUES);
	assert_true(s.value[0] == 2 * SL_SPARK_VALUES && s.value[SL_SPARK_VALUES - 1] == 3 * SL_SPARK_VALUES - 1);
	assert_int_equal(strlen(sl_spark_text(&s, true, text)), 3 * SL_SPARK_VALUES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bars_span_the_values),
		cmocka_unit_test(the_oldest_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
