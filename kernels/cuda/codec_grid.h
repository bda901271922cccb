/* Shared by the kernels of codecs: launches, bits of floats, a scan over a block of threads. C and CUDA C++. */
#ifndef SL_KERNELS_CUDA_CODEC_GRID_H
#define SL_KERNELS_CUDA_CODEC_GRID_H

#include "kernels/cuda/codec.h"

#ifdef __CUDACC__
#define CU_LAUNCH(kernel, blocks, threads, stream, ...) \
	(kernel<<<(unsigned)(blocks), (unsigned)(threads), 0, (stream)>>>(__VA_ARGS__), cudaGetLastError())
#endif

enum { CU_THREADS = 256, CU_EACH = 8, CU_TILE = CU_THREADS * CU_EACH, CU_PLACE_THREADS = 1024 };

/* For kernels of CU_PLACE_THREADS threads: limits registers, or the launch would fail. */
#define PLACE_THREADS __launch_bounds__(CU_PLACE_THREADS)

static inline int64_t cu_tiles(int64_t n)
{
	return (n + CU_TILE - 1) / CU_TILE;
}

static inline int64_t cu_blocks(int64_t n)
{
	return (n + CU_BLOCK - 1) / CU_BLOCK;
}

/* The number of elements, at most `most` (`said` in codec.h). */
static __device__ __forceinline__ int64_t counted(int64_t most, const uint32_t *said)
{
	return said != NULL && *said < most ? (int64_t)*said : most;
}

static __device__ __forceinline__ uint32_t magnitude(float v)
{
	return __float_as_uint(v) & 0x7fffffffu;
}

/* bfloat16 of a magnitude: to nearest even, at most the largest finite value. */
static __device__ __forceinline__ uint32_t bf16_of(uint32_t m)
{
	m = m < 0x7f7f0000u ? m : 0x7f7f0000u;
	return (m + 0x7fffu + (m >> 16 & 1)) >> 16;
}

/* Kernels load all of a thread's elements of a tile before they store the first. The compiler must assume
 * that a store changes what the next load reads, so that otherwise every load would wait for the one before
 * it. */

/* Elements of the codec block that this block of threads works on. */
static __device__ __forceinline__ int block_length(int64_t n)
{
	const int64_t left = n - (int64_t)blockIdx.x * CU_BLOCK;

	return left < CU_BLOCK ? (int)left : (int)CU_BLOCK;
}

/* Mask of the warp's lanes below the calling thread's. */
static __device__ __forceinline__ uint32_t lanes_below(void)
{
	return (1u << threadIdx.x % 32) - 1;
}

/* Returns the sum over the threads before this one; *total: over all. Called by all threads of a block of up
 * to 1024. */
static __device__ __forceinline__ uint32_t scan_block(uint32_t v, uint32_t *total)
{
	__shared__ uint32_t sum[CU_PLACE_THREADS];
	const unsigned t = threadIdx.x;
	uint32_t before;

	__syncthreads();
	sum[t] = v;
	__syncthreads();
	for (unsigned step = 1; step < blockDim.x; step *= 2) {
		const uint32_t add = t >= step ? sum[t - step] : 0;

		__syncthreads();
		sum[t] += add;
		__syncthreads();
	}
	*total = sum[blockDim.x - 1];
	before = sum[t] - v;
	__syncthreads();
	return before;
}

#endif
