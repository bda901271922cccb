/* usage: bench_ops [image] [batch] [chunk] [threads] [runs] [what] [network head_end tail_begin
 *        [precision]]
 * Measures a network on the CPU backend, forward and backward: milliseconds, medians of `runs`. The network is a name
 * or a network's file; without one it is MobileNetV2, cut at features.0.1 and classifier. The precision is fp32 or
 * bf16_factors. `what` chooses:
 *   0        (the default) each op alone, then each segment.
 *   1        only the segments.
 *   2, 3, 4  only head, middle or tail.
 *   5        the middle, then a profile of its ops.
 *   6        only the updates of optimizers.
 * Ops: each runs on `chunk` rows, in memory of its own. Segments: the executor runs all chunks of the batch forward,
 * then all backward; "CPU min" is the least CPU time of all threads, forward and backward. Profile: each op as the
 * executor calls it, the least CPU time of a call, times the chunks. Beside it is a floor, the longer of two times: of
 * the kernel's floating-point operations at the peak of this CPU and level, and of its tensors at the rate of memory.
 * Winograd's kernel has fewer operations than a direct sum. Both rates are measured first, and printed: the product's
 * own inner loop on data in the L1 cache, and a sum over arrays that no cache holds. Updates: a step of each optimizer
 * over as many weights as the model has: its least CPU time, and the bytes that it reads and writes for a weight. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/pool.h"
#include "common/conf/agreed.h"
#include "common/exec/exec.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "tests/bench/op_times.h"
#include "tests/support/plan_open.h"

enum { MAX_RUNS = 99 };

enum { PROFILE = 5, UPDATES = 6 }; /* values of segments_only */

struct setting {
	int image, batch, chunk, threads, runs, segments_only;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *t, int n)
{
	qsort(t, (size_t)n, sizeof *t, by_value);
	return t[n / 2];
}

static void die(const struct sl_fail *fail)
{
	fprintf(stderr, "bench_ops: %s\n", fail->text);
	exit(sl_err_exit_status(fail->code));
}

/* ---- one op by itself */

struct buffers {
	float *in[SL_OP_MAX_IN], *din[SL_OP_MAX_IN], *out, *dout, *param, *grad;
	void *saved, *workspace;
};

static float *take(struct sl_backend *be, size_t bytes, float from, float to)
{
	const struct sl_rng_key key = {1, 1, 0, SL_RNG_TEST};
	struct sl_fail fail;
	float *p;

	if (be->ops->alloc(be, bytes + 64, (void **)&p, &fail) != SL_OK)
		die(&fail);
	for (size_t i = 0; i < bytes / sizeof *p; i++)
		p[i] = from + (to - from) * sl_rng_unit(sl_rng_u32(&key, i & 4095));
	return p;
}

static size_t tensor_bytes(const struct sl_shape *s)
{
	return (size_t)sl_shape_count(s) * sizeof(float);
}

struct op_time {
	double forward_ms, backward_ms;
};

