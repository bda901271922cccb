#include "common/base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

/* How long a job has the worker's time before it gives way to another share's. */
static const uint64_t slice_ns = 20000000;

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
	struct sl_job *queue;             /* sorted by (priority, seq) */
	struct sl_share own;              /* of jobs that name none */
	uint64_t served_ns;               /* the most that a share had used when a job of it was taken */
	uint64_t most_ns;                 /* that any has used */
	uint64_t ended_ns;                /* when the last job was over, or gave way */
	struct sl_job *done, **done_tail;
	struct sl_job *running;
	struct sl_job *held, **held_tail; /* in the order in which they were */
	struct sl_job *paused;            /* gave way; each has a lane */
	int held_count;
	unsigned long long next_seq;
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

static _Thread_local struct lane *here; /* of this thread */

/* ---- whose turn it is */

static struct sl_share *share_of(struct sl_worker *w, const struct sl_job *job)
{
	return job->share ? job->share : &w->own;
}

/* By a job under way. */
static bool key_in_use(const struct sl_worker *w, uint64_t key)
{
	const struct sl_job *lists[] = {w->held, w->paused};

	for (int i = 0; i < 2 && key; i++)
		for (const struct sl_job *job = lists[i]; job; job = job->next)
			if (job->key == key)
				return true;
	return false;
}

/* For one under way, or one that goes ahead. */
static bool waits_for_key(const struct sl_worker *w, const struct sl_job *job)
{
	for (const struct sl_job *other = w->queue; job->key && !job->ahead && other; other = other->next)
		if (other->ahead && other->key == job->key)
			return true;
	return key_in_use(w, job->key);
}

/* Jobs of one share begin in order, and none while one of them has given way: those shares, and those whose first job
 * waits for its key, are marked with the number of this scan. */
static bool may_begin(struct sl_worker *w, const struct sl_job *job)
{
	struct sl_share *share = share_of(w, job);

	if (share->scan == w->scans)
		return false;
	if (!waits_for_key(w, job))
		return true;
	share->scan = w->scans;
	return false;
}

static void begin_scan(struct sl_worker *w)
{
	w->scans++;
	for (const struct sl_job *job = w->paused; job; job = job->next)
		share_of(w, job)->scan = w->scans;
}

/* The first job of the first share that goes ahead and can. */
static struct sl_job **first_ahead(struct sl_worker *w)
{
	for (const struct sl_job *ahead = w->queue; ahead; ahead = ahead->next) {
		struct sl_job **at = &w->queue;

		if (!ahead->ahead || share_of(w, ahead)->scan == w->scans)
			continue;
		while (share_of(w, *at) != share_of(w, ahead))
			at = &(*at)->next;
		if (!key_in_use(w, (*at)->key))
			return at;
	}
	return NULL;
}

/* Where the next job stands, in the queue, if one of it may begin, or among those that gave way; NULL: none may run. Of
 * shares that are equal, whose job is more urgent. */
static struct sl_job **next_of(struct sl_worker *w, bool open_one)
{
	struct sl_job **best;

	begin_scan(w);
	best = open_one ? first_ahead(w) : NULL;
	if (best)
		return best;
	for (struct sl_job **at = &w->queue; *at && open_one; at = &(*at)->next)
		if (may_begin(w, *at) && (!best || share_of(w, *at)->used_ns < share_of(w, *best)->used_ns))
			best = at;
	for (struct sl_job **at = &w->paused; *at; at = &(*at)->next)
		if (!best || share_of(w, *at)->used_ns < share_of(w, *best)->used_ns)
			best = at;
	return best;
}

static bool has_work(struct sl_worker *w, const struct sl_share *share)
{
	const struct sl_job *lists[] = {w->queue, w->held, w->paused};

	if (w->running && share_of(w, w->running) == share)
		return true;
	for (int i = 0; i < 3; i++)
		for (const struct sl_job *job = lists[i]; job; job = job->next)
			if (share_of(w, job) == share)
				return true;
	return false;
}

