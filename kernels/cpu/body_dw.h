/* Depthwise convolutions on strips of SL_DW_LANES channels: 3×3, and at the end any window. Included by
 * simd_*.c after body_bn.h. One register of channels moves along the row, with its nine weights in
 * registers. Rows of a strip are [W+2, SL_DW_LANES] with a zero column on either side, so that no edge
 * needs a case of its own. In tensors, columns are ldx or ldy floats apart; l channels are in use. */

/* t neighbouring outputs share the loads of their input columns. */
ALWAYS void dw_tile(float *y, int64_t ldy, const float *const x[3], const vf w[9], vf bias, int l, int stride, int t)
{
	vf acc[4];

#pragma GCC unroll 4
	for (int i = 0; i < t; i++)
		acc[i] = bias;
#pragma GCC unroll 3
	for (int kh = 0; kh < 3; kh++) {
		vf v[9];

#pragma GCC unroll 9
		for (int i = 0; i < (t - 1) * stride + 3; i++)
			v[i] = ld(x[kh] + i * SL_DW_LANES);
#pragma GCC unroll 4
		for (int i = 0; i < t; i++)
#pragma GCC unroll 3
			for (int kw = 0; kw < 3; kw++)
				acc[i] += v[i * stride + kw] * w[kh * 3 + kw];
	}
#pragma GCC unroll 4
	for (int i = 0; i < t; i++)
		stv(y + i * ldy, acc[i], l);
}

ALWAYS void advance(const float *x[3], int columns)
{
	for (int i = 0; i < 3; i++)
		x[i] += columns * SL_DW_LANES;
}

ALWAYS void dw_register(float *y, int64_t ldy, const float *const rows[3], int r, const float *w, int64_t ldw,
			const float *bias, int out_w, int l, int stride, struct sl_prefetch *next)
{
	const float *x[3] = {rows[0] + r, rows[1] + r, rows[2] + r};
	vf wv[9], from = bias != NULL ? ldv(bias + r, l) : (vf){0};
	int o = 0;

	y += r;
#pragma GCC unroll 9
	for (int i = 0; i < 9; i++)
		wv[i] = ldv(w + r + i * ldw, l);
	for (; o + 4 <= out_w; o += 4, y += 4 * ldy) {
		dw_tile(y, ldy, x, wv, from, l, stride, 4);
		advance(x, 4 * stride);
		prefetch_some(next);
	}
	for (; o < out_w; o++, y += ldy) {
		dw_tile(y, ldy, x, wv, from, l, stride, 1);
		advance(x, stride);
	}
}

static void dw_row(float *y, int64_t ldy, const float *const x[3], const float *w, int64_t ldw, const float *bias,
		   int out_w, int l, int stride, struct sl_prefetch *next)
{
	if (stride == 1)
		FOR_REGISTERS(l, dw_register(y, ldy, x, R, w, ldw, bias, out_w, L, 1, next));
	else
		FOR_REGISTERS(l, dw_register(y, ldy, x, R, w, ldw, bias, out_w, L, 2, next));
}

ALWAYS void dw_weight_tile(vf acc[10], const float *dy, const float *const x[3], int stride, int t)
{
	vf g[4];

#pragma GCC unroll 4
	for (int i = 0; i < t; i++) {
		g[i] = ld(dy + i * SL_DW_LANES);
		acc[9] += g[i];
	}
#pragma GCC unroll 3
	for (int kh = 0; kh < 3; kh++) {
		vf v[9];

#pragma GCC unroll 9
		for (int i = 0; i < (t - 1) * stride + 3; i++)
			v[i] = ld(x[kh] + i * SL_DW_LANES);
#pragma GCC unroll 4
		for (int i = 0; i < t; i++)
#pragma GCC unroll 3
			for (int kw = 0; kw < 3; kw++)
				acc[kh * 3 + kw] += v[i * stride + kw] * g[i];
	}
}

ALWAYS void dw_weight_register(float *dw, int64_t ldw, const float *dy, const float *const rows[3], int r, int out_w,
			       int l, int stride, struct sl_prefetch *next)
{
	const float *x[3] = {rows[0] + r, rows[1] + r, rows[2] + r};
	vf acc[10];
	int o = 0;

	dw += r;
	dy += r;
#pragma GCC unroll 10
	for (int i = 0; i < 10; i++)
		acc[i] = (vf){0};
	for (; o + 4 <= out_w; o += 4, dy += 4 * SL_DW_LANES) {
		dw_weight_tile(acc, dy, x, stride, 4);
		advance(x, 4 * stride);
		prefetch_some(next);
	}
	for (; o < out_w; o++, dy += SL_DW_LANES) {
		dw_weight_tile(acc, dy, x, stride, 1);
		advance(x, stride);
	}
#pragma GCC unroll 10
	for (int i = 0; i < 10; i++)
		stv(dw + i * ldw, ldv(dw + i * ldw, l) + acc[i], l);
}

