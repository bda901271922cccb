/* Groups whose members come and go (share.clients: 2..8). A member is *in* from the step that it is welcomed to until
 * it stops its run, is done, or has been out of reach for share.straggler_s. Steps are done by those that are in. A
 * seat keeps the step behind its member's last one, so a member that comes back goes on with the head and tail that it
 * had. Each checkpoint says who was in. The newest one says who is awaited after a server's end, whichever the group
 * goes on from. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/group_impl.h"

/* ---- the loop's */

int sl_group_least(const struct sl_group *g)
{
	return sl_group_varies(g) ? g->agreed.share.least : 1;
}

void sl_group_hear_in(struct sl_group *g)
{
	for (int k = 0; k < g->n && sl_group_varies(g) && !g->heard; k++)
		g->member[k].left = g->seat[k].left;
	g->heard = true;
}

bool sl_group_enough_here(struct sl_group *g)
{
	bool awaited = false, done = true, waited;
	int here = 0, least;

	for (int k = 0; k < g->n; k++) {
		const struct sl_group_member *p = &g->member[k];

		if (p->m && !p->joining)
			return false; /* that link is ending */
		g->part[k] = (struct sl_group_part){.m = p->m};
		here += p->m != NULL;
		done = done && (!p->m || sl_hello_is_done(&sl_port_session(p->m->port)->hello));
		awaited = awaited || (!p->m && !p->left);
	}
	least = done ? 1 : sl_group_least(g); /* one that is done has no step to do */
	waited = sl_group_waited(g, here >= least && awaited, &g->half_ms);
	return here >= least && (!awaited || waited);
}

int sl_group_begun(struct sl_group *g)
{
	int n = 0;

	g->half_ms = 0;
	for (int k = 0; k < g->n; k++) {
		n += g->part[k].m != NULL;
		if (!g->part[k].m)
			sl_group_goes(g, k, "it did not come back, and share.straggler_s is over");
	}
	return n;
}

uint64_t sl_group_comes_in(struct sl_group *g, int k)
{
	struct sl_group_member *p = &g->member[k];
	const uint64_t from = g->seat[k].number, begin = from > g->step ? from : g->step;

	if (!p->left)
		return begin;
	p->left = false;
	sl_log_limited(SL_LOG_INFO, "group-joins", "group %s: member %d joins behind step %" PRIu64 ": %d are in",
		       g->name, k, begin, sl_group_count_in(g));
	return begin;
}

/* Where members are inside a round, its end would wait for a newcomer's whole round. If they are too few to end it,
 * they wait for the newcomer anyhow. */
bool sl_group_comes_later(const struct sl_group *g, int k)
{
	bool inside = false;
	int in = 0;

	if (!sl_group_varies(g) || !sl_group_has_rounds(g) || !g->member[k].left)
		return false;
	for (int i = 0; i < g->n; i++) {
		const struct sl_group_member *p = &g->member[i];

		if (!p->m || p->left || p->joining)
			continue;
		in++;
		inside = inside || p->number > g->step;
	}
	return inside && in >= sl_group_least(g);
}

void sl_group_goes(struct sl_group *g, int k, const char *why)
{
	struct sl_group_member *p = &g->member[k];

	if (p->left)
		return;
	p->left = true;
	p->probation = 0;
	sl_log_limited(SL_LOG_INFO, "group-leaves",
		       "group %s: member %d leaves behind step %" PRIu64 " (%s): %d are in", g->name, k, g->step, why,
		       sl_group_count_in(g));
}

/* Who is not there, of those that ever were. */
static const char *say_missing(const struct sl_group *g, char out[200])
{
	int at = 0;

	for (int k = 0; k < g->n && at < 160; k++) {
		const struct sl_group_member *p = &g->member[k];

		if (p->m || (p->left && !g->seat[k].number))
			continue;
		at += snprintf(out + at, (size_t)(200 - at), "%s %d (%s)", at ? "," : "; not there:", k,
			       p->left ? "has left" : "lost its link");
	}
	out[at] = '\0';
	return out;
}

