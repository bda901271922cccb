/* Forms of networks that are rarer than those of test_onnx.c, by changes to files that torch wrote: each is read as it
 * is meant, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/onnx_change.h"

static const char text[] = "tests/golden/onnx_text.onnx", many[] = "tests/golden/onnx_many.onnx",
		  small[] = "tests/golden/onnx_small.onnx", rows[] = "tests/golden/onnx_rows.onnx";

static size_t place_of(Onnx__Model *m, const char *name)
{
	const Onnx__Node *n = onnx_node(m, name);
	size_t at = 0;

	while (m->graph->node[at] != n)
		at++;
	return at;
}

/* Nodes from `first` to `last` read `to` in place of `from`, and stand behind the node that makes it. */
static void read_instead(Onnx__Model *m, const char *first, const char *last, const char *from, const char *to,
			 const char *maker)
{
	Onnx__Node **node = m->graph->node, *moved[32];
	const size_t at = place_of(m, first), n = place_of(m, last) - at + 1, end = place_of(m, maker) + 1;

	assert_true(n <= 32);
	memcpy(moved, node + at, n * sizeof *node);
	memmove(node + at, node + at + n, (end - at - n) * sizeof *node);
	memcpy(node + end - n, moved, n * sizeof *node);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < moved[i]->n_input; k++)
			if (strcmp(moved[i]->input[k], from) == 0)
				onnx_set(&moved[i]->input[k], to);
}

/* The node is of that kind, and reads its first input and others. */
static void becomes(Onnx__Node *n, const char *kind, const char *const *others)
{
	onnx_set(&n->op_type, kind);
	while (n->n_attribute)
		onnx_drop_attr(n, n->attribute[0]->name);
	while (n->n_input > 1)
		free(n->input[--n->n_input]);
	n->input = realloc(n->input, 8 * sizeof *n->input);
	for (; *others; others++)
		n->input[n->n_input++] = strdup(*others);
}

/* An initializer of whole numbers. */
static void add_list(Onnx__Model *m, const char *name, const int64_t *v, int64_t count)
{
	Onnx__Graph *g = m->graph;
	Onnx__Tensor *t = malloc(sizeof *t);

	onnx__tensor__init(t);
	t->name = strdup(name);
	t->has_data_type = true;
	t->data_type = 7; /* int64 */
	t->n_dims = 1;
	t->dims = malloc(sizeof *t->dims);
	t->dims[0] = count;
	t->n_int64_data = (size_t)count;
	t->int64_data = malloc((size_t)count * sizeof *v);
	memcpy(t->int64_data, v, (size_t)count * sizeof *v);
	g->initializer = realloc(g->initializer, (g->n_initializer + 1) * sizeof *g->initializer);
	g->initializer[g->n_initializer++] = t;
}

/* A node with an output of its name, in front of the node `before`. */
static Onnx__Node *add_node(Onnx__Model *m, const char *before, const char *name, const char *kind,
			    const char *const *inputs)
{
	const size_t at = place_of(m, before);
	Onnx__Graph *g = m->graph;
	Onnx__Node *n = malloc(sizeof *n);

	onnx__node__init(n);
	n->name = strdup(name);
	n->op_type = strdup(kind);
	n->input = malloc(8 * sizeof *n->input);
	for (; *inputs; inputs++)
		n->input[n->n_input++] = strdup(*inputs);
	n->output = malloc(2 * sizeof *n->output);
	n->output[n->n_output++] = strdup(name);
	g->node = realloc(g->node, (g->n_node + 1) * sizeof *g->node);
	memmove(g->node + at + 1, g->node + at, (g->n_node++ - at) * sizeof *g->node);
	return g->node[at] = n;
}

static void add_int(Onnx__Node *n, const char *name, int64_t v)
{
	onnx_add_attr(n, name, 2, NULL);
	n->attribute[n->n_attribute - 1]->has_i = true;
	n->attribute[n->n_attribute - 1]->i = v;
}

static void add_ints(Onnx__Node *n, const char *name, const int64_t *v, size_t count)
{
	Onnx__Attribute *a;

	onnx_add_attr(n, name, 7, NULL);
	a = n->attribute[n->n_attribute - 1];
	a->ints = malloc(count * sizeof *v);
	memcpy(a->ints, v, (a->n_ints = count) * sizeof *v);
}

