/* Searches all states of a group of three seats, breadth first: members call, do their part, finish, crash, lose their
 * links and their files; time runs out; the server dies and begins; its disk is full. The tables are the server's own
 * (trunk_table.c, trunk_records.c). In each state:
 *
 *   1. A member that is in has exactly the history that the log tells, so `--local --absent` repeats it.
 *   2. No member has missed more steps than share.least allows, and no step has fewer members than share.quorum.
 *      With share.least above 0 no step is done before all have come.
 *   3. A member leaves only when a complete last state is on the server's disk.
 *   4. Once faults end, all can come to the end: nobody waits for ever, and nobody is refused.
 *   5. The group goes back only if the server died, or nobody has head and tail.
 *   6. It never goes back behind a complete checkpoint.
 *   7. Where each step needs all, kills change nothing but who repeats which steps, and nobody leaves whom another one
 *      needs for that. There 5 and 6 do not hold.
 *
 * Each planted fault must break one of them. */

#include "common/base/clock.h"
#include "tests/suite/trunk_model_loop.h"
#include "tests/support/unit.h"

/* ---- events */

enum event {
	CALL,
	PART,
	GIVE,
	TIMER,
	ASK,
	BYE,
	BYE_UNHEARD,
	SERVER_BEGINS,
	ROOM,
	CRASH, /* from here on faults */
	CRASH_UNWRITTEN,
	CUT,
	SERVER_ENDS,
	WIPE,
	FILL,
	PAUSE,
	LEAVE,
	LIE,
	EVENTS
};
static const char *const event_name[EVENTS] = {"calls",
					       "does its part",
					       "gives head and tail",
					       "is waited for in vain",
					       "asks for its last weights",
					       "says goodbye",
					       "says goodbye, unheard",
					       "the server begins",
					       "the disk has room",
					       "dies",
					       "dies before its checkpoint is written",
					       "is cut off",
					       "the server dies",
					       "loses its files",
					       "the disk is full",
					       "is stopped",
					       "says goodbye before its end",
					       "gives a wrong head and tail"};

static bool calls(struct model *m, int k)
{
	struct member *p = &m->w.m[k];
	const int newest = newest_file(m);
	char note[SEATS + 1] = "";
	bool linked = false;

	if (!m->w.up || p->proc >= REFUSED || p->end == LEAVES || is_linked(m, k))
		return false;
	p->proc = ALIVE;
	p->end = RUNS;
	say_hello(m, k);
	for (int i = 0; i < SEATS && newest; i++)
		note[i] = (char)m->w.file[newest].note[i];
	if (!m->w.there && newest)
		sl_records_read_note(&m->r, note, (uint64_t)newest);
	m->w.there = 1;
	m->record[k].hello = &m->hello[k];
	for (int i = 0; i < SEATS && !m->w.heard; i++)
		m->seat[i].state = m->record[i].state;
	m->t.gone_at = m->w.heard ? m->t.gone_at : m->r.gone_at;
	m->w.heard = 1;
	for (int i = 0; i < SEATS; i++)
		linked = linked || is_linked(m, i);
	if (!linked && m->t.open && m->seat[k].state == SL_SEAT_DONE && sl_hello_is_new(&m->hello[k]))
		sl_trunk_gathers(&m->t); /* begins_another_run */
	sl_trunk_joins(&m->t, k, &m->hello[k]);
	return true;
}

/* Its part of a step, or it skips one that was done without it. */
static bool does_part(struct model *m, int k)
{
	struct member *p = &m->w.m[k];
	const struct sl_seat *s = &m->seat[k];

	if (!m->t.open || s->link != SL_LINK_OPEN || s->prepared || s->number >= m->kind->steps)
		return false;
	hears(m, k);
	p->ahead = s->number == m->t.step;
	sl_trunk_prepared(&m->t, k, false);
	return true;
}

