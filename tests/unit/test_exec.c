/* The executor: ref and cpu compute the same network; a step is a transaction; memory is known before it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "common/base/pool.h"
#include "common/base/rng.h"
#include "common/nn/exec.h"
#include "common/nn/weights.h"
#include "common/session/state.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"
#include "tests/support/small_plan.h"

enum { STEPS = 2 };

/* ---- a network of three executors, its tensors carried by hand */

struct net {
	struct sl_plan *plan;
	struct sl_backend be;
	struct sl_exec *exec[SL_SEGMENT_COUNT];
	float *carrier; /* room for the largest tensor at a cut */
	double loss;
	int64_t correct;
};

/* What the nets below are opened with. */
static const struct sl_optimizer sgd = {.momentum = 0.9, .weight_decay = 1e-4};
static const struct sl_optimizer adamw = {
	.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.1};
static const struct sl_optimizer *optimizer = &sgd;
static const char *insert = "";

static void open_net(struct net *n, const char *backend, struct sl_pool *pool, const char *partition, int chunks)
{
	struct sl_weights w;
	struct sl_fail fail;

	*n = (struct net){.plan = small_plan_open_as(partition, chunks, optimizer, insert)};
	assert_int_equal(strcmp(backend, "ref") == 0 ? sl_ref_backend_open(&n->be, &fail)
						     : sl_cpu_backend_open(&n->be, pool, &fail),
			 SL_OK);
	assert_int_equal(sl_weights_open(&w, n->plan->model, &fail), SL_OK);
	sl_weights_init(&w, n->plan->model, 3);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &n->plan->segment[which];
		float *range = malloc((size_t)s->weight_count * sizeof *range), *alone;

		if (sl_exec_open(&n->exec[which], n->plan, (enum sl_segment)which, &n->be, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		sl_weights_pack(&w, s, range);
		assert_int_equal(sl_exec_set_weights(n->exec[which], range), SL_OK);
		/* and as a server makes them, without the other segments */
		alone = malloc((size_t)s->weight_count * sizeof *alone);
		sl_weights_init_range(n->plan->model, s, 3, alone);
		assert_memory_equal(range, alone, (size_t)s->weight_count * sizeof *range);
		free(alone);
		free(range);
	}
	sl_weights_close(&w);
	n->carrier = malloc((size_t)n->plan->rows * SMALL_IMAGE * SMALL_IMAGE * 96 * sizeof(float));
}

static void close_net(struct net *n)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		sl_exec_close(n->exec[which]);
	n->be.ops->close(&n->be);
	sl_plan_close(n->plan);
	free(n->carrier);
}

static void carry(struct net *n, const struct sl_tensor *from, struct sl_tensor to)
{
	size_t bytes = small_plan_bytes(&from->shape);

	assert_true(sl_shape_equal(&from->shape, &to.shape));
	assert_int_equal(n->be.ops->download(&n->be, n->carrier, from->data, bytes), SL_OK);
	assert_int_equal(n->be.ops->upload(&n->be, to.data, n->carrier, bytes), SL_OK);
}

struct batch {
	float image[SMALL_BATCH * SMALL_IMAGE * SMALL_IMAGE * 3];
	int32_t label[SMALL_BATCH];
};

static void make_batch(struct batch *b, uint64_t step)
{
	const struct sl_rng_key key = {.seed = 5, .step = step, .tensor = SL_RNG_TEST};

	for (uint32_t i = 0; i < SMALL_BATCH * SMALL_IMAGE * SMALL_IMAGE * 3; i++)
		b->image[i] = 2 * sl_rng_unit(sl_rng_u32(&key, i)) - 1;
	for (uint32_t i = 0; i < SMALL_BATCH; i++)
		b->label[i] = (int32_t)sl_rng_below(sl_rng_u32(&key, 1u << 24 | i), SMALL_CLASSES);
}

static struct sl_exec_call call_of(const struct net *n, int64_t batch_rows, int chunk, uint64_t step)
{
	return (struct sl_exec_call){chunk, sl_plan_chunk_rows(n->plan, batch_rows, chunk), step, true};
}

static void forward(struct net *n, const struct batch *b, int64_t batch_rows, int chunk, uint64_t step)
{
	struct sl_exec_call call = call_of(n, batch_rows, chunk, step);
	struct sl_tensor in = sl_exec_input(n->exec[SL_HEAD], chunk, call.rows);
	int64_t row = SMALL_IMAGE * SMALL_IMAGE * 3;

	assert_int_equal(n->be.ops->upload(&n->be, in.data, b->image + chunk * n->plan->rows * row,
					   (size_t)(call.rows * row) * sizeof(float)),
			 SL_OK);
	for (int which = SL_HEAD; which <= SL_MIDDLE; which++) {
		struct sl_tensor out;

		assert_int_equal(sl_exec_forward(n->exec[which], &call, NULL), SL_OK);
		out = sl_exec_output(n->exec[which], chunk, call.rows);
		carry(n, &out, sl_exec_input(n->exec[which + 1], chunk, call.rows));
	}
}

