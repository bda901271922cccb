/* The portable loops by name: for tables that use some of them, and for the last elements of a faster loop. */
#ifndef SL_CODEC_LOOPS_C_H
#define SL_CODEC_LOOPS_C_H

#include "common/codec/loops.h"

#define NAME(x) sl_c_##x
#include "common/codec/loops_names.h"
#undef NAME

/* The bit pattern of a float, without the sign. */
static inline uint32_t sl_magnitude(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffffu;
}

/* The i-th bfloat16 value of a payload. */
static inline float sl_bf16_at(const uint8_t *in, int64_t i)
{
	uint16_t half;
	uint32_t bits;
	float v;

	__builtin_memcpy(&half, in + 2 * i, sizeof half);
	bits = (uint32_t)half << 16;
	__builtin_memcpy(&v, &bits, sizeof v);
	return v;
}

#endif
