/* A monotonic clock that stands still, and goes on when the test says so. It is the whole process's: libuv's timers ask
 * it, too. What happens while it stands happens at once, however busy the machine is, and what is to happen after a
 * time does so at that moment. A header: a test that includes it, in one file, has another clock_gettime than libc's.
 * Any thread. */
#ifndef SL_TESTS_STILL_CLOCK_H
#define SL_TESTS_STILL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* ns: since the clock's beginning, where it stands; 0: it runs. ahead_ns: of the system's clock, where it runs. */
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

/* It stands, so many ms later. A loop that sleeps sees it when something wakes it. */
static inline void still_clock_go_on(int ms)
{
	atomic_fetch_add(&still_clock_ns, (int64_t)ms * NS_PER_MS);
}

/* It runs from where it stood: never backwards. */
static inline void still_clock_start(void)
{
	int64_t stood_ns = atomic_exchange(&still_clock_ns, 0);

	atomic_fetch_add(&still_clock_ahead_ns, stood_ns - still_clock_now_ns());
}

#endif
