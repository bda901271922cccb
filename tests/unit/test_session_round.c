/* The session of a member whose group averages heads and tails after every round: what the member sends in the last
 * step of a round if it trained, passed on, or skipped that step, or was late at any moment. */

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

enum { FIRST = 12, ROUND = 2 /* steps 13, 15, … end a round */ };

static struct rig rig;

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static struct rig_side *server(void)
{
	return &rig.side[RIG_SERVER];
}

static bool ends_round(uint64_t step)
{
	return step % ROUND == ROUND - 1;
}

static void tell(enum sl_event_kind kind, uint64_t next_step, bool mean)
{
	const struct sl_event ev = {.kind = kind, .next_step = next_step, .mean = mean, .lr = -1};

	assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
}

static void open_member(uint64_t seed)
{
	const struct rig_conf conf = {.batch = 64,
				      .rows = 16,
				      .part_bytes = 4096,
				      .window_bytes = 16384,
				      .next_step = FIRST,
				      .seed = seed,
				      .shared = true,
				      .ends = true,
				      .ends_round = ROUND};

	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	tell(SL_EV_JOINED, FIRST, false);
	rig_settle(&rig);
}

static void pass(void)
{
	const struct sl_event ev = {.kind = SL_EV_PASS, .number = client()->s.next_step, .lr = 0.1};

	assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_OK);
}

static void begin(bool own)
{
	if (own)
		rig_begin_step(&rig, 61);
	else
		pass();
}

static void decide(void)
{
	const uint64_t step = client()->s.number;

	assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
	tell(SL_EV_DECIDED, 0, ends_round(step));
	rig_settle(&rig);
	assert_int_equal(client()->s.state, SL_SESSION_READY);
	assert_int_equal(client()->s.next_step, step + 1);
}

/* Runs the first step, which ends no round. */
static void first_step(void)
{
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	decide();
}

static void ends_cross_where_a_round_ends(void **state)
{
	for (uint64_t seed = 0; seed < 30; seed++) {
		open_member(seed);
		for (uint64_t step = FIRST; step < FIRST + 8; step++) {
			const uint64_t rounds = (step + 1 - FIRST) / ROUND;

			begin(step % 3 != seed % 3);
			rig_settle(&rig);
			assert_int_equal(server()->prepared, step + 1 - FIRST);
			assert_int_equal(server()->whole[SL_PART_END_GRAD], rounds);
			decide();
			assert_int_equal(client()->whole[SL_PART_END_MEAN], rounds);
			assert_int_equal(client()->tasks[SL_TASK_TELL], rounds);
		}
	}
}

static void skip_if_abandoned(void)
{
	rig_settle(&rig);
	if (client()->s.state == SL_SESSION_ABANDON)
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_SKIP}), SL_OK);
	rig_settle(&rig);
}

/* A member whose last step of a round is skipped still sends its heads and tails, whichever task
 * finds NaN, on either side. */
static void who_skips_a_round_s_last_step_tells_of_it(void **state)
{
	static const struct {
		enum rig_who who;
		enum sl_task task;
	} found[] = {{RIG_CLIENT, SL_TASK_HEAD_FWD}, {RIG_CLIENT, SL_TASK_TAIL},    {RIG_CLIENT, SL_TASK_HEAD_BWD},
		     {RIG_SERVER, SL_TASK_MID_FWD},  {RIG_SERVER, SL_TASK_PREPARE}, {RIG_SERVER, SL_TASK_MID_BWD}};

	for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
		for (uint64_t seed = 0; seed < 30; seed++) {
			struct rig_side *side = &rig.side[found[i].who];

			open_member(seed);
			first_step();
			side->poison_task = found[i].task;
			side->poison = side->tasks_ended[found[i].task];
			begin(true);
			skip_if_abandoned();
			assert_true(sl_session_skips(&client()->s));
			assert_true(sl_session_told(&server()->s));
			assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
			decide();
			assert_int_equal(client()->whole[SL_PART_END_MEAN], 1);
			first_step();
		}
}

/* A member that the group went on without gets the mean and sends nothing. Both sides may abandon
 * the step at the same time. */
static void who_is_late_hears_the_mean_and_tells_nothing(void **state)
{
	int told = 0, silent = 0, crossed = 0;

	for (uint64_t seed = 0; seed < 40; seed++)
		for (int turns = 0; turns < 480; turns += 24) {
			uint64_t whole;

			open_member(seed);
			first_step();
			client()->poison_task = SL_TASK_HEAD_BWD;
			client()->poison = seed % 2 ? client()->tasks_ended[SL_TASK_HEAD_BWD] + 3 : -1;
			begin(true);
			for (int i = 0; i < turns; i++)
				rig_turn(&rig);
			whole = server()->whole[SL_PART_END_GRAD];
			crossed += client()->s.state == SL_SESSION_ABANDON;
			tell(SL_EV_LATE, FIRST + 2, false);
			skip_if_abandoned();
			assert_true(sl_session_skips(&client()->s));
			told += sl_session_told(&server()->s);
			silent += !sl_session_told(&server()->s) && server()->whole[SL_PART_END_GRAD] == whole;
			decide();
			assert_int_equal(client()->whole[SL_PART_END_MEAN], 1);
			client()->poison = -1;
			first_step();
		}
	assert_true(told > 20 && silent > 200 && crossed > 20);
}

/* Refused: a mean of a round in which nobody trained, and parts at a wrong time. */
static void what_is_out_of_place_is_refused(void **state)
{
	struct sl_frame f;

	open_member(1); /* within a round */
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_SERVER, SL_PART_END_GRAD, 100);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	open_member(1);
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_END_MEAN, 100);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	open_member(1);
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	f = (struct sl_frame){.kind = SL_FRAME_COMMITTED, .epoch = client()->s.epoch};
	f.u.committed = (struct sl_committed){.step = FIRST, .mean = true};
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	open_member(1); /* sent twice */
	first_step();
	pass();
	rig_settle(&rig);
	f = rig_part(&rig, RIG_SERVER, SL_PART_END_GRAD, 100);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	open_member(1); /* a round in which nobody trained has no mean */
	first_step();
	pass();
	rig_settle(&rig);
	tell(SL_EV_DECIDED, 0, false);
	rig_settle(&rig);
	assert_int_equal(client()->s.next_step, FIRST + 2);
	assert_int_equal(client()->whole[SL_PART_END_MEAN], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_cross_where_a_round_ends),
		cmocka_unit_test(who_skips_a_round_s_last_step_tells_of_it),
		cmocka_unit_test(who_is_late_hears_the_mean_and_tells_nothing),
		cmocka_unit_test(what_is_out_of_place_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
