#include "common/graph/decay.h"

static int fall(int full, double rate, int times, int *width)
{
	width[0] = full;
	for (int i = 0; i < times; i++) {
		width[i + 1] = (int)(width[i] * rate);
		if (width[i + 1] < 1)
			width[i + 1] = full ? 1 : 0;
	}
	return times + 1;
}

int sl_decay_widths(const struct sl_decay *d, int width[SL_DECAY_MAX_TIMES + 1])
{
	return fall(d->full, d->rate, d->times, width);
}

int sl_decay_tokens(const struct sl_decay *d, int tokens[SL_DECAY_MAX_TIMES + 1])
{
	return fall(d->tokens, d->rate2, d->times, tokens);
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

int sl_decay_row_tokens(const struct sl_decay *d, uint64_t done)
{
	int tokens[SL_DECAY_MAX_TIMES + 1];

	sl_decay_tokens(d, tokens);
	return tokens[sl_decay_falls(d, done)];
}

bool sl_decay_same(const struct sl_decay *d, uint64_t done, uint64_t other)
{
	return sl_decay_width(d, done) == sl_decay_width(d, other) &&
	       sl_decay_row_tokens(d, done) == sl_decay_row_tokens(d, other);
}
