/* A middle from an unknown client under libFuzzer: graphs are planned, and executed on the CPU backend with a fence
 * around every kernel call (exec_fence.h). Bytes 0 to 15 are the plan's settings, bytes 16 to 31 the session's
 * actions. Then comes the graph: as nodes (exec_recipe.h), or with bit 7 of byte 0 as text.
 *
 * Two executors with different SIMD levels, threads and recompute may run side by side; with the same level they must
 * agree to the bit. The reference backend of tests/ref runs beside them, too, and once more with a little noise on its
 * inputs. The effect of the noise says how much a rounding error may grow. With FUZZ_PRINT in the environment the
 * graph is printed. */
#include <cblas.h>

#include "tests/fuzz/exec_run.h"

/* Replaces OpenBLAS, which is not instrumented. */
void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE ta,
		 OPENBLAS_CONST enum CBLAS_TRANSPOSE tb, OPENBLAS_CONST blasint m, OPENBLAS_CONST blasint n,
		 OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha, OPENBLAS_CONST float *a,
		 OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b, OPENBLAS_CONST blasint ldb,
		 OPENBLAS_CONST float beta, float *c, OPENBLAS_CONST blasint ldc)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			float sum = 0;

			for (int64_t l = 0; l < k; l++)
				sum += (ta == CblasTrans ? a[l * lda + i] : a[i * lda + l]) *
				       (tb == CblasTrans ? b[j * ldb + l] : b[l * ldb + j]);
			c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
		}
}

static struct sl_exec_call call_of(const struct run *r, int chunk, bool training)
{
	return (struct sl_exec_call){.slot = chunk,
				     .chunk = sl_plan_chunk_number(r->plan, chunk),
				     .dims = r->chunk[chunk].dims,
				     .step = r->done,
				     .training = training};
}

static void forward(struct run *r, int chunk, bool training)
{
	const struct sl_exec_call call = call_of(r, chunk, training);
	struct sl_fail fail;

	fill_tensors(r, sl_exec_input, chunk, sl_plan_cut_count(r->plan, false, &call.dims));
	for (int i = 0; i < SIDES; i++) {
		if (!r->side[i].fence)
			continue;
		must(sl_exec_cache_take(r->side[i].exec, &call.dims, &fail), "cache");
		must(sl_exec_forward(r->side[i].exec, &call, NULL), "forward");
	}
	compare_tensors(r, "output", sl_exec_output, chunk, sl_plan_cut_count(r->plan, true, &call.dims));
}

static void backward(struct run *r, int chunk)
{
	const struct sl_exec_call call = call_of(r, chunk, true);

	fill_tensors(r, sl_exec_dout, chunk, sl_plan_cut_count(r->plan, true, &call.dims));
	for (int i = 0; i < SIDES; i++)
		if (r->side[i].fence)
			must(sl_exec_backward(r->side[i].exec, &call, NULL), "backward");
	if (r->part->grad_in)
		compare_tensors(r, "din", sl_exec_din, chunk, sl_plan_cut_count(r->plan, false, &call.dims));
}

/* Draws a batch, maybe a smaller one, and its chunks; with free calls, chunks of any number of rows. */
static void open_batch(struct run *r)
{
	const int64_t batch = r->plan->spec.batch - draw_below(&r->random, (uint32_t)r->plan->spec.batch);
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	int n = sl_plan_split(r->plan, batch, rows);

	if (r->plan->spec.free_calls)
		n = 1 + (int)draw_below(&r->random, (uint32_t)sl_plan_chunks_of(r->plan, r->plan->spec.batch));
	for (int i = 0; i < n; i++) {
		r->rows[i] = r->plan->spec.free_calls ? 1 + draw_below(&r->random, (uint32_t)r->plan->rows) : rows[i];
		open_chunk(r, i, r->rows[i]);
	}
	r->chunks = n;
}

