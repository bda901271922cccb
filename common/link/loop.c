#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/link/loop_uv.h"

#include "common/base/stop.h"

enum { SIGNALS = 3, CLOSE_TURNS = 16 };

struct sl_loop {
	uv_loop_t uv;
	uv_signal_t signal[SIGNALS];
	int signals_open;
	void (*on_signal)(void *arg, int signum);
	void *signal_arg;
	uv_signal_t hangup;
	bool hangup_open;
	void (*on_hangup)(void *arg);
	void *hangup_arg;
};

struct sl_timer {
	uv_timer_t uv;
	void (*fn)(void *arg);
	void *arg;
};

struct sl_async {
	uv_async_t uv;
	void (*fn)(void *arg);
	void *arg;
};

uv_loop_t *sl_loop_uv(struct sl_loop *loop)
{
	return &loop->uv;
}

enum sl_err sl_uv_fail(struct sl_fail *fail, int status, const char *what)
{
	return sl_fail_set(fail, SL_ERR_OS, "%s: %s", what, uv_strerror(status));
}

enum sl_err sl_loop_open(struct sl_loop **out, struct sl_fail *fail)
{
	struct sl_loop *loop = calloc(1, sizeof *loop);
	int rc;

	if (!loop)
		return sl_fail_set(fail, SL_ERR_NOMEM, "event loop: out of memory");
	rc = uv_loop_init(&loop->uv);
	if (rc) {
		free(loop);
		return sl_uv_fail(fail, rc, "event loop");
	}
	*out = loop;
	return SL_OK;
}

