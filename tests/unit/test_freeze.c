/* Frozen parameters: what stays, what still changes, which ops have no backward pass, and what is refused. */

#include <math.h>

#include "tests/ref/ref.h"
#include "tests/support/small_net.h"
#include "tests/support/unit.h"

static const struct sl_conf_list features = {1, {"features.*"}};
static const struct sl_conf_list within = {1, {"features.[2-9].*"}};
static const struct sl_conf_list front = {3, {"features.0.*", "features.1.*", "features.2.conv.0.*"}};

/* The i-th parameter of `s`, as the other plan's part has it. */
static const struct sl_segment_param *same_in(const struct sl_plan_segment *other, const struct sl_plan_segment *s,
					      int i)
{
	for (int k = 0; k < other->n_param; k++)
		if (other->param[k].model_param == s->param[i].model_param)
			return &other->param[k];
	fail_msg("no parameter %d", i);
	return NULL;
}

static enum sl_role role_of(const struct sl_plan_segment *s, int i)
{
	return s->graph.param[s->param[i].graph_param].role;
}

/* One step of both networks without its commit: learning
 * parameters have the same gradients as without frozen ones. */
static void compare_step(struct small_net *frozen, struct small_net *plain, double most)
{
	small_net_compute(frozen, SMALL_BATCH, 0);
	small_net_compute(plain, SMALL_BATCH, 0);
	assert_true(fabs(frozen->loss - plain->loss) <= most);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &frozen->plan->segment[which], *p = &plain->plan->segment[which];
		int64_t count;
		float *got = small_net_get(frozen, which, sl_exec_get_gradients, &count);
		float *want = small_net_get(plain, which, sl_exec_get_gradients, &count);

		for (int i = 0; i < s->n_param; i++) {
			const struct sl_segment_param *q = same_in(p, s, i);

			if (role_of(s, i) != SL_LEARNS)
				continue;
			for (int64_t k = 0; k < q->count; k++)
				assert_true(fabs((double)got[s->param[i].offset + k] - want[q->offset + k]) <= most);
		}
		free(got);
		free(want);
	}
}

/* After the commit frozen weights are unchanged, and all others equal those of the network without frozen ones. */
static void compare_weights(struct small_net *frozen, struct small_net *plain, const float *const first[], double most)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &frozen->plan->segment[which], *p = &plain->plan->segment[which];
		int64_t count;
		float *now = small_net_get(frozen, which, sl_exec_get_weights, &count);
		float *learned = small_net_get(plain, which, sl_exec_get_weights, &count);

		for (int i = 0; i < s->n_param; i++) {
			const struct sl_segment_param *q = same_in(p, s, i);
			const float *x = now + s->param[i].offset;
			bool still = role_of(s, i) == SL_FROZEN;

			if (still)
				assert_memory_equal(x, first[which] + s->param[i].offset, (size_t)q->count * sizeof *x);
			for (int64_t k = 0; k < q->count && !still; k++)
				assert_true(fabs((double)x[k] - learned[q->offset + k]) <= most);
		}
		free(now);
		free(learned);
	}
}

static void one_step(const char *partition, const struct sl_conf_list *freeze, bool ref, double most)
{
	struct small_net frozen, plain;
	float *first[SL_SEGMENT_COUNT];
	int64_t count;

	small_net_open(&frozen,
		       &(struct small_net_how){.partition = partition, .chunks = 2, .ref = ref, .freeze = freeze});
	small_net_open(&plain, &(struct small_net_how){.partition = partition, .chunks = 2, .ref = ref});
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		first[which] = small_net_get(&frozen, which, sl_exec_get_weights, &count);
	compare_step(&frozen, &plain, most);
	small_net_commit(&frozen, SMALL_BATCH);
	small_net_commit(&plain, SMALL_BATCH);
	compare_weights(&frozen, &plain, (const float *const *)first, most);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		free(first[which]);
	small_net_close(&frozen);
	small_net_close(&plain);
}

/* Without fused kernels every bit is the same. Fused ones sum in another order at the end of the frozen front. */
static void frozen_weights_stay_and_others_learn_as_before(void **state)
{
	one_step("1:-1", &features, true, 0);
	one_step("3:-1", &front, true, 0);
	one_step("1:-1", &features, false, 0);
	one_step("3:-1", &front, false, 1e-4);
	one_step("1:-1", &within, false, 0); /* the layers before `within` learn */
}

static void nothing_is_computed_below_the_lowest_learner(void **state)
{
	const struct sl_optimizer sgd = {.momentum = 0.9};
	struct sl_plan *plan = small_plan_open_freezing("3:-1", 1, &sgd, "", &front);
	const struct sl_plan_segment *head = &plan->segment[SL_HEAD];
	int backward = 0;

	for (int i = 0; i < head->n_op; i++) {
		const char *name = head->op[i].op.name;
		bool below = !strncmp(name, "features.0.", 11) || !strncmp(name, "features.1.", 11) ||
			     !strncmp(name, "features.2.conv.0.", 18);

		assert_int_equal(head->op[i].backward, !below);
		backward += head->op[i].backward;
	}
	assert_in_range(backward, 1, head->n_op - 1);
	assert_true(head->trainable_count < head->moving_count && head->moving_count < head->weight_count);
	sl_plan_close(plan);
	plan = small_plan_open_freezing("1:-1", 1, &sgd, "", &features);
	assert_int_equal(plan->segment[SL_HEAD].trainable_count, 0);
	assert_false(plan->segment[SL_HEAD].op[0].backward);
	assert_int_equal(plan->segment[SL_TAIL].weight_count, plan->segment[SL_TAIL].trainable_count);
	sl_plan_close(plan);
}

