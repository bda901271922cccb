/* Transforms of Winograd's F(2×2, 3×3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks", 2016, section 4.1). Channels are contiguous, so a register holds one place of a tile for
 * VL channels. Included by simd_*.c after body_elem.h. The places of the 4×4 domain, row by row, lie
 * `plane` floats apart. */

/* Row i of Bᵀ·d; d has the four rows of one column. */
ALWAYS vf wino_in_row(int i, const vf d[4])
{
	switch (i) {
	case 0:
		return d[0] - d[2];
	case 1:
		return d[1] + d[2];
	case 2:
		return d[2] - d[1];
	default:
		return d[1] - d[3];
	}
}

/* Row i of A·y. */
ALWAYS vf wino_grad_row(int i, const vf y[2])
{
	switch (i) {
	case 0:
		return y[0];
	case 1:
		return y[0] + y[1];
	case 2:
		return y[0] - y[1];
	default:
		return (vf){0} - y[1];
	}
}

ALWAYS void wino_in_lanes(float *v, int64_t plane, const float *const d[16], int64_t k, int l, int from, int to)
{
	vf x[4][4]; /* [column][row] */

#pragma GCC unroll 4
	for (int a = 0; a < 4; a++)
#pragma GCC unroll 4
		for (int b = 0; b < 4; b++)
			x[b][a] = ldv(d[a * 4 + b] + k, l);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		vf row[4];

		if (i < from || i >= to)
			continue;
#pragma GCC unroll 4
		for (int b = 0; b < 4; b++)
			row[b] = wino_in_row(i, x[b]);
#pragma GCC unroll 4
		for (int b = 0; b < 4; b++)
			stv(v + ((i - from) * 4 + b) * plane + k, wino_in_row(b, row), l);
	}
}

static void wino_in(float *v, int64_t plane, const float *const d[16], int c, int from, int to)
{
	FOR_REGISTERS(c, wino_in_lanes(v, plane, d, R, L, from, to));
}

ALWAYS void wino_grad_lanes(float *m, int64_t plane, const float *const dy[4], int64_t k, int l, int from, int to)
{
	vf y[2][2]; /* [column][row] */

#pragma GCC unroll 2
	for (int a = 0; a < 2; a++)
#pragma GCC unroll 2
		for (int b = 0; b < 2; b++)
			y[b][a] = ldv(dy[a * 2 + b] + k, l);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		const vf row[2] = {wino_grad_row(i, y[0]), wino_grad_row(i, y[1])};

		if (i < from || i >= to)
			continue;
#pragma GCC unroll 4
		for (int b = 0; b < 4; b++)
			stv(m + ((i - from) * 4 + b) * plane + k, wino_grad_row(b, row), l);
	}
}

static void wino_grad(float *m, int64_t plane, const float *const dy[4], int c, int from, int to)
{
	FOR_REGISTERS(c, wino_grad_lanes(m, plane, dy, R, L, from, to));
}

ALWAYS void wino_out_lanes(float *const y[4], const float *m, int64_t plane, const float *bias, int64_t k, int l,
			   bool add)
{
	vf top[4], bottom[4], out[4];
	const vf b = bias ? ldv(bias + k, l) : (vf){0};

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		const vf m0 = ldv(m + i * plane + k, l), m1 = ldv(m + (4 + i) * plane + k, l);
		const vf m2 = ldv(m + (8 + i) * plane + k, l), m3 = ldv(m + (12 + i) * plane + k, l);

		top[i] = m0 + m1 + m2;
		bottom[i] = m1 - m2 - m3;
	}
	out[0] = top[0] + top[1] + top[2] + b;
	out[1] = top[1] - top[2] - top[3] + b;
	out[2] = bottom[0] + bottom[1] + bottom[2] + b;
	out[3] = bottom[1] - bottom[2] - bottom[3] + b;
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		if (y[i])
			stv(y[i] + k, add ? ldv(y[i] + k, l) + out[i] : out[i], l);
}

static void wino_out(float *const y[4], const float *m, int64_t plane, const float *bias, int c, bool add)
{
	FOR_REGISTERS(c, wino_out_lanes(y, m, plane, bias, R, L, add));
}

/* The four rows of G·g; g has three. */
ALWAYS void wino_spread(vf out[4], vf g0, vf g1, vf g2)
{
	const vf half = set1(0.5f), outer = half * (g0 + g2), inner = half * g1;

	out[0] = g0;
	out[1] = outer + inner;
	out[2] = outer - inner;
	out[3] = g2;
}

static void wino_weights(float *u, int64_t plane, const float *w, int64_t ldw, int c, bool turned)
{
	for (int k = 0; k < c; k += VL) {
		const int l = c - k < VL ? c - k : VL;
		vf g[9], rows[3][4], out[4];

		for (int t = 0; t < 9; t++)
			g[t] = ldv(w + (turned ? 8 - t : t) * ldw + k, l);
		for (int b = 0; b < 3; b++)
			wino_spread(rows[b], g[b], g[3 + b], g[6 + b]);
		for (int i = 0; i < 4; i++) {
			wino_spread(out, rows[0][i], rows[1][i], rows[2][i]);
			for (int b = 0; b < 4; b++)
				stv(u + (i * 4 + b) * plane + k, out[b], l);
		}
	}
}

/* The three rows of Gᵀ·u; u has four. */
ALWAYS void wino_gather(vf out[3], vf u0, vf u1, vf u2, vf u3)
{
	const vf half = set1(0.5f), sum = half * (u1 + u2);

	out[0] = u0 + sum;
	out[1] = half * (u1 - u2);
	out[2] = sum + u3;
}

static void wino_weights_back(float *dw, int64_t ldw, const float *du, int64_t plane, int c)
{
	for (int k = 0; k < c; k += VL) {
		const int l = c - k < VL ? c - k : VL;
		vf cols[4][3], out[3];

		for (int b = 0; b < 4; b++)
			wino_gather(cols[b], ldv(du + b * plane + k, l), ldv(du + (4 + b) * plane + k, l),
				    ldv(du + (8 + b) * plane + k, l), ldv(du + (12 + b) * plane + k, l));
		for (int a = 0; a < 3; a++) {
			wino_gather(out, cols[0][a], cols[1][a], cols[2][a], cols[3][a]);
			for (int b = 0; b < 3; b++) {
				float *to = dw + (a * 3 + b) * ldw + k;

				stv(to, ldv(to, l) + out[b], l);
			}
		}
	}
}
