/* The model of test_trunk_all.c, for that test alone: a group that waits for all, with the server's own tables, three
 * clients with their files, and the server's files. Faults can be planted in the tables and in the model. */
#ifndef SL_TESTS_SUITE_TRUNK_ALL_MODEL_H
#define SL_TESTS_SUITE_TRUNK_ALL_MODEL_H

#include "tests/suite/trunk_faults.h"

enum { SEATS = 3, STEPS = 3 };
enum proc { DEAD, ALIVE, REFUSED, OVER };
/* The last weights: a member has none; has them, and writes its model; has written it, and says so; may leave. */
enum given { GIVEN_NONE, GIVEN_SOON, GIVEN_WROTE, GIVEN_LEAVES };

/* Bytes alone, because worlds are compared by their hash. */
struct client {
	uint8_t proc, number, doubt, files, writing, given, model, lost_disk; /* model: it is written */
};
struct seat_bytes {
	uint8_t state, link, prepared, skip, asks, given, number, ends;
};
struct record_bytes {
	uint8_t state, linked, number, ends, pin[2], has, back_to, backs;
};
struct file {
	uint8_t there, note[SEATS], number[SEATS], pin[SEATS][2], has[SEATS], asked[2];
};
struct world {
	struct client client[SEATS];
	struct seat_bytes seat[SEATS];
	struct record_bytes record[SEATS];
	struct file file[STEPS + 1];
	uint8_t up, open, step, done, gone_at, file_gone_at, on_disk, asked[2], from, stays, heard;
	uint8_t crashes, servers, wipes, fills; /* how many of each may still happen */
	uint8_t full;                           /* the server's disk */
	uint8_t memory;                         /* whole: the server's memory has the state before step `done` */
};

/* A case of the search. */
struct kind {
	const char *name;
	int ranks;
	bool whole;    /* every step needs all seats; a checkpoint in every second step */
	uint8_t steps; /* length of every run */
	struct world begin;
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
	uint64_t stored[STEPS];
	const char *broken; /* the violated invariant, or NULL */
};

/* ---- files */

/* Lists the steps that a client offers to resume from. A restarted client has only its files. */
static void say_hello(struct model *m, int k)
{
	const struct client *c = &m->w.client[k];
	struct sl_hello *h = &m->hello[k];

	*h = (struct sl_hello){.run_steps = m->kind->steps};
	if (c->proc == ALIVE && c->doubt)
		h->held[h->n_held++] = c->number + 1u;
	if (c->proc == ALIVE && c->number)
		h->held[h->n_held++] = c->number;
	for (uint8_t step = STEPS; step > 0; step--)
		if ((c->files >> step & 1) && !(c->proc == ALIVE && c->number == step) && h->n_held < 4)
			h->held[h->n_held++] = step;
	if (h->n_held < 4)
		h->held[h->n_held++] = 0;
}

static int two_files(const struct client *c, uint64_t kept[2])
{
	int n = 0;

	kept[0] = kept[1] = 0;
	if (c->writing)
		kept[n++] = c->writing;
	for (uint8_t step = STEPS; step > 0 && n < 2; step--)
		if (c->files >> step & 1)
			kept[n++] = step;
	return n;
}

static void list_stored(struct model *m)
{
	m->r.stored = m->stored;
	m->r.n_stored = 0;
	for (uint8_t step = STEPS; step > 0; step--)
		if (m->w.file[step].there)
			m->stored[m->r.n_stored++] = step;
}

static bool write_file(struct model *m)
{
	struct file *f = &m->w.file[m->r.done];

	if (!m->r.done || m->w.full)
		return false;
	*f = (struct file){.there = 1};
	for (int k = 0; k < SEATS; k++) {
		const struct sl_record *s = &m->record[k];

		f->note[k] = (uint8_t)sl_record_note(&m->r, k);
		f->number[k] = (uint8_t)s->number;
		f->pin[k][0] = (uint8_t)s->pin[0];
		f->pin[k][1] = (uint8_t)s->pin[1];
		f->has[k] = s->has_files;
	}
	for (int i = 0; i < 2; i++)
		f->asked[i] = (uint8_t)m->r.asked[i];
	m->r.on_disk = m->r.done;
	list_stored(m);
	return true;
}

