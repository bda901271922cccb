/* randomk:r — k = round(r·n) places (at least one) drawn by Philox, so that only values are sent. The tensor is cut
 * into k runs of n/k elements, at a phase drawn for each call, and one place is drawn in every run. So every element
 * has the same chance k/n, places ascend, and the number of places is exact. A gradient that is paired with its
 * activation draws the same places.
 *
 * Bounds of run j, in elements: (phase + j·⌊2^32·n/k⌋) >> 32; beyond n they wrap. The phase is made from word 0,
 * place j from word 4 + j of the stream.
 *
 * Side bytes: none. */
#include <stdatomic.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/stage.h"

enum { RATIO };
enum { RUNS = 8192, TILE = 2048 }; /* runs of one unit of work; of one call of a loop */

static const struct sl_arg args[] = {
	{.key = "ratio", .type = SL_ARG_REAL, .positional = true, .required = true, .least = 0, .most = 1},
	{0},
};

struct randomk {
	struct sl_stage_env env;
	/* of the running call */
	struct sl_rng_key key;
	uint64_t phase, step; /* in 2^-32 elements */
	int64_t n, k;
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	atomic_bool nonfinite;
};

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	*out = sl_extent_flat(sl_codec_kept(arg[RATIO], sl_shape_count(&in->shape)));
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return 0;
}

static enum sl_err open_randomk(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct randomk *r = *state;

	r->env = *env;
	return SL_OK;
}

static void prepare(struct randomk *r, const struct sl_codec_call *call, int64_t n)
{
	r->key = sl_codec_key(r->env.seed, r->env.pair_dir, call, SL_STAGE_TRANSFORM);
	r->n = n;
	r->k = sl_codec_kept(r->env.arg[RATIO], n);
	r->step = r->k ? ((uint64_t)n << 32) / (uint64_t)r->k : 0;
	r->phase = (uint64_t)((unsigned __int128)r->step * sl_rng_u32(&r->key, 0) >> 32);
}

/* The first element of run j, not wrapped. j = k: the end of the last run, where the first one begins again. */
static int64_t run_start(const struct randomk *r, int64_t j)
{
	if (j == r->k)
		return (int64_t)(r->phase >> 32) + r->n;
	return (int64_t)((r->phase + (uint64_t)j * r->step) >> 32);
}

/* Draws the places of runs first … first+count-1, wrapped. */
static void draw(const struct randomk *r, int64_t first, int64_t count, uint32_t *place)
{
	uint32_t word[TILE];

	r->env.loops->random32(&r->key, (uint64_t)first + 4, count, word);
	r->env.loops->draw(r->phase + (uint64_t)first * r->step, r->step, word, count, (uint32_t)r->n, place);
}

static int64_t block_runs(const struct randomk *r, int64_t block)
{
	int64_t left = r->k - block * RUNS;

	return left < RUNS ? left : RUNS;
}

/* Calls fn for the elements of a block's runs, which may wrap. */
static void each_range(struct randomk *r, int64_t block, void (*fn)(struct randomk *r, int64_t first, int64_t n))
{
	int64_t first = run_start(r, block * RUNS), stop = run_start(r, block * RUNS + block_runs(r, block));

	if (first < r->n)
		fn(r, first, (stop < r->n ? stop : r->n) - first);
	if (stop > r->n)
		fn(r, first > r->n ? first - r->n : 0, stop - (first > r->n ? first : r->n));
}

static void check_range(struct randomk *r, int64_t first, int64_t n)
{
	struct sl_range range = SL_RANGE_EMPTY;

	r->env.loops->minmax(r->x + first, n, &range);
	if (range.top >= SL_F32_INF_BITS)
		atomic_store_explicit(&r->nonfinite, true, memory_order_relaxed);
}

static void clear_range(struct randomk *r, int64_t first, int64_t n)
{
	memset(r->to + first, 0, (size_t)n * sizeof *r->to);
}

static void gather_block(void *arg, int64_t block, int worker)
{
	struct randomk *r = arg;
	int64_t first = block * RUNS, stop = first + block_runs(r, block);
	uint32_t place[TILE];

	each_range(r, block, check_range);
	for (; first < stop; first += TILE) {
		int64_t n = stop - first < TILE ? stop - first : TILE;

		draw(r, first, n, place);
		for (int64_t j = 0; j < n; j++)
			r->y[first + j] = r->x[place[j]];
	}
}

static void scatter_block(void *arg, int64_t block, int worker)
{
	struct randomk *r = arg;
	int64_t first = block * RUNS, stop = first + block_runs(r, block);
	uint32_t place[TILE];

	each_range(r, block, clear_range);
	for (; first < stop; first += TILE) {
		int64_t n = stop - first < TILE ? stop - first : TILE;

		draw(r, first, n, place);
		for (int64_t j = 0; j < n; j++)
			r->to[place[j]] = r->from[first + j];
	}
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct randomk *r = state;

	prepare(r, call, sl_shape_count(&xs->shape));
	r->x = x;
	r->y = y;
	r->nonfinite = false;
	sl_pool_run(r->env.pool, (r->k + RUNS - 1) / RUNS, gather_block, r);
	if (r->nonfinite)
		return SL_ERR_NONFINITE;
	*ys = sl_extent_flat(r->k);
	return SL_OK;
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct randomk *r = state;

	prepare(r, call, sl_shape_count(&xs->shape));
	if (count != r->k || side.len != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "randomk: %lld values and %zu bytes of places, expected %lld and 0",
				   (long long)count, side.len, (long long)r->k);
	*ys = sl_extent_flat(count);
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct randomk *r = state;

	r->from = y;
	r->to = x;
	sl_pool_run(r->env.pool, (r->k + RUNS - 1) / RUNS, scatter_block, r);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_randomk = {
	.id = SL_STAGE_ID_RANDOMK,
	.kind = SL_STAGE_TRANSFORM,
	.pairs = true,
	.name = "randomk",
	.usage = "randomk:r with 0 < r ≤ 1, the share of elements that is kept",
	.args = args,
	.shape = shape,
	.bound = bound,
	.size = sizeof(struct randomk),
	.open = open_randomk,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
