/* Convolutions of bundles of narrow groups, see conv_group.c. Included by simd_*.c after body_gemm.h.
 * A register holds one pixel's channels of all groups of a bundle, at most VL, interleaved: lane i·unit + g is channel
 * i of group g. A load that repeats `unit` floats brings each lane the same input channel of its own group. So no value
 * meets one of another group. */
#if VL == 16
#define EACH_GROUP_TILE EACH_TILE
#else
#define EACH_GROUP_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#endif
enum { GROUP_TILE = VL == 16 ? 14 : 12, GROUP_AHEAD = 20 /* pixels */ };

#define FOR_UP_TO_8(value, name, call)               \
	do {                                         \
		switch (value) {                     \
		case 1:                              \
			WITH_CONSTANT(name, 1, call) \
		case 2:                              \
			WITH_CONSTANT(name, 2, call) \
		case 3:                              \
			WITH_CONSTANT(name, 3, call) \
		case 4:                              \
			WITH_CONSTANT(name, 4, call) \
		case 5:                              \
			WITH_CONSTANT(name, 5, call) \
		case 6:                              \
			WITH_CONSTANT(name, 6, call) \
		case 7:                              \
			WITH_CONSTANT(name, 7, call) \
		default:                             \
			WITH_CONSTANT(name, 8, call) \
		}                                    \
	} while (0)

/* Units of this level: powers of two up to VL. */
#define FOR_UNIT(value, call)                         \
	do {                                          \
		switch (value) {                      \
		case 2:                               \
			WITH_CONSTANT(UNIT, 2, call)  \
		case 4:                               \
			WITH_CONSTANT(UNIT, 4, call)  \
		case 8:                               \
			WITH_CONSTANT(UNIT, 8, call)  \
		default:                              \
			WITH_CONSTANT(UNIT, VL, call) \
		}                                     \
	} while (0)

ALWAYS vi lanes_at(const int32_t *p)
{
	vi v;

	memcpy(&v, p, sizeof v);
	return v;
}

/* Lane k of the result is lane at[k] of x. */
ALWAYS vf permuted(vf x, vi at)
{
#if VL == 16
	return (vf)_mm512_permutexvar_ps((__m512i)at, (__m512)x);
#elif VL == 8
	return (vf)_mm256_permutevar8x32_ps((__m256)x, (__m256i)at);
#else
	return (vf){x[at[0]], x[at[1]], x[at[2]], x[at[3]]};
#endif
}

/* The `unit` floats at p, again and again. */
ALWAYS vf repeated(const char *p, int unit)
{
	typedef int64_t pairs __attribute__((vector_size(VL * 4)));
	int64_t pair;

	if (unit == 2) {
		memcpy(&pair, p, sizeof pair);
		return (vf)((pairs){0} + pair);
	}
#if VL == 16
	if (unit == 4)
		return (vf)_mm512_broadcast_f32x4(_mm_loadu_ps((const float *)(const void *)p));
	if (unit == 8)
		return (vf)_mm512_broadcast_f64x4(_mm256_loadu_pd((const double *)(const void *)p));
#elif VL == 8
	if (unit == 4)
		return (vf)_mm256_broadcast_ps((const __m128 *)(const void *)p);
#endif
	return ld((const float *)(const void *)p);
}

static void group_mix(float *to, int64_t ldto, const float *x, int64_t ldx, const int32_t *lane, int n, int64_t pixels)
{
	const vi at = lanes_at(lane);

	for (; pixels > 0; pixels--, to += ldto, x += ldx) {
		prefetch(x + GROUP_AHEAD * ldx);
		prefetch(x + GROUP_AHEAD * ldx + n - 1);
		st(to, permuted(ldv(x, n), at));
	}
}

ALWAYS void group_tile(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t from,
		       const int32_t *lane, int width, const float *w, int n, bool add, int t, int unit)
{
	const vi at = lanes_at(lane);
	vf acc[GROUP_TILE];

#pragma GCC unroll 14
	for (int r = 0; r < t; r++)
		acc[r] = (vf){0};
	for (int s = 0; s < n_seg; s++) {
		struct left x = left_of(seg[s] + from, lda, t);

		for (int i = 0; i < width; i++, w += VL) {
			const vf factor = ld(w);

#pragma GCC unroll 14
			for (int r = 0; r < t; r++)
				acc[r] += repeated(x.base[r / 5] + (r % 5 == 3 ? x.ld3 : r % 5 * x.ld), unit) * factor;
			left_move(&x, unit, t);
		}
	}
#pragma GCC unroll 14
	for (int r = 0; r < t; r++, y += ldy) {
		const vf v = permuted(acc[r], at);

		stv(y, add ? ldv(y, n) + v : v, n);
	}
}

#define GROUP_ARGS                                                                                                 \
	float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t from, const int32_t *lane, \
		int unit, int width, const float *w, int n, bool add
typedef void group_fn(GROUP_ARGS);
#define GROUP_TILES(t)                                                                                      \
	static void group_tile_##t(GROUP_ARGS)                                                              \
	{                                                                                                   \
		FOR_UNIT(unit, group_tile(y, ldy, seg, n_seg, lda, from, lane, width, w, n, add, t, UNIT)); \
	}
EACH_GROUP_TILE(GROUP_TILES)
#define GROUP_NAME(t) group_tile_##t,
static group_fn *const group_fns[GROUP_TILE] = {EACH_GROUP_TILE(GROUP_NAME)};

static void group_rows(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, const int32_t *lane,
		       int unit, int width, const float *w, int64_t rows, int n, bool add)
{
	const int64_t tiles = (rows + GROUP_TILE - 1) / GROUP_TILE, tile = (rows + tiles - 1) / tiles;

	for (int64_t m = 0; m < rows; m += tile)
		group_fns[(rows - m < tile ? rows - m : tile) - 1](y + m * ldy, ldy, seg, n_seg, lda, m * lda, lane,
								   unit, width, w, n, add);
}

ALWAYS void group_outer_of(float *dw, const int32_t *lane, const float *x, int64_t ldx, const float *dy, int64_t ldy,
			   int64_t rows, int n, int width, int unit)
{
	const vi at = lanes_at(lane);
	vf acc[8];

	if (width * unit > VL) /* no such bundle */
		return;
#pragma GCC unroll 8
	for (int i = 0; i < width; i++)
		acc[i] = (vf){0};
	for (int64_t m = 0; m < rows; m++, x += ldx, dy += ldy) {
		const vf g = permuted(ldv(dy, n), at);

#pragma GCC unroll 8
		for (int i = 0; i < width; i++)
			acc[i] += repeated((const char *)(x + i * unit), unit) * g;
	}
#pragma GCC unroll 8
	for (int i = 0; i < width; i++)
		st(dw + i * VL, ld(dw + i * VL) + acc[i]);
}

/* Sums at most FLOAT_ROWS rows before it adds them to dw: longer sums would round more. */
static void group_outer(float *dw, const int32_t *lane, int unit, int width, const float *x, int64_t ldx,
			const float *dy, int64_t ldy, int64_t rows, int n)
{
	for (; rows > 0; rows -= FLOAT_ROWS, x += FLOAT_ROWS * ldx, dy += FLOAT_ROWS * ldy)
		FOR_UP_TO_8(
			width, WIDTH,
			FOR_UNIT(unit, group_outer_of(dw, lane, x, ldx, dy, ldy, float_rows(rows), n, WIDTH, UNIT)));
}
