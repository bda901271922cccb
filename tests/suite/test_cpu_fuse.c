/* A batchnorm between two convolutions on the CPU backend: run by itself, or fused with the
 * convolution before it, after it, or both (backend.h: before, after, whole, reduced). Also an
 * activation before a convolution. All forms must agree within rounding and give the same bits for
 * any number of threads. test_ops.c compares the unfused ops with tests/ref. */
#include <math.h>

#include "common/base/pool.h"
#include "kernels/cpu/bn.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "tests/support/unit.h"

enum { FRONT, NORM, BEHIND, OPS, VALUES = OPS + 1, RESULTS = 10 };

struct chain {
	struct sl_op op[OPS];
	bool stem;    /* the gradient of its input is not computed */
	float centre; /* mean of its input */
};

struct conv_case {
	int in_c, out_c, k, stride, pad;
	bool depthwise, bias;
};

static const struct conv_case fronts[] = {
	{20, 96, 1, 1, 0, false, false}, {20, 32, 3, 2, 1, false, false}, {17, 17, 3, 1, 1, true, false},
	{17, 17, 3, 2, 1, true, true},   {20, 24, 1, 1, 0, false, true},  {3, 32, 3, 2, 1, false, false},
	{2, 19, 3, 1, 1, false, false},  {1, 24, 5, 2, 1, false, false},  {96, 40, 1, 1, 0, false, false},
	{33, 40, 3, 1, 1, false, true},
};
static const struct conv_case behinds[] = {
	{0, 0, 3, 1, 1, true, false},
	{0, 0, 3, 2, 1, true, true},
	{0, 40, 1, 1, 0, false, false},
	{0, 24, 1, 1, 0, false, true},
};
/* sizes of the first input; as a channel count behind, 0 stands for the number in front */
static const int64_t sizes[][3] = {{2, 7, 7}, {2, 33, 14}, {40, 5, 6}, {1, 61, 9}};

static void fill(float *p, int64_t n, uint16_t stream, float centre)
{
	const struct sl_rng_key key = {3, 0, stream, SL_RNG_TEST};

	for (int64_t i = 0; i < n; i++)
		p[i] = centre + 2.0f * sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 1.0f;
}

static float *floats(int64_t n)
{
	float *p = malloc((size_t)n * sizeof *p);

	assert_non_null(p);
	memset(p, 0xff, (size_t)n * sizeof *p); /* NaN, so that reads before a write are noticed */
	return p;
}

static struct sl_op conv_op(const struct conv_case *c, struct sl_shape in)
{
	int in_c = (int)in.dim[3], out_c = c->depthwise ? in_c : c->out_c;
	struct sl_op op = {.kind = SL_OP_CONV2D,
			   .n_in = 1,
			   .in_shape = {in},
			   .u.conv = {in_c, out_c, c->k, c->k, c->stride, c->pad, c->depthwise ? in_c : 1, c->bias}};

	assert_int_equal(sl_op_infer_shape(&op, NULL), SL_OK);
	return op;
}

static struct chain chain_of(const struct conv_case *front, const struct conv_case *behind, const int64_t size[3],
			     enum sl_act act)
{
	struct chain c;

	c.op[FRONT] = conv_op(front, sl_shape4(size[0], size[1], size[2], front->in_c));
	c.op[NORM] = (struct sl_op){.kind = SL_OP_BATCHNORM,
				    .n_in = 1,
				    .in_shape = {c.op[FRONT].out_shape},
				    .u.bn = {(int)c.op[FRONT].out_shape.dim[3], 1e-5f, 0.1f, act}};
	assert_int_equal(sl_op_infer_shape(&c.op[NORM], NULL), SL_OK);
	c.op[BEHIND] = conv_op(behind, c.op[NORM].out_shape);
	c.stem = front->in_c < 17;
	c.centre = 0.2f;
	return c;
}

static int64_t param_count(const struct sl_op *op, int i)
{
	const struct sl_conv_attr *a = &op->u.conv;

	if (op->kind == SL_OP_BATCHNORM)
		return op->u.bn.c;
	return i > 0 ? a->out_c : (int64_t)a->kh * a->kw * a->in_c * (sl_op_is_depthwise(op) ? 1 : a->out_c);
}

static int params_of(const struct sl_op *op)
{
	return op->kind == SL_OP_BATCHNORM ? 4 : op->kind == SL_OP_ACT ? 0 : op->u.conv.bias ? 2 : 1;
}

