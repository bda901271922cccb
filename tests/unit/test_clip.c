/* Clipping by the norm of the whole gradient: the sum of squares, the
 * factor, and how an executor applies it, in host and in device memory. */

#include <math.h>

#include "common/exec/clip.h"
#include "tests/support/mixed.h"
#include "tests/support/small_net.h"
#include "tests/support/unit.h"

static void squares_are_summed_in_double(void **state)
{
	float x[1003] = {0}; /* the longest count is 1002: the last element stays unused */

	for (int64_t count = 0; count <= 1003; count += count < 20 ? 1 : 491) {
		double want = 0;

		for (int i = 0; i < count; i++) {
			x[i] = (i % 7 ? 1e-6f : 3e3f) * (float)(i + 1);
			want += (double)x[i] * (double)x[i];
		}
		assert_true(fabs(sl_squares(x, count) - want) <= 1e-15 * (double)count * want);
	}
	x[7] = NAN;
	assert_true(isnan(sl_squares(x, 1003)));
	x[7] = 3e38f; /* its square overflows a float */
	assert_true(isfinite(sl_squares(x, 1003)));
}

static void the_factor_is_torchs(void **state)
{
	assert_true(sl_clip_factor(3, (double[3]){9, 16, 11}) == 3 / (6 + 1e-6));
	assert_true(sl_clip_factor(6, (double[3]){9, 16, 11}) < 1); /* the epsilon in the denominator shows */
	assert_true(sl_clip_factor(7, (double[3]){9, 16, 11}) == 1);
	assert_true(sl_clip_factor(1e-3, (double[3]){0, 0, 0}) == 1);
}

static double naive(const float *g, int64_t count)
{
	double sum = 0;

	for (int64_t i = 0; i < count; i++)
		sum += (double)g[i] * (double)g[i];
	return sum;
}

static struct sl_exec *open_middle(struct sl_plan *plan, struct sl_backend *be)
{
	struct sl_exec *exec;
	struct sl_fail fail;

	if (sl_exec_open(&exec, plan, SL_MIDDLE, be, &fail))
		fail_msg("%s", fail.text);
	return exec;
}

/* The gradient comes from the L1 pull of a decaying insert, so no pass is needed. */
static void gradients_are_scaled_wherever_they_lie(bool on_host)
{
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.2, 0},
				     .cut = {.partition = "1:-1"},
				     .insert_head = "decaylinear:rate=0.5,every=10,times=2,l1=0.25",
				     .plan = {.batch = SMALL_BATCH, .chunks = 1, .clip_norm = 1}};
	struct sl_plan *plan;
	struct sl_backend be;
	struct sl_exec *exec;
	struct sl_fail fail;
	double before, after;
	float *g, *weights;
	int64_t count;

	if (plan_open(&plan, &spec, &fail) || mixed_backend_open(&be, &fail))
		fail_msg("%s", fail.text);
	be.host_memory = on_host;
	exec = open_middle(plan, &be);
	count = sl_exec_segment(exec)->trainable_count;
	weights = malloc((size_t)sl_exec_segment(exec)->weight_count * sizeof *weights);
	for (int64_t i = 0; i < sl_exec_segment(exec)->weight_count; i++)
		weights[i] = 1;
	assert_int_equal(sl_exec_set_weights(exec, weights), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	g = malloc((size_t)count * sizeof *g);
	assert_int_equal(sl_exec_get_gradients(exec, g), SL_OK);
	assert_int_equal(sl_exec_squares(exec, &before, &fail), SL_OK);
	assert_true(before > 0 && fabs(before - naive(g, count)) <= 1e-12 * before);
	assert_int_equal(sl_exec_scale(exec, 0.5), SL_OK);
	assert_int_equal(sl_exec_squares(exec, &after, &fail), SL_OK);
	assert_true(after == before / 4);
	assert_int_equal(sl_exec_scale(exec, 1), SL_OK);
	assert_int_equal(sl_exec_scale(exec, 0), SL_OK); /* 0: the step is not clipped */
	assert_int_equal(sl_exec_squares(exec, &after, &fail), SL_OK);
	assert_true(after == before / 4);
	free(g);
	free(weights);
	sl_exec_close(exec);
	be.ops->close(&be);
	sl_plan_close(plan);
}

static void gradients_are_scaled(void **state)
{
	gradients_are_scaled_wherever_they_lie(true);
	gradients_are_scaled_wherever_they_lie(false);
}

/* The message names the parameter that is NaN, as the check before a commit does. */
static void a_gradient_that_is_not_finite_has_no_norm(void **state)
{
	struct small_net net;
	struct sl_fail fail;
	struct small_batch *batch = malloc(sizeof *batch);
	double squares = -1;

	small_net_open(&net, &(struct small_net_how){.partition = "1:-1", .chunks = 1});
	small_net_batch(batch, 0);
	small_net_forward(&net, batch, SMALL_BATCH, 0, 0);
	small_net_backward(&net, batch, SMALL_BATCH, 0, 0);
	assert_int_equal(sl_exec_squares(net.exec[SL_MIDDLE], &squares, &fail), SL_OK);
	assert_true(squares > 0);
	batch->image[5] = NAN;
	squares = -1;
	small_net_forward(&net, batch, SMALL_BATCH, 0, 0);
	small_net_backward(&net, batch, SMALL_BATCH, 0, 0);
	assert_int_equal(sl_exec_squares(net.exec[SL_MIDDLE], &squares, &fail), SL_ERR_NONFINITE);
	assert_non_null(strstr(fail.text, "NaN or Inf in the gradient of features."));
	assert_true(squares == -1);
	small_net_close(&net);
	free(batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(squares_are_summed_in_double),
		cmocka_unit_test(the_factor_is_torchs),
		cmocka_unit_test(gradients_are_scaled),
		cmocka_unit_test(a_gradient_that_is_not_finite_has_no_norm),
	};

	return cmocka_run_group_tests_name("clip", tests, NULL, NULL);
}
