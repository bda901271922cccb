/* Packs codes to bits and unpacks them; half floats. */
#include <string.h>

#include "kernels/cpu/codec_vec_neon.h"

enum { AT_ONCE = 8, SLACK = 16 };

/* Packs 8 codes of 1 … 15 bits: joins pairs within 32 bits, pairs of these within 64, and these two to one
 * number of `bits` bytes. Writes 16 bytes, of which `bits` count. */
static inline void pack8(const uint16_t *code, int bits, uint8_t *out)
{
	uint32x4_t v = vreinterpretq_u32_u16(vld1q_u16(code));
	uint64x2_t w, up;
	uint64_t low, high, both[2];

	v = vorrq_u32(vandq_u32(v, vdupq_n_u32(0xffff)), vshlq_u32(vshrq_n_u32(v, 16), vdupq_n_s32(bits)));
	w = vreinterpretq_u64_u32(v);
	up = vshlq_u64(vshrq_n_u64(w, 32), vdupq_n_s64(2 * bits));
	w = vorrq_u64(vandq_u64(w, vdupq_n_u64(UINT32_MAX)), up);
	low = vgetq_lane_u64(w, 0);
	high = vgetq_lane_u64(w, 1);
	both[0] = low | high << 4 * bits;
	both[1] = high >> (64 - 4 * bits);
	memcpy(out, both, sizeof both);
}

void sl_neon_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out)
{
	const uint8_t *end = out + sl_packed_bytes(n, bits);
	int64_t i = 0;

	if (bits != 8 && bits != 16) {
		for (; i + AT_ONCE <= n && out + SLACK <= end; i += AT_ONCE, out += bits)
			pack8(code + i, bits, out);
	}
	sl_c_pack(code + i, n - i, bits, out);
}

/* Location of each of 4 codes in 16 bytes that begin with 8 codes: the bytes that hold it, and minus its bit
 * offset in the first of them. `from` = 4 chooses the second four codes. */
struct unpacker {
	uint8x16_t bytes;
	int32x4_t down;
};

static inline struct unpacker unpacker_of(int bits, int from)
{
	uint8_t byte[16];
	int32_t down[4];

	for (int i = 0; i < 4; i++) {
		int bit = (from + i) * bits;

		down[i] = -(bit % 8);
		for (int j = 0; j < 4; j++)
			byte[4 * i + j] = (uint8_t)(bit / 8 + j < 16 ? bit / 8 + j : 0xff);
	}
	return (struct unpacker){vld1q_u8(byte), vld1q_s32(down)};
}

static inline uint16x4_t unpack4(const struct unpacker *u, uint8x16_t in, uint32x4_t mask)
{
	uint32x4_t word = vreinterpretq_u32_u8(vqtbl1q_u8(in, u->bytes));

	return vmovn_u32(vandq_u32(vshlq_u32(word, u->down), mask));
}

void sl_neon_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code)
{
	const uint8_t *end = in + sl_packed_bytes(n, bits);
	int64_t i = 0;

	if (bits != 8 && bits != 16) {
		const struct unpacker low = unpacker_of(bits, 0), high = unpacker_of(bits, 4);
		const uint32x4_t mask = vdupq_n_u32((1u << bits) - 1);

		for (; i + AT_ONCE <= n && in + SLACK <= end; i += AT_ONCE, in += bits) {
			uint8x16_t v = vld1q_u8(in);

			vst1q_u16(code + i, vcombine_u16(unpack4(&low, v, mask), unpack4(&high, v, mask)));
		}
	}
	sl_c_unpack(in, n - i, bits, code + i);
}

#include "kernels/cpu/body_half.h"
