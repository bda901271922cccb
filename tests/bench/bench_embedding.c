/* usage: bench_embedding IDS [ROWS]
 * Measures what a step of AdamW costs for the embedding of RoBERTa-base, 50,265 × 768, on one thread: all that an
 * executor does except adding up the gradient. IDS is the output of `splitc tokens`, a line for each sample; a step
 * takes the next ROWS (32) lines. The executor postpones the updates of rows that a step does not read (exec_tables.c).
 * Prints the time of a step, the time of all postponed updates at the end, and, to compare, the time of an update of
 * the whole table. Times are CPU time; of steps and of whole updates the median with the least and the most. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/exec.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/op_times.h"

enum { VOCAB = 50265, F = 768, LONGEST = 512, MOST_ROWS = 256, MOST_STEPS = 2000, LINE = 1 << 16, AT_ONCE = 9 };

static const struct sl_optimizer adamw = {
	.kind = SL_OPTIMIZER_ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_embedding: %s\n", what);
	exit(70);
}

static struct sl_plan *plan_of(int rows)
{
	const struct sl_plan_spec spec = {.batch = rows,
					  .chunks = 1,
					  .row_tokens = LONGEST,
					  .chunk_tokens = (int64_t)rows * LONGEST,
					  .optimizer = adamw};
	const struct sl_param p = {.name = "words", .shape = sl_shape2(VOCAB, F), .init = {SL_INIT_NORMAL, 0.02f}};
	struct sl_node n = sl_node_of(SL_OP_EMBEDDING);
	struct sl_graph g = {0};
	struct sl_plan *plan;
	struct sl_fail fail;
	const int in = 0, param = 0;
	int out;

	strcpy(n.name, "words");
	n.n_in = n.n_param = 1;
	if (sl_graph_add_input(&g, "tokens", SL_I32, SL_PER_TOKEN, sl_shape1(1), LONGEST, NULL, &fail) ||
	    sl_graph_add_param(&g, &p, &fail) || sl_graph_add_node(&g, &n, &in, &param, &out, &fail) ||
	    sl_graph_add_output(&g, "head_act", out, NULL, &fail) ||
	    sl_plan_open_part(&plan, &spec, SL_HEAD, &g, &fail))
		die(fail.text);
	return plan;
}

/* Reads the next batch: its ids, and where each row begins in them [rows + 1]. False: too few lines are left. */
static bool next_batch(FILE *f, int rows, int32_t *id, uint32_t *begin)
{
	static char line[LINE];

	for (int r = 0; r < rows; r++) {
		char *at = line, *end;

		begin[r + 1] = begin[r];
		if (!fgets(line, sizeof line, f))
			return false;
		for (long t = strtol(at, &end, 10); end != at && begin[r + 1] - begin[r] < LONGEST;
		     at = end, t = strtol(at, &end, 10)) {
			if (t < 0 || t >= VOCAB)
				die("an id is not in the vocabulary");
			id[begin[r + 1]++] = (int32_t)t;
		}
		if (begin[r + 1] == begin[r])
			die("a line has no ids");
	}
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(const char *what, double *ms, int n)
{
	qsort(ms, (size_t)n, sizeof *ms, by_value);
	printf("%-24s %8.2f ms (%.2f to %.2f), %d steps\n", what, ms[n / 2], ms[0], ms[n - 1], n);
}

/* Runs a step and returns its milliseconds, without those of the backward pass, which adds up the gradient. */
static double step(struct sl_exec *e, int rows, const int32_t *id, const uint32_t *begin, uint64_t number)
{
	const struct sl_exec_call call = {
		.dims = {.rows = rows, .tokens = begin[rows], .begin = begin}, .step = number, .training = true};
	const int64_t chunk = rows;
	const double start = cpu_ms();
	double between, squares;
	struct sl_fail fail;
	float *dout;

	if (sl_exec_begin(e))
		die("the step does not begin");
	memcpy(sl_exec_input(e, 0, begin[rows]).data, id, begin[rows] * sizeof *id);
	if (sl_exec_forward(e, &call, NULL))
		die("the forward pass failed");
	between = cpu_ms();
	dout = sl_exec_dout(e, 0, begin[rows]).data;
	for (int64_t i = 0; i < (int64_t)begin[rows] * F; i++)
		dout[i] = 1e-3f * (float)(i % 7 - 3);
	if (sl_exec_backward(e, &call, NULL))
		die("the backward pass failed");
	between = cpu_ms() - between;
	if (sl_exec_check(e, &chunk, 1, &fail) || sl_exec_squares(e, &squares, &fail) ||
	    sl_exec_commit(e, 1e-5, &chunk, 1))
		die("the optimizer's step failed");
	return cpu_ms() - start - between;
}

static void at_once(struct sl_backend *be, float *w)
{
	const struct sl_update u = sl_optimizer_step(&adamw, 1e-5, 1);
	double ms[AT_ONCE];
	float *area[3];

	for (int i = 0; i < 3; i++) {
		area[i] = calloc((size_t)VOCAB * F, sizeof *area[i]);
		if (!area[i])
			die("no memory");
		memset(area[i], 0, (size_t)VOCAB * F * sizeof *area[i]);
	}
	for (int r = 0; r < AT_ONCE; r++) {
		const double start = cpu_ms();

		memset(area[0], 0, (size_t)VOCAB * F * sizeof *area[0]);
		if (be->ops->update(be, &u, (int64_t)VOCAB * F, w, area[0], area + 1))
			die("the update failed");
		ms[r] = cpu_ms() - start;
	}
	say("the whole table at once", ms, AT_ONCE);
	for (int i = 0; i < 3; i++)
		free(area[i]);
}

int main(int argc, char **argv)
{
	static double ms[MOST_STEPS];
	static uint32_t begin[MOST_ROWS + 1];
	static int32_t id[MOST_ROWS * LONGEST];
	const int rows = argc > 2 ? atoi(argv[2]) : 32;
	FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
	struct sl_fail fail;
	struct sl_backend be;
	struct sl_plan *plan;
	struct sl_exec *e;
	double start;
	float *w;
	int n = 0;

	if (!f || rows < 1 || rows > MOST_ROWS) {
		fprintf(stderr, "usage: bench_embedding IDS [ROWS]\n");
		return 64;
	}
	plan = plan_of(rows);
	w = malloc((size_t)plan->segment[SL_HEAD].weight_count * sizeof *w);
	if (!w || sl_cpu_backend_open(&be, NULL, &fail) || sl_exec_open(&e, plan, SL_HEAD, &be, &fail))
		die("cannot open the executor");
	sl_param_init(&plan->segment[SL_HEAD].graph.param[0], 1, w);
	if (sl_exec_set_weights(e, w))
		die("weights");
	for (int epoch = 0; epoch < 3; epoch++, rewind(f))
		while (n < MOST_STEPS && next_batch(f, rows, id, begin)) {
			ms[n] = step(e, rows, id, begin, (uint64_t)n);
			n++;
		}
	say("a step", ms, n);
	start = cpu_ms();
	if (sl_exec_get_weights(e, w))
		die("weights");
	printf("%-24s %8.0f ms after %d steps\n", "all postponed updates", cpu_ms() - start, n);
	at_once(&be, w);
	sl_exec_close(e);
	sl_plan_close(plan);
	be.ops->close(&be);
	free(w);
	fclose(f);
	return 0;
}
