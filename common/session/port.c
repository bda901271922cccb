#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/codec/frame.h"
#include "common/session/port_check.h"

/* Runs with lower numbers are sent first: those that unblock the most work. To the server, a gradient unblocks a
 * backward and then the whole way back, an activation only a forward. To the client, an activation unblocks the rest of
 * its chunk, a gradient only the head's backward. What is sent first is also shorter. */
static const int run_priority[SL_PART_WHAT_COUNT] = {
	[SL_PART_WEIGHTS] = 0,  [SL_PART_MID_GRAD] = 1,  [SL_PART_HEAD_ACT] = 2,
	[SL_PART_MID_ACT] = 1,  [SL_PART_HEAD_GRAD] = 2, [SL_PART_END_GRAD] = 1,
	[SL_PART_END_MEAN] = 0, [SL_PART_ENDS] = 3,      [SL_PART_ORDER] = 0};

/* Parts of a run that arrive within this time were all here already: they do not measure the link. */
static const double run_min_s = 1e-3;

_Static_assert((int)SL_SESSION_MAX_CHUNKS == (int)SL_PLAN_MAX_CHUNKS, "a session holds the chunks of any plan");

/* The run that a task writes; WHAT_COUNT: none. */
static enum sl_part_what task_output(const struct sl_session *s, enum sl_task task)
{
	switch (task) {
	case SL_TASK_HEAD_FWD:
		return SL_PART_HEAD_ACT;
	case SL_TASK_MID_FWD:
		return sl_party_has(s->limits.party, SL_TAIL) ? SL_PART_MID_ACT : SL_PART_WHAT_COUNT;
	case SL_TASK_TAIL:
		return s->training && !s->limits.no_mid_grad && !s->limits.free_calls ? SL_PART_MID_GRAD
										      : SL_PART_WHAT_COUNT;
	case SL_TASK_GRAD:
		return SL_PART_MID_GRAD;
	case SL_TASK_MID_BWD:
		return s->limits.no_head_grad || !sl_party_has(s->limits.party, SL_HEAD) ? SL_PART_WHAT_COUNT
											 : SL_PART_HEAD_GRAD;
	case SL_TASK_GATHER:
		return SL_PART_WEIGHTS;
	case SL_TASK_TELL:
		return SL_PART_END_GRAD;
	case SL_TASK_MEAN:
		return SL_PART_END_MEAN;
	case SL_TASK_GIVE:
		return SL_PART_ENDS;
	default:
		return SL_PART_WHAT_COUNT;
	}
}

struct sl_session *sl_port_session(struct sl_port *p)
{
	return &p->session;
}

const uint8_t *sl_port_order(const struct sl_port *p)
{
	return p->tag;
}

void sl_port_epoch(struct sl_port *p, uint64_t epoch)
{
	sl_outq_epoch(p->outq, epoch);
}

float *sl_port_weights(struct sl_port *p)
{
	return (float *)(void *)p->run[SL_PART_WEIGHTS][0].data;
}

void sl_port_upload_from(struct sl_port *p, const struct sl_weights *weights)
{
	p->upload = weights;
}

uint8_t *sl_port_carried(struct sl_port *p, const struct sl_carried **layout)
{
	*layout = &p->carried;
	return p->carried_room;
}

/* ---- tasks ---- */

static void dispatch_waiting(struct sl_port *p, enum sl_part_what what)
{
	struct lane_out *w = &p->waiting[what];

	/* nothing overtakes the order, with which a pass begins */
	for (; w->count && !p->order_waits && !p->run[what][w->chunk[w->first]].busy; w->count--) {
		sl_port_dispatch(p, w->task, w->chunk[w->first]);
		w->first = (w->first + 1) % SL_SESSION_MAX_CHUNKS;
	}
}

static void start_task(struct sl_port *p, enum sl_task task, int chunk)
{
	enum sl_part_what what = task_output(&p->session, task);
	struct lane_out *w = what < SL_PART_WHAT_COUNT ? &p->waiting[what] : NULL;

	if (!w) {
		sl_port_dispatch(p, task, chunk);
		return;
	}
	sl_port_check_waiting(w, task);
	w->chunk[(w->first + w->count++) % SL_SESSION_MAX_CHUNKS] = (uint16_t)chunk;
	w->task = task;
	dispatch_waiting(p, what);
}

/* ---- runs ---- */

static void post_run(struct sl_port *p, enum sl_part_what what, int chunk);

/* The SL_CROSS_COUNT index of a run of a tensor, or of shared ends. */
static int cross_of(uint32_t what)
{
	return what < SL_PART_WEIGHTS ? (int)what : (int)what - 1;
}

