/* The job CHOOSE: the step from which all members go on. On the worker. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/group/group_work.h"

/* ---- taking up a state */

void sl_group_forget_codecs(struct sl_group *g, int k)
{
	struct sl_group_seat *seat = &g->seat[k];

	seat->kept = false;
	for (int dir = 0; dir < SL_DIR_COUNT && seat->m; dir++)
		sl_codec_forget(sl_port_codecs(seat->m->port)[dir]);
	if (seat->m && seat->m->ends.coder)
		sl_end_coder_forget(seat->m->ends.coder);
}

static enum sl_err first_weights(struct sl_group *g, struct sl_fail *fail)
{
	const int first = sl_group_first_here(g);
	const struct sl_hello *h = sl_group_hello(g, first);
	struct sl_key owner;
	const struct sl_trunk_store store = sl_group_weights_store(g, g->seat[first].m, &owner);
	enum sl_err err;

	for (int k = first + 1; k < g->end; k++)
		if (g->seat[k].m &&
		    memcmp(sl_group_hello(g, k)->weights_hash, h->weights_hash, sizeof h->weights_hash) != 0)
			return sl_fail_at(fail, "model.weights", SL_ERR_MISMATCH,
					  "members %d and %d of group %s begin with different weights of the middle",
					  first, k, g->name);
	for (int k = 0; k < g->n; k++) {
		struct sl_group_seat *seat = &g->seat[k];

		sl_record_forget(&g->trunk.r.seat[k]);
		seat->made = 0;
		seat->fresh = false;
		memset(seat->session, 0, sizeof seat->session);
		sl_group_forget_codecs(g, k);
	}
	memcpy(g->weights_hash, h->weights_hash, sizeof g->weights_hash);
	memset(g->trunk.r.asked, 0, sizeof g->trunk.r.asked);
	sl_exec_set_applied(g->trunk.exec, 0);
	err = sl_trunk_first_weights(g->trunk.exec, g->trunk.plan, &store, h, g->seat[first].m->port, &g->need_weights);
	g->has_weights = !g->need_weights;
	return err;
}

/* A new run begins with moments of 0. */
static enum sl_err clear_moments(struct sl_group *g)
{
	const struct sl_plan_segment *s = &g->trunk.plan->segment[SL_MIDDLE];
	float *zero = s->moments ? calloc((size_t)s->trainable_count + 1, sizeof *zero) : NULL;
	enum sl_err err = s->moments && !zero ? SL_ERR_NOMEM : SL_OK;

	for (int i = 0; i < s->moments && !err; i++)
		err = sl_exec_set_moment(g->trunk.exec, i, zero);
	free(zero);
	return err;
}

/* held: as members hold it, so each that is here must have made it. */
static enum sl_err take(struct sl_group *g, uint64_t step, bool held, struct sl_fail *fail)
{
	enum sl_err err = sl_exec_set_done(g->trunk.exec, step);

	if (!err && step)
		err = sl_group_read(g, step, fail);
	else if (!err)
		err = clear_moments(g);
	for (int k = g->first; k < g->end && !err && step && held; k++)
		if (g->seat[k].m && sl_group_is_foreign(g, k))
			err = SL_ERR_NOINPUT;
	if (!err && !step && !sl_group_has_sessions(g))
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "nobody is here who knows the first weights");
	else if (!err && !step)
		err = first_weights(g, fail);
	return sl_group_all_took(g, step, err, fail);
}

static enum sl_err take_held(void *arg, uint64_t step, struct sl_fail *fail)
{
	return take(arg, step, true, fail);
}

/* Steps of the run in the store: behind them its members were done. */
static uint64_t run_steps_of(const struct sl_group *g)
{
	uint64_t file = UINT64_MAX;

	return g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &file) ? file : 0;
}

static void list_stored(struct sl_group *g)
{
	const int most = (int)(sizeof g->stored / sizeof g->stored[0]);
	uint64_t file = UINT64_MAX;

	g->trunk.r.stored = g->stored;
	g->trunk.r.n_stored = 0;
	while (g->trunk.keep.dir[0] && g->trunk.r.n_stored < most &&
	       sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &file))
		g->stored[g->trunk.r.n_stored++] = file;
}

/* Sets the records by the newest file that can be read, for those that are done, and not here. */
static void read_records(struct sl_group *g)
{
	struct sl_fail why;

	for (int i = 0; i < g->trunk.r.n_stored; i++)
		if (!sl_exec_set_done(g->trunk.exec, g->stored[i]) && !sl_group_read(g, g->stored[i], &why))
			return;
}