static void dw_weight_row(float *dw, int64_t ldw, const float *dy, const float *const x[3], int out_w, int l,
			  int stride, struct sl_prefetch *next)
{
	if (stride == 1)
		FOR_REGISTERS(l, dw_weight_register(dw, ldw, dy, x, R, out_w, L, 1, next));
	else
		FOR_REGISTERS(l, dw_weight_register(dw, ldw, dy, x, R, out_w, L, 2, next));
}

/* In forward, even column 2j meets weight 1 of output j; odd column 2j + 1 meets weight 2 of output j
 * and weight 0 of output j + 1. */
ALWAYS void dw_data_register2(float *dx, int64_t ldx, const float *const dy[2], const float *const w[2], int64_t ldw,
			      int r, int n_dy, int in_w, int l)
{
	vf wv[2][3], g[2];

	dx += r;
#pragma GCC unroll 2
	for (int i = 0; i < n_dy; i++) {
		for (int k = 0; k < 3; k++)
			wv[i][k] = ldv(w[i] + r + k * ldw, l);
		g[i] = ld(dy[i] + r);
	}
	for (int j = 0; 2 * j < in_w; j++) {
		vf even = {0}, odd = {0};

#pragma GCC unroll 2
		for (int i = 0; i < n_dy; i++) {
			vf after = ld(dy[i] + r + (j + 1) * SL_DW_LANES);

			even += g[i] * wv[i][1];
			odd += g[i] * wv[i][2] + after * wv[i][0];
			g[i] = after;
		}
		stv(dx + 2 * j * ldx, even, l);
		if (2 * j + 1 < in_w)
			stv(dx + (2 * j + 1) * ldx, odd, l);
	}
}

static void dw_data_row2(float *dx, int64_t ldx, const float *const dy[2], const float *const w[2], int64_t ldw,
			 int n_dy, int in_w, int l)
{
	if (n_dy == 2)
		FOR_REGISTERS(l, dw_data_register2(dx, ldx, dy, w, ldw, R, 2, in_w, L));
	else
		FOR_REGISTERS(l, dw_data_register2(dx, ldx, dy, w, ldw, R, 1, in_w, L));
}

ALWAYS void dw_fill_as(float *to, const float *x, int64_t ldx, const struct sl_cpu_bn *n, int columns, int l,
		       enum sl_act act)
{
	vf mean = ldv(n->mean, l), mul = ldv(n->scale, l), shift = ldv(n->shift, l);

	for (int i = 0; i < columns; i++)
		st(to + i * SL_DW_LANES, activate((ldv(x + i * ldx, l) - mean) * mul + shift, act));
}

ALWAYS void dw_copy_as(float *to, const float *x, int64_t ldx, int columns, int l)
{
	for (int i = 0; i < columns; i++)
		st(to + i * SL_DW_LANES, ldv(x + i * ldx, l));
}

static void dw_fill(float *to, const float *x, int64_t ldx, const struct sl_cpu_bn *n, int columns, int l,
		    enum sl_act act)
{
	struct sl_cpu_bn at;

	if (n == NULL)
		FOR_REGISTERS(l, dw_copy_as(to + R, x + R, ldx, columns, L));
	else
		FOR_REGISTERS(l, at = sl_bn_from(n, R);
			      FOR_ACT(act, dw_fill_as(to + R, x + R, ldx, &at, columns, L, (enum sl_act)ACT)));
}

ALWAYS void dw_fill_back_as(float *to, const float *dy, const float *x, int64_t ldx, const struct sl_cpu_bn *n,
			    int columns, int l, enum sl_act act)
{
	vf mean = ldv(n->mean, l), mul = ldv(n->scale, l), shift = ldv(n->shift, l);
	vf a = ldv(n->a, l), b = ldv(n->b, l), d = ldv(n->d, l);

	for (int i = 0; i < columns; i++) {
		vf off = ldv(x + i * ldx, l) - mean;

		st(to + i * SL_DW_LANES, a * deactivate(ldv(dy + i * ldx, l), off * mul + shift, act) + (b * off + d));
	}
}

static void dw_fill_back(float *to, const float *dy, const float *x, int64_t ldx, const struct sl_cpu_bn *n,
			 int columns, int l, enum sl_act act)
{
	struct sl_cpu_bn at;

	FOR_REGISTERS(l, at = sl_bn_from(n, R);
		      FOR_ACT(act, dw_fill_back_as(to + R, dy + R, x + R, ldx, &at, columns, L, (enum sl_act)ACT)));
}

