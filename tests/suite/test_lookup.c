/* lookup on both host backends: a number that is no row of the table gives NaN, adds to no gradient, and reads nothing
 * beyond the table. */
#include <math.h>
#include <string.h>

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/unit.h"

enum { ROWS = 3, IDS = 4, TABLE = 5, F = 3, N = ROWS * IDS };

static const float ids[N] = {0, 4, 5, -1, NAN, INFINITY, 2, 2.75f, -0.0f, 16777216, 1e30f, 1};
static const int row[N] = {0, 4, -1, -1, -1, -1, 2, 2, 0, -1, -1, 1}; /* as PyTorch's .long() rounds */

static void check(struct sl_backend *be)
{
	const struct sl_op op = {.kind = SL_OP_LOOKUP, .name = "ids", .n_in = 1, .n_param = 1, .u.lookup = {TABLE, F}};
	float weight[TABLE * F], out[N * F], dout[N * F], grad[TABLE * F] = {0}, want[TABLE * F] = {0}, din[N];
	struct sl_op_call call = {.be = be, .op = &op, .dims = sl_dims_rows(ROWS)};
	const struct sl_kernel *kernel = be->ops->kernel[SL_OP_LOOKUP];

	for (int i = 0; i < TABLE * F; i++)
		weight[i] = (float)i + 0.5f;
	for (int i = 0; i < N * F; i++) {
		dout[i] = (float)(i % 7) - 3;
		if (row[i / F] >= 0)
			want[row[i / F] * F + i % F] += dout[i];
	}
	memset(din, 0xff, sizeof din);
	call.in[0] = (struct sl_tensor){SL_F32, sl_shape2(ROWS, IDS), (void *)ids, be};
	call.out = (struct sl_tensor){SL_F32, sl_shape3(ROWS, IDS, F), out, be};
	call.dout = (struct sl_tensor){SL_F32, sl_shape3(ROWS, IDS, F), dout, be};
	call.din[0] = (struct sl_tensor){SL_F32, sl_shape2(ROWS, IDS), din, be};
	call.param[0] = weight;
	call.grad[0] = grad;
	assert_int_equal(kernel->forward(&call), SL_OK);
	assert_int_equal(kernel->backward(&call), SL_OK);
	for (int i = 0; i < N * F; i++)
		if (row[i / F] < 0)
			assert_true(isnan(out[i]));
		else
			assert_true(out[i] == weight[row[i / F] * F + i % F]);
	assert_memory_equal(grad, want, sizeof want);
	for (int i = 0; i < N; i++)
		assert_true(din[i] == 0);
}

static void test_ref(void **state)
{
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	check(&be);
	be.ops->close(&be);
}

static void test_cpu(void **state)
{
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(&pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	check(&be);
	be.ops->close(&be);
	sl_pool_close(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ref), cmocka_unit_test(test_cpu)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
