/* Parses the bytes of an ONNX file, and checks all but its nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_file.h"
#include "common/conf/conf.h"

enum {
	FIRST_OPSET = 13,
	LAST_OPSET = 20,
	MOST_DIMS = 8,
	MOST_CLASSES = 100000,
	MOST_CHANNELS = 16,
	MOST_BYTES = 0x7fffffff
};
/* The most memory that parsing may take: some bytes for each byte of the file, and a least amount. */
enum { MEMORY_FACTOR = 16, MEMORY_LEAST = 4 << 20 };

const char sl_onnx_how[] = "torch.onnx.export(model.train(), x, FILE, training=TrainingMode.TRAINING, "
			   "do_constant_folding=False, opset_version=16)";

/* The memory that parsing may still take. */
struct purse {
	size_t left;
	bool empty;
};

static void *take(void *data, size_t size)
{
	struct purse *purse = data;

	purse->empty |= size > purse->left;
	if (purse->empty)
		return NULL;
	purse->left -= size;
	return malloc(size);
}

static void give(void *data, void *memory)
{
	free(memory);
}

static bool standard(const char *domain)
{
	return !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
}

static int by_name(const void *a, const void *b)
{
	const Onnx__Tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

const Onnx__Tensor *sl_onnx_find_init(const struct sl_onnx *onnx, const char *name)
{
	Onnx__Tensor key = {.name = (char *)name};
	const Onnx__Tensor *at = &key, **found;

	if (!onnx->n_init) /* bsearch may not be given NULL */
		return NULL;
	found = bsearch(&at, onnx->init, (size_t)onnx->n_init, sizeof *onnx->init, by_name);
	return found ? *found : NULL;
}

int64_t sl_onnx_count(const Onnx__Tensor *t)
{
	int64_t n = 1;

	for (size_t i = 0; i < t->n_dims; i++)
		n *= t->dims[i];
	return n;
}

const char *sl_onnx_dims_text(const Onnx__Tensor *t, char out[SL_ONNX_DIMS_TEXT])
{
	size_t used = (size_t)snprintf(out, SL_ONNX_DIMS_TEXT, "[");

	for (size_t i = 0; i < t->n_dims && used < SL_ONNX_DIMS_TEXT; i++)
		used += (size_t)snprintf(out + used, SL_ONNX_DIMS_TEXT - used, "%s%lld", i ? ", " : "",
					 (long long)t->dims[i]);
	if (used < SL_ONNX_DIMS_TEXT)
		snprintf(out + used, SL_ONNX_DIMS_TEXT - used, "]");
	return out;
}

void sl_onnx_read_f32(const Onnx__Tensor *t, float *out)
{
	const size_t bytes = (size_t)sl_onnx_count(t) * sizeof *out;

	if (bytes)
		memcpy(out, t->has_raw_data ? (const void *)t->raw_data.data : t->float_data, bytes);
}

static bool has_data(const Onnx__Tensor *t, size_t count)
{
	const size_t bytes = t->data_type == SL_ONNX_FLOAT || t->data_type == SL_ONNX_INT32 ? 4
			     : t->data_type == SL_ONNX_INT64                                ? 8
			     : t->data_type == SL_ONNX_BOOL                                 ? 1
											    : 0;

	if (!bytes) /* the node that uses the tensor refuses other types */
		return true;
	if (t->has_raw_data)
		return t->raw_data.len == count * bytes;
	return count == (t->data_type == SL_ONNX_FLOAT   ? t->n_float_data
			 : t->data_type == SL_ONNX_INT64 ? t->n_int64_data
							 : t->n_int32_data);
}

enum sl_err sl_onnx_check_tensor(const Onnx__Tensor *t, const char *name, struct sl_fail *fail)
{
	int64_t count = 1;
	char text[SL_ONNX_DIMS_TEXT];

	if (t->data_location || t->n_external_data)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "tensor '%.96s' lies in another file, which is not read; export a network of less "
				   "than 2 GiB, into one file",
				   name);
	if (t->has_segment)
		return sl_fail_set(fail, SL_ERR_CONFIG, "tensor '%.96s' is a part of one; export it whole", name);
	if (t->n_dims > MOST_DIMS)
		return sl_fail_set(fail, SL_ERR_DATA, "tensor '%.96s' has %zu dimensions, where %d are the most", name,
				   t->n_dims, MOST_DIMS);
	for (size_t i = 0; i < t->n_dims; i++) {
		if (t->dims[i] < 0 || (t->dims[i] && count > SL_GRAPH_MOST_ELEMENTS / t->dims[i]))
			return sl_fail_set(fail, SL_ERR_DATA, "tensor '%.96s' is %s, which no tensor can be", name,
					   sl_onnx_dims_text(t, text));
		count *= t->dims[i];
	}
	if (!has_data(t, (size_t)count))
		return sl_fail_set(fail, SL_ERR_DATA, "tensor '%.96s' is %s, but its data are not as long", name,
				   sl_onnx_dims_text(t, text));
	return SL_OK;
}

