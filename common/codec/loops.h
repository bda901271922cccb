/* The heavy loops of the codecs, as a table: loops.c is portable C and runs everywhere; a CPU backend may supply
 * faster ones (sl_backend_ops.codec_loops). Every implementation gives the same bits: rounding and order of
 * operations are part of the contract, products are never fused with sums, and no function depends on the number of
 * threads.
 *
 * All functions work on one block in host memory, may be called from several threads at once, and take any n ≥ 0.
 * Codes are unsigned, one per uint16_t, until they are packed. "Bits" of a float are its IEEE-754 pattern; |bits| is
 * the pattern without the sign, so that |bits| ≥ 0x7f800000 means NaN or Inf. */
#ifndef SL_CODEC_LOOPS_H
#define SL_CODEC_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rng.h"

struct sl_backend;

/* Values inside a payload have no alignment. */
typedef float sl_f32u __attribute__((aligned(1), may_alias));

enum {
	SL_CODEC_BLOCK = 65536, /* elements of one unit of work for the pool */
	SL_CODEC_TILE = 4096,   /* elements whose codes stay in the first cache between two loops */
	SL_CODEC_STREAM_BYTES = 32 << 20,
	SL_F32_INF_BITS = 0x7f800000
};

/* Accumulated over calls; start with SL_RANGE_EMPTY. */
struct sl_range {
	float min, max;
	uint32_t top; /* largest |bits| */
};
#define SL_RANGE_EMPTY ((struct sl_range){__builtin_inff(), -__builtin_inff(), 0})

/* An affine code: code = round((x·pre − lo)·inv), x' = min((lo + code·step)·post, max). `pre` and `post` are powers of
 * two that keep ranges near the ends of fp32 in its middle; 1 otherwise. See sl_affine_of. */
struct sl_affine {
	float pre, lo, inv, step, post, max;
};

/* 2^s affine codes of sortquant: bucket = number of edge[1 … count-1] that are ≤ x. Edges ascend, equal ones
 * included. Arrays have 16 entries always; unused edges are +Inf. */
struct sl_buckets {
	int count, code_bits;
	bool ties; /* whether elements equal to an edge are to be counted */
	float edge[16], pre[16], lo[16], inv[16], step[16], post[16], max[16];
};

/* Statistics for the buckets' edges 1 … count-1, accumulated over blocks. */
struct sl_bucket_stats {
	int64_t below[16], upto[16]; /* elements < edge; with `ties`, ≤ edge */
	float max_below[16];         /* largest element < edge; start with -Inf */
	struct sl_range range;       /* of all */
};

/* An output of downsample is interpolated between the small positions `at` and `next`. */
struct sl_tap {
	int64_t at, next;
	float near, far; /* weights, 1 in sum */
};

/* The tap of output i, if each of `small` positions has f outputs. */
static inline struct sl_tap sl_tap_of(int64_t i, int64_t small, int64_t f)
{
	double at = ((double)i + 0.5) / (double)f - 0.5;
	struct sl_tap tap;

	at = at < 0 ? 0 : at > (double)(small - 1) ? (double)(small - 1) : at;
	tap.at = (int64_t)at;
	tap.next = tap.at + 1 < small ? tap.at + 1 : tap.at;
	tap.far = (float)(at - (double)tap.at);
	tap.near = 1 - tap.far;
	return tap;
}

struct sl_codec_loops {
	const char *name;
	/* The table for tensors of SL_CODEC_STREAM_BYTES and more: loops that restore values write them past the
	 * caches, which could not hold them until they are read. NULL: this table. */
	const struct sl_codec_loops *streaming;
	/* For a table that streams: the one that does not, for values that are read again at once. NULL: this one. */
	const struct sl_codec_loops *storing;
	/* Called after dequantize, unlevels, unbucketize and the loops of cells have done a block, before another
	 * thread learns of it: completes stores that went past the caches. NULL: nothing to do. */
	void (*settle)(void);

