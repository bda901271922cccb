/* The model of test_trunk_table.c: the server's own tables, three members with their files, and the server's files.
 * What the loop and the worker do around the tables is here in small, with the names of the functions in server/group
 * that it stands for. Faults can be planted in the tables and in the model. */
#ifndef SL_TESTS_SUITE_TRUNK_MODEL_H
#define SL_TESTS_SUITE_TRUNK_MODEL_H

#include "tests/suite/trunk_faults.h"

enum { SEATS = 3, STEPS = 3, NOTHING = 255 };
enum proc { DEAD, ALIVE, REFUSED, OVER, GONE };
enum owner { NOBODY, MINE, ANOTHER }; /* whose session a seat belongs to */
/* LIED: it is there, and most others contradict it. IS_WRONG: the server has noticed. */
enum answer { NOT_ASKED, AWAITED, THERE, LIED, IS_WRONG };
/* The end of a member's run: it has its weights; it has asked again; it may leave. */
enum end { RUNS, HAS_MODEL, ASKED_AGAIN, LEAVES };

/* A state of a member. branch: who made it. taken: with shared ends a set of members for each step, three bits each;
 * otherwise the member's own steps. step NOTHING: there is none. */
struct state {
	uint8_t step, branch;
	uint16_t taken;
};
/* next: it was welcomed with that state, and has not heard it yet. ahead: it does not know whether its step was done.
 * confirmed: files that the server has, too, at most two. wrote: the newest file that is surely
 * on its disk; NOTHING: so is its model, and it is not killed any more. */
struct member {
	uint8_t proc, ahead, end, confirmed, held, wrote;
	struct state live, next, file[2];
};
struct seat_bytes {
	uint8_t state, link, flags, number, ends, missed;
};
/* What a checkpoint says, and the server's memory knows. back: a bit for each member that came back before the step
 * under way. own: for each step what the log tells of a member's own head
 * and tail before it. */
struct books {
	uint8_t number[SEATS], branch[SEATS], owner[SEATS], pin[SEATS][2], asked[2], back;
	uint16_t with, own[SEATS];
};
struct file {
	uint8_t there, ends, note[SEATS];
	struct books books;
};
/* Bytes alone, because worlds are compared as bytes. */
struct world {
	struct member m[SEATS];
	struct seat_bytes seat[SEATS];
	uint8_t record[SEATS], answer[SEATS];
	struct books books;
	struct file file[STEPS + 1];
	uint8_t up, there, heard, open, step, done, fixed, on_disk, complete, from, stays, gone_at;
	uint8_t due, giver, asked_at, ends_of, branch, full, best;
	uint8_t all; /* no checkpoint is complete, so all must be here, as before the first step */
	uint8_t crashes, cuts, servers, wipes, fills, leaves, liars; /* how many of each may still happen */
};

struct kind {
	const char *name;
	double least;
	uint8_t quorum, steps, every; /* every: steps between checkpoints */
	bool shared, gone;            /* gone: the last member never comes back when it has crashed */
	bool anyway;
	bool whole, ranks; /* all do each pass together; the last seat is on another rank */
	uint8_t crashes, cuts, servers, wipes, fills, leaves, liars;
};

/* A world in the form that the tables use. */
struct model {
	struct world w;
	const struct kind *kind;
	struct sl_seat seat[SEATS];
	struct sl_record record[SEATS];
	struct sl_hello hello[SEATS];
	struct sl_trunk_table t;
	struct sl_records r;
	const char *broken; /* the violated invariant, or NULL */
};

static void breaks(struct model *m, const char *sentence)
{
	m->broken = m->broken ? m->broken : sentence;
}

/* ---- members */

static bool is_linked(const struct model *m, int k)
{
	return m->seat[k].link != SL_LINK_NONE;
}

