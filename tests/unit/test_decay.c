/* Decaying inserts: the schedule, the L1 pull, the weights that are dropped; and
 * that a step through the live part computes the same as a plain narrow insert. */

#include <math.h>

#include "common/base/rng.h"
#include "tests/support/local_gradients.h"
#include "tests/support/local_run.h"
#include "tests/support/unit.h"

/* ---- the schedule */

static void assert_widths(const struct sl_decay *d, const int *want, double rate)
{
	int width[SL_DECAY_MAX_TIMES + 1];

	assert_int_equal(sl_decay_widths(d, width), d->times + 1);
	assert_memory_equal(width, want, (size_t)(d->times + 1) * sizeof *want);
	assert_true(fabs((double)width[d->times] / d->full - rate) < 0.005);
}

/* The widths of RoBERTa's 768 features at rates 0.9 (0.9^9 =
 * 0.387) and 0.83 (0.83^5 = 0.394). Each step rounds down. */
static void published_widths(void **state)
{
	static const int nine[] = {768, 691, 621, 558, 502, 451, 405, 364, 327, 294};
	static const int five[] = {768, 637, 528, 438, 363, 301};
	static const int ones[] = {3, 1, 1, 1};

	assert_widths(&(struct sl_decay){.full = 768, .times = 9, .every = 300, .rate = 0.9}, nine, 0.387);
	assert_widths(&(struct sl_decay){.full = 768, .times = 5, .every = 500, .rate = 0.83}, five, 0.394);
	assert_widths(&(struct sl_decay){.full = 3, .times = 3, .every = 1, .rate = 0.5}, ones, 1.0 / 3);
}

static void when_it_falls(void **state)
{
	const struct sl_decay none = {0}, d = {.full = 100, .times = 3, .every = 10, .rate = 0.5};
	struct sl_decay late = d;

	late.from = 15;
	assert_int_equal(sl_decay_width(&d, 0), 100);
	assert_int_equal(sl_decay_width(&d, 9), 100);
	assert_int_equal(sl_decay_width(&d, 10), 50);
	assert_int_equal(sl_decay_width(&d, 29), 25);
	assert_int_equal(sl_decay_width(&d, 30), 12);
	assert_int_equal(sl_decay_width(&d, UINT64_MAX), 12);
	assert_int_equal(sl_decay_width(&late, 4), 50);
	assert_int_equal(sl_decay_width(&late, 5), 25);
	assert_int_equal(sl_decay_width(&late, UINT64_MAX - 1), 12);
	assert_int_equal(sl_decay_width(&none, 7), 0);
}

static void advancing(void **state)
{
	static const char text[] = "conv:3+decaylinear:rate=0.5,every=10,times=3,from=5";
	static const struct {
		int64_t steps;
		const char *want;
	} row[] = {
		{0, "conv:3+decaylinear:rate=0.5,every=10,times=3,from=5"},
		{12, "conv:3+decaylinear:rate=0.5,every=10,times=3,from=17"},
		{25, "conv:3+decaylinear:rate=0.5,every=10,times=3,from=30"},
		{INT64_MAX, "conv:3+decaylinear:rate=0.5,every=10,times=3,from=30"},
	};
	char out[SL_INSERT_TEXT];
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		assert_int_equal(sl_insert_advance(text, false, row[i].steps, out, &fail), SL_OK);
		assert_string_equal(out, row[i].want);
	}
	assert_int_equal(sl_insert_advance("conv:3", false, INT64_MAX, out, &fail), SL_OK);
	assert_string_equal(out, "conv:3");
}

/* ---- a network with a decaying insert */

enum { TAIL = 24 };

static void run_open(struct local_run *r, bool ref, const char *head, const char *tail, struct sl_optimizer optimizer)
{
	local_run_open(
		r, &(struct local_run_conf){
			   .head = head, .tail = tail, .chunks = 2, .threads = 1, .ref = ref, .optimizer = optimizer});
}

static double evaluate(struct local_run *r, uint64_t *tx_bytes)
{
	const float *images;
	const int32_t *labels;
	struct sl_step_result result;
	struct sl_fail fail;

	local_run_batch(&images, &labels);
	assert_int_equal(sl_local_eval(r->local,
				       &(struct sl_feed){.input = images, .target = labels, .rows = LOCAL_ROWS}, 0,
				       &result, &fail),
			 SL_OK);
	*tx_bytes = result.tx_bytes;
	return result.loss;
}

static int find_param(const struct local_run *r, const char *name)
{
	for (int i = 0; i < r->plan->model->graph.n_param; i++)
		if (strcmp(r->plan->model->graph.param[i].name, name) == 0)
			return i;
	fail_msg("no parameter %s", name);
	return -1;
}

