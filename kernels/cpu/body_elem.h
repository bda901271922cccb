/* Element-wise loops and column sums. Included by simd_*.c after vec.h. */
#include <math.h>

#include "common/base/half.h"

#define ALWAYS static inline __attribute__((always_inline))

/* Runs `call` for l channels, one register at a time. R: the register's first channel. L: its lanes in
 * use, which is a constant where the register is full. */
#define FOR_REGISTERS(l, call)                   \
	do {                                     \
		int R = 0;                       \
                                                 \
		for (; R + VL <= (l); R += VL) { \
			enum { L = VL };         \
			call;                    \
		}                                \
		if (R < (l)) {                   \
			const int L = (l)-R;     \
			call;                    \
		}                                \
	} while (0)

static inline void prefetch_lines(struct sl_prefetch *next, int64_t lines)
{
	while (next->n > 0 && lines > 0) {
		int r = next->n - 1;
		const char *at = next->at[r], *end = next->end[r];

		for (; lines > 0 && at < end; lines--, at += 64)
			prefetch(at);
		next->at[r] = at;
		if (at >= end)
			next->n--;
	}
}

static inline void prefetch_some(struct sl_prefetch *next)
{
	prefetch_lines(next, next->per_tile);
}

ALWAYS vf activate(vf z, enum sl_act act)
{
	if (act == SL_ACT_NONE)
		return z;
	z = at_least(0.0f, z);
	return act == SL_ACT_RELU6 ? at_most(6.0f, z) : z;
}

/* The gradient in front of an activation of z, from g, the gradient behind it. */
ALWAYS vf deactivate(vf g, vf z, enum sl_act act)
{
	if (act == SL_ACT_NONE)
		return g;
	return act == SL_ACT_RELU6 ? where_between(g, z, 0.0f, 6.0f) : where_above(g, z, 0.0f);
}

/* A case of a switch that runs `call` with `name` as a constant, so that each value gets its own loop. */
#define WITH_CONSTANT(name, value, call) \
	{                                \
		enum { name = value };   \
		call;                    \
		break;                   \
	}

/* Runs `call` with the activation ACT. */
#define FOR_ACT(act, call)                                     \
	do {                                                   \
		switch (act) {                                 \
		case SL_ACT_RELU:                              \
			WITH_CONSTANT(ACT, SL_ACT_RELU, call)  \
		case SL_ACT_RELU6:                             \
			WITH_CONSTANT(ACT, SL_ACT_RELU6, call) \
		default:                                       \
			WITH_CONSTANT(ACT, SL_ACT_NONE, call)  \
		}                                              \
	} while (0)

ALWAYS void act_forward_as(float *y, const float *x, int64_t n, enum sl_act act)
{
	for (int64_t i = 0; i < n; i += VL)
		stv(y + i, activate(ldv(x + i, left(n - i)), act), left(n - i));
}

static void act_forward(float *y, const float *x, int64_t n, enum sl_act act)
{
	FOR_ACT(act, act_forward_as(y, x, n, (enum sl_act)ACT));
}

ALWAYS void act_backward_as(float *dx, const float *dy, const float *x, int64_t n, enum sl_act act, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf g = deactivate(ldv(dy + i, l), ldv(x + i, l), act);

		stv(dx + i, add ? ldv(dx + i, l) + g : g, l);
	}
}

static void act_backward(float *dx, const float *dy, const float *x, int64_t n, enum sl_act act, bool add)
{
	FOR_ACT(act, act_backward_as(dx, dy, x, n, (enum sl_act)ACT, add));
}

ALWAYS void act_fork_as(float *da, float *db, const float *dy, const float *y, int64_t n, enum sl_act act, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		const int l = left(n - i);
		const vf g = deactivate(ldv(dy + i, l), ldv(y + i, l), act);

		stv(da + i, g, l);
		stv(db + i, add ? ldv(db + i, l) + g : g, l);
	}
}

static void act_fork(float *da, float *db, const float *dy, const float *y, int64_t n, enum sl_act act, bool add)
{
	FOR_ACT(act, act_fork_as(da, db, dy, y, n, (enum sl_act)ACT, add));
}

static void sum(float *y, const float *a, const float *b, int64_t n)
{
	for (int64_t i = 0; i < n; i += VL)
		stv(y + i, ldv(a + i, left(n - i)) + ldv(b + i, left(n - i)), left(n - i));
}

static void copy_row(float *y, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += VL) {
		prefetch(x + i + 2 * n);
		stv(y + i, ldv(x + i, left(n - i)), left(n - i));
	}
}

/* Loops without branches, so that the compiler vectorises them. The exponent of a half is too low by
 * 112 for a float. */
