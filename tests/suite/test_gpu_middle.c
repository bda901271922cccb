/* A whole middle on a GPU: against the reference, in every precision, and bit-identical when
 * repeated or run by graphs. Skipped, and counted, if there is no device. */
#include <math.h>

#include "common/base/rng.h"
#include "common/exec/exec.h"
#include "kernels/module.h"
#include "tests/ref/ref.h"
#include "tests/support/gpu.h"
#include "tests/support/op_case.h"
#include "tests/support/plan_open.h"
#include "tests/support/settle.h"
#include "tests/support/unit.h"

enum { SEED = 11, BATCH = 10, CHUNKS = 4 }; /* chunks of 3, 3, 3 and 1 */

static void settle(struct sl_backend *be)
{
	assert_int_equal(backend_settle(be), SL_OK);
}

static void fill(float *out, int64_t count, uint16_t stream)
{
	const struct sl_rng_key key = {.seed = SEED, .tensor = stream};

	for (int64_t i = 0; i < count; i += 2) {
		float two[2];

		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)i), sl_rng_u32(&key, (uint64_t)i + 1), two);
		out[i] = two[0];
		if (i + 1 < count)
			out[i + 1] = two[1];
	}
}

/* ---- a middle, trained for some steps */

struct outcome {
	int64_t out_count, din_count, weight_count, trainable_count;
	float *out, *din, *grad, *weight; /* all of the first step, except weight: after the last commit */
};

static void outcome_free(struct outcome *o)
{
	free(o->out);
	free(o->din);
	free(o->grad);
	free(o->weight);
}

/* Compares bit for bit. */
static void assert_same_outcome(const struct outcome *a, const struct outcome *b)
{
	assert_memory_equal(a->out, b->out, (size_t)a->out_count * sizeof(float));
	assert_memory_equal(a->din, b->din, (size_t)a->din_count * sizeof(float));
	assert_memory_equal(a->grad, b->grad, (size_t)a->trainable_count * sizeof(float));
	assert_memory_equal(a->weight, b->weight, (size_t)a->weight_count * sizeof(float));
}

static void load_weights(struct sl_exec *exec, const struct sl_plan *plan)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	float *weights = op_xalloc((size_t)s->weight_count * sizeof(float));

	for (int i = 0; i < s->n_param; i++)
		sl_param_init(&plan->model->graph.param[s->param[i].model_param], SEED, weights + s->param[i].offset);
	assert_int_equal(sl_exec_set_weights(exec, weights), SL_OK);
	free(weights);
}

static void upload(struct sl_backend *be, const struct sl_tensor *t, uint16_t stream)
{
	const int64_t count = sl_shape_count(&t->shape);
	float *host = op_xalloc((size_t)count * sizeof(float));

	fill(host, count, stream);
	assert_int_equal(be->ops->upload(be, t->data, host, (size_t)count * sizeof(float)), SL_OK);
	free(host);
}

static int64_t download(struct sl_backend *be, float *to, const struct sl_tensor *t)
{
	const int64_t count = sl_shape_count(&t->shape);

	assert_int_equal(be->ops->download(be, to, t->data, (size_t)count * sizeof(float)), SL_OK);
	return count;
}

