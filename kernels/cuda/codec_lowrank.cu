/* Power iteration, as in common/codec/lowrank.c and its loops. Each sum runs in the order of the portable
 * loops, so one thread computes it. Samples, channels (rows) and ranks run in parallel, and loads run ahead
 * of the sums. */
#include <float.h>
#include <math.h>

#include "kernels/cuda/codec_grid.h"
#include "kernels/cuda/codec_lowrank.h"
#include "kernels/cuda/philox.h"

enum {
	LANES = 32, /* channels of one block */
	RANKS = 8,  /* ranks that a block sums at once: CU_THREADS / LANES */
	ROWS = 128, /* rows of X in shared memory */
	ROW_STEP = CU_THREADS / LANES,
	LOADS = ROWS / ROW_STEP, /* loads of a thread for a tile */
	MOST_RANK = 1024,
	START_THREADS = 256
};

struct part {
	int64_t sample;
	int tile, rank; /* the first of RANKS */
};

/* Blocks are numbered by sample, then tile, then group of ranks. */
static __device__ __forceinline__ struct part part_of(int tiles, int r)
{
	const unsigned groups = (unsigned)((r + RANKS - 1) / RANKS), rest = blockIdx.x / groups;
	struct part p;

	p.rank = (int)(blockIdx.x % groups) * RANKS;
	p.tile = (int)(rest % (unsigned)tiles);
	p.sample = rest / (unsigned)tiles;
	return p;
}

static int64_t parts(const struct cu_factors *f, int64_t tiles)
{
	return f->samples * tiles * ((f->r + RANKS - 1) / RANKS);
}

static __device__ __forceinline__ int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- the start */

/* Each of the r rows is its warm value, or random if that is all zero. */
static __global__ void start(struct cu_factors f, float *to, int64_t count, struct cu_philox key, const float *current,
			     int64_t rows)
{
	__shared__ uint32_t warm[MOST_RANK];
	const int64_t sample = blockIdx.x, n = count / f.r;
	const float *old = current ? current + sample * count : current;

	to += sample * f.stride;
	for (int j = (int)threadIdx.x; j < f.r; j += START_THREADS)
		warm[j] = 0;
	__syncthreads();
	for (int j = 0; j < f.r && current && sample < rows; j++) {
		uint32_t any = 0;

		for (int64_t i = threadIdx.x; i < n; i += START_THREADS)
			any |= old[j * n + i] != 0;
		if (any)
			atomicOr(&warm[j], 1u);
	}
	__syncthreads();
	for (int64_t q = threadIdx.x; q * 4 < count; q += START_THREADS) {
		uint32_t word[4];

		philox_quad(&key, (uint32_t)q, word);
		for (int i = 0; i < 4 && q * 4 + i < count; i++)
			to[q * 4 + i] = warm[(q * 4 + i) / n]
						? old[q * 4 + i]
						: (float)(word[i] >> 8) * 5.9604644775390625e-8f * 2 - 1; /* 2^-24 */
	}
}

static int64_t count_of(const struct cu_factors *f, bool a)
{
	return f->r * (a ? f->m : f->c);
}

cudaError_t cu_factors_start(cudaStream_t s, const struct cu_factors *f, bool a, const struct cu_philox *key,
			     const float *current, int64_t rows)
{
	return CU_LAUNCH(start, f->samples, START_THREADS, s, *f, a ? f->a : f->b, count_of(f, a), *key, current, rows);
}

/* ---- products */

/* Warp w has rank w of the block's, lane l a channel. The next tile of X is loaded while this one is summed. */
static __global__ void sum_rows(struct cu_factors f, int tiles)
{
	__shared__ float x[ROWS][LANES], a[RANKS][ROWS];
	const struct part p = part_of(tiles, f.r);
	const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
	const int64_t channel = (int64_t)p.tile * LANES + lane;
	const float *from = f.x + p.sample * f.m * f.c + channel, *factor = f.a + p.sample * f.stride;
	const bool mine = channel < f.c, live = p.rank + warp < f.r;
	float next[LOADS], sum = 0;

#pragma unroll
	for (int e = 0; e < LOADS; e++) {
		const int64_t row = e * ROW_STEP + warp;

		next[e] = mine && row < f.m ? from[row * f.c] : 0;
	}
	for (int64_t first = 0; first < f.m; first += ROWS) {
		const int len = (int)smaller(ROWS, f.m - first);

		__syncthreads();
#pragma unroll
		for (int e = 0; e < LOADS; e++)
			x[e * ROW_STEP + warp][lane] = next[e];
		for (int i = lane; i < len; i += LANES)
			a[warp][i] = live ? factor[(p.rank + warp) * f.m + first + i] : 0;
		__syncthreads();
#pragma unroll
		for (int e = 0; e < LOADS; e++) {
			const int64_t row = first + ROWS + e * ROW_STEP + warp;

			next[e] = mine && row < f.m ? from[row * f.c] : 0;
		}
		if (live) {
#pragma unroll 8
			for (int i = 0; i < len; i++)
				sum += x[i][lane] * a[warp][i];
		}
	}
	if (live && mine)
		f.b[p.sample * f.stride + (p.rank + warp) * f.c + channel] = sum;
}

