/* Places: values gathered from them and expanded to them, and their coding, block by block
 * (common/codec/places.c has the format). */
#include "kernels/cuda/codec_grid.h"

#define GAPS_FLAG 0x80000000u

enum {
	AHEAD = 8,          /* words of a warp whose elements are loaded before any is stored */
	KEEP_THREADS = 512, /* three such blocks run on a multiprocessor */
	KEEP_WARPS = KEEP_THREADS / 32,
	KEEP_ROOM = 12288 /* places in shared memory */
};

/* before[w]: marks of a block's bitmap before word w. Returns the number of marks. */
static __device__ __forceinline__ uint32_t rank_words(uint32_t *before, const uint32_t *words)
{
	const unsigned each = CU_BLOCK_WORDS / KEEP_THREADS, first = threadIdx.x * each;
	uint32_t own = 0, total, rank;

	for (unsigned w = first; w < first + each; w++)
		own += (uint32_t)__popc(words[w]);
	rank = scan_block(own, &total);
	for (unsigned w = first; w < first + each; w++) {
		before[w] = rank;
		rank += (uint32_t)__popc(words[w]);
	}
	__syncthreads();
	return total;
}

/* Gathers the marked elements of a block of x to y. Returns the largest magnitude that the thread saw, with `check` of
 * all elements. */
static __device__ __forceinline__ uint32_t gather_block(float *y, const float *x, const uint32_t *words,
							const uint32_t *before, bool check, int len)
{
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	uint32_t top = 0;

	for (int word = warp; word < CU_BLOCK_WORDS; word += AHEAD * KEEP_WARPS) {
		uint32_t kept[AHEAD];
		float v[AHEAD];

#pragma unroll
		for (int e = 0; e < AHEAD; e++)
			kept[e] = words[word + KEEP_WARPS * e];
#pragma unroll
		for (int e = 0; e < AHEAD; e++) {
			const int i = (word + KEEP_WARPS * e) * 32 + lane;

			v[e] = i < len && (check || kept[e] >> lane & 1) ? x[i] : 0.0f;
		}
#pragma unroll
		for (int e = 0; e < AHEAD; e++) {
			const uint32_t m = magnitude(v[e]);

			top = m > top ? m : top;
			if (kept[e] >> lane & 1)
				y[before[word + KEEP_WARPS * e] + (uint32_t)__popc(kept[e] & lanes_below())] = v[e];
		}
	}
	return top;
}

static __global__ void __launch_bounds__(KEEP_THREADS)
	gather(float *y, uint32_t *status, const float *x, const uint32_t *bitmap, const uint32_t *offset, int64_t n)
{
	__shared__ uint32_t before[CU_BLOCK_WORDS];
	const uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;
	uint32_t top;

	rank_words(before, words);
	top = gather_block(y + offset[blockIdx.x], x + (int64_t)blockIdx.x * CU_BLOCK, words, before, true,
			   block_length(n, blockIdx.x));
	if (top >= CU_F32_INF_BITS)
		atomicMax(&status[CU_STATUS_NONFINITE], top);
}

cudaError_t cu_gather(cudaStream_t s, float *y, uint32_t *status, const float *x, const uint32_t *bitmap,
		      const uint32_t *offset, int64_t n)
{
	return CU_LAUNCH(gather, cu_blocks(n), KEEP_THREADS, s, y, status, x, bitmap, offset, n);
}

