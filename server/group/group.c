#include "server/group/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group/group_check.h"
#include "server/group/group_parties.h"

enum { KEEP_AGAIN_MS = 1000 };

/* ---- jobs */

void sl_group_release(struct sl_group *g)
{
	if (--g->refs == 0)
		sl_group_drop(g);
}

static void job_done(struct sl_job *job);

static void post(struct sl_group *g, enum sl_group_job what, int which)
{
	sl_assert_int(g->what, ==, GROUP_IDLE); /* the worker has this job once at most */
	g->what = what;
	g->which = which;
	g->job = (struct sl_job){.run = sl_group_run, .done = job_done, .share = &g->share, .key = g->key};
	g->refs++; /* the job may outlive the sessions that it is for */
	sl_worker_post(g->groups->worker, &g->job);
}

void sl_group_end_member(struct sl_group_member *p, const struct sl_fail *why)
{
	if (p->m)
		sl_middle_end(p->m, why);
}

/* All that went back have come again, or had enough time to: drops the group's reference of go_back. */
static void come_again(struct sl_group *g)
{
	if (!g->back_ms)
		return;
	g->back_ms = 0;
	sl_group_release(g);
}

/* Welcomes member k, and tells it where it goes on from. */
static void welcome(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const struct sl_group_seat *seat = &g->seat[k];
	const uint64_t begin = g->trunk.r.seat[k].number;

	sl_group_check_welcome(g, k, g->held, begin);
	come_again(g); /* does not free the group: the job under way has a reference */
	p->got = g->gift == GIFT_WHOLE ? g->gift_from : FROM_NOBODY;
	p->role = p->m->agreement.agreed.share.role;
	p->sends = p->m->agreement.agreed.share.sends;
	sl_trunk_welcome(&g->t, k, begin);
	sl_group_clock_welcomed(g, k);
	if (g->agreed.share.mode == SL_SHARE_ROUNDS) /* in serial they are known before step 0 */
		g->turns.count[k] = (uint64_t)p->m->agreement.agreed.share.turns;
	sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
	if (p->m)
		sl_port_event(p->m->port,
			      &(struct sl_event){.kind = SL_EV_JOINED,
						 .next_step = g->held,
						 .first_step = begin,
						 .ends = g->gift == GIFT_WHOLE,
						 .made = seat->made,
						 .branch = g->branch,
						 .common = sl_trunk_needs_all(&g->t) && begin == g->trunk.from,
						 .need_weights = g->need_weights});
	sl_group_tell_record(g, k);
}

/* All members are to come again: until then the group lives without sessions. */
void sl_group_stay_for_a_while(struct sl_group *g)
{
	g->refs += !g->back_ms;
	g->back_ms = sl_loop_now_ms(g->groups->loop);
}

/* Ends the sessions of all members except `other`; -1: of all. Those of other ranks go back, too. */
static void end_all(struct sl_group *g, int other, const struct sl_fail *why)
{
	sl_group_tell_back(g, why);
	sl_trunk_gathers(&g->t);
	for (int i = 0; i < g->n; i++)
		if (i != other)
			sl_group_end_member(&g->member[i], why);
}

/* All go back because of member k, and come again. `so`: what became of it, for them; `how`: for the log. */
void sl_group_end_others(struct sl_group *g, int k, const char *so, const char *how, uint64_t step)
{
	struct sl_fail why;

	(void)!sl_fail_set(&why, SL_ERR_BUSY, "member %d of group %s %s: come again", k, g->name, so);
	sl_log_limited(SL_LOG_INFO, "group-back", "group %s: member %d %s step %" PRIu64, g->name, k, how, step);
	sl_group_stay_for_a_while(g);
	end_all(g, k, &why);
}

static void go_back(struct sl_group *g, int k)
{
	sl_group_end_others(g, k, "goes on from an earlier step, so all members go back", "came back behind",
			    g->t.step);
}

void sl_group_go_back(struct sl_group *g, const struct sl_fail *why)
{
	sl_log_limited(SL_LOG_INFO, "group-back", "group %s: %s", g->name, why->text);
	end_all(g, -1, why);
}

void sl_group_go_on(struct sl_group *g)
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
	sl_group_advance(g);
}

/* All members of all ranks are done. One that comes now begins with another group. */
static void over(struct sl_group *g)
{
	struct sl_fail why;

	(void)!sl_fail_set(&why, SL_ERR_BUSY, "group %s was just over: come again", g->name);
	for (int k = g->first; k < g->end; k++)
		sl_group_end_member(&g->member[k], &why);
	g->t.open = false;
	g->refs -= g->t.staying; /* does not free the group: the job under way has a reference */
	g->t.staying = false;
}

