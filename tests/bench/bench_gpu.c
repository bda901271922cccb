/* usage: bench_gpu [--precision fp32|tf32|bf16|fp16] [--graphs] [--layers] [--profile] [--device N]
 *                  [--cut HEAD_END:TAIL_BEGIN]
 * Measures the middle of MobileNetV2 at 224² on a GPU: milliseconds of forward + backward of 64 images, as one chunk
 * and as 8 chunks of 8. --layers: also each op of the middle alone, one of each shape. --graphs: with CUDA graphs.
 * --profile: runs one step of each without timing it, for a profiler.
 * A time is the median of several rounds; in a round the host's clock runs around many queued steps and a fence.
 * tests/bench/bench_gpu_peer.py does the same work in PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/exec/exec.h"
#include "kernels/module.h"
#include "tests/support/plan_open.h"
#include "tests/support/settle.h"

enum { BATCH = 64, ROUNDS = 7, SEED = 1 };

struct options {
	struct sl_module_options module;
	struct sl_cut_spec cut;
	enum sl_precision precision;
	bool layers, profile;
};

static void die(const char *what, const struct sl_fail *fail)
{
	fprintf(stderr, "bench_gpu: %s: %s\n", what, fail ? fail->text : "failed");
	exit(1);
}

static void must(enum sl_err err, const char *what)
{
	if (err) {
		fprintf(stderr, "bench_gpu: %s: %s\n", what, sl_err_name(err));
		exit(1);
	}
}

static void settle(struct sl_backend *be)
{
	must(backend_settle(be), "fence");
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Returns the median over ROUNDS rounds of the milliseconds of one call. A round takes at least 20 ms, so that its
 * fence hardly counts. */
static double time_ms(struct sl_backend *be, void (*call)(void *arg), void *arg)
{
	double ms[ROUNDS], once;
	uint64_t start;
	int reps;

	call(arg);
	settle(be);
	start = sl_now_ns();
	call(arg);
	settle(be);
	once = sl_seconds_since(start) * 1e3;
	reps = once > 20 ? 1 : (int)(20 / once) + 1;
	for (int r = 0; r < ROUNDS; r++) {
		start = sl_now_ns();
		for (int i = 0; i < reps; i++)
			call(arg);
		settle(be);
		ms[r] = sl_seconds_since(start) * 1e3 / reps;
	}
	qsort(ms, ROUNDS, sizeof(ms[0]), ascending);
	return ms[ROUNDS / 2];
}

/* Fills the array with sums of four uniform numbers, which are nearly normal. */
static void fill(struct sl_backend *be, void *device, size_t count, uint32_t seed)
{
	float *host = malloc(count * sizeof(float));
	uint32_t x = seed * 2654435761u + 1;

	if (!host)
		die("memory", NULL);
	for (size_t i = 0; i < count; i++) {
		float sum = 0;

		for (int k = 0; k < 4; k++) {
			x = x * 1664525u + 1013904223u;
			sum += (float)(x >> 8) * 0x1p-24f - 0.5f;
		}
		host[i] = sum * 1.7f;
	}
	must(be->ops->upload(be, device, host, count * sizeof(float)), "upload");
	free(host);
}

/* ---- the whole middle */

struct step {
	struct sl_exec *exec;
	int chunks;
	int64_t rows;
	bool backward;
};

static void step_run(void *arg)
{
	const struct step *s = arg;

	must(sl_exec_begin(s->exec), "begin");
	for (int c = 0; c < s->chunks; c++) {
		const struct sl_exec_call call = {
			.slot = c, .chunk = c, .dims = sl_dims_rows(s->rows), .training = true};

		must(sl_exec_forward(s->exec, &call, NULL), "forward");
		if (s->backward)
			must(sl_exec_backward(s->exec, &call, NULL), "backward");
	}
}

static struct sl_plan *open_plan(const struct options *o, int chunks)
{
	struct sl_split_spec spec = {.model = {.name = "mobilenet_v2", .width = 1, .classes = 10, .image = 224},
				     .cut = o->cut,
				     .plan.batch = BATCH,
				     .plan.chunks = chunks,
				     .plan.seed = SEED,
				     .plan.precision = o->precision};
	struct sl_plan *plan;
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail))
		die("plan", &fail);
	return plan;
}