#define IN(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- of texts */

static const char sum[] = "/ReduceSum_output_0";

static void norm_of_a_sum(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Mul")->input[0], "/layers.0/Add_2_output_0");
	read_instead(m, "/layers.0/norm2/ReduceMean", "/layers.0/norm2/Add_1", "/layers.0/Add_2_output_0", sum,
		     "/ReduceSum");
	onnx_set(&onnx_node(m, "/fc/Gemm")->input[0], "/layers.0/norm2/Add_1_output_0");
}

static void gelu_of_a_sum(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/layers.0/dropout/Dropout")->input[0], "/layers.0/linear1/Add_output_0");
	read_instead(m, "/layers.0/Div", "/layers.0/Mul_1", "/layers.0/linear1/Add_output_0", sum, "/ReduceSum");
	onnx_set(&onnx_node(m, "/fc/Gemm")->input[0], "/layers.0/Mul_1_output_0");
}

/* The mean of all tokens times how many they are, which the file leaves open. */
static void times_the_number(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/ReduceSum")->input[0], "/layers.0/norm2/Add_1_output_0");
	onnx_set(&onnx_node(m, "/Cast_1")->input[0], "/Gather_output_0");
	onnx_set(&onnx_node(m, "/Cast_2")->input[0], "/Constant_9_output_0");
	read_instead(m, "/Mul", "/Mul", "/layers.0/norm2/Add_1_output_0", "/Div_output_0", "/Div");
	onnx_set(&onnx_node(m, "/Mul")->input[1], "/Cast_1_output_0");
	onnx_set(&onnx_node(m, "/fc/Gemm")->input[0], "/Mul_output_0");
}

/* The same with one less. */
static void times_one_less(Onnx__Model *m)
{
	times_the_number(m);
	becomes(onnx_node(m, "/Cast_1"), "Sub", (const char *[]){"/Constant_1_output_0", NULL});
	onnx_set(&onnx_node(m, "/Cast_2")->input[0], "/Cast_1_output_0");
	onnx_set(&onnx_node(m, "/Clip")->input[1], "/layers.0/Constant_1_output_0");
	onnx_set(&onnx_node(m, "/Mul")->input[1], "/Cast_2_output_0");
}

/* The sum of all tokens times how many they are. */
static void sum_times_the_number(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Div")->op_type, "Mul");
}

/* The same, whose number stands in a torch.where. */
static void sum_times_a_chosen_number(Onnx__Model *m)
{
	becomes(onnx_node(m, "/Clip"), "Where",
		(const char *[]){"/layers.0/Constant_1_output_0", "/ReduceSum_1_output_0", NULL});
	onnx_set(&onnx_node(m, "/Clip")->input[0], "/Equal_output_0");
	sum_times_the_number(m);
}

/* The same with half of the number. */
static void times_half_the_number(Onnx__Model *m)
{
	times_one_less(m);
	becomes(onnx_node(m, "/Cast_1"), "Div", (const char *[]){"/layers.0/self_attn/Constant_3_output_0", NULL});
}

/* A mask of what tokens mean, not of padding. */
static void mask_of_content(Onnx__Model *m)
{
	onnx_set(&onnx_node(m, "/Unsqueeze_3")->input[0], "ids");
	becomes(onnx_node(m, "/Cast"), "Greater", (const char *[]){"/Constant_7_output_0", NULL});
	memcpy(onnx_attr(onnx_node(m, "/Constant_7"), "value")->t->raw_data.data, &(int64_t){9}, sizeof(int64_t));
}

/* ---- of texts: masks that are no padding masks, or causal ones of another form */

static const char where[] = "/layers.0/self_attn/Where_1", zero[] = "/Constant_2_output_0";

static void set_padding(Onnx__Model *m, int64_t id)
{
	onnx_set(&onnx_node(m, "/Unsqueeze_3")->input[0], "ids");
	becomes(onnx_node(m, "/Cast"), "Equal", IN("/Constant_7_output_0"));
	memcpy(onnx_attr(onnx_node(m, "/Constant_7"), "value")->t->raw_data.data, &id, sizeof id);
}