static void count_run(struct sl_port *p, int dir, uint64_t payload, uint64_t headers)
{
	p->stats.payload[dir] += payload;
	p->stats.wire[dir] += payload + headers;
}

static void run_sent(struct sl_run *run)
{
	struct run_slot *slot = run->arg;
	struct sl_port *p = slot->port;

	slot->busy = false;
	if (run->part.what == SL_PART_ORDER) {
		if (p->order_waits)
			post_run(p, SL_PART_ORDER, 0);
		for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
			dispatch_waiting(p, (enum sl_part_what)what);
		return;
	}
	if (sl_part_is_state(run->part.what)) {
		p->stats.weights[SL_SENT] += run->len + run->header_bytes;
	} else if (run->len) {
		count_run(p, cross_of(run->part.what), run->len, run->header_bytes);
		p->stats.nominal[cross_of(run->part.what)] += slot->nominal;
	}
	dispatch_waiting(p, (enum sl_part_what)run->part.what);
}

/* An upload, or the answer to a Fetch. */
static void weights_run(struct sl_port *p, struct run_slot *slot)
{
	const bool upload = p->session.role == SL_SESSION_CLIENT;

	slot->len = sl_port_weights_bytes(p->plan, upload);
	if (upload || !p->carried.bytes)
		return;
	slot->rest = p->carried_room;
	slot->rest_at = slot->len;
	slot->len += p->carried.bytes;
}

static void read_upload(const struct sl_run *run, size_t at, size_t len, void *to)
{
	const struct sl_port *p = ((const struct run_slot *)run->arg)->port;

	sl_weights_pack_piece(p->upload, &p->plan->segment[SL_MIDDLE], at, len, to);
}

static void post_run(struct sl_port *p, enum sl_part_what what, int chunk)
{
	struct run_slot *slot = &p->run[what][chunk];
	const struct sl_session *s = &p->session;
	const bool weights = what == SL_PART_WEIGHTS, of_chunk = what < SL_PART_WEIGHTS;
	const bool of_pass = !sl_part_is_state(what);

	if (what == SL_PART_ORDER) {
		p->order_waits = slot->busy;
		if (slot->busy) /* the peer has the last one, and the transport still holds it */
			return;
		memcpy(slot->data, p->tag, sizeof p->tag);
		slot->len = sizeof p->tag;
	}
	if (weights)
		weights_run(p, slot);
	sl_port_check_post(p, what, chunk);
	slot->run = (struct sl_run){
		.part = {.what = what,
			 .training = of_pass && s->training,
			 .step = weights   ? s->kept_step
				 : of_pass ? s->number
					   : s->next_step,
			 .chunk = (uint32_t)chunk,
			 .rows = of_chunk ? (uint32_t)sl_session_chunk_rows(s, chunk) : 0,
			 .batch_rows = of_chunk || what == SL_PART_ORDER ? (uint32_t)sl_session_said_rows(s) : 0,
			 .tokens = of_chunk ? s->tokens[chunk] : 0,
			 .answers = of_chunk ? (uint32_t)s->answers : 0},
		.data = slot->data,
		.len = slot->len,
		.rest = slot->rest,
		.rest_at = slot->rest_at,
		.read = weights && s->role == SL_SESSION_CLIENT ? read_upload : NULL,
		.priority = run_priority[what],
		.sent = run_sent,
		.arg = slot,
	};
	slot->busy = true;
	SL_FAILPOINT(SL_FP_PORT_POST);
	sl_outq_post(p->outq, &slot->run);
}

/* The pass is abandoned: its runs are not sent, and its tasks do nothing. */
static void drop_pass(struct sl_port *p)
{
	atomic_store(&p->abandoning, true);
	p->order_waits = false;
	for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
		p->waiting[what].count = sl_part_is_state((uint32_t)what) ? p->waiting[what].count : 0;
	sl_outq_drop(p->outq);
}

static void place_part(struct run_slot *slot, uint64_t offset, struct sl_bytes payload)
{
	size_t front = slot->tensor ? slot->front : slot->cap;
	size_t n = offset >= front ? 0 : front - offset < payload.len ? front - offset : payload.len;

	if (n)
		memcpy(slot->data + offset, payload.data, n);
	if (n < payload.len)
		memcpy(slot->tensor + (offset + n - front), payload.data + n, payload.len - n);
}

