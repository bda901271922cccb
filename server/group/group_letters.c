/* What the ranks of a group tell each other. On the loop.
 *
 * Each rank tells all others of its seats, whenever these change. Rank 0 decides when all ranks choose where to go on
 * from, do a step, or end. It does so once all have carried out its last act, so that what it knows of their seats is
 * not older. A member may still be lost before its rank carries out the act: then that rank does not agree, and no rank
 * does it (sl_group_all_say). What concerns one member, its rank decides alone. */
#include <stdio.h>
#include <string.h>

#include "server/group/group_impl.h"

/* ---- seats */

void sl_group_see(struct sl_group *g)
{
	g->left = 0;
	for (int k = 0; k < g->n && g->groups->ranks; k++) {
		struct sl_group_told *from = &g->groups->heard_of[k];
		const bool known = from->key == g->key && from->acts >= g->since; /* else of an earlier group */
		struct sl_seat *s = &g->t.seat[k];

		if (sl_group_is_own(g, k))
			continue;
		*s = known ? from->seat : (struct sl_seat){.state = SL_SEAT_NEVER};
		s->hello = s->link == SL_LINK_NONE ? NULL : &from->hello;
		s->asks = s->asks && from->branch == g->branch; /* else it asked before all went back */
		if (s->state == SL_SEAT_DONE && s->link == SL_LINK_NONE && s->number > g->left)
			g->left = s->number;
	}
}

static struct sl_group_told describe(const struct sl_group *g, int k)
{
	const struct sl_seat *s = &g->t.seat[k];
	const struct sl_session *session = g->member[k].m ? sl_port_session(g->member[k].m->port) : NULL;
	struct sl_group_told out;

	memset(&out, 0, sizeof out); /* the padding, too, since these are compared as bytes */
	out.key = g->key;
	out.branch = g->t.open ? g->branch : 0; /* else the worker may be about to change it */
	out.k = k;
	out.acts = g->groups->acts;
	out.turns = g->turns.count[k];
	out.keep = s->prepared && session && session->keep == SL_KEEP_ASKED;
	out.lr = s->prepared && session ? session->lr : SL_GROUP_NO_LR;
	memcpy(&out.seat, s, sizeof out.seat);
	out.seat.hello = NULL;
	out.seat.elsewhere = out.seat.tired = false; /* which have no meaning where steps need all */
	if (s->hello)
		memcpy(&out.hello, s->hello, sizeof out.hello);
	return out;
}

void sl_group_tell_seats(struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;

	for (int k = g->first; k < g->end && ranks; k++) {
		const struct sl_group_told now = describe(g, k);

		if (memcmp(&now, &g->groups->heard_of[k], sizeof now) == 0)
			continue;
		memcpy(&g->groups->heard_of[k], &now, sizeof now);
		ranks->send(ranks, LETTER_SEAT, &now, sizeof now);
	}
}

/* ---- acts */

static bool all_have_done(const struct sl_group_list *gs)
{
	for (int r = 1; r < gs->ranks->count; r++)
		if (gs->done[r] != gs->acts)
			return false;
	return true;
}

enum sl_trunk_act sl_group_joint(struct sl_group *g, enum sl_trunk_act act)
{
	struct sl_group_list *gs = g->groups;
	const bool joint = act == SL_TRUNK_CHOOSE || act == SL_TRUNK_APPLY || act == SL_TRUNK_OVER;

	g->agrees = true;
	if (!gs->ranks || (!joint && act != SL_TRUNK_WAIT))
		return act;
	if (!g->t.led)
		return all_have_done(gs) ? act : SL_TRUNK_WAIT;
	if (!gs->told)
		return SL_TRUNK_WAIT;
	gs->told = false;
	g->told = true;
	g->agrees = act == (enum sl_trunk_act)gs->act.act;
	return (enum sl_trunk_act)gs->act.act;
}

static bool all_hold(const struct sl_group *g, uint64_t step)
{
	for (int k = 0; k < g->n; k++)
		if (g->t.seat[k].hello && !sl_hello_holds(g->t.seat[k].hello, step))
			return false;
	return true;
}

/* The steps that all who are here have named, and the turns of all. */
static struct sl_group_steps name_steps(const struct sl_group *g)
{
	struct sl_group_steps out = {0};
	const struct sl_hello *first = NULL;

	for (int k = 0; k < g->n; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		out.gone = out.gone || (s->state == SL_SEAT_DONE && s->link == SL_LINK_NONE);
		out.turns[k] = sl_group_is_own(g, k) ? g->turns.count[k] : g->groups->heard_of[k].turns;
		first = first ? first : s->hello;
	}
	for (uint32_t i = 0; first && i < first->n_held; i++)
		if (all_hold(g, first->held[i]))
			out.step[out.n++] = first->held[i];
	return out;
}

static void order(struct sl_group *g, enum sl_trunk_act act)
{
	struct sl_group_list *gs = g->groups;

	for (int k = 0; k < g->n; k++)
		g->checkpoint =
			g->checkpoint || (!sl_group_is_own(g, k) && sl_seat_is_ready(&g->t, k) && gs->heard_of[k].keep);
	gs->act = (struct sl_group_act){g->key, ++gs->acts, (int32_t)act, g->checkpoint, g->lr, g->steps};
	gs->ranks->send(gs->ranks, LETTER_ACT, &gs->act, sizeof gs->act);
}

void sl_group_announce(struct sl_group *g, enum sl_trunk_act act)
{
	const struct sl_group_act *told = &g->groups->act;

	if (act == SL_TRUNK_CHOOSE)
		g->steps = g->t.led ? told->steps : name_steps(g);
	for (int i = 0; i < g->steps.n && act == SL_TRUNK_CHOOSE; i++)
		g->agrees = g->agrees && all_hold(g, g->steps.step[i]); /* a member may have come again since */
	for (int k = 0; k < g->n && act == SL_TRUNK_CHOOSE && g->groups->ranks; k++)
		g->turns.count[k] = g->steps.turns[k];
	if (g->t.led) {
		g->lr = told->lr;
		g->checkpoint = told->checkpoint;
	} else if (g->groups->ranks) {
		order(g, act);
	}
}

void sl_group_carried_out(struct sl_group *g)
{
	if (g->told)
		g->groups->acts = g->groups->act.count;
	g->told = false;
	sl_group_tell_seats(g);
}

void sl_group_tell_back(const struct sl_group *g, const struct sl_fail *why)
{
	struct sl_group_back letter = {.key = g->key};

	if (!g->groups->ranks || !g->t.open)
		return;
	letter.branch = g->branch;
	snprintf(letter.why, sizeof letter.why, "%s", why->text);
	g->groups->ranks->send(g->groups->ranks, LETTER_BACK, &letter, sizeof letter);
}