/* x · (ids == 7) */
static void one_word_alone(Onnx__Model *m)
{
	set_padding(m, 7);
}

/* x · (ids == 0) */
static void padding_alone(Onnx__Model *m)
{
	set_padding(m, 0);
}

/* x · (ids != 7) */
static void word_hidden(Onnx__Model *m)
{
	const char *user = m->graph->node[place_of(m, "/Cast") + 1]->name;

	set_padding(m, 7);
	onnx_set(&onnx_node(m, "/Cast")->output[0], "seven");
	add_node(m, user, "/Cast_output_0", "Not", IN("seven"));
}

static void ids_as_truth(Onnx__Model *m)
{
	add_int(add_node(m, "/emb/Gather", "truth", "Cast", IN("ids")), "to", 9);
	onnx_set(&onnx_node(m, "/emb/Gather")->input[1], "truth");
}

/* x · (int(mask / 2) > 0) */
static void half_a_mask(Onnx__Model *m)
{
	add_node(m, "/Cast", "half", "Mul", IN("/Unsqueeze_3_output_0", "/layers.0/Constant_2_output_0"));
	add_int(add_node(m, "/Cast", "whole", "Cast", IN("half")), "to", 7);
	becomes(onnx_node(m, "/Cast"), "Greater", IN(zero));
	onnx_set(&onnx_node(m, "/Cast")->input[0], "whole");
}

/* A mask [tokens, tokens] of ones. */
static void add_square(Onnx__Model *m)
{
	add_node(m, where, "side", "Concat", IN("/Unsqueeze_1_output_0", "/Unsqueeze_1_output_0"));
	add_node(m, where, "zeros", "ConstantOfShape", IN("side"));
	add_node(m, where, "ones", "Add", IN("zeros", "/layers.0/Constant_1_output_0"));
}

static void places_along_two_axes(Onnx__Model *m)
{
	add_square(m);
	add_node(m, where, "at", "Range", IN(zero, "/Gather_output_0", "/Constant_output_0"));
	add_node(m, where, "row", "Unsqueeze", IN("at", "/Constant_6_output_0"));
	add_node(m, where, "rows", "Expand", IN("row", "side"));
	add_node(m, where, "column", "Unsqueeze", IN("at", "/Constant_3_output_0"));
	add_node(m, where, "hide", "Greater", IN("column", "rows"));
	onnx_set(&onnx_node(m, where)->input[0], "hide");
}

static void one_key_ahead(Onnx__Model *m)
{
	add_square(m);
	add_int(add_node(m, where, "lower", "Trilu", IN("ones", "/Constant_output_0")), "upper", 0);
	add_node(m, where, "hide", "Equal", IN("lower", zero));
	onnx_set(&onnx_node(m, where)->input[0], "hide");
}

static void one_key_behind(Onnx__Model *m)
{
	add_square(m);
	add_node(m, where, "upper", "Trilu", IN("ones", "/layers.0/self_attn/Constant_16_output_0"));
	add_node(m, where, "hide", "Equal", IN("upper", zero));
	onnx_set(&onnx_node(m, where)->input[0], "hide");
}

/* What hides the keys before the query becomes [tokens, tokens, 1], and then [1, tokens, tokens]. */
static void mask_of_other_axes(Onnx__Model *m)
{
	add_square(m);
	add_node(m, where, "low", "Mul", IN("ones", "/layers.0/self_attn/Constant_18_output_0"));
	add_int(add_node(m, where, "hide", "Trilu", IN("low", "/layers.0/self_attn/Constant_16_output_0")), "upper", 0);
	add_node(m, where, "wide", "Unsqueeze", IN("hide", "/Constant_8_output_0"));
	add_ints(add_node(m, where, "turned", "Transpose", IN("wide")), "perm", (int64_t[]){2, 0, 1}, 3);
	onnx_set(&onnx_node(m, "/layers.0/self_attn/Mul_6")->input[0], "turned");
}

static void dropped_twice(Onnx__Model *m)
{
	static const char product[] = "/layers.0/self_attn/MatMul_2";
	const char *in[] = {"/layers.0/self_attn/Softmax_output_0", "/layers.0/Constant_2_output_0",
			    "/layers.0/dropout/Constant_1_output_0", NULL};

	add_node(m, product, "drop", "Dropout", in);
	in[0] = "drop";
	add_node(m, product, "again", "Dropout", in);
	onnx_set(&onnx_node(m, product)->input[0], "again");
}

