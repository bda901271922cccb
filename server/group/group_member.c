/* The events of a group's members: what their sessions tell it. On the loop. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group/group_impl.h"

/* Nobody has a link to the group, and one comes with another run: so all gather for that one. */
static bool begins_another_run(const struct sl_group *g, const struct sl_middle *m)
{
	if (g->groups->ranks || !g->t.open || g->what != GROUP_IDLE ||
	    !sl_group_is_another_run(g, sl_group_seat_of(m), &sl_port_session(m->port)->hello))
		return false;
	for (int k = 0; k < g->n; k++)
		if (g->t.seat[k].link != SL_LINK_NONE)
			return false;
	return true;
}

static void joining(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	struct sl_group_member *p = &g->member[sl_group_seat_of(m)];
	struct sl_fail why;

	if (p->m && p->m != m) {
		sl_fail_set(&why, SL_ERR_PEER_LOST, "replaced by a newer link of the same member");
		sl_group_end_member(p, &why);
	}
	sl_group_hear_in(g);
	/* The seat keeps its state until the welcome: the session may turn out not to be its member. */
	p->m = m;
	p->answer = ANSWER_NONE;
	if (!sl_group_is_strangers(g, sl_group_seat_of(m), m))
		p->refused[0] = '\0';
	if (begins_another_run(g, m))
		sl_trunk_gathers(&g->t);
	sl_trunk_joins(&g->t, sl_group_seat_of(m), &sl_port_session(m->port)->hello);
	if (!g->t.open) {
		g->turns.count[sl_group_seat_of(m)] = (uint64_t)m->agreement.agreed.share.turns;
		sl_group_say_here(g, sl_group_seat_of(m));
	}
	sl_group_advance(g);
}

static void prepared(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	const int k = sl_group_seat_of(m);
	struct sl_seat *seat = &g->t.seat[k];
	struct sl_fail why;

	if (g->member[k].m != m)
		return;
	sl_trunk_prepared(&g->t, k, sl_session_skips(sl_port_session(m->port)));
	if (sl_seat_is_ready(&g->t, k))
		sl_group_clock_ready(g, k);
	else if (!sl_session_skips(sl_port_session(m->port)))
		sl_group_clock_moved(g, k);
	if (!seat->skip && !sl_turns_own(&g->turns, k, seat->number)) {
		sl_fail_set(&why, SL_ERR_PROTOCOL, "step %" PRIu64 " of group %s is not member %d's: it is member %d's",
			    seat->number, g->name, k, sl_turns_whose(&g->turns, seat->number));
		sl_group_end_member(&g->member[k], &why);
	}
	sl_group_advance(g);
}

static void asked(struct sl_middle *m)
{
	if (sl_group_hear_ask(m->group, m))
		sl_group_advance(m->group);
}

static void given(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	struct sl_group_member *p = &g->member[sl_group_seat_of(m)];

	if (p->m == m && p->answer == ANSWER_AWAITED)
		p->answer = sl_port_session(m->port)->gift_step == p->asked ? ANSWER_THERE : ANSWER_OLD;
	sl_group_advance(g);
}

/* Nobody has a link to a group that trains: it stays for a while, so that those that come need not go back. */
static bool is_alone(const struct sl_group *g)
{
	bool needed = false;

	for (int k = 0; k < g->n; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		if (g->member[k].m)
			return false;
		needed = needed || s->state == SL_SEAT_IN || s->state == SL_SEAT_AWAY || s->asks || s->given;
	}
	return !g->groups->ranks && g->t.open && needed;
}

static void reported(struct sl_middle *m)
{
	if (m->group->member[sl_group_seat_of(m)].m == m)
		sl_group_hear_report(m->group, m);
}

static void moved(struct sl_middle *m)
{
	sl_group_go_on(m->group);
}

