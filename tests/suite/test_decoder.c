/* A pretrained decoder of Llama's form, from the operators alone: causal attention with rotary positions and grouped
 * heads, RMS norm, SiLU, output tied to the embedding. Rows have different lengths. Logits equal those of
 * tests/golden/decoder_live.py to 1e-4 of the largest. The loss on the model's own greedy text is below 1.
 * SPLIT_DECODER names the model's folder, and SPLIT_DECODER_RUN what the script wrote. `make test-torch` sets both
 * where SPLIT_DECODER is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph.h"
#include "common/weights/safetensors.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

static const double TOLERANCE = 1e-4;

struct decoder {
	int vocab, features, wide, layers, heads, kv, longest;
	double eps, theta;
	struct sl_graph g;
	struct sl_st_file *weights, *run;
	int64_t rows, tokens;
	int32_t *token;
	uint32_t *begin;
	float *want;
};

static int whole(const json_t *root, const char *key)
{
	const json_t *value = json_object_get(root, key);

	assert_true(json_is_integer(value));
	return (int)json_integer_value(value);
}

static void read_config(struct decoder *d, const char *dir)
{
	char path[512];
	json_t *root;

	snprintf(path, sizeof path, "%s/config.json", dir);
	root = json_load_file(path, 0, NULL);
	assert_non_null(root);
	d->vocab = whole(root, "vocab_size");
	d->features = whole(root, "hidden_size");
	d->wide = whole(root, "intermediate_size");
	d->layers = whole(root, "num_hidden_layers");
	d->heads = whole(root, "num_attention_heads");
	d->kv = whole(root, "num_key_value_heads");
	d->eps = json_number_value(json_object_get(root, "rms_norm_eps"));
	d->theta = json_number_value(json_object_get(root, "rope_theta"));
	json_decref(root);
}

static int32_t *numbers(const struct decoder *d, const char *name, int64_t *count)
{
	const struct sl_st_tensor *t = sl_st_find(d->run, name);
	struct sl_fail fail;
	int64_t *wide;
	int32_t *out;

	assert_non_null(t);
	*count = t->count;
	wide = malloc((size_t)t->count * sizeof *wide);
	out = malloc((size_t)t->count * sizeof *out);
	assert_int_equal(sl_st_read_i64(d->run, t, wide, &fail), SL_OK);
	for (int64_t i = 0; i < t->count; i++)
		out[i] = (int32_t)wide[i];
	free(wide);
	return out;
}

static void read_run(struct decoder *d, const char *path)
{
	struct sl_fail fail;
	int32_t *length;

	if (sl_st_open(&d->run, path, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	d->token = numbers(d, "tokens", &d->tokens);
	length = numbers(d, "lengths", &d->rows);
	d->begin = calloc((size_t)d->rows + 1, sizeof *d->begin);
	for (int64_t i = 0; i < d->rows; i++) {
		d->begin[i + 1] = d->begin[i] + (uint32_t)length[i];
		d->longest = length[i] > d->longest ? length[i] : d->longest;
	}
	free(length);
	assert_int_equal(sl_st_find(d->run, "logits")->count, d->tokens * d->vocab);
	d->want = malloc((size_t)(d->tokens * d->vocab) * sizeof *d->want);
	assert_int_equal(sl_st_read_f32(d->run, sl_st_find(d->run, "logits"), d->want, &fail), SL_OK);
}

static int param(struct decoder *d, const char *name, struct sl_shape shape)
{
	struct sl_param p = {.shape = shape, .stream = (uint32_t)d->g.n_param, .role = SL_LEARNS};
	struct sl_fail fail = {0};

	snprintf(p.name, sizeof p.name, "%.80s.weight", name);
	if (sl_graph_add_param(&d->g, &p, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return d->g.n_param - 1;
}

static int node(struct decoder *d, struct sl_node n, const char *name, int n_in, const int *in, int params)
{
	struct sl_fail fail = {0};
	int out = -1;

	snprintf(n.name, sizeof n.name, "%s", name);
	n.n_in = n_in;
	n.n_param = params >= 0;
	if (sl_graph_add_node(&d->g, &n, in, &params, &out, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return out;
}

static int linear(struct decoder *d, const char *at, const char *name, int x, int from, int to)
{
	char path[SL_NAME_MAX];

	snprintf(path, sizeof path, "%s%s", at, name);
	return node(d, sl_node_of(SL_OP_LINEAR), path, 1, &x, param(d, path, sl_shape2(to, from)));
}

static int normed(struct decoder *d, const char *at, const char *name, int x)
{
	struct sl_node n = sl_node_of(SL_OP_RMSNORM);
	char path[SL_NAME_MAX];

	n.u.norm.eps = (float)d->eps;
	snprintf(path, sizeof path, "%s%s", at, name);
	return node(d, n, path, 1, &x, param(d, path, sl_shape1(d->features)));
}

static int layer(struct decoder *d, int i, int x)
{
	const int f = d->features, kv = f / d->heads * d->kv;
	struct sl_node attention = sl_node_of(SL_OP_ATTENTION);
	char at[64];
	int y, in[3];

	snprintf(at, sizeof at, "model.layers.%d.", i);
	y = normed(d, at, "input_layernorm", x);
	in[0] = linear(d, at, "self_attn.q_proj", y, f, f);
	in[1] = linear(d, at, "self_attn.k_proj", y, f, kv);
	in[2] = linear(d, at, "self_attn.v_proj", y, f, kv);
	attention.u.attention = (struct sl_attention_attr){d->heads, d->kv, true, (float)d->theta, 0, 0};
	y = node(d, attention, "attention", 3, in, -1);
	y = linear(d, at, "self_attn.o_proj", y, f, f);
	x = node(d, sl_node_of(SL_OP_ADD), "sum", 2, (int[]){x, y}, -1);
	y = normed(d, at, "post_attention_layernorm", x);
	in[0] = linear(d, at, "mlp.gate_proj", y, f, d->wide);
	in[0] = node(d, sl_node_of(SL_OP_SILU), "silu", 1, in, -1);
	in[1] = linear(d, at, "mlp.up_proj", y, f, d->wide);
	y = node(d, sl_node_of(SL_OP_MUL), "gated", 2, in, -1);
	y = linear(d, at, "mlp.down_proj", y, d->wide, f);
	return node(d, sl_node_of(SL_OP_ADD), "sum", 2, (int[]){x, y}, -1);
}

static void build(struct decoder *d)
{
	struct sl_fail fail = {0};
	int embedding, x = 0;

	assert_int_equal(
		sl_graph_add_input(&d->g, "tokens", SL_I32, SL_PER_TOKEN, sl_shape1(1), d->longest, NULL, &fail),
		SL_OK);
	embedding = param(d, "model.embed_tokens", sl_shape2(d->vocab, d->features));
	x = node(d, sl_node_of(SL_OP_EMBEDDING), "embedding", 1, &x, embedding);
	for (int i = 0; i < d->layers; i++)
		x = layer(d, i, x);
	x = normed(d, "model.", "norm", x);
	x = node(d, sl_node_of(SL_OP_LINEAR), "output", 1, &x, embedding);
	assert_int_equal(sl_graph_add_output(&d->g, "head_act", x, NULL, &fail), SL_OK);
}

static void set_weights(const struct decoder *d, struct sl_exec *exec, const struct sl_plan_segment *part)
{
	float *range = calloc((size_t)part->weight_count, sizeof *range);
	struct sl_fail fail;

	for (int i = 0; i < part->n_param; i++) {
		const struct sl_param *p = &part->graph.param[part->param[i].graph_param];
		const struct sl_st_tensor *t = sl_st_find(d->weights, p->name);

		assert_non_null(t);
		assert_int_equal(t->count, part->param[i].count);
		assert_int_equal(sl_st_read_f32(d->weights, t, range + part->param[i].offset, &fail), SL_OK);
	}
	assert_int_equal(part->n_param, sl_st_count(d->weights));
	assert_int_equal(sl_exec_set_weights(exec, range), SL_OK);
	free(range);
}

static void compare(const struct decoder *d, const float *got, const char *who)
{
	const int64_t n = d->tokens * d->vocab, from = d->begin[d->rows - 1];
	double largest = 0, worst = 0, loss = 0;

	for (int64_t i = 0; i < n; i++) {
		largest = fmax(largest, fabs((double)d->want[i]));
		worst = fmax(worst, fabs((double)got[i] - (double)d->want[i]));
		assert_true(isfinite(got[i]));
	}
	for (int64_t t = from; t + 1 < d->tokens; t++) {
		const float *x = got + t * d->vocab;
		double sum = 0;

		for (int k = 0; k < d->vocab; k++)
			sum += exp((double)x[k] - (double)x[d->token[t + 1]]);
		loss += log(sum) / (double)(d->tokens - 1 - from);
	}
	printf("  %s: logits deviate by %.1e of the largest; loss on greedy text %.3f\n", who, worst / largest, loss);
	assert_true(worst <= TOLERANCE * largest);
	assert_true(loss < 1);
}

/* A plan takes its graph over. */
static void run(struct decoder *d, struct sl_backend *be, const char *who)
{
	const struct sl_plan_spec spec = {
		.batch = d->rows, .chunks = 1, .row_tokens = d->longest, .chunk_tokens = d->tokens};
	const struct sl_exec_call call = {.dims = {.rows = d->rows, .tokens = d->tokens, .begin = d->begin}};
	struct sl_plan *plan = NULL;
	struct sl_exec *exec = NULL;
	struct sl_fail fail = {0};

	build(d);
	if (sl_plan_open_part(&plan, &spec, SL_HEAD, &d->g, &fail) != SL_OK ||
	    sl_exec_open(&exec, plan, SL_HEAD, be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	set_weights(d, exec, &plan->segment[SL_HEAD]);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	memcpy(sl_exec_input(exec, 0, d->tokens).data, d->token, (size_t)d->tokens * sizeof *d->token);
	assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	compare(d, sl_exec_output(exec, 0, d->tokens).data, who);
	sl_exec_close(exec);
	sl_plan_close(plan);
	d->g = (struct sl_graph){0};
}

static void a_pretrained_decoder(void **state)
{
	const char *dir = getenv("SPLIT_DECODER"), *made = getenv("SPLIT_DECODER_RUN");
	struct decoder d = {0};
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_fail fail;

	(void)state;
	if (!dir || !made) {
		print_message("SKIP: SPLIT_DECODER is not set: the folder of a small Llama (make test-torch)\n");
		skip();
	}
	read_config(&d, dir);
	read_run(&d, made);
	if (sl_st_open_folder(&d.weights, dir, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	run(&d, &be, "ref");
	be.ops->close(&be);
	for (int threads = 1; threads < 3; threads++) {
		assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
		assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
		run(&d, &be, threads == 1 ? "cpu, one thread" : "cpu, two threads");
		be.ops->close(&be);
		sl_pool_close(pool);
	}
	free(d.token);
	free(d.begin);
	free(d.want);
	sl_st_close(d.run);
	sl_st_close(d.weights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pretrained_decoder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
