// Layer norm and RMS norm: a block per row, in two passes over it. The gradients of the parameters are sums over rows:
// first within groups of rows, then over the groups in order.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 128, rows_per_group = 64;

// The sum over the block of each thread's v, in a fixed order. All threads get the result.
__device__ float block_sum(float v, float *part)
{
	const int t = threadIdx.x;
	float sum;

	part[t] = v;
	for (int half = threads_per_block / 2; half > 0; half /= 2) {
		__syncthreads();
		if (t < half)
			part[t] += part[t + half];
	}
	__syncthreads();
	sum = part[0];
	__syncthreads(); // `part` is used again
	return sum;
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
	forward_kernel(T *__restrict__ out, const T *__restrict__ x, const float *weight, const float *bias,
		       float *stat, int f, float eps, float plus, bool centred)
{
	__shared__ float part[threads_per_block];
	const T *row = x + (int64_t)blockIdx.x * f;
	T *to = out + (int64_t)blockIdx.x * f;
	const int t = threadIdx.x;
	float sum = 0.f, mean = 0.f, error = 0.f, square = 0.f;

	if (centred) {
		for (int i = t; i < f; i += threads_per_block)
			sum += value(row[i]);
		mean = block_sum(sum, part) / f;
	}
	for (int i = t; i < f; i += threads_per_block) {
		const float d = value(row[i]) - mean;

		error += d;
		square += d * d;
	}
	square = block_sum(square, part);
	if (centred) { // `error` corrects the mean's rounding error
		error = block_sum(error, part);
		mean += error / f;
		square -= error * (error / f);
	}
	const float inv = 1.f / sqrtf(square / f + eps);

	if (t == 0) {
		stat[2 * blockIdx.x] = mean;
		stat[2 * blockIdx.x + 1] = inv;
	}
	for (int i = t; i < f; i += threads_per_block)
		to[i] = rounded<T>((value(row[i]) - mean) * inv * (weight[i] + plus) + (bias ? bias[i] : 0.f));
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
	dx_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, const T *__restrict__ x,
		  const float *weight, const float *stat, int f, float plus, bool centred)
{
	__shared__ float part[threads_per_block];
	const int64_t at = (int64_t)blockIdx.x * f;
	const float mean = stat[2 * blockIdx.x], inv = stat[2 * blockIdx.x + 1];
	float sum = 0.f, along = 0.f;

	for (int i = threadIdx.x; i < f; i += threads_per_block) {
		const float g = value(dout[at + i]) * (weight[i] + plus);

		sum += g;
		along += g * (value(x[at + i]) - mean) * inv;
	}
	sum = centred ? block_sum(sum, part) / f : 0.f;
	along = block_sum(along, part) / f;
	for (int i = threadIdx.x; i < f; i += threads_per_block) {
		const float h = (value(x[at + i]) - mean) * inv;
		const float d = (value(dout[at + i]) * (weight[i] + plus) - sum - h * along) * inv;

		dx[at + i] = rounded<T>(add ? value(dx[at + i]) + d : d);
	}
}

// part [groups, 2, F]: gradients of γ, and of β.
template <class T>
__global__ void group_kernel(float *part, const T *__restrict__ dout, const T *__restrict__ x, const float *stat,
			     int64_t m, int f)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t first = (int64_t)blockIdx.y * rows_per_group;
	float weight = 0.f, bias = 0.f;

	if (i >= f)
		return;
	for (int64_t n = first; n < first + rows_per_group && n < m; n++) {
		const float d = value(dout[n * f + i]);

		weight += d * (value(x[n * f + i]) - stat[2 * n]) * stat[2 * n + 1];
		bias += d;
	}
	part[(int64_t)blockIdx.y * 2 * f + i] = weight;
	part[((int64_t)blockIdx.y * 2 + 1) * f + i] = bias;
}

__global__ void total_kernel(float *dweight, float *dbias, const float *part, int64_t groups, int f)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	float weight = 0.f, bias = 0.f;

	if (i >= f)
		return;
	for (int64_t g = 0; g < groups; g++) {
		weight += part[g * 2 * f + i];
		bias += part[(g * 2 + 1) * f + i];
	}
	if (dweight)
		dweight[i] += weight;
	if (dbias)
		dbias[i] += bias;
}

} // namespace

size_t cu_norm_bytes(int64_t m, int64_t f)
{
	return (size_t)(ceil_div(m, rows_per_group) * 2 * f) * sizeof(float);
}

cudaError_t cu_norm_forward(cudaStream_t s, void *out, const struct cu_norm *n)
{
#define CALL(T)                                                                                                 \
	CU_RUN((forward_kernel<T>), (unsigned)n->m, threads_per_block, s, (T *)out, (const T *)n->x, n->weight, \
	       n->bias, n->stat, (int)n->f, n->eps, n->plus, n->centred)
	CU_SWITCH_TYPE(n->type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_norm_dx(cudaStream_t s, void *dx, bool add, const void *dout, const struct cu_norm *n)
{
#define CALL(T)                                                                                                      \
	CU_RUN((dx_kernel<T>), (unsigned)n->m, threads_per_block, s, (T *)dx, add, (const T *)dout, (const T *)n->x, \
	       n->weight, n->stat, (int)n->f, n->plus, n->centred)
	CU_SWITCH_TYPE(n->type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_norm_params(cudaStream_t s, float *dweight, float *dbias, const void *dout, void *workspace,
			   const struct cu_norm *n)
{
	const unsigned groups = (unsigned)ceil_div(n->m, rows_per_group);
	const unsigned columns = (unsigned)ceil_div(n->f, threads_per_block);
	float *part = (float *)workspace;

#define CALL(T)                                                                                                        \
	CU_RUN((group_kernel<T>), dim3(columns, groups), threads_per_block, s, part, (const T *)dout, (const T *)n->x, \
	       n->stat, n->m, (int)n->f)
	CU_SWITCH_TYPE(n->type, CALL);
#undef CALL
	CU_RUN(total_kernel, columns, threads_per_block, s, dweight, dbias, part, (int64_t)groups, (int)n->f);
	return cudaGetLastError();
}