/* The member could not open the head and tail that it got: it is to get those of another one. */
static void refused_ends(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];

	p->shuns = p->got;
	p->got = FROM_NOBODY;
	if (p->shuns == FROM_STORE)
		sl_log_limited(SL_LOG_WARN, "ends-refused",
			       "group %s: member %d cannot open the head and tail of the store: members are asked",
			       g->name, k);
	else
		sl_log_limited(SL_LOG_WARN, "ends-refused",
			       "group %s: member %d cannot open the head and tail of member %d: another one is asked",
			       g->name, k, p->shuns - FROM_MEMBER);
}

static void over(struct sl_middle *m, const struct sl_fail *why)
{
	struct sl_group *g = m->group;
	const int k = sl_group_seat_of(m);
	const bool strange = sl_group_is_strangers(g, k, m);
	const enum sl_seat_end how = strange ? SL_SEAT_LOST : m->ended; /* a stranger's goodbye is not the member's */

	if (why && why->code == SL_ERR_MISMATCH) /* its client will not come again: the others hear why it is missing */
		sl_group_note_refused(g, k, m, why->text);
	g->member[k].entered--;
	if (g->member[k].m != m)
		return;
	if (why && why->code == SL_ERR_PAYLOAD && g->member[k].got)
		refused_ends(g, k);
	g->member[k].m = NULL;
	if (!strange)
		g->member[k].away_s = sl_wall_s();
	g->member[k].answer = ANSWER_NONE;
	if (sl_trunk_over(&g->t, k, how)) /* no step can be done without it: all begin this one again */
		sl_group_end_others(g, k, "was lost", "was lost in", g->t.step + 1);
	if (is_alone(g))
		sl_group_stay_for_a_while(g);
	if (how != SL_SEAT_LOST)
		sl_log_limited(SL_LOG_INFO, "group-leaves", "group %s: member %d leaves behind step %" PRIu64 ": %s",
			       g->name, k, g->t.step, how == SL_SEAT_LEFT ? "its run is done" : "it was stopped");
	if (how == SL_SEAT_LEFT && is_alone(g)) /* one that does not come again would keep this from the log */
		sl_group_say_parts(g);
	sl_group_advance(g);
}

static void leave(struct sl_middle *m)
{
	sl_group_release(m->group);
	m->group = NULL;
}

/* (worker) In a vertical group all parties compute with the trunk's. */
static struct sl_exec *executor(const struct sl_middle *m)
{
	return m->trunk.plan->spec.party ? m->group->trunk.exec : m->trunk.exec;
}

const struct sl_seat_kind sl_group_seat_kind = {
	.lend = sl_group_lend,
	.task = {[SL_TASK_OPEN] = sl_group_open,
		 [SL_TASK_INSTALL] = sl_group_install,
		 [SL_TASK_PREPARE] = sl_group_check,
		 [SL_TASK_MEAN] = sl_group_ends_mean,
		 [SL_TASK_GATHER] = sl_group_gather},
	.exec = executor,
	.last = sl_group_last,
	.action = {[SL_ACTION_JOINING] = joining,
		   [SL_ACTION_PREPARED] = prepared,
		   [SL_ACTION_ASKED] = asked,
		   [SL_ACTION_GIVEN] = given,
		   [SL_ACTION_REPORT] = reported,
		   [SL_ACTION_MOVED] = moved},
	.over = over,
	.leave = leave,
};

enum sl_err sl_group_list_open(struct sl_group_list **out, struct sl_loop *loop, struct sl_worker *worker,
			       const struct sl_trunk_store *store)
{
	struct sl_group_list *gs = calloc(1, sizeof *gs);

	if (!gs)
		return SL_ERR_NOMEM;
	*gs = (struct sl_group_list){.loop = loop, .worker = worker, .store = *store, .seat = &sl_group_seat_kind};
	gs->store.owner = NULL;
	*out = gs;
	return SL_OK;
}

void sl_group_list_close(struct sl_group_list *gs)
{
	while (gs && gs->first)
		sl_group_drop(gs->first);
	if (gs && gs->timer)
		sl_timer_close(gs->timer);
	free(gs ? gs->done : NULL);
	free(gs ? gs->heard_of : NULL);
	free(gs);
}
