/* Who may join a group, and how one begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/loop.h"
#include "common/link/proof.h"
#include "server/group/group_check.h"
#include "server/group/group_parties.h"

static void free_group(struct sl_group *g)
{
	free(g->record);
	free(g->trunk.r.seat);
	sl_group_free_trunk(g);
	free(g->member);
	free(g->part);
	free(g->fold.part);
	free(g->t.seat);
	free(g);
}

void sl_group_drop(struct sl_group *g)
{
	struct sl_group **at = &g->groups->first;

	sl_group_check_unused(g);
	if (g->groups->first)
		sl_group_say_parts(g);
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	if (g->groups->timer)
		sl_timer_start(g->groups->timer, SL_GROUP_HEARS_MS, SL_GROUP_HEARS_MS);
	free_group(g);
}

enum sl_err sl_group_make(struct sl_group_list *gs, const struct sl_agreed *a, struct sl_group **out,
			  struct sl_fail *fail)
{
	struct sl_group *g = calloc(1, sizeof *g);

	if (g) {
		g->n = a->share.clients;
		g->member = calloc((size_t)g->n, sizeof *g->member);
		g->seat = calloc((size_t)g->n, sizeof *g->seat);
		g->part = calloc((size_t)g->n, sizeof *g->part);
		g->fold.part = calloc((size_t)g->n, sizeof *g->fold.part);
		g->fold.n = g->n;
		g->t.seat = calloc((size_t)g->n, sizeof *g->t.seat);
		g->trunk.r.seat = calloc((size_t)g->n, sizeof *g->trunk.r.seat);
	}
	if (!g || !g->member || !g->seat || !g->part || !g->fold.part || !g->t.seat || !g->trunk.r.seat) {
		if (g)
			free_group(g);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a group");
	}
	for (int k = 0; k < g->n; k++)
		g->t.seat[k].state = g->trunk.r.seat[k].state = SL_SEAT_NEVER;
	g->groups = gs;
	g->since = gs->acts;
	g->giver = -1;
	g->first = sl_ranks_span(gs->ranks, g->n).first;
	g->end = sl_ranks_span(gs->ranks, g->n).end;
	g->agreed = *a;
	memcpy(g->name, a->share.group, sizeof g->name);
	sl_group_name(g->name, g->file_name);
	g->key = sl_port_key(g->file_name);
	g->round = a->share.mode == SL_SHARE_ROUNDS ? (uint64_t)a->share.round : 1;
	g->t.n = g->trunk.r.n = g->n;
	g->t.first = g->trunk.r.first = g->first;
	g->t.end = g->trunk.r.end = g->end;
	g->trunk.r.group = true;
	g->t.quorum = sl_agreed_quorum(a);
	g->t.least = sl_agreed_goes_on(a) ? a->share.least : 1;
	g->trunk.r.all = sl_trunk_needs_all(&g->t);
	g->t.anyway = !sl_trunk_needs_all(&g->t) && a->share.unmet == SL_UNMET_GO_ON;
	g->t.own = sl_trunk_needs_all(&g->t) && (gs->ranks || !sl_agreed_shares_ends(a));
	g->t.keeps = gs->store.dir[0] && a->share.checkpoint_every;
	g->t.rounds = a->share.mode == SL_SHARE_ROUNDS;
	g->t.whole = a->share.mode == SL_SHARE_VERTICAL;
	g->t.round = g->round;
	g->t.led = gs->ranks && gs->ranks->rank;
	g->trunk.r.ranks = gs->ranks != NULL;
	g->turns = (struct sl_turns){.mode = a->share.mode,
				     .seed = (uint64_t)a->seed,
				     .epoch_steps = (uint64_t)a->share.epoch_steps,
				     .members = g->n};
	if (!g->t.keeps)
		sl_log(SL_LOG_WARN, "group-unkept",
		       "group %s: its state is kept nowhere, since %s. It begins anew if this server dies or all leave",
		       g->name, gs->store.dir[0] ? "train.checkpoint_every is 0" : "this server has no store");
	g->next = gs->first;
	gs->first = g;
	if (gs->timer)
		sl_timer_start(gs->timer, 1, 1); /* each step takes some letters */
	*out = g;
	return SL_OK;
}

/* Sends a Hello's payload to the other ranks, whose members of this group may all be done (group_hear.c). */
static void introduce(struct sl_group_list *gs, struct sl_bytes text)
{
	if (text.len)
		gs->ranks->send(gs->ranks, LETTER_INTRO, text.data, text.len);
}

