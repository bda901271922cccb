/* Steps in which NaN or Inf is found, by any task of either side, by both at once, in any order of events. Both
 * sides abandon the step, apply nothing, lose no credit, and go on with the same next step. */

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static struct rig_side *server(void)
{
	return &rig.side[RIG_SERVER];
}

static struct rig_conf conf_of(uint64_t seed)
{
	return (struct rig_conf){.batch = 61,
				 .rows = 16,
				 .part_bytes = 4096,
				 .window_bytes = seed % 3 ? 1 << 20 : 12288,
				 .need_weights = seed % 2,
				 .clip_norm = seed % 4 ? 0 : 3,
				 .seed = seed};
}

static void poison(enum rig_who who, enum sl_task task, int number)
{
	rig.side[who].poison_task = task;
	rig.side[who].poison = number;
}

static enum sl_err ask(enum sl_event_kind kind)
{
	return rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = kind});
}

static void assert_whole(uint64_t next_step, int stepped)
{
	for (int who = 0; who < 2; who++) {
		const struct rig_side *side = &rig.side[who], *peer = &rig.side[!who];

		if (side->failed)
			fail_msg("side %d failed: %s", who, side->fail.text);
		assert_int_equal(side->s.state, SL_SESSION_READY);
		assert_int_equal(side->s.next_step, next_step);
		assert_int_equal(side->stepped, stepped);
		assert_int_equal(side->credit, peer->s.window_bytes - peer->s.consumed_bytes);
	}
}

static void step(uint64_t rows)
{
	rig_begin_step(&rig, rows);
	rig_settle(&rig);
}

/* ---- NaN in any task */

struct place {
	enum rig_who who;
	enum sl_task task;
	int count; /* of such tasks in a step of 61 rows */
};

static const struct place places[] = {
	{RIG_CLIENT, SL_TASK_HEAD_FWD, 4}, {RIG_CLIENT, SL_TASK_TAIL, 4},    {RIG_CLIENT, SL_TASK_HEAD_BWD, 4},
	{RIG_SERVER, SL_TASK_MID_FWD, 4},  {RIG_SERVER, SL_TASK_MID_BWD, 4}, {RIG_SERVER, SL_TASK_COMMIT, 1},
};

/* Whether the task exists: some need gradients that do not cross. */
static bool is_done(const struct place *p, int grads)
{
	return !(p->task == SL_TASK_HEAD_BWD && grads > 0) && !(p->task == SL_TASK_MID_BWD && grads > 1);
}

static void skip_at(const struct place *p, int number, int grads, uint64_t seed)
{
	struct rig_conf conf = conf_of(seed);

	rig_grads(&conf, grads);
	rig_open(&rig, &conf);
	/* an upload and the first step go on side by side */
	assert_int_equal(ask(SL_EV_OPEN), SL_OK);
	while (client()->s.state != SL_SESSION_READY)
		assert_true(rig_turn(&rig));
	poison(p->who, p->task, number);
	step(61);
	assert_int_equal(client()->s.state, SL_SESSION_ABANDON);
	assert_int_equal(client()->abandoned, 1);
	assert_int_equal(client()->fail.code, SL_ERR_NONFINITE);
	assert_string_equal(client()->fail.text, "NaN in a tensor");
	assert_int_equal(client()->dropped, 1);
	assert_int_equal(server()->dropped, 1);
	assert_int_equal(client()->tasks[SL_TASK_COMMIT], 0);
	assert_int_equal(server()->tasks[SL_TASK_COMMIT], p->task == SL_TASK_COMMIT);
	assert_int_equal(ask(SL_EV_SKIP), SL_OK);
	rig_settle(&rig);
	assert_whole(1, 1);
	assert_true(sl_session_skips(&client()->s) && sl_session_skips(&server()->s));
	step(45);
	assert_whole(2, 2);
	assert_false(sl_session_skips(&client()->s) || sl_session_skips(&server()->s));
	assert_int_equal(client()->tasks[SL_TASK_COMMIT], 2);
}

static void a_step_is_skipped_wherever_it_breaks(void **state)
{
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		for (int number = 0; number < places[i].count; number++)
			for (uint64_t seed = 0; seed < 120; seed++)
				if (is_done(&places[i], (int)(seed % 3)))
					skip_at(&places[i], number, (int)(seed % 3), seed / 3);
}

static void both_sides_may_find_it(void **state)
{
	int crossed = 0;

	for (uint64_t seed = 0; seed < 400; seed++) {
		struct rig_conf conf = conf_of(seed);

		rig_open(&rig, &conf);
		rig_shake_hands(&rig);
		poison(RIG_CLIENT, seed % 2 ? SL_TASK_HEAD_FWD : SL_TASK_TAIL, seed % 2 ? 3 : 0);
		poison(RIG_SERVER, SL_TASK_MID_FWD, seed % 2 ? 0 : 1);
		step(61);
		crossed += client()->poison < 0 && server()->poison < 0;
		assert_int_equal(client()->abandoned, 1);
		assert_int_equal(ask(SL_EV_SKIP), SL_OK);
		rig_settle(&rig);
		assert_whole(1, 1);
		client()->poison = server()->poison = -1;
		step(61);
		assert_whole(2, 2);
	}
	assert_in_range(crossed, 20, 390);
}