static struct op_time time_op(struct sl_backend *be, const struct sl_graph *graph, const struct sl_segment_op *so,
			      int runs)
{
	const struct sl_op *op = &so->op;
	const struct sl_kernel *k = be->ops->kernel[op->kind];
	struct sl_fail fail;
	struct sl_op_prepare prepared = {.be = be, .op = op, .fail = &fail};
	struct sl_op_call call = {.be = be, .op = op, .training = true, .loss_scale = 1};
	double forward[MAX_RUNS], backward[MAX_RUNS], loss;
	int64_t correct, rows = op->in_shape[0].dim[0];
	int32_t *labels = calloc((size_t)rows, sizeof *labels);
	void *memory[4 + 2 * SL_OP_MAX_IN + 2 * SL_OP_MAX_PARAM];
	int held = 0;

	if (sl_kernel_open(k, &prepared) != SL_OK)
		die(&fail);
	call.state = prepared.state;
	for (int i = 0; i < op->n_in; i++) {
		size_t bytes = tensor_bytes(&op->in_shape[i]);

		call.in[i] = (struct sl_tensor){SL_F32, op->in_shape[i], memory[held++] = take(be, bytes, -1, 1), be};
		call.din[i] = call.in[i];
		call.din[i].data = so->din_want[i] ? (memory[held++] = take(be, bytes, -1, 1)) : NULL;
	}
	call.out = (struct sl_tensor){SL_F32, op->out_shape,
				      memory[held++] = take(be, tensor_bytes(&op->out_shape), 0, 0), be};
	call.dout = call.out;
	call.dout.data = memory[held++] = take(be, tensor_bytes(&op->out_shape), -1, 1);
	for (int i = 0; i < op->n_param; i++) {
		const struct sl_param *p = &graph->param[op->param[i]];

		call.param[i] = memory[held++] = take(be, tensor_bytes(&p->shape), 0.1f, 1);
		if (p->role != SL_STATISTIC)
			call.grad[i] = memory[held++] = take(be, tensor_bytes(&p->shape), 0, 0);
	}
	call.saved = memory[held++] = take(be, prepared.sizes.saved_bytes, 0, 0);
	call.workspace = memory[held++] = take(be, prepared.sizes.workspace_bytes, 0, 0);
	call.labels = labels;
	call.loss_sum = &loss;
	call.correct = &correct;
	for (int r = 0; r < runs; r++) {
		uint64_t t = sl_now_ns();

		if (k->forward(&call) != SL_OK)
			die(&fail);
		forward[r] = sl_seconds_since(t) * 1e3;
		t = sl_now_ns();
		if (k->backward(&call) != SL_OK)
			die(&fail);
		backward[r] = sl_seconds_since(t) * 1e3;
	}
	if (k->release)
		k->release(prepared.state);
	while (held > 0)
		be->ops->free(be, memory[--held]);
	free(labels);
	return (struct op_time){median(forward, runs), median(backward, runs)};
}

static const char *family(const struct sl_op *op)
{
	if (op->kind != SL_OP_CONV2D)
		return sl_op_kind_name(op->kind);
	return sl_op_is_depthwise(op) ? "depthwise" : op->u.conv.kh == 1 ? "conv 1x1" : "conv kxk";
}

static void bench_ops(struct sl_backend *be, const struct sl_plan *plan, int runs)
{
	struct {
		const char *name;
		struct op_time sum;
	} fam[SL_OP_COUNT + 2] = {{0}};
	struct op_time all = {0};
	char text[SL_SHAPE_TEXT];

	printf("%-44s %-20s %9s %9s %8s %8s\n", "op", "input", "fwd ms", "bwd ms", "GFLOP/s", "GFLOP/s");
	for (int s = 0; s < SL_SEGMENT_COUNT; s++)
		for (int i = 0; i < plan->segment[s].n_op; i++) {
			const struct sl_segment_op *so = &plan->segment[s].op[i];
			const struct sl_op *op = &so->op;
			struct op_time t = time_op(be, &plan->segment[s].graph, so, runs);
			double gflop = 2e-6 * (double)sl_op_macs(op, op->in_shape[0].dim[0]);
			int f = 0;

			printf("%-44s %-20s %9.3f %9.3f %8.1f %8.1f  %s\n", op->name,
			       sl_shape_text(&op->in_shape[0], text), t.forward_ms, t.backward_ms, gflop / t.forward_ms,
			       2 * gflop / t.backward_ms, family(op));
			while (fam[f].name != NULL && strcmp(fam[f].name, family(op)) != 0)
				f++;
			fam[f].name = family(op);
			fam[f].sum.forward_ms += t.forward_ms;
			fam[f].sum.backward_ms += t.backward_ms;
			all.forward_ms += t.forward_ms;
			all.backward_ms += t.backward_ms;
		}
	printf("\n%-44s %9s %9s %9s\n", "family", "fwd ms", "bwd ms", "both");
	for (int f = 0; fam[f].name != NULL; f++)
		printf("%-44s %9.2f %9.2f %9.2f\n", fam[f].name, fam[f].sum.forward_ms, fam[f].sum.backward_ms,
		       fam[f].sum.forward_ms + fam[f].sum.backward_ms);
	printf("%-44s %9.2f %9.2f %9.2f\n\n", "all", all.forward_ms, all.backward_ms, all.forward_ms + all.backward_ms);
}

/* ---- segments through the executor */