static void backward(struct net *n, const struct batch *b, int64_t batch_rows, int chunk, uint64_t step)
{
	struct sl_exec_call call = call_of(n, batch_rows, chunk, step);
	struct sl_exec_loss loss = {.labels = b->label + chunk * n->plan->rows, .scale = 1.0f / (float)batch_rows};

	assert_int_equal(sl_exec_forward(n->exec[SL_TAIL], &call, &loss), SL_OK);
	assert_int_equal(sl_exec_backward(n->exec[SL_TAIL], &call, &loss), SL_OK);
	n->loss += loss.sum / (double)batch_rows;
	n->correct += loss.correct;
	for (int which = SL_MIDDLE; which >= SL_HEAD; which--) {
		struct sl_tensor din = sl_exec_din(n->exec[which + 1], chunk, call.rows);

		carry(n, &din, sl_exec_dout(n->exec[which], chunk, call.rows));
		assert_int_equal(sl_exec_backward(n->exec[which], &call, NULL), SL_OK);
	}
}

/* All of a step but its commit: forward of chunk i + 1 before backward of chunk i. */
static void compute(struct net *n, int64_t batch_rows, uint64_t step)
{
	static struct batch b;
	int chunks = sl_plan_chunks_of(n->plan, batch_rows);

	make_batch(&b, step);
	n->loss = 0;
	n->correct = 0;
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_begin(n->exec[which]), SL_OK);
	forward(n, &b, batch_rows, 0, step);
	for (int chunk = 0; chunk < chunks; chunk++) {
		if (chunk + 1 < chunks)
			forward(n, &b, batch_rows, chunk + 1, step);
		backward(n, &b, batch_rows, chunk, step);
	}
}

static void commit(struct net *n, int64_t batch_rows)
{
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	int chunks = sl_plan_chunks_of(n->plan, batch_rows);

	for (int i = 0; i < chunks; i++)
		rows[i] = sl_plan_chunk_rows(n->plan, batch_rows, i);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_commit(n->exec[which], 0.05, rows, chunks), SL_OK);
}

typedef enum sl_err get_fn(struct sl_exec *exec, float *host);

/* Weights or gradients of a segment, malloc'ed. */
static float *get(struct net *n, int which, get_fn *fn, int64_t *count)
{
	const struct sl_plan_segment *s = &n->plan->segment[which];
	float *v;

	*count = fn == sl_exec_get_weights ? s->weight_count : s->trainable_count;
	v = malloc((size_t)*count * sizeof *v);
	assert_int_equal(fn(n->exec[which], v), SL_OK);
	return v;
}

/* |x - y| / |x| over the segment, in the 2-norm. Not element by element: where an activation lies within a rounding
 * error of ReLU6's kink, its gradient is there on one backend and not on the other (test_ops steers clear of kinks). */
static void assert_close(struct net *a, struct net *b, get_fn *fn, double tolerance)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		double norm = 0, off = 0;
		int64_t count;
		float *x = get(a, which, fn, &count), *y = get(b, which, fn, &count);

		for (int64_t i = 0; i < count; i++) {
			norm += (double)x[i] * (double)x[i];
			off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
		}
		if (!(norm > 0 &&
		      sqrt(off) <= (which == SL_TAIL ? 1e-3 : tolerance) * sqrt(norm))) /* it has no kinks */
			fail_msg("%s: off by %g of %g", sl_segment_name((enum sl_segment)which), sqrt(off), sqrt(norm));
		free(x);
		free(y);
	}
}

static bool same_bits(struct net *a, struct net *b, get_fn *fn)
{
	bool same = true;

	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		int64_t count;
		float *x = get(a, which, fn, &count), *y = get(b, which, fn, &count);

		same = same && memcmp(x, y, (size_t)count * sizeof *x) == 0;
		free(x);
		free(y);
	}
	return same;
}

/* A network this young is chaotic: after a step, differences in its last digits are differences in its gradients. So
 * each step starts from the same weights. */
static void copy_weights(struct net *from, struct net *to)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		int64_t count;
		float *range = get(from, which, sl_exec_get_weights, &count);

		assert_int_equal(sl_exec_set_weights(to->exec[which], range), SL_OK);
		free(range);
	}
}

