/* The portable loops from values to codes, from codes to packed bits, and back; see body_stats.h. */
#include <string.h>

#include "common/codec/loops_c.h"

/* The nearest integer, ties to even, of 0 ≤ t < 2^22: in a sum with 1.5·2^23 the last bit is worth 1. */
static inline uint32_t nearest(float t)
{
	float shifted = t + 0x1.8p23f;
	uint32_t bits;

	memcpy(&bits, &shifted, sizeof bits);
	return bits - 0x4b400000u;
}

/* The integer below t, or with a probability of t's fraction, to 2^-31, the one above. A sum t + u would round. */
static inline uint32_t stochastic(float t, uint32_t rnd, uint32_t most)
{
	const int32_t below = (int32_t)t, chance = (int32_t)((t - (float)below) * 0x1p31f);
	const uint32_t code = (uint32_t)(below + ((int32_t)(rnd >> 1) < chance));

	return code < most ? code : most;
}

static inline float at_most(float v, float max)
{
	return v < max ? v : max;
}

BODY void NAME(quantize)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, uint16_t most,
			 uint16_t *code)
{
	const float pre = a->pre, lo = a->lo, inv = a->inv;

	if (rnd == NULL) {
		for (int64_t i = 0; i < n; i++)
			code[i] = (uint16_t)nearest((x[i] * pre - lo) * inv);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		code[i] = (uint16_t)stochastic((x[i] * pre - lo) * inv, rnd[i], most);
}

BODY void NAME(dequantize)(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x)
{
	const float lo = a->lo, step = a->step, post = a->post, max = a->max;

	for (int64_t i = 0; i < n; i++)
		x[i] = at_most((lo + (float)code[i] * step) * post, max);
}

BODY void NAME(quantize_cols)(const float *x, int64_t n, const float *a, int64_t stride, const uint32_t *rnd,
			      uint16_t most, uint16_t *code)
{
	const float *pre = a, *lo = a + stride, *inv = a + 2 * stride;

	if (rnd == NULL) {
		for (int64_t i = 0; i < n; i++)
			code[i] = (uint16_t)nearest((x[i] * pre[i] - lo[i]) * inv[i]);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		code[i] = (uint16_t)stochastic((x[i] * pre[i] - lo[i]) * inv[i], rnd[i], most);
}

BODY void NAME(dequantize_cols)(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x)
{
	const float *lo = a + stride, *step = a + 3 * stride, *post = a + 4 * stride, *max = a + 5 * stride;

	for (int64_t i = 0; i < n; i++)
		x[i] = at_most((lo[i] + (float)code[i] * step[i]) * post[i], max[i]);
}

BODY void NAME(levels)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, int bits, uint16_t q,
		       uint16_t *code)
{
	const float pre = a->pre, inv = a->inv;

	for (int64_t i = 0; i < n; i++) {
		float magnitude = x[i] < 0 ? -x[i] : x[i];
		uint32_t level = stochastic(magnitude * pre * inv, rnd[i], q);
		uint32_t negative = (uint32_t)(x[i] < 0) & (uint32_t)(level > 0);

		code[i] = (uint16_t)(level | negative << bits);
	}
}

BODY void NAME(unlevels)(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x)
{
	const float step = a->step, post = a->post, max = a->max;
	const uint32_t mask = (1u << bits) - 1;

	for (int64_t i = 0; i < n; i++) {
		float v = at_most((float)(int32_t)(code[i] & mask) * step * post, max);

		x[i] = code[i] >> bits & 1 ? -v : v;
	}
}

/* Maps a float to an integer of the same order. Sums and maxima of integers may be taken in any order, so a compiler
 * can use vectors. */
static inline int32_t ordered(float x)
{
	float v = x + 0.0f; /* -0 becomes 0 */
	int32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return bits ^ (bits >> 31 & 0x7fffffff);
}

static inline float from_ordered(int32_t key)
{
	int32_t bits = key ^ (key >> 31 & 0x7fffffff);
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

BODY void NAME(bucket_stats)(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io)
{
	for (int k = 1; k < b->count; k++) {
		const int32_t edge = ordered(b->edge[k]);
		int32_t most = ordered(io->max_below[k]), below = 0, upto = 0;

		for (int64_t i = 0; i < n; i++) {
			int32_t v = ordered(x[i]), less = v < edge ? v : INT32_MIN;

			below += v < edge;
			upto += v <= edge;
			most = less > most ? less : most;
		}
		io->below[k] += below;
		io->upto[k] += b->ties ? upto : 0;
		io->max_below[k] = from_ordered(most);
	}
	NAME(minmax)(x, n, &io->range);
}

BODY void NAME(bucketize)(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code)
{
	const uint32_t most = (1u << b->code_bits) - 1;

	for (int64_t i = 0; i < n; i++) {
		int k = 0;
		float t;

		for (int j = 1; j < b->count; j++)
			k += x[i] >= b->edge[j];
		t = (x[i] * b->pre[k] - b->lo[k]) * b->inv[k];
		code[i] = (uint16_t)((uint32_t)k << b->code_bits | (rnd ? stochastic(t, rnd[i], most) : nearest(t)));
	}
}

BODY void NAME(unbucketize)(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x)
{
	const uint32_t mask = (1u << b->code_bits) - 1;

	for (int64_t i = 0; i < n; i++) {
		int k = code[i] >> b->code_bits;

		x[i] = at_most((b->lo[k] + (float)(int32_t)(code[i] & mask) * b->step[k]) * b->post[k], b->max[k]);
	}
}

BODY void NAME(pack)(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	uint64_t word = 0;
	int held = 0;

	if (bits == 16) {
		memcpy(out, code, (size_t)n * 2);
		return;
	}
	if (bits == 8) {
		for (int64_t i = 0; i < n; i++)
			out[i] = (uint8_t)code[i];
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		word |= (uint64_t)code[i] << held;
		held += bits;
		if (held >= 32) {
			memcpy(out, &word, 4);
			out += 4;
			word >>= 32;
			held -= 32;
		}
	}
	for (; held >= 8; held -= 8, word >>= 8)
		*out++ = (uint8_t)word;
	if (held > 0)
		*out = (uint8_t)word;
}

BODY void NAME(unpack)(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	const uint32_t mask = (1u << bits) - 1;
	const int64_t bytes = sl_packed_bytes(n, bits);
	int64_t i = 0;

	if (bits == 16) {
		memcpy(code, in, (size_t)n * 2);
		return;
	}
	if (bits == 8) {
		for (; i < n; i++)
			code[i] = in[i];
		return;
	}
	/* four bytes hold any code, wherever it begins */
	for (; i < n && i * bits / 8 + 4 <= bytes; i++) {
		uint32_t word;

		memcpy(&word, in + i * bits / 8, sizeof word);
		code[i] = (uint16_t)(word >> i * bits % 8 & mask);
	}
	for (; i < n; i++) {
		uint32_t word = 0;

		memcpy(&word, in + i * bits / 8, (size_t)(bytes - i * bits / 8));
		code[i] = (uint16_t)(word >> i * bits % 8 & mask);
	}
}

/* Bits of the largest finite values: 65504 of half, 0x7f7f of bfloat16. */
static const uint32_t f16_most = 0x477fe000u, bf16_most = 0x7f7f0000u;

BODY uint32_t NAME(to_f16)(const float *x, int64_t n, uint8_t *out)
{
	uint32_t top = 0;

	for (int64_t i = 0; i < n; i++) {
		uint32_t bits, m = sl_magnitude(x[i]), half;
		uint16_t h;

		memcpy(&bits, &x[i], sizeof bits);
		top = m > top ? m : top;
		m = m < f16_most ? m : f16_most;
		if (m >= 0x38800000u) {
			/* normal: rebias the exponent, round away 13 bits */
			half = (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
		} else {
			/* subnormal: in a sum with 0.5 the last bit is worth 2^-24, so the sum rounds as wanted */
			float v;

			memcpy(&v, &m, sizeof v);
			v += 0.5f;
			memcpy(&half, &v, sizeof half);
			half -= 0x3f000000u;
		}
		h = (uint16_t)(half | (bits >> 16 & 0x8000u));
		memcpy(out + 2 * i, &h, 2);
	}
	return top;
}

BODY void NAME(from_f16)(const uint8_t *in, int64_t n, float *x)
{
	for (int64_t i = 0; i < n; i++) {
		uint16_t h;
		uint32_t m, bits;

		memcpy(&h, in + 2 * i, 2);
		m = h & 0x7fffu;
		if (m >= 0x7c00u) {
			bits = m << 13 | 0x7f800000u | (m > 0x7c00u ? 0x00400000u : 0);
		} else if (m >= 0x0400u) {
			bits = (m << 13) + 0x38000000u;
		} else {
			float v = (float)m * 0x1p-24f;

			memcpy(&bits, &v, sizeof bits);
		}
		bits |= (uint32_t)(h & 0x8000u) << 16;
		memcpy(&x[i], &bits, sizeof bits);
	}
}

BODY uint32_t NAME(to_bf16)(const float *x, int64_t n, uint8_t *out)
{
	uint32_t top = 0;

	for (int64_t i = 0; i < n; i++) {
		uint32_t bits, m = sl_magnitude(x[i]);
		uint16_t h;

		memcpy(&bits, &x[i], sizeof bits);
		top = m > top ? m : top;
		m = m < bf16_most ? m : bf16_most;
		m = (m + 0x7fffu + (m >> 16 & 1)) >> 16;
		h = (uint16_t)(m | (bits >> 16 & 0x8000u));
		memcpy(out + 2 * i, &h, 2);
	}
	return top;
}

BODY void NAME(from_bf16)(const uint8_t *in, int64_t n, float *x)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = sl_bf16_at(in, i);
}
