#include "client/model/onnx_emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/grow.h"
#include "common/base/newfile.h"

/* ---- protobuf's wire format: a tag, then a number, or a length and that many bytes */

static void put(struct sl_onnx_message *m, const void *from, size_t len)
{
	m->full = m->full || !sl_grow(&m->data, &m->cap, m->len + len, 1);
	if (m->full || !len)
		return;
	memcpy(m->data + m->len, from, len);
	m->len += len;
}

static void put_varint(struct sl_onnx_message *m, uint64_t v)
{
	uint8_t at[10];
	size_t n = 0;

	for (; v > 127; v >>= 7)
		at[n++] = (uint8_t)(v | 128);
	at[n++] = (uint8_t)v;
	put(m, at, n);
}

static void put_bytes(struct sl_onnx_message *m, unsigned field, const void *from, size_t len)
{
	put_varint(m, field << 3 | 2);
	put_varint(m, len);
	put(m, from, len);
}

static void put_int(struct sl_onnx_message *m, unsigned field, int64_t v)
{
	put_varint(m, field << 3);
	put_varint(m, (uint64_t)v);
}

static void put_text(struct sl_onnx_message *m, unsigned field, const char *text)
{
	put_bytes(m, field, text, strlen(text));
}

static void put_message(struct sl_onnx_message *m, unsigned field, struct sl_onnx_message *child)
{
	m->full |= child->full;
	put_bytes(m, field, child->data, child->len);
	free(child->data);
	*child = (struct sl_onnx_message){0};
}

/* ---- nodes */

struct sl_onnx_text sl_onnx_emit_output(struct sl_onnx_emit *e)
{
	struct sl_onnx_text made;

	snprintf(made.t, sizeof made.t, "/value_%d", ++e->n_made);
	put_text(&e->node, 2, made.t);
	return made;
}

/* Ends the last node, and begins one without outputs. */
static void begin_node(struct sl_onnx_emit *e, const char *kind, const char *const *in)
{
	char name[2 * SL_NAME_MAX];

	if (e->node.len)
		put_message(&e->graph, 1, &e->node);
	for (; *in; in++)
		put_text(&e->node, 1, *in);
	snprintf(name, sizeof name, *e->name && e->again ? "%s" SL_ONNX_PART "%d" : "%s", e->name, e->n_made);
	put_text(&e->node, 3, name);
	e->again |= *e->name != 0;
	put_text(&e->node, 4, kind);
}

struct sl_onnx_text sl_onnx_emit_node(struct sl_onnx_emit *e, const char *kind, const char *const *in)
{
	begin_node(e, kind, in);
	return sl_onnx_emit_output(e);
}

static struct sl_onnx_message attribute(const char *name, enum sl_onnx_attr type)
{
	struct sl_onnx_message a = {0};

	put_text(&a, 1, name);
	put_int(&a, 20, type);
	return a;
}

void sl_onnx_emit_ints(struct sl_onnx_emit *e, const char *name, const int64_t *v, int n)
{
	struct sl_onnx_message a = attribute(name, SL_ONNX_ATTR_INTS);

	for (int i = 0; i < n; i++)
		put_int(&a, 8, v[i]);
	put_message(&e->node, 5, &a);
}

void sl_onnx_emit_int(struct sl_onnx_emit *e, const char *name, int64_t v)
{
	struct sl_onnx_message a = attribute(name, SL_ONNX_ATTR_INT);

	put_int(&a, 3, v);
	put_message(&e->node, 5, &a);
}

void sl_onnx_emit_float(struct sl_onnx_emit *e, const char *name, float v)
{
	struct sl_onnx_message a = attribute(name, SL_ONNX_ATTR_FLOAT);

	put_varint(&a, 2 << 3 | 5);
	put(&a, &v, sizeof v);
	put_message(&e->node, 5, &a);
}

void sl_onnx_emit_word(struct sl_onnx_emit *e, const char *name, const char *v)
{
	struct sl_onnx_message a = attribute(name, SL_ONNX_ATTR_STRING);

	put_text(&a, 4, v);
	put_message(&e->node, 5, &a);
}

