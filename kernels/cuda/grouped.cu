// Convolutions with groups of several channels or with dilation, and depthwise ones of other windows than 3×3, NHWC.
// Plain kernels: one thread for each output or input, and one block for each weight, which sums over all pixels. Each
// sum has a fixed order, for any grid.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_each = 256;
constexpr int threads_weight = 128;

__device__ __forceinline__ int64_t per_in(const cu_conv_groups &g)
{
	return g.win.c / g.groups;
}

// Weights are [O, KH, KW, I/groups], or [KH, KW, C] for a depthwise convolution.
__device__ __forceinline__ int64_t weight_at(const cu_conv_groups &g, int64_t o, int kh, int kw, int64_t j)
{
	return g.depthwise ? (int64_t)(kh * g.win.kw + kw) * g.o + o
			   : ((o * g.win.kh + kh) * g.win.kw + kw) * per_in(g) + j;
}

template <class T>
__global__ void forward_kernel(T *__restrict__ out, const T *__restrict__ x, const float *__restrict__ weight,
			       const float *__restrict__ bias, int64_t count, cu_conv_groups g)
{
	const cu_window &w = g.win;
	const int64_t in = per_in(g), each = g.o / g.groups;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t o = i % g.o, m = i / g.o, wo = m % w.wo, ho = m / w.wo % w.ho, n = m / (w.wo * w.ho);
		float sum = bias ? bias[o] : 0.0f;

		for (int kh = 0; kh < w.kh; kh++)
			for (int kw = 0; kw < w.kw; kw++) {
				const int64_t h = ho * w.stride - w.pad + kh * g.dilation;
				const int64_t v = wo * w.stride - w.pad + kw * g.dilation;
				const T *from = x + ((n * w.h + h) * w.w + v) * w.c + o / each * in;

				if (h < 0 || h >= w.h || v < 0 || v >= w.w)
					continue;
				for (int64_t j = 0; j < in; j++)
					sum = fmaf(load<1>(from + j).v[0], weight[weight_at(g, o, kh, kw, j)], sum);
			}
		store<1>(out + i, Vec<1>{{sum}});
	}
}

template <class T>
__global__ void data_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, const float *__restrict__ weight,
			    int64_t count, cu_conv_groups g)
{
	const cu_window &w = g.win;
	const int64_t in = per_in(g), each = g.o / g.groups;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t c = i % w.c, v = i / w.c % w.w, h = i / (w.c * w.w) % w.h, n = i / (w.c * w.w * w.h);
		const int64_t first = c / in * each;
		float sum = 0.0f;

		for (int kh = 0; kh < w.kh; kh++)
			for (int kw = 0; kw < w.kw; kw++) {
				const int64_t a = h + w.pad - kh * g.dilation, b = v + w.pad - kw * g.dilation;

				if (a < 0 || b < 0 || a % w.stride || b % w.stride || a / w.stride >= w.ho ||
				    b / w.stride >= w.wo)
					continue;
				const T *from = dout + ((n * w.ho + a / w.stride) * w.wo + b / w.stride) * g.o;

				for (int64_t o = first; o < first + each; o++)
					sum = fmaf(load<1>(from + o).v[0], weight[weight_at(g, o, kh, kw, c % in)],
						   sum);
			}
		put<1>(dx + i, Vec<1>{{sum}}, add);
	}
}

