#include "common/base/worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

struct sl_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted; /* something is queued, a held job is released, or closing */
	pthread_cond_t ended;  /* a job is over, or is held */
	struct sl_job *queue;  /* sorted by (priority, seq) */
	struct sl_share own;   /* of jobs that name none */
	uint64_t served_ns;    /* the most that a share had used when a job of it was taken */
	uint64_t most_ns;      /* that any has used */
	uint64_t ended_ns;     /* when the last job was over */
	struct sl_job *done, **done_tail;
	struct sl_job *running;
	struct sl_job *held, **held_tail; /* in the order in which they were */
	int held_count;
	unsigned long long next_seq;
	bool closing;
	void (*wake)(void *arg);
	void *wake_arg;
	char name[16]; /* as long as the kernel shows */
};

/* ---- whose turn it is */

static struct sl_share *share_of(struct sl_worker *w, const struct sl_job *job)
{
	return job->share ? job->share : &w->own;
}

/* Where in the queue the next job stands; it is not empty. Of shares that are equal, whose job is more urgent. */
static struct sl_job **next_of(struct sl_worker *w)
{
	struct sl_job **best = &w->queue, *ahead = w->queue;

	while (ahead && !ahead->ahead)
		ahead = ahead->next;
	if (ahead) {
		while (share_of(w, *best) != share_of(w, ahead))
			best = &(*best)->next;
		return best;
	}
	for (struct sl_job **at = &w->queue; *at; at = &(*at)->next)
		if (share_of(w, *at)->used_ns < share_of(w, *best)->used_ns)
			best = at;
	return best;
}

static bool has_work(struct sl_worker *w, const struct sl_share *share)
{
	const struct sl_job *lists[] = {w->queue, w->held};

	if (w->running && share_of(w, w->running) == share)
		return true;
	for (int i = 0; i < 2; i++)
		for (const struct sl_job *job = lists[i]; job; job = job->next)
			if (share_of(w, job) == share)
				return true;
	return false;
}

static bool idle(const struct sl_worker *w)
{
	return !w->running && !w->held && !w->queue;
}

/* Before a job is queued. Behind a time when nobody wanted anything all are equal: what one had alone took nothing from
 * the others. */
static void come_back(struct sl_worker *w, struct sl_share *share)
{
	if (idle(w))
		w->served_ns = w->most_ns;
	if (share->used_ns < w->served_ns && !has_work(w, share))
		share->used_ns = w->served_ns;
}

/* A job is over. What it had of a device's time, while others were queued behind it, began when the one before ended.
 */
static void charge(struct sl_worker *w, const struct sl_job *job)
{
	uint64_t now = sl_now_ns(), from = job->began_ns > w->ended_ns ? job->began_ns : w->ended_ns;
	struct sl_share *share = share_of(w, job);

	share->used_ns += now - from;
	if (share->used_ns > w->most_ns)
		w->most_ns = share->used_ns;
	w->ended_ns = now;
}

static bool holds_ahead(const struct sl_worker *w)
{
	for (const struct sl_job *job = w->held; job; job = job->next)
		if (job->ahead)
			return true;
	return false;
}

/* The first held job that may go on, else the next of the queue; NULL: neither. */
static struct sl_job *take(struct sl_worker *w)
{
	struct sl_job *job = w->held, **at;

	if (job && job->released) {
		w->held = job->next;
		if (!w->held)
			w->held_tail = &w->held;
		w->held_count--;
		job->held = job->released = false;
		return job;
	}
	if (!w->queue || w->closing || w->held_count == SL_WORKER_HELD || holds_ahead(w))
		return NULL;
	at = next_of(w);
	job = *at;
	*at = job->next;
	if (share_of(w, job)->used_ns > w->served_ns) /* not where one lags, since a job of it was held */
		w->served_ns = share_of(w, job)->used_ns;
	job->began_ns = sl_now_ns();
	return job;
}

/* After a call of run. True: the job is over. */
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
		charge(w, job);
		*w->done_tail = job;
		w->done_tail = &job->next;
	}
	pthread_cond_broadcast(&w->ended);
	return !held;
}

static void *worker_main(void *arg)
{
	struct sl_worker *w = arg;

	pthread_setname_np(pthread_self(), w->name);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct sl_job *job = take(w);

		if (!job && w->closing && !w->held)
			break;
		if (!job) {
			pthread_cond_wait(&w->posted, &w->lock);
			continue;
		}
		w->running = job;
		pthread_mutex_unlock(&w->lock);
		job->run(job);
		pthread_mutex_lock(&w->lock);
		if (settle(w, job) && w->wake) {
			pthread_mutex_unlock(&w->lock);
			w->wake(w->wake_arg);
			pthread_mutex_lock(&w->lock);
		}
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
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
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	if (rc != 0) {
		free(w);
		return sl_fail_set(fail, SL_ERR_OS, "cannot start worker %s: %s", thread_name, strerror(rc));
	}
	*out = w;
	return SL_OK;
}

void sl_worker_post(struct sl_worker *worker, struct sl_job *job)
{
	struct sl_job **at = &worker->queue;

	pthread_mutex_lock(&worker->lock);
	come_back(worker, share_of(worker, job));
	job->seq = worker->next_seq++;
	while (*at && (*at)->priority <= job->priority)
		at = &(*at)->next;
	job->next = *at;
	*at = job;
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
	pthread_mutex_unlock(&worker->lock);
	return now_ns > began_ns ? (now_ns - began_ns) / 1000000 : 0;
}

bool sl_worker_idle(struct sl_worker *worker)
{
	bool is;

	pthread_mutex_lock(&worker->lock);
	is = idle(worker);
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

void sl_worker_forget(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	forget(&worker->queue, owned, arg);
	pthread_mutex_unlock(&worker->lock);
}

static bool under_way(const struct sl_worker *w, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	if (w->running && owned(w->running, arg))
		return true;
	for (const struct sl_job *job = w->held; job; job = job->next)
		if (owned(job, arg))
			return true;
	return false;
}

void sl_worker_cancel(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	forget(&worker->queue, owned, arg);
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
	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->closing = true;
	pthread_cond_signal(&worker->posted);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->ended);
	pthread_cond_destroy(&worker->posted);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
