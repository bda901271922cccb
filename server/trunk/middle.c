#include "server/trunk/middle.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/link/loop.h"
#include "server/trunk/member_ends.h"

/* Describes the middle for the status. The server does not know which network it belongs to. */
static void describe(struct sl_middle *m)
{
	const struct sl_graph *g = &m->trunk.plan->segment[SL_MIDDLE].graph;

	snprintf(m->network, sizeof m->network, "%d layer%s, %" PRId64 " parameters", g->n_node, sl_plural(g->n_node),
		 g->elements[1]);
	snprintf(m->part, sizeof m->part, "%.90s to %.90s", g->node[0].name, g->node[g->n_node - 1].name);
}

/* Joins the session's group, if it names one. False: the group does not take it, or the session has ended meanwhile. */
static bool enter_group(struct sl_middle *m)
{
	const struct sl_agreed *a = &m->agreement.agreed;
	struct sl_fail fail;

	if (!a->share.group[0])
		return true;
	if (sl_port_session(m->port)->state == SL_SESSION_CLOSED)
		return false;
	if (m->owned && !m->env.may_join(m->env.arg, &m->owner, a->share.group)) {
		sl_fail_at(&fail, "share.group", SL_ERR_AUTH,
			   "this client's key may not train with group %s: its line in the server's list of clients "
			   "needs group=%s",
			   a->share.group, a->share.group);
		sl_port_fail(m->port, &fail);
		return false;
	}
	if (m->env.enter(m->env.groups, m, a, &fail)) {
		sl_port_fail(m->port, &fail);
		return false;
	}
	sl_port_share_key(m->port, m->key);
	return true;
}

double sl_middle_decided(struct sl_middle *m)
{
	const double total = sl_port_stats(m->port).compute_s, taken = total - m->compute_before;

	m->compute_before = total;
	return taken;
}

const struct sl_group *sl_middle_group(const struct sl_middle *m)
{
	return m->group;
}

static void task_ran(void *arg, enum sl_task task, struct sl_event *done)
{
	struct sl_middle *m = arg;

	m->worked_ms = sl_loop_now_ms(m->env.loop);
	if (task == SL_TASK_ADMIT) {
		m->stage = SL_MIDDLE_ADMITTED;
		sl_charge_set(&m->charge, m->env.memory, 0);
		describe(m);
		m->key = sl_port_key(sl_port_session(m->port)->hello.session);
		if (enter_group(m))
			m->env.admitted(m->env.arg, m);
	} else if (task == SL_TASK_OPEN) {
		done->need_weights = m->need_weights;
		done->next_step = m->trunk.r.done;
		done->made = m->trunk.keep.made;
		m->shown = m->trunk.kept;
		m->shown_memory = m->memory;
	} else if (task == SL_TASK_COMMIT || task == SL_TASK_GATHER) {
		done->checkpointed = m->trunk.checkpointed;
		m->shown = m->trunk.kept;
		if (task == SL_TASK_COMMIT)
			done->compute_s = sl_middle_decided(m);
	} else if (task == SL_TASK_MID_BWD || task == SL_TASK_NORM) {
		done->squares[0] = m->squares;
	} else if (task == SL_TASK_MID_FWD && !sl_port_session(m->port)->training) {
		/* The time of an evaluation belongs to no step: a step begins after its last chunk. */
		m->compute_before = sl_port_stats(m->port).compute_s;
	}
}

static void note_step(struct sl_middle *m)
{
	uint64_t now = sl_now_ns();
	double s = (double)(now - m->stepped_ns) * 1e-9;

	if (m->stepped_ns)
		m->step_s = m->step_s > 0 ? 0.9 * m->step_s + 0.1 * s : s;
	m->stepped_ns = now;
	m->steps++;
	m->skipped += sl_port_session(m->port)->commit == SL_COMMIT_SKIPS;
}

/* ---- the end */

static struct sl_middle *of_last(struct sl_job *job)
{
	return (struct sl_middle *)(void *)((char *)job - offsetof(struct sl_middle, last));
}

/* (worker) Runs after all tasks of the session have ended, on a device too. */
static void run_last(struct sl_job *job)
{
	struct sl_middle *m = of_last(job);

	if (sl_port_waits(m->port, job))
		return;
	m->seat->last(m);
}

static void close_port(struct sl_middle *m);

static void last_done(struct sl_job *job)
{
	struct sl_middle *m = of_last(job);

	m->last_is = SL_MIDDLE_LAST_DONE;
	if (m->closed)
		close_port(m);
}

