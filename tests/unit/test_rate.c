/* Rates cover the last ten seconds and nothing older, at any interval of samples. */

#include <math.h>

#include "common/telemetry/rate.h"
#include "tests/support/unit.h"

static struct sl_rate_sample sample(uint64_t ms, uint64_t a, uint64_t b)
{
	return (struct sl_rate_sample){.ms = ms, .count = {a, b}};
}

static void nothing_is_known_at_first(void **state)
{
	struct sl_rate rate = {0};
	struct sl_rate_sample now = sample(5000, 7, 9);

	assert_true(isnan(sl_rate_per_s(&rate, &now, 0)));
	sl_rate_keep(&rate, &now);
	assert_true(isnan(sl_rate_per_s(&rate, &now, 0)));
	now = sample(5500, 107, 9);
	assert_true(sl_rate_per_s(&rate, &now, 0) == 200); /* since the first sample */
	assert_true(sl_rate_per_s(&rate, &now, 1) == 0);
}

/* An hour of 1000 a second, then silence, in samples of 20 ms, 250 ms and 3 s. The rate falls, and
 * is 0 when the window is over; a mean since the start would still be above 990. */
static void what_is_older_than_the_window_counts_no_more(void **state)
{
	static const uint64_t apart[] = {20, 250, 3000};

	for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++) {
		struct sl_rate rate = {0};
		struct sl_rate_sample now = {0};
		double before = INFINITY, half;
		uint64_t ms, end = 3600000, over = SL_RATE_WINDOW_MS + SL_RATE_APART_MS + apart[i];

		for (ms = 0; ms <= end; ms += apart[i]) {
			now = sample(ms, ms, ms / 2);
			sl_rate_keep(&rate, &now);
		}
		assert_true(fabs(sl_rate_per_s(&rate, &now, 0) - 1000) < 1e-6);
		assert_true(fabs(sl_rate_per_s(&rate, &now, 1) - 500) < 1e-6);
		for (ms = end; ms <= end + SL_RATE_WINDOW_MS / 2; ms += apart[i]) {
			now.ms = ms;
			sl_rate_keep(&rate, &now);
			assert_true(sl_rate_per_s(&rate, &now, 0) <= before);
			before = sl_rate_per_s(&rate, &now, 0);
		}
		half = before;
		assert_true(half > 400 && half < 800);
		now.ms = end + over;
		sl_rate_keep(&rate, &now);
		assert_true(sl_rate_per_s(&rate, &now, 0) == 0);
	}
}

/* If samples are further apart than the window, the rate is over the time since the last one, which
 * the call returns. */
static void rare_samples_still_give_a_rate(void **state)
{
	struct sl_rate rate = {0};
	struct sl_rate_sample now;
	double grown[SL_RATE_COUNTERS];

	for (uint64_t s = 0; s <= 600; s += 60) {
		now = sample(s * 1000, s * s, s);
		sl_rate_keep(&rate, &now);
	}
	assert_true(sl_rate_grown(&rate, &now, grown) == 60);
	assert_true(grown[0] == 600 * 600 - 540 * 540);
	assert_true(grown[1] == 60);
}

/* A new link counts from 0 again. */
static void counters_that_fall_begin_anew(void **state)
{
	struct sl_rate rate = {0};
	struct sl_rate_sample now = sample(0, 1000000, 0);

	sl_rate_keep(&rate, &now);
	now = sample(1000, 50, 0);
	assert_true(isnan(sl_rate_per_s(&rate, &now, 0)));
	sl_rate_keep(&rate, &now);
	assert_true(isnan(sl_rate_per_s(&rate, &now, 0)));
	now = sample(2000, 150, 0);
	assert_true(sl_rate_per_s(&rate, &now, 0) == 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(what_is_older_than_the_window_counts_no_more),
		cmocka_unit_test(rare_samples_still_give_a_rate),
		cmocka_unit_test(counters_that_fall_begin_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
