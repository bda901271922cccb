/* ONNX files from an unknown source: the bytes themselves; and modified nodes, attributes and
 * tensors of six files that torch wrote, which mutated bytes would rarely reach. A file makes a
 * graph that can be cut, with weights for all of its parameters, or is refused in one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx.h"
#include "common/base/log.h"
#include "common/conf/networks.h"
#include "common/graph/cut.h"
#include "proto/onnx.pb-c.h"

static void read_one(const uint8_t *data, size_t size, bool texts)
{
	static const struct sl_model_spec pictures, ids = {.name = SL_CONF_ONNX_TEXTS, .tokens = 12, .whole_rows = 12};
	struct sl_fail fail = {0};
	struct sl_model *model;
	struct sl_onnx *onnx;
	struct sl_cut cut;
	enum sl_err err = sl_onnx_parse(&onnx, "fuzz", (struct sl_bytes){data, size}, &fail);

	if (!err) {
		err = sl_onnx_build(&model, onnx, texts ? &ids : &pictures, &fail);
		sl_onnx_close(onnx);
	}
	if (err) {
		if (!fail.text[0] || strchr(fail.text, '\n'))
			abort();
		return;
	}
	(void)!sl_cut_find(&cut, model, "1:-1", NULL, NULL, 1, &fail);
	if (model->n_unit < 1 || model->graph.n_param != model->n_plain)
		abort();
	sl_model_close(model);
}

enum { TEXT = 3, ROWS, FILES = 6 };

static Onnx__Model *base(int which)
{
	static const char *const path[FILES] = {"tests/golden/onnx_small.onnx", "tests/golden/onnx_wide.onnx",
						"tests/golden/onnx_many.onnx",  "tests/golden/onnx_text.onnx",
						"tests/golden/onnx_rows.onnx",  "tests/golden/onnx_steps.onnx"};
	static uint8_t *data[FILES];
	static size_t len[FILES];
	struct sl_fail fail;

	if (!data[which] && sl_file_read(path[which], 1 << 20, &data[which], &len[which], &fail))
		abort(); /* the working directory is the tree's root */
	return onnx__model__unpack(NULL, len[which], data[which]);
}

struct dice {
	const uint8_t *data;
	size_t left;
};

static unsigned roll(struct dice *d, size_t below)
{
	unsigned v = 0;

	for (int i = 0; i < 2 && d->left; i++, d->left--)
		v = v << 8 | *d->data++;
	return below ? v % (unsigned)below : 0;
}

static int64_t number(struct dice *d)
{
	static const int64_t some[] = {0,  1,         -1,         2,         3,        4,        5,
				       16, INT32_MAX, INT64_MAX,  INT64_MIN, 1 << 20,  1 << 24,  (int64_t)1 << 40,
				       64, -2,        UINT32_MAX, 12,        INT8_MAX, INT16_MAX};

	return some[roll(d, sizeof some / sizeof some[0])];
}

static void rename_to(char **text, const char *to)
{
	char *copy = strdup(to);

	free(*text);
	*text = copy;
}

static const char *some_name(const Onnx__Graph *g, struct dice *d)
{
	const Onnx__Node *n = g->node[roll(d, g->n_node)];

	switch (roll(d, 3)) {
	case 0:
		return g->initializer[roll(d, g->n_initializer)]->name;
	case 1:
		return n->n_output ? n->output[roll(d, n->n_output)] : "";
	default:
		return g->input[0]->name;
	}
}

static Onnx__Shape *input_shape(const Onnx__Graph *g)
{
	return g->input[0]->type->tensor_type->shape;
}

static void change_attribute(Onnx__Node *n, struct dice *d)
{
	Onnx__Attribute *a = n->n_attribute ? n->attribute[roll(d, n->n_attribute)] : NULL;

	if (!a)
		return;
	switch (roll(d, 4)) {
	case 0:
		a->i = number(d);
		a->f = (float)number(d);
		break;
	case 1:
		a->type = (int32_t)number(d);
		break;
	case 2:
		a->n_ints = roll(d, a->n_ints + 1);
		break;
	default:
		if (a->n_ints)
			a->ints[roll(d, a->n_ints)] = number(d);
		else if (a->t && a->t->raw_data.len)
			a->t->raw_data.data[roll(d, a->t->raw_data.len)] = (uint8_t)number(d);
	}
}

static void change(Onnx__Graph *g, struct dice *d)
{
	static const char *const kinds[] = {"Add",
					    "AveragePool",
					    "BatchNormalization",
					    "Clip",
					    "Constant",
					    "Conv",
					    "Dropout",
					    "Flatten",
					    "Gemm",
					    "GlobalAveragePool",
					    "Pad",
					    "Identity",
					    "MaxPool",
					    "Relu",
					    "ReduceMean",
					    "Mul",
					    "Sigmoid",
					    "Concat",
					    "Reshape",
					    "HardSwish",
					    "MatMul",
					    "Slice",
					    "Split",
					    "Transpose",
					    "Unsqueeze",
					    "Squeeze",
					    "Softmax",
					    "Resize",
					    "PRelu",
					    "Sub",
					    "Div",
					    "Pow",
					    "Elu",
					    "InstanceNormalization",
					    "ConvTranspose",
					    "Cast",
					    "Expand",
					    "Where",
					    "LayerNormalization",
					    "Shape",
					    "Gather",
					    "ConstantOfShape",
					    "DepthToSpace",
					    "GlobalMaxPool",
					    "ReduceMax",
					    "Log",
					    "Exp",
					    "Reciprocal",
					    "Softsign",
					    "Erf",
					    "Sqrt",
					    "Trilu",
					    "Equal",
					    "Not",
					    "Greater",
					    "Range",
					    "ReduceSum",
					    "Max",
					    "Abs"};
	Onnx__Node *n = g->node[roll(d, g->n_node)];
	Onnx__Tensor *t = g->initializer[roll(d, g->n_initializer)];

	switch (roll(d, 8)) {
	case 0:
		rename_to(&n->op_type, kinds[roll(d, sizeof kinds / sizeof kinds[0])]);
		break;
	case 1:
		if (n->n_input)
			rename_to(&n->input[roll(d, n->n_input)], some_name(g, d));
		break;
	case 2:
		if (t->n_dims)
			t->dims[roll(d, t->n_dims)] = number(d);
		break;
	case 3:
		t->raw_data.len = roll(d, t->raw_data.len + 1);
		t->data_type = (int32_t)roll(d, 12);
		break;
	case 4:
		rename_to(&g->output[0]->name, some_name(g, d));
		break;
	case 5:
		rename_to(&n->name, roll(d, 2) ? "/a/a.1/Relu" : some_name(g, d));
		break;
	case 6:
		if (input_shape(g)->n_dim)
			input_shape(g)->dim[roll(d, input_shape(g)->n_dim)]->dim_value = number(d);
		break;
	default:
		change_attribute(n, d);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dice d = {data, size};
	Onnx__Model *m;
	uint8_t *bytes;
	size_t len;
	int which;

	sl_log_set_level(SL_LOG_ERROR); /* refusals log many lines */
	if (size < 2 || data[0] % 4) {
		read_one(data, size, size && data[0] % 4 == 1);
		return 0;
	}
	which = data[0] / 4 % FILES;
	m = base(which);
	for (int i = 0; i < 8 && d.left; i++)
		change(m->graph, &d);
	len = onnx__model__get_packed_size(m);
	bytes = malloc(len);
	onnx__model__pack(m, bytes);
	read_one(bytes, len, which == TEXT || which == ROWS);
	free(bytes);
	onnx__model__free_unpacked(m, NULL);
	return 0;
}