static enum sl_err sort_initializers(struct sl_onnx *o, struct sl_fail *fail)
{
	const Onnx__Graph *g = o->graph;
	enum sl_err err;

	if (g->n_initializer > SL_GRAPH_MOST_PARAMS)
		return sl_fail_set(fail, SL_ERR_DATA, "%zu initializers, where %d are the most", g->n_initializer,
				   SL_GRAPH_MOST_PARAMS);
	o->init = malloc((g->n_initializer + 1) * sizeof *o->init);
	if (!o->init)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for its initializers");
	for (size_t i = 0; i < g->n_initializer; i++) {
		const Onnx__Tensor *t = g->initializer[i];

		if (!t->name || !t->name[0])
			return sl_fail_set(fail, SL_ERR_DATA, "initializer %zu has no name", i);
		err = sl_onnx_check_tensor(t, t->name, fail);
		if (err)
			return err;
		o->init[o->n_init++] = t;
	}
	qsort(o->init, (size_t)o->n_init, sizeof *o->init, by_name);
	for (int i = 1; i < o->n_init; i++)
		if (strcmp(o->init[i - 1]->name, o->init[i]->name) == 0)
			return sl_fail_set(fail, SL_ERR_DATA, "two initializers are called '%.96s'", o->init[i]->name);
	return SL_OK;
}

size_t sl_onnx_n_dim(const Onnx__Value *v)
{
	const Onnx__TensorType *t = v->type ? v->type->tensor_type : NULL;

	return t && t->shape ? t->shape->n_dim : 0;
}

int64_t sl_onnx_dim(const Onnx__Value *v, size_t i)
{
	const Onnx__Dimension *d = v->type->tensor_type->shape->dim[i];

	return d->has_dim_value ? d->dim_value : 0;
}

/* The smallest matrix that a Gather looks up by `ids`; NULL: no Gather does. */
static const Onnx__Tensor *gathered(const struct sl_onnx *o, const char *ids)
{
	const Onnx__Tensor *least = NULL;

	for (size_t i = 0; i < o->graph->n_node; i++) {
		const Onnx__Node *n = o->graph->node[i];
		const bool looks_up = n->op_type && strcmp(n->op_type, "Gather") == 0 && n->n_input == 2 &&
				      strcmp(n->input[1], ids) == 0;
		const Onnx__Tensor *t = looks_up ? sl_onnx_find_init(o, n->input[0]) : NULL;

		if (t && t->n_dims == 2 && (!least || t->dims[0] < least->dims[0]))
			least = t;
	}
	return least;
}