/* Without `training` norms use running statistics, and nothing is committed. */
static void run_step(struct outcome *o, struct sl_exec *exec, struct sl_backend *be, const struct sl_plan *plan,
		     int step, bool training)
{
	/* These gradients belong to no loss and need no scale; another scale would overflow half. */
	const struct sl_loss_scale scale = {1, 0};
	int64_t rows[CHUNKS], out_at = 0, din_at = 0;

	assert_int_equal(sl_exec_set_loss_scale(exec, scale), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	for (int c = 0; c < CHUNKS; c++) {
		struct sl_exec_call call = {.slot = c, .chunk = c, .step = (uint64_t)step, .training = training};
		struct sl_tensor t;

		rows[c] = sl_plan_chunk_rows(plan, BATCH, c);
		call.dims = sl_dims_rows(rows[c]);
		t = sl_exec_input(exec, c, rows[c]);
		upload(be, &t, (uint16_t)(100 * step + c));
		assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
		t = sl_exec_output(exec, c, rows[c]);
		if (step == 0)
			out_at += download(be, o->out + out_at, &t);
	}
	for (int c = 0; c < CHUNKS; c++) {
		struct sl_exec_call call = {.slot = c,
					    .chunk = c,
					    .dims = sl_dims_rows(rows[c]),
					    .step = (uint64_t)step,
					    .training = training};
		struct sl_tensor t = sl_exec_dout(exec, c, rows[c]);

		upload(be, &t, (uint16_t)(100 * step + 50 + c));
		assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
		t = sl_exec_din(exec, c, rows[c]);
		if (step == 0)
			din_at += download(be, o->din + din_at, &t);
	}
	if (step == 0)
		assert_int_equal(sl_exec_get_gradients(exec, o->grad), SL_OK);
	if (training)
		assert_int_equal(sl_exec_commit(exec, 0.05, rows, CHUNKS), SL_OK);
	settle(be);
}

struct training {
	int steps;
	double dropout; /* > 0: the middle ends with one */
	double width;   /* 0: 0.5 */
	enum sl_precision precision;
	const char *tail_begin; /* NULL: the classifier */
	bool adamw;             /* else SGD */
	bool chunk_sums;
	bool constant; /* norms use running statistics */
};

static struct sl_plan *plan_of(const struct training *t)
{
	static const struct sl_optimizer sgd = {.momentum = 0.9, .weight_decay = 1e-4, .nesterov = true};
	static const struct sl_optimizer adamw = {
		.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1};
	const char *last = t->dropout > 0 ? "classifier.1" : "classifier";
	struct sl_split_spec spec = {.model = {.name = "mobilenet_v2",
					       .width = t->width > 0 ? t->width : 0.5,
					       .classes = 10,
					       .image = 32,
					       .cifar_stem = true,
					       .dropout = t->dropout},
				     .cut = {.head_end = "features.0.1"},
				     .plan.batch = BATCH,
				     .plan.chunks = CHUNKS,
				     .plan.seed = SEED,
				     .plan.precision = t->precision,
				     .plan.chunk_sums = t->chunk_sums,
				     .plan.optimizer = t->adamw ? adamw : sgd};
	struct sl_fail fail = {0};
	struct sl_plan *plan;

	snprintf(spec.cut.tail_begin, sizeof spec.cut.tail_begin, "%s", t->tail_begin ? t->tail_begin : last);
	if (plan_open(&plan, &spec, &fail))
		fail_msg("%s", fail.text);
	return plan;
}

static struct outcome train_as(struct sl_backend *be, const struct training *t)
{
	struct sl_plan *plan = plan_of(t);
	struct sl_fail fail = {0};
	const struct sl_plan_segment *s;
	struct sl_exec *exec;
	struct outcome o;

	if (sl_exec_open(&exec, plan, SL_MIDDLE, be, &fail))
		fail_msg("%s", fail.text);
	s = sl_exec_segment(exec);
	o = (struct outcome){.out_count = BATCH * sl_shape_row(&s->out_shape),
			     .din_count = BATCH * sl_shape_row(&s->in_shape),
			     .weight_count = s->weight_count,
			     .trainable_count = s->trainable_count};
	o.out = op_xalloc((size_t)o.out_count * sizeof(float));
	o.din = op_xalloc((size_t)o.din_count * sizeof(float));
	o.grad = op_xalloc((size_t)o.trainable_count * sizeof(float));
	o.weight = op_xalloc((size_t)o.weight_count * sizeof(float));
	load_weights(exec, plan);
	for (int step = 0; step < t->steps; step++)
		run_step(&o, exec, be, plan, step, !t->constant);
	assert_int_equal(sl_exec_get_weights(exec, o.weight), SL_OK);
	sl_exec_close(exec);
	sl_plan_close(plan);
	return o;
}

static struct outcome train_with(struct sl_backend *be, int steps, double dropout)
{
	return train_as(be, &(struct training){.steps = steps, .dropout = dropout});
}

static struct outcome train(struct sl_backend *be, int steps)
{
	return train_with(be, steps, 0);
}

/* An activation within rounding of a kink of ReLU6 may fall on the other side, and then its
 * gradient is entirely wrong. If a share of 1e-5 of them does, the norm of the error is sqrt(1e-5)
 * of the gradient's, or more. The CPU backend in fp32 is at 1e-2 here. test_ops shows that each op
 * is right to 1e-5; this test shows that they fit together. */
static void test_middle_against_ref(void **state)
{
	struct sl_backend ref;
	struct outcome got, want;
	struct sl_fail fail;

	NEEDS_GPU();
	assert_int_equal(sl_ref_backend_open(&ref, &fail), SL_OK);
	got = train(&gpu, 1);
	want = train(&ref, 1);
	ref.ops->close(&ref);
	print_message("relative errors: output %.2e, input's gradient %.2e, weights' gradients %.2e, weights %.2e\n",
		      op_relative_error(got.out, want.out, got.out_count),
		      op_relative_error(got.din, want.din, got.din_count),
		      op_relative_error(got.grad, want.grad, got.trainable_count),
		      op_relative_error(got.weight, want.weight, got.weight_count));
	assert_true(op_relative_error(got.out, want.out, got.out_count) < 1e-4);
	assert_true(op_relative_error(got.din, want.din, got.din_count) < 0.05);
	assert_true(op_relative_error(got.grad, want.grad, got.trainable_count) < 0.05);
	assert_true(op_relative_error(got.weight, want.weight, got.weight_count) < 0.05);
	outcome_free(&got);
	outcome_free(&want);
}

/* One step in each precision, against the reference in double. Usual errors were measured with a
 * reference that rounds as these kernels should (tests/support/mixed.h). */
static void check_precision(enum sl_precision precision, const char *tail_begin, double width, double out, double grad)
{
	const struct training low = {.steps = 1, .precision = precision, .tail_begin = tail_begin, .width = width};
	struct training full = low;
	struct outcome got, want;
	struct sl_backend ref;
	struct sl_fail fail;

	full.precision = SL_PRECISION_FP32;
	assert_int_equal(sl_ref_backend_open(&ref, &fail), SL_OK);
	got = train_as(&gpu, &low);
	want = train_as(&ref, &full);
	ref.ops->close(&ref);
	print_message("relative errors, %s, to %s: output %.2e, input's gradient %.2e, weights' gradients %.2e\n",
		      sl_precision_name(precision), tail_begin, op_relative_error(got.out, want.out, got.out_count),
		      op_relative_error(got.din, want.din, got.din_count),
		      op_relative_error(got.grad, want.grad, got.trainable_count));
	assert_true(op_relative_error(got.out, want.out, got.out_count) < out);
	assert_true(op_relative_error(got.din, want.din, got.din_count) < grad);
	assert_true(op_relative_error(got.grad, want.grad, got.trainable_count) < grad);
	outcome_free(&got);
	outcome_free(&want);
}

/* Depthwise convolutions of both strides, which do half of the work of the norms in front of them. Few elements are
 * near a kink here, so errors are those of rounding. */
static void test_fp32_first_blocks(void **state)
{
	NEEDS_GPU();
	for (int constant = 0; constant < 2; constant++) {
		const struct training t = {.steps = 1, .tail_begin = "features.4", .width = 0.25, .constant = constant};
		struct sl_backend ref;
		struct outcome got, want;
		struct sl_fail fail;

		assert_int_equal(sl_ref_backend_open(&ref, &fail), SL_OK);
		got = train_as(&gpu, &t);
		want = train_as(&ref, &t);
		ref.ops->close(&ref);
		print_message("relative errors: output %.2e, input's gradient %.2e, weights' gradients %.2e\n",
			      op_relative_error(got.out, want.out, got.out_count),
			      op_relative_error(got.din, want.din, got.din_count),
			      op_relative_error(got.grad, want.grad, got.trainable_count));
		assert_true(op_relative_error(got.out, want.out, got.out_count) < 1e-5);
		assert_true(op_relative_error(got.din, want.din, got.din_count) < 1e-5);
		assert_true(op_relative_error(got.grad, want.grad, got.trainable_count) < 1e-5);
		outcome_free(&got);
		outcome_free(&want);
	}
}

static bool has(enum sl_precision precision)
{
	if (gpu.ops->precisions >> precision & 1)
		return true;
	print_message("SKIP this device has no %s\n", sl_precision_name(precision));
	return false;
}

/* out and grad are error bounds by precision. */
static void check_precisions(const char *tail_begin, double width, const double out[SL_PRECISION_COUNT],
			     const double grad[SL_PRECISION_COUNT])
{
	for (int p = SL_PRECISION_TF32; p < SL_PRECISION_COUNT; p++)
		if (has((enum sl_precision)p))
			check_precision((enum sl_precision)p, tail_begin, width, out[p], grad[p]);
}

/* The first blocks, whose gradients suffer little from kinks. */
static void test_precisions_first_blocks(void **state)
{
	static const double out[SL_PRECISION_COUNT] = {0, 0.01, 0.04, 0.005},
			    grad[SL_PRECISION_COUNT] = {0, 0.15, 0.35, 0.12};

	NEEDS_GPU();
	check_precisions("features.4", 0.1, out, grad);
}

/* Measured on a simulated device: outputs 0.034, 0.35, 0.057, gradients 0.41, 1.2, 0.51. With
 * random weights and chunks of three images, every batchnorm amplifies the errors of the ops before
 * it. For bf16's gradients this shows little more than that they exist. */
static void test_precisions_middle(void **state)
{
	static const double out[SL_PRECISION_COUNT] = {0, 0.06, 0.5, 0.09},
			    grad[SL_PRECISION_COUNT] = {0, 0.6, 1.4, 0.75};

	NEEDS_GPU();
	check_precisions("classifier", 0.5, out, grad);
}

/* Without graphs and, if the device can record passes, with them. */
static void test_fp16_repeats(void **state)
{
	const struct sl_module_options options = {.graphs = true};
	const struct training t = {
		.steps = 6, .dropout = 0.2, .precision = SL_PRECISION_FP16, .width = 0.1, .adamw = true};
	struct sl_backend recorded;
	struct outcome a, b;
	struct sl_fail fail;

	NEEDS_GPU();
	assert_int_equal(sl_module_open_with(NULL, &recorded, &options, &fail), SL_OK);
	a = train_as(&gpu, &t);
	b = train_as(&recorded, &t);
	assert_same_outcome(&a, &b);
	outcome_free(&a);
	outcome_free(&b);
	recorded.ops->close(&recorded);
}

static void pass_of_one(struct sl_exec *exec, const struct sl_plan *plan, int64_t rows[CHUNKS])
{
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	for (int c = 0; c < CHUNKS; c++) {
		struct sl_exec_call call = {.slot = c, .chunk = c, .training = true};
		struct sl_tensor t;

		rows[c] = sl_plan_chunk_rows(plan, BATCH, c);
		call.dims = sl_dims_rows(rows[c]);
		t = sl_exec_input(exec, c, rows[c]);
		upload(&gpu, &t, (uint16_t)c);
		assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
		t = sl_exec_dout(exec, c, rows[c]);
		upload(&gpu, &t, (uint16_t)(50 + c)); /* values of about 1, which overflow when multiplied by 65536 */
		assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
	}
}

/* Gradients that overflow because of the scale are detected, nothing is applied, and a smaller
 * scale works. Recorded passes use the current scale, too. */
static void test_fp16_overflow_is_found(void **state)
{
	const struct training t = {.precision = SL_PRECISION_FP16, .tail_begin = "features.4", .width = 0.1};
	const struct sl_module_options options = {.graphs = true};
	struct sl_backend plain = gpu, recorded;
	struct sl_fail fail;
	int64_t rows[CHUNKS];
	int left_out[2] = {0};

	NEEDS_GPU();
	assert_int_equal(sl_module_open_with(NULL, &recorded, &options, &fail), SL_OK);
	for (int i = 0; i < 2; i++) {
		struct sl_plan *plan = plan_of(&t);
		struct sl_exec *exec;

		gpu = i ? recorded : plain;
		if (sl_exec_open(&exec, plan, SL_MIDDLE, &gpu, &fail))
			fail_msg("%s", fail.text);
		load_weights(exec, plan);
		for (pass_of_one(exec, plan, rows); sl_exec_check(exec, rows, CHUNKS, &fail);
		     pass_of_one(exec, plan, rows)) {
			assert_int_equal(fail.code, SL_ERR_NONFINITE);
			assert_true(left_out[i]++ < 20);
			assert_int_equal(sl_exec_skip(exec), SL_OK);
		}
		print_message("%d steps left out, scale %g\n", left_out[i], (double)sl_exec_loss_scale(exec).scale);
		assert_int_equal(sl_exec_commit(exec, 0.05, rows, CHUNKS), SL_OK);
		assert_int_equal(sl_exec_loss_scale(exec).good, 1);
		settle(&gpu);
		sl_exec_close(exec);
		sl_plan_close(plan);
	}
	gpu = plain;
	recorded.ops->close(&recorded);
	assert_true(left_out[0] > 0);
	assert_int_equal(left_out[0], left_out[1]);
}

static void test_same_bits_twice(void **state)
{
	NEEDS_GPU();
	for (int i = 0; i < 2; i++) {
		const struct training t = {.steps = 2, .adamw = i == 1};
		struct outcome a = train_as(&gpu, &t), b = train_as(&gpu, &t);

		assert_same_outcome(&a, &b);
		outcome_free(&a);
		outcome_free(&b);
	}
}

/* Passes that are plain, then recorded, then launched give the same bits as plain ones alone, also
 * with dropout, whose random numbers change at every step. */
static void test_graphs_give_the_same_bits(void **state)
{
	const struct sl_module_options options = {.graphs = true};
	struct sl_backend recorded;
	struct sl_fail fail;

	NEEDS_GPU();
	assert_int_equal(sl_module_open_with(NULL, &recorded, &options, &fail), SL_OK);
	assert_non_null(recorded.ops->pass_begin);
	for (int i = 0; i < 2; i++) {
		struct outcome a = train_with(&gpu, 6, i * 0.2), b = train_with(&recorded, 6, i * 0.2);

		assert_same_outcome(&a, &b);
		outcome_free(&a);
		outcome_free(&b);
	}
	recorded.ops->close(&recorded);
}

/* The gradients of chunks [from, to). */
static float *gradients_of(struct sl_exec *exec, const struct sl_plan *plan, int from, int to)
{
	float *grad = op_xalloc((size_t)sl_exec_segment(exec)->trainable_count * sizeof(float));

	assert_int_equal(sl_exec_begin(exec), SL_OK);
	for (int c = from; c < to; c++) {
		const int64_t rows = sl_plan_chunk_rows(plan, BATCH, c);
		const struct sl_exec_call call = {.slot = c, .chunk = c, .dims = sl_dims_rows(rows), .training = true};
		struct sl_tensor t = sl_exec_input(exec, c, rows);

		upload(&gpu, &t, (uint16_t)c);
		assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
		t = sl_exec_dout(exec, c, rows);
		upload(&gpu, &t, (uint16_t)(50 + c));
		assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
	}
	assert_int_equal(sl_exec_get_gradients(exec, grad), SL_OK);
	return grad;
}

/* The sum over chunks is bit-identical to one addition per chunk. */
static void test_chunks_are_summed_apart(void **state)
{
	struct sl_plan *plan;
	struct sl_exec *exec;
	struct sl_fail fail;
	float *sum, *whole;
	int64_t count;

	NEEDS_GPU();
	plan = plan_of(&(struct training){.width = 0.25, .tail_begin = "features.4", .chunk_sums = true});
	if (sl_exec_open(&exec, plan, SL_MIDDLE, &gpu, &fail))
		fail_msg("%s", fail.text);
	load_weights(exec, plan);
	count = sl_exec_segment(exec)->trainable_count;
	sum = gradients_of(exec, plan, 0, 1);
	for (int c = 1; c < CHUNKS; c++) {
		float *one = gradients_of(exec, plan, c, c + 1);

		for (int64_t i = 0; i < count; i++)
			sum[i] += one[i];
		free(one);
	}
	whole = gradients_of(exec, plan, 0, CHUNKS);
	assert_memory_equal(whole, sum, (size_t)count * sizeof *sum);
	free(whole);
	free(sum);
	sl_exec_close(exec);
	sl_plan_close(plan);
}

/* The sum over members is bit-identical to the host's sum in their order. */
static void test_members_are_summed_in_order(void **state)
{
	enum { MEMBERS = CHUNKS };
	const float factor = 4.0f / 3;
	struct sl_plan *plan;
	struct sl_exec *trunk, *member[MEMBERS];
	struct sl_fail fail;
	float *sum = NULL, *told;
	int64_t count;

	NEEDS_GPU();
	plan = plan_of(&(struct training){.width = 0.25, .tail_begin = "features.4"});
	if (sl_exec_prepare(&trunk, plan, SL_MIDDLE, &gpu, &fail) || sl_exec_bare(trunk, &fail) ||
	    sl_exec_allocate(trunk, &fail))
		fail_msg("%s", fail.text);
	load_weights(trunk, plan);
	count = sl_exec_segment(trunk)->trainable_count;
	assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
	for (int k = 0; k < MEMBERS; k++) {
		float *one;

		if (sl_exec_prepare(&member[k], plan, SL_MIDDLE, &gpu, &fail) ||
		    sl_exec_borrow(member[k], trunk, &fail) || sl_exec_allocate(member[k], &fail))
			fail_msg("%s", fail.text);
		one = gradients_of(member[k], plan, k, k + 1);
		assert_int_equal(sl_exec_fold_add(trunk, member[k], NULL, 0), SL_OK);
		for (int64_t i = 0; i < count && sum; i++)
			sum[i] += one[i];
		if (sum)
			free(one);
		else
			sum = one;
	}
	assert_int_equal(sl_exec_fold_end(trunk, (double)factor), SL_OK);
	for (int64_t i = 0; i < count; i++)
		sum[i] *= factor;
	told = calloc((size_t)count, sizeof *told);
	assert_non_null(told);
	assert_int_equal(sl_exec_get_gradients(trunk, told), SL_OK);
	assert_memory_equal(told, sum, (size_t)count * sizeof *sum);
	free(told);
	free(sum);
	for (int k = 0; k < MEMBERS; k++)
		sl_exec_close(member[k]);
	sl_exec_close(trunk);
	sl_plan_close(plan);
}

/* usage: test_gpu_middle [TEST], such as '*graphs*' */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_middle_against_ref),
		cmocka_unit_test(test_precisions_first_blocks),
		cmocka_unit_test(test_fp32_first_blocks),
		cmocka_unit_test(test_precisions_middle),
		cmocka_unit_test(test_fp16_repeats),
		cmocka_unit_test(test_fp16_overflow_is_found),
		cmocka_unit_test(test_same_bits_twice),
		cmocka_unit_test(test_graphs_give_the_same_bits),
		cmocka_unit_test(test_chunks_are_summed_apart),
		cmocka_unit_test(test_members_are_summed_in_order),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (argc > 2)
		cmocka_set_skip_filter(argv[2]);
	return cmocka_run_group_tests_name("gpu middle", tests, gpu_open, gpu_close);
}
