/* Rows that continue from cached keys and values, in pieces of any length, compared with the same rows
 * in one piece. Each token has the same bits, with other rows or alone, on any number of threads, and
 * after going back. Also, which tokens the cache refuses because earlier ones are missing. */
#include <math.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { ROWS = 3, LONGEST = 300, HEADS = 4, KV = 2, D = 24, F = HEADS * D, MOST = ROWS * LONGEST };
static const int length[ROWS] = {300, 131, 57};

static int linear(struct sl_graph *g, const char *name, int in, int64_t to)
{
	struct sl_param p = {.shape = sl_shape2(to, F), .init = {SL_INIT_NORMAL, 0.2f}, .role = SL_LEARNS};
	struct sl_node n = sl_node_of(SL_OP_LINEAR);
	struct sl_fail fail = {0};
	int out = -1, param = g->n_param;

	p.stream = (uint32_t)param;
	snprintf(p.name, sizeof p.name, "%s.weight", name);
	strcpy(n.name, name);
	n.n_in = n.n_param = 1;
	if (sl_graph_add_param(g, &p, &fail) || sl_graph_add_node(g, &n, &in, &param, &out, &fail))
		fail_msg("%s", fail.text);
	return out;
}

/* Linear layers for queries, keys and values, attention, and a linear layer behind it. */
static struct sl_graph graph(bool causal)
{
	struct sl_node n = sl_node_of(SL_OP_ATTENTION);
	struct sl_graph g = {0};
	struct sl_fail fail = {0};
	int in[3], out;

	assert_int_equal(sl_graph_add_input(&g, "x", SL_F32, SL_PER_TOKEN, sl_shape2(1, F), LONGEST, NULL, &fail), 0);
	in[0] = linear(&g, "q", 0, F);
	in[1] = linear(&g, "k", 0, KV * D);
	in[2] = linear(&g, "v", 0, KV * D);
	strcpy(n.name, "attention");
	n.n_in = 3;
	n.u.attention = (struct sl_attention_attr){.heads = HEADS, .kv = KV, .causal = causal, .rope = 1e4f};
	if (sl_graph_add_node(&g, &n, in, NULL, &out, &fail))
		fail_msg("%s", fail.text);
	out = linear(&g, "o", out, F);
	assert_int_equal(sl_graph_add_output(&g, "y", out, NULL, &fail), SL_OK);
	return g;
}

static const struct sl_plan_spec usual = {
	.batch = ROWS, .chunks = 1, .seed = 4, .row_tokens = LONGEST, .chunk_tokens = MOST, .cached = true};

static struct sl_exec *open_exec(struct sl_backend *be, struct sl_plan **plan, bool cached)
{
	struct sl_graph g = graph(true);
	struct sl_plan_spec spec = usual;
	struct sl_exec *exec = NULL;
	struct sl_fail fail = {0};
	const struct sl_plan_segment *part;
	float *weight;

	spec.cached = cached;
	if (sl_plan_open_part(plan, &spec, SL_MIDDLE, &g, &fail) || sl_exec_open(&exec, *plan, SL_MIDDLE, be, &fail))
		fail_msg("%s", fail.text);
	part = &(*plan)->segment[SL_MIDDLE];
	weight = calloc((size_t)part->weight_count, sizeof *weight);
	for (int i = 0; i < part->n_param; i++)
		sl_param_init(&part->graph.param[part->param[i].graph_param], 4, weight + part->param[i].offset);
	assert_int_equal(sl_exec_set_weights(exec, weight), SL_OK);
	free(weight);
	return exec;
}