void sl_group_say_short(struct sl_group *g)
{
	char missing[200];
	int here = 0;

	if (!sl_group_varies(g) || !g->open)
		return;
	for (int k = 0; k < g->n; k++) {
		if (g->member[k].finished)
			return; /* the run is at its end */
		here += g->member[k].m && !g->member[k].left;
	}
	if (here < sl_group_least(g) && !g->said_short)
		sl_log_limited(SL_LOG_WARN, "group-short",
			       "group %s waits behind step %" PRIu64 ": %d members are there, and share.clients needs "
			       "%d%s",
			       g->name, g->step, here, sl_group_least(g), say_missing(g, missing));
	g->said_short = here < sl_group_least(g);
}

/* ---- the worker's */

static bool is_finished(const struct sl_group_seat *seat)
{
	return seat->finished || sl_group_run_is_over(seat);
}

void sl_group_note_members(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		g->keep.left[k] = is_finished(&g->seat[k]) ? SL_GROUP_FINISHED
				  : g->seat[k].left        ? SL_GROUP_AWAY
							   : SL_GROUP_IN;
	g->keep.left[g->n] = '\0';
}

bool sl_group_some_lost(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->part[k].m && g->part[k].m != g->seat[k].m)
			return true;
	return false;
}

static void forget_codecs(struct sl_group_seat *seat)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_forget(sl_port_codecs(seat->m->port)[dir]);
}

/* Another client has the seat now, or the same one without its files. */
static void begin_anew(struct sl_group_seat *seat)
{
	seat->number = seat->made = 0;
	seat->kept = false;
	memset(seat->pin, 0, sizeof seat->pin);
	seat->has_files = false;
	forget_codecs(seat);
}

/* The member goes on from `step`, though it has done others since. */
static void come_behind(struct sl_group *g, int k, uint64_t step)
{
	struct sl_group_seat *seat = &g->seat[k];

	sl_log_limited(
		SL_LOG_WARN, "ends-behind",
		"group %s: member %d goes on with the head and tail of step %" PRIu64 ", which has done %" PRIu64
		": steps since were done without it, or all went back for it time and again, so nobody goes back",
		g->name, k, step, seat->number);
	seat->number = step;
	seat->made = SL_MADE_UNKNOWN;
	seat->kept = false;
	forget_codecs(seat);
}

/* Whether it can go on from what was read; `anyhow`: by itself, where the others are past all that it holds. */
static bool fits(struct sl_group *g, int k, bool anyhow)
{
	struct sl_group_seat *seat = &g->seat[k];
	const struct sl_hello *h = sl_group_hello(g, k);
	uint64_t newest;

	if (sl_hello_holds(h, seat->number) && !sl_group_is_foreign(g, k)) {
		if (!seat->number)
			forget_codecs(seat);
		return true;
	}
	anyhow = anyhow && sl_group_others_are_past(g, k, 0);
	if (sl_group_is_new(h) && (seat->left || seat->has_files || anyhow))
		begin_anew(seat);
	else if ((seat->left || anyhow) && sl_group_newest_of(g, k, &newest))
		come_behind(g, k, newest);
	else
		return false;
	return true;
}

/* `anyhow`: most of them can. */
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

/* All that begin here begin anew, and the run that the store holds is done. */
static bool is_another_run(const struct sl_group *g)
{
	bool finished = false;

	for (int k = 0; k < g->n; k++) {
		if (!g->seat[k].left || (g->part[k].m && !sl_group_is_new(sl_group_hello(g, k))))
			return false;
		finished = finished || g->seat[k].finished;
	}
	return finished;
}

static void note_in(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		g->seat[k].left = !g->part[k].m;
		g->seat[k].finished = g->seat[k].finished && !g->part[k].m;
	}
}

static enum sl_err take_up_first(struct sl_group *g, struct sl_fail *fail)
{
	for (int k = 0; k < g->n; k++)
		if (g->part[k].m && !sl_hello_holds(sl_group_hello(g, k), 0))
			return sl_fail_set(fail, SL_ERR_MISMATCH,
					   "no common step for group %s to go on from: member %d goes on from an "
					   "earlier run, of which this server has nothing that fits",
					   g->name, k);
	return sl_group_take_up(g, 0, fail);
}

