/* The text of a graph: networks cut anywhere are read back byte for
 * byte, and what a peer may not send is refused with a message. */

#include "common/graph/graph_text.h"
#include "tests/support/plan_open.h"
#include "tests/support/unit.h"

static void put(void *arg, const char *text, size_t len)
{
	assert_int_equal(fwrite(text, 1, len, arg), len);
}

/* The graph's text, of *len bytes. The caller frees it. */
static char *text_of(const struct sl_graph *g, size_t *len)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, len);

	sl_graph_write(g, put, file);
	fclose(file);
	return text;
}

static void comes_back(const struct sl_graph *g, const char *what)
{
	size_t len, again_len;
	char *text = text_of(g, &len), *again;
	struct sl_graph read = {0};
	struct sl_fail fail;

	if (sl_graph_read(&read, text, len, &fail) != SL_OK)
		fail_msg("%s: %s", what, fail.text);
	again = text_of(&read, &again_len);
	assert_int_equal(again_len, len);
	assert_memory_equal(text, again, len);
	assert_int_equal(read.n_node, g->n_node);
	assert_int_equal(read.elements[1], g->elements[1]);
	for (int i = 0; i < g->n_value; i++)
		assert_true(sl_shape_equal(&read.value[i].shape, &g->value[i].shape));
	sl_graph_close(&read);
	free(text);
	free(again);
}

static int cut_everywhere(const char *model, const char *head, const char *tail)
{
	int cuts = 0;

	for (int a = 1; a < 12; a++)
		for (int b = 1; b < 12; b += 3) {
			struct sl_split_spec spec = {.model = {"", 0.5, 10, 32, true, 0.2, 0},
						     .plan = {.batch = 4, .chunks = 2}};
			struct sl_plan *plan;
			struct sl_fail fail;

			snprintf(spec.model.name, sizeof spec.model.name, "%s", model);
			snprintf(spec.insert_head, sizeof spec.insert_head, "%s", head);
			snprintf(spec.insert_tail, sizeof spec.insert_tail, "%s", tail);
			snprintf(spec.cut.partition, sizeof spec.cut.partition, "%d:-%d", a, b);
			if (plan_open(&plan, &spec, &fail) != SL_OK)
				continue; /* the network has no such units */
			for (int part = 0; part < SL_SEGMENT_COUNT; part++)
				comes_back(&plan->segment[part].graph, spec.cut.partition);
			sl_plan_close(plan);
			cuts++;
		}
	return cuts;
}

static void networks_come_back_at_every_cut(void **state)
{
	assert_true(cut_everywhere("mobilenet_v2", "", "") > 20);
	assert_true(cut_everywhere("resnet9", "", "") > 5);
	assert_true(cut_everywhere("resnet18", "", "") > 5);
	assert_true(cut_everywhere("resnet50", "", "") > 10);
	assert_true(cut_everywhere("resnext50_32x4d", "", "") > 10);
	assert_true(cut_everywhere("alexnet", "", "") > 3);
	assert_true(cut_everywhere("vgg16", "", "") > 10);
	assert_true(cut_everywhere("mobilenet_v2", "conv:8,k=3,s=1", "linear:4") > 10);
	assert_true(cut_everywhere("mobilenet_v2", "linear:8+conv:4", "") > 10);
	assert_true(cut_everywhere("mobilenet_v2", "decaylinear:rate=0.7,every=3,times=2,l1=0.1",
				   "decaylinear:rate=0.5,every=10,times=3") > 10);
}

/* ---- what a peer may not send */

#define HEAD  "graph 1\nin head_act f32 R[8,8,4]\n"
#define WHOLE HEAD "param a.weight [6,3,3,4] normal:0.1:0\nnode a conv2d %0 &0 pad=1\nout mid_act %1\n"

static enum sl_err refused_len(const char *text, size_t len, const char *key, const char *phrase)
{
	struct sl_graph g = {.n_node = -7};
	struct sl_fail fail;
	enum sl_err err = sl_graph_read(&g, text, len, &fail);

	if (err == SL_OK || strcmp(fail.key, key) != 0 || !strstr(fail.text, phrase))
		fail_msg("'%.300s': key '%s', \"%s\" has no \"%s\"", text, fail.key, fail.text, phrase);
	assert_int_equal(g.n_node, -7);
	return err;
}

