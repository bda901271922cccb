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

void sl_group_hear_in(struct sl_group *g)
{
	for (int k = 0; k < g->n && !g->heard; k++)
		g->t.seat[k].state = g->trunk.r.seat[k].state;
	if (!g->heard)
		g->t.gone_at = g->trunk.r.gone_at;
	g->heard = true;
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
	const uint64_t from = g->trunk.r.seat[k].number, begin = from > g->t.step ? from : g->t.step;
	const bool was = sl_seat_is_in(g->t.seat[k].state);

	sl_trunk_welcome(&g->t, k, begin);
	if (!was)
		sl_log_limited(SL_LOG_INFO, "group-joins",
			       "group %s: member %d joins behind step %" PRIu64 ": %d are in", g->name, k, begin,
			       sl_group_count_in(g));
	return begin;
}

void sl_group_goes(struct sl_group *g, int k, const char *why)
{
	if (sl_trunk_out(&g->t, k))
		sl_group_say_gone(g, k, why);
}

void sl_group_say_gone(const struct sl_group *g, int k, const char *why)
{
	sl_log_limited(SL_LOG_INFO, "group-leaves",
		       "group %s: member %d leaves behind step %" PRIu64 " (%s): %d are in", g->name, k, g->t.step, why,
		       sl_group_count_in(g));
}

/* Who is not there, of those that ever were. */
static const char *say_missing(const struct sl_group *g, char out[200])
{
	int at = 0;

	for (int k = 0; k < g->n && at < 160; k++) {
		const bool in = sl_seat_is_in(g->t.seat[k].state);

		if (g->member[k].m || (!in && !g->trunk.r.seat[k].number))
			continue;
		at += snprintf(out + at, (size_t)(200 - at), "%s %d (%s)", at ? "," : "; not there:", k,
			       in ? "lost its link" : "has left");
	}
	out[at] = '\0';
	return out;
}

void sl_group_say_short(struct sl_group *g)
{
	char missing[200];
	int here = 0;

	if (!sl_group_varies(g) || !g->t.open)
		return;
	for (int k = 0; k < g->n; k++) {
		if (g->t.seat[k].state == SL_SEAT_DONE)
			return; /* the run is at its end */
		here += g->member[k].m && sl_seat_is_in(g->t.seat[k].state);
	}
	if (here < sl_trunk_least(&g->t) && !g->said_short)
		sl_log_limited(SL_LOG_WARN, "group-short",
			       "group %s waits behind step %" PRIu64 ": %d members are there, and share.clients needs "
			       "%d%s",
			       g->name, g->t.step, here, sl_trunk_least(&g->t), say_missing(g, missing));
	g->said_short = here < sl_trunk_least(&g->t);
}

/* ---- the worker's */

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
static void begin_anew(struct sl_group *g, int k)
{
	sl_record_came(&g->trunk.r, k, SL_COME_ANEW, 0);
	g->seat[k].made = 0;
	g->seat[k].kept = false;
	forget_codecs(&g->seat[k]);
}

/* The member goes on from `step`, though it has done others since. */
static void come_behind(struct sl_group *g, int k, uint64_t step)
{
	sl_log_limited(
		SL_LOG_WARN, "ends-behind",
		"group %s: member %d goes on with the head and tail of step %" PRIu64 ", which has done %" PRIu64
		": steps since were done without it, or all went back for it time and again, so nobody goes back",
		g->name, k, step, g->trunk.r.seat[k].number);
	sl_record_came(&g->trunk.r, k, SL_COME_BEHIND, step);
	g->seat[k].made = SL_MADE_UNKNOWN;
	g->seat[k].kept = false;
	forget_codecs(&g->seat[k]);
}

/* Whether it can go on from what was read; `anyhow`: by itself, where the others are past all that it holds. */
static bool fits(struct sl_group *g, int k, bool anyhow)
{
	const struct sl_record *record = &g->trunk.r.seat[k];
	const bool left = record->state != SL_SEAT_IN, is_new = sl_hello_is_new(record->hello);
	uint64_t newest;

	if (sl_hello_holds(record->hello, record->number) && !sl_group_is_foreign(g, k)) {
		if (!record->number)
			forget_codecs(&g->seat[k]);
		return true;
	}
	anyhow = anyhow && sl_records_are_past(&g->trunk.r, k, 0);
	if (is_new && (left || record->has_files || anyhow))
		begin_anew(g, k);
	else if ((left || anyhow) && sl_record_newest(record, &newest))
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
	return sl_group_take_up(g, 0, fail);
}

/* The newest file from which all that are here can go on; *step 0: none. */
static enum sl_err find_file(struct sl_group *g, bool anyhow, uint64_t *step, struct sl_fail *fail)
{
	*step = UINT64_MAX;
	while (g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, step)) {
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
	const bool any = g->trunk.keep.dir[0] && sl_checkpoint_older(g->trunk.keep.dir, g->trunk.keep.prefix, &newest);
	enum sl_err err = choose_file(g, &step, fail);

	if (err)
		return err;
	SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
	g->trunk.r.done = g->trunk.from = g->trunk.r.on_disk = step;
	g->has_weights = g->has_weights || step;
	note_in(g);
	if (any && step && step != newest) /* the newest file, which says who is in, is another past's from here on */
		(void)sl_group_keep(g);
	return SL_OK;
}

void sl_group_run_come(struct sl_group *g)
{
	const int k = g->which;
	struct sl_group_seat *seat = &g->seat[k];
	const struct sl_record *record = &g->trunk.r.seat[k];
	uint64_t newest;

	g->came = sl_record_come(&g->trunk.r, k, &newest);
	if (g->came == SL_COME_BACK)
		return;
	if (g->came == SL_COME_LOST) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "group %s waits for member %d, which lost its link, and this client begins anew: "
				    "--resume goes on with its log.dir; or take another number",
				    g->name, k);
	} else if (g->came == SL_COME_NOWHERE) {
		g->err = sl_fail_at(&g->fail, "share.member", SL_ERR_MISMATCH,
				    "member %d of group %s goes on from step %" PRIu64
				    ", and the group knows it at step %" PRIu64,
				    k, g->name, record->hello->held[0], record->number);
	} else if (g->came == SL_COME_ANEW) {
		if (record->state == SL_SEAT_IN)
			sl_log_limited(
				SL_LOG_WARN, "ends-behind",
				"group %s: member %d begins anew: it has kept nothing of the steps up to %" PRIu64
				", so nobody goes back",
				g->name, k, record->number);
		begin_anew(g, k);
	} else if (g->came == SL_COME_BEHIND) {
		come_behind(g, k, newest);
	} else if (seat->kept && sl_codecs_state_give(&seat->codecs, sl_port_codecs(seat->m->port))) {
		g->err = sl_fail_set(&g->fail, SL_ERR_DATA, "the state of member %d does not fit its codecs", k);
	}
	if (g->err)
		return;
	sl_record_came(&g->trunk.r, k, SL_COME_HERE, 0);
	/* in rounds: whoever is not inside the one under way begins it with the trunk */
	if (record->number <= g->trunk.r.done && sl_group_reset_copy(g, k, true))
		g->err = sl_fail_set(&g->fail, SL_ERR_DEVICE, "the copy of member %d could not be set", k);
}
