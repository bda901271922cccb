#include "common/nn/schedule.h"

#include <math.h>

static const double max_steps = 1e15; /* exact in a double */

/* The comparisons are written so that NaN fails them. */
enum sl_err sl_schedule_set_epochs(struct sl_schedule *s, double epochs, double warmup_epochs, int64_t steps_per_epoch,
				   struct sl_fail *fail)
{
	if (!(s->lr > 0 && isfinite(s->lr)))
		return sl_fail_set(fail, SL_ERR_CONFIG, "lr is %g; it must be above 0", s->lr);
	if (!(s->end_lr >= 0 && s->end_lr <= s->lr))
		return sl_fail_set(fail, SL_ERR_CONFIG, "end_lr is %g; it must lie in 0 … lr (%g)", s->end_lr, s->lr);
	if (s->kind == SL_SCHEDULE_POLYNOMIAL && !(s->power > 0 && isfinite(s->power)))
		return sl_fail_set(fail, SL_ERR_CONFIG, "power is %g; it must be above 0", s->power);
	if (steps_per_epoch < 1 || !(epochs > 0 && epochs * (double)steps_per_epoch <= max_steps))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%g epochs of %lld steps: both must be above 0", epochs,
				   (long long)steps_per_epoch);
	if (!(warmup_epochs >= 0 && warmup_epochs < epochs))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "a warm-up of %g epochs must be shorter than the run, of %g epochs", warmup_epochs,
				   epochs);
	s->total_steps = llround(epochs * (double)steps_per_epoch);
	s->warmup_steps = llround(warmup_epochs * (double)steps_per_epoch);
	return SL_OK;
}

double sl_schedule_lr(const struct sl_schedule *s, int64_t step)
{
	const double fall = s->lr - s->end_lr;
	double p = 1.0;

	if (step < s->warmup_steps)
		return s->lr * (double)(step + 1) / (double)s->warmup_steps;
	if (step < s->total_steps)
		p = (double)(step - s->warmup_steps) / (double)(s->total_steps - s->warmup_steps);
	switch (s->kind) {
	case SL_SCHEDULE_COSINE:
		return s->end_lr + fall * (1.0 + cos(M_PI * p)) / 2.0;
	case SL_SCHEDULE_POLYNOMIAL:
		return s->end_lr + fall * pow(1.0 - p, s->power);
	default:
		return s->lr;
	}
}
