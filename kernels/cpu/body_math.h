/* Exponentials and what is built from them: smooth activations, softmax and norms. Included by simd_*.c
 * after body_elem.h.
 *
 * Largest errors over all floats, in units of 2^-24. Relative: e^x 1.5 (0 below −88, constant above
 * 88.3), tanh 2, log x 3. Absolute: Φ 6. NaN gives NaN in all of them. */
#include <math.h>

/* Lanes [0, n) of v; the others are 0. */
ALWAYS vf first_lanes(vf v, int n)
{
	vi lane;

	for (int i = 0; i < VL; i++)
		lane[i] = i;
	return (vf)((vi)v & (lane < n));
}

/* The sum of all lanes, in a fixed order. */
ALWAYS float lanes_sum(vf v)
{
	float a[VL];

	memcpy(a, &v, sizeof v);
#pragma GCC unroll 4
	for (int half = VL / 2; half > 0; half /= 2)
#pragma GCC unroll 8
		for (int i = 0; i < half; i++)
			a[i] += a[i + half];
	return a[0];
}

/* e^x = 2^n·e^r, |r| ≤ ln 2 / 2; n = −127 gives a factor of 0. The polynomial is that of Cephes' expf. */
ALWAYS vf exponential(vf x)
{
	const float shift = 0x1.8p23f; /* a float this large has no fraction bits, so adding it rounds to an integer */
	vf v = at_most(88.3f, at_least(-88.0f, x)), n = v * 1.44269504f + shift;
	vi power = ((vi)n - (vi)set1(shift) + 127) << 23;

	n -= shift;
	vf r = v - n * 0.693359375f + n * 2.12194440e-4f;
	vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;

	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	return (p * r * r + r + 1.0f) * (vf)power;
}

ALWAYS vf magnitude(vf x)
{
	return (vf)((vi)x & 0x7fffffff);
}