/* All results of a run: y, dx, gradients of all parameters, running statistics. */
struct results {
	float *at[RESULTS];
	int64_t count[RESULTS];
	int n;
};

struct run {
	struct sl_backend *be;
	const struct chain *chain;
	struct sl_op_call call[OPS];
	float *value[VALUES], *grad[VALUES];
};

static void open_op(struct run *r, int i, bool training)
{
	const struct sl_op *op = &r->chain->op[i];
	struct sl_op_prepare p = {.be = r->be, .op = op};
	struct sl_op_call *c = &r->call[i];

	if (r->be->ops->kernel[op->kind]->prepare != NULL)
		assert_int_equal(r->be->ops->kernel[op->kind]->prepare(&p), SL_OK);
	*c = (struct sl_op_call){.be = r->be, .op = op, .training = training};
	c->saved = floats((int64_t)(p.sizes.saved_bytes / sizeof(float)) + 1);
	c->workspace = floats((int64_t)(p.sizes.workspace_bytes / sizeof(float)) + 1);
	for (int k = 0; k < params_of(op); k++) {
		c->param[k] = floats(param_count(op, k));
		fill(c->param[k], param_count(op, k), (uint16_t)(16 * i + k), i == NORM && k == 3 ? 1.5f : 0.1f);
		if (i == NORM && k > 1)
			continue;
		c->grad[k] = floats(param_count(op, k));
		memset(c->grad[k], 0, (size_t)param_count(op, k) * sizeof(float));
	}
}

static struct sl_tensor tensor(struct sl_shape shape, float *data)
{
	return (struct sl_tensor){SL_F32, shape, data, NULL};
}

static void forward(struct run *r, int i, float *in, float *out)
{
	struct sl_op_call *c = &r->call[i];

	c->in[0] = tensor(c->op->in_shape[0], in);
	c->out = tensor(c->op->out_shape, out);
	assert_int_equal(r->be->ops->kernel[c->op->kind]->forward(c), SL_OK);
}

static void backward(struct run *r, int i, float *in, float *out, float *dout, float *din)
{
	struct sl_op_call *c = &r->call[i];

	c->in[0] = tensor(c->op->in_shape[0], in);
	c->out = tensor(c->op->out_shape, out);
	c->dout = tensor(c->op->out_shape, dout);
	c->din[0] = tensor(c->op->in_shape[0], din);
	assert_int_equal(r->be->ops->kernel[c->op->kind]->backward(c), SL_OK);
}

/* `way` combines `post` of the convolution in front and `pre` of the one behind. */
static void pass_both(struct run *r, struct sl_exec_form way)
{
	const bool front = way.post != SL_POST_NONE, behind = way.pre != SL_PRE_NONE, whole = way.post == SL_POST_WHOLE;
	const bool runs = !whole && (!front || !behind);
	float **v = r->value, **g = r->grad, *din = r->chain->stem ? NULL : g[0];

	r->call[FRONT].form.post = way.post;
	r->call[FRONT].post = front ? &r->call[NORM] : NULL;
	r->call[NORM].form.half = front ? SL_HALF_APPLY : behind ? SL_HALF_STATS : SL_HALF_BOTH;
	r->call[BEHIND].form.pre = way.pre;
	r->call[BEHIND].pre = behind ? &r->call[NORM] : NULL;
	forward(r, FRONT, v[0], whole ? v[2] : v[1]);
	if (runs)
		forward(r, NORM, v[1], behind ? NULL : v[2]);
	forward(r, BEHIND, behind ? v[1] : v[2], v[3]);
	backward(r, BEHIND, behind ? v[1] : v[2], NULL, g[3], g[2]);
	if (runs)
		backward(r, NORM, v[1], NULL, g[2], front ? NULL : g[1]);
	backward(r, FRONT, v[0], whole ? v[2] : v[1], front ? g[2] : g[1], din);
}

static void keep(struct results *to, float *p, int64_t count)
{
	assert_true(to->n < RESULTS);
	to->at[to->n] = p;
	to->count[to->n++] = count;
}

static struct results run_chain(struct sl_backend *be, const struct chain *chain, bool training,
				struct sl_exec_form way)
{
	struct run r = {.be = be, .chain = chain};
	struct results out = {.n = 0};

