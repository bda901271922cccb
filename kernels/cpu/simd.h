/* The table of kernels of one SIMD level, which is chosen at run time. The bodies (body_*.h) are
 * compiled once for each level: AVX-512, AVX2 and any x86-64, or NEON with fused products and without.
 * Rows are packed: x[rows, C]. Functions run in the calling thread and write only to the ranges that
 * they name. */
#ifndef SL_CPU_SIMD_H
#define SL_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "common/exec/optimizer.h"
#include "common/graph/op.h"

/* A batchnorm with its activation, per channel [C]: z = (x − mean)·scale + shift; y = act(z).
 * Backward: g = dy where z lies in the activation's linear part, else 0; dx = a·g + b·(x − mean) + d.
 * The mean is subtracted first: where it is large compared with σ, x·scale + shift would cancel. */
struct sl_cpu_bn {
	float *mean, *scale, *shift, *a, *b, *d;
};

/* The coefficients from channel `at` on; those of backward only if n has them. */
static inline struct sl_cpu_bn sl_bn_from(const struct sl_cpu_bn *n, int64_t at)
{
	struct sl_cpu_bn from = {.mean = n->mean + at, .scale = n->scale + at, .shift = n->shift + at};

	if (n->a != NULL) {
		from.a = n->a + at;
		from.b = n->b + at;
		from.d = n->d + at;
	}
	return from;
}

/* Ranges of memory that will be read or written next. Kernels prefetch a few of their cache lines
 * between tiles of work, so that they arrive during the computation: the hardware's own prefetch stops
 * at every page border. */
enum { SL_PREFETCH_RANGES = 4 };
struct sl_prefetch {
	const char *at[SL_PREFETCH_RANGES], *end[SL_PREFETCH_RANGES];
	int n;        /* ranges */
	int per_tile; /* cache lines to prefetch for each tile */
};

enum sl_cpu_smooth {
	SL_SMOOTH_GELU,
	SL_SMOOTH_GELU_TANH,
	SL_SMOOTH_SILU,
	SL_SMOOTH_TANH,
	SL_SMOOTH_SIGMOID,
	SL_SMOOTH_HARDSIGMOID,
	SL_SMOOTH_HARDSWISH,
	SL_SMOOTH_ELU,
	SL_SMOOTH_SOFTPLUS,
	SL_SMOOTH_EXP, /* from here on in the order of SL_MATH_EXP … */
	SL_SMOOTH_LOG,
	SL_SMOOTH_SQRT,
	SL_SMOOTH_RECIPROCAL
};

/* The input of one output row of a depthwise layer with any window, for l ≤ SL_DW_LANES channels. For
 * each of the `rows` window rows that lie in the image: x is its row [columns, SL_DW_LANES] from the
 * first tap on, and w its weights [kw, ldw]. Each row of x must be readable for SL_DW_SPARE more
 * outputs; their values do not matter. */
enum { SL_DW_SPARE = 8 };
struct sl_dw_window {
	const float *const *x, *const *w;
	int64_t ldw;
	int rows, kw, step, dilation, out_w, l;
};

enum { SL_DW_LANES = 16 }; /* channels of a strip of a depthwise layer: one cache line */

/* Where the 6×6 places of a tile of Winograd's domain lie, in floats: i·plane, or, where edges cut tiles, at[i].
 * at[i] = -1: the tile does without. few_rows, few_columns: it has at most two of the four. */
struct sl_wino_places {
	int64_t plane;
	const int64_t *at;
	bool few_rows, few_columns;
};

