/* Shared by the kernels of packed codes: floats ordered as integers, coefficients, packing. C and CUDA C++. */
#ifndef SL_KERNELS_CUDA_CODEC_CODES_H
#define SL_KERNELS_CUDA_CODEC_CODES_H

#include <float.h>
#include <math.h>

#include "kernels/cuda/codec_grid.h"
#include "kernels/cuda/philox.h"

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

enum {
	CU_LANES = 16,  /* of a sum of squares */
	CU_ADDERS = 32, /* threads that add: one warp */
	CU_LOADERS = CU_THREADS - CU_ADDERS,
	CU_SUM_TILE = CU_LOADERS * CU_EACH
};

/* Sums of squares in the order of sl_codec_loops.sum_squares: element i in lane i % 16, in order; then lane j
 * + lane j + 8, + 4, + 2, + 1. Sixteen threads of the first warp add a tile, while the other warps square the next
 * one and load those behind it. Thread 0 has the sum; each thread has the largest magnitude that it loaded. */
static __device__ __forceinline__ struct seen look_at(const float *x, int len)
{
	__shared__ double tile[2][CU_SUM_TILE];
	const int t = (int)threadIdx.x, at = t - CU_ADDERS;
	float next[2][CU_EACH];
	struct seen seen;

	seen.low = 0;
	seen.high = 0;
	seen.top = 0;
	seen.squares = 0;
#pragma unroll
	for (int i = 0; i < 2 * CU_EACH; i++)
		next[i / CU_EACH][i % CU_EACH] = at >= 0 && i * CU_LOADERS + at < len ? x[i * CU_LOADERS + at] : 0.0f;
	for (int first = 0; first < len; first += 2 * CU_SUM_TILE) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			if (at >= 0) {
#pragma unroll
				for (int e = 0; e < CU_EACH; e++) {
					tile[h][e * CU_LOADERS + at] = (double)next[h][e] * (double)next[h][e];
					seen.top = larger(seen.top, magnitude(next[h][e]));
				}
#pragma unroll
				for (int e = 0; e < CU_EACH; e++) {
					const int i = first + (2 + h) * CU_SUM_TILE + e * CU_LOADERS + at;

					next[h][e] = i < len ? x[i] : 0.0f;
				}
			}
			__syncthreads();
			if (t < CU_LANES) {
#pragma unroll 16
				for (int i = t; i < CU_SUM_TILE; i += CU_LANES) /* zeros behind the end change no sum */
					seen.squares += tile[h][i];
			}
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
static __device__ __forceinline__ void hold_zero(float *min, float *max, int levels)
{
	const int digits = 24 - (32 - __clz(levels));
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
	step = ldexp(ceil(ldexp(step, digits)), exponent - digits);
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

/* As random_halves in common/codec/loops.h, for element e of the eight that share four words: a word has the halves of
 * two neighbours. */
static __device__ __forceinline__ uint32_t random_of(const uint32_t word[4], int e)
{
	return e % 2 ? word[e / 2] : word[e / 2] << 16 | word[e / 2] >> 16;
}

/* As in common/codec/body_codes.h. */
static __device__ __forceinline__ uint32_t stochastic(float t, uint32_t random, uint32_t most)
{
	const int32_t below = (int32_t)t, chance = (int32_t)((t - (float)below) * 2147483648.0f); /* 2^31 */
	const uint32_t code = (uint32_t)(below + ((int32_t)(random >> 1) < chance));

	return code < most ? code : most;
}

static __device__ __forceinline__ uint32_t code_of(enum cu_code_kind kind, const struct cu_codes *c,
						   const struct affine *a, float v, uint32_t random)
{
	if (kind == CU_CODE_NEAREST)
		return nearest((v * a->pre - a->lo) * a->inv);
	if (kind == CU_CODE_STOCHASTIC)
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

/* The value of element i of the tensor, from its code. Dither comes off as in common/codec/quant.c. */
static __device__ __forceinline__ float value_at(const struct cu_codes *c, const struct affine *a, uint32_t code,
						 int64_t i)
{
	float v = value_of_code(c, a, code);
	uint32_t random[4];

	if (!c->dither)
		return v;
	philox_quad(&c->key, (uint32_t)(i / CU_EACH), random);
	v += ((float)(random_of(random, (int)(i % CU_EACH)) >> 1) * 0x1p-31f - 0.5f) * (a->step * a->post);
	return v < -FLT_MAX ? -FLT_MAX : at_most(v, FLT_MAX);
}

/* Writes a thread's eight codes to the tile in shared memory, where they are `bits` bytes. */
static __device__ __forceinline__ void pack_eight(uint32_t *tile, const uint32_t code[CU_EACH], int bits)
{
	uint8_t *bytes = (uint8_t *)tile + (int)threadIdx.x * bits;
	uint64_t low = code[2] | code[3] << bits, high = code[6] | code[7] << bits;

	low = code[0] | code[1] << bits | low << 2 * bits;
	high = code[4] | code[5] << bits | high << 2 * bits;
	if (bits < 16) { /* four codes do not fill 64 bits */
		low |= high << 4 * bits;
		high >>= 64 - 4 * bits;
	}
	if (bits % 4 == 0) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (4 * i < bits)
				((uint32_t *)(void *)bytes)[i] =
					(uint32_t)(i < 2 ? low >> 32 * i : high >> (32 * i - 64));
		return;
	}
#pragma unroll
	for (int i = 0; i < 16; i++) {
		if (i >= bits)
			break;
		bytes[i] = (uint8_t)(i < 8 ? low >> 8 * i : high >> (8 * i - 64));
	}
}

/* Writes a tile's packed codes to their bit stream, as whole words: CU_TILE · bits is a multiple of 32. Codes behind
 * the last one are 0. */
static __device__ __forceinline__ void write_tile(uint8_t *stream, int64_t number, const uint32_t *tile, int len,
						  int bits)
{
	uint32_t *out = (uint32_t *)(void *)stream + number * (CU_TILE / 32) * bits;
	const int words = (len * bits + 31) / 32;

	__syncthreads();
	for (int w = (int)threadIdx.x; w < words; w += CU_THREADS)
		out[w] = tile[w];
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
