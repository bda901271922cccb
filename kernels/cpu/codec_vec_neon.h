/* The vector operations of body_half.h, body_mark.h, body_cells.h and body_bisect.h, for NEON. */
#ifndef SL_CPU_CODEC_VEC_NEON_H
#define SL_CPU_CODEC_VEC_NEON_H

#include "kernels/cpu/codec_neon.h"

enum { LANES = 4 };
typedef float32x4_t vec;
typedef uint32x4_t ivec;
#define vec_load(p)           vld1q_f32(p)
#define vec_store(p, v)       vst1q_f32(p, v)
#define vec_put(p, v, stream) ((void)(stream), vst1q_f32(p, v))
#define vec_set1(v)           vdupq_n_f32(v)
#define vec_add(a, b)         vaddq_f32(a, b)
#define vec_sub(a, b)         vsubq_f32(a, b)
#define vec_mul(a, b)         vmulq_f32(a, b)
#define vec_clamp(v, lo, hi)  vmaxnmq_f32(vminnmq_f32(v, hi), lo) /* a NaN gives a bound */
#define vec_of_halves(p)      vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))
#define vec_to_halves(p, v)   vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)))
#define vec_magnitude(v)      magnitude4(v)
#define ivec_zero()           vdupq_n_u32(0)
#define ivec_set1(v)          vdupq_n_u32((uint32_t)(v))
#define ivec_max(a, b)        vmaxq_u32(a, b)
#define ivec_most(v)          vmaxvq_u32(v)

/* Bit i: lane i of m ≥ least. */
static inline uint32_t ivec_reach(uint32x4_t m, uint32x4_t least)
{
	static const uint32_t bit[4] = {1, 2, 4, 8};

	return vaddvq_u32(vandq_u32(vcgeq_u32(m, least), vld1q_u32(bit)));
}

static inline vec vec_of_bf16(const uint8_t *in)
{
	return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(in)), 16));
}

#endif
