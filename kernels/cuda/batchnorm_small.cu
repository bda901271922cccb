// Batch normalisation over few rows, where launch overhead and latency dominate. One block processes 32 bytes of each
// row, from the sums to the output, in one launch. It keeps the values that it read in registers.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int small_threads = 512, small_warps = small_threads / 32;
constexpr int small_rows = 2048;

template <class T> struct Small {
	static constexpr int lanes = 8 / sizeof(T), ys = small_threads / lanes, width = lanes * 4; // 4 channels a lane
	static constexpr int kept = small_rows / ys; // most rows of a thread
};

// Sums sum[2][4] over the rows of the block. Threads 0 … width - 1 return true, with the two sums of channel
// `thread`.
template <int LANES> __device__ __forceinline__ bool block_sums(float (&sum)[2][4], double (&total)[2])
{
	__shared__ float part[small_warps][2][LANES * 4];
	const int lane = threadIdx.x, thread = threadIdx.y * LANES + lane;

#pragma unroll
	for (int k = 0; k < 2; k++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
#pragma unroll
			for (int step = LANES; step < 32; step *= 2)
				sum[k][i] += __shfl_xor_sync(~0u, sum[k][i], step);
			if (thread % 32 < LANES)
				part[thread / 32][k][lane * 4 + i] = sum[k][i];
		}
	__syncthreads();
	if (thread >= LANES * 4)
		return false;
	total[0] = total[1] = 0;
#pragma unroll
	for (int w = 0; w < small_warps; w++) {
		total[0] += part[w][0][thread];
		total[1] += part[w][1][thread];
	}
	return true;
}

template <class T, int ACT>
__global__ void __launch_bounds__(small_threads)
	small_forward_kernel(T *__restrict__ out, const T *__restrict__ x, float *mean, float *invstd, float *var,
			     const float *weight, const float *bias, float eps, double per_row, int m, int c)
{
	using S = Small<T>;
	__shared__ __align__(16) float coef[3][S::width]; // mean, scale, bias
	const int lane = threadIdx.x, thread = threadIdx.y * S::lanes + lane;
	const int first = blockIdx.x * S::width, channel = first + lane * 4;
	const bool inside = channel < c;
	float sum[2][4] = {};
	Raw<4, T> shift = {}, kept[S::kept];
	double total[2];

	if (inside) {
		shift = fetched<4>(true, x + channel);
#pragma unroll
		for (int r = 0; r < S::kept; r++) {
			const int row = threadIdx.y + r * S::ys;

			kept[r] = row < m ? fetched<4>(true, x + (int64_t)row * c + channel) : shift;
		}
#pragma unroll
		for (int r = 0; r < S::kept; r++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float d = kept[r][i] - shift[i];
				sum[0][i] += d;
				sum[1][i] = fmaf(d, d, sum[1][i]);
			}
	}
	if (block_sums<S::lanes>(sum, total) && first + thread < c) {
		const int ch = first + thread;
		const double d = total[0] * per_row;
		const float v = (float)fmax(total[1] * per_row - d * d, 0.), is = 1.f / sqrtf(v + eps);

		mean[ch] = coef[0][thread] = (float)(value(x[ch]) + d);
		var[ch] = v;
		invstd[ch] = is;
		coef[1][thread] = weight[ch] * is;
		coef[2][thread] = bias[ch];
	}
	__syncthreads();
	if (!inside || !out)
		return;
	const Vec<4> mu = load<4>(&coef[0][lane * 4]), a = load<4>(&coef[1][lane * 4]), b = load<4>(&coef[2][lane * 4]);
#pragma unroll
	for (int r = 0; r < S::kept; r++) {
		const int row = threadIdx.y + r * S::ys;

		if (row >= m)
			break;
		kept[r].forget();

		Vec<4> y = values<4>(kept[r]);
#pragma unroll
		for (int i = 0; i < 4; i++)
			y.v[i] = activate<ACT>(fmaf(y.v[i] - mu.v[i], a.v[i], b.v[i]));
		store<4>(out + (int64_t)row * c + channel, y);
	}
}