/* A part has passed the session's checks: stores its bytes. */
static void store_part(struct sl_port *p, const struct sl_action *a, struct sl_bytes payload)
{
	struct run_slot *slot = &p->run[a->what][a->chunk];

	sl_port_check_store(p, a, payload.len);
	if (a->offset == 0) {
		slot->started_ns = sl_now_ns();
		slot->first_bytes = payload.len;
		slot->header_bytes = 0;
		if (slot->tensor && a->what == SL_PART_WEIGHTS)
			slot->front = p->session.role == SL_SESSION_CLIENT ? sl_port_weights_bytes(p->plan, false) : 0;
		else if (slot->tensor)
			slot->front =
				SL_FRAME_BYTES + sl_port_lengths(p->plan, (int)a->what,
								 (int64_t)sl_session_chunk_rows(&p->session, a->chunk),
								 p->session.tokens[a->chunk]);
	}
	slot->header_bytes += p->header_bytes;
	place_part(slot, a->offset, payload);
	if (!a->whole)
		return;
	SL_FAILPOINT(SL_FP_PORT_WHOLE);
	slot->len = a->total;
	if (a->what == SL_PART_ORDER) {
		memcpy(p->tag, slot->data, sizeof p->tag);
	} else if (sl_part_is_state(a->what)) {
		p->stats.weights[SL_RECEIVED] += a->total + slot->header_bytes;
	} else {
		double seconds = sl_seconds_since(slot->started_ns);
		/* the first part arrived before the clock was started */
		double rate = seconds > run_min_s ? (double)(a->total - slot->first_bytes) / seconds : 0;

		count_run(p, cross_of(a->what), a->total, slot->header_bytes);
		if (rate > p->stats.peak_rx)
			p->stats.peak_rx = rate;
	}
}

/* ---- Hello's payload ---- */

struct sl_bytes sl_port_asked(const struct sl_port *p)
{
	return (struct sl_bytes){p->asked, p->asked_bytes};
}

static void keep_asked(struct sl_port *p, struct sl_bytes payload)
{
	struct sl_fail fail;

	p->asked = malloc(payload.len);
	if (!p->asked) {
		sl_fail_set(&fail, SL_ERR_NOMEM, "no memory for a session");
		sl_port_fail(p, &fail);
		return;
	}
	memcpy(p->asked, payload.data, payload.len);
	p->asked_bytes = payload.len;
}

void sl_port_forget_asked(struct sl_port *p)
{
	free(p->asked);
	p->asked = NULL;
	p->asked_bytes = 0;
}

/* ---- the state machine's hands ---- */

#define BEFORE_SENDING(kind)                                  \
	((kind) == SL_FRAME_COMMIT      ? SL_FP_CLIENT_COMMIT \
	 : (kind) == SL_FRAME_COMMITTED ? SL_FP_SERVER_ANSWER \
	 : (kind) == SL_FRAME_BYE       ? SL_FP_CLIENT_LEAVE  \
					: SL_FP_NONE)
#define BEHIND_SENDING(kind)                                    \
	((kind) == SL_FRAME_COMMIT      ? SL_FP_CLIENT_ASKED    \
	 : (kind) == SL_FRAME_COMMITTED ? SL_FP_SERVER_ANSWERED \
					: SL_FP_NONE)
#define ON_RECEIVING(kind)                                  \
	((kind) == SL_FRAME_COMMITTED ? SL_FP_CLIENT_ANSWER \
	 : (kind) == SL_FRAME_HELLO   ? SL_FP_SERVER_HELLO  \
	 : (kind) == SL_FRAME_COMMIT  ? SL_FP_SERVER_COMMIT \
	 : (kind) == SL_FRAME_FETCH   ? SL_FP_SERVER_GATHER \
				      : SL_FP_NONE)

/* A frame that cannot be queued ends the session, since without a CREDIT or COMMIT both sides would wait for ever. A
 * heartbeat, REFUSE or BYE may be lost. */
static void send_control(struct sl_port *p, const struct sl_frame *frame)
{
	enum sl_frame_kind kind = frame->kind;
	struct sl_fail fail;
	enum sl_err err;

	SL_FAILPOINT(BEFORE_SENDING(kind));
	err = sl_outq_control(p->outq, frame);
	SL_FAILPOINT(BEHIND_SENDING(kind));
	if (!err)
		return;
	sl_log(SL_LOG_WARN, "control-dropped", "%s frame: the peer does not read", sl_frame_kind_name(kind));
	if (kind == SL_FRAME_HEARTBEAT || kind == SL_FRAME_REFUSE || kind == SL_FRAME_BYE)
		return;
	sl_fail_set(&fail, SL_ERR_LIMIT, "too many frames wait for a peer that does not read (%s)",
		    sl_frame_kind_name(kind));
	sl_port_fail(p, &fail);
}

