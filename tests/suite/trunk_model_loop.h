/* What the loop and the worker do around the tables, in small, for test_trunk_table.c. Comments name the functions of
 * server/group that stand behind. */
#ifndef SL_TESTS_SUITE_TRUNK_MODEL_LOOP_H
#define SL_TESTS_SUITE_TRUNK_MODEL_LOOP_H

#include "tests/suite/trunk_model.h"

/* Each member here was let go in the run before, and has no file of it. */
static void begins_another(struct model *m, int k)
{
	if (!is_linked(m, k))
		return;
	m->w.m[k].proc = GONE;
	link_over(m, k, SL_SEAT_LOST);
}

/* No checkpoint was complete, and the others began anew: an operator gives --fresh. */
static void begins_fresh(struct model *m, int k)
{
	link_over(m, k, SL_SEAT_LOST);
	begins_anew(m, k);
}

/* ---- the job CHOOSE */

static bool is_foreign(const struct model *m, int k)
{
	return m->w.books.owner[k] == ANOTHER;
}

/* A member that is here holds the state before `step`, as far as the file that was read knows it. */
static bool some_hold(const struct model *m, uint64_t step)
{
	int here = 0, hold = 0;

	for (int k = 0; k < SEATS; k++) {
		here += is_linked(m, k);
		hold += is_linked(m, k) && m->record[k].number == step && sl_hello_holds(&m->hello[k], step) &&
			!is_foreign(m, k);
	}
	return MODEL_PLANTED(MOST_MUST_HOLD) ? 2 * hold > here : hold > 0;
}

static uint64_t take_newest(struct model *m)
{
	for (uint64_t step = STEPS; step > 0; step--) {
		if (!m->w.file[step].there)
			continue;
		read_file(m, step);
		m->w.ends_of = has_complete(m, step) ? (uint8_t)step : NOTHING;
		if (has_complete(m, step) || some_hold(m, step) || MODEL_PLANTED(INCOMPLETE_IS_TAKEN))
			return step;
	}
	m->w.ends_of = NOTHING;
	return 0;
}

/* One that is here took part in the step before the checkpoint, and holds its state. */
static bool has_member_of(const struct model *m, int step)
{
	for (int k = 0; k < SEATS; k++)
		if (m->w.file[step].there && is_linked(m, k) && m->w.file[step].books.number[k] == step &&
		    m->w.file[step].books.owner[k] == MINE && sl_hello_holds(&m->hello[k], (uint64_t)step))
			return true;
	return false;
}

static bool is_another_run(const struct model *m)
{
	for (int k = 0; k < SEATS; k++)
		if (is_linked(m, k) && (m->record[k].state != SL_SEAT_DONE || !sl_hello_is_new(&m->hello[k])))
			return false;
	return true;
}

static void first_weights(struct model *m)
{
	int here = 0, held = 0;

	for (int k = 0; k < SEATS; k++) {
		here += is_linked(m, k);
		held += is_linked(m, k) && !sl_hello_holds(&m->hello[k], 0);
	}
	for (int k = 0; k < SEATS && 2 * held > here; k++) /* check_lost */
		if (is_linked(m, k) && m->kind->least > 0)
			refuse(m, k);
		else if (is_linked(m, k))
			begins_fresh(m, k);
	for (int k = 0; k < SEATS; k++) {
		sl_record_forget(&m->record[k]);
		m->record[k].ends_at = 0;
		m->record[k].state = SL_SEAT_NEVER;
	}
	m->w.books = (struct books){0};
	m->r.asked[0] = m->r.asked[1] = 0;
}

static bool all_hold(const struct model *m, uint64_t step)
{
	for (int k = 0; k < SEATS; k++)
		if (is_linked(m, k) && !sl_hello_holds(&m->hello[k], step))
			return false;
	return true;
}

/* Where each step needs all. False: there is no step that all hold. */
static bool choose_held(struct model *m, uint64_t *step)
{
	const int newest = newest_file(m);
	uint64_t left;

	m->r.fixed = 0;
	if (newest)
		read_file(m, (uint64_t)newest);
	left = sl_records_left_at(&m->r);
	for (*step = STEPS;; --*step) {
		if ((!*step || m->w.file[*step].there) && *step >= left && all_hold(m, *step)) {
			bool mine = true;

			if (*step)
				read_file(m, *step);
			for (int k = 0; k < SEATS && *step; k++)
				mine = mine && !(is_linked(m, k) && is_foreign(m, k));
			if (mine)
				break;
		}
		if (!*step)
			return false;
	}
	for (int k = 0; k < SEATS; k++)
		if (m->w.m[k].proc == OVER && *step < m->kind->steps)
			breaks(m, "7: steps are done again without a member that has ended");
	m->w.ends_of = *step && has_complete(m, *step) ? (uint8_t)*step : NOTHING;
	return true;
}