/* The same for an input, or for the output of a Cast or a Transpose of it. */
static const Onnx__Tensor *table_of(const struct sl_onnx *o, const char *input)
{
	const Onnx__Tensor *least = gathered(o, input);

	for (size_t i = 0; i < o->graph->n_node && !least; i++) {
		const Onnx__Node *n = o->graph->node[i];

		if (n->op_type && (strcmp(n->op_type, "Cast") == 0 || strcmp(n->op_type, "Transpose") == 0) &&
		    n->n_input && n->n_output && strcmp(n->input[0], input) == 0)
			least = gathered(o, n->output[0]);
	}
	return least;
}

/* Finds the input, the mask and the output. Of two inputs the one that a Gather looks up is token ids, the other one
 * the mask. Older exporters list initializers among the inputs too. */
static enum sl_err find_ends(struct sl_onnx *o, struct sl_fail *fail)
{
	const Onnx__Graph *g = o->graph;

	for (size_t i = 0; i < g->n_input; i++) {
		const Onnx__Value *v = g->input[i];

		if (!v->name || !v->name[0])
			return sl_fail_set(fail, SL_ERR_DATA, "input %zu has no name", i);
		if (sl_onnx_find_init(o, v->name))
			continue;
		if (o->mask || (o->in && !table_of(o, o->in->name) == !table_of(o, v->name)))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "'%.96s' and '%.96s' are inputs, where a network takes images or a row; or "
					   "token ids, and beside them a mask of padding",
					   o->in->name, v->name);
		o->mask = o->in && table_of(o, v->name) ? o->in : o->in ? v : NULL;
		o->in = o->in && o->mask == v ? o->in : v;
	}
	if (!o->in)
		return sl_fail_set(fail, SL_ERR_CONFIG, "it has no input");
	if (o->mask && sl_onnx_n_dim(o->mask) != 2)
		return sl_fail_set(fail, SL_ERR_CONFIG, "its input '%.96s' is not a mask, [batch, tokens]",
				   o->mask->name);
	if (g->n_output != 1)
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"it has %zu outputs, where a network gives one: the logits; of a torchvision network "
			"with helpers, aux_logits=False turns these off",
			g->n_output);
	o->out = g->output[0];
	if (!o->out->name || !o->out->name[0])
		return sl_fail_set(fail, SL_ERR_DATA, "its output has no name");
	return SL_OK;
}

/* Sets o->trainable by the file's note. CONFIG: another program has removed batch norms or dropout since. */
static enum sl_err check_trainable(struct sl_onnx *o, struct sl_fail *fail)
{
	const char *note = NULL;
	int n = 0;

	for (size_t i = 0; i < o->model->n_metadata_props; i++) {
		const Onnx__Entry *e = o->model->metadata_props[i];

		if (e->key && e->value && strcmp(e->key, SL_ONNX_TRAINABLE) == 0)
			note = e->value;
	}
	for (size_t i = 0; i < o->graph->n_node; i++) {
		const char *kind = o->graph->node[i]->op_type;

		n += kind && (strcmp(kind, "BatchNormalization") == 0 || strcmp(kind, "Dropout") == 0);
	}
	o->trainable = note;
	if (!note || strtol(note, NULL, 10) == n)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "splitc wrote it with %.20s batch norms and dropouts, and it has %d: another program has "
			   "changed it since. Give the file that splitc wrote",
			   note, n);
}

static enum sl_err check_model(struct sl_onnx *o, struct sl_fail *fail)
{
	const Onnx__Model *m = o->model;
	long long opset = 0;
	enum sl_err err;

	if (!m->graph)
		return sl_fail_set(fail, SL_ERR_DATA, "it has no graph");
	for (size_t i = 0; i < m->n_opset_import; i++)
		if (standard(m->opset_import[i]->domain))
			opset = m->opset_import[i]->version;
	if (opset < FIRST_OPSET || opset > LAST_OPSET)
		return sl_fail_set(fail, SL_ERR_CONFIG, "its opset is %lld, where %d to %d are read; export with %s",
				   opset, FIRST_OPSET, LAST_OPSET, sl_onnx_how);
	o->opset = (int)opset;
	o->graph = m->graph;
	if (m->n_functions || o->graph->n_sparse_initializer)
		return sl_fail_set(fail, SL_ERR_CONFIG, "it has %s, which are not read; export with %s",
				   m->n_functions ? "functions" : "sparse initializers", sl_onnx_how);
	if (o->graph->n_node > SL_GRAPH_MOST_NODES)
		return sl_fail_set(fail, SL_ERR_DATA, "%zu nodes, where %d are the most", o->graph->n_node,
				   SL_GRAPH_MOST_NODES);
	err = check_trainable(o, fail);
	if (!err)
		err = sort_initializers(o, fail);
	return err ? err : find_ends(o, fail);
}

