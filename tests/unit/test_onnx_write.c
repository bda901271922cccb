/* Networks that are written as ONNX files and read again have the same parameters under the same names,
 * bit-identical weights and the same units. onnx.sh and tests/golden/modules.py compare what the files compute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/model/onnx_write.h"
#include "tests/support/onnx_change.h"

static char path[] = "/tmp/test_onnx_write_XXXXXX";

static struct sl_model *open_model(struct sl_model_spec spec)
{
	struct sl_model *m = NULL;
	struct sl_fail fail;

	if (spec.onnx)
		snprintf(spec.name, sizeof spec.name, "onnx");
	if (sl_model_open(&m, &spec, &fail))
		fail_msg("%s", fail.text);
	return m;
}

/* Weights of all parameters, in one block with the list of pointers before them. They come from
 * `file`, or from a seed if it is NULL. */
static float **weights_of(const struct sl_model *m, const char *file)
{
	size_t floats = 0;
	float **param, *at;
	struct sl_fail fail;

	for (int i = 0; i < m->graph.n_param; i++)
		floats += (size_t)sl_shape_count(&m->graph.param[i].shape);
	param = calloc(1, (size_t)m->graph.n_param * sizeof *param + floats * sizeof *at);
	at = (float *)(void *)(param + m->graph.n_param);
	for (int i = 0; i < m->graph.n_param; i++) {
		param[i] = at;
		if (!file)
			sl_param_init(&m->graph.param[i], 7, at);
		at += sl_shape_count(&m->graph.param[i].shape);
	}
	if (file && sl_onnx_weights(m, file, param, &fail))
		fail_msg("%s", fail.text);
	return param;
}

static void same_param(const struct sl_model *a, const struct sl_model *b, int i, const float *x, const float *y)
{
	const struct sl_param *p = &a->graph.param[i], *q = &b->graph.param[i];

	assert_string_equal(p->name, q->name);
	assert_true(sl_shape_equal(&p->shape, &q->shape));
	assert_true(a->file[i].layout == b->file[i].layout);
	assert_true(sl_shape_equal(&a->file[i].shape, &b->file[i].shape));
	assert_memory_equal(x, y, (size_t)sl_shape_count(&p->shape) * sizeof *x);
}

/* No two nodes of the written file have the same name: ONNX Runtime would refuse the file. */
static void check_names(void)
{
	Onnx__Model *m = onnx_read(path);
	const Onnx__Graph *g = m->graph;

	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < i && g->node[i]->name[0]; k++)
			assert_string_not_equal(g->node[i]->name, g->node[k]->name);
	onnx__model__free_unpacked(m, NULL);
}

static int n_forms; /* batch norms and dropouts in all written files */

static int dropouts(const struct sl_model *m)
{
	int n = 0;

	for (int i = 0; i < m->graph.n_node; i++)
		n += m->graph.node[i].kind == SL_OP_DROPOUT;
	return n;
}

/* Every batch norm and dropout of the written file is of that form. Returns how many there are. */
static int check_form(bool training)
{
	Onnx__Model *m = onnx_read(path);
	int n = 0;

	for (size_t i = 0; i < m->graph->n_node; i++) {
		Onnx__Node *node = m->graph->node[i];
		const bool norm = strcmp(node->op_type, "BatchNormalization") == 0;

		if (norm) {
			assert_int_equal(onnx_attr(node, "training_mode")->i, training);
			assert_int_equal(node->n_output, training ? 3 : 1);
		} else if (strcmp(node->op_type, "Dropout") == 0) {
			assert_int_equal(node->n_input, training ? 3 : 2);
		} else {
			continue;
		}
		n++;
	}
	onnx__model__free_unpacked(m, NULL);
	return n;
}

static void there_and_back_as(struct sl_model_spec spec, bool training)
{
	static const struct sl_st_note note = {"steps", "12"};
	struct sl_model *a = open_model(spec), *b;
	float **x = weights_of(a, spec.onnx), **y;
	struct sl_fail fail;

	if (sl_onnx_write(a, path, (const float *const *)x, training, &note, 1, &fail))
		fail_msg("%s", fail.text);
	check_names();
	n_forms += check_form(training);
	b = open_model((struct sl_model_spec){.onnx = path});
	y = weights_of(b, path);
	assert_int_equal(a->graph.n_param, b->graph.n_param);
	for (int i = 0; i < a->graph.n_param; i++)
		same_param(a, b, i, x[i], y[i]);
	assert_int_equal(dropouts(a), dropouts(b));
	if (spec.onnx)
		assert_int_equal(a->n_unit, b->n_unit);
	for (int i = 0; spec.onnx && i < a->n_unit; i++)
		assert_string_equal(a->unit[i].name, b->unit[i].name);
	free(x);
	free(y);
	sl_model_close(a);
	sl_model_close(b);
}

static void there_and_back(struct sl_model_spec spec)
{
	there_and_back_as(spec, false);
	there_and_back_as(spec, true);
}

static void onnx_files(void **state)
{
	(void)state;
	there_and_back((struct sl_model_spec){.onnx = "tests/golden/onnx_small.onnx"});
	there_and_back((struct sl_model_spec){.onnx = "tests/golden/onnx_wide.onnx"});
	there_and_back((struct sl_model_spec){.onnx = "tests/golden/onnx_many.onnx"});
	assert_int_equal(n_forms, 10);
}

