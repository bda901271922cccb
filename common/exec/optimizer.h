/* The optimizers, as torch.optim.SGD, Adam and AdamW define them, without dampening, amsgrad and maximize. Of one
 * element: weight w, its gradient g, moments m and v that begin at 0; t counts the steps that are applied, from 1 on.
 *
 *   SGD    g += λ·w;  m = μ·m + g;  w -= lr·(nesterov ? g + μ·m : m)
 *   ADAM   g += λ·w;  m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;
 *          w -= lr/(1−β1^t) · m / (√v/√(1−β2^t) + ε)      Kingma and Ba, Adam, 2015, algorithm 1
 *   ADAMW  w *= 1 − lr·λ, and g is as it comes; then as ADAM   Loshchilov and Hutter, Decoupled weight decay, 2019
 *
 * What depends on t and lr alone is computed once a step, in double, with the same bits on every machine, and handed to
 * a backend as struct sl_update. Plain data, no thread. */
#ifndef SL_EXEC_OPTIMIZER_H
#define SL_EXEC_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_optimizer_kind { SL_OPTIMIZER_SGD, SL_OPTIMIZER_ADAM, SL_OPTIMIZER_ADAMW, SL_OPTIMIZER_COUNT };

/* AREAS: with a sum of gradients and an average of weights behind them (plan.h). */
enum { SL_MOMENTS_MOST = 2, SL_AREAS_MOST = 4 };

#define SL_BETA_MOST 0.999999
#define SL_EPS_LEAST 1e-16

/* What both sides agree on; the learning rate comes with each step. What a kind has not is 0. Zeroed: plain SGD. */
struct sl_optimizer {
	enum sl_optimizer_kind kind;
	double weight_decay;      /* λ, 0 to 1 */
	double momentum;          /* SGD: μ, 0 to 1 */
	bool nesterov;            /* SGD */
	double beta1, beta2, eps; /* ADAM, ADAMW: 0 to SL_BETA_MOST, SL_EPS_LEAST to 1 */
};

/* A group of parameters, beside group 0, which is all of the optimizer's. */
struct sl_group_rule {
	double lr;           /* factor of the learning rate, 0 to 1000 */
	double weight_decay; /* in place of the optimizer's, 0 to 1 */
};

int sl_optimizer_moments(enum sl_optimizer_kind kind); /* areas as large as the trainable weights: 1 or 2 */
/* LIMIT, CONFIG with a sentence: a value out of its bounds, one that the kind has not. */
enum sl_err sl_optimizer_check(const struct sl_optimizer *o, struct sl_fail *fail) SL_MUST_CHECK;

/* One step, for a backend; single floats, as torch has them for weights of single precision. */
struct sl_update {
	enum sl_optimizer_kind kind;
	float weight_decay; /* g += it·w; 0 for ADAMW */
	/* SGD */
	float lr, momentum;
	bool nesterov;
	/* ADAM, ADAMW: w *= keep (1 for ADAM); m = beta1·m + gain1·g; v = beta2·v + gain2·g²;
	 * w -= rate·m / (√v·root + eps) */
	float keep, beta1, gain1, beta2, gain2, rate, root, eps;
};

/* Of the t-th step that is applied, t ≥ 1. */
struct sl_update sl_optimizer_step(const struct sl_optimizer *o, double lr, uint64_t t);

/* A number of steps as two floats of a checkpoint, and back; false, *steps untouched: no such number. */
#define SL_STEPS_MOST (UINT64_C(1) << 48)
void sl_steps_write(uint64_t steps, float out[2]);
bool sl_steps_read(uint64_t *steps, const float in[2]);

#endif
