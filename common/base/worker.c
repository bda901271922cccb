#include "common/base/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/real.h"
#include "common/base/worker_turns.h"

static _Thread_local struct lane *here; /* the lane of this thread, or NULL */

/* After a call of the job's `run`: moves the job to the held or the finished ones. True: the job is over. */
static bool settle(struct sl_worker *w, struct sl_job *job)
{
	bool held = job->held;

	job->next = NULL;
	w->running = NULL;
	if (held) {
		*w->held_tail = job;
		w->held_tail = &job->next;
		w->held_count++;
	} else {
		sl_turns_charge(w, job);
		*w->done_tail = job;
		w->done_tail = &job->next;
	}
	pthread_cond_broadcast(&w->ended);
	return !held;
}

/* ---- threads */

static void hand_turn(struct sl_worker *w, struct lane *to)
{
	w->has = to;
	pthread_cond_signal(&to->turn);
}

static void wait_for_turn(struct sl_worker *w, struct lane *lane)
{
	while (w->has != lane && !w->over)
		pthread_cond_wait(&lane->turn, &w->lock);
}

static void end_all(struct sl_worker *w)
{
	w->over = true;
	pthread_cond_broadcast(&w->ended);
	for (struct lane *l = w->lanes; l; l = l->all)
		pthread_cond_signal(&l->turn);
}

static void run(struct sl_worker *w, struct sl_job *job)
{
	pthread_mutex_unlock(&w->lock);
	sl_turns_thread_begins(w);
	job->run(job);
	pthread_mutex_lock(&w->lock);
	if (settle(w, job) && w->wake) {
		pthread_mutex_unlock(&w->lock);
		w->wake(w->wake_arg);
		pthread_mutex_lock(&w->lock);
	}
}