/* a where mask, else b */
ALWAYS vf choose(vi mask, vf a, vf b)
{
	return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* 1 / (1 + e^−x) */
ALWAYS vf logistic(vf x)
{
	return 1.0f / (1.0f + exponential(-x));
}

/* A function's value and slope. */
struct point {
	vf y, slope;
};

/* Φ(x) and its slope, the density e^(−x²/2)/√(2π). erfc(z)·e^(z²) is a polynomial of 1/(1 + 0.35·z),
 * fitted over [0, 9.4]. */
ALWAYS struct point normal(vf x)
{
	vf half = exponential(x * x * -0.5f), t = 1.0f / (1.0f + magnitude(x) * (0.35f * 0.707106781f));
	vf p = t * -1.8899923e-1f + 7.4267641e-1f;

	p = p * t - 6.4760189e-1f;
	p = p * t + 6.7715272e-1f;
	p = p * t - 2.1514347e-2f;
	p = p * t + 2.4695937e-1f;
	p = p * t + 1.9096800e-1f;
	p = p * t + 3.5968006e-4f;
	p = p * half * 0.5f; /* the tail beyond |x| */
	return (struct point){choose(x > set1(0.0f), 1.0f - p, p), half * 0.398942280f};
}

/* x·σ(v) and its slope; dv is the slope of v. */
ALWAYS struct point gated(vf x, vf v, vf dv)
{
	vf e = exponential(-v), gate = 1.0f / (1.0f + e);

	return (struct point){x * gate, gate + x * (gate * (gate * e)) * dv};
}

/* The approximation of Cephes' tanhf. */
ALWAYS vf hyperbolic_tangent(vf x)
{
	vf a = magnitude(x), large = 1.0f - 2.0f / (exponential(a + a) + 1.0f), z = x * x;
	vf p = z * -5.70498872745e-3f + 2.06390887954e-2f;

	p = p * z - 5.37397155531e-2f;
	p = p * z + 1.33314422036e-1f;
	p = p * z - 3.33332819422e-1f;
	p = p * z * x + x;
	large = (vf)((vi)large | ((vi)x & (vi)set1(-0.0f)));
	return choose(a < set1(0.625f), p, large);
}

/* The slopes at ±3 are torch's. NaN gives NaN in y. */
ALWAYS struct point hard(vf x, bool swish)
{
	vf line = x * 0.166666667f + 0.5f, zero = set1(0.0f), one = set1(1.0f), three = set1(3.0f);
	vf y = choose(x < -three, zero, choose(x > three, one, line));

	if (swish)
		return (struct point){x * y, choose(x < -three, zero, choose(x > three, one, x * 0.333333333f + 0.5f))};
	return (struct point){y, choose(magnitude(x) < three, set1(0.166666667f), zero)};
}

/* log(1 + t) for t in [0, 1] is 2·artanh(t / (2 + t)). */
ALWAYS struct point softplus(vf x)
{
	vf t = exponential(-magnitude(x)), s = t / (t + 2.0f), z = s * s;
	vf p = z * (2.0f / 15) + 2.0f / 13;

	p = p * z + 2.0f / 11;
	p = p * z + 2.0f / 9;
	p = p * z + 2.0f / 7;
	p = p * z + 2.0f / 5;
	p = p * z + 2.0f / 3;
	p = p * z + 2.0f;
	return (struct point){choose(x > set1(0.0f), x, x * 0.0f) + p * s, logistic(x)};
}

/* x = 2^n·m, m from √½ to √2, and log m = 2·artanh(s), s = (m − 1) / (m + 1). A subnormal x is scaled by 2^24 first. */
ALWAYS vf logarithm(vf x)
{
	const vf one = set1(1.0f), zero = set1(0.0f), most = set1(INFINITY);
	vi small = x < set1(0x1p-126f);
	vf v = choose(small, x * 0x1p24f, x);
	vi n = ((vi)v - (vi)set1(0x1.6a09e6p-1f)) >> 23;
	vf m = (vf)((vi)v - (n << 23)), power = (vf)(n + 0x4b400000) - 0x1.8p23f - choose(small, set1(24.0f), zero);
	vf s = (m - one) / (m + one), z = s * s, p = z * (2.0f / 11) + 2.0f / 9;

	p = p * z + 2.0f / 7;
	p = p * z + 2.0f / 5;
	p = p * z + 2.0f / 3;
	p = p * z * s + (s + s);
	p = p - power * 2.12194440e-4f + power * 0.693359375f;
	p = choose(x > zero, choose(x < most, p, x), choose(x == zero, -most, set1(NAN)));
	return choose(x == x, p, x);
}

ALWAYS struct point smooth_at(vf x, enum sl_cpu_smooth kind)
{
	if (kind == SL_SMOOTH_GELU) {
		struct point n = normal(x);

		return (struct point){x * n.y, n.y + x * n.slope};
	}
	if (kind == SL_SMOOTH_GELU_TANH) {
		vf square = x * x;

		return gated(x, x * (square * 0.0713548163f + 1.59576912f), square * 0.214064449f + 1.59576912f);
	}
	if (kind == SL_SMOOTH_SILU)
		return gated(x, x, set1(1.0f));
	if (kind == SL_SMOOTH_SIGMOID) {
		vf e = exponential(-x), y = 1.0f / (1.0f + e);

		return (struct point){y, y * (y * e)};
	}
	if (kind == SL_SMOOTH_HARDSIGMOID || kind == SL_SMOOTH_HARDSWISH)
		return hard(x, kind == SL_SMOOTH_HARDSWISH);
	if (kind == SL_SMOOTH_SOFTPLUS)
		return softplus(x);
	if (kind == SL_SMOOTH_ELU) {
		vf e = exponential(x);

		return (struct point){choose(x > set1(0.0f), x, e - 1.0f), choose(x > set1(0.0f), set1(1.0f), e)};
	}
	if (kind == SL_SMOOTH_EXP) { /* infinite from 88.3 on, although floats reach e^88.7 */
		vf e = choose(x > set1(88.3f), set1(INFINITY), exponential(x));

		return (struct point){e, e};
	}
	if (kind == SL_SMOOTH_LOG)
		return (struct point){logarithm(x), 1.0f / x};
	if (kind == SL_SMOOTH_SQRT)
		return (struct point){square_root(x), 0.5f / square_root(x)};
	if (kind == SL_SMOOTH_RECIPROCAL)
		return (struct point){1.0f / x, -1.0f / x / x};
	vf y = hyperbolic_tangent(x);

	return (struct point){y, 1.0f - y * y};
}

/* Runs `call` with the kind KIND. */
#define FOR_SMOOTH(kind, call)                                           \
	do {                                                             \
		switch (kind) {                                          \
		case SL_SMOOTH_GELU:                                     \
			WITH_CONSTANT(KIND, SL_SMOOTH_GELU, call)        \
		case SL_SMOOTH_GELU_TANH:                                \
			WITH_CONSTANT(KIND, SL_SMOOTH_GELU_TANH, call)   \
		case SL_SMOOTH_SILU:                                     \
			WITH_CONSTANT(KIND, SL_SMOOTH_SILU, call)        \
		case SL_SMOOTH_TANH:                                     \
			WITH_CONSTANT(KIND, SL_SMOOTH_TANH, call)        \
		case SL_SMOOTH_SIGMOID:                                  \
			WITH_CONSTANT(KIND, SL_SMOOTH_SIGMOID, call)     \
		case SL_SMOOTH_HARDSIGMOID:                              \
			WITH_CONSTANT(KIND, SL_SMOOTH_HARDSIGMOID, call) \
		case SL_SMOOTH_HARDSWISH:                                \
			WITH_CONSTANT(KIND, SL_SMOOTH_HARDSWISH, call)   \
		case SL_SMOOTH_ELU:                                      \
			WITH_CONSTANT(KIND, SL_SMOOTH_ELU, call)         \
		case SL_SMOOTH_SOFTPLUS:                                 \
			WITH_CONSTANT(KIND, SL_SMOOTH_SOFTPLUS, call)    \
		case SL_SMOOTH_EXP:                                      \
			WITH_CONSTANT(KIND, SL_SMOOTH_EXP, call)         \
		case SL_SMOOTH_LOG:                                      \
			WITH_CONSTANT(KIND, SL_SMOOTH_LOG, call)         \
		case SL_SMOOTH_SQRT:                                     \
			WITH_CONSTANT(KIND, SL_SMOOTH_SQRT, call)        \
		case SL_SMOOTH_RECIPROCAL:                               \
			WITH_CONSTANT(KIND, SL_SMOOTH_RECIPROCAL, call)  \
		}                                                        \
	} while (0)

ALWAYS void smooth_forward_as(float *y, const float *x, int64_t n, enum sl_cpu_smooth kind)
{
	for (int64_t i = 0; i < n; i += VL)
		stv(y + i, smooth_at(ldv(x + i, left(n - i)), kind).y, left(n - i));
}

static void smooth_forward(float *y, const float *x, int64_t n, enum sl_cpu_smooth kind)
{
	FOR_SMOOTH(kind, smooth_forward_as(y, x, n, (enum sl_cpu_smooth)KIND));
}

ALWAYS void smooth_backward_as(float *dx, const float *dy, const float *x, int64_t n, enum sl_cpu_smooth kind, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf g = ldv(dy + i, l) * smooth_at(ldv(x + i, l), kind).slope;

		stv(dx + i, add ? ldv(dx + i, l) + g : g, l);
	}
}