/* As opens. */
static void opens(struct model *m)
{
	for (int k = 0; k < SEATS; k++) {
		struct sl_seat *s = &m->seat[k];

		s->state = m->record[k].state;
		s->ends_at = m->record[k].ends_at;
		s->missed = 0;
		for (int step = 0; step < (int)m->r.done && !MODEL_PLANTED(MISSED_IS_FORGOTTEN); step++)
			s->missed += !(set_of(m, step) >> k & 1);
		m->w.answer[k] = NOT_ASKED;
	}
	sl_trunk_opens(&m->t, m->r.done);
	m->t.stored = m->r.complete;
	m->w.due = m->w.giver = m->w.asked_at = 0;
}

static bool all_linked(const struct model *m)
{
	return is_linked(m, 0) && is_linked(m, 1) && is_linked(m, 2);
}

static void choose(struct model *m)
{
	uint64_t step = 0;
	const bool held = sl_trunk_needs_all(&m->t) && !is_another_run(m) && choose_held(m, &step);

	if (is_another_run(m)) { /* with members that have lost all, but got their weights once */
		for (int k = 0; k < SEATS; k++)
			begins_another(m, k);
		return;
	}
	step = held ? step : take_newest(m);
	if (step < m->w.best && !held)
		breaks(m, "6: the group goes back behind a complete checkpoint");
	if (!step && !held && m->kind->least > 0 && newest_file(m) && !all_linked(m) &&
	    !MODEL_PLANTED(BEGINS_ANEW_WITHOUT)) {
		m->w.all = 1;
		return;
	}
	for (int later = STEPS; later > (int)step && !held; later--)
		if (has_member_of(m, later))
			breaks(m, "5: the group goes back, though one that is here has its head and tail");
	m->w.all = 0;
	if (!step)
		first_weights(m);
	if (m->broken)
		return;
	m->w.branch = new_branch(m);
	m->r.done = m->r.on_disk = step;
	m->r.fixed = held ? 0 : step;
	m->w.from = (uint8_t)step;
	m->r.complete = step;
	while (m->r.complete && !has_complete(m, m->r.complete) && !MODEL_PLANTED(INCOMPLETE_IS_TAKEN))
		m->r.complete = MODEL_PLANTED(COMPLETE_IS_FORGOTTEN) ? 0 : m->r.complete - 1;
	m->w.books.with &= (uint16_t)((1u << 3 * step) - 1); /* sl_group_log_cut */
	for (int k = 0; k < SEATS; k++) {
		m->w.books.own[k] &= (uint16_t)((1u << (3 * step + 3)) - 1);
		if (step && !is_linked(m, k) && m->record[k].state == SL_SEAT_IN && !sl_trunk_needs_all(&m->t))
			m->record[k].state = SL_SEAT_AWAY;
	}
	opens(m);
}

/* ---- the job REJOIN */

static uint64_t newest_held(const struct model *m, int k)
{
	const struct sl_hello *h = &m->hello[k];
	uint64_t step = 0;

	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] <= m->r.done && h->held[i] > step)
			step = h->held[i];
	return step;
}

static bool has_answered(const struct model *m, int k)
{
	return m->w.answer[k] == THERE || m->w.answer[k] == LIED;
}

/* What sl_group_give gives: the state before the step, from the store or from the giver's answer. */
static bool take_ends(struct model *m, struct state *gift)
{
	const int giver = m->w.giver - 1;
	bool there;

	if (m->w.ends_of != NOTHING && (m->w.ends_of == m->r.done || MODEL_PLANTED(OLD_ENDS_ARE_GIVEN))) {
		gift->taken = told(m, 0, m->w.ends_of);
		return true;
	}
	if (giver < 0 || !has_answered(m, giver) || m->w.asked_at != m->r.done + 1)
		return false;
	there = m->w.answer[giver] == THERE;
	m->w.answer[giver] = there ? THERE : IS_WRONG;
	gift->taken = m->w.m[giver].live.taken;
	return there;
}