	for (int i = 0; i < VALUES; i++) {
		const struct sl_op *op = &chain->op[i < OPS ? i : OPS - 1];
		int64_t n = sl_shape_count(i < OPS ? &op->in_shape[0] : &op->out_shape);

		r.value[i] = floats(n);
		r.grad[i] = floats(n);
		if (i == 0)
			fill(r.value[i], n, 100, chain->centre);
		if (i == OPS)
			fill(r.grad[i], n, 101, 0.0f);
	}
	for (int i = 0; i < OPS; i++)
		open_op(&r, i, training);
	pass_both(&r, way);
	if (training)
		assert_int_equal(be->ops->kernel[SL_OP_BATCHNORM]->commit(&r.call[NORM]), SL_OK);
	keep(&out, r.value[OPS], sl_shape_count(&chain->op[BEHIND].out_shape));
	if (chain->stem)
		free(r.grad[0]);
	else
		keep(&out, r.grad[0], sl_shape_count(&chain->op[FRONT].in_shape[0]));
	/* not the bias in front, whose gradient is zero except for rounding */
	keep(&out, r.call[FRONT].grad[0], param_count(&chain->op[FRONT], 0));
	keep(&out, r.call[NORM].grad[0], param_count(&chain->op[NORM], 0));
	keep(&out, r.call[NORM].grad[1], param_count(&chain->op[NORM], 1));
	for (int k = 0; k < params_of(&chain->op[BEHIND]); k++)
		keep(&out, r.call[BEHIND].grad[k], param_count(&chain->op[BEHIND], k));
	keep(&out, r.call[NORM].param[2], param_count(&chain->op[NORM], 2));
	keep(&out, r.call[NORM].param[3], param_count(&chain->op[NORM], 3));
	for (int i = 0; i < OPS; i++) {
		free(r.call[i].saved);
		free(r.call[i].workspace);
		for (int k = 0; k < params_of(&chain->op[i]); k++)
			if (!(i == NORM && k > 1))
				free(r.call[i].param[k]);
		free(i == FRONT ? r.call[i].grad[1] : NULL);
		free(r.value[i]);
		free(i > 0 ? r.grad[i] : NULL);
	}
	free(r.grad[OPS]);
	return out;
}

static void drop(struct results *r)
{
	for (int i = 0; i < r->n; i++)
		free(r->at[i]);
}

static void expect_near(const struct results *a, const struct results *b, double tolerance)
{
	for (int i = 0; i < a->n; i++) {
		double size = 1e-6, worst = 0;

		for (int64_t k = 0; k < a->count[i]; k++) {
			double off = fabs((double)a->at[i][k] - (double)b->at[i][k]);

			size = fmax(size, fabs((double)b->at[i][k]));
			worst = off > worst || isnan(off) ? off : worst;
		}
		if (!(worst <= tolerance * size))
			fail_msg("result %d is off by %g of %g", i, worst, size);
	}
}

static void expect_same(const struct results *a, const struct results *b)
{
	for (int i = 0; i < a->n; i++)
		assert_memory_equal(a->at[i], b->at[i], (size_t)a->count[i] * sizeof(float));
}

struct pair {
	struct sl_backend one, two; /* with one and two threads */
	struct sl_pool *pool;
};

static void compare(struct pair *p, const struct chain *chain, bool training)
{
	struct results plain = run_chain(&p->one, chain, training, (struct sl_exec_form){0});

	static const struct sl_exec_form ways[] = {{.pre = SL_PRE_NORM},
						   {.post = SL_POST_STATS},
						   {.pre = SL_PRE_NORM, .post = SL_POST_STATS},
						   {.post = SL_POST_WHOLE}};

	for (int i = 0; i < (chain->stem ? 4 : 3); i++) {
		struct results a = run_chain(&p->one, chain, training, ways[i]);
		struct results b = run_chain(&p->two, chain, training, ways[i]);

		expect_near(&a, &plain, 3e-5);
		expect_same(&a, &b);
		drop(&a);
		drop(&b);
	}
	drop(&plain);
}

static struct pair open_pair(void)
{
	struct pair p;

	assert_int_equal(sl_pool_open(&p.pool, 2, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&p.one, NULL, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&p.two, p.pool, NULL), SL_OK);
	return p;
}

static void close_pair(struct pair *p)
{
	p->one.ops->close(&p->one);
	p->two.ops->close(&p->two);
	sl_pool_close(p->pool);
}

