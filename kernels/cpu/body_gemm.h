/* Matrix products for convolutions and linear layers. Included by simd_*.c after body_elem.h.
 *
 * The tile of the result stays in registers: up to TILE_ROWS rows of one or two registers. Its left
 * factor is read as scalars directly from memory (a broadcast costs no more than a load), so only the
 * weights are packed. */
#if VL == 16
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
enum { TILE_ROWS = 14 }; /* 28 of 32 registers */
#elif defined(__aarch64__)
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
enum { TILE_ROWS = 12 }; /* 24 of 32: the left factor needs some, as no instruction multiplies by a scalar in memory */
#else
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { TILE_ROWS = 6 }; /* 12 of 16 */
#endif

enum {
	PANEL = 2 * VL,
	CHAIN = 128 /* products summed in one chain: the rounding error grows with its length */
};

/* The chain length that divides n products most evenly. */
ALWAYS int64_t chain_of(int64_t n)
{
	int64_t chains = (n + CHAIN - 1) / CHAIN;

	return n <= CHAIN ? n : (n + chains - 1) / chains; /* no division, which costs as much as many products */
}

/* Cache lines that a tile prefetches while it computes, one or two at each step: a burst would stall
 * it. */
struct run {
	const char *at, *end;
};

ALWAYS void prefetch_next(struct run *next, int lines)
{
#pragma GCC unroll 8
	for (int i = 0; i < lines; i++)
		prefetch(next->at + 64 * i);
	next->at += next->at < next->end ? 64 * lines : 0;
}

/* The lines of `next` that one tile prefetches on its way, at most `most`. The rest of the tile's share
 * is prefetched here. */
static struct run take_run(struct sl_prefetch *next, int64_t most)
{
	int64_t lines = next->per_tile;
	struct run r = {(const char *)next, (const char *)next};

	if (next->n > 0) {
		int at = next->n - 1;

		r.at = next->at[at];
		r.end = r.at + 64 * (lines < most ? lines : most);
		if (r.end >= next->end[at]) {
			r.end = next->end[at];
			next->n--;
		} else {
			next->at[at] = r.end;
		}
		lines -= (r.end - r.at + 63) / 64;
	}
	prefetch_lines(next, lines);
	return r;
}

/* sum[t][nv] = or += acc; clears acc. */
ALWAYS void end_chain(vf sum[TILE_ROWS][2], vf acc[TILE_ROWS][2], bool first, int t, int nv)
{
#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++) {
			sum[i][j] = first ? acc[i][j] : sum[i][j] + acc[i][j];
			acc[i][j] = (vf){0};
		}
}

/* Rows of the left factor. One base pointer serves five rows: 0, ld, 2·ld, 3·ld (ld3) and 4·ld behind
 * it are valid x86 addresses. There are not enough registers for one pointer per row. */
enum { TILE_BASES = 3, STEPS = 4 /* steps unrolled in the loop */ };

struct left {
	const char *base[TILE_BASES];
	int64_t ld, ld3; /* bytes */
};

/* The empty asm hides from the compiler how the pointers relate. Otherwise it would keep one pointer
 * for each row. */
ALWAYS void left_move(struct left *x, int64_t floats, int t)
{
#pragma GCC unroll 3
	for (int i = 0; i < (t + 4) / 5; i++) {
		x->base[i] += floats * 4;
		__asm__("" : "+r"(x->base[i]));
	}
}

ALWAYS struct left left_of(const float *x, int64_t lda, int t)
{
	struct left l = {.ld = lda * 4, .ld3 = lda * 12};

#pragma GCC unroll 3
	for (int i = 0; i < (t + 4) / 5; i++)
		l.base[i] = (const char *)(x + i * 5 * lda);
	__asm__("" : "+r"(l.ld3));
	left_move(&l, 0, t);
	return l;
}

