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
static void *gather(void *arg, const void *own, size_t bytes)
{
	const struct sl_group *g = arg;
	const struct sl_ranks *ranks = g->groups->ranks;
	void *all = calloc((size_t)ranks->count, bytes);

	if (all)
		ranks->gather_all(ranks, own, all, bytes);
	else
		sl_group_end_ranks(g, "no memory for what the ranks say");
	return all;
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

/* What a rank says about the steps to go on from. */
struct offer {
	int32_t n;
	uint8_t gone; /* a member of this rank is done, and not here */
	uint64_t step[SL_GROUP_STEPS];
	uint64_t turns[SL_CONF_SHARE_CLIENTS]; /* valid for the rank's own members */
};

static void hear_turns(struct sl_group *g, const struct offer *all)
{
	for (int k = 0; k < g->n; k++)
		g->turns.count[k] = all[sl_ranks_of(g->groups->ranks, g->n, k)].turns[k];
}

static bool offers(const struct offer *o, uint64_t step)
{
	for (int i = 0; i < o->n; i++)
		if (o->step[i] == step)
			return true;
	return false;
}

int sl_group_common_steps(struct sl_group *g, uint64_t step[SL_GROUP_STEPS], int n)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	struct offer own = {.n = n, .gone = sl_records_gone(&g->trunk.r) || !sl_group_has_sessions(g)}, *all;
	int common = 0;

	if (!ranks)
		return n;
	memcpy(own.step, step, sizeof own.step);
	memcpy(own.turns, g->turns.count, sizeof own.turns);
	all = gather(g, &own, sizeof own);
	if (!all)
		return 0;
	hear_turns(g, all);
	g->some_gone = false;
	for (int r = 0; r < ranks->count; r++)
		g->some_gone = g->some_gone || all[r].gone;
	for (int i = 0; i < all[0].n; i++) {
		bool have = true;

		for (int r = 1; r < ranks->count; r++)
			have = have && offers(&all[r], all[0].step[i]);
		if (have)
			step[common++] = all[0].step[i];
	}
	free(all);
	return common;
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

/* ---- the meeting before a step */

enum demand { TO_APPLY, TO_GO_BACK, TO_HEAR };

struct meeting_word {
	uint8_t demand; /* enum demand */
	uint8_t left;   /* all members of this rank have left */
	uint8_t checkpoint;
	uint8_t differ; /* members of this rank differ in their learning rate */
	int32_t ready, back;
	uint64_t newest, fixed;
	double lr; /* SL_GROUP_NO_LR: no member of this rank names one */
};

static double lr_of(const struct sl_group *g, int k)
{
	return g->part[k].rows ? sl_port_session(g->part[k].m->port)->lr : SL_GROUP_NO_LR;
}

static struct meeting_word own_word(const struct sl_group *g, int back, uint64_t newest)
{
	struct meeting_word w = {.back = back, .newest = newest, .fixed = g->trunk.r.fixed, .left = 1};

	w.demand = g->what == GROUP_APPLY ? TO_APPLY : back >= 0 ? TO_GO_BACK : TO_HEAR;
	for (int k = g->first; k < g->end && g->what == GROUP_APPLY; k++) {
		const struct sl_group_part *part = &g->part[k];

		w.ready += part->m != NULL;
		w.differ = w.differ || (part->rows && lr_of(g, k) != g->lr);
		w.left = w.left && g->trunk.r.seat[k].state == SL_SEAT_DONE;
	}
	w.lr = g->lr;
	w.checkpoint = g->what == GROUP_APPLY && g->checkpoint;
	return w;
}

/* Each rank decides for itself, from the same words, and so all decide the same. */
static void decide(struct sl_group *g, const struct meeting_word *all, int ranks)
{
	bool apply = true, left = true, back = false;
	int ready = 0;

	for (int r = 0; r < ranks; r++) {
		apply = apply && all[r].demand == TO_APPLY;
		left = left && all[r].left;
		ready += all[r].ready;
		if (all[r].fixed > g->trunk.r.fixed)
			g->trunk.r.fixed = all[r].fixed;
	}
	for (int r = 0; r < ranks && !back; r++) {
		/* not if a member has left since: then this one goes on with the state that it has */
		back = all[r].demand == TO_GO_BACK && all[r].newest >= g->trunk.r.fixed;
		g->back_with = all[r].back;
	}
	g->came_of = back ? MET_BACK : !apply ? MET_NONE : ready ? MET_GO : left ? MET_OVER : MET_NONE;
}

/* All ranks see the same votes, so they decide the same. A member with another rate is left out of the step. */
static enum sl_err vote_on_lr(struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	double own[SL_CONF_SHARE_CLIENTS], (*all)[SL_CONF_SHARE_CLIENTS];
	struct sl_group_lr vote;

	for (int k = 0; k < SL_CONF_SHARE_CLIENTS; k++)
		own[k] = k >= g->first && k < g->end ? lr_of(g, k) : SL_GROUP_NO_LR;
	all = gather(g, own, sizeof own);
	if (!all)
		return SL_ERR_NOMEM;
	for (int k = 0; k < g->n; k++)
		own[k] = all[sl_ranks_of(ranks, g->n, k)][k];
	free(all);
	vote = sl_group_vote(own, g->n);
	g->lr = vote.lr;
	sl_group_say_lr(g, &vote);
	for (int k = g->first; k < g->end && vote.most; k++)
		if (own[k] != SL_GROUP_NO_LR && own[k] != g->lr) {
			(void)sl_group_other_lr(g, own[k], &g->fold.part[k].why);
			g->fold.part[k].left_out = true;
			g->part[k] = (struct sl_group_part){0};
		}
	return SL_OK;
}

/* Sets the learning rate and the checkpoint of the step; a rank without a part takes those of the others. */
static enum sl_err agree_on_step(struct sl_group *g, const struct meeting_word *all, int ranks)
{
	bool differ = false;

	g->lr = SL_GROUP_NO_LR;
	for (int r = 0; r < ranks; r++) {
		g->checkpoint = g->checkpoint || all[r].checkpoint;
		if (all[r].lr == SL_GROUP_NO_LR)
			continue;
		differ = differ || all[r].differ || (g->lr != SL_GROUP_NO_LR && all[r].lr != g->lr);
		g->lr = all[r].lr;
	}
	return differ ? vote_on_lr(g) : SL_OK;
}

enum sl_err sl_group_meet(struct sl_group *g, int back, uint64_t newest)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	const struct meeting_word own = own_word(g, back, newest);
	struct meeting_word *all;
	enum sl_err err = SL_OK;

	g->came_of = MET_GO;
	if (!ranks)
		return SL_OK;
	all = gather(g, &own, sizeof own);
	if (!all)
		return SL_ERR_NOMEM;
	g->met++;
	decide(g, all, ranks->count);
	if (g->came_of == MET_GO)
		err = agree_on_step(g, all, ranks->count);
	else if (g->came_of == MET_OVER)
		sl_keep_only(&g->trunk.keep, g->trunk.r.stays ? g->trunk.r.on_disk : UINT64_MAX);
	free(all);
	return err;
}

void sl_group_run_meet(struct sl_group *g)
{
	const struct sl_hello *h = g->which < 0 ? NULL : g->trunk.r.seat[g->which].hello;
	uint64_t newest = 0;

	g->err = SL_OK;
	if (g->which >= 0 && !g->seat[g->which].m) {
		g->came_of = MET_VOID;
		return;
	}
	for (uint32_t i = 0; h && i < h->n_held; i++)
		newest = h->held[i] <= g->trunk.r.done && h->held[i] > newest ? h->held[i] : newest;
	g->err = sl_group_meet(g, g->which, newest);
}

bool sl_group_all_kept(struct sl_group *g, bool kept)
{
	const uint8_t own = kept;
	uint8_t *all;

	if (!g->groups->ranks)
		return kept;
	all = gather(g, &own, sizeof own);
	for (int r = 0; all && r < g->groups->ranks->count; r++)
		kept = kept && all[r];
	free(all);
	return kept;
}
