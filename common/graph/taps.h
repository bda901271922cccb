/* The source elements of one element of a resampled axis (struct sl_resample_attr). Its value is the sum of `count`
 * elements from index `from` on: the first times `first`, each other one times `rest`. */
#ifndef SL_GRAPH_TAPS_H
#define SL_GRAPH_TAPS_H

#include "common/graph/op.h"

struct sl_taps {
	int64_t from, count;
	double first, rest;
};

/* Linear interpolation at the fractional index `at` of n elements. */
static inline struct sl_taps sl_taps_between(double at, int64_t n)
{
	const int64_t low = at < 0 ? 0 : (int64_t)at;
	const double part = at < 0 ? 0 : at - (double)low;

	return low + 1 < n ? (struct sl_taps){low, 2, 1 - part, part} : (struct sl_taps){n - 1, 1, 1, 1};
}

/* Element i of the resampled axis; n: length of the source axis. */
static inline struct sl_taps sl_taps_of(const struct sl_resample_attr *a, int64_t n, int64_t i)
{
	const int64_t m = a->size, at = a->first - a->before + i * a->step;
	int64_t j = at, end;

	switch (a->mode) {
	case SL_RESAMPLE_REFLECT:
		j = j < 0 ? -j : j;
		return (struct sl_taps){j < n ? j : 2 * (n - 1) - j, 1, 1, 1};
	case SL_RESAMPLE_EDGE:
		return (struct sl_taps){j < 0 ? 0 : j < n ? j : n - 1, 1, 1, 1};
	case SL_RESAMPLE_NEAREST:
		return (struct sl_taps){i * n / m, 1, 1, 1};
	case SL_RESAMPLE_LINEAR:
		return sl_taps_between(((double)i + 0.5) * (double)n / (double)m - 0.5, n);
	case SL_RESAMPLE_ALIGNED:
		return sl_taps_between(m > 1 ? (double)i * (double)(n - 1) / (double)(m - 1) : 0, n);
	case SL_RESAMPLE_AREA:
		j = i * n / m;
		end = ((i + 1) * n + m - 1) / m;
		return (struct sl_taps){j, end - j, 1.0 / (double)(end - j), 1.0 / (double)(end - j)};
	case SL_RESAMPLE_MEAN:
		end = at + a->window < n ? at + a->window : n;
		j = at < 0 ? 0 : at;
		return (struct sl_taps){j, end > j ? end - j : 0, 1.0 / a->window, 1.0 / a->window};
	default:
		return (struct sl_taps){j, j >= 0 && j < n, 1, 1};
	}
}

#endif
