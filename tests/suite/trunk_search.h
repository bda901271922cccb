/* The search of test_trunk_table.c, breadth first. Before it, the test defines struct world, model
 * and kind, enum event (from CRASH on: faults), event_name, first_world, expand, compress, happens, run, check and
 * is_goal. */
#ifndef SL_TESTS_SUITE_TRUNK_SEARCH_H
#define SL_TESTS_SUITE_TRUNK_SEARCH_H

/* ---- the search */

struct node {
	struct world w;
	uint32_t from;
	uint8_t what, seat;
};
struct search {
	struct node *node;
	uint32_t n, cap, *slot, mask;
	uint32_t (*edge)[2];
	size_t n_edge, cap_edge;
};

static uint32_t find(struct search *s, const struct world *w, uint32_t from, enum event what, int seat)
{
	const uint8_t *byte = (const uint8_t *)w;
	uint64_t h = 0xcbf29ce484222325u;
	uint32_t at;

	for (size_t i = 0; i < sizeof *w; i += 8) {
		uint64_t v = 0;

		memcpy(&v, byte + i, sizeof *w - i < 8 ? sizeof *w - i : 8);
		h = (h ^ v) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	for (at = (uint32_t)h & s->mask; s->slot[at]; at = (at + 1) & s->mask)
		if (memcmp(&s->node[s->slot[at] - 1].w, w, sizeof *w) == 0)
			return s->slot[at] - 1;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 4096;
		s->node = realloc(s->node, s->cap * sizeof *s->node);
		assert_non_null(s->node);
	}
	assert_true(s->n < s->mask / 2);
	s->node[s->n] = (struct node){*w, from, (uint8_t)what, (uint8_t)seat};
	s->slot[at] = ++s->n;
	return s->n - 1;
}

static void note_edge(struct search *s, uint32_t from, uint32_t to)
{
	if (s->n_edge == s->cap_edge) {
		s->cap_edge = s->cap_edge ? 2 * s->cap_edge : 4096;
		s->edge = realloc(s->edge, s->cap_edge * sizeof *s->edge);
		assert_non_null(s->edge);
	}
	s->edge[s->n_edge][0] = from;
	s->edge[s->n_edge++][1] = to;
}

/* Prints the events that led to a state, the latest first. */
static void say_how(const struct search *s, uint32_t at, enum event what, int seat)
{
	printf("  %d %s\n", seat, event_name[what]);
	for (; at; at = s->node[at].from)
		printf("  %d %s\n", s->node[at].seat, event_name[s->node[at].what]);
}

/* Follows one event from state `head`. Returns the invariant that it breaks; NULL: none. */
static const char *follow(struct search *s, const struct kind *kind, uint32_t head, enum event what, int k)
{
	struct model m;
	struct world to;
	uint32_t id;

	expand(&m, &s->node[head].w, kind);
	if (!happens(&m, what, k))
		return NULL;
	run(&m);
	if (!m.broken)
		check(&m);
	if (m.broken && !planted)
		say_how(s, head, what, k);
	if (m.broken)
		return m.broken;
	memset(&to, 0, sizeof to);
	compress(&to, &m);
	id = find(s, &to, head, what, k);
	if (what < CRASH && id != head)
		note_edge(s, head, id);
	return NULL;
}

/* The first state from which no way without faults leads to the end; s->n: there is none. */
static uint32_t find_stuck(struct search *s)
{
	uint32_t *first = calloc(s->n, sizeof *first), *next = calloc(s->n_edge + 1, sizeof *next);
	uint32_t *queue = calloc(s->n, sizeof *queue), head = 0, tail = 0, stuck = 0;
	bool *good = calloc(s->n, sizeof *good);

	assert_true(first && next && queue && good);
	for (uint32_t i = 0; i < s->n_edge; i++) {
		next[i] = first[s->edge[i][1]];
		first[s->edge[i][1]] = i + 1;
	}
	for (uint32_t i = 0; i < s->n; i++)
		if (is_goal(&s->node[i].w))
			good[queue[tail++] = i] = true;
	while (head < tail)
		for (uint32_t i = first[queue[head++]]; i; i = next[i - 1])
			if (!good[s->edge[i - 1][0]])
				good[queue[tail++] = s->edge[i - 1][0]] = true;
	while (stuck < s->n && good[stuck])
		stuck++;
	free(first);
	free(next);
	free(queue);
	free(good);
	return stuck;
}

/* Returns the invariant that is violated in some state; NULL: none is. */
static const char *search(const struct kind *kind, size_t *states)
{
	struct search s = {.mask = (1u << 23) - 1};
	const char *broken = NULL;
	struct world first;
	uint32_t stuck;

	s.slot = calloc((size_t)s.mask + 1, sizeof *s.slot);
	assert_non_null(s.slot);
	first_world(&first, kind);
	(void)find(&s, &first, 0, (enum event)0, 0);
	for (uint32_t head = 0; head < s.n && !broken; head++)
		for (int i = 0; i < EVENTS * SEATS && !broken; i++)
			broken = follow(&s, kind, head, (enum event)(i / SEATS), i % SEATS);
	stuck = broken ? s.n : find_stuck(&s);
	if (stuck < s.n)
		broken = "4: from here there is no way to the end";
	if (stuck < s.n && !planted)
		say_how(&s, s.node[stuck].from, s.node[stuck].what, s.node[stuck].seat);
	*states = s.n;
	free(s.node);
	free(s.slot);
	free(s.edge);
	return broken;
}

#endif
