/* sortquant: counts between the edges of its buckets (codec_edges.cu), their ranges, codes. Keys are unsigned
 * integers in the order of the floats. */
#include <math.h>

#include "kernels/cuda/codec_buckets.h"
#include "kernels/cuda/codec_codes.h"
#include "kernels/cuda/philox.h"

enum { MEASURE_BLOCKS = 768, PARTS = CU_THREADS / CU_BUCKETS };

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

/* Edge k, for 1 … count-1; other k: above all elements. */
static __device__ __forceinline__ float edge_at(const struct cu_bucket_round *round, int buckets, int k)
{
	return k > 0 && k < buckets ? from_ordered(round->picked[3 * k - 2]) : __uint_as_float(CU_F32_INF_BITS);
}

/* The number of edges ≤ v; those from `buckets` on are infinite. */
static __device__ __forceinline__ uint32_t bucket_of(const float e[CU_BUCKETS], int buckets, float v)
{
	uint32_t bucket = 0;

#pragma unroll
	for (int k = 1; k < 4; k++)
		bucket += v >= e[k];
	if (buckets <= 4)
		return bucket;
#pragma unroll
	for (int k = 4; k < CU_BUCKETS; k++)
		bucket += v >= e[k];
	return bucket;
}

/* The coefficients of bucket k. */
static __device__ __forceinline__ struct affine affine_of_bucket(const struct cu_buckets *b, unsigned k)
{
	const float *in = (const float *)(const void *)b->payload;

	return affine_of(in[2 * k], in[2 * k + 1], (1u << b->code_bits) - 1);
}

/* ---- ranges: the head of a payload, and the coefficients. By the last block of a measure; those of the last round
 * stay. One thread for each bucket */

static __device__ __forceinline__ void write_ranges(struct cu_bucket_search *to, uint32_t *status,
						    const struct cu_buckets *b, int round)
{
	const struct cu_bucket_round *seen = &to->round[round];
	float *out = (float *)(void *)b->payload;
	const int k = (int)threadIdx.x;
	float next, min;
	uint32_t most = 0;

	if (k == 0 && b->said != NULL)
		status[CU_STATUS_BYTES] = (uint32_t)payload_bytes(b);
	if (k >= b->count)
		return;
	next = edge_at(seen, b->count, k + 1);
	/* below the next edge lie the counts of indices whose edge is less than it */
	for (int j = 0; j < CU_BUCKETS; j++)
		if (j == 0 || k + 1 == b->count || edge_at(seen, b->count, j) < next)
			most = larger(most, seen->most[j]);
	min = k == 0 ? from_ordered(~status[CU_STATUS_LOW]) : edge_at(seen, b->count, k);
	out[2 * k] = b->n == 0 ? 0 : min;
	/* an empty bucket: nothing lies between two equal edges, or below the first edge */
	out[2 * k + 1] = b->n == 0 ? 0 : most == 0 || from_ordered(most) < min ? min : from_ordered(most);
	((struct affine *)(void *)to->table)[k] = affine_of_bucket(b, (unsigned)k);
}

/* ---- counts between the edges. Each thread has its own column of tallies, so that it needs no atomics. A
 * word holds the number of elements in its low half, and of those equal to an edge in its high half. */

