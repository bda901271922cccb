/* Networks in one file: each that is written and read again is the same, and a file that was tampered with is refused.
 */
#include <unistd.h>

#include "client/model/network_file.h"
#include "client/model/weights_file.h"
#include "common/conf/networks.h"
#include "tests/support/unit.h"

static char dir[] = "/tmp/split-network-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/net.safetensors", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void make_notes(struct sl_st_note note[SL_NETWORK_NOTES], const struct sl_model *m)
{
	const struct sl_model_takes takes = {.vocab = m->vocab, .end = {3, 1}, .n_end = 2, .learned_end = 2};
	struct sl_fail fail;

	if (sl_network_notes_make(note, m, &takes, &fail))
		fail_msg("%s", fail.text);
}

/* Writes the model with its weights. */
static void write_file(const struct sl_model *m, const struct sl_weights *w)
{
	struct sl_st_note note[SL_NETWORK_NOTES] = {{NULL}};
	struct sl_fail fail;

	make_notes(note, m);
	if (sl_weights_save_all(m, path, w, 5, note, SL_NETWORK_NOTES, &fail))
		fail_msg("%s", fail.text);
	sl_network_notes_free(note);
}

static void assert_same(const struct sl_model *a, const struct sl_model *b)
{
	struct sl_st_note x[SL_NETWORK_NOTES] = {{NULL}}, y[SL_NETWORK_NOTES] = {{NULL}};

	make_notes(x, a);
	make_notes(y, b);
	for (int i = 0; i < SL_NETWORK_NOTES; i++)
		assert_string_equal(x[i].value, y[i].value);
	sl_network_notes_free(x);
	sl_network_notes_free(y);
	assert_true(a->task == b->task && a->classes == b->classes && a->vocab == b->vocab);
	for (int i = 0; i < a->graph.n_param; i++) {
		assert_true(sl_shape_equal(&a->file[i].shape, &b->file[i].shape));
		assert_int_equal(a->graph.param[i].stream, b->graph.param[i].stream);
	}
	for (int i = 0; i < a->graph.n_node; i++)
		assert_int_equal(a->graph.node[i].stream, b->graph.node[i].stream);
}

/* The spec that reads the file of a network as the config of such data has it. */
static struct sl_model_spec spec_of(const struct sl_model *m)
{
	struct sl_model_spec spec = {.network = path, .task = m->task->kind};
	const bool rows = strcmp(m->graph.in[0].name, "row") == 0;

	strcpy(spec.name, m->vocab ? SL_CONF_NETWORK_TEXTS : rows ? SL_CONF_NETWORK_ROWS : SL_CONF_NETWORK);
	spec.tokens = m->vocab ? m->graph.in[0].most : 0;
	spec.whole_rows = spec.tokens;
	return spec;
}

static void write_and_read(const struct sl_model_spec *spec)
{
	struct sl_weights w, got;
	struct sl_model *m, *again;
	struct sl_model_spec of_file;
	struct sl_fail fail;

	if (sl_model_open(&m, spec, &fail))
		fail_msg("%s: %s", spec->name, fail.text);
	assert_int_equal(sl_weights_open(&w, m, &fail), SL_OK);
	sl_weights_init(&w, m, 7);
	write_file(m, &w);
	of_file = spec_of(m);
	if (sl_model_open(&again, &of_file, &fail))
		fail_msg("%s: %s", spec->name, fail.text);
	assert_same(m, again);
	assert_int_equal(sl_weights_open(&got, again, &fail), SL_OK);
	if (sl_weights_load(again, path, SL_WEIGHTS_STRICT, got.value, NULL, &fail))
		fail_msg("%s: %s", spec->name, fail.text);
	for (int i = 0; i < m->graph.n_param; i++)
		assert_memory_equal(got.value[i], w.value[i],
				    (size_t)sl_shape_count(&m->graph.param[i].shape) * sizeof(float));
	sl_weights_close(&w);
	sl_weights_close(&got);
	sl_model_close(m);
	sl_model_close(again);
}

#define NAME(name, has) #name,

static void every_network(void **state)
{
	static const char *const built_in[] = {SL_BUILT_IN_NETWORKS(NAME)};
	static const char *const written[] = {"small", "wide", "many", "steps", "grey", "text", "rows"};

	for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++) {
		struct sl_model_spec spec = {.width = 0.1,
					     .classes = 5,
					     .image = strcmp(built_in[i], "mobilenet_v2_pool4") ? 32 : 100,
					     .image_w = 0,
					     .dropout = 0.2,
					     .vocab = 50,
					     .tokens = 9,
					     .features = 6};

		strcpy(spec.name, built_in[i]);
		write_and_read(&spec);
	}
	for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) { /* by Python */
		const bool texts = i > 4;
		struct sl_model_spec spec = {.tokens = texts ? 12 : 0, .whole_rows = texts ? 12 : 0};
		char file[64];

		snprintf(file, sizeof file, "tests/golden/onnx_%s.safetensors", written[i]);
		strcpy(spec.name, texts ? SL_CONF_NETWORK_TEXTS : SL_CONF_NETWORK);
		spec.network = file;
		write_and_read(&spec);
	}
}

/* ---- tampered with */

static const char graph[] = "graph 1\n"
			    "in row f32 R[2]\n"
			    "in label i32 R[]\n"
			    "param a.weight [3,2] zero\n"
			    "param b.weight [2,3] zero\n"
			    "node a linear %0 &0\n"
			    "node b linear %2 &1\n"
			    "node loss xent %3 %1\n"
			    "out loss %4\n";

