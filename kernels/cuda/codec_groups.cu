/* Codes with a scale for every group: a run of elements (block, sample, bucket), or a channel. Groups are
 * measured, then elements are coded as in codec_levels.cu, each with its group's coefficients. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"

enum {
	GROUPS = CU_THREADS / CU_LANES /* small groups of a block of threads */,
	COLUMN_BLOCKS = 512,
	SMALL = CU_GROUP_SMALL
};

static __device__ __forceinline__ int64_t group_of(const struct cu_grouped *g, int64_t i)
{
	const int64_t by = g->channels ? g->count : g->size;

	/* a 64-bit division takes the device as long as all its other work on an element */
	if (g->codes.n >> 32 == 0)
		return g->channels ? (uint32_t)i % (uint32_t)by : (uint32_t)i / (uint32_t)by;
	return g->channels ? i % by : i / by;
}

/* The number of groups. With `said`, groups are never channels. */
static __device__ __forceinline__ void count_groups(struct cu_grouped *g)
{
	if (g->codes.said == NULL)
		return;
	g->codes.n = counted(g->codes.n, g->codes.said);
	g->count = (g->codes.n + g->size - 1) / g->size;
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

/* ---- small groups: 16 threads each; a thread is one lane of the sum of squares */

static __global__ void measure_small(struct cu_grouped g, uint32_t *status, const float *x)
{
	__shared__ uint32_t low[CU_THREADS], high[CU_THREADS], top[CU_THREADS];
	__shared__ double lane[CU_THREADS];
	const unsigned t = threadIdx.x, mine = t % CU_LANES;
	const int64_t group = (int64_t)blockIdx.x * GROUPS + t / CU_LANES, first = group * g.size;
	struct seen seen;
	int len;

	count_groups(&g);
	len = group < g.count ? (int)lesser(g.size, g.codes.n - first) : 0;
	seen.low = 0;
	seen.high = 0;
	seen.top = 0;
	seen.squares = 0;
#pragma unroll 8
	for (int i = (int)mine; i < len; i += CU_LANES) {
		const float v = x[first + i];

		seen.squares += (double)v * (double)v;
		see_value(&seen, v);
	}
	low[t] = seen.low;
	high[t] = seen.high;
	top[t] = seen.top;
	lane[t] = seen.squares;
	for (unsigned width = CU_LANES / 2; width > 0; width /= 2) {
		__syncthreads();
		if (mine < width) {
			low[t] = larger(low[t], low[t + width]);
			high[t] = larger(high[t], high[t + width]);
			top[t] = larger(top[t], top[t + width]);
			lane[t] += lane[t + width];
		}
	}
	if (mine != 0 || group >= g.count)
		return;
	if (g.partial)
		g.partial[group] = lane[t];
	see(&g, status, group, low[t], high[t], top[t]);
}

/* ---- large groups: a block of threads has at most CU_BLOCK elements of one */

static __global__ void measure_large(struct cu_grouped g, uint32_t *status, const float *x)
{
	const int64_t group = blockIdx.x / (unsigned)g.parts, part = blockIdx.x % (unsigned)g.parts;
	const int64_t first = group * g.size + part * CU_BLOCK, n = counted(g.codes.n, g.codes.said);
	const int64_t stop = lesser(lesser(first + CU_BLOCK, (group + 1) * g.size), n);
	/* the last group may have fewer parts */
	const int len = first < stop ? (int)(stop - first) : 0;
	struct seen seen;

	if (g.partial) {
		seen = look_at(x + first, len);
	} else {
		seen.low = 0;
		seen.high = 0;
		seen.top = 0;
#pragma unroll 8
		for (int i = (int)threadIdx.x; i < len; i += CU_THREADS)
			see_value(&seen, x[first + i]);
	}
	join_extremes(&seen);
	if (threadIdx.x != 0)
		return;
	if (g.partial)
		g.partial[blockIdx.x] = seen.squares;
	if (len > 0)
		see(&g, status, group, seen.low, seen.high, seen.top);
}

/* ---- channels: neighbouring threads have neighbouring channels; a block takes as many rows as fit */

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
		return CU_LAUNCH(measure_small, (g->count + GROUPS - 1) / GROUPS, CU_THREADS, s, *g, status, x);
	return CU_LAUNCH(measure_large, g->count * g->parts, CU_THREADS, s, *g, status, x);
}

