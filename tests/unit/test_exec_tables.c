/* An embedding with lazy updates: rows that steps do not read are updated later. Compared with updates
 * of the whole range in each step, weights, both moments and outputs have the same bits. That holds
 * through abandoned steps, evaluations, clipping, saved states, and more steps than may be pending. */

#include "common/base/rng.h"
#include "common/exec/clip.h"
#include "common/exec/exec.h"
#include "common/graph/graph.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/unit.h"

enum { VOCAB = 90, F = 24, LONGEST = 9, ROWS = 6, CHUNKS = 2, TOKENS = LONGEST * ROWS };

static const struct sl_optimizer adamw = {
	.kind = SL_OPTIMIZER_ADAMW, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6};
static const struct sl_optimizer coupled = {
	.kind = SL_OPTIMIZER_ADAM, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6};
static const struct sl_optimizer plain_adam = {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6};

struct run {
	struct sl_backend be;
	struct sl_plan *plan;
	const struct sl_plan_segment *part;
	struct sl_exec *exec;
	/* the values with updates of the whole range in each step, [n] */
	float *w, *m, *v, *g, *other;
	int64_t n;
	uint64_t applied;
	uint64_t drawn;
};

static uint32_t draw(struct run *r, uint32_t below)
{
	const struct sl_rng_key key = {.seed = 9, .step = 1, .tensor = SL_RNG_TEST};

	return sl_rng_u32(&key, r->drawn++) % below;
}

/* ---- a head: two tables of ids and one of positions, added */

static int embedding(struct sl_graph *g, const char *name, int rows, int group, bool position)
{
	const int number = g->n_param, in = 0;
	struct sl_node n = sl_node_of(SL_OP_EMBEDDING);
	struct sl_param p = {.shape = sl_shape2(rows, F), .init = {SL_INIT_NORMAL, 0.4f}, .role = SL_LEARNS};
	struct sl_fail fail = {0};
	int out = -1;

	strcpy(n.name, name);
	strcpy(p.name, name);
	p.stream = (uint32_t)number;
	p.group = group;
	n.n_in = n.n_param = 1;
	n.u.embedding.position = position;
	if (sl_graph_add_param(g, &p, &fail) || sl_graph_add_node(g, &n, &in, &number, &out, &fail))
		fail_msg("%s", fail.text);
	return out;
}

static int add(struct sl_graph *g, const char *name, int a, int b)
{
	struct sl_node n = sl_node_of(SL_OP_ADD);
	struct sl_fail fail = {0};
	int out = -1;

	strcpy(n.name, name);
	n.n_in = 2;
	if (sl_graph_add_node(g, &n, (int[]){a, b}, NULL, &out, &fail))
		fail_msg("%s", fail.text);
	return out;
}

static struct sl_plan *plan_of(const struct sl_optimizer *o)
{
	struct sl_plan_spec spec = {.batch = CHUNKS * ROWS,
				    .chunks = CHUNKS,
				    .seed = 4,
				    .row_tokens = LONGEST,
				    .chunk_tokens = TOKENS,
				    .optimizer = *o,
				    .group = {{.lr = 1.5, .weight_decay = o == &plain_adam ? 0 : 0.05}},
				    .n_group = 1,
				    .clip_norm = 1};
	struct sl_graph g = {0};
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};
	int table, out;

	if (sl_graph_add_input(&g, "tokens", SL_I32, SL_PER_TOKEN, sl_shape1(1), LONGEST, NULL, &fail))
		fail_msg("%s", fail.text);
	table = embedding(&g, "words", VOCAB, 1, false);
	out = add(&g, "with_places", table, embedding(&g, "places", LONGEST, 0, true));
	out = add(&g, "with_more", out, embedding(&g, "more", VOCAB, 1, false));
	if (sl_graph_add_output(&g, "head_act", out, NULL, &fail) ||
	    sl_plan_open_part(&plan, &spec, SL_HEAD, &g, &fail))
		fail_msg("%s", fail.text);
	return plan;
}

static const struct sl_segment_param *param(const struct run *r, const char *name)
{
	for (int i = 0; i < r->part->n_param; i++)
		if (strcmp(r->part->graph.param[r->part->param[i].graph_param].name, name) == 0)
			return &r->part->param[i];
	fail_msg("%s is missing", name);
	return NULL;
}