cudaError_t cu_factors_b(cudaStream_t s, const struct cu_factors *f)
{
	const int tiles = (int)((f->c + LANES - 1) / LANES);

	return CU_LAUNCH(sum_rows, parts(f, tiles), CU_THREADS, s, *f, tiles);
}

/* One thread for each row, with the sums of all RANKS. */
static __global__ void sum_channels(struct cu_factors f, int tiles)
{
	__shared__ float x[ROWS][LANES + 1], b[RANKS][LANES];
	const struct part p = part_of(tiles, f.r);
	const int t = (int)threadIdx.x, lane = t % LANES, warp = t / LANES;
	const int64_t first_row = (int64_t)p.tile * ROWS, row = first_row + t;
	const float *from = f.x + p.sample * f.m * f.c, *factor = f.b + p.sample * f.stride;
	const int rows = (int)smaller(ROWS, f.m - first_row);
	float sum[RANKS];

#pragma unroll
	for (int j = 0; j < RANKS; j++)
		sum[j] = 0;
	for (int64_t first = 0; first < f.c; first += LANES) {
		const int len = (int)smaller(LANES, f.c - first);

		__syncthreads();
#pragma unroll 8
		for (int i = warp; i < rows; i += ROWS / LANES)
			x[i][lane] = lane < len ? from[(first_row + i) * f.c + first + lane] : 0;
		for (int j = warp; j < RANKS; j += ROWS / LANES)
			b[j][lane] = p.rank + j < f.r && lane < len ? factor[(p.rank + j) * f.c + first + lane] : 0;
		__syncthreads();
		if (t < rows)
			for (int i = 0; i < len; i++) {
#pragma unroll
				for (int j = 0; j < RANKS; j++)
					sum[j] += x[t][i] * b[j][i];
			}
	}
#pragma unroll
	for (int j = 0; j < RANKS; j++)
		if (t < rows && p.rank + j < f.r)
			f.a[p.sample * f.stride + (p.rank + j) * f.m + row] = sum[j];
}

cudaError_t cu_factors_a(cudaStream_t s, const struct cu_factors *f)
{
	const int tiles = (int)((f->m + ROWS - 1) / ROWS);

	return CU_LAUNCH(sum_channels, parts(f, tiles), ROWS, s, *f, tiles);
}

static __global__ void product(float *x, struct cu_factors f, int tiles)
{
	const int64_t sample = blockIdx.x / (unsigned)tiles, n = f.m * f.c;
	const int64_t first = (int64_t)(blockIdx.x % (unsigned)tiles) * CU_TILE + threadIdx.x;
	const float *a = f.a + sample * f.stride, *b = f.b + sample * f.stride;

	x += sample * n;
#pragma unroll 2
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < n) {
			const int64_t row = (uint32_t)i / (uint32_t)f.c, channel = i - row * f.c;
			float sum = a[row] * b[channel];

			for (int j = 1; j < f.r; j++)
				sum += a[j * f.m + row] * b[j * f.c + channel];
			x[i] = sum;
		}
	}
}

cudaError_t cu_factors_product(cudaStream_t s, float *x, const struct cu_factors *f)
{
	const int tiles = (int)cu_tiles(f->m * f->c);

	return CU_LAUNCH(product, f->samples * tiles, CU_THREADS, s, x, *f, tiles);
}

/* ---- Gram-Schmidt. As soon as row j is done, every later row loses its part along it, in parallel. The
 * operations on each row are the same as if it waited for all rows before it. */

