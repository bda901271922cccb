// Ops over channels: gate (each channel times a number of its own), concat.
#include "kernels/cuda/each.cuh"

namespace
{

// V = 4 requires channels in multiples of 4, so that a vector lies within one pixel.
template <class T> struct Gate {
	T *out;
	const T *a, *by;
	int64_t c, per_row; // per_row: pixels · C
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> x = load<V>(a + i);
		const Vec<V> g = load<V>(by + i / per_row * c + i % c);
#pragma unroll
		for (int k = 0; k < V; k++)
			x.v[k] *= g.v[k];
		put<V>(out + i, x, add);
	}
};

// One thread for each row and channel: neighbouring threads read neighbouring channels.
template <class T> struct GateSums {
	T *out;
	const T *a, *b;
	int64_t c, pixels;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t first = i / c * pixels * c + i % c;
		Vec<V> sum = {};

		for (int64_t p = 0; p < pixels; p++) {
			const Vec<V> x = load<V>(a + first + p * c), y = load<V>(b + first + p * c);
#pragma unroll
			for (int k = 0; k < V; k++)
				sum.v[k] = fmaf(x.v[k], y.v[k], sum.v[k]);
		}
		put<V>(out + i, sum, add);
	}
};

template <class T> struct Concat {
	T *out;
	const T *x, *y;
	int64_t a, b;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t m = i / (a + b), c = i % (a + b);

		store<V>(out + i, load<V>(c < a ? x + m * a + c : y + m * b + c - a));
	}
};

template <class T> struct Take {
	T *out;
	const T *x;
	int64_t c, from, all;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		put<V>(out + i, load<V>(x + i / c * all + from + i % c), add);
	}
};

} // namespace

cudaError_t cu_gate(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *by, int64_t rows,
		    int64_t pixels, int64_t c)
{
	const bool vectors = c % 4 == 0 && aligned16(out) && aligned16(a) && aligned16(by);

#define CALL(T) \
	return each(s, Gate<T>{(T *)out, (const T *)a, (const T *)by, c, pixels * c, add}, rows * pixels * c, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_gate_sums(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *b,
			 int64_t rows, int64_t pixels, int64_t c)
{
#define CALL(T) return each(s, GateSums<T>{(T *)out, (const T *)a, (const T *)b, c, pixels, add}, rows * c, false)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_concat(cudaStream_t s, enum cu_type type, void *out, const void *x, int64_t a, const void *y, int64_t b,
		      int64_t m)
{
	const bool vectors = a % 4 == 0 && b % 4 == 0 && aligned16(out) && aligned16(x) && aligned16(y);

#define CALL(T) return each(s, Concat<T>{(T *)out, (const T *)x, (const T *)y, a, b}, m * (a + b), vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_take(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t c, int64_t from,
		    int64_t all, int64_t m)
{
	const bool vectors = c % 4 == 0 && from % 4 == 0 && all % 4 == 0 && aligned16(out) && aligned16(x);

#define CALL(T) return each(s, Take<T>{(T *)out, (const T *)x, c, from, all, add}, m * c, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