static bool asks(struct model *m, int k)
{
	struct member *p = &m->w.m[k];

	if (m->seat[k].link != SL_LINK_OPEN || m->seat[k].asks || m->seat[k].number < m->kind->steps ||
	    p->end == ASKED_AGAIN || p->end == LEAVES)
		return false;
	hears(m, k);
	if (m->t.own && m->w.file[m->kind->steps].there)
		keep_own(p);
	p->wrote = m->t.own ? (p->end == HAS_MODEL ? NOTHING : p->file[0].step) : 0;
	p->end = p->end == HAS_MODEL ? ASKED_AGAIN : RUNS;
	sl_trunk_asks(&m->t, k);
	return true;
}

static bool gives(struct model *m, int k, enum answer answer)
{
	bool others = false;

	if (!m->w.up || m->w.answer[k] != AWAITED || m->seat[k].link != SL_LINK_OPEN)
		return false;
	for (int i = 0; i < SEATS; i++)
		others = others || (i != k && can_give(m, i));
	if (answer == LIED && (!m->w.liars || !others))
		return false;
	m->w.liars -= answer == LIED;
	hears(m, k);
	m->w.answer[k] = (uint8_t)answer;
	return true;
}

static bool says_goodbye(struct model *m, int k, bool heard)
{
	struct member *p = &m->w.m[k];

	if (p->end != LEAVES)
		return false;
	if (!has_complete(m, m->kind->steps))
		breaks(m, "3: a member leaves, and the last state is not on the disk");
	link_over(m, k, heard ? SL_SEAT_LEFT : SL_SEAT_LOST);
	*p = (struct member){.proc = OVER};
	return true;
}

static bool crashes(struct model *m, int k, bool unwritten)
{
	struct member *p = &m->w.m[k];
	const bool newest = p->file[0].step && p->file[0].step == p->live.step;

	if (!m->w.crashes || p->proc != ALIVE || (unwritten && (!newest || p->wrote == p->live.step)) ||
	    p->wrote == NOTHING)
		return false;
	m->w.crashes--;
	link_over(m, k, SL_SEAT_LOST);
	p->live = (struct state){NOTHING, 0, 0};
	p->ahead = p->end = 0;
	p->proc = m->kind->gone && k == SEATS - 1 ? GONE : DEAD;
	if (unwritten) {
		p->file[0] = p->file[1];
		p->file[1] = (struct state){0};
		p->confirmed--;
	}
	p->wrote = m->t.own ? p->file[0].step : 0;
	if (!p->file[0].step)
		begins_anew(m, k);
	return true;
}

static bool is_cut_off(struct model *m, int k)
{
	if (!m->w.cuts || !is_linked(m, k))
		return false;
	m->w.cuts--;
	link_over(m, k, SL_SEAT_LOST);
	m->w.m[k].end = RUNS;
	return true;
}

/* It is stopped, and keeps its state; or it says goodbye before its end, and keeps none. */
static bool leaves(struct model *m, int k, bool paused)
{
	struct member *p = &m->w.m[k];

	if (!m->w.leaves || m->seat[k].link != SL_LINK_OPEN || m->seat[k].prepared || p->next.step != NOTHING ||
	    p->live.step >= m->kind->steps)
		return false;
	m->w.leaves--;
	if (paused)
		keep_own(p);
	link_over(m, k, paused ? SL_SEAT_PAUSED : SL_SEAT_LEFT);
	p->live = (struct state){NOTHING, 0, 0};
	p->proc = DEAD;
	if (!p->file[0].step)
		begins_anew(m, k);
	return true;
}

static bool server_ends(struct model *m)
{
	if (!m->w.up || !m->w.servers)
		return false;
	m->w.servers--;
	m->w.up = 0;
	for (int k = 0; k < SEATS; k++) {
		m->w.m[k].next = (struct state){NOTHING, 0, 0};
		m->w.m[k].end = RUNS; /* its weights may not have arrived */
	}
	drop(m);
	return true;
}

