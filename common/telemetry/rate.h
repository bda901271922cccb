/* Rates of counters that only grow, over the last SL_RATE_WINDOW_MS: samples of them are kept now and then, and what
 * they are now is compared with one of then. A zeroed struct is one without samples, nothing has to be freed. One
 * thread. */
#ifndef SL_TELEMETRY_RATE_H
#define SL_TELEMETRY_RATE_H

#include <stdint.h>

enum {
	SL_RATE_COUNTERS = 4,
	SL_RATE_WINDOW_MS = 10000,
	SL_RATE_SAMPLES = 32,
	SL_RATE_APART_MS = SL_RATE_WINDOW_MS / (SL_RATE_SAMPLES - 2), /* a full ring is longer than the window */
};

struct sl_rate_sample {
	uint64_t ms; /* by a clock that does not go back */
	uint64_t count[SL_RATE_COUNTERS];
};

struct sl_rate {
	struct sl_rate_sample sample[SL_RATE_SAMPLES]; /* a ring; the oldest at `first` */
	int first, n;
};

/* Call it as often as you like: one sample each SL_RATE_APART_MS is kept. A counter that is less than it was begins
 * anew, and so do the rates. */
void sl_rate_keep(struct sl_rate *rate, const struct sl_rate_sample *now);
/* By how much the counters have grown in the seconds that it returns: those of the window or the least more that there
 * is a sample for, or all since the first one. 0: nothing is known. */
double sl_rate_grown(const struct sl_rate *rate, const struct sl_rate_sample *now, double grown[SL_RATE_COUNTERS]);
/* The same for one counter, a second; NaN: not known. */
double sl_rate_per_s(const struct sl_rate *rate, const struct sl_rate_sample *now, int counter);

#endif
