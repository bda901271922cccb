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

static void forget_codecs(struct sl_group_seat *seat)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_forget(sl_port_codecs(seat->m->port)[dir]);
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
		seat->kept = seat->fresh = false;
		memset(seat->session, 0, sizeof seat->session);
		if (seat->m)
			forget_codecs(seat);
	}
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

static enum sl_err take_up(void *arg, uint64_t step, struct sl_fail *fail)
{
	struct sl_group *g = arg;
	enum sl_err err = sl_exec_set_done(g->trunk.exec, step);

	if (!err && step)
		err = sl_group_read(g, step, fail);
	else if (!err)
		err = clear_moments(g);
	if (!err && !step && !sl_group_has_sessions(g))
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "nobody is here who knows the first weights");
	else if (!err && !step)
		err = first_weights(g, fail);
	return sl_group_all_took(g, step, err, fail);
}

/* ---- groups whose members come and go */

static bool some_lost(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->part[k].m && g->part[k].m != g->seat[k].m)
			return true;
	return false;
}

void sl_group_begin_anew(struct sl_group *g, int k)
{
	sl_record_came(&g->trunk.r, k, SL_COME_ANEW, 0);
	g->seat[k].made = 0;
	g->seat[k].kept = false;
	forget_codecs(&g->seat[k]);
}

void sl_group_go_on_behind(struct sl_group *g, int k, uint64_t step)
{
	if (!g->ends)
		sl_log_limited(SL_LOG_WARN, "ends-behind",
			       "group %s: member %d goes on with the head and tail of step %" PRIu64
			       ", which has done %" PRIu64 ": steps since were done without it, or all went back for "
			       "it time and again, so nobody goes back",
			       g->name, k, step, g->trunk.r.seat[k].number);
	sl_record_came(&g->trunk.r, k, SL_COME_BEHIND, step);
	g->seat[k].made = SL_MADE_UNKNOWN;
	g->seat[k].kept = false;
	forget_codecs(&g->seat[k]);
}

/* Whether the member can go on from the file that was read. `anyhow`: if most of the others have two checkpoints, it
 * may also begin anew, or go on behind them. */
static bool fits(struct sl_group *g, int k, bool anyhow)
{
	const struct sl_record *record = &g->trunk.r.seat[k];
	const bool left = record->state != SL_SEAT_IN, foreign = sl_group_is_foreign(g, k);
	const bool is_new = sl_hello_is_new(record->hello), replaces = foreign && sl_record_can_begin_anew(record);
	uint64_t newest;

	if (sl_hello_holds(record->hello, record->number) && !foreign) {
		if (!record->number)
			forget_codecs(&g->seat[k]);
		return true;
	}
	anyhow = anyhow && sl_records_are_past(&g->trunk.r, k, 0);
	if (replaces || (is_new && (left || record->has_files || anyhow)))
		sl_group_begin_anew(g, k);
	else if ((left || anyhow) && sl_record_newest(record, &newest))
		sl_group_go_on_behind(g, k, newest);
	else
		return false;
	return true;
}

/* All members here can go on from the file. `anyhow`: at least half can as they are, the others as in fits(). */
static bool all_fit(struct sl_group *g, bool anyhow)
{
	int n = 0, fitting = 0;

	for (int k = 0; k < g->n; k++) {
		if (!g->part[k].m)
			continue;
		n++;
		if (fits(g, k, false))
			fitting++;
		else if (!anyhow || !fits(g, k, true))
			return false;
	}
	return 2 * fitting >= n;
}

/* The same for shared heads and tails: at least half hold those of `step`. A member that was not in that step comes
 * later, and gets them then. */
static bool all_hold_ends(const struct sl_group *g, bool anyhow, uint64_t step)
{
	int n = 0, holding = 0;

	for (int k = 0; k < g->n; k++) {
		const bool holds = g->part[k].m && sl_group_holds_ends(g, k, step);

		n += g->part[k].m != NULL;
		holding += holds;
		if (g->part[k].m && !holds && !anyhow && g->trunk.r.seat[k].number == step)
			return false;
	}
	return holding && 2 * holding >= n;
}

/* All members here begin anew, and the run in the store is finished. */
static bool is_another_run(const struct sl_group *g)
{
	bool finished = false;

	for (int k = 0; k < g->n; k++) {
		if (g->trunk.r.seat[k].state == SL_SEAT_IN || (g->part[k].m && !sl_hello_is_new(sl_group_hello(g, k))))
			return false;
		finished = finished || g->trunk.r.seat[k].state == SL_SEAT_DONE;
	}
	return finished;
}

