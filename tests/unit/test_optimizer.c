/* Optimizers: bounds, the text that enters a plan's hash, and the arguments of a step for a backend. */

#include <math.h>

#include "common/exec/optimizer.h"
#include "tests/support/unit.h"

static const struct sl_optimizer adam = {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

static void refused(struct sl_optimizer o, enum sl_err err, const char *phrase)
{
	struct sl_fail fail = {0};

	assert_int_equal(sl_optimizer_check(&o, &fail), err);
	if (!strstr(fail.text, phrase))
		fail_msg("'%s' does not say '%s'", fail.text, phrase);
}

static void values_out_of_bounds_are_refused(void **state)
{
	struct sl_optimizer o;
	struct sl_fail fail;

	assert_int_equal(sl_optimizer_check(&(struct sl_optimizer){0}, &fail), SL_OK);
	assert_int_equal(sl_optimizer_check(&adam, &fail), SL_OK);
	o = adam, o.beta1 = 0, o.beta2 = SL_BETA_MOST, o.eps = SL_EPS_LEAST, o.weight_decay = 1;
	assert_int_equal(sl_optimizer_check(&o, &fail), SL_OK);
	refused((struct sl_optimizer){.kind = SL_OPTIMIZER_COUNT}, SL_ERR_CONFIG, "the number 3");
	refused((struct sl_optimizer){.momentum = 1.5}, SL_ERR_LIMIT, "momentum 1.5");
	refused((struct sl_optimizer){.weight_decay = -1}, SL_ERR_LIMIT, "weight decay -1");
	refused((struct sl_optimizer){.weight_decay = (double)NAN}, SL_ERR_LIMIT, "weight decay");
	refused((struct sl_optimizer){.beta2 = 0.9}, SL_ERR_CONFIG, "sgd has no beta1");
	refused((struct sl_optimizer){.eps = 1e-8}, SL_ERR_CONFIG, "sgd has no beta1");
	o = adam, o.momentum = 0.9;
	refused(o, SL_ERR_CONFIG, "adam has no momentum");
	o = adam, o.nesterov = true;
	refused(o, SL_ERR_CONFIG, "no nesterov");
	o = adam, o.beta1 = 1;
	refused(o, SL_ERR_LIMIT, "beta1 1 ");
	o = adam, o.beta2 = (double)NAN;
	refused(o, SL_ERR_LIMIT, "beta2");
	o = adam, o.eps = 0;
	refused(o, SL_ERR_LIMIT, "eps 0 ");
	o = adam, o.eps = (double)INFINITY;
	refused(o, SL_ERR_LIMIT, "eps inf");
}

static bool near(float x, double want)
{
	return fabs((double)x - want) <= 1e-7 * fabs(want);
}

static void a_step_has_its_corrections(void **state)
{
	static const uint64_t t[] = {1, 2, 3, 10, 1000, 123456, 1000000};
	struct sl_optimizer o = adam;

	o.weight_decay = 0.1;
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct sl_update u = sl_optimizer_step(&o, 0.01, t[i]);

		assert_true(near(u.rate, 0.01 / (1 - pow(0.9, (double)t[i]))));
		assert_true(near(u.root, 1 / sqrt(1 - pow(0.999, (double)t[i]))));
		assert_true(u.keep == 1 && near(u.weight_decay, 0.1));
		assert_true(near(u.gain1, 0.1) && near(u.gain2, 0.001) && near(u.eps, 1e-8));
		o.kind = SL_OPTIMIZER_ADAMW;
		u = sl_optimizer_step(&o, 0.01, t[i]);
		assert_true(u.weight_decay == 0 && near(u.keep, 0.999));
		o.kind = SL_OPTIMIZER_ADAM;
	}
	assert_int_equal(sl_optimizer_moments(SL_OPTIMIZER_SGD), 1);
	assert_int_equal(sl_optimizer_moments(SL_OPTIMIZER_ADAM), 2);
	assert_int_equal(sl_optimizer_moments(SL_OPTIMIZER_ADAMW), 2);
}

static void counts_of_steps_are_exact(void **state)
{
	static const uint64_t counts[] = {0, 1, (1 << 24) - 1, 1 << 24, 123456789012, SL_STEPS_MOST - 1};
	static const float none[][2] = {{-1, 0},      {0, -1},  {0.5f, 0},     {0, 1.5f},     {0x1p24f, 0},
					{0, 0x1p24f}, {NAN, 0}, {0, INFINITY}, {-INFINITY, 0}};
	uint64_t read = 7;
	float as[2];

	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		assert_false(sl_steps_read(&read, none[i]));
	assert_true(read == 7);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		sl_steps_write(counts[i], as);
		assert_true(sl_steps_read(&read, as));
		assert_true(read == counts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_out_of_bounds_are_refused),
		cmocka_unit_test(a_step_has_its_corrections),
		cmocka_unit_test(counts_of_steps_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
