#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/link_parts.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/conf/conf.h"
#include "common/exec/finite.h"
#include "common/weights/weights.h"

enum { LINGER_MS = 500, TICK_FRACTION = 4, HWM = 64 };

struct sl_link_conf sl_link_conf_of(const struct sl_conf_client *c, const struct sl_transport_auth *auth)
{
	return (struct sl_link_conf){
		.endpoint = c->server,
		.auth = auth->own ? auth : NULL,
		.part_bytes = (size_t)c->link.part_bytes,
		.window_bytes = (uint64_t)c->link.window_bytes,
		.heartbeat_ms = c->link.heartbeat_ms,
		.timeout_ms = c->link.timeout_ms,
		.connect_timeout_ms = c->link.connect_timeout_ms,
		.stall_ms = (uint64_t)c->link.stall_s * 1000,
	};
}

/* ---- the session's tasks and news ---- */

static enum sl_err run_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail)
{
	struct sl_link *l = arg;

	return l->work.run(l->work.arg, task, chunk, fail);
}

static void task_ran(void *arg, enum sl_task task, struct sl_event *done)
{
	struct sl_link *l = arg;

	l->work.ran(l->work.arg, task, done);
}

static float *place(void *arg, enum sl_dir dir, int chunk)
{
	struct sl_link *l = arg;

	return l->work.place(l->work.arg, dir, chunk);
}

static void session_action(void *arg, const struct sl_action *action, const struct sl_fail *fail)
{
	struct sl_link *l = arg;

	switch (action->kind) {
	case SL_ACTION_READY:
		sl_link_event(l, LINK_WELCOMED);
		break;
	case SL_ACTION_STEPPED:
	case SL_ACTION_EVALUATED:
		l->events.done(l->arg);
		break;
	case SL_ACTION_NORMED:
		l->events.normed(l->arg, sl_port_session(l->port)->squares[1]);
		break;
	case SL_ACTION_ABANDONED:
		l->events.abandoned(l->arg, fail);
		break;
	case SL_ACTION_FETCHED:
		l->events.fetched(l->arg);
		break;
	case SL_ACTION_REPORT:
		sl_log_limited(SL_LOG_WARN, "report-refused", "the server does not take this member's figures: %.400s",
			       sl_port_report(l->port)->text);
		break;
	case SL_ACTION_FAIL:
		l->why = *fail;
		sl_link_event(l, LINK_FAILED);
		break;
	default:
		break;
	}
}

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_link *l = arg;

	l->came_back = l->came_back || l->lost;
	l->lost = false;
	sl_port_deliver(l->port, header, payload);
	if (sl_port_session(l->port)->counts.frames)
		sl_link_event(l, LINK_HEARD);
}

static void on_writable(void *arg, sl_peer peer)
{
	struct sl_link *l = arg;

	sl_port_writable(l->port);
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	struct sl_link *l = arg;
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_PROTOCOL, "the server sent a malformed message: %s", why);
	sl_port_fail(l->port, &fail);
}

static void on_lost(void *arg, sl_peer peer)
{
	struct sl_link *l = arg;

	l->lost = true;
	sl_log(SL_LOG_WARN, "link-lost", "the connection to the server broke; waiting for it to come back");
	if (l->state == LINK_CALLING) /* the Hello may be lost with it; no proof has left yet */
		sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_OPEN});
}

static void on_refused(void *arg, const struct sl_fail *why)
{
	struct sl_link *l = arg;

	sl_port_fail(l->port, why);
}

static void on_tick(void *arg)
{
	sl_link_event(arg, LINK_TICK);
}

static void on_jobs_done(void *arg)
{
	struct sl_link *l = arg;

	if (l->worker)
		sl_worker_drain(l->worker);
}

/* ---- opening ---- */

