/* Transforms of 3×3 convolutions of stride 2, in four parts by Winograd. Included by simd_*.c after body_wino.h.
 *
 * An output of a row reads x[2i − 1], x[2i] and x[2i + 1]. The odd inputs are a row of their own, under a kernel of two
 * taps, g[0] and g[2]: F(4, 2), from the values at ±2/3, ±3/2 and ∞. The even inputs lie under one tap, g[1]. So a
 * tile's row of 4 outputs has 9 places, of which the last four have the same weights. In two dimensions these are 81
 * places, where a direct sum has 144 products. dX is alike: its odd pixels come from a kernel of two taps, its even
 * ones from one. */
enum { WINO2_SIDE = 9, WINO2_EVEN = 5 /* places before those of one tap */ };

/* Bᵀ·d: five values of five. */
ALWAYS void wino2_b(vf *v, const vf *d)
{
	const vf p_even = d[2] - set1(WINO_QQ) * d[0], p_odd = d[3] - set1(WINO_QQ) * d[1];
	const vf q_even = d[2] - set1(WINO_PP) * d[0], q_odd = d[3] - set1(WINO_PP) * d[1];

	v[0] = p_even + set1(WINO_Q) * p_odd;
	v[1] = p_even - set1(WINO_Q) * p_odd;
	v[2] = q_even + set1(WINO_P) * q_odd;
	v[3] = q_even - set1(WINO_P) * q_odd;
	v[4] = d[0] + d[4] - set1(97.0f / 36.0f) * d[2];
}

/* Nine values of a row of x, of nine pixels. */
ALWAYS void wino2_of_x(vf *v, const vf *d)
{
	const vf odd[] = {d[0], d[2], d[4], d[6], d[8]};

	wino2_b(v, odd);
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++)
		v[WINO2_EVEN + i] = d[2 * i + 1];
}

/* Nine values of a row of dY, of five pixels, for dX. */
ALWAYS void wino2_of_dy(vf *v, const vf *d)
{
	wino2_b(v, d);
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++)
		v[WINO2_EVEN + i] = d[i];
}

/* A·y, for dW: nine values of four. */
ALWAYS void wino2_a(vf *v, const vf *y)
{
	vf all[WINO_SIDE];

	wino_a(all, y, false);
#pragma GCC unroll 5
	for (int i = 0; i < WINO2_EVEN; i++)
		v[i] = all[i + 1];
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++)
		v[WINO2_EVEN + i] = y[i];
}

/* Four sums of the values of two taps. */
ALWAYS void wino2_at(vf *y, const vf *v)
{
	const vf all[WINO_SIDE] = {(vf){0}, v[0], v[1], v[2], v[3], v[4]};

	wino_at(y, all);
}

/* Four outputs of nine values. */
ALWAYS void wino2_to_y(vf *y, const vf *v)
{
	wino2_at(y, v);
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++)
		y[i] += v[WINO2_EVEN + i];
}

/* Eight pixels of dX. */
ALWAYS void wino2_to_dx(vf *dx, const vf *v)
{
	vf odd[WINO_OUT];

	wino2_at(odd, v);
#pragma GCC unroll 4
	for (int i = 0; i < WINO_OUT; i++) {
		dx[2 * i] = v[WINO2_EVEN + i];
		dx[2 * i + 1] = odd[i];
	}
}

/* G·g: the values of two taps, then the tap of the even inputs. */
ALWAYS void wino2_g(vf *u, const vf *g)
{
	u[0] = set1(-18.0f / 65.0f) * (g[0] + set1(WINO_P) * g[2]);
	u[1] = set1(-18.0f / 65.0f) * (g[0] - set1(WINO_P) * g[2]);
	u[2] = set1(18.0f / 65.0f) * (g[0] + set1(WINO_Q) * g[2]);
	u[3] = set1(18.0f / 65.0f) * (g[0] - set1(WINO_Q) * g[2]);
	u[4] = g[2];
	u[5] = g[1];
}

/* Gᵀ·u */
ALWAYS void wino2_gt(vf *g, const vf *u)
{
	g[0] = set1(18.0f / 65.0f) * (u[2] + u[3] - (u[0] + u[1]));
	g[1] = u[5];
	g[2] = set1(12.0f / 65.0f) * (set1(2.25f) * (u[2] - u[3]) - (u[0] - u[1])) + u[4];
}

