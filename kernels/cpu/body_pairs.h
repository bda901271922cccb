/* Products of pairs of bfloat16, with sums in fp32. Included by simd_*.c after body_gemm.h, whose tiles these are with
 * a pair in place of a float. All levels give the same bits, but for sums below 2^-126, which AVX512-BF16 makes 0. */
#define PAIR_TILES(t)              \
	ROWS_TILES(pairs, t, true) \
	OUTER_TILES(couples, t, true)
EACH_TILE(PAIR_TILES)
#define PAIRS1(t)   pairs1_##t,
#define PAIRS2(t)   pairs2_##t,
#define COUPLES1(t) couples1_##t,
#define COUPLES2(t) couples2_##t,
static rows_fn *const pairs_fns[2][TILE_ROWS] = {{EACH_TILE(PAIRS1)}, {EACH_TILE(PAIRS2)}};
static outer_fn *const couples_fns[2][TILE_ROWS] = {{EACH_TILE(COUPLES1)}, {EACH_TILE(COUPLES2)}};

static void gemm_pairs(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t depth,
		       const float *w, int64_t rows, int n, bool add, struct sl_prefetch *next)
{
	rows_by(pairs_fns, y, ldy, seg, n_seg, lda, depth, w, rows, n, add, next);
}

static void pair_rows(uint32_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
	int64_t i = 0;

	for (; b && i + VL <= n; i += VL)
		for (int k = 0; k < VL; k++)
			to[i + k] = a[i + k] | (uint32_t)b[i + k] << 16;
	for (; i < n; i++)
		to[i] = a[i] | (b ? (uint32_t)b[i] << 16 : 0);
}

/* x rounded to bfloat16 in the lower half of each float. */
ALWAYS vu bf16_of(vf x)
{
#if VL == 16 && !defined SL_SANITIZED
	__m256i low;

	__asm__("vcvtneps2bf16 %1, %0" : "=v"(low) : "v"(x));
	return (vu)_mm512_cvtepu16_epi32(low);
#else
	const vu bits = (vu)x, near = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, quiet = (bits | 0x400000u) >> 16;
	const vu nan = (vu)(x != x), tiny = (vu)((bits & 0x7f800000u) == 0), sign = bits >> 16 & 0x8000u;
	const vu value = (near & ~nan) | (quiet & nan);

	return (value & ~tiny) | (sign & tiny);
#endif
}

static void narrow(uint16_t *to, const float *x, int64_t n)
{
	typedef uint16_t halves __attribute__((vector_size(VL * 2)));

	for (int64_t i = 0; i < n; i += VL) {
		const int l = left(n - i);
		const halves low = __builtin_convertvector(bf16_of(ldv(x + i, l)), halves);

		memcpy(to + i, &low, l == VL ? sizeof low : (size_t)l * sizeof *to);
	}
}

/* Pairs of the roundings of a[i] and b[i]; b NULL: of a[i] and 0. */
static void pair_floats(uint32_t *to, const float *a, const float *b, int64_t n)
{
	for (int64_t i = 0; i < n; i += VL) {
		const int l = left(n - i);
		vu pair = bf16_of(ldv(a + i, l));

		if (b)
			pair |= bf16_of(ldv(b + i, l)) << 16;
		stv((float *)(void *)(to + i), (vf)pair, l);
	}
}

/* Pairs of rows of x: to [(rows + 1)/2, ldto], columns [0, n). */
static void pair_columns(float *to, int64_t ldto, const float *x, int64_t ldx, int64_t rows, int64_t n)
{
	for (int64_t m = 0; m < rows; m += 2, x += 2 * ldx, to += ldto)
		pair_floats((uint32_t *)(void *)to, x, m + 1 < rows ? x + ldx : NULL, n);
}

/* As gemm_outer. Both sides are copied as pairs, as many rows at a time as fit one chain. */
static __attribute__((noinline)) void outer_pairs(float *c, int64_t ldc, const float *a, int64_t lda, int64_t na,
						  const float *b, int64_t ldb, int64_t nb, int64_t rows,
						  struct sl_prefetch *next)
{
	enum { WIDE = 336 /* whole tiles of 14, 12 or 6, and whole lines */, LINE = 16 /* floats */ };
	const int64_t pairs = (rows + 1) / 2, chain = 2 * chain_of(pairs);
	float first[CHAIN * (WIDE + LINE)], second[CHAIN * PANEL];

	for (int64_t m = 0; m < rows; m += chain, a += chain * lda, b += chain * ldb)
		for (int64_t i = 0; i < na; i += WIDE) {
			const int64_t high = rows - m < chain ? rows - m : chain, w = na - i < WIDE ? na - i : WIDE;
			const int64_t ld = ((w + LINE - 1) / LINE | 1) * LINE;

			pair_columns(first, ld, a + i, lda, high, w);
			for (int64_t at = 0; at < nb; at += PANEL) {
				const int n = nb - at < PANEL ? (int)(nb - at) : PANEL;

				pair_columns(second, PANEL, b + at, ldb, high, n);
				outer_by(couples_fns, c + i * ldc + at, ldc, first, ld, w, second, PANEL, n,
					 (high + 1) / 2, next);
			}
		}
}
