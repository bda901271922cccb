/* A step of a group, on the worker: the sum of its members' gradients, who is left out of it, and what follows. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/nn/clip.h"
#include "server/group_impl.h"

int sl_group_rows_of(const struct sl_group *g, int k, int64_t rows[SL_PLAN_MAX_CHUNKS])
{
	const struct sl_plan *plan = g->seat[k].m->trunk.plan;
	const int chunks = sl_plan_chunks_of(plan, (int64_t)g->part[k].rows);

	for (int i = 0; i < chunks; i++)
		rows[i] = sl_plan_chunk_rows(plan, (int64_t)g->part[k].rows, i);
	return chunks;
}

/* Losses of members are divided by the rows of a full step; in a mode where a step is one member's, by its own. */
static double factor(const struct sl_group *g, uint64_t rows)
{
	return g->agreed.share.mode == SL_SHARE_SYNC ? (double)g->agreed.share.rows / (double)rows : 1;
}

enum sl_err sl_group_check(struct sl_group *g, struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(m->port);
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	enum sl_err err;

	SL_FAILPOINT(s->skip ? SL_FP_SERVER_SKIP : SL_FP_NONE);
	if (sl_group_ends_check(m, fail))
		return fail->code;
	if (s->skip)
		return SL_OK;
	for (int i = 0; i < s->chunks; i++)
		rows[i] = (int64_t)sl_session_chunk_rows(s, i);
	if (SL_FAILPOINT_CALL(SL_FP_SERVER_CHECK, 0))
		return SL_ERR_NONFINITE;
	err = g->agreed.clip_norm > 0 ? sl_exec_check(m->trunk.exec, rows, s->chunks, fail) : SL_OK;
	if (!err)
		err = sl_exec_scale(m->trunk.exec, s->grad_scale);
	return err ? err
		   : sl_member_check(m->trunk.exec, rows, s->chunks, factor(g, s->batch_rows),
				     g->agreed.share.member_norm, fail);
}

/* The members' gradients by their numbers, whoever was first. *rows: of those that take part. */
static enum sl_err add_members(struct sl_group *g, uint64_t *rows)
{
	enum sl_err err = SL_OK;

	*rows = 0;
	for (int k = g->first; k < g->end && !err; k++) {
		int64_t of_chunk[SL_PLAN_MAX_CHUNKS];
		int chunks;

		if (!g->part[k].m || !g->part[k].rows)
			continue;
		*rows += g->part[k].rows;
		chunks = sl_group_rows_of(g, k, of_chunk);
		err = sl_exec_fold_add(g->exec, g->seat[k].m->trunk.exec, of_chunk, chunks);
	}
	return err;
}

static enum sl_err fold(struct sl_group *g, uint64_t *rows)
{
	enum sl_err err = sl_exec_fold_begin(g->exec);

	if (!err)
		err = sl_group_fold_ranks(g, add_members, rows);
	return err || !*rows ? err : sl_exec_fold_end(g->exec, factor(g, *rows));
}

void sl_group_leave_out(struct sl_group *g, int k, const char *why)
{
	struct sl_group_part *part = &g->part[k];

	*part = (struct sl_group_part){.spoiled = true};
	(void)sl_fail_set(&part->why, SL_ERR_NONFINITE, "%s", why);
}

/* Each gradient is finite, and their sum is not: the largest is to blame. */
static void leave_out_largest(struct sl_group *g, const char *why)
{
	double most = -1;
	int who = 0;

	for (int k = g->first; k < g->end; k++) {
		struct sl_fail none;
		double squares = INFINITY;

		if (!g->part[k].m || !g->part[k].rows)
			continue;
		if (!sl_exec_squares(g->seat[k].m->trunk.exec, &squares, &none) && g->ends)
			squares += sl_squares(g->seat[k].m->ends.change, g->ends->layout.grads);
		if (squares > most) {
			most = squares;
			who = k;
		}
	}
	if (sl_group_largest_here(g, most))
		sl_group_leave_out(g, who, why);
}

/* The sum of those that can be added; *rows: of them. */
static enum sl_err fold_finite(struct sl_group *g, uint64_t *rows, double *scale, struct sl_fail *fail)
{
	enum sl_err err;