static void smooth_backward(float *dx, const float *dy, const float *x, int64_t n, enum sl_cpu_smooth kind, bool add)
{
	FOR_SMOOTH(kind, smooth_backward_as(dx, dy, x, n, (enum sl_cpu_smooth)KIND, add));
}

static void product(float *y, const float *a, const float *b, int64_t n, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf v = ldv(a + i, l) * ldv(b + i, l);

		stv(y + i, add ? ldv(y + i, l) + v : v, l);
	}
}

/* ---- rows of attention's scores */

/* The largest lane, if none is NaN. */
ALWAYS float lanes_most(vf v)
{
#pragma GCC unroll 4
	for (int half = VL / 2; half > 0; half /= 2) {
		vi from;

		for (int i = 0; i < VL; i++)
			from[i] = (i + half) % VL;
		v = larger(v, __builtin_shuffle(v, from));
	}
	return v[0];
}

/* A NaN is never chosen as the largest, and makes the sum NaN. The scores that do not fill a register
 * come last. */
static void softmax(float *s, int64_t n, float scale, float stat[2])
{
	const int64_t whole = n - n % VL;
	const int rest = (int)(n % VL);
	vf top = set1(-__builtin_inff()), sum = {0}, e;
	float most, inv;

	for (int64_t i = 0; i < whole; i += VL)
		top = larger(ld(s + i), top);
	most = lanes_most(top);
	for (int64_t i = whole; i < n; i++)
		most = s[i] > most ? s[i] : most;
	for (int64_t i = 0; i < whole; i += VL) {
		e = exponential((ld(s + i) - most) * scale);
		sum += e;
		st(s + i, e);
	}
	if (rest) {
		e = first_lanes(exponential((ldn(s + whole, rest) - most) * scale), rest);
		sum += e;
		stn(s + whole, e, rest);
	}
	stat[0] = most;
	inv = stat[1] = 1.0f / lanes_sum(sum);
	for (int64_t i = 0; i < whole; i += VL)
		st(s + i, ld(s + i) * inv);
	if (rest)
		stn(s + whole, ldn(s + whole, rest) * inv, rest);
}

