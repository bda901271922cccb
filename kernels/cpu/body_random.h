/* Random words, WORDS at a time, for a file of one SIMD level. That file defines NAME(x), the names of
 * the functions, and philox(key, quad, out), which writes the Philox blocks from `quad` on as WORDS
 * words in order. */
void NAME(random32)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	int64_t i = 0;

	for (; i + WORDS <= n; i += WORDS)
		philox(key, (uint32_t)((first + (uint64_t)i) / 4), out + i);
	sl_c_random32(key, first + (uint64_t)i, n - i, out + i);
}

void NAME(random16)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out)
{
	int64_t i = 0;

	for (; i + 2 * WORDS <= n; i += 2 * WORDS)
		philox(key, (uint32_t)((first + (uint64_t)i) / 8), (uint32_t *)(void *)(out + i));
	sl_c_random16(key, first + (uint64_t)i, n - i, out + i);
}
