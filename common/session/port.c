#include "common/session/port.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/clock.h"
#include "common/base/log.h"

/* Lower ones leave first: what the chunk's way leads on from the soonest. Going up, a gradient unblocks a backward and
 * then the whole way down, an activation only a forward; going down, an activation unblocks all the rest of its chunk,
 * a gradient only the head's backward. What goes first is also the shorter. */
static const int run_priority[SL_PART_WHAT_COUNT] = {[SL_PART_WEIGHTS] = 0,
						     [SL_PART_MID_GRAD] = 1,
						     [SL_PART_HEAD_ACT] = 2,
						     [SL_PART_MID_ACT] = 1,
						     [SL_PART_HEAD_GRAD] = 2};

/* Weights and commits order everything; the tail and the middle's backward unblock the other side. */
static const int task_priority[SL_TASK_COUNT] = {
	[SL_TASK_OPEN] = 0,    [SL_TASK_INSTALL] = 0, [SL_TASK_GATHER] = 0,   [SL_TASK_COMMIT] = 0,  [SL_TASK_TAIL] = 1,
	[SL_TASK_MID_BWD] = 1, [SL_TASK_MID_FWD] = 2, [SL_TASK_HEAD_FWD] = 2, [SL_TASK_HEAD_BWD] = 3};

_Static_assert((int)SL_SESSION_MAX_CHUNKS == (int)SL_PLAN_MAX_CHUNKS, "a session holds the chunks of any plan");

/* The run that a task writes; WHAT_COUNT: none. */
static enum sl_part_what task_output(enum sl_task task, bool training)
{
	switch (task) {
	case SL_TASK_HEAD_FWD:
		return SL_PART_HEAD_ACT;
	case SL_TASK_MID_FWD:
		return SL_PART_MID_ACT;
	case SL_TASK_TAIL:
		return training ? SL_PART_MID_GRAD : SL_PART_WHAT_COUNT;
	case SL_TASK_MID_BWD:
		return SL_PART_HEAD_GRAD;
	case SL_TASK_GATHER:
		return SL_PART_WEIGHTS;
	default:
		return SL_PART_WHAT_COUNT;
	}
}

struct task_job {
	struct sl_job job; /* first: a job is its task */
	struct sl_port *port;
	enum sl_task task;
	int chunk;
	enum sl_err err;
	struct sl_fail fail;
};

/* One run's memory on this side. */
struct run_slot {
	struct sl_port *port;
	uint8_t *data;
	size_t cap, len;
	struct sl_run run;
	bool busy;             /* posted, and the transport may still read it */
	uint64_t started_ns;   /* receiving: first part's arrival */
	uint64_t header_bytes; /* receiving: of the parts so far */
};

struct lane_out {
	int first, count; /* tasks that wait for their chunk's buffer, in chunk order */
	enum sl_task task;
};

struct sl_port {
	struct sl_session session;
	struct sl_outbox outbox;
	struct sl_loop *loop;
	struct sl_transport *transport;
	sl_peer peer;
	struct sl_outq *outq;
	struct sl_worker *worker;
	struct sl_port_events events;
	void *arg;
	const struct sl_plan *plan;
	struct sl_backend *be, *host_be;
	struct sl_codec *codec[SL_DIR_COUNT];
	bool host_codec[SL_DIR_COUNT];            /* works on host_tensor, a copy of the backend's */
	struct sl_arena arena;                    /* of runs, where ordinary memory will do */
	void *pinned;                             /* else */
	struct run_slot *run[SL_PART_WHAT_COUNT]; /* [slots]; weights: one */
	struct lane_out waiting[SL_PART_WHAT_COUNT];
	float *host_tensor; /* where the backend's memory is not the host's, and it lacks a codec */
	int slots;
	struct task_job *job[SL_TASK_COUNT]; /* [slots] */
	struct sl_port_stats stats;          /* but compute_s and codec_s */
	_Atomic uint64_t compute_ns, codec_ns;
	size_t header_bytes; /* of the message being delivered */
	bool dead;
	void (*closed)(void *arg);
	void *closed_arg;
	struct sl_timer *reaper;
};

