/* ONNX files that are malicious or broken: each is refused in one line with the right status, within seconds, and in
 * memory that is bounded by the size of the file. A child process reads each of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/support/onnx_change.h"

static const char small[] = "tests/golden/onnx_small.onnx", wide[] = "tests/golden/onnx_wide.onnx",
		  many[] = "tests/golden/onnx_many.onnx", steps[] = "tests/golden/onnx_steps.onnx";
static const char conv[] = "/block/conv1/Conv", weight[] = "block.conv1.weight";
enum { SECONDS = 20, MEBIBYTE = 1 << 20 };

/* ---- changes to the node or tensor `at` of a file that torch wrote */

struct hostile;
typedef void change(Onnx__Model *m, const struct hostile *h);

struct hostile {
	const char *what, *file;
	change *change;
	const char *at, *word; /* a node or tensor; an attribute or a name */
	int64_t number;
	enum sl_err err;
	const char *says;
};

static void input(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_node(m, h->at)->input[h->number], h->word);
}

static void kind(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_node(m, h->at)->op_type, h->word);
}

static void attribute(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Attribute *a = onnx_attr(onnx_node(m, h->at), h->word);

	a->i = h->number;
	a->f = h->number == INT64_MIN ? NAN : (float)h->number;
	for (size_t i = 0; i < a->n_ints; i++)
		a->ints[i] = h->number;
}

static void no_attribute(Onnx__Model *m, const struct hostile *h)
{
	onnx_drop_attr(onnx_node(m, h->at), h->word);
}

static void dimension(Onnx__Model *m, const struct hostile *h)
{
	onnx_tensor(m, h->at)->dims[0] = h->number;
}

static void all_dimensions(Onnx__Model *m, const struct hostile *h)
{
	for (size_t i = 0; i < onnx_tensor(m, h->at)->n_dims; i++)
		onnx_tensor(m, h->at)->dims[i] = h->number;
}

static void many_dimensions(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Tensor *t = onnx_tensor(m, h->at);

	t->dims = realloc(t->dims, (size_t)h->number * sizeof *t->dims);
	for (; t->n_dims < (size_t)h->number; t->n_dims++)
		t->dims[t->n_dims] = 1;
}

static void type(Onnx__Model *m, const struct hostile *h)
{
	onnx_tensor(m, h->at)->data_type = (int32_t)h->number;
}

/* Sets a constant of int64 or float32; INT64_MIN stands for NaN. */
static void constant(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Tensor *t = onnx_attr(onnx_node(m, h->at), "value")->t;
	const float f = h->number == INT64_MIN ? NAN : (float)h->number;

	for (size_t i = 0; i < t->raw_data.len / (t->data_type == 7 ? 8 : 4); i++)
		if (t->data_type == 7)
			memcpy(t->raw_data.data + 8 * i, &h->number, 8);
		else
			memcpy(t->raw_data.data + 4 * i, &f, 4);
}

static void external(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Tensor *t = onnx_tensor(m, h->at);
	Onnx__Entry *e = malloc(sizeof *e);

	onnx__entry__init(e);
	e->key = strdup("location");
	e->value = strdup(h->word);
	t->external_data = malloc(sizeof *t->external_data);
	t->external_data[t->n_external_data++] = e;
	t->has_data_location = h->number != 0;
	t->data_location = (int32_t)h->number;
}

static char *long_text(int64_t bytes)
{
	char *text = malloc((size_t)bytes + 1);

	memset(text, 'a', (size_t)bytes);
	text[0] = '/';
	text[bytes / 2] = '/';
	text[bytes] = 0;
	return text;
}

static void replace(char **text, int64_t bytes)
{
	free(*text);
	*text = long_text(bytes);
}

static void long_node(Onnx__Model *m, const struct hostile *h)
{
	replace(&onnx_node(m, h->at)->name, h->number);
	attribute(m, &(struct hostile){.at = "/stem/stem.0/Conv", .word = "strides", .number = -1});
}