/* The state that the member has of `step`; step NOTHING: none. */
static struct state own_state(const struct model *m, int k, uint64_t step)
{
	const struct member *p = &m->w.m[k];
	const struct state s = p->live;

	if (!step)
		return (struct state){0};
	if (s.step != NOTHING && p->ahead && step == s.step + 1u)
		return (struct state){(uint8_t)step, m->w.books.branch[k],
				      m->kind->shared ? told(m, k, (int)step) : (uint16_t)(s.taken | 1 << s.step)};
	if (s.step == step)
		return s;
	return p->file[0].step == step   ? p->file[0]
	       : p->file[1].step == step ? p->file[1]
					 : (struct state){NOTHING, 0, 0};
}

/* As sl_recover_refuse of the client: the state of step `held` is of an abandoned history. */
static void drop_own(struct model *m, int k, uint64_t held)
{
	struct member *p = &m->w.m[k];

	if (p->live.step == held) {
		p->live = (struct state){NOTHING, 0, 0};
		p->ahead = 0;
	} else if (p->live.step != NOTHING && p->ahead && p->live.step + 1u == held) {
		p->ahead = 0;
	} else {
		if (p->file[0].step == held)
			p->file[0] = p->file[1];
		p->file[1] = (struct state){0};
		if (p->confirmed == 2 && !p->file[0].step)
			breaks(m, "4: a member has no state left that it may go on from");
	}
	link_over(m, k, SL_SEAT_LOST);
}

/* As welcome, and what the client does then. */
static void welcome(struct model *m, int k, uint64_t held, const struct state *gift)
{
	struct member *p = &m->w.m[k];
	const uint8_t made = m->w.books.branch[k];
	struct state s = own_state(m, k, held);

	sl_trunk_welcome(&m->t, k, m->record[k].number);
	if (gift) {
		s.taken = gift->taken;
		s.branch = made;
	} else if (held && made == NOTHING && m->w.m[k].live.step != NOTHING && held == m->w.m[k].live.step + 1u &&
		   !MODEL_PLANTED(DOUBT_IS_TAKEN)) { /* nobody knows that its step in doubt was done */
		drop_own(m, k, held);
		return;
	} else if (held && s.branch != made && made != NOTHING && !MODEL_PLANTED(BRANCH_IS_NOT_COMPARED)) {
		drop_own(m, k, held);
		return;
	}
	if (s.step == NOTHING)
		breaks(m, "1: a member goes on from a state that it does not have");
	s.step = (uint8_t)m->record[k].number;
	s.branch = made == NOTHING && MODEL_PLANTED(MAKER_STAYS) ? s.branch : made;
	if (s.taken != told(m, k, s.step))
		breaks(m, "1: a member goes on with another history than the log's");
	p->next = s;
	p->held = (uint8_t)held;
	p->end = RUNS;
}

/* As sl_group_log_return. */
static void log_return(struct model *m, int k, uint64_t held)
{
	uint16_t *own = &m->w.books.own[k];

	if (m->w.books.back >> k & 1 && MODEL_PLANTED(FIRST_RETURN_COUNTS))
		return;
	*own = (uint16_t)((*own & ((1u << 3 * m->r.done) - 1)) | (*own >> 3 * held & 7) << 3 * m->r.done);
	m->w.books.back |= (uint8_t)(1 << k);
}

/* As go_back. */
static void go_back(struct model *m, int k)
{
	bool any = false;

	for (uint32_t i = 0; i < m->hello[k].n_held; i++)
		any = any || m->hello[k].held[i] == m->r.asked[0] || m->hello[k].held[i] == m->r.asked[1];
	if (!any)
		breaks(m, "7: all go back to a step that others do not hold");
	sl_trunk_gathers(&m->t);
	for (int i = 0; i < SEATS; i++)
		if (i != k)
			link_over(m, i, SL_SEAT_LOST);
}

