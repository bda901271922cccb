/* Codes with a scale for every group: a run of elements (block, sample, bucket), or a channel. Measured by group, then
 * coded as in codec_levels.cu, every element with its group's coefficients. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"
#include "kernels/cuda/philox.h"

enum { LANES = 16 /* of a sum of squares */, COLUMN_BLOCKS = 512, SMALL = CU_GROUP_SMALL };

static __device__ __forceinline__ int64_t group_of(const struct cu_grouped *g, int64_t i)
{
	return g->channels ? i % g->count : i / g->size;
}

static __device__ __forceinline__ int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static __device__ __forceinline__ void see(const struct cu_grouped *g, uint32_t *status, int64_t group, uint32_t low,
					   uint32_t high, uint32_t top)
{
	if (g->codes.kind == CU_CODE_LEVELS) {
		atomicMax(&g->high[group], top);
	} else {
		atomicMax(&g->low[group], low);
		atomicMax(&g->high[group], high);
	}
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
}

/* ---- small groups: a thread has one, and sums the squares of its lanes side by side */

static __device__ __forceinline__ double join_lanes(double *lane)
{
	/* every loop is counted, so that it is unrolled, and the lanes stay in registers */
#pragma unroll
	for (int j = 0; j < 8; j++)
		lane[j] += lane[j + 8];
#pragma unroll
	for (int j = 0; j < 4; j++)
		lane[j] += lane[j + 4];
	lane[0] += lane[2];
	lane[1] += lane[3];
	lane[0] += lane[1];
	return lane[0];
}

static __global__ void measure_small(struct cu_grouped g, uint32_t *status, const float *x)
{
	const int64_t group = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x, first = group * g.size;
	const int64_t len = lesser(g.size, g.codes.n - first);
	uint32_t low = 0, high = 0, top = 0;
	double lane[LANES];

	if (group >= g.count)
		return;
#pragma unroll
	for (int j = 0; j < LANES; j++)
		lane[j] = 0;
	for (int64_t i = 0; i < len; i += LANES) {
#pragma unroll
		for (int j = 0; j < LANES; j++)
			if (i + j < len) {
				const float v = x[first + i + j];

				lane[j] += (double)v * (double)v;
				low = larger(low, ~ordered(v));
				high = larger(high, ordered(v));
				top = larger(top, magnitude(v));
			}
	}
	if (g.partial)
		g.partial[group] = join_lanes(lane);
	see(&g, status, group, low, high, top);
}

/* ---- large ones: a block of threads has at most CU_BLOCK elements of one */

static __global__ void measure_large(struct cu_grouped g, uint32_t *status, const float *x)
{
	__shared__ uint32_t low[CU_THREADS], high[CU_THREADS], top[CU_THREADS];
	__shared__ double lane[LANES];
	const int64_t group = blockIdx.x / (unsigned)g.parts, part = blockIdx.x % (unsigned)g.parts;
	const int64_t first = group * g.size + part * CU_BLOCK;
	const int64_t stop = lesser(lesser(first + CU_BLOCK, (group + 1) * g.size), g.codes.n);
	const unsigned t = threadIdx.x;

	low[t] = 0;
	high[t] = 0;
	top[t] = 0;
	for (int64_t i = first + t; i < stop; i += CU_THREADS) {
		const float v = x[i];

		low[t] = larger(low[t], ~ordered(v));
		high[t] = larger(high[t], ordered(v));
		top[t] = larger(top[t], magnitude(v));
	}
	if (g.partial && t < LANES) {
		double sum = 0;

#pragma unroll 16
		for (int64_t i = first + t; i < stop; i += LANES)
			sum += (double)x[i] * (double)x[i];
		lane[t] = sum;
	}
	for (unsigned width = CU_THREADS / 2; width > 0; width /= 2) {
		__syncthreads();
		if (t < width) {
			low[t] = larger(low[t], low[t + width]);
			high[t] = larger(high[t], high[t + width]);
			top[t] = larger(top[t], top[t + width]);
		}
	}
	if (t != 0)
		return;
	if (g.partial)
		g.partial[blockIdx.x] = join_lanes(lane);
	/* the last group may have fewer parts */
	if (first < stop)
		see(&g, status, group, low[0], high[0], top[0]);
}

/* ---- channels: threads side by side, on as many rows as fit */

static __global__ void measure_columns(struct cu_grouped g, uint32_t *status, const float *x, int lanes)
{
	const int64_t rows = g.codes.n / g.count, step = CU_THREADS / lanes;
	const int64_t first = (int64_t)blockIdx.x * step + threadIdx.x / (unsigned)lanes;

	if ((int)threadIdx.x / lanes >= step)
		return;
	for (int64_t c = threadIdx.x % (unsigned)lanes; c < g.count; c += lanes) {
		uint32_t low = 0, high = 0, top = 0;

		for (int64_t row = first; row < rows; row += gridDim.x * step) {
			const float v = x[row * g.count + c];

			low = larger(low, ~ordered(v));
			high = larger(high, ordered(v));
			top = larger(top, magnitude(v));
		}
		if (first < rows)
			see(&g, status, c, low, high, top);
	}
}

