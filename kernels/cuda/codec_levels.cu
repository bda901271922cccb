/* Affine codes and stochastic levels with one scale for the tensor, and their packing: quant, qsgd, terngrad. */
#include <float.h>
#include <math.h>

#include "kernels/cuda/codec_grid.h"
#include "kernels/cuda/philox.h"

enum { LANES = 16 /* of a sum of squares */, MEASURE_BLOCKS = 2048 };

/* ---- range. Ordered bits: unsigned integers in the order of the floats, so that one atomic finds the extremes. */

static __device__ __forceinline__ uint32_t ordered(float v)
{
	const uint32_t bits = __float_as_uint(v);

	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float from_ordered(uint32_t key)
{
	/* -0 becomes +0: which of them was met must not show */
	return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key) + 0.0f;
}

static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static __global__ void measure(uint32_t *status, const float *x, int64_t n)
{
	__shared__ uint32_t low[CU_THREADS], high[CU_THREADS], top[CU_THREADS];
	const unsigned t = threadIdx.x;
	uint32_t lo = 0, hi = 0, most = 0;

	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + t; first < n; first += (int64_t)gridDim.x * CU_TILE) {
#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const int64_t i = first + e * CU_THREADS;

			if (i < n) {
				const float v = x[i];

				lo = larger(lo, ~ordered(v));
				hi = larger(hi, ordered(v));
				most = larger(most, magnitude(v));
			}
		}
	}
	low[t] = lo;
	high[t] = hi;
	top[t] = most;
	for (unsigned width = CU_THREADS / 2; width > 0; width /= 2) {
		__syncthreads();
		if (t < width) {
			low[t] = larger(low[t], low[t + width]);
			high[t] = larger(high[t], high[t + width]);
			top[t] = larger(top[t], top[t + width]);
		}
	}
	if (t == 0) {
		atomicMax(&status[CU_STATUS_LOW], low[0]);
		atomicMax(&status[CU_STATUS_HIGH], high[0]);
		atomicMax(&status[CU_STATUS_NONFINITE], top[0]);
	}
}

cudaError_t cu_range(cudaStream_t s, uint32_t *status, const float *x, int64_t n)
{
	const int64_t tiles = cu_tiles(n), most = MEASURE_BLOCKS;

	return CU_LAUNCH(measure, tiles < most ? tiles : most, CU_THREADS, s, status, x, n);
}

/* ---- sums of squares: element i of a block in lane i % 16, in order; then lane j + lane j+8, +4, +2, +1 */

static __global__ void squares(double *partial, uint32_t *status, const float *x, int64_t n)
{
	__shared__ double sum[LANES];
	const int lane = (int)threadIdx.x, len = block_length(n);
	const float *at = x + (int64_t)blockIdx.x * CU_BLOCK;

	if (lane < LANES) {
		double total = 0;
		uint32_t top = 0;

		for (int i = lane; i < len; i += 16 * LANES) {
			float v[16];

			/* loads that do not wait for the sums */
#pragma unroll
			for (int e = 0; e < 16; e++)
				v[e] = i + e * LANES < len ? at[i + e * LANES] : 0.0f;
#pragma unroll
			for (int e = 0; e < 16; e++) {
				total += (double)v[e] * (double)v[e]; /* + 0 behind the end changes nothing */
				top = larger(top, magnitude(v[e]));
			}
		}
		sum[lane] = total;
		atomicMax(&status[CU_STATUS_NONFINITE], top);
	}
	for (int width = LANES / 2; width > 0; width /= 2) {
		__syncthreads();
		if (lane < width)
			sum[lane] += sum[lane + width];
	}
	if (lane == 0)
		partial[blockIdx.x] = sum[0];
}

cudaError_t cu_squares(cudaStream_t s, double *partial, uint32_t *status, const float *x, int64_t n)
{
	return CU_LAUNCH(squares, cu_blocks(n), 32, s, partial, status, x, n);
}

/* ---- the head of a payload */

static __global__ void head(struct cu_codes c, const double *partial, const uint32_t *status)
{
	float *out = (float *)(void *)c.payload, top;
	double sum = 0, norm;

	if (c.kind != CU_CODE_LEVELS) {
		out[0] = from_ordered(~status[CU_STATUS_LOW]);
		out[1] = from_ordered(status[CU_STATUS_HIGH]);
		return;
	}
	top = __uint_as_float(status[CU_STATUS_NONFINITE]);
	if (!partial) {
		out[0] = top;
		return;
	}
	sum = partial[0];
	for (int64_t b = 1; b < (c.n + CU_BLOCK - 1) / CU_BLOCK; b++)
		sum += partial[b];
	norm = sqrt(sum);
	out[0] = norm > (double)FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
}

cudaError_t cu_codes_head(cudaStream_t s, const struct cu_codes *c, const double *partial, const uint32_t *status)
{
	return CU_LAUNCH(head, 1, 1, s, *c, partial, status);
}

/* ---- codes */