/* Rows of x and y whose length is a power of two, few of them: kernels copy them to longer rows. */
static void rows_of_a_power_of_two(void **state)
{
	static const struct conv_case front = {96, 512, 1, 1, 0, false, true};
	static const int64_t size[] = {2, 7, 7};
	struct pair p = open_pair();

	for (int act = 0; act < SL_ACT_COUNT; act++) {
		struct chain c = chain_of(&front, &behinds[2], size, (enum sl_act)act);

		compare(&p, &c, true);
	}
	close_pair(&p);
}

/* Raw values, as from a sensor: the variance is far smaller than the squares that it is computed
 * from. Only the convolution's own rounding may remain. */
static void values_far_from_zero_keep_their_variance(void **state)
{
	static const struct conv_case far[] = {{3, 32, 3, 2, 0, false, false}, {1, 16, 5, 1, 0, false, false}};
	struct pair p = open_pair();

	for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
		struct chain c = chain_of(&far[i], &behinds[2], sizes[3], SL_ACT_RELU);
		struct results plain, whole;

		c.centre = 300;
		plain = run_chain(&p.one, &c, true, (struct sl_exec_form){0});
		whole = run_chain(&p.two, &c, true, (struct sl_exec_form){.post = SL_POST_WHOLE});
		expect_near(&whole, &plain, 1e-3);
		drop(&plain);
		drop(&whole);
	}
	close_pair(&p);
}

static void every_pair_of_convolutions(void **state)
{
	struct pair p = open_pair();

	for (size_t f = 0; f < sizeof fronts / sizeof *fronts; f++)
		for (size_t b = 0; b < sizeof behinds / sizeof *behinds; b++)
			for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
				for (int act = 0; act < SL_ACT_COUNT; act += 2) {
					struct chain c = chain_of(&fronts[f], &behinds[b], sizes[s], (enum sl_act)act);

					compare(&p, &c, true);
					if (s == 0)
						compare(&p, &c, false);
				}
	close_pair(&p);
}

/* An activation and a convolution, separate or fused, do the same arithmetic and must give the same
 * bits. The chain's op FRONT is the activation here; NORM is not used. */
static struct results run_activated(struct sl_backend *be, const struct chain *chain, bool fused)
{
	struct run r = {.be = be, .chain = chain};
	int64_t in = sl_shape_count(&chain->op[FRONT].in_shape[0]), out = sl_shape_count(&chain->op[BEHIND].out_shape);
	float *x = floats(in), *z = floats(in), *y = floats(out), *dy = floats(out), *dz = floats(in), *dx = floats(in);
	struct results left = {.n = 0};

	fill(x, in, 102, 0.2f);
	fill(dy, out, 103, 0.0f);
	open_op(&r, FRONT, true);
	open_op(&r, BEHIND, true);
	r.call[BEHIND].form.pre = fused ? SL_PRE_ACT : SL_PRE_NONE;
	r.call[BEHIND].pre = fused ? &r.call[FRONT] : NULL;
	if (!fused)
		forward(&r, FRONT, x, z);
	forward(&r, BEHIND, fused ? x : z, y);
	backward(&r, BEHIND, fused ? x : z, NULL, dy, fused ? dx : dz);
	if (!fused)
		backward(&r, FRONT, x, NULL, dz, dx);
	keep(&left, y, out);
	keep(&left, dx, in);
	keep(&left, r.call[BEHIND].grad[0], param_count(&chain->op[BEHIND], 0));
	free(x);
	free(z);
	free(dy);
	free(dz);
	for (int i = FRONT; i < OPS; i += BEHIND) {
		free(r.call[i].saved);
		free(r.call[i].workspace);
	}
	for (int k = 0; k < params_of(&chain->op[BEHIND]); k++) {
		free(r.call[BEHIND].param[k]);
		free(k > 0 ? r.call[BEHIND].grad[k] : NULL);
	}
	return left;
}

static void an_activation_rides_on_the_convolution_behind(void **state)
{
	struct sl_pool *pool;
	struct sl_backend one, two;

	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&one, NULL, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&two, pool, NULL), SL_OK);
	for (size_t b = 0; b < sizeof behinds / sizeof *behinds; b++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
			for (int act = SL_ACT_RELU; act < SL_ACT_COUNT; act++) {
				struct sl_shape in = sl_shape4(sizes[s][0], sizes[s][1], sizes[s][2], 32);
				struct chain c = {.stem = false};
				struct results plain, a, d;

				c.op[FRONT] = (struct sl_op){.kind = SL_OP_ACT,
							     .n_in = 1,
							     .in_shape = {in},
							     .out_shape = in,
							     .u.act = (enum sl_act)act};
				c.op[BEHIND] = conv_op(&behinds[b], in);
				plain = run_activated(&one, &c, false);
				a = run_activated(&one, &c, true);
				d = run_activated(&two, &c, true);
				expect_same(&a, &plain);
				expect_same(&d, &plain);
				drop(&plain);
				drop(&a);
				drop(&d);
			}
	one.ops->close(&one);
	two.ops->close(&two);
	sl_pool_close(pool);
}