static void widen(float *y, const uint16_t *x, int64_t n, bool f16)
{
	for (int64_t i = 0; i < n && !f16; i++)
		y[i] = sl_float_of_bf16(x[i]);
	for (int64_t i = 0; i < n && f16; i++) {
		const uint32_t sign = (uint32_t)(x[i] & 0x8000u) << 16, rest = (uint32_t)(x[i] & 0x7fffu) << 13;
		const uint32_t special = (rest & 0x0f800000u) == 0x0f800000u ? 0x7f800000u : 0;
		uint32_t bits;
		float v = sl_float_of_bits(rest) * 0x1p112f;

		memcpy(&bits, &v, sizeof bits);
		y[i] = sl_float_of_bits(bits | special | sign);
	}
}

static void leaky(float *y, const float *a, const float *x, float slope, int64_t n, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		const int l = left(n - i);
		vf v = ldv(a + i, l);

		v = choose_above(v, v * slope, ldv(x + i, l), 0.0f);
		stv(y + i, add ? ldv(y + i, l) + v : v, l);
	}
}

static void scale(float *y, const float *x, float by, float plus, int64_t n, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		vf v = ldv(x + i, left(n - i)) * by;

		v = plus != 0 ? v + plus : v;

		stv(y + i, add ? ldv(y + i, left(n - i)) + v : v, left(n - i));
	}
}

/* Philox4x32-10 (common/base/rng.h computes one quad of elements). A set of registers holds VL / 2
 * quads: one word of the counter in the low half of each 64-bit lane, anything in the high half. SETS
 * sets are interleaved to hide latency. */
typedef uint64_t vw __attribute__((vector_size(VL * 4)));
typedef uint32_t vu __attribute__((vector_size(VL * 4)));

enum { SETS = VL == 16 ? 4 : 2, WORDS = SETS * VL * 2 };

static inline vw mul32(vw a, uint32_t by)
{
#if VL == 16
	return (vw)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(by));
#elif VL == 8
	return (vw)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(by));
#elif defined(__aarch64__)
	return (vw)vmull_u32(vmovn_u64((uint64x2_t)a), vdup_n_u32(by));
#else
	return (vw)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(by));
#endif
}

/* Stores quads in the order of the elements. a: words 0 and 1 of each quad; b: words 2 and 3. */
static inline void put_quads(uint32_t *to, vw a, vw b)
{
#if VL == 16
	const vw low = {0, 8, 1, 9, 2, 10, 3, 11}, high = {4, 12, 5, 13, 6, 14, 7, 15};
#elif VL == 8
	const vw low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
#else
	const vw low = {0, 2}, high = {1, 3};
#endif
	const vw first = __builtin_shuffle(a, b, low), second = __builtin_shuffle(a, b, high);

	memcpy(to, &first, sizeof first);
	memcpy(to + VL, &second, sizeof second);
}

/* Draws the words of quads[WORDS / 4], one quad after another. */
ALWAYS void draw_quads(const struct sl_rng_key *key, const vw quads[SETS], uint32_t word[WORDS])
{
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	vw c[SETS][4];

	for (int s = 0; s < SETS; s++) {
		c[s][0] = quads[s];
		c[s][1] = ((uint32_t)key->chunk << 16 | key->tensor) - (vw){0};
		c[s][2] = (uint32_t)key->step - (vw){0};
		c[s][3] = (key->step >> 32) - (vw){0};
	}
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
		for (int s = 0; s < SETS; s++) {
			vw p0 = mul32(c[s][0], 0xD2511F53u), p1 = mul32(c[s][2], 0xCD9E8D57u);

			c[s][0] = p1 >> 32 ^ c[s][1] ^ k0;
			c[s][2] = p0 >> 32 ^ c[s][3] ^ k1;
			c[s][1] = p1;
			c[s][3] = p0;
		}
	for (int s = 0; s < SETS; s++)
		put_quads(word + s * VL * 2, (c[s][0] & UINT32_MAX) | c[s][1] << 32,
			  (c[s][2] & UINT32_MAX) | c[s][3] << 32);
}

static inline void draw(const struct sl_rng_key *key, uint32_t first_quad, uint32_t word[WORDS])
{
	vw quad = {0}, quads[SETS];

	for (int i = 0; i < VL / 2; i++)
		quad[i] = (uint64_t)i;
	for (int s = 0; s < SETS; s++)
		quads[s] = quad + (first_quad + (uint32_t)s * (VL / 2));
	draw_quads(key, quads, word);
}

