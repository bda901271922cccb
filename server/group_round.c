/* Rounds: each member trains a copy of the trunk, and the copies are averaged where a round ends. On the device's
 * worker. The trunk itself holds what the last round ended with. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/failpoint.h"
#include "server/group_impl.h"

_Static_assert((int)SL_SHARE_KEEP == (int)SL_MOMENTS_KEEP && (int)SL_SHARE_AVERAGE == (int)SL_MOMENTS_AVERAGE &&
		       (int)SL_SHARE_ZERO == (int)SL_MOMENTS_ZERO,
	       "moments are numbered alike");

static enum sl_moments how(const struct sl_group *g)
{
	return (enum sl_moments)g->agreed.share.moments;
}

int64_t sl_group_own_moments(const struct sl_group *g)
{
	const struct sl_plan_segment *s = &g->plan->segment[SL_MIDDLE];

	return sl_group_has_rounds(g) && how(g) == SL_MOMENTS_KEEP ? s->moments * s->trainable_count : 0;
}

enum sl_err sl_group_reset_copy(struct sl_group *g, int k, bool moments)
{
	struct sl_group_seat *seat = &g->seat[k];

	seat->rows = 0;
	return seat->copy ? sl_copy_reset(seat->copy, g->exec, moments) : SL_OK;
}

/* Moments of their own are those of the checkpoint that was read, if one was. */
enum sl_err sl_group_reset_copies(struct sl_group *g)
{
	const bool moments = !sl_group_own_moments(g) || !g->done;
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		err = sl_group_reset_copy(g, k, moments);
	return err;
}

/* As a run without a group takes a step. */
static enum sl_err step_copy(struct sl_group *g, int k)
{
	struct sl_group_seat *seat = &g->seat[k];
	int64_t of_chunk[SL_PLAN_MAX_CHUNKS];
	int chunks;
	enum sl_err err;

	if (!g->part[k].rows)
		return sl_exec_skip(seat->copy);
	chunks = sl_group_rows_of(g, k, of_chunk);
	err = sl_exec_fold_begin(seat->copy);
	if (!err)
		err = sl_exec_fold_add(seat->copy, seat->m->trunk.exec, of_chunk, chunks);
	if (!err)
		err = sl_exec_fold_end(seat->copy, 1);
	SL_FAILPOINT(SL_FP_SERVER_APPLY);
	g->torn = true;
	if (!err)
		err = sl_exec_commit(seat->copy, g->lr, NULL, 0);
	seat->rows += g->part[k].rows;
	return err;
}

void sl_group_run_step(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	g->checkpointed = false;
	g->void_ = !seat->m || seat->m != g->part[g->which].m;
	if (g->void_)
		return;
	g->err = step_copy(g, g->which);
	if (g->err) {
		sl_fail_set(&g->fail, g->err, "step %" PRIu64 " of member %d of group %s could not be applied: %s",
			    seat->number, g->which, g->name, sl_err_text(g->err));
		return;
	}
	if (g->part[g->which].rows)
		sl_port_commit_codecs(seat->m->port);
	seat->number = sl_port_session(seat->m->port)->number + 1; /* a newcomer's state was of an earlier step */
	seat->made = g->branch;
	g->torn = false;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
}

/* A copy that holds NaN or Inf would spoil all: its member has no part in the round. */
static void leave_out_spoiled(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		struct sl_fail why;

		if (!g->part[k].m || !g->seat[k].rows)
			continue;
		if (sl_copy_check(g->seat[k].copy, &why) != SL_ERR_NONFINITE && sl_group_ends_sound(g, k, &why))
			continue;
		sl_group_leave_out(g, k, why.text);
	}
}

enum sl_err sl_group_end_round(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_average_others others;
	struct sl_copy *copy = calloc((size_t)g->n, sizeof *copy);
	enum sl_err err = copy ? SL_OK : SL_ERR_NOMEM;
	int n = 0;

	for (int k = 0; k < g->n && !err; k++)
		err = g->part[k].m ? step_copy(g, k) : SL_OK;
	leave_out_spoiled(g);
	if (!err)
		err = sl_group_ends_average(g, fail);
	for (int k = 0; k < g->n && !err; k++) {
		if (g->seat[k].copy)
			copy[n++] = (struct sl_copy){g->seat[k].copy, g->part[k].m ? g->seat[k].rows : 0};
		g->seat[k].rows = 0;
	}
	if (!err)
		err = sl_average(g->exec, copy, n, how(g), sl_group_other_copies(g, &others));
	free(copy);
	return err && !fail->text[0] ? sl_fail_set(fail, err, "the members' copies could not be averaged") : err;
}
