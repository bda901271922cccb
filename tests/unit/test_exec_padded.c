/* Packed rows of different lengths, compared with the same rows padded by hand to
 * one length. Every real token has the same output and parameters have the same
 * gradients, also with dropout. Embeddings are by token, position and segment. */
#include <math.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { VOCAB = 11, F = 7, WIDE = 18, OUT = 5, ROWS = 6, LONGEST = 9, FIRST = 2, PAD = 1, MARK = 4 };
static const uint32_t begin[ROWS + 1] = {0, 4, 5, 14, 16, 23, 26};
static const uint32_t padded[ROWS + 1] = {0, 9, 18, 27, 36, 45, 54};
enum { REAL = 26, ALL = ROWS * LONGEST };

static int param(struct sl_graph *g, const char *name, struct sl_shape shape)
{
	struct sl_param p = {
		.shape = shape, .init = {SL_INIT_NORMAL, 0.5f}, .stream = (uint32_t)g->n_param, .role = SL_LEARNS};
	struct sl_fail fail = {0};

	strcpy(p.name, name);
	if (sl_graph_add_param(g, &p, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return g->n_param - 1;
}

static int node(struct sl_graph *g, struct sl_node n, const char *name, const int *in, int n_in, const int *params,
		int n_param)
{
	struct sl_fail fail = {0};
	int out = -1;

	strcpy(n.name, name);
	n.n_in = n_in;
	n.n_param = n_param;
	if (sl_graph_add_node(g, &n, in, params, &out, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return out;
}

static int linear(struct sl_graph *g, const char *name, int in, int from, int to)
{
	char weight[32], bias[32];
	int params[2];

	snprintf(weight, sizeof weight, "%s.weight", name);
	snprintf(bias, sizeof bias, "%s.bias", name);
	params[0] = param(g, weight, sl_shape2(to, from));
	params[1] = param(g, bias, sl_shape1(to));
	return node(g, sl_node_of(SL_OP_LINEAR), name, &in, 1, params, 2);
}

/* The sum of three embeddings, followed by linear, gelu, dropout, linear. */
static struct sl_graph graph(void)
{
	struct sl_node place = sl_node_of(SL_OP_EMBEDDING), kind = place, drop = sl_node_of(SL_OP_DROPOUT);
	struct sl_graph g = {0};
	struct sl_fail fail = {0};
	int zero = 0, sum[2], weight, at;

	assert_int_equal(sl_graph_add_input(&g, "tokens", SL_I32, SL_PER_TOKEN, sl_shape1(1), LONGEST, NULL, &fail),
			 SL_OK);
	weight = param(&g, "word.weight", sl_shape2(VOCAB, F));
	sum[0] = node(&g, sl_node_of(SL_OP_EMBEDDING), "word", &zero, 1, &weight, 1);
	place.u.embedding.position = true;
	place.u.embedding.first = FIRST;
	weight = param(&g, "place.weight", sl_shape2(FIRST + LONGEST, F));
	sum[1] = node(&g, place, "place", &zero, 1, &weight, 1);
	sum[0] = node(&g, sl_node_of(SL_OP_ADD), "sum", sum, 2, NULL, 0);
	kind.u.embedding.segment = true;
	kind.u.embedding.mark = MARK;
	weight = param(&g, "kind.weight", sl_shape2(2, F));
	sum[1] = node(&g, kind, "kind", &zero, 1, &weight, 1);
	at = node(&g, sl_node_of(SL_OP_ADD), "sum_too", sum, 2, NULL, 0);
	at = linear(&g, "up", at, F, WIDE);
	at = node(&g, sl_node_of(SL_OP_GELU), "gelu", &at, 1, NULL, 0);
	drop.u.dropout.p = 0.4f;
	drop.stream = 7;
	at = node(&g, drop, "drop", &at, 1, NULL, 0);
	at = linear(&g, "down", at, WIDE, OUT);
	assert_int_equal(sl_graph_add_output(&g, "head_act", at, NULL, &fail), SL_OK);
	return g;
}

struct pass {
	float out[ALL * OUT];
	float *grad;
	int64_t n;
};

/* Runs one step of one chunk. Row i begins at token at[i]; `token` and `dout` have at[ROWS] tokens. */
static void run(struct sl_backend *be, const uint32_t *at, const int32_t *token, const float *dout, struct pass *pass)
{
	const int64_t tokens = at[ROWS];
	const struct sl_plan_spec spec = {
		.batch = ROWS, .chunks = 1, .seed = 4, .row_tokens = LONGEST, .chunk_tokens = ALL};
	const struct sl_exec_call call = {
		.chunk = 3, .dims = {.rows = ROWS, .tokens = tokens, .begin = at}, .step = 5, .training = true};
	struct sl_graph g = graph();
	struct sl_plan *plan = NULL;
	struct sl_exec *exec = NULL;
	const struct sl_plan_segment *part;
	struct sl_fail fail = {0};
	float *weight;

	if (sl_plan_open_part(&plan, &spec, SL_HEAD, &g, &fail) != SL_OK ||
	    sl_exec_open(&exec, plan, SL_HEAD, be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	part = &plan->segment[SL_HEAD];
	weight = calloc((size_t)part->weight_count, sizeof *weight);
	for (int i = 0; i < part->n_param; i++)
		sl_param_init(&part->graph.param[part->param[i].graph_param], 4, weight + part->param[i].offset);
	assert_int_equal(sl_exec_set_weights(exec, weight), SL_OK);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	assert_int_equal(sl_exec_input(exec, 0, tokens).dtype, SL_I32);
	memcpy(sl_exec_input(exec, 0, tokens).data, token, (size_t)tokens * sizeof *token);
	assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	memcpy(pass->out, sl_exec_output(exec, 0, tokens).data, (size_t)(tokens * OUT) * sizeof(float));
	memcpy(sl_exec_dout(exec, 0, tokens).data, dout, (size_t)(tokens * OUT) * sizeof *dout);
	assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
	pass->n = part->trainable_count;
	pass->grad = calloc((size_t)pass->n, sizeof *pass->grad);
	assert_int_equal(sl_exec_get_gradients(exec, pass->grad), SL_OK);
	sl_exec_close(exec);
	sl_plan_close(plan);
	free(weight);
}

static void near(const char *what, float a, float b)
{
	if (!(fabsf(a - b) <= 1e-5f * (1 + fabsf(b))))
		fail_msg("%s is %g, not %g", what, (double)a, (double)b);
}

static void same_gradients(const struct pass *a, const struct pass *b)
{
	double square = 0;

	assert_int_equal(a->n, b->n);
	for (int64_t i = 0; i < a->n; i++) {
		near("gradient", a->grad[i], b->grad[i]);
		square += (double)a->grad[i] * (double)a->grad[i];
	}
	assert_true(square > 1);
}

static void compare(struct sl_backend *be, const struct pass *reference)
{
	int32_t token[REAL], wide_token[ALL];
	float dout[REAL * OUT], wide_dout[ALL * OUT] = {0};
	struct pass packed, wide;

	for (int i = 0; i < REAL; i++)
		token[i] = (i * 7 + 3) % VOCAB;
	for (int i = 0; i < ALL; i++)
		wide_token[i] = PAD;
	codec_fill(dout, REAL * OUT, RANDOM);
	for (int row = 0; row < ROWS; row++) {
		const size_t n = begin[row + 1] - begin[row];

		memcpy(wide_token + padded[row], token + begin[row], n * sizeof *token);
		memcpy(wide_dout + padded[row] * OUT, dout + begin[row] * OUT, n * OUT * sizeof *dout);
	}
	run(be, begin, token, dout, &packed);
	run(be, padded, wide_token, wide_dout, &wide);
	for (int row = 0; row < ROWS; row++)
		for (uint32_t i = 0; i < (begin[row + 1] - begin[row]) * OUT; i++)
			near("output", packed.out[begin[row] * OUT + i], wide.out[padded[row] * OUT + i]);
	same_gradients(&packed, &wide);
	for (int i = 0; reference && i < REAL * OUT; i++)
		near("output", packed.out[i], reference->out[i]);
	if (reference)
		same_gradients(&packed, reference);
	free(packed.grad);
	free(wide.grad);
}

static void padding_changes_nothing(void **state)
{
	struct sl_backend ref;
	struct sl_fail fail;
	int32_t token[REAL];
	float dout[REAL * OUT];
	struct pass reference;

	assert_int_equal(sl_ref_backend_open(&ref, &fail), SL_OK);
	compare(&ref, NULL);
	for (int i = 0; i < REAL; i++)
		token[i] = (i * 7 + 3) % VOCAB;
	codec_fill(dout, REAL * OUT, RANDOM);
	run(&ref, begin, token, dout, &reference);
	ref.ops->close(&ref);
	for (int threads = 1; threads < 3; threads++) {
		struct sl_backend be;
		struct sl_pool *pool;

		assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
		assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
		compare(&be, &reference);
		be.ops->close(&be);
		sl_pool_close(pool);
	}
	free(reference.grad);
}

/* A position table that is too short for the longest row is refused when the graph is built. */
static void a_table_has_all_places(void **state)
{
	struct sl_node place = sl_node_of(SL_OP_EMBEDDING);
	struct sl_graph g = {0};
	struct sl_fail fail = {0};
	int zero = 0, weight, out;

	assert_int_equal(sl_graph_add_input(&g, "tokens", SL_I32, SL_PER_TOKEN, sl_shape1(1), LONGEST, NULL, &fail),
			 SL_OK);
	weight = param(&g, "place.weight", sl_shape2(FIRST + LONGEST - 1, F));
	strcpy(place.name, "place");
	place.n_in = place.n_param = 1;
	place.u.embedding.position = true;
	place.u.embedding.first = FIRST;
	assert_int_equal(sl_graph_add_node(&g, &place, &zero, &weight, &out, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "places 2 to 10 of a row"));
	sl_graph_close(&g);
}

static const struct sl_kernel *attention;
static int64_t rows_told;

static enum sl_err told(const struct sl_op_call *call)
{
	rows_told = call->dims.rows;
	return attention->forward(call);
}

/* Attention on per-row values has as many rows as the chunk, whatever their padding.
 * On tokens it has twice as many, as each row's padding counts as a row. */
static void attention_has_the_rows_of_its_values(void **state)
{
	static const struct {
		const char *text;
		int64_t rows;
	} graphs[] = {
		{"graph 1\nin head_act f32 T[8] most=9\nparam w [9,9] normal:0.1:0\nnode t transpose %0 tokens=9\n"
		 "node a attention %1 %1 %1\nnode l linear %2 &0\nout mid_act %3\n",
		 ROWS},
		{"graph 1\nin head_act f32 T[8] most=9\nparam w [8,8] normal:0.1:0\n"
		 "node a attention %0 %0 %0\nnode l linear %1 &0\nout mid_act %2\n",
		 2 * ROWS},
	};
	const struct sl_plan_spec spec = {
		.batch = ROWS, .chunks = 1, .row_tokens = LONGEST, .chunk_tokens = ALL, .padded = true};
	uint32_t pieces[2 * ROWS + 1];
	struct sl_exec_call call = {.dims = {.rows = ROWS, .tokens = ALL, .begin = padded, .pieces = pieces},
				    .training = true};
	struct sl_backend be;
	struct sl_backend_ops ops;
	struct sl_kernel spy;
	struct sl_fail fail;

	for (int r = 0; r < ROWS; r++) {
		pieces[2 * r] = padded[r];
		pieces[2 * r + 1] = padded[r] + begin[r + 1] - begin[r];
	}
	pieces[2 * ROWS] = ALL;
	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	ops = *be.ops;
	attention = ops.kernel[SL_OP_ATTENTION];
	spy = *attention;
	spy.forward = told;
	ops.kernel[SL_OP_ATTENTION] = &spy;
	be.ops = &ops;
	for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
		struct sl_graph g;
		struct sl_plan *plan;
		struct sl_exec *exec;

		if (sl_graph_read(&g, graphs[i].text, strlen(graphs[i].text), &fail) != SL_OK ||
		    sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) != SL_OK ||
		    sl_exec_open(&exec, plan, SL_MIDDLE, &be, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		memset(sl_exec_input(exec, 0, ALL).data, 0, ALL * 8 * sizeof(float));
		assert_int_equal(sl_exec_begin(exec), SL_OK);
		assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
		assert_int_equal(rows_told, graphs[i].rows);
		sl_exec_close(exec);
		sl_plan_close(plan);
	}
	be.ops->close(&be);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(padding_changes_nothing),
		cmocka_unit_test(a_table_has_all_places),
		cmocka_unit_test(attention_has_the_rows_of_its_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
