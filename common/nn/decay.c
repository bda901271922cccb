#include "common/nn/decay.h"

int sl_decay_widths(const struct sl_decay *d, int width[SL_DECAY_MAX_TIMES + 1])
{
	width[0] = d->full;
	for (int i = 0; i < d->times; i++) {
		width[i + 1] = (int)(width[i] * d->rate);
		if (width[i + 1] < 1)
			width[i + 1] = 1;
	}
	return d->times + 1;
}

int sl_decay_falls(const struct sl_decay *d, uint64_t done)
{
	uint64_t last = (uint64_t)d->every * (uint64_t)d->times;

	if (!d->full || done >= last)
		return d->times;
	done += (uint64_t)d->from;
	return done >= last ? d->times : (int)(done / (uint64_t)d->every);
}

int sl_decay_width(const struct sl_decay *d, uint64_t done)
{
	int width[SL_DECAY_MAX_TIMES + 1];

	sl_decay_widths(d, width);
	return width[sl_decay_falls(d, done)];
}
