/* sortquant: finds the edges of its buckets as common/codec/sortquant.c does. Edges are those elements of a
 * sample that have their share of it below them. While the counts of all elements show that an edge is off,
 * it moves; at last the edges come from all elements. A round picks edges, and counts between them
 * (codec_buckets.cu). The host queues all rounds and never waits; rounds behind one that is good enough do
 * nothing. Each block of a kernel decides this itself, from the counts of the kernels before it. Keys are
 * unsigned integers in the order of the floats. */
#include "kernels/cuda/codec_buckets.h"
#include "kernels/cuda/codec_codes.h"

#define ZERO_KEY 0x80000000u

enum { PASSES = 3, RUN = 16, EXACT_BLOCKS = 1024, DIGIT_BINS = CU_BUCKETS * CU_DIGIT_VALUES };

static __host__ __device__ __forceinline__ int64_t samples_of(int64_t n)
{
	return n < CU_SAMPLE ? n : (int64_t)CU_SAMPLE;
}

/* ---- the sample: runs of neighbours at jittered distances, as sl_sample takes them */

static __global__ void sample(struct cu_bucket_search *to, struct cu_buckets b, const float *x)
{
	const int64_t n = counted(b.n, b.said), step = n / (CU_SAMPLE / RUN);
	const int64_t i = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x, run = i / RUN;
	const uint32_t hash = (uint32_t)run * 2654435761u, mix = hash ^ hash >> 15;
	int64_t at = i;

	if (i >= samples_of(n))
		return;
	if (n > CU_SAMPLE)
		at = run * step + (int64_t)((uint64_t)mix * (uint64_t)(step - RUN + 1) >> 32) + i % RUN;
	to->key[i] = ordered(x[at]);
}

cudaError_t cu_bucket_sample(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, const float *x)
{
	return CU_LAUNCH(sample, (samples_of(b->n) + CU_THREADS - 1) / CU_THREADS, CU_THREADS, s, to, *b, x);
}

/* ---- the start of a round */

struct start { /* edges 0 and `count` are the two ends */
	uint32_t settled, ties, off;
	uint32_t rank[CU_BUCKETS + 1], moved[CU_BUCKETS];
	int64_t below[CU_BUCKETS + 1];
};

static __device__ __forceinline__ int64_t target(const struct cu_buckets *b, int k)
{
	return b->n * k / b->count;
}

/* From the counts by number of edges ≤ x: elements below edge k, and elements up to it. */
static __device__ __forceinline__ void count_below(int64_t *below, int64_t *upto, const struct cu_bucket_round *seen,
						   int buckets, int k)
{
	const float edge = from_ordered(seen->picked[3 * k - 2]);
	int edges = 0;

	for (int j = 1; j < buckets; j++)
		edges += from_ordered(seen->picked[3 * j - 2]) <= edge;
	*below = 0;
	for (int j = 0; j < edges; j++)
		*below += seen->count[j];
	*upto = *below + seen->equal[edges];
}

/* Whether an edge is within 1 % of n of its share. */
static __device__ __forceinline__ bool balanced(const struct cu_buckets *b, int64_t below, int64_t upto, int k)
{
	const int64_t slack = b->n / 100;

	return below <= target(b, k) + slack && upto >= target(b, k) - slack;
}

/* Whether the sample has the edge at least twice: then many elements may be equal to it. */
static __device__ __forceinline__ bool is_twice(const struct cu_bucket_round *seen, int64_t samples, int k)
{
	const uint32_t *at = &seen->picked[3 * k - 2];

	return (seen->rank[k] > 0 && at[-1] == at[0]) || (seen->rank[k] + 1 < samples && at[1] == at[0]);
}

/* The rank in the sample where an edge should be; ranks are interpolated linearly between neighbouring edges. */
static __device__ __forceinline__ uint32_t moved_rank(const struct start *from, const struct cu_buckets *b,
						      int64_t samples, int k)
{
	const int64_t want = target(b, k);
	int64_t rank, gap;
	int at = 0;

	while (at < b->count - 1 && from->below[at + 1] <= want)
		at++;
	gap = from->below[at + 1] - from->below[at];
	rank = from->rank[at] + (int64_t)((double)(want - from->below[at]) / (double)(gap < 1 ? 1 : gap) *
					  (double)((int64_t)from->rank[at + 1] - (int64_t)from->rank[at]));
	return rank < 0 ? 0 : rank >= samples ? (uint32_t)(samples - 1) : (uint32_t)rank;
}

/* Called by all threads of a block, of which there are more than edges. Decides whether there is a round, and
 * the ranks of its edges. Block 0 stores the result for the kernels that follow. */