/* ---- heads and coefficients */

static __host__ __device__ __forceinline__ int64_t head_bytes(const struct cu_grouped *g)
{
	return g->count * (g->codes.kind == CU_CODE_LEVELS ? 4 : 8);
}

static __host__ __device__ __forceinline__ int64_t payload_bytes(const struct cu_grouped *g)
{
	return head_bytes(g) + (g->codes.n * g->codes.bits + 7) / 8;
}

size_t cu_groups_bytes(const struct cu_grouped *g)
{
	return (size_t)payload_bytes(g);
}

static __global__ void heads(struct cu_grouped g, uint32_t *status)
{
	const int64_t group = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x;
	const int64_t parts = g.size <= SMALL ? 1 : g.parts;
	float *out = (float *)(void *)g.codes.payload, top;
	double sum, norm;

	count_groups(&g);
	if (g.codes.said != NULL && group == 0)
		status[CU_STATUS_BYTES] = (uint32_t)payload_bytes(&g);
	if (group >= g.count)
		return;
	if (g.codes.kind != CU_CODE_LEVELS) {
		out[2 * group] = from_ordered(~g.low[group]);
		out[2 * group + 1] = from_ordered(g.high[group]);
		hold_zero(&out[2 * group], &out[2 * group + 1], (int)g.codes.most);
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

cudaError_t cu_groups_heads(cudaStream_t s, const struct cu_grouped *g, uint32_t *status)
{
	return CU_LAUNCH(heads, (g->count + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, *g, status);
}

static __global__ void coefficients(struct cu_grouped g)
{
	const int64_t group = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x;
	const float *in = (const float *)(const void *)g.codes.payload;
	struct affine *out = (struct affine *)(void *)g.table;

	count_groups(&g);
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

static __global__ void encode(struct cu_grouped g, const float *x)
{
	__shared__ uint32_t tile[CU_TILE / 2];
	const struct affine *table = (const struct affine *)(const void *)g.table;
	const unsigned t = threadIdx.x;
	const int64_t number = tile_from_end(), first = number * CU_TILE + t * CU_EACH;
	uint32_t random[4] = {0, 0, 0, 0}, code[CU_EACH];
	float v[CU_EACH];
	int len, mine;

	count_groups(&g);
	if (number * CU_TILE >= g.codes.n)
		return;
	len = (int)lesser(CU_TILE, g.codes.n - number * CU_TILE);
	mine = len - (int)t * CU_EACH;
	load_eight(v, x + first, mine);
	if (g.codes.kind != CU_CODE_NEAREST)
		philox_quad(&g.codes.key, (uint32_t)(number * CU_THREADS) + t, random);
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		code[e] = 0;
		if (e < mine) {
			const struct affine a = table[group_of(&g, first + e)];

			code[e] = code_of(g.codes.kind, &g.codes, &a, v[e], random_of(random, e));
		}
	}
	pack_eight(tile, code, g.codes.bits);
	write_tile(g.codes.payload + head_bytes(&g), number, tile, len, g.codes.bits);
}

cudaError_t cu_groups_encode(cudaStream_t s, const struct cu_grouped *g, const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(g->codes.n), CU_THREADS, s, *g, x);
}

static __global__ void check(uint32_t *status, struct cu_grouped g)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	const uint32_t mask = g.codes.mask;
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
	uint32_t code[CU_EACH];

	if (refused != NULL && *refused != 0)
		return;
	count_groups(&g);
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		code[e] = i < g.codes.n ? unpack_at(g.codes.payload + head_bytes(&g), i, g.codes.bits) : 0;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < g.codes.n) {
			const struct affine a = table[group_of(&g, i)];

			x[i] = value_at(&g.codes, &a, code[e], i);
		}
	}
}

cudaError_t cu_groups_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_grouped *g)
{
	return CU_LAUNCH(decode, cu_tiles(g->codes.n), CU_THREADS, s, x, refused, *g);
}
