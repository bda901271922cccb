/* A group on the device's worker. All of it runs in jobs and tasks of the group's key, one at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/group_impl.h"
#include "server/store.h"

void sl_group_free_trunk(struct sl_group *g)
{
	for (int k = 0; k < g->n && g->seat; k++) {
		sl_codecs_state_close(&g->seat[k].codecs);
		sl_exec_close(g->fold.part[k].copy);
	}
	free(g->seat);
	sl_group_ends_close(g);
	if (g->memory_used)
		atomic_fetch_sub(g->memory_used, g->memory_bytes);
	sl_trunk_close(&g->trunk);
}

/* ---- the trunk's memory */

enum sl_err sl_group_open_bare(struct sl_exec **out, const struct sl_plan *plan, struct sl_backend *be,
			       struct sl_fail *fail)
{
	enum sl_err err = sl_exec_prepare(out, plan, SL_MIDDLE, be, fail);

	if (!err)
		err = sl_exec_bare(*out, fail);
	if (!err)
		err = sl_exec_allocate(*out, fail);
	if (err) {
		sl_exec_close(*out);
		*out = NULL;
	}
	return err;
}

/* One that counts among what the server may take. On a device the sum of a step is made on the host. */
static enum sl_err open_counted(struct sl_group *g, struct sl_exec **out, const struct sl_plan *plan,
				const struct sl_middle_env *env, struct sl_fail *fail)
{
	const size_t sum = (size_t)plan->segment[SL_MIDDLE].trainable_count * sizeof(float);
	char what[SL_CONF_SHARE_TEXT + 40];
	struct sl_exec *sizes;
	uint64_t bytes;
	enum sl_err err = sl_exec_prepare(&sizes, plan, SL_MIDDLE, env->be, fail);

	if (!err)
		err = sl_exec_bare(sizes, fail);
	bytes = err ? 0 : sl_exec_memory(sizes).total + (env->be->host_memory ? 0 : sum);
	sl_exec_close(sizes);
	snprintf(what, sizeof what, out == &g->trunk.exec ? "the middle of group %s" : "a copy of group %s's middle",
		 g->name);
	if (!err)
		err = sl_memory_reserve(env->memory_used, env->memory_bytes, bytes, what, fail);
	if (err)
		return err;
	err = sl_group_open_bare(out, plan, env->be, fail);
	if (err) {
		atomic_fetch_sub(env->memory_used, bytes);
		return err;
	}
	g->memory_used = env->memory_used;
	g->memory_bytes += bytes;
	return SL_OK;
}

static enum sl_err open_trunk(struct sl_group *g, const struct sl_middle_env *env, struct sl_plan *plan,
			      struct sl_fail *fail)
{
	enum sl_err err = open_counted(g, &g->trunk.exec, plan, env, fail);

	if (err) {
		sl_plan_close(plan);
		return err;
	}
	g->trunk.plan = plan;
	sl_keep_open(&g->trunk.keep, g->groups->store.dir, g->groups->store.tidy, g->file_name, NULL, plan,
		     g->groups->store.core);
	sl_group_hear_left(g);
	return SL_OK;
}

enum sl_err sl_group_lend(struct sl_group *g, struct sl_middle *m, struct sl_plan *plan, struct sl_fail *fail)
{
	const bool same =
		g->trunk.plan && memcmp(g->trunk.plan->middle_hash, plan->middle_hash, sizeof plan->middle_hash) == 0;
	struct sl_group_seat *seat = &g->seat[sl_group_seat_of(m)];
	struct sl_exec **copy = &g->fold.part[sl_group_seat_of(m)].copy;
	enum sl_err err = SL_OK;

	if (!g->trunk.plan)
		err = open_trunk(g, &m->env, plan, fail);
	else
		sl_plan_close(plan);
	if (!err && g->trunk.plan != plan && !same)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"group %s trains another middle than this client's: model, cut, inserts, train.freeze "
			"and train.groups must be the same for all members",
			g->name);
	if (!err && sl_group_has_rounds(g) && !*copy)
		err = open_counted(g, copy, g->trunk.plan, &m->env, fail);
	if (!err)
		err = sl_exec_borrow(m->trunk.exec, *copy ? *copy : g->trunk.exec, fail);
	if (!err)
		err = sl_group_ends_lend(g, m, fail);
	if (err)
		return err;
	seat->m = m;
	seat->fresh = true;
	g->trunk.r.seat[sl_group_seat_of(m)].hello = sl_group_hello(g, sl_group_seat_of(m));
	return SL_OK;
}

/* ---- where to go on from */