static void read_file(struct model *m, uint64_t step)
{
	const struct file *f = &m->w.file[step];

	for (int i = 0; i < 2; i++)
		m->r.asked[i] = step ? f->asked[i] : 0;
	for (int k = 0; k < SEATS; k++) {
		struct sl_record *s = &m->record[k];

		s->number = step ? f->number[k] : 0;
		s->pin[0] = step ? f->pin[k][0] : 0;
		s->pin[1] = step ? f->pin[k][1] : 0;
		s->has_files = step && f->has[k];
	}
}

/* ---- a world and its model */

static void expand(struct model *m, const struct world *w, const struct kind *kind)
{
	*m = (struct model){.w = *w, .kind = kind};
	m->t = (struct sl_trunk_table){.seat = m->seat,
				       .n = SEATS,
				       .end = SEATS,
				       .ranks = kind->ranks > 1,
				       .whole = kind->whole,
				       .open = w->open,
				       .step = w->step,
				       .round = 1,
				       .gone_at = w->file_gone_at,
				       .far = {.could = true, .unsafe_end = UINT64_MAX}};
	m->r = (struct sl_records){.seat = m->record,
				   .n = SEATS,
				   .end = SEATS,
				   .done = w->done,
				   .gone_at = w->gone_at,
				   .on_disk = w->on_disk,
				   .asked = {w->asked[0], w->asked[1]},
				   .stays = w->stays};
	for (int k = 0; k < SEATS; k++) {
		const struct seat_bytes *s = &w->seat[k];
		const struct record_bytes *r = &w->record[k];

		say_hello(m, k);
		m->seat[k] = (struct sl_seat){.state = s->state,
					      .link = s->link,
					      .hello = s->link ? &m->hello[k] : NULL,
					      .prepared = s->prepared,
					      .skip = s->skip,
					      .asks = s->asks,
					      .given = s->given,
					      .number = s->number,
					      .ends_at = s->ends};
		m->record[k] = (struct sl_record){.state = r->state,
						  .hello = r->linked ? &m->hello[k] : NULL,
						  .has_files = r->has,
						  .number = r->number,
						  .ends_at = r->ends,
						  .pin = {r->pin[0], r->pin[1]},
						  .back_to = r->back_to,
						  .backs = r->backs};
	}
	list_stored(m);
}

static void compress(struct world *w, const struct model *m)
{
	*w = m->w;
	w->open = m->t.open;
	w->step = (uint8_t)m->t.step;
	w->done = (uint8_t)m->r.done;
	w->gone_at = (uint8_t)m->r.gone_at;
	w->file_gone_at = (uint8_t)m->t.gone_at;
	w->on_disk = (uint8_t)m->r.on_disk;
	w->asked[0] = (uint8_t)m->r.asked[0];
	w->asked[1] = (uint8_t)m->r.asked[1];
	w->stays = m->r.stays;
	for (int k = 0; k < SEATS; k++) {
		const struct sl_seat *s = &m->seat[k];
		const struct sl_record *r = &m->record[k];

		w->seat[k] =
			(struct seat_bytes){(uint8_t)s->state, (uint8_t)s->link,   s->prepared,        s->skip, s->asks,
					    s->given,          (uint8_t)s->number, (uint8_t)s->ends_at};
		w->record[k] = (struct record_bytes){(uint8_t)r->state,
						     r->hello != NULL,
						     (uint8_t)r->number,
						     (uint8_t)r->ends_at,
						     {(uint8_t)r->pin[0], (uint8_t)r->pin[1]},
						     r->has_files,
						     (uint8_t)r->back_to,
						     (uint8_t)r->backs};
	}
}

static void breaks(struct model *m, const char *sentence)
{
	if (!m->broken)
		m->broken = sentence;
}

/* ---- what the server does */

