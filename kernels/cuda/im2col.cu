// Patches, for convolutions as matrix products: if cuDNN is missing, or has no algorithm with repeatable
// bits.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 256;

template <int V, class T>
__global__ void im2col_kernel(T *__restrict__ col, const T *__restrict__ x, int64_t row, int64_t count, cu_window g)
{
	const int64_t patch = (int64_t)g.kh * g.kw * g.c;

	for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V; i < count;
	     i += (int64_t)gridDim.x * blockDim.x * V) {
		const int64_t m = row + i / patch, k = i % patch, c = k % g.c;
		const int64_t wo = m % g.wo, ho = m / g.wo % g.ho, n = m / (g.wo * g.ho);
		const int64_t h = ho * g.stride - g.pad + k / g.c / g.kw, w = wo * g.stride - g.pad + k / g.c % g.kw;
		const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;

		store<V>(col + i, inside ? load<V>(x + ((n * g.h + h) * g.w + w) * g.c + c) : zeros<V>());
	}
}

// Every input gathers from the patches that contain it, in the order of the window.
template <int V, class T>
__global__ void col2im_kernel(T *__restrict__ dx, bool add, const float *__restrict__ col, int64_t count, cu_window g)
{
	const int64_t patch = (int64_t)g.kh * g.kw * g.c;

	for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V; i < count;
	     i += (int64_t)gridDim.x * blockDim.x * V) {
		const int64_t c = i % g.c, w = i / g.c % g.w, h = i / (g.c * g.w) % g.h, n = i / (g.c * g.w * g.h);
		Vec<V> sum = zeros<V>();

		for (int kh = 0; kh < g.kh; kh++)
			for (int kw = 0; kw < g.kw; kw++) {
				const int64_t a = h + g.pad - kh, b = w + g.pad - kw;

				if (a < 0 || b < 0 || a % g.stride || b % g.stride || a / g.stride >= g.ho ||
				    b / g.stride >= g.wo)
					continue;
				const int64_t m = (n * g.ho + a / g.stride) * g.wo + b / g.stride;
				const Vec<V> p = load<V>(col + m * patch + (kh * g.kw + kw) * g.c + c);
#pragma unroll
				for (int e = 0; e < V; e++)
					sum.v[e] += p.v[e];
			}
		put<V>(dx + i, sum, add);
	}
}

unsigned blocks_of(int64_t count)
{
	const int64_t blocks = ceil_div(count, threads_per_block);

	return (unsigned)(blocks < 16384 ? blocks : 16384);
}

} // namespace

cudaError_t cu_im2col(cudaStream_t s, enum cu_type type, void *col, const void *x, int64_t row, int64_t rows,
		      const struct cu_window *win)
{
	const int64_t count = rows * win->kh * win->kw * win->c;
	const bool vectors = win->c % 4 == 0 && aligned16(col) && aligned16(x);
	const unsigned blocks = blocks_of(vectors ? count / 4 : count);

#define CALL(T)                                                                                                        \
	if (vectors)                                                                                                   \
		CU_RUN((im2col_kernel<4, T>), blocks, threads_per_block, s, (T *)col, (const T *)x, row, count, *win); \
	else                                                                                                           \
		CU_RUN((im2col_kernel<1, T>), blocks, threads_per_block, s, (T *)col, (const T *)x, row, count, *win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_col2im(cudaStream_t s, enum cu_type type, void *dx, bool add, const float *col,
		      const struct cu_window *win)
{
	const int64_t count = win->n * win->h * win->w * win->c;
	const bool vectors = win->c % 4 == 0 && aligned16(col) && aligned16(dx);
	const unsigned blocks = blocks_of(vectors ? count / 4 : count);

#define CALL(T)                                                                                              \
	if (vectors)                                                                                         \
		CU_RUN((col2im_kernel<4, T>), blocks, threads_per_block, s, (T *)dx, add, col, count, *win); \
	else                                                                                                 \
		CU_RUN((col2im_kernel<1, T>), blocks, threads_per_block, s, (T *)dx, add, col, count, *win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}
