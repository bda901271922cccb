/* Searches all states of a trunk of three seats, breadth first. Members join, do their part, leave,
 * finish and crash; time runs out; the server ends and restarts. The tables are the server's own
 * (trunk_table.c, trunk_records.c). Models of three clients with their files, and of the server's
 * files, surround them. In each state these invariants hold:
 *
 *   1. Nobody waits for a seat that is not awaited, or whose member can never come.
 *   2. A record is removed only if no seat can need it.
 *   3. All members that are in resume from one step, which each of them holds. A member that lost
 *      nothing is not refused. No step is done again without a member that has ended.
 *   4. A seat whose run is finished never blocks.
 *   5. Nobody waits for a member that needs others' heads and tails. It gets them if somebody has
 *      them, and not those that others contradict.
 *   6. Where each step needs all seats, none is done without one.
 *
 * Each fault that a group once had is planted again, and the search must find it. */

#include "common/base/clock.h"
#include "tests/suite/trunk_model.h"
#include "tests/support/unit.h"

/* ---- events */

enum kind_of_event {
	JOIN,
	PART,
	WRITTEN,
	ASK,
	BYE,
	LEAVE,
	CRASH,
	BREAK,
	WIPE,
	FILL,
	TIMER,
	GIVE,
	LIE,
	SERVER_ENDS,
	SERVER_BEGINS,
	EVENTS
};

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
	sl_trunk_prepared(&m->t, k, m->seat[k].number < m->t.step);
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
	if (m->kind->least)
		c->given = GIVEN_LEAVES;
	else
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

