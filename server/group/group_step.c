/* A step of a group, on the worker: checks of each member's part, the fold of all, and the new state of the seats. In
 * rounds each member trains a copy of the trunk, and the copies are averaged at the end of a round. The trunk itself
 * holds the result of the last round. */
#include <inttypes.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "server/group/group_work.h"

/* ---- copies */

enum sl_err sl_group_reset_copy(struct sl_group *g, int k, bool moments)
{
	struct sl_fold_part *part = &g->fold.part[k];

	part->trained = 0;
	return part->copy ? sl_copy_reset(part->copy, g->trunk.exec, moments) : SL_OK;
}

/* If each member keeps its own moments, and a checkpoint was read, these moments stay. */
enum sl_err sl_group_reset_copies(struct sl_group *g)
{
	const bool moments = !sl_group_own_moments(g) || !g->trunk.r.done;
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		err = sl_group_reset_copy(g, k, moments);
	return err;
}

static void hand_over(struct sl_group *g, int k)
{
	const struct sl_group_part *part = &g->part[k];
	struct sl_fold_part *p = &g->fold.part[k];

	p->exec = part->m ? part->m->trunk.exec : NULL;
	p->change = part->m ? part->m->ends.change : NULL;
	p->averaged = part->m != NULL;
	p->rows = part->rows;
	p->counts = part->counts;
}

/* A step on the member's copy, as in a run without a group. */
static enum sl_err step_copy(struct sl_group *g, int k)
{
	const bool has_rows = g->fold.part[k].rows > 0;

	SL_FAILPOINT(has_rows ? SL_FP_SERVER_APPLY : SL_FP_NONE);
	g->trunk.state = has_rows ? SL_TRUNK_TORN : g->trunk.state;
	return sl_fold_alone(&g->fold.part[k], g->lr);
}

/* What the member's part of the step adds to its record. */
static void count_part(struct sl_group *g, int k)
{
	const struct sl_middle *m = g->part[k].m;
	struct sl_record *r = &g->trunk.r.seat[k];

	r->rows += g->part[k].rows;
	r->empty += m && sl_port_session(m->port)->commit == SL_COMMIT_SKIPS;
	r->clipped += g->part[k].rows && m->clipped;
}

void sl_group_run_step(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	g->trunk.checkpointed = false;
	g->undone = !seat->m || seat->m != g->part[g->which].m;
	if (g->undone)
		return;
	hand_over(g, g->which);
	g->err = step_copy(g, g->which);
	if (g->err) {
		sl_fail_set(&g->fail, g->err, "step %" PRIu64 " of member %d of group %s could not be applied: %s",
			    g->trunk.r.seat[g->which].number, g->which, g->name, sl_err_text(g->err));
		return;
	}
	if (g->part[g->which].rows)
		sl_port_commit_codecs(seat->m->port);
	count_part(g, g->which);
	g->trunk.r.seat[g->which].number = sl_port_session(seat->m->port)->number +
					   1; /* from the session: the record of one that came is behind it */
	seat->made = g->branch;
	g->trunk.state = SL_TRUNK_WHOLE;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
}

static enum sl_err end_round(struct sl_group *g, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		err = g->part[k].m ? step_copy(g, k) : SL_OK;
	return err ? err : sl_fold_round(&g->fold, sl_group_last_step(g), fail);
}

/* ---- a step of all members */

/* In a vertical group the trunk computes, in tasks of the party with labels. */
static enum sl_err parties_check(struct sl_group *g, struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(m->port);
	int64_t rows[SL_PLAN_MAX_CHUNKS];

	if (sl_session_skips(s) || m->agreement.plan.party == SL_PARTY_FEATURES)
		return SL_OK;
	if (SL_FAILPOINT_CALL(SL_FP_SERVER_CHECK, 0))
		return SL_ERR_NONFINITE;
	return sl_exec_check(g->trunk.exec, rows, sl_plan_split(m->trunk.plan, (int64_t)s->batch_rows, rows), fail);
}

static enum sl_err parties_apply(struct sl_group *g)
{
	const struct sl_session *s = NULL;
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	enum sl_err err;
	int chunks;

