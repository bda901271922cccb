/* Conversions: IEEE half and bfloat16 to float, without rounding; float to bfloat16. */
#ifndef SL_BASE_HALF_H
#define SL_BASE_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float sl_float_of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static inline float sl_float_of_bf16(uint16_t b)
{
	return sl_float_of_bits((uint32_t)b << 16);
}

/* To nearest, ties to even; NaN stays NaN. */
static inline uint16_t sl_bf16_of_float(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return (uint16_t)((x == x ? bits + 0x7fffu + (bits >> 16 & 1) : bits | 0x400000u) >> 16);
}

static inline float sl_float_of_f16(uint16_t half)
{
	const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 0x3ffu;

	if (exponent == 31) /* Inf and NaN */
		return sl_float_of_bits(sign | 0x7f800000u | mantissa << 13);
	if (exponent == 0) { /* zero and subnormals: mantissa · 2^-24 */
		float x = (float)mantissa * 0x1p-24f;

		return sign ? -x : x;
	}
	return sl_float_of_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
}

static inline void sl_widen(float *to, const uint16_t *from, int64_t n, bool f16)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = f16 ? sl_float_of_f16(from[i]) : sl_float_of_bf16(from[i]);
}

#endif
