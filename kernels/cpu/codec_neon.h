/* NEON versions of the codecs' loops (common/codec/loops.h) that the compiler cannot generate from the
 * portable code. The other loops are the portable ones, compiled for NEON. */
#ifndef SL_CPU_CODEC_NEON_H
#define SL_CPU_CODEC_NEON_H

#include "kernels/cpu/codec_vector.h"

#define NAME(x) sl_neon_##x
#include "common/codec/loops_names.h"

static inline uint32x4_t magnitude4(float32x4_t x)
{
	return vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7fffffff));
}

#endif