static void come(struct model *m, int k)
{
	struct sl_record *record = &m->record[k];
	const struct sl_hello *h = record->hello;
	struct state gift = {0};
	uint64_t held = record->number;
	bool given = false;

	if (is_foreign(m, k) && record->state == SL_SEAT_IN && !sl_hello_is_new(h) &&
	    !sl_record_can_begin_anew(record)) {
		refuse(m, k);
		return;
	}
	if (record->state == SL_SEAT_DONE && sl_hello_is_new(h)) { /* BUSY: it comes again */
		link_over(m, k, SL_SEAT_LOST);
		return;
	}
	if (is_foreign(m, k) || record->number < m->r.done || !sl_hello_holds(h, record->number)) {
		if (sl_trunk_needs_all(&m->t) && (!is_foreign(m, k) || sl_hello_is_new(h)) &&
		    sl_records_can_go_back(&m->r, k)) {
			go_back(m, k);
			return;
		}
		if (m->t.own && record->state == SL_SEAT_DONE && !sl_hello_holds(h, record->number)) {
			m->w.m[k].proc = OVER; /* refused: its model is written */
			link_over(m, k, SL_SEAT_LOST);
			return;
		}
		if ((m->t.whole || m->kind->ranks) && !sl_records_left_at(&m->r)) {
			refuse(m, k);
			return;
		}
		if (!m->r.done && !sl_hello_holds(h, 0)) {
			if (m->kind->least > 0)
				refuse(m, k);
			else
				begins_fresh(m, k);
			return;
		}
		held = is_foreign(m, k) && !MODEL_PLANTED(FOREIGN_FILES_COUNT) ? 0 : newest_held(m, k);
		given = m->kind->shared && m->r.done;
		if (given && !take_ends(m, &gift)) { /* LATER */
			sl_trunk_needs_ends(&m->t, k);
			m->w.giver = m->w.due ? m->w.giver : 0;
			return;
		}
		if (sl_trunk_needs_all(&m->t) && !m->kind->wipes && m->r.done && (!given || m->r.done < m->kind->steps))
			breaks(m, "7: a member that was killed goes on with other codecs, or an older head and tail");
		record->number = m->r.done;
		m->w.books.branch[k] = given ? m->w.branch : m->r.done ? NOTHING : 0;
		log_return(m, k, held);
	}
	record->state = SL_SEAT_IN;
	record->ends_at = h->run_steps;
	m->w.books.owner[k] = MINE;
	welcome(m, k, held, given ? &gift : NULL);
}

/* ---- heads and tails */

static bool can_give(const struct model *m, int k)
{
	return m->seat[k].link == SL_LINK_OPEN && m->w.answer[k] != IS_WRONG && m->seat[k].number == m->t.step &&
	       (m->seat[k].state == SL_SEAT_IN ||
		(m->seat[k].state == SL_SEAT_DONE && !MODEL_PLANTED(DONE_CANNOT_GIVE)));
}

/* As sl_group_ask_ends. True: those for a checkpoint are there. */
static bool ask_ends(struct model *m)
{
	bool needed = m->w.due && m->w.due == m->t.step;

	if (!m->w.up || !m->w.there)
		return false;
	for (int k = 0; k < SEATS; k++) {
		needed = needed || m->seat[k].link == SL_LINK_ASKING;
		if (m->w.answer[k] == AWAITED &&
		    (m->seat[k].link == SL_LINK_OPEN || MODEL_PLANTED(LOST_GIVER_IS_AWAITED)))
			return false;
	}
	if (m->w.giver && has_answered(m, m->w.giver - 1)) {
		sl_trunk_has_ends(&m->t);
		return m->w.due != 0;
	}
	m->w.due = needed || m->w.due == m->t.step ? m->w.due : 0;
	for (int k = 0; k < SEATS && needed; k++)
		if (can_give(m, k)) {
			m->w.giver = (uint8_t)(k + 1);
			m->w.answer[k] = AWAITED;
			m->w.asked_at = (uint8_t)(m->t.step + 1);
			return false;
		}
	m->w.giver = needed ? 0 : m->w.giver;
	return false;
}

/* As sl_group_run_store and stored. */
static void store_ends(struct model *m)
{
	const bool lied = m->w.answer[m->w.giver - 1] == LIED && m->w.asked_at == m->w.due + 1;

	if (lied)
		m->w.answer[m->w.giver - 1] = IS_WRONG;
	else if (m->w.asked_at == m->w.due + 1 && !m->w.full) {
		m->w.file[m->w.due].ends = 1;
		note_complete(m, m->w.due);
	}
	m->w.due = lied && m->w.due == m->t.step ? m->w.due : 0;
	m->t.stored = m->r.complete;
}

/* As must_keep, run_keep and kept. */
static bool keep_again(struct model *m)
{
	bool waits = false;

	for (int k = 0; k < SEATS && m->t.open && !m->w.due; k++)
		waits = waits || (m->seat[k].asks && m->seat[k].given && m->t.stored < m->seat[k].number);
	if (!waits || !keep(m))
		return false;
	m->t.stored = m->r.complete;
	m->w.due = m->kind->shared ? (uint8_t)m->t.step : 0;
	m->w.giver = m->kind->shared ? 0 : m->w.giver;
	return true;
}