/* A Fetch brings only weights that change, but never an empty range. */
static void frozen_weights_are_not_fetched(void **state)
{
	const struct sl_optimizer sgd = {.momentum = 0.9};
	struct sl_plan *plan = small_plan_open_freezing("1:-1", 1, &sgd, "", &features);
	const struct sl_plan_segment *middle = &plan->segment[SL_MIDDLE];
	struct sl_plan_segment still = {.weight_count = 40}, small = {.weight_count = 8};

	assert_int_equal(middle->trainable_count, 0);
	assert_int_equal(sl_plan_fetch_count(middle), middle->moving_count);
	assert_int_equal(sl_plan_fetch_count(&plan->segment[SL_TAIL]), plan->segment[SL_TAIL].weight_count);
	assert_int_equal(sl_plan_fetch_count(&still), 16);
	assert_int_equal(sl_plan_fetch_count(&small), 8);
	sl_plan_close(plan);
}

static struct sl_exec_memory memory_of(const struct sl_plan *plan, enum sl_segment which, struct sl_backend *be)
{
	struct sl_exec *e;
	struct sl_fail fail;
	struct sl_exec_memory memory;

	assert_int_equal(sl_exec_prepare(&e, plan, which, be, &fail), SL_OK);
	memory = sl_exec_memory(e);
	sl_exec_close(e);
	return memory;
}

/* A frozen weight takes its own bytes and no more: it has neither gradient nor moments. And a layer whose weights are
 * frozen does not keep its input for backward. */
static void frozen_weights_take_no_other_memory(void **state)
{
	struct sl_plan *plain = small_plan_open_as("1:-1", 2, &small_net_adamw, "");
	struct sl_plan *frozen = small_plan_open_freezing("1:-1", 2, &small_net_adamw, "", &within);
	const struct sl_plan_segment *s = &frozen->segment[SL_MIDDLE];
	const size_t range = (size_t)s->weight_count, learns = (size_t)s->trainable_count;
	const size_t statistics = (size_t)s->moving_count - learns;
	struct sl_backend be;
	struct sl_fail fail;
	struct sl_exec_memory memory;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	assert_true(learns > 0 && s->moving_count < s->weight_count);
	memory = memory_of(frozen, SL_MIDDLE, &be);
	assert_int_equal(memory.weights, (range + (1 + 2) * learns + statistics) * sizeof(float));
	assert_true(memory.slots < memory_of(plain, SL_MIDDLE, &be).slots);
	be.ops->close(&be);
	sl_plan_close(plain);
	sl_plan_close(frozen);
}

/* Groups are consecutive ranges, and each begins at a cache line. */
static void groups_have_ranges_of_their_own(void **state)
{
	static const struct sl_conf_list groups = {2, {"*.bias *.0.1.weight weight_decay=0", "features.1[0-9].* lr=2"}};
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, 10, 32, true, 0.2, 0},
				     .cut = {.partition = "1:-1"},
				     .freeze = &(struct sl_conf_list){1, {"features.2.*"}},
				     .groups = &groups,
				     .plan = {.batch = 8, .chunks = 1, .n_group = 2}};
	const struct sl_plan_segment *middle;
	struct sl_plan *plan = NULL;
	int seen[3] = {0};
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail))
		fail_msg("%s", fail.text);
	middle = &plan->segment[SL_MIDDLE];
	assert_int_equal(middle->group_end[2], middle->trainable_count);
	for (int i = 0; i < middle->n_param; i++) {
		const struct sl_param *p = &middle->graph.param[middle->param[i].graph_param];
		const int64_t from = p->group ? middle->group_end[p->group - 1] : 0, at = middle->param[i].offset;

		assert_true(p->role == SL_LEARNS || p->group == 0);
		if (p->role != SL_LEARNS)
			continue;
		assert_true(at >= from && at + middle->param[i].count <= middle->group_end[p->group] && at % 16 == 0);
		seen[p->group]++;
	}
	assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
	sl_plan_close(plan);
	spec.plan.n_group = 1; /* as if a peer's text named a group that was not agreed on */
	assert_int_equal(plan_open(&plan, &spec, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "it is of group 2, where 1 can be"));
}

static void refuses(const char *glob, const char *says)
{
	struct sl_conf_list list = {.n = 1};
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, 10, 32, true, 0.2, 0, 0, 0, 0},
				     .cut = {.partition = "1:-1"},
				     .freeze = &list,
				     .plan.batch = 8,
				     .plan.chunks = 1};
	struct sl_plan *plan = NULL;
	struct sl_fail fail;

	strcpy(list.item[0], glob);
	assert_int_equal(plan_open(&plan, &spec, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "train.freeze");
	assert_non_null(strstr(fail.text, says));
	assert_null(plan);
}

static void wrong_patterns_are_refused(void **state)
{
	refuses("feature.*", "no parameter is called \"feature.*\": did you mean \"features.*\"?");
	refuses("features.1.conf.*", "did you mean \"features.1.conv.*\"?");
	refuses("clasifier.1.weight", "did you mean \"classifier.1.weight\"?");
	refuses("layer4.*", "no parameter is called \"layer4.*\"; names begin with features, classifier (");
	refuses("*.gamma", "names begin with features, classifier");
	refuses("*", "no parameter is left that learns");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frozen_weights_stay_and_others_learn_as_before),
		cmocka_unit_test(nothing_is_computed_below_the_lowest_learner),
		cmocka_unit_test(frozen_weights_are_not_fetched),
		cmocka_unit_test(frozen_weights_take_no_other_memory),
		cmocka_unit_test(groups_have_ranges_of_their_own),
		cmocka_unit_test(wrong_patterns_are_refused),
	};

	return cmocka_run_group_tests_name("freeze", tests, NULL, NULL);
}
