/* Inputs, outputs and attributes of the node that is being read, and the nodes that follow it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_views.h"

void sl_onnx_refuse(struct sl_onnx_import *im, const char *fmt, ...)
{
	const Onnx__Node *n = im->node;
	char text[SL_FAIL_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	sl_build_refuse(im->b, "node '%.96s' (%.40s): %s", n->name && n->name[0] ? n->name : im->name, n->op_type,
			text);
}

bool sl_onnx_name_by(struct sl_onnx_import *im, const char *param)
{
	const char *dot = strrchr(param, '.');

	if (!dot || dot == param || dot - param >= SL_NAME_MAX)
		return false;
	snprintf(im->name, sizeof im->name, "%.*s", (int)(dot - param), param);
	for (char *c = im->name; *c; c++) /* characters that names in our graph may have */
		*c = *c > ' ' && *c < 0x7f ? *c : '_';
	return true;
}

int sl_onnx_by_name(const void *a, const void *b)
{
	const struct sl_onnx_value *x = a, *y = b;

	return strcmp(x->name, y->name);
}

struct sl_onnx_value *sl_onnx_find(struct sl_onnx_import *im, const char *name)
{
	const struct sl_onnx_value wanted = {.name = name};

	return bsearch(&wanted, im->value, (size_t)im->n_value, sizeof *im->value, sl_onnx_by_name);
}

struct sl_onnx_value *sl_onnx_in(struct sl_onnx_import *im, size_t i)
{
	struct sl_onnx_value *v;

	if (im->b->err || i >= im->node->n_input || !im->node->input[i][0])
		return NULL;
	v = sl_onnx_find(im, im->node->input[i]);
	if (v && v->known)
		return v;
	sl_onnx_refuse(im,
		       !v                      ? "reads '%.96s', which nothing makes"
		       : v->maker >= im->index ? "reads '%.96s', which this node or a later one makes"
					       : "reads '%.96s', which is an output that is not read",
		       im->node->input[i]);
	return NULL;
}

static void make(struct sl_onnx_import *im, struct sl_onnx_value made)
{
	struct sl_onnx_value *v = sl_onnx_find(im, im->onnx->graph->node[im->end]->output[0]);

	if (im->b->err || !v)
		return;
	made.name = v->name;
	made.maker = v->maker;
	made.needed = v->needed;
	made.n_readers = v->n_readers;
	memcpy(made.reader, v->reader, sizeof made.reader);
	made.known = true;
	*v = made;
}

void sl_onnx_out(struct sl_onnx_import *im, int value)
{
	struct sl_onnx_value made = {.value = value};
	struct sl_shape s;

	if (im->b->err)
		return;
	s = sl_build_shape(im->b, value);
	made.view = sl_onnx_view_of(im, &s);
	if (im->flat && s.ndim == 4) { /* a signal has no height */
		made.view.axis[2] = made.view.axis[3];
		made.view.n_axis = 3;
	}
	make(im, made);
}

void sl_onnx_out_like(struct sl_onnx_import *im, int value, const struct sl_onnx_value *as)
{
	if (im->b->err) /* then `as` may be NULL */
		return;
	make(im, (struct sl_onnx_value){.value = value, .permuted = as->permuted, .view = as->view});
}

void sl_onnx_out_view(struct sl_onnx_import *im, int value, const struct sl_onnx_view *view)
{
	make(im, (struct sl_onnx_value){.value = value, .view = *view});
}

/* ---- nodes that follow */

int sl_onnx_next(struct sl_onnx_import *im, int index, const char *kind)
{
	const Onnx__Graph *g = im->onnx->graph;
	const struct sl_onnx_value *v = sl_onnx_find(im, g->node[index]->output[0]);

	return v && v->n_readers == 1 && !im->done[v->reader[0]] && strcmp(g->node[v->reader[0]]->op_type, kind) == 0
		       ? v->reader[0]
		       : -1;
}

void sl_onnx_two_readers(struct sl_onnx_import *im, int index, int *a, int *b)
{
	const struct sl_onnx_value *v = sl_onnx_find(im, im->onnx->graph->node[index]->output[0]);
	const bool two = v && v->n_readers == 2;

	*a = two ? v->reader[0] : -1;
	*b = two ? v->reader[1] : -1;
}

