/* Long jobs that yield: which jobs run meanwhile, which do not, how they end, and that a pool's run
 * in pieces is complete. */
#include "tests/support/worker_probe.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/pool.h"

static struct sl_share mine, other, third;
static atomic_bool let_go, stopped;
static atomic_int pieces;

/* Yields repeatedly until it is released or unwanted. */
static void long_run(struct sl_job *job)
{
	sem_post(&gate_entered);
	while (!let_go && !sl_worker_unwanted()) {
		pieces++;
		sl_worker_turn();
	}
	stopped = sl_worker_unwanted();
	probe_run(job);
}

static struct probe long_probe(int id, struct sl_share *share)
{
	struct probe p = probe(id, 0);

	p.job.run = long_run;
	p.job.share = share;
	return p;
}

static struct probe short_probe(int id, struct sl_share *share)
{
	struct probe p = probe(id, 0);

	p.job.share = share;
	return p;
}

static int setup_turns(void **state)
{
	mine = other = third = (struct sl_share){0};
	let_go = stopped = false;
	pieces = 0;
	return setup(state);
}

static void begin(struct sl_worker *w, struct probe *p)
{
	sl_worker_post(w, &p->job);
	sem_wait(&gate_entered);
}

static void others_run_while_a_long_job_does(void **state)
{
	struct probe a = long_probe(1, &mine), own = short_probe(2, &mine), b = short_probe(3, &other);

	begin(*state, &a);
	sl_worker_post(*state, &own.job);
	sl_worker_post(*state, &b.job);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 3);
	assert_int_equal(own.ran, 0); /* no job of its own share starts */
	assert_false(sl_worker_idle(*state));
	let_go = true;
	drain_until(*state, 3);
	assert_int_equal(delivered_order[1], 1);
	assert_int_equal(delivered_order[2], 2);
	assert_true(sl_worker_idle(*state));
}

/* A job that no other waits for may use all the time. */
static void two_long_jobs_take_turns(void **state)
{
	struct probe a = long_probe(1, &mine), b = long_probe(2, &other), c = short_probe(3, &third);
	int before;

	begin(*state, &a);
	begin(*state, &b);
	before = pieces;
	for (int i = 0; i < 5; i++) {
		c.ran = 0;
		sl_worker_post(*state, &c.job);
		drain_until(*state, i + 1);
		assert_int_equal(c.ran, 1);
	}
	assert_true(pieces > before);
	let_go = true;
	drain_until(*state, 7);
	/* turns are measured by time, not by jobs */
	assert_true(mine.used_ns > 0 && other.used_ns > 0);
}

static void jobs_of_one_key_do_not_overlap(void **state)
{
	struct probe a = long_probe(1, &mine), b = short_probe(2, &other), c = short_probe(3, &third);

	a.job.key = b.job.key = 7;
	begin(*state, &a);
	sl_worker_post(*state, &b.job);
	sl_worker_post(*state, &c.job);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 3);
	assert_int_equal(b.ran, 0);
	let_go = true;
	drain_until(*state, 3);
	assert_int_equal(delivered_order[1], 1);
	assert_int_equal(delivered_order[2], 2);
}

static int is_that(const struct sl_job *job, void *that)
{
	return job == that;
}

/* A job yields to all others, except those that must find it finished. A forgotten job does not change that. */
static void what_goes_ahead_of_its_key_comes_first(void **state)
{
	struct probe a = long_probe(1, &mine), last = long_probe(2, &mine), open = short_probe(3, &other);
	struct probe c = short_probe(4, &third), gone = short_probe(5, &mine);

	last.job.ahead = gone.job.ahead = true;
	last.job.key = open.job.key = gone.job.key = 9;
	begin(*state, &a);
	sl_worker_post(*state, &gone.job);
	sl_worker_post(*state, &last.job);
	sl_worker_forget(*state, is_that, &gone.job);
	sl_worker_post(*state, &open.job);
	sl_worker_post(*state, &c.job);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 4);
	let_go = true;
	drain_until(*state, 4);
	assert_int_equal(delivered_order[1], 1);
	assert_int_equal(delivered_order[2], 2);
	assert_int_equal(delivered_order[3], 3);
}

