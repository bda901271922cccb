#include "server/group/group_parties.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "common/base/assert.h"

/* The middle's inputs that a member gives, a bit each. */
static int given(enum sl_conf_share_role role, int sends)
{
	return sends ? sends : role == SL_ROLE_FEATURES ? INT_MAX : 0;
}

enum sl_err sl_parties_fit(const struct sl_group *g, const struct sl_agreed *a, struct sl_fail *fail)
{
	const bool labels = a->share.role == SL_ROLE_LABELS;
	int n = 1, same = -1, input = -1;

	for (int k = 0; k < g->n; k++) {
		const struct sl_group_member *p = &g->member[k];

		if (!p->entered || k == a->share.member)
			continue;
		n += p->role == SL_ROLE_FEATURES;
		same = p->role == a->share.role ? k : same;
		input = given(p->role, p->sends) & given(a->share.role, a->share.sends) ? k : input;
	}
	if (labels ? same >= 0 : n == g->n)
		return sl_fail_at(fail, "share.role", SL_ERR_MISMATCH,
				  "member %d of group %s has %s, too, and the group needs a member with %s", same,
				  g->name, sl_agreed_roles[a->share.role], sl_agreed_roles[!a->share.role]);
	return input < 0 ? SL_OK
			 : sl_fail_at(fail, "share.inputs", SL_ERR_MISMATCH,
				      "member %d of group %s has this input, too, and each gives another one", input,
				      g->name);
}

/* ---- a pass */

/* The session of a member that is there; NULL: it is not. */
static struct sl_port *port_of(const struct sl_group *g, int k)
{
	return g->t.seat[k].link == SL_LINK_OPEN && g->member[k].m ? g->member[k].m->port : NULL;
}

static const struct sl_session *session_of(const struct sl_group *g, int k)
{
	return port_of(g, k) ? sl_port_session(port_of(g, k)) : NULL;
}

static bool computes(const struct sl_session *s)
{
	return s->state == SL_SESSION_STEP || s->state == SL_SESSION_EVAL;
}

/* If one party has abandoned the step under way, so does member k. */
static void abandon_too(struct sl_group *g, const struct sl_session *of, int k)
{
	const struct sl_session *s = session_of(g, k);
	const bool abandoned =
		of->state == SL_SESSION_ABANDON || (of->state == SL_SESSION_COMMIT && sl_session_skips(of));
	struct sl_fail why;

	if (!abandoned || s->state == SL_SESSION_ABANDON || !sl_session_abandons(s) || s->number != of->number)
		return;
	(void)!sl_fail_set(&why, SL_ERR_NONFINITE, "%s", of->nonfinite);
	g->t.seat[k].prepared = false; /* its part of the step may have been done */
	sl_port_event(port_of(g, k), &(struct sl_event){.kind = SL_EV_NONFINITE, .task = SL_TASK_PREPARE, .why = &why});
}

/* All have begun a pass. MISMATCH: not the same one, or some input of the middle is nobody's. */
static enum sl_err begin(struct sl_group *g, const struct sl_session *l, int labels, struct sl_fail *fail)
{
	const int inputs = (1 << sl_plan_cut_values(g->trunk.plan, false)) - 1;
	int all = 0;

	g->pass = (struct sl_group_pass){.on = true};
	for (int k = 0; k < g->n; k++) {
		const struct sl_session *s = session_of(g, k);

		g->member[k].backward = 0;
		all |= given(g->member[k].role, g->member[k].sends);
		if (s->training == l->training && s->number == l->number && s->batch_rows == l->batch_rows &&
		    memcmp(sl_port_order(port_of(g, k)), sl_port_order(port_of(g, labels)), SL_WIRE_ORDER) == 0)
			continue;
		g->pass.on = false;
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "members %d and %d of group %s have different rows in %s %" PRIu64
				   ": the files of all must have the same rows in the same order",
				   k, labels, g->name, l->training ? "step" : "batch of the evaluation", l->number);
	}
	if ((all & inputs) == inputs)
		return SL_OK;
	g->pass.on = false;
	return sl_fail_at(fail, "share.inputs", SL_ERR_MISMATCH,
			  "no member of group %s gives head_act.%d: each input needs a member", g->name,
			  __builtin_ctz((unsigned)(inputs & ~all)));
}

static void hand_on(struct sl_port *port, int chunk)
{
	sl_port_event(port, &(struct sl_event){.kind = SL_EV_CHUNK, .chunk = chunk});
}

/* How many chunks of head_act all parties have given. */
static int given_chunks(const struct sl_group *g, const struct sl_session *l)
{
	int least = l->limits.party == SL_PARTY_JOINED ? (int)l->lane[SL_PART_HEAD_ACT].chunk : l->chunks;

	for (int k = 0; k < g->n; k++) {
		const struct sl_session *s = session_of(g, k);

		if (s && s != l && s->done[SL_TASK_MID_FWD] < least)
			least = s->done[SL_TASK_MID_FWD];
	}
	return least;
}