static void long_kind(Onnx__Model *m, const struct hostile *h)
{
	replace(&onnx_node(m, h->at)->op_type, h->number);
}

static void long_attribute(Onnx__Model *m, const struct hostile *h)
{
	replace(&onnx_attr(onnx_node(m, h->at), h->word)->name, h->number);
}

static void long_tensor(Onnx__Model *m, const struct hostile *h)
{
	replace(&onnx_tensor(m, weight)->name, h->number);
	replace(&onnx_node(m, conv)->input[1], h->number);
}

static void long_output(Onnx__Model *m, const struct hostile *h)
{
	(void)h;
	replace(&m->graph->output[0]->name, MEBIBYTE);
}

static void same_tensor(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_tensor(m, h->at)->name, h->word);
}

static void same_output(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_node(m, h->at)->output[0], h->word);
}

static void cycle(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_node(m, "/block/conv1/Conv")->input[0], "/block/relu/Relu_output_0");
	(void)h;
}

static void backwards(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Graph *g = m->graph;

	(void)h;
	for (size_t i = 0; i < g->n_node / 2; i++) {
		Onnx__Node *n = g->node[i];

		g->node[i] = g->node[g->n_node - 1 - i];
		g->node[g->n_node - 1 - i] = n;
	}
}

static void side(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Dimension *d = m->graph->input[0]->type->tensor_type->shape->dim[h->at[0] - '0'];

	d->has_dim_value = true;
	d->dim_value = h->number;
}

static void classes(Onnx__Model *m, const struct hostile *h)
{
	m->graph->output[0]->type->tensor_type->shape->dim[1]->dim_value = h->number;
}

static void no_type(Onnx__Model *m, const struct hostile *h)
{
	(void)h;
	onnx__type__free_unpacked(m->graph->input[0]->type, NULL);
	m->graph->input[0]->type = NULL;
}

static void input_type(Onnx__Model *m, const struct hostile *h)
{
	m->graph->input[0]->type->tensor_type->elem_type = (int32_t)h->number;
}

static void opset(Onnx__Model *m, const struct hostile *h)
{
	m->opset_import[0]->version = h->number;
}

static void no_nodes(Onnx__Model *m, const struct hostile *h)
{
	(void)h;
	while (m->graph->n_node)
		onnx__node__free_unpacked(m->graph->node[--m->graph->n_node], NULL);
}

static void no_outputs(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Node *n = onnx_node(m, h->at);

	while (n->n_output)
		free(n->output[--n->n_output]);
}

static void no_tensor(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Attribute *a = onnx_attr(onnx_node(m, h->at), "value");

	onnx__tensor__free_unpacked(a->t, NULL);
	a->t = NULL;
}

static void unnamed_attribute(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Attribute *a = onnx_attr(onnx_node(m, h->at), h->word);

	free(a->name);
	a->name = NULL;
}

static void more_nodes(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Graph *g = m->graph;

	g->node = realloc(g->node, (g->n_node + (size_t)h->number) * sizeof *g->node);
	for (int64_t i = 0; i < h->number; i++) {
		Onnx__Node *n = malloc(sizeof *n);

		onnx__node__init(n);
		n->op_type = strdup("Relu");
		g->node[g->n_node++] = n;
	}
}

static void more_tensors(Onnx__Model *m, const struct hostile *h)
{
	Onnx__Graph *g = m->graph;

	g->initializer = realloc(g->initializer, (g->n_initializer + (size_t)h->number) * sizeof *g->initializer);
	for (int64_t i = 0; i < h->number; i++) {
		g->initializer[g->n_initializer] = malloc(sizeof **g->initializer);
		onnx__tensor__init(g->initializer[g->n_initializer]);
		g->initializer[g->n_initializer++]->name = long_text(64);
	}
}

static void line_break(Onnx__Model *m, const struct hostile *h)
{
	onnx_set(&onnx_node(m, h->at)->name, h->word);
	onnx_attr(onnx_node(m, h->word), "strides")->ints[0] = -1;
}