static bool idle(const struct sl_worker *w)
{
	return !w->running && !w->held && !w->queue && !w->paused;
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

/* A job is over, or gives way. What it had of a device's time, while others were queued behind it, began when the one
 * before ended. */
static void charge(struct sl_worker *w, struct sl_job *job)
{
	uint64_t now = sl_now_ns(), from = job->slice_ns > w->ended_ns ? job->slice_ns : w->ended_ns;
	uint64_t due = atomic_load_explicit(&w->slice_end_ns, memory_order_relaxed);
	struct sl_share *share = share_of(w, job);

	share->used_ns += now - from;
	job->had_ns += now - from;
	if (share->used_ns > w->most_ns)
		w->most_ns = share->used_ns;
	due = w->wanted_ns > due ? w->wanted_ns : due;
	if (atomic_load_explicit(&w->wanted, memory_order_relaxed) && now > due && now - due > w->late_ns)
		w->late_ns = now - due;
	w->ended_ns = now;
}

static bool holds_ahead(const struct sl_worker *w)
{
	for (const struct sl_job *job = w->held; job; job = job->next)
		if (job->ahead)
			return true;
	return false;
}

/* Of held jobs: no other may begin. */
static bool full(const struct sl_worker *w)
{
	return w->held_count == SL_WORKER_HELD || holds_ahead(w);
}

static void note_wanted(struct sl_worker *w)
{
	bool was = atomic_load_explicit(&w->wanted, memory_order_relaxed), is = w->queue || w->paused || w->held;

	if (is && !was)
		w->wanted_ns = sl_now_ns();
	atomic_store_explicit(&w->wanted, is, memory_order_relaxed);
}

static void begin_slice(struct sl_worker *w, struct sl_job *job)
{
	job->slice_ns = sl_now_ns();
	atomic_store_explicit(&w->slice_end_ns, job->slice_ns + slice_ns, memory_order_relaxed);
	atomic_store_explicit(&w->sign_ns, job->slice_ns, memory_order_relaxed);
	w->running = job;
	note_wanted(w);
}

static bool paused(struct sl_worker *w, const struct sl_share *share)
{
	for (const struct sl_job *job = w->paused; job; job = job->next)
		if (share_of(w, job) == share)
			return true;
	return false;
}

/* The first held job, but for those of shares in which one has given way, if it may go on. */
static struct sl_job *take_held(struct sl_worker *w)
{
	struct sl_job **at = &w->held, *job;

	while (*at && paused(w, share_of(w, *at)))
		at = &(*at)->next;
	job = *at;
	if (!job || !job->released)
		return NULL;
	*at = job->next;
	if (!job->next)
		w->held_tail = at;
	w->held_count--;
	job->held = job->released = false;
	return job;
}

/* That one, else the next of the queue, or of those that gave way; NULL: none. */
static struct sl_job *take(struct sl_worker *w)
{
	struct sl_job *job = take_held(w), **at;

	if (job) {
		uint64_t began_ns = job->slice_ns;

		begin_slice(w, job);
		job->slice_ns = began_ns; /* what the device does of it meanwhile is its time, too */
		return job;
	}
	at = next_of(w, !w->closing && !full(w));
	if (!at)
		return NULL;
	job = *at;
	*at = job->next;
	if (share_of(w, job)->used_ns > w->served_ns) /* not where one lags, since a job of it was held */
		w->served_ns = share_of(w, job)->used_ns;
	if (!job->lane) {
		job->began_ns = sl_now_ns();
		job->had_ns = 0;
	}
	begin_slice(w, job);
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
	pthread_setname_np(pthread_self(), w->name);
	pthread_mutex_lock(&w->lock);
	for (wait_for_turn(w, lane); !w->over; wait_for_turn(w, lane)) {
		struct sl_job *job = lane->job ? lane->job : take(w);

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

/* Spare, once it is there. */
static int open_lane(struct sl_worker *w)
{
	struct lane *lane = calloc(1, sizeof *lane);
	int rc = lane ? 0 : ENOMEM;

	if (!rc) {
		lane->worker = w;
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

/* The running job goes on later, on its own stack, unless it is next again. */
static void give_way(struct sl_worker *w, struct lane *lane)
{
	struct sl_job *job = w->running, *next;

	begin_slice(w, job); /* where nobody takes over */
	if ((job->ahead && !job->key) || (full(w) && !w->held->released) || (!w->spare && open_lane(w) != 0))
		return;
	job->lane = lane;
	job->next = w->paused;
	w->paused = job;
	w->running = NULL;
	next = take(w);
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
	while (w->has != lane) /* also while all are ending: this job is waited for */
		pthread_cond_wait(&lane->turn, &w->lock);
	job->lane = NULL;
}

struct sl_worker *sl_worker_here(void)
{
	return here ? here->worker : NULL;
}

bool sl_worker_turn_due(const struct sl_worker *w)
{
	return atomic_load_explicit(&w->wanted, memory_order_relaxed) &&
	       sl_now_ns() >= atomic_load_explicit(&w->slice_end_ns, memory_order_relaxed);
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
	charge(w, w->running);
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
	job->lane = NULL;
	atomic_store_explicit(&job->unwanted, false, memory_order_relaxed);
	note_wanted(worker);
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
	if (job && share_of(worker, job) == share)
		ns = job->had_ns + (sl_now_ns() - job->slice_ns);
	for (job = worker->paused; job; job = job->next)
		if (share_of(worker, job) == share)
			ns = job->had_ns;
	pthread_mutex_unlock(&worker->lock);
	return ns / 1000000;
}

uint64_t sl_worker_late_ns(struct sl_worker *worker)
{
	uint64_t ns;

	pthread_mutex_lock(&worker->lock);
	ns = worker->late_ns;
	pthread_mutex_unlock(&worker->lock);
	return ns;
}

void sl_worker_unwant(struct sl_worker *worker, int (*owned)(const struct sl_job *job, void *arg), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	struct sl_job *const lists[] = {worker->held, worker->paused};

	if (worker->running && owned(worker->running, arg))
		atomic_store_explicit(&worker->running->unwanted, true, memory_order_relaxed);
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
	for (const struct sl_job *job = w->paused; job; job = job->next)
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
	struct lane *lane;

	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->closing = true;
	pthread_cond_signal(&worker->posted);
	while (!worker->over) /* until then there may be more of them */
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