struct sl_session *sl_port_session(struct sl_port *p)
{
	return &p->session;
}

void sl_port_epoch(struct sl_port *p, uint64_t epoch)
{
	sl_outq_epoch(p->outq, epoch);
}

float *sl_port_weights(struct sl_port *p)
{
	return (float *)(void *)p->run[SL_PART_WEIGHTS][0].data;
}

/* ---- tasks ---- */

static void run_job(struct sl_job *job)
{
	struct task_job *t = (struct task_job *)job;

	t->fail.text[0] = '\0';
	t->err = t->port->events.run(t->port->arg, t->task, t->chunk, &t->fail);
}

static void job_done(struct sl_job *job)
{
	struct task_job *t = (struct task_job *)job;
	struct sl_port *p = t->port;
	struct sl_event ev = {.kind = SL_EV_TASK_DONE, .task = t->task, .chunk = t->chunk};

	if (p->dead)
		return;
	if (t->err) {
		if (!t->fail.text[0])
			sl_fail_set(&t->fail, t->err, "%s of chunk %d: %s", sl_task_name(t->task), t->chunk,
				    sl_err_text(t->err));
		sl_port_fail(p, &t->fail);
		return;
	}
	p->events.ran(p->arg, t->task, &ev);
	sl_port_event(p, &ev);
}

static bool task_per_chunk(enum sl_task task)
{
	return task >= SL_TASK_HEAD_FWD && task <= SL_TASK_HEAD_BWD;
}

static enum sl_err open_jobs(struct sl_port *p, bool per_chunk, int count)
{
	for (int task = 0; task < SL_TASK_COUNT; task++) {
		if (task_per_chunk((enum sl_task)task) != per_chunk)
			continue;
		p->job[task] = calloc((size_t)count, sizeof *p->job[task]);
		if (!p->job[task])
			return SL_ERR_NOMEM;
		for (int i = 0; i < count; i++)
			p->job[task][i] = (struct task_job){.job = {run_job, job_done, task_priority[task], NULL, 0},
							    .port = p,
							    .task = (enum sl_task)task,
							    .chunk = i};
	}
	return SL_OK;
}

static void dispatch(struct sl_port *p, enum sl_task task, int chunk)
{
	sl_worker_post(p->worker, &p->job[task][chunk].job);
}

static void dispatch_waiting(struct sl_port *p, enum sl_part_what what)
{
	struct lane_out *w = &p->waiting[what];

	for (; w->count && !p->run[what][w->first].busy; w->first++, w->count--)
		dispatch(p, w->task, w->first);
}

static void start_task(struct sl_port *p, enum sl_task task, int chunk)
{
	enum sl_part_what what = task_output(task, p->session.training);
	struct lane_out *w = what < SL_PART_WHAT_COUNT ? &p->waiting[what] : NULL;

	if (!w) {
		dispatch(p, task, chunk);
		return;
	}
	if (!w->count)
		w->first = chunk;
	w->task = task;
	w->count++;
	dispatch_waiting(p, what);
}

/* ---- runs ---- */

static void count_run(struct sl_port *p, uint32_t dir, uint32_t rows, uint64_t payload, uint64_t headers)
{
	p->stats.payload[dir] += payload;
	p->stats.wire[dir] += payload + headers;
	p->stats.nominal[dir] += sl_codec_nominal_bytes(p->codec[dir], rows);
}

static void run_sent(struct sl_run *run)
{
	struct run_slot *slot = run->arg;
	struct sl_port *p = slot->port;
	double rate = run->send_s > 0 ? (double)run->len / run->send_s : 0;

	slot->busy = false;
	if (run->part.what < SL_DIR_COUNT) {
		count_run(p, run->part.what, run->part.rows, run->len, run->header_bytes);
		if (rate > p->stats.peak_tx)
			p->stats.peak_tx = rate;
	}
	dispatch_waiting(p, (enum sl_part_what)run->part.what);
}

