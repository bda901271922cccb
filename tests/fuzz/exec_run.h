/* Runs executors of one plan side by side, each behind its fence: their memory, their chunks, and the comparison. */
#ifndef SL_FUZZ_EXEC_RUN_H
#define SL_FUZZ_EXEC_RUN_H

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/fuzz/exec_fence.h"
#include "tests/fuzz/exec_settings.h"
#include "tests/ref/ref.h"

enum { MOST_BYTES = 4 << 20 };

/* ---- executors */

struct side {
	struct fence *fence; /* NULL: this side is off */
	struct sl_exec *exec;
};

static struct fence *fences[3][2]; /* [base, best, reference][threads - 1] */

static struct fence *fence_at(int level, int threads)
{
	struct fence **f = &fences[level][threads - 1];
	struct sl_pool *pool = NULL;
	struct sl_backend be;
	struct sl_fail fail;

	if (*f)
		return *f;
	*f = malloc(sizeof **f);
	if (!*f || (threads > 1 && sl_pool_open(&pool, threads, &fail)))
		abort();
	if (level == 0)
		setenv("SL_CPU_SIMD", "base", 1);
	else
		unsetenv("SL_CPU_SIMD");
	if (level == 2 ? sl_ref_backend_open(&be, &fail) : sl_cpu_backend_open(&be, pool, &fail))
		abort();
	fence_around(*f, be);
	(*f)->open = level == 2;
	return *f;
}

/* Returns false if this backend cannot compute the plan. */
static bool open_side(struct side *side, struct fence *f, const struct sl_plan *plan, bool recompute)
{
	struct sl_fail fail = {0};
	enum sl_err err;

	f->part = &plan->segment[SL_MIDDLE];
	f->cache_rows = plan->spec.batch;
	f->n_asked = 0;
	f->be.recompute = recompute;
	err = sl_exec_prepare(&side->exec, plan, SL_MIDDLE, &f->be, &fail);
	if (!err && sl_exec_memory(side->exec).total > MOST_BYTES) {
		if (getenv("FUZZ_PRINT"))
			fprintf(stderr, "it takes %zu bytes\n", sl_exec_memory(side->exec).total);
		sl_exec_close(side->exec);
		return false;
	}
	if (!err)
		err = sl_exec_allocate(side->exec, &fail);
	if (err && (!fail.text[0] || f->n_area))
		abort();
	if (err && getenv("FUZZ_PRINT"))
		fprintf(stderr, "%s\n", fail.text);
	side->fence = err ? NULL : f;
	return !err;
}

/* ---- one session */

struct chunk {
	struct sl_dims dims;
	uint32_t *begin, *pieces, *cached, *place;
};

struct run {
	const struct sl_plan *plan;
	const struct sl_plan_segment *part;
	struct settings set;
	struct side side[SIDES];
	struct chunk chunk[MOST_BATCH];
	int64_t rows[MOST_BATCH];
	int chunks;
	uint32_t filled[MOST_BATCH], random;
	uint64_t done;
};

static void must(enum sl_err err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "fuzz_exec: %s: %s\n", what, sl_err_name(err));
	abort();
}

static float value_of(struct run *r)
{
	static const float any[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f,       1e-40f,
				    0,   -0.0f,    1e10f,     -7,    2147483648.0f};
	const uint32_t n = draw(&r->random);

	if (r->set.hostile && n % 8 == 0)
		return any[n / 8 % (sizeof any / sizeof any[0])];
	return (float)(n % 4001) / 2000 - 1;
}

/* ---- how sides compare */

static bool same_float(float a, float b)
{
	return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static double largest(const float *x, const float *less, int64_t n)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)x[i] - (less ? (double)less[i] : 0)));
	return most;
}

/* Whether rounding may dominate a difference. A norm's gradient is a small rest of large sums. A large number
 * takes digits from what it is added to. Squares of exponentials may exceed the range of floats. */
static bool is_rough(const struct sl_plan_segment *part, bool back)
{
	int norms = 0;

	for (int i = 0; i < part->n_op; i++) {
		const struct sl_op *op = &part->op[i].op;

		if (op->kind == SL_OP_MATH)
			return true;
		if (op->kind == SL_OP_SCALE && (fabsf(op->u.scale.plus) > 10 || fabsf(op->u.scale.by) > 10))
			return true;
		if (op->kind == SL_OP_LEAKYRELU && fabsf(op->u.leaky.slope) > 10)
			return true;
		norms += sl_op_is_norm(op->kind) || op->kind == SL_OP_GROUPNORM || op->kind == SL_OP_BATCHNORM;
	}
	return norms > (back ? 0 : 2);
}

/* Aborts if x is too far from the reference. The tolerance grows with the effect of the noise,
 * because rounding errors grow in the same way. */
static void near(const struct run *r, const char *what, const float *x, const float *ref, const float *noisy, int64_t n)
{
	const double size = largest(ref, NULL, n), noise = largest(ref, noisy, n), off = largest(x, ref, n);

	if (!isfinite(size) || size > 1e6 || noise > 1e-3 * (size + 1e-3) || is_rough(r->part, strcmp(what, "output")))
		return;
	if (off <= 0.02 * size + 1000 * noise + 1e-4)
		return;
	fprintf(stderr, "fuzz_exec: %s is off by %g of %g, with a noise of %g\n", what, off, size, noise);
	abort();
}