static void act_one(struct sl_port *p, const struct sl_action *a, const struct sl_event *ev)
{
	switch (a->kind) {
	case SL_ACTION_SEND:
		send_control(p, &p->outbox.frame[a->frame]);
		break;
	case SL_ACTION_TASK:
		start_task(p, a->task, a->chunk);
		break;
	case SL_ACTION_POST:
		post_run(p, a->what, a->chunk);
		break;
	case SL_ACTION_KEEP:
		keep_asked(p, ev->frame->payload);
		if (!p->dead)
			p->events.action(p->arg, a, NULL);
		break;
	case SL_ACTION_RECORD:
		sl_port_keep_record(p, &ev->frame->u.record);
		break;
	case SL_ACTION_REPORT:
		p->report = &ev->frame->u.report;
		p->events.action(p->arg, a, NULL);
		break;
	case SL_ACTION_STORE:
		store_part(p, a, ev->frame->payload);
		break;
	case SL_ACTION_CREDIT:
		sl_outq_credit(p->outq, a->bytes);
		break;
	case SL_ACTION_DROP:
		drop_pass(p);
		break;
	case SL_ACTION_ABANDONED:
		p->events.action(p->arg, a, &p->outbox.fail);
		break;
	case SL_ACTION_FAIL:
	case SL_ACTION_LEFT:
		p->dead = true;
		atomic_store(&p->abandoning, true);               /* queued tasks of chunks do nothing, */
		sl_worker_unwant(p->worker, sl_port_is_chunk, p); /* and running ones may stop early */
		p->events.action(p->arg, a, &p->outbox.fail);
		break;
	default:
		p->events.action(p->arg, a, NULL);
	}
}

static void act(struct sl_port *p, const struct sl_event *ev)
{
	/* An action may lead to the next event (STEPPED: begin the next step), which overwrites the outbox: such an
	 * action is always the last of its list. */
	for (int i = 0, n = p->outbox.n_action; i < n && !p->dead; i++) {
		struct sl_action a = p->outbox.action[i];

		act_one(p, &a, ev);
	}
}

/* Copies the choice of a chunk; its tokens count from the chunk's first one. */
static void note_choice(uint32_t *to, const struct sl_event *ev, int64_t first, int64_t rows)
{
	const uint32_t from = ev->chosen[first];

	to[0] = ev->chosen[first + rows] - from;
	for (uint32_t i = 0; i < to[0]; i++)
		to[1 + i] = ev->place[from + i] - ev->begin[first];
}

/* Copies the homes of a chunk's rows. In an evaluation no row has one. */
static void note_homes(uint32_t *to, const struct sl_event *ev, int64_t first, int64_t rows)
{
	const bool known = ev->kind == SL_EV_BEGIN_STEP && ev->home && ev->samples;

	for (int64_t i = 0; i < rows; i++)
		to[i] = known ? 1 + ev->home[ev->samples[first + i]] : 0;
}

/* A client's pass or call begins; none of its tasks is under way. Copies the caller's row offsets for each chunk. */
static void note_begin(struct sl_port *p, const struct sl_event *ev)
{
	for (int chunk = ev->chunk; chunk < p->session.chunks; chunk++) {
		const int64_t first = (chunk - ev->chunk) * p->plan->rows,
			      rows = (int64_t)sl_session_chunk_rows(&p->session, chunk);

		sl_dims_take(sl_port_begin(p, chunk), p->plan->rows, ev->begin, ev->pieces, ev->cached, first, rows);
		if (ev->chosen && sl_port_choice(p, chunk))
			note_choice(sl_port_choice(p, chunk), ev, first, rows);
		if (sl_port_homes(p, chunk))
			note_homes(sl_port_homes(p, chunk), ev, first, rows);
	}
}

void sl_port_event(struct sl_port *p, const struct sl_event *ev)
{
	enum sl_err err;

	if (p->dead)
		return;
	err = sl_session_step(&p->session, ev, sl_loop_now_ms(p->loop), &p->outbox);
	if (!err && ev->begin && p->begin)
		note_begin(p, ev);
	if (!err && ev->tag)
		memcpy(p->tag, ev->tag, sizeof p->tag);
	if (!err && ev->kind == SL_EV_WELCOME)
		sl_outq_limits(p->outq, ev->frame->u.welcome.part_bytes, ev->frame->u.welcome.window_bytes);
	else if (ev->kind == SL_EV_CHALLENGE)
		sl_outq_epoch(p->outq, p->session.epoch);
	else if (ev->kind == SL_EV_HELLO)
		sl_outq_limits(p->outq, p->session.hello.part_bytes, p->session.hello.window_bytes);
	act(p, ev);
}

