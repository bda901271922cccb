/* Turns: an epoch has as many turns of each member as its count says, in another order each time. */

#include "common/session/turns.h"
#include "tests/support/unit.h"

static struct sl_turns serial(int members, const uint64_t *count)
{
	struct sl_turns t = {.mode = SL_SHARE_SERIAL, .seed = 7, .members = members};

	for (int k = 0; k < members; k++) {
		t.count[k] = count[k];
		t.epoch_steps += count[k];
	}
	return t;
}

static void an_epoch_holds_every_turn_once(void **state)
{
	static const uint64_t counts[][4] = {{1}, {1, 1}, {5, 4, 6}, {1, 100, 1, 28}, {64, 64, 64, 64}, {1000, 1, 23}};

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		int members = 0;
		struct sl_turns t;

		while (members < 4 && counts[i][members])
			members++;
		t = serial(members, counts[i]);
		assert_true(sl_turns_fit(&t));
		for (uint64_t epoch = 0; epoch < 3; epoch++) {
			uint64_t had[4] = {0};

			for (uint64_t s = 0; s < t.epoch_steps; s++)
				had[sl_turns_whose(&t, epoch * t.epoch_steps + s)]++;
			assert_memory_equal(had, t.count, sizeof had);
		}
	}
}

static void orders_differ_by_epoch_and_seed(void **state)
{
	static const uint64_t count[] = {40, 40, 40};
	struct sl_turns t = serial(3, count), other = t;
	int by_epoch = 0, by_seed = 0, runs = 0;

	other.seed = 8;
	for (uint64_t s = 0; s < t.epoch_steps; s++) {
		by_epoch += sl_turns_whose(&t, s) != sl_turns_whose(&t, s + t.epoch_steps);
		by_seed += sl_turns_whose(&t, s) != sl_turns_whose(&other, s);
		runs += sl_turns_whose(&t, s) != sl_turns_whose(&t, s + 1);
	}
	/* two of three differ by chance */
	assert_in_range(by_epoch, 55, 105);
	assert_in_range(by_seed, 55, 105);
	assert_in_range(runs, 55, 105);
}

static void own_steps_are_counted(void **state)
{
	static const uint64_t count[] = {5, 4, 6};
	const struct sl_turns t = serial(3, count);

	for (int k = 0; k < 3; k++) {
		uint64_t own = 0;

		for (uint64_t s = 0; s < 50; s++) {
			assert_int_equal(sl_turns_before(&t, k, s), own);
			own += sl_turns_own(&t, k, s);
		}
	}
}

/* In an epoch each member trains its own batches first, and passes on the rest. */
static void rounds_begin_an_epoch_together(void **state)
{
	struct sl_turns t = {.mode = SL_SHARE_ROUNDS, .members = 3, .epoch_steps = 6, .count = {6, 4, 1}};

	assert_true(sl_turns_fit(&t));
	for (int k = 0; k < 3; k++) {
		uint64_t own = 0;

		for (uint64_t s = 0; s < 25; s++) {
			assert_int_equal(sl_turns_before(&t, k, s), own);
			assert_int_equal(sl_turns_own(&t, k, s), s % 6 < t.count[k]);
			own += sl_turns_own(&t, k, s);
		}
	}
	t.count[1] = 7;
	assert_false(sl_turns_fit(&t));
}

/* All members take part in every step, and counts are ignored. */
static void sync_has_no_turns(void **state)
{
	const struct sl_turns t = {.mode = SL_SHARE_SYNC, .members = 3, .epoch_steps = 9};

	assert_true(sl_turns_fit(&t));
	assert_true(sl_turns_own(&t, 2, 1000));
	assert_int_equal(sl_turns_before(&t, 1, 1000), 1000);
}

/* A peer may claim any counts: no memory is allocated, and nothing takes long. */
static void an_epoch_may_be_long(void **state)
{
	static const uint64_t count[] = {(1ull << 53) - 1, 1};
	struct sl_turns t = serial(2, count);

	assert_true(sl_turns_fit(&t));
	for (uint64_t s = 0; s < 1000; s++)
		assert_int_equal(sl_turns_whose(&t, s * 1000003), 0);
	t.count[1] = 5;
	assert_false(sl_turns_fit(&t));
	assert_in_range(sl_turns_whose(&t, 5), 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_epoch_holds_every_turn_once), cmocka_unit_test(orders_differ_by_epoch_and_seed),
		cmocka_unit_test(own_steps_are_counted),          cmocka_unit_test(sync_has_no_turns),
		cmocka_unit_test(rounds_begin_an_epoch_together), cmocka_unit_test(an_epoch_may_be_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
