/* How long a group's step waits for a member: its credit, which it spends by being late and has anew as time passes. */
#include "common/base/clock.h"
#include "server/group/group_impl.h"
#include "tests/support/unit.h"

enum { PATIENCE_MS = 20000, ONE_MS = PATIENCE_MS / 10, SLACK_MS = 1500 };

static struct sl_group_list list;
static struct sl_group_member member[2];
static struct sl_seat seat[2];
static struct sl_group group;
static struct sl_group_member *const late = &member[1];

static int open_group(void **state)
{
	struct sl_fail fail;

	memset(member, 0, sizeof member);
	memset(seat, 0, sizeof seat);
	group = (struct sl_group){.groups = &list, .n = 2, .end = 2, .member = member};
	group.t = (struct sl_trunk_table){.seat = seat, .n = 2, .end = 2, .quorum = 1, .least = 0.5, .open = true};
	group.agreed.share.patience_s = PATIENCE_MS / 1000;
	seat[0] = seat[1] = (struct sl_seat){.link = SL_LINK_OPEN, .state = SL_SEAT_IN};
	return sl_loop_open(&list.loop, &fail) ? -1 : 0;
}

static int close_group(void **state)
{
	sl_loop_close(list.loop);
	return 0;
}

static uint64_t ago(uint64_t ms)
{
	return sl_loop_now_ms(list.loop) - ms;
}

static void is_about(int64_t ms, int64_t want)
{
	assert_in_range(ms + SLACK_MS, want, want + 2 * SLACK_MS);
}

/* Nobody knows yet how long its steps take. */
static void a_new_member_has_all_patience(void **state)
{
	sl_group_clock_welcomed(&group, 1);
	assert_int_equal(late->credit_ms, PATIENCE_MS);
	assert_int_equal(late->waits_ms, 0);
}

/* A new link gives it no credit, beyond that for one step. */
static void one_that_comes_again_has_what_it_had_left(void **state)
{
	late->usual_ms = 100;
	late->credit_ms = ONE_MS + 1;
	sl_group_clock_welcomed(&group, 1);
	assert_int_equal(late->credit_ms, ONE_MS + 1);
	late->credit_ms = 0;
	sl_group_clock_welcomed(&group, 1);
	assert_int_equal(late->credit_ms, ONE_MS);
}

static void a_wait_costs_credit_and_time_gives_it_back(void **state)
{
	late->credit_ms = PATIENCE_MS / 2;
	late->began_ms = late->waits_ms = ago(5000);
	seat[1].tired = true;
	sl_group_clock_stepped(&group, 1);
	is_about(late->credit_ms, PATIENCE_MS / 2 - 5000 + 500);
	assert_int_equal(late->waits_ms, 0);
	assert_false(seat[1].tired);
	late->began_ms = ago(10000);
	sl_group_clock_stepped(&group, 1);
	is_about(late->credit_ms, PATIENCE_MS / 2 - 5000 + 500 + 1000);
	late->began_ms = ago(10 * PATIENCE_MS);
	sl_group_clock_stepped(&group, 1);
	assert_int_equal(late->credit_ms, PATIENCE_MS);
	late->waits_ms = ago(2 * PATIENCE_MS);
	sl_group_clock_stepped(&group, 1);
	assert_int_equal(late->credit_ms, 0);
}

static void one_that_is_away_gets_nothing_back(void **state)
{
	seat[1].link = SL_LINK_NONE;
	late->credit_ms = 5;
	late->began_ms = ago(10000);
	sl_group_clock_stepped(&group, 1);
	assert_int_equal(late->credit_ms, 5);
}

static void a_usual_step_is_an_average(void **state)
{
	late->began_ms = ago(8000);
	sl_group_clock_ready(&group, 1);
	is_about((int64_t)late->usual_ms, 8000);
	late->began_ms = ago(100000);
	sl_group_clock_ready(&group, 1);
	is_about((int64_t)late->usual_ms, (7 * 8000 + 100000) / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_new_member_has_all_patience, open_group, close_group),
		cmocka_unit_test_setup_teardown(one_that_comes_again_has_what_it_had_left, open_group, close_group),
		cmocka_unit_test_setup_teardown(a_wait_costs_credit_and_time_gives_it_back, open_group, close_group),
		cmocka_unit_test_setup_teardown(one_that_is_away_gets_nothing_back, open_group, close_group),
		cmocka_unit_test_setup_teardown(a_usual_step_is_an_average, open_group, close_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