void sl_loop_run(struct sl_loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void sl_loop_stop(struct sl_loop *loop)
{
	uv_stop(&loop->uv);
}

static void close_leftover(uv_handle_t *handle, void *arg)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static const int signums[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static int silenced; /* the first so many of signums are ignored, since the last loop was closed */

/* libuv would restore the default actions. Then a late signal would kill the ending process, and change its status. */
static void close_signals(struct sl_loop *loop)
{
	for (int i = 0; i < loop->signals_open; i++) {
		uv_close((uv_handle_t *)&loop->signal[i], NULL);
		signal(signums[i], SIG_IGN);
	}
	silenced = loop->signals_open;
	if (loop->hangup_open) {
		uv_close((uv_handle_t *)&loop->hangup, NULL);
		signal(SIGHUP, SIG_IGN);
	}
}

void sl_loop_close(struct sl_loop *loop)
{
	if (!loop)
		return;
	close_signals(loop);
	/* libuv runs the close callbacks of owners' close calls in the next few turns. A handle that its owner forgot
	 * to close is closed below; its memory is then a leak, which the sanitizer reports. */
	for (int i = 0; i < CLOSE_TURNS && uv_run(&loop->uv, UV_RUN_NOWAIT); i++)
		;
	if (uv_loop_close(&loop->uv) == UV_EBUSY) {
		uv_walk(&loop->uv, close_leftover, NULL);
		uv_run(&loop->uv, UV_RUN_DEFAULT);
		uv_loop_close(&loop->uv);
	}
	free(loop);
}

uint64_t sl_loop_now_ms(struct sl_loop *loop)
{
	return uv_now(&loop->uv);
}

/* ---- timers */

static void timer_fired(uv_timer_t *uv)
{
	struct sl_timer *timer = uv->data;

	timer->fn(timer->arg);
}

static void timer_closed(uv_handle_t *uv)
{
	free(uv->data);
}

enum sl_err sl_timer_open(struct sl_timer **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail)
{
	struct sl_timer *timer = calloc(1, sizeof *timer);

	if (!timer)
		return sl_fail_set(fail, SL_ERR_NOMEM, "timer: out of memory");
	uv_timer_init(&loop->uv, &timer->uv); /* cannot fail */
	timer->uv.data = timer;
	timer->fn = fn;
	timer->arg = arg;
	*out = timer;
	return SL_OK;
}

void sl_timer_start(struct sl_timer *timer, uint64_t delay_ms, uint64_t period_ms)
{
	uv_update_time(timer->uv.loop); /* else the delay would count from before a long callback */
	uv_timer_start(&timer->uv, timer_fired, delay_ms, period_ms);
}

void sl_timer_stop(struct sl_timer *timer)
{
	uv_timer_stop(&timer->uv);
}

void sl_timer_close(struct sl_timer *timer)
{
	if (timer)
		uv_close((uv_handle_t *)&timer->uv, timer_closed);
}

/* ---- wakes from other threads */

static void async_woken(uv_async_t *uv)
{
	struct sl_async *async = uv->data;

	async->fn(async->arg);
}

static void async_closed(uv_handle_t *uv)
{
	free(uv->data);
}

enum sl_err sl_async_open(struct sl_async **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail)
{
	struct sl_async *async = calloc(1, sizeof *async);
	int rc;

	if (!async)
		return sl_fail_set(fail, SL_ERR_NOMEM, "wake-up: out of memory");
	rc = uv_async_init(&loop->uv, &async->uv, async_woken);
	if (rc) {
		free(async);
		return sl_uv_fail(fail, rc, "wake-up");
	}
	async->uv.data = async;
	async->fn = fn;
	async->arg = arg;
	*out = async;
	return SL_OK;
}

void sl_async_wake(void *async)
{
	uv_async_send(&((struct sl_async *)async)->uv);
}

void sl_async_close(struct sl_async *async)
{
	if (async)
		uv_close((uv_handle_t *)&async->uv, async_closed);
}

/* ---- signals */

static void signalled(uv_signal_t *uv, int signum)
{
	struct sl_loop *loop = uv->data;

	loop->on_signal(loop->signal_arg, signum);
}

/* Whether the process ignores the signal, as nohup makes it. */
static bool is_ignored(int signum)
{
	struct sigaction now;

	return sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

enum sl_err sl_loop_on_signals(struct sl_loop *loop, void (*fn)(void *arg, int signum), void *arg, struct sl_fail *fail)
{
	loop->on_signal = fn;
	loop->signal_arg = arg;
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_t *uv = &loop->signal[loop->signals_open];
		int rc;

		if (signums[i] == SIGHUP && (loop->hangup_open || is_ignored(SIGHUP)))
			continue;
		rc = uv_signal_init(&loop->uv, uv);
		if (rc)
			return sl_uv_fail(fail, rc, "signal handler");
		uv->data = loop;
		loop->signals_open++;
		rc = uv_signal_start(uv, signalled, signums[i]);
		if (rc)
			return sl_uv_fail(fail, rc, "signal handler");
		uv_unref((uv_handle_t *)uv); /* a signal handler alone must not keep the loop running */
	}
	return SL_OK;
}

void sl_loop_unsilence(void)
{
	while (silenced > 0)
		signal(signums[--silenced], SIG_DFL);
	sl_stop_again();
}

static void hung_up(uv_signal_t *uv, int signum)
{
	struct sl_loop *loop = uv->data;

	loop->on_hangup(loop->hangup_arg);
}

enum sl_err sl_loop_on_hangup(struct sl_loop *loop, void (*fn)(void *arg), void *arg, struct sl_fail *fail)
{
	int rc = uv_signal_init(&loop->uv, &loop->hangup);

	if (rc)
		return sl_uv_fail(fail, rc, "signal handler");
	loop->hangup_open = true;
	loop->hangup.data = loop;
	loop->on_hangup = fn;
	loop->hangup_arg = arg;
	rc = uv_signal_start(&loop->hangup, hung_up, SIGHUP);
	if (rc)
		return sl_uv_fail(fail, rc, "signal handler");
	uv_unref((uv_handle_t *)&loop->hangup);
	return SL_OK;
}
