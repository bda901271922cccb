/* Transforms of Winograd's F(4×4, 3×3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
 * Channels are contiguous, so a register holds one place of a tile for VL channels. Included by simd_*.c after
 * body_elem.h. struct sl_wino_places says where the 6×6 places of the domain lie.
 *
 * F(4, 3) multiplies polynomials by their values at 0, ±2/3, ±3/2 and ∞. These points have half the error of the usual
 * 0, ±1, ±2, and p·q = 1 saves products. A scale of a row by a power of two would change no rounding.
 *
 * No sum here has two products, nor values that are products: which of them the compiler joined to the sum (FMA) would
 * depend on the compiler. */
enum { WINO_OUT = 4, WINO_SIDE = WINO_OUT + 2 };
#define WINO_P  (2.0f / 3.0f)
#define WINO_Q  1.5f
#define WINO_PP (4.0f / 9.0f)
#define WINO_QQ 2.25f

/* Bᵀ·d of the four places that a tile with at most two outputs has, from d[0] … d[3]. */
ALWAYS void wino_b_few(vf *v, const vf *d)
{
	const vf p_even = d[2] - set1(WINO_QQ) * d[0], p_odd = d[3] - set1(WINO_QQ) * d[1];
	const vf q_even = d[2] - set1(WINO_PP) * d[0], q_odd = d[3] - set1(WINO_PP) * d[1];

	v[0] = v[5] = (vf){0};
	v[1] = set1(WINO_PP) * (p_even + set1(WINO_Q) * p_odd);
	v[2] = set1(WINO_PP) * (p_even - set1(WINO_Q) * p_odd);
	v[3] = set1(WINO_QQ) * (q_even + set1(WINO_P) * q_odd);
	v[4] = set1(WINO_QQ) * (q_even - set1(WINO_P) * q_odd);
}

/* Bᵀ·d: six values of six. With `few` outputs, at most two, these are made from the values at ±2/3 and ±3/2 alone, of
 * four of the inputs. Both use the same weights. */
ALWAYS void wino_b(vf *v, const vf *d, bool few)
{
	if (few) {
		wino_b_few(v, d);
		return;
	}

	const vf p_even = d[4] - set1(WINO_QQ) * d[2], p_odd = d[3] - set1(WINO_QQ) * d[1];
	const vf q_even = d[4] - set1(WINO_PP) * d[2], q_odd = d[3] - set1(WINO_PP) * d[1];

	v[0] = d[0] + d[4] - set1(97.0f / 36.0f) * d[2];
	v[1] = p_even + set1(WINO_P) * p_odd;
	v[2] = p_even - set1(WINO_P) * p_odd;
	v[3] = q_even + set1(WINO_Q) * q_odd;
	v[4] = q_even - set1(WINO_Q) * q_odd;
	v[5] = d[1] + d[5] - set1(97.0f / 36.0f) * d[3];
}

/* A·y: six values of four. */
ALWAYS void wino_a(vf *v, const vf *y, bool few)
{
	const vf p_even = y[0] + set1(WINO_PP) * y[2], p_odd = y[1] + set1(WINO_PP) * y[3];
	const vf q_even = y[0] + set1(WINO_QQ) * y[2], q_odd = y[1] + set1(WINO_QQ) * y[3];

	v[0] = y[0];
	v[1] = p_even + set1(WINO_P) * p_odd;
	v[2] = p_even - set1(WINO_P) * p_odd;
	v[3] = q_even + set1(WINO_Q) * q_odd;
	v[4] = q_even - set1(WINO_Q) * q_odd;
	v[5] = y[3];
}

/* Aᵀ·v: four values of six. */
ALWAYS void wino_at(vf *y, const vf *v)
{
	const vf p_even = v[1] + v[2], p_odd = v[1] - v[2], q_even = v[3] + v[4], q_odd = v[3] - v[4];

	y[0] = v[0] + p_even + q_even;
	y[1] = set1(WINO_P) * (p_odd + set1(WINO_Q / WINO_P) * q_odd);
	y[2] = set1(WINO_PP) * (p_even + set1(WINO_QQ / WINO_PP) * q_even);
	y[3] = set1(WINO_P * WINO_PP) * (p_odd + set1(WINO_Q * WINO_QQ / (WINO_P * WINO_PP)) * q_odd) + v[5];
}

