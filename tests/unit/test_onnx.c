/* Networks from ONNX files: the graph and the units of tests/golden/onnx_small.onnx, and every refusal, provoked by
 * changes to that file and to onnx_wide.onnx. test_golden compares what they compute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/model/weights_file.h"
#include "common/graph/cut.h"
#include "tests/support/onnx_change.h"

static const char small[] = "tests/golden/onnx_small.onnx", wide[] = "tests/golden/onnx_wide.onnx";

static Onnx__Model *read_model(void)
{
	return onnx_read(small);
}

/* ---- changes, each of which is refused */

static const char conv1[] = "/block/conv1/Conv", stem[] = "/stem/stem.0/Conv";

static void opset(Onnx__Model *m)
{
	m->opset_import[0]->version = 21;
}

static void auto_pad(Onnx__Model *m)
{
	onnx_add_attr(onnx_node(m, conv1), "auto_pad", 3, "SAME_LOWER");
}

static void auto_pad_of_a_stride(Onnx__Model *m)
{
	onnx_add_attr(onnx_node(m, "/down/down.0/Conv"), "auto_pad", 3, "SAME_UPPER");
}

static void negative_pad(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, conv1), "pads")->ints[3] = -1;
}

static void oblong_dilation(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, stem), "dilations")->ints[0] = 2;
}

static void no_stride(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, stem), "strides")->ints[0] = onnx_attr(onnx_node(m, stem), "strides")->ints[1] = 0;
}

static void wrong_type(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, stem), "group")->type = 1;
}

static void groups(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, conv1), "group")->i = 3;
}

static void no_groups(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, conv1), "group")->i = 0;
}

static void other_kind(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Flatten")->op_type, "GridSample");
}

static void other_domain(Onnx__Model *m)
{
	onnx_node(m, "/Flatten")->domain = strdup("com.example");
}

static void unknown_attribute(Onnx__Model *m)
{
	onnx_add_attr(onnx_node(m, "/Flatten"), "swift", 2, NULL);
}

static void attribute_twice(Onnx__Model *m)
{
	onnx_set(&onnx_attr(onnx_node(m, conv1), "strides")->name, "pads");
}

static void evaluation(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/block/bn1/BatchNormalization"), "training_mode")->i = 0;
}

static void dropout_off(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/classifier/classifier.0/Constant_1"), "value")->t->raw_data.data[0] = 0;
}

static void several(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, conv1), "group")->i = 3;
	onnx_attr(onnx_node(m, stem), "group")->i = 3;
	evaluation(m); /* reads the output of a refused node: not reported */
	onnx_set(&onnx_node(m, "/classifier/classifier.1/Relu")->op_type, "GridSample");
	onnx_set(&onnx_node(m, "/classifier/classifier.3/Relu")->op_type, "Unheard");
}

static void folded(Onnx__Model *m)
{
	onnx_set(&onnx_tensor(m, "block.conv1.weight")->name, "onnx::Conv_27");
	onnx_set(&onnx_node(m, conv1)->input[1], "onnx::Conv_27");
}

static void relu5(Onnx__Model *m)
{
	const float below = -1;

	memcpy(onnx_attr(onnx_node(m, "/down/down.2/Constant_1"), "value")->t->raw_data.data, &below, 4);
}

static void learned_bound(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/down/down.2/Clip")->input[2], "block.bn1.weight");
}

static void odd_border(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/pool/Constant"), "value")->t->raw_data.data[8 * 2 + 4] = 1;
}

static void later_value(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, conv1)->input[0], "/Flatten_output_0");
}

static void missing_value(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, conv1)->input[0], "nowhere");
}

static void mask_of_dropout(Onnx__Model *m)
{
	Onnx__Node *n = onnx_node(m, "/classifier/classifier.1/Relu");

	onnx_set(&n->input[0], onnx_node(m, "/classifier/classifier.0/Dropout")->output[1]);
}

static void constant_input(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, conv1)->input[0], "down.0.weight");
}

static void learns_and_counts(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/block/bn2/BatchNormalization")->input[3], "block.bn1.weight");
}

