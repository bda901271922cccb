/* Randomness is a function: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) of
 * (seed, step, chunk, tensor, element). No state: a step can be replayed, and CPU and GPU agree bit for bit.
 *   key     = { low 32 bits of seed, high 32 bits of seed }
 *   counter = { element / 4, chunk << 16 | tensor, low 32 bits of step, high 32 bits of step }
 * and word element % 4 of the output belongs to the element. */
#ifndef SL_BASE_RNG_H
#define SL_BASE_RNG_H

#include <stdint.h>

struct sl_rng_key {
	uint64_t seed;
	uint64_t step;
	uint16_t chunk;
	uint16_t tensor; /* which stream: an op's or a direction's number, or one of sl_rng_stream */
};

/* Streams that do not belong to an op of the model: an op's stream is its number, counted from 0. */
enum sl_rng_stream {
	SL_RNG_INIT = 0xff00,     /* step = index of the parameter in the whole model */
	SL_RNG_SHUFFLE = 0xff01,  /* step = epoch */
	SL_RNG_AUGMENT = 0xff02,  /* step = epoch, element = 8 × sample's index in the file set */
	SL_RNG_MIXUP = 0xff03,    /* step = epoch */
	SL_RNG_MASK = 0xff04,     /* step = epoch << 24 | sample, element = 4 × the token's place in its row */
	SL_RNG_PATCH = 0xff06,    /* step = epoch, element = 64 × the sample's index (client/data/volume_step.h) */
	SL_RNG_GENERATE = 0xff05, /* step = prompt, element = tokens in front of the one that is drawn */
	SL_RNG_CODEC = 0xff10,    /* + direction; + SL_DIR_COUNT for a transform */
	SL_RNG_JITTER = 0xff20,
	SL_RNG_PARTS = 0xff30,  /* which samples each member of a group has */
	SL_RNG_MEMBER = 0xff31, /* element 0: the seed of a member's own data; step = the member */
	SL_RNG_TURNS = 0xff32,  /* step = epoch, chunk = a round of the shuffle: members' turns (session/turns.h) */
	SL_RNG_VALUES = 0xff50, /* of further values of a run: + 8 × (value − 1), then as SL_RNG_CODEC */
	SL_RNG_LEAK = 0xff40,   /* step = a training step of an attack's decoder, element = row of its batch */
	SL_RNG_TEST = 0xfff0
};

static inline void sl_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* The four words of elements 4·quad … 4·quad+3. */
static inline void sl_rng_quad(const struct sl_rng_key *k, uint32_t quad, uint32_t out[4])
{
	const uint32_t counter[4] = {quad, (uint32_t)k->chunk << 16 | k->tensor, (uint32_t)k->step,
				     (uint32_t)(k->step >> 32)};
	const uint32_t key[2] = {(uint32_t)k->seed, (uint32_t)(k->seed >> 32)};

	sl_philox4x32_10(counter, key, out);
}

static inline uint32_t sl_rng_u32(const struct sl_rng_key *k, uint64_t element)
{
	uint32_t w[4];

	sl_rng_quad(k, (uint32_t)(element >> 2), w);
	return w[element & 3];
}

/* Uniform in [0, 1), 24 bits. */
static inline float sl_rng_unit(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

/* Uniform in [0, n) without modulo bias beyond 2^-32 (multiply-shift); n ≥ 1. */
static inline uint32_t sl_rng_below(uint32_t word, uint32_t n)
{
	return (uint32_t)((uint64_t)word * n >> 32);
}

/* Two standard normals from two words (Box–Muller). */
void sl_rng_normal2(uint32_t a, uint32_t b, float out[2]);

#endif