static void fill_hello(const struct sl_link *l, struct sl_hello *h)
{
	const struct sl_link_conf *c = &l->conf;

	*h = (struct sl_hello){
		.version = SL_WIRE_VERSION,
		.epoch = c->offer.epoch,
		.n_held = (uint32_t)c->offer.n_held,
		.software = "splitc " SL_VERSION,
		.weights_source = c->weights_from_seed ? SL_WEIGHTS_SEED : SL_WEIGHTS_HASH,
		.part_bytes = (uint32_t)c->part_bytes,
		.window_bytes = c->window_bytes,
		.heartbeat_ms = (uint32_t)c->heartbeat_ms,
		.timeout_ms = (uint32_t)c->timeout_ms,
		.run_steps = c->run_steps,
	};
	if (c->plan->spec.free_calls)
		snprintf(h->software, sizeof h->software, "libsplit " SL_VERSION);
	memcpy(h->session, c->offer.secret->session, sizeof h->session);
	memcpy(h->held, c->offer.held, sizeof h->held);
	if (c->weights_hash)
		memcpy(h->weights_hash, c->weights_hash, sizeof h->weights_hash);
	else
		sl_weights_hash_packed(c->weights, &c->plan->segment[SL_MIDDLE], h->weights_hash);
}

static enum sl_err open_link(struct sl_link *l, struct sl_fail *fail)
{
	static const struct sl_transport_events transport_events = {on_message, on_writable, on_malformed, on_lost,
								    on_refused};
	static const struct sl_port_events port_events = {run_task, task_ran, place, NULL, session_action};
	const struct sl_transport_conf transport = {.endpoint = l->conf.endpoint,
						    .part_bytes = l->conf.part_bytes,
						    .hwm = HWM,
						    .auth = l->conf.auth,
						    .traffic = l->conf.traffic};
	enum sl_err err = sl_async_open(&l->jobs_done, l->loop, on_jobs_done, l, fail);

	if (!err)
		err = sl_worker_open(&l->worker, "split-compute", sl_async_wake, l->jobs_done, fail);
	if (!err)
		err = sl_transport_connect(&l->transport, l->loop, &transport, &transport_events, l, fail);
	if (!err)
		err = sl_port_open(&l->port, l->loop, l->transport, SL_PEER_SERVER, l->worker, &port_events, l, fail);
	if (!err)
		err = sl_timer_open(&l->ticker, l->loop, on_tick, l, fail);
	return err;
}

static enum sl_err open_session(struct sl_link *l, struct sl_fail *fail)
{
	struct sl_session *s = sl_port_session(l->port);
	struct sl_agreement said = *l->conf.agreement;
	struct sl_session_limits limits;
	struct sl_hello hello;
	enum sl_err err;

	said.agreed.share.fresh = l->conf.offer.fresh;
	/* First only the role, which decides which runs the port accepts. The Hello is complete further below. */
	sl_session_open_client(s, &(struct sl_hello){0}, 0);
	if (l->conf.end_bytes[0])
		sl_port_end_runs(l->port, l->conf.end_bytes);
	err = sl_port_equip(l->port, l->conf.plan, l->conf.be, NULL, l->conf.agreement->codec, fail);
	if (err)
		return err;
	sl_port_upload_from(l->port, l->conf.weights);
	fill_hello(l, &hello);
	err = sl_agreement_say(&said, l->conf.plan, &l->text, &hello, fail);
	if (err)
		return err;
	limits = s->limits;
	sl_session_open_client(s, &hello, sl_loop_now_ms(l->loop));
	s->secret = l->conf.offer.secret;
	s->text = l->text;
	s->first = l->conf.offer.first;
	sl_session_set_limits(s, &limits);
	sl_port_epoch(l->port, hello.epoch);
	return SL_OK;
}

enum sl_err sl_link_open(struct sl_link **out, struct sl_loop *loop, const struct sl_link_conf *conf,
			 const struct sl_link_events *events, void *arg, const struct sl_link_work *work,
			 struct sl_fail *fail)
{
	struct sl_link *l = calloc(1, sizeof *l);
	enum sl_err err;

	if (!l)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	l->conf = *conf;
	l->events = *events;
	l->work = *work;
	l->arg = arg;
	l->loop = loop;
	l->opened_ms = l->worked_ms = sl_loop_now_ms(loop);
	err = open_link(l, fail);
	if (!err)
		err = open_session(l, fail);
	if (err) {
		if (l->port)
			sl_port_discard(l->port);
		sl_link_free(l);
		return err;
	}
	sl_timer_start(l->ticker, 1, (uint64_t)(conf->heartbeat_ms / TICK_FRACTION + 1));
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_OPEN});
	*out = l;
	return SL_OK;
}

