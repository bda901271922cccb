/* What the executor keeps from step to step beside weights: the optimizer's moments and the count of applied steps. */

#include "common/session/agree.h"
#include "common/session/state.h"
#include "tests/support/small_net.h"
#include "tests/support/unit.h"

static void skip_step(struct small_net *n)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_skip(n->exec[which]), SL_OK);
}

/* AdamW's bias correction goes by the number of applied steps: a skipped step does not count. */
static void a_step_left_out_does_not_age_the_moments(void **state)
{
	struct small_net plain, gap;

	small_net_open(&plain,
		       &(struct small_net_how){.partition = "1:-1", .chunks = 2, .optimizer = &small_net_adamw});
	small_net_open(&gap, &(struct small_net_how){.partition = "1:-1", .chunks = 2, .optimizer = &small_net_adamw});
	for (uint64_t step = 0; step < 3; step++) {
		small_net_compute(&plain, SMALL_BATCH, step);
		small_net_commit(&plain, SMALL_BATCH);
		small_net_compute(&gap, 5, 77);
		skip_step(&gap);
		small_net_compute(&gap, SMALL_BATCH, step);
		small_net_commit(&gap, SMALL_BATCH);
	}
	assert_true(sl_exec_applied(gap.exec[SL_MIDDLE]) == 3);
	assert_true(small_net_same(&plain, &gap, sl_exec_get_weights));
	small_net_close(&plain);
	small_net_close(&gap);
}

/* Applies one more step to both, compares their weights, and closes them. */
static void go_on_alike(struct small_net *run, struct small_net *again)
{
	small_net_compute(run, 7, 1);
	small_net_commit(run, 7);
	small_net_compute(again, 7, 1);
	small_net_commit(again, 7);
	assert_true(small_net_same(run, again, sl_exec_get_weights));
	small_net_close(run);
	small_net_close(again);
}

/* Weights, both moments and the count of applied steps are all that a run needs to resume. */
static void a_state_is_all_that_a_step_changes(void **state)
{
	struct sl_exec_state kept[SL_SEGMENT_COUNT];
	struct small_net run, again;

	small_net_open(&run, &(struct small_net_how){.partition = "1:-1", .chunks = 2, .optimizer = &small_net_adamw});
	small_net_open(&again,
		       &(struct small_net_how){.partition = "1:-1", .chunks = 2, .optimizer = &small_net_adamw});
	small_net_compute(&run, SMALL_BATCH, 0);
	small_net_commit(&run, SMALL_BATCH);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct sl_exec_state *s = &kept[which];

		assert_int_equal(sl_exec_state_open(s, &run.plan->segment[which], NULL), SL_OK);
		assert_int_equal(sl_exec_state_take(s, run.exec[which]), SL_OK);
		/* A count of applied steps above the steps that were done is refused. */
		assert_int_equal(sl_exec_state_give(s, again.exec[which]), SL_ERR_DATA);
		assert_int_equal(sl_exec_state_check(s, again.exec[which]), SL_ERR_DATA);
	}
	assert_false(small_net_same(&run, &again, sl_exec_get_weights));
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		assert_int_equal(sl_exec_set_done(again.exec[which], 1), SL_OK);
		assert_int_equal(sl_exec_state_give(&kept[which], again.exec[which]), SL_OK);
		sl_exec_state_close(&kept[which]);
	}
	go_on_alike(&run, &again);
}

