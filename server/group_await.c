/* Whom a group's step waits for. The loop's. With other ranks each knows what the others have told last, in a word; a
 * word may be old, so it decides only when a rank begins to wait, and the ranks' meeting what is done (group_ranks.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/group_impl.h"

bool sl_group_is_ready(const struct sl_group *g, int k)
{
	return g->member[k].prepared && g->member[k].number == g->step + g->round - 1;
}

bool sl_group_is_awaited(const struct sl_group *g, int k)
{
	return !g->member[k].left && g->member[k].probation == 0;
}

bool sl_group_is_elsewhere(const struct sl_group_member *p)
{
	const enum sl_session_state s = p->m ? sl_port_session(p->m->port)->state : SL_SESSION_CLOSED;

	return p->open && p->m && (s == SL_SESSION_EVAL || s == SL_SESSION_FETCH);
}

int sl_group_count_in(const struct sl_group *g)
{
	int n = 0;

	for (int k = g->first; k < g->end; k++)
		n += !g->member[k].left;
	return n;
}

bool sl_group_waited(const struct sl_group *g, bool waits, uint64_t *since_ms)
{
	const uint64_t now_ms = sl_loop_now_ms(g->groups->loop);
	const uint64_t patience_ms = (uint64_t)g->agreed.share.straggler_s * 1000;

	if (!waits || !patience_ms)
		*since_ms = 0;
	else if (!*since_ms)
		*since_ms = now_ms;
	return *since_ms && now_ms - *since_ms >= patience_ms;
}

/* Whom the group lacks, and why. True: somebody was refused, who does not come again as it is. */
static bool name_missing(const struct sl_group *g, char *out, size_t size)
{
	bool refused = false;
	size_t at = 0;

	out[0] = '\0';
	for (int k = g->first; k < g->end && at + 1 < size; k++) {
		const struct sl_group_member *p = &g->member[k];
		const bool was_refused = p->refused[0] != '\0';
		int n;

		if (p->m || (p->left && !was_refused))
			continue;
		refused = refused || was_refused;
		n = snprintf(out + at, size - at, "%s%d%s%s%s", at ? ", " : "", k, was_refused ? " (refused: " : "",
			     p->refused, was_refused ? ")" : "");
		at += (size_t)n;
	}
	return refused;
}

bool sl_group_gives_up(struct sl_group *g, struct sl_fail *why)
{
	const uint64_t now_ms = sl_loop_now_ms(g->groups->loop);
	char missing[400];
	bool waits = false, refused;

	for (int k = g->first; k < g->end && !g->open; k++)
		waits = waits || (g->member[k].m && g->member[k].joining);
	if (!waits || !g->wait_ms)
		g->wait_ms = waits ? now_ms : 0;
	if (!waits || !g->agreed.share.wait_s || now_ms - g->wait_ms < (uint64_t)g->agreed.share.wait_s * 1000)
		return false;
	g->wait_ms = 0;
	refused = name_missing(g, missing, sizeof missing);
	(void)sl_fail_at(why, "share.wait_s", refused ? SL_ERR_MISMATCH : SL_ERR_TIMEOUT,
			 "group %s was not complete within %d s: missing are members %s", g->name,
			 g->agreed.share.wait_s, missing);
	sl_log_limited(SL_LOG_WARN, "group-waits", "%s", why->text);
	return true;
}

/* Members of this rank, or of several. */
struct tally {
	int ready, awaited, members;
	bool elsewhere; /* one of the awaited is */
	bool works;     /* one that is not awaited may be ready soon */
	bool could;     /* nobody is waited for any more */
};

static struct tally count_own(const struct sl_group *g)
{
	struct tally t = {.members = sl_group_count_in(g)};

	for (int k = g->first; k < g->end; k++) {
		t.ready += sl_group_is_ready(g, k);
		if (sl_group_is_ready(g, k))
			continue;
		if (sl_group_is_awaited(g, k)) {
			t.awaited++;
			t.elsewhere = t.elsewhere || sl_group_is_elsewhere(&g->member[k]);
		} else {
			t.works = t.works || (g->member[k].m && g->member[k].open);
		}
	}
	return t;
}

