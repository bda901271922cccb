/* The loop's thread: opens one link after the other, and does on the current one what the caller has asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/base/log.h"
#include "common/base/real.h"
#include "lib/token.h"

/* Wakes the caller, and makes its descriptor readable. With the lock. */
static void news(struct split_middle *m)
{
	pthread_cond_broadcast(&m->news);
	(void)eventfd_write(m->event_fd, 1);
}

void sl_lib_forget_call(struct split_middle *m)
{
	m->ask.open = m->ask.training = m->ask.norm = m->ask.apply = m->ask.drop = false;
	m->ask.calls = m->ask.chunks = m->ask.backs = 0;
	memset(m->y.seen, 0, sizeof m->y.seen);
	memset(m->dx.seen, 0, sizeof m->dx.seen);
}

/* ---- what the caller has asked for ---- */

static void begin(struct split_middle *m)
{
	const struct sl_lib_call *c = &m->ask.call[m->did.begun];
	const struct sl_event pass = {.kind = !m->ask.training ? SL_EV_BEGIN_EVAL
					      : m->did.begun   ? SL_EV_MORE
							       : SL_EV_BEGIN_STEP,
				      .number = m->ask.training ? m->step : (uint64_t)c->number,
				      .chunk = c->first,
				      .batch_rows = (uint64_t)c->rows,
				      .begin = m->plan->spec.row_tokens ? sl_lib_begin(m, c->first) : NULL};

	m->did.begun++;
	sl_link_begin(m->link, &pass);
}

/* Gives the link the next gradient, in the order in which the caller gave them, once this link has its activations. */
static bool give_grad(struct split_middle *m)
{
	const struct sl_lib_call *c = &m->ask.call[m->ask.order[m->did.backs]];

	if (m->did.backs == m->ask.backs || m->did.outputs < c->first + c->chunks)
		return false;
	m->did.backs++;
	sl_link_grads(m->link, c->first, c->chunks);
	return true;
}

static void drop(struct split_middle *m)
{
	struct sl_fail why;

	sl_fail_set(&why, SL_ERR_NONFINITE, "step %" PRIu64 " was dropped by the client's program", m->step);
	m->did.drop = true;
	sl_link_drop(m->link, &why);
}

/* Names the steps of the caller's tokens for COMMIT, so that the server keeps their states. */
static void say_kept(struct split_middle *m)
{
	const uint64_t kept[SL_WIRE_KEPT] = {m->n_token > 0 ? m->token[0] : 0, m->n_token > 1 ? m->token[1] : 0};

	sl_link_kept(m->link, kept, false);
}

static void apply(struct split_middle *m)
{
	m->did.apply = true;
	say_kept(m);
	sl_link_apply(m->link, m->ask.lr, m->ask.scale, m->keep_every && (m->step + 1) % m->keep_every == 0);
}

static void fetch(struct split_middle *m)
{
	m->did.fetch = true;
	sl_link_fetch(m->link);
}

static bool in_step(const struct split_middle *m)
{
	return m->did.begun && m->ask.training && sl_link_session(m->link)->state == SL_SESSION_STEP;
}

/* Asks the link for what the caller wants and the link was not asked for yet. With the lock. */
static void advance(struct split_middle *m)
{
	if (!m->link || !m->did.up || !sl_link_is_up(m->link) || m->rolled)
		return;
	if (m->ask.fetch && !m->ask.open && !m->did.fetch)
		fetch(m);
	while (m->ask.open && m->did.begun < m->ask.calls && !m->did.fetch && (!m->did.begun || in_step(m)))
		begin(m);
	if (m->did.skip) {
		m->did.skip = false;
		say_kept(m);
		sl_link_skip(m->link);
	}
	if (in_step(m) && m->ask.drop && !m->did.drop)
		drop(m);
	while (in_step(m) && give_grad(m))
		;
	if (in_step(m) && m->did.backs == m->ask.backs && m->ask.norm && !m->did.norm) {
		m->did.norm = true;
		m->did.norm_of = m->did.backs;
		sl_link_norm(m->link);
	}
	if (in_step(m) && m->ask.apply && m->did.backs == m->ask.backs && m->did.outputs == m->ask.chunks &&
	    !m->did.norm && !m->did.apply)
		apply(m);
}

