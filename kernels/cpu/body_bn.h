/* Batch normalisation over rows x[rows, C]. Included by simd_*.c after body_elem.h.
 * Sums run down a strip of columns, so that they stay in registers. Element-wise loops run along the
 * rows, which are contiguous in memory. */

/* Rows whose terms are summed in float. These sums are added in double: over thousands of rows, float
 * sums would be off by many times a float's rounding. */
enum { FLOAT_ROWS = 128 };

static inline int64_t float_rows(int64_t rows)
{
	return rows < FLOAT_ROWS ? rows : FLOAT_ROWS;
}

ALWAYS void moments_few(struct wide *s, struct wide *q, vf from, const float *x, int64_t ld, int64_t rows, int l)
{
	vf s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
	int64_t r = 0;

	for (; r + 2 <= rows; r += 2) {
		vf d0 = ldv(x + r * ld, l) - from, d1 = ldv(x + (r + 1) * ld, l) - from;

		s0 += d0;
		q0 += d0 * d0;
		s1 += d1;
		q1 += d1 * d1;
	}
	if (r < rows) {
		vf d = ldv(x + r * ld, l) - from;

		s0 += d;
		q0 += d * d;
	}
	wide_add(s, s0 + s1);
	wide_add(q, q0 + q1);
}

ALWAYS void moments_strip(double *total, double *total_sq, const float *origin, const float *x, int64_t ld,
			  int64_t rows, int l)
{
	vf from = ldv(origin, l);
	struct wide s = {{0}, {0}}, q = {{0}, {0}};

	for (; rows > 0; rows -= FLOAT_ROWS, x += FLOAT_ROWS * ld)
		moments_few(&s, &q, from, x, ld, float_rows(rows), l);
	wide_put(total, &s, l);
	wide_put(total_sq, &q, l);
}

static void moments(double *total, double *total_sq, const float *origin, const float *x, int64_t ld, int64_t rows,
		    int c)
{
	FOR_REGISTERS(c, moments_strip(total + R, total_sq + R, origin + R, x + R, ld, rows, L));
}

/* Element-wise loops take ROWS rows together, so that the coefficients of a channel are loaded once for
 * them. */
enum { ROWS = 4 };

ALWAYS void bn_forward_at(float *y, const float *x, const struct sl_cpu_bn *n, int t, int64_t ld, int k, int l,
			  enum sl_act act)
{
	vf mean = ldv(n->mean + k, l), mul = ldv(n->scale + k, l), shift = ldv(n->shift + k, l);

#pragma GCC unroll 4
	for (int i = 0; i < t; i++)
		stv(y + i * ld + k, activate((ldv(x + i * ld + k, l) - mean) * mul + shift, act), l);
}

ALWAYS void bn_forward_rows(float *y, const float *x, const struct sl_cpu_bn *n, int t, int64_t ld, int c,
			    enum sl_act act)
{
	FOR_REGISTERS(c, bn_forward_at(y, x, n, t, ld, R, L, act));
}

ALWAYS void bn_forward_as(float *y, const float *x, const struct sl_cpu_bn *n, int64_t ld, int64_t rows, int c,
			  enum sl_act act)
{
	int64_t r = 0;

	for (; r + ROWS <= rows; r += ROWS)
		bn_forward_rows(y + r * ld, x + r * ld, n, ROWS, ld, c, act);
	for (; r < rows; r++)
		bn_forward_rows(y + r * ld, x + r * ld, n, 1, ld, c, act);
}

static void bn_forward(float *y, const float *x, const struct sl_cpu_bn *n, int64_t ld, int64_t rows, int c,
		       enum sl_act act)
{
	FOR_ACT(act, bn_forward_as(y, x, n, ld, rows, c, (enum sl_act)ACT));
}

ALWAYS void bn_forward_stream_as(float *y, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c,
				 enum sl_act act)
{
	for (int64_t r = 0; r < rows; r++, x += c, y += c)
		for (int k = 0; k < c; k += VL)
			stream(y + k,
			       activate((ld(x + k) - ld(n->mean + k)) * ld(n->scale + k) + ld(n->shift + k), act));
}

static void bn_forward_stream(float *y, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c, enum sl_act act)
{
	if (c % VL != 0 || (uintptr_t)y % sizeof(vf) != 0)
		bn_forward(y, x, n, c, rows, c, act);
	else
		FOR_ACT(act, bn_forward_stream_as(y, x, n, rows, c, (enum sl_act)ACT));
}

ALWAYS void norm_sum_as(float *y, const float *a, const float *b, const struct sl_cpu_bn *n, int64_t rows, int c,
			enum sl_act act, bool streams)
{
	for (int64_t r = 0; r < rows; r++, a += c, b += c, y += c)
		FOR_REGISTERS(c, {
			vf v = ldv(a + R, L);

			if (n)
				v = (v - ldv(n->mean + R, L)) * ldv(n->scale + R, L) + ldv(n->shift + R, L);
			v = activate(v + ldv(b + R, L), act);
			if (streams)
				stream(y + R, v);
			else
				stv(y + R, v, L);
		});
}

static void norm_sum(float *y, const float *a, const float *b, const struct sl_cpu_bn *n, int64_t rows, int c,
		     enum sl_act act, bool streams)
{
	if (!streams || c % VL != 0 || (uintptr_t)y % sizeof(vf) != 0)
		FOR_ACT(act, norm_sum_as(y, a, b, n, rows, c, (enum sl_act)ACT, false));
	else
		FOR_ACT(act, norm_sum_as(y, a, b, n, rows, c, (enum sl_act)ACT, true));
}

/* Registers of a row in one strip of bn_sums. A strip of one register would fetch every line of memory from elsewhere.
 */
