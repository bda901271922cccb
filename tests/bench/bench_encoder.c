/* usage: bench_encoder LAYER THREADS|cuda:PRECISION LENGTHS [--profile RUNS]
 * Runs one layer forward and backward over one chunk of packed rows: on this CPU with THREADS, or on the first GPU with
 * PRECISION fp32, tf32, bf16 or fp16. LENGTHS are the tokens of each row: "128x8" (8 rows of 128), or "9,11,21". LAYER:
 *   roberta  an encoder layer with RoBERTa-base's sizes: attention of 12 heads, 768 features, 3072 in the feed-forward
 *            part, post-norm, dropout 0.1.
 *   llama    a decoder layer with Llama 3.2 1B's sizes: 2048 features, 8192 in the feed-forward part, 32 query heads, 8
 *            heads of keys and values; all is frozen except adapters of rank 16 at q and v.
 *   factors  llama with the frozen weights in 16 bits and precision bf16_factors.
 *   cached   llama, forward only: one new token in each row, with LENGTHS tokens before it in the cache.
 *   cached16 cached with the frozen weights in 16 bits.
 * For each line of stdin it runs once and prints the milliseconds; "cpu" asks for CPU time. So another benchmark can
 * alternate with it. On a GPU a run ends when the device is done. --profile: prints the least CPU time of every op in
 * RUNS runs instead; on a CPU only. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/lora.h"
#include "common/base/clock.h"
#include "common/base/pool.h"
#include "common/base/rng.h"
#include "common/conf/conf.h"
#include "common/exec/exec.h"
#include "common/graph/model.h"
#include "kernels/cpu/cpu.h"
#include "kernels/module.h"
#include "tests/bench/op_times.h"
#include "tests/support/settle.h"

enum { MOST_ROWS = 4096, MOST_TOKENS = 2048 };
static const float dropped = 0.1f, eps = 1e-5f;
static struct sl_backend be;

struct layer {
	const char *name;
	int features, wide, heads;
	int (*build)(struct sl_build *b, const struct layer *l, int x);
	bool cached, held, factors;
};

struct rows {
	int64_t n, longest;
	uint32_t begin[MOST_ROWS + 1], cached[2 * MOST_ROWS];
};

static _Noreturn void die(const struct sl_fail *fail)
{
	fprintf(stderr, "bench_encoder: %s\n", fail->text);
	exit(70);
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: bench_encoder roberta|llama|factors|cached|cached16 THREADS|cuda:PRECISION LENGTHS "
			"[--profile RUNS]\n");
	exit(64);
}

static void add_row(struct rows *rows, long length)
{
	if (length < 1 || length > MOST_TOKENS || rows->n == MOST_ROWS)
		usage();
	rows->begin[rows->n + 1] = rows->begin[rows->n] + (uint32_t)length;
	rows->longest = length > rows->longest ? length : rows->longest;
	rows->n++;
}

static void read_lengths(struct rows *rows, char *text)
{
	for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) {
		long length, times = 1;

		if (sscanf(at, "%ldx%ld", &length, &times) < 1 || times < 1)
			usage();
		while (times-- > 0)
			add_row(rows, length);
	}
	if (rows->n == 0)
		usage();
}

/* ---- the layer, as a server plans a middle */

static int dense(struct sl_build *b, const char *name, int in, int out_f)
{
	return sl_build_linear(b, name, in, out_f, true, sl_init_as_torch(768));
}

static int encoder_layer(struct sl_build *b, const struct layer *l, int x)
{
	const struct sl_attention_attr attention = {.heads = l->heads, .p = dropped};
	const int f = l->features;
	int q = dense(b, "query", x, f), k = dense(b, "key", x, f), v = dense(b, "value", x, f);
	int y = dense(b, "attention.dense", sl_build_attention(b, "attention", q, k, v, attention), f);

	y = sl_build_dropout(b, "attention.dropout", y, dropped);
	x = sl_build_layernorm(b, "attention.norm", sl_build_add(b, "attention.add", y, x), eps, true);
	y = sl_build_gelu(b, "gelu", dense(b, "intermediate", x, l->wide));
	y = sl_build_dropout(b, "dropout", dense(b, "output", y, f), dropped);
	return sl_build_layernorm(b, "norm", sl_build_add(b, "add", y, x), eps, true);
}

static int plain(struct sl_build *b, const char *name, int in, int out_f)
{
	return sl_build_linear(b, name, in, out_f, false, sl_init_as_torch(2048));
}

