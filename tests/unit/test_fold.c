/* The sum of a group's gradients equals that of plain loops, bit for bit, for any number of
 * members and threads. A gradient that is not finite is found, whatever earlier checks found. */
#include <float.h>
#include <math.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/session/fold.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/unit.h"

/* More floats than a block, and not a multiple of it; more members than are added at once. */
enum { SIDE = 150, COUNT = SIDE * SIDE, MOST = 37 };

static struct sl_pool *pool;
static struct sl_backend be;
static struct sl_plan *plan;
static struct sl_exec *trunk, *member[MOST];
static float *own[MOST]; /* the members' gradients */

static void open_plan(void)
{
	const struct sl_optimizer sgd = {.kind = SL_OPTIMIZER_SGD};
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1, .optimizer = sgd};
	const struct sl_param p = {.name = "weight", .shape = sl_shape2(SIDE, SIDE), .init = {SL_INIT_NORMAL, 0.1f}};
	struct sl_node n = sl_node_of(SL_OP_LINEAR);
	struct sl_graph g = {0};
	const int in = 0, param = 0;
	struct sl_fail fail;
	int out;

	strcpy(n.name, "linear");
	n.n_in = n.n_param = 1;
	if (sl_graph_add_input(&g, "head_act", SL_F32, SL_PER_ROW, sl_shape2(1, SIDE), 1, NULL, &fail) ||
	    sl_graph_add_param(&g, &p, &fail) || sl_graph_add_node(&g, &n, &in, &param, &out, &fail) ||
	    sl_graph_add_output(&g, "mid_act", out, NULL, &fail) ||
	    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail))
		fail_msg("%s", fail.text);
	assert_true(plan->segment[SL_MIDDLE].trainable_count >= COUNT);
}

static void open_all(int threads)
{
	const int64_t weights = (open_plan(), plan->segment[SL_MIDDLE].weight_count);
	float *w = calloc((size_t)weights, sizeof *w);
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	assert_int_equal(sl_exec_prepare(&trunk, plan, SL_MIDDLE, &be, &fail), SL_OK);
	assert_int_equal(sl_exec_bare(trunk, &fail), SL_OK);
	assert_int_equal(sl_exec_allocate(trunk, &fail), SL_OK);
	assert_int_equal(sl_exec_set_weights(trunk, w), SL_OK);
	for (int k = 0; k < MOST; k++) {
		assert_int_equal(sl_exec_prepare(&member[k], plan, SL_MIDDLE, &be, &fail), SL_OK);
		assert_int_equal(sl_exec_borrow(member[k], trunk, &fail), SL_OK);
		assert_int_equal(sl_exec_allocate(member[k], &fail), SL_OK);
		own[k] = calloc((size_t)weights, sizeof *own[k]);
	}
	free(w);
}

static void close_all(void)
{
	for (int k = 0; k < MOST; k++) {
		sl_exec_close(member[k]);
		free(own[k]);
	}
	sl_exec_close(trunk);
	sl_plan_close(plan);
	be.ops->close(&be);
	sl_pool_close(pool);
}

static uint32_t number;

/* Random values of both signs and of many magnitudes, so that another order of additions gives other bits. */
static float any(void)
{
	number = number * 1664525u + 1013904223u;
	return ldexpf((float)(int32_t)number / 2147483648.0f, (int)(number >> 7 & 15) - 8);
}

/* Computes a step of member k. `first` multiplies its first input, and so the gradients of that input's weights. */
static void pass(int k, float first)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(1), .training = true};
	float *in, *dout;

	assert_int_equal(sl_exec_begin(member[k]), SL_OK);
	in = sl_exec_input(member[k], 0, 1).data;
	for (int i = 0; i < SIDE; i++)
		in[i] = any();
	in[0] *= first;
	assert_int_equal(sl_exec_forward(member[k], &call, NULL), SL_OK);
	dout = sl_exec_dout(member[k], 0, 1).data;
	for (int i = 0; i < SIDE; i++)
		dout[i] = any();
	assert_int_equal(sl_exec_backward(member[k], &call, NULL), SL_OK);
	assert_int_equal(sl_exec_get_gradients(member[k], own[k]), SL_OK);
}

static void add(int from, int to)
{
	const int64_t rows = 1;

	for (int k = from; k < to; k++)
		assert_int_equal(sl_exec_fold_add(trunk, member[k], &rows, 1), SL_OK);
}

