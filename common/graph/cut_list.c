/* Lists a network's cuts by what they send and what the client computes. */
#include <stdlib.h>
#include <string.h>

#include "common/graph/cut.h"

enum { MOST_NODES = 400 };         /* of a larger network only borders of units are looked at */
static const double NEXT = 0.95;   /* a cut is listed if it sends at most so much of the one before it */
static const int NOBODY = 1 << 30; /* reads a value */

/* What is known of each value and node, and what a pair of boundaries costs. */
struct search {
	const struct sl_model *model;
	int64_t tokens; /* of a row */
	int values;
	int *next, *last; /* [n_value]: first reader of the middle and the tail, or NOBODY; last reader, or -1 */
	double *macs;     /* [n_node + 1]: of the nodes before */
	int *params;      /* [n_node + 1]: parameters that these name */
	bool *border;     /* [n_node]: a boundary in front of this node is looked at */
};

static double times(const struct search *s, int value)
{
	return s->model->graph.value[value].lead == SL_PER_TOKEN ? (double)s->tokens : 1;
}

static double floats_of(const struct search *s, int value)
{
	return times(s, value) * (double)sl_shape_row(&s->model->graph.value[value].shape);
}

static void note_nodes(struct search *s)
{
	const struct sl_graph *g = &s->model->graph;

	for (int v = 0; v < g->n_value; v++)
		s->last[v] = -1;
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_op op = sl_graph_op(g, i);

		s->macs[i + 1] = s->macs[i] + times(s, g->node[i].out) * (double)sl_op_macs(&op, 1);
		s->params[i + 1] = s->params[i] + g->node[i].n_param;
		s->border[i] = g->n_node <= MOST_NODES;
		for (int k = 0; k < g->node[i].n_in; k++)
			s->last[g->link[g->node[i].in + k]] = i;
	}
	for (int u = 0; u < s->model->n_unit; u++)
		s->border[s->model->unit[u].first_node] = true;
}

/* Finds for each value its first reader at or behind the head's end. */
static void note_readers(struct search *s, int head_at)
{
	const struct sl_graph *g = &s->model->graph;

	for (int v = 0; v < g->n_value; v++)
		s->next[v] = NOBODY;
	for (int i = g->n_node - 1; i >= head_at; i--)
		for (int k = 0; k < g->node[i].n_in; k++)
			s->next[g->link[g->node[i].in + k]] = i;
}

/* The floats of a row that cross; -1: such a cut is not legal, or a part has no parameters. A head or tail without any
 * hides nothing: the server could compute inputs or labels. The head's end is that of note_readers. */
static double floats_at(const struct search *s, int head_at, int tail_at)
{
	const struct sl_graph *g = &s->model->graph;
	int up = 0, down = 0, home = s->last[SL_BUILD_INPUT] >= tail_at;
	double floats = 0;

	for (int v = 0; v < g->n_in && g->n_in > 2; v++) /* none of several inputs stays at home */
		if (v != SL_BUILD_LABEL && s->last[v] >= head_at)
			return -1;
	if (s->next[SL_BUILD_INPUT] < tail_at || !s->params[head_at] || s->params[tail_at] == s->params[head_at] ||
	    s->params[tail_at] == s->params[g->n_node] || (home && g->value[SL_BUILD_INPUT].dtype != SL_F32))
		return -1;
	for (int i = 0; i < tail_at; i++) {
		const int v = g->node[i].out;
		const bool crosses = i < head_at ? s->next[v] < tail_at : s->last[v] >= tail_at;

		if (i >= head_at && g->node[i].kind == SL_OP_LOOKUP) /* ids do not cross */
			return -1;
		home += i < head_at && s->last[v] >= tail_at;
		if (!crosses)
			continue;
		*(i < head_at ? &up : &down) += 1;
		floats += floats_of(s, v);
	}
	return up >= 1 && down >= 1 && up <= s->values && down <= s->values && home <= SL_CUT_HOMES ? floats : -1;
}

static struct sl_cut_price price_at(const struct search *s, const struct sl_cut *cut, double floats)
{
	const int head_at = cut->head_end + 1, tail_at = cut->tail_begin, n = s->model->graph.n_node;

