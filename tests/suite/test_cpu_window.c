/* A window along the depth that the convolution behind it reads in place (SL_PRE_WINDOW), on the CPU backend. y, dW and
 * dbias have the bits of the two ops one after the other; dX is summed in another order. Two threads give the bits of
 * one. Nothing beyond the workspace is written. */
#include <math.h>
#include <stdlib.h>

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/unit.h"

enum { GUARD = 64 };
static const double largest = 1e-5; /* difference, beside the largest number */

struct window_case {
	int n, d, h, w, c;
	struct sl_window_attr window;
	struct sl_conv_attr conv; /* in_c counts the window's parts */
};

#define CONV(in, out, k, stride, pad, bias, dilation)         \
	{                                                     \
		in, out, k, k, stride, pad, 1, bias, dilation \
	}
static const struct window_case cases[] = {
	/* Winograd */
	{2, 5, 9, 11, 16, {3, 1, 1, 1, 0}, CONV(48, 16, 3, 1, 1, true, 1)},
	{1, 3, 8, 8, 33, {3, 1, 1, 1, 0}, CONV(99, 40, 3, 1, 1, false, 1)},
	{1, 1, 6, 7, 20, {3, 1, 1, 1, 0}, CONV(60, 17, 3, 1, 1, true, 1)},
	{2, 7, 5, 4, 6, {5, 1, 2, 1, 0}, CONV(30, 24, 3, 1, 1, false, 1)},
	{1, 6, 9, 5, 16, {3, 1, 2, 2, 0}, CONV(48, 16, 3, 1, 1, true, 1)},
	{1, 3, 7, 7, 8, {2, 1, 0, 1, 0}, CONV(16, 64, 3, 1, 1, true, 1)},    /* fewer slices out: not in place */
	{1, 4, 9, 6, 60, {3, 1, 1, 1, 0}, CONV(180, 168, 3, 1, 1, true, 1)}, /* rounds of large weights */
	{1, 2, 4, 5, 60, {3, 1, 1, 1, 0}, CONV(180, 168, 3, 1, 1, true, 1)}, /* U is made in the cache */
	{2, 3, 7, 9, 43, {3, 1, 1, 1, 0}, CONV(129, 120, 3, 1, 1, false, 1)},
	{1, 2, 7, 9, 8, {2, 1, 1, 2, 0}, CONV(16, 200, 3, 1, 1, false, 1)},
	/* rows */
	{2, 5, 9, 11, 4, {3, 1, 1, 1, 0}, CONV(12, 33, 3, 1, 1, true, 1)},
	{1, 6, 8, 9, 1, {7, 2, 3, 1, 0}, CONV(7, 16, 7, 2, 3, true, 1)},
	{2, 7, 9, 8, 17, {3, 2, 1, 1, 0}, CONV(51, 40, 3, 2, 1, false, 1)},
	{1, 5, 6, 6, 20, {2, 2, 0, 1, 0}, CONV(40, 24, 2, 2, 0, true, 1)},
	{1, 4, 5, 6, 3, {2, 3, 4, 2, 0}, CONV(6, 8, 5, 1, 0, true, 1)},
	/* products over blocks */
	{2, 5, 9, 11, 7, {3, 1, 2, 2, 0}, CONV(21, 12, 3, 1, 2, true, 2)},
	{1, 5, 9, 5, 64, {3, 2, 1, 1, 0}, CONV(192, 160, 3, 2, 1, false, 1)},
	{2, 4, 5, 7, 24, {3, 1, 1, 1, 0}, CONV(72, 16, 1, 1, 0, true, 1)},
	{1, 7, 6, 5, 17, {3, 2, 1, 1, 0}, CONV(51, 9, 1, 2, 0, false, 1)},
};

struct results {
	float *y, *dx, *dw, *db;
	int64_t ys, dxs, dws, dbs;
};

static float *drawn(int64_t n, uint16_t stream, bool empty)
{
	const struct sl_rng_key key = {3, 0, stream, SL_RNG_TEST};
	float *p = malloc((size_t)(n + GUARD) * sizeof *p);

	assert_non_null(p);
	memset(p, 0xff, (size_t)(n + GUARD) * sizeof *p); /* NaN: a read before a write is noticed */
	for (int64_t i = 0; i < n && !empty; i++)
		p[i] = 2.0f * sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.8f;
	return p;
}