/* What each convolution can fuse, as letters: N and A in front, S and W behind. */
static void kernels_say_what_they_take(void **state)
{
	const struct conv_case odd = {16, 0, 5, 1, 2, true, false};
	const struct {
		struct sl_op op;
		const char *takes;
	} cases[] = {
		{conv_op(&behinds[2], sl_shape4(1, 8, 8, 16)), "NAS"}, /* pointwise */
		{conv_op(&behinds[0], sl_shape4(1, 8, 8, 16)), "NAS"}, /* depthwise */
		{conv_op(&fronts[5], sl_shape4(1, 8, 8, 3)), "SW"},    /* a stem */
		{conv_op(&fronts[1], sl_shape4(1, 8, 8, 20)), "S"},    /* 3×3 with many channels */
		{conv_op(&odd, sl_shape4(1, 8, 8, 16)), ""},
	};
	const struct sl_op norm = {.kind = SL_OP_BATCHNORM};
	struct sl_backend be;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, NULL), SL_OK);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct sl_kernel *k = be.ops->kernel[SL_OP_CONV2D];
		char got[8];

		snprintf(got, sizeof got, "%s%s%s%s",
			 k->takes(&cases[i].op, (struct sl_exec_form){.pre = SL_PRE_NORM}) ? "N" : "",
			 k->takes(&cases[i].op, (struct sl_exec_form){.pre = SL_PRE_ACT}) ? "A" : "",
			 k->takes(&cases[i].op, (struct sl_exec_form){.post = SL_POST_STATS}) ? "S" : "",
			 k->takes(&cases[i].op, (struct sl_exec_form){.post = SL_POST_WHOLE}) ? "W" : "");
		assert_string_equal(got, cases[i].takes);
	}
	assert_true(be.ops->kernel[SL_OP_BATCHNORM]->takes(&norm, (struct sl_exec_form){.half = SL_HALF_STATS}));
	be.ops->close(&be);
}

/* Streaming stores write the same values as others, and nothing else: also for rows that are no
 * whole registers, or that begin unaligned. */
static void streamed_rows_are_the_stored_ones(void **state)
{
	enum { ROWS = 5, MOST = 48, GUARD = 16, FLOATS = ROWS * MOST + 2 * GUARD };
	_Alignas(64) float streamed[FLOATS], stored[FLOATS];
	float x[ROWS * MOST], mean[MOST], scale[MOST], shift[MOST];
	struct sl_cpu_bn n = {.mean = mean, .scale = scale, .shift = shift};

	fill(x, ROWS * MOST, 1, 0);
	fill(mean, MOST, 2, 0);
	fill(scale, MOST, 3, 1);
	fill(shift, MOST, 4, 2);
	for (int l = 0; sl_cpu_levels[l] != NULL; l++) {
		const struct sl_cpu_simd *simd = sl_cpu_levels[l]->simd;

		if (!sl_cpu_levels[l]->runs())
			continue;
		for (int c = 1; c <= MOST; c++) {
			for (int off = 0; off < 2; off++) {
				memset(streamed, 0x5a, sizeof streamed);
				memset(stored, 0x5a, sizeof stored);
				simd->bn_forward(stored + GUARD + off, x, &n, c, ROWS, c, SL_ACT_RELU6);
				simd->bn_forward_stream(streamed + GUARD + off, x, &n, ROWS, c, SL_ACT_RELU6);
				simd->stream_end();
				assert_memory_equal(streamed, stored, sizeof stored);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_convolutions),
		cmocka_unit_test(values_far_from_zero_keep_their_variance),
		cmocka_unit_test(rows_of_a_power_of_two),
		cmocka_unit_test(an_activation_rides_on_the_convolution_behind),
		cmocka_unit_test(kernels_say_what_they_take),
		cmocka_unit_test(streamed_rows_are_the_stored_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