/* As sl_recover_offer and sl_offer_fill of the client. */
static void say_hello(struct model *m, int k)
{
	const struct member *p = &m->w.m[k];
	struct sl_hello *h = &m->hello[k];

	*h = (struct sl_hello){.run_steps = m->kind->steps};
	if (p->live.step != NOTHING && p->ahead)
		h->held[h->n_held++] = p->live.step + 1u;
	if (p->live.step != NOTHING)
		h->held[h->n_held++] = p->live.step;
	for (int i = 0; i < 2; i++)
		if (p->file[i].step && (p->live.step == NOTHING || p->file[i].step < p->live.step))
			h->held[h->n_held++] = p->file[i].step;
	if (p->confirmed < 2 && (!h->n_held || h->held[h->n_held - 1]))
		h->held[h->n_held++] = 0;
}

static void keep_own(struct member *p)
{
	if (p->file[0].step == p->live.step || !p->live.step)
		return;
	p->file[1] = p->file[0];
	p->file[0] = p->live;
	p->confirmed += p->confirmed < 2;
}

/* The member hears its Welcome: files of later steps are of a history that was given up. */
static void hears(struct model *m, int k)
{
	struct member *p = &m->w.m[k];

	if (p->next.step == NOTHING)
		return;
	if (m->t.own && (p->live.step == NOTHING || p->held < p->live.step))
		p->wrote = p->held; /* it has read it */
	p->live = p->next;
	p->next = (struct state){NOTHING, 0, 0};
	p->ahead = 0;
	while (p->file[0].step > p->held) {
		p->file[0] = p->file[1];
		p->file[1] = (struct state){0};
	}
	p->confirmed = p->held ? p->confirmed : 0;
}

/* It lost its files, or had none: the process that comes is another client's to the server. */
static void begins_anew(struct model *m, int k)
{
	struct member *p = &m->w.m[k];

	*p = (struct member){.proc = DEAD, .live = {NOTHING, 0, 0}, .next = {NOTHING, 0, 0}};
	for (int step = 0; step <= STEPS; step++) {
		struct books *b = step ? &m->w.file[step].books : &m->w.books;

		b->owner[k] = b->owner[k] ? ANOTHER : NOBODY;
	}
}

/* ---- branches: equal worlds have equal numbers, in the order in which they appear */

static void number(uint8_t *branch, uint8_t of[], uint8_t *n)
{
	if (!*branch || *branch == NOTHING)
		return;
	if (!of[*branch])
		of[*branch] = ++*n;
	*branch = of[*branch];
}

/* Returns how many there are. */
static uint8_t number_branches(struct world *w)
{
	uint8_t of[64] = {0}, n = 0;

	number(&w->branch, of, &n);
	for (int k = 0; k < SEATS; k++) {
		struct member *p = &w->m[k];

		number(&p->live.branch, of, &n);
		number(&p->next.branch, of, &n);
		number(&p->file[0].branch, of, &n);
		number(&p->file[1].branch, of, &n);
		number(&w->books.branch[k], of, &n);
		for (int step = 1; step <= STEPS; step++)
			number(&w->file[step].books.branch[k], of, &n);
	}
	return n;
}

static uint8_t new_branch(const struct model *m)
{
	struct world w = m->w;

	return (uint8_t)(number_branches(&w) + 20); /* greater than all, since the world is numbered again */
}

/* ---- a world and its model */

static uint16_t set_of(const struct model *m, int step)
{
	return m->w.books.with >> 3 * step & 7;
}

/* What the log tells of member k's state before `step`. */
static uint16_t told(const struct model *m, int k, int step)
{
	return m->kind->shared ? (uint16_t)(m->w.books.with & ((1u << 3 * step) - 1))
			       : (uint16_t)(m->w.books.own[k] >> 3 * step & 7);
}