static void post_run(struct sl_port *p, enum sl_part_what what, int chunk)
{
	struct run_slot *slot = &p->run[what][chunk];
	const struct sl_session *s = &p->session;
	bool weights = what == SL_PART_WEIGHTS;

	slot->run = (struct sl_run){
		.part = {.what = what,
			 .training = !weights && s->training,
			 .step = weights ? 0 : s->number,
			 .chunk = (uint32_t)chunk,
			 .rows = weights ? 0 : (uint32_t)sl_session_chunk_rows(s, chunk),
			 .batch_rows = weights ? 0 : (uint32_t)s->batch_rows},
		.data = slot->data,
		.len = slot->len,
		.priority = run_priority[what],
		.sent = run_sent,
		.arg = slot,
	};
	slot->busy = true;
	sl_outq_post(p->outq, &slot->run);
}

/* A part has passed the session's checks: its bytes go to their place. */
static void store_part(struct sl_port *p, const struct sl_action *a, struct sl_bytes payload)
{
	struct run_slot *slot = &p->run[a->what][a->chunk];

	if (a->offset == 0) {
		slot->started_ns = sl_now_ns();
		slot->header_bytes = 0;
	}
	slot->header_bytes += p->header_bytes;
	memcpy(slot->data + a->offset, payload.data, payload.len);
	if (!a->whole)
		return;
	slot->len = a->total;
	if (a->what < SL_PART_WEIGHTS) {
		double seconds = sl_seconds_since(slot->started_ns);
		/* the first part's bytes came before the clock was started */
		double rate = a->offset && seconds > 0 ? (double)a->offset / seconds : 0;

		count_run(p, a->what, (uint32_t)sl_session_chunk_rows(&p->session, a->chunk), a->total,
			  slot->header_bytes);
		if (rate > p->stats.peak_rx)
			p->stats.peak_rx = rate;
	}
}

/* ---- the state machine's hands ---- */

/* Without a CREDIT or a COMMIT both sides would wait for ever; heartbeats and last words can be done without. */
static void send_control(struct sl_port *p, const struct sl_frame *frame)
{
	enum sl_frame_kind kind = frame->kind;
	struct sl_fail fail;

	if (sl_outq_control(p->outq, frame) == SL_OK)
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
	case SL_ACTION_STORE:
		store_part(p, a, ev->frame->payload);
		break;
	case SL_ACTION_CREDIT:
		sl_outq_credit(p->outq, a->bytes);
		break;
	case SL_ACTION_FAIL:
	case SL_ACTION_LEFT:
		p->dead = true;
		p->events.action(p->arg, a, &p->outbox.fail);
		break;
	default:
		p->events.action(p->arg, a, NULL);
	}
}

static void act(struct sl_port *p, const struct sl_event *ev)
{
	/* An action may lead to the next event (STEPPED: begin the next step), which overwrites the outbox: those
	 * actions are always the last of theirs. */
	for (int i = 0, n = p->outbox.n_action; i < n && !p->dead; i++) {
		struct sl_action a = p->outbox.action[i];

		act_one(p, &a, ev);
	}
}

void sl_port_event(struct sl_port *p, const struct sl_event *ev)
{
	if (p->dead)
		return;
	if (sl_session_step(&p->session, ev, sl_loop_now_ms(p->loop), &p->outbox) == SL_OK && ev->kind == SL_EV_WELCOME)
		sl_outq_limits(p->outq, ev->frame->u.welcome.part_bytes, ev->frame->u.welcome.window_bytes);
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
		p->session.counts.refused_frames++;
		sl_port_fail(p, &fail);
		return;
	}
	ev = (struct sl_event){.kind = (enum sl_event_kind)frame.kind, .frame = &frame};
	if (frame.kind == SL_FRAME_HELLO)
		sl_outq_epoch(p->outq, frame.epoch);
	sl_port_event(p, &ev);
}

void sl_port_writable(struct sl_port *p)
{
	sl_outq_pump(p->outq);
}

/* ---- codecs ---- */

/* The tensor as the codec sees it: where that is the host's and the backend's memory is not, a copy of it. */
static struct sl_tensor codec_view(struct sl_port *p, enum sl_dir dir, const struct sl_tensor *x)
{
	struct sl_tensor view = *x;

