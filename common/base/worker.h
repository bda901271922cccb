/* One thread that runs jobs. Kernels and codecs run there, so that an event loop never computes.
 *
 * Every client of the worker has a share. The next job comes from the share that has had the least time. Within a share
 * the lowest priority value comes first, then the order of submission. A new job waits at most for the running job, for
 * held or expedited jobs, and for one job of every other share, however many jobs others queue. A share whose own job
 * was long waits until the others have had as much time. Long jobs give way between their pieces.
 *
 * Jobs belong to their submitter, and must stay valid until `done` was called. */
#ifndef SL_BASE_WORKER_H
#define SL_BASE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct sl_worker;

enum { SL_WORKER_HELD = 2 };

/* Zero it before its first job is posted; it must outlive its jobs. `used_ns` belongs to the worker: the time that the
 * share's jobs had. A share that comes back with work gets at least the value of the shares that were served meanwhile.
 * Idle time earns no credit; uncontended use costs none. */
struct sl_share {
	uint64_t used_ns;
	uint64_t scan; /* the worker's */
};

struct sl_job {
	void (*run)(struct sl_job *job);  /* on the worker's thread */
	void (*done)(struct sl_job *job); /* on the thread that calls sl_worker_drain */
	int priority;                     /* lower runs first within a share; equal ones in order of submission */
	struct sl_share *share;           /* NULL: one of the worker's own, for whoever shares it with nobody */
	bool ahead; /* before the turn of any share, though behind what its own has in front of it: what others that are
		     * posted later must find done */
	/* Not 0: jobs with the same key never overlap, and of these one that goes ahead comes before the others. */
	uint64_t key;
	/* the worker's */
	struct sl_job *next;
	uint64_t began_ns;
	uint64_t slice_ns, had_ns;
	struct lane *lane;
	bool held, released;
	_Atomic bool unwanted;
};

/* `wake` is called from the worker's thread whenever finished jobs wait for sl_worker_drain (uv_async_send). */
enum sl_err sl_worker_open(struct sl_worker **out, const char *thread_name, void (*wake)(void *arg), void *arg,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_worker_post(struct sl_worker *worker, struct sl_job *job); /* any thread */
/* For work that goes on elsewhere, on a device, when `run` returns. Hold, from within run: the job is not over yet.
 * Release, from any thread, once, be it before run returns: `run` is called again, in front of all that is queued, in
 * the order of holding. Meanwhile the worker runs others, until SL_WORKER_HELD jobs are held, or one that goes ahead:
 * so the device has the next one before it has done this one, and what is urgent waits for no more than these. */
void sl_worker_hold(struct sl_worker *worker, struct sl_job *job);
void sl_worker_release(struct sl_worker *worker, struct sl_job *job);
/* Long jobs give way. A job that runs calls sl_worker_turn between pieces of its work, and sl_pool_run does between
 * blocks: where it has had 20 ms and another share is next, others run until it is this job's turn again. So nobody
 * waits for a long job, only for its longest piece. While a job has given way no other of its share begins; one that
 * goes ahead gives way only if it has a key. What a job works on must be its own: no other job may use it. */
void sl_worker_turn(void);                         /* any thread; does nothing where no job of a worker runs on it */
struct sl_worker *sl_worker_here(void);            /* whose job runs on this thread, or NULL */
bool sl_worker_turn_due(struct sl_worker *worker); /* that job should call sl_worker_turn. Any thread. */
/* Tells jobs under way that nobody wants what comes of them. What a job makes of that is its own business. */
void sl_worker_unwant(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
bool sl_worker_unwanted(void); /* on the thread of a job: it was told so */
/* How long ago the running job gave its last sign of life, by sl_worker_turn or sl_worker_turn_due, or a held one
 * began; 0: there is none. */
uint64_t sl_worker_silent_ms(struct sl_worker *worker);
/* What this share's job under way has had of the worker's time; 0: there is none. */
uint64_t sl_worker_had_ms(struct sl_worker *worker, const struct sl_share *share);
/* Calls `done` of every finished job, in order of completion, on the calling thread. */
void sl_worker_drain(struct sl_worker *worker);
/* Drains until `done` of a job has made *busy false. False: the running job has taken more than watchdog_s; 0: no
 * limit.
 */
bool sl_worker_settle(struct sl_worker *worker, const bool *busy, int watchdog_s);
/* Forgets every job with `owned(job, arg)` true: queued, running, held, or finished and not drained. It waits for the
 * end of a running or held job. After the return neither `run` nor `done` of such a job is called, and its memory is
 * the submitter's again. */
void sl_worker_cancel(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* Forgets those of them that are queued, and waits for none. */
void sl_worker_forget(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* One of them runs, is held or has given way. */
bool sl_worker_under_way(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* How long ago the oldest of the jobs began that run, are held or have given way, 0 where there is none. Any thread. */
uint64_t sl_worker_busy_ms(struct sl_worker *worker);
/* No job runs or is held, and none is queued: what they work on is the submitter's. Any thread. */
bool sl_worker_idle(struct sl_worker *worker);
void sl_worker_close(struct sl_worker *worker); /* NULL is fine; waits for jobs that have begun, forgets the others */

#endif
