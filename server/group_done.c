/* The end of a group's run. A member that is done does not come back. If another one is killed before its own last
 * checkpoint is on its disk, the steps since cannot be done again without the first. So whoever fetches the weights of
 * its last step says that its state is on its disk. It hears the weights once all members have said so whose run ends
 * there. Members that are not awaited, or not in time for share.straggler_s, are not waited for here either. Who
 * may leave is in the server's checkpoint before anybody hears it: a server that is killed then does not wait for those
 * that have left. */
#include <inttypes.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/group_impl.h"

/* ---- the loop's */

bool sl_group_is_at_end(const struct sl_group_member *p)
{
	return p->ends_at && p->number >= p->ends_at;
}

void sl_group_tell_done(const struct sl_group *g, struct sl_group_word *word)
{
	word->unsafe_end = UINT64_MAX;
	word->safe = 0;
	word->end_elsewhere = false;
	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_member *p = &g->member[k];

		word->safe += p->safe && !p->left;
		word->end_elsewhere = word->end_elsewhere || (!p->safe && sl_group_is_elsewhere(p));
		if (!p->safe && sl_group_is_awaited(g, k) && p->ends_at < word->unsafe_end)
			word->unsafe_end = p->ends_at;
	}
}

/* What all ranks tell of it. */
static struct sl_group_word hear_done(const struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	struct sl_group_word all = {.members = sl_group_count_in(g)};

	sl_group_tell_done(g, &all);
	for (int r = 0; ranks && r < ranks->count; r++) {
		const struct sl_group_word *w = sl_group_word_of(g, r);

		if (r == ranks->rank)
			continue;
		if (!w || w->unsafe_end < all.unsafe_end) /* nothing is known: nobody may leave */
			all.unsafe_end = w ? w->unsafe_end : 0;
		all.safe += w ? w->safe : 0;
		all.members += w ? w->members : 0;
		all.end_elsewhere = all.end_elsewhere || (w && w->end_elsewhere);
	}
	return all;
}

static void give(struct sl_group *g, int k)
{
	g->member[k].asks = false;
	sl_port_event(g->member[k].m->port, &(struct sl_event){.kind = SL_EV_GIVE});
}

bool sl_group_give(struct sl_group *g)
{
	const struct sl_group_word all = hear_done(g);
	/* as a step waits for its members */
	const bool tired = sl_group_waited(g, 2 * all.safe >= all.members && !all.end_elsewhere, &g->end_ms);
	bool any = false;

	for (int k = g->first; k < g->end; k++) {
		const struct sl_group_member *p = &g->member[k];

		g->part[k].m = p->asks && (tired || p->ends_at < all.unsafe_end) ? p->m : NULL;
		any = any || g->part[k].m;
	}
	return any;
}

void sl_group_gone(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (g->part[k].m && g->part[k].m == g->member[k].m && g->member[k].asks)
			give(g, k);
}

static void say_done(const struct sl_group *g, int who)
{
	int safe = 0;

	for (int k = g->first; k < g->end; k++)
		safe += g->member[k].safe;
	sl_log_limited(SL_LOG_INFO, "group-done", "group %s: member %d is done behind step %" PRIu64 ", %d of %d",
		       g->name, who, g->member[who].number, safe, g->end - g->first);
}

bool sl_group_hear_ask(struct sl_group *g, struct sl_middle *m)
{
	struct sl_group_member *p = &g->member[sl_group_seat_of(m)];

	if (p->m == m && !sl_group_varies(g) && sl_group_is_at_end(p)) {
		p->asks = p->safe = true;
		say_done(g, sl_group_seat_of(m));
		return true;
	}
	sl_port_event(m->port, &(struct sl_event){.kind = SL_EV_GIVE});
	return false;
}

/* ---- the worker's */

void sl_group_run_let_go(struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (g->part[k].m && g->part[k].m == g->seat[k].m)
			g->seat[k].let_go = true;
	g->late_at = g->done; /* they do not come back to redo steps with others */
	sl_group_keep_left(g);
	SL_FAILPOINT(SL_FP_SERVER_LET_GO);
}
