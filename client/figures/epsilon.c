#include "client/figures/epsilon.h"

#include <math.h>

/* Of order 1 + exp(u), with divergence rate · order. */
static double at_order(double rate, double delta, double u)
{
	const double over = exp(u), order = 1 + over;

	return rate * order + log1p(-1 / order) - (log(delta) + log(order)) / over;
}

/* The conversion has one minimum in u. Without log order it lies at over = sqrt(log(1 / delta) / rate). */
double sl_epsilon(double noise, uint64_t releases, double delta)
{
	const double rate = 2 * (double)releases / (noise * noise);
	double low = -20, high = 40;

	if (!releases)
		return 0;
	for (int i = 0; i < 200; i++) {
		const double third = (high - low) / 3;

		if (at_order(rate, delta, low + third) <= at_order(rate, delta, high - third))
			high -= third;
		else
			low += third;
	}
	return fmax(0, at_order(rate, delta, (low + high) / 2));
}

uint64_t sl_epsilon_releases(double noise, double delta, double budget)
{
	uint64_t most = 0, step = 1;

	while (step < UINT64_C(1) << 40 && sl_epsilon(noise, most + step, delta) <= budget) {
		most += step;
		step *= 2;
	}
	for (; step; step /= 2)
		if (sl_epsilon(noise, most + step, delta) <= budget)
			most += step;
	return most;
}