#define HUGE (INT64_C(1) << 62)
#define CONF SL_ERR_CONFIG
#define DATA SL_ERR_DATA

static const struct hostile hostiles[] = {
	{"a node reads itself", small, input, conv, "/block/conv1/Conv_output_0", 0, CONF,
	 "which this node or a later one makes"},
	{"two nodes read each other", small, cycle, NULL, NULL, 0, CONF, "which this node or a later one makes"},
	{"nodes in the wrong order", small, backwards, NULL, NULL, 0, CONF, "which this node or a later one makes"},
	{"a file outside the folder", small, external, weight, "../../etc/passwd", 1, CONF, "lies in another file"},
	{"an absolute path", small, external, weight, "/etc/passwd", 1, CONF, "lies in another file"},
	{"a path without its mark", small, external, weight, "/dev/zero", 0, CONF, "lies in another file"},
	{"2^62 rows", small, dimension, weight, NULL, HUGE, DATA, "which no tensor can be"},
	{"2^62 of each", small, all_dimensions, weight, NULL, HUGE, DATA, "which no tensor can be"},
	{"2^32 of each: a product of 0", small, all_dimensions, weight, NULL, INT64_C(1) << 32, DATA,
	 "no tensor can be"},
	{"the least of all numbers", small, dimension, weight, NULL, INT64_MIN, DATA, "which no tensor can be"},
	{"no rows", small, dimension, weight, NULL, 0, DATA, "its data are not as long"},
	{"100000 dimensions", small, many_dimensions, weight, NULL, 100000, DATA, "where 8 are the most"},
	{"a weight of whole numbers", small, type, weight, NULL, 7, DATA, "its data are not as long"},
	{"a weight of texts", small, type, weight, NULL, 8, CONF, "is of type 8, where float32 is read"},
	{"a weight of no type", small, type, weight, NULL, -1, CONF, "is of type -1, where float32 is read"},
	{"a megabyte for a node's name", small, long_node, "/stem/stem.1/BatchNormalization", NULL, MEBIBYTE, CONF,
	 "strides: -1"},
	{"a megabyte for a kind", small, long_kind, conv, NULL, MEBIBYTE, CONF, "this kind is not read"},
	{"a megabyte for an attribute", small, long_attribute, conv, "pads", MEBIBYTE, CONF, "is not read"},
	{"a megabyte for a tensor", small, long_tensor, NULL, NULL, MEBIBYTE, CONF, "is longer than 95 bytes"},
	{"a megabyte for the output", small, long_output, NULL, NULL, 0, CONF, "no node makes its output"},
	{"two tensors of one name", small, same_tensor, "down.3.bias", "block.bn1.bias", 0, DATA, "two initializers"},
	{"two outputs of one name", small, same_output, conv, "/stem/stem.0/Conv_output_0", 0, DATA, "two values"},
	{"an output like a tensor", small, same_output, conv, "down.3.bias", 0, DATA, "two values are called"},
	{"an output like the input", small, same_output, conv, "input.1", 0, DATA, "two values are called"},
	{"pads without a size", small, attribute, conv, "pads", -HUGE, CONF, "is not in 0 …"},
	{"huge pads", small, attribute, conv, "pads", SL_GRAPH_MOST_NODES << 7, CONF, "block.conv1"},
	{"huge strides", small, attribute, conv, "strides", HUGE, CONF, "is not in 1 …"},
	{"huge dilations", small, attribute, conv, "dilations", 1 << 20, CONF, "no smaller than its window"},
	{"the least of all groups", small, attribute, conv, "group", INT64_MIN, CONF, "which does not fit"},
	{"2^32 + 1 groups", small, attribute, conv, "group", (INT64_C(1) << 32) + 1, CONF, "which does not fit"},
	{"a window without a size", small, no_attribute, "/stem/stem.3/MaxPool", "kernel_shape", 0, CONF,
	 "kernel_shape"},
	{"a constant without a tensor", small, no_tensor, "/pool/Constant", NULL, 0, CONF,
	 "no tensor in its attribute"},
	{"a constant without its value", small, no_attribute, "/pool/Constant", "value", 0, CONF, "no tensor"},
	{"an attribute without a name", small, unnamed_attribute, conv, "pads", 0, DATA, "an attribute without a name"},
	{"a batch norm without its mode", small, no_attribute, "/down/down.1/BatchNormalization", "training_mode", 0,
	 CONF, "of a network in evaluation"},
	{"a linear layer without its order", small, no_attribute, "/classifier/classifier.4/Gemm", "transB", 0, CONF,
	 "transB is 0"},
	{"an epsilon that is no number", small, attribute, "/down/down.1/BatchNormalization", "epsilon", INT64_MIN,
	 CONF, "do not lie in 0 … 1"},
	{"a ratio that is no number", small, constant, "/classifier/classifier.0/Constant", NULL, INT64_MIN, CONF,
	 "its ratio is no constant"},
	{"einsum without an equation", many, kind, "/block/attn/MatMul_2", "Einsum", 0, CONF, "torch's einsum"},
	{"a bound that is no number", small, constant, "/down/down.2/Constant_1", NULL, INT64_MIN, CONF,
	 "bound is nan"},
	{"a border of 2^62", small, constant, "/pool/Constant", NULL, HUGE, CONF, "it pads the batch"},
	{"a negative axis to flatten", small, attribute, "/Flatten", "axis", -9, CONF, "axis is -9, where 1 is read"},
	{"the least of all axes", small, attribute, "/Flatten", "axis", INT64_MIN, CONF, "where 1 is read"},
	{"an axis that is not there", wide, attribute, "/Concat", "axis", -9, CONF, "joins values along axis"},
	{"a huge axis", wide, attribute, "/Concat", "axis", INT64_MAX, CONF, "joins values along axis"},
	{"no axis", wide, no_attribute, "/Concat", "axis", 0, CONF, "joins values along axis 0"},
	{"a negative order", many, attribute, "/block/attn/Transpose_2", "perm", -1, CONF, "is no order"},
	{"an order of one axis", many, attribute, "/block/attn/Transpose_2", "perm", 1, CONF, "is no order"},
	{"a mean over axis 2^62", many, attribute, "/ReduceMean", "axes", HUGE, CONF, "its axes are no constants"},
	{"groups of 2^62", many, constant, "/stem/stem.1/Constant", NULL, HUGE, CONF, "not that of all numbers"},
	{"windows of 2^62", many, attribute, "/right/ConvTranspose", "kernel_shape", HUGE, CONF, "kernel_shape"},
	{"windows that cover the strides", many, attribute, "/right/ConvTranspose", "strides", 1 << 20, CONF,
	 "of transposed convolutions"},
	{"images of 2^62 times the size", many, constant, "/up/Constant_1", NULL, HUGE, CONF,
	 "give nn.Upsample a size"},
	{"gates in another order", steps, constant, "/lstm/Constant_5", NULL, 3, CONF, "not as torch writes them"},
	{"gates of 2^62", steps, constant, "/lstm/Constant_5", NULL, HUGE, CONF, "not as torch writes them"},
	{"another hidden size", steps, attribute, "/gru/GRU", "hidden_size", 5, CONF, "not as torch writes them"},
	{"a hidden size of 2^62", steps, attribute, "/lstm/LSTM", "hidden_size", HUGE, CONF, "it is none of torch's"},
	{"a negative hidden size", steps, attribute, "/lstm/LSTM", "hidden_size", -1, CONF, "it is none of torch's"},
	{"a reset before the product", steps, attribute, "/gru/GRU", "linear_before_reset", 0, CONF,
	 "it is none of torch's"},
	{"a state of ones", steps, constant, "/lstm/Constant", NULL, 1, CONF, "it begins from a state of its own"},
	{"a layer that is its own weights", steps, input, "/gru/GRU", "/gru/GRU_output_0", 1, CONF,
	 "not as torch writes them"},
	{"weights from nowhere", steps, input, "/gru/GRU", "nowhere", 2, CONF, "not as torch writes them"},
	{"a slice of nothing", steps, input, "/gru/Slice", "nowhere", 0, CONF, "not as torch writes them"},
	{"no division", many, constant, "/Constant_6", NULL, 0, CONF, "it computes a shape in a way that is not read"},
	{"a sum that overflows", many, constant, "/Constant_5", NULL, INT64_MAX, CONF, "computes a shape"},
	{"a product that overflows", many, constant, "/Constant_7", NULL, INT64_MAX, CONF, "computes a shape"},
	{"the last of no numbers", many, constant, "/Constant_3", NULL, INT64_MIN, CONF, "it picks number"},
	{"a network of one kind that is not read", small, kind, conv, "If", 0, CONF, "a branch on values"},
	{"images of 2^62", small, side, "2", NULL, HUGE, CONF, "height and width must lie in"},
	{"images without pixels", small, side, "3", NULL, 0, CONF, "how large its images are"},
	{"negative images", small, side, "2", NULL, -1, CONF, "height and width must lie in"},
	{"no channels", small, side, "1", NULL, 0, CONF, "channels, where images have 1 to 16"},
	{"2^62 classes", small, classes, NULL, NULL, HUGE, CONF, "is not [batch, classes]"},
	{"an input of no type", small, no_type, NULL, NULL, 0, CONF,
	 "is not of floats, [batch, channels, height, width] of images"},
	{"an input of doubles", small, input_type, NULL, NULL, 11, CONF,
	 "is not of floats, [batch, channels, height, width] of images"},
	{"opset of 2^62", small, opset, NULL, NULL, HUGE, CONF, "where 13 to 20 are read"},
	{"a negative opset", small, opset, NULL, NULL, INT64_MIN, CONF, "where 13 to 20 are read"},
	{"no nodes", small, no_nodes, NULL, NULL, 0, CONF, "no node makes its output"},
	{"a node without an output", small, no_outputs, conv, NULL, 0, DATA, "has no kind, or no output"},
	{"9000 nodes", small, more_nodes, NULL, NULL, 9000, SL_ERR_DATA, "where 8192 are the most"},
	{"20000 tensors", small, more_tensors, NULL, NULL, 20000, SL_ERR_DATA, "where 16384 are the most"},
	{"a name of two lines", small, line_break, conv, "a\nb\033[31m", 0, CONF, "strides"},
};