/* Commits a step, or skips it. */
static void end_step(struct run *r, bool wanted)
{
	double squares[2] = {0};
	enum sl_err err[2] = {SL_OK, SL_OK};

	for (int i = 0; i <= SECOND; i++) {
		struct sl_exec *e = r->side[i].exec;
		struct sl_fail fail = {0};

		if (!r->side[i].fence)
			continue;
		if (r->plan->spec.clip_norm > 0 && sl_exec_squares(e, &squares[i], &fail) == SL_OK)
			must(sl_exec_scale(e, squares[i] > 1 ? 1 / sqrt(squares[i]) : 1), "scale");
		err[i] = sl_exec_check(e, r->rows, r->chunks, &fail);
		if (err[i] && (err[i] != SL_ERR_NONFINITE || !fail.text[0]))
			must(err[i], "check");
		must(err[i] || !wanted ? sl_exec_skip(e) : sl_exec_commit(e, 0.05, r->rows, r->chunks), "commit");
	}
	if (r->side[SECOND].fence && r->set.level[0] == r->set.level[1] && err[0] != err[1])
		abort();
	r->done++;
	for (int i = 0; i < SIDES; i++)
		if (r->side[i].fence)
			must(sl_exec_set_done(r->side[i].exec, r->done), "follow");
	follow_first(r);
}

static void train(struct run *r, int action)
{
	const bool back = r->part->grad_out;
	int ahead = 0, done = 0, left;

	for (int i = 0; i < SIDES; i++)
		if (r->side[i].fence)
			must(sl_exec_begin(r->side[i].exec), "begin");
	open_batch(r);
	/* a chunk's backward comes any time after its forward */
	while (ahead < r->chunks || (back && done < ahead)) {
		if (ahead < r->chunks && (!back || done == ahead || draw_below(&r->random, 2)))
			forward(r, ahead++, true);
		else
			backward(r, done++);
	}
	left = action & 64 && action & 32; /* the step is abandoned: it begins again, or not */
	if (!left && back)
		compare_gradients(r);
	if (!left)
		end_step(r, !(action & 16));
	close_chunks(r);
}

static void evaluate(struct run *r)
{
	open_batch(r);
	for (int i = 0; i < r->chunks; i++)
		forward(r, i, false);
	close_chunks(r);
}

static void act(struct run *r, struct bytes actions)
{
	const double price = 3 * price_of_all(r->plan, price_of);

	for (double spent = 0; actions.left && spent < most_spent; spent += price) {
		const int action = take_byte(&actions);

		if (action % 8 == 7)
			return;
		if (action % 8 == 6)
			save_and_load(r);
		else if (action % 8 == 5 || r->plan->spec.cached)
			evaluate(r);
		else
			train(r, action);
	}
}

static void run_plan(const struct sl_plan *plan, const struct settings *set, struct bytes actions)
{
	struct run r = {.plan = plan, .part = &plan->segment[SL_MIDDLE], .set = *set, .random = set->random};
	const bool *on = set->on;

	if (!open_side(&r.side[FIRST], fence_at(set->level[0], set->threads[0]), plan, set->recompute))
		return;
	/* It may be too large with more threads, and a level may lack a precision; then this side stays closed. */
	if (on[SECOND])
		(void)open_side(&r.side[SECOND], fence_at(set->level[1], set->threads[1]), plan, !set->recompute);
	for (int i = REFERENCE; i <= NOISY && on[i] && price_of_all(plan, reference_price) < most_price; i++)
		if (!open_side(&r.side[i], fence_at(2, 1 + i - REFERENCE), plan, false))
			break;
	first_weights(&r);
	act(&r, actions);
	for (int i = 0; i < SIDES; i++)
		if (r.side[i].fence)
			sl_exec_close(r.side[i].exec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = {data, size};
	const struct settings set = settings_of(take_part(&b, SETTINGS));
	const struct bytes actions = take_part(&b, ACTIONS);
	struct sl_graph graph = {0};
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};

	if (!graph_of(&graph, &set, b))
		return 0;
	if (sl_plan_open_part(&plan, &set.spec, SL_MIDDLE, &graph, &fail)) {
		if (!fail.text[0])
			abort();
		if (getenv("FUZZ_PRINT"))
			fprintf(stderr, "%s\n", fail.text);
		sl_graph_close(&graph);
		return 0;
	}
	if (is_small(plan))
		run_plan(plan, &set, actions);
	else if (getenv("FUZZ_PRINT"))
		fprintf(stderr, "too large\n");
	sl_plan_close(plan);
	return 0;
}