	if (p->host_codec[dir])
		view.data = p->host_tensor;
	return view;
}

static struct sl_codec_call codec_call(const struct sl_port *p, int chunk)
{
	const struct sl_session *s = &p->session;

	/* Evaluation draws from steps that training never reaches. */
	return (struct sl_codec_call){.slot = chunk,
				      .step = s->training ? s->number : s->number | 1ull << 63,
				      .chunk = (uint16_t)chunk,
				      .training = s->training};
}

enum sl_err sl_port_decode(struct sl_port *p, enum sl_dir dir, int chunk, struct sl_tensor *x, struct sl_fail *fail)
{
	const struct run_slot *slot = &p->run[dir][chunk];
	struct sl_codec_call call = codec_call(p, chunk);
	struct sl_tensor view = codec_view(p, dir, x);
	uint64_t start = sl_now_ns();
	enum sl_err err = sl_codec_decode(p->codec[dir], &call, (struct sl_bytes){slot->data, slot->len}, &view, fail);

	if (!err && view.data != x->data)
		err = p->be->ops->upload(p->be, x->data, view.data, (size_t)sl_shape_count(&x->shape) * sizeof(float));
	atomic_fetch_add(&p->codec_ns, sl_now_ns() - start);
	return err;
}

enum sl_err sl_port_encode(struct sl_port *p, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			   struct sl_fail *fail)
{
	struct run_slot *slot = &p->run[dir][chunk];
	struct sl_codec_call call = codec_call(p, chunk);
	struct sl_tensor view = codec_view(p, dir, x);
	struct sl_buf out = {slot->data, 0, slot->cap};
	enum sl_err err = SL_OK;
	uint64_t start = sl_now_ns();

	if (view.data != x->data)
		err = p->be->ops->download(p->be, view.data, x->data,
					   (size_t)sl_shape_count(&x->shape) * sizeof(float));
	if (!err)
		err = sl_codec_encode(p->codec[dir], &call, &view, &out);
	if (err)
		return sl_fail_set(fail, err, "%s of chunk %d, step %llu: %s", sl_dir_name(dir), chunk,
				   (unsigned long long)p->session.number, sl_err_text(err));
	slot->len = out.len;
	atomic_fetch_add(&p->codec_ns, sl_now_ns() - start);
	return SL_OK;
}

struct sl_codec *const *sl_port_codecs(struct sl_port *p)
{
	return p->codec;
}

void sl_port_commit_codecs(struct sl_port *p)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_commit(p->codec[dir]);
}

void sl_port_computed(struct sl_port *p, double seconds)
{
	atomic_fetch_add(&p->compute_ns, (uint64_t)(seconds * 1e9));
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
	p->transport = transport;
	p->peer = peer;
	p->worker = worker;
	p->events = *events;
	p->arg = arg;
	err = open_jobs(p, false, 1) ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session") : SL_OK;
	if (!err)
		err = sl_outq_open(&p->outq, loop, transport, peer, fail);
	if (err) {
		port_free(p);
		return err;
	}
	*out = p;
	return SL_OK;
}

static enum sl_err open_codec(struct sl_port *p, const struct sl_codec_spec *spec, enum sl_dir dir,
			      struct sl_codec *pair, bool on_host, struct sl_fail *fail)
{
	bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
	const struct sl_codec_env env = {
		.be = on_host ? p->host_be : p->be,
		.shape = sl_plan_cut_shape(p->plan, mid, p->plan->rows),
		.slots = p->slots,
		.seed = p->plan->spec.seed,
		.dir = dir,
		.pair = pair,
	};

	p->host_codec[dir] = on_host;
	return sl_codec_open(&p->codec[dir], spec, &env, fail);
}

/* A tensor's activation and gradient, which share their places where they are paired: then both are coded where one of
 * them must be. */
