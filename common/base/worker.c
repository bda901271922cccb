#include "common/base/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

struct sl_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted; /* something is queued, or closing */
	pthread_cond_t idle;   /* `running` became NULL */
	struct sl_job *queue;  /* sorted by (priority, seq) */
	struct sl_job *done, **done_tail;
	struct sl_job *running;
	unsigned long long next_seq;
	bool closing;
	_Atomic uint64_t began_ms; /* of the running job; 0: none */
	void (*wake)(void *arg);
	void *wake_arg;
	char name[16]; /* as long as the kernel shows */
};

static void *worker_main(void *arg)
{
	struct sl_worker *w = arg;

	pthread_setname_np(pthread_self(), w->name);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct sl_job *job;

		while (!w->queue && !w->closing)
			pthread_cond_wait(&w->posted, &w->lock);
		if (w->closing)
			break;
		job = w->queue;
		w->queue = job->next;
		w->running = job;
		pthread_mutex_unlock(&w->lock);
		atomic_store(&w->began_ms, sl_now_ms());
		job->run(job);
		atomic_store(&w->began_ms, 0);
		pthread_mutex_lock(&w->lock);
		job->next = NULL;
		*w->done_tail = job;
		w->done_tail = &job->next;
		w->running = NULL;
		pthread_cond_broadcast(&w->idle);
		if (w->wake) {
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
	pthread_cond_init(&w->idle, NULL);
	w->done_tail = &w->done;
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
	job->seq = worker->next_seq++;
	while (*at && (*at)->priority <= job->priority)
		at = &(*at)->next;
	job->next = *at;
	*at = job;
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

uint64_t sl_worker_busy_ms(const struct sl_worker *worker)
{
	uint64_t began_ms = atomic_load(&worker->began_ms), now_ms = sl_now_ms();

	return began_ms && now_ms > began_ms ? now_ms - began_ms : 0;
}

bool sl_worker_idle(struct sl_worker *worker)
{
	bool idle;

	pthread_mutex_lock(&worker->lock);
	idle = !worker->running && !worker->queue;
	pthread_mutex_unlock(&worker->lock);
	return idle;
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

void sl_worker_cancel(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	forget(&worker->queue, owned, arg);
	while (worker->running && owned(worker->running, arg))
		pthread_cond_wait(&worker->idle, &worker->lock);
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
	pthread_cond_destroy(&worker->idle);
	pthread_cond_destroy(&worker->posted);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
