#include <inttypes.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "lib/impl.h"

enum { WAKE_MS = 1000 };

int sl_lib_enter(struct split_middle *m, split_error *e)
{
	if (!m)
		return sl_lib_tell(e, 0, SL_ERR_USAGE, "there is no middle");
	if (m->pid != getpid())
		return sl_lib_tell(e, 0, SL_ERR_USAGE, "a process that was forked cannot use its parent's middle");
	pthread_mutex_lock(&m->lock);
	if (m->in_call) {
		pthread_mutex_unlock(&m->lock);
		return sl_lib_tell(e, m->step, SL_ERR_USAGE, "another thread uses this middle: one call at a time");
	}
	m->in_call = true;
	return SPLIT_OK;
}

int sl_lib_leave(struct split_middle *m, int code)
{
	m->in_call = false;
	if (code != SPLIT_AGAIN)
		m->ask.since_ms = 0;
	if (m->ask.close)
		pthread_cond_broadcast(&m->news); /* split_close waits for that */
	pthread_mutex_unlock(&m->lock);
	return code;
}

int sl_lib_null(split_error *e, const char *names)
{
	return sl_lib_tell(e, 0, SL_ERR_USAGE, "an argument is NULL: %s must not be", names);
}

int sl_lib_misuse(struct split_middle *m, split_error *e, const char *what)
{
	return sl_lib_leave(m, sl_lib_tell(e, m->step, SL_ERR_USAGE, "step %" PRIu64 ": %s", m->step, what));
}

static int unavailable(const struct split_middle *m, split_error *e)
{
	struct sl_fail fail;

	sl_fail_set(&fail, SL_ERR_UNAVAILABLE,
		    "%s has not answered for %" PRIu64 " s (wait_s)%s%s; call again to wait on", m->conf.server,
		    m->wait_ms / 1000, m->lost.code ? ": " : "", m->lost.code ? m->lost.text : "");
	return sl_lib_error(e, &fail, m->step);
}

int sl_lib_trouble(struct split_middle *m, split_error *e)
{
	struct sl_fail fail;
	int code;

	if (m->dead.code)
		return sl_lib_error(e, &m->dead, m->step);
	if (m->rolled && !m->ask.resume) {
		code = sl_lib_tell(e, m->rolled_to, SL_ERR_MISMATCH,
				   "the server has lost the steps %" PRIu64 " to %" PRIu64
				   ": go back to the token of step %" PRIu64,
				   m->rolled_to, m->step, m->rolled_to);
		if (e && code)
			e->code = SPLIT_ROLLED_BACK;
		return SPLIT_ROLLED_BACK;
	}
	if (m->nonfinite.code && m->stepped) {
		fail = m->nonfinite;
		m->nonfinite.code = SL_OK;
		m->stepped = false;
		return sl_lib_error(e, &fail, m->nonfinite_step);
	}
	return SPLIT_OK;
}

static struct timespec until_time(uint64_t ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	at.tv_sec += (time_t)(ms / 1000) + at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

static int again(const struct split_middle *m, split_error *e)
{
	(void)sl_lib_tell(e, m->step, SL_ERR_TIMEOUT, "not yet: %s; call again",
			  m->lost.code ? m->lost.text
			  : m->did.up  ? "the server is at work"
				       : "the server has not answered");
	if (e && e->size >= sizeof *e) {
		e->code = SPLIT_AGAIN;
		snprintf(e->name, sizeof e->name, "again");
	}
	return SPLIT_AGAIN;
}

int sl_lib_await(struct split_middle *m, bool (*there)(const struct split_middle *m), int timeout_ms, split_error *e)
{
	const uint64_t began_ms = sl_now_ms();
	struct timespec at;
	eventfd_t drained;
	int code;

	if (!m->ask.since_ms)
		m->ask.since_ms = began_ms;
	for (;;) {
		const uint64_t now_ms = sl_now_ms();

		(void)eventfd_read(m->event_fd, &drained);
		if (m->ask.close)
			return sl_lib_tell(e, m->step, SL_ERR_USAGE, "another thread has closed this middle");
		code = sl_lib_trouble(m, e);
		if (code || there(m))
			return code;
		if (m->wait_ms && now_ms - m->ask.since_ms > m->wait_ms)
			return unavailable(m, e);
		if (timeout_ms >= 0 && now_ms - began_ms >= (uint64_t)timeout_ms)
			return again(m, e);
		at = until_time(timeout_ms < 0 || timeout_ms > WAKE_MS ? WAKE_MS : (uint64_t)timeout_ms);
		pthread_cond_timedwait(&m->news, &m->lock, &at);
	}
}

void sl_lib_wake(struct split_middle *m)
{
	sl_async_wake(m->wake);
}