static void the_run_may_end_with_the_weights_before(void **state)
{
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		for (uint64_t seed = 0; seed < 90; seed++) {
			const int grads = (int)(seed % 3);
			struct rig_conf conf = conf_of(seed / 3);

			if (!is_done(&places[i], grads))
				continue;
			rig_grads(&conf, grads);
			rig_open(&rig, &conf);
			assert_int_equal(ask(SL_EV_OPEN), SL_OK);
			while (client()->s.state != SL_SESSION_READY)
				assert_true(rig_turn(&rig));
			poison(places[i].who, places[i].task, places[i].count - 1);
			step(61);
			assert_int_equal(ask(SL_EV_BEGIN_FETCH), SL_OK);
			rig_settle(&rig);
			assert_int_equal(client()->fetched, 1);
			assert_whole(0, 0);
			/* the same step can be done now */
			step(61);
			assert_whole(1, 1);
		}
}

static void many_steps_in_a_row_are_skipped(void **state)
{
	struct rig_conf conf = conf_of(5);

	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
	for (int i = 0; i < 12; i++) {
		poison((enum rig_who)(i % 2), i % 2 ? SL_TASK_MID_FWD : SL_TASK_TAIL,
		       rig.side[i % 2].tasks_ended[i % 2 ? SL_TASK_MID_FWD : SL_TASK_TAIL]);
		step(61);
		assert_int_equal(ask(SL_EV_SKIP), SL_OK);
		rig_settle(&rig);
		assert_whole((uint64_t)i + 1, i + 1);
	}
}

/* ---- rules */

static void abandoned_by_server(void)
{
	struct rig_conf conf = conf_of(4);

	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
	poison(RIG_SERVER, SL_TASK_MID_FWD, 1);
	step(61);
	assert_int_equal(server()->s.state, SL_SESSION_ABANDON);
}

static void refuse_frame(enum rig_who who, const struct sl_frame *f)
{
	abandoned_by_server();
	assert_int_equal(rig_frame(&rig, who, f), SL_ERR_PROTOCOL);
	assert_int_equal(rig.side[who].s.state, SL_SESSION_CLOSED);
}

static void what_does_not_belong_to_the_step_is_refused(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_ABANDON, .epoch = 7, .u.abandon = {.step = 1, .text = "x"}};

	refuse_frame(RIG_SERVER, &f);
	refuse_frame(RIG_CLIENT, &f);
	f = (struct sl_frame){.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = {0, 4, 0.1, false, false}};
	refuse_frame(RIG_SERVER, &f);
	f.u.commit.skip = true;
	f.u.commit.step = 1;
	refuse_frame(RIG_SERVER, &f);
	abandoned_by_server();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 500);
	f.u.part.step = 1;
	refuse_frame(RIG_SERVER, &f);
	f.u.part.step = 0;
	f.u.part.training = false;
	refuse_frame(RIG_SERVER, &f);
	f.u.part.training = true;
	abandoned_by_server();
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK); /* it was on its way */
	f.payload.len = server()->s.hello.part_bytes + 1;         /* but no part is larger than was agreed */
	refuse_frame(RIG_SERVER, &f);
}

static void a_step_that_is_done_cannot_be_abandoned(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_ABANDON, .epoch = 7, .u.abandon = {.step = 0, .text = "x"}};
	struct rig_conf conf = conf_of(4);

	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
	step(61);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
	step(61);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
}

static void nothing_is_decided_while_tasks_run(void **state)
{
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN"};
	const struct sl_event found = {.kind = SL_EV_NONFINITE, .why = &why};

	for (int i = 0; i < 2; i++) {
		struct rig_conf conf = conf_of(4);

		rig_open(&rig, &conf);
		rig_shake_hands(&rig);
		rig_begin_step(&rig, 61);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &found), SL_OK);
		assert_int_equal(ask(i ? SL_EV_SKIP : SL_EV_BEGIN_FETCH), SL_ERR_BUG);
	}
}

/* A COMMIT that skips may ask for a checkpoint and names those of the client, like any other. This
 * holds even if it overtakes the uploaded weights. */
