/* The worker: order by priority and then by submission, delivery on the draining thread, and
 * cancelling in each state of a job. */
#include "tests/support/worker_probe.h"

static void runs_by_priority_then_submission(void **state)
{
	static const int priorities[] = {5, 1, 5, 0, 1, -3, 5};
	static const int expect[] = {0, 6, 4, 2, 5, 1, 3, 7};
	struct probe gate, p[7];

	post_gate(*state, &gate);
	for (int i = 0; i < 7; i++) {
		p[i] = probe(i + 1, priorities[i]);
		sl_worker_post(*state, &p[i].job);
	}
	sem_post(&gate_open);
	drain_until(*state, 8);
	assert_memory_equal(order, expect, sizeof expect);
	assert_memory_equal(delivered_order, expect, sizeof expect);
}

static void done_waits_for_drain(void **state)
{
	struct probe p = probe(1, 0);

	sl_worker_post(*state, &p.job);
	sem_wait(&woken);
	assert_int_equal(p.delivered, 0);
	sl_worker_drain(*state);
	assert_int_equal(p.delivered, 1);
	sl_worker_drain(*state);
	assert_int_equal(p.delivered, 1);
}

static int is_odd(const struct sl_job *job, void *arg)
{
	(void)arg;
	return ((const struct probe *)job)->id % 2;
}

static void cancel_forgets_queued(void **state)
{
	struct probe gate, p[6];

	post_gate(*state, &gate);
	for (int i = 0; i < 6; i++) {
		p[i] = probe(i + 1, 0);
		sl_worker_post(*state, &p[i].job);
	}
	sl_worker_cancel(*state, is_odd, NULL); /* the gate (number 0) is not matched: cancel must not wait for it */
	sem_post(&gate_open);
	drain_until(*state, 4);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(p[i].ran, (i + 1) % 2 == 0);
		assert_int_equal(p[i].delivered, (i + 1) % 2 == 0);
	}
}

static void forget_waits_for_none(void **state)
{
	struct probe gate, later = probe(9, 0);

	post_gate(*state, &gate);
	sl_worker_post(*state, &later.job);
	sl_worker_forget(*state, is_any, NULL); /* the gate keeps running, and is delivered */
	sem_post(&gate_open);
	drain_until(*state, 1);
	assert_int_equal(later.ran, 0);
}

static void *open_gate_soon(void *arg)
{
	(void)arg;
	nanosleep(&(struct timespec){0, 20000000}, NULL);
	sem_post(&gate_open);
	return NULL;
}

static void cancel_waits_for_the_running(void **state)
{
	struct probe gate, later = probe(9, 0);
	pthread_t opener;

	post_gate(*state, &gate);
	assert_int_equal(pthread_create(&opener, NULL, open_gate_soon, NULL), 0);
	sl_worker_cancel(*state, is_any, NULL);
	assert_int_equal(gate.ran, 1);
	memset(&gate, 0xee, sizeof gate); /* its owner may free it now */
	pthread_join(opener, NULL);
	sl_worker_post(*state, &later.job);
	drain_until(*state, 1);
	assert_int_equal(delivered_order[0], 9);
}

static void cancel_forgets_finished(void **state)
{
	struct probe p[3];

	for (int i = 0; i < 3; i++) {
		p[i] = probe(i + 1, 0);
		sl_worker_post(*state, &p[i].job);
	}
	for (int i = 0; i < 3; i++)
		sem_wait(&woken);
	sl_worker_cancel(*state, is_odd, NULL);
	sl_worker_drain(*state);
	assert_int_equal(delivered_count, 1);
	assert_int_equal(delivered_order[0], 2);
	struct probe next = probe(4, 0); /* the tail of the list is intact */
	sl_worker_post(*state, &next.job);
	drain_until(*state, 2);
	assert_int_equal(delivered_order[1], 4);
}

static struct sl_worker *reposting;
static struct probe second;

static void done_posts_another(struct sl_job *job)
{
	probe_done(job);
	second = probe(2, 0);
	sl_worker_post(reposting, &second.job);
}

static void done_may_post(void **state)
{
	struct probe first = probe(1, 0);

	reposting = *state;
	first.job.done = done_posts_another;
	sl_worker_post(*state, &first.job);
	drain_until(*state, 2);
	assert_int_equal(second.delivered, 1);
}

static void busy_says_how_long_a_job_has_run(void **state)
{
	const struct timespec moment = {0, 30000000};
	struct sl_worker *w = *state;
	struct probe gate, after = probe(1, 0);

	assert_int_equal(sl_worker_busy_ms(w), 0);
	assert_true(sl_worker_idle(w));
	post_gate(w, &gate);
	assert_false(sl_worker_idle(w));
	nanosleep(&moment, NULL);
	assert_in_range(sl_worker_busy_ms(w), 29, 10000);
	sem_post(&gate_open);
	sl_worker_post(w, &after.job);
	drain_until(w, 2);
	assert_int_equal(sl_worker_busy_ms(w), 0);
	assert_true(sl_worker_idle(w));
}

/* ---- jobs that are held */

