/* How members leave a group, and what it knows of those that are done. A run is over for each member by itself: others
 * may still take the weights while the server is killed, or have a longer run. So every checkpoint says who may leave
 * (group_done.c), and a group that goes on from there does not wait for them. It is on the disk before such a member
 * hears its last weights: so this holds whenever the server dies, and whether or not it has heard a goodbye. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "server/group_impl.h"

/* ---- the loop's */

/* It goes on from the step at which others were done; and its own run is not a longer one than it was there. */
static bool can_do_without(const struct sl_group *g, int k)
{
	const struct sl_hello *h = &sl_port_session(g->member[k].m->port)->hello;

	/* with other ranks the newest file of one may be of no use: sl_group_common_steps finds out */
	return (g->groups->ranks || sl_hello_holds(h, g->gone_at)) && (!g->seat[k].gone || sl_hello_is_done(h));
}

bool sl_group_all_here(struct sl_group *g)
{
	bool here = false, away = false, can = true;

	if (sl_group_varies(g))
		return sl_group_enough_here(g);
	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_member *p = &g->member[k];

		if (p->m && p->joining) {
			here = true;
			can = can && can_do_without(g, k);
		} else if (p->m || !(g->seat[k].gone || p->left)) {
			return false;
		} else {
			away = away || g->seat[k].gone;
		}
	}
	/* a rank that all have left takes part in what the others do */
	return (here || g->staying) && (!away || can); /* whoever begins anew, or comes from elsewhere, waits for all */
}

bool sl_group_turns_fit(struct sl_group *g, struct sl_fail *why)
{
	char list[200] = "";
	int at = 0;

	if (g->n_gone || g->some_gone || sl_turns_fit(&g->turns))
		return true;
	for (int k = 0; k < g->n && at < (int)sizeof list - 24; k++)
		at += snprintf(list + at, sizeof list - (size_t)at, "%s%" PRIu64, k ? ", " : "", g->turns.count[k]);
	(void)sl_fail_at(why, "share.batches", SL_ERR_MISMATCH,
			 "group %s: the members' batches do not make up an epoch of %" PRIu64
			 " steps: where their data are unequal, all need share.batches: [%s]",
			 g->name, g->turns.epoch_steps, list);
	return false;
}

/* ---- the worker's */

void sl_group_hear_left(struct sl_group *g)
{
	char left[SL_KEEP_LEFT];

	if (!sl_keep_who_left(&g->keep, &g->gone_at, left))
		return;
	for (int k = g->first; k < g->end && k < (int)strlen(left); k++) { /* other ranks know of theirs */
		if (sl_group_varies(g)) {
			g->seat[k].left = left[k] != SL_GROUP_IN;
			g->seat[k].finished = left[k] == SL_GROUP_FINISHED;
			continue;
		}
		g->seat[k].gone = g->seat[k].left = left[k] == SL_GROUP_FINISHED;
		g->n_gone += g->seat[k].gone;
	}
	memcpy(g->keep.left, left, sizeof g->keep.left);
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

enum sl_err sl_group_done_is_back(struct sl_group *g, int k)
{
	if (!g->seat[k].gone)
		return SL_OK;
	g->seat[k].gone = false;
	g->n_gone--;
	return sl_group_has_rounds(g) ? sl_group_reset_copy(g, k, true) : SL_OK;
}

/* Its run is over, and that of nobody else ends at the same step or before, and is not: nobody waits for it. */
static bool others_run_on(const struct sl_group *g, const struct sl_group_seat *seat)
{
	for (int k = 0; k < g->n; k++) {
		const struct sl_group_seat *other = &g->seat[k];

		if (other != seat && !other->left && other->ends_at <= seat->ends_at)
			return false;
	}
	return sl_group_run_is_over(seat);
}

void sl_group_note_left(struct sl_group *g)
{
	bool any = false;

	if (sl_group_varies(g)) {
		sl_group_note_members(g);
		return;
	}
	for (int k = 0; k < g->n; k++) {
		const struct sl_group_seat *seat = &g->seat[k];
		const bool over = seat->left || seat->let_go || others_run_on(g, seat);

		g->keep.left[k] = over ? SL_GROUP_FINISHED : SL_GROUP_IN;
		any = any || over;
	}
	g->keep.left[any ? g->n : 0] = '\0';
}

/* Where somebody is not done yet there is no need: a later file will say it. */
void sl_group_keep_left(struct sl_group *g)
{
	char before[SL_KEEP_LEFT];

	for (int k = 0; k < g->n; k++)
		if (!g->seat[k].left && !g->seat[k].let_go && g->seat[k].number != g->done)
			return;
	memcpy(before, g->keep.left, sizeof before);
	sl_group_note_left(g);
	if (g->valid && !g->torn && g->keep.dir[0] && g->done == g->on_disk && strcmp(before, g->keep.left) != 0)
		sl_group_keep(g);
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
	if (all_left && g->groups->ranks)
		return; /* others may still train (sl_group_meet) */
	if (all_left)
		sl_keep_only(&g->keep, g->stays ? g->on_disk : UINT64_MAX);
	else if (g->valid && !g->torn && g->done != g->on_disk && g->keep.dir[0] && sl_group_at_border(g))
		sl_group_keep(g);
}

void sl_group_last(struct sl_group *g, struct sl_middle *m)
{
	struct sl_group_seat *seat = &g->seat[sl_group_seat_of(m)];
	const bool said_goodbye = m->left && m->welcomed;

	if (seat->m != m)
		return;
	SL_FAILPOINT(m->left ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_group_hold_codecs(seat))
		seat->kept = false;
	seat->m = NULL;
	if (sl_group_varies(g)) {
		/* a goodbye before the last step of the run is no end of it */
		sl_group_last_of(g, sl_group_seat_of(m), said_goodbye && sl_group_run_is_over(seat),
				 said_goodbye || (m->welcomed && m->away));
		return;
	}
	seat->left = m->welcomed ? m->left : seat->left;
	if (said_goodbye)
		g->late_at = g->done; /* it does not come back to redo steps with others */
	last_words(g);
	SL_FAILPOINT(m->left ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}
