/* Convolutions of bundles of narrow groups, see conv_group.c. Included by simd_*.c after body_elem.h.
 * A register holds one pixel's channels of all groups of a bundle, at most VL. Lane o of a product takes the input
 * channel lane[i][o], which is channel i of o's group: no value meets one of another group. */
enum { GROUP_TILE = 8 /* pixels */ };

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

ALWAYS void group_tile(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, int64_t from,
		       const int32_t *lane, int width, const float *w, int n, bool add, int t)
{
	vf acc[GROUP_TILE], x[GROUP_TILE];

#pragma GCC unroll 8
	for (int r = 0; r < t; r++)
		acc[r] = (vf){0};
	for (int s = 0; s < n_seg; s++) {
#pragma GCC unroll 8
		for (int r = 0; r < t; r++)
			x[r] = ld(seg[s] + from + r * lda);
		for (int i = 0; i < width; i++, w += VL) {
			const vf factor = ld(w);
			const vi at = lanes_at(lane + i * VL);

#pragma GCC unroll 8
			for (int r = 0; r < t; r++)
				acc[r] += permuted(x[r], at) * factor;
		}
	}
#pragma GCC unroll 8
	for (int r = 0; r < t; r++, y += ldy)
		stv(y, add ? ldv(y, n) + acc[r] : acc[r], n);
}

static void group_rows(float *y, int64_t ldy, const float *const *seg, int n_seg, int64_t lda, const int32_t *lane,
		       int width, const float *w, int64_t rows, int n, bool add)
{
	const int64_t tiles = (rows + GROUP_TILE - 1) / GROUP_TILE, tile = (rows + tiles - 1) / tiles;

	for (int64_t m = 0; m < rows; m += tile)
		FOR_UP_TO_8(rows - m < tile ? rows - m : tile, T,
			    group_tile(y + m * ldy, ldy, seg, n_seg, lda, m * lda, lane, width, w, n, add, T));
}

ALWAYS void group_outer_of(float *dw, const int32_t *lane, const float *x, int64_t ldx, const float *dy, int64_t ldy,
			   int64_t rows, int n, int width)
{
	vf acc[GROUP_TILE];

#pragma GCC unroll 8
	for (int i = 0; i < width; i++)
		acc[i] = (vf){0};
	for (int64_t m = 0; m < rows; m++, x += ldx, dy += ldy) {
		const vf v = ld(x), g = ldv(dy, n);

#pragma GCC unroll 8
		for (int i = 0; i < width; i++)
			acc[i] += permuted(v, lanes_at(lane + i * VL)) * g;
	}
#pragma GCC unroll 8
	for (int i = 0; i < width; i++)
		st(dw + i * VL, ld(dw + i * VL) + acc[i]);
}

/* Sums at most FLOAT_ROWS rows before it adds them to dw: longer sums would round more. */
static void group_outer(float *dw, const int32_t *lane, int width, const float *x, int64_t ldx, const float *dy,
			int64_t ldy, int64_t rows, int n)
{
	for (; rows > 0; rows -= FLOAT_ROWS, x += FLOAT_ROWS * ldx, dy += FLOAT_ROWS * ldy)
		FOR_UP_TO_8(width, WIDTH, group_outer_of(dw, lane, x, ldx, dy, ldy, float_rows(rows), n, WIDTH));
}