struct affine {
	float pre, lo, inv, step, post, max;
};

/* sl_affine_of, in the same order. */
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

static __host__ __device__ __forceinline__ int head_bytes(const struct cu_codes *c)
{
	return c->kind == CU_CODE_LEVELS ? 4 : 8;
}

static __device__ __forceinline__ struct affine affine_of_head(const struct cu_codes *c)
{
	const float *in = (const float *)(const void *)c->payload;

	return c->kind == CU_CODE_LEVELS ? affine_of(0, in[0], c->most) : affine_of(in[0], in[1], c->most);
}

size_t cu_codes_bytes(const struct cu_codes *c)
{
	return (size_t)head_bytes(c) + (size_t)((c->n * c->bits + 7) / 8);
}

/* Nearest integer, ties to even, of 0 ≤ t < 2^22: the sum's own rounding does it. */
static __device__ __forceinline__ uint32_t nearest(float t)
{
	return __float_as_uint(t + 12582912.0f) - 0x4b400000u; /* 1.5 · 2^23 */
}

static __device__ __forceinline__ uint32_t stochastic(float t, uint32_t random, uint32_t most)
{
	const uint32_t code = (uint32_t)(int32_t)(t + (float)random * 1.52587890625e-5f); /* 2^-16 */

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

/* A tile of threads' codes, packed from shared memory: its words of the payload are whole, as CU_TILE · bits is a
 * multiple of 32. */
static __global__ void encode(struct cu_codes c, const float *x)
{
	__shared__ uint16_t code[CU_TILE];
	__shared__ uint32_t random[CU_TILE / 2];
	__shared__ struct affine a;
	const unsigned t = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE, left = c.n - first;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE;
	uint32_t *out =
		(uint32_t *)(void *)(c.payload + head_bytes(&c)) + (int64_t)blockIdx.x * (CU_TILE / 32) * c.bits;
	const int words = (len * c.bits + 31) / 32;

	if (t == 0)
		a = affine_of_head(&c);
	if (c.kind != CU_CODE_NEAREST) /* 16 bits an element: 8 of one block of Philox */
		philox_quad(&c.key, (uint32_t)(first / 8) + t, random + 4 * t);
	__syncthreads();
	for (int i = (int)t; i < CU_TILE; i += CU_THREADS)
		code[i] = i < len ? (uint16_t)code_of(&c, &a, x[first + i], random[i / 2] >> 16 * (i % 2) & 0xffffu)
				  : (uint16_t)0;
	__syncthreads();
	for (int w = (int)t; w < words; w += CU_THREADS) {
		int i = 32 * w / c.bits, held = (i + 1) * c.bits - 32 * w;
		uint32_t word = (uint32_t)code[i] >> (c.bits - held);

		for (; held < 32; held += c.bits)
			word |= (uint32_t)code[++i] << held;
		out[w] = word;
	}
}

cudaError_t cu_codes_encode(cudaStream_t s, const struct cu_codes *c, const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(c->n), CU_THREADS, s, *c, x);
}

static __device__ __forceinline__ uint32_t code_at(const struct cu_codes *c, int64_t i)
{
	const uint32_t *in = (const uint32_t *)(const void *)(c->payload + head_bytes(c));
	const int64_t bit = i * c->bits, w = bit / 32;
	const int shift = (int)(bit % 32);
	uint32_t v = in[w] >> shift;

	if (shift + c->bits > 32)
		v |= in[w + 1] << (32 - shift);
	return v & ((1u << c->bits) - 1);
}

static __global__ void check(uint32_t *status, struct cu_codes c)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	const uint32_t mask = (1u << (c.bits - 1)) - 1;
	bool bad = false;

	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		bad = bad || (i < c.n && (code_at(&c, i) & mask) > c.most);
	}
	if (bad)
		atomicMax(&status[CU_STATUS_BAD], 1u);
}

cudaError_t cu_codes_check(cudaStream_t s, uint32_t *status, const struct cu_codes *c)
{
	return CU_LAUNCH(check, cu_tiles(c->n), CU_THREADS, s, status, *c);
}

static __device__ __forceinline__ float at_most(float v, float max)
{
	return v < max ? v : max;
}

static __global__ void decode(float *x, struct cu_codes c)
{
	__shared__ struct affine a;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;

	if (threadIdx.x == 0)
		a = affine_of_head(&c);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < c.n) {
			const uint32_t code = code_at(&c, i);

			if (c.kind == CU_CODE_LEVELS) {
				const uint32_t level = code & ((1u << (c.bits - 1)) - 1);
				const float v = at_most((float)level * a.step * a.post, a.max);

				x[i] = code >> (c.bits - 1) ? -v : v;
			} else {
				x[i] = at_most((a.lo + (float)code * a.step) * a.post, a.max);
			}
		}
	}
}

cudaError_t cu_codes_decode(cudaStream_t s, float *x, const struct cu_codes *c)
{
	return CU_LAUNCH(decode, cu_tiles(c->n), CU_THREADS, s, x, *c);
}
