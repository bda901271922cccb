#include "server/group/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group/group_parties.h"

/* ---- jobs */

static void release(struct sl_group *g)
{
	if (--g->refs == 0)
		sl_group_drop(g);
}

static void advance(struct sl_group *g);
static void job_done(struct sl_job *job);

static void post(struct sl_group *g, enum sl_group_job what, int which)
{
	g->what = what;
	g->which = which;
	g->job = (struct sl_job){.run = sl_group_run, .done = job_done, .share = &g->share, .key = g->key};
	g->refs++; /* the job may outlive the sessions that it is for */
	sl_worker_post(g->groups->worker, &g->job);
}

static void end_member(struct sl_group_member *p, const struct sl_fail *why)
{
	if (p->m)
		sl_middle_end(p->m, why);
}

/* Welcomes member k, and tells it where it goes on from. */
static void welcome(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const struct sl_group_seat *seat = &g->seat[k];
	const bool comes = g->what == GROUP_REJOIN, with_ends = comes && g->gift == GIFT_WHOLE;
	const uint64_t number = g->trunk.r.seat[k].number,
		       begin = sl_group_varies(g) ? sl_group_comes_in(g, k, with_ends) : number;

	if (!sl_group_varies(g))
		sl_trunk_welcome(&g->t, k, begin, false);
	if (g->agreed.share.mode == SL_SHARE_ROUNDS) /* of a newcomer; in serial they are known before step 0 */
		g->turns.count[k] = (uint64_t)p->m->agreement.agreed.share.turns;
	sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
	if (p->m)
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_JOINED,
							     .next_step = with_ends ? g->held : number,
							     .first_step = begin,
							     .ends = with_ends,
							     .made = seat->made,
							     .branch = g->branch,
							     .common = g->what == GROUP_CHOOSE && g->common,
							     .need_weights = g->need_weights});
}

/* All members are to come again: until then the group lives without sessions. */
static void stay_for_a_while(struct sl_group *g)
{
	g->refs += !g->back_ms;
	g->back_ms = sl_loop_now_ms(g->groups->loop);
}

/* Ends the sessions of all members except `other`; -1: of all. */
static void end_all(struct sl_group *g, int other, const struct sl_fail *why)
{
	sl_trunk_gathers(&g->t);
	for (int i = 0; i < g->n; i++)
		if (i != other)
			end_member(&g->member[i], why);
}

/* All go back because of member k, and come again. `so`: what became of it, for them; `how`: for the log. */
static void end_others(struct sl_group *g, int k, const char *so, const char *how, uint64_t step)
{
	struct sl_fail why;

	(void)!sl_fail_set(&why, SL_ERR_BUSY, "member %d of group %s %s: come again", k, g->name, so);
	sl_log_limited(SL_LOG_INFO, "group-back", "group %s: member %d %s step %" PRIu64, g->name, k, how, step);
	stay_for_a_while(g);
	end_all(g, k, &why);
}

static void go_back(struct sl_group *g, int k)
{
	end_others(g, k, "goes on from an earlier step, so all members go back", "came back behind", g->t.step);
}

/* All that went back have come again, or had enough time to: drops the group's reference of go_back. */
static void come_again(struct sl_group *g)
{
	if (!g->back_ms)
		return;
	g->back_ms = 0;
	release(g);
}

static void go_on(struct sl_group *g)
{
	struct sl_fail why;

	if (g->t.whole && g->t.open && sl_parties_go_on(g, &why))
		end_all(g, -1, &why);
}

/* With other ranks the group outlives its members' links, since it must stay at the same step as theirs. */
static void stay(struct sl_group *g)
{
	if (!g->groups->ranks || g->t.staying)
		return;
	g->t.staying = true;
	g->refs++;
}

void sl_group_attend(struct sl_group *g)
{
	stay(g);
	sl_group_hear_in(g);
	advance(g);
}