static bool all_hold(const struct sl_group *g, uint64_t step)
{
	for (int k = g->first; k < g->end; k++)
		if (g->seat[k].m && !sl_hello_holds(sl_group_hello(g, k), step))
			return false;
	return true;
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

/* The one that begins anew where others go on, and that had a checkpoint: it lost its files, or is another run. One
 * that was killed before its first checkpoint has none to lose, and all begin anew with it. Or one whose steps are
 * nobody else's. */
static int find_stranger(struct sl_group *g, struct sl_fail *fail)
{
	struct sl_fail why;
	int others = 0, who;

	for (int k = g->first; k < g->end; k++)
		others += g->seat[k].m && !sl_hello_is_new(sl_group_hello(g, k));
	list_stored(g);
	if (!others || !g->trunk.r.n_stored || sl_exec_follow(g->trunk.exec, g->stored[0]) ||
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
	g->branch = branch >> 2 | 1; /* never 0 */
}

/* Those that are not here have nothing to do behind that step. */
static bool can_do_without(const struct sl_group *g, uint64_t step)
{
	char left[SL_KEEP_LEFT] = "";
	const bool noted =
		sl_records_gone(&g->trunk.r) && g->groups->ranks && sl_keep_who_left_at(&g->trunk.keep, step, left);

	return sl_records_can_begin(&g->trunk.r, step, noted ? left : NULL);
}

/* What this server has, where no member is here. */
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

/* The newest step that all members hold and the store has, or 0. */
static enum sl_err choose(struct sl_group *g, struct sl_fail *fail)
{
	uint64_t held[SL_GROUP_STEPS] = {0};
	const int n = sl_group_common_steps(g, held, steps_held(g, held));
	char tried[120] = "";

	if (!sl_group_turns_fit(g, fail)) /* of all ranks' members, of which this one knows now */
		return SL_ERR_MISMATCH;
	for (int i = 0; i < n; i++) {
		const uint64_t step = held[i];
		enum sl_err err = sl_group_take_up(g, step, fail);

		if (!err) {
			SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
			for (int k = g->first; k < g->end; k++)
				if (sl_record_caught_up(&g->trunk.r, k, step))
					g->seat[k].made = g->trunk.keep.made;
			sl_records_begin(&g->trunk.r, step);
			if (g->trunk.keep.dir[0]) /* the steps kept behind it are another past's */
				sl_keep_leave(&g->trunk.keep, step);
			g->trunk.from = step;
			g->common = i == 0;
			g->has_weights = g->has_weights || step;
			return SL_OK;
		}
		if (err != SL_ERR_NOINPUT && err != SL_ERR_DATA && err != SL_ERR_MISMATCH && err != SL_ERR_IO)
			return err;
		if (err == SL_ERR_MISMATCH && !step)
			return err;
		if (err != SL_ERR_NOINPUT)
			sl_log_limited(SL_LOG_WARN, "checkpoint-refused", "group %s: %s", g->name, fail->text);
		snprintf(tried + strlen(tried), sizeof tried - strlen(tried), " %" PRIu64, step);
	}
	/* members of other ranks that are done may come again */
	return sl_fail_set(
		fail, g->some_gone ? SL_ERR_BUSY : SL_ERR_MISMATCH,
		"no common step for group %s to go on from: all members hold%s, and this server holds none of "
		"them",
		g->name, tried[0] ? tried : " none");
}

static void run_choose(struct sl_group *g)
{
	bool all = true, lost = sl_group_varies(g) && sl_group_some_lost(g);

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
	g->stranger = find_stranger(g, &g->fail);
	if (g->stranger >= 0)
		g->err = SL_ERR_MISMATCH;
	else
		g->err = sl_group_varies(g) ? sl_group_choose_some(g, &g->fail) : choose(g, &g->fail);
	if (!g->err && sl_group_has_rounds(g) && sl_group_reset_copies(g))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the members' copies could not be set");
	for (int k = g->first; k < g->end && !g->err; k++)
		if (g->seat[k].m && (!sl_group_varies(g) || g->part[k].m == g->seat[k].m))
			sl_group_note_owner(g, k);
	g->met = 0;
	g->trunk.state = g->err ? SL_TRUNK_NONE : SL_TRUNK_WHOLE;
	g->trunk.r.late_at = 0;
	if (!g->err)
		sl_group_ends_begin(g);
}

/* The copy that the member trains is the trunk's again. */
static void reset_copy(struct sl_group *g, bool moments)
{
	if (sl_group_has_rounds(g) && sl_group_reset_copy(g, g->which, moments))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the copy of member %d could not be set", g->which);
}

static void come_here(struct sl_group *g, bool was_done)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	if (was_done)
		reset_copy(g, true);
	if (!g->err && seat->kept && sl_codecs_state_give(&seat->codecs, sl_port_codecs(seat->m->port)))
		g->err = sl_fail_set(&g->fail, SL_ERR_DATA, "the state of member %d does not fit its codecs", g->which);
}

/* The group has done steps without somebody since, so the member goes on from what it has. */
static void come_behind(struct sl_group *g, uint64_t newest)
{
	struct sl_group_seat *seat = &g->seat[g->which];

	if (g->ends && !sl_group_ends_reach(g, newest)) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "member %d goes on from step %" PRIu64 ", and group %s, at step %" PRIu64
				    ", has not kept the means of heads and tails from there on",
				    g->which, newest, g->name, g->trunk.r.done);
		return;
	}
	if (!g->ends)
		sl_log_limited(SL_LOG_WARN, "ends-behind",
			       "group %s: member %d goes on with the head and tail of step %" PRIu64
			       ", which has done %" PRIu64 ": %s, so nobody goes back",
			       g->name, g->which, newest, g->trunk.r.seat[g->which].number,
			       newest >= g->trunk.r.late_at ? "all have gone back to that step for it time and again"
							    : "steps since were done without somebody");
	seat->made = SL_MADE_UNKNOWN;
	reset_copy(g, false);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_forget(sl_port_codecs(seat->m->port)[dir]);
}

