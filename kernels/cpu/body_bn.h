/* Batch normalisation over rows x[rows, C]. Included by simd_*.c after body_elem.h.
 * Sums run down a strip of columns, so that they stay in registers; maps run along the rows, as memory does. */

/* Moments about the first row of the block: a value of the data lies near enough to its mean that nothing cancels. */
ALWAYS void moments_strip(float *mean, float *m2, const float *x, int64_t rows, int c, int l)
{
	vf first = ldv(x, l), s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
	int64_t r = 0;

	for (; r + 2 <= rows; r += 2) {
		vf d0 = ldv(x + r * c, l) - first, d1 = ldv(x + (r + 1) * c, l) - first;

		s0 += d0;
		q0 += d0 * d0;
		s1 += d1;
		q1 += d1 * d1;
	}
	if (r < rows) {
		vf d = ldv(x + r * c, l) - first;

		s0 += d;
		q0 += d * d;
	}
	s0 += s1;
	q0 += q1;
	stv(mean, first + s0 / (float)rows, l);
	stv(m2, at_least(0.0f, q0 - s0 * s0 / (float)rows), l);
}

static void moments(float *mean, float *m2, const float *x, int64_t rows, int c)
{
	int k = 0;

	for (; k + VL <= c; k += VL)
		moments_strip(mean + k, m2 + k, x + k, rows, c, VL);
	if (k < c)
		moments_strip(mean + k, m2 + k, x + k, rows, c, c - k);
}

ALWAYS void bn_forward_as(float *y, const float *x, const float *mul, const float *shift, int64_t rows, int c,
			  enum sl_act act)
{
	for (int64_t r = 0; r < rows; r++, x += c, y += c) {
		int k = 0;

		for (; k + VL <= c; k += VL)
			st(y + k, activate(ld(x + k) * ld(mul + k) + ld(shift + k), act));
		if (k < c) {
			int l = c - k;

			stn(y + k, activate(ldn(x + k, l) * ldn(mul + k, l) + ldn(shift + k, l), act), l);
		}
	}
}

static void bn_forward(float *y, const float *x, const float *mul, const float *shift, int64_t rows, int c,
		       enum sl_act act)
{
	FOR_ACT(act, bn_forward_as(y, x, mul, shift, rows, c, (enum sl_act)ACT));
}

ALWAYS void bn_sums_strip(float *sum_g, float *sum_gx, const float *dy, const float *x, const float *mul,
			  const float *shift, const float *mean, int64_t rows, int c, enum sl_act act, int l)
{
	vf a = ldv(mul, l), b = ldv(shift, l), m = ldv(mean, l);
	vf s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
	int64_t r = 0;

	for (; r + 2 <= rows; r += 2) {
		vf x0 = ldv(x + r * c, l), x1 = ldv(x + (r + 1) * c, l);
		vf g0 = deactivate(ldv(dy + r * c, l), x0 * a + b, act);
		vf g1 = deactivate(ldv(dy + (r + 1) * c, l), x1 * a + b, act);

		s0 += g0;
		q0 += g0 * (x0 - m);
		s1 += g1;
		q1 += g1 * (x1 - m);
	}
	if (r < rows) {
		vf x0 = ldv(x + r * c, l);
		vf g0 = deactivate(ldv(dy + r * c, l), x0 * a + b, act);

		s0 += g0;
		q0 += g0 * (x0 - m);
	}
	stv(sum_g, s0 + s1, l);
	stv(sum_gx, q0 + q1, l);
}

ALWAYS void bn_sums_as(float *sum_g, float *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn_back *n,
		       int64_t rows, int c, enum sl_act act)
{
	int k = 0;

	for (; k + VL <= c; k += VL)
		bn_sums_strip(sum_g + k, sum_gx + k, dy + k, x + k, n->scale + k, n->shift + k, n->mean + k, rows, c,
			      act, VL);
	if (k < c)
		bn_sums_strip(sum_g + k, sum_gx + k, dy + k, x + k, n->scale + k, n->shift + k, n->mean + k, rows, c,
			      act, c - k);
}

static void bn_sums(float *sum_g, float *sum_gx, const float *dy, const float *x, const struct sl_cpu_bn_back *n,
		    int64_t rows, int c, enum sl_act act)
{
	FOR_ACT(act, bn_sums_as(sum_g, sum_gx, dy, x, n, rows, c, (enum sl_act)ACT));
}

ALWAYS vf bn_back_at(const float *dy, const float *x, const struct sl_cpu_bn_back *n, int k, int l, enum sl_act act)
{
	vf xv = ldv(x + k, l);
	vf g = deactivate(ldv(dy + k, l), xv * ldv(n->scale + k, l) + ldv(n->shift + k, l), act);

	return ldv(n->a + k, l) * g + (ldv(n->b + k, l) * (xv - ldv(n->mean + k, l)) + ldv(n->d + k, l));
}

ALWAYS void bn_backward_as(float *dx, const float *dy, const float *x, const struct sl_cpu_bn_back *n, int64_t rows,
			   int c, enum sl_act act, bool add)
{
	for (int64_t r = 0; r < rows; r++, dx += c, dy += c, x += c) {
		int k = 0;

		for (; k + VL <= c; k += VL) {
			vf v = bn_back_at(dy, x, n, k, VL, act);

			st(dx + k, add ? ld(dx + k) + v : v);
		}
		if (k < c) {
			int l = c - k;
			vf v = bn_back_at(dy, x, n, k, l, act);

			stn(dx + k, add ? ldn(dx + k, l) + v : v, l);
		}
	}
}

static void bn_backward(float *dx, const float *dy, const float *x, const struct sl_cpu_bn_back *n, int64_t rows, int c,
			enum sl_act act, bool add)
{
	if (add)
		FOR_ACT(act, bn_backward_as(dx, dy, x, n, rows, c, (enum sl_act)ACT, true));
	else
		FOR_ACT(act, bn_backward_as(dx, dy, x, n, rows, c, (enum sl_act)ACT, false));
}