static void compare_backends(const char *partition, int chunks, int64_t batch_rows)
{
	struct net ref, cpu;

	open_net(&ref, "ref", NULL, partition, chunks);
	open_net(&cpu, "cpu", NULL, partition, chunks);
	for (uint64_t step = 0; step < STEPS; step++) {
		copy_weights(&cpu, &ref);
		compute(&ref, batch_rows, step);
		compute(&cpu, batch_rows, step);
		assert_true(isfinite(ref.loss) && ref.loss > 0.5 && fabs(ref.loss - cpu.loss) < 1e-5 * ref.loss);
		assert_close(&ref, &cpu, sl_exec_get_gradients, 0.05);
		commit(&ref, batch_rows);
		commit(&cpu, batch_rows);
		assert_close(&ref, &cpu, sl_exec_get_weights, 0.01);
	}
	close_net(&ref);
	close_net(&cpu);
}

static void ref_and_cpu_agree_at_any_number_of_chunks(void **state)
{
	(void)state;
	compare_backends("1:-1", 1, 8);
	compare_backends("1:-1", 2, 8);
	compare_backends("2:-2", 4, 8);
	compare_backends("1:-1", 2, 7);
	compare_backends("2:-1", 4, 5); /* chunks of 2, 2 and 1 */
}

static void ref_and_cpu_agree_with_adamw(void **state)
{
	(void)state;
	optimizer = &adamw;
	compare_backends("1:-1", 2, 7);
	optimizer = &sgd;
}

/* ---- a step is a transaction */

static void nothing_changes_before_the_commit(void **state)
{
	struct net once, twice;

	(void)state;
	open_net(&once, "cpu", NULL, "1:-1", 2);
	open_net(&twice, "cpu", NULL, "1:-1", 2);
	compute(&once, SMALL_BATCH, 0);
	assert_true(same_bits(&once, &twice, sl_exec_get_weights));
	assert_false(same_bits(&once, &twice, sl_exec_get_gradients));
	/* another batch is begun, and the step then begins again */
	compute(&twice, 5, 9);
	compute(&twice, SMALL_BATCH, 0);
	assert_true(once.loss == twice.loss && once.correct == twice.correct);
	assert_true(same_bits(&once, &twice, sl_exec_get_gradients));
	commit(&once, SMALL_BATCH);
	assert_false(same_bits(&once, &twice, sl_exec_get_weights));
	commit(&twice, SMALL_BATCH);
	assert_true(same_bits(&once, &twice, sl_exec_get_weights));
	compute(&once, 7, 1);
	compute(&twice, 7, 1);
	commit(&once, 7);
	commit(&twice, 7);
	assert_true(same_bits(&once, &twice, sl_exec_get_weights));
	close_net(&once);
	close_net(&twice);
}

/* The link sends from the tensors at the cuts, and receives into them, while other chunks are computed: what a watch is
 * on must stay as it is. */
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

static void watch_what_comes(struct net *n, struct watch *w, int *count, int chunk, int64_t rows)
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
	static struct batch b;
	struct watch w[WATCHES];
	struct net n;
	int count = 0;

	open_net(&n, "cpu", NULL, partition, CHUNKS);
	make_batch(&b, 1);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_begin(n.exec[which]), SL_OK);
	for (int chunk = 0; chunk < CHUNKS; chunk++)
		watch_what_comes(&n, w, &count, chunk, ROWS);
	for (int at = 0; at <= CHUNKS; at++) {
		for (int which = 0; which < SL_SEGMENT_COUNT && at < CHUNKS; which++)
			unwatch(w, &count, sl_exec_input(n.exec[which], at, ROWS));
		if (at < CHUNKS)
			forward(&n, &b, SMALL_BATCH, at, 1);
		assert_untouched(w, count);
		for (int which = SL_HEAD; which <= SL_MIDDLE && at < CHUNKS; which++)
			watch(w, &count, sl_exec_output(n.exec[which], at, ROWS));
		if (!at)
			continue;
		for (int which = SL_HEAD; which <= SL_MIDDLE; which++)
			unwatch(w, &count, sl_exec_dout(n.exec[which], at - 1, ROWS));
		backward(&n, &b, SMALL_BATCH, at - 1, 1);
		assert_untouched(w, count);
		for (int which = SL_MIDDLE; which <= SL_TAIL; which++)
			watch(w, &count, sl_exec_din(n.exec[which], at - 1, ROWS));
	}
	commit(&n, SMALL_BATCH);
	assert_untouched(w, count);
	while (count)
		unwatch(w, &count, w[0].at);
	close_net(&n);
}