static void link_over(struct model *m, int k, enum sl_seat_end how)
{
	bool all;
	enum sl_last last;

	if (!m->w.up || m->seat[k].link == SL_LINK_NONE)
		return;
	all = sl_trunk_over(&m->t, k, how);
	if (all) {
		sl_trunk_gathers(&m->t);
		for (int i = 0; i < SEATS; i++)
			if (i != k)
				link_over(m, i, SL_SEAT_LOST);
	}
	if (!m->record[k].hello)
		return;
	sl_record_over(&m->r, k, how);
	last = sl_records_last(&m->r, how);
	if (last == SL_LAST_WRITE)
		(void)write_file(m);
	if (last != SL_LAST_REMOVE)
		return;
	for (uint8_t step = 1; step <= STEPS; step++)
		if (!m->r.stays || step != m->r.on_disk)
			m->w.file[step].there = 0;
	for (int i = 0; i < SEATS; i++) {
		const struct client *c = &m->w.client[i];

		if (c->proc != OVER && c->files && m->record[i].number &&
		    !(m->r.stays && sl_hello_holds(&m->hello[i], m->r.on_disk)))
			breaks(m, "2: files are removed that a seat needs");
	}
	list_stored(m);
}

static void refuse(struct model *m, int k)
{
	bool behind = true;

	m->w.client[k].proc = REFUSED;
	m->w.client[k].doubt = 0;
	link_over(m, k, SL_SEAT_LOST);
	/* if all others have two newer files, a member cannot take them back, whatever happened to its own */
	for (int i = 0; i < SEATS; i++)
		behind = behind && (i == k || m->record[i].pin[1]);
	if (behind)
		m->w.client[k].lost_disk = 1;
	if (!m->w.client[k].lost_disk && !m->w.client[k].model)
		breaks(m, "3: a member is refused that lost nothing");
}

static void welcome(struct model *m, int k)
{
	struct client *c = &m->w.client[k];
	const uint64_t step = m->record[k].number;

	if (!sl_hello_holds(&m->hello[k], step))
		breaks(m, "3: a member goes on from a step that it does not hold");
	if (!c->lost_disk && step != m->r.done)
		breaks(m, "3: a member goes on from another step than the others");
	sl_trunk_welcome(&m->t, k, step);
	c->proc = ALIVE;
	c->number = (uint8_t)m->seat[k].number;
	c->doubt = c->given = 0;
	c->model = c->model && c->number == m->kind->steps;
	for (uint8_t later = c->number + 1; later <= STEPS; later++) /* files of the abandoned history */
		c->files &= (uint8_t) ~(1 << later);
	if (c->writing > c->number)
		c->writing = 0;
}

/* Violated if one member starts anew, and all others have reported two files after the step that all go back to. */
static void check_back(struct model *m, uint64_t step)
{
	int fresh = 0, others = 0, later = 0;

	for (int k = 0; k < SEATS; k++) {
		if (!m->record[k].hello)
			continue;
		fresh += sl_hello_is_new(&m->hello[k]);
		others += !sl_hello_is_new(&m->hello[k]);
		later += !sl_hello_is_new(&m->hello[k]) && m->record[k].pin[1] > step;
	}
	if (fresh == 1 && others && later == others)
		breaks(m, "2: all go back behind checkpoints that the others have");
}

static bool all_hold(const struct model *m, uint64_t step)
{
	for (int k = 0; k < SEATS; k++)
		if (m->record[k].hello && !sl_hello_holds(m->record[k].hello, step))
			return false;
	return true;
}

static void open_from(struct model *m, uint64_t step)
{
	for (int k = 0; k < SEATS; k++)
		if (m->w.client[k].proc == OVER && step < m->kind->steps)
			breaks(m, "3: steps are done again without a member that has ended");
	sl_records_begin(&m->r, step);
	m->w.memory = m->kind->whole;
	m->w.from = (uint8_t)step;
	for (uint64_t later = step + 1; later <= STEPS; later++) /* files of the abandoned history */
		m->w.file[later].there = 0;
	list_stored(m);
	sl_trunk_opens(&m->t, step);
	for (int k = 0; k < SEATS; k++)
		if (m->seat[k].link == SL_LINK_JOINING)
			welcome(m, k);
}

