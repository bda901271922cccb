#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/run/remote_parts.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/exec/clip.h"
#include "common/exec/finite.h"
#include "common/link/loop.h"

enum { LINGER_MS = 500, TICK_FRACTION = 4, HWM = 64 };

static void task_ran(void *arg, enum sl_task task, struct sl_event *done)
{
	const struct sl_remote *r = arg;

	memcpy(done->squares, r->squares, sizeof done->squares);
}

static float *place(void *arg, enum sl_dir dir, int chunk)
{
	struct sl_remote *r = arg;
	const bool mid = dir == SL_DIR_MID_ACT;
	const int64_t most = sl_plan_cut_most(r->conf.plan, mid);

	return mid ? sl_exec_input(r->ends.tail, chunk, most).data : sl_exec_dout(r->ends.head, chunk, most).data;
}

/* ---- the session's news ---- */

struct sl_step_result sl_remote_result(const struct sl_remote *r)
{
	struct sl_port_stats now = sl_port_stats(r->port);
	const struct sl_session *s = sl_port_session(r->port);

	return (struct sl_step_result){
		.step = r->ends.step,
		.rows = r->ends.feed.rows,
		.tokens = sl_feed_tokens(&r->ends.feed),
		.answers = sl_feed_answers(&r->ends.feed),
		.correct = sl_ends_correct(&r->ends),
		.loss = sl_ends_loss(&r->ends),
		.skipped = s->skip,
		.late = s->skip && s->late,
		.passed = s->passed,
		.lr = r->lr,
		.grad_norm = sl_plan_clip_own(&r->conf.plan->spec) > 0 && s->training && !s->skip
				     ? sl_clip_norm(s->squares)
				     : NAN,
		.t_step_s = sl_seconds_since(r->started_ns),
		.t_compute_s = now.compute_s + now.codec_s - r->before.compute_s - r->before.codec_s,
		.t_server_s = s->training && s->committed ? s->server_compute_s : NAN,
		.t_codec_s = now.codec_s - r->before.codec_s,
		.tx_bytes = now.tx_bytes - r->before.tx_bytes,
		.rx_bytes = now.rx_bytes - r->before.rx_bytes,
	};
}

static void pass_done(struct sl_remote *r)
{
	const struct sl_step_result result = sl_remote_result(r);

	r->events.done(r->arg, &result);
}

static void session_action(void *arg, const struct sl_action *action, const struct sl_fail *fail)
{
	struct sl_remote *r = arg;

	switch (action->kind) {
	case SL_ACTION_READY:
		sl_link_event(r, LINK_WELCOMED);
		break;
	case SL_ACTION_STEPPED:
	case SL_ACTION_EVALUATED:
		pass_done(r);
		break;
	case SL_ACTION_ABANDONED:
		r->events.abandoned(r->arg, fail);
		break;
	case SL_ACTION_FETCHED:
		r->events.fetched(r->arg);
		break;
	case SL_ACTION_FAIL:
		r->why = *fail;
		sl_link_event(r, LINK_FAILED);
		break;
	default:
		break;
	}
}

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_remote *r = arg;

	sl_port_deliver(r->port, header, payload);
	if (sl_port_session(r->port)->counts.frames)
		sl_link_event(r, LINK_HEARD);
}

static void on_writable(void *arg, sl_peer peer)
{
	struct sl_remote *r = arg;

	sl_port_writable(r->port);
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	struct sl_remote *r = arg;
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_PROTOCOL, "the server sent a malformed message: %s", why);
	sl_port_fail(r->port, &fail);
}

static void on_lost(void *arg, sl_peer peer)
{
	sl_log(SL_LOG_WARN, "link-lost", "the connection to the server broke; waiting for it to come back");
}

static void on_refused(void *arg, const struct sl_fail *why)
{
	struct sl_remote *r = arg;

	sl_port_fail(r->port, why);
}

static void on_tick(void *arg)
{
	sl_link_event(arg, LINK_TICK);
}

static void wake_loop(void *arg)
{
	sl_async_wake(arg);
}

static void on_jobs_done(void *arg)
{
	struct sl_remote *r = arg;

	if (r->worker)
		sl_worker_drain(r->worker);
}

/* ---- opening ---- */

