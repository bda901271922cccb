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

/* A client's account of the worker's time. Zero it before its first job is posted; it must outlive its jobs.
 * `used_ns` belongs to the worker: the time that the share's jobs have had. When a share gets work after a pause,
 * it is raised to that of the shares that were served meanwhile. So idle time earns no credit; uncontended use
 * costs none. */
struct sl_share {
	uint64_t used_ns;
	uint64_t scan; /* used by the worker */
};

struct sl_job {
	void (*run)(struct sl_job *job);  /* on the worker's thread */
	void (*done)(struct sl_job *job); /* on the thread that calls sl_worker_drain */
	int priority;                     /* lower runs first within a share; equal ones in order of submission */
	struct sl_share *share;           /* NULL: a share of the worker's own, for a worker with one client */
	/* Expedited: before the turn of any share, but after earlier jobs of its own. For what later jobs rely on. */
	bool ahead;
	/* If not 0: jobs with the same key never overlap, and among them an expedited one comes before the others. */
	uint64_t key;
	/* used by the worker */
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
/* For jobs that compute on a CPU, before the first one: shares pay for the processor's time, not for the clock's. Else
 * a job from which the system takes the processor once for 30 ms makes its share wait until each other one has had as
 * much. Waits for a disk are free then. */
void sl_worker_charge_cpu(struct sl_worker *worker);
void sl_worker_post(struct sl_worker *worker, struct sl_job *job); /* any thread */
/* For work that goes on elsewhere, on a device, after `run` has returned. sl_worker_hold, called within `run`: the
 * job is not over when `run` returns. sl_worker_release, called once, by any thread, even before `run` returns:
 * `run` is called again, before all queued jobs, in the order of holding. Meanwhile the worker runs other jobs,
 * until SL_WORKER_HELD jobs or one expedited job are held. So the device has its next job before it has finished
 * this one, and an urgent job waits for few others. */
void sl_worker_hold(struct sl_worker *worker, struct sl_job *job);
void sl_worker_release(struct sl_worker *worker, struct sl_job *job);
/* Long jobs give way. A running job calls sl_worker_turn between pieces of its work; sl_pool_run does so between
 * blocks. If the job has had 20 ms and another share is next, other jobs run until it is this job's turn again. So
 * nobody waits for a long job, only for its longest piece. While a job has given way, no other job of its share
 * begins. An expedited job gives way only if it has a key. No other job may use the data that a job works on. */
void sl_worker_turn(void);                         /* any thread; does nothing outside of a job */
struct sl_worker *sl_worker_here(void);            /* the worker whose job this thread runs, or NULL */
bool sl_worker_turn_due(struct sl_worker *worker); /* the running job should call sl_worker_turn. Any thread */
/* Tells the jobs under way for which `owned(job, arg)` is true that nobody needs their result. They may end early. */
void sl_worker_unwant(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
bool sl_worker_unwanted(void); /* called by a job: it was told so */
/* Time since the running job last called sl_worker_turn or sl_worker_turn_due, or since a held job began if that is
 * longer. 0: there is none. */
uint64_t sl_worker_silent_ms(struct sl_worker *worker);
/* The worker's time that this share's job under way has had. 0: there is none. */
uint64_t sl_worker_had_ms(struct sl_worker *worker, const struct sl_share *share);
/* Calls `done` of every finished job, in order of completion, on the calling thread. */
void sl_worker_drain(struct sl_worker *worker);
/* Drains until a job's `done` has set *busy to false. Returns false if a job is under way for more than watchdog_s
 * seconds (0: no limit). */
bool sl_worker_settle(struct sl_worker *worker, const bool *busy, int watchdog_s);
/* Forgets every job for which `owned(job, arg)` is true: queued, under way, or finished and not drained. It waits
 * for the end of jobs under way. After the return neither `run` nor `done` of such a job is called, and its memory
 * is the submitter's again. */
void sl_worker_cancel(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* Forgets such jobs that are queued, and waits for none. */
void sl_worker_forget(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* Whether such a job is under way: it runs, is held or has given way. */
bool sl_worker_under_way(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg);
/* Time since the oldest job under way began; 0: there is none. Any thread. */
uint64_t sl_worker_busy_ms(struct sl_worker *worker);
/* Whether no job is queued or under way, so that the data of jobs is the submitter's. Any thread. */
bool sl_worker_idle(struct sl_worker *worker);
void sl_worker_close(struct sl_worker *worker); /* NULL is fine; waits for jobs that have begun, forgets the others */

#endif
