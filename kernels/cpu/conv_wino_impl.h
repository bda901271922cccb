/* Winograd's F(4×4, 3×3), and stride 2 (body_wino2.h), in parts: conv_wino.c divides the work and makes blocks,
 * conv_wino_rounds.c rounds of large weights, conv_wino_tiles.c transforms. Private to these. */
#ifndef SL_CPU_CONV_WINO_IMPL_H
#define SL_CPU_CONV_WINO_IMPL_H

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	SL_WINO_OUT = 4,                 /* outputs of a tile's side */
	SL_WINO_SIDE = SL_WINO_OUT + 2,  /* of U, and of a tile's places */
	SL_WINO_EVEN = SL_WINO_SIDE - 1, /* with stride 2: U's row of one tap, used for each output of a row */
	SL_WINO_LONG = SL_WINO_EVEN + SL_WINO_OUT, /* with stride 2: of a tile's places */
	SL_WINO_PLACES = SL_WINO_SIDE * SL_WINO_SIDE,
	SL_WINO_PAD = 16,  /* floats between rows: rows a power of two apart would map to the same cache sets */
	SL_WINO_PANEL = 32 /* no level's panel is wider */
};

struct sl_wino_job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	int64_t tiles_h, tiles_w;
	int64_t last_h, last_w;           /* output rows of an image's last row of tiles, columns of its last column */
	int64_t units;                    /* places of a tile in V or M */
	int64_t rows, block_rows, blocks; /* rows of tiles: all, of a block; blocks */
	int64_t most_rows, most_blocks;   /* upper bounds of block_rows and blocks, which no smaller number of images
					   * exceeds */
	int64_t spans, span_blocks;
	int64_t round_rows;   /* rows of tiles of a round */
	bool large, large_dw; /* the pass, or dW, is made in rounds */
	bool whole, whole_dw; /* in one round of few tiles: U, or dU, is made some columns at a time, in the cache */
	float *packed;        /* U: packed matrices [in, out], one for each place */
	float *part;          /* [spans, dU] */
	float *bias;          /* partial sums of dbias, for spans or rows of tiles */
	float *round;         /* V of x and of dy of a round */
	float *zero;          /* [max(C, O)]: read for pixels outside the image */
	float *scratch;       /* per worker: V, M, gradients */
	struct sl_conv_bn bn;
};

/* One direction through the convolution: from [n, h, w, in] to [n, h, w, out]. */
struct sl_wino_pass {
	const struct sl_wino_job *j;
	int64_t in, out;
	bool back; /* from dy to dx */
	struct sl_gemm_weights u[SL_WINO_PLACES];
};

/* Rows of pixels, in a tensor or in a worker's scratch: pixel m of the whole tensor is at base + m·c. */
struct sl_wino_pixels {
	const float *base;
	int64_t c;
};

/* A panel of U's columns. */
struct sl_wino_panel {
	int64_t at, n, width;
};

/* ---- memory */

/* From one place to the next: an odd number of cache lines, so that the places of a tile lie in different sets. */
static inline int64_t sl_wino_apart(int64_t floats)
{
	return sl_cpu_line(floats) | SL_CPU_LINE;
}

/* Floats of dU for a place, with all channels. */
static inline int64_t sl_wino_gradient_place(const struct sl_wino_job *j)
{
	return sl_wino_apart(j->d.o * j->d.c);
}

/* Of conv_wino.c: a worker's scratch, and a matrix of `packed`. */
int64_t sl_wino_worker_floats(const struct sl_wino_job *job);
int64_t sl_wino_matrix_floats(const struct sl_wino_job *job);

/* ---- how many rows of V or M a place of U has. A tile that an edge cuts to three rows does without the domain's row
 * of values at ∞; of stride 1 with one or two rows without the first, too. Columns likewise. */

/* The first output row of a row of tiles, counted through all images. */
static inline int64_t sl_wino_first_row(const struct sl_wino_job *j, int64_t tile_row)
{
	return tile_row / j->tiles_h * j->d.out_h + tile_row % j->tiles_h * SL_WINO_OUT;
}

static inline bool sl_wino_is_even(const struct sl_wino_job *j, int64_t at)
{
	return j->d.stride == 2 && at == SL_WINO_EVEN;
}

static inline bool sl_wino_lacks(const struct sl_wino_job *j, int64_t rows, int64_t at)
{
	if (j->d.stride == 2)
		return at == SL_WINO_EVEN - 1 && rows < SL_WINO_OUT;
	return at == SL_WINO_SIDE - 1 ? rows < SL_WINO_OUT : at == 0 && rows <= SL_WINO_OUT / 2;
}