static void fill_hello(const struct sl_remote *r, struct sl_hello *h, const float *middle)
{
	const struct sl_remote_conf *c = &r->conf;

	*h = (struct sl_hello){
		.version = SL_WIRE_VERSION,
		.epoch = c->epoch,
		.n_held = (uint32_t)c->n_held,
		.software = "splitc " SL_VERSION,
		.weights_source = c->weights_from_seed ? SL_WEIGHTS_SEED : SL_WEIGHTS_HASH,
		.part_bytes = (uint32_t)c->part_bytes,
		.window_bytes = c->window_bytes,
		.heartbeat_ms = (uint32_t)c->heartbeat_ms,
		.timeout_ms = (uint32_t)c->timeout_ms,
		.run_steps = c->run_steps,
	};
	memcpy(h->session, c->secret->session, sizeof h->session);
	memcpy(h->held, c->held, sizeof h->held);
	sl_weights_hash(middle, c->plan->segment[SL_MIDDLE].weight_count, h->weights_hash);
}

static enum sl_err open_link(struct sl_remote *r, struct sl_fail *fail)
{
	static const struct sl_transport_events transport_events = {on_message, on_writable, on_malformed, on_lost,
								    on_refused};
	static const struct sl_port_events port_events = {sl_remote_run_task, task_ran, place, session_action};
	const struct sl_transport_conf transport = {.endpoint = r->conf.endpoint,
						    .part_bytes = r->conf.part_bytes,
						    .hwm = HWM,
						    .auth = r->conf.auth,
						    .traffic = r->conf.traffic};
	enum sl_err err = sl_async_open(&r->jobs_done, r->loop, on_jobs_done, r, fail);

	if (!err)
		err = sl_worker_open(&r->worker, "split-compute", wake_loop, r->jobs_done, fail);
	if (!err)
		err = sl_transport_connect(&r->transport, r->loop, &transport, &transport_events, r, fail);
	if (!err)
		err = sl_port_open(&r->port, r->loop, r->transport, SL_PEER_SERVER, r->worker, &port_events, r, fail);
	if (!err)
		err = sl_timer_open(&r->ticker, r->loop, on_tick, r, fail);
	return err;
}

static enum sl_err open_shared(struct sl_remote *r, struct sl_fail *fail)
{
	const struct sl_agreement *a = r->conf.agreement;
	size_t bytes[SL_END_COUNT];
	enum sl_err err;

	if (!r->conf.plan->spec.shared_ends)
		return SL_OK;
	err = sl_end_layout_of(&r->layout, r->conf.plan, fail);
	for (int end = 0; end < SL_END_COUNT && !err; end++) {
		const struct sl_end_coder_env env = {
			.layout = &r->layout,
			.spec = &a->end_codec[end],
			.all = a->agreed.share.layers == SL_LAYERS_ALL,
			.be = r->conf.be,
			.seed = r->conf.plan->spec.seed,
			.member = end == SL_END_MEAN ? -1 : r->conf.plan->spec.member,
		};

		err = sl_end_coder_open(&r->end[end], &env, fail);
		bytes[end] = err ? 0 : sl_end_coder_bound(r->end[end]);
	}
	if (err)
		return err;
	sl_port_end_runs(r->port, bytes);
	r->change = calloc((size_t)r->layout.floats + 1, sizeof *r->change);
	if (!r->change)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the gradients of head and tail");
	if (!r->layout.round)
		return SL_OK;
	err = sl_ends_round_open(&r->round, &r->ends, &r->layout, (enum sl_moments)a->agreed.share.moments, fail);
	if (!err && sl_ends_round_begin(&r->round))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back");
	return err;
}

static enum sl_err open_session(struct sl_remote *r, struct sl_fail *fail)
{
	struct sl_session *s = sl_port_session(r->port);
	struct sl_session_limits limits;
	struct sl_hello hello;
	enum sl_err err;

	/* the role first: it decides which runs the port accepts */
	sl_session_open_client(s, &(struct sl_hello){0}, 0);
	err = open_shared(r, fail);
	if (err)
		return err;
	err = sl_port_equip(r->port, r->conf.plan, r->conf.be, NULL, r->conf.agreement->codec, fail);
	if (err)
		return err;
	sl_weights_pack(r->conf.weights, &r->conf.plan->segment[SL_MIDDLE], sl_port_weights(r->port));
	fill_hello(r, &hello, sl_port_weights(r->port));
	err = sl_agreement_say(r->conf.agreement, r->conf.plan, &r->text, &hello, fail);
	if (err)
		return err;
	limits = s->limits;
	sl_session_open_client(s, &hello, sl_loop_now_ms(r->loop));
	s->secret = r->conf.secret;
	s->text = r->text;
	s->first = r->conf.first;
	sl_session_set_limits(s, &limits);
	sl_port_epoch(r->port, hello.epoch);
	return SL_OK;
}

