/* The states of the loss scale, and executors whose middle is stored in 16 bits: the edges at the cut, memory,
 * overflow, and what a step and a checkpoint include. They run on the reference backend with 16-bit storage
 * (tests/support/mixed.h); test_ops and test_gpu compare the device's kernels. */
#include <math.h>
#include <unistd.h>

#include "common/exec/exec.h"
#include "common/session/state.h"
#include "tests/ref/ref.h"
#include "tests/support/asked.h"
#include "tests/support/mixed.h"
#include "tests/support/op_case.h"
#include "tests/support/unit.h"

enum { SEED = 5, BATCH = 8, CHUNKS = 2, ROWS = BATCH / CHUNKS };

/* ---- the loss scale */

static void it_doubles_after_so_many_steps_and_halves_at_once(void **state)
{
	struct sl_loss_scale s = sl_loss_scale_first();

	for (int i = 0; i < SL_LOSS_SCALE_STEPS; i++) {
		assert_true(s.scale == SL_LOSS_SCALE_FIRST);
		assert_int_equal(s.good, i);
		s = sl_loss_scale_applied(s);
	}
	assert_true(s.scale == 2 * SL_LOSS_SCALE_FIRST);
	assert_int_equal(s.good, 0);
	s = sl_loss_scale_applied(s);
	s = sl_loss_scale_skipped(s);
	assert_true(s.scale == SL_LOSS_SCALE_FIRST);
	assert_int_equal(s.good, 0);
}

static void it_stays_within_bounds(void **state)
{
	struct sl_loss_scale s = sl_loss_scale_first();

	for (int i = 0; i < 40; i++)
		s = sl_loss_scale_skipped(s);
	assert_true(s.scale == SL_LOSS_SCALE_LEAST);
	for (int i = 0; i < 60 * SL_LOSS_SCALE_STEPS; i++) {
		s = sl_loss_scale_applied(s);
		assert_true(sl_loss_scale_valid(s));
	}
	assert_true(s.scale == SL_LOSS_SCALE_MOST);
}

static void what_is_no_state_is_not_read(void **state)
{
	static const float bad[][2] = {{0, 0},
				       {-65536, 0},
				       {NAN, 0},
				       {INFINITY, 0},
				       {65535, 0},
				       {0x1p25f, 0},
				       {0x1p-15f, 0},
				       {65536, -1},
				       {65536, NAN},
				       {65536, 0.5f},
				       {65536, SL_LOSS_SCALE_STEPS}};
	struct sl_loss_scale s = {4096, 17}, read = {1, 0};
	float two[2];

	sl_loss_scale_write(s, two);
	assert_true(sl_loss_scale_read(&read, two));
	assert_memory_equal(&s, &read, sizeof s);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_false(sl_loss_scale_read(&read, bad[i]));
		assert_memory_equal(&s, &read, sizeof s);
	}
}

/* ---- executors */

struct rig {
	struct sl_backend be;
	struct sl_plan *plan;
	struct sl_exec *exec;
};

/* Options of the rigs below. */
static struct sl_optimizer optimizer = {.momentum = 0.9};
static const struct sl_conf_list *freeze;
static bool no_head_grad;

static struct sl_plan *open_plan(enum sl_precision precision, const char *insert)
{
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.1, 10, 32, true, 0.2, 0, 0, 0, 0},
				     .cut = {.head_end = "features.0.1", .tail_begin = "features.5"},
				     .freeze = freeze,
				     .plan.no_grad = {no_head_grad},
				     .plan.batch = BATCH,
				     .plan.chunks = CHUNKS,
				     .plan.seed = SEED,
				     .plan.precision = precision,
				     .plan.optimizer = optimizer};
	struct sl_plan *plan;
	struct sl_fail fail;

	snprintf(spec.insert_head, sizeof spec.insert_head, "%s", insert);
	if (plan_open(&plan, &spec, &fail))
		fail_msg("%s", fail.text);
	return plan;
}