struct sl_cpu_simd {
	const char *name;
	/* x, dy, y, dx: [n]. Here and below, "= or +=" means += if `add` is true, else =. */
	void (*act_forward)(float *y, const float *x, int64_t n, enum sl_act act);
	void (*act_backward)(float *dx, const float *dy, const float *x, int64_t n, enum sl_act act, bool add);
	/* The gradient in front of an activation from its output y, for both terms of a sum: da =, db = or +=. */
	void (*act_fork)(float *da, float *db, const float *dy, const float *y, int64_t n, enum sl_act act, bool add);
	void (*sum)(float *y, const float *a, const float *b, int64_t n); /* y = a + b; y may be a or b */
	void (*copy_row)(float *y, const float *x, int64_t n); /* and prefetches: the next rows are expected to be
								* copied too */
	void (*widen)(float *y, const uint16_t *x, int64_t n, bool f16); /* from IEEE half if f16, else from bfloat16 */
	/* y = or += by·x + plus */
	void (*scale)(float *y, const float *x, float by, float plus, int64_t n, bool add);
	/* y = or += a where x > 0, else slope·a */
	void (*leaky)(float *y, const float *a, const float *x, float slope, int64_t n, bool add);
	/* y = or += x/(1-p) where random draw first + i of the key keeps element i, else 0; first is a
	 * multiple of 4. */
	void (*dropout)(float *y, const float *x, const struct sl_rng_key *key, int64_t first, int64_t n, float p,
			bool add);
	/* Optimizer steps of common/exec/optimizer.h; w, g, m, v [n]. */
	void (*sgd)(const struct sl_update *u, int64_t n, float *w, const float *g, float *m);
	void (*adam)(const struct sl_update *u, int64_t n, float *w, const float *g, float *m, float *v);
	/* y = f(x); dx = or += dy·f'(x) */
	void (*smooth_forward)(float *y, const float *x, int64_t n, enum sl_cpu_smooth kind);
	void (*smooth_backward)(float *dx, const float *dy, const float *x, int64_t n, enum sl_cpu_smooth kind,
				bool add);
	void (*product)(float *y, const float *a, const float *b, int64_t n, bool add); /* y = or += a·b */
	/* Softmax of one query's scores [n]: s = e^((s − top)·scale)·inv, where top is the largest
	 * score and inv is 1/sum. stat gets top and inv. softmax_again computes the same from `stat`.
	 * softmax_back: ds holds dp̃ and becomes (kept·dp̃ − p·Σ kept·dp̃)·scale. */
	void (*softmax)(float *s, int64_t n, float scale, float stat[2]);
	void (*softmax_again)(float *s, int64_t n, float scale, const float stat[2]);
	void (*softmax_back)(float *ds, const float *p, const float *kept, int64_t n, float scale);
	/* `dropout` of rows ld floats apart; the draws of a row begin at first + row·step. ld, first
	 * and step are multiples of 4. Row i has n + i·more elements; up to 3 floats behind them are
	 * read and written. */
	void (*dropout_rows)(float *y, const float *x, int64_t ld, const struct sl_rng_key *key, int64_t first,
			     int64_t step, int64_t rows, int64_t n, int64_t more, float p);
	/* Transposes x [n, depth], row i at x + i·ldx, to a panel [depth, width]. Its columns from n on
	 * are 0. width: a multiple of 4. */
	void (*transpose)(float *to, int width, const float *x, int64_t ldx, int64_t n, int64_t depth);
	/* Normalises one row of f values: y = (x − mean)·inv·γ + β. stat gets mean and inv = 1/σ;
	 * without `centred`, 0 and 1 over the root mean square. beta NULL: no β. */
	void (*norm_forward)(float *y, float stat[2], const float *x, const float *gamma, const float *beta, int64_t f,
			     float eps, bool centred);
	/* dx NULL: not wanted. dgamma and dbeta (NULL: none) are added to. */
	void (*norm_backward)(float *dx, const float *dy, const float *x, const float *gamma, const float stat[2],
			      int64_t f, bool centred, bool add, float *dgamma, float *dbeta);
	/* Matrices [rows, C]; with ld, rows begin ld floats apart and C columns of them count. */
	/* sum [c] += column sums of x. */
	void (*row_sum)(float *sum, const float *x, int64_t ld, int64_t rows, int c);
	void (*add_row)(float *y, const float *row, int64_t rows, int c); /* y[r] += row */
	/* y = by·Σ over h < high, w < wide of x[h·row + w·ld + k], k < c */
	void (*window_sum)(float *y, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide, int c,
			   double by);
	/* y = the largest of such a window; a NaN counts as larger than all else. dx = or += dy at the
	 * first maximum in row order; the others are 0, or stay. */
	void (*window_max)(float *y, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide, int c);
	void (*window_max_back)(float *dx, const float *dy, const float *x, int64_t row, int64_t ld, int64_t high,
				int64_t wide, int c, bool add);
	/* sum += Σ (x − origin), sum_sq += Σ (x − origin)² */
	void (*moments)(double *sum, double *sum_sq, const float *origin, const float *x, int64_t ld, int64_t rows,
			int c);
	void (*bn_forward)(float *y, const float *x, const struct sl_cpu_bn *n, int64_t ld, int64_t rows, int c,
			   enum sl_act act);
	/* The same by stores that bypass the cache, where rows of y are whole aligned registers. Each
	 * thread that called it must call stream_end before another thread may read y. */
	void (*bn_forward_stream)(float *y, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c,
				  enum sl_act act);
	void (*stream_end)(void);
	/* y = act(bn(a) + b), or act(a + b) if n is NULL. `streams`: by such stores, where that is possible. */
	void (*norm_sum)(float *y, const float *a, const float *b, const struct sl_cpu_bn *n, int64_t rows, int c,
			 enum sl_act act, bool streams);
	/* sum_g += Σ g, sum_gx += Σ g·(x − mean); a, b, d are not read. */
	void (*bn_sums)(double *sum_g, double *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn *n,
			int64_t ld, int64_t rows, int c, enum sl_act act);
	void (*bn_backward)(float *dx, const float *dy, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c,
			    enum sl_act act, bool add);
	/* y [rows, n] = or += Σ over segments s and k in [0, depth) of
	 * seg[s][row·lda + k]·w[s·depth + k][·]. Row i of y is at y + i·ldy. w: one panel of packed
	 * weights [n_seg·depth, width], 0 beyond column n. Its width is one register if n fits, else two
	 * (`panel` floats). n is at most `panel`. */
	void (*gemm_rows)(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
			  const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next);
	/* The same product of bfloat16: each float of seg or w is a pair of factors, and `depth` counts
	 * pairs. `narrow` rounds x [n] to bfloat16, to nearest, ties to even; magnitudes below 2^-126
	 * become 0. `pair_rows` makes n pairs of a[i] and b[i], `pair_floats` of their roundings; b NULL: of
	 * a[i] and 0. outer_pairs is gemm_outer with rounded factors. pairs_need_bf16: only CPUs with
	 * AVX512-BF16 run these (sl_cpu_has_pairs); else they are plain loops with the same bits, for tests. */
	void (*gemm_pairs)(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
			   const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next);
	void (*narrow)(uint16_t *to, const float *x, int64_t n);
	void (*pair_rows)(uint32_t *to, const uint16_t *a, const uint16_t *b, int64_t n);
	void (*pair_floats)(uint32_t *to, const float *a, const float *b, int64_t n);
	void (*outer_pairs)(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			    int64_t nb, int64_t rows, struct sl_prefetch *next);
	bool pairs_need_bf16;
	/* y [rows, n] = or += x [rows, depth]·wᵀ for w [n, depth] in bfloat16; gives the bits of
	 * gemm_rows. rows: 1 to held_most. NULL: this level has none. */
	void (*held_rows)(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t depth, const uint16_t *w,
			  int64_t ldw, int rows, int64_t n, bool add);
	int held_most;
	/* c [na, nb] += Σ over rows m of a[m·lda + i]·b[m·ldb + j] */
	void (*gemm_outer)(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			   int64_t nb, int64_t rows, struct sl_prefetch *next);
	/* The same two products for a bundle of `unit` narrow groups, a power of two: channel i of group g is lane
	 * i·unit + g. group_mix copies pixels: lane k is channel lane[k] of the n that x has, and 0 behind them. It
	 * writes a whole register at a pixel. Each output takes `width` ≤ 8 channels of its group. w, dw:
	 * [taps·width, panel/2]. group_rows: seg[s] is what lies under tap s; y has n channels, channel k in lane[k].
	 * group_outer: dw of one tap; dy has n channels, lane k is channel lane[k]. */
	void (*group_mix)(float *to, int64_t ldto, const float *x, int64_t ldx, const int32_t *lane, int n,
			  int64_t pixels);
	void (*group_rows)(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, const int32_t *lane,
			   int unit, int width, const float *w, int64_t rows, int n, bool add);
	void (*group_outer)(float *dw, const int32_t *lane, int unit, int width, const float *x, int64_t ldx,
			    const float *dy, int64_t ldy, int64_t rows, int n);
	/* Makes patches p [n, ldp]: patch i is `taps` floats of each of n_seg rows, from
	 * seg[s] + i·step on, then a 1. Reads up to a register more than the taps, and writes up to a register
	 * behind the last patch. */
	void (*patches)(float *p, int64_t ldp, const float *const *seg, int n_seg, int taps, int64_t step, int64_t n);
	int panel, tile_rows; /* floats of a panel's row; rows of a tile */
	/* Winograd's F(4×4, 3×3) of one tile and c channels. d [6, 6] points to the input pixels, dy [4, 4] to those
	 * of the gradient. Their transforms are written to v. */
	void (*wino_in)(float *v, const struct sl_wino_places *places, const float *const *d, int c);
	void (*wino_grad)(float *v, const struct sl_wino_places *places, const float *const *dy, int c);
	/* Writes the output pixels [4, 4]; a NULL pixel is skipped. bias [c] or NULL. */
	void (*wino_out)(float *const *y, const float *v, const struct sl_wino_places *places, const float *bias, int c,
			 bool add);
	/* Transforms c channels of weights; taps are ldw floats apart. turned: the kernel is rotated by 180°.
	 * wino_weights_back adds the transposed transform of du to dw. */
	void (*wino_weights)(float *u, int64_t plane, const float *w, int64_t ldw, int c, bool turned);
	void (*wino_weights_back)(float *dw, int64_t ldw, const float *du, int64_t plane, int c);
	/* The same of stride 2. A tile's 9×9 places lie at[i] floats from V or M on; -1: the tile does without.
	 * d [9, 9]; dy [5, 5] for dX, [4, 4] for dW; y [4, 4], dx [8, 8]. U has 6×6 places, see body_wino2.h. */
	void (*wino2_in)(float *v, const int64_t *at, const float *const *d, int c);
	void (*wino2_in_back)(float *v, const int64_t *at, const float *const *dy, int c);
	void (*wino2_grad)(float *v, const int64_t *at, const float *const *dy, int c);
	void (*wino2_out)(float *const *y, const float *v, const int64_t *at, const float *bias, int c, bool add);
	void (*wino2_out_back)(float *const *dx, const float *v, const int64_t *at, const float *bias, int c, bool add);
	void (*wino2_weights)(float *u, int64_t plane, const float *w, int64_t ldw, int c, bool turned);
	void (*wino2_weights_back)(float *dw, int64_t ldw, const float *du, int64_t plane, int c);
	/* Depthwise 3×3, stride 1 or 2, of a strip: l ≤ SL_DW_LANES channels. Its rows of x and dy are
	 * [columns + 2, SL_DW_LANES], with a zero column on either side. w and dw are [9, ldw]. In a
	 * row of a tensor, columns are ldx or ldy floats apart. */
	void (*dw_row)(float *y, int64_t ldy, const float *const x[3], const float *w, int64_t ldw, const float *bias,
		       int out_w, int l, int stride, struct sl_prefetch *next); /* bias [l] or NULL */
	/* dw += the products over one output row, and dw[9] += the sum of dy. dy points behind its
	 * first zero column. */
	void (*dw_weight_row)(float *dw, int64_t ldw, const float *dy, const float *const x[3], int out_w, int l,
			      int stride, struct sl_prefetch *next);
	/* Stride 2: dx [in_w] = from n_dy ∈ {1, 2} rows of dy, pointers behind their first zero column.
	 * Row i is multiplied by the weights w[i] [3, ldw]. */
	void (*dw_data_row2)(float *dx, int64_t ldx, const float *const dy[2], const float *const w[2], int64_t ldw,
			     int n_dy, int in_w, int l);
	/* Fills columns of a strip from a tensor: copied (n NULL), through a batchnorm, or backward
	 * through it. */
	void (*dw_fill)(float *to, const float *x, int64_t ldx, const struct sl_cpu_bn *n, int columns, int l,
			enum sl_act act);
	void (*dw_fill_back)(float *to, const float *dy, const float *x, int64_t ldx, const struct sl_cpu_bn *n,
			     int columns, int l, enum sl_act act);
	/* dx = or += columns of a strip, backward through an activation of x (not read with
	 * SL_ACT_NONE). */
	void (*dw_place)(float *dx, const float *g, const float *x, int64_t ldx, int columns, int l, enum sl_act act,
			 bool add);
	/* Any window. dw_any_row: y = bias + Σ x·w; with `add`, y += that. dw_any_weight_row: dw[row]
	 * [kw, ldw] += Σ x·dy; it does not read the window's w. */
	void (*dw_any_row)(float *y, int64_t ldy, const struct sl_dw_window *v, const float *bias, bool add);
	void (*dw_any_weight_row)(float *const *dw, const float *dy, int64_t ldy, const struct sl_dw_window *v);
};

/* The levels of the architecture that this was built for; level.h lists them. */
extern const struct sl_cpu_simd sl_cpu_simd_avx512, sl_cpu_simd_avx2, sl_cpu_simd_neon, sl_cpu_simd_base;

#endif