static void what_crosses_stays_until_the_next_pass(void **state)
{
	(void)state;
	tensors_at_the_cuts_are_left_alone("1:-1");
	tensors_at_the_cuts_are_left_alone("2:-1");
}

static void skip_step(struct net *n)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_skip(n->exec[which]), SL_OK);
}

/* AdamW corrects its moments by the number of steps that were applied: one that is left out counts for nothing. */
static void a_step_left_out_does_not_age_the_moments(void **state)
{
	struct net plain, gap;

	(void)state;
	optimizer = &adamw;
	open_net(&plain, "cpu", NULL, "1:-1", 2);
	open_net(&gap, "cpu", NULL, "1:-1", 2);
	for (uint64_t step = 0; step < 3; step++) {
		compute(&plain, SMALL_BATCH, step);
		commit(&plain, SMALL_BATCH);
		compute(&gap, 5, 77);
		skip_step(&gap);
		compute(&gap, SMALL_BATCH, step);
		commit(&gap, SMALL_BATCH);
	}
	assert_true(sl_exec_applied(gap.exec[SL_MIDDLE]) == 3);
	assert_true(same_bits(&plain, &gap, sl_exec_get_weights));
	close_net(&plain);
	close_net(&gap);
	optimizer = &sgd;
}

/* Weights, both moments and the count of steps are all that a run goes on from. */
static void a_state_is_all_that_a_step_changes(void **state)
{
	struct sl_exec_state kept[SL_SEGMENT_COUNT];
	struct net run, again;

	(void)state;
	optimizer = &adamw;
	open_net(&run, "cpu", NULL, "1:-1", 2);
	open_net(&again, "cpu", NULL, "1:-1", 2);
	compute(&run, SMALL_BATCH, 0);
	commit(&run, SMALL_BATCH);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct sl_exec_state *s = &kept[which];

		assert_int_equal(sl_exec_state_open(s, &run.plan->segment[which]), SL_OK);
		assert_int_equal(sl_exec_state_take(s, run.exec[which]), SL_OK);
		/* a count beyond the steps that are done gives nothing */
		assert_int_equal(sl_exec_state_give(s, again.exec[which]), SL_ERR_DATA);
		assert_int_equal(sl_exec_state_check(s, again.exec[which]), SL_ERR_DATA);
	}
	assert_false(same_bits(&run, &again, sl_exec_get_weights));
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		assert_int_equal(sl_exec_follow(again.exec[which], 1), SL_OK);
		assert_int_equal(sl_exec_state_give(&kept[which], again.exec[which]), SL_OK);
		sl_exec_state_close(&kept[which]);
	}
	compute(&run, 7, 1);
	commit(&run, 7);
	compute(&again, 7, 1);
	commit(&again, 7);
	assert_true(same_bits(&run, &again, sl_exec_get_weights));
	close_net(&run);
	close_net(&again);
	optimizer = &sgd;
}

/* Where a weight has fallen off a decaying insert both moments are 0, and elsewhere as they were. */
static void moments_fall_with_their_weights(void **state)
{
	struct net n;

	(void)state;
	optimizer = &adamw;
	insert = "decaylinear:rate=0.5,every=1,times=2";
	open_net(&n, "cpu", NULL, "1:-1", 2);
	compute(&n, SMALL_BATCH, 0);
	commit(&n, SMALL_BATCH);
	for (int which = SL_HEAD; which <= SL_MIDDLE; which++) {
		struct sl_exec *e = n.exec[which];
		struct sl_exec_state before, after;
		int64_t fallen = 0;

		assert_int_equal(sl_exec_state_open(&before, &n.plan->segment[which]), SL_OK);
		assert_int_equal(sl_exec_state_open(&after, &n.plan->segment[which]), SL_OK);
		assert_int_equal(sl_exec_state_take(&before, e), SL_OK);
		assert_int_equal(sl_exec_follow(e, 1), SL_OK);
		assert_int_equal(sl_exec_state_take(&after, e), SL_OK);
		for (int64_t i = 0; i < after.trainable_count; i++) {
			bool gone = before.weight[i] != 0 && after.weight[i] == 0;

			for (int k = 0; k < 2; k++)
				assert_true(after.moment[k][i] == (gone ? 0 : before.moment[k][i]));
			fallen += gone && before.moment[0][i] != 0 && before.moment[1][i] != 0;
		}
		assert_true(fallen > 0);
		sl_exec_state_close(&before);
		sl_exec_state_close(&after);
	}
	close_net(&n);
	insert = "";
	optimizer = &sgd;
}

