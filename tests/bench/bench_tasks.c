/* usage: bench_tasks [RUNS]
 * Measures what the tasks of a session cost a server, and what server/trunk/cost.c predicts before it admits the
 * session: the figures of docs/results/security.md. It uses one thread of the CPU backend. A row is a middle of
 * MobileNetV2 and has measured / predicted milliseconds of one chunk forward, one chunk backward, and of making and
 * setting the first weights: the least of RUNS (3) runs. "piece" is the longest time that a second job on the same
 * worker waited beyond a job's slice, in the run where it was shortest. Codecs are left out; bench_pieces measures
 * those. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/weights/weights.h"
#include "kernels/cpu/cpu.h"
#include "server/trunk/cost.h"
#include "tests/support/piece_rig.h"
#include "tests/support/plan_open.h"

struct setting {
	int image;
	int64_t rows; /* of the only chunk */
	double width;
	const char *head_end, *tail_begin;
};

static const struct setting settings[] = {
	{32, 128, 1, "features.0.1", "classifier"},  {224, 16, 1, "features.0.1", "classifier"},
	{224, 1, 1, "features.0.1", "classifier"},   {512, 4, 1, "features.0", "features.2"},
	{1024, 1, 1, "features.0", "features.2"},    {224, 16, 1, "features.1", "features.3"},
	{224, 16, 1, "features.14", "features.18"},  {224, 64, 1, "features.17", "classifier"},
	{32, 1, 8, "features.0.1", "classifier"},    {224, 4, 4, "features.14", "features.18"},
	{224, 16, 0.1, "features.0.1", "classifier"}};

enum { FORWARD, BACKWARD, WEIGHTS, TASKS };

struct task {
	struct sl_job job; /* first */
	struct sl_exec *exec;
	const struct sl_plan *plan;
	float *range;
	int which;
	enum sl_err err;
};

static void run(struct sl_job *job)
{
	struct task *t = (struct task *)job;
	const struct sl_exec_call call = {.dims = sl_dims_rows(t->plan->rows), .training = true};

	if (t->which == WEIGHTS) {
		sl_weights_init_range(&t->plan->segment[SL_MIDDLE], 1, t->range);
		t->err = sl_exec_set_weights(t->exec, t->range);
	} else if (t->which == FORWARD) {
		t->err = sl_exec_begin(t->exec);
		t->err = t->err ? t->err : sl_exec_forward(t->exec, &call, NULL);
	} else {
		t->err = sl_exec_backward(t->exec, &call, NULL);
	}
}

static void fill(struct sl_tensor t)
{
	for (int64_t i = 0; i < sl_shape_count(&t.shape); i++)
		((float *)t.data)[i] = (float)(i * 7919 % 1000) / 500 - 1;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_tasks: %s\n", what);
	exit(1);
}

static struct sl_plan *plan_of(const struct setting *s)
{
	struct sl_split_spec spec = {
		.model = {.name = "mobilenet_v2", .width = s->width, .classes = 1000, .image = s->image},
		.plan.batch = s->rows,
		.plan.chunks = 1,
		.plan.seed = 1,
		.plan.optimizer = {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9}};
	struct sl_plan *plan;
	struct sl_fail fail;

	snprintf(spec.cut.head_end, sizeof spec.cut.head_end, "%s", s->head_end);
	snprintf(spec.cut.tail_begin, sizeof spec.cut.tail_begin, "%s", s->tail_begin);
	if (plan_open(&plan, &spec, &fail) != SL_OK)
		die(fail.text);
	return plan;
}

static void measure(const struct sl_plan *plan, struct sl_backend *be, int runs, double least[TASKS], double *piece_s)
{
	struct task t = {.job.run = run, .plan = plan};
	struct sl_fail fail;

	t.range = calloc((size_t)plan->segment[SL_MIDDLE].weight_count, sizeof *t.range);
	if (!t.range || sl_exec_open(&t.exec, plan, SL_MIDDLE, be, &fail) != SL_OK)
		die("no memory");
	*piece_s = -1;
	for (int r = -1; r < runs; r++) {
		double most = 0;

		for (int n = 0; n < TASKS; n++) {
			const int which = (n + WEIGHTS) % TASKS; /* the weights come first */
			double piece, s;

			fill(sl_exec_input(t.exec, 0, plan->rows));
			fill(sl_exec_dout(t.exec, 0, plan->rows));
			t.which = which;
			s = piece_measure_job(&t.job, &piece);
			if (t.err)
				die(sl_err_text(t.err));
			least[which] = r <= 0 || s < least[which] ? s : least[which];
			most = piece > most ? piece : most;
		}
		*piece_s = *piece_s < 0 || most < *piece_s ? most : *piece_s;
	}
	sl_exec_close(t.exec);
	free(t.range);
}

static void row(const struct setting *s, struct sl_backend *be, int runs)
{
	struct sl_plan *plan = plan_of(s);
	const struct sl_plan_segment *m = &plan->segment[SL_MIDDLE];
	double least[TASKS], piece_s, predicted_s = 0, macs = 0, elements = 0;
	struct sl_cost cost[TASKS];

	for (int i = 0; i < m->n_op; i++) {
		macs += (double)sl_op_macs(&m->op[i].op, 1) * (double)plan->rows;
		elements += (double)sl_shape_row(&m->op[i].op.out_shape) * (double)plan->rows;
	}
	cost[FORWARD] = sl_segment_cost(plan, 1);
	cost[BACKWARD] = sl_segment_cost(plan, 2);
	cost[WEIGHTS] = sl_weights_cost(plan);
	measure(plan, be, runs, least, &piece_s);
	printf("| %d, %d | %g | `%s` to `%s` | %.2f | %.1f | %.2f |", s->image, (int)s->rows, s->width, s->head_end,
	       s->tail_begin, macs * 1e-9, elements * 1e-6, (double)m->weight_count * 1e-6);
	for (int i = 0; i < TASKS; i++)
		printf(" %.1f / %.1f |", least[i] * 1e3, cost[i].task_s * 1e3);
	for (int i = 0; i < TASKS; i++)
		predicted_s = cost[i].piece_s > predicted_s ? cost[i].piece_s : predicted_s;
	printf(" %.1f / %.1f |\n", piece_s * 1e3, predicted_s * 1e3);
	fflush(stdout);
	sl_plan_close(plan);
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 3;
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_fail fail;

	if (runs < 1 || sl_pool_open(&pool, 1, &fail) || sl_cpu_backend_open(&be, pool, &fail))
		die("usage: bench_tasks [RUNS]");
	puts("| image, rows | width | middle | 1e9 MACs | 1e6 elements | 1e6 weights | forward, ms | backward, ms | "
	     "first "
	     "weights, ms | piece, ms |\n|---|---|---|---|---|---|---|---|---|---|");
	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
		row(&settings[i], &be, runs);
	be.ops->close(&be);
	sl_pool_close(pool);
	return 0;
}