static void softmax_again(float *s, int64_t n, float scale, const float stat[2])
{
	const float top = stat[0], inv = stat[1];

	for (int64_t i = 0; i < n; i += VL)
		stv(s + i, exponential((ldv(s + i, left(n - i)) - top) * scale) * inv, left(n - i));
}

static void softmax_back(float *ds, const float *p, const float *kept, int64_t n, float scale)
{
	vf sum = {0};
	float delta;

	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf v = ldv(kept + i, l) * ldv(ds + i, l);

		sum += v;
		stv(ds + i, v, l);
	}
	delta = lanes_sum(sum);
	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);

		stv(ds + i, (ldv(ds + i, l) - ldv(p + i, l) * delta) * scale, l);
	}
}

typedef float four __attribute__((vector_size(16)));
typedef float four_mem __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_int __attribute__((vector_size(16)));
typedef uint32_t four_words __attribute__((vector_size(16)));

#if VL == 16
/* Four floats from each of rows 0, 4, 8 and 12 of x. */
static inline __m512 pieces(const float *x, int64_t ldx)
{
	__m512 v = _mm512_castps128_ps512(_mm_loadu_ps(x));

	v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(x + 4 * ldx));
	v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(x + 8 * ldx));
	return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(x + 12 * ldx));
}

/* Transposes sixteen rows. They may be outside the caches: the next floats are prefetched. */
static void transpose_16(float *to, int width, const float *x, int64_t ldx, int64_t depth)
{
	enum { AHEAD = 64 };
	int64_t k = 0;

	for (; k + 4 <= depth; k += 4, to += 4 * width) {
		const __m512 r0 = pieces(x + k, ldx), r1 = pieces(x + ldx + k, ldx), r2 = pieces(x + 2 * ldx + k, ldx),
			     r3 = pieces(x + 3 * ldx + k, ldx);
		const __m512d a = (__m512d)_mm512_unpacklo_ps(r0, r1), b = (__m512d)_mm512_unpacklo_ps(r2, r3),
			      c = (__m512d)_mm512_unpackhi_ps(r0, r1), d = (__m512d)_mm512_unpackhi_ps(r2, r3);

		for (int i = 0; i < 16 && k % 16 == 0; i++)
			prefetch(x + i * ldx + k + AHEAD);
		st(to, (vf)_mm512_unpacklo_pd(a, b));
		st(to + width, (vf)_mm512_unpackhi_pd(a, b));
		st(to + 2 * width, (vf)_mm512_unpacklo_pd(c, d));
		st(to + 3 * width, (vf)_mm512_unpackhi_pd(c, d));
	}
	for (; k < depth; k++, to += width)
		for (int i = 0; i < 16; i++)
			to[i] = x[i * ldx + k];
}
#endif