/* ---- the link's events ---- */

static void count(struct split_middle *m)
{
	m->now = sl_port_stats(sl_link_port(m->link));
}

/* Called after a task, before the session hears of it. So advance() must wait for the next turn of the loop. */
static void on_ran(void *arg, enum sl_task task, struct sl_event *done)
{
	struct split_middle *m = arg;

	pthread_mutex_lock(&m->lock);
	m->did.outputs += task == SL_TASK_TAIL;
	if (task == SL_TASK_HEAD_BWD)
		m->did.dx[done->chunk] = true;
	if (task == SL_TASK_TAIL || task == SL_TASK_HEAD_BWD)
		news(m);
	pthread_mutex_unlock(&m->lock);
	sl_async_wake(m->wake);
}

/* Both sides are certain to have the state after the step. */
static void step_done(struct split_middle *m, uint64_t made)
{
	m->step++;
	m->live.made = made;
	m->live.step = m->step;
	m->stepped = true;
	sl_lib_forget_call(m);
	m->did = (struct sl_lib_did){.up = m->did.up};
	m->retry = (struct sl_retry){0};
}

static void on_done(void *arg)
{
	struct split_middle *m = arg;
	const struct sl_session *s = sl_link_session(m->link);

	pthread_mutex_lock(&m->lock);
	if (s->training) {
		m->server_s = s->server_compute_s;
		if (m->keep_every && (m->step + 1) % m->keep_every == 0 && s->keep != SL_KEEP_DONE &&
		    !sl_session_skips(s))
			sl_log(SL_LOG_WARN, "not-kept",
			       "the server could not keep step %" PRIu64 " on its disk; its log says why", m->step);
		step_done(m, s->epoch);
	} else {
		m->did.over = true;
	}
	count(m);
	advance(m);
	news(m);
	pthread_mutex_unlock(&m->lock);
}

static void on_normed(void *arg, double squares)
{
	struct split_middle *m = arg;

	pthread_mutex_lock(&m->lock);
	m->did.norm = false;
	m->ask.norm &= m->did.norm_of < m->ask.backs; /* the caller has given another gradient meanwhile */
	m->did.squares = squares;
	advance(m);
	news(m);
	pthread_mutex_unlock(&m->lock);
}

/* `told`: the caller hears of it at once, not at the end of the step. */
static void note_nonfinite(struct split_middle *m, const struct sl_fail *why, bool told)
{
	m->nonfinite = *why;
	m->nonfinite_step = m->step;
	m->stepped |= told;
}

static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct split_middle *m = arg;

	pthread_mutex_lock(&m->lock);
	if (!m->ask.drop)
		note_nonfinite(m, why, false);
	m->did.skip = true;
	pthread_mutex_unlock(&m->lock);
	sl_async_wake(m->wake);
}

static enum sl_err take(struct split_middle *m, struct sl_lib_state *s, uint64_t step, uint64_t made)
{
	enum sl_err err = sl_codecs_state_take(&s->codecs, sl_port_codecs(sl_link_port(m->link)));

	s->has = !err;
	s->step = step;
	s->made = made;
	return err;
}

static void on_fetched(void *arg)
{
	struct split_middle *m = arg;
	const struct sl_plan_segment *segment = &m->plan->segment[SL_MIDDLE];
	const float *weights;
	struct sl_fail why;

	pthread_mutex_lock(&m->lock);
	m->ask.fetch = m->did.fetch = false;
	if (sl_link_weights(m->link, &weights, &why)) {
		note_nonfinite(m, &why, true);
	} else {
		memcpy(m->fetched, weights, (size_t)sl_plan_fetch_count(segment) * sizeof *weights);
		m->fetched_at = m->step + 1;
		m->kept_there = sl_link_session(m->link)->kept_step == m->step;
		if (take(m, &m->live, m->step, m->live.made))
			m->kept_there = false;
	}
	count(m);
	advance(m);
	news(m);
	pthread_mutex_unlock(&m->lock);
}

static enum sl_err install_state(struct split_middle *m, const struct sl_lib_state *s, struct sl_fail *fail)
{
	struct sl_port *port = sl_link_port(m->link);
	const uint64_t made = sl_link_session(m->link)->made;
	enum sl_err err = sl_port_set_done(port, s->step, fail);