/* Marks node `index` as done, and the nodes before it up to values that are known. A Shape node that other nodes read
 * too is not marked. */
static void mark(struct sl_onnx_import *im, int index, int depth)
{
	const Onnx__Node *n = im->onnx->graph->node[index];

	im->done[index] = true;
	for (size_t i = 0; i < n->n_input && depth < 16; i++) {
		const struct sl_onnx_value *v = n->input[i][0] ? sl_onnx_find(im, n->input[i]) : NULL;

		if (v && !v->known && v->maker >= 0 && !im->done[v->maker] &&
		    (v->n_readers == 1 || strcmp(im->onnx->graph->node[v->maker]->op_type, "Shape") != 0))
			mark(im, v->maker, depth + 1);
	}
}

void sl_onnx_join(struct sl_onnx_import *im, int index)
{
	char name[SL_NAME_MAX];
	const char *last;

	mark(im, index, 0);
	im->end = index;
	if (im->node->name && sl_onnx_scope(im->node->name, name, &last) && name[0])
		memcpy(im->name, name, sizeof name);
}

void sl_onnx_out_constant(struct sl_onnx_import *im, const Onnx__Tensor *t)
{
	struct sl_onnx_value made = {.value = -1, .constant = t, .n_dim = (int)t->n_dims};

	if (t->n_dims)
		memcpy(made.dim, t->dims, t->n_dims * sizeof *t->dims);
	make(im, made);
}

void sl_onnx_out_same(struct sl_onnx_import *im, const struct sl_onnx_value *as)
{
	make(im, *as);
}

void sl_onnx_out_number(struct sl_onnx_import *im, float number)
{
	make(im, (struct sl_onnx_value){.value = -1, .is_number = true, .number = number});
}

/* ---- attributes */

const Onnx__Attribute *sl_onnx_attr(struct sl_onnx_import *im, const char *name, int type)
{
	const Onnx__Node *n = im->node;

	for (size_t i = 0; i < n->n_attribute; i++) {
		if (strcmp(n->attribute[i]->name, name) != 0)
			continue;
		if (n->attribute[i]->type == type)
			return n->attribute[i];
		sl_onnx_refuse(im, "its attribute %s is not of the right type", name);
	}
	return NULL;
}

int64_t sl_onnx_attr_int(struct sl_onnx_import *im, const char *name, int64_t standard)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, name, SL_ONNX_ATTR_INT);

	return a ? a->i : standard;
}

float sl_onnx_attr_float(struct sl_onnx_import *im, const char *name, float standard)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, name, SL_ONNX_ATTR_FLOAT);

	return a ? a->f : standard;
}

void sl_onnx_must_be(struct sl_onnx_import *im, const char *name, int64_t standard, int64_t right)
{
	const int64_t is = sl_onnx_attr_int(im, name, standard);

	if (is != right)
		sl_onnx_refuse(im, "%s is %lld, where %lld is read", name, (long long)is, (long long)right);
}

/* ---- inputs */

/* Arranges a signal, [batch, channels, length], as an image of height 1. */
static int signal_of(struct sl_onnx_import *im, struct sl_onnx_value *v)
{
	int atom[SL_ONNX_ATOMS], n = 0;

	for (int i = 2; i > 0; i--)
		for (int k = 0; k < v->view.axis[i].n && n < SL_ONNX_ATOMS; k++)
			atom[n++] = v->view.axis[i].atom[k];
	return sl_onnx_arrange(im, v, atom, n,
			       (int64_t[]){1, sl_onnx_axis_size(&v->view, 2), sl_onnx_axis_size(&v->view, 1)}, 3);
}

