/* Learning-rate schedules against values calculated by hand and by torch.optim.lr_scheduler.LambdaLR. */

#include <math.h>

#include "client/train/schedule.h"
#include "tests/support/unit.h"

static struct sl_schedule make(enum sl_conf_schedule kind, double lr, double end_lr, double power, double epochs,
			       double warmup, int64_t per_epoch)
{
	struct sl_schedule s = {.kind = kind, .lr = lr, .end_lr = end_lr, .power = power};
	struct sl_fail fail = {0};

	if (sl_schedule_set_epochs(&s, epochs, warmup, per_epoch, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return s;
}

static void assert_lr(const struct sl_schedule *s, int64_t step, double want)
{
	double got = sl_schedule_lr(s, step);

	if (!(fabs(got - want) <= 1e-12 * fabs(want) + 1e-18))
		fail_msg("step %lld: %.17g, not %.17g", (long long)step, got, want);
}

static void constant(void **state)
{
	struct sl_schedule s = make(SL_CONF_CONSTANT, 0.005, 0, 0, 3, 0, 10);

	assert_lr(&s, 0, 0.005);
	assert_lr(&s, 29, 0.005);
	assert_lr(&s, 1000, 0.005);
	s = make(SL_CONF_CONSTANT, 0.5, 0, 0, 3, 1, 5);
	assert_lr(&s, 0, 0.1);
	assert_lr(&s, 3, 0.4);
	assert_lr(&s, 4, 0.5);
	assert_lr(&s, 5, 0.5);
}

/* From lr to end_lr by a constant factor, up or down. Accumulated batches share one learning rate,
 * by the number of their optimizer step. */
static void exponential(void **state)
{
	struct sl_schedule s = make(SL_CONF_EXPONENTIAL, 1e-4, 1, 0, 2, 0, 4);

	assert_lr(&s, 0, 1e-4);
	assert_lr(&s, 2, 1e-3);
	assert_lr(&s, 4, 1e-2);
	assert_lr(&s, 8, 1);
	s.accumulate = 4;
	assert_lr(&s, 3, 1e-4);
	assert_lr(&s, 4, 1e-2);
	assert_lr(&s, 7, 1e-2);
}

/* 24 batches, 4 to an optimizer step: LambdaLR over 6 steps, with 2 of warm-up. */
static void accumulated(void **state)
{
	struct sl_schedule s = make(SL_CONF_POLYNOMIAL, 0.1, 0, 1, 2, 2.0 / 3, 12);

	s.accumulate = 4;
	assert_lr(&s, 0, 0.05);
	assert_lr(&s, 3, 0.05);
	assert_lr(&s, 4, 0.1);
	assert_lr(&s, 8, 0.1);
	assert_lr(&s, 12, 0.075);
	assert_lr(&s, 23, 0.025);
}

/* A published setting, with 10 steps an epoch. */
static void cosine_with_warmup(void **state)
{
	struct sl_schedule s = make(SL_CONF_COSINE, 0.4, 0, 0, 200, 20, 10);

	assert_int_equal(s.warmup_steps, 200);
	assert_int_equal(s.total_steps, 2000);
	assert_lr(&s, 0, 0.002);
	assert_lr(&s, 99, 0.2);
	assert_lr(&s, 199, 0.4);
	assert_lr(&s, 200, 0.4);
	assert_lr(&s, 650, 0.2 * (1 + sqrt(0.5))); /* a quarter of the way: cos(π/4) */
	assert_lr(&s, 800, 0.3);                   /* a third: cos(π/3) = 1/2 */
	assert_lr(&s, 1100, 0.2);
	assert_lr(&s, 1400, 0.1);
	assert_lr(&s, 2000, 0.0);
	assert_lr(&s, 99999, 0.0);
	for (int64_t step = 200; step < 2000; step++)
		assert_true(sl_schedule_lr(&s, step + 1) < sl_schedule_lr(&s, step));
}

/* LambdaLR(SGD(lr=1), lambda t: 0.1 * (t + 1) / 4 if t < 4 else .01 + .09 * (1 + cos(pi * (t - 4) / 8)) / 2),
 * its get_last_lr() before each of 12 steps. */
static const double torch_cosine[12] = {
	0.025000000000000001, 0.050000000000000003, 0.075000000000000011,
	0.10000000000000001,  0.099999999999999992, 0.09657457896300789,
	0.08681980515339463,  0.072220754456429045, 0.055,
	0.037779245543570962, 0.023180194846605363, 0.013425421036992097,
};

/* The same for .002 + .018 * (1 - (t - 4) / 8)**2, after four steps of warm-up to 0.02. */
static const double torch_poly[12] = {
	0.0050000000000000001, 0.01,
	0.014999999999999999,  0.02,
	0.019999999999999997,  0.015781249999999997,
	0.012124999999999999,  0.0090312499999999993,
	0.0064999999999999997, 0.0045312499999999997,
	0.0031250000000000002, 0.0022812499999999999,
};

static void equals_torchs_lambda_lr(void **state)
{
	struct sl_schedule cosine = make(SL_CONF_COSINE, 0.1, 0.01, 0, 3, 1, 4);
	struct sl_schedule poly = make(SL_CONF_POLYNOMIAL, 0.02, 0.002, 2, 3, 1, 4);

	for (int i = 0; i < 12; i++) {
		assert_lr(&cosine, i, torch_cosine[i]);
		assert_lr(&poly, i, torch_poly[i]);
	}
	assert_lr(&cosine, 12, 0.01);
	assert_lr(&poly, 12, 0.002);
}

static void polynomial_of_power_1_is_linear(void **state)
{
	struct sl_schedule s = make(SL_CONF_POLYNOMIAL, 2e-5, 0, 1, 20, 1.2, 10);

	assert_int_equal(s.warmup_steps, 12);
	assert_lr(&s, 12, 2e-5);
	assert_lr(&s, 106, 1e-5);
	assert_lr(&s, 153, 5e-6);
	assert_lr(&s, 200, 0);
}

/* The learning rates of torch's StepLR and MultiStepLR at lr 2 and gamma 0.5, stepped once an epoch of 4 steps. */
static void steps_drop_as_torchs(void **state)
{
	struct sl_schedule every = {.kind = SL_CONF_STEP, .lr = 2, .gamma = 0.5, .every_epochs = 2};
	struct sl_schedule at = {.kind = SL_CONF_STEP, .lr = 2, .gamma = 0.5, .n_point = 2, .point = {{1, 0}, {3, 0}}};
	static const double step_lr[] = {2, 2, 1, 1, 0.5, 0.5}, multi_step_lr[] = {2, 1, 1, 0.5, 0.5, 0.5};
	struct sl_fail fail;

	assert_int_equal(sl_schedule_set_epochs(&every, 6, 0, 4, &fail), SL_OK);
	assert_int_equal(sl_schedule_set_epochs(&at, 6, 0, 4, &fail), SL_OK);
	for (int64_t step = 0; step < 24; step++) {
		assert_lr(&every, step, step_lr[step / 4]);
		assert_lr(&at, step, multi_step_lr[step / 4]);
	}
	assert_lr(&every, 24, 0.25);
	assert_lr(&at, 1000, 0.5);
	/* ImageNet's: warm-up over 5 epochs, a tenth from 16 on, a hundredth from 27 on */
	at = (struct sl_schedule){
		.kind = SL_CONF_STEP, .lr = 2, .gamma = 0.1, .n_point = 2, .point = {{16, 0}, {27, 0}}};
	assert_int_equal(sl_schedule_set_epochs(&at, 35, 5, 100, &fail), SL_OK);
	assert_lr(&at, 249, 1);
	assert_lr(&at, 1599, 2);
	assert_lr(&at, 1600, 0.2);
	assert_lr(&at, 2699, 0.2);
	assert_lr(&at, 2700, 0.02);
}

/* (0, 0) (5, 0.4) (24, 0) with 98 steps an epoch, as the ResNet9 of DAWNBench; and points that begin after epoch 0. */
static void points_are_joined_by_lines(void **state)
{
	struct sl_schedule s = {.kind = SL_CONF_POINTS, .n_point = 3, .point = {{0, 0}, {5, 0.4}, {24, 0}}};
	struct sl_schedule late = {.kind = SL_CONF_POINTS, .n_point = 3, .point = {{0.5, 0.3}, {1, 0.1}, {1.5, 0.1}}};
	struct sl_fail fail;

	assert_int_equal(sl_schedule_set_epochs(&s, 24, 0, 98, &fail), SL_OK);
	assert_lr(&s, 0, 0);
	assert_lr(&s, 1, 0.4 / 490);
	assert_lr(&s, 245, 0.2);
	assert_lr(&s, 490, 0.4);
	assert_lr(&s, 491, 0.4 - 0.4 / (19 * 98));
	assert_lr(&s, 1421, 0.2);
	assert_lr(&s, 2351, 0.4 / (19 * 98));
	assert_lr(&s, 2352, 0);
	assert_lr(&s, 99999, 0);
	assert_int_equal(sl_schedule_set_epochs(&late, 3, 0, 4, &fail), SL_OK);
	assert_lr(&late, 0, 0.3);
	assert_lr(&late, 2, 0.3);
	assert_lr(&late, 3, 0.2);
	assert_lr(&late, 4, 0.1);
	assert_lr(&late, 5, 0.1);
	assert_lr(&late, 11, 0.1);
}

/* get_linear_schedule_with_warmup(num_warmup_steps=4, num_training_steps=12) at lr 1: step / 4, then (12 - step) / 8.
 */
static void a_warm_up_from_zero(void **state)
{
	struct sl_schedule s = {.kind = SL_CONF_POLYNOMIAL, .lr = 1, .power = 1, .from_zero = true};
	struct sl_fail fail;

	assert_int_equal(sl_schedule_set_epochs(&s, 3, 1, 4, &fail), SL_OK);
	for (int64_t step = 0; step < 12; step++)
		assert_lr(&s, step, step < 4 ? (double)step / 4 : (double)(12 - step) / 8);
}

/* CosineAnnealingLR(SGD(lr=0.4), T_max=4), with a step() after each epoch; and the same after a
 * warm-up of two epochs of six. */
static void by_epoch(void **state)
{
	struct sl_schedule s = {.kind = SL_CONF_COSINE, .lr = 0.4, .by_epoch = true};
	const double lr[] = {0.4, 0.2 + 0.2 * sqrt(0.5), 0.2, 0.2 - 0.2 * sqrt(0.5)};
	struct sl_fail fail;

	assert_int_equal(sl_schedule_set_epochs(&s, 4, 0, 5, &fail), SL_OK);
	for (int64_t step = 0; step < 20; step++)
		assert_lr(&s, step, lr[step / 5]);
	assert_int_equal(sl_schedule_set_epochs(&s, 6, 2, 5, &fail), SL_OK);
	for (int64_t step = 0; step < 30; step++)
		assert_lr(&s, step, step < 10 ? 0.2 * (double)(step / 5 + 1) : lr[step / 5 - 2]);
	assert_int_equal(sl_schedule_set_epochs(&s, 6, 0.4, 5, &fail), SL_OK); /* never above lr */
	assert_lr(&s, 0, 0.4);
	s = (struct sl_schedule){.kind = SL_CONF_POINTS, .by_epoch = true, .n_point = 2, .point = {{0, 0}, {4, 1}}};
	assert_int_equal(sl_schedule_set_epochs(&s, 4, 0, 3, &fail), SL_OK);
	for (int64_t step = 0; step < 12; step++)
		assert_lr(&s, step, (double)(step / 3) / 4);
}

static void wrong_settings_are_refused(void **state)
{
	static const struct {
		double epochs, warmup;
		int64_t per_epoch;
	} bad[] = {{0, 0, 1},     {1, 1, 1},           {1, -1, 1},         {1, 0, 0},
		   {1e300, 0, 1}, {(double)NAN, 0, 1}, {1, (double)NAN, 1}};
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sl_schedule s = {.kind = SL_CONF_POLYNOMIAL, .lr = 1, .power = 1};

		assert_int_equal(sl_schedule_set_epochs(&s, bad[i].epochs, bad[i].warmup, bad[i].per_epoch, &fail),
				 SL_ERR_CONFIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exponential),
		cmocka_unit_test(accumulated),
		cmocka_unit_test(constant),
		cmocka_unit_test(cosine_with_warmup),
		cmocka_unit_test(equals_torchs_lambda_lr),
		cmocka_unit_test(polynomial_of_power_1_is_linear),
		cmocka_unit_test(steps_drop_as_torchs),
		cmocka_unit_test(points_are_joined_by_lines),
		cmocka_unit_test(a_warm_up_from_zero),
		cmocka_unit_test(by_epoch),
		cmocka_unit_test(wrong_settings_are_refused),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