static void chosen(struct sl_group *g)
{
	if (g->came_of == MET_VOID)
		return; /* a session ended meanwhile: its member is awaited */
	if (g->stranger >= 0) {
		end_member(&g->member[g->stranger], &g->fail);
	} else if (g->err) {
		end_all(g, -1, &g->fail);
	} else {
		sl_trunk_opens(&g->t, g->trunk.r.done);
		g->pass.on = false;
		come_again(g); /* does not free the group: the job under way has a reference */
		stay(g);
		sl_log_limited(SL_LOG_INFO, "group-open", "group %s: %d members go on from step %" PRIu64, g->name,
			       sl_group_varies(g) ? sl_group_begun(g) : g->n, g->t.step);
		for (int k = 0; k < g->n && g->t.open; k++)
			if (g->member[k].m && g->t.seat[k].link == SL_LINK_JOINING &&
			    (!sl_group_varies(g) ||
			     g->part[k].m == g->member[k].m)) /* otherwise it came after the job was posted */
				welcome(g, k);
	}
}

static void rejoined(struct sl_group *g)
{
	struct sl_group_member *p = &g->member[g->which];
	const bool back = !g->err && (g->came == SL_COME_BACK || g->came == SL_COME_LONGER);

	for (int k = 0; k < g->n && g->came == SL_COME_LONGER; k++)
		if (g->trunk.r.seat[k].state == SL_SEAT_IN && g->t.seat[k].state == SL_SEAT_DONE)
			g->t.seat[k].state = SL_SEAT_IN;
	if (g->gift == GIFT_WRONG)
		g->member[g->giver].answer = ANSWER_WRONG;
	if (!p->m || (g->t.seat[g->which].link != SL_LINK_JOINING && g->t.seat[g->which].link != SL_LINK_GIVEN))
		return;
	if (!g->err && g->came == SL_COME_LATER) {
		sl_trunk_needs_ends(&g->t, g->which);
		g->giver = -1;
		return;
	}
	if (back && g->groups->ranks)
		g->back_of = g->which; /* all ranks decide about it */
	else if (back)
		go_back(g, g->which);
	else if (g->err)
		end_member(p, &g->fail);
	else
		welcome(g, g->which);
}

static void decided(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const bool now = g->what == GROUP_APPLY;
	struct sl_event ev = {.kind = SL_EV_DECIDED,
			      .checkpointed = g->trunk.checkpointed && now,
			      .lr = now ? g->lr : SL_GROUP_NO_LR};

	g->t.seat[k].prepared = g->t.seat[k].skip = false;
	g->t.seat[k].number = g->trunk.r.seat[k].number;
	if (g->err && g->what == GROUP_CATCH_UP)
		end_member(p, &g->fail);
	if (!p->m || sl_port_session(p->m->port)->state != SL_SESSION_COMMIT)
		return;
	ev.compute_s = sl_middle_decided(p->m);
	ev.mean = sl_group_ends_has(g, sl_port_session(p->m->port)->number);
	sl_port_event(p->m->port, &ev);
}

/* Member k's part would have spoiled the step, which was done without it: tells the member, which then skips it. */
static void tell_spoiled(struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];
	struct sl_seat *seat = &g->t.seat[k];
	const struct sl_fail why = g->fold.part[k].why;
	const struct sl_event found = {.kind = SL_EV_NONFINITE, .task = SL_TASK_PREPARE, .why = &why};

	sl_log_limited(SL_LOG_WARN, "group-spoiled", "group %s: step %" PRIu64 " was done without member %d: %s",
		       g->name, g->t.step, k, why.text);
	seat->prepared = seat->prepared && seat->skip; /* otherwise it has to Commit again, with skip */
	if (p->m && sl_session_abandons(sl_port_session(p->m->port)))
		sl_port_event(p->m->port, &found);
	if (p->m && g->t.seat[k].link == SL_LINK_OPEN)
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
}

/* Carries out what the ranks' meeting decided. False: no step was done. */
static bool met(struct sl_group *g)
{
	if (g->what == GROUP_MEET)
		g->back_of = -1;
	if (g->came_of == MET_VOID)
		return false;
	if (g->err) {
		end_all(g, -1, &g->fail);
		return false;
	}
	if (g->came_of == MET_BACK)
		go_back(g, g->back_with);
	if (g->came_of == MET_OVER) {
		g->t.open = g->t.staying = false;
		g->refs--; /* does not free the group: the job under way has a reference */
	}
	return g->came_of == MET_GO;
}

