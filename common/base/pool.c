/* Every thread has a contiguous share of the blocks, so that from kernel to kernel it finds its data in its own
 * caches. A thread that has finished its share helps the others.
 *
 * The atomic counter `unclaimed` of a share counts the blocks that no thread has claimed. The thread that takes it
 * from k > 0 to k - 1 owns the k-th block from the end of that share, in the current run. The run cannot end before
 * that block is done. So a thread may read `what` and the other fields of the run after its claim, and no thread
 * has to check in or out. The counter is tagged with the run's number, so that a thread that is still at an earlier
 * run claims nothing: it may first have to resume a block that it stopped.
 *
 * When the caller's job is to give way (worker.h), one thread takes all unclaimed blocks off the run, which then
 * ends early. The caller runs these blocks later. A block that stopped between two steps is resumed by the same
 * thread, whose scratch it uses. */
#include "common/base/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/worker.h"

/* How long an idle thread spins before it sleeps: longer than the serial gaps between two kernels, and much shorter
 * than a scheduler's time slice. So another process on the same cores loses next to nothing. */
enum { SPIN_NS = 20000, PAUSES_PER_LOOK = 32, CACHE_LINE = 64 };

/* A member that arrives later than late_ns found its CPU taken by other programs. For crowded_ns from then on,
 * members stay where they are woken. Each late arrival doubles crowded_ns, each one in time halves it. */
static const uint64_t late_ns = 500000, crowded_least_ns = 125000000, crowded_most_ns = 8000000000;

enum { ASLEEP = -1, NOWHERE = -1 }; /* special values of `place` and of `kept_off`, which are numbers of CPUs */

/* A block that stopped between two steps, and the step that is next. */
struct stopped {
	int64_t block, at;
	bool is;
};

/* What a run calls for each block: fn or long_fn. */
struct block_call {
	sl_pool_fn *fn;
	sl_pool_long_fn *long_fn;
	void *arg;
};

struct member {                                          /* member 0 is the caller */
	_Alignas(CACHE_LINE) _Atomic uint64_t unclaimed; /* `tagged`: unclaimed blocks of its share */
	int64_t end, left;        /* end of its share; blocks of it that a run left when it broke off */
	struct stopped stopped;   /* the block that it stopped in this run */
	_Atomic uint64_t goes_on; /* `tagged` 1: it must resume a block first */
	_Alignas(CACHE_LINE) struct sl_pool *pool;
	pthread_t thread;
	int worker;
	_Atomic int kept_off;     /* the CPU that `spread` keeps it off */
	_Atomic uint64_t sent_ns; /* when; 0: perhaps not woken by that run */
};

