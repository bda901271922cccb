/* Learning rate as a pure function of the step: nothing to checkpoint but the step's number.
 *
 * With T = total_steps, W = warmup_steps, and step counted from 0:
 *   step < W     lr · (step + 1) / W                               linear warm-up, so that no step is taken at 0
 * and then, with p = min(1, (step - W) / (T - W)), 0 ≤ p ≤ 1:
 *   CONSTANT     lr
 *   COSINE       end_lr + (lr - end_lr) · (1 + cos(π·p)) / 2       Loshchilov and Hutter, SGDR, eq. 5 with one period
 *   POLYNOMIAL   end_lr + (lr - end_lr) · (1 - p)^power            as fairseq's polynomial_decay
 * So the first step after the warm-up runs at lr, and a step at or past T at end_lr. */
#ifndef SL_NN_SCHEDULE_H
#define SL_NN_SCHEDULE_H

#include <stdint.h>

#include "common/base/err.h"

enum sl_schedule_kind { SL_SCHEDULE_CONSTANT, SL_SCHEDULE_COSINE, SL_SCHEDULE_POLYNOMIAL, SL_SCHEDULE_COUNT };

struct sl_schedule {
	enum sl_schedule_kind kind;
	double lr;     /* the peak */
	double end_lr; /* 0 unless said otherwise; unused by CONSTANT */
	double power;  /* of POLYNOMIAL; 1: linear */
	int64_t warmup_steps;
	int64_t total_steps; /* warm-up included */
};

/* Sets the two step counts from epochs (fractions allowed, rounded to the nearest step). CONFIG where a value lies
 * outside what the formulas allow: lr > 0, 0 ≤ end_lr ≤ lr, power > 0, 0 ≤ warm-up < epochs, steps_per_epoch ≥ 1. */
enum sl_err sl_schedule_set_epochs(struct sl_schedule *s, double epochs, double warmup_epochs, int64_t steps_per_epoch,
				   struct sl_fail *fail) SL_MUST_CHECK;

double sl_schedule_lr(const struct sl_schedule *s, int64_t step);

#endif