void sl_port_fail(struct sl_port *p, const struct sl_fail *why)
{
	if (p->dead)
		return;
	sl_session_fail(&p->session, why, sl_loop_now_ms(p->loop), &p->outbox);
	act(p, NULL);
}

void sl_port_deliver(struct sl_port *p, struct sl_bytes header, struct sl_bytes payload)
{
	struct sl_frame frame;
	struct sl_fail fail;
	struct sl_event ev;

	if (p->dead)
		return;
	p->stats.rx_bytes += header.len + payload.len;
	p->header_bytes = header.len;
	if (sl_wire_decode(header, payload, &frame, &fail) != SL_OK) {
		p->session.counts.frames++;
		p->session.counts.refused_frames++;
		sl_port_fail(p, &fail);
		return;
	}
	SL_FAILPOINT(ON_RECEIVING(frame.kind));
	ev = (struct sl_event){.kind = (enum sl_event_kind)frame.kind, .frame = &frame};
	if (frame.kind == SL_FRAME_HELLO)
		sl_outq_epoch(p->outq, frame.epoch);
	sl_port_event(p, &ev);
}

void sl_port_writable(struct sl_port *p)
{
	sl_outq_pump(p->outq);
}

/* ---- life ---- */

static void port_free(struct sl_port *p);

enum sl_err sl_port_open(struct sl_port **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_worker *worker, const struct sl_port_events *events, void *arg, struct sl_fail *fail)
{
	struct sl_port *p = calloc(1, sizeof *p);
	enum sl_err err;

	if (!p)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	p->loop = loop;
	p->worker = worker;
	p->events = *events;
	p->arg = arg;
	err = sl_port_open_jobs(p, false, 1) ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session") : SL_OK;
	if (!err)
		err = sl_outq_open(&p->outq, loop, transport, peer, fail);
	if (err) {
		port_free(p);
		return err;
	}
	*out = p;
	return SL_OK;
}

struct sl_share *sl_port_share(struct sl_port *p)
{
	return &p->share;
}

struct sl_port_stats sl_port_stats(const struct sl_port *p)
{
	struct sl_port_stats s = p->stats;
	struct sl_outq_stats q = sl_outq_stats(p->outq);

	s.tx_bytes = q.header_bytes + q.payload_bytes;
	s.sent_bytes = q.payload_bytes;
	s.peak_tx = q.peak_bytes_per_s;
	s.compute_s = (double)atomic_load(&p->compute_ns) * 1e-9;
	s.codec_s = (double)atomic_load(&p->codec_ns) * 1e-9;
	for (int dir = 0; dir < SL_CROSS_COUNT; dir++)
		s.nominal[dir] += atomic_load(&p->nominal_rx[dir]);
	return s;
}

static void port_free(struct sl_port *p)
{
	if (p->outq)
		sl_outq_close(p->outq);
	sl_port_unequip(p);
	sl_port_forget_asked(p);
	free(p->record.text);
	free(p->record.next);
	sl_port_close_jobs(p);
	free(p);
}

void sl_port_stop(struct sl_port *p)
{
	p->dead = true;
	sl_worker_forget(p->worker, sl_port_is_task, p);
}

void sl_port_discard(struct sl_port *p)
{
	port_free(p);
}

static void reap(void *arg)
{
	struct sl_port *p = arg;
	void (*closed)(void *) = p->closed;
	void *closed_arg = p->closed_arg;

	if (sl_worker_under_way(p->worker, sl_port_is_task, p) || !sl_outq_idle(p->outq))
		return;
	sl_worker_cancel(p->worker, sl_port_is_task, p); /* also finished jobs that are not drained yet */
	sl_timer_close(p->reaper);
	port_free(p);
	closed(closed_arg);
}

void sl_port_close(struct sl_port *p, void (*closed)(void *arg), void *arg)
{
	struct sl_fail fail;

	p->dead = true;
	p->closed = closed;
	p->closed_arg = arg;
	sl_worker_forget(p->worker, sl_port_is_task, p);
	sl_outq_abort(p->outq);
	/* A task may still be under way, and the transport may hold buffers of this port. A timer waits for both, so
	 * that the loop does not block. */
	if (sl_timer_open(&p->reaper, p->loop, reap, p, &fail) != SL_OK) {
		sl_log(SL_LOG_ERROR, "session-close", "%s: its memory is lost", fail.text);
		closed(arg);
		return;
	}
	sl_timer_start(p->reaper, 1, 5);
}