enum sl_err sl_remote_open(struct sl_remote **out, struct sl_loop *loop, const struct sl_remote_conf *conf,
			   const struct sl_remote_events *events, void *arg, struct sl_fail *fail)
{
	struct sl_remote *r = calloc(1, sizeof *r);
	enum sl_err err;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	r->conf = *conf;
	r->events = *events;
	r->arg = arg;
	r->loop = loop;
	r->opened_ms = r->worked_ms = sl_loop_now_ms(loop);
	err = sl_ends_open(&r->ends, conf->plan, conf->be, fail);
	if (!err && sl_ends_set_weights(&r->ends, conf->weights))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "the weights could not be set");
	r->ends.chunk_loss_sum = conf->chunk_loss_sum;
	r->ends.logits = conf->logits;
	r->ends.kept = conf->kept;
	if (!err)
		err = open_link(r, fail);
	if (!err)
		err = open_session(r, fail);
	if (err) {
		if (r->port)
			sl_port_discard(r->port);
		sl_remote_free(r);
		return err;
	}
	sl_timer_start(r->ticker, 1, (uint64_t)(conf->heartbeat_ms / TICK_FRACTION + 1));
	sl_port_event(r->port, &(struct sl_event){.kind = SL_EV_OPEN});
	*out = r;
	return SL_OK;
}

/* ---- the caller's requests ---- */

static void begin(struct sl_remote *r, const struct sl_feed *feed, uint64_t number, double lr, bool training,
		  bool checkpoint)
{
	if (r->state != LINK_UP) /* it failed, and its last task has not ended */
		return;
	sl_ends_take(&r->ends, feed, number, training);
	r->lr = lr;
	r->started_ns = sl_now_ns();
	r->before = sl_port_stats(r->port);
	sl_port_event(r->port, &(struct sl_event){.kind = training ? SL_EV_BEGIN_STEP : SL_EV_BEGIN_EVAL,
						  .batch_rows = (uint64_t)feed->rows,
						  .begin = feed->begin,
						  .pieces = feed->pieces,
						  .number = number,
						  .lr = lr,
						  .checkpoint = checkpoint});
}

void sl_remote_step(struct sl_remote *r, const struct sl_feed *feed, uint64_t step, double lr, bool checkpoint)
{
	begin(r, feed, step, lr, true, checkpoint);
}

void sl_remote_pass(struct sl_remote *r, uint64_t step, double lr, bool checkpoint)
{
	if (r->state != LINK_UP)
		return;
	sl_ends_take(&r->ends, &(struct sl_feed){0}, step, true);
	r->lr = lr;
	r->started_ns = sl_now_ns();
	r->before = sl_port_stats(r->port);
	sl_port_event(r->port,
		      &(struct sl_event){.kind = SL_EV_PASS, .number = step, .lr = lr, .checkpoint = checkpoint});
}

void sl_remote_eval(struct sl_remote *r, const struct sl_feed *feed, uint64_t number)
{
	begin(r, feed, number, 0, false, false);
}

void sl_remote_fetch(struct sl_remote *r)
{
	sl_port_event(r->port, &(struct sl_event){.kind = SL_EV_BEGIN_FETCH});
}

void sl_remote_skip(struct sl_remote *r)
{
	sl_port_event(r->port, &(struct sl_event){.kind = SL_EV_SKIP});
}

void sl_remote_kept(struct sl_remote *r, const uint64_t kept[SL_WIRE_KEPT], bool writing)
{
	memcpy(sl_port_session(r->port)->kept, kept, sizeof sl_port_session(r->port)->kept);
	sl_port_session(r->port)->writing = writing;
}

bool sl_remote_kept_there(const struct sl_remote *r, uint64_t step)
{
	return sl_port_session(r->port)->kept_step == step;
}

bool sl_remote_checkpointed(const struct sl_remote *r)
{
	return sl_port_session(r->port)->checkpointed;
}

enum sl_err sl_remote_state_open(struct sl_remote *r, struct sl_client_state *s, struct sl_fail *fail)
{
	enum sl_err err = sl_client_state_open(s, r->conf.plan, sl_port_codecs(r->port), fail);

	return err ? err : sl_client_state_open_end(s, r->end[SL_END_GRAD], r->round.base ? r->layout.grads : 0, fail);
}

enum sl_err sl_remote_take(struct sl_remote *r, struct sl_client_state *s)
{
	enum sl_err err = sl_client_state_take(s, r->ends.head, r->ends.tail, sl_port_codecs(r->port));

