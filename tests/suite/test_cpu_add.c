/* A sum on the CPU backend can do the work of the batchnorm in front and of the activation behind. It then has the bits
 * of the three ops by themselves, for any number of threads. test_ops.c compares those with tests/ref. */
#include <math.h>

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/unit.h"

enum { NORM, SUM, ACT, OPS };
enum { X, SKIP, NORMED, SUMMED, OUT, VALUES };

struct sum_case {
	struct sl_shape shape;
	enum sl_act act; /* NONE: there is no activation */
	bool norm, training, adds;
};

struct run {
	const struct sum_case *c;
	struct sl_op op[OPS];
	struct sl_op_call call[OPS];
	float *value[VALUES], *grad[VALUES];
};

static float *filled(int64_t n, uint16_t stream, float scale)
{
	const struct sl_rng_key key = {3, 0, stream, SL_RNG_TEST};
	float *p = malloc((size_t)n * sizeof *p);

	assert_non_null(p);
	for (int64_t i = 0; i < n; i++)
		p[i] = scale * (2.0f * sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 1.0f);
	return p;
}

static void open_op(struct run *r, struct sl_backend *be, int i, struct sl_exec_form form)
{
	const struct sl_kernel *k = be->ops->kernel[r->op[i].kind];
	struct sl_op_prepare p = {.be = be, .op = &r->op[i], .form = form};

	if (k->prepare)
		assert_int_equal(k->prepare(&p), SL_OK);
	r->call[i] = (struct sl_op_call){.be = be,
					 .op = &r->op[i],
					 .form = form,
					 .training = r->c->training,
					 .saved = calloc(1, p.sizes.saved_bytes + 1),
					 .workspace = malloc(p.sizes.workspace_bytes + 1)};
}

static void open_run(struct run *r, struct sl_backend *be, const struct sum_case *c, bool fused)
{
	const int64_t n = sl_shape_count(&c->shape), k = c->shape.dim[3];
	const bool acts = c->act != SL_ACT_NONE;
	const struct sl_exec_form form = {.pre = fused && c->norm ? SL_PRE_NORM : SL_PRE_NONE,
					  .post = fused && acts ? SL_POST_ACT : SL_POST_NONE};

	*r = (struct run){.c = c};
	r->op[NORM] = (struct sl_op){.kind = SL_OP_BATCHNORM, .n_in = 1, .u.bn = {(int)k, 1e-5f, 0.1f, SL_ACT_NONE}};
	r->op[SUM] = (struct sl_op){.kind = SL_OP_ADD, .n_in = 2};
	r->op[ACT] = (struct sl_op){.kind = SL_OP_ACT, .n_in = 1, .u.act = c->act};
	for (int i = 0; i < OPS; i++) {
		r->op[i].in_shape[0] = r->op[i].in_shape[1] = r->op[i].out_shape = c->shape;
		open_op(r, be, i,
			i == SUM ? form
				 : (struct sl_exec_form){.half = i == NORM && fused ? SL_HALF_STATS : SL_HALF_BOTH});
	}
	for (int i = 0; i < 4; i++)
		r->call[NORM].param[i] = filled(k, (uint16_t)i, 2);
	for (int64_t i = 0; i < k; i++)
		r->call[NORM].param[3][i] = 1.5f; /* a variance */
	for (int i = 0; i < 2; i++)
		r->call[NORM].grad[i] = filled(k, (uint16_t)(4 + i), 1);
	r->call[SUM].pre = form.pre ? &r->call[NORM] : NULL;
	r->call[SUM].post = form.post ? &r->call[ACT] : NULL;
	for (int v = 0; v < VALUES; v++) {
		r->value[v] = filled(n, (uint16_t)(10 + v), 9); /* some lie beyond relu6's 6 */
		r->grad[v] = filled(n, (uint16_t)(20 + v), 1);
	}
	r->value[SKIP][n / 2] = NAN;
	r->value[SKIP][n / 3] = -INFINITY;
}

static struct sl_tensor tensor(const struct run *r, float *data)
{
	return (struct sl_tensor){SL_F32, r->c->shape, data, NULL};
}

static void pass(struct run *r, int i, bool back, int a, int b, int out)
{
	struct sl_op_call *c = &r->call[i];
	const struct sl_kernel *k = c->be->ops->kernel[c->op->kind];

	c->in[0] = tensor(r, r->value[a]);
	c->in[1] = tensor(r, b >= 0 ? r->value[b] : NULL);
	c->out = tensor(r, out >= 0 ? r->value[out] : NULL);
	if (back) {
		c->dout = tensor(r, r->grad[out >= 0 ? out : NORMED]);
		c->din[0] = tensor(r, r->grad[i == SUM && r->c->norm ? NORMED : a]);
		c->din[1] = tensor(r, b >= 0 ? r->grad[b] : NULL);
		c->din_add[1] = r->c->adds;
	}
	assert_int_equal(back ? k->backward(c) : k->forward(c), SL_OK);
}