/* Members have done the run in the store, and all that are here begin another one: they have done it, too, or have a
 * run of another length. One that has not done it otherwise gets its last state. */
static bool seem_to_begin_another(const struct sl_group *g)
{
	const uint64_t steps = run_steps_of(g);
	bool done = false;

	for (int k = 0; k < g->n; k++) {
		const struct sl_record *s = &g->trunk.r.seat[k];
		const struct sl_hello *h = g->seat[k].m ? sl_group_hello(g, k) : NULL;

		done = done || s->state == SL_SEAT_DONE;
		if (h && (!sl_group_begins_anew(g, k, h) || (s->state != SL_SEAT_DONE && h->run_steps == steps)))
			return false;
	}
	return done;
}

static bool is_another_run(struct sl_group *g)
{
	if (!seem_to_begin_another(g))
		return false;
	list_stored(g);
	read_records(g); /* whose the seats are */
	return seem_to_begin_another(g);
}

/* A member that is here holds the state before `step`, as far as the file that was read knows it: all lost their links
 * at once, and the server kept the middle. It gives head and tail to the others. */
static bool one_holds(const struct sl_group *g, uint64_t step)
{
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].m && g->trunk.r.seat[k].number == step && sl_hello_holds(sl_group_hello(g, k), step) &&
		    !sl_group_is_foreign(g, k))
			return true;
	return false;
}

/* The newest complete checkpoint below `step`, which is not complete; 0: none. */
static uint64_t complete_below(struct sl_group *g, uint64_t step)
{
	struct sl_fail why;

	while (step && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &step))
		if (!sl_group_load_ends(g, step, &why))
			return step;
	return 0;
}

/* The state before `step`, if its checkpoint is complete, or members can complete it. */
static enum sl_err take_complete(struct sl_group *g, uint64_t step, struct sl_fail *fail)
{
	const enum sl_err lacks = g->ends ? sl_group_load_ends(g, step, fail) : SL_OK;
	const struct sl_fail why = *fail;
	const enum sl_err err = lacks && lacks != SL_ERR_NOINPUT ? lacks : take(g, step, false, fail);

	if (err || !lacks || one_holds(g, step))
		return err;
	*fail = why;
	return lacks;
}

static bool all_hold(const struct sl_group *g, uint64_t step)
{
	for (int k = g->first; k < g->end; k++)
		if (g->seat[k].m && !sl_hello_holds(sl_group_hello(g, k), step))
			return false;
	return true;
}

/* Each step needs all, and a member was killed before its first file was on its disk. It has lost nothing that it had,
 * and all can still begin anew: so they do, and the kill changes no bit. */
static bool comes_before_its_first(const struct sl_group *g, uint64_t step)
{
	bool some = false;

	for (int k = g->first; k < g->end; k++)
		some = some || (g->seat[k].m && sl_record_can_begin_anew(&g->trunk.r.seat[k]) &&
				!sl_hello_holds(sl_group_hello(g, k), step));
	return some && sl_trunk_needs_all(&g->t) && all_hold(g, 0);
}

/* Takes up the newest complete checkpoint; *step 0: there is none. */
static enum sl_err take_newest(struct sl_group *g, uint64_t *step, struct sl_fail *fail)
{
	char whose[SL_CONF_SHARE_TEXT + 16];

	snprintf(whose, sizeof whose, "group %s: ", g->name);
	*step = UINT64_MAX;
	while (g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, step)) {
		enum sl_err err;

		if (comes_before_its_first(g, *step))
			continue;
		err = take_complete(g, *step, fail);
		if (!err || !sl_trunk_passes_over(err, *step, whose, fail))
			return err;
	}
	*step = 0;
	return SL_OK;
}

/* The members' checkpoints say that there was a run, and the store has nothing of it. */
static enum sl_err check_lost(const struct sl_group *g, struct sl_fail *fail)
{
	int here = 0, held = 0, who = 0;

	for (int k = 0; k < g->n; k++) {
		if (!g->seat[k].m)
			continue;
		here++;
		if (!sl_hello_holds(sl_group_hello(g, k), 0)) {
			held++;
			who = k;
		}
	}
	if (2 * held <= here)
		return SL_OK;
	return sl_fail_set(
		fail, SL_ERR_MISMATCH,
		"this server has no checkpoint of group %s, and %d of %d members have confirmed ones, member "
		"%d of step %" PRIu64 ": put the server's store back, or let all begin anew with --fresh",
		g->name, held, here, who, sl_group_hello(g, who)->held[0]);
}

