/* What a network in a file looks up of its row: which numbers are ids, and of how many rows. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/network_file.h"
#include "common/graph/graph_text.h"

/* The ids of one lookup, as it is followed back to the input: where each is in a value's row, and what was added. */
struct ids {
	int64_t n, *at;
	double *plus;
};

/* Where element `at` of a permute's output comes from. */
static int64_t permuted(const struct sl_permute_attr *a, int64_t row, int64_t at)
{
	const int64_t d = row / a->outer / a->b / a->c, rest = at % d, b = at / d % a->b, c = at / d / a->b % a->c;

	return ((at / d / a->b / a->c * a->b + b) * a->c + c) * d + rest;
}

/* The same of a resample; -1: it is computed of several. */
static int64_t cut(const struct sl_op *op, int64_t at)
{
	const struct sl_resample_attr *a = &op->u.resample;
	const int64_t inner = sl_op_inner(&op->out_shape, a->axis + 1), n = op->in_shape[0].dim[a->axis];
	const int64_t i = a->first - a->before + at / inner % a->size * a->step;

	if (a->mode != SL_RESAMPLE_CUT || op->slices || a->axis < 1 || i < 0 || i >= n)
		return -1;
	return (at / inner / a->size * n + i) * inner + at % inner;
}

/* Adds a constant of the file to each id. */
static enum sl_err add_constant(struct ids *ids, const struct sl_graph *g, int repeat, const struct sl_st_file *file,
				bool *known, struct sl_fail *fail)
{
	const struct sl_param *p = &g->param[g->link[g->node[repeat].param]];
	const struct sl_st_tensor *t = sl_st_find(file, p->name);
	float *value = t && t->count == sl_shape_count(&p->shape) ? malloc((size_t)t->count * sizeof *value) : NULL;
	enum sl_err err = value ? sl_st_read_f32(file, t, value, fail) : SL_OK;

	*known = value && p->role == SL_FROZEN;
	for (int64_t i = 0; i < ids->n && !err && *known; i++)
		ids->plus[i] += (double)value[ids->at[i]];
	free(value);
	return err;
}

/* Follows the ids one node back from value *v. *known: they are still numbers of a row, with constants added. */
static enum sl_err step_back(struct ids *ids, const struct sl_graph *g, const struct sl_st_file *file, int *v,
			     bool *known, struct sl_fail *fail)
{
	const struct sl_node *node = &g->node[g->value[*v].maker];
	const struct sl_op op = sl_graph_op(g, g->value[*v].maker);
	const int64_t row = sl_shape_row(&op.out_shape);
	int from = g->link[node->in];

	*known = node->kind == SL_OP_RESAMPLE || node->kind == SL_OP_PERMUTE || node->kind == SL_OP_FLATTEN ||
		 node->kind == SL_OP_ADD || (node->kind == SL_OP_SCALE && node->u.scale.by == 1);
	if (node->kind == SL_OP_ADD) {
		const int maker[2] = {g->value[from].maker, g->value[g->link[node->in + 1]].maker};
		const int k = maker[0] >= 0 && g->node[maker[0]].kind == SL_OP_REPEAT ? 0 : 1;
		enum sl_err err;

		if (maker[k] < 0 || g->node[maker[k]].kind != SL_OP_REPEAT) {
			*known = false;
			return SL_OK;
		}
		err = add_constant(ids, g, maker[k], file, known, fail);
		*v = g->link[node->in + !k];
		return err;
	}
	for (int64_t i = 0; i < ids->n && *known; i++) {
		if (node->kind == SL_OP_SCALE)
			ids->plus[i] += (double)node->u.scale.plus;
		else if (node->kind == SL_OP_PERMUTE)
			ids->at[i] = permuted(&node->u.permute, row, ids->at[i]);
		else if (node->kind == SL_OP_RESAMPLE)
			ids->at[i] = cut(&op, ids->at[i]);
		*known = ids->at[i] >= 0;
	}
	*v = from;
	return SL_OK;
}