static void mean_without_its_axis(Onnx__Model *m)
{
	add_int(onnx_node(m, "/layers.0/norm1/ReduceMean"), "keepdims", 0);
}

static const struct change {
	void (*change)(Onnx__Model *m);
	const char *says;
} of_texts[] = {
	{norm_of_a_sum, "its input 0 is a sum of tokens, which is read divided by their number"},
	{gelu_of_a_sum, "its input 0 is a sum of tokens, which is read divided by their number"},
	{mask_of_content, "it tells token ids up to 9 from others"},
	{times_the_number, "it computes with the number of samples or tokens, which is not known here"},
	{sum_times_the_number, "a sum of tokens is divided by how many they are"},
	{sum_times_a_chosen_number, "a sum of tokens is divided by how many they are"},
	{times_half_the_number, "it computes with the number of samples or tokens, which is not known here"},
	{times_one_less, "it computes with the number of samples or tokens, which is not known here"},
	{one_word_alone, "it tells token id 7 from others, where the padding, 0, is told from all others"},
	{padding_alone, "by a mask a value is multiplied that is 1 of real tokens"},
	{ids_as_truth, "it changes a type, which is not read"},
	{half_a_mask, "by a mask a value is multiplied that is 1 of real tokens"},
	{places_along_two_axes, "positions lie along one axis: compare at[None, :] with at[:, None]"},
	{one_key_ahead, "it is of no causal mask, whose diagonal is -1 or 0"},
	{one_key_behind, "it is of no causal mask, whose diagonal is 0 or 1"},
	{mask_of_other_axes, "its mask's queries and keys are not its last two axes"},
	{dropped_twice, "of scores of attention it is not read"},
	{mean_without_its_axis, "it mixes the tokens of a row"},
};

static void refuse_all(const char *path, const struct sl_model_spec *spec, const struct change *change, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Onnx__Model *m = onnx_read(path);
		struct sl_model *model;
		struct sl_fail fail = {0};
		enum sl_err err;

		change[i].change(m);
		err = onnx_build(m, spec, &model, &fail);
		if (err != SL_ERR_CONFIG || !strstr(fail.text, change[i].says))
			fail_msg("change %zu, \"%s\": %s \"%s\"", i, change[i].says, sl_err_name(err), fail.text);
		onnx__model__free_unpacked(m, NULL);
	}
}

static void texts_that_would_compute_something_else_are_refused(void **state)
{
	(void)state;
	refuse_all(text, &(struct sl_model_spec){.name = "token_mlp", .tokens = 12}, of_texts,
		   sizeof of_texts / sizeof of_texts[0]);
}

/* A mask of padding hides the token that the tokenizer pads with, or, where that is not known, any one. */
static void padding_is_the_tokenizers(void **state)
{
	static const int32_t pad[] = {7, -1, 0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		const struct sl_model_spec spec = {.name = "token_mlp", .tokens = 12, .pad = pad[i]};
		Onnx__Model *m = onnx_read(text);
		struct sl_model *model = NULL;
		struct sl_fail fail = {0};

		word_hidden(m);
		assert_int_equal(onnx_build(m, &spec, &model, &fail), pad[i] ? SL_OK : SL_ERR_CONFIG);
		if (pad[i])
			sl_model_close(model);
		else
			assert_non_null(strstr(fail.text, "token id 7 from others, where the padding, 0,"));
		onnx__model__free_unpacked(m, NULL);
	}
}

/* The tokens' values are multiplied by a mask of padding, in front of a convolution. */
static void mask_of_rows(Onnx__Model *m)
{
	static const char front[] = "/Transpose", words[] = "/emb/Gather_output_0";

	add_list(m, "padding", (int64_t[]){0}, 1);
	add_list(m, "last", (int64_t[]){2}, 1);
	add_node(m, front, "padded", "Equal", IN("ids", "padding"));
	add_node(m, front, "real", "Not", IN("padded"));
	add_node(m, front, "wide", "Unsqueeze", IN("real", "last"));
	add_int(add_node(m, front, "number", "Cast", IN("wide")), "to", 1);
	add_node(m, front, "masked", "Mul", IN(words, "number"));
	onnx_set(&onnx_node(m, front)->input[0], "masked");
}