static void running_statistics_change_in_the_commit(void **state)
{
	struct net n;
	int64_t count, trainable;
	float *before, *after;

	(void)state;
	open_net(&n, "cpu", NULL, "1:-1", 4);
	trainable = n.plan->segment[SL_MIDDLE].trainable_count;
	before = get(&n, SL_MIDDLE, sl_exec_get_weights, &count);
	assert_true(trainable < count);
	compute(&n, SMALL_BATCH, 0);
	commit(&n, SMALL_BATCH);
	after = get(&n, SL_MIDDLE, sl_exec_get_weights, &count);
	assert_memory_not_equal(before + trainable, after + trainable, (size_t)(count - trainable) * sizeof *after);
	free(before);
	free(after);
	close_net(&n);
}

static void threads_do_not_change_bits(void **state)
{
	struct sl_pool *pool;
	struct sl_fail fail;
	struct net one, four;

	(void)state;
	assert_int_equal(sl_pool_open(&pool, 4, &fail), SL_OK);
	open_net(&one, "cpu", NULL, "1:-1", 2);
	open_net(&four, "cpu", pool, "1:-1", 2);
	compute(&one, 7, 0);
	compute(&four, 7, 0);
	assert_true(one.loss == four.loss);
	assert_true(same_bits(&one, &four, sl_exec_get_gradients));
	close_net(&one);
	close_net(&four);
	sl_pool_close(pool);
}

static void labels_that_are_none_are_refused(void **state)
{
	static const int32_t wrong[] = {-1, SMALL_CLASSES, INT32_MAX};
	struct net n;

	(void)state;
	open_net(&n, "cpu", NULL, "1:-1", 1);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		int32_t label[SMALL_BATCH] = {0};
		struct sl_exec_call call = {0, SMALL_BATCH, 0, true};
		struct sl_exec_loss loss = {.labels = label, .scale = 1};

		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_OK);
		label[SMALL_BATCH - 1] = wrong[i];
		assert_int_equal(sl_exec_forward(n.exec[SL_TAIL], &call, &loss), SL_ERR_DATA);
	}
	close_net(&n);
}

/* ---- memory: what is asked for is what was said before */

static struct sl_backend_ops counting_ops;
static enum sl_err (*real_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
static size_t taken;

static enum sl_err count_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	taken += bytes;
	return real_alloc(be, bytes, out, fail);
}

static void memory_is_known_before_it_is_taken(void **state)
{
	struct sl_plan *const plans[2] = {small_plan_open("1:-1", 4), small_plan_open_as("1:-1", 4, &adamw, "")};
	struct sl_backend be;
	struct sl_fail fail;
	size_t total[2] = {0};

	(void)state;
	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	counting_ops = *be.ops;
	real_alloc = be.ops->alloc;
	counting_ops.alloc = count_alloc;
	be.ops = &counting_ops;
	for (int i = 0; i < 2 * SL_SEGMENT_COUNT; i++) {
		const int which = i % SL_SEGMENT_COUNT, moments = i / SL_SEGMENT_COUNT;
		struct sl_exec *e;
		size_t said;

		taken = 0;
		assert_int_equal(sl_exec_prepare(&e, plans[moments], (enum sl_segment)which, &be, &fail), SL_OK);
		assert_int_equal(taken, 0);
		said = sl_exec_memory(e).total;
		total[moments] += said;
		assert_int_equal(sl_exec_allocate(e, &fail), SL_OK);
		assert_in_range(taken, said, said + 7); /* an empty area is one byte */
		sl_exec_close(e);
	}
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		total[0] += (size_t)plans[0]->segment[which].trainable_count * sizeof(float);
	assert_true(total[0] == total[1]); /* a moment more */
	be.ops->close(&be);
	sl_plan_close(plans[0]);
	sl_plan_close(plans[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ref_and_cpu_agree_at_any_number_of_chunks),
		cmocka_unit_test(ref_and_cpu_agree_with_adamw),
		cmocka_unit_test(nothing_changes_before_the_commit),
		cmocka_unit_test(a_step_left_out_does_not_age_the_moments),
		cmocka_unit_test(a_state_is_all_that_a_step_changes),
		cmocka_unit_test(moments_fall_with_their_weights),
		cmocka_unit_test(what_crosses_stays_until_the_next_pass),
		cmocka_unit_test(running_statistics_change_in_the_commit),
		cmocka_unit_test(threads_do_not_change_bits),
		cmocka_unit_test(labels_that_are_none_are_refused),
		cmocka_unit_test(memory_is_known_before_it_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