static void dropout(float *y, const float *x, const struct sl_rng_key *key, int64_t first, int64_t n, float p, bool add)
{
	float by = 1.0f / (1.0f - p);
	uint32_t word[WORDS];

	for (int64_t at = 0; at < n; at += WORDS) {
		draw(key, (uint32_t)((first + at) >> 2), word);
		for (int i = 0; i < WORDS && at + i < n; i += VL) {
			int l = left(n - at - i);
			vu w;
			vf unit, v = ldv(x + at + i, l) * by;

			memcpy(&w, word + i, sizeof w);
			unit = __builtin_convertvector((vi)(w >> 8), vf) * 0x1p-24f; /* sl_rng_unit */
			v = (vf)((vi)v & (unit >= p));
			stv(y + at + i, add ? ldv(y + at + i, l) + v : v, l);
		}
	}
}

static void sgd(const struct sl_update *u, int64_t n, float *w, const float *g, float *m)
{
	const float lr = u->lr, mu = u->momentum, wd = u->weight_decay;
	const bool nesterov = u->nesterov;

	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf wv = ldv(w + i, l), gv = ldv(g + i, l) + wd * wv, mv = mu * ldv(m + i, l) + gv;

		stv(m + i, mv, l);
		stv(w + i, wv - lr * (nesterov ? gv + mu * mv : mv), l);
	}
}

static void adam(const struct sl_update *u, int64_t n, float *w, const float *g, float *m, float *v)
{
	const struct sl_update o = *u; /* a local copy, which the stores cannot alias */

	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf wv = ldv(w + i, l), gv = ldv(g + i, l) + o.weight_decay * wv;
		vf mv = o.beta1 * ldv(m + i, l) + o.gain1 * gv, vv = o.beta2 * ldv(v + i, l) + o.gain2 * (gv * gv);

		stv(m + i, mv, l);
		stv(v + i, vv, l);
		stv(w + i, o.keep * wv - o.rate * mv / (square_root(vv) * o.root + o.eps), l);
	}
}

static void row_sum(float *total, const float *x, int64_t ld, int64_t rows, int c)
{
	for (int k = 0; k < c; k += VL) {
		int l = left(c - k);
		vf a = {0}, b = {0};
		int64_t r = 0;

		for (; r + 2 <= rows; r += 2) {
			a += ldv(x + r * ld + k, l);
			b += ldv(x + (r + 1) * ld + k, l);
		}
		if (r < rows)
			a += ldv(x + r * ld + k, l);
		stv(total + k, ldv(total + k, l) + (a + b), l);
	}
}

static void add_row(float *y, const float *row, int64_t rows, int c)
{
	for (int64_t r = 0; r < rows; r++)
		sum(y + r * c, y + r * c, row, c);
}

/* NaN counts as a maximum, so that it is not hidden. */
ALWAYS vi beats(vf v, vf best)
{
	return (v > best) | (v != v);
}

ALWAYS void window_max_lanes(float *y, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide, int l)
{
	vf best = set1(-INFINITY);

	for (int64_t h = 0; h < high; h++)
		for (int64_t w = 0; w < wide; w++) {
			const vf v = ldv(x + h * row + w * ld, l);

			best = where(beats(v, best), v, best);
		}
	stv(y, best, l);
}

static void window_max(float *y, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide, int c)
{
	FOR_REGISTERS(c, window_max_lanes(y + R, x + R, row, ld, high, wide, L));
}

ALWAYS void window_max_back_lanes(float *dx, vf g, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide,
				  int l, bool add)
{
	vf best = set1(-INFINITY);
	vi first = {0}; /* number of the first maximum */
	int32_t i = 0;

	for (int64_t h = 0; h < high; h++)
		for (int64_t w = 0; w < wide; w++, i++) {
			const vf v = ldv(x + h * row + w * ld, l);
			const vi m = beats(v, best);

			best = where(m, v, best);
			first = (first & ~m) | (m & i);
		}
	i = 0;
	for (int64_t h = 0; h < high; h++)
		for (int64_t w = 0; w < wide; w++, i++) {
			float *to = dx + h * row + w * ld;
			const vf before = add ? ldv(to, l) : (vf){0};

			stv(to, where(first == i, before + g, before), l);
		}
}

static void window_max_back(float *dx, const float *dy, const float *x, int64_t row, int64_t ld, int64_t high,
			    int64_t wide, int c, bool add)
{
	FOR_REGISTERS(c, window_max_back_lanes(dx + R, ldv(dy + R, L), x + R, row, ld, high, wide, L, add));
}

static void window_sum(float *y, const float *x, int64_t row, int64_t ld, int64_t high, int64_t wide, int c, double by)
{
	for (int k = 0; k < c; k += VL) {
		int l = left(c - k);
		struct wide total = {{0}, {0}};

		for (int64_t h = 0; h < high; h++) {
			vf s = {0};

			for (int64_t w = 0; w < wide; w++)
				s += ldv(x + h * row + w * ld + k, l);
			wide_add(&total, s);
		}
		stv(y + k, wide_scaled(&total, by), l);
	}
}
