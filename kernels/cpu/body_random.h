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

void NAME(random_halves)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	uint32_t word[WORDS];
	int64_t i = 0;

	for (; i + 2 * WORDS <= n; i += 2 * WORDS) {
		philox(key, (uint32_t)((first + (uint64_t)i) / 8), word);
		for (int j = 0; j < WORDS; j++) {
			out[i + 2 * j] = word[j] << 16 | word[j] >> 16;
			out[i + 2 * j + 1] = word[j];
		}
	}
	sl_c_random_halves(key, first + (uint64_t)i, n - i, out + i);
}
