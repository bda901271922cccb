/* Tasks, as jobs of the worker. On a backend that queues its work, a chunk's task is held until the device has done it.
 * Meanwhile the worker queues the next task after it. So the device goes from one task to the next without a gap, and
 * payloads cross its bus during computation. A task that belongs to no chunk waits until no job of its session is
 * held. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/session/port_check.h"

/* Lower numbers run first. Weights and commits come before everything; the tail and the middle's backward unblock the
 * other side. */
static const int task_priority[SL_TASK_COUNT] = {
	[SL_TASK_ADMIT] = 0,   [SL_TASK_OPEN] = 0,    [SL_TASK_INSTALL] = 0,  [SL_TASK_GATHER] = 0,
	[SL_TASK_COMMIT] = 0,  [SL_TASK_PREPARE] = 0, [SL_TASK_TELL] = 0,     [SL_TASK_MEAN] = 0,
	[SL_TASK_GIVE] = 0,    [SL_TASK_NORM] = 0,    [SL_TASK_TAIL] = 1,     [SL_TASK_GRAD] = 1,
	[SL_TASK_MID_BWD] = 1, [SL_TASK_MID_FWD] = 2, [SL_TASK_HEAD_FWD] = 2, [SL_TASK_HEAD_BWD] = 3};

/* ABANDON runs after everything that the session has queued. */
static int abandon_priority(enum sl_session_role role)
{
	return task_priority[role == SL_SESSION_SERVER ? SL_TASK_MID_FWD : SL_TASK_HEAD_BWD];
}

/* After an abandoned pass codecs roll back; chunks' tasks that still wait do nothing. */
static enum sl_err run_task(struct task_job *t)
{
	struct sl_port *p = t->port;

	if (t->task == SL_TASK_ABANDON) {
		for (int dir = 0; dir < SL_DIR_COUNT; dir++)
			sl_codec_rollback(p->codec[dir]);
		return SL_OK;
	}
	if (sl_port_per_chunk(t->task) && atomic_load(&p->abandoning))
		return SL_OK;
	return p->events.run(p->arg, t->task, t->chunk, &t->fail);
}

/* ---- time ---- */

bool sl_port_mark(struct sl_port *p, enum task_mark which)
{
	struct task_job *t = p->running;
	struct sl_backend *be = p->be;

	if (!t || !be || !be->ops->mark)
		return false;
	if (!t->mark[which] && be->ops->mark_open(be, &t->mark[which]))
		return false;
	if (be->ops->mark(be, t->mark[which]))
		return false;
	t->marked |= 1u << which;
	return true;
}

static uint64_t between_ns(const struct task_job *t, enum task_mark from, enum task_mark to)
{
	const unsigned both = 1u << from | 1u << to;
	struct sl_backend *be = t->port->be;
	double seconds;

	if ((t->marked & both) != both || be->ops->between(be, t->mark[from], t->mark[to], &seconds))
		return 0;
	return (uint64_t)(seconds * 1e9);
}

void sl_port_compute_begins(struct sl_port *p)
{
	p->compute_began_ns = sl_now_ns();
	sl_port_mark(p, MARK_DECODED);
}

void sl_port_compute_ends(struct sl_port *p)
{
	if (!sl_port_mark(p, MARK_COMPUTED))
		atomic_fetch_add(&p->compute_ns, sl_now_ns() - p->compute_began_ns);
}

/* ---- jobs ---- */

static void release(void *arg)
{
	struct task_job *t = arg;

	sl_worker_release(t->port->worker, &t->job);
}

/* Holds the job: the worker goes on, and calls it again when the backend has done what was queued so far. False: it
 * could not. */
static bool hold(struct task_job *t, enum task_stage next)
{
	struct sl_port *p = t->port;

	if (p->be->ops->fence(p->be, release, t) != SL_OK)
		return false;
	sl_worker_hold(p->worker, &t->job);
	t->stage = next;
	p->held++;
	return true;
}

static void release_behind(void *arg)
{
	struct sl_port *p = arg;

	sl_worker_release(p->worker, p->behind);
}

bool sl_port_waits(struct sl_port *p, struct sl_job *job)
{
	p->behind = job;
	if (!p->held || p->be->ops->fence(p->be, release_behind, p) != SL_OK)
		return false;
	sl_worker_hold(p->worker, job);
	return true;
}

/* Begins a task. True: the job is held, and run_job has no more to do now. */
static bool begin(struct task_job *t)
{
	struct sl_port *p = t->port;
	bool chunk = sl_port_per_chunk(t->task);

	if (!chunk && p->held && hold(t, TASK_BEGINS))
		return true;
	sl_assert(!p->running); /* a port's tasks run one after the other */
	t->marked = 0;
	p->running = t;
	t->err = run_task(t);
	p->running = NULL;
	return (chunk ? sl_port_queued(p, t->chunk) : t->marked != 0) && hold(t, TASK_ENDS);
}

