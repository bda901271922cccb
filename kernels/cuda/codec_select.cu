/* The exact k-th largest magnitude, and a bitmap of what is kept: all above it, and the first ones of those
 * equal to it. A sample gives two bounds between which the k-th lies. One pass over the tensor marks what is
 * not below them, and lists what is between. Three histograms of the list's bits (11, 11 and 9 of them, from
 * the top) find the k-th. If the bounds prove wrong, or the list is too short, the histograms are of the
 * whole tensor. All is done by counting, so the order of threads changes nothing. */
#include <math.h>

#include "kernels/cuda/codec_grid.h"

enum { SAMPLE = 16384, KEYS = SAMPLE / CU_PLACE_THREADS, LEAST_SPREAD = 8, SIGMAS = 5 };
enum { WARPS = CU_THREADS / 32, SIFTED = 1024 /* elements of a warp */, SIFT_TILE = WARPS * SIFTED };
enum { PASSES = CU_SELECT_PASSES, LAST_WIDTH = 9, HISTOGRAM_BLOCKS = 512, PART = 4 * CU_TILE };
enum { ALL_BITS = 0x7fffffff, AHEAD = 4 /* words of a warp that are loaded together */ };

static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---- the sample: an element of every 1/SAMPLE of the tensor, at jittered places */

struct ranks { /* in the sample, 0 for the largest */
	uint32_t low;
	int32_t high; /* < 0: no element is certain to be above the k-th */
};

static __device__ __forceinline__ uint32_t sampled(const float *x, uint32_t i, int64_t n)
{
	const uint32_t hash = i * 2654435761u, mix = hash ^ hash >> 15;
	int64_t at = i;

	if (n > SAMPLE)
		at = (int64_t)(((uint64_t)i * (uint64_t)n + ((uint64_t)mix * (uint64_t)n >> 32)) / SAMPLE);
	return at < n ? magnitude(x[at]) : 0;
}

/* The |bits| of the sample's element of rank `left`, its lowest 9 bits cleared. Zeros are in no bin: a rank
 * beyond the bins is a zero. */
static __device__ __forceinline__ uint32_t find_rank(const uint32_t *m, uint32_t left)
{
	__shared__ uint32_t bins[CU_SELECT_BINS], found, under;
	const unsigned t = threadIdx.x;
	uint32_t prefix = 0;

	for (int shift = 20; shift >= LAST_WIDTH; shift -= 11) {
		uint32_t own, above, total;

		bins[2 * t] = 0;
		bins[2 * t + 1] = 0;
		if (t == 0) {
			found = prefix << 11;
			under = left;
		}
		__syncthreads();
#pragma unroll
		for (int e = 0; e < KEYS; e++)
			if (m[e] != 0 && m[e] >> shift >> 11 == prefix)
				atomicAdd(&bins[m[e] >> shift & (CU_SELECT_BINS - 1)], 1u);
		__syncthreads();
		own = bins[2 * t] + bins[2 * t + 1];
		above = scan_block(own, &total);
		above = total - above - own;
		if (above <= left && left - above < own) {
			const bool second = left - above < bins[2 * t + 1];

			found = prefix << 11 | (2 * t + second);
			under = left - above - (second ? 0 : bins[2 * t + 1]);
		}
		__syncthreads();
		prefix = found;
		left = under;
		__syncthreads();
	}
	return prefix << LAST_WIDTH;
}

/* Block 0 finds sel->low, block 1 sel->high. Both reset the counters. */
static __global__ void __launch_bounds__(CU_PLACE_THREADS, 1)
	estimate(struct cu_selection *sel, uint32_t *bins, uint32_t *above, uint32_t *equal, const float *x,
		 struct ranks ranks, int64_t n)
{
	const bool high = blockIdx.x != 0;
	const int64_t blocks = (n + CU_BLOCK - 1) / CU_BLOCK;
	uint32_t m[KEYS], found;

#pragma unroll
	for (int e = 0; e < KEYS; e++)
		m[e] = sampled(x, (uint32_t)e * CU_PLACE_THREADS + threadIdx.x, n);
	for (int64_t b = threadIdx.x; b < blocks; b += CU_PLACE_THREADS)
		(high ? above : equal)[b] = 0;
	for (int b = (int)threadIdx.x; !high && b < PASSES * CU_SELECT_BINS; b += CU_PLACE_THREADS)
		bins[b] = 0;
	found = find_rank(m, high ? (uint32_t)(ranks.high < 0 ? 0 : ranks.high) : ranks.low);
	if (threadIdx.x != 0)
		return;
	if (high) {
		sel->high = ranks.high < 0 ? (uint32_t)ALL_BITS + 1 : found + (1u << LAST_WIDTH);
		return;
	}
	sel->low = found;
	sel->sure = 0;
	sel->listed = 0;
}

