/* Jobs that record in which order they ran and were delivered; one that blocks its worker at a
 * gate; one that is held. */
#ifndef SL_TESTS_WORKER_PROBE_H
#define SL_TESTS_WORKER_PROBE_H

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "common/base/worker.h"
#include "tests/support/unit.h"

struct probe {
	struct sl_job job; /* first: a job's address is its probe's */
	int id, ran, delivered;
};

static sem_t gate_entered, gate_open, woken;
static int order[64], ran_count, delivered_order[64], delivered_count;
static pthread_t drain_thread;

static inline void probe_run(struct sl_job *job)
{
	struct probe *p = (struct probe *)job;

	p->ran++;
	order[ran_count++] = p->id;
}

static inline void probe_done(struct sl_job *job)
{
	struct probe *p = (struct probe *)job;

	assert_true(pthread_equal(pthread_self(), drain_thread));
	p->delivered++;
	delivered_order[delivered_count++] = p->id;
}

static inline void gate_run(struct sl_job *job)
{
	sem_post(&gate_entered);
	sem_wait(&gate_open);
	probe_run(job);
}

static inline void wake(void *arg)
{
	assert_string_equal((const char *)arg, "wake");
	sem_post(&woken);
}

static inline int setup(void **state)
{
	struct sl_worker *w;

	sem_init(&gate_entered, 0, 0);
	sem_init(&gate_open, 0, 0);
	sem_init(&woken, 0, 0);
	ran_count = delivered_count = 0;
	drain_thread = pthread_self();
	if (sl_worker_open(&w, "test-worker-with-a-long-name", wake, "wake", NULL) != SL_OK)
		return -1;
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	sl_worker_close(*state);
	return 0;
}

static inline struct probe probe(int id, int priority)
{
	return (struct probe){.job = {.run = probe_run, .done = probe_done, .priority = priority}, .id = id};
}

/* Blocks the worker inside a job until gate_open is posted. */
static inline void post_gate(struct sl_worker *w, struct probe *gate)
{
	*gate = probe(0, 0);
	gate->job.run = gate_run;
	sl_worker_post(w, &gate->job);
	sem_wait(&gate_entered);
}

static inline void drain_until(struct sl_worker *w, int count)
{
	while (delivered_count < count) {
		sem_wait(&woken);
		sl_worker_drain(w);
	}
}

/* A job that holds itself on its first run and posts `entered`; its second run is that of any probe. */
struct held {
	struct probe p; /* first */
	struct sl_worker *worker;
	bool again, at_once;
};

static sem_t entered;

static inline void held_run(struct sl_job *job)
{
	struct held *h = (struct held *)job;

	if (h->again) {
		probe_run(job);
		return;
	}
	h->again = true;
	if (h->at_once)
		sl_worker_release(h->worker, job);
	sl_worker_hold(h->worker, job);
	sem_post(&entered);
}

static inline struct held held(struct sl_worker *w, int id, int priority)
{
	struct held h = {.p = probe(id, priority), .worker = w};

	h.p.job.run = held_run;
	return h;
}

static inline int is_any(const struct sl_job *job, void *arg)
{
	(void)job;
	(void)arg;
	return 1;
}

#endif