static __device__ __forceinline__ void begin(struct start *to, struct cu_bucket_search *search,
					     const struct cu_buckets *b, int number)
{
	struct cu_bucket_round *round = &search->round[number], *before = number > 0 ? round - 1 : round;
	const int k = (int)threadIdx.x;
	const bool edge = k > 0 && k < b->count;
	const int64_t samples = samples_of(b->n);
	int64_t below = 0, upto = 0;

	if (k == 0) {
		to->settled = number > 0 ? before->settled : 0;
		to->ties = number > 0 ? before->ties : b->n <= CU_SAMPLE;
		to->off = 0;
	}
	if (k <= b->count)
		to->rank[k] = k == b->count         ? (uint32_t)samples
			      : number > 0 && k > 0 ? before->rank[k]
						    : (uint32_t)(samples * k / b->count);
	__syncthreads();
	if (number > 0 && to->settled == 0) {
		if (number == 1 && edge && is_twice(before, samples, k))
			atomicOr(&to->ties, 1u);
		if (edge)
			count_below(&below, &upto, before, b->count, k);
		if (k <= b->count)
			to->below[k] = k == b->count ? b->n : below;
		__syncthreads();
		const bool off = edge && !balanced(b, below, to->ties ? upto : below, k);

		if (off)
			atomicOr(&to->off, 1u);
		if (edge)
			to->moved[k] = number == CU_BUCKET_EXACT ? (uint32_t)target(b, k)
				       : off                     ? moved_rank(to, b, samples, k)
								 : to->rank[k];
		__syncthreads();
		/* an interpolated rank can pass an edge that stays, if many elements equal that edge: keep
		 * ranks ascending */
		for (int j = k; edge && j < b->count; j++)
			if (j == k || to->moved[j] < to->rank[k])
				to->rank[k] = to->moved[j];
		if (k == 0) {
			to->settled = to->off == 0;
			to->ties = 1;
		}
		__syncthreads();
	}
	if (blockIdx.x != 0)
		return;
	if (k == 0) {
		round->settled = to->settled;
		round->ties = to->ties;
	}
	if (k < CU_BUCKETS && to->settled == 0) {
		round->rank[k] = k < b->count ? to->rank[k] : 0;
		round->count[k] = 0;
		round->equal[k] = 0;
		round->most[k] = 0;
	}
}

/* ---- edges from the sample */

/* Key bits of a pass, from the top: 11, 11 and 10. */
static __device__ __forceinline__ int pass_width(int pass)
{
	return pass < 2 ? 11 : 10;
}

static __device__ __forceinline__ int pass_shift(int pass)
{
	return pass == 0 ? 21 : pass == 1 ? 10 : 0;
}

/* The key of rank `left` among `total`, found by a block of CU_PLACE_THREADS. */
static __device__ __forceinline__ uint32_t find_key(const uint32_t *key, uint32_t total, uint32_t left)
{
	__shared__ uint32_t bins[CU_SELECT_BINS], found, under;
	const unsigned t = threadIdx.x;

	if (t == 0) {
		found = 0;
		under = left;
	}
	for (int pass = 0; pass < PASSES; pass++) {
		const int shift = pass_shift(pass), width = pass_width(pass);
		const uint32_t mask = (1u << width) - 1;
		uint32_t prefix, rank, own, before, all, zeros = 0;

		bins[t] = 0;
		bins[t + CU_PLACE_THREADS] = 0;
		__syncthreads();
		prefix = found;
		rank = under;
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
				/* there may be very many zeros: count them without atomics */
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
			under = rank - before - (second ? bins[2 * t] : 0);
		}
		__syncthreads();
	}
	return found;
}

/* In round 0, block i finds the element of rank (i % 3 - 1) beside edge i / 3 + 1; in later rounds, block i
 * finds edge i + 1. */
static __global__ void PLACE_THREADS pick(struct cu_bucket_search *search, struct cu_buckets b, int round)
{
	__shared__ struct start start;
	const unsigned at = round == 0 ? blockIdx.x : 3 * blockIdx.x + 1;
	int64_t total, want;
	uint32_t found;

	b.n = counted(b.n, b.said);
	total = samples_of(b.n);
	begin(&start, search, &b, round);
	__syncthreads();
	if (start.settled != 0)
		return;
	want = (int64_t)start.rank[at / 3 + 1] + (int)(at % 3) - 1;
	found = find_key(search->key, (uint32_t)total,
			 want < 0       ? 0
			 : want < total ? (uint32_t)want
					: (uint32_t)total - 1);
	if (threadIdx.x == 0)
		search->round[round].picked[at] = found;
	/* clears the bins of the last round */
	for (unsigned i = blockIdx.x * CU_PLACE_THREADS + threadIdx.x; round == CU_BUCKET_TRIES - 1 && i < DIGIT_BINS;
	     i += gridDim.x * CU_PLACE_THREADS)
		for (int digit = 0; digit < CU_DIGITS; digit++)
			search->bins[digit][i] = 0;
}