static void weight_of_rows(Onnx__Model *m)
{
	onnx_tensor(m, "classifier.4.weight")->dims[0] = 12;
	onnx_tensor(m, "classifier.4.weight")->dims[1] = 10;
}

static void computed_weight(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, conv1)->input[1], "/stem/stem.3/MaxPool_output_0");
}

static void half_floats(Onnx__Model *m)
{
	onnx_tensor(m, "block.conv1.weight")->data_type = 10;
}

static void short_data(Onnx__Model *m)
{
	onnx_tensor(m, "block.conv1.weight")->raw_data.len -= 4;
}

static void negative_dim(Onnx__Model *m)
{
	onnx_tensor(m, "block.conv1.weight")->dims[0] = -8;
}

static void huge_dims(Onnx__Model *m)
{
	for (int i = 0; i < 4; i++)
		onnx_tensor(m, "block.conv1.weight")->dims[i] = INT64_C(1) << 40;
}

static void external(Onnx__Model *m)
{
	onnx_tensor(m, "block.conv1.weight")->has_data_location = true;
	onnx_tensor(m, "block.conv1.weight")->data_location = 1;
}

static void bias_length(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/block/bn2/BatchNormalization")->input[2], "down.3.bias");
}

static void transposed(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/classifier/classifier.4/Gemm"), "transB")->i = 0;
}

static void scaled(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/classifier/classifier.4/Gemm"), "alpha")->f = 2;
}

static void shapes_differ(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/block/Add")->input[1], "/stem/stem.2/Relu_output_0");
}

static void flattened_sum(Onnx__Model *m)
{
	Onnx__Node *n = onnx_node(m, "/classifier/classifier.1/Relu");

	onnx_set(&n->op_type, "Add");
	n->input = realloc(n->input, 2 * sizeof *n->input);
	n->input[n->n_input++] = strdup(n->input[0]);
}

static void flat_axis(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/Flatten"), "axis")->i = 2;
}

static void image_as_output(Onnx__Model *m)
{
	onnx_set(&m->graph->output[0]->name, "/pool/AveragePool_output_0");
}

static void flattened_output(Onnx__Model *m)
{
	onnx_set(&m->graph->output[0]->name, "/Flatten_output_0");
}

static void sigmoid_as_output(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/classifier/classifier.3/Relu")->op_type, "Sigmoid");
	onnx_set(&m->graph->output[0]->name, "/classifier/classifier.3/Relu_output_0");
}

static void no_output(Onnx__Model *m)
{
	onnx_set(&m->graph->output[0]->name, "nothing");
}

static void other_classes(Onnx__Model *m)
{
	m->graph->output[0]->type->tensor_type->shape->dim[1]->dim_value = 7;
}

static void no_channels(Onnx__Model *m)
{
	m->graph->input[0]->type->tensor_type->shape->dim[1]->dim_value = 17;
}

static void rows_as_input(Onnx__Model *m)
{
	Onnx__Shape *shape = m->graph->input[0]->type->tensor_type->shape;

	while (shape->n_dim > 2)
		onnx__dimension__free_unpacked(shape->dim[--shape->n_dim], NULL);
}

static void twice_named(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, conv1)->output[0], "/stem/stem.2/Relu_output_0");
}

static void twice_initialized(Onnx__Model *m)
{
	onnx_set(&onnx_tensor(m, "down.3.bias")->name, "classifier.4.bias");
}

static void long_name(Onnx__Model *m)
{
	static const char name[] = "a.module.with.such.a.long.path.that.no.list.of.parameters.would.have.room.for.it."
				   "in.a.line.weight";

	onnx_set(&onnx_tensor(m, "block.conv1.weight")->name, name);
	onnx_set(&onnx_node(m, conv1)->input[1], name);
}

static void strange_name(Onnx__Model *m)
{
	onnx_set(&onnx_tensor(m, "block.conv1.weight")->name, "block.\n[0m.weight");
	onnx_set(&onnx_node(m, conv1)->input[1], "block.\n[0m.weight");
}

static void constant_without_value(Onnx__Model *m)
{
	onnx_set(&onnx_attr(onnx_node(m, "/down/down.2/Constant_1"), "value")->name, "value_float");
}

