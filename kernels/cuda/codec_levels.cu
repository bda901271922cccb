/* Affine codes and stochastic levels with one scale for the tensor, and their packing: quant, qsgd, terngrad. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"

enum { MEASURE_BLOCKS = 768 /* that a device runs at once */, BLOCK_TILES = CU_BLOCK / CU_TILE };

static __host__ __device__ __forceinline__ int head_bytes(const struct cu_codes *c)
{
	return c->kind == CU_CODE_LEVELS ? 4 : 8;
}

static __host__ __device__ __forceinline__ int64_t payload_bytes(const struct cu_codes *c)
{
	return head_bytes(c) + (c->n * c->bits + 7) / 8;
}

size_t cu_codes_bytes(const struct cu_codes *c)
{
	return (size_t)payload_bytes(c);
}

static __device__ __forceinline__ struct affine affine_of_head(const struct cu_codes *c)
{
	const float *in = (const float *)(const void *)c->payload;

	return c->kind == CU_CODE_LEVELS ? affine_of(0, in[0], c->most) : affine_of(in[0], in[1], c->most);
}

/* ---- the head of a payload, by the last block of the kernel that measures */

/* All threads load; thread 0 adds in order. */
static __device__ __forceinline__ double sum_partials(const double *partial, int64_t count)
{
	__shared__ double part[CU_THREADS];
	const int64_t most = CU_THREADS;
	double sum = 0;

	for (int64_t first = 0; first < count; first += most) {
		const int len = (int)(count - first < most ? count - first : most);

		__syncthreads();
		if ((int)threadIdx.x < len)
			part[threadIdx.x] = partial[first + threadIdx.x];
		__syncthreads();
		if (threadIdx.x == 0) {
#pragma unroll 8
			for (int i = 0; i < len; i++)
				sum += part[i];
		}
	}
	return sum;
}

static __device__ __forceinline__ void write_head(struct cu_codes c, const double *partial, uint32_t *status)
{
	float *out = (float *)(void *)c.payload, top;
	double sum = 0, norm;

	if (partial)
		sum = sum_partials(partial, (c.n + CU_BLOCK - 1) / CU_BLOCK);
	if (threadIdx.x != 0)
		return;
	if (c.said != NULL)
		status[CU_STATUS_BYTES] = (uint32_t)payload_bytes(&c);
	if (c.kind != CU_CODE_LEVELS) {
		out[0] = c.n == 0 ? 0 : from_ordered(~status[CU_STATUS_LOW]);
		out[1] = c.n == 0 ? 0 : from_ordered(status[CU_STATUS_HIGH]);
		hold_zero(&out[0], &out[1], (int)c.most);
	} else {
		top = __uint_as_float(status[CU_STATUS_NONFINITE]);
		norm = sqrt(sum);
		out[0] = !partial ? top : norm > (double)FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
	}
	*(struct affine *)(void *)(status + CU_STATUS_AFFINE) = affine_of_head(&c);
}

static __global__ void measure(struct cu_codes c, uint32_t *status, const float *x)
{
	struct seen seen;

	c.n = counted(c.n, c.said);
	seen.low = 0;
	seen.high = 0;
	seen.top = 0;
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x * CU_EACH; first < c.n;
	     first += (int64_t)gridDim.x * CU_TILE) {
		float v[CU_EACH];

		load_eight(v, x + first, c.n - first);
		if (c.n - first < CU_EACH) /* the 0 behind the end is no element */
#pragma unroll
			for (int e = 1; e < CU_EACH; e++)
				v[e] = e < (int)(c.n - first) ? v[e] : v[0];
#pragma unroll
		for (int e = 0; e < CU_EACH; e++)
			see_value(&seen, v[e]);
	}
	join_extremes(&seen);
	if (threadIdx.x == 0) {
		atomicMax(&status[CU_STATUS_LOW], seen.low);
		atomicMax(&status[CU_STATUS_HIGH], seen.high);
		atomicMax(&status[CU_STATUS_NONFINITE], seen.top);
	}
	if (is_last_block(&status[CU_STATUS_DONE]))
		write_head(c, NULL, status);
}