/* ---- the caller's requests ---- */

void sl_link_begin(struct sl_link *l, const struct sl_event *pass)
{
	sl_port_event(l->port, pass);
}

void sl_link_fetch(struct sl_link *l)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_BEGIN_FETCH});
}

void sl_link_skip(struct sl_link *l)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_SKIP});
}

void sl_link_say(struct sl_link *l, struct sl_wire_report *report)
{
	const struct sl_agreed *a = &l->conf.agreement->agreed;

	sl_report_sign(report, l->conf.offer.secret, a->share.group, a->share.member);
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_SAY, .report = report});
}

void sl_link_grads(struct sl_link *l, int first, int chunks)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_GRADS, .chunk = first, .chunks = chunks});
}

void sl_link_norm(struct sl_link *l)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_ASK_NORM});
}

void sl_link_apply(struct sl_link *l, double lr, double grad_scale, bool checkpoint)
{
	sl_port_event(
		l->port,
		&(struct sl_event){.kind = SL_EV_APPLY, .lr = lr, .grad_scale = grad_scale, .checkpoint = checkpoint});
}

void sl_link_drop(struct sl_link *l, const struct sl_fail *why)
{
	sl_port_event(l->port, &(struct sl_event){.kind = SL_EV_NONFINITE, .why = why});
}

void sl_link_kept(struct sl_link *l, const uint64_t kept[SL_WIRE_KEPT], bool writing)
{
	struct sl_session *s = sl_port_session(l->port);

	memcpy(s->kept, kept, sizeof s->kept);
	s->writing = writing;
}

struct sl_port *sl_link_port(struct sl_link *l)
{
	return l->port;
}

const struct sl_session *sl_link_session(const struct sl_link *l)
{
	return sl_port_session(l->port);
}

enum sl_err sl_link_weights(const struct sl_link *l, const float **weights, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &l->conf.plan->segment[SL_MIDDLE];
	const int64_t count = sl_plan_fetch_count(s);
	const float *middle = sl_port_weights(l->port);

	/* An honest server cannot hold these: a step is committed only if both sides found no NaN or Inf. */
	if (!sl_finite_host(middle, count < s->float_count ? count : s->float_count))
		return sl_fail_set(
			fail, SL_ERR_NONFINITE,
			"the weights that %s sent for its part of the network hold NaN or Inf: they are not "
			"written, and this run's checkpoints stay; ask whose server that is, or try a smaller "
			"train.optimizer.lr",
			l->conf.endpoint);
	*weights = middle;
	return SL_OK;
}

bool sl_link_is_up(const struct sl_link *l)
{
	return l->state == LINK_UP;
}

bool sl_link_was_up(const struct sl_link *l)
{
	return l->state == LINK_UP || (l->state > LINK_UP && l->ended_in == LINK_UP);
}

bool sl_link_ended_in_commit(const struct sl_link *l)
{
	return sl_port_session(l->port)->ended_in == SL_SESSION_COMMIT;
}

bool sl_link_is_lost(const struct sl_link *l)
{
	return l->lost;
}

bool sl_link_came_back(const struct sl_link *l)
{
	return l->came_back;
}

bool sl_link_stalled(const struct sl_link *l)
{
	return l->stalled;
}

uint64_t sl_link_busy_ms(const struct sl_link *l)
{
	return sl_worker_busy_ms(l->worker);
}

bool sl_link_idle(const struct sl_link *l)
{
	return sl_worker_idle(l->worker);
}

void sl_link_count(struct sl_link *l)
{
	sl_transport_count(l->transport);
}

void sl_link_free(struct sl_link *l)
{
	sl_timer_close(l->ticker);
	sl_worker_close(l->worker);
	l->worker = NULL;
	sl_async_close(l->jobs_done);
	sl_transport_close(l->transport, LINGER_MS);
	free((void *)(uintptr_t)l->text.data);
	free(l);
}

void sl_link_pause(struct sl_link *l)
{
	sl_link_event(l, LINK_PAUSE);
}

void sl_link_close(struct sl_link *l)
{
	sl_link_event(l, LINK_CLOSE);
}