static void no_input(Onnx__Model *m)
{
	Onnx__Node *n = onnx_node(m, "/stem/stem.1/BatchNormalization");

	while (n->n_input > 1)
		free(n->input[--n->n_input]);
}

static void shrunk(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, conv1), "dilations")->ints[0] = onnx_attr(onnx_node(m, conv1), "dilations")->ints[1] =
		1 << 19;
}

/* ---- changes of the other file */

static void other_alpha(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/excite1/act/HardSigmoid"), "alpha")->f = 0.2f;
}

static void product_of_sizes(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/excite2/Mul")->input[0], "/excite1/act/HardSigmoid_output_0");
}

static void concat_of_width(Onnx__Model *m)
{
	onnx_attr(onnx_node(m, "/Concat"), "axis")->i = 3;
}

static void concat_of_sizes(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Concat")->input[1], "/excite1/fc1/Conv_output_0");
}

static void concat_of_constant(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Concat")->input[1], onnx_node(m, "/Constant")->output[0]);
}

static void set_number(Onnx__Model *m, const char *name, int64_t to)
{
	memcpy(onnx_attr(onnx_node(m, name), "value")->t->raw_data.data, &to, sizeof to);
}

static void reshape_to_fewer(Onnx__Model *m)
{
	set_number(m, "/Constant_1", 24);
}

static void reshape_of_channels(Onnx__Model *m)
{
	set_number(m, "/Constant", 1);
}

static void gather_beyond(Onnx__Model *m)
{
	set_number(m, "/Constant", 4);
}

static void factor_without_bounds(Onnx__Model *m)
{
	const float many = 1e38f;

	memcpy(onnx_attr(onnx_node(m, "/Constant_2"), "value")->t->raw_data.data, &many, sizeof many);
}

static void mixed_concat(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Concat_2")->input[1], "/stem/stem.0/Conv_output_0");
}

static void scalars_joined(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Concat_2")->input[0], "/Gather_output_0");
}

static void flattened_product(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Mul")->input[1], "/Reshape_output_0");
}

static const struct change {
	void (*change)(Onnx__Model *m);
	enum sl_err err;
	const char *says;
} wide_changes[] = {
	{other_alpha, SL_ERR_CONFIG, "alpha 0.2 and beta 0.5 are not 1/6 and 1/2"},
	{product_of_sizes, SL_ERR_CONFIG, "it multiplies values whose shapes do not fit each other"},
	{concat_of_width, SL_ERR_CONFIG, "it joins values along axis 3 whose other axes differ"},
	{concat_of_sizes, SL_ERR_CONFIG, "it joins values along axis 1 whose other axes differ"},
	{concat_of_constant, SL_ERR_CONFIG,
	 "its input 1 is a constant, where a parameter is read: F.pad(x, …) appends zeros"},
	{reshape_to_fewer, SL_ERR_CONFIG, "its shape is not"},
	{reshape_of_channels, SL_ERR_CONFIG, "it parts its input's axes in a way that is not read"},
	{gather_beyond, SL_ERR_CONFIG, "it picks number 4 of 4"},
	{factor_without_bounds, SL_ERR_CONFIG, "its factor is 1e+38"},
	{mixed_concat, SL_ERR_CONFIG, "it joins what is no part of a shape"},
	{scalars_joined, SL_ERR_CONFIG, "it joins what is no part of a shape"},
	{flattened_product, SL_ERR_CONFIG, "it multiplies flattened images, which is not read"},
};

