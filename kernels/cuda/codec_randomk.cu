/* One place in every run of elements, drawn by Philox: common/codec/randomk.c. */
#include "kernels/cuda/codec_grid.h"
#include "kernels/cuda/philox.h"

enum { QUAD = 4 };

/* Places of runs 4·q … 4·q+3: word 4 + j of the stream draws that of run j. */
static __device__ __forceinline__ void draw(const struct cu_draw *d, uint32_t q, uint32_t place[QUAD])
{
	uint64_t at = d->phase + (uint64_t)q * QUAD * d->step;
	uint32_t word[QUAD], start = (uint32_t)(at >> 32);

	philox_quad(&d->key, q + 1, word);
	for (int j = 0; j < QUAD; j++) {
		const uint32_t next = (uint32_t)((at += d->step) >> 32);
		const uint32_t p = start + (uint32_t)((uint64_t)word[j] * (next - start) >> 32);

		place[j] = p >= d->n ? p - d->n : p;
		start = next;
	}
}

static __global__ void draw_gather(float *y, const float *x, struct cu_draw d)
{
	const uint32_t q = blockIdx.x * CU_THREADS + threadIdx.x;
	uint32_t place[QUAD];

	if ((uint64_t)q * QUAD >= d.k)
		return;
	draw(&d, q, place);
	for (uint32_t j = 0; j < QUAD; j++)
		if (q * QUAD + j < d.k)
			y[q * QUAD + j] = x[place[j]];
}

static int64_t blocks_of(const struct cu_draw *d)
{
	return ((int64_t)d->k + QUAD * CU_THREADS - 1) / (QUAD * CU_THREADS);
}

cudaError_t cu_draw_gather(cudaStream_t s, float *y, const float *x, const struct cu_draw *d)
{
	return CU_LAUNCH(draw_gather, blocks_of(d), CU_THREADS, s, y, x, *d);
}

static __global__ void draw_scatter(float *x, const float *y, struct cu_draw d)
{
	const uint32_t q = blockIdx.x * CU_THREADS + threadIdx.x;
	uint32_t place[QUAD];

	if ((uint64_t)q * QUAD >= d.k)
		return;
	draw(&d, q, place);
	for (uint32_t j = 0; j < QUAD; j++)
		if (q * QUAD + j < d.k)
			x[place[j]] = y[q * QUAD + j];
}

cudaError_t cu_draw_scatter(cudaStream_t s, float *x, const float *y, const struct cu_draw *d)
{
	cudaError_t err = cudaMemsetAsync(x, 0, (size_t)d->n * sizeof(*x), s);

	return err == cudaSuccess ? CU_LAUNCH(draw_scatter, blocks_of(d), CU_THREADS, s, x, y, *d) : err;
}
