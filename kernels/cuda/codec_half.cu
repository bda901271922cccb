/* IEEE half and bfloat16, rounded as in common/codec/body_codes.h; copies, checks and sums of plain values. */
#include "kernels/cuda/codec_grid.h"

static __device__ __forceinline__ uint32_t f16_of(uint32_t m)
{
	m = m < 0x477fe000u ? m : 0x477fe000u;
	if (m >= 0x38800000u)
		return (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
	/* subnormal: adding 0.5, whose last bit is 2^-24, rounds to the right unit */
	return __float_as_uint(__uint_as_float(m) + 0.5f) - 0x3f000000u;
}

static __global__ void to_half(uint16_t *out, uint32_t *status, const float *x, bool bf16, int64_t most,
			       const uint32_t *said)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x, n = counted(most, said);
	uint32_t bits[CU_EACH], top = 0;

	if (said != NULL && first == 0)
		status[CU_STATUS_BYTES] = (uint32_t)(n * (int)sizeof(*out));
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		bits[e] = i < n ? __float_as_uint(x[i]) : 0;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;
		const uint32_t m = bits[e] & 0x7fffffffu;

		top = m > top ? m : top;
		if (i < n)
			out[i] = (uint16_t)((bf16 ? bf16_of(m) : f16_of(m)) | (bits[e] >> 16 & 0x8000u));
	}
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
}

cudaError_t cu_to_half(cudaStream_t s, uint16_t *out, uint32_t *status, const float *x, bool bf16, int64_t n,
		       const uint32_t *said)
{
	return CU_LAUNCH(to_half, cu_tiles(n), CU_THREADS, s, out, status, x, bf16, n, said);
}

static __device__ __forceinline__ float f16_value(uint32_t h)
{
	const uint32_t m = h & 0x7fffu;
	uint32_t bits;

	if (m >= 0x7c00u)
		bits = m << 13 | 0x7f800000u | (m > 0x7c00u ? 0x00400000u : 0);
	else if (m >= 0x0400u)
		bits = (m << 13) + 0x38000000u;
	else
		bits = __float_as_uint((float)m * 5.9604644775390625e-8f); /* 2^-24 */
	return __uint_as_float(bits | (h & 0x8000u) << 16);
}

static __global__ void from_half(float *x, const uint16_t *in, bool bf16, int64_t most, const uint32_t *said)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x, n = counted(most, said);
	uint32_t half[CU_EACH];

#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		half[e] = i < n ? in[i] : 0;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < n)
			x[i] = bf16 ? __uint_as_float(half[e] << 16) : f16_value(half[e]);
	}
}

cudaError_t cu_from_half(cudaStream_t s, float *x, const uint16_t *in, bool bf16, int64_t n, const uint32_t *said)
{
	return CU_LAUNCH(from_half, cu_tiles(n), CU_THREADS, s, x, in, bf16, n, said);
}

static __global__ void copy_said(float *out, uint32_t *status, const float *x, int64_t most, const uint32_t *said)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x, n = counted(most, said);
	float v[CU_EACH];

	if (first == 0)
		status[CU_STATUS_BYTES] = (uint32_t)(n * (int)sizeof(*out));
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		v[e] = first + e * CU_THREADS < n ? x[first + e * CU_THREADS] : 0.0f;
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		if (first + e * CU_THREADS < n)
			out[first + e * CU_THREADS] = v[e];
}

cudaError_t cu_copy_said(cudaStream_t s, float *out, uint32_t *status, const float *x, int64_t n, const uint32_t *said)
{
	return CU_LAUNCH(copy_said, cu_tiles(n), CU_THREADS, s, out, status, x, n, said);
}

static __global__ void check_finite(uint32_t *status, const float *x, int64_t n)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	uint32_t top = 0;

#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;
		const uint32_t m = i < n ? magnitude(x[i]) : 0;

		top = m > top ? m : top;
	}
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
}

cudaError_t cu_check_finite(cudaStream_t s, uint32_t *status, const float *x, int64_t n)
{
	return CU_LAUNCH(check_finite, cu_tiles(n), CU_THREADS, s, status, x, n);
}

static __global__ void combine(float *out, const float *a, const float *b, float sign, int64_t n)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	float sum[CU_EACH];

#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		sum[e] = i < n ? a[i] + sign * b[i] : 0.0f;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		if (first + e * CU_THREADS < n)
			out[first + e * CU_THREADS] = sum[e];
}

cudaError_t cu_combine(cudaStream_t s, float *out, const float *a, const float *b, float sign, int64_t n)
{
	return CU_LAUNCH(combine, cu_tiles(n), CU_THREADS, s, out, a, b, sign, n);
}

enum { CARRY_BLOCKS = 16 };

static __global__ void carry(uint64_t *host, const uint64_t *from, const uint32_t *bytes, int64_t most)
{
	const int64_t len = (int64_t)*bytes < most ? (int64_t)*bytes : most, words = len / 8;
	const int64_t first = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x;

	for (int64_t i = first; i < words; i += CARRY_BLOCKS * CU_THREADS)
		host[i] = from[i];
	if (first < len % 8)
		((uint8_t *)host)[words * 8 + first] = ((const uint8_t *)from)[words * 8 + first];
}

cudaError_t cu_carry(cudaStream_t s, void *host, const void *from, const uint32_t *bytes, int64_t most)
{
	return CU_LAUNCH(carry, CARRY_BLOCKS, CU_THREADS, s, (uint64_t *)host, (const uint64_t *)from, bytes, most);
}
