/* The portable loops: statistics and randomness. A file that is compiled for a wider SIMD level includes these
 * bodies too, so that the compiler vectorises them. It defines NAME(x), the names of the functions, and BODY, which
 * stands in front of each. */
#include "common/codec/loops_c.h"

enum { LANES = 16 };

BODY void NAME(minmax)(const float *x, int64_t n, struct sl_range *io)
{
	float lo[LANES], hi[LANES];
	uint32_t top[LANES];
	int64_t i = 0;

	for (int j = 0; j < LANES; j++) {
		lo[j] = io->min;
		hi[j] = io->max;
		top[j] = io->top;
	}
	for (; i + LANES <= n; i += LANES) {
		for (int j = 0; j < LANES; j++) {
			float v = x[i + j];
			uint32_t m = sl_magnitude(v);

			lo[j] = v < lo[j] ? v : lo[j];
			hi[j] = v > hi[j] ? v : hi[j];
			top[j] = m > top[j] ? m : top[j];
		}
	}
	for (int j = 0; i < n; i++, j++) {
		float v = x[i];
		uint32_t m = sl_magnitude(v);

		lo[j] = v < lo[j] ? v : lo[j];
		hi[j] = v > hi[j] ? v : hi[j];
		top[j] = m > top[j] ? m : top[j];
	}
	for (int j = 0; j < LANES; j++) {
		io->min = lo[j] < io->min ? lo[j] : io->min;
		io->max = hi[j] > io->max ? hi[j] : io->max;
		io->top = top[j] > io->top ? top[j] : io->top;
	}
	/* -0 and +0 compare equal: the sum makes both +0, so that their order does not matter */
	io->min += 0.0f;
	io->max += 0.0f;
}

BODY uint32_t NAME(minmax_cols)(const float *x, int64_t rows, int64_t c, float *lo, float *hi)
{
	uint32_t top = 0;

	for (int64_t r = 0; r < rows; r++) {
		for (int64_t j = 0; j < c; j++) {
			float v = x[r * c + j];
			uint32_t m = sl_magnitude(v);

			lo[j] = v < lo[j] ? v : lo[j];
			hi[j] = v > hi[j] ? v : hi[j];
			top = m > top ? m : top;
		}
	}
	for (int64_t j = 0; j < c; j++) {
		lo[j] += 0.0f;
		hi[j] += 0.0f;
	}
	return top;
}

BODY double NAME(sum_squares)(const float *x, int64_t n, uint32_t *top)
{
	double sum[LANES] = {0};
	uint32_t most = *top;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		for (int j = 0; j < LANES; j++) {
			double v = x[i + j];
			uint32_t m = sl_magnitude(x[i + j]);

			sum[j] += v * v;
			most = m > most ? m : most;
		}
	}
	for (int j = 0; i < n; i++, j++) {
		double v = x[i];
		uint32_t m = sl_magnitude(x[i]);

		sum[j] += v * v;
		most = m > most ? m : most;
	}
	*top = most;
	for (int width = LANES / 2; width > 0; width /= 2) {
		for (int j = 0; j < width; j++)
			sum[j] += sum[j + width];
	}
	return sum[0];
}

BODY void NAME(random32)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	for (int64_t i = 0; i < n; i += 4) {
		uint32_t word[4];

		sl_rng_quad(key, (uint32_t)((first + (uint64_t)i) / 4), word);
		for (int j = 0; j < 4 && i + j < n; j++)
			out[i + j] = word[j];
	}
}

BODY void NAME(random_halves)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	for (int64_t i = 0; i < n; i += 8) {
		uint32_t word[4];

		sl_rng_quad(key, (uint32_t)((first + (uint64_t)i) / 8), word);
		for (int j = 0; j < 8 && i + j < n; j++)
			out[i + j] = word[j / 2] << 16 * (1 - j % 2) | word[j / 2] >> 16 * (1 - j % 2);
	}
}
