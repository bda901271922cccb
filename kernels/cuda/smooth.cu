// Activations with exponentials, and products of two tensors.
#include "kernels/cuda/each.cuh"

namespace
{

struct Point {
	float y, slope;
};

// x·σ(v) and its slope; dv is the slope of v
__device__ __forceinline__ Point gated(float x, float v, float dv)
{
	const float gate = 1.f / (1.f + expf(-v)), rest = 1.f / (1.f + expf(v));

	return {x * gate, gate + x * gate * rest * dv};
}

// GELU's Φ comes from erfc, which stays accurate where Φ is small.
template <int KIND> __device__ __forceinline__ Point smooth_at(float x)
{
	if (KIND == CU_SMOOTH_GELU) {
		const float below = 0.5f * erfcf(-x * 0.70710678f);

		return {x * below, below + x * 0.398942280f * expf(-0.5f * x * x)};
	}
	if (KIND == CU_SMOOTH_GELU_TANH)
		return gated(x, x * (0.0713548163f * x * x + 1.59576912f), 0.214064449f * x * x + 1.59576912f);
	if (KIND == CU_SMOOTH_SILU)
		return gated(x, x, 1.f);
	if (KIND == CU_SMOOTH_SIGMOID) {
		const float y = 1.f / (1.f + expf(-x)), rest = 1.f / (1.f + expf(x));

		return {y, y * rest};
	}
	if (KIND == CU_SMOOTH_HARDSIGMOID || KIND == CU_SMOOTH_HARDSWISH) {
		const float h = x < -3.f ? 0.f : x > 3.f ? 1.f : x * 0.166666667f + 0.5f;

		if (KIND == CU_SMOOTH_HARDSWISH)
			return {x * h, x < -3.f ? 0.f : x > 3.f ? 1.f : x * 0.333333333f + 0.5f};
		return {h, fabsf(x) < 3.f ? 0.166666667f : 0.f};
	}
	if (KIND == CU_SMOOTH_ELU)
		return x > 0.f ? Point{x, 1.f} : Point{expm1f(x), expf(x)};
	if (KIND == CU_SMOOTH_SOFTPLUS)
		return {(x > 0.f ? x : 0.f * x) + log1pf(expf(-fabsf(x))), 1.f / (1.f + expf(-x))};
	if (KIND == CU_SMOOTH_EXP)
		return {expf(x), expf(x)};
	if (KIND == CU_SMOOTH_LOG)
		return {logf(x), 1.f / x};
	if (KIND == CU_SMOOTH_SQRT)
		return {sqrtf(x), 0.5f / sqrtf(x)};
	if (KIND == CU_SMOOTH_RECIPROCAL)
		return {1.f / x, -1.f / x / x};
	const float y = tanhf(x);

	return {y, 1.f - y * y};
}

template <class T, int KIND> struct SmoothForward {
	T *out;
	const T *x;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> a = load<V>(x + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = smooth_at<KIND>(a.v[k]).y;
		store<V>(out + i, a);
	}
};

template <class T, int KIND> struct SmoothBackward {
	T *dx;
	const T *dout, *x;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const Vec<V> a = load<V>(x + i);
		Vec<V> g = load<V>(dout + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			g.v[k] *= smooth_at<KIND>(a.v[k]).slope;
		put<V>(dx + i, g, add);
	}
};

template <class T> struct Mul {
	T *out;
	const T *a, *b;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> x = load<V>(a + i);
		const Vec<V> y = load<V>(b + i);
#pragma unroll
		for (int k = 0; k < V; k++)
			x.v[k] *= y.v[k];
		put<V>(out + i, x, add);
	}
};

} // namespace

#define SWITCH_KIND(kind, CALL)                               \
	do {                                                  \
		if ((kind) == CU_SMOOTH_GELU) {               \
			CALL(CU_SMOOTH_GELU);                 \
		} else if ((kind) == CU_SMOOTH_SILU) {        \
			CALL(CU_SMOOTH_SILU);                 \
		} else if ((kind) == CU_SMOOTH_TANH) {        \
			CALL(CU_SMOOTH_TANH);                 \
		} else if ((kind) == CU_SMOOTH_SIGMOID) {     \
			CALL(CU_SMOOTH_SIGMOID);              \
		} else if ((kind) == CU_SMOOTH_HARDSIGMOID) { \
			CALL(CU_SMOOTH_HARDSIGMOID);          \
		} else if ((kind) == CU_SMOOTH_HARDSWISH) {   \
			CALL(CU_SMOOTH_HARDSWISH);            \
		} else if ((kind) == CU_SMOOTH_ELU) {         \
			CALL(CU_SMOOTH_ELU);                  \
		} else if ((kind) == CU_SMOOTH_SOFTPLUS) {    \
			CALL(CU_SMOOTH_SOFTPLUS);             \
		} else if ((kind) == CU_SMOOTH_EXP) {         \
			CALL(CU_SMOOTH_EXP);                  \
		} else if ((kind) == CU_SMOOTH_LOG) {         \
			CALL(CU_SMOOTH_LOG);                  \
		} else if ((kind) == CU_SMOOTH_SQRT) {        \
			CALL(CU_SMOOTH_SQRT);                 \
		} else if ((kind) == CU_SMOOTH_RECIPROCAL) {  \
			CALL(CU_SMOOTH_RECIPROCAL);           \
		} else {                                      \
			CALL(CU_SMOOTH_GELU_TANH);            \
		}                                             \
	} while (0)

template <class T>
static cudaError_t forward(cudaStream_t s, void *out, const void *x, enum cu_smooth kind, int64_t n, bool vectors)
{
#define CALL(KIND) return each(s, SmoothForward<T, KIND>{(T *)out, (const T *)x}, n, vectors)
	SWITCH_KIND(kind, CALL);
#undef CALL
}

cudaError_t cu_smooth_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, enum cu_smooth kind,
			      int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(x);

#define CALL(T) return forward<T>(s, out, x, kind, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

template <class T>
static cudaError_t backward(cudaStream_t s, void *dx, bool add, const void *dout, const void *x, enum cu_smooth kind,
			    int64_t n, bool vectors)
{
#define CALL(KIND) return each(s, SmoothBackward<T, KIND>{(T *)dx, (const T *)dout, (const T *)x, add}, n, vectors)
	SWITCH_KIND(kind, CALL);
#undef CALL
}

cudaError_t cu_smooth_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout, const void *x,
			       enum cu_smooth kind, int64_t n)
{
	const bool vectors = aligned16(dx) && aligned16(dout) && aligned16(x);

#define CALL(T) return backward<T>(s, dx, add, dout, x, kind, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_mul(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *b, int64_t n)
{
	const bool vectors = aligned16(out) && aligned16(a) && aligned16(b);

#define CALL(T) return each(s, Mul<T>{(T *)out, (const T *)a, (const T *)b, add}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
