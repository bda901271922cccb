#include "tests/support/op_update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/agreed.h"
#include "tests/support/op_run.h"

enum { SEED = 20240229, STEPS = 4, AREAS = 2 + SL_MOMENTS_MOST };

static const struct setting {
	double lr;
	struct sl_optimizer how;
} settings[] = {
	{0.1, {.kind = SL_OPTIMIZER_SGD}},
	{0.005, {.kind = SL_OPTIMIZER_SGD, .momentum = 0.1}},
	{0.4, {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4}},
	{0.05, {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}},
	{0.3, {.kind = SL_OPTIMIZER_SGD, .weight_decay = 0.01}},
	{0.001, {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
	{0.01, {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1}},
	{0.1, {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0, .beta2 = 0, .eps = 1}},
	{0.001, {.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01}},
	{2e-5, {.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 1e-4}},
	{0.5, {.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.5, .beta2 = 0.99, .eps = 0.1, .weight_decay = 0.5}},
};

/* weight, gradient, moments */
struct state {
	struct op_area area[AREAS];
	int n;
};

/* The ranges begin `shift` floats into their areas, so that vector loads are unaligned. */
static float *at(const struct state *s, int i, int shift)
{
	return i < s->n ? (float *)op_area_data(&s->area[i]) + shift : NULL;
}

static void open_state(struct state *s, struct sl_backend *be, const struct setting *setting, int64_t count,
		       const float *weight, struct op_log *log)
{
	float *zeros = op_xalloc((size_t)count * sizeof(float));

	memset(zeros, 0, (size_t)count * sizeof(float));
	s->n = 2 + sl_optimizer_moments(setting->how.kind);
	for (int i = 0; i < s->n; i++)
		op_area_open(&s->area[i], be, (size_t)count * sizeof(float), i == 0 ? weight : zeros, log);
	free(zeros);
}

static void close_state(struct state *s)
{
	for (int i = 0; i < s->n; i++)
		op_area_close(&s->area[i]);
}

static void step(struct state *s, struct sl_backend *be, const struct setting *setting, uint64_t t, int64_t count,
		 int shift, struct op_log *log)
{
	const struct sl_update update = sl_optimizer_step(&setting->how, setting->lr / (double)t, t);
	float *const moment[SL_MOMENTS_MOST] = {at(s, 2, shift), at(s, 3, shift)};

	if (be->ops->update(be, &update, count - shift, at(s, 0, shift), at(s, 1, shift), moment))
		op_log_fail(log, "update failed");
}

static void run(struct state *s, struct sl_backend *be, const struct setting *setting, int64_t count, int shift,
		struct op_log *log)
{
	struct sl_op op = {.kind = SL_OP_LINEAR, .n_param = 1, .u.linear = {(int)count, 1, false, false}};
	struct op_host_params data;
	int before = log->failures;

	op_host_params_fill(&data, &op, SEED);
	open_state(s, be, setting, count, data.param[0], log);
	op_host_params_free(&data);
	for (uint64_t t = 1; t <= STEPS && log->failures == before; t++) {
		op_host_params_fill(&data, &op, SEED + t);
		op_area_set(&s->area[1], data.grad_start[0], log);
		op_host_params_free(&data);
		step(s, be, setting, t, count, shift, log);
		op_area_read(&s->area[1], "gradient", log); /* checks that the gradient is unchanged */
	}
}

static void compare(struct state *got, struct state *want, int64_t count, bool bits, struct op_log *log)
{
	static const char *const names[AREAS] = {"weight", "gradient", "first moment", "second moment"};

	for (int i = 0; i < got->n; i++) {
		const float *x = op_area_read(&got->area[i], names[i], log);
		const float *y = op_area_read(&want->area[i], names[i], log);

		if (!bits)
			op_compare(names[i], x, y, count, 0, log);
		else if (memcmp(x, y, (size_t)count * sizeof(float)) != 0)
			op_log_fail(log, "%s: other bits", names[i]);
	}
}

void op_update_compare(struct sl_backend *got_on, struct sl_backend *want_on, bool bits, struct op_log *log)
{
	static const int64_t counts[] = {1, 3, 16, 17, 1000, 70001};

	for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++)
		for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
			for (int shift = 0; shift < 2 && shift < counts[i]; shift++) {
				struct state got, want;

				snprintf(log->op, sizeof log->op, "%s, setting %zu, %lld weights from %d on",
					 sl_agreed_optimizers[settings[k].how.kind], k, (long long)counts[i], shift);
				run(&got, got_on, &settings[k], counts[i], shift, log);
				run(&want, want_on, &settings[k], counts[i], shift, log);
				compare(&got, &want, counts[i], bits, log);
				close_state(&got);
				close_state(&want);
			}
}

/* Two steps. SGD(lr=0.5, momentum=0.5, weight_decay=0.25) of w = 2, g = 1.
 * Without Nesterov: g = 1 + 0.25·2 = 1.5, m = 1.5, w = 2 − 0.75 = 1.25; then g = 1 + 0.3125, m = 0.75 + 1.3125 =
 * 2.0625, w = 0.21875.
 * With Nesterov: w = 2 − 0.5·(1.5 + 0.75) = 0.875; then g = 1.21875, m = 1.96875, w = 0.875 − 0.5·2.203125.
 * Adam(lr=0.5, betas=(0.5, 0.75), eps=1): while g stays 1, its corrected moments are 1, and w falls by 0.5·1/(1 + 1) =
 * 0.25 a step. With weight_decay=0.25, g begins at 1 − 0.25·w. AdamW: w = 2·0.875 − 0.25 = 1.5, then 1.0625. */
static const struct by_hand {
	struct setting setting;
	float grad[2], want;
} by_hand[] = {
	{{0.5, {.kind = SL_OPTIMIZER_SGD, .momentum = 0.5, .weight_decay = 0.25}}, {1, 1}, 0.21875f},
	{{0.5, {.kind = SL_OPTIMIZER_SGD, .momentum = 0.5, .weight_decay = 0.25, .nesterov = true}},
	 {1, 1},
	 -0.2265625f},
	{{0.5, {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.5, .beta2 = 0.75, .eps = 1}}, {1, 1}, 1.5f},
	{{0.5, {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.5, .beta2 = 0.75, .eps = 1, .weight_decay = 0.25}},
	 {0.5f, 0.5625f},
	 1.5f},
	{{0.5, {.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.5, .beta2 = 0.75, .eps = 1, .weight_decay = 0.25}},
	 {1, 1},
	 1.0625f},
};

void op_update_by_hand(struct sl_backend *be, struct op_log *log)
{
	for (size_t k = 0; k < sizeof by_hand / sizeof by_hand[0]; k++) {
		const struct by_hand *h = &by_hand[k];
		const float weight = 2;
		struct state s;

		snprintf(log->op, sizeof log->op, "%s by hand, %zu", sl_agreed_optimizers[h->setting.how.kind], k);
		open_state(&s, be, &h->setting, 1, &weight, log);
		for (uint64_t t = 1; t <= 2; t++) {
			const struct sl_update update = sl_optimizer_step(&h->setting.how, h->setting.lr, t);
			float *const moment[SL_MOMENTS_MOST] = {at(&s, 2, 0), at(&s, 3, 0)};

			op_area_set(&s.area[1], &h->grad[t - 1], log);
			if (be->ops->update(be, &update, 1, at(&s, 0, 0), at(&s, 1, 0), moment))
				op_log_fail(log, "update failed");
		}
		op_compare("weight", op_area_read(&s.area[0], "weight", log), &h->want, 1, 0, log);
		close_state(&s);
	}
}