/* For rows of tiles from … to − 1, in row `at` of U. */
static inline int64_t sl_wino_rows(const struct sl_wino_job *j, int64_t at, int64_t from, int64_t to)
{
	if (sl_wino_is_even(j, at))
		return sl_wino_first_row(j, to) - sl_wino_first_row(j, from);
	return to - from - (sl_wino_lacks(j, j->last_h, at) ? to / j->tiles_h - from / j->tiles_h : 0);
}

/* For a row of tiles, in column `at` of U. */
static inline int64_t sl_wino_columns(const struct sl_wino_job *j, int64_t at)
{
	return sl_wino_is_even(j, at) ? j->d.out_w : j->tiles_w - sl_wino_lacks(j, j->last_w, at);
}

static inline int64_t sl_wino_tiles(const struct sl_wino_job *j, int64_t place, int64_t from, int64_t to)
{
	return sl_wino_rows(j, place / SL_WINO_SIDE, from, to) * sl_wino_columns(j, place % SL_WINO_SIDE);
}

/* The units of V or M before those of a place. A unit has room for a value of each tile. */
static inline int64_t sl_wino_unit(const struct sl_wino_job *j, int64_t place)
{
	const int64_t row = place / SL_WINO_SIDE, column = place % SL_WINO_SIDE;

	if (j->d.stride == 1)
		return place;
	return row * SL_WINO_LONG + (row == SL_WINO_EVEN ? SL_WINO_OUT : 1) * column;
}

/* ---- conv_wino_tiles.c */

struct sl_wino_panel sl_wino_panel_at(const struct sl_wino_pass *pass, int64_t index);
/* Rows k … k + deep − 1 of U's columns of a panel, to `to`; places lie `place` floats apart. */
void sl_wino_weights(const struct sl_wino_pass *pass, const struct sl_wino_panel *panel, int64_t k, int64_t deep,
		     float *to, int64_t place);
/* dw of c channels += the transform of dU, with places `place` floats apart. */
void sl_wino_weights_back(const struct sl_wino_job *job, float *dw, const float *du, int64_t place, int64_t c);
/* Channels that V and M of both directions have at most, a pixel. */
static inline int64_t sl_wino_most_in(const struct sl_wino_job *j)
{
	return sl_cpu_max(j->d.c, j->d.taps * j->d.o);
}

static inline int64_t sl_wino_most_out(const struct sl_wino_job *j)
{
	return sl_cpu_max(j->d.c / j->d.taps, j->d.o);
}

/* Rows of tiles of V or M, whose first row of tiles is `first`. */
struct sl_wino_part {
	int64_t first, row, count; /* these rows are made, or read */
	int64_t unit;              /* floats of a unit */
};

/* V of x or, `back`, of dy, with the slices of a window side by side; and dy's counterpart for dW. */
void sl_wino_in(const struct sl_wino_job *job, const struct sl_wino_pixels *x, bool back, struct sl_wino_part part,
		float *v);
void sl_wino_grad(const struct sl_wino_job *job, const struct sl_wino_pixels *dy, struct sl_wino_part part, float *m);
/* Channels at … at + n − 1 of the outputs, from M with rows of ldm floats. */
void sl_wino_out(const struct sl_wino_pass *pass, struct sl_wino_part part, const float *m, int64_t ldm, int64_t at,
		 int64_t n);
/* The gradient at y for the pixels that rows of tiles read, with `halo` rows of pixels around them: dy itself, or dy
 * propagated through the batchnorm behind, in `memory`. */
struct sl_wino_pixels sl_wino_gradient(const struct sl_wino_job *job, int64_t row, int64_t count, int halo,
				       float *memory);
/* to [o] += the sum of dy over the pixels of rows of tiles. */
void sl_wino_add_bias(const struct sl_wino_job *job, float *to, const struct sl_wino_pixels *dy, int64_t row,
		      int64_t count);

/* ---- conv_wino_rounds.c: the parts of a round are shared by the threads */

enum { SL_WINO_ROUND_TILES = 128 };
/* Floats of a round's V and M, and of what a worker needs for it. 0: there are no rounds. */
int64_t sl_wino_round_floats(const struct sl_wino_job *job);
int64_t sl_wino_round_worker_floats(const struct sl_wino_job *job);
/* y or dx of a pass that is `large`. */
void sl_wino_pass_rounds(struct sl_wino_pass *pass);
/* dU, or with `whole_dw` dw, and dbias of each row of tiles. */
void sl_wino_weight_rounds(struct sl_wino_job *job);

#endif
