#include "common/exec/optimizer.h"

#include <math.h>

static const char *const names[SL_OPTIMIZER_COUNT] = {"sgd", "adam", "adamw"};

int sl_optimizer_moments(enum sl_optimizer_kind kind)
{
	return kind == SL_OPTIMIZER_SGD ? 1 : 2;
}

static bool between(double x, double low, double high)
{
	return x >= low && x <= high; /* false for NaN */
}

enum sl_err sl_optimizer_check(const struct sl_optimizer *o, struct sl_fail *fail)
{
	if ((unsigned)o->kind >= SL_OPTIMIZER_COUNT)
		return sl_fail_set(fail, SL_ERR_CONFIG, "no optimizer has the number %d", (int)o->kind);
	if (!between(o->momentum, 0, 1) || !between(o->weight_decay, 0, 1))
		return sl_fail_set(fail, SL_ERR_LIMIT, "momentum %g and weight decay %g must lie in 0 to 1",
				   o->momentum, o->weight_decay);
	if (o->kind == SL_OPTIMIZER_SGD)
		return o->beta1 == 0 && o->beta2 == 0 && o->eps == 0
			       ? SL_OK
			       : sl_fail_set(fail, SL_ERR_CONFIG, "sgd has no beta1 (%g), beta2 (%g), eps (%g)",
					     o->beta1, o->beta2, o->eps);
	if (o->momentum != 0 || o->nesterov)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s has no momentum (%g), no nesterov", names[o->kind],
				   o->momentum);
	if (!between(o->beta1, 0, SL_BETA_MOST) || !between(o->beta2, 0, SL_BETA_MOST) ||
	    !between(o->eps, SL_EPS_LEAST, 1))
		return sl_fail_set(fail, SL_ERR_LIMIT, "beta1 %g and beta2 %g must lie in 0 to %g, eps %g in %g to 1",
				   o->beta1, o->beta2, SL_BETA_MOST, o->eps, SL_EPS_LEAST);
	return SL_OK;
}

/* x^n by multiplications only, because libm's pow may round differently from version to version. */
static double power(double x, uint64_t n)
{
	double y = 1;

	for (; n > 0; n >>= 1, x *= x)
		if (n & 1)
			y *= x;
	return y;
}

struct sl_update sl_optimizer_step(const struct sl_optimizer *o, double lr, uint64_t t)
{
	struct sl_update u = {.kind = o->kind, .weight_decay = (float)o->weight_decay, .lr = (float)lr};

	if (o->kind == SL_OPTIMIZER_SGD) {
		u.momentum = (float)o->momentum;
		u.nesterov = o->nesterov;
		return u;
	}
	u.keep = 1;
	if (o->kind == SL_OPTIMIZER_ADAMW) {
		u.weight_decay = 0;
		u.keep = (float)(1 - lr * o->weight_decay);
	}
	u.beta1 = (float)o->beta1;
	u.gain1 = (float)(1 - o->beta1);
	u.beta2 = (float)o->beta2;
	u.gain2 = (float)(1 - o->beta2);
	u.rate = (float)(lr / (1 - power(o->beta1, t)));
	u.root = (float)(1 / sqrt(1 - power(o->beta2, t)));
	u.eps = (float)o->eps;
	return u;
}

static const float low_most = 0x1p24f; /* below it every integer is exact as a float */

void sl_steps_write(uint64_t steps, float out[2])
{
	out[0] = (float)(steps & 0xffffff);
	out[1] = (float)(steps >> 24);
}

bool sl_steps_read(uint64_t *steps, const float in[2])
{
	for (int i = 0; i < 2; i++)
		if (!(in[i] >= 0 && in[i] < low_most) || in[i] != truncf(in[i]))
			return false;
	*steps = (uint64_t)in[1] << 24 | (uint64_t)in[0];
	return true;
}