static void run_segment(struct sl_exec *exec, struct sl_exec_loss *loss, const struct setting *set, bool backward)
{
	for (int c = 0; c * set->chunk < set->batch; c++) {
		struct sl_exec_call call = {
			.slot = c, .chunk = c, .dims = sl_dims_rows(set->chunk), .step = 1, .training = true};

		if ((backward ? sl_exec_backward(exec, &call, loss) : sl_exec_forward(exec, &call, loss)) != SL_OK)
			exit(1);
	}
}

static void fill(struct sl_tensor t)
{
	const struct sl_rng_key key = {2, 1, 0, SL_RNG_TEST};

	for (int64_t i = 0; t.data != NULL && i < sl_shape_count(&t.shape); i++)
		((float *)t.data)[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i & 4095)) - 0.5f;
}

static void fill_weights(struct sl_exec *exec, const struct sl_plan *plan, const struct sl_plan_segment *s)
{
	float *w = calloc((size_t)s->weight_count, sizeof *w);

	for (int i = 0; i < s->n_param; i++)
		sl_param_init(&plan->model->graph.param[s->param[i].model_param], 1, w + s->param[i].offset);
	if (sl_exec_set_weights(exec, w) != SL_OK)
		exit(1);
	free(w);
}

/* ---- what the CPU can do */

struct peak {
	double gflops, gbytes; /* a second, of one thread */
};

/* The inner loop of products of matrices, on a tile in the L1 cache. */
static double measured_gflops(const struct sl_cpu_simd *simd)
{
	enum { DEPTH = 128, CALLS = 400, RUNS = 40, FLOATS = 1 << 14 };
	float *x = aligned_alloc(64, FLOATS * sizeof *x), *w = aligned_alloc(64, FLOATS * sizeof *w);
	float *y = aligned_alloc(64, FLOATS * sizeof *y);
	const float *from = x;
	double least = 1e30;

	for (int i = 0; i < FLOATS; i++) {
		x[i] = w[i] = 0.5f;
		y[i] = 0;
	}
	for (int r = 0; r < RUNS; r++) {
		const double began = cpu_ms();

		for (int i = 0; i < CALLS; i++)
			simd->gemm_rows(y, simd->panel, &from, 1, DEPTH, DEPTH, w, simd->tile_rows, simd->panel, true,
					&(struct sl_prefetch){0});
		least = fmin(least, cpu_ms() - began);
	}
	free(x);
	free(w);
	free(y);
	return 2e-6 * CALLS * DEPTH * simd->tile_rows * simd->panel / least;
}

/* Two arrays are read, and one is written. */
static double measured_gbytes(const struct sl_cpu_simd *simd)
{
	enum { FLOATS = 24 << 20, RUNS = 6 };
	float *x = malloc(2 * (size_t)FLOATS * sizeof *x);
	double least = 1e30;

	memset(x, 0, 2 * (size_t)FLOATS * sizeof *x);
	for (int r = 0; r < RUNS; r++) {
		const double began = cpu_ms();

		simd->sum(x, x, x + FLOATS, FLOATS);
		least = fmin(least, cpu_ms() - began);
	}
	free(x);
	return 3 * sizeof(float) * 1e-6 * FLOATS / least;
}

static struct peak measure_peak(void)
{
	const struct sl_cpu_simd *simd = sl_cpu_level_choose()->simd;
	const struct peak peak = {measured_gflops(simd), measured_gbytes(simd)};

	printf("%s, one thread: products %.0f GFLOP/s, memory %.1f GB/s\n", simd->name, peak.gflops, peak.gbytes);
	return peak;
}

/* ---- ops of a segment as the executor calls them */

/* Multiplications and additions of the kernel that is used. */
static double multiplied(const struct sl_op *op)
{
	const int64_t *in = op->in_shape[0].dim;

	if (op->kind == SL_OP_CONVT2D)
		return (double)sl_op_macs(op, in[0]) / (op->u.convt.stride * op->u.convt.stride);
	return op->kind == SL_OP_CONV2D && sl_conv_wino_takes(op) ? sl_conv_wino_products(op, in[0])
								  : (double)sl_op_macs(op, in[0]);
}

static double floor_ms(const struct op_profile *p, enum pass pass, const struct peak *peak)
{
	const double flop = 2 * multiplied(p->op) * (pass == BACKWARD ? 2 : 1);

	return fmax(flop / peak->gflops, p->bytes[pass] / peak->gbytes) * 1e-6;
}

