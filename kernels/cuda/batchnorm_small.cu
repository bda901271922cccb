// Batch normalisation over few rows, where launch overhead and latency dominate. One block processes 16
// channels from the sums to the output, in one launch. Forward keeps the values that it read in registers.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int batch = 4;                       // rows whose loads a thread of backward has in flight together
constexpr int small_lanes = 4, small_ys = 256; // lanes of 4 channels
constexpr int small_width = small_lanes * 4, warp_rows = 32 / small_lanes;
constexpr int small_kept = 8; // most rows of a thread
constexpr int small_rows = small_ys * small_kept;

// Sums sum[2][4] over the rows of the block. Threads 0 … 15 return true, with the two sums of channel
// `thread`.
__device__ __forceinline__ bool block_sums(float (&sum)[2][4], double (&total)[2])
{
	__shared__ float part[small_ys / warp_rows][2][small_width];
	const int lane = threadIdx.x, y = threadIdx.y, thread = y * small_lanes + lane;

#pragma unroll
	for (int k = 0; k < 2; k++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
#pragma unroll
			for (int step = small_lanes; step < 32; step *= 2)
				sum[k][i] += __shfl_xor_sync(~0u, sum[k][i], step);
			if (y % warp_rows == 0)
				part[y / warp_rows][k][lane * 4 + i] = sum[k][i];
		}
	__syncthreads();
	if (thread >= small_width)
		return false;
	total[0] = total[1] = 0;
#pragma unroll 8
	for (int w = 0; w < small_ys / warp_rows; w++) {
		total[0] += part[w][0][thread];
		total[1] += part[w][1][thread];
	}
	return true;
}

template <class T, int ACT>
__global__ void __launch_bounds__(small_lanes *small_ys)
	small_forward_kernel(T *__restrict__ out, const T *__restrict__ x, float *mean, float *invstd, float *var,
			     const float *weight, const float *bias, float eps, double per_row, int m, int c)
{
	__shared__ __align__(16) float coef[3][small_width]; // mean, scale, bias
	const int lane = threadIdx.x, thread = threadIdx.y * small_lanes + lane;
	const int first = blockIdx.x * small_width, channel = first + lane * 4;
	const bool inside = channel < c;
	float sum[2][4] = {};
	Vec<4> shift = zeros<4>(), kept[small_kept];
	double total[2];

	if (inside) {
		shift = load<4>(x + channel);
#pragma unroll
		for (int r = 0; r < small_kept; r++) {
			const int row = threadIdx.y + r * small_ys;

			kept[r] = row < m ? load<4>(x + (int64_t)row * c + channel) : shift;
		}
#pragma unroll
		for (int r = 0; r < small_kept; r++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float d = kept[r].v[i] - shift.v[i];
				sum[0][i] += d;
				sum[1][i] = fmaf(d, d, sum[1][i]);
			}
	}
	if (block_sums(sum, total) && first + thread < c) {
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
	if (!inside)
		return;
	const Vec<4> mu = load<4>(&coef[0][lane * 4]), a = load<4>(&coef[1][lane * 4]), b = load<4>(&coef[2][lane * 4]);
#pragma unroll
	for (int r = 0; r < small_kept; r++) {
		const int row = threadIdx.y + r * small_ys;

		if (row >= m)
			break;
#pragma unroll
		for (int i = 0; i < 4; i++)
			kept[r].v[i] = activate<ACT>(fmaf(kept[r].v[i] - mu.v[i], a.v[i], b.v[i]));
		store<4>(out + (int64_t)row * c + channel, kept[r]);
	}
}

template <class T, int ACT>
__global__ void __launch_bounds__(small_lanes *small_ys)
	small_backward_kernel(T *__restrict__ dx, bool add, float *dweight, float *dbias, const T *__restrict__ dout,
			      const T *__restrict__ x, const float *mean, const float *invstd, const float *weight,
			      const float *bias, double per_row, int m, int c)
{
	__shared__ __align__(16) float coef[2][small_width]; // means of the masked gradient, and of its product with
							     // x - mean
	const int lane = threadIdx.x, thread = threadIdx.y * small_lanes + lane;
	const int first = blockIdx.x * small_width, channel = first + lane * 4;
	const bool inside = channel < c;
	float sum[2][4] = {}, mu[4], a[4], b[4];
	double total[2];

	if (inside) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			mu[i] = mean[channel + i];
			a[i] = weight[channel + i] * invstd[channel + i];
			b[i] = bias[channel + i];
		}
		for (int begin = threadIdx.y; begin < m; begin += small_ys * batch) {
			Vec<4> xv[batch], gv[batch];

#pragma unroll
			for (int r = 0; r < batch; r++) {
				const int row = begin + r * small_ys;
				const int64_t at = (int64_t)row * c + channel;

				xv[r] = row < m ? load<4>(x + at) : zeros<4>();
				gv[r] = row < m ? load<4>(dout + at) : zeros<4>();
			}
#pragma unroll
			for (int r = 0; r < batch; r++)
#pragma unroll
				for (int i = 0; i < 4; i++) {
					const float d = xv[r].v[i] - mu[i];
					const float g = passes<ACT>(fmaf(d, a[i], b[i])) ? gv[r].v[i] : 0.f;
					sum[0][i] += g;
					sum[1][i] = fmaf(g, d, sum[1][i]);
				}
		}
	}
	if (block_sums(sum, total) && first + thread < c) {
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
#pragma unroll 2
	for (int row = threadIdx.y; row < m; row += small_ys) {
		const int64_t at = (int64_t)row * c + channel;
		const Vec<4> v = load<4>(x + at), gv = load<4>(dout + at);
		Vec<4> d;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const float e = v.v[i] - mu[i];
			const float g = passes<ACT>(fmaf(e, a[i], b[i])) ? gv.v[i] : 0.f;
			d.v[i] = a[i] * (g - k0.v[i] - e * k1.v[i]);
		}
		put<4>(dx + at, d, add);
	}
}

} // namespace

bool cu_bn_small(const struct cu_bn *bn, const void *a, const void *b)
{
	return bn->m <= small_rows && bn->c % 4 == 0 && aligned16(bn->x) && aligned16(a) && aligned16(b);
}

static unsigned small_blocks(const struct cu_bn *bn)
{
	return (unsigned)ceil_div(bn->c, small_width);
}

template <class T> static void forward_small(cudaStream_t s, T *out, const struct cu_bn *bn)
{
	const dim3 block(small_lanes, small_ys);

#define CALL(ACT)                                                                                           \
	CU_RUN((small_forward_kernel<T, ACT>), small_blocks(bn), block, s, out, (const T *)bn->x, bn->mean, \
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
	const dim3 block(small_lanes, small_ys);

#define CALL(ACT)                                                                                            \
	CU_RUN((small_backward_kernel<T, ACT>), small_blocks(bn), block, s, dx, add, dweight, dbias, dout,   \
	       (const T *)bn->x, bn->mean, bn->invstd, bn->weight, bn->bias, 1. / (double)bn->m, (int)bn->m, \
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