/* All seats stand at the step whose state the server has in memory. */
static bool from_memory(const struct model *m, uint64_t step)
{
	for (int k = 0; k < SEATS; k++)
		if (m->record[k].number != step)
			return false;
	return m->kind->whole && m->w.memory && step == m->r.done;
}

static bool begin_from(struct model *m, uint64_t step)
{
	if (!all_hold(m, step) || !sl_records_can_begin(&m->r, step, NULL) ||
	    (step && !m->w.file[step].there && !from_memory(m, step)))
		return false;
	check_back(m, step);
	if (!from_memory(m, step))
		read_file(m, step);
	open_from(m, step);
	return true;
}

static void choose(struct model *m)
{
	const uint64_t was = m->r.done;
	const bool had = m->kind->whole && m->w.memory && m->w.up;
	int stranger = -1, here = 0, fresh = 0;
	bool hold;

	for (int k = 0; k < SEATS; k++) {
		m->record[k].hello = m->seat[k].hello;
		here += m->seat[k].hello != NULL;
		fresh += m->seat[k].hello && sl_hello_is_new(m->seat[k].hello);
	}
	hold = here == SEATS && all_hold(m, was);
	if (here == SEATS)
		sl_records_await_all(&m->r);
	if (m->r.n_stored && fresh < here && !(had && hold)) {
		read_file(m, m->stored[0]);
		stranger = sl_records_stranger(&m->r);
	}
	if (stranger >= 0) {
		refuse(m, stranger);
		return;
	}
	for (int step = STEPS; step >= 0; step--) {
		if (begin_from(m, (uint64_t)step))
			return;
		if (m->r.n_stored &&
		    !(had && hold && (uint64_t)step > was)) /* check_back uses what the newest file says */
			read_file(m, m->stored[0]);
	}
	for (int k = 0; k < SEATS; k++)
		if (m->seat[k].link != SL_LINK_NONE)
			refuse(m, k);
}

static void go_back(struct model *m, int but)
{
	sl_trunk_gathers(&m->t);
	for (int k = 0; k < SEATS; k++)
		if (k != but)
			link_over(m, k, SL_SEAT_LOST);
}

static void come(struct model *m, int k)
{
	uint64_t newest;
	enum sl_come how;

	m->record[k].hello = m->seat[k].hello;
	how = sl_record_come(&m->r, k, &newest);
	if (how == SL_COME_LOST || how == SL_COME_NOWHERE) {
		refuse(m, k);
		return;
	}
	sl_record_came(&m->r, k, how);
	for (int i = 0; i < SEATS && how == SL_COME_LONGER; i++)
		if (m->record[i].state == SL_SEAT_IN && m->seat[i].state == SL_SEAT_DONE)
			m->seat[i].state = SL_SEAT_IN;
	if (how == SL_COME_BACK || how == SL_COME_LONGER)
		go_back(m, k);
	else
		welcome(m, k);
}

static void decided(struct model *m, int k)
{
	struct client *c = &m->w.client[k];
	uint64_t kept[2];

	two_files(c, kept);
	sl_record_keeps(&m->record[k], kept, c->writing != 0, m->r.done);
	m->seat[k].prepared = m->seat[k].skip = false;
	m->seat[k].number = m->record[k].number;
	c->number = (uint8_t)m->seat[k].number;
	c->doubt = 0;
}

static void apply(struct model *m)
{
	const uint64_t was[2] = {m->r.asked[0], m->r.asked[1]};
	struct sl_took took[SEATS];

	for (int k = 0; k < SEATS; k++) {
		took[k] = (struct sl_took){sl_seat_is_ready(&m->t, k), false};
		if (!took[k].part && m->record[k].state == SL_SEAT_IN)
			breaks(m, "6: a step that needs all seats is done without one");
	}
	sl_records_stepped(&m->r, took, 1);
	m->t.step = m->r.done;
	for (int k = 0; k < SEATS; k++)
		if (took[k].part)
			decided(m, k);
	m->w.memory = m->kind->whole;
	if (m->kind->whole && m->r.done % 2 && m->r.done != m->kind->steps)
		return;
	m->r.asked[1] = m->r.asked[0];
	m->r.asked[0] = m->r.done;
	m->r.stays = write_file(m);
	if (!m->r.stays)
		memcpy(m->r.asked, was, sizeof was);
	for (int k = 0; k < SEATS && m->r.stays; k++)
		if (took[k].part && !m->w.client[k].writing)
			m->w.client[k].writing = m->w.client[k].number;
}

