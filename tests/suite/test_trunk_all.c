/* Searches all states of a group of three seats that waits for all, breadth first (test_trunk_table.c: groups that go
 * on). Members join, do their part, finish and crash; the server ends and restarts. In each state:
 *
 *   1. Nobody waits for a seat that is not awaited, or whose member can never come.
 *   2. A record is removed only if no seat can need it.
 *   3. All members that are in resume from one step, which each of them holds. A member that lost
 *      nothing is not refused. No step is done again without a member that has ended.
 *   4. A seat whose run is finished never blocks.
 *   5. Once faults end, all can come to the end, unless one has lost its files.
 *   6. No step is done without a member that is in.
 *
 * Each planted fault must break one of them. */

#include "common/base/clock.h"
#include "tests/suite/trunk_all_model.h"
#include "tests/support/unit.h"

/* ---- events */

enum event { JOIN, PART, WRITTEN, ASK, BYE, SERVER_BEGINS, CRASH, BREAK, WIPE, FILL, SERVER_ENDS, EVENTS };
static const char *const event_name[EVENTS] = {"joins",
					       "does its part",
					       "has written its file",
					       "asks",
					       "says goodbye",
					       "the server begins",
					       "crashes",
					       "loses its link",
					       "loses its disk",
					       "the server's disk is full",
					       "the server ends"};

static bool may_do_part(const struct model *m, int k)
{
	const struct client *c = &m->w.client[k];

	return m->seat[k].link == SL_LINK_OPEN && !c->doubt && !c->given && !m->seat[k].asks &&
	       c->number < m->kind->steps;
}

static bool joins(struct model *m, int k)
{
	struct client *c = &m->w.client[k];

	if (!m->w.up || m->seat[k].link != SL_LINK_NONE || c->proc == REFUSED || c->proc == OVER)
		return false;
	sl_trunk_joins(&m->t, k, &m->hello[k]);
	if (!m->w.heard) /* the newest file says who is awaited */
		for (int i = 0; i < SEATS; i++)
			m->seat[i].state = m->record[i].state;
	m->w.heard = 1;
	return true;
}

static bool does_part(struct model *m, int k)
{
	if (!may_do_part(m, k))
		return false;
	m->w.client[k].doubt = 1;
	sl_trunk_prepared(&m->t, k, false);
	return true;
}

static bool has_written(struct model *m, int k)
{
	struct client *c = &m->w.client[k];

	const uint8_t last = m->kind->steps;

	if (c->proc != ALIVE ||
	    (!c->writing && !(c->number == last && !(c->files >> last & 1) && m->w.file[last].there)))
		return false;
	c->files |= (uint8_t)(1 << (c->writing ? c->writing : m->kind->steps));
	c->writing = 0;
	while (__builtin_popcount(c->files) > 2)
		c->files &= (uint8_t)(c->files - 1);
	return true;
}

static bool asks(struct model *m, int k)
{
	struct client *c = &m->w.client[k];

	if (m->seat[k].link != SL_LINK_OPEN || c->number < m->kind->steps || c->writing || c->given > GIVEN_SOON ||
	    m->seat[k].asks || (!(c->files >> m->kind->steps & 1) && m->w.file[m->kind->steps].there))
		return false;
	if (c->given)
		c->given = c->model = GIVEN_WROTE;
	sl_trunk_asks(&m->t, k);
	return true;
}

static bool says_goodbye(struct model *m, int k)
{
	struct client *c = &m->w.client[k];

	if (c->given != GIVEN_LEAVES)
		return false;
	c->given = 0;
	c->proc = OVER;
	link_over(m, k, SL_SEAT_LEFT); /* whether or not the server hears it */
	return true;
}

static bool crashes(struct model *m, int k, bool link_alone)
{
	struct client *c = &m->w.client[k];

	if (!m->w.crashes || c->proc != ALIVE || (link_alone && m->seat[k].link == SL_LINK_NONE))
		return false;
	m->w.crashes--;
	link_over(m, k, SL_SEAT_LOST);
	if (link_alone)
		return true;
	c->proc = DEAD;
	c->doubt = c->writing = c->number = c->given = 0;
	return true;
}

static bool loses_disk(struct model *m, int k)
{
	struct client *c = &m->w.client[k];

	if (!m->w.wipes || m->w.crashes || c->proc != DEAD)
		return false;
	m->w.wipes--;
	c->files = 0;
	c->lost_disk = 1;
	return true;
}

static bool fills_disk(struct model *m)
{
	if (!m->w.fills)
		return false;
	m->w.fills--;
	m->w.full = 1;
	return true;
}

static bool server_ends(struct model *m)
{
	if (!m->w.up || !m->w.servers)
		return false;
	m->w.servers--;
	m->w.up = m->w.heard = m->w.memory = 0;
	m->t.open = false;
	m->t.step = m->t.gone_at = 0;
	m->r.done = m->r.gone_at = m->r.on_disk = 0;
	memset(m->r.asked, 0, sizeof m->r.asked);
	m->r.stays = false;
	memset(m->seat, 0, sizeof m->seat);
	memset(m->record, 0, sizeof m->record);
	for (int k = 0; k < SEATS; k++)
		m->record[k].state = m->seat[k].state = SL_SEAT_IN;
	return true;
}

static bool server_begins(struct model *m)
{
	char note[SEATS + 1] = "";
	bool any = false;

	if (m->w.up)
		return false;
	m->w.up = 1;
	for (int k = 0; k < SEATS && m->r.n_stored; k++) {
		note[k] = (char)m->w.file[m->stored[0]].note[k];
		any = any || note[k] != SL_NOTE_IN;
	}
	if (any) {
		sl_records_read_note(&m->r, note, m->stored[0]);
		m->t.gone_at = m->r.gone_at;
	}
	return true;
}