static void load_weights(struct sl_exec *exec, const struct sl_plan *plan)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	float *weights = calloc((size_t)s->weight_count, sizeof(float));

	if (!weights)
		die("memory", NULL);
	for (int i = 0; i < s->n_param; i++)
		sl_param_init(&plan->model->graph.param[s->param[i].model_param], SEED, weights + s->param[i].offset);
	must(sl_exec_set_weights(exec, weights), "weights");
	free(weights);
}

static void bench_middle(struct sl_backend *be, const struct options *o, int chunks)
{
	struct sl_plan *plan = open_plan(o, chunks);
	struct step step = {.chunks = chunks, .rows = BATCH / chunks};
	struct sl_fail fail;
	double forward, both, host;
	uint64_t start;

	if (sl_exec_open(&step.exec, plan, SL_MIDDLE, be, &fail))
		die("executor", &fail);
	load_weights(step.exec, plan);
	for (int c = 0; c < chunks; c++) {
		struct sl_tensor in = sl_exec_input(step.exec, c, step.rows);
		struct sl_tensor dout = sl_exec_dout(step.exec, c, step.rows);

		fill(be, in.data, (size_t)sl_shape_count(&in.shape), (uint32_t)c + 1);
		fill(be, dout.data, (size_t)sl_shape_count(&dout.shape), (uint32_t)c + 100);
	}
	if (o->profile) {
		step.backward = true;
		step_run(&step);
		settle(be);
		goto done;
	}
	forward = time_ms(be, step_run, &step);
	step.backward = true;
	both = time_ms(be, step_run, &step);
	start = sl_now_ns();
	step_run(&step);
	host = sl_seconds_since(start) * 1e3;
	settle(be);
	printf("ours %s%s  %d x %2lld: forward %7.3f ms, forward + backward %7.3f ms (queueing %.3f ms), %.2f GiB\n",
	       sl_precision_name(o->precision), o->module.graphs ? ", graphs" : "", chunks, (long long)step.rows,
	       forward, both, host, (double)sl_exec_memory(step.exec).total / (1 << 30));
	fflush(stdout);
done:
	sl_exec_close(step.exec);
	sl_plan_close(plan);
}

/* ---- single ops */

struct layer {
	const struct sl_kernel *kernel;
	struct sl_op_call call;
	void *low[SL_OP_MAX_PARAM];
};

static void layer_forward(void *arg)
{
	struct layer *l = arg;

	must(l->kernel->forward(&l->call), l->call.op->name);
}

static void layer_backward(void *arg)
{
	struct layer *l = arg;

	must(l->kernel->backward(&l->call), l->call.op->name);
}

static void *take(struct sl_backend *be, size_t count, uint32_t seed)
{
	struct sl_fail fail;
	void *out;

	if (be->ops->alloc(be, count * sizeof(float) + 1, &out, &fail))
		die("memory", &fail);
	if (seed)
		fill(be, out, count, seed);
	return out;
}

/* With a precision of 16 bits: converts the numbers in place. They then fill the first half of the memory. */
static void lower(struct sl_backend *be, void *at, enum sl_precision precision, int64_t count)
{
	const enum sl_dtype low = sl_precision_dtype(precision);
	struct sl_fail fail;
	void *copy;

	if (low == SL_F32)
		return;
	if (be->ops->alloc(be, (size_t)count * sizeof(float), &copy, &fail))
		die("memory", &fail);
	must(be->ops->convert(be, copy, SL_F32, at, SL_F32, NULL, count), "copy");
	must(be->ops->convert(be, at, low, copy, SL_F32, NULL, count), "convert");
	be->ops->free(be, copy);
}

static struct sl_tensor tensor_of(struct sl_backend *be, const struct sl_op *op, struct sl_shape shape, uint32_t seed)
{
	const int64_t count = sl_shape_count(&shape);
	struct sl_tensor t = {.dtype = sl_precision_dtype(op->precision),
			      .shape = shape,
			      .data = take(be, (size_t)count, seed),
			      .be = be};