/* The group begins anew, and members that had come are away: as before its first step it waits for all. */
static bool lacks_some(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (!g->seat[k].m && g->trunk.r.seat[k].state != SL_SEAT_NEVER && g->t.least > 0)
			return true;
	return false;
}

/* Whether all that are here ask to begin anew. */
static bool all_ask(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].m && !sl_group_asks_anew(g, k, g->seat[k].m))
			return false;
	return !g->groups->ranks;
}

/* One that asks alone to begin anew; -1: none. */
static int find_asking(const struct sl_group *g, struct sl_fail *fail)
{
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].m && sl_group_check_anew(g, k, fail))
			return k;
	return -1;
}

static enum sl_err choose_complete(struct sl_group *g, uint64_t *step, struct sl_fail *fail)
{
	enum sl_err err = is_another_run(g) || all_ask(g) ? SL_OK : take_newest(g, step, fail);

	if (!err && *step && (g->odd = find_asking(g, fail)) >= 0)
		return SL_ERR_MISMATCH;
	if (!err && !*step)
		err = check_lost(g, fail);
	if (!err && !*step && lacks_some(g)) {
		g->undone = g->anew = true;
		return SL_OK;
	}
	if (!err && !*step)
		err = take(g, 0, false, fail);
	SL_FAILPOINT(err ? SL_FP_NONE : SL_FP_SERVER_CHOSEN);
	return err;
}

/* ---- steps that all hold */

static void begin_branch(struct sl_group *g)
{
	uint64_t branch = 0;

	if (getrandom(&branch, sizeof branch, GRND_NONBLOCK) != (ssize_t)sizeof branch)
		branch = g->branch + 1;
	g->branch = branch >> 2 | 1; /* never 0, and not SL_MADE_UNKNOWN */
}

/* A member whose seat is another client's, while others go on; -1: none. */
static int find_stranger(const struct sl_group *g, struct sl_fail *fail)
{
	int others = 0;

	for (int k = g->first; k < g->end; k++)
		others += g->seat[k].m && !sl_hello_is_new(sl_group_hello(g, k));
	for (int k = g->first; k < g->end && others; k++)
		if (g->seat[k].m && sl_group_check_owner(g, k, fail))
			return k;
	return -1;
}

/* A bit for each of g->steps.step that members of this rank can go back to. */
static uint64_t steps_held(const struct sl_group *g)
{
	uint64_t bits = 0;

	for (int i = 0; i < g->steps.n; i++)
		if (g->steps.step[i] >= sl_records_left_at(&g->trunk.r))
			bits |= (uint64_t)1 << i;
	return bits;
}

/* Where nobody can give a member head and tail. */
static enum sl_err refuse_odd(struct sl_group *g, struct sl_fail *fail)
{
	if (g->odd < 0)
		return sl_fail_set(fail, g->steps.gone && g->trunk.keep.dir[0] ? SL_ERR_BUSY : SL_ERR_MISMATCH,
				   "group %s cannot go on: there is no checkpoint that all its members and this server "
				   "hold%s. They can begin anew with --fresh",
				   g->name, g->trunk.keep.dir[0] ? "" : ": it has no `store`");
	return sl_fail_at(fail, "share.member", SL_ERR_MISMATCH,
			  "member %d does not hold the checkpoint from which group %s goes on: --resume goes on with "
			  "its log.dir; or all members begin anew with --fresh",
			  g->odd, g->name);
}

#define READY ((uint64_t)1 << 63) /* beside the bits of steps: this rank takes part */

/* All go on from the newest step that all members hold and the store has, or from 0. NOINPUT: there is none. */
static enum sl_err choose_held(struct sl_group *g, uint64_t *step, struct sl_fail *fail)
{
	char whose[SL_CONF_SHARE_TEXT + 16], tried[SL_TRUNK_TRIED];
	const struct sl_trunk_taker taker = {take_held, g, whose};
	uint64_t held[SL_WIRE_HELD_MAX] = {0}, bits;
	enum sl_err err;
	int n = 0, i;

