#include "common/session/turns.h"

#include "common/base/rng.h"

enum { ROUNDS = 6, WORD_BITS = 32 };

bool sl_turns_fit(const struct sl_turns *t)
{
	uint64_t sum = 0, most = 0;

	for (int k = 0; k < t->members; k++) {
		sum += t->count[k];
		most = t->count[k] > most ? t->count[k] : most;
	}
	switch (t->mode) {
	case SL_SHARE_SERIAL:
		return sum == t->epoch_steps;
	case SL_SHARE_ROUNDS:
		return most <= t->epoch_steps;
	default:
		return true;
	}
}

/* A permutation of [0, 2^(2·half)): a Feistel network whose rounds are Philox. */
static uint64_t scramble(const struct sl_rng_key *key, uint64_t x, int half)
{
	const uint64_t mask = (1ull << half) - 1;
	uint64_t left = x >> half, right = x & mask;

	for (int round = 0; round < ROUNDS; round++) {
		struct sl_rng_key k = *key;
		uint32_t w[4];
		uint64_t next;

		k.chunk = (uint16_t)round;
		sl_rng_quad(&k, (uint32_t)right, w);
		next = left ^ (w[0] & mask);
		left = right;
		right = next;
	}
	return left << half | right;
}

/* A permutation of [0, epoch_steps): values outside are scrambled again (cycle walking). It needs no memory, however
 * long an epoch is. */
static uint64_t shuffled(const struct sl_turns *t, uint64_t epoch, uint64_t at)
{
	const struct sl_rng_key key = {.seed = t->seed, .step = epoch, .tensor = SL_RNG_TURNS};
	int half = 1;

	while (half < WORD_BITS && (uint64_t)1 << (2 * half) < t->epoch_steps)
		half++;
	do
		at = scramble(&key, at, half);
	while (at >= t->epoch_steps);
	return at;
}

int sl_turns_whose(const struct sl_turns *t, uint64_t step)
{
	uint64_t at = shuffled(t, step / t->epoch_steps, step % t->epoch_steps);
	int k = 0;

	while (k < t->members - 1 && at >= t->count[k])
		at -= t->count[k++];
	return k;
}

bool sl_turns_own(const struct sl_turns *t, int member, uint64_t step)
{
	switch (t->mode) {
	case SL_SHARE_SERIAL:
		return sl_turns_whose(t, step) == member;
	case SL_SHARE_ROUNDS:
		return step % t->epoch_steps < t->count[member];
	default:
		return true;
	}
}

uint64_t sl_turns_before(const struct sl_turns *t, int member, uint64_t step)
{
	const bool all = t->mode == SL_SHARE_SYNC || t->mode == SL_SHARE_VERTICAL; /* each step is every member's */
	const uint64_t epoch = all ? 0 : step / t->epoch_steps;
	const uint64_t in_epoch = step - epoch * t->epoch_steps;
	uint64_t n = epoch * t->count[member];

	if (all)
		return step;
	if (t->mode == SL_SHARE_ROUNDS)
		return n + (in_epoch < t->count[member] ? in_epoch : t->count[member]);
	for (uint64_t s = epoch * t->epoch_steps; s < step; s++)
		n += sl_turns_own(t, member, s);
	return n;
}
