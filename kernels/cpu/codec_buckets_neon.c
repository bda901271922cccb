/* sortquant's codes and bucket statistics. */
#include "kernels/cpu/codec_vec_neon.h"

/* 16 values as bytes, for the table lookup instructions. */
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

INLINE float32x4_t pick(const struct table16 *t, uint32x4_t k, int count)
{
	/* the indices of the four bytes of each value */
	uint8x16_t at = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), k, 0x04040404));

	if (count <= 4)
		return vreinterpretq_f32_u8(vqtbl1q_u8(t->bytes.val[0], at));
	if (count <= 8)
		return vreinterpretq_f32_u8(vqtbl2q_u8((uint8x16x2_t){{t->bytes.val[0], t->bytes.val[1]}}, at));
	return vreinterpretq_f32_u8(vqtbl4q_u8(t->bytes, at));
}

#define vec_max(a, b)             vmaxq_f32(a, b)
#define vec_min(a, b)             vbslq_f32(vcltq_f32(a, b), a, b)
#define vec_most(v)               vmaxvq_f32(v)
#define vec_of_ivec(v)            vcvtq_f32_u32(v)
#define vec_lt(a, b)              vcltq_f32(a, b)
#define vec_le(a, b)              vcleq_f32(a, b)
#define vec_ge(a, b)              vcgeq_f32(a, b)
#define vec_choose(mask, yes, no) vbslq_f32(mask, yes, no)
#define ivec_sum(v)               vaddvq_u32(v)
#define ivec_add(a, b)            vaddq_u32(a, b)
#define ivec_sub(a, b)            vsubq_u32(a, b)
#define ivec_and(a, b)            vandq_u32(a, b)
#define ivec_or(a, b)             vorrq_u32(a, b)
#define ivec_min(a, b)            vminq_u32(a, b)
#define ivec_up(v, bits)          vshlq_u32(v, vdupq_n_s32(bits))
#define ivec_down(v, bits)        vshlq_u32(v, vdupq_n_s32(-(bits)))
#define ivec_round(v)             vreinterpretq_u32_s32(vcvtnq_s32_f32(v))
#define ivec_trunc(v)             vreinterpretq_u32_s32(vcvtq_s32_f32(v))
#define ivec_lt(a, b)             vcltq_u32(a, b)
#define ivec_load(p)              vld1q_u32(p)
#define ivec_of_codes(p)          vmovl_u16(vld1_u16(p))
#define ivec_to_codes(p, v)       vst1_u16(p, vmovn_u32(v))

#define sl_neon_minmax sl_c_minmax /* the compiler vectorises the portable one as well */
#include "kernels/cpu/body_bisect.h"