static __global__ void squares(struct cu_codes c, double *partial, uint32_t *status, const float *x)
{
	struct seen seen;
	int len;

	c.n = counted(c.n, c.said);
	len = block_length(c.n, blockIdx.x);
	if (len > 0) {
		seen = look_at(x + (int64_t)blockIdx.x * CU_BLOCK, len);
		join_extremes(&seen);
		if (threadIdx.x == 0) {
			partial[blockIdx.x] = seen.squares;
			atomicMax(&status[CU_STATUS_NONFINITE], seen.top);
		}
	}
	if (is_last_block(&status[CU_STATUS_DONE]))
		write_head(c, partial, status);
}

cudaError_t cu_codes_measure(cudaStream_t s, const struct cu_codes *c, double *partial, uint32_t *status,
			     const float *x)
{
	const int64_t tiles = cu_tiles(c->n), most = MEASURE_BLOCKS;

	if (partial != NULL)
		return CU_LAUNCH(squares, cu_blocks(c->n), CU_THREADS, s, *c, partial, status, x);
	return CU_LAUNCH(measure, tiles < most ? tiles : most, CU_THREADS, s, *c, status, x);
}

/* ---- codes */

static __device__ __forceinline__ void code_eight(uint32_t code[CU_EACH], enum cu_code_kind kind,
						  const struct cu_codes *c, const struct affine *a,
						  const float v[CU_EACH], const uint32_t random[4])
{
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		code[e] = code_of(kind, c, a, v[e], random_of(random, e));
}

/* `squared`: codec blocks were measured side by side, and the cache has the last tiles of each. */
static __global__ void encode(struct cu_codes c, bool squared, const uint32_t *status, const float *x)
{
	__shared__ uint32_t tile[CU_TILE / 2];
	const struct affine a = *(const struct affine *)(const void *)(status + CU_STATUS_AFFINE);
	const unsigned t = threadIdx.x, blocks = gridDim.x / BLOCK_TILES;
	const int64_t number =
		squared ? blockIdx.x % blocks * BLOCK_TILES + BLOCK_TILES - 1 - blockIdx.x / blocks : tile_from_end();
	const int64_t left = counted(c.n, c.said) - number * CU_TILE;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE, mine = len - (int)t * CU_EACH;
	uint32_t random[4] = {0, 0, 0, 0}, code[CU_EACH];
	float v[CU_EACH];

	if (left <= 0)
		return;
	load_eight(v, x + number * CU_TILE + t * CU_EACH, mine);
	if (c.kind != CU_CODE_NEAREST)
		philox_quad(&c.key, (uint32_t)(number * CU_THREADS) + t, random);
	if (c.kind == CU_CODE_NEAREST)
		code_eight(code, CU_CODE_NEAREST, &c, &a, v, random);
	else if (c.kind == CU_CODE_STOCHASTIC)
		code_eight(code, CU_CODE_STOCHASTIC, &c, &a, v, random);
	else
		code_eight(code, CU_CODE_LEVELS, &c, &a, v, random);
	if (mine < CU_EACH)
#pragma unroll
		for (int e = 0; e < CU_EACH; e++)
			code[e] = e < mine ? code[e] : 0;
	pack_eight(tile, code, c.bits);
	write_tile(c.payload + head_bytes(&c), number, tile, len, c.bits);
}

cudaError_t cu_codes_encode(cudaStream_t s, const struct cu_codes *c, bool squared, const uint32_t *status,
			    const float *x)
{
	return CU_LAUNCH(encode, squared ? cu_blocks(c->n) * BLOCK_TILES : cu_tiles(c->n), CU_THREADS, s, *c, squared,
			 status, x);
}

static __device__ __forceinline__ uint32_t code_at(const struct cu_codes *c, int64_t i)
{
	return unpack_at(c->payload + head_bytes(c), i, c->bits);
}

static __global__ void check(uint32_t *status, struct cu_codes c)
{
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	const uint32_t mask = c.mask;
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

static __global__ void decode(float *x, const uint32_t *refused, struct cu_codes c)
{
	__shared__ struct affine a;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	uint32_t code[CU_EACH];

	if (refused != NULL && *refused != 0)
		return;
	c.n = counted(c.n, c.said);
	if (threadIdx.x == 0)
		a = affine_of_head(&c);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		code[e] = i < c.n ? code_at(&c, i) : 0;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < c.n)
			x[i] = value_at(&c, &a, code[e], i);
	}
}

cudaError_t cu_codes_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_codes *c)
{
	return CU_LAUNCH(decode, cu_tiles(c->n), CU_THREADS, s, x, refused, *c);
}