cudaError_t cu_bucket_pick(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, int round)
{
	return CU_LAUNCH(pick, (round == 0 ? 3 : 1) * (b->count - 1), CU_PLACE_THREADS, s, to, *b, round);
}

/* ---- edges from all elements, with -0 as 0: digit by digit of their keys, all edges at once */

static __device__ __forceinline__ int digit_shift(int digit)
{
	return 8 * (CU_DIGITS - 1 - digit);
}

/* Finds prefix and rank [CU_BUCKETS] before this digit, from those before the previous digit and its bins.
 * Called by all threads of a block: a warp has an edge, a thread eight bins. Block 0 stores them for the next
 * digit. */
static __device__ __forceinline__ void narrow(uint32_t *prefix, uint32_t *rank, struct cu_bucket_search *search,
					      int buckets, int digit)
{
	enum { EACH = CU_DIGIT_VALUES / 32 };
	const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

	for (int k = 1 + warp; k < buckets; k += CU_THREADS / 32) {
		const uint32_t *bins = search->bins[digit - 1] + k * CU_DIGIT_VALUES + lane * EACH;
		const uint32_t before = digit == 1 ? 0 : search->prefix[digit - 1][k];
		const uint32_t want = digit == 1 ? search->round[CU_BUCKET_EXACT].rank[k] : search->rank[digit - 1][k];
		uint32_t own = 0, upto;

		for (int e = 0; e < EACH; e++)
			own += bins[e];
		upto = scan_warp(own);
		if (upto - own <= want && want < upto) {
			uint32_t left = want - (upto - own);
			int e = 0;

			while (e < EACH - 1 && left >= bins[e])
				left -= bins[e++];
			prefix[k] = before << 8 | (uint32_t)(lane * EACH + e);
			rank[k] = left;
			if (blockIdx.x == 0 && digit < CU_DIGITS) {
				search->prefix[digit][k] = prefix[k];
				search->rank[digit][k] = left;
			}
		}
	}
	__syncthreads();
}

static __global__ void count_digits(struct cu_bucket_search *search, uint32_t *status, struct cu_buckets b,
				    const float *x, int digit)
{
	__shared__ uint32_t count[DIGIT_BINS], prefix[CU_BUCKETS], rank[CU_BUCKETS];
	__shared__ struct start start;
	const int shift = digit_shift(digit);
	uint32_t zeros = 0;

	b.n = counted(b.n, b.said);
	if (digit == 0)
		begin(&start, search, &b, CU_BUCKET_EXACT);
	else if (threadIdx.x == 0)
		start.settled = search->round[CU_BUCKET_EXACT].settled;
	if (threadIdx.x < CU_BUCKETS)
		prefix[threadIdx.x] = 0;
	__syncthreads();
	if (start.settled != 0)
		return;
	if (digit > 0)
		narrow(prefix, rank, search, b.count, digit);
	for (unsigned i = threadIdx.x; i < DIGIT_BINS; i += CU_THREADS)
		count[i] = 0;
	__syncthreads();
	for (int64_t i = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x; i < b.n;
	     i += (int64_t)gridDim.x * CU_THREADS) {
		const uint32_t key = ordered(x[i] + 0.0f);

		if (key == ZERO_KEY) {
			zeros++;
			continue;
		}
		for (int k = 1; k < b.count; k++)
			if (key >> shift >> 8 == prefix[k])
				atomicAdd(&count[k * CU_DIGIT_VALUES + (int)(key >> shift & 255)], 1u);
	}
	for (int k = 1; k < b.count; k++)
		if (zeros != 0 && ZERO_KEY >> shift >> 8 == prefix[k])
			atomicAdd(&count[k * CU_DIGIT_VALUES + (int)(ZERO_KEY >> shift & 255)], zeros);
	__syncthreads();
	for (unsigned i = threadIdx.x; i < DIGIT_BINS; i += CU_THREADS)
		if (count[i] != 0)
			atomicAdd(&search->bins[digit][i], count[i]);
	if (digit < CU_DIGITS - 1 || !is_last_block(&status[CU_STATUS_DONE]))
		return;
	narrow(prefix, rank, search, b.count, CU_DIGITS);
	if (threadIdx.x > 0 && threadIdx.x < (unsigned)b.count)
		search->round[CU_BUCKET_EXACT].picked[3 * threadIdx.x - 2] = prefix[threadIdx.x];
}

cudaError_t cu_bucket_exact(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			    const float *x)
{
	const int64_t all = (b->n + CU_THREADS - 1) / CU_THREADS, most = EXACT_BLOCKS;
	cudaError_t err = cudaSuccess;

	for (int digit = 0; digit < CU_DIGITS && err == cudaSuccess; digit++)
		err = CU_LAUNCH(count_digits, all < most ? all : most, CU_THREADS, s, to, status, *b, x, digit);
	return err;
}
