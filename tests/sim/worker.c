/* Takes the place of common/base/worker.c. The queue and the turns are the product's (worker_turns.c); a job takes a
 * drawn time, and computes at the begin or at the end of it. Jobs of one process never overlap. */
#include "common/base/worker_turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

enum { DISK_SLOW = 64 }; /* where sim.slow_disks */

struct simulated {
	struct sl_worker w; /* first, so that a pointer to it is one to this */
	struct sim_proc *proc;
	struct sim_event *next; /* the begin or the end of a job */
	bool ran;               /* the job under way has computed */
	uint64_t slow;          /* how many times longer its jobs take */
};

static struct sl_worker *here;

static struct simulated *of(struct sl_worker *w)
{
	return (struct simulated *)(void *)w;
}

static void begin(void *arg);

static void cancel_next(struct sl_worker *w)
{
	if (of(w)->next)
		sim_cancel(of(w)->next);
	of(w)->next = NULL;
}

static void kick(struct sl_worker *w)
{
	if (!w->running && !of(w)->next)
		of(w)->next = sim_at(of(w)->proc, sim_draw(SIM_LATENCY, 20000), begin, w);
}

static void compute(struct sl_worker *w)
{
	struct sl_worker *before = here;

	here = w;
	of(w)->ran = true;
	w->running->run(w->running);
	here = before;
}

static void settle(struct sl_worker *w)
{
	struct sl_job *job = w->running;

	job->next = NULL;
	w->running = NULL;
	if (job->held) {
		*w->held_tail = job;
		w->held_tail = &job->next;
		w->held_count++;
		return;
	}
	sl_turns_charge(w, job);
	*w->done_tail = job;
	w->done_tail = &job->next;
	if (w->wake)
		w->wake(w->wake_arg);
}

static void end(void *arg)
{
	struct sl_worker *w = arg;

	cancel_next(w);
	if (!of(w)->ran)
		compute(w);
	settle(w);
	kick(w);
}

static void begin(void *arg)
{
	struct sl_worker *w = arg;
	uint64_t ns;

	of(w)->next = NULL;
	if (!sl_turns_take(w))
		return;
	ns = 2000ull << sim_draw(SIM_JOB, 12); /* 2 µs to 8 ms … */
	ns += sim_draw(SIM_JOB, ns);
	ns *= of(w)->slow;
	if (sim_draw(SIM_JOB, 400) == 0)
		ns += sim_draw(SIM_JOB, 800 * SIM_MS); /* … and now and then 0.8 s */
	of(w)->ran = false;
	if (sim_draw(SIM_JOB, 2))
		compute(w);
	of(w)->next = sim_at(of(w)->proc, ns, end, w);
}

/* The caller blocks until a job has ended: that of the running one, or else of the next. False: there is none. */
static bool end_one(struct sl_worker *w)
{
	if (!w->running) {
		cancel_next(w);
		of(w)->ran = false;
		if (!sl_turns_take(w))
			return false;
	}
	end(w);
	return true;
}

enum sl_err sl_worker_open(struct sl_worker **out, const char *thread_name, void (*wake)(void *arg), void *arg,
			   struct sl_fail *fail)
{
	struct simulated *s = calloc(1, sizeof *s);

	if (!s)
		abort();
	s->proc = sim.cur;
	s->slow = (uint64_t)sim.slow * (sim.slow_disks && strcmp(thread_name, "split-disk") == 0 ? DISK_SLOW : 1);
	s->w.done_tail = &s->w.done;
	s->w.held_tail = &s->w.held;
	s->w.wake = wake;
	s->w.wake_arg = arg;
	*out = &s->w;
	return SL_OK;
}

void sl_worker_charge_cpu(struct sl_worker *w)
{
}

void sl_worker_post(struct sl_worker *w, struct sl_job *job)
{
	struct sl_job **p = &w->queue;

	sl_turns_come_back(w, sl_turns_share(w, job));
	while (*p && (*p)->priority <= job->priority)
		p = &(*p)->next;
	job->next = *p;
	*p = job;
	w->queued_ahead += job->ahead;
	job->lane = NULL;
	job->unwanted = false;
	sl_turns_note_wanted(w);
	kick(w);
}

void sl_worker_hold(struct sl_worker *worker, struct sl_job *job)
{
	job->held = true;
}

void sl_worker_release(struct sl_worker *w, struct sl_job *job)
{
	job->released = true;
	kick(w);
}

struct sl_worker *sl_worker_here(void)
{
	return here;
}

bool sl_worker_turn_due(struct sl_worker *worker)
{
	return false;
}

void sl_worker_turn(void)
{
}

bool sl_worker_unwanted(void)
{
	return here && here->running && here->running->unwanted;
}

void sl_worker_unwant(struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	if (w->running && owned(w->running, arg))
		w->running->unwanted = true;
}

void sl_worker_drain(struct sl_worker *w)
{
	struct sl_job *job;

	while ((job = w->done)) {
		w->done = job->next;
		if (!w->done)
			w->done_tail = &w->done;
		job->done(job);
	}
}

uint64_t sl_worker_busy_ms(struct sl_worker *w)
{
	return w->running ? (sim.now_ns - w->running->began_ns) / SIM_MS : 0;
}

uint64_t sl_worker_silent_ms(struct sl_worker *worker)
{
	return sl_worker_busy_ms(worker);
}

uint64_t sl_worker_had_ms(struct sl_worker *w, const struct sl_share *share)
{
	return w->running && sl_turns_share(w, w->running) == share ? sl_worker_busy_ms(w) : 0;
}

bool sl_worker_settle(struct sl_worker *w, const bool *busy, int watchdog_s)
{
	while (*busy) {
		sl_worker_drain(w);
		if (*busy && !end_one(w))
			abort();
	}
	return true;
}

bool sl_worker_idle(struct sl_worker *w)
{
	return sl_turns_idle(w);
}

static void take_out(struct sl_job **p, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	while (*p)
		if (owned(*p, arg))
			*p = (*p)->next;
		else
			p = &(*p)->next;
}

void sl_worker_forget(struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	take_out(&w->queue, owned, arg);
	w->queued_ahead = 0;
	for (struct sl_job *j = w->queue; j; j = j->next)
		w->queued_ahead += j->ahead;
}

bool sl_worker_under_way(struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	for (struct sl_job *j = w->held; j; j = j->next)
		if (owned(j, arg))
			return true;
	return w->running && owned(w->running, arg);
}

void sl_worker_cancel(struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	sl_worker_forget(w, owned, arg);
	if (w->running && owned(w->running, arg))
		end(w);
	take_out(&w->done, owned, arg);
	w->done_tail = &w->done;
	while (*w->done_tail)
		w->done_tail = &(*w->done_tail)->next;
}

void sl_worker_close(struct sl_worker *w)
{
	if (!w)
		return;
	if (w->running)
		end(w);
	cancel_next(w);
	free(w);
}
