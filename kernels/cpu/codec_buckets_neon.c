/* sortquant's codes. */
#include "kernels/cpu/codec_neon.h"

/* Values of up to 16 buckets, as bytes */
struct table16 {
	uint8x16x4_t bytes;
};

static inline struct table16 table_of(const float value[16])
{
	struct table16 t;

	for (int i = 0; i < 4; i++)
		t.bytes.val[i] = vreinterpretq_u8_f32(vld1q_f32(value + 4 * i));
	return t;
}

/* The k-th value of `count`, a constant */
INLINE float32x4_t pick(const struct table16 *t, uint32x4_t k, int count)
{
	/* the four bytes of each */
	uint8x16_t at = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), k, 0x04040404));

	if (count <= 4)
		return vreinterpretq_f32_u8(vqtbl1q_u8(t->bytes.val[0], at));
	if (count <= 8)
		return vreinterpretq_f32_u8(vqtbl2q_u8((uint8x16x2_t){{t->bytes.val[0], t->bytes.val[1]}}, at));
	return vreinterpretq_f32_u8(vqtbl4q_u8(t->bytes, at));
}

/* The bucket of each element by bisection: the edge in the middle first, then those in the middle of the halves.
 * `count` is a constant. */
INLINE uint32x4_t bucket_of(float32x4_t v, const struct table16 *edge, float32x4_t middle, int count)
{
	uint32x4_t k = vandq_u32(vcgeq_f32(v, middle), vdupq_n_u32((uint32_t)count / 2));

	for (uint32_t half = (uint32_t)count / 4; half > 0; half /= 2) {
		float32x4_t e = pick(edge, vaddq_u32(k, vdupq_n_u32(half)), count);

		k = vaddq_u32(k, vandq_u32(vcgeq_f32(v, e), vdupq_n_u32(half)));
	}
	return k;
}

/* floor(t + rnd·2^-16), at most `most` */
static inline uint32x4_t stochastic(float32x4_t t, const uint16_t *rnd, uint32x4_t most)
{
	float32x4_t u = vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vld1_u16(rnd))), 0x1p-16f);

	return vminq_u32(vreinterpretq_u32_s32(vcvtq_s32_f32(vaddq_f32(t, u))), most);
}

INLINE void bucketize(const float *x, int64_t n, const struct sl_buckets *b, const uint16_t *rnd, uint16_t *code,
		      int count, bool scaled)
{
	const struct table16 edge = table_of(b->edge), pre = table_of(b->pre), lo = table_of(b->lo),
			     inv = table_of(b->inv);
	const float32x4_t middle = vdupq_n_f32(b->edge[count / 2]);
	const int32x4_t shift = vdupq_n_s32(b->code_bits);
	const uint32x4_t most = vdupq_n_u32((1u << b->code_bits) - 1);

	for (int64_t i = 0; i < n; i += 4) {
		float32x4_t v = vld1q_f32(x + i), t;
		uint32x4_t k = bucket_of(v, &edge, middle, count), c;

		t = scaled ? vmulq_f32(v, pick(&pre, k, count)) : v;
		t = vmulq_f32(vsubq_f32(t, pick(&lo, k, count)), pick(&inv, k, count));
		c = rnd ? stochastic(t, rnd + i, most) : vreinterpretq_u32_s32(vcvtnq_s32_f32(t));
		vst1_u16(code + i, vmovn_u32(vorrq_u32(vshlq_u32(k, shift), c)));
	}
}

/* Edges from … from+edges-1, at most 4. `edges` and `ties` are constants at every call. */
INLINE void edge_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, int from,
		       int edges, bool ties)
{
	uint32x4_t below[4], upto[4];
	float32x4_t most[4];

	for (int k = 0; k < edges; k++) {
		below[k] = upto[k] = vdupq_n_u32(0);
		most[k] = vdupq_n_f32(io->max_below[from + k]);
	}
	for (int64_t i = 0; i < n; i += 4) {
		float32x4_t v = vld1q_f32(x + i);

		for (int k = 0; k < edges; k++) {
			float32x4_t edge = vdupq_n_f32(b->edge[from + k]);
			uint32x4_t less = vcltq_f32(v, edge);

			below[k] = vsubq_u32(below[k], less);
			if (ties)
				upto[k] = vsubq_u32(upto[k], vcleq_f32(v, edge));
			most[k] = vmaxq_f32(vbslq_f32(less, v, most[k]), most[k]);
		}
	}
	for (int k = 0; k < edges; k++) {
		io->below[from + k] += vaddvq_u32(below[k]);
		io->upto[from + k] += vaddvq_u32(upto[k]);
		io->max_below[from + k] = vmaxvq_f32(most[k]) + 0.0f;
	}
}

INLINE void tile_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io, bool ties)
{
	int from = 1;

	if (b->count == 2) {
		edge_stats(x, n, b, io, 1, 1, ties);
		return;
	}
	for (; from + 4 <= b->count; from += 4)
		edge_stats(x, n, b, io, from, 4, ties);
	edge_stats(x, n, b, io, from, 3, ties);
}

INLINE void unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x, int count)
{
	const struct table16 lo = table_of(b->lo), step = table_of(b->step), post = table_of(b->post),
			     max = table_of(b->max);
	const uint32x4_t mask = vdupq_n_u32((1u << b->code_bits) - 1);
	const int32x4_t down = vdupq_n_s32(-b->code_bits);

	for (int64_t i = 0; i < n; i += 4) {
		uint32x4_t c = vmovl_u16(vld1_u16(code + i)), k = vshlq_u32(c, down);
		float32x4_t v = vmulq_f32(vcvtq_f32_u32(vandq_u32(c, mask)), pick(&step, k, count));
		float32x4_t most = pick(&max, k, count);

		v = vmulq_f32(vaddq_f32(pick(&lo, k, count), v), pick(&post, k, count));
		vst1q_f32(x + i, vbslq_f32(vcltq_f32(v, most), v, most));
	}
}

void sl_neon_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	int64_t whole = n & ~(int64_t)3;

	if (b->count > 8)
		unbucketize(code, whole, b, x, 16);
	else if (b->count > 4)
		unbucketize(code, whole, b, x, 8);
	else
		unbucketize(code, whole, b, x, 4);
	sl_c_unbucketize(code + whole, n - whole, b, x + whole);
}

enum { STATS_AT_ONCE = 4, CODES_AT_ONCE = 4 };
#define sl_neon_minmax sl_c_minmax /* which the compiler makes as well */
#include "kernels/cpu/body_buckets.h"