static const struct change changes[] = {
	{opset, SL_ERR_CONFIG, "its opset is 21, where 13 to 20 are read; export with torch.onnx.export("},
	{auto_pad, SL_ERR_CONFIG,
	 "node '/block/conv1/Conv' (Conv): auto_pad SAME_LOWER is not read here, only SAME_UPPER with a stride of 1"},
	{auto_pad_of_a_stride, SL_ERR_CONFIG,
	 "node '/down/down.0/Conv' (Conv): auto_pad SAME_UPPER is not read here, only SAME_UPPER with a stride of 1"},
	{negative_pad, SL_ERR_CONFIG, "pads: -1 is not in 0 … 1048576"},
	{oblong_dilation, SL_ERR_CONFIG, "dilations: 2 and 1; dilation is the same in both directions here"},
	{no_stride, SL_ERR_CONFIG, "strides: 0 is not in 1 … 1048576"},
	{wrong_type, SL_ERR_CONFIG, "its attribute group is not of the right type"},
	{groups, SL_ERR_CONFIG,
	 "its weight 'block.conv1.weight' is [8, 4, 3, 3], which does not fit 8 channels in 3 groups"},
	{no_groups, SL_ERR_CONFIG, "in 0 groups"},
	{other_kind, SL_ERR_CONFIG, "node '/Flatten' (GridSample): torch's F.grid_sample is not read"},
	{other_domain, SL_ERR_CONFIG, "node '/Flatten' (Flatten): this kind is not read"},
	{unknown_attribute, SL_ERR_CONFIG, "its attribute swift is not read"},
	{attribute_twice, SL_ERR_CONFIG, "its attribute pads is there twice"},
	{evaluation, SL_ERR_CONFIG, "it is of a network in evaluation; export model.train() with"},
	{dropout_off, SL_ERR_CONFIG, "its training_mode is not the constant true"},
	{several, SL_ERR_CONFIG,
	 "3 modules are not read, which the lines above explain: stem.0 (Conv), classifier.1 (GridSample), "
	 "classifier.3 "
	 "(Unheard)"},
	{folded, SL_ERR_CONFIG,
	 "its tensor 'onnx::Conv_27' is no module's: the file is of a network in evaluation, or with folded constants, "
	 "which would train another network; export with torch.onnx.export(model.train(), x, FILE, "
	 "training=TrainingMode.TRAINING, do_constant_folding=False"},
	{relu5, SL_ERR_CONFIG, "its bounds are not constants, the lower one first"},
	{learned_bound, SL_ERR_CONFIG, "'block.bn1.weight' is a parameter or a buffer, and would not learn here"},
	{odd_border, SL_ERR_CONFIG, "its pads are too large"},
	{later_value, SL_ERR_CONFIG, "reads '/Flatten_output_0', which this node or a later one makes"},
	{missing_value, SL_ERR_CONFIG, "reads 'nowhere', which nothing makes"},
	{mask_of_dropout, SL_ERR_CONFIG, "Dropout_output_1', which is an output that is not read"},
	{constant_input, SL_ERR_CONFIG, "its input 0 is 'down.0.weight', a parameter or a buffer of the network"},
	{learns_and_counts, SL_ERR_CONFIG, "block.bn1.weight: layers that use it in different ways cannot share it"},
	{weight_of_rows, SL_ERR_CONFIG, "its weight 'classifier.4.weight' is [12, 10], which does not fit rows of 12"},
	{computed_weight, SL_ERR_CONFIG, "its input 1 is computed, where a parameter is read"},
	{half_floats, SL_ERR_CONFIG, "its parameter 'block.conv1.weight' is of type 10, where float32 is read"},
	{short_data, SL_ERR_DATA, "tensor 'block.conv1.weight' is [8, 4, 3, 3], but its data are not as long"},
	{negative_dim, SL_ERR_DATA, "tensor 'block.conv1.weight' is [-8, 4, 3, 3], which no tensor can be"},
	{huge_dims, SL_ERR_DATA, "which no tensor can be"},
	{external, SL_ERR_CONFIG, "tensor 'block.conv1.weight' lies in another file, which is not read"},
	{bias_length, SL_ERR_CONFIG, "its parameter 'down.3.bias' has 16 elements, where 8 are right"},
	{transposed, SL_ERR_CONFIG, "transB is 0, where 1 is read"},
	{scaled, SL_ERR_CONFIG, "alpha and beta are not 1"},
	{shapes_differ, SL_ERR_CONFIG, "node '/block/Add' (Add): it adds values whose shapes do not fit each other"},
	{flattened_sum, SL_ERR_CONFIG, "it adds flattened images, which is not read"},
	{flat_axis, SL_ERR_CONFIG, "axis is 2, where 1 is read"},
	{image_as_output, SL_ERR_CONFIG, "is not [batch, classes], as a linear layer makes it"},
	{flattened_output, SL_ERR_CONFIG, "is not [batch, classes], as a linear layer makes it"},
	{sigmoid_as_output, SL_ERR_CONFIG, "Relu_output_0' is a sigmoid's: leave the sigmoid out at the end"},
	{no_output, SL_ERR_CONFIG, "no node makes its output 'nothing'"},
	{other_classes, SL_ERR_CONFIG, "loss: 10 logits for 7 classes"},
	{no_channels, SL_ERR_CONFIG, "has 17 channels, where images have 1 to 16"},
	{rows_as_input, SL_ERR_CONFIG, "its input is rows of numbers, and data.kind has none: give csv"},
	{twice_named, SL_ERR_DATA, "two values are called '/stem/stem.2/Relu_output_0'"},
	{twice_initialized, SL_ERR_DATA, "two initializers are called 'classifier.4.bias'"},
	{long_name, SL_ERR_CONFIG, "is longer than 95 bytes"},
	{strange_name, SL_ERR_CONFIG, "in a graph, 'block.…', has a byte that is not printable ASCII: letters"},
	{constant_without_value, SL_ERR_CONFIG, "its attribute value_float is not read"},
	{no_input, SL_ERR_CONFIG, "it has 1 inputs, where 5 to 5 are right"},
	{shrunk, SL_ERR_CONFIG, "block.conv1 (conv2d): takes an image no smaller than its window"},
};