static void open_rig(struct rig *r, enum sl_precision precision, const char *insert)
{
	const struct sl_plan_segment *s;
	struct sl_fail fail;
	float *weights;

	r->plan = open_plan(precision, insert);
	if (mixed_backend_open(&r->be, &fail) || sl_exec_open(&r->exec, r->plan, SL_MIDDLE, &r->be, &fail))
		fail_msg("%s", fail.text);
	s = sl_exec_segment(r->exec);
	weights = op_xalloc((size_t)s->weight_count * sizeof(float));
	for (int i = 0; i < s->n_param; i++)
		sl_param_init(&r->plan->model->graph.param[s->param[i].model_param], SEED,
			      weights + s->param[i].offset);
	assert_int_equal(sl_exec_set_weights(r->exec, weights), SL_OK);
	free(weights);
}

static void close_rig(struct rig *r)
{
	sl_exec_close(r->exec);
	r->be.ops->close(&r->be);
	sl_plan_close(r->plan);
}

static void fill(struct sl_tensor t, uint16_t stream, float size)
{
	const struct sl_rng_key key = {.seed = SEED, .tensor = stream};
	float *x = t.data;

	assert_int_equal(t.dtype, SL_F32);
	for (int64_t i = 0; i < sl_shape_count(&t.shape); i++)
		x[i] = size * (2 * sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 1);
}

/* Forward and backward pass of a step; `size` is the magnitude of the incoming gradient. */
static void pass(struct rig *r, float size)
{
	assert_int_equal(sl_exec_begin(r->exec), SL_OK);
	for (int c = 0; c < CHUNKS; c++) {
		const struct sl_exec_call call = {.slot = c, .chunk = c, .dims = sl_dims_rows(ROWS), .training = true};

		fill(sl_exec_input(r->exec, c, ROWS), (uint16_t)c, 2);
		assert_int_equal(sl_exec_forward(r->exec, &call, NULL), SL_OK);
	}
	for (int c = 0; c < CHUNKS; c++) {
		const struct sl_exec_call call = {.slot = c, .chunk = c, .dims = sl_dims_rows(ROWS), .training = true};

		fill(sl_exec_dout(r->exec, c, ROWS), (uint16_t)(50 + c), size);
		assert_int_equal(sl_exec_backward(r->exec, &call, NULL), SL_OK);
	}
}

static enum sl_err finish(struct rig *r)
{
	const int64_t rows[CHUNKS] = {ROWS, ROWS};
	struct sl_fail fail;
	enum sl_err err = sl_exec_check(r->exec, rows, CHUNKS, &fail);

	return err ? err : sl_exec_commit(r->exec, 0.05, rows, CHUNKS);
}

static float *weights_of(struct rig *r)
{
	float *w = op_xalloc((size_t)sl_exec_segment(r->exec)->weight_count * sizeof(float));

	assert_int_equal(sl_exec_get_weights(r->exec, w), SL_OK);
	return w;
}

static float *gradients_of(struct rig *r)
{
	float *g = op_xalloc((size_t)sl_exec_segment(r->exec)->trainable_count * sizeof(float));

	assert_int_equal(sl_exec_get_gradients(r->exec, g), SL_OK);
	return g;
}

/* Results are so near to fp32 that nothing can be misplaced. An output is off by some units in the
 * last place. A gradient is off by more: if a share s of the activations falls on the other side of
 * a kink of ReLU6, by about sqrt(s) of its norm. */
static void sixteen_bits_are_near_fp32(void **state)
{
	static const struct {
		enum sl_precision precision;
		double out, grad;
	} most[] = {{SL_PRECISION_FP16, 0.005, 0.12}, {SL_PRECISION_BF16, 0.04, 0.35}};
	struct rig want, got;
	float *w, *g;

	open_rig(&want, SL_PRECISION_FP32, "");
	pass(&want, 1e-5f);
	w = gradients_of(&want);
	for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
		struct sl_tensor a, b;

		open_rig(&got, most[i].precision, "");
		assert_true(sl_exec_memory(got.exec).slots < sl_exec_memory(want.exec).slots * 3 / 4);
		pass(&got, 1e-5f);
		g = gradients_of(&got);
		a = sl_exec_output(got.exec, 1, ROWS);
		b = sl_exec_output(want.exec, 1, ROWS);
		print_message("%s: output %.1e, gradients %.1e\n", sl_precision_name(most[i].precision),
			      op_relative_error(a.data, b.data, sl_shape_count(&a.shape)),
			      op_relative_error(g, w, want.plan->segment[SL_MIDDLE].trainable_count));
		assert_true(op_relative_error(a.data, b.data, sl_shape_count(&a.shape)) < most[i].out);
		assert_true(op_relative_error(g, w, want.plan->segment[SL_MIDDLE].trainable_count) < most[i].grad);
		a = sl_exec_din(got.exec, 0, ROWS);
		b = sl_exec_din(want.exec, 0, ROWS);
		assert_true(op_relative_error(a.data, b.data, sl_shape_count(&a.shape)) < most[i].grad);
		free(g);
		close_rig(&got);
	}
	free(w);
	close_rig(&want);
}