struct sl_pool {
	_Alignas(CACHE_LINE) _Atomic int64_t undone;
	_Atomic uint32_t finished; /* futex of the caller: 1 when undone reached 0 */
	_Atomic bool caller_sleeps;
	_Alignas(CACHE_LINE) _Atomic uint32_t runs; /* futex of the members: changes with every run */
	_Atomic int sleepers;
	_Atomic bool closing;
	_Alignas(CACHE_LINE) struct block_call what;
	int64_t blocks;
	struct sl_worker *turns; /* the worker whose job the caller runs, or NULL */
	int threads;
	uint64_t spin_ns;
	bool spreads;                                                /* there is a CPU for each thread */
	_Atomic uint64_t crowded_ns;                                 /* how long, after the next late member */
	_Atomic uint64_t crowded_until;                              /* members stay where they are woken until then */
	cpu_set_t allowed;                                           /* affinity of the thread that opened the pool */
	_Alignas(CACHE_LINE) _Atomic int place[SL_POOL_MAX_THREADS]; /* a member's last known CPU; seldom written */
	struct member members[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* The first block of a thread's share. worker == threads gives the end of the last share. */
static int64_t share_at(const struct sl_pool *pool, int64_t blocks, int worker)
{
	return blocks * worker / pool->threads;
}

/* Packs a number below 2^40 with the number of its run. */
static uint64_t tagged(int64_t n, uint32_t run)
{
	return (uint64_t)run << 40 | (uint64_t)n;
}

static int64_t untagged(uint64_t tagged)
{
	return (int64_t)(tagged & (((uint64_t)1 << 40) - 1));
}

/* Decrements *count if it belongs to this run and is above 0. Returns the value before, or 0. */
static int64_t claim(_Atomic uint64_t *count, uint32_t run)
{
	uint64_t seen = atomic_load_explicit(count, memory_order_relaxed);

	while (untagged(seen) > 0 && seen == tagged(untagged(seen), run))
		if (atomic_compare_exchange_weak_explicit(count, &seen, seen - 1, memory_order_acq_rel,
							  memory_order_relaxed))
			return untagged(seen);
	return 0;
}

/* Takes all unclaimed blocks off the run, which then ends with the blocks under way. Returns how many. */
static int64_t break_off(struct sl_pool *pool)
{
	int64_t taken = 0;

	for (int i = 0; i < pool->threads; i++) {
		int64_t k = untagged(atomic_exchange_explicit(&pool->members[i].unclaimed, 0, memory_order_acq_rel));

		if (k > 0) {
			pool->members[i].left = k;
			taken += k;
		}
	}
	return taken;
}

bool sl_pool_stop(struct sl_pool_step *step, int64_t next)
{
	if (!step->turns || !sl_worker_turn_due(step->turns))
		return false;
	step->at = next;
	step->stopped = true;
	return true;
}

/* Runs a block from step `at` on. Returns whether it stopped, and where. */
static struct stopped run_block(const struct block_call *what, int64_t block, int64_t at, int worker,
				struct sl_worker *turns)
{
	struct sl_pool_step step = {.worker = worker, .at = at, .turns = turns};

	if (what->long_fn)
		what->long_fn(what->arg, block, &step);
	else
		what->fn(what->arg, block, worker);
	return (struct stopped){block, step.at, step.stopped};
}

/* Runs a block by a member. Returns how many blocks leave the run: this one, and those that break_off took. */
static int64_t take_block(struct sl_pool *pool, int64_t block, int64_t at, int worker)
{
	struct stopped *s = &pool->members[worker].stopped;

	*s = run_block(&pool->what, block, at, worker, pool->turns);
	return 1 + (s->is || (pool->turns && sl_worker_turn_due(pool->turns)) ? break_off(pool) : 0);
}

/* Runs the blocks that it can claim of a share. Returns how many blocks left the run. */
static int64_t work_share(struct sl_pool *pool, int share, int worker, uint32_t run)
{
	int64_t done = 0, k;

	while ((k = claim(&pool->members[share].unclaimed, run)) > 0)
		done += take_block(pool, pool->members[share].end - k, 0, worker);
	return done;
}

/* Resumes this member's stopped block, then claims and runs blocks until none is left. */
static void work(struct sl_pool *pool, int worker, uint32_t run)
{
	struct member *m = &pool->members[worker];
	int64_t done = 0;

	if (claim(&m->goes_on, run) > 0)
		done += take_block(pool, m->stopped.block, m->stopped.at, worker);
	for (int i = 0; i < pool->threads; i++)
		done += work_share(pool, (worker + i) % pool->threads, worker, run);
	if (done > 0 && atomic_fetch_sub(&pool->undone, done) == done) {
		atomic_store(&pool->finished, 1);
		if (atomic_load(&pool->caller_sleeps))
			futex_wake(&pool->finished, 1);
	}
}

/* ---- a CPU for each thread
 *
 * Some schedulers wake a thread on the waker's CPU if that CPU has had little to do of late. Until they move it,
 * which takes as long as a whole pass, caller and members take turns on one CPU. So a run removes its own CPU from
 * the affinity of sleeping members before it wakes them. Once awake, a member may run anywhere: the scheduler must
 * be free to move it to an idle CPU. This does not help if other programs use all CPUs: then every run would wait
 * for a member that waits for its CPU. A race between caller and member costs the member one sleep at most. */

static void send_off(struct sl_pool *pool, struct member *m, int cpu, uint64_t now)
{
	cpu_set_t set = pool->allowed;

	CPU_CLR((unsigned)cpu, &set);
	atomic_store_explicit(&m->sent_ns, pool->blocks >= pool->threads ? now : 0, memory_order_relaxed);
	(void)pthread_setaffinity_np(m->thread, sizeof set, &set); /* if refused: slower, no worse */
	atomic_store_explicit(&m->kept_off, cpu, memory_order_release);
}

static void spread(struct sl_pool *pool)
{
	int cpu = sched_getcpu();
	uint64_t now = 0;

	if (!pool->spreads || cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	for (int i = 1; i < pool->threads; i++) {
		struct member *m = &pool->members[i];
		int at = atomic_load_explicit(&pool->place[i], memory_order_relaxed);

		if ((at != ASLEEP && at != cpu) || atomic_load_explicit(&m->kept_off, memory_order_relaxed) == cpu)
			continue;
		if (now == 0)
			now = sl_now_ns();
		if (now < atomic_load_explicit(&pool->crowded_until, memory_order_relaxed))
			return;
		send_off(pool, m, cpu, now);
	}
}

static void note_arrival(struct sl_pool *pool, uint64_t sent)
{
	uint64_t now = sl_now_ns(), ns = atomic_load_explicit(&pool->crowded_ns, memory_order_relaxed);

	if (now - sent > late_ns) {
		atomic_store_explicit(&pool->crowded_until, now + ns, memory_order_relaxed);
		ns = ns < crowded_most_ns ? 2 * ns : ns;
	} else if (ns > crowded_least_ns) {
		ns /= 2;
	}
	atomic_store_explicit(&pool->crowded_ns, ns, memory_order_relaxed);
}

/* A member that was woken notes its CPU, and takes back what send_off did to its affinity. */
static void settle(struct member *m)
{
	struct sl_pool *pool = m->pool;
	_Atomic int *place = &pool->place[m->worker];
	int cpu = sched_getcpu();
	uint64_t sent;

	if (atomic_load_explicit(place, memory_order_relaxed) != cpu)
		atomic_store_explicit(place, cpu, memory_order_relaxed);
	if (atomic_load_explicit(&m->kept_off, memory_order_acquire) == NOWHERE)
		return;
	sent = atomic_load_explicit(&m->sent_ns, memory_order_relaxed);
	if (sent != 0)
		note_arrival(pool, sent);
	atomic_store_explicit(&m->kept_off, NOWHERE, memory_order_relaxed);
	(void)sched_setaffinity(0, sizeof pool->allowed, &pool->allowed);
}

/* ---- members */

static bool spin_for_run(struct sl_pool *pool, uint32_t seen)
{
	uint64_t start = sl_now_ns();

	do {
		for (int i = 0; i < PAUSES_PER_LOOK; i++) {
			if (atomic_load_explicit(&pool->runs, memory_order_relaxed) != seen)
				return true;
			pause_cpu();
		}
	} while (sl_now_ns() - start < pool->spin_ns);
	return false;
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct sl_pool *pool = m->pool;
	uint32_t seen = 0;

	for (;;) {
		if (spin_for_run(pool, seen)) {
			seen = atomic_load(&pool->runs);
			if (atomic_load(&pool->closing))
				return NULL;
			if (pool->spreads)
				settle(m);
			work(pool, m->worker, seen);
			continue;
		}
		atomic_store_explicit(&pool->place[m->worker], ASLEEP, memory_order_relaxed);
		/* A member counts itself as a sleeper before its last look at `runs`; run_shares increments `runs`
		 * before it looks at `sleepers`. So one of the two sees the other. If a run begins in between,
		 * futex_wait returns at once. */
		atomic_fetch_add(&pool->sleepers, 1);
		if (atomic_load(&pool->runs) == seen)
			futex_wait(&pool->runs, seen);
		atomic_fetch_sub(&pool->sleepers, 1);
	}
}

static void wait_finished(struct sl_pool *pool)
{
	uint64_t start = sl_now_ns();

	do {
		for (int i = 0; i < PAUSES_PER_LOOK; i++) {
			if (atomic_load_explicit(&pool->finished, memory_order_acquire))
				return;
			pause_cpu();
		}
	} while (sl_now_ns() - start < pool->spin_ns);
	atomic_store(&pool->caller_sleeps, true);
	while (!atomic_load(&pool->finished))
		futex_wait(&pool->finished, 0);
	atomic_store(&pool->caller_sleeps, false);
}

struct rest {
	int64_t end, left;
	struct stopped stopped;
};

static int64_t left_of(const struct sl_pool *pool, const struct rest *share)
{
	int64_t blocks = 0;

	for (int i = 0; i < pool->threads; i++)
		blocks += share[i].left + share[i].stopped.is;
	return blocks;
}

/* One run over what is left of each share. */
static void run_shares(struct sl_pool *pool, struct rest *share, int64_t blocks, struct block_call what)
{
	const uint32_t run = atomic_load_explicit(&pool->runs, memory_order_relaxed) + 1;
	int wake = blocks - 1 < pool->threads - 1 ? (int)blocks - 1 : pool->threads - 1;

	pool->what = what;
	pool->blocks = blocks;
	pool->turns = sl_worker_here();
	atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
	atomic_store_explicit(&pool->undone, blocks, memory_order_relaxed);
	for (int i = 0; i < pool->threads; i++) {
		struct member *m = &pool->members[i];

		m->end = share[i].end;
		m->left = 0;
		m->stopped = share[i].stopped;
		m->stopped.is = false;
		if (share[i].stopped.is)
			wake = pool->threads - 1; /* only this member can resume its block */
		atomic_store_explicit(&m->goes_on, tagged(share[i].stopped.is, run), memory_order_release);
		atomic_store_explicit(&m->unclaimed, tagged(share[i].left, run), memory_order_release);
	}
	atomic_fetch_add(&pool->runs, 1);
	spread(pool);
	if (atomic_load(&pool->sleepers) > 0)
		futex_wake(&pool->runs, wake);
	work(pool, 0, run);
	wait_finished(pool);
	for (int i = 0; i < pool->threads; i++) {
		share[i].left = pool->members[i].left;
		share[i].stopped = pool->members[i].stopped;
	}
}

static void run_here(int64_t blocks, struct block_call what)
{
	struct sl_worker *turns = sl_worker_here();

	for (int64_t i = 0; i < blocks; i++) {
		struct stopped s = {i, 0, true};

		while (s.is) {
			s = run_block(&what, i, s.at, 0, turns);
			if (turns && (s.is || sl_worker_turn_due(turns)))
				sl_worker_turn();
			if (s.is && sl_worker_unwanted())
				return;
		}
	}
}

static void run(struct sl_pool *pool, int64_t blocks, struct block_call what)
{
	struct rest share[SL_POOL_MAX_THREADS];

	sl_worker_turn();
	if (!pool || pool->threads == 1 || blocks <= 1) {
		run_here(blocks, what);
		return;
	}
	for (int i = 0; i < pool->threads; i++) {
		int64_t end = share_at(pool, blocks, i + 1);

		share[i] = (struct rest){.end = end, .left = end - share_at(pool, blocks, i)};
	}
	for (;;) {
		run_shares(pool, share, blocks, what);
		blocks = left_of(pool, share);
		if (blocks == 0)
			return;
		sl_worker_turn();
		if (what.long_fn && sl_worker_unwanted())
			return;
	}
}

void sl_pool_run(struct sl_pool *pool, int64_t blocks, sl_pool_fn *fn, void *arg)
{
	run(pool, blocks, (struct block_call){.fn = fn, .arg = arg});
}

void sl_pool_run_long(struct sl_pool *pool, int64_t blocks, sl_pool_long_fn *fn, void *arg)
{
	run(pool, blocks, (struct block_call){.long_fn = fn, .arg = arg});
}

static int usable_cpus(cpu_set_t *set)
{
	if (sched_getaffinity(0, sizeof *set, set) == 0 && CPU_COUNT(set) > 0)
		return CPU_COUNT(set);
	return 1;
}

enum sl_err sl_pool_open(struct sl_pool **out, int threads, struct sl_fail *fail)
{
	struct sl_pool *pool;
	cpu_set_t allowed;
	int cpus = usable_cpus(&allowed), rc;

	if (threads < 0 || threads > SL_POOL_MAX_THREADS)
		return sl_fail_set(fail, SL_ERR_USAGE, "%d threads: 0 (all CPUs) to %d are possible", threads,
				   SL_POOL_MAX_THREADS);
	if (threads == 0)
		threads = cpus < SL_POOL_MAX_THREADS ? cpus : SL_POOL_MAX_THREADS;
	size_t bytes = sizeof *pool + (size_t)threads * sizeof pool->members[0];
	pool = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	if (!pool)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a pool of %d threads", threads);
	memset(pool, 0, bytes);
	pool->threads = 1;
	/* With more threads than CPUs, a thread that spins keeps off the CPU the one that it waits for. */
	pool->spreads = threads > 1 && threads <= cpus;
	pool->spin_ns = threads <= cpus ? SPIN_NS : 0;
	pool->crowded_ns = crowded_least_ns;
	pool->allowed = allowed;
	for (int i = 1; i < threads; i++) {
		struct member *m = &pool->members[i];

		*m = (struct member){.pool = pool, .worker = i, .kept_off = NOWHERE};
		pool->place[i] = ASLEEP;
		rc = pthread_create(&m->thread, NULL, member_main, m);
		if (rc != 0) {
			sl_pool_close(pool);
			return sl_fail_set(fail, SL_ERR_OS, "cannot start thread %d of a pool of %d: %s", i, threads,
					   strerror(rc));
		}
		pool->threads = i + 1;
	}
	*out = pool;
	return SL_OK;
}

void sl_pool_close(struct sl_pool *pool)
{
	if (!pool)
		return;
	atomic_store(&pool->closing, true);
	atomic_fetch_add(&pool->runs, 1);
	futex_wake(&pool->runs, SL_POOL_MAX_THREADS);
	for (int i = 1; i < pool->threads; i++)
		pthread_join(pool->members[i].thread, NULL);
	free(pool);
}

int sl_pool_threads(const struct sl_pool *pool)
{
	return pool ? pool->threads : 1;
}
