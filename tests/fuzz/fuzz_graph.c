/* sl_graph_read on any bytes. An accepted text is written as the same bytes, and every reference in
 * it is to something that exists. A refusal leaves the graph alone and has a printable message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/graph_text.h"

struct check {
	const char *at;
	size_t left;
};

static void put(void *arg, const char *text, size_t len)
{
	struct check *c = arg;

	if (len > c->left || memcmp(c->at, text, len) != 0)
		abort();
	c->at += len;
	c->left -= len;
}

static void check_graph(const struct sl_graph *g, const char *text, size_t len)
{
	struct check c = {text, len};

	sl_graph_write(g, put, &c);
	if (c.left || !g->n_node || !g->n_in || !g->n_out)
		abort();
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_node *n = &g->node[i];

		for (int k = 0; k < n->n_in; k++)
			if (g->link[n->in + k] < 0 || g->link[n->in + k] >= n->out)
				abort();
		for (int k = 0; k < n->n_param; k++)
			if (g->link[n->param + k] < 0 || g->link[n->param + k] >= g->n_param)
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_graph g = {.n_node = -7};
	struct sl_fail fail;
	char *text = malloc(size ? size : 1); /* of its exact size, so that reading past it is noticed */

	if (!text)
		return 0;
	memcpy(text, data, size);
	if (sl_graph_read(&g, text, size, &fail) == SL_OK) {
		check_graph(&g, text, size);
		sl_graph_close(&g);
	} else if (g.n_node != -7 || !fail.text[0]) {
		abort();
	}
	free(text);
	return 0;
}
