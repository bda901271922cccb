/* Networks that are not written as ONNX files, or cannot be. tests/golden/modules.py and tests/e2e/script/onnx_files.py
 * read what is written. */
#include <unistd.h>

#include "client/model/onnx_write.h"
#include "client/model/source.h"
#include "common/weights/weights.h"
#include "tests/support/unit.h"

static char path[] = "/tmp/test_onnx_write_XXXXXX";

static struct sl_model *open_model(struct sl_model_spec spec)
{
	struct sl_model *m = NULL;
	struct sl_fail fail;

	if (sl_model_open(&m, &spec, &fail))
		fail_msg("%s", fail.text);
	return m;
}

/* A parameter with the input's name would be the input's default value. */
static void a_parameter_called_as_the_input(void **state)
{
	static const char file[] = "tests/golden/onnx_small.safetensors";
	struct sl_model *m = open_model((struct sl_model_spec){.name = "network", .network = file});
	struct sl_weights w;
	struct sl_fail fail;

	assert_int_equal(sl_weights_open(&w, m, &fail), SL_OK);
	snprintf(m->graph.param[0].name, sizeof m->graph.param[0].name, "%s", m->graph.in[0].name);
	assert_int_equal(sl_onnx_write(m, path, (const float *const *)w.value, false, NULL, 0, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "has a parameter of its input's name, which is not written as ONNX"));
	sl_weights_close(&w);
	sl_model_close(m);
}

/* A network that reads tokens cannot be written. */
static void what_cannot_be_written(void **state)
{
	struct sl_model *m = open_model(
		(struct sl_model_spec){.name = "token_mlp", .width = 1, .classes = 2, .vocab = 50, .tokens = 8});
	struct sl_fail fail;

	assert_int_equal(sl_onnx_write(m, path, NULL, false, NULL, 0, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "reads tokens, which is not written as ONNX"));
	sl_model_close(m);
}

static void no_folder(void **state)
{
	struct sl_model *m = open_model(
		(struct sl_model_spec){.name = "mlp", .width = 1, .classes = 2, .features = 5, .dropout = 0.1});
	struct sl_weights w;
	struct sl_fail fail;

	assert_int_equal(sl_weights_open(&w, m, &fail), SL_OK);
	sl_weights_init(&w, m, 7);
	assert_int_equal(sl_onnx_write(m, path, (const float *const *)w.value, false, NULL, 0, &fail), SL_OK);
	assert_int_equal(sl_onnx_write(m, "/nowhere/x.onnx", (const float *const *)w.value, false, NULL, 0, &fail),
			 SL_ERR_CANTCREATE);
	sl_weights_close(&w);
	sl_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parameter_called_as_the_input),
		cmocka_unit_test(what_cannot_be_written),
		cmocka_unit_test(no_folder),
	};
	int fd = mkstemp(path), bad;

	if (fd < 0)
		return 1;
	close(fd);
	bad = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return bad;
}
