// A grid over the elements of a tensor.
#ifndef SL_KERNELS_CUDA_EACH_CUH
#define SL_KERNELS_CUDA_EACH_CUH

#include "kernels/cuda/device.cuh"

namespace
{

constexpr int cu_each_threads = 256;

// F::run<V>(i) processes elements i … i + V - 1. With V = 4 the last n % 4 elements go one by one.
template <int V, class F> __global__ void __launch_bounds__(cu_each_threads) each_kernel(F f, int64_t n)
{
	const int64_t stride = (int64_t)gridDim.x * blockDim.x;
	const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

#pragma unroll 2
	for (int64_t i = first; i < n / V; i += stride)
		f.template run<V>(i * V);
	if (V > 1 && first < n % V)
		f.template run<1>(n / V * V + first);
}

template <class F> cudaError_t each(cudaStream_t s, F f, int64_t n, bool vectors)
{
	int64_t blocks = ceil_div(vectors ? ceil_div(n, 4) : n, cu_each_threads);

	if (n == 0)
		return cudaSuccess;
	if (blocks > 8192)
		blocks = 8192;
	if (vectors)
		CU_RUN((each_kernel<4, F>), (unsigned)blocks, cu_each_threads, s, f, n);
	else
		CU_RUN((each_kernel<1, F>), (unsigned)blocks, cu_each_threads, s, f, n);
	return cudaGetLastError();
}

} // namespace

#endif