static enum sl_err open_pair(struct sl_port *p, const struct sl_codec_spec spec[SL_DIR_COUNT], enum sl_dir act,
			     enum sl_dir grad, struct sl_fail *fail)
{
	bool paired = sl_codec_spec_pairs(&spec[act], &spec[grad]);
	bool device = !p->be->host_memory && p->be->ops->codec_stages, on_host = !p->be->host_memory && !device;
	enum sl_err err = open_codec(p, &spec[act], act, NULL, on_host, fail);
	bool act_lacks = device && err == SL_ERR_UNAVAILABLE;

	if (act_lacks)
		sl_log(SL_LOG_INFO, "codec-on-host", "%s: %s", sl_dir_name(act), fail->text);
	if (act_lacks)
		err = open_codec(p, &spec[act], act, NULL, true, fail);
	if (err)
		return err;
	on_host = on_host || (paired && act_lacks);
	err = open_codec(p, &spec[grad], grad, paired ? p->codec[act] : NULL, on_host, fail);
	if (err != SL_ERR_UNAVAILABLE || !device || on_host)
		return err;
	sl_log(SL_LOG_INFO, "codec-on-host", "%s%s: %s", sl_dir_name(grad), paired ? " and its activation" : "",
	       fail->text);
	if (paired) {
		sl_codec_close(p->codec[act]);
		p->codec[act] = NULL;
		err = open_codec(p, &spec[act], act, NULL, true, fail);
		if (err)
			return err;
	}
	return open_codec(p, &spec[grad], grad, paired ? p->codec[act] : NULL, true, fail);
}

static enum sl_err open_codecs(struct sl_port *p, const struct sl_codec_spec spec[SL_DIR_COUNT], struct sl_fail *fail)
{
	enum sl_err err = open_pair(p, spec, SL_DIR_HEAD_ACT, SL_DIR_HEAD_GRAD, fail);

	return err ? err : open_pair(p, spec, SL_DIR_MID_ACT, SL_DIR_MID_GRAD, fail);
}

/* Host memory that the backend copies to and from: locked where it offers that. */
static enum sl_err host_memory(struct sl_port *p, size_t bytes, void **out, struct sl_fail *fail)
{
	if (p->be->ops->host_alloc)
		return p->be->ops->host_alloc(p->be, bytes, out, fail);
	*out = malloc(bytes);
	return *out ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a copy of a tensor at the cut");
}

static enum sl_err open_host_tensor(struct sl_port *p, struct sl_fail *fail)
{
	size_t bytes = 0;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		struct sl_shape s = sl_plan_cut_shape(p->plan, mid, p->plan->rows);
		size_t tensor = (size_t)sl_shape_count(&s) * sizeof(float);

		if (p->host_codec[dir] && tensor > bytes)
			bytes = tensor;
	}
	return bytes ? host_memory(p, bytes, (void **)&p->host_tensor, fail) : SL_OK;
}

uint64_t sl_port_memory(const struct sl_plan *plan)
{
	struct sl_shape head = sl_plan_cut_shape(plan, false, plan->rows),
			mid = sl_plan_cut_shape(plan, true, plan->rows);
	uint64_t chunk = 2 * (uint64_t)(sl_shape_count(&head) + sl_shape_count(&mid));

	return ((uint64_t)plan->segment[SL_MIDDLE].weight_count +
		(uint64_t)sl_plan_chunks_of(plan, plan->spec.batch) * chunk) *
	       sizeof(float);
}

static size_t run_cap(const struct sl_port *p, int what)
{
	return what == SL_PART_WEIGHTS ? (size_t)p->plan->segment[SL_MIDDLE].weight_count * sizeof(float)
				       : sl_codec_bound(p->codec[what], p->plan->rows);
}

static enum sl_err open_runs(struct sl_port *p, struct sl_fail *fail)
{
	size_t bytes = 0;
	enum sl_err err;