static struct ranks ranks_of(int64_t n, int64_t k)
{
	const double part = (double)k / (double)n, at = part * fmin((double)n, (double)SAMPLE);
	const double spread = SIGMAS * sqrt(at * (1 - part)) + LEAST_SPREAD;

	return (struct ranks){(uint32_t)(at + spread), (int32_t)floor(at - spread) - 1};
}

/* ---- one pass: the bitmap, and the list. A warp has 1024 elements, and writes their 32 words at once */

static __global__ void __launch_bounds__(CU_THREADS, 6)
	sift(struct cu_selection *sel, struct cu_listed *list, uint32_t room, uint32_t *bitmap, uint32_t *above,
	     uint32_t *status, const float *x, int64_t n)
{
	__shared__ uint32_t listed[WARPS], sure[WARPS], begin;
	const uint32_t low = larger(sel->low, 1), high = larger(sel->high, sel->low + 1);
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const int64_t first = ((int64_t)blockIdx.x * WARPS + warp) * SIFTED;
	uint32_t kept = 0, beyond = 0, top = 0, at, over; /* kept, beyond: word `lane` of the warp's 32 */

#pragma unroll
	for (int j = 0; j < 32; j += CU_EACH) {
		uint32_t m[CU_EACH];

#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const int64_t i = first + 32 * (j + e) + lane;

			m[e] = i < n ? magnitude(x[i]) : 0;
		}
#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const uint32_t least = __ballot_sync(0xffffffffu, m[e] >= low);
			const uint32_t most = __ballot_sync(0xffffffffu, m[e] >= high);

			kept = lane == j + e ? least : kept;
			beyond = lane == j + e ? most : beyond;
			top = larger(top, m[e]);
		}
	}
	bitmap[first / 32 + lane] = kept;
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
	at = scan_warp((uint32_t)__popc(kept & ~beyond));
	over = scan_warp((uint32_t)__popc(beyond));
	if (lane == 31) {
		listed[warp] = at;
		sure[warp] = over;
	}
	at -= (uint32_t)__popc(kept & ~beyond);
	__syncthreads();
	if (threadIdx.x == 0) {
		uint32_t all = 0;

		over = 0;
		for (int w = 0; w < WARPS; w++) {
			all += listed[w];
			over += sure[w];
		}
		begin = atomicAdd(&sel->listed, all);
		atomicAdd(&sel->sure, over);
		atomicAdd(&above[first / CU_BLOCK], over);
	}
	__syncthreads();
	at += begin;
	for (int w = 0; w < warp; w++)
		at += listed[w];
	/* few elements are listed: they are loaded again */
	for (uint32_t left = kept & ~beyond; left != 0 && at < room; left &= left - 1, at++) {
		const int64_t i = first + 32 * lane + 31 - __clz((int)(left & (0 - left)));

		list[at].place = (uint32_t)i;
		list[at].magnitude = magnitude(x[i]);
	}
}

/* ---- the k-th */

/* The histograms count this: the list, or all elements. Keys are magnitudes minus `low`, shifted up to 31
 * bits. */
struct view {
	bool all;
	uint32_t low, rank, inside; /* the k-th has rank `rank` among `inside` elements, 1 for the largest */
	int up;
};