	lower(be, t.data, op->precision, count);
	return t;
}

static void bench_layer(struct sl_backend *be, const struct sl_plan_segment *s, int i, int count, double (*total)[2])
{
	const struct sl_segment_op *so = &s->op[i];
	const struct sl_op *op = &so->op;
	struct layer l = {.kernel = be->ops->kernel[op->kind]};
	struct sl_fail fail;
	struct sl_op_prepare p = {.be = be, .op = op, .fail = &fail};
	char shape[SL_SHAPE_TEXT];
	const double bytes = (double)sl_dtype_bytes(sl_precision_dtype(op->precision));
	double forward, backward, bytes_in, bytes_out;

	if (sl_kernel_open(l.kernel, &p))
		die(op->name, &fail);
	l.call = (struct sl_op_call){.be = be,
				     .op = op,
				     .state = p.state,
				     .training = true,
				     .saved = take(be, p.sizes.saved_bytes / 4 + 1, 0),
				     .workspace = take(be, p.sizes.workspace_bytes / 4 + 1, 0)};
	for (int k = 0; k < op->n_in; k++) {
		l.call.in[k] = tensor_of(be, op, op->in_shape[k], 1 + (uint32_t)k);
		l.call.din[k] = tensor_of(be, op, op->in_shape[k], 3);
		l.call.din_add[k] = so->din_add[k];
	}
	l.call.out = tensor_of(be, op, op->out_shape, 0);
	l.call.dout = tensor_of(be, op, op->out_shape, 4);
	for (int k = 0; k < op->n_param; k++) {
		const struct sl_param *param = &s->graph.param[s->param[so->param[k]].graph_param];
		const int64_t n = sl_shape_count(&param->shape);

		l.call.param[k] = take(be, (size_t)n, 5);
		if (sl_precision_mixed(op->precision)) {
			l.low[k] = take(be, (size_t)n, 5);
			lower(be, l.low[k], op->precision, n);
			l.call.param_low[k] = l.low[k];
		}
		l.call.grad[k] = param->role != SL_STATISTIC ? take(be, (size_t)n, 6) : NULL;
	}
	forward = time_ms(be, layer_forward, &l);
	backward = time_ms(be, layer_backward, &l);
	bytes_in = 1e-6 * bytes * (double)sl_shape_count(&op->in_shape[0]) * op->n_in;
	bytes_out = 1e-6 * bytes * (double)sl_shape_count(&op->out_shape);
	/* at least every tensor moves once; the backward of add and of copies does not read its input */
	total[sl_op_is_depthwise(op) ? SL_OP_COUNT : (int)op->kind][0] += count * forward * 1e3;
	total[sl_op_is_depthwise(op) ? SL_OP_COUNT : (int)op->kind][1] += count * backward * 1e3;
	printf("%2d x %-24s %-10s %-18s %8.1f us %6.0f GB/s | %8.1f us %6.0f GB/s\n", count, op->name,
	       sl_op_is_depthwise(op) ? "depthwise" : sl_op_kind_name(op->kind), sl_shape_text(&op->in_shape[0], shape),
	       forward * 1e3, (bytes_in + bytes_out) / forward, backward * 1e3,
	       (bytes_in * (sl_op_saves_inputs(op, true) ? 2 : 1) + bytes_out) / backward);
	for (int k = 0; k < op->n_in; k++) {
		be->ops->free(be, l.call.in[k].data);
		be->ops->free(be, l.call.din[k].data);
	}
	for (int k = 0; k < op->n_param; k++) {
		be->ops->free(be, l.call.param[k]);
		be->ops->free(be, l.call.grad[k]);
		be->ops->free(be, l.low[k]);
	}
	be->ops->free(be, l.call.out.data);
	be->ops->free(be, l.call.dout.data);
	be->ops->free(be, l.call.saved);
	be->ops->free(be, l.call.workspace);
	if (l.kernel->release)
		l.kernel->release(p.state);
}

