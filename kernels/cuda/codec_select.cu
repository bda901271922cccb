/* The exact k-th largest magnitude by three histograms of its bits, from the top (11, 11 and 9 of them), and the marks
 * of what is kept: all above it, and of those equal to it the first ones. */
#include "kernels/cuda/codec_grid.h"

enum { PASSES = 3, HISTOGRAM_BLOCKS = 1024, INF_BIN = CU_F32_INF_BITS >> 20 };

static __global__ void histogram(uint32_t *bins, const float *x, const struct cu_selection *sel, int shift, int width,
				 int64_t n)
{
	__shared__ uint32_t count[CU_SELECT_BINS];
	const uint32_t prefix = sel->least, mask = (1u << width) - 1;

	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		count[b] = 0;
	__syncthreads();
	for (int64_t first = (int64_t)blockIdx.x * CU_TILE + threadIdx.x; first < n;
	     first += (int64_t)gridDim.x * CU_TILE) {
#pragma unroll
		for (int e = 0; e < CU_EACH; e++) {
			const int64_t i = first + e * CU_THREADS;
			const uint32_t m = i < n ? magnitude(x[i]) : 0;

			/* zeros, of which there may be very many, are what is missing in the end */
			if (m != 0 && m >> shift >> width == prefix)
				atomicAdd(&count[m >> shift & mask], 1u);
		}
	}
	__syncthreads();
	for (unsigned b = threadIdx.x; b < CU_SELECT_BINS; b += CU_THREADS)
		if (count[b] != 0)
			atomicAdd(&bins[b], count[b]);
}

/* One block of CU_THREADS: the bin in which the k-th lies becomes part of the prefix. sel->ties: k among what is under
 * the prefix. The bins are cleared for the next pass. */
static __global__ void narrow(struct cu_selection *sel, uint32_t *bins, uint32_t *status, int width, bool first)
{
	const unsigned t = threadIdx.x;
	const uint32_t k = sel->ties, inside = sel->inside, prefix = sel->least;
	uint32_t bin[CU_EACH], own = 0, total, above;

	for (int e = 0; e < CU_EACH; e++) {
		bin[e] = bins[t * CU_EACH + e];
		own += bin[e];
		if (first && bin[e] != 0 && t * CU_EACH + e >= INF_BIN)
			atomicMax(&status[CU_STATUS_NONFINITE], (unsigned)CU_F32_INF_BITS);
	}
	above = scan_block(own, &total);
	if (t == 0) {
		bin[0] += inside - total;
		own += inside - total;
	} else {
		above += inside - total;
	}
	above = inside - above - own;
	for (int e = CU_EACH - 1; e >= 0; e--) {
		if (above < k && k - above <= bin[e]) {
			sel->least = prefix << width | (t * CU_EACH + e);
			sel->ties = k - above;
			sel->inside = bin[e];
		}
		above += bin[e];
		bins[t * CU_EACH + e] = 0;
	}
}

static __global__ void begin(struct cu_selection *sel, uint32_t n, uint32_t k)
{
	sel->least = 0;
	sel->ties = k;
	sel->inside = n;
}

cudaError_t cu_select(cudaStream_t s, struct cu_selection *sel, uint32_t *bins, uint32_t *status, const float *x,
		      int64_t n, int64_t k)
{
	static const int widths[PASSES] = {11, 11, 9};
	const int64_t tiles = cu_tiles(n), most = HISTOGRAM_BLOCKS, blocks = tiles < most ? tiles : most;
	cudaError_t err = CU_LAUNCH(begin, 1, 1, s, sel, (uint32_t)n, (uint32_t)k);
	int shift = 31;

	for (int p = 0; p < PASSES && err == cudaSuccess; p++) {
		const int width = widths[p];

		shift -= width;
		err = CU_LAUNCH(histogram, blocks, CU_THREADS, s, bins, x, sel, shift, width, n);
		if (err == cudaSuccess)
			err = CU_LAUNCH(narrow, 1, CU_THREADS, s, sel, bins, status, width, p == 0);
	}
	return err;
}

/* ---- marks. Every warp of a block has 64 words of the bitmap. */