/* The trunk trains from the chosen step on. Members that are here come one by one (COME). */
static void opens(struct sl_group *g)
{
	int here = 0;

	for (int k = 0; k < g->n; k++) {
		struct sl_seat *s = &g->t.seat[k];

		here += s->link == SL_LINK_JOINING;
		s->state = g->trunk.r.seat[k].state;
		s->ends_at = g->trunk.r.seat[k].ends_at;
		s->number = g->trunk.r.seat[k].number;
		s->missed = sl_group_log_missed(&g->log, k);
	}
	g->run = g->trunk.keep.run;
	sl_trunk_opens(&g->t, g->trunk.r.done);
	g->t.stored = g->trunk.r.complete;
	g->t.gone_at = g->t.step ? g->t.gone_at : 0;
	g->pass.on = false;
	g->due = 0;
	g->giver = -1;
	for (int k = 0; k < g->n; k++) {
		g->member[k].answer = ANSWER_NONE;
		g->member[k].shuns = FROM_NOBODY;
		g->member[k].reported = 0;
	}
	sl_log_limited(SL_LOG_INFO, "group-open", "group %s: %d members go on from step %" PRIu64, g->name, here,
		       g->t.step);
}

/* The checkpoint that was chosen has the turns of members that are not here. Before the first step none has: then those
 * count that a member has told which was lost meanwhile. */
static bool knows_turns(struct sl_group *g, struct sl_fail *why)
{
	for (int k = 0; k < g->n; k++) {
		const struct sl_middle *m = g->member[k].m;

		if (g->seat[k].turns && (!m || sl_group_is_strangers(g, k, m)))
			g->turns.count[k] = g->seat[k].turns;
	}
	return sl_group_turns_fit(g, why);
}

static void chosen(struct sl_group *g)
{
	struct sl_fail why;

	for (int k = 0; k < g->n && g->undone && g->anew; k++)
		g->t.seat[k].state = g->trunk.r.seat[k].state = SL_SEAT_NEVER;
	if (g->undone)
		return; /* a session ended meanwhile: its member is awaited */
	if (g->odd >= 0) {
		sl_group_end_member(&g->member[g->odd], &g->fail);
	} else if (g->err) {
		end_all(g, -1, &g->fail);
	} else if (!g->groups->ranks && !knows_turns(g, &why)) {
		end_all(g, -1, &why);
	} else {
		opens(g);
		come_again(g); /* does not free the group: the job under way has a reference */
		stay(g);
	}
}

static void rejoined(struct sl_group *g)
{
	struct sl_group_member *p = &g->member[g->which];
	const bool back = !g->err && g->came == SL_COME_BACK;

	if (g->gift == GIFT_WRONG)
		g->member[g->giver].answer = ANSWER_WRONG;
	/* it has lost its link, or the whole group has, and it came again before this job was done */
	if (!p->m || !g->t.open ||
	    (g->t.seat[g->which].link != SL_LINK_JOINING && g->t.seat[g->which].link != SL_LINK_GIVEN))
		return;
	if (!g->err && g->came == SL_COME_LATER) {
		sl_trunk_needs_ends(&g->t, g->which);
		g->giver = g->due ? g->giver : -1;
		return;
	}
	if (back)
		go_back(g, g->which);
	else if (g->err)
		sl_group_end_member(p, &g->fail);
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
		sl_group_end_member(p, &g->fail);
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
	seat->missed += g->round;
	seat->prepared = seat->prepared && seat->skip; /* otherwise it has to Commit again, with skip */
	if (p->m && sl_session_abandons(sl_port_session(p->m->port)))
		sl_port_event(p->m->port, &found);
	if (p->m && g->t.seat[k].link == SL_LINK_OPEN)
		sl_port_event(p->m->port, &(struct sl_event){.kind = SL_EV_LATE, .next_step = g->t.step});
}

static void took_part(struct sl_group *g, int k)
{
	sl_group_note_part(g, k);
	decided(g, k);
}

