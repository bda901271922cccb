#include "server/trunk/group_parties.h"

#include <inttypes.h>
#include <string.h>

static enum sl_party party_of(const struct sl_middle *m)
{
	return m->agreement.plan.party;
}

enum sl_err sl_parties_fit(const struct sl_group *g, const struct sl_agreed *a, struct sl_fail *fail)
{
	for (int k = 0; k < g->n; k++)
		if (g->member[k].entered && k != a->share.member && g->member[k].role == a->share.role)
			return sl_fail_at(fail, "share.role", SL_ERR_MISMATCH,
					  "member %d of group %s has %s, too, and the group needs a member with %s", k,
					  g->name, sl_agreed_roles[a->share.role], sl_agreed_roles[!a->share.role]);
	return SL_OK;
}

/* ---- a pass */

/* The sessions of both parties; NULL: it is not there. */
struct parties {
	struct sl_port *features, *labels;
};

static struct parties find(const struct sl_group *g)
{
	struct parties p = {NULL, NULL};

	for (int k = 0; k < g->n; k++) {
		const struct sl_middle *m = g->t.seat[k].link == SL_LINK_OPEN ? g->member[k].m : NULL;

		if (m)
			*(party_of(m) == SL_PARTY_LABELS ? &p.labels : &p.features) = m->port;
	}
	return p;
}

static bool computes(const struct sl_session *s)
{
	return s->state == SL_SESSION_STEP || s->state == SL_SESSION_EVAL;
}

/* If one party has abandoned the step under way, so does the other. */
static void abandon_both(struct sl_group *g, struct sl_port *one, struct sl_port *other)
{
	const struct sl_session *of = sl_port_session(one), *s = sl_port_session(other);
	const bool abandoned =
		of->state == SL_SESSION_ABANDON || (of->state == SL_SESSION_COMMIT && sl_session_skips(of));
	struct sl_fail why;

	if (!abandoned || s->state == SL_SESSION_ABANDON || !sl_session_abandons(s) || s->number != of->number)
		return;
	(void)!sl_fail_set(&why, SL_ERR_NONFINITE, "%s", of->nonfinite);
	for (int k = 0; k < g->n; k++) /* its part of the step may have been done */
		if (g->member[k].m && g->member[k].m->port == other)
			g->t.seat[k].prepared = false;
	sl_port_event(other, &(struct sl_event){.kind = SL_EV_NONFINITE, .task = SL_TASK_PREPARE, .why = &why});
}

/* Both have begun a pass. MISMATCH: not the same one. */
static enum sl_err begin(struct sl_group *g, struct parties p, struct sl_fail *fail)
{
	const struct sl_session *f = sl_port_session(p.features), *l = sl_port_session(p.labels);

	g->pass = (struct sl_group_pass){
		.on = f->training == l->training && f->number == l->number && f->batch_rows == l->batch_rows &&
		      memcmp(sl_port_order(p.features), sl_port_order(p.labels), SL_WIRE_ORDER) == 0};
	if (g->pass.on)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_MISMATCH,
			   "the members of group %s have different rows in %s %" PRIu64
			   ": the files of both must have the same rows in the same order",
			   g->name, l->training ? "step" : "batch of the evaluation", l->number);
}

static void hand_on(struct sl_port *port, int chunk)
{
	sl_port_event(port, &(struct sl_event){.kind = SL_EV_CHUNK, .chunk = chunk});
}

/* An event may end a session, and then the other one, too: the pass is over then. */
static void go_on(struct sl_group *g, struct parties p)
{
	const struct sl_session *f = sl_port_session(p.features), *l = sl_port_session(p.labels);
	const bool echoes = !f->training || f->limits.no_head_grad;

	while (g->pass.on && computes(l) && g->pass.forward < f->done[SL_TASK_MID_FWD])
		hand_on(p.labels, g->pass.forward++);
	while (g->pass.on && !echoes && computes(f) && g->pass.backward < l->done[SL_TASK_MID_BWD])
		hand_on(p.features, g->pass.backward++);
	if (!g->pass.on || !echoes || !computes(f) || l->done[SL_TASK_MID_FWD] != f->chunks || g->pass.echoed)
		return;
	g->pass.echoed = true;
	g->pass.on = f->training;
	sl_port_event(p.features, &(struct sl_event){.kind = SL_EV_ECHO});
}

/* The party with labels has done its last evaluation, and its file says so. One with features that was lost repeats
 * that evaluation alone. */
static bool labels_are_done(const struct sl_group *g)
{
	for (int k = 0; k < g->n; k++)
		if (g->t.seat[k].state != SL_SEAT_DONE &&
		    !(g->member[k].m && party_of(g->member[k].m) == SL_PARTY_FEATURES))
			return false;
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
	const struct parties p = find(g);
	enum sl_err err = SL_OK;
	bool begun;

	if (p.features)
		echo_alone(g, p.features);
	if (!p.features || !p.labels)
		return SL_OK;
	abandon_both(g, p.features, p.labels);
	abandon_both(g, p.labels, p.features);
	begun = computes(sl_port_session(p.features)) && computes(sl_port_session(p.labels));
	if (!g->pass.on && begun)
		err = begin(g, p, fail);
	if (!err && g->pass.on)
		go_on(g, p);
	return err;
}
