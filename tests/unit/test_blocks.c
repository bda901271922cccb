/* A linear layer and the cross-entropy behind it, computed for a block of rows at a time, so that only a block's
 * logits are in memory. Compared with the separate ops on tests/ref and with numeric differences, for blocks of
 * one row up to all rows, and for 1 to 4 threads. Guard words stand around all memory of the executor. */
#include <math.h>

#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/exec/rewrite.h"
#include "common/graph/graph_text.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/unit.h"

enum { ROWS = 7, H = 5, V = 20003, GUARD = 64, AREAS = 64 }; /* three pieces of a row, the last of odd length */

/* ---- memory between guards */

static struct sl_backend_ops guarded;
static enum sl_err (*real_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
static void (*real_free)(struct sl_backend *be, void *ptr);
static struct {
	unsigned char *at;
	size_t bytes;
} area[AREAS];

static enum sl_err guard_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	int i = 0;

	while (area[i].at)
		i++;
	assert_in_range(i, 0, AREAS - 1);
	assert_int_equal(real_alloc(be, bytes + 2 * (size_t)GUARD, (void **)&area[i].at, fail), SL_OK);
	memset(area[i].at, 0x5a, GUARD);
	memset(area[i].at + GUARD + bytes, 0x5a, GUARD);
	area[i].bytes = bytes;
	*out = area[i].at + GUARD;
	return SL_OK;
}

static void guard_free(struct sl_backend *be, void *ptr)
{
	for (int i = 0; i < AREAS; i++) {
		if (!area[i].at || area[i].at + GUARD != ptr)
			continue;
		for (int k = 0; k < GUARD; k++)
			assert_true(area[i].at[k] == 0x5a && area[i].at[GUARD + area[i].bytes + (size_t)k] == 0x5a);
		real_free(be, area[i].at);
		area[i].at = NULL;
		return;
	}
	fail_msg("memory that was never given out");
}

/* ---- a tail with one such layer */

struct how {
	const char *backend;
	int threads;
	size_t logit_bytes;
	bool apart;  /* an op between the two keeps them from being joined */
	bool frozen; /* the layer's weight is frozen */
	const char *smoothing;
	bool mixed, weighted, ignores, eval;
};

struct result {
	double loss;
	int64_t correct;
	float dh[ROWS * H], *grad, *logits;
	int64_t trainable;
	size_t busy; /* bytes of slots and scratch */
};

struct data {
	float h[ROWS * H], w[V * H], b[V], weight[V], share[ROWS];
	int32_t label[ROWS], other[ROWS];
};

static float drawn(uint64_t i, uint16_t stream)
{
	const struct sl_rng_key key = {5, 0, stream, SL_RNG_TEST};

	return 2 * sl_rng_unit(sl_rng_u32(&key, i)) - 1;
}

static struct data *made(void)
{
	struct data *d = calloc(1, sizeof *d);

	assert_non_null(d);
	for (int i = 0; i < ROWS * H; i++)
		d->h[i] = 3 * drawn((uint64_t)i, 0);
	for (int i = 0; i < V * H; i++)
		d->w[i] = 2 * drawn((uint64_t)i, 1);
	for (int i = 0; i < V; i++) {
		d->b[i] = drawn((uint64_t)i, 2);
		d->weight[i] = 1.5f + drawn((uint64_t)i, 3);
	}
	for (int i = 0; i < ROWS; i++) {
		d->label[i] = i == 0 ? 0 : i == 1 ? V - 1 : 8190 + 3 * i;
		d->other[i] = 77 * i;
		d->share[i] = 0.3f + 0.1f * (float)i;
	}
	/* In row 2 the label has the largest logit. In row 3 an
	 * earlier word (12) has the same logit as the label. */
	for (int k = 0; k < H; k++) {
		d->w[d->label[2] * H + k] = 9 * d->h[2 * H + k];
		d->w[d->label[3] * H + k] = d->w[12 * H + k] = 9 * d->h[3 * H + k];
	}
	d->b[d->label[3]] = d->b[12];
	return d;
}

static struct sl_plan *planned(const struct how *how)
{
	const char *role = how->frozen ? " frozen" : "", *smoothing = how->smoothing ? how->smoothing : "";
	const struct sl_plan_spec spec = {.batch = ROWS, .chunks = 1};
	struct sl_plan *plan;
	struct sl_fail fail;
	struct sl_graph g;
	char text[512];
	int n = snprintf(
		text, sizeof text,
		"graph 1\nin mid_act f32 R[%d]\nin label i32 R[]\nparam w [%d,%d]%s zero\nparam b [%d]%s zero\n"
		"node a linear %%0 &0 &1\n%snode l xent %%%d %%1%s\nout loss %%%d\n",
		H, V, H, role, V, role, how->apart ? "node s scale %2\n" : "", how->apart ? 3 : 2, smoothing,
		how->apart ? 4 : 3);