static void applied(struct sl_group *g)
{
	if (g->undone)
		return;
	if (g->err) {
		end_all(g, -1, &g->fail);
		return;
	}
	sl_group_check_applied(g);
	g->t.step = g->trunk.r.done;
	g->pass.on = false;
	if (sl_group_gives(g) && g->trunk.checkpointed && !g->due) {
		g->due = g->t.step;
		g->giver = -1;
	}
	g->t.stored = g->trunk.r.complete;
	if (g->trunk.checkpointed)
		sl_group_tell_record(g, -1);
	for (int k = g->first; k < g->end; k++) {
		const bool part = g->trunk.r.seat[k].number == g->t.step;

		sl_group_clock_stepped(g, k);
		if (g->fold.part[k].left_out)
			tell_spoiled(g, k);
		else if (part)
			took_part(g, k);
		else
			sl_group_note_late(g, k);
	}
	if (g->trunk.checkpointed && g->t.open)
		sl_group_check_missed(g);
}

/* A member has done a step inside its round. */
static void stepped(struct sl_group *g)
{
	if (g->undone)
		return;
	if (g->err)
		end_all(g, -1, &g->fail);
	else
		decided(g, g->which);
}

/* Head and tail of a checkpoint are stored, or were not. */
static void stored(struct sl_group *g)
{
	if (g->gift == GIFT_WRONG)
		g->member[g->giver].answer = ANSWER_WRONG;
	if (g->gift != GIFT_WRONG || g->due != g->t.step)
		g->due = 0;
	g->t.stored = g->trunk.r.complete;
}

/* A checkpoint of the last state was tried again. */
static void kept(struct sl_group *g)
{
	g->t.stored = g->trunk.r.complete;
	if (!sl_group_gives(g) || !g->trunk.checkpointed)
		return;
	g->due = g->t.step;
	g->giver = -1;
}

static void job_done(struct sl_job *job)
{
	struct sl_group *g = (struct sl_group *)(void *)((char *)job - offsetof(struct sl_group, job));

	g->shown = g->trunk.kept;
	if (g->what == GROUP_CHOOSE || g->what == GROUP_REJOIN)
		sl_group_hear_owners(g);
	if (g->what == GROUP_CHOOSE)
		chosen(g);
	else if (g->what == GROUP_REJOIN)
		rejoined(g);
	else if (g->what == GROUP_STEP)
		stepped(g);
	else if (g->what == GROUP_APPLY)
		applied(g);
	else if (g->what == GROUP_LET_GO)
		sl_group_gone(g);
	else if (g->what == GROUP_STORE)
		stored(g);
	else if (g->what == GROUP_KEEP)
		kept(g);
	else if (g->what == GROUP_OVER)
		over(g);
	else
		decided(g, g->which);
	g->what = GROUP_IDLE; /* not before: telling members may end their sessions, which calls sl_group_advance() */
	sl_group_carried_out(g);
	sl_group_advance(g);
	sl_group_release(g);
}

/* ---- what is next */

static double lr_of(const struct sl_group *g, int k)
{
	if (!sl_seat_is_ready(&g->t, k) || g->t.seat[k].skip)
		return SL_GROUP_NO_LR;
	return sl_group_is_own(g, k) ? sl_port_session(g->member[k].m->port)->lr : g->groups->heard_of[k].lr;
}

/* False: a member with another rate was ended, or another rank will end it. */
static bool agree_on_lr(struct sl_group *g)
{
	double lr[SL_CONF_SHARE_CLIENTS];
	struct sl_group_lr vote;
	struct sl_fail why;
	bool unheard = false;

	for (int k = 0; k < g->n; k++) {
		lr[k] = lr_of(g, k);
		unheard = unheard || (g->t.seat[k].state == SL_SEAT_IN && !sl_seat_is_ready(&g->t, k));
	}
	if (g->t.led && unheard)
		return true;
	vote = sl_group_vote(lr, g->n);
	g->lr = vote.lr;
	if (vote.alike)
		return true;
	sl_group_say_lr(g, &vote);
	for (int k = 0; k < g->n && vote.most; k++)
		if (lr[k] != SL_GROUP_NO_LR && lr[k] != g->lr && sl_group_other_lr(g, lr[k], &why))
			sl_group_end_member(&g->member[k], &why);
	return !vote.most;
}

