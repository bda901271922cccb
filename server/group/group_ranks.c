/* A group with members on several servers: what the ranks agree on about a step. The sum passes from rank to rank, and
 * each adds its members in order of their numbers. So it has the same bits as on one server with the same members. On
 * the worker. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/group/group_work.h"

enum { ENDS_AS = 75 };

void sl_group_end_ranks(const struct sl_group *g, const char *why)
{
	const struct sl_ranks *ranks = g->groups->ranks;

	if (!ranks)
		return;
	sl_log(SL_LOG_ERROR, "ranks", "group %s: %s. All ranks end; start the job again, and it goes on", g->name, why);
	ranks->abort(ranks, ENDS_AS);
}

/* Gathers `own` of all ranks, [count][bytes]; the caller frees it. Without memory it ends all ranks. */
static void *gather_all(const struct sl_ranks *ranks, const void *own, size_t bytes)
{
	void *all = calloc((size_t)ranks->count, bytes);

	if (all)
		ranks->gather_all(ranks, own, all, bytes);
	else
		ranks->abort(ranks, ENDS_AS);
	return all;
}

static void *gather(void *arg, const void *own, size_t bytes)
{
	return gather_all(((const struct sl_group *)arg)->groups->ranks, own, bytes);
}

/* ---- who may join */

enum sl_err sl_group_may_enter_rank(const struct sl_group_list *gs, const struct sl_agreed *a, struct sl_fail *fail)
{
	const struct sl_ranks *ranks = gs->ranks;
	struct sl_ranks_span span;

	if (!ranks)
		return SL_OK;
	span = sl_ranks_span(ranks, a->share.clients);
	if (sl_agreed_goes_on(a))
		return sl_fail_at(
			fail, "share.least", SL_ERR_MISMATCH,
			"%g is not possible with several servers (mpirun), which wait for all members: take 1",
			a->share.least);
	if (a->share.clients < ranks->count)
		return sl_fail_at(fail, "share.clients", SL_ERR_MISMATCH,
				  "%d ranks serve this group, so it has %d members at least, not %d", ranks->count,
				  ranks->count, a->share.clients);
	if (a->share.member < span.first || a->share.member >= span.end)
		return sl_fail_at(
			fail, "share.member", SL_ERR_MISMATCH,
			"this server is rank %d of %d and has members %d to %d; member %d connects to rank %d",
			ranks->rank, ranks->count, span.first, span.end - 1, a->share.member,
			sl_ranks_of(ranks, a->share.clients, a->share.member));
	if (gs->first && strcmp(gs->first->name, a->share.group) != 0)
		return sl_fail_at(fail, "share.group", SL_ERR_BUSY, "these ranks serve one group, which is %s",
				  gs->first->name);
	return SL_OK;
}

/* ---- where to go on from */

enum sl_err sl_group_open_bare(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_exec **out = &g->trunk.exec;
	enum sl_err err = sl_exec_prepare(out, g->trunk.plan, SL_MIDDLE, g->groups->be, fail);

	if (!err)
		err = sl_exec_bare(*out, fail);
	if (!err)
		err = sl_exec_allocate(*out, fail);
	if (err) {
		sl_exec_close(*out);
		*out = NULL;
	}
	return err;
}

/* What a rank says after it has taken up a step. */
struct took {
	int32_t err;
	uint8_t weights_hash[16], plan_hash[SL_PLAN_HASH_BYTES];
	int64_t ends; /* floats of a member's change of head and tail; 0: not shared */
	uint64_t branch;
	char why[sizeof(((struct sl_fail *)0)->text)];
};

enum sl_err sl_group_all_took(struct sl_group *g, uint64_t step, enum sl_err err, struct sl_fail *fail)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	struct took own = {.err = (int32_t)err, .branch = g->branch}, *all;

	if (!ranks)
		return err;
	if (err)
		snprintf(own.why, sizeof own.why, "%s", fail->text);
	if (sl_group_has_sessions(g))
		memcpy(own.weights_hash, sl_group_hello(g, sl_group_first_here(g))->weights_hash,
		       sizeof own.weights_hash);
	memcpy(own.plan_hash, g->trunk.plan->middle_hash, sizeof own.plan_hash);
	own.ends = g->ends ? g->ends->layout.floats : 0;
	all = gather(g, &own, sizeof own);
	if (!all)
		return SL_ERR_NOMEM;
	err = SL_OK; /* all ranks return the same error: that of the lowest rank */
	for (int r = 0; r < ranks->count && !err; r++) {
		if (memcmp(all[r].plan_hash, all[0].plan_hash, sizeof all[r].plan_hash) != 0 ||
		    all[r].ends != all[0].ends)
			err = sl_fail_set(fail, SL_ERR_MISMATCH,
					  "members of ranks 0 and %d of group %s differ in their network, or in a "
					  "setting that all members need alike",
					  r, g->name);
		else if (all[r].err)
			err = sl_fail_set(fail, (enum sl_err)all[r].err, "rank %d: %s", r, all[r].why);
		else if (!step && memcmp(all[r].weights_hash, all[0].weights_hash, sizeof all[r].weights_hash) != 0)
			err = sl_fail_at(fail, "model.weights", SL_ERR_MISMATCH,
					 "members of ranks 0 and %d of group %s begin with different weights of the "
					 "middle",
					 r, g->name);
	}
	g->branch = all[0].branch;
	free(all);
	return err;
}

/* ---- the sum of a step, and the average of a round */

static void take(void *arg, void *data, size_t bytes)
{
	const struct sl_ranks *ranks = ((const struct sl_group *)arg)->groups->ranks;

	ranks->take(ranks, data, bytes);
}

static void pass(void *arg, const void *data, size_t bytes)
{
	const struct sl_ranks *ranks = ((const struct sl_group *)arg)->groups->ranks;

	ranks->pass(ranks, data, bytes);
}

static void spread(void *arg, void *data, size_t bytes)
{
	const struct sl_ranks *ranks = ((const struct sl_group *)arg)->groups->ranks;

	ranks->spread(ranks, data, bytes);
}

const struct sl_others *sl_group_others(struct sl_group *g, struct sl_others *others)
{
	const struct sl_ranks *ranks = g->groups->ranks;

	if (!ranks)
		return NULL;
	*others = (struct sl_others){g, ranks->rank, ranks->count, take, pass, spread, gather};
	return others;
}

/* ---- what all ranks do together */

uint64_t sl_group_all_say(struct sl_group *g, uint64_t own)
{
	uint64_t *all;

	if (!g->groups->ranks)
		return own;
	all = gather(g, &own, sizeof own);
	for (int r = 0; all && r < g->groups->ranks->count; r++)
		own &= all[r];
	free(all);
	return own;
}

void sl_group_decline(const struct sl_ranks *ranks, enum sl_trunk_act act)
{
	const uint64_t no = 0;

	if (act != SL_TRUNK_OVER)
		free(gather_all(ranks, &no, sizeof no));
}
