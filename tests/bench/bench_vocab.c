/* usage: bench_vocab THREADS ROWS FEATURES WORDS [own]
 * Measures the loss of a language model on this CPU: a linear layer from FEATURES to WORDS and cross-entropy, with the
 * gradient of the layer's input; `own`: also that of its weight. Values come from a formula that bench_vocab.py has,
 * too. For each line of stdin it runs once and prints milliseconds ("cpu" asks for CPU time), the mean loss and the
 * norm of the input's gradient. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/op_times.h"

static _Noreturn void die(const struct sl_fail *fail)
{
	fprintf(stderr, "bench_vocab: %s\n", fail->text);
	exit(70);
}

/* Value i of a tensor, in [-1/2, 1/2). */
static float made(int64_t i, uint32_t seed)
{
	const uint32_t x = ((uint32_t)i + seed) * 2654435761u;

	return (float)((x ^ x >> 15) * 2246822519u >> 8) / (1 << 24) - 0.5f;
}

static struct sl_plan *plan_of(int64_t rows, int features, int words, bool own)
{
	const struct sl_plan_spec spec = {.batch = rows, .chunks = 1};
	struct sl_plan *plan;
	struct sl_fail fail;
	struct sl_graph g;
	char text[256];
	const int n = snprintf(text, sizeof text,
			       "graph 1\nin mid_act f32 R[%d]\nin label i32 R[]\nparam w [%d,%d]%s zero\n"
			       "node lm_head linear %%0 &0\nnode loss xent %%2 %%1\nout loss %%3\n",
			       features, words, features, own ? "" : " frozen");

	if (sl_graph_read(&g, text, (size_t)n, &fail) || sl_plan_open_part(&plan, &spec, SL_TAIL, &g, &fail))
		die(&fail);
	return plan;
}

static struct sl_exec *open_exec(const struct sl_plan *plan, struct sl_backend *be)
{
	const int64_t count = plan->segment[SL_TAIL].weight_count;
	const struct sl_shape *in = &plan->segment[SL_TAIL].in_shape;
	float *w = calloc((size_t)count, sizeof *w), *h;
	struct sl_fail fail;
	struct sl_exec *e;

	if (sl_exec_open(&e, plan, SL_TAIL, be, &fail))
		die(&fail);
	for (int64_t i = 0; i < count && w; i++)
		w[i] = made(i, 1);
	if (!w || sl_exec_set_weights(e, w) || sl_exec_begin(e))
		exit(70);
	free(w);
	h = sl_exec_input(e, 0, in->dim[0]).data;
	for (int64_t i = 0; i < sl_shape_count(in); i++)
		h[i] = made(i, 2);
	return e;
}

static void run(struct sl_exec *e, int64_t rows, const int32_t *labels, bool cpu)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(rows), .training = true};
	struct sl_exec_loss loss = {.labels = labels, .scale = 1 / (float)rows};
	const double began = cpu_ms();
	const uint64_t start = sl_now_ns();
	double ms, norm = 0;
	const int64_t count = sl_shape_count(&sl_exec_segment(e)->in_shape);
	const float *din;

	if (sl_exec_forward(e, &call, &loss) || sl_exec_backward(e, &call, &loss))
		exit(70);
	ms = cpu ? cpu_ms() - began : sl_seconds_since(start) * 1e3;
	din = sl_exec_din(e, 0, rows).data;
	for (int64_t i = 0; i < count; i++)
		norm += (double)din[i] * (double)din[i];
	printf("%.4f %.9g %.9g\n", ms, loss.sum / (double)rows, sqrt(norm));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const bool own = argc == 6 && strcmp(argv[5], "own") == 0;
	struct sl_fail fail;
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_plan *plan;
	struct sl_exec *e;
	int32_t *labels;
	int64_t rows;
	char line[64];

	if (argc != 5 && !own) {
		fprintf(stderr, "usage: bench_vocab THREADS ROWS FEATURES WORDS [own]\n");
		return 64;
	}
	if (sl_pool_open(&pool, atoi(argv[1]), &fail) || sl_cpu_backend_open(&be, pool, &fail))
		die(&fail);
	rows = atoi(argv[2]);
	plan = plan_of(rows, atoi(argv[3]), atoi(argv[4]), own);
	e = open_exec(plan, &be);
	labels = calloc((size_t)rows, sizeof *labels);
	for (int64_t i = 0; i < rows && labels; i++)
		labels[i] = (int32_t)(i * 7919 % atoi(argv[4]));
	while (labels && fgets(line, sizeof line, stdin))
		run(e, rows, labels, strncmp(line, "cpu", 3) == 0);
	fprintf(stderr, "bench_vocab: %s\n", sl_cpu_describe());
	free(labels);
	sl_exec_close(e);
	sl_plan_close(plan);
	be.ops->close(&be);
	sl_pool_close(pool);
	return 0;
}
