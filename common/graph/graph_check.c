/* Checks that need the whole graph. */
#include <stdlib.h>
#include <string.h>

#include "common/graph/graph.h"

static int by_name(const void *a, const void *b)
{
	const struct sl_param *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static enum sl_err check_names(const struct sl_graph *g, struct sl_fail *fail)
{
	const struct sl_param **list = malloc(((size_t)g->n_param + 1) * sizeof *list);
	enum sl_err err = SL_OK;

	if (!list)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to check a graph");
	for (int i = 0; i < g->n_param; i++)
		list[i] = &g->param[i];
	qsort(list, (size_t)g->n_param, sizeof *list, by_name);
	for (int i = 1; i < g->n_param && !err; i++)
		if (strcmp(list[i - 1]->name, list[i]->name) == 0)
			err = sl_fail_set(fail, SL_ERR_CONFIG, "two parameters are called %s", list[i]->name);
	free(list);
	return err;
}

static enum sl_err check_param_order(const struct sl_graph *g, struct sl_fail *fail)
{
	int used = 0;

	for (int i = 0; i < g->n_node; i++)
		for (int k = 0; k < g->node[i].n_param; k++) {
			int p = g->link[g->node[i].param + k];

			if (p > used)
				return sl_fail_set(fail, SL_ERR_CONFIG,
						   "%s stands behind a parameter that is used later", g->param[p].name);
			used += p == used;
		}
	return used == g->n_param ? SL_OK : sl_fail_set(fail, SL_ERR_CONFIG, "no node uses %s", g->param[used].name);
}

static int count_readers(const struct sl_graph *g, int value, int *last)
{
	int n = 0;

	for (int i = 0; i < g->n_node; i++)
		for (int k = 0; k < g->node[i].n_in; k++)
			if (g->link[g->node[i].in + k] == value) {
				*last = i;
				n++;
			}
	return n;
}

static enum sl_err check_readers(const struct sl_graph *g, struct sl_fail *fail)
{
	bool *read = calloc((size_t)g->n_value + 1, sizeof *read);
	enum sl_err err = SL_OK;

	if (!read)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to check a graph");
	for (int i = 0; i < g->n_node; i++)
		for (int k = 0; k < g->node[i].n_in; k++)
			read[g->link[g->node[i].in + k]] = true;
	for (int i = 0; i < g->n_out; i++)
		read[g->out[i].value] = true;
	for (int i = 0; i < g->n_value && !err; i++)
		if (!read[i])
			err = sl_fail_set(fail, SL_ERR_CONFIG, "nothing reads what %s gives",
					  g->value[i].maker < 0 ? g->in[i].name : g->node[g->value[i].maker].name);
	free(read);
	return err;
}

/* Whether a node is a bias-free layer over the last dimension alone, with a square matrix of `full` rows. The features
 * that cross must be the matrix's rows, so that the used part is its front. Those are the layer's outputs if the field
 * is an output, or the inputs of a transposed layer (op.h) if it is an input. */
static bool can_narrow(const struct sl_graph *g, const struct sl_node *node, bool out, int full)
{
	const struct sl_convt_attr *t = &node->u.convt;
	const struct sl_conv_attr *c = &node->u.conv;
	const struct sl_linear_attr *l = &node->u.linear;

	if (node->n_param != 1 || g->param[g->link[node->param]].role != SL_LEARNS)
		return false;
	if (node->kind == SL_OP_LINEAR)
		return l->transposed != out && l->in_f == full && l->out_f == full;
	if (node->kind == SL_OP_CONV2D)
		return out && c->groups == 1 && c->kh == 1 && c->kw == 1 && c->stride == 1 && c->pad == 0 &&
		       c->in_c == full && c->out_c == full;
	return node->kind == SL_OP_CONVT2D && !out && t->kh == 1 && t->kw == 1 && t->stride == 1 && t->pad == 0 &&
	       t->groups == 1 && t->in_c == full && t->out_c == full;
}

/* The next node away from the cut. Next to an input (`out` false) it is the only reader of node `at`'s value; next to
 * an output it is the maker of the value that only node `at` reads. -1: there is none. */
static int next_from_cut(const struct sl_graph *g, int at, bool out)
{
	const struct sl_node *node = &g->node[at];
	const int value = out ? g->link[node->in] : node->out;
	int reader = -1;

	for (int i = 0; i < g->n_out; i++)
		if (g->out[i].value == value)
			return -1;
	if (node->n_in != 1 || count_readers(g, value, &reader) != 1)
		return -1;
	return out ? g->value[value].maker : reader;
}

int sl_graph_narrowing(const struct sl_graph *g, const struct sl_field *field, bool out, int node[SL_NARROW_CHAIN])
{
	const struct sl_decay *d = &field->decay;
	int at = g->value[field->value].maker;

	if (count_readers(g, field->value, &at) != !out || at < 0 ||
	    !can_narrow(g, &g->node[at], out, d->tokens ? d->tokens : d->full))
		return 0;
	node[0] = at;
	if (!d->tokens)
		return 1;
	for (int i = SL_NARROW_TRANSPOSE; i < SL_NARROW_CHAIN; i++) {
		node[i] = next_from_cut(g, node[i - 1], out);
		if (node[i] < 0)
			return 0;
	}
	return g->node[node[SL_NARROW_TOKENS]].kind == SL_OP_LINEAR &&
			       g->node[node[SL_NARROW_TRANSPOSE]].kind == SL_OP_TRANSPOSE &&
			       g->node[node[SL_NARROW_FEATURES]].kind == SL_OP_LINEAR &&
			       can_narrow(g, &g->node[node[SL_NARROW_FEATURES]], out, d->full)
		       ? SL_NARROW_CHAIN
		       : 0;
}

static bool widths_fit(const struct sl_decay *d, const struct sl_shape *s)
{
	const int last = s->ndim - 1;

	if (!d->tokens)
		return d->full == s->dim[last];
	return s->ndim == 3 && d->full == s->dim[1] && d->tokens == s->dim[2] && d->rate2 > 0 && d->rate2 <= 1;
}

static enum sl_err check_decay(const struct sl_graph *g, const struct sl_field *field, bool out, struct sl_fail *fail)
{
	const struct sl_decay *d = &field->decay;
	int node[SL_NARROW_CHAIN];

	if (!d->full)
		return SL_OK;
	if (!(d->rate > 0 && d->rate <= 1) || d->every < 1 || d->every > SL_DECAY_MAX_EVERY || d->times < 1 ||
	    d->times > SL_DECAY_MAX_TIMES || !(d->l1 >= 0 && d->l1 <= SL_DECAY_MAX_L1) || d->from < 0 ||
	    d->from > d->every * d->times)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: no width decays like that", field->name);
	if (!widths_fit(d, &g->value[field->value].shape) || !sl_graph_narrowing(g, field, out, node))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s decays, but no layer beside it can narrow", field->name);
	return SL_OK;
}

enum sl_err sl_graph_check(const struct sl_graph *g, struct sl_fail *fail)
{
	enum sl_err err = check_names(g, fail);

	if (!err && (!g->n_in || !g->n_node || !g->n_out))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "a graph has inputs, nodes and outputs");
	if (!err)
		err = check_param_order(g, fail);
	if (!err)
		err = check_readers(g, fail);
	for (int i = 0; i < g->n_in && !err; i++)
		err = check_decay(g, &g->in[i], false, fail);
	for (int i = 0; i < g->n_out && !err; i++)
		err = check_decay(g, &g->out[i], true, fail);
	return err;
}
