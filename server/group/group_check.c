#include "server/group/group_check.h"

#include "common/base/assert.h"

/* ---- on the loop */

/* A session, the job under way, and what lets the group live without either, each hold one reference. */
static void check_refs(const struct sl_group *g)
{
	int held = g->t.staying + (g->back_ms != 0);

	for (int k = 0; k < g->n; k++) {
		sl_assert_int(g->member[k].entered, >=, 0);
		held += g->member[k].entered;
	}
	sl_assert_int(g->refs, >=, held);
}

/* A seat of this rank has a link if it has a session, whose Hello the table knows. Those of other ranks have none. */
static void check_link(const struct sl_group *g, int k)
{
	const struct sl_middle *m = g->member[k].m;
	const struct sl_seat *s = &g->t.seat[k];

	if (!sl_group_is_own(g, k)) {
		sl_assert(!m && !g->member[k].entered);
		return;
	}
	sl_assert((m != NULL) == (s->link != SL_LINK_NONE));
	if (!m)
		return;
	sl_assert(m->group == g && m->stage >= SL_MIDDLE_ADMITTED);
	sl_assert_int(sl_group_seat_of(m), ==, k);
	sl_assert_int(g->member[k].entered, >, 0);
	sl_assert(s->hello == &sl_port_session(m->port)->hello);
}

static void check_answer(const struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];

	if (p->answer == ANSWER_AWAITED || p->answer == ANSWER_THERE) {
		sl_assert(g->ends && p->m);
		sl_assert_int(p->asked, <=, g->t.step);
	}
	sl_assert_int(p->got, <, FROM_MEMBER + g->n);
	sl_assert_int(p->shuns, <, FROM_MEMBER + g->n);
	sl_assert_if(p->got, g->ends);
	sl_assert_int(p->credit_ms, >=, 0);
	if (g->t.open)
		sl_assert_int(p->reported, <=, g->t.step + 1);
}

/* While it trains, the table stands where the trunk does. */
static void check_open(const struct sl_group *g)
{
	sl_assert_int(g->t.step, ==, g->trunk.r.done);
	sl_assert_int(g->t.stored, <=, g->t.step);
	sl_assert_int(g->due, <=, g->t.step);
	for (int k = g->first; k < g->end; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		sl_assert_int(s->missed, <=, g->t.step);
		if (!g->groups->ranks) /* who asks for its last weights, or has them, has done its run */
			sl_assert_if(s->asks || s->given, sl_seat_is_at_end(s));
	}
}

void sl_group_check_idle(const struct sl_group *g)
{
	sl_assert_int(g->what, ==, GROUP_IDLE);
	sl_assert(g->t.n == g->n && g->trunk.r.n == g->n && g->fold.n == g->n);
	sl_assert(g->t.first == g->first && g->t.end == g->end);
	sl_assert_int(g->giver, >=, -1);
	sl_assert_int(g->giver, <, g->n);
	sl_assert_if(g->due, sl_group_gives(g));
	sl_assert_if(g->pass.on, g->t.whole);
	check_refs(g);
	for (int k = 0; k < g->n; k++) {
		check_link(g, k);
		check_answer(g, k);
	}
	if (g->t.open)
		check_open(g);
}

void sl_group_check_applied(const struct sl_group *g)
{
	const struct sl_group_log *l = &g->log;

	sl_assert_int(g->trunk.r.done, ==, g->t.step + g->round);
	sl_assert_int(l->end, ==, g->trunk.r.done);
	sl_assert_int(l->n_range, >, 0);
	for (int k = g->first; k < g->end; k++) {
		const bool part = g->trunk.r.seat[k].number == g->trunk.r.done;

		sl_assert(part == sl_group_set_has(&l->range[l->n_range - 1].with, k));
		sl_assert_if(g->fold.part[k].left_out, !part);
		/* it was ready, or nothing of it is in the step */
		sl_assert_if(part, g->part[k].m != NULL);
	}
}

void sl_group_check_missed(const struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		sl_assert_int(g->t.seat[k].missed, ==, sl_group_log_missed(&g->log, k));
}

void sl_group_check_welcome(const struct sl_group *g, int k, uint64_t held, uint64_t begin)
{
	sl_assert(g->t.open && g->member[k].m);
	sl_assert(g->t.seat[k].link == SL_LINK_JOINING || g->t.seat[k].link == SL_LINK_GIVEN);
	sl_assert_int(held, <=, begin);
	sl_assert_int(begin, >=, g->t.step);
	sl_assert_int(begin, <, g->t.step + g->round);
	sl_assert_if(g->need_weights, begin == 0);
	sl_assert_if(g->gift == GIFT_WHOLE, begin == g->t.step && g->gift_from != FROM_NOBODY);
}

void sl_group_check_unused(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		sl_assert(!g->member[k].m && !g->member[k].entered);
		sl_assert(!g->seat[k].m);
	}
}

/* ---- on the worker */

