/* The executor: ref and cpu compute the same network; a step is a transaction; memory is known before it is taken. */

#include <math.h>

#include "common/base/pool.h"
#include "common/base/rng.h"
#include "common/graph/graph_text.h"
#include "common/weights/weights.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/small_net.h"
#include "tests/support/unit.h"

/* The number of steps for which two backends are compared: one in `make test`. */
static uint64_t compared_steps(void)
{
	const char *quick = getenv("SPLIT_QUICK");

	return quick && *quick ? 1 : 2;
}

/* |x - y| / |x| over the segment, in the 2-norm. Single elements may differ: near a kink of
 * ReLU6 a rounding error decides whether the gradient passes (test_ops avoids kinks). */
static void assert_close(struct small_net *a, struct small_net *b, small_net_get_fn *fn, double tolerance)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		double norm = 0, off = 0;
		int64_t count;
		float *x = small_net_get(a, which, fn, &count), *y = small_net_get(b, which, fn, &count);

		for (int64_t i = 0; i < count; i++) {
			norm += (double)x[i] * (double)x[i];
			off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
		}
		if (!(norm > 0 &&
		      sqrt(off) <= (which == SL_TAIL ? 1e-3 : tolerance) * sqrt(norm))) /* the tail has no kinks */
			fail_msg("%s: off by %g of %g", sl_segment_name((enum sl_segment)which), sqrt(off), sqrt(norm));
		free(x);
		free(y);
	}
}

/* An untrained network is chaotic: after a step, differences in the last digits
 * become large ones of the gradients. So each step starts from the same weights. */
static void copy_weights(struct small_net *from, struct small_net *to)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		int64_t count;
		float *range = small_net_get(from, which, sl_exec_get_weights, &count);

		assert_int_equal(sl_exec_set_weights(to->exec[which], range), SL_OK);
		free(range);
	}
}

static void compare_backends(const char *partition, int chunks, int64_t batch_rows,
			     const struct sl_optimizer *optimizer)
{
	struct small_net ref, cpu;

	small_net_open(&ref, &(struct small_net_how){
				     .partition = partition, .chunks = chunks, .ref = true, .optimizer = optimizer});
	small_net_open(&cpu, &(struct small_net_how){.partition = partition, .chunks = chunks, .optimizer = optimizer});
	for (uint64_t step = 0; step < compared_steps(); step++) {
		copy_weights(&cpu, &ref);
		small_net_compute(&ref, batch_rows, step);
		small_net_compute(&cpu, batch_rows, step);
		assert_true(isfinite(ref.loss) && ref.loss > 0.5 && fabs(ref.loss - cpu.loss) < 1e-5 * ref.loss);
		assert_close(&ref, &cpu, sl_exec_get_gradients, 0.05);
		small_net_commit(&ref, batch_rows);
		small_net_commit(&cpu, batch_rows);
		assert_close(&ref, &cpu, sl_exec_get_weights, 0.01);
	}
	small_net_close(&ref);
	small_net_close(&cpu);
}

static void ref_and_cpu_agree_at_any_number_of_chunks(void **state)
{
	compare_backends("1:-1", 1, 8, NULL);
	compare_backends("1:-1", 2, 8, NULL);
	compare_backends("2:-2", 4, 8, NULL);
	compare_backends("1:-1", 2, 7, NULL);
	compare_backends("2:-1", 4, 5, NULL); /* chunks of 2, 2 and 1 */
}

static void ref_and_cpu_agree_with_adamw(void **state)
{
	compare_backends("1:-1", 2, 7, &small_net_adamw);
}

/* ---- a step is a transaction */

static void nothing_changes_before_the_commit(void **state)
{
	struct small_net once, twice;

	small_net_open(&once, &(struct small_net_how){.partition = "1:-1", .chunks = 2});
	small_net_open(&twice, &(struct small_net_how){.partition = "1:-1", .chunks = 2});
	small_net_compute(&once, SMALL_BATCH, 0);
	assert_true(small_net_same(&once, &twice, sl_exec_get_weights));
	assert_false(small_net_same(&once, &twice, sl_exec_get_gradients));
	/* Another batch is begun; then the step begins again. */
	small_net_compute(&twice, 5, 9);
	small_net_compute(&twice, SMALL_BATCH, 0);
	assert_true(once.loss == twice.loss && once.correct == twice.correct);
	assert_true(small_net_same(&once, &twice, sl_exec_get_gradients));
	small_net_commit(&once, SMALL_BATCH);
	assert_false(small_net_same(&once, &twice, sl_exec_get_weights));
	small_net_commit(&twice, SMALL_BATCH);
	assert_true(small_net_same(&once, &twice, sl_exec_get_weights));
	small_net_compute(&once, 7, 1);
	small_net_compute(&twice, 7, 1);
	small_net_commit(&once, 7);
	small_net_commit(&twice, 7);
	assert_true(small_net_same(&once, &twice, sl_exec_get_weights));
	small_net_close(&once);
	small_net_close(&twice);
}