	for (int k = 0; k < g->n; k++) /* all have the same rows and factor */
		s = g->part[k].rows ? sl_port_session(g->part[k].m->port) : s;
	if (!s)
		return sl_exec_skip(g->trunk.exec);
	chunks = sl_plan_split(g->trunk.plan, (int64_t)s->batch_rows, rows);
	SL_FAILPOINT(SL_FP_SERVER_APPLY);
	g->trunk.state = SL_TRUNK_TORN;
	err = sl_exec_scale(g->trunk.exec, s->grad_scale);
	return err ? err : sl_exec_commit(g->trunk.exec, g->lr, rows, chunks);
}

enum sl_err sl_group_check(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_group *g = m->group;
	const struct sl_session *s = sl_port_session(m->port);
	const double factor = sl_plan_own_factor(&g->trunk.plan->spec, (int64_t)sl_session_counts(s));
	const struct sl_part_bound bound = {g->agreed.share.member_norm, g->agreed.share.over_norm == SL_OVER_CLIP,
					    &m->clipped};
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	enum sl_err err;

	SL_FAILPOINT(sl_session_skips(s) ? SL_FP_SERVER_SKIP : SL_FP_NONE);
	if (g->t.whole)
		return parties_check(g, m, fail);
	if (sl_group_ends_check(m, fail))
		return fail->code;
	if (sl_session_skips(s))
		return SL_OK;
	for (int i = 0; i < s->chunks; i++)
		rows[i] = (int64_t)sl_session_chunk_rows(s, i);
	if (SL_FAILPOINT_CALL(SL_FP_SERVER_CHECK, 0))
		return SL_ERR_NONFINITE;
	err = g->agreed.clip_norm > 0 ? sl_exec_check(m->trunk.exec, rows, s->chunks, fail) : SL_OK;
	if (!err)
		err = sl_exec_scale(m->trunk.exec, s->grad_scale);
	return err ? err
		   : sl_part_check(m->trunk.exec, rows, s->chunks, factor, &m->ends.layout,
				   m->ends.layout.round ? NULL : m->ends.change, &bound, fail);
}

static enum sl_err apply(struct sl_group *g, struct sl_fail *fail)
{
	enum sl_err err = sl_fold_sum(&g->fold, sl_group_last_step(g), fail);

	if (err)
		return err;
	SL_FAILPOINT(g->fold.counts ? SL_FP_SERVER_APPLY : SL_FP_NONE);
	g->trunk.state = g->fold.counts ? SL_TRUNK_TORN : g->trunk.state;
	return sl_fold_apply(&g->fold, g->lr);
}

/* The step, or the end of the round, with the members in `part`. */
static enum sl_err fold(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_others others;
	enum sl_err err;

	g->fold.trunk = g->trunk.exec;
	g->fold.moments = g->agreed.share.moments;
	g->fold.most = g->agreed.share.member_norm;
	g->fold.others = sl_group_others(g, &others);
	for (int k = 0; k < g->n; k++)
		hand_over(g, k);
	err = sl_group_ends_next(g, fail);
	if (!err)
		err = g->t.whole ? parties_apply(g) : sl_group_has_rounds(g) ? end_round(g, fail) : apply(g, fail);
	for (int k = 0; k < g->n; k++)
		if (g->fold.part[k].left_out)
			g->part[k] = (struct sl_group_part){0};
	return err;
}

/* Notes the steps that members did in a round which has ended without them. NOMEM. */
static enum sl_err log_alone(struct sl_group *g, const struct sl_took *took)
{
	const uint64_t begin = g->trunk.r.done - g->round;
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++) {
		const uint64_t next = g->trunk.r.seat[k].number;

		if (!took[k].part && next > begin && next < g->trunk.r.done)
			err = sl_group_log_alone(&g->log, k, g->round, next - begin);
	}
	return err;
}

/* Advances the seats of those that took part; the others stay at their step. NOMEM. */
static enum sl_err settle(struct sl_group *g)
{
	struct sl_took took[SL_CONF_SHARE_CLIENTS] = {{0}};
	enum sl_err err;
	struct sl_group_set with = {{0}};

