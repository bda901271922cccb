#include "kernels/cuda/graph.h"

#include <string.h>

#include "common/base/log.h"

void cu_graphs_open(struct cu_graphs *g, const struct cu_graph_runtime *runtime, void *arg)
{
	memset(g, 0, sizeof *g);
	g->runtime = runtime;
	g->arg = arg;
}

static void drop(struct cu_graphs *g, struct cu_graph *at)
{
	if (at->graph != NULL)
		g->runtime->drop(g->arg, at->graph);
	memset(at, 0, sizeof *at);
}

static void drop_forgotten(struct cu_graphs *g)
{
	if (!atomic_exchange(&g->any_forgotten, false))
		return;
	for (int i = 0; i < CU_GRAPHS; i++)
		if (atomic_load(&g->graph[i].forgotten))
			drop(g, &g->graph[i]);
}

static bool same_pass(const struct sl_pass *a, const struct sl_pass *b)
{
	return a->owner == b->owner && a->kind == b->kind && a->slot == b->slot && a->rows == b->rows &&
	       a->training == b->training && a->width_in == b->width_in && a->width_out == b->width_out;
}

/* The entry of this pass, or a free one; NULL: the table is full. Entries are freed by owner, so gaps may be
 * anywhere. */
static struct cu_graph *place_of(struct cu_graphs *g, const struct sl_pass *pass)
{
	struct cu_graph *free_place = NULL;

	for (int i = 0; i < CU_GRAPHS; i++) {
		struct cu_graph *at = &g->graph[i];

		if (at->owner == NULL)
			free_place = free_place == NULL ? at : free_place;
		else if (same_pass(&at->pass, pass))
			return at;
	}
	return free_place;
}

static enum sl_err launch(struct cu_graphs *g, struct cu_graph *at, uint64_t step)
{
	return g->runtime->launch(g->arg, at->graph, at->uses_step ? &step : NULL);
}

static void complain(struct cu_graphs *g, const char *what)
{
	if (!g->complained)
		sl_log(SL_LOG_WARN, "graph-refused", "%s; such passes are launched kernel by kernel", what);
	g->complained = true;
}

enum sl_err cu_graphs_begin(struct cu_graphs *g, const struct sl_pass *pass, enum sl_pass_way *way)
{
	struct cu_graph *at;

	*way = SL_PASS_PLAIN;
	if (g->runtime == NULL)
		return SL_OK;
	if (g->recording != NULL || pass->owner == NULL)
		return SL_ERR_BUG;
	drop_forgotten(g);
	at = place_of(g, pass);
	if (at == NULL) {
		complain(g, "there are more different passes than places for graphs");
		return SL_OK;
	}
	if (at->owner == NULL) {
		at->pass = *pass;
		at->owner = pass->owner;
		return SL_OK;
	}
	if (at->refused)
		return SL_OK;
	if (at->graph != NULL) {
		*way = SL_PASS_DONE;
		return launch(g, at, pass->step);
	}
	if (g->runtime->record(g->arg) != SL_OK) {
		at->refused = true;
		complain(g, "the device does not begin a recording");
		return SL_OK;
	}
	at->pass.step = pass->step;
	g->recording = at;
	*way = SL_PASS_RECORD;
	return SL_OK;
}

enum sl_err cu_graphs_end(struct cu_graphs *g, enum sl_err recorded, enum sl_pass_way *way)
{
	struct cu_graph *at = g->recording;

	if (at == NULL)
		return SL_ERR_BUG;
	g->recording = NULL;
	*way = SL_PASS_DONE;
	if (g->runtime->finish(g->arg, !recorded, &at->graph) == SL_OK && !recorded)
		return launch(g, at, at->pass.step);
	/* nothing has been computed; a fault of the device will show again */
	at->graph = NULL;
	at->refused = true;
	complain(g, "a pass cannot be recorded");
	*way = SL_PASS_PLAIN;
	return SL_OK;
}

void cu_graphs_forget(struct cu_graphs *g, const void *owner)
{
	for (int i = 0; i < CU_GRAPHS; i++)
		if (atomic_load(&g->graph[i].owner) == owner)
			atomic_store(&g->graph[i].forgotten, true);
	atomic_store(&g->any_forgotten, true);
}

void cu_graphs_close(struct cu_graphs *g)
{
	for (int i = 0; i < CU_GRAPHS; i++)
		if (g->graph[i].owner != NULL)
			drop(g, &g->graph[i]);
}

bool cu_graphs_take_step(struct cu_graphs *g)
{
	struct cu_graph *at = g->recording;

	if (at != NULL)
		at->uses_step = true;
	return at != NULL;
}
