// Element-wise kernels: activations, sums, dropout, the bias, the optimizer.
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/rows.cuh"

namespace
{

template <class T, int ACT> struct ActForward {
	T *out;
	const T *x;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> a = load<V>(x + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = activate<ACT>(a.v[k]);
		store<V>(out + i, a);
	}
};

template <class T, int ACT> struct ActBackward {
	T *dx;
	const T *dout, *x;
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

template <class T> struct Add {
	T *out;
	const T *a, *b;

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

template <class T> struct Copy {
	T *out;
	const T *x;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		put<V>(out + i, load<V>(x + i), add);
	}
};

template <class T> struct Scale {
	T *out;
	const T *x, *sign;
	float by, plus;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> a = load<V>(x + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = sign && value(sign[i + k]) > 0.f ? a.v[k] : fmaf(a.v[k], by, plus);
		put<V>(out + i, a, add);
	}
};

template <class T> struct Dropout {
	T *out;
	const T *x;
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

// The same for tokens. An element's draw does not depend on the lengths of other rows. With V = 4 the features are a
// multiple of 4, so that one call gives the random numbers of all V elements.
template <class T> struct DropoutTokens {
	T *out;
	const T *x;
	cu_philox key;
	cu_rows r;
	int64_t most;
	float p, scale;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t token = i / r.f, row = row_of(r, token);
		const int64_t by = (row * most + token - (int64_t)r.begin[row]) * r.f + i % r.f;
		Vec<V> a = load<V>(x + i);
		uint32_t word[4];

		philox_quad(&key, (uint32_t)(by >> 2), word);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = (float)(word[V > 1 ? k : by & 3] >> 8) * 0x1p-24f >= p ? a.v[k] * scale : 0.f;
		put<V>(out + i, a, add);
	}
};

template <class TO, class FROM> struct Convert {
	TO *out;
	const FROM *x;
	const float *scale;

	template <int V> __device__ void run(int64_t i) const
	{
		const float by = scale ? *scale : 1.f;
		Vec<V> a = load<V>(x + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] *= by;
		store<V>(out + i, a);
	}
};

struct Sgd {
	float *weight, *momentum;
	const float *grad;
	struct cu_sgd o;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> w = load<V>(weight + i), m = load<V>(momentum + i);
		const Vec<V> g0 = load<V>(grad + i);

#pragma unroll
		for (int k = 0; k < V; k++) {
			float g = fmaf(o.weight_decay, w.v[k], g0.v[k]);

			m.v[k] = fmaf(o.momentum, m.v[k], g);
			g = o.nesterov ? fmaf(o.momentum, m.v[k], g) : m.v[k];
			w.v[k] = fmaf(-o.lr, g, w.v[k]);
		}
		store<V>(momentum + i, m);
		store<V>(weight + i, w);
	}
};

// 28 bytes of memory traffic for each element hide the time of the square root and the division.
struct Adam {
	float *weight, *first, *second;
	const float *grad;
	struct cu_adam o;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> w = load<V>(weight + i), m = load<V>(first + i), v = load<V>(second + i);
		const Vec<V> g0 = load<V>(grad + i);

#pragma unroll
		for (int k = 0; k < V; k++) {
			const float g = fmaf(o.weight_decay, w.v[k], g0.v[k]);

			m.v[k] = fmaf(o.beta1, m.v[k], o.gain1 * g);
			v.v[k] = fmaf(o.beta2, v.v[k], o.gain2 * (g * g));
			w.v[k] = fmaf(o.keep, w.v[k], -(o.rate * m.v[k] / fmaf(sqrtf(v.v[k]), o.root, o.eps)));
		}
		store<V>(first + i, m);
		store<V>(second + i, v);
		store<V>(weight + i, w);
	}
};

// With V = 4, c is a multiple of 4.
template <class T> struct Bias {
	T *out;
	const float *bias;
	int64_t c;

	template <int V> __device__ void run(int64_t i) const
	{
		put<V>(out + i, load<V>(bias + i % c), true);
	}
};

__global__ void store_step_kernel(uint64_t *at, uint64_t step)
{
	*at = step;
}

} // namespace

