/* Shared heads and tails of a group, for a member that comes, and for checkpoints. The server has none, so it
 * asks the members at the group's step: one, the giver, sends its own, the others a hash of theirs. So the server
 * notices a giver that sends something else. If the giver is lost, the server asks another member. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/link/loop.h"
#include "common/link/sealed.h"
#include "common/weights/weights.h"
#include "server/group/group_work.h"

/* ---- on the loop */

/* Whether the member has the head and tail as they are before the group's step. */
static bool can_give(const struct sl_group *g, int k)
{
	const struct sl_group_member *p = &g->member[k];

	return p->m && g->t.seat[k].link == SL_LINK_OPEN && p->answer < ANSWER_WRONG &&
	       sl_port_session(p->m->port)->next_step == g->t.step;
}

/* The first member to ask: the one behind that whose head and tail a member that comes could not open. Where nobody
 * else has them, it is asked once more. */
static int first_to_ask(struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		struct sl_group_member *p = &g->member[k];
		const int shuns = p->shuns;

		if (g->t.seat[k].link == SL_LINK_ASKING && shuns >= FROM_MEMBER) {
			p->shuns = FROM_NOBODY;
			return shuns - FROM_MEMBER + 1;
		}
	}
	return 0;
}

/* A member could not open what the giver gave: all are to be asked again. */
static void forget_refused(struct sl_group *g)
{
	bool refused = false;

	for (int k = 0; k < g->n; k++)
		refused = refused || (g->giver >= 0 && g->member[k].shuns == FROM_MEMBER + g->giver);
	for (int k = 0; k < g->n && refused; k++)
		if (g->member[k].answer == ANSWER_THERE)
			g->member[k].answer = ANSWER_NONE;
	g->giver = refused ? -1 : g->giver;
}

static void ask(struct sl_group *g)
{
	const int first = first_to_ask(g);

	g->giver = -1;
	for (int i = 0; i < g->n; i++) {
		const int k = (first + i) % g->n;
		struct sl_event ev = {.kind = SL_EV_ASK, .whole = g->giver < 0};

		if (!can_give(g, k))
			continue;
		if (ev.whole)
			g->giver = k;
		g->member[k].answer = ANSWER_AWAITED;
		g->member[k].asked = g->t.step;
		g->member[k].asked_ms = sl_loop_now_ms(g->groups->loop);
		sl_port_event(g->member[k].m->port, &ev);
	}
}

bool sl_group_ask_ends(struct sl_group *g)
{
	bool needed = g->due && g->due == g->t.step, awaited = false;

	forget_refused(g);
	for (int k = 0; k < g->n; k++) {
		needed = needed || g->t.seat[k].link == SL_LINK_ASKING;
		awaited = awaited || (g->member[k].answer == ANSWER_AWAITED && g->t.seat[k].link == SL_LINK_OPEN);
	}
	if (awaited)
		return false;
	if (g->giver >= 0 && g->member[g->giver].answer == ANSWER_THERE) {
		sl_trunk_has_ends(&g->t);
		return g->due != 0;
	}
	g->due = needed || g->due == g->t.step ? g->due
					       : 0; /* nobody has them any more: the checkpoint stays incomplete */
	if (needed)
		ask(g);
	return false;
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

	if (g->agreed.share.seal) /* what it opens to must have the hash that it begins with (sealed.h) */
		memcpy(hash, run.data, sizeof hash);
	else
		sl_weights_hash((const float *)(const void *)run.data, (int64_t)(run.len / sizeof(float)), hash);
	same = count_hash(g, hash, step);
	for (int k = 0; k < g->n; k++) {
		const uint8_t *own = hash_of(g, k, step);
		const int n = own ? count_hash(g, own, step) : 0;

		sl_assert_if(own, n >= 1); /* a hash agrees with itself */
		answers += own != NULL;
		if (own && memcmp(own, hash, sizeof hash) != 0)
			most = n > most ? n : most;
	}
	sl_assert_int(same + most, <=, answers);
	if (same < answers)
		sl_log_limited(
			SL_LOG_WARN, "ends-differ",
			"group %s: %d of %d members have another head and tail than member %d before step %" PRIu64
			": their machines round differently, or one of them is wrong",
			g->name, answers - same, answers + 1, g->giver, step + 1);
	return most <= same + 1;
}

/* The giver's answer, if it is the head and tail before `step`, and not contradicted by most members. */
static bool take_answer(struct sl_group *g, uint64_t step, struct sl_bytes *run)
{
	struct sl_port *from = g->giver >= 0 ? answer_of(g, g->giver, step) : NULL;

	if (!from)
		return false;
	*run = sl_port_end_run(from, SL_END_STATE);
	if (is_most_members(g, *run, step))
		return true;
	g->gift = GIFT_WRONG;
	return false;
}

bool sl_group_give(struct sl_group *g, int k)
{
	const uint64_t step = g->trunk.r.done;
	struct sl_group_ends *e = g->ends;
	struct sl_buf room = sl_port_end_room(g->seat[k].m->port, SL_END_STATE);
	struct sl_bytes run = {e->state.data, e->state.len};

	if (e->state_of != step || g->shunned == FROM_STORE)
		run.len = 0;
	g->gift_branch = run.len ? e->state_branch : g->branch;
	g->gift_from = run.len ? FROM_STORE : FROM_MEMBER + g->giver;
	if (!run.len && !take_answer(g, step, &run))
		return false;
	if (run.len != room.cap || sl_buf_put(&room, run.data, run.len))
		return false;
	SL_FAILPOINT(SL_FP_SERVER_GIVES);
	sl_port_end_filled(g->seat[k].m->port, SL_END_STATE, &room, 0);
	return true;
}

/* ---- for checkpoints */

void sl_group_run_store(struct sl_group *g)
{
	struct sl_bytes run;
	struct sl_fail fail;

	g->err = SL_OK;
	g->gift = GIFT_NONE;
	if (!take_answer(g, g->due, &run))
		return;
	if (sl_keep_write_ends(&g->trunk.keep, g->due, g->branch, run, &fail)) {
		sl_log_limited(SL_LOG_WARN, "checkpoint-write",
			       "group %s: head and tail of step %" PRIu64 ": %s; the checkpoint before it is kept",
			       g->name, g->due, fail.text);
		return;
	}
	g->trunk.r.complete = g->due;
	SL_FAILPOINT(SL_FP_SERVER_KEPT);
}

enum sl_err sl_group_load_ends(struct sl_group *g, uint64_t step, struct sl_fail *fail)
{
	struct sl_group_ends *e = g->ends;
	const struct sl_end_layout layout = sl_end_layout_state(&e->layout, &g->trunk.plan->spec);
	const size_t seal = g->agreed.share.seal ? SL_SEALED_BYTES : 0;
	const size_t bytes = (size_t)layout.floats * sizeof(float) + seal;
	enum sl_err err;

	if (!e->state.data)
		e->state = (struct sl_buf){malloc(bytes), 0, bytes};
	e->state_of = 0;
	e->state.len = 0;
	if (!e->state.data)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the head and tail of group %s", g->name);
	err = sl_keep_read_ends(&g->trunk.keep, step, &e->state_branch, &e->state, fail);
	if (!err && !seal && sl_end_check_moments(&layout, (const float *)(const void *)e->state.data, step, fail))
		err = SL_ERR_DATA;
	if (!err)
		e->state_of = step;
	return err;
}
