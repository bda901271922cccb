#include "common/exec/loss_scale.h"

#include <math.h>

struct sl_loss_scale sl_loss_scale_applied(struct sl_loss_scale s)
{
	if (++s.good < SL_LOSS_SCALE_STEPS)
		return s;
	return (struct sl_loss_scale){fminf(s.scale * 2, SL_LOSS_SCALE_MOST), 0};
}

struct sl_loss_scale sl_loss_scale_skipped(struct sl_loss_scale s)
{
	return (struct sl_loss_scale){fmaxf(s.scale / 2, SL_LOSS_SCALE_LEAST), 0};
}

bool sl_loss_scale_valid(struct sl_loss_scale s)
{
	int exponent;

	return s.scale >= SL_LOSS_SCALE_LEAST && s.scale <= SL_LOSS_SCALE_MOST && frexpf(s.scale, &exponent) == 0.5f &&
	       s.good < SL_LOSS_SCALE_STEPS;
}

void sl_loss_scale_write(struct sl_loss_scale s, float out[2])
{
	out[0] = s.scale;
	out[1] = (float)s.good;
}

bool sl_loss_scale_read(struct sl_loss_scale *s, const float in[2])
{
	struct sl_loss_scale read = {in[0], 0};

	if (!(in[1] >= 0 && in[1] < SL_LOSS_SCALE_STEPS) || in[1] != truncf(in[1]))
		return false;
	read.good = (uint32_t)in[1];
	if (!sl_loss_scale_valid(read))
		return false;
	*s = read;
	return true;
}