/* The newest file from which all that are here can go on; *step 0: none. */
static enum sl_err find_file(struct sl_group *g, bool anyhow, uint64_t *step, struct sl_fail *fail)
{
	*step = UINT64_MAX;
	while (g->keep.dir[0] && sl_checkpoint_older(g->keep.dir, g->keep.prefix, step)) {
		enum sl_err err = sl_group_take_up(g, *step, fail);

		if (!err && all_fit(g, anyhow))
			return SL_OK;
		if (err && err != SL_ERR_NOINPUT && err != SL_ERR_DATA && err != SL_ERR_MISMATCH && err != SL_ERR_IO)
			return err;
		if (err && err != SL_ERR_NOINPUT)
			sl_log_limited(SL_LOG_WARN, "checkpoint-refused", "group %s: %s", g->name, fail->text);
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
	return err || *step ? err : take_up_first(g, fail);
}

enum sl_err sl_group_choose_some(struct sl_group *g, struct sl_fail *fail)
{
	uint64_t step, newest = UINT64_MAX;
	const bool any = g->keep.dir[0] && sl_checkpoint_older(g->keep.dir, g->keep.prefix, &newest);
	enum sl_err err = choose_file(g, &step, fail);

	if (err)
		return err;
	SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
	g->done = g->from = g->on_disk = step;
	g->has_weights = g->has_weights || step;
	note_in(g);
	if (any && step && step != newest) /* the newest file, which says who is in, is another past's from here on */
		(void)sl_group_keep(g);
	return SL_OK;
}

void sl_group_run_come(struct sl_group *g)
{
	struct sl_group_seat *seat = &g->seat[g->which];
	const struct sl_hello *h = seat->m ? sl_group_hello(g, g->which) : NULL;
	uint64_t newest;
	bool any;

	g->back = false;
	g->need_weights = !g->has_weights;
	g->err = SL_OK;
	if (!h)
		return;
	any = sl_group_newest_of(g, g->which, &newest);
	if (sl_hello_holds(h, seat->number) && !sl_group_is_foreign(g, g->which)) {
		if (seat->kept && sl_codecs_state_give(&seat->codecs, sl_port_codecs(seat->m->port)))
			g->err = sl_fail_set(&g->fail, SL_ERR_DATA, "the state of member %d does not fit its codecs",
					     g->which);
	} else if (sl_group_is_new(h) && seat->left) {
		begin_anew(seat);
	} else if (any && !seat->left && newest >= g->late_at && sl_group_may_go_back(g, g->which)) {
		g->back = true;
	} else if (sl_group_is_new(h) && !seat->has_files) {
		sl_log_limited(SL_LOG_WARN, "ends-behind",
			       "group %s: member %d begins anew: it has kept nothing of the steps up to %" PRIu64
			       ", so nobody goes back",
			       g->name, g->which, seat->number);
		begin_anew(seat);
	} else if (sl_group_is_new(h)) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "group %s waits for member %d, which lost its link, and this client begins anew: "
				    "--resume goes on with its log.dir; or take another number",
				    g->name, g->which);
	} else if (any) {
		come_behind(g, g->which, newest);
	} else {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "member %d of group %s goes on from step %" PRIu64
				    ", and the group knows it at step %" PRIu64,
				    g->which, g->name, h->held[0], seat->number);
	}
	if (g->err || g->back)
		return;
	seat->left = seat->finished = false;
	/* in rounds: whoever is not inside the one under way begins it with the trunk */
	if (seat->number <= g->done && sl_group_reset_copy(g, g->which, true))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the copy of member %d could not be set", g->which);
}

static bool is_unfinished(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->seat[k].number && !is_finished(&g->seat[k]))
			return true;
	return false;
}

void sl_group_last_of(struct sl_group *g, int k, bool finished, bool away)
{
	const bool writes = g->valid && !g->torn && g->keep.dir[0] && sl_group_at_border(g);
	bool anybody = false;

	g->seat[k].left = g->seat[k].left || finished || away;
	g->seat[k].finished = finished;
	if (finished)
		g->late_at = g->done; /* it does not come back to redo steps with others */
	for (int i = 0; i < g->n; i++)
		anybody = anybody || g->seat[i].m;
	if (!anybody && g->valid && !is_unfinished(g))
		sl_keep_only(&g->keep, g->stays ? g->on_disk : UINT64_MAX);
	else if (writes && (anybody ? (finished || away) && g->on_disk : g->done != g->on_disk || finished || away))
		(void)sl_group_keep(g);
}