	snprintf(whose, sizeof whose, "group %s: ", g->name);
	list_stored(g);
	read_records(g);
	g->odd = find_stranger(g, fail);
	bits = steps_held(g);
	if (g->odd < 0 && !bits && sl_group_needs_files(g) && (g->odd = sl_records_odd(&g->trunk.r)) >= 0)
		(void)refuse_odd(g, fail);
	bits = sl_group_all_say(g, g->odd < 0 && g->agrees ? bits | READY : 0);
	if (g->odd >= 0)
		return SL_ERR_MISMATCH;
	g->undone = !bits;
	if (g->undone)
		return SL_ERR_BUSY;
	for (int b = 0; b < g->steps.n; b++)
		if (bits >> b & 1)
			held[n++] = g->steps.step[b];
	if (g->groups->ranks && !sl_group_turns_fit(g, fail)) /* now the turns of all ranks' members are known */
		return SL_ERR_MISMATCH;
	err = sl_trunk_take_newest(&taker, held, n, &i, tried, fail);
	if (err)
		return err;
	*step = held[i];
	if (*step && sl_group_gives(g))
		(void)!sl_group_load_ends(g, *step, fail); /* it may be complete */
	return SL_OK;
}

/* What members hold counts where each step needs all. If one has lost its files, it gets head and tail from the newest
 * complete checkpoint, or goes on with its own. */
static enum sl_err choose(struct sl_group *g, uint64_t *step, struct sl_fail *fail)
{
	const bool other = g->t.whole && is_another_run(g);
	enum sl_err err = sl_trunk_needs_all(&g->t) && !other ? choose_held(g, step, fail) : SL_ERR_NOINPUT;

	if (err != SL_ERR_NOINPUT)
		return err;
	if (sl_group_needs_files(g) && !other)
		return refuse_odd(g, fail);
	err = choose_complete(g, step, fail);
	g->trunk.r.fixed = *step; /* one of them holds none of the others' steps */
	return err;
}

static void begin_from(struct sl_group *g, uint64_t step)
{
	struct sl_records *r = &g->trunk.r;

	if (g->ends &&
	    g->ends->state_of > step) /* of a history that is given up: its step comes again, in another one */
		g->ends->state_of = 0;
	r->done = r->on_disk = g->trunk.from = step;
	r->complete = !sl_group_gives(g) || g->ends->state_of == step ? step : complete_below(g, step);
	g->has_weights = g->has_weights || step;
	sl_group_log_cut(&g->log, step);
	g->trunk.keep.run = step ? g->trunk.keep.run : g->branch;
	r->gone_at = step ? r->gone_at : 0;
	for (int k = 0; k < g->n; k++) {
		if (!step) { /* another run, or the first one */
			r->seat[k].state = SL_SEAT_NEVER;
			r->seat[k].ends_at = 0;
		} else if (!g->seat[k].m && r->seat[k].state == SL_SEAT_IN && !sl_trunk_needs_all(&g->t)) {
			r->seat[k].state = SL_SEAT_AWAY;
		}
	}
}

/* Drops the run that all have asked to replace. From now on no session that is here asks for it again, and a server
 * that is started again finds nothing of it. */
static void leave_old_run(struct sl_group *g)
{
	if (!all_ask(g))
		return;
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].m)
			sl_group_note_owner(g, k);
	if (g->trunk.keep.dir[0])
		sl_keep_remove_later(&g->trunk.keep, 0);
	sl_log(SL_LOG_INFO, "group-anew", "group %s begins anew, as all its members ask (--fresh)", g->name);
}

/* A session ended before the job began: its member is awaited. */
static bool some_lost(const struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (!g->seat[k].m && g->part[k].m)
			return true;
	return false;
}

void sl_group_run_choose(struct sl_group *g)
{
	uint64_t step = 0;

	g->odd = -1;
	g->need_weights = g->anew = false;
	g->agrees = g->agrees && !some_lost(g);
	g->undone = !g->agrees && !g->groups->ranks;
	if (g->undone)
		return;
	if (!g->trunk.exec && sl_group_open_bare(g, &g->fail))
		sl_group_end_ranks(g, g->fail.text);
	begin_branch(g);
	g->trunk.state = SL_TRUNK_NONE; /* files are read: where the job is undone, nobody may store that */
	g->trunk.r.fixed = 0;
	g->err = choose(g, &step, &g->fail);
	if (g->undone)
		return;
	if (!g->err)
		begin_from(g, step);
	if (!g->err && sl_group_has_rounds(g) && sl_group_reset_copies(g))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the members' copies could not be set");
	if (!g->err && !step)
		leave_old_run(g);
	g->trunk.state = g->err ? SL_TRUNK_NONE : SL_TRUNK_WHOLE;
	if (g->err)
		return;
	sl_checkpoint_good(&g->trunk.kept, step);
	sl_group_ends_begin(g);
}