/* ---- steps */

static void decided(struct model *m, int k, bool kept)
{
	struct member *p = &m->w.m[k];

	m->seat[k].prepared = m->seat[k].skip = false;
	m->seat[k].number = m->record[k].number;
	p->live.branch = m->w.branch;
	p->live.step++;
	p->ahead = 0;
	if (kept)
		keep_own(p);
}

static bool keep_asked(struct model *m)
{
	const uint64_t was[2] = {m->r.asked[0], m->r.asked[1]};

	m->r.asked[0] = m->r.done;
	m->r.asked[1] = was[0];
	if (keep(m))
		return true;
	memcpy(m->r.asked, was, sizeof was);
	return false;
}

/* The job APPLY, and applied. */
static void apply(struct model *m)
{
	struct sl_took took[SEATS];
	const int step = (int)m->r.done;
	uint16_t with = 0, real = 0;
	bool kept = false;

	if (m->r.done == m->w.from)
		remove_later(m, m->r.done + 1, 0);
	for (int k = 0; k < SEATS; k++) {
		took[k] = (struct sl_took){sl_seat_is_ready(&m->t, k), !sl_trunk_needs_all(&m->t) && !is_linked(m, k)};
		with |= (uint16_t)((took[k].part || (MODEL_PLANTED(LATE_COUNTS) && is_linked(m, k))) << k);
		real |= (uint16_t)(took[k].part << k);
		if (took[k].part)
			m->w.books.branch[k] = m->w.branch;
	}
	m->w.books.back = 0;
	m->w.books.with |= (uint16_t)(with << 3 * step);
	for (int k = 0; k < SEATS; k++) {
		const uint16_t own = (m->w.books.own[k] >> 3 * step & 7) | (uint16_t)((with >> k & 1) << step);

		if (!m->kind->shared)
			m->w.books.own[k] |= (uint16_t)(own << 3 * (step + 1));
		if (took[k].part)
			sl_record_keeps(&m->record[k], (uint64_t[2]){m->w.m[k].file[0].step, m->w.m[k].file[1].step},
					false, m->r.done + 1);
		if (took[k].part)
			m->w.m[k].live.taken |= (uint16_t)(m->kind->shared ? real << 3 * step : 1 << step);
	}
	sl_records_stepped(&m->r, took, 1);
	if (m->r.done % m->kind->every == 0 || m->r.done == m->kind->steps)
		kept = m->r.stays = keep_asked(m);
	else
		m->r.stays = false;
	m->t.step = m->r.done;
	if (m->kind->shared && kept && !m->w.due) {
		m->w.due = (uint8_t)m->t.step;
		m->w.giver = 0;
	}
	m->t.stored = m->r.complete;
	for (int k = 0; k < SEATS; k++) {
		m->seat[k].tired = false;
		if (took[k].part)
			decided(m, k, kept);
		else
			sl_trunk_missed(&m->t, k);
	}
}

/* The member skips a step that was done without it. */
static void catch_up(struct model *m, int k)
{
	struct member *p = &m->w.m[k];
	const uint64_t behind = m->seat[k].number;

	if (!m->kind->shared && behind + 2 < m->r.done) { /* BUSY: it comes again */
		link_over(m, k, SL_SEAT_LOST);
		return;
	}
	if (m->kind->shared) /* the mean of that step */
		p->live.taken |= (uint16_t)(set_of(m, (int)behind) << 3 * behind);
	m->record[k].number = behind + 1;
	m->record[k].state = SL_SEAT_IN;
	m->w.books.branch[k] = m->w.branch;
	decided(m, k, false);
}

/* ---- the end of runs */

