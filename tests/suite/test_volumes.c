/* Volumes as batches of slices. Graphs of 2-D ops with `slices`, and of windows along the depth, are compared with
 * PyTorch's 3-D layers (tests/golden/make_volumes.py). They run on the reference, and on the CPU with one thread and
 * with three. */
#include <string.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "tests/golden/volumes.h"
#include "tests/ref/ref.h"
#include "tests/support/op_run.h"
#include "tests/support/unit.h"

static struct sl_fail fail;

static struct sl_plan *planned(const struct volume_golden *g)
{
	const struct sl_plan_spec spec = {.batch = GOLDEN_VOLUMES, .chunks = 1};
	struct sl_graph graph;
	struct sl_plan *plan;

	if (sl_graph_read(&graph, g->text, strlen(g->text), &fail) != SL_OK ||
	    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &graph, &fail) != SL_OK)
		fail_msg("%s: %s", g->name, fail.text);
	return plan;
}

/* The weights of the range, where statistics begin at 0 and 1. */
static float *range_of(const struct sl_plan_segment *s, const struct volume_golden *g)
{
	float *range = calloc((size_t)s->weight_count, sizeof *range);

	assert_non_null(range);
	for (int i = 0; i < s->n_param; i++) {
		const struct sl_segment_param *p = &s->param[i];
		const struct sl_param *param = &s->graph.param[p->graph_param];

		for (int64_t k = 0; k < p->count; k++)
			range[p->offset + k] = param->role != SL_STATISTIC       ? g->param[p->graph_param][k]
					       : param->init.kind == SL_INIT_ONE ? 1
										 : 0;
	}
	return range;
}

struct made {
	float *out, *din, *grad;
	int64_t outs, dins, grads;
};

static float *copy_of(const float *from, int64_t n)
{
	float *to = malloc((size_t)n * sizeof *to);

	assert_non_null(to);
	memcpy(to, from, (size_t)n * sizeof *to);
	return to;
}

static struct made step(const struct sl_plan *plan, struct sl_backend *be, const struct volume_golden *g)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(GOLDEN_VOLUMES), .training = true};
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	float *range = range_of(s, g);
	struct sl_exec *exec;
	struct sl_tensor t;
	struct made m;

	if (sl_exec_open(&exec, plan, SL_MIDDLE, be, &fail) != SL_OK)
		fail_msg("%s: %s", g->name, fail.text);
	assert_int_equal(sl_exec_set_weights(exec, range), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	t = sl_exec_input(exec, 0, GOLDEN_VOLUMES);
	m.dins = sl_shape_count(&t.shape);
	memcpy(t.data, g->in, (size_t)m.dins * sizeof(float));
	assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	t = sl_exec_output(exec, 0, GOLDEN_VOLUMES);
	m.outs = sl_shape_count(&t.shape);
	assert_int_equal(m.outs, g->outs);
	m.out = copy_of(t.data, m.outs);
	t = sl_exec_dout(exec, 0, GOLDEN_VOLUMES);
	memcpy(t.data, g->dout, (size_t)m.outs * sizeof(float));
	assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
	m.din = copy_of(sl_exec_din(exec, 0, GOLDEN_VOLUMES).data, m.dins);
	m.grads = s->weight_count;
	m.grad = range;
	memset(range, 0, (size_t)m.grads * sizeof *range);
	assert_int_equal(sl_exec_get_gradients(exec, m.grad), SL_OK);
	sl_exec_close(exec);
	return m;
}

static void free_made(struct made *m)
{
	free(m->out);
	free(m->din);
	free(m->grad);
}

static void compare(const struct made *m, const struct sl_plan_segment *s, const struct volume_golden *g,
		    struct op_log *log)
{
	char what[32];

	snprintf(log->op, sizeof log->op, "%s", g->name);
	op_compare("out", m->out, g->out, m->outs, 0, log);
	op_compare("din", m->din, g->din, m->dins, 0, log);
	for (int i = 0; i < s->n_param; i++) {
		const struct sl_segment_param *p = &s->param[i];

		snprintf(what, sizeof what, "gradient of p%d", p->graph_param);
		if (g->grad[p->graph_param])
			op_compare(what, m->grad + p->offset, g->grad[p->graph_param], p->count, 0, log);
	}
}

static void the_reference_computes_what_torch_does(void **state)
{
	struct op_log log = {.backend = "ref", .mode = "torch"};
	struct sl_backend be;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	for (size_t i = 0; i < sizeof golden_volumes / sizeof golden_volumes[0]; i++) {
		struct sl_plan *plan = planned(&golden_volumes[i]);
		struct made m = step(plan, &be, &golden_volumes[i]);

		compare(&m, &plan->segment[SL_MIDDLE], &golden_volumes[i], &log);
		free_made(&m);
		sl_plan_close(plan);
	}
	be.ops->close(&be);
	assert_int_equal(log.failures, 0);
}

static struct made step_with(int threads, const struct sl_plan *plan, const struct volume_golden *g)
{
	struct sl_backend be;
	struct sl_pool *pool;
	struct made m;

	assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	m = step(plan, &be, g);
	be.ops->close(&be);
	sl_pool_close(pool);
	return m;
}

static void the_cpu_does_with_any_number_of_threads(void **state)
{
	struct op_log log = {.backend = "cpu", .mode = "torch"};

	for (size_t i = 0; i < sizeof golden_volumes / sizeof golden_volumes[0]; i++) {
		const struct volume_golden *g = &golden_volumes[i];
		struct sl_plan *plan = planned(g);
		struct made one = step_with(1, plan, g), three = step_with(3, plan, g);

		compare(&one, &plan->segment[SL_MIDDLE], g, &log);
		assert_memory_equal(one.out, three.out, (size_t)one.outs * sizeof(float));
		assert_memory_equal(one.din, three.din, (size_t)one.dins * sizeof(float));
		assert_memory_equal(one.grad, three.grad, (size_t)one.grads * sizeof(float));
		free_made(&one);
		free_made(&three);
		sl_plan_close(plan);
	}
	assert_int_equal(log.failures, 0);
}

/* A 3-D convolution counts as many products as PyTorch's: those of one tap and channel pair for each output. */
static void products_are_counted_as_in_3d(void **state)
{
	struct sl_plan *plan = planned(&golden_volumes[0]); /* 2 to 3 channels, 3x3x3, 4x3x3 voxels */

	assert_int_equal(plan->segment[SL_MIDDLE].macs, 4 * 3 * 3 * 3 * 27 * 2);
	sl_plan_close(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reference_computes_what_torch_does),
		cmocka_unit_test(the_cpu_does_with_any_number_of_threads),
		cmocka_unit_test(products_are_counted_as_in_3d),
	};

	return cmocka_run_group_tests_name("volumes", tests, NULL, NULL);
}