static __device__ __forceinline__ struct view view_of(const struct cu_selection *sel, uint32_t room, uint32_t n,
						      uint32_t k)
{
	const uint32_t sure = sel->sure, listed = sel->listed;
	uint32_t high = larger(sel->high, sel->low + 1);
	struct view v;

	v.all = sure >= k || listed > room || (sel->low != 0 && sure + listed < k);
	v.low = v.all ? 0 : sel->low;
	if (v.all)
		high = (uint32_t)ALL_BITS + 1;
	v.rank = v.all ? k : k - sure;
	/* zeros are never listed */
	v.inside = v.all ? n : v.low == 0 ? n - sure : listed;
	v.up = __clz((int)((high - v.low - 1) | 1)) - 1;
	return v;
}

static __device__ __forceinline__ int width_of(int pass)
{
	return pass < 2 ? 11 : LAST_WIDTH;
}

/* The bits of the key that are known before a pass: what was known before the previous pass, and the bin of its
 * histogram that holds the wanted key. Called by all threads of a block. Stored in sel->known for the next
 * pass. */
static __device__ __forceinline__ struct cu_known known_before(struct cu_selection *sel, const uint32_t *bins,
							       const struct view *v, int pass)
{
	__shared__ struct cu_known known;
	const uint32_t each = CU_SELECT_BINS / blockDim.x, first = threadIdx.x * each;
	uint32_t own = 0, total, above;
	struct cu_known k;

	k.prefix = 0;
	k.rank = v->rank;
	k.inside = v->inside;
	if (pass == 0)
		return k;
	if (pass > 1)
		k = sel->known[pass - 2];
	bins += (pass - 1) * CU_SELECT_BINS;
	for (uint32_t b = first; b < first + each; b++)
		own += bins[b];
	above = scan_block(own, &total);
	/* zeros are in no bin; they belong to the first one */
	own += threadIdx.x == 0 ? k.inside - total : 0;
	above = k.inside - (threadIdx.x == 0 ? 0 : above + (k.inside - total)) - own;
	for (uint32_t b = first + each; b-- > first;) {
		const uint32_t in = bins[b] + (b == 0 ? k.inside - total : 0);

		if (above < k.rank && k.rank - above <= in) {
			known.prefix = k.prefix << width_of(pass - 1) | b;
			known.rank = k.rank - above;
			known.inside = in;
		}
		above += in;
	}
	__syncthreads();
	if (blockIdx.x == 0 && threadIdx.x == 0)
		sel->known[pass - 1] = known;
	return known;
}

static __global__ void histogram(struct cu_selection *sel, uint32_t *bins, const struct cu_listed *list, uint32_t room,
				 const float *x, int pass, int64_t n, uint32_t k)
{
	__shared__ uint32_t count[CU_SELECT_BINS];
	const struct view v = view_of(sel, room, (uint32_t)n, k);
	const int width = width_of(pass), shift = pass == 0 ? 20 : pass == 1 ? LAST_WIDTH : 0;
	const int64_t all = v.all ? n : sel->listed, parts = (all + PART - 1) / PART;
	const int64_t blocks = parts < gridDim.x ? parts : (int64_t)gridDim.x;
	uint32_t prefix;

	/* keys have no bits that low; or a part each is enough for the blocks before this one */
	if ((pass == 2 && v.up >= LAST_WIDTH) || (blockIdx.x != 0 && blockIdx.x >= blocks))
		return;
	prefix = known_before(sel, bins, &v, pass).prefix;
	bins += pass * CU_SELECT_BINS;
	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		count[b] = 0;
	__syncthreads();
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x; first < all; first += blocks * CU_TILE) {
		uint32_t m[CU_EACH];

#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const int64_t i = first + e * CU_THREADS;

			m[e] = i >= all ? 0 : v.all ? magnitude(x[i]) : list[i].magnitude;
		}
#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const uint32_t key = (m[e] - v.low) << v.up;

			/* there may be very many zeros: they are not counted, but derived from the total at
			 * the end */
			if (m[e] != 0 && key >> shift >> width == prefix)
				atomicAdd(&count[key >> shift & ((1u << width) - 1)], 1u);
		}
	}
	__syncthreads();
	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		if (count[b] != 0)
			atomicAdd(&bins[b], count[b]);
}

