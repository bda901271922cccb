/* The optimizers, as torch.optim.SGD, Adam and AdamW define them, without dampening, amsgrad and maximize. For one
 * element: weight w, its gradient g, moments m and v that begin at 0; t counts the applied steps from 1 on.
 *
 *   SGD    g += λ·w;  m = μ·m + g;  w -= lr·(nesterov ? g + μ·m : m)
 *   ADAM   g += λ·w;  m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;
 *          w -= lr/(1−β1^t) · m / (√v/√(1−β2^t) + ε)      Kingma and Ba, Adam, 2015, algorithm 1
 *   ADAMW  w *= 1 − lr·λ, g unchanged; then as ADAM   Loshchilov and Hutter, Decoupled weight decay, 2019
 *
 * Numbers that depend only on t and lr are computed once a step, in double, with the same bits on every machine. A
 * backend gets them as struct sl_update. Plain data; any thread. */
#ifndef SL_EXEC_OPTIMIZER_H
#define SL_EXEC_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_optimizer_kind { SL_OPTIMIZER_SGD, SL_OPTIMIZER_ADAM, SL_OPTIMIZER_ADAMW, SL_OPTIMIZER_COUNT };

/* AREAS: the moments, and behind them a sum of gradients and an average of weights (plan.h: accumulate, ema). */
enum { SL_MOMENTS_MOST = 2, SL_AREAS_MOST = 4 };

#define SL_BETA_MOST 0.999999
#define SL_EPS_LEAST 1e-16

/* The settings on which both sides agree; the learning rate comes with each step. Fields that a kind does not use are
 * 0. A zeroed struct is plain SGD. */
struct sl_optimizer {
	enum sl_optimizer_kind kind;
	double weight_decay;      /* λ, 0 to 1 */
	double momentum;          /* SGD: μ, 0 to 1 */
	bool nesterov;            /* SGD */
	double beta1, beta2, eps; /* ADAM, ADAMW: 0 to SL_BETA_MOST, SL_EPS_LEAST to 1 */
};

/* The settings of a parameter group other than group 0, which uses the optimizer's. */
struct sl_group_rule {
	double lr;           /* factor of the learning rate, 0 to 1000 */
	double weight_decay; /* in place of the optimizer's, 0 to 1 */
};

int sl_optimizer_moments(enum sl_optimizer_kind kind); /* number of moments, each as large as the trainable weights */
/* LIMIT: a value is out of its bounds; CONFIG: a value that the kind does not use is not 0. With a sentence. */
enum sl_err sl_optimizer_check(const struct sl_optimizer *o, struct sl_fail *fail) SL_MUST_CHECK;

/* The numbers of one step, for a backend. They are floats, as torch uses for fp32 weights. */
struct sl_update {
	enum sl_optimizer_kind kind;
	float weight_decay; /* g += weight_decay·w; 0 for ADAMW */
	/* SGD */
	float lr, momentum;
	bool nesterov;
	/* ADAM, ADAMW: w *= keep (1 for ADAM); m = beta1·m + gain1·g; v = beta2·v + gain2·g²;
	 * w -= rate·m / (√v·root + eps) */
	float keep, beta1, gain1, beta2, gain2, rate, root, eps;
};

/* The update of the t-th applied step, t ≥ 1. */
struct sl_update sl_optimizer_step(const struct sl_optimizer *o, double lr, uint64_t t);

/* Converts a number of steps to two floats for a checkpoint, and back. Reading returns false, and leaves *steps, if
 * they are no such number. */
#define SL_STEPS_MOST (UINT64_C(1) << 48)
void sl_steps_write(uint64_t steps, float out[2]);
bool sl_steps_read(uint64_t *steps, const float in[2]);

#endif
