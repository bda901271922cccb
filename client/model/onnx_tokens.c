/* Networks of texts: embeddings of token ids and of positions; how a row's tokens become one vector. */
#include <string.h>

#include "client/model/onnx_tokens.h"
#include "common/graph/model_impl.h"

/* ---- tables */

static int look_up(struct sl_onnx_import *im, int before, struct sl_embedding_attr attr, struct sl_shape file)
{
	struct sl_draft d = sl_draft_begin(im->b, SL_OP_EMBEDDING, im->name, SL_BUILD_INPUT);

	sl_onnx_use_params(im, before);
	d.node.u.embedding = attr;
	sl_draft_param(im->b, &d,
		       &(struct sl_made_param){
			       .suffix = ".weight", .shape = sl_shape2(attr.rows, attr.features), .file = file});
	im->b->param_name = NULL;
	return im->b->err ? -1 : sl_draft_finish(im->b, &d);
}

/* Refuses a table of positions that has fewer than the longest row has tokens. */
static bool has_places(struct sl_onnx_import *im, int64_t rows, int64_t first)
{
	const struct sl_graph *g = im->b->graph;

	if (im->b->err || rows - first >= g->in[SL_BUILD_INPUT].most)
		return !im->b->err;
	sl_onnx_refuse(im, "it has %lld places for tokens: give model.tokens: %lld, or less", (long long)(rows - first),
		       (long long)(rows - first));
	return false;
}

/* Whether v is the positions of a row's tokens, as integers *first, *first + 1 … */
static bool counts_up(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int64_t *first)
{
	const Onnx__Tensor *t = v && v->value < 0 ? v->constant : NULL;
	int64_t at;

	*first = 0;
	if (v && v->is_places)
		return true;
	if (!t || t->data_type != SL_ONNX_INT64 || !v->n_dim || v->dim[v->n_dim - 1] != im->tokens ||
	    sl_onnx_count(t) < im->tokens)
		return false;
	for (int64_t i = 0; i < sl_onnx_count(t); i++) {
		memcpy(&at, (t->has_raw_data ? (const char *)t->raw_data.data : (const char *)t->int64_data) + i * 8,
		       sizeof at);
		*first = i ? *first : at;
		if (at != *first + i || at < 0)
			return false;
	}
	return true;
}

bool sl_onnx_read_lookup(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *table = sl_onnx_in(im, 0), *at = sl_onnx_in(im, 1);
	const bool ids = at && sl_onnx_is_ids(im, at);
	const int token = im->whole ? 2 : 1, feature = im->whole ? 1 : 2, before = im->n_param;
	struct sl_onnx_view view = {.n_atom = 3, .size = {im->batch}};
	const Onnx__Tensor *t;
	int64_t first = 0;
	int value;

	if (im->b->err || !im->tokens || !table || table->value >= 0 || !table->constant ||
	    sl_onnx_attr_int(im, "axis", 0) || (!ids && !counts_up(im, at, &first)))
		return false;
	t = sl_onnx_param_in(im, 0, 2);
	if (!t || (!ids && !has_places(im, t->dims[0], first)))
		return true;
	view.size[token] = im->tokens;
	view.size[feature] = t->dims[1];
	view.n_axis = (ids ? at->view.n_axis : at->n_dim) + 1;
	for (int i = 0; i < view.n_axis - 1; i++) {
		view.axis[i] = ids                        ? at->view.axis[i]
			       : at->dim[i] == im->tokens ? (struct sl_onnx_axis){1, {1}}
			       : at->dim[i] == im->batch  ? (struct sl_onnx_axis){1, {0}}
							  : (struct sl_onnx_axis){0};
		for (int k = 0; k < view.axis[i].n; k++)
			view.axis[i].atom[k] *= token; /* atom 1 has this number; the batch's stays 0 */
	}
	view.axis[view.n_axis - 1] = (struct sl_onnx_axis){1, {feature}};
	value = look_up(
		im, before,
		(struct sl_embedding_attr){
			.rows = (int)t->dims[0], .features = (int)t->dims[1], .position = !ids, .first = (int)first},
		(struct sl_shape){0});
	if (im->whole && !im->b->err)
		value = sl_build_transpose(im->b, im->name, value, (int)im->tokens, 0);
	sl_onnx_out_view(im, value, &view);
	return true;
}

int sl_onnx_places_param(struct sl_onnx_import *im, size_t i)
{
	const int before = im->n_param;
	const struct sl_onnx_value *p = sl_onnx_in(im, i);
	const Onnx__Tensor *t = p && p->constant->name ? sl_onnx_param_named(im, p->constant->name) : NULL;
	struct sl_shape file = {0};
	int64_t rows;

	if (!t)
		return -1;
	rows = sl_onnx_count(t) / t->dims[t->n_dims - 1];
	for (size_t d = 0; d < t->n_dims && d < SL_MAX_DIMS; d++)
		file.dim[file.ndim++] = t->dims[d];
	if (t->n_dims > 4 || rows > SL_ONNX_MOST || !has_places(im, rows, 0))
		return -1;
	return look_up(im, before,
		       (struct sl_embedding_attr){
			       .rows = (int)rows, .features = (int)t->dims[t->n_dims - 1], .position = true},
		       file);
}

bool sl_onnx_read_range(struct sl_onnx_import *im)
{
	struct sl_onnx_value made = {.value = -1, .is_places = true, .n_dim = 1, .dim = {im->tokens}};
	int64_t n[3][SL_ONNX_INTS];

	for (size_t i = 0; i < 3; i++)
		if (!im->tokens || sl_onnx_ints_in(im, i, n[i]) != 1)
			return false;
	if (n[0][0] != 0 || n[1][0] != im->tokens || n[2][0] != 1)
		return false;
	sl_onnx_out_same(im, &made);
	return true;
}

/* ---- from tokens to rows */

/* The mean is computed by attention whose scores are all 0, so that each token gets the mean of all. */
void sl_onnx_read_row(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool mean, bool keep)
{
	const int batch = sl_onnx_batch_axis(&v->view), n = v->view.n_axis;
	struct sl_onnx_view view = {.n_atom = 2, .size = {im->batch}};
	int x, zero;

	if (n != 3 || batch == axis) {
		sl_onnx_refuse(im, "it takes a token of other than [batch, tokens, features]");
		return;
	}
	x = sl_onnx_arrange_axes(im, v, (int[]){axis, 3 - axis - batch}, 2, 0);
	if (im->b->err)
		return;
	if (mean) {
		zero = sl_build_scale(im->b, im->name, x, 0);
		x = sl_build_attention(im->b, im->name, zero, zero, x, (struct sl_attention_attr){.heads = 1});
	}
	x = sl_build_select(im->b, im->name, x);
	view.size[1] = sl_onnx_axis_size(&v->view, 3 - axis - batch);
	for (int i = 0; i < n; i++)
		if (i == axis ? keep : true)
			view.axis[view.n_axis++] = i == axis    ? (struct sl_onnx_axis){0}
						   : i == batch ? (struct sl_onnx_axis){1, {0}}
								: (struct sl_onnx_axis){1, {1}};
	sl_onnx_out_view(im, x, &view);
}