static void others_run_while_jobs_are_held(void **state)
{
	static const int expect[] = {0, 4, 3, 1, 2, 5};
	struct held a = held(*state, 1, 0), b = held(*state, 2, 0);
	struct probe gate, more[3] = {probe(3, 0), probe(4, -1), probe(5, 0)};

	sem_init(&entered, 0, 0);
	sl_worker_post(*state, &a.p.job);
	sem_wait(&entered);
	post_gate(*state, &gate);
	for (int i = 0; i < 2; i++)
		sl_worker_post(*state, &more[i].job);
	sl_worker_post(*state, &b.p.job);
	sl_worker_post(*state, &more[2].job);
	sem_post(&gate_open);
	sem_wait(&entered);
	drain_until(*state, 3);
	/* two jobs are held: queued jobs wait */
	assert_false(sl_worker_idle(*state));
	assert_int_equal(more[2].ran, 0);
	/* delivered in the order of holding, whichever is released first */
	sl_worker_release(*state, &b.p.job);
	assert_int_equal(sl_worker_idle(*state), false);
	sl_worker_release(*state, &a.p.job);
	drain_until(*state, 6);
	assert_memory_equal(order, expect, sizeof expect);
	assert_true(sl_worker_idle(*state));
	assert_int_equal(sl_worker_busy_ms(*state), 0);
}

/* A job that goes ahead of others is finished before them, even if it is held. */
static void nobody_passes_who_goes_ahead(void **state)
{
	const struct timespec moment = {0, 30000000};
	static const int expect[] = {1, 2};
	struct held a = held(*state, 1, 9);
	struct probe p = probe(2, 0);

	sem_init(&entered, 0, 0);
	a.p.job.ahead = true;
	sl_worker_post(*state, &a.p.job);
	sem_wait(&entered);
	sl_worker_post(*state, &p.job);
	nanosleep(&moment, NULL);
	sl_worker_release(*state, &a.p.job);
	drain_until(*state, 2);
	assert_memory_equal(order, expect, sizeof expect);
}

static void a_job_may_be_released_before_it_is_held(void **state)
{
	struct held a = held(*state, 1, 0);

	sem_init(&entered, 0, 0);
	a.at_once = true;
	sl_worker_post(*state, &a.p.job);
	drain_until(*state, 1);
	assert_int_equal(a.p.ran, 1);
	assert_int_equal(a.p.delivered, 1);
}

static void held_jobs_count_as_busy(void **state)
{
	const struct timespec moment = {0, 30000000};
	struct held a = held(*state, 1, 0);
	struct probe p = probe(2, 0);

	sem_init(&entered, 0, 0);
	sl_worker_post(*state, &a.p.job);
	sem_wait(&entered);
	nanosleep(&moment, NULL);
	sl_worker_post(*state, &p.job);
	drain_until(*state, 1);
	assert_in_range(sl_worker_busy_ms(*state), 29, 10000);
	sl_worker_release(*state, &a.p.job);
	drain_until(*state, 2);
}

static void *release_soon(void *arg)
{
	const struct timespec moment = {0, 20000000};
	struct held *h = arg;

	nanosleep(&moment, NULL);
	sl_worker_release(h->worker, &h->p.job);
	return NULL;
}

static void cancel_waits_for_held_jobs(void **state)
{
	struct held a = held(*state, 1, 0);
	pthread_t releaser;

	sem_init(&entered, 0, 0);
	sl_worker_post(*state, &a.p.job);
	sem_wait(&entered);
	assert_int_equal(pthread_create(&releaser, NULL, release_soon, &a), 0);
	sl_worker_cancel(*state, is_odd, NULL);
	assert_int_equal(a.p.ran, 1);
	sl_worker_drain(*state);
	assert_int_equal(a.p.delivered, 0);
	pthread_join(releaser, NULL);
	assert_true(sl_worker_idle(*state));
}

static void close_waits_for_held_jobs(void **state)
{
	struct sl_worker *w;
	struct held a;
	pthread_t releaser;

	sem_init(&entered, 0, 0);
	assert_int_equal(sl_worker_open(&w, "second", NULL, NULL, NULL), SL_OK);
	a = held(w, 1, 0);
	sl_worker_post(w, &a.p.job);
	sem_wait(&entered);
	assert_int_equal(pthread_create(&releaser, NULL, release_soon, &a), 0);
	sl_worker_close(w);
	pthread_join(releaser, NULL);
	assert_int_equal(a.p.ran, 1);
}

static void close_forgets_the_queue(void **state)
{
	struct probe gate, p = probe(1, 0);
	struct sl_worker *w;
	pthread_t opener;

	assert_int_equal(sl_worker_open(&w, "second", NULL, NULL, NULL), SL_OK);
	post_gate(w, &gate);
	sl_worker_post(w, &p.job);
	assert_int_equal(pthread_create(&opener, NULL, open_gate_soon, NULL), 0);
	sl_worker_close(w);
	pthread_join(opener, NULL);
	assert_int_equal(gate.ran, 1);
	assert_int_equal(p.ran, 0);
	assert_int_equal(gate.delivered, 0);
	sl_worker_close(NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(runs_by_priority_then_submission),
		CASE(done_waits_for_drain),
		CASE(cancel_forgets_queued),
		CASE(forget_waits_for_none),
		CASE(cancel_waits_for_the_running),
		CASE(cancel_forgets_finished),
		CASE(done_may_post),
		CASE(others_run_while_jobs_are_held),
		CASE(nobody_passes_who_goes_ahead),
		CASE(a_job_may_be_released_before_it_is_held),
		CASE(held_jobs_count_as_busy),
		CASE(cancel_waits_for_held_jobs),
		CASE(close_waits_for_held_jobs),
		CASE(close_forgets_the_queue),
		CASE(busy_says_how_long_a_job_has_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
