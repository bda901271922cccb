/* Means of cells, linear interpolation between their centres, and the adjoints of both: common/codec/downsample.c.
 * Every thread has one element, and adds in the order in which the portable loops come to it. */
#include "kernels/cuda/codec_grid.h"

struct place {
	int64_t sample;
	int row, col, channel;
};

/* Element `at` of [N, rows, cols, C]. */
static __device__ __forceinline__ struct place place_of(uint32_t at, int rows, int cols, int c)
{
	const uint32_t position = at / (uint32_t)c, line = position / (uint32_t)cols;
	struct place p;

	p.channel = (int)(at - position * (uint32_t)c);
	p.col = (int)(position - line * (uint32_t)cols);
	p.sample = line / (uint32_t)rows;
	p.row = (int)(line % (uint32_t)rows);
	return p;
}

static __device__ __forceinline__ int at_least(int v, int least)
{
	return v > least ? v : least;
}

static __device__ __forceinline__ int up_to(int v, int most)
{
	return v < most ? v : most;
}

/* Weight of a position in the mean of its cell, of which so many rows and columns are there. */
static __device__ __forceinline__ float mean_weight(const struct cu_cells *d, int row, int col)
{
	const int rows = up_to(d->h - row * d->f, d->f), cols = up_to(d->w - col * d->f, d->f);

	return 1 / (float)(rows * cols);
}

static __device__ __forceinline__ const float *sample_of(const struct cu_cells *d, const float *x,
							 const struct place *p)
{
	return x + p->sample * d->h * d->w * d->c + p->channel;
}

static __device__ __forceinline__ float mean(const struct cu_cells *d, const float *x, const struct place *p)
{
	const float *from = sample_of(d, x, p), weight = mean_weight(d, p->row, p->col);
	const int stop_row = up_to((p->row + 1) * d->f, d->h), stop_col = up_to((p->col + 1) * d->f, d->w);
	float sum = 0;

	for (int i = p->row * d->f; i < stop_row; i++)
		for (int j = p->col * d->f; j < stop_col; j++)
			sum += weight * from[((int64_t)i * d->w + j) * d->c];
	return sum;
}

/* What the interpolation of positions that lie next to this cell took from it: Uᵀ. */
static __device__ __forceinline__ float collect(const struct cu_cells *d, const float *x, const struct place *p)
{
	const float *from = sample_of(d, x, p);
	const int stop_row = up_to((p->row + 2) * d->f, d->h), stop_col = up_to((p->col + 2) * d->f, d->w);
	float sum = 0;

	for (int i = at_least((p->row - 1) * d->f, 0); i < stop_row; i++) {
		const struct cu_tap r = d->rows[i];

		if (r.at != p->row && r.next != p->row)
			continue;
		for (int j = at_least((p->col - 1) * d->f, 0); j < stop_col; j++) {
			const struct cu_tap s = d->cols[j];
			const bool near_col = s.at == p->col, far_col = s.next == p->col;
			float v;

			if (!near_col && !far_col)
				continue;
			v = from[((int64_t)i * d->w + j) * d->c];
			if (r.at == p->row && near_col)
				sum += r.near * s.near * v;
			if (r.at == p->row && far_col)
				sum += r.near * s.far * v;
			if (r.next == p->row && near_col)
				sum += r.far * s.near * v;
			if (r.next == p->row && far_col)
				sum += r.far * s.far * v;
		}
	}
	return sum;
}

static __global__ void shrink(float *y, uint32_t *status, const float *x, struct cu_cells d, uint32_t n)
{
	const uint32_t at = blockIdx.x * CU_THREADS + threadIdx.x;
	struct place p;
	float v;

	if (at >= n)
		return;
	p = place_of(at, d.small_h, d.small_w, d.c);
	v = d.adjoint ? collect(&d, x, &p) : mean(&d, x, &p);
	y[at] = v;
	if (magnitude(v) >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], magnitude(v));
}

static int64_t blocks_of(uint32_t n)
{
	return ((int64_t)n + CU_THREADS - 1) / CU_THREADS;
}

cudaError_t cu_cells_shrink(cudaStream_t s, float *y, uint32_t *status, const float *x, const struct cu_cells *d,
			    int64_t samples)
{
	const uint32_t n = (uint32_t)(samples * d->small_h * d->small_w * d->c);

	return CU_LAUNCH(shrink, blocks_of(n), CU_THREADS, s, y, status, x, *d, n);
}

