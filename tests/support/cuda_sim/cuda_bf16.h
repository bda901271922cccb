/* bfloat16 as CUDA's header has it: what kernels/cuda/device.cuh needs. */
#ifndef SL_TESTS_CUDA_SIM_BF16_H
#define SL_TESTS_CUDA_SIM_BF16_H

#include "tests/support/cuda_sim/cuda_runtime_api.h"

struct __nv_bfloat16 {
	uint16_t bits;
};

static inline uint16_t __bfloat16_as_ushort(struct __nv_bfloat16 x)
{
	return x.bits;
}

static inline struct __nv_bfloat16 __float2bfloat16_rn(float x)
{
	const uint32_t bits = __float_as_uint(x);

	if (x != x)
		return {0x7fff};
	return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

#endif
