/* bfloat16, with the part of CUDA's header that kernels/cuda/device.cuh needs. */
#ifndef SL_TESTS_CUDA_SIM_BF16_H
#define SL_TESTS_CUDA_SIM_BF16_H

#include "tests/support/cuda_sim/cuda_runtime_api.h"

struct __nv_bfloat16_raw {
	uint16_t x;
};

static inline struct __nv_bfloat16_raw __float2bfloat16_rn(float x)
{
	const uint32_t bits = __float_as_uint(x);

	if (x != x)
		return {0x7fff};
	return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

#endif
