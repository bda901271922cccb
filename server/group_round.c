/* Rounds: each member trains a copy of the trunk, and the copies are averaged where a round ends. On the device's
 * worker. The trunk itself holds what the last round ended with. */
#include <inttypes.h>

#include "common/base/failpoint.h"
#include "server/group_impl.h"

_Static_assert((int)SL_SHARE_KEEP == (int)SL_MOMENTS_KEEP && (int)SL_SHARE_AVERAGE == (int)SL_MOMENTS_AVERAGE &&
		       (int)SL_SHARE_ZERO == (int)SL_MOMENTS_ZERO,
	       "moments are numbered alike");

enum sl_err sl_group_reset_copy(struct sl_group *g, int k, bool moments)
{
	struct sl_fold_part *part = &g->fold.part[k];

	part->trained = 0;
	return part->copy ? sl_copy_reset(part->copy, g->trunk.exec, moments) : SL_OK;
}

/* Moments of their own are those of the checkpoint that was read, if one was. */
enum sl_err sl_group_reset_copies(struct sl_group *g)
{
	const bool moments = !sl_group_own_moments(g) || !g->trunk.r.done;
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		err = sl_group_reset_copy(g, k, moments);
	return err;
}

void sl_group_hand_over(struct sl_group *g, int k)
{
	const struct sl_group_part *part = &g->part[k];
	struct sl_fold_part *p = &g->fold.part[k];

	p->exec = part->m ? part->m->trunk.exec : NULL;
	p->change = part->m ? part->m->ends.change : NULL;
	p->averaged = part->m != NULL;
	p->rows = part->rows;
}

/* As a run without a group takes a step. */
static enum sl_err step_copy(struct sl_group *g, int k)
{
	const bool has_rows = g->fold.part[k].rows > 0;

	SL_FAILPOINT(has_rows ? SL_FP_SERVER_APPLY : SL_FP_NONE);
	g->trunk.state = has_rows ? SL_TRUNK_TORN : g->trunk.state;
	return sl_fold_alone(&g->fold.part[k], g->lr);
}

void sl_group_run_step(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	g->trunk.checkpointed = false;
	g->came_of = seat->m && seat->m == g->part[g->which].m ? MET_GO : MET_VOID;
	if (g->came_of == MET_VOID)
		return;
	sl_group_hand_over(g, g->which);
	g->err = step_copy(g, g->which);
	if (g->err) {
		sl_fail_set(&g->fail, g->err, "step %" PRIu64 " of member %d of group %s could not be applied: %s",
			    g->trunk.r.seat[g->which].number, g->which, g->name, sl_err_text(g->err));
		return;
	}
	if (g->part[g->which].rows)
		sl_port_commit_codecs(seat->m->port);
	g->trunk.r.seat[g->which].number =
		sl_port_session(seat->m->port)->number + 1; /* a newcomer's state was of an earlier step */
	seat->made = g->branch;
	g->trunk.state = SL_TRUNK_WHOLE;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
}

enum sl_err sl_group_end_round(struct sl_group *g, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		err = g->part[k].m ? step_copy(g, k) : SL_OK;
	return err ? err : sl_fold_round(&g->fold, sl_group_last_step(g), fail);
}