static bool leaves(struct model *m, int k)
{
	if (!m->w.leaves || !may_do_part(m, k))
		return false;
	m->w.leaves--;
	link_over(m, k, SL_SEAT_LEFT);
	m->w.client[k].proc = DEAD;
	m->w.client[k].writing = 0;
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

static bool gives(struct model *m, int k, enum gift gift)
{
	if (m->w.giver != k + 1 || m->w.gift || (gift == WRONG && !m->w.liars))
		return false;
	m->w.liars -= gift == WRONG;
	m->w.gift = (uint8_t)gift;
	sl_trunk_has_ends(&m->t);
	return true;
}

static bool server_ends(struct model *m)
{
	if (!m->w.up || !m->w.servers)
		return false;
	m->w.servers--;
	m->w.up = m->w.heard = m->w.memory = 0;
	m->w.giver = m->w.gift = m->w.wrong = 0;
	m->t.open = false;
	m->t.step = m->t.gone_at = 0;
	m->r.done = m->r.late_at = m->r.gone_at = m->r.on_disk = 0;
	memset(m->r.asked, 0, sizeof m->r.asked);
	m->r.stays = false;
	memset(m->seat, 0, sizeof m->seat);
	memset(m->record, 0, sizeof m->record);
	for (int k = 0; k < SEATS; k++)
		m->record[k].state = m->seat[k].state = m->kind->least ? SL_SEAT_EMPTY : SL_SEAT_IN;
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

static bool happens(struct model *m, enum kind_of_event what, int k)
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
	case LEAVE:
		return leaves(m, k);
	case CRASH:
		return crashes(m, k, false);
	case BREAK:
		return crashes(m, k, true);
	case WIPE:
		return loses_disk(m, k);
	case FILL:
		return k == 0 && fills_disk(m);
	case TIMER:
		if (k || !m->w.up || !m->w.timers || !(sl_trunk_time_counts(&m->t) || sl_trunk_end_counts(&m->t)))
			return false;
		m->w.timers--;
		m->w.somebody_late = 1; /* a member that is too late to redo the last steps goes on alone */
		return true;
	case GIVE:
		return gives(m, k, RIGHT);
	case LIE:
		return gives(m, k, WRONG);
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
static void check_waiting(struct model *m)
{
	/* a late member that comes when all others are done cannot repeat their steps with them; it waits for them */
	bool waits = false, awaited = !m->t.open && m->w.somebody_late;

	/* if members come and go, share.straggler_s bounds the wait for a goodbye that was not heard */
	if (!m->w.up || (m->kind->least && sl_trunk_time_counts(&m->t)))
		return;
	for (int k = 0; k < SEATS; k++)
		waits = waits || (m->seat[k].link == SL_LINK_JOINING && !m->w.client[k].model) || m->seat[k].prepared ||
			(m->seat[k].asks && m->seat[k].link == SL_LINK_OPEN);
	for (int k = 0; k < SEATS; k++) {
		const struct sl_seat *s = &m->seat[k];
		const struct client *c = &m->w.client[k];
		const bool blocks =
			(s->state == SL_SEAT_IN && !s->prepared && s->link != SL_LINK_JOINING) || s->given != s->asks;

		awaited = awaited || blocks || (m->kind->least && c->proc != OVER);
		if (!waits || !blocks)
			continue;
		if (c->proc == OVER)
			breaks(m, "4: a seat whose run is finished blocks the others");
		if (c->proc == REFUSED && !c->lost_disk && !c->model)
			breaks(m, "1: all wait for a member that cannot come");
	}
	if (waits && !awaited)
		breaks(m, "1: all wait, and nobody is awaited");
}

static void check_ends(struct model *m)
{
	for (int k = 0; k < SEATS && m->w.up && m->t.open; k++) {
		const enum sl_seat_link link = m->seat[k].link;

		if (link == SL_LINK_GIVEN)
			breaks(m, "5: a head and tail are there, and it still waits for them");
		if (link == SL_LINK_ASKING && m->seat[k].state == SL_SEAT_IN)
			breaks(m, "5: steps wait for one that needs others' head and tail");
		for (int i = 0; i < SEATS && link == SL_LINK_ASKING; i++)
			if (!m->w.giver && can_give(m, i))
				breaks(m, "5: nobody asks one that has them");
	}
}

/* ---- the search */

struct search {
	struct node {
		struct world w;
		size_t from;
		uint8_t what, seat;
	} * queue;
	size_t head, tail, cap;
	uint64_t (*seen)[2];
	size_t mask, n;
};

static bool is_new_world(struct search *s, const struct world *w)
{
	uint64_t a = 0xcbf29ce484222325u, b = 0x9e3779b97f4a7c15u;
	const uint8_t *byte = (const uint8_t *)w;

	for (size_t i = 0; i < sizeof *w; i++) {
		a = (a ^ byte[i]) * 0x100000001b3u;
		b = (b + byte[i]) * 0xd6e8feb86659fd93u;
		b ^= b >> 29;
	}
	for (size_t at = (size_t)(a ^ b >> 7) & s->mask;; at = (at + 1) & s->mask) {
		if (!s->seen[at][0] && !s->seen[at][1]) {
			s->seen[at][0] = a;
			s->seen[at][1] = b | 1;
			s->n++;
			assert_true(s->n < s->mask);
			return true;
		}
		if (s->seen[at][0] == a && s->seen[at][1] == (b | 1))
			return false;
	}
}

static void push(struct search *s, const struct world *w, enum kind_of_event what, int seat)
{
	if (!is_new_world(s, w))
		return;
	if (s->tail == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 4096;
		s->queue = realloc(s->queue, s->cap * sizeof *s->queue);
		assert_non_null(s->queue);
	}
	s->queue[s->tail++] = (struct node){*w, s->head - 1, (uint8_t)what, (uint8_t)seat};
}

/* Prints the events that led to the last state, the latest first. */
static void say_how(const struct search *s, enum kind_of_event what, int seat)
{
	static const char *const name[EVENTS] = {"joins",
						 "does its part",
						 "has written its file",
						 "asks",
						 "says goodbye",
						 "leaves",
						 "crashes",
						 "loses its link",
						 "loses its disk",
						 "the server's disk is full",
						 "time is over",
						 "gives its ends",
						 "gives wrong ends",
						 "the server ends",
						 "the server begins"};

	printf("  %d %s\n", seat, name[what]);
	for (size_t at = s->head - 1; at != 0; at = s->queue[at].from)
		printf("  %d %s\n", s->queue[at].seat, name[s->queue[at].what]);
}

/* Returns the invariant that is violated in some state; NULL: none is. */
static const char *search(const struct kind *kind, size_t *states)
{
	struct search s = {.mask = ((size_t)1 << 23) - 1};
	const char *broken = NULL;

	s.seen = calloc(s.mask + 1, sizeof *s.seen);
	assert_non_null(s.seen);
	push(&s, &kind->begin, JOIN, 0);
	while (s.head < s.tail && !broken) {
		const struct world from = s.queue[s.head++].w;

		for (int what = 0; what < EVENTS && !broken; what++)
			for (int k = 0; k < SEATS && !broken; k++) {
				struct model m;
				struct world to;

				expand(&m, &from, kind);
				if (!happens(&m, (enum kind_of_event)what, k))
					continue;
				run(&m, what == TIMER);
				if (!m.broken)
					check_waiting(&m);
				if (!m.broken)
					check_ends(&m);
				broken = m.broken;
				memset(&to, 0, sizeof to);
				compress(&to, &m);
				push(&s, &to, (enum kind_of_event)what, k);
				if (broken && !planted)
					say_how(&s, (enum kind_of_event)what, k);
			}
	}
	*states = s.n;
	free(s.queue);
	free(s.seen);
	return broken;
}

/* ---- cases */

static struct kind kind_of(const char *name, int least, int ranks)
{
	struct kind kind = {.name = name, .least = least, .ranks = ranks, .steps = 2};

	kind.begin.up = 1;
	for (int k = 0; k < SEATS; k++)
		kind.begin.seat[k].state = kind.begin.record[k].state = least ? SL_SEAT_EMPTY : SL_SEAT_IN;
	return kind;
}

/* THREE_STEPS: with SPLIT_LONG, since it has five million states; elsewhere only its planted fault. */
enum {
	FIXED,
	FIXED_LATE,
	LOSES_A_DISK,
	FULL_DISK,
	COME_AND_GO,
	SHARED_ENDS,
	TWO_RANKS,
	WHOLE,
	WHOLE_LATE,
	THREE_STEPS,
	KINDS
};

static struct kind kind_at(int i)
{
	struct kind kind;

	switch (i) {
	case FIXED:
		kind = kind_of("three members that crash, and whose server does", 0, 1);
		kind.begin.crashes = getenv("SPLIT_QUICK") ? 1 : 2;
		kind.begin.servers = 1;
		return kind;
	case FIXED_LATE:
		kind = kind_of("three members, of whom some are late", 0, 1);
		kind.begin.servers = 1;
		kind.begin.timers = 2;
		return kind;
	case LOSES_A_DISK:
		kind = kind_of("three members, of whom one loses its disk", 0, 1);
		kind.steps = 3;
		kind.begin.crashes = 1;
		kind.begin.wipes = 1; /* before the crash there is nothing to lose */
		return kind;
	case FULL_DISK:
		kind = kind_of("three members, and a server whose disk is full", 0, 1);
		kind.begin.crashes = 1;
		kind.begin.servers = 1;
		kind.begin.fills = 1;
		return kind;
	case THREE_STEPS:
		kind = kind_of("three members that crash, and whose server does, in three steps", 0, 1);
		kind.steps = 3;
		kind.begin.crashes = 2;
		kind.begin.servers = 1;
		return kind;
	case COME_AND_GO:
		kind = kind_of("one to three members that come and go", 1, 1);
		kind.begin.crashes = !getenv("SPLIT_QUICK");
		kind.begin.leaves = 1;
		return kind;
	case SHARED_ENDS:
		kind = kind_of("one to three members that share heads and tails", 1, 1);
		kind.ends = true;
		kind.begin.liars = 1;
		kind.begin.crashes = 1;
		kind.begin.leaves = !getenv("SPLIT_QUICK");
		return kind;
	case WHOLE:
		kind = kind_of("three parties that do each step together", 0, 1);
		kind.whole = true;
		kind.steps = 3;
		kind.begin.crashes = getenv("SPLIT_QUICK") ? 1 : 2;
		kind.begin.servers = 1;
		return kind;
	case WHOLE_LATE:
		kind = kind_of("three parties, of whom one is slow", 0, 1);
		kind.whole = true;
		kind.steps = 3;
		kind.begin.crashes = 1;
		kind.begin.timers = 2;
		return kind;
	default:
		kind = kind_of("three members of two ranks", 0, 2);
		kind.begin.crashes = 2;
		return kind;
	}
}

static void test_all_states(void **state)
{
	planted = NO_FAULT;
	for (int i = 0; i < (getenv("SPLIT_LONG") ? KINDS : THREE_STEPS); i++) {
		const struct kind kind = kind_at(i);
		const uint64_t start = sl_now_ns();
		size_t states;
		const char *broken = search(&kind, &states);

		printf("%s: %zu states, %.1f s\n", kind.name, states, sl_seconds_since(start));
		if (broken)
			fail_msg("%s: %s", kind.name, broken);
	}
}

static void test_planted_faults(void **state)
{
	static const int where[FAULTS] = {[NONE_TO_LOSE] = FIXED,
					  [NOBODY_NOTES_WHO_LEFT] = FIXED,
					  [GOODBYE_MUST_BE_HEARD] = FIXED,
					  [ONE_TAKES_ALL_BACK] = LOSES_A_DISK,
					  [LEAVE_AT_ONCE] = FIXED,
					  [BEING_WRITTEN_COUNTS] = FIXED,
					  [ANY_GOODBYE_ENDS] = COME_AND_GO,
					  [OTHER_RANKS_MAY_REDO] = TWO_RANKS,
					  [ASKING_IS_AWAITED] = SHARED_ENDS,
					  [GIVEN_STAYS_OUT] = SHARED_ENDS,
					  [WRONG_ENDS_ARE_KEPT] = SHARED_ENDS,
					  [LINKED_ALONE_COUNT] = THREE_STEPS,
					  [ANY_RUN_IS_LONGER] = FULL_DISK,
					  [MODELS_NEED_NOT_BE_WRITTEN] = FULL_DISK,
					  [LEAVES_UNNOTED] = FULL_DISK,
					  [WHOLE_IS_TIRED] = WHOLE_LATE};

	for (int fault = 1; fault < FAULTS; fault++) {
		const struct kind kind = kind_at(where[fault]);
		const char *broken;
		size_t states;

		planted = (enum fault)fault;
		broken = search(&kind, &states);
		printf("planted fault %d, %zu states: %s\n", fault, states, broken ? broken : "not found");
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
