/* Element-wise loops and column sums. Included by simd_*.c after vec.h. */

#define ALWAYS static inline __attribute__((always_inline))

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

/* The gradient g behind an activation of z, in front of it. */
ALWAYS vf deactivate(vf g, vf z, enum sl_act act)
{
	if (act == SL_ACT_NONE)
		return g;
	return act == SL_ACT_RELU6 ? where_between(g, z, 0.0f, 6.0f) : where_above(g, z, 0.0f);
}

/* Runs `call` with a constant activation, so that each gets its own loop. */
#define FOR_ACT(act, call)                           \
	do {                                         \
		switch (act) {                       \
		case SL_ACT_RELU: {                  \
			enum { ACT = SL_ACT_RELU };  \
			call;                        \
			break;                       \
		}                                    \
		case SL_ACT_RELU6: {                 \
			enum { ACT = SL_ACT_RELU6 }; \
			call;                        \
			break;                       \
		}                                    \
		default: {                           \
			enum { ACT = SL_ACT_NONE };  \
			call;                        \
			break;                       \
		}                                    \
		}                                    \
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

static void scale(float *y, const float *x, float by, int64_t n, bool add)
{
	for (int64_t i = 0; i < n; i += VL) {
		vf v = ldv(x + i, left(n - i)) * by;

		stv(y + i, add ? ldv(y + i, left(n - i)) + v : v, left(n - i));
	}
}

enum { QUADS = 16 };

/* Philox4x32-10 of sixteen quads of elements side by side (common/base/rng.h has it for one). */
static void draw(const struct sl_rng_key *key, uint32_t first_quad, uint32_t word[4 * QUADS])
{
	uint32_t c[4][QUADS], k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);

	for (uint32_t i = 0; i < QUADS; i++) {
		c[0][i] = first_quad + i;
		c[1][i] = (uint32_t)key->chunk << 16 | key->tensor;
		c[2][i] = (uint32_t)key->step;
		c[3][i] = (uint32_t)(key->step >> 32);
	}
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
		for (int i = 0; i < QUADS; i++) {
			uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i], p1 = (uint64_t)0xCD9E8D57u * c[2][i];

			c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
			c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
			c[1][i] = (uint32_t)p1;
			c[3][i] = (uint32_t)p0;
		}
	for (int i = 0; i < QUADS; i++)
		for (int w = 0; w < 4; w++)
			word[4 * i + w] = c[w][i];
}

static void dropout(float *y, const float *x, const struct sl_rng_key *key, int64_t first, int64_t n, float p, bool add)
{
	float by = 1.0f / (1.0f - p);
	uint32_t word[4 * QUADS];

	for (int64_t at = 0; at < n; at += 4 * QUADS) {
		int64_t end = n - at < 4 * QUADS ? n - at : 4 * QUADS;

		draw(key, (uint32_t)((first + at) >> 2), word);
		for (int64_t i = 0; i < end; i++) {
			float v = sl_rng_unit(word[i]) >= p ? x[at + i] * by : 0.0f;

			y[at + i] = add ? y[at + i] + v : v;
		}
	}
}

static void sgd(float *w, float *g, float *m, int64_t n, float lr, float mu, float wd, bool nesterov, bool first)
{
	for (int64_t i = 0; i < n; i += VL) {
		int l = left(n - i);
		vf wv = ldv(w + i, l), gv = ldv(g + i, l) + wd * wv;

		vf mv = first ? gv : mu * ldv(m + i, l) + gv;

		stv(m + i, mv, l);
		stv(w + i, wv - lr * (nesterov ? gv + mu * mv : mv), l);
	}
}

static void row_sum(float *total, const float *x, int64_t rows, int c)
{
	for (int k = 0; k < c; k += VL) {
		int l = left(c - k);
		vf a = {0}, b = {0};
		int64_t r = 0;

		for (; r + 2 <= rows; r += 2) {
			a += ldv(x + r * c + k, l);
			b += ldv(x + (r + 1) * c + k, l);
		}
		if (r < rows)
			a += ldv(x + r * c + k, l);
		stv(total + k, ldv(total + k, l) + (a + b), l);
	}
}

static void add_row(float *y, const float *row, int64_t rows, int c)
{
	for (int64_t r = 0; r < rows; r++)
		sum(y + r * c, y + r * c, row, c);
}
