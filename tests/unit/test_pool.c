/* The pool runs every block exactly once, for many counts of blocks and threads. Runs follow each other at once and
 * after pauses, so that members are met spinning, falling asleep and asleep. Two pools share the same cores. */
#include <stdbool.h>
#include <time.h>

#include <pthread.h>
#include <sched.h>

#include "common/base/pool.h"
#include "tests/support/unit.h"

enum { MAX_BLOCKS = 5000 };

struct tally {
	int hits[MAX_BLOCKS]; /* not atomic: the end of a run must order them, or the thread sanitizer reports it */
	int by_worker[SL_POOL_MAX_THREADS];
	int threads;
	int bad_worker;
};

static void tally_block(void *arg, int64_t block, int worker)
{
	struct tally *t = arg;

	t->hits[block]++;
	if (worker < 0 || worker >= t->threads)
		t->bad_worker = 1;
	else
		t->by_worker[worker]++;
}

static void check_run(struct sl_pool *pool, struct tally *t, int64_t blocks)
{
	int sum = 0;

	memset(t, 0, sizeof *t);
	t->threads = sl_pool_threads(pool);
	sl_pool_run(pool, blocks, tally_block, t);
	assert_int_equal(t->bad_worker, 0);
	for (int64_t i = 0; i < MAX_BLOCKS; i++)
		assert_int_equal(t->hits[i], i < blocks);
	for (int i = 0; i < t->threads; i++)
		sum += t->by_worker[i];
	assert_int_equal(sum, blocks);
}

static void every_block_once(void **state)
{
	static const int threads[] = {1, 2, 3, 4, 7, 16};
	static const int64_t blocks[] = {0, 1, 2, 3, 5, 16, 17, 100, 1001, MAX_BLOCKS};
	struct tally *t = malloc(sizeof *t);

	assert_non_null(t);
	for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
		struct sl_pool *pool;

		assert_int_equal(sl_pool_open(&pool, threads[i], NULL), SL_OK);
		assert_int_equal(sl_pool_threads(pool), threads[i]);
		for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++)
			for (int repeat = 0; repeat < 20; repeat++)
				check_run(pool, t, blocks[j]);
		sl_pool_close(pool);
	}
	free(t);
}

static void no_pool_runs_in_the_caller(void **state)
{
	struct tally *t = malloc(sizeof *t);

	assert_non_null(t);
	assert_int_equal(sl_pool_threads(NULL), 1);
	check_run(NULL, t, 77);
	assert_int_equal(t->by_worker[0], 77);
	free(t);
}

struct sum {
	int64_t partial[64];
	int64_t step;
};

static void sum_block(void *arg, int64_t block, int worker)
{
	struct sum *s = arg;
	(void)worker;

	s->partial[block] = block * s->step + 1;
}

static int run_many(struct sl_pool *pool, int runs, bool pauses)
{
	struct sum s;

	for (int i = 0; i < runs; i++) {
		int64_t blocks = 2 + i % 63, total = 0;

		s.step = i;
		sl_pool_run(pool, blocks, sum_block, &s);
		for (int64_t b = 0; b < blocks; b++)
			total += s.partial[b];
		if (total != blocks * (blocks - 1) / 2 * i + blocks)
			return -1;
		if (pauses) /* 0 … 63 us: around the time after which members fall asleep */
			nanosleep(&(struct timespec){0, (i * 37 % 64) * 1000}, NULL);
	}
	return 0;
}

static void stress_back_to_back(void **state)
{
	struct sl_pool *pool;

	assert_int_equal(sl_pool_open(&pool, 4, NULL), SL_OK);
	assert_int_equal(run_many(pool, 20000, false), 0);
	sl_pool_close(pool);
	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(run_many(pool, 50000, false), 0);
	sl_pool_close(pool);
}

static void stress_with_pauses(void **state)
{
	struct sl_pool *pool;

	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(run_many(pool, 4000, true), 0);
	sl_pool_close(pool);
}

static void *other_pool(void *arg)
{
	struct sl_pool *pool;
	(void)arg;

	if (sl_pool_open(&pool, 2, NULL) != SL_OK)
		return (void *)-1;
	int bad = run_many(pool, 10000, false) || run_many(pool, 1000, true);
	sl_pool_close(pool);
	return bad ? (void *)-1 : NULL;
}

static void two_pools_share_the_cores(void **state)
{
	pthread_t thread[2];
	void *rc;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, other_pool, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], &rc), 0);
		assert_null(rc);
	}
}

static void idle_pool_uses_no_time(void **state)
{
	struct timespec before, after;
	struct sl_pool *pool;
	struct sum s = {.step = 1};

	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	sl_pool_run(pool, 64, sum_block, &s);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	nanosleep(&(struct timespec){0, 300000000}, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	sl_pool_close(pool);
	double used = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
	assert_true(used < 0.05);
}

struct masks {
	cpu_set_t allowed;
	int seen, whole; /* written by worker 1 only */
};

static void mask_block(void *arg, int64_t block, int worker)
{
	const struct timespec a_while = {0, 20000};
	struct masks *m = arg;
	cpu_set_t now;
	(void)block;

	if (worker == 1 && sched_getaffinity(0, sizeof now, &now) == 0) {
		m->seen++;
		m->whole += CPU_EQUAL(&now, &m->allowed);
	}
	nanosleep(&a_while, NULL); /* so that the other worker gets blocks, too */
}

/* A sleeping member is kept off the caller's CPU. Once it runs, it may use every CPU again. */
static void members_may_run_anywhere(void **state)
{
	struct masks m = {.seen = 0};
	struct sl_pool *pool;

	assert_int_equal(sched_getaffinity(0, sizeof m.allowed, &m.allowed), 0);
	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	for (int i = 0; i < 200 || m.seen < 100; i++) { /* a busy machine may keep worker 1 away for long */
		sl_pool_run(pool, 8, mask_block, &m);
		nanosleep(&(struct timespec){0, (i % 2) * 100000}, NULL); /* worker 1 falls asleep every other time */
	}
	sl_pool_close(pool);
	assert_true(m.whole > m.seen / 2); /* a race may restrict the worker for one more sleep */
}

static void wrong_thread_counts_are_refused(void **state)
{
	struct sl_fail fail;
	struct sl_pool *pool = NULL;

	assert_int_equal(sl_pool_open(&pool, -1, &fail), SL_ERR_USAGE);
	assert_int_equal(sl_pool_open(&pool, SL_POOL_MAX_THREADS + 1, &fail), SL_ERR_USAGE);
	assert_null(pool);
	assert_int_equal(sl_pool_open(&pool, 0, &fail), SL_OK);
	assert_true(sl_pool_threads(pool) >= 1);
	sl_pool_close(pool);
	sl_pool_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_block_once),          cmocka_unit_test(no_pool_runs_in_the_caller),
		cmocka_unit_test(stress_back_to_back),       cmocka_unit_test(stress_with_pauses),
		cmocka_unit_test(two_pools_share_the_cores), cmocka_unit_test(idle_pool_uses_no_time),
		cmocka_unit_test(members_may_run_anywhere),  cmocka_unit_test(wrong_thread_counts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