/* Computes n[row] tokens of each row, from past[row] on. Rows with n = 0 are left out. */
static void pass(struct sl_exec *exec, bool cached, const float *x, const int past[ROWS], const int n[ROWS], float *y)
{
	uint32_t begin[ROWS + 1] = {0}, pair[2 * ROWS];
	struct sl_exec_call call = {.dims = {.begin = begin, .cached = cached ? pair : NULL}};
	struct sl_fail fail = {0};
	float *at = sl_exec_input(exec, 0, 1).data;

	for (int row = 0; row < ROWS; row++) {
		if (!n[row])
			continue;
		pair[2 * call.dims.rows] = (uint32_t)row;
		pair[2 * call.dims.rows + 1] = (uint32_t)past[row];
		memcpy(at + call.dims.tokens * F, x + (row * LONGEST + past[row]) * F,
		       (size_t)(n[row] * F) * sizeof *x);
		call.dims.tokens += n[row];
		begin[++call.dims.rows] = (uint32_t)call.dims.tokens;
	}
	if (sl_exec_cache_take(exec, &call.dims, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	at = sl_exec_output(exec, 0, call.dims.tokens).data;
	for (int row = 0; row < ROWS; row++) {
		memcpy(y + (row * LONGEST + past[row]) * F, at, (size_t)(n[row] * F) * sizeof *y);
		at += n[row] * F;
	}
}

static void whole(struct sl_backend *be, bool cached, const float *x, float *y)
{
	static const int none[ROWS];
	struct sl_plan *plan = NULL;
	struct sl_exec *exec = open_exec(be, &plan, cached);

	pass(exec, cached, x, none, length, y);
	sl_exec_close(exec);
	sl_plan_close(plan);
}

/* Prompts of different lengths, then tokens one by one. Some pieces
 * are longer, one row sometimes waits, and at turn 20 rows go back. */
static void in_pieces(struct sl_backend *be, const float *x, float *y)
{
	static const int first[ROWS] = {127, 5, 56}, back[ROWS] = {200, 100, 0};
	struct sl_plan *plan = NULL;
	struct sl_exec *exec = open_exec(be, &plan, true);
	int past[ROWS] = {0}, n[ROWS];

	memcpy(n, first, sizeof n);
	for (int turn = 0, left = 1; left; turn++) {
		pass(exec, true, x, past, n, y);
		left = 0;
		for (int row = 0; row < ROWS; row++) {
			past[row] += n[row];
			if (turn == 20)
				past[row] = past[row] < back[row] ? past[row] : back[row];
			n[row] = row == 1 && turn % 5 == 0 ? 0 : turn % 7 == 0 ? 9 : 1;
			n[row] = n[row] < length[row] - past[row] ? n[row] : length[row] - past[row];
			left += length[row] - past[row];
		}
	}
	sl_exec_close(exec);
	sl_plan_close(plan);
}

/* Compares passes without a cache, with a cache and all rows in one piece, and with a cache and in pieces. */
static void compare(struct sl_backend *be, const float *x, const float *near)
{
	float *y = calloc(3 * MOST * F, sizeof *y), *other = y + MOST * F, *parts = other + MOST * F;

	whole(be, false, x, y);
	whole(be, true, x, other);
	in_pieces(be, x, parts);
	assert_memory_equal(y, other, MOST * F * sizeof *y);
	assert_memory_equal(y, parts, MOST * F * sizeof *y);
	for (int i = 0; i < MOST * F; i++)
		assert_true(fabsf(y[i] - near[i]) <= 1e-4f * (1 + fabsf(near[i])));
	free(y);
}

static void pieces_have_the_bits_of_the_whole(void **state)
{
	float *x = codec_make(MOST * F, RANDOM), *y = calloc(MOST * F, sizeof *y);
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	whole(&be, false, x, y);
	compare(&be, x, y);
	be.ops->close(&be);
	for (int threads = 1; threads < 3; threads++) {
		struct sl_pool *pool;

		assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
		assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
		compare(&be, x, y);
		be.ops->close(&be);
		sl_pool_close(pool);
	}
	free(x);
	free(y);
}

static void a_cache_is_counted_and_bounded(void **state)
{
	const uint32_t begin[] = {0, 5}, pair[4][2] = {{0, 0}, {0, 5}, {0, 11}, {ROWS, 0}};
	struct sl_plan *plan = NULL, *none = NULL;
	struct sl_backend be;
	struct sl_exec *exec, *plain;
	struct sl_graph g = graph(false);
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	exec = open_exec(&be, &plan, true);
	plain = open_exec(&be, &none, false);
	assert_int_equal(sl_exec_memory(exec).slots - sl_exec_memory(plain).slots,
			 ROWS * (2 * LONGEST * KV * D * sizeof(double) + sizeof(uint32_t)));
	for (int i = 0; i < 4; i++)
		assert_int_equal(sl_exec_cache_take(exec, &(struct sl_dims){1, 5, begin, .cached = pair[i]}, &fail),
				 i < 2 ? SL_OK : SL_ERR_PAYLOAD);
	sl_exec_close(exec);
	sl_exec_close(plain);
	sl_plan_close(plan);
	sl_plan_close(none);
	assert_int_equal(sl_plan_open_part(&plan, &usual, SL_MIDDLE, &g, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "attention cannot go on from what is cached"));
	sl_graph_close(&g);
	be.ops->close(&be);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_have_the_bits_of_the_whole),
		cmocka_unit_test(a_cache_is_counted_and_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