/* A party with features goes on with the gradients that are there or, where none come, once all chunks have passed. */
static void go_back(struct sl_group *g, const struct sl_session *l, int k)
{
	const struct sl_session *f = session_of(g, k);
	struct sl_group_member *p = &g->member[k];
	const bool echoes = !f->training || f->limits.no_head_grad;

	while (g->pass.on && !echoes && computes(f) && p->backward < l->done[SL_TASK_MID_BWD])
		hand_on(port_of(g, k), p->backward++);
	if (!g->pass.on || !echoes || !computes(f) || l->done[SL_TASK_MID_FWD] != f->chunks || p->backward)
		return;
	p->backward = -1;
	sl_port_event(port_of(g, k), &(struct sl_event){.kind = SL_EV_ECHO});
}

/* Once all parties have sent the squares of their own gradients: adds these in the order of the members, then the
 * middle's, and sends all the sum. */
static void sum_squares(struct sl_group *g, int labels)
{
	const struct sl_session *l = session_of(g, labels);
	double sum = 0;

	if (!l || !l->training || l->squares[1] >= 0 || l->done[SL_TASK_MID_BWD] != l->chunks)
		return;
	for (int k = 0; k < g->n; k++) {
		const struct sl_session *s = session_of(g, k);

		if (!s || !s->norm_of || !computes(s))
			return;
		sum += s->squares[0];
	}
	sum += g->member[labels].m->squares;
	for (int k = 0; k < g->n && port_of(g, k); k++)
		sl_port_event(port_of(g, k), &(struct sl_event){.kind = SL_EV_SUM, .squares = {sum}});
}

/* What was begun of a pass is no more than what has come. */
static void check_pass(const struct sl_group *g, const struct sl_session *l)
{
	sl_assert_int(g->pass.forward, >=, l->done[SL_TASK_MID_FWD]);
	sl_assert_int(g->pass.forward, <=, l->chunks);
	for (int k = 0; k < g->n; k++) {
		sl_assert_int(g->member[k].backward, >=, -1);
		sl_assert_int(g->member[k].backward, <=, l->chunks);
	}
}

/* An event may end a session, and then the others, too: the pass is over then. */
static void go_on(struct sl_group *g, int labels)
{
	const struct sl_session *l = session_of(g, labels);

	check_pass(g, l);
	while (g->pass.on && computes(l) && g->pass.forward < given_chunks(g, l))
		hand_on(port_of(g, labels), g->pass.forward++);
	for (int k = 0; k < g->n && g->pass.on; k++)
		if (k != labels && session_of(g, k))
			go_back(g, l, k);
	if (g->pass.on && !l->training && l->done[SL_TASK_MID_FWD] == l->chunks)
		g->pass.on = false;
	if (g->pass.on)
		sum_squares(g, labels);
}

/* The party with labels has done its last evaluation. One with features that was lost repeats
 * that evaluation alone. */
static bool labels_are_done(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++) {
		const struct sl_seat *s = &g->t.seat[k];

		if (s->state != SL_SEAT_DONE && !s->asks && !s->given &&
		    !(g->member[k].m && g->member[k].role == SL_ROLE_FEATURES))
			return false;
	}
	return true;
}

static void echo_alone(struct sl_group *g, struct sl_port *features)
{
	const struct sl_session *f = sl_port_session(features);

	if (f->state == SL_SESSION_EVAL && f->done[SL_TASK_MID_FWD] == f->chunks && labels_are_done(g))
		sl_port_event(features, &(struct sl_event){.kind = SL_EV_ECHO});
}

enum sl_err sl_parties_go_on(struct sl_group *g, struct sl_fail *fail)
{
	bool all = true, begun = true;
	enum sl_err err = SL_OK;
	int labels = 0;

	for (int k = 0; k < g->n; k++) {
		labels = g->member[k].role == SL_ROLE_LABELS ? k : labels;
		if (port_of(g, k) && g->member[k].role == SL_ROLE_FEATURES)
			echo_alone(g, port_of(g, k));
	}
	for (int k = 0; k < g->n; k++)
		all = all && port_of(g, k);
	for (int k = 0; k < g->n * g->n && all; k++)
		if (k / g->n != k % g->n && session_of(g, k / g->n) && session_of(g, k % g->n))
			abandon_too(g, session_of(g, k / g->n), k % g->n);
	for (int k = 0; k < g->n && all; k++)
		begun = begun && session_of(g, k) && computes(session_of(g, k));
	if (all && !g->pass.on && begun)
		err = begin(g, session_of(g, labels), labels, fail);
	if (!err && all && g->pass.on && session_of(g, labels))
		go_on(g, labels);
	return err;
}
