/* Monotonic time, and the time of day. Code that must be replayable takes `now_ms` as an argument instead of reading
 * the clock. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>

uint64_t sl_now_ns(void);
uint64_t sl_now_coarse_ns(void); /* cheaper to read; may lag by some ms */
static inline uint64_t sl_now_ms(void)
{
	return sl_now_ns() / 1000000u;
}
uint64_t sl_thread_cpu_ns(void); /* CPU time that this thread has used */
/* The time of day since 1970. It may go back, when somebody sets the host's clock. */
uint64_t sl_wall_ns(void);
static inline int64_t sl_wall_s(void)
{
	return (int64_t)(sl_wall_ns() / 1000000000u);
}
/* When the program started, in seconds since 1970: the time of the first call, which sl_command_run makes at the
 * start. */
int64_t sl_started_s(void);
static inline double sl_seconds_since(uint64_t start_ns)
{
	return (double)(sl_now_ns() - start_ns) * 1e-9;
}

#endif