static void refused(const char *text, const char *key, const char *phrase)
{
	(void)refused_len(text, strlen(text), key, phrase);
}

static void a_small_one_is_read(void **state)
{
	static const char still[] = "graph 1\nin x f32 R[4]\nin t f32 T[4] most=9 still\nnode a act %0\nnode b act %1\n"
				    "out y %2\nout z %3\n";
	struct sl_graph g;
	struct sl_fail fail;

	if (sl_graph_read(&g, WHOLE, sizeof WHOLE - 1, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(g.value[1].shape.dim[3], 6);
	assert_false(g.in[0].still);
	sl_graph_close(&g);
	assert_int_equal(sl_graph_read(&g, still, sizeof still - 1, &fail), SL_OK);
	assert_true(g.in[1].still && !g.in[0].still);
	comes_back(&g, "still");
	sl_graph_close(&g);
}

static void volumes_come_back(void **state)
{
	static const char text[] =
		"graph 1\nin head_act f32 R[12,8,4]\nparam w [6,3,3,12] zero\nnode a window %0 slices=6 k=3 stride=2 "
		"pad=1\n"
		"node b conv2d %1 &0 pad=1 slices=3\nnode c resample %2 axis=0 size=5 mode=4 slices=3\n"
		"node d window %3 slices=5 k=2 stride=2 back=10\nout mid_act %4\n";
	struct sl_fail fail;
	struct sl_graph g;

	if (sl_graph_read(&g, text, sizeof text - 1, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(g.value[1].shape.dim[1], 3 * 2);
	assert_int_equal(g.value[1].shape.dim[3], 3 * 4);
	assert_int_equal(g.value[2].shape.dim[1], 3 * 2);
	assert_int_equal(g.value[3].shape.dim[1], 5 * 2);
	assert_int_equal(g.value[4].shape.dim[1], 10 * 2);
	assert_int_equal(g.value[4].shape.dim[3], 3);
	comes_back(&g, "volumes");
	sl_graph_close(&g);
}

static void what_is_no_graph_is_refused(void **state)
{
	refused(HEAD "param a.weight [6,3,3,4] normal:0.1:0\nnode a conv2d %1 &0 pad=1\nout mid_act %1\n", "node a",
		"no value 1 yet"); /* a cycle of one node */
	refused(HEAD "node a act %2\nnode b act %1\nout mid_act %2\n", "node a", "no value 2 yet");
	refused(HEAD "node a sinus %0\nout mid_act %1\n", "node a", "no op 'sinus' is known here");
	refused(HEAD "param w [5] one\nnode a layernorm %0 &0\nout mid_act %1\n", "node a", "one number for each");
	refused(HEAD "param w [4] one\nnode a layernorm %0 &0 eps=0\nout mid_act %1\n", "node a", "out of bounds");
	refused(HEAD "node a attention %0 %0 %0 heads=2\nout mid_act %1\n", "node a", "takes what is per token");
	refused("graph 1\nin x f32 T[6] most=9\nnode a attention %0 %0 %0 heads=4\nout y %1\n", "node a", "heads");
	refused("graph 1\nin x f32 T[6] most=9\nnode a attention %0 %0 %0 heads=0\nout y %1\n", "node a", "bounds");
	refused(HEAD "node a mse %0 %1\nout mid_act %1\n", "node a", "no value 1 yet");
	refused("graph 1\nin x f32 R[6]\nin t f32 R[5]\nnode a mse %0 %1\nout loss %2\n", "node a", "another kind");
	refused("graph 1\nin x f32 R[6]\nin t i32 R[]\nnode a xent %0 %1 smoothing=2\nout loss %2\n", "node a",
		"bounds");
	refused(HEAD "node a rmsnorm %0\nout mid_act %1\n", "node a", "parameters");
	refused(HEAD "node a mul %0\nout mid_act %1\n", "node a", "takes 2 inputs");
	refused(HEAD "node a act %0 alpha=1\nout mid_act %1\n", "node a", "no 'alpha=1' here");
	refused(HEAD "node a act %0 fn=gelu\nout mid_act %1\n", "node a", "out of bounds");
	refused(HEAD "node a act %0 &0\nout mid_act %1\n", "node a", "parameters");
	refused(HEAD "node a add %0\nout mid_act %1\n", "node a", "takes 2 inputs");
	refused(HEAD "node a dropout %0 p=nan\nout mid_act %1\n", "node a", "out of bounds");
	refused(HEAD "param w [6,3,3,5] normal:0.1:0\nnode a conv2d %0 &0\nout mid_act %1\n", "node a", "");
	refused(HEAD "param w [6,3,3,1] zero\nnode a conv2d %0 &0 groups=3\nout mid_act %1\n", "node a", "");
	refused(HEAD "param w [6,3,3,1] zero\nnode a conv2d %0 &0 groups=4\nout mid_act %1\n", "node a",
		"4 groups of 4 to 6 channels; groups divide both numbers");
	refused(HEAD "param w [6,3,3,2] zero\nnode a conv2d %0 &0 groups=1048576\nout mid_act %1\n", "node a", "");
	refused(HEAD "param w [4,3,3,1] zero\nnode a conv2d %0 &0 groups=4\nout mid_act %1\n", "node a", "");
	refused(HEAD "param w [3,3,4] zero\nnode a conv2d %0 &0 groups=2\nout mid_act %1\n", "node a", "");
	refused(HEAD "param w [6,3,3,4] zero\nnode a conv2d %0 &0 dilation=4\nout mid_act %1\n", "node a", "window");
	refused(HEAD "param w [6,9000,1,4] zero\nnode a conv2d %0 &0 dilation=1048576\nout mid_act %1\n", "node a",
		"dilation 1048576 is none");
	refused(HEAD "param w [2147483647,2147483647,2147483647,4] zero\nnode a conv2d %0 &0\nout mid_act %1\n", "",
		"too large");
	refused(HEAD "param w [1099511627776,1048576] zero\nnode a linear %0 &0\nout mid_act %1\n", "", "NAME [SIZES]");
	refused("graph 1\nin x f32 R[65536,65536,4]\nnode a act %0\nout y %1\n", "", "too large");
	refused("graph 1\nin x f64 R[4]\nnode a act %0\nout y %1\n", "", "f32 or i32");
	refused("graph 1\nin x f32 R[4]\nout y %0\n", "", "no node makes");
	refused("graph 1\nin x f32 R[4]\nnode a act %0\n", "", "inputs, nodes and outputs");
	refused("graph 1\nin x f32 R[4]\nnode a act %0\nnode b act %0\nout y %2\n", "", "nothing reads");
	refused("graph 1\nin x f32 R[4]\nparam w [4] zero\nnode a act %0\nout y %1\n", "", "no node uses w");
	refused("graph 1\nnode a act %0\nin x f32 R[4]\nout y %1\n", "node a", "no value 0 yet");
	refused("graph 1\nin x f32 R[4]\nnode a act %0\nout y %1\nnode b act %0\n", "", "in this order");
	refused("graph 1\nin x f32 R[4] most=2\nnode a act %0\nout y %1\n", "", "per token");
	refused("graph 1\nin x f32 R[4]\nnode a act %0\nout y %1 decay=0.5,1,1,0,0\n", "", "narrow");
	refused("graph 2\nin x f32 R[4]\nnode a act %0\nout y %1\n", "", "begins with 'graph 1'");
	refused(HEAD "node a window %0 slices=3 k=2\nout y %1\n", "node a", "volumes of as many slices");
	refused(HEAD "node a window %0 slices=4 k=7 pad=1\nout y %1\n", "node a",
		"a depth of 4, padded by 1, is less than it spans, 7");
	refused(HEAD "node a window %0 slices=4 k=65\nout y %1\n", "node a", "bounds");
	refused(HEAD "node a window %0 slices=4 k=2 stride=2 back=7\nout y %1\n", "node a",
		"takes 3 slices of a multiple of 2");
	refused(HEAD "node a window %0 slices=4 k=3 stride=2 back=9\nout y %1\n", "node a", "not 4 of 4");
	refused(HEAD "node a maxpool %0 k=2 stride=2 slices=3\nout y %1\n", "node a", "volumes of D = 3 slices");
	refused(HEAD "node a maxpool %0 k=3 stride=2 slices=4\nout y %1\n", "node a", "no smaller than its window");
	refused(HEAD "node a resample %0 axis=0 size=3\nout y %1\n", "node a", "volumes of D = 0 slices, 1 or more");
	refused("graph 1\nin x f32 R[8,4]\nnode a resample %0 axis=0 size=3 slices=2\nout y %1\n", "node a", "volumes");
	refused(HEAD "node a act %0 slices=2\nout y %1\n", "node a", "no 'slices=2' here");
	refused("graph 1\n", "", "");
	refused("", "", "");
}

static void there_is_one_spelling(void **state)
{
	static const char *const bad[] = {
		HEAD "node a act %0 fn=relu\nout y %1\n",            /* a default */
		HEAD "node a act  %0\nout y %1\n",                   /* two blanks */
		HEAD "node a act %00\nout y %1\n",                   /* a leading zero */
		HEAD "node a dropout %0 p=0.10\nout y %1\n",         /* a trailing zero */
		HEAD "node a dropout %0 p=1e-1\nout y %1\n",         /* another spelling of the real */
		HEAD "node a dropout %0 stream=3 p=0.1\nout y %1\n", /* wrong order */
		"graph 1\nin head_act f32 R[8,8,4] most=1\nnode a act %0\nout y %1\n",
		HEAD "param w [6,3,3,4] g0 zero\nnode a conv2d %0 &0\nout y %1\n",
		HEAD "param w [6,3,3,4] normal:0.10:0\nnode a conv2d %0 &0\nout y %1\n",
		"graph 1\nin x f32 T[4] still most=9\nnode a act %0\nout y %1\n",
		"graph 1\nin x f32 R[4] still still\nnode a act %0\nout y %1\n",
		HEAD "\nnode a act %0\nout y %1\n",
		HEAD "node a act %0 \nout y %1\n",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		refused(bad[i], strstr(bad[i], "  %0") || strstr(bad[i], "%0 \n") ? "node a" : "", "");
	(void)refused_len(WHOLE, sizeof WHOLE - 2, "", "line's end");
	(void)refused_len("graph 1\nin x\0 f32 R[4]\n", 23, "", "not printable");
	refused("graph 1\nin x\033[2J f32 R[4]\nnode a act %0\nout y %1\n", "", "not printable");
	refused("graph 1\nin x f32 R[4]\nnode \xc3\xa4 act %0\nout y %1\n", "", "not printable");
}

/* Too large texts are refused by counting, before anything is allocated. */
static void what_is_too_much_is_refused(void **state)
{
	const size_t most = SL_GRAPH_TEXT_MAX + 1;
	char *text = malloc(most + 64);
	size_t len = (size_t)sprintf(text, HEAD);

	assert_non_null(text);
	memset(text + len, 'x', most - len);
	assert_int_equal(refused_len(text, most, "", "262144 are the most"), SL_ERR_LIMIT);
	memset(text + len, 'x', 1000);
	text[len + 1000] = '\n';
	assert_int_equal(refused_len(text, len + 1001, "", "a line of 1000 bytes"), SL_ERR_LIMIT);
	while (len < SL_GRAPH_TEXT_MAX - 32)
		len += (size_t)sprintf(text + len, "node a act %%0\n");
	assert_int_equal(refused_len(text, len, "", "at most 8192 nodes"), SL_ERR_LIMIT);
	len = (size_t)sprintf(text, HEAD);
	while (len < SL_GRAPH_TEXT_MAX - 32)
		len += (size_t)sprintf(text + len, "param p [1] zero\n");
	assert_int_equal(refused_len(text, len, "", ""), SL_ERR_CONFIG); /* 15,418 parameters are not too many */
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_come_back_at_every_cut),
		cmocka_unit_test(a_small_one_is_read),
		cmocka_unit_test(volumes_come_back),
		cmocka_unit_test(what_is_no_graph_is_refused),
		cmocka_unit_test(there_is_one_spelling),
		cmocka_unit_test(what_is_too_much_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
