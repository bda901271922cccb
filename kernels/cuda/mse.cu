// Mean squares: one thread per row, as rows are short; then one block that adds the rows in a fixed order.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 128;

// `error` holds the targets on entry.
__global__ void rows_kernel(float *error, double *row_loss, int32_t *row_correct, const float *x, int64_t n, int64_t k)
{
	const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	double square = 0;

	if (row >= n)
		return;
	for (int64_t i = row * k; i < (row + 1) * k; i++) {
		error[i] = x[i] - error[i];
		square += (double)error[i] * error[i];
	}
	row_loss[row] = square / k;
	row_correct[row] = 0;
}

__global__ void backward_kernel(float *dx, bool add, const float *error, float by, int64_t count)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		dx[i] = add ? dx[i] + by * error[i] : by * error[i];
}

} // namespace

cudaError_t cu_mse_forward(cudaStream_t s, struct cu_xent_result *result, float *error, double *row_loss,
			   int32_t *row_correct, const float *x, const float *targets, int64_t n, int64_t k)
{
	cudaError_t status = targets ? cu_labels_store(s, (int32_t *)error, (const int32_t *)targets, n * k)
				     : cudaMemsetAsync(error, 0, (size_t)(n * k) * sizeof *error, s);

	if (status != cudaSuccess)
		return status;
	CU_RUN(rows_kernel, (unsigned)ceil_div(n, threads_per_block), threads_per_block, s, error, row_loss,
	       row_correct, x, n, k);
	return cu_loss_total(s, result, row_loss, row_correct, n);
}

cudaError_t cu_mse_backward(cudaStream_t s, float *dx, bool add, const float *error, float scale, int64_t n, int64_t k)
{
	CU_RUN(backward_kernel, (unsigned)ceil_div(n * k, threads_per_block), threads_per_block, s, dx, add, error,
	       scale * 2.f / k, n * k);
	return cudaGetLastError();
}