static void note_in(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->part[k].m)
			sl_record_came(&g->trunk.r, k, SL_COME_HERE, 0);
		else if (g->trunk.r.seat[k].state == SL_SEAT_IN)
			g->trunk.r.seat[k].state = SL_SEAT_AWAY;
}

static enum sl_err take_up_first(struct sl_group *g, struct sl_fail *fail)
{
	for (int k = 0; k < g->n; k++)
		if (g->part[k].m && !sl_hello_holds(sl_group_hello(g, k), 0))
			return sl_fail_set(fail, SL_ERR_MISMATCH,
					   "no common step for group %s to go on from: member %d goes on from an "
					   "earlier run, of which this server has nothing that fits",
					   g->name, k);
	return take_up(g, 0, fail);
}

/* Takes up the newest file from which all members here can go on; *step 0: there is none. */
static enum sl_err find_file(struct sl_group *g, bool anyhow, uint64_t *step, struct sl_fail *fail)
{
	char whose[SL_CONF_SHARE_TEXT + 16];

	snprintf(whose, sizeof whose, "group %s: ", g->name);
	*step = UINT64_MAX;
	while (g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, step)) {
		enum sl_err err = take_up(g, *step, fail);

		if (!err && (g->ends ? all_hold_ends(g, anyhow, *step) : all_fit(g, anyhow)))
			return SL_OK;
		if (err && !sl_trunk_passes_over(err, *step, whose, fail))
			return err;
	}
	*step = 0;
	return SL_OK;
}

static enum sl_err choose_file(struct sl_group *g, uint64_t *step, struct sl_fail *fail)
{
	const bool another = is_another_run(g);
	enum sl_err err = SL_OK;

	*step = 0;
	for (int anyhow = 0; anyhow < 2 && !*step && !err && !another; anyhow++)
		err = find_file(g, anyhow, step, fail);
	if (err || *step)
		return err;
	if (!another && sl_group_ends_elsewhere(g))
		return sl_fail_set(fail, SL_ERR_BUSY,
				   "nobody is here who has the heads and tails of group %s, which others have left: "
				   "come again when one of them is back, or take another share.group",
				   g->name);
	return take_up_first(g, fail);
}

static enum sl_err choose_some(struct sl_group *g, struct sl_fail *fail)
{
	uint64_t step, newest = UINT64_MAX;
	const bool any = g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &newest);
	enum sl_err err = choose_file(g, &step, fail);

	if (err)
		return err;
	SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
	for (int k = 0; k < g->n && g->ends && step; k++)
		if (g->part[k].m && !sl_group_holds_ends(g, k, step))
			g->part[k].m = NULL;
	g->trunk.r.done = g->trunk.from = g->trunk.r.on_disk = step;
	g->has_weights = g->has_weights || step;
	g->common = step > 0;
	note_in(g);
	if (any && step && step != newest) /* the newest file says who is in: that must be one of this history */
		(void)sl_group_keep(g);
	return SL_OK;
}

/* ---- groups whose members stay */

static bool all_hold(const struct sl_group *g, uint64_t step)
{
	for (int k = g->first; k < g->end; k++)
		if (g->seat[k].m && !sl_hello_holds(sl_group_hello(g, k), step))
			return false;
	return true;
}

void sl_group_list_stored(struct sl_group *g)
{
	const int most = (int)(sizeof g->stored / sizeof g->stored[0]);
	uint64_t file = UINT64_MAX;

	g->trunk.r.stored = g->stored;
	g->trunk.r.n_stored = 0;
	while (g->trunk.keep.dir[0] && g->trunk.r.n_stored < most &&
	       sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &file))
		g->stored[g->trunk.r.n_stored++] = file;
}

/* The member to refuse when others go on from an earlier run; -1: none. Its seat belongs to another run; or it begins
 * anew although it had a checkpoint; or it holds none of the others' steps, and may be behind them. A member that was
 * killed before its first checkpoint is not refused: all begin anew with it. */
