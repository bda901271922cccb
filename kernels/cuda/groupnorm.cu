// Group norm: sums over the pixels of each row and channel, then over the channels of each group, then the elements.
#include "kernels/cuda/each.cuh"

namespace
{

// Sums for each row and channel: Σx, Σ(x − mean)², or in backward Σdy and Σdy·x̂.
enum { SUM, SQUARES, BACK };

template <class T, int WHAT> struct PixelSums {
	const T *x, *dy;
	cu_groupnorm g;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t row = i / g.c, c = i % g.c, first = row * g.pixels * g.c + c;
		const float mean = g.stat[i], inv = g.stat[g.rows * g.c + i];
		double sum = 0, along = 0;

		for (int64_t p = 0; p < g.pixels; p++) {
			const float v = value(x[first + p * g.c]);

			if (WHAT == SUM)
				sum += v;
			if (WHAT == SQUARES)
				sum += (v - mean) * (v - mean);
			if (WHAT == BACK) {
				const float d = value(dy[first + p * g.c]);

				sum += d;
				along += d * ((v - mean) * inv);
			}
		}
		g.sums[i] = (float)sum;
		if (WHAT == BACK)
			g.sums[g.rows * g.c + i] = (float)along;
	}
};

// The mean over each group of a sum, times γ if given; stored for each channel of the group. SQUARES: as 1/σ.
template <int WHAT> struct Share {
	cu_groupnorm g;
	const float *gamma;
	float *sums, *to;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t each = g.c / g.groups, row = i / g.groups, first = i % g.groups * each;
		double all = 0;

		for (int64_t c = first; c < first + each; c++)
			all += sums[row * g.c + c] * (gamma ? gamma[c] : 1.f);
		all /= (double)(each * g.pixels);
		for (int64_t c = first; c < first + each; c++)
			to[row * g.c + c] = WHAT == SQUARES ? 1.f / sqrtf((float)all + g.eps) : (float)all;
	}
};

template <class T> struct Apply {
	T *y;
	const T *x;
	cu_groupnorm g;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t c = i % g.c, at = i / (g.pixels * g.c) * g.c + c;
		Vec<1> v;

		v.v[0] = (value(x[i]) - g.stat[at]) * g.stat[g.rows * g.c + at];
		v.v[0] = g.gamma ? v.v[0] * g.gamma[c] + g.beta[c] : v.v[0];
		store<1>(y + i, v);
	}
};

template <class T> struct Input {
	T *dx;
	const T *x, *dy;
	cu_groupnorm g;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t c = i % g.c, at = i / (g.pixels * g.c) * g.c + c, all = g.rows * g.c;
		const float inv = g.stat[all + at], h = (value(x[i]) - g.stat[at]) * inv;
		Vec<1> v;

		v.v[0] = (value(dy[i]) * (g.gamma ? g.gamma[c] : 1.f) - g.sums[at] - h * g.sums[all + at]) * inv;
		put<1>(dx + i, v, add);
	}
};

struct Params {
	cu_groupnorm g;
	float *dgamma, *dbeta;

	template <int V> __device__ void run(int64_t c) const
	{
		float gamma = 0, beta = 0;

		for (int64_t row = 0; row < g.rows; row++) {
			beta += g.sums[row * g.c + c];
			gamma += g.sums[(g.rows + row) * g.c + c];
		}
		if (dgamma)
			dgamma[c] += gamma;
		if (dbeta)
			dbeta[c] += beta;
	}
};

template <class T> cudaError_t forward(cudaStream_t s, T *y, const cu_groupnorm &g)
{
	const T *x = (const T *)g.x;
	const int64_t n = g.rows * g.c;
	cudaError_t err = each(s, PixelSums<T, SUM>{x, x, g}, n, false);

	if (!err)
		err = each(s, Share<SUM>{g, NULL, g.sums, g.stat}, g.rows * g.groups, false);
	if (!err)
		err = each(s, PixelSums<T, SQUARES>{x, x, g}, n, false);
	if (!err)
		err = each(s, Share<SQUARES>{g, NULL, g.sums, g.stat + n}, g.rows * g.groups, false);
	return err ? err : each(s, Apply<T>{y, x, g}, n * g.pixels, false);
}

template <class T>
cudaError_t backward(cudaStream_t s, T *dx, bool add, float *dgamma, float *dbeta, const T *dy, const cu_groupnorm &g)
{
	const T *x = (const T *)g.x;
	const int64_t n = g.rows * g.c;
	cudaError_t err = each(s, PixelSums<T, BACK>{x, dy, g}, n, false);

	if (!err && (dgamma || dbeta))
		err = each(s, Params{g, dgamma, dbeta}, g.c, false);
	if (err || !dx)
		return err;
	err = each(s, Share<SUM>{g, g.gamma, g.sums, g.sums}, g.rows * g.groups, false);
	if (!err)
		err = each(s, Share<SUM>{g, g.gamma, g.sums + n, g.sums + n}, g.rows * g.groups, false);
	return err ? err : each(s, Input<T>{dx, x, dy, g, add}, n * g.pixels, false);
}

} // namespace

cudaError_t cu_groupnorm_forward(cudaStream_t s, enum cu_type type, void *y, const struct cu_groupnorm *g)
{
#define CALL(T) return forward<T>(s, (T *)y, *g)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_groupnorm_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dgamma, float *dbeta,
				  const void *dy, const struct cu_groupnorm *g)
{
#define CALL(T) return backward<T>(s, (T *)dx, add, dgamma, dbeta, (const T *)dy, *g)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