/* While other chunks are computed, the link sends from the tensors at the cuts
 * and receives into them. A watch checks that such a tensor does not change. */
enum { WATCHES = 64 };

struct watch {
	struct sl_tensor at;
	float *copy;
};

static void watch(struct watch *w, int *n, struct sl_tensor at)
{
	float *copy = malloc(small_plan_bytes(&at.shape));

	assert_non_null(copy);
	assert_true(*n < WATCHES);
	memcpy(copy, at.data, small_plan_bytes(&at.shape));
	w[(*n)++] = (struct watch){at, copy};
}

static void unwatch(struct watch *w, int *n, struct sl_tensor at)
{
	int i = 0;

	while (i < *n && w[i].at.data != at.data)
		i++;
	assert_true(i < *n);
	free(w[i].copy);
	w[i] = w[--*n];
}

static void assert_untouched(const struct watch *w, int n)
{
	for (int i = 0; i < n; i++)
		assert_memory_equal(w[i].at.data, w[i].copy, small_plan_bytes(&w[i].at.shape));
}

static void watch_what_comes(struct small_net *n, struct watch *w, int *count, int chunk, int64_t rows)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct sl_tensor in = sl_exec_input(n->exec[which], chunk, rows);
		struct sl_tensor dout = sl_exec_dout(n->exec[which], chunk, rows);

		memset(in.data, 0x55, small_plan_bytes(&in.shape));
		watch(w, count, in);
		if (which == SL_TAIL)
			continue;
		memset(dout.data, 0x55, small_plan_bytes(&dout.shape));
		watch(w, count, dout);
	}
}

static void tensors_at_the_cuts_are_left_alone(const char *partition)
{
	enum { CHUNKS = 4, ROWS = SMALL_BATCH / CHUNKS };
	static struct small_batch b;
	struct watch w[WATCHES];
	struct small_net n;
	int count = 0;

	small_net_open(&n, &(struct small_net_how){.partition = partition, .chunks = CHUNKS});
	small_net_batch(&b, 1);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_begin(n.exec[which]), SL_OK);
	for (int chunk = 0; chunk < CHUNKS; chunk++)
		watch_what_comes(&n, w, &count, chunk, ROWS);
	for (int at = 0; at <= CHUNKS; at++) {
		for (int which = 0; which < SL_SEGMENT_COUNT && at < CHUNKS; which++)
			unwatch(w, &count, sl_exec_input(n.exec[which], at, ROWS));
		if (at < CHUNKS)
			small_net_forward(&n, &b, SMALL_BATCH, at, 1);
		assert_untouched(w, count);
		for (int which = SL_HEAD; which <= SL_MIDDLE && at < CHUNKS; which++)
			watch(w, &count, sl_exec_output(n.exec[which], at, ROWS));
		if (!at)
			continue;
		for (int which = SL_HEAD; which <= SL_MIDDLE; which++)
			unwatch(w, &count, sl_exec_dout(n.exec[which], at - 1, ROWS));
		small_net_backward(&n, &b, SMALL_BATCH, at - 1, 1);
		assert_untouched(w, count);
		for (int which = SL_MIDDLE; which <= SL_TAIL; which++)
			watch(w, &count, sl_exec_din(n.exec[which], at - 1, ROWS));
	}
	small_net_commit(&n, SMALL_BATCH);
	assert_untouched(w, count);
	while (count)
		unwatch(w, &count, w[0].at);
	small_net_close(&n);
}

static void what_crosses_stays_until_the_next_pass(void **state)
{
	tensors_at_the_cuts_are_left_alone("1:-1");
	tensors_at_the_cuts_are_left_alone("2:-1");
}

static void running_statistics_change_in_the_commit(void **state)
{
	struct small_net n;
	int64_t count, trainable;
	float *before, *after;

	small_net_open(&n, &(struct small_net_how){.partition = "1:-1", .chunks = 4});
	trainable = n.plan->segment[SL_MIDDLE].trainable_count;
	before = small_net_get(&n, SL_MIDDLE, sl_exec_get_weights, &count);
	assert_true(trainable < count);
	small_net_compute(&n, SMALL_BATCH, 0);
	small_net_commit(&n, SMALL_BATCH);
	after = small_net_get(&n, SL_MIDDLE, sl_exec_get_weights, &count);
	assert_memory_not_equal(before + trainable, after + trainable, (size_t)(count - trainable) * sizeof *after);
	free(before);
	free(after);
	small_net_close(&n);
}