/* Posts the session's last job as soon as the session ends, as an expedited one with the session's key. So it runs
 * before the OPEN of the session's next link, and a client that comes back at once finds its state. It is also posted
 * while OPEN is under way: closing then waits for this job, instead of blocking the loop's thread until OPEN ends. */
static void post_last(struct sl_middle *m)
{
	m->last = (struct sl_job){
		.run = run_last, .done = last_done, .share = sl_port_share(m->port), .ahead = true, .key = m->key};
	m->last_is = SL_MIDDLE_LAST_POSTED;
	sl_worker_post(m->env.worker, &m->last);
}

static void session_over(struct sl_middle *m, enum sl_seat_end how, const struct sl_fail *why)
{
	m->ended = how;
	snprintf(m->outcome, sizeof m->outcome, "%s%s%s",
		 how == SL_SEAT_PAUSED ? "paused"
		 : why                 ? sl_err_name(why->code)
				       : "goodbye",
		 how == SL_SEAT_LOST ? ": " : "", how == SL_SEAT_LOST ? why->text : "");
	post_last(m);
	m->env.over(m->env.arg, m);
	m->seat->over(m, why);
}

/* Logs the new session: its name as in `splits status`, and its codecs; one codec if all four are the same. */
static void log_open(const struct sl_middle *m, const struct sl_hello *h)
{
	const struct sl_agreed *a = &m->agreement.agreed;
	char name[SL_HEX16_TEXT], others[3 * (sizeof a->codec[0] + 1)] = "";
	uint8_t session[16];
	bool same = true;

	for (int dir = 1; dir < SL_DIR_COUNT; dir++)
		same = same && strcmp(a->codec[0], a->codec[dir]) == 0;
	if (!same)
		snprintf(others, sizeof others, " %s %s %s", a->codec[1], a->codec[2], a->codec[3]);
	sl_session_name(h->session, session);
	sl_log_limited(SL_LOG_INFO, "session-open",
		       "peer %" PRIu64 ", %s, session %.8s: %s, %s, batch %d in %d chunk%s, %s, codec %s%s", m->peer,
		       h->software, sl_hex16(session, name), m->network, m->part, a->batch, a->chunks,
		       sl_plural(a->chunks), sl_agreed_precisions[a->precision], a->codec[0], others);
}

static void session_action(void *arg, const struct sl_action *action, const struct sl_fail *fail)
{
	struct sl_middle *m = arg;
	const struct sl_hello *h = &sl_port_session(m->port)->hello;

	switch (action->kind) {
	case SL_ACTION_KEEP:
		sl_charge_set(&m->charge, m->env.memory, sl_port_asked(m->port).len);
		break;
	case SL_ACTION_READY:
		m->stage = SL_MIDDLE_WELCOMED;
		log_open(m, h);
		break;
	case SL_ACTION_STEPPED:
		note_step(m);
		break;
	case SL_ACTION_FAIL:
		if (fail->code == SL_ERR_BUSY &&
		    m->stage == SL_MIDDLE_WELCOMED) /* a client that pauses ends its session with BUSY */
			sl_log_limited(SL_LOG_INFO, "session-paused", "peer %" PRIu64 " after %" PRIu64 " step%s",
				       m->peer, m->steps, sl_plural((long long)m->steps));
		else
			sl_log_limited(SL_LOG_WARN, "session-failed", "peer %" PRIu64 ": %s: %s", m->peer,
				       sl_err_name(fail->code), fail->text);
		session_over(m, sl_port_session(m->port)->paused ? SL_SEAT_PAUSED : SL_SEAT_LOST, fail);
		break;
	case SL_ACTION_LEFT:
		sl_log_limited(SL_LOG_INFO, "session-left", "peer %" PRIu64 " after %" PRIu64 " step%s", m->peer,
			       m->steps, sl_plural((long long)m->steps));
		session_over(m, SL_SEAT_LEFT, NULL);
		break;
	default:
		if (m->seat->action[action->kind])
			m->seat->action[action->kind](m);
		break;
	}
}