/* ---- marks. Every warp of a block has 64 words of the bitmap. Returns the largest magnitude that the thread
 * saw */

static __device__ __forceinline__ uint32_t mark_block(uint32_t *bitmap, uint32_t *above, uint32_t *equal,
						      const float *x, uint32_t least, int64_t n)
{
	__shared__ uint32_t more, same;
	const int len = block_length(n, blockIdx.x), warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;
	uint32_t my_more = 0, my_same = 0, top = 0;

	x += (int64_t)blockIdx.x * CU_BLOCK;
	if (threadIdx.x == 0) {
		more = 0;
		same = 0;
	}
	__syncthreads();
	for (int first = warp; first < CU_BLOCK_WORDS; first += AHEAD * 32) {
		uint32_t m[AHEAD];

#pragma unroll
		for (int e = 0; e < AHEAD; e++) {
			const int i = (first + 32 * e) * 32 + lane;

			m[e] = i < len ? magnitude(x[i]) : 0;
		}
#pragma unroll
		for (int e = 0; e < AHEAD; e++) {
			const int word = first + 32 * e, i = word * 32 + lane;
			uint32_t kept = 0, ties = 0;

			if (word * 32 < len) { /* true for the whole warp, or for none of it */
				kept = __ballot_sync(0xffffffffu, i < len && m[e] >= least);
				ties = __ballot_sync(0xffffffffu, i < len && m[e] == least);
			}
			top = larger(top, m[e]);
			my_more += (uint32_t)__popc(kept & ~ties);
			my_same += (uint32_t)__popc(ties);
			if (lane == 0)
				words[word] = kept;
		}
	}
	if (lane == 0) {
		atomicAdd(&more, my_more);
		atomicAdd(&same, my_same);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		above[blockIdx.x] = more;
		equal[blockIdx.x] = same;
	}
	return top;
}

/* ---- shares: what the blocks keep; by the last block of the kernel that counts, of CU_PLACE_THREADS */

static __device__ __forceinline__ void share(const struct cu_shares *to, uint32_t *status,
					     const struct cu_selection *sel, int64_t n)
{
	const int64_t blocks = (n + CU_BLOCK - 1) / CU_BLOCK;
	const uint32_t least = sel->least, most = sel->ties;
	uint32_t ties_before = 0, kept_before = 0;

	for (int64_t first = 0; first < blocks; first += CU_PLACE_THREADS) {
		const int64_t b = first + threadIdx.x;
		const uint32_t above = b < blocks ? to->above[b] : 0;
		/* zeros were not counted */
		const uint32_t same = b >= blocks  ? 0
				      : least == 0 ? (uint32_t)block_length(n, b) - above
						   : to->equal[b];
		uint32_t total, before = ties_before + scan_block(same, &total), ties, kept;

		ties_before += total;
		ties = before < most ? most - before : 0;
		ties = same < ties ? same : ties;
		kept = above + ties;
		before = kept_before + scan_block(kept, &total);
		kept_before += total;
		if (b < blocks) {
			to->offset[b] = before;
			to->quota[b] = ties;
			to->equal[b] = same;
		}
	}
	if (threadIdx.x == 0)
		status[CU_STATUS_KEPT] = kept_before;
}

static __global__ void PLACE_THREADS mark(uint32_t *bitmap, struct cu_shares to, uint32_t *status, const float *x,
					  const struct cu_selection *sel, int64_t n)
{
	const uint32_t top = mark_block(bitmap, to.above, to.equal, x, sel->least, n);

	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
	if (is_last_block(&status[CU_STATUS_DONE]))
		share(&to, status, sel, n);
}

cudaError_t cu_mark(cudaStream_t s, uint32_t *bitmap, const struct cu_shares *to, uint32_t *status, const float *x,
		    const struct cu_selection *sel, int64_t n)
{
	return CU_LAUNCH(mark, cu_blocks(n), CU_PLACE_THREADS, s, bitmap, *to, status, x, sel, n);
}

/* A warp's part of the list: clears marks below `least`, and counts the others. Neighbours in the list are
 * mostly in one block, so each block is counted with one atomic. */