static void threads_do_not_change_bits(void **state)
{
	struct sl_pool *pool;
	struct sl_fail fail;
	struct small_net one, four;

	assert_int_equal(sl_pool_open(&pool, 4, &fail), SL_OK);
	small_net_open(&one, &(struct small_net_how){.partition = "1:-1", .chunks = 2});
	small_net_open(&four, &(struct small_net_how){.partition = "1:-1", .chunks = 2, .pool = pool});
	small_net_compute(&one, 7, 0);
	small_net_compute(&four, 7, 0);
	assert_true(one.loss == four.loss);
	assert_true(small_net_same(&one, &four, sl_exec_get_gradients));
	small_net_close(&one);
	small_net_close(&four);
	sl_pool_close(pool);
}

static void labels_that_are_none_are_refused(void **state)
{
	static const int32_t wrong[] = {-1, SMALL_CLASSES, INT32_MAX};
	struct small_net n;

	small_net_open(&n, &(struct small_net_how){.partition = "1:-1", .chunks = 1});
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		int32_t label[SMALL_BATCH] = {0};
		struct sl_exec_call call = {.dims = sl_dims_rows(SMALL_BATCH), .training = true};
		struct sl_exec_loss loss = {.labels = label, .scale = 1};

		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_OK);
		label[SMALL_BATCH - 1] = wrong[i];
		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_ERR_DATA);
		loss.ignores = true;
		loss.ignored = wrong[i];
		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_OK);
		label[0] = -2;
		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_ERR_DATA);
	}
	small_net_close(&n);
}

/* A tail with a loss of mean squares: Σ (x·w − target)² / 2 over its two outputs. */
static void a_loss_of_mean_squares(void **state)
{
	static const char text[] = "graph 1\nin mid_act f32 R[2]\nin target f32 R[2]\nparam w [2,2] zero\n"
				   "node a linear %0 &0\nnode b mse %2 %1\nout loss %3\n";
	const struct sl_plan_spec spec = {.batch = 2, .chunks = 1};
	const float weight[16] = {1, 0, 0, 2}, x[4] = {1, 2, 3, 4}, target[4] = {0, 4, 1, 6};
	struct sl_exec_call call = {.dims = sl_dims_rows(2), .training = true};
	float out[4], gradient[16];
	struct sl_exec_loss loss = {.targets = target, .scale = 0.5f, .logits = out};
	struct sl_backend be;
	struct sl_fail fail;
	struct sl_graph g;
	struct sl_plan *plan;
	struct sl_exec *exec;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	if (sl_graph_read(&g, text, sizeof text - 1, &fail) != SL_OK ||
	    sl_plan_open_part(&plan, &spec, SL_TAIL, &g, &fail) != SL_OK ||
	    sl_exec_open(&exec, plan, SL_TAIL, &be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_exec_set_weights(exec, weight), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	memcpy(sl_exec_input(exec, 0, 2).data, x, sizeof x);
	assert_int_equal(sl_exec_forward(exec, &call, &loss), SL_OK);
	assert_true(loss.sum == (1 + 0 + 4 + 4) / 2.0 && loss.correct == 0 && out[3] == 8);
	assert_int_equal(sl_exec_backward(exec, &call, &loss), SL_OK);
	assert_true(((const float *)sl_exec_din(exec, 0, 2).data)[3] == 0.5f * 2 * 2);
	assert_int_equal(sl_exec_get_gradients(exec, gradient), SL_OK);
	assert_true(gradient[0] == 0.5f * (1 * 1 + 2 * 3) && gradient[3] == 0.5f * (2 * 4));
	sl_exec_close(exec);
	sl_plan_close(plan);
	be.ops->close(&be);
}

static void add_to(float *a, const float *b, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		a[i] += b[i];
}

/* The gradient of a batch is the sum of the gradients of its chunks, added one by one, to the bit. */
static void chunks_can_be_summed_apart(void **state)
{
	enum { CHUNKS = 4 };
	struct small_net net;
	struct small_batch batch;
	float *sum[SL_SEGMENT_COUNT], *whole;
	int64_t count;

	small_net_open(&net, &(struct small_net_how){.partition = "2:-2", .chunks = CHUNKS, .chunk_sums = true});
	small_net_batch(&batch, 0);
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		for (int which = 0; which < SL_SEGMENT_COUNT; which++)
			assert_int_equal(sl_exec_begin(net.exec[which]), SL_OK);
		small_net_forward(&net, &batch, SMALL_BATCH, chunk, 0);
		small_net_backward(&net, &batch, SMALL_BATCH, chunk, 0);
		for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
			float *one = small_net_get(&net, which, sl_exec_get_gradients, &count);

			if (chunk)
				add_to(sum[which], one, count);
			else
				sum[which] = one;
			if (chunk)
				free(one);
		}
	}
	small_net_compute(&net, SMALL_BATCH, 0);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		whole = small_net_get(&net, which, sl_exec_get_gradients, &count);
		assert_memory_equal(whole, sum[which], (size_t)count * sizeof *whole);
		free(whole);
		free(sum[which]);
	}
	small_net_close(&net);
}