static void expect_sum(int n, float by)
{
	const size_t count = (size_t)plan->segment[SL_MIDDLE].trainable_count;
	float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);

	memcpy(want, own[0], count * sizeof *want);
	for (int k = 1; k < n; k++)
		for (size_t i = 0; i < count; i++)
			want[i] += own[k][i];
	for (size_t i = 0; i < count; i++)
		want[i] *= by;
	assert_int_equal(sl_exec_get_gradients(trunk, got), SL_OK);
	assert_memory_equal(got, want, count * sizeof *want);
	free(want);
	free(got);
}

static void sum_is_that_of_loops(void **state)
{
	static const float factor[] = {1, 4.0f / 3};

	for (int threads = 1; threads <= 3; threads += 2) {
		open_all(threads);
		for (int k = 0; k < MOST; k++)
			pass(k, 1);
		for (int n = 1; n <= MOST; n++)
			for (size_t f = 0; f < sizeof factor / sizeof factor[0]; f++) {
				struct sl_fail fail;

				assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
				add(0, n);
				assert_int_equal(sl_exec_fold_end(trunk, (double)factor[f]), SL_OK);
				assert_int_equal(sl_exec_check(trunk, NULL, 0, &fail), SL_OK);
				expect_sum(n, factor[f]);
			}
		close_all();
	}
}

/* A sum that is continued, as when it is passed from one server to the next. */
static void sum_goes_on(void **state)
{
	float *so_far;

	open_all(1);
	so_far = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *so_far);
	for (int k = 0; k < MOST; k++)
		pass(k, 1);
	for (int n = 1; n < 9; n++) {
		assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
		add(0, n);
		assert_int_equal(sl_exec_fold_get(trunk, so_far), SL_OK);
		assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
		assert_int_equal(sl_exec_fold_set(trunk, so_far), SL_OK);
		add(n, 9);
		assert_int_equal(sl_exec_fold_end(trunk, 2), SL_OK);
		expect_sum(9, 2);
	}
	assert_int_equal(sl_exec_fold_set(trunk, so_far), SL_OK);
	assert_int_equal(sl_exec_fold_end(trunk, 3), SL_OK);
	expect_sum(8, 3);
	free(so_far);
	close_all();
}

/* With a single member its gradient is used in place. The next step's sum must not change it. */
static void only_member_keeps_its_gradient(void **state)
{
	struct sl_fail fail;
	float *w, *after;

	open_all(1);
	for (int k = 0; k < 3; k++)
		pass(k, 1);
	assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
	add(0, 1);
	assert_int_equal(sl_exec_fold_end(trunk, 1), SL_OK);
	assert_int_equal(sl_exec_check(trunk, NULL, 0, &fail), SL_OK);
	assert_int_equal(sl_exec_commit(trunk, 1, NULL, 0), SL_OK);
	w = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *w);
	after = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *after);
	assert_int_equal(sl_exec_get_weights(trunk, w), SL_OK);
	for (int i = 0; i < COUNT; i++)
		assert_true(w[i] == -own[0][i]);
	assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
	add(0, 3);
	assert_int_equal(sl_exec_fold_end(trunk, 1), SL_OK);
	expect_sum(3, 1);
	assert_int_equal(sl_exec_get_gradients(member[0], after), SL_OK);
	assert_memory_equal(after, own[0], COUNT * sizeof *after);
	free(w);
	free(after);
	close_all();
}

static void a_part_is_clipped_to_one_norm(void **state)
{
	const int64_t rows = 1;
	struct sl_end_layout ends = {.grads = 2};
	float change[3] = {3, 4, 100}, *before, *after;
	bool clipped = true;
	struct sl_part_bound bound = {0, true, &clipped};
	double squares;
	struct sl_fail fail;

	open_all(1);
	before = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *before);
	after = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *after);
	pass(0, 1);
	assert_int_equal(sl_exec_squares(member[0], &squares, &fail), SL_OK);
	assert_int_equal(sl_exec_get_gradients(member[0], before), SL_OK);
	bound.most = 2 * sqrt(squares + 25); /* below it nothing changes */
	assert_int_equal(sl_part_check(member[0], &rows, 1, 1, &ends, change, &bound, &fail), SL_OK);
	assert_true(change[0] == 3 && change[1] == 4 && !clipped);
	bound.most = sqrt(squares + 25) / 2;
	assert_int_equal(sl_part_check(member[0], &rows, 1, 1, &ends, change, &bound, &fail), SL_OK);
	assert_true(clipped);
	assert_int_equal(sl_exec_get_gradients(member[0], after), SL_OK);
	for (int i = 0; i < COUNT; i++)
		assert_true(fabsf(after[i] - before[i] / 2) <= 1e-6f * fabsf(before[i]));
	assert_true(change[0] == 1.5f && change[1] == 2 && change[2] == 100); /* statistics stay */
	bound = (struct sl_part_bound){sqrt(squares + 25) / 4, false, NULL};
	assert_int_equal(sl_part_check(member[0], &rows, 1, 1, &ends, change, &bound, &fail), SL_ERR_NONFINITE);
	free(before);
	free(after);
	close_all();
}

