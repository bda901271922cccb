/* Shares of a worker's time: which job is next, how long others wait, and which time does not count. */
#include <sched.h>

#include "common/base/clock.h"
#include "tests/support/worker_probe.h"

enum { OWNERS = 4, MEETINGS = 20, EACH = 8, LIGHT = OWNERS };

/* A job that is queued again at once until `stop`: its owner never runs out of urgent work. */
struct busy {
	struct sl_job job; /* must be the first member */
	struct sl_worker *worker;
	struct timespec length;
	int owner;
};

static struct sl_share shares[OWNERS + 1];
static _Atomic int stop, jobs_of_others;
static struct busy busy[OWNERS][EACH];
static int waited_for[MEETINGS], meetings;
static sem_t met;
static pthread_t spinner;
static uint64_t taken_ns, lasted_ns;

static void busy_run(struct sl_job *job)
{
	struct busy *b = (struct busy *)job;

	nanosleep(&b->length, NULL);
	jobs_of_others++;
}

/* Runs on the draining thread. At least EACH - 1 jobs of the owner stay queued. */
static void busy_again(struct sl_job *job)
{
	struct busy *b = (struct busy *)job;

	if (!stop)
		sl_worker_post(b->worker, &b->job);
}

static void light_run(struct sl_job *job)
{
	(void)job;
	waited_for[meetings++] = jobs_of_others;
}

/* Not in the job's run: it is posted again next, and until now it belongs to the worker. */
static void light_done(struct sl_job *job)
{
	(void)job;
	sem_post(&met);
}

static void start_busy(struct sl_worker *w, int owner, int each, int priority, long job_ns)
{
	for (int i = 0; i < each; i++) {
		busy[owner][i] = (struct busy){
			.job = {.run = busy_run, .done = busy_again, .priority = priority, .share = &shares[owner]},
			.worker = w,
			.length = {0, job_ns},
			.owner = owner};
		sl_worker_post(w, &busy[owner][i].job);
	}
}

static int setup_shares(void **state)
{
	memset(shares, 0, sizeof shares);
	stop = jobs_of_others = meetings = 0;
	sem_init(&met, 0, 0);
	return setup(state);
}

/* Four owners have full queues of more urgent work. A fifth waits for at most one job of each, and
 * for the running one. */
static void nobody_starves(void **state)
{
	struct sl_job light = {.run = light_run, .done = light_done, .priority = 9, .share = &shares[LIGHT]};
	struct sl_worker *w = *state;
	int before[MEETINGS];

	for (int owner = 0; owner < OWNERS; owner++)
		start_busy(w, owner, EACH, owner % 2, 200000);
	for (int i = 0; i < MEETINGS; i++) {
		sl_worker_post(w, &light);
		before[i] = jobs_of_others; /* read after the post: this thread may be preempted between the two */
		while (sem_trywait(&met))
			sl_worker_drain(w);
		shares[LIGHT].used_ns = 0; /* its job does nothing: the time that it took is that of a busy machine */
	}
	stop = 1;
	sl_worker_cancel(w, is_any, NULL);
	for (int i = 0; i < MEETINGS; i++)
		assert_true(waited_for[i] - before[i] <= OWNERS + 1);
}

/* Eight long jobs and two short ones get equal time. An owner that comes late has no credit. */
static void shares_are_of_time(void **state)
{
	struct sl_worker *w = *state;

	start_busy(w, 0, EACH, 1, 2000000);
	start_busy(w, 1, EACH, 2, 300000);
	while (jobs_of_others < 100)
		sl_worker_drain(w);
	start_busy(w, 2, EACH, 0, 300000);
	while (jobs_of_others < 800)
		sl_worker_drain(w);
	stop = 1;
	sl_worker_cancel(w, is_any, NULL);
	/* by order of submission the ratio would be one to seven; queues run empty if a busy
	 * machine stops this thread */
	assert_true(shares[0].used_ns > 20000000);
	assert_in_range(shares[1].used_ns, shares[0].used_ns / 2, shares[0].used_ns * 2);
	assert_in_range(shares[2].used_ns, shares[0].used_ns / 2, shares[0].used_ns * 2);
}

/* With equal shares, and within a share, urgent jobs run first. */
static void within_a_share_order_is_by_priority(void **state)
{
	static const int expect[] = {0, 3, 4, 1, 2};
	struct probe gate, p[4];

	post_gate(*state, &gate);
	for (int i = 0; i < 4; i++) {
		p[i] = probe(i + 1, 2 - i / 2);
		p[i].job.share = &shares[0];
		sl_worker_post(*state, &p[i].job);
	}
	sem_post(&gate_open);
	drain_until(*state, 5);
	assert_memory_equal(order, expect, sizeof expect);
}