const struct sl_group_word *sl_group_word_of(const struct sl_group *g, int r)
{
	const struct sl_group_word *w = &g->groups->word[r];

	return w->open && w->branch == g->branch ? w : NULL;
}

/* That rank speaks of the same step. */
static bool is_of_this_step(const struct sl_group *g, const struct sl_group_word *w)
{
	return w->open && w->branch == g->branch && w->met == g->met && w->step == g->step;
}

/* … with what other ranks have told. could: each of them could do the step. */
static struct tally count_all(const struct sl_group *g, const struct tally *own)
{
	const struct sl_ranks *ranks = g->groups->ranks;
	struct tally t = *own;

	t.could = true;
	for (int r = 0; ranks && r < ranks->count; r++) {
		const struct sl_group_word *w = &g->groups->word[r];

		if (r == ranks->rank)
			continue;
		t.members += w->members;
		t.could = t.could && is_of_this_step(g, w) && w->could;
		if (!is_of_this_step(g, w))
			continue;
		t.ready += w->ready;
		t.elsewhere = t.elsewhere || w->elsewhere;
	}
	return t;
}

/* Half of all members have waited for the others for as long as they may. */
static bool patience_is_over(struct sl_group *g, const struct tally *all)
{
	const bool waits = 2 * all->ready >= all->members && all->ready >= sl_group_least(g) && !all->elsewhere;

	return sl_group_waited(g, waits, &g->half_ms);
}

static bool could_apply(struct sl_group *g, const struct tally *own, const struct tally *all)
{
	return !own->awaited || patience_is_over(g, all);
}

bool sl_group_may_apply(struct sl_group *g)
{
	const struct tally own = count_own(g), all = count_all(g, &own);

	if (!could_apply(g, &own, &all))
		return false;
	if (!g->groups->ranks)
		return own.awaited || own.ready >= sl_group_least(g);
	/* From here on the worker waits for the other ranks, and members of this one can do nothing. So where somebody
	 * may still be ready, or nobody is, the others come first; but nobody comes back to a rank that all have left.
	 */
	if (!own.members || (own.ready && !own.works))
		return true;
	return all.could && all.ready > 0;
}

/* ---- words */

enum sl_err sl_group_list_ranks(struct sl_group_list *gs, const struct sl_ranks *ranks, struct sl_backend *be,
				struct sl_backend *host_be)
{
	gs->ranks = ranks;
	gs->be = be;
	gs->host_be = host_be;
	if (ranks)
		gs->word = calloc((size_t)ranks->count, sizeof *gs->word);
	return ranks && !gs->word ? SL_ERR_NOMEM : SL_OK;
}

static void tell_step(struct sl_group *g, struct sl_group_word *word)
{
	const struct tally own = count_own(g);
	struct tally all;

	word->members = own.members;
	if (!g->open)
		return; /* the worker may choose where to go on from */
	all = count_all(g, &own);
	word->open = true;
	word->step = g->step;
	word->branch = g->branch;
	word->met = g->met;
	word->ready = own.ready;
	word->elsewhere = own.elsewhere;
	word->could = could_apply(g, &own, &all);
	word->calls = g->back_of >= 0;
}

void sl_group_tell(struct sl_group_list *gs)
{
	struct sl_group *g = gs->first;
	struct sl_group_word *said, word;

	if (!gs->ranks)
		return;
	said = &gs->word[gs->ranks->rank];
	memcpy(&word, said, sizeof word); /* what lies between its fields, too: words are compared */
	/* what it said of the step as it began to wait for the others holds until they have met */
	if (!g || !g->busy || (g->what != GROUP_APPLY && g->what != GROUP_MEET)) {
		memset(&word, 0, sizeof word);
		if (g)
			tell_step(g, &word);
	}
	if (g)
		sl_group_tell_done(g, &word);
	if (memcmp(said, &word, sizeof word) == 0)
		return;
	*said = word;
	gs->ranks->tell(gs->ranks, &word, sizeof word);
}

bool sl_group_is_called(const struct sl_group *g)
{
	const struct sl_ranks *ranks = g->groups->ranks;

	for (int r = 0; ranks && r < ranks->count; r++) {
		const struct sl_group_word *w = &g->groups->word[r];

		if (r != ranks->rank && w->open && w->calls && w->met == g->met)
			return true;
	}
	return false;
}