static void all_ops(struct run *r, bool fused)
{
	const bool norm = r->c->norm, acts = r->c->act != SL_ACT_NONE;
	const int a = norm && !fused ? NORMED : X, out = acts && !fused ? SUMMED : OUT;

	if (norm)
		pass(r, NORM, false, X, -1, fused ? -1 : NORMED);
	pass(r, SUM, false, a, SKIP, out);
	if (acts && !fused) {
		pass(r, ACT, false, SUMMED, -1, OUT);
		pass(r, ACT, true, SUMMED, -1, OUT);
	}
	pass(r, SUM, true, a, SKIP, out);
	if (norm)
		pass(r, NORM, true, X, -1, fused ? -1 : NORMED);
}

static void close_run(struct run *r)
{
	for (int i = 0; i < OPS; i++) {
		free(r->call[i].saved);
		free(r->call[i].workspace);
	}
	for (int i = 0; i < 4; i++)
		free(r->call[NORM].param[i]);
	for (int i = 0; i < 2; i++)
		free(r->call[NORM].grad[i]);
	for (int v = 0; v < VALUES; v++) {
		free(r->value[v]);
		free(r->grad[v]);
	}
}

static void expect_same(const struct run *a, const struct run *b)
{
	const size_t bytes = (size_t)sl_shape_count(&a->c->shape) * sizeof(float);
	const size_t row = (size_t)a->c->shape.dim[3] * sizeof(float);

	assert_memory_equal(a->value[OUT], b->value[OUT], bytes);
	assert_memory_equal(a->grad[X], b->grad[X], bytes);
	assert_memory_equal(a->grad[SKIP], b->grad[SKIP], bytes);
	for (int i = 0; i < 2; i++)
		assert_memory_equal(a->call[NORM].grad[i], b->call[NORM].grad[i], row);
}

static struct {
	struct sl_pool *pool;
	struct sl_backend one, two; /* with one and two threads */
} rig;

static void compare(const struct sum_case *c)
{
	struct run apart, one, two;

	open_run(&apart, &rig.one, c, false);
	open_run(&one, &rig.one, c, true);
	open_run(&two, &rig.two, c, true);
	all_ops(&apart, false);
	all_ops(&one, true);
	all_ops(&two, true);
	expect_same(&one, &apart);
	expect_same(&two, &apart);
	close_run(&apart);
	close_run(&one);
	close_run(&two);
}

static void a_sum_has_the_bits_of_three_ops(void **state)
{
	const struct sl_shape shapes[] = {sl_shape4(2, 7, 7, 17), sl_shape4(3, 9, 5, 64), sl_shape4(40, 5, 6, 160),
					  sl_shape4(1, 1, 1, 33), sl_shape4(2, 70, 33, 16)};

	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (int act = 0; act < SL_ACT_COUNT; act++)
			for (int way = 0; way < 8; way++)
				compare(&(struct sum_case){shapes[s], (enum sl_act)act, way & 1, way & 2, way & 4});
}

/* So large that stores bypass the cache. */
static void so_has_a_large_one(void **state)
{
	compare(&(struct sum_case){sl_shape4(7, 120, 125, 64), SL_ACT_RELU, true, true, false});
}

static void what_it_takes(void **state)
{
	const struct sl_op op = {.kind = SL_OP_ADD};
	const struct sl_kernel *k = rig.one.ops->kernel[SL_OP_ADD];

	assert_true(k->takes(&op, (struct sl_exec_form){.pre = SL_PRE_NORM, .post = SL_POST_ACT}));
	assert_false(k->takes(&op, (struct sl_exec_form){.pre = SL_PRE_ACT}));
	assert_false(k->takes(&op, (struct sl_exec_form){.post = SL_POST_STATS}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_sum_has_the_bits_of_three_ops),
					   cmocka_unit_test(so_has_a_large_one), cmocka_unit_test(what_it_takes)};
	int failed;

	if (sl_pool_open(&rig.pool, 2, NULL) || sl_cpu_backend_open(&rig.one, NULL, NULL) ||
	    sl_cpu_backend_open(&rig.two, rig.pool, NULL))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig.one.ops->close(&rig.one);
	rig.two.ops->close(&rig.two);
	sl_pool_close(rig.pool);
	return failed;
}