/* A state may use the executor's own range of weights, so that they are not copied when it is taken or given. */
static void a_state_may_lie_in_the_executor(void **state)
{
	const struct small_net_how how = {.partition = "1:-1", .chunks = 2, .optimizer = &small_net_adamw};
	struct sl_exec_state from, to;
	struct small_net run, again;

	small_net_open(&run, &how);
	small_net_open(&again, &how);
	small_net_compute(&run, SMALL_BATCH, 0);
	small_net_commit(&run, SMALL_BATCH);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct sl_exec *e = run.exec[which], *other = again.exec[which];
		const struct sl_plan_segment *s = &run.plan->segment[which];

		assert_int_equal(sl_exec_state_open(&from, s, sl_exec_weights_at(e)), SL_OK);
		assert_int_equal(sl_exec_state_open(&to, s, sl_exec_weights_at(other)), SL_OK);
		assert_ptr_equal(from.weight, sl_exec_weights_at(e));
		assert_int_equal(sl_exec_state_take(&from, e), SL_OK);
		memcpy(to.weight, from.weight, (size_t)s->weight_count * sizeof *to.weight);
		memcpy(to.own, from.own, (size_t)(s->moments * s->trainable_count) * sizeof *to.own);
		memcpy(to.applied, from.applied, sizeof to.applied);
		assert_int_equal(sl_exec_set_done(other, 1), SL_OK);
		assert_int_equal(sl_exec_state_give(&to, other), SL_OK);
		sl_exec_state_close(&from);
		sl_exec_state_close(&to);
	}
	go_on_alike(&run, &again);
}

/* Where a decaying insert drops a weight, both moments become 0; elsewhere they stay.
 * That also holds if a state from before the drop is given to the executor after it. */
static void moments_fall_with_their_weights(void **state)
{
	struct small_net n;

	small_net_open(&n, &(struct small_net_how){.partition = "1:-1",
						   .chunks = 2,
						   .optimizer = &small_net_adamw,
						   .insert = "decaylinear:rate=0.5,every=1,times=2"});
	small_net_compute(&n, SMALL_BATCH, 0);
	small_net_commit(&n, SMALL_BATCH);
	for (int which = SL_HEAD; which <= SL_MIDDLE; which++) {
		struct sl_exec *e = n.exec[which];
		struct sl_exec_state before, after;
		int64_t fallen = 0;

		assert_int_equal(sl_exec_state_open(&before, &n.plan->segment[which], NULL), SL_OK);
		assert_int_equal(sl_exec_state_open(&after, &n.plan->segment[which], NULL), SL_OK);
		assert_int_equal(sl_exec_state_take(&before, e), SL_OK);
		assert_int_equal(sl_exec_set_done(e, 1), SL_OK);
		assert_int_equal(sl_exec_state_take(&after, e), SL_OK);
		for (int64_t i = 0; i < after.trainable_count; i++) {
			bool gone = before.weight[i] != 0 && after.weight[i] == 0;

			for (int k = 0; k < 2; k++)
				assert_true(after.moment[k][i] == (gone ? 0 : before.moment[k][i]));
			fallen += gone && before.moment[0][i] != 0 && before.moment[1][i] != 0;
		}
		assert_true(fallen > 0);
		assert_int_equal(sl_exec_state_give(&before, e), SL_OK);
		assert_int_equal(sl_exec_state_take(&before, e), SL_OK);
		for (int k = 0; k < 2; k++)
			assert_memory_equal(before.moment[k], after.moment[k],
					    (size_t)after.trainable_count * sizeof(float));
		sl_exec_state_close(&before);
		sl_exec_state_close(&after);
	}
	small_net_close(&n);
}

/* Checkpoints of earlier builds use these names. */
static void names_are_those_of_earlier_checkpoints(void **state)
{
	static const char *const parts[][4] = {
		{"middle.weights", "middle.momentum"},
		{"middle.weights", "middle.moment1", "middle.moment2", "middle.applied"}};

	for (int two = 0; two < 2; two++) {
		struct sl_plan_segment middle = {
			.which = SL_MIDDLE, .moments = 1 + two, .weight_count = 32, .trainable_count = 16};
		struct sl_checkpoint c = {0};
		struct sl_exec_state s;

		assert_int_equal(sl_exec_state_open(&s, &middle, NULL), SL_OK);
		sl_exec_state_parts(&s, &c);
		assert_int_equal(c.n_part, two ? 4 : 2);
		for (int i = 0; i < c.n_part; i++)
			assert_string_equal(c.part[i].name, parts[two][i]);
		sl_exec_state_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_left_out_does_not_age_the_moments),
		cmocka_unit_test(a_state_is_all_that_a_step_changes),
		cmocka_unit_test(names_are_those_of_earlier_checkpoints),
		cmocka_unit_test(a_state_may_lie_in_the_executor),
		cmocka_unit_test(moments_fall_with_their_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