int sl_onnx_data_in(struct sl_onnx_import *im, size_t i, int ndim)
{
	struct sl_onnx_value *v = sl_onnx_in(im, i);

	if (!im->b->err && v && v->pad)
		sl_onnx_refuse(im, "its input %zu has a border of zeros, which convolutions and means alone read", i);
	if (im->b->err)
		return -1;
	if (v && v->summed)
		sl_onnx_refuse(im,
			       "its input %zu is a sum of tokens, which is read divided by their number; take "
			       "x.mean(1)",
			       i);
	else if (v && v->scores.heads)
		sl_onnx_refuse(im, "its input %zu is scores of attention, which softmax alone reads", i);
	if (im->b->err)
		return -1;
	if (v && v->value < 0 && sl_onnx_learns(im, v->constant)) {
		sl_onnx_refuse(
			im,
			"its input %zu is '%.96s', a parameter or a buffer of the network, where a computed value "
			"is read: of nn.utils.weight_norm call remove_weight_norm before the export",
			i, v->constant->name);
		return -1;
	}
	if (!v || v->value < 0) {
		sl_onnx_refuse(im, "its input %zu is %s, where a computed value is read%s", i,
			       v ? "constant" : "not there",
			       v && strcmp(im->node->op_type, "Concat") == 0 ? ": F.pad(x, …) appends zeros" : "");
		return -1;
	}
	if (ndim &&
	    (sl_onnx_batch_axis(&v->view) != 0 || (v->view.n_axis != ndim && !(ndim == 4 && v->view.n_axis == 3)))) {
		sl_onnx_refuse(im, "it takes %s",
			       ndim == 4 ? "images, [batch, channels, height, width]" : "rows, [batch, features]");
		return -1;
	}
	im->flat = ndim == 4 && v->view.n_axis == 3;
	if (im->flat)
		return signal_of(im, v);
	if (ndim == 4)
		return sl_onnx_arrange_axes(im, v, (int[]){2, 3, 1}, 3, 0);
	if (ndim == 2 && !v->permuted)
		return sl_onnx_arrange_axes(im, v, (int[]){1}, 1, 0);
	return v->value;
}

int sl_onnx_image_in(struct sl_onnx_import *im)
{

	return sl_onnx_data_in(im, 0, 4);
}

int sl_onnx_padded_in(struct sl_onnx_import *im, int *pad)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int x;

	*pad = v ? v->pad : 0;
	if (v)
		v->pad = 0;
	x = sl_onnx_image_in(im);
	if (v)
		v->pad = *pad;
	return x;
}

int64_t sl_onnx_last_of(const struct sl_onnx_import *im, int value)
{
	const struct sl_shape s = sl_build_shape(im->b, value);

	return s.dim[s.ndim - 1];
}

/* Whether torch's newer exporter wrote the node: its name then does not tell its module. A node may have no name. */
static bool is_newer(const Onnx__Node *n)
{
	return n->name && strncmp(n->name, "node_", 5) == 0;
}

bool sl_onnx_learns(const struct sl_onnx_import *im, const Onnx__Tensor *t)
{
	return t && t->name && t->name[0] && sl_onnx_find_init(im->onnx, t->name) == t &&
	       strncmp(t->name, "onnx::", 6) != 0 && /* a constant that torch has folded */
	       (strncmp(t->name, "val_", 4) != 0 || t->name[4 + strspn(t->name + 4, "0123456789")] ||
		!is_newer(im->onnx->graph->node[0]));
}

/* Makes t, input `i`, the next parameter, which must have n_dims dimensions; NULL after a refusal. */
static const Onnx__Tensor *take_param(struct sl_onnx_import *im, const Onnx__Tensor *t, size_t i, size_t n_dims)
{
	char text[SL_ONNX_DIMS_TEXT];

	if (im->b->err)
		return NULL;
	if (!sl_onnx_learns(im, t)) {
		const bool joins = strcmp(im->node->op_type, "Concat") == 0;

		sl_onnx_refuse(
			im, "its input %zu is %s, where a parameter is read%s", i, t ? "a constant" : "computed",
			!t      ? ""
			: joins ? ": F.pad(x, …) appends zeros, and a token that is put in front is an nn.Parameter"
				: ": give the layer parameters (affine=True), or, if constants were folded, export "
				  "with do_constant_folding=False");
		return NULL;
	}
	if (t->data_type != SL_ONNX_FLOAT) {
		sl_onnx_refuse(im, "its parameter '%.96s' is of type %d, where float32 is read", t->name, t->data_type);
		return NULL;
	}
	if (t->n_dims != n_dims) {
		sl_onnx_refuse(im, "its parameter '%.96s' is %s, where %zu dimensions are right", t->name,
			       sl_onnx_dims_text(t, text), n_dims);
		return NULL;
	}
	for (size_t d = 0; d < n_dims; d++)
		if (t->dims[d] < 1 || t->dims[d] > (n_dims == 2 && d ? SL_GRAPH_MOST_ELEMENTS : SL_ONNX_MOST)) {
			sl_onnx_refuse(im, "its parameter '%.96s' is %s", t->name, sl_onnx_dims_text(t, text));
			return NULL;
		}
	if (im->n_param == im->cap_param) {
		sl_onnx_refuse(im, "the file's nodes use parameters too often");
		return NULL;
	}
	im->param[im->n_param++] = t->name;
	if (is_newer(im->node))
		sl_onnx_name_by(im, t->name);
	return t;
}

