/* sortquant: where the edges of its buckets lie, by histograms of keys; what lies between them; codes. Keys are
 * unsigned integers in the order of the floats. */
#include <math.h>

#include "kernels/cuda/codec_codes.h"

#define ZERO_KEY 0x80000000u

enum { PASSES = 3, RUN = 16, MEASURE_BLOCKS = 1024, EXACT_BLOCKS = 1024, PARTS = CU_THREADS / CU_BUCKETS };

/* Bits of a key that a pass looks at, from the top: 11, 11 and 10 of them. */
static __host__ __device__ __forceinline__ int pass_width(int pass)
{
	return pass < 2 ? 11 : 10;
}

static __host__ __device__ __forceinline__ int pass_shift(int pass)
{
	return pass == 0 ? 21 : pass == 1 ? 10 : 0;
}

/* ---- the sample: runs of neighbours at jittered distances, as sl_sample takes them */

static __global__ void sample(uint32_t *key, const float *x, int64_t n)
{
	const int64_t i = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x, run = i / RUN, step = n / (CU_SAMPLE / RUN);
	const uint32_t hash = (uint32_t)run * 2654435761u, mix = hash ^ hash >> 15;
	int64_t at = i;

	if (i >= n || i >= CU_SAMPLE)
		return;
	if (n > CU_SAMPLE)
		at = run * step + (int64_t)((uint64_t)mix * (uint64_t)(step - RUN + 1) >> 32) + i % RUN;
	key[i] = ordered(x[at]);
}