static __device__ __forceinline__ double dot(const float *a, const float *b, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

static __global__ void orthonormal(float *factor, uint32_t *status, int64_t stride, int r, int64_t n)
{
	__shared__ double before[MOST_RANK], scale;
	float *a = factor + (int64_t)blockIdx.x * stride;
	const int t = (int)threadIdx.x;

	for (int k = t; k < r; k += CU_THREADS) {
		before[k] = dot(a + k * n, a + k * n, n);
		if (!(before[k] <= DBL_MAX))
			atomicMax(&status[CU_STATUS_NONFINITE], (unsigned)CU_F32_INF_BITS);
	}
	for (int j = 0; j < r; j++) {
		float *row = a + j * n;

		__syncthreads();
		if (t == j % CU_THREADS) {
			const double after = dot(row, row, n);

			/* only rounding errors are left, or nothing */
			scale = after <= before[j] * 1e-12 ? 0 : 1 / sqrt(after);
		}
		__syncthreads();
		for (int64_t i = t; i < n; i += CU_THREADS)
			row[i] = scale == 0 ? 0.0f : (float)((double)row[i] * scale);
		__syncthreads();
		for (int k = j + 1 + (t + CU_THREADS - (j + 1) % CU_THREADS) % CU_THREADS; k < r; k += CU_THREADS) {
			float *other = a + k * n;
			const double part = dot(other, row, n);

			for (int64_t i = 0; i < n; i++)
				other[i] = (float)((double)other[i] - part * (double)row[i]);
		}
	}
}

cudaError_t cu_factors_orthonormal(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a)
{
	return CU_LAUNCH(orthonormal, f->samples, CU_THREADS, s, a ? f->a : f->b, status, f->stride, f->r,
			 a ? f->m : f->c);
}

/* ---- for the factors of all samples: check, balance, copy */

static __global__ void check_factors(uint32_t *status, const float *factor, int64_t stride, int64_t count)
{
	const float *from = factor + (int64_t)blockIdx.x * stride;
	uint32_t top = 0;

	for (int64_t i = threadIdx.x; i < count; i += CU_THREADS) {
		const uint32_t m = magnitude(from[i]);

		top = m > top ? m : top;
	}
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
}

cudaError_t cu_factors_check(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a)
{
	return CU_LAUNCH(check_factors, f->samples, CU_THREADS, s, status, a ? f->a : f->b, f->stride, count_of(f, a));
}

/* *top: the largest |bits| of a row. */
static __device__ __forceinline__ void see_row(uint32_t *top, const float *row, int64_t n)
{
	uint32_t most = 0;

	for (int64_t i = threadIdx.x; i < n; i += CU_THREADS) {
		const uint32_t m = magnitude(row[i]);

		most = m > most ? m : most;
	}
	atomicMax(top, most);
}

static __device__ __forceinline__ void scale_row(float *row, int64_t n, int exponent)
{
	const float by = __uint_as_float((uint32_t)(127 + exponent) << 23);

	for (int64_t i = threadIdx.x; i < n; i += CU_THREADS)
		row[i] *= by;
}

/* A block has row j of both factors of a sample. One of the two rows has length 1, so the exponent is far
 * from the limits of fp32. */
static __global__ void balance_rows(struct cu_factors f)
{
	__shared__ uint32_t top_a, top_b;
	const int64_t sample = blockIdx.x / (unsigned)f.r, j = blockIdx.x % (unsigned)f.r;
	float *a = f.a + sample * f.stride + j * f.m, *b = f.b + sample * f.stride + j * f.c;
	int up;

	if (threadIdx.x == 0)
		top_a = top_b = 0;
	__syncthreads();
	see_row(&top_a, a, f.m);
	see_row(&top_b, b, f.c);
	__syncthreads();
	up = ((int)(top_b >> 23) - (int)(top_a >> 23)) / 2;
	if (top_a == 0 || top_b == 0 || top_a >= CU_F32_INF_BITS || up == 0)
		return;
	scale_row(a, f.m, up);
	scale_row(b, f.c, -up);
}

cudaError_t cu_factors_balance(cudaStream_t s, const struct cu_factors *f)
{
	return CU_LAUNCH(balance_rows, f->samples * f->r, CU_THREADS, s, *f);
}

static __global__ void keep_factors(float *pending, const float *factor, int64_t stride, int64_t count)
{
	const float *from = factor + (int64_t)blockIdx.x * stride;
	float *to = pending + (int64_t)blockIdx.x * count;

	for (int64_t i = threadIdx.x; i < count; i += CU_THREADS)
		to[i] = from[i];
}

cudaError_t cu_factors_keep(cudaStream_t s, float *pending, const struct cu_factors *f, bool a)
{
	return CU_LAUNCH(keep_factors, f->samples, CU_THREADS, s, pending, a ? f->a : f->b, f->stride, count_of(f, a));
}