/* As many jobs are held as can be, one of them of the share whose job yielded. That job continues
 * first, then the held ones. */
static void held_jobs_do_not_stop_who_gave_way(void **state)
{
	struct probe a = long_probe(1, &mine), c = short_probe(5, &third);
	struct held h[2] = {held(*state, 2, 0), held(*state, 3, 0)};

	sem_init(&entered, 0, 0);
	h[0].p.job.share = &mine;
	h[1].p.job.share = &other;
	sl_worker_post(*state, &h[0].p.job);
	sem_wait(&entered);
	begin(*state, &a);
	sl_worker_post(*state, &h[1].p.job);
	sem_wait(&entered);
	sl_worker_release(*state, &h[0].p.job);
	sl_worker_post(*state, &c.job);
	let_go = true;
	drain_until(*state, 2);
	assert_int_equal(delivered_order[0], 1);
	assert_int_equal(delivered_order[1], 2);
	sl_worker_release(*state, &h[1].p.job);
	drain_until(*state, 4);
}

static int is_long(const struct sl_job *job, void *arg)
{
	(void)arg;
	return ((const struct probe *)job)->id == 1;
}

static void the_unwanted_hear_of_it(void **state)
{
	struct probe a = long_probe(1, &mine), b = long_probe(2, &other);

	begin(*state, &a);
	begin(*state, &b); /* a has yielded */
	sl_worker_unwant(*state, is_long, NULL);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 1);
	assert_true(stopped);
	let_go = true;
	drain_until(*state, 2);
	assert_false(stopped);
	sl_worker_post(*state, &a.job); /* posted again it is wanted */
	drain_until(*state, 3);
	assert_false(stopped);
}

/* A block without an end: it stops only when nobody wants it. */
static void endless(void *arg, int64_t block, struct sl_pool_step *step)
{
	if (!step->at)
		sem_post(&gate_entered);
	for (int64_t at = step->at + 1; !sl_pool_stop(step, at); at++)
		pieces++;
}

static void endless_run(struct sl_job *job)
{
	struct sl_pool *pool;

	assert_int_equal(sl_pool_open(&pool, let_go ? 3 : 1, NULL), SL_OK);
	sl_pool_run_long(pool, 1 + 2 * let_go, endless, NULL);
	sl_pool_close(pool);
	stopped = sl_worker_unwanted();
	probe_run(job);
}

/* This holds without any waiting job, for one thread and for three. */
static void an_unwanted_block_ends_at_its_next_step(void **state)
{
	for (int threads = 1; threads <= 3; threads += 2) {
		struct probe a = probe(1, 0);

		let_go = threads == 3;
		stopped = false;
		a.job.run = endless_run;
		a.job.share = &mine;
		begin(*state, &a);
		sl_worker_unwant(*state, is_long, NULL);
		drain_until(*state, threads == 3 ? 2 : 1);
		assert_true(stopped);
	}
}

static void *let_go_soon(void *arg)
{
	(void)arg;
	nanosleep(&(struct timespec){0, 60000000}, NULL);
	let_go = true;
	return NULL;
}

static void cancel_waits_for_who_gave_way(void **state)
{
	struct probe a = long_probe(1, &mine), b = long_probe(2, &other);
	pthread_t opener;

	begin(*state, &a);
	begin(*state, &b);
	assert_int_equal(pthread_create(&opener, NULL, let_go_soon, NULL), 0);
	sl_worker_cancel(*state, is_long, NULL);
	assert_int_equal(a.ran, 1);
	pthread_join(opener, NULL);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 2);
}

static void close_waits_for_who_gave_way(void **state)
{
	struct probe a = long_probe(1, &mine), b = long_probe(2, &other);
	struct sl_worker *w;
	pthread_t opener;

	assert_int_equal(sl_worker_open(&w, "second", NULL, NULL, NULL), SL_OK);
	begin(w, &a);
	begin(w, &b);
	assert_int_equal(pthread_create(&opener, NULL, let_go_soon, NULL), 0);
	sl_worker_close(w);
	pthread_join(opener, NULL);
	assert_int_equal(a.ran + b.ran, 2);
}