cudaError_t cu_bucket_sample(cudaStream_t s, uint32_t *key, const float *x, int64_t n)
{
	const int64_t most = CU_SAMPLE, samples = n < most ? n : most;

	return CU_LAUNCH(sample, (samples + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, key, x, n);
}

/* Block b has the element of rank (b % 3 - 1) beside edge b / 3 + 1. */
static __global__ void PLACE_THREADS pick(struct cu_bucket_seen *seen, const uint32_t *key, uint32_t total,
					  struct cu_ranks ranks)
{
	__shared__ uint32_t bins[CU_SELECT_BINS], found, left;
	const unsigned t = threadIdx.x;

	if (t == 0) {
		const int64_t want = (int64_t)ranks.rank[blockIdx.x / 3 + 1] + (int)(blockIdx.x % 3) - 1;

		found = 0;
		left = want < 0 ? 0 : want < total ? (uint32_t)want : total - 1;
	}
	for (int pass = 0; pass < PASSES; pass++) {
		const int shift = pass_shift(pass), width = pass_width(pass);
		const uint32_t mask = (1u << width) - 1;
		uint32_t prefix, rank, own, before, all, zeros = 0;

		bins[t] = 0;
		bins[t + CU_PLACE_THREADS] = 0;
		__syncthreads();
		prefix = found;
		rank = left;
		for (uint32_t first = t; first < total; first += CU_EACH * CU_PLACE_THREADS) {
			uint32_t v[CU_EACH];

#pragma unroll
			for (uint32_t e = 0; e < CU_EACH; e++) {
				const uint32_t i = first + e * CU_PLACE_THREADS;

				v[e] = i < total ? key[i] : 0;
			}
#pragma unroll
			for (uint32_t e = 0; e < CU_EACH; e++) {
				if (first + e * CU_PLACE_THREADS >= total || v[e] >> shift >> width != prefix)
					continue;
				/* of which there may be very many */
				if (v[e] == ZERO_KEY)
					zeros++;
				else
					atomicAdd(&bins[v[e] >> shift & mask], 1u);
			}
		}
		if (zeros != 0)
			atomicAdd(&bins[ZERO_KEY >> shift & mask], zeros);
		__syncthreads();
		own = bins[2 * t] + bins[2 * t + 1];
		before = scan_block(own, &all);
		if (before <= rank && rank - before < own) {
			const uint32_t second = rank - before >= bins[2 * t];

			found = prefix << width | (2 * t + second);
			left = rank - before - (second ? bins[2 * t] : 0);
		}
		__syncthreads();
	}
	if (t == 0)
		seen->picked[blockIdx.x] = found;
}

cudaError_t cu_bucket_pick(cudaStream_t s, struct cu_bucket_seen *seen, const uint32_t *key, int64_t samples,
			   const struct cu_ranks *ranks, int buckets)
{
	return CU_LAUNCH(pick, 3 * (buckets - 1), CU_PLACE_THREADS, s, seen, key, (uint32_t)samples, *ranks);
}

/* ---- the same among all elements, -0 as 0. Behind the bins: the prefix found so far, and the rank under it. */

static __global__ void begin_rank(uint32_t *bins, uint32_t rank)
{
	bins[CU_SELECT_BINS] = 0;
	bins[CU_SELECT_BINS + 1] = rank;
}

static __global__ void key_histogram(uint32_t *bins, const float *x, int pass, int64_t n)
{
	__shared__ uint32_t count[CU_SELECT_BINS];
	const int shift = pass_shift(pass), width = pass_width(pass);
	const uint32_t prefix = bins[CU_SELECT_BINS], mask = (1u << width) - 1;
	uint32_t zeros = 0;

	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		count[b] = 0;
	__syncthreads();
	for (int64_t i = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * CU_THREADS) {
		const uint32_t key = ordered(x[i] + 0.0f);

		if (key >> shift >> width != prefix)
			continue;
		if (key == ZERO_KEY)
			zeros++;
		else
			atomicAdd(&count[key >> shift & mask], 1u);
	}
	if (zeros != 0)
		atomicAdd(&count[ZERO_KEY >> shift & mask], zeros);
	__syncthreads();
	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		if (count[b] != 0)
			atomicAdd(&bins[b], count[b]);
}

static __global__ void PLACE_THREADS key_narrow(uint32_t *bins, uint32_t *picked, int pass)
{
	const unsigned t = threadIdx.x;
	const uint32_t prefix = bins[CU_SELECT_BINS], rank = bins[CU_SELECT_BINS + 1];
	const uint32_t first = bins[2 * t], own = first + bins[2 * t + 1];
	uint32_t all, before = scan_block(own, &all);

	if (before <= rank && rank - before < own) {
		const uint32_t second = rank - before >= first;

		bins[CU_SELECT_BINS] = prefix << pass_width(pass) | (2 * t + second);
		bins[CU_SELECT_BINS + 1] = rank - before - (second ? first : 0);
		*picked = bins[CU_SELECT_BINS];
	}
	bins[2 * t] = 0;
	bins[2 * t + 1] = 0;
}

cudaError_t cu_bucket_exact(cudaStream_t s, struct cu_bucket_seen *seen, uint32_t *bins, const float *x, int64_t n,
			    const struct cu_ranks *ranks, int buckets)
{
	const int64_t all = (n + CU_THREADS - 1) / CU_THREADS, most = EXACT_BLOCKS, blocks = all < most ? all : most;
	cudaError_t err = cudaSuccess;

	for (int k = 1; k < buckets && err == cudaSuccess; k++) {
		uint32_t *picked = seen->picked + 3 * k - 2;

		err = CU_LAUNCH(begin_rank, 1, 1, s, bins, ranks->rank[k]);
		for (int pass = 0; pass < PASSES && err == cudaSuccess; pass++) {
			err = CU_LAUNCH(key_histogram, blocks, CU_THREADS, s, bins, x, pass, n);
			if (err == cudaSuccess)
				err = CU_LAUNCH(key_narrow, 1, CU_PLACE_THREADS, s, bins, picked, pass);
		}
	}
	return err;
}

/* ---- what lies between the edges. A thread has a column of tallies of its own: elements in the low half of a word,
 * those equal to an edge in the high one. */

static __device__ __forceinline__ void sort_edges(float *edge, const struct cu_bucket_seen *seen, int buckets)
{
	for (int k = 0; k < CU_BUCKETS; k++) {
		const float v =
			k > 0 && k < buckets ? from_ordered(seen->picked[3 * k - 2]) : __uint_as_float(CU_F32_INF_BITS);
		int at = k;

		for (; k > 0 && at > 1 && edge[at - 1] > v; at--)
			edge[at] = edge[at - 1];
		edge[at] = v;
	}
}

static __global__ void measure(struct cu_bucket_seen *seen, uint32_t *status, const float *x, int buckets, int64_t n)
{
	__shared__ uint32_t tally[CU_BUCKETS * CU_THREADS], most[CU_BUCKETS * CU_THREADS];
	__shared__ uint32_t low[CU_THREADS], top[CU_THREADS], parts[3][CU_THREADS];
	__shared__ float edge[CU_BUCKETS];
	const unsigned t = threadIdx.x;
	uint32_t lo = 0, highest = 0, count = 0, equal = 0, largest = 0;
	float e[CU_BUCKETS];

	for (int k = 0; k < CU_BUCKETS; k++) {
		tally[k * CU_THREADS + t] = 0;
		most[k * CU_THREADS + t] = 0;
	}
	if (t == 0)
		sort_edges(edge, seen, buckets);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < CU_BUCKETS; k++)
		e[k] = edge[k];
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + t; first < n; first += (int64_t)gridDim.x * CU_TILE) {
		float values[CU_EACH];

#pragma unroll
		for (int j = 0; j < CU_EACH; j++)
			values[j] = first + j * CU_THREADS < n ? x[first + j * CU_THREADS] : 0.0f;
#pragma unroll
		for (int j = 0; j < CU_EACH; j++) {
			const float v = values[j];
			const uint32_t key = ordered(v + 0.0f);
			uint32_t bucket = 0;

			if (first + j * CU_THREADS >= n)
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

cudaError_t cu_bucket_measure(cudaStream_t s, struct cu_bucket_seen *seen, uint32_t *status, const float *x, int64_t n,
			      int buckets)
{
	const int64_t all = cu_tiles(n), most = MEASURE_BLOCKS;
	cudaError_t err = cudaMemsetAsync(seen->count, 0, 3 * sizeof(seen->count), s);

	return err == cudaSuccess
		       ? CU_LAUNCH(measure, all < most ? all : most, CU_THREADS, s, seen, status, x, buckets, n)
		       : err;
}

/* ---- codes */

static __global__ void encode(struct cu_buckets b, const float *x)
{
	__shared__ uint16_t code[CU_TILE];
	__shared__ struct affine a[CU_BUCKETS];
	const unsigned t = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * CU_TILE, left = b.n - first;
	const int len = left < CU_TILE ? (int)left : (int)CU_TILE;
	float values[CU_EACH];

#pragma unroll
	for (int e = 0; e < CU_EACH; e++)
		values[e] = e * CU_THREADS + (int)t < len ? x[first + e * CU_THREADS + t] : 0.0f;
	if (t < (unsigned)b.count)
		a[t] = affine_of(b.min[t], b.max[t], (1u << b.code_bits) - 1);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int i = e * CU_THREADS + (int)t;
		uint32_t bucket = 0, v = 0;

		if (i < len) {
			const float value = values[e];

#pragma unroll
			for (int k = 1; k < CU_BUCKETS; k++)
				bucket += k < b.count && value >= b.edge[k];
			v = bucket << b.code_bits | nearest((value * a[bucket].pre - a[bucket].lo) * a[bucket].inv);
		}
		code[i] = (uint16_t)v;
	}
	__syncthreads();
	pack_tile(b.codes, code, len, b.bits);
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

	if (threadIdx.x < (unsigned)b.count)
		a[threadIdx.x] = affine_of(b.min[threadIdx.x], b.max[threadIdx.x], (1u << b.code_bits) - 1);
	__syncthreads();
#pragma unroll
	for (int e = 0; e < CU_EACH; e++) {
		const int64_t i = first + e * CU_THREADS;

		code[e] = i < b.n ? unpack_at(b.codes, i, b.bits) : 0;
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
