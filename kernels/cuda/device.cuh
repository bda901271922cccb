// Shared by the .cu files: storage types, vectors of values, launch arithmetic, the activation.
#ifndef SL_KERNELS_CUDA_DEVICE_CUH
#define SL_KERNELS_CUDA_DEVICE_CUH

#include "kernels/cuda/launch.h"
#include "kernels/cuda/philox.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#ifdef __CUDACC__
// Launches on stream `s`. Tests on a CPU define it otherwise (tests/support/cuda_sim).
#define CU_RUN(kernel, grid, block, s, ...) (kernel)<<<(grid), (block), 0, (s)>>>(__VA_ARGS__)
#endif

// The two 16-bit storage types. Arithmetic is in float: kernels are templates over the types that they load
// and store.
struct bf16 {
	uint16_t bits;
};
struct f16 {
	uint16_t bits;
};

__device__ __forceinline__ float value(float x)
{
	return x;
}

__device__ __forceinline__ float value(bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

__device__ __forceinline__ float value(f16 x)
{
	return __half2float(__ushort_as_half(x.bits));
}

// Rounds to nearest, ties to even; values beyond the range give Inf, NaN stays NaN.
template <class T> __device__ __forceinline__ T rounded(float x);

template <> __device__ __forceinline__ float rounded<float>(float x)
{
	return x;
}

template <> __device__ __forceinline__ bf16 rounded<bf16>(float x)
{
	// CUDA 12.0 has __bfloat16_as_ushort only from sm_80 on
	return {static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x};
}

template <> __device__ __forceinline__ f16 rounded<f16>(float x)
{
	return {__half_as_ushort(__float2half_rn(x))};
}

// Fetches p's line into the L2.
__device__ __forceinline__ void cu_prefetch(const void *p)
{
#ifdef __CUDA_ARCH__
	asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
	(void)p;
#endif
}

template <int V> struct alignas(4 * V) Vec {
	float v[V];
};

// V values as stored in memory.
template <int V, class T> struct alignas(sizeof(T) * V) Pack {
	T v[V];
};

// The value in a word, or in half `half` of it.
template <class T> __device__ __forceinline__ float value_in(uint32_t word, int half)
{
	if constexpr (sizeof(T) == sizeof(float))
		return __uint_as_float(word);
	else
		return value(T{(uint16_t)(word >> half * 16)});
}

// V values as they are loaded, in whole registers. As floats those of 16 bits would take twice as many.
template <int V, class T> struct alignas(sizeof(T) * V) Raw {
	using Word = typename std::conditional<(sizeof(T) * V < 4), uint16_t, uint32_t>::type;
	static constexpr int words = sizeof(T) * V / sizeof(Word);
	Word w[words];

	__device__ __forceinline__ float operator[](int i) const
	{
		constexpr int halves = 4 / sizeof(T);

		return value_in<T>(w[i / halves], i % halves);
	}
	// The compiler forgets what the values are as floats, and converts them anew where it needs them.
	__device__ __forceinline__ void forget()
	{
#ifdef __CUDA_ARCH__
#pragma unroll
		for (int i = 0; i < words; i++)
			asm volatile("" : "+r"(w[i]));
#endif
	}
};

// What the kernel itself writes must be read by `load`, because words and values are different types.
template <int V, class T> __device__ __forceinline__ Raw<V, T> fetched(bool inside, const T *p)
{
	return inside ? *reinterpret_cast<const Raw<V, T> *>(p) : Raw<V, T>{};
}

template <int V, class T> __device__ __forceinline__ Vec<V> values(const Raw<V, T> &raw)
{
	Vec<V> x;
#pragma unroll
	for (int i = 0; i < V; i++)
		x.v[i] = raw[i];
	return x;
}

template <int V, class T> __device__ __forceinline__ Vec<V> load(const T *p)
{
	const Pack<V, T> raw = *reinterpret_cast<const Pack<V, T> *>(p);
	Vec<V> x;
#pragma unroll
	for (int i = 0; i < V; i++)
		x.v[i] = value(raw.v[i]);
	return x;
}

template <int V, class T> __device__ __forceinline__ void store(T *p, const Vec<V> &x)
{
	Pack<V, T> raw;
#pragma unroll
	for (int i = 0; i < V; i++)
		raw.v[i] = rounded<T>(x.v[i]);
	*reinterpret_cast<Pack<V, T> *>(p) = raw;
}

// Stores x, or adds it.
template <int V, class T> __device__ __forceinline__ void put(T *p, Vec<V> x, bool add)
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

// Whether the activation passes the gradient on, given the activation's input.
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
	return ((uintptr_t)p & 15) == 0; // true for NULL
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

// Threads of a block over [rows, C]: `lanes` threads (at most `most`) of V channels each, times `ys` rows.
// `tiles` such blocks cover C.
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

// Calls CALL with the template argument of a storage type.
#define CU_SWITCH_TYPE(type, CALL)             \
	do {                                   \
		if ((type) == CU_BF16) {       \
			CALL(bf16);            \
		} else if ((type) == CU_F16) { \
			CALL(f16);             \
		} else {                       \
			CALL(float);           \
		}                              \
	} while (0)

// Calls CALL with the template argument of an activation.
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