static void a_skipped_step_carries_what_is_kept(void **state)
{
	struct sl_event ev = {.kind = SL_EV_BEGIN_STEP, .batch_rows = 61, .number = 0, .lr = 0.1, .checkpoint = true};
	int early = 0;

	for (uint64_t seed = 0; seed < 40; seed++) {
		struct rig_conf conf = conf_of(seed);

		conf.need_weights = true;
		rig_open(&rig, &conf);
		assert_int_equal(ask(SL_EV_OPEN), SL_OK);
		while (client()->s.state != SL_SESSION_READY)
			assert_true(rig_turn(&rig));
		client()->s.kept[0] = 12;
		client()->s.kept[1] = 5;
		poison(RIG_CLIENT, SL_TASK_HEAD_FWD, 0);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_OK);
		while (!client()->abandoned)
			assert_true(rig_turn(&rig));
		assert_int_equal(ask(SL_EV_SKIP), SL_OK);
		assert_false(sl_session_abandons(&client()->s)); /* it is not abandoned twice */
		while (!server()->stepped) {
			assert_true(rig_turn(&rig));
			early += server()->s.state == SL_SESSION_WEIGHTS && server()->s.asked == SL_ASKED_SKIP;
		}
		assert_true(server()->s.keep == SL_KEEP_ASKED);
		assert_memory_equal(server()->s.kept, client()->s.kept, sizeof server()->s.kept);
		rig_settle(&rig);
		assert_whole(1, 1);
	}
	assert_true(early > 0);
}

/* After an abandoned step the client sends SKIP or FETCH, but only one, whatever the server is still busy with. */
static void of_skip_and_fetch_one_is_asked_for(void **state)
{
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN"};
	const struct sl_event found = {.kind = SL_EV_NONFINITE, .why = &why};
	const struct sl_frame abandon = {.kind = SL_FRAME_ABANDON, .epoch = 7, .u.abandon = {.step = 0, .text = "x"}};
	const struct sl_frame word[2] = {
		{.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = {0, 4, 0.1, false, true, {0}}},
		{.kind = SL_FRAME_FETCH, .epoch = 7}};

	for (int early = 0; early < 2; early++)
		for (int first = 0; first < 2; first++)
			for (int second = 0; second < 2; second++) {
				struct rig_conf conf = conf_of(4);

				conf.need_weights = early;
				rig_open(&rig, &conf);
				assert_int_equal(ask(SL_EV_OPEN), SL_OK);
				while (client()->s.state != SL_SESSION_READY)
					assert_true(rig_turn(&rig));
				rig_begin_step(&rig, 61);
				if (early) {
					assert_int_equal(server()->s.state, SL_SESSION_WEIGHTS);
					assert_int_equal(rig_frame(&rig, RIG_SERVER, &abandon), SL_OK);
				} else {
					rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
					assert_int_equal(rig_event(&rig, RIG_SERVER, &found), SL_OK);
				}
				assert_int_equal(rig_frame(&rig, RIG_SERVER, &word[first]), SL_OK);
				assert_int_equal(rig_frame(&rig, RIG_SERVER, &word[second]), SL_ERR_PROTOCOL);
			}
}

static void the_server_abandons_the_step_under_way_alone(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_ABANDON, .epoch = 7, .u.abandon = {.step = 1, .text = "x"}};
	const struct sl_frame committed = {.kind = SL_FRAME_COMMITTED, .epoch = 7};
	struct rig_conf conf = conf_of(4);

	for (int who = 0; who < 2; who++) {
		rig_step_under_way(&rig, &conf);
		assert_int_equal(rig_frame(&rig, (enum rig_who)who, &f), SL_ERR_PROTOCOL);
	}
	f.u.abandon.step = 0;
	/* the peer has said that it applied the step */
	rig_open_ready(&rig, &conf);
	rig_begin_step(&rig, 61);
	while (client()->s.state != SL_SESSION_COMMIT)
		assert_true(rig_turn(&rig));
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &committed), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	/* no step is under way */
	rig_open_ready(&rig, &conf);
	rig_begin_fetch(&rig);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
}

static void an_evaluation_is_not_abandoned(void **state)
{
	struct rig_conf conf = conf_of(4);

	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
	assert_false(sl_session_abandons(&client()->s));
	rig_begin_eval(&rig, 0, 61);
	assert_false(sl_session_abandons(&client()->s));
	rig_settle(&rig);
	rig_begin_step(&rig, 61);
	assert_true(sl_session_abandons(&client()->s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_skipped_wherever_it_breaks),
		cmocka_unit_test(both_sides_may_find_it),
		cmocka_unit_test(the_run_may_end_with_the_weights_before),
		cmocka_unit_test(many_steps_in_a_row_are_skipped),
		cmocka_unit_test(what_does_not_belong_to_the_step_is_refused),
		cmocka_unit_test(a_step_that_is_done_cannot_be_abandoned),
		cmocka_unit_test(nothing_is_decided_while_tasks_run),
		cmocka_unit_test(a_skipped_step_carries_what_is_kept),
		cmocka_unit_test(of_skip_and_fetch_one_is_asked_for),
		cmocka_unit_test(the_server_abandons_the_step_under_way_alone),
		cmocka_unit_test(an_evaluation_is_not_abandoned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
