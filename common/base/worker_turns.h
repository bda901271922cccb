/* Whose turn it is on a worker: what worker.c and worker_turns.c share, and nobody else. All of it with the lock held.
 */
#ifndef SL_BASE_WORKER_TURNS_H
#define SL_BASE_WORKER_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/worker.h"

/* A thread for jobs. One of them has the turn; the others stand in a job that gave way, or are spare. */
struct lane {
	struct sl_worker *worker;
	pthread_t thread;
	pthread_cond_t turn;     /* it has the turn, or all is over */
	struct sl_job *job;      /* to begin with it */
	struct lane *all, *idle; /* next of all, next of the spare ones */
};

struct sl_worker {
	pthread_mutex_t lock;
	pthread_cond_t posted; /* something is queued, a held job is released, or closing: for who has the turn */
	pthread_cond_t ended;  /* a job is over, or is held */
	struct lane *lanes, *spare, *has; /* has: the turn */
	struct sl_job *queue;             /* by priority; equal ones in order of submission */
	int queued_ahead;                 /* those of it that go ahead: few, so that scans for one end early */
	struct sl_share own;              /* of jobs that name none */
	uint64_t served_ns;               /* the most that a share had used when a job of it was taken */
	uint64_t most_ns;                 /* that any has used */
	uint64_t ended_ns;                /* when the last job was over, or gave way */
	struct sl_job *done, **done_tail;
	struct sl_job *running;
	struct sl_job *held, **held_tail; /* in the order in which they were */
	struct sl_job *paused;            /* gave way; each has a lane */
	int held_count;
	uint64_t scans;
	bool closing, over;
	_Atomic bool wanted;           /* another job may want the time of the one that runs */
	_Atomic uint64_t slice_end_ns; /* from when on that one gives way */
	_Atomic uint64_t sign_ns;      /* its last sign of life */
	uint64_t wanted_ns;            /* since when */
	uint64_t late_ns;              /* the most that one gave way too late */
	void (*wake)(void *arg);
	void *wake_arg;
	char name[16]; /* as long as the kernel shows */
};

struct sl_share *sl_turns_share(struct sl_worker *w, const struct sl_job *job); /* never NULL */
/* No job is under way or queued. */
bool sl_turns_idle(const struct sl_worker *w);
/* Before a job of the share is queued. */
void sl_turns_come_back(struct sl_worker *w, struct sl_share *share);
/* Behind every change of the lists: whether others want the running job's time. */
void sl_turns_note_wanted(struct sl_worker *w);
/* Of held jobs there are as many as may be: no other may begin. */
bool sl_turns_full(const struct sl_worker *w);
/* The job that is to run now leaves its list, and its slice begins; NULL: none may run. */
struct sl_job *sl_turns_take(struct sl_worker *w);
void sl_turns_begin(struct sl_worker *w, struct sl_job *job);
/* It is over, or gives way: its share pays for the slice. */
void sl_turns_charge(struct sl_worker *w, struct sl_job *job);

#endif
