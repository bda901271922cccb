/* A group on the device's worker: the trunk's memory, the jobs, and the end of sessions. All of it runs in jobs and
 * tasks with the group's key, so one at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "server/group/group_check.h"

void sl_group_free_trunk(struct sl_group *g)
{
	for (int k = 0; k < g->n && g->seat; k++) {
		sl_codecs_state_close(&g->seat[k].codecs);
		sl_charge_set(&g->seat[k].charge, NULL, 0);
		sl_exec_close(g->fold.part[k].copy);
	}
	free(g->seat);
	sl_group_log_close(&g->log);
	sl_group_ends_close(g);
	sl_charge_set(&g->charge, NULL, 0);
	sl_trunk_close(&g->trunk);
}

/* ---- the trunk's memory */

/* Counts the memory in `charge`. With a GPU it also counts a host buffer: sums of several ranks and averages of rounds
 * pass through the host. */
static enum sl_err open_counted(struct sl_group *g, struct sl_exec **out, struct sl_charge *charge,
				const struct sl_plan *plan, const struct sl_middle_env *env, struct sl_fail *fail)
{
	const uint64_t before = charge->bytes;
	const size_t sum = (size_t)plan->segment[SL_MIDDLE].trainable_count * sizeof(float);
	char what[SL_CONF_SHARE_TEXT + 40];
	struct sl_exec *exec = NULL;
	uint64_t bytes;
	enum sl_err err = sl_exec_prepare(&exec, plan, SL_MIDDLE, env->be, fail);

	if (!err && !g->t.whole)
		err = sl_exec_bare(exec, fail);
	else if (!err && env->recompute == SL_RECOMPUTE_ON)
		err = sl_exec_recompute(exec, fail);
	bytes = err ? 0 : sl_exec_memory(exec).total + (env->be->host_memory ? 0 : sum);
	snprintf(what, sizeof what, out == &g->trunk.exec ? "the middle of group %s" : "a copy of group %s's middle",
		 g->name);
	if (!err)
		err = sl_memory_reserve(charge, env->memory, bytes, what, fail);
	if (err)
		goto fail;
	err = sl_exec_allocate(exec, fail);
	if (err) {
		sl_charge_set(charge, env->memory, before);
		goto fail;
	}
	*out = exec;
	return SL_OK;
fail:
	sl_exec_close(exec);
	return err;
}

/* Sets the records by the newest checkpoint. */
static void hear_left(struct sl_group *g)
{
	char left[SL_KEEP_SEATS];
	uint64_t at;

	if (!sl_keep_read_seats(&g->trunk.keep, &at, left) || at < g->trunk.r.gone_at)
		return;
	sl_records_read_note(&g->trunk.r, left, at);
	memcpy(g->trunk.keep.left, left, sizeof g->trunk.keep.left);
}

void sl_group_take_plan(struct sl_group *g, struct sl_plan *plan)
{
	g->trunk.plan = plan;
	sl_keep_open(&g->trunk.keep, g->groups->store.dir, g->groups->store.retention, g->file_name, NULL, plan,
		     g->groups->store.core);
	hear_left(g);
}

static enum sl_err open_trunk(struct sl_group *g, const struct sl_middle_env *env, struct sl_plan *plan,
			      struct sl_fail *fail)
{
	enum sl_err err = open_counted(g, &g->trunk.exec, &g->charge, plan, env, fail);

	if (err) {
		sl_plan_close(plan);
		return err;
	}
	sl_group_take_plan(g, plan);
	return SL_OK;
}

enum sl_err sl_group_lend(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_group *g = m->group;
	struct sl_plan *plan = m->group_plan;
	const bool same =
		g->trunk.plan && memcmp(g->trunk.plan->middle_hash, plan->middle_hash, sizeof plan->middle_hash) == 0;
	struct sl_group_seat *seat = &g->seat[sl_group_seat_of(m)];
	struct sl_exec **copy = &g->fold.part[sl_group_seat_of(m)].copy;
	enum sl_err err = SL_OK;

	m->group_plan = NULL;
	if (seat->m) /* it may have come since this one was admitted */
		err = sl_group_check_taken(g, seat->m, m, fail);
	if (!g->trunk.plan && !err)
		err = open_trunk(g, &m->env, plan, fail);
	else
		sl_plan_close(plan);
	if (!err && g->trunk.plan != plan && !same)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"group %s trains another middle than this client's: model, cut, inserts, train.freeze "
			"and train.groups must be the same for all members",
			g->name);
	if (!err && !g->trunk.exec)
		err = sl_group_open_bare(g, fail);
	if (!err && sl_group_has_rounds(g) && !*copy)
		err = open_counted(g, copy, &seat->charge, g->trunk.plan, &m->env, fail);
	if (!err && !g->t.whole)
		err = sl_exec_borrow(m->trunk.exec, *copy ? *copy : g->trunk.exec, fail);
	if (!err)
		err = sl_group_ends_lend(g, m, fail);
	if (err)
		return err;
	seat->m = m;
	seat->fresh = true;
	g->trunk.r.seat[sl_group_seat_of(m)].hello = sl_group_hello(g, sl_group_seat_of(m));
	return g->t.whole ? SL_OK : sl_exec_allocate(m->trunk.exec, fail);
}

