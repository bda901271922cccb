#include "common/base/worker_turns.h"

#include "common/base/clock.h"

/* How long a job runs before it gives way to a job of another share. */
static const uint64_t slice_ns = 20000000;

struct sl_share *sl_turns_share(struct sl_worker *w, const struct sl_job *job)
{
	return job->share ? job->share : &w->own;
}

/* Whether a job that is held or gave way has this key. */
static bool key_in_use(const struct sl_worker *w, uint64_t key)
{
	const struct sl_job *lists[] = {w->held, w->paused};

	for (int i = 0; i < 2 && key; i++)
		for (const struct sl_job *job = lists[i]; job; job = job->next)
			if (job->key == key)
				return true;
	return false;
}

/* Whether the job must wait for another job of its key: one under way, or an expedited one in the queue. */
static bool waits_for_key(const struct sl_worker *w, const struct sl_job *job)
{
	const struct sl_job *other = w->queue;

	for (int left = job->key && !job->ahead ? w->queued_ahead : 0; left; other = other->next) {
		if (other->ahead && other->key == job->key)
			return true;
		left -= other->ahead;
	}
	return key_in_use(w, job->key);
}

/* Whether a queued job may begin. Jobs of one share begin in order, and none begins while one of them has given
 * way. Such shares, and those whose first job waits for its key, are marked with the number of this scan. */
static bool may_begin(struct sl_worker *w, const struct sl_job *job)
{
	struct sl_share *share = sl_turns_share(w, job);

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
		sl_turns_share(w, job)->scan = w->scans;
}

/* The first job of the first share that has an expedited job and may begin. NULL: there is none. */
static struct sl_job **first_ahead(struct sl_worker *w)
{
	const struct sl_job *ahead = w->queue;

	for (int left = w->queued_ahead; left; ahead = ahead->next) {
		struct sl_job **at = &w->queue;

		left -= ahead->ahead;
		if (!ahead->ahead || sl_turns_share(w, ahead)->scan == w->scans)
			continue;
		while (sl_turns_share(w, *at) != sl_turns_share(w, ahead))
			at = &(*at)->next;
		if (!key_in_use(w, (*at)->key))
			return at;
	}
	return NULL;
}

/* The link to the next job: in the queue, if `open_one` says that a job may begin, or among those that gave way.
 * NULL: none may run. The share with the least time comes first; among equal shares, the earlier job of the queue. */
static struct sl_job **next_of(struct sl_worker *w, bool open_one)
{
	struct sl_job **best;

	begin_scan(w);
	best = open_one ? first_ahead(w) : NULL;
	if (best)
		return best;
	for (struct sl_job **at = &w->queue; *at && open_one; at = &(*at)->next)
		if (may_begin(w, *at) && (!best || sl_turns_share(w, *at)->used_ns < sl_turns_share(w, *best)->used_ns))
			best = at;
	for (struct sl_job **at = &w->paused; *at; at = &(*at)->next)
		if (!best || sl_turns_share(w, *at)->used_ns < sl_turns_share(w, *best)->used_ns)
			best = at;
	return best;
}

static bool has_work(struct sl_worker *w, const struct sl_share *share)
{
	const struct sl_job *lists[] = {w->queue, w->held, w->paused};

	if (w->running && sl_turns_share(w, w->running) == share)
		return true;
	for (int i = 0; i < 3; i++)
		for (const struct sl_job *job = lists[i]; job; job = job->next)
			if (sl_turns_share(w, job) == share)
				return true;
	return false;
}

bool sl_turns_idle(const struct sl_worker *w)
{
	return !w->running && !w->held && !w->queue && !w->paused;
}

/* When the worker was idle all shares become equal: what one had alone took nothing from the others. */
void sl_turns_come_back(struct sl_worker *w, struct sl_share *share)
{
	if (sl_turns_idle(w))
		w->served_ns = w->most_ns;
	if (share->used_ns < w->served_ns && !has_work(w, share))
		share->used_ns = w->served_ns;
}

static _Thread_local uint64_t thread_had_ns; /* of a processor, when the slice went on on this thread */

void sl_turns_thread_begins(const struct sl_worker *w)
{
	if (w->charges_cpu)
		thread_had_ns = sl_thread_cpu_ns();
}

/* The charge begins where the slice began, but not before the last job ended: of two jobs on a device, the second
 * one's time begins there. With charges_cpu it is what the thread had of a processor. */
void sl_turns_charge(struct sl_worker *w, struct sl_job *job)
{
	uint64_t now = sl_now_ns(), from = job->slice_ns > w->ended_ns ? job->slice_ns : w->ended_ns;
	uint64_t due = atomic_load_explicit(&w->slice_end_ns, memory_order_relaxed);
	struct sl_share *share = sl_turns_share(w, job);
	const uint64_t cpu_ns = w->charges_cpu ? sl_thread_cpu_ns() - thread_had_ns : UINT64_MAX;
	const uint64_t had = cpu_ns < now - from ? cpu_ns : now - from;

	share->used_ns += had;
	job->had_ns += had;
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

bool sl_turns_full(const struct sl_worker *w)
{
	return w->held_count == SL_WORKER_HELD || holds_ahead(w);
}

void sl_turns_note_wanted(struct sl_worker *w)
{
	bool was = atomic_load_explicit(&w->wanted, memory_order_relaxed), is = w->queue || w->paused || w->held;

	if (is && !was)
		w->wanted_ns = sl_now_ns();
	atomic_store_explicit(&w->wanted, is, memory_order_relaxed);
}

void sl_turns_begin(struct sl_worker *w, struct sl_job *job)
{
	job->slice_ns = sl_now_ns();
	atomic_store_explicit(&w->slice_end_ns, job->slice_ns + slice_ns, memory_order_relaxed);
	atomic_store_explicit(&w->sign_ns, job->slice_ns, memory_order_relaxed);
	w->running = job;
	sl_turns_note_wanted(w);
}

static bool paused(struct sl_worker *w, const struct sl_share *share)
{
	for (const struct sl_job *job = w->paused; job; job = job->next)
		if (sl_turns_share(w, job) == share)
			return true;
	return false;
}

/* Takes the first held job whose share has no job that gave way, if it was released. */
static struct sl_job *take_held(struct sl_worker *w)
{
	struct sl_job **at = &w->held, *job;

	while (*at && paused(w, sl_turns_share(w, *at)))
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

/* A released job goes first; then the queue and the jobs that gave way. */
struct sl_job *sl_turns_take(struct sl_worker *w)
{
	struct sl_job *job = take_held(w), **at;

	if (job) {
		uint64_t began_ns = job->slice_ns;

		sl_turns_begin(w, job);
		job->slice_ns = began_ns; /* the device's work on it since then is its time, too */
		return job;
	}
	at = next_of(w, !w->closing && !sl_turns_full(w));
	if (!at)
		return NULL;
	job = *at;
	*at = job->next;
	if (sl_turns_share(w, job)->used_ns > w->served_ns) /* not if the share lags because a job of it was held */
		w->served_ns = sl_turns_share(w, job)->used_ns;
	if (!job->lane) {
		w->queued_ahead -= job->ahead;
		job->began_ns = sl_now_ns();
		job->had_ns = 0;
	}
	sl_turns_begin(w, job);
	return job;
}