static __device__ __forceinline__ void settle_listed(uint32_t *bitmap, uint32_t *above, uint32_t *equal,
						     const struct cu_listed *list, uint32_t listed, uint32_t least)
{
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (uint32_t first = (blockIdx.x * (CU_PLACE_THREADS / 32) + warp) * 32; first < listed;
	     first += gridDim.x * CU_PLACE_THREADS) {
		const bool there = first + lane < listed;
		const uint32_t place = there ? list[first + lane].place : 0;
		const uint32_t m = there ? list[first + lane].magnitude : 0;
		uint32_t left;

		if (there && m < least)
			atomicAnd(&bitmap[place / 32], ~(1u << place % 32));
		left = __ballot_sync(0xffffffffu, there && m >= least);
		while (left != 0) {
			const uint32_t block = list[first + 31 - (uint32_t)__clz((int)left)].place / CU_BLOCK;
			const bool mine = there && m >= least && place / CU_BLOCK == block;
			const uint32_t members = __ballot_sync(0xffffffffu, mine);
			const uint32_t ties = __ballot_sync(0xffffffffu, mine && m == least);

			if (lane == 0 && members != ties)
				atomicAdd(&above[block], (uint32_t)__popc(members & ~ties));
			if (lane == 0 && ties != 0)
				atomicAdd(&equal[block], (uint32_t)__popc(ties));
			left &= ~members;
		}
	}
}

static __global__ void PLACE_THREADS settle(struct cu_selection *sel, const uint32_t *bins, uint32_t *bitmap,
					    struct cu_shares to, uint32_t *status, const struct cu_listed *list,
					    uint32_t room, const float *x, int64_t n, uint32_t k)
{
	const struct view v = view_of(sel, room, (uint32_t)n, k);
	const bool brief = v.up >= LAST_WIDTH;
	const struct cu_known known = known_before(sel, bins, &v, brief ? PASSES - 1 : (int)PASSES);
	const uint32_t least = v.low + ((brief ? known.prefix << LAST_WIDTH : known.prefix) >> v.up);

	if (blockIdx.x == 0 && threadIdx.x == 0) {
		sel->least = least;
		sel->ties = known.rank;
	}
	if (!v.all && least == 0) { /* zeros have no marks yet, and no listed mark is cleared */
		uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;
		const int len = block_length(n, blockIdx.x);

		for (int w = (int)threadIdx.x; w < CU_BLOCK_WORDS; w += CU_PLACE_THREADS)
			words[w] = len >= 32 * (w + 1) ? 0xffffffffu : len > 32 * w ? (1u << (len - 32 * w)) - 1 : 0;
	}
	if (v.all)
		mark_block(bitmap, to.above, to.equal, x, least, n);
	else
		settle_listed(bitmap, to.above, to.equal, list, sel->listed, least);
	if (is_last_block(&status[CU_STATUS_DONE]))
		share(&to, status, sel, n);
}

cudaError_t cu_select(cudaStream_t s, const struct cu_search *search, uint32_t *bitmap, const struct cu_shares *to,
		      uint32_t *status, const float *x, int64_t n, int64_t k)
{
	const int64_t tiles = cu_tiles(n), most = HISTOGRAM_BLOCKS, blocks = cu_blocks(n);
	cudaError_t err = CU_LAUNCH(estimate, 2, CU_PLACE_THREADS, s, search->sel, search->bins, to->above, to->equal,
				    x, ranks_of(n, k), n);

	if (err == cudaSuccess)
		err = CU_LAUNCH(sift, blocks * (CU_BLOCK / SIFT_TILE), CU_THREADS, s, search->sel, search->list,
				search->room, bitmap, to->above, status, x, n);
	for (int p = 0; p < PASSES && err == cudaSuccess; p++)
		err = CU_LAUNCH(histogram, tiles < most ? tiles : most, CU_THREADS, s, search->sel, search->bins,
				search->list, search->room, x, p, n, (uint32_t)k);
	if (err == cudaSuccess)
		err = CU_LAUNCH(settle, blocks, CU_PLACE_THREADS, s, search->sel, search->bins, bitmap, *to, status,
				search->list, search->room, x, n, (uint32_t)k);
	return err;
}
