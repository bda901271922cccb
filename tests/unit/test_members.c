/* Members of a group in one process. Where the group's step must equal that of one client, it does so bit for bit. */

#include "tests/support/local_run.h"
#include "tests/support/unit.h"

enum { MEMBERS = 2, STEPS = 3 };

struct members {
	struct asked asked[MEMBERS];
	struct sl_plan *plan[MEMBERS];
	struct sl_local *local[MEMBERS];
	struct sl_exec *trunk;
	struct sl_weights weights;
};

static struct sl_optimizer adamw(void)
{
	return (struct sl_optimizer){
		.kind = SL_OPTIMIZER_ADAMW, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
}

static void open_members(struct members *g, struct local_run *one)
{
	struct sl_fail fail;

	for (int k = 0; k < MEMBERS; k++) {
		struct asked *a = &g->asked[k];

		*a = one->asked;
		strcpy(a->agreement.agreed.share.group, "g");
		a->agreement.agreed.share.clients = MEMBERS;
		a->agreement.agreed.share.member = k;
		a->agreement.agreed.share.rows = MEMBERS * LOCAL_ROWS;
		if (asked_settle(a, &fail))
			fail_msg("%s", fail.text);
		a->split.plan.optimizer = adamw();
		if (plan_open(&g->plan[k], &a->split, &fail))
			fail_msg("%s", fail.text);
		if (k == 0) {
			assert_int_equal(sl_exec_prepare(&g->trunk, g->plan[0], SL_MIDDLE, &one->be, &fail), SL_OK);
			assert_int_equal(sl_exec_bare(g->trunk, &fail), SL_OK);
			assert_int_equal(sl_exec_allocate(g->trunk, &fail), SL_OK);
		}
		if (sl_local_open(&g->local[k], g->plan[k], &a->agreement, g->trunk, &one->be, &fail))
			fail_msg("%s", fail.text);
	}
	assert_int_equal(sl_weights_open(&g->weights, one->plan->model, &fail), SL_OK);
	sl_weights_init(&g->weights, one->plan->model, 7);
	for (int k = 0; k < MEMBERS; k++)
		assert_int_equal(sl_local_set_weights(g->local[k], &g->weights, &fail), SL_OK);
}

static void close_members(struct members *g)
{
	for (int k = 0; k < MEMBERS; k++)
		sl_local_close(g->local[k]);
	sl_exec_close(g->trunk);
	for (int k = 0; k < MEMBERS; k++)
		sl_plan_close(g->plan[k]);
	sl_weights_close(&g->weights);
}

/* Runs one step. Member k takes part if bit k of `in` is set. */
static void step(struct members *g, uint64_t number, unsigned in)
{
	struct sl_step_result result;
	struct sl_feed feed = {.rows = LOCAL_ROWS};
	const int32_t *labels;
	const float *images;
	struct sl_fail fail;
	int64_t taken = 0;

	local_run_batch(&images, &labels);
	feed.input = images;
	feed.target = labels;
	for (int k = 0; k < MEMBERS; k++)
		if (sl_local_begin(g->local[k], &feed, number, &fail))
			fail_msg("%s", fail.text);
	assert_int_equal(sl_exec_fold_begin(g->trunk), SL_OK);
	for (int k = 0; k < MEMBERS; k++) {
		int64_t rows[SL_PLAN_MAX_CHUNKS];
		const int chunks = sl_local_rows(g->local[k], rows);

		if (!(in >> k & 1))
			continue;
		taken += LOCAL_ROWS;
		assert_int_equal(sl_exec_fold_add(g->trunk, sl_local_middle(g->local[k]), rows, chunks), SL_OK);
	}
	assert_int_equal(sl_exec_fold_end(g->trunk, (double)MEMBERS * LOCAL_ROWS / (double)taken), SL_OK);
	assert_int_equal(sl_exec_check(g->trunk, NULL, 0, &fail), SL_OK);
	assert_int_equal(sl_exec_commit(g->trunk, 0.01, NULL, 0), SL_OK);
	for (int k = 0; k < MEMBERS; k++)
		assert_int_equal(sl_local_end(g->local[k], 0.01, in >> k & 1, &result, &fail), SL_OK);
}

/* Compares the trainable parameters alone: batch-norm statistics see the batch once for each member. */
static void same_weights(struct members *g, int k, struct local_run *one, enum sl_segment from, enum sl_segment to)
{
	assert_int_equal(sl_local_get_weights(one->local, &one->weights), SL_OK);
	assert_int_equal(sl_local_get_weights(g->local[k], &g->weights), SL_OK);
	for (int s = from; s <= (int)to; s++) {
		const struct sl_plan_segment *seg = &one->plan->segment[s];

		for (int i = 0; i < seg->n_param; i++) {
			const struct sl_segment_param *p = &seg->param[i];

			if (p->offset >= seg->trainable_count)
				continue;
			if (memcmp(one->weights.value[p->model_param], g->weights.value[p->model_param],
				   (size_t)p->count * sizeof(float)) != 0)
				fail_msg("member %d has another %s", k, seg->graph.param[p->graph_param].name);
		}
	}
}

/* Two members with the same batch have the gradient of one client, and so has a member whose other is left out. */
static void equal_members_are_one_client(void **state)
{
	const struct local_run_conf conf = {
		.head = "", .tail = "", .form_cifar = true, .chunks = 2, .threads = 1, .optimizer = adamw()};
	static const unsigned in[][STEPS] = {{3, 3, 3}, {1, 1, 1}};

	for (size_t c = 0; c < sizeof in / sizeof in[0]; c++) {
		struct local_run one;
		struct members g = {0};

		local_run_open(&one, &conf);
		open_members(&g, &one);
		for (uint64_t i = 0; i < STEPS; i++) {
			local_run_step(&one, i, 0.01);
			step(&g, i, in[c][i]);
			same_weights(&g, 0, &one, SL_HEAD, SL_TAIL);
		}
		close_members(&g);
		local_run_close(&one);
	}
}

/* A member that is left out of a step keeps its head and tail as they were. */
static void absence_changes_nothing_of_its_own(void **state)
{
	const struct local_run_conf conf = {
		.head = "", .tail = "", .form_cifar = true, .chunks = 2, .threads = 1, .optimizer = adamw()};
	struct local_run one;
	struct members g = {0};

	local_run_open(&one, &conf);
	open_members(&g, &one);
	step(&g, 0, 1);
	same_weights(&g, 1, &one, SL_HEAD, SL_HEAD);
	same_weights(&g, 1, &one, SL_TAIL, SL_TAIL);
	local_run_step(&one, 0, 0.01);
	same_weights(&g, 1, &one, SL_MIDDLE, SL_MIDDLE);
	close_members(&g);
	local_run_close(&one);
}

static void what_cannot_be_shared(void **state)
{
	const struct local_run_conf conf = {.head = "decaylinear:rate=0.5,every=2,times=1",
					    .tail = "",
					    .form_cifar = true,
					    .chunks = 2,
					    .threads = 1};
	struct local_run one;
	struct sl_exec *bare;
	struct sl_fail fail;

	local_run_open(&one, &conf);
	assert_int_equal(sl_exec_prepare(&bare, one.plan, SL_MIDDLE, &one.be, &fail), SL_OK);
	assert_int_equal(sl_exec_bare(bare, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "decay"));
	sl_exec_close(bare);
	local_run_close(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_members_are_one_client),
		cmocka_unit_test(absence_changes_nothing_of_its_own),
		cmocka_unit_test(what_cannot_be_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
