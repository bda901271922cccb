/* The specification of a link, as a table: state × event → next state, and actions in their order. The next state is
 * set before the first action, since an action may call the caller, who may call back at once. */
#include <stddef.h>

#include "client/link/link_parts.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum { SAY_MS = 1000, SAY_THERE_MS = 5000 };

static uint64_t waited_ms(const struct sl_link *l)
{
	return sl_loop_now_ms(l->loop) - l->opened_ms;
}

/* No answer yet: logs that once, and fails after link.connect_timeout_ms. */
static void wait_for_answer(struct sl_link *l)
{
	struct sl_fail fail;

	if (waited_ms(l) > SAY_MS + (uint64_t)l->conf.heartbeat_ms && !l->said) {
		l->said = true;
		sl_log(SL_LOG_INFO, "connecting", "%s has not answered yet", l->conf.endpoint);
	} else if (waited_ms(l) > (uint64_t)l->conf.connect_timeout_ms) {
		sl_fail_set(&fail, SL_ERR_TIMEOUT, "no answer from %s within %d ms: is splits running there?",
			    l->conf.endpoint, l->conf.connect_timeout_ms);
		sl_port_fail(l->port, &fail);
	}
}

static void hush(struct sl_link *l)
{
	l->said = false;
}

/* The server answers with heartbeats until WELCOME, while it builds its plan or waits for other members of a group. */
static void say_preparing(struct sl_link *l)
{
	const struct sl_agreed *a = &l->conf.agreement->agreed;

	if (l->said || waited_ms(l) <= SAY_THERE_MS)
		return;
	l->said = true;
	if (sl_agreed_goes_on(a))
		sl_log(SL_LOG_INFO, "group-waits",
		       "%s has answered; group %s goes on once enough of its %d members are there", l->conf.endpoint,
		       a->share.group, a->share.clients);
	else if (a->share.group[0] && a->share.clients > 1)
		sl_log(SL_LOG_INFO, "group-waits", "%s has answered; group %s goes on once all %d members are there",
		       l->conf.endpoint, a->share.group, a->share.clients);
	else
		sl_log(SL_LOG_INFO, "preparing", "%s has answered, and prepares this run", l->conf.endpoint);
}

/* link.stall_s; before a group's Welcome share.wait_s more, within which the server answers a member that waits. */
static uint64_t patience_ms(const struct sl_link *l)
{
	const struct sl_agreed *a = &l->conf.agreement->agreed;
	const bool waits = a->share.group[0] && l->state != LINK_UP;

	return l->conf.stall_ms + (waits ? (uint64_t)a->share.wait_s * 1000 : 0);
}

/* True once the server has made no progress for patience_ms. Heartbeats and credit alone are no progress. Work that it
 * sends is, and so are bytes of parts that it lets this side send. */
static bool stalls(struct sl_link *l)
{
	const struct sl_session *s = sl_port_session(l->port);
	const uint64_t now_ms = sl_loop_now_ms(l->loop), worked = s->counts.worked + sl_port_stats(l->port).sent_bytes;

	if (worked != l->worked || s->state == SL_SESSION_READY || !sl_worker_idle(l->worker)) {
		l->worked = worked;
		l->worked_ms = now_ms;
	}
	return l->conf.stall_ms && now_ms - l->worked_ms > patience_ms(l);
}

static void tick(struct sl_link *l)
{
	struct sl_fail fail;

	if (stalls(l) && l->conf.agreement->agreed.share.group[0]) {
		l->stalled = true;
		sl_fail_set(&fail, SL_ERR_TIMEOUT,
			    "%s has sent nothing but heartbeats for %llu s (link.stall_s): the link "
			    "is made anew, in case a message was lost; if not, group %s waits for a member",
			    l->conf.endpoint, (unsigned long long)patience_ms(l) / 1000,
			    l->conf.agreement->agreed.share.group);
		sl_port_fail(l->port, &fail);
		return;
	}
	if (stalls(l)) {
		sl_fail_set(
			&fail, SL_ERR_TIMEOUT,
			"%s has sent nothing but heartbeats for %llu s (link.stall_s): it has too much to do, or does "
			"not do its part; ask for its status there, set a longer link.stall_s, or use another server",
			l->conf.endpoint, (unsigned long long)l->conf.stall_ms / 1000);
		sl_port_fail(l->port, &fail);
		return;
	}
	/* On a connection that is new, only a frame shows that the session is still there. */
	sl_port_event(l->port,
		      &(struct sl_event){.kind = SL_EV_TICK,
					 .number = l->lost ? 0 : sl_transport_arrived(l->transport, SL_PEER_SERVER)});
}