static bool loses_files(struct model *m, int k)
{
	if (!m->w.wipes || m->w.m[k].proc != DEAD || !m->w.m[k].file[0].step)
		return false;
	m->w.wipes--;
	begins_anew(m, k);
	return true;
}

static bool flips(uint8_t *left, uint8_t *what, uint8_t to)
{
	if (!*left || *what == to)
		return false;
	--*left;
	*what = to;
	return true;
}

static bool happens(struct model *m, enum event what, int k)
{
	uint8_t one = 1;

	switch (what) {
	case CALL:
		return calls(m, k);
	case PART:
		return does_part(m, k);
	case GIVE:
		return gives(m, k, THERE);
	case TIMER:
		if (!m->w.up || !m->w.there || m->seat[k].tired ||
		    !sl_trunk_waits_for(&m->t, k, sl_trunk_patience_for(&m->t)))
			return false;
		m->seat[k].tired = true;
		return true;
	case ASK:
		return asks(m, k);
	case BYE:
	case BYE_UNHEARD:
		return says_goodbye(m, k, what == BYE);
	case SERVER_BEGINS:
		return k == 0 && flips(&one, &m->w.up, 1);
	case ROOM:
		return k == 0 && flips(&one, &m->w.full, 0);
	case CRASH:
	case CRASH_UNWRITTEN:
		return crashes(m, k, what == CRASH_UNWRITTEN);
	case CUT:
		return is_cut_off(m, k);
	case SERVER_ENDS:
		return k == 0 && server_ends(m);
	case WIPE:
		return loses_files(m, k);
	case FILL:
		return k == 0 && flips(&m->w.fills, &m->w.full, 1);
	case PAUSE:
	case LEAVE:
		return leaves(m, k, what == PAUSE);
	case LIE:
		return gives(m, k, LIED);
	default:
		return false;
	}
}

/* ---- the invariants */

static void check_member(struct model *m, int k)
{
	const struct member *p = &m->w.m[k];
	const struct state *s = p->next.step == NOTHING ? &p->live : &p->next;
	int missed = 0;

	if (m->seat[k].link == SL_LINK_OPEN && (s->step != m->seat[k].number || s->taken != told(m, k, s->step)))
		breaks(m, "1: a member has another history than the log");
	for (int step = 0; step < (int)m->t.step; step++)
		missed += !(set_of(m, step) >> k & 1);
	if (missed > (1 - m->kind->least) * m->kind->steps + 1e-9 && !m->kind->anyway)
		breaks(m, "2: a member has missed more steps than share.least allows");
	if (m->kind->least > 0 && m->t.step && m->seat[k].state == SL_SEAT_NEVER)
		breaks(m, "2: steps are done before a member has ever come");
}

static void check(struct model *m)
{
	int over = 0, gone = 0;

	for (int k = 0; k < SEATS; k++)
		over += m->w.m[k].proc >= OVER || m->w.m[k].end == LEAVES;
	for (int k = 0; k < SEATS; k++)
		gone += m->w.m[k].proc == GONE;
	if (over > gone && over < SEATS && !has_complete(m, m->kind->steps))
		breaks(m, "3: a member has left, and the last state is not on the disk");
	if (m->r.complete && !has_complete(m, m->r.complete) && over < SEATS)
		breaks(m, "6: a checkpoint that is not on the disk counts as complete");
	if (m->w.best && !has_complete(m, m->w.best) && over < SEATS && !sl_trunk_needs_all(&m->t))
		breaks(m, "6: the newest complete checkpoint is gone");
	if (!m->w.up || !m->t.open)
		return;
	for (int step = 0; step < (int)m->t.step; step++)
		if (__builtin_popcount(set_of(m, step)) < m->kind->quorum)
			breaks(m, "2: a step is done by fewer members than share.quorum");
	for (int k = 0; k < SEATS; k++)
		check_member(m, k);
}

static bool is_goal(const struct world *w)
{
	for (int k = 0; k < SEATS; k++)
		if (w->m[k].proc < OVER)
			return false;
	return true;
}