/* A member whose last state is stored may leave, but only once the checkpoint says so, too. If that cannot be written,
 * all write their models first: a restarted server would wait for those that left. */
static void run_let_go(struct sl_group *g)
{
	enum sl_seat_state was[SL_CONF_SHARE_CLIENTS];
	bool noted;

	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_part *p = &g->part[k];
		struct sl_record *s = &g->trunk.r.seat[k];

		was[k] = s->state;
		if (p->m == g->seat[k].m && (p->leaves || (p->m && s->number <= g->trunk.r.complete)))
			s->state = SL_SEAT_DONE;
	}
	noted = sl_group_keep_left(g);
	for (int k = g->first; k < g->end; k++) {
		struct sl_group_part *p = &g->part[k];

		p->leaves = p->leaves || (p->m && noted && g->trunk.r.seat[k].number <= g->trunk.r.complete);
		if (p->leaves && p->m == g->seat[k].m)
			sl_record_let_go(&g->trunk.r, k);
		else
			g->trunk.r.seat[k].state = was[k];
	}
	SL_FAILPOINT(SL_FP_SERVER_LET_GO);
}

/* No member is inside a round, so trunk and seats hold one consistent state. */
static bool at_border(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->trunk.r.seat[k].number > g->trunk.r.done)
			return false;
	return true;
}

/* The disk was full, and members wait for their last state to be stored. */
static void run_keep(struct sl_group *g)
{
	g->err = SL_OK;
	g->trunk.checkpointed = at_border(g) && sl_group_keep(g);
}

static void run_over(struct sl_group *g)
{
	sl_keep_only(&g->trunk.keep, g->trunk.r.stays ? g->trunk.r.on_disk : UINT64_MAX);
}

void sl_group_run(struct sl_job *job)
{
	static void (*const run[])(struct sl_group *) = {
		[GROUP_CHOOSE] = sl_group_run_choose,
		[GROUP_REJOIN] = sl_group_run_return,
		[GROUP_CATCH_UP] = sl_group_run_catch_up,
		[GROUP_STEP] = sl_group_run_step,
		[GROUP_APPLY] = sl_group_run_apply,
		[GROUP_LET_GO] = run_let_go,
		[GROUP_STORE] = sl_group_run_store,
		[GROUP_KEEP] = run_keep,
		[GROUP_OVER] = run_over,
	};
	struct sl_group *g = (struct sl_group *)(void *)((char *)job - offsetof(struct sl_group, job));

	run[g->what](g);
	sl_group_check_job(g);
}

/* ---- weights, and the end of a session */

enum sl_err sl_group_install(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_group *g = m->group;
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	struct sl_key owner;
	const struct sl_trunk_store store = sl_group_weights_store(g, m, &owner);
	enum sl_err err;

	if (g->has_weights) { /* another member has sent them already */
		err = sl_trunk_check_upload(g->trunk.plan, h, sl_port_uploaded(m->port), fail);
		sl_port_spent(m->port);
		return err;
	}
	err = sl_trunk_install(&g->trunk, &store, h, m->port, fail);
	g->has_weights = !err;
	return err || !sl_group_has_rounds(g) ? err : sl_group_reset_copies(g);
}

enum sl_err sl_group_gather(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_group *g = m->group;
	const struct sl_record *s = &g->trunk.r.seat[sl_group_seat_of(m)];
	const uint64_t number = s->number;
	struct sl_exec *copy = g->fold.part[sl_group_seat_of(m)].copy;
	const bool here = number == g->trunk.r.done && (g->trunk.r.done == g->trunk.r.on_disk || at_border(g));
	const bool waits = s->ends_at && number >= s->ends_at;
	enum sl_err err;

	if (g->trunk.state != SL_TRUNK_WHOLE) /* the device failed in the step before: all go back */
		return sl_fail_set(fail, SL_ERR_BUSY,
				   "group %s: a step was applied in part, and its weights are nobody's: come again",
				   g->name);
	err = sl_exec_get_front(copy ? copy : g->trunk.exec, sl_port_weights(m->port),
				sl_plan_fetch_count(&g->trunk.plan->segment[SL_MIDDLE]));
	if (!sl_trunk_needs_all(&g->t)) {
		m->trunk.checkpointed = sl_trunk_gathered(&g->trunk, !err && number <= g->trunk.r.complete);
		return err;
	}
	/* a member that may not leave yet has to ask again */
	m->trunk.checkpointed =
		sl_trunk_gathered(&g->trunk, !err && here && g->trunk.keep.dir[0] &&
						     (g->trunk.r.done == g->trunk.r.on_disk || sl_group_keep(g)) &&
						     !(waits && s->state != SL_SEAT_DONE));
	return err;
}

void sl_group_last(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	const int k = sl_group_seat_of(m);
	const enum sl_seat_end how = m->stage == SL_MIDDLE_WELCOMED ? m->ended : SL_SEAT_LOST;
	struct sl_group_seat *seat = &g->seat[k];

	if (seat->m != m)
		return;
	SL_FAILPOINT(m->ended == SL_SEAT_LEFT ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_group_hold_codecs(seat))
		seat->kept = false;
	seat->m = NULL;
	if (sl_trunk_ended(&g->trunk, k, how) && at_border(g))
		(void)sl_group_keep(g);
	SL_FAILPOINT(m->ended == SL_SEAT_LEFT ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}