/* Refuses a parameter that the file transposes: the bytes of its tensor are not transposed. */
static void must_stand(struct sl_onnx_import *im, const struct sl_onnx_value *v)
{
	if (v && v->transposed)
		sl_onnx_refuse(im, "its parameter '%.96s' is transposed, which is read of a linear layer's alone",
			       v->constant->name);
}

const Onnx__Tensor *sl_onnx_param_in(struct sl_onnx_import *im, size_t i, size_t n_dims)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	int64_t all = 1;

	must_stand(im, v);
	for (int d = 0; v && v->constant && d < v->n_dim; d++)
		all *= v->dim[d];
	if (v && v->constant && all != sl_onnx_count(v->constant))
		sl_onnx_refuse(im,
			       "its input %zu is a part of a parameter, as of nn.MultiheadAttention whose queries "
			       "are other than its keys: give each part a layer of its own",
			       i);
	return take_param(im, v ? v->constant : NULL, i, n_dims);
}

const Onnx__Tensor *sl_onnx_param_named(struct sl_onnx_import *im, const char *name)
{
	const struct sl_onnx_value *v = sl_onnx_find(im, name);
	const Onnx__Tensor *t = v && v->known ? v->constant : NULL;

	must_stand(im, v);
	return take_param(im, t, 1, t ? t->n_dims : 0);
}

void sl_onnx_use_params(struct sl_onnx_import *im, int before)
{
	im->b->param_name = im->param + before;
}

bool sl_onnx_vector_of(struct sl_onnx_import *im, const Onnx__Tensor *t, int64_t count)
{
	if (t && t->dims[0] != count)
		sl_onnx_refuse(im, "its parameter '%.96s' has %lld elements, where %lld are right", t->name,
			       (long long)t->dims[0], (long long)count);
	return t && t->dims[0] == count;
}

bool sl_onnx_scalar_in(struct sl_onnx_import *im, size_t i, float *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);

	if (v && v->is_number) {
		*out = v->number;
		return true;
	}
	if (v && v->constant && v->constant->data_type == SL_ONNX_INT64 && sl_onnx_count(v->constant) == 1 &&
	    v->value < 0) { /* an integer that torch casts to float */
		int64_t whole[SL_ONNX_INTS];

		*out = sl_onnx_ints_in(im, i, whole) == 1 ? (float)whole[0] : 0;
		return true;
	}
	if (!v || !v->constant || v->constant->data_type != SL_ONNX_FLOAT || sl_onnx_count(v->constant) != 1 ||
	    sl_onnx_learns(im, v->constant))
		return false;
	sl_onnx_read_f32(v->constant, out);
	return true;
}

int sl_onnx_ints_in(struct sl_onnx_import *im, size_t i, int64_t out[SL_ONNX_INTS])
{
	return sl_onnx_ints_of(sl_onnx_in(im, i), out);
}

int sl_onnx_ints_of(const struct sl_onnx_value *v, int64_t out[SL_ONNX_INTS])
{
	const Onnx__Tensor *t = v ? v->constant : NULL;

	if (v && v->n_ints) {
		memcpy(out, v->ints, (size_t)v->n_ints * sizeof *out);
		return v->n_ints;
	}
	if (!t || t->data_type != SL_ONNX_INT64 || sl_onnx_count(t) > SL_ONNX_INTS)
		return -1;
	if (sl_onnx_count(t))
		memcpy(out, t->has_raw_data ? (const void *)t->raw_data.data : t->int64_data,
		       (size_t)sl_onnx_count(t) * sizeof *out);
	return (int)sl_onnx_count(t);
}