	if (g->trunk.r.done == g->trunk.from &&
	    g->trunk.keep.dir[0]) /* the first step: later checkpoints now belong to an abandoned history */
		sl_keep_remove_later(&g->trunk.keep, g->trunk.r.done);
	for (int k = 0; k < g->n; k++) {
		const struct sl_middle *m = g->part[k].m;
		const struct sl_session *s = m ? sl_port_session(m->port) : NULL;

		took[k] = (struct sl_took){m != NULL, g->part[k].lost};
		if (g->part[k].rows)
			sl_port_commit_codecs(m->port);
		count_part(g, k);
		if (m)
			sl_record_keeps(&g->trunk.r.seat[k], s->kept, s->writing, g->trunk.r.done + g->round);
		if (m || !sl_group_is_own(g, k)) {
			sl_group_set_add(&with, k);
			g->seat[k].made = g->branch;
		}
	}
	sl_group_ends_settle(g);
	sl_records_stepped(&g->trunk.r, took, g->round);
	err = sl_group_log_step(&g->log, g->round, &with);
	if (!err) /* the record tells of each step that is in the weights */
		sl_assert_int(g->log.end, ==, g->trunk.r.done);
	return err ? err : log_alone(g, took);
}

/* Writes the checkpoint that the members ask for. If it fails, they write none either. */
static bool keep_asked(struct sl_group *g)
{
	struct sl_records *r = &g->trunk.r;
	const uint64_t was[2] = {r->asked[0], r->asked[1]};

	r->asked[0] = r->done;
	r->asked[1] = was[0];
	if (sl_group_all_say(g, sl_group_keep(g)))
		return true;
	memcpy(r->asked, was, sizeof was);
	return false;
}

void sl_group_run_apply(struct sl_group *g)
{
	bool ready = g->agrees;

	g->trunk.checkpointed = false;
	for (int k = 0; k < g->n; k++) {
		ready = ready && (!g->part[k].m || g->part[k].m == g->seat[k].m);
		g->fold.part[k].left_out = false;
	}
	g->undone = !sl_group_all_say(g, ready);
	if (g->undone)
		return;
	g->fail.text[0] = '\0';
	g->err = fold(g, &g->fail);
	if (!g->err && SL_FAILPOINT_CALL(SL_FP_SERVER_CODECS, 0) != 0)
		g->err = SL_ERR_DEVICE;
	if (!g->err)
		g->err = sl_exec_set_done(g->trunk.exec, g->trunk.r.done + g->round);
	if (g->err && !g->fail.text[0])
		sl_fail_set(&g->fail, g->err, "step %" PRIu64 " of group %s could not be applied: %s", g->trunk.r.done,
			    g->name, sl_err_text(g->err));
	if (g->err && g->err != SL_ERR_NONFINITE)
		sl_group_end_ranks(g, g->fail.text);
	if (g->err)
		return;
	if (settle(g)) {
		g->err = sl_fail_set(&g->fail, SL_ERR_NOMEM, "no memory for the log of group %s", g->name);
		return;
	}
	sl_assert_int(sl_exec_done(g->trunk.exec), ==, g->trunk.r.done);
	g->trunk.state = SL_TRUNK_WHOLE;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
	g->trunk.checkpointed = g->trunk.r.stays = g->checkpoint && keep_asked(g);
}

void sl_group_run_catch_up(struct sl_group *g)
{
	/* one that goes on step by step would fall further and further behind */
	g->err = g->behind + 2 * g->round < g->trunk.r.done
			 ? sl_fail_set(&g->fail, SL_ERR_BUSY,
				       "member %d has missed steps of group %s: come again, and go on with the next "
				       "one",
				       g->which, g->name)
			 : SL_OK;
	if (g->err)
		return;
	g->trunk.r.seat[g->which].number = g->behind + 1;
	g->trunk.r.seat[g->which].state = SL_SEAT_IN;
	g->seat[g->which].made = g->branch;
}