/* ---- cases, and their search */

static void first_world(struct world *w, const struct kind *kind)
{
	memset(w, 0, sizeof *w);
	w->up = 1;
	w->ends_of = w->from = NOTHING;
	for (int k = 0; k < SEATS; k++) {
		w->m[k].live.step = w->m[k].next.step = NOTHING;
		w->seat[k].state = w->record[k] = SL_SEAT_NEVER;
	}
	w->crashes = kind->crashes;
	w->cuts = kind->cuts;
	w->servers = kind->servers;
	w->wipes = kind->wipes;
	w->fills = kind->fills;
	w->leaves = kind->leaves;
	w->liars = kind->liars;
}

#include "tests/suite/trunk_search.h"

/* ---- cases */

/* From SHARED_LONG on: with SPLIT_LONG; elsewhere only the faults that are planted there. */
enum {
	CUTS,
	SERVER,
	FULL,
	FULL_DIES,
	FILES,
	LEAST_0,
	STOPPED,
	LIAR,
	PRIVATE,
	PRIVATE_0,
	PRIVATE_CUTS,
	PRIVATE_BOTH,
	GONE_FOR_GOOD,
	ALL,
	ALL_FILES,
	ALL_PRIVATE,
	ALL_FULL,
	WHOLE,
	RANKS,
	SHARED_LONG,
	PRIVATE_LONG,
	KINDS
};
static const struct kind kinds[KINDS] = {
	[CUTS] = {.name = "shared, kills and cuts",
		  .shared = true,
		  .least = 0.66,
		  .quorum = 1,
		  .steps = 2,
		  .every = 1,
		  .crashes = 1,
		  .cuts = 1},
	[SERVER] = {.name = "shared, quorum 2, the server dies",
		    .shared = true,
		    .least = 0.66,
		    .quorum = 2,
		    .steps = 3,
		    .every = 1,
		    .servers = 1},
	[FULL] = {.name = "shared, the disk is full",
		  .shared = true,
		  .least = 0.66,
		  .quorum = 1,
		  .steps = 2,
		  .every = 1,
		  .servers = 1,
		  .fills = 1},
	[FULL_DIES] = {.name = "shared, a member dies, the disk is full",
		       .shared = true,
		       .least = 0.66,
		       .quorum = 1,
		       .steps = 2,
		       .every = 1,
		       .crashes = 1,
		       .fills = 1},
	[FILES] = {.name = "shared, files are lost",
		   .shared = true,
		   .least = 0.66,
		   .quorum = 1,
		   .steps = 2,
		   .every = 1,
		   .crashes = 1,
		   .wipes = 1,
		   .servers = 1},
	[LEAST_0] = {.name = "shared, least 0, members come and go",
		     .shared = true,
		     .least = 0,
		     .quorum = 1,
		     .steps = 2,
		     .every = 2,
		     .cuts = 1},
	[STOPPED] = {.name = "shared, members are stopped",
		     .shared = true,
		     .least = 0.66,
		     .quorum = 2,
		     .steps = 2,
		     .every = 1,
		     .leaves = 1,
		     .servers = 1},
	[LIAR] = {.name = "shared, one lies",
		  .shared = true,
		  .least = 0.66,
		  .quorum = 1,
		  .steps = 2,
		  .every = 1,
		  .liars = 1,
		  .cuts = 1},
	[PRIVATE] = {.name = "private, the server dies",
		     .least = 0.66,
		     .quorum = 1,
		     .steps = 2,
		     .every = 1,
		     .crashes = 1,
		     .servers = 1},
	[PRIVATE_0] = {.name = "private, least 0, members come and go",
		       .least = 0,
		       .quorum = 1,
		       .steps = 2,
		       .every = 2,
		       .leaves = 1},
	[PRIVATE_CUTS] = {.name = "private, go_on, links are cut",
			  .least = 0.66,
			  .quorum = 2,
			  .steps = 2,
			  .every = 2,
			  .anyway = true,
			  .cuts = 2},
	[PRIVATE_BOTH] = {.name = "private, kills and cuts",
			  .least = 0.66,
			  .quorum = 1,
			  .steps = 2,
			  .every = 1,
			  .crashes = 1,
			  .cuts = 1},
	[GONE_FOR_GOOD] = {.name = "shared, least 0, quorum 2, one never comes back",
			   .shared = true,
			   .least = 0,
			   .quorum = 2,
			   .steps = 2,
			   .every = 2,
			   .gone = true,
			   .crashes = 1},
	[ALL] = {.name = "shared, needs all, kills, and the server dies",
		 .shared = true,
		 .least = 1,
		 .quorum = 3,
		 .steps = 2,
		 .every = 1,
		 .crashes = 1,
		 .cuts = 1,
		 .servers = 1},
	[ALL_FILES] = {.name = "shared, needs all, files are lost",
		       .shared = true,
		       .least = 1,
		       .quorum = 3,
		       .steps = 3,
		       .every = 1,
		       .crashes = 1,
		       .wipes = 1},
	[ALL_PRIVATE] = {.name = "private, needs all, kills, and the server dies",
			 .least = 1,
			 .quorum = 3,
			 .steps = 2,
			 .every = 1,
			 .crashes = 2,
			 .servers = 1},
	[ALL_FULL] = {.name = "private, needs all, the disk is full",
		      .least = 1,
		      .quorum = 3,
		      .steps = 2,
		      .every = 1,
		      .crashes = 1,
		      .servers = 1,
		      .fills = 1},
	[WHOLE] = {.name = "parties that do each step together",
		   .least = 1,
		   .quorum = 3,
		   .steps = 3,
		   .every = 2,
		   .whole = true,
		   .crashes = 1,
		   .servers = 1},
	[RANKS] = {.name = "members of two ranks",
		   .least = 1,
		   .quorum = 3,
		   .steps = 2,
		   .every = 1,
		   .ranks = true,
		   .crashes = 2},
	[SHARED_LONG] = {.name = "shared, kills, a full disk, and the server dies",
			 .shared = true,
			 .least = 0.66,
			 .quorum = 1,
			 .steps = 2,
			 .every = 1,
			 .crashes = 1,
			 .servers = 1,
			 .fills = 1},
	[PRIVATE_LONG] = {.name = "private, kills and cuts in three steps",
			  .least = 0.66,
			  .quorum = 2,
			  .steps = 3,
			  .every = 1,
			  .crashes = 1,
			  .cuts = 1},
};