enum { SUMS_WIDE = sizeof(vf) >= 64 ? 4 : 2 };

ALWAYS void bn_sums_row(vf *s, vf *q, const float *dy, const float *x, const vf *a, const vf *b, const vf *m,
			enum sl_act act, int w, int l)
{
#pragma GCC unroll 4
	for (int i = 0; i < w; i++) {
		vf d = ldv(x + i * VL, l) - m[i], g = deactivate(ldv(dy + i * VL, l), d * a[i] + b[i], act);

		s[i] += g;
		q[i] += g * d;
	}
}

ALWAYS void bn_sums_few(struct wide *s, struct wide *q, const float *dy, const float *x, const vf *a, const vf *b,
			const vf *m, int64_t ld, int64_t rows, enum sl_act act, int w, int l)
{
	vf s0[SUMS_WIDE] = {{0}}, s1[SUMS_WIDE] = {{0}}, q0[SUMS_WIDE] = {{0}}, q1[SUMS_WIDE] = {{0}};
	int64_t r = 0;

	for (; r + 2 <= rows; r += 2) {
		bn_sums_row(s0, q0, dy + r * ld, x + r * ld, a, b, m, act, w, l);
		bn_sums_row(s1, q1, dy + (r + 1) * ld, x + (r + 1) * ld, a, b, m, act, w, l);
	}
	if (r < rows)
		bn_sums_row(s0, q0, dy + r * ld, x + r * ld, a, b, m, act, w, l);
#pragma GCC unroll 4
	for (int i = 0; i < w; i++) {
		wide_add(s + i, s0[i] + s1[i]);
		wide_add(q + i, q0[i] + q1[i]);
	}
}

/* Columns [k, k + w·VL), or [k, k + l) if w is 1. */
ALWAYS void bn_sums_strip(double *sum_g, double *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn *n,
			  int k, int64_t ld, int64_t rows, enum sl_act act, int w, int l)
{
	vf a[SUMS_WIDE], b[SUMS_WIDE], m[SUMS_WIDE];
	struct wide s[SUMS_WIDE] = {{{0}, {0}}}, q[SUMS_WIDE] = {{{0}, {0}}};

#pragma GCC unroll 4
	for (int i = 0; i < w; i++) {
		a[i] = ldv(n->scale + k + i * VL, l);
		b[i] = ldv(n->shift + k + i * VL, l);
		m[i] = ldv(n->mean + k + i * VL, l);
	}
	dy += k;
	x += k;
	for (; rows > 0; rows -= FLOAT_ROWS, dy += FLOAT_ROWS * ld, x += FLOAT_ROWS * ld)
		bn_sums_few(s, q, dy, x, a, b, m, ld, float_rows(rows), act, w, l);
#pragma GCC unroll 4
	for (int i = 0; i < w; i++) {
		wide_put(sum_g + k + i * VL, s + i, l);
		wide_put(sum_gx + k + i * VL, q + i, l);
	}
}

ALWAYS void bn_sums_as(double *sum_g, double *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn *n,
		       int64_t ld, int64_t rows, int c, enum sl_act act)
{
	int k = 0;

	for (; k + SUMS_WIDE * VL <= c; k += SUMS_WIDE * VL)
		bn_sums_strip(sum_g, sum_gx, dy, x, n, k, ld, rows, act, SUMS_WIDE, VL);
	FOR_REGISTERS(c - k, bn_sums_strip(sum_g, sum_gx, dy, x, n, k + R, ld, rows, act, 1, L));
}

static void bn_sums(double *sum_g, double *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn *n,
		    int64_t ld, int64_t rows, int c, enum sl_act act)
{
	FOR_ACT(act, bn_sums_as(sum_g, sum_gx, dy, x, n, ld, rows, c, (enum sl_act)ACT));
}

ALWAYS void bn_backward_at(float *dx, const float *dy, const float *x, const struct sl_cpu_bn *n, int t, int c, int k,
			   int l, enum sl_act act, bool add)
{
	vf mean = ldv(n->mean + k, l), mul = ldv(n->scale + k, l), shift = ldv(n->shift + k, l);
	vf a = ldv(n->a + k, l), b = ldv(n->b + k, l), d = ldv(n->d + k, l);

#pragma GCC unroll 4
	for (int i = 0; i < t; i++) {
		vf off = ldv(x + i * c + k, l) - mean;
		vf v = a * deactivate(ldv(dy + i * c + k, l), off * mul + shift, act) + (b * off + d);

		stv(dx + i * c + k, add ? ldv(dx + i * c + k, l) + v : v, l);
	}
}

ALWAYS void bn_backward_rows(float *dx, const float *dy, const float *x, const struct sl_cpu_bn *n, int t, int c,
			     enum sl_act act, bool add)
{
	FOR_REGISTERS(c, bn_backward_at(dx, dy, x, n, t, c, R, L, act, add));
}

ALWAYS void bn_backward_as(float *dx, const float *dy, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c,
			   enum sl_act act, bool add)
{
	int64_t r = 0;

	for (; r + ROWS <= rows; r += ROWS)
		bn_backward_rows(dx + r * c, dy + r * c, x + r * c, n, ROWS, c, act, add);
	for (; r < rows; r++)
		bn_backward_rows(dx + r * c, dy + r * c, x + r * c, n, 1, c, act, add);
}

static void bn_backward(float *dx, const float *dy, const float *x, const struct sl_cpu_bn *n, int64_t rows, int c,
			enum sl_act act, bool add)
{
	if (add)
		FOR_ACT(act, bn_backward_as(dx, dy, x, n, rows, c, (enum sl_act)ACT, true));
	else
		FOR_ACT(act, bn_backward_as(dx, dy, x, n, rows, c, (enum sl_act)ACT, false));
}