static void a_job_that_gives_way_is_not_silent(void **state)
{
	struct probe a = long_probe(1, &mine);
	struct probe gate;

	begin(*state, &a);
	nanosleep(&(struct timespec){0, 60000000}, NULL);
	assert_in_range(sl_worker_had_ms(*state, &mine), 50, 100000);
	assert_in_range(sl_worker_busy_ms(*state), 50, 100000);
	assert_true(sl_worker_silent_ms(*state) < sl_worker_busy_ms(*state));
	let_go = true;
	drain_until(*state, 1);
	assert_int_equal(sl_worker_had_ms(*state, &mine), 0);
	post_gate(*state, &gate);
	nanosleep(&(struct timespec){0, 60000000}, NULL);
	assert_in_range(sl_worker_silent_ms(*state), 50, 100000);
	sem_post(&gate_open);
	drain_until(*state, 2);
}

/* ---- with a pool that both jobs use */

enum { BLOCKS = 3000, RUNS = 12 };

struct sums {
	struct sl_job job; /* must be the first member */
	struct sl_pool *pool;
	int hits[BLOCKS];
	int runs, done;
};

static void add_block(void *arg, int64_t block, int worker)
{
	struct sums *s = arg;
	uint64_t until = sl_now_ns() + 10000;

	(void)worker;
	while (sl_now_ns() < until)
		;
	s->hits[block]++;
}

static void sum_run(struct sl_job *job)
{
	struct sums *s = (struct sums *)job;

	for (int i = 0; i < s->runs; i++)
		sl_pool_run(s->pool, BLOCKS, add_block, s);
}

static void sum_done(struct sl_job *job)
{
	((struct sums *)job)->done = 1;
}

static void runs_of_a_pool_give_way_between_blocks(void **state)
{
	static const int threads[] = {1, 2, 3};

	for (int t = 0; t < 3; t++) {
		struct sums *s = calloc(2, sizeof *s);
		int shorts = 0;

		assert_int_equal(sl_pool_open(&s[0].pool, threads[t], NULL), SL_OK);
		s[1].pool = s[0].pool;
		for (int i = 0; i < 2; i++) {
			s[i].job = (struct sl_job){.run = sum_run, .done = sum_done, .share = i ? &other : &mine};
			s[i].runs = RUNS;
			sl_worker_post(*state, &s[i].job);
		}
		while (!s[0].done || !s[1].done) {
			struct probe p = short_probe(3, &third);
			int before = delivered_count = ran_count = 0;

			sl_worker_post(*state, &p.job);
			drain_until(*state, before + 1);
			shorts++;
		}
		for (int i = 0; i < 2; i++)
			for (int b = 0; b < BLOCKS; b++)
				assert_int_equal(s[i].hits[b], RUNS);
		assert_true(shorts > 3); /* otherwise a job waited for a whole run */
		sl_pool_close(s[0].pool);
		free(s);
	}
}

int main(void)
{
#define TURNS(f) cmocka_unit_test_setup_teardown(f, setup_turns, teardown)
	const struct CMUnitTest tests[] = {
		TURNS(others_run_while_a_long_job_does),
		TURNS(two_long_jobs_take_turns),
		TURNS(jobs_of_one_key_do_not_overlap),
		TURNS(what_goes_ahead_of_its_key_comes_first),
		TURNS(held_jobs_do_not_stop_who_gave_way),
		TURNS(the_unwanted_hear_of_it),
		TURNS(an_unwanted_block_ends_at_its_next_step),
		TURNS(cancel_waits_for_who_gave_way),
		TURNS(close_waits_for_who_gave_way),
		TURNS(a_job_that_gives_way_is_not_silent),
		TURNS(runs_of_a_pool_give_way_between_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
