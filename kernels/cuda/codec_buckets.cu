/* sortquant: counts between the edges of its buckets (codec_edges.cu), their ranges, codes. Keys are unsigned
 * integers in the order of the floats. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"
#include "kernels/cuda/philox.h"

enum { MEASURE_BLOCKS = 1024, PARTS = CU_THREADS / CU_BUCKETS };

/* Edge k, for 1 … count-1; other k: above all elements. */
static __device__ __forceinline__ float edge_at(const struct cu_bucket_round *round, int buckets, int k)
{
	return k > 0 && k < buckets ? from_ordered(round->picked[3 * k - 2]) : __uint_as_float(CU_F32_INF_BITS);
}

/* ---- counts between the edges. Each thread has its own column of tallies, so that it needs no atomics. A
 * word holds the number of elements in its low half, and of those equal to an edge in its high half. */

static __global__ void measure(struct cu_bucket_search *to, uint32_t *status, struct cu_buckets b, const float *x,
			       int round)
{
	__shared__ uint32_t tally[CU_BUCKETS * CU_THREADS], most[CU_BUCKETS * CU_THREADS];
	__shared__ uint32_t low[CU_THREADS], top[CU_THREADS], parts[3][CU_THREADS];
	__shared__ float edge[CU_BUCKETS];
	struct cu_bucket_round *seen = &to->round[round];
	const unsigned t = threadIdx.x;
	uint32_t lo = 0, highest = 0, count = 0, equal = 0, largest = 0;
	float e[CU_BUCKETS];

	if (seen->settled != 0)
		return;
	b.n = counted(b.n, b.said);
	for (int k = 0; k < CU_BUCKETS; k++) {
		tally[k * CU_THREADS + t] = 0;
		most[k * CU_THREADS + t] = 0;
	}
	if (t < CU_BUCKETS)
		edge[t] = edge_at(seen, b.count, (int)t);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < CU_BUCKETS; k++)
		e[k] = edge[k];
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + t; first < b.n; first += (int64_t)gridDim.x * CU_TILE) {
		float values[CU_EACH];

#pragma unroll
		for (int j = 0; j < CU_EACH; j++)
			values[j] = first + j * CU_THREADS < b.n ? x[first + j * CU_THREADS] : 0.0f;
#pragma unroll
		for (int j = 0; j < CU_EACH; j++) {
			const float v = values[j];
			const uint32_t key = ordered(v + 0.0f);
			uint32_t bucket = 0;

			if (first + j * CU_THREADS >= b.n)
				break;
#pragma unroll
			for (int k = 1; k < CU_BUCKETS; k++)
				bucket += v >= e[k];
			tally[bucket * CU_THREADS + t] += 1 + ((uint32_t)(v == edge[bucket]) << 16);
			most[bucket * CU_THREADS + t] = larger(most[bucket * CU_THREADS + t], key);
			lo = larger(lo, ~key);
			highest = larger(highest, magnitude(v));
		}
	}
	low[t] = lo;
	top[t] = highest;
	__syncthreads();
	for (unsigned part = 0; part < CU_BUCKETS; part++) {
		const unsigned at = t / PARTS * CU_THREADS + part * PARTS + t % PARTS;

		count += tally[at] & 0xffffu;
		equal += tally[at] >> 16;
		largest = larger(largest, most[at]);
	}
	parts[0][t] = count;
	parts[1][t] = equal;
	parts[2][t] = largest;
	for (unsigned width = CU_THREADS / 2; width > 0; width /= 2) {
		__syncthreads();
		if (t < width) {
			low[t] = larger(low[t], low[t + width]);
			top[t] = larger(top[t], top[t + width]);
		}
	}
	if (t == 0) {
		atomicMax(&status[CU_STATUS_LOW], low[0]);
		atomicMax(&status[CU_STATUS_NONFINITE], top[0]);
	}
	if (t >= CU_BUCKETS)
		return;
	count = 0;
	equal = 0;
	largest = 0;
	for (unsigned part = t * PARTS; part < (t + 1) * PARTS; part++) {
		count += parts[0][part];
		equal += parts[1][part];
		largest = larger(largest, parts[2][part]);
	}
	if (count != 0) {
		atomicAdd(&seen->count[t], count);
		atomicAdd(&seen->equal[t], equal);
		atomicMax(&seen->most[t], largest);
	}
}

cudaError_t cu_bucket_measure(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			      const float *x, int round)
{
	const int64_t all = cu_tiles(b->n), most = MEASURE_BLOCKS;

	return CU_LAUNCH(measure, all < most ? all : most, CU_THREADS, s, to, status, *b, x, round);
}

/* ---- ranges: the head of a payload */

static __host__ __device__ __forceinline__ int head_bytes(const struct cu_buckets *b)
{
	return b->count * 8;
}

static __host__ __device__ __forceinline__ int64_t payload_bytes(const struct cu_buckets *b)
{
	return head_bytes(b) + (b->n * b->bits + 7) / 8;
}

size_t cu_buckets_bytes(const struct cu_buckets *b)
{
	return (size_t)payload_bytes(b);
}

