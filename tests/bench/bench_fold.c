/* usage: bench_fold [MEGABYTES [MEMBERS [THREADS]]]
 * Measures what a step of a group costs besides the members' own passes, with THREADS (1) threads: the gradients of
 * MEMBERS (4) members, of MEGABYTES (10) each, are added up. Prints milliseconds for each member: of the executor's sum
 * with its check for NaN; of the same in plain loops, each a pass over memory; of reading one gradient, the least that
 * a sum can take; of the check of a member's gradient; and of its norm. Then those of the optimizer's update, once a
 * step. The measurements take turns. Each is a median with the least and the most. Times are CPU time of all threads
 * or, if THREADS is above 1, wall time, since idle threads spin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/pool.h"
#include "common/exec/clip.h"
#include "common/exec/exec.h"
#include "common/exec/finite.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/op_times.h"

enum { MOST = 256, TIMES = 15 };

enum what { SUM, LOOPS, READ, CHECK, NORM, UPDATE, WHATS };

static const char *const name[WHATS] = {"the sum, checked, by member", "the same in plain loops",
					"reading a gradient",          "check of a member's gradient",
					"norm of a member's gradient", "the update, once a step"};

static int members = 4, threads = 1;
static struct sl_backend be;
static struct sl_plan *plan;
static struct sl_exec *trunk, *member[MOST];
static float *sum, *gradient[MOST]; /* for the plain loops; the backend allocates them, as the executor's memory */
static int64_t count;
static double ms[WHATS][TIMES];

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_fold: %s\n", what);
	exit(70);
}

static double now_ms(void)
{
	return threads > 1 ? (double)sl_now_ns() * 1e-6 : cpu_ms();
}

/* A middle with one matrix of `side` × `side`. */
static void open_plan(int64_t side)
{
	const struct sl_optimizer sgd = {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true};
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1, .optimizer = sgd};
	const struct sl_param p = {.name = "weight", .shape = sl_shape2(side, side), .init = {SL_INIT_NORMAL, 0.02f}};
	struct sl_node n = sl_node_of(SL_OP_LINEAR);
	struct sl_graph g = {0};
	struct sl_fail fail;
	const int in = 0, param = 0;
	int out;

	strcpy(n.name, "linear");
	n.n_in = n.n_param = 1;
	if (sl_graph_add_input(&g, "head_act", SL_F32, SL_PER_ROW, sl_shape2(1, side), 1, NULL, &fail) ||
	    sl_graph_add_param(&g, &p, &fail) || sl_graph_add_node(&g, &n, &in, &param, &out, &fail) ||
	    sl_graph_add_output(&g, "mid_act", out, NULL, &fail) ||
	    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail))
		must(false, fail.text);
	count = plan->segment[SL_MIDDLE].trainable_count;
}

static void open_all(void)
{
	float *w = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *w);
	struct sl_fail fail;
	void *p;

	must(w && !sl_exec_prepare(&trunk, plan, SL_MIDDLE, &be, &fail) && !sl_exec_bare(trunk, &fail) &&
		     !sl_exec_allocate(trunk, &fail) && !sl_exec_set_weights(trunk, w),
	     "cannot open the trunk");
	must(!be.ops->alloc(&be, (size_t)count * sizeof *sum, &p, &fail), "no memory");
	sum = p;
	for (int k = 0; k < members; k++) {
		must(!sl_exec_prepare(&member[k], plan, SL_MIDDLE, &be, &fail) &&
			     !sl_exec_borrow(member[k], trunk, &fail) && !sl_exec_allocate(member[k], &fail),
		     "cannot open a member");
		must(!be.ops->alloc(&be, (size_t)count * sizeof *sum, &p, &fail), "no memory");
		gradient[k] = p;
	}
	free(w);
}

static void pass(int k, uint64_t step)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(1), .step = step, .training = true};
	float *in, *dout;

	must(!sl_exec_begin(member[k]), "begin");
	in = sl_exec_input(member[k], 0, 1).data;
	dout = sl_exec_dout(member[k], 0, 1).data;
	for (int64_t i = 0; i * i < count; i++)
		in[i] = 1e-2f * (float)((i + k) % 13 - 5);
	must(!sl_exec_forward(member[k], &call, NULL), "forward");
	for (int64_t i = 0; i * i < count; i++)
		dout[i] = 1e-2f * (float)((i + k) % 11 - 4);
	must(!sl_exec_backward(member[k], &call, NULL), "backward");
	must(!sl_exec_get_gradients(member[k], gradient[k]), "gradients");
}