	return (struct sl_cut_price){
		.cut = *cut,
		.floats = floats,
		.macs = {s->macs[head_at], s->macs[tail_at] - s->macs[head_at], s->macs[n] - s->macs[tail_at]}};
}

static double at_client(const struct sl_cut_price *p)
{
	return p->macs[SL_HEAD] + p->macs[SL_TAIL];
}

/* Whether a cut that is there sends as little, and computes as little at the client. */
static bool is_beaten(const struct sl_cut_price *list, int n, const struct sl_cut_price *p)
{
	for (int i = 0; i < n; i++)
		if (list[i].floats <= p->floats && at_client(&list[i]) <= at_client(p))
			return true;
	return false;
}

/* Adds a cut, and removes those that it beats. */
static int add(struct sl_cut_price *list, int n, int most, const struct sl_cut_price *p)
{
	int left = 0;

	for (int i = 0; i < n; i++)
		if (list[i].floats < p->floats || at_client(&list[i]) < at_client(p))
			list[left++] = list[i];
	if (left < most)
		list[left++] = *p;
	return left;
}

/* Whether a config can name this cut, whose text is found then. */
static bool is_named(const struct search *s, struct sl_cut *cut)
{
	const struct sl_graph *g = &s->model->graph;
	struct sl_cut found;
	struct sl_fail fail;

	if (sl_cut_find(&found, s->model, NULL, g->node[cut->head_end].name, g->node[cut->tail_begin].name, s->values,
			&fail) != SL_OK ||
	    found.head_end != cut->head_end || found.tail_begin != cut->tail_begin)
		return false;
	*cut = found;
	return true;
}

static int look(struct search *s, struct sl_cut_price *list, int most)
{
	const int end = s->model->graph.n_node;
	int n = 0;

	for (int head = 1; head < end; head++) {
		if (!s->border[head])
			continue;
		note_readers(s, head);
		for (int tail = head + 1; tail < end; tail++) {
			const struct sl_cut cut = {.head_end = head - 1, .tail_begin = tail};
			const double floats = s->border[tail] ? floats_at(s, head, tail) : -1;
			struct sl_cut_price p;

			if (floats < 0)
				continue;
			p = price_at(s, &cut, floats);
			if (!is_beaten(list, n, &p) && is_named(s, &p.cut))
				n = add(list, n, most, &p);
		}
	}
	return n;
}

/* By what the client computes. */
static int by_client(const void *a, const void *b)
{
	const double x = at_client(a), y = at_client(b);

	return (x > y) - (x < y);
}

static enum sl_err open_search(struct search *s, const struct sl_model *model, int values, int64_t tokens)
{
	const size_t nodes = (size_t)model->graph.n_node + 1, all = (size_t)model->graph.n_value;

	*s = (struct search){.model = model,
			     .tokens = tokens,
			     .values = values,
			     .next = calloc(all, sizeof *s->next),
			     .last = calloc(all, sizeof *s->last),
			     .macs = calloc(nodes, sizeof *s->macs),
			     .params = calloc(nodes, sizeof *s->params),
			     .border = calloc(nodes, sizeof *s->border)};
	if (!s->next || !s->last || !s->macs || !s->params || !s->border)
		return SL_ERR_NOMEM;
	note_nodes(s);
	return SL_OK;
}

static void close_search(struct search *s)
{
	free(s->next);
	free(s->last);
	free(s->macs);
	free(s->params);
	free(s->border);
}

enum sl_err sl_cut_list(const struct sl_cut *own, const struct sl_model *model, int values, int64_t tokens,
			struct sl_cut_price *list, int most, int *n)
{
	struct search s;
	enum sl_err err = open_search(&s, model, values, tokens);
	double floats = 0;
	int found, left = 1;

	if (!err) {
		for (int i = 0; i < own->n_up + own->n_down; i++)
			floats += floats_of(&s, i < own->n_up ? own->up[i] : own->down[i - own->n_up]);
		list[0] = price_at(&s, own, floats);
		found = look(&s, list + 1, most - 1);
		qsort(list + 1, (size_t)found, sizeof *list, by_client);
		for (int i = 1; i <= found; i++)
			if (left == 1 || list[i].floats <= NEXT * list[left - 1].floats)
				list[left++] = list[i];
		*n = left;
	}
	close_search(&s);
	return err;
}