enum sl_err sl_middle_open(struct sl_middle **out, const struct sl_middle_env *env, sl_peer peer,
			   const struct sl_key *owner, struct sl_memory back, struct sl_fail *fail)
{
	static const struct sl_port_events events = {sl_middle_task, task_ran, sl_middle_place, sl_middle_range,
						     session_action};
	struct sl_middle *m = calloc(1, sizeof *m);
	enum sl_err err;

	if (!m)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	m->env = *env;
	m->peer = peer;
	m->seat = &sl_seat_alone;
	m->checkpoint = &m->shown;
	m->back = back;
	m->owned = owner != NULL;
	if (owner)
		m->owner = *owner;
	m->opened_ms = m->worked_ms = sl_loop_now_ms(env->loop);
	err = sl_port_open(&m->port, env->loop, env->transport, peer, env->worker, &events, m, fail);
	if (err) {
		free(m);
		return err;
	}
	sl_charge_set(&m->charge, env->memory, 0);
	sl_port_admit_share(m->port, env->newcomers);
	sl_session_open_server(sl_port_session(m->port), env->window_bytes, env->part_bytes, m->opened_ms);
	sl_port_session(m->port)->device = env->device;
	*out = m;
	return SL_OK;
}

void sl_middle_deliver(struct sl_middle *m, struct sl_bytes header, struct sl_bytes payload)
{
	sl_port_deliver(m->port, header, payload);
}

void sl_middle_malformed(struct sl_middle *m, const char *why)
{
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_PROTOCOL, "malformed message: %s", why);
	sl_port_fail(m->port, &fail);
}

void sl_middle_writable(struct sl_middle *m)
{
	sl_port_writable(m->port);
}

void sl_middle_tick(struct sl_middle *m)
{
	uint64_t had_ms = sl_worker_had_ms(m->env.worker, sl_port_share(m->port));
	const uint64_t limit_ms = (uint64_t)m->env.watchdog_s * 1000;
	struct sl_fail why;

	if (m->last_is != SL_MIDDLE_LAST_NONE || m->closed)
		return;
	/* Only for a task that still yields. One that is silent hangs: then the whole server ends (host.c). */
	if (limit_ms && had_ms > limit_ms && 2 * sl_worker_silent_ms(m->env.worker) < limit_ms) {
		sl_fail_set(&why, SL_ERR_LIMIT,
			    "a task of this session has had %" PRIu64
			    " s of the server's time, and its watchdog_s is %d",
			    had_ms / 1000, m->env.watchdog_s);
		sl_port_fail(m->port, &why);
	} else if (sl_port_session(m->port)->state != SL_SESSION_NEW)
		sl_port_event(m->port, &(struct sl_event){.kind = SL_EV_TICK,
							  .number = sl_transport_arrived(m->env.transport, m->peer)});
}

void sl_middle_end(struct sl_middle *m, const struct sl_fail *why)
{
	sl_port_fail(m->port, why);
}

static void port_closed(void *arg)
{
	struct sl_middle *m = arg;
	void (*closed)(void *) = m->closed;
	void *closed_arg = m->closed_arg;

	sl_trunk_close(&m->trunk);
	sl_plan_close(m->group_plan);
	sl_member_ends_close(m);
	m->seat->leave(m);
	sl_charge_set(&m->charge, NULL, 0);
	free(m);
	closed(closed_arg);
}

static void close_port(struct sl_middle *m)
{
	sl_port_close(m->port, port_closed, m);
}

void sl_middle_close(struct sl_middle *m, void (*closed)(void *arg), void *arg)
{
	m->closed = closed;
	m->closed_arg = arg;
	if (m->last_is != SL_MIDDLE_LAST_POSTED)
		close_port(m);
}

sl_peer sl_middle_peer(const struct sl_middle *m)
{
	return m->peer;
}

const struct sl_session *sl_middle_session(const struct sl_middle *m)
{
	return sl_port_session(m->port);
}

struct sl_middle_status sl_middle_status(const struct sl_middle *m)
{
	return (struct sl_middle_status){.opened_ms = m->opened_ms,
					 .worked_ms = m->worked_ms,
					 .steps = m->steps,
					 .skipped = m->skipped,
					 .step_s = m->step_s,
					 .memory = m->shown_memory,
					 .welcomed = m->stage == SL_MIDDLE_WELCOMED,
					 .left = m->ended == SL_SEAT_LEFT || m->ended == SL_SEAT_PAUSED,
					 .agreed = m->stage != SL_MIDDLE_ASKS ? &m->agreement.agreed : NULL,
					 .network = m->network,
					 .part = m->part,
					 .outcome = m->outcome,
					 .checkpoint = *m->checkpoint,
					 .stats = sl_port_stats(m->port)};
}
