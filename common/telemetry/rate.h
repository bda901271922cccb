/* Rates of counters that only grow, over the last SL_RATE_WINDOW_MS. The struct keeps samples of the counters; a
 * rate compares their current values with an earlier sample. A zeroed struct has no samples, and nothing has to be
 * freed. One thread. */
#ifndef SL_TELEMETRY_RATE_H
#define SL_TELEMETRY_RATE_H

#include <stdint.h>

enum {
	SL_RATE_COUNTERS = 2,
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

/* May be called at any time: one sample each SL_RATE_APART_MS is kept. If a counter is less than it was, the samples
 * are dropped and the rates begin anew. */
void sl_rate_keep(struct sl_rate *rate, const struct sl_rate_sample *now);
/* Writes by how much the counters have grown, and returns in how many seconds. These are the window, or the least
 * more for which there is a sample; else all since the first sample. 0: nothing is known. */
double sl_rate_grown(const struct sl_rate *rate, const struct sl_rate_sample *now, double grown[SL_RATE_COUNTERS]);
/* The growth of one counter a second; NaN: not known. */
double sl_rate_per_s(const struct sl_rate *rate, const struct sl_rate_sample *now, int counter);

#endif