ALWAYS void wino2_into_lanes(float *v, const int64_t *at, const float *const *d, int side,
			     void (*pass)(vf *, const vf *), int64_t k, int l)
{
	vf half[WINO2_SIDE][WINO2_SIDE], x[WINO2_SIDE], out[WINO2_SIDE];

#pragma GCC unroll 9
	for (int b = 0; b < side; b++) {
#pragma GCC unroll 9
		for (int a = 0; a < side; a++)
			x[a] = ldv(d[a * side + b] + k, l);
		pass(out, x);
#pragma GCC unroll 9
		for (int a = 0; a < WINO2_SIDE; a++)
			half[a][b] = out[a];
	}
	for (int a = 0; a < WINO2_SIDE; a++, at += WINO2_SIDE) {
		pass(out, half[a]);
#pragma GCC unroll 9
		for (int b = 0; b < WINO2_SIDE; b++)
			out[b] = before_branch(out[b]);
#pragma GCC unroll 9
		for (int b = 0; b < WINO2_SIDE; b++)
			if (at[b] >= 0)
				stv(v + at[b] + k, out[b], l);
	}
}

ALWAYS void wino2_out_lanes(float *const *y, const float *v, const int64_t *at, const float *bias, int size,
			    void (*pass)(vf *, const vf *), int64_t k, int l, bool add)
{
	const vf plus = bias ? ldv(bias + k, l) : (vf){0};
	vf half[2 * WINO_OUT][WINO2_SIDE], x[WINO2_SIDE], out[2 * WINO_OUT];

#pragma GCC unroll 9
	for (int b = 0; b < WINO2_SIDE; b++) {
#pragma GCC unroll 9
		for (int a = 0; a < WINO2_SIDE; a++)
			x[a] = ldv(wino_value(v + k, at[a * WINO2_SIDE + b]), l);
		pass(out, x);
#pragma GCC unroll 8
		for (int i = 0; i < size; i++)
			half[i][b] = rounded(out[i]);
	}
	for (int i = 0; i < size; i++, y += size) {
		pass(out, half[i]);
#pragma GCC unroll 8
		for (int b = 0; b < size; b++)
			out[b] = before_branch(rounded(out[b]) + plus);
#pragma GCC unroll 8
		for (int b = 0; b < size; b++)
			if (y[b])
				stv(y[b] + k, add ? ldv(y[b] + k, l) + out[b] : out[b], l);
	}
}

static void wino2_in(float *v, const int64_t *at, const float *const *d, int c)
{
	FOR_REGISTERS(c, wino2_into_lanes(v, at, d, WINO2_SIDE, wino2_of_x, R, L));
}

static void wino2_in_back(float *v, const int64_t *at, const float *const *dy, int c)
{
	FOR_REGISTERS(c, wino2_into_lanes(v, at, dy, WINO_OUT + 1, wino2_of_dy, R, L));
}

static void wino2_grad(float *v, const int64_t *at, const float *const *dy, int c)
{
	FOR_REGISTERS(c, wino2_into_lanes(v, at, dy, WINO_OUT, wino2_a, R, L));
}

static void wino2_out(float *const *y, const float *v, const int64_t *at, const float *bias, int c, bool add)
{
	FOR_REGISTERS(c, wino2_out_lanes(y, v, at, bias, WINO_OUT, wino2_to_y, R, L, add));
}

static void wino2_out_back(float *const *dx, const float *v, const int64_t *at, const float *bias, int c, bool add)
{
	FOR_REGISTERS(c, wino2_out_lanes(dx, v, at, bias, 2 * WINO_OUT, wino2_to_dx, R, L, add));
}

static void wino2_weights(float *u, int64_t plane, const float *w, int64_t ldw, int c, bool turned)
{
	FOR_REGISTERS(c, wino_weights_lanes(u, plane, w, ldw, R, L, turned, wino2_g));
}

static void wino2_weights_back(float *dw, int64_t ldw, const float *du, int64_t plane, int c)
{
	FOR_REGISTERS(c, wino_weights_back_lanes(dw, ldw, du, plane, R, L, wino2_gt));
}