static void step_aside(struct sl_worker *w, struct lane *lane, struct lane *to)
{
	lane->idle = w->spare;
	w->spare = lane;
	hand_turn(w, to);
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	struct sl_worker *w = lane->worker;

	here = lane;
	uselocale(lane->locale);
	pthread_setname_np(pthread_self(), w->name);
	pthread_mutex_lock(&w->lock);
	for (wait_for_turn(w, lane); !w->over; wait_for_turn(w, lane)) {
		struct sl_job *job = lane->job ? lane->job : sl_turns_take(w);

		lane->job = NULL;
		if (job && job->lane)
			step_aside(w, lane, job->lane);
		else if (job)
			run(w, job);
		else if (w->closing && !w->held && !w->paused)
			end_all(w);
		else
			pthread_cond_wait(&w->posted, &w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Adds a spare lane and starts its thread. Returns 0 or an errno. */
static int open_lane(struct sl_worker *w)
{
	struct lane *lane = calloc(1, sizeof *lane);
	int rc = lane ? 0 : ENOMEM;

	if (!rc) {
		lane->worker = w;
		lane->locale = sl_real_locale(); /* libsplit may be in a program with another one */
		pthread_cond_init(&lane->turn, NULL);
		rc = pthread_create(&lane->thread, NULL, lane_main, lane);
	}
	if (rc) {
		free(lane);
		return rc;
	}
	lane->all = w->lanes;
	w->lanes = lane;
	lane->idle = w->spare;
	w->spare = lane;
	return 0;
}

/* Suspends the running job on its own stack and hands the turn on, unless this job is next again. */
static void give_way(struct sl_worker *w, struct lane *lane)
{
	struct sl_job *job = w->running, *next;

	sl_turns_begin(w, job); /* a new slice, in case no other job takes over */
	sl_turns_thread_begins(w);
	if ((job->ahead && !job->key) || (sl_turns_full(w) && !w->held->released) || (!w->spare && open_lane(w) != 0))
		return;
	job->lane = lane;
	job->next = w->paused;
	w->paused = job;
	w->running = NULL;
	next = sl_turns_take(w);
	if (next == job) {
		job->lane = NULL;
		return;
	}
	if (!next || !next->lane) {
		struct lane *spare = w->spare;

		w->spare = spare->idle;
		spare->job = next;
		hand_turn(w, spare);
	} else {
		hand_turn(w, next->lane);
	}
	while (w->has != lane) /* even while the worker closes: close waits for this job */
		pthread_cond_wait(&lane->turn, &w->lock);
	job->lane = NULL;
	sl_turns_thread_begins(w);
}

struct sl_worker *sl_worker_here(void)
{
	return here ? here->worker : NULL;
}

/* Many threads call this: it writes only if the stored time is stale. */
static void note_sign(struct sl_worker *w, uint64_t now)
{
	static const uint64_t fresh_ns = 100000000;

	if (now > atomic_load_explicit(&w->sign_ns, memory_order_relaxed) + fresh_ns)
		atomic_store_explicit(&w->sign_ns, now, memory_order_relaxed);
}

bool sl_worker_turn_due(struct sl_worker *w)
{
	bool wanted = atomic_load_explicit(&w->wanted, memory_order_relaxed);
	uint64_t now = wanted ? sl_now_ns() : sl_now_coarse_ns();

	note_sign(w, now);
	return wanted && now >= atomic_load_explicit(&w->slice_end_ns, memory_order_relaxed);
}

void sl_worker_turn(void)
{
	struct sl_worker *w = sl_worker_here();

	if (!w)
		return;
	atomic_store_explicit(&w->sign_ns, sl_now_ns(), memory_order_relaxed);
	if (!sl_worker_turn_due(w))
		return;
	pthread_mutex_lock(&w->lock);
	sl_turns_charge(w, w->running);
	give_way(w, here);
	pthread_mutex_unlock(&w->lock);
}

bool sl_worker_unwanted(void)
{
	return here && atomic_load_explicit(&here->worker->running->unwanted, memory_order_relaxed);
}

enum sl_err sl_worker_open(struct sl_worker **out, const char *thread_name, void (*wake)(void *arg), void *arg,
			   struct sl_fail *fail)
{
	struct sl_worker *w = calloc(1, sizeof *w);
	int rc;

	if (!w)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for worker %s", thread_name);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->posted, NULL);
	pthread_cond_init(&w->ended, NULL);
	w->done_tail = &w->done;
	w->held_tail = &w->held;
	w->wake = wake;
	w->wake_arg = arg;
	snprintf(w->name, sizeof w->name, "%s", thread_name);
	pthread_mutex_lock(&w->lock);
	rc = open_lane(w);
	if (rc == 0) {
		w->has = w->spare;
		w->spare = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	if (rc != 0) {
		free(w);
		return sl_fail_set(fail, rc == EAGAIN ? SL_ERR_NOMEM : SL_ERR_OS, "cannot start the thread %s: %s%s",
				   thread_name, strerror(rc),
				   rc == EAGAIN
					   ? ": this user may have no more memory (ulimit -v) or threads (ulimit -u): "
					     "raise the limit, or ask for less, such as a smaller train.batch"
					   : "");
	}
	*out = w;
	return SL_OK;
}

void sl_worker_charge_cpu(struct sl_worker *w)
{
	w->charges_cpu = true;
}

void sl_worker_post(struct sl_worker *worker, struct sl_job *job)
{
	struct sl_job **at = &worker->queue;

	pthread_mutex_lock(&worker->lock);
	sl_turns_come_back(worker, sl_turns_share(worker, job));
	while (*at && (*at)->priority <= job->priority)
		at = &(*at)->next;
	job->next = *at;
	*at = job;
	worker->queued_ahead += job->ahead;
	job->lane = NULL;
	atomic_store_explicit(&job->unwanted, false, memory_order_relaxed);
	sl_turns_note_wanted(worker);
	pthread_cond_signal(&worker->posted);
	pthread_mutex_unlock(&worker->lock);
}

void sl_worker_hold(struct sl_worker *worker, struct sl_job *job)
{
	pthread_mutex_lock(&worker->lock);
	job->held = true;
	pthread_mutex_unlock(&worker->lock);
}

void sl_worker_release(struct sl_worker *worker, struct sl_job *job)
{
	pthread_mutex_lock(&worker->lock);
	job->released = true;
	pthread_cond_signal(&worker->posted);
	pthread_mutex_unlock(&worker->lock);
}

static struct sl_job *take_done(struct sl_worker *w)
{
	struct sl_job *job;

	pthread_mutex_lock(&w->lock);
	job = w->done;
	if (job) {
		w->done = job->next;
		if (!w->done)
			w->done_tail = &w->done;
	}
	pthread_mutex_unlock(&w->lock);
	return job;
}

void sl_worker_drain(struct sl_worker *worker)
{
	struct sl_job *job;

	/* one at a time: `done` may post, or cancel jobs that are finished but not delivered */
	while ((job = take_done(worker)))
		job->done(job);
}

uint64_t sl_worker_busy_ms(struct sl_worker *worker)
{
	uint64_t now_ns = sl_now_ns(), began_ns;

	pthread_mutex_lock(&worker->lock);
	began_ns = worker->running ? worker->running->began_ns : now_ns;
	if (worker->held && worker->held->began_ns < began_ns)
		began_ns = worker->held->began_ns;
	for (const struct sl_job *job = worker->paused; job; job = job->next)
		began_ns = job->began_ns < began_ns ? job->began_ns : began_ns;
	pthread_mutex_unlock(&worker->lock);
	return now_ns > began_ns ? (now_ns - began_ns) / 1000000 : 0;
}

bool sl_worker_settle(struct sl_worker *worker, const bool *busy, int watchdog_s)
{
	const struct timespec moment = {0, 2000000};
	const uint64_t bound_ms = (uint64_t)watchdog_s * 1000;

	while (*busy) {
		sl_worker_drain(worker);
		if (*busy && bound_ms && sl_worker_busy_ms(worker) > bound_ms)
			return false;
		if (*busy)
			nanosleep(&moment, NULL);
	}
	return true;
}

uint64_t sl_worker_silent_ms(struct sl_worker *worker)
{
	uint64_t now_ns = sl_now_ns(), since_ns = now_ns;

	pthread_mutex_lock(&worker->lock);
	if (worker->running)
		since_ns = atomic_load_explicit(&worker->sign_ns, memory_order_relaxed);
	if (worker->held && worker->held->began_ns < since_ns)
		since_ns = worker->held->began_ns;
	pthread_mutex_unlock(&worker->lock);
	return now_ns > since_ns ? (now_ns - since_ns) / 1000000 : 0;
}

uint64_t sl_worker_had_ms(struct sl_worker *worker, const struct sl_share *share)
{
	const struct sl_job *job;
	uint64_t ns = 0;

	pthread_mutex_lock(&worker->lock);
	job = worker->running;
	if (job && sl_turns_share(worker, job) == share)
		ns = job->had_ns + (sl_now_ns() - job->slice_ns);
	for (job = worker->paused; job; job = job->next)
		if (sl_turns_share(worker, job) == share)
			ns = job->had_ns;
	pthread_mutex_unlock(&worker->lock);
	return ns / 1000000;
}

void sl_worker_unwant(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	struct sl_job *const lists[] = {worker->held, worker->paused};

	if (worker->running && owned(worker->running, arg)) {
		atomic_store_explicit(&worker->running->unwanted, true, memory_order_relaxed);
		/* A long block then stops at its next step, and learns that it is unwanted. */
		atomic_store_explicit(&worker->slice_end_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&worker->wanted, true, memory_order_relaxed);
	}
	for (int i = 0; i < 2; i++)
		for (struct sl_job *job = lists[i]; job; job = job->next)
			if (owned(job, arg))
				atomic_store_explicit(&job->unwanted, true, memory_order_relaxed);
	pthread_mutex_unlock(&worker->lock);
}

bool sl_worker_idle(struct sl_worker *worker)
{
	bool is;

	pthread_mutex_lock(&worker->lock);
	is = sl_turns_idle(worker);
	pthread_mutex_unlock(&worker->lock);
	return is;
}

static void forget(struct sl_job **at, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	while (*at) {
		if (owned(*at, arg))
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
}

static void forget_queued(struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	forget(&w->queue, owned, arg);
	w->queued_ahead = 0;
	for (const struct sl_job *job = w->queue; job; job = job->next)
		w->queued_ahead += job->ahead;
}

void sl_worker_forget(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	forget_queued(worker, owned, arg);
	pthread_mutex_unlock(&worker->lock);
}

static bool under_way(const struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	if (w->running && owned(w->running, arg))
		return true;
	for (const struct sl_job *job = w->held; job; job = job->next)
		if (owned(job, arg))
			return true;
	for (const struct sl_job *job = w->paused; job; job = job->next)
		if (owned(job, arg))
			return true;
	return false;
}

bool sl_worker_under_way(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	bool is;

	pthread_mutex_lock(&worker->lock);
	is = under_way(worker, owned, arg);
	pthread_mutex_unlock(&worker->lock);
	return is;
}

void sl_worker_cancel(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	forget_queued(worker, owned, arg);
	while (under_way(worker, owned, arg))
		pthread_cond_wait(&worker->ended, &worker->lock);
	forget(&worker->done, owned, arg);
	worker->done_tail = &worker->done;
	while (*worker->done_tail)
		worker->done_tail = &(*worker->done_tail)->next;
	pthread_mutex_unlock(&worker->lock);
}

void sl_worker_close(struct sl_worker *worker)
{
	struct lane *lane;

	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->closing = true;
	pthread_cond_signal(&worker->posted);
	while (!worker->over) /* until then lanes may be added */
		pthread_cond_wait(&worker->ended, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
	while ((lane = worker->lanes)) {
		worker->lanes = lane->all;
		pthread_join(lane->thread, NULL);
		pthread_cond_destroy(&lane->turn);
		free(lane);
	}
	pthread_cond_destroy(&worker->ended);
	pthread_cond_destroy(&worker->posted);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