	if (err || !s->has)
		return err;
	if (s->step && s->made != made)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "the server's state of step %" PRIu64
				   " is not the one that this side left there: another "
				   "process went on with the same token, or older files of one side were put back",
				   s->step);
	if (sl_codecs_state_give(&s->codecs, sl_port_codecs(port)))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "the codecs' state of step %" PRIu64 " does not belong to this conf", s->step);
	return SL_OK;
}

static void fail_link(struct split_middle *m, const struct sl_fail *why)
{
	sl_port_fail(sl_link_port(m->link), why);
}

/* The server took a file of steps that were given up for that of the step in doubt. Had it applied that step, such a
 * file would be gone: so it stands before it, and the next link offers no other state. */
static bool is_given_up(struct split_middle *m, uint64_t next, struct sl_fail *why)
{
	if (!m->ahead.has || next != m->ahead.step || sl_link_session(m->link)->made == m->ahead.made)
		return false;
	m->ahead.has = false;
	sl_fail_set(why, SL_ERR_UNAVAILABLE, "the server's state of step %" PRIu64 " is one that was given up", next);
	return true;
}

/* The server goes on from step `next`. This side has its state in memory; otherwise only a token has it. */
static void on_ready(void *arg, uint64_t next)
{
	struct split_middle *m = arg;
	struct sl_fail why = {0};

	pthread_mutex_lock(&m->lock);
	if (m->ask.relink || is_given_up(m, next, &why)) {
		pthread_mutex_unlock(&m->lock);
		if (why.code)
			fail_link(m, &why);
		return;
	}
	m->linked = true;
	m->links++;
	if (sl_link_session(m->link)->epoch > m->epoch)
		m->epoch = sl_link_session(m->link)->epoch;
	if (m->ahead.has && next == m->ahead.step) {
		const struct sl_lib_state was = m->live;

		m->live = m->ahead;
		m->ahead = was;
		step_done(m, m->live.made);
	} else if (next != m->step) {
		m->rolled = true;
		m->rolled_to = next;
		sl_lib_forget_call(m);
	}
	m->ahead.has = false;
	if (m->rolled || !install_state(m, &m->live, &why)) {
		m->did.up = true;
		m->lost = (struct sl_fail){0};
		m->applied = 0;
		m->fetched_at = 0;
		m->ask.resume = false;
		advance(m);
	}
	news(m);
	pthread_mutex_unlock(&m->lock);
	if (why.code)
		fail_link(m, &why);
}

/* Saves this side's state when a link has ended: the state before its step. If COMMIT was sent and not answered, also
 * the state after the step. */
static void salvage(struct split_middle *m)
{
	const struct sl_session *s = sl_link_session(m->link);
	const bool in_doubt = sl_link_ended_in_commit(m->link);
	const uint64_t made = m->live.made;
	struct sl_fail why;
	enum sl_err err;

	if (!sl_link_was_up(m->link) || !m->did.up || m->rolled || m->ask.relink)
		return;
	if (in_doubt && m->applied == m->step + 1) {
		err = take(m, &m->live, m->step + 1, s->epoch);
		step_done(m, s->epoch);
	} else {
		err = take(m, &m->live, m->step, made);
		if (!err && in_doubt && !sl_lib_run(m, SL_TASK_COMMIT, 0, &why))
			err = take(m, &m->ahead, m->step + 1, s->epoch);
	}
	if (err)
		sl_fail_set(&m->dead, SL_ERR_NOMEM, "no memory for the codecs' state of step %" PRIu64, m->step);
}

static void on_failed(void *arg, const struct sl_fail *why)
{
	struct split_middle *m = arg;

	pthread_mutex_lock(&m->lock);
	salvage(m);
	m->lost = *why;
	if (why->code == SL_ERR_NONFINITE && m->ask.open && !m->ask.training) { /* another link can do the next one */
		note_nonfinite(m, why, true);
		sl_lib_forget_call(m);
	} else if (!sl_retry_failed(&m->retry, why->code) && !m->dead.code) {
		m->dead = *why;
	}
	m->did.up = false;
	news(m);
	pthread_mutex_unlock(&m->lock);
	sl_link_close(m->link);
}

static void end_loop(struct split_middle *m)
{
	sl_loop_stop(m->loop);
}