static void built_in_networks(void **state)
{
	static const char *const names[] = {"mobilenet_v2",    "mobilenet_v2_relu", "resnet9", "resnet18",
					    "resnext50_32x4d", "alexnet1",          "vgg16"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct sl_model_spec spec = {.width = names[i][0] == 'r' && names[i][3] != 'n' ? 1 : 0.1,
					     .classes = 10,
					     .image = 32,
					     .dropout = 0.2};

		snprintf(spec.name, sizeof spec.name, "%s", names[i]);
		there_and_back(spec);
	}
}

/* Turns the network's layer norm into an RMS norm, and its GELU into that with tanh, or back. */
static void change(struct sl_model *m, bool tanh)
{
	for (int i = 0; i < m->graph.n_node; i++) {
		struct sl_node *n = &m->graph.node[i];

		if (n->kind == SL_OP_LAYERNORM) {
			n->kind = SL_OP_RMSNORM;
			n->n_param = 1;
		}
		if (n->kind == SL_OP_GELU)
			n->u.gelu.tanh = tanh;
	}
}

/* ReduceMean has its axes as an attribute up to opset 17, and as an input from opset 18 on. */
static void axes_of_a_mean(void **state)
{
	static const char file[] = "tests/golden/onnx_many.onnx";
	struct sl_model *m = open_model((struct sl_model_spec){.onnx = file});
	float **x = weights_of(m, file);
	struct sl_fail fail;

	(void)state;
	for (int tanh = 0; tanh < 2; tanh++) {
		int means = 0;
		Onnx__Model *written;

		change(m, tanh);
		assert_int_equal(sl_onnx_write(m, path, (const float *const *)x, false, NULL, 0, &fail), SL_OK);
		written = onnx_read(path);
		assert_int_equal(written->opset_import[0]->version, tanh ? 20 : 17);
		for (size_t i = 0; i < written->graph->n_node; i++) {
			const Onnx__Node *n = written->graph->node[i];

			if (strcmp(n->op_type, "ReduceMean") != 0)
				continue;
			means++;
			assert_int_equal(n->n_input, tanh ? 2 : 1);
			assert_int_equal(n->n_attribute, tanh ? 0 : 1);
		}
		assert_true(means > 0);
		onnx__model__free_unpacked(written, NULL);
	}
	free(x);
	sl_model_close(m);
}

/* A file that predicts is read for training again as long as no other program has removed a batch norm. */
static void changed_since(void **state)
{
	static const char file[] = "tests/golden/onnx_small.onnx";
	const struct sl_model_spec spec = {.name = "onnx", .onnx = path};
	struct sl_model *m = open_model((struct sl_model_spec){.onnx = file}), *again = NULL;
	float **x = weights_of(m, file);
	Onnx__Model *written;
	struct sl_fail fail;

	(void)state;
	assert_int_equal(sl_onnx_write(m, path, (const float *const *)x, false, NULL, 0, &fail), SL_OK);
	written = onnx_read(path);
	for (size_t i = 0; i < written->graph->n_node; i++)
		if (strcmp(written->graph->node[i]->op_type, "BatchNormalization") == 0)
			onnx_set(&written->graph->node[i]->op_type, "Identity");
	assert_int_equal(onnx_build(written, &spec, &again, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "another program has changed it since"));
	onnx__model__free_unpacked(written, NULL);
	free(x);
	sl_model_close(m);
}

/* A parameter with the input's name would be the input's default value. */
static void a_parameter_called_as_the_input(void **state)
{
	static const char file[] = "tests/golden/onnx_small.onnx";
	struct sl_model *m = open_model((struct sl_model_spec){.onnx = file});
	float **x = weights_of(m, file);
	struct sl_fail fail;

	(void)state;
	snprintf(m->graph.param[0].name, sizeof m->graph.param[0].name, "%s", m->graph.in[0].name);
	assert_int_equal(sl_onnx_write(m, path, (const float *const *)x, false, NULL, 0, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "has a parameter of its input's name, which is not written as ONNX"));
	free(x);
	sl_model_close(m);
}

/* A network that reads tokens cannot be written. */
static void what_cannot_be_written(void **state)
{
	struct sl_model *m = open_model(
		(struct sl_model_spec){.name = "token_mlp", .width = 1, .classes = 2, .vocab = 50, .tokens = 8});
	struct sl_fail fail;

	(void)state;
	assert_int_equal(sl_onnx_write(m, path, NULL, false, NULL, 0, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "reads tokens, which is not written as ONNX"));
	sl_model_close(m);
}

static void no_folder(void **state)
{
	struct sl_model *m = open_model(
		(struct sl_model_spec){.name = "mlp", .width = 1, .classes = 2, .features = 5, .dropout = 0.1});
	float **x = weights_of(m, NULL);
	struct sl_fail fail;

	(void)state;
	assert_int_equal(sl_onnx_write(m, path, (const float *const *)x, false, NULL, 0, &fail), SL_OK);
	assert_int_equal(sl_onnx_write(m, "/nowhere/x.onnx", (const float *const *)x, false, NULL, 0, &fail),
			 SL_ERR_CANTCREATE);
	free(x);
	sl_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(onnx_files),
		cmocka_unit_test(built_in_networks),
		cmocka_unit_test(axes_of_a_mean),
		cmocka_unit_test(changed_since),
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