/* Ends a task whose queued work is done, or waits for that work: takes errors and times. */
static void end(struct task_job *t)
{
	struct sl_port *p = t->port;
	struct sl_fail fail;
	enum sl_err err = sl_port_per_chunk(t->task) ? sl_port_collect(p, t->chunk, &fail) : SL_OK;

	if (err && !t->err) {
		t->err = err;
		t->fail = fail;
	}
	atomic_fetch_add(&p->compute_ns, between_ns(t, MARK_DECODED, MARK_COMPUTED));
	atomic_fetch_add(&p->codec_ns,
			 between_ns(t, MARK_BEGUN, MARK_DECODED) + between_ns(t, MARK_COMPUTED, MARK_ENCODED));
}

static void run_job(struct sl_job *job)
{
	struct task_job *t = (struct task_job *)job;
	enum task_stage stage = t->stage;

	t->stage = TASK_NEW;
	t->port->held -= stage != TASK_NEW;
	sl_assert_int(t->port->held, >=, 0);
	if (stage == TASK_NEW)
		t->fail.text[0] = '\0';
	if (stage != TASK_ENDS && begin(t))
		return;
	end(t);
}

int sl_port_is_task(const struct sl_job *job, void *port)
{
	return job->run == run_job && ((const struct task_job *)job)->port == port;
}

int sl_port_is_chunk(const struct sl_job *job, void *port)
{
	return sl_port_is_task(job, port) && sl_port_per_chunk(((const struct task_job *)job)->task);
}

static void task_failed(struct task_job *t)
{
	const struct sl_event found = {.kind = SL_EV_NONFINITE, .task = t->task, .chunk = t->chunk, .why = &t->fail};
	struct sl_port *p = t->port;

	if (!t->fail.text[0])
		sl_fail_set(&t->fail, t->err, "%s of chunk %d: %s", sl_task_name(t->task), t->chunk,
			    sl_err_text(t->err));
	if (t->err == SL_ERR_NONFINITE && sl_session_abandons(&p->session))
		sl_port_event(p, &found);
	else
		sl_port_fail(p, &t->fail);
}

static void job_done(struct sl_job *job)
{
	struct task_job *t = (struct task_job *)job;
	struct sl_port *p = t->port;
	struct sl_event ev = {.kind = SL_EV_TASK_DONE, .task = t->task, .chunk = t->chunk};

	t->posted = false;
	if (p->dead)
		return;
	if (t->err) {
		task_failed(t);
		return;
	}
	if (t->task == SL_TASK_ABANDON)
		atomic_store(&p->abandoning, false);
	p->events.ran(p->arg, t->task, &ev);
	if (t->task == SL_TASK_ADMIT)
		sl_port_forget_asked(p);
	sl_port_event(p, &ev);
}

enum sl_err sl_port_open_jobs(struct sl_port *p, bool chunks, int count)
{
	for (int task = 0; task < SL_TASK_COUNT; task++) {
		if (sl_port_per_chunk((enum sl_task)task) != chunks)
			continue;
		p->job[task] = calloc((size_t)count, sizeof *p->job[task]);
		if (!p->job[task])
			return SL_ERR_NOMEM;
		p->job_count[task] = count;
		for (int i = 0; i < count; i++)
			p->job[task][i] = (struct task_job){.job = {.run = run_job,
								    .done = job_done,
								    .priority = task_priority[task],
								    .share = &p->share},
							    .port = p,
							    .task = (enum sl_task)task,
							    .chunk = i};
	}
	return SL_OK;
}

void sl_port_admit_share(struct sl_port *p, struct sl_share *share)
{
	p->job[SL_TASK_ADMIT]->job.share = share;
}

void sl_port_close_jobs(struct sl_port *p)
{
	for (int task = 0; task < SL_TASK_COUNT; task++) {
		for (int i = 0; i < p->job_count[task]; i++)
			for (int m = 0; m < MARK_COUNT; m++)
				if (p->job[task][i].mark[m])
					p->be->ops->mark_close(p->be, p->job[task][i].mark[m]);
		free(p->job[task]);
	}
}

uint64_t sl_port_key(const uint8_t id[16])
{
	uint64_t key;

	memcpy(&key, id, sizeof key);
	return key | 1;
}

void sl_port_dispatch(struct sl_port *p, enum sl_task task, int chunk)
{
	struct sl_job *job = &p->job[task][chunk].job;

	sl_port_check_dispatch(p, task, chunk);
	p->job[task][chunk].posted = true;
	if (task == SL_TASK_ABANDON)
		job->priority = abandon_priority(p->session.role);
	if (task == SL_TASK_OPEN)
		job->key = sl_port_key(p->session.hello.session);
	if (task == SL_TASK_INSTALL) /* two with one hash would write the same file */
		job->key = sl_port_key(p->session.hello.weights_hash);
	if (p->key)
		job->key = p->key;
	sl_worker_post(p->worker, job);
}

void sl_port_share_key(struct sl_port *p, uint64_t key)
{
	p->key = key;
}
