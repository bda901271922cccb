// Ops that look at rows of tokens; one thread per element of the output (a gather: no atomics).
#include "kernels/cuda/rows.cuh"

namespace
{

constexpr int threads_per_block = 256;

template <class T> __global__ void forward_kernel(T *__restrict__ out, const T *__restrict__ x, cu_rows r)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.rows * r.f;
	     i += (int64_t)gridDim.x * blockDim.x)
		out[i] = x[first_of(r, i / r.f) * r.f + i % r.f];
}

template <class T> __global__ void backward_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, cu_rows r)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.tokens * r.f;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t token = i / r.f, row = row_of(r, token);
		const bool first = first_of(r, row) == token;

		if (!add)
			dx[i] = first ? dout[row * r.f + i % r.f] : rounded<T>(0.f);
		else if (first)
			dx[i] = rounded<T>(value(dx[i]) + value(dout[row * r.f + i % r.f]));
	}
}

int blocks_of(int64_t count)
{
	const int64_t blocks = (count + threads_per_block - 1) / threads_per_block;

	return (int)(blocks < 65535 ? blocks : 65535);
}

} // namespace

cudaError_t cu_select_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_rows *r)
{
#define CALL(T) CU_RUN(forward_kernel<T>, blocks_of(r->rows * r->f), threads_per_block, s, (T *)out, (const T *)x, *r)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_select_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_rows *r)
{
#define CALL(T) \
	CU_RUN(backward_kernel<T>, blocks_of(r->tokens * r->f), threads_per_block, s, (T *)dx, add, (const T *)dout, *r)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}
