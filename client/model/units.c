/* Divides a network into units, which a config's `partition` counts, where its file lists none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/source.h"

/* Returns crossing[i], malloc'ed: how many values cross the boundary before node i. An input of the network counts as
 * two, so that no unit begins where it is still read. NULL: no memory. */
static int *count_crossing(const struct sl_graph *g)
{
	int *change = calloc((size_t)g->n_node + 2, sizeof *change), *last = calloc((size_t)g->n_value, sizeof *last);
	int now = 0;

	for (int i = 0; change && last && i < g->n_node; i++)
		for (int j = 0; j < g->node[i].n_in; j++)
			last[g->link[g->node[i].in + j]] = i;
	for (int v = 0; change && last && v < g->n_value; v++) {
		const int maker = g->value[v].maker;

		if (v == SL_BUILD_LABEL)
			continue;
		change[maker + 1] += maker < 0 ? 2 : 1;
		/* the output, which no node reads yet, ends at its maker */
		change[(last[v] > maker ? last[v] : maker) + 1] -= maker < 0 ? 2 : 1;
	}
	free(last);
	for (int i = 0; change && i < g->n_node; i++)
		change[i] = now += change[i];
	return change;
}

/* Whether a unit begins at node i. A module may be several nodes, such as padding and a convolution: the unit begins at
 * the first of them before which one value crosses. */
static bool begins_unit(const struct sl_graph *g, const int *crossing, int i)
{
	const struct sl_node *n = &g->node[i];
	int learns = i;

	for (int k = i - 1; k >= 0 && strcmp(g->node[k].name, n->name) == 0; k--)
		if (crossing[k] == 1)
			return false;
	while (learns + 1 < g->n_node && !g->node[learns].n_param && strcmp(g->node[learns + 1].name, n->name) == 0)
		learns++;
	return crossing[i] == 1 && g->node[learns].n_param &&
	       !(n->kind == SL_OP_BATCHNORM && g->node[i - 1].kind == SL_OP_CONV2D);
}

/* The length of the common prefix of both names, in whole words. */
static size_t common(const char *name, size_t len, const char *other)
{
	size_t same = 0, words = 0;

	for (; same < len && name[same] == other[same]; same++)
		words = name[same] == '.' ? same : words;
	return same == len && (other[same] == '.' || !other[same]) ? len : words;
}

/* Names the unit of the nodes from `first` to before `end`. The name is the common prefix of its layers with
 * parameters, if no node elsewhere begins with it; else its first node's name. */
static void name_unit(const struct sl_graph *g, int first, int end, char out[SL_NAME_MAX])
{
	const char *name = NULL;
	size_t len = 0;

	for (int i = first; i < end; i++) {
		if (!g->node[i].n_param)
			continue;
		len = name ? common(name, len, g->node[i].name) : strlen(g->node[i].name);
		name = name ? name : g->node[i].name;
	}
	for (int i = 0; i < g->n_node && len; i++)
		if ((i < first || i >= end) && common(name, len, g->node[i].name) == len)
			len = 0;
	snprintf(out, SL_NAME_MAX, "%.*s", len ? (int)len : SL_NAME_MAX - 1, len ? name : g->node[first].name);
}

void sl_model_units(struct sl_build *b)
{
	const struct sl_graph *g = b->graph;
	int *crossing = b->err ? NULL : count_crossing(g);
	char name[SL_NAME_MAX];

	if (!b->err && !crossing)
		sl_build_refuse(b, "no memory for a network");
	for (int first = 0, end; !b->err && first < g->n_node; first = end) {
		bool learns = false; /* the first unit needs parameters: without them a head would hide nothing */

		for (end = first; end < g->n_node && !(learns && begins_unit(g, crossing, end)); end++)
			learns |= g->node[end].n_param > 0;
		name_unit(g, first, end, name);
		sl_build_unit_at(b, name, first);
	}
	free(crossing);
}