/* The running statistics after a step of two chunks, in which a batch norm is used twice: [4], from means 1 and 2 and
 * variances 3 and 4. */
static void step_twice_normed(bool chunk_sums, float stat[4])
{
	static const char text[] =
		"graph 1\nin image f32 R[2,2,2]\nparam w [2] one\nparam b [2] zero\n"
		"param m [2] stat zero\nparam v [2] stat one\n"
		"node a batchnorm %0 &0 &1 &2 &3\nnode b batchnorm %1 &0 &1 &2 &3\nout head_act %2\n";
	static const float first[4] = {1, 2, 3, 4}, learned[4] = {1.5f, 0.5f, 0.25f, -1};
	const struct sl_plan_spec spec = {.batch = 4, .chunks = 2, .chunk_sums = chunk_sums};
	const int64_t rows[2] = {2, 2};
	struct sl_backend be;
	struct sl_fail fail;
	struct sl_graph g;
	struct sl_plan *plan;
	struct sl_exec *exec;
	float *range;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	if (sl_graph_read(&g, text, sizeof text - 1, &fail) != SL_OK ||
	    sl_plan_open_part(&plan, &spec, SL_HEAD, &g, &fail) != SL_OK ||
	    sl_exec_open(&exec, plan, SL_HEAD, &be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	range = calloc((size_t)plan->segment[SL_HEAD].weight_count, sizeof *range);
	sl_range_scatter(&plan->segment[SL_HEAD], range, learned, first);
	assert_int_equal(sl_exec_set_weights(exec, range), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	for (int chunk = 0; chunk < 2; chunk++) {
		const struct sl_exec_call call = {chunk, chunk, sl_dims_rows(2), 0, true};
		float *x = sl_exec_input(exec, chunk, 2).data;

		for (int k = 0; k < 16; k++)
			x[k] = (float)((k * 7 + chunk * 5) % 11);
		assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	}
	assert_int_equal(sl_exec_commit(exec, 0, rows, 2), SL_OK);
	assert_int_equal(sl_exec_get_weights(exec, range), SL_OK);
	sl_range_gather(&plan->segment[SL_HEAD], range, NULL, stat);
	free(range);
	sl_exec_close(exec);
	sl_plan_close(plan);
	be.ops->close(&be);
}

/* Statistics of chunks that are joined, as those of a group's members are, are those of chunks one behind another. */
static void a_batch_norm_that_is_used_twice_forgets_twice(void **state)
{
	float joined[4], plain[4];

	step_twice_normed(true, joined);
	step_twice_normed(false, plain);
	for (int i = 0; i < 4; i++)
		if (!(fabsf(joined[i] - plain[i]) <= 1e-6f))
			fail_msg("statistic %d is %g, not %g", i, (double)joined[i], (double)plain[i]);
}

/* ---- memory: the executor allocates as much as it announced */

static struct sl_backend_ops counting_ops;
static enum sl_err (*real_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
static size_t taken;

static enum sl_err count_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	taken += bytes;
	return real_alloc(be, bytes, out, fail);
}

/* Dropout depends on seed, step, chunk, op and element: it differs from chunk to chunk and from step to step. */
static void dropout_is_drawn_for_every_step_and_chunk(void **state)
{
	static const struct sl_exec_call calls[] = {{0, 0, {.rows = 3, .tokens = 3}, 0, true},
						    {1, 1, {.rows = 3, .tokens = 3}, 0, true},
						    {0, 0, {.rows = 3, .tokens = 3}, 1, true},
						    {0, 1, {.rows = 3, .tokens = 3}, 1, true}};
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.5, 0, 0, 0, 0},
				     .cut = {.head_end = "features.17", .tail_begin = "classifier.1"},
				     .plan.batch = SMALL_BATCH,
				     .plan.chunks = 2,
				     .plan.seed = 11};
	const struct sl_plan_segment *s;
	struct sl_backend be;
	struct sl_exec *e;
	struct sl_plan *plan;
	struct sl_fail fail;
	float *range;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	assert_int_equal(plan_open(&plan, &spec, &fail), SL_OK);
	assert_int_equal(sl_exec_open(&e, plan, SL_MIDDLE, &be, &fail), SL_OK);
	s = sl_exec_segment(e);
	assert_int_equal(s->op[s->n_op - 1].op.kind, SL_OP_DROPOUT);
	range = malloc((size_t)s->weight_count * sizeof *range);
	sl_weights_init_range(s, 3, range);
	assert_int_equal(sl_exec_set_weights(e, range), SL_OK);
	for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) {
		const struct sl_exec_call *c = &calls[k];
		const struct sl_rng_key key = {spec.plan.seed, c->step, (uint16_t)c->chunk,
					       s->op[s->n_op - 1].op.stream};
		struct sl_tensor in = sl_exec_input(e, c->slot, c->dims.rows), out;
		float *x = in.data;
		int64_t kept = 0, count;

		for (int64_t i = 0; i < sl_shape_count(&in.shape); i++)
			x[i] = (float)(i % 11) - 5;
		assert_int_equal(sl_exec_forward(e, c, NULL), SL_OK);
		out = sl_exec_output(e, c->slot, c->dims.rows);
		x = out.data;
		count = sl_shape_count(&out.shape);
		for (int64_t i = 0; i < count; i++) {
			assert_true(x[i] == 0 || sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) >= 0.5f);
			kept += x[i] != 0;
		}
		assert_true(kept > count / 4);
	}
	free(range);
	sl_exec_close(e);
	sl_plan_close(plan);
	be.ops->close(&be);
}

