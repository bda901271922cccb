/* Philox4x32-10 with NEON, 16 blocks at a time. body_random.h, included at the end, makes the codecs' loops of it. */
#include "kernels/cpu/codec_neon.h"

enum { SETS = 4, WORDS = SETS * 16 };

/* The low words and the high words of four products. */
static inline uint32x4x2_t wide_products(uint32x4_t a, uint32_t by)
{
	uint32x4_t low = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a), by));
	uint32x4_t high = vreinterpretq_u32_u64(vmull_high_n_u32(a, by));

	return vuzpq_u32(low, high);
}

/* 16 Philox blocks from `quad` on, as 64 words in order: four blocks to a set of registers. */
static inline void philox(const struct sl_rng_key *key, uint32_t quad, uint32_t *out)
{
	static const uint32_t order[4] = {0, 1, 2, 3};
	uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
	uint32x4x4_t c[SETS];

	for (int s = 0; s < SETS; s++) {
		c[s].val[0] = vaddq_u32(vdupq_n_u32(quad + 4 * (uint32_t)s), vld1q_u32(order));
		c[s].val[1] = vdupq_n_u32((uint32_t)key->chunk << 16 | key->tensor);
		c[s].val[2] = vdupq_n_u32((uint32_t)key->step);
		c[s].val[3] = vdupq_n_u32((uint32_t)(key->step >> 32));
	}
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		for (int s = 0; s < SETS; s++) {
			uint32x4x2_t p0 = wide_products(c[s].val[0], 0xD2511F53u);
			uint32x4x2_t p1 = wide_products(c[s].val[2], 0xCD9E8D57u);

			c[s].val[0] = veorq_u32(veorq_u32(p1.val[1], c[s].val[1]), vdupq_n_u32(k0));
			c[s].val[2] = veorq_u32(veorq_u32(p0.val[1], c[s].val[3]), vdupq_n_u32(k1));
			c[s].val[1] = p1.val[0];
			c[s].val[3] = p0.val[0];
		}
	}
	for (int s = 0; s < SETS; s++)
		vst4q_u32(out + 16 * s, c[s]);
}

#include "kernels/cpu/body_random.h"
