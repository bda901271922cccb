/* A group on an MPI job of one rank, whose communication is a stub here: it computes what it computes without MPI. */
#include "server/group/ranks.h"
#include "tests/support/host_member.h"
#include "tests/support/unit.h"

enum { MEMBERS = 2, STEPS = 3 };

static struct host_member member[MEMBERS];
static int letters;

static void gather_all(const struct sl_ranks *ranks, const void *own, void *all, size_t bytes)
{
	memcpy(all, own, bytes);
}

static void spread(const struct sl_ranks *ranks, void *data, size_t bytes)
{
}

static void pass(const struct sl_ranks *ranks, const void *data, size_t bytes)
{
	fail_msg("there is no next rank");
}

static void send(const struct sl_ranks *ranks, int kind, const void *data, size_t bytes)
{
	letters++;
}

static bool receive(const struct sl_ranks *ranks, struct sl_ranks_letter *out)
{
	return false;
}

static void alive(void)
{
}

static const struct sl_ranks one = {.abi = SL_RANKS_ABI,
				    .count = 1,
				    .alive = alive,
				    .gather_all = gather_all,
				    .take = spread,
				    .pass = pass,
				    .spread = spread,
				    .send = send,
				    .receive = receive};

/* Runs all steps of both members, of which one comes first. Returns the middle's weights, as a hash. */
static uint64_t trained(const struct sl_ranks *ranks)
{
	uint64_t hash;

	snprintf(host_group.name, sizeof host_group.name, "g%d", ranks != NULL);
	host_rig_open(MEMBERS, 0);
	if (ranks)
		assert_int_equal(sl_host_ranks(host_rig.host, ranks), SL_OK);
	for (int k = 0; k < MEMBERS; k++) {
		host_member_call(&member[k], k, (uint8_t)(k + 1), 1);
		host_rig_await(&member[k].c.came[SL_FRAME_CHALLENGE], 1);
		for (int turn = 0; turn < 20; turn++)
			host_rig_turn();
	}
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	for (uint64_t step = 0; step < STEPS; step++) {
		for (int k = 0; k < MEMBERS; k++) {
			host_member_compute(&member[k], step, HOST_GRAD, 1, 0.01f);
			host_member_commit(&member[k], step, false);
		}
		for (int k = 0; k < MEMBERS; k++)
			host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)step + 1);
	}
	hash = host_member_weights(&member[0]);
	for (int k = 0; k < MEMBERS; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
	return hash;
}

static void a_rank_alone_computes_the_same(void **state)
{
	const uint64_t alone = trained(NULL);

	assert_int_equal(letters, 0);
	assert_true(trained(&one) == alone);
	assert_true(letters > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_alone_computes_the_same)};

	host_group =
		(struct host_group){.clients = MEMBERS, .least = 1, .epoch_steps = STEPS, .lr = 0.05, .plain = true};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