static __global__ void measure(struct cu_bucket_search *to, uint32_t *status, struct cu_buckets b, const float *x,
			       int round)
{
	__shared__ uint32_t tally[CU_BUCKETS * CU_THREADS];
	__shared__ float most[CU_BUCKETS * CU_THREADS];
	__shared__ uint32_t low[CU_THREADS], top[CU_THREADS], parts[3][CU_THREADS];
	__shared__ float edge[CU_BUCKETS];
	struct cu_bucket_round *seen = &to->round[round];
	const float inf = __uint_as_float(CU_F32_INF_BITS);
	const unsigned t = threadIdx.x;
	uint32_t highest = 0, count = 0, equal = 0, largest = 0;
	float e[CU_BUCKETS], least = inf;

	if (seen->settled != 0)
		return;
	b.n = counted(b.n, b.said);
	for (int k = 0; k < CU_BUCKETS; k++) {
		tally[k * CU_THREADS + t] = 0;
		most[k * CU_THREADS + t] = -inf;
	}
	if (t < CU_BUCKETS)
		edge[t] = edge_at(seen, b.count, (int)t);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < CU_BUCKETS; k++)
		e[k] = edge[k];
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + t * CU_EACH; first < b.n;
	     first += (int64_t)gridDim.x * CU_TILE) {
		const int left = b.n - first < CU_EACH ? (int)(b.n - first) : (int)CU_EACH;
		float values[CU_EACH];

		load_eight(values, x + first, left);
#pragma unroll
		for (int j = 0; j < CU_EACH; j++) {
			const float v = values[j];
			uint32_t bucket;

			if (j >= left)
				break;
			bucket = bucket_of(e, b.count, v);
			tally[bucket * CU_THREADS + t] += 1 + ((uint32_t)(v == edge[bucket]) << 16);
			most[bucket * CU_THREADS + t] = fmaxf(most[bucket * CU_THREADS + t], v);
			least = fminf(least, v);
			highest = larger(highest, magnitude(v));
		}
	}
	low[t] = ~ordered(least + 0.0f); /* infinity if the thread has no element: larger than all */
	top[t] = highest;
	__syncthreads();
	for (unsigned part = 0; part < CU_BUCKETS; part++) {
		const unsigned at = t / PARTS * CU_THREADS + part * PARTS + t % PARTS;

		count += tally[at] & 0xffffu;
		equal += tally[at] >> 16;
		largest = larger(largest, (tally[at] & 0xffffu) != 0 ? ordered(most[at] + 0.0f) : 0);
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
	if (t < CU_BUCKETS) {
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
	if (is_last_block(&status[CU_STATUS_DONE]))
		write_ranges(to, status, &b, round);
}

cudaError_t cu_bucket_measure(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			      const float *x, int round)
{
	const int64_t all = cu_tiles(b->n), most = MEASURE_BLOCKS;

	return CU_LAUNCH(measure, all < most ? all : most, CU_THREADS, s, to, status, *b, x, round);
}

/* ---- codes */

static __global__ void encode(const struct cu_bucket_search *from, struct cu_buckets b, const float *x)
{
	__shared__ uint32_t tile[CU_TILE / 2];
	__shared__ struct affine a[CU_BUCKETS];
	__shared__ float edge[CU_BUCKETS];
	const unsigned t = threadIdx.x;
	const int64_t number = tile_from_end(), left = counted(b.n, b.said) - number * CU_TILE;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE, mine = len - (int)t * CU_EACH;
	uint32_t random[4] = {0, 0, 0, 0}, code[CU_EACH];
	float values[CU_EACH], e[CU_BUCKETS];

	if (left <= 0)
		return;
	load_eight(values, x + number * CU_TILE + t * CU_EACH, mine);
	if (t < CU_BUCKETS) {
		const bool is = t > 0 && t < (unsigned)b.count;

		edge[t] = is ? ((const float *)(const void *)b.payload)[2 * t] : __uint_as_float(CU_F32_INF_BITS);
		if (t < (unsigned)b.count)
			a[t] = ((const struct affine *)(const void *)from->table)[t];
	}
	if (b.stochastic) /* see codec_levels.cu */
		philox_quad(&b.key, (uint32_t)(number * CU_THREADS) + t, random);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < CU_BUCKETS; k++)
		e[k] = edge[k];
#pragma unroll
	for (int j = 0; j < CU_EACH; j++) {
		const uint32_t bucket = bucket_of(e, b.count, values[j]);
		const float at = (values[j] * a[bucket].pre - a[bucket].lo) * a[bucket].inv;

		code[j] = b.stochastic ? stochastic(at, random_of(random, j), (1u << b.code_bits) - 1) : nearest(at);
		code[j] = j < mine ? code[j] | bucket << b.code_bits : 0;
	}
	pack_eight(tile, code, b.bits);
	write_tile(b.payload + head_bytes(&b), number, tile, len, b.bits);
}

cudaError_t cu_bucket_encode(cudaStream_t s, const struct cu_bucket_search *from, const struct cu_buckets *b,
			     const float *x)
{
	return CU_LAUNCH(encode, cu_tiles(b->n), CU_THREADS, s, from, *b, x);
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