static __global__ void PLACE_THREADS mark(uint32_t *bitmap, uint32_t *above, uint32_t *equal, uint32_t *status,
					  const float *x, const struct cu_selection *sel, int64_t n)
{
	__shared__ uint32_t more, same;
	const uint32_t least = sel->least;
	const int len = block_length(n), warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;
	uint32_t my_more = 0, my_same = 0, top = 0;

	x += (int64_t)blockIdx.x * CU_BLOCK;
	if (threadIdx.x == 0) {
		more = 0;
		same = 0;
	}
	__syncthreads();
#pragma unroll 8
	for (int w = 0; w < CU_BLOCK_WORDS / 32; w++) {
		const int word = w * 32 + warp, i = word * 32 + lane;
		const uint32_t m = i < len ? magnitude(x[i]) : 0;
		uint32_t kept = 0, ties = 0;

		if (word * 32 < len) { /* all of the warp, or none */
			kept = __ballot_sync(0xffffffffu, i < len && m >= least);
			ties = __ballot_sync(0xffffffffu, i < len && m == least);
		}
		top = m > top ? m : top;
		my_more += (uint32_t)__popc(kept & ~ties);
		my_same += (uint32_t)__popc(ties);
		if (lane == 0)
			words[word] = kept;
	}
	if (lane == 0) {
		atomicAdd(&more, my_more);
		atomicAdd(&same, my_same);
	}
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
	__syncthreads();
	if (threadIdx.x == 0) {
		above[blockIdx.x] = more;
		equal[blockIdx.x] = same;
	}
}

cudaError_t cu_mark(cudaStream_t s, uint32_t *bitmap, uint32_t *above, uint32_t *equal, uint32_t *status,
		    const float *x, const struct cu_selection *sel, int64_t n)
{
	return CU_LAUNCH(mark, cu_blocks(n), CU_PLACE_THREADS, s, bitmap, above, equal, status, x, sel, n);
}

static __global__ void PLACE_THREADS share(uint32_t *count, uint32_t *offset, uint32_t *quota, uint32_t *status,
					   const uint32_t *above, const uint32_t *equal, const struct cu_selection *sel,
					   int64_t blocks)
{
	uint32_t ties_before = 0, kept_before = 0;

	for (int64_t first = 0; first < blocks; first += CU_PLACE_THREADS) {
		const int64_t b = first + threadIdx.x;
		const uint32_t same = b < blocks ? equal[b] : 0;
		uint32_t total, before = ties_before + scan_block(same, &total), left, ties, kept;

		ties_before += total;
		left = before < sel->ties ? sel->ties - before : 0;
		ties = same < left ? same : left;
		kept = b < blocks ? above[b] + ties : 0;
		before = kept_before + scan_block(kept, &total);
		kept_before += total;
		if (b < blocks) {
			count[b] = kept;
			offset[b] = before;
			quota[b] = ties;
		}
	}
	if (threadIdx.x == 0)
		status[CU_STATUS_KEPT] = kept_before;
}

cudaError_t cu_share(cudaStream_t s, uint32_t *count, uint32_t *offset, uint32_t *quota, uint32_t *status,
		     const uint32_t *above, const uint32_t *equal, const struct cu_selection *sel, int64_t blocks)
{
	return CU_LAUNCH(share, 1, CU_PLACE_THREADS, s, count, offset, quota, status, above, equal, sel, blocks);
}

static __global__ void PLACE_THREADS drop_ties(uint32_t *bitmap, const uint32_t *quota, const uint32_t *equal,
					       const float *x, const struct cu_selection *sel, int64_t n)
{
	const uint32_t least = sel->least, most = quota[blockIdx.x];
	const int len = block_length(n), word0 = (int)threadIdx.x * 2;
	uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;
	uint32_t ties[2] = {0, 0}, total, rank;

	if (most == equal[blockIdx.x])
		return;
	x += (int64_t)blockIdx.x * CU_BLOCK;
	/* two words a thread, so that ranks are in the order of the elements; few blocks ever come here */
	for (int w = 0; w < 2; w++)
		for (int j = 0; j < 32; j++) {
			const int i = (word0 + w) * 32 + j;

			ties[w] |= (uint32_t)(i < len && magnitude(x[i]) == least) << j;
		}
	rank = scan_block((uint32_t)(__popc(ties[0]) + __popc(ties[1])), &total);
	for (int w = 0; w < 2; w++) {
		uint32_t kept = words[word0 + w];

		for (int j = 0; j < 32; j++)
			if (ties[w] >> j & 1 && rank++ >= most)
				kept &= ~(1u << j);
		words[word0 + w] = kept;
	}
}

cudaError_t cu_drop_ties(cudaStream_t s, uint32_t *bitmap, const uint32_t *quota, const uint32_t *equal, const float *x,
			 const struct cu_selection *sel, int64_t n)
{
	return CU_LAUNCH(drop_ties, cu_blocks(n), CU_PLACE_THREADS, s, bitmap, quota, equal, x, sel, n);
}