template <class T, int ACT>
__global__ void __launch_bounds__(small_threads)
	small_backward_kernel(T *__restrict__ dx, bool add, float *dweight, float *dbias, const T *__restrict__ dout,
			      const T *__restrict__ x, const float *mean, const float *invstd, const float *weight,
			      const float *bias, double per_row, int m, int c)
{
	using S = Small<T>;
	__shared__ __align__(16) float coef[2][S::width]; // means of the masked gradient, and of its product with
							  // x - mean
	const int lane = threadIdx.x, thread = threadIdx.y * S::lanes + lane;
	const int first = blockIdx.x * S::width, channel = first + lane * 4;
	const bool inside = channel < c;
	float sum[2][4] = {}, mu[4], a[4], b[4];
	Raw<4, T> kept_x[S::kept], kept_g[S::kept];
	double total[2];

	if (inside) {
#pragma unroll
		for (int r = 0; r < S::kept; r++) {
			const int row = threadIdx.y + r * S::ys;
			const int64_t at = (int64_t)row * c + channel;

			kept_x[r] = fetched<4>(row < m, x + at);
			kept_g[r] = fetched<4>(row < m, dout + at);
		}
#pragma unroll
		for (int i = 0; i < 4; i++) {
			mu[i] = mean[channel + i];
			a[i] = weight[channel + i] * invstd[channel + i];
			b[i] = bias[channel + i];
		}
#pragma unroll
		for (int r = 0; r < S::kept; r++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float d = kept_x[r][i] - mu[i];
				const float g = passes<ACT>(fmaf(d, a[i], b[i])) ? kept_g[r][i] : 0.f;
				sum[0][i] += g;
				sum[1][i] = fmaf(g, d, sum[1][i]);
			}
	}
	if (block_sums<S::lanes>(sum, total) && first + thread < c) {
		const int ch = first + thread;
		const double is = invstd[ch];

		if (dweight)
			dweight[ch] += (float)(total[1] * is);
		if (dbias)
			dbias[ch] += (float)total[0];
		coef[0][thread] = (float)(total[0] * per_row);
		coef[1][thread] = (float)(total[1] * per_row * is * is);
	}
	__syncthreads();
	if (!inside)
		return;
	const Vec<4> k0 = load<4>(&coef[0][lane * 4]), k1 = load<4>(&coef[1][lane * 4]);
#pragma unroll
	for (int r = 0; r < S::kept; r++) {
		const int row = threadIdx.y + r * S::ys;
		Vec<4> d;

		if (row >= m)
			break;
		kept_x[r].forget();
		kept_g[r].forget();
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const float e = kept_x[r][i] - mu[i];
			const float g = passes<ACT>(fmaf(e, a[i], b[i])) ? kept_g[r][i] : 0.f;
			d.v[i] = a[i] * (g - k0.v[i] - e * k1.v[i]);
		}
		put<4>(dx + (int64_t)row * c + channel, d, add);
	}
}

} // namespace

bool cu_bn_small(const struct cu_bn *bn, const void *a, const void *b)
{
	return bn->m <= small_rows && bn->c % 4 == 0 && aligned16(bn->x) && aligned16(a) && aligned16(b);
}

template <class T> static unsigned small_blocks(const struct cu_bn *bn)
{
	return (unsigned)ceil_div(bn->c, Small<T>::width);
}

template <class T> static void forward_small(cudaStream_t s, T *out, const struct cu_bn *bn)
{
	const dim3 block(Small<T>::lanes, Small<T>::ys);

#define CALL(ACT)                                                                                              \
	CU_RUN((small_forward_kernel<T, ACT>), small_blocks<T>(bn), block, s, out, (const T *)bn->x, bn->mean, \
	       bn->invstd, bn->var, bn->weight, bn->bias, bn->eps, 1. / (double)bn->m, (int)bn->m, (int)bn->c)
	CU_SWITCH_ACT(bn->act, CALL);
#undef CALL
}

cudaError_t cu_bn_forward_small(cudaStream_t s, void *out, const struct cu_bn *bn)
{
#define CALL(T) forward_small(s, (T *)out, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
	return cudaGetLastError();
}

template <class T>
static void backward_small(cudaStream_t s, T *dx, bool add, float *dweight, float *dbias, const T *dout,
			   const struct cu_bn *bn)
{
	const dim3 block(Small<T>::lanes, Small<T>::ys);

#define CALL(ACT)                                                                                             \
	CU_RUN((small_backward_kernel<T, ACT>), small_blocks<T>(bn), block, s, dx, add, dweight, dbias, dout, \
	       (const T *)bn->x, bn->mean, bn->invstd, bn->weight, bn->bias, 1. / (double)bn->m, (int)bn->m,  \
	       (int)bn->c)
	CU_SWITCH_ACT(bn->act, CALL);
#undef CALL
}

cudaError_t cu_bn_backward_small(cudaStream_t s, void *dx, bool add, float *dweight, float *dbias, const void *dout,
				 const struct cu_bn *bn)
{
#define CALL(T) backward_small(s, (T *)dx, add, dweight, dbias, (const T *)dout, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
	return cudaGetLastError();
}