static __global__ void grow(float *x, const float *y, struct cu_cells d, uint32_t n)
{
	const uint32_t at = blockIdx.x * CU_THREADS + threadIdx.x;
	const float *from, *top, *low;
	struct cu_tap r, s;
	struct place p;

	if (at >= n)
		return;
	p = place_of(at, d.h, d.w, d.c);
	from = y + p.sample * d.small_h * d.small_w * d.c + p.channel;
	if (d.adjoint) {
		const int row = p.row / d.f, col = p.col / d.f;

		x[at] = mean_weight(&d, row, col) * from[((int64_t)row * d.small_w + col) * d.c];
		return;
	}
	r = d.rows[p.row];
	s = d.cols[p.col];
	top = from + (int64_t)r.at * d.small_w * d.c;
	low = from + (int64_t)r.next * d.small_w * d.c;
	x[at] = (r.near * s.near * top[s.at * d.c] + r.near * s.far * top[s.next * d.c]) +
		(r.far * s.near * low[s.at * d.c] + r.far * s.far * low[s.next * d.c]);
}

cudaError_t cu_cells_grow(cudaStream_t s, float *x, const float *y, const struct cu_cells *d, int64_t samples)
{
	const uint32_t n = (uint32_t)(samples * d->h * d->w * d->c);

	return CU_LAUNCH(grow, blocks_of(n), CU_THREADS, s, x, y, *d, n);
}

/* ---- cells: means as bf16, and what is left */

#define TOO_LARGE 0x7e800000u /* 2^126 */

static __device__ __forceinline__ void see(uint32_t *status, float v)
{
	if (magnitude(v) >= TOO_LARGE)
		atomicMax(&status[CU_STATUS_NONFINITE], (unsigned)CU_F32_INF_BITS);
}

static __global__ void average(uint16_t *mean, uint32_t *status, const float *x, struct cu_cells d, uint32_t n)
{
	const uint32_t at = blockIdx.x * CU_THREADS + threadIdx.x;
	int stop_row, stop_col;
	const float *from;
	struct place p;
	uint32_t bits;
	float sum = 0;

	if (at >= n)
		return;
	p = place_of(at, d.small_h, d.small_w, d.c);
	from = sample_of(&d, x, &p);
	stop_row = up_to((p.row + 1) * d.f, d.h);
	stop_col = up_to((p.col + 1) * d.f, d.w);
	for (int i = p.row * d.f; i < stop_row; i++)
		for (int j = p.col * d.f; j < stop_col; j++)
			sum += from[((int64_t)i * d.w + j) * d.c];
	sum *= mean_weight(&d, p.row, p.col);
	see(status, sum);
	bits = __float_as_uint(sum);
	mean[at] = (uint16_t)(bf16_of(bits & 0x7fffffffu) | (bits >> 16 & 0x8000u));
}

static __device__ __forceinline__ float mean_at(const struct cu_cells *d, const uint16_t *mean, uint32_t at)
{
	const struct place p = place_of(at, d->h, d->w, d->c);
	const int64_t line = p.sample * d->small_h + p.row / d->f;

	return __uint_as_float((uint32_t)mean[(line * d->small_w + p.col / d->f) * d->c + p.channel] << 16);
}

static __global__ void subtract(float *y, uint32_t *status, const float *x, const uint16_t *mean, struct cu_cells d,
				uint32_t n)
{
	const uint32_t at = blockIdx.x * CU_THREADS + threadIdx.x;

	if (at >= n)
		return;
	y[at] = x[at] - mean_at(&d, mean, at);
	see(status, y[at]);
}

cudaError_t cu_cells_split(cudaStream_t s, uint16_t *mean, float *y, uint32_t *status, const float *x,
			   const struct cu_cells *d, int64_t samples)
{
	const uint32_t means = (uint32_t)(samples * d->small_h * d->small_w * d->c);
	const uint32_t n = (uint32_t)(samples * d->h * d->w * d->c);
	cudaError_t err = CU_LAUNCH(average, blocks_of(means), CU_THREADS, s, mean, status, x, *d, means);

	return err == cudaSuccess ? CU_LAUNCH(subtract, blocks_of(n), CU_THREADS, s, y, status, x, mean, *d, n) : err;
}

static __global__ void restore(float *x, const uint16_t *mean, const float *y, struct cu_cells d, uint32_t n)
{
	const uint32_t at = blockIdx.x * CU_THREADS + threadIdx.x;

	if (at < n)
		x[at] = y[at] + mean_at(&d, mean, at);
}

cudaError_t cu_cells_join(cudaStream_t s, float *x, const uint16_t *mean, const float *y, const struct cu_cells *d,
			  int64_t samples)
{
	const uint32_t n = (uint32_t)(samples * d->h * d->w * d->c);

	return CU_LAUNCH(restore, blocks_of(n), CU_THREADS, s, x, mean, y, *d, n);
}