/* Replaces this side's state by that of split_resume's token. */
static void go_back(struct split_middle *m)
{
	struct sl_token t;

	m->ask.relink = false;
	if (sl_token_read(&t, m->pending, m->pending_bytes, &m->dead) || sl_lib_set_state(m, &t, &m->dead))
		news(m);
	free(m->pending);
	m->pending = NULL;
}

static void on_closed(void *arg)
{
	struct split_middle *m = arg;
	uint64_t pause_ms;

	pthread_mutex_lock(&m->lock);
	m->link = NULL;
	m->did = (struct sl_lib_did){0};
	m->past.tx_bytes += m->now.tx_bytes;
	m->past.rx_bytes += m->now.rx_bytes;
	m->past.codec_s += m->now.codec_s;
	m->now = (struct sl_port_stats){0};
	pause_ms = sl_retry_pause_ms(&m->retry, (uint64_t)m->conf.link.retry_ms, m->plan->spec.seed, m->step);
	if (m->ask.close)
		end_loop(m);
	else if (!m->dead.code)
		sl_timer_start(m->retry_timer, m->ask.relink ? 1 : pause_ms, 0);
	pthread_mutex_unlock(&m->lock);
}

/* ---- links ---- */

static void fill_link(struct split_middle *m, struct sl_link_conf *c)
{
	*c = sl_link_conf_of(&m->conf, &m->auth.transport);
	c->plan = m->plan;
	c->agreement = &m->agreement;
	c->be = &m->be;
	c->weights = &m->weights;
	c->stall_ms = 0; /* the program may take any time between two calls */
	c->offer = (struct sl_offer){.secret = &m->secret, .epoch = ++m->epoch, .first = !m->linked};
	sl_offer_fill(&c->offer, m->ahead.has ? m->ahead.step : 0, m->step, m->token, m->n_token, false);
}

static void open_link(void *arg)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .normed = on_normed,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	struct split_middle *m = arg;
	const struct sl_link_work work = {sl_lib_run, on_ran, sl_lib_place, NULL, m};
	struct sl_link_conf c;

	pthread_mutex_lock(&m->lock);
	if (m->ask.close)
		end_loop(m);
	if (m->ask.relink)
		go_back(m);
	if (!m->ask.close && !m->link && !m->dead.code) {
		fill_link(m, &c);
		if (sl_link_open(&m->link, m->loop, &c, &events, m, &work, &m->dead))
			news(m);
	}
	pthread_mutex_unlock(&m->lock);
}

/* Ends the link. The server keeps its side's state, unless the caller asked for a goodbye. */
static void close_link(struct split_middle *m)
{
	m->did.up = false;
	if (!(m->ask.close && m->ask.goodbye))
		sl_link_pause(m->link);
	sl_link_close(m->link);
}

/* The caller has asked for something, or a task has ended. This need not wake the caller: on_ran and the link's events
 * do that, and every call waits for one of these. */
static void on_wake(void *arg)
{
	struct split_middle *m = arg;

	pthread_mutex_lock(&m->lock);
	if (m->link && (m->ask.close || m->ask.relink))
		close_link(m);
	else if (m->ask.close)
		end_loop(m);
	else if (m->ask.relink)
		sl_timer_start(m->retry_timer, 1, 0);
	else
		advance(m);
	pthread_mutex_unlock(&m->lock);
}

enum sl_err sl_lib_loop_open(struct split_middle *m, struct sl_fail *fail)
{
	enum sl_err err = sl_loop_open(&m->loop, fail);

	if (!err)
		err = sl_async_open(&m->wake, m->loop, on_wake, m, fail);
	if (!err)
		err = sl_timer_open(&m->retry_timer, m->loop, open_link, m, fail);
	if (!err)
		sl_timer_start(m->retry_timer, 1, 0);
	return err;
}

void *sl_lib_thread(void *arg)
{
	struct split_middle *m = arg;

	uselocale(sl_real_locale());
	sl_loop_run(m->loop);
	return NULL;
}

void sl_lib_loop_close(struct split_middle *m)
{
	if (m->retry_timer)
		sl_timer_close(m->retry_timer);
	if (m->wake)
		sl_async_close(m->wake);
	sl_loop_close(m->loop);
}