enum sl_err sl_onnx_parse(struct sl_onnx **out, const char *name, struct sl_bytes image, struct sl_fail *fail)
{
	struct purse purse = {.left = image.len * MEMORY_FACTOR + MEMORY_LEAST};
	ProtobufCAllocator allocator = {take, give, &purse};
	struct sl_onnx *o = calloc(1, sizeof *o);
	const char *base = strrchr(name, '/');
	enum sl_err err;

	if (!o)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a network");
	snprintf(o->name, sizeof o->name, "%s", base ? base + 1 : name);
	o->model = image.len ? onnx__model__unpack(&allocator, image.len, image.data) : NULL;
	err = o->model      ? check_model(o, fail)
	      : purse.empty ? sl_fail_set(fail, SL_ERR_DATA,
					  "its parts are so many and so small that they would take "
					  "%d times its size in memory",
					  MEMORY_FACTOR)
			    : sl_fail_set(fail, SL_ERR_DATA,
					  "it is no ONNX file, or a truncated one; write one with %s", sl_onnx_how);
	if (err) {
		sl_onnx_close(o);
		return err;
	}
	*out = o;
	return SL_OK;
}

enum sl_err sl_onnx_open(struct sl_onnx **out, const char *path, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	uint8_t *data;
	size_t len;
	enum sl_err err = sl_file_read(path, MOST_BYTES, &data, &len, fail);

	if (err)
		return err;
	err = sl_onnx_parse(out, path, (struct sl_bytes){data, len}, &why);
	free(data);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}

void sl_onnx_close(struct sl_onnx *onnx)
{
	if (!onnx)
		return;
	if (onnx->model)
		onnx__model__free_unpacked(onnx->model, NULL);
	free(onnx->init);
	free(onnx);
}

/* The sizes of rows, [batch, features], or of signals, [batch, channels, length]. */
static enum sl_err read_row(struct sl_model_sizes *out, const struct sl_onnx *o, struct sl_fail *fail)
{
	int64_t features = 1;

	for (size_t i = 1; i < sl_onnx_n_dim(o->in); i++) {
		const int64_t n = sl_onnx_dim(o->in, i);

		features = n < 1 || n > SL_MODEL_MAX_FEATURES || features < 0 ? -1 : features * n;
	}
	if (features < 1 || features > SL_MODEL_MAX_FEATURES)
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"input '%.96s' does not have 1 to %d numbers in a row; of its sizes only the batch's "
			"may be dynamic",
			o->in->name, SL_MODEL_MAX_FEATURES);
	*out = (struct sl_model_sizes){.features = (int)features, .channels = (int)sl_onnx_dim(o->in, 1)};
	return SL_OK;
}

static enum sl_err read_image(struct sl_model_sizes *out, const struct sl_onnx *o, struct sl_fail *fail)
{
	int64_t dim[4];

	for (int i = 1; i < 4; i++)
		dim[i] = sl_onnx_dim(o->in, (size_t)i);
	if (dim[1] < 1 || dim[1] > MOST_CHANNELS)
		return sl_fail_set(fail, SL_ERR_CONFIG, "input '%.96s' has %lld channels, where images have 1 to %d",
				   o->in->name, (long long)dim[1], MOST_CHANNELS);
	for (int i = 2; i < 4; i++)
		if (dim[i] && (dim[i] < SL_CONF_MIN_IMAGE || dim[i] > SL_CONF_MAX_IMAGE))
			return sl_fail_set(
				fail, SL_ERR_CONFIG,
				"input '%.96s' has images of %lldx%lld; height and width must lie in %d … %d",
				o->in->name, (long long)dim[2], (long long)dim[3], SL_CONF_MIN_IMAGE,
				SL_CONF_MAX_IMAGE);
	*out = (struct sl_model_sizes){.height = (int)dim[2], .width = (int)dim[3], .channels = (int)dim[1]};
	return SL_OK;
}