static int decoder_layer(struct sl_build *b, const struct layer *l, int x)
{
	const struct sl_attention_attr attention = {.heads = l->heads, .kv = 8, .causal = true, .rope = 5e5f};
	const int f = l->features, few = f / l->heads * attention.kv,
		  n = sl_build_rmsnorm(b, "norm1", x, f, eps, false);
	int q = plain(b, "q_proj", n, f), k = plain(b, "k_proj", n, few), v = plain(b, "v_proj", n, few);
	int gate, up;

	q = sl_build_attention(b, "attention", q, k, v, attention);
	x = sl_build_add(b, "add1", x, plain(b, "o_proj", q, f));
	q = sl_build_rmsnorm(b, "norm2", x, f, eps, false);
	gate = sl_build_smooth(b, "act", plain(b, "gate_proj", q, l->wide), SL_OP_SILU, false);
	up = plain(b, "up_proj", q, l->wide);
	return sl_build_add(b, "add2", x, plain(b, "down_proj", sl_build_mul(b, "gated", gate, up), f));
}

static const struct layer layers[] = {
	{"roberta", 768, 3072, 12, encoder_layer, false, false, false},
	{"llama", 2048, 8192, 32, decoder_layer, false, false, false},
	{"factors", 2048, 8192, 32, decoder_layer, false, true, true},
	{"cached", 2048, 8192, 32, decoder_layer, true, false, false},
	{"cached16", 2048, 8192, 32, decoder_layer, true, true, false},
};

/* For cached layers: moves the rows' LENGTHS tokens to the cache, so that a run has one new token of each row. */
static void cache_rows(struct rows *rows)
{
	for (uint32_t i = 0; i < rows->n; i++) {
		rows->cached[2 * i] = i;
		rows->cached[2 * i + 1] = rows->begin[i + 1] - rows->begin[i];
	}
	for (uint32_t i = 0; i <= rows->n; i++)
		rows->begin[i] = i;
	rows->longest++;
}

/* Keeps frozen matrices in 16 bits, as if they came from a file with such weights. */
static void hold(struct sl_graph *g)
{
	for (int i = 0; i < g->n_param; i++)
		if (g->param[i].role == SL_FROZEN && g->param[i].shape.ndim == 2) {
			g->param[i].init = (struct sl_init){.kind = SL_INIT_FILE};
			g->param[i].held = SL_BF16;
		}
}

static void set_weights(struct sl_exec *e, const struct sl_plan_segment *s)
{
	float *w = calloc((size_t)s->weight_count, sizeof *w);

	for (int i = 0; i < s->n_param && w; i++) {
		const struct sl_segment_param *p = &s->param[i];

		if (p->held == SL_F32)
			sl_param_init(&s->graph.param[p->graph_param], 1, w + p->offset);
		for (int64_t k = 0; k < p->count && p->held != SL_F32; k++) /* ±1/64 to 1/32 */
			((uint16_t *)(void *)(w + p->offset))[k] =
				(uint16_t)(0x3c80 + k * 37 % 0x80 + (k * 7919 % 2 << 15));
	}
	if (!w || sl_exec_set_weights(e, w))
		exit(70);
	free(w);
}

static struct sl_plan *plan_of(const struct layer *l, const struct rows *rows, enum sl_precision precision)
{
	static const struct sl_conf_list target = {2, {"q_proj", "v_proj"}};
	const struct sl_lora lora = {.rank = 16, .alpha = 32, .target = &target};
	struct sl_model *model = calloc(1, sizeof *model);
	struct sl_fail fail = {.text = ""};
	struct sl_build b = {.graph = model ? &model->graph : NULL,
			     .model = model,
			     .lora = l->build == decoder_layer ? &lora : NULL,
			     .fail = &fail};
	const struct sl_plan_spec spec = {.batch = rows->n,
					  .chunks = 1,
					  .row_tokens = rows->longest,
					  .chunk_tokens = rows->begin[rows->n],
					  .cached = l->cached,
					  .seed = 1,
					  .precision = precision,
					  .optimizer = {.momentum = 0.9}};
	struct sl_plan *plan;
	enum sl_err err;

	if (!model)
		exit(70);
	b.err = sl_graph_add_input(b.graph, "head_act", SL_F32, SL_PER_TOKEN, sl_shape2(1, l->features), MOST_TOKENS,
				   NULL, &fail);
	err = b.err ? b.err : sl_graph_add_output(b.graph, "mid_act", l->build(&b, l, 0), NULL, &fail);
	if (l->held)
		hold(&model->graph);
	if (err || b.err || sl_plan_open_part(&plan, &spec, SL_MIDDLE, &model->graph, &fail))
		die(&fail);
	memset(&model->graph, 0, sizeof model->graph); /* the plan owns it now */
	sl_model_close(model);
	return plan;
}

static void fill(struct sl_tensor t, uint64_t seed)
{
	const struct sl_rng_key key = {seed, 1, 0, SL_RNG_TEST};
	const int64_t count = t.data ? sl_shape_count(&t.shape) : 0;
	float *host = malloc((size_t)count * sizeof *host + 1);

	for (int64_t i = 0; i < count && host; i++)
		host[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.5f;
	if (!host || (count && be.ops->upload(&be, t.data, host, (size_t)count * sizeof *host)))
		exit(70);
	free(host);
}

static struct sl_exec *open_exec(const struct sl_plan *plan, const struct rows *rows)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	const int64_t tokens = rows->begin[rows->n];
	struct sl_fail fail;
	struct sl_exec *e;

	if (sl_exec_open(&e, plan, SL_MIDDLE, &be, &fail))
		die(&fail);
	set_weights(e, s);
	if (sl_exec_begin(e))
		exit(70);
	fill(sl_exec_input(e, 0, tokens), 2);
	fill(sl_exec_dout(e, 0, tokens), 3);
	return e;
}

