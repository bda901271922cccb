/* Depthwise 3×3 by rows. Included by simd_*.c after body_elem.h. One register of channels goes along the row with its
 * nine weights in registers; rows come padded by a zero column on either side, so that there are no edges. */

/* T neighbouring outputs at once share their input columns. */
ALWAYS void dw_tile(float *y, const float *x0, const float *x1, const float *x2, const vf w[9], int64_t c, int l,
		    int stride, int t)
{
	const float *x[3] = {x0, x1, x2};
	vf acc[4];

	for (int i = 0; i < t; i++)
		acc[i] = (vf){0};
#pragma GCC unroll 3
	for (int kh = 0; kh < 3; kh++) {
		vf v[9];

#pragma GCC unroll 9
		for (int i = 0; i < (t - 1) * stride + 3; i++)
			v[i] = ldv(x[kh] + i * c, l);
#pragma GCC unroll 4
		for (int i = 0; i < t; i++)
#pragma GCC unroll 3
			for (int kw = 0; kw < 3; kw++)
				acc[i] += v[i * stride + kw] * w[kh * 3 + kw];
	}
#pragma GCC unroll 4
	for (int i = 0; i < t; i++)
		stv(y + i * c, acc[i], l);
}

ALWAYS void dw_strip(float *y, const float *const x[3], const float *w, int out_w, int64_t c, int l, int stride)
{
	const float *x0 = x[0], *x1 = x[1], *x2 = x[2];
	vf wv[9];
	int o = 0;

#pragma GCC unroll 9
	for (int i = 0; i < 9; i++)
		wv[i] = ldv(w + i * c, l);
	for (; o + 4 <= out_w; o += 4) {
		dw_tile(y, x0, x1, x2, wv, c, l, stride, 4);
		y += 4 * c;
		x0 += 4 * stride * c;
		x1 += 4 * stride * c;
		x2 += 4 * stride * c;
	}
	for (; o < out_w; o++) {
		dw_tile(y, x0, x1, x2, wv, c, l, stride, 1);
		y += c;
		x0 += stride * c;
		x1 += stride * c;
		x2 += stride * c;
	}
}

ALWAYS void dw_row_as(float *y, const float *const x[3], const float *w, int out_w, int c, int stride)
{
	int k = 0;

	for (; k < c; k += VL) {
		const float *xk[3] = {x[0] + k, x[1] + k, x[2] + k};

		if (k + VL <= c)
			dw_strip(y + k, xk, w + k, out_w, c, VL, stride);
		else
			dw_strip(y + k, xk, w + k, out_w, c, c - k, stride);
	}
}

static void dw_row(float *y, const float *const x[3], const float *w, int out_w, int c, int stride)
{
	if (stride == 1)
		dw_row_as(y, x, w, out_w, c, 1);
	else
		dw_row_as(y, x, w, out_w, c, 2);
}

ALWAYS void dw_weight_tile(vf acc[9], const float *dy, const float *const x[3], int64_t c, int l, int stride, int t)
{
	vf g[4];

#pragma GCC unroll 4
	for (int i = 0; i < t; i++)
		g[i] = ldv(dy + i * c, l);
#pragma GCC unroll 3
	for (int kh = 0; kh < 3; kh++) {
		vf v[9];

#pragma GCC unroll 9
		for (int i = 0; i < (t - 1) * stride + 3; i++)
			v[i] = ldv(x[kh] + i * c, l);
#pragma GCC unroll 4
		for (int i = 0; i < t; i++)
#pragma GCC unroll 3
			for (int kw = 0; kw < 3; kw++)
				acc[kh * 3 + kw] += v[i * stride + kw] * g[i];
	}
}

ALWAYS void dw_weight_strip(float *dw, const float *dy, const float *const x[3], int out_w, int64_t c, int l,
			    int stride)
{
	const float *xw[3] = {x[0], x[1], x[2]};
	vf acc[9];
	int o = 0;

#pragma GCC unroll 9
	for (int i = 0; i < 9; i++)
		acc[i] = ldv(dw + i * c, l);
	for (; o + 4 <= out_w; o += 4) {
		dw_weight_tile(acc, dy, xw, c, l, stride, 4);
		dy += 4 * c;
		for (int i = 0; i < 3; i++)
			xw[i] += 4 * stride * c;
	}
	for (; o < out_w; o++) {
		dw_weight_tile(acc, dy, xw, c, l, stride, 1);
		dy += c;
		for (int i = 0; i < 3; i++)
			xw[i] += stride * c;
	}
#pragma GCC unroll 9
	for (int i = 0; i < 9; i++)
		stv(dw + i * c, acc[i], l);
}

ALWAYS void dw_weight_row_as(float *dw, const float *dy, const float *const x[3], int out_w, int c, int stride)
{
	for (int k = 0; k < c; k += VL) {
		const float *xk[3] = {x[0] + k, x[1] + k, x[2] + k};

		if (k + VL <= c)
			dw_weight_strip(dw + k, dy + k, xk, out_w, c, VL, stride);
		else
			dw_weight_strip(dw + k, dy + k, xk, out_w, c, c - k, stride);
	}
}

static void dw_weight_row(float *dw, const float *dy, const float *const x[3], int out_w, int c, int stride)
{
	if (stride == 1)
		dw_weight_row_as(dw, dy, x, out_w, c, 1);
	else
		dw_weight_row_as(dw, dy, x, out_w, c, 2);
}

/* An even column 2j saw weight 1 of output j; an odd one, weight 2 of output j and weight 0 of output j + 1. */
ALWAYS void dw_data_strip2(float *dx, const float *const dy[2], const float *const w[2], int n_dy, int in_w, int64_t c,
			   int l)
{
	vf wv[2][3], g[2];

	for (int i = 0; i < n_dy; i++) {
		for (int k = 0; k < 3; k++)
			wv[i][k] = ldv(w[i] + k * c, l);
		g[i] = ldv(dy[i], l);
	}
	for (int j = 0; 2 * j < in_w; j++) {
		vf even = {0}, odd = {0};

		for (int i = 0; i < n_dy; i++) {
			vf next = ldv(dy[i] + (j + 1) * c, l);

			even += g[i] * wv[i][1];
			odd += g[i] * wv[i][2] + next * wv[i][0];
			g[i] = next;
		}
		stv(dx + 2 * j * c, even, l);
		if (2 * j + 1 < in_w)
			stv(dx + (2 * j + 1) * c, odd, l);
	}
}

static void dw_data_row2(float *dx, const float *const dy[2], const float *const w[2], int n_dy, int in_w, int c)
{
	for (int k = 0; k < c; k += VL) {
		int l = left(c - k);
		const float *dyk[2] = {dy[0] + k, n_dy > 1 ? dy[1] + k : dy[0] + k};
		const float *wk[2] = {w[0] + k, n_dy > 1 ? w[1] + k : w[0] + k};

		if (n_dy == 2)
			dw_data_strip2(dx + k, dyk, wk, 2, in_w, c, l);
		else
			dw_data_strip2(dx + k, dyk, wk, 1, in_w, c, l);
	}
}