static void print_profile(int chunks, const struct peak *peak)
{
	char text[SL_SHAPE_TEXT];
	double sum[PASSES] = {0}, floor[PASSES] = {0};
	int n;
	const struct op_profile *op = op_times(&n);

	printf("%-28s %-20s %8s %8s %8s %8s   lost\n", "op", "input", "fwd ms", "floor", "bwd ms", "floor");
	for (int i = 0; i < n; i++) {
		const struct op_profile *p = &op[i];
		double f = p->ms[FORWARD] * chunks, b = p->ms[BACKWARD] * chunks;
		double ff = floor_ms(p, FORWARD, peak) * chunks, fb = floor_ms(p, BACKWARD, peak) * chunks;

		printf("%-28s %-20s %8.2f %8.2f %8.2f %8.2f %6.1f  %s\n", p->op->name,
		       sl_shape_text(&p->op->in_shape[0], text), f, ff, b, fb, f + b - ff - fb, family(p->op));
		sum[FORWARD] += f;
		sum[BACKWARD] += b;
		floor[FORWARD] += ff;
		floor[BACKWARD] += fb;
	}
	printf("%-49s %8.2f %8.2f %8.2f %8.2f\n\n", "all", sum[FORWARD], floor[FORWARD], sum[BACKWARD],
	       floor[BACKWARD]);
}

static void bench_segment(struct sl_backend *be, const struct sl_plan *plan, enum sl_segment which,
			  const struct setting *set)
{
	const struct sl_plan_segment *s = &plan->segment[which];
	struct sl_exec_loss loss = {.labels = calloc((size_t)set->chunk, sizeof(int32_t)), .scale = 1};
	struct sl_exec_loss *tail = which == SL_TAIL ? &loss : NULL;
	double forward[MAX_RUNS], backward[MAX_RUNS], step[MAX_RUNS], middle, cpu[2] = {1e30, 1e30};
	struct op_time t;
	struct sl_exec *exec;
	struct sl_fail fail;

	if (sl_exec_open(&exec, plan, which, be, &fail) != SL_OK)
		die(&fail);
	fill_weights(exec, plan, s);
	for (int c = 0; c * set->chunk < set->batch; c++) {
		fill(sl_exec_input(exec, c, set->chunk));
		if (which != SL_TAIL)
			fill(sl_exec_dout(exec, c, set->chunk));
	}
	for (int r = -1; r < set->runs; r++) {
		double began = cpu_ms(), between;
		uint64_t at = sl_now_ns();
		int i = r < 0 ? 0 : r;

		run_segment(exec, tail, set, false);
		forward[i] = sl_seconds_since(at) * 1e3;
		between = cpu_ms();
		at = sl_now_ns();
		run_segment(exec, tail, set, true);
		backward[i] = sl_seconds_since(at) * 1e3;
		step[i] = forward[i] + backward[i];
		cpu[0] = fmin(cpu[0], between - began);
		cpu[1] = fmin(cpu[1], cpu_ms() - between);
	}
	t = (struct op_time){median(forward, set->runs), median(backward, set->runs)};
	middle = median(step, set->runs); /* sorts them */
	printf("%-12s %9.2f %9.2f %9.2f   min %.2f max %.2f   CPU min %.2f %.2f   %.0f MB\n", sl_segment_name(which),
	       t.forward_ms, t.backward_ms, middle, step[0], step[set->runs - 1], cpu[0], cpu[1],
	       (double)sl_exec_memory(exec).total * 1e-6);
	sl_exec_close(exec);
	free((void *)loss.labels);
}

/* ---- optimizers */