static __global__ void __launch_bounds__(KEEP_THREADS)
	expand(float *x, const float *y, const uint32_t *bitmap, const uint32_t *offset, const uint32_t *refused,
	       int64_t n)
{
	__shared__ uint32_t before[CU_BLOCK_WORDS];
	const int len = block_length(n, blockIdx.x), warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const uint32_t *words = bitmap + (int64_t)blockIdx.x * CU_BLOCK_WORDS;

	/* a refused bitmap may have more marks than there are values */
	if (refused && *refused != 0)
		return;
	rank_words(before, words);
	x += (int64_t)blockIdx.x * CU_BLOCK;
	y += offset[blockIdx.x];
	for (int word = warp; word < CU_BLOCK_WORDS; word += AHEAD * KEEP_WARPS) {
		uint32_t kept[AHEAD];
		float v[AHEAD];

#pragma unroll
		for (int e = 0; e < AHEAD; e++)
			kept[e] = words[word + KEEP_WARPS * e];
#pragma unroll
		for (int e = 0; e < AHEAD; e++)
			v[e] = kept[e] >> lane & 1
				       ? y[before[word + KEEP_WARPS * e] + (uint32_t)__popc(kept[e] & lanes_below())]
				       : 0.0f;
#pragma unroll
		for (int e = 0; e < AHEAD; e++) {
			const int i = (word + KEEP_WARPS * e) * 32 + lane;

			if (i < len)
				x[i] = v[e];
		}
	}
}

cudaError_t cu_expand(cudaStream_t s, float *x, const float *y, const uint32_t *bitmap, const uint32_t *offset,
		      const uint32_t *refused, int64_t n)
{
	return CU_LAUNCH(expand, cu_blocks(n), KEEP_THREADS, s, x, y, bitmap, offset, refused, n);
}

/* ---- coding */

static __device__ __forceinline__ int group_length(uint32_t count, int group)
{
	const uint32_t left = count - (uint32_t)group * CU_GAPS;

	return left < CU_GAPS ? (int)left : (int)CU_GAPS;
}

static __device__ __forceinline__ uint32_t gap_of(const uint16_t *place, uint32_t i)
{
	return i == 0 ? place[0] : (uint32_t)place[i] - place[i - 1] - 1;
}

/* Byte `at` of a coded group of gaps: first the width, then the packed gaps. */
static __device__ __forceinline__ uint8_t group_byte(const uint16_t *place, uint32_t first, int length, int width,
						     int at)
{
	const int bit = 8 * (at - 1);
	uint32_t byte;
	int i, held;

	if (at == 0)
		return (uint8_t)width;
	i = bit / width;
	held = (i + 1) * width - bit;
	byte = gap_of(place, first + (uint32_t)i) >> (width - held);
	for (; held < 8 && ++i < length; held += width)
		byte |= gap_of(place, first + (uint32_t)i) << held;
	return (uint8_t)byte;
}

/* Clears the marks of ties beyond the block's quota. `ties`: scratch [CU_BLOCK_WORDS]. */
static __device__ __forceinline__ void drop_ties(uint32_t *words, uint32_t *ties, uint32_t quota, const float *x,
						 uint32_t least, int len)
{
	const unsigned each = CU_BLOCK_WORDS / KEEP_THREADS, first = threadIdx.x * each;
	uint32_t own = 0, total, rank;

#pragma unroll 8
	for (uint32_t word = threadIdx.x / 32; word < CU_BLOCK_WORDS; word += KEEP_WARPS) {
		const int i = (int)(word * 32 + threadIdx.x % 32);
		const uint32_t same = __ballot_sync(0xffffffffu, i < len && magnitude(x[i]) == least);

		if (threadIdx.x % 32 == 0)
			ties[word] = same;
	}
	__syncthreads();
	/* each thread has neighbouring words, so that ranks follow the order of the elements */
	for (unsigned w = first; w < first + each; w++)
		own += (uint32_t)__popc(ties[w]);
	rank = scan_block(own, &total);
	for (unsigned w = first; w < first + each; w++) {
		uint32_t gone = 0;

		for (uint32_t left = ties[w]; left != 0; left &= left - 1)
			if (rank++ >= quota)
				gone |= left & (0 - left);
		words[w] &= ~gone;
	}
	__syncthreads();
}