/* The rows that an id may choose from: up to the next column's first row, if several columns share a table. */
static double room_of(const struct ids *ids, int64_t k, int rows)
{
	double end = rows;

	for (int64_t i = 0; i < ids->n; i++)
		if (ids->plus[i] > ids->plus[k] && ids->plus[i] < end)
			end = ids->plus[i];
	return end - ids->plus[k];
}

/* Takes the rooms of one lookup's ids, if they are of this input. CONFIG: they are computed. */
static enum sl_err take_lookup(int *room, const struct sl_graph *g, const struct sl_node *node, int input,
			       const struct sl_st_file *file, struct ids *ids, struct sl_fail *fail)
{
	int v = g->link[node->in], steps = 0;
	bool known = true;
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < ids->n; i++)
		ids->at[i] = i, ids->plus[i] = 0;
	while (known && g->value[v].maker >= 0 && !err) {
		err = step_back(ids, g, file, &v, &known, fail);
		known = known && ++steps < 64; /* a few suffice */
	}
	for (int64_t i = 0; i < ids->n && known && !err; i++)
		known = ids->plus[i] >= 0 && ids->plus[i] < node->u.lookup.rows;
	if (!err && !known)
		err = sl_fail_set(fail, SL_ERR_CONFIG,
				  "%s (lookup): it looks up what the network computes; ids are numbers of a row, to "
				  "which constants from 0 on may be added",
				  node->name);
	for (int64_t i = 0; i < ids->n && !err && v == input; i++) {
		const double end = room_of(ids, i, node->u.lookup.rows);
		int *to = &room[ids->at[i]];

		*to = *to && *to < end ? *to : (int)end;
	}
	return err;
}

static enum sl_err take_lookups(int **out, int *n, const struct sl_graph *g, int input, const struct sl_st_file *file,
				struct sl_fail *fail)
{
	const int64_t features = sl_shape_row(&g->value[input].shape);
	enum sl_err err = SL_OK;
	bool some = false;

	for (int i = 0; i < g->n_node; i++)
		some = some || g->node[i].kind == SL_OP_LOOKUP;
	if (!some || g->value[input].shape.ndim != 2 || features > SL_MODEL_MAX_FEATURES)
		return SL_OK;
	*out = calloc((size_t)features, sizeof **out);
	*n = (int)features;
	for (int i = 0; i < g->n_node && !err; i++) {
		const struct sl_node *node = &g->node[i];
		struct ids ids = {.n = 0};

		if (node->kind != SL_OP_LOOKUP)
			continue;
		ids.n = g->value[g->link[node->in]].shape.dim[1];
		ids.at = calloc((size_t)ids.n, sizeof *ids.at);
		ids.plus = calloc((size_t)ids.n, sizeof *ids.plus);
		err = *out && ids.at && ids.plus ? take_lookup(*out, g, node, input, file, &ids, fail)
						 : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for ids of columns");
		free(ids.at);
		free(ids.plus);
	}
	return err;
}

enum sl_err sl_network_file_rooms(int **out, int *n, const char *path, const char *input, struct sl_fail *fail)
{
	struct sl_graph g = {0};
	struct sl_st_file *file;
	struct sl_fail why;
	enum sl_err err = sl_st_open(&file, path, fail);
	const char *text;
	int k = 0;

	*out = NULL;
	*n = 0;
	if (err)
		return err;
	text = sl_st_metadata(file, "split.graph");
	err = text ? sl_graph_read(&g, text, strlen(text), &why) : SL_OK;
	if (!err && text && input)
		k = sl_model_input(&g, input);
	if (!err && text && k >= 0 && k < g.n_in)
		err = take_lookups(out, n, &g, k, file, &why);
	sl_graph_close(&g);
	sl_st_close(file);
	if (!err)
		return SL_OK;
	free(*out);
	*out = NULL;
	return sl_fail_set(fail, err, "%s: %s", path, why.text);
}