static void refuse_all(const char *path, const struct change *change, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct sl_model_spec spec = {.image = 0};
		Onnx__Model *m = onnx_read(path);
		struct sl_model *model = NULL;
		struct sl_fail fail = {0};
		enum sl_err err;

		change[i].change(m);
		err = onnx_build(m, &spec, &model, &fail);
		if (!err || !strstr(fail.text, change[i].says) || err != change[i].err)
			fail_msg("change %zu, \"%s\": %s \"%s\"", i, change[i].says, sl_err_name(err), fail.text);
		assert_null(strchr(fail.text, '\n'));
		onnx__model__free_unpacked(m, NULL);
	}
}

static void what_is_not_read_is_refused(void **state)
{
	(void)state;
	refuse_all(small, changes, sizeof changes / sizeof changes[0]);
	refuse_all(wide, wide_changes, sizeof wide_changes / sizeof wide_changes[0]);
}

/* ---- what is read */

static struct sl_model *build_small(const Onnx__Model *m, const struct sl_model_spec *spec)
{
	struct sl_model *model;
	struct sl_fail fail = {0};

	if (onnx_build(m, spec, &model, &fail))
		fail_msg("%s", fail.text);
	return model;
}

static void names_and_units(void **state)
{
	static const char *const units[] = {"stem", "block", "down.0", "down.3", "classifier.2", "classifier.4"};
	static const char *const nodes[] = {"stem.0",           "stem.1",       "stem.2",       "stem.3",
					    "block.conv1",      "block.bn1",    "block.relu",   "block.conv2",
					    "block.bn2",        "block.Add",    "block.relu_1", "down.0",
					    "down.1",           "down.2",       "down.3",       "down.4",
					    "pool.AveragePool", "Flatten",      "classifier.1", "classifier.2",
					    "classifier.3",     "classifier.4", "loss"};
	Onnx__Model *m = read_model();
	struct sl_model *model = build_small(m, &(struct sl_model_spec){.image = 0});
	const struct sl_bn_attr *bn;
	struct sl_fail fail;
	struct sl_cut cut;

	(void)state;
	assert_string_equal(model->name, "x.onnx");
	assert_string_equal(model->note, "x.onnx, 10 classes, images of 16x16");
	assert_int_equal(model->n_unit, 6);
	for (int i = 0; i < model->n_unit; i++)
		assert_string_equal(model->unit[i].name, units[i]);
	assert_int_equal(model->graph.n_node, sizeof nodes / sizeof nodes[0]);
	for (int i = 0; i < model->graph.n_node; i++)
		assert_string_equal(model->graph.node[i].name, nodes[i]);
	bn = &model->graph.node[5].u.bn;
	assert_true(bn->eps == 1e-3f && bn->momentum == 0.2f); /* exactly 0.2f; the file has 1 - momentum, 0.8f */
	assert_true(model->graph.node[1].u.bn.momentum == 0.1f);
	for (int i = 1; i < model->n_unit; i++) {
		char text[16];

		snprintf(text, sizeof text, "%d:-1", i < 5 ? i : 4);
		assert_int_equal(sl_cut_find(&cut, model, text, NULL, NULL, 1, &fail), SL_OK);
	}
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* Dropout keeps its ratio. In opset 13 a batch norm in training mode has five outputs, and no attribute tells. Older
 * exporters list initializers among the inputs. Nodes that no output needs may be anything. */
/* Two layers may have one parameter. */
static void shared(void **state)
{
	const struct sl_model_spec spec = {.image = 16, .classes = 10};
	Onnx__Model *m = read_model();
	struct sl_model *apart = build_small(m, &spec), *model;
	const struct sl_graph *g;
	int users = 0;

	(void)state;
	onnx_set(&onnx_node(m, "/block/bn2/BatchNormalization")->input[1], "block.bn1.weight");
	model = build_small(m, &spec);
	g = &model->graph;
	assert_int_equal(g->n_param, apart->graph.n_param - 1);
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_BATCHNORM)
			users += strcmp(g->param[g->link[g->node[i].param]].name, "block.bn1.weight") == 0;
	assert_int_equal(users, 2);
	sl_model_close(apart);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

static void other_forms(void **state)
{
	static const float ratio = 0.25f;
	Onnx__Model *m = read_model();
	struct sl_model *model;

	(void)state;
	memcpy(onnx_attr(onnx_node(m, "/classifier/classifier.0/Constant"), "value")->t->raw_data.data, &ratio,
	       sizeof ratio);
	m->opset_import[0]->version = 13;
	for (size_t i = 0; i < m->graph->n_node; i++) {
		Onnx__Node *n = m->graph->node[i];

		if (strcmp(n->op_type, "BatchNormalization") != 0)
			continue;
		onnx_drop_attr(n, "training_mode");
		n->output = realloc(n->output, 5 * sizeof *n->output);
		while (n->n_output < 5) {
			char text[32];

			snprintf(text, sizeof text, "saved_%zu_%zu", i, n->n_output);
			n->output[n->n_output++] = strdup(text);
		}
	}
	m->graph->input = realloc(m->graph->input, 2 * sizeof *m->graph->input);
	m->graph->input[1] = malloc(sizeof *m->graph->input[1]);
	onnx__value__init(m->graph->input[1]);
	m->graph->input[1]->name = strdup("down.3.bias");
	m->graph->n_input = 2;
	m->graph->node = realloc(m->graph->node, (m->graph->n_node + 1) * sizeof *m->graph->node);
	m->graph->node[m->graph->n_node] = malloc(sizeof *m->graph->node[0]);
	onnx__node__init(m->graph->node[m->graph->n_node]);
	m->graph->node[m->graph->n_node]->op_type = strdup("Whatever");
	m->graph->node[m->graph->n_node]->output = malloc(sizeof(char *));
	m->graph->node[m->graph->n_node]->output[0] = strdup("unused");
	m->graph->node[m->graph->n_node++]->n_output = 1;
	model = build_small(m, &(struct sl_model_spec){.image = 16, .classes = 10});
	assert_int_equal(model->graph.node[18].kind, SL_OP_DROPOUT);
	assert_true(model->graph.node[18].u.dropout.p == ratio);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* The fixed batch of a reshape, as a trace without dynamic_axes writes it, and its other forms. */
static void reshapes(void **state)
{
	static const int64_t forms[][2] = {{2, -1}, {0, -1}, {0, 48}, {-1, 48}, {2, 48}},
			     wrong[][2] = {{4, -1}, {-1, -1}};
	Onnx__Model *m = onnx_read(wide);
	Onnx__Tensor *axes = onnx_attr(onnx_node(m, "Constant_29"), "value")->t;
	struct sl_model *model;
	struct sl_fail fail;

	(void)state;
	m->graph->input[0]->type->tensor_type->shape->dim[0]->has_dim_value = true;
	m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value = 2;
	onnx_set(&onnx_node(m, "/Reshape")->input[1], "onnx::Unsqueeze_56");
	axes->dims[0] = 2;
	axes->raw_data.data = realloc(axes->raw_data.data, axes->raw_data.len = sizeof forms[0]);
	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		memcpy(axes->raw_data.data, forms[i], sizeof forms[i]);
		model = build_small(m, &(struct sl_model_spec){.image = 0});
		sl_model_close(model);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		memcpy(axes->raw_data.data, wrong[i], sizeof wrong[i]);
		assert_int_equal(onnx_build(m, &(struct sl_model_spec){.image = 0}, &model, &fail), SL_ERR_CONFIG);
	}
	onnx__model__free_unpacked(m, NULL);
}

static void sizes(void **state)
{
	Onnx__Model *m = read_model();
	Onnx__Shape *shape = m->graph->input[0]->type->tensor_type->shape;
	struct sl_model *model;
	struct sl_model_sizes s;
	struct sl_fail fail;

	(void)state;
	assert_int_equal(sl_onnx_sizes(&s, small, &fail), SL_OK);
	assert_true(s.height == 16 && s.width == 16 && s.classes == 10);
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){.image = 32}, &model, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "model.image");
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){.classes = 5}, &model, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "model.classes");
	/* with dynamic_axes the config sets the size of images */
	for (int i = 2; i < 4; i++) {
		shape->dim[i]->has_dim_value = false;
		shape->dim[i]->dim_param = strdup("side");
	}
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){.image = 0}, &model, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "model.image");
	model = build_small(m, &(struct sl_model_spec){.image = 15});
	assert_int_equal(model->graph.value[0].shape.dim[1], 15);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* The losses of classes and of several labels take logits; a number may be a sigmoid. */
