/* Learning rate as a pure function of the step: nothing to checkpoint but the step's number.
 *
 * With T = total_steps, W = warmup_steps, and step counted from 0:
 *   step < W     lr · (step + 1) / W                               linear warm-up, so that no step is taken at 0
 *                lr · step / W                                     from_zero: the first step changes nothing, as in
 *                                                                  get_linear_schedule_with_warmup of transformers
 * and then, with p = min(1, (step - W) / (T - W)), 0 ≤ p ≤ 1:
 *   CONSTANT     lr
 *   COSINE       end_lr + (lr - end_lr) · (1 + cos(π·p)) / 2       Loshchilov and Hutter, SGDR, eq. 5 with one period
 *   POLYNOMIAL   end_lr + (lr - end_lr) · (1 - p)^power            as fairseq's polynomial_decay
 *   EXPONENTIAL  lr · (end_lr / lr)^p                              end_lr may be above lr: a test of learning rates
 *   STEP         lr · gamma^n, n drops up to here: after every so many epochs, as torch's StepLR, or at the points'
 *                epochs, as its MultiStepLR. Both count from step 0, warm-up included.
 *   POINTS       linear in epoch = step / steps_per_epoch between the two points around it, as numpy's interp. Before
 *                the first and after the last point it has their lr. It has no warm-up.
 * by_epoch: all steps of an epoch have the lr that the formulas give with epochs in the place of steps. Epochs count
 * from 0. torch's schedulers do so when step() is called after each epoch.
 * accumulate: all batches of a step of the optimizer have the lr that the formulas give with those steps in the place
 * of batches, as torch's schedulers do when step() follows optimizer.step(). So the first step after the warm-up runs
 * at lr, and a step at or past T at end_lr. STEP and POINTS do not depend on T: a longer run takes the same steps. */
#ifndef SL_CLIENT_TRAIN_SCHEDULE_H
#define SL_CLIENT_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/conf/conf.h"

enum { SL_SCHEDULE_MAX_POINTS = 32 };

struct sl_schedule_point {
	double epoch, lr; /* lr: for POINTS */
};

struct sl_schedule {
	enum sl_conf_schedule kind;
	double lr;                                              /* the peak; unused by POINTS */
	double end_lr;                                          /* of COSINE, POLYNOMIAL, EXPONENTIAL; else 0 */
	double power;                                           /* of POLYNOMIAL; 1: linear */
	double gamma;                                           /* of STEP */
	double every_epochs;                                    /* of STEP; 0: at the points' epochs instead */
	struct sl_schedule_point point[SL_SCHEDULE_MAX_POINTS]; /* of STEP and POINTS, in order of their epochs */
	int n_point;
	bool from_zero; /* the warm-up */
	bool by_epoch;
	int64_t accumulate; /* batches in a step of the optimizer; 0 counts as 1 */
	/* set by sl_schedule_set_epochs */
	int64_t warmup_steps;
	int64_t total_steps; /* warm-up included */
	int64_t steps_per_epoch;
};

/* Sets the step counts from epochs (fractions allowed, rounded to the nearest step). CONFIG if steps_per_epoch is below
 * 1, or 0 ≤ warm-up < epochs does not hold. The checks of the config have refused all other wrong values. */
enum sl_err sl_schedule_set_epochs(struct sl_schedule *s, double epochs, double warmup_epochs, int64_t steps_per_epoch,
				   struct sl_fail *fail) SL_MUST_CHECK;

double sl_schedule_lr(const struct sl_schedule *s, int64_t step);

#endif
