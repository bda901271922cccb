/* What tells two networks of volumes apart. The hash of a middle, which client and server compare, has the depth and
 * each attribute of a window. The hash of a network says whether weights fit. It leaves out the depth, as
 * it does the other sizes of the input. It has that a node looks at slices, and how a window moves over them. */
#include "client/model/network.h"
#include "common/graph/graph_text.h"
#include "tests/support/unit.h"

/* A convolution in 3-D of volumes of R rows, and its way back. The windows' attributes, and the convolution's. */
struct volume {
	int rows, parts;
	const char *window, *conv, *back;
};

static const struct volume usual = {12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4 k=3 pad=1 back=4"};

static struct sl_graph graph_of(const struct volume *v)
{
	struct sl_graph g;
	struct sl_fail fail;
	char text[512];

	snprintf(text, sizeof text,
		 "graph 1\nin head_act f32 R[%d,3,2]\nparam p [12,1,1,%d] zero\nnode w window %%0 %s\n"
		 "node c conv2d %%1 &0%s%s\nnode b window %%2 %s\nout mid_act %%3\n",
		 v->rows, 2 * v->parts, v->window, *v->conv ? " " : "", v->conv, v->back);
	if (sl_graph_read(&g, text, strlen(text), &fail) != SL_OK)
		fail_msg("%s: %s", text, fail.text);
	return g;
}

static uint64_t network_hash(const struct volume *v)
{
	static const char through[] = "graph 1\nin a f32 R[12,3,2]\nnode r act %0\nout b %1\n";
	struct sl_plan plan = {0};
	struct sl_fail fail;
	uint64_t hash;

	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		struct sl_graph *g = &plan.segment[i].graph;

		if (i == SL_MIDDLE)
			*g = graph_of(v);
		else
			assert_int_equal(sl_graph_read(g, through, strlen(through), &fail), SL_OK);
	}
	hash = sl_network_hash(&plan);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		sl_graph_close(&plan.segment[i].graph);
	return hash;
}

static void middle_hash(uint8_t out[SL_PLAN_HASH_BYTES], const struct volume *v)
{
	const struct sl_plan_spec spec = {.batch = 2, .chunks = 1};
	struct sl_graph g = graph_of(v);
	struct sl_plan *plan;
	struct sl_fail fail;

	if (sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	memcpy(out, plan->middle_hash, SL_PLAN_HASH_BYTES);
	sl_plan_close(plan);
}

static bool meet(const struct volume *a, const struct volume *b)
{
	uint8_t x[SL_PLAN_HASH_BYTES], y[SL_PLAN_HASH_BYTES];

	middle_hash(x, a);
	middle_hash(y, b);
	return memcmp(x, y, sizeof x) == 0;
}

static void each_attribute_tells_networks_apart(void **state)
{
	static const struct volume other[] = {
		{12, 3, "slices=4 k=3 pad=2 dilation=2", "slices=4", "slices=4 k=3 pad=1 back=4"},
		{12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4 k=3 pad=2 dilation=2 back=4"},
		{12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4 k=2 back=5"},
		{12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4 k=2 stride=2 back=8"},
		{12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4 k=2 stride=2 pad=1 back=6"},
		{12, 3, "slices=4 k=3 pad=1", "slices=4", "slices=4"},
		{12, 3, "slices=4 k=3 pad=1", "", "slices=4 k=3 pad=1 back=4"},
	};
	const int n = sizeof other / sizeof *other;

	assert_true(meet(&usual, &usual));
	for (int i = 0; i < n; i++) {
		assert_false(meet(&usual, &other[i]));
		assert_true(network_hash(&usual) != network_hash(&other[i]));
		for (int k = 0; k < i; k++)
			assert_true(network_hash(&other[k]) != network_hash(&other[i]));
	}
}

/* Of another patch, or of the same rows cut into other slices. */
static void another_depth_is_another_middle_of_the_same_network(void **state)
{
	static const struct volume deeper = {24, 3, "slices=8 k=3 pad=1", "slices=8", "slices=8 k=3 pad=1 back=8"};
	static const struct volume cut = {12, 3, "slices=6 k=3 pad=1", "slices=6", "slices=6 k=3 pad=1 back=6"};

	assert_false(meet(&usual, &deeper));
	assert_false(meet(&usual, &cut));
	assert_false(meet(&deeper, &cut));
	assert_true(network_hash(&usual) == network_hash(&deeper));
	assert_true(network_hash(&usual) == network_hash(&cut));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_attribute_tells_networks_apart),
		cmocka_unit_test(another_depth_is_another_middle_of_the_same_network),
	};

	return cmocka_run_group_tests_name("network hash", tests, NULL, NULL);
}