static void let_go(struct model *m)
{
	bool gets[SEATS], wrote[SEATS], noted;
	enum sl_seat_state was[SEATS];

	for (int k = 0; k < SEATS; k++) {
		gets[k] = sl_trunk_may_leave(&m->t, k);
		wrote[k] = m->seat[k].given && m->seat[k].asks && !is_linked(m, k);
		was[k] = m->record[k].state;
		if (wrote[k] || (gets[k] && m->record[k].number <= m->r.complete))
			m->record[k].state = SL_SEAT_DONE;
	}
	noted = m->r.done != m->r.on_disk || !m->r.done;
	for (int k = 0; k < SEATS && !noted; k++) /* sl_group_keep_left */
		noted = m->w.file[m->r.done].note[k] != sl_record_note(&m->r, k);
	noted = m->r.done != m->r.on_disk || !noted || keep(m);
	for (int k = 0; k < SEATS; k++) {
		struct member *p = &m->w.m[k];
		const bool stored = m->record[k].number <= m->r.complete,
			   leaves = wrote[k] || (gets[k] && noted && stored);

		if (leaves)
			sl_record_let_go(&m->r, k);
		else
			m->record[k].state = was[k];
		if (!gets[k])
			continue;
		m->seat[k].asks = false;
		m->seat[k].given = !leaves;
		if (sl_trunk_needs_all(&m->t) ? leaves
					      : p->end == ASKED_AGAIN || (stored && p->file[0].step == m->kind->steps))
			p->end = LEAVES;
		else
			p->end = HAS_MODEL;
	}
}

/* ---- what is next */

static bool has_held(const struct model *m, int k)
{
	const struct member *p = &m->w.m[k];

	return p->proc == ALIVE && p->live.step == m->t.step && m->seat[k].state != SL_SEAT_AWAY && !m->seat[k].tired &&
	       m->record[k].number == m->t.step && p->live.taken == told(m, k, (int)m->t.step) &&
	       p->next.step == NOTHING;
}

static void look(struct model *m)
{
	const enum sl_trunk_patience what = sl_trunk_patience_for(&m->t);

	for (int k = 0; k < SEATS; k++) {
		struct sl_seat *s = &m->seat[k];

		if (!sl_trunk_waits_for(&m->t, k, what))
			s->tired = s->tired && !m->t.open && s->link == SL_LINK_NONE;
	}
}

/* Rank 0 decides; the last seat is on rank 1, which is led. */
static void stand_at(struct model *m, int rank)
{
	m->t.first = m->r.first = rank ? SEATS - 1 : 0;
	m->t.end = m->r.end = rank ? SEATS : SEATS - 1;
	m->t.led = rank;
}

static void stand_nowhere(struct model *m)
{
	m->t.first = m->r.first = 0;
	m->t.end = m->r.end = SEATS;
	m->t.led = false;
}

/* All ranks choose or apply together, or none does. */
static enum sl_trunk_act next(struct model *m, int *seat)
{
	enum sl_trunk_act act = SL_TRUNK_WAIT, all = SL_TRUNK_WAIT;

	if (!m->kind->ranks)
		return sl_trunk_next(&m->t, seat);
	for (int rank = 0; rank < 2; rank++) {
		stand_at(m, rank);
		act = sl_trunk_next(&m->t, seat);
		if (act != SL_TRUNK_CHOOSE && act != SL_TRUNK_APPLY && act != SL_TRUNK_WAIT)
			return act;
		all = rank == 0 || all == act ? act : SL_TRUNK_WAIT;
	}
	stand_nowhere(m);
	return all;
}

static bool act(struct model *m)
{
	int k;

	look(m);
	switch (next(m, &k)) {
	case SL_TRUNK_CHOOSE:
		if (m->w.all && !all_linked(m))
			return false;
		choose(m);
		return true;
	case SL_TRUNK_COME:
		come(m, k);
		return true;
	case SL_TRUNK_BACK:
		for (int j = 0; j < SEATS; j++)
			if (m->r.complete < m->t.step && has_held(m, j))
				breaks(m, "5: the group goes back, though a member has its head and tail");
		sl_trunk_gathers(&m->t);
		return true;
	case SL_TRUNK_BEHIND:
		m->seat[k].prepared = false;
		sl_trunk_prepared(&m->t, k, true);
		return true;
	case SL_TRUNK_CATCH_UP:
		catch_up(m, k);
		return true;
	case SL_TRUNK_LET_GO:
		let_go(m);
		return true;
	case SL_TRUNK_APPLY:
		apply(m);
		return true;
	default:
		return false;
	}
}

/* As advance, until nothing is left to do. */
static void run(struct model *m)
{
	for (int turns = 0; m->w.up && m->w.there && !m->broken; turns++) {
		if (ask_ends(m))
			store_ends(m);
		else if (!keep_again(m) && !act(m))
			break;
		stand_nowhere(m);
		if (turns > 64)
			breaks(m, "4: it turns in circles");
	}
	stand_nowhere(m);
}

#endif