/* sum + a·b of two bfloat16 factors in each float: first the product of the upper halves, then that of the lower. Each
 * product is exact in fp32, so it makes no difference whether an instruction fuses it with the addition. */
ALWAYS vf plus_pairs(vf sum, vf a, vf b)
{
#if VL == 16 && !defined SL_SANITIZED
	__asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
#else
	const vu upper = (vu){0} + 0xffff0000u;

	sum += (vf)((vu)a & upper) * (vf)((vu)b & upper);
	return sum + (vf)((vu)a << 16) * (vf)((vu)b << 16);
#endif
}

#if VL >= 8 && !defined SL_SANITIZED
#if VL == 16 /* the multiplication itself can repeat a float of memory */
#define NARROW_PRODUCT(mul, index) mul " %c[at](%[base]" index ")%{1to16%}, %[w0], %[a0]"
#else
#define NARROW_PRODUCT(mul, index) "vbroadcastss %c[at](%[base]" index "), %[v]\n\t" mul " %[v], %[w0], %[a0]"
#endif
#define ADD_PRODUCTS(mul, index)                                                                                    \
	do {                                                                                                        \
		if (nv > 1)                                                                                         \
			__asm__ volatile(                                                                           \
				"vbroadcastss %c[at](%[base]" index "), %[v]\n\t" mul " %[v], %[w0], %[a0]\n\t" mul \
				" %[v], %[w1], %[a1]"                                                               \
				: [a0] "+v"(acc[0]), [a1] "+v"(acc[1]), [v] "=&v"(v)                                \
				: [at] "i"(step * 4), [base] "r"(base), [ld] "r"(ld), [w0] "v"(w0), [w1] "v"(w1),   \
				  "m"(*(const char(*)[])base));                                                     \
		else                                                                                                \
			__asm__ volatile(NARROW_PRODUCT(mul, index)                                                 \
					 : [a0] "+v"(acc[0]), [v] "=&v"(v)                                          \
					 : [at] "i"(step * 4), [base] "r"(base), [ld] "r"(ld), [w0] "v"(w0),        \
					   "m"(*(const char(*)[])base));                                            \
	} while (0)

#define ADD_PRODUCTS_OF_ROW(mul)                         \
	do {                                             \
		if (row % 5 == 0)                        \
			ADD_PRODUCTS(mul, "");           \
		else if (row % 5 == 2)                   \
			ADD_PRODUCTS(mul, ", %[ld], 2"); \
		else if (row % 5 == 4)                   \
			ADD_PRODUCTS(mul, ", %[ld], 4"); \
		else                                     \
			ADD_PRODUCTS(mul, ", %[ld]");    \
	} while (0)
#endif

/* acc[nv] += x[row·lda + step]·(w0, w1); row, step and nv are constants. Assembly fixes the order and
 * the addresses: the compiler would spill sums to memory and keep a register for each offset. The last
 * operand declares that memory behind `base` is read. `mul`: the instruction. */
ALWAYS void add_products(vf acc[2], const struct left *x, int row, int step, vf w0, vf w1, int nv, bool pairs)
{
	const char *base = x->base[row / 5];
	const int64_t ld = row % 5 == 3 ? x->ld3 : x->ld;
	vf v;

#if VL >= 8 && !defined SL_SANITIZED
#if VL == 16
	if (pairs) {
		ADD_PRODUCTS_OF_ROW("vdpbf16ps");
		return;
	}
#endif
	if (!pairs) {
		ADD_PRODUCTS_OF_ROW("vfmadd231ps");
		return;
	}
#endif
	v = set1(*(const float *)(const void *)(base + (row % 5 == 3 ? ld : row % 5 * ld) + step * 4));
	acc[0] = pairs ? plus_pairs(acc[0], v, w0) : acc[0] + v * w0;
	if (nv > 1)
		acc[1] = pairs ? plus_pairs(acc[1], v, w1) : acc[1] + v * w1;
}
#undef ADD_PRODUCTS_OF_ROW
#undef ADD_PRODUCTS
#undef NARROW_PRODUCT

