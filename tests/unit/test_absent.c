/* Lists of absences (--absent): what they say of a member and a step, and which are refused. */
#include "client/train/absent.h"
#include "tests/support/unit.h"

static void looks_are_right(void **state)
{
	static const char list[] = "1:3,2:10-25,0:7-6,2:30-40@5";
	uint64_t own = 99;

	(void)state;
	assert_int_equal(sl_absent_look(list, 1, 1), SL_PRESENT);
	assert_int_equal(sl_absent_look(list, 1, 2), SL_LATE); /* step 3, counted from 0 */
	assert_int_equal(sl_absent_look(list, 1, 3), SL_PRESENT);
	assert_int_equal(sl_absent_look(list, 0, 2), SL_PRESENT);
	assert_int_equal(sl_absent_look(list, 2, 8), SL_PRESENT);
	assert_int_equal(sl_absent_look(list, 2, 9), SL_AWAY);
	assert_int_equal(sl_absent_look(list, 2, 24), SL_AWAY);
	assert_int_equal(sl_absent_look(list, 2, 25), SL_PRESENT);
	assert_true(sl_absent_returns(list, 2, 25, &own) && own == 25);
	assert_false(sl_absent_returns(list, 2, 24, &own));
	assert_false(sl_absent_returns(list, 2, 26, &own));
	assert_true(sl_absent_returns(list, 0, 6, &own) && own == 6); /* it came back without a missed step */
	assert_true(sl_absent_returns(list, 2, 40, &own) && own == 5);
	assert_true(sl_absent_needs(list, 2, 5));
	assert_false(sl_absent_needs(list, 2, 6));
	assert_false(sl_absent_needs(list, 1, 5));
	assert_int_equal(sl_absent_last(list), 30);
	assert_int_equal(sl_absent_last("1:3"), 3);
	assert_int_equal(sl_absent_last("1:3,0:7-6"), 3); /* nobody is away in 7 to 6 */
	assert_int_equal(sl_absent_last(NULL), 0);
	assert_int_equal(sl_absent_look(NULL, 0, 0), SL_PRESENT);
	assert_int_equal(sl_absent_own(list, 2, NULL), 16 + 11);
	assert_int_equal(sl_absent_own(list, 1, NULL), 1);
	assert_int_equal(sl_absent_own(list, 0, NULL), 0);
	assert_int_equal(sl_absent_own(NULL, 0, NULL), 0);
}

/* Of rounds of 10 steps member 2 has 4 of its own, and passes the others. */
static void only_own_steps_count(void **state)
{
	const struct sl_turns turns = {.mode = SL_SHARE_ROUNDS, .epoch_steps = 10, .members = 3, .count = {10, 10, 4}};

	(void)state;
	assert_int_equal(sl_absent_own("2:3-12", 2, &turns), 2 + 2);
	assert_int_equal(sl_absent_own("2:5-10", 2, &turns), 0);
	assert_int_equal(sl_absent_own("2:11,1:2", 2, &turns), 1);
	assert_int_equal(sl_absent_own("2:11-10", 2, &turns), 0);
}

static void lists_are_checked(void **state)
{
	static const char *const good[] = {NULL,          "0:1",     "2:1",     "2:1-1", "2:2-1",
					   "0:1,1:2,2:3", "1:3-4@2", "1:3-4@4", "0:1,"};
	static const char *const bad[] = {"3:1",   "0:1,3:1", "0",    "0:",   ":1",      "a:1",   "0:1;1:2", "0:0",
					  "0:3-1", "0:1-",    "-1:1", "0:1 ", "0:3-4@5", "0:3@2", "0:1-2-3"};
	struct sl_fail fail;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_int_equal(sl_absent_check(good[i], 3, &fail), SL_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (sl_absent_check(bad[i], 3, &fail) != SL_ERR_USAGE)
			fail_msg("'%s' was taken", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(looks_are_right), cmocka_unit_test(only_own_steps_count),
					   cmocka_unit_test(lists_are_checked)};

	return cmocka_run_group_tests_name("absent", tests, NULL, NULL);
}
