/* The table of portable loops; coefficients of affine codes. */
#include "common/codec/loops.h"

#include <float.h>
#include <math.h>

#include "common/codec/loops_c.h"

#define BODY
#define NAME(x) sl_c_##x
#include "common/codec/body_stats.h"

#include "common/codec/body_codes.h"

#include "common/codec/body_places.h"

#include "common/codec/body_resample.h"

#include "common/codec/body_cells.h"

const struct sl_codec_loops sl_codec_loops_c = {
	.name = "portable",
#include "common/codec/body_table.h"
};

/* Ranges below this are multiplied by 2^64, so that levels / range stays finite. Their values are below 2^-40: none
 * overflows. */
static const double small_range = 0x1p-64;
/* sl_affine_hold_zero makes zero a code if the step grows by this factor at most. */
static const double most_widening = 1.125;

struct sl_affine sl_affine_of(float min, float max, int levels)
{
	double range = (double)max - (double)min, pre = 1;

	if (range == 0)
		return (struct sl_affine){.pre = 1, .lo = min, .post = 1, .max = max};
	if (range > FLT_MAX)
		pre = 0.5;
	else if (range < small_range)
		pre = 0x1p64;
	return (struct sl_affine){.pre = (float)pre,
				  .lo = (float)(min * pre),
				  .inv = (float)(levels / (range * pre)),
				  .step = (float)(range * pre / levels),
				  .post = (float)(1 / pre),
				  .max = max};
}

/* The least step for which zero is code z of 0 … levels, and [-lo, hi] lies within the codes. */
static double step_around(double lo, double hi, int z, int levels)
{
	return z < 1 || z >= levels ? HUGE_VAL : fmax(lo / z, hi / (levels - z));
}

void sl_affine_hold_zero(float *min, float *max, int levels)
{
	double lo = -(double)*min, hi = (double)*max, range = lo + hi, step, other;
	int z, exponent, bits = 24 - (32 - __builtin_clz((unsigned)levels));

	if (!(lo > 0 && hi > 0) || range < small_range || range > FLT_MAX / 2)
		return;
	z = (int)(lo * levels / range);
	step = step_around(lo, hi, z, levels);
	other = step_around(lo, hi, z + 1, levels);
	if (other < step) {
		step = other;
		z++;
	}
	if (step * levels > range * most_widening)
		return;
	/* the step has so few digits that every multiple is a float, and zero comes back as zero */
	step = frexp(step, &exponent);
	step = ldexp(ceil(ldexp(step, bits)), exponent - bits);
	*min = (float)(-z * step);
	*max = (float)((levels - z) * step);
}

struct sl_affine sl_affine_of_scale(float scale, int q)
{
	struct sl_affine a = sl_affine_of(0, scale, q);

	a.lo = 0;
	return a;
}
