/* What limits.memory_bytes counts for a group: its middle once, in rounds a copy for each member, the
 * memory in which each member computes, and the codec states of each seat whose link has ended. */

#include "server/host/host_impl.h"
#include "tests/support/host_member.h"
#include "tests/support/unit.h"

enum { MEMBERS = 4, PLAIN_STATE = 8 * SL_DIR_COUNT /* the size of codecs' states when there is nothing to keep */ };

static struct host_member member[MEMBERS];
static int tests_run;

static uint64_t counted(void)
{
	return atomic_load(&host_rig.host->memory.used);
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

/* Opens a complete group of so many members. Returns the bytes
 * counted for it; *taken: the bytes that its backend allocated. */
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
		/* The middle's share remains. The backend allocates one byte where nothing is needed. */
		assert_in_range(2 * bytes[1] - bytes[2], 2 * taken[1] - taken[2] - 8, 2 * taken[1] - taken[2] + 8);
	}
	host_group.rounds = false;
}

/* The last of three members is one byte above the limit: it is refused, and what was counted for
 * it is given back. Codec states are counted last, when the copy of the middle exists already. */
static void whoever_does_not_fit_is_refused(void **state)
{
	size_t taken;

	for (int rounds = 0; rounds < 2; rounds++) {
		uint64_t all, two;

		host_group.rounds = rounds;
		all = group_of(3, &taken);
		two = all - (group_of(4, &taken) - all);
		host_group.clients = 3;
		begin((int64_t)all - PLAIN_STATE - 1);
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

static void does_a_step(int members)
{
	for (int k = 0; k < members; k++) {
		host_member_compute(&member[k], 0, HOST_GRAD, 1, 1e-3f);
		host_member_commit(&member[k], 0, false);
	}
	for (int k = 0; k < members; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], 1);
}

static void leaves(int k)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = member[k].epoch};
	const uint64_t before = counted();

	host_rig_say(&member[k].c, &bye);
	host_member_hang_up(&member[k]);
	while (counted() == before || host_rig.host->closing)
		host_rig_turn();
}

/* A seat holds its codec states until the group ends, also if a restarted server reads
 * them from a checkpoint. A server without room for them does not let the member in. */
static void what_codecs_keep_counts_after_a_member_has_left(void **state)
{
	uint64_t alone, both, kept;

	host_rig_make_store();
	host_group.checkpoints = true;
	host_group.clients = MEMBERS;
	host_group.quorum = 1;
	host_group.codec = "topk:1,ef=true";
	begin(0);
	come(0);
	host_rig_await(&member[0].c.came[SL_FRAME_WELCOME], 1);
	alone = counted();
	come(1);
	host_rig_await(&member[1].c.came[SL_FRAME_WELCOME], 1);
	both = counted();
	does_a_step(2);
	leaves(1);
	kept = counted() - alone;
	assert_in_range(kept, member[1].act_bytes + member[1].grad_bytes,
			member[1].act_bytes + member[1].grad_bytes + 2 * PLAIN_STATE);
	end(1);

	host_rig_open(MEMBERS, 0);
	host_member_call_with(&member[0], 0, (uint8_t)(tests_run * MEMBERS), 2, &(uint64_t){1}, 1);
	host_rig_await(&member[0].c.came[SL_FRAME_WELCOME], 1);
	assert_int_equal(member[0].c.last[SL_FRAME_WELCOME].u.welcome.begin, 1);
	assert_int_equal(counted(), alone + kept);
	end(1);
	host_group.checkpoints = false;
	host_rig_remove_store();

	begin((int64_t)both - 1);
	come(0);
	host_rig_await(&member[0].c.came[SL_FRAME_WELCOME], 1);
	come(1);
	assert_non_null(strstr(host_rig_refusal(&member[1].c, SL_ERR_BUSY), "what the codecs of member 1"));
	while (counted() > alone)
		host_rig_turn();
	end(2);
	host_group.codec = NULL;
	host_group.quorum = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_is_counted_as_it_takes),
		cmocka_unit_test(whoever_does_not_fit_is_refused),
		cmocka_unit_test(what_codecs_keep_counts_after_a_member_has_left),
	};

	host_group = (struct host_group){.epoch_steps = 10, .lr = 0.05, .plain = true};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
