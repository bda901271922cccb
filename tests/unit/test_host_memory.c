/* What limits.memory_bytes counts of a group: its middle once, in rounds a copy for each member, and what each member
 * computes with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/host/host_sessions.h"
#include "tests/support/host_member.h"

enum { MEMBERS = 4 };

static struct host_member member[MEMBERS];
static int tests_run;

static uint64_t counted(void)
{
	return sl_host_view(host_rig.host).memory_bytes;
}

static void begin(int64_t limit)
{
	tests_run++;
	snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
	host_rig_open(MEMBERS, limit);
}

static void come(int k)
{
	host_member_call(&member[k], k, (uint8_t)(tests_run * MEMBERS + k), 1);
}

static void end(int members)
{
	for (int k = 0; k < members; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
}

/* Of the first `members`, and of a group of as many; and what the backend was asked for. */
static uint64_t group_of(int members, size_t *taken)
{
	uint64_t bytes;

	host_group.clients = members;
	begin(0);
	for (int k = 0; k < members; k++)
		come(k);
	for (int k = 0; k < members; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	bytes = counted();
	*taken = host_rig.taken;
	end(members);
	return bytes;
}

static void a_group_is_counted_as_it_takes(void **state)
{
	(void)state;
	for (int rounds = 0; rounds < 2; rounds++) {
		uint64_t bytes[MEMBERS + 1] = {0};
		size_t taken[MEMBERS + 1] = {0};

		host_group.rounds = rounds;
		for (int n = 1; n <= MEMBERS; n++) {
			bytes[n] = group_of(n, &taken[n]);
			assert_true(bytes[n] >= taken[n]);
		}
		for (int n = 2; n <= MEMBERS; n++) {
			assert_int_equal(bytes[n] - bytes[n - 1], bytes[2] - bytes[1]);
			assert_int_equal(taken[n] - taken[n - 1], taken[2] - taken[1]);
		}
		/* what is no member's is the middle: the backend is asked for a byte where there is nothing */
		assert_in_range(2 * bytes[1] - bytes[2], 2 * taken[1] - taken[2] - 8, 2 * taken[1] - taken[2] + 8);
	}
	host_group.rounds = false;
}

/* Where the last of three does not fit by one byte it is refused, and what it was counted is given back. */
static void whoever_does_not_fit_is_refused(void **state)
{
	size_t taken;

	(void)state;
	for (int rounds = 0; rounds < 2; rounds++) {
		uint64_t all, two;

		host_group.rounds = rounds;
		all = group_of(3, &taken);
		two = all - (group_of(4, &taken) - all);
		host_group.clients = 3;
		begin((int64_t)all - 1);
		for (int k = 0; k < 2; k++)
			come(k);
		while (counted() < two)
			host_rig_turn();
		come(2);
		assert_non_null(strstr(host_rig_refusal(&member[2].c, SL_ERR_BUSY), "limits.memory_bytes"));
		while (counted() > two)
			host_rig_turn();
		assert_int_equal(counted(), two);
		end(3);
	}
	host_group.rounds = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_is_counted_as_it_takes),
		cmocka_unit_test(whoever_does_not_fit_is_refused),
	};

	host_group = (struct host_group){.epoch_steps = 10, .lr = 0.05, .plain = true};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
