/* Long loops that run on one thread and are no blocks of a pool: each asks the worker for its turn often enough,
 * whatever sizes a peer chooses. The worker is this test, which counts how often it is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/worker.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"

/* ---- in place of a worker */

static long asked;

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
	asked++;
	return false;
}

/* ---- what is long */

static struct sl_backend be;
static struct sl_fail fail;

/* Of each position and pair of features a cosine and a sine. */
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

	(void)state;
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

static int open_backend(void **state)
{
	(void)state;
	return sl_cpu_backend_open(&be, NULL, &fail);
}

static int close_backend(void **state)
{
	(void)state;
	be.ops->close(&be);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rotary_positions_give_way),
	};

	return cmocka_run_group_tests(tests, open_backend, close_backend);
}