static void begin_apply(struct sl_group *g)
{
	g->checkpoint = false;
	for (int k = 0; k < g->n; k++) {
		const bool ready = sl_seat_is_ready(&g->t, k) && sl_group_is_own(g, k);
		const struct sl_session *s = ready ? sl_port_session(g->member[k].m->port) : NULL;

		g->part[k] = (struct sl_group_part){.m = s ? g->member[k].m : NULL,
						    .rows = s && !g->t.seat[k].skip ? s->batch_rows : 0,
						    .counts = s ? sl_session_counts(s) : 0,
						    .lost = !sl_trunk_needs_all(&g->t) && !g->member[k].m};
		g->checkpoint = g->checkpoint || (s && s->keep == SL_KEEP_ASKED);
	}
	sl_group_announce(g, SL_TRUNK_APPLY);
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

/* Posts a job with the members that have sent their head and tail, or a hash of these, in `part`. */
static void post_with_answers(struct sl_group *g, enum sl_group_job what, int who)
{
	for (int k = 0; k < g->n; k++)
		g->part[k].m = g->member[k].answer == ANSWER_THERE ? g->member[k].m : NULL;
	g->shunned = g->member[who].shuns;
	post(g, what, who);
}

/* Nobody is here any more who has head and tail: those that come go on from the newest complete checkpoint. */
static void gather_again(struct sl_group *g)
{
	struct sl_fail why;

	sl_group_stay_for_a_while(g);
	sl_log(SL_LOG_WARN, "group-back",
	       "group %s: nobody has the head and tail of step %" PRIu64 " any more: it goes back "
	       "to its newest complete checkpoint",
	       g->name, g->t.step);
	(void)!sl_fail_set(&why, SL_ERR_BUSY, "group %s goes back to its newest checkpoint: come again", g->name);
	end_all(g, -1, &why);
}

/* Members have their last weights, and wait until the state behind their last step is stored. */
static bool must_keep(struct sl_group *g)
{
	const uint64_t now_ms = sl_loop_now_ms(g->groups->loop);
	bool waits = false;

	for (int k = g->first; k < g->end && g->t.open && g->t.keeps && !g->due; k++)
		waits = waits || (g->t.seat[k].asks && g->t.seat[k].given && g->t.stored < g->t.seat[k].number);
	if (!waits || now_ms - g->tried_ms < KEEP_AGAIN_MS)
		return false;
	g->tried_ms = now_ms;
	return true;
}

static void choose(struct sl_group *g)
{
	if (g->t.open) /* it is to begin anew */
		sl_trunk_gathers(&g->t);
	for (int k = 0; k < g->n; k++)
		g->part[k] = (struct sl_group_part){.m = g->member[k].m};
	sl_group_announce(g, SL_TRUNK_CHOOSE);
	post(g, GROUP_CHOOSE, 0);
}

void sl_group_advance(struct sl_group *g)
{
	enum sl_trunk_act act;
	bool stores;
	int k;

	sl_group_go_on(g);
	if (g->what != GROUP_IDLE)
		return;
	sl_group_check_idle(g);
	sl_group_take_off(g);
	sl_group_say_short(g);
	stores = g->what == GROUP_IDLE && sl_group_ask_ends(g);
	if (g->what != GROUP_IDLE) /* a member was told or stores, and lost its link by that: the group has gone on */
		return;
	if (stores) {
		post_with_answers(g, GROUP_STORE, 0);
		return;
	}
	if (must_keep(g)) {
		post(g, GROUP_KEEP, 0);
		return;
	}
	while ((act = sl_group_next(g, &k)) == SL_TRUNK_BEHIND) {
		tell_behind(g, k);
		if (g->what != GROUP_IDLE)
			return;
	}
	if (act == SL_TRUNK_APPLY && !agree_on_lr(g))
		act = SL_TRUNK_WAIT;
	if (g->what != GROUP_IDLE) /* one whose member was ended has gone on */
		return;
	act = sl_group_joint(g, act);
	if (act == SL_TRUNK_CHOOSE)
		choose(g);
	else if (act == SL_TRUNK_BACK)
		gather_again(g);
	else if (act == SL_TRUNK_COME)
		post_with_answers(g, GROUP_REJOIN, k);
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
	else if (act == SL_TRUNK_OVER) {
		sl_group_announce(g, act);
		post(g, GROUP_OVER, 0);
	}
	sl_group_tell_seats(g);
}

void sl_group_list_tick(struct sl_group_list *gs)
{
	struct sl_fail why;

	for (struct sl_group *g = gs->first, *next; g; g = next) {
		next = g->next;
		if (g->back_ms && sl_loop_now_ms(gs->loop) - g->back_ms > SL_GROUP_COME_AGAIN_MS) {
			come_again(g);
			continue;
		}
		if (g->what == GROUP_IDLE && sl_group_gives_up(g, &why))
			end_all(g, -1, &why);
		else if (g->what == GROUP_IDLE)
			sl_group_advance(g);
	}
}