/* acc[t][nv·VL] += Σ over n values of k of x[t·lda + k]·w[k][nv·VL]; with `pairs`, x and w are pairs of
 * bfloat16. */
ALWAYS void rows_steps(vf acc[TILE_ROWS][2], struct left *x, const float *w, int n, int t, int nv, bool pairs)
{
#pragma GCC unroll 4
	for (int k = 0; k < n; k++, w += nv * VL) {
		vf w0 = ld(w), w1 = nv > 1 ? ld(w + VL) : w0;

#pragma GCC unroll 14
		for (int i = 0; i < t; i++)
			add_products(acc[i], x, i, k, w0, w1, nv, pairs);
	}
}

/* y[t][nv·VL] = or += Σ over segments and k of x[seg][t·lda + k]·w[seg·K + k][nv·VL]; t and nv are constants. */
ALWAYS void rows_tile(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, int64_t depth,
		      const float *w, int n, bool add, struct run next, int t, int nv, bool pairs)
{
	vf acc[TILE_ROWS][2], sum[TILE_ROWS][2];
	int64_t chain = chain_of(depth), length = 0, ended = 0;
	int last = n - (nv - 1) * VL;

	for (int i = 0; i < t && depth > CHAIN; i++) {
		prefetch(y + i * ldy);
		prefetch(y + i * ldy + n - 1);
	}
#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++)
			acc[i][j] = (vf){0};
	for (int s = 0; s < n_seg; s++) {
		struct left x = left_of(seg[s] + at, lda, t);

		for (int64_t from = 0; from < depth; from += chain) {
			int64_t steps = depth - from < chain ? depth - from : chain;

			if (length + steps > CHAIN) {
				end_chain(sum, acc, ended++ == 0, t, nv);
				length = 0;
			}
			length += steps;
			for (; steps >= STEPS; steps -= STEPS, w += STEPS * nv * VL) {
				prefetch_next(&next, STEPS * nv);
				rows_steps(acc, &x, w, STEPS, t, nv, pairs);
				left_move(&x, STEPS, t);
			}
			for (; steps > 0; steps--, w += nv * VL) {
				prefetch_next(&next, nv);
				rows_steps(acc, &x, w, 1, t, nv, pairs);
				left_move(&x, 1, t);
			}
		}
	}
	if (ended > 0) { /* so end_chain has written `sum`, which gcc 14 does not see */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC unroll 14
		for (int i = 0; i < t; i++)
#pragma GCC unroll 2
			for (int j = 0; j < nv; j++)
				acc[i][j] += sum[i][j];
#pragma GCC diagnostic pop
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

/* c[t][n] += Σ over rows m of a[m·lda + i]·b[m·ldb + j]; with `pairs`, a row is two, whose factors are pairs. */
ALWAYS void outer_tile(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows,
		       int n, struct run next, int t, int nv, bool pairs)
{
	vf acc[TILE_ROWS][2];
	int last = n - (nv - 1) * VL;

	for (int i = 0; i < t && rows > 32; i++)
		prefetch(c + i * ldc);
#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++)
			acc[i][j] = (vf){0};
	for (int64_t m = 0; m < rows; m++, a += lda, b += ldb) {
		vf b0 = nv > 1 || last == VL ? ld(b) : ldn(b, last);
		vf b1 = nv == 1 ? b0 : last == VL ? ld(b + VL) : ldn(b + VL, last);

		prefetch_next(&next, nv);
#pragma GCC unroll 14
		for (int i = 0; i < t; i++) {
			vf v = set1(a[i]);

			acc[i][0] = pairs ? plus_pairs(acc[i][0], v, b0) : acc[i][0] + v * b0;
			if (nv > 1)
				acc[i][1] = pairs ? plus_pairs(acc[i][1], v, b1) : acc[i][1] + v * b1;
		}
	}
#pragma GCC unroll 14
	for (int i = 0; i < t; i++)
#pragma GCC unroll 2
		for (int j = 0; j < nv; j++) {
			float *to = c + i * ldc + j * VL;
			int l = j == nv - 1 ? last : VL;

			stv(to, ldv(to, l) + acc[i][j], l);
		}
}

/* One function for each tile height, so that the height is a constant in its body. */
#define ROWS_ARGS                                                                                          \
	float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t at, int64_t depth, \
		const float *w, int n, bool add, struct run next
#define OUTER_ARGS                                                                                            \
	float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t rows, int n, \
		struct run next
typedef void rows_fn(ROWS_ARGS);
typedef void outer_fn(OUTER_ARGS);

#define ROWS_TILES(name, t, pairs)                                                           \
	static void name##1_##t(ROWS_ARGS)                                                   \
	{                                                                                    \
		rows_tile(y, ldy, seg, n_seg, lda, at, depth, w, n, add, next, t, 1, pairs); \
	}                                                                                    \
	static void name##2_##t(ROWS_ARGS)                                                   \
	{                                                                                    \
		rows_tile(y, ldy, seg, n_seg, lda, at, depth, w, n, add, next, t, 2, pairs); \
	}
#define OUTER_TILES(name, t, pairs)                                             \
	static void name##1_##t(OUTER_ARGS)                                     \
	{                                                                       \
		outer_tile(c, ldc, a, lda, b, ldb, rows, n, next, t, 1, pairs); \
	}                                                                       \
	static void name##2_##t(OUTER_ARGS)                                     \
	{                                                                       \
		outer_tile(c, ldc, a, lda, b, ldb, rows, n, next, t, 2, pairs); \
	}
#define TILES(t)                   \
	ROWS_TILES(rows, t, false) \
	OUTER_TILES(outer, t, false)

EACH_TILE(TILES)
#define ROWS1(t)  rows1_##t,
#define ROWS2(t)  rows2_##t,
#define OUTER1(t) outer1_##t,
#define OUTER2(t) outer2_##t,
static rows_fn *const rows_fns[2][TILE_ROWS] = {{EACH_TILE(ROWS1)}, {EACH_TILE(ROWS2)}};
static outer_fn *const outer_fns[2][TILE_ROWS] = {{EACH_TILE(OUTER1)}, {EACH_TILE(OUTER2)}};

/* The tile height that divides n rows most evenly; 1 for none. */
static int tile_of(int64_t n)
{
	int64_t tiles = (n + TILE_ROWS - 1) / TILE_ROWS;

	return n > 0 ? (int)((n + tiles - 1) / tiles) : 1;
}

ALWAYS void rows_by(rows_fn *const fns[2][TILE_ROWS], float *y, int64_t ldy, const float *const *seg, int n_seg,
		    int64_t lda, int64_t depth, const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next)
{
	int tile = rows > 8 * TILE_ROWS ? TILE_ROWS : tile_of(rows);

	for (int64_t m = 0; m < rows; m += tile) {
		int t = rows - m < tile ? (int)(rows - m) : tile;

		fns[n > VL][t - 1](y + m * ldy, ldy, seg, n_seg, lda, m * lda, depth, w, n, add,
				   take_run(next, n_seg * depth * (n > VL ? 2 : 1)));
	}
}

static void gemm_rows(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
		      const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next)
{
	rows_by(rows_fns, y, ldy, seg, n_seg, lda, depth, w, rows, n, add, next);
}

/* Columns [0, n) of x, rows `ld` apart. */
static void copy_columns(float *to, int64_t ldto, const float *x, int64_t ldx, int64_t rows, int64_t n)
{
	for (int64_t m = 0; m < rows; m++, x += ldx, to += ldto)
		for (int64_t k = 0; k < n; k += VL)
			stv(to + k, ldv(x + k, left(n - k)), left(n - k));
}

ALWAYS void outer_by(outer_fn *const fns[2][TILE_ROWS], float *c, int64_t ldc, const float *a, int64_t lda, int64_t na,
		     const float *b, int64_t ldb, int nb, int64_t rows, struct sl_prefetch *next)
{
	const int tile = tile_of(na);

	for (int64_t i = 0; i < na; i += tile) {
		int t = na - i < tile ? (int)(na - i) : tile;

		fns[nb > VL][t - 1](c + i * ldc, ldc, a + i, lda, b, ldb, rows, nb,
				    take_run(next, rows * (nb > VL ? 2 : 1)));
	}
}

/* One panel of c, tile by tile down its rows. */
static void outer_tiles(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			int nb, int64_t rows, struct sl_prefetch *next)
{
	outer_by(outer_fns, c, ldc, a, lda, na, b, ldb, nb, rows, next);
}

/* The same, which reads b from a packed copy: rows that lie far apart map to few sets of the cache. Not inlined, like
 * outer_copied: a function with a large frame touches all of it at each call, which small products would pay for. */
static __attribute__((noinline)) void outer_packed(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na,
						   const float *b, int64_t ldb, int nb, int64_t rows,
						   struct sl_prefetch *next)
{
	float copied[CHAIN * PANEL];

	copy_columns(copied, PANEL, b, ldb, rows, nb);
	outer_tiles(c, ldc, a, lda, na, copied, PANEL, nb, rows, next);
}

/* All panels of c, of at most CHAIN rows. Several tiles are worth a copy of b. */
static void outer_panels(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
			 int64_t nb, int64_t rows, struct sl_prefetch *next)
{
	for (int64_t at = 0; at < nb; at += PANEL)
		(na > 4 * TILE_ROWS ? outer_packed : outer_tiles)(c + at, ldc, a, lda, na, b + at, ldb,
								  nb - at < PANEL ? (int)(nb - at) : PANEL, rows, next);
}

/* The same with a copy of `a`, some columns at a time. The copy changes the order of no sum. Its rows are an odd number
 * of cache lines apart. */
static __attribute__((noinline)) void outer_copied(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na,
						   const float *b, int64_t ldb, int64_t nb, int64_t rows,
						   struct sl_prefetch *next)
{
	enum { WIDE = 336 /* whole tiles of 14, 12 or 6, and whole lines */, LINE = 16 /* floats */ };
	float copied[CHAIN * (WIDE + LINE)];

	for (int64_t i = 0; i < na; i += WIDE) {
		const int64_t w = na - i < WIDE ? na - i : WIDE, ld = ((w + LINE - 1) / LINE | 1) * LINE;

		copy_columns(copied, ld, a + i, lda, rows, w);
		outer_panels(c + i * ldc, ldc, copied, ld, w, b, ldb, nb, rows, next);
	}
}

/* `a` is copied where its row stride maps to few cache sets and several panels read it. */
static void gemm_outer(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na, const float *b, int64_t ldb,
		       int64_t nb, int64_t rows, struct sl_prefetch *next)
{
	const int64_t chain = chain_of(rows);
	const bool copies = lda % CHAIN == 0 && na > 6 * TILE_ROWS && nb > 4 * PANEL;

	for (int64_t m = 0; m < rows; m += chain)
		(copies ? outer_copied : outer_panels)(c, ldc, a + m * lda, lda, na, b + m * ldb, ldb, nb,
						       rows - m < chain ? rows - m : chain, next);
}

static void patches(float *p, int64_t ldp, const float *const *seg, int n_seg, int taps, int64_t step, int64_t n)
{
	for (int64_t i = 0; i < n; i++, p += ldp) {
		for (int s = 0; s < n_seg;
		     s++) /* floats beyond the taps are overwritten by the next segment or patch */
			for (int k = 0; k < taps; k += VL)
				st(p + s * taps + k, ld(seg[s] + i * step + k));
		p[n_seg * taps] = 1.0f;
	}
}
