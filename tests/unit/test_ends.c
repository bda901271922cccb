/* The client's head and tail alone: which steps must not be applied, and over which rows a loss is averaged. */

#include <math.h>

#include "client/figures/similarity.h"
#include "client/leak/crossing.h"
#include "client/step/ends.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

enum { CHUNKS = 2, IMAGE_FLOATS = SMALL_IMAGE * SMALL_IMAGE * 3 };

static struct sl_backend be;
static struct sl_plan *plan;
static float images[SMALL_BATCH * IMAGE_FLOATS];
static int32_t labels[SMALL_BATCH]; /* all 0 */

/* The tail is only the last layer, so that no pooling sums the values that a test puts in. */
static struct sl_plan *open_plan(double smoothing)
{
	const struct sl_split_spec spec = {
		.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0},
		.label_smoothing = smoothing,
		.cut = {.head_end = "features.0.1", .tail_begin = "classifier.1"},
		.plan.batch = SMALL_BATCH,
		.plan.chunks = CHUNKS,
		.plan.optimizer = {.kind = SL_OPTIMIZER_SGD},
	};
	struct sl_plan *opened;
	struct sl_fail fail;

	return plan_open(&opened, &spec, &fail) == SL_OK ? opened : NULL;
}

static void open_ends(struct sl_ends *e, int64_t rows)
{
	struct sl_fail fail;
	float *zeros;

	if (sl_ends_open(e, plan, &be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	zeros = calloc((size_t)plan->segment[SL_TAIL].weight_count, sizeof *zeros);
	assert_non_null(zeros);
	assert_int_equal(sl_exec_set_weights(e->tail, zeros), SL_OK);
	free(zeros);
	sl_ends_take(e, &(struct sl_feed){.input = images, .target = labels, .rows = rows}, 0, true);
	for (int chunk = 0; chunk < CHUNKS; chunk++)
		assert_int_equal(sl_ends_head_forward(e, chunk), SL_OK);
}

static void fill(struct sl_tensor t, float value)
{
	for (int64_t i = 0; i < sl_shape_count(&t.shape); i++)
		((float *)t.data)[i] = value;
}

/* Stands in for the server: runs the tail of a chunk on activations that are all `value`. */
static enum sl_err tail_of(struct sl_ends *e, int chunk, float value, struct sl_fail *fail)
{
	int64_t rows = sl_plan_chunk_rows(plan, e->feed.rows, chunk);

	fill(sl_exec_input(e->tail, chunk, rows), value);
	return sl_ends_tail(e, chunk, fail);
}

static void whole_step(struct sl_ends *e, float value)
{
	struct sl_fail fail;

	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		if (tail_of(e, chunk, value, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		fill(sl_exec_dout(e->head, chunk, sl_plan_chunk_rows(plan, e->feed.rows, chunk)), 0);
		assert_int_equal(sl_ends_head_backward(e, chunk), SL_OK);
	}
}

/* Each chunk's gradient is finite, but their sum is not. */
static void a_tail_s_gradient_is_looked_at(void **state)
{
	struct sl_fail fail = {0};
	struct sl_ends e;

	open_ends(&e, SMALL_BATCH);
	whole_step(&e, 1);
	assert_int_equal(sl_ends_check(&e, &fail), SL_OK);
	sl_ends_close(&e);
	open_ends(&e, SMALL_BATCH);
	e.use.chunk_loss_sum = true;
	whole_step(&e, 2.2e38f);
	assert_int_equal(sl_ends_check(&e, &fail), SL_ERR_NONFINITE);
	assert_non_null(strstr(fail.text, "classifier"));
	sl_ends_close(&e);
}

static void a_loss_is_looked_at(void **state)
{
	const int64_t count = plan->segment[SL_TAIL].weight_count;
	float *large = malloc((size_t)count * sizeof *large);
	struct sl_fail fail;
	struct sl_ends e;

	assert_non_null(large);
	for (int64_t i = 0; i < count; i++)
		large[i] = 1e30f;
	open_ends(&e, SMALL_BATCH);
	assert_int_equal(sl_exec_set_weights(e.tail, large), SL_OK);
	assert_int_equal(tail_of(&e, 1, 1e30f, &fail), SL_ERR_NONFINITE);
	assert_string_equal(fail.text, "NaN or Inf in the loss of chunk 1");
	e.training = false; /* an evaluation reports any loss */
	assert_int_equal(tail_of(&e, 0, 1e30f, &fail), SL_OK);
	sl_ends_close(&e);
	free(large);
}

/* The bias gradient of the label is the mean of p - 1: over
 * all rows, or over each chunk's rows, summed over chunks. */
static void a_chunk_s_loss_is_its_own_mean_where_asked_for(void **state)
{
	const struct sl_plan_segment *s = &plan->segment[SL_TAIL];
	float *gradient = malloc((size_t)s->trainable_count * sizeof *gradient);

	assert_non_null(gradient);
	for (int sum = 0; sum < 2; sum++) {
		int found = 0;
		struct sl_ends e;

		open_ends(&e, SMALL_BATCH - 1); /* the last chunk has a row less */
		e.use.chunk_loss_sum = sum;
		whole_step(&e, 0);
		assert_int_equal(sl_exec_get_gradients(e.tail, gradient), SL_OK);
		for (int64_t i = 0; i < s->trainable_count; i++)
			if (gradient[i] < -0.1f) {
				float d = gradient[i] + 0.9f * (float)(1 + sum);

				found++;
				assert_true(d > -1e-5f && d < 1e-5f);
			}
		assert_int_equal(found, 1);
		sl_ends_close(&e);
	}
	free(gradient);
}

/* The loss with plan `of` on logits that differ. */
static double loss_of(struct sl_plan *of, bool training)
{
	struct sl_plan *const before = plan;
	const int64_t count = plan->segment[SL_TAIL].weight_count;
	float *weights = malloc((size_t)count * sizeof *weights);
	struct sl_fail fail;
	struct sl_ends e;
	double loss, dice;

	assert_non_null(weights);
	for (int64_t i = 0; i < count; i++)
		weights[i] = 1e-6f * (float)i;
	plan = of;
	open_ends(&e, SMALL_BATCH);
	assert_int_equal(sl_exec_set_weights(e.tail, weights), SL_OK);
	free(weights);
	sl_ends_take(&e, &(struct sl_feed){.input = images, .target = labels, .rows = SMALL_BATCH}, 0, training);
	for (int chunk = 0; chunk < CHUNKS; chunk++)
		if (tail_of(&e, chunk, 1, &fail) != SL_OK)
			fail_msg("%s", fail.text);
	loss = sl_ends_loss(&e, &dice);
	sl_ends_close(&e);
	plan = before;
	return loss;
}

/* At equal logits p is 0.1 for each of the 10 classes. With a smoothing of 0.2 the label's target is 0.8 + 0.02, and
 * the bias' gradient there is 0.1 - 0.82. Without it that is 0.1 - 1. */
static void labels_are_smoothed_in_training_alone(void **state)
{
	const struct sl_plan_segment *s = &plan->segment[SL_TAIL];
	float *gradient = malloc((size_t)s->trainable_count * sizeof *gradient);
	struct sl_plan *const plain = plan, *smooth = open_plan(0.2);
	struct sl_ends e;
	int found = 0;

	assert_non_null(gradient);
	assert_non_null(smooth);
	plan = smooth;
	open_ends(&e, SMALL_BATCH);
	whole_step(&e, 0);
	assert_int_equal(sl_exec_get_gradients(e.tail, gradient), SL_OK);
	for (int64_t i = 0; i < s->trainable_count; i++)
		if (gradient[i] < -0.1f) {
			found++;
			assert_true(gradient[i] > -0.72f - 1e-5f && gradient[i] < -0.72f + 1e-5f);
		}
	assert_int_equal(found, 1);
	sl_ends_close(&e);
	free(gradient);
	plan = plain;
	assert_true(loss_of(smooth, false) == loss_of(plain, false));
	assert_true(loss_of(smooth, true) != loss_of(plain, true));
	sl_plan_close(smooth);
}

/* Runs the head on a batch of an evaluation: samples from `from` on, each with its own values. */
static void evaluate(struct sl_ends *e, int from, int32_t sample[SMALL_BATCH])
{
	struct sl_fail fail;
	struct sl_tensor x;

	for (int i = 0; i < SMALL_BATCH; i++) {
		sample[i] = from + i;
		for (int k = 0; k < IMAGE_FLOATS; k++)
			images[i * IMAGE_FLOATS + k] = (float)((sample[i] * 131 + k * (sample[i] + 7)) % 257) / 257;
	}
	sl_ends_take(e, &(struct sl_feed){.input = images, .target = labels, .rows = SMALL_BATCH, .samples = sample}, 0,
		     false);
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		assert_int_equal(sl_ends_head_forward(e, chunk), SL_OK);
		x = sl_exec_output(e->head, chunk, SMALL_BATCH / CHUNKS);
		assert_int_equal(sl_ends_sent(e, SL_DIR_HEAD_ACT, chunk, &x, &fail), SL_OK);
	}
}

/* Of 24 samples all are used. Of 4000 about one in 63 is used, and those that are not evaluated are left out. */
static void head_act_s_dependence_on_inputs_is_that_of_the_samples_that_count(void **state)
{
	enum { ALL = 3 * SMALL_BATCH };
	const struct sl_shape cut = sl_plan_cut_shape(plan, false, 1);
	const int64_t row = sl_shape_row(&cut);
	float *in = malloc(ALL * IMAGE_FLOATS * sizeof *in), *act = malloc((size_t)(ALL * row) * sizeof *act);
	int32_t sample[SMALL_BATCH];
	double want;
	struct sl_weights weights;
	struct sl_tensor x;
	struct sl_fail fail;
	struct sl_ends e;

	assert_true(in && act);
	open_ends(&e, SMALL_BATCH);
	assert_int_equal(sl_weights_open(&weights, plan->model, &fail), SL_OK);
	sl_weights_init(&weights, plan->model, 3);
	assert_int_equal(sl_ends_set_weights(&e, &weights), SL_OK);
	sl_weights_close(&weights);
	assert_int_equal(sl_dcor_open(&e.use.dcor, plan, ALL, &fail), SL_OK);
	assert_true(isnan(sl_dcor_take(e.use.dcor)));
	for (int k = 0; k < 4; k++) { /* the first batch is evaluated twice */
		const int from = k % 3 * SMALL_BATCH;

		evaluate(&e, from, sample);
		memcpy(in + from * IMAGE_FLOATS, images, sizeof images);
		for (int chunk = 0; chunk < CHUNKS; chunk++)
			memcpy(act + (from + chunk * SMALL_BATCH / CHUNKS) * row,
			       sl_exec_output(e.head, chunk, SMALL_BATCH / CHUNKS).data,
			       (size_t)(SMALL_BATCH / CHUNKS * row) * sizeof *act);
	}
	e.training = true; /* training does not count */
	x = sl_exec_dout(e.head, 0, SMALL_BATCH / CHUNKS);
	assert_int_equal(sl_ends_sent(&e, SL_DIR_HEAD_ACT, 0, &x, &fail), SL_OK);
	assert_int_equal(sl_leak_dcor(&want, in, IMAGE_FLOATS, act, row, ALL), SL_OK);
	assert_true(want > 0.05 && want < 1);
	assert_true(sl_dcor_take(e.use.dcor) == want);
	assert_true(isnan(sl_dcor_take(e.use.dcor)));
	sl_dcor_close(e.use.dcor);

	assert_int_equal(sl_dcor_open(&e.use.dcor, plan, 4000, &fail), SL_OK);
	for (int k = 0; k < 4; k++) /* each is the first sample of one of the 64 shares */
		evaluate(&e, (int[]){0, 63, 125, 188}[k], sample);
	for (int k = 0; k < 4; k++) {
		evaluate(&e, (int[]){0, 63, 125, 188}[k], sample);
		memcpy(in + k * IMAGE_FLOATS, images, IMAGE_FLOATS * sizeof *in);
		memcpy(act + k * row, sl_exec_output(e.head, 0, SMALL_BATCH / CHUNKS).data, (size_t)row * sizeof *act);
	}
	assert_int_equal(sl_leak_dcor(&want, in, IMAGE_FLOATS, act, row, 4), SL_OK);
	assert_true(sl_dcor_take(e.use.dcor) == want);
	sl_dcor_close(e.use.dcor);
	assert_int_equal(sl_dcor_open(&e.use.dcor, plan, 3, &fail), SL_OK);
	assert_null(e.use.dcor);
	assert_true(isnan(sl_dcor_take(NULL)));
	sl_ends_close(&e);
	free(in);
	free(act);
}

/* Two values that go up from inside a residual block: as splitc leak joins them, and in an evaluation's figure. */
static void several_values_are_looked_at_together(void **state)
{
	const struct sl_split_spec spec = {
		.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0},
		.cut = {.head_end = "features.3.conv.0", .tail_begin = "classifier.1", .values = 2},
		.plan = {.batch = SMALL_BATCH, .chunks = CHUNKS, .optimizer = {.kind = SL_OPTIMIZER_SGD}},
	};
	int32_t sample[SMALL_BATCH];
	const struct sl_feed feed = {.input = images, .rows = SMALL_BATCH, .samples = sample};
	struct sl_tensor x[2] = {0};
	struct sl_plan *two;
	struct sl_dcor *dcor;
	struct sl_fail fail;
	double want;

	assert_int_equal(plan_open(&two, &spec, &fail), SL_OK);
	for (int i = 0; i < SMALL_BATCH * IMAGE_FLOATS; i++)
		images[i] = (float)(i * 31 % 257) / 257;
	for (int v = 0; v < 2; v++) {
		x[v].shape = sl_plan_value_shape(two, false, v, SMALL_BATCH);
		x[v].data = malloc((size_t)sl_shape_count(&x[v].shape) * sizeof(float));
		for (int64_t i = 0; i < sl_shape_count(&x[v].shape); i++)
			((float *)x[v].data)[i] = (float)((i * 17 + v) % 101) + images[i % IMAGE_FLOATS];
	}
	for (int pictures = 0; pictures < 2; pictures++) {
		const struct sl_joint joint = sl_joint_of(two, false, pictures);
		const int64_t row = sl_shape_row(&joint.row);
		float *all = malloc((size_t)(SMALL_BATCH * row) * sizeof *all);

		assert_int_equal(joint.n, 2);
		assert_int_equal(joint.row.ndim, pictures ? 4 : 2);
		sl_joint_put(&joint, x, all);
		for (int v = 0; v < 2; v++) {
			float *one = sl_joint_value(&joint, all, SMALL_BATCH, v);

			assert_memory_equal(one, x[v].data, (size_t)sl_shape_count(&x[v].shape) * sizeof *one);
			free(one);
		}
		if (!pictures)
			assert_int_equal(sl_leak_dcor(&want, images, IMAGE_FLOATS, all, row, SMALL_BATCH), SL_OK);
		free(all);
	}
	for (int i = 0; i < SMALL_BATCH; i++)
		sample[i] = i;
	assert_int_equal(sl_dcor_open(&dcor, two, SMALL_BATCH, &fail), SL_OK);
	sl_dcor_put(dcor, &feed, 0, SMALL_BATCH, x, 2);
	assert_true(sl_dcor_take(dcor) == want);
	sl_dcor_close(dcor);
	for (int v = 0; v < 2; v++)
		free(x[v].data);
	sl_plan_close(two);
}

/* A text of two tokens with `padding` tokens behind it, and the noise of one deviation or the other. */
static void send_text(float to[6], enum sl_dir dir, double deviation, int padding)
{
	static float x[6] = {1, -2, 0.5f, 3, 7, 7};
	uint32_t begin[2] = {0, 2 + (uint32_t)padding}, pieces[3] = {0, 2, begin[1]}, word[7];
	const struct sl_noise noise = {
		.head_act = deviation, .mid_grad = deviation, .act_key.byte = {5}, .grad_key.byte = {5}};
	const struct sl_dims dims = {.rows = 1, .tokens = begin[1], .begin = begin, .pieces = padding ? pieces : NULL};
	const struct sl_noise_place place = {0};
	const struct sl_tensor text = {.data = x, .shape = {.ndim = 2, .dim = {begin[1], 2}}};

	memcpy(to, x, sizeof x);
	sl_noise_add(&noise, dir, &place, &dims, &text, to, word);
}

/* Who gets the same text with two deviations f and g cannot solve x + f·z and x + g·z for x. Padding changes nothing
 * but itself. */
static void noise_cannot_be_subtracted_and_ignores_padding(void **state)
{
	float x[6], low[6], high[6], padded[6], grad[6];

	send_text(x, SL_DIR_HEAD_ACT, 0, 0);
	send_text(low, SL_DIR_HEAD_ACT, 1, 0);
	send_text(high, SL_DIR_HEAD_ACT, 3, 0);
	send_text(padded, SL_DIR_HEAD_ACT, 1, 1);
	send_text(grad, SL_DIR_MID_GRAD, 1, 1);
	for (int i = 0; i < 4; i++) {
		assert_true(low[i] != x[i]);
		assert_true(fabsf(low[i] - (high[i] - low[i]) / 2 - x[i]) > 1e-3f);
		assert_true(padded[i] == low[i] && grad[i] == low[i]);
	}
	for (int i = 4; i < 6; i++) {
		assert_true(padded[i] != x[i]);
		assert_true(grad[i] == x[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tail_s_gradient_is_looked_at),
		cmocka_unit_test(a_loss_is_looked_at),
		cmocka_unit_test(a_chunk_s_loss_is_its_own_mean_where_asked_for),
		cmocka_unit_test(labels_are_smoothed_in_training_alone),
		cmocka_unit_test(head_act_s_dependence_on_inputs_is_that_of_the_samples_that_count),
		cmocka_unit_test(several_values_are_looked_at_together),
		cmocka_unit_test(noise_cannot_be_subtracted_and_ignores_padding),
	};
	struct sl_fail fail;
	int failed;

	if (sl_cpu_backend_open(&be, NULL, &fail) != SL_OK)
		return 1;
	plan = open_plan(0);
	if (!plan)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	sl_plan_close(plan);
	be.ops->close(&be);
	return failed;
}
