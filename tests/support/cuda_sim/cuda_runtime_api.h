/* What kernels/cuda/codec_* need of CUDA, on a CPU: so that their kernels, which keep to what C and CUDA C++ have in
 * common, run where no GPU is. Threads of a block are fibers of one thread, resumed in varying order, and meet at
 * barriers and warp votes as on a device; blocks run one after another. Every copy and launch is done when the call
 * returns. What this cannot show: races between blocks, the device's own rounding,
 * its limits, and time. */
#ifndef SL_TESTS_CUDA_SIM_H
#define SL_TESTS_CUDA_SIM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess, cudaErrorUnknown };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

#define __global__
#define __device__
#define __host__
#define __shared__      static
#define __forceinline__ inline
#define __launch_bounds__(threads)

struct sim_index {
	unsigned x;
};
extern struct sim_index threadIdx, blockIdx, blockDim, gridDim;

/* Runs `thread` for every thread of every block. Aborts where a barrier is not reached by all. */
cudaError_t sim_launch(void (*thread)(void), int64_t blocks, unsigned threads);

/* A function inside the calling one sees its arguments, as CUDA's launch would copy them. */
#define CU_LAUNCH(kernel, blocks, threads, stream, ...)      \
	({                                                   \
		void sim_thread(void)                        \
		{                                            \
			kernel(__VA_ARGS__);                 \
		}                                            \
		(void)(stream);                              \
		sim_launch(sim_thread, (blocks), (threads)); \
	})

void __syncthreads(void);
unsigned __ballot_sync(unsigned mask, int predicate); /* of all 32 lanes */

static inline unsigned atomicAdd(unsigned *at, unsigned v)
{
	unsigned old = *at;

	*at += v;
	return old;
}

static inline unsigned atomicMax(unsigned *at, unsigned v)
{
	unsigned old = *at;

	*at = v > old ? v : old;
	return old;
}

static inline unsigned atomicOr(unsigned *at, unsigned v)
{
	unsigned old = *at;

	*at |= v;
	return old;
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}

static inline int __clz(int v)
{
	return v == 0 ? 32 : __builtin_clz((unsigned)v);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (unsigned)((uint64_t)a * b >> 32);
}

static inline unsigned __float_as_uint(float v)
{
	unsigned bits;

	memcpy(&bits, &v, sizeof bits);
	return bits;
}

static inline float __uint_as_float(unsigned bits)
{
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

#endif