static void expect_guard(const float *p, int64_t n)
{
	for (size_t i = 0; i < GUARD * sizeof *p; i++)
		assert_int_equal(((const unsigned char *)(p + n))[i], 0xff);
}

static struct sl_op window_of(const struct window_case *c)
{
	struct sl_op op = {.kind = SL_OP_WINDOW, .n_in = 1, .slices = c->d, .u.window = c->window, .most = 1};

	op.in_shape[0] = sl_shape4(c->n, (int64_t)c->d * c->h, c->w, c->c);
	assert_int_equal(sl_op_infer_shape(&op, NULL), SL_OK);
	return op;
}

static struct sl_op conv_of(const struct window_case *c, const struct sl_op *window)
{
	struct sl_op op = {.kind = SL_OP_CONV2D, .n_in = 1, .u.conv = c->conv, .most = 1};

	op.slices = (int)(window->out_shape.dim[1] / c->h);
	op.in_shape[0] = sl_shape4((int64_t)c->n * op.slices, c->h, c->w, c->conv.in_c);
	assert_int_equal(sl_op_infer_shape(&op, NULL), SL_OK);
	return op;
}

static void run(struct sl_backend *be, const struct sl_op *op, struct sl_exec_form form, struct sl_op_call *call)
{
	const struct sl_kernel *kernel = be->ops->kernel[op->kind];
	struct sl_op_prepare p = {.be = be, .op = op, .form = form};
	int64_t work;

	if (kernel->prepare)
		assert_int_equal(kernel->prepare(&p), SL_OK);
	work = (int64_t)(p.sizes.workspace_bytes / sizeof(float));
	call->be = be;
	call->op = op;
	call->form = form;
	call->training = true;
	call->workspace = drawn(work, 0, true);
	call->saved = drawn((int64_t)(p.sizes.saved_bytes / sizeof(float)), 0, true);
	assert_int_equal((call->dout.data ? kernel->backward : kernel->forward)(call), SL_OK);
	expect_guard(call->workspace, work);
	free(call->workspace);
	free(call->saved);
}

static struct sl_tensor tensor(struct sl_shape shape, float *data)
{
	return (struct sl_tensor){SL_F32, shape, data, NULL};
}

static void along(struct sl_backend *be, const struct sl_op *op, float *x, float *y, bool back)
{
	struct sl_op_call c = {.in = {tensor(op->in_shape[0], x)}, .out = tensor(op->out_shape, y)};

	if (back)
		c = (struct sl_op_call){
			.din = {tensor(op->in_shape[0], x)}, .dout = tensor(op->out_shape, y), .din_add = {true}};
	run(be, op, (struct sl_exec_form){0}, &c);
}

/* dX is added to numbers that are there. */
static struct results step(struct sl_backend *be, const struct window_case *c, bool in_place)
{
	const struct sl_op window = window_of(c), conv = conv_of(c, &window);
	const struct sl_exec_form form = {.pre = in_place ? SL_PRE_WINDOW : SL_PRE_NONE,
					  .window = in_place ? &window : NULL};
	const int64_t wide = sl_shape_count(&window.out_shape);
	struct results r = {.ys = sl_shape_count(&conv.out_shape),
			    .dxs = sl_shape_count(&window.in_shape[0]),
			    .dws = (int64_t)c->conv.out_c * c->conv.kh * c->conv.kw * c->conv.in_c,
			    .dbs = c->conv.out_c};
	float *x = drawn(r.dxs, 1, false), *dy = drawn(r.ys, 2, false), *w = drawn(r.dws, 3, false);
	float *b = drawn(r.dbs, 4, false), *s = drawn(wide, 0, true), *ds = drawn(wide, 0, true);
	struct sl_op_call call = {.in = {tensor(conv.in_shape[0], in_place ? x : s)}, .param = {w, b}};