/* ---- bytes that no protobuf library would write */

struct bytes {
	uint8_t *data;
	size_t len;
};

static size_t put_varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v > 127; v >>= 7)
		to[n++] = (uint8_t)(v | 128);
	to[n++] = (uint8_t)v;
	return n;
}

/* Wraps the bytes in a message, as its field `number`, with a length prefix. */
static void wrap(struct bytes *b, unsigned number)
{
	uint8_t head[16];
	size_t n = put_varint(head, number << 3 | 2);

	n += put_varint(head + n, b->len);
	b->data = realloc(b->data, b->len + n);
	memmove(b->data + n, b->data, b->len);
	memcpy(b->data, head, n);
	b->len += n;
}

/* Graphs inside attributes of nodes of graphs, 3000 deep. */
static struct bytes nested(void)
{
	struct bytes b = {calloc(1, 1), 0};

	for (int i = 0; i < 3000; i++) {
		wrap(&b, 6); /* Attribute.g */
		wrap(&b, 5); /* Node.attribute */
		wrap(&b, 1); /* Graph.node */
	}
	wrap(&b, 7);
	return b;
}

/* A megabyte of nodes of two bytes each. */
static struct bytes tiny_nodes(void)
{
	struct bytes b = {malloc(MEBIBYTE), MEBIBYTE};

