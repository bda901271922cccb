// Pooling over NHWC; one thread per output in forward, per input in backward (a gather: no atomics).
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 256;

struct Place {
	int64_t n, h, w, c;
};

__device__ Place place_of(int64_t i, int64_t h, int64_t w, int64_t c)
{
	return {i / (c * w * h), i / (c * w) % h, i / c % w, i % c};
}

template <class T, bool MAX>
__global__ void forward_kernel(T *__restrict__ out, uint16_t *__restrict__ at, const T *__restrict__ x, int64_t count,
			       cu_window g)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const Place o = place_of(i, g.ho, g.wo, g.c);
		float best = 0, sum = 0;
		int where = -1;

		for (int kh = 0; kh < g.kh; kh++)
			for (int kw = 0; kw < g.kw; kw++) {
				const int64_t h = o.h * g.stride - g.pad + kh, w = o.w * g.stride - g.pad + kw;

				if (h < 0 || h >= g.h || w < 0 || w >= g.w)
					continue;
				const float v = value(x[((o.n * g.h + h) * g.w + w) * g.c + o.c]);
				sum += v;
				if (where < 0 || v > best || isnan(v)) {
					best = v;
					where = kh * g.kw + kw;
				}
			}
		if (MAX) {
			out[i] = rounded<T>(best);
			at[i] = (uint16_t)where;
		} else {
			out[i] = rounded<T>(sum / (float)(g.kh * g.kw));
		}
	}
}

template <class T, bool MAX>
__global__ void backward_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout,
				const uint16_t *__restrict__ at, int64_t count, cu_window g)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const Place p = place_of(i, g.h, g.w, g.c);
		// windows [h0, h1] × [w0, w1] contain this place
		const int64_t th = p.h + g.pad - g.kh + 1, tw = p.w + g.pad - g.kw + 1;
		const int64_t h0 = th > 0 ? (th + g.stride - 1) / g.stride : 0;
		const int64_t w0 = tw > 0 ? (tw + g.stride - 1) / g.stride : 0;
		const int64_t h1 = min((p.h + g.pad) / g.stride, g.ho - 1),
			      w1 = min((p.w + g.pad) / g.stride, g.wo - 1);
		float sum = 0;

		for (int64_t ho = h0; ho <= h1; ho++)
			for (int64_t wo = w0; wo <= w1; wo++) {
				const int64_t o = ((p.n * g.ho + ho) * g.wo + wo) * g.c + p.c;
				const int64_t here = (p.h + g.pad - ho * g.stride) * g.kw + p.w + g.pad - wo * g.stride;

				if (!MAX || at[o] == here)
					sum += value(dout[o]);
			}
		if (!MAX)
			sum /= (float)(g.kh * g.kw);
		dx[i] = rounded<T>(add ? value(dx[i]) + sum : sum);
	}
}

unsigned blocks_of(int64_t count)
{
	const int64_t blocks = ceil_div(count, threads_per_block);

	return (unsigned)(blocks < 16384 ? blocks : 16384);
}

} // namespace

template <bool MAX>
static cudaError_t forward(cudaStream_t s, enum cu_type type, void *out, uint16_t *at, const void *x,
			   const struct cu_window *win)
{
	const int64_t count = win->n * win->ho * win->wo * win->c;

#define CALL(T)                                                                                                     \
	CU_RUN((forward_kernel<T, MAX>), blocks_of(count), threads_per_block, s, (T *)out, at, (const T *)x, count, \
	       *win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

template <bool MAX>
static cudaError_t backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout, const uint16_t *at,
			    const struct cu_window *win)
{
	const int64_t count = win->n * win->h * win->w * win->c;

#define CALL(T)                                                                                                      \
	CU_RUN((backward_kernel<T, MAX>), blocks_of(count), threads_per_block, s, (T *)dx, add, (const T *)dout, at, \
	       count, *win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_maxpool_forward(cudaStream_t s, enum cu_type type, void *out, uint16_t *at, const void *x,
			       const struct cu_window *win)
{
	return forward<true>(s, type, out, at, x, win);
}

cudaError_t cu_maxpool_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
				const uint16_t *at, const struct cu_window *win)
{
	return backward<true>(s, type, dx, add, dout, at, win);
}

cudaError_t cu_avgpool_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_window *win)
{
	return forward<false>(s, type, out, nullptr, x, win);
}

cudaError_t cu_avgpool_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
				const struct cu_window *win)
{
	return backward<false>(s, type, dx, add, dout, nullptr, win);
}