/* Adds random numbers to the insert's weights: with zeros, reads of the wrong weights would not be noticed. */
static void scatter(struct local_run *r, const char *name)
{
	int p = find_param(r, name);
	struct sl_rng_key key = {.seed = 5, .step = (uint64_t)p, .tensor = SL_RNG_TEST};
	int64_t n = sl_shape_count(&r->plan->model->graph.param[p].shape);

	for (int64_t i = 0; i < n; i++)
		r->weights.value[p][i] += 0.2f * (2 * sl_rng_unit(sl_rng_u32(&key, (uint32_t)i)) - 1);
}

/* The gradient of a parameter after a step. The caller frees it. */
static float *gradient_of(struct local_run *r, enum sl_segment which, const char *name)
{
	const struct sl_plan_segment *s = &r->plan->segment[which];
	float *all = malloc((size_t)s->trainable_count * sizeof *all), *one = NULL;
	int p = find_param(r, name);

	assert_non_null(all);
	assert_int_equal(local_gradients(r->local, which, all), SL_OK);
	for (int i = 0; i < s->n_param; i++)
		if (s->param[i].model_param == p) {
			one = malloc((size_t)s->param[i].count * sizeof *one);
			assert_non_null(one);
			memcpy(one, all + s->param[i].offset, (size_t)s->param[i].count * sizeof *one);
		}
	free(all);
	assert_non_null(one);
	return one;
}

#define SCHEDULE "conv:24+decaylinear:rate=0.5,every=1000,times=2,from=1000"
static const char *const first = "insert.tail.1.weight", *const second = "insert.tail.restore.1.weight";

static void open_scattered(struct local_run *r, bool ref, const char *tail)
{
	run_open(r, ref, "", tail, (struct sl_optimizer){0});
	scatter(r, first);
	scatter(r, second);
	r->weights.value[find_param(r, first)][7 * TAIL + 2] = 0;
	assert_int_equal(sl_local_set_weights(r->local, &r->weights, &(struct sl_fail){0}), SL_OK);
}

/* Of 24 features 12 are live, and 6 will be. Only rows 6 … 11 of both matrices (as
 * they lie in memory) are pulled towards zero, and weights that are zero are not. */
static void what_is_pulled(void **state)
{
	const float l1 = 0.125f;
	static const enum sl_segment at[2] = {SL_MIDDLE, SL_TAIL};
	const char *const name[2] = {first, second};
	struct local_run plain, pulled;

	open_scattered(&plain, false, SCHEDULE);
	open_scattered(&pulled, false, SCHEDULE ",l1=0.125");
	local_run_step(&plain, 0, 0);
	local_run_step(&pulled, 0, 0);
	for (int m = 0; m < 2; m++) {
		float *a = gradient_of(&plain, at[m], name[m]), *b = gradient_of(&pulled, at[m], name[m]);
		const float *w = plain.weights.value[find_param(&plain, name[m])];

		for (int i = 0; i < TAIL * TAIL; i++) {
			float want = i / TAIL < 6 || i / TAIL >= 12 || w[i] == 0 ? 0 : w[i] > 0 ? l1 : -l1;

			assert_true(fabsf(b[i] - a[i] - want) < 1e-6f);
			assert_true(want != 0 || a[i] == b[i]);
			assert_true(i / TAIL < 12 || (a[i] == 0 && b[i] == 0));
		}
		free(a);
		free(b);
	}
	local_run_close(&plain);
	local_run_close(&pulled);
}

/* Loss plus L1 term, with weight `at` of parameter p moved by `by`. */
static double objective(struct local_run *r, int p, int at, float by, double l1)
{
	float *w = r->weights.value[p], keep = w[at];
	double sum = 0;

	w[at] += by;
	assert_int_equal(sl_local_set_weights(r->local, &r->weights, &(struct sl_fail){0}), SL_OK);
	for (int m = 0; m < 2; m++) {
		const float *v = r->weights.value[find_param(r, m ? second : first)];

		for (int i = 6 * TAIL; i < 12 * TAIL; i++)
			sum += fabs((double)v[i]);
	}
	w[at] = keep;
	return local_run_step(r, 0, 0) + l1 * sum;
}