	if (sl_graph_read(&g, text, (size_t)n, &fail) != SL_OK ||
	    sl_plan_open_part(&plan, &spec, SL_TAIL, &g, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

static void open_backend(struct sl_backend *be, struct sl_pool **pool, const struct how *how)
{
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(pool, how->threads ? how->threads : 1, &fail), SL_OK);
	if (strcmp(how->backend, "ref") == 0)
		assert_int_equal(sl_ref_backend_open(be, &fail), SL_OK);
	else
		assert_int_equal(sl_cpu_backend_open(be, *pool, &fail), SL_OK);
	be->logit_bytes = how->logit_bytes;
	guarded = *be->ops;
	real_alloc = guarded.alloc;
	real_free = guarded.free;
	guarded.alloc = guard_alloc;
	guarded.free = guard_free;
	be->ops = &guarded;
}

static void set_weights(struct sl_exec *exec, const struct data *d)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	float *range = calloc((size_t)s->weight_count, sizeof *range);

	assert_non_null(range);
	memcpy(range + s->param[0].offset, d->w, sizeof d->w);
	memcpy(range + s->param[1].offset, d->b, sizeof d->b);
	assert_int_equal(sl_exec_set_weights(exec, range), SL_OK);
	free(range);
}

static struct sl_exec_loss loss_of(const struct data *d, const struct how *how, float *logits)
{
	return (struct sl_exec_loss){.labels = d->label,
				     .other = how->mixed ? d->other : NULL,
				     .share = how->mixed ? d->share : NULL,
				     .weight = how->weighted ? d->weight : NULL,
				     .ignores = how->ignores,
				     .ignored = d->label[4],
				     .scale = 1.0f / ROWS,
				     .logits = logits};
}

static struct result run(const struct how *how, const struct data *d)
{
	struct result r = {0};
	struct sl_exec_call call = {.dims = sl_dims_rows(ROWS), .training = !how->eval};
	struct sl_exec_loss loss = loss_of(d, how, NULL);
	struct sl_plan *plan = planned(how);
	struct sl_exec_memory memory;
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_exec *exec;
	struct sl_fail fail;

	open_backend(&be, &pool, how);
	assert_int_equal(sl_exec_open(&exec, plan, SL_TAIL, &be, &fail), SL_OK);
	memory = sl_exec_memory(exec);
	set_weights(exec, d);
	assert_int_equal(sl_exec_begin(exec), SL_OK);
	memcpy(sl_exec_input(exec, 0, ROWS).data, d->h, sizeof d->h);
	r.trainable = plan->segment[SL_TAIL].trainable_count;
	r.grad = calloc((size_t)r.trainable + 1, sizeof *r.grad);
	loss.logits = r.logits = how->eval ? calloc((size_t)ROWS * V, sizeof *r.logits) : NULL;
	assert_int_equal(sl_exec_forward(exec, &call, &loss), SL_OK);
	if (!how->eval) {
		assert_int_equal(sl_exec_backward(exec, &call, &loss), SL_OK);
		memcpy(r.dh, sl_exec_din(exec, 0, ROWS).data, sizeof r.dh);
		assert_int_equal(sl_exec_get_gradients(exec, r.grad), SL_OK);
	}
	r.loss = loss.sum;
	r.correct = loss.correct;
	r.busy = memory.slots + memory.scratch;
	sl_exec_close(exec);
	sl_plan_close(plan);
	be.ops->close(&be);
	sl_pool_close(pool);
	return r;
}

static void drop(struct result *r)
{
	free(r->grad);
	free(r->logits);
}

static void near(const char *what, const float *got, const float *want, int64_t n)
{
	double norm = 0, off = 0;

	for (int64_t i = 0; i < n; i++) {
		norm += (double)want[i] * (double)want[i];
		off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
	}
	if (!(sqrt(off) <= 1e-5 * sqrt(norm)) || (norm == 0) != (n == 0))
		fail_msg("%s: off by %g of %g", what, sqrt(off), sqrt(norm));
}

static void compare(const struct result *got, const struct result *want)
{
	if (!(fabs(got->loss - want->loss) <= 1e-6 * fabs(want->loss)))
		fail_msg("the loss is %.9g, not %.9g", got->loss, want->loss);
	assert_int_equal(got->correct, want->correct);
	assert_int_equal(got->trainable, want->trainable);
	if (want->logits) {
		near("logits", got->logits, want->logits, (int64_t)ROWS * V);
	} else {
		near("dh", got->dh, want->dh, ROWS * H);
		near("gradients", got->grad, want->grad, want->trainable);
	}
}

/* The bytes of the logits of that many rows. */
static size_t rows_of(int rows)
{
	return (size_t)rows * V * sizeof(float);
}

/* ---- tests */

static const struct how forms[] = {
	{.backend = "cpu"},
	{.backend = "cpu", .frozen = true},
	{.backend = "cpu", .smoothing = " smoothing=0.1"},
	{.backend = "cpu", .mixed = true, .smoothing = " smoothing=0.1"},
	{.backend = "cpu", .weighted = true},
	{.backend = "cpu", .ignores = true},
	{.backend = "cpu", .eval = true},
};

static void blocks_compute_what_the_two_ops_do(void **state)
{
	static const size_t bytes[] = {1, 3 * V * sizeof(float), ROWS * V * sizeof(float), 0};
	struct data *d = made();

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		struct how how = forms[i];
		struct result want, got;

		how.backend = "ref";
		how.apart = true;
		want = run(&how, d);
		assert_true(isfinite(want.loss) && want.loss > 1 && want.correct == 1);
		how.apart = false;
		for (int k = 0; k < 2 * (int)(sizeof bytes / sizeof bytes[0]); k++) {
			how.backend = k % 2 ? "cpu" : "ref";
			how.threads = 2;
			how.logit_bytes = bytes[k / 2];
			got = run(&how, d);
			compare(&got, &want);
			drop(&got);
		}
		drop(&want);
	}
	free(d);
}

