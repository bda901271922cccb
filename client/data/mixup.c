#include "client/data/mixup.h"

#include <math.h>
#include <stddef.h>

#include "common/base/rng.h"

enum { ATTEMPTS = 16, WORDS = 4 * (2 * ATTEMPTS + 1) };

/* Draws from Gamma(shape), shape ≥ 1, by rejection (Marsaglia and Tsang, 2000). An attempt has four words: two make
 * a normal number, one decides. At most 5 % of attempts fail, so the last line is practically never reached. */
static double gamma_of(double shape, const uint32_t *word)
{
	const double d = shape - 1.0 / 3.0, c = 1 / sqrt(9 * d);

	for (int i = 0; i < ATTEMPTS; i++, word += 4) {
		const double radius = sqrt(-2 * log(1 - (double)sl_rng_unit(word[0])));
		const double x = radius * cos(2 * M_PI * (double)sl_rng_unit(word[1])), v = pow(1 + c * x, 3);

		if (v > 0 && log(1 - (double)sl_rng_unit(word[2])) < x * x / 2 + d - d * v + d * log(v))
			return d * v;
	}
	return d;
}

/* lambda = A / (A + B), where A and B are Gamma(alpha) variables. Logarithms do not underflow for a small alpha:
 * log Gamma(alpha) = log Gamma(alpha + 1) + log(U) / alpha. */
double sl_mixup_draw(double alpha, uint64_t seed, uint64_t epoch, int64_t sample)
{
	const struct sl_rng_key key = {.seed = seed, .step = epoch, .tensor = SL_RNG_MIXUP};
	uint32_t word[WORDS];
	double a, b;

	for (uint32_t i = 0; i < WORDS / 4; i++)
		sl_rng_quad(&key, (uint32_t)sample * (WORDS / 4) + i, word + 4 * (size_t)i);
	a = log(gamma_of(alpha + 1, word)) + log(1 - (double)sl_rng_unit(word[WORDS - 4])) / alpha;
	b = log(gamma_of(alpha + 1, word + 4 * ATTEMPTS)) + log(1 - (double)sl_rng_unit(word[WORDS - 3])) / alpha;
	return 1 / (1 + exp(b - a));
}

void sl_mixup_pair(float *x, double of_x, float *y, double of_y, int64_t count)
{
	const float keep_x = (float)of_x, give_x = (float)(1 - of_x), keep_y = (float)of_y, give_y = (float)(1 - of_y);

	for (int64_t i = 0; i < count; i++) {
		const float a = x[i], b = y[i];

		x[i] = keep_x * a + give_x * b;
		y[i] = keep_y * b + give_y * a;
	}
}

void sl_mixup_target(double lambda, int32_t *label, int32_t *other, float *share)
{
	const int32_t own = *label;

	if (lambda < 0.5) {
		*label = *other;
		*other = own;
		lambda = 1 - lambda;
	}
	*share = (float)lambda;
}
