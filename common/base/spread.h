/* The standard deviation by which numbers are divided, so that they have a deviation of 1. */
#ifndef SL_BASE_SPREAD_H
#define SL_BASE_SPREAD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether n numbers with this mean and variance are all the same up to rounding. The bound is that of scikit-learn's
 * StandardScaler. */
static inline bool sl_spread_is_none(double variance, double mean, int64_t n)
{
	const double rounds = (double)n * DBL_EPSILON;

	return variance <= rounds * variance + rounds * mean * rounds * mean;
}

/* 1 if the numbers are all the same. */
static inline double sl_spread(double variance, double mean, int64_t n)
{
	return isfinite(variance) && sl_spread_is_none(variance, mean, n) ? 1 : sqrt(variance);
}

#endif