static void expand(struct model *m, const struct world *w, const struct kind *kind)
{
	*m = (struct model){.w = *w, .kind = kind};
	m->t = (struct sl_trunk_table){.seat = m->seat,
				       .n = SEATS,
				       .end = SEATS,
				       .own = kind->least >= 1 && !kind->shared,
				       .whole = kind->whole,
				       .staying = kind->ranks,
				       .quorum = kind->quorum,
				       .least = kind->least,
				       .anyway = kind->anyway,
				       .open = w->open,
				       .stored = w->complete,
				       .keeps = true,
				       .step = w->step,
				       .round = 1,
				       .gone_at = w->gone_at};
	m->r = (struct sl_records){.seat = m->record,
				   .n = SEATS,
				   .end = SEATS,
				   .group = true,
				   .all = kind->least >= 1,
				   .ranks = kind->ranks,
				   .done = w->done,
				   .fixed = w->fixed,
				   .asked = {w->books.asked[0], w->books.asked[1]},
				   .on_disk = w->on_disk,
				   .complete = w->complete,
				   .stays = w->stays};
	for (int k = 0; k < SEATS; k++) {
		const struct seat_bytes *s = &w->seat[k];

		say_hello(m, k);
		m->seat[k] = (struct sl_seat){.state = s->state,
					      .link = s->link,
					      .hello = s->link ? &m->hello[k] : NULL,
					      .prepared = s->flags & 1,
					      .asks = s->flags >> 1 & 1,
					      .given = s->flags >> 2 & 1,
					      .tired = s->flags >> 3 & 1,
					      .number = s->number,
					      .ends_at = s->ends & 15,
					      .missed = s->missed};
		m->record[k] = (struct sl_record){.state = w->record[k],
						  .hello = m->seat[k].hello,
						  .number = w->books.number[k],
						  .ends_at = s->ends >> 4,
						  .pin = {w->books.pin[k][0], w->books.pin[k][1]}};
	}
}

static void write_books(struct books *b, const struct model *m, int k)
{
	b->number[k] = (uint8_t)m->record[k].number;
	for (int i = 0; i < 2; i++) {
		b->pin[k][i] = (uint8_t)m->record[k].pin[i];
		b->asked[i] = (uint8_t)m->r.asked[i];
	}
}

static void compress(struct world *w, const struct model *m)
{
	*w = m->w;
	w->open = m->t.open;
	w->step = (uint8_t)m->t.step;
	w->done = (uint8_t)m->r.done;
	w->fixed = (uint8_t)m->r.fixed;
	w->gone_at = (uint8_t)m->t.gone_at;
	w->on_disk = (uint8_t)m->r.on_disk;
	w->complete = (uint8_t)m->r.complete;
	w->stays = m->r.stays;
	for (int k = 0; k < SEATS; k++) {
		const struct sl_seat *s = &m->seat[k];

		w->seat[k] = (struct seat_bytes){(uint8_t)s->state,
						 (uint8_t)s->link,
						 (uint8_t)(s->prepared | s->asks << 1 | s->given << 2 | s->tired << 3),
						 (uint8_t)s->number,
						 (uint8_t)(s->ends_at | m->record[k].ends_at << 4),
						 (uint8_t)s->missed};
		w->record[k] = (uint8_t)m->record[k].state;
		write_books(&w->books, m, k);
	}
	(void)number_branches(w);
}

/* ---- the server's files */

static int newest_file(const struct model *m)
{
	int step = STEPS;

	while (step && !m->w.file[step].there)
		step--;
	return step;
}

static bool has_complete(const struct model *m, uint64_t step)
{
	return m->w.file[step].there && (m->w.file[step].ends || !m->kind->shared);
}

static void note_complete(struct model *m, uint64_t step)
{
	m->r.complete = step;
	m->w.best = m->w.best > step ? m->w.best : (uint8_t)step;
}

/* As sl_group_keep, sl_trunk_pin and the checkpoints' prune: beside this file stay the one before it, and the newest
 * complete one. */
static bool keep(struct model *m)
{
	struct file *f = &m->w.file[m->r.done];
	bool below = false;

	if (!m->r.done || m->w.full)
		return false;
	f->there = 1;
	f->books = m->w.books;
	for (int k = 0; k < SEATS; k++) {
		f->note[k] = (uint8_t)sl_record_note(&m->r, k);
		write_books(&f->books, m, k);
	}
	for (uint64_t step = m->r.done - 1; step > 0; step--) {
		bool pinned = (step == m->r.complete && !MODEL_PLANTED(THE_COMPLETE_FILE_GOES)) ||
			      (step == m->w.due && !MODEL_PLANTED(DUE_IS_NOT_PINNED));

		for (int k = 0; k < SEATS && sl_trunk_needs_all(&m->t); k++)
			pinned = pinned || m->record[k].pin[0] == step || m->record[k].pin[1] == step;
		if (m->w.file[step].there && (below || MODEL_PLANTED(THE_COMPLETE_FILE_GOES)) && !pinned)
			m->w.file[step] = (struct file){0};
		below = below || m->w.file[step].there;
	}
	m->r.on_disk = m->r.done;
	if (!m->kind->shared)
		note_complete(m, m->r.done);
	return true;
}