static void open_run(struct run *r, bool ref, const struct sl_optimizer *o)
{
	struct sl_fail fail = {0};

	*r = (struct run){.plan = plan_of(o)};
	assert_int_equal(ref ? sl_ref_backend_open(&r->be, &fail) : sl_cpu_backend_open(&r->be, NULL, &fail), SL_OK);
	r->part = &r->plan->segment[SL_HEAD];
	r->n = r->part->trainable_count;
	for (int i = 0; i < 5; i++)
		*(float **[]){&r->w, &r->m, &r->v, &r->g, &r->other}[i] = calloc((size_t)r->n, sizeof(float));
	if (sl_exec_open(&r->exec, r->plan, SL_HEAD, &r->be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < r->part->n_param; i++)
		sl_param_init(&r->part->graph.param[r->part->param[i].graph_param], 4, r->w + r->part->param[i].offset);
	assert_int_equal(sl_exec_set_weights(r->exec, r->w), SL_OK);
}

static void close_run(struct run *r)
{
	sl_exec_close(r->exec);
	sl_plan_close(r->plan);
	r->be.ops->close(&r->be);
	free(r->w);
	free(r->m);
	free(r->v);
	free(r->g);
	free(r->other);
}

/* ---- a chunk */

static void compare_outputs(struct run *r, int slot, const int32_t *id, const uint32_t *begin, int n)
{
	const float *out = sl_exec_output(r->exec, slot, begin[n]).data;
	const float *words = r->w + param(r, "words")->offset, *more = r->w + param(r, "more")->offset;
	const float *places = r->w + param(r, "places")->offset;

	for (int row = 0; row < n; row++)
		for (uint32_t t = begin[row]; t < begin[row + 1]; t++)
			for (int k = 0; k < F; k++) {
				float want = words[id[t] * F + k] + places[(t - begin[row]) * F + k];

				want += more[id[t] * F + k];
				assert_memory_equal(&want, out + t * F + k, sizeof want);
			}
}

/* The first few words are frequent, others are rare, and the last ones never occur. */
static void pass(struct run *r, int slot, bool training)
{
	struct sl_exec_call call = {.slot = slot, .chunk = slot, .step = r->applied, .training = training};
	uint32_t begin[ROWS + 1] = {0};
	int32_t id[TOKENS];
	float *dout;

	for (int i = 0; i < ROWS; i++)
		begin[i + 1] = begin[i] + 1 + draw(r, LONGEST);
	for (uint32_t t = 0; t < begin[ROWS]; t++)
		id[t] = (int32_t)draw(r, draw(r, 12) ? 5 : VOCAB - 10);
	call.dims = (struct sl_dims){.rows = ROWS, .tokens = begin[ROWS], .begin = begin};
	memcpy(sl_exec_input(r->exec, slot, begin[ROWS]).data, id, begin[ROWS] * sizeof *id);
	assert_int_equal(sl_exec_forward(r->exec, &call, NULL), SL_OK);
	compare_outputs(r, slot, id, begin, ROWS);
	if (!training)
		return;
	dout = sl_exec_dout(r->exec, slot, begin[ROWS]).data;
	for (int64_t i = 0; i < (int64_t)begin[ROWS] * F; i++)
		dout[i] = (float)draw(r, 1 << 20) * 1e-6f - 0.5f;
	assert_int_equal(sl_exec_backward(r->exec, &call, NULL), SL_OK);
}

/* ---- the same with an update of the whole range */

static void clip(struct run *r)
{
	double squares, want = 0;
	struct sl_fail fail;

	for (int i = 0; i < r->part->n_param; i++)
		want += sl_squares(r->g + r->part->param[i].offset, r->part->param[i].count);
	assert_int_equal(sl_exec_squares(r->exec, &squares, &fail), SL_OK);
	assert_true(squares == want);
	assert_int_equal(sl_exec_scale(r->exec, 0.3), SL_OK);
	for (int64_t i = 0; i < r->n; i++)
		r->g[i] *= 0.3f;
}

static void update(struct run *r, double lr)
{
	const struct sl_plan_spec *spec = &r->plan->spec;
	int64_t from = 0;

	r->applied++;
	for (int group = 0; group < 2; group++) {
		const int64_t to = r->part->group_end[group];
		struct sl_optimizer o = spec->optimizer;
		struct sl_update u;

		if (group)
			o.weight_decay = spec->group[0].weight_decay;
		u = sl_optimizer_step(&o, group ? lr * spec->group[0].lr : lr, r->applied);
		assert_int_equal(r->be.ops->update(&r->be, &u, to - from, r->w + from, r->g + from,
						   (float *[]){r->m + from, r->v + from}),
				 SL_OK);
		from = to;
	}
}

static void step(struct run *r, double lr, bool clips)
{
	const int64_t rows[CHUNKS] = {ROWS, ROWS};
	struct sl_fail fail;

	assert_int_equal(sl_exec_begin(r->exec), SL_OK);
	for (int chunk = 0; chunk < CHUNKS; chunk++)
		pass(r, chunk, true);
	assert_int_equal(sl_exec_get_gradients(r->exec, r->g), SL_OK);
	if (clips)
		clip(r);
	assert_int_equal(sl_exec_check(r->exec, rows, CHUNKS, &fail), SL_OK);
	assert_int_equal(sl_exec_commit(r->exec, lr, rows, CHUNKS), SL_OK);
	update(r, lr);
}

static void same_state(struct run *r)
{
	const size_t bytes = (size_t)r->n * sizeof(float);

	assert_int_equal(sl_exec_get_weights(r->exec, r->other), SL_OK);
	assert_memory_equal(r->other, r->w, bytes);
	assert_int_equal(sl_exec_get_moment(r->exec, 0, r->other), SL_OK);
	assert_memory_equal(r->other, r->m, bytes);
	assert_int_equal(sl_exec_get_moment(r->exec, 1, r->other), SL_OK);
	assert_memory_equal(r->other, r->v, bytes);
}

/* The process is killed, and a new one resumes from what was saved. */
static void resume(struct run *r)
{
	struct sl_fail fail;

	same_state(r);
	sl_exec_close(r->exec);
	assert_int_equal(sl_exec_open(&r->exec, r->plan, SL_HEAD, &r->be, &fail), SL_OK);
	assert_int_equal(sl_exec_set_weights(r->exec, r->w), SL_OK);
	assert_int_equal(sl_exec_set_moment(r->exec, 0, r->m), SL_OK);
	assert_int_equal(sl_exec_set_moment(r->exec, 1, r->v), SL_OK);
	sl_exec_set_applied(r->exec, r->applied);
}

static void train(bool ref, const struct sl_optimizer *o, int steps)
{
	struct run r;

	open_run(&r, ref, o);
	for (int s = 0; s < steps; s++) {
		if (s % 7 == 3) { /* abandoned */
			assert_int_equal(sl_exec_begin(r.exec), SL_OK);
			pass(&r, 0, true);
		}
		step(&r, s < 40 ? s * 1e-3 : 4e-2 * (steps - s) / steps, s % 3 == 0);
		if (s % 11 == 5)
			pass(&r, 1, false);
		if (s % 50 == 20)
			same_state(&r);
		if (s % 90 == 60)
			resume(&r);
	}
	same_state(&r);
	close_run(&r);
}

static void adamw_on_cpu(void **state)
{
	train(false, &adamw, 400);
}

static void adam_without_decay(void **state)
{
	train(false, &plain_adam, 200);
}

static void decay_within_the_gradient(void **state)
{
	train(false, &coupled, 100);
}

static void adamw_on_ref(void **state)
{
	train(true, &adamw, 200);
}

/* More steps than the list of pending ones holds, with no read of the state in between. */
static void a_long_run(void **state)
{
	struct run r;

	open_run(&r, false, &adamw);
	for (int s = 0; s < 4300; s++)
		step(&r, 1e-3, false);
	same_state(&r);
	close_run(&r);
}

static void nan_is_found(void **state)
{
	const int64_t rows[CHUNKS] = {ROWS, ROWS};
	const uint32_t begin[] = {0, 1};
	const struct sl_exec_call call = {.dims = {.rows = 1, .tokens = 1, .begin = begin}, .training = true};
	struct sl_fail fail = {0};
	double squares;
	struct run r;

	open_run(&r, false, &adamw);
	assert_int_equal(sl_exec_begin(r.exec), SL_OK);
	*(int32_t *)sl_exec_input(r.exec, 0, 1).data = VOCAB - 1;
	assert_int_equal(sl_exec_forward(r.exec, &call, NULL), SL_OK);
	memset(sl_exec_dout(r.exec, 0, 1).data, 0xff, F * sizeof(float));
	assert_int_equal(sl_exec_backward(r.exec, &call, NULL), SL_OK);
	assert_int_equal(sl_exec_check(r.exec, rows, CHUNKS, &fail), SL_ERR_NONFINITE);
	assert_int_equal(sl_exec_squares(r.exec, &squares, &fail), SL_ERR_NONFINITE);
	assert_int_equal(sl_exec_begin(r.exec), SL_OK);
	assert_int_equal(sl_exec_check(r.exec, rows, CHUNKS, &fail), SL_OK);
	close_run(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adamw_on_cpu),
		cmocka_unit_test(adam_without_decay),
		cmocka_unit_test(decay_within_the_gradient),
		cmocka_unit_test(adamw_on_ref),
		cmocka_unit_test(a_long_run),
		cmocka_unit_test(nan_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
