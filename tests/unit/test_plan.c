/* The plan: how a batch is cut into chunks, and that its hash covers everything that either side computes with. */

#include "common/graph/graph_text.h"
#include "tests/support/plan_open.h"
#include "tests/support/unit.h"

static const struct sl_split_spec base = {.model = {"mobilenet_v2", 0.25, 10, 32, true, 0.2, 0, 0, 0, 0},
					  .cut = {.partition = "1:-1"},
					  .plan.batch = 8,
					  .plan.chunks = 2,
					  .plan.seed = 11,
					  .plan.note = "codec none"};

static struct sl_plan *plan_of(const struct sl_split_spec *spec)
{
	struct sl_plan *plan;
	struct sl_fail fail;

	if (plan_open(&plan, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

/* Chunks have equal sizes except for the last, and there are no more of them than requested. */
static void a_batch_is_cut_into_chunks(void **state)
{
	struct sl_split_spec spec = base;

	for (spec.plan.batch = 1; spec.plan.batch <= 9; spec.plan.batch++) {
		for (spec.plan.chunks = 1; spec.plan.chunks <= spec.plan.batch; spec.plan.chunks++) {
			struct sl_plan *plan = plan_of(&spec);

			for (int64_t rows = 1; rows <= spec.plan.batch; rows++) {
				int chunks = sl_plan_chunks_of(plan, rows);
				int64_t sum = 0;

				assert_in_range(chunks, 1, spec.plan.chunks);
				for (int i = 0; i < chunks; i++) {
					int64_t one = sl_plan_chunk_rows(plan, rows, i);

					assert_true(i + 1 < chunks ? one == plan->rows : one >= 1 && one <= plan->rows);
					sum += one;
				}
				assert_int_equal(sum, rows);
			}
			sl_plan_close(plan);
		}
	}
}

/* Trainable parameters come first, and no two overlap. */
static void parameters_begin_on_cache_lines(void **state)
{
	struct sl_plan *plan = plan_of(&base);

	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &plan->segment[which];
		int64_t end = 0;

		for (int i = 0; i < s->n_param; i++) {
			bool trainable = plan->model->graph.param[s->param[i].model_param].role != SL_STATISTIC;

			assert_true(s->param[i].offset >= end && s->param[i].offset % 16 == 0);
			assert_int_equal(s->param[i].offset < s->trainable_count, trainable);
			end = s->param[i].offset + s->param[i].count;
		}
		assert_true(end <= s->weight_count && s->n_param > 0);
	}
	sl_plan_close(plan);
}

static void the_hash_covers_every_choice(void **state)
{
	enum { CHOICES = 14 };
	struct sl_split_spec other[CHOICES];
	struct sl_plan *plan = plan_of(&base), *again = plan_of(&base);
	int n = 0;

	assert_memory_equal(plan->hash, again->hash, sizeof plan->hash);
	sl_plan_close(again);
	for (int i = 0; i < CHOICES; i++)
		other[i] = base;
	other[n++].model.width = 0.35;
	other[n++].model.classes = 11;
	other[n++].model.image = 64;
	other[n++].model.cifar_stem = false;
	other[n++].model.dropout = 0.3;
	strcpy(other[n++].cut.partition, "2:-1");
	strcpy(other[n++].cut.partition, "1:-2");
	other[n++].plan.batch = 9;
	other[n++].plan.chunks = 3;
	other[n++].plan.seed = 12;
	other[n++].plan.precision = SL_PRECISION_BF16;
	strcpy(other[n++].insert_head, "conv:8");
	strcpy(other[n++].insert_tail, "conv:8");
	strcpy(other[n++].plan.note, "codec f16");
	assert_int_equal(n, CHOICES);
	for (int i = 0; i < CHOICES; i++) {
		again = plan_of(&other[i]);
		if (memcmp(plan->hash, again->hash, sizeof plan->hash) == 0)
			fail_msg("choice %d is not in the hash", i);
		sl_plan_close(again);
	}
	sl_plan_close(plan);
}

/* A middle that a client sends may choose tokens (gather) in its last op, and nowhere else. */
static void a_middle_chooses_last(void **state)
{
	static const struct {
		const char *in, *nodes;
		enum sl_err err;
	} cases[] = {
		{"T[4] most=8", "node a linear %0 &0\nnode b gather %1 share=1\nout mid_act %2\n", SL_OK},
		{"T[4] most=8", "node a gather %0 share=1\nnode b linear %1 &0\nout mid_act %2\n", SL_ERR_CONFIG},
		{"C[4]", "node a linear %0 &0\nout mid_act %1\n", SL_ERR_CONFIG},
	};
	const struct sl_plan_spec spec = {.batch = 4, .chunks = 2, .row_tokens = 8, .chunk_tokens = 16};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_graph graph;
		struct sl_fail fail = {0};
		struct sl_plan *plan;
		char text[256];

		snprintf(text, sizeof text, "graph 1\nin head_act f32 %s\nparam a.weight [4,4] zero\n%s", cases[i].in,
			 cases[i].nodes);
		if (sl_graph_read(&graph, text, strlen(text), &fail) != SL_OK)
			fail_msg("%s: %s", text, fail.text);
		assert_int_equal(sl_plan_open_part(&plan, &spec, SL_MIDDLE, &graph, &fail), cases[i].err);
		if (cases[i].err) {
			assert_non_null(strstr(fail.text, "tokens are chosen in the middle"));
			sl_graph_close(&graph);
			continue;
		}
		assert_true(sl_plan_cut_chosen(plan));
		assert_int_equal(sl_plan_cut_count(plan, true, &(struct sl_dims){.tokens = 9, .chosen = 5}), 5);
		sl_plan_close(plan);
	}
}

/* What computes each element by itself takes chosen tokens, but for dropout, which draws by a token's place. */
static void elementwise_ops_take_chosen_tokens(void **state)
{
	const struct sl_plan_spec spec = {.batch = 4, .chunks = 2, .row_tokens = 8, .chunk_tokens = 16};

	for (enum sl_op_kind kind = 0; kind < SL_OP_COUNT; kind++) {
		struct sl_graph graph;
		struct sl_fail fail = {0};
		char text[256];

		if (!sl_op_is_elementwise(kind))
			continue;
		snprintf(text, sizeof text, "graph 1\nin mid_act f32 C[4]\nin label i32 C[]\nnode a %s %%0\n%s",
			 sl_op_kind_name(kind), "node loss xent %2 %1\nout loss %3\n");
		if (sl_graph_read(&graph, text, strlen(text), &fail) != SL_OK ||
		    (sl_plan_check_part(&graph, SL_TAIL, &spec, &fail) != SL_OK) != (kind == SL_OP_DROPOUT))
			fail_msg("%s: %s", text, fail.text);
		sl_graph_close(&graph);
	}
}

/* A hostile graph: one attention over the longest rows, with as many features as a value may have. */
static void macs_end_at_the_most_that_is_counted(void **state)
{
	static const char text[] = "graph 1\nin head_act f32 T[2147483647] most=65535\nparam w [1] one\n"
				   "node n rmsnorm %0 &0\nnode a attention %1 %1 %1\nout mid_act %2\n";
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1, .row_tokens = 65535, .chunk_tokens = 65535};
	struct sl_graph graph;
	struct sl_plan *plan;
	struct sl_fail fail = {0};

	if (sl_graph_read(&graph, text, strlen(text), &fail) != SL_OK ||
	    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &graph, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_true(plan->segment[SL_MIDDLE].macs == INT64_MAX);
	sl_plan_close(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_is_cut_into_chunks),
		cmocka_unit_test(parameters_begin_on_cache_lines),
		cmocka_unit_test(the_hash_covers_every_choice),
		cmocka_unit_test(a_middle_chooses_last),
		cmocka_unit_test(elementwise_ops_take_chosen_tokens),
		cmocka_unit_test(macs_end_at_the_most_that_is_counted),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