/* Frozen weights have a 16-bit copy too, at a place of its own. Outputs and the parameters that
 * learn are as without it. */
static void frozen_weights_compute_in_sixteen_bits(void **state)
{
	static const struct sl_conf_list front = {1, {"features.[1-3].*"}};
	struct rig want, got;
	float *w, *g, *after;
	int64_t learn = 0, still = 0;

	open_rig(&want, SL_PRECISION_BF16, "");
	freeze = &front;
	no_head_grad = true;
	open_rig(&got, SL_PRECISION_BF16, "");
	freeze = NULL;
	no_head_grad = false;
	assert_true(sl_exec_memory(got.exec).slots < sl_exec_memory(want.exec).slots);
	assert_null(sl_exec_din(got.exec, 0, ROWS).data);
	pass(&want, 1e-5f);
	pass(&got, 1e-5f);
	w = gradients_of(&want);
	g = gradients_of(&got);
	for (int i = 0; i < got.plan->segment[SL_MIDDLE].n_param; i++) {
		const struct sl_plan_segment *s = &got.plan->segment[SL_MIDDLE], *o = &want.plan->segment[SL_MIDDLE];
		const struct sl_segment_param *p = &s->param[i], *q = NULL;

		for (int k = 0; k < o->n_param; k++)
			if (o->param[k].model_param == p->model_param)
				q = &o->param[k];
		assert_non_null(q);
		if (s->graph.param[p->graph_param].role != SL_LEARNS)
			continue;
		assert_memory_equal(g + p->offset, w + q->offset, (size_t)p->count * sizeof *g);
		learn += p->count;
	}
	free(w);
	free(g);
	w = weights_of(&got);
	assert_int_equal(finish(&got), SL_OK);
	after = weights_of(&got);
	for (int64_t i = got.plan->segment[SL_MIDDLE].moving_count; i < got.plan->segment[SL_MIDDLE].weight_count; i++)
		still += memcmp(&w[i], &after[i], sizeof *w) == 0;
	assert_int_equal(still, got.plan->segment[SL_MIDDLE].weight_count - got.plan->segment[SL_MIDDLE].moving_count);
	assert_true(learn > 0 && still > 0);
	free(w);
	free(after);
	close_rig(&want);
	close_rig(&got);
}

static void small_gradients_live_by_the_scale(void **state)
{
	struct rig want, got;
	float *w, *g;
	int64_t count;

	open_rig(&want, SL_PRECISION_FP32, "");
	open_rig(&got, SL_PRECISION_FP16, "");
	count = want.plan->segment[SL_MIDDLE].trainable_count;
	pass(&want, 1e-7f);
	pass(&got, 1e-7f); /* the least positive number of fp16 is 6e-8 */
	w = gradients_of(&want);
	g = gradients_of(&got);
	assert_true(op_relative_error(g, w, count) < 0.2);
	free(g);
	assert_int_equal(sl_exec_set_loss_scale(got.exec, (struct sl_loss_scale){1, 0}), SL_OK);
	pass(&got, 1e-7f);
	g = gradients_of(&got);
	assert_false(op_relative_error(g, w, count) < 0.2);
	free(g);
	free(w);
	close_rig(&want);
	close_rig(&got);
}

