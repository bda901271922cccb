// Permute, resample and repeat.
#include "kernels/cuda/each.cuh"

namespace
{

// y [·, c, b, d] from x [·, b, c, d]
template <class T> struct Permute {
	T *y;
	const T *x;
	int64_t b, c, d;
	bool add;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t o = i / (b * c * d), at_c = i / (b * d) % c, at_b = i / d % b;

		put<V>(y + i, load<V>(x + ((o * b + at_b) * c + at_c) * d + i % d), add);
	}
};

// The same as sl_taps_of (common/graph/taps.h).
struct Taps {
	int64_t from, count;
	float first, rest;

	__device__ float of(int64_t j) const
	{
		return j < from || j >= from + count ? 0.f : j == from ? first : rest;
	}
};

__device__ Taps between(double at, int64_t n)
{
	const int64_t low = at < 0 ? 0 : (int64_t)at;
	const double part = at < 0 ? 0 : at - (double)low;

	return low + 1 < n ? Taps{low, 2, (float)(1 - part), (float)part} : Taps{n - 1, 1, 1.f, 1.f};
}

__device__ Taps taps_of(const cu_resample &r, int64_t i)
{
	const int64_t n = r.n, m = r.m, at = r.at + i * r.step;
	int64_t j = at, end;

	switch (r.mode) {
	case CU_RESAMPLE_REFLECT:
		j = j < 0 ? -j : j;
		return Taps{j < n ? j : 2 * (n - 1) - j, 1, 1.f, 1.f};
	case CU_RESAMPLE_EDGE:
		return Taps{j < 0 ? 0 : j < n ? j : n - 1, 1, 1.f, 1.f};
	case CU_RESAMPLE_NEAREST:
		return Taps{i * n / m, 1, 1.f, 1.f};
	case CU_RESAMPLE_LINEAR:
		return between(((double)i + 0.5) * (double)n / (double)m - 0.5, n);
	case CU_RESAMPLE_ALIGNED:
		return between(m > 1 ? (double)i * (double)(n - 1) / (double)(m - 1) : 0, n);
	case CU_RESAMPLE_AREA:
		j = i * n / m;
		end = ((i + 1) * n + m - 1) / m;
		return Taps{j, end - j, 1.f / (float)(end - j), 1.f / (float)(end - j)};
	case CU_RESAMPLE_MEAN:
		end = at + r.window < n ? at + r.window : n;
		j = at < 0 ? 0 : at;
		return Taps{j, end > j ? end - j : 0, 1.f / (float)r.window, 1.f / (float)r.window};
	default:
		return Taps{j, j >= 0 && j < n, 1.f, 1.f};
	}
}

template <class T> struct Resample {
	T *out;
	const T *x;
	cu_resample r;

	template <int V> __device__ void run(int64_t i) const
	{
		const int64_t c = i % r.inner, outer = i / r.inner / r.m;
		const Taps t = taps_of(r, i / r.inner % r.m);
		Vec<V> sum = zeros<V>();

		for (int64_t j = t.from; j < t.from + t.count; j++) {
			const Vec<V> v = load<V>(x + (outer * r.n + j) * r.inner + c);
#pragma unroll
			for (int k = 0; k < V; k++)
				sum.v[k] = fmaf(v.v[k], t.of(j), sum.v[k]);
		}
		store<V>(out + i, sum);
	}
};

// An input gets its gradient from all outputs that read it. Except with REFLECT, these outputs are
// contiguous, from the first one whose window ends behind the input.
template <class T> struct ResampleBack {
	T *dx;
	const T *dy;
	cu_resample r;
	bool add;

	__device__ int64_t first_reader(int64_t j) const
	{
		int64_t low = 0, high = r.m;

		if (r.mode == CU_RESAMPLE_REFLECT)
			return 0;
		while (low < high) {
			const int64_t middle = low + (high - low) / 2;
			const Taps t = taps_of(r, middle);

			if (t.from + t.count <= j && (t.count || t.from <= j))
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	template <int V> __device__ void run(int64_t at) const
	{
		const int64_t c = at % r.inner, j = at / r.inner % r.n, outer = at / r.inner / r.n;
		Vec<V> sum = zeros<V>();

		for (int64_t i = first_reader(j); i < r.m; i++) {
			const Taps t = taps_of(r, i);
			const float by = t.of(j);

			if (t.from > j && r.mode != CU_RESAMPLE_REFLECT)
				break;
			if (by == 0.f)
				continue;
			const Vec<V> v = load<V>(dy + (outer * r.m + i) * r.inner + c);
#pragma unroll
			for (int k = 0; k < V; k++)
				sum.v[k] = fmaf(v.v[k], by, sum.v[k]);
		}
		put<V>(dx + at, sum, add);
	}
};

template <class T> struct Repeat {
	T *out;
	const float *weight;
	int64_t n;

	template <int V> __device__ void run(int64_t i) const
	{
		store<V>(out + i, load<V>(weight + i % n));
	}
};

template <class T> struct RepeatSum {
	float *grad;
	const T *dy;
	int64_t rows, n;

	template <int V> __device__ void run(int64_t i) const
	{
		Vec<V> sum = load<V>(grad + i);

		for (int64_t row = 0; row < rows; row++) {
			const Vec<V> v = load<V>(dy + row * n + i);
#pragma unroll
			for (int k = 0; k < V; k++)
				sum.v[k] += v.v[k];
		}
		store<V>(grad + i, sum);
	}
};

} // namespace

cudaError_t cu_permute(cudaStream_t s, enum cu_type type, void *y, bool add, const void *x, int64_t b, int64_t c,
		       int64_t d, int64_t n)
{
	const bool vectors = d % 4 == 0 && aligned16(y) && aligned16(x);

#define CALL(T) return each(s, Permute<T>{(T *)y, (const T *)x, b, c, d, add}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_resample_forward(cudaStream_t s, enum cu_type type, void *out, const void *x,
				const struct cu_resample *r)
{
	const bool vectors = r->inner % 4 == 0 && aligned16(out) && aligned16(x);

#define CALL(T) return each(s, Resample<T>{(T *)out, (const T *)x, *r}, r->outer * r->m * r->inner, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_resample_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dy,
				 const struct cu_resample *r)
{
	const bool vectors = r->inner % 4 == 0 && aligned16(dx) && aligned16(dy);

#define CALL(T) return each(s, ResampleBack<T>{(T *)dx, (const T *)dy, *r, add}, r->outer * r->n * r->inner, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_repeat(cudaStream_t s, enum cu_type type, void *out, const float *weight, int64_t rows, int64_t n)
{
	const bool vectors = n % 4 == 0 && aligned16(out) && aligned16(weight);

#define CALL(T) return each(s, Repeat<T>{(T *)out, weight, n}, rows * n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_repeat_sum(cudaStream_t s, enum cu_type type, float *grad, const void *dy, int64_t rows, int64_t n)
{
	const bool vectors = n % 4 == 0 && aligned16(grad) && aligned16(dy);

#define CALL(T) return each(s, RepeatSum<T>{grad, (const T *)dy, rows, n}, n, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