void sl_onnx_emit_window(struct sl_onnx_emit *e, int64_t kh, int64_t kw, const int64_t stride[2], const int64_t pads[4])
{
	sl_onnx_emit_ints(e, "kernel_shape", (int64_t[]){kh, kw}, 2);
	sl_onnx_emit_ints(e, "strides", stride, 2);
	sl_onnx_emit_ints(e, "pads", pads, 4);
}

void sl_onnx_emit_square(struct sl_onnx_emit *e, int64_t kh, int64_t kw, int64_t stride, int64_t pad)
{
	sl_onnx_emit_window(e, kh, kw, (int64_t[]){stride, stride}, (int64_t[]){pad, pad, pad, pad});
}

/* ---- tensors, inputs and outputs */

static struct sl_onnx_message tensor(enum sl_onnx_type type, const int64_t *dim, int n_dim, const void *raw, size_t len)
{
	struct sl_onnx_message t = {0};

	for (int i = 0; i < n_dim; i++)
		put_int(&t, 1, dim[i]);
	put_int(&t, 2, type);
	put_bytes(&t, 9, raw, len);
	return t;
}

/* A Constant node without outputs, whose elements are those of `t`. */
static void begin_constant(struct sl_onnx_emit *e, struct sl_onnx_message t)
{
	const char *name = e->name;
	struct sl_onnx_message a = attribute("value", SL_ONNX_ATTR_TENSOR);

	e->name = "";
	begin_node(e, "Constant", (const char *const[]){NULL});
	e->name = name;
	put_message(&a, 5, &t);
	put_message(&e->node, 5, &a);
}

/* A Constant node, whose elements are raw[bytes]. */
static struct sl_onnx_text emit_constant(struct sl_onnx_emit *e, enum sl_onnx_type type, const int64_t *dim, int n_dim,
					 const void *raw, size_t bytes)
{
	begin_constant(e, tensor(type, dim, n_dim, raw, bytes));
	return sl_onnx_emit_output(e);
}

struct sl_onnx_text sl_onnx_emit_list(struct sl_onnx_emit *e, const int64_t *v, int n)
{
	return emit_constant(e, SL_ONNX_INT64, (int64_t[]){n}, 1, v, (size_t)n * sizeof *v);
}

struct sl_onnx_text sl_onnx_emit_number(struct sl_onnx_emit *e, float v)
{
	return emit_constant(e, SL_ONNX_FLOAT, NULL, 0, &v, sizeof v);
}

struct sl_onnx_text sl_onnx_emit_floats(struct sl_onnx_emit *e, const int64_t *dim, int n_dim,
					float (*at)(int64_t i, int64_t n))
{
	const int64_t n = n_dim > 1 ? dim[0] * dim[1] : dim[0];
	float *v = malloc((size_t)n * sizeof *v);
	struct sl_onnx_text made = {""};

	e->graph.full |= !v;
	for (int64_t i = 0; v && i < n; i++)
		v[i] = at ? at(i, dim[0]) : 0;
	if (v)
		made = emit_constant(e, SL_ONNX_FLOAT, dim, n_dim, v, (size_t)n * sizeof *v);
	free(v);
	return made;
}

struct sl_onnx_text sl_onnx_emit_transpose(struct sl_onnx_emit *e, struct sl_onnx_text x, const char *perm)
{
	int64_t to[8];
	int n = 0;

	x = SL_ONNX_EMIT(e, "Transpose", x.t);
	for (; n < 8 && perm[n]; n++)
		to[n] = perm[n] - '0';
	sl_onnx_emit_ints(e, "perm", to, n);
	return x;
}

struct sl_onnx_text sl_onnx_emit_slice(struct sl_onnx_emit *e, struct sl_onnx_text x, int64_t axis, int64_t first,
				       int64_t end, int64_t step)
{
	const struct sl_onnx_text from = sl_onnx_emit_list(e, &first, 1), to = sl_onnx_emit_list(e, &end, 1),
				  of = sl_onnx_emit_list(e, &axis, 1), by = sl_onnx_emit_list(e, &step, 1);

	return SL_ONNX_EMIT(e, "Slice", x.t, from.t, to.t, of.t, by.t);
}