cudaError_t cu_groups_measure(cudaStream_t s, const struct cu_grouped *g, uint32_t *status, const float *x)
{
	const int64_t rows = g->codes.n / g->count, most = COLUMN_BLOCKS;
	const int lanes = g->count < CU_THREADS ? (int)g->count : (int)CU_THREADS, step = CU_THREADS / lanes;
	cudaError_t err = cudaMemsetAsync(g->low, 0, (size_t)g->count * sizeof(*g->low), s);

	if (err == cudaSuccess)
		err = cudaMemsetAsync(g->high, 0, (size_t)g->count * sizeof(*g->high), s);
	if (err != cudaSuccess)
		return err;
	if (g->channels)
		return CU_LAUNCH(measure_columns, (rows + step - 1) / step < most ? (rows + step - 1) / step : most,
				 CU_THREADS, s, *g, status, x, lanes);
	if (g->size <= SMALL)
		return CU_LAUNCH(measure_small, (g->count + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, *g, status, x);
	return CU_LAUNCH(measure_large, g->count * g->parts, CU_THREADS, s, *g, status, x);
}

/* ---- heads and coefficients */

static __global__ void heads(struct cu_grouped g)
{
	const int64_t group = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x;
	const int64_t parts = g.size <= SMALL ? 1 : g.parts;
	float *out = (float *)(void *)g.codes.payload, top;
	double sum, norm;

	if (group >= g.count)
		return;
	if (g.codes.kind != CU_CODE_LEVELS) {
		out[2 * group] = from_ordered(~g.low[group]);
		out[2 * group + 1] = from_ordered(g.high[group]);
		hold_zero(&out[2 * group], &out[2 * group + 1], (int)g.codes.most, g.codes.bits);
		return;
	}
	top = __uint_as_float(g.high[group]);
	if (!g.partial) {
		out[group] = top;
		return;
	}
	sum = g.partial[group * parts];
	for (int64_t p = 1; p < parts; p++)
		sum += g.partial[group * parts + p];
	norm = sqrt(sum);
	out[group] = norm > (double)FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
}

cudaError_t cu_groups_heads(cudaStream_t s, const struct cu_grouped *g)
{
	return CU_LAUNCH(heads, (g->count + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, *g);
}

static __global__ void coefficients(struct cu_grouped g)
{
	const int64_t group = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x;
	const float *in = (const float *)(const void *)g.codes.payload;
	struct affine *out = (struct affine *)(void *)g.table;

	if (group >= g.count)
		return;
	out[group] = g.codes.kind == CU_CODE_LEVELS ? affine_of(0, in[group], g.codes.most)
						    : affine_of(in[2 * group], in[2 * group + 1], g.codes.most);
}

cudaError_t cu_groups_coefficients(cudaStream_t s, const struct cu_grouped *g)
{
	return CU_LAUNCH(coefficients, (g->count + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, *g);
}

/* ---- codes */

static __host__ __device__ __forceinline__ int64_t head_bytes(const struct cu_grouped *g)
{
	return g->count * (g->codes.kind == CU_CODE_LEVELS ? 4 : 8);
}

size_t cu_groups_bytes(const struct cu_grouped *g)
{
	return (size_t)head_bytes(g) + (size_t)((g->codes.n * g->codes.bits + 7) / 8);
}

static __global__ void encode(struct cu_grouped g, const float *x)
{
	__shared__ uint16_t code[CU_TILE];
	__shared__ uint32_t random[CU_TILE / 2];
	const struct affine *table = (const struct affine *)(const void *)g.table;
	const unsigned t = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE;
	const int len = (int)lesser(CU_TILE, g.codes.n - first);

	if (g.codes.kind != CU_CODE_NEAREST) /* 16 bits an element: 8 of one block of Philox */
		philox_quad(&g.codes.key, (uint32_t)(first / 8) + t, random + 4 * t);
	__syncthreads();
	for (int i = (int)t; i < CU_TILE; i += CU_THREADS) {
		uint32_t v = 0;

		if (i < len) {
			const struct affine a = table[group_of(&g, first + i)];

			v = code_of(&g.codes, &a, x[first + i], random[i / 2] >> 16 * (i % 2) & 0xffffu);
		}
		code[i] = (uint16_t)v;
	}
	__syncthreads();
	pack_tile(g.codes.payload + head_bytes(&g), code, len, g.codes.bits);
}

cudaError_t cu_groups_encode(cudaStream_t s, const struct cu_grouped *g, const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(g->codes.n), CU_THREADS, s, *g, x);
}

static __global__ void check(uint32_t *status, struct cu_grouped g)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	const uint32_t mask = (1u << (g.codes.bits - 1)) - 1;
	bool bad = false;

	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		bad = bad || (i < g.codes.n &&
			      (unpack_at(g.codes.payload + head_bytes(&g), i, g.codes.bits) & mask) > g.codes.most);
	}
	if (bad)
		atomicMax(&status[CU_STATUS_BAD], 1u);
}

cudaError_t cu_groups_check(cudaStream_t s, uint32_t *status, const struct cu_grouped *g)
{
	return CU_LAUNCH(check, cu_tiles(g->codes.n), CU_THREADS, s, status, *g);
}

static __global__ void decode(float *x, const uint32_t *refused, struct cu_grouped g)
{
	const struct affine *table = (const struct affine *)(const void *)g.table;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;

	if (refused != NULL && *refused != 0)
		return;
#pragma unroll 2
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < g.codes.n) {
			const struct affine a = table[group_of(&g, i)];

			x[i] = value_of_code(&g.codes, &a,
					     unpack_at(g.codes.payload + head_bytes(&g), i, g.codes.bits));
		}
	}
}

cudaError_t cu_groups_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_grouped *g)
{
	return CU_LAUNCH(decode, cu_tiles(g->codes.n), CU_THREADS, s, x, refused, *g);
}