/* The member comes back while the others train. It goes on where its seat stands, or everybody goes back; or, where the
 * group has done steps without somebody since, it goes on from what it has. */
static void run_rejoin(struct sl_group *g)
{
	const struct sl_record *record = &g->trunk.r.seat[g->which];
	const bool was_done = record->state == SL_SEAT_DONE;
	uint64_t newest;

	g->came = sl_record_come(&g->trunk.r, g->which, &newest);
	if (g->came == SL_COME_LOST)
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "group %s is at step %" PRIu64
				    ", and member %d begins anew: --resume goes on with its log.dir",
				    g->name, g->trunk.r.done, g->which);
	else if (g->came == SL_COME_NOWHERE)
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "member %d goes on from step %" PRIu64 ", and group %s, at step %" PRIu64
				    ", has no checkpoint of a step that this member and the others hold",
				    g->which, newest ? newest : record->hello->held[0], g->name, g->trunk.r.done);
	else if (g->came == SL_COME_HERE)
		come_here(g, was_done);
	else if (g->came == SL_COME_BEHIND)
		come_behind(g, newest);
	if (!g->err)
		sl_record_came(&g->trunk.r, g->which, g->came, newest);
}

/* A member is there while others train. */
static void run_return(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];
	bool back;

	g->came = SL_COME_HERE;
	g->need_weights = !g->has_weights;
	g->err = seat->m ? sl_group_check_owner(g, g->which, &g->fail) : SL_OK;
	if (g->err || !seat->m) {
		seat->fresh = g->err != SL_OK;
		return;
	}
	g->trunk.r.seat[g->which].foreign = sl_group_is_foreign(g, g->which);
	list_stored(g);
	if (sl_group_varies(g))
		sl_group_run_come(g);
	else
		run_rejoin(g);
	back = g->came == SL_COME_BACK || g->came == SL_COME_LONGER;
	seat->fresh = g->err || back;
	if (!seat->fresh)
		sl_group_note_owner(g, g->which);
}

void sl_group_run(struct sl_job *job)
{
	struct sl_group *g = (struct sl_group *)(void *)((char *)job - offsetof(struct sl_group, job));

	switch (g->what) {
	case GROUP_IDLE:
		break;
	case GROUP_CHOOSE:
		run_choose(g);
		break;
	case GROUP_REJOIN:
		run_return(g);
		break;
	case GROUP_CATCH_UP:
		sl_group_run_catch_up(g);
		break;
	case GROUP_STEP:
		sl_group_run_step(g);
		break;
	case GROUP_APPLY:
		sl_group_run_apply(g);
		break;
	case GROUP_MEET:
		sl_group_run_meet(g);
		break;
	case GROUP_LET_GO:
		sl_group_run_let_go(g);
		break;
	}
}

/* ---- weights, and the end of a session */

enum sl_err sl_group_install(struct sl_group *g, struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	const struct sl_trunk_store *store = &g->groups->store;
	const float *range = sl_port_weights(m->port);
	enum sl_err err = sl_trunk_check_upload(g->trunk.plan, h, range, fail);

	if (err || g->has_weights)
		return err;
	sl_store_put(store->dir, store->tidy, store->owner, h->weights_hash, range,
		     g->trunk.plan->segment[SL_MIDDLE].weight_count);
	g->has_weights = true;
	err = sl_exec_set_weights(g->trunk.exec, range);
	return err || !sl_group_has_rounds(g) ? err : sl_group_reset_copies(g);
}

enum sl_err sl_group_gather(struct sl_group *g, struct sl_middle *m, bool *checkpointed)
{
	const uint64_t number = g->trunk.r.seat[sl_group_seat_of(m)].number;
	struct sl_exec *copy = g->fold.part[sl_group_seat_of(m)].copy;
	enum sl_err err = sl_exec_get_weights(copy ? copy : g->trunk.exec, sl_port_weights(m->port));
	const bool here = (number == g->trunk.r.done || (sl_group_varies(g) && number < g->trunk.r.done)) &&
			  (g->trunk.r.done == g->trunk.r.on_disk || sl_group_at_border(g));

	*checkpointed =
		sl_trunk_gathered(&g->trunk, !err && here && g->trunk.keep.dir[0] &&
						     (g->trunk.r.done == g->trunk.r.on_disk || sl_group_keep(g)));
	return err;
}
