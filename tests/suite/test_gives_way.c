/* Long loops that run on one thread, outside the pool's blocks, must ask the worker for its turn often
 * enough, whatever sizes a peer chooses. This test replaces the worker and counts the calls. */
#include <limits.h>

#include "common/base/worker.h"
#include "common/codec/loops.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

/* ---- replacements of the worker's functions */

static long asked; /* calls of sl_worker_turn */
static long looks; /* calls of sl_worker_turn_due, which pools make between blocks and steps */

struct sl_worker *__wrap_sl_worker_here(void);
void __wrap_sl_worker_turn(void);
bool __wrap_sl_worker_turn_due(struct sl_worker *worker);

struct sl_worker *__wrap_sl_worker_here(void)
{
	return (void *)&asked;
}

void __wrap_sl_worker_turn(void)
{
	asked++;
}

bool __wrap_sl_worker_turn_due(struct sl_worker *worker)
{
	(void)worker;
	looks++;
	return false;
}

/* ---- long loops */

static struct sl_backend be;
static struct sl_fail fail;

/* A cosine and a sine for each position and pair of features. */
static void rotary_positions_give_way(void **state)
{
	enum { MOST = 40000, ROW = 16384, FEATURES = 16, TURNS = 4096 };
	const struct sl_kernel *kernel = be.ops->kernel[SL_OP_ATTENTION];
	struct sl_op op = {.kind = SL_OP_ATTENTION,
			   .name = "a",
			   .most = MOST,
			   .n_in = 3,
			   .u.attention = {.heads = 1, .rope = 10000}};
	struct sl_op_prepare p = {.be = &be, .op = &op, .row_tokens = ROW, .fail = &fail};

	op.out_shape = (struct sl_shape){2, {1, FEATURES}};
	for (int i = 0; i < op.n_in; i++)
		op.in_shape[i] = op.out_shape;
	assert_int_equal(kernel->prepare(&p), SL_OK);
	assert_null(p.state);
	asked = 0;
	assert_int_equal(kernel->start(&p), SL_OK);
	assert_in_range(asked, ROW * FEATURES / 2 / TURNS, MOST);
	kernel->release(p.state);
}

/* There are as many groups as PIECES blocks have elements. Tests the loop that one thread runs over the groups, and
 * that no block grows with a row. */
static void codecs_of_many_groups_give_way(void **state)
{
	enum { PIECES = 4, MANY = PIECES * SL_CODEC_BLOCK };
	static const struct {
		const char *codec;
		int64_t elements;
		long open, encode, encode_looks, decode;
	} cases[] = {
		/* one call per piece of the ranges, and of the codes */
		{"quant:4,per=channel", MANY, 0, 2 * PIECES, 2 * PIECES, 2 * PIECES},
		{"quant:4,block=9", 9 * MANY, 0, 2 * PIECES, 9 * PIECES, 2 * PIECES},
		{"qsgd:7,norm=max,bucket=9", 9 * MANY, 0, 2 * PIECES, 9 * PIECES, 2 * PIECES},
		{"terngrad,bucket=9", 9 * MANY, 0, 2 * PIECES, 9 * PIECES, 2 * PIECES},
		/* runs of length one */
		{"hadamard", MANY + 1, PIECES, 0, PIECES + 1, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct sl_shape shape = sl_shape2(1, cases[i].elements);
		float *x = codec_make(cases[i].elements, RANDOM);
		struct sl_codec *codec;
		uint8_t *bytes;
		size_t len;

		asked = 0;
		codec = codec_open(cases[i].codec, shape, &be, SL_DIR_HEAD_ACT, NULL);
		assert_in_range(asked, cases[i].open, LONG_MAX);
		asked = looks = 0;
		assert_int_equal(codec_encode(codec, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_in_range(asked, cases[i].encode, LONG_MAX);
		assert_in_range(looks, cases[i].encode_looks, LONG_MAX);
		asked = 0;
		assert_int_equal(codec_decode(codec, &codec_call0, bytes, len, shape, x), SL_OK);
		assert_in_range(asked, cases[i].decode, LONG_MAX);
		sl_codec_close(codec);
		free(bytes);
		free(x);
	}
}

/* A chain whose nodes save nothing: every node may be a checkpoint, and all nodes before it are examined. */
static void the_search_for_what_is_computed_again_gives_way(void **state)
{
	enum { NODES = 300, TRIES = 20, LINE = 48 };
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1};
	char *text = malloc((size_t)(NODES + 4) * LINE);
	struct sl_exec *exec = NULL;
	struct sl_plan *plan = NULL;
	struct sl_graph g = {0};
	int n = sprintf(text, "graph 1\nin x f32 R[4]\nparam w [4,4] zero\nnode l linear %%0 &0\n");

	for (int i = 1; i <= NODES; i++)
		n += sprintf(text + n, "node n%d scale %%%d by=0.5\n", i, i);
	n += sprintf(text + n, "out y %%%d\n", NODES + 1);
	if (sl_graph_read(&g, text, (size_t)n, &fail) || sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail) ||
	    sl_exec_prepare(&exec, plan, SL_MIDDLE, &be, &fail))
		fail_msg("%s", fail.text);
	asked = 0;
	assert_int_equal(sl_exec_recompute(exec, &fail), SL_OK);
	assert_in_range(asked, (1 + TRIES) * NODES, LONG_MAX);
	sl_exec_close(exec);
	sl_plan_close(plan);
	free(text);
}

static int open_backend(void **state)
{
	return sl_cpu_backend_open(&be, NULL, &fail);
}

static int close_backend(void **state)
{
	be.ops->close(&be);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rotary_positions_give_way),
		cmocka_unit_test(codecs_of_many_groups_give_way),
		cmocka_unit_test(the_search_for_what_is_computed_again_gives_way),
	};

	return cmocka_run_group_tests(tests, open_backend, close_backend);
}