/* One thread for each bucket. Uses the last round that was not skipped. */
static __global__ void ranges(const struct cu_bucket_search *from, uint32_t *status, struct cu_buckets b)
{
	float *out = (float *)(void *)b.payload;
	const int k = (int)threadIdx.x;
	const struct cu_bucket_round *seen = from->round;
	float next, min;
	uint32_t most = 0;

	b.n = counted(b.n, b.said);
	if (k == 0 && b.said != NULL)
		status[CU_STATUS_BYTES] = (uint32_t)payload_bytes(&b);
	if (k >= b.count)
		return;
	if (b.n == 0) {
		out[2 * k] = 0;
		out[2 * k + 1] = 0;
		return;
	}
	for (int round = 1; round < CU_BUCKET_ROUNDS && from->round[round].settled == 0; round++)
		seen++;
	next = edge_at(seen, b.count, k + 1);
	/* below the next edge lie the counts of indices whose edge is less than it */
	for (int j = 0; j < CU_BUCKETS; j++)
		if (j == 0 || k + 1 == b.count || edge_at(seen, b.count, j) < next)
			most = larger(most, seen->most[j]);
	min = k == 0 ? from_ordered(~status[CU_STATUS_LOW]) : edge_at(seen, b.count, k);
	out[2 * k] = min;
	/* an empty bucket: nothing lies between two equal edges, or below the first edge */
	out[2 * k + 1] = most == 0 || from_ordered(most) < min ? min : from_ordered(most);
}

cudaError_t cu_bucket_ranges(cudaStream_t s, const struct cu_bucket_search *from, uint32_t *status,
			     const struct cu_buckets *b)
{
	return CU_LAUNCH(ranges, 1, CU_THREADS, s, from, status, *b);
}

/* ---- codes */

/* The coefficients of bucket `t`. */
static __device__ __forceinline__ struct affine affine_of_bucket(const struct cu_buckets *b, unsigned t)
{
	const float *in = (const float *)(const void *)b->payload;

	return affine_of(in[2 * t], in[2 * t + 1], (1u << b->code_bits) - 1);
}

static __global__ void encode(struct cu_buckets b, const float *x)
{
	__shared__ uint16_t code[CU_TILE];
	__shared__ uint32_t random[CU_TILE / 2];
	__shared__ struct affine a[CU_BUCKETS];
	__shared__ float edge[CU_BUCKETS];
	const unsigned t = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE, left = counted(b.n, b.said) - first;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE;
	float values[CU_EACH], e[CU_BUCKETS];

	if (left <= 0)
		return;
#pragma unroll
	for (int i = 0; i < CU_EACH; i++)
		values[i] = i * CU_THREADS + (int)t < len ? x[first + i * CU_THREADS + t] : 0.0f;
	if (t < CU_BUCKETS) {
		const bool is = t > 0 && t < (unsigned)b.count;

		edge[t] = is ? ((const float *)(const void *)b.payload)[2 * t] : __uint_as_float(CU_F32_INF_BITS);
		if (t < (unsigned)b.count)
			a[t] = affine_of_bucket(&b, t);
	}
	if (b.stochastic) /* see codec_levels.cu */
		philox_quad(&b.key, (uint32_t)(first / 8) + t, random + 4 * t);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < CU_BUCKETS; k++)
		e[k] = edge[k];
#pragma unroll
	for (int j = 0; j < CU_EACH; j++) {
		const int i = j * CU_THREADS + (int)t;
		uint32_t bucket = 0, v = 0;

		if (i < len) {
			const float value = values[j];
			float at;

#pragma unroll
			for (int k = 1; k < CU_BUCKETS; k++)
				bucket += k < b.count && value >= e[k];
			at = (value * a[bucket].pre - a[bucket].lo) * a[bucket].inv;
			v = b.stochastic ? stochastic(at, half_on_top(random[i / 2], i), (1u << b.code_bits) - 1)
					 : nearest(at);
			v |= bucket << b.code_bits;
		}
		code[i] = (uint16_t)v;
	}
	__syncthreads();
	pack_tile(b.payload + head_bytes(&b), code, len, b.bits);
}

cudaError_t cu_bucket_encode(cudaStream_t s, const struct cu_buckets *b, const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(b->n), CU_THREADS, s, *b, x);
}

static __global__ void decode(float *x, struct cu_buckets b)
{
	__shared__ struct affine a[CU_BUCKETS];
	const int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x;
	uint32_t code[CU_EACH];

	b.n = counted(b.n, b.said);
	if (threadIdx.x < (unsigned)b.count)
		a[threadIdx.x] = affine_of_bucket(&b, threadIdx.x);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		code[e] = i < b.n ? unpack_at(b.payload + head_bytes(&b), i, b.bits) : 0;
	}
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		if (i < b.n) {
			const struct affine *at = &a[code[e] >> b.code_bits];
			const float level = (float)(code[e] & ((1u << b.code_bits) - 1));

			x[i] = at_most((at->lo + level * at->step) * at->post, at->max);
		}
	}
}

cudaError_t cu_bucket_decode(cudaStream_t s, float *x, const struct cu_buckets *b)
{
	return CU_LAUNCH(decode, cu_tiles(b->n), CU_THREADS, s, x, *b);
}