static void check_session(const struct sl_group *g, int k)
{
	const struct sl_group_seat *seat = &g->seat[k];
	const struct sl_record *r = &g->trunk.r.seat[k];

	/* a record has the Hello of its seat's session, and loses it with that */
	sl_assert(r->hello == (seat->m ? sl_group_hello(g, k) : NULL));
	if (seat->m)
		sl_assert(seat->m->group == g && sl_group_seat_of(seat->m) == k);
	sl_assert_if(!sl_group_is_own(g, k), !seat->m);
	if (seat->charge.budget)
		sl_assert_int(seat->codec_bytes, <=, seat->charge.bytes);
	for (int dir = 0; dir < SL_DIR_COUNT && seat->kept; dir++)
		sl_assert_int(seat->codecs.dir[dir].len, <=, seat->codecs.dir[dir].cap);
}

/* Once the group has chosen where to go on from: nobody is further than the round under way, and the log tells of each
 * step that is in the weights. */
static void check_whole(const struct sl_group *g)
{
	sl_trunk_check_whole(&g->trunk);
	sl_assert_int(g->log.end, ==, g->trunk.r.done);
	sl_assert((g->branch & 1) && !(g->branch >> 62));
	for (int k = g->first; k < g->end; k++)
		sl_assert_int(g->trunk.r.seat[k].number, <, g->trunk.r.done + g->round);
	if (g->ends)
		sl_assert_int(g->ends->state_of, <=, g->trunk.r.done);
	sl_assert_if(g->trunk.r.done, g->has_weights);
}

static void check_chosen(const struct sl_group *g)
{
	if (g->err || g->undone)
		return;
	sl_assert_int(g->trunk.state, ==, SL_TRUNK_WHOLE);
	sl_assert_int(g->trunk.r.done, ==, g->trunk.from);
	sl_assert_int(g->trunk.r.on_disk, ==, g->trunk.from);
	sl_assert(g->has_weights != g->need_weights);
	sl_group_check_border(g);
}

static void check_applied(const struct sl_group *g)
{
	if (g->err || g->undone)
		return;
	sl_assert_int(g->trunk.state, ==, SL_TRUNK_WHOLE);
	sl_assert_int(g->trunk.from, <, g->trunk.r.done);
	sl_assert_if(g->trunk.checkpointed, g->trunk.r.on_disk == g->trunk.r.done);
	for (int k = g->first; k < g->end; k++) {
		if (!g->part[k].m)
			continue;
		sl_assert_int(g->trunk.r.seat[k].number, ==, g->trunk.r.done);
		sl_assert(g->seat[k].made == g->branch && !g->fold.part[k].left_out);
		sl_assert_if(g->part[k].rows, g->part[k].counts > 0);
	}
}

static void check_returned(const struct sl_group *g)
{
	const struct sl_record *r = &g->trunk.r.seat[g->which];

	if (g->err || !g->seat[g->which].m || g->came != SL_COME_HERE)
		return;
	sl_assert_int(r->number, >=, g->trunk.r.done);
	sl_assert_int(r->state, ==, SL_SEAT_IN);
	sl_assert_int(g->held, <=, r->number);
	sl_assert_if(g->gift == GIFT_WHOLE, g->ends && r->number == g->trunk.r.done);
	sl_assert(!g->seat[g->which].fresh);
	/* from now on the seat is this client's */
	sl_assert(memcmp(g->seat[g->which].session, sl_group_hello(g, g->which)->session, SL_SESSION_BYTES) == 0);
}

static void check_let_go(const struct sl_group *g)
{
	for (int k = g->first; k < g->end; k++)
		if (g->part[k].leaves && g->part[k].m == g->seat[k].m)
			sl_assert_int(g->trunk.r.seat[k].state, ==, SL_SEAT_DONE);
}

void sl_group_check_job(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		check_session(g, k);
	if (g->trunk.state == SL_TRUNK_WHOLE)
		check_whole(g);
	if (g->what == GROUP_CHOOSE)
		check_chosen(g);
	else if (g->what == GROUP_APPLY)
		check_applied(g);
	else if (g->what == GROUP_REJOIN)
		check_returned(g);
	else if (g->what == GROUP_LET_GO)
		check_let_go(g);
	else if (g->what == GROUP_CATCH_UP && !g->err)
		sl_assert_int(g->trunk.r.seat[g->which].number, <=, g->trunk.r.done);
}

void sl_group_check_border(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		sl_assert_int(g->trunk.r.seat[k].number, <=, g->trunk.r.done);
}

void sl_group_check_records(const struct sl_group *g, const struct sl_buf *records)
{
	sl_assert_int(records->len, <=, records->cap);
	if (!g->ends) /* a coder may keep less than the most */
		sl_assert_int(records->len, ==, records->cap);
}

void sl_group_check_means(const struct sl_group *g)
{
	const struct sl_group_ends *e = g->ends;

	for (int i = 0; i < SL_GROUP_MEANS; i++) {
		const struct sl_group_mean *m = &e->mean[i];

		sl_assert_int(m->run.len, <=, e->bound);
		if (!m->whole)
			continue;
		sl_assert_int(m->run.len, >, 0);
		sl_assert_int(m->step, <=, sl_group_last_step(g));
		for (int j = 0; j < i; j++)
			sl_assert_if(e->mean[j].whole, e->mean[j].step != m->step);
	}
}