/* Transposes x [n, depth], row i at x + i·ldx, to a panel [depth, width]; columns from n on are 0.
 * width: a multiple of 4. */
static void transpose_some(float *to, int width, const float *x, int64_t ldx, int64_t n, int64_t depth)
{
	int whole = 0;

#if VL == 16
	for (; whole + 16 <= n; whole += 16)
		transpose_16(to + whole, width, x + whole * ldx, ldx, depth);
#endif
	for (int i = whole; i < width; i += 4) {
		const int live = n - i < 4 ? (int)(n - i) : 4;
		int64_t k = 0;

		for (; k + 4 <= depth; k += 4) {
			four r[4] = {{0}, {0}, {0}, {0}}, a, b, c, d;

#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				if (j < live)
					r[j] = *(const four_mem *)(x + (i + j) * ldx + k);
			a = __builtin_shuffle(r[0], r[1], (four_int){0, 4, 1, 5});
			b = __builtin_shuffle(r[2], r[3], (four_int){0, 4, 1, 5});
			c = __builtin_shuffle(r[0], r[1], (four_int){2, 6, 3, 7});
			d = __builtin_shuffle(r[2], r[3], (four_int){2, 6, 3, 7});
			*(four_mem *)(to + k * width + i) = __builtin_shuffle(a, b, (four_int){0, 1, 4, 5});
			*(four_mem *)(to + (k + 1) * width + i) = __builtin_shuffle(a, b, (four_int){2, 3, 6, 7});
			*(four_mem *)(to + (k + 2) * width + i) = __builtin_shuffle(c, d, (four_int){0, 1, 4, 5});
			*(four_mem *)(to + (k + 3) * width + i) = __builtin_shuffle(c, d, (four_int){2, 3, 6, 7});
		}
		for (; k < depth; k++)
			for (int j = 0; j < 4; j++)
				to[k * width + i + j] = j < live ? x[(i + j) * ldx + k] : 0.0f;
	}
}

enum { TURNED = 128 /* columns transposed at a time, so that the output stays in the L1 cache */ };

static void transpose(float *to, int width, const float *x, int64_t ldx, int64_t n, int64_t depth)
{
	for (int64_t from = 0; from < depth; from += TURNED, to += TURNED * width, x += TURNED)
		transpose_some(to, width, x, ldx, n, depth - from < TURNED ? depth - from : TURNED);
}

/* Quads of random words that are drawn together, and their places in the rows. */
struct quads {
	vw number[SETS];
	int64_t at[WORDS / 4];
	int count;
};

static void drop_quads(float *y, const float *x, const struct sl_rng_key *key, struct quads *q, float p)
{
	const float by = 1.0f / (1.0f - p);
	uint32_t word[WORDS];

	draw_quads(key, q->number, word);
	for (int i = 0; i < q->count; i++) {
		four_words w;
		four v = *(const four_mem *)(x + q->at[i]) * by, unit;

		memcpy(&w, word + 4 * i, sizeof w);
		unit = __builtin_convertvector((four_int)(w >> 8), four) * 0x1p-24f; /* sl_rng_unit */
		*(four_mem *)(y + q->at[i]) = (four)((four_int)v & (unit >= p));
	}
	q->count = 0;
}

