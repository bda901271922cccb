/* Products for convolutions. Included by simd_*.c after body_elem.h.
 *
 * The tile of the result stays in registers: up to TILE_ROWS rows of one or two registers. Its left factor is read as
 * scalars straight from where it lies (a broadcast costs no more than a load), so that nothing but the weights is
 * packed. */
enum {
	TILE_ROWS = VL == 16 ? 14 : 6, /* 28 of 32 registers, 12 of 16 */
	PANEL = 2 * VL
};

/* y[t][nv·VL] = or += Σ over segments and k of x[seg][t·lda + k]·w[seg·K + k][nv·VL]; t and nv are constants. */
ALWAYS void rows_tile(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, int64_t depth,
		      const float *w, int n, bool add, int t, int nv)
{
	vf acc[TILE_ROWS][2];
	int last = n - (nv - 1) * VL;

#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++)
			acc[i][j] = (vf){0};
	for (int s = 0; s < n_seg; s++) {
		const float *x = seg[s] + at;

		for (int64_t k = 0; k < depth; k++, x++, w += nv * VL) {
			vf w0 = ld(w), w1 = nv > 1 ? ld(w + VL) : w0;

#pragma GCC unroll 14
			for (int i = 0; i < t; i++) {
				vf v = set1(x[i * lda]);

				acc[i][0] += v * w0;
				if (nv > 1)
					acc[i][1] += v * w1;
			}
		}
	}
#pragma GCC unroll 14
	for (int i = 0; i < t; i++, y += ldy) {
		if (nv > 1)
			st(y, add ? ld(y) + acc[i][0] : acc[i][0]);
		if (last == VL)
			st(y + (nv - 1) * VL, add ? ld(y + (nv - 1) * VL) + acc[i][nv - 1] : acc[i][nv - 1]);
		else
			stn(y + (nv - 1) * VL, add ? ldn(y + (nv - 1) * VL, last) + acc[i][nv - 1] : acc[i][nv - 1],
			    last);
	}
}

/* c[t][n] += Σ over rows m of a[m·lda + i]·b[m·ldb + j] */
ALWAYS void outer_tile(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows,
		       int n, int t, int nv)
{
	vf acc[TILE_ROWS][2];
	int last = n - (nv - 1) * VL;

#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++)
			acc[i][j] = ldv(c + i * ldc + j * VL, j == nv - 1 ? last : VL);
	for (int64_t m = 0; m < rows; m++, a += lda, b += ldb) {
		vf b0 = nv > 1 || last == VL ? ld(b) : ldn(b, last);
		vf b1 = nv == 1 ? b0 : last == VL ? ld(b + VL) : ldn(b + VL, last);

#pragma GCC unroll 14
		for (int i = 0; i < t; i++) {
			vf v = set1(a[i]);

			acc[i][0] += v * b0;
			if (nv > 1)
				acc[i][1] += v * b1;
		}
	}
#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++)
			stv(c + i * ldc + j * VL, acc[i][j], j == nv - 1 ? last : VL);
}

/* A function per height of tile, so that the number is a constant in its body. */
typedef void rows_fn(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, int64_t depth,
		     const float *w, int n, bool add);
typedef void outer_fn(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows,
		      int n);

#define TILES(t)                                                                                                  \
	static void rows1_##t(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, \
			      int64_t depth, const float *w, int n, bool add)                                     \
	{                                                                                                         \
		rows_tile(y, ldy, seg, n_seg, lda, at, depth, w, n, add, t, 1);                                   \
	}                                                                                                         \
	static void rows2_##t(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, \
			      int64_t depth, const float *w, int n, bool add)                                     \
	{                                                                                                         \
		rows_tile(y, ldy, seg, n_seg, lda, at, depth, w, n, add, t, 2);                                   \
	}                                                                                                         \
	static void outer1_##t(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,   \
			       int64_t rows, int n)                                                               \
	{                                                                                                         \
		outer_tile(c, ldc, a, lda, b, ldb, rows, n, t, 1);                                                \
	}                                                                                                         \
	static void outer2_##t(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,   \
			       int64_t rows, int n)                                                               \
	{                                                                                                         \
		outer_tile(c, ldc, a, lda, b, ldb, rows, n, t, 2);                                                \
	}

#if VL == 16
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
EACH_TILE(TILES)
#define ROWS1(t)  rows1_##t,
#define ROWS2(t)  rows2_##t,
#define OUTER1(t) outer1_##t,
#define OUTER2(t) outer2_##t,
static rows_fn *const rows_fns[2][TILE_ROWS] = {{EACH_TILE(ROWS1)}, {EACH_TILE(ROWS2)}};
static outer_fn *const outer_fns[2][TILE_ROWS] = {{EACH_TILE(OUTER1)}, {EACH_TILE(OUTER2)}};

/* Height of the tiles that cut n rows as evenly as may be. */
static int tile_of(int64_t n)
{
	int64_t tiles = (n + TILE_ROWS - 1) / TILE_ROWS;

	return (int)((n + tiles - 1) / tiles);
}

static inline void prefetch_some(struct sl_prefetch *next)
{
	int lines = next->per_tile;

	while (next->n > 0 && lines > 0) {
		int r = next->n - 1;
		const char *at = next->at[r], *end = next->end[r];

		for (; lines > 0 && at < end; lines--, at += 64)
			__builtin_prefetch(at, 0, 2);
		next->at[r] = at;
		if (at >= end)
			next->n--;
	}
}

static void gemm_rows(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
		      const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next)
{
	int tile = rows > 8 * TILE_ROWS ? TILE_ROWS : tile_of(rows);

	for (int64_t m = 0; m < rows; m += tile) {
		int t = rows - m < tile ? (int)(rows - m) : tile;

		rows_fns[n > VL][t - 1](y + m * ldy, ldy, seg, n_seg, lda, m * lda, depth, w, n, add);
		prefetch_some(next);
	}
}

static void gemm_outer(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
		       int nb, int64_t rows, struct sl_prefetch *next)
{
	int tile = tile_of(na);

	for (int64_t i = 0; i < na; i += tile) {
		int t = na - i < tile ? (int)(na - i) : tile;

		outer_fns[nb > VL][t - 1](c + i * ldc, ldc, a + i, lda, b, ldb, rows, nb);
		prefetch_some(next);
	}
}

static void patches(float *p, int64_t ldp, const float *const *seg, int n_seg, int taps, int64_t step, int64_t n)
{
	for (int64_t i = 0; i < n; i++, p += ldp) {
		for (int s = 0; s < n_seg; s++) /* what is too much is overwritten by what comes next */
			for (int k = 0; k < taps; k += VL)
				st(p + s * taps + k, ld(seg[s] + i * step + k));
		p[n_seg * taps] = 1.0f;
	}
}
