/* The event loop: timers, wakes from other threads, signals. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/link/loop.h"
#include "tests/support/unit.h"

struct counter {
	struct sl_loop *loop;
	struct sl_timer *timer;
	int calls, stop_at;
	uint64_t started_ms;
};

static struct sl_loop *open_loop(void)
{
	struct sl_loop *loop;

	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	return loop;
}

static void count(void *arg)
{
	struct counter *c = arg;

	if (++c->calls == c->stop_at)
		sl_loop_stop(c->loop);
}

static void timers_fire_once_or_repeat_and_stop(void **state)
{
	struct counter once = {.loop = open_loop()}, often = {.loop = once.loop, .stop_at = 5},
		       never = {.loop = once.loop};
	uint64_t start;

	assert_int_equal(sl_timer_open(&once.timer, once.loop, count, &once, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&often.timer, once.loop, count, &often, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&never.timer, once.loop, count, &never, NULL), SL_OK);
	sl_timer_start(once.timer, 1, 0);
	sl_timer_start(often.timer, 10, 10);
	sl_timer_start(never.timer, 1, 0);
	sl_timer_stop(never.timer);
	start = sl_now_ms();
	sl_loop_run(once.loop);
	assert_in_range(sl_now_ms() - start, 45, 5000);
	assert_int_equal(once.calls, 1);
	assert_int_equal(often.calls, 5);
	assert_int_equal(never.calls, 0);
	sl_timer_stop(often.timer);
	sl_loop_run(once.loop); /* no active timer is left: returns */
	assert_int_equal(often.calls, 5);
	sl_timer_close(once.timer);
	sl_timer_close(often.timer);
	sl_timer_close(never.timer);
	sl_loop_close(once.loop);
}

/* A delay counts from the call of start, not from the loop's clock, which is old after a long callback. */
static void start_late(void *arg)
{
	const struct timespec moment = {0, 60000000};
	struct counter *late = arg;

	nanosleep(&moment, NULL);
	sl_timer_start(late->timer, 40, 0);
	late->started_ms = sl_now_ms();
}

static void a_delay_counts_from_its_start(void **state)
{
	struct counter late = {.loop = open_loop(), .stop_at = 1}, often = {.loop = late.loop};
	struct sl_timer *first;

	assert_int_equal(sl_timer_open(&late.timer, late.loop, count, &late, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&first, late.loop, start_late, &late, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&often.timer, late.loop, count, &often, NULL), SL_OK);
	sl_timer_start(often.timer, 5, 5); /* without it the loop would update its clock only once */
	sl_timer_start(first, 1, 0);
	sl_loop_run(late.loop);
	assert_in_range(sl_now_ms() - late.started_ms, 35, 5000);
	sl_timer_close(first);
	sl_timer_close(often.timer);
	sl_timer_close(late.timer);
	sl_loop_close(late.loop);
}

struct waker {
	struct sl_async *async;
	struct sl_loop *loop;
	atomic_int sent;
	int seen;
};

enum { WAKES = 10000 };

static void *wake_often(void *arg)
{
	struct waker *w = arg;

	for (int i = 0; i < WAKES; i++) {
		atomic_fetch_add(&w->sent, 1);
		sl_async_wake(w->async);
	}
	return NULL;
}

static void woken(void *arg)
{
	struct waker *w = arg;

	w->seen = atomic_load(&w->sent);
	if (w->seen == WAKES)
		sl_loop_stop(w->loop);
}

static void the_last_wake_is_never_lost(void **state)
{
	struct waker w = {.loop = open_loop()};
	pthread_t thread;

	assert_int_equal(sl_async_open(&w.async, w.loop, woken, &w, NULL), SL_OK);
	assert_int_equal(pthread_create(&thread, NULL, wake_often, &w), 0);
	sl_loop_run(w.loop);
	assert_int_equal(w.seen, WAKES);
	pthread_join(thread, NULL);
	sl_async_close(w.async);
	sl_loop_close(w.loop);
}

struct signals {
	struct sl_loop *loop;
	int last, calls, hangups;
};