struct sl_onnx_text sl_onnx_emit_mean(struct sl_onnx_emit *e, struct sl_onnx_text x, int64_t axis, int opset)
{
	if (opset >= 18)
		return SL_ONNX_EMIT(e, "ReduceMean", x.t, sl_onnx_emit_list(e, &axis, 1).t);
	x = SL_ONNX_EMIT(e, "ReduceMean", x.t);
	sl_onnx_emit_ints(e, "axes", &axis, 1);
	return x;
}

struct sl_onnx_text sl_onnx_emit_dropout(struct sl_onnx_emit *e, const char *x, float p, bool training)
{
	const struct sl_onnx_text ratio = sl_onnx_emit_number(e, p);
	struct sl_onnx_text on = {""};

	if (training)
		on = emit_constant(e, SL_ONNX_BOOL, NULL, 0, "\1", 1);
	return SL_ONNX_EMIT(e, "Dropout", x, ratio.t, training ? on.t : NULL);
}

void sl_onnx_emit_param(struct sl_onnx_emit *e, const char *name, const struct sl_shape *shape, const float *v,
			bool constant)
{
	struct sl_onnx_message t =
		tensor(SL_ONNX_FLOAT, shape->dim, shape->ndim, v, (size_t)sl_shape_count(shape) * sizeof *v);

	if (constant) {
		begin_constant(e, t);
		put_text(&e->node, 2, name);
		return;
	}
	put_text(&t, 8, name);
	put_message(&e->graph, 5, &t);
}

void sl_onnx_emit_end(struct sl_onnx_emit *e, unsigned end, const char *name, const int64_t *dim, int n_dim)
{
	struct sl_onnx_message shape = {0}, tensor_type = {0}, type = {0}, value = {0};

	for (int i = 0; i < n_dim; i++) {
		struct sl_onnx_message d = {0};

		if (i)
			put_int(&d, 1, dim[i]);
		else
			put_text(&d, 2, "batch");
		put_message(&shape, 1, &d);
	}
	put_int(&tensor_type, 1, SL_ONNX_FLOAT);
	put_message(&tensor_type, 2, &shape);
	put_message(&type, 1, &tensor_type);
	put_text(&value, 1, name);
	put_message(&value, 2, &type);
	put_message(&e->graph, end, &value);
}

/* ---- the file */

static void put_notes(struct sl_onnx_message *m, const struct sl_st_note *notes, int n_notes)
{
	for (int i = 0; i < n_notes; i++) {
		struct sl_onnx_message note = {0};

		put_text(&note, 1, notes[i].key);
		put_text(&note, 2, notes[i].value);
		put_message(m, 14, &note);
	}
}

static enum sl_err write_file(const struct sl_onnx_message *file, const char *path, struct sl_fail *fail)
{
	if (file->full)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
	return sl_newfile_put(path, 0600, SL_FP_MODEL_OPEN, file->data, file->len, fail);
}

enum sl_err sl_onnx_emit_save(struct sl_onnx_emit *e, int opset, int trainable, const struct sl_st_note *notes,
			      int n_notes, const char *path, struct sl_fail *fail)
{
	struct sl_onnx_message file = {0}, set = {0};
	char count[16];
	enum sl_err err;

	put_message(&e->graph, 1, &e->node);
	put_text(&e->graph, 2, "network");
	if (e->graph.len > INT32_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "%s: the model has 2 GiB or more, which no ONNX file holds: name a file that ends "
				   "with .safetensors",
				   path);
	put_int(&file, 1, opset > 18 ? 9 : 8); /* the version of the format that came with the opset */
	put_text(&file, 2, "split");
	put_message(&file, 7, &e->graph);
	put_text(&set, 1, "");
	put_int(&set, 2, opset);
	put_message(&file, 8, &set);
	put_notes(&file, notes, n_notes);
	snprintf(count, sizeof count, "%d", trainable);
	put_notes(&file, &(struct sl_st_note){SL_ONNX_TRAINABLE, count}, trainable >= 0);
	err = write_file(&file, path, fail);
	free(file.data);
	return err;
}