static bool same_shape(const struct sl_op *a, const struct sl_op *b)
{
	return a->kind == b->kind && sl_shape_equal(&a->in_shape[0], &b->in_shape[0]) &&
	       sl_shape_equal(&a->out_shape, &b->out_shape) && !memcmp(&a->u, &b->u, sizeof(a->u));
}

/* Returns how many ops have the shape of op i, or 0 if op i is not the first of them: one of each is measured. */
static int repeats(const struct sl_plan_segment *s, int i)
{
	int count = 0;

	for (int k = 0; k < s->n_op; k++)
		if (same_shape(&s->op[k].op, &s->op[i].op)) {
			if (k < i)
				return 0;
			count++;
		}
	return count;
}

enum { KINDS = SL_OP_COUNT + 1 }; /* the last: depthwise convolutions */

static void bench_layers(struct sl_backend *be, const struct options *o, int chunks)
{
	struct sl_plan *plan = open_plan(o, chunks);
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	double total[KINDS][2] = {{0}};

	printf("\n%-28s %-10s %-18s %21s | %21s   (%s)\n", "op", "kind", "input", "forward", "backward",
	       sl_precision_name(o->precision));
	for (int i = 0; i < s->n_op; i++)
		if (repeats(s, i))
			bench_layer(be, s, i, repeats(s, i), total);
	for (int k = 0; k < KINDS; k++)
		if (total[k][0] > 0)
			printf("all %-10s %8.1f us forward, %8.1f us backward\n",
			       k < SL_OP_COUNT ? sl_op_kind_name((enum sl_op_kind)k) : "depthwise", total[k][0],
			       total[k][1]);
	sl_plan_close(plan);
}

static void parse_cut(struct sl_cut_spec *cut, const char *text)
{
	const char *colon = strchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(cut->head_end) || strlen(colon + 1) >= sizeof(cut->tail_begin)) {
		fprintf(stderr, "bench_gpu: --cut HEAD_END:TAIL_BEGIN\n");
		exit(64);
	}
	*cut = (struct sl_cut_spec){0};
	memcpy(cut->head_end, text, (size_t)(colon - text));
	strcpy(cut->tail_begin, colon + 1);
}

static enum sl_precision parse_precision(const char *text)
{
	for (int p = 0; p < SL_PRECISION_COUNT; p++)
		if (!strcmp(text, sl_precision_name((enum sl_precision)p)))
			return (enum sl_precision)p;
	fprintf(stderr, "bench_gpu: --precision fp32, tf32, bf16 or fp16\n");
	exit(64);
}

int main(int argc, char **argv)
{
	struct options o = {.cut = {.head_end = "features.0.1", .tail_begin = "classifier"}};
	const struct sl_module *module;
	struct sl_backend be = {0};
	struct sl_fail fail;
	char text[SL_MODULE_TEXT];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--precision") && i + 1 < argc) {
			o.precision = parse_precision(argv[++i]);
		} else if (!strcmp(argv[i], "--graphs")) {
			o.module.graphs = true;
		} else if (!strcmp(argv[i], "--layers")) {
			o.layers = true;
		} else if (!strcmp(argv[i], "--profile")) {
			o.profile = true;
		} else if (!strcmp(argv[i], "--device") && i + 1 < argc) {
			o.module.device = atoi(argv[++i]);
		} else if (!strcmp(argv[i], "--cut") && i + 1 < argc) {
			parse_cut(&o.cut, argv[++i]);
		} else {
			fprintf(stderr, "usage: bench_gpu [--precision fp32|tf32|bf16|fp16] [--graphs] [--layers] "
					"[--profile] [--device N] [--cut HEAD_END:TAIL_BEGIN]\n");
			return 64;
		}
	}
	if (sl_module_load(NULL, &module, &fail) || module->open(&be, &o.module, &fail)) {
		printf("SKIP %s\n", fail.text);
		return 77;
	}
	if (module->describe(o.module.device, text, &fail) == SL_OK)
		printf("%s\n", text);
	bench_middle(&be, &o, 1);
	bench_middle(&be, &o, 8);
	if (o.layers) {
		bench_layers(&be, &o, 1);
		bench_layers(&be, &o, 8);
	}
	be.ops->close(&be);
	return 0;
}