/* The channels of the output, or its numbers; 0: not known. PyTorch 1.13 writes no sizes of what F.interpolate gives to
 * the height and width of another value: then those of the last convolution count. */
static int64_t outputs_of(const struct sl_onnx *o)
{
	const Onnx__Graph *g = o->graph;
	const char *value = o->out->name;

	if (sl_onnx_dim(o->out, 1))
		return sl_onnx_dim(o->out, 1);
	for (size_t i = g->n_node; i-- > 0;) { /* nodes are sorted: who makes a value stands before who reads it */
		const Onnx__Node *n = g->node[i];
		const bool passes = n->op_type && (!strcmp(n->op_type, "Resize") || !strcmp(n->op_type, "Add"));

		if (!n->op_type || !n->n_output || !n->n_input || strcmp(n->output[0], value) != 0)
			continue;
		if (strcmp(n->op_type, "Conv") == 0 && n->n_input > 1) {
			const Onnx__Tensor *w = sl_onnx_find_init(o, n->input[1]);

			return w && w->n_dims ? w->dims[0] : 0;
		}
		if (!passes)
			return 0;
		value = n->input[0];
	}
	return 0;
}

enum sl_err sl_onnx_read_sizes(struct sl_model_sizes *out, const struct sl_onnx *o, struct sl_fail *fail)
{
	const Onnx__TensorType *type = o->in->type ? o->in->type->tensor_type : NULL;
	const size_t n = sl_onnx_n_dim(o->in);
	const Onnx__Tensor *table = type && type->elem_type != SL_ONNX_FLOAT ? table_of(o, o->in->name) : NULL;
	const int64_t outputs = outputs_of(o);
	enum sl_err err;

	if (table && n == 2) {
		if (table->dims[0] < 1 || table->dims[0] > SL_MODEL_MAX_VOCAB || sl_onnx_dim(o->in, 1) < 0 ||
		    sl_onnx_dim(o->in, 1) > SL_MODEL_MAX_TOKENS)
			return sl_fail_set(fail, SL_ERR_CONFIG, "input '%.96s' is of too many tokens, or of none",
					   o->in->name);
		*out = (struct sl_model_sizes){.vocab = (int)table->dims[0], .tokens = (int)sl_onnx_dim(o->in, 1)};
	} else if (!type || type->elem_type != SL_ONNX_FLOAT || n < 2 || n > 4)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "input '%.96s' is not of floats, [batch, channels, height, width] of images, "
				   "[batch, features] or [batch, channels, length]; or token ids, [batch, tokens]",
				   o->in->name);
	err = table ? SL_OK : n == 4 ? read_image(out, o, fail) : read_row(out, o, fail);
	if (!err &&
	    ((sl_onnx_n_dim(o->out) != 2 && sl_onnx_n_dim(o->out) != 4) || outputs < 1 || outputs > MOST_CLASSES))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "output '%.96s' is not [batch, classes], or [batch, classes, height, width]: a "
				   "network gives 1 to %d logits, or numbers",
				   o->out->name, MOST_CLASSES);
	if (!err)
		out->classes = (int)outputs;
	return err;
}

enum sl_err sl_onnx_sizes(struct sl_model_sizes *out, const char *path, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_onnx *o;
	enum sl_err err = sl_onnx_open(&o, path, fail);

	if (err)
		return err;
	err = sl_onnx_read_sizes(out, o, &why);
	sl_onnx_close(o);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}