static void remove_later(struct model *m, uint64_t from, uint64_t but)
{
	for (uint64_t step = from; step <= STEPS; step++)
		if (step != but)
			m->w.file[step] = (struct file){0};
}

/* As sl_group_read. */
static void read_file(struct model *m, uint64_t step)
{
	m->w.books = m->w.file[step].books;
	for (int i = 0; i < 2; i++)
		m->r.asked[i] = m->w.books.asked[i];
	for (int k = 0; k < SEATS; k++) {
		m->record[k].number = m->w.books.number[k];
		m->record[k].ends_at = m->kind->steps;
		for (int i = 0; i < 2; i++)
			m->record[k].pin[i] = m->w.books.pin[k][i];
	}
}

/* ---- the end of a link */

/* As sl_group_drop: the group's memory is lost. */
static void drop(struct model *m)
{
	for (int k = 0; k < SEATS; k++) {
		m->seat[k] = (struct sl_seat){.state = SL_SEAT_NEVER};
		m->record[k] = (struct sl_record){.state = SL_SEAT_NEVER};
		m->w.answer[k] = NOT_ASKED;
	}
	m->t.open = m->r.stays = false;
	m->r.asked[0] = m->r.asked[1] = 0;
	m->t.gone_at = m->t.step = m->t.stored = m->r.done = m->r.fixed = m->r.on_disk = m->r.complete = 0;
	m->w.books = (struct books){0};
	m->w.there = m->w.heard = m->w.due = m->w.giver = m->w.asked_at = m->w.all = 0;
	m->w.from = m->w.ends_of = NOTHING;
}

/* As is_alone: it stays for those that come again. */
static bool stays_alone(const struct model *m)
{
	bool needed = false;

	for (int k = 0; k < SEATS; k++)
		needed = needed || m->seat[k].state == SL_SEAT_IN || m->seat[k].state == SL_SEAT_AWAY ||
			 m->seat[k].asks || m->seat[k].given;
	return m->t.open && needed;
}

/* As sl_group_last and sl_trunk_ended. */
static void session_ends(struct model *m, int k, enum sl_seat_end how)
{
	enum sl_last last;

	if (m->record[k].hello) {
		sl_record_over(&m->r, k, how);
		last = sl_records_last(&m->r, how);
		if (last == SL_LAST_WRITE && m->w.from != NOTHING)
			(void)keep(m);
		if (last == SL_LAST_REMOVE && m->w.from != NOTHING)
			remove_later(m, 1, m->r.stays ? m->r.on_disk : 0);
	}
	for (int i = 0; i < SEATS; i++)
		if (is_linked(m, i))
			return;
	if (!stays_alone(m))
		drop(m);
}

static void link_over(struct model *m, int k, enum sl_seat_end how)
{
	if (!m->w.up || !is_linked(m, k))
		return;
	m->w.m[k].next = (struct state){NOTHING, 0, 0};
	if (!MODEL_PLANTED(LOST_GIVER_IS_AWAITED))
		m->w.answer[k] = NOT_ASKED;
	if (sl_trunk_over(&m->t, k, how)) { /* end_others */
		sl_trunk_gathers(&m->t);
		for (int i = 0; i < SEATS; i++)
			if (i != k)
				link_over(m, i, SL_SEAT_LOST);
	}
	session_ends(m, k, how);
}

/* A sentence that ends the member's run: none of these has a reason to. */
static void refuse(struct model *m, int k)
{
	m->w.m[k].proc = REFUSED;
	link_over(m, k, SL_SEAT_LOST);
	breaks(m, "4: a member is refused that may come back");
}

#endif