static void test_all_states(void **state)
{
	const char *any = NULL;

	planted = NO_FAULT;
	for (int i = 0; i < (getenv("SPLIT_LONG") ? KINDS : SHARED_LONG); i++) {
		const uint64_t start = sl_now_ns();
		size_t states;
		const char *broken = search(&kinds[i], &states);

		printf("%s: %zu states, %.1f s: %s\n", kinds[i].name, states, sl_seconds_since(start),
		       broken ? broken : "ok");
		any = any ? any : broken;
	}
	if (any)
		fail_msg("%s", any);
}

static void test_planted_faults(void **state)
{
	static const struct {
		enum fault fault;
		int kind;
		const char *text;
	} plant[] = {
#define FAULT(name, kind, text) {name, kind, text},
		FAULTS_OF_TABLES(FAULT)
#undef FAULT
	};
	bool all = true;

	for (size_t i = 0; i < sizeof plant / sizeof *plant; i++) {
		const char *broken;
		size_t states;

		planted = plant[i].fault;
		broken = search(&kinds[plant[i].kind], &states);
		printf("planted, %s: %zu states: %s\n", plant[i].text, states, broken ? broken : "NOT FOUND");
		all = all && broken;
	}
	planted = NO_FAULT;
	assert_true(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_states),
		cmocka_unit_test(test_planted_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