/* The result is the same for any number of threads. A row's gradient has the same bits for any size of block. */
static void threads_and_blocks_change_no_bit(void **state)
{
	struct data *d = made();

	for (int rows = 1; rows <= ROWS; rows += 2) {
		struct how how = {.backend = "cpu", .threads = 1, .logit_bytes = rows_of(rows)};
		struct result one = run(&how, d), all;

		for (how.threads = 2; how.threads <= 4; how.threads++) {
			struct result got = run(&how, d);

			assert_true(got.loss == one.loss && got.correct == one.correct);
			assert_memory_equal(got.dh, one.dh, sizeof one.dh);
			assert_memory_equal(got.grad, one.grad, (size_t)one.trainable * sizeof *one.grad);
			drop(&got);
		}
		how.logit_bytes = rows_of(ROWS);
		all = run(&how, d);
		assert_memory_equal(all.dh, one.dh, sizeof one.dh);
		drop(&all);
		drop(&one);
	}
	free(d);
}

static double loss_at(const struct how *how, struct data *d, float *x, float to)
{
	const float kept = *x;
	struct result r;

	*x = to;
	r = run(how, d);
	*x = kept;
	drop(&r);
	return r.loss;
}

static void slope_is(const struct how *how, struct data *d, float *x, float got)
{
	const float step = 0x1p-6f;
	const double want = (loss_at(how, d, x, *x + step) - loss_at(how, d, x, *x - step)) / (2 * (double)step) / ROWS;

	if (!(fabs(want - (double)got) <= 2e-4 + 2e-3 * fabs(want)))
		fail_msg("%g, not %g as differences have it", (double)got, want);
}

static void gradients_are_numeric_differences(void **state)
{
	const struct how how = {.backend = "ref", .logit_bytes = rows_of(3)};
	struct data *d = made();
	struct result r = run(&how, d);
	const int word[] = {0, 12, d->label[2], d->label[5], V - 1};
	const int64_t bias = r.trainable - (V + 15) / 16 * 16;

	for (int i = 0; i < ROWS * H; i += 4)
		slope_is(&how, d, &d->h[i], r.dh[i]);
	for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
		slope_is(&how, d, &d->w[word[i] * H + 2], r.grad[word[i] * H + 2]);
		slope_is(&how, d, &d->b[word[i]], r.grad[bias + word[i]]);
	}
	drop(&r);
	free(d);
}

static void memory_is_that_of_a_block(void **state)
{
	struct data *d = made();
	struct result apart = run(&(struct how){.backend = "cpu", .apart = true}, d);
	struct result one = run(&(struct how){.backend = "cpu", .logit_bytes = 1}, d);
	struct result two = run(&(struct how){.backend = "cpu", .logit_bytes = rows_of(2)}, d);

	assert_true(apart.busy > one.busy + rows_of(2 * ROWS)); /* apart: logits, softmax and gradient of all rows */
	assert_int_equal(two.busy - one.busy, rows_of(2) / 64 * 64 - rows_of(1) / 64 * 64);
	drop(&apart);
	drop(&one);
	drop(&two);
	free(d);
}

static void what_is_no_number_shows_in_the_loss(void **state)
{
	struct data *d = made();

	for (int i = 0; i < ROWS * H; i++) {
		const float was = d->h[i];
		struct result r;

		d->h[i] = NAN;
		r = run(&(struct how){.backend = "cpu"}, d);
		assert_false(isfinite(r.loss));
		assert_in_range(r.correct, 0, 1); /* the row with the NaN does not count as correct */
		d->h[i] = was;
		drop(&r);
	}
	for (int k = 0; k < 2; k++) {
		struct result r;

		d->b[V / 2] = k ? NAN : INFINITY;
		r = run(&(struct how){.backend = "cpu"}, d);
		assert_false(isfinite(r.loss));
		drop(&r);
	}
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_compute_what_the_two_ops_do),
		cmocka_unit_test(threads_and_blocks_change_no_bit),
		cmocka_unit_test(gradients_are_numeric_differences),
		cmocka_unit_test(memory_is_that_of_a_block),
		cmocka_unit_test(what_is_no_number_shows_in_the_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
