/* The portable loops by name, for tables that take some of them and for the last elements of a faster one. */
#ifndef SL_CODEC_LOOPS_C_H
#define SL_CODEC_LOOPS_C_H

#include "common/codec/loops.h"

#define NAME(x) sl_c_##x
#include "common/codec/loops_names.h"
#undef NAME

/* Pattern of a float, without the sign. */
static inline uint32_t sl_magnitude(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffffu;
}

#endif
