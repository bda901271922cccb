#include "common/base/clock.h"

#include <stdatomic.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t); /* cannot fail for these clocks */
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sl_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t sl_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t sl_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t sl_started_s(void)
{
	static _Atomic int64_t began;
	int64_t at = 0, now = sl_wall_s();

	return atomic_compare_exchange_strong(&began, &at, now) ? now : at;
}

uint64_t sl_now_coarse_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}
