/* Which job is next on a worker: private to worker.c and worker_turns.c. The caller of each function holds the
 * lock. */
#ifndef SL_BASE_WORKER_TURNS_H
#define SL_BASE_WORKER_TURNS_H

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/worker.h"

/* One of the worker's threads. One lane has the turn, which means that it takes and runs jobs. Each other lane is
 * suspended in a job that gave way, or is spare. */
struct lane {
	struct sl_worker *worker;
	pthread_t thread;
	locale_t locale;
	pthread_cond_t turn;     /* signalled when it gets the turn, or all is over */
	struct sl_job *job;      /* the job to begin with, or NULL */
	struct lane *all, *idle; /* next in `lanes`; next in `spare` */
};

struct sl_worker {
	pthread_mutex_t lock;
	pthread_cond_t posted; /* to the lane with the turn: a job was queued or released, or `closing` was set */
	pthread_cond_t ended;  /* a job has ended, or was held */
	struct lane *lanes, *spare, *has; /* has: the lane with the turn */
	struct sl_job *queue;             /* by priority, then in order of submission */
	int queued_ahead;                 /* expedited jobs in the queue: few, and a scan for them ends after so many */
	struct sl_share own;              /* the share of jobs that name none */
	uint64_t served_ns;               /* the largest used_ns of a share when a job of it was taken */
	uint64_t most_ns;                 /* the largest used_ns of any share */
	uint64_t ended_ns;                /* when the last job ended or gave way */
	struct sl_job *done, **done_tail;
	struct sl_job *running;
	struct sl_job *held, **held_tail; /* in the order of holding */
	struct sl_job *paused;            /* jobs that gave way; each has a lane */
	int held_count;
	uint64_t scans;
	bool closing, over, charges_cpu;
	_Atomic bool wanted;           /* another job may want the running job's time */
	_Atomic uint64_t slice_end_ns; /* from then on the running job gives way */
	_Atomic uint64_t sign_ns;      /* its last call of sl_worker_turn or …_due */
	uint64_t wanted_ns;            /* when `wanted` became true */
	uint64_t late_ns;              /* the longest that a job gave way too late */
	void (*wake)(void *arg);
	void *wake_arg;
	char name[16]; /* as many bytes as the kernel keeps */
};

struct sl_share *sl_turns_share(struct sl_worker *w, const struct sl_job *job); /* never NULL */
/* Whether no job is under way or queued. */
bool sl_turns_idle(const struct sl_worker *w);
/* Before a job of the share is queued: raises used_ns of a share that had no work. */
void sl_turns_come_back(struct sl_worker *w, struct sl_share *share);
/* After every change of the lists: updates `wanted`. */
void sl_turns_note_wanted(struct sl_worker *w);
/* Whether as many jobs are held as may be: no other job may begin. */
bool sl_turns_full(const struct sl_worker *w);
/* Takes the next job off its list and begins its slice. NULL: no job may run. */
struct sl_job *sl_turns_take(struct sl_worker *w);
void sl_turns_begin(struct sl_worker *w, struct sl_job *job);
/* On the running job's thread, where its slice begins or goes on: for sl_turns_charge. */
void sl_turns_thread_begins(const struct sl_worker *w);
/* When the job ends or gives way: its share pays for the slice. */
void sl_turns_charge(struct sl_worker *w, struct sl_job *job);

#endif
