/* A part that computes per token, on chunks whose rows have different lengths, and then selects
 * each row's first token. Compared with a part that gets only these first tokens, as rows. */
#include <math.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { F = 12, WIDE = 20, OUT = 6, ROWS = 5, LONGEST = 9, TOKENS = 30, BATCH = 2 * ROWS };

static int node(struct sl_graph *g, enum sl_op_kind kind, const char *name, int in, int param, int n_param)
{
	struct sl_node n = sl_node_of(kind);
	const int params[] = {param, param + 1};
	struct sl_fail fail = {0};
	int out = -1;

	strcpy(n.name, name);
	n.n_in = 1;
	n.n_param = n_param;
	if (sl_graph_add_node(g, &n, &in, params, &out, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return out;
}

static void param(struct sl_graph *g, const char *name, struct sl_shape shape, int stream)
{
	struct sl_param p = {
		.shape = shape, .init = {SL_INIT_NORMAL, 0.4f}, .stream = (uint32_t)stream, .role = SL_LEARNS};
	struct sl_fail fail = {0};

	strcpy(p.name, name);
	if (sl_graph_add_param(g, &p, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

/* linear, relu, select, linear; without tokens the same without select. */
static struct sl_graph graph_of(bool tokens)
{
	struct sl_graph g = {0};
	struct sl_fail fail = {0};
	int at;

	assert_int_equal(sl_graph_add_input(&g, "head_act", SL_F32, tokens ? SL_PER_TOKEN : SL_PER_ROW, sl_shape2(1, F),
					    tokens ? LONGEST : 1, NULL, &fail),
			 SL_OK);
	param(&g, "up.weight", sl_shape2(WIDE, F), 0);
	param(&g, "up.bias", sl_shape1(WIDE), 1);
	param(&g, "down.weight", sl_shape2(OUT, WIDE), 2);
	param(&g, "down.bias", sl_shape1(OUT), 3);
	at = node(&g, SL_OP_LINEAR, "up", 0, 0, 2);
	at = node(&g, SL_OP_ACT, "act", at, 0, 0);
	if (tokens)
		at = node(&g, SL_OP_SELECT, "first", at, 0, 0);
	at = node(&g, SL_OP_LINEAR, "down", at, 2, 2);
	assert_int_equal(sl_graph_add_output(&g, "mid_act", at, NULL, &fail), SL_OK);
	return g;
}

static struct sl_plan_spec spec_of(bool tokens)
{
	struct sl_plan_spec spec = {.batch = BATCH, .chunks = 2, .seed = 4};

	spec.row_tokens = tokens ? LONGEST : 0;
	spec.chunk_tokens = tokens ? TOKENS : 0;
	return spec;
}

static struct sl_plan *plan_of(bool tokens)
{
	const struct sl_plan_spec spec = spec_of(tokens);
	struct sl_graph g = graph_of(tokens);
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};

	if (sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

struct side {
	struct sl_plan *plan;
	struct sl_exec *exec;
	float *weight, *grad;
	int64_t n;
};

static struct side side_open(struct sl_backend *be, bool tokens)
{
	struct side s = {.plan = plan_of(tokens)};
	const struct sl_plan_segment *part = &s.plan->segment[SL_MIDDLE];
	struct sl_fail fail = {0};

	if (sl_exec_open(&s.exec, s.plan, SL_MIDDLE, be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	s.n = part->weight_count;
	s.weight = calloc((size_t)s.n, sizeof *s.weight);
	s.grad = calloc((size_t)s.n, sizeof *s.grad);
	for (int i = 0; i < part->n_param; i++)
		sl_param_init(&part->graph.param[part->param[i].graph_param], 4, s.weight + part->param[i].offset);
	assert_int_equal(sl_exec_set_weights(s.exec, s.weight), SL_OK);
	return s;
}

static void side_close(struct side *s)
{
	sl_exec_close(s->exec);
	sl_plan_close(s->plan);
	free(s->weight);
	free(s->grad);
}

/* Equal; or almost equal, for backends that block their sums by the number of rows. */
static void same(const float *a, const float *b, int64_t n, bool exactly)
{
	for (int64_t i = 0; i < n; i++)
		if (exactly ? a[i] != b[i] : !(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i]))))
			fail_msg("element %lld is %g, not %g", (long long)i, (double)a[i], (double)b[i]);
}

static void backwards_and_forwards(struct sl_exec *e, const struct sl_exec_call *call, const float *x, int64_t in,
				   const float *dy)
{
	struct sl_tensor t = sl_exec_input(e, call->slot, in);

	memcpy(t.data, x, (size_t)(in * F) * sizeof *x);
	assert_int_equal(sl_exec_forward(e, call, NULL), SL_OK);
	t = sl_exec_dout(e, call->slot, call->dims.rows);
	memcpy(t.data, dy, (size_t)(call->dims.rows * OUT) * sizeof *dy);
	assert_int_equal(sl_exec_backward(e, call, NULL), SL_OK);
}

static void compare_chunk(struct side *tokens, struct side *rows, const uint32_t *begin, int n, int slot, bool exactly)
{
	const struct sl_exec_call there = {slot, 0, {.rows = n, .tokens = begin[n], .begin = begin}, 1, true};
	const struct sl_exec_call here = {slot, 0, sl_dims_rows(n), 1, true};
	float x[TOKENS * F], first[ROWS * F], dy[ROWS * OUT];
	const float *din, *din_row;
	int row = 0;

	codec_fill(x, TOKENS * F, RANDOM);
	codec_fill(dy, ROWS * OUT, RANDOM);
	for (int i = 0; i < n; i++)
		memcpy(first + i * F, x + begin[i] * F, sizeof *x * F);
	backwards_and_forwards(tokens->exec, &there, x, begin[n], dy);
	backwards_and_forwards(rows->exec, &here, first, n, dy);
	same(sl_exec_output(tokens->exec, slot, n).data, sl_exec_output(rows->exec, slot, n).data, n * OUT, exactly);
	din = sl_exec_din(tokens->exec, slot, begin[n]).data;
	din_row = sl_exec_din(rows->exec, slot, n).data;
	for (int t = 0; t < (int)begin[n]; t++) {
		static const float zero[F];

		row += row + 1 < n && t == (int)begin[row + 1];
		same(din + t * F, t == (int)begin[row] ? din_row + row * F : zero, F, exactly);
	}
}

static void follow(struct sl_backend *be, bool exactly)
{
	static const uint32_t begin[3][ROWS + 1] = {{0, 9, 10, 14, 21, 30}, {0, 1, 2, 3, 4, 5}, {0, 9, 18, 0, 0, 0}};
	static const int n[3] = {5, 5, 2};
	struct side tokens = side_open(be, true), rows = side_open(be, false);

	assert_int_equal(tokens.n, rows.n);
	for (int step = 0; step < 3; step++) {
		const int64_t counts[2] = {n[step], 2};

		assert_int_equal(sl_exec_begin(tokens.exec), SL_OK);
		assert_int_equal(sl_exec_begin(rows.exec), SL_OK);
		compare_chunk(&tokens, &rows, begin[step], n[step], 0, exactly);
		compare_chunk(&tokens, &rows, begin[2], 2, 1, exactly);
		assert_int_equal(sl_exec_get_gradients(tokens.exec, tokens.grad), SL_OK);
		assert_int_equal(sl_exec_get_gradients(rows.exec, rows.grad), SL_OK);
		same(tokens.grad, rows.grad, tokens.n, exactly);
		assert_int_equal(sl_exec_commit(tokens.exec, 0.05, counts, 2), SL_OK);
		assert_int_equal(sl_exec_commit(rows.exec, 0.05, counts, 2), SL_OK);
	}
	assert_int_equal(sl_exec_get_weights(tokens.exec, tokens.weight), SL_OK);
	assert_int_equal(sl_exec_get_weights(rows.exec, rows.weight), SL_OK);
	same(tokens.weight, rows.weight, tokens.n, exactly);
	side_close(&tokens);
	side_close(&rows);
}

static void rows_and_tokens_on_ref(void **state)
{
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	follow(&be, true);
	be.ops->close(&be);
}

static void rows_and_tokens_on_the_cpu(void **state)
{
	for (int threads = 1; threads < 3; threads++) {
		struct sl_backend be;
		struct sl_pool *pool;
		struct sl_fail fail;

		assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
		assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
		follow(&be, false);
		be.ops->close(&be);
		sl_pool_close(pool);
	}
}

/* row_tokens and chunk_tokens must fit the batch and the graph. */
static void what_fits_no_plan_is_refused(void **state)
{
	static const struct {
		int64_t row, chunk;
		const char *why;
	} wrong[] = {
		{0, 0, "per token, which is not supported"},
		{LONGEST, ROWS - 1, "are not those of"},
		{LONGEST, ROWS * LONGEST + 1, "are not those of"},
		{0, TOKENS, "are not those of"},
		{65536, TOKENS, "are not those of"},
		{LONGEST + 1, TOKENS, "9 at most"},
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct sl_plan_spec spec = spec_of(true);
		struct sl_graph g = graph_of(true);
		struct sl_plan *plan = NULL;
		struct sl_fail fail = {0};

		spec.row_tokens = wrong[i].row;
		spec.chunk_tokens = wrong[i].chunk;
		assert_int_equal(sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, wrong[i].why))
			fail_msg("%s", fail.text);
		sl_graph_close(&g);
	}
}

static void ops_that_mix_tokens_are_refused(void **state)
{
	struct sl_graph g = {0}, per_row = {0};
	const struct sl_plan_spec spec = spec_of(true);
	struct sl_node n = sl_node_of(SL_OP_SELECT);
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};
	int at, zero = 0;

	assert_int_equal(
		sl_graph_add_input(&g, "head_act", SL_F32, SL_PER_TOKEN, sl_shape2(1, F), LONGEST, NULL, &fail), SL_OK);
	at = node(&g, SL_OP_FLATTEN, "flat", 0, 0, 0);
	assert_int_equal(sl_graph_add_output(&g, "mid_act", at, NULL, &fail), SL_OK);
	assert_int_equal(sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "flat: flatten of tokens"));
	sl_graph_close(&g);
	assert_int_equal(sl_graph_add_input(&per_row, "head_act", SL_F32, SL_PER_ROW, sl_shape2(1, F), 1, NULL, &fail),
			 SL_OK);
	strcpy(n.name, "first");
	n.n_in = 1;
	assert_int_equal(sl_graph_add_node(&per_row, &n, &zero, NULL, &at, &fail), SL_ERR_CONFIG);
	sl_graph_close(&per_row);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_and_tokens_on_ref),
		cmocka_unit_test(rows_and_tokens_on_the_cpu),
		cmocka_unit_test(what_fits_no_plan_is_refused),
		cmocka_unit_test(ops_that_mix_tokens_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