static void sigmoids(void **state)
{
	static const struct {
		enum sl_learn_kind task;
		bool refused;
	} row[] = {{SL_LEARN_CLASSES, true}, {SL_LEARN_LABELS, true}, {SL_LEARN_NUMBER, false}};
	Onnx__Model *m = read_model();
	struct sl_model *model = NULL;
	struct sl_fail fail;

	(void)state;
	sigmoid_as_output(m);
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		fail.text[0] = 0;
		(void)!onnx_build(m, &(struct sl_model_spec){.task = row[i].task}, &model, &fail);
		assert_true((strstr(fail.text, "leave the sigmoid out at the end") != NULL) == row[i].refused);
	}
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* Every truncated file is refused, and so is a file of another format (safetensors, zeros, nothing). */
static void truncated(void **state)
{
	uint8_t *data;
	size_t len;
	struct sl_onnx *onnx;
	struct sl_fail fail;

	(void)state;
	assert_int_equal(sl_file_read(small, 1 << 20, &data, &len, &fail), SL_OK);
	for (size_t i = 0; i < len; i += i < 64 ? 1 : 97) {
		uint8_t *cut = malloc(i + 1); /* of the exact size, so that a sanitizer finds reads beyond the end */

		memcpy(cut, data, i);
		if (sl_onnx_parse(&onnx, "x", (struct sl_bytes){cut, i}, &fail) == SL_OK)
			fail_msg("%zu bytes of %zu were read", i, len);
		free(cut);
	}
	memset(data, 0, len);
	assert_int_equal(sl_onnx_parse(&onnx, "x", (struct sl_bytes){data, len}, &fail), SL_ERR_DATA);
	free(data);
	assert_int_equal(sl_onnx_open(&onnx, "tests/golden/onnx_small_run.safetensors", &fail), SL_ERR_DATA);
	assert_int_equal(sl_onnx_open(&onnx, "tests/golden/none.onnx", &fail), SL_ERR_NOINPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_read_is_refused),
		cmocka_unit_test(names_and_units),
		cmocka_unit_test(shared),
		cmocka_unit_test(other_forms),
		cmocka_unit_test(reshapes),
		cmocka_unit_test(sizes),
		cmocka_unit_test(sigmoids),
		cmocka_unit_test(truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