static bool happens(struct model *m, enum event what, int k)
{
	switch (what) {
	case JOIN:
		return joins(m, k);
	case PART:
		return does_part(m, k);
	case WRITTEN:
		return has_written(m, k);
	case ASK:
		return asks(m, k);
	case BYE:
		return says_goodbye(m, k);
	case CRASH:
		return crashes(m, k, false);
	case BREAK:
		return crashes(m, k, true);
	case WIPE:
		return loses_disk(m, k);
	case FILL:
		return k == 0 && fills_disk(m);
	case SERVER_ENDS:
		return k == 0 && server_ends(m);
	case SERVER_BEGINS:
		return k == 0 && server_begins(m);
	default:
		return false;
	}
}

/* ---- the invariants */

/* If somebody waits and the tables have nothing to do, some seat must be awaited. */
static void check(struct model *m)
{
	bool waits = false, awaited = false;

	for (int k = 0; k < SEATS && m->w.up; k++)
		waits = waits || (m->seat[k].link == SL_LINK_JOINING && !m->w.client[k].model) || m->seat[k].prepared ||
			(m->seat[k].asks && m->seat[k].link == SL_LINK_OPEN);
	for (int k = 0; k < SEATS && waits; k++) {
		const struct sl_seat *s = &m->seat[k];
		const struct client *c = &m->w.client[k];
		const bool blocks =
			(s->state == SL_SEAT_IN && !s->prepared && s->link != SL_LINK_JOINING) || s->given != s->asks;

		awaited = awaited || blocks;
		if (blocks && c->proc == OVER)
			breaks(m, "4: a seat whose run is finished blocks the others");
		if (blocks && c->proc == REFUSED && !c->lost_disk && !c->model)
			breaks(m, "1: all wait for a member that cannot come");
	}
	if (waits && !awaited)
		breaks(m, "1: all wait, and nobody is awaited");
}

/* A member that has lost its files may keep the others waiting: an operator helps. */
static bool is_goal(const struct world *w)
{
	int over = 0;

	for (int k = 0; k < SEATS; k++) {
		if (w->client[k].proc == REFUSED)
			return true;
		over += w->client[k].proc == OVER || w->client[k].model;
	}
	return over == SEATS;
}

static void first_world(struct world *w, const struct kind *kind)
{
	*w = kind->begin;
	w->up = 1;
	for (int k = 0; k < SEATS; k++)
		w->seat[k].state = w->record[k].state = SL_SEAT_IN;
}

#include "tests/suite/trunk_search.h"

/* ---- cases */

/* LOST_LATE: five million states, so it is searched for its planted fault alone, and with SPLIT_LONG. */
enum { FIXED, LOSES_A_DISK, FULL_DISK, TWO_RANKS, WHOLE, LOST_LATE, KINDS };
static const struct kind kinds[KINDS] = {
	[FIXED] = {"three members that crash, and whose server does", 1, false, 2, {.crashes = 2, .servers = 1}},
	[LOSES_A_DISK] = {"three members, of whom one loses its disk", 1, false, 3, {.crashes = 1, .wipes = 1}},
	[FULL_DISK] = {"three members, and a server whose disk is full",
		       1,
		       false,
		       2,
		       {.crashes = 1, .servers = 1, .fills = 1}},
	[TWO_RANKS] = {"three members of two ranks", 2, false, 2, {.crashes = 2}},
	[WHOLE] = {"three parties that do each step together", 1, true, 3, {.crashes = 1, .servers = 1}},
	[LOST_LATE] = {"three members that crash, in three steps", 1, false, 3, {.crashes = 2, .servers = 1}},
};

static void test_all_states(void **state)
{
	planted = NO_FAULT;
	for (int i = 0; i < (getenv("SPLIT_LONG") ? KINDS : LOST_LATE); i++) {
		const uint64_t start = sl_now_ns();
		size_t states;
		const char *broken = search(&kinds[i], &states);

		printf("%s: %zu states, %.1f s\n", kinds[i].name, states, sl_seconds_since(start));
		if (broken)
			fail_msg("%s: %s", kinds[i].name, broken);
	}
}

static void test_planted_faults(void **state)
{
	static const struct {
		enum fault fault;
		int kind;
	} where[] = {{NONE_TO_LOSE, FIXED},
		     {NOBODY_NOTES_WHO_LEFT, FIXED},
		     {GOODBYE_MUST_BE_HEARD, FIXED},
		     {ONE_TAKES_ALL_BACK, LOSES_A_DISK},
		     {LEAVE_AT_ONCE, FIXED},
		     {BEING_WRITTEN_COUNTS, FIXED},
		     {OTHER_RANKS_MAY_REDO, TWO_RANKS},
		     {LINKED_ALONE_COUNT, LOST_LATE},
		     {ANY_RUN_IS_LONGER, FULL_DISK},
		     {MODELS_NEED_NOT_BE_WRITTEN, FULL_DISK},
		     {LEAVES_UNNOTED, FULL_DISK}};

	for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
		const char *broken;
		size_t states;

		planted = where[i].fault;
		broken = search(&kinds[where[i].kind], &states);
		printf("planted fault %d, %zu states: %s\n", (int)planted, states, broken ? broken : "not found");
		assert_non_null(broken);
	}
	planted = NO_FAULT;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_states),
		cmocka_unit_test(test_planted_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