	do {
		struct sl_fail why = {0};
		char text[SL_WIRE_TEXT_MAX];

		err = fold(g, rows);
		if (err)
			return sl_fail_set(fail, err, "the members' gradients could not be added");
		err = *rows ? sl_exec_check(g->exec, NULL, 0, &why) : SL_OK;
		if (!err && *rows)
			err = sl_group_ends_fold(g, factor(g, *rows), scale, &why);
		snprintf(text, sizeof text, "%.200s of all members, of whom this one has the largest gradient",
			 why.text);
		if (err == SL_ERR_NONFINITE)
			leave_out_largest(g, text);
		else if (err)
			*fail = why;
	} while (err == SL_ERR_NONFINITE);
	return err;
}

static enum sl_err apply(struct sl_group *g, struct sl_fail *fail)
{
	uint64_t rows;
	double scale = 0;
	enum sl_err err = fold_finite(g, &rows, &scale, fail);

	if (!err && !rows)
		return sl_exec_skip(g->exec);
	SL_FAILPOINT(SL_FP_SERVER_APPLY);
	if (!err)
		err = sl_exec_scale(g->exec, scale);
	if (err)
		return err;
	g->torn = true;
	return sl_exec_commit(g->exec, g->lr, NULL, 0);
}

/* Its checkpoints, none of which can be of step `next` or later. */
static void hear_kept(struct sl_group_seat *seat, uint64_t next)
{
	const struct sl_session *s = sl_port_session(seat->m->port);

	for (int i = 0; i < SL_WIRE_KEPT; i++)
		seat->pin[i] = s->kept[i] < next ? s->kept[i] : 0; /* there is no later one */
	seat->has_files = seat->pin[s->writing ? 1 : 0] != 0;
}

/* Who took part is a step ahead; the others stay where they are. */
static void settle(struct sl_group *g)
{
	bool all = !g->others_missed;

	if (g->done == g->from && g->keep.dir[0]) /* from here on the steps kept behind it are another past's */
		sl_keep_leave(&g->keep, g->done);
	for (int k = 0; k < g->n; k++) {
		struct sl_group_seat *seat = &g->seat[k];

		if (!g->part[k].m && k >= g->first && k < g->end) {
			all = all && (seat->left || g->part[k].spoiled);
			seat->left = seat->left || g->part[k].lost;
			continue;
		}
		if (g->part[k].rows)
			sl_port_commit_codecs(seat->m->port);
		if (g->part[k].m)
			hear_kept(seat, g->done + g->round);
		seat->number = g->done + g->round;
		seat->made = g->branch;
	}
	sl_group_ends_settle(g);
	g->done += g->round;
	if (!all)
		g->late_at = g->done;
}

void sl_group_run_apply(struct sl_group *g)
{
	g->void_ = false;
	g->checkpointed = false;
	for (int k = 0; k < g->n; k++)
		g->void_ = g->void_ || (g->part[k].m && g->part[k].m != g->seat[k].m);
	if (g->void_)
		return;
	g->fail.text[0] = '\0';
	g->err = sl_group_meet(g, -1, 0, &g->fail);
	if (!g->err && g->came_of != MET_GO)
		return;
	if (!g->err)
		g->err = sl_group_has_rounds(g) ? sl_group_end_round(g, &g->fail) : apply(g, &g->fail);
	if (!g->err && SL_FAILPOINT_CALL(SL_FP_SERVER_CODECS, 0) != 0)
		g->err = SL_ERR_DEVICE;
	if (!g->err)
		g->err = sl_exec_follow(g->exec, g->done + g->round);
	if (g->err && !g->fail.text[0])
		sl_fail_set(&g->fail, g->err, "step %" PRIu64 " of group %s could not be applied: %s", g->done, g->name,
			    sl_err_text(g->err));
	if (g->err && g->err != SL_ERR_NONFINITE)
		sl_group_end_ranks(g, g->fail.text);
	if (g->err)
		return;
	settle(g);
	g->torn = false;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
	g->checkpointed = g->stays = g->checkpoint && sl_group_all_kept(g, sl_group_keep(g));
}

void sl_group_run_catch_up(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	g->err = sl_group_ends_reach(g, g->behind)
			 ? SL_OK
			 : sl_fail_set(&g->fail, SL_ERR_MISMATCH,
				       "member %d is too far behind: group %s has not kept the mean of step %" PRIu64,
				       g->which, g->name, g->behind);
	if (g->err)
		return;
	seat->number = g->behind + 1;
	seat->made = g->branch;
}