	r.y = drawn(r.ys, 0, true);
	r.dx = drawn(r.dxs, 5, false);
	r.dw = drawn(r.dws, 6, false);
	r.db = drawn(r.dbs, 7, false);
	if (!in_place)
		along(be, &window, x, s, false);
	call.out = tensor(conv.out_shape, r.y);
	run(be, &conv, form, &call);
	call.out.data = NULL;
	call.dout = tensor(conv.out_shape, dy);
	call.din[0] = tensor(conv.in_shape[0], in_place ? r.dx : ds);
	call.din_add[0] = in_place;
	call.grad[0] = r.dw;
	call.grad[1] = r.db;
	run(be, &conv, form, &call);
	if (!in_place)
		along(be, &window, r.dx, ds, true);
	expect_guard(r.y, r.ys);
	expect_guard(r.dx, r.dxs);
	expect_guard(r.dw, r.dws);
	free(x);
	free(dy);
	free(w);
	free(b);
	free(s);
	free(ds);
	return r;
}

static void drop(struct results *r)
{
	free(r->y);
	free(r->dx);
	free(r->dw);
	free(r->db);
}

static void expect_near(const float *a, const float *b, int64_t n)
{
	double most = 0, off = 0;

	for (int64_t i = 0; i < n; i++) {
		const double e = fabs((double)a[i] - (double)b[i]);

		most = fmax(most, fabs((double)b[i]));
		off = e > off || isnan(e) ? e : off;
	}
	assert_true(off <= largest * most);
}

static void expect_same(const float *a, const float *b, int64_t n)
{
	assert_memory_equal(a, b, (size_t)n * sizeof *a);
}

/* Single voxels in the plane: dW without a copy of the patches is summed over other blocks. */
static void compare(const struct window_case *c, const struct results *got, const struct results *want)
{
	const bool single = c->conv.kh == 1 && c->conv.stride == 1;

	expect_same(got->y, want->y, want->ys);
	(single ? expect_near : expect_same)(got->dw, want->dw, want->dws);
	(single ? expect_near : expect_same)(got->db, want->db, want->dbs);
	expect_near(got->dx, want->dx, want->dxs);
}

static void compare_threads(const struct results *got, const struct results *want)
{
	expect_same(got->y, want->y, want->ys);
	expect_same(got->dw, want->dw, want->dws);
	expect_same(got->db, want->db, want->dbs);
	expect_same(got->dx, want->dx, want->dxs);
}

static bool takes(struct sl_backend *be, const struct window_case *c)
{
	const struct sl_op window = window_of(c), conv = conv_of(c, &window);

	return be->ops->kernel[SL_OP_CONV2D]->takes(&conv, (struct sl_exec_form){SL_PRE_WINDOW, .window = &window});
}

static void slices_are_read_where_they_are(void **state)
{
	struct sl_backend one, two;
	struct sl_pool *pool;
	int taken = 0;

	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&one, NULL, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&two, pool, NULL), SL_OK);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct results apart, in_place, threads;

		if (!takes(&one, &cases[i]))
			continue;
		taken++;
		apart = step(&one, &cases[i], false);
		in_place = step(&one, &cases[i], true);
		threads = step(&two, &cases[i], true);
		compare(&cases[i], &in_place, &apart);
		compare_threads(&threads, &in_place);
		drop(&apart);
		drop(&in_place);
		drop(&threads);
	}
	assert_int_equal(taken, (int)(sizeof cases / sizeof *cases) - 1);
	one.ops->close(&one);
	two.ops->close(&two);
	sl_pool_close(pool);
}

/* A kernel in groups reads its own channels of each part; no convolution in place of a window does. */
static void other_convolutions_take_no_window(void **state)
{
	struct window_case c = {1, 3, 5, 5, 8, {3, 1, 1, 1, 0}, {24, 24, 3, 3, 1, 1, 24, false, 1}};
	struct sl_backend be;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, NULL), SL_OK);
	assert_false(takes(&be, &c)); /* depthwise */
	c.conv.groups = 2;
	assert_false(takes(&be, &c));
	c.conv.groups = 1;
	assert_true(takes(&be, &c));
	be.ops->close(&be);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_are_read_where_they_are),
		cmocka_unit_test(other_convolutions_take_no_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