/* A network that mixes the tokens of a row takes rows that are all padded to one length. */
static void rows_of_one_length(void **state)
{
	static const struct {
		int tokens, whole;
		bool masked;
		const char *says;
	} row[] = {{12, 12, false, NULL},
		   {12, 0, false, "it mixes the tokens of a row, so all rows need 12: give data.pad: max"},
		   {12, 11, false, "it mixes the tokens of a row, so all rows need 12: give data.pad: max"},
		   {11, 11, false, "model.tokens and data.max_length out, or make them 12"},
		   {11, 0, false, "model.tokens and data.max_length out, or make them 12"},
		   {12, 12, true, "2 modules are not read, which the lines above explain: conv (Conv), gru (GRU)"}};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		const struct sl_model_spec spec = {
			.name = "token_mlp", .tokens = row[i].tokens, .whole_rows = row[i].whole};
		Onnx__Model *m = onnx_read(rows);
		struct sl_model *model = NULL;
		struct sl_fail fail = {0};

		if (row[i].masked)
			mask_of_rows(m);
		if (onnx_build(m, &spec, &model, &fail) != (row[i].says ? SL_ERR_CONFIG : SL_OK) ||
		    (row[i].says && !strstr(fail.text, row[i].says)))
			fail_msg("row %zu: %s", i, fail.text);
		if (!row[i].says)
			sl_model_close(model);
		onnx__model__free_unpacked(m, NULL);
	}
}

/* ---- of images */

/* The scales of an upsampling, which torch's older exporter joins of two lists, are one constant of its newer one. */
static void one_constant(Onnx__Node *n, const float *v, int64_t count)
{
	Onnx__Tensor *t = malloc(sizeof *t);

	onnx__tensor__init(t);
	t->has_data_type = t->has_raw_data = true;
	t->data_type = 1; /* float */
	t->n_dims = 1;
	t->dims = malloc(sizeof *t->dims);
	t->dims[0] = count;
	t->raw_data.len = (size_t)count * sizeof *v;
	t->raw_data.data = malloc(t->raw_data.len);
	memcpy(t->raw_data.data, v, t->raw_data.len);
	onnx_set(&n->op_type, "Constant");
	while (n->n_input)
		free(n->input[--n->n_input]);
	onnx_drop_attr(n, "axis");
	onnx_add_attr(n, "value", 4, NULL);
	n->attribute[n->n_attribute - 1]->t = t;
}

static void scales_are_a_constant(void **state)
{
	static const float twice[] = {1, 1, 2, 2}, broken[] = {1, 1, 1.5f, 2};
	Onnx__Model *m = onnx_read(many);
	struct sl_model *joined, *one;
	struct sl_fail fail = {0};

	(void)state;
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){0}, &joined, &fail), SL_OK);
	one_constant(onnx_node(m, "/up/Concat"), twice, 4);
	if (onnx_build(m, &(struct sl_model_spec){0}, &one, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(one->graph.n_node, joined->graph.n_node);
	for (int i = 0; i < one->graph.n_value; i++)
		assert_true(sl_shape_equal(&one->graph.value[i].shape, &joined->graph.value[i].shape));
	sl_model_close(joined);
	sl_model_close(one);
	memcpy(onnx_attr(onnx_node(m, "/up/Concat"), "value")->t->raw_data.data, broken, sizeof broken);
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){0}, &one, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "its scale is no whole number"));
	onnx__model__free_unpacked(m, NULL);
}

