// Everything that looks at one element at a time: activations, sums, dropout, the bias, the optimizer.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 256;

// F::run<V>(i) does elements i … i + V - 1. With V = 4 the last n % 4 elements go one by one.
template <int V, class F> __global__ void __launch_bounds__(threads_per_block) each_kernel(F f, int64_t n)
{
	const int64_t stride = (int64_t)gridDim.x * blockDim.x;
	const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

#pragma unroll 2
	for (int64_t i = first; i < n / V; i += stride)
		f.template run<V>(i * V);
	if (V > 1 && first < n % V)
		f.template run<1>(n / V * V + first);
}

template <class F> cudaError_t each(cudaStream_t s, F f, int64_t n, bool vectors)
{
	int64_t blocks = ceil_div(vectors ? ceil_div(n, 4) : n, threads_per_block);

	if (n == 0)
		return cudaSuccess;
	if (blocks > 8192)
		blocks = 8192;
	if (vectors)
		each_kernel<4><<<(unsigned)blocks, threads_per_block, 0, s>>>(f, n);
	else
		each_kernel<1><<<(unsigned)blocks, threads_per_block, 0, s>>>(f, n);
	return cudaGetLastError();
}

template <int ACT> struct ActForward {
	float *out;
	const float *x;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> a = load<V>(x + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = activate<ACT>(a.v[k]);
		store<V>(out + i, a);
	}
};

template <int ACT> struct ActBackward {
	float *dx;
	const float *dout, *x;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const Vec<V> a = load<V>(x + i);
		Vec<V> g = load<V>(dout + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			g.v[k] = passes<ACT>(a.v[k]) ? g.v[k] : 0.f;
		put<V>(dx + i, g, add);
	}
};

struct Add {
	float *out;
	const float *a, *b;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> x = load<V>(a + i);
		const Vec<V> y = load<V>(b + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			x.v[k] += y.v[k];
		store<V>(out + i, x);
	}
};

struct Copy {
	float *out;
	const float *x;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		put<V>(out + i, load<V>(x + i), add);
	}
};

struct Dropout {
	float *out;
	const float *x;
	cu_philox key;
	const uint64_t *step;
	float p, scale;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> a = load<V>(x + i);
		cu_philox now = key;
		uint32_t word[4];

		if (step)
			now.step = *step;
		philox_quad(&now, (uint32_t)(i >> 2), word);
#pragma unroll
		for (int k = 0; k < V; k++) {
			const uint32_t w = V == 4 ? word[k] : word[i & 3];

			a.v[k] = (float)(w >> 8) * 0x1p-24f >= p ? a.v[k] * scale : 0.f;
		}
		put<V>(out + i, a, add);
	}
};

struct Sgd {
	float *weight, *momentum;
	const float *grad;
	struct cu_sgd o;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> w = load<V>(weight + i), m = zeros<V>();
		const Vec<V> g0 = load<V>(grad + i);

		if (!o.first)
			m = load<V>(momentum + i);
#pragma unroll
		for (int k = 0; k < V; k++) {
			float g = fmaf(o.weight_decay, w.v[k], g0.v[k]);

			m.v[k] = o.first ? g : fmaf(o.momentum, m.v[k], g);
			g = o.nesterov ? fmaf(o.momentum, m.v[k], g) : m.v[k];
			w.v[k] = fmaf(-o.lr, g, w.v[k]);
		}
		store<V>(momentum + i, m);
		store<V>(weight + i, w);
	}
};

__global__ void bias_kernel(float *out, const float *bias, int64_t n, int c)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		out[i] += bias[i % c];
}

__global__ void store_step_kernel(uint64_t *at, uint64_t step)
{
	*at = step;
}

} // namespace

cudaError_t cu_act_forward(cudaStream_t s, float *out, const float *x, int act, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

#define CALL(ACT) return each(s, ActForward<ACT>{out, x}, n, vectors)
	CU_SWITCH_ACT(act, CALL);
#undef CALL
}

cudaError_t cu_act_backward(cudaStream_t s, float *dx, bool add, const float *dout, const float *x, int act, int64_t n)
{
	const bool vectors = aligned16(dx) && aligned16(dout) && aligned16(x);

#define CALL(ACT) return each(s, ActBackward<ACT>{dx, dout, x, add}, n, vectors)
	CU_SWITCH_ACT(act, CALL);
#undef CALL
}

cudaError_t cu_add(cudaStream_t s, float *out, const float *a, const float *b, int64_t n)
{
	return each(s, Add{out, a, b}, n, aligned16(out) && aligned16(a) && aligned16(b));
}

cudaError_t cu_copy(cudaStream_t s, float *out, bool add, const float *x, int64_t n)
{
	return each(s, Copy{out, x, add}, n, aligned16(out) && aligned16(x));
}

cudaError_t cu_dropout(cudaStream_t s, float *out, bool add, const float *x, float p, const struct cu_philox *key,
		       const uint64_t *step, int64_t n)
{
	return each(s, Dropout{out, x, *key, step, p, 1.f / (1.f - p), add}, n, aligned16(out) && aligned16(x));
}

cudaError_t cu_store_step(cudaStream_t s, uint64_t *at, uint64_t step)
{
	store_step_kernel<<<1, 1, 0, s>>>(at, step);
	return cudaGetLastError();
}

cudaError_t cu_bias(cudaStream_t s, float *out, const float *bias, int64_t m, int64_t c)
{
	const int64_t blocks = ceil_div(m * c, threads_per_block);

	bias_kernel<<<(unsigned)(blocks < 8192 ? blocks : 8192), threads_per_block, 0, s>>>(out, bias, m * c, (int)c);
	return cudaGetLastError();
}

cudaError_t cu_sgd(cudaStream_t s, float *weight, const float *grad, float *momentum, const struct cu_sgd *sgd,
		   int64_t n)
{
	return each(s, Sgd{weight, momentum, grad, *sgd}, n,
		    aligned16(weight) && aligned16(grad) && aligned16(momentum));
}

cudaError_t cu_probe(void)
{
	cudaFuncAttributes attributes;

	return cudaFuncGetAttributes(&attributes, bias_kernel);
}