static void bench_updates(struct sl_backend *be, const struct sl_plan *plan, int runs)
{
	static const struct sl_optimizer how[] = {
		{.kind = SL_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4},
		{.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01}};
	int64_t count = 0;
	float *area[2 + SL_MOMENTS_MOST];

	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		count += plan->segment[i].trainable_count;
	for (int i = 0; i < 2 + SL_MOMENTS_MOST; i++)
		area[i] = take(be, (size_t)count * sizeof(float), 0, 1);
	for (size_t k = 0; k < sizeof how / sizeof how[0]; k++) {
		const int bytes = 12 + 8 * sl_optimizer_moments(how[k].kind); /* w twice, g once, a moment twice */
		double least = 1e30;

		for (int r = 0; r < runs; r++) {
			const struct sl_update u = sl_optimizer_step(&how[k], 1e-3, (uint64_t)r + 1);
			double began = cpu_ms();

			if (be->ops->update(be, &u, count, area[0], area[1], area + 2) != SL_OK)
				exit(1);
			least = fmin(least, cpu_ms() - began);
		}
		printf("%-8s %" PRId64 " weights  CPU min %7.3f ms  %d bytes each  %.1f GB/s\n",
		       sl_agreed_optimizers[how[k].kind], count, least, bytes, (double)(count * bytes) / least * 1e-6);
	}
	for (int i = 0; i < 2 + SL_MOMENTS_MOST; i++)
		be->ops->free(be, area[i]);
}

int main(int argc, char **argv)
{
	static const char *const mobilenet[] = {"mobilenet_v2", "features.0.1", "classifier"};
	struct setting set = {224, 64, 64, 1, 5, 0};
	int *const arg[] = {&set.image, &set.batch, &set.chunk, &set.threads, &set.runs, &set.segments_only};
	const char *const *network = argc >= 10 ? (const char *const *)argv + 7 : mobilenet;
	struct sl_split_spec spec = {.model = {.width = 1, .classes = 10, .dropout = 0.2}};
	struct sl_plan *plan;
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_fail fail;
	const char *reason;
	struct peak peak = {0};

	for (int i = 1; i < argc && i <= 6; i++)
		*arg[i - 1] = atoi(argv[i]);
	if (set.chunk < 1 || set.batch % set.chunk != 0 || set.runs < 1 || set.runs > MAX_RUNS) {
		fprintf(stderr, "usage: bench_ops [image] [batch] [chunk, divides the batch] [threads] [runs ≤ 99] "
				"[what, 0 to 6] [network head_end tail_begin]\n");
		return 64;
	}
	if (argc == 11 && strcmp(argv[10], sl_precision_name(SL_PRECISION_BF16_FACTORS)) == 0)
		spec.plan.precision = spec.plan.ends = SL_PRECISION_BF16_FACTORS;
	spec.model.image = set.image;
	spec.plan.batch = set.batch;
	spec.plan.chunks = set.batch / set.chunk;
	spec.model.network = strstr(network[0], ".safetensors") ? network[0] : NULL;
	snprintf(spec.model.name, sizeof spec.model.name, "%s", spec.model.network ? "network" : network[0]);
	snprintf(spec.cut.head_end, sizeof spec.cut.head_end, "%s", network[1]);
	snprintf(spec.cut.tail_begin, sizeof spec.cut.tail_begin, "%s", network[2]);
	if (plan_open(&plan, &spec, &fail) != SL_OK || sl_pool_open(&pool, set.threads, &fail) != SL_OK ||
	    sl_cpu_backend_open(&be, pool, &fail) != SL_OK)
		die(&fail);
	printf("%s %d x %d, batch %d in chunks of %d, %d threads, %s%s%s\n\n", network[0], set.image, set.image,
	       set.batch, set.chunk, set.threads, sl_cpu_describe(), sl_cpu_core_is_older(&reason) ? ": " : "",
	       sl_cpu_core_is_older(&reason) ? reason : "");
	if (set.segments_only == PROFILE) {
		peak = measure_peak();
		op_times_watch(&be);
	}
	if (!set.segments_only)
		bench_ops(&be, plan, set.runs);
	if (set.segments_only == UPDATES)
		bench_updates(&be, plan, set.runs);
	else
		printf("%-12s %9s %9s %9s\n", "segment", "fwd ms", "bwd ms", "step");
	for (int s = 0; s < SL_SEGMENT_COUNT; s++)
		if (set.segments_only < 2 || set.segments_only == s + 2 ||
		    (set.segments_only == PROFILE && s == SL_MIDDLE))
			bench_segment(&be, plan, (enum sl_segment)s, &set);
	if (set.segments_only == PROFILE)
		print_profile(set.batch / set.chunk, &peak);
	be.ops->close(&be);
	sl_pool_close(pool);
	sl_plan_close(plan);
	return 0;
}
