/* Shared heads and tails of a group: the members' changes, the mean that goes back, and that of the step before, for a
 * member that was late. On the worker. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "server/group/group_check.h"
#include "server/trunk/member_ends.h"

/* ---- a member's part */

static enum sl_err open_member_ends(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_end_layout *l = &m->ends.layout;
	const struct sl_end_coder_env env = sl_agreement_coder(&m->agreement, l, SL_END_GRAD, sl_member_ends_host(m));
	enum sl_err err = sl_end_coder_open(&m->ends.coder, &env, fail);

	if (err)
		return err;
	m->ends.change = calloc((size_t)l->floats + 1, sizeof *m->ends.change);
	if (!m->ends.change)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the gradients of head and tail");
	sl_port_end_runs(m->port, (size_t[SL_END_RUNS]){sl_end_coder_bound(m->ends.coder), m->group->ends->bound,
							sl_member_ends_state_bytes(m)});
	return SL_OK;
}

/* ---- the group's part */

enum sl_err sl_group_ends_open(struct sl_group *g, const struct sl_agreement *a, const struct sl_end_layout *l,
			       struct sl_backend *host, struct sl_fail *fail)
{
	struct sl_group_ends *e = calloc(1, sizeof *e);
	struct sl_end_coder_env env;
	enum sl_err err;

	if (!e)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for shared heads and tails");
	g->ends = e;
	if (sl_end_layout_copy(&e->layout, l))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for shared heads and tails");
	env = sl_agreement_coder(a, &e->layout, SL_END_MEAN, host);
	err = sl_end_sum_open(&e->sum, &env, fail);
	e->bound = err ? 0 : sl_end_coder_bound(e->sum.coder);
	return err;
}

/* The group, which outlives its sessions, keeps the means, their sum and its coder. */
static enum sl_err reserve(struct sl_group *g, const struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_end_layout *l = &m->ends.layout;
	const struct sl_end_coder_env env = sl_agreement_coder(&m->agreement, l, SL_END_MEAN, sl_member_ends_host(m));
	char what[SL_CONF_SHARE_TEXT + 40];
	uint64_t bytes, bound;
	enum sl_err err = sl_end_coder_need(&env, &bytes, &bound, fail);

	if (err)
		return err;
	sl_need(&bytes, SL_GROUP_MEANS, bound);
	sl_need(&bytes, (uint64_t)l->floats, sizeof(float) + (l->round ? sizeof(double) : 0));
	sl_need(&bytes, 1, sl_member_ends_state_bytes(m)); /* those of a checkpoint */
	snprintf(what, sizeof what, "the mean of group %s's heads and tails", g->name);
	return sl_memory_reserve(&g->charge, m->env.memory, bytes, what, fail);
}

void sl_group_ends_close(struct sl_group *g)
{
	struct sl_group_ends *e = g->ends;

	if (!e)
		return;
	for (int i = 0; i < SL_GROUP_MEANS; i++)
		free(e->mean[i].run.data);
	free(e->state.data);
	sl_end_sum_close(&e->sum);
	sl_end_layout_close(&e->layout);
	free(e);
	g->ends = NULL;
}

enum sl_err sl_group_ends_lend(struct sl_group *g, struct sl_middle *m, struct sl_fail *fail)
{
	const uint64_t before = g->charge.bytes;
	enum sl_err err = SL_OK;

	if (!m->ends.layout.floats)
		return SL_OK;
	if (!g->ends)
		err = reserve(g, m, fail);
	if (!err && !g->ends)
		err = sl_group_ends_open(g, &m->agreement, &m->ends.layout, sl_member_ends_host(m), fail);
	if (err) {
		sl_group_ends_close(g);
		sl_charge_set(&g->charge, g->charge.budget, before);
		return err;
	}
	if (!sl_end_layout_same(&g->ends->layout, &m->ends.layout))
		return sl_fail_at(fail, "share.ends", SL_ERR_MISMATCH,
				  "group %s shares another head and tail than this client's: model (dropout, too), "
				  "cut, inserts, lora and train.freeze must be the same for all members",
				  g->name);
	return open_member_ends(m, fail);
}

static struct sl_group_mean *find_mean(const struct sl_group *g, uint64_t step)
{
	for (int i = 0; i < SL_GROUP_MEANS; i++)
		if (g->ends->mean[i].whole && g->ends->mean[i].step == step)
			return &g->ends->mean[i];
	return NULL;
}

void sl_group_ends_begin(struct sl_group *g)
{
	struct sl_group_ends *e = g->ends;

	if (!e)
		return;
	for (int i = 0; i < SL_GROUP_MEANS; i++)
		e->mean[i].whole = e->mean[i].whole && e->mean[i].step < g->trunk.r.done;
	if (!g->trunk.r.done)
		sl_end_coder_forget(e->sum.coder);
}

enum sl_err sl_group_ends_check(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err;

	if (!m->ends.change || !sl_session_told(sl_port_session(m->port)))
		return SL_OK;
	err = sl_end_decode(m->ends.coder, sl_port_session(m->port)->number, sl_port_end_run(m->port, SL_END_GRAD),
			    m->ends.change, fail);
	sl_port_end_heard(m->port, SL_END_GRAD, sl_end_coder_nominal(m->ends.coder));
	if (err || !m->ends.layout.round)
		return err ? err : sl_end_check(&m->ends.layout, m->ends.change, fail);
	/* In rounds NaN and Inf are no error here: the round's end leaves the member out, also of the middle. */
	if (sl_end_check(&m->ends.layout, m->ends.change, &why))
		return SL_OK;
	return sl_end_check_moments(&m->ends.layout, m->ends.change, sl_port_session(m->port)->number + 1, fail);
}

/* ---- a step */

enum sl_err sl_group_ends_next(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_group_ends *e = g->ends;

	if (!e)
		return SL_OK;
	e->next = &e->mean[g->trunk.r.done / g->round % SL_GROUP_MEANS]; /* that of the oldest */
	e->next->whole = false;
	if (!e->next->run.data) {
		e->next->run = (struct sl_buf){malloc(e->bound + 1), 0, e->bound};
		if (!e->next->run.data) {
			e->next->run.cap = 0;
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the mean of heads and tails");
		}
	}
	e->next->run.len = 0;
	g->fold.ends = &e->sum;
	g->fold.mean = &e->next->run;
	return SL_OK;
}

void sl_group_ends_settle(struct sl_group *g)
{
	struct sl_group_ends *e = g->ends;

	if (!e || !e->next->run.len)
		return;
	e->next->step = sl_group_last_step(g);
	e->next->whole = true;
	sl_group_check_means(g);
}

bool sl_group_ends_has(const struct sl_group *g, uint64_t step)
{
	return g->ends && find_mean(g, step);
}

enum sl_err sl_group_ends_mean(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_group *g = m->group;
	const uint64_t step = sl_port_session(m->port)->number;
	const struct sl_group_mean *mean = g->ends ? find_mean(g, step) : NULL;
	struct sl_buf room;
	enum sl_err err;

	if (!mean)
		return sl_fail_set(fail, SL_ERR_BUSY, "the mean of step %" PRIu64 " is gone: come again", step);
	room = sl_port_end_room(m->port, SL_END_MEAN);
	err = sl_buf_put(&room, mean->run.data, mean->run.len);
	if (!err)
		sl_port_end_filled(m->port, SL_END_MEAN, &room, sl_end_coder_nominal(g->ends->sum.coder));
	return err;
}