static void settle(void)
{
	if (backend_settle(&be))
		exit(70);
}

static double run(struct sl_exec *e, const struct layer *l, const struct rows *rows, bool cpu)
{
	static uint64_t step;
	const struct sl_exec_call call = {.dims = {.rows = rows->n,
						   .tokens = rows->begin[rows->n],
						   .begin = rows->begin,
						   .cached = l->cached ? rows->cached : NULL},
					  .step = ++step,
					  .training = !l->cached};
	const double began = cpu_ms();
	const uint64_t start = sl_now_ns();

	if (sl_exec_forward(e, &call, NULL) || (!l->cached && sl_exec_backward(e, &call, NULL)))
		exit(70);
	settle();
	return cpu ? cpu_ms() - began : sl_seconds_since(start) * 1e3;
}

static void profile(struct sl_exec *e, const struct layer *l, const struct rows *rows, int runs)
{
	double least = INFINITY, sum[PASSES] = {0};
	const struct op_profile *op;
	int n;

	while (runs-- > 0)
		least = fmin(least, run(e, l, rows, true));
	op = op_times(&n);
	printf("%-20s %9s %9s %18s\n", "op", "fwd ms", "bwd ms", "GFLOP/s, fwd, bwd");
	for (int i = 0; i < n; i++) {
		const double *ms = op[i].ms;
		const bool linear = op[i].op->kind == SL_OP_LINEAR;
		const double gflop = linear ? 2e-6 * (double)sl_op_macs(op[i].op, 1) * (double)rows->begin[rows->n] : 0;

		printf("%-20s %9.3f %9.3f %9.1f %9.1f\n", op[i].op->name, ms[0], ms[1], gflop / ms[0],
		       2 * gflop / ms[1]);
		sum[0] += ms[0];
		sum[1] += ms[1];
	}
	printf("%-20s %9.3f %9.3f   together %.3f, least run %.3f\n", "all", sum[0], sum[1], sum[0] + sum[1], least);
}

static enum sl_precision parse_precision(const char *text)
{
	for (int p = 0; p < SL_PRECISION_COUNT; p++)
		if (strcmp(text, sl_precision_name((enum sl_precision)p)) == 0)
			return (enum sl_precision)p;
	usage();
}

static const char *open_gpu(void)
{
	static char text[SL_MODULE_TEXT];
	const struct sl_module *module;
	struct sl_fail fail;

	if (sl_module_load(NULL, &module, &fail) || module->open(&be, &(struct sl_module_options){0}, &fail) ||
	    module->describe(0, text, &fail)) {
		printf("SKIP %s\n", fail.text);
		exit(77);
	}
	return text;
}

int main(int argc, char **argv)
{
	static struct rows rows;
	const bool profiles = argc == 6 && strcmp(argv[4], "--profile") == 0;
	const bool gpu = argc > 2 && strncmp(argv[2], "cuda:", 5) == 0;
	const struct layer *l = layers, *end = layers + sizeof layers / sizeof layers[0];
	enum sl_precision precision = SL_PRECISION_FP32;
	struct sl_pool *pool = NULL;
	const char *device;
	struct sl_fail fail;
	struct sl_plan *plan;
	struct sl_exec *e;
	char line[64];

	if (argc != 4 && !profiles)
		usage();
	while (l < end && strcmp(l->name, argv[1]) != 0)
		l++;
	if (l == end || (gpu && profiles))
		usage();
	read_lengths(&rows, argv[3]);
	if (l->cached)
		cache_rows(&rows);
	if (l->factors || gpu)
		precision = l->factors ? SL_PRECISION_BF16_FACTORS : parse_precision(argv[2] + 5);
	if (!gpu && (sl_pool_open(&pool, atoi(argv[2]), &fail) || sl_cpu_backend_open(&be, pool, &fail)))
		die(&fail);
	device = gpu ? open_gpu() : sl_cpu_describe();
	if (profiles)
		op_times_watch(&be);
	plan = plan_of(l, &rows, precision);
	e = open_exec(plan, &rows);
	fprintf(stderr, "bench_encoder: %s\n", device);
	if (profiles)
		profile(e, l, &rows, atoi(argv[5]));
	while (!profiles && fgets(line, sizeof line, stdin)) {
		printf("%.4f\n", run(e, l, &rows, strncmp(line, "cpu", 3) == 0));
		fflush(stdout);
	}
	sl_exec_close(e);
	sl_plan_close(plan);
	be.ops->close(&be);
	sl_pool_close(pool);
	return 0;
}
