/* Graphs: what they refuse, part by part and as a whole; a part planned from its graph alone; the table of ops. */

#include <math.h>

#include "common/base/rng.h"
#include "common/graph/graph_text.h"
#include "tests/fuzz/exec_recipe.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

static struct sl_fail fail;

static void add_weight(struct sl_graph *g, const char *name, struct sl_shape shape, enum sl_role role)
{
	struct sl_param p = {.shape = shape, .init = {.kind = SL_INIT_ZERO}, .role = role};

	snprintf(p.name, sizeof p.name, "%s", name);
	assert_int_equal(sl_graph_add_param(g, &p, &fail), SL_OK);
}

static enum sl_err add(struct sl_graph *g, enum sl_op_kind kind, const char *name, int in, int param)
{
	struct sl_node node = sl_node_of(kind);

	snprintf(node.name, sizeof node.name, "%s", name);
	node.n_in = 1;
	node.n_param = param >= 0;
	return sl_graph_add_node(g, &node, &in, &param, NULL, &fail);
}

static void open_graph(struct sl_graph *g)
{
	*g = (struct sl_graph){0};
	assert_int_equal(sl_graph_add_input(g, "head_act", SL_F32, SL_PER_ROW, sl_shape4(1, 8, 8, 4), 1, NULL, &fail),
			 SL_OK);
}

static void refuses(struct sl_graph *g, enum sl_err err, const char *says)
{
	assert_int_equal(err, SL_ERR_CONFIG);
	if (!strstr(fail.text, says))
		fail_msg("\"%s\" lacks \"%s\"", fail.text, says);
	sl_graph_close(g);
	open_graph(g);
}

static void nodes_that_do_not_fit(void **state)
{
	struct sl_graph g;
	struct sl_param wide = {.name = "wide", .shape = {2, {1 << 20, 1 << 20}}};

	open_graph(&g);
	refuses(&g, add(&g, SL_OP_ACT, "a", 1, -1), "no value 1 yet");
	refuses(&g, add(&g, SL_OP_ACT, "a", -1, -1), "no value -1 yet");
	refuses(&g, add(&g, SL_OP_ACT, "", 0, -1), "name");
	refuses(&g, add(&g, SL_OP_ACT, "a\n", 0, -1), "name");
	refuses(&g, add(&g, SL_OP_COUNT, "a", 0, -1), "no op of kind");
	refuses(&g, add(&g, SL_OP_ADD, "a", 0, -1), "takes 2 inputs");
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, -1), "1 to 2 parameters");
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, 0), "no parameter 0 yet");
	add_weight(&g, "w", sl_shape4(6, 3, 3, 4), SL_STATISTIC);
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, 0), "cannot be a running statistic");
	add_weight(&g, "w", sl_shape4(6, 3, 3, 5), SL_LEARNS);
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, 0), "takes");
	add_weight(&g, "w", sl_shape4(6, 9, 9, 4), SL_LEARNS);
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, 0), "no smaller than its window");
	add_weight(&g, "w", sl_shape2(6, 4), SL_LEARNS);
	refuses(&g, add(&g, SL_OP_CONV2D, "c", 0, 0), "dimensions");
	refuses(&g, sl_graph_add_param(&g, &wide, &fail), "too large");
	refuses(&g, sl_graph_add_output(&g, "o", 0, NULL, &fail), "no node makes");
	refuses(&g, sl_graph_add_input(&g, "i", SL_F32, SL_PER_ROW, sl_shape2(2, 4), 1, NULL, &fail), "per row");
	refuses(&g, sl_graph_add_input(&g, "i", SL_U8, SL_PER_ROW, sl_shape2(1, 4), 1, NULL, &fail), "f32 or i32");
	sl_graph_close(&g);
}

static void refused_whole(struct sl_graph *g, const char *says)
{
	refuses(g, sl_graph_check(g, &fail), says);
}