	for (size_t i = 0; i < b.len; i += 2)
		memcpy(b.data + i, "\x0a\x00", 2);
	wrap(&b, 7);
	return b;
}

static struct bytes from(const char *text, size_t len)
{
	struct bytes b = {malloc(len), len};

	memcpy(b.data, text, len);
	return b;
}

static struct bytes long_length(void)
{
	return from("\x3a\xff\xff\xff\xff\x07", 6);
}

static struct bytes endless_number(void)
{
	return from("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
}

static struct bytes open_group(void)
{
	return from("\x3b\x3b\x3b\x3b", 4);
}

static const struct {
	const char *what;
	struct bytes (*make)(void);
	enum sl_err err;
} byte_files[] = {
	{"3000 graphs, one inside the other", nested, CONF},
	{"half a million nodes", tiny_nodes, SL_ERR_DATA},
	{"a length of 2 GiB", long_length, DATA},
	{"a number without an end", endless_number, DATA},
	{"a group that nothing closes", open_group, DATA},
};

/* ---- a child process for each file */

struct verdict {
	enum sl_err err;
	struct sl_fail fail;
};

static void read_here(struct bytes b, int to)
{
	const struct sl_model_spec spec = {.image = 0};
	struct verdict v = {0};
	struct sl_onnx *onnx;
	struct sl_model *model;

	alarm(SECONDS);
	sl_log_set_level(SL_LOG_ERROR);
	v.err = sl_onnx_parse(&onnx, "x.onnx", (struct sl_bytes){b.data, b.len}, &v.fail);
	if (!v.err) {
		v.err = sl_onnx_build(&model, onnx, &spec, &v.fail);
		sl_onnx_close(onnx);
	}
	_exit(write(to, &v, sizeof v) == sizeof v ? 0 : 1);
}

/* Returns the reader's verdict. Its memory is bounded by 24 times the file, whose smallest parts
 * are some bytes each, and 16 MiB. */
static struct verdict read_elsewhere(struct bytes b, const char *what)
{
	struct verdict v = {0};
	struct rusage before, after;
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	getrusage(RUSAGE_SELF, &before);
	child = fork();
	if (!child)
		read_here(b, ends[1]);
	assert_int_equal(wait4(child, &status, 0, &after), child);
	close(ends[1]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) || read(ends[0], &v, sizeof v) != sizeof v)
		fail_msg("%s: status %#x", what, (unsigned)status);
	close(ends[0]);
	if (after.ru_maxrss - before.ru_maxrss > 16 * 1024 + (long)(b.len >> 10) * 24)
		fail_msg("%s: %ld KiB for a file of %zu bytes", what, after.ru_maxrss - before.ru_maxrss, b.len);
	free(b.data);
	return v;
}