static void tenth_run(struct sl_job *job)
{
	nanosleep(&(struct timespec){0, 100000000}, NULL);
	probe_run(job);
}

static void half_run(struct sl_job *job)
{
	nanosleep(&(struct timespec){0, 50000000}, NULL);
	probe_run(job);
}

static void post_of(struct sl_worker *w, struct probe *p, int id, void (*run)(struct sl_job *job), int owner)
{
	*p = probe(id, 0);
	p->job.run = run;
	p->job.share = &shares[owner];
	sl_worker_post(w, &p->job);
}

/* Time that an owner had while no other wanted any is not charged. */
static void time_alone_is_not_owed(void **state)
{
	static const int expect[] = {9, 0, 1, 2, 3, 4};
	struct probe alone, gate, p[4];

	post_of(*state, &alone, 9, half_run, 0);
	drain_until(*state, 1);
	post_gate(*state, &gate);
	for (int i = 0; i < 4; i++)
		post_of(*state, &p[i], i + 1, probe_run, i == 1 ? 0 : 1);
	sem_post(&gate_open);
	drain_until(*state, 6);
	assert_memory_equal(order, expect, sizeof expect);
}

/* An owner that lags, since the device has its job, is served. A newcomer starts level with the others, not with it. */
static void nobody_begins_where_another_lags(void **state)
{
	static const int expect[] = {8, 7, 0, 2, 3, 4, 1};
	struct held a = held(*state, 1, 0);
	struct probe before[2], gate, p[3];

	sem_init(&entered, 0, 0);
	a.p.job.share = &shares[0];
	sl_worker_post(*state, &a.p.job);
	sem_wait(&entered);
	post_of(*state, &before[0], 8, tenth_run, 1);
	post_of(*state, &before[1], 7, probe_run, 1);
	drain_until(*state, 2);
	post_of(*state, &gate, 0, gate_run, 0);
	sem_wait(&gate_entered);
	post_of(*state, &p[0], 2, half_run, 2);
	post_of(*state, &p[1], 4, half_run, 2);
	post_of(*state, &p[2], 3, probe_run, 1);
	sem_post(&gate_open);
	drain_until(*state, 6);
	sl_worker_release(*state, &a.p.job);
	drain_until(*state, 7);
	assert_memory_equal(order, expect, sizeof expect);
}

/* The last jobs of an owner that used much time, and its jobs before them, run before newcomers.
 * Its jobs after them do not. */
static void last_words_go_ahead(void **state)
{
	static const int expect[] = {0, 1, 2, 4, 3};
	struct probe gate, p[4];

	post_gate(*state, &gate);
	shares[0].used_ns = UINT64_C(1) << 40;
	for (int i = 0; i < 4; i++) {
		static const int id[] = {4, 1, 2, 3};

		p[i] = probe(id[i], i == 3);
		p[i].job.share = &shares[i == 0];
		p[i].job.ahead = i == 2;
		sl_worker_post(*state, &p[i].job);
	}
	sem_post(&gate_open);
	drain_until(*state, 5);
	assert_memory_equal(order, expect, sizeof expect);
}

static void *spin(void *arg)
{
	while (!stop)
		;
	return arg;
}

/* Puts the worker's thread and the spinner on one processor. */
static void pin_run(struct sl_job *job)
{
	cpu_set_t one;

	(void)job;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof one, &one);
	pthread_create(&spinner, NULL, spin, NULL); /* which inherits it */
}

/* Runs until the spinner has taken the processor away from it for some time. */
static void preempted_run(struct sl_job *job)
{
	const uint64_t from_ns = sl_now_ns(), cpu_ns = sl_thread_cpu_ns();

	(void)job;
	do
		taken_ns = sl_now_ns() - from_ns - (sl_thread_cpu_ns() - cpu_ns);
	while (taken_ns < 100000000);
	lasted_ns = sl_now_ns() - from_ns;
}

/* What the system gives to others in place of a job on a CPU is not charged; else the job's owner would wait until all
 * others have had as much. */
static void time_taken_away_is_not_charged(void **state)
{
	struct probe pin, p;

	stop = 0;
	sl_worker_charge_cpu(*state);
	post_of(*state, &pin, 0, pin_run, 1);
	post_of(*state, &p, 1, preempted_run, 0);
	drain_until(*state, 2);
	stop = 1;
	pthread_join(spinner, NULL);
	assert_true(shares[0].used_ns < lasted_ns - taken_ns / 2);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_shares, teardown)
	const struct CMUnitTest tests[] = {
		CASE(nobody_starves),
		CASE(shares_are_of_time),
		CASE(within_a_share_order_is_by_priority),
		CASE(time_alone_is_not_owed),
		CASE(nobody_begins_where_another_lags),
		CASE(last_words_go_ahead),
		CASE(time_taken_away_is_not_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
