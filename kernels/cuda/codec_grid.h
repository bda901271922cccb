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

/* The number of elements of a codec block. */
static __device__ __forceinline__ int block_length(int64_t n, int64_t block)
{
	const int64_t left = n - block * CU_BLOCK;

	return left < CU_BLOCK ? (int)left : (int)CU_BLOCK;
}

/* Mask of the warp's lanes below the calling thread's. */
static __device__ __forceinline__ uint32_t lanes_below(void)
{
	return (1u << threadIdx.x % 32) - 1;
}

/* The sum of v over this lane of the warp and those below it. */
static __device__ __forceinline__ uint32_t scan_warp(uint32_t v)
{
	for (unsigned step = 1; step < 32; step *= 2) {
		const uint32_t below = __shfl_up_sync(0xffffffffu, v, step);

		v += threadIdx.x % 32 >= step ? below : 0;
	}
	return v;
}

/* Returns the sum over the threads before this one; *total: over all. Called by all threads of a block of whole
 * warps. */
static __device__ __forceinline__ uint32_t scan_block(uint32_t v, uint32_t *total)
{
	__shared__ uint32_t upto[32];
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const uint32_t own = scan_warp(v);

	__syncthreads();
	if (lane == 31)
		upto[warp] = own;
	__syncthreads();
	if (warp == 0)
		upto[lane] = scan_warp(lane < blockDim.x / 32 ? upto[lane] : 0);
	__syncthreads();
	*total = upto[31];
	return (warp == 0 ? 0 : upto[warp - 1]) + own - v;
}

/* Whether this block of threads is the last one of the launch to call this; it then sees what the others wrote
 * before. Called by all threads of all blocks. `done`: 0 before and after. */
static __device__ __forceinline__ bool is_last_block(uint32_t *done)
{
	__shared__ bool last;

	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(done, 1u) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return false;
	if (threadIdx.x == 0)
		atomicExch(done, 0u);
	__threadfence();
	return true;
}

struct __align__(16) cu_four
{
	float v[4];
};

/* Elements x[0] … x[7] of which `left` exist, the others 0; by 16 bytes where x lies so. */
static __device__ __forceinline__ void load_eight(float v[CU_EACH], const float *x, int64_t left)
{
	if (left >= CU_EACH && (uintptr_t)x % sizeof(struct cu_four) == 0) {
		const struct cu_four *in = (const struct cu_four *)(const void *)x;
		const struct cu_four a = in[0], b = in[1];

#pragma unroll
		for (int e = 0; e < 4; e++) {
			v[e] = a.v[e];
			v[4 + e] = b.v[e];
		}
		return;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		v[e] = e < left ? x[e] : 0.0f;
}

/* The tile of CU_TILE elements that a block of threads codes. The last ones come first: the pass before read them
 * last, and the cache may still have them. */
static __device__ __forceinline__ int64_t tile_from_end(void)
{
	return gridDim.x - 1 - blockIdx.x;
}

#endif
