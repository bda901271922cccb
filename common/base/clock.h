/* Monotonic time. Code that has to be replayed takes `now_ms` as an argument instead of asking. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>

uint64_t sl_now_ns(void);
uint64_t sl_now_coarse_ns(void); /* some ms behind, and cheaper */
static inline uint64_t sl_now_ms(void)
{
	return sl_now_ns() / 1000000u;
}
/* When the process first asked, in seconds since 1970: sl_command_run asks as a program begins. */
int64_t sl_started_s(void);
static inline double sl_seconds_since(uint64_t start_ns)
{
	return (double)(sl_now_ns() - start_ns) * 1e-9;
}

#endif