/* G·g: six values of three. */
ALWAYS void wino_g(vf *u, const vf *g)
{
	const vf p_even = g[2] + set1(2.25f) * g[0], q_even = g[0] + set1(2.25f) * g[2];

	u[0] = g[0];
	u[1] = set1(-18.0f / 65.0f) * (p_even + set1(1.5f) * g[1]);
	u[2] = set1(-18.0f / 65.0f) * (p_even - set1(1.5f) * g[1]);
	u[3] = set1(8.0f / 65.0f) * (q_even + set1(1.5f) * g[1]);
	u[4] = set1(8.0f / 65.0f) * (q_even - set1(1.5f) * g[1]);
	u[5] = g[2];
}

/* Gᵀ·u: three values of six. */
ALWAYS void wino_gt(vf *g, const vf *u)
{
	const vf p_even = u[1] + u[2], q_even = u[3] + u[4];

	g[0] = u[0] + set1(8.0f / 65.0f) * (q_even - set1(5.0625f) * p_even);
	g[1] = set1(12.0f / 65.0f) * (u[3] - u[4] - set1(2.25f) * (u[1] - u[2]));
	g[2] = set1(18.0f / 65.0f) * (q_even - p_even) + u[5];
}

/* Hides from the second pass over a tile which values of the first one are products. */
ALWAYS vf rounded(vf x)
{
#if defined __x86_64__
	__asm__("" : "+v"(x));
#elif defined __aarch64__
	__asm__("" : "+w"(x));
#endif
	return x;
}

/* The same where a branch follows: the compiler moves no part of x behind it, where it would join no product to a sum.
 */
ALWAYS vf before_branch(vf x)
{
#if defined __x86_64__
	__asm__ volatile("" : "+v"(x));
#elif defined __aarch64__
	__asm__ volatile("" : "+w"(x));
#endif
	return x;
}

/* Where a place lies, in floats. -1: the tile does without. */
ALWAYS int64_t wino_place(const struct sl_wino_places *p, int i, bool cut)
{
	return cut ? p->at[i] : i * p->plane;
}

/* A place's value in M, or 0. */
static const float wino_zeros[VL];

ALWAYS const float *wino_value(const float *v, int64_t at)
{
	return at < 0 ? wino_zeros : v + at;
}

/* Rows of the domain are made in pairs that share most terms, 0 and the last, 1 and 2, 3 and 4: a whole tile does not
 * fit in the registers, and loads cost less than stores. */
ALWAYS int wino_upper(int pair)
{
	return pair ? 2 * pair - 1 : 0;
}

ALWAYS int wino_lower(int pair)
{
	return pair ? 2 * pair : WINO_SIDE - 1;
}

/* `pass` makes the 6×6 places of the domain from the tile's side × side at d[row * side + column]. cut: see
 * places->at; a constant. */
ALWAYS void wino_into_lanes(float *v, const struct sl_wino_places *places, const float *const *d, int side,
			    void (*pass)(vf *, const vf *, bool few), int64_t k, int l, bool cut)
{
	vf x[WINO_SIDE], out[WINO_SIDE];

#pragma GCC unroll 3
	for (int pair = 0; pair < WINO_SIDE / 2; pair++) {
		const int row[2] = {wino_upper(pair), wino_lower(pair)};
		vf half[2][WINO_SIDE];

		if (cut && places->few_rows && pair == 0)
			continue;

#pragma GCC unroll 6
		for (int b = 0; b < side; b++) {
#pragma GCC unroll 6
			for (int a = 0; a < side; a++)
				x[a] = ldv(d[a * side + b] + k, l);
			pass(out, x, cut && places->few_rows);
			half[0][b] = cut ? rounded(out[row[0]]) : out[row[0]];
			half[1][b] = cut ? rounded(out[row[1]]) : out[row[1]];
		}
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			pass(out, half[i], cut && places->few_columns);
#pragma GCC unroll 6
			for (int b = 0; b < WINO_SIDE && cut; b++)
				out[b] = before_branch(out[b]);
#pragma GCC unroll 6
			for (int b = 0; b < WINO_SIDE; b++) {
				const int64_t at = wino_place(places, row[i] * WINO_SIDE + b, cut);

				if (!cut || at >= 0)
					stv(v + at + k, out[b], l);
			}
		}
	}
}