static void applied(struct sl_group *g)
{
	uint64_t was;

	if (!met(g))
		return;
	was = g->t.step;
	g->t.step = g->trunk.r.done;
	g->half_ms = 0;
	g->pass.on = false;
	for (int k = g->first; k < g->end; k++) {
		struct sl_group_member *p = &g->member[k];

		if (g->fold.part[k].left_out) {
			tell_spoiled(g, k);
		} else if (g->trunk.r.seat[k].number == g->t.step) {
			sl_trunk_in_time(&g->t, k);
			decided(g, k);
		} else if (g->t.seat[k].number >= was || g->t.seat[k].state == SL_SEAT_IN) { /* IN: even if behind */
			sl_group_note_late(g, k);
		} else if (p->m && g->t.seat[k].link == SL_LINK_OPEN) {
			sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
		}
	}
}

/* A member has done a step inside its round. */
static void stepped(struct sl_group *g)
{
	if (g->came_of == MET_VOID)
		return;
	if (g->err)
		end_all(g, -1, &g->fail);
	else
		decided(g, g->which);
}

static void job_done(struct sl_job *job)
{
	struct sl_group *g = (struct sl_group *)(void *)((char *)job - offsetof(struct sl_group, job));

	g->shown = g->trunk.kept;
	if (g->what == GROUP_CHOOSE)
		chosen(g);
	else if (g->what == GROUP_REJOIN)
		rejoined(g);
	else if (g->what == GROUP_STEP)
		stepped(g);
	else if (g->what == GROUP_APPLY)
		applied(g);
	else if (g->what == GROUP_MEET)
		(void)met(g);
	else if (g->what == GROUP_LET_GO)
		sl_group_gone(g);
	else
		decided(g, g->which);
	g->what = GROUP_IDLE; /* not before: telling members may end their sessions, which calls advance() */
	advance(g);
	release(g);
}

/* ---- what is next */

static double lr_of(const struct sl_group *g, int k)
{
	return sl_seat_is_ready(&g->t, k) && !g->t.seat[k].skip ? sl_port_session(g->member[k].m->port)->lr
								: SL_GROUP_NO_LR;
}

/* False: a member with another rate was ended. With other ranks all find out together (group_ranks.c). */
static bool agree_on_lr(struct sl_group *g)
{
	double lr[SL_CONF_SHARE_CLIENTS];
	struct sl_group_lr vote;
	struct sl_fail why;

	for (int k = 0; k < g->n; k++)
		lr[k] = lr_of(g, k);
	vote = sl_group_vote(lr, g->n);
	g->lr = vote.lr;
	if (g->groups->ranks || vote.alike)
		return true;
	sl_group_say_lr(g, &vote);
	for (int k = 0; k < g->n && vote.most; k++)
		if (lr[k] != SL_GROUP_NO_LR && lr[k] != g->lr && sl_group_other_lr(g, lr[k], &why))
			end_member(&g->member[k], &why);
	return !vote.most;
}

static void begin_apply(struct sl_group *g)
{
	if (!agree_on_lr(g))
		return;
	g->checkpoint = false;
	for (int k = 0; k < g->n; k++) {
		const struct sl_session *s = sl_seat_is_ready(&g->t, k) ? sl_port_session(g->member[k].m->port) : NULL;

		g->part[k] = (struct sl_group_part){.m = s ? g->member[k].m : NULL,
						    .rows = s && !g->t.seat[k].skip ? s->batch_rows : 0,
						    .counts = s ? sl_session_counts(s) : 0,
						    .lost = sl_group_varies(g) && !g->member[k].m &&
							    sl_seat_is_in(g->t.seat[k].state)};
		g->checkpoint = g->checkpoint || (s && s->keep == SL_KEEP_ASKED);
	}
	sl_group_tell(g->groups);
	post(g, GROUP_APPLY, 0);
}