	void (*minmax)(const float *x, int64_t n, struct sl_range *io);
	/* x [rows, C]; lo, hi [C], accumulated; returns the largest |bits|. */
	uint32_t (*minmax_cols)(const float *x, int64_t rows, int64_t c, float *lo, float *hi);
	/* Sum of squares in double: 16 lanes (element i in lane i % 16), then lane j + lane j+8, +4, +2, +1. Updates
	 * *top. */
	double (*sum_squares)(const float *x, int64_t n, uint32_t *top);

	/* Rounds to nearest, ties to even; or, with rnd, up with a probability of t's fraction: floor(t),
	 * plus 1 if rnd is below the fraction in units of 2^-32, whose last bit does not count; at most `most`. */
	void (*quantize)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, uint16_t most,
			 uint16_t *code);
	void (*dequantize)(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x);
	/* The same with one affine code for each element, as separate arrays: a [6][stride], in the order of struct
	 * sl_affine. */
	void (*quantize_cols)(const float *x, int64_t n, const float *a, int64_t stride, const uint32_t *rnd,
			      uint16_t most, uint16_t *code);
	void (*dequantize_cols)(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x);
	/* Sign and level: level = |x|·pre·inv rounded by rnd as in quantize, at most q, code = level | (x < 0 && level)
	 * << bits. x' = ± min(level·step·post, max). `lo` is not used. */
	void (*levels)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, int bits, uint16_t q,
		       uint16_t *code);
	void (*unlevels)(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x);
	/* sortquant: code = bucket << code_bits | code of that bucket, which is rounded as quantize does */
	void (*bucket_stats)(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io);
	void (*bucketize)(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code);
	void (*unbucketize)(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);

	/* Bit stream, least significant bit first: code i at bits [i·bits, (i+1)·bits), bits = 1 … 16; the unused bits
	 * of the last byte are zero. Writes exactly ⌈n·bits/8⌉ bytes, reads no others. */
	void (*pack)(const uint16_t *code, int64_t n, int bits, uint8_t *out);
	void (*unpack)(const uint8_t *in, int64_t n, int bits, uint16_t *code);

	/* IEEE half and bfloat16: rounded to nearest even, clamped to the largest finite value. Return the largest
	 * |bits|. */
	uint32_t (*to_f16)(const float *x, int64_t n, uint8_t *out);
	uint32_t (*to_bf16)(const float *x, int64_t n, uint8_t *out);
	void (*from_f16)(const uint8_t *in, int64_t n, float *x);
	void (*from_bf16)(const uint8_t *in, int64_t n, float *x);

	/* 32 bits an element from 16: element i has half i % 8 (low half first) of Philox block i / 8 on top, and the
	 * other half of the same word below. So two elements share a word. Each is uniform to 2^-32; two that are close
	 * to each other depend on each other where their upper halves decide nothing, which happens once in 65536
	 * times. `first` is a multiple of 8. */
	void (*random_halves)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
	/* Draws one place in each of n runs. Run j is [start, next): start is (at + j·step) >> 32, next is the start
	 * of run j+1. Its place is start + (word[j]·(next − start) >> 32), less `wrap` if it is not below `wrap`. */
	void (*draw)(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place);
	/* 32 bits an element, as sl_rng_u32; `first` is a multiple of 4. */
	void (*random32)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);

	/* Returns how many have |bits| ≥ hi. *equal: how many have |bits| = lo. *n_cand: how many have lo < |bits| <
	 * hi; these |bits| go to cand, in order, up to `cap` of them (cand has room for cap + 16). Updates *top. */
	int64_t (*scan)(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap,
			int64_t *n_cand, int64_t *equal, uint32_t *top);
	/* Sets bit i of the bitmap if |bits| of x_i ≥ least. Writes ⌈n/64⌉ whole words; returns how many bits are
	 * set. Updates *top. */
	int64_t (*mark)(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top);
	/* Copies the marked elements, in order, to y; returns their number. Updates *top from all elements. Bits
	 * beyond n must be clear. */
	int64_t (*gather)(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top);
	/* x_i = the next value of y if marked, else 0; returns how many were taken. */
	int64_t (*expand)(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x);
	/* Indices of the marked elements, ascending; n ≤ 65536; `out` has room for n + 64. Returns how many. */
	int64_t (*places)(const uint64_t *bitmap, int64_t n, uint16_t *out);
	/* Bit i becomes flag[i], which is 0 or 1. Writes ⌈n/64⌉ whole words; flag is readable, and zero, up to a
	 * multiple of 64. */
	void (*collect)(const uint8_t *flag, int64_t n, uint64_t *bitmap);

	/* Low rank; x [M, C] row-major. Sums run over m (c) in ascending order, each product rounded before it is
	 * added. */
	/* p[j][c] = Σ_m x[m][c]·q[j][m]: q [r][M], p [r][C] */
	void (*mul_xt)(const float *x, int64_t m, int64_t c, const float *q, int r, float *p);
	/* q[j][m] = Σ_c x[m][c]·p[j][c]: p [r][C], q [r][M] */
	void (*mul_x)(const float *x, int64_t m, int64_t c, const float *p, int r, float *q);
	/* x[m][c] = Σ_j a[j][m]·b[j][c]: a [r][M], b [r][C] */
	void (*outer)(const float *a, const float *b, int64_t m, int64_t c, int r, float *x);

	/* One row of w outputs of c channels between the small rows `top` and `low`; `row` has the weights of these
	 * two. Weights are multiplied first; then (top near + top far) + (low near + low far). */
	void (*interpolate)(const float *restrict top, const float *restrict low, const struct sl_tap *row,
			    const struct sl_tap *cols, int64_t w, int64_t c, float *restrict to);

	/* hadamard, in place: for the distances d = 1, 2, 4 … n/2, pairs at that distance in each run of 2·d become sum
	 * and difference. n is a power of two. */
	void (*butterflies)(float *x, int64_t n);

	/* Cells are f×f positions of c channels each, smaller at the far edges. Arrays do not overlap. */
	/* Means of the cells of one band, `lines` ≤ f lines of w positions: x [lines][w][c], mean [⌈w/f⌉][c]; sums
	 * line by line, then times 1/positions. */
	void (*average_cells)(const float *restrict x, int64_t lines, int64_t w, int64_t f, int64_t c,
			      float *restrict mean);
	/* y = x − mean of one line [w][c], mean as bfloat16; returns the largest |bits|. */
	uint32_t (*subtract_cells)(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f,
				   int64_t c, sl_f32u *restrict y);
	/* x = y + mean, for positions from … to-1 of a line; x and y begin with position `from`. */
	void (*add_cells)(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to, int64_t f,
			  int64_t c, float *restrict x);
};

