/* Heads and tails for a newcomer, a member that comes while others train. The server has none, so it asks the members
 * at the group's step: one, the giver, sends its own, the others a hash of theirs. So the server notices a giver that
 * sends something else. If the giver is lost, the server asks another member. */
#include <inttypes.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/weights/weights.h"
#include "server/group/group_work.h"

/* ---- on the loop */

/* Whether the member has the head and tail as they are before the group's step. */
static bool can_give(const struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];

	return p->m && g->t.seat[k].link == SL_LINK_OPEN && g->t.seat[k].state == SL_SEAT_IN &&
	       p->answer != ANSWER_WRONG && sl_port_session(p->m->port)->next_step == g->t.step;
}

static void ask(struct sl_group *g)
{
	g->giver = -1;
	for (int k = 0; k < g->n; k++) {
		struct sl_event ev = {.kind = SL_EV_ASK, .whole = g->giver < 0};

		if (!can_give(g, k))
			continue;
		if (ev.whole)
			g->giver = k;
		g->member[k].answer = ANSWER_AWAITED;
		sl_port_event(g->member[k].m->port, &ev);
	}
}

void sl_group_ask_ends(struct sl_group *g)
{
	bool needed = false, awaited = false;

	for (int k = 0; k < g->n; k++) {
		needed = needed || g->t.seat[k].link == SL_LINK_ASKING;
		/* not one that is late: it may never answer, and a newcomer would wait for it beside the others */
		awaited = awaited || (g->member[k].answer == ANSWER_AWAITED && g->t.seat[k].state == SL_SEAT_IN);
	}
	if (!needed || awaited)
		return;
	if (g->giver >= 0 && g->member[g->giver].answer == ANSWER_THERE)
		sl_trunk_has_ends(&g->t);
	else
		ask(g);
}

/* ---- on the worker */

/* The port with the member's answer; NULL: it has not answered, is lost, or its answer is of another step. */
static struct sl_port *answer_of(const struct sl_group *g, int k, uint64_t step)
{
	const struct sl_middle *m = g->part[k].m;

	return m && m == g->seat[k].m && sl_port_session(m->port)->gift_step == step ? m->port : NULL;
}

/* The hash that the member sent; NULL: none. */
static const uint8_t *hash_of(const struct sl_group *g, int k, uint64_t step)
{
	struct sl_port *port = k != g->giver ? answer_of(g, k, step) : NULL;

	return port ? sl_port_end_run(port, SL_END_STATE).data : NULL;
}

static int count_hash(const struct sl_group *g, const uint8_t *hash, uint64_t step)
{
	int n = 0;

	for (int k = 0; k < g->n; k++) {
		const uint8_t *own = hash_of(g, k, step);

		n += own && memcmp(own, hash, SL_WIRE_ENDS_HASH) == 0;
	}
	return n;
}

/* False: more members agree on a different head and tail than on the giver's. That all differ is no fault: their
 * machines may round differently. */
static bool is_most_members(const struct sl_group *g, struct sl_bytes run, uint64_t step)
{
	uint8_t hash[SL_WIRE_ENDS_HASH];
	int same, most = 0, answers = 0;

	sl_weights_hash((const float *)(const void *)run.data, (int64_t)(run.len / sizeof(float)), hash);
	same = count_hash(g, hash, step);
	for (int k = 0; k < g->n; k++) {
		const uint8_t *own = hash_of(g, k, step);
		const int n = own ? count_hash(g, own, step) : 0;

		answers += own != NULL;
		if (own && memcmp(own, hash, sizeof hash) != 0)
			most = n > most ? n : most;
	}
	if (same < answers)
		sl_log_limited(
			SL_LOG_WARN, "ends-differ",
			"group %s: %d of %d members have another head and tail than member %d before step %" PRIu64
			": their machines round differently, or one of them is wrong",
			g->name, answers - same, answers + 1, g->giver, step + 1);
	return most <= same + 1;
}

static bool give_ends(struct sl_group *g, int k)
{
	struct sl_buf room = sl_port_end_room(g->seat[k].m->port, SL_END_STATE);
	struct sl_port *from;
	struct sl_bytes run;
	uint64_t step;

	if (g->giver < 0 || !g->part[g->giver].m || g->part[g->giver].m != g->seat[g->giver].m)
		return false;
	from = g->part[g->giver].m->port;
	step = sl_port_session(from)->gift_step;
	run = sl_port_end_run(from, SL_END_STATE);
	if (run.len != room.cap || !sl_group_ends_reach(g, step) || step > g->trunk.r.done)
		return false;
	if (!is_most_members(g, run, step)) {
		g->gift = GIFT_WRONG;
		return false;
	}
	if (sl_buf_put(&room, run.data, run.len))
		return false;
	SL_FAILPOINT(SL_FP_SERVER_GIVES);
	sl_port_end_filled(g->seat[k].m->port, SL_END_STATE, &room, 0);
	sl_log_limited(SL_LOG_INFO, "group-gives",
		       "group %s: member %d gets the head and tail that member %d has before step %" PRIu64, g->name, k,
		       g->giver, step + 1);
	return true;
}

bool sl_group_comes_later(struct sl_group *g, int k, uint64_t newest)
{
	struct sl_record *record = &g->trunk.r.seat[k];

	g->held = g->came == SL_COME_HERE ? record->number : g->came == SL_COME_BEHIND ? newest : 0;
	if (!g->ends || g->came == SL_COME_LOST || g->came == SL_COME_NOWHERE ||
	    (g->held ? sl_group_ends_reach(g, g->held) : !g->trunk.r.done))
		return false;
	if (give_ends(g, k)) {
		g->gift = GIFT_WHOLE;
		return false;
	}
	if (record->state == SL_SEAT_IN)
		record->state = SL_SEAT_AWAY; /* the others neither go back nor wait for it */
	g->came = SL_COME_LATER;
	return true;
}

/* ---- when all go on from one step */

bool sl_group_holds_ends(const struct sl_group *g, int k, uint64_t step)
{
	const struct sl_record *record = &g->trunk.r.seat[k];

	return record->number == step && sl_hello_holds(record->hello, step) && !sl_group_is_foreign(g, k);
}

bool sl_group_ends_elsewhere(const struct sl_group *g)
{
	for (int k = 0; k < g->n && g->ends; k++)
		if (!g->part[k].m && g->trunk.r.seat[k].has_files && g->trunk.r.seat[k].state != SL_SEAT_DONE)
			return true;
	return false;
}