/* Tells the member that its step was done without it. */
static void tell_behind(struct sl_group *g, int k)
{
	g->t.seat[k].prepared = false;
	sl_port_event(g->member[k].m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
}

/* A member whose step does not end its round waits for nobody. */
static void step_alone(struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];
	const struct sl_session *s = sl_port_session(p->m->port);

	g->part[k] = (struct sl_group_part){
		.m = p->m, .rows = g->t.seat[k].skip ? 0 : s->batch_rows, .counts = sl_session_counts(s)};
	g->lr = s->lr;
	post(g, GROUP_STEP, k);
}

/* Posts REJOIN, with the members that have sent their head and tail, or a hash of these, in `part`. */
static void begin_rejoin(struct sl_group *g, int who)
{
	for (int k = 0; k < g->n; k++)
		g->part[k].m = g->member[k].answer == ANSWER_THERE ? g->member[k].m : NULL;
	post(g, GROUP_REJOIN, who);
}

static void choose(struct sl_group *g)
{
	struct sl_fail why;

	for (int k = 0; k < g->n; k++)
		g->part[k] = (struct sl_group_part){.m = g->member[k].m};
	if (g->groups->ranks || sl_group_turns_fit(g, &why))
		post(g, GROUP_CHOOSE, 0);
	else
		end_all(g, -1, &why);
}

/* Lets the ranks meet if a member of this rank has to go back, or another rank calls. */
static void meet_if_called(struct sl_group *g)
{
	if (g->back_of < 0 && !sl_group_is_called(g))
		return;
	sl_group_tell(g->groups);
	post(g, GROUP_MEET, g->back_of);
}

static void advance(struct sl_group *g)
{
	enum sl_trunk_act act;
	int k;

	go_on(g);
	if (g->what == GROUP_IDLE && g->t.open)
		meet_if_called(g);
	if (g->what != GROUP_IDLE)
		return;
	sl_group_say_short(g);
	sl_group_ask_ends(g);
	while ((act = sl_group_next(g, &k)) == SL_TRUNK_BEHIND) {
		tell_behind(g, k);
		if (g->what != GROUP_IDLE)
			return;
	}
	if (act == SL_TRUNK_CHOOSE)
		choose(g);
	else if (act == SL_TRUNK_COME)
		begin_rejoin(g, k);
	else if (act == SL_TRUNK_CATCH_UP) {
		g->behind = g->t.seat[k].number;
		post(g, GROUP_CATCH_UP, k);
	} else if (act == SL_TRUNK_STEP)
		step_alone(g, k);
	else if (act == SL_TRUNK_LET_GO) {
		sl_group_leaving(g);
		post(g, GROUP_LET_GO, 0);
	} else if (act == SL_TRUNK_APPLY)
		begin_apply(g);
	sl_group_tell(g->groups);
}

/* Ends those members, after they have waited for others in vain. */
static void give_up(struct sl_group *g, const bool who[], const struct sl_fail *why)
{
	sl_trunk_gathers(&g->t);
	for (int k = g->first; k < g->end; k++)
		if (who[k])
			end_member(&g->member[k], why);
}

void sl_group_list_tick(struct sl_group_list *gs)
{
	bool who[SL_CONF_SHARE_CLIENTS];
	struct sl_fail why;

	if (gs->ranks)
		(void)gs->ranks->hear(gs->ranks, gs->word, sizeof *gs->word);
	sl_group_hear_intro(gs);
	if (!gs->first)
		sl_group_tell(gs);
	for (struct sl_group *g = gs->first, *next; g; g = next) {
		next = g->next;
		if (g->back_ms && sl_loop_now_ms(gs->loop) - g->back_ms > SL_GROUP_COME_AGAIN_MS) {
			come_again(g);
			continue;
		}
		if (g->what == GROUP_IDLE && sl_group_gives_up(g, who, &why))
			give_up(g, who, &why);
		else if ((g->t.open || sl_group_varies(g)) && g->what == GROUP_IDLE)
			advance(g);
	}
}

/* ---- members */

