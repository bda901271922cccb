/* Shared by the kernels of packed codes: floats ordered as integers, coefficients, packing. C and CUDA C++. */
#ifndef SL_KERNELS_CUDA_CODEC_CODES_H
#define SL_KERNELS_CUDA_CODEC_CODES_H

#include <float.h>
#include <math.h>

#include "kernels/cuda/codec_grid.h"

/* Maps floats to unsigned integers of the same order, so that one atomic finds the extremes. */
static __device__ __forceinline__ uint32_t ordered(float v)
{
	const uint32_t bits = __float_as_uint(v);

	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float from_ordered(uint32_t key)
{
	/* -0 becomes +0: the result must not depend on which of them was met */
	return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key) + 0.0f;
}

static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---- what a block of CU_THREADS threads measures of up to CU_BLOCK elements */

struct seen {
	uint32_t low, high, top; /* ~ordered bits of the least, ordered bits of the largest, largest magnitude */
	double squares;          /* their sum */
};

static __device__ __forceinline__ void see_value(struct seen *to, float v)
{
	to->low = larger(to->low, ~ordered(v));
	to->high = larger(to->high, ordered(v));
	to->top = larger(to->top, magnitude(v));
}

/* Reduces the extremes over all threads; thread 0 has the result. */
static __device__ __forceinline__ void join_extremes(struct seen *to)
{
	__shared__ uint32_t low[CU_THREADS], high[CU_THREADS], top[CU_THREADS];
	const unsigned t = threadIdx.x;

	low[t] = to->low;
	high[t] = to->high;
	top[t] = to->top;
	for (unsigned width = CU_THREADS / 2; width > 0; width /= 2) {
		__syncthreads();
		if (t < width) {
			low[t] = larger(low[t], low[t + width]);
			high[t] = larger(high[t], high[t + width]);
			top[t] = larger(top[t], top[t + width]);
		}
	}
	to->low = low[t];
	to->high = high[t];
	to->top = top[t];
}

enum { CU_LANES = 16 /* of a sum of squares */, CU_RUN = 16, CU_SUM_TILE = CU_THREADS * CU_RUN };

/* Sums of squares in the order of sl_codec_loops.sum_squares: element i in lane i % 16, in order; then lane j
 * + lane j + 8, + 4, + 2, + 1. Sixteen threads add; all threads load the next tile meanwhile. Thread 0 has
 * the sum; each thread has the extremes of the elements that it loaded. */
static __device__ __forceinline__ struct seen look_at(const float *x, int len)
{
	__shared__ float tile[CU_SUM_TILE];
	const int t = (int)threadIdx.x;
	struct seen seen;
	float next[CU_RUN];

	seen.low = 0;
	seen.high = 0;
	seen.top = 0;
	seen.squares = 0;
#pragma unroll
	for (int e = 0; e < CU_RUN; e++)
		next[e] = e * CU_THREADS + t < len ? x[e * CU_THREADS + t] : 0.0f;
	for (int first = 0; first < len; first += CU_SUM_TILE) {
		__syncthreads();
#pragma unroll
		for (int e = 0; e < CU_RUN; e++) {
			tile[e * CU_THREADS + t] = next[e];
			if (first + e * CU_THREADS + t < len)
				see_value(&seen, next[e]);
		}
		__syncthreads();
#pragma unroll
		for (int e = 0; e < CU_RUN; e++) {
			const int i = first + CU_SUM_TILE + e * CU_THREADS + t;

			next[e] = i < len ? x[i] : 0.0f;
		}
		if (t < CU_LANES) {
#pragma unroll 16
			for (int i = t; i < CU_SUM_TILE; i += CU_LANES) /* zeros behind the end change no sum */
				seen.squares += (double)tile[i] * (double)tile[i];
		}
	}
	for (int width = CU_LANES / 2; width > 0; width /= 2)
		seen.squares += __shfl_down_sync(~0u, seen.squares, (unsigned)width);
	return seen;
}

struct affine {
	float pre, lo, inv, step, post, max;
};

/* sl_affine_of, with the same operations in the same order. */
static __device__ __forceinline__ struct affine affine_of(float min, float max, uint32_t levels)
{
	const double range = (double)max - (double)min;
	struct affine a;
	double pre = 1;

	a.pre = 1;
	a.lo = min;
	a.inv = 0;
	a.step = 0;
	a.post = 1;
	a.max = max;
	if (range == 0)
		return a;
	if (range > (double)FLT_MAX)
		pre = 0.5;
	else if (range < 5.421010862427522e-20) /* 2^-64 */
		pre = 18446744073709551616.0;   /* 2^64 */
	a.pre = (float)pre;
	a.lo = (float)((double)min * pre);
	a.inv = (float)((double)levels / (range * pre));
	a.step = (float)(range * pre / (double)levels);
	a.post = (float)(1 / pre);
	return a;
}