static void an_overflow_leaves_the_step_out_and_halves_the_scale(void **state)
{
	struct rig r;
	const int64_t rows[CHUNKS] = {ROWS, ROWS};
	float *before, *after, *first, *again;
	struct sl_fail fail;
	size_t bytes;

	open_rig(&r, SL_PRECISION_FP16, "");
	bytes = (size_t)sl_exec_segment(r.exec)->weight_count * sizeof(float);
	pass(&r, 1e-5f);
	assert_int_equal(finish(&r), SL_OK);
	assert_int_equal(sl_exec_loss_scale(r.exec).good, 1);
	before = weights_of(&r);
	pass(&r, 4); /* overflows fp16, times the scale of 65536 */
	assert_int_equal(sl_exec_check(r.exec, rows, CHUNKS, &fail), SL_ERR_NONFINITE);
	assert_non_null(strstr(fail.text, ", at a loss scale of 65536"));
	after = weights_of(&r);
	assert_memory_equal(before, after, bytes);
	assert_true(sl_exec_loss_scale(r.exec).scale == SL_LOSS_SCALE_FIRST); /* until both sides skip the step */
	/* the abandoned step left no trace: the same pass gives the same gradients */
	pass(&r, 1e-5f);
	first = gradients_of(&r);
	pass(&r, 1e-5f);
	again = gradients_of(&r);
	assert_memory_equal(first, again, (size_t)sl_exec_segment(r.exec)->trainable_count * sizeof(float));
	pass(&r, 4);
	assert_int_equal(finish(&r), SL_ERR_NONFINITE);
	assert_int_equal(sl_exec_skip(r.exec), SL_OK);
	assert_true(sl_exec_loss_scale(r.exec).scale == SL_LOSS_SCALE_FIRST / 2);
	assert_int_equal(sl_exec_loss_scale(r.exec).good, 0);
	pass(&r, 1e-5f);
	assert_int_equal(finish(&r), SL_OK);
	free(before);
	free(after);
	free(first);
	free(again);
	close_rig(&r);
}

/* The L1 gradient on columns that a decaying insert will drop does not come from the loss, so the
 * loss scale does not apply. */
static void the_pull_of_a_decaying_insert_is_not_scaled(void **state)
{
	static const char insert[] = "decaylinear:rate=0.5,every=10,times=2,l1=0.25";
	struct rig want, got;
	float *w, *g;
	int seen = 0;

	open_rig(&want, SL_PRECISION_FP32, insert);
	open_rig(&got, SL_PRECISION_FP16, insert);
	assert_int_equal(sl_exec_begin(want.exec), SL_OK);
	assert_int_equal(sl_exec_begin(got.exec), SL_OK);
	w = gradients_of(&want);
	g = gradients_of(&got);
	for (int64_t i = 0; i < sl_exec_segment(want.exec)->trainable_count; i++) {
		assert_true(w[i] == g[i]);
		seen += w[i] != 0;
	}
	assert_true(seen > 0);
	free(w);
	free(g);
	close_rig(&want);
	close_rig(&got);
}

/* A checkpoint holds the loss scale: a run that resumes from it equals the run that was not interrupted. */
static void a_checkpoint_holds_the_scale_with(struct sl_optimizer how)
{
	char dir[] = "/tmp/split-mixed-XXXXXX";
	struct sl_exec_state kept, read;
	struct sl_checkpoint c;
	struct sl_fail fail;
	struct rig a, b;
	float *x, *y;

	optimizer = how;
	assert_non_null(mkdtemp(dir));
	open_rig(&a, SL_PRECISION_FP16, "");
	assert_int_equal(sl_exec_skip(a.exec), SL_OK);
	pass(&a, 1e-5f);
	assert_int_equal(finish(&a), SL_OK);
	assert_int_equal(sl_exec_state_open(&kept, sl_exec_segment(a.exec), NULL), SL_OK);
	assert_int_equal(sl_exec_state_take(&kept, a.exec), SL_OK);
	c = (struct sl_checkpoint){.dir = dir, .prefix = "session"};
	sl_exec_state_parts(&kept, &c);
	assert_int_equal(sl_checkpoint_write(&c, 1, &fail), SL_OK);
	open_rig(&b, SL_PRECISION_FP16, "");
	assert_int_equal(sl_exec_set_done(b.exec, 2), SL_OK); /* one of the two steps was skipped */
	assert_int_equal(sl_exec_state_open(&read, sl_exec_segment(b.exec), NULL), SL_OK);
	c = (struct sl_checkpoint){.dir = dir, .prefix = "session"};
	sl_exec_state_parts(&read, &c);
	assert_int_equal(sl_checkpoint_read(&c, 1, &fail), SL_OK);
	assert_int_equal(sl_exec_state_give(&read, b.exec), SL_OK);
	assert_true(sl_exec_loss_scale(b.exec).scale == SL_LOSS_SCALE_FIRST / 2);
	assert_int_equal(sl_exec_loss_scale(b.exec).good, 1);
	pass(&a, 1e-5f);
	pass(&b, 1e-5f);
	assert_int_equal(finish(&a), SL_OK);
	assert_int_equal(finish(&b), SL_OK);
	x = weights_of(&a);
	y = weights_of(&b);
	assert_memory_equal(x, y, (size_t)sl_exec_segment(a.exec)->weight_count * sizeof(float));
	read.scale[0] = 3; /* not a power of two: nothing is restored */
	assert_int_equal(sl_exec_state_give(&read, b.exec), SL_ERR_DATA);
	sl_checkpoint_clear(dir, "session");
	rmdir(dir);
	free(x);
	free(y);
	sl_exec_state_close(&kept);
	sl_exec_state_close(&read);
	close_rig(&a);
	close_rig(&b);
}

