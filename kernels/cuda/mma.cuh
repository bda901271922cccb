// Products of small matrices by a warp on tensor cores.
#ifndef SL_KERNELS_CUDA_MMA_CUH
#define SL_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/device.cuh"

// 1: the code is for a device without TF32.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define CU_NO_TF32 1
#else
#define CU_NO_TF32 0
#endif

// Rounds to TF32, which has fp32's exponent and 11 bits of significand.
#ifdef __CUDACC__
__device__ __forceinline__ float rounded_tf32(float x)
{
#if !CU_NO_TF32
	uint32_t bits;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
	return __uint_as_float(bits);
#else
	return x;
#endif
}

// d [16, 8] += a [16, 8] · b [8, 8]; a and b are in TF32. Lane 4·g + t of the warp has
//   a[g][t], a[g + 8][t], a[g][t + 4], a[g + 8][t + 4]      b[t][g], b[t + 4][g]
//   d[g][2t], d[g][2t + 1], d[g + 8][2t], d[g + 8][2t + 1]
__device__ __forceinline__ void mma_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
#if !CU_NO_TF32
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
		     "{%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
		       "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#endif
}

// The two rows of a that this thread has elements of: rows[i][k] = a[g + 8i][k].
__device__ __forceinline__ void gather_rows(float (&rows)[2][8], const float (&a)[4])
{
#pragma unroll
	for (int k = 0; k < 8; k++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			rows[i][k] = __shfl_sync(~0u, a[i + k / 4 * 2], threadIdx.x % 32 / 4 * 4 + k % 4);
}
#else
inline float rounded_tf32(float x)
{
	return sim_tf32(x);
}

inline void mma_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
	sim_mma_tf32(d, a, b);
}

inline void gather_rows(float (&rows)[2][8], const float (&a)[4])
{
	sim_gather_rows(rows, a);
}
#endif

// The TF32 number next to x towards 0.
__device__ __forceinline__ float cut_tf32(float x)
{
	return __uint_as_float(__float_as_uint(x) & 0xffffe000);
}

// An fp32 value in memory that products round to TF32.
struct tf32 {
	float x;
};

__device__ __forceinline__ float value(tf32 x)
{
	return rounded_tf32(x.x);
}

// Where results are written, as fp32 or 16 bits.
template <class T> __device__ T *stored(T *to)
{
	return to;
}

__device__ inline float *stored(tf32 *to)
{
	return &to->x;
}

// d += a·b, with the elements that mma_tf32 has. SPLIT_A, SPLIT_B: a factor is fp32, and taken as the sum of two TF32
// numbers. The first one is cut, not rounded: that takes one instruction, and NaN stays NaN.
template <bool SPLIT_A, bool SPLIT_B>
__device__ __forceinline__ void add_product(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
	float high_a[4], high_b[2], low_a[4], low_b[2];

#pragma unroll
	for (int i = 0; i < 4; i++) {
		high_a[i] = SPLIT_A ? cut_tf32(a[i]) : a[i];
		low_a[i] = a[i] - high_a[i];
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		high_b[i] = SPLIT_B ? cut_tf32(b[i]) : b[i];
		low_b[i] = b[i] - high_b[i];
	}
	if (SPLIT_A)
		mma_tf32(d, low_a, high_b);
	if (SPLIT_B)
		mma_tf32(d, high_a, low_b);
	mma_tf32(d, high_a, high_b);
}

#endif