static int wrong;

static void check(const char *what, const struct verdict *v, enum sl_err err, const char *says)
{
	if (v->err != err || !strstr(v->fail.text, says)) {
		print_error("%s: %s \"%s\"\n", what, sl_err_name(v->err), v->fail.text);
		wrong++;
	}
	for (const char *c = v->fail.text; *c; c++)
		if ((unsigned char)*c < ' ' && wrong++ >= 0)
			print_error("%s: more than a line of text: \"%s\"\n", what, v->fail.text);
}

static void changed_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
		const struct hostile *h = &hostiles[i];
		Onnx__Model *m = onnx_read(h->file);
		struct bytes b;
		struct verdict v;

		h->change(m, h);
		b.len = onnx__model__get_packed_size(m);
		b.data = malloc(b.len);
		onnx__model__pack(m, b.data);
		onnx__model__free_unpacked(m, NULL);
		v = read_elsewhere(b, h->what);
		check(h->what, &v, h->err, h->says);
	}
	assert_int_equal(wrong, 0);
}

static void strange_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof byte_files / sizeof byte_files[0]; i++) {
		const struct verdict v = read_elsewhere(byte_files[i].make(), byte_files[i].what);

		check(byte_files[i].what, &v, byte_files[i].err, "");
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_files),
		cmocka_unit_test(strange_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