/* at [SIDES]; NULL: that side is off. */
static void compare(const struct run *r, const char *what, const float *const at[SIDES], int64_t n)
{
	for (int64_t i = 0; at[SECOND] && r->set.level[0] == r->set.level[1] && i < n; i++)
		if (!same_float(at[FIRST][i], at[SECOND][i])) {
			fprintf(stderr, "fuzz_exec: %s %lld: %g and %g\n", what, (long long)i, (double)at[FIRST][i],
				(double)at[SECOND][i]);
			abort();
		}
	if (at[REFERENCE] && at[NOISY])
		near(r, what, at[FIRST], at[REFERENCE], at[NOISY], n);
}

typedef struct sl_tensor tensor_of(struct sl_exec *exec, int slot, int64_t rows);

static void compare_tensors(struct run *r, const char *what, tensor_of *of, int slot, int64_t rows)
{
	const float *at[SIDES] = {NULL};
	int64_t n = 0;

	for (int i = 0; i < SIDES; i++)
		if (r->side[i].fence) {
			const struct sl_tensor t = of(r->side[i].exec, slot, rows);

			at[i] = t.data;
			n = sl_shape_count(&t.shape);
			fence_must(fence_area_of(r->side[i].fence, t.data, fence_bytes(&t)) != NULL, NULL,
				   "a tensor lies beyond its area");
		}
	compare(r, what, at, n);
}

/* Fills all sides with the same numbers; NOISY gets almost the same. */
static void fill_tensors(struct run *r, tensor_of *of, int slot, int64_t rows)
{
	const uint32_t from = r->random;

	for (int i = 0; i < SIDES; i++) {
		struct sl_tensor t;
		float *x;

		if (!r->side[i].fence)
			continue;
		t = of(r->side[i].exec, slot, rows);
		x = t.data;
		r->random = from;
		for (int64_t k = 0; k < sl_shape_count(&t.shape); k++) {
			x[k] = value_of(r);
			if (i == NOISY)
				x[k] *= k % 3 ? 1 + 4e-6f : 1 - 4e-6f;
		}
	}
}

/* ---- weights */

/* NOISY gets almost the weights of the others. */
static void set_weights(struct run *r, int side, float *range)
{
	for (int64_t k = 0; side == NOISY && k < r->part->float_count; k++)
		range[k] *= k % 3 ? 1 + 4e-6f : 1 - 4e-6f;
	if (r->side[side].fence)
		must(sl_exec_set_weights(r->side[side].exec, range), "set weights");
}

static void fill_held(struct run *r, const struct sl_segment_param *p, float *range)
{
	uint16_t *to = (uint16_t *)(void *)(range + p->offset);

	for (int64_t k = 0; k < p->count; k++)
		to[k] = (uint16_t)(r->set.hostile
					   ? draw(&r->random)
					   : (draw(&r->random) & 0x807f) | (p->held == SL_F16 ? 0x3000 : 0x3e00));
}

static void first_weights(struct run *r)
{
	float *range = calloc((size_t)r->part->weight_count + 1, sizeof *range);

	if (!range)
		abort();
	for (int i = 0; i < r->part->n_param; i++) {
		const struct sl_segment_param *p = &r->part->param[i];

		if (p->held != SL_F32)
			fill_held(r, p, range);
		else
			sl_param_init(&r->part->graph.param[p->graph_param], r->plan->spec.seed, range + p->offset);
		for (int64_t k = 0; r->set.hostile && p->held == SL_F32 && k < p->count; k++)
			if (draw_below(&r->random, 4) == 0)
				range[p->offset + k] = value_of(r);
	}
	for (int i = 0; i < SIDES; i++)
		set_weights(r, i, range);
	free(range);
}

/* The reference continues from the first side's weights, so that differences do not add up over steps. */
static void follow_first(struct run *r)
{
	const size_t n = (size_t)r->part->weight_count + 1;
	float *first = malloc(n * sizeof *first), *second = malloc(n * sizeof *second);
	const float *at[SIDES] = {first, second};

	if (!first || !second)
		abort();
	must(sl_exec_get_weights(r->side[FIRST].exec, first), "get weights");
	if (r->side[SECOND].fence) {
		must(sl_exec_get_weights(r->side[SECOND].exec, second), "get weights");
		compare(r, "weight", at, r->part->float_count);
	}
	for (int i = REFERENCE; i <= NOISY; i++)
		set_weights(r, i, first);
	free(first);
	free(second);
}

static void compare_gradients(struct run *r)
{
	const int64_t n = r->part->trainable_count;
	float *room = malloc((size_t)n * SIDES * sizeof *room + 1);
	const float *at[SIDES] = {NULL};

	if (!room)
		abort();
	for (int i = 0; i < SIDES; i++)
		if (r->side[i].fence) {
			must(sl_exec_get_gradients(r->side[i].exec, room + i * n), "get gradients");
			at[i] = room + i * n;
		}
	compare(r, "gradient", at, n);
	free(room);
}