/* If no other member is there, the group takes over the learning rates of the one that comes. */
static void take_rates(struct sl_group *g, const struct sl_agreed *a)
{
	for (int k = 0; k < g->n; k++)
		if (g->member[k].entered && k != a->share.member)
			return;
	g->agreed.share.rates = a->share.rates;
}

/* Whether the group only waits for members that may come again, and this one begins another run; with --fresh and other
 * settings also where the others could go on. */
static bool is_over(const struct sl_group *g, const struct sl_agreed *a, const struct sl_hello *hello)
{
	struct sl_fail why;
	const bool other = a->share.fresh && sl_agreed_joins(&g->agreed, a, &why);

	return g->back_ms && g->refs == 1 && (other || sl_trunk_needs_all(&g->t)) && sl_hello_is_new(hello) &&
	       (a->share.member >= g->n ||
		memcmp(g->seat[a->share.member].session, hello->session, SL_SESSION_BYTES) != 0);
}

enum sl_err sl_group_check_taken(const struct sl_group *g, const struct sl_middle *there, const struct sl_middle *comes,
				 struct sl_fail *fail)
{
	if (memcmp(sl_port_session(there->port)->hello.session, sl_port_session(comes->port)->hello.session,
		   SL_SESSION_BYTES) == 0)
		return SL_OK;
	return sl_fail_at(fail, "share.member", SL_ERR_BUSY,
			  "another client is member %d of group %s: each member needs a number of its own",
			  there->agreement.agreed.share.member, g->name);
}

enum sl_err sl_group_enter(struct sl_group_list *gs, struct sl_middle *m, const struct sl_agreed *a,
			   struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(m->port);
	struct sl_group *g = gs->first;
	struct sl_group_member *p;
	enum sl_err err;
	bool strange;
	int rates;

	while (g && strcmp(g->name, a->share.group) != 0)
		g = g->next;
	err = sl_group_may_enter_rank(gs, a, fail);
	if (err)
		return err;
	if (a->share.mode == SL_SHARE_ROUNDS && a->share.round < 1)
		return sl_fail_at(fail, "share.round", SL_ERR_PROTOCOL, "a round of no steps");
	if (gs->ranks && a->share.mode == SL_SHARE_VERTICAL)
		return sl_fail_at(fail, "share.mode", SL_ERR_MISMATCH, "vertical needs a server without other ranks");
	if ((a->share.mode == SL_SHARE_SERIAL || a->share.mode == SL_SHARE_ROUNDS) &&
	    (a->share.epoch_steps < 1 || a->share.turns < 1))
		return sl_fail_at(fail, "share.mode", SL_ERR_PROTOCOL, "a member has %lld of an epoch's %lld turns",
				  (long long)a->share.turns, (long long)a->share.epoch_steps);
	if (!g && gs->ranks && !sl_hello_is_new(&s->hello))
		introduce(gs, sl_port_asked(m->port));
	if (g && is_over(g, a, &s->hello)) {
		sl_group_drop(g);
		g = NULL;
	}
	p = g && a->share.member < g->n ? &g->member[a->share.member] : NULL;
	if (p && p->m)
		err = sl_group_check_taken(g, p->m, m, fail);
	if (err)
		return err;
	rates = g ? g->agreed.share.rates : 0;
	strange = p && sl_group_is_strangers(g, a->share.member, m);
	if (g && !strange)
		take_rates(g, a);
	err = g ? sl_agreed_joins(&g->agreed, a, fail) : sl_group_make(gs, a, &g, fail);
	if (!err && g->t.whole)
		err = sl_parties_fit(g, a, fail);
	if (err && g)
		g->agreed.share.rates = rates;
	if (err && g && a->share.member < g->n)
		sl_group_note_refused(g, a->share.member, m, fail->text);
	if (err)
		return err;
	p = &g->member[a->share.member];
	if (!strange) {
		p->role = a->share.role;
		p->sends = a->share.sends;
	}
	p->entered++;
	g->refs++;
	m->group = g;
	m->seat = gs->seat;
	m->key = g->key;
	m->checkpoint = &g->shown;
	return SL_OK;
}

const char *sl_group_name_of(const struct sl_group *g)
{
	return g->name;
}

const uint8_t *sl_group_file_name(const struct sl_group *g)
{
	return g->file_name;
}
