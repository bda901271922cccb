/* IEEE half, with the part of CUDA's header that kernels/cuda/device.cuh needs. */
#ifndef SL_TESTS_CUDA_SIM_FP16_H
#define SL_TESTS_CUDA_SIM_FP16_H

#include "tests/support/cuda_sim/cuda_runtime_api.h"

struct __half {
	uint16_t bits;
};

static inline uint16_t __half_as_ushort(struct __half x)
{
	return x.bits;
}

static inline struct __half __ushort_as_half(uint16_t bits)
{
	return {bits};
}

/* Below 2^-14, adding a number whose unit is 2^-24 rounds correctly; from 65520 on, the result is Inf. */
static inline struct __half __float2half_rn(float x)
{
	const uint32_t bits = __float_as_uint(x), m = bits & 0x7fffffff;
	uint32_t h;

	if (m > 0x7f800000)
		return {0x7fff};
	if (m >= 0x477ff000)
		h = 0x7c00;
	else if (m >= 0x38800000)
		h = (m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13;
	else
		h = __float_as_uint(__uint_as_float(m) + 0.5f) - 0x3f000000;
	return {(uint16_t)(h | (bits >> 16 & 0x8000))};
}

static inline float __half2float(struct __half x)
{
	const uint32_t m = x.bits & 0x7fff, sign = (uint32_t)(x.bits & 0x8000) << 16;

	if (m >= 0x7c00)
		return __uint_as_float(m << 13 | 0x7f800000 | sign);
	if (m >= 0x0400)
		return __uint_as_float(((m << 13) + 0x38000000) | sign);
	return __uint_as_float(__float_as_uint((float)m * 0x1p-24f) | sign);
}

#endif