/* Writes a file with these notes (NULL: none) and tensors a.weight, b.weight of rows × columns. */
static void write_notes(const char *text, const char *about, int rows)
{
	static const float zero[16];
	const struct sl_st_note note[] = {{"split.graph", text}, {"split.network", about}};
	struct sl_st_item item[] = {{"a.weight", "F32", 2, {3, 2}, zero}, {"b.weight", "F32", 2, {rows, 3}, zero}};
	struct sl_fail fail;

	assert_int_equal(sl_st_write(path, item, 2, note, text ? about ? 2 : 1 : 0, SL_FP_MODEL_OPEN, &fail), SL_OK);
}

static void tampered_with(void **state)
{
	static const struct {
		const char *from, *to, *about;
		int rows;
		enum sl_err err;
		const char *says;
	} row[] = {
		{"", "", NULL, 2, SL_OK, ""},
		{"", "", "{\"units\": [[\"x\", 0], [\"y\", 1]], \"layout\": {\"b.weight\": 3}}", 2, SL_OK, ""},
		{"graph 1", "graph 2", NULL, 2, SL_ERR_DATA, "its graph: a graph begins with 'graph 1'"},
		{"in row f32 R[2]", "in row f32 R[5]", NULL, 2, SL_ERR_DATA, "its graph: "},
		{"in row f32 R[2]", "in row f32 R[2] still", NULL, 2, SL_ERR_DATA, "its graph does not lead"},
		{"in label i32 R[]", "in label i32 R[] still", NULL, 2, SL_ERR_DATA, "its graph does not lead"},
		{"param a.weight [3,2]", "param a.weight [3,2] g1", NULL, 2, SL_ERR_DATA, "its graph does not lead"},
		{"param a.weight [3,2] zero", "param a.weight [3,2] frozen bf16 file", NULL, 2, SL_ERR_DATA,
		 "its graph does not lead"},
		{"in row", "in image", NULL, 2, SL_ERR_DATA, "its graph does not lead"},
		{"node b linear %2", "node b linear %9", NULL, 2, SL_ERR_DATA, "its graph: "},
		{"param a.weight [3,2]", "param a.weight [3,2] tied", NULL, 2, SL_ERR_DATA, "its graph does not lead"},
		{"xent %3 %1\nout loss %4", "xent %3 %1\nnode c tanh %3\nout loss %4\nout c %5", NULL, 2, SL_ERR_DATA,
		 "its graph does not lead"},
		{"node loss xent %3 %1", "node loss tanh %3", NULL, 2, SL_ERR_DATA, "its graph"},
		{"param a.weight", "param c.weight", NULL, 2, SL_ERR_DATA, "tensor \"c.weight\" is missing"},
		{"", "", NULL, 4, SL_ERR_DATA, "tensor \"b.weight\" does not have the parameter's size"},
		{"", "", "[]", 2, SL_ERR_DATA, "its note split.network is no JSON object"},
		{"", "", "{\"units\": [], \"units\": []}", 2, SL_ERR_DATA, "its note split.network is no JSON object"},
		{"", "", "{\"units\": [[\"x\", 1]]}", 2, SL_ERR_DATA, "unit 1 is out of order"},
		{"", "", "{\"units\": [[\"x\", 0], [\"y\", 0]]}", 2, SL_ERR_DATA, "unit 2 is out of order"},
		{"", "", "{\"units\": [[\"x\", 0], [\"y\", 2]]}", 2, SL_ERR_DATA, "unit 2 is out of order"},
		{"", "", "{\"units\": [[0, \"x\"]]}", 2, SL_ERR_DATA, "unit 1 is out of order"},
		{"", "", "{\"layout\": {\"a.weight\": \"hwc\"}}", 2, SL_ERR_DATA,
		 "tensor \"a.weight\" does not have the layout"},
		{"", "", "{\"layout\": {\"a.weight\": 3}}", 2, SL_ERR_DATA,
		 "tensor \"a.weight\" does not have the layout"},
		{"", "", "{\"layout\": {\"a.weight\": 0}}", 2, SL_ERR_DATA,
		 "tensor \"a.weight\" does not have the layout"},
		{"node loss xent %3 %1\nout loss %4", "node c sigmoid %3\nnode loss xent %4 %1\nout loss %5", NULL, 2,
		 SL_ERR_CONFIG, "it ends with a sigmoid"},
	};
	const struct sl_model_spec spec = {.name = SL_CONF_NETWORK_ROWS, .network = path};
	struct sl_model *model;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		const char *at = strstr(graph, row[i].from);
		char text[512];
		enum sl_err err;

		assert_non_null(at);
		snprintf(text, sizeof text, "%.*s%s%s", (int)(at - graph), graph, row[i].to, at + strlen(row[i].from));
		write_notes(text, row[i].about, row[i].rows);
		err = sl_model_open(&model, &spec, &fail);
		if (err != row[i].err ||
		    (err && (!strstr(fail.text, row[i].says) || strcmp(fail.key, "model.network") != 0)))
			fail_msg("row %zu: %d, %s: %s", i, err, fail.key, fail.text);
		if (!err)
			sl_model_close(model);
	}
	write_notes(NULL, NULL, 2);
	assert_int_equal(sl_model_open(&model, &spec, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "it has weights and no network"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_network),
		cmocka_unit_test(tampered_with),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
