/* Numbers to be predicted are kept as floats, which hold no unit of a number above 2^24. Where floats would round them
 * noticeably, a centre is taken off in double first. The model keeps it, and what is said adds it again. */
#ifndef SL_CLIENT_DATA_CENTRE_H
#define SL_CLIENT_DATA_CENTRE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* The numbers of a column so far. Begins zeroed. */
struct sl_centre {
	double least, most;
	bool any;
};

static inline void sl_centre_add(struct sl_centre *c, double x)
{
	c->least = c->any ? fmin(c->least, x) : x;
	c->most = c->any ? fmax(c->most, x) : x;
	c->any = true;
}

/* The number next to 0, so no number of the column gets larger without it; 0: floats hold the column well, or its
 * numbers have both signs. */
static inline double sl_centre_of(const struct sl_centre *c)
{
	const double next = c->least > 0 ? c->least : c->most < 0 ? c->most : 0, range = c->most - c->least;

	const double step = fabs(next) * (double)FLT_EPSILON; /* at most, between two floats */

	return step >= 2 || (range > 0 && step > range / 1000) ? next : 0;
}

#endif