static __device__ __forceinline__ double step_around(double lo, double hi, int z, int levels)
{
	return z < 1 || z >= levels ? HUGE_VAL : fmax(lo / z, hi / (levels - z));
}

/* sl_affine_hold_zero, with the same operations in the same order. */
static __device__ __forceinline__ void hold_zero(float *min, float *max, int levels, int bits)
{
	const double lo = -(double)*min, hi = (double)*max, range = lo + hi;
	double step, other;
	int z, exponent;

	if (!(lo > 0 && hi > 0) || range < 5.421010862427522e-20 || range > (double)(FLT_MAX / 2)) /* 2^-64 */
		return;
	z = (int)(lo * levels / range);
	step = step_around(lo, hi, z, levels);
	other = step_around(lo, hi, z + 1, levels);
	if (other < step) {
		step = other;
		z++;
	}
	if (step * levels > range * 1.125)
		return;
	step = frexp(step, &exponent);
	step = ldexp(ceil(ldexp(step, 24 - bits)), exponent - (24 - bits));
	*min = (float)(-z * step);
	*max = (float)((levels - z) * step);
}

/* Nearest integer, ties to even, for 0 ≤ t < 2^22: the sum's own rounding gives it. */
static __device__ __forceinline__ uint32_t nearest(float t)
{
	return __float_as_uint(t + 12582912.0f) - 0x4b400000u; /* 1.5 · 2^23 */
}

static __device__ __forceinline__ float at_most(float v, float max)
{
	return v < max ? v : max;
}

/* As random_halves in common/codec/loops.h; `word` has the halves of elements i and i ^ 1. */
static __device__ __forceinline__ uint32_t half_on_top(uint32_t word, int i)
{
	return i % 2 ? word : word << 16 | word >> 16;
}

/* As in common/codec/body_codes.h. */
static __device__ __forceinline__ uint32_t stochastic(float t, uint32_t random, uint32_t most)
{
	const int32_t below = (int32_t)t, chance = (int32_t)((t - (float)below) * 2147483648.0f); /* 2^31 */
	const uint32_t code = (uint32_t)(below + ((int32_t)(random >> 1) < chance));

	return code < most ? code : most;
}

static __device__ __forceinline__ uint32_t code_of(const struct cu_codes *c, const struct affine *a, float v,
						   uint32_t random)
{
	if (c->kind == CU_CODE_NEAREST)
		return nearest((v * a->pre - a->lo) * a->inv);
	if (c->kind == CU_CODE_STOCHASTIC)
		return stochastic((v * a->pre - a->lo) * a->inv, random, c->most);
	{
		const uint32_t level = stochastic((v < 0 ? -v : v) * a->pre * a->inv, random, c->most);

		return level | (uint32_t)(v < 0 && level > 0) << (c->bits - 1);
	}
}

static __device__ __forceinline__ float value_of_code(const struct cu_codes *c, const struct affine *a, uint32_t code)
{
	const uint32_t level = code & ((1u << (c->bits - 1)) - 1);
	float v;

	if (c->kind != CU_CODE_LEVELS)
		return at_most((a->lo + (float)code * a->step) * a->post, a->max);
	v = at_most((float)level * a->step * a->post, a->max);
	return code >> (c->bits - 1) ? -v : v;
}

/* Writes this block's tile of a bit stream from its codes in shared memory, as whole words: CU_TILE · bits is
 * a multiple of 32. Codes behind the last one are 0. */
static __device__ __forceinline__ void pack_tile(uint8_t *stream, const uint16_t *code, int len, int bits)
{
	uint32_t *out = (uint32_t *)(void *)stream + (int64_t)blockIdx.x * (CU_TILE / 32) * bits;
	const int words = (len * bits + 31) / 32;

	for (int w = (int)threadIdx.x; w < words; w += CU_THREADS) {
		int i = 32 * w / bits, held = (i + 1) * bits - 32 * w;
		uint32_t word = (uint32_t)code[i] >> (bits - held);

		for (; held < 32; held += bits)
			word |= (uint32_t)code[++i] << held;
		out[w] = word;
	}
}

/* May read up to four bytes behind the code. */
static __device__ __forceinline__ uint32_t unpack_at(const uint8_t *stream, int64_t i, int bits)
{
	const uint32_t *in = (const uint32_t *)(const void *)stream;
	const int64_t bit = i * bits, w = bit / 32;
	const int shift = (int)(bit % 32);
	uint32_t v = in[w] >> shift;

	if (shift + bits > 32)
		v |= in[w + 1] << (32 - shift);
	return v & ((1u << bits) - 1);
}

#endif
