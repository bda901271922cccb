/* What a network in a file looks up of its row: which numbers are ids, and of how many rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/network_file.h"
#include "common/graph/graph_text.h"

enum { MOST_STEPS = 64 /* from a lookup back to the input: a few suffice */ };

/* Ids of a lookup: which number of which input each is, and the constants that are added to it. */
struct ids {
	int64_t n, *at;
	int *value;
	double *plus;
};

/* The file's parameters that are constants, as far as they were read. */
struct source {
	const struct sl_graph *g;
	const struct sl_st_file *file;
	float **constant; /* [n_param] */
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

/* The same of a concat, and from which input: *second. */
static int64_t of_concat(const struct sl_op *op, int64_t at, bool *second)
{
	const int axis = sl_op_concat_axis(op);
	const int64_t n = sl_op_inner(&op->in_shape[0], axis), m = sl_op_inner(&op->in_shape[1], axis);
	const int64_t outer = at / (n + m), i = at % (n + m);

	*second = i >= n;
	return *second ? outer * m + i - n : outer * n + i;
}

/* The number that a repeat node has at a place; NaN: it is no constant of the file. */
static double constant_at(struct source *s, int repeat, int64_t at)
{
	const int param = s->g->link[s->g->node[repeat].param];
	const struct sl_param *p = &s->g->param[param];
	const struct sl_st_tensor *t = p->role == SL_FROZEN ? sl_st_find(s->file, p->name) : NULL;
	struct sl_fail why;

	if (!t || t->count != sl_shape_count(&p->shape))
		return NAN;
	if (!s->constant[param]) {
		s->constant[param] = malloc((size_t)t->count * sizeof(float));
		if (!s->constant[param] || sl_st_read_f32(s->file, t, s->constant[param], &why) != SL_OK)
			return NAN;
	}
	return (double)s->constant[param][at];
}

/* Follows id k one node back, to the node's input that it comes from. False: it is computed. */
static bool step_back(struct source *s, struct ids *ids, int64_t k)
{
	const int maker = s->g->value[ids->value[k]].maker;
	const struct sl_node *node = &s->g->node[maker];
	const struct sl_op op = sl_graph_op(s->g, maker);
	int64_t *at = &ids->at[k];
	bool second = false;

	if (node->kind == SL_OP_RESAMPLE) {
		*at = cut(&op, *at);
	} else if (node->kind == SL_OP_PERMUTE) {
		*at = permuted(&node->u.permute, sl_shape_row(&op.out_shape), *at);
	} else if (node->kind == SL_OP_CONCAT) {
		*at = of_concat(&op, *at, &second);
	} else if (node->kind == SL_OP_SCALE && node->u.scale.by == 1) {
		ids->plus[k] += (double)node->u.scale.plus;
	} else if (node->kind == SL_OP_ADD) {
		const int of[2] = {s->g->value[op.in[0]].maker, s->g->value[op.in[1]].maker};

		second = of[0] >= 0 && s->g->node[of[0]].kind == SL_OP_REPEAT;
		if (of[!second] < 0 || s->g->node[of[!second]].kind != SL_OP_REPEAT)
			return false;
		ids->plus[k] += constant_at(s, of[!second], *at);
	} else if (node->kind != SL_OP_FLATTEN) {
		return false;
	}
	ids->value[k] = op.in[second];
	return *at >= 0 && isfinite(ids->plus[k]);
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

/* Takes the rooms of one lookup's ids, as far as they are of this input. CONFIG: they are computed. */
static enum sl_err take_lookup(int *room, struct source *s, const struct sl_node *node, int input, struct ids *ids,
			       struct sl_fail *fail)
{
	bool known = true;

	for (int64_t k = 0; k < ids->n && known; k++) {
		int steps = 0;

		ids->at[k] = k, ids->plus[k] = 0, ids->value[k] = s->g->link[node->in];
		while (known && s->g->value[ids->value[k]].maker >= 0)
			known = steps++ < MOST_STEPS && step_back(s, ids, k);
		known = known && ids->plus[k] >= 0 && ids->plus[k] < node->u.lookup.rows;
	}
	if (!known)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (lookup): it looks up what the network computes; ids are numbers of a row, to "
				   "which constants from 0 on may be added",
				   node->name);
	for (int64_t k = 0; k < ids->n; k++) {
		const double end = room_of(ids, k, node->u.lookup.rows);
		int *to = &room[ids->at[k]];

		if (ids->value[k] == input)
			*to = *to && *to < end ? *to : (int)end;
	}
	return SL_OK;
}

static enum sl_err take_lookups(int *room, struct source *s, int input, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < s->g->n_node && !err; i++) {
		const struct sl_node *node = &s->g->node[i];
		const struct sl_shape *in = &s->g->value[s->g->link[node->in]].shape;
		const size_t n = node->kind == SL_OP_LOOKUP ? (size_t)in->dim[1] : 0;
		struct ids ids = {(int64_t)n, calloc(n + 1, sizeof *ids.at), calloc(n + 1, sizeof *ids.value),
				  calloc(n + 1, sizeof *ids.plus)};

		if (!ids.at || !ids.value || !ids.plus)
			err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for ids of columns");
		else if (n)
			err = take_lookup(room, s, node, input, &ids, fail);
		free(ids.at);
		free(ids.value);
		free(ids.plus);
	}
	return err;
}

static enum sl_err rooms_of(int **out, int *n, struct source *s, int input, struct sl_fail *fail)
{
	const struct sl_graph *g = s->g;
	const int64_t features = sl_shape_row(&g->value[input].shape);
	enum sl_err err = SL_OK;
	bool some = false;

	for (int i = 0; i < g->n_node; i++)
		some = some || g->node[i].kind == SL_OP_LOOKUP;
	if (!some || g->value[input].shape.ndim != 2 || features > SL_MODEL_MAX_FEATURES)
		return SL_OK;
	*out = calloc((size_t)features, sizeof **out);
	*n = (int)features;
	s->constant = calloc((size_t)g->n_param + 1, sizeof *s->constant);
	err = *out && s->constant ? take_lookups(*out, s, input, fail)
				  : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for ids of columns");
	for (int i = 0; i < g->n_param && s->constant; i++)
		free(s->constant[i]);
	free(s->constant);
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
		err = rooms_of(out, n, &(struct source){&g, file, NULL}, k, &why);
	sl_graph_close(&g);
	sl_st_close(file);
	if (!err)
		return SL_OK;
	free(*out);
	*out = NULL;
	return sl_fail_set(fail, err, "%s: %s", path, why.text);
}