ALWAYS void dw_place_as(float *dx, const float *g, const float *x, int64_t ldx, int columns, int l, enum sl_act act,
			bool add)
{
	for (int i = 0; i < columns; i++) {
		vf v = ld(g + i * SL_DW_LANES);

		if (act != SL_ACT_NONE)
			v = deactivate(v, ldv(x + i * ldx, l), act);
		stv(dx + i * ldx, add ? ldv(dx + i * ldx, l) + v : v, l);
	}
}

static void dw_place(float *dx, const float *g, const float *x, int64_t ldx, int columns, int l, enum sl_act act,
		     bool add)
{
	FOR_REGISTERS(l, FOR_ACT(act, dw_place_as(dx + R, g + R, x + R, ldx, columns, L, (enum sl_act)ACT, add)));
}

/* ---- any window */

/* t neighbouring outputs share the load of each weight; the first n of them are stored. */
ALWAYS void dw_any_tile(float *y, int64_t ldy, const struct sl_dw_window *v, int64_t from, int r, int l, vf bias,
			bool add, int t, int n)
{
	vf acc[8];

#pragma GCC unroll 8
	for (int i = 0; i < t; i++)
		acc[i] = bias;
	for (int h = 0; h < v->rows; h++) {
		const float *x = v->x[h] + from * v->step * SL_DW_LANES + r, *w = v->w[h] + r;

		for (int k = 0; k < v->kw; k++, x += v->dilation * SL_DW_LANES, w += v->ldw) {
			const vf by = ldv(w, l);

#pragma GCC unroll 8
			for (int i = 0; i < t; i++)
				acc[i] += ld(x + i * v->step * SL_DW_LANES) * by;
		}
	}
	y += from * ldy + r;
#pragma GCC unroll 8
	for (int i = 0; i < t; i++)
		if (i < n)
			stv(y + i * ldy, add ? ldv(y + i * ldy, l) + acc[i] : acc[i], l);
}

ALWAYS void dw_any_register(float *y, int64_t ldy, const struct sl_dw_window *v, int r, int l, const float *bias,
			    bool add)
{
	const vf from = bias != NULL ? ldv(bias + r, l) : (vf){0};

	for (int o = 0; o < v->out_w; o += 8)
		if (v->out_w - o > 4)
			dw_any_tile(y, ldy, v, o, r, l, from, add, 8, v->out_w - o);
		else
			dw_any_tile(y, ldy, v, o, r, l, from, add, 4, v->out_w - o);
}

static void dw_any_row(float *y, int64_t ldy, const struct sl_dw_window *v, const float *bias, bool add)
{
	FOR_REGISTERS(v->l, dw_any_register(y, ldy, v, R, L, bias, add));
}

/* t neighbouring taps share the load of each output's gradient; the first n of them are stored. */
ALWAYS void dw_any_taps(float *dw, const float *x, const float *dy, int64_t ldy, const struct sl_dw_window *v, int l,
			int t, int n)
{
	const int64_t right = v->dilation * SL_DW_LANES;
	vf acc[8];

#pragma GCC unroll 8
	for (int i = 0; i < t; i++)
		acc[i] = (vf){0};
	for (int o = 0; o < v->out_w; o++, x += v->step * SL_DW_LANES, dy += ldy) {
		const vf g = ldv(dy, l);

#pragma GCC unroll 8
		for (int i = 0; i < t; i++)
			acc[i] += ld(x + i * right) * g;
	}
#pragma GCC unroll 8
	for (int i = 0; i < t; i++)
		if (i < n)
			stv(dw + i * v->ldw, ldv(dw + i * v->ldw, l) + acc[i], l);
}

ALWAYS void dw_any_weight_register(float *const *dw, const float *dy, int64_t ldy, const struct sl_dw_window *v, int r,
				   int l)
{
	for (int h = 0; h < v->rows; h++)
		for (int k = 0; k < v->kw; k += 8) {
			const float *x = v->x[h] + k * v->dilation * SL_DW_LANES + r;
			float *to = dw[h] + k * v->ldw + r;

			if (v->kw - k > 5)
				dw_any_taps(to, x, dy + r, ldy, v, l, 8, v->kw - k);
			else
				dw_any_taps(to, x, dy + r, ldy, v, l, 5, v->kw - k);
		}
}

static void dw_any_weight_row(float *const *dw, const float *dy, int64_t ldy, const struct sl_dw_window *v)
{
	FOR_REGISTERS(v->l, dw_any_weight_register(dw, dy, ldy, v, R, L));
}