	return err ? err : sl_client_state_take_end(s, r->end[SL_END_GRAD], r->round.base);
}

enum sl_err sl_remote_give(struct sl_remote *r, const struct sl_client_state *s)
{
	enum sl_err err = sl_remote_follow(r, s->step);

	if (!err)
		err = sl_client_state_give(s, r->ends.head, r->ends.tail, sl_port_codecs(r->port));
	return err ? err : sl_client_state_give_end(s, r->end[SL_END_GRAD], r->round.base);
}

enum sl_err sl_remote_follow(struct sl_remote *r, uint64_t step)
{
	struct sl_fail why;
	enum sl_err err = sl_port_follow(r->port, step, &why);

	return err ? err : sl_ends_follow(&r->ends, step);
}

uint64_t sl_remote_made(const struct sl_remote *r)
{
	const struct sl_session *s = sl_port_session(r->port);

	return !r->applied ? s->made : s->branch ? s->branch : s->epoch;
}

bool sl_remote_ready(const struct sl_remote *r)
{
	return r->state == LINK_UP || (r->state > LINK_UP && r->ended_in == LINK_UP);
}

static bool ended_in_commit(const struct sl_remote *r)
{
	return sl_port_session(r->port)->ended_in == SL_SESSION_COMMIT;
}

bool sl_remote_applied(const struct sl_remote *r)
{
	return ended_in_commit(r) && r->applied == r->ends.step + 1;
}

bool sl_remote_torn(const struct sl_remote *r)
{
	return r->torn;
}

bool sl_remote_in_doubt(const struct sl_remote *r)
{
	const struct sl_session *s = sl_port_session(r->port);
	/* without the mean of heads and tails this side cannot apply the step */
	const bool crosses = r->change && (!s->limits.ends_round || (s->number + 1) % s->limits.ends_round == 0);
	const bool may_apply = !crosses || (s->committed && (!s->mean || s->mean_whole));

	return ended_in_commit(r) && !sl_remote_applied(r) && may_apply;
}

enum sl_err sl_remote_apply(struct sl_remote *r)
{
	struct sl_fail why;

	return sl_remote_commit(r, &why);
}

enum sl_err sl_remote_get_weights(struct sl_remote *r, struct sl_weights *weights, struct sl_fail *fail)
{
	const struct sl_plan_segment *middle = &r->conf.plan->segment[SL_MIDDLE];

	/* no step of which a side had said that it was sound can have made them */
	if (!sl_finite_host(sl_port_weights(r->port), middle->weight_count))
		return sl_fail_set(
			fail, SL_ERR_NONFINITE,
			"the weights that %s sent for its part of the network hold NaN or Inf: they are not "
			"written, and this run's checkpoints stay; ask whose server that is, or try a smaller "
			"train.optimizer.lr",
			r->conf.endpoint);
	sl_weights_unpack(weights, middle, sl_port_weights(r->port));
	return sl_ends_get_weights(&r->ends, weights)
		       ? sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back")
		       : SL_OK;
}

uint64_t sl_remote_busy_ms(const struct sl_remote *r)
{
	return sl_worker_busy_ms(r->worker);
}

bool sl_remote_idle(const struct sl_remote *r)
{
	return sl_worker_idle(r->worker);
}

struct sl_port_stats sl_remote_stats(const struct sl_remote *r)
{
	return sl_port_stats(r->port);
}

void sl_remote_count(struct sl_remote *r)
{
	sl_transport_count(r->transport);
}

const struct sl_session *sl_remote_session(const struct sl_remote *r)
{
	return sl_port_session(r->port);
}

void sl_remote_free(struct sl_remote *r)
{
	sl_timer_close(r->ticker);
	sl_worker_close(r->worker);
	r->worker = NULL;
	sl_async_close(r->jobs_done);
	sl_transport_close(r->transport, LINGER_MS);
	sl_ends_round_close(&r->round);
	sl_ends_close(&r->ends);
	for (int end = 0; end < SL_END_COUNT; end++)
		sl_end_coder_close(r->end[end]);
	sl_end_layout_close(&r->layout);
	free(r->change);
	free((void *)(uintptr_t)r->text.data);
	free(r);
}

void sl_remote_pause(struct sl_remote *r)
{
	sl_link_event(r, LINK_PAUSE);
}

void sl_remote_close(struct sl_remote *r)
{
	sl_link_event(r, LINK_CLOSE);
}