static void graphs_that_are_none(void **state)
{
	struct sl_decay decay = {.full = 4, .times = 1, .every = 1, .rate = 0.5};
	struct sl_graph g;

	open_graph(&g);
	refused_whole(&g, "inputs, nodes and outputs");
	assert_int_equal(add(&g, SL_OP_ACT, "a", 0, -1), SL_OK);
	assert_int_equal(add(&g, SL_OP_ACT, "b", 0, -1), SL_OK);
	assert_int_equal(sl_graph_add_output(&g, "o", 1, NULL, &fail), SL_OK);
	refused_whole(&g, "nothing reads what b gives");
	add_weight(&g, "w", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	assert_int_equal(add(&g, SL_OP_ACT, "a", 0, -1), SL_OK);
	assert_int_equal(sl_graph_add_output(&g, "o", 1, NULL, &fail), SL_OK);
	refused_whole(&g, "no node uses w");
	add_weight(&g, "w", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	add_weight(&g, "w", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	refused_whole(&g, "two parameters are called w");
	add_weight(&g, "v", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	add_weight(&g, "w", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	assert_int_equal(add(&g, SL_OP_CONV2D, "a", 0, 1), SL_OK);
	assert_int_equal(add(&g, SL_OP_CONV2D, "b", 1, 0), SL_OK);
	assert_int_equal(sl_graph_add_output(&g, "o", 2, NULL, &fail), SL_OK);
	refused_whole(&g, "used later");
	assert_int_equal(add(&g, SL_OP_ACT, "a", 0, -1), SL_OK);
	assert_int_equal(sl_graph_add_output(&g, "o", 1, &decay, &fail), SL_OK);
	refused_whole(&g, "no layer beside it can narrow");
	add_weight(&g, "w", sl_shape4(4, 1, 1, 4), SL_LEARNS);
	assert_int_equal(add(&g, SL_OP_CONV2D, "a", 0, 0), SL_OK);
	decay.rate = -1;
	assert_int_equal(sl_graph_add_output(&g, "o", 1, &decay, &fail), SL_OK);
	refused_whole(&g, "no width decays like that");
	sl_graph_close(&g);
}

/* A deep copy by the same functions that a reader uses. */
static struct sl_graph copied(const struct sl_graph *from)
{
	struct sl_graph g = {0};

	for (int i = 0; i < from->n_in; i++) {
		const struct sl_graph_value *v = &from->value[from->in[i].value];

		assert_int_equal(sl_graph_add_input(&g, from->in[i].name, v->dtype, v->lead, v->shape, from->in[i].most,
						    &from->in[i].decay, &fail),
				 SL_OK);
	}
	for (int i = 0; i < from->n_param; i++)
		assert_int_equal(sl_graph_add_param(&g, &from->param[i], &fail), SL_OK);
	for (int i = 0; i < from->n_node; i++) {
		struct sl_node node = sl_node_like(&from->node[i]);

		memcpy(node.name, from->node[i].name, sizeof node.name);
		node.n_in = from->node[i].n_in;
		node.n_param = from->node[i].n_param;
		node.stream = from->node[i].stream;
		assert_int_equal(sl_graph_add_node(&g, &node, from->link + from->node[i].in,
						   from->link + from->node[i].param, NULL, &fail),
				 SL_OK);
	}
	for (int i = 0; i < from->n_out; i++)
		assert_int_equal(
			sl_graph_add_output(&g, from->out[i].name, from->out[i].value, &from->out[i].decay, &fail),
			SL_OK);
	return g;
}

/* From the middle's graph alone, a server makes the same plan as the client from the whole network. */
static void a_part_is_planned_from_its_graph_alone(void **state)
{
	static const char *const insert[] = {"", "conv:5,k=3,s=2", "decaylinear:rate=0.5,every=3,times=2,from=3"};

	for (int i = 0; i < 3; i++) {
		struct sl_plan *whole = small_plan_open_as("2:-1", 2, &(struct sl_optimizer){0}, insert[i]), *alone;
		const struct sl_plan_segment *a = &whole->segment[SL_MIDDLE], *b;
		struct sl_graph g = copied(&a->graph);

		if (sl_plan_open_part(&alone, &whole->spec, SL_MIDDLE, &g, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		assert_null(g.node);
		b = &alone->segment[SL_MIDDLE];
		assert_int_equal(a->n_op, b->n_op);
		assert_int_equal(a->n_param, b->n_param);
		assert_int_equal(a->weight_count, b->weight_count);
		assert_int_equal(a->trainable_count, b->trainable_count);
		assert_int_equal(a->macs, b->macs);
		assert_true(sl_shape_equal(&a->in_shape, &b->in_shape));
		assert_true(sl_shape_equal(&a->out_shape, &b->out_shape));
		for (int k = 0; k < a->n_param; k++)
			assert_int_equal(a->param[k].offset, b->param[k].offset);
		for (int k = 0; k < a->n_op; k++) {
			assert_int_equal(a->op[k].narrows, b->op[k].narrows);
			assert_int_equal(a->op[k].din_want[0], b->op[k].din_want[0]);
			assert_memory_equal(&a->op[k].op.u, &b->op[k].op.u, sizeof a->op[k].op.u);
			assert_true(sl_shape_equal(&a->op[k].op.out_shape, &b->op[k].op.out_shape));
		}
		assert_int_equal(alone->decay[0].full, whole->decay[0].full);
		assert_int_equal(alone->segment[SL_HEAD].n_op, 0);
		sl_plan_close(alone);
		sl_plan_close(whole);
	}
}

/* A graph that cannot be a middle is refused, and stays the caller's. */
static void graphs_that_are_no_part(void **state)
{
	struct sl_plan *plan = small_plan_open("1:-1", 1), *out = NULL;
	struct sl_graph g = copied(&plan->segment[SL_TAIL].graph);

	assert_int_equal(sl_plan_open_part(&out, &plan->spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "only f32 crosses")); /* two inputs are right, but these are labels */
	assert_non_null(g.node);
	sl_graph_close(&g);
	open_graph(&g);
	for (int i = 0; i < 2; i++)
		assert_int_equal(add(&g, SL_OP_ACT, "a", i, -1), SL_OK);
	assert_int_equal(sl_graph_add_output(&g, "o", 2, NULL, &fail), SL_OK);
	g.in[0].still = true;
	assert_int_equal(sl_plan_open_part(&out, &plan->spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "no input has a gradient"));
	g.in[0].still = false;
	plan->spec.batch = 1 << 20;
	g.elements[0] = INT64_C(1) << 39;
	assert_int_equal(sl_plan_open_part(&out, &plan->spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "too large"));
	assert_null(out);
	sl_graph_close(&g);
	sl_plan_close(plan);
}

/* Dropout of attention over long rows is bounded: a chunk has 2^34 random numbers. */
static void dropout_of_attention_has_a_bound(void **state)
{
	static const char text[] = "graph 1\nin x f32 T[12] most=4096\nparam w [12,12] zero\n"
				   "node a attention %0 %0 %0 heads=12 p=0.1 stream=3\n"
				   "node b linear %1 &0\nout y %2\n";
	struct sl_plan_spec spec = {.batch = 170, .chunks = 2, .row_tokens = 4096, .chunk_tokens = 8192};
	struct sl_plan *plan = NULL;
	struct sl_graph g;

	assert_int_equal(sl_graph_read(&g, text, sizeof text - 1, &fail), SL_OK);
	if (sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(plan->segment[SL_MIDDLE].op[0].op.most, 4096);
	sl_plan_close(plan);
	assert_int_equal(sl_graph_read(&g, text, sizeof text - 1, &fail), SL_OK);
	spec.chunks = 1;
	assert_int_equal(sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "random numbers"));
	sl_graph_close(&g);
}

static void the_table_of_ops(void **state)
{
	struct sl_node node = sl_node_of(SL_OP_CONV2D);
	const struct sl_attr *stride = sl_op_attr(SL_OP_CONV2D, 0), *p = sl_op_attr(SL_OP_DROPOUT, 0);

	assert_string_equal(stride->key, "stride");
	assert_int_equal(node.u.conv.stride, 1);
	assert_int_equal(node.u.conv.groups, 1);
	assert_int_equal(node.u.conv.dilation, 1);
	assert_null(sl_op_attr(SL_OP_CONV2D, 5));
	assert_false(sl_attr_set(&node, stride, 0, 0));
	assert_false(sl_attr_set(&node, stride, 0, 1.5));
	assert_false(sl_attr_set(&node, stride, 0, 1e300));
	assert_true(sl_attr_set(&node, stride, 0, 7));
	assert_int_equal(node.u.conv.stride, 7);
	assert_false(sl_attr_set(&node, p, 0, (double)NAN));
	for (int kind = 0; kind < SL_OP_COUNT; kind++) {
		struct sl_op_row row = sl_op_row((enum sl_op_kind)kind);

		assert_string_equal(row.word, sl_op_kind_name((enum sl_op_kind)kind));
		assert_in_range(row.n_in, 1, SL_OP_MAX_IN);
		assert_in_range(row.most_param, row.least_param, SL_OP_MAX_PARAM);
	}
	assert_int_equal(sl_op_row(SL_OP_BATCHNORM).most_param, 4);
	assert_int_equal(sl_op_row(SL_OP_ACT).most_param, 0);
}

/* Whatever attribute a kind has, or will have, a copy has it. Only names, links and the stream are the caller's. */
static void a_copy_has_every_attribute(void **state)
{
	for (int kind = 0; kind < SL_OP_COUNT; kind++) {
		struct sl_node node = sl_node_of((enum sl_op_kind)kind), copy;
		const struct sl_attr *a;

		snprintf(node.name, sizeof node.name, "n");
		node.n_in = node.n_param = node.in = node.param = node.out = 7;
		for (int i = 0; (a = sl_op_attr(node.kind, i)); i++)
			for (int which = 0; which < 1 + (a->type == SL_ATTR_PAIR); which++)
				assert_true(sl_attr_set(&node, a, which, a->most > a->standard ? a->most : a->least));
		copy = sl_node_like(&node);
		assert_int_equal(copy.kind, kind);
		for (int i = 0; (a = sl_op_attr(node.kind, i)); i++)
			for (int which = 0; which < 1 + (a->type == SL_ATTR_PAIR); which++)
				if (a->type != SL_ATTR_STREAM &&
				    sl_attr_get(&copy, a, which) != sl_attr_get(&node, a, which))
					fail_msg("%s: a copy lost %s", sl_op_kind_name(node.kind), a->key);
		assert_true(!copy.name[0] && !copy.n_in && !copy.n_param && !copy.in && !copy.param && !copy.out &&
			    !copy.stream);
	}
}

static void put_text(void *file, const char *text, size_t len)
{
	assert_int_equal(fwrite(text, 1, len, file), len);
}

static void assert_same_text(const struct sl_graph *a, const struct sl_graph *b)
{
	char *text[2];
	size_t len[2];

	for (int i = 0; i < 2; i++) {
		FILE *file = open_memstream(&text[i], &len[i]);

		assert_non_null(file);
		sl_graph_write(i ? b : a, put_text, file);
		assert_int_equal(fclose(file), 0);
	}
	if (len[0] != len[1] || memcmp(text[0], text[1], len[0]) != 0)
		fail_msg("%.*s is copied as %.*s", (int)len[0], text[0], (int)len[1], text[1]);
	free(text[0]);
	free(text[1]);
}

/* Graphs of all kinds of nodes with drawn attributes: what a text, a copy and an op have of them is the same. */
static void drawn_graphs_are_copied_whole(void **state)
{
	int nodes = 0, with_slices = 0, windows = 0, back = 0, depth = 0;

	for (uint32_t seed = 0; seed < 3000; seed++) {
		struct recipe r = {.lead = SL_PER_ROW, .shape = sl_shape4(1, 12, 4, 6), .most = 1};
		const struct sl_rng_key key = {seed, 0, 0, SL_RNG_TEST};
		uint8_t bytes[RECIPE_NODES * RECIPE_NODE_BYTES];
		struct bytes b = {bytes, sizeof bytes};
		struct sl_graph g, copy;

		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = (uint8_t)sl_rng_u32(&key, i);
		if (!draw_graph(&r, &g, &b)) {
			sl_graph_close(&g);
			continue;
		}
		copy = copied(&g);
		assert_same_text(&g, &copy);
		for (int i = 0; i < g.n_node; i++) {
			const struct sl_node *node = &g.node[i];
			const struct sl_op op = sl_graph_op(&copy, i);
			const bool along = node->kind == SL_OP_RESAMPLE && node->u.resample.axis == 0;

			assert_true(along || (op.slices == node->slices && !memcmp(&op.u, &node->u, sizeof op.u)));
			assert_int_equal(sl_shape_count(&op.out_shape), sl_shape_count(&g.value[node->out].shape));
			nodes++;
			with_slices += node->slices > 1;
			windows += node->kind == SL_OP_WINDOW;
			back += node->kind == SL_OP_WINDOW && node->u.window.back;
			depth += along;
		}
		sl_graph_close(&g);
		sl_graph_close(&copy);
	}
	assert_true(nodes > 3000 && with_slices > 200 && windows > 100 && back > 20 && depth > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_that_do_not_fit),
		cmocka_unit_test(graphs_that_are_none),
		cmocka_unit_test(a_part_is_planned_from_its_graph_alone),
		cmocka_unit_test(graphs_that_are_no_part),
		cmocka_unit_test(dropout_of_attention_has_a_bound),
		cmocka_unit_test(the_table_of_ops),
		cmocka_unit_test(a_copy_has_every_attribute),
		cmocka_unit_test(drawn_graphs_are_copied_whole),
	};

	return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
