/* A monotonic clock that the test stops and advances, for the whole process: libuv's timers read
 * it, too. While it stands, no time passes, however busy the machine is; a timer expires exactly
 * when the test advances the clock to it. The test program includes this header in one file, where
 * it replaces libc's clock_gettime. Any thread. */
#ifndef SL_TESTS_STILL_CLOCK_H
#define SL_TESTS_STILL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* still_clock_ns: the reading of the stopped clock; 0: it runs. still_clock_ahead_ns: how far it is
 * ahead of the system's clock when it runs. */
static _Atomic int64_t still_clock_ns, still_clock_ahead_ns;

int clock_gettime(clockid_t id, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, id, now);
	int64_t ns = atomic_load(&still_clock_ns);

	if (rc || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
		return rc;
	if (!ns)
		ns = now->tv_sec * NS_PER_S + now->tv_nsec + atomic_load(&still_clock_ahead_ns);
	*now = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
	return 0;
}

static inline int64_t still_clock_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline void still_clock_stop(void)
{
	atomic_store(&still_clock_ns, still_clock_now_ns());
}

/* Advances the stopped clock by `ms`. A sleeping loop notices only when something wakes it. */
static inline void still_clock_go_on(int ms)
{
	atomic_fetch_add(&still_clock_ns, (int64_t)ms * NS_PER_MS);
}

/* Lets the clock run on from where it stopped; it never goes backwards. */
static inline void still_clock_start(void)
{
	int64_t stood_ns = atomic_exchange(&still_clock_ns, 0);

	atomic_fetch_add(&still_clock_ahead_ns, stood_ns - still_clock_now_ns());
}

#endif