static int find_stranger(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_fail why;
	int others = 0, who;

	for (int k = g->first; k < g->end; k++)
		others += g->seat[k].m && !sl_hello_is_new(sl_group_hello(g, k));
	sl_group_list_stored(g);
	if (!others || !g->trunk.r.n_stored || sl_exec_set_done(g->trunk.exec, g->stored[0]) ||
	    sl_group_read(g, g->stored[0], &why))
		return -1;
	for (int k = g->first; k < g->end; k++)
		if (g->seat[k].m && sl_group_check_owner(g, k, fail))
			return k;
	who = sl_group_varies(g) ? -1 : sl_records_stranger(&g->trunk.r);
	if (who >= 0 && sl_hello_is_new(sl_group_hello(g, who)))
		(void)sl_fail_at(fail, "share.member", SL_ERR_MISMATCH,
				 "group %s goes on from an earlier run, and member %d begins anew: --resume goes on "
				 "with its log.dir; or all members begin anew with --fresh",
				 g->name, who);
	else if (who >= 0)
		(void)sl_fail_at(fail, "share.member", SL_ERR_MISMATCH,
				 "member %d goes on from step %" PRIu64
				 ", and group %s from a checkpoint that this member does not hold: all members can "
				 "begin anew with --fresh",
				 who, sl_group_hello(g, who)->held[0], g->name);
	return who;
}

static void begin_branch(struct sl_group *g)
{
	uint64_t branch = 0;

	if (getrandom(&branch, sizeof branch, GRND_NONBLOCK) != (ssize_t)sizeof branch)
		branch = g->branch + 1;
	g->branch = branch >> 2 | 1; /* never 0, and not SL_MADE_UNKNOWN */
}

/* Whether all can go on from `step` without the members that are not here. */
static bool can_do_without(const struct sl_group *g, uint64_t step)
{
	char left[SL_KEEP_SEATS] = "";
	const bool noted =
		sl_records_gone(&g->trunk.r) && g->groups->ranks && sl_keep_read_seats_at(&g->trunk.keep, step, left);

	return sl_records_can_begin(&g->trunk.r, step, noted ? left : NULL);
}

/* For a rank without members: the steps that its store has. */
static int steps_stored(const struct sl_group *g, uint64_t step[SL_GROUP_STEPS])
{
	uint64_t file = UINT64_MAX;
	int n = 0;

	while (n < SL_GROUP_STEPS && g->trunk.keep.dir[0] &&
	       sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &file))
		if (can_do_without(g, file))
			step[n++] = file;
	return n;
}

static int steps_held(const struct sl_group *g, uint64_t step[SL_GROUP_STEPS])
{
	const struct sl_hello *h;
	int n = 0;

	if (!sl_group_has_sessions(g))
		return steps_stored(g, step);
	h = sl_group_hello(g, sl_group_first_here(g));
	for (uint32_t i = 0; i < h->n_held; i++)
		if (all_hold(g, h->held[i]) && can_do_without(g, h->held[i]))
			step[n++] = h->held[i];
	return n;
}

static void begin_from(struct sl_group *g, uint64_t step)
{
	for (int k = g->first; k < g->end; k++)
		if (sl_record_caught_up(&g->trunk.r, k, step)) /* maybe in a later branch: its skips changed nothing */
			g->seat[k].made = SL_MADE_UNKNOWN;
	sl_records_begin(&g->trunk.r, step);
	if (g->trunk.keep.dir[0]) /* later checkpoints now belong to an abandoned history */
		sl_keep_remove_later(&g->trunk.keep, step);
	g->trunk.from = step;
	g->has_weights = g->has_weights || step;
}

/* Whether all members here can go on from the checkpoint that was read: those that hold it, and those that go on behind
 * it, since its last steps were done without them. */
static bool go_on_apart(const struct sl_group *g, uint64_t step)
{
	uint64_t from;
	int here = 0;

	for (int k = g->first; k < g->end; k++) {
		const bool holds = g->seat[k].m && sl_hello_holds(sl_group_hello(g, k), step);

		here += holds;
		if (g->seat[k].m && !holds && !sl_record_was_late(&g->trunk.r, k, step, &from))
			return false;
	}
	return here && can_do_without(g, step);
}

/* Looks for a checkpoint that is newer than any step that all hold, because its steps were done without a member that
 * is here now. That member goes on as if it had come back while others train. *step 0: there is none. */
static enum sl_err choose_behind(struct sl_group *g, const char *whose, uint64_t *step, struct sl_fail *fail)
{
	uint64_t from;