static void what_is_not_finite_is_found(void **state)
{
	const struct sl_part_bound bound = {1e9, false, NULL};
	const int64_t rows = 1;
	struct sl_fail fail;

	open_all(1);
	for (int n = 1; n <= 3; n++) {
		/* Two passes: the finding of one step must not carry over to the next. */
		for (int k = 0; k < n; k++) {
			pass(k, 1);
			assert_int_equal(sl_part_check(member[k], &rows, 1, 1, NULL, NULL, &bound, &fail), SL_OK);
			pass(k, k ? 1 : INFINITY);
		}
		assert_int_equal(sl_exec_check(member[0], &rows, 1, &fail), SL_ERR_NONFINITE);
		assert_int_equal(sl_part_check(member[0], &rows, 1, 1, NULL, NULL, &bound, &fail), SL_ERR_NONFINITE);
		assert_non_null(strstr(fail.text, "weight"));
		assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
		add(0, n);
		assert_int_equal(sl_exec_fold_end(trunk, 1), SL_OK);
		assert_int_equal(sl_exec_check(trunk, NULL, 0, &fail), SL_ERR_NONFINITE);
		assert_non_null(strstr(fail.text, "weight"));
	}
	close_all();
}

/* The gradients and their sum are finite, but not their product with the factor. */
static void a_factor_can_be_too_much(void **state)
{
	struct sl_fail fail;

	open_all(1);
	pass(0, 1);
	pass(1, 1);
	assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
	add(0, 2);
	assert_int_equal(sl_exec_fold_end(trunk, (double)FLT_MAX), SL_OK);
	assert_int_equal(sl_exec_check(trunk, NULL, 0, &fail), SL_ERR_NONFINITE);
	assert_int_equal(sl_exec_fold_begin(trunk), SL_OK);
	add(0, 2);
	assert_int_equal(sl_exec_fold_end(trunk, 1), SL_OK);
	assert_int_equal(sl_exec_check(trunk, NULL, 0, &fail), SL_OK);
	close_all();
}

/* ---- another rank, whose part has the same gradient, and makes the first sum too large */

static int sums; /* that were begun */

static void give(void *data, size_t bytes)
{
	const uint64_t counts = sums == 1;

	if (bytes == sizeof counts)
		memcpy(data, &counts, sizeof counts);
	for (size_t i = 0; bytes > sizeof counts && i < bytes / sizeof(float); i++)
		((float *)data)[i] = INFINITY;
}

static void on_take(void *arg, void *data, size_t bytes)
{
	sums += bytes == sizeof(uint64_t);
	give(data, bytes);
}

static void on_pass(void *arg, const void *data, size_t bytes)
{
	sums += bytes == sizeof(uint64_t);
}

static void on_spread(void *arg, void *data, size_t bytes)
{
	if (*(const int *)arg == 0)
		give(data, bytes);
}

static void *on_gather(void *arg, const void *own, size_t bytes)
{
	char *all = malloc(2 * bytes);

	assert_non_null(all);
	memcpy(all, own, bytes);
	memcpy(all + bytes, own, bytes);
	return all;
}

static void of_two_largest_parts_the_lowest_rank_is_left_out(void **state)
{
	for (int rank = 0; rank < 2; rank++) {
		const struct sl_others others = {&rank, rank, 2, on_take, on_pass, on_spread, on_gather};
		struct sl_fold_part part = {.rows = 1};
		struct sl_fold fold = {.part = &part, .n = 1, .others = &others};
		struct sl_fail fail;

		sums = 0;
		open_all(1);
		pass(0, 1);
		part.exec = member[0];
		fold.trunk = trunk;
		assert_int_equal(sl_fold_sum(&fold, 0, &fail), SL_OK);
		assert_int_equal(sums, 2);
		assert_int_equal(part.left_out, rank == 0);
		close_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sum_is_that_of_loops),
		cmocka_unit_test(sum_goes_on),
		cmocka_unit_test(only_member_keeps_its_gradient),
		cmocka_unit_test(what_is_not_finite_is_found),
		cmocka_unit_test(a_part_is_clipped_to_one_norm),
		cmocka_unit_test(a_factor_can_be_too_much),
		cmocka_unit_test(of_two_largest_parts_the_lowest_rank_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