template <class T>
static cudaError_t act_forward(cudaStream_t s, void *out, const void *x, int act, int64_t n, bool vectors)
{
#define CALL(ACT) return each(s, ActForward<T, ACT>{(T *)out, (const T *)x}, n, vectors)
	CU_SWITCH_ACT(act, CALL);
#undef CALL
}

cudaError_t cu_act_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, int act, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

#define CALL(T) return act_forward<T>(s, out, x, act, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

template <class T>
static cudaError_t act_backward(cudaStream_t s, void *dx, bool add, const void *dout, const void *x, int act, int64_t n,
				bool vectors)
{
#define CALL(ACT) return each(s, ActBackward<T, ACT>{(T *)dx, (const T *)dout, (const T *)x, add}, n, vectors)
	CU_SWITCH_ACT(act, CALL);
#undef CALL
}

cudaError_t cu_act_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout, const void *x,
			    int act, int64_t n)
{
	const bool vectors = aligned16(dx) && aligned16(dout) && aligned16(x);

#define CALL(T) return act_backward<T>(s, dx, add, dout, x, act, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_add(cudaStream_t s, enum cu_type type, void *out, const void *a, const void *b, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(a) && aligned16(b);

#define CALL(T) return each(s, Add<T>{(T *)out, (const T *)a, (const T *)b}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_copy(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

#define CALL(T) return each(s, Copy<T>{(T *)out, (const T *)x, add}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_scale(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, const void *sign, float by,
		     float plus, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

#define CALL(T) return each(s, Scale<T>{(T *)out, (const T *)x, (const T *)sign, by, plus, add}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_convert(cudaStream_t s, void *out, enum cu_type to, const void *x, enum cu_type from, const float *scale,
		       int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

	if (to != CU_F32 && from != CU_F32)
		return cudaErrorInvalidValue;
#define TO(T)   return each(s, Convert<T, float>{(T *)out, (const float *)x, scale}, n, vectors)
#define FROM(T) return each(s, Convert<float, T>{(float *)out, (const T *)x, scale}, n, vectors)
	if (from == CU_F32)
		CU_SWITCH_TYPE(to, TO);
	CU_SWITCH_TYPE(from, FROM);
#undef TO
#undef FROM
}

cudaError_t cu_dropout(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float p,
		       const struct cu_philox *key, const uint64_t *step, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);
	const float scale = 1.f / (1.f - p);

#define CALL(T) return each(s, Dropout<T>{(T *)out, (const T *)x, *key, step, p, scale, add}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_dropout_tokens(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float p,
			      const struct cu_philox *key, const struct cu_rows *r, int64_t most)
{
	const float scale = 1.f / (1.f - p);

#define CALL(T)                                                                                                   \
	return each(s, DropoutTokens<T>{(T *)out, (const T *)x, *key, *r, most, p, scale, add}, r->tokens * r->f, \
		    r->f % 4 == 0 && aligned16(out) && aligned16(x))
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_store_step(cudaStream_t s, uint64_t *at, uint64_t step)
{
	CU_RUN(store_step_kernel, 1, 1, s, at, step);
	return cudaGetLastError();
}

cudaError_t cu_bias(cudaStream_t s, enum cu_type type, void *out, const float *bias, int64_t m, int64_t c)
{
#define CALL(T) return each(s, Bias<T>{(T *)out, bias, c}, m * c, c % 4 == 0 && aligned16(out) && aligned16(bias))
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_sgd(cudaStream_t s, float *weight, const float *grad, float *momentum, const struct cu_sgd *sgd,
		   int64_t n)
{
	return each(s, Sgd{weight, momentum, grad, *sgd}, n,
		    aligned16(weight) && aligned16(grad) && aligned16(momentum));
}

cudaError_t cu_adam(cudaStream_t s, float *weight, const float *grad, float *first, float *second,
		    const struct cu_adam *adam, int64_t n)
{
	return each(s, Adam{weight, first, second, grad, *adam}, n,
		    aligned16(weight) && aligned16(grad) && aligned16(first) && aligned16(second));
}

cudaError_t cu_probe(void)
{
	cudaFuncAttributes attributes;

	return cudaFuncGetAttributes(&attributes, each_kernel<4, Bias<float>>);
}