extern const struct sl_codec_loops sl_codec_loops_c;

/* Coefficients for codes 0 … levels over [min, max], finite, min ≤ max. A constant range gives inv = step = 0. */
struct sl_affine sl_affine_of(float min, float max, int levels);
/* The same for magnitudes [0, scale] and levels 0 … q. */
struct sl_affine sl_affine_of_scale(float scale, int q);
/* Widens a range that has zero inside, so that zero is one of its codes. Otherwise all values near zero come back as
 * the same small value, which dominates sums over many elements, such as gradients of weights. The range stays as it
 * is if the codes would be more than an eighth further apart (b < 4, or zero near an end), and near the ends of
 * fp32. */
void sl_affine_hold_zero(float *min, float *max, int levels);

static inline const struct sl_codec_loops *sl_codec_storing(const struct sl_codec_loops *loops)
{
	return loops->storing != NULL ? loops->storing : loops;
}

static inline void sl_codec_settle(const struct sl_codec_loops *loops)
{
	if (loops->settle != NULL)
		loops->settle();
}

/* Bits that a code of quant has in its payload. whole: bytes are compressed afterwards, and no code lies across two. */
static inline int sl_code_width(int bits, bool whole)
{
	if (!whole || bits < 3)
		return bits;
	return bits <= 4 ? 4 : bits <= 8 ? 8 : 16;
}

static inline int64_t sl_packed_bytes(int64_t n, int bits)
{
	return (n * bits + 7) / 8;
}

#endif
