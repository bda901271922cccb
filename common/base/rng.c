#include "common/base/rng.h"

#include <math.h>

void sl_rng_normal2(uint32_t a, uint32_t b, float out[2])
{
	/* u is in (0, 1]: its logarithm is finite, and |normal| is at most 6.66 */
	double u = ((double)a + 1.0) * 0x1p-32, angle = (double)b * (0x1p-31 * M_PI);
	double radius = sqrt(-2.0 * log(u));

	out[0] = (float)(radius * cos(angle));
	out[1] = (float)(radius * sin(angle));
}