/* Short rows share a set of registers, so that its draws are not wasted. */
static void dropout_rows(float *y, const float *x, int64_t ld, const struct sl_rng_key *key, int64_t first,
			 int64_t step, int64_t rows, int64_t n, int64_t more, float p)
{
	struct quads q = {.count = 0};

	for (int64_t r = 0; r < rows; r++) {
		int64_t length = n + r * more;

		if (length >= WORDS / 2) {
			dropout(y + r * ld, x + r * ld, key, first + r * step, length, p, false);
			continue;
		}
		for (int64_t k = 0; k < length; k += 4) {
			uint64_t number = (uint32_t)((first + r * step + k) >> 2);

			memcpy((char *)q.number + (size_t)q.count * sizeof number, &number, sizeof number);
			q.at[q.count++] = r * ld + k;
			if (q.count == WORDS / 4)
				drop_quads(y, x, key, &q, p);
		}
	}
	if (q.count)
		drop_quads(y, x, key, &q, p);
}

/* ---- norms over a row of f values */

static float row_total(const float *x, int64_t f)
{
	vf sum[4] = {{0}, {0}, {0}, {0}};
	int64_t i = 0;

	for (; i + 4 * VL <= f; i += 4 * VL)
#pragma GCC unroll 4
		for (int u = 0; u < 4; u++)
			sum[u] += ld(x + i + u * VL);
	for (; i < f; i += VL)
		sum[0] += ldv(x + i, left(f - i));
	return lanes_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Sums of x − mean and of its square. The first sum measures the rounding error of `mean`. */
static void row_spread(const float *x, int64_t f, float mean, float total[2])
{
	vf first[2] = {{0}, {0}}, second[2] = {{0}, {0}};
	int64_t i = 0;

	for (; i + 2 * VL <= f; i += 2 * VL)
#pragma GCC unroll 2
		for (int u = 0; u < 2; u++) {
			vf d = ld(x + i + u * VL) - mean;

			first[u] += d;
			second[u] += d * d;
		}
	for (; i < f; i += VL) {
		vf d = first_lanes(ldv(x + i, left(f - i)) - mean, left(f - i));

		first[0] += d;
		second[0] += d * d;
	}
	total[0] = lanes_sum(first[0] + first[1]);
	total[1] = lanes_sum(second[0] + second[1]);
}

static void norm_forward(float *y, float stat[2], const float *x, const float *gamma, const float *beta, int64_t f,
			 float eps, bool centred)
{
	float mean = centred ? row_total(x, f) / (float)f : 0.0f, total[2], inv;

	row_spread(x, f, mean, total);
	if (centred) {
		float error = total[0] / (float)f;

		mean += error;
		total[1] -= total[0] * error;
	}
	inv = 1.0f / square_root(set1(total[1] / (float)f + eps))[0];
	stat[0] = mean;
	stat[1] = inv;
	for (int64_t i = 0; i < f; i += VL) {
		int l = left(f - i);
		vf v = (ldv(x + i, l) - mean) * inv * ldv(gamma + i, l);

		stv(y + i, beta ? v + ldv(beta + i, l) : v, l);
	}
}

static void norm_backward(float *dx, const float *dy, const float *x, const float *gamma, const float stat[2],
			  int64_t f, bool centred, bool add, float *dgamma, float *dbeta)
{
	const float mean = stat[0], inv = stat[1];
	vf sum = {0}, along = {0};
	float a, b;

	for (int64_t i = 0; i < f; i += VL) {
		int l = left(f - i);
		vf d = ldv(dy + i, l), h = (ldv(x + i, l) - mean) * inv, g = d * ldv(gamma + i, l);

		sum += g;
		along += g * h;
		if (dgamma)
			stv(dgamma + i, ldv(dgamma + i, l) + d * h, l);
		if (dbeta)
			stv(dbeta + i, ldv(dbeta + i, l) + d, l);
	}
	if (!dx)
		return;
	a = centred ? lanes_sum(sum) / (float)f : 0.0f;
	b = lanes_sum(along) / (float)f;
	for (int64_t i = 0; i < f; i += VL) {
		int l = left(f - i);
		vf h = (ldv(x + i, l) - mean) * inv, v = (ldv(dy + i, l) * ldv(gamma + i, l) - a - h * b) * inv;

		stv(dx + i, add ? ldv(dx + i, l) + v : v, l);
	}
}