static void memory_is_known_before_it_is_taken(void **state)
{
	struct sl_plan *const plans[3] = {small_plan_open("1:-1", 4),
					  small_plan_open_as("1:-1", 4, &small_net_adamw, ""),
					  small_plan_open("1:-1", 4)};
	struct sl_backend be;
	struct sl_fail fail;
	size_t total[3] = {0};

	plans[2]->spec.chunk_sums = true;
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	counting_ops = *be.ops;
	real_alloc = be.ops->alloc;
	counting_ops.alloc = count_alloc;
	be.ops = &counting_ops;
	for (int i = 0; i < 3 * SL_SEGMENT_COUNT; i++) {
		const int which = i % SL_SEGMENT_COUNT, plan = i / SL_SEGMENT_COUNT;
		struct sl_exec *e;
		size_t said;

		taken = 0;
		assert_int_equal(sl_exec_prepare(&e, plans[plan], (enum sl_segment)which, &be, &fail), SL_OK);
		assert_int_equal(taken, 0);
		said = sl_exec_memory(e).total;
		total[plan] += said;
		assert_int_equal(sl_exec_allocate(e, &fail), SL_OK);
		assert_in_range(taken, said, said + 7); /* an empty area takes one byte */
		sl_exec_close(e);
	}
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		total[0] += (size_t)plans[0]->segment[which].trainable_count * sizeof(float);
	assert_true(total[0] == total[1]); /* one moment more */
	assert_true(total[2] > total[0]);  /* another gradient, and statistics of head and tail */
	be.ops->close(&be);
	for (int plan = 0; plan < 3; plan++)
		sl_plan_close(plans[plan]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ref_and_cpu_agree_at_any_number_of_chunks),
		cmocka_unit_test(ref_and_cpu_agree_with_adamw),
		cmocka_unit_test(nothing_changes_before_the_commit),
		cmocka_unit_test(what_crosses_stays_until_the_next_pass),
		cmocka_unit_test(running_statistics_change_in_the_commit),
		cmocka_unit_test(threads_do_not_change_bits),
		cmocka_unit_test(labels_that_are_none_are_refused),
		cmocka_unit_test(a_loss_of_mean_squares),
		cmocka_unit_test(dropout_is_drawn_for_every_step_and_chunk),
		cmocka_unit_test(chunks_can_be_summed_apart),
		cmocka_unit_test(a_batch_norm_that_is_used_twice_forgets_twice),
		cmocka_unit_test(memory_is_known_before_it_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