ALWAYS void wino_out_lanes(float *const *y, const float *v, const struct sl_wino_places *places, const float *bias,
			   int64_t k, int l, bool add, bool cut)
{
	const vf plus = bias ? ldv(bias + k, l) : (vf){0};
	vf half[WINO_OUT][WINO_SIDE], x[WINO_SIDE], out[WINO_SIDE];

#pragma GCC unroll 6
	for (int b = 0; b < WINO_SIDE; b++) {
#pragma GCC unroll 6
		for (int a = 0; a < WINO_SIDE; a++) {
			const int64_t at = wino_place(places, a * WINO_SIDE + b, cut);

			x[a] = ldv(cut ? wino_value(v + k, at) : v + at + k, l);
		}
		wino_at(out, x);
#pragma GCC unroll 4
		for (int i = 0; i < WINO_OUT; i++)
			half[i][b] = rounded(out[i]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++) {
		wino_at(out, half[i]);
#pragma GCC unroll 4
		for (int b = 0; b < WINO_OUT; b++) {
			float *to = y[i * WINO_OUT + b];

			if (to)
				stv(to + k, add ? ldv(to + k, l) + (out[b] + plus) : out[b] + plus, l);
		}
	}
}

ALWAYS void wino_weights_lanes(float *u, int64_t plane, const float *w, int64_t ldw, int k, int l, bool turned,
			       void (*pass)(vf *, const vf *))
{
	vf half[WINO_SIDE][WINO_SIDE], g[3], out[WINO_SIDE];

#pragma GCC unroll 3
	for (int b = 0; b < 3; b++) {
#pragma GCC unroll 3
		for (int a = 0; a < 3; a++)
			g[a] = ldv(w + (turned ? 8 - a * 3 - b : a * 3 + b) * ldw + k, l);
		pass(out, g);
#pragma GCC unroll 6
		for (int i = 0; i < WINO_SIDE; i++)
			half[i][b] = rounded(out[i]);
	}
#pragma GCC unroll 6
	for (int i = 0; i < WINO_SIDE; i++) {
		pass(out, half[i]);
#pragma GCC unroll 6
		for (int b = 0; b < WINO_SIDE; b++)
			stv(u + (i * WINO_SIDE + b) * plane + k, out[b], l);
	}
}

ALWAYS void wino_weights_back_lanes(float *dw, int64_t ldw, const float *du, int64_t plane, int k, int l,
				    void (*pass)(vf *, const vf *))
{
	vf half[3][WINO_SIDE], u[WINO_SIDE], out[WINO_SIDE];

#pragma GCC unroll 6
	for (int b = 0; b < WINO_SIDE; b++) {
#pragma GCC unroll 6
		for (int a = 0; a < WINO_SIDE; a++)
			u[a] = ldv(du + (a * WINO_SIDE + b) * plane + k, l);
		pass(out, u);
#pragma GCC unroll 3
		for (int i = 0; i < 3; i++)
			half[i][b] = rounded(out[i]);
	}
#pragma GCC unroll 3
	for (int i = 0; i < 3; i++) {
		pass(out, half[i]);
#pragma GCC unroll 3
		for (int b = 0; b < 3; b++) {
			float *to = dw + (i * 3 + b) * ldw + k;

			stv(to, ldv(to, l) + out[b], l);
		}
	}
}

static void wino_in(float *v, const struct sl_wino_places *places, const float *const *d, int c)
{
	if (places->at)
		FOR_REGISTERS(c, wino_into_lanes(v, places, d, WINO_SIDE, wino_b, R, L, true));
	else
		FOR_REGISTERS(c, wino_into_lanes(v, places, d, WINO_SIDE, wino_b, R, L, false));
}

static void wino_grad(float *v, const struct sl_wino_places *places, const float *const *dy, int c)
{
	if (places->at)
		FOR_REGISTERS(c, wino_into_lanes(v, places, dy, WINO_OUT, wino_a, R, L, true));
	else
		FOR_REGISTERS(c, wino_into_lanes(v, places, dy, WINO_OUT, wino_a, R, L, false));
}

static void wino_out(float *const *y, const float *v, const struct sl_wino_places *places, const float *bias, int c,
		     bool add)
{
	if (places->at)
		FOR_REGISTERS(c, wino_out_lanes(y, v, places, bias, R, L, add, true));
	else
		FOR_REGISTERS(c, wino_out_lanes(y, v, places, bias, R, L, add, false));
}

static void wino_weights(float *u, int64_t plane, const float *w, int64_t ldw, int c, bool turned)
{
	FOR_REGISTERS(c, wino_weights_lanes(u, plane, w, ldw, R, L, turned, wino_g));
}

static void wino_weights_back(float *dw, int64_t ldw, const float *du, int64_t plane, int c)
{
	FOR_REGISTERS(c, wino_weights_back_lanes(dw, ldw, du, plane, R, L, wino_gt));
}
