#include "client/cmd/patch_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/wrap.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "common/session/port.h"
#include "common/telemetry/json.h"
#include "kernels/cpu/cpu.h"

enum { DEEP = 8, SIDE = 48, RUNS = 3, PASSES = 3 /* forward, and backward to the input and to the weight */ };

/* The convolution of head and tail with the most multiplications: its channels and outputs. */
static void find_largest(const struct sl_plan *plan, int *channels, int *outputs)
{
	int64_t most = 0;

	*channels = *outputs = 1;
	for (int which = SL_HEAD; which <= SL_TAIL; which += SL_TAIL - SL_HEAD) {
		const struct sl_graph *g = &plan->segment[which].graph;

		for (int i = 0; i < g->n_node; i++) {
			const struct sl_op op = sl_graph_op(g, i);

			if (op.kind != SL_OP_CONV2D || sl_op_macs(&op, 1) < most)
				continue;
			most = sl_op_macs(&op, 1);
			*channels = (int)(op.in_shape[0].dim[3] + 2) / 3; /* of three slices side by side */
			*outputs = (int)op.out_shape.dim[3];
		}
	}
}

/* Trains the layer of `plan` RUNS times. *seconds: the shortest time. */
static enum sl_err time_layer(double *seconds, const struct sl_plan *plan, struct sl_backend *be, struct sl_fail *fail)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(1), .training = true};
	float *weights = calloc((size_t)plan->segment[SL_MIDDLE].weight_count + 1, sizeof *weights);
	struct sl_exec *exec = NULL;
	enum sl_err err = weights ? sl_exec_open(&exec, plan, SL_MIDDLE, be, fail)
				  : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to measure a layer");

	if (!err)
		err = sl_exec_set_weights(exec, weights);
	for (int run = 0; run < RUNS && !err; run++) {
		const uint64_t began = sl_now_ns();

		err = sl_exec_begin(exec);
		if (!err)
			err = sl_exec_forward(exec, &call, NULL);
		if (!err)
			err = sl_exec_backward(exec, &call, NULL);
		*seconds = run && sl_seconds_since(began) > *seconds ? *seconds : sl_seconds_since(began);
	}
	sl_exec_close(exec);
	free(weights);
	return err;
}

/* Multiplications a second of this host, in one pass of a 3 × 3 × 3 convolution. */
static enum sl_err measure(double *rate, const struct sl_setup *s, struct sl_backend *be, struct sl_fail *fail)
{
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1};
	struct sl_graph graph = {.n_node = 0};
	struct sl_plan *plan = NULL;
	int channels, outputs;
	char text[512];
	double seconds = 1;
	enum sl_err err;

	find_largest(s->plan, &channels, &outputs);
	snprintf(text, sizeof text,
		 "graph 1\nin head_act f32 R[%d,%d,%d]\nparam p [%d,3,3,%d] zero\n"
		 "node w window %%0 slices=%d k=3 pad=1\nnode c conv2d %%1 &0 pad=1 slices=%d\nout mid_act %%2\n",
		 DEEP * SIDE, SIDE, channels, outputs, 3 * channels, DEEP, DEEP);
	err = sl_graph_read(&graph, text, strlen(text), fail);
	if (!err)
		err = sl_plan_open_part(&plan, &spec, SL_MIDDLE, &graph, fail);
	if (!err)
		err = time_layer(&seconds, plan, be, fail);
	*rate = err ? 1 : PASSES * (double)plan->segment[SL_MIDDLE].macs / seconds;
	sl_plan_close(plan);
	sl_graph_close(&graph);
	return err;
}

enum sl_err sl_patch_cost(json_t **out, const struct sl_setup *s, bool local, struct sl_fail *fail)
{
	const struct sl_plan *plan = s->plan;
	const double macs = (double)plan->segment[SL_HEAD].macs + (double)plan->segment[SL_TAIL].macs;
	struct sl_pool *pool = NULL;
	struct sl_backend be;
	size_t bytes[SL_DIR_COUNT] = {0};
	double rate = 1, sum = 0;
	enum sl_err err;

	*out = NULL;
	if (!plan->model->depth[0])
		return SL_OK;
	err = sl_pool_open(&pool, s->conf->threads, fail);
	if (err)
		return err;
	err = sl_cpu_backend_open(&be, pool, fail);
	if (!err) {
		err = measure(&rate, s, &be, fail);
		if (!err && !local)
			err = sl_port_run_bytes(plan, &be, s->agreement.codec, bytes, fail);
		be.ops->close(&be);
	}
	sl_pool_close(pool);
	if (err)
		return err;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sum += (double)bytes[dir] / (double)plan->rows;
	*out = json_pack("{s:f, s:f, s:I}", "seconds", PASSES * macs / rate, "gflop_s", 2e-9 * rate, "bytes",
			 (json_int_t)sum);
	if (s->conf->data.kind == SL_DATA_VOLUMES)
		json_object_set_new(
			*out, "case_bytes",
			json_integer((json_int_t)(sum * (s->conf->data.size.n ? 1 : s->conf->data.patches))));
	return SL_OK;
}

void sl_patch_cost_print(const json_t *cost, bool whole)
{
	char text[SL_FIGURE_TEXT], bytes[SL_BYTES_TEXT];

	printf("%-12s %s of this host's time for head and tail, at a measured %.0f GFLOP/s\n", whole ? "case" : "patch",
	       sl_time_text(sl_json_number(cost, "seconds"), text), sl_json_number(cost, "gflop_s"));
	if (sl_json_number(cost, "bytes"))
		printf("             %s cross in all four directions",
		       sl_bytes_text((uint64_t)sl_json_number(cost, "bytes"), bytes));
	if (sl_json_number(cost, "bytes") && json_object_get(cost, "case_bytes"))
		printf("; %s for a case and epoch", sl_bytes_text((uint64_t)sl_json_number(cost, "case_bytes"), bytes));
	puts(sl_json_number(cost, "bytes") ? "" : "             nothing crosses: --local");
}