/* Nodes without names, beside a parameter that is called as a constant of the newer exporter. */
static void nodes_without_names(void **state)
{
	Onnx__Model *m = onnx_read(small);
	struct sl_model *model;
	struct sl_fail fail = {0};

	(void)state;
	onnx_set(&onnx_tensor(m, "down.3.bias")->name, "val_3");
	onnx_set(&onnx_node(m, "/down/down.3/Conv")->input[2], "val_3");
	for (size_t i = 0; i < m->graph->n_node; i++) {
		free(m->graph->node[i]->name);
		m->graph->node[i]->name = NULL;
	}
	if (onnx_build(m, &(struct sl_model_spec){0}, &model, &fail))
		fail_msg("%s", fail.text);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* The first pixels of all, where an image has more than a million. */
static void axes_that_are_too_long(void **state)
{
	Onnx__Model *m = onnx_read(small);
	Onnx__Dimension **dim = m->graph->input[0]->type->tensor_type->shape->dim;
	struct sl_model *model;
	struct sl_fail fail = {0};

	(void)state;
	dim[2]->dim_value = dim[3]->dim_value = 1100;
	add_list(m, "shape", (int64_t[]){0, 3, -1}, 3);
	for (int i = 0; i < 3; i++)
		add_list(m, (const char *[]){"from", "to", "axis"}[i], &(int64_t){(int[]){0, 100, 2}[i]}, 1);
	becomes(onnx_node(m, "/stem/stem.0/Conv"), "Reshape", (const char *[]){"shape", NULL});
	becomes(onnx_node(m, "/stem/stem.1/BatchNormalization"), "Slice", (const char *[]){"from", "to", "axis", NULL});
	assert_int_equal(onnx_build(m, &(struct sl_model_spec){0}, &model, &fail), SL_ERR_CONFIG);
	if (!strstr(fail.text, "it cuts an axis of 1210000 numbers, where 1048576 are the most"))
		fail_msg("%s", fail.text);
	onnx__model__free_unpacked(m, NULL);
}

/* ---- of images: what would be passed over */

static const char flatten[] = "/Flatten", pooled[] = "/pool/AveragePool_output_0";

/* Steps of a slice that are no whole numbers. */
static void steps_unknown(Onnx__Model *m)
{
	for (int i = 0; i < 3; i++)
		add_list(m, (const char *[]){"from", "to", "axis"}[i], &(int64_t){(int[]){0, 2, 2}[i]}, 1);
	add_node(m, flatten, "cut", "Slice",
		 IN(pooled, "from", "to", "axis", "/classifier/classifier.0/Constant_output_0"));
	onnx_set(&onnx_node(m, flatten)->input[0], "cut");
}

/* Parts of 4 and 8 of 16 channels. */
static void parts_left_over(Onnx__Model *m)
{
	Onnx__Node *n = add_node(m, flatten, "a", "Split", IN(pooled, "sizes"));

	add_list(m, "sizes", (int64_t[]){4, 8}, 2);
	add_int(n, "axis", 1);
	n->output[n->n_output++] = strdup("b");
	add_int(add_node(m, flatten, "all", "Concat", IN("a", "b", "a")), "axis", 1);
	onnx_set(&onnx_node(m, flatten)->input[0], "all");
}

static void axis_not_there(Onnx__Model *m)
{
	add_list(m, "axis", (int64_t[]){5}, 1);
	add_node(m, flatten, "less", "Squeeze", IN(pooled, "axis"));
	onnx_set(&onnx_node(m, flatten)->input[0], "less");
}

static void norm_of_no_axis(Onnx__Model *m)
{
	add_int(add_node(m, flatten, "norm", "LayerNormalization", IN(pooled, "block.bn1.weight")), "axis", -9);
	onnx_set(&onnx_node(m, flatten)->input[0], "norm");
}

static Onnx__Tensor *add_matrix(Onnx__Model *m, const int64_t *v, int64_t count)
{
	Onnx__Tensor *t;

	add_list(m, "matrix", v, count);
	t = onnx_tensor(m, "matrix");
	t->dims = realloc(t->dims, 2 * sizeof *t->dims);
	t->n_dims = 2;
	t->dims[0] = 2;
	t->dims[1] = count / 2;
	return t;
}

static void row_of_a_matrix(Onnx__Model *m)
{
	add_matrix(m, (int64_t[]){9, 9, -1, 64}, 4);
	add_list(m, "one", (int64_t[]){1}, 1);
	onnx_tensor(m, "one")->n_dims = 0;
	add_node(m, flatten, "row", "Gather", IN("matrix", "one"));
	becomes(onnx_node(m, flatten), "Reshape", IN("row"));
}

static const struct change of_images[] = {
	{steps_unknown, "where it cuts is not constant"},
	{parts_left_over, "its sizes are not those of its input"},
	{axis_not_there, "axis 5 is not there"},
	{norm_of_no_axis, "with parameters it is over the last axis alone"},
	{row_of_a_matrix, "it picks rows of a matrix of whole numbers, of which lists are read"},
};

static void images_that_would_compute_something_else_are_refused(void **state)
{
	(void)state;
	refuse_all(small, &(struct sl_model_spec){0}, of_images, sizeof of_images / sizeof of_images[0]);
}

/* An initializer of one float, 0, as exporters write the value of a border. */
static void add_zero(Onnx__Model *m, const char *name)
{
	Onnx__Tensor *t;

	add_list(m, name, (int64_t[]){0}, 1);
	t = onnx_tensor(m, name);
	t->data_type = 1;
	t->n_dims = t->n_int64_data = 0;
	t->n_float_data = 1;
	t->float_data = calloc(1, sizeof *t->float_data);
}

/* A Transpose that keeps the order of a matrix of pads: the images move by one pixel, over a border of 0. */
static void a_matrix_that_stays(void **state)
{
	Onnx__Model *m = onnx_read(small);
	struct sl_model *model;
	struct sl_fail fail = {0};

	(void)state;
	add_matrix(m, (int64_t[]){0, 0, 0, 1, 0, 0, 0, -1}, 8);
	add_list(m, "list", (int64_t[]){-1}, 1);
	add_ints(add_node(m, flatten, "same", "Transpose", IN("matrix")), "perm", (int64_t[]){0, 1}, 2);
	add_node(m, flatten, "pads", "Reshape", IN("same", "list"));
	add_zero(m, "zero");
	add_node(m, flatten, "moved", "Pad", IN(pooled, "pads", "zero"));
	onnx_set(&onnx_node(m, flatten)->input[0], "moved");
	if (onnx_build(m, &(struct sl_model_spec){0}, &model, &fail))
		fail_msg("%s", fail.text);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

/* Attention within two windows of 8 tokens, [batch · windows, heads, tokens, features]: tokens of a window come
 * together again, not those of all windows by turns. */
static void attention_of_windows(void **state)
{
	Onnx__Model *m = onnx_read(small);
	const struct sl_permute_attr *back = NULL;
	struct sl_model *model;
	struct sl_fail fail = {0};

	(void)state;
	add_list(m, "heads", (int64_t[]){-1, 2, 8, 2}, 4);
	add_list(m, "rows", (int64_t[]){-1, 64}, 2);
	add_node(m, flatten, "q", "Reshape", IN(pooled, "heads"));
	add_ints(add_node(m, flatten, "k", "Transpose", IN("q")), "perm", (int64_t[]){0, 1, 3, 2}, 4);
	add_node(m, flatten, "scores", "MatMul", IN("q", "k"));
	add_node(m, flatten, "soft", "Softmax", IN("scores"));
	add_node(m, flatten, "attend", "MatMul", IN("soft", "q"));
	add_ints(add_node(m, flatten, "tokens", "Transpose", IN("attend")), "perm", (int64_t[]){0, 2, 1, 3}, 4);
	becomes(onnx_node(m, flatten), "Reshape", IN("rows"));
	onnx_set(&onnx_node(m, flatten)->input[0], "tokens");
	if (onnx_build(m, &(struct sl_model_spec){0}, &model, &fail))
		fail_msg("%s", fail.text);
	for (int i = 0; i < model->graph.n_node; i++)
		if (model->graph.node[i].kind == SL_OP_PERMUTE)
			back = &model->graph.node[i].u.permute;
	assert_true(back && back->outer == 1 && back->b == 8 && back->c == 2);
	sl_model_close(model);
	onnx__model__free_unpacked(m, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(padding_is_the_tokenizers),
		cmocka_unit_test(texts_that_would_compute_something_else_are_refused),
		cmocka_unit_test(rows_of_one_length),
		cmocka_unit_test(scales_are_a_constant),
		cmocka_unit_test(axes_that_are_too_long),
		cmocka_unit_test(nodes_without_names),
		cmocka_unit_test(images_that_would_compute_something_else_are_refused),
		cmocka_unit_test(a_matrix_that_stays),
		cmocka_unit_test(attention_of_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
