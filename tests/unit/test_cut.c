/* Cuts: the notations, which places are legal, and what the errors suggest. */

#include "client/model/source.h"
#include "common/graph/cut.h"
#include "tests/support/unit.h"

static int open_model(void **state)
{
	struct sl_fail fail;

	return sl_model_open(
		       (struct sl_model **)state,
		       &(struct sl_model_spec){
			       .name = "mobilenet_v2", .width = 1.0, .classes = 1000, .image = 224, .dropout = 0.2},
		       &fail) != SL_OK;
}

static int close_model(void **state)
{
	sl_model_close(*state);
	return 0;
}

static struct sl_cut find(const struct sl_model *m, const char *partition, const char *head_end, const char *tail_begin)
{
	struct sl_cut cut = {0};
	struct sl_fail fail = {0};

	if (sl_cut_find(&cut, m, partition, head_end, tail_begin, 1, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(cut.head_value, m->graph.node[cut.head_end].out);
	return cut;
}

static void assert_cut(const struct sl_model *m, const char *partition, const char *head_end, const char *tail_begin,
		       const char *text)
{
	struct sl_cut cut = find(m, partition, head_end, tail_begin);

	assert_string_equal(cut.text, text);
}

static void assert_refused(const struct sl_model *m, const char *partition, const char *head_end,
			   const char *tail_begin, const char *says, const char *suggests)
{
	struct sl_cut cut = {.head_end = -7};
	struct sl_fail fail = {0};

	assert_int_equal(sl_cut_find(&cut, m, partition, head_end, tail_begin, 1, &fail), SL_ERR_CONFIG);
	if (!strstr(fail.text, says) || !strstr(fail.text, suggests))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", fail.text, says, suggests);
	assert_int_equal(cut.head_end, -7);
}

static void partitions(void **state)
{
	assert_cut(*state, NULL, NULL, NULL, "head_end=features.0 tail_begin=classifier");
	assert_cut(*state, "1:-1", NULL, NULL, "head_end=features.0 tail_begin=classifier");
	assert_cut(*state, "2:-2", NULL, NULL, "head_end=features.1 tail_begin=features.18");
	assert_cut(*state, "2:-1", NULL, NULL, "head_end=features.1 tail_begin=classifier");
	assert_cut(*state, "1:-2", NULL, NULL, "head_end=features.0 tail_begin=features.18");
	assert_cut(*state, "4:-15", NULL, NULL, "head_end=features.3 tail_begin=features.5");
	assert_cut(*state, "18:-1", NULL, NULL, "head_end=features.17 tail_begin=classifier");
}

static void names(void **state)
{
	assert_cut(*state, NULL, "features.0.1", "classifier", "head_end=features.0.1 tail_begin=classifier");
	assert_cut(*state, "2:-2", "features.0.1", NULL, "head_end=features.0.1 tail_begin=features.18");
	assert_cut(*state, "1:-1", NULL, "classifier.1", "head_end=features.0 tail_begin=classifier.1");
	assert_cut(*state, NULL, "features.1.conv.0", NULL, "head_end=features.1.conv.0.2 tail_begin=classifier");
	assert_cut(*state, NULL, "features.3", "features.5", "head_end=features.3 tail_begin=features.5");
	/* units do not matter where both ends are named */
	assert_cut(*state, "18:-18", "features.3", "features.5", "head_end=features.3 tail_begin=features.5");
}

static int64_t node_macs(const struct sl_model *m, int i, int64_t rows)
{
	struct sl_op op = sl_graph_op(&m->graph, i);

	return sl_op_macs(&op, rows);
}

static int64_t macs_of(const struct sl_cut *cut, const struct sl_model *m, enum sl_segment segment, int64_t rows)
{
	int64_t macs = 0;
	int first, end;

	sl_cut_nodes(cut, m, segment, &first, &end);
	for (int i = first; i < end; i++)
		macs += node_macs(m, i, rows);
	return macs;
}

static void macs_of_the_published_cut(void **state)
{
	const struct sl_model *m = *state;
	struct sl_cut cut = find(m, NULL, "features.0.1", "classifier");
	int64_t head = macs_of(&cut, m, SL_HEAD, 64), middle = macs_of(&cut, m, SL_MIDDLE, 64),
		tail = macs_of(&cut, m, SL_TAIL, 64), whole = 0;

	for (int i = 0; i < m->graph.n_node; i++)
		whole += node_macs(m, i, 64);
	assert_int_equal(head + middle + tail, whole);
	assert_int_equal((head + 500000) / 1000000, 745);       /* 7.45e8 */
	assert_int_equal((middle + 50000000) / 100000000, 193); /* 1.93e10 */
	assert_int_equal((tail + 50000) / 100000, 819);         /* 8.19e7 */
	assert_int_equal((whole + 50000000) / 100000000, 201);  /* 2.01e10 */
	assert_string_equal(sl_segment_name(SL_MIDDLE), "middle");
}

/* Every boundary of the model, with an independent check: one
 * inside a residual block is crossed by a second value. */
static void legal_exactly_outside_of_residual_blocks(void **state)
{
	const struct sl_model *m = *state;
	struct sl_fail fail;
	int legal = 0;

	for (int i = 0; i < m->graph.n_node - 1; i++) {
		struct sl_cut cut;
		bool inside = false;
		enum sl_err err = sl_cut_find(&cut, m, NULL, m->graph.node[i].name, "classifier.loss", 1, &fail);

		for (int k = 0; k < m->graph.n_node; k++) /* an ADD reads a value older than node i makes */
			if (m->graph.node[k].kind == SL_OP_ADD && k > i &&
			    m->graph.link[m->graph.node[k].in] < m->graph.node[i].out)
				inside = true;
		if (i == m->graph.n_node - 2)
			assert_int_equal(err, SL_ERR_CONFIG); /* the middle would be empty */
		else
			assert_int_equal(err, inside ? SL_ERR_CONFIG : SL_OK);
		legal += err == SL_OK;
	}
	assert_in_range(legal, 40, m->graph.n_node);
}

static void wrong_cuts_are_refused(void **state)
{
	const struct sl_model *m = *state;

	assert_refused(m, "0:-1", NULL, NULL, "partition", "1:-1");
	assert_refused(m, "1:1", NULL, NULL, "partition", "A:-B");
	assert_refused(m, "1:-1 ", NULL, NULL, "partition", "A:-B");
	assert_refused(m, "", NULL, NULL, "partition", "A:-B");
	assert_refused(m, "99999999999:-1", NULL, NULL, "partition", "A:-B");
	assert_refused(m, "10:-10", NULL, NULL, "no middle", "20 units");
	assert_refused(m, NULL, "features.19", NULL, "head_end", "features.18");
	assert_refused(m, NULL, "feature.3", NULL, "feature.3", "features.3");
	assert_refused(m, NULL, "features.0.", NULL, "head_end", "features.0.");
	assert_refused(m, NULL, "", NULL, "head_end", "features.0");
	assert_refused(m, NULL, NULL, "classifer", "tail_begin", "classifier");
	assert_refused(m, NULL, "features.3.conv.0", NULL, "2 values cross",
		       "(features.2.conv.3, features.3.conv.0.2), where cut_values allows 1: set cut_values: 2, or cut "
		       "at features.2 "
		       "or features.3");
	assert_refused(m, NULL, NULL, "features.3.conv.2", "2 values cross", "or cut at features.3 or features.4");
	/* valid for the other end of this cut */
	assert_refused(m, NULL, "classifier", NULL, "nothing would be left", "valid near it: features.18");
	assert_refused(m, NULL, NULL, "features.0", "nothing would be left", "valid near it: features.1");
	assert_refused(m, NULL, "classifier", "classifier.1", "nothing would be left",
		       "valid near it: classifier.flatten");
	assert_refused(m, NULL, "features.5", "features.4", "no middle", "features.4.conv.0.0");
}

/* A block's skip, where both ends of the cut lie in the block. */
static void a_skip_stays_at_home(void **state)
{
	const struct sl_model *m = *state;
	const struct sl_cut none = find(m, NULL, NULL, NULL),
			    skip = find(m, NULL, "features.3.conv.0", "features.3.conv.2"),
			    sent = find(m, NULL, "features.2", "features.3.conv.2");

	assert_int_equal(none.n_home, 0);
	assert_int_equal(skip.n_home, 1);
	assert_string_equal(m->graph.node[m->graph.value[skip.home[0]].maker].name, "features.2.conv.3");
	assert_int_equal(sent.n_home, 1); /* the same value crosses, too */
	assert_int_equal(sent.home[0], sent.head_value);
	assert_refused(m, NULL, "features.3.conv.0", "features.3.conv.0.2", "no middle", "features.3.conv.0.2");
}

static void several_values_cross_where_allowed(void **state)
{
	const struct sl_model *m = *state;
	struct sl_cut cut = {0};
	struct sl_fail fail = {0};

	if (sl_cut_find(&cut, m, NULL, "features.3.conv.0", "features.4.conv.1", 2, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(cut.n_up, 2);
	assert_int_equal(cut.up[0], cut.head_value);
	assert_int_equal(cut.up[1], m->graph.node[cut.head_end].out);
	assert_int_equal(cut.n_down, 1); /* block 4 has no skip */
	assert_int_equal(cut.n_home, 0);
}

static double floats_of(const struct sl_cut *cut, const struct sl_model *m)
{
	int64_t floats = 0;

	for (int i = 0; i < cut->n_up; i++)
		floats += sl_shape_row(&m->graph.value[cut->up[i]].shape);
	for (int i = 0; i < cut->n_down; i++)
		floats += sl_shape_row(&m->graph.value[cut->down[i]].shape);
	return (double)floats;
}

static double at_client(const struct sl_cut *cut, const struct sl_model *m)
{
	return (double)(macs_of(cut, m, SL_HEAD, 1) + macs_of(cut, m, SL_TAIL, 1));
}

/* Whether the list has a cut that is no worse, or sends a twentieth more. */
static bool is_covered(const struct sl_cut_price *list, int n, const struct sl_cut *cut, const struct sl_model *m)
{
	for (int i = 1; i < n; i++)
		if (0.95 * list[i].floats <= floats_of(cut, m) &&
		    list[i].macs[SL_HEAD] + list[i].macs[SL_TAIL] <= at_client(cut, m))
			return true;
	return false;
}

/* Whether all parts have parameters. */
static bool learns(const struct sl_cut *cut, const struct sl_model *m)
{
	int params[SL_SEGMENT_COUNT] = {0}, first, end;

	for (int part = 0; part < SL_SEGMENT_COUNT; part++) {
		sl_cut_nodes(cut, m, (enum sl_segment)part, &first, &end);
		for (int i = first; i < end; i++)
			params[part] += m->graph.node[i].n_param;
	}
	return params[SL_HEAD] && params[SL_MIDDLE] && params[SL_TAIL];
}

/* Beside all cuts between two nodes. */
static void the_list_has_the_cuts_that_no_other_beats(void **state)
{
	const struct sl_model *m = *state;
	const struct sl_cut own = find(m, NULL, NULL, NULL);
	struct sl_cut_price list[64];
	struct sl_cut cut;
	struct sl_fail fail;
	int n;

	for (int values = 1; values <= 2; values++) {
		assert_int_equal(sl_cut_list(&own, m, values, 1, list, 64, &n), SL_OK);
		assert_in_range(n, 4, 40);
		assert_string_equal(list[0].cut.text, own.text);
		for (int i = 0; i < n; i++) {
			assert_true(list[i].floats == floats_of(&list[i].cut, m));
			for (int part = 0; part < SL_SEGMENT_COUNT; part++)
				assert_true(list[i].macs[part] ==
					    (double)macs_of(&list[i].cut, m, (enum sl_segment)part, 1));
			if (i < 2)
				continue;
			assert_true(list[i].floats <= 0.95 * list[i - 1].floats);
			assert_true(at_client(&list[i].cut, m) > at_client(&list[i - 1].cut, m));
		}
		for (int head = 0; head < m->graph.n_node - 2; head += 3)
			for (int tail = head + 2; tail < m->graph.n_node; tail += 2)
				if (sl_cut_find(&cut, m, NULL, m->graph.node[head].name, m->graph.node[tail].name,
						values, &fail) == SL_OK &&
				    learns(&cut, m) && !is_covered(list, n, &cut, m))
					fail_msg("%s is better", cut.text);
		assert_true(list[n - 1].floats < list[0].floats);
	}
	assert_int_equal(sl_cut_list(&own, m, 1, 1, list, 3, &n), SL_OK);
	assert_in_range(n, 1, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_has_the_cuts_that_no_other_beats),
		cmocka_unit_test(partitions),
		cmocka_unit_test(names),
		cmocka_unit_test(macs_of_the_published_cut),
		cmocka_unit_test(legal_exactly_outside_of_residual_blocks),
		cmocka_unit_test(wrong_cuts_are_refused),
		cmocka_unit_test(a_skip_stays_at_home),
		cmocka_unit_test(several_values_cross_where_allowed),
	};

	return cmocka_run_group_tests_name("cut", tests, open_model, close_model);
}
