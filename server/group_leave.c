/* How members leave a group, and what it knows of those that are done. A run is over for each member by itself: others
 * may still evaluate, or take the weights, while the server is killed. So the checkpoint of the last step says who has
 * said goodbye, and a group that goes on from there does not wait for them. */
#include <inttypes.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "server/group_impl.h"

/* ---- the loop's */

bool sl_group_all_here(const struct sl_group *g)
{
	bool here = false, away = false, done = true;

	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_member *p = &g->member[k];

		if (p->m && p->joining) {
			here = true;
			done = done && sl_hello_holds(&sl_port_session(p->m->port)->hello, g->gone_at);
		} else if (p->m || !g->seat[k].gone) {
			return false;
		} else {
			away = true;
		}
	}
	return here && (!away || done); /* whoever begins anew, or comes from elsewhere, waits for all */
}

bool sl_group_turns_fit(struct sl_group *g, struct sl_fail *why)
{
	if (g->n_gone || sl_turns_fit(&g->turns))
		return true;
	(void)sl_fail_at(why, "data.partition", SL_ERR_MISMATCH,
			 "group %s: the members' batches do not make up an epoch of %" PRIu64
			 " turns: with data.partition: files all members need the same number of batches",
			 g->name, g->turns.epoch_steps);
	return false;
}

/* ---- the worker's */

void sl_group_hear_left(struct sl_group *g)
{
	char left[SL_KEEP_LEFT];

	/* with other ranks each has its own members' files */
	if (g->groups->ranks || !sl_keep_who_left(&g->keep, &g->gone_at, left))
		return;
	for (int k = 0; k < g->n && left[k]; k++) {
		g->seat[k].gone = g->seat[k].left = left[k] == '1';
		g->n_gone += g->seat[k].gone;
	}
}

bool sl_group_gone_is_back(struct sl_group *g, int k)
{
	if (!g->seat[k].gone)
		return false;
	for (int i = 0; i < g->n; i++)
		g->seat[i].gone = false;
	g->n_gone = 0;
	return true;
}

/* In the file of the last step, once more; where somebody is not done yet, or all are, there is no need. */
static void keep_left(struct sl_group *g)
{
	bool all = true;

	for (int k = 0; k < g->n; k++) {
		if (!g->seat[k].left && g->seat[k].number != g->done)
			return;
		all = all && g->seat[k].left;
		g->keep.left[k] = g->seat[k].left ? '1' : '0';
	}
	g->keep.left[g->n] = '\0';
	if (!all && g->valid && !g->torn && g->keep.dir[0] && g->done == g->on_disk)
		sl_group_keep(g);
	g->keep.left[0] = '\0';
}

/* Nobody is inside a round: what the trunk and the seats hold is one state. */
bool sl_group_at_border(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].number > g->done)
			return false;
	return true;
}

/* What was applied is written where nobody is left; or, where all have said goodbye, what is to stay. */
static void last_words(struct sl_group *g)
{
	bool all_left = true;

	for (int k = g->first; k < g->end; k++) {
		if (g->seat[k].m)
			return;
		all_left = all_left && g->seat[k].left;
	}
	if (all_left)
		sl_keep_only(&g->keep, g->stays ? g->on_disk : UINT64_MAX);
	else if (g->valid && !g->torn && g->done != g->on_disk && g->keep.dir[0] && sl_group_at_border(g))
		sl_group_keep(g);
}

void sl_group_last(struct sl_group *g, struct sl_middle *m)
{
	struct sl_group_seat *seat = &g->seat[sl_group_seat_of(m)];

	if (seat->m != m)
		return;
	SL_FAILPOINT(m->left ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_group_hold_codecs(seat))
		seat->kept = false;
	seat->m = NULL;
	seat->left = m->left;
	if (m->left)
		g->late_at = g->done; /* it does not come back to redo steps with others */
	if (m->left && !g->n_gone && !g->groups->ranks)
		keep_left(g);
	last_words(g);
	SL_FAILPOINT(m->left ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}