	*step = 0;
	for (int i = 0; i < g->trunk.r.n_stored && !*step; i++) {
		enum sl_err err;

		if (all_hold(g, g->stored[i]) && can_do_without(g, g->stored[i]))
			break;
		err = take_up(g, g->stored[i], fail);
		if (err && !sl_trunk_passes_over(err, g->stored[i], whose, fail))
			return err;
		if (!err && go_on_apart(g, g->stored[i]))
			*step = g->stored[i];
	}
	for (int k = g->first; k < g->end && *step; k++)
		if (sl_record_was_late(&g->trunk.r, k, *step, &from) && from != g->trunk.r.seat[k].number)
			sl_group_go_on_behind(g, k, from);
	if (*step) {
		begin_from(g, *step);
		g->trunk.r.late_at = *step;
	}
	return SL_OK;
}

/* A member that looks like a stranger may have missed steps. Then it goes on behind, and the others from their step. */
static bool goes_on_behind(struct sl_group *g)
{
	const int k = g->stranger;
	struct sl_fail why;
	uint64_t step;

	if (sl_group_varies(g) || g->groups->ranks || sl_group_check_owner(g, k, &why) ||
	    !sl_group_turns_fit(g, &why) || (sl_hello_is_new(sl_group_hello(g, k)) && g->trunk.r.seat[k].has_files))
		return false;
	return !choose_behind(g, "", &step, &why) && step;
}

/* All go on from the newest step that all members hold and the store has, or from 0. */
static enum sl_err choose(struct sl_group *g, struct sl_fail *fail)
{
	char whose[SL_CONF_SHARE_TEXT + 16], tried[SL_TRUNK_TRIED];
	const struct sl_trunk_taker taker = {take_up, g, whose};
	uint64_t held[SL_GROUP_STEPS] = {0}, behind = 0;
	const int n = sl_group_common_steps(g, held, steps_held(g, held));
	int i;
	enum sl_err err;

	snprintf(whose, sizeof whose, "group %s: ", g->name);
	if (!sl_group_turns_fit(g, fail)) /* now the turns of all ranks' members are known */
		return SL_ERR_MISMATCH;
	err = g->groups->ranks ? SL_OK : choose_behind(g, whose, &behind, fail);
	if (err || behind)
		return err;
	err = sl_trunk_take_newest(&taker, held, n, &i, tried, fail);
	if (err == SL_ERR_NOINPUT && sl_records_gone(&g->trunk.r) && !g->groups->ranks)
		return sl_fail_at(fail, "share.member", SL_ERR_MISMATCH, SL_GROUP_LEFT_BEHIND, g->name,
				  g->trunk.r.gone_at, g->ends ? ": their model is its model, too" : "");
	if (err == SL_ERR_NOINPUT) /* BUSY: members that are done may come again, and hold a step */
		return sl_fail_set(fail, g->some_gone ? SL_ERR_BUSY : SL_ERR_MISMATCH,
				   "no common step for group %s to go on from: all members hold%s, and this server "
				   "holds none of them",
				   g->name, tried[0] ? tried : " none");
	if (err)
		return err;
	begin_from(g, held[i]);
	g->common = i == 0;
	return SL_OK;
}

void sl_group_run_choose(struct sl_group *g)
{
	bool all = true, lost = sl_group_varies(g) && some_lost(g);

	g->stranger = -1;
	g->need_weights = g->common = false;
	for (int k = g->first; k < g->end; k++) {
		lost = lost || (!sl_group_varies(g) && !g->seat[k].m && g->trunk.r.seat[k].state == SL_SEAT_IN);
		all = all && g->seat[k].m;
	}
	g->came_of = lost ? MET_VOID : MET_GO;
	if (lost)
		return;
	if (all)
		sl_records_await_all(&g->trunk.r);
	begin_branch(g);
	g->trunk.r.late_at = 0;
	g->err = SL_OK;
	g->stranger = find_stranger(g, &g->fail);
	if (g->stranger >= 0 && goes_on_behind(g))
		g->stranger = -1;
	else if (g->stranger >= 0)
		g->err = SL_ERR_MISMATCH;
	else
		g->err = sl_group_varies(g) ? choose_some(g, &g->fail) : choose(g, &g->fail);
	if (!g->err && sl_group_has_rounds(g) && sl_group_reset_copies(g))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the members' copies could not be set");
	for (int k = g->first; k < g->end && !g->err; k++)
		if (g->seat[k].m && (!sl_group_varies(g) || g->part[k].m == g->seat[k].m))
			sl_group_note_owner(g, k);
	g->met = 0;
	g->trunk.state = g->err ? SL_TRUNK_NONE : SL_TRUNK_WHOLE;
	if (!g->err && g->trunk.r.on_disk)
		sl_checkpoint_good(&g->trunk.kept, g->trunk.r.on_disk);
	if (!g->err)
		sl_group_ends_begin(g);
}