/* Takes a checkpoint and restores it. */
static void save_and_load(struct run *r)
{
	float *range = malloc(((size_t)r->part->weight_count + 1) * sizeof *range);

	for (int i = 0; i <= SECOND && range; i++) {
		struct sl_exec *e = r->side[i].exec;

		if (!r->side[i].fence)
			continue;
		must(sl_exec_get_model(e, range, sl_plan_fetch_count(r->part)), "get the model");
		must(sl_exec_get_weights(e, range), "get weights");
		must(sl_exec_set_weights(e, range), "set weights");
		for (int k = 0; k < r->part->moments; k++) {
			must(sl_exec_get_moment(e, k, range), "get a moment");
			must(sl_exec_set_moment(e, k, range), "set a moment");
		}
		sl_exec_set_applied(e, sl_exec_applied(e));
	}
	free(range);
}

/* ---- chunks */

static uint32_t *numbers(size_t n)
{
	uint32_t *at = calloc(n, sizeof *at);

	if (!at)
		abort();
	return at;
}

/* Draws rows of any lengths of at least one token, or all of one width. */
static void draw_lengths(struct run *r, struct chunk *c, bool whole)
{
	const struct sl_plan_spec *s = &r->plan->spec;
	const int64_t n = c->dims.rows,
		      widest = s->chunk_tokens / n < s->row_tokens ? s->chunk_tokens / n : s->row_tokens;
	const uint32_t width = whole ? (uint32_t)widest : 1 + draw_below(&r->random, (uint32_t)widest);

	for (int64_t i = 0; i < n; i++) {
		const int64_t room = s->chunk_tokens - c->begin[i] - (n - i - 1);
		const int64_t past = c->cached ? c->cached[2 * i + 1] : 0, left = s->row_tokens - past;
		const uint32_t len = 1 + draw_below(&r->random, (uint32_t)(room < left ? room : left));

		c->begin[i + 1] = c->begin[i] + (s->padded ? width : len);
		if (!s->padded)
			continue;
		c->pieces[2 * i] = c->begin[i];
		c->pieces[2 * i + 1] = c->begin[i] + 1 + draw_below(&r->random, width);
		c->pieces[2 * i + 2] = c->begin[i + 1];
	}
	c->dims.tokens = c->begin[n];
}

/* Draws ascending rows of the cache; each continues after its cached tokens. */
static void draw_cached(struct run *r, struct chunk *c, int64_t behind)
{
	const struct sl_plan_spec *s = &r->plan->spec;
	uint32_t at = (uint32_t)behind; /* earlier chunks have taken at most as many */

	for (int64_t i = 0; i < c->dims.rows; i++, at++) {
		const int64_t spare = s->batch - at - (c->dims.rows - i);
		const uint32_t row = at += draw_below(&r->random, (uint32_t)spare + 1);
		const uint32_t most = r->filled[row] < s->row_tokens ? r->filled[row] : (uint32_t)s->row_tokens - 1;

		c->cached[2 * i] = row;
		c->cached[2 * i + 1] = draw_below(&r->random, 3) ? most : draw_below(&r->random, most + 1);
	}
}

static void draw_places(struct run *r, struct chunk *c)
{
	const int64_t most = sl_plan_cut_most(r->plan, true), tokens = c->dims.tokens;
	const uint32_t n = 1 + draw_below(&r->random, (uint32_t)(most < tokens ? most : tokens));
	uint32_t at = 0;

	c->place = numbers(n);
	for (uint32_t i = 0; i < n; i++, at++)
		c->place[i] = at += draw_below(&r->random, (uint32_t)tokens - at - (n - i) + 1);
	c->dims.place = c->place;
	c->dims.chosen = n;
}

static void open_chunk(struct run *r, int at, int64_t rows)
{
	const struct sl_plan_spec *s = &r->plan->spec;
	struct chunk *c = &r->chunk[at];

	*c = (struct chunk){.dims = sl_dims_rows(rows)};
	if (!sl_plan_lengths_cross(r->plan))
		return;
	c->dims.begin = c->begin = numbers((size_t)rows + 1);
	if (s->padded)
		c->dims.pieces = c->pieces = numbers(2 * (size_t)rows + 1);
	if (s->cached) {
		c->dims.cached = c->cached = numbers(2 * (size_t)rows);
		draw_cached(r, c, 0);
	}
	draw_lengths(r, c, r->plan->whole_rows);
	for (int64_t i = 0; i < rows && s->cached; i++)
		r->filled[c->cached[2 * i]] = c->cached[2 * i + 1] + c->begin[i + 1] - c->begin[i];
	if (sl_plan_cut_chosen(r->plan))
		draw_places(r, c);
}

static void close_chunks(struct run *r)
{
	for (int i = 0; i < r->chunks; i++) {
		free(r->chunk[i].begin);
		free(r->chunk[i].pieces);
		free(r->chunk[i].cached);
		free(r->chunk[i].place);
	}
	r->chunks = 0;
}

#endif