// One block for each weight: its threads take the pixels in turn, then a tree adds their sums.
template <class T>
__global__ void weight_kernel(float *__restrict__ dweight, const T *__restrict__ dout, const T *__restrict__ x,
			      cu_conv_groups g)
{
	__shared__ float sums[threads_weight];
	const cu_window &w = g.win;
	const int64_t in = per_in(g), each = g.o / g.groups, taps = (int64_t)w.kh * w.kw;
	const int64_t o = blockIdx.x / (taps * in), tap = blockIdx.x / in % taps, j = blockIdx.x % in;
	const int kh = (int)(tap / w.kw), kw = (int)(tap % w.kw);
	float sum = 0.0f;

	for (int64_t m = threadIdx.x; m < w.n * w.ho * w.wo; m += threads_weight) {
		const int64_t wo = m % w.wo, ho = m / w.wo % w.ho, n = m / (w.wo * w.ho);
		const int64_t h = ho * w.stride - w.pad + kh * g.dilation, v = wo * w.stride - w.pad + kw * g.dilation;

		if (h < 0 || h >= w.h || v < 0 || v >= w.w)
			continue;
		sum = fmaf(load<1>(dout + m * g.o + o).v[0],
			   load<1>(x + ((n * w.h + h) * w.w + v) * w.c + o / each * in + j).v[0], sum);
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (int half = threads_weight / 2; half > 0; half /= 2) {
		if ((int)threadIdx.x < half)
			sums[threadIdx.x] += sums[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		dweight[weight_at(g, o, kh, kw, j)] += sums[0];
}

// The same for a depthwise convolution. Block: 32 channels × 16 rows of one tap, over all pixels.
template <class T>
__global__ void __launch_bounds__(512)
	depthwise_weight_kernel(float *dweight, const T *__restrict__ dout, const T *__restrict__ x, cu_conv_groups g)
{
	__shared__ double part[16][33];
	const cu_window &w = g.win;
	const int lane = threadIdx.x, y = threadIdx.y, kh = blockIdx.y / w.kw, kw = blockIdx.y % w.kw;
	const int64_t c = (int64_t)blockIdx.x * 32 + lane;
	double sum = 0;

	for (int64_t m = y; m < w.n * w.ho * w.wo && c < w.c; m += 16) {
		const int64_t wo = m % w.wo, ho = m / w.wo % w.ho, n = m / (w.wo * w.ho);
		const int64_t h = ho * w.stride - w.pad + kh * g.dilation, v = wo * w.stride - w.pad + kw * g.dilation;

		if (h >= 0 && h < w.h && v >= 0 && v < w.w)
			sum += (double)value(x[((n * w.h + h) * w.w + v) * w.c + c]) * value(dout[m * w.c + c]);
	}
	part[y][lane] = sum;
	__syncthreads();
	if (y == 0 && c < w.c) {
		for (int r = 1; r < 16; r++)
			sum += part[r][lane];
		dweight[blockIdx.y * w.c + c] += (float)sum;
	}
}

unsigned blocks_of(int64_t count)
{
	const int64_t blocks = ceil_div(count, threads_each);

	return (unsigned)(blocks < 16384 ? blocks : 16384);
}

template <class T>
void backward(cudaStream_t s, T *dx, bool add, float *dweight, const T *dout, const T *x, const float *weight,
	      const cu_conv_groups &g)
{
	const int64_t count = g.win.n * g.win.h * g.win.w * g.win.c;
	const int64_t weights = g.o * g.win.kh * g.win.kw * (g.win.c / g.groups);

	if (dx)
		CU_RUN((data_kernel<T>), blocks_of(count), threads_each, s, dx, add, dout, weight, count, g);
	if (dweight && g.depthwise)
		CU_RUN((depthwise_weight_kernel<T>), dim3(ceil_div(g.o, 32), g.win.kh * g.win.kw), dim3(32, 16), s,
		       dweight, dout, x, g);
	else if (dweight)
		CU_RUN((weight_kernel<T>), (unsigned)weights, threads_weight, s, dweight, dout, x, g);
}

} // namespace

cudaError_t cu_grouped_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
			       const float *bias, const struct cu_conv_groups *g)
{
	const int64_t count = g->win.n * g->win.ho * g->win.wo * g->o;

#define CALL(T) \
	CU_RUN((forward_kernel<T>), blocks_of(count), threads_each, s, (T *)out, (const T *)x, weight, bias, count, *g)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_grouped_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight, const void *dout,
				const void *x, const float *weight, const struct cu_conv_groups *g)
{
#define CALL(T) backward(s, (T *)dx, add, dweight, (const T *)dout, (const T *)x, weight, *g)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}