static void numeric_gradients(void **state)
{
	static const int rows[] = {0, 5, 6, 9, 11, 12, 20};
	const float eps = 0.01f;
	struct local_run r;

	open_scattered(&r, true, SCHEDULE ",l1=0.125");
	local_run_step(&r, 0, 0);
	for (int m = 0; m < 2; m++) {
		float *grad = gradient_of(&r, m ? SL_TAIL : SL_MIDDLE, m ? second : first);
		int p = find_param(&r, m ? second : first);

		for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
			int at = rows[k] * TAIL + (int)(7 * k + 3) % TAIL;
			double up = objective(&r, p, at, eps, 0.125), down = objective(&r, p, at, -eps, 0.125);
			double numeric = (up - down) / (2 * (double)eps);

			if (fabs((double)r.weights.value[p][at]) < 2 * (double)eps)
				continue; /* |w| has a kink there */
			if (fabs(numeric - (double)grad[at]) > 1e-3 + 0.02 * fabs(numeric))
				fail_msg("%s[%d]: %g, numeric %g", m ? second : first, at, (double)grad[at], numeric);
			assert_true(rows[k] < 6 || rows[k] >= 12 || fabs(numeric) > 0.02);
			assert_true(rows[k] < 12 || (numeric == 0 && grad[at] == 0));
		}
		free(grad);
	}
	local_run_close(&r);
}

/* Both cuts decay, and everything is on that could move a dropped weight: momentum, weight decay, L1. */
static void what_has_fallen_is_zero_with(struct sl_optimizer optimizer)
{
	static const char head[] = "decaylinear:rate=0.7,every=2,times=3,l1=0.01",
			  tail[] = "conv:24+decaylinear:rate=0.5,every=3,times=2,l1=0.01";
	static const struct {
		const char *name;
		int full, live;
	} param[] = {
		{"insert.head.0.weight", 8, 2},
		{"insert.head.restore.0.weight", 8, 2},
		{"insert.tail.1.weight", 24, 6},
		{"insert.tail.restore.1.weight", 24, 6},
	};
	struct local_run r;

	run_open(&r, false, head, tail, optimizer);
	for (uint64_t s = 0; s < 8; s++)
		local_run_step(&r, s, 0.005);
	assert_int_equal(sl_local_get_weights(r.local, &r.weights), SL_OK);
	for (size_t k = 0; k < sizeof param / sizeof param[0]; k++) {
		const float *w = r.weights.value[find_param(&r, param[k].name)];
		int live = param[k].live * param[k].full, moved = 0;

		for (int i = 0; i < param[k].full * param[k].full; i++) {
			assert_true(i < live || w[i] == 0);
			moved += i < live && w[i] != (i / param[k].full == i % param[k].full ? 1.0f : 0.0f);
		}
		assert_true(moved > live / 2);
	}
	local_run_close(&r);
}

static void what_has_fallen_is_zero(void **state)
{
	what_has_fallen_is_zero_with((struct sl_optimizer){.momentum = 0.9, .weight_decay = 0.01});
	what_has_fallen_is_zero_with((struct sl_optimizer){
		.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.01});
	what_has_fallen_is_zero_with((struct sl_optimizer){
		.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.01});
}

/* Evaluated with 6 of 24 features, the network equals one with a plain insert
 * of 6 features and the live weights. The reference backend gives the same. */
static void the_live_part_is_a_plain_insert(void **state)
{
	static const char text[] = "conv:24+decaylinear:rate=0.5,every=1,times=2,from=2";
	struct local_run decaying, on_ref, plain;
	uint64_t bytes[3];
	double a, b, c;

	open_scattered(&decaying, false, text);
	open_scattered(&on_ref, true, text);
	run_open(&plain, false, "", "conv:24+linear:6", (struct sl_optimizer){0});
	for (int i = 0; i < plain.plan->model->graph.n_param; i++) {
		const struct sl_param *p = &plain.plan->model->graph.param[i];
		int64_t n = sl_shape_count(&p->shape);
		const float *from = decaying.weights.value[find_param(&decaying, p->name)];

		if (strcmp(p->name, second) != 0) {
			memcpy(plain.weights.value[i], from, (size_t)n * sizeof *from);
			continue;
		}
		for (int64_t k = 0; k < n; k++) /* [24, 6], transposed from 6 of the 24 rows of [24, 24] */
			plain.weights.value[i][k] = from[k % 6 * TAIL + k / 6];
	}
	assert_int_equal(sl_local_set_weights(plain.local, &plain.weights, &(struct sl_fail){0}), SL_OK);
	a = evaluate(&decaying, &bytes[0]);
	b = evaluate(&plain, &bytes[1]);
	c = evaluate(&on_ref, &bytes[2]);
	assert_true(fabs(a - b) < 1e-5 * b);
	assert_true(fabs(a - c) < 1e-5 * c);
	assert_int_equal(bytes[0], bytes[1]);
	local_run_close(&decaying);
	local_run_close(&on_ref);
	local_run_close(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_widths),
		cmocka_unit_test(when_it_falls),
		cmocka_unit_test(advancing),
		cmocka_unit_test(what_is_pulled),
		cmocka_unit_test(numeric_gradients),
		cmocka_unit_test(what_has_fallen_is_zero),
		cmocka_unit_test(the_live_part_is_a_plain_insert),
	};

	return cmocka_run_group_tests_name("decay", tests, NULL, NULL);
}