/* ---- what is measured */

static void fold(void)
{
	const int64_t rows = 1;
	struct sl_fail fail;

	must(!sl_exec_fold_begin(trunk), "fold");
	for (int k = 0; k < members; k++)
		must(!sl_exec_fold_add(trunk, member[k], &rows, 1), "fold");
	must(!sl_exec_fold_end(trunk, 1.25) && !sl_exec_check(trunk, NULL, 0, &fail), "fold");
}

static void loops(void)
{
	const volatile float factor = 1.25f;
	const float by = factor;

	memcpy(sum, gradient[0], (size_t)count * sizeof *sum);
	for (int k = 1; k < members; k++)
		for (int64_t i = 0; i < count; i++)
			sum[i] += gradient[k][i];
	for (int64_t i = 0; i < count; i++)
		sum[i] *= by;
	must(sl_finite_host(sum, count), "finite");
}

static void compare(void)
{
	float *x = malloc((size_t)count * sizeof *x);

	must(x && !sl_exec_get_gradients(trunk, x) && memcmp(x, sum, (size_t)count * sizeof *x) == 0,
	     "the executor's sum differs from that of the plain loops");
	free(x);
}

static double timed(enum what what)
{
	const int64_t rows = 1;
	const double began = now_ms();
	struct sl_fail fail;
	double squares;
	int n = members;

	switch (what) {
	case SUM:
		fold();
		break;
	case LOOPS:
		loops();
		break;
	case READ:
		for (int k = 0; k < n; k++)
			must(sl_finite_host(gradient[k], count), "finite");
		break;
	case CHECK:
		for (int k = 0; k < n; k++)
			must(!sl_exec_check(member[k], &rows, 1, &fail), "check");
		break;
	case NORM:
		for (int k = 0; k < n; k++)
			must(!sl_exec_squares(member[k], &squares, &fail), "norm");
		break;
	default:
		must(!sl_exec_commit(trunk, 1e-3, NULL, 0), "commit");
		n = 1;
	}
	return (now_ms() - began) / n;
}

/* ---- the report */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(enum what what)
{
	double *x = ms[what];

	qsort(x, TIMES, sizeof *x, by_value);
	printf("%-30s %6.2f ms (%.2f to %.2f)\n", name[what], x[TIMES / 2], x[0], x[TIMES - 1]);
}

/* One round. SUM and LOOPS change places in every other round, because the first one finds more in the caches. */
static void turn(int t)
{
	const enum what order[WHATS] = {READ, CHECK, NORM, t % 2 ? LOOPS : SUM, t % 2 ? SUM : LOOPS, UPDATE};

	for (int k = 0; k < members; k++)
		pass(k, (uint64_t)(t + 1));
	for (int i = 0; i < WHATS; i++) {
		const double x = timed(order[i]);

		if (t >= 0)
			ms[order[i]][t] = x;
		if (i == WHATS - 2)
			compare();
	}
}

int main(int argc, char **argv)
{
	const double megabytes = argc > 1 ? atof(argv[1]) : 10;
	struct sl_pool *pool;
	struct sl_fail fail;
	int64_t side = 1;

	members = argc > 2 ? atoi(argv[2]) : members;
	threads = argc > 3 ? atoi(argv[3]) : threads;
	if (argc > 4 || megabytes <= 0 || members < 1 || members > MOST || threads < 1) {
		fprintf(stderr, "usage: bench_fold [MEGABYTES [MEMBERS [THREADS]]]\n");
		return 64;
	}
	while ((double)((side + 1) * (side + 1)) * sizeof(float) <= megabytes * 1e6)
		side++;
	must(!sl_pool_open(&pool, threads, &fail) && !sl_cpu_backend_open(&be, pool, &fail), "no backend");
	open_plan(side);
	open_all();
	for (int t = -1; t < TIMES; t++) /* the first one warms up */
		turn(t);
	printf("%d members, gradients of %.1f MB, threads: %d; %s\n", members, (double)count * 4e-6, threads,
	       threads > 1 ? "time on the clock" : "CPU time");
	for (enum what w = SUM; w < WHATS; w++)
		say(w);
	for (int k = 0; k < members; k++) {
		sl_exec_close(member[k]);
		be.ops->free(&be, gradient[k]);
	}
	be.ops->free(&be, sum);
	sl_exec_close(trunk);
	sl_plan_close(plan);
	be.ops->close(&be);
	sl_pool_close(pool);
	return 0;
}