	for (int what = 0; what < SL_PART_WHAT_COUNT; what++) {
		int n = what == SL_PART_WEIGHTS ? 1 : p->slots;

		p->run[what] = calloc((size_t)n, sizeof *p->run[what]);
		if (!p->run[what])
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the link's buffers");
		bytes += (size_t)n * sl_align(run_cap(p, what));
	}
	if (p->be->ops->host_alloc) {
		err = p->be->ops->host_alloc(p->be, bytes, &p->pinned, fail);
		p->arena = (struct sl_arena){.base = p->pinned, .cap = bytes};
	} else {
		err = sl_arena_open(&p->arena, bytes, fail);
	}
	for (int what = 0; what < SL_PART_WHAT_COUNT && !err; what++)
		for (int i = 0; i < (what == SL_PART_WEIGHTS ? 1 : p->slots); i++) {
			size_t cap = run_cap(p, what);

			p->run[what][i] =
				(struct run_slot){.port = p, .cap = cap, .data = sl_arena_take(&p->arena, cap)};
		}
	if (!err)
		p->run[SL_PART_WEIGHTS][0].len = run_cap(p, SL_PART_WEIGHTS);
	return err;
}

static void set_limits(struct sl_port *p)
{
	bool client = p->session.role == SL_SESSION_CLIENT;
	struct sl_session_limits l = {.batch = (uint64_t)p->plan->spec.batch, .rows = (uint64_t)p->plan->rows};

	for (int what = 0; what < SL_PART_WEIGHTS; what++)
		if ((what == SL_PART_MID_ACT || what == SL_PART_HEAD_GRAD) == client)
			l.run_bytes[what] = run_cap(p, what);
	l.run_bytes[SL_PART_WEIGHTS] = run_cap(p, SL_PART_WEIGHTS);
	sl_session_set_limits(&p->session, &l);
}

enum sl_err sl_port_equip(struct sl_port *p, const struct sl_plan *plan, struct sl_backend *be,
			  struct sl_backend *host_be, const struct sl_codec_spec spec[SL_DIR_COUNT],
			  struct sl_fail *fail)
{
	enum sl_err err;

	p->plan = plan;
	p->be = be;
	p->host_be = host_be;
	p->slots = sl_plan_chunks_of(plan, plan->spec.batch);
	if (open_jobs(p, true, p->slots))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the session's tasks");
	err = open_codecs(p, spec, fail);
	if (!err)
		err = open_host_tensor(p, fail);
	if (!err)
		err = open_runs(p, fail);
	if (!err)
		set_limits(p);
	return err;
}

struct sl_port_stats sl_port_stats(const struct sl_port *p)
{
	struct sl_port_stats s = p->stats;
	struct sl_outq_stats q = sl_outq_stats(p->outq);

	s.tx_bytes = q.header_bytes + q.payload_bytes;
	s.compute_s = (double)atomic_load(&p->compute_ns) * 1e-9;
	s.codec_s = (double)atomic_load(&p->codec_ns) * 1e-9;
	return s;
}

static void port_free(struct sl_port *p)
{
	if (p->outq)
		sl_outq_close(p->outq);
	for (int dir = SL_DIR_COUNT - 1; dir >= 0; dir--)
		sl_codec_close(p->codec[dir]);
	for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
		free(p->run[what]);
	for (int task = 0; task < SL_TASK_COUNT; task++)
		free(p->job[task]);
	if (p->be && p->be->ops->host_free) {
		p->be->ops->host_free(p->be, p->pinned);
		p->be->ops->host_free(p->be, p->host_tensor);
	} else {
		sl_arena_close(&p->arena);
		free(p->host_tensor);
	}
	free(p);
}

static int job_is_mine(const struct sl_job *job, void *arg)
{
	return ((const struct task_job *)job)->port == arg;
}

void sl_port_quiesce(struct sl_port *p)
{
	sl_worker_cancel(p->worker, job_is_mine, p);
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

	if (!sl_outq_idle(p->outq))
		return;
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
	sl_worker_cancel(p->worker, job_is_mine, p);
	sl_outq_abort(p->outq);
	/* The transport may still hold buffers of this port: they are freed when it has let them go. */
	if (sl_timer_open(&p->reaper, p->loop, reap, p, &fail) != SL_OK) {
		sl_log(SL_LOG_ERROR, "session-close", "%s: its memory is lost", fail.text);
		closed(arg);
		return;
	}
	sl_timer_start(p->reaper, 1, 5);
}
