/* Affine codes and stochastic levels with one scale for the tensor, and their packing: quant, qsgd, terngrad. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"
#include "kernels/cuda/philox.h"

enum { MEASURE_BLOCKS = 2048 };

/* ---- range */

static __global__ void measure(uint32_t *status, struct cu_codes c, const float *x)
{
	const int64_t n = counted(c.n, c.said);
	struct seen seen;

	seen.low = 0;
	seen.high = 0;
	seen.top = 0;
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x; first < n;
	     first += (int64_t)gridDim.x * CU_TILE) {
#pragma unroll
		for (int e = 0; e < CU_EACH; e++)
			if (first + e * CU_THREADS < n)
				see_value(&seen, x[first + e * CU_THREADS]);
	}
	join_extremes(&seen);
	if (threadIdx.x == 0) {
		atomicMax(&status[CU_STATUS_LOW], seen.low);
		atomicMax(&status[CU_STATUS_HIGH], seen.high);
		atomicMax(&status[CU_STATUS_NONFINITE], seen.top);
	}
}

cudaError_t cu_range(cudaStream_t s, uint32_t *status, const struct cu_codes *c, const float *x)
{
	const int64_t tiles = cu_tiles(c->n), most = MEASURE_BLOCKS;

	return CU_LAUNCH(measure, tiles < most ? tiles : most, CU_THREADS, s, status, *c, x);
}

/* ---- sums of squares */

static __global__ void squares(double *partial, uint32_t *status, struct cu_codes c, const float *x)
{
	const int len = block_length(counted(c.n, c.said));
	struct seen seen;

	if (len <= 0)
		return;
	seen = look_at(x + (int64_t)blockIdx.x * CU_BLOCK, len);
	join_extremes(&seen);
	if (threadIdx.x == 0) {
		partial[blockIdx.x] = seen.squares;
		atomicMax(&status[CU_STATUS_NONFINITE], seen.top);
	}
}

cudaError_t cu_squares(cudaStream_t s, double *partial, uint32_t *status, const struct cu_codes *c, const float *x)
{
	return CU_LAUNCH(squares, cu_blocks(c->n), CU_THREADS, s, partial, status, *c, x);
}

/* ---- the head of a payload */

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

static __global__ void head(struct cu_codes c, const double *partial, uint32_t *status)
{
	float *out = (float *)(void *)c.payload, top;
	double sum = 0, norm;

	c.n = counted(c.n, c.said);
	if (partial)
		sum = sum_partials(partial, (c.n + CU_BLOCK - 1) / CU_BLOCK);
	if (threadIdx.x != 0)
		return;
	if (c.said != NULL)
		status[CU_STATUS_BYTES] = (uint32_t)payload_bytes(&c);
	if (c.kind != CU_CODE_LEVELS) {
		out[0] = c.n == 0 ? 0 : from_ordered(~status[CU_STATUS_LOW]);
		out[1] = c.n == 0 ? 0 : from_ordered(status[CU_STATUS_HIGH]);
		hold_zero(&out[0], &out[1], (int)c.most, c.bits);
		return;
	}
	top = __uint_as_float(status[CU_STATUS_NONFINITE]);
	norm = sqrt(sum);
	if (!partial)
		out[0] = top;
	else
		out[0] = norm > (double)FLT_MAX ? FLT_MAX : fmaxf((float)norm, top);
}

cudaError_t cu_codes_head(cudaStream_t s, const struct cu_codes *c, const double *partial, uint32_t *status)
{
	return CU_LAUNCH(head, 1, CU_THREADS, s, *c, partial, status);
}

/* ---- codes */

static __device__ __forceinline__ struct affine affine_of_head(const struct cu_codes *c)
{
	const float *in = (const float *)(const void *)c->payload;

	return c->kind == CU_CODE_LEVELS ? affine_of(0, in[0], c->most) : affine_of(in[0], in[1], c->most);
}

static __global__ void encode(struct cu_codes c, const float *x)
{
	__shared__ uint16_t code[CU_TILE];
	__shared__ uint32_t random[CU_TILE / 2];
	__shared__ struct affine a;
	const unsigned t = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE, left = counted(c.n, c.said) - first;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE;
	float v[CU_EACH];

	if (left <= 0)
		return;
#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		v[e] = e * CU_THREADS + (int)t < len ? x[first + e * CU_THREADS + t] : 0.0f;
	if (t == 0)
		a = affine_of_head(&c);
	if (c.kind != CU_CODE_NEAREST) /* two elements for a word, as random_halves */
		philox_quad(&c.key, (uint32_t)(first / 8) + t, random + 4 * t);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int i = e * CU_THREADS + (int)t;

		code[i] = i < len ? (uint16_t)code_of(&c, &a, v[e], half_on_top(random[i / 2], i)) : (uint16_t)0;
	}
	__syncthreads();
	pack_tile(c.payload + head_bytes(&c), code, len, c.bits);
}

cudaError_t cu_codes_encode(cudaStream_t s, const struct cu_codes *c, const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(c->n), CU_THREADS, s, *c, x);
}

static __device__ __forceinline__ uint32_t code_at(const struct cu_codes *c, int64_t i)
{
	return unpack_at(c->payload + head_bytes(c), i, c->bits);
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
			x[i] = value_of_code(&c, &a, code[e]);
	}
}

cudaError_t cu_codes_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_codes *c)
{
	return CU_LAUNCH(decode, cu_tiles(c->n), CU_THREADS, s, x, refused, *c);
}
