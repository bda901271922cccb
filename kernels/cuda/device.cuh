// What the .cu files share: vectors of floats, launch arithmetic, the activation.
#ifndef SL_KERNELS_CUDA_DEVICE_CUH
#define SL_KERNELS_CUDA_DEVICE_CUH

#include "kernels/cuda/launch.h"
#include "kernels/cuda/philox.h"

template <int V> struct alignas(4 * V) Vec {
	float v[V];
};

template <int V> __device__ __forceinline__ Vec<V> load(const float *p)
{
	return *reinterpret_cast<const Vec<V> *>(p);
}

template <int V> __device__ __forceinline__ void store(float *p, const Vec<V> &x)
{
	*reinterpret_cast<Vec<V> *>(p) = x;
}

// Writes, or adds to what is there.
template <int V> __device__ __forceinline__ void put(float *p, Vec<V> x, bool add)
{
	if (add) {
		const Vec<V> old = load<V>(p);
#pragma unroll
		for (int i = 0; i < V; i++)
			x.v[i] += old.v[i];
	}
	store<V>(p, x);
}

template <int V> __device__ __forceinline__ Vec<V> zeros()
{
	Vec<V> x;
#pragma unroll
	for (int i = 0; i < V; i++)
		x.v[i] = 0.f;
	return x;
}

template <int ACT> __device__ __forceinline__ float activate(float x)
{
	if (ACT == CU_ACT_NONE)
		return x;
	if (ACT == CU_ACT_RELU)
		return x < 0.f ? 0.f : x; // NaN passes, as on the CPU
	return x < 0.f ? 0.f : (x > 6.f ? 6.f : x);
}

// 1 where the activation lets the gradient through, given its input.
template <int ACT> __device__ __forceinline__ bool passes(float x)
{
	if (ACT == CU_ACT_NONE)
		return true;
	if (ACT == CU_ACT_RELU)
		return x > 0.f;
	return x > 0.f && x < 6.f;
}

static inline bool aligned16(const void *p)
{
	return ((uintptr_t)p & 15) == 0; // NULL is
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

// Threads of a block over [rows, C]: `lanes` (at most `most`) of V channels times `ys` rows; `tiles` blocks side by
// side cover C.
struct Columns {
	int lanes, ys, tiles;
};

static inline Columns columns_of(int64_t c, int v, int threads, int most)
{
	const int64_t vectors = c / v;
	Columns g;

	g.tiles = (int)ceil_div(vectors, most);
	g.lanes = (int)ceil_div(vectors, g.tiles);
	g.ys = threads / g.lanes;
	return g;
}

// Chooses a template argument from the activation.
#define CU_SWITCH_ACT(act, CALL)                    \
	do {                                        \
		if ((act) == CU_ACT_RELU) {         \
			CALL(CU_ACT_RELU);          \
		} else if ((act) == CU_ACT_RELU6) { \
			CALL(CU_ACT_RELU6);         \
		} else {                            \
			CALL(CU_ACT_NONE);          \
		}                                   \
	} while (0)

#endif
