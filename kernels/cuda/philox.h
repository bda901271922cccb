/* The four random words of elements 4·quad … 4·quad+3, the same as common/base/rng.h gives. */
#ifndef SL_KERNELS_CUDA_PHILOX_H
#define SL_KERNELS_CUDA_PHILOX_H

#include "kernels/cuda/launch.h"

static __device__ __forceinline__ void philox_quad(const struct cu_philox *key, uint32_t quad, uint32_t out[4])
{
	uint32_t c0 = quad, c1 = key->chunk_tensor, c2 = (uint32_t)key->step, c3 = (uint32_t)(key->step >> 32);
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);

#pragma unroll
	for (int round = 0; round < 10; round++) {
		const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
		const uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
		c0 = h1 ^ c1 ^ k0;
		c1 = l1;
		c2 = h0 ^ c3 ^ k1;
		c3 = l0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

#endif