static void joining(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	struct sl_group_member *p = &g->member[sl_group_seat_of(m)];
	struct sl_fail why;

	if (p->m && p->m != m) {
		sl_fail_set(&why, SL_ERR_PEER_LOST, "replaced by a newer link of the same member");
		end_member(p, &why);
	}
	if (g->back_of == sl_group_seat_of(m))
		g->back_of = -1;
	sl_group_hear_in(g);
	/* The seat keeps its state until the welcome: the session may turn out not to be its member. */
	p->m = m;
	p->role = m->agreement.agreed.share.role;
	p->sends = m->agreement.agreed.share.sends;
	p->answer = ANSWER_NONE;
	p->refused[0] = '\0';
	sl_trunk_joins(&g->t, sl_group_seat_of(m), &sl_port_session(m->port)->hello);
	if (!g->t.open) {
		g->turns.count[sl_group_seat_of(m)] = (uint64_t)m->agreement.agreed.share.turns;
		sl_group_say_here(g, sl_group_seat_of(m));
	}
	advance(g);
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
	if (!seat->skip && !sl_turns_own(&g->turns, k, seat->number)) {
		sl_fail_set(&why, SL_ERR_PROTOCOL, "step %" PRIu64 " of group %s is not member %d's: it is member %d's",
			    seat->number, g->name, k, sl_turns_whose(&g->turns, seat->number));
		end_member(&g->member[k], &why);
	}
	advance(g);
}

static void asked(struct sl_middle *m)
{
	if (sl_group_hear_ask(m->group, m))
		advance(m->group);
}

static void given(struct sl_middle *m)
{
	struct sl_group *g = m->group;
	struct sl_group_member *p = &g->member[sl_group_seat_of(m)];

	if (p->m == m && p->answer == ANSWER_AWAITED)
		p->answer = ANSWER_THERE;
	advance(g);
}

/* Whether a group that trains has no link any more, and a member that missed steps needs the means that it has. */
static bool is_needed(const struct sl_group *g)
{
	bool gone = g->t.open && g->agreed.share.straggler_s && !sl_group_varies(g), missed = false;

	for (int k = 0; k < g->n; k++) {
		gone = gone && !g->member[k].m && g->t.seat[k].state != SL_SEAT_DONE;
		missed = missed || g->t.seat[k].state == SL_SEAT_LATE || g->t.seat[k].number < g->t.step;
	}
	return gone && missed;
}

static void moved(struct sl_middle *m)
{
	go_on(m->group);
}

static void over(struct sl_middle *m, const struct sl_fail *why)
{
	struct sl_group *g = m->group;
	const int k = sl_group_seat_of(m);
	const bool was = sl_seat_is_in(g->t.seat[k].state);

	if (why && why->code == SL_ERR_MISMATCH) /* its client will not come again: the others hear why it is missing */
		snprintf(g->member[k].refused, sizeof g->member[k].refused, "%.199s", why->text);
	g->member[k].entered--;
	if (g->member[k].m != m)
		return;
	g->member[k].m = NULL;
	g->member[k].answer = ANSWER_NONE;
	if (sl_trunk_over(&g->t, k, m->ended)) /* no step can be done without it: all begin this one again */
		end_others(g, k, "was lost", "was lost in", g->t.step + 1);
	if (is_needed(g))
		stay_for_a_while(g);
	if (sl_group_varies(g) && was && !sl_seat_is_in(g->t.seat[k].state))
		sl_group_say_gone(g, k, m->ended == SL_SEAT_LEFT ? "its run is done" : "it was stopped");
	if (g->back_of == k)
		g->back_of = -1;
	advance(g);
}

static void leave(struct sl_middle *m)
{
	release(m->group);
	m->group = NULL;
}

/* (worker) In a vertical group all parties compute with the trunk's. */
static struct sl_exec *executor(const struct sl_middle *m)
{
	return m->trunk.plan->spec.party ? m->group->trunk.exec : m->trunk.exec;
}

static const struct sl_seat_kind member = {
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
	*gs = (struct sl_group_list){.loop = loop, .worker = worker, .store = *store, .seat = &member};
	gs->store.owner = NULL;
	*out = gs;
	return SL_OK;
}
