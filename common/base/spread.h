/* The standard deviation by which numbers are divided, so that they have a deviation of 1. */
#ifndef SL_BASE_SPREAD_H
#define SL_BASE_SPREAD_H

#include <float.h>
#include <math.h>
#include <stdint.h>

/* Of n numbers with this mean and variance. 1 if they are all the same up to rounding. The bound is that of
 * scikit-learn's StandardScaler. */
static inline double sl_spread(double variance, double mean, int64_t n)
{
	const double rounds = (double)n * DBL_EPSILON;

	return isfinite(variance) && variance <= rounds * variance + rounds * mean * rounds * mean ? 1 : sqrt(variance);
}

#endif
