/* The reference against PyTorch. Every backend is compared with the reference, so the reference
 * needs an independent check. tests/golden/make_ops.py made the golden numbers. */

#include "common/conf/agreed.h"
#include "tests/golden/ops.h"
#include "tests/ref/ref.h"
#include "tests/support/op_run.h"
#include "tests/support/unit.h"

/* Casts away const; a rig never writes to its inputs. */
static float *unconst(const float *v)
{
	return (float *)(uintptr_t)v;
}

static void check(const char *name, int index, struct op_area *area, const float *want, struct op_log *log)
{
	char what[32];

	snprintf(what, sizeof(what), "%s[%d]", name, index);
	if (want)
		op_compare(what, op_area_read(area, what, log), want, (int64_t)(area->bytes / sizeof(float)), 0, log);
}

static void run_golden(const struct op_golden *g, struct op_rig *rig, struct op_chunk *chunk, struct op_host *host)
{
	struct op_log *log = rig->log;

	if (!op_rig_forward(rig, chunk) || !op_rig_backward(rig, chunk, host, OP_DIN_SET) ||
	    (!g->c.eval && !op_rig_commit(rig, chunk)))
		return;
	check("out", 0, &chunk->out, g->out, log);
	check("din", 0, &chunk->din[0], g->din, log);
	check("din", 1, &chunk->din[1], g->din_b, log);
	check("din", 2, &chunk->din[2], g->din_c, log);
	for (int i = 0; i < rig->op.n_param; i++) {
		check("grad", i, &rig->grad[i], g->grad[i], log);
		check("param", i, &rig->param[i], g->param_after[i], log);
	}
	if (g->loss != 0) {
		float loss = (float)chunk->loss_sum, want = (float)g->loss;

		op_compare("loss", &loss, &want, 1, 0, log);
	}
}

static void test_ops_equal_torch(void **state)
{
	struct op_log log = {.backend = "ref", .mode = "torch"};
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	for (size_t k = 0; k < sizeof(golden_ops) / sizeof(golden_ops[0]); k++) {
		const struct op_golden *g = &golden_ops[k];
		struct op_host host;
		struct op_host_params params = {0};
		struct op_rig rig;
		struct op_chunk chunk = {0};
		struct sl_op op;

		snprintf(log.op, sizeof(log.op), "%s", g->name);
		assert_int_equal(op_case_op(&g->c, g->c.n, &op, &fail), SL_OK);
		host = (struct op_host){
			.rows = g->c.n,
			.out_count = g->out ? sl_shape_count(&op.out_shape) : 0,
			.in = {unconst(g->in), unconst(g->in_b), unconst(g->in_c)},
			.dout = unconst(g->dout),
			.other = (int32_t *)(uintptr_t)g->other,
			.share = unconst(g->share),
			.targets = unconst(g->targets),
			.weight = unconst(g->weight),
			.labels = (int32_t *)(uintptr_t)g->labels,
		};
		for (int i = 0; i < op.n_in; i++)
			host.in_count[i] = sl_shape_count(&op.in_shape[i]);
		for (int i = 0; i < op.n_param; i++) {
			params.param[i] = unconst(g->param[i]);
			params.grad_start[i] = op_xalloc((size_t)op_param_count(&op, i) * sizeof(float));
		}
		assert_true(op_rig_open(&rig, &be, &g->c, &op, &params, &log));
		op_chunk_open(&rig, &chunk, &host, 0);
		chunk.call.loss_scale = 1;
		run_golden(g, &rig, &chunk, &host);
		op_chunk_close(&chunk);
		op_rig_close(&rig);
		for (int i = 0; i < op.n_param; i++)
			free(params.grad_start[i]);
	}
	be.ops->close(&be);
	assert_int_equal(log.failures, 0);
}

static void test_sgd_equals_torch(void **state)
{
	struct op_log log = {.backend = "ref", .mode = "torch", .op = "sgd"};
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	for (size_t k = 0; k < sizeof(golden_sgd) / sizeof(golden_sgd[0]); k++) {
		float weight[GOLDEN_SGD_COUNT], grad[GOLDEN_SGD_COUNT], momentum[GOLDEN_SGD_COUNT] = {0};
		float *const moment[SL_MOMENTS_MOST] = {momentum};

		memcpy(weight, golden_sgd[k].before, sizeof(weight));
		for (int step = 0; step < GOLDEN_SGD_STEPS; step++) {
			const struct sl_optimizer how = {.momentum = golden_sgd[k].momentum,
							 .weight_decay = golden_sgd[k].weight_decay,
							 .nesterov = golden_sgd[k].nesterov};
			const struct sl_update update = sl_optimizer_step(&how, golden_sgd[k].lr, (uint64_t)step + 1);

			memcpy(grad, golden_sgd[k].grad + (ptrdiff_t)step * GOLDEN_SGD_COUNT, sizeof(grad));
			assert_int_equal(be.ops->update(&be, &update, GOLDEN_SGD_COUNT, weight, grad, moment), SL_OK);
		}
		op_compare("weight", weight, golden_sgd[k].after, GOLDEN_SGD_COUNT, 0, &log);
	}
	be.ops->close(&be);
	assert_int_equal(log.failures, 0);
}

static void test_adam_equals_torch(void **state)
{
	enum { N = GOLDEN_SGD_COUNT };
	struct op_log log = {.backend = "ref", .mode = "torch"};
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	for (size_t k = 0; k < sizeof(golden_adam) / sizeof(golden_adam[0]); k++) {
		float weight[N], first[N] = {0}, second[N] = {0};
		float *const moment[SL_MOMENTS_MOST] = {first, second};

		snprintf(log.op, sizeof(log.op), "%s, setting %zu", sl_agreed_optimizers[golden_adam[k].how.kind], k);
		memcpy(weight, golden_adam[k].before, sizeof(weight));
		for (int step = 0; step < GOLDEN_SGD_STEPS; step++) {
			const struct sl_update update =
				sl_optimizer_step(&golden_adam[k].how, golden_adam[k].lr, (uint64_t)step + 1);

			assert_int_equal(be.ops->update(&be, &update, N, weight,
							golden_adam[k].grad + (ptrdiff_t)step * N, moment),
					 SL_OK);
		}
		op_compare("weight", weight, golden_adam[k].after, N, 0, &log);
		op_compare("first moment", first, golden_adam[k].first, N, 0, &log);
		op_compare("second moment", second, golden_adam[k].second, N, 0, &log);
	}
	be.ops->close(&be);
	assert_int_equal(log.failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ops_equal_torch),
		cmocka_unit_test(test_sgd_equals_torch),
		cmocka_unit_test(test_adam_equals_torch),
	};

	return cmocka_run_group_tests_name("ops against torch", tests, NULL, NULL);
}