static void on_signal(void *arg, int signum)
{
	struct signals *s = arg;

	s->last = signum;
	s->calls++;
	sl_loop_stop(s->loop);
}

static void raise_term(void *arg)
{
	(void)arg;
	raise(SIGTERM);
}

static void raise_int(void *arg)
{
	(void)arg;
	raise(SIGINT);
}

static void raise_hup(void *arg)
{
	(void)arg;
	raise(SIGHUP);
}

static void on_hangup(void *arg)
{
	struct signals *s = arg;

	s->hangups++;
	sl_loop_stop(s->loop);
}

/* A lost terminal (SIGHUP) ends a run in good order, unless SIGHUP is ignored or has a handler of its own. */
static void hangup_is_a_signal_like_the_others(void **state)
{
	struct signals s = {.loop = open_loop()};
	struct sl_timer *hup, *term;

	for (int i = 0; i < 3; i++) {
		signal(SIGHUP, i == 1 ? SIG_IGN : SIG_DFL);
		s.last = 0;
		if (i == 2)
			assert_int_equal(sl_loop_on_hangup(s.loop, on_hangup, &s, NULL), SL_OK);
		assert_int_equal(sl_loop_on_signals(s.loop, on_signal, &s, NULL), SL_OK);
		assert_int_equal(sl_timer_open(&hup, s.loop, raise_hup, NULL, NULL), SL_OK);
		assert_int_equal(sl_timer_open(&term, s.loop, raise_term, NULL, NULL), SL_OK);
		sl_timer_start(hup, 1, 1000);
		sl_timer_start(term, 100, 1000);
		sl_loop_run(s.loop);
		assert_int_equal(s.last, i == 0 ? SIGHUP : i == 1 ? SIGTERM : 0);
		assert_int_equal(s.hangups, i == 2);
		sl_timer_close(hup);
		sl_timer_close(term);
		sl_loop_close(s.loop);
		s.loop = open_loop();
	}
	sl_loop_close(s.loop);
	signal(SIGHUP, SIG_DFL);
}

static void signals_reach_the_loop(void **state)
{
	struct signals s = {.loop = open_loop()};
	struct sl_timer *term, *interrupt;

	assert_int_equal(sl_loop_on_signals(s.loop, on_signal, &s, NULL), SL_OK);
	sl_loop_run(s.loop); /* a signal handler alone does not keep the loop running */
	assert_int_equal(s.calls, 0);
	assert_int_equal(sl_timer_open(&term, s.loop, raise_term, NULL, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&interrupt, s.loop, raise_int, NULL, NULL), SL_OK);
	sl_timer_start(term, 1, 1000);
	sl_loop_run(s.loop);
	assert_int_equal(s.last, SIGTERM);
	sl_timer_stop(term);
	sl_timer_start(interrupt, 1, 1000);
	sl_loop_run(s.loop);
	assert_int_equal(s.last, SIGINT);
	sl_timer_close(term);
	sl_timer_close(interrupt);
	sl_loop_close(s.loop);
	/* after the loop is closed, signals do not reach its callback */
	raise(SIGTERM);
	raise(SIGINT);
	assert_int_equal(s.calls, 2);
}

static void an_armed_timer_closes_with_the_loop(void **state)
{
	struct counter c = {.loop = open_loop()};
	struct sl_timer *closed;

	sl_loop_close(NULL);
	assert_int_equal(sl_timer_open(&closed, c.loop, count, &c, NULL), SL_OK);
	sl_timer_start(closed, 1000000, 0);
	sl_timer_close(closed);
	sl_timer_close(NULL);
	sl_async_close(NULL);
	sl_loop_close(c.loop);
	assert_int_equal(c.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_fire_once_or_repeat_and_stop),
		cmocka_unit_test(a_delay_counts_from_its_start),
		cmocka_unit_test(the_last_wake_is_never_lost),
		cmocka_unit_test(signals_reach_the_loop),
		cmocka_unit_test(hangup_is_a_signal_like_the_others),
		cmocka_unit_test(an_armed_timer_closes_with_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