static void let_go(struct model *m)
{
	bool leaves[SEATS], gets[SEATS], noted = true;
	enum sl_seat_state was[SEATS];

	for (int k = 0; k < SEATS; k++) {
		gets[k] = sl_trunk_may_leave(&m->t, k);
		leaves[k] = m->seat[k].given && m->seat[k].asks && (gets[k] || m->seat[k].link == SL_LINK_NONE);
		was[k] = m->record[k].state;
		if (leaves[k] || (gets[k] && m->record[k].number <= m->r.on_disk))
			m->record[k].state = SL_SEAT_DONE;
	}
	m->r.stays = m->r.stays || m->r.done == m->w.from;
	if (m->r.done == m->r.on_disk)
		noted = write_file(m) || MODEL_PLANTED(LEAVES_UNNOTED);
	for (int k = 0; k < SEATS; k++) {
		leaves[k] = leaves[k] || (gets[k] && noted && m->record[k].number <= m->r.on_disk);
		if (leaves[k])
			sl_record_let_go(&m->r, k);
		else
			m->record[k].state = was[k];
	}
	for (int k = 0; k < SEATS; k++)
		if (gets[k]) {
			m->seat[k].asks = false;
			m->seat[k].given = !leaves[k];
			m->w.client[k].given = leaves[k] ? GIVEN_LEAVES : GIVEN_SOON;
		}
}

/* With several ranks, the last seat is on the second rank. Each rank knows what the other has reported. */
static void stand_at(struct model *m, int rank)
{
	struct sl_trunk_tally c;

	if (m->kind->ranks < 2)
		return;
	m->t.first = rank ? 0 : SEATS - 1;
	m->t.end = rank ? SEATS - 1 : SEATS;
	c = sl_trunk_count(&m->t);
	m->t.far = sl_trunk_tell(&m->t);
	m->t.far.ready = c.ready;
	m->t.far.members = c.members;
	m->t.far.could = sl_trunk_could(&m->t);
	m->t.first = m->r.first = rank ? SEATS - 1 : 0;
	m->t.end = m->r.end = rank ? SEATS : SEATS - 1;
}

static void stand_nowhere(struct model *m)
{
	m->t.first = m->r.first = 0;
	m->t.end = m->r.end = SEATS;
}

/* All ranks choose or apply together, or none does. */
static enum sl_trunk_act next(struct model *m, int *seat)
{
	enum sl_trunk_act act = SL_TRUNK_WAIT, all = SL_TRUNK_WAIT;
	bool ready = false;

	for (int rank = 0; rank < m->kind->ranks; rank++) {
		stand_at(m, rank);
		act = sl_trunk_next(&m->t, seat);
		if (act == SL_TRUNK_COME || act == SL_TRUNK_LET_GO)
			return act;
		all = rank == 0 || all == act ? act : SL_TRUNK_WAIT;
	}
	for (int k = 0; k < SEATS; k++)
		ready = ready || sl_seat_is_ready(&m->t, k);
	return all == SL_TRUNK_APPLY && !ready ? SL_TRUNK_WAIT : all; /* the ranks agree, but no seat is ready */
}

static void run(struct model *m)
{
	for (int turns = 0; m->w.up && !m->broken; turns++) {
		int seat;
		const enum sl_trunk_act act = next(m, &seat);

		if (act == SL_TRUNK_WAIT)
			break;
		if (act != SL_TRUNK_COME && act != SL_TRUNK_LET_GO)
			stand_nowhere(m);
		if (act == SL_TRUNK_CHOOSE)
			choose(m);
		else if (act == SL_TRUNK_COME)
			come(m, seat);
		else if (act == SL_TRUNK_LET_GO)
			let_go(m);
		else
			apply(m);
		stand_nowhere(m);
		if (turns > 64)
			breaks(m, "1: it turns in circles");
	}
	stand_nowhere(m);
}

#endif
