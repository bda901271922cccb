#include "client/model/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/text.h"

/* Whether the hash skips a node: in evaluations its output is its input, or some rows of that. A sum with an adapter is
 * skipped, too, since merged weights have no adapters. */
static bool passes(const struct sl_node *node)
{
	return node->kind == SL_OP_DROPOUT || node->kind == SL_OP_GATHER ||
	       (node->kind == SL_OP_ADD && sl_ends_with(node->name, ".lora_add"));
}

/* Whether the hash leaves an attribute out: it matters only in training, or follows from the size of the input. */
static bool is_apart(enum sl_op_kind kind, const struct sl_attr *a)
{
	const bool sized = kind == SL_OP_PERMUTE || kind == SL_OP_TRANSPOSE || kind == SL_OP_RESAMPLE;

	return a->type == SL_ATTR_STREAM || strcmp(a->key, "p") == 0 || strcmp(a->key, "momentum") == 0 ||
	       (sized && strcmp(a->key, "axis") != 0 && strcmp(a->key, "mode") != 0 && strcmp(a->key, "slices") != 0);
}

/* Whether the hash only has whether an attribute is there: its number follows from the size of the input. */
static bool is_depth(const struct sl_attr *a)
{
	return strcmp(a->key, "slices") == 0 || strcmp(a->key, "back") == 0;
}

static uint64_t mix(uint64_t hash, const char *text)
{
	return XXH3_64bits_withSeed(text, strlen(text), hash);
}

static uint64_t of_node(const struct sl_graph *g, const struct sl_node *node, const uint64_t *value)
{
	uint64_t hash = mix(0, sl_op_kind_name(node->kind));
	const struct sl_attr *a;
	char text[96];

	for (int i = 0; i < node->n_in; i++) {
		snprintf(text, sizeof text, "%%%" PRIx64, value[g->link[node->in + i]]);
		hash = mix(hash, text);
	}
	for (int i = 0; i < node->n_param; i++)
		hash = mix(hash, g->param[g->link[node->param + i]].name);
	for (int i = 0; (a = sl_op_attr(node->kind, i)); i++) {
		const double n = sl_attr_get(node, a, 0), x = is_depth(a) ? n > 0 : n,
			     y = a->type == SL_ATTR_PAIR ? sl_attr_get(node, a, 1) : a->standard;

		/* no defaults, so that an attribute of a later version changes the hash only where it is used */
		if (is_apart(node->kind, a) || ((float)x == (float)a->standard && (float)y == (float)a->standard))
			continue;
		snprintf(text, sizeof text, "%s=%.9g,%.9g", a->key, (double)(float)x, (double)(float)y);
		hash = mix(hash, text);
	}
	return hash;
}

/* The hash of a part's output, or of the tail's logits; 0: no memory. `in`: the hash of its input. */
static uint64_t of_part(const struct sl_graph *g, uint64_t in)
{
	uint64_t *value = calloc((size_t)g->n_value + 1, sizeof *value), out;
	int last = g->out[0].value;

	if (!value)
		return 0;
	value[g->in[0].value] = in;
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_node *node = &g->node[i];

		if (node->kind == SL_OP_XENT || node->kind == SL_OP_MSE)
			last = g->link[node->in];
		else
			value[node->out] = passes(node) ? value[g->link[node->in]] : of_node(g, node, value);
	}
	out = value[last];
	free(value);
	return out;
}

uint64_t sl_network_hash(const struct sl_plan *plan)
{
	uint64_t hash = mix(0, plan->segment[SL_HEAD].graph.in[0].name);

	for (int i = 0; i < SL_SEGMENT_COUNT && hash; i++)
		hash = of_part(&plan->segment[i].graph, hash);
	return hash;
}
