// Neighbouring slices of volumes side by side in the channels.
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/window.h"

namespace
{

// V = 4 requires channels in multiples of 4, so that a vector lies within one part of a pixel.
template <class T> struct Spread {
	T *wide;
	const T *narrow;
	cu_slices w;
	bool add;

	template <int V> __device__ void run(int64_t e) const
	{
		const int64_t c = e % w.c, i = e / w.c % w.k, pixel = e / w.c / w.k;
		const int64_t slice = pixel / w.plane, v = slice / w.out;
		const int64_t at = slice % w.out * w.stride - w.pad + i * w.dilation;
		Vec<V> x = zeros<V>();

		if (at >= 0 && at < w.d)
			x = load<V>(narrow + ((v * w.d + at) * w.plane + pixel % w.plane) * w.c + c);
		put<V>(wide + e, x, add);
	}
};

// The parts of a slice are added up in the order of the slices that they come from.
template <class T> struct Collect {
	T *narrow;
	const T *wide;
	cu_slices w;
	bool add;

	template <int V> __device__ void run(int64_t e) const
	{
		const int64_t c = e % w.c, pixel = e / w.c, slice = pixel / w.plane, v = slice / w.d;
		Vec<V> sum = zeros<V>();

		for (int64_t i = w.k - 1; i >= 0; i--) {
			const int64_t far = slice % w.d + w.pad - i * w.dilation, o = far / w.stride;

			if (far < 0 || far % w.stride || o >= w.out)
				continue;
			const Vec<V> x =
				load<V>(wide + (((v * w.out + o) * w.plane + pixel % w.plane) * w.k + i) * w.c + c);
#pragma unroll
			for (int k = 0; k < V; k++)
				sum.v[k] += x.v[k];
		}
		put<V>(narrow + e, sum, add);
	}
};

} // namespace

cudaError_t cu_window_spread(cudaStream_t s, enum cu_type type, void *wide, bool add, const void *narrow,
			     const struct cu_slices *w)
{
	const bool vectors = w->c % 4 == 0 && aligned16(wide) && aligned16(narrow);

#define CALL(T)                                                                                                  \
	return each(s, Spread<T>{(T *)wide, (const T *)narrow, *w, add}, w->n * w->out * w->plane * w->k * w->c, \
		    vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_window_collect(cudaStream_t s, enum cu_type type, void *narrow, bool add, const void *wide,
			      const struct cu_slices *w)
{
	const bool vectors = w->c % 4 == 0 && aligned16(wide) && aligned16(narrow);

#define CALL(T) \
	return each(s, Collect<T>{(T *)narrow, (const T *)wide, *w, add}, w->n * w->d * w->plane * w->c, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