static void tell_ready(struct sl_link *l)
{
	SL_FAILPOINT(SL_FP_CLIENT_WELCOMED);
	l->events.ready(l->arg, sl_port_session(l->port)->held_step);
}

static void tell_failed(struct sl_link *l)
{
	l->events.failed(l->arg, &l->why);
}

static void run_last(struct sl_job *job)
{
	(void)job; /* only its place in the queue counts */
}

/* No task is under way any more, so the caller may use the tasks' data. */
static void last_done(struct sl_job *job)
{
	sl_link_event((struct sl_link *)(void *)((char *)job - offsetof(struct sl_link, last)), LINK_QUIET);
}

/* Lets no further task begin. The loop does not wait for the running one: it may hang, and the watchdog for that runs
 * on the loop. */
static void stop_tasks(struct sl_link *l)
{
	sl_port_stop(l->port);
	l->last = (struct sl_job){.run = run_last, .done = last_done, .share = sl_port_share(l->port)};
	sl_worker_post(l->worker, &l->last);
}

static void say_pause(struct sl_link *l)
{
	struct sl_fail why;

	sl_fail_set(&why, SL_ERR_BUSY, "the client pauses; its session can be resumed");
	sl_port_fail(l->port, &why);
	sl_port_stop(l->port);
}

static void say_goodbye(struct sl_link *l)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_LEAVE});
}

static void port_closed(void *arg)
{
	struct sl_link *l = arg;
	void (*closed)(void *) = l->events.closed;
	void *closed_arg = l->arg;
	const struct sl_link_work work = l->work;

	sl_link_free(l);
	if (work.close)
		work.close(work.arg);
	closed(closed_arg);
}

static void close_port(struct sl_link *l)
{
	sl_port_close(l->port, port_closed, l);
}

/* clang-format off */
#define TO(state, ...) {LINK_##state, {__VA_ARGS__}, true}

#define NOT_OVER                                                  \
	[LINK_FAILED] = TO(STOPPING, stop_tasks),                 \
	[LINK_PAUSE]  = TO(DOWN,     say_pause),                  \
	[LINK_CLOSE]  = TO(CLOSING,  say_goodbye, stop_tasks)

const struct link_rule sl_link_table[LINK_STATE_COUNT][LINK_EVENT_COUNT] = {
	[LINK_CALLING] = {
		NOT_OVER,
		[LINK_TICK]     = TO(CALLING,   wait_for_answer),
		[LINK_HEARD]    = TO(PREPARING, hush),
		[LINK_WELCOMED] = TO(UP,        tell_ready),
	},
	[LINK_PREPARING] = {
		NOT_OVER,
		[LINK_TICK]     = TO(PREPARING, say_preparing, tick),
		[LINK_WELCOMED] = TO(UP,        tell_ready),
	},
	[LINK_UP] = {
		NOT_OVER,
		[LINK_TICK]     = TO(UP,        tick),
	},
	[LINK_STOPPING] = {
		[LINK_QUIET]    = TO(DOWN,      tell_failed),
		[LINK_CLOSE]    = TO(CLOSING), /* QUIET will come: stop_tasks has been called */
	},
	[LINK_DOWN] = {
		[LINK_CLOSE]    = TO(CLOSING,   stop_tasks),
	},
	[LINK_CLOSING] = {
		[LINK_QUIET]    = TO(CLOSING,   close_port),
	},
};
/* clang-format on */

void sl_link_event(struct sl_link *l, enum link_event ev)
{
	const struct link_rule *rule = &sl_link_table[l->state][ev];

	if (!rule->there)
		return;
	if (l->state <= LINK_UP && rule->next > LINK_UP)
		l->ended_in = l->state;
	l->state = rule->next;
	for (size_t i = 0; i < sizeof rule->act / sizeof rule->act[0] && rule->act[i]; i++)
		rule->act[i](l);
}