/* AdamW's bias correction depends on the number of steps that were applied. Steps that overflowed do not count. */
static void a_checkpoint_holds_the_scale(void **state)
{
	a_checkpoint_holds_the_scale_with((struct sl_optimizer){
		.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1});
	a_checkpoint_holds_the_scale_with((struct sl_optimizer){.momentum = 0.9});
}

static void a_backend_without_it_refuses(void **state)
{
	struct sl_plan *plan = open_plan(SL_PRECISION_BF16, "");
	struct sl_backend be;
	struct sl_exec *exec;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	assert_int_equal(sl_exec_open(&exec, plan, SL_MIDDLE, &be, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "train.precision: the middle runs on ref, which computes in fp32: take that, or "
				       "for bf16 a server with a GPU that has it");
	/* head and tail are fp32 everywhere */
	assert_int_equal(sl_exec_open(&exec, plan, SL_TAIL, &be, &fail), SL_OK);
	sl_exec_close(exec);
	be.ops->close(&be);
	sl_plan_close(plan);
}

static void both_sides_agree_on_it(void **state)
{
	struct asked a = {.agreement.agreed = sl_agreed_default(),
			  .split = {.model = {"mobilenet_v2", 0.25, 10, 32, true, 0.2, 0, 0, 0, 0},
				    .cut = {.partition = "1:-1"}}},
		     b;
	struct sl_bytes text;
	struct sl_plan *plan, *other;
	struct sl_hello hello = {0};
	struct sl_fail fail;

	a.agreement.agreed.precision = SL_CONF_FP16;
	if (asked_settle(&a, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(plan_open(&plan, &a.split, &fail), SL_OK);
	assert_int_equal(sl_agreement_say(&a.agreement, plan, &text, &hello, &fail), SL_OK);
	assert_int_equal(sl_agreement_hear(&b.agreement, &other, text, &fail), SL_OK);
	assert_int_equal(b.agreement.plan.precision, SL_PRECISION_FP16);
	assert_memory_equal(plan->middle_hash, other->middle_hash, sizeof plan->hash);
	sl_plan_close(other);
	free((void *)(uintptr_t)text.data);
	b = a;
	b.agreement.agreed.precision = SL_CONF_FP32;
	assert_int_equal(asked_settle(&b, &fail), SL_OK);
	assert_int_equal(plan_open(&other, &b.split, &fail), SL_OK);
	assert_memory_not_equal(plan->hash, other->hash, sizeof plan->hash);
	sl_plan_close(other);
	sl_plan_close(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_doubles_after_so_many_steps_and_halves_at_once),
		cmocka_unit_test(it_stays_within_bounds),
		cmocka_unit_test(what_is_no_state_is_not_read),
		cmocka_unit_test(sixteen_bits_are_near_fp32),
		cmocka_unit_test(frozen_weights_compute_in_sixteen_bits),
		cmocka_unit_test(small_gradients_live_by_the_scale),
		cmocka_unit_test(an_overflow_leaves_the_step_out_and_halves_the_scale),
		cmocka_unit_test(the_pull_of_a_decaying_insert_is_not_scaled),
		cmocka_unit_test(a_checkpoint_holds_the_scale),
		cmocka_unit_test(a_backend_without_it_refuses),
		cmocka_unit_test(both_sides_agree_on_it),
	};

	return cmocka_run_group_tests_name("mixed", tests, NULL, NULL);
}
