/* A client in hand: its caller says when there are gradients, and when the step is to be applied. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/session_rig.h"

static struct rig rig;

static const struct rig_conf conf = {
	.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1, .clip_norm = 3};

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static void open_in_hand(uint64_t seed, bool no_head_grad)
{
	struct rig_conf c = conf;

	c.seed = seed;
	c.no_head_grad = no_head_grad;
	rig_open(&rig, &c);
	client()->s.limits.in_hand = true;
	rig_shake_hands(&rig);
	rig_begin_step(&rig, 61);
}

static enum sl_err say(enum sl_event_kind kind)
{
	return rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = kind, .lr = 0.5, .grad_scale = 0.25});
}

static void nothing_goes_on_until_the_caller_says_so(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		open_in_hand(seed, seed % 2);
		rig_settle(&rig);
		assert_int_equal(client()->tasks[SL_TASK_TAIL], 4);
		assert_int_equal(client()->tasks[SL_TASK_GRAD], 0);
		assert_int_equal(rig.side[RIG_SERVER].whole[SL_PART_MID_GRAD], 0);
		assert_int_equal(say(SL_EV_GRADS), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->tasks[SL_TASK_GRAD], 4);
		assert_int_equal(client()->tasks[SL_TASK_HEAD_BWD], seed % 2 ? 0 : 4);
		assert_true(client()->s.squares[1] >= 0);
		assert_int_equal(client()->s.state, SL_SESSION_STEP);
		assert_int_equal(say(SL_EV_APPLY), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->stepped, 1);
		assert_int_equal(rig.side[RIG_SERVER].s.next_step, client()->s.next_step);
		assert_true(rig.side[RIG_SERVER].s.lr == 0.5 && rig.side[RIG_SERVER].s.grad_scale == 0.25);
	}
}

static void a_step_asked_for_early_waits_for_its_gradients(void **state)
{
	(void)state;
	open_in_hand(3, false);
	rig_settle(&rig);
	assert_int_equal(say(SL_EV_GRADS), SL_OK);
	assert_int_equal(say(SL_EV_APPLY), SL_OK);
	assert_int_equal(client()->s.state, SL_SESSION_STEP);
	rig_settle(&rig);
	assert_int_equal(client()->stepped, 1);
}

static void what_comes_out_of_turn_is_refused(void **state)
{
	struct sl_frame f;

	(void)state;
	open_in_hand(1, false);
	assert_int_equal(say(SL_EV_GRADS), SL_ERR_BUG);
	open_in_hand(1, false);
	rig_settle(&rig);
	assert_int_equal(say(SL_EV_APPLY), SL_OK);
	assert_int_equal(say(SL_EV_APPLY), SL_ERR_BUG);
	/* a server's gradient before this side has sent what it is made of */
	open_in_hand(1, false);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_HEAD_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(client()->fail.text, "before it can exist"));
	/* of a client that is not in hand */
	rig_step_under_way(&rig, &conf);
	assert_int_equal(say(SL_EV_GRADS), SL_ERR_BUG);
}

static void a_step_can_be_dropped_at_any_time(void **state)
{
	struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "dropped"};

	(void)state;
	for (int turns = 0; turns < 40; turns++) {
		open_in_hand((uint64_t)turns + 1, false);
		for (int i = 0; i < turns; i++)
			(void)rig_turn(&rig);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_NONFINITE, .why = &why}),
				 SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->abandoned, 1);
		assert_int_equal(say(SL_EV_SKIP), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->stepped, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_goes_on_until_the_caller_says_so),
		cmocka_unit_test(a_step_asked_for_early_waits_for_its_gradients),
		cmocka_unit_test(what_comes_out_of_turn_is_refused),
		cmocka_unit_test(a_step_can_be_dropped_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