/* Codes the `count` marks of block b: its entry, size and bytes in p.coded. */
static __device__ __forceinline__ void code_block(const struct cu_place_coding *p, int64_t b, uint16_t *place,
						  const uint32_t *words, const uint32_t *before, uint32_t count,
						  int len)
{
	__shared__ uint32_t any[CU_BLOCK / CU_GAPS], at[CU_BLOCK / CU_GAPS];
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	uint8_t *out = p->coded + b * CU_BLOCK_BYTES;
	const uint32_t bitmap_bytes = (uint32_t)(len + 7) / 8;
	const int groups = (int)((count + CU_GAPS - 1) / CU_GAPS), t = (int)threadIdx.x;
	uint32_t bytes = 0, total;

	for (int word = warp; word < CU_BLOCK_WORDS; word += KEEP_WARPS)
		if (words[word] >> lane & 1)
			place[before[word] + (uint32_t)__popc(words[word] & lanes_below())] =
				(uint16_t)(word * 32 + lane);
	if (t < CU_BLOCK / CU_GAPS)
		any[t] = 0;
	__syncthreads();
	for (int g = warp; g < groups; g += KEEP_WARPS) {
		uint32_t mine = 0;

		for (int i = lane; i < group_length(count, g); i += 32)
			mine |= gap_of(place, (uint32_t)(g * CU_GAPS + i));
		atomicOr(&any[g], mine);
	}
	__syncthreads();
	if (t < groups) {
		any[t] = (uint32_t)(32 - __clz((int)any[t])); /* the width */
		bytes = 1 + ((uint32_t)group_length(count, t) * any[t] + 7) / 8;
	}
	bytes = scan_block(bytes, &total);
	if (t < groups)
		at[t] = bytes;
	__syncthreads();
	if (t == 0) {
		const bool gaps = count == 0 || total < bitmap_bytes;

		p->entry[b] = count | (gaps ? GAPS_FLAG : 0);
		p->size[b] = gaps ? total : bitmap_bytes;
	}
	if (total >= bitmap_bytes) {
		for (int i = t; i < (int)bitmap_bytes; i += KEEP_THREADS)
			out[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
		return;
	}
	for (int g = warp; g < groups; g += KEEP_WARPS) {
		const int length = group_length(count, g), width = (int)any[g];

		for (int i = lane; i < 1 + (length * width + 7) / 8; i += 32)
			out[at[g] + (uint32_t)i] = group_byte(place, (uint32_t)(g * CU_GAPS), length, width, i);
	}
}

/* Turns p.size into the offsets of the blocks in the side bytes, behind the table. */
static __device__ __forceinline__ void lay_out(const struct cu_place_coding *p, uint32_t *status, int64_t blocks)
{
	uint32_t before = (uint32_t)blocks * 4;

	for (int64_t first = 0; first < blocks; first += KEEP_THREADS) {
		const int64_t b = first + threadIdx.x;
		const uint32_t size = b < blocks ? p->size[b] : 0;
		uint32_t total, at = scan_block(size, &total);

		if (b < blocks)
			p->size[b] = before + at;
		before += total;
	}
	if (threadIdx.x == 0)
		status[CU_STATUS_BYTES] = before;
}

/* The last blocks come first, as in tile_from_end. */
static __global__ void __launch_bounds__(KEEP_THREADS)
	keep(struct cu_place_coding p, uint32_t *status, uint32_t *bitmap, struct cu_shares shares,
	     const struct cu_selection *sel, const float *x, float *y, int64_t n)
{
	__shared__ uint32_t words[CU_BLOCK_WORDS], before[CU_BLOCK_WORDS];
	__shared__ uint16_t places[KEEP_ROOM];
	const int64_t b = gridDim.x - 1 - blockIdx.x;
	const int len = block_length(n, b), t = (int)threadIdx.x;
	uint32_t count;

	bitmap += b * CU_BLOCK_WORDS;
	x += b * CU_BLOCK;
	for (int w = t; w < CU_BLOCK_WORDS; w += KEEP_THREADS)
		words[w] = bitmap[w];
	__syncthreads();
	if (shares.quota[b] != shares.equal[b]) {
		drop_ties(words, before, shares.quota[b], x, sel->least, len);
		for (int w = t; w < CU_BLOCK_WORDS; w += KEEP_THREADS)
			bitmap[w] = words[w];
	}
	count = rank_words(before, words);
	gather_block(y + shares.offset[b], x, words, before, false, len);
	code_block(&p, b, count <= KEEP_ROOM ? places : p.place + b * CU_BLOCK, words, before, count, len);
	if (is_last_block(&status[CU_STATUS_DONE]))
		lay_out(&p, status, gridDim.x);
}

static __global__ void join(struct cu_place_coding p, const uint32_t *status, int64_t blocks)
{
	const uint32_t b = blockIdx.x, at = p.size[b];
	const uint32_t end = (int64_t)b + 1 < blocks ? p.size[b + 1] : status[CU_STATUS_BYTES];
	const uint8_t *from = p.coded + (int64_t)b * CU_BLOCK_BYTES;

	if (threadIdx.x < 4)
		p.side[4 * b + threadIdx.x] = (uint8_t)(p.entry[b] >> 8 * threadIdx.x);
	for (uint32_t i = threadIdx.x; i < end - at; i += CU_THREADS)
		p.side[at + i] = from[i];
}

cudaError_t cu_keep(cudaStream_t s, const struct cu_place_coding *p, uint32_t *status, uint32_t *bitmap,
		    const struct cu_shares *shares, const struct cu_selection *sel, const float *x, float *y, int64_t n)
{
	const int64_t blocks = cu_blocks(n);
	cudaError_t err = CU_LAUNCH(keep, blocks, KEEP_THREADS, s, *p, status, bitmap, *shares, sel, x, y, n);

	return err != cudaSuccess ? err : CU_LAUNCH(join, blocks, CU_THREADS, s, *p, status, blocks);
}

/* ---- reading */

static __device__ __forceinline__ bool read_bitmap(uint32_t *words, const uint8_t *in, int len, uint32_t count)
{
	const int bytes = (len + 7) / 8;
	uint32_t total = 0;
	bool good = true;

	for (int w = 2 * (int)threadIdx.x; w < 2 * (int)threadIdx.x + 2; w++) {
		uint32_t word = 0;

		for (int i = 0; i < 4; i++)
			if (4 * w + i < bytes)
				word |= (uint32_t)in[4 * w + i] << 8 * i;
		/* spare bits behind the last element must be 0 */
		if (len - 32 * w < 32 && len - 32 * w > 0)
			good = good && word >> (len - 32 * w) == 0;
		words[w] = word;
		total += (uint32_t)__popc(word);
	}
	scan_block(total, &total);
	/* before the host learns of the error, a gradient may be gathered at these places: never allow more
	 * marks than values */
	for (int w = 2 * (int)threadIdx.x; w < 2 * (int)threadIdx.x + 2 && total != count; w++)
		words[w] = 0;
	return good && total == count;
}

static __device__ __forceinline__ uint32_t packed_at(const uint8_t *in, int i, int width)
{
	const int bit = i * width;
	uint32_t v = 0;
	int got = -(bit % 8);

	for (const uint8_t *at = in + bit / 8; got < width; got += 8, at++)
		v |= got < 0 ? (uint32_t)*at >> -got : (uint32_t)*at << got;
	return v & ((1u << width) - 1);
}

/* Marks the `n` gaps of a group, whose places begin at `start`; by one warp. */
static __device__ __forceinline__ void mark_group(uint32_t *marks, const uint8_t *in, uint32_t start, int n)
{
	const int width = in[0], lane = (int)threadIdx.x % 32;
	uint32_t gap[CU_GAPS / 32], own = 0;

#pragma unroll
	for (int e = 0; e < CU_GAPS / 32; e++) {
		const int i = lane * (CU_GAPS / 32) + e;

		gap[e] = i < n && width != 0 ? packed_at(in + 1, i, width) : 0;
		own += i < n ? gap[e] + 1 : 0;
	}
	start += scan_warp(own) - own;
#pragma unroll
	for (int e = 0; e < CU_GAPS / 32; e++) {
		start += gap[e];
		if (lane * (CU_GAPS / 32) + e < n)
			atomicOr(&marks[start / 32], 1u << start % 32);
		start++;
	}
}

/* A group begins where the one before it ends: each gap g advances by g + 1. A warp has a group, a thread
 * eight of its gaps. If a place lies beyond the block, nothing is marked and the result is false. */
static __device__ __forceinline__ bool read_gaps(uint32_t *words, const uint8_t *coded, const uint32_t *group_at,
						 int len, uint32_t count)
{
	__shared__ uint32_t length[CU_BLOCK / CU_GAPS], marks[CU_BLOCK_WORDS];
	const int groups = (int)((count + CU_GAPS - 1) / CU_GAPS), t = (int)threadIdx.x;
	const int warp = t / 32, lane = t % 32;
	uint32_t total;
	bool good = true;

	for (int w = t; w < CU_BLOCK_WORDS; w += CU_PLACE_THREADS)
		marks[w] = 0;
	if (t < CU_BLOCK / CU_GAPS)
		length[t] = 0;
	__syncthreads();
	for (int g = warp; g < groups; g += CU_PLACE_THREADS / 32) {
		const uint8_t *in = coded + group_at[g];
		const int width = in[0], n = group_length(count, g);
		uint32_t sum = 0;

		for (int i = lane; i < n; i += 32)
			sum += (width == 0 ? 0 : packed_at(in + 1, i, width)) + 1;
		atomicAdd(&length[g], sum);
		if (lane == 0 && n * width % 8 != 0 && in[1 + n * width / 8] >> n * width % 8 != 0)
			good = false;
	}
	__syncthreads();
	/* each group's sum is capped just above the block size, so that the sum over groups cannot pass 2^32 */
	total = t < groups ? length[t] : 0;
	total = total < CU_BLOCK + 1 ? total : CU_BLOCK + 1;
	{
		const uint32_t own = total, start = scan_block(own, &total);

		if (t < groups)
			length[t] = start;
	}
	good = good && total <= (uint32_t)len;
	__syncthreads();
	for (int g = warp; g < groups && total <= (uint32_t)len; g += CU_PLACE_THREADS / 32)
		mark_group(marks, coded + group_at[g], length[g], group_length(count, g));
	__syncthreads();
	for (int w = t; w < CU_BLOCK_WORDS; w += CU_PLACE_THREADS)
		words[w] = marks[w];
	return good;
}

static __global__ void PLACE_THREADS read(uint32_t *bitmap, uint32_t *status, const uint8_t *coded,
					  struct cu_place_index index, int64_t n)
{
	const uint32_t b = blockIdx.x, entry = index.entry[b], count = entry & ~GAPS_FLAG;
	uint32_t *words = bitmap + (int64_t)b * CU_BLOCK_WORDS;
	const int len = block_length(n, blockIdx.x);
	bool good;

	if (entry & GAPS_FLAG)
		good = read_gaps(words, coded, index.group_at + index.group[b], len, count);
	else
		good = read_bitmap(words, coded + index.at[b], len, count);
	if (!good)
		atomicMax(&status[CU_STATUS_BAD], 1u);
}

cudaError_t cu_places_read(cudaStream_t s, uint32_t *bitmap, uint32_t *status, const uint8_t *coded,
			   const struct cu_place_index *index, int64_t n)
{
	return CU_LAUNCH(read, cu_blocks(n), CU_PLACE_THREADS, s, bitmap, status, coded, *index, n);
}
