#include "common/telemetry/rate.h"

#include <math.h>
#include <stdbool.h>

static const struct sl_rate_sample *at(const struct sl_rate *r, int i)
{
	return &r->sample[(r->first + i) % SL_RATE_SAMPLES];
}

static bool fell(const struct sl_rate_sample *before, const struct sl_rate_sample *now)
{
	for (int i = 0; i < SL_RATE_COUNTERS; i++)
		if (now->count[i] < before->count[i])
			return true;
	return false;
}

void sl_rate_keep(struct sl_rate *r, const struct sl_rate_sample *now)
{
	if (r->n && fell(at(r, r->n - 1), now))
		r->n = 0;
	if (r->n && now->ms - at(r, r->n - 1)->ms < SL_RATE_APART_MS)
		return;
	if (r->n == SL_RATE_SAMPLES) {
		r->first = (r->first + 1) % SL_RATE_SAMPLES;
		r->n--;
	}
	r->sample[(r->first + r->n++) % SL_RATE_SAMPLES] = *now;
}

double sl_rate_grown(const struct sl_rate *r, const struct sl_rate_sample *now, double grown[SL_RATE_COUNTERS])
{
	const struct sl_rate_sample *then;
	int i = r->n - 1;

	while (i > 0 && now->ms - at(r, i)->ms < SL_RATE_WINDOW_MS)
		i--;
	then = i < 0 ? now : at(r, i);
	if (now->ms == then->ms || fell(then, now))
		return 0;
	for (int c = 0; c < SL_RATE_COUNTERS; c++)
		grown[c] = (double)(now->count[c] - then->count[c]);
	return (double)(now->ms - then->ms) / 1000;
}

double sl_rate_per_s(const struct sl_rate *r, const struct sl_rate_sample *now, int counter)
{
	double grown[SL_RATE_COUNTERS], seconds = sl_rate_grown(r, now, grown);

	return seconds > 0 ? grown[counter] / seconds : NAN;
}
