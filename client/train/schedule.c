#include "client/train/schedule.h"

#include <math.h>

static const double max_steps = 1e15; /* exact in a double */

enum sl_err sl_schedule_set_epochs(struct sl_schedule *s, double epochs, double warmup_epochs, int64_t steps_per_epoch,
				   struct sl_fail *fail)
{
	/* The comparisons are written so that NaN fails them. */
	if (steps_per_epoch < 1 || !(epochs > 0 && epochs * (double)steps_per_epoch <= max_steps))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%g epochs of %lld steps: both must be above 0", epochs,
				   (long long)steps_per_epoch);
	if (!(warmup_epochs >= 0 && warmup_epochs < epochs))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "a warm-up of %g epochs must be shorter than the run, of %g epochs", warmup_epochs,
				   epochs);
	s->total_steps = llround(epochs * (double)steps_per_epoch);
	s->warmup_steps = llround(warmup_epochs * (double)steps_per_epoch);
	s->steps_per_epoch = steps_per_epoch;
	return SL_OK;
}

/* How often the learning rate has dropped before this step. */
static double drops(const struct sl_schedule *s, int64_t step)
{
	const double per_epoch = (double)s->steps_per_epoch;
	int n = 0;

	if (s->every_epochs > 0)
		return floor((double)step / fmax(1, round(s->every_epochs * per_epoch)));
	while (n < s->n_point && (double)step >= round(s->point[n].epoch * per_epoch))
		n++;
	return n;
}

static double between_points(const struct sl_schedule *s, int64_t step)
{
	const double epoch = (double)step / (double)s->steps_per_epoch;
	const struct sl_schedule_point *a, *b;
	int n = 0;

	while (n < s->n_point && s->point[n].epoch <= epoch)
		n++;
	if (n == 0)
		return s->point[0].lr;
	if (n == s->n_point)
		return s->point[n - 1].lr;
	a = &s->point[n - 1];
	b = &s->point[n];
	return a->lr + (b->lr - a->lr) * (epoch - a->epoch) / (b->epoch - a->epoch);
}

double sl_schedule_lr(const struct sl_schedule *s, int64_t step)
{
	const int64_t unit = s->by_epoch ? s->steps_per_epoch : s->accumulate > 1 ? s->accumulate : 1;
	const int64_t at = step / unit;
	const double warmup = (double)s->warmup_steps / (double)unit, total = (double)s->total_steps / (double)unit;
	const double fall = s->lr - s->end_lr;
	double p = 1.0;

	step = at * unit;
	if (s->kind == SL_CONF_POINTS)
		return between_points(s, step);
	if ((double)at < warmup) /* it may be a fraction of a unit */
		return fmin(s->lr * (double)(at + !s->from_zero) / warmup, s->lr);
	if ((double)at < total)
		p = ((double)at - warmup) / (total - warmup);
	switch (s->kind) {
	case SL_CONF_COSINE:
		return s->end_lr + fall * (1.0 + cos(M_PI * p)) / 2.0;
	case SL_CONF_POLYNOMIAL:
		return s->end_lr + fall * pow(1.0 - p, s->power);
	case SL_CONF_EXPONENTIAL:
		return s->lr * pow(s->end_lr / s->lr, p);
	case SL_CONF_STEP:
		return s->lr * pow(s->gamma, drops(s, step));
	default:
		return s->lr;
	}
}
