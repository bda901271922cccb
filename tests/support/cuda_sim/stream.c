/* Copies and fills, done when the call returns. */
#include "tests/support/cuda_sim/cuda_runtime_api.h"

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind;
	(void)stream;
	memcpy(dst, src, bytes);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
	(void)stream;
	memset(dst, byte, bytes);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
	return cudaSuccess;
}
