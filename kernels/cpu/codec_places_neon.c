/* Finds and marks large elements. */
#include "kernels/cpu/codec_vec_neon.h"

enum { SCANNED = 16 };

/* Writes the |bits| of SCANNED elements that lie between lo and hi, one by one; returns their number. */
static int64_t candidates(const float *x, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap)
{
	int64_t found = 0;

	for (int j = 0; j < SCANNED; j++) {
		uint32_t m = sl_magnitude(x[j]);

		if (m > lo && m < hi) {
			if (found < cap)
				cand[found] = m;
			found++;
		}
	}
	return found;
}

int64_t sl_neon_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap, int64_t *n_cand,
		     int64_t *equal, uint32_t *top)
{
	const uint32x4_t low = vdupq_n_u32(lo), high = vdupq_n_u32(hi);
	uint32x4_t most = vdupq_n_u32(*top), above = vdupq_n_u32(0), same = vdupq_n_u32(0);
	int64_t i = 0, found = 0, rest_above, rest_found, rest_equal;

	for (; i + SCANNED <= n; i += SCANNED) {
		uint32x4_t between = vdupq_n_u32(0);

		for (int j = 0; j < SCANNED; j += 4) {
			uint32x4_t m = magnitude4(vld1q_f32(x + i + j)), reach = vcgeq_u32(m, high);

			most = vmaxq_u32(m, most);
			above = vsubq_u32(above, reach);
			same = vsubq_u32(same, vceqq_u32(m, low));
			between = vorrq_u32(between, vbicq_u32(vcgtq_u32(m, low), reach));
		}
		if (__builtin_expect(vmaxvq_u32(between) != 0, 0))
			found += candidates(x + i, lo, hi, cand + (found < cap ? found : cap),
					    found < cap ? cap - found : 0);
	}
	*top = vmaxvq_u32(most);
	rest_above = sl_c_scan(x + i, n - i, lo, hi, cand + (found < cap ? found : cap), found < cap ? cap - found : 0,
			       &rest_found, &rest_equal, top);
	*n_cand = found + rest_found;
	*equal = vaddvq_u32(same) + rest_equal;
	return vaddvq_u32(above) + rest_above;
}

#include "kernels/cpu/body_mark.h"
